//! What is shown of clusters: their servers as they are now, and what has happened.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use trunkline_config::Snapshot;

/// Events that are remembered; the oldest goes first.
pub const EVENTS_MAX: usize = 1_000;

/// What is shown, for whoever asks.
#[derive(Debug, Default)]
pub struct Board(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    clusters: BTreeMap<String, ClusterView>,
    events: VecDeque<EventView>,
    /// The number of the next event.
    next: u64,
}

/// A cluster as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ClusterView {
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
    /// Its servers, those that others replicate from first.
    pub servers: Vec<ServerView>,
}

/// A server of a cluster as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ServerView {
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
    /// The transactions that it has.
    pub gtid: String,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventView {
    /// Its number, from 1.
    pub id: u64,
    /// When, s since 1970.
    pub at: u64,
    /// The cluster.
    pub cluster: String,
    /// What has changed, as in [`trunkline_cluster::EventKind::name`].
    pub event: String,
    /// The server; empty for the cluster as a whole.
    pub server: String,
    /// What showed it.
    pub evidence: String,
}

impl Board {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Clusters by name.
    pub fn clusters(&self) -> Vec<ClusterView> {
        self.shown().clusters.values().cloned().collect()
    }

    /// What has happened, the oldest first.
    pub fn events(&self) -> Vec<EventView> {
        self.shown().events.iter().cloned().collect()
    }

    /// Forgets clusters that the configuration does not have any more.
    pub(super) fn keep(&self, snapshot: &Snapshot) {
        let is_there = |name: &String| snapshot.clusters.iter().any(|it| it.entry.name == *name);
        self.shown().clusters.retain(|name, _| is_there(name));
    }

    pub(super) fn show(&self, view: ClusterView) {
        self.shown().clusters.insert(view.name.clone(), view);
    }

    pub(super) fn add(&self, cluster: &str, event: &str, server: String, evidence: String) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut shown = self.shown();
        shown.next += 1;
        let (id, cluster, event) = (shown.next, cluster.to_owned(), event.to_owned());
        if shown.events.len() >= EVENTS_MAX {
            shown.events.pop_front();
        }
        shown.events.push_back(EventView { id, at, cluster, event, server, evidence });
    }
}
