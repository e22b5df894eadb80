//! Where clients come from, as their balancers tell it, and who may connect from there.

mod balancers;
mod granted;
mod limits;
mod passwords;

use anyhow::Result;
use trunkline_testkit::Trunkline;

use crate::backends::PASSWORD;
use crate::wire::{MODERN, Wire, login};

/// Logs in as told by a balancer, whose header is these bytes.
fn behind(proxy: &Trunkline, header: &[u8], user: &str, password: &str) -> Result<Wire> {
    Wire::login_behind(proxy, header, login(user, password, "", MODERN))
}

/// The header of a client that came from this address, by version 1.
fn from(address: &str) -> Vec<u8> {
    format!("PROXY TCP4 {address} 203.0.113.1 51234 3306\r\n").into_bytes()
}

/// Logs in with the right password, from this address.
fn enter(proxy: &Trunkline, user: &str, address: &str) -> Result<Wire> {
    behind(proxy, &from(address), user, PASSWORD)
}
