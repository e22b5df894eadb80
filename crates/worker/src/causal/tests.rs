use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_topology::{
    HostgroupId,
    causal::{OriginId, Shown},
    gtid::{GtidSet, Origin},
};

use crate::{
    ClientId,
    tests::{MYSQL, OK, Reply, Setup, TestWorker, WRITER_AND_READER, tells_gtid},
};

const WRITER: &str = "127.0.0.1:3306";
const READER: &str = "127.0.0.1:3307";
const READ: &str = "SELECT a FROM s.t";
const WRITE: &str = "INSERT INTO s.t VALUES (1)";
const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn world(settings: &str) -> TestWorker {
    let world =
        TestWorker::with(&format!("causal_reads = \"session\"\n{settings}{WRITER_AND_READER}"));
    followed(world)
}

/// The control plane has seen that the writer numbers its writes.
fn followed(mut world: TestWorker) -> TestWorker {
    let slots = world.core().servers.pool.slots();
    slots.for_each(|(_, slot)| slot.server.health.reached.set_numbers(true));
    world
}

fn domain(world: &mut TestWorker) -> OriginId {
    world.core().env.shared.causal().origins.id(&Origin::Domain(0)).expect("a number")
}

/// The replica shows its domain's transactions up to this one.
fn shows(world: &mut TestWorker, last: u64) {
    let shown = Shown { origin: domain(world), last, apart: None };
    let readers = HostgroupId(20);
    for (_, slot) in world.core().servers.pool.slots() {
        if slot.server.key.hostgroup == readers {
            slot.server.health.reached.publish([shown.clone()]);
        }
    }
}

/// The client writes, and is told nothing else but this.
fn writes(world: &mut TestWorker, client: ClientId, gtid: &str) {
    let changes = tells_gtid(gtid).changes;
    let status = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
    world.run(client, WRITE, Reply::Says(OkPacket { status, changes: &changes, ..OK }));
}

/// Where the read goes that the client has under way.
fn goes_to(world: &mut TestWorker, client: ClientId) -> String {
    let address = world.address_asked(READ).to_owned();
    world.reply(READ, Reply::Rows(&["1"]));
    assert_eq!(world.answer(client), "rows 1");
    address
}

#[test]
fn a_read_waits_until_the_replica_shows_what_its_session_has_written() {
    let mut world = world("");
    let client = world.log_in();
    writes(&mut world, client, "0-1-5");
    shows(&mut world, 4);
    world.ask(client, READ);
    world.pass_ms(500);
    assert_eq!(world.asked(), [""; 0]);
    assert!(world.core().env.shared.causal().is_waited());
    shows(&mut world, 5);
    world.pass_ms(10);
    assert_eq!(goes_to(&mut world, client), READER);
    assert!(!world.core().env.shared.causal().is_waited());
    // Who has written nothing waits for nothing.
    let other = world.log_in();
    shows(&mut world, 0);
    world.ask(other, READ);
    assert_eq!(goes_to(&mut world, other), READER);
}

#[test]
fn a_read_that_has_waited_in_vain_goes_to_the_writer_and_the_next_ones_at_once() {
    let mut world = world("causal_wait_ms = 200\n");
    let client = world.log_in();
    writes(&mut world, client, "0-1-5");
    world.ask(client, READ);
    world.pass_ms(190);
    assert_eq!(world.asked(), [""; 0]);
    world.pass_ms(20);
    assert_eq!(goes_to(&mut world, client), WRITER);
    world.ask(client, READ);
    assert_eq!(goes_to(&mut world, client), WRITER);
    shows(&mut world, 5);
    world.ask(client, READ);
    assert_eq!(goes_to(&mut world, client), READER);
    let counters = &world.core().fx.stats.counters;
    assert_eq!((counters.causal_writer, counters.causal_reached), (2, 1));
}

#[test]
fn a_read_that_no_replica_can_answer_fails_or_is_stale_where_that_is_wished() {
    for (fallback, expected) in [("error", ""), ("stale", READER)] {
        let mut world = world(&format!("causal_wait_ms = 0\ncausal_fallback = \"{fallback}\"\n"));
        let client = world.log_in();
        writes(&mut world, client, "0-1-5");
        world.ask(client, READ);
        match expected {
            "" => assert!(world.answer(client).contains("hostgroup 20 shows what this session")),
            expected => assert_eq!(goes_to(&mut world, client), expected),
        }
    }
}

