//! What a reset of a connection does not take back: other sessions' statements, and roles.

use anyhow::Result;
use trunkline_testkit::Flavour;

use super::{Case, MARIADB, PLAIN, check};

const OBJECTS: &str = "CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 4711);
     CREATE ROLE IF NOT EXISTS hidden_role; GRANT hidden_role TO app@'%', hidden_other@'%';
     CREATE PROCEDURE trace_it() SET optimizer_trace = 'enabled=on';
     CREATE PROCEDURE profile_it() SET profiling = 1;
     CREATE PROCEDURE profile_and_fail() BEGIN SET profiling = 1; SIGNAL SQLSTATE '45000'; END;
     CREATE PROCEDURE take_role() SQL SECURITY INVOKER SET ROLE hidden_role;
     CREATE PROCEDURE take_role_and_fail() SQL SECURITY INVOKER
         BEGIN SET ROLE hidden_role; SIGNAL SQLSTATE '45000'; END;
     CREATE FUNCTION tracing() RETURNS INT DETERMINISTIC NO SQL
         BEGIN SET optimizer_trace = 'enabled=on'; RETURN 1; END;
     CREATE FUNCTION with_role() RETURNS INT DETERMINISTIC NO SQL SQL SECURITY INVOKER
         BEGIN SET ROLE hidden_role; RETURN 1; END;
     CREATE VIEW v AS SELECT tracing() AS one";

const SECRET: (&str, &str) = ("a", "SELECT b FROM t WHERE a = 1 AND b = 4711");
const LEAVES: (&str, &str) = ("a", "");
const PROFILES: &str = "SHOW PROFILES";
const PROFILE: &str = "SELECT COUNT(*) > 0 FROM information_schema.PROFILING";
const TRACES: &str = "SELECT QUERY FROM information_schema.OPTIMIZER_TRACE";
const ROLE: &str = "SELECT CURRENT_ROLE()";
const TRACE_ON: (&str, &str) = ("a", "SET optimizer_trace = 'enabled=on'");
const TRACE_OFF: (&str, &str) = ("a", "SET optimizer_trace = 'enabled=off'");

/// Each session in turn gets the connection of the one before.
const fn alone(name: &'static str, steps: &'static [(&'static str, &'static str)]) -> Case {
    Case { name, schema: OBJECTS, steps, connections: 1, ..PLAIN }
}

const fn beside(name: &'static str, steps: &'static [(&'static str, &'static str)]) -> Case {
    Case { name, schema: OBJECTS, steps, ..PLAIN }
}

const CASES: [Case; 17] = [
    alone(
        "profiles, another account",
        &[
            ("a", "SET profiling = 1"),
            SECRET,
            LEAVES,
            ("o", PROFILES),
            ("o", PROFILE),
            ("o", ""),
            ("b", PROFILES),
        ],
    ),
    beside(
        "profiles, the same account",
        &[
            ("a", "SET profiling = 1"),
            SECRET,
            ("a", "SET profiling = 0"),
            ("b", PROFILES),
            ("a", PROFILE),
            ("b", PROFILE),
        ],
    ),
    alone(
        "profiles by a procedure",
        &[("a", "CALL profile_it()"), SECRET, LEAVES, ("o", PROFILES)],
    ),
    alone(
        "profiles by a procedure that fails",
        &[("a", "CALL profile_and_fail()"), SECRET, LEAVES, ("o", PROFILES)],
    ),
    alone(
        "profiles by a SET that fails",
        &[
            ("a", "SET profiling = 1, sql_mode = 'nonsense'"),
            SECRET,
            ("a", "SET profiling = 1, @x = (SELECT 1 UNION SELECT 2)"),
            SECRET,
            LEAVES,
            ("o", PROFILES),
        ],
    ),
    alone(
        "profiles by several statements of which one fails",
        &[("a", "SET profiling = 1; nonsense"), SECRET, LEAVES, ("o", PROFILES)],
    ),
    alone(
        "traces, another account",
        &[TRACE_ON, SECRET, TRACE_OFF, LEAVES, ("o", TRACES), ("o", ""), ("b", TRACES)],
    ),
    beside(
        "traces, the same account",
        &[TRACE_ON, SECRET, TRACE_OFF, ("b", TRACES), ("a", TRACES)],
    ),
    alone("traces by a procedure", &[("a", "CALL trace_it()"), SECRET, LEAVES, ("o", TRACES)]),
    alone("traces by a view", &[("a", "SELECT * FROM v"), SECRET, LEAVES, ("o", TRACES)]),
    beside("traces by a view, at once", &[("a", "SELECT * FROM v"), SECRET, ("b", TRACES)]),
    Case {
        only: MARIADB,
        ..beside(
            "traces of one statement",
            &[
                (
                    "a",
                    "SET STATEMENT optimizer_trace = 'enabled=on' FOR SELECT b FROM t WHERE b = 4711",
                ),
                ("b", TRACES),
                LEAVES,
                ("o", TRACES),
            ],
        )
    },
    alone("a role by a procedure", &[("a", "CALL take_role()"), ("a", ROLE), LEAVES, ("b", ROLE)]),
    alone(
        "a role by a procedure that fails",
        &[("a", "CALL take_role_and_fail()"), ("a", ROLE), LEAVES, ("b", ROLE)],
    ),
    alone("a role by a function", &[("a", "SELECT with_role()"), ("a", ROLE), LEAVES, ("b", ROLE)]),
    alone(
        "a role by several statements of which one fails",
        &[("a", "SET ROLE hidden_role; nonsense"), ("a", ROLE), LEAVES, ("b", ROLE)],
    ),
    Case {
        only: MARIADB,
        ..alone(
            "a role by statements that run others",
            &[
                ("a", "EXECUTE IMMEDIATE 'SET ROLE hidden_role'"),
                ("a", ROLE),
                LEAVES,
                ("b", ROLE),
                ("b", "BEGIN NOT ATOMIC SET ROLE hidden_role; SIGNAL SQLSTATE '45000'; END"),
                ("b", ROLE),
                ("b", ""),
                ("c", ROLE),
            ],
        )
    },
];

#[test]
fn what_no_reset_takes_back_reaches_nobody_else_on_mariadb() -> Result<()> {
    check(Flavour::MariaDb, "what_no_reset_takes_back_reaches_nobody_else_on_mariadb", &CASES)
}

#[test]
fn what_no_reset_takes_back_reaches_nobody_else_on_mysql() -> Result<()> {
    check(Flavour::MySql, "what_no_reset_takes_back_reaches_nobody_else_on_mysql", &CASES)
}
