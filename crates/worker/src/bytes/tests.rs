use trunkline_protocol::capability::Capabilities;

use crate::{
    Side,
    rooms::Lender,
    tests::{ONE_CONNECTION, Reply, TestWorker, local_peer},
};

#[test]
fn a_server_that_speaks_before_it_is_connected_loses_its_connection() {
    let mut world = TestWorker::new();
    world.is_automatic = false;
    let client = world.log_in();
    world.ask(client, "SELECT 1");
    let conn = world.conns()[0];
    world.say(conn, b"early");
    assert!(world.core().servers.conns.get(conn).is_none());
    assert!(world.logged().iter().any(|it| it.contains("sent bytes before it was connected")));
}

#[test]
fn a_part_of_a_compressed_packet_that_nobody_waits_for_ends_its_connection() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let conn = world.conns()[0];
    let packs = Capabilities::COMPRESS;
    world.core().with_conn(conn, |core, conn| core.begin_server_packing(conn, packs));
    world.happens(|worker| worker.server_read(conn, b"$"));
    assert!(world.core().servers.conns.get(conn).is_none());
    assert!(world.logged().iter().any(|it| it.contains("spoke without being asked")));
}

#[test]
fn bytes_of_a_connection_that_has_gone_are_nobodys() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.run(client, "INSERT INTO s.t VALUES (1)", Reply::Ok);
    let conn = world.conns()[0];
    world.lose(conn);
    world.happens(|worker| worker.server_read(conn, b"\x01\0\0\0\0"));
    assert_eq!(world.core().fx.stats.counters.server_protocol_errors, 0);
}

#[test]
fn bytes_of_a_client_that_ends_are_thrown_away() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.worker.client_read(client, b"\x01\0\0\0\x01");
    world.worker.client_read(client, b"\x09\0\0\0\x03SELECT 1");
    let inbox = &world.core().clients.table.get(client).expect("a client").io.inbox;
    assert!(inbox.is_empty());
}

#[test]
fn a_client_rests_from_its_answer_on() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT SLEEP(1)");
    world.pass_ms(1_500);
    world.reply("SELECT SLEEP(1)", Reply::Rows(&["0"]));
    let now_ms = world.core().env.now.ms();
    assert_eq!(world.core().clients.get(client).expect("a client").active_ms, now_ms);
}

#[test]
fn a_socket_with_bytes_is_named_once() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.worker.client_read(client, b"\x01\0\0\0\x0E");
    world.worker.client_read(client, b"\x01\0\0\0\x0E");
    assert!(world.worker.has_dirty());
    assert_eq!(world.worker.next_dirty(), Some(Side::Client(client)));
    assert_eq!((world.worker.next_dirty(), world.worker.has_dirty()), (None, false));
}

#[test]
fn a_client_that_has_gone_keeps_no_other_from_its_turn() {
    let mut world = TestWorker::new();
    let clients = [world.log_in(), world.log_in()];
    for client in clients {
        world.worker.client_read(client, b"\x01\0\0\0\x0E");
    }
    world.worker.client_closed(clients[0]);
    assert_eq!(world.worker.next_dirty(), Some(Side::Client(clients[1])));
}

#[test]
fn nothing_waits_for_a_socket_that_has_gone() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.leave(client);
    assert_eq!(world.worker.pending(Side::Client(client)), b"");
}

#[test]
fn actions_are_taken_once() {
    let mut world = TestWorker::new();
    world.worker.accept(local_peer().into(), [b'm'; 20]).expect("it is let in");
    world.worker.end_clients();
    let actions = world.worker.take_actions();
    assert!(!actions.is_empty() && world.worker.take_actions().is_empty());
    world.worker.recycle_actions(actions);
    assert!(world.worker.take_actions().is_empty());
}

#[test]
fn a_client_whose_tls_failed_has_gone() {
    let mut world = TestWorker::new();
    let client = world.connect();
    world.happens(|worker| worker.client_tls_failed(client, "no shared cipher"));
    assert_eq!(world.worker.clients(), 0);
    assert!(world.logged().iter().any(|it| it.ends_with("failed: no shared cipher")));
    assert_eq!(world.core().fx.stats.counters.client_tls_failed, 0, "it had not asked for TLS");
}

#[test]
fn what_is_announced_behind_a_piece_is_sent_ahead_of_it() {
    let rule = "[[rule]]\nid = 1\nmatch_pattern = \"^BEGIN\"\nerror_msg = \"not here\"\n";
    for follows in [false, true] {
        let mut world = TestWorker::with(&format!("{ONE_CONNECTION}{rule}"));
        let client = world.log_in();
        world.happens(|worker| {
            if follows {
                worker.more_follows(client);
            }
        });
        world.ask(client, "BEGIN");
        assert_eq!(world.answer(client), "error 1148: not here");
        assert_eq!(world.is_closed(client), follows, "what follows is meant for a transaction");
    }
}
