//! Tables of statistics and of what runs, filled when a statement names them.

use std::{collections::BTreeMap, sync::PoisonError};

use trunkline_config::Snapshot;
use trunkline_rules::{Limit, LimitScope};
use trunkline_sql::analysis::StatementKind;
use trunkline_stats::{
    CacheSums, DigestQuery, MirrorRow, Report, SessionQuery, SessionRow, TenantSums,
    report::state_name,
};
use trunkline_store::{Layer, Value, tables::Schema};
use trunkline_topology::Address;

use super::{AdminService, Refused, is_secret, present, servers::Now, target::SharedStore};
use crate::proxysql::Figure;

/// The most sessions that are read.
const SESSIONS_MAX: usize = 200_000;

/// Rows for tables.
type Filled = Vec<(&'static str, Vec<Vec<Value>>)>;

pub(super) fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

pub(super) fn number(number: impl TryInto<i64>) -> Value {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}

impl AdminService {
    /// Fills the tables of a store that a text in lower case names.
    pub(super) async fn fill_tables(&self, to: &SharedStore, lower: &str) -> Result<(), Refused> {
        let names = |name: &str| lower.contains(name);
        if names("runtime_mysql_servers") {
            self.fill_runtime_servers(to).await?;
        }
        self.fill_checks(to, &names).await?;
        if !names("stats_") && !names("global_variables") {
            return Ok(());
        }
        let mut filled: Filled = Vec::new();
        if names("global_variables") {
            self.fill_stats_variables(to).await?;
        }
        if names("stats_mysql_query_digest") {
            self.fill_digests(to, names("stats_mysql_query_digest_reset")).await?;
        }
        if names("processlist") || names("stats_sessions") || names("stats_mysql_users") {
            let query = SessionQuery { rows_max: SESSIONS_MAX, pinned_only: false };
            let list = self.runtime.sessions(query).await;
            filled.push(("stats_mysql_processlist", processlist(&list.sessions)));
            filled.push(("stats_sessions", sessions(&list.sessions)));
            filled.push(("stats_mysql_users", users(&list.sessions, &self.runtime.snapshot())));
        }
        let from_report = [
            "stats_mysql_global",
            "stats_mysql_connection_pool",
            "stats_mysql_commands_counters",
            "stats_mysql_query_rules",
            "stats_refusals",
            "stats_latency",
            "stats_waits",
            "stats_cache",
            "stats_cache_tables",
            "stats_limits",
            "stats_mirrors",
            "stats_tenants",
            "stats_mysql_errors",
            "stats_memory_metrics",
            "stats_mysql_gtid_executed",
        ];
        if from_report.iter().any(|name| names(name)) {
            self.fill_from_report(&names, &mut filled).await?;
        }
        self.fill_present(&names, &mut filled).await;
        to.with(move |store| Ok(store.fill(Schema::Stats, &filled)?)).await
    }

    /// Tables that the workers' report has.
    async fn fill_from_report(
        &self,
        names: &impl Fn(&str) -> bool,
        filled: &mut Filled,
    ) -> Result<(), Refused> {
        let mut report = self.runtime.report(DigestQuery::NONE).await;
        self.note_tables_bytes().await?;
        self.figures().fill(&mut report.process);
        let snapshot = self.runtime.snapshot();
        filled.extend(tables_of(&report, &snapshot));
        if names("stats_mysql_global") {
            filled.push(("stats_mysql_global", global(&report)));
        }
        if names("stats_mysql_connection_pool_reset") {
            filled.push(("stats_mysql_connection_pool_reset", self.pool_since_reset(&report)));
        }
        if names("stats_mysql_errors") {
            let is_reset = names("stats_mysql_errors_reset");
            let rows = self.errors(&report, is_reset);
            if is_reset {
                filled.push(("stats_mysql_errors_reset", rows.clone()));
            }
            filled.push(("stats_mysql_errors", rows));
        }
        if names("stats_latency") {
            let digests = self.runtime.digests().await;
            filled.push(("stats_latency", present::latencies(&report, &digests)));
        }
        if names("stats_mysql_gtid_executed") {
            let rows = present::gtid_executed(&report.process.monitor);
            filled.push(("stats_mysql_gtid_executed", rows));
        }
        if names("stats_memory_metrics") {
            filled.push(("stats_memory_metrics", present::memory(&report)));
        }
        Ok(())
    }

    /// Tables of the schema `monitor`.
    async fn fill_checks(
        &self,
        to: &SharedStore,
        names: &impl Fn(&str) -> bool,
    ) -> Result<(), Refused> {
        let named = present::CHECKS.iter().filter(|(table, _)| names(table));
        let filled: Filled = named
            .map(|(table, kind)| (*table, present::checks(&self.runtime.checks(*kind))))
            .collect();
        if filled.is_empty() {
            return Ok(());
        }
        to.with(move |store| Ok(store.fill(Schema::Monitor, &filled)?)).await
    }

    /// `stats_mysql_global` as pairs.
    pub(super) async fn global_figures(&self) -> Vec<(String, String)> {
        let mut report = self.runtime.report(DigestQuery::NONE).await;
        self.figures().fill(&mut report.process);
        let rows = global(&report).into_iter();
        let pairs = rows.filter_map(|row| match <[Value; 2]>::try_from(row) {
            Ok([Value::Text(name), Value::Text(value)]) => Some((name, value)),
            Ok(_) | Err(_) => None,
        });
        pairs.collect()
    }

    /// Notes how much memory the tables take.
    pub(super) async fn note_tables_bytes(&self) -> Result<(), Refused> {
        let bytes = self.with_store(|store| Ok(store.memory_bytes()?)).await?;
        self.figures().admin.tables_bytes.set(bytes);
        Ok(())
    }

    /// Tables of what there is at the moment.
    async fn fill_present(&self, names: &impl Fn(&str) -> bool, filled: &mut Filled) {
        if names("stats_mysql_free_connections") || names("stats_mysql_prepared_statements_info") {
            let inventory = self.runtime.inventory(present::INVENTORY_MAX).await;
            filled.push(("stats_mysql_free_connections", present::free_connections(&inventory)));
            filled.push(("stats_mysql_prepared_statements_info", present::prepared(&inventory)));
        }
        if names("stats_cluster") {
            let topology = self.runtime.topology();
            filled.push(("stats_cluster_servers", present::cluster_servers(&topology)));
            filled.push(("stats_cluster_events", present::cluster_events(&topology)));
        }
        if names("stats_mysql_client_host_cache") {
            let rows = present::client_hosts(&self.runtime.failed_logins());
            if names("stats_mysql_client_host_cache_reset") {
                self.runtime.forget_failed_logins();
                filled.push(("stats_mysql_client_host_cache_reset", rows.clone()));
            }
            filled.push(("stats_mysql_client_host_cache", rows));
        }
    }

    /// What variables run, for users of statistics: without passwords.
    async fn fill_stats_variables(&self, to: &SharedStore) -> Result<(), Refused> {
        let variables = self.with_store(|store| Ok(store.variables(Layer::Runtime, "")?)).await?;
        let rows = variables
            .into_iter()
            .filter(|(name, _)| !is_secret(name))
            .map(|(name, value)| vec![Value::Text(name), Value::Text(value)])
            .collect();
        to.with(move |store| Ok(store.fill(Schema::Stats, &[("global_variables", rows)])?)).await
    }

    /// Servers that are shunned now are shown so.
    async fn fill_runtime_servers(&self, to: &SharedStore) -> Result<(), Refused> {
        let report = self.runtime.report(DigestQuery::NONE).await;
        let snapshot = self.runtime.snapshot();
        let now = Now::of(&report, &snapshot);
        to.with(move |store| {
            let rows = store.rows(Layer::Runtime, "mysql_servers")?;
            Ok(store.show_servers(&now.shown(rows))?)
        })
        .await
    }

    /// What servers have done since this was asked last.
    fn pool_since_reset(&self, report: &Report) -> Vec<Vec<Value>> {
        let mut before = self.before.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = connection_pool(report);
        for (row, server) in rows.iter_mut().zip(&report.servers) {
            let key = (server.hostgroup, server.address.clone());
            let last = before.insert(key, server.counters).unwrap_or_default();
            let now = &server.counters;
            let since = [
                (6, now.connect_ok.saturating_sub(last.connect_ok)),
                (7, now.connect_err.saturating_sub(last.connect_err)),
                (9, now.statements.saturating_sub(last.statements)),
                (11, now.bytes_sent.saturating_sub(last.bytes_sent)),
                (12, now.bytes_received.saturating_sub(last.bytes_received)),
            ];
            for (column, value) in since {
                if let Some(place) = row.get_mut(column) {
                    *place = number(value);
                }
            }
        }
        rows
    }
}

/// ProxySQL's two columns of an address; a Unix socket's port is 0.
pub(crate) fn host_and_port(address: &str) -> (String, i64) {
    match address.parse() {
        Ok(Address::Tcp { host, port }) => (host, i64::from(port)),
        Ok(Address::Unix(path)) => (path.display().to_string(), 0),
        Err(_) => (address.to_owned(), 0),
    }
}

/// A client's address as host and port; a Unix socket has no port.
fn client_columns(client: &str) -> [Value; 2] {
    match client.parse::<std::net::SocketAddr>() {
        Ok(addr) => [text(&addr.ip().to_string()), number(addr.port())],
        Err(_) => [text(client), Value::Null],
    }
}

fn processlist(rows: &[SessionRow]) -> Vec<Vec<Value>> {
    let row = |row: &SessionRow| {
        let held = row.holds.first();
        let (host, port) = held.map_or((String::new(), 0), |held| host_and_port(&held.server));
        let of_server = |value: Value| if held.is_some() { value } else { Value::Null };
        let [client_host, client_port] = client_columns(&row.client);
        let command = match row.doing.as_str() {
            "idle" => "Sleep",
            "login" => "Connect",
            held if held.starts_with("held: ") => held,
            _ => "Query",
        };
        vec![
            number(row.worker),
            number(row.id),
            text(&row.user),
            text(&row.schema),
            client_host,
            client_port,
            held.map_or(Value::Null, |held| number(held.hostgroup)),
            Value::Null,
            Value::Null,
            of_server(text(&host)),
            of_server(number(port)),
            text(command),
            number(row.doing_us / 1_000),
            text(&row.digest_text),
            number(0),
            Value::Null,
        ]
    };
    rows.iter().map(row).collect()
}

fn sessions(rows: &[SessionRow]) -> Vec<Vec<Value>> {
    let row = |row: &SessionRow| {
        let held = row.holds.iter().max_by_key(|held| (!held.reasons.is_empty(), held.held_us));
        vec![
            number(row.id),
            number(row.worker),
            text(&row.user),
            text(&row.client),
            text(&row.schema),
            text(&row.doing),
            number(row.doing_us),
            text(&row.digest_text),
            held.map_or(Value::Null, |held| number(held.hostgroup)),
            held.map_or(Value::Null, |held| text(&held.server)),
            held.map_or(Value::Null, |held| text(&held.reasons.join(", "))),
            held.map_or(Value::Null, |held| number(held.held_us)),
            text(&row.tls),
            held.map_or(Value::Null, |held| text(&held.tls)),
        ]
    };
    rows.iter().map(row).collect()
}

fn users(rows: &[SessionRow], snapshot: &Snapshot) -> Vec<Vec<Value>> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        *counts.entry(&row.user).or_default() += 1;
    }
    let mut table: Vec<Vec<Value>> = Vec::new();
    for user in &snapshot.config.users {
        let connected = counts.get(user.name.as_str()).copied().unwrap_or(0);
        table.push(vec![text(&user.name), number(connected), number(user.max_connections)]);
    }
    table
}

