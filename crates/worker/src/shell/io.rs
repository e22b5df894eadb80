//! The world outside of a shell, as its driver has it.

use std::{fmt::Debug, io, net::IpAddr, ops::Range, sync::Arc};

use trunkline_cache::{SharedAsk, SharedStore};
use trunkline_protocol::auth::parsec::Derivation;
use trunkline_topology::{HostgroupId, Secret, Server, TlsFacts, TlsParams};

use super::Mail;
use crate::{
    CatalogAsk, ClientId, ConnId, KillAnswer, LogLine, OutcomeAsk, Peer, QueryEvent, SessionEvent,
    Side, Study, Worker,
};

/// What a driver does for its shell. Nothing is decided here.
///
/// Reads and writes report as sockets do: `Ok(0)` is the end of what can be read, `WouldBlock`
/// means not now, `Interrupted` means once more, and any other error ends the connection.
pub trait Io: Sized {
    /// A connection with a client or a server.
    type Stream: Stream;

    /// What has happened since the last batch, one after the other.
    fn next_event(&mut self) -> Option<Event<Self::Stream>>;

    /// A client that waits at this listener.
    ///
    /// # Errors
    /// As of a read; errors that are neither `WouldBlock` nor `Interrupted` are logged here.
    fn accept(&mut self, listener: usize) -> io::Result<(Self::Stream, Peer)>;

    /// 20 random bytes without NUL.
    fn nonce(&mut self) -> [u8; 20];

    /// The stream is this side's: its events name the side's place from now on.
    ///
    /// # Errors
    /// The system's reason why it can't be waited for.
    fn register(&mut self, stream: &mut Self::Stream, side: Side) -> io::Result<()>;

    /// The stream goes to another worker: no event of it comes here any more. False when that
    /// can't be.
    fn detach(&mut self, stream: &mut Self::Stream) -> bool;

    /// Closes a stream, for this reason.
    fn close(&mut self, stream: Self::Stream, reason: &str);

    /// Memory for what is read: the worker's only one.
    fn scratch(&mut self) -> &mut [u8];

    /// Reads into this part of the scratch memory.
    ///
    /// # Errors
    /// As sockets report them.
    fn read(&mut self, stream: &mut Self::Stream, room: Range<usize>) -> io::Result<usize>;

    /// Writes as many of the bytes as the stream takes at once. When it takes fewer, an event says
    /// that there is room again.
    ///
    /// # Errors
    /// As sockets report them.
    fn write(&mut self, stream: &mut Self::Stream, bytes: &[u8]) -> io::Result<usize>;

    /// Whether [`write_many`](Self::write_many) is worth while.
    #[inline]
    fn writes_many(&self) -> bool {
        false
    }

    /// Writes what `fill` gives to many streams at once, and appends what came of each.
    #[inline]
    fn write_many<'a>(
        &mut self,
        fill: impl Fill<'a, Self::Stream>,
        results: &mut Vec<io::Result<usize>>,
    ) where
        Self::Stream: 'a,
    {
        let _ = (fill, results);
    }

    /// Takes note of what has come up to now, for the next read. False when that can't be.
    fn look(&mut self) -> bool {
        true
    }

    /// Begins to connect to the server's address number `attempt`, from 0. `None` when it has no
    /// other one.
    fn connect(
        &mut self,
        side: Side,
        server: &Server,
        attempt: usize,
    ) -> Option<Result<Self::Stream, NotBegun>>;

    /// How an attempt to connect stands.
    fn connecting(&mut self, stream: &mut Self::Stream, place: Place) -> Connecting;

    /// Begins TLS on a stream in the server's role.
    ///
    /// # Errors
    /// Why there is none.
    fn accept_tls(
        &mut self,
        stream: &mut Self::Stream,
    ) -> Result<<Self::Stream as Stream>::Seal, String>;

    /// Begins TLS on a stream in the client's role.
    ///
    /// # Errors
    /// Why there is none.
    fn connect_tls(
        &mut self,
        stream: &mut Self::Stream,
        server: &Server,
        params: &Arc<TlsParams>,
    ) -> Result<<Self::Stream as Stream>::Seal, String>;

    /// Sends mail to worker `to`; gives it back when that worker has ended.
    fn post(&mut self, to: usize, mail: Mail<Self::Stream>) -> Option<Mail<Self::Stream>>;

    /// Asks somebody else. Whoever answers later sends [`Mail`]; answers that are there at once
    /// are told to the worker.
    fn ask(&mut self, worker: &mut Worker, request: Request);

    /// Does a step of one session; `None` when it panicked. `what` says whose panic it was.
    #[inline]
    fn guarded<T>(side: Side, what: &'static str, step: impl FnOnce() -> T) -> Option<T> {
        let _ = (side, what);
        Some(step())
    }
}

