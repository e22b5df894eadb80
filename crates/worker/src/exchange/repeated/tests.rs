use trunkline_protocol::packet::{ok::OkPacket, status};

use crate::{
    ClientId,
    kill::{KillAsker, KillRequest, KillScope},
    tests::{OK, Reply, TWO_SERVERS, TestWorker, snapshot},
};

const FLAGS: u16 = status::AUTOCOMMIT | status::IN_TRANS;
const IN_TRANS: Reply<'_> = Reply::Says(OkPacket { status: FLAGS, ..OK });
const WROTE: Reply<'_> = Reply::Says(OkPacket { status: FLAGS, affected_rows: 1, ..OK });
const INSERT: &str = "INSERT INTO s.t VALUES (1)";
const SELECT: &str = "SELECT a FROM s.t";

fn with(settings: &str) -> TestWorker {
    TestWorker::with(&format!("transaction_replay = true\n{settings}\n{TWO_SERVERS}"))
}

/// A worker that repeats transactions, and a client in one that has written and read.
fn in_transaction(settings: &str) -> (TestWorker, ClientId) {
    let mut world = with(settings);
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    world.run(client, INSERT, WROTE);
    world.run(client, SELECT, Reply::RowsIn(&["x"], FLAGS));
    (world, client)
}

/// A row was inserted, with this id.
fn generated(last_insert_id: u64) -> Reply<'static> {
    Reply::Says(OkPacket { status: FLAGS, affected_rows: 1, last_insert_id, ..OK })
}

/// An insert that is repeated gets another id than the 7 that its client was told, so that the
/// repetition begins anew.
fn repeats_with_another_id() -> (TestWorker, ClientId) {
    let mut world = with("");
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    world.run(client, INSERT, generated(7));
    lose_idle(&mut world);
    world.reply("BEGIN", IN_TRANS);
    world.reply(INSERT, generated(9));
    (world, client)
}

fn reload(world: &mut TestWorker, config: &str) {
    let snapshot = snapshot(config);
    world.happens(|worker| worker.apply_snapshot(snapshot));
}

fn lose_idle(world: &mut TestWorker) {
    let conn = world.conns()[0];
    world.lose(conn);
}

/// The server is asked for the transaction once more, and says the same.
fn repeat(world: &mut TestWorker) {
    world.reply("BEGIN", IN_TRANS);
    world.reply(INSERT, WROTE);
    world.reply(SELECT, Reply::RowsIn(&["x"], FLAGS));
}

#[test]
fn a_transaction_that_is_lost_between_statements_goes_on_elsewhere() {
    let (mut world, client) = in_transaction("");
    lose_idle(&mut world);
    assert_eq!(world.doing(client), "repeating a transaction, statement 1 of 3");
    repeat(&mut world);
    assert_eq!(world.got(client), b"", "the client is told nothing");
    assert_eq!(world.doing(client), "idle");
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
    assert_eq!((world.times_heard("COMMIT"), world.times_heard("INSERT")), (1, 2));
    let counters = &world.core().fx.stats.counters;
    assert_eq!((counters.replays_begun, counters.replays_done), (1, 1));
    assert_eq!(world.core().clients.memory.replay_bytes.get(), 0, "nothing is kept behind its end");
}

#[test]
fn a_statement_that_was_under_way_runs_behind_the_repetition() {
    let (mut world, client) = in_transaction("");
    let update = "UPDATE s.t SET a = 2";
    world.ask(client, update);
    let conn = world.conn_asked(update);
    world.lose(conn);
    repeat(&mut world);
    assert_eq!(world.asked(), [update]);
    world.reply(update, WROTE);
    assert_eq!(world.answer(client), "ok");
    // And it is a part of what is repeated the next time.
    lose_idle(&mut world);
    repeat(&mut world);
    world.reply(update, WROTE);
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
}

#[test]
fn what_is_sent_meanwhile_waits() {
    let (mut world, client) = in_transaction("");
    lose_idle(&mut world);
    world.ask(client, "COMMIT");
    assert_eq!(world.asked(), ["BEGIN"]);
    repeat(&mut world);
    world.reply("COMMIT", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.times_heard("COMMIT"), 1);
}

