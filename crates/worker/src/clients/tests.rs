use trunkline_protocol::error::ErrorKind;
use trunkline_session::tracker::PinReason;

use crate::{
    ClientId,
    tests::{MYSQL, Reply, Setup, TWO_SERVERS, TestWorker},
};

fn timers(world: &mut TestWorker) -> Vec<(u64, ClientId)> {
    world.core().clients.timers.iter().copied().collect()
}

#[test]
fn a_client_has_one_timer() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.lend(client, |core, client| core.clients.set_timer(client, 50));
    world.lend(client, |core, client| core.clients.set_timer(client, 40));
    assert_eq!(timers(&mut world), [(40, client)]);
}

#[test]
fn a_timer_of_0_is_none() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.lend(client, |core, client| core.clients.set_timer(client, 50));
    world.lend(client, |core, client| core.clients.set_timer(client, 0));
    assert_eq!(timers(&mut world), []);
}

#[test]
fn timers_are_in_the_order_of_their_time() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.lend(one, |core, client| core.clients.set_timer(client, 60));
    world.lend(other, |core, client| core.clients.set_timer(client, 50));
    assert_eq!(timers(&mut world), [(50, other), (60, one)]);
}

#[test]
fn a_client_that_goes_leaves_no_timer() {
    let mut world = TestWorker::with(&format!("default_query_timeout = 1000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(9)");
    assert_eq!(timers(&mut world).len(), 1);
    world.leave(client);
    assert_eq!(timers(&mut world), []);
}

#[test]
fn a_statement_that_is_answered_leaves_no_timer() {
    let mut world = TestWorker::with(&format!("default_query_timeout = 1000\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.run(client, "SELECT 1", Reply::Rows(&["1"]));
    world.pass_ms(1_500);
    assert_eq!(world.answer(client), "");
    assert_eq!(world.core().fx.stats.counters.statements_timed_out, 0);
}

#[test]
fn an_error_of_the_proxys_own_is_the_sessions_last_one() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x08");
    assert_eq!(world.answer(client), "error 1047: Unknown command");
    let past = &world.session(client).past;
    assert_eq!(past.conditions.error.as_ref().map(|error| error.code), Some(1047));
}

#[test]
fn an_error_in_place_of_a_servers_answer_ends_the_hold_of_its_warnings() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    world.session(client).leases[0].pins.pin(PinReason::Warnings);
    let error = ErrorKind::TimedOut.says("too late");
    world.lend(client, |_, client| client.record_client_error(&error));
    let reasons: Vec<_> = world.session(client).leases[0].pins.reasons().collect();
    assert_eq!(reasons, [PinReason::TemporaryTable]);
}

#[test]
fn only_much_counts_as_waiting() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.stall(client);
    let mut waiting = |len: usize| {
        world.lend(client, |core, client| {
            core.write_client(client, |out| out.resize(len, 0));
            core.clients.count_waiting(client);
            core.clients.waiting_bytes
        })
    };
    assert_eq!(waiting(1_000), 0);
    assert!(waiting(100_000) >= 100_000);
}

#[test]
fn what_waited_for_a_client_that_has_gone_waits_no_more() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.lend(client, |core, client| {
        core.write_client(client, |out| out.resize(100_000, 0));
        core.clients.count_waiting(client);
    });
    world.leave(client);
    assert_eq!(world.core().clients.waiting_bytes, 0);
}

#[test]
fn little_may_wait_for_each_when_too_much_waits_in_all() {
    let config = &format!("buffers_max = 16777216\nclient_buffer_max = 1048576\n{TWO_SERVERS}");
    let mut world = TestWorker::of(Setup { config, version: MYSQL, ..Setup::default() });
    assert_eq!(world.core().buffer_max(), 1 << 20);
    world.core().clients.waiting_bytes = (16 << 20) + 1;
    assert_eq!(world.core().buffer_max(), crate::reply::SCARCE_LEN_MAX);
}
