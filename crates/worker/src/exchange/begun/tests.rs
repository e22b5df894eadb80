use trunkline_protocol::{
    packet::{ok::OkPacket, status},
    response::Outcome,
};

use crate::{
    ClientId,
    tests::{MYSQL, OK, ONE_CONNECTION, Reply, Setup, TestWorker, WRITER_AND_READER},
};

const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const BEGIN: &str = "START TRANSACTION";
const WRITE: &str = "INSERT INTO s.t VALUES (1)";
const READ: &str = "SELECT a FROM s.t";

fn lazy(config: &str) -> TestWorker {
    TestWorker::with(&format!("lazy_transactions = \"begin\"\n{config}"))
}

/// A transaction of one write, so that its server is known to take a `BEGIN`.
fn prove(world: &mut TestWorker, client: ClientId) {
    assert_eq!(world.answered(client, "BEGIN"), "ok");
    world.ask(client, WRITE);
    assert_eq!(world.asked(), [BEGIN], "what may write waits for the first answer");
    world.reply(BEGIN, IN_TRANS);
    world.reply(WRITE, IN_TRANS);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
}

#[test]
fn a_begin_goes_out_with_the_first_statement_behind_it() {
    let mut world = lazy(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    prove(&mut world, one);
    assert_eq!(world.answered(one, "BEGIN"), "ok");
    assert_eq!(world.asked(), [""; 0]);
    // Nobody has the connection meanwhile.
    assert_eq!(world.run(other, WRITE, Reply::Ok), "ok");
    world.ask(one, WRITE);
    assert_eq!(world.asked(), [BEGIN, WRITE]);
    world.reply(BEGIN, IN_TRANS);
    assert_eq!(world.answer(one), "", "the answer to the BEGIN was given before");
    world.reply(WRITE, IN_TRANS);
    assert_eq!(world.answer(one), "ok");
    world.ask(other, WRITE);
    assert_eq!(world.asked(), [""; 0], "the connection is held");
    assert_eq!(world.run(one, "COMMIT", Reply::Ok), "ok");
    assert_eq!(world.asked(), [WRITE]);
}

#[test]
fn a_read_need_not_wait_for_the_answer_and_shares_no_connection() {
    let mut world = lazy(&format!("pipeline_depth_max = 64\n{ONE_CONNECTION}"));
    let client = world.log_in();
    for _ in 0..8 {
        world.run(client, READ, Reply::Rows(&["1"]));
    }
    assert_eq!(world.answered(client, "BEGIN"), "ok");
    world.ask(client, READ);
    assert_eq!(world.asked(), [BEGIN, READ]);
}

#[test]
fn what_ends_a_transaction_of_which_no_server_knows_stays_here() {
    let mut world = lazy(ONE_CONNECTION);
    let client = world.log_in();
    for text in ["BEGIN", "COMMIT", "START TRANSACTION READ ONLY", "ROLLBACK", "COMMIT"] {
        assert_eq!(world.answered(client, text), "ok", "{text}");
    }
    for text in ["SET autocommit=0", "ROLLBACK", "SET autocommit=1"] {
        assert_eq!(world.answered(client, text), "ok", "{text}");
    }
    assert_eq!((world.opened(), world.asked()), (0, Vec::new()));
    assert_eq!(world.core().fx.stats.counters.transactions_ended_unsent, 4);
}

#[test]
fn the_first_statements_error_leaves_the_transaction_open() {
    let mut world = lazy(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    prove(&mut world, one);
    world.answered(one, "BEGIN");
    world.ask(one, WRITE);
    world.reply(BEGIN, IN_TRANS);
    world.reply(WRITE, Reply::Error(1062, "Duplicate entry"));
    assert_eq!(world.answer(one), "error 1062: Duplicate entry");
    world.ask(other, WRITE);
    assert_eq!(world.asked(), [""; 0], "the connection is held");
    assert_eq!(world.run(one, "COMMIT", Reply::Ok), "ok");
}

#[test]
fn a_begin_that_is_refused_answers_the_statement_and_ends_the_session() {
    for said in [WRITE, READ] {
        let mut world = lazy(ONE_CONNECTION);
        let client = world.log_in();
        world.answered(client, "START TRANSACTION READ WRITE");
        world.ask(client, said);
        world.reply("START TRANSACTION READ WRITE", Reply::Error(1290, "read-only"));
        assert_eq!(world.answer(client), "error 1290: read-only");
        assert!(world.is_closed(client));
        assert!(said == READ || world.times_heard(WRITE) == 0, "it was not sent");
    }
}

#[test]
fn a_write_waits_for_a_begin_that_a_node_of_galera_may_hold_and_refuse() {
    for (setting, waits) in [
        ("wsrep_sync_wait = 1", true),
        ("wsrep_sync_wait = 6", false),
        ("wsrep_causal_reads = ON", true),
        ("max_statement_time = 5", true),
        ("sort_buffer_size = 65537", false),
    ] {
        let mut world = lazy(ONE_CONNECTION);
        let client = world.log_in();
        assert_eq!(world.run(client, &format!("SET SESSION {setting}"), Reply::Ok), "ok");
        prove(&mut world, client);
        assert_eq!(world.answered(client, "BEGIN"), "ok");
        world.ask(client, WRITE);
        let asked = world.asked();
        assert_eq!(asked.last().map(String::as_str) == Some(BEGIN), waits, "{setting}: {asked:?}");
    }
}

#[test]
fn a_server_says_that_it_holds_the_begin_of_new_sessions() {
    for (value, waits) in [(&b"0"[..], false), (b"1", true), (b"15", true), (b"14", false)] {
        let mut world = lazy(ONE_CONNECTION);
        let client = world.log_in();
        prove(&mut world, client);
        let (name, len) = (b"wsrep_sync_wait", u8::try_from(value.len()).expect("short"));
        let changes = [&[0, 17 + len, 15][..], name, &[len], value].concat();
        let outcome = Outcome { changes, ..Outcome::default() };
        world.core().env.trackers_are_on(&outcome);
        assert_eq!(world.answered(client, "BEGIN"), "ok");
        world.ask(client, WRITE);
        let asked: &[_] = if waits { &[BEGIN] } else { &[BEGIN, WRITE] };
        assert_eq!(world.asked(), asked, "{value:?}");
    }
}

#[test]
fn a_write_behind_a_begin_that_is_refused_after_all_may_be_done() {
    let mut world = lazy(ONE_CONNECTION);
    let client = world.log_in();
    prove(&mut world, client);
    world.answered(client, "BEGIN");
    world.ask(client, WRITE);
    world.reply(BEGIN, Reply::Error(1317, "Query execution was interrupted"));
    assert!(world.answer(client).starts_with("error 2013"), "nobody knows");
    assert!(world.is_closed(client));
}

#[test]
fn what_is_lost_with_its_connection_begins_again_elsewhere() {
    let mut world = lazy(ONE_CONNECTION);
    let client = world.log_in();
    world.answered(client, "BEGIN");
    world.ask(client, READ);
    let lost = world.conn_asked(BEGIN);
    world.lose(lost);
    assert_eq!(world.asked(), [BEGIN, READ]);
    assert_ne!(world.conn_asked(BEGIN), lost);
    // A write that waits for the answer to its BEGIN has not been sent.
    let mut world = lazy(ONE_CONNECTION);
    let client = world.log_in();
    world.answered(client, "BEGIN");
    world.ask(client, WRITE);
    let lost = world.conn_asked(BEGIN);
    world.lose(lost);
    world.reply(BEGIN, IN_TRANS);
    world.reply(WRITE, IN_TRANS);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_write_that_was_sent_and_is_lost_ends_its_session() {
    let mut world = lazy(ONE_CONNECTION);
    let client = world.log_in();
    prove(&mut world, client);
    world.answered(client, "BEGIN");
    world.ask(client, WRITE);
    let lost = world.conn_asked(BEGIN);
    world.lose(lost);
    assert!(world.answer(client).starts_with("error 2013"));
    assert!(world.is_closed(client));
    assert_eq!(world.times_heard(WRITE), 2, "the one before, and once");
}

#[test]
fn what_is_held_or_set_otherwise_is_sent_at_once() {
    for before in [
        "CREATE TEMPORARY TABLE s.x (a INT)",
        "SET completion_type = 1",
        "SET session_track_transaction_info = 'STATE'",
        "SET SESSION TRANSACTION READ ONLY",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "LOCK TABLES s.t READ",
    ] {
        for text in ["BEGIN", "COMMIT"] {
            let config = format!("lazy_transactions = \"begin\"\n{ONE_CONNECTION}");
            let setup = Setup { config: &config, version: MYSQL, ..Setup::default() };
            let mut world = TestWorker::of(setup);
            let client = world.log_in();
            world.run(client, before, Reply::Ok);
            world.ask(client, text);
            assert_eq!(world.asked(), [text], "{before}");
        }
    }
}

#[test]
fn a_transaction_that_only_reads_goes_to_a_reader_unless_its_first_statement_may_act() {
    const BEGIN_READ: &str = "START TRANSACTION READ ONLY";
    let mut world = lazy(WRITER_AND_READER);
    let client = world.log_in();
    world.ask(client, WRITE);
    let writer = world.address_asked(WRITE).to_owned();
    for (said, is_writer) in [("SELECT 1", false), ("SELECT GET_LOCK('a', 1)", true)] {
        let mut world = lazy(WRITER_AND_READER);
        let client = world.log_in();
        world.answered(client, BEGIN_READ);
        world.ask(client, said);
        assert_eq!(world.address_asked(BEGIN_READ) == writer, is_writer, "{said}");
    }
}

#[test]
fn what_a_server_may_refuse_is_answered_by_a_server() {
    let mut world = lazy(ONE_CONNECTION);
    let client = world.log_in();
    prove(&mut world, client);
    let syntax = || Reply::Error(1064, "You have an error in your SQL syntax");
    for text in ["START TRANSACTION READ ONLY,", "COMMIT TRANSACTION", "ROLLBACK TRANSACTION"] {
        assert!(world.run(client, text, syntax()).starts_with("error 1064"), "{text}");
        assert!(!world.session(client).is_in_any_transaction(), "{text}");
    }
    // Until then, MariaDB goes on to show the error.
    world.run(client, WRITE, Reply::Ok);
    assert_eq!(world.answered(client, "BEGIN"), "ok");
    world.ask(client, "ROLLBACK TRANSACTION");
    assert_eq!(world.asked(), [BEGIN, "ROLLBACK TRANSACTION"]);
    world.reply(BEGIN, IN_TRANS);
    world.reply("ROLLBACK TRANSACTION", syntax());
    assert!(world.answer(client).starts_with("error 1064"));
    assert!(world.session(client).is_in_transaction(), "it is open as before");
    world.run(client, WRITE, IN_TRANS);
    assert_eq!(world.run(client, "ROLLBACK", Reply::Ok), "ok");
}
