//! What the monitor's checks of servers came to.

use serde::{Deserialize, Serialize};

/// What was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckKind {
    /// Whether a connection can be opened.
    Connect,
    /// Whether a connection that stands is answered on.
    Ping,
    /// Whether it takes writes.
    ReadOnly,
    /// How far it is behind.
    ReplicationLag,
    /// What it is in its Galera cluster.
    Galera,
    /// What it is in its group.
    GroupReplication,
}

impl CheckKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Ping => "ping",
            Self::ReadOnly => "read_only",
            Self::ReplicationLag => "replication_lag",
            Self::Galera => "galera",
            Self::GroupReplication => "group_replication",
        }
    }
}

/// How many checks of a kind there were since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckSums {
    /// The kind's name.
    pub kind: String,
    /// Checks that the server answered.
    pub ok: u64,
    /// Checks that failed.
    pub failed: u64,
}

/// One check of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRow {
    /// What was checked.
    pub kind: CheckKind,
    /// The server.
    pub address: String,
    /// When it began, µs since 1970.
    pub started_us: u64,
    /// How long it took, µs; 0 when it failed.
    pub took_us: u64,
    /// What the server told: the columns of ProxySQL's table of this check between the time and the
    /// error. Empty when it failed.
    pub told: Vec<String>,
    /// Why it failed.
    pub error: Option<String>,
}
