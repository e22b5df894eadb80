use trunkline_catalog::{Hidden, Name, Object};
use trunkline_protocol::packet::{ok::OkPacket, status};
use trunkline_sql::{analysis::analyse, token::Modes};
use trunkline_topology::{
    HostgroupId,
    outcome::{MarkName, Reading},
};

use super::*;
use crate::{
    cache::until::OwnWrites,
    kill::{KillAsker, KillRequest, KillScope},
    tests::{MYSQL, OK, ONE_CONNECTION, Reply, Setup, TWO_SERVERS, TestWorker, tells_gtid},
};

const FLAGS: u16 = status::AUTOCOMMIT | status::IN_TRANS;
const IN_TRANS: Reply<'_> = Reply::Says(OkPacket { status: FLAGS, ..OK });
const WROTE: Reply<'_> = Reply::Says(OkPacket { status: FLAGS, affected_rows: 1, ..OK });
const INSERT: &str = "INSERT INTO s.t VALUES (1)";
const MARKS: &str = "SET @@SESSION.server_id=";

fn with(settings: &str) -> TestWorker {
    TestWorker::with(&format!("commit_outcome = \"auto\"\n{settings}\n{TWO_SERVERS}"))
}

/// With one server and a client: its connections follow one another, while somebody else's stands.
fn with_one() -> (TestWorker, ClientId) {
    let two = ONE_CONNECTION.replace("max_connections = 1", "max_connections = 2");
    let mut world = TestWorker::with(&format!("commit_outcome = \"auto\"\n{two}"));
    let other = world.log_in();
    world.run(other, "BEGIN", IN_TRANS);
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    (world, client)
}

/// A client whose `COMMIT` is lost with its connection, and what is asked.
fn lost_commit(settings: &str) -> (TestWorker, ClientId, OutcomeAsk) {
    let mut world = with(settings);
    let client = world.log_in();
    world.run(client, "BEGIN", IN_TRANS);
    world.run(client, INSERT, WROTE);
    let ask = lose(&mut world, client, "COMMIT").expect("somebody is asked");
    assert_eq!(world.answer(client), "", "the client waits");
    (world, client, ask)
}

/// Loses the connection on which this text runs; what is asked then.
fn lose(world: &mut TestWorker, client: ClientId, text: &str) -> Option<OutcomeAsk> {
    world.actions();
    world.ask(client, text);
    let conn = world.conn_asked(text);
    world.lose(conn);
    world.actions().into_iter().find_map(|action| match action {
        Action::FindOutcome(ask) => Some(*ask),
        _ => None,
    })
}

fn found(world: &mut TestWorker, ask: &OutcomeAsk, outcome: Outcome) {
    let mark = (!matches!(outcome, Outcome::Unknown(_))).then(|| ask.mark.clone());
    let (ticket, server) = (ask.ticket, ask.server.key.clone());
    let found = OutcomeFound { ticket, outcome, server, mark };
    let client = ask.client;
    world.happens(|worker| worker.outcome_found(client, found));
}

#[test]
fn a_commit_that_was_carried_out_is_answered_with_ok() {
    let (mut world, client, ask) = lost_commit("");
    assert_eq!(world.doing(client), "finding out whether it was committed");
    found(&mut world, &ask, Outcome::Committed);
    assert_eq!(world.answer(client), "ok");
    assert!(!world.session(client).is_in_transaction());
    assert_eq!(world.run(client, INSERT, Reply::Ok), "ok");
    assert_eq!(world.times_heard("COMMIT"), 1);
    assert_eq!(world.core().fx.stats.counters.commit_outcomes_committed, 1);
    assert!(world.core().servers.logins.marks.doubts.is_empty());
}

#[test]
fn one_that_was_not_is_told_1213_and_its_session_goes_on() {
    let (mut world, client, ask) = lost_commit("");
    found(&mut world, &ask, Outcome::NotCommitted);
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1213: the transaction was rolled back"), "{answer}");
    assert!(!world.is_closed(client) && !world.session(client).is_in_transaction());
    assert_eq!(world.run(client, INSERT, Reply::Ok), "ok");
    assert_eq!(world.times_heard("COMMIT"), 1, "it is not sent again");
}

