use std::sync::Arc;

use trunkline_pool::ConnState;
use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_session::Credential;
use trunkline_stats::{DigestQuery, SessionQuery};

use crate::{
    Action, MovedClient, MovedConn, Shared, Side,
    tests::{OK, ONE_CONNECTION, Reply, Setup, TWO_SERVERS, TestWorker, snapshot},
};

const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const FAR: u64 = 1_000_000;

fn has_stopped(world: &mut TestWorker) -> bool {
    world.actions().iter().any(|action| matches!(action, Action::Stopped))
}

#[test]
fn a_worker_without_clients_stops_at_once() {
    let mut world = TestWorker::new();
    world.happens(|worker| worker.stop_gracefully(FAR));
    assert!(has_stopped(&mut world) && world.worker.is_stopping());
}

#[test]
fn whoever_rests_ends_with_the_worker() {
    let mut world = TestWorker::new();
    let (idle, greeted) = (world.log_in(), world.connect());
    world.happens(|worker| worker.stop_gracefully(FAR));
    assert!(world.is_closed(idle) && world.is_closed(greeted));
    assert!(has_stopped(&mut world));
}

#[test]
fn what_runs_may_end_before_the_worker_stops() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    world.happens(|worker| worker.stop_gracefully(FAR));
    assert!(!world.is_closed(client) && !has_stopped(&mut world));
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert!(world.is_closed(client) && has_stopped(&mut world));
}

#[test]
fn a_transaction_may_end_before_the_worker_stops() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    world.happens(|worker| worker.stop_gracefully(FAR));
    assert!(!world.is_closed(client));
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
    assert!(world.is_closed(client));
}

#[test]
fn the_deadline_of_a_stop_ends_all_the_same() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(99)");
    let deadline_ms = world.core().env.now.ms() + 100;
    world.happens(|worker| worker.stop_gracefully(deadline_ms));
    world.pass_ms(99);
    assert!(!world.is_closed(client));
    world.pass_ms(2);
    let unknown =
        "Server shutdown in progress: it is not known whether this statement was carried out";
    assert_eq!(world.answer(client), format!("error 1053: {unknown}"));
    assert!(world.is_closed(client) && has_stopped(&mut world));
    assert_eq!(world.conns(), []);
}

#[test]
fn what_no_server_got_before_a_stop_was_not_carried_out() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "BEGIN", IN_TRANS);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    let deadline_ms = world.core().env.now.ms() + 100;
    world.happens(|worker| worker.stop_gracefully(deadline_ms));
    world.pass_ms(101);
    let not_done = "Server shutdown in progress: this statement was not carried out";
    assert_eq!(world.answer(other), format!("error 1053: {not_done}"));
}

#[test]
fn all_clients_can_be_ended_and_the_worker_goes_on() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(99)");
    world.happens(|worker| worker.end_clients());
    assert!(world.is_closed(client) && !world.worker.is_stopping());
    world.log_in();
}

#[test]
fn a_client_whose_step_panicked_goes_with_what_it_held() {
    let mut world = TestWorker::new();
    let (client, other) = (world.log_in(), world.log_in());
    world.run(client, "BEGIN", IN_TRANS);
    world.happens(|worker| worker.abandon(Side::Client(client)));
    assert_eq!(world.conns(), []);
    assert_eq!(world.worker.clients(), 1);
    assert_eq!(world.run(other, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
}

#[test]
fn a_connection_whose_bytes_panicked_takes_its_client_along() {
    let mut world = TestWorker::new();
    let (client, _other) = (world.log_in(), world.log_in());
    world.run(client, "BEGIN", IN_TRANS);
    let conn = world.conns()[0];
    world.happens(|worker| worker.abandon(Side::Server(conn)));
    assert_eq!((world.conns().len(), world.worker.clients()), (0, 1));
    assert_eq!(world.core().fx.stats.counters.session_panics, 1);
}

fn reload(world: &mut TestWorker, config: &str) {
    let snapshot = snapshot(config);
    world.happens(|worker| worker.apply_snapshot(snapshot));
}

#[test]
fn a_server_that_is_gone_loses_its_idle_connections() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    reload(&mut world, &TWO_SERVERS.replace(":3306", ":3316").replace(":3307", ":3317"));
    assert_eq!(world.conns(), []);
    world.ask(client, "INSERT INTO s.t VALUES (2)");
    assert!(world.address_asked("INSERT INTO s.t VALUES (2)").contains(":331"));
}

#[test]
fn a_server_that_is_gone_keeps_what_runs_on_it() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    reload(&mut world, &TWO_SERVERS.replace(":3306", ":3316").replace(":3307", ":3317"));
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.conns(), []);
}

