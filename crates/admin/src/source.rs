//! Where the numbers come from.

use std::{path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use trunkline_binlog::{NotTold, Told};
use trunkline_budget::Budget;
use trunkline_config::{Config, Snapshot};
use trunkline_net::TlsSetup;
use trunkline_stats::{
    DigestQuery, DigestRow, Inventory, Report, SessionList, SessionQuery, Topology,
    checks::{CheckKind, CheckRow},
};
use trunkline_topology::{Address, Origin};

/// The answer to [`StatusSource::report`].
pub type ReportFuture<'a> = Pin<Box<dyn Future<Output = Report> + Send + 'a>>;

/// The answer to [`StatusSource::sessions`].
pub type SessionsFuture<'a> = Pin<Box<dyn Future<Output = SessionList> + Send + 'a>>;

/// Answers for the process. The binary implements it by asking the workers' mailboxes.
pub trait StatusSource: Send + Sync + 'static {
    /// The merged numbers of all workers that answer, with `process` filled in. `digests` says
    /// how many rows each worker shall give. The HTTP server stops waiting after
    /// [`crate::http::REPORT_TIME_MAX`], so an answer without a stuck worker is better than none.
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_>;

    /// The sessions of all workers that answer, in the time that holds for [`Self::report`].
    fn sessions(&self, query: SessionQuery) -> SessionsFuture<'_>;

    /// Whether the process works. Asked often; it should not wait for anything.
    fn health(&self) -> Health;

    /// Clusters as they are now, and what has happened to them.
    fn topology(&self) -> Topology;

    /// Tells what transactions of a cluster change from now on, or all behind `from`. Without a
    /// name, it is the only cluster whose binary log is followed.
    ///
    /// # Errors
    /// Why nothing can be told.
    fn changes(
        &self,
        _cluster: Option<&str>,
        _from: Option<&str>,
    ) -> Result<mpsc::Receiver<Told>, NotTold> {
        Err(NotTold::Unknown("no binary log is followed here".to_owned()))
    }

    /// What checks of servers came to, the oldest first.
    fn checks(&self, kind: CheckKind) -> Vec<CheckRow>;

    /// The setting `http_allowed_hosts`.
    fn http_allowed_hosts(&self) -> String;

    /// Where the history is kept, if it is.
    fn history_folder(&self) -> Option<PathBuf> {
        None
    }
}

/// Whether the process works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It takes clients. `/healthz` and `/readyz` answer 200.
    Ready,
    /// It works but should get no new clients, because it starts or stops say; the text is the
    /// reason. `/readyz` answers 503, `/healthz` 200. A graceful stop begins with this.
    NotReady(String),
    /// It does not work; the text is the reason. Both answer 503.
    Failed(String),
}

/// The answer to [`Runtime::apply`]: a line for each change, or why nothing has changed.
pub type ApplyFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>, String>> + Send + 'a>>;

/// Whether clients are accepted, on the listeners of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// No more of them; those that are there stay.
    Pause,
    /// Again, after [`Self::Pause`].
    Resume,
    /// No more of them, and those that are there end.
    Stop,
    /// Again, after [`Self::Stop`] or [`Self::Pause`].
    Start,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// At once.
    Now,
    /// After running statements, within `stop_timeout`.
    Slow,
    /// At once; it begins anew with what was saved.
    Restart,
}

/// Why a `KILL` was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKilled {
    /// MySQL's number of the error.
    pub code: u16,
    /// The text.
    pub message: String,
}

/// Logins from one origin that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedLogins {
    /// Where they came from.
    pub origin: Origin,
    /// How many, one after the other.
    pub failures: u32,
    /// How long ago the last one was.
    pub ago: Duration,
}

/// Whether a hostgroup takes anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostgroupTraffic {
    /// What is new there is held, for at most so long; `None` is as long as the setting
    /// `hold_timeout` says.
    Pause(Option<Duration>),
    /// It goes on.
    Resume,
}

