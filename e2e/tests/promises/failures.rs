//! A statement that fails may have done something: what it left stays with its session.

use anyhow::Result;

use super::play::holds;
use super::stand::ONE;

#[test]
fn what_a_failed_statement_assigned_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_assignments.txt"))
}

#[test]
fn what_a_failed_statement_locked_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_locks.txt"))
}

#[test]
fn what_a_failed_block_did_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_blocks.txt"))
}

#[test]
fn what_a_failed_call_did_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_calls.txt"))
}

#[test]
fn what_went_before_a_failure_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_behind.txt"))
}

#[test]
fn what_went_before_the_failure_of_a_prepared_statement_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_behind_prepared.txt"))
}

#[test]
fn a_lock_that_no_query_released_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/locks_not_released.txt"))
}

#[test]
fn issue_16_what_went_before_the_failure_of_a_trigger_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/failed_in_triggers.txt"))
}
