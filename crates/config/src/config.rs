//! A configuration that was read and found valid.

use std::{collections::BTreeMap, sync::Arc};

use trunkline_rules::{Column, FastRoutes, Rule, RuleSet};
use trunkline_topology::{
    Address, Balance, HostgroupId, LazyTransactions, PinnedKeys, Pipeline, ReplicationGroup,
    ServerCompression, ServerKey, ServerState, ServerTls, TlsMode, TlsParams, User,
    causal::CausalReads,
};

use crate::{ClusterEntry, Guards, Settings, Snapshot, TcpEntry, snapshot::TlsWishes};

/// A valid configuration, as written: what [`crate::parse`] returns.
///
/// It says what the operator wants; a [`Snapshot`] built from it is what the workers serve by.
#[derive(Debug, Clone)]
pub struct Config {
    /// Scalar settings; those that the file leaves out have their defaults.
    pub settings: Settings,
    /// Servers in the order of the file; no two have one key.
    pub servers: Vec<ServerEntry>,
    /// What is said of hostgroups, in the order of the file; of none twice.
    pub hostgroups: Vec<HostgroupEntry>,
    /// Users in the order of the file; no two have one name.
    pub users: Vec<Arc<User>>,
    /// Writer and reader hostgroups in the order of the file; no hostgroup is the writer, or the
    /// reader, of two.
    pub replication: Vec<ReplicationGroup>,
    /// Clusters in the order of the file; no two have one name.
    pub clusters: Vec<ClusterEntry>,
    /// Servers that clusters were found to have beside those of the file, by the cluster's name.
    pub discovered: BTreeMap<String, Vec<Address>>,
    /// What TLS to some servers works with; no two are for one server and user.
    pub tls_params: Vec<ServerTlsEntry>,
    /// TCP listeners in the order of the file; no two have one address.
    pub tcp_listeners: Vec<TcpEntry>,
    /// Query rules in the order of the file; no two have one id.
    pub rules: Vec<Rule>,
    /// The query rules, compiled.
    pub rule_set: Arc<RuleSet>,
    /// Fast routing rules: those of the file's tables, then those of the file that it names.
    pub fast_routes: Arc<FastRoutes>,
    /// The firewall's lists and the limits.
    pub guards: Arc<Guards>,
    /// Public keys of servers, from the settings.
    pub server_keys: Arc<PinnedKeys>,
}

/// One server as the operator wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Hostgroup and address.
    pub key: ServerKey,
    /// Share of the traffic among the hostgroup's online servers; 0 takes none.
    pub weight: u32,
    /// The most connections to this server over all workers.
    pub max_connections: u32,
    /// The most that it may lag behind what it replicates, s; 0 for no limit.
    pub max_replication_lag: u32,
    /// Servers of a higher rank take statements only when those of lower ones are out.
    pub rank: u32,
    /// Where it is; empty is near everywhere.
    pub zone: String,
    /// Whether new connections to it are compressed.
    pub compression: ServerCompression,
    /// Whether new connections to it are encrypted.
    pub tls: ServerTlsWish,
    /// What the operator decided; never [`ServerState::Shunned`].
    pub status: ServerState,
    /// Free text.
    pub comment: String,
}

impl ServerEntry {
    /// A server of which nothing is said.
    pub fn new(key: ServerKey) -> Self {
        Self {
            key,
            weight: 1,
            max_connections: 1_000,
            max_replication_lag: 0,
            rank: 0,
            zone: String::new(),
            compression: ServerCompression::default(),
            tls: ServerTlsWish::default(),
            status: ServerState::Online,
            comment: String::new(),
        }
    }
}

/// What the operator says of a hostgroup as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostgroupEntry {
    /// Its number.
    pub id: HostgroupId,
    /// Whether its statements share server connections.
    pub pipeline: Pipeline,
    /// How a server is chosen for a statement.
    pub balance: Balance,
    /// Which writes a read in it has to see, in place of what the settings say.
    pub causal_reads: Option<CausalReads>,
    /// Whether its transactions begin with their first statement; `None` as the settings say.
    pub lazy_transactions: Option<LazyTransactions>,
    /// Public keys of its servers, in place of those of the settings.
    pub server_keys: Option<Arc<PinnedKeys>>,
    /// Free text.
    pub comment: String,
}

