//! Clusters as they are now, and what has happened to them.

use serde::{Deserialize, Serialize};

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
    /// `writer`, `reader`, `standby`, `fenced` or `unknown`.
    pub role: String,
    /// `up`, `suspect`, `down` or `unknown`.
    pub reach: String,
    /// Whether it takes writes; `None` when it has not told.
    pub writable: Option<bool>,
    /// The member that it replicates from.
    pub source: Option<String>,
    /// How far behind its source it is, s; `None` when it can't tell.
    pub lag_sec: Option<u64>,
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
