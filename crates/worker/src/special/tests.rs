use trunkline_protocol::{capability::Capabilities, codec::frame::put_payload};

use super::fast_forward::told_of;
use crate::{
    Action, ClientId, Peer, Side,
    kill::{KillAsker, KillRequest, KillScope},
    tests::{CLIENT_CAPABILITIES, Login, Reply, TWO_SERVERS, TestWorker},
};

/// A server's request for a file.
const REQUEST: Reply<'_> = Reply::Payloads(&[b"\xFBfile.csv"]);
const LOAD: &str = "LOAD DATA LOCAL INFILE 'file.csv' INTO TABLE s.t";

fn offers_files(world: &mut TestWorker) -> ClientId {
    let capabilities = CLIENT_CAPABILITIES.union(Capabilities::LOCAL_FILES);
    world.log_in_as(&Login { capabilities, ..Login::default() })
}

#[test]
fn a_file_goes_from_the_client_to_the_server_that_asks_for_it() {
    let mut world = TestWorker::new();
    let client = offers_files(&mut world);
    world.ask(client, LOAD);
    let conn = world.conn_asked(LOAD);
    world.ask_for_file(LOAD, REQUEST);
    assert_eq!(world.got(client), b"\x09\0\0\x01\xFBfile.csv");
    let mut packets = Vec::new();
    put_payload(&mut packets, 2, b"a,b");
    put_payload(&mut packets, 3, b"");
    world.happens(|worker| worker.client_read(client, &packets));
    assert_eq!(world.uploaded(conn), b"\x03\0\0\x02a,b\0\0\0\x03");
    world.say(conn, b"\x07\0\0\x04\0\x01\0\x02\0\0\0");
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.core().fx.stats.counters.client_files_bytes, 11);
}

#[test]
fn a_server_that_asks_for_a_file_that_nobody_offered_breaks_the_protocol() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    world.ask_for_file("SELECT 1", REQUEST);
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 1);
}

#[test]
fn a_server_that_asks_for_a_file_behind_anything_else_does_not_get_it() {
    for text in ["SELECT 1", "LOAD DATA INFILE 'file.csv' INTO TABLE s.t", "CALL p()"] {
        let mut world = TestWorker::new();
        let client = offers_files(&mut world);
        world.ask(client, text);
        world.ask_for_file(text, REQUEST);
        assert!(!world.got(client).windows(9).any(|part| part == b"\xFBfile.csv"), "{text}");
        assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 1, "{text}");
    }
}

#[test]
fn what_may_load_a_file_out_of_sight_gets_it() {
    for text in [
        "EXECUTE IMMEDIATE \"LOAD DATA LOCAL INFILE 'file.csv' INTO TABLE s.t\"",
        "EXECUTE IMMEDIATE CONCAT('LOAD DATA LOCAL INFILE ', @file, ' INTO TABLE s.t')",
        "BEGIN NOT ATOMIC LOAD DATA LOCAL INFILE 'file.csv' INTO TABLE s.t; END",
        "SET STATEMENT max_statement_time = 5 FOR LOAD DATA LOCAL INFILE 'file.csv' INTO TABLE s.t",
    ] {
        let mut world = TestWorker::new();
        let client = offers_files(&mut world);
        world.ask(client, text);
        world.ask_for_file(text, REQUEST);
        assert!(world.got(client).windows(9).any(|part| part == b"\xFBfile.csv"), "{text}");
    }
}

#[test]
fn a_connection_that_waits_for_the_file_of_who_has_gone_is_closed() {
    let mut world = TestWorker::new();
    let client = offers_files(&mut world);
    world.ask(client, LOAD);
    world.leave(client);
    world.ask_for_file(LOAD, REQUEST);
    assert!(world.core().servers.conns.len() == 0);
}

/// The user's bytes go straight through.
fn forwarding() -> String {
    TWO_SERVERS.replace("name = \"app\"", "name = \"app\"\nfast_forward = true")
}

#[test]
fn a_fast_forward_client_has_a_connection_from_its_login_on() {
    let mut world = TestWorker::with(&forwarding());
    let client = world.log_in();
    assert_eq!(world.conns().len(), 1);
    world.ask(client, "SELECT 1");
    assert_eq!(world.asked(), ["SELECT 1"]);
    world.reply("SELECT 1", Reply::Rows(&["1"]));
    assert_eq!(world.answer(client), "rows 1");
}

