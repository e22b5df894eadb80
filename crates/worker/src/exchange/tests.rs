use trunkline_protocol::{
    codec::frame::put_payload,
    packet::{ok::OkPacket, status},
    response::{Outcome, ServerError},
};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_sql::{
    analysis::{Analysis, analyse_knowing},
    token::Modes,
};

use super::{
    hidden::looks_at_nothing,
    leaving::may_leave,
    pins::{follow_status, is_own_set, may_have_run, sets_next_transaction},
    send::put_own_query,
    synchronise::put_init_db,
};
use crate::{
    Action,
    session_past::FoundRows,
    tests::{MYSQL, OK, ONE_CONNECTION, Reply, Setup, TWO_SERVERS, TestWorker, analysis},
};

const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const WARNS: Reply<'_> = Reply::Says(OkPacket { warnings: 1, ..OK });

#[test]
fn rows_go_to_the_client_that_asked() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    assert_eq!(world.run(one, "SELECT a FROM s.t", Reply::Rows(&["x", "y"])), "rows x, y");
    assert_eq!(world.answer(other), "");
}

#[test]
fn a_servers_error_is_the_clients_and_its_session_goes_on() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let answer = world.run(client, "SELECT f", Reply::Error(1054, "Unknown column 'f'"));
    assert_eq!(answer, "error 1054: Unknown column 'f'");
    assert_eq!(world.run(client, "SELECT 1", Reply::Rows(&["1"])), "rows 1");
}

#[test]
fn a_connection_serves_one_session_behind_another() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.run(other, "INSERT INTO s.t VALUES (2)", Reply::Ok);
    assert_eq!(world.opened(), 1);
}

#[test]
fn a_transaction_keeps_its_connection_from_others() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "BEGIN", IN_TRANS);
    world.run(other, "INSERT INTO s.t VALUES (2)", Reply::Ok);
    assert_eq!(world.opened(), 2);
}

#[test]
fn the_end_of_a_transaction_gives_its_connection_back() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "BEGIN", IN_TRANS);
    world.run(one, "COMMIT", Reply::Ok);
    world.run(other, "INSERT INTO s.t VALUES (2)", Reply::Ok);
    assert_eq!(world.opened(), 1);
}

#[test]
fn a_sessions_setting_goes_before_its_statement_on_another_connection() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "SET time_zone = '+01:00'", Reply::Ok);
    world.run(other, "BEGIN", IN_TRANS);
    world.ask(one, "INSERT INTO s.t VALUES (1)");
    let is_set = |text: &&str| text.contains("time_zone='+01:00'");
    assert_eq!(world.heard().into_iter().filter(is_set).count(), 1);
}

#[test]
fn a_setting_is_taken_back_before_another_session_has_the_connection() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "SET time_zone = '+01:00'", Reply::Ok);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    let is_default = |text: &&str| text.contains("time_zone=DEFAULT");
    assert_eq!(world.heard().into_iter().filter(is_default).count(), 1);
    assert_eq!(world.opened(), 1);
}

#[test]
fn a_set_that_was_accepted_is_not_sent_again() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "SET time_zone = '+01:00'", Reply::Ok);
    assert_eq!(world.answered(client, "SET time_zone = '+01:00'"), "ok");
}

#[test]
fn a_write_goes_with_a_set_that_its_server_can_not_refuse_any_more() {
    for (setting, waits) in [
        ("sort_buffer_size = 65537", false),
        ("sql_mode = ''", false),
        // Its table may be gone, or the right to set it.
        ("innodb_ft_user_stopword_table = 's/t'", true),
    ] {
        let setup = Setup { config: ONE_CONNECTION, version: MYSQL, ..Setup::default() };
        let mut world = TestWorker::of(setup);
        let (one, other) = (world.log_in(), world.log_in());
        world.run(one, &format!("SET {setting}, time_zone = '+05:00'"), Reply::Ok);
        world.run(other, "SET time_zone = '-03:00'", Reply::Ok);
        let write = "INSERT INTO s.t VALUES (1)";
        for client in [one, other, one, other] {
            assert_eq!(world.run(client, write, Reply::Ok), "ok");
        }
        world.is_automatic = false;
        world.ask(one, write);
        let asked = world.asked();
        let goes = asked.last().map(String::as_str) == Some(write);
        assert_eq!(goes, !waits, "{setting}: {asked:?}");
    }
}

