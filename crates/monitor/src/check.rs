//! Checks the servers of TCP listeners by connecting to them.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpStream, UnixStream},
    sync::watch::Receiver,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use trunkline_config::{Snapshot, TcpEntry, tcp::Check};
use trunkline_tcp::{Checker, Verdict};
use trunkline_topology::{Address, Server, ServerHealth, ServerKey, ServerState};

/// How often it is looked whether a server is due.
const TICK: Duration = Duration::from_millis(100);
/// Checks under way at once.
const CHECKS_MAX: usize = 256;

/// Takes servers of TCP listeners out that can't be connected to, and puts them back when they
/// can. Ends with whoever publishes snapshots.
pub async fn keep_checking(mut snapshots: Receiver<Arc<Snapshot>>) {
    let mut checks = Checks::default();
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // Held no longer than this: what a configuration no longer has shall go.
        let servers = checks.renew(&snapshots.borrow_and_update());
        if servers == 0 {
            match snapshots.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        loop {
            tokio::select! {
                changed = snapshots.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                Some(ended) = checks.running.join_next(), if !checks.running.is_empty() => {
                    if let Ok((key, outcome)) = ended {
                        checks.ended(&key, &outcome);
                    }
                }
                _ = tick.tick(), if !checks.plans.is_empty() => checks.begin_due(),
            }
        }
    }
}

/// One server's checks.
struct Plan {
    server: Arc<Server>,
    options: Arc<TcpEntry>,
    checker: Checker,
    due: Instant,
    is_running: bool,
}

#[derive(Default)]
struct Checks {
    plans: HashMap<ServerKey, Plan>,
    running: JoinSet<(ServerKey, Result<(), String>)>,
}

impl Checks {
    /// Takes over the servers of a snapshot; how many there are to look after. A server of several
    /// listeners is checked as the one with the shortest interval says.
    fn renew(&mut self, snapshot: &Snapshot) -> usize {
        let mut before = std::mem::take(&mut self.plans);
        for front in snapshot.tcp.iter().filter(|front| front.options.check != Check::Off) {
            for server in front.servers.iter().chain(&front.backups) {
                let known = self.plans.get(&server.key);
                if known
                    .is_some_and(|plan| plan.options.check_interval <= front.options.check_interval)
                {
                    continue;
                }
                let old = before.remove(&server.key).filter(|plan| is_same(plan, &server.health));
                let plan = Plan {
                    server: Arc::clone(server),
                    options: Arc::clone(&front.options),
                    checker: old.as_ref().map_or_else(Checker::default, |plan| plan.checker),
                    due: old.as_ref().map_or_else(Instant::now, |plan| plan.due),
                    is_running: old.is_some_and(|plan| plan.is_running),
                };
                self.plans.insert(server.key.clone(), plan);
            }
        }
        self.plans.len()
    }

    fn begin_due(&mut self) {
        let now = Instant::now();
        for (key, plan) in &mut self.plans {
            let wanted = match (plan.options.check, state(&plan.server)) {
                (_, ServerState::OfflineSoft | ServerState::OfflineHard) => false,
                (_, ServerState::Lagging | ServerState::Standby) => false,
                (_, ServerState::Shunned) => true,
                (check, ServerState::Online) => check == Check::Always,
            };
            if !wanted || plan.is_running || plan.due > now || self.running.len() >= CHECKS_MAX {
                continue;
            }
            plan.is_running = true;
            plan.due = now + Duration::from_millis(plan.options.check_interval);
            let time_ms = plan.options.connect_timeout.min(plan.options.check_interval);
            let (key, server) = (key.clone(), Arc::clone(&plan.server));
            self.running.spawn(async move {
                let outcome = match timeout(Duration::from_millis(time_ms), connect(&server)).await
                {
                    Ok(outcome) => outcome.map_err(|error| error.to_string()),
                    Err(_) => Err(format!("no connection within {time_ms} ms")),
                };
                (key, outcome)
            });
        }
    }

