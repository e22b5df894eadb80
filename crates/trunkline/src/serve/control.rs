//! What the admin port asks of the supervisor.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};
use trunkline_admin::{
    Answer, ApplyFuture, Ending, FailedLogins, Health, HostgroupTraffic, KillFuture, NotKilled,
    OfCluster, PausedHostgroup, ReportFuture, Runtime, SessionsFuture, StatusSource, Switched,
    Traffic, bundle::LogLines,
};
use trunkline_budget::Budget;
use trunkline_config::{Config, Snapshot};
use trunkline_monitor::{ClusterOrder, ClusterRequest, SwitchoverRequest};
use trunkline_proxy::{DataPlane, KillAnswer, KillScope, Pause, TlsSetup};
use trunkline_stats::{
    DigestQuery, DigestRow, Inventory, SessionQuery, SessionRow, Topology,
    checks::{CheckKind, CheckRow},
};
use trunkline_topology::{Address, HostgroupId};

use super::reporter::Reporter;

/// How long a `KILL` may take; workers give up a little earlier.
const KILL_TIME_MAX: Duration = Duration::from_secs(25);
/// The longest that a hostgroup may be paused.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// How long workers may take to pause a hostgroup.
const PAUSE_TIME_MAX: Duration = Duration::from_secs(2);
/// The most sessions that are looked at for those that hold connections there.
const SESSIONS_MAX: usize = 100_000;
/// How long workers may take for all digests.
const DIGESTS_TIME_MAX: Duration = Duration::from_secs(5);
/// How long they may take to say what they have.
const INVENTORY_TIME_MAX: Duration = Duration::from_secs(1);
/// How long workers may take to close or open their listeners.
const LISTEN_TIME_MAX: Duration = Duration::from_secs(2);
/// Requests that may wait for the supervisor.
const REQUESTS_MAX: usize = 16;

/// One request.
pub(super) enum Request {
    /// Serve by another configuration from now on.
    Apply {
        config: Box<Config>,
        /// Where it comes from.
        source: String,
        /// Gets a line for each change, or why nothing has changed.
        done: oneshot::Sender<Result<Vec<String>, String>>,
    },
    /// Read certificates and keys anew.
    ReloadTls { done: oneshot::Sender<Result<Vec<String>, String>> },
    /// Do what SIGHUP does.
    Reload { done: oneshot::Sender<Result<Vec<String>, String>> },
    /// End the process.
    Stop(Ending),
}

/// The admin port's end.
pub(super) struct Control {
    reporter: Arc<Reporter>,
    requests: mpsc::Sender<Request>,
    cluster_requests: mpsc::Sender<ClusterRequest>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    log_lines: LogLines,
}

/// Where what is asked for comes out.
pub(super) struct AskedFor {
    pub requests: mpsc::Receiver<Request>,
    pub cluster_requests: mpsc::Receiver<ClusterRequest>,
}

impl Control {
    /// Both ends.
    pub(super) fn new(
        reporter: Arc<Reporter>,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        log_lines: LogLines,
    ) -> (Self, AskedFor) {
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let (cluster_requests, wanted) = mpsc::channel(REQUESTS_MAX);
        let asked = AskedFor { requests: asked, cluster_requests: wanted };
        (Self { reporter, requests, cluster_requests, snapshots, log_lines }, asked)
    }
}

/// Accepts clients or not; the errors are ProxySQL's.
fn turn(plane: &DataPlane, change: Traffic) -> Result<&'static str, String> {
    const MODULE: &str = "ProxySQL MySQL module is";
    match change {
        Traffic::Pause if !plane.pause(LISTEN_TIME_MAX) => {
            Err(format!("{MODULE} already paused, impossible to pause"))
        }
        Traffic::Pause => Ok("no more clients are accepted, until PROXYSQL RESUME"),
        Traffic::Stop => {
            plane.pause(LISTEN_TIME_MAX);
            plane.end_clients();
            Ok("all clients have ended, and no more are accepted, until PROXYSQL START")
        }
        Traffic::Resume | Traffic::Start => match (plane.resume(LISTEN_TIME_MAX)?, change) {
            (true, _) => Ok("clients are accepted again"),
            (false, Traffic::Start) => Err("ProxySQL already started".to_owned()),
            (false, _) => Err(format!("{MODULE} not paused, impossible to resume")),
        },
    }
}

impl StatusSource for Control {
    fn report(&self, digests: DigestQuery) -> ReportFuture<'_> {
        self.reporter.report(digests)
    }

    fn sessions(&self, query: SessionQuery) -> SessionsFuture<'_> {
        self.reporter.sessions(query)
    }

    fn health(&self) -> Health {
        self.reporter.health()
    }

    fn checks(&self, kind: CheckKind) -> Vec<CheckRow> {
        self.reporter.checks(kind)
    }

    fn topology(&self) -> Topology {
        self.reporter.topology()
    }

    fn http_allowed_hosts(&self) -> String {
        self.reporter.http_allowed_hosts()
    }

    fn history_folder(&self) -> Option<PathBuf> {
        self.reporter.history_folder()
    }
}

