//! One look at a server: what it greets with.

use std::{fmt, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use trunkline_config::Snapshot;
use trunkline_protocol::{
    Capabilities,
    codec::frame::{Header, put_payload, split_packet},
    collation,
    packet::greeting::{Greeting, Opening},
};
use trunkline_session::{
    Credential,
    backend::{ServerHandshake, ServerLogin, ServerStep, TlsWish},
};
use trunkline_topology::{Address, Password, Server, TlsMode, User};

/// Servers looked at together.
const LOOKS_MAX: usize = 64;
/// The most bytes that a server may send before the login is over.
const LOGIN_BYTES_MAX: usize = 64 * 1024;
/// How long the server may take to close after `COM_QUIT`.
const FAREWELL_TIME_MAX: Duration = Duration::from_millis(200);
/// `COM_QUIT`.
const QUIT: &[u8] = &[0x01];

/// Who logs in to look. A connection that ends before its login counts on the server as aborted,
/// and too many of them make it block the proxy's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    user: String,
    credential: Credential,
}

impl Account {
    /// The first active user whose password is known.
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        let account = |user: &Arc<User>| match (&user.backend, &user.password) {
            (Some(backend), _) => {
                let credential = Credential::from_clear(backend.password.expose().as_bytes());
                Some(Self { user: backend.user.clone(), credential })
            }
            (None, password @ Password::Clear(_)) => {
                let credential = Credential::from_password(password);
                Some(Self { user: user.name.clone(), credential })
            }
            (None, Password::NativeHash(_) | Password::Sha2Hash(_) | Password::Ed25519Key(_)) => {
                None
            }
        };
        snapshot.config.users.iter().filter(|user| user.active).find_map(account)
    }
}

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Its greeting.
    pub greeting: Greeting,
    /// Why it did not let the account in, if it did not. The greeting is good all the same.
    pub refusal: Option<String>,
}

/// Why a server could not be looked at; in words for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnError(String);

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LearnError {}

impl From<io::Error> for LearnError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self("it closed the connection".to_owned()),
            _ => Self(error.to_string()),
        }
    }
}

/// Looks at every server, each for at most `time_max`, and at each address once. With an account
/// it logs in and takes its leave; without one, and where TLS is configured, it only reads the
/// greeting.
///
/// Must run within a tokio runtime. The answers are in no particular order.
pub async fn learn(
    servers: &[Arc<Server>],
    account: Option<&Account>,
    time_max: Duration,
) -> Vec<(Address, Result<Learned, LearnError>)> {
    // A login in clear is not for servers that are met encrypted only.
    let is_clear = |address: &Address| {
        let mut entries = servers.iter().filter(|server| server.key.address == *address);
        entries.all(|server| server.tls.mode == TlsMode::Disabled)
    };
    let mut distinct: Vec<&Arc<Server>> = servers.iter().collect();
    distinct.sort_by(|a, b| a.key.address.cmp(&b.key.address));
    distinct.dedup_by(|a, b| a.key.address == b.key.address);
    let turns = Arc::new(Semaphore::new(LOOKS_MAX));
    let mut looks = JoinSet::new();
    for server in distinct {
        let account = account.filter(|_| is_clear(&server.key.address)).cloned();
        let server = Arc::clone(server);
        let turns = Arc::clone(&turns);
        looks.spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            let look = timeout(time_max, look_at(&server, account)).await;
            let too_slow = || LearnError(format!("no answer within {} ms", time_max.as_millis()));
            (server.key.address.clone(), look.unwrap_or_else(|_| Err(too_slow())))
        });
    }
    looks.join_all().await
}

async fn look_at(server: &Server, account: Option<Account>) -> Result<Learned, LearnError> {
    match &server.key.address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await?;
            Conversation::new(stream).hold(account, true).await
        }
        Address::Tcp { .. } if server.resolved.is_empty() => {
            Err(LearnError("its name is not resolved".to_owned()))
        }
        Address::Tcp { .. } => {
            let stream = TcpStream::connect(server.resolved.as_slice()).await?;
            stream.set_nodelay(true)?;
            Conversation::new(stream).hold(account, false).await
        }
    }
}

