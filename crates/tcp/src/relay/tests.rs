use trunkline_config::{Snapshot, parse};

use super::*;

/// A worker's relay with its listener, and a configuration that may change.
struct World {
    relay: Relay,
    snapshot: Snapshot,
    listener: ListenerId,
}

const SERVERS: &str = "
    [[server]]
    hostgroup = 1
    address = \"10.0.0.1:1\"
    max_connections = 2
    [[server]]
    hostgroup = 1
    address = \"10.0.0.2:1\"
    max_connections = 2
    [[server]]
    hostgroup = 2
    address = \"10.0.0.3:1\"
    max_connections = 2
    ";

fn text(servers: &str, options: &str) -> String {
    format!("{servers}\n[[tcp_listener]]\naddress = \"127.0.0.1:3307\"\nhostgroup = 1\n{options}")
}

fn snapshot(text: &str, previous: Option<&Snapshot>) -> Snapshot {
    let no_files = |_: &str| Err("no files here".to_owned());
    let config = parse(text, "test.toml", &no_files).expect("configuration");
    Snapshot::build(config, previous)
}

impl World {
    fn new(options: &str) -> Self {
        let snapshot = snapshot(&text(SERVERS, options), None);
        let mut relay = Relay::new(1);
        relay.begin_batch(1_000);
        relay.configure(&snapshot.tcp);
        let address = snapshot.tcp[0].options.address.clone();
        let listener = relay.open(&address).expect("a listener");
        Self { relay, snapshot, listener }
    }

    fn reload(&mut self, text: &str) {
        self.snapshot = snapshot(text, Some(&self.snapshot));
        self.relay.configure(&self.snapshot.tcp);
    }

    /// A client; the server that is connected to for it, and what else is to be done.
    fn client(&mut self) -> (PairId, Option<String>) {
        assert!(self.relay.enter(self.listener));
        let accepted = Accepted { listener: self.listener, client: None, proxy: None };
        let id = self.relay.accept(accepted);
        (id, self.connecting(id))
    }

    /// The server that is to be connected to for a client.
    fn connecting(&mut self, id: PairId) -> Option<String> {
        self.relay.take_actions().iter().find_map(|action| match action {
            Action::Connect(other, server) if *other == id => Some(server.key.address.to_string()),
            _ => None,
        })
    }

    fn joined(&mut self) -> (PairId, String) {
        let (id, server) = self.client();
        self.relay.connected(id);
        (id, server.expect("a server"))
    }

