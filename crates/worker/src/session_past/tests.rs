use trunkline_catalog::{Hidden, Name, Object};
use trunkline_protocol::error::ErrorKind;
use trunkline_sql::{analysis::Depends, recall::Recalled};
use trunkline_topology::HostgroupId;

use super::*;
use crate::ClientId;
use crate::tests::{ONE_CONNECTION, Reply, TestWorker, tells_gtid};

const HERE: (ConnId, u64) = (ConnId { index: 0, generation: 1 }, 3);

#[test]
fn a_gtid_is_read_from_its_three_parts() {
    assert_eq!(reported_gtid(&tells_gtid("1-22-333")), Some((1, 22, 333)));
}

#[test]
fn what_is_no_gtid_is_not_read_as_one() {
    for text in ["", "1-2", "a-b-c", "1-2-", "4294967296-1-1"] {
        assert_eq!(reported_gtid(&tells_gtid(text)), None, "{text}");
    }
    assert_eq!(reported_gtid(&Outcome::default()), None);
}

#[test]
fn a_session_in_which_nothing_ran_has_nothing_to_be_asked_for() {
    let past = LastStatement::default();
    assert!(past.is_plain(false));
    assert!(!past.has_conditions());
    assert_eq!(past.recalled(&Recalled::default()).row_count, Some(0));
}

#[test]
fn what_no_reply_told_is_no_plain_past() {
    assert!(!LastStatement::default().is_plain(true), "the number of rows found");
    let known = LastStatement { found_rows: Some(1), ..LastStatement::default() };
    assert!(known.is_plain(true));
    let awaited = LastStatement { awaits_insert_id: Some(HERE.0), ..LastStatement::default() };
    assert!(!awaited.is_plain(false));
}

#[test]
fn an_error_of_the_proxys_own_is_what_is_asked_for_next() {
    let mut past = LastStatement::default();
    past.conditions.warnings = 5;
    past.failed(&ErrorKind::UnknownCommand.says("Unknown command"));
    let told = past.recalled(&Recalled::default());
    assert_eq!(
        (told.row_count, told.warning_count, told.error_count),
        (Some(-1), Some(1), Some(1))
    );
}

#[test]
fn what_the_proxy_carried_out_itself_leaves_its_row_count() {
    let mut past = LastStatement::default();
    past.failed(&ErrorKind::UnknownCommand.says("Unknown command"));
    past.succeeded(0);
    let told = past.recalled(&Recalled::default());
    assert_eq!((told.row_count, told.warning_count, told.error_count), (Some(0), Some(0), Some(0)));
    assert!(past.is_row_count_apart);
}

#[test]
fn conditions_are_told_until_they_are_shown() {
    let mut past = LastStatement::default();
    past.conditions.warnings = 2;
    past.conditions.error = Some(Box::new(ErrorKind::UnknownCommand.says("x").into()));
    assert_eq!(past.told_conditions(), 3);
    past.has_shown();
    assert_eq!(past.told_conditions(), 0);
    assert!(past.has_conditions(), "they can be asked for still");
}

#[test]
fn a_reset_leaves_the_rows_found_and_nothing_else() {
    let mut past = LastStatement {
        found_rows: Some(7),
        found_conn: Some(HERE),
        last_gtid: (1, 2, 3),
        ..LastStatement::default()
    };
    past.conditions.warnings = 2;
    past.counts_rows_apart(9);
    let after = past.after_reset();
    assert_eq!((after.found_rows, after.found_conn), (Some(7), Some(HERE)));
    assert_eq!(
        (after.recalled(&Recalled::default()).row_count, after.last_gtid),
        (Some(0), (0, 0, 0))
    );
    assert!(!after.has_conditions());
}

#[test]
fn a_session_that_moves_leaves_its_connections_behind() {
    let past = LastStatement { found_rows: Some(7), found_conn: Some(HERE), ..Default::default() };
    let past = past.elsewhere();
    assert_eq!((past.found_rows, past.found_conn), (Some(7), None));
}

