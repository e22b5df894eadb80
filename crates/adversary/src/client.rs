//! A blocking client of one connection, which hides nothing of an answer and sends nothing by
//! itself.

mod answer;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header, put_payload};
use trunkline_session::Credential;
use trunkline_session::backend::{ServerHandshake, ServerIdentity, ServerLogin, ServerStep};
use trunkline_topology::{PinnedKeys, Secret};

pub use answer::{Answer, Refusal, Rows};

/// How long an answer may take before the program counts as stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);
/// `utf8mb4_general_ci`, one byte in the handshake.
const COLLATION: u16 = 45;
/// What is asked for: several statements and results, and rows that end in an EOF packet.
const CAPABILITIES: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS);

const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const PING: u8 = 0x0E;
const STMT_PREPARE: u8 = 0x16;
const STMT_EXECUTE: u8 = 0x17;
const STMT_CLOSE: u8 = 0x19;
const RESET_CONNECTION: u8 = 0x1F;

/// A connection that is logged in.
pub struct Client {
    stream: TcpStream,
    buf: Vec<u8>,
    taken: usize,
    identity: Option<ServerIdentity>,
    /// Statements prepared by command, by text.
    statements: BTreeMap<Vec<u8>, u32>,
}

impl Client {
    /// Logs in on a port of loopback. An empty `schema` means none.
    ///
    /// # Errors
    /// When nothing answers or the log-in is refused.
    pub fn login(port: u16, user: &str, password: &str, schema: &str) -> Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("nothing answers on port {port}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let (buf, statements) = (Vec::new(), BTreeMap::new());
        let mut client = Client { stream, buf, taken: 0, identity: None, statements };
        let handshake = ServerHandshake::new(login(user, password, schema));
        match client.shake(handshake, Vec::new())? {
            Ok(()) => Ok(client),
            Err(refusal) => bail!("log-in of {user} refused: {refusal}"),
        }
    }

    /// The id that `KILL` takes.
    #[must_use]
    pub fn connection_id(&self) -> u32 {
        self.identity.as_ref().map_or(0, |identity| identity.greeting.connection_id)
    }

    fn shake(
        &mut self,
        mut handshake: ServerHandshake,
        mut out: Vec<u8>,
    ) -> Result<Result<(), Refusal>> {
        loop {
            self.stream.write_all(&out)?;
            out.clear();
            let (header, payload) = self.packet()?;
            // Whoever it is, it is the one that the program means.
            let sent = payload.strip_prefix(b"\x01").and_then(|key| std::str::from_utf8(key).ok());
            if let Some(Ok(keys)) = sent.map(PinnedKeys::parse) {
                handshake.trust(Arc::new(keys));
            }
            let mut step = handshake.on_packet(header, &payload, &mut out);
            if let ServerStep::Derive { password, derivation } = step {
                let seed = Secret::new(derivation.seed(password.expose()));
                step = handshake.on_derived(Some(seed), &mut out);
            }
            if let ServerStep::Encrypt { public_key_pem, plaintext } = step {
                let text = plaintext.expose();
                let sealed = trunkline_crypto::encrypt_oaep_sha1(&public_key_pem, text)?;
                step = handshake.on_encrypted(Some(sealed), &mut out);
            }
            match step {
                ServerStep::Continue => {}
                ServerStep::StartTls => bail!("TLS without being asked"),
                ServerStep::Encrypt { .. } | ServerStep::Derive { .. } => {
                    bail!("asked twice to compute")
                }
                ServerStep::Ready(identity) => {
                    self.identity = Some(*identity);
                    return Ok(Ok(()));
                }
                ServerStep::Failed(failure) => {
                    return Ok(Err(Refusal {
                        code: failure.code,
                        sqlstate: String::from_utf8_lossy(&failure.sqlstate).into_owned(),
                        text: failure.message,
                    }));
                }
            }
        }
    }

    /// `COM_QUERY`.
    pub fn query(&mut self, text: &[u8]) -> Vec<Answer> {
        self.command(QUERY, text)
    }

    /// Sends `COM_QUERY` and does not wait for its answer, which [`Client::answers`] gives.
    pub fn send_query(&mut self, text: &[u8]) -> bool {
        self.send(QUERY, text).is_ok()
    }

    /// The answer to what was sent.
    pub fn answers(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        if let Err(error) = self.results_into(&mut answers) {
            answers.push(Answer::of_failure(&error));
        }
        answers
    }

    /// `COM_STMT_PREPARE` where this text is not yet prepared, then `COM_STMT_EXECUTE`.
    pub fn prepared(&mut self, text: &[u8]) -> Vec<Answer> {
        let id = match self.statements.get(text) {
            Some(id) => *id,
            None => match self.prepare(text) {
                Ok(Ok(id)) => {
                    self.statements.insert(text.to_vec(), id);
                    id
                }
                Ok(Err(refusal)) => return vec![Answer::Error(refusal)],
                Err(error) => return vec![Answer::of_failure(&error)],
            },
        };
        let mut body = id.to_le_bytes().to_vec();
        body.extend([0, 1, 0, 0, 0]);
        self.command(STMT_EXECUTE, &body)
    }

    /// Closes all statements that were prepared by command; nothing answers.
    pub fn close_statements(&mut self) -> Vec<Answer> {
        for id in std::mem::take(&mut self.statements).into_values() {
            if self.send(STMT_CLOSE, &id.to_le_bytes()).is_err() {
                return vec![Answer::Lost];
            }
        }
        Vec::new()
    }

    /// `COM_RESET_CONNECTION`.
    pub fn reset(&mut self) -> Vec<Answer> {
        self.statements.clear();
        self.command(RESET_CONNECTION, &[])
    }

    /// `COM_PING`.
    pub fn ping(&mut self) -> Vec<Answer> {
        self.command(PING, &[])
    }

