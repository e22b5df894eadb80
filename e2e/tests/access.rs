//! Where clients come from, as their balancers tell it, and who may connect from there.

mod balancers;
mod granted;
mod hosts;
mod limits;
mod pam;
mod parsec;
mod passwords;
mod processes;
mod relayed;
mod unproven;

use anyhow::{Result, ensure};
use trunkline_testkit::Trunkline;

use crate::backends::PASSWORD;
use crate::wire::{Endpoint, MODERN, Wire, login};

/// Logs in as told by a balancer, whose header is these bytes.
fn behind(proxy: &Trunkline, header: &[u8], user: &str, password: &str) -> Result<Wire> {
    Wire::login_behind(proxy, header, login(user, password, "", MODERN))
}

/// The header of a client that came from this address, by version 1.
fn from(address: &str) -> Vec<u8> {
    format!("PROXY TCP4 {address} 203.0.113.1 51234 3306\r\n").into_bytes()
}

/// What an administrator says; each statement succeeds.
fn admin(proxy: &Trunkline, statements: &str) -> Result<()> {
    let mut wire = Wire::login(Endpoint::Tcp(proxy.admin_port()), "admin", "admin", "")?;
    for statement in statements.split(';') {
        let outcome = wire.one(statement)?;
        ensure!(outcome.error().is_none(), "{statement}: {outcome:?}");
    }
    Ok(())
}

/// Logs in with the right password, from this address.
fn enter(proxy: &Trunkline, user: &str, address: &str) -> Result<Wire> {
    behind(proxy, &from(address), user, PASSWORD)
}