#[test]
fn only_who_reads_what_is_fetched_waits_for_it() {
    let awaited = LastStatement { awaits_found_rows: Some(HERE.0), ..LastStatement::default() };
    assert!(awaited.awaits(Depends::FOUND_ROWS, false));
    assert!(!awaited.awaits(Depends::ROW_COUNT, false));
    assert!(awaited.awaits(Depends::empty(), true), "code may read anything");
}

#[test]
fn what_is_lost_is_what_new_sessions_have() {
    assert_eq!(LastStatement::default().recalled(&Recalled::default()).found_rows, Some(0));
}

#[test]
fn the_last_gtid_is_the_one_that_was_learnt_last() {
    let mut past = LastStatement::default();
    assert!(past.is_last_gtid((0, 0, 0)));
    past.learn_gtid((0, 1, 5));
    assert!(past.is_last_gtid((0, 1, 5)) && !past.is_last_gtid((0, 1, 4)));
}

#[test]
fn a_row_count_is_told_though_its_connection_has_served_others() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    let three = trunkline_protocol::packet::ok::OkPacket { affected_rows: 3, ..crate::tests::OK };
    world.run(one, "DELETE FROM s.t", Reply::Says(three));
    world.run(other, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.ask(one, "SELECT ROW_COUNT()");
    let asked = world.asked();
    assert!(asked[0].contains('3') && !asked[0].contains("SELECT ROW_COUNT()"), "{asked:?}");
}

/// What a server is sent for a text that asks for the row count, 3, of the statement before, on
/// the connection that ran it.
fn sent_behind_three_rows(text: &str) -> Vec<String> {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let one = world.log_in();
    let three = trunkline_protocol::packet::ok::OkPacket { affected_rows: 3, ..crate::tests::OK };
    world.run(one, "DELETE FROM s.t", Reply::Says(three));
    world.ask(one, text);
    world.asked()
}

#[test]
fn a_row_count_is_told_where_the_proxy_may_run_something_of_its_own_before() {
    for text in ["SELECT ROW_COUNT(), s.f(2)", "SET @q = ROW_COUNT(); SELECT @q, ROW_COUNT()"] {
        let asked = sent_behind_three_rows(text);
        let sent = asked.last().expect("it is sent");
        assert!(sent.contains("CAST('00000000000000000003' AS SIGNED)"), "{asked:?}");
    }
    let asked = sent_behind_three_rows("SELECT 1; SELECT ROW_COUNT()");
    assert!(asked.last().is_some_and(|text| text == "SELECT 1; SELECT ROW_COUNT()"), "{asked:?}");
}

#[test]
fn an_insert_id_is_told_though_its_connection_has_served_others() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    let id = trunkline_protocol::packet::ok::OkPacket { last_insert_id: 41, ..crate::tests::OK };
    world.run(one, "INSERT INTO s.t (a) VALUES (1)", Reply::Says(id));
    world.run(other, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.session(one).last_insert_id, 41);
    world.ask(one, "SELECT LAST_INSERT_ID()");
    assert_eq!(
        world.times_heard("SET @@SESSION.last_insert_id=IF((SELECT 1 FROM (SELECT 1) AS t),41,"),
        1
    );
}

/// How often the server is told an id before an `INSERT` of a session whose own is 70, behind
/// another session's that has just generated 41 there.
fn told_before(text: &str) -> usize {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    let told =
        |id| trunkline_protocol::packet::ok::OkPacket { last_insert_id: id, ..crate::tests::OK };
    world.run(one, "INSERT INTO s.t (a) VALUES (1)", Reply::Says(told(70)));
    world.run(other, "INSERT INTO s.u (a) VALUES (1)", Reply::Says(told(41)));
    world.ask(one, text);
    world.times_heard("SET @@SESSION.last_insert_id=IF((SELECT 1 FROM (SELECT 1) AS t),70,")
        + world.times_heard("SET @@SESSION.last_insert_id=70")
}

#[test]
fn who_gives_an_id_that_another_session_has_left_keeps_its_own() {
    for text in [
        "INSERT INTO s.m (id, a) VALUES (41, 2)",
        "REPLACE INTO s.m (id, a) VALUES (2, 41)",
        "INSERT INTO s.m SET id = 41",
        "INSERT INTO s.m (a) VALUES (2) ON DUPLICATE KEY UPDATE a = a + 1",
    ] {
        assert_eq!(told_before(text), 1, "{text}");
    }
    for text in ["INSERT INTO s.m (id, a) VALUES (43, 2)", "INSERT INTO s.m (a) VALUES ('y')"] {
        assert_eq!(told_before(text), 0, "{text}");
    }
}

