use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_topology::HostgroupId;

use crate::tests::{Login, OK, ONE_CONNECTION, Reply, TWO_SERVERS, TestWorker};

const WRITES: [&str; 3] =
    ["INSERT INTO s.t VALUES (1)", "INSERT INTO s.t VALUES (2)", "INSERT INTO s.t VALUES (3)"];
const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const PAUSED: &str = "held: hostgroup 10 is paused";

fn pause(world: &mut TestWorker, for_ms: Option<u64>) {
    world.happens(|worker| worker.pause_hostgroup(HostgroupId(10), for_ms));
}

#[test]
fn what_is_new_is_held_and_goes_on_in_one_batch_in_its_order() {
    let mut world = TestWorker::new();
    let clients = [(); 3].map(|()| world.log_in());
    world.run(clients[0], "SELECT a FROM s.t", Reply::Rows(&["1"]));
    pause(&mut world, Some(60_000));
    for (client, text) in clients.iter().zip(WRITES) {
        world.ask(*client, text);
    }
    let heard = world.heard().len();
    // For longer than statements wait for connections.
    world.pass_ms(50_000);
    assert_eq!((world.asked().len(), world.heard().len()), (0, heard));
    assert_eq!(world.doing(clients[1]), PAUSED);
    let report = world.worker.report(trunkline_stats::DigestQuery::NONE);
    assert_eq!(report.held.get(&10), Some(&3));
    pause(&mut world, None);
    assert_eq!(world.asked(), WRITES);
    for (client, text) in clients.iter().zip(WRITES) {
        world.reply(text, Reply::Ok);
        assert_eq!(world.answer(*client), "ok");
    }
    assert_eq!(world.core().fx.stats.counters.statements_held, 3);
}

#[test]
fn a_pause_ends_by_itself() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    pause(&mut world, Some(5_000));
    pause(&mut world, Some(2_000));
    world.ask(client, WRITES[0]);
    world.pass_ms(1_900);
    assert_eq!(world.asked(), [""; 0]);
    world.pass_ms(200);
    assert_eq!(world.asked(), [WRITES[0]]);
}

#[test]
fn what_is_under_way_and_what_is_open_goes_on() {
    let mut world = TestWorker::new();
    let (running, open, new) = (world.log_in(), world.log_in(), world.log_in());
    world.run(open, "BEGIN", IN_TRANS);
    world.ask(running, WRITES[0]);
    pause(&mut world, Some(60_000));
    world.ask(new, WRITES[2]);
    world.reply(WRITES[0], Reply::Ok);
    assert_eq!(world.answer(running), "ok");
    // Its connection is free, and nobody gets it.
    assert_eq!(world.asked(), [""; 0]);
    assert_eq!(world.run(open, WRITES[1], IN_TRANS), "ok");
    assert_eq!(world.run(open, "COMMIT", Reply::Ok), "ok");
    world.ask(open, WRITES[1]);
    assert_eq!(world.asked(), [""; 0]);
    pause(&mut world, None);
    assert_eq!(world.asked().len(), 2);
}

#[test]
fn a_pinned_session_begins_nothing_new_and_keeps_what_it_has() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    let conn = world.conns()[0];
    pause(&mut world, Some(60_000));
    world.ask(client, WRITES[0]);
    world.pass_ms(30_000);
    assert_eq!((world.asked().len(), world.doing(client).as_str()), (0, PAUSED));
    let report = world.worker.report(trunkline_stats::DigestQuery::NONE);
    assert_eq!(report.held.get(&10), Some(&1));
    pause(&mut world, None);
    assert_eq!(world.conn_asked(WRITES[0]), conn);
    world.reply(WRITES[0], Reply::Ok);
    assert_eq!(world.answer(client), "ok");

    // Under its own locks it goes on, since others wait for them.
    world.run(client, "LOCK TABLES s.t WRITE", Reply::Ok);
    pause(&mut world, Some(60_000));
    assert_eq!(world.run(client, WRITES[1], Reply::Ok), "ok");
    assert_eq!(world.run(client, "UNLOCK TABLES", Reply::Ok), "ok");
    world.ask(client, WRITES[2]);
    assert_eq!(world.asked(), [""; 0]);
    // What it had is lost with its server meanwhile.
    world.lose(conn);
    pause(&mut world, None);
    let answer = world.answer(client);
    assert!(answer.starts_with("error 2013"), "{answer}");
    assert!(world.is_closed(client));
}

#[test]
fn a_statement_that_is_held_has_its_own_time_and_its_client_may_go() {
    let mut world = TestWorker::with(&format!("default_query_timeout = 1000\n{TWO_SERVERS}"));
    let (queued, pinned, gone) = (world.log_in(), world.log_in(), world.log_in());
    world.run(pinned, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    pause(&mut world, Some(60_000));
    world.ask(queued, WRITES[0]);
    world.ask(pinned, WRITES[1]);
    world.ask(gone, WRITES[2]);
    world.leave(gone);
    world.pass_ms(1_100);
    for client in [queued, pinned] {
        let answer = world.answer(client);
        assert!(answer.starts_with("error 1907"), "{answer}");
    }
    pause(&mut world, None);
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn a_pause_holds_shared_reads_waiters_and_clients_that_go_straight_through() {
    let config = ONE_CONNECTION.replace("max_connections = 1", "max_connections = 2")
        + "[[user]]\nname = \"raw\"\npassword = \"raw\"\ndefault_hostgroup = 10\n\
           fast_forward = true\n";
    let mut world = TestWorker::with(&config);
    let (reader, waiter) = (world.log_in(), world.log_in());
    for _ in 0..40 {
        world.run(reader, "SELECT a FROM s.t WHERE a = 1", Reply::Rows(&["1"]));
    }
    let other = world.log_in();
    let third = world.log_in();
    world.ask(other, WRITES[0]);
    world.ask(third, WRITES[1]);
    world.ask(waiter, WRITES[2]);
    pause(&mut world, Some(60_000));
    world.ask(reader, "SELECT a FROM s.t WHERE a = 1");
    let raw = world.log_in_as(&Login { user: "raw", password: "raw", ..Login::default() });
    world.reply(WRITES[0], Reply::Ok);
    world.reply(WRITES[1], Reply::Ok);
    assert_eq!(world.asked(), [""; 0]);
    for client in [reader, waiter, raw] {
        assert_eq!(world.doing(client), PAUSED);
    }
    pause(&mut world, None);
    // It waits for its turn, now that there are connections to wait for.
    for text in world.asked() {
        world.reply(&text, Reply::Ok);
    }
    assert_eq!(world.doing(raw), "forwarding");
}
