use trunkline_sql::{analysis::analyse, token::Modes};

use super::*;

fn of(text: &str) -> FoundRows {
    let analysis = analyse(text.as_bytes(), &Modes::default());
    FoundRows::of(&analysis, Some(text.as_bytes()))
}

#[test]
fn what_selects_changes_what_was_found() {
    for text in ["SELECT 1", "SELECT a INTO @x FROM t", "SHOW TABLES", "DESCRIBE t"] {
        assert_eq!(of(text), FoundRows::Answer, "{text}");
    }
    assert_eq!(of("SELECT 1 UNION SELECT 2 LIMIT 1"), FoundRows::AnswerOnMySql);
    assert_eq!(of("SELECT 1 UNION SELECT 2"), FoundRows::Answer);
    for text in
        ["SELECT a FROM t LIMIT ?,?", "SELECT a FROM t LIMIT ? OFFSET ?", "TABLE t LIMIT ?,?"]
    {
        assert_eq!(of(text), FoundRows::Counted, "{text}");
    }
    assert_eq!(of("SELECT a, b FROM t LIMIT ?"), FoundRows::Answer);
    for text in ["INSERT INTO t VALUES (1)", "SET @x = 1", "SHOW CREATE TABLE t", "COMMIT"] {
        assert_eq!(of(text), FoundRows::Stays, "{text}");
    }
    assert_eq!(of("SHOW COUNT ( * ) WARNINGS"), FoundRows::Answer);
    assert_eq!(of("SHOW WARNINGS"), FoundRows::Stays);
    assert_eq!(of("SELECT @@warning_count INTO @a"), FoundRows::Counted);
    assert_eq!(of("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1"), FoundRows::Counted);
    for text in ["DROP TABLE t", "SIGNAL SQLSTATE '45000'", "CREATE VIEW v AS SELECT 1"] {
        assert_eq!(of(text), FoundRows::Stays, "{text}");
    }
    assert_eq!(of("SET @x = (SELECT 1)"), FoundRows::Untold);
    assert_eq!(of("CREATE TABLE t SELECT 1"), FoundRows::StaysOnMySql);
    assert_eq!(of("EXPLAIN SELECT * FROM (SELECT 1) AS t"), FoundRows::Untold);
    for text in ["VALUES ROW(1), ROW(2)", "(VALUES(1),(2))"] {
        assert_eq!(of(text), FoundRows::CountedOnMySql, "{text}");
    }
    assert_eq!(of("SET STATEMENT timestamp = 1 FOR SELECT NOW()"), FoundRows::Answer);
    for text in ["DELETE FROM t WHERE a IN (SELECT 1)", "CALL p()", "SELECT 1; SELECT 2"] {
        assert_eq!(of(text), FoundRows::Untold, "{text}");
    }
    assert_eq!(of("INSERT INTO t SELECT 1"), FoundRows::Counted);
    assert_eq!(of("UPDATE t SET a = 1"), FoundRows::Matched);
    assert_eq!(of("UPDATE t, u SET t.a = u.a"), FoundRows::Counted);
    assert_eq!(of("DO 1"), FoundRows::One);
    assert_eq!(of("DO (SELECT 1)"), FoundRows::CountedOnMySql);
    assert_eq!(of("UPDATE t SET a = (SELECT 1)"), FoundRows::CountedOnMySql);
    assert_eq!(of("DELETE FROM t"), FoundRows::Stays);
    assert_eq!(of("DELETE t FROM t, u"), FoundRows::Counted);
}

#[test]
fn several_rows_may_fail_half_way() {
    let may = |text: &str| {
        let analysis = analyse(text.as_bytes(), &Modes::default());
        may_fail_half_way(&analysis, Some(text.as_bytes()))
    };
    assert!(may("INSERT INTO t VALUES (?,?) , (?,?)"));
    assert!(may("INSERT INTO t SELECT * FROM u"));
    assert!(!may("INSERT INTO t (a, b) VALUES (?, ?)"));
    assert!(!may("UPDATE t SET a = 1"));
}
