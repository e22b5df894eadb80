//! The two loops that keep addresses and knowledge up to date. They end when whoever listens to
//! them has gone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::{Notify, mpsc::Sender, watch::Receiver},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use trunkline_config::Snapshot;
use trunkline_net::TlsSetup;
use trunkline_topology::{Address, Server, ServerKey, ServerState};

use crate::{Account, Facts, Knowledge, LearnError, Learned, Resolution, learn, resolve};

/// How long one host name may take.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(5);
/// How often servers are looked through for a change of their state.
const TICK: Duration = Duration::from_secs(1);
/// When a server that answered is looked at again: it may have been upgraded.
const LEARN_AGAIN: Duration = Duration::from_secs(600);
/// When a server that did not answer is looked at again at first, and at most.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Resolves the snapshot's host names every `resolve_interval`, when `on_demand` is notified, and
/// when a server with a name was shunned. Each round's outcome goes to `outcomes`; a name that
/// fails is logged once until it is found again.
pub async fn keep_resolving(
    mut snapshots: Receiver<Arc<Snapshot>>,
    on_demand: Arc<Notify>,
    outcomes: Sender<Resolution>,
) {
    let mut epochs = Epochs::default();
    let mut failing = HashMap::new();
    let mut last = Instant::now();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (pause, names) = {
            let snapshot = snapshots.borrow_and_update();
            (snapshot.settings.resolve_interval, snapshot.names_to_resolve())
        };
        tokio::select! {
            () = outcomes.closed() => return,
            () = on_demand.notified() => {}
            () = sleep_until(last + Duration::from_millis(pause)) => {}
            // The interval or the names may have changed; new names come resolved.
            changed = snapshots.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            _ = tick.tick() => {
                let changed = epochs.changed(&snapshots.borrow());
                if !changed.iter().any(|address| names.contains(address)) {
                    continue;
                }
            }
        }
        last = Instant::now();
        if names.is_empty() {
            continue;
        }
        let outcome = resolve(&names, LOOKUP_TIME_MAX).await;
        report_names(&outcome, &mut failing);
        if outcomes.send(outcome).await.is_err() {
            return;
        }
    }
}

/// Logs what has become worse or better.
fn report_names(outcome: &Resolution, failing: &mut HashMap<Address, String>) {
    for (name, reason) in &outcome.failed {
        if failing.get(name) != Some(reason) {
            tracing::warn!(server = %name, reason, "host name not resolved, old addresses stay");
            failing.insert(name.clone(), reason.clone());
        }
    }
    for name in outcome.found.keys() {
        if failing.remove(name).is_some() {
            tracing::info!(server = %name, "host name resolved again");
        }
    }
}

/// Looks at each server until it has answered, again every ten minutes, and again when it was
/// shunned. Begins with what `known` holds already; whenever there is news, all that is known
/// goes to `news`.
pub async fn keep_learning(
    mut snapshots: Receiver<Arc<Snapshot>>,
    known: Knowledge,
    tls: Receiver<Arc<TlsSetup>>,
    news: Sender<Knowledge>,
) {
    let mut learner = Learner { known, ..Learner::default() };
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = news.closed() => return,
            changed = snapshots.changed() => if changed.is_err() { return },
            _ = tick.tick() => {}
        }
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let tls = Arc::clone(&tls.borrow());
        if learner.round(&snapshot, &tls).await && news.send(learner.known.clone()).await.is_err() {
            return;
        }
    }
}

/// What the second loop remembers.
#[derive(Default)]
struct Learner {
    known: Knowledge,
    plans: HashMap<Address, Plan>,
    epochs: Epochs,
}

/// When a server is looked at next.
struct Plan {
    due: Instant,
    /// The pause after the next failure.
    retry: Duration,
    /// What was logged last, so that it is not logged again.
    trouble: Option<String>,
}

impl Learner {
    /// Looks at the servers that are due; whether there is news.
    async fn round(&mut self, snapshot: &Snapshot, tls: &Arc<TlsSetup>) -> bool {
        let now = Instant::now();
        let present: HashSet<&Address> =
            snapshot.mysql_servers().map(|server| &server.key.address).collect();
        self.plans.retain(|address, _| present.contains(address));
        for address in self.epochs.changed(snapshot) {
            if let Some(plan) = self.plans.get_mut(&address) {
                plan.due = now;
            }
        }
        // A name without an address is the other loop's business.
        let due: Vec<Arc<Server>> = snapshot
            .mysql_servers()
            .filter(|server| is_reachable(server))
            .filter(|server| server.health.state(u64::MAX) != ServerState::OfflineHard)
            .filter(|server| self.plans.get(&server.key.address).is_none_or(|p| p.due <= now))
            .map(Arc::clone)
            .collect();
        if due.is_empty() {
            return false;
        }
        let time_max = Duration::from_millis(snapshot.settings.connect_timeout_server);
        let account = Account::of(snapshot);
        let mut is_news = false;
        for (address, answer) in learn(&due, account.as_ref(), tls, time_max).await {
            is_news |= self.take(address, answer);
        }
        is_news
    }

    /// Notes a server's answer; whether it is news.
    fn take(&mut self, address: Address, answer: Result<Learned, LearnError>) -> bool {
        let now = Instant::now();
        let plan = self.plans.entry(address.clone()).or_insert(Plan {
            due: now,
            retry: RETRY_MIN,
            trouble: None,
        });
        let (learned, trouble) = match answer {
            Ok(learned) => (Some(learned.greeting), learned.refusal),
            Err(error) => (None, Some(error.to_string())),
        };
        if let Some(trouble) = &trouble
            && plan.trouble.as_ref() != Some(trouble)
        {
            match learned {
                Some(_) => tracing::warn!(server = %address, "server refuses a login: {trouble}"),
                None => tracing::warn!(server = %address, "server does not answer: {trouble}"),
            }
        }
        plan.trouble = trouble;
        let Some(greeting) = learned else {
            plan.due = now + plan.retry;
            plan.retry = (plan.retry * 2).min(RETRY_MAX);
            return false;
        };
        plan.due = now + LEARN_AGAIN;
        plan.retry = RETRY_MIN;
        let facts = Facts::of(&greeting, unix_sec());
        let version = facts.version.clone();
        let is_news = self.known.learn(&address, facts);
        if is_news {
            tracing::info!(server = %address, "server runs {version}");
        }
        is_news
    }
}

/// The epochs last seen.
#[derive(Default)]
struct Epochs(HashMap<ServerKey, u32>);

impl Epochs {
    /// Servers whose state has changed since the last call; a new server has not.
    fn changed(&mut self, snapshot: &Snapshot) -> Vec<Address> {
        let mut seen = HashMap::new();
        let mut changed = Vec::new();
        for server in snapshot.servers() {
            let epoch = server.health.epoch();
            if self.0.get(&server.key).is_some_and(|before| *before != epoch) {
                changed.push(server.key.address.clone());
            }
            seen.insert(server.key.clone(), epoch);
        }
        self.0 = seen;
        changed
    }
}

fn is_reachable(server: &Server) -> bool {
    match server.key.address {
        Address::Tcp { .. } => !server.resolved.is_empty(),
        Address::Unix(_) => true,
    }
}

fn unix_sec() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
