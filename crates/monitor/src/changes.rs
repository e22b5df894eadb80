//! Follows the binary logs of clusters' writers, and tells what transactions have changed.
//!
//! One stream for each cluster with `binlog_stream`. It goes on where it was on another connection
//! or another writer, by GTID. The last changes are kept; who asks for older ones has them from the
//! server, on a connection of its own.

mod dump;
mod ledger;
mod told;
mod witness;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::{
        Semaphore, mpsc,
        watch::{self, Receiver},
    },
    task::JoinHandle,
    time::sleep,
};
use trunkline_binlog::{Change, Executed, History, NotTold, Told};
use trunkline_catalog::Catalog;
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_stats::topology::StreamRow;
use trunkline_topology::{Role, Server, ServerState};

use crate::{Account, follow::Clock};
use dump::{Dump, Failed, Place};
use ledger::Ledger;

/// The most changes of a cluster that are kept, and their bytes.
const CHANGES_MAX: usize = 10_000;
const CHANGES_LEN_MAX: usize = 8 << 20;
/// Who may follow changes at a time, of all clusters together.
const FOLLOWERS_MAX: usize = 16;
/// Changes that wait for a slow reader.
const WAITING_MAX: usize = 64;
/// How long after a failure it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked for a writer while there is none.
const WRITER_EVERY: Duration = Duration::from_millis(100);

/// What is known of the changes of all clusters.
#[derive(Debug)]
pub struct ChangeBoard {
    streams: Mutex<BTreeMap<String, Arc<Stream>>>,
    places: Arc<Semaphore>,
}

/// The changes of a cluster.
struct Stream {
    cluster: String,
    shown: Mutex<Shown>,
    /// Is told whenever something is different.
    news: watch::Sender<()>,
    snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    catalog: Arc<Catalog>,
    /// The workers' clock, ms.
    clock: Clock,
}

#[derive(Default)]
struct Shown {
    /// The versions of the cluster's tables, where answers are kept by them.
    ledger: Ledger,
    /// `None` until the first connection.
    history: Option<History>,
    /// Whether the next connection begins behind what its server has then.
    is_cut: bool,
    /// How often something may have been missed, and why it was last.
    gaps: u64,
    reason: String,
    /// The server that is followed now.
    server: Option<String>,
    /// Why none is.
    trouble: String,
    /// The cluster is not configured so any more.
    is_over: bool,
    transactions: u64,
    /// How old the last transaction was when it came, µs.
    lag_us: u64,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// How far a server is behind the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    /// Transactions that it lacks, of those that are kept.
    pub(crate) transactions: u64,
    /// How long ago the first of them came, µs.
    pub(crate) age_us: u64,
}

impl Default for ChangeBoard {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        Self { streams: Mutex::default(), places }
    }
}

impl ChangeBoard {
    /// What is shown of each stream.
    pub fn rows(&self) -> Vec<StreamRow> {
        lock(&self.streams).values().map(|stream| stream.row()).collect()
    }

    /// How far a server is behind the cluster's stream that has these transactions now; `None`
    /// while there is no stream.
    pub(crate) fn behind(&self, cluster: &str, gtid: &str) -> Option<Behind> {
        let stream = lock(&self.streams).get(cluster).cloned()?;
        let shown = stream.shown();
        let history = shown.history.as_ref().filter(|_| shown.server.is_some())?;
        let has = Executed::parse(history.reached().family(), gtid).ok()?;
        let lacks = history.lacks(&has)?;
        let age_us = lacks.since_us.map_or(0, |since_us| now_us().saturating_sub(since_us));
        Some(Behind { transactions: lacks.transactions, age_us })
    }

