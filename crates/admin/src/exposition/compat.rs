//! The metrics that dashboards made for ProxySQL ask for, under ProxySQL's names, as far as the
//! same thing is counted here.

use trunkline_stats::{Report, ServerRow, metrics::MetricKind, report::STATES};
use trunkline_topology::ServerState;

use super::Exposition;
use crate::service::host_and_port;

/// A number of a server.
type Sum = fn(&ServerRow) -> u64;
/// Labels and values.
type Rows = Vec<(Vec<(&'static str, String)>, u64)>;

/// Writes them all.
pub(super) fn proxysql(out: &mut Exposition<'_>, report: &Report) {
    process(out, report);
    traffic(out, report);
    pool(out, &report.servers);
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

fn one(value: u64) -> Rows {
    vec![(Vec::new(), value)]
}

fn by(label: &'static str, values: &[(&str, u64)]) -> Rows {
    let series = values.iter();
    series.map(|(name, value)| (vec![(label, (*name).to_owned())], *value)).collect()
}

fn process(out: &mut Exposition<'_>, report: &Report) {
    let process = &report.process;
    let uptime = process.now_unix_sec.saturating_sub(process.started_unix_sec);
    let counter = MetricKind::Counter;
    let gauge = MetricKind::Gauge;
    put(out, "proxysql_uptime_seconds_total", counter, "Seconds since the start.", &one(uptime));
    let workers = one(u64::from(process.workers));
    put(out, "proxysql_mysql_thread_workers", gauge, "Threads that serve clients.", &workers);
    let version = one(process.configuration.version);
    put(out, "proxysql_servers_table_version_total", counter, "Configurations so far.", &version);
}

fn cache(out: &mut Exposition<'_>, report: &Report) {
    let (counter, gauge) = (MetricKind::Counter, MetricKind::Gauge);
    let (cache, counters) = (&report.process.cache, &report.counters);
    let bytes = one(cache.bytes);
    put(out, "proxysql_query_cache_memory_bytes", gauge, "Bytes of cached results.", &bytes);
    // Its name, although it goes down too.
    let entries = one(cache.entries);
    put(out, "proxysql_query_cache_entries_total", gauge, "Cached results.", &entries);
    let purged = one(cache.purged);
    let help = "Results that were let go for others.";
    put(out, "proxysql_query_cache_purged_total", counter, help, &purged);
    let missed = counters.cache_lookups.saturating_sub(counters.cache_hits);
    let asked = by("status", &[("err", missed), ("ok", counters.cache_hits)]);
    put(out, "proxysql_query_cache_count_get_total", counter, "Look-ups of results.", &asked);
    let stored = one(counters.cache_stored);
    put(out, "proxysql_query_cache_count_set_total", counter, "Results stored.", &stored);
    let written = counters.cache_stored_bytes;
    let bytes = by("op", &[("written", written), ("read", counters.cache_sent_bytes)]);
    put(out, "proxysql_query_cache_bytes_total", counter, "Bytes of results.", &bytes);
}

fn traffic(out: &mut Exposition<'_>, report: &Report) {
    let counters = &report.counters;
    let counter = MetricKind::Counter;
    let gauge = MetricKind::Gauge;
    let connections = by(
        "status",
        &[("aborted", counters.clients_refused_handshake), ("created", counters.clients_accepted)],
    );
    let help = "Clients' connections.";
    put(out, "proxysql_client_connections_total", counter, help, &connections);
    let servers = |of: fn(&ServerRow) -> u64| report.servers.iter().map(of).sum::<u64>();
    let created = [
        ("created", servers(|row| row.counters.connect_ok)),
        ("aborted", servers(|row| row.counters.connect_err)),
    ];
    let created = by("status", &created);
    let help = "Connections to servers.";
    put(out, "proxysql_server_connections_total", counter, help, &created);
    let all = |row: &ServerRow| row.connections.by_state().iter().map(|(_, count)| count).sum();
    let help = "Connections to servers now.";
    put(out, "proxysql_server_connections_connected", gauge, help, &one(servers(all)));
    let connected = one(report.clients_connected());
    let help = "Clients connected now.";
    put(out, "proxysql_client_connections_connected", gauge, help, &connected);
    let transactions = one(report.pins.get("transaction").copied().unwrap_or_default());
    let help = "Sessions in a transaction now.";
    put(out, "proxysql_active_transactions", gauge, help, &transactions);
    let questions = one(counters.statements);
    put(out, "proxysql_questions_total", counter, "Statements.", &questions);
    let bytes = by(
        "traffic_flow",
        &[("received", counters.client_bytes_received), ("sent", counters.client_bytes_sent)],
    );
    put(out, "proxysql_queries_frontends_bytes_total", counter, "Bytes of clients.", &bytes);
    let bytes = by(
        "traffic_flow",
        &[
            ("received", servers(|row| row.counters.bytes_received)),
            ("sent", servers(|row| row.counters.bytes_sent)),
        ],
    );
    put(out, "proxysql_queries_backends_bytes_total", counter, "Bytes of servers.", &bytes);
    let denied = [
        ("proxysql_access_denied_max_connections_total", counters.clients_refused_too_many),
        ("proxysql_access_denied_max_user_connections_total", counters.clients_refused_user_limit),
        ("proxysql_access_denied_wrong_password_total", counters.clients_refused_access_denied),
    ];
    for (name, refused) in denied {
        put(out, name, counter, "Clients refused for this cause.", &one(refused));
    }
    cache(out, report);
    let seconds = one(report.latency.sum_us() / 1_000_000);
    let help = "Seconds that statements took.";
    put(out, "proxysql_backend_query_time_seconds_total", counter, help, &seconds);
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
