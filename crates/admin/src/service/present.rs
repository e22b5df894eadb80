//! Tables of what there is at the moment, and of errors and latency: filled when they are named.

use std::{collections::BTreeMap, sync::PoisonError};

use serde_json::json;
use trunkline_stats::{
    DigestRow, ErrorRow, Histogram, IdleConn, Inventory, LatencySketch, PreparedRow, Report,
    Topology,
    checks::{CheckKind, CheckRow},
    hostgroup_shown,
    topology::MonitorFigures,
};
use trunkline_store::Value;

use super::{
    AdminService,
    load::unix_sec,
    numbers::{host_and_port, number, text},
};
use crate::source::FailedLogins;

/// The most idle connections, and prepared statements, that are read.
pub(super) const INVENTORY_MAX: usize = 100_000;
/// The most bytes that are shown of a prepared statement's text.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Digests that `stats_latency` has: those with the most time.
const LATENCY_DIGESTS_MAX: usize = 1_000;

/// What tells errors apart: hostgroup, server, user, schema, code.
pub(super) type ErrorKey = (u32, String, String, String, u16);

impl AdminService {
    /// Errors that servers answered with since the last reset; a reset begins anew.
    pub(super) fn errors(&self, report: &Report, is_reset: bool) -> Vec<Vec<Value>> {
        let mut before = self.before.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = report.errors.iter().filter_map(|row| error(row, before.get(&row.key())));
        let rows = rows.collect();
        if is_reset {
            *before = report.errors.iter().map(|row| (row.key(), row.count)).collect();
        }
        rows
    }
}

fn error(row: &ErrorRow, before: Option<&u64>) -> Option<Vec<Value>> {
    let (host, port) = host_and_port(&row.server);
    let count = row.count.saturating_sub(before.copied().unwrap_or_default());
    (count > 0).then(|| {
        vec![
            number(hostgroup_shown(row.hostgroup)),
            text(&host),
            number(port),
            text(&row.username),
            text(""),
            text(&row.schemaname),
            number(row.code),
            number(count),
            number(row.first_seen),
            number(row.last_seen),
            text(&row.last_error),
        ]
    })
}

/// `stats_mysql_free_connections`.
pub(super) fn free_connections(inventory: &Inventory) -> Vec<Vec<Value>> {
    let row = |row: &IdleConn| {
        let (host, port) = host_and_port(&row.server);
        let statistics = json!({ "prepared_statements": row.stmts, "worker": row.worker });
        let info = json!({
            "thread_id": row.thread,
            "server_version": row.version,
            "tls": row.tls,
        });
        vec![
            // Sockets are the workers' own; the server's number of it is in `mysql_info`.
            number(-1),
            number(row.hostgroup),
            text(&host),
            number(port),
            text(&row.user),
            text(&row.schema),
            Value::Null,
            Value::Null,
            Value::Null,
            text(if row.is_autocommit { "ON" } else { "OFF" }),
            number(row.idle_ms),
            Value::Text(statistics.to_string()),
            Value::Text(info.to_string()),
        ]
    };
    inventory.idle.iter().map(row).collect()
}

/// `stats_mysql_prepared_statements_info`; numbers are those of this reading.
pub(super) fn prepared(inventory: &Inventory) -> Vec<Vec<Value>> {
    let row = |(id, row): (u64, &PreparedRow)| {
        vec![
            number(id),
            text(&row.schemaname),
            text(&row.username),
            text(&format!("0x{:016X}", row.digest)),
            number(row.clients),
            number(row.servers),
            number(row.columns),
            number(row.params),
            text(clipped(&row.text)),
        ]
    };
    (1..).zip(&inventory.stmts).map(row).collect()
}

/// The beginning of a text that may be as long as a client likes.
fn clipped(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text)
}

/// `stats_mysql_client_host_cache`; moments in µs of Unix time.
pub(super) fn client_hosts(rows: &[FailedLogins]) -> Vec<Vec<Value>> {
    let now_us = u128::from(unix_sec()) * 1_000_000;
    let row = |row: &FailedLogins| {
        let at_us = now_us.saturating_sub(row.ago.as_micros());
        vec![text(&row.origin.to_string()), number(row.failures), number(at_us)]
    };
    rows.iter().map(row).collect()
}

