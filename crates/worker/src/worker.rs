//! The worker: its parts, and the events that a driver brings.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use foldhash::fast::FixedState;
use trunkline_cache::Cache;
use trunkline_catalog::Name;
use trunkline_config::{Guards, Snapshot};
use trunkline_pool::{AccountId, ConnId, Pool, SlotId};
use trunkline_protocol::{codec::compressed::Compressor, packet::greeting::Greeting};
use trunkline_rules::Limits;
use trunkline_session::tracker::StateTable;
use trunkline_stats::WorkerStats;
use trunkline_topology::{HostgroupId, ServerKey};

use crate::{
    Action, ClientId, Now, Shared, Side,
    action::LogLine,
    analysis::Analyses,
    client::{Client, Phase, Statement},
    coalesce::Coalescing,
    conn::{AccountKey, Conn, ConnPhase},
    definition::Orphan,
    handover::Ask,
    identity::PasswordTurns,
    mirror::Mirrors,
    outbox::{Buffers, Dirty},
    prepared::Entries,
    share::Patience,
    side::SideCommand,
    table::Table,
    time::Clock,
};

/// What distinguishes one worker from the others.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// Its number, from 0.
    pub index: usize,
    /// How many workers there are.
    pub workers: usize,
    /// Starts its random choices.
    pub seed: u64,
}

/// One worker of the data plane. See the crate's documentation.
pub struct Worker {
    #[cfg(feature = "plants")]
    pub(crate) plant: Option<crate::plants::Plant>,
    pub(crate) options: WorkerOptions,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) now: Clock,
    pub(crate) clients: Table<ClientId, Client>,
    /// Clients by the numbers that they were greeted with.
    pub(crate) numbers: HashMap<u32, ClientId, FixedState>,
    /// Where clients are that this worker gave their numbers and then to another worker.
    pub(crate) away: HashMap<u32, usize, FixedState>,
    /// Clients that move to another worker when they rest, and where to.
    pub(crate) leaving: Vec<(ClientId, usize)>,
    /// Bytes that wait for clients, of those for whom much does.
    pub(crate) waiting_bytes: usize,
    /// The number that was given last; 0 before the first.
    pub(crate) last_number: u32,
    /// `KILL`s on their way to servers.
    pub(crate) side_commands: Vec<SideCommand>,
    pub(crate) next_side_command: u64,
    pub(crate) conns: Table<ConnId, Conn>,
    pub(crate) pool: Pool<ClientId>,
    pub(crate) accounts: Accounts,
    pub(crate) password_turns: PasswordTurns,
    pub(crate) states: StateTable,
    pub(crate) analyses: Analyses,
    pub(crate) default_modes: crate::modes::DefaultModes,
    /// Lists of statements that servers are told to keep none of.
    pub(crate) lists_off: crate::trackers::Lists,
    /// Statements that were looked at for the query log.
    pub(crate) query_events: u64,
    pub(crate) entries: Entries,
    pub(crate) decisions: trunkline_rules::Memory,
    pub(crate) rule_hits: trunkline_rules::Hits,
    /// This worker's share of the limits, and the lists that it was made of.
    pub(crate) limits: Limits,
    pub(crate) guards: Arc<Guards>,
    /// Rules that the last statement matched, where a limit is about rules.
    pub(crate) matched_rules: Vec<u32>,
    /// The latest of a sequence of numbers by chance; never 0.
    pub(crate) chance: u64,
    /// When clients' statements are looked at again, ms.
    pub(crate) timers: BTreeSet<(u64, ClientId)>,
    pub(crate) buffers: Buffers,
    pub(crate) compressor: Box<dyn Compressor>,
    /// Sockets whose packed bytes can be unpacked now.
    pub(crate) unpacking: VecDeque<Side>,
    /// Memory of statements that are over, for those to come.
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is used again")]
    pub(crate) spare_statements: Vec<Box<Statement>>,
    pub(crate) stats: WorkerStats,
    /// Copies of statements for other hostgroups.
    pub(crate) mirrors: Mirrors,
    /// Answers that are stored for all workers.
    pub(crate) cache: Arc<Cache>,
    /// Room for the key that is asked for.
    pub(crate) cache_key: Vec<u8>,
    /// Clients whose awaited answers were stored, or will not be.
    pub(crate) cache_woken: VecDeque<ClientId>,
    /// Clients that wait for what users the servers have.
    pub(crate) looking_up: Vec<ClientId>,
    /// What [`Shared::globals_set`] said when connections were looked at last.
    pub(crate) globals_seen: u64,
    /// Up to which the modes are known that texts are read in.
    pub(crate) modes_seen: u64,
    /// Whether that has been asked and not been answered.
    pub(crate) has_asked_for_users: bool,
    /// Clients that wait for what their host is called, by its address.
    pub(crate) naming: HashMap<IpAddr, Vec<ClientId>, FixedState>,
    /// Clients that log in, oldest first, with their deadlines in ms.
    pub(crate) logging_in: VecDeque<(u64, ClientId)>,
    /// Schemas that a server confirmed lately, by account: ms of the confirmation.
    pub(crate) schemas: HashMap<(AccountId, Box<[u8]>), u64, FixedState>,
    /// Names that a statement has waited for in vain.
    pub(crate) unanswered: HashSet<Name, FixedState>,
    /// Definitions whose answers nobody awaits.
    pub(crate) orphans: Vec<Orphan>,
    /// Hashes of `SET` texts that a server has accepted on some connection.
    pub(crate) accepted_sets: HashSet<(SlotId, u32, u64), FixedState>,
    /// Servers that have carried out a reset.
    pub(crate) resetting: HashSet<SlotId, FixedState>,
    /// Other workers that asked for an idle connection to a server.
    pub(crate) asked: VecDeque<Ask>,
    pub(crate) asked_peers_ms: HashMap<ServerKey, u64, FixedState>,
    pub(crate) sweep_ms: u64,
    /// When it last looked at clients that rest, and whether any wants to be ended soon.
    pub(crate) rests_checked_ms: u64,
    pub(crate) has_short_rests: bool,
    pub(crate) conns_swept_ms: u64,
    pub(crate) waiters_checked_ms: u64,
    pub(crate) stopping: Option<u64>,
    pub(crate) is_stopped: bool,
    pub(crate) log_budget: u32,
    /// Why the last connection to each hostgroup did not come up, until one does.
    pub(crate) last_failures: HashMap<HostgroupId, String, FixedState>,
    /// Whether the driver can show clients a certificate.
    pub(crate) offers_tls: bool,
    pub(crate) patience: Patience,
    pub(crate) coalescing: Coalescing,
    actions: Vec<Action>,
    dirty: Dirty<Side>,
}

