//! Names and meanings of all metrics: the tables of counters, and what is not a plain counter.

use std::fmt::Write;

use crate::counters::{CounterSpec, Counters, ServerCounters, TcpCounters, TcpServerCounters};

/// What a metric's value means, in Prometheus's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, until the process ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size, with a sum.
    Histogram,
}

impl MetricKind {
    /// Prometheus's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What its value means.
    pub kind: MetricKind,
    /// The labels of each of its series, `le` of histograms apart.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

/// The series of one metric, as plain numbers. Durations are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainFamily {
    /// The metric's name.
    pub name: &'static str,
    /// What its values mean.
    pub kind: MetricKind,
    /// What it tells.
    pub help: &'static str,
    /// Its series.
    pub series: Vec<PlainSeries>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainSeries {
    /// Labels and their values.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: PlainValue,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum PlainValue {
    /// A whole number.
    Whole(u64),
    /// Any other one.
    Float(f64),
    /// Counts by size.
    Distribution {
        /// Upper bounds of the buckets, ascending.
        bounds: Vec<f64>,
        /// For each of them, how many are not greater.
        below: Vec<u64>,
        /// How many there are.
        count: u64,
        /// Their sum.
        sum: f64,
    },
}

/// Declares the metrics that are not plain counters, each under its own name and in [`ALL`].
macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal)*) => {
        $(#[doc = $help] pub const $constant: Metric = Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// Every metric that is not a plain counter.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    BUILD: Gauge "trunkline_build_info" ["version"]
        "Always 1; the version is in the label."
    STARTED: Gauge "trunkline_process_started_seconds" []
        "When the process started, in seconds of Unix time."
    WORKERS: Gauge "trunkline_workers" []
        "Workers that there are."
    WORKERS_ANSWERED: Gauge "trunkline_workers_answered" []
        "Workers whose numbers are in this answer."
    CONFIGURATION_VERSION: Gauge "trunkline_configuration_version" []
        "Version of the configuration in force: 1 at the start, one more with each change."
    CONFIGURATION_APPLIED: Gauge "trunkline_configuration_applied_seconds" []
        "When the configuration came into force, in seconds of Unix time."
    CONFIGURATION_FAILED: Gauge "trunkline_configuration_failed" []
        "1 when the last attempt to change the configuration failed."
    CERTIFICATE_NOT_AFTER: Gauge "trunkline_tls_certificate_not_after_seconds" []
        "When the certificate that clients are shown expires, in seconds of Unix time; 0 without one."
    CLIENTS_ENCRYPTED: Gauge "trunkline_clients_encrypted" []
        "Clients connected now whose connection is encrypted."
    CLIENTS_HALF_OPEN: Gauge "trunkline_clients_half_open" []
        "Clients connected now that have not logged in."
    SERVERS_ENCRYPTED: Gauge "trunkline_backend_connections_encrypted" []
        "Server connections now that are encrypted."
    WORKER_CLIENTS: Gauge "trunkline_worker_clients" ["worker"]
        "Clients connected now."
    WORKER_STATEMENTS: Counter "trunkline_worker_statements_total" ["worker"]
        "Statements that came to an end on the worker."
    MIRRORS_RUNNING: Gauge "trunkline_mirrors_running" []
        "Copies of statements that run now on other hostgroups."
    MIRRORS_WAITING: Gauge "trunkline_mirrors_waiting" []
        "Copies of statements that wait to run."
    CACHE_ENTRIES: Gauge "trunkline_cache_entries" []
        "Results in the cache; some may have expired."
    CACHE_BYTES: Gauge "trunkline_cache_bytes" []
        "Memory that the cache's results take, keys and records included."
    CACHE_BYTES_MAX: Gauge "trunkline_cache_bytes_max" []
        "The most that they may take."
    CACHE_PURGED: Counter "trunkline_cache_purged_total" []
        "Results that left the cache because of the limit, or had expired."
    CACHE_SHARED_UP: Gauge "trunkline_cache_shared_up" []
        "1 while the shared cache (Redis) is asked; 0 without one, and while it is left alone because it did not answer."
    CACHE_SHARED_REQUESTS: Counter "trunkline_cache_shared_requests_total" ["kind"]
        "What the shared cache was asked for, had, was sent, and what found no room on the way to it (dropped)."
    CACHE_SHARED_FAILURES: Counter "trunkline_cache_shared_failures_total" []
        "How often the shared cache did not answer, and was left alone for a while."
    CATALOG_ENTRIES: Gauge "trunkline_catalog_entries" []
        "Names of tables and views whose meaning is known; some may have expired."
    CATALOG_EVICTED: Counter "trunkline_catalog_evictions_total" []
        "Names forgotten before their time was over, because of catalog_entries_max."
    CATALOG_NAMES: Counter "trunkline_catalog_names_total" ["kind"]
        "Names that servers' dictionaries were asked for, that they said nothing of (untold), and that were not asked for because too many were being asked for (refused)."
    CATALOG_DEFINITIONS: Counter "trunkline_catalog_definitions_total" []
        "Statements through the proxy that may have changed what names mean."
    CATALOG_ROUNDS: Counter "trunkline_catalog_rounds_total" []
        "Rounds of questions to a server's dictionary: all names that one account wanted to know at the time."
    CATALOG_QUERIES: Counter "trunkline_catalog_queries_total" []
        "Queries of servers' dictionaries."
    CATALOG_ERRORS: Counter "trunkline_catalog_errors_total" []
        "Rounds that no server answered."
    MEMORY_MAX: Gauge "trunkline_memory_max_bytes" []
        "The most memory that everything clients and administrators can make grow may take (memory_max)."
    MEMORY_TOTAL: Gauge "trunkline_memory_used_bytes" []
        "What is taken of it, with what workers keep ready."
    MEMORY_FREED: Gauge "trunkline_memory_freed_bytes" []
        "Large blocks that were freed and are yet to be given back to the system, by the thread that does that."
    MEMORY_CHARGED: Gauge "trunkline_memory_charged_bytes" ["kind"]
        "What is in use of it, by what for; up to a second old."
    MEMORY_WAITING: Gauge "trunkline_memory_clients_waiting" []
        "Clients that are not read because there is no memory for what they send."
    MEMORY_WAITS: Counter "trunkline_memory_waits_total" []
        "How often a client was not read for want of memory."
    MEMORY_REFUSALS: Counter "trunkline_memory_refusals_total" ["reason"]
        "Statements, parameters and prepared texts refused with error 1041: larger than may ever be (too_large), in vain for 10 s (full), of whoever held most (greediest)."
    ADMIN_CONNECTIONS: Gauge "trunkline_admin_connections" ["kind"]
        "Clients of the admin port now: administrators (admin), users of statistics (stats), and who has not logged in (login)."
    ADMIN_HELD: Gauge "trunkline_admin_held_bytes" []
        "Memory of prepared statements on the admin port, of their long data, and of results for users of statistics that wait to be read."
    ADMIN_REFUSALS: Counter "trunkline_admin_refusals_total" ["cause"]
        "Clients of the admin port that were refused (access_denied; blocked after failed logins; too_many) or closed (idle; displaced by a newer one before they had logged in; handshakes: too many of TLS from where they come)."
    ADMIN_FORGOTTEN: Counter "trunkline_admin_failed_logins_forgotten_total" []
        "Names whose failed logins on the admin port were forgotten before their time, for want of room."
    ADMIN_STATEMENT_REFUSALS: Counter "trunkline_admin_statement_refusals_total" ["cause"]
        "Statements of users of statistics that took more than they may (limit), or waited too long for another one of the same user (busy)."
    LOG_LINES_LOST: Counter "trunkline_log_lines_lost_total" ["log"]
        "Lines of the query log (query) and the audit log (audit), and entries of the slow log (slow), that could not be written: the disk is full, or fails."
    HISTORY_BYTES: Gauge "trunkline_history_bytes" []
        "Bytes of the files of the history (history_size_mb)."
    HISTORY_FRAMES: Counter "trunkline_history_frames_total" ["outcome"]
        "Frames of ten seconds that were written to the history, and those lost since the disk is full, fails or is too slow."
    TRACE_WAITING: Gauge "trunkline_trace_statements_waiting" []
        "Statements whose spans wait for the collector, or are being sent (trace_queue_max)."
    TRACE_DELIVERED: Counter "trunkline_trace_delivered_total" []
        "Statements whose spans the collector has taken."
    TRACE_DROPPED: Counter "trunkline_trace_dropped_total" ["cause"]
        "Statements whose spans were not delivered: others came and there was no room (queue), the collector refused them for good (refused) or took none for a minute (undelivered), the process ended or spans were switched off (stopped). What found no room in a worker's ring is trunkline_trace_ring_full_total."
    TRACE_FAILURES: Counter "trunkline_trace_failures_total" []
        "Attempts to send something to the collector that failed."
    TRACE_REJECTED: Counter "trunkline_trace_spans_rejected_total" []
        "Spans that the collector left out of what it took."
    TRACE_METRICS: Counter "trunkline_trace_metrics_delivered_total" []
        "How often the collector has taken the metrics (trace_metrics_interval)."
    CONTROL_ORDERS: Counter "trunkline_control_orders_total" ["outcome"]
        "Orders on the control socket: taken, or refused because of the account, the process that was meant, or their form."
    HTTP_CONNECTIONS: Gauge "trunkline_http_connections" []
        "Connections for HTTP now."
    HTTP_REFUSALS: Counter "trunkline_http_refusals_total" ["cause"]
        "Requests that were refused because of their Host, Origin or Content-Type (foreign), for want of a token (denied), because too many wrong ones came before (blocked) or because too many were being answered (busy), and idle or slow connections closed for newer ones (displaced)."
    CACHE_RULE_HITS: Counter "trunkline_cache_rule_hits_total" ["rule"]
        "Statements answered from the cache, by the rule that made them cacheable; 0 for hints."
    CACHE_RULE_MISSES: Counter "trunkline_cache_rule_misses_total" ["rule"]
        "Cacheable statements that asked a server, by rule; 0 for hints."
    CACHE_RULE_CHANGED: Counter "trunkline_cache_rule_changed_total" ["rule"]
        "Results kept until changed that were not used any more because a table had changed, by rule."
    CACHE_RULE_LATE: Counter "trunkline_cache_rule_late_total" ["rule"]
        "Statements that got no result kept until changed, because the binary log had not told enough, by rule."
    SESSIONS_PINNED: Gauge "trunkline_sessions_pinned" ["reason"]
        "Sessions pinned to their server connection now, by reason."
    STATEMENTS_WAITING: Gauge "trunkline_statements_waiting" ["hostgroup"]
        "Statements that wait for a server connection now."
    STATEMENTS_HELD: Gauge "trunkline_statements_held" ["hostgroup"]
        "Those of them that are held."
    RULE_HITS: Counter "trunkline_rule_hits_total" ["rule"]
        "Statements that matched the rule. The 1,000 rules with the most are shown."
    RULE_UNDECIDED: Counter "trunkline_rule_undecided_total" ["rule"]
        "Statements for which it could not be decided whether the rule's pattern matches. They match a rule that protects, and no other."
    TENANT_STATEMENTS: Counter "trunkline_tenant_statements_total" ["tenant"]
        "Statements of the tenant that servers answered; an empty name is of all that are not told apart. The 1,000 tenants with the most server time are shown, here and in the metrics that follow."
    TENANT_SERVER_TIME: Counter "trunkline_tenant_server_microseconds_total" ["tenant"]
        "What servers took for them."
    TENANT_QUEUED: Counter "trunkline_tenant_queued_total" ["tenant"]
        "Statements of the tenant that waited for a server connection, and got one."
    TENANT_WAIT: Counter "trunkline_tenant_wait_microseconds_total" ["tenant"]
        "How long they waited."
    TENANT_LATE: Counter "trunkline_tenant_late_total" ["tenant"]
        "Statements of the tenant that were refused as they could not begin in time."
    TENANT_RUNNING: Gauge "trunkline_tenant_running" ["tenant"]
        "Statements of the tenant that run now."
    TENANT_WAITING: Gauge "trunkline_tenant_waiting" ["tenant"]
        "Statements of the tenant that wait now."
    STATEMENT_LATENCY: Histogram "trunkline_statement_latency_seconds" []
        "From the statement's last byte received to its answer's last byte passed on."
    BATCH: Histogram "trunkline_worker_batch_seconds" []
        "How long the rounds of workers' loops took. A worker serves nobody else meanwhile."
    QUEUE_WAIT: Histogram "trunkline_queue_wait_seconds" []
        "How long statements waited for a server connection, of those that waited."
    COMMAND_LATENCY: Histogram "trunkline_command_latency_seconds" ["command"]
        "Latency by kind of statement; kinds that were seen."
    SERVER_STATE: Gauge "trunkline_server_state" ["hostgroup", "server", "state"]
        "1 for the state that the server is in, 0 for the others."
    SERVER_CONNECTIONS: Gauge "trunkline_server_connections" ["hostgroup", "server", "state"]
        "Connections to the server now."
    SERVER_CONNECTIONS_MAX: Gauge "trunkline_server_connections_max" ["hostgroup", "server"]
        "The configured max_connections of the server."
    SERVER_LATENCY: Histogram "trunkline_server_latency_seconds" ["hostgroup", "server"]
        "Latency of the server's statements."
    TCP_CONNECTIONS: Gauge "trunkline_tcp_connections" ["listener"]
        "Clients of a TCP listener now."
    TCP_WAITING: Gauge "trunkline_tcp_waiting" ["listener"]
        "Clients of a TCP listener that wait for a server below its max_connections now."
    TCP_CONNECTIONS_MAX: Gauge "trunkline_tcp_connections_max" ["listener"]
        "The configured max_connections of a TCP listener."
    TCP_SERVER_CONNECTIONS: Gauge
        "trunkline_tcp_server_connections" ["listener", "hostgroup", "server"]
        "Connections to a server for clients of a TCP listener now."
    CLUSTER_WRITERS: Gauge "trunkline_cluster_writers" ["cluster"]
        "Servers that write in the cluster now; 0 while there is no writer."
    CLUSTER_WRITER_CHANGES: Counter "trunkline_cluster_writer_changes_total" ["cluster"]
        "How often a server has become the cluster's writer."
    CLUSTER_EVENTS: Counter "trunkline_cluster_events_total" ["cluster", "event"]
        "What has happened to the cluster, as in SHOW TOPOLOGY."
    CLUSTER_SERVER_ROLE: Gauge "trunkline_cluster_server_role" ["cluster", "server", "role"]
        "1 for what the server is in its cluster, 0 for what it is not."
    CLUSTER_SERVER_REACH: Gauge "trunkline_cluster_server_reach" ["cluster", "server", "reach"]
        "1 for how well the server can be reached, 0 for the others."
    CLUSTER_SERVER_LAG: Gauge "trunkline_cluster_server_lag_seconds" ["cluster", "server"]
        "How far the server is behind its source, of those that can tell."
    CLUSTER_SERVER_MISSING: Gauge "trunkline_cluster_server_missing_transactions" ["cluster", "server"]
        "Transactions of the cluster's binary log (binlog_stream) that the replica lacked when it last answered."
    CLUSTER_SERVER_BEHIND: Gauge "trunkline_cluster_server_behind_microseconds" ["cluster", "server"]
        "How long ago the first of these came from the binary log; 0 when none is missing."
    CLUSTER_SERVER_WARNINGS: Gauge "trunkline_cluster_server_warnings" ["cluster", "server"]
        "What an operator should know of the server, as in SHOW TOPOLOGY: how many things."
    BINLOG_STREAM_UP: Gauge "trunkline_binlog_stream_up" ["cluster"]
        "1 while the binary log of the cluster's writer is followed (binlog_stream)."
    BINLOG_TRANSACTIONS: Counter "trunkline_binlog_transactions_total" ["cluster"]
        "Transactions that have come from the binary log."
    BINLOG_GAPS: Counter "trunkline_binlog_gaps_total" ["cluster"]
        "How often the stream could not go on from where it was."
    BINLOG_LAG: Gauge "trunkline_binlog_lag_microseconds" ["cluster"]
        "How old the last transaction was when it came; on MariaDB commits have whole seconds."
    MONITOR_CHECKS: Counter "trunkline_monitor_checks_total" ["check", "outcome"]
        "Checks of servers that were answered (ok) or not (failed)."
    DIGEST_ROWS: Gauge "trunkline_digest_rows" []
        "Rows in the digest tables of all workers."
    DIGEST_EVICTIONS: Counter "trunkline_digest_evictions_total" []
        "Rows that had to leave a full digest table."
    DIGEST_STATEMENTS: Counter "trunkline_digest_statements_total"
        ["digest", "hostgroup", "username", "schema"]
        "Statements of the digest. Only with `/metrics?digests=N`, for the N of most total time."
    DIGEST_TIME: Counter "trunkline_digest_time_seconds_total"
        ["digest", "hostgroup", "username", "schema"]
        "Total latency of the digest's statements. Only with `/metrics?digests=N`."
    DIGEST_ERRORS: Counter "trunkline_digest_errors_total"
        ["digest", "hostgroup", "username", "schema"]
        "Statements of the digest that ended with an error. Only with `/metrics?digests=N`."
}

/// The labels of every metric of [`ServerCounters`], before a counter's own.
pub const SERVER_LABELS: &[&str] = &["hostgroup", "server"];

/// The labels of every metric of [`TcpCounters`].
pub const TCP_LABELS: &[&str] = &["listener"];

/// The labels of every metric of [`TcpServerCounters`], before a counter's own.
pub const TCP_SERVER_LABELS: &[&str] = &["listener", "hostgroup", "server"];

/// The manual's page of metrics, in Markdown: `docs/manual/metrics.md`.
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Process, workers and servers\n\n");
    page.push_str(TABLE_HEAD);
    for metric in ALL {
        row(&mut page, metric.name, metric.kind, metric.labels, metric.help);
    }
    page.push_str("\n## Counters of the process\n\n");
    counter_table(&mut page, Counters::SPECS, &[]);
    page.push_str("\n## Counters of each server\n\n");
    counter_table(&mut page, ServerCounters::SPECS, SERVER_LABELS);
    page.push_str("\n## Counters of TCP listeners\n\n");
    counter_table(&mut page, TcpCounters::SPECS, TCP_LABELS);
    page.push_str("\n## Counters of each server of a TCP listener\n\n");
    counter_table(&mut page, TcpServerCounters::SPECS, TCP_SERVER_LABELS);
    page.push_str(TARGETS);
    page
}

