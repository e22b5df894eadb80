//! Tables that texts name.

use proptest::prelude::*;

use crate::{
    analysis::{Analysis, TableAccess, analyse},
    token::{Encoding, Modes},
};

/// What is found, as `name` for each table that is read and `name!` for one that may be written;
/// `?` if it is not all.
fn found(analysis: &Analysis) -> String {
    let references = &analysis.references;
    if !references.is_whole {
        return "?".to_owned();
    }
    let name = |used: &crate::analysis::TableUse| {
        let schema = used.name.schema.as_deref().map(String::from_utf8_lossy);
        let schema = schema.map(|schema| format!("{schema}.")).unwrap_or_default();
        let mark = if used.access == TableAccess::Write { "!" } else { "" };
        format!("{schema}{}{mark}", String::from_utf8_lossy(&used.name.table))
    };
    references.tables.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn check(modes: &Modes, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(found(&analyse(text.as_bytes(), modes)), *expected, "{text}");
    }
}

/// In both families.
fn check_both(cases: &[(&str, &str)]) {
    for flavor_mariadb in [false, true] {
        check(&Modes { flavor_mariadb, ..Modes::default() }, cases);
    }
}

#[test]
// long: one list of cases.
fn tables_stand_in_lists() {
    check_both(&[
        ("SELECT 1", ""),
        ("SELECT 1;", ""),
        ("SELECT 1 FROM DUAL", ""),
        ("SELECT 1 FROM dual WHERE 1", ""),
        ("SELECT 1 FROM d.dual", "d.dual"),
        ("SELECT 1 FROM `dual`", "dual"),
        ("SELECT 1 FROM dual.t", "dual.t"),
        ("SELECT * FROM t1", "t1"),
        ("select * from T1", "T1"),
        ("SELECT * FROM d.t1", "d.t1"),
        ("SELECT * FROM d . t1", "d.t1"),
        ("SELECT * FROM `d`.`t1`", "d.t1"),
        ("SELECT * FROM`t1`", "t1"),
        ("SELECT * FROM `a``b`", "a`b"),
        ("SELECT * FROM `t 1`, `from`", "t 1 from"),
        ("SELECT * FROM d.from", "d.from"),
        ("SELECT * FROM t1, t2", "t1 t2"),
        ("SELECT * FROM t1 a, t2 AS b, t3 'c', t4 AS \"d\", t5 `e`", "t1 t2 t3 t4 t5"),
        ("SELECT * FROM t1, t1, d.t1, t1 AS x", "t1 d.t1"),
        ("SELECT * FROM t1 JOIN t2", "t1 t2"),
        ("SELECT * FROM t1 INNER JOIN t2 ON t1.a = t2.a", "t1 t2"),
        ("SELECT * FROM t1 a LEFT JOIN t2 b USING (a, b), t3", "t1 t2 t3"),
        ("SELECT * FROM t1 RIGHT OUTER JOIN t2 ON 1, t3 NATURAL JOIN t4", "t1 t2 t3 t4"),
        ("SELECT * FROM t1 CROSS JOIN t2 STRAIGHT_JOIN t3 ON LEFT(a, 1) = 'x'", "t1 t2 t3"),
        ("SELECT STRAIGHT_JOIN a FROM t1", "t1"),
        ("SELECT * FROM t1 JOIN t2 JOIN t3 ON 1 ON 2, t4", "t1 t2 t3 t4"),
        ("SELECT * FROM t1 JOIN t2 ON a IN (1, 2, 3), t3", "t1 t2 t3"),
        ("SELECT * FROM t1 JOIN t2 ON EXISTS (SELECT 1 FROM t3, t4), t5", "t1 t2 t3 t4 t5"),
        ("SELECT * FROM (t1)", "t1"),
        ("SELECT * FROM (t1, t2), t3", "t1 t2 t3"),
        ("SELECT * FROM ((t1 a, t2) JOIN (t3, (t4)) ON 1), t5", "t1 t2 t3 t4 t5"),
        ("SELECT * FROM (t1 JOIN t2 USING (a)) WHERE 1", "t1 t2"),
        ("SELECT * FROM (SELECT * FROM t1) AS d", "t1"),
        ("SELECT * FROM (SELECT * FROM t1, t2) d (a, b), t3", "t1 t2 t3"),
        ("SELECT * FROM (SELECT 1 UNION SELECT a FROM t1) d, t2", "t1 t2"),
        ("SELECT * FROM ((SELECT a FROM t1) UNION (SELECT a FROM t2)) d, t3", "t1 t2 t3"),
        ("SELECT * FROM ((SELECT a FROM t1) UNION SELECT a FROM t2, t4) d, t3", "t1 t2 t4 t3"),
        ("SELECT * FROM (((SELECT a FROM t1))) d, t2", "t1 t2"),
        ("SELECT * FROM ((SELECT a FROM t1) d, t2), t3", "t1 t2 t3"),
        ("SELECT * FROM (VALUES ROW(1, 2)) v, t1", "t1"),
        ("SELECT * FROM (TABLE t1) v, t2", "t1 t2"),
        ("SELECT * FROM t1, LATERAL (SELECT * FROM t2 WHERE t2.a = t1.a) d, t3", "t1 t2 t3"),
        (
            "SELECT * FROM t1, JSON_TABLE(t1.j, '$[*]' COLUMNS (n FOR ORDINALITY, \
             a INT PATH '$.a' DEFAULT '1' ON EMPTY, NESTED PATH '$.b' COLUMNS (c INT PATH '$')))\
             AS j, t2",
            "t1 t2",
        ),
        ("SELECT * FROM JSON_TABLE((SELECT j FROM t1), '$' COLUMNS (a INT PATH '$')) j", "t1"),
        ("SELECT * FROM f(1)", "?"),
        ("SELECT * FROM t1, f(1) AS x", "?"),
        ("SELECT * FROM {OJ t1 LEFT OUTER JOIN t2 ON 1}", "?"),
        ("SELECT * FROM t1, {oj t2}", "?"),
        ("SELECT {d '2020-01-01'}, {fn now()} FROM t1", "t1"),
        ("SELECT * FROM t1 WHERE a = {ts '2020-01-01'}", "t1"),
        ("SELECT * FROM t1 PARTITION (p0, p1) AS a, t2", "t1 t2"),
        ("SELECT * FROM t1 USE INDEX (a, b), t2", "t1 t2"),
        ("SELECT * FROM t1 a FORCE INDEX FOR JOIN (a, b) IGNORE KEY (c), t2", "t1 t2"),
        (
            "SELECT * FROM t1 USE INDEX FOR ORDER BY (a), t2 USE INDEX FOR GROUP BY (b), t3",
            "t1 t2 t3",
        ),
        ("SELECT * FROM t1 USE INDEX (), t2", "t1 t2"),
        ("SELECT * FROM t1 TABLESAMPLE SYSTEM (10), t2", "t1 t2"),
        ("SELECT * FROM t1 FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01', t2", "t1 t2"),
        ("SELECT * FROM t1 FOR SYSTEM_TIME ALL, t2", "t1 t2"),
        ("SELECT * FROM t1 FOR SYSTEM_TIME BETWEEN 1 AND 2, t2", "t1 t2"),
        ("SELECT * FROM t1 FOR SYSTEM_TIME FROM 1 TO 2, t2", "t1 t2"),
        ("SELECT * FROM a.b.c", "?"),
        ("SELECT * FROM .t1", "?"),
        ("SELECT * FROM 't1'", "?"),
        ("SELECT * FROM", "?"),
        ("SELECT * FROM t1,", "?"),
        ("SELECT * FROM ()", "?"),
        ("SELECT * FROM (t1", "?"),
        ("SELECT * FROM t1)", "?"),
    ]);
}