/// Accounts by number, and back.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    by_key: HashMap<AccountKey, AccountId, FixedState>,
    keys: Vec<AccountKey>,
}

impl Accounts {
    pub(crate) fn intern(&mut self, key: AccountKey) -> AccountId {
        if let Some(id) = self.by_key.get(&key) {
            return *id;
        }
        let id = AccountId(u32::try_from(self.keys.len()).unwrap_or(u32::MAX));
        self.keys.push(key.clone());
        self.by_key.insert(key, id);
        id
    }

    pub(crate) fn key(&self, id: AccountId) -> Option<&AccountKey> {
        self.keys.get(id.0 as usize)
    }
}

/// Log lines per second and worker; what is beyond is counted only.
pub(crate) const LOG_LINES_PER_SEC: u32 = 20;

impl Worker {
    /// A worker that serves `snapshot`; `compressor` packs for connections that are compressed.
    pub fn new(
        options: WorkerOptions,
        snapshot: Arc<Snapshot>,
        shared: Arc<Shared>,
        greeting: Arc<Greeting>,
        compressor: Box<dyn Compressor>,
    ) -> Self {
        let mut worker = Self {
            options,
            greeting,
            now: Clock::default(),
            clients: Table::new(),
            numbers: HashMap::with_hasher(FixedState::default()),
            away: HashMap::with_hasher(FixedState::default()),
            leaving: Vec::new(),
            waiting_bytes: 0,
            last_number: 0,
            side_commands: Vec::new(),
            next_side_command: 0,
            conns: Table::new(),
            pool: Pool::new(options.seed),
            accounts: Accounts::default(),
            password_turns: PasswordTurns::default(),
            states: StateTable::default(),
            analyses: Analyses::new(&snapshot.settings),
            default_modes: crate::modes::DefaultModes::default(),
            lists_off: [true; _],
            query_events: 0,
            entries: Entries::default(),
            decisions: trunkline_rules::Memory::new(crate::route::DECISIONS_MAX),
            rule_hits: trunkline_rules::Hits::new(&snapshot.rules),
            limits: crate::admission::share_of(&snapshot.guards, options.workers),
            guards: Arc::clone(&snapshot.guards),
            matched_rules: Vec::new(),
            chance: options.seed | 1,
            timers: BTreeSet::new(),
            buffers: Buffers::default(),
            compressor,
            unpacking: VecDeque::new(),
            spare_statements: Vec::new(),
            mirrors: Mirrors::default(),
            cache: Arc::clone(shared.cache()),
            cache_key: Vec::new(),
            cache_woken: VecDeque::new(),
            stats: crate::report::new_stats(&snapshot.settings, options.seed),
            looking_up: Vec::new(),
            globals_seen: 0,
            modes_seen: 0,
            has_asked_for_users: false,
            naming: HashMap::with_hasher(FixedState::default()),
            logging_in: VecDeque::new(),
            schemas: HashMap::with_hasher(FixedState::default()),
            unanswered: HashSet::with_hasher(FixedState::default()),
            orphans: Vec::new(),
            accepted_sets: HashSet::with_hasher(FixedState::default()),
            resetting: HashSet::with_hasher(FixedState::default()),
            asked: VecDeque::new(),
            asked_peers_ms: HashMap::with_hasher(FixedState::default()),
            sweep_ms: 0,
            rests_checked_ms: 0,
            has_short_rests: false,
            conns_swept_ms: 0,
            waiters_checked_ms: 0,
            stopping: None,
            is_stopped: false,
            #[cfg(feature = "plants")]
            plant: None,
            log_budget: LOG_LINES_PER_SEC,
            last_failures: HashMap::with_hasher(FixedState::default()),
            offers_tls: false,
            patience: Patience::default(),
            coalescing: Coalescing::default(),
            actions: Vec::new(),
            dirty: Dirty::default(),
            shared,
            snapshot,
        };
        worker.resize_cache();
        worker.apply_servers();
        worker
    }

