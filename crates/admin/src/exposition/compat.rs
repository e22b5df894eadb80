//! The metrics that dashboards made for ProxySQL ask for, under ProxySQL's names, as far as the
//! same thing is counted here.

use std::collections::BTreeMap;

use trunkline_stats::{Report, ServerRow, hostgroup_shown, metrics::MetricKind, report::STATES};
use trunkline_topology::ServerState;

use super::Exposition;
use crate::{proxysql::Figure, service::host_and_port};

/// The most errors that become series.
const ERRORS_MAX: usize = 1_000;

/// A number of a server.
type Sum = fn(&ServerRow) -> u64;
/// Labels and values.
type Rows = Vec<(Vec<(&'static str, String)>, u64)>;

/// Writes them all.
pub(super) fn proxysql(out: &mut Exposition<'_>, report: &Report) {
    let figures = Figure::all().filter(|figure| !figure.metric.is_empty());
    let mut before = "";
    for figure in figures {
        if figure.metric != before {
            out.begin(figure.metric, figure.kind, figure.help);
            before = figure.metric;
        }
        out.sample(figure.label.as_slice(), figure.value(report));
    }
    let version = format!("2.7.1-trunkline-{}", report.process.version);
    out.begin("proxysql_version_info", MetricKind::Gauge, "Always 1; the version is in labels.");
    out.sample(&[("version", version.as_str()), ("version_comment", "Trunkline")], 1_u64);
    errors(out, report);
    pool(out, &report.servers);
}

/// Errors that servers answered with, whoever got them.
fn errors(out: &mut Exposition<'_>, report: &Report) {
    let mut sums: BTreeMap<(u32, &str, u16), u64> = BTreeMap::new();
    for row in &report.errors {
        *sums.entry((row.hostgroup, &row.server, row.code)).or_default() += row.count;
    }
    let row = |((hostgroup, server, code), count): ((u32, &str, u16), u64)| {
        let (address, port) = host_and_port(server);
        let labels = vec![
            ("hostgroup", hostgroup_shown(hostgroup).to_string()),
            ("address", address),
            ("port", port.to_string()),
            ("code", code.to_string()),
        ];
        (labels, count)
    };
    let rows: Rows = sums.into_iter().take(ERRORS_MAX).map(row).collect();
    put(out, "mysql_error_total", MetricKind::Counter, "Errors that servers answered with.", &rows);
}

fn put(
    out: &mut Exposition<'_>,
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    rows: &Rows,
) {
    out.begin(name, kind, help);
    for (labels, value) in rows {
        let labels: Vec<(&'static str, &str)> =
            labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        out.sample(&labels, *value);
    }
}

fn pool(out: &mut Exposition<'_>, servers: &[ServerRow]) {
    let counter = MetricKind::Counter;
    let gauge = MetricKind::Gauge;
    let series = |more: &[(&'static str, Sum)], label: &'static str| {
        let mut series: Rows = Vec::new();
        for row in servers {
            let (host, port) = host_and_port(&row.address);
            for (value, of) in more {
                let mut labels = vec![
                    ("endpoint", format!("{host}:{port}")),
                    ("hostgroup", row.hostgroup.to_string()),
                ];
                if !label.is_empty() {
                    labels.push((label, (*value).to_owned()));
                }
                series.push((labels, of(row)));
            }
        }
        series
    };
    let used = |row: &ServerRow| {
        let now = &row.connections;
        now.leased + now.shared + now.resetting
    };
    let conns = series(&[("free", |row| row.connections.idle), ("used", used)], "status");
    put(out, "proxysql_connpool_conns", gauge, "Connections to servers now.", &conns);
    let made = [
        ("ok", (|row: &ServerRow| row.counters.connect_ok) as Sum),
        ("err", |row| row.counters.connect_err),
    ];
    let made = series(&made, "status");
    put(out, "proxysql_connpool_conns_total", counter, "Connections tried.", &made);
    let queries = series(&[("", |row| row.counters.statements)], "");
    let help = "Statements of servers.";
    put(out, "proxysql_connpool_conns_queries_total", counter, help, &queries);
    let bytes = [
        ("recv", (|row: &ServerRow| row.counters.bytes_received) as Sum),
        ("sent", |row| row.counters.bytes_sent),
    ];
    let bytes = series(&bytes, "traffic_flow");
    put(out, "proxysql_connpool_data_bytes_total", counter, "Bytes of servers.", &bytes);
    let latency = series(&[("", |row| row.latency.quantile(0.5))], "");
    let help = "Median latency of statements.";
    put(out, "proxysql_connpool_conns_latency_us", gauge, help, &latency);
    let status = series(&[("", |row| state_number(row.state))], "");
    let help = "1 ONLINE, 2 SHUNNED, 3 OFFLINE_SOFT, 4 OFFLINE_HARD, 5 SHUNNED_REPLICATION_LAG.";
    put(out, "proxysql_connpool_conns_status", gauge, help, &status);
}

/// ProxySQL's number of a state in this metric.
fn state_number(state: ServerState) -> u64 {
    let place = STATES.iter().position(|known| *known == state);
    place.map_or(0, |place| place as u64 + 1)
}
