//! A temporary table is its session's as long as it is there.

use anyhow::Result;

use super::play::holds;
use super::stand::ONE;

#[test]
fn a_temporary_table_is_its_sessions_as_long_as_it_is_there() -> Result<()> {
    holds(ONE, include_str!("cases/temporary_tables.txt"))
}
