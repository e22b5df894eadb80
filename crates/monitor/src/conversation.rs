//! What the control plane says to one server: the login, encrypted where that is configured, and
//! questions with short answers.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    task::spawn_blocking,
    time::timeout,
};
use trunkline_net::{Connector, Received, Sealed, Tls, TlsSetup};
use trunkline_protocol::{
    Capabilities, Reader,
    codec::frame::{Header, put_payload, split_packet},
    collation,
    packet::{
        eof, err,
        greeting::{Greeting, Opening},
        ok,
    },
};
use trunkline_session::backend::{ServerHandshake, ServerLogin, ServerStep, TlsWish};
use trunkline_topology::{Address, PinnedKeys, Secret, Server, TlsMode};

use crate::{
    Account, LearnError,
    learn::{FAREWELL_TIME_MAX, LOGIN_BYTES_MAX, QUIT},
};

/// Bytes read at once.
const CHUNK_LEN: usize = 16 * 1024;
/// Bytes that were used and are kept in front of others.
const USED_MAX: usize = 256 * 1024;
/// `COM_QUERY`.
const QUERY: u8 = 0x03;
/// The longest row.
const ROW_LEN_MAX: usize = 1 << 20;

/// A socket of either kind.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// One row of an answer; `None` is NULL.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    /// The names of its columns.
    pub(crate) columns: Vec<Vec<u8>>,
    /// Its rows, with a value for each column.
    pub(crate) rows: Vec<Row>,
    /// How many warnings it has.
    pub(crate) warnings: u16,
}

/// How a server is met.
#[derive(Clone)]
pub(crate) struct Way {
    wish: TlsWish,
    is_local: bool,
    keys: Arc<PinnedKeys>,
    /// What TLS works with, and the server's host.
    tls: Option<(Arc<TlsSetup>, Arc<Server>)>,
}

impl Way {
    /// As the configuration says of the server.
    pub(crate) fn to(server: &Arc<Server>, tls: &Arc<TlsSetup>) -> Self {
        let wish = match server.tls.mode {
            TlsMode::Disabled => TlsWish::Never,
            TlsMode::Preferred => TlsWish::Offered,
            TlsMode::Required | TlsMode::VerifyCa | TlsMode::VerifyIdentity => TlsWish::Always,
        };
        let is_local = matches!(server.key.address, Address::Unix(_));
        let keys = Arc::clone(&server.keys);
        Self { wish, is_local, keys, tls: Some((Arc::clone(tls), Arc::clone(server))) }
    }

    /// What TLS as `user` works with, and the host.
    fn connector(&self, user: &str) -> Result<(&Connector, &str), LearnError> {
        let (setup, server) = self.tls.as_ref().ok_or_else(no_tls)?;
        let params = server.tls.params_of(user);
        let connector = setup.connector(&server.key.address, server.tls.mode, params);
        match (&server.key.address, connector) {
            (Address::Tcp { host, .. }, Some(connector)) => Ok((connector, host)),
            (Address::Tcp { .. } | Address::Unix(_), _) => Err(no_tls()),
        }
    }
}

fn no_tls() -> LearnError {
    LearnError::new("its TLS configuration has changed meanwhile")
}