impl HostgroupEntry {
    /// Whether it is more than a number.
    pub(crate) fn says_something(&self) -> bool {
        self.pipeline != Pipeline::default()
            || self.balance != Balance::default()
            || self.causal_reads.is_some()
            || self.lazy_transactions.is_some()
            || self.server_keys.is_some()
            || !self.comment.is_empty()
    }
}

/// Whether connections to a server are encrypted, as the operator wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTlsWish {
    /// So.
    Mode(TlsMode),
    /// As `ssl_p2s_mode` says: ProxySQL's `use_ssl = 1`.
    Default,
}

impl Default for ServerTlsWish {
    fn default() -> Self {
        Self::Mode(TlsMode::Disabled)
    }
}

/// What TLS to one server works with, for one user or (with an empty name) for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTlsEntry {
    /// The server.
    pub address: Address,
    /// The user; empty for those without an entry of their own.
    pub username: String,
    /// What it works with.
    pub params: Arc<TlsParams>,
}

impl Config {
    /// TLS to each server, in the order of the file.
    pub fn server_tls(&self) -> impl Iterator<Item = (Address, ServerTls)> {
        let wishes = TlsWishes { settings: &self.settings, entries: &self.tls_params };
        let entries = self.server_entries();
        entries.into_iter().map(move |entry| (entry.key.address.clone(), wishes.of(&entry)))
    }

    /// The servers of the file, and those that clusters add: each member is in both hostgroups of
    /// its cluster, which says where it serves.
    pub fn server_entries(&self) -> Vec<ServerEntry> {
        let mut entries = self.servers.clone();
        for cluster in &self.clusters {
            let added = cluster.added_entries(&self.servers, self.discovered_of(cluster));
            entries.extend(added);
        }
        entries
    }

    /// Servers that a cluster was found to have.
    pub(crate) fn discovered_of(&self, cluster: &ClusterEntry) -> &[Address] {
        self.discovered.get(&cluster.name).map_or(&[], Vec::as_slice)
    }

    /// The public keys that a hostgroup's servers may ask for a password with.
    pub(crate) fn keys_of(&self, id: HostgroupId) -> Arc<PinnedKeys> {
        let own = self.hostgroups.iter().find(|entry| entry.id == id);
        let own = own.and_then(|entry| entry.server_keys.as_ref());
        Arc::clone(own.unwrap_or(&self.server_keys))
    }

    /// What an operator should hear of rules whose patterns may take too many steps.
    pub fn pattern_warnings(&self) -> Vec<String> {
        let rules = self.rule_set.backtracking_rules();
        let warning = |(rule, column): (u32, Column)| {
            let counts_as = match self.rule_set.protects(rule) {
                true => "matches then, since it protects",
                false => "does not match then",
            };
            format!(
                "rule {rule}: {column} has look-around, a back-reference or an atomic group, so that \
                 a statement can make its search take too many steps; the rule {counts_as}. \
                 Patterns without them are always decided: `negate_match_pattern` says what must \
                 not be there, and several rules say what (?=...) says in one"
            )
        };
        rules.map(warning).collect()
    }

    /// The snapshot of this configuration; see [`Snapshot::build`].
    pub fn snapshot(self, previous: Option<&Snapshot>) -> Snapshot {
        Snapshot::build(self, previous)
    }
}

/// The word of the `compression` column; ProxySQL's 1 is zlib.
pub(crate) fn compression_word(compression: ServerCompression) -> &'static str {
    match compression {
        ServerCompression::Off => "off",
        ServerCompression::Zlib => "zlib",
        ServerCompression::Zstd => "zstd",
    }
}

/// The word of ProxySQL's `status` column.
pub(crate) fn status_word(status: ServerState) -> &'static str {
    match status {
        ServerState::Online => "ONLINE",
        ServerState::Shunned => "SHUNNED",
        ServerState::OfflineSoft => "OFFLINE_SOFT",
        ServerState::OfflineHard => "OFFLINE_HARD",
        ServerState::Lagging => "SHUNNED_REPLICATION_LAG",
        ServerState::Standby => "STANDBY",
    }
}

/// The word of the `tls` column.
pub(crate) fn tls_word(tls: ServerTlsWish) -> &'static str {
    match tls {
        ServerTlsWish::Mode(mode) => mode.word(),
        ServerTlsWish::Default => "1",
    }
}
