//! What `trunkline status` prints: tables of at most 100 columns.

pub mod lists;
pub mod sessions;
mod table;
mod tcp;
pub mod top;
pub mod topology;
mod unit;
pub mod view;

use std::collections::BTreeMap;
use std::fmt::Write;

use trunkline_stats::{
    CommandRow, DigestOrder, DigestRow, Histogram, Report, ServerRow, command, report::state_name,
};

use table::{Align::Left, Align::Right, Column, Table, clean};
use unit::{bytes, count, duration, percent, since};

/// The widest line.
pub const COLUMNS_MAX: usize = 100;
/// Rows of the table of digests.
pub const DIGESTS: usize = 10;
/// Rows of the table of commands.
pub const COMMANDS: usize = 12;

/// The report as text for a terminal; every line is at most [`COLUMNS_MAX`] characters, and
/// control characters that came from clients are replaced.
pub fn status_text(report: &Report) -> String {
    let mut text = String::new();
    head(&mut text, report);
    servers(&mut text, &report.servers, &report.waiting);
    tcp::listeners(&mut text, &report.tcp);
    commands(&mut text, &report.commands);
    digests(&mut text, report);
    reasons(&mut text, report);
    text
}

/// Adds one line, cut to the width. Writing to a `String` cannot fail.
fn line(text: &mut String, line: &str) {
    let line: String = clean(line).chars().take(COLUMNS_MAX).collect();
    let _ = writeln!(text, "{line}");
}

fn head(text: &mut String, report: &Report) {
    let process = &report.process;
    let configuration = &process.configuration;
    let up = process.now_unix_sec.saturating_sub(process.started_unix_sec);
    let (version, id) = (&process.version, process.process_id);
    line(text, &format!("Trunkline {version}, process {id}, up {}", since(up)));
    if !process.listen.is_empty() {
        line(text, &format!("listening on   {}", process.listen.join(", ")));
    }
    let age = since(process.now_unix_sec.saturating_sub(configuration.applied_unix_sec));
    let (source, number) = (&configuration.source, configuration.version);
    line(text, &format!("configuration  version {number} of {source}, in force for {age}"));
    if let Some(error) = &configuration.last_error {
        line(text, &format!("               the last change failed: {error}"));
    }
    let answered = match (report.workers.len(), process.workers) {
        (answered, all) if answered == all as usize => all.to_string(),
        (answered, all) => format!("{answered} of {all} answered"),
    };
    let clients = count(report.clients_connected());
    let pinned = count(report.pinned);
    let waiting = count(report.waiting.values().sum());
    line(
        text,
        &format!(
            "workers        {answered};  clients {clients}, pinned {pinned};  statements waiting {waiting}"
        ),
    );
    traffic(text, report, up);
}

/// Statements since the start, `up` seconds ago, and their latency.
fn traffic(text: &mut String, report: &Report, up: u64) {
    let counters = &report.counters;
    let (statements, errors) = (count(counters.statements), count(counters.statement_errors));
    let rate = count(counters.statements.checked_div(up).unwrap_or(0));
    let (sent, received) =
        (bytes(counters.client_bytes_sent), bytes(counters.client_bytes_received));
    line(
        text,
        &format!(
            "statements     {statements} ({rate}/s since the start), {errors} errors;  \
         {sent} to clients, {received} from them"
        ),
    );
    line(text, &format!("latency        {}", quantiles(&report.latency)));
    if report.queue_wait.count() > 0 {
        let waits = count(report.queue_wait.count());
        line(text, &format!("waits          {waits}: {}", quantiles(&report.queue_wait)));
    }
    if report.batch.count() > 0 {
        let batches = count(report.batch.count());
        line(text, &format!("batches        {batches}: {}", quantiles(&report.batch)));
    }
}

fn quantiles(histogram: &Histogram) -> String {
    let at = |quantile| duration(histogram.quantile(quantile));
    let max = duration(histogram.max_us());
    format!("p50 {}, p95 {}, p99 {}, longest {max}", at(0.5), at(0.95), at(0.99))
}

fn servers(text: &mut String, servers: &[ServerRow], waiting: &BTreeMap<u32, u64>) {
    if servers.is_empty() {
        return;
    }
    let mut table = Table::new(vec![
        Column::new("group", Right),
        Column::flexible_middle("server", Left),
        Column::new("state", Left),
        Column::new("idle", Right),
        Column::new("leased", Right),
        Column::new("new", Right),
        Column::new("max", Right),
        Column::new("stmts", Right),
        Column::new("errors", Right),
        Column::new("p50", Right),
        Column::new("p95", Right),
        Column::new("p99", Right),
    ]);
    for server in servers {
        let now = &server.connections;
        let leased = now.leased + now.shared + now.resetting;
        let at = |quantile| duration(server.latency.quantile(quantile));
        table.row(vec![
            server.hostgroup.to_string(),
            server.address.clone(),
            state_name(server.state).to_owned(),
            count(now.idle),
            count(leased),
            count(now.connecting),
            count(server.connections_max),
            count(server.counters.statements),
            count(server.counters.errors),
            at(0.5),
            at(0.95),
            at(0.99),
        ]);
    }
    section(text, "SERVERS", &table);
    for (hostgroup, statements) in waiting.iter().filter(|(_, statements)| **statements > 0) {
        let statements = count(*statements);
        line(
            text,
            &format!("hostgroup {hostgroup}: {statements} statements wait for a connection"),
        );
    }
}

