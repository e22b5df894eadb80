//! A client that minds no manners.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trunkline_protocol::auth::native;
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header, put_payload};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_protocol::packet::handshake_response::HandshakeResponse;

use super::field::Ledger;

/// Beyond the end of an attack, to read what it was answered.
const GRACE: Duration = Duration::from_secs(10);

/// What a client was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Ok,
    /// An error of this number.
    Error(u16),
    /// Another packet, by its first byte.
    Other(u8),
    /// The connection was closed.
    Closed,
    /// Nothing within the time.
    Nothing,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("OK"),
            Self::Error(code) => write!(f, "{code}"),
            Self::Other(first) => write!(f, "packet 0x{first:02x}"),
            Self::Closed => f.write_str("closed"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// A connection to the proxy.
pub struct Peer<'a> {
    pub stream: TcpStream,
    ledger: &'a Ledger,
    deadline: Instant,
}

impl<'a> Peer<'a> {
    pub fn open(port: u16, ledger: &'a Ledger, deadline: Instant) -> Result<Peer<'a>> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Ok(Peer { stream, ledger, deadline })
    }

    /// Logs in; the last answer.
    pub fn log_in(
        &mut self,
        user: &str,
        password: &str,
        schema: &str,
        further: Capabilities,
    ) -> Result<Answer> {
        let greeting = match self.packet()? {
            Ok((_, payload)) if payload.first() != Some(&0xFF) => payload,
            Ok((_, payload)) => return Ok(meaning(&payload)),
            Err(answer) => return Ok(answer),
        };
        let response = response(&greeting, user, password, schema, further)?;
        if let Err(answer) = self.send(&response)? {
            return Ok(answer);
        }
        self.answer()
    }

    /// Sends bytes; how it ended, unless all were taken in time.
    pub fn send(&mut self, bytes: &[u8]) -> Result<Result<(), Answer>> {
        let mut rest = bytes;
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(self.time()))?;
            match self.stream.write(rest) {
                Ok(taken) => {
                    self.ledger.sent(taken);
                    rest = rest.get(taken..).unwrap_or_default();
                }
                Err(error) => return ended(error).map(Err),
            }
        }
        Ok(Ok(()))
    }

    /// Sends a command.
    pub fn command(&mut self, code: u8, body: &[u8]) -> Result<Result<(), Answer>> {
        let mut out = Vec::with_capacity(body.len() + 64);
        put_payload(&mut out, 0, &[&[code], body].concat());
        self.send(&out)
    }

    /// Sends a statement, and reads the first packet of the answer.
    pub fn ask(&mut self, statement: &str) -> Result<Answer> {
        match self.command(0x03, statement.as_bytes())? {
            Ok(()) => self.answer(),
            Err(answer) => Ok(answer),
        }
    }

    /// The meaning of the next packet.
    pub fn answer(&mut self) -> Result<Answer> {
        Ok(match self.packet()? {
            Ok((_, payload)) => meaning(&payload),
            Err(answer) => answer,
        })
    }

    /// Reads a whole result, EOF packets and all; how many packets it had.
    pub fn result(&mut self) -> Result<Result<u64, Answer>> {
        let (mut ends, mut packets) = (0, 0);
        while ends < 2 {
            match self.packet()? {
                Ok((_, payload)) => match meaning(&payload) {
                    Answer::Error(code) => return Ok(Err(Answer::Error(code))),
                    Answer::Other(0xFE) if payload.len() < 9 => ends += 1,
                    Answer::Ok if packets == 0 => return Ok(Ok(0)),
                    Answer::Ok | Answer::Other(_) | Answer::Closed | Answer::Nothing => {}
                },
                Err(answer) => return Ok(Err(answer)),
            }
            packets += 1;
        }
        Ok(Ok(packets))
    }

    /// The next packet: its number and payload.
    pub fn packet(&mut self) -> Result<Result<(u8, Vec<u8>), Answer>> {
        let mut head = [0; HEADER_LEN];
        if let Err(answer) = self.fill(&mut head)? {
            return Ok(Err(answer));
        }
        let header = Header::read(&head).context("a header")?;
        let mut payload = vec![0; header.payload_len];
        Ok(self.fill(&mut payload)?.map(|()| (header.seq, payload)))
    }

    fn fill(&mut self, room: &mut [u8]) -> Result<Result<(), Answer>> {
        self.stream.set_read_timeout(Some(self.time() + GRACE))?;
        match self.stream.read_exact(room) {
            Ok(()) => Ok(Ok(())),
            Err(error) => ended(error).map(Err),
        }
    }

    fn time(&self) -> Duration {
        // A timeout of zero is none.
        self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
    }
}

/// The packet of a login with `mysql_native_password`.
pub fn response(
    greeting: &[u8],
    user: &str,
    password: &str,
    schema: &str,
    further: Capabilities,
) -> Result<Vec<u8>> {
    let greeting = Greeting::parse(greeting).context("the greeting")?;
    let scramble = native::scramble(&native::stage1(password.as_bytes()), &greeting.nonce);
    let mut capabilities = Capabilities::LONG_PASSWORD
        | Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::TRANSACTIONS
        | further;
    if !schema.is_empty() {
        capabilities.insert(Capabilities::CONNECT_WITH_DB);
    }
    let response = HandshakeResponse {
        capabilities,
        packet_len_max: 1 << 24,
        charset: 45,
        user: user.as_bytes(),
        auth: &scramble,
        schema: Some(schema.as_bytes()).filter(|schema| !schema.is_empty()),
        plugin: Some(b"mysql_native_password"),
        attributes: Default::default(),
        zstd_level: None,
    };
    let mut out = Vec::new();
    response.put(&mut out, 1);
    Ok(out)
}

/// What an error of a socket means; other errors are ours.
fn ended(error: std::io::Error) -> Result<Answer> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(Answer::Nothing),
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::BrokenPipe
        | ErrorKind::ConnectionAborted => Ok(Answer::Closed),
        _ => Err(error.into()),
    }
}

fn meaning(payload: &[u8]) -> Answer {
    match payload {
        [0x00, ..] => Answer::Ok,
        [0xFF, low, high, ..] => Answer::Error(u16::from_le_bytes([*low, *high])),
        [first, ..] => Answer::Other(*first),
        [] => Answer::Other(0),
    }
}