#[test]
fn a_list_ends_at_its_clauses() {
    check_both(&[
        ("SELECT a FROM t1 WHERE b IN (1, 2) ORDER BY c, d LIMIT 1, 2", "t1"),
        ("SELECT a FROM t1 GROUP BY a, b HAVING c, d", "t1"),
        ("SELECT a FROM t1 GROUP BY a, b WITH ROLLUP", "t1"),
        ("SELECT a FROM t1 ORDER BY a, b", "t1"),
        ("SELECT a FROM t1 LIMIT 1, 2", "t1"),
        ("SELECT a FROM t1 INTO @a, @b", "t1"),
        ("SELECT a INTO @a, @b FROM t1, t2", "t1 t2"),
        ("SELECT a INTO OUTFILE 'x' FIELDS TERMINATED BY ',' FROM t1, t2", "t1 t2"),
        ("SELECT a FROM t1 INTO OUTFILE 'x' CHARACTER SET utf8 LINES STARTING BY 'a'", "t1"),
        ("SELECT a FROM t1 INTO DUMPFILE 'x'", "t1"),
        ("SELECT a INTO x FROM t1", "?"),
        ("SELECT a FROM t1, t2 FOR UPDATE", "t1 t2"),
        ("SELECT a FROM t1 x, t2 FOR UPDATE OF x, t2 SKIP LOCKED", "t1 t2"),
        ("SELECT a FROM t1 FOR SHARE NOWAIT", "t1"),
        ("SELECT a FROM t1 LOCK IN SHARE MODE", "t1"),
        ("SELECT a FROM t1 PROCEDURE ANALYSE(1, 2)", "t1"),
        ("SELECT a FROM t1 WINDOW w AS (PARTITION BY a, b), v AS (w)", "t1"),
        ("SELECT a FROM t1 window, t2", "t1 t2"),
        ("SELECT SUM(a) OVER (PARTITION BY b ORDER BY c, d) FROM t1, t2", "t1 t2"),
        (
            "SELECT SUM(a) OVER w FROM t1 WINDOW w AS (ORDER BY (SELECT b FROM t2)), x AS (w)",
            "t1 t2",
        ),
        ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) OVER () FROM t1, t2", "t1 t2"),
        ("SELECT a FROM t1 FETCH FIRST 2 ROWS WITH TIES", "t1"),
        ("SELECT a FROM t1 offset, t2", "t1 t2"),
        ("SELECT a FROM t1 WHERE 1 FROM t2", "?"),
        ("SELECT a FROM t1 WHERE 1 JOIN t2", "?"),
        ("SELECT a FROM t1 FROM t2", "?"),
        ("SELECT a FROM t1 WHERE SELECT 1", "?"),
        ("SELECT a UPDATE t1", "?"),
        ("SELECT a FROM t1 GROUP a, t2", "?"),
    ]);
}