/// Tables of the monitor, and the checks that they show.
pub(super) const CHECKS: [(&str, CheckKind); 6] = [
    ("mysql_server_connect_log", CheckKind::Connect),
    ("mysql_server_ping_log", CheckKind::Ping),
    ("mysql_server_read_only_log", CheckKind::ReadOnly),
    ("mysql_server_replication_lag_log", CheckKind::ReplicationLag),
    ("mysql_server_galera_log", CheckKind::Galera),
    ("mysql_server_group_replication_log", CheckKind::GroupReplication),
];

/// Rows of one of them. What a server has not told is as in a row of ProxySQL's of a check that
/// failed. Two checks of a server in the same microsecond are one row.
pub(super) fn checks(checks: &[CheckRow]) -> Vec<Vec<Value>> {
    let Some(first) = checks.first() else { return Vec::new() };
    let untold: &[&str] = match first.kind {
        CheckKind::Connect | CheckKind::Ping => &[],
        CheckKind::ReadOnly => &["1"],
        CheckKind::ReplicationLag => &["0"],
        CheckKind::GroupReplication => &["NO", "YES", "0"],
        CheckKind::Galera => &["NO", "YES", "0", "0", "NO", "NO", "NO", "NO"],
    };
    let value = |told: &str| match told.parse::<i64>() {
        Ok(told) => Value::Integer(told),
        Err(_) if told.is_empty() => Value::Null,
        Err(_) => text(told),
    };
    let mut shown: BTreeMap<(&str, u64), Vec<Value>> = BTreeMap::new();
    for check in checks {
        let (host, port) = host_and_port(&check.address);
        let mut row =
            vec![text(&host), number(port), number(check.started_us), number(check.took_us)];
        match check.error {
            None => row.extend(check.told.iter().map(|told| value(told))),
            Some(_) => row.extend(untold.iter().map(|told| value(told))),
        }
        row.push(check.error.as_deref().map_or(Value::Null, text));
        shown.insert((&check.address, check.started_us), row);
    }
    shown.into_values().collect()
}

/// `stats_cluster_servers`.
pub(super) fn cluster_servers(topology: &Topology) -> Vec<Vec<Value>> {
    let optional = |value: Option<u64>| value.map_or(Value::Null, number);
    let rows = topology.clusters.iter().flat_map(|cluster| {
        cluster.servers.iter().map(|server| {
            vec![
                text(&cluster.name),
                text(&server.address),
                text(&server.role),
                text(&server.reach),
                optional(server.writable.map(u64::from)),
                server.source.as_deref().map_or(Value::Null, text),
                optional(server.lag_sec),
                text(&server.version),
                text(&server.gtid),
                text(&server.warnings.join("; ")),
            ]
        })
    });
    rows.collect()
}

/// `stats_mysql_gtid_executed`: what members of clusters had when they last answered. `events` are
/// those of a stream of the server, if there is one.
pub(super) fn gtid_executed(monitor: &MonitorFigures) -> Vec<Vec<Value>> {
    let members = monitor.clusters.iter().flat_map(|cluster| &cluster.servers);
    let rows = members.filter(|it| !it.gtid.is_empty()).map(|member| {
        let (host, port) = host_and_port(&member.address);
        let stream = monitor.streams.iter().find(|it| it.server == member.address);
        let events = stream.map_or(0, |it| it.transactions);
        vec![text(&host), number(port), text(&member.gtid), number(events)]
    });
    rows.collect()
}

/// `stats_cluster_events`.
pub(super) fn cluster_events(topology: &Topology) -> Vec<Vec<Value>> {
    let rows = topology.events.iter().map(|event| {
        vec![
            number(event.id),
            number(event.at),
            text(&event.cluster),
            text(&event.event),
            text(&event.server),
            text(&event.evidence),
        ]
    });
    rows.collect()
}

/// `stats_memory_metrics`: what the kernel says of the process, and what is counted here.
pub(super) fn memory(report: &Report) -> Vec<Vec<Value>> {
    let kernel = report.process.kernel;
    let known = [
        ("SQLite3_memory_bytes", report.process.admin.tables_bytes),
        // ProxySQL's allocator is another one; tools read these names.
        ("jemalloc_resident", kernel.resident),
        ("jemalloc_active", kernel.anonymous),
        ("jemalloc_allocated", kernel.anonymous),
        ("jemalloc_mapped", kernel.mapped),
        ("Query_Cache_Memory_bytes", report.process.cache.bytes),
        ("Trunkline_resident_max_bytes", kernel.resident_max),
        ("Trunkline_memory_max_bytes", report.process.memory.max),
        ("Trunkline_memory_used_bytes", report.process.memory.total),
    ];
    let rows = known.into_iter().chain(MEMORY_UNMEASURED.map(|name| (name, 0)));
    rows.map(|(name, value)| vec![text(name), text(&value.to_string())]).collect()
}