    /// Tells what changes from now on, or all behind `from`: a GTID set or a position. Without a
    /// name, it is the only cluster with a stream. Must run within a tokio runtime.
    ///
    /// # Errors
    /// Why nothing can be told.
    pub fn follow(
        &self,
        cluster: Option<&str>,
        from: Option<&str>,
    ) -> Result<mpsc::Receiver<Told>, NotTold> {
        let stream = self.stream(cluster)?;
        let reached = {
            let shown = stream.shown();
            let history = shown.history.as_ref().ok_or_else(|| {
                let (cluster, why) = (&stream.cluster, &shown.trouble);
                NotTold::NotYet(format!("the stream of cluster {cluster} has not begun: {why}"))
            })?;
            history.reached().clone()
        };
        let from = from.map(|text| {
            let wrong =
                |error| NotTold::Wrong(format!("from: it is no GTID set or position: {error}"));
            Executed::parse(reached.family(), text).map_err(wrong)
        });
        let from = from.transpose()?;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            NotTold::Full(format!("{FOLLOWERS_MAX} follow changes already, which is the most"))
        })?;
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let teller = told::Teller::new(stream, from, sender);
        tokio::spawn(async move {
            let _place = place;
            teller.tell().await;
        });
        Ok(receiver)
    }

    fn stream(&self, cluster: Option<&str>) -> Result<Arc<Stream>, NotTold> {
        let streams = lock(&self.streams);
        let found = match cluster {
            Some(name) => streams.get(name),
            None if streams.len() > 1 => {
                let names: Vec<&str> = streams.keys().map(String::as_str).collect();
                let names = names.join(", ");
                return Err(NotTold::Wrong(format!("name one of the clusters: {names}")));
            }
            None => streams.values().next(),
        };
        found.cloned().ok_or_else(|| {
            NotTold::Unknown("there is no such cluster with binlog_stream = true".to_owned())
        })
    }
}

