//! Executions that fail behind long data leave nothing for whoever runs the same text next.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options};

use super::{Param, T, block, on_each, proxy_with, rows};
use crate::stage::{FLAVOURS, PASSWORD, USER, is_available, new_schema, start};
use crate::wire::{Outcome, Shape, Wire, code};

fn prepare(wire: &mut Wire, text: &str) -> Result<[u8; 4]> {
    let reply = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    match reply.get(4..9) {
        Some([0, id @ ..]) => Ok(id.try_into()?),
        _ => anyhow::bail!("{text}: {}", reply.escape_ascii()),
    }
}

fn long(wire: &mut Wire, id: [u8; 4], parameter: u16, data: &[u8]) -> Result<()> {
    let body = [&id[..], &parameter.to_le_bytes(), data].concat();
    wire.exchange(code::STMT_SEND_LONG_DATA, &body, Shape::Nothing)?;
    Ok(())
}

fn execute(wire: &mut Wire, id: [u8; 4], block: &[u8]) -> Result<Outcome> {
    let bytes = wire.exchange(code::STMT_EXECUTE, &[&id[..], block].concat(), Shape::Results)?;
    wire.outcomes(&bytes)?.pop().context("no answer")
}

/// More long data than the server takes, and less than the proxy does. What the table's name means
/// is not known in time: once the servers have said that nothing stands behind it, the failure
/// holds nobody.
#[test]
fn long_data_that_a_server_refuses_is_its_senders_alone() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "long_data_that_a_server_refuses_is_its_senders_alone") {
            continue;
        }
        let server = start(flavour, Options::default().arg("--max-allowed-packet=1048576"))?;
        server.create_user(USER, PASSWORD, trunkline_testkit::AuthPlugin::ServerDefault)?;
        let schema = new_schema(&server, "CREATE TABLE b (a INT, b LONGBLOB)")?;
        let proxy = proxy_with(&server, "catalog_wait_ms = 0", 1)?;
        let text = "INSERT INTO b VALUES (?, ?)";
        let mut one = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let mut other = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let (first, second) = (prepare(&mut one, text)?, prepare(&mut other, text)?);
        for _ in 0..3 {
            long(&mut one, first, 1, &[b'x'; 500_000])?;
        }
        let refused = execute(&mut one, first, &block(0, &[Param::Int(1), Param::Long], true))?;
        ensure!(refused.error().map(|error| error.code) == Some(1105), "{refused:?}");
        for turn in 0..3 {
            long(&mut other, second, 1, b"short")?;
            let block = block(0, &[Param::Int(turn), Param::Long], true);
            let done = execute(&mut other, second, &block)?;
            ensure!(done.is_ok(), "{flavour:?} {turn}: {done:?}");
        }
        long(&mut one, first, 1, b"short")?;
        let done = execute(&mut one, first, &block(0, &[Param::Int(9), Param::Long], true))?;
        ensure!(done.is_ok(), "{flavour:?}: {done:?}");
    }
    Ok(())
}

/// MySQL finds an execution too short before it looks at the statement.
#[test]
fn long_data_of_an_execution_that_is_cut_short_is_nobody_elses() -> Result<()> {
    on_each("long_data_of_an_execution_that_is_cut_short", T, |server, schema| {
        let proxy = proxy_with(server, "", 1)?;
        let mut one = Wire::login(&proxy, USER, PASSWORD, schema)?;
        let mut other = Wire::login(&proxy, USER, PASSWORD, schema)?;
        let (first, second) =
            (prepare(&mut one, "SELECT ?, ?")?, prepare(&mut other, "SELECT ?, ?")?);
        long(&mut one, first, 1, b"secret")?;
        let whole = block(0, &[Param::Int(1), Param::Long], true);
        let cut = execute(&mut one, first, &whole[..whole.len() - 5])?;
        let is_mysql = server.flavour() == Flavour::MySql;
        ensure!(!is_mysql || cut.error().map(|error| error.code) == Some(1835), "{cut:?}");
        // Its types are those of the execution before, so that it may find the same statement.
        let mut own = block(0, &[Param::Int(5), Param::Long], true);
        own.extend_from_slice(b"\x03own");
        for _ in 0..2 {
            let found = execute(&mut other, second, &own)?;
            let found = rows(std::slice::from_ref(&found))?[0].clone();
            ensure!(found.ends_with(b"\x03own"), "{}", found.escape_ascii());
        }
        Ok(())
    })
}
