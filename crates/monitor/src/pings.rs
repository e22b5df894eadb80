//! Asks each server for a sign of life, and takes out those that give none.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::{Mutex, Semaphore, watch::Receiver},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_stats::checks::{CheckKind, CheckRow};
use trunkline_topology::{Address, Seen, Server, ServerState};

use crate::{
    Account, Board, LearnError,
    conversation::{self, Conversation, Way},
};

/// Servers that are asked together.
const LOOKS_MAX: usize = 64;
/// Bytes of an answer.
const ANSWER_LEN_MAX: usize = 4_096;
/// What is asked on a connection that stands.
const PING: &str = "SELECT 1";

/// A check that is under way.
pub(crate) struct Timing {
    address: String,
    started_us: u64,
    begun: Instant,
}

impl Timing {
    pub(crate) fn begin(address: &Address) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Self { address: address.to_string(), started_us, begun: Instant::now() }
    }

    /// What is shown of it.
    pub(crate) fn end(self, kind: CheckKind, outcome: Result<Vec<String>, String>) -> CheckRow {
        let Self { address, started_us, begun } = self;
        let (told, error, took_us) = match outcome {
            Ok(told) => {
                let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                (told, None, took_us.max(1))
            }
            Err(error) => (Vec::new(), Some(error), 0),
        };
        CheckRow { kind, address, started_us, took_us, told, error }
    }
}

/// Pings every server each `monitor_ping_interval`, and opens a connection to it each
/// `monitor_connect_interval`. Ends with whoever publishes snapshots.
pub async fn keep_pinging(
    mut snapshots: Receiver<Arc<Snapshot>>,
    tls: Receiver<Arc<TlsSetup>>,
    board: Arc<Board>,
) {
    let mut pings = Pings::default();
    let mut connects_due = Instant::now();
    let mut pings_due = Instant::now();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let settings = &snapshot.settings;
        let account = Account::of_pings(&snapshot).filter(|_| settings.monitor_enabled);
        let tls = Arc::clone(&tls.borrow());
        let round = async {
            let Some(account) = account else {
                pings.let_go(&snapshot);
                // Until there is somebody to ask.
                return std::future::pending().await;
            };
            sleep_until(connects_due.min(pings_due)).await;
            let now = Instant::now();
            if now >= connects_due {
                connects_due = now + Duration::from_millis(settings.monitor_connect_interval);
                let time_max = Duration::from_millis(settings.monitor_connect_timeout);
                let asking = Asking { account: &account, tls: &tls, board: &board, time_max };
                pings.connect(&snapshot, &asking).await;
            }
            if now >= pings_due {
                pings_due = now + Duration::from_millis(settings.monitor_ping_interval);
                let time_max = Duration::from_millis(settings.monitor_ping_timeout);
                let asking = Asking { account: &account, tls: &tls, board: &board, time_max };
                let failed = pings.ping(&snapshot, &asking).await;
                pings.judge(&snapshot, &failed);
            }
        };
        tokio::select! {
            changed = snapshots.changed() => if changed.is_err() { return },
            () = round => {}
        }
    }
}

/// How servers are asked.
struct Asking<'a> {
    account: &'a Account,
    tls: &'a Arc<TlsSetup>,
    board: &'a Arc<Board>,
    time_max: Duration,
}

/// A conversation that stands between two pings.
type Standing = Arc<Mutex<Option<Conversation>>>;

/// What the loop remembers.
#[derive(Default)]
struct Pings {
    standing: HashMap<Address, Standing>,
    /// Pings that failed, one after the other.
    failures: HashMap<Address, u32>,
    /// Servers that are shunned for it.
    shunned: HashSet<Address>,
}

/// What came of a ping, where it failed: why, and whether the server seems to be gone.
type Failed = HashMap<Address, Option<(String, bool)>>;

impl Pings {
    /// Opens a connection to each server, and closes it.
    async fn connect(&mut self, snapshot: &Snapshot, asking: &Asking<'_>) {
        let asked =
            ask_each(snapshot, asking, CheckKind::Connect, |server, account, way| async move {
                open(&server, &account, &way).await?.quit().await
            });
        asked.await;
    }

    /// Asks each server, on the connection that stands.
    async fn ping(&mut self, snapshot: &Snapshot, asking: &Asking<'_>) -> Failed {
        let addresses: HashSet<Address> =
            asked(snapshot).map(|it| it.key.address.clone()).collect();
        self.standing.retain(|address, _| addresses.contains(address));
        self.failures.retain(|address, _| addresses.contains(address));
        self.shunned.retain(|address| addresses.contains(address));
        let standing = &mut self.standing;
        ask_each(snapshot, asking, CheckKind::Ping, |server, account, way| {
            let standing = Arc::clone(standing.entry(server.key.address.clone()).or_default());
            async move {
                let mut standing = standing.lock().await;
                // What was asked on it may still be answered.
                let mut conversation = match standing.take() {
                    Some(kept) => kept,
                    None => open(&server, &account, &way).await?,
                };
                conversation.ask(PING, ANSWER_LEN_MAX).await?;
                *standing = Some(conversation);
                Ok(())
            }
        })
        .await
    }

