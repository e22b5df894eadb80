//! A blocking client that shows each byte: what drivers hide, tests compare.

mod outcome;
mod packing;
mod stream;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustls::{ClientConfig, ClientConnection};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::Reader;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header, put_payload};
pub use trunkline_protocol::command::code;
use trunkline_protocol::packet::greeting::{Greeting, Opening};
use trunkline_protocol::packet::ok;
use trunkline_protocol::packet::status;
use trunkline_session::Credential;
use trunkline_session::backend::{
    ServerFailure, ServerHandshake, ServerIdentity, ServerLogin, ServerStep, TlsWish,
};
use trunkline_testkit::{Server, Trunkline};

pub use outcome::{ErrorPacket, Outcome, is_progress};
pub use packing::Packing;
use stream::{Socket, Stream};

/// `utf8mb4_general_ci`, one byte in the handshake.
const COLLATION: u16 = 45;

/// What ordinary drivers ask for, without `DEPRECATE_EOF` and `SESSION_TRACK`.
pub const PLAIN: Capabilities = Capabilities::LONG_PASSWORD
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS);

/// What today's drivers ask for.
pub const MODERN: Capabilities =
    PLAIN.union(Capabilities::DEPRECATE_EOF).union(Capabilities::SESSION_TRACK);

/// Where to connect to.
#[derive(Clone, Debug)]
pub enum Endpoint {
    Tcp(u16),
    Unix(PathBuf),
}

impl From<&Trunkline> for Endpoint {
    fn from(proxy: &Trunkline) -> Endpoint {
        Endpoint::Tcp(proxy.port())
    }
}

impl From<&Server> for Endpoint {
    fn from(server: &Server) -> Endpoint {
        Endpoint::Tcp(server.port())
    }
}

/// How the answer to a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `COM_QUERY`, `COM_STMT_EXECUTE`: results until none follows.
    Results,
    /// `COM_STMT_PREPARE`.
    Prepare,
    /// One packet.
    Single,
    /// `COM_FIELD_LIST`: definitions until EOF; `COM_STMT_FETCH`: rows until EOF.
    UntilEof,
    /// Nothing comes.
    Nothing,
}

/// A log-in that did not work.
#[derive(Debug, thiserror::Error)]
#[error("log-in refused: {0:?}")]
pub struct Refused(pub ErrorPacket);

/// A connection that is logged in.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    buf: Vec<u8>,
    taken: usize,
    pub capabilities: Capabilities,
    pub identity: Option<ServerIdentity>,
    /// Names of the packets of the handshake, for what it did: `greeting`, `switch`, `more 3`, …
    pub steps: Vec<String>,
    /// Compression, once it was agreed on.
    pub packing: Option<Packing>,
    /// The packet that ended the login.
    pub ok: Vec<u8>,
    /// What TLS is begun with when the login asks for it.
    pub tls: Option<Arc<ClientConfig>>,
}

impl Wire {
    /// Connects and reads nothing.
    pub fn open(endpoint: impl Into<Endpoint>) -> Result<Wire> {
        let stream = Stream::open(&endpoint.into())?;
        let capabilities = Capabilities::EMPTY;
        Ok(Wire::on(stream, capabilities))
    }

    fn on(stream: Stream, capabilities: Capabilities) -> Wire {
        let (buf, steps) = (Vec::new(), Vec::new());
        Wire {
            stream,
            buf,
            taken: 0,
            capabilities,
            identity: None,
            steps,
            packing: None,
            ok: Vec::new(),
            tls: None,
        }
    }

    /// Logs in with a password, wanting [`MODERN`].
    pub fn login(
        endpoint: impl Into<Endpoint>,
        user: &str,
        password: &str,
        schema: &str,
    ) -> Result<Wire> {
        Wire::login_with(endpoint, login(user, password, schema, MODERN))
    }

    /// Logs in as told.
    pub fn login_with(endpoint: impl Into<Endpoint>, mut login: ServerLogin) -> Result<Wire> {
        let endpoint = endpoint.into();
        login.is_local = matches!(endpoint, Endpoint::Unix(_));
        let mut wire = Wire::open(endpoint)?;
        let handshake = ServerHandshake::new(login);
        wire.shake(handshake, Vec::new())?;
        Ok(wire)
    }

