use std::sync::Arc;

use trunkline_protocol::{
    capability::Capabilities, codec::frame::put_payload, command::execute::LAST_STMT_ID,
    response::ResponseShape,
};

use super::{ServerStmts, client_stmts::LongData, put_statement};
use crate::{
    ClientId,
    clients::client::Purpose,
    outbox::{Buffers, Outbox, Way},
    tests::{MARIADB, MYSQL, ONE_CONNECTION, Reply, Setup, TWO_SERVERS, TestWorker},
};

/// A client prepares a text; the server gives it this id.
fn prepare(world: &mut TestWorker, client: ClientId, text: &str, server_id: u32) {
    world.send(client, &[b"\x16", text.as_bytes()].concat());
    world.reply(&format!("PREPARE {text}"), Reply::Prepared(server_id, 0));
}

fn execute(world: &mut TestWorker, client: ClientId, stmt_id: u32) {
    let payload = [&[0x17][..], &stmt_id.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
    world.send(client, &payload);
}

const TEXT: &str = "INSERT INTO s.t VALUES (1)";

#[test]
fn long_query_attributes_of_an_execution_are_not_copied() {
    let mut world = TestWorker::of(Setup { version: MYSQL, ..Setup::default() });
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    let raw: Arc<[u8]> = vec![b'a'; 100_000].into();
    let (mut statement, entry) = {
        let mut frames = Vec::new();
        put_payload(&mut frames, 0, &[0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0]);
        let core = world.core();
        let statement = core.statement(&frames, ResponseShape::Query, Purpose::Execute);
        (statement, world.session(client).prepared.get(1).expect("a statement").entry.clone())
    };
    statement.prepared.stmt_id = Some(1);
    statement.command.attributes = Some(Arc::clone(&raw));
    let mut stmts = ServerStmts::default();
    stmts.insert(&entry, 78);
    let (mut buffers, mut outbox) = (Buffers::default(), Outbox::default());
    let way = Way { outbox: &mut outbox, buffers: &mut buffers };
    put_statement(way, &mut statement, world.session(client), &mut stmts, true);
    assert_eq!(outbox.len(), 4 + 5 + raw.len());
    assert!(outbox.held() < 1_000, "they were copied");
    assert_eq!(outbox.pending()[4..], [0x17, 78, 0, 0, 0]);
}

#[test]
fn a_client_gets_an_id_of_its_own_for_what_a_server_prepared() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    let got = world.got(client);
    assert_eq!(got.get(4..9), Some(&[0, 1, 0, 0, 0][..]));
}

#[test]
fn an_execution_names_the_servers_statement() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    execute(&mut world, client, 1);
    world.reply("EXECUTE 77", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_text_that_is_prepared_on_a_connection_is_not_prepared_there_again() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    prepare(&mut world, one, TEXT, 77);
    world.send(other, &[b"\x16", TEXT.as_bytes()].concat());
    // A server says of each text anew what is in it.
    world.reply(&format!("PREPARE {TEXT}"), Reply::Prepared(78, 0));
    for client in [one, other] {
        execute(&mut world, client, 1);
        let asked = world.asked();
        assert!(asked[0].starts_with("EXECUTE"), "{asked:?}");
        world.reply(&asked[0], Reply::Ok);
    }
    assert_eq!(world.times_heard("PREPARE"), 2);
}

#[test]
fn a_statement_is_prepared_anew_where_its_connection_has_gone() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    let conn = world.conns()[0];
    world.lose(conn);
    execute(&mut world, client, 1);
    world.reply(&format!("PREPARE {TEXT}"), Reply::Prepared(5, 0));
    world.reply("EXECUTE 5", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn what_a_server_can_not_prepare_its_client_has_not() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x16SELEC");
    world.reply("PREPARE SELEC", Reply::Error(1064, "You have an error in your SQL syntax"));
    assert!(world.answer(client).starts_with("error 1064"));
    assert_eq!(world.session(client).prepared.len(), 0);
}

#[test]
fn an_id_that_a_client_does_not_have_is_unknown() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    execute(&mut world, client, 5);
    let expected =
        "error 1243: Unknown prepared statement handler (5) given to mysqld_stmt_execute";
    assert_eq!(world.answer(client), expected);
}

#[test]
fn another_clients_statement_is_unknown() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    prepare(&mut world, one, TEXT, 77);
    execute(&mut world, other, 1);
    assert!(world.answer(other).starts_with("error 1243"));
}

#[test]
fn a_statement_that_was_closed_is_unknown() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    world.send(client, b"\x19\x01\0\0\0");
    assert_eq!(world.answer(client), "");
    execute(&mut world, client, 1);
    assert!(world.answer(client).starts_with("error 1243"));
}