#[test]
fn another_answer_the_second_time_ends_it() {
    for (insert, select, words) in [
        (IN_TRANS, None, "statement 2 of it has another number of affected rows there"),
        (Reply::Error(1062, "Duplicate"), None, "statement 2 of it has another error there"),
        (WROTE, Some(&["y"][..]), "statement 3 of it has another rows there"),
        (WROTE, Some(&["x", "x"]), "statement 3 of it has another rows there"),
    ] {
        let (mut world, client) = in_transaction("");
        lose_idle(&mut world);
        let conn = world.conns()[0];
        world.reply("BEGIN", IN_TRANS);
        world.reply(INSERT, insert);
        if let Some(rows) = select {
            world.reply(SELECT, Reply::RowsIn(rows, FLAGS));
        }
        let answer = world.answered(client, "COMMIT");
        assert!(answer.starts_with("error 1213: the transaction was rolled back"), "{answer}");
        assert!(answer.contains(words), "{answer}");
        assert!(!world.conns().contains(&conn), "its connection is closed");
        assert_eq!(world.times_heard("COMMIT"), 0);
        assert_eq!(world.run(client, SELECT, Reply::Rows(&["z"])), "rows z");
    }
}

#[test]
fn an_insert_gets_its_id_again() {
    let (mut world, client) = repeats_with_another_id();
    // Once more, on another connection, with the id that the client knows.
    world.reply("BEGIN", IN_TRANS);
    world.reply("SET insert_id=7", Reply::Ok);
    world.reply(INSERT, generated(7));
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
}

/// Galera tells the first that comes of a transaction that it has rolled back: what comes behind it
/// is outside of the transaction.
#[test]
fn what_is_repeated_waits_until_its_id_is_given() {
    let (mut world, client) = repeats_with_another_id();
    world.reply("BEGIN", IN_TRANS);
    assert_eq!(world.asked(), ["SET insert_id=7"]);
    world.reply("SET insert_id=7", Reply::Error(1213, "Deadlock found"));
    assert_eq!(world.asked(), ["BEGIN"], "it begins anew, and nothing else runs there");
    world.reply("BEGIN", IN_TRANS);
    world.reply("SET insert_id=7", IN_TRANS);
    world.reply(INSERT, generated(7));
    assert_eq!(world.got(client), b"");
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
}

#[test]
fn an_id_of_a_repetition_that_is_given_up_is_not_the_sessions() {
    let mut world = with("");
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    world.run(client, INSERT, generated(7));
    world.run(client, SELECT, Reply::RowsIn(&["x"], FLAGS));
    lose_idle(&mut world);
    world.reply("BEGIN", IN_TRANS);
    world.reply(INSERT, generated(8));
    // It begins anew, to have the same id, and sees something else.
    world.reply("BEGIN", IN_TRANS);
    world.reply("SET insert_id=7", Reply::Ok);
    world.reply(INSERT, Reply::Error(1062, "Duplicate"));
    let answer = world.answered(client, "COMMIT");
    assert!(answer.starts_with("error 1213"), "{answer}");
    let session = world.session(client);
    assert_eq!((session.last_insert_id, session.past.knows_insert_id()), (7, true));
}

#[test]
fn a_repetition_that_is_lost_begins_anew_so_often() {
    let (mut world, client) = in_transaction("transaction_replay_attempts = 2");
    lose_idle(&mut world);
    world.reply("BEGIN", IN_TRANS);
    lose_idle(&mut world);
    repeat(&mut world);
    assert_eq!(world.doing(client), "idle");
    lose_idle(&mut world);
    let answer = world.answered(client, "COMMIT");
    assert!(answer.starts_with("error 1213"), "{answer}");
    assert!(!world.is_closed(client));
}

#[test]
fn a_commit_that_was_sent_is_never_repeated() {
    let (mut world, client) = in_transaction("");
    world.ask(client, "COMMIT");
    let conn = world.conn_asked("COMMIT");
    world.lose(conn);
    assert!(world.answer(client).starts_with("error 2013"));
    assert_eq!((world.times_heard("BEGIN"), world.times_heard("COMMIT")), (1, 1));
}

