//! One TLS connection: bytes in, bytes out. It owns no socket, and no buffer while nothing is under
//! way.

use std::sync::Arc;

use rustls::{
    CommonState, Error, HandshakeKind, ProtocolVersion,
    client::UnbufferedClientConnection,
    pki_types::ServerName,
    server::UnbufferedServerConnection,
    unbuffered::{
        ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
    },
};
use trunkline_topology::{TlsFacts, TlsVersion};

use super::{Acceptor, Connector, der, reason::reason};

/// Bytes of a handshake that may wait for the rest of a message.
const HANDSHAKE_LEN_MAX: usize = 32 * 1024;
/// What a record adds to its text, at most, and what else may go out with a text.
const RECORD_OVERHEAD: usize = 64;
const RECORD_LEN: usize = 16 * 1024;
const OTHER_RECORDS_LEN: usize = 512;
/// Steps after an error in which the alert for the other end is looked for.
const ALERT_STEPS_MAX: usize = 4;

/// One end of a TLS connection.
pub struct Tls {
    conn: Conn,
    own_fingerprint: Option<[u8; 32]>,
    is_up: bool,
    has_ended: bool,
    /// The beginning of a record, or of a message of the handshake, that is to come.
    pub(super) received: Vec<u8>,
    /// Records that the socket has not taken.
    pub(super) unsent: Vec<u8>,
}

enum Conn {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// What came of bytes.
#[derive(Debug)]
pub enum Received<'a> {
    /// The handshake is over.
    Up(TlsFacts),
    /// Bytes that the other end sent through it, and whether more has arrived behind their record.
    Data(&'a [u8], bool),
}

/// Whether anything has come behind the first record.
fn has_more_records(bytes: &[u8]) -> bool {
    // Type, version, length (RFC 8446, 5.1).
    let [_, _, _, high, low, rest @ ..] = bytes else { return false };
    rest.len() > usize::from(u16::from_be_bytes([*high, *low]))
}

/// What a step has led to.
enum Turn {
    /// There is more to do.
    Again,
    /// More bytes are needed.
    Wait,
    /// The other end has closed.
    Ended,
}

/// Records on their way to a socket. One for a thread: it grows and is used again.
#[derive(Debug, Default)]
pub struct Sealed {
    buf: Vec<u8>,
    len: usize,
}

impl Sealed {
    /// The records.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for `len` bytes behind what is there.
    fn room(&mut self, len: usize) -> &mut [u8] {
        if self.buf.len() < self.len + len {
            self.buf.resize(self.len + len, 0);
        }
        self.buf.get_mut(self.len..).unwrap_or_default()
    }
}

impl Tls {
    /// Begins in the server's role.
    ///
    /// # Errors
    /// The library's reason.
    pub fn accept(acceptor: &Acceptor) -> Result<Self, String> {
        let conn = UnbufferedServerConnection::new(Arc::clone(&acceptor.config));
        let conn = conn.map(Conn::Server).map_err(|error| reason(&error))?;
        Ok(Self::new(conn, Some(acceptor.fingerprint)))
    }

