use std::collections::BTreeMap;

use trunkline_protocol::packet::{ok::OkPacket, status};

use super::*;
use crate::tests::{OK, Reply, TestWorker, analysis};

const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const INSERT: &str = "INSERT INTO s.t VALUES (1)";
const ROLLED_BACK: &str = "error 1213: the transaction was rolled back, as its connection to \
                           127.0.0.1:330";

/// A worker, and a client that has begun a transaction.
fn in_transaction() -> (TestWorker, crate::ClientId) {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    (world, client)
}

/// Loses the connection of a client that has nothing under way.
fn lose_idle(world: &mut TestWorker) {
    let conn = world.conns()[0];
    world.lose(conn);
}

/// Loses the connection on which this text runs.
fn lose_with(world: &mut TestWorker, client: crate::ClientId, text: &str) -> String {
    world.ask(client, text);
    let conn = world.conn_asked(text);
    world.lose(conn);
    world.answer(client)
}

/// The client goes on, in no transaction and on another connection.
fn goes_on(world: &mut TestWorker, client: crate::ClientId) {
    assert!(!world.is_closed(client));
    assert!(!world.session(client).is_in_transaction());
    assert_eq!(world.run(client, INSERT, Reply::Ok), "ok");
}

#[test]
fn a_statement_that_is_lost_with_its_transaction_is_undone_and_the_session_goes_on() {
    for text in [INSERT, "SELECT a FROM s.t FOR UPDATE", "UPDATE s.t SET a = 2", "ROLLBACK"] {
        let (mut world, client) = in_transaction();
        let answer = lose_with(&mut world, client, text);
        assert!(answer.starts_with(ROLLED_BACK), "{text}: {answer}");
        goes_on(&mut world, client);
        assert_eq!(world.core().fx.stats.counters.transactions_rolled_back, 1);
    }
}

#[test]
fn a_transaction_that_is_lost_between_two_statements_is_told_once() {
    let (mut world, client) = in_transaction();
    world.run(client, INSERT, IN_TRANS);
    lose_idle(&mut world);
    assert_eq!(world.answer(client), "");
    let answer = world.answered(client, "COMMIT");
    assert!(answer.starts_with(ROLLED_BACK), "{answer}");
    assert_eq!(world.times_heard("COMMIT"), 0);
    goes_on(&mut world, client);
}

#[test]
fn who_rolls_back_what_was_lost_is_told_nothing() {
    let (mut world, client) = in_transaction();
    lose_idle(&mut world);
    assert_eq!(world.run(client, "rollback;", Reply::Ok), "ok");
    goes_on(&mut world, client);
}

#[test]
fn a_ping_does_not_hear_of_a_transaction() {
    let (mut world, client) = in_transaction();
    lose_idle(&mut world);
    world.send(client, &[0x0E]);
    assert_eq!(world.answer(client), "ok");
    let answer = world.answered(client, INSERT);
    assert!(answer.starts_with(ROLLED_BACK), "{answer}");
    goes_on(&mut world, client);
}

#[test]
fn what_may_have_ended_the_transaction_is_not_said_to_be_undone() {
    for text in ["COMMIT", "BEGIN", "CREATE TABLE s.x (a INT)", "CALL s.p()", "SELECT 1; COMMIT"] {
        let (mut world, client) = in_transaction();
        let answer = lose_with(&mut world, client, text);
        assert!(answer.starts_with("error 2013"), "{text}: {answer}");
        assert!(world.is_closed(client), "{text}");
    }
}

#[test]
fn behind_an_error_a_statement_may_have_run_outside_of_the_transaction() {
    let (mut world, client) = in_transaction();
    world.run(client, INSERT, Reply::Error(1206, "The total number of locks exceeds"));
    let answer = lose_with(&mut world, client, INSERT);
    assert!(answer.starts_with("error 2013"), "{answer}");
    assert!(world.is_closed(client));
}

#[test]
fn without_autocommit_an_error_is_no_doubt() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "SET autocommit = 0", Reply::Says(OkPacket { status: 0, ..OK }));
    world.run(client, INSERT, Reply::Says(OkPacket { status: status::IN_TRANS, ..OK }));
    world.run(client, INSERT, Reply::Error(1062, "Duplicate entry"));
    let answer = lose_with(&mut world, client, INSERT);
    assert!(answer.starts_with(ROLLED_BACK), "{answer}");
    assert!(!world.is_closed(client));
    world.ask(client, INSERT);
    let sets = world.heard().into_iter().filter(|text| text.contains("autocommit=0")).count();
    assert_eq!(sets, 1, "the next connection has no autocommit either");
}

