//! What the process says of itself over HTTP.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::mpsc;
use trunkline_admin::{
    Health, ReportFuture, SessionsFuture, StatusSource,
    control::{ControlCounts, ControlSocket},
};
use trunkline_binlog::{NotTold, Told};
use trunkline_budget::{Budget, Kind, Refusal};
use trunkline_cache::Cache;
use trunkline_catalog::Catalog;
use trunkline_config::Snapshot;
use trunkline_monitor::Board;
use trunkline_proxy::{DataPlane, EventLog, Log, TlsSetup};
use trunkline_sql::token::Modes;
use trunkline_stats::{
    CacheFigures, CatalogFigures, DigestQuery, LostLines, MemoryFigures, Process, Report,
    SessionList, SessionQuery, Topology,
    checks::{CheckKind, CheckRow},
};
use trunkline_topology::Origin;
use trunkline_trace::TraceCounts;

use super::recorder::RecorderCounts;

/// Why a balancer should send no clients after `PROXYSQL PAUSE`.
const PAUSED: &str = "paused";
/// How long the workers may take for their numbers.
const WORKERS_TIME_MAX: Duration = Duration::from_secs(1);

/// Asks the workers, and knows what is true of the process as a whole.
pub struct Reporter {
    plane: Arc<RwLock<DataPlane>>,
    known: Mutex<Known>,
    cache: Arc<Cache>,
    catalog: Arc<Catalog>,
    budget: Arc<Budget>,
    events: EventLog,
    board: Arc<Board>,
    recorded: Arc<RecorderCounts>,
    traced: Arc<TraceCounts>,
}

struct Known {
    process: Process,
    health: Health,
    tls: Arc<TlsSetup>,
    http_allowed_hosts: String,
    control: Arc<ControlCounts>,
}

impl Reporter {
    /// For a process that takes clients; `process` has what never changes.
    pub fn new(plane: Arc<RwLock<DataPlane>>, process: Process, board: Arc<Board>) -> Self {
        let (health, tls) = (Health::Ready, Arc::default());
        let http_allowed_hosts = String::new();
        let known = Known { process, health, tls, http_allowed_hosts, control: Arc::default() };
        let known = Mutex::new(known);
        let (shared, events) = {
            let plane = plane.read().unwrap_or_else(PoisonError::into_inner);
            (plane.shared().clone(), plane.events().clone())
        };
        let (cache, catalog) = (Arc::clone(shared.cache()), Arc::clone(shared.catalog()));
        let budget = Arc::clone(shared.budget());
        let (recorded, traced) = (Arc::default(), Arc::default());
        Self { plane, known, cache, catalog, budget, events, board, recorded, traced }
    }

    /// What has become of the history's frames.
    pub fn recorded(&self) -> Arc<RecorderCounts> {
        Arc::clone(&self.recorded)
    }

    /// What has become of spans.
    pub fn traced(&self) -> Arc<TraceCounts> {
        Arc::clone(&self.traced)
    }

    /// Where the history is kept, if it is.
    pub fn history_folder(&self) -> Option<PathBuf> {
        self.recorded.folder()
    }

    /// Empties the result cache, the shared one too; how many results it had.
    pub fn flush_cache(&self) -> u64 {
        match self.plane.try_read() {
            Ok(plane) => plane.flush_cache(),
            // The workers are being waited for; nobody is answered any more.
            Err(_) => self.cache.flush(),
        }
    }

    /// The memory that there is for what comes from outside.
    pub fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    /// How a new session's text is read.
    pub fn modes(&self) -> Modes {
        let plane = self.plane.try_read();
        plane.map_or_else(|_| Modes::default(), |plane| plane.shared().modes())
    }

    /// A configuration is in force from now on.
    pub fn applied(&self, snapshot: &Snapshot) {
        let mut known = self.known();
        known.http_allowed_hosts.clone_from(&snapshot.settings.http_allowed_hosts);
        let configuration = &mut known.process.configuration;
        configuration.applied_unix_sec = unix_sec(SystemTime::now());
        configuration.last_error = None;
        configuration.users = u64::try_from(snapshot.users.len()).unwrap_or(u64::MAX);
        configuration.rules = u64::try_from(snapshot.rules.len()).unwrap_or(u64::MAX);
        configuration.clients_max = u64::from(snapshot.settings.max_connections);
        configuration.wait_timeout_ms = snapshot.settings.wait_timeout;
        configuration.version = snapshot.version;
    }

    /// Clients are shown another certificate from now on.
    pub fn encrypts(&self, setup: &Arc<TlsSetup>) {
        let mut known = self.known();
        known.process.certificate_not_after_unix_sec = setup.not_after_unix_sec();
        known.tls = Arc::clone(setup);
    }

    /// Orders are taken on a socket.
    pub fn controlled_by(&self, socket: &ControlSocket) {
        let mut known = self.known();
        known.process.control.socket = socket.path().display().to_string();
        known.control = socket.counts();
    }

    /// What they are shown.
    pub fn tls(&self) -> Arc<TlsSetup> {
        Arc::clone(&self.known().tls)
    }

    /// The version alone has changed: other addresses, the same configuration.
    pub fn renewed(&self, snapshot: &Snapshot) {
        let configuration = &mut self.known().process.configuration;
        configuration.version = snapshot.version;
        configuration.server_users = snapshot.granted.len() as u64;
    }

    /// The last attempt to change the configuration failed, or (`None`) found nothing to change.
    pub fn attempted(&self, error: Option<String>) {
        self.known().process.configuration.last_error = error;
    }