    /// `COM_INIT_DB`.
    pub fn init_db(&mut self, schema: &str) -> Vec<Answer> {
        self.command(INIT_DB, schema.as_bytes())
    }

    /// `COM_CHANGE_USER`; nothing comes back when it succeeds.
    pub fn change_user(&mut self, user: &str, password: &str, schema: &str) -> Vec<Answer> {
        self.statements.clear();
        let Some(identity) = self.identity.clone() else { return vec![Answer::Lost] };
        let mut out = Vec::new();
        let handshake =
            ServerHandshake::change_user(login(user, password, schema), identity, &mut out);
        match self.shake(handshake, out) {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(refusal)) => vec![Answer::Error(refusal)],
            Err(error) => vec![Answer::of_failure(&error)],
        }
    }

    /// The first column of each row, of a statement that must succeed.
    ///
    /// # Errors
    /// When it fails.
    pub fn column(&mut self, text: &str) -> Result<Vec<Option<String>>> {
        let mut column = Vec::new();
        for answer in self.query(text.as_bytes()) {
            match answer {
                Answer::Ok { .. } => {}
                Answer::Rows(rows) => {
                    column = rows.text().into_iter().map(|row| row.into_iter().next()?).collect();
                }
                Answer::Error(refusal) => bail!("{text:.200}: {refusal}"),
                Answer::Lost | Answer::Silent => bail!("{text:.200}: the connection is lost"),
            }
        }
        Ok(column)
    }

    fn prepare(&mut self, text: &[u8]) -> Result<Result<u32, Refusal>> {
        self.send(STMT_PREPARE, text)?;
        let (_, first) = self.packet()?;
        if first.first() != Some(&0) {
            return Ok(Err(Refusal::parse(&first)?));
        }
        let at = |from: usize, to: usize| first.get(from..to).context("a short answer");
        let id = u32::from_le_bytes(at(1, 5)?.try_into()?);
        let columns = u16::from_le_bytes(at(5, 7)?.try_into()?);
        let parameters = u16::from_le_bytes(at(7, 9)?.try_into()?);
        for definitions in [parameters, columns] {
            for _ in 0..u32::from(definitions) + u32::from(definitions > 0) {
                self.packet()?;
            }
        }
        Ok(Ok(id))
    }

    fn command(&mut self, code: u8, body: &[u8]) -> Vec<Answer> {
        match self.send(code, body) {
            Ok(()) => self.answers(),
            Err(_) => vec![Answer::Lost],
        }
    }

    fn send(&mut self, code: u8, body: &[u8]) -> Result<()> {
        let mut payload = Vec::with_capacity(body.len() + 1);
        payload.push(code);
        payload.extend_from_slice(body);
        let mut out = Vec::with_capacity(payload.len() + HEADER_LEN);
        put_payload(&mut out, 0, &payload);
        Ok(self.stream.write_all(&out)?)
    }

    fn results_into(&mut self, answers: &mut Vec<Answer>) -> Result<()> {
        loop {
            let (_, first) = self.packet()?;
            let answer = match first.first() {
                Some(0x00) => Answer::of_ok(&first)?,
                // A report of progress.
                Some(0xFF) if first.starts_with(&[0xFF, 0xFF, 0xFF]) => continue,
                Some(0xFF) => Answer::Error(Refusal::parse(&first)?),
                Some(_) => self.rows(&first)?,
                None => bail!("an empty packet as answer"),
            };
            let follows = answer.has_more();
            answers.push(answer);
            if !follows {
                return Ok(());
            }
        }
    }

    fn rows(&mut self, first: &[u8]) -> Result<Answer> {
        let mut rows = Rows::new(first)?;
        for _ in 0..rows.column_count() {
            let (_, definition) = self.packet()?;
            rows.columns.push(definition);
        }
        self.packet()?;
        loop {
            let (_, packet) = self.packet()?;
            match packet.first() {
                Some(0xFF) => return Ok(Answer::Error(Refusal::parse(&packet)?)),
                Some(0xFE) if packet.len() < 9 => {
                    rows.end(&packet)?;
                    return Ok(Answer::Rows(rows));
                }
                Some(_) | None => rows.rows.push(packet),
            }
        }
    }

    fn packet(&mut self) -> Result<(Header, Vec<u8>)> {
        let mut payload = Vec::new();
        loop {
            let bytes = self.buf.get(self.taken..).unwrap_or_default();
            let Some(header) = Header::read(bytes) else {
                self.fill()?;
                continue;
            };
            let len = HEADER_LEN + header.payload_len;
            let Some(content) = bytes.get(HEADER_LEN..len) else {
                self.fill()?;
                continue;
            };
            payload.extend_from_slice(content);
            self.taken += len;
            if !header.is_continued() {
                return Ok((header, payload));
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.buf.drain(..self.taken);
        self.taken = 0;
        let mut chunk = [0; 16 * 1024];
        let count = match self.stream.read(&mut chunk) {
            // A machine that is frozen for a moment interrupts reads that have a timeout.
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            read => read.context("no answer")?,
        };
        if count == 0 {
            bail!("the other side closed the connection");
        }
        self.buf.extend_from_slice(chunk.get(..count).unwrap_or_default());
        Ok(())
    }
}

fn login(user: &str, password: &str, schema: &str) -> ServerLogin {
    ServerLogin {
        user: user.to_owned(),
        credential: Credential::from_clear(password.as_bytes()),
        schema: Some(schema.as_bytes().to_vec()).filter(|schema| !schema.is_empty()),
        collation: COLLATION,
        capabilities: CAPABILITIES,
        zstd_level: 3,
        attributes: Vec::new(),
        is_local: false,
        tls: Default::default(),
        keys: Default::default(),
    }
}