#[test]
fn one_that_was_not_is_repeated_with_its_transaction_where_that_is_wanted() {
    let (mut world, client, ask) = lost_commit("transaction_replay = true");
    found(&mut world, &ask, Outcome::NotCommitted);
    world.reply("BEGIN", IN_TRANS);
    world.reply(INSERT, WROTE);
    world.reply("COMMIT", Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.times_heard("COMMIT"), 2);
    // What was carried out never is.
    let (mut world, client, ask) = lost_commit("transaction_replay = true");
    found(&mut world, &ask, Outcome::Committed);
    assert_eq!(world.answer(client), "ok");
    assert_eq!((world.times_heard("COMMIT"), world.times_heard("INSERT")), (1, 1));
}

#[test]
fn where_nobody_knows_the_session_ends_with_2013_which_says_why() {
    let (mut world, client, ask) = lost_commit("");
    found(&mut world, &ask, Outcome::Unknown(Unknown::Time));
    let answer = world.answer(client);
    assert!(answer.starts_with("error 2013") && answer.contains("nobody knows"), "{answer}");
    assert!(world.is_closed(client));
    assert_eq!(world.core().fx.stats.counters.commit_outcomes_time, 1);
}

#[test]
fn nobody_waits_for_ever() {
    let (mut world, client, ask) = lost_commit("commit_outcome_timeout = 500");
    world.pass_ms(1_400);
    assert_eq!(world.answer(client), "");
    world.pass_ms(200);
    assert!(world.answer(client).starts_with("error 2013"));
    // What comes later finds nobody.
    found(&mut world, &ask, Outcome::Committed);
    assert_eq!(world.answer(client), "");
}

#[test]
fn what_comes_too_late_is_not_taken_for_the_next_write() {
    let mut world = with("commit_outcome_timeout = 500");
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    let first = lose(&mut world, client, INSERT).expect("somebody is asked");
    world.pass_ms(1_600);
    assert!(world.answer(client).starts_with("error 2013"));
    world.run(client, INSERT, Reply::Ok);
    let second = lose(&mut world, client, INSERT).expect("somebody is asked");
    found(&mut world, &first, Outcome::NotCommitted);
    assert_eq!(world.answer(client), "", "that was the other one");
    found(&mut world, &second, Outcome::Committed);
    let told = world.answer(client);
    assert!(told.contains("the statement was carried out"), "{told}");
}

#[test]
fn the_first_write_of_a_transaction_is_none_in_autocommit() {
    let mut world = with("lazy_transactions = \"begin\"");
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    assert_eq!(world.answered(client, "BEGIN"), "ok");
    world.ask(client, INSERT);
    world.reply("START TRANSACTION", IN_TRANS);
    let conn = world.conn_asked(INSERT);
    world.lose(conn);
    let asks = |action: &Action| matches!(action, Action::FindOutcome(_));
    assert!(!world.actions().iter().any(asks), "it was certainly not committed");
    assert!(world.answer(client).starts_with("error 2013"));
    assert!(world.is_closed(client), "the transaction that it has begun is none any more");
}

#[test]
fn what_a_session_has_the_server_not_report_leaves_a_doubt() {
    let config = format!("commit_outcome = \"auto\"\n{TWO_SERVERS}");
    let mut world = TestWorker::of(Setup { config: &config, version: MYSQL, ..Setup::default() });
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    let ask = lose(&mut world, client, INSERT).expect("somebody is asked");
    found(&mut world, &ask, Outcome::NotCommitted);
    world.answer(client);
    world.run(client, INSERT, Reply::Ok);
    world.run(client, "SET session_track_gtids = 'OWN_GTID'", Reply::Ok);
    world.run(client, "SET session_track_gtids = 'OFF'", Reply::Ok);
    world.run(client, INSERT, Reply::Ok);
    assert!(lose(&mut world, client, INSERT).is_none(), "the one before was not told");
    assert!(world.answer(client).starts_with("error 2013"));
}

#[test]
fn a_kill_does_not_say_that_it_was_interrupted() {
    let (mut world, client, ask) = lost_commit("");
    let number = world.core().clients.get(client).expect("a client").origin.number;
    let asker = KillAsker { worker: 0, client: None, ticket: 7 };
    let request = KillRequest { number, scope: KillScope::Statement, asker, user: None };
    world.happens(|worker| worker.kill_asked(request));
    assert_eq!(world.answer(client), "");
    found(&mut world, &ask, Outcome::Committed);
    assert_eq!(world.answer(client), "ok");
}