#[test]
fn functions_have_a_from_without_tables() {
    check_both(&[
        ("SELECT EXTRACT(YEAR FROM a), TRIM(BOTH 'x' FROM b) FROM t1", "t1"),
        ("SELECT SUBSTRING(a FROM 1 FOR 2), SUBSTR(a FROM 2), MID(a FROM 1 FOR 3) FROM t1", "t1"),
        ("SELECT TRIM((SELECT a FROM t1) FROM (SELECT b FROM t2, t3)) FROM t4", "t1 t2 t3 t4"),
        ("SELECT TRIM(LEADING FROM a) FROM t1", "t1"),
        ("SELECT POSITION('a' IN b), CONVERT(a USING utf8mb4) FROM t1", "t1"),
        ("SELECT CAST(a AS CHAR CHARACTER SET utf8) FROM t1", "t1"),
        ("SELECT INSERT(a, 1, 2, 'b'), REPLACE(a, 'b', 'c'), VALUES(a) FROM t1", "t1"),
        ("SELECT GROUP_CONCAT(DISTINCT a ORDER BY b, c SEPARATOR ',') FROM t1, t2", "t1 t2"),
        ("SELECT MATCH (a, b) AGAINST ('x' WITH QUERY EXPANSION) FROM t1", "t1"),
        ("SELECT COUNT(*), COUNT(DISTINCT a, b), LEFT(a, 1) FROM t1", "t1"),
        ("SELECT a IS DISTINCT FROM b FROM t1", "?"),
        ("SELECT a IS NOT DISTINCT FROM b", "?"),
        ("SELECT a FROM t1 WHERE a IS DISTINCT FROM b", "?"),
        ("SELECT a -> '$.x', a ->> '$.y', a := 1, @b, @@session.x FROM t1", "t1"),
        ("SELECT CASE a WHEN 1 THEN 2 ELSE (SELECT 1 FROM t1) END, ? FROM t2", "t1 t2"),
        ("SELECT a = ANY (SELECT b FROM t1), b IN (TABLE t2), EXISTS (VALUES ROW(1))", "t1 t2"),
        ("SELECT (SELECT 1 FROM t1), ((SELECT 2 FROM t2)), (3)", "t1 t2"),
        ("SELECT ((SELECT 1 FROM t1) UNION SELECT 2 FROM t2, t3) FROM t4", "t1 t2 t3 t4"),
        (
            "SELECT (SELECT 1 FROM t1 LIMIT 1) + 1, f(a, (SELECT b FROM t2, t3)) FROM t4",
            "t1 t2 t3 t4",
        ),
        ("SELECT t.from, t.select, t.table, t.join FROM t1 AS t", "t1"),
        ("SELECT from.a FROM t1", "?"),
        ("SELECT a FROM select.t1", "?"),
        ("SELECT `from`, `select` FROM t1", "t1"),
        ("SELECT t.`from` FROM t1 t", "t1"),
        ("SELECT 1.FROM t1", "t1"),
        ("SELECT 1e1FROM t1", "t1"),
        ("SELECT 'a'FROM t1", "t1"),
        ("SELECT 'FROM t2' FROM t1 -- , t3\n, t4 /* , t5 */ # , t6", "t1 t4"),
        ("SELECT [a] FROM t1", "?"),
        ("SELECT \\NFROM t1", "?"),
        ("SELECT a FROM t1 WHERE b = \\N", "?"),
    ]);
}

