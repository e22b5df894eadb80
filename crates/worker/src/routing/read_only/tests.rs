use super::*;
use crate::tests::analysis;

const CLEAN: Proof = Proof { reads: false, hidden: Hidden::empty() };

fn acts(text: &str) -> bool {
    may_act(&analysis(text), CLEAN)
}

#[test]
fn what_writes_acts_where_data_can_not_be_changed_too() {
    for text in [
        "INSERT INTO t VALUES (1)",
        "REPLACE INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "SELECT a FROM t FOR UPDATE",
        "CALL p()",
    ] {
        assert!(acts(text), "{text}");
    }
}

#[test]
fn what_leaves_something_in_the_session_acts() {
    for text in [
        "SELECT GET_LOCK('a', 1)",
        "SELECT @a := 1",
        "SELECT LAST_INSERT_ID(5)",
        "SAVEPOINT a",
        "CREATE TEMPORARY TABLE t (a INT)",
        "PREPARE s FROM 'SELECT 1'",
    ] {
        assert!(acts(text), "{text}");
    }
}

#[test]
fn a_function_that_is_not_known_may_act() {
    assert!(acts("SELECT f()"));
}

#[test]
fn what_looks_does_not_act() {
    for text in ["SELECT a FROM t", "SHOW TABLES", "SELECT @@server_id", "SET NAMES latin1"] {
        assert!(!acts(text), "{text}");
    }
}

#[test]
fn what_is_proven_to_read_does_not_act() {
    let proof = Proof { reads: true, hidden: Hidden::empty() };
    assert!(!may_act(&analysis("SELECT f()"), proof));
}

#[test]
fn what_stands_behind_a_name_may_act() {
    let select = analysis("SELECT a FROM t");
    for hidden in [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS, Hidden::UNKNOWN] {
        assert!(may_act(&select, Proof { reads: false, hidden }), "{hidden:?}");
    }
    for hidden in [Hidden::VARIES, Hidden::READS_SESSION] {
        assert!(!may_act(&select, Proof { reads: false, hidden }), "{hidden:?}");
    }
}

#[test]
fn a_variable_that_only_a_server_can_compute_acts() {
    assert!(acts("SET @a = (SELECT 1)"));
    assert!(acts("SET GLOBAL time_zone = '+01:00'"));
    assert!(!acts("SET time_zone = '+01:00'"));
}

#[test]
fn only_one_statement_that_asks_looks() {
    let looks = |text: &str| only_looks(&analysis(text), CLEAN);
    assert!(looks("SELECT a FROM t") && looks("SHOW REPLICA STATUS") && looks("DESCRIBE t"));
    assert!(!looks("SELECT 1; SELECT 2"));
    assert!(!looks("SET @a = 1") && !looks("BEGIN") && !looks("DELETE FROM t"));
}

fn ends(text: &str, flavor: Flavor) -> bool {
    ends_for_writer(&analysis(text), flavor)
}

#[test]
fn a_plain_begin_writes_on_mariadb_and_goes_on_reading_on_mysql() {
    assert!(ends("BEGIN", Flavor::MariaDb));
    assert!(!ends("BEGIN", Flavor::MySql));
}

#[test]
fn a_begin_that_says_how_is_taken_at_its_word() {
    for flavor in [Flavor::MySql, Flavor::MariaDb] {
        assert!(ends("START TRANSACTION READ WRITE", flavor));
        assert!(!ends("START TRANSACTION READ ONLY", flavor));
    }
}

#[test]
fn what_commits_by_itself_or_locks_tables_is_for_the_writer() {
    for text in ["CREATE TABLE t (a INT)", "LOCK TABLES t READ"] {
        assert!(ends(text, Flavor::MySql), "{text}");
    }
}

#[test]
fn the_end_of_a_transaction_alone_needs_no_writer() {
    assert!(!ends("COMMIT", Flavor::MariaDb) && !ends("ROLLBACK", Flavor::MariaDb));
}

#[test]
fn behind_the_end_several_statements_may_write_unless_all_read() {
    assert!(ends("COMMIT; INSERT INTO t VALUES (1)", Flavor::MySql));
    assert!(!ends("COMMIT; SELECT a FROM t", Flavor::MySql));
}

#[test]
fn what_begins_among_others_may_write_unless_all_read() {
    assert!(may_write_behind(&analysis("BEGIN; INSERT INTO t VALUES (1)")));
    assert!(!may_write_behind(&analysis("BEGIN; SELECT a FROM t")));
    assert!(!may_write_behind(&analysis("BEGIN")));
}
