//! Prometheus's text format 0.0.4, written from the tables of `trunkline_stats`.
//!
//! Source: prometheus.io, "Exposition formats", text-based format.

mod compat;
mod tcp;

use std::fmt::{Display, Write};

use trunkline_stats::{
    CacheSums, CommandRow, Counters, DigestRow, Histogram, Report, ServerCounters, ServerRow,
    command::BUCKET_BOUNDS_US,
    counters::CounterSpec,
    metrics::{self, Metric, MetricKind},
    report::{STATES, state_name},
};

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The most digests that become series.
pub const DIGESTS_MAX: usize = 100;
/// The most rules that become series.
pub const RULES_MAX: usize = 1000;

/// Powers of two of microseconds that bound the buckets of histograms: 64 µs to 67 s.
const BUCKET_EXPONENTS: std::ops::RangeInclusive<u32> = 6..=26;

/// The whole answer of `/metrics`, with the `digests_max` digests of most total time.
pub fn metrics_text(report: &Report, digests_max: usize) -> String {
    let mut out = Exposition::default();
    process(&mut out, report);
    sessions(&mut out, report);
    let counters: Vec<(&CounterSpec, u64)> = report.counters.iter().collect();
    for group in counters.chunk_by(|(a, _), (b, _)| a.metric == b.metric) {
        for (index, (spec, value)) in group.iter().enumerate() {
            out.counter_head(index, spec);
            out.sample(spec.metric, "", spec.label.as_slice(), value);
        }
    }
    latency(&mut out, report);
    servers(&mut out, &report.servers);
    server_counters(&mut out, &report.servers);
    tcp::listeners(&mut out, report);
    digests(&mut out, report, digests_max.min(DIGESTS_MAX));
    compat::proxysql(&mut out, report);
    debug_assert_eq!(counters.len(), Counters::SPECS.len());
    out.text
}

fn process(out: &mut Exposition, report: &Report) {
    let process = &report.process;
    let configuration = &process.configuration;
    out.head(&metrics::BUILD);
    out.sample(metrics::BUILD.name, "", &[("version", &process.version)], 1);
    out.single(&metrics::STARTED, process.started_unix_sec);
    out.single(&metrics::WORKERS, process.workers);
    out.single(&metrics::WORKERS_ANSWERED, report.workers.len());
    out.single(&metrics::CONFIGURATION_VERSION, configuration.version);
    out.single(&metrics::CONFIGURATION_APPLIED, configuration.applied_unix_sec);
    let failed = u8::from(configuration.last_error.is_some());
    out.single(&metrics::CONFIGURATION_FAILED, failed);
    out.single(&metrics::CERTIFICATE_NOT_AFTER, process.certificate_not_after_unix_sec);
    out.single(&metrics::CLIENTS_ENCRYPTED, report.clients_encrypted);
    out.single(&metrics::SERVERS_ENCRYPTED, report.server_connections_encrypted);
    let by_worker = |value: fn(&trunkline_stats::WorkerRow) -> u64| {
        report.workers.iter().map(move |row| (row.worker.to_string(), value(row)))
    };
    out.labelled(&metrics::WORKER_CLIENTS, by_worker(|row| row.clients));
    out.labelled(&metrics::WORKER_STATEMENTS, by_worker(|row| row.statements));
    out.single(&metrics::MIRRORS_RUNNING, report.mirrors_running);
    out.single(&metrics::MIRRORS_WAITING, report.mirrors_waiting);
    out.single(&metrics::CACHE_ENTRIES, process.cache.entries);
    out.single(&metrics::CACHE_BYTES, process.cache.bytes);
    out.single(&metrics::CACHE_BYTES_MAX, process.cache.bytes_max);
    out.single(&metrics::CACHE_PURGED, process.cache.purged);
    out.single(&metrics::CACHE_SHARED_UP, process.cache.shared_up);
    let requests = [
        ("asked", process.cache.shared_asked),
        ("had", process.cache.shared_hits),
        ("stored", process.cache.shared_stored),
        ("dropped", process.cache.shared_dropped),
    ];
    let requests = requests.into_iter().map(|(kind, count)| (kind.to_owned(), count));
    out.labelled(&metrics::CACHE_SHARED_REQUESTS, requests);
    out.single(&metrics::CACHE_SHARED_FAILURES, process.cache.shared_failures);
}