#[test]
fn what_does_more_than_its_transaction_is_not_repeated() {
    for (text, reply) in [
        ("CALL s.p()", IN_TRANS),
        ("SELECT GET_LOCK('a', 1)", Reply::RowsIn(&["1"], FLAGS)),
        ("SELECT s.f(1)", Reply::RowsIn(&["1"], FLAGS)),
        ("SELECT a FROM s.t INTO OUTFILE 'x'", IN_TRANS),
        ("INSERT INTO s.t VALUES (1); DELETE FROM s.t", IN_TRANS),
        ("SET @a = 1", IN_TRANS),
        ("SELECT ROW_COUNT()", Reply::RowsIn(&["1"], FLAGS)),
        (INSERT, Reply::Error(1205, "Lock wait timeout exceeded")),
    ] {
        let mut world = with("");
        let client = world.log_in();
        world.run(client, "BEGIN", IN_TRANS);
        world.run(client, text, reply);
        lose_idle(&mut world);
        assert_eq!(world.asked(), [""; 0], "{text}");
        let answer = world.answered(client, "COMMIT");
        assert!(answer.starts_with("error 1213") || answer.starts_with("error 2013"), "{answer}");
        assert_eq!(world.times_heard("BEGIN"), 1, "{text}");
    }
}

#[test]
fn a_snapshot_is_not_taken_later() {
    let mut world = with("");
    let client = world.log_in();
    world.run(client, "START TRANSACTION WITH CONSISTENT SNAPSHOT", IN_TRANS);
    assert_eq!(world.core().fx.stats.counters.replays_unfit_begin, 1);
    lose_idle(&mut world);
    assert_eq!(world.asked(), [""; 0]);
    assert!(world.answered(client, SELECT).starts_with("error 1213"));
}

#[test]
fn a_transaction_is_kept_up_to_a_length() {
    let (mut world, client) = in_transaction("transaction_replay_max_statements = 2");
    assert_eq!(world.core().fx.stats.counters.replays_unfit_size, 1);
    lose_idle(&mut world);
    assert!(world.answered(client, "COMMIT").starts_with("error 1213"));
}

#[test]
fn a_transaction_is_kept_for_a_time() {
    let (mut world, client) = in_transaction("transaction_replay_max_age = 500");
    world.pass_ms(600);
    lose_idle(&mut world);
    assert!(world.answered(client, "COMMIT").starts_with("error 1213"));
    assert_eq!(world.core().fx.stats.counters.replays_late, 1);
}

#[test]
fn a_user_may_have_its_own_word_on_it() {
    let users = TWO_SERVERS.replace("[[user]]", "[[user]]\ntransaction_replay = true");
    let mut world = TestWorker::with(&users);
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    lose_idle(&mut world);
    assert_eq!(world.asked(), ["BEGIN"]);
    let users = TWO_SERVERS.replace("[[user]]", "[[user]]\ntransaction_replay = false");
    let mut world = TestWorker::with(&format!("transaction_replay = true\n{users}"));
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    lose_idle(&mut world);
    assert_eq!(world.asked(), [""; 0]);
}

#[test]
fn a_client_that_leaves_in_a_repetition_leaves_nothing() {
    let (mut world, client) = in_transaction("");
    lose_idle(&mut world);
    world.reply("BEGIN", IN_TRANS);
    world.leave(client);
    assert_eq!(world.times_heard("INSERT"), 2);
    assert_eq!(world.core().clients.memory.replay_bytes.get(), 0);
}

#[test]
fn a_deadlock_is_repeated_where_that_is_wanted() {
    let deadlock = Reply::Error(1213, "Deadlock found when trying to get lock");
    let (mut world, client) = in_transaction("");
    assert!(world.run(client, INSERT, deadlock).starts_with("error 1213: Deadlock"));
    let (mut world, client) = in_transaction("transaction_replay_on_deadlock = true");
    let update = "UPDATE s.t SET a = 2";
    assert_eq!(world.run(client, update, deadlock), "");
    repeat(&mut world);
    world.reply(update, WROTE);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
}

