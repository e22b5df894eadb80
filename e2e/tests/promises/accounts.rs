//! What one account or session leaves is not for the next on the connection.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, Scene};

#[test]
fn the_next_on_a_connection_finds_nothing_of_the_one_before() -> Result<()> {
    holds(Scene { connections: 1, ..ONE }, include_str!("cases/accounts.txt"))
}

#[test]
fn sessions_side_by_side_see_their_own() -> Result<()> {
    holds(ONE, include_str!("cases/sessions_beside.txt"))
}

#[test]
fn a_change_of_user_ends_as_directly() -> Result<()> {
    holds(ONE, include_str!("cases/change_user.txt"))
}
