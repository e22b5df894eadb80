use trunkline_protocol::packet::ok::OkPacket;
use trunkline_session::tracker::{Charset, Schema};

use super::*;
use crate::tests::{MYSQL, OK, Reply, Setup, TWO_SERVERS, TestWorker};

fn state(wait_timeout: &str) -> SessionState {
    let mut state = SessionState::new(Schema::None, Charset::Collation(45));
    state.set_variable("wait_timeout", wait_timeout.as_bytes());
    state
}

#[test]
fn a_sessions_own_wait_timeout_is_in_seconds() {
    assert_eq!(own_wait_timeout(&state("30")), Some(30_000));
    assert_eq!(own_wait_timeout(&state(" 7 ")), Some(7_000));
}

#[test]
fn a_wait_timeout_of_0_is_the_least_that_servers_take() {
    assert_eq!(own_wait_timeout(&state("0")), Some(1_000));
}

#[test]
fn a_wait_timeout_that_is_no_number_is_none() {
    for value in ["DEFAULT", "@a", "10 + 1", "-1", ""] {
        assert_eq!(own_wait_timeout(&state(value)), None, "{value}");
    }
    let unset = SessionState::new(Schema::None, Charset::Collation(45));
    assert_eq!(own_wait_timeout(&unset), None);
}

#[test]
fn a_session_that_rests_for_too_long_ends() {
    let mut world = TestWorker::with(&format!("wait_timeout = 5000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.pass_ms(4_000);
    assert!(!world.is_closed(client));
    world.pass_ms(2_000);
    assert!(world.is_closed(client));
    assert_eq!(world.answer(client), "", "MariaDB says nothing");
}

#[test]
fn mysql_tells_a_session_why_it_ends() {
    let config = &format!("wait_timeout = 5000\n{TWO_SERVERS}");
    let mut world = TestWorker::of(Setup { config, version: MYSQL, ..Setup::default() });
    let client = world.log_in();
    world.pass_ms(6_000);
    assert!(world.answer(client).starts_with("error 4031"));
}

#[test]
fn a_session_that_does_something_now_and_then_goes_on() {
    let mut world = TestWorker::with(&format!("wait_timeout = 5000\n{TWO_SERVERS}"));
    let client = world.log_in();
    for _ in 0..4 {
        world.pass_ms(4_000);
        world.send(client, b"\x0E");
    }
    assert!(!world.is_closed(client));
}

#[test]
fn a_session_may_allow_itself_less() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "SET wait_timeout = 2", Reply::Ok);
    world.pass_ms(1_900);
    assert!(!world.is_closed(client));
    world.pass_ms(400);
    assert!(world.is_closed(client));
}

#[test]
fn a_session_whose_statement_runs_does_not_rest() {
    let mut world = TestWorker::with(&format!("wait_timeout = 5000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(99)");
    world.pass_ms(20_000);
    assert!(!world.is_closed(client));
}

#[test]
fn a_session_rests_from_its_answer_on() {
    let mut world = TestWorker::with(&format!("wait_timeout = 5000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(99)");
    world.reply_at_a_tick("SELECT SLEEP(99)", Reply::Rows(&["0"]), 99_000);
    assert_eq!(world.answer(client), "rows 0");
    assert!(!world.is_closed(client));
}

#[test]
fn an_idle_connection_is_kept_alive_by_pings() {
    let mut world = TestWorker::with(&format!("ping_interval_server_msec = 3000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.pass_ms(2_900);
    assert_eq!(world.times_heard("PING"), 0);
    world.pass_ms(200);
    assert_eq!(world.times_heard("PING"), 1);
    assert_eq!(world.conns().len(), 1);
}

#[test]
fn what_a_session_left_is_fetched_before_its_connection_is_pinged() {
    let mut world = TestWorker::with(&format!("ping_interval_server_msec = 3000\n{TWO_SERVERS}"));
    let client = world.log_in();
    let warned = Reply::Says(OkPacket { warnings: 1, ..OK });
    world.run(client, "INSERT INTO s.t VALUES (1)", warned);
    world.pass_ms(1_100);
    world.pass_ms(3_100);
    assert_eq!(world.heard()[2..], ["SHOW WARNINGS", "PING"]);
}

#[test]
fn an_idle_connection_that_nobody_needs_is_closed() {
    let mut world = TestWorker::with(&format!("idle_connection_timeout = 3000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.pass_ms(2_900);
    assert_eq!(world.conns().len(), 1);
    world.pass_ms(200);
    assert_eq!(world.conns(), []);
}

#[test]
fn a_connection_that_does_not_come_up_in_time_is_given_up() {
    let mut world = TestWorker::with(&format!("connect_timeout_server = 1000\n{TWO_SERVERS}"));
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    let first = world.conns()[0];
    world.pass_ms(900);
    assert_eq!(world.conns(), [first]);
    world.pass_ms(300);
    assert!(!world.conns().contains(&first));
    assert_eq!(world.conns().len(), 1, "another one is tried");
}

#[test]
fn a_server_that_does_not_end_an_answer_to_nobody_loses_its_connection() {
    let mut world = TestWorker::with(&format!("connect_timeout_server_max = 2000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(99)");
    world.leave(client);
    world.pass_ms(1_900);
    assert_eq!(world.conns().len(), 1);
    world.pass_ms(300);
    assert_eq!(world.conns(), []);
    assert_eq!(world.core().fx.stats.counters.server_connections_abandoned, 1);
}

#[test]
fn a_worker_that_nobody_waits_for_looks_at_its_deadlines_once_a_second() {
    let mut world = TestWorker::new();
    world.pass_ms(1_500);
    world.happens(|_| {});
    assert!((900..=1_000).contains(&world.worker.tick_within_ms()));
}

#[test]
fn a_worker_that_somebody_waits_for_looks_often() {
    let mut world = TestWorker::new();
    world.connect();
    assert_eq!(world.worker.tick_within_ms(), WAITING_TICK_MS);
}

#[test]
fn a_worker_looks_at_timers_in_time() {
    let mut world = TestWorker::with(&format!("default_query_timeout = 300\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.pass_ms(1_500);
    world.ask(client, "SELECT SLEEP(9)");
    assert!(world.worker.tick_within_ms() <= 300);
}

#[test]
fn the_log_has_its_lines_anew_each_second() {
    let mut world = TestWorker::new();
    world.core().fx.log_budget = 0;
    world.pass_ms(1_100);
    assert_eq!(world.core().fx.log_budget, LOG_LINES_PER_SEC);
}