/// ProxySQL's names for memory that is not measured apart here.
pub(crate) const MEMORY_UNMEASURED: [&str; 14] = [
    "jemalloc_metadata",
    "jemalloc_retained",
    "Auth_memory",
    "query_digest_memory",
    "mysql_query_rules_memory",
    "prepare_stmt_metadata_memory",
    "prepare_stmt_backend_memory",
    "mysql_firewall_users_table",
    "mysql_firewall_users_config",
    "mysql_firewall_rules_table",
    "mysql_firewall_rules_config",
    "stack_memory_mysql_threads",
    "stack_memory_admin_threads",
    "stack_memory_cluster_threads",
];

fn exact(histogram: &Histogram) -> [Value; 6] {
    [
        number(histogram.count()),
        number(histogram.sum_us()),
        number(histogram.quantile(0.5)),
        number(histogram.quantile(0.95)),
        number(histogram.quantile(0.99)),
        number(histogram.max_us()),
    ]
}

/// Sums of statements whose latency is kept coarsely.
#[derive(Default)]
struct Coarse {
    sum_us: u64,
    max_us: u64,
    latency: LatencySketch,
}

impl Coarse {
    fn add(&mut self, row: &DigestRow) {
        self.sum_us = self.sum_us.saturating_add(row.sums.sum_time);
        self.max_us = self.max_us.max(row.sums.max_time);
        self.latency.merge(&row.sums.latency);
    }

    fn columns(&self) -> [Value; 6] {
        let quantile = |share| number(self.latency.quantile(share, self.max_us));
        [
            number(self.latency.count()),
            number(self.sum_us),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            number(self.max_us),
        ]
    }
}

/// `stats_latency`: exactly over all, by server and by hostgroup; coarsely by command, and from
/// the digest table by user and by digest.
pub(super) fn latencies(report: &Report, digests: &[DigestRow]) -> Vec<Vec<Value>> {
    let row = |scope: &str, name: &str, columns: [Value; 6]| {
        [text(scope), text(name)].into_iter().chain(columns).collect()
    };
    let mut rows: Vec<Vec<Value>> = vec![row("all", "", exact(&report.latency))];
    let mut groups: BTreeMap<u32, Histogram> = BTreeMap::new();
    for server in &report.servers {
        groups.entry(server.hostgroup).or_default().merge(&server.latency);
        let name = format!("{} {}", server.hostgroup, server.address);
        rows.push(row("server", &name, exact(&server.latency)));
    }
    let groups = groups.iter();
    rows.extend(groups.map(|(id, histogram)| row("hostgroup", &id.to_string(), exact(histogram))));
    for command in &report.commands {
        let sums =
            Coarse { sum_us: command.time_us, max_us: command.max_us, latency: command.latency };
        rows.push(row("command", &command.command, sums.columns()));
    }
    let mut users: BTreeMap<&str, Coarse> = BTreeMap::new();
    let mut by_digest: BTreeMap<u64, Coarse> = BTreeMap::new();
    for digest in digests {
        users.entry(&digest.username).or_default().add(digest);
        by_digest.entry(digest.digest).or_default().add(digest);
    }
    rows.extend(users.iter().map(|(name, sums)| row("user", name, sums.columns())));
    let mut heaviest: Vec<(u64, Coarse)> = by_digest.into_iter().collect();
    heaviest.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.sum_us));
    let heaviest = heaviest.iter().take(LATENCY_DIGESTS_MAX);
    rows.extend(
        heaviest.map(|(digest, sums)| row("digest", &format!("0x{digest:016X}"), sums.columns())),
    );
    rows
}

/// `stats_waits`: for what statements wait, and how many do now.
pub(super) fn waits(report: &Report) -> Vec<Vec<Value>> {
    let sum = |of: fn(&trunkline_stats::Connections) -> u64| {
        report.servers.iter().map(|row| of(&row.connections)).sum::<u64>()
    };
    let queued: u64 = report.waiting.values().sum();
    let rows = [
        ("queue", &report.queue_wait, queued),
        ("connect", &report.connect_wait, sum(|now| now.connecting)),
        ("server", &report.server_wait, sum(|now| now.leased + now.shared)),
        ("client", &report.client_wait, 0),
    ];
    rows.map(|(name, histogram, now)| {
        let head = [text(name)].into_iter();
        head.chain(exact(histogram)).chain([number(now)]).collect()
    })
    .to_vec()
}
