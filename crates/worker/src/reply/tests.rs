use trunkline_protocol::{
    capability::Capabilities,
    codec::frame::put_payload,
    packet::status,
    response::{ReplyFormat, write::put_text_result},
};

use crate::{
    Action, Side,
    tests::{CLIENT_CAPABILITIES, Login, ONE_CONNECTION, Reply, TWO_SERVERS, TestWorker},
};

fn held_back(world: &mut TestWorker, conn: crate::ConnId) -> bool {
    let is_it = |it: &Action| matches!(it, Action::Pause(Side::Server(id)) if *id == conn);
    world.actions().iter().any(is_it)
}

fn goes_on(world: &mut TestWorker, conn: crate::ConnId) -> bool {
    let is_it = |it: &Action| matches!(it, Action::Resume(Side::Server(id)) if *id == conn);
    world.actions().iter().any(is_it)
}

/// The beginning of an answer: so many rows of 30 kB.
fn rows_without_end(count: usize) -> Vec<u8> {
    let rows = vec![vec![Some(vec![b'x'; 30_000])]; count];
    let mut bytes = Vec::new();
    put_text_result(&mut bytes, 1, ReplyFormat::PLAIN, status::AUTOCOMMIT, &["c"], &rows);
    // The last packet says that there are no more.
    bytes.truncate(bytes.len() - 9);
    bytes
}

#[test]
fn each_client_gets_its_own_framing() {
    let mut world = TestWorker::new();
    let capabilities = CLIENT_CAPABILITIES.union(Capabilities::DEPRECATE_EOF);
    let plain = world.log_in();
    let other = world.log_in_as(&Login { capabilities, ..Login::default() });
    for client in [plain, other] {
        let text = "INSERT INTO s.t VALUES (1) RETURNING a";
        assert_eq!(world.run(client, text, Reply::Rows(&["x", "y"])), "rows x, y");
    }
    assert_eq!(world.opened(), 1);
}

#[test]
fn an_answer_that_comes_in_parts_goes_on_in_parts() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(1)");
    let conn = world.conn_asked("SELECT SLEEP(1)");
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 1, &[1]);
    world.say(conn, &bytes[..3]);
    assert_eq!(world.got(client), b"");
    world.say(conn, &bytes[3..]);
    assert_eq!(world.got(client), bytes);
}

#[test]
fn a_server_whose_client_takes_nothing_is_not_read_until_it_does() {
    let mut world = TestWorker::with(&format!("client_buffer_max = 65536\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(1)");
    let conn = world.conn_asked("SELECT SLEEP(1)");
    world.actions();
    world.stall(client);
    world.say(conn, &rows_without_end(3));
    assert!(held_back(&mut world, conn));
    world.take_bytes(client);
    assert!(goes_on(&mut world, conn));
    assert_eq!(world.core().fx.stats.counters.servers_held_back, 1);
}

#[test]
fn a_server_that_says_why_it_ends_an_idle_connection_is_heard() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let conn = world.conns()[0];
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 0, b"\xFF\x1D\x04#08S01Server shutdown in progress");
    world.say(conn, &bytes);
    assert!(world.core().servers.conns.get(conn).is_none());
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 0);
}

/// What a client is told whose write has met the reason why its server ends the connection. It
/// comes in parts of these lengths, each at most what is left.
fn told_of_farewell(lens: &[usize]) -> String {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "INSERT INTO s.t VALUES (1)");
    let conn = world.conn_asked("INSERT INTO s.t VALUES (1)");
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 0, b"\xFF\x87\x07#70100Connection was killed");
    for len in lens {
        let part: Vec<u8> = bytes.drain(..bytes.len().min(*len)).collect();
        world.say(conn, &part);
    }
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 0, "{lens:?}");
    world.answer(client)
}

#[test]
fn a_server_that_says_why_it_ends_a_connection_is_heard_behind_a_command_on_its_way() {
    let answer = told_of_farewell(&[usize::MAX]);
    assert!(answer.starts_with("error 2013") && answer.contains("1927 Connection"), "{answer}");
}

#[test]
fn a_server_that_ends_a_connection_is_heard_though_its_reason_comes_in_parts() {
    for len in 1..5 {
        let answer = told_of_farewell(&[len, usize::MAX]);
        assert!(answer.contains("the server ended the connection"), "{len}: {answer}");
    }
}

#[test]
fn a_server_that_ends_a_connection_is_heard_though_not_all_of_its_reason_has_come() {
    for len in [5, 20] {
        let answer = told_of_farewell(&[len]);
        assert!(answer.contains("the server ended the connection"), "{len}: {answer}");
    }
}

#[test]
fn a_server_that_speaks_without_being_asked_breaks_the_protocol() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let conn = world.conns()[0];
    world.say(conn, b"\x01\0\0\0\0");
    assert!(world.core().servers.conns.get(conn).is_none());
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 1);
    assert!(world.logged().iter().any(|line| line.contains("spoke without being asked")));
}

#[test]
fn a_long_answer_that_nobody_gets_is_not_read_to_its_end() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(1)");
    let conn = world.conn_asked("SELECT SLEEP(1)");
    world.leave(client);
    let rows = rows_without_end(40);
    let (first, rest) = rows.split_at(100_000);
    world.say(conn, first);
    assert_eq!(world.conns(), [conn]);
    world.say(conn, rest);
    assert_eq!(world.conns(), []);
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 0);
}

#[test]
fn a_connection_whose_reset_a_server_refuses_is_closed() {
    let mut world = TestWorker::with(ONE_CONNECTION);
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    world.is_automatic = false;
    world.leave(client);
    world.reply("RESET", Reply::Error(1047, "Unknown command"));
    assert_eq!(world.conns(), []);
}