    /// Logs in behind bytes that a balancer sends first.
    pub fn login_behind(
        endpoint: impl Into<Endpoint>,
        header: &[u8],
        mut login: ServerLogin,
    ) -> Result<Wire> {
        let endpoint = endpoint.into();
        login.is_local = matches!(endpoint, Endpoint::Unix(_));
        let mut wire = Wire::open(endpoint)?;
        wire.send_bytes(header)?;
        wire.shake(ServerHandshake::new(login), Vec::new())?;
        Ok(wire)
    }

    /// Logs in through TLS.
    pub fn login_tls(
        endpoint: impl Into<Endpoint>,
        login: ServerLogin,
        config: &Arc<ClientConfig>,
    ) -> Result<Wire> {
        let mut wire = Wire::open(endpoint)?;
        wire.tls = Some(Arc::clone(config));
        wire.shake(
            ServerHandshake::new(ServerLogin { tls: TlsWish::Always, ..login }),
            Vec::new(),
        )?;
        Ok(wire)
    }

    /// Bytes below TLS.
    pub fn send_below(&mut self, bytes: &[u8]) -> Result<()> {
        match self.stream.socket() {
            Socket::Tcp(mut stream) => Ok(stream.write_all(bytes)?),
            Socket::Unix(_) => bail!("in clear"),
        }
    }

    /// The TLS connection.
    pub fn tls_conn(&self) -> Result<&ClientConnection> {
        match &self.stream {
            Stream::Tls(stream) => Ok(&stream.conn),
            Stream::Tcp(_) | Stream::Unix(_) => bail!("in clear"),
        }
    }

    /// `COM_CHANGE_USER`.
    pub fn change_user(&mut self, user: &str, password: &str, schema: &str) -> Result<()> {
        let identity = self.identity.clone().context("not logged in")?;
        let mut out = Vec::new();
        let wanted = login(user, password, schema, self.capabilities);
        let handshake = ServerHandshake::change_user(wanted, identity, &mut out);
        self.shake(handshake, out)
    }

    pub fn shake(&mut self, mut handshake: ServerHandshake, mut out: Vec<u8>) -> Result<()> {
        loop {
            self.send_raw(&out)?;
            out.clear();
            let (header, payload) = self.packet()?;
            self.steps.push(match payload.first() {
                Some(0x0A) => "greeting".to_owned(),
                Some(0xFE) => "switch".to_owned(),
                Some(0x01) => format!("more {}", payload.get(1).copied().unwrap_or_default()),
                Some(0x00) => "ok".to_owned(),
                _ => "other".to_owned(),
            });
            // Whoever it is, it is the one that the test means.
            if let Some(keys) = sent_keys(&payload) {
                handshake.trust(keys);
            }
            let mut step = handshake.on_packet(header, &payload, &mut out);
            if let ServerStep::Derive { password, derivation } = step {
                self.steps.push("salt".to_owned());
                let seed = trunkline_topology::Secret::new(derivation.seed(password.expose()));
                step = handshake.on_derived(Some(seed), &mut out);
            }
            if let ServerStep::Encrypt { public_key_pem, plaintext } = step {
                let text = plaintext.expose();
                let sealed = trunkline_crypto::encrypt_oaep_sha1(&public_key_pem, text)?;
                step = handshake.on_encrypted(Some(sealed), &mut out);
            }
            match step {
                ServerStep::Continue => {}
                ServerStep::StartTls => {
                    self.send_raw(&out)?;
                    out.clear();
                    let config = self.tls.clone().context("TLS without being asked")?;
                    let plain = std::mem::replace(&mut self.stream, Stream::none()?);
                    self.stream = plain.encrypt(&config)?;
                    handshake.on_tls(&mut out);
                }
                ServerStep::Encrypt { .. } | ServerStep::Derive { .. } => {
                    bail!("asked twice to compute")
                }
                ServerStep::Ready(identity) => {
                    self.capabilities = identity.capabilities;
                    self.ok = payload;
                    if self.packing.is_none() {
                        self.packing = Packing::of(self.capabilities);
                    }
                    self.identity = Some(*identity);
                    return Ok(());
                }
                ServerStep::Failed(failure) => return Err(Refused(refusal(&failure)).into()),
            }
        }
    }

    pub fn greeting(&self) -> Result<&Greeting> {
        Ok(&self.identity.as_ref().context("not logged in")?.greeting)
    }

    /// Reads a greeting by hand, on a connection from [`Wire::open`].
    pub fn read_greeting(&mut self) -> Result<Greeting> {
        let (_, payload) = self.packet()?;
        match Opening::parse(&payload)? {
            Opening::Greeting(greeting) => Ok(greeting),
            Opening::Refused(_) => Err(Refused(ErrorPacket::parse(&payload)?).into()),
        }
    }