#[test]
fn queries_are_combined() {
    check_both(&[
        ("(SELECT 1)", ""),
        ("(SELECT a FROM t1) UNION ALL (SELECT b FROM t2) ORDER BY 1, 2 LIMIT 1", "t1 t2"),
        ("SELECT a FROM t1, t2 UNION DISTINCT SELECT b FROM t3, t4", "t1 t2 t3 t4"),
        ("SELECT a FROM t1 EXCEPT SELECT b FROM t2 INTERSECT ALL SELECT c FROM t3", "t1 t2 t3"),
        ("((SELECT a FROM t1) UNION (SELECT b FROM t2)) UNION SELECT c FROM t3", "t1 t2 t3"),
        ("SELECT a FROM t1 WHERE b UNION (SELECT c FROM t2, t3)", "t1 t2 t3"),
        ("SELECT 1 UNION SELECT a FROM t1 WHERE b > 1 UNION TABLE t2", "t1 t2"),
        ("VALUES ROW(1, 2), ROW(3, (SELECT a FROM t1)) ORDER BY 1", "t1"),
        ("VALUES (1), (2) UNION SELECT a FROM t1", "t1"),
        ("TABLE t1", "t1"),
        ("TABLE d.t1 ORDER BY a, b LIMIT 1", "d.t1"),
        ("TABLE t1 UNION TABLE t2", "t1 t2"),
        ("SELECT a FROM t1 UNION b", "?"),
        ("SELECT a FROM t1 MINUS SELECT a FROM t2", "?"),
        ("(SELECT 1) (SELECT 2)", ""),
        ("(1)", "?"),
        ("SELECT 1 UNION", "?"),
    ]);
}

#[test]
fn common_table_expressions_are_no_tables_where_they_are_visible() {
    check_both(&[
        ("WITH x AS (SELECT 1) SELECT * FROM x", ""),
        ("WITH x AS (SELECT * FROM t1) SELECT * FROM x, t2", "t1 t2"),
        ("WITH x (a, b) AS (SELECT * FROM t1), y AS (SELECT * FROM x) SELECT * FROM y", "t1"),
        ("WITH y AS (SELECT * FROM x), x AS (SELECT 1) SELECT * FROM y, x", "x"),
        ("WITH x AS (SELECT * FROM x) SELECT * FROM x", "x"),
        ("WITH RECURSIVE x AS (SELECT 1 UNION ALL SELECT a FROM x) SELECT * FROM x", ""),
        ("WITH x AS (SELECT 1) SELECT * FROM d.x", "d.x"),
        ("WITH x AS (SELECT 1) SELECT * FROM X", "X"),
        ("WITH `x` AS (SELECT 1) SELECT * FROM x", ""),
        ("WITH x AS (SELECT 1) SELECT (SELECT a FROM (SELECT * FROM x) d)", ""),
        ("WITH x AS (SELECT 1) SELECT * FROM x UNION SELECT * FROM x", ""),
        ("WITH x AS (SELECT 1) (SELECT * FROM x) UNION (SELECT * FROM x, t1)", "t1"),
        ("(WITH x AS (SELECT 1) SELECT * FROM x) UNION SELECT * FROM x", "x"),
        ("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) d, x", "x"),
        ("SELECT (WITH x AS (SELECT 1 FROM t1) SELECT * FROM x) FROM t2", "t1 t2"),
        ("WITH x AS (WITH y AS (SELECT 1) SELECT * FROM y) SELECT * FROM x, y", "y"),
        ("WITH x AS (SELECT 1) SELECT * FROM t1 WHERE a IN (SELECT * FROM x)", "t1"),
        ("WITH x AS (TABLE t1) TABLE x", "t1"),
        ("WITH x AS (VALUES ROW(1)) SELECT 1", ""),
        ("WITH x AS ((SELECT * FROM t1) UNION SELECT * FROM t2) SELECT * FROM x", "t1 t2"),
        ("WITH RECURSIVE x AS (SELECT 1) CYCLE a RESTRICT, y AS (SELECT 1) SELECT * FROM x, y", ""),
        ("WITH x AS (SELECT 1) UPDATE t1, x SET t1.a = 1", "t1! x!"),
        ("WITH x AS (SELECT 1) UPDATE t1 SET a = (SELECT * FROM x)", "t1!"),
        ("WITH x AS (SELECT a FROM t2) DELETE FROM t1 WHERE a IN (SELECT * FROM x)", "t2 t1!"),
        ("WITH x AS (SELECT 1) INSERT INTO t1 SELECT * FROM x", "?"),
        ("INSERT INTO t1 WITH x AS (SELECT 1) SELECT * FROM x", "t1!"),
        ("INSERT INTO x WITH x AS (SELECT 1) SELECT * FROM x", "x!"),
        (
            "INSERT INTO t1 WITH x AS (SELECT 1) SELECT * FROM x \
             ON DUPLICATE KEY UPDATE a = (SELECT 1 FROM x)",
            "t1! x",
        ),
        ("INSERT INTO t1 (WITH x AS (SELECT 1) SELECT * FROM x)", "t1!"),
        ("WITH x AS SELECT 1 SELECT 2", "?"),
        ("WITH x AS (SELECT 1)", "?"),
        ("WITH x AS (1) SELECT 1", "?"),
    ]);
}

