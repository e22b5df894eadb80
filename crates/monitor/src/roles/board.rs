//! What is shown of clusters: their servers as they are now, and what has happened.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use trunkline_config::Snapshot;
use trunkline_stats::{
    checks::{CheckKind, CheckRow},
    topology::{ClusterRow, EventRow, Topology},
};

/// Events that are remembered; the oldest goes first.
pub const EVENTS_MAX: usize = 1_000;

/// Checks of a kind that are remembered; the oldest goes first.
const CHECKS_MAX: usize = 10_000;

/// What is shown, for whoever asks.
#[derive(Debug, Default)]
pub struct Board(Mutex<Shown>, Mutex<Vec<VecDeque<CheckRow>>>);

#[derive(Debug, Default)]
struct Shown {
    clusters: BTreeMap<String, ClusterRow>,
    events: VecDeque<EventRow>,
    /// The number of the next event.
    next: u64,
}

impl Board {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is now.
    pub fn topology(&self) -> Topology {
        let shown = self.shown();
        Topology {
            clusters: shown.clusters.values().cloned().collect(),
            events: shown.events.iter().cloned().collect(),
        }
    }

    /// What checks of this kind came to, the oldest first.
    pub fn checks(&self, kind: CheckKind) -> Vec<CheckRow> {
        let checks = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |rows: &&VecDeque<CheckRow>| rows.front().is_some_and(|row| row.kind == kind);
        checks.iter().find(of).into_iter().flatten().cloned().collect()
    }

    /// Remembers what a check came to.
    pub(crate) fn checked(&self, row: CheckRow) {
        let mut checks = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |rows: &&mut VecDeque<CheckRow>| {
            rows.front().is_some_and(|first| first.kind == row.kind)
        };
        match checks.iter_mut().find(of) {
            Some(rows) => {
                if rows.len() >= CHECKS_MAX {
                    rows.pop_front();
                }
                rows.push_back(row);
            }
            None => checks.push(VecDeque::from([row])),
        }
    }

    /// Forgets clusters that the configuration does not have any more.
    pub(super) fn keep(&self, snapshot: &Snapshot) {
        let is_there = |name: &String| snapshot.clusters.iter().any(|it| it.entry.name == *name);
        self.shown().clusters.retain(|name, _| is_there(name));
    }

    pub(super) fn show(&self, view: ClusterRow) {
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
        shown.events.push_back(EventRow { id, at, cluster, event, server, evidence });
    }
}
