//! Follows the roles of clusters' servers: asks them, lets [`trunkline_cluster`] decide, and sets
//! the cells that workers read.
//!
//! Reading order: [`board`] (what is shown), `following` (one cluster), `questions` (what a server
//! is asked, and what its answer means); for switchovers `survey` (what is asked beforehand),
//! `talk` (the connection to a server), `members` (all of them) and `actions` (what each step
//! says).

mod actions;
pub mod board;
mod following;
mod members;
mod notes;
mod questions;
mod survey;
mod talk;

use std::{
    collections::HashMap,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch::Receiver},
    time::{Instant, sleep_until},
};
use trunkline_cluster::{Event, Input};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_topology::Address;

pub use board::Board;
use following::rejoining::Teller;
pub use following::switching::{SwitchoverAnswer, SwitchoverRequest};
use following::{Answered, Following, switching::Told};
use notes::{Begun, Note, Notes};

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

/// What an operator asks of a cluster.
pub enum ClusterRequest {
    /// Another server becomes the writer.
    Switchover(SwitchoverRequest),
    /// Something that is answered with a line.
    Order(ClusterOrder, Teller),
}

/// What is answered with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterOrder {
    /// A server replicates from the writer again.
    Rejoin(Address),
    /// An operator works on a server, or has finished.
    Maintenance(Address, bool),
    /// A cluster may fail over again by itself.
    ClearFailover(String),
}

/// A lost writer that is to be fenced by the operator's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FenceRequest {
    /// The cluster.
    pub cluster: String,
    /// The server.
    pub server: String,
}

/// What came of the program for fencing; the error says why it has not fenced.
pub type FenceFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// What failovers need beside the servers.
pub struct Aids {
    /// Runs the operator's program for fencing.
    pub fence: Box<dyn Fn(FenceRequest) -> FenceFuture + Send + Sync>,
    /// Where failovers are noted, if anywhere.
    pub file: Option<PathBuf>,
    notes: Mutex<Notes>,
}

impl Aids {
    /// With what an earlier process has noted.
    pub fn new(
        fence: Box<dyn Fn(FenceRequest) -> FenceFuture + Send + Sync>,
        file: Option<PathBuf>,
    ) -> Self {
        let notes = match file.as_deref().map(Notes::load) {
            Some(Ok(notes)) => notes,
            Some(Err(error)) => {
                tracing::error!("what is noted of failovers can't be read: {error}");
                Notes::default()
            }
            None => Notes::default(),
        };
        Self { fence, file, notes: Mutex::new(notes) }
    }

    fn noted(&self, cluster: &str) -> Option<Note> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).of(cluster).cloned()
    }

    fn note(&self, note: Note) -> Result<(), String> {
        let path = self.file.as_deref().ok_or("there is no state file")?;
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).keep(note, path)
    }

    fn begun(&self, cluster: &str) -> Option<Begun> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).begun(cluster).cloned()
    }

    fn begin(&self, begun: Begun) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = notes.begin(begun, self.file.as_deref()) {
            tracing::warn!("{error}");
        }
    }

    fn end(&self, cluster: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = notes.end(cluster, self.file.as_deref()) {
            tracing::warn!("{error}");
        }
    }

    fn forget(&self, cluster: &str) {
        let Some(path) = self.file.as_deref() else { return };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = notes.forget(cluster, path) {
            tracing::warn!("{error}");
        }
    }
}

/// Follows every cluster of the running configuration. Ends with whoever publishes snapshots.
pub async fn keep_following(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<Board>,
    news: mpsc::Sender<ClusterNews>,
    mut requests: mpsc::Receiver<ClusterRequest>,
    aids: Aids,
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
                following.recall(now_ms(), &aids);
                following.look_at_switchover(now_ms());
                following.look_at_failover(now_ms(), &Arc::clone(&tls.borrow()));
                following.look_at_rejoin(&Arc::clone(&tls.borrow()), &tells);
                following.ask_due(now_ms(), &Arc::clone(&tls.borrow()), &board, &answers);
                following.carry_out(&board, &news);
                following.start_steps(&tells, &aids);
                following.start_failover_steps(now_ms(), &tells, &aids);
                following.mend(now_ms(), &Arc::clone(&tls.borrow()), &tells, &aids);
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
                Some(request) = requests.recv() => {
                    let tls = Arc::clone(&tls.borrow());
                    match request {
                        ClusterRequest::Switchover(request) => {
                            switch_over(&mut clusters, request, &tls, &tells);
                        }
                        ClusterRequest::Order(order, teller) => {
                            let helpers = (&tls, &tells, &aids);
                            carry_out(&mut clusters, now_ms(), order, teller, helpers);
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

fn switch_over(
    clusters: &mut HashMap<String, Following>,
    request: SwitchoverRequest,
    tls: &Arc<TlsSetup>,
    tells: &mpsc::Sender<Told>,
) {
    match clusters.get_mut(&request.cluster) {
        Some(following) => following.request(request, tls, tells),
        None => {
            let why = format!("there is no cluster `{}`", request.cluster);
            // Who asked may have gone.
            drop(request.answer.send(SwitchoverAnswer::refused(why)));
        }
    }
}

/// Does what an operator asks for, in the cluster that has the server.
fn carry_out(
    clusters: &mut HashMap<String, Following>,
    now_ms: u64,
    order: ClusterOrder,
    teller: Teller,
    (tls, tells, aids): (&Arc<TlsSetup>, &mpsc::Sender<Told>, &Aids),
) {
    let (found, missing) = match &order {
        ClusterOrder::Rejoin(server) | ClusterOrder::Maintenance(server, _) => (
            clusters.values_mut().find(|it| it.has(server)),
            format!("{server} is no server of any cluster"),
        ),
        ClusterOrder::ClearFailover(name) => {
            (clusters.get_mut(name), format!("there is no cluster `{name}`"))
        }
    };
    let answer = match (found, order) {
        (None, _) => Err(missing),
        (Some(following), ClusterOrder::Rejoin(server)) => {
            return following.rejoin(&server, Some(teller), tls, tells);
        }
        (Some(following), ClusterOrder::Maintenance(server, is_on)) => {
            following.maintain(now_ms, &server, is_on)
        }
        (Some(following), ClusterOrder::ClearFailover(_)) => {
            Ok(following.clear_failover(now_ms, aids))
        }
    };
    // Who asked may have gone.
    drop(teller.send(answer));
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
