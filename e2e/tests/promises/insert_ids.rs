//! `LAST_INSERT_ID()` is the session's own, whatever asks for it.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, Scene};

#[test]
fn the_last_insert_id_is_the_sessions_own_whatever_asks_for_it() -> Result<()> {
    holds(ONE, include_str!("cases/insert_ids.txt"))
}

#[test]
fn an_id_that_a_statement_gives_is_not_taken_for_a_generated_one() -> Result<()> {
    holds(ONE, include_str!("cases/insert_ids_given.txt"))
}

#[test]
fn what_a_statement_left_is_fetched_before_its_connection_logs_in_as_somebody_else() -> Result<()> {
    let scene = Scene { connections: 2, ..ONE };
    holds(scene, include_str!("cases/insert_ids_parted.txt"))
}