fn tables_of(report: &Report, snapshot: &Snapshot) -> Filled {
    vec![
        ("stats_mysql_connection_pool", connection_pool(report)),
        ("stats_mysql_commands_counters", commands(report)),
        ("stats_mysql_query_rules", rule_hits(report, snapshot)),
        ("stats_refusals", refusals(report)),
        ("stats_waits", present::waits(report)),
        ("stats_cache", cache(report)),
        ("stats_cache_tables", cache_tables(report)),
        ("stats_limits", limits(report, snapshot)),
        ("stats_mirrors", mirrors(report)),
        ("stats_tenants", tenants(report, snapshot)),
    ]
}

/// ProxySQL's names, then every counter by its own name.
fn global(report: &Report) -> Vec<Vec<Value>> {
    let figures = Figure::all().filter(|figure| !figure.global.is_empty());
    let figures = figures.map(|figure| (figure.global.to_owned(), figure.value(report)));
    let own = report.counters.iter();
    let own = own.map(|(spec, value)| (format!("Trunkline_{}", spec.field), value));
    let rows = figures.chain(own);
    rows.map(|(name, value)| vec![Value::Text(name), Value::Text(value.to_string())]).collect()
}

fn connection_pool(report: &Report) -> Vec<Vec<Value>> {
    let row = |row: &trunkline_stats::ServerRow| {
        let (host, port) = host_and_port(&row.address);
        let now = &row.connections;
        vec![
            number(row.hostgroup),
            text(&host),
            number(port),
            text(state_name(row.state)),
            number(now.leased + now.shared + now.resetting),
            number(now.idle),
            number(row.counters.connect_ok),
            number(row.counters.connect_err),
            number(0),
            number(row.counters.statements),
            number(row.counters.causal_reads),
            number(row.counters.bytes_sent),
            number(row.counters.bytes_received),
            number(row.latency.quantile(0.5)),
        ]
    };
    report.servers.iter().map(row).collect()
}