fn sessions(out: &mut Exposition, report: &Report) {
    let pins = report.pins.iter().map(|(reason, sessions)| (reason.clone(), *sessions));
    out.labelled(&metrics::SESSIONS_PINNED, pins);
    let waiting = report.waiting.iter();
    let waiting = waiting.map(|(hostgroup, statements)| (hostgroup.to_string(), *statements));
    out.labelled(&metrics::STATEMENTS_WAITING, waiting);
    let mut rules: Vec<(u32, u64)> =
        report.rule_hits.iter().map(|(rule, hits)| (*rule, *hits)).collect();
    rules.sort_by_key(|(rule, hits)| (std::cmp::Reverse(*hits), *rule));
    rules.truncate(RULES_MAX);
    let rules = rules.into_iter().map(|(rule, hits)| (rule.to_string(), hits));
    out.labelled(&metrics::RULE_HITS, rules);
    let by_rule = |value: fn(&CacheSums) -> u64| {
        let rows = report.cache.iter().take(RULES_MAX);
        rows.map(move |(rule, sums)| (rule.to_string(), value(sums)))
    };
    out.labelled(&metrics::CACHE_RULE_HITS, by_rule(|sums| sums.hits));
    out.labelled(&metrics::CACHE_RULE_MISSES, by_rule(|sums| sums.misses));
}

fn latency(out: &mut Exposition, report: &Report) {
    out.head(&metrics::STATEMENT_LATENCY);
    out.histogram(&metrics::STATEMENT_LATENCY, &[], &report.latency);
    out.head(&metrics::QUEUE_WAIT);
    out.histogram(&metrics::QUEUE_WAIT, &[], &report.queue_wait);
    out.head(&metrics::COMMAND_LATENCY);
    for row in &report.commands {
        command(out, row);
    }
}

fn command(out: &mut Exposition, row: &CommandRow) {
    let labels = [("command", row.command.as_str())];
    let mut below = 0_u64;
    let buckets = BUCKET_BOUNDS_US.iter().zip(&row.buckets).map(|(bound, count)| {
        below = below.saturating_add(*count);
        (*bound, below)
    });
    out.buckets(metrics::COMMAND_LATENCY.name, &labels, buckets, row.count, row.time_us);
}

/// The values of the labels `hostgroup` and `server`.
fn server_labels<'a>(hostgroup: &'a str, server: &'a ServerRow) -> [(&'static str, &'a str); 2] {
    [("hostgroup", hostgroup), ("server", &server.address)]
}

fn servers(out: &mut Exposition, servers: &[ServerRow]) {
    out.head(&metrics::SERVER_STATE);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let [group, address] = server_labels(&hostgroup, server);
        for state in STATES {
            let labels = [group, address, ("state", state_name(state))];
            let is_in = u8::from(server.state == state);
            out.sample(metrics::SERVER_STATE.name, "", &labels, is_in);
        }
    }
    out.head(&metrics::SERVER_CONNECTIONS);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let [group, address] = server_labels(&hostgroup, server);
        for (state, connections) in server.connections.by_state() {
            let labels = [group, address, ("state", state)];
            out.sample(metrics::SERVER_CONNECTIONS.name, "", &labels, connections);
        }
    }
    out.head(&metrics::SERVER_CONNECTIONS_MAX);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let labels = server_labels(&hostgroup, server);
        out.sample(metrics::SERVER_CONNECTIONS_MAX.name, "", &labels, server.connections_max);
    }
    out.head(&metrics::SERVER_LATENCY);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let labels = server_labels(&hostgroup, server);
        out.histogram(&metrics::SERVER_LATENCY, &labels, &server.latency);
    }
}