#[test]
fn writes_name_what_they_may_write() {
    check_both(&[
        ("INSERT INTO t1 VALUES (1)", "t1!"),
        ("INSERT t1 VALUES (1), (2)", "t1!"),
        ("INSERT LOW_PRIORITY IGNORE INTO d.t1 (a, b) VALUE (1, 2)", "d.t1!"),
        ("INSERT INTO t1 () VALUES ()", "t1!"),
        ("INSERT INTO t1(a)VALUES((SELECT a FROM t2))", "t1! t2"),
        ("INSERT INTO t1 SET a = 1, b = (SELECT 1 FROM t2, t3)", "t1! t2 t3"),
        ("INSERT INTO t1 SELECT * FROM t2, t3", "t1! t2 t3"),
        ("INSERT INTO t1 (a) SELECT * FROM t1", "t1! t1"),
        ("INSERT INTO t1 (SELECT * FROM t2)", "t1! t2"),
        ("INSERT INTO t1 (a, b) (SELECT * FROM t2) UNION SELECT * FROM t3", "t1! t2 t3"),
        ("INSERT INTO t1 TABLE t2", "t1! t2"),
        ("INSERT INTO t1 PARTITION (p0) (a) SELECT 1 FROM t2", "t1! t2"),
        ("INSERT INTO t1 VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a), b = 2", "t1!"),
        (
            "INSERT INTO t1 SELECT * FROM t2 JOIN t3 ON DUPLICATE KEY UPDATE a = 1, b = \
             (SELECT 1 FROM t4)",
            "t1! t2 t3 t4",
        ),
        ("INSERT INTO t1 SELECT * FROM t2 JOIN t3 ON duplicate = 1, t4", "t1! t2 t3 t4"),
        ("INSERT INTO t1 VALUES (1, 2) AS new (a, b) ON DUPLICATE KEY UPDATE a = new.a", "t1!"),
        ("INSERT INTO t1 VALUES (1) RETURNING a, (SELECT 1 FROM t2)", "t1! t2"),
        ("REPLACE INTO t1 SELECT * FROM t2", "t1! t2"),
        ("REPLACE t1 VALUES (1)", "t1!"),
        ("UPDATE t1 SET a = 1", "t1!"),
        ("UPDATE LOW_PRIORITY IGNORE d.t1 AS x SET a = 1, b = (SELECT 1 FROM t2)", "d.t1! t2"),
        ("UPDATE t1, t2 SET t1.a = 1, t2.b = 2 WHERE t1.a IN (SELECT b FROM t3)", "t1! t2! t3"),
        ("UPDATE t1 JOIN (t2, t3) USING (a) SET b = 1", "t1! t2! t3!"),
        ("UPDATE t1, (SELECT * FROM t2) d SET b = 1", "t1! t2"),
        ("UPDATE (t1, t2) SET b = 1 ORDER BY a, b LIMIT 1", "t1! t2!"),
        ("UPDATE t1 FOR PORTION OF p FROM 1 TO 2 SET a = 1", "?"),
        ("DELETE FROM t1", "t1!"),
        ("DELETE QUICK FROM d.t1 AS a WHERE b IN (SELECT c FROM t2) ORDER BY d, e", "d.t1! t2"),
        ("DELETE FROM t1 PARTITION (p) WHERE a", "t1!"),
        ("DELETE FROM t1 RETURNING a, b", "t1!"),
        ("DELETE t1 FROM t1, t2", "t1! t2!"),
        ("DELETE a, b.* FROM t1 a JOIN d.t2 b JOIN t3", "t1! d.t2! t3!"),
        ("DELETE d.t1, d.t2.* FROM d.t1, d.t2 WHERE 1", "d.t1! d.t2!"),
        ("DELETE FROM a USING t1 AS a, t2", "t1! t2!"),
        ("DELETE FROM a.*, b USING (t1 AS a JOIN t2 AS b) WHERE 1", "t1! t2!"),
        ("DELETE FROM t1 a USING (t1 a, t2)", "?"),
        ("DELETE FROM t1, t2 WHERE 1", "?"),
        ("DELETE FROM t1 FOR PORTION OF p FROM 1 TO 2", "?"),
        ("DELETE HISTORY FROM t1 BEFORE SYSTEM_TIME '2020-01-01'", "t1!"),
        ("UPDATE t1", "t1!"),
        ("INSERT INTO t1", "t1!"),
        ("INSERT INTO a.b.c VALUES (1)", "?"),
        ("DELETE", "?"),
        ("UPDATE SET a = 1", "?"),
    ]);
    let mariadb = Modes { flavor_mariadb: true, ..Modes::default() };
    check(&mariadb, &[("INSERT INTO t1 SELECT a FROM t2 RETURNING a, b", "t1! t2")]);
    let mysql = Modes::default();
    check(&mysql, &[("INSERT INTO t1 SELECT a FROM t2 returning, t3", "t1! t2 t3")]);
}

