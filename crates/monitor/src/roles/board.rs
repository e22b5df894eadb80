//! What is shown of clusters: their servers as they are now, and what has happened.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;
use trunkline_config::Snapshot;
use trunkline_stats::{
    checks::{CheckKind, CheckRow, CheckSums},
    topology::{ClusterRow, EventRow, EventSum, MonitorFigures, Topology},
};

use crate::ChangeBoard;

/// Events that are remembered; the oldest goes first.
pub const EVENTS_MAX: usize = 1_000;

/// Checks of a kind that are remembered; the oldest goes first.
const CHECKS_MAX: usize = 10_000;

/// What is shown, for whoever asks.
#[derive(Debug, Default)]
pub struct Board {
    shown: Mutex<Shown>,
    checks: Mutex<Vec<Checks>>,
    told: watch::Sender<u64>,
    /// What transactions of clusters have changed.
    pub changes: Arc<ChangeBoard>,
}

/// Checks of one kind.
#[derive(Debug)]
struct Checks {
    kind: CheckKind,
    rows: VecDeque<CheckRow>,
    sums: CheckSums,
}

#[derive(Debug, Default)]
struct Shown {
    clusters: BTreeMap<String, ClusterRow>,
    events: VecDeque<EventRow>,
    /// How many there were, by cluster and event.
    counts: BTreeMap<(String, String), u64>,
    /// The number of the next event.
    next: u64,
}

impl Board {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is now.
    pub fn topology(&self) -> Topology {
        let shown = self.shown();
        Topology {
            clusters: shown.clusters.values().cloned().collect(),
            events: shown.events.iter().cloned().collect(),
        }
    }

    /// The number of events so far, whenever there is another one.
    pub fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// What is counted, and clusters as they are now.
    pub fn figures(&self) -> MonitorFigures {
        let checks = self.kinds().iter().map(|it| it.sums.clone()).collect();
        let shown = self.shown();
        let events = shown.counts.iter().map(|((cluster, event), count)| EventSum {
            cluster: cluster.clone(),
            event: event.clone(),
            count: *count,
        });
        MonitorFigures {
            events: events.collect(),
            clusters: shown.clusters.values().cloned().collect(),
            checks,
            streams: self.changes.rows(),
        }
    }

    fn kinds(&self) -> MutexGuard<'_, Vec<Checks>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What checks of this kind came to, the oldest first.
    pub fn checks(&self, kind: CheckKind) -> Vec<CheckRow> {
        let kinds = self.kinds();
        kinds.iter().filter(|it| it.kind == kind).flat_map(|it| it.rows.iter().cloned()).collect()
    }

    /// Remembers what a check came to.
    pub(crate) fn checked(&self, row: CheckRow) {
        let mut kinds = self.kinds();
        if !kinds.iter().any(|it| it.kind == row.kind) {
            let sums = CheckSums { kind: row.kind.name().to_owned(), ..CheckSums::default() };
            kinds.push(Checks { kind: row.kind, rows: VecDeque::new(), sums });
        }
        let Some(checks) = kinds.iter_mut().find(|it| it.kind == row.kind) else { return };
        match row.error {
            None => checks.sums.ok += 1,
            Some(_) => checks.sums.failed += 1,
        }
        if checks.rows.len() >= CHECKS_MAX {
            checks.rows.pop_front();
        }
        checks.rows.push_back(row);
    }

    /// Forgets clusters that the configuration does not have any more.
    pub(super) fn keep(&self, snapshot: &Snapshot) {
        let is_there = |name: &String| snapshot.clusters.iter().any(|it| it.entry.name == *name);
        let mut shown = self.shown();
        shown.clusters.retain(|name, _| is_there(name));
        shown.counts.retain(|(cluster, _), _| is_there(cluster));
    }

    pub(super) fn show(&self, view: ClusterRow) {
        self.shown().clusters.insert(view.name.clone(), view);
    }

    pub(super) fn add(&self, cluster: &str, event: &str, server: String, evidence: String) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut shown = self.shown();
        shown.next += 1;
        let (id, cluster, event) = (shown.next, cluster.to_owned(), event.to_owned());
        *shown.counts.entry((cluster.clone(), event.clone())).or_default() += 1;
        if shown.events.len() >= EVENTS_MAX {
            shown.events.pop_front();
        }
        shown.events.push_back(EventRow { id, at, cluster, event, server, evidence });
        self.told.send_replace(id);
    }
}