    /// Begins in the client's role, with the server of this host name or address.
    ///
    /// # Errors
    /// The name is none, or the library's reason.
    pub fn connect(connector: &Connector, host: &str) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("`{host}` is no host name that a certificate can be for"))?;
        let conn = UnbufferedClientConnection::new(Arc::clone(&connector.config), name);
        Ok(Self::new(Conn::Client(conn.map_err(|error| reason(&error))?), None))
    }

    fn new(conn: Conn, own_fingerprint: Option<[u8; 32]>) -> Self {
        let (received, unsent) = (Vec::new(), Vec::new());
        Self { conn, own_fingerprint, is_up: false, has_ended: false, received, unsent }
    }

    /// Whether the handshake is over.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether the other end has said that nothing follows.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that wait for the socket; they go before anything else.
    pub fn unsent(&self) -> &[u8] {
        &self.unsent
    }

    /// The socket took the first `len` bytes of those.
    pub fn sent(&mut self, len: usize) {
        self.unsent.drain(..len.min(self.unsent.len()));
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
    }

    /// Records that the socket did not take: they wait.
    pub fn keep_unsent(&mut self, rest: &[u8]) {
        self.unsent.extend_from_slice(rest);
    }

    /// Bytes that wait for the rest of a record.
    pub fn waiting_len(&self) -> usize {
        self.received.len()
    }

    /// Takes bytes from the socket: those of `bytes` behind the first
    /// [`waiting_len`](Self::waiting_len), whose place is for what waits. What has to be sent for
    /// it is among the [`unsent`](Self::unsent), after an error too.
    ///
    /// # Errors
    /// Why the connection is over, in words.
    pub fn receive(
        &mut self,
        bytes: &mut [u8],
        sink: &mut dyn FnMut(Received<'_>),
    ) -> Result<(), String> {
        let Some(place) = bytes.get_mut(..self.received.len()) else {
            return Err("a record has no place".to_owned());
        };
        place.copy_from_slice(&std::mem::take(&mut self.received));
        let mut at = 0;
        loop {
            let rest = bytes.get_mut(at..).unwrap_or_default();
            // Texts may come in the same step as the end of the handshake, which goes first.
            let mut early = Vec::new();
            let is_up = self.is_up;
            let has_more = has_more_records(rest);
            let mut take = |text: &[u8]| match is_up {
                true => sink(Received::Data(text, has_more)),
                false => early.extend_from_slice(text),
            };
            let (discarded, turn) = self.conn.turn(rest, &mut self.unsent, &mut take);
            at += discarded;
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => {
                    self.conn.put_alert(&mut self.unsent);
                    return Err(reason(&error));
                }
            };
            if !self.is_up && !self.conn.state().is_handshaking() {
                self.is_up = true;
                sink(Received::Up(self.facts()));
            }
            if !early.is_empty() {
                sink(Received::Data(&early, has_more));
            }
            match turn {
                Turn::Again => {}
                Turn::Wait => break,
                Turn::Ended => {
                    self.has_ended = true;
                    break;
                }
            }
        }
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.len() > HANDSHAKE_LEN_MAX {
            return Err("a message of the handshake is too long".to_owned());
        }
        self.received = rest.to_vec();
        Ok(())
    }

    /// Encrypts a text behind what is in `out`.
    ///
    /// # Errors
    /// The handshake is not over, or keys are used up.
    pub fn seal(&mut self, text: &[u8], out: &mut Sealed) -> Result<(), String> {
        debug_assert!(self.is_up);
        self.conn.seal(text, &mut self.received, out)
    }

    /// Tells the other end that nothing follows.
    pub fn close(&mut self, out: &mut Sealed) {
        if self.is_up {
            self.conn.close(&mut self.received, out);
        }
    }

    fn facts(&self) -> TlsFacts {
        let state = self.conn.state();
        let version = match state.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => TlsVersion::V1_3,
            _ => TlsVersion::V1_2,
        };
        let cipher = state.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        let cipher = cipher.unwrap_or("unknown");
        let peer = match self.conn {
            Conn::Server(_) => state.peer_certificates().and_then(<[_]>::first),
            // Not always verified.
            Conn::Client(_) => None,
        };
        TlsFacts {
            version,
            cipher: cipher.strip_prefix("TLS13_").unwrap_or(cipher),
            is_resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
            peer: peer.and_then(|certificate| der::certificate(certificate)).map(|it| it.names),
            own_fingerprint: self.own_fingerprint,
        }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("is_up", &self.is_up).finish_non_exhaustive()
    }
}

impl Conn {
    fn state(&self) -> &CommonState {
        match self {
            Self::Server(conn) => conn,
            Self::Client(conn) => conn,
        }
    }

    /// One step; how many bytes it used up.
    fn turn(
        &mut self,
        bytes: &mut [u8],
        unsent: &mut Vec<u8>,
        take: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Turn, Error>) {
        match self {
            Self::Server(conn) => turn(conn.process_tls_records(bytes), unsent, take),
            Self::Client(conn) => turn(conn.process_tls_records(bytes), unsent, take),
        }
    }