#[test]
// long: one list of cases.
fn other_statements_are_listed_or_not_understood() {
    check_both(&[
        ("EXPLAIN SELECT * FROM t1", "t1"),
        ("EXPLAIN FORMAT=JSON DELETE FROM t1", "t1!"),
        ("EXPLAIN EXTENDED SELECT * FROM t1", "t1"),
        ("EXPLAIN ANALYZE FORMAT = TREE SELECT * FROM t1, t2", "t1 t2"),
        ("EXPLAIN (SELECT * FROM t1)", "t1"),
        ("EXPLAIN FOR CONNECTION 5", "?"),
        ("EXPLAIN INTO @x FORMAT=JSON SELECT 1", "?"),
        ("EXPLAIN FORMAT=JSON FOR SCHEMA d SELECT * FROM t1", "?"),
        ("DESC t1", "t1"),
        ("DESCRIBE d.t1 a", "d.t1"),
        ("EXPLAIN t1 'a%'", "t1"),
        ("DESC extended", "extended"),
        ("DESC t1 a b", "?"),
        ("DESCRIBE UPDATE t1 SET a = 1", "t1!"),
        ("ANALYZE SELECT * FROM t1", "t1"),
        ("ANALYZE FORMAT=JSON UPDATE t1 SET a = 1", "t1!"),
        ("ANALYZE TABLE t1", "?"),
        ("SHOW TABLES", ""),
        ("SHOW TABLES WHERE EXISTS (SELECT 1 FROM t1)", "t1"),
        ("SHOW VARIABLES LIKE 'a%'", ""),
        ("SHOW COUNT(*) WARNINGS", ""),
        ("SHOW STATUS WHERE a FROM t1", "?"),
        ("SHOW (SELECT 1 FROM t1)", "?"),
        ("DO 1, (SELECT a FROM t1, t2)", "t1 t2"),
        ("DO SLEEP(1)", ""),
        ("SET @a = (SELECT a FROM t1), @b = 2", "t1"),
        ("SET NAMES utf8mb4", ""),
        ("SET CHARACTER SET utf8", ""),
        ("SET SESSION TRANSACTION READ ONLY", ""),
        ("SET a = 1, @@session.b = ON", ""),
        ("SET PASSWORD = 'x'", "?"),
        ("SET STATEMENT a = 1, b = 'x' FOR SELECT * FROM t1, t2", "t1 t2"),
        ("SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT * FROM t1", "?"),
        ("SET STATEMENT a = (SELECT 1) FOR SELECT * FROM t1", "?"),
        ("SET STATEMENT a = 1 FOR SET b = 2", "?"),
        ("BEGIN", ""),
        ("BEGIN WORK", ""),
        ("BEGIN NOT ATOMIC SELECT 1; END", "?"),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", ""),
        ("START SLAVE", "?"),
        ("COMMIT AND CHAIN", ""),
        ("ROLLBACK TO SAVEPOINT `a`", ""),
        ("SAVEPOINT a", ""),
        ("RELEASE SAVEPOINT a", ""),
        ("USE d", ""),
        ("USE d e", "?"),
        ("CREATE TABLE t1 (a INT)", "?"),
        ("DROP TABLE t1", "?"),
        ("CALL p()", "?"),
        ("PREPARE s FROM 'SELECT 1'", ""),
        ("PREPARE s FROM 'SELECT 1 FROM t1, d.t2'", "t1 d.t2"),
        ("PREPARE s FROM 'INSERT INTO t1 SELECT 1'", "t1!"),
        ("PREPARE s FROM @text", "?"),
        ("EXECUTE IMMEDIATE 'UPDATE t1 SET a = 1'", "t1!"),
        ("EXECUTE IMMEDIATE CONCAT('SELECT', ' 1')", "?"),
        ("EXECUTE s", "?"),
        ("LOAD DATA INFILE 'x' INTO TABLE t1", "t1!"),
        (
            "LOAD DATA LOCAL INFILE 'x' IGNORE INTO TABLE d.t1 CHARACTER SET utf8 FIELDS TERMINATED BY ',' \
          IGNORE 1 LINES (a, @b) SET c = (SELECT 1 FROM t2)",
            "d.t1! t2",
        ),
        ("LOAD XML INFILE 'x' INTO TABLE t1 ROWS IDENTIFIED BY '<r>'", "t1!"),
        ("LOAD INDEX INTO CACHE t1", "?"),
        ("HANDLER t1 OPEN", "?"),
        ("LOCK TABLES t1 READ", "?"),
        ("TRUNCATE t1", "?"),
        ("KILL 5", "?"),
        ("x: BEGIN SELECT 1; END", "?"),
        ("`select` 1", "?"),
        ("", "?"),
        ("/* nothing */", "?"),
    ]);
}