impl Runtime for Control {
    fn apply(&self, config: Config, source: String) -> ApplyFuture<'_> {
        Box::pin(async move {
            let (done, changes) = oneshot::channel();
            let request = Request::Apply { config: Box::new(config), source, done };
            let stopping = || "the process stops".to_owned();
            self.requests.send(request).await.map_err(|_| stopping())?;
            changes.await.map_err(|_| stopping())?
        })
    }

    fn reload(&self) -> ApplyFuture<'_> {
        Box::pin(async move {
            let (done, changes) = oneshot::channel();
            let stopping = || "the process stops".to_owned();
            self.requests.send(Request::Reload { done }).await.map_err(|_| stopping())?;
            changes.await.map_err(|_| stopping())?
        })
    }

    fn reload_tls(&self) -> ApplyFuture<'_> {
        Box::pin(async move {
            let (done, changes) = oneshot::channel();
            let stopping = || "the process stops".to_owned();
            let request = Request::ReloadTls { done };
            self.requests.send(request).await.map_err(|_| stopping())?;
            changes.await.map_err(|_| stopping())?
        })
    }

    fn tls(&self) -> Arc<TlsSetup> {
        self.reporter.tls()
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshots.borrow())
    }

    fn budget(&self) -> Arc<Budget> {
        self.reporter.budget()
    }

    fn explain(
        &self,
        user: Option<&str>,
        schema: Option<&str>,
        sql: &str,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let snapshot = self.snapshot();
        let user = match user {
            Some(name) => snapshot.user(name).ok_or_else(|| format!("there is no user `{name}`")),
            None => {
                let mut active = snapshot.config.users.iter().filter(|user| user.active);
                match (active.next(), active.next()) {
                    (Some(user), None) => Ok(user),
                    _ => Err("EXPLAIN ROUTE needs USER name before the statement".to_owned()),
                }
            }
        }?;
        let modes = self.reporter.modes();
        Ok(crate::explain::rows(&snapshot, user, schema, None, None, modes, sql))
    }

    fn flush_cache(&self) -> u64 {
        self.reporter.flush_cache()
    }

    fn digests(&self) -> Answer<'_, Vec<DigestRow>> {
        Box::pin(async move {
            let read = self.reporter.with_plane(|plane| plane.digests(DIGESTS_TIME_MAX));
            read.await.unwrap_or_default()
        })
    }

    fn inventory(&self, rows_max: usize) -> Answer<'_, Inventory> {
        Box::pin(async move {
            let read = self
                .reporter
                .with_plane(move |plane| plane.inventory(rows_max, INVENTORY_TIME_MAX));
            read.await.unwrap_or_default()
        })
    }

    fn audit(&self, line: String) {
        if !self.snapshot().settings.audit_log.is_empty() {
            self.reporter.audit(line);
        }
    }

    fn reopen_logs(&self) -> Answer<'_, Result<(), String>> {
        Box::pin(async move {
            // A stop does not wait for this: nothing of the plane is held meanwhile.
            let events = self.reporter.with_plane(|plane| plane.events().clone()).await;
            // A process that ends has no files to open.
            let Some(events) = events else { return Ok(()) };
            tokio::task::spawn_blocking(move || events.reopen()).await.unwrap_or(Ok(()))
        })
    }

    fn failed_logins(&self) -> Vec<FailedLogins> {
        let rows = self.reporter.failed_logins().into_iter();
        rows.map(|(origin, failures, ago)| FailedLogins { origin, failures, ago }).collect()
    }

    fn forget_failed_logins(&self) -> u64 {
        self.reporter.forget_failed_logins()
    }

    fn kill(&self, number: u32, is_query: bool) -> KillFuture<'_> {
        let scope = if is_query { KillScope::Statement } else { KillScope::Session };
        Box::pin(async move {
            let answered =
                self.reporter.with_plane(move |plane| plane.kill(number, scope, KILL_TIME_MAX));
            let not = |code, message| Err(NotKilled { code, message });
            match answered.await.flatten() {
                Some(KillAnswer::Done) => Ok(()),
                Some(KillAnswer::Unknown) => not(1094, format!("Unknown thread id: {number}")),
                Some(KillAnswer::NotOwner) => {
                    not(1095, format!("You are not owner of thread {number}"))
                }
                Some(KillAnswer::Failed(error)) => not(error.code, error.text.into_owned()),
                None => not(9001, "what came of the KILL is not known".to_owned()),
            }
        })
    }

    fn hostgroup_traffic(&self, hostgroup: u32, change: HostgroupTraffic) -> ApplyFuture<'_> {
        let id = HostgroupId(hostgroup);
        let (is_there, default_ms) = {
            let snapshot = self.snapshots.borrow();
            (snapshot.hostgroup(id).is_some(), snapshot.settings.hold_timeout)
        };
        Box::pin(async move {
            let length = match change {
                HostgroupTraffic::Resume => {
                    let resumed = self
                        .reporter
                        .with_plane(move |plane| plane.resume_hostgroup(id, PAUSE_TIME_MAX));
                    if !resumed.await.ok_or("the process stops")? {
                        return Err(format!("hostgroup {hostgroup} is not paused"));
                    }
                    tracing::info!("hostgroup {hostgroup} is resumed");
                    return Ok(vec![format!("hostgroup {hostgroup} goes on")]);
                }
                HostgroupTraffic::Pause(_) if !is_there => {
                    return Err(format!("hostgroup {hostgroup} has no server"));
                }
                HostgroupTraffic::Pause(Some(length)) if length > PAUSE_MAX => {
                    return Err(format!(
                        "a pause lasts for at most {} s, not {}",
                        PAUSE_MAX.as_secs(),
                        length.as_secs()
                    ));
                }
                HostgroupTraffic::Pause(length) => {
                    length.unwrap_or(Duration::from_millis(default_ms))
                }
            };
            let paused = self
                .reporter
                .with_plane(move |plane| plane.pause_hostgroup(id, length, PAUSE_TIME_MAX));
            let (was_paused, is_everywhere) = paused.await.ok_or("the process stops")?;
            let again = if was_paused { "still " } else { "" };
            let seconds = length.as_secs_f64();
            let mut lines =
                vec![format!("hostgroup {hostgroup} is {again}paused, for {seconds} s from now")];
            tracing::info!("{}", lines.concat());
            if !is_everywhere {
                lines.push("a worker is busy: it holds what is new in a moment".to_owned());
            }
            let query = SessionQuery { rows_max: SESSIONS_MAX, pinned_only: false };
            let list = self.reporter.sessions(query).await;
            let is_holder =
                |row: &&SessionRow| row.holds.iter().any(|held| held.hostgroup == hostgroup);
            let holders = list.sessions.iter().filter(is_holder).count();
            lines.push(match holders {
                0 => "nobody holds a connection there".to_owned(),
                1 => "1 session holds a connection there: SHOW PAUSED HOSTGROUPS".to_owned(),
                _ => format!("{holders} sessions hold connections there: SHOW PAUSED HOSTGROUPS"),
            });
            Ok(lines)
        })
    }

    fn paused_hostgroups(&self) -> Answer<'_, Vec<PausedHostgroup>> {
        Box::pin(async move {
            let paused = self.reporter.with_plane(|plane| plane.paused_hostgroups()).await;
            let row = |pause: Pause| PausedHostgroup {
                hostgroup: pause.hostgroup.0,
                since: pause.since,
                left: pause.left,
            };
            paused.unwrap_or_default().into_iter().map(row).collect()
        })
    }

    fn traffic(&self, change: Traffic) -> ApplyFuture<'_> {
        Box::pin(async move {
            let changed = self.reporter.with_plane(move |plane| turn(plane, change));
            let line = changed.await.ok_or("the process stops")??;
            tracing::info!("{line}");
            let is_paused = matches!(change, Traffic::Pause | Traffic::Stop);
            self.reporter.pauses(is_paused);
            Ok(vec![line.to_owned()])
        })
    }

    fn switchover(
        &self,
        cluster: String,
        to: Option<Address>,
        is_check: bool,
    ) -> Answer<'_, Switched> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let request = SwitchoverRequest { cluster, to, is_check, answer };
            let failed =
                |why: &str| Switched { failed: Some(why.to_owned()), ..Switched::default() };
            let request = ClusterRequest::Switchover(request);
            if self.cluster_requests.send(request).await.is_err() {
                return failed("the process stops");
            }
            match answered.await {
                Ok(answer) => {
                    Switched { columns: answer.columns, rows: answer.rows, failed: answer.failed }
                }
                Err(_) => failed("the cluster is not configured any more: see its events"),
            }
        })
    }

    fn cluster_order(&self, order: OfCluster) -> ApplyFuture<'_> {
        Box::pin(async move {
            let (teller, answered) = oneshot::channel();
            let order = match order {
                OfCluster::Rejoin(server) => ClusterOrder::Rejoin(server),
                OfCluster::Maintenance(server, is_on) => ClusterOrder::Maintenance(server, is_on),
                OfCluster::ClearFailover(cluster) => ClusterOrder::ClearFailover(cluster),
            };
            let request = ClusterRequest::Order(order, teller);
            let sent = self.cluster_requests.send(request).await;
            sent.map_err(|_| "the process stops".to_owned())?;
            let gone = |_| "the cluster is not configured any more: see its events".to_owned();
            Ok(vec![answered.await.map_err(gone)??])
        })
    }

    fn log_lines(&self) -> Vec<String> {
        self.log_lines.all()
    }

    fn stop(&self, ending: Ending) {
        // A full queue stops anyway before long; there is nobody to tell.
        drop(self.requests.try_send(Request::Stop(ending)));
    }
}
