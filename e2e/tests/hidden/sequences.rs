//! Sequences: the last value is that of the session's own `NEXT VALUE FOR`.

use anyhow::Result;
use trunkline_testkit::Flavour;

use super::{Case, PLAIN, check};

const SEQUENCES: &str = "CREATE SEQUENCE s; CREATE SEQUENCE r START WITH 100;
     CREATE TABLE t (a INT DEFAULT (NEXT VALUE FOR s), b INT)";

const PREVIOUS: &str = "SELECT PREVIOUS VALUE FOR s";

const CASES: [Case; 7] = [
    Case {
        name: "NEXT VALUE FOR, PREVIOUS VALUE FOR",
        schema: SEQUENCES,
        steps: &[
            ("a", "SELECT NEXT VALUE FOR s"),
            ("b", PREVIOUS),
            ("b", "SELECT NEXT VALUE FOR s"),
            ("a", PREVIOUS),
            ("b", PREVIOUS),
            ("a", "INSERT INTO t VALUES (PREVIOUS VALUE FOR s, 1)"),
            ("a", "SELECT a FROM t"),
        ],
        ..PLAIN
    },
    Case {
        name: "NEXTVAL(), LASTVAL()",
        schema: SEQUENCES,
        steps: &[
            ("a", "DO NEXTVAL(s)"),
            ("b", "SELECT NEXTVAL(s), NEXTVAL(r), NEXTVAL(s)"),
            ("a", "SELECT LASTVAL(s), LASTVAL(r)"),
            ("c", "SELECT LASTVAL(s), LASTVAL(r)"),
            ("b", "SELECT LASTVAL(s), LASTVAL(r)"),
        ],
        ..PLAIN
    },
    Case {
        name: "an INSERT that takes one",
        schema: SEQUENCES,
        steps: &[
            ("a", "INSERT INTO t VALUES (NEXTVAL(s), 1)"),
            ("b", "INSERT INTO t VALUES (NEXTVAL(s), 2)"),
            ("a", PREVIOUS),
            ("b", PREVIOUS),
        ],
        ..PLAIN
    },
    Case {
        name: "Oracle mode",
        schema: SEQUENCES,
        steps: &[
            ("a", "SET sql_mode = ORACLE"),
            ("b", "SET sql_mode = ORACLE"),
            ("a", "SELECT s.NEXTVAL"),
            ("b", "SELECT s. nextval"),
            ("a", "SELECT s.CURRVAL"),
            ("b", "SELECT s . currval"),
        ],
        ..PLAIN
    },
    Case {
        name: "a statement that fails behind the value",
        schema: SEQUENCES,
        steps: &[
            ("a", "SELECT NEXT VALUE FOR s, (SELECT 1 UNION SELECT 2)"),
            ("b", PREVIOUS),
            ("a", PREVIOUS),
        ],
        ..PLAIN
    },
    Case {
        name: "left by a session that ended",
        schema: SEQUENCES,
        steps: &[
            ("a", "SELECT NEXT VALUE FOR s"),
            ("a", ""),
            ("b", PREVIOUS),
            ("o", PREVIOUS),
            ("o", "SELECT NEXT VALUE FOR s"),
            ("o", ""),
            ("b", PREVIOUS),
        ],
        connections: 1,
        ..PLAIN
    },
    Case {
        name: "dropped and made again",
        schema: SEQUENCES,
        steps: &[
            ("a", "SELECT NEXT VALUE FOR s"),
            ("a", "DROP SEQUENCE s"),
            ("a", "CREATE SEQUENCE s START WITH 7"),
            ("b", "SELECT NEXT VALUE FOR s"),
            ("a", PREVIOUS),
        ],
        ..PLAIN
    },
];

#[test]
fn the_last_value_of_a_sequence_is_the_sessions_own() -> Result<()> {
    check(Flavour::MariaDb, "the_last_value_of_a_sequence_is_the_sessions_own", &CASES)
}