#[test]
fn sequences_are_written() {
    check_both(&[
        ("SELECT NEXT VALUE FOR s", "s!"),
        ("SELECT PREVIOUS VALUE FOR d.s, a FROM t1", "d.s! t1"),
        ("SELECT NEXTVAL(s), LASTVAL (d.s), SETVAL(u, 1, 0) FROM t1", "s! d.s! u! t1"),
        ("INSERT INTO t1 VALUES (NEXT VALUE FOR s)", "t1! s!"),
        ("SELECT next value FROM t1", "t1"),
        ("SELECT next, previous FROM t1 next, t2", "t1 t2"),
        ("SELECT NEXTVAL('s')", "?"),
        ("SELECT NEXTVAL(a + 1)", "?"),
        ("DO SETVAL(s, (SELECT a FROM t1))", "s! t1"),
    ]);
    let mariadb = Modes { flavor_mariadb: true, ..Modes::default() };
    check(
        &mariadb,
        &[
            ("SELECT s.NEXTVAL", "s!"),
            ("SELECT s. nextval", "s!"),
            ("SELECT d.s.currval FROM t1", "d.s! t1"),
            ("SELECT s . lastval, `s`.`nextval`", "s!"),
        ],
    );
    check(&Modes::default(), &[("SELECT x.nextval FROM t1 x", "t1")]);
}

#[test]
fn several_statements_are_one_text() {
    check_both(&[
        ("SELECT * FROM t1; UPDATE t2 SET a = 1;;", "t1 t2!"),
        ("SELECT * FROM t1; DROP TABLE t2", "?"),
        ("DROP TABLE t2; SELECT * FROM t1", "?"),
        ("USE d; SELECT * FROM t1", "?"),
        ("SET sql_mode = 'ANSI_QUOTES'; SELECT * FROM t1", "?"),
        ("SELECT * FROM t1; USE d", "t1"),
        ("BEGIN; SELECT * FROM t1; COMMIT", "t1"),
        ("/*!40101 SET NAMES utf8 */", ""),
        ("SELECT /*!40001 SQL_NO_CACHE */ * FROM t1", "t1"),
        ("SELECT * FROM t1 /*!90500 , t2 */", "?"),
        ("SELECT * FROM t1 /*! , t2 */", "t1 t2"),
        ("SELECT /*!90501 1 */ + /*!90600 2 */ FROM t1", "?"),
        ("SELECT /*+ NO_INDEX_MERGE(t2) */ * FROM t1", "t1"),
        ("SELECT * FROM t1 WHERE a = 'x", "?"),
        ("SELECT * FROM t1 /* x", "?"),
    ]);
}