fn server_counters(out: &mut Exposition, servers: &[ServerRow]) {
    let mut metric = "";
    for (index, spec) in ServerCounters::SPECS.iter().enumerate() {
        out.counter_head(usize::from(spec.metric == metric), spec);
        metric = spec.metric;
        for server in servers {
            let hostgroup = server.hostgroup.to_string();
            let mut labels = server_labels(&hostgroup, server).to_vec();
            labels.extend(spec.label);
            let value = server.counters.iter().nth(index).map_or(0, |(_, value)| value);
            out.sample(spec.metric, "", &labels, value);
        }
    }
}

fn digests(out: &mut Exposition, report: &Report, digests_max: usize) {
    out.single(&metrics::DIGEST_ROWS, report.digest_rows());
    out.single(&metrics::DIGEST_EVICTIONS, report.digests_evicted);
    if digests_max == 0 {
        return;
    }
    let series = |out: &mut Exposition, metric: &Metric, value: fn(&DigestRow) -> String| {
        out.head(metric);
        for row in report.digests.iter().take(digests_max) {
            let (digest, hostgroup) = (
                format!("0x{:016X}", row.digest),
                trunkline_stats::hostgroup_shown(row.hostgroup).to_string(),
            );
            let labels = [
                ("digest", digest.as_str()),
                ("hostgroup", hostgroup.as_str()),
                ("username", row.username.as_str()),
                ("schema", row.schemaname.as_str()),
            ];
            out.sample(metric.name, "", &labels, value(row));
        }
    };
    series(out, &metrics::DIGEST_STATEMENTS, |row| row.sums.count_star.to_string());
    series(out, &metrics::DIGEST_TIME, |row| seconds(row.sums.sum_time));
    series(out, &metrics::DIGEST_ERRORS, |row| row.sums.errors.to_string());
}

/// Microseconds as seconds, exact, without zeros at the end.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The text as it grows. Writing to a `String` cannot fail, so results are dropped.
#[derive(Debug, Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    fn head(&mut self, metric: &Metric) {
        self.head_lines(metric.name, metric.kind, metric.help);
    }

    /// The head of a counter's metric, unless it is not the first of its group.
    fn counter_head(&mut self, index_in_group: usize, spec: &CounterSpec) {
        if index_in_group == 0 {
            self.head_lines(spec.metric, MetricKind::Counter, spec.help);
        }
    }

    fn head_lines(&mut self, name: &str, kind: MetricKind, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {}", kind.name());
    }

    /// A metric of one series without labels.
    fn single(&mut self, metric: &Metric, value: impl Display) {
        debug_assert!(metric.labels.is_empty());
        self.head(metric);
        self.sample(metric.name, "", &[], value);
    }

    /// A metric with one label.
    fn labelled(&mut self, metric: &Metric, series: impl Iterator<Item = (String, u64)>) {
        debug_assert_eq!(metric.labels.len(), 1);
        self.head(metric);
        for (value, number) in series {
            let label = metric.labels.first().map(|label| (*label, value.as_str()));
            self.sample(metric.name, "", label.as_slice(), number);
        }
    }

    fn histogram(&mut self, metric: &Metric, labels: &[(&str, &str)], histogram: &Histogram) {
        let bucket = |exponent| (1_u64 << exponent, histogram.count_below_power_of_two(exponent));
        let buckets = BUCKET_EXPONENTS.map(bucket);
        self.buckets(metric.name, labels, buckets, histogram.count(), histogram.sum_us());
    }

    /// The series of one histogram from cumulative counts by upper bound in µs.
    fn buckets(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (u64, u64)>,
        count: u64,
        sum_us: u64,
    ) {
        let mut with_bound = |bound: &str, below: u64| {
            let mut labels = labels.to_vec();
            labels.push(("le", bound));
            self.sample(name, "_bucket", &labels, below);
        };
        for (bound_us, below) in buckets {
            with_bound(&seconds(bound_us), below);
        }
        with_bound("+Inf", count);
        self.sample(name, "_sum", labels, seconds(sum_us));
        self.sample(name, "_count", labels, count);
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    fn escaped(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }
}

#[cfg(test)]
mod tests;
