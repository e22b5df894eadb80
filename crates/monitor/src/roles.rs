//! Follows the roles of clusters' servers: asks them, lets [`trunkline_cluster`] decide, and sets
//! the cells that workers read.
//!
//! Reading order: [`board`] (what is shown), `following` (one cluster), `questions` (what a server
//! is asked, and what its answer means); for switchovers `survey` (what is asked beforehand),
//! `talk` (the connection to a server) and `actions` (what each step says).

mod actions;
pub mod board;
mod following;
mod questions;
mod survey;
mod talk;

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch::Receiver},
    time::{Instant, sleep_until},
};
use trunkline_cluster::{Event, Input};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_topology::Address;

pub use board::Board;
pub use following::switching::{SwitchoverAnswer, SwitchoverRequest};
use following::{Answered, Following};

/// How often it is looked what workers have seen of a cluster's servers.
const EVIDENCE_EVERY: Duration = Duration::from_millis(10);
/// Answers that wait to be taken.
const ANSWERS_MAX: usize = 1_024;

/// What whoever publishes snapshots has to know of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterNews {
    /// A cluster has servers there that are no members yet.
    Discovered {
        /// Its name.
        cluster: String,
        /// Where they are.
        servers: Vec<Address>,
    },
    /// Another server writes in a cluster: what names mean there may be different.
    OtherWriter,
    /// A writer finishes what is open on it: workers should close what they do not use.
    WriterDrains,
}

/// Follows every cluster of the running configuration. Ends with whoever publishes snapshots.
pub async fn keep_following(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<Board>,
    news: mpsc::Sender<ClusterNews>,
    mut switchovers: mpsc::Receiver<SwitchoverRequest>,
) {
    let (tells, mut told) = mpsc::channel(ANSWERS_MAX);
    let (answers, mut answered) = mpsc::channel(ANSWERS_MAX);
    let mut clusters: HashMap<String, Following> = HashMap::new();
    let clock = Instant::now();
    let now_ms = || u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut snapshot = Arc::clone(&snapshots.borrow_and_update());
    loop {
        renew(&mut clusters, &snapshot, now_ms());
        board.keep(&snapshot);
        let changed = loop {
            for following in clusters.values_mut() {
                following.look_at_traffic(now_ms());
                following.look_at_switchover(now_ms());
                following.ask_due(now_ms(), &Arc::clone(&tls.borrow()), &board, &answers);
                following.carry_out(&board, &news);
                following.start_steps(&tells);
            }
            let soon = clusters.values().filter_map(Following::next_ms).min();
            let pause = soon.map_or(EVIDENCE_EVERY, |at_ms| {
                Duration::from_millis(at_ms.saturating_sub(now_ms())).min(EVIDENCE_EVERY)
            });
            tokio::select! {
                changed = snapshots.changed() => break changed,
                Some(Answered { cluster, host, asked_ms, answer }) = answered.recv() => {
                    if let Some(following) = clusters.get_mut(&cluster) {
                        following.on(now_ms(), Input::Answer { host, asked_ms, answer });
                    }
                }
                Some(request) = switchovers.recv() => {
                    let tls = Arc::clone(&tls.borrow());
                    match clusters.get_mut(&request.cluster) {
                        Some(following) => following.request(request, &tls, &tells),
                        None => {
                            let why = format!("there is no cluster `{}`", request.cluster);
                            // Who asked may have gone.
                            drop(request.answer.send(SwitchoverAnswer::refused(why)));
                        }
                    }
                }
                Some(came) = told.recv() => {
                    if let Some(following) = clusters.get_mut(came.cluster()) {
                        following.take_told(now_ms(), came);
                    }
                }
                () = sleep_until(Instant::now() + pause), if !clusters.is_empty() => {}
            }
        };
        if changed.is_err() {
            return;
        }
        snapshot = Arc::clone(&snapshots.borrow_and_update());
    }
}

/// Takes over the clusters of a snapshot.
fn renew(clusters: &mut HashMap<String, Following>, snapshot: &Snapshot, now_ms: u64) {
    let is_there = |name: &String| snapshot.clusters.iter().any(|it| it.entry.name == *name);
    clusters.retain(|name, _| is_there(name));
    for cluster in &snapshot.clusters {
        let name = cluster.entry.name.clone();
        let known = clusters.remove(&name).filter(|it| it.is_of(cluster));
        let mut following = known.unwrap_or_else(|| Following::new(cluster));
        following.renew(snapshot, cluster, now_ms);
        clusters.insert(name, following);
    }
}

/// Logs an event of a cluster.
fn log(cluster: &str, server: Option<&Address>, event: &Event) {
    let kind = event.kind.name();
    let server = server.map(ToString::to_string).unwrap_or_default();
    match event.kind.is_bad() {
        true => tracing::warn!("cluster {cluster}: {kind} {server}: {}", event.evidence),
        false => tracing::info!("cluster {cluster}: {kind} {server}: {}", event.evidence),
    }
}