#[test]
fn whoever_ends_it_does_not_say_that_nothing_was_carried_out() {
    let (mut world, client, _) = lost_commit("");
    let number = world.core().clients.get(client).expect("a client").origin.number;
    let asker = KillAsker { worker: 0, client: None, ticket: 7 };
    let request = KillRequest { number, scope: KillScope::Session, user: None, asker };
    world.happens(|worker| worker.kill_asked(request));
    let answer = world.answer(client);
    assert!(answer.starts_with("error 2013"), "{answer}");
    let (mut world, client, _) = lost_commit("");
    world.happens(|worker| worker.stop_gracefully(0));
    world.pass_ms(10);
    let answer = world.answer(client);
    assert!(answer.starts_with("error 1053") && !answer.contains("not carried out"), "{answer}");
}

#[test]
fn a_client_that_goes_leaves_nothing() {
    let (mut world, client, ask) = lost_commit("");
    world.leave(client);
    found(&mut world, &ask, Outcome::Committed);
    assert!(world.core().servers.logins.marks.doubts.is_empty());
}

#[test]
fn a_write_that_was_carried_out_is_one_of_its_sessions_own() {
    let mut world = with("");
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    let ask = lose(&mut world, client, INSERT).expect("somebody is asked");
    world.session(client).settings.own_writes = OwnWrites::default();
    found(&mut world, &ask, Outcome::Committed);
    assert_ne!(world.session(client).settings.own_writes, OwnWrites::default());
}

#[test]
fn a_write_that_was_carried_out_is_told_so_without_figures() {
    let mut world = with("");
    let client = world.log_in();
    for (outcome, answer) in [
        (Outcome::Committed, "error 2013"),
        (Outcome::NotCommitted, "error 1213"),
        (Outcome::Unknown(Unknown::Time), "error 2013"),
    ] {
        // The mark of a new connection counts once its server has answered.
        world.run(client, INSERT, Reply::Ok);
        let ask = lose(&mut world, client, INSERT).expect("somebody is asked");
        found(&mut world, &ask, outcome);
        let told = world.answer(client);
        assert!(told.starts_with(answer), "{told}");
        let says_done = told.contains("the statement was carried out");
        assert_eq!(says_done, outcome == Outcome::Committed, "{told}");
        assert!(!world.is_closed(client));
    }
    assert_eq!(world.times_heard("INSERT"), 6);
}

#[test]
fn a_mark_is_set_once_and_used_again_when_all_is_known() {
    let (mut world, client) = with_one();
    let before = world.times_heard(MARKS);
    world.run(client, INSERT, Reply::Ok);
    assert_eq!(world.times_heard(MARKS), before);
    let one = lose(&mut world, client, INSERT).expect("somebody is asked");
    found(&mut world, &one, Outcome::NotCommitted);
    world.answer(client);
    world.run(client, INSERT, Reply::Ok);
    let two = lose(&mut world, client, INSERT).expect("somebody is asked");
    assert_eq!(one.mark.name(), two.mark.name());
    // Of this one nobody knows what was committed under it.
    found(&mut world, &two, Outcome::Unknown(Unknown::Time));
    world.answer(client);
    world.run(client, INSERT, Reply::Ok);
    let three = lose(&mut world, client, INSERT).expect("somebody is asked");
    assert!(two.mark.name() != three.mark.name());
}

#[test]
fn what_a_server_has_told_is_told() {
    let (mut world, client) = with_one();
    let number = |ask: &OutcomeAsk| match ask.mark.name() {
        MarkName::ServerId(id) => id,
        MarkName::Tag(tag) => panic!("{tag:?} on MariaDB"),
    };
    let ask = lose(&mut world, client, INSERT).expect("somebody is asked");
    let id = number(&ask);
    found(&mut world, &ask, Outcome::NotCommitted);
    world.answer(client);
    world.run(client, INSERT, Reply::Ok);
    let changes = tells_gtid(&format!("0-{id}-5")).changes;
    let status = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
    world.run(client, INSERT, Reply::Says(OkPacket { status, changes: &changes, ..OK }));
    let ask = lose(&mut world, client, INSERT).expect("somebody is asked");
    let read = |text: &str| ask.mark.read(text).expect("a state");
    assert_eq!(read(&format!("0-1-4,0-{id}-5")), Reading::AllTold);
    assert_eq!(read(&format!("0-1-4,0-{id}-6")), Reading::Untold);
}