    /// Packets, compressed where that was agreed on.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.packing {
            None => self.send_bytes(bytes),
            Some(packing) => {
                let packed = packing.pack(bytes);
                self.send_bytes(&packed)
            }
        }
    }

    /// These bytes and no others.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.packing {
            None => self.buf.extend_from_slice(bytes),
            Some(packing) => packing.unpack(bytes, &mut self.buf)?,
        }
        Ok(())
    }

    /// Sends one command, in as many packets as it takes.
    pub fn send(&mut self, code: u8, body: &[u8]) -> Result<()> {
        let mut payload = Vec::with_capacity(body.len() + 1);
        payload.push(code);
        payload.extend_from_slice(body);
        let mut out = Vec::with_capacity(payload.len() + 64);
        put_payload(&mut out, 0, &payload);
        self.send_raw(&out)
    }

    /// No more is sent; the other side sees the end.
    pub fn shut_write(&self) -> Result<()> {
        match self.stream.socket() {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write)?,
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write)?,
        }
        Ok(())
    }

    /// This connection once more, to send from another thread.
    pub fn second(&self) -> Result<Wire> {
        let stream = match &self.stream {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
            Stream::Tls(_) => bail!("keys can't be shared by two threads"),
        };
        Ok(Wire::on(stream, self.capabilities))
    }

    pub fn set_read_timeout(&self, timeout: Duration) -> Result<()> {
        match self.stream.socket() {
            Socket::Tcp(stream) => stream.set_read_timeout(Some(timeout))?,
            Socket::Unix(stream) => stream.set_read_timeout(Some(timeout))?,
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        if self.taken == self.buf.len() {
            self.buf.clear();
            self.taken = 0;
        }
        let mut chunk = [0; 64 * 1024];
        let count = self.stream.read(&mut chunk).context("reading from the other side")?;
        ensure!(count > 0, "the other side closed the connection");
        self.take_in(&chunk[..count])
    }

    /// One frame with its header.
    pub fn frame(&mut self) -> Result<Vec<u8>> {
        loop {
            let bytes = &self.buf[self.taken..];
            if let Some(header) = Header::read(bytes) {
                let len = HEADER_LEN + header.payload_len;
                if let Some(frame) = bytes.get(..len) {
                    let frame = frame.to_vec();
                    self.taken += len;
                    return Ok(frame);
                }
            }
            if self.taken > 1 << 20 {
                self.buf.drain(..self.taken);
                self.taken = 0;
            }
            self.fill()?;
        }
    }

    /// One whole payload, joined from its frames; the header is the last frame's.
    pub fn packet(&mut self) -> Result<(Header, Vec<u8>)> {
        let mut payload = Vec::new();
        loop {
            let frame = self.frame()?;
            let header = Header::read(&frame).context("a frame without a header")?;
            payload.extend_from_slice(&frame[HEADER_LEN..]);
            if !header.is_continued() {
                return Ok((header, payload));
            }
        }
    }

    /// Whether the other side has closed, and nothing more came before.
    pub fn is_closed(&mut self) -> Result<bool> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => Ok(self.taken == self.buf.len()),
            Ok(count) => {
                self.take_in(&chunk[..count])?;
                Ok(false)
            }
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// Everything that still comes until the other side closes.
    pub fn drain_to_end(&mut self) -> Result<Vec<u8>> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => self.take_in(&chunk[..count])?,
                Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
                Err(e) => return Err(e.into()),
            }
        }
        let all = self.buf.split_off(self.taken);
        self.taken = self.buf.len();
        Ok(all)
    }

    /// The bytes of one answer, frames included.
    pub fn reply_bytes(&mut self, shape: Shape) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match shape {
            Shape::Nothing => {}
            Shape::Single => {
                self.packet_into(&mut out)?;
            }
            Shape::UntilEof => while !is_end(&self.packet_into(&mut out)?) {},
            Shape::Prepare => self.prepare_into(&mut out)?,
            Shape::Results => while self.result_into(&mut out)? {},
        }
        Ok(out)
    }

    fn packet_into(&mut self, out: &mut Vec<u8>) -> Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let frame = self.frame()?;
            out.extend_from_slice(&frame);
            payload.extend_from_slice(&frame[HEADER_LEN..]);
            if frame.len() < HEADER_LEN + 0xFF_FFFF {
                return Ok(payload);
            }
        }
    }

    fn has_eof(&self) -> bool {
        !self.capabilities.contains(Capabilities::DEPRECATE_EOF)
    }

    /// Whether a column count says if definitions follow.
    fn has_metadata_flag(&self) -> bool {
        let has = |flag| self.capabilities.contains(flag);
        has(Capabilities::CACHE_METADATA) || has(Capabilities::OPTIONAL_RESULTSET_METADATA)
    }

    /// A column count, and how many definitions follow.
    fn column_count(&self, packet: &[u8]) -> Result<u64> {
        let mut reader = Reader::new(packet);
        let count = reader.lenenc_int("column count")?;
        let follows = !self.has_metadata_flag() || reader.u8("metadata flag")? == 1;
        ensure!(reader.is_empty(), "after a column count: {packet:02x?}");
        Ok(if follows { count } else { 0 })
    }

    fn prepare_into(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let first = self.packet_into(out)?;
        if first.first() != Some(&0) {
            return Ok(());
        }
        let count = |at: usize| Some(u16::from_le_bytes([*first.get(at)?, *first.get(at + 1)?]));
        let columns = count(5).context("columns of a prepared statement")?;
        let parameters = count(7).context("parameters of a prepared statement")?;
        let has_flag = self.capabilities.contains(Capabilities::OPTIONAL_RESULTSET_METADATA);
        let follows = !has_flag || first.get(12) == Some(&1);
        for definitions in [parameters, columns] {
            let end = u16::from(definitions > 0 && self.has_eof());
            for _ in 0..if follows { definitions + end } else { end } {
                self.packet_into(out)?;
            }
        }
        Ok(())
    }

    /// One result; whether another follows.
    fn result_into(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let first = self.packet_into(out)?;
        let track = self.capabilities.contains(Capabilities::SESSION_TRACK);
        match first.first() {
            Some(0x00) => return Ok(more(ok::parse(&first, track)?.status)),
            Some(0xFF) if is_progress(&first) => return Ok(true),
            Some(0xFF) => return Ok(false),
            Some(_) => {}
            None => bail!("an empty packet as answer"),
        }
        let columns = self.column_count(&first)?;
        let mut carried = 0;
        for _ in 0..columns + u64::from(self.has_eof()) {
            let packet = self.packet_into(out)?;
            if is_end(&packet) {
                let flags = end_status(&packet, self.has_eof(), track)?;
                // A cursor leaves the rows out; its status says so here.
                if flags & status::CURSOR_EXISTS != 0 {
                    return Ok(false);
                }
                // MySQL tells here only that more follows OUT parameters.
                carried = if flags & status::PS_OUT_PARAMS != 0 { flags } else { 0 };
            }
        }
        loop {
            let packet = self.packet_into(out)?;
            if packet.first() == Some(&0xFF) {
                return Ok(false);
            }
            if is_end(&packet) {
                return Ok(more(carried | end_status(&packet, self.has_eof(), track)?));
            }
        }
    }

    /// Sends a command and gives the bytes of its answer.
    pub fn exchange(&mut self, code: u8, body: &[u8], shape: Shape) -> Result<Vec<u8>> {
        self.send(code, body)?;
        self.reply_bytes(shape)
    }

    /// Runs statements and gives each result.
    pub fn query(&mut self, text: &str) -> Result<Vec<Outcome>> {
        let bytes = self.exchange(code::QUERY, text.as_bytes(), Shape::Results)?;
        self.outcomes(&bytes).with_context(|| format!("answer to {text:.200}"))
    }

    /// Runs one statement.
    pub fn one(&mut self, text: &str) -> Result<Outcome> {
        let mut outcomes = self.query(text)?;
        ensure!(outcomes.len() == 1, "{} results for {text:.200}", outcomes.len());
        outcomes.pop().context("no result")
    }

    /// The first field of the first row.
    pub fn value(&mut self, text: &str) -> Result<Option<String>> {
        let outcome = self.one(text)?;
        let row = outcome.text_rows().into_iter().next();
        let row = row.with_context(|| format!("no row from {text:.200}: {outcome:?}"))?;
        Ok(row.into_iter().next().flatten())
    }

    /// Runs a statement that must be refused.
    pub fn fails(&mut self, text: &str) -> Result<ErrorPacket> {
        match self.query(text)?.pop() {
            Some(Outcome::Error(error)) => Ok(error),
            other => bail!("no error from {text:.200}: {other:?}"),
        }
    }

    /// A command that is answered by one OK or error.
    pub fn single(&mut self, code: u8, body: &[u8]) -> Result<Outcome> {
        let bytes = self.exchange(code, body, Shape::Single)?;
        self.outcomes(&bytes)?.pop().context("no result")
    }

    /// Takes an answer of [`Shape::Results`] apart.
    pub fn outcomes(&self, bytes: &[u8]) -> Result<Vec<Outcome>> {
        let track = self.capabilities.contains(Capabilities::SESSION_TRACK);
        let mut packets = payloads(bytes).into_iter().peekable();
        let mut outcomes = Vec::new();
        while let Some(first) = packets.next() {
            match first.first() {
                Some(0x00) => outcomes.push(Outcome::of_ok(&ok::parse(&first, track)?)),
                Some(0xFF) if is_progress(&first) => {}
                Some(0xFF) => outcomes.push(Outcome::Error(ErrorPacket::parse(&first)?)),
                _ => {
                    let count = self.column_count(&first)?;
                    let columns = packets.by_ref().take(usize::try_from(count)?).collect();
                    if self.has_eof() {
                        packets.next();
                    }
                    let mut rows = Vec::new();
                    let mut end = None;
                    for packet in packets.by_ref() {
                        if is_end(&packet) || packet.first() == Some(&0xFF) {
                            end = Some(packet);
                            break;
                        }
                        rows.push(packet);
                    }
                    let end = end.context("rows without an end")?;
                    if end.first() == Some(&0xFF) {
                        outcomes.push(Outcome::Error(ErrorPacket::parse(&end)?));
                    } else {
                        let status = end_status(&end, self.has_eof(), track)?;
                        outcomes.push(Outcome::Rows { columns, rows, status });
                    }
                }
            }
        }
        Ok(outcomes)
    }
}

