use trunkline_protocol::{capability::Capabilities, codec::frame::put_payload};

use crate::tests::{Login, MYSQL, Reply, Setup, TWO_SERVERS, TestWorker};

#[test]
fn a_ping_is_answered_without_a_server() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x0E");
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.opened(), 0);
}

#[test]
fn commands_that_are_not_relayed_are_unknown() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    // Shut down, refresh, create and drop a schema, and one that is none.
    for code in [0x08, 0x07, 0x05, 0x06, 0x0D, 0xEE] {
        world.send(client, &[code, b'x']);
        assert_eq!(world.answer(client), "error 1047: Unknown command", "{code:#X}");
    }
    assert!(!world.is_closed(client));
}

#[test]
fn a_command_without_its_parts_is_malformed() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x17\x01");
    assert_eq!(world.answer(client), "error 1835: Malformed communication packet");
    world.send(client, b"\x0E");
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn a_command_that_is_too_long_ends_the_session() {
    let mut world = TestWorker::with(&format!("max_allowed_packet = 8192\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.send(client, &[b'x'; 8_193]);
    assert!(world.answer(client).starts_with("error 1153"));
    assert!(world.is_closed(client));
}

#[test]
fn packets_out_of_order_end_the_session() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let mut packet = Vec::new();
    put_payload(&mut packet, 1, b"\x0E");
    world.happens(|worker| worker.client_read(client, &packet));
    assert_eq!(world.answer(client), "error 1156: Got packets out of order");
    assert!(world.is_closed(client));
}

#[test]
fn a_command_that_comes_byte_by_byte_is_one() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let mut packet = Vec::new();
    put_payload(&mut packet, 0, b"\x03SELECT 1");
    for byte in &packet {
        assert_eq!(world.asked(), [""; 0]);
        world.happens(|worker| worker.client_read(client, &[*byte]));
    }
    assert_eq!(world.asked(), ["SELECT 1"]);
}

#[test]
fn commands_sent_ahead_are_run_one_after_the_other() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let mut packets = Vec::new();
    for text in ["INSERT INTO s.t VALUES (1)", "INSERT INTO s.t VALUES (2)"] {
        put_payload(&mut packets, 0, &[b"\x03", text.as_bytes()].concat());
    }
    put_payload(&mut packets, 0, b"\x0E");
    world.happens(|worker| worker.client_read(client, &packets));
    assert_eq!(world.asked(), ["INSERT INTO s.t VALUES (1)"]);
    world.reply("INSERT INTO s.t VALUES (1)", Reply::Error(1062, "Duplicate entry"));
    assert_eq!(world.asked(), ["INSERT INTO s.t VALUES (2)"]);
    world.reply("INSERT INTO s.t VALUES (2)", Reply::Ok);
    assert_eq!(world.answers(client), ["error 1062: Duplicate entry", "ok", "ok"]);
}

#[test]
fn nothing_behind_a_quit_is_run() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let mut packets = Vec::new();
    put_payload(&mut packets, 0, b"\x01");
    put_payload(&mut packets, 0, b"\x03SELECT 1");
    world.happens(|worker| worker.client_read(client, &packets));
    assert!(world.is_closed(client));
    assert_eq!(world.opened(), 0);
}

#[test]
fn a_client_that_sends_far_ahead_is_not_read() {
    use crate::{Action, Side};
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(1)");
    world.actions();
    let mut packets = Vec::new();
    while packets.len() < 64 * 1024 {
        put_payload(&mut packets, 0, b"\x0E");
    }
    world.happens(|worker| worker.client_read(client, &packets));
    let is_pause =
        |action: &Action| matches!(action, Action::Pause(Side::Client(id)) if *id == client);
    assert!(world.actions().iter().any(is_pause));
    world.reply("SELECT SLEEP(1)", Reply::Rows(&["0"]));
    let is_resume =
        |action: &Action| matches!(action, Action::Resume(Side::Client(id)) if *id == client);
    assert!(world.actions().iter().any(is_resume));
}

#[test]
fn statistics_are_the_servers() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x09");
    world.reply("COMMAND 0x09", Reply::Payloads(&[b"Uptime: 1"]));
    assert_eq!(world.got(client), b"\x09\0\0\x01Uptime: 1");
}

#[test]
fn multi_statements_are_switched_without_a_server() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x1B\0\0");
    assert_eq!(world.answer(client), "eof");
    let has = |world: &mut TestWorker| {
        world.session(client).login.capabilities.contains(Capabilities::MULTI_STATEMENTS)
    };
    assert!(has(&mut world));
    world.send(client, b"\x1B\x01\0");
    assert_eq!(world.answer(client), "eof");
    assert!(!has(&mut world));
}

#[test]
fn an_option_that_there_is_not_is_refused() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x1B\x02\0");
    assert_eq!(world.answer(client), "error 1047: Unknown command");
}

#[test]
fn sessions_with_and_without_multi_statements_share_no_connection() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    world.send(client, b"\x1B\0\0");
    world.answer(client);
    world.run(client, "INSERT INTO s.t VALUES (2)", Reply::Ok);
    assert_eq!(world.opened(), 2);
}

#[test]
fn a_session_that_holds_nothing_is_reset_without_a_server() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "SET time_zone = '+01:00'", Reply::Ok);
    world.send(client, b"\x1F");
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.times_heard("RESET"), 0);
    assert_eq!(world.session(client).settings.state.variable("time_zone"), None);
}

#[test]
fn a_session_that_holds_a_connection_is_reset_there() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    world.send(client, b"\x1F");
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.times_heard("RESET"), 1);
    assert!(world.session(client).leases.is_empty());
}

#[test]
fn a_schema_is_chosen_on_a_server() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.send(client, b"\x02shop");
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.times_heard("INIT_DB shop"), 1);
    assert_eq!(world.session(client).settings.state.schema.name(), b"shop");
}

#[test]
fn what_the_proxy_knows_of_a_session_is_told_to_it_alone() {
    let mut world = TestWorker::new();
    let client = world.log_in_as(&Login { schema: Some("shop"), ..Login::default() });
    let answer = world.answered(client, "PROXYSQL INTERNAL SESSION");
    for part in ["\"thread_session_id\":1", "\"default_hostgroup\":10", "\"autocommit\":true"] {
        assert!(answer.contains(part), "{part} in {answer}");
    }
}

#[test]
fn a_file_is_not_asked_of_a_client_that_never_offered_any() {
    for (setup, code) in [
        (Setup::default(), "error 4166"),
        (Setup { version: MYSQL, ..Setup::default() }, "error 3948"),
    ] {
        let mut world = TestWorker::of(setup);
        let client = world.log_in();
        let answer = world.answered(client, "LOAD DATA LOCAL INFILE 'a' INTO TABLE s.t");
        assert!(answer.starts_with(code), "{answer}");
    }
}

#[test]
fn who_may_ask_for_a_route_is_told_it_without_a_server() {
    let mut world = TestWorker::with(&format!("explain_route_users = \"app\"\n{TWO_SERVERS}"));
    let client = world.log_in();
    let answer = world.answered(client, "EXPLAIN ROUTE SELECT a FROM s.t");
    assert!(answer.starts_with("rows digest, hash, kind"), "{answer}");
}

#[test]
fn who_may_not_ask_for_a_route_asks_the_server() {
    let mut world = TestWorker::with(&format!("explain_route_users = \"other\"\n{TWO_SERVERS}"));
    let client = world.log_in();
    world.ask(client, "EXPLAIN ROUTE SELECT 1");
    assert_eq!(world.asked(), ["EXPLAIN ROUTE SELECT 1"]);
}
