//! Step 5: rules.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use trunkline_rules::{
    Executed, FastRoute, FastRoutesBuilder, Hits, Memory, Options, Question, Rewrites, Rule,
    RuleSet,
};
use trunkline_sql::digest::{Digester, Settings};
use trunkline_topology::HostgroupId;

use crate::text::POINT_SELECT;

/// How many rules there are.
const RULES: u32 = 20;

/// How many are many.
const MANY: u32 = 20_000;
/// How many fast routing rules there are.
const FAST: u32 = 200_000;

pub fn evaluate(calls: u64) -> Result<()> {
    ask(calls, rules(RULES, rule)?, |rules, question, hits| {
        black_box(rules.evaluate(question, hits));
    })
}

pub fn remembered(calls: u64) -> Result<()> {
    remember(calls, rules(RULES, rule)?)
}

pub fn evaluate_many(calls: u64) -> Result<()> {
    ask(calls, rules(MANY, by_schema)?, |rules, question, hits| {
        black_box(rules.evaluate(question, hits));
    })
}

pub fn remembered_one(calls: u64) -> Result<()> {
    remember(calls, rules(1, by_schema)?)
}

pub fn remembered_many(calls: u64) -> Result<()> {
    remember(calls, rules(MANY, by_schema)?)
}

pub fn fast_routing(calls: u64) -> Result<()> {
    let mut builder = FastRoutesBuilder::default();
    for number in 0..FAST {
        let schemaname = match number {
            0 => "sbtest".to_owned(),
            _ => format!("customer_{number}_production"),
        };
        builder.add(FastRoute {
            username: "app",
            schemaname: &schemaname,
            flag: 0,
            destination_hostgroup: HostgroupId(1),
        })?;
    }
    let routes = builder.finish().ok().context("two routes are alike")?;
    for _ in 0..calls {
        let found = routes.find(black_box("app"), black_box(b"sbtest"), black_box(0));
        ensure!(found == Some(HostgroupId(1)), "the route is not found");
    }
    Ok(())
}

fn remember(calls: u64, rules: RuleSet) -> Result<()> {
    let mut memory = Memory::new(1_024);
    ask(calls, rules, |rules, question, hits| {
        black_box(memory.decide(rules, question, hits));
    })?;
    let counters = memory.counters();
    ensure!(counters.evaluated == 1, "{} evaluations", counters.evaluated);
    Ok(())
}

fn rules(count: u32, rule: fn(u32) -> Rule) -> Result<RuleSet> {
    let rules = RuleSet::compile((1..=count).map(rule).collect(), Options::default());
    rules.ok().context("the rules do not compile")
}

/// A rule for each schema; the first one takes the statement.
fn by_schema(id: u32) -> Rule {
    Rule {
        id,
        schemaname: Some(match id {
            1 => "sbtest".to_owned(),
            _ => format!("customer_{id}_production"),
        }),
        match_digest: Some("^SELECT".to_owned()),
        destination_hostgroup: Some(HostgroupId(id)),
        apply: true,
        ..Rule::default()
    }
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

fn ask(
    calls: u64,
    rules: RuleSet,
    mut decide: impl FnMut(&RuleSet, &Question<'_>, &mut Hits),
) -> Result<()> {
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
        executed: Executed::AsDigested,
        rewrites: Rewrites::All,
        chance: 0,
    };
    for _ in 0..calls {
        decide(&rules, black_box(&question), &mut hits);
    }
    Ok(())
}
