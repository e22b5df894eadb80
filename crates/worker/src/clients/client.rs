//! A client connection and the session on it.

use std::{mem, rc::Rc, sync::Arc};

use trunkline_pool::{AccountId, ConnId};
use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::{Header, PAYLOAD_MAX},
    packet::{greeting::Flavor, tracker_filter::TrackerFilter},
    response::ReplyFormat,
};
use trunkline_session::{
    Credential,
    frontend::{Attribute, ClientHandshake},
    tracker::{Charset, PinReason, Pins, SessionState},
};
use trunkline_sql::{
    analysis::{Analysis, Depends},
    token::Modes,
};
use trunkline_topology::{HostgroupId, ServerKey, TlsFacts, User};

pub(crate) use crate::clients::under_way::{
    Awaits, Beside, CommandSent, Ending, Held, Meaning, Preparation, Purpose, Sent, Stage,
    Statement, Target,
};
use crate::{
    accept::address_limits::AddressPlace,
    accept::arrival::Arrival,
    action::Peer,
    cache::until::OwnWrites,
    causal::session::SessionCausal,
    clients::leases::Leases,
    clients::memory::ClientMemory,
    compressed::Packing,
    exchange::begun::Begun,
    exchange::rolled_back::Lost,
    outbox::Outbox,
    prepared::{ClientStmts, Reading},
    replay::Kept,
    session_past::LastStatement,
    shared::UserPlace,
    statement::analysis::Known,
    statement::proof::AwaitNames,
};

/// A client of this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId {
    /// Place in the worker's table.
    pub index: u32,
    /// Tells a client from an earlier one at the same place.
    pub generation: u32,
}

/// A client connection: whoever is at its other end, as far as no session is needed for it.
#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) id: ClientId,
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    pub(crate) io: ClientIo,
    /// When it was last heard of, ms.
    pub(crate) active_ms: u64,
    /// When its statement is looked at again, ms; 0 never.
    pub(crate) timer_ms: u64,
    /// Commands since its worker last looked how busy it is.
    pub(crate) recent_commands: u32,
    /// Changes of user that have failed.
    pub(crate) failed_changes: u8,
    /// There is no socket: it runs one copy of another client's statement, and nobody reads what
    /// comes of it.
    pub(crate) is_mirror: bool,
}

/// A client that has logged in. What it has of a [`Frontend`] is found as its own.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) front: Frontend,
    pub(crate) session: Box<Session>,
    /// The session that goes on if the change of user fails, from when the new user's has begun
    /// until its client is told that the change is done. It has no connections.
    pub(crate) former: Option<Box<Session>>,
}

/// Where a client comes from, and how it is known.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) peer: Arc<Peer>,
    /// The number that it was greeted with.
    pub(crate) number: u32,
    /// The nonce of the last authentication exchange; `COM_CHANGE_USER` hashes with it.
    pub(crate) nonce: [u8; 20],
    /// What is settled of where it comes from.
    pub(crate) arrival: Arrival,
    /// Its place among those that have not logged in, while it is one of them.
    pub(crate) half_open: Option<u64>,
    /// Its address's place under the cap, once it has logged in; given back with the client.
    pub(crate) _address_place: Option<AddressPlace>,
    /// What is known of its encryption, where it is encrypted.
    pub(crate) tls: Option<Box<TlsFacts>>,
    /// What a login is acknowledged with, to prove the certificate.
    pub(crate) proof: Option<Box<[u8]>>,
    /// Whether it counts under the cap on all clients: once it has logged in.
    pub(crate) has_place: bool,
}

impl Origin {
    /// A copy of where a client comes from, without its places under limits and its TLS facts:
    /// only one client can have those.
    fn without_places(&self) -> Self {
        Self {
            peer: Arc::clone(&self.peer),
            number: self.number,
            nonce: self.nonce,
            arrival: self.arrival,
            half_open: None,
            _address_place: None,
            tls: None,
            proof: None,
            has_place: self.has_place,
        }
    }
}