fn commands(report: &Report) -> Vec<Vec<Value>> {
    let row = |name: &str| {
        let found = report.commands.iter().find(|row| row.command == name);
        let (time_us, count) = found.map_or((0, 0), |row| (row.time_us, row.count));
        let buckets = found.map(|row| row.buckets).unwrap_or_default();
        let head = [text(name), number(time_us), number(count)];
        head.into_iter().chain(buckets.into_iter().map(number)).collect()
    };
    StatementKind::ALL.into_iter().map(|kind| row(kind.name())).collect()
}

fn rule_hits(report: &Report, snapshot: &Snapshot) -> Vec<Vec<Value>> {
    let active = snapshot.config.rules.iter().filter(|rule| rule.active);
    let row = |id: u32| {
        let hits = report.rule_hits.get(&id).copied().unwrap_or(0);
        vec![number(id), number(hits)]
    };
    active.map(|rule| row(rule.id)).collect()
}

fn mirrors(report: &Report) -> Vec<Vec<Value>> {
    let row = |row: &MirrorRow| {
        let sums = &row.sums;
        vec![
            number(row.hostgroup),
            number(row.mirror_hostgroup),
            text(&format!("0x{:016X}", row.digest)),
            text(&row.digest_text),
            number(sums.compared),
            number(sums.errors_differ),
            number(sums.rows_differ),
            number(sums.values_differ),
            number(sums.original_us),
            number(sums.mirror_us),
        ]
    };
    report.mirrors.iter().map(row).collect()
}