    /// Has the data plane do something, on a thread that may wait. `None` when it ends.
    pub async fn with_plane<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DataPlane) -> T + Send + 'static,
    ) -> Option<T> {
        let plane = Arc::clone(&self.plane);
        let worked = tokio::task::spawn_blocking(move || {
            // The workers are being waited for when it is not to be had.
            plane.try_read().ok().map(|plane| work(&plane))
        });
        worked.await.ok().flatten()
    }

    /// Writes a line of the audit log; none when the process ends.
    pub fn audit(&self, line: String) {
        if let Ok(plane) = self.plane.try_read()
            && !plane.events().write(Log::Audit, line)
        {
            tracing::warn!("a line of the audit log was dropped: the disk does not keep up");
        }
    }

    /// Addresses with failed logins; none when the process ends.
    pub fn failed_logins(&self) -> Vec<(Origin, u32, Duration)> {
        self.plane.try_read().map(|plane| plane.failed_logins()).unwrap_or_default()
    }

    /// Forgets them; how many there were.
    pub fn forget_failed_logins(&self) -> u64 {
        let forgotten = self.plane.try_read().map(|plane| plane.shared().forget_failed_logins());
        u64::try_from(forgotten.unwrap_or_default()).unwrap_or(u64::MAX)
    }

    /// Clients are not accepted for now, or again. How it stops or fails is not overwritten.
    pub fn pauses(&self, is_paused: bool) {
        let mut known = self.known();
        let paused = Health::NotReady(PAUSED.to_owned());
        match is_paused {
            true if known.health == Health::Ready => known.health = paused,
            false if known.health == paused => known.health = Health::Ready,
            true | false => {}
        }
    }

    /// Says from now on that the process is well, or why not.
    pub fn set_health(&self, health: Health) {
        self.known().health = health;
    }

    fn process(&self) -> Process {
        let known = self.known();
        let mut process = known.process.clone();
        known.control.fill(&mut process.control);
        process
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StatusSource for Reporter {
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_> {
        let plane = Arc::clone(&self.plane);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || match plane.try_read() {
                Ok(plane) => plane.reports(digests, WORKERS_TIME_MAX),
                // The workers are being waited for; they have nothing to say any more.
                Err(_) => Vec::new(),
            });
            let mut report = Report::merge(asked.await.unwrap_or_default());
            report.process = self.process();
            report.process.is_paused = self.health() == Health::NotReady(PAUSED.to_owned());
            let (figures, shared) = (self.cache.figures(), self.cache.shared().figures());
            report.process.cache = CacheFigures {
                entries: figures.entries,
                bytes: figures.bytes,
                bytes_max: figures.bytes_max,
                purged: figures.purged,
                shared_up: u64::from(shared.is_up),
                shared_asked: shared.asked,
                shared_hits: shared.hits,
                shared_stored: shared.stored,
                shared_dropped: shared.dropped,
                shared_failures: shared.failures,
            };
            report.process.lost_lines = LostLines {
                query: self.events.lost(Log::Query),
                slow: self.events.lost(Log::Slow),
                audit: self.events.lost(Log::Audit),
            };
            report.process.history = self.recorded.figures();
            report.process.trace = self.traced.figures();
            report.process.exemplars = self.traced.exemplars();
            report.process.catalog = catalog_figures(&self.catalog);
            report.process.memory = memory_figures(&self.budget);
            report.process.monitor = self.board.figures();
            report.process.now_unix_sec = unix_sec(SystemTime::now());
            report
        })
    }

    fn sessions(&self, query: SessionQuery) -> SessionsFuture<'_> {
        let plane = Arc::clone(&self.plane);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || match plane.try_read() {
                Ok(plane) => plane.sessions(query, WORKERS_TIME_MAX),
                Err(_) => SessionList::default(),
            });
            asked.await.unwrap_or_default()
        })
    }

    fn health(&self) -> Health {
        self.known().health.clone()
    }

    fn checks(&self, kind: CheckKind) -> Vec<CheckRow> {
        self.board.checks(kind)
    }

    fn topology(&self) -> Topology {
        self.board.topology()
    }

    fn changes(
        &self,
        cluster: Option<&str>,
        from: Option<&str>,
    ) -> Result<mpsc::Receiver<Told>, NotTold> {
        self.board.changes.follow(cluster, from)
    }

    fn http_allowed_hosts(&self) -> String {
        self.known().http_allowed_hosts.clone()
    }
}

/// What is known of names, as reports have it.
fn catalog_figures(catalog: &Catalog) -> CatalogFigures {
    let figures = catalog.figures();
    CatalogFigures {
        entries: figures.entries,
        evicted: figures.evicted,
        asked: figures.asked,
        refused: figures.refused,
        untold: figures.untold,
        definitions: figures.definitions,
        rounds: figures.rounds,
        queries: figures.queries,
        errors: figures.errors,
    }
}

/// What is in use of the memory for what comes from outside, as reports have it.
fn memory_figures(budget: &Budget) -> MemoryFigures {
    let charged = Kind::ALL.into_iter().map(|kind| (kind.name().to_owned(), budget.of(kind)));
    let refusals = Refusal::ALL.into_iter();
    let refusals = refusals.map(|why| (why.name().to_owned(), budget.refusals(why)));
    MemoryFigures {
        max: budget.max(),
        total: budget.total(),
        charged: charged.collect(),
        waiting: budget.waiting(),
        waits: budget.waits(),
        refusals: refusals.collect(),
        freed: crate::allocator::waiting_len(),
    }
}

/// Seconds of Unix time.
pub fn unix_sec(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