    fn actions(&mut self) -> Vec<String> {
        let actions = self.relay.take_actions();
        let shown = actions.iter().filter(|action| !matches!(action, Action::Log { .. }));
        shown
            .map(|action| match action {
                Action::Connect(_, server) => format!("connect {}", server.key.address),
                Action::Shutdown(_, end) => format!("shutdown {end:?}"),
                Action::Close(_) => "close".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    fn at(&mut self, ms: u64) {
        self.relay.begin_batch(ms);
        self.relay.tick();
    }

    /// Connections that are counted: at each server and at the listener.
    fn counts(&self) -> (Vec<u32>, u32) {
        let servers = self.snapshot.servers().map(|server| server.health.connections());
        (servers.collect(), self.snapshot.tcp[0].gate.connections())
    }
}

#[test]
fn a_failed_server_is_out_at_once_and_the_next_is_tried() {
    let mut world = World::new("balance = \"first\"");
    let (id, server) = world.client();
    assert_eq!(server.as_deref(), Some("10.0.0.1:1"));
    world.relay.connect_failed(id, "refused", false);
    assert_eq!(world.connecting(id).as_deref(), Some("10.0.0.2:1"));
    world.relay.connected(id);
    let (_, server) = world.joined();
    assert_eq!(server, "10.0.0.2:1", "the first is out");
    assert_eq!(world.counts(), (vec![0, 2, 0], 2));
}

#[test]
fn backups_serve_when_nobody_else_is_online() {
    let mut world = World::new("balance = \"first\"\nbackup_hostgroup = 2\nretries = 2");
    let (id, _) = world.client();
    world.relay.connect_failed(id, "refused", false);
    assert_eq!(world.connecting(id).as_deref(), Some("10.0.0.2:1"));
    world.relay.connect_failed(id, "refused", false);
    assert_eq!(world.connecting(id).as_deref(), Some("10.0.0.3:1"));
    world.relay.connect_failed(id, "refused", false);
    assert_eq!(world.actions(), ["close"], "no more retries");
    assert_eq!(world.counts(), (vec![0, 0, 0], 0));
    let (_, server) = world.client();
    assert_eq!((server, world.counts().1), (None, 0), "nobody is online");
    assert_eq!(world.relay.report()[0].counters.refused, 2);
}

#[test]
fn the_proxys_own_trouble_is_no_servers_fault() {
    let mut world = World::new("balance = \"first\"");
    let (id, _) = world.client();
    world.relay.connect_failed(id, "too many open files", true);
    assert_eq!(world.actions(), ["close"]);
    let (_, server) = world.client();
    assert_eq!(server.as_deref(), Some("10.0.0.1:1"));
}

#[test]
fn without_checks_a_server_comes_back_by_time() {
    let mut world = World::new("balance = \"first\"\ncheck = \"off\"");
    let (id, _) = world.client();
    world.relay.connect_failed(id, "refused", false);
    world.relay.connected(id);
    world.relay.take_actions();
    world.at(10_999);
    assert_eq!(world.client().1.as_deref(), Some("10.0.0.2:1"));
    world.at(11_000);
    assert_eq!(world.client().1.as_deref(), Some("10.0.0.1:1"));
}

#[test]
fn clients_wait_for_a_busy_server_in_their_order_and_not_for_ever() {
    let mut world = World::new("balance = \"first\"\nconnect_timeout = 100");
    let joined: Vec<_> = (0..4).map(|_| world.joined().0).collect();
    let waiting: Vec<_> = (0..3).map(|_| world.client()).collect();
    assert!(waiting.iter().all(|(_, server)| server.is_none()));
    world.relay.gone(joined[1], End::Client);
    world.relay.gone(joined[3], End::Server);
    assert_eq!(world.actions(), ["close", "connect 10.0.0.1:1", "close", "connect 10.0.0.2:1"]);
    world.relay.connected(waiting[0].0);
    world.relay.connected(waiting[1].0);
    world.at(1_100);
    assert_eq!(world.actions(), ["close"], "the third has waited long enough");
    assert_eq!(world.counts(), (vec![2, 2, 0], 4));
}

#[test]
fn an_attempt_to_connect_has_its_time() {
    let mut world = World::new("balance = \"first\"\nconnect_timeout = 50");
    let (id, _) = world.client();
    assert!(world.relay.tick_within_ms() <= 50);
    world.at(1_049);
    assert!(world.actions().is_empty());
    world.at(1_050);
    let actions = world.actions();
    assert!(actions[0].starts_with("Abandon"), "{actions:?}");
    assert_eq!(actions[1], "connect 10.0.0.2:1");
    world.relay.connected(id);
    assert_eq!(world.counts(), (vec![0, 1, 0], 1));
}

#[test]
fn at_its_limit_a_listener_takes_nobody_until_somebody_leaves() {
    let mut world = World::new("max_connections = 1");
    let (id, _) = world.joined();
    assert!(!world.relay.enter(world.listener));
    world.relay.gone(id, End::Client);
    assert_eq!(world.actions(), ["close", "Resume(ListenerId(0))"]);
    // A place may be taken by another worker and given back there.
    assert!(world.snapshot.tcp[0].gate.try_enter(1));
    assert!(!world.relay.enter(world.listener));
    world.at(1_010);
    assert!(world.actions().is_empty());
    world.snapshot.tcp[0].gate.leave();
    world.at(1_020);
    assert_eq!(world.actions(), ["Resume(ListenerId(0))"]);
}

#[test]
fn draining_keeps_clients_and_offline_cuts_them() {
    let mut world = World::new("balance = \"first\"");
    let (first, _) = world.joined();
    let soft = SERVERS.replacen("max_connections = 2", "status = \"OFFLINE_SOFT\"", 1);
    world.reload(&text(&soft, "balance = \"first\""));
    assert!(world.actions().is_empty());
    assert!(world.relay.may_read(first, End::Client));
    let (_, server) = world.joined();
    assert_eq!(server, "10.0.0.2:1");
    let hard = SERVERS.replacen("max_connections = 2", "status = \"OFFLINE_HARD\"", 1);
    world.reload(&text(&hard, "balance = \"first\""));
    assert_eq!(world.actions(), ["close"]);
    assert_eq!(world.counts(), (vec![0, 1, 0], 1));
}

#[test]
fn a_server_or_listener_that_leaves_the_configuration_keeps_its_clients() {
    let mut world = World::new("balance = \"first\"");
    let (first, _) = world.joined();
    let before = world.snapshot.clone();
    let only_second = "[[server]]\nhostgroup = 1\naddress = \"10.0.0.2:1\"\n";
    world.reload(&text(only_second, ""));
    assert!(world.actions().is_empty() && world.relay.may_read(first, End::Server));
    assert_eq!(world.joined().1, "10.0.0.2:1");
    let other = text(SERVERS, "").replace("3307", "3308");
    world.reload(&other);
    assert_eq!(world.actions(), ["CloseListener(ListenerId(0))"]);
    assert!(world.relay.may_read(first, End::Server));
    world.relay.gone(first, End::Server);
    assert_eq!(before.servers().next().expect("server").health.connections(), 0);
}

#[test]
fn silence_ends_a_pair_by_its_own_limits() {
    let mut world = World::new("client_timeout = 5000\nserver_timeout = 9000\nfin_timeout = 2000");
    let (silent, _) = world.joined();
    let (half, _) = world.joined();
    let (busy, _) = world.joined();
    world.relay.ended(half, End::Client);
    assert_eq!(world.actions(), ["shutdown Server"]);
    world.at(3_500);
    assert_eq!(world.actions(), ["close"], "half closed and silent");
    world.relay.relayed(busy, End::Client, b"still here", 10);
    world.at(6_500);
    assert_eq!(world.actions(), ["close"]);
    assert!(world.relay.may_read(busy, End::Client) && !world.relay.may_read(silent, End::Client));
    assert_eq!(world.relay.report()[0].counters.timed_out, 2);
}

#[test]
fn a_downed_servers_clients_are_cut_where_that_is_wanted() {
    let mut world = World::new("balance = \"first\"\non_marked_down = \"shutdown-sessions\"");
    world.joined();
    world.snapshot.servers().next().expect("server").health.shun(u64::MAX);
    world.at(2_500);
    assert_eq!(world.actions(), ["close"]);
}

#[test]
fn the_header_goes_before_the_clients_bytes() {
    let mut world = World::new("send_proxy = \"v1\"");
    let (id, _) = world.joined();
    assert_eq!(world.relay.pending(id, End::Server), b"PROXY UNKNOWN\r\n");
    assert!(!world.relay.may_read(id, End::Client) && world.relay.may_read(id, End::Server));
    world.relay.wrote(id, End::Server, 15);
    assert!(world.relay.may_read(id, End::Client));
}

#[test]
fn a_stop_waits_for_clients_and_then_cuts_them() {
    let mut world = World::new("");
    world.joined();
    world.relay.stop(2_000);
    assert_eq!(world.actions(), ["CloseListener(ListenerId(0))"]);
    assert!(!world.relay.enter(world.listener) && !world.relay.is_empty());
    world.at(1_999);
    assert!(world.actions().is_empty());
    world.at(2_000);
    assert_eq!(world.actions(), ["close"]);
    assert!(world.relay.is_empty());
}

#[test]
fn bytes_are_counted_and_an_old_name_means_nobody() {
    let mut world = World::new("balance = \"first\"");
    let (id, _) = world.joined();
    world.relay.relayed(id, End::Client, b"12345", 2);
    assert_eq!(world.relay.pending(id, End::Server), b"345");
    world.relay.relayed(id, End::Server, b"123", 3);
    let row = &world.relay.report()[0].servers[0];
    assert_eq!((row.counters.bytes_to_server, row.counters.bytes_to_client), (5, 3));
    assert_eq!((row.connections, row.counters.connected), (1, 1));
    world.relay.gone(id, End::Client);
    world.relay.gone(id, End::Server);
    let (next, _) = world.joined();
    assert_eq!(next.index, id.index);
    world.relay.gone(id, End::Client);
    assert!(world.relay.may_read(next, End::Client));
}
