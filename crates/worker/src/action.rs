//! What a worker asks of its driver.

use std::{net::IpAddr, sync::Arc};

use trunkline_cache::{SharedAsk, SharedStore};
use trunkline_catalog::Name;
use trunkline_pool::ConnId;
use trunkline_protocol::{Reader, auth::parsec::Derivation, packet::greeting::Flavor};
use trunkline_session::Credential;
use trunkline_topology::{
    HostName, HostgroupId, Origin, Secret, Server, ServerKey, TlsOffer, TlsParams,
    outcome::{CommitMark, Outcome},
};

use crate::{
    ClientId, KillAnswer, KillAsker, KillRequest, MovedClient, MovedConn, QueryEvent, SessionEvent,
    Study,
};

/// One end of a relay, as the driver knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// A client's socket.
    Client(ClientId),
    /// A server connection's socket.
    Server(ConnId),
}

/// Where a client comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// The client's address, as its balancer told it or the socket's; `None` over a Unix socket.
    pub client_addr: Option<IpAddr>,
    /// What its host is called.
    pub host_name: HostName,
    /// The system's number of the user whose process it is, over a Unix socket and without a
    /// balancer between.
    pub client_uid: Option<u32>,
    /// What its balancer has said of it beside its address.
    pub told: Option<Arc<str>>,
    /// The listener's address; `None` for a Unix socket.
    pub proxy_addr: Option<IpAddr>,
    /// The listener's port; `None` for a Unix socket.
    pub proxy_port: Option<u16>,
    /// The listener's place in `listen`.
    pub listener: usize,
    /// Whether nobody can listen on the way: a Unix socket, or the loopback network.
    pub is_local: bool,
    /// The listener's own word on TLS, if it has one.
    pub tls: Option<TlsOffer>,
}

impl Peer {
    /// Where its failed logins count. `None` over a Unix socket, for clients of a balancer that
    /// does not tell an address.
    pub(crate) fn origin(&self) -> Option<Origin> {
        let machine = self.client_addr.map(Origin::machine);
        machine.or(self.client_uid.map(Origin::Account))
    }

    /// The host part of `'user'@'host'` in messages.
    pub fn host(&self) -> String {
        self.client_addr.map_or_else(|| "localhost".to_owned(), |addr| addr.to_string())
    }
}

/// Something that only the driver can do. Actions are carried out after each batch, in order.
#[derive(Debug)]
pub enum Action {
    /// Connect a socket to the server and answer with `server_connected` or `server_failed`.
    Open {
        /// The connection to be.
        conn: ConnId,
        /// Where to. Several resolved addresses are tried in turn.
        server: Arc<Server>,
    },
    /// Close a client's socket once its outbox is empty, or at once when `now`; then say so with
    /// `client_closed`.
    CloseClient {
        /// Which client.
        client: ClientId,
        /// Do not wait for the outbox.
        now: bool,
    },
    /// Close a server connection's socket, after these bytes if it takes them at once.
    CloseServer {
        /// Which connection; it has left this worker.
        conn: ConnId,
        /// The last words.
        farewell: &'static [u8],
    },
    /// Read no more from this socket until [`Action::Resume`].
    Pause(Side),
    /// Read from this socket again, at once.
    Resume(Side),
    /// Look whether the server closed this connection while it rested, before anything is
    /// written to it.
    Probe(ConnId),
    /// Write what waits for this client, then begin TLS with it in the server's role, on what it
    /// sent after asking for it (`received`) and on what comes; answer with `client_tls_up` before
    /// the first bytes that come through it, or with `client_tls_failed`.
    StartClientTls(ClientId),
    /// Write what waits for this server, then begin TLS with it in the client's role; answer with
    /// `server_tls_up` or `server_tls_failed`.
    StartServerTls {
        /// The connection.
        conn: ConnId,
        /// Its server.
        server: Arc<Server>,
        /// What TLS works with.
        params: Arc<TlsParams>,
    },
    /// Decrypt a password with the proxy's private key; answer with `client_decrypted`.
    Decrypt {
        /// Whose password.
        client: ClientId,
        /// The cipher text.
        ciphertext: Vec<u8>,
    },
    /// Check a clear password against a `$A$` hash; answer with `client_verified`.
    VerifyHash {
        /// Whose password.
        client: ClientId,
        /// The password.
        clear: Secret<Vec<u8>>,
        /// The stored hash.
        hash: Secret<Vec<u8>>,
    },
    /// Encrypt a password with a server's public key; answer with `server_encrypted`.
    Encrypt {
        /// On which connection.
        conn: ConnId,
        /// The server's key.
        public_key_pem: Vec<u8>,
        /// What to encrypt.
        plaintext: Secret<Vec<u8>>,
    },
    /// Derive the seed of a password's key; answer with `server_derived`.
    Derive {
        /// On which connection.
        conn: ConnId,
        /// The password.
        password: Secret<Vec<u8>>,
        /// What the server derives it with.
        derivation: Derivation,
    },
    /// Try a password on a server; answer with `client_verified`.
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
    /// Overwrite what was read lately: a login is over, and a password may have been in it.
    Wipe,
    /// Find out what users the servers have, publish them, and answer with `users_looked_up`.
    LookUpUsers,
    /// Find out what servers say of this name, publish it, and answer with `user_looked_up`.
    LookUpUser {
        /// The name.
        name: String,
        /// Now, on the workers' clock, ms.
        asked_ms: u64,
    },
    /// Find out what the host with this address is called; answer with `host_named`.
    LookUpHost(IpAddr),
    /// Find out what these names mean, put it into the catalog, settle them there, and answer who
    /// waited with `catalog_told`.
    AskCatalog(Box<CatalogAsk>),
    /// Find out what became of a `COMMIT`; answer with `outcome_found`.
    FindOutcome(Box<OutcomeAsk>),
    /// Read a long text, with this worker's [`Student`](crate::Student), and answer with `studied`.
    Study(Box<Study>),
    /// Ask the other workers for an idle connection to this server: the global cap is reached.
    AskPeers(ServerKey),
    /// Give this connection, with its socket, to another worker.
    HandOver {
        /// The connection; it has left this worker.
        conn: ConnId,
        /// All that is known of it.
        moved: Box<MovedConn>,
        /// The worker that asked for it.
        to: usize,
    },
    /// Give this client, with its socket, to another worker.
    MoveClient {
        /// The client; it has left this worker.
        client: ClientId,
        /// All that is known of it.
        moved: Box<MovedClient>,
        /// A less busy worker.
        to: usize,
    },
    /// Tell a worker that the client with this number, which it gave away, has gone.
    ClientLeft {
        /// The worker.
        to: usize,
        /// The number that the client was greeted with.
        number: u32,
    },
    /// Ask the worker that has the client to end it or its statement.
    Kill {
        /// The worker.
        to: usize,
        /// Whom, and who asks.
        request: Box<KillRequest>,
    },
    /// Tell the worker that asked what came of its client's `KILL`.
    Killed {
        /// Who asked.
        asker: KillAsker,
        /// What came of it.
        answer: KillAnswer,
    },
    /// Tell an administrator what came of the `KILL` that this worker was given.
    TellAdministrator {
        /// The number that it was given with.
        ticket: u64,
        /// What came of it.
        answer: KillAnswer,
    },
    /// Tell a worker that answers which its clients wait for were stored, or will not be.
    WakeCached {
        /// The worker.
        to: usize,
        /// Its clients.
        clients: Vec<ClientId>,
    },
    /// Ask the shared cache; `cache_woken` with the one who waits, when that is over.
    AskShared(Box<SharedAsk>),
    /// Store this in the shared cache.
    StoreShared(Box<SharedStore>),
    /// A line of the query log.
    LogQuery(Box<QueryEvent>),
    /// A line of the audit log.
    LogSession(Box<SessionEvent>),
    /// Something an operator should read. At most a few per second for each cause.
    Log(LogLine),
    /// The worker has stopped: no client is left, or the deadline has passed.
    Stopped,
}

