//! Temporary tables that another name, or a failure half-way, keeps alive.

use anyhow::Result;
use trunkline_testkit::Flavour;

use super::{Case, MARIADB, PLAIN, check};

/// Base tables; `x` is what temporary tables hide.
const TABLES: &str = "CREATE TABLE x (n INT); CREATE TABLE z (n INT);
     CREATE PROCEDURE rename_it() ALTER TABLE x RENAME y";

const MAKE: (&str, &str) = ("a", "CREATE TEMPORARY TABLE x (n INT)");
const FILL: (&str, &str) = ("a", "INSERT INTO x VALUES (5)");
const ALTER: (&str, &str) = ("a", "ALTER TABLE x RENAME y");
const DROP: (&str, &str) = ("a", "DROP TABLE x");
const THEIRS: (&str, &str) = ("b", "SELECT n FROM y");
const OWN: (&str, &str) = ("a", "SELECT n FROM y");

const CASES: [Case; 14] = [
    Case {
        name: "renamed by ALTER TABLE",
        schema: TABLES,
        steps: &[MAKE, FILL, ALTER, DROP, THEIRS, OWN],
        ..PLAIN
    },
    Case {
        name: "renamed by RENAME TABLE",
        schema: TABLES,
        steps: &[MAKE, FILL, ("a", "RENAME TABLE x TO y"), DROP, THEIRS, OWN],
        ..PLAIN
    },
    Case {
        name: "renamed beside another statement",
        schema: TABLES,
        steps: &[MAKE, FILL, ("a", "SELECT 1; ALTER TABLE x RENAME y"), DROP, THEIRS, OWN],
        ..PLAIN
    },
    Case {
        name: "made and renamed in one text",
        schema: TABLES,
        steps: &[("a", "CREATE TEMPORARY TABLE x (n INT); ALTER TABLE x RENAME y"), DROP, THEIRS],
        ..PLAIN
    },
    Case {
        name: "renamed by a prepared text",
        schema: TABLES,
        steps: &[
            MAKE,
            FILL,
            ("a", "PREPARE p FROM 'ALTER TABLE x RENAME y'"),
            ("a", "EXECUTE p"),
            ("a", "DEALLOCATE PREPARE p"),
            DROP,
            THEIRS,
            OWN,
        ],
        ..PLAIN
    },
    Case {
        name: "renamed by a procedure",
        schema: TABLES,
        steps: &[MAKE, FILL, ("a", "CALL rename_it()"), DROP, THEIRS, OWN],
        ..PLAIN
    },
    Case {
        name: "renamed by SET STATEMENT",
        schema: TABLES,
        steps: &[
            MAKE,
            FILL,
            ("a", "SET STATEMENT max_statement_time = 10 FOR ALTER TABLE x RENAME y"),
            DROP,
            THEIRS,
            OWN,
        ],
        only: MARIADB,
        ..PLAIN
    },
    Case {
        name: "renamed, and a DROP that only raises a note",
        schema: "CREATE TABLE z (n INT)",
        steps: &[MAKE, FILL, ALTER, ("a", "DROP TABLE IF EXISTS x"), THEIRS, OWN],
        ..PLAIN
    },
    Case {
        name: "renamed, and a DROP of several of which one is missing",
        schema: TABLES,
        steps: &[MAKE, FILL, ALTER, ("a", "DROP TABLE x, missing, z"), THEIRS, OWN],
        ..PLAIN
    },
    Case {
        name: "the sequence of that name is dropped",
        schema: "CREATE SEQUENCE y",
        steps: &[
            ("a", "CREATE TEMPORARY TABLE y (n INT)"),
            ("a", "INSERT INTO y VALUES (5)"),
            ("a", "DROP SEQUENCE y"),
            THEIRS,
            OWN,
        ],
        only: MARIADB,
        ..PLAIN
    },
    Case {
        name: "a temporary sequence",
        schema: "CREATE TABLE z (n INT)",
        steps: &[
            ("a", "CREATE TEMPORARY SEQUENCE y"),
            ("a", "SELECT minimum_value FROM y"),
            ("b", "SELECT minimum_value FROM y"),
            ("a", "DROP TEMPORARY SEQUENCE y"),
            ("a", "SELECT minimum_value FROM y"),
        ],
        only: MARIADB,
        ..PLAIN
    },
    Case {
        name: "emptied, in another spelling of its name, and from another schema",
        schema: TABLES,
        steps: &[
            ("a", "CREATE TEMPORARY TABLE y (n INT)"),
            ("a", "TRUNCATE y"),
            ("a", "DROP TABLE Y"),
            ("a", "CREATE TEMPORARY TABLE mysql.y (n INT)"),
            ("a", "DROP TABLE mysql.y"),
            THEIRS,
            OWN,
        ],
        ..PLAIN
    },
    Case {
        name: "made again although it is there, with a note",
        schema: TABLES,
        steps: &[
            ("a", "CREATE TEMPORARY TABLE y (n INT)"),
            ("a", "CREATE TEMPORARY TABLE IF NOT EXISTS y (n INT)"),
            ("a", "DROP TEMPORARY TABLE IF EXISTS missing"),
            THEIRS,
            OWN,
            ("a", "DROP TEMPORARY TABLE y"),
            OWN,
        ],
        ..PLAIN
    },
    Case {
        name: "replaced by one that fails",
        schema: TABLES,
        steps: &[
            ("a", "CREATE TEMPORARY TABLE y (n INT)"),
            ("a", "CREATE TEMPORARY TABLE w (n INT)"),
            ("a", "CREATE OR REPLACE TEMPORARY TABLE y (n INT, n INT)"),
            ("a", "DROP TEMPORARY TABLE y, w"),
            ("b", "SELECT n FROM w"),
            ("a", "SELECT n FROM w"),
        ],
        ..PLAIN
    },
];

#[test]
fn temporary_tables_stay_with_their_session_on_mariadb() -> Result<()> {
    check(Flavour::MariaDb, "temporary_tables_stay_with_their_session_on_mariadb", &CASES)
}

#[test]
fn temporary_tables_stay_with_their_session_on_mysql() -> Result<()> {
    check(Flavour::MySql, "temporary_tables_stay_with_their_session_on_mysql", &CASES)
}