/// Connects to a server.
pub(crate) async fn connect(server: &Server) -> Result<Conversation, LearnError> {
    let stream: Box<dyn Socket> = match &server.key.address {
        Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Address::Tcp { .. } if server.resolved.is_empty() => {
            return Err(LearnError::new("its name is not resolved"));
        }
        Address::Tcp { .. } => {
            let stream = TcpStream::connect(server.resolved.as_slice()).await?;
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
    };
    Ok(Conversation::new(stream))
}

/// Connects and logs in; what the server said of itself.
pub(crate) async fn open(
    server: &Server,
    account: &Account,
    way: &Way,
) -> Result<(Conversation, Greeting), LearnError> {
    let mut conversation = connect(server).await?;
    let (greeting, header, payload) = conversation.greeting().await?;
    conversation.log_in(account, way, header, payload).await?;
    Ok((conversation, greeting))
}

/// Somebody who can ask.
pub(crate) fn asker(account: Option<&Account>) -> Result<&Account, LearnError> {
    let why = "nobody can ask: no user has a password that opens servers";
    account.ok_or_else(|| LearnError::new(why))
}

/// What is said on one connection.
pub(crate) struct Conversation {
    stream: Box<dyn Socket>,
    tls: Option<Box<Tls>>,
    /// Where bytes of TLS are decrypted.
    scratch: Vec<u8>,
    sealed: Sealed,
    /// Bytes that came; those before `used` are done with.
    inbox: Vec<u8>,
    used: usize,
    /// Bytes that came in all, and how many may.
    received: usize,
    received_max: usize,
}

impl Conversation {
    pub(crate) fn new(stream: Box<dyn Socket>) -> Self {
        Self {
            stream,
            tls: None,
            scratch: Vec::new(),
            sealed: Sealed::default(),
            inbox: Vec::new(),
            used: 0,
            received: 0,
            received_max: LOGIN_BYTES_MAX,
        }
    }

    /// The greeting, and the packet that it came in.
    pub(crate) async fn greeting(&mut self) -> Result<(Greeting, Header, Vec<u8>), LearnError> {
        let (header, payload) = self.packet().await?;
        match Opening::parse(&payload) {
            Ok(Opening::Greeting(greeting)) => Ok((greeting, header, payload)),
            Ok(Opening::Refused(error)) => {
                let message = String::from_utf8_lossy(error.message);
                Err(LearnError::answered(format!("error {}: {message}", error.code)))
            }
            Err(malformed) => Err(LearnError::new(format!("no greeting: {malformed}"))),
        }
    }

    /// Logs in, in answer to the greeting in this packet.
    pub(crate) async fn log_in(
        &mut self,
        account: &Account,
        way: &Way,
        mut header: Header,
        mut payload: Vec<u8>,
    ) -> Result<(), LearnError> {
        let mut handshake = ServerHandshake::new(ServerLogin {
            user: account.user.clone(),
            credential: account.credential.clone(),
            schema: None,
            collation: collation::UTF8MB4_GENERAL_CI,
            capabilities: Capabilities::PROTOCOL_41,
            zstd_level: 0,
            attributes: vec![(b"program_name".to_vec(), b"trunkline monitor".to_vec())],
            is_local: way.is_local,
            tls: way.wish,
            keys: Arc::clone(&way.keys),
        });
        let mut out = Vec::new();
        loop {
            let mut step = handshake.on_packet(header, &payload, &mut out);
            if let ServerStep::Encrypt { public_key_pem, plaintext } = step {
                let cipher =
                    trunkline_crypto::encrypt_oaep_sha1(&public_key_pem, plaintext.expose());
                step = handshake.on_encrypted(cipher.ok(), &mut out);
            }
            if let ServerStep::Derive { password, derivation } = step {
                let seed = spawn_blocking(move || derivation.seed(password.expose())).await;
                step = handshake.on_derived(seed.ok().map(Secret::new), &mut out);
            }
            match step {
                ServerStep::Continue | ServerStep::Encrypt { .. } | ServerStep::Derive { .. } => {}
                ServerStep::Ready(_) => return Ok(()),
                ServerStep::StartTls => {
                    self.send(&out).await?;
                    out.clear();
                    let (connector, host) = way.connector(&account.user)?;
                    self.start_tls(connector, host).await?;
                    handshake.on_tls(&mut out);
                }
                ServerStep::Failed(failure) => return Err(LearnError::new(failure.to_string())),
            }
            self.send(&out).await?;
            out.clear();
            (header, payload) = self.packet().await?;
        }
    }

    /// Asks, and gives the rows of the answer, of at most `len_max` bytes in all.
    pub(crate) async fn query(
        &mut self,
        sql: &str,
        len_max: usize,
    ) -> Result<Vec<Row>, LearnError> {
        Ok(self.ask(sql, len_max).await?.rows)
    }

    /// Has the server do something that it answers without rows.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<(), LearnError> {
        self.received = 0;
        self.received_max = LOGIN_BYTES_MAX;
        let mut out = Vec::new();
        put_payload(&mut out, 0, &[&[QUERY], sql.as_bytes()].concat());
        self.send(&out).await?;
        let (_, first) = self.packet().await?;
        match first.first() {
            Some(&ok::HEADER) => Ok(()),
            Some(&err::HEADER) => Err(refused(&first)),
            Some(_) | None => Err(malformed("rows where none are expected")),
        }
    }

    /// Asks for rows of at most `len_max` bytes in all, with the names of their columns.
    pub(crate) async fn ask(&mut self, sql: &str, len_max: usize) -> Result<Answer, LearnError> {
        self.received = 0;
        self.received_max = len_max;
        let mut out = Vec::new();
        put_payload(&mut out, 0, &[&[QUERY], sql.as_bytes()].concat());
        self.send(&out).await?;
        let (_, first) = self.packet().await?;
        if first.first() == Some(&err::HEADER) {
            return Err(refused(&first));
        }
        let count = Reader::new(&first).lenenc_int("number of columns").map_err(malformed)?;
        let mut answer = Answer::default();
        for _ in 0..count {
            let (_, definition) = self.packet().await?;
            answer.columns.push(name_of(&definition)?);
        }
        // The packet that ends the definitions.
        self.packet().await?;
        loop {
            let (_, payload) = self.packet().await?;
            match payload.first() {
                Some(&err::HEADER) => return Err(refused(&payload)),
                Some(&eof::HEADER) if payload.len() < 9 => {
                    answer.warnings = eof::parse(&payload).map_err(malformed)?.warnings;
                    return Ok(answer);
                }
                Some(_) | None => answer.rows.push(row(&payload, count)?),
            }
        }
    }

    /// Sends a command whose answer is read as it comes, with [`bytes`](Self::bytes).
    pub(crate) async fn command(&mut self, payload: &[u8]) -> Result<(), LearnError> {
        let mut out = Vec::new();
        put_payload(&mut out, 0, payload);
        self.send(&out).await
    }

    /// The bytes that come next, however many; it waits for some.
    pub(crate) async fn bytes(&mut self) -> Result<&[u8], LearnError> {
        self.received = 0;
        self.received_max = usize::MAX;
        if self.used >= self.inbox.len() {
            self.inbox.clear();
            self.used = 0;
        }
        while self.used >= self.inbox.len() {
            self.fill().await?;
        }
        let begin = self.used;
        self.used = self.inbox.len();
        Ok(self.inbox.get(begin..).unwrap_or_default())
    }

    /// Takes leave. The server closes first, so that its port is free at once.
    pub(crate) async fn quit(mut self) -> Result<(), LearnError> {
        let mut out = Vec::new();
        put_payload(&mut out, 0, QUIT);
        self.send(&out).await?;
        drop(timeout(FAREWELL_TIME_MAX, self.stream.read(&mut [0; 64])).await);
        Ok(())
    }

    /// Begins TLS. What has come behind the greeting belongs to it.
    async fn start_tls(&mut self, connector: &Connector, host: &str) -> Result<(), LearnError> {
        let tls = Tls::connect(connector, host).map_err(LearnError::new)?;
        self.tls = Some(Box::new(tls));
        let early = self.inbox.split_off(self.used.min(self.inbox.len()));
        self.scratch = early;
        let len = self.scratch.len();
        self.take_sealed(len).await?;
        while self.tls.as_ref().is_some_and(|tls| !tls.is_up()) {
            self.fill().await?;
        }
        Ok(())
    }

    /// Decrypts the first `len` bytes of the scratch buffer into the inbox.
    async fn take_sealed(&mut self, len: usize) -> Result<(), LearnError> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let inbox = &mut self.inbox;
        let mut sink = |received: Received<'_>| match received {
            Received::Data(bytes, _) => inbox.extend_from_slice(bytes),
            Received::Up(_) => {}
        };
        let bytes = self.scratch.get_mut(..len).unwrap_or_default();
        let result = tls.receive(bytes, &mut sink);
        let unsent = tls.unsent().to_vec();
        tls.sent(unsent.len());
        // After an error this is its reason for the other end, which may have gone.
        let sent = self.stream.write_all(&unsent).await;
        result.map_err(|reason| LearnError::new(format!("TLS failed: {reason}")))?;
        Ok(sent?)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), LearnError> {
        let Some(tls) = &mut self.tls else {
            return Ok(self.stream.write_all(bytes).await?);
        };
        self.sealed.clear();
        if !bytes.is_empty() {
            tls.seal(bytes, &mut self.sealed).map_err(LearnError::new)?;
        }
        Ok(self.stream.write_all(self.sealed.bytes()).await?)
    }

    /// The next packet.
    async fn packet(&mut self) -> Result<(Header, Vec<u8>), LearnError> {
        loop {
            let unread = self.inbox.get(self.used..).unwrap_or_default();
            if let Some((header, payload, rest)) = split_packet(unread) {
                let payload = payload.to_vec();
                self.used = self.inbox.len() - rest.len();
                return Ok((header, payload));
            }
            if unread.len() > ROW_LEN_MAX {
                return Err(LearnError::new(format!("a packet of more than {ROW_LEN_MAX} bytes")));
            }
            if self.used > USED_MAX || self.used == self.inbox.len() {
                self.inbox.drain(..self.used);
                self.used = 0;
            }
            self.fill().await?;
        }
    }

    /// Reads what has come, and waits for it.
    async fn fill(&mut self) -> Result<(), LearnError> {
        let begin = self.tls.as_ref().map_or(0, |tls| tls.waiting_len());
        self.scratch.resize(begin + CHUNK_LEN, 0);
        let room = self.scratch.get_mut(begin..).unwrap_or_default();
        let len = self.stream.read(room).await?;
        if len == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        self.received = self.received.saturating_add(len);
        if self.received > self.received_max {
            let max = self.received_max;
            return Err(LearnError::new(format!("more than {max} bytes where fewer are expected")));
        }
        match self.tls.is_some() {
            true => self.take_sealed(begin + len).await?,
            false => {
                let came = self.scratch.get(..len).unwrap_or_default();
                self.inbox.extend_from_slice(came);
            }
        }
        Ok(())
    }
}

