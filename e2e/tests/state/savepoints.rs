//! Savepoints with autocommit off: servers say of none that it is there, and they hold their
//! session all the same.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Server, SqlClient, Trunkline};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, client, fails, is_available, new_schema, one_server, pins,
    shared_server,
};

/// Runs it on both; they must succeed or fail alike.
fn alike(proxied: &mut SqlClient, direct: &mut SqlClient, statement: &str) -> Result<()> {
    let code = |result: Result<_>| result.err().map(|error| trunkline_testkit::error_code(&error));
    let (here, there) = (code(proxied.sql(statement)), code(direct.sql(statement)));
    ensure!(here == there, "{statement}: {here:?}, directly {there:?}");
    Ok(())
}

/// Lines that leave a savepoint `x`, or not, by all ways and after all that may end it.
fn lines(flavour: Flavour) -> Vec<&'static [&'static str]> {
    let mut lines: Vec<&[&str]> = vec![
        &["SAVEPOINT x"],
        &["SAVEPOINT x", "SELECT 1"],
        &["SAVEPOINT x", "SET @a = 1", "SET NAMES utf8mb4", "DO 1"],
        &["SAVEPOINT x", "SELECT * FROM nothing_here"],
        &["SELECT * FROM nothing_here", "SAVEPOINT x"],
        &["SAVEPOINT x", "COMMIT"],
        &["SAVEPOINT x", "ROLLBACK"],
        &["SAVEPOINT x", "INSERT INTO t VALUES (1)", "ROLLBACK TO x", "DO 1"],
        &["SAVEPOINT x", "INSERT INTO t VALUES (1)", "COMMIT"],
        &["SAVEPOINT x", "CREATE TABLE IF NOT EXISTS t (a INT)"],
        &["SAVEPOINT x", "SET autocommit = 1", "SET autocommit = 0"],
        &["SAVEPOINT x", "SET autocommit = 0"],
        &["SAVEPOINT x", "BEGIN"],
        &["SELECT * FROM t", "SAVEPOINT x", "RELEASE SAVEPOINT x"],
        &["COMMIT; SAVEPOINT x"],
        &["SAVEPOINT x; SELECT 1"],
        &["SAVEPOINT x; COMMIT"],
        &["CALL mark()"],
        &["INSERT INTO t VALUES (1)", "CALL renew()"],
    ];
    if flavour == Flavour::MariaDb {
        lines.push(&["EXECUTE IMMEDIATE 'SAVEPOINT x'"]);
        lines.push(&["PREPARE p FROM 'SAVEPOINT x'", "EXECUTE p", "DEALLOCATE PREPARE p"]);
        lines.push(&["BEGIN NOT ATOMIC SAVEPOINT x; END"]);
        lines.push(&["BEGIN NOT ATOMIC COMMIT; SAVEPOINT x; END"]);
    }
    lines
}

fn check(server: &Server) -> Result<()> {
    let tables = "CREATE TABLE t (a INT); CREATE PROCEDURE mark() SAVEPOINT x;
         CREATE PROCEDURE renew() BEGIN COMMIT; SAVEPOINT x; END";
    let (one, two) = (new_schema(server, tables)?, new_schema(server, tables)?);
    let config = one_server(server, 1, 2);
    let proxy = Trunkline::start(&format!("routines_pin = false\n{config}"))?;
    let mut other = client(&proxy, &one)?;
    let mut direct = server.connect(USER, PASSWORD, &two)?;
    other.sql("SET autocommit = 0")?;
    direct.sql("SET autocommit = 0")?;
    for line in lines(server.flavour()) {
        let context = || format!("{line:?}");
        let mut proxied = client(&proxy, &one)?;
        proxied.sql("SET autocommit = 0")?;
        for statement in line {
            alike(&mut proxied, &mut direct, statement).with_context(context)?;
            // Whoever gets the connection between leaves a savepoint of that name, or none.
            other.sql("SAVEPOINT x")?;
            other.sql("ROLLBACK")?;
        }
        other.sql("SAVEPOINT x")?;
        alike(&mut proxied, &mut direct, "ROLLBACK TO SAVEPOINT x").with_context(context)?;
        other.sql("ROLLBACK TO SAVEPOINT x")?;
        other.sql("ROLLBACK")?;
        for session in [&mut proxied, &mut direct] {
            session.sql("ROLLBACK")?;
            session.sql("SELECT 1")?;
        }
        ensure!(!pins(&proxy)?.contains_key("transaction"), "{line:?}: held for ever");
    }
    // With autocommit on a savepoint outside of a transaction is none.
    let mut proxied = client(&proxy, &one)?;
    proxied.sql("SAVEPOINT x")?;
    ensure!(pins(&proxy)?.is_empty(), "held for a savepoint that is none");
    fails(&mut proxied, "ROLLBACK TO SAVEPOINT x", 1305)?;
    Ok(())
}

#[test]
fn issue_16_a_savepoint_is_its_sessions_with_autocommit_off() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "issue_16_a_savepoint_is_its_sessions_with_autocommit_off") {
            check(shared_server(flavour)?).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}
