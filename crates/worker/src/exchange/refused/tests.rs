use std::sync::Arc;

use trunkline_protocol::{
    Capabilities,
    packet::{ok::OkPacket, status},
};
use trunkline_topology::{HostgroupId, WriterCell};

use crate::tests::{OK, Reply, TestWorker};

const CLUSTER: &str = r#"
[[cluster]]
name = "shop"
writer_hostgroup = 10
reader_hostgroup = 20
hold_timeout = "2s"
seeds = ["127.0.0.1:3306", "127.0.0.1:3307"]
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
"#;
const WRITE: &str = "INSERT INTO s.t VALUES (1)";
const IN_TRANS: Reply<'_> =
    Reply::Says(OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK });
const READ_ONLY: &str =
    "The MySQL server is running with the --read-only option so it cannot execute this statement";

fn start() -> (TestWorker, Arc<WriterCell>) {
    let mut world = TestWorker::with(CLUSTER);
    let cell = Arc::clone(&world.core().env.snapshot.clusters[0].cell);
    cell.set(Some(0));
    (world, cell)
}

#[test]
fn a_refused_write_goes_to_the_next_writer() {
    for (code, text) in [
        (1290, READ_ONLY),
        (1836, "Running in read-only mode"),
        (1047, "WSREP has not yet prepared node for application use"),
    ] {
        let (mut world, cell) = start();
        let client = world.log_in();
        world.ask(client, WRITE);
        assert_eq!(world.address_asked(WRITE), "127.0.0.1:3306");
        world.reply(WRITE, Reply::Error(code, text));
        assert_eq!(world.got(client), b"");
        assert_eq!(world.doing(client), "held: no writer of cluster shop");
        // It is not sent there again and again.
        world.pass_ms(10);
        assert_eq!(world.asked(), [""; 0]);
        cell.set(Some(1));
        world.pass_ms(10);
        assert_eq!(world.address_asked(WRITE), "127.0.0.1:3307");
        world.reply(WRITE, Reply::Ok);
        assert_eq!(world.answer(client), "ok");
        assert_eq!(world.run(client, WRITE, Reply::Ok), "ok");
        assert_eq!(world.core().fx.stats.counters.refusals_withheld, 1);
    }
}

#[test]
fn names_that_are_to_be_asked_for_again_change_nothing() {
    let (mut world, cell) = start();
    let client = world.log_in();
    world.ask(client, WRITE);
    // The servers of the group change while the write is on its way.
    world.core().env.shared.catalog().age(HostgroupId(10));
    world.reply(WRITE, Reply::Error(1290, READ_ONLY));
    assert_eq!(world.got(client), b"");
    cell.set(Some(1));
    world.pass_ms(20);
    assert_eq!(world.address_asked(WRITE), "127.0.0.1:3307");
}

#[test]
fn it_is_held_while_there_is_no_writer() {
    let (mut world, cell) = start();
    let client = world.log_in();
    world.ask(client, WRITE);
    world.reply(WRITE, Reply::Error(1290, READ_ONLY));
    cell.set(None);
    world.pass_ms(20);
    world.pass_ms(1_900);
    assert_eq!(world.answer(client), "");
    world.pass_ms(200);
    let answer = world.answer(client);
    assert!(answer.contains("cluster shop has no writer (127.0.0.1:3306, the last"), "{answer}");
}

#[test]
fn a_server_that_stays_the_writer_is_believed_in_the_end() {
    let (mut world, _) = start();
    let client = world.log_in();
    world.ask(client, WRITE);
    let mut refusals = 0;
    let mut answer = String::new();
    for _ in 0..300 {
        if world.asked() == [WRITE] {
            refusals += 1;
            world.reply(WRITE, Reply::Error(1290, READ_ONLY));
        }
        answer = world.answer(client);
        if !answer.is_empty() {
            break;
        }
        world.pass_ms(10);
    }
    assert!(answer.starts_with("error 1290"), "{answer}");
    assert!((90..=101).contains(&refusals), "{refusals}");
    let counters = world.core().fx.stats.counters;
    assert_eq!((counters.refusals_told_late, counters.refusals_withheld), (1, refusals - 1));
}

