//! What a session sets is set, also when it was set before.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, Scene};

#[test]
fn a_setting_said_again_has_its_effects_again() -> Result<()> {
    holds(ONE, include_str!("cases/settings.txt"))
}

#[test]
fn warnings_behind_many_reads_are_kept() -> Result<()> {
    // Few connections: what was short so far is joined on them.
    holds(Scene { connections: 2, ..ONE }, include_str!("cases/warnings.txt"))
}

#[test]
fn issue_16_a_literal_with_an_offset_keeps_its_time() -> Result<()> {
    holds(ONE, include_str!("cases/literals_with_offsets.txt"))
}

#[test]
fn issue_16_character_sets_of_schemas_are_those_of_their_moment() -> Result<()> {
    holds(ONE, include_str!("cases/schemas_character_sets.txt"))
}
