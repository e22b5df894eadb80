mod hints;

use std::sync::Arc;

use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_topology::{
    HostgroupId, ServerState,
    causal::{OriginId, Shown},
    gtid::{GtidSet, Origin},
};

use crate::{
    ClientId, Worker, WorkerOptions,
    servers::unheard::UNDER_WAY_MS,
    tests::{
        Login, MYSQL, NoCompressor, OK, Reply, Setup, TestWorker, WRITER_AND_READER, tells_gtid,
    },
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
    shows_in(world, HostgroupId(20), last);
}

/// The server of a hostgroup shows its domain's transactions up to this one.
fn shows_in(world: &mut TestWorker, hostgroup: HostgroupId, last: u64) {
    let shown = Shown { origin: domain(world), last, apart: None };
    for (_, slot) in world.core().servers.pool.slots() {
        if slot.server.key.hostgroup == hostgroup {
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
fn what_is_prepared_first_in_a_read_only_transaction_begins_it_where_writes_are_seen() {
    for (shown, address) in [(5, READER), (4, WRITER)] {
        let mut world = world("lazy_transactions = \"begin\"\n");
        let client = world.log_in();
        writes(&mut world, client, "0-1-5");
        shows(&mut world, 4);
        assert_eq!(world.answered(client, "START TRANSACTION READ ONLY"), "ok");
        world.send(client, &[b"\x16", READ.as_bytes()].concat());
        world.pass_ms(500);
        assert_eq!(world.asked(), [""; 0]);
        shows(&mut world, shown);
        world.pass_ms(600);
        assert_eq!(world.asked(), ["START TRANSACTION READ ONLY", "PREPARE SELECT a FROM s.t"]);
        assert_eq!(world.address_asked("START TRANSACTION READ ONLY"), address);
    }
}

#[test]
fn what_is_prepared_is_told_of_tables_that_its_session_has_made() {
    let mut world = world("");
    let client = world.log_in();
    writes(&mut world, client, "0-1-5");
    shows(&mut world, 4);
    world.send(client, &[b"\x16", READ.as_bytes()].concat());
    assert_eq!(world.asked(), [""; 0]);
    shows(&mut world, 5);
    world.pass_ms(10);
    assert_eq!(world.address_asked("PREPARE SELECT a FROM s.t"), READER);
}

#[test]
fn what_reads_no_table_sees_what_it_has_to_on_any_replica() {
    let mut world = world("causal_wait_ms = 0\nreading_routines = \"f\"\n");
    let client = world.log_in();
    writes(&mut world, client, "0-1-5");
    shows(&mut world, 4);
    for (text, address) in [
        ("SELECT 1", READER),
        ("SELECT NOW() + 1", READER),
        ("SELECT f()", WRITER),
        ("SELECT 1 FROM s.t", WRITER),
    ] {
        world.ask(client, text);
        world.pass_ms(10);
        assert_eq!(world.address_asked(text), address, "{text}");
        world.reply(text, Reply::Rows(&["1"]));
        assert_eq!(world.answer(client), "rows 1");
    }
}

#[test]
fn a_read_that_waits_goes_to_the_writer_when_its_replica_is_taken_out() {
    let mut world = world("");
    let client = world.log_in();
    writes(&mut world, client, "0-1-5");
    shows(&mut world, 4);
    world.ask(client, READ);
    world.pass_ms(20);
    assert_eq!(world.asked(), [""; 0]);
    for (_, slot) in world.core().servers.pool.slots() {
        if slot.server.key.hostgroup == HostgroupId(20) {
            slot.server.health.set_state(ServerState::OfflineSoft);
        }
    }
    world.pass_ms(20);
    assert_eq!(goes_to(&mut world, client), WRITER);
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
            "" => assert!(world.answer(client).contains("hostgroup 20 shows what this read")),
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
    let in_doubt = |world: &mut TestWorker| {
        let causal = &world.session(client).settings.causal;
        causal.written.tokens().any(|(_, token)| token.needs_writer())
    };
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
fn what_a_function_has_met_is_in_doubt() {
    for text in ["DO s.f()", "SET @x = s.f()"] {
        let mut world = world("");
        let client = world.log_in();
        writes(&mut world, client, "0-1-5");
        world.run(client, text, Reply::Ok);
        let causal = &world.session(client).settings.causal;
        assert!(causal.written.tokens().any(|(_, token)| token.needs_writer()), "{text}");
    }
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
    let written = &world.session(client).settings.causal.written;
    let wants: Vec<_> = written.tokens().flat_map(|(_, token)| token.wants().to_vec()).collect();
    assert_eq!(wants.len(), 1);
    assert_eq!((Some(wants[0].origin), wants[0].first, wants[0].last), (id, 7, 9));
    let plain = TestWorker::of(Setup { version: MYSQL, ..Setup::default() });
    let mut plain = plain;
    let client = plain.log_in();
    plain.run(client, WRITE, Reply::Ok);
    assert_eq!(plain.times_heard("SET @@SESSION.session_track_gtids"), 0);
}

/// Two users, with causal reads of this scope.
fn shared_world(scope: &str, rules: &str) -> TestWorker {
    let config = format!(
        "causal_reads = \"{scope}\"\ncausal_wait_ms = 0\n{WRITER_AND_READER}{rules}\
         [[user]]\nname = \"other\"\npassword = \"x\"\ndefault_hostgroup = 10\n"
    );
    followed(TestWorker::with(&config))
}

/// A reload with this configuration, by which servers stay as healthy as they are.
fn reload(world: &mut TestWorker, config: &str) {
    let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
    let config = format!("lazy_transactions = \"off\"\n{config}");
    let config = trunkline_config::parse(&config, "test.toml", &no_files).expect("a configuration");
    let snapshot = config.snapshot(Some(&world.core().env.snapshot));
    world.happens(|worker| worker.apply_snapshot(snapshot.into()));
}

#[test]
fn what_was_written_before_a_reload_that_switches_causal_reads_on_is_seen() {
    let mut world = followed(TestWorker::with(WRITER_AND_READER));
    let client = world.log_in();
    world.run(client, WRITE, Reply::Ok);
    world.pass_ms(500);
    reload(&mut world, &format!("causal_reads = \"session\"\n{WRITER_AND_READER}"));
    let other = world.log_in();
    for client in [client, other] {
        assert_eq!(reads_from(&mut world, client), WRITER);
    }
    let at_ms = world.core().env.now.ms();
    let slots = world.core().servers.pool.slots();
    let reached: Vec<_> = slots.map(|(_, slot)| Arc::clone(&slot.server.health)).collect();
    reached.iter().for_each(|health| health.reached.set_fresh(at_ms - 200));
    assert_eq!(reads_from(&mut world, client), WRITER);
    reached.iter().for_each(|health| health.reached.set_fresh(at_ms + 1));
    assert_eq!(reads_from(&mut world, client), READER);
    // One that is held there waits.
    let held = reads_on_replica(&mut world);
    reached.iter().for_each(|health| health.reached.set_fresh(at_ms - 200));
    for lease in world.session(held).leases.iter_mut() {
        lease.is_in_trans = false;
        lease.pins = Pins::default();
        lease.pins.pin(PinReason::UserVariable);
    }
    world.ask(held, READ);
    assert_eq!((world.asked(), world.answer(held)), (vec![], String::new()));
    reached.iter().for_each(|health| health.reached.set_fresh(at_ms + 1));
    world.pass_ms(10);
    assert_eq!(goes_to(&mut world, held), READER);
    // Another reload that leaves all as it is asks for nothing more.
    reload(&mut world, &format!("causal_reads = \"user\"\n{WRITER_AND_READER}"));
    assert_eq!(reads_from(&mut world, client), READER);
}

#[test]
fn a_worker_that_begins_with_a_reloaded_configuration_has_begun_with_it() {
    let former = crate::tests::snapshot(WRITER_AND_READER);
    let no_files = |path: &str| Err::<String, _>(format!("{path} is not there"));
    let text = format!("causal_reads = \"session\"\n{WRITER_AND_READER}");
    let config = trunkline_config::parse(&text, "test.toml", &no_files).expect("a configuration");
    let snapshot = Arc::new(config.snapshot(Some(&former)));
    let readers = snapshot.causal.readers(HostgroupId(20)).expect("readers");
    let since = readers.since.clone().expect("a moment");
    assert_eq!(since.moment_ms(1), None);
    let mut world = TestWorker::new();
    let env = &world.core().env;
    let (shared, greeting) = (Arc::clone(&env.shared), Arc::clone(&env.greeting));
    let options = WorkerOptions { index: 0, workers: 1, seed: 1 };
    drop(Worker::new(options, snapshot, shared, greeting, Box::new(NoCompressor)));
    assert_eq!(since.moment_ms(1), Some(0));
}

#[test]
fn what_was_written_under_the_number_of_another_hostgroup_is_seen() {
    let mut world = shared_world("user", "");
    let (one, two) = (world.log_in(), world.log_in());
    writes(&mut world, one, "0-1-5");
    let config = WRITER_AND_READER.replace("= 10", "= 30").replace("= 20", "= 40");
    reload(&mut world, &format!("causal_reads = \"user\"\ncausal_wait_ms = 0\n{config}"));
    let mut world = followed(world);
    assert_eq!(reads_from(&mut world, two), WRITER);
}

/// Where a read goes that a client begins now.
fn reads_from(world: &mut TestWorker, client: ClientId) -> String {
    world.ask(client, READ);
    goes_to(world, client)
}

#[test]
fn in_each_scope_is_seen_what_others_have_written_there() {
    // Scope, then whether another session of the same user, and one of another user, see a write.
    let cases = [
        ("off", false, false),
        ("session", false, false),
        ("user", true, false),
        ("hostgroup", true, true),
        ("global", true, true),
    ];
    for (scope, same_user, other_user) in cases {
        let mut world = shared_world(scope, "");
        let (writer, same) = (world.log_in(), world.log_in());
        let other = world.log_in_as(&Login { user: "other", password: "x", ..Login::default() });
        shows(&mut world, 4);
        writes(&mut world, writer, "0-1-5");
        let is_seen = |at: String| at == WRITER;
        assert_eq!(is_seen(reads_from(&mut world, writer)), scope != "off", "{scope}");
        assert_eq!(is_seen(reads_from(&mut world, same)), same_user, "{scope}, the same user");
        assert_eq!(is_seen(reads_from(&mut world, other)), other_user, "{scope}, another user");
        shows(&mut world, 5);
        for client in [writer, same, other] {
            assert_eq!(reads_from(&mut world, client), READER, "{scope}");
        }
    }
}

#[test]
fn what_one_session_is_in_doubt_of_others_read_from_the_writer() {
    let mut world = shared_world("user", "");
    let (one, two) = (world.log_in(), world.log_in());
    shows(&mut world, 9);
    world.run(one, WRITE, Reply::Error(1062, "it is there"));
    assert_eq!(reads_from(&mut world, two), WRITER);
    writes(&mut world, two, "0-1-9");
    // Its write was sent after the other's had failed.
    assert_eq!(reads_from(&mut world, two), READER);
    assert_eq!(reads_from(&mut world, one), WRITER, "its own doubt goes on");
}

#[test]
fn a_text_that_looks_at_the_last_one_reads_from_the_writer_where_its_replica_lacks_something() {
    let mut world = shared_world("user", "");
    let (one, two) = (world.log_in(), world.log_in());
    let text = "SELECT 1; SELECT a FROM s.t";
    let goes = |world: &mut TestWorker| {
        world.ask(one, text);
        let address = world.address_asked(text).to_owned();
        world.reply(text, Reply::Rows(&["1"]));
        world.answer(one);
        address
    };
    shows(&mut world, 4);
    assert_eq!(goes(&mut world), READER);
    writes(&mut world, two, "0-1-5");
    assert_eq!(goes(&mut world), WRITER);
}

#[test]
fn however_a_transaction_ends_that_changed_nothing_others_may_have_written_the_same() {
    let open = status::AUTOCOMMIT | status::IN_TRANS;
    let reads_behind = |end: &str, flags: u16| {
        let mut world = world("causal_wait_ms = 0\nlazy_transactions = \"off\"\n");
        let client = world.log_in();
        shows(&mut world, 9);
        writes(&mut world, client, "0-1-5");
        world.run(client, "BEGIN", Reply::Says(OkPacket { status: open, ..OK }));
        world.run(client, "UPDATE s.t SET a = 5", Reply::Says(OkPacket { status: open, ..OK }));
        world.run(client, end, Reply::Says(OkPacket { status: flags, ..OK }));
        if flags & status::IN_TRANS != 0 {
            world.run(
                client,
                "ROLLBACK",
                Reply::Says(OkPacket { status: status::AUTOCOMMIT, ..OK }),
            );
        }
        reads_from(&mut world, client)
    };
    for end in ["COMMIT", "SET autocommit = 1", "CREATE TABLE IF NOT EXISTS s.t (a INT)"] {
        assert_eq!(reads_behind(end, status::AUTOCOMMIT), WRITER, "{end}");
    }
    for end in ["BEGIN", "COMMIT AND CHAIN"] {
        assert_eq!(reads_behind(end, open), WRITER, "{end}");
    }
    assert_eq!(reads_behind("ROLLBACK", status::AUTOCOMMIT), READER);
}

/// A session of `user` that is in a transaction on the replica, which shows all up to 5.
fn reads_on_replica(world: &mut TestWorker) -> ClientId {
    let client = world.log_in();
    shows(world, 5);
    let begin = "START TRANSACTION READ ONLY";
    world.run(client, begin, Reply::Says(OkPacket { status: READ_ONLY, ..OK }));
    world.ask(client, READ);
    assert_eq!(world.address_asked(READ), READER);
    world.reply(READ, Reply::RowsIn(&["1"], READ_ONLY));
    assert_eq!(world.answer(client), "rows 1");
    client
}

const READ_ONLY: u16 = status::AUTOCOMMIT | status::IN_TRANS | status::IN_TRANS_READONLY;

#[test]
fn what_begins_in_place_of_a_transaction_sees_what_it_would_see_without_that() {
    let anew = [
        "COMMIT AND CHAIN",
        "ROLLBACK AND CHAIN",
        "START TRANSACTION READ ONLY",
        "COMMIT; SELECT a FROM s.t",
    ];
    for (text, is_refused) in anew.map(|text| (text, true)).into_iter().chain([
        ("COMMIT", false),
        ("SAVEPOINT x", false),
        (READ, false),
    ]) {
        let mut world = shared_world("user", "lazy_transactions = \"off\"\n");
        let (reader, writer) = (reads_on_replica(&mut world), world.log_in());
        writes(&mut world, writer, "0-1-6");
        world.ask(reader, text);
        assert_eq!(world.asked().is_empty(), is_refused, "{text}");
        if is_refused {
            let said = world.answer(reader);
            assert!(said.contains("shows what this read has to see"), "{text}: {said}");
        }
    }
}

#[test]
fn a_read_beside_an_open_cursor_on_a_replica_goes_to_the_writer() {
    for (holds, is_refused) in [(PinReason::Cursor, false), (PinReason::UserVariable, true)] {
        let mut world = shared_world("user", "lazy_transactions = \"off\"\n");
        let (reader, writer) = (reads_on_replica(&mut world), world.log_in());
        for lease in world.session(reader).leases.iter_mut() {
            lease.is_in_trans = false;
            lease.pins = Pins::default();
            lease.pins.pin(holds);
        }
        writes(&mut world, writer, "0-1-6");
        world.ask(reader, READ);
        if is_refused {
            let said = world.answer(reader);
            assert!(said.contains("shows what this read has to see"), "{said}");
            continue;
        }
        assert_eq!(goes_to(&mut world, reader), WRITER);
        assert_eq!(world.session(reader).leases.iter().count(), 1, "the cursor stays");
        let begin = "START TRANSACTION READ ONLY";
        world.ask(reader, begin);
        assert_eq!(world.address_asked(begin), WRITER);
        world.reply(begin, Reply::Says(OkPacket { status: READ_ONLY, ..OK }));
        assert_eq!(world.answer(reader), "ok");
        world.ask(reader, READ);
        assert_eq!(world.address_asked(READ), WRITER);
        world.reply(READ, Reply::RowsIn(&["1"], READ_ONLY));
        assert_eq!(world.answer(reader), "rows 1");
        world.run(reader, "COMMIT", Reply::Says(OkPacket { status: status::AUTOCOMMIT, ..OK }));
        shows(&mut world, 6);
        assert_eq!(reads_from(&mut world, reader), READER);
    }
}

#[test]
fn what_commits_nothing_on_a_replica_raises_no_doubt() {
    for text in ["SET @x = 1", "SET NAMES latin1", "SHOW WARNINGS", "COMMIT AND CHAIN"] {
        let mut world = shared_world("user", "lazy_transactions = \"off\"\n");
        let (reader, writer) = (reads_on_replica(&mut world), world.log_in());
        world.run(reader, text, Reply::Says(OkPacket { status: READ_ONLY, ..OK }));
        let end = OkPacket { status: status::AUTOCOMMIT, ..OK };
        world.run(reader, "COMMIT", Reply::Says(end));
        writes(&mut world, writer, "0-1-6");
        shows(&mut world, 6);
        assert_eq!(reads_from(&mut world, writer), READER, "{text}");
        assert_eq!(world.core().fx.stats.counters.causal_doubts, 0, "{text}");
    }
    // These are in the binary log.
    for text in ["SET PASSWORD FOR a = 'x'", "SET DEFAULT ROLE b FOR a"] {
        let mut world = shared_world("user", "");
        let client = world.log_in();
        world.run(client, text, Reply::Error(1396, "no such account"));
        assert_eq!(world.core().fx.stats.counters.causal_doubts, 1, "{text}");
    }
}

/// A write that a test asks for by another text than [`WRITE`].
const OTHER_WRITE: &str = "INSERT INTO s.t VALUES (2)";

#[test]
fn a_write_whose_client_goes_away_is_in_doubt_until_one_that_was_sent_after_its_end() {
    let mut world = shared_world("user", "");
    let (one, two) = (world.log_in(), world.log_in());
    shows(&mut world, 9);
    world.ask(one, OTHER_WRITE);
    world.leave(one);
    assert_eq!(reads_from(&mut world, two), WRITER);
    writes(&mut world, two, "0-1-8");
    assert_eq!(reads_from(&mut world, two), WRITER, "the other is under way");
    world.reply(OTHER_WRITE, Reply::Ok);
    assert_eq!(reads_from(&mut world, two), WRITER, "its number may be a higher one");
    writes(&mut world, two, "0-1-9");
    assert_eq!(reads_from(&mut world, two), READER);
}

#[test]
fn a_write_whose_connection_is_lost_may_be_under_way_for_a_while() {
    let mut world = shared_world("user", "");
    let (one, two) = (world.log_in(), world.log_in());
    shows(&mut world, 9);
    world.ask(one, OTHER_WRITE);
    let conn = world.conn_asked(OTHER_WRITE);
    world.lose(conn);
    writes(&mut world, two, "0-1-8");
    assert_eq!(reads_from(&mut world, two), WRITER);
    world.pass_ms(UNDER_WAY_MS + 1_000);
    assert!(world.core().servers.sharing.causal.lost.is_empty());
    assert_eq!(reads_from(&mut world, two), WRITER);
    writes(&mut world, two, "0-1-9");
    assert_eq!(reads_from(&mut world, two), READER);
}

#[test]
fn a_read_waits_for_what_was_written_when_it_came_and_not_for_more() {
    let config = format!("causal_reads = \"hostgroup\"\n{WRITER_AND_READER}");
    let mut world = followed(TestWorker::with(&config));
    let (writer, reader) = (world.log_in(), world.log_in());
    shows(&mut world, 4);
    writes(&mut world, writer, "0-1-5");
    world.ask(reader, READ);
    assert_eq!(world.asked(), [""; 0]);
    writes(&mut world, writer, "0-1-6");
    shows(&mut world, 5);
    world.pass_ms(10);
    assert_eq!(goes_to(&mut world, reader), READER);
}

#[test]
fn rules_say_for_which_reads_and_where_it_was_written() {
    let rule = |line: &str| {
        format!(
            "[[rule]]\nid = 1\nmatch_digest = \"^SELECT\"\ndestination_hostgroup = 20\n{line}\n"
        )
    };
    let goes = |scope: &str, line: &str| {
        let mut world = shared_world(scope, &rule(line));
        let (writer, other) = (world.log_in(), world.log_in());
        shows(&mut world, 4);
        writes(&mut world, writer, "0-1-5");
        [writer, other].map(|client| match reads_from(&mut world, client) == WRITER {
            true => "writer",
            false => "reader",
        })
    };
    assert_eq!(goes("off", "gtid_from_hostgroup = 10"), ["writer", "reader"]);
    assert_eq!(goes("off", "gtid_from_hostgroup = 20"), ["reader", "reader"]);
    assert_eq!(goes("session", "causal_reads = \"off\""), ["reader", "reader"]);
    assert_eq!(goes("off", "causal_reads = \"hostgroup\""), ["writer", "writer"]);
    assert_eq!(goes("hostgroup", "gtid_from_hostgroup = 10"), ["writer", "writer"]);
}

#[test]
fn what_was_written_in_another_cluster_is_not_waited_for() {
    let cluster = |writer: u32, reader: u32, port: u16| {
        format!(
            "[[server]]\nhostgroup = {writer}\naddress = \"127.0.0.1:{port}\"\n\
         [[server]]\nhostgroup = {reader}\naddress = \"127.0.0.1:{}\"\n\
         [[replication]]\nwriter_hostgroup = {writer}\nreader_hostgroup = {reader}\n\
         read_write_split = \"auto\"\n",
            port + 1
        )
    };
    let rule = "[[rule]]\nid = 1\nmatch_digest = \"INTO other\"\ndestination_hostgroup = 50\n";
    let config =
        format!("causal_reads = \"session\"\n{WRITER_AND_READER}{}{rule}", cluster(50, 60, 3406));
    let mut world = followed(TestWorker::with(&config));
    let client = world.log_in();
    shows(&mut world, 5);
    writes(&mut world, client, "0-1-5");
    let changes = tells_gtid("7-1-9").changes;
    let status = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
    let told = Reply::Says(OkPacket { status, changes: &changes, ..OK });
    world.run(client, "INSERT INTO other.t VALUES (1)", told);
    assert_eq!(reads_from(&mut world, client), READER);
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
