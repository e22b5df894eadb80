//! The loop of the control plane: signals, changed configurations, news about servers, the stop.

use std::{
    collections::HashSet,
    path::PathBuf,
    process,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
};

use anyhow::{Result, anyhow, bail};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::spawn_blocking,
    time::{Instant, interval, sleep, timeout},
};
use trunkline_admin::{Ending, Health};
use trunkline_config::{Config, Snapshot, difference};
use trunkline_monitor::{
    Board, ClusterNews, Knowledge, Resolution, UsersRead, greeting_for_clients, keep_asking,
    keep_checking, keep_finding, keep_following, keep_following_replicas, keep_learning,
    keep_looking_at_rights, keep_looking_up_users, keep_measuring_lag, keep_noting_time,
    keep_pinging, keep_reading_users, keep_resolving, keep_streaming, keep_telling, resolve,
};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_proxy::{DataPlane, TlsSetup};
use trunkline_stats::DigestQuery;
use trunkline_topology::Address;
use trunkline_trace::Exporter;

use crate::{
    config_file::{counted, summary},
    serve::{
        control::{AskedFor, Request},
        failovers, limits,
        log::Log,
        notify::Notifier,
        origin::Origin,
        questions::Asked,
        reporter::Reporter,
        signals::{self, Signals},
        start::{PREPARATION_TIME_MAX, common_version, save},
        unproven::Unproven,
    },
};

/// How often the workers are looked after.
const TICK: Duration = Duration::from_millis(500);
/// How often it is said that the certificate's end is near.
const DAY: Duration = Duration::from_secs(86_400);
/// How often a stop looks whether it is done.
const STOP_TICK: Duration = Duration::from_millis(20);
/// How long beyond its deadline a stop may take before the process ends without the workers.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long workers may take to say why one of them has ended.
const POST_MORTEM_TIME_MAX: Duration = Duration::from_secs(2);
/// Changes of one configuration that are lines of the log; a hundred thousand users may change at
/// once.
const CHANGES_LOGGED_MAX: usize = 1_000;
/// Outcomes of the monitor's loops that may wait for the supervisor.
const OUTCOMES_MAX: usize = 1;

/// What the supervisor takes over from the start.
pub(super) struct Parts {
    pub origin: Origin,
    pub state_file: Option<PathBuf>,
    /// The limit on open files.
    pub open_files: Option<u64>,
    pub snapshot: Arc<Snapshot>,
    pub plane: Arc<RwLock<DataPlane>>,
    pub reporter: Arc<Reporter>,
    pub known: Knowledge,
    pub greeting: Arc<Greeting>,
    pub tls: Arc<TlsSetup>,
    pub signals: Signals,
    pub notifier: Notifier,
    pub log: Log,
    /// Tells whoever asks what runs.
    pub snapshots: watch::Sender<Arc<Snapshot>>,
    /// What the admin port asks for.
    pub asked_for: AskedFor,
    /// What is shown of clusters.
    pub board: Arc<Board>,
    /// Sends spans.
    pub tracer: Exporter,
}

/// How it ended in good order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Stopped,
    /// The process is to begin anew, with the program that it runs.
    ToRestart,
}

/// Serves, as far as the control plane has a part in it.
pub(super) struct Supervisor {
    parts: Parts,
    /// Has all host names resolved at once.
    resolve_now: Arc<Notify>,
    resolutions: mpsc::Receiver<Resolution>,
    news: mpsc::Receiver<Knowledge>,
    users: mpsc::Receiver<UsersRead>,
    clusters: mpsc::Receiver<ClusterNews>,
    /// Tells the monitor what TLS works with.
    tls: watch::Sender<Arc<TlsSetup>>,
    unproven: Unproven,
}