fn more(flags: u16) -> bool {
    flags & status::MORE_RESULTS != 0
}

fn is_end(packet: &[u8]) -> bool {
    match packet.first() {
        Some(0xFE) => packet.len() < 0xFF_FFFF,
        Some(0xFF) => true,
        _ => false,
    }
}

fn end_status(packet: &[u8], has_eof: bool, track: bool) -> Result<u16> {
    if packet.first() == Some(&0xFF) {
        return Ok(0);
    }
    if has_eof {
        let mut reader = Reader::new(packet.get(3..).unwrap_or_default());
        return Ok(reader.u16("status of EOF")?);
    }
    Ok(ok::parse(packet, track)?.status)
}

/// The payloads of some frames.
pub fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut joined = Vec::new();
    while let Some(header) = Header::read(bytes) {
        let end = HEADER_LEN + header.payload_len;
        joined.extend_from_slice(bytes.get(HEADER_LEN..end).unwrap_or_default());
        bytes = bytes.get(end..).unwrap_or_default();
        if !header.is_continued() {
            all.push(std::mem::take(&mut joined));
        }
    }
    all
}

/// The key that a server has sent, if this is one.
fn sent_keys(payload: &[u8]) -> Option<std::sync::Arc<trunkline_topology::PinnedKeys>> {
    let text = std::str::from_utf8(payload.strip_prefix(b"\x01")?).ok()?;
    trunkline_topology::PinnedKeys::parse(text).ok().map(std::sync::Arc::new)
}

/// A log-in with a password known in clear.
pub fn login(user: &str, password: &str, schema: &str, wanted: Capabilities) -> ServerLogin {
    ServerLogin {
        user: user.to_owned(),
        credential: Credential::from_clear(password.as_bytes()),
        schema: Some(schema.as_bytes().to_vec()).filter(|schema| !schema.is_empty()),
        collation: COLLATION,
        capabilities: wanted,
        zstd_level: 3,
        attributes: Vec::new(),
        is_local: false,
        tls: Default::default(),
        keys: Default::default(),
    }
}

fn refusal(failure: &ServerFailure) -> ErrorPacket {
    ErrorPacket {
        code: failure.code,
        sqlstate: String::from_utf8_lossy(&failure.sqlstate).into_owned(),
        text: failure.message.clone(),
    }
}

/// The error packet that a log-in was refused with.
pub fn refused(attempt: Result<Wire>) -> Result<ErrorPacket> {
    match attempt {
        Ok(_) => bail!("the log-in was accepted"),
        Err(error) => match error.downcast::<Refused>() {
            Ok(Refused(packet)) => Ok(packet),
            Err(other) => Err(other),
        },
    }
}
