//! What triggers and views hide is found all the same.

use anyhow::Result;

use super::play::holds;
use super::stand::{Kind, ONE, SPLIT, Scene};

#[test]
fn what_a_trigger_or_a_view_leaves_is_its_sessions_own() -> Result<()> {
    holds(ONE, include_str!("cases/triggers_and_views.txt"))
}

#[test]
fn what_a_view_writes_is_on_the_writer() -> Result<()> {
    holds(SPLIT, include_str!("cases/views_that_write.txt"))
}

#[test]
fn a_replica_is_asked_for_nothing_that_it_refuses() -> Result<()> {
    let scene = Scene { servers: Kind::Replicated, ..SPLIT };
    holds(scene, include_str!("cases/replicated.txt"))
}

#[test]
fn what_waits_for_a_reader_is_proven_again_when_its_names_have_changed() -> Result<()> {
    let rules = "[[hostgroup]]\nhostgroup_id = 20\npipeline = \"off\"\n";
    let scene = Scene { servers: Kind::Replicated, connections: 1, rules, ..SPLIT };
    holds(scene, include_str!("cases/waiting.txt"))
}

#[test]
fn issue_16_a_triggers_variable_ends_with_its_block() -> Result<()> {
    holds(ONE, include_str!("cases/trigger_scopes.txt"))
}