impl Supervisor {
    /// Starts the monitor's loops on the current runtime.
    pub(super) fn new(mut parts: Parts, asked: Asked) -> Self {
        let seen = parts.snapshots.subscribe();
        let (outcomes, resolutions) = mpsc::channel(OUTCOMES_MAX);
        let resolve_now = Arc::new(Notify::new());
        let (learned, news) = mpsc::channel(OUTCOMES_MAX);
        let on_demand = Arc::clone(&resolve_now);
        tokio::spawn(keep_checking(seen.clone()));
        tokio::spawn(keep_resolving(seen.clone(), on_demand, outcomes));
        let (tls, works_with) = watch::channel(Arc::clone(&parts.tls));
        let (read, users) = mpsc::channel(OUTCOMES_MAX);
        let Asked {
            users_wanted: wanted,
            user_questions,
            questions,
            names,
            outcomes: lost,
            catalog,
        } = asked;
        tokio::spawn(keep_finding(seen.clone(), works_with.clone(), lost));
        tokio::spawn(keep_looking_at_rights(seen.clone(), works_with.clone()));
        tokio::spawn(keep_asking(seen.clone(), works_with.clone(), questions));
        let telling = Arc::clone(&catalog);
        tokio::spawn(keep_telling(seen.clone(), works_with.clone(), telling, names));
        let board = Arc::clone(&parts.board);
        tokio::spawn(keep_noting_time(seen.clone(), works_with.clone()));
        tokio::spawn(keep_measuring_lag(seen.clone(), works_with.clone(), Arc::clone(&board)));
        let (causal, signals) = {
            let plane = parts.plane.read().unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(plane.shared().causal()), (plane.bell(), plane.clock()))
        };
        let knows = (Arc::clone(&catalog), Arc::clone(&signals.1));
        tokio::spawn(keep_following_replicas(seen.clone(), works_with.clone(), causal, signals));
        let changes = Arc::clone(&board.changes);
        tokio::spawn(keep_streaming(seen.clone(), works_with.clone(), changes, knows));
        tokio::spawn(keep_pinging(seen.clone(), works_with.clone(), Arc::clone(&board)));
        let (told, clusters) = mpsc::channel(OUTCOMES_MAX);
        // Nobody else asks for one.
        let cluster_requests = &mut parts.asked_for.cluster_requests;
        let requests = std::mem::replace(cluster_requests, mpsc::channel(1).1);
        let aids = failovers::aids(&parts);
        let following =
            keep_following(seen.clone(), works_with.clone(), board, told, requests, aids);
        tokio::spawn(following);
        let turn = Arc::default();
        tokio::spawn(keep_looking_up_users(
            seen.clone(),
            works_with.clone(),
            Arc::clone(&turn),
            user_questions,
            read.clone(),
        ));
        tokio::spawn(keep_reading_users(seen.clone(), works_with.clone(), turn, wanted, read));
        tokio::spawn(keep_learning(seen, parts.known.clone(), works_with, learned));
        resolve_now.notify_one();
        let mut unproven = Unproven::default();
        unproven.lines(&parts.snapshot).iter().for_each(|line| tracing::warn!("{line}"));
        Self { parts, resolve_now, resolutions, news, users, clusters, tls, unproven }
    }

    /// Runs until the process shall end.
    ///
    /// # Errors
    /// Why it ended otherwise than by a graceful stop.
    pub(super) async fn run(mut self) -> Result<Ended> {
        let mut tick = interval(TICK);
        let mut day = interval(DAY);
        // The first warning was given with the files.
        day.tick().await;
        loop {
            tokio::select! {
                asked = self.parts.signals.next() => match asked {
                    // What is wrong is logged.
                    signals::Asked::Reload => drop(self.reload().await),
                    signals::Asked::Stop { signal, .. } => {
                        return self.stop(signal, None).await.map(|()| Ended::Stopped);
                    }
                },
                Some(request) = self.parts.asked_for.requests.recv() => match request {
                    Request::Apply { config, source, done } => {
                        let changes = self.apply(*config, &source).await;
                        // Who asked may have gone; it runs all the same.
                        drop(done.send(changes));
                    }
                    Request::ReloadTls { done } => {
                        let config = Arc::clone(&self.parts.snapshot.config);
                        let loaded = self.load_tls(&config).map(|tls| self.encrypt(tls));
                        drop(done.send(loaded.map(|line| vec![line.to_owned()])));
                    }
                    Request::Reload { done } => drop(done.send(self.reload().await)),
                    Request::Stop(ending) => return self.end(ending).await,
                },
                Some(resolution) = self.resolutions.recv() => self.take_addresses(&resolution),
                Some(read) = self.users.recv() => self.take_users(read),
                Some(known) = self.news.recv() => self.take_knowledge(known),
                Some(news) = self.clusters.recv() => self.take_cluster_news(news),
                _ = day.tick() => if let Some(warning) = self.parts.tls.expiry_warning() {
                    tracing::warn!("{warning}");
                },
                _ = tick.tick() => if self.plane().has_ended() {
                    return Err(self.post_mortem().await);
                },
            }
        }
    }

    /// What an administrator asked for.
    async fn end(self, ending: Ending) -> Result<Ended> {
        let (what, within, ended) = match ending {
            Ending::Now => ("PROXYSQL SHUTDOWN", Some(Duration::ZERO), Ended::Stopped),
            Ending::Slow => ("PROXYSQL SHUTDOWN SLOW", None, Ended::Stopped),
            Ending::Restart => ("PROXYSQL RESTART", Some(Duration::ZERO), Ended::ToRestart),
        };
        self.stop(what, within).await?;
        Ok(ended)
    }

    fn plane(&self) -> RwLockReadGuard<'_, DataPlane> {
        self.parts.plane.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again. A line for each change.
    ///
    /// # Errors
    /// Why nothing has changed.
    async fn reload(&mut self) -> Result<Vec<String>, String> {
        self.parts.notifier.reloading();
        self.resolve_now.notify_one();
        let Origin::File(file) = &self.parts.origin else {
            tracing::info!("host names are resolved again; a database is loaded on the admin port");
            let config = Arc::clone(&self.parts.snapshot.config);
            let tls = self.load_tls(&config).map(|tls| self.encrypt(tls));
            self.say_ready();
            return tls.map(|line| vec![line.to_owned()]);
        };
        let source = file.path().display().to_string();
        let outcome = match file.read() {
            Ok(read) => {
                read.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                self.apply(read.config, &source).await
            }
            Err(errors) => {
                errors.iter().for_each(|error| tracing::error!("{error}"));
                let count = counted(errors.len(), "error");
                tracing::error!("configuration unchanged: {source} has {count}");
                let mut first = errors.into_iter().next().unwrap_or_default();
                if !first.contains(&source) {
                    first = format!("{source}: {first}");
                }
                self.parts.reporter.attempted(Some(first.clone()));
                Err(first)
            }
        };
        self.say_ready();
        outcome
    }

    fn say_ready(&self) {
        self.parts.notifier.ready(&format!("serving {}", summary(&self.parts.snapshot.config)));
    }

    /// Reads the certificates and keys of a configuration. What is wrong is logged, and leaves
    /// everything as it is.
    fn load_tls(&self, config: &Config) -> Result<Arc<TlsSetup>, String> {
        let folders = self.parts.origin.tls_folders();
        match TlsSetup::load(config, &folders, Some(&self.parts.tls)) {
            Ok(tls) => {
                tls.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
                Ok(Arc::new(tls))
            }
            Err(errors) => {
                errors.iter().for_each(|error| tracing::error!("{error}"));
                let count = counted(errors.len(), "error");
                tracing::error!("configuration unchanged: {count} in what TLS works with");
                let text = errors.join("; ");
                self.parts.reporter.attempted(Some(text.clone()));
                Err(text)
            }
        }
    }

    /// Has new connections encrypted with this, if it is anything new.
    fn encrypt(&mut self, tls: Arc<TlsSetup>) -> &'static str {
        if tls.is_same(&self.parts.tls) {
            return "certificates and keys are as before";
        }
        self.plane().encrypt(&tls);
        self.parts.reporter.encrypts(&tls);
        self.tls.send_replace(Arc::clone(&tls));
        self.parts.tls = tls;
        tracing::info!("certificates and keys are in force as read now");
        "certificates and keys are in force as read now"
    }

    /// Serves by another configuration from now on. A line for each change.
    ///
    /// # Errors
    /// Why nothing has changed.
    async fn apply(&mut self, config: Config, source: &str) -> Result<Vec<String>, String> {
        let running = Arc::clone(&self.parts.snapshot);
        let tls = self.load_tls(&config)?;
        let changes = difference(&running, &config);
        for change in changes.iter().take(CHANGES_LOGGED_MAX) {
            tracing::info!("{change}");
        }
        if let Some(more @ 1..) = changes.len().checked_sub(CHANGES_LOGGED_MAX) {
            tracing::info!("and {}", counted(more, "more change"));
        }
        if changes.iter().all(|change| change.needs_restart) {
            let what = if changes.is_empty() { "nothing new" } else { "nothing new for now" };
            tracing::info!("configuration unchanged: {source} has {what}");
            self.encrypt(tls);
            self.parts.reporter.attempted(None);
            return Ok(changes.iter().map(ToString::to_string).collect());
        }
        if let Some(warning) = limits::open_files_warning(self.parts.open_files, &config) {
            tracing::warn!("{warning}");
        }
        // A server whose name has no address yet would refuse its first statements. Names that
        // can't be resolved are complained of by the loop that asks again.
        let resolution = resolve(&new_names(&config, &running), PREPARATION_TIME_MAX).await;
        let next = Snapshot::build(config, Some(&running));
        let next = match next.with_resolved(&resolution.found) {
            Some(mut resolved) => {
                resolved.version = next.version;
                resolved
            }
            None => next,
        };
        self.parts.log.set_level(next.settings.log_level);
        self.encrypt(tls);
        self.publish(next);
        self.parts.reporter.applied(&self.parts.snapshot);
        self.greet();
        let count = counted(changes.len(), "change");
        tracing::info!("configuration {} in force: {count}", self.parts.snapshot.version);
        Ok(changes.iter().map(ToString::to_string).collect())
    }

    fn publish(&mut self, next: Snapshot) {
        debug_assert!(next.version > self.parts.snapshot.version);
        let others = next
            .has_new_servers(&self.parts.snapshot)
            .then(|| Arc::new(self.plane().shared().catalog().begin_other_servers()));
        self.unproven.lines(&next).iter().for_each(|line| tracing::warn!("{line}"));
        self.parts.snapshot = Arc::new(next);
        // Whoever is asked for names from now on is one of the new servers.
        self.parts.snapshots.send_replace(Arc::clone(&self.parts.snapshot));
        let problems = self.plane().publish(&self.parts.snapshot, others);
        problems.iter().for_each(|problem| tracing::error!("{problem}"));
    }

    /// Serves by servers that a cluster was found to have, or asks anew what names mean.
    fn take_cluster_news(&mut self, news: ClusterNews) {
        match news {
            ClusterNews::OtherWriter => {
                let others = Arc::new(self.plane().shared().catalog().begin_other_servers());
                let problems = self.plane().publish(&self.parts.snapshot, Some(others));
                problems.iter().for_each(|problem| tracing::error!("{problem}"));
            }
            ClusterNews::WriterDrains => {
                let problems = self.plane().publish(&self.parts.snapshot, None);
                problems.iter().for_each(|problem| tracing::error!("{problem}"));
            }
            ClusterNews::Discovered { cluster, servers } => {
                let next = self.parts.snapshot.with_discovered(&cluster, &servers);
                let Some(next) = next else { return };
                let named: Vec<_> = servers.iter().map(ToString::to_string).collect();
                tracing::info!("cluster {cluster} has more servers: {}", named.join(", "));
                // Names are resolved by the loop that asks again.
                self.resolve_now.notify_one();
                let config = Arc::clone(&next.config);
                self.publish(next);
                if let Ok(tls) = self.load_tls(&config) {
                    self.encrypt(tls);
                }
                self.parts.reporter.renewed(&self.parts.snapshot);
            }
        }
    }

    fn take_addresses(&mut self, resolution: &Resolution) {
        if let Some(next) = self.parts.snapshot.with_resolved(&resolution.found) {
            tracing::info!("host names have other addresses");
            self.publish(next);
            self.parts.reporter.renewed(&self.parts.snapshot);
        }
    }

    /// What users servers have was looked at; clients may wait for it.
    fn take_users(&mut self, read: UsersRead) {
        let snapshot = &self.parts.snapshot;
        let next = match &read {
            UsersRead::All(users) => users.clone().and_then(|all| snapshot.with_granted(all)),
            UsersRead::Names(read) => snapshot.with_granted_names(&read.names, &read.users),
        };
        if let Some(next) = next {
            let count = counted(next.granted.len(), "account");
            tracing::info!("servers' grant tables have changed: {count}");
            self.publish(next);
            self.parts.reporter.renewed(&self.parts.snapshot);
        }
        match read {
            UsersRead::All(_) => self.plane().users_looked_up(),
            UsersRead::Names(read) => read.answer(),
        }
    }

    fn take_knowledge(&mut self, known: Knowledge) {
        self.parts.known = known;
        save(&self.parts.known, &self.parts.snapshot, self.parts.state_file.as_ref());
        self.greet();
    }

    /// Has the workers greet as what is known of the servers asks for.
    fn greet(&mut self) {
        let Parts { known, snapshot, .. } = &self.parts;
        let greeting = greeting_for_clients(known, snapshot);
        let version = common_version(known, snapshot);
        let is_other_version = self.plane().shared().set_server_version(version);
        self.plane().shared().set_flavor(greeting.flavor());
        if greeting != *self.parts.greeting {
            tracing::info!("clients are greeted as {}", greeting.server_version);
            self.parts.greeting = Arc::new(greeting);
        } else if !is_other_version {
            return;
        }
        self.plane().greet(&self.parts.greeting);
    }

    /// The graceful stop, within `stop_timeout` or this time. A second signal ends the process at
    /// once.
    async fn stop(self, signal: &str, within: Option<Duration>) -> Result<()> {
        let stop_timeout = Duration::from_millis(self.parts.snapshot.settings.stop_timeout);
        let within = within.unwrap_or(stop_timeout);
        tracing::info!(
            "{signal}: stopping, within {} ms; a second signal ends at once",
            within.as_millis()
        );
        self.parts.reporter.set_health(Health::NotReady("stopping".to_owned()));
        self.parts.notifier.stopping();
        self.plane().stop(within);
        let Parts { mut signals, plane, tracer, .. } = self.parts;
        let joined = tokio::select! {
            joined = wait_for_workers(plane, within + STOP_GRACE) => joined,
            (signal, code) = signals.next_stop() => {
                tracing::warn!("{signal}: ended at once");
                process::exit(code);
            }
        };
        joined?;
        tracer.finish().await;
        tracing::info!("stopped");
        Ok(())
    }

    /// Why a worker has ended that was not told to.
    async fn post_mortem(&self) -> anyhow::Error {
        self.parts.reporter.set_health(Health::Failed("a worker has ended".to_owned()));
        self.plane().stop(Duration::ZERO);
        let plane = Arc::clone(&self.parts.plane);
        let reason = match timeout(POST_MORTEM_TIME_MAX, join(plane)).await {
            Ok(Err(reason)) => reason,
            Ok(Ok(())) | Err(_) => anyhow!("for a reason that is not known"),
        };
        reason.context("a worker has ended unexpectedly")
    }
}