    /// Begins a batch of events that all happen at `now`.
    pub fn begin_batch(&mut self, now: Now) {
        debug_assert!(now.us >= self.now.us, "time goes back");
        self.now = now.into();
    }

    /// What the driver has to do; call until `None` after each batch.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Gives the emptied list of actions back, to be filled again.
    pub fn recycle_actions(&mut self, mut actions: Vec<Action>) {
        if self.actions.is_empty() {
            actions.clear();
            self.actions = actions;
        }
    }

    /// A socket with bytes to write; call until `None` after each batch.
    pub fn next_dirty(&mut self) -> Option<Side> {
        // One that has gone meanwhile must not keep the rest from their turn.
        while let Some(side) = self.dirty.0.pop_front() {
            let outbox = match side {
                Side::Client(id) => self.clients.get_mut(id).map(|client| &mut client.outbox),
                Side::Server(id) => self.conns.get_mut(id).map(|conn| &mut conn.outbox),
            };
            if let Some(outbox) = outbox {
                outbox.is_listed = false;
                return Some(side);
            }
        }
        None
    }

    /// Whether any socket has bytes that the driver has not been told of.
    pub fn has_dirty(&self) -> bool {
        !self.dirty.0.is_empty()
    }

    /// The bytes to write to a socket.
    pub fn pending(&mut self, side: Side) -> &[u8] {
        let (outbox, packing) = match side {
            Side::Client(id) => match self.clients.get_mut(id) {
                Some(client) => (&mut client.outbox, &mut client.packing),
                None => return &[],
            },
            Side::Server(id) => match self.conns.get_mut(id) {
                Some(conn) => (&mut conn.outbox, &mut conn.packing),
                None => return &[],
            },
        };
        match packing {
            None => outbox.pending(),
            Some(packing) => packing.pending(outbox, &mut self.buffers, &mut *self.compressor),
        }
    }