#[test]
fn what_may_have_done_something_is_told() {
    let check = |before: Option<&str>, text: &str, code: u16, error: &str, told: [u64; 2]| {
        let (mut world, _) = start();
        let client = world.log_in();
        if let Some(before) = before {
            world.run(client, before, IN_TRANS);
        }
        let answer = world.run(client, text, Reply::Error(code, error));
        assert!(answer.starts_with(&format!("error {code}")), "{text}: {answer}");
        let counters = world.core().fx.stats.counters;
        assert_eq!(counters.refusals_withheld, 0);
        let found = [counters.refusals_told_held, counters.refusals_told_unproven];
        assert_eq!(found, told, "{text}");
    };
    check(Some("BEGIN"), WRITE, 1290, READ_ONLY, [1, 0]);
    check(Some("BEGIN"), "COMMIT", 1290, READ_ONLY, [1, 0]);
    check(Some("CREATE TEMPORARY TABLE s.x (a INT)"), WRITE, 1290, READ_ONLY, [1, 0]);
    for text in [
        "INSERT INTO s.t VALUES (f(1))",
        "INSERT INTO s.t VALUES (GET_LOCK('a', 1))",
        "INSERT INTO s.t VALUES (@a := 1)",
        "INSERT INTO s.t SELECT * FROM s.u",
        "UPDATE s.t, s.u SET s.t.a = 1",
        "CREATE TABLE s.x (a INT)",
        "CALL s.p()",
        "BEGIN",
        "INSERT INTO s.t VALUES (1); INSERT INTO s.t VALUES (2)",
    ] {
        check(None, text, 1290, READ_ONLY, [0, 1]);
    }
    // Other errors have these numbers as well.
    let secure = "The MySQL server is running with the --secure-file-priv option so it cannot";
    check(None, WRITE, 1290, secure, [0, 0]);
    check(None, WRITE, 1290, &READ_ONLY.replace("only", "only=NO_LOCK"), [0, 0]);
    check(None, WRITE, 1047, "Unknown command", [0, 0]);
    check(None, WRITE, 1062, "Duplicate entry", [0, 0]);
}

#[test]
fn an_execution_for_many_rows_is_told_as_some_may_be_there() {
    for (payload, is_withheld) in [
        (&b"\xFA\x01\0\0\0\x80\0\x03\0\0\x05\0\0\0"[..], false),
        (b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x05\0\0\0", true),
    ] {
        let (mut world, _) = start();
        let client = world.log_in();
        world.session(client).login.capabilities.insert(Capabilities::STMT_BULK_OPERATIONS);
        let text = "INSERT INTO s.t VALUES (?)";
        world.send(client, &[b"\x16", text.as_bytes()].concat());
        world.reply(&format!("PREPARE {text}"), Reply::Prepared(77, 1));
        world.send(client, payload);
        let asked = world.asked();
        world.reply(&asked[0], Reply::Error(1290, READ_ONLY));
        let counters = world.core().fx.stats.counters;
        let found = (counters.refusals_withheld, counters.refusals_told_unproven);
        assert_eq!(found, if is_withheld { (1, 0) } else { (0, 1) });
    }
}

#[test]
fn one_that_is_killed_meanwhile_is_told() {
    let (mut world, _) = start();
    let client = world.log_in();
    world.ask(client, WRITE);
    let conn = world.conn_asked(WRITE);
    world.core().servers.conns.get_mut(conn).expect("a connection").holder.kills += 1;
    world.reply(WRITE, Reply::Error(1290, READ_ONLY));
    let counters = world.core().fx.stats.counters;
    assert_eq!((counters.refusals_withheld, counters.refusals_told_unproven), (0, 1));
}

#[test]
fn an_answer_in_two_pieces_is_told() {
    let (mut world, _) = start();
    let client = world.log_in();
    world.ask(client, WRITE);
    let conn = world.conn_asked(WRITE);
    let packet = [&[0xFF, 0x0A, 0x05][..], b"#HY000", READ_ONLY.as_bytes()].concat();
    let mut bytes = vec![u8::try_from(packet.len()).expect("short"), 0, 0, 1];
    bytes.extend_from_slice(&packet);
    world.say(conn, &bytes[..20]);
    world.say(conn, &bytes[20..]);
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1290"), "{answer}");
    assert_eq!(world.core().fx.stats.counters.refusals_told_unproven, 1);
}

#[test]
fn an_answer_that_its_client_has_not_taken_yet_stays() {
    let (mut world, cell) = start();
    let client = world.log_in();
    world.stall(client);
    world.run(client, "SELECT a FROM s.t", Reply::Rows(&["x"]));
    world.ask(client, WRITE);
    world.reply(WRITE, Reply::Error(1290, READ_ONLY));
    cell.set(Some(1));
    world.pass_ms(20);
    world.reply(WRITE, Reply::Ok);
    world.take_bytes(client);
    assert_eq!(world.answers(client), ["rows x", "ok"]);
}