const INTRODUCTION: &str = "\
# Metrics

<!-- Generated from crates/stats; do not edit. -->

`GET /metrics` on the HTTP port (`http_listen`, by default 127.0.0.1:6070) answers in Prometheus's
text format 0.0.4, in OpenMetrics or in protobuf, as is asked for. All counters begin at 0 when the
process starts. `GET /status` gives the same numbers as JSON, and `trunkline status` prints them for
people.
";

const TARGETS: &str = r#"
## The servers as targets for Prometheus

`GET /sd` lists the servers, those of the configuration and those that were discovered, for
`http_sd_configs`. Like `/metrics` it needs no token and answers to the same hosts
(`http_allowed_hosts`). There is one entry for each hostgroup that a server is in. A member of a
cluster is in both hostgroups of the cluster; the one where it only stands by is left out, unless it
serves in neither:

```json
[{"targets": ["10.0.0.1:3306"], "labels": {
  "__meta_trunkline_cluster": "shop", "__meta_trunkline_hostgroup": "10",
  "__meta_trunkline_reach": "up", "__meta_trunkline_role": "writer",
  "__meta_trunkline_status": "ONLINE"}}]
```

| label | meaning |
|---|---|
| `__meta_trunkline_hostgroup` | The hostgroup. |
| `__meta_trunkline_status` | The server's state there, as in `trunkline_server_state`: of several workers' the worst. |
| `__meta_trunkline_cluster` | The cluster that it is a member of. |
| `__meta_trunkline_role` | What it is there, as in `trunkline_cluster_server_role`. |
| `__meta_trunkline_reach` | How well it can be reached, as in `trunkline_cluster_server_reach`. |