/// Names that somebody wants to know, and as whom servers are asked.
#[derive(Debug, Clone)]
pub struct CatalogAsk {
    /// The names' group: its writer hostgroup is asked first, then its readers.
    pub group: HostgroupId,
    /// The names, of that group; each was begun with `Catalog::begin_ask`.
    pub names: Vec<Name>,
    /// The account's name on servers.
    pub user: String,
    /// What the account logs in with.
    pub credential: Credential,
    /// When it was asked, ms on the workers' clock.
    pub asked_ms: u64,
}

/// A `COMMIT`, or a write in autocommit, whose answer was lost.
#[derive(Debug, Clone)]
pub struct OutcomeAsk {
    /// Who waits to be told.
    pub client: ClientId,
    /// The number of the question; the answer has it, too.
    pub ticket: u64,
    /// The server that it was sent to.
    pub server: Arc<Server>,
    /// What that calls the connection.
    pub thread: u32,
    /// How old the connection is at least, ms.
    pub age_ms: u64,
    /// Its family.
    pub flavor: Flavor,
    /// What its transactions are known by.
    pub mark: CommitMark,
    /// The account's name on servers.
    pub user: String,
    /// What the account logs in with.
    pub credential: Credential,
    /// The longest that is waited, ms.
    pub time_max_ms: u64,
}

/// What was found out.
#[derive(Debug, Clone)]
pub struct OutcomeFound {
    /// The number of the question.
    pub ticket: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// The server.
    pub server: ServerKey,
    /// What connections there may have again; `None` where it is not known what is committed under
    /// it.
    pub mark: Option<CommitMark>,
}

/// A line for the log, with the fields that name the thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Whether it is a warning, or else plain information.
    pub is_warning: bool,
    /// The sentence.
    pub text: String,
}

/// The code and text of an error packet, for reports.
pub(crate) fn read_error(payload: &[u8]) -> Option<(u16, String)> {
    let mut reader = Reader::new(payload);
    if reader.u8("error marker").ok()? != 0xFF {
        return None;
    }
    let code = reader.u16("error code").ok()?;
    let text = reader.take_rest();
    let text = text.strip_prefix(b"#").and_then(|rest| rest.get(5..)).unwrap_or(text);
    Some((code, String::from_utf8_lossy(text).into_owned()))
}

#[cfg(test)]
mod tests;
