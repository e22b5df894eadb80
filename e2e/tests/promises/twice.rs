//! A statement with effects is never sent twice.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, Scene};

#[test]
fn what_has_effects_is_not_sent_again_when_its_connection_is_lost() -> Result<()> {
    holds(ONE, include_str!("cases/twice.txt"))
}

#[test]
fn what_has_effects_is_not_sent_round_a_statement_that_is_stuck() -> Result<()> {
    let settings = "pipeline_depth_max = 16";
    holds(Scene { settings, ..ONE }, include_str!("cases/twice_behind_others.txt"))
}
