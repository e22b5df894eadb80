//! `LAST_INSERT_ID()` is the session's own, whatever asks for it.

use anyhow::Result;

use super::play::holds;
use super::stand::ONE;

#[test]
fn the_last_insert_id_is_the_sessions_own_whatever_asks_for_it() -> Result<()> {
    holds(ONE, include_str!("cases/insert_ids.txt"))
}