/// A hostgroup that takes nothing new for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausedHostgroup {
    /// Its number.
    pub hostgroup: u32,
    /// How long it has been paused.
    pub since: Duration,
    /// How long it will be.
    pub left: Duration,
}

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What came of a switchover, or of the check before one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Switched {
    /// The names of the columns.
    pub columns: Vec<&'static str>,
    /// Steps of the switchover, or what the check found.
    pub rows: Vec<Vec<String>>,
    /// Why it was not done, or could not be.
    pub failed: Option<String>,
}

/// What an operator asks of a cluster, and is answered with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfCluster {
    /// A server replicates from the writer again.
    Rejoin(Address),
    /// An operator works on a server, or has finished.
    Maintenance(Address, bool),
    /// A cluster may fail over again by itself.
    ClearFailover(String),
}

/// The answer to [`Runtime::kill`].
pub type KillFuture<'a> = Pin<Box<dyn Future<Output = Result<(), NotKilled>> + Send + 'a>>;

/// What the admin port changes. The binary implements it beside [`StatusSource`].
pub trait Runtime: StatusSource {
    /// Serves by another configuration from now on; `source` names where it comes from.
    fn apply(&self, config: Config, source: String) -> ApplyFuture<'_>;

    /// Does what SIGHUP does: reads the configuration file again in file mode, and certificates
    /// and host names.
    fn reload(&self) -> ApplyFuture<'_>;

    /// Reads certificates, keys and lists of what is revoked anew.
    fn reload_tls(&self) -> ApplyFuture<'_>;

    /// What TLS works with now.
    fn tls(&self) -> Arc<TlsSetup>;

    /// What runs.
    fn snapshot(&self) -> Arc<Snapshot>;

    /// The memory that there is for what comes from outside.
    fn budget(&self) -> Arc<Budget>;

    /// What would become of a user's statement, step by step. Without a user it is the only active
    /// one. The error says that there is none of that name, or that one must be named.
    fn explain(
        &self,
        user: Option<&str>,
        schema: Option<&str>,
        sql: &str,
    ) -> Result<Vec<(&'static str, String)>, String>;

    /// Empties the result cache; how many results it had.
    fn flush_cache(&self) -> u64;

    /// All rows of the digest table.
    fn digests(&self) -> Answer<'_, Vec<DigestRow>>;

    /// Idle server connections and prepared statements, at most so many of each.
    fn inventory(&self, rows_max: usize) -> Answer<'_, Inventory>;

    /// Writes a line of the audit log, if there is one.
    fn audit(&self, line: String);

    /// Opens the files of the query log and the audit log anew; the error says why it is not known
    /// whether they are.
    fn reopen_logs(&self) -> Answer<'_, Result<(), String>>;

    /// Where failed logins come from.
    fn failed_logins(&self) -> Vec<FailedLogins>;

    /// Forgets them; how many names had some.
    fn forget_failed_logins(&self) -> u64;

    /// Ends the client with this number, or only its statement, whoever it is.
    fn kill(&self, number: u32, is_query: bool) -> KillFuture<'_>;

    /// Accepts clients, or not.
    fn traffic(&self, change: Traffic) -> ApplyFuture<'_>;

    /// Makes another server of a cluster the writer, the one that fits best unless it is named;
    /// `is_check` only says what is in the way.
    fn switchover(
        &self,
        cluster: String,
        to: Option<Address>,
        is_check: bool,
    ) -> Answer<'_, Switched>;

    /// Does something with a cluster.
    fn cluster_order(&self, order: OfCluster) -> ApplyFuture<'_>;

    /// Pauses a hostgroup, or ends that.
    fn hostgroup_traffic(&self, hostgroup: u32, change: HostgroupTraffic) -> ApplyFuture<'_>;

    /// The hostgroups that are paused.
    fn paused_hostgroups(&self) -> Answer<'_, Vec<PausedHostgroup>>;

    /// The last lines of the log, the oldest first; none where nobody keeps them.
    fn log_lines(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends the process.
    fn stop(&self, ending: Ending);
}