#[test]
fn a_set_that_changes_something_back_is_sent() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    for zone in ["+01:00", "+02:00", "+01:00"] {
        let text = format!("SET time_zone = '{zone}'");
        assert_eq!(world.run(client, &text, Reply::Ok), "ok");
    }
}

#[test]
fn a_temporary_table_stays_with_its_session_and_is_gone_behind_it() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    assert_eq!(world.asked(), [""; 0]);
    world.leave(one);
    assert_eq!(world.times_heard("RESET"), 1);
    assert_eq!(world.asked(), ["INSERT INTO s.t VALUES (1)"]);
}

#[test]
fn a_read_whose_connection_is_lost_is_sent_again() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT a FROM s.t");
    let conn = world.conn_asked("SELECT a FROM s.t");
    world.lose(conn);
    assert_eq!(world.answer(client), "");
    world.reply("SELECT a FROM s.t", Reply::Rows(&["x"]));
    assert_eq!(world.answer(client), "rows x");
}

#[test]
fn a_write_whose_connection_is_lost_is_not_sent_again() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    let conn = world.conn_asked("INSERT INTO s.t VALUES (1)");
    world.lose(conn);
    assert!(world.answer(client).starts_with("error 2013: Lost connection"));
    assert_eq!(world.times_heard("INSERT"), 1);
    assert!(!world.is_closed(client));
}

#[test]
fn retries_have_an_end() {
    let mut world = TestWorker::with(&format!("query_retries_on_failure = 1\n{ONE_CONNECTION}"));
    let client = world.log_in();
    world.ask(client, "SELECT a FROM s.t");
    for _ in 0..2 {
        let conn = world.conn_asked("SELECT a FROM s.t");
        world.lose(conn);
    }
    assert!(world.answer(client).starts_with("error 2013"));
}

#[test]
fn an_answer_that_can_not_be_read_ends_its_connection() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Payloads(&[b""]));
    assert!(world.answer(client).starts_with("error 2013"));
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 1);
}

#[test]
fn an_error_behind_which_a_server_closes_keeps_its_connection_from_others() {
    let mut world = TestWorker::new();
    let (client, other) = (world.log_in(), world.log_in());
    world.run(client, "SELECT a FROM s.t", Reply::Error(1053, "Server shutdown in progress"));
    let conn = world.conns()[0];
    world.pass_ms(2_500);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    assert_ne!(world.conn_asked("INSERT INTO s.t VALUES (1)"), conn);
}

#[test]
fn issue_16_a_procedure_may_signal_what_a_lost_connection_says() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "CALL s.p()", Reply::Error(1927, "Connection was killed"));
    assert!(!world.is_closed(client));
    let conn = world.conns()[0];
    world.ask(client, "SELECT a FROM s.t");
    assert_eq!(world.conn_asked("SELECT a FROM s.t"), conn);
    world.reply("SELECT a FROM s.t", Reply::Rows(&["1"]));
    world.answer(client);
    // If it was the server's own, the end of the connection follows.
    world.run(client, "CALL s.p()", Reply::Error(1927, "Connection was killed"));
    world.lose(conn);
    assert!(world.answered(client, "SELECT a FROM s.t").starts_with("error 2013"));
    assert!(world.is_closed(client));
}

#[test]
fn commit_release_ends_the_session_behind_its_answer() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    assert_eq!(world.run(client, "COMMIT RELEASE", Reply::Ok), "ok");
    assert!(world.is_closed(client));
}

#[test]
fn a_client_that_goes_leaves_no_answer_to_the_next() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(one, "SELECT a FROM s.t");
    world.leave(one);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    world.reply("SELECT a FROM s.t", Reply::Rows(&["not yours"]));
    assert_eq!(world.answer(other), "");
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    assert_eq!(world.answer(other), "ok");
}

