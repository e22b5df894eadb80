//! The last insert id, read otherwise than by `LAST_INSERT_ID()`.

use anyhow::Result;
use trunkline_testkit::{Flavour, Options};

use super::{Case, MARIADB, PLAIN, check, check_on};
use crate::stage::{FLAVOURS, is_available, start};

const TABLES: &str = "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT);
     CREATE TABLE u (a INT AUTO_INCREMENT PRIMARY KEY, b INT) AUTO_INCREMENT = 900";

const MINE: (&str, &str) = ("a", "INSERT INTO t (b) VALUES (1)");
const THEIRS: (&str, &str) = ("b", "INSERT INTO u (b) VALUES (2)");
const NULL_OF_U: &str = "SELECT a FROM u WHERE a IS NULL";
const NULL_OF_T: &str = "SELECT a FROM t WHERE a IS NULL";
const SHOW: &str = "SHOW VARIABLES LIKE 'last_insert_id'";
const SHOW_OTHER: &str = "SHOW SESSION VARIABLES WHERE Variable_name = 'identity'";
const OF_SCHEMA: &str = "SELECT VARIABLE_VALUE FROM information_schema.SESSION_VARIABLES
     WHERE VARIABLE_NAME = 'LAST_INSERT_ID'";
const OF_SYSTEM: &str = "SELECT SESSION_VALUE FROM information_schema.`system_variables`
     WHERE VARIABLE_NAME = 'LAST_INSERT_ID'";
const OF_PERFORMANCE: &str = "SELECT VARIABLE_VALUE FROM performance_schema.session_variables
     WHERE VARIABLE_NAME = 'last_insert_id'";

const CASES: [Case; 6] = [
    Case {
        name: "SHOW VARIABLES",
        schema: TABLES,
        steps: &[MINE, THEIRS, ("a", SHOW), ("c", SHOW), ("b", SHOW_OTHER), ("a", SHOW_OTHER)],
        ..PLAIN
    },
    Case {
        name: "performance_schema.session_variables",
        schema: TABLES,
        steps: &[MINE, THEIRS, ("a", OF_PERFORMANCE), ("c", OF_PERFORMANCE)],
        ..PLAIN
    },
    Case {
        name: "information_schema.SESSION_VARIABLES, SYSTEM_VARIABLES",
        schema: TABLES,
        steps: &[
            MINE,
            THEIRS,
            ("a", OF_SCHEMA),
            ("c", OF_SCHEMA),
            THEIRS,
            ("a", OF_SYSTEM),
            ("c", OF_SYSTEM),
        ],
        only: MARIADB,
        ..PLAIN
    },
    Case {
        name: "sql_auto_is_null of a session that inserts",
        schema: TABLES,
        steps: &[
            ("a", "SET sql_auto_is_null = 1"),
            MINE,
            THEIRS,
            ("a", NULL_OF_T),
            ("a", NULL_OF_T),
            MINE,
            ("b", NULL_OF_U),
            ("a", NULL_OF_T),
            ("a", "SET sql_auto_is_null = 0"),
            MINE,
            THEIRS,
            ("a", NULL_OF_T),
        ],
        ..PLAIN
    },
    Case {
        name: "sql_auto_is_null of one that does not",
        schema: TABLES,
        steps: &[THEIRS, ("a", "SET sql_auto_is_null = 1"), ("a", NULL_OF_U), ("b", NULL_OF_U)],
        ..PLAIN
    },
    Case {
        name: "sql_auto_is_null, inserted before",
        schema: TABLES,
        steps: &[
            ("b", "SET sql_auto_is_null = 1"),
            ("b", "SET sql_auto_is_null = 0"),
            THEIRS,
            ("c", "INSERT INTO u (b) VALUES (2)"),
            ("a", "SET sql_auto_is_null = 1"),
            ("a", NULL_OF_U),
            ("a", "UPDATE u SET b = 7 WHERE a IS NULL"),
            ("a", "SELECT a, b FROM u"),
        ],
        ..PLAIN
    },
];

#[test]
fn the_last_insert_id_is_the_sessions_own_by_any_name_on_mariadb() -> Result<()> {
    check(Flavour::MariaDb, "the_last_insert_id_is_the_sessions_own_by_any_name_on_mariadb", &CASES)
}

#[test]
fn the_last_insert_id_is_the_sessions_own_by_any_name_on_mysql() -> Result<()> {
    check(Flavour::MySql, "the_last_insert_id_is_the_sessions_own_by_any_name_on_mysql", &CASES)
}

/// Where the server has `sql_auto_is_null` on for everybody.
const EVERYBODY: [Case; 2] = [
    Case {
        name: "the server's default",
        schema: TABLES,
        steps: &[
            THEIRS,
            ("a", NULL_OF_U),
            MINE,
            THEIRS,
            ("c", NULL_OF_T),
            ("a", NULL_OF_T),
            ("b", NULL_OF_U),
            ("b", NULL_OF_U),
            ("b", ""),
            ("d", NULL_OF_U),
        ],
        ..PLAIN
    },
    Case {
        name: "the server's default, switched off by the one that inserts",
        schema: TABLES,
        steps: &[
            ("b", "SET sql_auto_is_null = 0"),
            THEIRS,
            ("a", NULL_OF_U),
            THEIRS,
            ("c", NULL_OF_U),
            ("a", NULL_OF_U),
        ],
        ..PLAIN
    },
];

#[test]
fn the_last_insert_id_is_the_sessions_own_where_null_finds_it() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "the_last_insert_id_is_the_sessions_own_where_null_finds_it") {
            let server = start(flavour, Options::default())?;
            server.sql("SET GLOBAL sql_auto_is_null = 1")?;
            check_on(&server, "", &EVERYBODY)?;
        }
    }
    Ok(())
}
