//! Step 5: rules.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use trunkline_rules::{Hits, Memory, Options, Question, Rule, RuleSet};
use trunkline_sql::digest::{Digester, Settings};

use crate::text::POINT_SELECT;

/// How many rules there are.
const RULES: u32 = 20;

pub fn evaluate(calls: u64) -> Result<()> {
    ask(calls, |rules, question, hits| {
        black_box(rules.evaluate(question, hits));
    })
}

pub fn remembered(calls: u64) -> Result<()> {
    let mut memory = Memory::new(1_024);
    ask(calls, |rules, question, hits| {
        black_box(memory.decide(rules, question, hits));
    })?;
    let counters = memory.counters();
    ensure!(counters.evaluated == 1, "{} evaluations", counters.evaluated);
    Ok(())
}

/// Like the rules of `cargo xtask bench`: none of them takes the statement.
pub fn rule(id: u32) -> Rule {
    Rule {
        id,
        schemaname: (id.is_multiple_of(5)).then(|| "archive".to_owned()),
        username: (id % 5 == 3).then(|| "report".to_owned()),
        match_digest: Some(format!("^SELECT .* FROM audit_{id} WHERE .*")),
        apply: true,
        ..Rule::default()
    }
}

fn ask(calls: u64, mut decide: impl FnMut(&RuleSet, &Question<'_>, &mut Hits)) -> Result<()> {
    let rules = RuleSet::compile((1..=RULES).map(rule).collect(), Options::default());
    let rules = rules.ok().context("the rules do not compile")?;
    let mut hits = Hits::new(&rules);
    let mut digester = Digester::new();
    let digest = digester.digest(POINT_SELECT, &Settings::default());
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let question = Question {
        username: "app",
        schema: b"sbtest",
        flag: 0,
        client_addr: Some(address),
        proxy_addr: Some(address),
        proxy_port: Some(6_033),
        digest: Some(digest.hash),
        digest_text: digest.text,
        query: POINT_SELECT,
        may_rewrite: true,
        chance: 0,
    };
    for _ in 0..calls {
        decide(&rules, black_box(&question), &mut hits);
    }
    Ok(())
}