#[test]
fn warnings_are_fetched_before_another_session_has_the_connection() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let (one, other) = (world.log_in(), world.log_in());
    world.run(one, "INSERT INTO s.t VALUES (1)", WARNS);
    world.pass_ms(3_000);
    world.ask(other, "INSERT INTO s.t VALUES (2)");
    assert_eq!(world.asked()[0], "SHOW WARNINGS");
}

#[test]
fn a_query_of_the_proxys_own_is_one_packet() {
    let mut out = Vec::new();
    put_own_query(&mut out, b"DO 1", false);
    assert_eq!(out, b"\x05\0\0\0\x03DO 1");
}

#[test]
fn a_query_of_the_proxys_own_has_no_attributes_where_there_is_room_for_them() {
    let mut out = Vec::new();
    put_own_query(&mut out, b"DO 1", true);
    assert_eq!(out, b"\x07\0\0\0\x03\0\x01DO 1");
}

#[test]
fn a_schema_is_chosen_by_its_name_as_it_is() {
    let mut out = Vec::new();
    put_init_db(&mut out, b"sh`op");
    assert_eq!(out, b"\x06\0\0\0\x02sh`op");
}

fn own_set(text: &str) -> bool {
    is_own_set(&analysis(text))
}

#[test]
fn what_a_session_sets_for_itself_is_its_own() {
    assert!(own_set("SET @@SESSION.sql_mode = '', time_zone = '+01:00', @a = 1"));
}

#[test]
fn what_is_set_for_others_is_not_a_sessions_own() {
    assert!(!own_set("SET GLOBAL sql_mode = ''"));
    assert!(!own_set("SET PERSIST sql_mode = ''"));
}

#[test]
fn a_default_is_the_servers_business() {
    assert!(!own_set("SET sql_mode = DEFAULT"));
    assert!(!own_set("SET NAMES DEFAULT"));
    assert!(own_set("SET NAMES latin1"));
}

#[test]
fn a_password_is_not_a_sessions_own() {
    assert!(!own_set("SET PASSWORD = 'x'"));
}

#[test]
fn a_set_among_others_is_none_by_itself() {
    assert!(!own_set("SET @a = 1; SET @b = 2"));
    assert!(!own_set("SET @a = ROW_COUNT()"));
}

fn is_for_next(text: &str) -> bool {
    let mut world = TestWorker::new();
    let statement = world.statement(text);
    sets_next_transaction(&statement)
}

#[test]
fn what_is_set_for_the_next_transaction_is_told_from_what_stays() {
    assert!(is_for_next("SET TRANSACTION READ ONLY"));
    assert!(is_for_next("SET @@transaction_isolation = 'SERIALIZABLE'"));
    assert!(!is_for_next("SET SESSION TRANSACTION READ ONLY"));
    assert!(!is_for_next("SET @@SESSION.transaction_isolation = 'SERIALIZABLE'"));
    assert!(!is_for_next("SELECT 1"));
}

fn error(code: u16) -> ServerError {
    ServerError { code, sqlstate: *b"HY000", message: Box::default() }
}

#[test]
fn a_statement_whose_names_are_wrong_has_not_run() {
    for code in [1044, 1054, 1064, 1146] {
        assert!(!may_have_run(&error(code)), "{code}");
    }
}

#[test]
fn a_statement_that_failed_on_its_data_may_have_run() {
    for code in [1062, 1205, 1644] {
        assert!(may_have_run(&error(code)), "{code}");
    }
}

fn pins_after(reason: PinReason, text: Option<&Analysis>, status: u16) -> Pins {
    let mut pins = Pins::default();
    pins.pin(reason);
    let outcome = Outcome { status: Some(status), ..Outcome::default() };
    follow_status(&mut pins, text, false, &outcome);
    pins
}

#[test]
fn a_transaction_that_has_begun_has_taken_over_what_was_set_for_it() {
    let next = PinReason::NextTransaction;
    assert!(pins_after(next, None, status::IN_TRANS).is_empty());
    assert!(pins_after(next, None, status::AUTOCOMMIT).has(next));
}

