//! Medians, ratios, and the files under `bench/runs/`.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Run;
use super::beside;
use super::cell::Cell;
use super::idle::mebibytes;
use crate::run::first_line;

/// What the proxies are compared with.
const DIRECT: &str = "direct";
/// What Trunkline's cost is compared with.
const RIVAL: &str = "HAProxy";

/// The medians over all rounds of one target with one number of clients.
#[derive(Clone, Debug, Default, PartialEq)]
struct Median {
    target: String,
    clients: u32,
    qps: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    proxy_us: Option<f64>,
    /// The least and the most of all rounds.
    proxy_range: Option<(f64, f64)>,
    server_us: f64,
    rss: Option<f64>,
    errors: u64,
}

/// Prints the tables and writes them, with every single measurement in the JSON file.
pub fn publish(root: &Path, run: &Run) -> Result<()> {
    let date = first_line(Command::new("date").args(["-u", "+%Y-%m-%dT%H%MZ"]))
        .context("date does not say the time")?;
    let text = markdown(run, &date);
    print!("\n{text}\n");
    let folder = root.join("bench").join("runs");
    std::fs::create_dir_all(&folder)?;
    let name = format!("{date}-{}", run.arguments.workload);
    let json = serde_json::to_string_pretty(&to_json(run, &date))?;
    for (ending, content) in [("md", text), ("json", json + "\n")] {
        let file = folder.join(format!("{name}.{ending}"));
        std::fs::write(&file, content)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let shown = file.strip_prefix(root).unwrap_or(&file);
        println!("== written: {}", shown.display());
    }
    Ok(())
}

fn markdown(run: &Run, date: &str) -> String {
    let arguments = &run.arguments;
    let mut text = format!("# {}, {date}\n\n", arguments.workload);
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        text,
        "Medians of {} rounds of {} s, interleaved; {} protocol over {}, {} rows. CPU is user and \
         system time per statement.\nTrunkline: {} worker(s), 20 rules, automatic read/write split, \
         statistics on, at most {} server connections per hostgroup. HAProxy: TCP, one thread.\n",
        arguments.rounds,
        arguments.seconds,
        if arguments.prepared { "prepared (binary)" } else { "text" },
        if arguments.unix { "Unix sockets (HAProxy: TCP)" } else { "TCP" },
        arguments.table_size,
        arguments.workers,
        arguments.server_connections,
    );
    text.push_str(
        "| clients | by way of | QPS | of direct | CPU µs | least–most | of HAProxy | \
         server CPU µs | of direct | p50 ms | p95 | p99 | p99.9 | most | MiB | errors |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let medians = medians(&run.cells);
    for row in &medians {
        text.push_str(&line(row, &medians));
    }
    if !run.beside.is_empty() {
        text.push_str(&beside::markdown(&run.beside));
    }
    if let Some(idle) = &run.idle {
        let _ = writeln!(text, "\n{}", capitalised(&idle.line()));
    }
    let others: Vec<f64> = run.cells.iter().map(|cell| cell.others * 100.0).collect();
    let most = others.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "\n- CPU used by other processes meanwhile: median {:.0} %, most {most:.0} % of the machine",
        median(others).unwrap_or(0.0)
    );
    for (what, value) in &run.conditions {
        let _ = writeln!(text, "- {what}: {value}");
    }
    text
}

fn line(row: &Median, all: &[Median]) -> String {
    let same = |target: &str| {
        let mut rows = all.iter();
        rows.find(|other| other.target == target && other.clients == row.clients)
    };
    let is_direct = row.target == DIRECT;
    let direct = same(DIRECT).filter(|_| !is_direct);
    let rival = same(RIVAL).and_then(|rival| rival.proxy_us);
    let rival = rival.filter(|_| row.target != RIVAL);
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let range =
        row.proxy_range.map_or_else(String::new, |(least, most)| format!("{least:.1}–{most:.1}"));
    format!(
        "| {} | {} | {:.0} | {} | {} | {range} | {} | {:.1} | {} | {:.2} | {:.2} | {:.2} | {:.1} | \
         {:.1} | {} | {} |\n",
        row.clients,
        row.target,
        row.qps,
        number(direct.map(|direct| row.qps / direct.qps), 2),
        number(row.proxy_us, 1),
        number(rival.zip(row.proxy_us).map(|(rival, own)| own / rival), 2),
        row.server_us,
        number(direct.map(|direct| row.server_us / direct.server_us), 2),
        row.p50_ms,
        row.p95_ms,
        row.p99_ms,
        row.p999_ms,
        row.max_ms,
        number(row.rss, 1),
        row.errors,
    )
}

