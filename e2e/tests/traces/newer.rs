//! What the session tracker of a later MariaDB tells under another variable's name.

use anyhow::{Result, ensure};
use trunkline_testkit::{AuthPlugin, MariaDb, MariaDbTree, Options, SqlClient, Trunkline, skipped};

use crate::stage::{PASSWORD, USER, client, new_schema, one_server, text};

/// Another session uses the connection.
fn used_by(other: &mut SqlClient) -> Result<()> {
    other.sql("SELECT id FROM t")?;
    other.sql("INSERT INTO t VALUES (NULL)")?;
    Ok(())
}

#[test]
fn issue_16_ids_and_gtids_are_ones_own_on_a_later_mariadb() -> Result<()> {
    let test = "issue_16_ids_and_gtids_are_ones_own_on_a_later_mariadb";
    if let Err(reason) = MariaDbTree::find() {
        skipped(test, &reason);
        return Ok(());
    }
    let options = Options { is_newer: true, ..Options::default() };
    let server = MariaDb::start(options.arg("--log-bin=bin"))?;
    server.create_user(USER, PASSWORD, AuthPlugin::ServerDefault)?;
    let schema = new_schema(&server, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")?;
    let proxy = Trunkline::start(&one_server(&server, 1, 1))?;
    let (mut one, mut other) = (client(&proxy, &schema)?, client(&proxy, &schema)?);
    let mut silent = client(&proxy, &schema)?;
    // The first variable that the connection tells of is last_gtid: others are told by its name.
    other.sql("INSERT INTO t VALUES (NULL)")?;
    for round in 0..3 {
        let inserted = text(&mut one, "INSERT INTO t VALUES (NULL) RETURNING id")?;
        used_by(&mut other)?;
        let found = text(&mut one, "SELECT LAST_INSERT_ID()")?;
        ensure!(found == inserted, "round {round}: {found}, not {inserted}");
        for (statement, expected) in
            [("DO LAST_INSERT_ID(55)", "55"), ("SET last_insert_id = 44", "44")]
        {
            one.sql("SELECT id FROM t LIMIT 2")?;
            one.sql(statement)?;
            used_by(&mut other)?;
            let found = text(&mut one, "SELECT LAST_INSERT_ID()")?;
            ensure!(found == expected, "round {round}, {statement}: {found}");
        }
        one.sql("SELECT id FROM t LIMIT 2")?;
        one.sql("DO LAST_INSERT_ID(66)")?;
        used_by(&mut other)?;
        one.sql("INSERT INTO t VALUES (NULL)")?;
        silent.sql("SET timestamp = 100")?;
        let gtid = text(&mut silent, "SELECT CONCAT('[', @@last_gtid, ']')")?;
        ensure!(gtid == "[]", "round {round}: another session's {gtid}");
    }
    Ok(())
}
