use super::*;
use crate::tests::TestWorker;

fn says(text: &str) -> bool {
    let mut world = TestWorker::new();
    let statement = world.statement(text);
    says_state(&statement)
}

#[test]
fn what_begins_or_ends_a_transaction_says_state() {
    for text in ["BEGIN", "COMMIT", "SET autocommit = 0", "CREATE TABLE t (a INT)"] {
        assert!(says(text), "{text}");
    }
}

#[test]
fn what_sets_or_locks_something_says_state() {
    for text in ["SET @a = 1", "USE s", "LOCK TABLES t READ", "SELECT GET_LOCK('a', 1)"] {
        assert!(says(text), "{text}");
    }
}

#[test]
fn reads_and_plain_writes_say_no_state() {
    for text in ["SELECT 1", "INSERT INTO t VALUES (1)", "SELECT SQL_CALC_FOUND_ROWS a FROM t"] {
        assert!(!says(text), "{text}");
    }
}

#[test]
fn a_command_that_chooses_a_schema_or_resets_says_state() {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT 1");
    for (purpose, expected) in [
        (Purpose::InitDb(b"s"[..].into()), true),
        (Purpose::Reset, true),
        (Purpose::Prepare, false),
        (Purpose::Other, false),
    ] {
        statement.command.purpose = purpose.clone();
        assert_eq!(says_state(&statement), expected, "{purpose:?}");
    }
}

#[test]
fn without_autocommit_a_write_makes_state() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let write = world.statement("INSERT INTO t VALUES (1)");
    let mut read = world.statement("SELECT a FROM t");
    read.meaning.is_read = true;
    assert!(!makes_state(&write, world.session(client)));
    let session = world.session(client);
    let mut state = (*session.settings.state).clone();
    state.set_variable("autocommit", b"0");
    session.settings.state = state.into();
    assert!(makes_state(&write, session));
    assert!(!makes_state(&read, session));
}

#[test]
fn a_statement_of_several_parts_is_told_from_one() {
    let mut world = TestWorker::new();
    for (text, expected) in [
        ("SELECT 1; SELECT 2", true),
        ("CALL p()", true),
        ("EXECUTE s", true),
        ("SELECT 1", false),
        ("INSERT INTO t VALUES (1), (2)", false),
    ] {
        assert_eq!(has_parts(&world.statement(text)), expected, "{text}");
    }
}

#[test]
fn what_was_withheld_has_timed_out_however_it_ended() {
    assert!(has_timed_out(Some(Ending::Withheld), true));
    assert!(has_timed_out(Some(Ending::Withheld), false));
}

#[test]
fn what_was_sent_is_not_said_to_have_been_interrupted() {
    assert!(has_timed_out(Some(Ending::TimedOut), false));
    assert!(!has_timed_out(Some(Ending::TimedOut), true));
}

#[test]
fn what_was_killed_or_runs_on_has_not_timed_out() {
    assert!(!has_timed_out(Some(Ending::Killed), false));
    assert!(!has_timed_out(None, false));
}

#[test]
fn what_was_not_sent_has_not_been_tried_however_often_it_was_lost() {
    let mut world = TestWorker::new();
    let mut target = world.statement("SELECT 1").target;
    target.retries_left = 1;
    // A dead connection after another, then one that takes it and dies, then another.
    assert!((0..LOST_UNSENT_MAX).all(|_| target.may_try_again(false)));
    assert!(target.may_try_again(true));
    assert!(!target.may_try_again(true));
    // Not without end.
    assert!(!target.may_try_again(false));
}
