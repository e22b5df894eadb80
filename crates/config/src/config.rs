//! A configuration that was read and found valid.

use std::sync::Arc;

use trunkline_rules::{FastRoutes, Rule, RuleSet};
use trunkline_topology::{ReplicationGroup, ServerCompression, ServerKey, ServerState, User};

use crate::{Settings, Snapshot, TcpEntry};

/// A valid configuration, as written: what [`crate::parse`] returns.
///
/// It says what the operator wants; a [`Snapshot`] built from it is what the workers serve by.
#[derive(Debug, Clone)]
pub struct Config {
    /// Scalar settings; those that the file leaves out have their defaults.
    pub settings: Settings,
    /// Servers in the order of the file; no two have one key.
    pub servers: Vec<ServerEntry>,
    /// Users in the order of the file; no two have one name.
    pub users: Vec<Arc<User>>,
    /// Writer and reader hostgroups in the order of the file; no hostgroup is the writer, or the
    /// reader, of two.
    pub replication: Vec<ReplicationGroup>,
    /// TCP listeners in the order of the file; no two have one address.
    pub tcp_listeners: Vec<TcpEntry>,
    /// Query rules in the order of the file; no two have one id.
    pub rules: Vec<Rule>,
    /// The same rules, compiled.
    pub rule_set: Arc<RuleSet>,
    /// Fast routing rules: those of the file's tables, then those of the file that it names.
    pub fast_routes: Arc<FastRoutes>,
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
    /// Whether new connections to it are compressed.
    pub compression: ServerCompression,
    /// What the operator decided; never [`ServerState::Shunned`].
    pub status: ServerState,
    /// Free text.
    pub comment: String,
}

impl Config {
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
    }
}
