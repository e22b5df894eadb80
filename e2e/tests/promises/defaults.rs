//! New sessions begin with the server's defaults as they are now.

use anyhow::Result;

use super::play::holds;
use super::stand::{Kind, ONE, Scene};

#[test]
fn new_sessions_begin_with_what_was_set_for_all() -> Result<()> {
    let servers = Kind::Own("");
    holds(Scene { servers, ..ONE }, include_str!("cases/defaults.txt"))
}
