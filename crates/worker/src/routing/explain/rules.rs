//! What rules have to do with a statement, in words.

use std::{collections::HashMap, fmt::Write};

use trunkline_catalog::Proof;
use trunkline_config::Snapshot;
use trunkline_rules::{Effects, Outcome, Rule, Visit};
use trunkline_sql::{analysis::Analysis, hint::Hints};
use trunkline_topology::Tables;

use super::Rows;
use crate::cache::{CacheOrder, is_cacheable, until::Unkept};

/// Each rule in the order of the evaluation.
pub(super) fn visits(out: &mut Rows, snapshot: &Snapshot, visits: &[Visit]) {
    if visits.is_empty() {
        return out.push("rules", "none");
    }
    let rules: HashMap<u32, &Rule> =
        snapshot.config.rules.iter().map(|rule| (rule.id, rule)).collect();
    for visit in visits {
        let outcome = match visit.outcome {
            Outcome::Matched if visit.is_undecided => {
                "undecided, which counts as a match, since it protects".to_owned()
            }
            Outcome::FirstFailed(column) if visit.is_undecided => {
                format!("no: {column} is undecided")
            }
            Outcome::Matched => "matches".to_owned(),
            Outcome::Shadowed => "would match, and is a shadow".to_owned(),
            Outcome::FirstFailed(column) => format!("no: {column}"),
        };
        let flag = if visit.flag == 0 { String::new() } else { format!(" (flag {})", visit.flag) };
        let mut does = String::new();
        if let (Outcome::Matched, Some(rule)) = (visit.outcome, rules.get(&visit.rule_id)) {
            matched(&mut does, rule, visit);
        }
        out.push("rule", format!("{}{flag}: {outcome}{does}", visit.rule_id));
    }
}

fn matched(out: &mut String, rule: &Rule, visit: &Visit) {
    // Writing to a string can't fail.
    if let Some(hostgroup) = rule.destination_hostgroup {
        let _ = write!(out, ", hostgroup {hostgroup}");
    }
    if visit.rewrote {
        out.push_str(", rewrites");
    }
    if rule.flag_out.is_some() || visit.flag_after != visit.flag {
        let _ = write!(out, ", on with flag {}", visit.flag_after);
    }
    if rule.apply {
        out.push_str(", apply");
    }
}

/// What rules ask for beside a destination.
pub(super) fn orders(out: &mut Rows, effects: &Effects) {
    let mut orders = Vec::new();
    let mut number = |name: &str, value: Option<u32>, unit: &str| {
        orders.extend(value.map(|value| format!("{name} {value}{unit}")));
    };
    number("delay", effects.delay_ms, " ms");
    number("timeout", effects.timeout_ms, " ms");
    number("retries", effects.retries, "");
    number("multiplex", effects.multiplex.map(|multiplex| multiplex.number().into()), "");
    number("next_query_flagIN", effects.next_query_flag, "");
    number("cache_ttl", effects.cache_ttl_ms, " ms");
    number("cache_age_max_ms", effects.cache_age_max_ms, "");
    number("mirror_hostgroup", effects.mirror_hostgroup.map(|hostgroup| hostgroup.0), "");
    number("mirror_flagOUT", effects.mirror_flag, "");
    number("gtid_from_hostgroup", effects.gtid_from_hostgroup.map(|hostgroup| hostgroup.0), "");
    number("log", effects.log.map(u32::from), "");
    let is_until = effects.cache_until_changed == Some(true);
    orders.extend(is_until.then(|| "cache until-changed".to_owned()));
    orders.extend(effects.causal_reads.map(|reads| format!("causal_reads {reads}")));
    orders.extend(effects.pipeline.map(|pipeline| format!("pipeline {pipeline}")));
    if !orders.is_empty() {
        out.push("orders", orders.join(", "));
    }
}

/// Whether the cache is asked for it. `hints` are what its comments ask for, where they are
/// listened to; `bases` gives the tables that its answer depends on, or why they are not known.
pub(super) fn cache(
    out: &mut Rows,
    effects: &Effects,
    hints: Option<&Hints>,
    (analysis, proof): (&Analysis, Proof),
    bases: impl FnOnce() -> Result<Tables, Unkept>,
) {
    let order = CacheOrder::of_effects(effects);
    let order = match hints.and_then(|hints| hints.cache_ttl_ms) {
        Some(ttl_ms) => CacheOrder::hinted(order, ttl_ms),
        None => order,
    };
    let Some(order) = order else { return };
    if !is_cacheable(analysis, proof, order) {
        return out.push("cache", "not asked: its answer is not the data's alone");
    }
    let age = format!("an answer up to {} ms old will do", order.ttl_ms());
    if !order.is_until_changed() {
        return out.push("cache", age);
    }
    match bases() {
        Ok(tables) => {
            let names: Vec<&str> = tables.names().collect();
            let on = match names.is_empty() {
                true => "no table".to_owned(),
                false => names.join(", "),
            };
            out.push("cache", format!("{age} until a change of what it depends on: {on}"));
        }
        Err(why) => out.push("cache", format!("nothing is kept until it changes: {why}")),
    }
}
