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

/// Rules that send what says so to the writer, or to the reader.
const NAMED: &str = "[[rule]]\nid = 10\nmatch_pattern = \"GOTO10\"\ndestination_hostgroup = 10\n\
                     [[rule]]\nid = 20\nmatch_pattern = \"GOTO20\"\ndestination_hostgroup = 20\n";

#[test]
fn a_write_is_on_the_writer_behind_rules_and_hints_that_name_it() -> Result<()> {
    holds(Scene { rules: NAMED, ..SPLIT }, include_str!("cases/readers_rules.txt"))
}

#[test]
fn what_acts_in_a_read_only_transaction_is_on_the_writer() -> Result<()> {
    holds(SPLIT, include_str!("cases/readers_acting.txt"))
}

#[test]
fn what_acts_is_on_the_writer_though_its_digest_is_cut() -> Result<()> {
    let settings = "query_digests_max_digest_length = 16";
    holds(Scene { settings, ..SPLIT }, include_str!("cases/readers_acting.txt"))
}

/// ProxySQL's.
const CLASSIC: &str = "[[rule]]\nid = 1\nmatch_digest = \"^SELECT.*FOR UPDATE$\"\n\
                       destination_hostgroup = 10\napply = true\n\
                       [[rule]]\nid = 2\nmatch_digest = \"^SELECT\"\n\
                       destination_hostgroup = 20\napply = true\n";

#[test]
fn issue_16_without_autocommit_no_rule_begins_a_transaction_on_a_reader() -> Result<()> {
    let scene = Scene { rules: CLASSIC, ..SPLIT };
    holds(scene, include_str!("cases/readers_without_autocommit.txt"))
}

#[test]
fn issue_16_who_is_held_on_a_reader_begins_no_transaction_there() -> Result<()> {
    let rules = "[[rule]]\nid = 1\nmatch_digest = \"^SELECT\"\nmultiplex = 0\n";
    holds(Scene { rules, ..SPLIT }, include_str!("cases/readers_held_by_rules.txt"))
}

#[test]
fn issue_16_classic_rules_neither_part_locks_nor_hide_temporary_tables() -> Result<()> {
    holds(Scene { rules: CLASSIC, ..SPLIT }, include_str!("cases/readers_classic.txt"))
}
