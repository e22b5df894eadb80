use super::*;
use crate::tests::analysis;

fn check(text: &str, expected: &[&str]) {
    assert_eq!(lines(&analysis(text)), expected, "{text}");
}

#[test]
fn a_read_leaves_nothing_to_be_said() {
    check("SELECT a FROM t", &[]);
}

#[test]
fn transactions_are_said_with_what_follows_them() {
    check("BEGIN", &["a transaction begins"]);
    check("START TRANSACTION READ ONLY", &["a read-only transaction begins"]);
    check("COMMIT AND CHAIN", &["the transaction ends by a commit, another one begins"]);
    check("ROLLBACK RELEASE", &["the transaction ends by a rollback, and the connection"]);
}

#[test]
fn what_autocommit_becomes_is_said_where_it_is_known() {
    let first = |text: &str| lines(&analysis(text)).into_iter().next();
    assert_eq!(first("SET autocommit = 1").as_deref(), Some("autocommit is on"));
    assert_eq!(first("SET autocommit = 0").as_deref(), Some("autocommit is off"));
    assert_eq!(first("SET autocommit = @a").as_deref(), Some("autocommit changes"));
}

#[test]
fn tables_are_said_by_their_names() {
    check("CREATE TEMPORARY TABLE s.t (a INT)", &["temporary table s.t is made"]);
    check("DROP TEMPORARY TABLE a, b", &["temporary table a, b is dropped"]);
}

#[test]
fn locks_are_said_by_their_names() {
    check("SELECT GET_LOCK('a', 1)", &["lock a is held"]);
    check("SELECT RELEASE_LOCK('a')", &["lock a is released"]);
    check("DO RELEASE_ALL_LOCKS()", &["all named locks are released"]);
    check("UNLOCK TABLES", &["an open transaction is committed first", "tables are unlocked"]);
}

#[test]
fn what_is_set_is_said_by_its_name_and_never_its_value() {
    check("SET @secret = 'x', time_zone = '+01:00'", &["set: @secret, time_zone"]);
    check("SET NAMES latin1", &["set: NAMES"]);
}

#[test]
fn prepared_statements_are_said_by_their_names() {
    check("PREPARE s FROM 'SELECT 1'", &["statement s is prepared"]);
    check("DEALLOCATE PREPARE s", &["statement s is dropped"]);
    check("EXECUTE s", &["statement s runs"]);
}

#[test]
fn whom_a_kill_ends_is_said() {
    check("KILL 5", &["ends connection 5"]);
    check("KILL QUERY 5", &["ends the statement of connection 5"]);
}

#[test]
fn several_statements_are_said_one_by_one() {
    let said = lines(&analysis("BEGIN; SET @a = 1; COMMIT"));
    let expected = ["a transaction begins", "set: @a", "the transaction ends by a commit"];
    assert!(said.ends_with(&expected.map(str::to_owned)), "{said:?}");
}