#[test]
fn a_server_that_ends_the_connection_with_an_error_is_left() {
    let (mut world, client) = in_transaction("");
    let update = "UPDATE s.t SET a = 2";
    assert_eq!(world.run(client, update, Reply::Error(1927, "Connection was killed")), "");
    repeat(&mut world);
    world.reply(update, WROTE);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn prepared_statements_are_repeated_and_may_be_closed_meanwhile() {
    let mut world = with("");
    let client = world.log_in();
    world.send(client, b"\x16INSERT INTO s.t VALUES (?)");
    let prepares = "PREPARE INSERT INTO s.t VALUES (?)";
    world.reply(prepares, Reply::Prepared(1, 1));
    world.answers(client);
    world.run(client, "BEGIN", IN_TRANS);
    let execution = |id: u8| {
        let mut command = vec![0x17, id, 0, 0, 0, 0, 1, 0, 0, 0];
        command.extend_from_slice(&[0, 1, 0x03, 0, 5, 0, 0, 0]);
        command
    };
    world.send(client, &execution(1));
    let runs = world.asked().pop().expect("an execution");
    world.reply(&runs, WROTE);
    assert_eq!(world.answer(client), "ok");
    world.send(client, &[0x19, 1, 0, 0, 0]);
    let why = world.session(client).transaction.kept.as_deref().map(|kept| kept.why_not);
    assert_eq!(why, Some(None));
    lose_idle(&mut world);
    world.reply("BEGIN", IN_TRANS);
    world.reply(prepares, Reply::Prepared(4, 1));
    let again = world.asked().pop().expect("an execution");
    world.reply(&again, WROTE);
    assert_eq!(world.got(client), b"");
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
    world.send(client, &execution(1));
    assert!(world.answer(client).starts_with("error 1243"), "its client has closed it");
}

#[test]
fn a_transaction_is_kept_whole_over_a_reload() {
    let (mut world, client) = in_transaction("");
    reload(&mut world, TWO_SERVERS);
    let update = "UPDATE s.t SET a = 2";
    world.run(client, update, WROTE);
    lose_idle(&mut world);
    repeat(&mut world);
    world.reply(update, WROTE);
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
    assert_eq!(world.times_heard(update), 2);
}

#[test]
fn what_began_before_a_reload_that_wants_repetitions_is_not_repeated() {
    let mut world = TestWorker::with(TWO_SERVERS);
    let client = world.log_in();
    let flags = status::IN_TRANS;
    let wrote = || Reply::Says(OkPacket { status: flags, affected_rows: 1, ..OK });
    world.run(client, "SET autocommit = 0", Reply::Says(OkPacket { status: 0, ..OK }));
    world.run(client, INSERT, wrote());
    reload(&mut world, &format!("transaction_replay = true\n{TWO_SERVERS}"));
    world.run(client, "INSERT INTO s.t VALUES (2)", wrote());
    lose_idle(&mut world);
    let answer = world.answered(client, "COMMIT");
    assert!(answer.starts_with("error 1213"), "{answer}");
    assert_eq!(world.times_heard("INSERT"), 2);
}

#[test]
fn a_transaction_that_a_reset_has_rolled_back_is_not_repeated() {
    let (mut world, client) = in_transaction("");
    world.send(client, &[0x1F]);
    assert_eq!(world.answer(client), "ok");
    assert!(world.session(client).transaction.kept.is_none());
}

#[test]
fn parts_of_a_parameter_that_have_come_are_meant_for_the_next_execution() {
    let mut world = with("");
    let client = world.log_in();
    world.send(client, b"\x16INSERT INTO s.t VALUES (?)");
    world.reply("PREPARE INSERT INTO s.t VALUES (?)", Reply::Prepared(1, 1));
    world.answers(client);
    world.run(client, "BEGIN", IN_TRANS);
    let mut execution = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0];
    execution.extend_from_slice(&[0, 1, 0x03, 0, 5, 0, 0, 0]);
    world.send(client, &execution);
    let runs = world.asked().pop().expect("an execution");
    world.reply(&runs, WROTE);
    world.answer(client);
    world.send(client, b"\x18\x01\0\0\0\0\0part");
    lose_idle(&mut world);
    assert!(world.asked().is_empty(), "{:?}", world.asked());
    world.send(client, &execution);
    assert!(world.answer(client).starts_with("error 1213"));
    let stmt = world.session(client).prepared.get(1).expect("the statement");
    assert!(stmt.long.is_none(), "it is dropped as behind any execution that fails");
}