#[test]
fn an_xa_transaction_that_is_prepared_holds_no_more_where_the_server_lets_go() {
    let prepares = analysis("XA PREPARE 'x'");
    assert!(pins_after(PinReason::Xa, Some(&prepares), status::AUTOCOMMIT).is_empty());
    assert!(pins_after(PinReason::Xa, Some(&prepares), status::IN_TRANS).has(PinReason::Xa));
    assert!(pins_after(PinReason::Xa, None, status::AUTOCOMMIT).has(PinReason::Xa));
}

#[test]
fn an_error_says_nothing_of_what_holds() {
    let mut pins = Pins::default();
    pins.pin(PinReason::NextTransaction);
    let status = Some(status::IN_TRANS);
    let outcome = Outcome { status, error: Some(error(1062)), ..Outcome::default() };
    follow_status(&mut pins, None, false, &outcome);
    assert!(pins.has(PinReason::NextTransaction));
}

#[test]
fn a_plain_read_looks_at_nothing_of_its_sessions_past() {
    let looks = |text: &str, found_rows| !looks_at_nothing(&analysis(text), false, found_rows);
    assert!(!looks("SELECT a FROM t", FoundRows::Answer));
    assert!(looks("SELECT LAST_INSERT_ID()", FoundRows::Answer));
    assert!(looks("CALL p()", FoundRows::Untold));
    assert!(looks("SELECT a FROM t", FoundRows::Untold));
}

#[test]
fn behind_a_deadlock_nobody_knows_whether_a_transaction_is_open() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    for (code, text) in [(1020, "Record has changed since last read"), (1213, "Deadlock found")] {
        world.run(client, "BEGIN", IN_TRANS);
        world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Error(code, text));
        assert!(world.session(client).leases[0].is_in_doubt);
    }
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Error(1062, "Duplicate entry"));
    assert!(world.session(client).leases[0].is_in_doubt, "that says nothing of it");
    world.run(client, "INSERT INTO s.t VALUES (2)", IN_TRANS);
    assert!(!world.session(client).leases[0].is_in_doubt);
}

#[test]
fn what_may_end_a_transaction_and_go_on_need_not_run_where_it_is() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    let conn = world.session(client).leases[0].conn;
    let mut leaves = |text: &str| {
        let statement = world.statement(text);
        may_leave(world.session(client), &statement, conn)
    };
    for text in [
        "BEGIN",
        "COMMIT AND CHAIN",
        "COMMIT; INSERT INTO s.t VALUES (1)",
        "SET autocommit = 1; INSERT INTO s.t VALUES (1)",
        "EXECUTE s",
        "CALL p()",
        "CREATE TABLE x (a INT)",
    ] {
        assert!(leaves(text), "{text}");
    }
    for text in ["INSERT INTO s.t VALUES (1)", "COMMIT", "ROLLBACK", "SET autocommit = 1"] {
        assert!(!leaves(text), "{text}");
    }
    world.session(client).leases[0].is_in_doubt = true;
    let statement = world.statement("INSERT INTO s.t VALUES (1)");
    assert!(may_leave(world.session(client), &statement, conn), "it may be over");
}

#[test]
fn nothing_runs_that_was_sent_ahead_behind_a_refused_kill() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let mut bytes = Vec::new();
    for text in ["BEGIN; KILL QUERY 999999", "INSERT INTO s.t VALUES (1)"] {
        put_payload(&mut bytes, 0, &[b"\x03", text.as_bytes()].concat());
    }
    world.happens(|worker| worker.client_read(client, &bytes));
    assert!(world.answer(client).starts_with("error 1235"));
    assert!(world.is_closed(client) && world.asked().is_empty());
}

