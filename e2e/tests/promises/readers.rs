//! A write happens on the writer, whatever went before.

use anyhow::Result;

use super::play::holds;
use super::stand::{SPLIT, Scene};

#[test]
fn a_write_is_on_the_writer_whatever_held_the_session_on_a_reader() -> Result<()> {
    holds(SPLIT, include_str!("cases/readers.txt"))
}

#[test]
fn a_write_is_on_the_writer_behind_a_rule_without_multiplexing() -> Result<()> {
    let rules = "[[rule]]\nid = 10\nmatch_digest = \"^SELECT\"\nmultiplex = 0\n";
    holds(Scene { rules, ..SPLIT }, include_str!("cases/readers_held.txt"))
}