/// What goes over a client's socket.
#[derive(Debug, Default)]
pub(crate) struct ClientIo {
    /// Bytes that arrived and are not consumed: part of a command, or commands to come.
    pub(crate) inbox: Vec<u8>,
    /// More has come behind the command that is being looked at, and is not in the inbox.
    pub(crate) has_more: bool,
    /// More has come behind the piece that is being read: another packet of a client that
    /// compresses, another record of TLS.
    pub(crate) follows: bool,
    pub(crate) outbox: Outbox,
    /// Compression, where it was agreed on.
    pub(crate) packing: Option<Box<Packing>>,
    /// Whether the driver was told not to read from it.
    pub(crate) is_paused: bool,
    /// What of [`Clients::waiting_bytes`](crate::clients::Clients) is its.
    pub(crate) waiting_held: usize,
    /// What it holds of the memory of all, where that is more than little.
    pub(crate) memory: Option<Box<ClientMemory>>,
}

/// An inbox that is longer than this is given room for all of a statement that is announced.
const ROOM_LEN_MIN: usize = 1024 * 1024;

impl ClientIo {
    /// Keeps bytes that came. A long statement gets room once, for as much as it says that it will
    /// take: a buffer that doubles is copied, and of a long one that takes many milliseconds. Room
    /// that is not written to takes no memory.
    pub(crate) fn keep(&mut self, bytes: &[u8], packet_max: usize) {
        if self.inbox.len() > ROOM_LEN_MIN && self.inbox.capacity() - self.inbox.len() < bytes.len()
        {
            let is_split = Header::read(&self.inbox).is_some_and(Header::is_continued);
            let announced = if is_split { packet_max + ROOM_LEN_MIN } else { PAYLOAD_MAX };
            // Without it, there may still be a little.
            drop(self.inbox.try_reserve_exact(announced.saturating_sub(self.inbox.len())));
        }
        self.inbox.extend_from_slice(bytes);
    }
}

impl Frontend {
    /// A client connection on which nothing has happened.
    pub(crate) fn new(id: ClientId, origin: Origin, phase: Phase, active_ms: u64) -> Self {
        Self {
            id,
            origin,
            phase,
            io: ClientIo::default(),
            active_ms,
            timer_ms: 0,
            recent_commands: 0,
            failed_changes: 0,
            is_mirror: false,
        }
    }