/// By number of clients, and within it in the order in which targets were first measured.
fn medians(cells: &[Cell]) -> Vec<Median> {
    let mut keys: Vec<(u32, &str)> = Vec::new();
    for cell in cells {
        let key = (cell.clients, cell.target.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_by_key(|(clients, _)| *clients);
    let median_of = |(clients, target): (u32, &str)| {
        let same: Vec<&Cell> =
            cells.iter().filter(|cell| cell.clients == clients && cell.target == target).collect();
        let over = |value: fn(&Cell) -> Option<f64>| {
            median(same.iter().filter_map(|cell| value(cell)).collect())
        };
        let proxy: Vec<f64> = same.iter().filter_map(|cell| cell.proxy_us).collect();
        let least = proxy.iter().copied().reduce(f64::min);
        Median {
            target: target.to_owned(),
            clients,
            qps: over(|cell| Some(cell.qps)).unwrap_or(0.0),
            p50_ms: over(|cell| Some(cell.p50_ms)).unwrap_or(0.0),
            p95_ms: over(|cell| Some(cell.p95_ms)).unwrap_or(0.0),
            p99_ms: over(|cell| Some(cell.p99_ms)).unwrap_or(0.0),
            p999_ms: over(|cell| Some(cell.p999_ms)).unwrap_or(0.0),
            max_ms: over(|cell| Some(cell.max_ms)).unwrap_or(0.0),
            proxy_us: over(|cell| cell.proxy_us),
            proxy_range: least.zip(proxy.iter().copied().reduce(f64::max)),
            server_us: over(|cell| Some(cell.server_us)).unwrap_or(0.0),
            rss: over(|cell| cell.rss.map(mebibytes)),
            errors: same.iter().map(|cell| cell.errors).sum(),
        }
    };
    keys.into_iter().map(median_of).collect()
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn to_json(run: &Run, date: &str) -> Value {
    let arguments = &run.arguments;
    let cells = run.cells.iter().map(|cell| {
        json!({
            "target": cell.target, "round": cell.round, "clients": cell.clients,
            "qps": cell.qps, "p50_ms": cell.p50_ms, "p95_ms": cell.p95_ms,
            "p99_ms": cell.p99_ms, "p999_ms": cell.p999_ms, "max_ms": cell.max_ms, "proxy_cpu_us": cell.proxy_us,
            "server_cpu_us": cell.server_us, "others_cpu_share": cell.others,
            "rss_bytes": cell.rss, "errors": cell.errors,
        })
    });
    let idle = run.idle.map(|idle| {
        json!({
            "clients": idle.clients, "rss_empty_bytes": idle.empty,
            "rss_connected_bytes": idle.connected, "rss_used_bytes": idle.used,
            "bytes_per_connected_client": idle.per_connected(),
            "bytes_per_used_client": idle.per_used(),
        })
    });
    let conditions = run.conditions.iter();
    let conditions = conditions.map(|(what, value)| ((*what).to_owned(), json!(value)));
    json!({
        "date": date,
        "workload": arguments.workload,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "table_size": arguments.table_size,
        "workers": arguments.workers,
        "server_connections": arguments.server_connections,
        "conditions": conditions.collect::<serde_json::Map<_, _>>(),
        "idle": idle,
        "prepared": arguments.prepared,
        "unix": arguments.unix,
        "beside": run.beside.iter().map(beside::to_json).collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(target: &str, clients: u32, qps: f64, proxy_us: Option<f64>) -> Cell {
        Cell {
            target: target.into(),
            clients,
            qps,
            proxy_us,
            server_us: 40.0,
            p95_ms: 1.5,
            rss: proxy_us.map(|_| 3 << 20),
            ..Cell::default()
        }
    }

    #[test]
    fn medians_are_compared_within_the_same_number_of_clients() {
        let mut cells = Vec::new();
        for (qps, us) in [(90.0, 10.0), (80.0, 30.0), (70.0, 20.0)] {
            cells.push(cell("HAProxy", 8, qps, Some(us)));
            cells.push(cell("Trunkline", 8, qps + 10.0, Some(us / 2.0)));
            cells.push(cell("direct", 8, 100.0, None));
        }
        cells.push(cell("HAProxy", 1, 5.0, Some(1.0)));
        let medians = medians(&cells);
        let lines: String = medians.iter().map(|row| line(row, &medians)).collect();
        assert_eq!(
            lines,
            "| 1 | HAProxy | 5 |  | 1.0 | 1.0–1.0 |  | 40.0 |  | 0.00 | 1.50 | 0.00 | 0.0 | 0.0 | 3.0 | 0 |\n\
             | 8 | HAProxy | 80 | 0.80 | 20.0 | 10.0–30.0 |  | 40.0 | 1.00 | 0.00 | 1.50 | 0.00 | 0.0 | 0.0 | 3.0 | 0 |\n\
             | 8 | Trunkline | 90 | 0.90 | 10.0 | 5.0–15.0 | 0.50 | 40.0 | 1.00 | 0.00 | 1.50 | 0.00 | 0.0 | 0.0 | 3.0 | 0 |\n\
             | 8 | direct | 100 |  |  |  |  | 40.0 |  | 0.00 | 1.50 | 0.00 | 0.0 | 0.0 |  | 0 |\n"
        );
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
