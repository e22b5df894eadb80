//! A worker's connections to servers: their pool, who they are logged in as, and what is known of
//! the servers behind them.

pub(crate) mod closing;
pub(crate) mod conn;
mod credentials;
mod defaults;
pub(crate) mod dirt;
mod handover;
mod hold;
pub(crate) mod insert_ids;
mod kills;
pub(crate) mod marks;
mod opening;
pub(crate) mod read_only;
mod reset;
mod resting;
mod sessions;
mod state;
pub(crate) mod tenants;
mod traces;
pub(crate) mod trackers;
pub(crate) mod unheard;
mod writing;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use foldhash::fast::FixedState;
use trunkline_pool::{AccountId, ConnId, Pool, SlotId};
use trunkline_session::tracker::StateTable;
use trunkline_topology::{HostgroupId, ServerKey};

use crate::{
    ClientId,
    acquire::sharing::Patience,
    acquire::sharing::coalesce::Coalescing,
    causal::CausalWaits,
    kill::carriers::KillCommand,
    servers::conn::{AccountKey, Conn},
    servers::credentials::PasswordTurns,
    servers::handover::Ask,
    servers::marks::Marks,
    servers::tenants::Tenants,
    servers::trackers::Optional,
    statement::sql_modes::DefaultModes,
    table::Table,
};

/// All server connections of one worker.
pub(crate) struct Servers {
    pub(crate) conns: Table<ConnId, Conn>,
    pub(crate) pool: Pool<ClientId>,
    /// Hostgroups that an operator has paused, and until when, ms.
    pub(crate) pauses: BTreeMap<HostgroupId, u64>,
    pub(crate) logins: ServerLogins,
    /// Hashes of `SET` texts that a server has accepted on some connection.
    pub(crate) accepted_sets: HashSet<(SlotId, u32, u64), FixedState>,
    /// Servers that have carried out a reset.
    pub(crate) resetting: HashSet<SlotId, FixedState>,
    /// What sessions and connections may be in: each state once.
    pub(crate) states: StateTable,
    pub(crate) defaults: Defaults,
    /// What is set on new connections where servers have it.
    optional: Optional,
    pub(crate) kills: Kills,
    peers: Peers,
    pub(crate) sharing: Sharing,
}

/// How sessions reach servers: accounts, passwords, schemas.
#[derive(Default)]
pub(crate) struct ServerLogins {
    pub(crate) accounts: Accounts,
    pub(crate) password_turns: PasswordTurns,
    /// What transactions of connections are known by.
    pub(crate) marks: Marks,
    /// Why the last connection to each hostgroup did not come up, until one does.
    pub(crate) last_failures: HashMap<HostgroupId, String, FixedState>,
    /// Schemas that a server confirmed lately, by account: ms of the confirmation.
    pub(crate) schemas: HashMap<(AccountId, Box<[u8]>), u64, FixedState>,
}

impl Servers {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            conns: Table::new(),
            pool: Pool::new(seed),
            logins: ServerLogins { marks: Marks::new(seed), ..ServerLogins::default() },
            pauses: BTreeMap::new(),
            accepted_sets: HashSet::with_hasher(FixedState::default()),
            resetting: HashSet::with_hasher(FixedState::default()),
            states: StateTable::default(),
            defaults: Defaults::default(),
            optional: [true; _],
            kills: Kills::default(),
            peers: Peers::default(),
            sharing: Sharing::default(),
        }
    }
}

/// What sessions begin with on the servers.
#[derive(Default)]
pub(crate) struct Defaults {
    pub(crate) modes: DefaultModes,
    /// What [`Shared::globals_set`](crate::Shared) said when the modes were learnt.
    pub(crate) modes_seen: u64,
    /// What it said when connections were looked at last.
    globals_seen: u64,
    /// Whether MySQL servers tell sessions which have not asked for it what becomes of their
    /// transactions (`session_track_transaction_info`); `None` before one has answered a `BEGIN`.
    pub(crate) tells_transactions: Option<bool>,
}

/// `KILL`s on their way to servers.
#[derive(Default)]
pub(crate) struct Kills {
    pub(crate) commands: Vec<KillCommand>,
    /// The number of the next one.
    pub(crate) next: u64,
}

/// Idle connections that workers ask each other for.
#[derive(Default)]
struct Peers {
    /// Other workers that asked for an idle connection to a server.
    asked: VecDeque<Ask>,
    /// When others were asked last for one to a server, ms.
    asked_ms: HashMap<ServerKey, u64, FixedState>,
}

/// How reads share connections, and wait for replicas.
#[derive(Default)]
pub(crate) struct Sharing {
    pub(crate) patience: Patience,
    pub(crate) coalescing: Coalescing,
    /// Those that wait for a replica.
    pub(crate) causal: CausalWaits,
    /// On whose account statements run.
    pub(crate) tenants: Tenants,
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

#[cfg(test)]
mod tests;