#[test]
fn a_write_waits_for_its_id_where_a_servers_limit_may_end_what_tells_it() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    let told =
        |id| trunkline_protocol::packet::ok::OkPacket { last_insert_id: id, ..crate::tests::OK };
    let (generates, gives) = ("INSERT INTO s.u (a) VALUES (1)", "INSERT INTO s.m SET id = 41");
    world.run(one, generates, Reply::Says(told(70)));
    world.run(other, generates, Reply::Says(told(41)));
    assert_eq!(world.run(one, gives, Reply::Ok), "ok");
    // The server has accepted the same text.
    world.run(other, generates, Reply::Says(told(41)));
    world.is_automatic = false;
    world.ask(one, gives);
    let [tells] = &world.asked()[..] else { panic!("the write has not waited") };
    assert!(
        tells.contains("@@SESSION.last_insert_id=IF((SELECT 1 FROM (SELECT 1) AS t),70,"),
        "{tells}"
    );
    world.reply(&tells.clone(), Reply::Ok);
    world.reply(gives, Reply::Ok);
    assert_eq!(world.answer(one), "ok");
}

#[test]
fn a_statement_whose_found_rows_could_not_be_told_gets_no_answer() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "SELECT a FROM s.t", Reply::Rows(&["1", "2", "3"]));
    world.run(other, "SELECT a FROM s.t", Reply::Rows(&["1"]));
    world.is_automatic = false;
    world.ask(one, "SELECT s.f()");
    let [tells_id] = &world.asked()[..] else { panic!("it has not waited") };
    world.reply(&tells_id.clone(), Reply::Ok);
    let asked = world.asked();
    let [tells_found, .., calls] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(calls, "SELECT s.f()");
    world.reply(tells_found, Reply::Error(1317, "Query execution was interrupted"));
    let answer = world.answer(one);
    assert!(answer.starts_with("error 2013") && answer.contains("interrupted"), "{answer}");
}

#[test]
fn in_an_xa_transaction_what_gives_found_rows_may_be_refused() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "SELECT a FROM s.t", Reply::Rows(&["1", "2", "3"]));
    world.run(other, "SELECT a FROM s.t", Reply::Rows(&["1"]));
    world.run(one, "XA START 'x'", Reply::Ok);
    world.run(one, "XA END 'x'", Reply::Ok);
    world.is_automatic = false;
    world.ask(one, "DO s.f()");
    while let Some(next) = world.asked().first().cloned() {
        let is_refused = next.starts_with("SELECT");
        let refusal = Reply::Error(1399, "XAER_RMFAIL");
        world.reply(&next, if is_refused { refusal } else { Reply::Ok });
    }
    assert_eq!(world.answer(one), "ok");
}

#[test]
fn what_gives_a_session_its_found_rows_is_not_subject_to_its_own_limits() {
    for (setting, is_freed) in [
        ("max_join_size = 1", true),
        ("max_statement_time = 0.001", true),
        ("sort_buffer_size = 65537", false),
    ] {
        let mut world = TestWorker::with(ONE_CONNECTION);
        let (one, other) = (world.log_in(), world.log_in());
        world.run(one, "SELECT a FROM s.t", Reply::Rows(&["1", "2", "3"]));
        world.run(one, &format!("SET {setting}"), Reply::Ok);
        world.run(other, "SELECT a FROM s.t", Reply::Rows(&["1"]));
        world.is_automatic = false;
        world.ask(one, "SELECT s.f()");
        let mut asked = world.asked();
        while let [tells] = &asked[..] {
            world.reply(&tells.clone(), Reply::Ok);
            asked = world.asked();
        }
        let counts = asked.iter().filter(|text| text.contains("SELECT 1 FROM (SELECT 1) AS t"));
        let counts: Vec<_> = counts.filter(|text| !text.starts_with("SET @@")).collect();
        let lead = "SET STATEMENT max_join_size=18446744073709551615,max_statement_time=0 FOR ";
        assert!(!counts.is_empty(), "{setting}: {asked:?}");
        assert!(counts.iter().all(|text| text.starts_with(lead) == is_freed), "{asked:?}");
    }
}

