//! The result cache answers only whom it would answer the same.

use anyhow::Result;

use super::play::holds;
use super::stand::{ONE, Scene};

#[test]
fn a_cached_answer_is_for_those_who_would_get_it() -> Result<()> {
    let rules = "[[rule]]\nid = 10\nmatch_digest = \"^(SELECT|WITH)\"\ncache_ttl = 3600000\n";
    holds(Scene { rules, ..ONE }, include_str!("cases/cache.txt"))
}

#[test]
fn a_rule_that_insists_does_not_share_what_reads_the_session() -> Result<()> {
    let rules = "[[rule]]\nid = 10\nmatch_digest = \"^SELECT\"\ncache_ttl = 3600000\n\
                 attributes = '{\"cache\": \"always\"}'\n";
    holds(Scene { rules, ..ONE }, include_str!("cases/cache_always.txt"))
}