fn section(text: &mut String, title: &str, table: &Table) {
    let _ = write!(text, "\n{title}\n{}", table.render(COLUMNS_MAX));
}

/// Upper bounds in µs of the latency classes shown, with their titles; the rest is `more`.
const CLASSES: [(&str, u64); 4] =
    [("<=1ms", 1_000), ("<=10ms", 10_000), ("<=100ms", 100_000), ("<=1s", 1_000_000)];

fn commands(text: &mut String, commands: &[CommandRow]) {
    if commands.is_empty() {
        return;
    }
    let mut columns = vec![
        Column::flexible("command", Left),
        Column::new("stmts", Right),
        Column::new("time", Right),
        Column::new("average", Right),
    ];
    columns.extend(CLASSES.map(|(title, _)| Column::new(title, Right)));
    columns.push(Column::new("more", Right));
    let mut table = Table::new(columns);
    let mut by_time: Vec<&CommandRow> = commands.iter().collect();
    by_time.sort_by_key(|row| std::cmp::Reverse(row.time_us));
    for row in by_time.iter().take(COMMANDS) {
        let average = row.time_us.checked_div(row.count).unwrap_or(0);
        let mut cells =
            vec![row.command.clone(), count(row.count), duration(row.time_us), duration(average)];
        let mut below = 0;
        for (_, bound) in CLASSES {
            let until = until(row, bound);
            cells.push(percent(until.saturating_sub(below), row.count));
            below = until;
        }
        cells.push(percent(row.count.saturating_sub(below), row.count));
        table.row(cells);
    }
    section(text, "COMMANDS by total time", &table);
    if let Some(hidden @ 1..) = commands.len().checked_sub(COMMANDS) {
        line(text, &format!("and {hidden} more"));
    }
}

/// Statements of at most `bound_us`, one of the bounds of the buckets.
fn until(row: &CommandRow, bound_us: u64) -> u64 {
    let buckets = command::BUCKET_BOUNDS_US.iter().zip(&row.buckets);
    buckets.filter(|(bound, _)| **bound <= bound_us).map(|(_, count)| count).sum()
}

fn digests(text: &mut String, report: &Report) {
    if report.digests.is_empty() {
        return;
    }
    let mut by_time: Vec<&DigestRow> = report.digests.iter().collect();
    by_time.sort_by(|a, b| DigestOrder::SumTime.compare(a, b));
    let table = digest_table(by_time.into_iter().take(DIGESTS));
    section(text, "STATEMENTS by total time", &table);
    if report.digests_evicted > 0 {
        let evicted = count(report.digests_evicted);
        let other = &report.digests_other;
        let (statements, time) = (count(other.count_star), duration(other.sum_time));
        line(text, &format!("{evicted} rows left the full table: {statements} stmts, {time}"));
    }
}

fn digest_table<'a>(rows: impl Iterator<Item = &'a DigestRow>) -> Table {
    let mut table = Table::new(vec![
        Column::new("time", Right),
        Column::new("stmts", Right),
        Column::new("average", Right),
        Column::new("longest", Right),
        Column::new("rows", Right),
        Column::new("errors", Right),
        Column::new("group", Right),
        Column::limited("user", Left, 12),
        Column::flexible("statement", Left),
    ]);
    for row in rows {
        let sums = &row.sums;
        table.row(vec![
            duration(sums.sum_time),
            count(sums.count_star),
            duration(sums.sum_time.checked_div(sums.count_star).unwrap_or(0)),
            duration(sums.max_time),
            count(sums.sum_rows_sent.saturating_add(sums.sum_rows_affected)),
            count(sums.errors),
            trunkline_stats::hostgroup_shown(row.hostgroup).to_string(),
            row.username.clone(),
            row.digest_text.clone(),
        ]);
    }
    table
}

fn reasons(text: &mut String, report: &Report) {
    let mut refusals = two_columns();
    for (spec, refused) in report.counters.refusals() {
        let what = if spec.metric.contains("client") { "clients" } else { "statements" };
        let cause = spec.label.map_or("", |(_, cause)| cause).replace('_', " ");
        refusals.row(vec![count(refused), format!("{what}: {cause}")]);
    }
    let mut pins = two_columns();
    for (reason, sessions) in report.pins.iter().filter(|(_, sessions)| **sessions > 0) {
        pins.row(vec![count(*sessions), reason.clone()]);
    }
    for (title, table) in [("REFUSED", refusals), ("PINNED SESSIONS", pins)] {
        if !table.is_empty() {
            section(text, title, &table);
        }
    }
}

fn two_columns() -> Table {
    Table::new(vec![Column::new("count", Right), Column::flexible("reason", Left)])
}

#[cfg(test)]
mod tests;