/// Host names of `config` that the running snapshot has no addresses for.
fn new_names(config: &Config, running: &Snapshot) -> Vec<Address> {
    let known: HashSet<&Address> = running
        .servers()
        .filter(|server| !server.resolved.is_empty())
        .map(|server| &server.key.address)
        .collect();
    let addresses: HashSet<&Address> =
        config.servers.iter().map(|entry| &entry.key.address).collect();
    addresses.difference(&known).map(|address| (*address).clone()).collect()
}

/// Waits until every worker has ended. Their numbers can be asked for until then.
async fn wait_for_workers(plane: Arc<RwLock<DataPlane>>, time_max: Duration) -> Result<()> {
    let deadline = Instant::now() + time_max;
    loop {
        if Instant::now() >= deadline {
            bail!("the workers have not ended in time");
        }
        sleep(STOP_TICK).await;
        let looked_at = Arc::clone(&plane);
        let is_over = spawn_blocking(move || {
            let plane = looked_at.read().unwrap_or_else(PoisonError::into_inner);
            // One that still runs answers.
            plane.has_ended() && plane.reports(DigestQuery::NONE, POST_MORTEM_TIME_MAX).is_empty()
        });
        if is_over.await? {
            let left = deadline.saturating_duration_since(Instant::now());
            return timeout(left, join(plane)).await?;
        }
    }
}

/// Takes leave of all workers.
async fn join(plane: Arc<RwLock<DataPlane>>) -> Result<()> {
    let joining =
        spawn_blocking(move || plane.write().unwrap_or_else(PoisonError::into_inner).join());
    joining.await?.map_err(|reason| anyhow!(reason))
}