A label that is not known is missing: a server without a cluster has none of the last three, and a
member of a cluster that is in no hostgroup has neither of the first two. A member that does not
answer has the reach `down`; its state changes when statements find it so. Servers that are offline,
shunned or down are listed, so that they are still watched. Those on Unix sockets are not. While no
worker answers, the HTTP status is 503, and Prometheus keeps the targets that it has.

With mysqld_exporter (its `/probe`, here on 127.0.0.1:9104), Prometheus watches each server once,
whichever hostgroups it is in. Hostgroup, status and role change, and a series would end with each
change; they are in Trunkline's own metrics.

```yaml
scrape_configs:
  - job_name: mysql
    metrics_path: /probe
    http_sd_configs:
      - url: http://127.0.0.1:6070/sd
        refresh_interval: 15s
    relabel_configs:
      - source_labels: [__address__]
        target_label: __param_target
      - source_labels: [__address__]
        target_label: instance
      - source_labels: [__meta_trunkline_cluster]
        target_label: cluster
      - target_label: __address__
        replacement: 127.0.0.1:9104
```
"#;

const TABLE_HEAD: &str = "| metric | type | labels | meaning |\n|---|---|---|---|\n";

fn counter_table(page: &mut String, specs: &[CounterSpec], labels: &[&str]) {
    page.push_str(TABLE_HEAD);
    for group in specs.chunk_by(|a, b| a.metric == b.metric) {
        for (index, spec) in group.iter().enumerate() {
            let value = spec.label.map(|(label, value)| format!("{label}=\"{value}\""));
            let labels: Vec<&str> = labels.iter().copied().chain(value.as_deref()).collect();
            let name = if index == 0 { spec.metric } else { "" };
            row(page, name, MetricKind::Counter, &labels, spec.help);
        }
    }
}

