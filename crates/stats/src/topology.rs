//! Clusters as they are now, and what has happened to them.

use serde::{Deserialize, Serialize};

use crate::checks::CheckSums;

/// What a server can be in its cluster.
pub const ROLES: [&str; 6] = ["unknown", "writer", "backup_writer", "reader", "standby", "fenced"];

/// Whether a member can be reached.
pub const REACHES: [&str; 4] = ["unknown", "up", "suspect", "down"];

/// What the monitor counts, and clusters as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MonitorFigures {
    /// Clusters by name.
    pub clusters: Vec<ClusterRow>,
    /// Events since the start, by cluster and event.
    pub events: Vec<EventSum>,
    /// Checks since the start, by kind.
    pub checks: Vec<CheckSums>,
    /// Binary logs that are followed, by cluster.
    pub streams: Vec<StreamRow>,
}

/// The binary log of a cluster's writer, as it is followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamRow {
    /// The cluster.
    pub cluster: String,
    /// The server that is followed; empty while none is.
    pub server: String,
    /// Why none is.
    pub trouble: String,
    /// What has come, as a GTID set or a position.
    pub position: String,
    /// Transactions that have come.
    pub transactions: u64,
    /// How often it could not go on from where it was.
    pub gaps: u64,
    /// How old the last transaction was when it came, µs.
    pub lag_us: u64,
}

/// How often something has happened to a cluster since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventSum {
    /// The cluster.
    pub cluster: String,
    /// The event's name.
    pub event: String,
    /// How often.
    pub count: u64,
}

/// Clusters and events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Topology {
    /// Clusters by name.
    pub clusters: Vec<ClusterRow>,
    /// What has happened, the oldest first.
    pub events: Vec<EventRow>,
}

/// A cluster as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClusterRow {
    /// Its name.
    pub name: String,
    /// How roles are found out.
    pub kind: String,
    /// The writer's hostgroup.
    pub writer_hostgroup: u32,
    /// The readers' hostgroup.
    pub reader_hostgroup: u32,
    /// How often the writer has changed since the start.
    pub epoch: u32,
    /// Its servers.
    pub servers: Vec<MemberRow>,
}

/// A server of a cluster as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemberRow {
    /// Where it is.
    pub address: String,
    /// One of [`ROLES`].
    pub role: String,
    /// One of [`REACHES`].
    pub reach: String,
    /// Whether it takes writes; `None` when it has not told.
    pub writable: Option<bool>,
    /// The member that it replicates from.
    pub source: Option<String>,
    /// How far behind its source it is, s; `None` when it can't tell.
    pub lag_sec: Option<u64>,
    /// Transactions of the cluster's stream that it lacked when it last answered; `None` when there
    /// is none.
    pub missing: Option<u64>,
    /// How long ago the first of these came then, µs.
    pub behind_us: Option<u64>,
    /// Its version.
    pub version: String,
    /// The transactions that it has, in its own notation.
    pub gtid: String,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// Something that has happened to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EventRow {
    /// Its number, from 1.
    pub id: u64,
    /// When, s since 1970.
    pub at: u64,
    /// The cluster.
    pub cluster: String,
    /// What has changed: MaxScale's names of events, and some of our own.
    pub event: String,
    /// The server; empty for the cluster as a whole.
    pub server: String,
    /// What showed it.
    pub evidence: String,
}