fn refused(payload: &[u8]) -> LearnError {
    match err::parse(payload) {
        Ok(error) => {
            let message = String::from_utf8_lossy(error.message);
            LearnError::answered(format!("error {}: {message}", error.code))
        }
        Err(wrong) => malformed(wrong),
    }
}

fn malformed(wrong: impl std::fmt::Display) -> LearnError {
    LearnError::new(format!("its answer is malformed: {wrong}"))
}

/// A column's name in its definition: behind catalog, schema and both names of the table.
fn name_of(definition: &[u8]) -> Result<Vec<u8>, LearnError> {
    let mut reader = Reader::new(definition);
    for _ in 0..4 {
        reader.lenenc_bytes("column definition").map_err(malformed)?;
    }
    Ok(reader.lenenc_bytes("column name").map_err(malformed)?.to_vec())
}

fn row(payload: &[u8], columns: u64) -> Result<Row, LearnError> {
    /// Stands for NULL.
    const NULL: u8 = 0xFB;
    let mut reader = Reader::new(payload);
    let mut row = Vec::new();
    for _ in 0..columns {
        if reader.rest().first() == Some(&NULL) {
            reader.u8("NULL").map_err(malformed)?;
            row.push(None);
            continue;
        }
        row.push(Some(reader.lenenc_bytes("value").map_err(malformed)?.to_vec()));
    }
    Ok(row)
}