    /// What the other end is told of an error.
    fn put_alert(&mut self, unsent: &mut Vec<u8>) {
        // Beyond the alert the library would look for the rest of a message that is gone.
        for _ in 0..ALERT_STEPS_MAX {
            if !self.state().wants_write() {
                return;
            }
            drop(self.turn(&mut [], unsent, &mut |_| {}));
        }
    }

    fn seal(&mut self, text: &[u8], received: &mut [u8], out: &mut Sealed) -> Result<(), String> {
        let len = text.len() + (text.len() / RECORD_LEN + 1) * RECORD_OVERHEAD + OTHER_RECORDS_LEN;
        self.write(received, out, &mut |room, out| {
            let used = match room {
                Room::Server(mut traffic) => traffic.encrypt(text, out.room(len)),
                Room::Client(mut traffic) => traffic.encrypt(text, out.room(len)),
            };
            out.len += used?;
            Ok(())
        })
    }

    fn close(&mut self, received: &mut [u8], out: &mut Sealed) {
        // It fails when the connection is broken, and then nobody hears it either.
        drop(self.write(received, out, &mut |room, out| {
            let used = match room {
                Room::Server(mut traffic) => {
                    traffic.queue_close_notify(out.room(OTHER_RECORDS_LEN))
                }
                Room::Client(mut traffic) => {
                    traffic.queue_close_notify(out.room(OTHER_RECORDS_LEN))
                }
            };
            out.len += used?;
            Ok(())
        }));
    }

    /// Goes on to where texts can be written, and writes.
    fn write(
        &mut self,
        received: &mut [u8],
        out: &mut Sealed,
        put: &mut dyn FnMut(Room<'_>, &mut Sealed) -> Result<(), EncryptError>,
    ) -> Result<(), String> {
        loop {
            let state = match self {
                Self::Server(conn) => step(conn.process_tls_records(received), out, |w, out| {
                    put(Room::Server(w), out)
                }),
                Self::Client(conn) => step(conn.process_tls_records(received), out, |w, out| {
                    put(Room::Client(w), out)
                }),
            };
            if let Some(result) = state {
                return result;
            }
        }
    }
}

/// Where a text can be written.
enum Room<'a> {
    Server(rustls::unbuffered::WriteTraffic<'a, rustls::server::ServerConnectionData>),
    Client(rustls::unbuffered::WriteTraffic<'a, rustls::client::ClientConnectionData>),
}

/// One step towards writing; `None` when another one is needed.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Sealed,
    put: impl FnOnce(
        rustls::unbuffered::WriteTraffic<'_, Data>,
        &mut Sealed,
    ) -> Result<(), EncryptError>,
) -> Option<Result<(), String>> {
    match status.state {
        Ok(ConnectionState::WriteTraffic(traffic)) => {
            Some(put(traffic, out).map_err(|error| error.to_string()))
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let used = match data.encode(out.room(0)) {
                Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    data.encode(out.room(required_size))
                }
                used => used,
            };
            match used {
                Ok(used) => {
                    out.len += used;
                    None
                }
                Err(error) => Some(Err(error.to_string())),
            }
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            None
        }
        // Said once; it can still be written to.
        Ok(ConnectionState::PeerClosed) => None,
        Ok(_) => Some(Err("the connection takes no text".to_owned())),
        Err(error) => Some(Err(reason(&error))),
    }
}

fn turn<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    unsent: &mut Vec<u8>,
    take: &mut dyn FnMut(&[u8]),
) -> (usize, Result<Turn, Error>) {
    let mut discard = status.discard;
    let result = match status.state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            let mut result = Ok(Turn::Again);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        take(record.payload);
                    }
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
            result
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let begin = unsent.len();
            let mut used = data.encode(&mut []);
            if let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
                used
            {
                unsent.resize(begin + required_size, 0);
                used = data.encode(unsent.get_mut(begin..).unwrap_or_default());
            }
            unsent.truncate(begin + used.unwrap_or(0));
            Ok(Turn::Again)
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Turn::Again)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(Turn::Wait),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Turn::Ended),
        Ok(_) => Err(Error::General("early data".to_owned())),
        Err(error) => Err(error),
    };
    (discard, result)
}