#[test]
fn what_a_fast_forward_client_sends_early_waits_for_its_connection() {
    let mut world = TestWorker::with(&forwarding());
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    assert_eq!(world.asked(), [""; 0]);
    let conn = world.conns()[0];
    world.come_up(conn);
    assert_eq!(world.asked(), ["SELECT 1"]);
}

#[test]
fn a_fast_forward_client_ends_with_its_connection_and_it_with_the_client() {
    let mut world = TestWorker::with(&forwarding());
    let clients = [world.log_in(), world.log_in()];
    let conns = world.conns();
    world.lose(conns[0]);
    assert!(world.is_closed(clients[0]) && !world.is_closed(clients[1]));
    world.leave(clients[1]);
    assert_eq!(world.conns(), []);
}

#[test]
fn a_kill_of_a_fast_forward_session_reaches_its_server() {
    for answer in [Reply::Ok, Reply::Error(1094, "Unknown thread id: 100")] {
        let mut world = TestWorker::with(&forwarding());
        let client = world.log_in();
        world.ask(client, "SELECT SLEEP(60)");
        let conn = world.conns()[0];
        let number = world.core().clients.get(client).expect("a client").origin.number;
        let asker = KillAsker { worker: 0, client: None, ticket: 7 };
        let request = KillRequest { number, scope: KillScope::Session, user: None, asker };
        world.happens(|worker| worker.kill_asked(request));
        // Its number is its own as long as it stands.
        assert!(world.conns().contains(&conn) && !world.is_closed(client));
        world.reply("KILL 100", answer);
        assert!(!world.conns().contains(&conn) && world.is_closed(client));
    }
}

#[test]
fn a_fast_forward_client_whose_server_is_full_is_refused() {
    let config =
        forwarding().replace("\"127.0.0.1:3306\"", "\"127.0.0.1:3306\"\nmax_connections = 0");
    let config = config.replace("\"127.0.0.1:3307\"", "\"127.0.0.1:3307\"\nmax_connections = 0");
    let mut world = TestWorker::with(&config);
    let client = world.connect();
    let answers = {
        world.got(client);
        let bytes = Login::default().bytes();
        world.happens(|worker| worker.client_read(client, &bytes));
        world.answers(client)
    };
    assert_eq!(answers[0], "ok");
    assert!(answers[1].starts_with("error 9001") && answers[1].contains("fast_forward"));
}

#[test]
fn a_server_is_told_where_the_client_comes_from_whatever_that_says_itself() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    session.login.attributes = Box::new([
        (b"client_addr"[..].into(), b"somewhere else"[..].into()),
        (b"program"[..].into(), b"test"[..].into()),
    ]);
    let client_addr = Some("192.0.2.1".parse().expect("an address"));
    let told = told_of(session, &Peer { client_addr, ..Peer::default() });
    let expected = [("program", "test"), ("client_addr", "192.0.2.1")];
    let expected =
        expected.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(told, expected);
}

/// A client whose binary log is under way.
fn replica(world: &mut TestWorker) -> ClientId {
    let client = world.log_in();
    world.send(client, b"\x12\x04\0\0\0\0\0\x07\0\0\0binlog.1");
    client
}

#[test]
fn a_replica_gets_the_binary_log_byte_for_byte() {
    let mut world = TestWorker::new();
    let client = replica(&mut world);
    let conn = world.conn_asked("COMMAND 0x12");
    world.say(conn, b"\x05\0\0\x01\0event");
    assert_eq!(world.got(client), b"\x05\0\0\x01\0event");
}

#[test]
fn a_replica_that_asks_for_something_else_ends() {
    let mut world = TestWorker::new();
    let client = replica(&mut world);
    world.ask(client, "SELECT 1");
    assert!(world.is_closed(client));
    assert!(!world.heard().contains(&"SELECT 1"));
}

#[test]
fn a_fast_forward_client_that_takes_nothing_stops_its_server() {
    let mut world = TestWorker::with(&format!("client_buffer_max = 65536\n{}", forwarding()));
    let client = world.log_in();
    let conn = world.conns()[0];
    world.stall(client);
    world.actions();
    world.say(conn, &[0; 70_000]);
    let is_pause = |it: &Action| matches!(it, Action::Pause(Side::Server(id)) if *id == conn);
    assert!(world.actions().iter().any(is_pause));
    world.take_bytes(client);
    let is_resume = |it: &Action| matches!(it, Action::Resume(Side::Server(id)) if *id == conn);
    assert!(world.actions().iter().any(is_resume));
    assert_eq!(world.got(client).len(), 70_000);
}