    fn ended(&mut self, key: &ServerKey, outcome: &Result<(), String>) {
        let Some(plan) = self.plans.get_mut(key) else { return };
        plan.is_running = false;
        let health = &plan.server.health;
        let is_out = match state(&plan.server) {
            ServerState::Online => false,
            ServerState::Shunned => true,
            // An operator has taken it away meanwhile.
            ServerState::OfflineSoft
            | ServerState::OfflineHard
            | ServerState::Lagging
            | ServerState::Standby => return,
        };
        let (rise, fall) = (plan.options.rise, plan.options.fall);
        match plan.checker.observe(outcome.is_ok(), is_out, rise, fall) {
            Verdict::AsBefore => {}
            Verdict::Up => {
                health.count_success();
                let hostgroup = key.hostgroup;
                tracing::info!("server {} in hostgroup {hostgroup} is back", key.address);
            }
            Verdict::Down => {
                // Until a check brings it back.
                health.shun(u64::MAX);
                if !is_out {
                    let reason = outcome.as_ref().err().map_or("", String::as_str);
                    let (address, hostgroup) = (&key.address, key.hostgroup);
                    tracing::warn!("server {address} in hostgroup {hostgroup} is out: {reason}");
                }
            }
        }
    }
}

fn is_same(plan: &Plan, health: &Arc<ServerHealth>) -> bool {
    Arc::ptr_eq(&plan.server.health, health)
}

/// The state now. A shun that has ended by time counts as one until a check has succeeded, since
/// only workers know their clock.
fn state(server: &Server) -> ServerState {
    server.health.state(0)
}

/// Connects, to one address after the other, and closes.
async fn connect(server: &Server) -> io::Result<()> {
    if let Address::Unix(path) = &server.key.address {
        return UnixStream::connect(path).await.map(drop);
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name is not resolved");
    for address in &server.resolved {
        match TcpStream::connect(address).await {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use tokio::{net::TcpListener as Listening, sync::watch, time::sleep};

    use super::*;

    fn snapshot(port: u16, check: &str) -> Arc<Snapshot> {
        let text = format!(
            "[[server]]\nhostgroup = 1\naddress = \"127.0.0.1:{port}\"\n[[tcp_listener]]\n\
             address = \"127.0.0.1:0\"\nhostgroup = 1\ncheck = \"{check}\"\n\
             check_interval = 100\nrise = 2\nfall = 2"
        );
        let no_files = |_: &str| Err("no files here".to_owned());
        let config = trunkline_config::parse(&text, "test.toml", &no_files).expect("valid");
        Arc::new(Snapshot::build(config, None))
    }

    async fn wait(server: &Server, wanted: ServerState) {
        let reached = async {
            while state(server) != wanted {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), reached).await.expect("the state");
    }

    #[tokio::test]
    async fn checks_begin_with_the_configuration_that_asks_for_them() {
        let listening = Listening::bind("127.0.0.1:0").await.expect("a port");
        let port = listening.local_addr().expect("address").port();
        let (sender, receiver) = watch::channel(snapshot(port, "off"));
        let checking = tokio::spawn(keep_checking(receiver));
        tokio::task::yield_now().await;
        let checked = snapshot(port, "always");
        let server = Arc::clone(checked.servers().next().expect("server"));
        drop(listening);
        sender.send_replace(checked);
        wait(&server, ServerState::Shunned).await;
        drop(sender);
        checking.await.expect("ends with the sender");
    }

    #[tokio::test]
    async fn a_server_is_taken_out_and_put_back() {
        let listening = Listening::bind("127.0.0.1:0").await.expect("a port");
        let address = listening.local_addr().expect("address");
        let snapshot = snapshot(address.port(), "always");
        let (sender, receiver) = watch::channel(Arc::clone(&snapshot));
        let checking = tokio::spawn(keep_checking(receiver));
        let server = Arc::clone(snapshot.servers().next().expect("server"));
        drop(listening);
        wait(&server, ServerState::Shunned).await;
        let again = Listening::bind(address).await.expect("the same port");
        wait(&server, ServerState::Online).await;
        drop((sender, again));
        checking.await.expect("ends with the sender");
    }

    #[tokio::test]
    async fn only_what_is_out_is_checked_by_default() {
        let listening = Listening::bind("127.0.0.1:0").await.expect("a port");
        let snapshot = snapshot(listening.local_addr().expect("address").port(), "down");
        let (_sender, receiver) = watch::channel(Arc::clone(&snapshot));
        let checking = tokio::spawn(keep_checking(receiver));
        let server = Arc::clone(snapshot.servers().next().expect("server"));
        let quiet = timeout(Duration::from_millis(400), listening.accept()).await;
        assert!(quiet.is_err(), "a server that is well was connected to");
        server.health.shun(u64::MAX);
        listening.accept().await.expect("a check");
        wait(&server, ServerState::Online).await;
        checking.abort();
    }
}
