//! What `trunkline servers`, `digests` and `rules` print.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_stats::{DigestRow, Report};

use super::{
    COLUMNS_MAX, digest_table, servers,
    table::{Align::Right, Column, Table},
    unit::count,
};

/// Servers and their pools.
pub fn servers_text(report: &Report) -> String {
    let mut text = String::new();
    servers(&mut text, &report.servers, &report.waiting);
    match text.is_empty() {
        true => "no servers\n".to_owned(),
        false => text.trim_start().to_owned(),
    }
}

/// Statements by digest, in the order given.
pub fn digests_text(rows: &[DigestRow]) -> String {
    match rows.is_empty() {
        true => "no statements yet\n".to_owned(),
        false => digest_table(rows.iter()).render(COLUMNS_MAX),
    }
}

/// Rules that statements have matched.
pub fn rules_text(report: &Report) -> String {
    let columns = ["rule", "hits", "undecided"].map(|name| Column::new(name, Right)).into();
    let mut table = Table::new(columns);
    let rules: BTreeSet<u32> =
        report.rule_hits.keys().chain(report.rule_undecided.keys()).copied().collect();
    for rule in rules {
        let of = |counts: &BTreeMap<u32, u64>| count(counts.get(&rule).copied().unwrap_or(0));
        table.row(vec![rule.to_string(), of(&report.rule_hits), of(&report.rule_undecided)]);
    }
    match table.is_empty() {
        true => "no rule has matched yet\n".to_owned(),
        false => table.render(COLUMNS_MAX),
    }
}