impl Stream {
    fn new(
        cluster: &str,
        snapshots: &Receiver<Arc<Snapshot>>,
        tls: &Receiver<Arc<TlsSetup>>,
        (catalog, clock): (&Arc<Catalog>, &Clock),
    ) -> Self {
        let shown = Shown { trouble: "there is no writer yet".to_owned(), ..Shown::default() };
        Self {
            cluster: cluster.to_owned(),
            shown: Mutex::new(shown),
            news: watch::Sender::new(()),
            snapshots: snapshots.clone(),
            tls: tls.clone(),
            catalog: Arc::clone(catalog),
            clock: Arc::clone(clock),
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        lock(&self.shown)
    }

    fn row(&self) -> StreamRow {
        let shown = self.shown();
        StreamRow {
            cluster: self.cluster.clone(),
            server: shown.server.clone().unwrap_or_default(),
            trouble: shown.trouble.clone(),
            position: shown
                .history
                .as_ref()
                .map_or_else(String::new, |it| it.reached().to_string()),
            transactions: shown.transactions,
            gaps: shown.gaps,
            lag_us: shown.lag_us,
        }
    }

    /// The only server that may write, and who asks it.
    fn writer(&self) -> Option<(Arc<Server>, Option<Account>)> {
        let snapshot = self.snapshots.borrow();
        let cluster = snapshot.clusters.iter().find(|it| it.entry.name == self.cluster)?;
        let group = snapshot.hostgroup(cluster.entry.writer_hostgroup)?;
        let may_write = |server: &&Arc<Server>| {
            let state = server.health.state(u64::MAX);
            server.health.role().is_some_and(Role::is_given)
                && !matches!(state, ServerState::OfflineSoft | ServerState::OfflineHard)
        };
        let mut writers = group.servers.iter().filter(may_write);
        let first = writers.next()?;
        let account = Account::of_monitor(&snapshot, false);
        Some((Arc::clone(first), account))
    }

    /// Follows the writer, whoever that is, for as long as the cluster is configured so.
    async fn keep_on(self: Arc<Self>) {
        let mut trouble = String::new();
        loop {
            let Some((server, account)) = self.writer() else {
                sleep(WRITER_EVERY).await;
                continue;
            };
            let address = server.key.address.to_string();
            let failed = self.follow(&server, account.as_ref(), &mut trouble).await;
            let why = self.ended(&address, failed);
            if trouble != why {
                let cluster = &self.cluster;
                tracing::warn!("the binary log of cluster {cluster} is not followed now: {why}");
                trouble = why;
            }
            sleep(RETRY_AFTER).await;
        }
    }

    /// Takes up that the stream has ended, and why; gives that in words.
    fn ended(&self, address: &str, outcome: Result<(), Failed>) -> String {
        let mut shown = self.shown();
        shown.server = None;
        shown.ledger.stop("the binary log is not followed now");
        let why = match outcome {
            Ok(()) => format!("{address} is not the writer any more"),
            Err(Failed::Lost(why)) => format!("{address}: {why}"),
            Err(Failed::Gap(why)) => {
                shown.gaps += 1;
                shown.is_cut = true;
                shown.reason = why;
                format!("{address}: {}", shown.reason)
            }
        };
        shown.trouble.clone_from(&why);
        why
    }

    /// Ends without an error when the server is not the writer any more.
    async fn follow(
        self: &Arc<Self>,
        server: &Arc<Server>,
        account: Option<&Account>,
        trouble: &mut String,
    ) -> Result<(), Failed> {
        let from = {
            let shown = self.shown();
            let history = shown.history.as_ref().filter(|_| !shown.is_cut);
            history.map(|history| history.reached().clone())
        };
        let tls = Arc::clone(&self.tls.borrow());
        let (mut dump, from) = Dump::open(server, account, &tls, from).await?;
        // What is refused is refused at once; what comes first says that it is not.
        let mut changes = Vec::new();
        dump.next(|change, place| changes.push((change, place))).await?;
        self.begin(server, from);
        trouble.clear();
        let reading = async {
            loop {
                self.add(changes.drain(..), dump.tells_all());
                let is_same =
                    self.writer().is_some_and(|(it, _)| it.key.address == server.key.address);
                if !is_same {
                    return Ok(());
                }
                dump.next(|change, place| changes.push((change, place))).await?;
            }
        };
        tokio::select! {
            ended = reading => ended,
            never = self.witness(server, account) => match never {},
        }
    }

    fn begin(&self, server: &Server, from: Executed) {
        let mut shown = self.shown();
        let is_cut = std::mem::take(&mut shown.is_cut);
        match &mut shown.history {
            Some(history) if is_cut => history.begin_anew(from),
            Some(_) => {}
            None => shown.history = Some(History::new(from, CHANGES_MAX, CHANGES_LEN_MAX)),
        }
        shown.server = Some(server.key.address.to_string());
        shown.trouble.clear();
        drop(shown);
        self.news.send_replace(());
        let cluster = &self.cluster;
        tracing::info!("the binary log of cluster {cluster} is followed at {}", server.key.address);
    }

    /// Takes what has come. `tells_all`: nothing has come that is not told.
    fn add(&self, changes: impl ExactSizeIterator<Item = (Change, Place)>, tells_all: bool) {
        if !tells_all {
            self.shown().ledger.stop("the binary log has transactions without GTIDs");
        }
        if changes.len() == 0 {
            return;
        }
        let now_us = now_us();
        let mut shown = self.shown();
        for (change, place) in changes {
            shown.transactions += 1;
            shown.lag_us = now_us.saturating_sub(change.at_us);
            let Shown { history, ledger, .. } = &mut *shown;
            if let Some(history) = history {
                let change = history.push(change, now_us);
                ledger.add(&change, place, history, &self.catalog);
            }
        }
        drop(shown);
        self.news.send_replace(());
    }
}

/// Follows the binary log of each cluster that is configured so. Ends with whoever publishes
/// snapshots.
pub async fn keep_streaming(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<ChangeBoard>,
    (catalog, clock): (Arc<Catalog>, Clock),
) {
    let mut tasks: HashMap<String, JoinHandle<()>> = HashMap::new();
    loop {
        let wanted: Vec<String> = {
            let snapshot = snapshots.borrow_and_update();
            let clusters = snapshot.clusters.iter().filter(|it| it.entry.binlog_stream);
            clusters.map(|it| it.entry.name.clone()).collect()
        };
        tasks.retain(|name, task| {
            let stays = wanted.contains(name);
            if !stays {
                task.abort();
                if let Some(stream) = lock(&board.streams).remove(name) {
                    let mut shown = stream.shown();
                    shown.is_over = true;
                    shown.ledger.stop("the binary log is not followed any more");
                    drop(shown);
                    stream.news.send_replace(());
                }
            }
            stays
        });
        for name in wanted {
            tasks.entry(name).or_insert_with_key(|name| {
                let stream = Arc::new(Stream::new(name, &snapshots, &tls, (&catalog, &clock)));
                lock(&board.streams).insert(name.clone(), Arc::clone(&stream));
                tokio::spawn(stream.keep_on())
            });
        }
        if snapshots.changed().await.is_err() {
            return tasks.values().for_each(JoinHandle::abort);
        }
    }
}
