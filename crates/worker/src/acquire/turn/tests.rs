use trunkline_protocol::{
    Capabilities,
    packet::{ok::OkPacket, status},
};

use super::*;
use crate::{
    ClientId,
    tests::{Login, OK, Reply, TestWorker},
};

const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const TENANTS: &str = "tenant_by = \"user\"\nserver_concurrency = 1\nlazy_transactions = \"off\"\n";

fn write(nth: u32) -> String {
    format!("INSERT INTO s.t VALUES ({nth})")
}

const SERVER: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
[[user]]
name = "other"
password = "other"
default_hostgroup = 10
"#;

fn world(settings: &str, sections: &str) -> TestWorker {
    TestWorker::with(&format!("{settings}\n{sections}\n{SERVER}"))
}

/// What the server has yet to answer.
fn asked(world: &TestWorker) -> Vec<String> {
    let mut asked = world.asked();
    asked.sort();
    asked
}

fn other(world: &mut TestWorker) -> ClientId {
    world.log_in_as(&Login { user: "other", password: "other", ..Login::default() })
}

#[test]
fn a_server_runs_no_more_than_it_may_and_the_rest_wait_in_turn() {
    let mut world = world("server_concurrency = 2", "");
    let clients = [(); 4].map(|()| world.log_in());
    for (nth, client) in (0..).zip(clients) {
        world.ask(client, &write(nth));
    }
    assert_eq!(asked(&world), [write(0), write(1)]);
    world.reply(&write(1), Reply::Ok);
    assert_eq!(asked(&world), [write(0), write(2)]);
    world.reply(&write(0), Reply::Ok);
    assert_eq!(asked(&world), [write(2), write(3)]);
}

#[test]
fn the_tenant_that_has_used_less_goes_before_those_who_came_earlier() {
    let mut world = world(TENANTS, "");
    let flood = [(); 4].map(|()| world.log_in());
    let late = other(&mut world);
    // While a connection comes up for whoever is next, the place is not left empty.
    assert_eq!(world.run(late, &write(8), Reply::Ok), "ok");
    for (nth, client) in (0..).zip(flood) {
        world.ask(client, &write(nth));
    }
    world.pass_ms(200);
    world.ask(late, &write(9));
    world.reply(&write(0), Reply::Ok);
    assert_eq!(asked(&world), [write(9)], "it is of the other tenant");
    world.reply(&write(9), Reply::Ok);
    assert_eq!(world.answer(late), "ok");
    for nth in 1..4 {
        assert_eq!(asked(&world), [write(nth)]);
        world.reply(&write(nth), Reply::Ok);
    }
}

#[test]
fn a_ceiling_keeps_places_free_for_others_and_keeps_nobody_else() {
    let config = "tenant_by = \"user\"\nserver_concurrency = 4";
    let mut world = world(config, "[[tenant]]\nname = \"app\"\nshare_max = 50");
    let flood = [(); 4].map(|()| world.log_in());
    let late = other(&mut world);
    for (nth, client) in (0..).zip(flood) {
        world.ask(client, &write(nth));
    }
    assert_eq!(asked(&world), [write(0), write(1)]);
    world.ask(late, &write(9));
    assert_eq!(asked(&world), [write(0), write(1), write(9)]);
    world.reply(&write(0), Reply::Ok);
    assert_eq!(asked(&world), [write(1), write(2), write(9)]);
}

#[test]
fn a_transaction_goes_on_however_much_runs_and_is_counted() {
    let mut world = world(TENANTS, "");
    let (holder, late) = (world.log_in(), other(&mut world));
    assert_eq!(world.run(holder, "BEGIN", IN_TRANS), "ok");
    world.ask(late, &write(9));
    assert_eq!(asked(&world), [write(9)], "one that does nothing takes no place");
    world.ask(holder, &write(1));
    assert_eq!(asked(&world), [write(1), write(9)], "others may wait for what it has locked");
    world.reply(&write(9), Reply::Ok);
    world.ask(late, &write(8));
    assert_eq!(asked(&world), [write(1)]);
    world.reply(&write(1), IN_TRANS);
    assert_eq!(asked(&world), [write(8)], "there is room while it does nothing");
    world.reply(&write(8), Reply::Ok);
    assert_eq!(world.answer(holder), "ok");
    assert_eq!(world.run(holder, "COMMIT", Reply::Ok), "ok");
}

#[test]
fn what_is_lost_takes_no_place() {
    let mut world = world(TENANTS, "");
    let (one, late) = (world.log_in(), other(&mut world));
    world.ask(one, &write(1));
    world.ask(late, &write(9));
    let conn = world.conn_asked(&write(1));
    world.lose(conn);
    world.pass_ms(20);
    assert_eq!(asked(&world), [write(9)]);
    world.leave(late);
    let report = world.core().servers.pool.slots().map(|(_, slot)| slot.concurrency()).next();
    assert!(report.flatten().is_some_and(|(max, taken)| max == 1 && taken <= 1));
}