#[test]
fn who_waits_for_a_hostgroup_is_served_by_a_server_that_comes() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, "SELECT SLEEP(9)");
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    assert_eq!(world.asked(), ["SELECT SLEEP(9)"]);
    let more =
        format!("{ONE_CONNECTION}[[server]]\nhostgroup = 10\naddress = \"127.0.0.1:3309\"\n");
    reload(&mut world, &more);
    assert_eq!(world.address_asked("INSERT INTO s.t VALUES (1)"), "127.0.0.1:3309");
}

/// [`TWO_SERVERS`], with the second and the user in a hostgroup of their own.
fn elsewhere() -> String {
    let second = "address = \"127.0.0.1:3307\"";
    TWO_SERVERS
        .replace(&format!("hostgroup = 10\n{second}"), &format!("hostgroup = 30\n{second}"))
        .replace("default_hostgroup = 10", "default_hostgroup = 30")
}

#[test]
fn a_session_follows_its_user_to_another_hostgroup() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    reload(&mut world, &elsewhere());
    world.ask(client, "INSERT INTO s.t VALUES (2)");
    assert_eq!(world.address_asked("INSERT INTO s.t VALUES (2)"), "127.0.0.1:3307");
}

#[test]
fn what_a_session_holds_is_lost_where_its_user_goes_elsewhere() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    reload(&mut world, &elsewhere());
    let answer = world.answered(client, "SELECT 1");
    assert!(answer.contains("default hostgroup is another one now"), "{answer}");
    assert!(answer.contains("temporary_table"), "{answer}");
}

#[test]
fn a_greeting_that_becomes_known_is_for_new_clients() {
    let mut world = TestWorker::new();
    let greeting = Arc::new(crate::tests::greeting("11.8.2-MariaDB", 1));
    world.happens(|worker| worker.apply_greeting(greeting));
    let client = world.connect();
    assert!(world.got(client).windows(14).any(|part| part == b"11.8.2-MariaDB"));
}

/// Two workers of one process.
fn two_workers(config: &str) -> [TestWorker; 2] {
    let shared = Arc::new(Shared::new(None, 16));
    [0, 1].map(|index| {
        let shared = Arc::clone(&shared);
        TestWorker::of(Setup { config, index, workers: 2, shared, ..Setup::default() })
    })
}

/// Has a client serve so many commands that its worker gives it away, and takes it from there.
fn given_away(one: &mut TestWorker, other: &mut TestWorker) -> Option<MovedClient> {
    let client = one.log_in();
    let second = one.log_in();
    for _ in 0..40 {
        one.send(client, b"\x0E");
        one.send(second, b"\x0E");
    }
    other.pass_ms(1_100);
    one.pass_ms(1_100);
    one.happens(|worker| worker.let_leave());
    one.actions().into_iter().find_map(|action| match action {
        Action::MoveClient { moved, to: 1, .. } => Some(*moved),
        _ => None,
    })
}

#[test]
fn a_busy_worker_gives_a_session_to_a_less_busy_one() {
    let [mut one, mut other] = two_workers(TWO_SERVERS);
    let moved = given_away(&mut one, &mut other).expect("one leaves");
    assert_eq!(one.worker.clients(), 1);
    let client = other.happens(|worker| worker.adopt_client(moved));
    assert_eq!(other.worker.clients(), 1);
    assert_eq!(other.session(client).login.user.name, "app");
}

#[test]
fn a_session_that_can_not_arrive_gives_its_place_back() {
    let [mut one, mut other] = two_workers(TWO_SERVERS);
    let moved = given_away(&mut one, &mut other).expect("one leaves");
    assert_eq!(one.core().env.shared.clients(), 2);
    other.happens(|worker| worker.client_lost(moved));
    assert_eq!(one.core().env.shared.clients(), 1);
    let told = other.actions();
    assert!(told.iter().any(|it| matches!(it, Action::ClientLeft { to: 0, .. })), "{told:?}");
}

#[test]
fn a_worker_that_stops_says_goodbye_to_whoever_arrives() {
    let [mut one, mut other] = two_workers(TWO_SERVERS);
    let moved = given_away(&mut one, &mut other).expect("one leaves");
    other.happens(|worker| worker.stop_gracefully(FAR));
    let client = other.happens(|worker| worker.adopt_client(moved));
    let before = other.worker.clients();
    other.happens(|worker| worker.client_adopted(client));
    assert_eq!((before, other.worker.clients()), (1, 0));
}