/// What is said on one connection.
struct Conversation<S> {
    stream: S,
    /// Bytes that came and were not used yet.
    inbox: Vec<u8>,
    /// Bytes that came in all.
    received: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<S> {
    fn new(stream: S) -> Self {
        Self { stream, inbox: Vec::new(), received: 0 }
    }

    async fn hold(
        mut self,
        account: Option<Account>,
        is_local: bool,
    ) -> Result<Learned, LearnError> {
        let (header, payload) = self.packet().await?;
        let greeting = match Opening::parse(&payload) {
            Ok(Opening::Greeting(greeting)) => greeting,
            Ok(Opening::Refused(error)) => {
                let message = String::from_utf8_lossy(error.message);
                return Err(LearnError(format!("error {}: {message}", error.code)));
            }
            Err(malformed) => return Err(LearnError(format!("no greeting: {malformed}"))),
        };
        let refusal = match account {
            Some(account) => self.log_in(account, is_local, header, &payload).await.err(),
            None => None,
        };
        Ok(Learned { greeting, refusal: refusal.map(|error| error.0) })
    }

    /// Logs in with the greeting that has come, and quits.
    async fn log_in(
        &mut self,
        account: Account,
        is_local: bool,
        mut header: Header,
        greeting: &[u8],
    ) -> Result<(), LearnError> {
        let mut handshake = ServerHandshake::new(ServerLogin {
            user: account.user,
            credential: account.credential,
            schema: None,
            collation: collation::UTF8MB4_GENERAL_CI,
            capabilities: Capabilities::PROTOCOL_41,
            zstd_level: 0,
            attributes: vec![(b"program_name".to_vec(), b"trunkline monitor".to_vec())],
            is_local,
            tls: TlsWish::Never,
        });
        let mut payload = greeting.to_vec();
        let mut out = Vec::new();
        loop {
            let mut step = handshake.on_packet(header, &payload, &mut out);
            if let ServerStep::Encrypt { public_key_pem, plaintext } = step {
                let cipher =
                    trunkline_crypto::encrypt_oaep_sha1(&public_key_pem, plaintext.expose());
                step = handshake.on_encrypted(cipher.ok(), &mut out);
            }
            match step {
                ServerStep::Continue | ServerStep::Encrypt { .. } => {
                    self.stream.write_all(&out).await?;
                    out.clear();
                }
                ServerStep::Ready(_) => {
                    put_payload(&mut out, 0, QUIT);
                    self.stream.write_all(&out).await?;
                    // The server closes first, so that its port is free at once.
                    drop(timeout(FAREWELL_TIME_MAX, self.stream.read(&mut [0; 64])).await);
                    return Ok(());
                }
                ServerStep::StartTls => {
                    return Err(LearnError("TLS was not asked for".to_owned()));
                }
                ServerStep::Failed(failure) => return Err(LearnError(failure.to_string())),
            }
            (header, payload) = self.packet().await?;
        }
    }

    /// The next packet.
    async fn packet(&mut self) -> Result<(Header, Vec<u8>), LearnError> {
        let mut chunk = [0; 4096];
        loop {
            if let Some((header, payload, rest)) = split_packet(&self.inbox) {
                let (payload, rest) = (payload.to_vec(), rest.to_vec());
                self.inbox = rest;
                return Ok((header, payload));
            }
            let len = self.stream.read(&mut chunk).await?;
            self.received = self.received.saturating_add(len);
            let came = chunk.get(..len).unwrap_or_default();
            if came.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            if self.received > LOGIN_BYTES_MAX {
                return Err(LearnError(format!(
                    "more than {LOGIN_BYTES_MAX} bytes before a login"
                )));
            }
            self.inbox.extend_from_slice(came);
        }
    }
}

#[cfg(test)]
mod tests;