#[test]
fn names_are_compared_as_the_session_reads_them() {
    let ansi = Modes { ansi_quotes: true, ..Modes::default() };
    check(&ansi, &[("SELECT 'a' FROM \"t 1\", \"d\".\"t\"\"2\"", "t 1 d.t\"2")]);
    let text = "SELECT * FROM tä";
    check(&Modes::default(), &[(text, "tä")]);
    let latin = Modes { encoding: Encoding::SingleByte, ..Modes::default() };
    check(&latin, &[(text, "?"), ("SELECT 'ä' FROM t1", "t1")]);
    assert_eq!(found(&analyse(b"SELECT * FROM t\xE4", &Modes::default())), "?");
}

#[test]
fn there_is_an_end_to_everything() {
    let names = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("t{number}")).collect();
        format!("SELECT * FROM {}", names.join(", "))
    };
    let modes = Modes::default();
    assert!(analyse(names(64).as_bytes(), &modes).references.is_whole);
    assert!(!analyse(names(65).as_bytes(), &modes).references.is_whole);
    let deep = |depth: usize| format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(analyse(deep(100).as_bytes(), &modes).references.is_whole);
    assert!(!analyse(deep(100_000).as_bytes(), &modes).references.is_whole);
}

const PIECES: [&str; 70] = [
    "SELECT",
    "FROM",
    "JOIN",
    "STRAIGHT_JOIN",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "INTO",
    "@x",
    "FOR UPDATE",
    "OF",
    "UNION",
    "EXCEPT",
    "WITH",
    "RECURSIVE",
    "AS",
    "(",
    ")",
    "(",
    ")",
    ",",
    ",",
    ".",
    "*",
    "t1",
    "t2",
    "`t 3`",
    "x",
    "'s'",
    "1",
    "=",
    "ON",
    "USING",
    "INSERT INTO",
    "REPLACE",
    "UPDATE",
    "DELETE",
    "SET",
    "VALUES",
    "TABLE",
    "LATERAL",
    "JSON_TABLE",
    "DUAL",
    "NEXT VALUE FOR",
    "NEXTVAL",
    "DUPLICATE KEY UPDATE",
    "RETURNING",
    "WINDOW",
    "w",
    "EXPLAIN",
    "ANALYZE",
    "SHOW",
    "DESC",
    "DO",
    "SET STATEMENT",
    "FOR",
    "USE INDEX",
    "PARTITION",
    ";",
    "/*!50000",
    "*/",
    "/*!",
    "{",
    "}",
    "?",
    "é",
    "DISTINCT",
    "SYSTEM_TIME",
    "CYCLE",
];

proptest! {
    #[test]
    fn no_text_is_too_odd(pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let words: Vec<&str> = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let text = words.join(" ");
        for flavor_mariadb in [false, true] {
            let modes = Modes { flavor_mariadb, ..Modes::default() };
            let references = analyse(text.as_bytes(), &modes).references;
            prop_assert!(references.tables.len() <= crate::analysis::REFERENCES_MAX);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(text in prop::collection::vec(any::<u8>(), 0..60)) {
        analyse(&text, &Modes::default());
    }
}

#[test]
fn mariadb_opens_what_it_describes() {
    let cases = [
        ("SHOW FULL COLUMNS FROM t1 FROM d", "d.t1"),
        ("SHOW FIELDS IN t1", "t1"),
        ("SHOW KEYS FROM d.t1", "d.t1"),
        ("SHOW CREATE TABLE t1", "t1"),
        ("SHOW CREATE VIEW d.t1", "d.t1"),
        ("SHOW CREATE PROCEDURE p", ""),
        ("SHOW COLUMNS FROM t1 WHERE field IN (SELECT a FROM t2, t3)", "t1 t2 t3"),
    ];
    check(&Modes { flavor_mariadb: true, ..Modes::default() }, &cases);
    let without = cases.map(|(text, _)| (text, if text.contains("t2") { "t2 t3" } else { "" }));
    check(&Modes { flavor_mariadb: false, ..Modes::default() }, &without);
}