    /// The paused hostgroup in which its statement is held on a connection that its session keeps.
    pub(crate) fn held_by_pause(&self) -> Option<HostgroupId> {
        match &self.phase {
            Phase::Running(statement) => match &statement.stage {
                Stage::Held(held) if held.awaits == Awaits::Resume => {
                    Some(statement.target.hostgroup)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Takes it out for the client that has logged in on it.
    pub(crate) fn take(&mut self) -> Self {
        let origin = self.origin.without_places();
        mem::replace(self, Self::new(self.id, origin, Phase::Closing, self.active_ms))
    }

    /// Whether commands have come, or a part of one, that wait behind the one under way.
    pub(crate) fn has_sent_ahead(&self) -> bool {
        let packed = self.io.packing.as_deref().map_or(0, Packing::waiting_len);
        !self.io.inbox.is_empty() || self.io.has_more || self.io.follows || packed > 0
    }
}

/// A statement under way, and the session that runs it.
pub(crate) type Running<'a> = (&'a Statement, &'a Session);

impl Client {
    /// The statement that it has under way, and the session that runs it.
    #[inline]
    pub(crate) fn running(&self) -> Option<Running<'_>> {
        match &self.phase {
            Phase::Running(statement) => Some((statement, &self.session)),
            _ => None,
        }
    }

    /// See [`Self::running`].
    #[inline]
    pub(crate) fn running_mut(&mut self) -> Option<(&mut Statement, &mut Session)> {
        match &mut self.front.phase {
            Phase::Running(statement) => Some((statement, &mut self.session)),
            _ => None,
        }
    }

    /// The only server that its statement is to run on.
    pub(crate) fn pinned_server(&self) -> Option<&ServerKey> {
        match &self.phase {
            Phase::Running(statement) => statement.target.pinned_server.as_deref(),
            _ => None,
        }
    }

    /// A part of the answer to its statement has come, and not the last.
    pub(crate) fn answer_has_begun(&mut self, now_us: u64) {
        if let Phase::Running(statement) = &mut self.phase
            && statement.sent.answered_us == 0
        {
            statement.sent.answered_us = now_us;
        }
    }

    /// Keeps a part of the answer to its statement, if that is to be stored.
    #[inline]
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        if let Phase::Running(statement) = &mut self.phase {
            if let Some(fill) = &mut statement.beside.fill {
                fill.copy.take(bytes);
            }
            if let Some(half) = &mut statement.beside.mirrored {
                half.copy.take(bytes);
            }
            if let Some(noted) = &mut statement.beside.noted {
                noted.take(bytes);
            }
        }
    }
}

/// What a client connection is doing.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Logs in, or changes its user.
    Login(Box<ClientHandshake>),
    /// Awaits its next command.
    Idle,
    /// A command is under way.
    Running(Box<Statement>),
    /// The change of its user begins when the event is over.
    ChangeUser,
    /// What came of its `KILL` is awaited.
    AwaitKill(AwaitKill),
    /// Its command waits for what its names mean.
    AwaitNames(Box<AwaitNames>),
    /// Bytes go straight to this server connection and back.
    Forward(ConnId),
    /// A server of this hostgroup is awaited, for a connection of its own.
    AwaitServer(HostgroupId),
    /// Ends when its outbox is empty.
    Closing,
}

impl Phase {
    /// Takes out the statement under way; then its client is idle.
    #[inline]
    pub(crate) fn take_statement(&mut self) -> Option<Box<Statement>> {
        match std::mem::replace(self, Self::Idle) {
            Self::Running(statement) => Some(statement),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Takes out the statement under way, if it is held back for what is `wanted`; then its client
    /// is idle.
    pub(crate) fn take_held(
        &mut self,
        wanted: impl FnOnce(&Awaits) -> bool,
    ) -> Option<(Box<Statement>, Held)> {
        match self {
            Self::Running(statement) => {
                let held = statement.stage.release(wanted)?;
                self.take_statement().map(|statement| (statement, held))
            }
            _ => None,
        }
    }
}

/// A `KILL` that is being carried out.
#[derive(Debug)]
pub(crate) struct AwaitKill {
    /// Tells it from an earlier one.
    pub(crate) ticket: u64,
    /// Whom it names.
    pub(crate) number: u32,
    /// When the client is told that nobody knows what came of it, ms.
    pub(crate) deadline_ms: u64,
}

/// What the proxy knows of a logged-in client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) login: LoggedIn,
    pub(crate) settings: SessionSettings,
    /// At most one per hostgroup; empty between statements unless pinned.
    pub(crate) leases: Leases,
    /// What `LAST_INSERT_ID()` gives.
    pub(crate) last_insert_id: u64,
    /// The connection that ran the last statement, and its turn then.
    pub(crate) last_conn: Option<(ConnId, u64)>,
    /// The connection that ran the statement which set `last_insert_id`, and its turn then.
    pub(crate) insert_conn: Option<(ConnId, u64)>,
    /// What else the last statement left.
    pub(crate) past: LastStatement,
    /// Statements prepared by command.
    pub(crate) prepared: ClientStmts,
    /// Connections that its statements have left dirty, which it may have left since.
    pub(crate) soiled: Vec<ConnId>,
    /// Whether its command under way has waited for what its names mean.
    pub(crate) has_asked_names: bool,
    /// Its open transaction.
    pub(crate) transaction: SessionTransaction,
    /// What was lost with a lease; the next command is answered with it.
    pub(crate) lost: Option<Lost>,
}

/// What is known of a session's open transaction, beside its place.
#[derive(Debug, Default)]
pub(crate) struct SessionTransaction {
    /// It only reads and is to leave a reader: it begins anew on the writer before the statement
    /// under way.
    pub(crate) begins_read_only: bool,
    /// It may have to be repeated.
    pub(crate) kept: Option<Box<Kept>>,
}

/// As whom, and with what agreed on, a client has logged in.
#[derive(Debug)]
pub(crate) struct LoggedIn {
    pub(crate) user: Arc<User>,
    /// The user's place under its cap; given back with the session.
    pub(crate) place: Option<UserPlace>,
    pub(crate) account: AccountId,
    pub(crate) credential: Arc<Credential>,
    pub(crate) capabilities: Capabilities,
    /// What the client told of itself, as far as it is kept.
    pub(crate) attributes: Box<[Attribute]>,
    /// What a client with zstd wants to be answered with.
    pub(crate) zstd_level: u8,
    /// Framing of replies.
    pub(crate) format: ReplyFormat,
    /// The character set of the handshake; a reset returns to it.
    pub(crate) handshake_charset: Charset,
}

/// What a session is set to.
#[derive(Debug)]
pub(crate) struct SessionSettings {
    pub(crate) state: Arc<SessionState>,
    pub(crate) modes: Modes,
    /// What of `state` decides how texts are read.
    pub(crate) reading: Reading,
    /// Which changes of session state the client is told.
    pub(crate) told: TrackerFilter,
    /// Status flags of the last reply.
    pub(crate) status: u16,
    /// Its transaction of which no server knows yet, or only the one that runs its statement.
    pub(crate) begun: Option<Begun>,
    /// The flag that the next statement's rules begin with.
    pub(crate) next_flag: u32,
    /// Hashes of `SET` texts that servers accepted from it without a warning, latest last.
    pub(crate) accepted_sets: Vec<u64>,
    /// A text that it has prepared by `PREPARE … FROM` may define what names mean.
    pub(crate) prepares_definitions: bool,
    /// What it has written, and what its read has to see.
    pub(crate) causal: SessionCausal,
    /// What it may have written that binary logs have not told of yet.
    pub(crate) own_writes: OwnWrites,
}

/// How certain it is that what was told of a transaction last still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Standing {
    /// The last reply was no error, and told of an open transaction.
    Open,
    /// It was an error, or did not.
    #[default]
    Unsure,
    /// A statement has failed that may have committed it before: DDL does, even if it fails.
    /// Nothing has said since that it is open.
    MayBeCommitted,
}

/// A server connection that is this session's alone.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) hostgroup: HostgroupId,
    pub(crate) conn: ConnId,
    pub(crate) pins: Pins,
    /// Whether the last reply that could say so told of an open transaction.
    pub(crate) is_in_trans: bool,
    /// The last reply on it said that the transaction there only reads.
    pub(crate) only_reads: bool,
    /// Its transaction began with an access mode or isolation level of its own.
    pub(crate) begun_apart: bool,
    /// The `BEGIN` of the session's transaction has been sent there, and its statement has not been
    /// answered yet.
    pub(crate) is_begun: bool,
    pub(crate) standing: Standing,
    /// An error has ended its transaction, or may have, and no reply has said since whether one is
    /// open.
    pub(crate) is_in_doubt: bool,
    /// Its hostgroup is not the session's any more: its transaction may end, and nothing goes on
    /// behind that.
    pub(crate) is_left: bool,
    /// A statement has run in its transaction that writes, or may by its text.
    pub(crate) has_written: bool,
    /// What pinned it; `None` while nothing does.
    pub(crate) pinned_by: Option<PinnedBy>,
}