#[test]
fn a_session_that_held_more_than_its_transaction_ends_and_is_told_what() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    world.run(client, "BEGIN", IN_TRANS);
    lose_idle(&mut world);
    let answer = world.answered(client, INSERT);
    assert!(answer.contains("it held the session's transaction, temporary_table"), "{answer}");
    assert!(world.is_closed(client));
}

#[test]
fn what_was_sent_ahead_for_the_transaction_does_not_run_outside_of_it() {
    let (mut world, client) = in_transaction();
    world.ask(client, INSERT);
    world.ask(client, "UPDATE s.t SET a = 2");
    let conn = world.conn_asked(INSERT);
    world.lose(conn);
    assert!(world.answer(client).starts_with("error 2013"));
    assert!(world.is_closed(client));
    assert_eq!(world.times_heard("UPDATE"), 0);
}

#[test]
fn texts_that_stay_inside_a_transaction_are_known() {
    for (text, expected) in [
        ("DELETE FROM t", true),
        ("SAVEPOINT a", true),
        ("ROLLBACK TO a", true),
        ("ROLLBACK", true),
        ("ROLLBACK AND CHAIN", false),
        ("ROLLBACK RELEASE", false),
        ("SELECT GET_LOCK('a', 1)", false),
        ("LOAD DATA INFILE 'f' INTO TABLE t", false),
        ("INSERT INTO t VALUES (1); DELETE FROM t", false),
        ("SET autocommit = 1", false),
        ("OPTIMIZE TABLE t", false),
    ] {
        assert_eq!(stays_inside(&analysis(text)), expected, "{text}");
    }
}

#[test]
fn the_manual_says_what_the_loss_of_each_pin_costs() {
    let page = include_str!("../../../../../docs/manual/limits.md");
    let (_, table) = page.split_once("| held there | what the client gets |").expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut said = BTreeMap::new();
    for row in rows {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let (pins, told) = (cells.next().expect("pins"), cells.next().expect("an outcome"));
        let cost = match told {
            told if told.starts_with("nothing") => Cost::Nothing,
            told if told.starts_with("1213") => Cost::Transaction,
            told if told.starts_with("2013") => Cost::Session,
            told => panic!("{told}"),
        };
        for pin in pins.split('`').skip(1).step_by(2) {
            said.insert(pin.to_owned(), cost);
        }
    }
    for pin in PinReason::ALL {
        assert_eq!(said.remove(pin.name()), Some(cost_of(pin)), "{}", pin.name());
    }
    assert!(said.is_empty(), "no pins: {said:?}");
}

#[test]
fn a_transaction_that_may_have_been_committed_is_not_said_to_be_rolled_back() {
    let failed = [
        ("CREATE TABLE s.t (a INT)", 1050),
        ("DROP TABLE s.nothing", 1051),
        ("GRANT SELECT ON s.t TO nobody", 1410),
        ("LOCK TABLES s.nothing READ", 1146),
        ("CALL s.p()", 1305),
        ("COMMIT; SELEC", 1064),
    ];
    for (text, code) in failed {
        let (mut world, client) = in_transaction();
        world.run(client, INSERT, IN_TRANS);
        world.run(client, text, Reply::Error(code, "It failed"));
        lose_idle(&mut world);
        let answer = world.answered(client, INSERT);
        assert!(answer.starts_with("error 2013"), "{text}: {answer}");
        assert!(world.is_closed(client), "{text}");
    }
    // What can't be parsed is not carried out, and what says so is told.
    for reply in [Reply::Error(1064, "You have an error in your SQL syntax"), IN_TRANS] {
        let (mut world, client) = in_transaction();
        world.run(client, "CREATE TABLE s.t (a INT", reply);
        lose_idle(&mut world);
        assert!(world.answered(client, INSERT).starts_with(ROLLED_BACK));
    }
}

#[test]
fn without_autocommit_another_transaction_does_not_say_what_became_of_the_one_before() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let open = || Reply::Says(OkPacket { status: status::IN_TRANS, ..OK });
    world.run(client, "SET autocommit = 0", Reply::Says(OkPacket { status: 0, ..OK }));
    world.run(client, INSERT, open());
    world.run(client, "CREATE TABLE s.t (a INT)", Reply::Error(1050, "Table 't' already exists"));
    world.run(client, INSERT, open());
    lose_idle(&mut world);
    assert!(world.answered(client, INSERT).starts_with("error 2013"));
    let client = world.log_in();
    world.run(client, "SET autocommit = 0", Reply::Says(OkPacket { status: 0, ..OK }));
    world.run(client, "CREATE TABLE s.t (a INT)", Reply::Error(1050, "Table 't' already exists"));
    world.run(client, "COMMIT", Reply::Says(OkPacket { status: 0, ..OK }));
    world.run(client, INSERT, open());
    let answer = lose_with(&mut world, client, INSERT);
    assert!(answer.starts_with(ROLLED_BACK), "{answer}");
}