    /// Nobody asks any more: servers that were taken out for their silence are tried.
    fn let_go(&mut self, snapshot: &Snapshot) {
        for server in asked(snapshot).filter(|it| self.shunned.contains(&it.key.address)) {
            server.health.count_success();
        }
        *self = Self::default();
    }

    /// Takes out servers whose pings fail, and puts those back that answer again.
    fn judge(&mut self, snapshot: &Snapshot, outcomes: &Failed) {
        let failures_max = snapshot.settings.monitor_ping_max_failures;
        for (address, failed) in outcomes {
            // A server of a cluster has its role, which others have an eye on.
            let entries = asked(snapshot).filter(|server| server.key.address == *address);
            let entries: Vec<_> = entries.filter(|it| it.health.role().is_none()).collect();
            // Each entry's is taken, whatever the others have seen.
            let seen: Vec<Seen> =
                entries.iter().map(|server| server.health.take_seen(true)).collect();
            let answers = seen.iter().any(|seen| seen.has(Seen::ANSWERED));
            let failures = self.failures.entry(address.clone()).or_default();
            let why = match failed {
                Some((why, true)) if !answers => why,
                Some(_) => continue,
                None => {
                    *failures = 0;
                    if self.shunned.remove(address) {
                        tracing::info!("server {address} takes statements again: it answers pings");
                        entries.iter().for_each(|server| server.health.count_success());
                    }
                    continue;
                }
            };
            *failures = failures.saturating_add(1);
            if *failures < failures_max {
                continue;
            }
            for server in entries {
                server.health.begin_shun(u64::MAX);
                server.health.sever_connections();
            }
            if self.shunned.insert(address.clone()) {
                tracing::warn!(
                    "server {address} is shunned until it answers pings: {failures} failed, \
                     the last one: {why}"
                );
            }
        }
    }
}

/// Servers that an operator lets serve.
fn asked(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Server>> {
    snapshot.mysql_servers().filter(|server| match server.health.state(u64::MAX) {
        ServerState::OfflineSoft | ServerState::OfflineHard => false,
        ServerState::Online
        | ServerState::Shunned
        | ServerState::Lagging
        | ServerState::Standby => true,
    })
}

/// Asks each server once, and shows what came of it.
async fn ask_each<F>(
    snapshot: &Snapshot,
    asking: &Asking<'_>,
    kind: CheckKind,
    mut ask: impl FnMut(Arc<Server>, Account, Way) -> F,
) -> Failed
where
    F: Future<Output = Result<(), LearnError>> + Send + 'static,
{
    let servers: HashMap<&Address, &Arc<Server>> =
        asked(snapshot).map(|server| (&server.key.address, server)).collect();
    let turns = Arc::new(Semaphore::new(LOOKS_MAX));
    let mut looks = JoinSet::new();
    for server in servers.into_values() {
        let (turns, time_max) = (Arc::clone(&turns), asking.time_max);
        let address = server.key.address.clone();
        let way = Way::to(server, asking.tls);
        let asked = ask(Arc::clone(server), asking.account.clone(), way);
        looks.spawn(async move {
            // The semaphore is never closed, so that there always is a permit in the end.
            let _turn = turns.acquire().await;
            let timing = Timing::begin(&address);
            let failed = match timeout(time_max, asked).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some((error.to_string(), error.is_of_connection())),
                Err(_) => Some((format!("no answer within {} ms", time_max.as_millis()), true)),
            };
            (address, timing, failed)
        });
    }
    let mut outcomes = Failed::new();
    while let Some(looked) = looks.join_next().await {
        // A look that panicked is none.
        let Ok((address, timing, failed)) = looked else { continue };
        let outcome = match &failed {
            None => Ok(Vec::new()),
            Some((why, _)) => Err(why.clone()),
        };
        asking.board.checked(timing.end(kind, outcome));
        outcomes.insert(address, failed);
    }
    outcomes
}

async fn open(server: &Server, account: &Account, way: &Way) -> Result<Conversation, LearnError> {
    let mut conversation = conversation::connect(server).await?;
    let (_, header, payload) = conversation.greeting().await?;
    conversation.log_in(account, way, header, payload).await?;
    Ok(conversation)
}