#[test]
fn a_connection_that_becomes_free_goes_to_no_read_that_its_server_has_nothing_for() {
    let one = WRITER_AND_READER.replace(
        "address = \"127.0.0.1:3307\"",
        "address = \"127.0.0.1:3307\"\nmax_connections = 1",
    );
    let config = format!("causal_reads = \"session\"\npipeline_depth_max = 1\n{one}");
    let mut world = followed(TestWorker::with(&config));
    let (one, other) = (world.log_in(), world.log_in());
    writes(&mut world, other, "0-1-5");
    shows(&mut world, 5);
    world.ask(one, READ);
    world.ask(other, "SELECT b FROM s.t");
    assert_eq!(world.asked(), [READ], "it waits for the only connection");
    // The replica was made anew meanwhile.
    shows(&mut world, 3);
    world.reply(READ, Reply::Rows(&["1"]));
    world.pass_ms(10);
    assert_eq!(world.asked(), [""; 0]);
    shows(&mut world, 5);
    world.pass_ms(10);
    assert_eq!(world.asked(), ["SELECT b FROM s.t"]);
}

#[test]
fn what_was_written_is_in_doubt_after_an_error_until_the_next_write() {
    let mut world = world("");
    let client = world.log_in();
    let in_doubt = |world: &mut TestWorker| world.session(client).settings.token.needs_writer();
    writes(&mut world, client, "0-1-5");
    assert!(!in_doubt(&mut world));
    world.run(client, WRITE, Reply::Error(1146, "no such table"));
    assert!(!in_doubt(&mut world), "it has not begun");
    world.run(client, WRITE, Reply::Error(1062, "it is there"));
    assert!(in_doubt(&mut world));
    world.ask(client, READ);
    assert_eq!(goes_to(&mut world, client), WRITER);
    writes(&mut world, client, "0-1-6");
    assert!(!in_doubt(&mut world));
    // It has met what others have written.
    world.run(client, "DELETE FROM s.t", Reply::Ok);
    assert!(in_doubt(&mut world));
    writes(&mut world, client, "0-1-8");
    world.ask(client, WRITE);
    let conn = world.conn_asked(WRITE);
    world.lose(conn);
    assert!(in_doubt(&mut world));
}

#[test]
fn a_writer_whose_writes_have_no_numbers_is_read_from() {
    let mut world = TestWorker::with(&format!("causal_reads = \"session\"\n{WRITER_AND_READER}"));
    let client = world.log_in();
    world.run(client, WRITE, Reply::Ok);
    world.ask(client, READ);
    assert_eq!(goes_to(&mut world, client), WRITER);
}

#[test]
fn mysql_is_asked_once_to_report_what_is_committed_and_the_client_is_not_told() {
    let config = format!("causal_reads = \"session\"\n{WRITER_AND_READER}");
    let setup = Setup { config: &config, version: MYSQL, ..Setup::default() };
    let mut world = followed(TestWorker::of(setup));
    let client = world.log_in();
    let gtid = format!("{UUID}:7-9");
    let len = u8::try_from(gtid.len()).expect("short");
    let changes = [&[3, len + 2, 0, len], gtid.as_bytes()].concat();
    let status = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
    let told = OkPacket { status, changes: &changes, ..OK };
    world.run(client, WRITE, Reply::Says(told));
    world.run(client, WRITE, Reply::Says(told));
    assert_eq!(world.times_heard("SET @@SESSION.session_track_gtids=OWN_GTID"), 1);
    let origin = GtidSet::parse(&gtid).expect("a set").origins().next().map(|it| it.0);
    let id = world.core().env.shared.causal().origins.id(&origin.expect("one"));
    let wants: Vec<_> = world.session(client).settings.token.wants().to_vec();
    assert_eq!(wants.len(), 1);
    assert_eq!((Some(wants[0].origin), wants[0].first, wants[0].last), (id, 7, 9));
    let plain = TestWorker::of(Setup { version: MYSQL, ..Setup::default() });
    let mut plain = plain;
    let client = plain.log_in();
    plain.run(client, WRITE, Reply::Ok);
    assert_eq!(plain.times_heard("SET @@SESSION.session_track_gtids"), 0);
}

#[test]
fn mysql_is_asked_to_report_before_a_transaction_that_begins_late() {
    let lazy = "lazy_transactions = \"begin\"";
    let config = format!("causal_reads = \"session\"\n{lazy}\n{WRITER_AND_READER}");
    let setup = Setup { config: &config, version: MYSQL, ..Setup::default() };
    let mut world = followed(TestWorker::of(setup));
    world.core().servers.defaults.tells_transactions = Some(false);
    let client = world.log_in();
    assert_eq!(world.answered(client, "BEGIN"), "ok");
    world.ask(client, WRITE);
    let in_trans = OkPacket { status: status::AUTOCOMMIT | status::IN_TRANS, ..OK };
    world.reply("START TRANSACTION", Reply::Says(in_trans));
    world.reply(WRITE, Reply::Says(in_trans));
    let heard: Vec<_> = world.heard().into_iter().map(str::to_owned).collect();
    let place = |begin: &str| heard.iter().position(|text| text.starts_with(begin));
    let asks = place("SET @@SESSION.session_track_gtids");
    assert!(asks.is_some() && asks < place("START TRANSACTION"), "{heard:?}");
    assert_eq!(world.times_heard("SET @@SESSION.session_track_gtids"), 1);
}