#[test]
fn sessions_stay_where_the_threshold_is_0() {
    let [mut one, mut other] = two_workers(&format!("rebalance_threshold = 0\n{TWO_SERVERS}"));
    assert!(given_away(&mut one, &mut other).is_none());
}

#[test]
fn a_kill_of_a_session_that_moved_follows_it() {
    use crate::{KillAsker, KillRequest, KillScope};
    let [mut one, mut other] = two_workers(TWO_SERVERS);
    given_away(&mut one, &mut other).expect("one leaves");
    let here: Vec<_> = one.core().clients.numbers.keys().copied().collect();
    let number = [1, 3].into_iter().find(|number| !here.contains(number)).expect("one has left");
    let asker = KillAsker { worker: 0, client: None, ticket: 1 };
    let scope = KillScope::Session;
    one.happens(|worker| worker.kill_asked(KillRequest { number, scope, user: None, asker }));
    let asked = one.actions();
    assert!(asked.iter().any(|it| matches!(it, Action::Kill { to: 1, .. })), "{asked:?}");
    one.happens(|worker| worker.client_left(number));
    one.happens(|worker| worker.kill_asked(KillRequest { number, scope, user: None, asker }));
    assert_eq!(one.administrator_told(), Some(crate::KillAnswer::Unknown));
}

/// An idle connection of one worker's, which another one has asked for.
fn handed_over(world: &mut TestWorker) -> Option<MovedConn> {
    let conn = world.conns()[0];
    let slot = world.core().servers.slot_of(conn).expect("a server");
    let key = world.core().servers.pool.slot(slot).expect("a server").server.key.clone();
    world.happens(|worker| worker.peer_asks(key, 1));
    world.actions().into_iter().find_map(|action| match action {
        Action::HandOver { moved, to: 1, .. } => Some(*moved),
        _ => None,
    })
}

#[test]
fn an_idle_connection_goes_to_the_worker_that_asks_for_it() {
    let [mut one, mut other] = two_workers(ONE_CONNECTION);
    let client = one.log_in();
    one.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let moved = handed_over(&mut one).expect("it is given");
    assert_eq!(one.core().servers.conns.len(), 0);
    let id = other.worker.adopt(moved).expect("its server is known");
    other.happens(|worker| worker.adopted(id));
    assert!(other.core().servers.conns.get(id).expect("a connection").list.is_free());
}

#[test]
fn how_old_a_connection_is_goes_with_it() {
    let [mut one, mut other] = two_workers(ONE_CONNECTION);
    one.pass_ms(5_000);
    let client = one.log_in();
    one.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let moved = handed_over(&mut one).expect("it is given");
    let id = other.worker.adopt(moved).expect("its server is known");
    let login_us = other.core().servers.conns.get(id).expect("a connection").login.login_us;
    assert!(login_us >= 5_000_000, "{login_us}: it would seem older than its server");
}

#[test]
fn a_connection_to_a_server_that_is_not_known_is_not_adopted() {
    let [mut one, _] = two_workers(ONE_CONNECTION);
    let mut other = TestWorker::with(&ONE_CONNECTION.replace(":3306", ":3399"));
    let client = one.log_in();
    one.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let moved = handed_over(&mut one).expect("it is given");
    let health = Arc::clone(&moved.health);
    assert_eq!(health.connections(), 1);
    assert!(other.worker.adopt(moved).is_none());
    assert_eq!(health.connections(), 0, "its place is free again");
}

#[test]
fn a_connection_in_use_is_given_when_it_is_free() {
    let [mut one, _] = two_workers(ONE_CONNECTION);
    let client = one.log_in();
    one.ask(client, "INSERT INTO s.t VALUES (1)");
    assert!(handed_over(&mut one).is_none());
    one.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    let given = one.actions();
    assert!(given.iter().any(|it| matches!(it, Action::HandOver { to: 1, .. })), "{given:?}");
    let (_, slot) = one.core().servers.pool.slots().next().expect("a server");
    let counted: Vec<_> =
        ConnState::ALL.into_iter().filter(|state| slot.counts().of(*state) > 0).collect();
    assert_eq!(counted, [], "it counts here no more");
}

#[test]
fn a_wish_is_forgotten_after_a_while() {
    let [mut one, _] = two_workers(ONE_CONNECTION);
    let client = one.log_in();
    one.ask(client, "INSERT INTO s.t VALUES (1)");
    assert!(handed_over(&mut one).is_none());
    one.pass_ms(1_100);
    one.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert!(!one.actions().iter().any(|it| matches!(it, Action::HandOver { .. })));
}