/// Which statement pinned a session, and when.
#[derive(Debug, Clone)]
pub(crate) struct PinnedBy {
    pub(crate) statement: PinningStatement,
    pub(crate) since_us: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum PinningStatement {
    /// One without a text that is known.
    Unknown,
    Known(Rc<Known>),
    /// The digest of one of which so much is known that it is not kept for this, and its text, cut.
    Digest(u64, Box<[u8]>),
}

impl PinningStatement {
    pub(crate) fn of(known: Option<&Rc<Known>>) -> Self {
        /// Bytes that are kept of what is known of it.
        const KEPT_MAX: usize = 4_096;

        match known {
            None => Self::Unknown,
            Some(known) if known.held() <= KEPT_MAX => Self::Known(Rc::clone(known)),
            Some(known) => {
                let text = known.digest_text.get(..KEPT_MAX).unwrap_or(&known.digest_text);
                Self::Digest(known.digest, text.into())
            }
        }
    }

    /// Its digest and the digest's text; 0 where there is none.
    pub(crate) fn digest(&self) -> (u64, &[u8]) {
        match self {
            Self::Unknown => (0, &[]),
            Self::Known(known) => (known.digest, &known.digest_text),
            Self::Digest(digest, text) => (*digest, text),
        }
    }
}

impl Lease {
    /// Ends what the last statement left to be read, as far as `ends` says so. True when that was
    /// all that held the session there.
    #[inline]
    pub(crate) fn end_brief_pins(&mut self, ends: impl Fn(PinReason) -> bool) -> bool {
        let was_pinned = !self.pins.is_empty();
        for reason in [PinReason::Warnings, PinReason::FoundRows] {
            if self.pins.has(reason) && ends(reason) {
                self.pins.unpin(reason);
            }
        }
        was_pinned && self.pins.is_empty()
    }
}

/// Whether a statement does not read what the last one left.
#[inline]
pub(crate) fn is_not_read(left: PinReason, analysis: &Analysis) -> bool {
    match left {
        PinReason::Warnings => !analysis.depends.contains(Depends::DIAGNOSTICS),
        _ => !analysis.depends.contains(Depends::FOUND_ROWS),
    }
}

/// `SET` texts of one session that are remembered.
const ACCEPTED_SETS_MAX: usize = 16;

impl SessionSettings {
    /// What a session begins with, in this state and with these status flags.
    pub(crate) fn new(state: Arc<SessionState>, modes: Modes, status: u16) -> Self {
        Self {
            state,
            modes,
            told: TrackerFilter::DEFAULT,
            status,
            begun: None,
            next_flag: 0,
            accepted_sets: Vec::new(),
            reading: Reading::default(),
            own_writes: OwnWrites::default(),
            prepares_definitions: false,
            causal: SessionCausal::default(),
        }
    }
}

impl Session {
    /// A session in which nothing has run.
    pub(crate) fn new(login: LoggedIn, settings: SessionSettings) -> Self {
        Self {
            login,
            settings,
            leases: Leases::default(),
            last_insert_id: 0,
            last_conn: None,
            insert_conn: None,
            past: LastStatement::default(),
            prepared: ClientStmts::default(),
            soiled: Vec::new(),
            has_asked_names: false,
            transaction: SessionTransaction::default(),
            lost: None,
        }
    }

