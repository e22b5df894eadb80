//! The last value of a sequence is the session's own.

use anyhow::Result;

use super::play::holds;
use super::stand::ONE;

#[test]
fn the_last_value_of_a_sequence_is_the_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/sequences.txt"))
}