fn row(page: &mut String, name: &str, kind: MetricKind, labels: &[&str], help: &str) {
    let quoted = |text: &str| match text {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    let labels: Vec<String> = labels.iter().map(|label| quoted(label)).collect();
    let (name, labels) = (quoted(name), labels.join(", "));
    // Writing to a String cannot fail.
    let _ = writeln!(page, "| {name} | {} | {labels} | {help} |", kind.name());
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, fs, path::Path};

    use super::*;

    #[test]
    fn the_manual_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manual/metrics.md");
        if std::env::var_os("TRUNKLINE_UPDATE").is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("the manual's folder");
            fs::write(&path, reference()).expect("a writable page");
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == reference(),
            "docs/manual/metrics.md is not current: run this test with TRUNKLINE_UPDATE=1"
        );
    }

    #[test]
    fn metrics_are_named_by_the_rule_and_only_once() {
        let counters = Counters::SPECS.iter().chain(ServerCounters::SPECS);
        let mut seen: HashSet<&str> = counters.map(|spec| spec.metric).collect();
        for metric in ALL {
            assert!(seen.insert(metric.name), "{} is declared twice", metric.name);
            assert!(metric.name.starts_with("trunkline_"), "{}", metric.name);
            let is_counter = metric.kind == MetricKind::Counter;
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