#[test]
fn what_cannot_begin_in_time_is_told_so_and_was_not_sent() {
    let mut world = world(TENANTS, "");
    let (flood, late) = (world.log_in(), other(&mut world));
    world.ask(flood, &write(1));
    world.ask(late, "SELECT /*+ MAX_EXECUTION_TIME(50) */ a FROM s.t");
    world.pass_ms(40);
    assert_eq!(world.answer(late), "");
    world.pass_ms(20);
    let answer = world.answer(late);
    assert!(answer.starts_with("error 3024"), "{answer}");
    assert!(answer.contains("for tenant other"), "{answer}");
    assert!(answer.ends_with("nothing was executed, so it can be tried again"), "{answer}");
    assert_eq!(asked(&world), [write(1)]);
    assert_eq!(world.core().fx.stats.counters.statements_late, 1);
    world.reply(&write(1), Reply::Ok);
    assert_eq!(world.run(late, &write(2), Reply::Ok), "ok");
}

#[test]
fn a_query_attribute_says_by_when_any_statement_has_to_begin() {
    let mut world = world(TENANTS, "");
    let (flood, late) = (world.log_in(), other(&mut world));
    world.session(late).login.capabilities.insert(Capabilities::QUERY_ATTRIBUTES);
    world.ask(flood, &write(1));
    // One attribute: a name, and a number of two bytes.
    let block = b"\x03\x01\x01\0\x01\x02\x00\x12max_execution_time\x32\0";
    world.send(late, &[&block[..], write(2).as_bytes()].concat());
    world.pass_ms(40);
    assert_eq!(world.answer(late), "");
    world.pass_ms(20);
    let answer = world.answer(late);
    assert!(answer.starts_with("error 3024"), "{answer}");
    assert_eq!(asked(&world), [write(1)]);
}

#[test]
fn what_would_wait_for_too_long_is_refused_at_once() {
    let mut world = world(TENANTS, "");
    let clients = [(); 4].map(|()| world.log_in());
    for (nth, client) in (0..).zip(clients) {
        world.ask(client, &write(nth));
    }
    world.pass_ms(400);
    world.reply(&write(0), Reply::Ok);
    let late = world.log_in();
    world.ask(late, "SELECT /*+ MAX_EXECUTION_TIME(300) */ a FROM s.t");
    let answer = world.answer(late);
    assert!(answer.starts_with("error 3024"), "{answer}");
    assert!(answer.contains("the wait for hostgroup 10 is about 800 ms"), "{answer}");
}

#[test]
fn rules_and_schemas_name_tenants() {
    let rule = "[[rule]]\nid = 7\nactive = true\nmatch_pattern = \"reports\"\napply = true\n\
                attributes = '{\"tenant\":\"reports\"}'";
    for (scope, sections, names) in [("rule", rule, ["", "reports"]), ("schema", "", ["", "s"])] {
        let mut world = world(&format!("tenant_by = \"{scope}\""), sections);
        let client = world.log_in();
        world.run(client, "USE s", Reply::Ok);
        world.run(client, "INSERT INTO reports VALUES (1)", Reply::Ok);
        let tenants = &world.core().servers.sharing.tenants;
        let mut rows: Vec<_> = tenants.rows().map(|(name, _, sums)| (name, sums)).collect();
        rows.sort_by_key(|(name, _)| *name);
        let known: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, names, "{scope}");
        assert_eq!(rows.last().map(|(_, sums)| sums.statements), Some(1), "{scope}");
    }
}

#[test]
fn a_reload_changes_what_is_entitled_to_what_and_forgets_nothing() {
    let mut world = world("tenant_by = \"user\"\nserver_concurrency = 1", "");
    let (flood, late) = (world.log_in(), other(&mut world));
    world.ask(flood, &write(1));
    world.ask(late, &write(9));
    let next = crate::tests::snapshot(SERVER);
    world.happens(|worker| worker.apply_snapshot(next));
    world.pass_ms(20);
    assert_eq!(asked(&world), [write(1), write(9)], "nothing is limited any more");
    world.reply(&write(1), Reply::Ok);
    world.reply(&write(9), Reply::Ok);
    assert_eq!((world.answer(flood), world.answer(late)), ("ok".into(), "ok".into()));
}

#[test]
fn times_are_read_in_either_servers_way() {
    assert_eq!(read_ms(b"1500"), Some(1_500));
    assert_eq!(read_ms(b"'x'"), None);
    assert_eq!(read_seconds(b"0"), None);
    assert_eq!(read_seconds(b"0.25"), Some(250));
    assert_eq!(read_seconds(b".5"), Some(500));
    assert_eq!(read_seconds(b"2"), Some(2_000));
    assert_eq!(read_seconds(b"1.23456"), Some(1_234));
    assert_eq!(read_seconds(b"99999999999999999999"), None);
    assert_eq!(read_seconds(b"1e3"), None);
}