    /// The kernel took `len` bytes of a socket's pending ones.
    pub fn wrote(&mut self, side: Side, len: usize) {
        match side {
            Side::Client(id) => {
                let Some(client) = self.clients.get_mut(id) else {
                    return;
                };
                // It rests from its answer on, not from its question.
                client.active_ms = self.now.ms();
                match client.packing.as_deref_mut() {
                    None => client.outbox.advance(len, &mut self.buffers),
                    Some(packing) => packing.advance(len, &mut self.buffers),
                }
                self.after_client_write(id);
            }
            Side::Server(id) => {
                let Some(conn) = self.conns.get_mut(id) else {
                    return;
                };
                if matches!(conn.phase, ConnPhase::Login(_)) {
                    // The password may be in it.
                    conn.outbox.wipe(len);
                }
                match conn.packing.as_deref_mut() {
                    None => conn.outbox.advance(len, &mut self.buffers),
                    Some(packing) => packing.advance(len, &mut self.buffers),
                }
                self.after_server_write(id);
            }
        }
    }

    /// Bytes from a client.
    pub fn client_read(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.active_ms = self.now.ms();
        match client.packing.is_some() {
            false => self.client_read_plain(id, bytes),
            true => self.packed_client_read(id, bytes),
        }
    }

    /// Bytes from a client, unpacked.
    #[inline]
    pub(crate) fn client_read_plain(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        match &client.phase {
            Phase::Login(_) => self.login_read(id, bytes),
            Phase::Idle => self.commands_read(id, bytes),
            Phase::Running(_) | Phase::AwaitKill(_) | Phase::AwaitNames(_) => {
                client.inbox.extend_from_slice(bytes);
                match self.is_uploading(id) {
                    true => self.upload(id),
                    false => self.pause_if_full(id),
                }
            }
            Phase::Forward(conn) => {
                let conn = *conn;
                self.forward_to_server(id, conn, bytes);
            }
            Phase::Closing => {}
        }
    }

    /// A client's socket ended or failed.
    pub fn client_closed(&mut self, id: ClientId) {
        self.remove_client(id);
    }

    /// Bytes from a server.
    pub fn server_read(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        match conn.packing.is_some() {
            false => self.server_read_plain(id, bytes),
            true => self.packed_server_read(id, bytes),
        }
    }

    /// Bytes from a server, unpacked.
    #[inline]
    pub(crate) fn server_read_plain(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.conns.get(id) else {
            return;
        };
        match &conn.phase {
            ConnPhase::Connecting(_) => self.server_broke(id, "sent bytes before it was connected"),
            ConnPhase::Login(_) if conn.in_flight.is_empty() => self.server_login_read(id, bytes),
            // An idle connection logs in again before what came before is answered.
            ConnPhase::Login(_) => self.reply_read(id, bytes),
            ConnPhase::Ready => self.reply_read(id, bytes),
            ConnPhase::Forward(client) => {
                let client = *client;
                self.forward_to_client(id, client, bytes);
            }
        }
    }

    /// A server's socket ended, or failed with this reason.
    pub fn server_closed(&mut self, id: ConnId, reason: &str) {
        self.unpack_last_words(id);
        self.lose_conn(id, reason);
    }

    /// How many clients this worker has.
    pub fn clients(&self) -> usize {
        self.clients.len() - self.mirrors.running
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(crate) fn log(&mut self, is_warning: bool, text: impl FnOnce() -> String) {
        match self.log_budget.checked_sub(1) {
            Some(left) => {
                self.log_budget = left;
                self.act(Action::Log(LogLine { is_warning, text: text() }));
            }
            None => self.stats.counters.log_lines_dropped += 1,
        }
    }

    /// Notes that a client's outbox has bytes.
    pub(crate) fn touch_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.is_mirror {
            return client.outbox.discard(&mut self.buffers);
        }
        if !client.outbox.is_listed {
            client.outbox.is_listed = true;
            self.dirty.0.push_back(Side::Client(id));
        }
    }

    /// Notes that a server connection's outbox has bytes.
    pub(crate) fn touch_server(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        if !conn.outbox.is_listed {
            conn.outbox.is_listed = true;
            self.dirty.0.push_back(Side::Server(id));
        }
    }

    /// Appends to a client's outbox.
    pub(crate) fn write_client(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(client) = self.clients.get_mut(id) {
            write(client.outbox.buf(&mut self.buffers));
            self.touch_client(id);
        }
    }

    /// Appends to a server connection's outbox.
    pub(crate) fn write_server(&mut self, id: ConnId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(conn) = self.conns.get_mut(id) {
            write(conn.outbox.buf(&mut self.buffers));
            self.touch_server(id);
        }
    }
}
