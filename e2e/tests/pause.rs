//! `PAUSE HOSTGROUP`: what is new is held, what is open goes on.

use std::{collections::BTreeMap, thread};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, SqlClient, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, SOON, client, fails, is_available, new_schema, one_server, shared_server,
};

/// What is refused by the admin port.
const REFUSED: u16 = 1045;

#[test]
fn what_is_new_is_held_and_what_is_open_goes_on() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "what_is_new_is_held_and_what_is_open_goes_on") {
            check(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

fn check(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let schema = new_schema(server, "CREATE TABLE t (a INT PRIMARY KEY)")?;
    let count = || server.value(&format!("SELECT COUNT(*) FROM {schema}.t"));
    let config = one_server(server, 2, 50);
    let proxy = Trunkline::start(&format!("admin_listen = \"{{folder}}/admin.sock\"\n{config}"))?;
    let socket = proxy.socket().with_file_name("admin.sock");
    let mut admin = SqlClient::socket(&socket, "admin", "admin", "")?;
    let mut refused = |sql: &str, why: &str| -> Result<()> {
        let error = fails(&mut admin, sql, REFUSED)?;
        ensure!(error.contains(why), "{sql}: {error}");
        Ok(())
    };
    refused("PAUSE HOSTGROUP 77", "hostgroup 77 has no server")?;
    refused("RESUME HOSTGROUP 0", "hostgroup 0 is not paused")?;

    let [mut open, mut pinned, mut texts, mut prepared] = [
        client(&proxy, &schema)?,
        client(&proxy, &schema)?,
        client(&proxy, &schema)?,
        client(&proxy, &schema)?,
    ];
    open.sql("START TRANSACTION")?;
    open.sql("INSERT INTO t VALUES (1)")?;
    pinned.sql("CREATE TEMPORARY TABLE own (a INT)")?;
    prepared.execute("INSERT INTO t VALUES (?)", &["2"])?;
    admin.sql("PAUSE HOSTGROUP 0 FOR 60")?;
    let (statements, paused) = thread::scope(|scope| {
        let statements = [
            scope.spawn(|| texts.sql("INSERT INTO t VALUES (3)").map(drop)),
            scope.spawn(|| prepared.execute("INSERT INTO t VALUES (?)", &["4"]).map(drop)),
            scope.spawn(|| pinned.sql("INSERT INTO own VALUES (1)").map(drop)),
            scope.spawn(|| client(&proxy, &schema)?.sql("INSERT INTO t VALUES (5)").map(drop)),
        ];
        let paused = while_paused(&proxy, &mut admin).and_then(|()| {
            ensure!(count()? == Some("1".to_owned()), "something new ran");
            open.sql("INSERT INTO t VALUES (6)")?;
            open.sql("COMMIT")?;
            ensure!(count()? == Some("3".to_owned()));
            Ok(())
        });
        let resumed = admin.sql("RESUME HOSTGROUP 0");
        let statements = statements.map(|statement| statement.join().expect("no panic"));
        (statements, paused.and(resumed.map(drop)))
    });
    paused?;
    statements.into_iter().collect::<Result<()>>()?;
    ensure!(count()? == Some("6".to_owned()));
    ensure!(pinned.value("SELECT COUNT(*) FROM own")?.as_deref() == Some("1"));
    ensure!(admin.sql("SHOW PAUSED HOSTGROUPS")?.is_empty());
    Ok(())
}

/// Four are held, and it is seen who holds what.
fn while_paused(proxy: &Trunkline, admin: &mut SqlClient) -> Result<()> {
    wait_until("four are held", SOON, || {
        let held = proxy.metric("trunkline_statements_held", "hostgroup=\"0\"")?;
        Ok((held == Some(4.0)).then_some(()))
    })?;
    let rows = admin.named("SHOW PAUSED HOSTGROUPS")?;
    let reasons = |row: &BTreeMap<String, Option<String>>| row.get("reasons").cloned().flatten();
    let found: Vec<_> = rows.iter().filter_map(reasons).collect();
    ensure!(found.iter().any(|reasons| reasons.contains("transaction")), "{rows:?}");
    ensure!(found.iter().any(|reasons| reasons.contains("temporary table")), "{rows:?}");
    ensure!(rows.iter().all(|row| row.get("held") == Some(&Some("4".to_owned()))), "{rows:?}");
    let list = admin.sql("SHOW PROCESSLIST")?;
    ensure!(format!("{list:?}").contains("held: hostgroup 0 is paused"), "{list:?}");
    Ok(())
}
