//! Last insert ids that no reply tells, when their connection goes.

use anyhow::{Result, ensure};
use trunkline_testkit::{Server, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, SOON, before, client, fails, is_available, new_schema, one_server, shared_server,
    text,
};

/// The numbers of the connections that have this schema.
fn numbers_in(server: &Server, schema: &str) -> Result<Vec<String>> {
    let rows = server
        .sql(&format!("SELECT id FROM information_schema.processlist WHERE db = '{schema}'"))?;
    Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}

#[test]
fn an_id_that_no_reply_tells_is_fetched_before_its_connection_is_closed_for_resting() -> Result<()>
{
    let test = "an_id_that_no_reply_tells_is_fetched";
    for flavour in FLAVOURS.into_iter().filter(|flavour| is_available(*flavour, test)) {
        let server = shared_server(flavour)?;
        let schema = new_schema(server, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")?;
        let settings = format!("idle_connection_timeout = 300\n{}", one_server(server, 1, 2));
        let proxy = Trunkline::start(&settings)?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t VALUES (NULL)")?;
        one.sql("SELECT LAST_INSERT_ID(55)")?;
        wait_until("the connection is closed", SOON, || {
            Ok(numbers_in(server, &schema)?.is_empty().then_some(()))
        })?;
        let found = text(&mut one, "SELECT LAST_INSERT_ID()")?;
        ensure!(found == "55", "{flavour:?}: {found}");
    }
    Ok(())
}

#[test]
fn an_id_that_was_lost_with_its_connection_is_refused_until_there_is_another() -> Result<()> {
    let test = "an_id_that_was_lost_with_its_connection";
    for flavour in FLAVOURS.into_iter().filter(|flavour| is_available(*flavour, test)) {
        let server = shared_server(flavour)?;
        let schema = new_schema(
            server,
            "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY); \
             CREATE PROCEDURE p(n INT) INSERT INTO t VALUES (n + 100)",
        )?;
        let proxy = before(server, 1, 2)?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t VALUES (NULL)")?;
        one.sql("UPDATE t SET id = LAST_INSERT_ID(id + 54)")?;
        for number in numbers_in(server, &schema)? {
            server.sql(&format!("KILL {number}"))?;
        }
        let told = fails(&mut one, "SELECT LAST_INSERT_ID()", 2013)?;
        ensure!(told.contains("LAST_INSERT_ID() is unknown"), "{flavour:?}: {told}");
        fails(&mut one, "INSERT INTO t VALUES (LAST_INSERT_ID() + 7)", 2013)?;
        fails(&mut one, "CALL p(LAST_INSERT_ID())", 2013)?;
        // What reads it not runs, and what sets it ends that.
        ensure!(text(&mut one, "SELECT COUNT(*) FROM t")? == "1");
        one.sql("INSERT INTO t VALUES (NULL)")?;
        let found = text(&mut one, "SELECT LAST_INSERT_ID()")?;
        ensure!(found == text(&mut one, "SELECT MAX(id) FROM t")?, "{flavour:?}: {found}");
    }
    Ok(())
}
