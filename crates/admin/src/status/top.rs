//! What `trunkline top` shows: what has happened between two reports.

use std::collections::HashMap;

use serde_json::{Value, json};
use trunkline_stats::{DigestRow, Histogram, Report, ServerRow, report::state_name};

use super::{
    line, quantiles,
    table::{Align::Left, Align::Right, Column, Table},
    unit::{bytes, count, duration, since},
    view::{HELP, View},
};

/// Servers that have a line each.
const SERVERS_MAX: usize = 12;
/// Lines above the table of statements, without servers.
const HEAD_LINES: usize = 9;

/// What happened in a while.
struct Span<'a> {
    before: &'a Report,
    now: &'a Report,
    /// ms between the two; at least 1.
    ms: u64,
}

impl Span<'_> {
    fn rate(&self, of: impl Fn(&Report) -> u64) -> u64 {
        let more = of(self.now).saturating_sub(of(self.before));
        more.saturating_mul(1_000) / self.ms
    }

    fn latency(&self, of: impl Fn(&Report) -> &Histogram) -> Histogram {
        of(self.now).since(of(self.before))
    }

    /// Servers with their statements per second and latency.
    fn servers(&self) -> Vec<(&ServerRow, u64, Histogram)> {
        let before: HashMap<(u32, &str), &ServerRow> = self
            .before
            .servers
            .iter()
            .map(|row| ((row.hostgroup, row.address.as_str()), row))
            .collect();
        let row = |row| {
            let row: &ServerRow = row;
            let known = before.get(&(row.hostgroup, row.address.as_str()));
            let statements = known.map_or(0, |known| known.counters.statements);
            let latency = match known {
                Some(known) => row.latency.since(&known.latency),
                None => row.latency.clone(),
            };
            let more = row.counters.statements.saturating_sub(statements);
            (row, more.saturating_mul(1_000) / self.ms, latency)
        };
        self.now.servers.iter().map(row).collect()
    }

    /// Digests that a view shows, with the statements and the time since, in its order; and the
    /// time of all.
    fn digests(&self, view: &View) -> (Vec<(&DigestRow, u64, u64)>, u64) {
        let before: HashMap<_, _> =
            self.before.digests.iter().map(|row| (row.key(), &row.sums)).collect();
        let mut rows: Vec<(&DigestRow, u64, u64)> = self
            .now
            .digests
            .iter()
            .filter_map(|row| {
                let known = before.get(&row.key());
                let (count, time) = known.map_or((0, 0), |sums| (sums.count_star, sums.sum_time));
                let count = row.sums.count_star.saturating_sub(count);
                (count > 0).then(|| (row, count, row.sums.sum_time.saturating_sub(time)))
            })
            .collect();
        let all = rows.iter().map(|(_, _, time)| time).sum();
        rows.retain(|(row, ..)| {
            let hostgroup = trunkline_stats::hostgroup_shown(row.hostgroup);
            view.shows(&row.digest_text, &row.username, hostgroup)
        });
        let place = |row: &DigestRow, count, time| view.sort.place(&row.username, count, time);
        rows.sort_by(|a, b| {
            place(a.0, a.1, a.2).cmp(&place(b.0, b.1, b.2)).then_with(|| a.0.key().cmp(&b.0.key()))
        });
        if view.is_reversed {
            rows.reverse();
        }
        (rows, all)
    }
}

/// How many statements a view can show of the time between two reports.
pub fn top_rows(before: &Report, now: &Report, view: &View) -> usize {
    Span { before, now, ms: 1 }.digests(view).0.len()
}

/// The view as text of at most `width` columns and `height` lines. `ms` lie between the reports.
pub fn top_text(
    before: &Report,
    now: &Report,
    ms: u64,
    view: &View,
    (width, height): (usize, usize),
) -> String {
    if view.is_help {
        return cut(HELP, width, height);
    }
    let span = Span { before, now, ms: ms.max(1) };
    let mut text = String::new();
    head(&mut text, &span);
    let shown = servers(&mut text, &span, width);
    let room = height.saturating_sub(HEAD_LINES + shown);
    digests(&mut text, &span, view, width, room);
    cut(&text, width, height)
}