#[test]
fn a_client_has_so_many_statements_and_no_more() {
    let mut world = TestWorker::with(&format!("max_stmts_per_client = 1\n{TWO_SERVERS}"));
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    world.send(client, b"\x16SELECT 2");
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1461") && answer.contains("current value: 1"), "{answer}");
}

#[test]
fn a_kill_can_not_be_prepared() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x16KILL ?");
    assert!(world.answer(client).starts_with("error 1295"));
    assert_eq!(world.opened(), 0);
}

#[test]
fn a_statement_without_a_cursor_has_no_rows_to_fetch() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    world.send(client, b"\x1C\x01\0\0\0\x0A\0\0\0");
    assert_eq!(world.answer(client), "error 1421: The statement (1) has no open cursor");
}

#[test]
fn a_reset_of_a_statement_is_answered_without_a_server() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    world.send(client, b"\x1A\x01\0\0\0");
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn minus_one_is_the_statement_prepared_last() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    execute(&mut world, client, LAST_STMT_ID);
    assert_eq!(world.asked(), ["EXECUTE 77"]);
}

#[test]
fn a_session_that_is_reset_has_no_statements_and_no_id_comes_again() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    world.got(client);
    world.send(client, b"\x1F");
    world.answer(client);
    execute(&mut world, client, 1);
    assert!(world.answer(client).starts_with("error 1243"));
    assert_eq!(world.session(client).prepared.next_id(), 2);
}

fn long(parameters: &[u16]) -> LongData {
    let mut long = LongData::default();
    for parameter in parameters {
        let head = [9, 0, 0, 0, 0x18, 1, 0, 0, 0];
        long.add(&[&head[..], &parameter.to_le_bytes(), b"xy"].concat(), None);
    }
    long
}

#[test]
fn long_data_is_of_the_parameters_that_its_pieces_name() {
    let long = long(&[0, 300, 0]);
    assert!(long.has(0) && long.has(300));
    assert!(!long.has(1) && !long.has(44));
}

#[test]
fn long_data_without_a_piece_is_of_no_parameter() {
    assert!(!long(&[]).has(0));
}

#[test]
fn statements_at_rest_may_move_with_their_session() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    let stmts = &mut world.session(client).prepared;
    assert!(stmts.is_mobile());
    stmts.add_long_data(1, 9, b"frames", None, usize::MAX);
    assert!(!stmts.is_mobile(), "something was sent ahead");
}

#[test]
fn a_statement_with_an_open_cursor_does_not_move() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    let conn = world.conns()[0];
    let stmts = &mut world.session(client).prepared;
    stmts.get_mut(1).expect("a statement").cursor = Some(conn);
    assert!(!stmts.is_mobile());
}

#[test]
fn a_copy_of_one_statement_is_alone_and_without_long_data() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    prepare(&mut world, client, TEXT, 77);
    prepare(&mut world, client, "INSERT INTO s.t VALUES (2)", 78);
    let stmts = &mut world.session(client).prepared;
    let copy = super::ClientStmts::copy_of(stmts.get(2).expect("a statement")).expect("a copy");
    assert_eq!((copy.len(), copy.resolve(2), copy.resolve(1)), (1, Some(2), None));
    stmts.add_long_data(2, 9, b"frames", None, usize::MAX);
    assert!(super::ClientStmts::copy_of(stmts.get(2).expect("a statement")).is_none());
}

#[test]
fn an_execution_goes_where_its_schema_is_and_not_where_its_sessions_is_by_then() {
    let fast = "[[server]]\nhostgroup = 30\naddress = \"127.0.0.1:3330\"\n\
                [[fast_routing]]\nusername = \"app\"\nschemaname = \"s\"\n\
                destination_hostgroup = 10\n\
                [[fast_routing]]\nusername = \"app\"\nschemaname = \"other\"\n\
                destination_hostgroup = 30\n";
    let mut world = TestWorker::with(&format!("{TWO_SERVERS}{fast}"));
    let client = world.log_in();
    world.run(client, "USE s", Reply::Ok);
    let text = "INSERT INTO t VALUES (1)";
    world.send(client, &[b"\x16", text.as_bytes()].concat());
    world.reply(&format!("PREPARE {text}"), Reply::Prepared(77, 0));
    world.got(client);
    world.run(client, "USE other", Reply::Ok);
    execute(&mut world, client, 1);
    let asked = world.asked();
    let at = world.address_asked(&asked[0]).to_owned();
    assert!(!at.contains("3330"), "{asked:?} of {at}");
}