/// What each tenant is entitled to, has used and does.
fn tenants(report: &Report, snapshot: &Snapshot) -> Vec<Vec<Value>> {
    let row = |(name, sums): (&String, &TenantSums)| {
        let terms = snapshot.guards.terms(name);
        vec![
            text(name),
            number(terms.priority),
            number(terms.weight),
            number(terms.share_min),
            number(terms.share_max),
            number(sums.statements),
            number(sums.server_time_us),
            number(sums.queued),
            number(sums.queue_time_us),
            number(sums.late),
            number(sums.running),
            number(sums.waiting),
        ]
    };
    report.tenants.iter().map(row).collect()
}

fn limits(report: &Report, snapshot: &Snapshot) -> Vec<Vec<Value>> {
    let row = |(place, limit): (u32, &Limit)| {
        let sums = report.limits.get(&place).copied().unwrap_or_default();
        let (scope, name) = match &limit.scope {
            LimitScope::User(name) => ("user", name.clone().unwrap_or_default()),
            LimitScope::Rule(id) => ("rule", id.to_string()),
            LimitScope::Digest(digest) => {
                ("digest", digest.map(|digest| format!("0x{digest:016X}")).unwrap_or_default())
            }
        };
        vec![
            text(scope),
            Value::Text(name),
            number(sums.passed),
            number(sums.delayed),
            number(sums.refused),
        ]
    };
    (0..).zip(&snapshot.guards.limits).map(row).collect()
}

fn cache(report: &Report) -> Vec<Vec<Value>> {
    let row = |(rule, sums): (&u32, &CacheSums)| {
        let age_us = sums.age_us.checked_div(sums.hits).unwrap_or_default();
        vec![
            number(*rule),
            number(sums.hits),
            number(sums.misses),
            number(sums.waits),
            number(sums.stored),
            number(sums.stored_bytes),
            number(sums.sent_bytes),
            number(age_us / 1_000),
            number(sums.changed),
            number(sums.late),
        ]
    };
    report.cache.iter().map(row).collect()
}

fn cache_tables(report: &Report) -> Vec<Vec<Value>> {
    report.cache_tables.iter().map(|(table, count)| vec![text(table), number(*count)]).collect()
}

fn refusals(report: &Report) -> Vec<Vec<Value>> {
    let row = |(spec, count): (&'static trunkline_stats::counters::CounterSpec, u64)| {
        let who = if spec.metric.contains("client") { "client" } else { "statement" };
        let cause = spec.label.map_or("", |(_, cause)| cause);
        vec![text(who), text(cause), number(count)]
    };
    report.counters.refusals().map(row).collect()
}
