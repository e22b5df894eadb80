//! What MariaDB alone tells of a session's past.

use anyhow::{Result, ensure};
use trunkline_testkit::Flavour;

use super::{Case, PLAIN, check};
use crate::stage::{before, client, is_available, new_schema, shared_server, text};

const TABLES: &str = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)";
const WRITE: &str = "INSERT INTO t VALUES (3)";
/// Whether it has one; the numbers differ, as the twins write one after the other.
const HAS: &str = "SELECT @@last_gtid <> ''";
const COUNT: &str = "SELECT SQL%ROWCOUNT";
const ORACLE: &str = "SET sql_mode = ORACLE";

const CASES: [Case; 2] = [
    Case {
        name: "@@last_gtid",
        schema: TABLES,
        steps: &[
            ("a", WRITE),
            ("b", HAS),
            ("b", "SELECT @@last_gtid, @@session.last_gtid AS x"),
            ("a", HAS),
            ("b", "DO 1"),
            ("b", WRITE),
            ("c", "SELECT @@last_gtid"),
            ("a", HAS),
        ],
        ..PLAIN
    },
    Case {
        name: "SQL%ROWCOUNT",
        schema: TABLES,
        steps: &[
            ("a", ORACLE),
            ("b", ORACLE),
            ("a", "UPDATE t SET a = a + 1"),
            ("b", "SELECT 1 FROM t LIMIT 1"),
            ("a", COUNT),
            ("a", "SELECT 1 FROM t"),
            ("b", "DELETE FROM t WHERE a = 1000"),
            ("a", COUNT),
            ("b", COUNT),
        ],
        ..PLAIN
    },
];

#[test]
fn gtids_and_row_counts_are_the_sessions_own() -> Result<()> {
    check(Flavour::MariaDb, "gtids_and_row_counts_are_the_sessions_own", &CASES)
}

#[test]
fn a_gtid_is_that_of_the_sessions_last_write() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_gtid_is_that_of_the_sessions_last_write") {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let schema = new_schema(server, TABLES)?;
    let proxy = before(server, 1, 1)?;
    let (mut one, mut other) = (client(&proxy, &schema)?, client(&proxy, &schema)?);
    let asked = "SELECT @@last_gtid";
    one.sql(WRITE)?;
    // In this spelling the server answers, on the connection that has just written.
    let told = text(&mut one, "SELECT @@session . last_gtid")?;
    ensure!(told.split('-').count() == 3, "{told}");
    ensure!(text(&mut one, asked)? == told);
    other.sql(WRITE)?;
    let others = text(&mut other, asked)?;
    ensure!(others != told && others.split('-').count() == 3, "{others}");
    ensure!(text(&mut one, asked)? == told);
    ensure!(one.execute("SELECT @@last_gtid, ?", &["x"])?[0][0].as_deref() == Some(&*told));
    ensure!(text(&mut client(&proxy, &schema)?, asked)?.is_empty());
    Ok(())
}