    /// Ends it: takes out what it has of others', and nothing is left that it could ask for.
    pub(crate) fn end(&mut self) -> (Leases, Vec<ConnId>, Option<UserPlace>) {
        self.last_conn = None;
        self.insert_conn = None;
        self.past = LastStatement::default();
        self.prepared = ClientStmts::default();
        self.transaction = SessionTransaction::default();
        self.lost = None;
        self.settings.begun = None;
        (mem::take(&mut self.leases), mem::take(&mut self.soiled), self.login.place.take())
    }

    /// The family of its servers. Reading it off the greeting takes longer.
    pub(crate) fn flavor(&self) -> Flavor {
        match self.settings.modes.flavor_mariadb {
            true => Flavor::MariaDb,
            false => Flavor::MySql,
        }
    }

    pub(crate) fn lease_mut(&mut self, conn: ConnId) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.conn == conn)
    }

    /// Whether the hostgroup of a connection that it holds is not its own any more.
    #[inline]
    pub(crate) fn has_left(&self, conn: ConnId) -> bool {
        self.leases.iter().any(|lease| lease.conn == conn && lease.is_left)
    }

    /// The lease that is in a transaction.
    fn transaction_lease(&self) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.pins.has(PinReason::Transaction))
    }

    /// Remembers that a server accepted this `SET`.
    pub(crate) fn remember_set(&mut self, text: u64) {
        self.settings.accepted_sets.retain(|known| *known != text);
        if self.settings.accepted_sets.len() >= ACCEPTED_SETS_MAX {
            self.settings.accepted_sets.remove(0);
        }
        self.settings.accepted_sets.push(text);
    }

    /// Whether a transaction is open, or has begun of which no server knows yet.
    pub(crate) fn is_in_any_transaction(&self) -> bool {
        self.settings.begun.is_some() || self.is_in_transaction()
    }

    /// Whether a transaction is open.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.transaction_lease().is_some()
    }
}

#[cfg(test)]
mod tests;
