//! `FOUND_ROWS()`, `ROW_COUNT()` and warnings are about the session's own last statement.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, SPLIT};

#[test]
fn counts_are_about_the_sessions_own_last_statement() -> Result<()> {
    holds(ONE, include_str!("cases/counts.txt"))
}

#[test]
fn counts_are_about_the_last_statement_whichever_server_ran_it() -> Result<()> {
    holds(SPLIT, include_str!("cases/counts_split.txt"))
}