#[test]
fn nothing_is_kept_of_a_transaction_that_its_session_gives_up() {
    let other = "hostgroup = 20\naddress = \"127.0.0.1:3307\"";
    let config = TWO_SERVERS
        .replace("hostgroup = 10\naddress = \"127.0.0.1:3307\"", other)
        .replace("default_hostgroup", "transaction_persistent = false\ndefault_hostgroup");
    let mut world = TestWorker::with(&format!("transaction_replay = true\n{config}"));
    let client = world.log_in();
    let open = OkPacket { status: status::IN_TRANS, ..OK };
    world.run(client, "SET autocommit = 0", Reply::Says(OkPacket { status: 0, ..OK }));
    world.run(client, INSERT, Reply::Says(open));
    let read = "/* hostgroup=20 */ SELECT a FROM s.t";
    world.run(client, read, Reply::RowsIn(&["x"], status::IN_TRANS));
    assert!(world.session(client).transaction.kept.is_some());
    let ended = Reply::Says(OkPacket { status: 0, ..OK });
    assert_eq!(world.run(client, "COMMIT", ended), "ok");
    assert!(world.session(client).transaction.kept.is_none());
}

#[test]
fn what_waits_behind_a_repetition_runs_out_of_its_time() {
    let (mut world, client) = in_transaction("default_query_timeout = 1000");
    let update = "UPDATE s.t SET a = 2";
    world.ask(client, update);
    let conn = world.conn_asked(update);
    world.lose(conn);
    world.reply("BEGIN", IN_TRANS);
    world.pass_ms(1_100);
    assert!(world.answer(client).starts_with("error 1907"));
    world.ask(client, SELECT);
    world.reply(INSERT, WROTE);
    world.reply(SELECT, Reply::RowsIn(&["x"], FLAGS));
    world.reply(SELECT, Reply::RowsIn(&["z"], FLAGS));
    assert_eq!(world.answer(client), "rows z");
    assert_eq!(world.run(client, "COMMIT", Reply::Ok), "ok");
    assert_eq!(world.times_heard("UPDATE"), 1, "not behind the repetition");
}

#[test]
fn what_was_sent_behind_a_statement_that_runs_out_of_its_time_is_not_run() {
    let (mut world, client) = in_transaction("default_query_timeout = 1000");
    let update = "UPDATE s.t SET a = 2";
    world.ask(client, update);
    world.ask(client, "COMMIT");
    let conn = world.conn_asked(update);
    world.lose(conn);
    world.pass_ms(1_100);
    assert!(world.answer(client).starts_with("error 1907"));
    assert!(world.is_closed(client));
    assert_eq!(world.times_heard("COMMIT"), 0);
}

#[test]
fn a_client_that_awaits_nothing_is_told_nothing_of_a_stop_or_a_kill() {
    type End = fn(&mut TestWorker);
    fn stop(world: &mut TestWorker) {
        let deadline_ms = world.core().env.now.ms();
        world.happens(|worker| worker.stop_gracefully(deadline_ms));
    }
    fn kill(world: &mut TestWorker) {
        let asker = KillAsker { worker: 0, client: None, ticket: 1 };
        let request = KillRequest { number: 1, scope: KillScope::Session, user: None, asker };
        world.happens(|worker| worker.kill_asked(request));
    }
    let not_run = "Server shutdown in progress: this statement was not carried out";
    let ends: [(End, String); 2] = [
        (stop, format!("error 1053: {not_run}")),
        (kill, "error 1317: Query execution was interrupted".to_owned()),
    ];
    for (end, told) in ends {
        let (mut world, client) = in_transaction("");
        lose_idle(&mut world);
        assert_eq!(world.asked(), ["BEGIN"]);
        end(&mut world);
        assert_eq!(world.got(client), b"");
        assert!(world.is_closed(client));

        let (mut world, client) = in_transaction("");
        let update = "UPDATE s.t SET a = 2";
        world.ask(client, update);
        let conn = world.conn_asked(update);
        world.lose(conn);
        assert_eq!(world.asked(), ["BEGIN"]);
        end(&mut world);
        let answer = world.answer(client);
        assert_eq!(answer, told);
    }
}