fn cut(text: &str, width: usize, height: usize) -> String {
    let lines = text.lines().take(height).map(|line| {
        let line: String = line.chars().take(width).collect();
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

fn head(text: &mut String, span: &Span<'_>) {
    let process = &span.now.process;
    let up = process.now_unix_sec.saturating_sub(process.started_unix_sec);
    let configuration = process.configuration.version;
    line(
        text,
        &format!(
            "Trunkline {}, up {}, {} workers, configuration {configuration}",
            process.version,
            since(up),
            process.workers,
        ),
    );
    let rate = |of: fn(&Report) -> u64| count(span.rate(of));
    line(
        text,
        &format!(
            "statements  {}/s, {} errors/s;  {}/s to clients, {}/s from them",
            rate(|report| report.counters.statements),
            rate(|report| report.counters.statement_errors),
            bytes(span.rate(|report| report.counters.client_bytes_sent)),
            bytes(span.rate(|report| report.counters.client_bytes_received)),
        ),
    );
    line(text, &format!("latency     {}", quantiles(&span.latency(|report| &report.latency))));
    let clients = count(span.now.clients_connected());
    let pinned = count(span.now.pinned);
    let waiting = count(span.now.waiting.values().sum());
    let arriving = rate(|report| report.counters.clients_accepted);
    line(
        text,
        &format!(
            "clients     {clients}, {arriving}/s new, {pinned} pinned;  {waiting} statements wait"
        ),
    );
}

/// How many lines it took.
fn servers(text: &mut String, span: &Span<'_>, width: usize) -> usize {
    let rows = span.servers();
    if rows.is_empty() {
        return 0;
    }
    let mut table = Table::new(vec![
        Column::new("group", Right),
        Column::flexible_middle("server", Left),
        Column::new("state", Left),
        Column::new("idle", Right),
        Column::new("used", Right),
        Column::new("max", Right),
        Column::new("stmts/s", Right),
        Column::new("p50", Right),
        Column::new("p99", Right),
    ]);
    for (row, rate, latency) in rows.iter().take(SERVERS_MAX) {
        let now = &row.connections;
        table.row(vec![
            row.hostgroup.to_string(),
            row.address.clone(),
            state_name(row.state).to_owned(),
            count(now.idle),
            count(now.leased + now.shared + now.resetting),
            count(row.connections_max),
            count(*rate),
            duration(latency.quantile(0.5)),
            duration(latency.quantile(0.99)),
        ]);
    }
    text.push_str("\nPOOLS\n");
    text.push_str(&table.render(width));
    let hidden = rows.len().saturating_sub(SERVERS_MAX);
    if hidden > 0 {
        line(text, &format!("and {hidden} more"));
    }
    rows.len().min(SERVERS_MAX) + usize::from(hidden > 0)
}

fn digests(text: &mut String, span: &Span<'_>, view: &View, width: usize, room: usize) {
    let (rows, all) = span.digests(view);
    if (rows.is_empty() && view.filter.is_empty()) || room == 0 {
        return;
    }
    let mut table = Table::new(vec![
        Column::new("time", Right),
        Column::new("stmts/s", Right),
        Column::new("average", Right),
        Column::new("group", Right),
        Column::limited("user", Left, 12),
        Column::flexible("statement", Left),
    ]);
    for (row, number, time) in rows.into_iter().skip(view.skipped).take(room) {
        table.row(vec![
            super::unit::percent(time, all),
            count(number.saturating_mul(1_000) / span.ms),
            duration(time.checked_div(number).unwrap_or_default()),
            trunkline_stats::hostgroup_shown(row.hostgroup).to_string(),
            row.username.clone(),
            row.digest_text.clone(),
        ]);
    }
    text.push('\n');
    line(text, &view.title());
    text.push_str(&table.render(width));
}

/// What `trunkline top` shows of the time between two reports, as JSON for programs.
pub fn top_json(before: &Report, now: &Report, ms: u64) -> Value {
    let span = Span { before, now, ms: ms.max(1) };
    let latency = span.latency(|report| &report.latency);
    let servers: Vec<Value> = span
        .servers()
        .iter()
        .map(|(row, rate, latency)| {
            json!({
                "hostgroup": row.hostgroup,
                "server": row.address,
                "state": state_name(row.state),
                "connections": row.connections,
                "statements_per_second": rate,
                "p50_us": latency.quantile(0.5),
                "p99_us": latency.quantile(0.99),
            })
        })
        .collect();
    let digests: Vec<Value> = span
        .digests(&View::default())
        .0
        .iter()
        .take(super::DIGESTS)
        .map(|(row, count, time)| {
            json!({
                "digest": format!("0x{:016X}", row.digest),
                "digest_text": row.digest_text,
                "username": row.username,
                "hostgroup": trunkline_stats::hostgroup_shown(row.hostgroup),
                "statements": count,
                "time_us": time,
            })
        })
        .collect();
    json!({
        "ms": span.ms,
        "statements_per_second": span.rate(|report| report.counters.statements),
        "errors_per_second": span.rate(|report| report.counters.statement_errors),
        "p50_us": latency.quantile(0.5),
        "p99_us": latency.quantile(0.99),
        "clients": now.clients_connected(),
        "waiting": now.waiting.values().sum::<u64>(),
        "servers": servers,
        "digests": digests,
    })
}

#[cfg(test)]
mod tests {
    use trunkline_stats::{DigestQuery, DigestSums};

    use super::*;
    use crate::{sample, status::view::Sort};

    #[test]
    fn rates_are_those_of_the_time_between() {
        let before = sample::report(DigestQuery::ALL);
        let mut now = before.clone();
        now.counters.statements += 3_000;
        now.latency.record(700);
        for row in &mut now.servers {
            row.counters.statements += 500;
        }
        if let Some(row) = now.digests.first_mut() {
            row.sums.count_star += 50;
            row.sums.sum_time += 5_000;
        }
        let text = top_text(&before, &now, 2_000, &View::default(), (100, 40));
        assert!(text.contains("statements  1500/s, 0 errors/s"), "{text}");
        assert!(text.contains("\nPOOLS\n") && text.contains(" 250 "), "{text}");
        assert!(text.contains("STATEMENTS by time now\n"), "{text}");
        assert!(text.contains("100%") && text.contains("100us"), "{text}");
        let json = top_json(&before, &now, 2_000);
        assert_eq!(json["statements_per_second"], 1_500);
        assert_eq!(json["digests"][0]["statements"], 50);
    }

    #[test]
    fn it_fits_the_terminal() {
        let report = sample::report(DigestQuery::ALL);
        let nothing = Report::default();
        for (width, height) in [(80, 24), (40, 10), (20, 3), (200, 60)] {
            for is_help in [false, true] {
                let view = View { is_help, ..View::default() };
                let text = top_text(&nothing, &report, 1_000, &view, (width, height));
                assert!(text.lines().count() <= height, "{width}x{height}:\n{text}");
                assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
                assert!(!text.contains('\x1b'));
            }
        }
    }

    #[test]
    fn statements_are_sorted_filtered_and_moved_along() {
        let row = |digest, user: &str, text: &str, count, time| DigestRow {
            digest,
            username: user.to_owned(),
            digest_text: text.to_owned(),
            hostgroup: 7,
            sums: DigestSums { count_star: count, sum_time: time, ..DigestSums::default() },
            schemaname: String::new(),
        };
        let digests = vec![
            row(1, "b", "SELECT one", 10, 500),
            row(2, "a", "SELECT two", 5, 900),
            row(3, "c", "INSERT three", 20, 100),
        ];
        let now = Report { digests, ..Report::default() };
        let nothing = Report::default();
        let check = |view: View, expected: &[u64]| {
            let span = Span { before: &nothing, now: &now, ms: 1 };
            let (rows, all) = span.digests(&view);
            let found: Vec<u64> = rows.iter().map(|(row, ..)| row.digest).collect();
            assert_eq!((found.as_slice(), all), (expected, 1_500), "{view:?}");
        };
        let by = |sort| View { sort, ..View::default() };
        check(by(Sort::Time), &[2, 1, 3]);
        check(by(Sort::Count), &[3, 1, 2]);
        check(by(Sort::Average), &[2, 1, 3]);
        check(by(Sort::User), &[2, 1, 3]);
        check(View { is_reversed: true, ..View::default() }, &[3, 1, 2]);
        let with = |filter: &str| View { filter: filter.to_owned(), ..View::default() };
        check(with("select"), &[2, 1]);
        check(with("C"), &[2, 1, 3]);
        check(with("three"), &[3]);
        check(with("7"), &[2, 1, 3]);
        check(with("8"), &[]);
        let view = View { skipped: 2, ..View::default() };
        let text = top_text(&nothing, &now, 1, &view, (80, 30));
        assert!(text.contains("STATEMENTS by time now, from 3\n"), "{text}");
        assert!(text.contains("INSERT three") && !text.contains("SELECT two"), "{text}");
        let text = top_text(&nothing, &now, 1, &with("nowhere"), (80, 30));
        assert!(text.contains("with `nowhere`"), "{text}");
        assert_eq!(top_rows(&nothing, &now, &with("select")), 2);
    }
}