const NUMBER: &[u8] = &[3, 0];
const TEXT_TYPE: &[u8] = &[0xFD, 0];

/// The types that a statement of one parameter has behind an execution with a number, for many rows
/// or one, that fails with this error; `before` it was run with a text or not at all.
fn types_after(is_bulk: bool, error: u16, before: bool) -> Option<Vec<u8>> {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.session(client).login.capabilities.insert(Capabilities::STMT_BULK_OPERATIONS);
    let text = "INSERT INTO s.t VALUES (?)";
    world.send(client, &[b"\x16", text.as_bytes()].concat());
    world.reply(&format!("PREPARE {text}"), Reply::Prepared(77, 1));
    if before {
        world.send(client, b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\xFD\0\x01a");
        world.reply("EXECUTE 77", Reply::Ok);
    }
    let payload: &[u8] = match is_bulk {
        true => b"\xFA\x01\0\0\0\x80\0\x03\0\0\x05\0\0\0",
        false => b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x05\0\0\0",
    };
    world.send(client, payload);
    // A server's statement has had other types.
    if before {
        world.reply(&format!("PREPARE {text}"), Reply::Prepared(78, 1));
    }
    let asked = world.asked();
    world.reply(&asked[0], Reply::Error(error, "no"));
    let stmt = world.session(client).prepared.get(1).expect("a statement");
    stmt.types.as_deref().map(<[u8]>::to_vec)
}

#[test]
fn types_are_a_statements_if_its_server_has_read_them() {
    for (is_bulk, error, are_read) in [
        (true, 1295, false),
        (true, 1835, false),
        (true, 1210, true),
        (true, 1062, true),
        (false, 1295, true),
        (false, 1835, false),
        (false, 1210, true),
    ] {
        let what = format!("bulk: {is_bulk}, error {error}");
        let expected = are_read.then_some(NUMBER);
        assert_eq!(types_after(is_bulk, error, false).as_deref(), expected, "{what}");
        let expected = if are_read { NUMBER } else { TEXT_TYPE };
        assert_eq!(types_after(is_bulk, error, true).as_deref(), Some(expected), "{what}");
    }
}

/// Whether a connection is reset before another session gets it, behind one that has prepared this
/// in vain or with success.
fn is_reset_behind(version: &'static str, text: &str, succeeds: bool) -> bool {
    let config = ONE_CONNECTION;
    let mut world = TestWorker::of(Setup { config, version, ..Setup::default() });
    let (one, other) = (world.log_in(), world.log_in());
    world.send(one, &[b"\x16", text.as_bytes()].concat());
    let reply = match succeeds {
        true => Reply::Prepared(77, 1),
        false => Reply::Error(1054, "Unknown column"),
    };
    world.reply(&format!("PREPARE {text}"), reply);
    world.pass_ms(2_500);
    world.ask(other, "INSERT INTO s.t VALUES (1)");
    assert_ne!(world.asked(), [""; 0], "it has the connection");
    world.times_heard("RESET") > 0
}

#[test]
fn user_variables_that_a_mysql_makes_for_a_prepared_statement_are_no_other_sessions() {
    for text in ["SET @a = ?", "SELECT @a := ?", "SET time_zone = ?, @a = 1"] {
        assert!(is_reset_behind(MYSQL, text, true), "{text}");
        assert!(is_reset_behind(MYSQL, text, false), "{text}, in vain");
    }
    for text in ["SET time_zone = ?", "INSERT INTO s.t VALUES (?)"] {
        assert!(!is_reset_behind(MYSQL, text, true), "{text}");
    }
    assert!(!is_reset_behind(MARIADB, "SET @a = ?", true));
}

#[test]
fn a_text_is_counted_once_whoever_has_it() {
    let mut world = TestWorker::new();
    let (one, other) = (world.log_in(), world.log_in());
    let counts = |world: &TestWorker| {
        let texts = world.worker.report(trunkline_stats::DigestQuery::NONE).texts;
        (texts.of_clients(), texts.of_servers(), texts.all())
    };
    assert_eq!(counts(&world), (0, 0, 0));
    prepare(&mut world, one, TEXT, 77);
    prepare(&mut world, other, TEXT, 78);
    world.got(one);
    prepare(&mut world, one, "DO 1", 79);
    assert_eq!(counts(&world), (2, 2, 2));
    world.lose(world.conns()[0]);
    assert_eq!(counts(&world), (2, 0, 2));
    world.send(one, b"\x19\x01\0\0\0");
    world.send(one, b"\x19\x02\0\0\0");
    assert_eq!(counts(&world), (1, 0, 1), "the other one has it still");
}