#[test]
fn the_end_of_a_transaction_releases_its_session_as_completion_type_says() {
    use crate::tests::{MARIADB, MYSQL, Setup, TWO_SERVERS};
    for (version, text, is_over) in [
        (MYSQL, "COMMIT", true),
        (MARIADB, "ROLLBACK", true),
        (MYSQL, "COMMIT /* release */", true),
        (MARIADB, "ROLLBACK -- release", true),
        (MYSQL, "COMMIT NO RELEASE", false),
        (MARIADB, "COMMIT AND CHAIN", false),
        (MARIADB, "ROLLBACK NO /* */ RELEASE", false),
    ] {
        let config = TWO_SERVERS;
        let mut world = TestWorker::of(Setup { config, version, ..Setup::default() });
        let client = world.log_in();
        world.run(client, "SET completion_type = 2", Reply::Ok);
        assert_eq!(world.run(client, text, Reply::Ok), "ok", "{text}");
        assert_eq!(world.is_closed(client), is_over, "{text}");
    }
    for value in ["'RELEASE'", "\"release\"", "+2", "02"] {
        let config = TWO_SERVERS;
        let mut world = TestWorker::of(Setup { config, version: MYSQL, ..Setup::default() });
        let client = world.log_in();
        world.run(client, &format!("SET completion_type = {value}"), Reply::Ok);
        world.run(client, "COMMIT", Reply::Ok);
        assert!(world.is_closed(client), "{value}");
    }
}

/// A read of a table.
const READ: &str = "SELECT a FROM s.t WHERE b = 1";

/// A read is answered so often, so that it is known how long it takes.
fn learn(world: &mut TestWorker, client: crate::ClientId) {
    for _ in 0..8 {
        assert_eq!(world.run(client, READ, Reply::Rows(&["1"])), "rows 1");
    }
}

#[test]
fn a_retry_looks_whether_its_connection_lives() {
    let two = ONE_CONNECTION.replace("max_connections = 1", "max_connections = 2");
    let mut world = TestWorker::with(&format!("query_retries_on_failure = 1\n{two}"));
    let (one, other) = (world.log_in(), world.log_in());
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    world.ask(one, READ);
    let (rests, lost) = (world.conn_asked("INSERT INTO s.t VALUES (1)"), world.conn_asked(READ));
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.actions();
    world.lose(lost);
    assert_eq!(world.conn_asked(READ), rests);
    let has_looked = |it: &Action| matches!(it, Action::Probe(id) if *id == rests);
    assert!(world.actions().iter().any(has_looked));
}

#[test]
fn a_read_on_a_server_that_has_gone_silent_is_sent_to_another() {
    let mut world = TestWorker::with(&format!("query_retries_on_failure = 1\n{TWO_SERVERS}"));
    let client = world.log_in();
    learn(&mut world, client);
    world.ask(client, READ);
    let silent = world.address_asked(READ).to_owned();
    world.pass_ms(300);
    assert_eq!(world.address_asked(READ), silent, "it may still answer");
    world.pass_ms(400);
    assert_ne!(world.address_asked(READ), silent);
    assert_eq!(world.core().fx.stats.counters.silent_connections_left, 1);
    world.reply(READ, Reply::Rows(&["1"]));
    assert_eq!(world.answer(client), "rows 1");
}

#[test]
fn what_may_write_or_is_held_waits_for_a_silent_server() {
    let mut world = TestWorker::with(&format!("query_retries_on_failure = 1\n{TWO_SERVERS}"));
    let (one, other) = (world.log_in(), world.log_in());
    learn(&mut world, one);
    world.ask(one, "INSERT INTO s.t VALUES (1)");
    world.run(other, "BEGIN", IN_TRANS);
    world.ask(other, READ);
    world.pass_ms(3_000);
    assert_eq!(world.core().fx.stats.counters.silent_connections_left, 0);
    assert_eq!((world.answer(one), world.answer(other)), (String::new(), String::new()));
}

#[test]
fn a_declared_function_of_another_schema_holds_nothing() {
    // Without `CLIENT_DEPRECATE_EOF` MariaDB 10.11 says only that something has changed: the
    // schema, for the call.
    let changed = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
    let routines = "e.fr".parse().expect("a list");
    let declared = analyse_knowing(b"SELECT e.fr()", &Modes::default(), &routines);
    let outcome = Outcome { status: Some(changed), ..Outcome::default() };
    let unknown = analysis("SELECT a FROM v");
    for (text, reads, is_held) in
        [(&declared, true, false), (&declared, false, true), (&unknown, true, true)]
    {
        let mut pins = Pins::default();
        follow_status(&mut pins, Some(text), reads, &outcome);
        assert_eq!(pins.has(PinReason::ServerState), is_held);
    }
}