#[test]
fn a_trigger_that_refuses_a_row_leaves_its_id_to_be_asked_for() {
    for (hidden, times) in [(Hidden::GIVES_VALUES, 1), (Hidden::empty(), 0)] {
        let mut world = TestWorker::with(ONE_CONNECTION);
        let name = Name { group: HostgroupId(10), schema: (*b"s").into(), table: (*b"m").into() };
        let object = Object { writing: hidden, ..Object::PLAIN_TABLE };
        world.core().env.shared.catalog().store(name, Some(object), u64::MAX);
        let one = world.log_in();
        world.ask(one, "INSERT INTO s.m (a) VALUES ('y')");
        assert_eq!(world.times_heard("SET @@SESSION.last_insert_id="), times, "{hidden:?}");
    }
}

#[test]
fn who_has_given_an_id_asks_for_its_own_before_it_gives_one_that_another_session_has_left() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    let told =
        |id| trunkline_protocol::packet::ok::OkPacket { last_insert_id: id, ..crate::tests::OK };
    world.run(other, "INSERT INTO s.u (a) VALUES (1)", Reply::Says(told(41)));
    world.run(one, "INSERT INTO s.m (id) VALUES (7)", Reply::Says(told(7)));
    let asks = "SET @@SESSION.last_insert_id=LAST_INSERT_ID()";
    assert_eq!(world.times_heard(asks), 0);
    world.ask(one, "INSERT INTO s.m (id) VALUES (41)");
    assert_eq!(world.times_heard(asks), 1);
}

#[test]
fn a_clients_number_is_its_connection_id() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT CONNECTION_ID()");
    let asked = world.asked();
    assert!(asked[0].starts_with("SELECT CAST(1 AS UNSIGNED)"), "{asked:?}");
}

#[test]
fn warnings_that_were_lost_are_told_as_lost() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let warns = trunkline_protocol::packet::ok::OkPacket { warnings: 2, ..crate::tests::OK };
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Says(warns));
    world.pass_ms(2_500);
    let conn = world.conns()[0];
    world.lose(conn);
    assert_eq!(world.answered(client, "SHOW WARNINGS"), "rows Warning");
}

/// A session whose `FOUND_ROWS()` is being fetched for it, and that waits to read it.
fn waits_for_found_rows(settings: &str) -> (TestWorker, ClientId) {
    let two = ONE_CONNECTION.replace("max_connections = 1", "max_connections = 2");
    let mut world = TestWorker::with(&format!("{settings}{two}"));
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "INSERT INTO s.t SELECT a FROM s.u", Reply::Ok);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    assert_eq!(world.asked().first().map(String::as_str), Some("SELECT FOUND_ROWS()"));
    world.ask(one, "SELECT FOUND_ROWS()");
    assert_eq!(world.asked().iter().filter(|text| text.contains("FOUND_ROWS")).count(), 1);
    (world, one)
}

#[test]
fn what_is_not_told_in_time_is_lost() {
    let (mut world, client) = waits_for_found_rows("");
    world.pass_ms(9_990);
    assert_eq!(world.times_heard("SELECT CAST("), 0);
    world.pass_ms(20);
    let told = "SELECT CAST('00000000000000000000' AS SIGNED)";
    assert_eq!(world.times_heard(told), 1, "{:?}", world.heard());
    assert_eq!(world.core().fx.stats.counters.traces_late, 1);
    // What comes late is nobody's.
    world.reply("SELECT FOUND_ROWS()", Reply::Rows(&["7"]));
    assert_eq!(world.session(client).past.found_rows, None);
}

#[test]
fn a_statement_that_waits_for_the_past_may_run_out_of_its_own_time() {
    let (mut world, client) = waits_for_found_rows("default_query_timeout = 1000\n");
    world.pass_ms(1_010);
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1907"), "{answer}");
    assert_eq!(world.core().fx.stats.counters.traces_late, 0);
}
