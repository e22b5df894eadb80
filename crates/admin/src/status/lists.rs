//! What `trunkline servers`, `digests`, `rules` and `tenants` print.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_stats::{DigestRow, Report};

use super::{
    COLUMNS_MAX, digest_table, servers,
    table::{
        Align::{Left, Right},
        Column, Table,
    },
    unit::{count, duration},
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

/// Tenants, those that have used most server time first.
pub fn tenants_text(report: &Report) -> String {
    let mut columns = vec![Column::new("tenant", Left)];
    let names =
        ["statements", "server time", "share", "waited", "mean wait", "late", "running", "waiting"];
    columns.extend(names.map(|name| Column::new(name, Right)));
    let mut table = Table::new(columns);
    let all_us: u64 = report.tenants.values().map(|sums| sums.server_time_us).sum();
    let mut rows: Vec<_> = report.tenants.iter().collect();
    rows.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.server_time_us));
    for (name, sums) in rows {
        let shown = if name.is_empty() { "(all others)" } else { name };
        table.row(vec![
            shown.to_owned(),
            count(sums.statements),
            duration(sums.server_time_us),
            format!("{} %", sums.server_time_us * 100 / all_us.max(1)),
            count(sums.queued),
            duration(sums.queue_time_us / sums.queued.max(1)),
            count(sums.late),
            count(sums.running),
            count(sums.waiting),
        ]);
    }
    match table.is_empty() {
        true => "no tenants: tenant_by is off\n".to_owned(),
        false => table.render(COLUMNS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_stats::TenantSums;

    use super::*;

    #[test]
    fn tenants_are_shown_by_what_they_use() {
        assert!(tenants_text(&Report::default()).contains("no tenants"));
        let of =
            |server_time_us| TenantSums { statements: 1, server_time_us, ..Default::default() };
        let tenants = [(String::new(), of(0)), ("shop".to_owned(), of(1_000))];
        let tenants = tenants.into_iter().chain([("reports".to_owned(), of(3_000))]).collect();
        let text = tenants_text(&Report { tenants, ..Report::default() });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().any(|line| line.starts_with("reports") && line.contains("75 %")));
        let at = |name: &str| lines.iter().position(|line| line.starts_with(name));
        assert!(at("reports") < at("shop") && at("shop") < at("(all others)"), "{text}");
    }
}