/// A connection as a driver has it.
pub trait Stream: Debug {
    /// Its encryption.
    type Seal: Seal + Debug;
}

/// Gives bytes to be written to many streams at once.
pub trait Fill<'a, S: 'a> {
    /// Calls `add` for each stream; it returns false for bytes that have to be written by
    /// themselves.
    fn fill(self, add: impl FnMut(&'a S, &[u8]) -> bool);
}

/// One end of an encrypted connection: bytes in, bytes out.
pub trait Seal {
    /// Memory for records.
    type Records: Records;

    /// Whether the handshake is over.
    fn is_up(&self) -> bool;

    /// Whether the other end has said that nothing follows.
    fn has_ended(&self) -> bool;

    /// Bytes that wait for the rest of a record.
    fn waiting_len(&self) -> usize;

    /// Takes bytes from the stream: those of `bytes` behind the first
    /// [`waiting_len`](Self::waiting_len), whose place is for what waits. What has to be sent for
    /// it is among the [`unsent`](Self::unsent), after an error too.
    ///
    /// # Errors
    /// Why the connection is over, in words.
    fn receive(&mut self, bytes: &mut [u8], sink: impl FnMut(Received<'_>)) -> Result<(), String>;

    /// Records that wait for the stream; they go before anything else.
    fn unsent(&self) -> &[u8];

    /// The stream took the first `len` bytes of those.
    fn sent(&mut self, len: usize);

    /// Records that the stream did not take: they wait.
    fn keep_unsent(&mut self, rest: &[u8]);

    /// Encrypts a text behind what is in `out`.
    ///
    /// # Errors
    /// The handshake is not over, or keys are used up.
    fn seal(&mut self, text: &[u8], out: &mut Self::Records) -> Result<(), String>;

    /// Tells the other end that nothing follows.
    fn close(&mut self, out: &mut Self::Records);
}

/// Records on their way to a stream, in memory that is used again.
pub trait Records: Default {
    /// The records.
    fn bytes(&self) -> &[u8];

    /// Empties it.
    fn clear(&mut self);
}

/// What an encrypted connection has received.
#[derive(Debug)]
pub enum Received<'a> {
    /// The handshake is over.
    Up(TlsFacts),
    /// Bytes that the other end sent through it, and whether more of them have arrived.
    Data(&'a [u8], bool),
}

/// Why an attempt to connect could not be begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotBegun {
    /// The reason, in words.
    pub reason: String,
    /// The machine lacks something of its own (descriptors, memory, ports): no server is to blame.
    pub is_own: bool,
}

impl From<String> for NotBegun {
    /// The server is to blame.
    fn from(reason: String) -> Self {
        Self { reason, is_own: false }
    }
}

/// How a connection attempt stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connecting {
    /// Not decided yet.
    Pending,
    /// Connected.
    Done,
    /// Refused or unreachable, for this reason.
    Failed(String),
}

/// What happens to a shell.
pub enum Event<S: Stream> {
    /// A stream can be read or written.
    Ready(Place, Readiness),
    /// Clients wait at this listener.
    Knock(usize),
    /// Mail has come.
    Mail(Mail<S>),
    /// Somebody looks at the worker between its sessions' steps.
    Visit(Box<dyn FnOnce(&mut Worker)>),
}

/// What may be done with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// It may have bytes to read, or has ended.
    pub readable: bool,
    /// It may take bytes.
    pub writable: bool,
    /// The other end has closed or the stream has failed: reading goes on until it says so.
    pub ended: bool,
}

/// Where a shell keeps a socket. Another one may be there later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub usize);

impl Place {
    /// The place of a client or a server connection: its number in the worker's table, and the
    /// kind in the lowest bit.
    #[inline]
    pub fn of(side: Side) -> Self {
        match side {
            Side::Client(ClientId { index, .. }) => Self((index as usize) << 1),
            Side::Server(ConnId { index, .. }) => Self((index as usize) << 1 | 1),
        }
    }
}

/// What only somebody outside of the worker's thread can do.
#[derive(Debug)]
pub enum Request {
    /// Decrypt a password with the proxy's private key; [`Mail::Decrypted`].
    Decrypt(ClientId, Vec<u8>),
    /// Check a clear password against a `$A$` hash; [`Mail::Verified`].
    VerifyHash(ClientId, Secret<Vec<u8>>, Secret<Vec<u8>>),
    /// Encrypt a password with a server's public key; [`Mail::Encrypted`].
    Encrypt(ConnId, Vec<u8>, Secret<Vec<u8>>),
    /// Derive the seed of a password's key; [`Mail::Derived`].
    Derive(ConnId, Secret<Vec<u8>>, Derivation),
    /// Try a password on a server; [`Mail::Verified`].
    AskServer {
        /// Whose password.
        client: ClientId,
        /// The account's name.
        name: String,
        /// Whose servers are asked.
        hostgroup: HostgroupId,
        /// The password.
        clear: Secret<Vec<u8>>,
    },
    /// Find out what users the servers have, and publish them; [`Mail::UsersLookedUp`].
    LookUpUsers,
    /// Find out what servers say of this name, and publish it; [`Mail::UserLookedUp`].
    LookUpUser {
        /// The name.
        name: String,
        /// When it was asked for, on the workers' clock, ms.
        asked_ms: u64,
    },
    /// Find out what the host with this address is called; [`Mail::HostNamed`].
    LookUpHost(IpAddr),
    /// Find out what names mean, put it into the catalog and settle them there;
    /// [`Mail::CatalogTold`] for all who waited.
    AskCatalog(Box<CatalogAsk>),
    /// Find out what became of a `COMMIT`; [`Mail::OutcomeFound`].
    FindOutcome(Box<OutcomeAsk>),
    /// Read a long text; [`Mail::Studied`].
    Study(Box<Study>),
    /// Tell an administrator what came of the `KILL` with this number.
    TellAdministrator(u64, KillAnswer),
    /// Ask the shared cache; [`Mail::CacheWoken`] for the one who waits.
    AskShared(Box<SharedAsk>),
    /// Store this in the shared cache.
    StoreShared(Box<SharedStore>),
    /// A line of the query log.
    LogQuery(Box<QueryEvent>),
    /// A line of the audit log.
    LogSession(Box<SessionEvent>),
    /// Something an operator should read.
    Log(LogLine),
}

/// What a driver without encryption has for its streams.
#[derive(Debug)]
pub enum Clear {}

/// Records of a driver without encryption: there are none.
#[derive(Debug, Default)]
pub struct NoRecords;

impl Records for NoRecords {
    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn clear(&mut self) {}
}

impl Seal for Clear {
    type Records = NoRecords;

    fn is_up(&self) -> bool {
        match *self {}
    }

    fn has_ended(&self) -> bool {
        match *self {}
    }

    fn waiting_len(&self) -> usize {
        match *self {}
    }

    fn receive(&mut self, _: &mut [u8], _: impl FnMut(Received<'_>)) -> Result<(), String> {
        match *self {}
    }

    fn unsent(&self) -> &[u8] {
        match *self {}
    }

    fn sent(&mut self, _: usize) {
        match *self {}
    }

    fn keep_unsent(&mut self, _: &[u8]) {
        match *self {}
    }

    fn seal(&mut self, _: &[u8], _: &mut NoRecords) -> Result<(), String> {
        match *self {}
    }

    fn close(&mut self, _: &mut NoRecords) {
        match *self {}
    }
}