#[test]
fn what_may_have_committed_something_unseen_leaves_a_doubt() {
    let mut world = with("");
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    world.run(client, "CREATE TABLE s.x (a INT)", Reply::Error(1050, "exists"));
    assert!(lose(&mut world, client, INSERT).is_none());
    assert!(world.answer(client).starts_with("error 2013"));
    assert_eq!(world.core().fx.stats.counters.commit_outcomes_doubt, 1);
}

#[test]
fn what_is_logged_though_its_transaction_is_rolled_back_leaves_a_doubt() {
    for (text, is_in_doubt) in
        [("DROP TEMPORARY TABLE IF EXISTS s.x", true), ("SAVEPOINT x", false)]
    {
        let mut world = with("");
        let client = world.log_in();
        world.run(client, INSERT, Reply::Ok);
        world.run(client, "BEGIN", IN_TRANS);
        world.run(client, INSERT, WROTE);
        world.run(client, text, IN_TRANS);
        assert_eq!(lose(&mut world, client, "COMMIT").is_none(), is_in_doubt, "{text}");
    }
}

#[test]
fn a_write_that_may_have_left_a_part_of_its_rows_is_not_looked_for() {
    for (writing, is_looked_for) in [
        (Hidden::empty(), true),
        (Hidden::STAYS_WRITTEN, false),
        // A trigger whose text nobody may see.
        (Hidden::UNKNOWN | Hidden::GIVES_VALUES, false),
    ] {
        let mut world = with("");
        let client = world.log_in();
        world.run(client, INSERT, Reply::Ok);
        let group = HostgroupId(10);
        let name = Name { group, schema: (*b"s").into(), table: (*b"kept").into() };
        let object = Object { writing, ..Object::PLAIN_TABLE };
        world.core().env.shared.catalog().store(name, Some(object), u64::MAX);
        let ask = lose(&mut world, client, "INSERT INTO s.kept VALUES (1), (2)");
        assert_eq!(ask.is_some(), is_looked_for, "{writing:?}");
        if !is_looked_for {
            assert!(world.answer(client).starts_with("error 2013"));
            assert_eq!(world.core().fx.stats.counters.commit_outcomes_statement, 1);
        }
    }
}

#[test]
fn what_can_t_be_looked_for_is_counted() {
    let mut world = with("");
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    assert!(lose(&mut world, client, "CREATE TABLE s.x (a INT)").is_none());
    assert_eq!(world.core().fx.stats.counters.commit_outcomes_statement, 1);
    // The server has not confirmed the mark of a connection that is lost at once.
    let mut off = TestWorker::new();
    let client = off.log_in();
    off.run(client, INSERT, Reply::Ok);
    assert!(lose(&mut off, client, INSERT).is_none());
    assert_eq!(off.times_heard(MARKS), 0);
}

#[test]
fn what_commits_once_is_looked_for() {
    for (text, expected) in [
        ("COMMIT", Some(Sought::Commit)),
        ("commit work", Some(Sought::Commit)),
        ("INSERT INTO t VALUES (1)", Some(Sought::Write)),
        ("UPDATE t SET a = 1", Some(Sought::Write)),
        ("DELETE FROM t", Some(Sought::Write)),
        ("REPLACE INTO t VALUES (1)", Some(Sought::Write)),
        ("COMMIT AND CHAIN", None),
        ("COMMIT RELEASE", None),
        ("COMMIT; INSERT INTO t VALUES (1)", None),
        ("CALL p()", None),
        ("CREATE TABLE t (a INT)", None),
        ("XA COMMIT 'x'", None),
        ("INSERT INTO t VALUES (@a := 1)", None),
        ("LOAD DATA INFILE 'x' INTO TABLE t", None),
        ("SELECT 1", None),
    ] {
        let analysis = analyse(text.as_bytes(), &Modes::default());
        assert_eq!(Sought::of(&analysis), expected, "{text}");
    }
}