#[test]
fn others_are_asked_for_a_connection_when_the_cap_is_reached() {
    let [mut one, _] = two_workers(ONE_CONNECTION);
    let clients = [(); 2].map(|()| one.log_in());
    one.ask(clients[0], "SELECT SLEEP(9)");
    one.actions();
    one.ask(clients[1], "INSERT INTO s.t VALUES (1)");
    let asks = |world: &mut TestWorker| {
        world.actions().iter().filter(|it| matches!(it, Action::AskPeers(_))).count()
    };
    assert_eq!(asks(&mut one), 1);
}

#[test]
fn sessions_are_told_with_what_they_do() {
    let mut world = TestWorker::new();
    let (idle, busy) = (world.log_in(), world.log_in());
    world.run(idle, "BEGIN", IN_TRANS);
    world.ask(busy, "SELECT SLEEP(9)");
    let list = world.worker.sessions(SessionQuery { rows_max: 9, pinned_only: false });
    let doing: Vec<_> = list.sessions.iter().map(|row| (row.id, &*row.doing)).collect();
    assert_eq!(doing, [(1, "idle"), (2, "running")]);
    assert_eq!((list.total, list.pinned), (2, 1));
    assert_eq!(list.sessions[0].holds[0].reasons, ["transaction"]);
    assert_eq!(list.sessions[1].digest_text, "SELECT SLEEP(?)");
}

#[test]
fn only_those_that_are_held_are_told_where_they_are_asked_for() {
    let mut world = TestWorker::new();
    let (held, _idle) = (world.log_in(), world.log_in());
    world.run(held, "BEGIN", IN_TRANS);
    let list = world.worker.sessions(SessionQuery { rows_max: 9, pinned_only: true });
    assert_eq!((list.sessions.len(), list.total), (1, 2));
}

#[test]
fn idle_connections_and_prepared_texts_are_told() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x16SELECT 5");
    world.reply("PREPARE SELECT 5", Reply::Prepared(3, 0));
    let inventory = world.worker.inventory(9);
    assert_eq!((inventory.idle.len(), inventory.stmts.len()), (1, 1));
    let (idle, stmt) = (&inventory.idle[0], &inventory.stmts[0]);
    assert_eq!((&*idle.user, idle.thread, idle.stmts), ("app", 100, 1));
    assert_eq!((&*stmt.text, stmt.clients, stmt.servers), ("SELECT 5", 1, 1));
    assert_eq!(world.worker.inventory(0).idle.len(), 0);
}

#[test]
fn a_report_counts_connections_by_their_state() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "BEGIN", IN_TRANS);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    let report = world.worker.report(DigestQuery::NONE);
    let leased: u64 = report.servers.iter().map(|server| server.connections.leased).sum();
    let idle: u64 = report.servers.iter().map(|server| server.connections.idle).sum();
    assert_eq!((leased, idle), (2, 0));
    assert_eq!(report.pins.get("transaction"), Some(&1));
}

/// The user `app` with a hash of this salt, or without any such user.
fn with_hash(salt: Option<char>) -> String {
    let user = |salt: char| {
        let hash = format!("$A$005${}{}", String::from(salt).repeat(20), "d".repeat(43));
        TWO_SERVERS.replace("password = \"app\"", &format!("password_hash = \"{hash}\""))
    };
    salt.map_or_else(|| TWO_SERVERS.replace("name = \"app\"", "name = \"own\""), user)
}

#[test]
fn proofs_of_a_password_that_changed_or_went_are_dropped_by_all_workers() {
    for salt in [Some('b'), None] {
        let before = &with_hash(Some('a'));
        let shared = Arc::new(Shared::new(None, 16));
        let mut worlds = [0, 1].map(|index| {
            let shared = Arc::clone(&shared);
            TestWorker::of(Setup { config: before, index, workers: 2, shared, ..Setup::default() })
        });
        let user = Arc::clone(snapshot(before).user("app").expect("it is there"));
        let hash = user.password.slow_hash().expect("a hash").clone();
        // Somebody is connected, which keeps the user's count.
        let _place = shared.take_user("app", 9);
        for world in &mut worlds {
            // A login by what this worker still has.
            shared.remember_verified(&user, hash.clone(), [7; 32]);
            shared.learn_credential(&user, &Credential::from_clear(b"secret"));
            assert!(shared.verified("app", hash.expose()).is_some());
            world.happens(|worker| worker.apply_snapshot(snapshot(&with_hash(salt))));
            assert!(shared.verified("app", hash.expose()).is_none(), "{salt:?}");
        }
        let proven = shared.learn_credential(&user, &Credential::default());
        assert_eq!(proven.clear, None, "{salt:?}");
        assert_eq!(shared.user_connections("app"), 1);
    }
}
