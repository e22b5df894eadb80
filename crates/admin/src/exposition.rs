//! What `/metrics` answers, made from the tables of `trunkline_stats`: families of series, and
//! the three forms that Prometheus reads.
//!
//! Reading order: [`families`] (what there is), [`accept`] (which form is asked for), then the
//! forms: [`text`], [`protobuf`] (the only one that has native histograms).

mod accept;
mod clusters;
mod compat;
mod native;
mod protobuf;
mod tcp;
mod text;

use std::collections::BTreeMap;

use trunkline_stats::{
    AdminFigures, CacheSums, CatalogFigures, CommandRow, Counters, DigestRow, Exemplar, Histogram,
    HttpFigures, MemoryFigures, Report, ServerCounters, ServerRow, TenantSums, TraceFigures,
    command::BUCKET_BOUNDS_US,
    counters::CounterSpec,
    metrics::{self, Metric, MetricKind, PlainFamily, PlainSeries, PlainValue},
    report::{STATES, state_name},
};

pub use accept::Form;

/// The most digests that become series.
pub const DIGESTS_MAX: usize = 100;
/// The most rules that become series.
pub const RULES_MAX: usize = 1000;
/// Tenants that have lines of their own.
const TENANTS_MAX: usize = 1_000;

/// Powers of two of microseconds that bound the buckets of histograms: 64 µs to 67 s.
const BUCKET_EXPONENTS: std::ops::RangeInclusive<u32> = 6..=26;

/// The whole answer of `/metrics` in a form, with the `digests_max` digests of most total time.
pub fn metrics_body(report: &Report, digests_max: usize, form: Form) -> Vec<u8> {
    let families = families(report, digests_max);
    match form {
        Form::Text => text::write(&families).into_bytes(),
        Form::OpenMetrics => text::write_open(&families).into_bytes(),
        Form::Protobuf => protobuf::write(&families),
    }
}

/// The whole answer of `/metrics` in Prometheus's own text format, with as many digests.
pub fn metrics_text(report: &Report, digests_max: usize) -> String {
    text::write(&families(report, digests_max))
}

/// Every family, each once, as plain numbers: what an exporter of another protocol sends.
pub fn plain_families(report: &Report, digests_max: usize) -> Vec<PlainFamily> {
    families(report, digests_max).iter().map(Family::plain).collect()
}

/// Every family, each once.
fn families(report: &Report, digests_max: usize) -> Vec<Family<'_>> {
    let mut out = Exposition::default();
    process(&mut out, report);
    sessions(&mut out, report);
    let counters: Vec<(&CounterSpec, u64)> = report.counters.iter().collect();
    for group in counters.chunk_by(|(a, _), (b, _)| a.metric == b.metric) {
        for (index, (spec, value)) in group.iter().enumerate() {
            out.counter_head(index, spec);
            out.sample(spec.label.as_slice(), *value);
        }
    }
    latency(&mut out, report);
    servers(&mut out, &report.servers);
    server_counters(&mut out, &report.servers);
    clusters::clusters(&mut out, &report.process.monitor);
    tcp::listeners(&mut out, report);
    digests(&mut out, report, digests_max.min(DIGESTS_MAX));
    compat::proxysql(&mut out, report);
    debug_assert_eq!(counters.len(), Counters::SPECS.len());
    out.families
}

fn process<'a>(out: &mut Exposition<'a>, report: &'a Report) {
    let process = &report.process;
    let configuration = &process.configuration;
    out.head(&metrics::BUILD);
    out.sample(&[("version", &process.version)], 1_u64);
    out.single(&metrics::STARTED, process.started_unix_sec);
    out.single(&metrics::WORKERS, process.workers);
    out.single(&metrics::WORKERS_ANSWERED, report.workers.len());
    out.single(&metrics::CONFIGURATION_VERSION, configuration.version);
    out.single(&metrics::CONFIGURATION_APPLIED, configuration.applied_unix_sec);
    let failed = u8::from(configuration.last_error.is_some());
    out.single(&metrics::CONFIGURATION_FAILED, failed);
    out.single(&metrics::CERTIFICATE_NOT_AFTER, process.certificate_not_after_unix_sec);
    out.single(&metrics::CLIENTS_ENCRYPTED, report.clients_encrypted);
    out.single(&metrics::CLIENTS_HALF_OPEN, report.clients_half_open);
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
    put_catalog(out, &process.catalog);
    put_memory(out, &process.memory);
    put_control_plane(out, process.admin, process.http);
    let lines = &process.lost_lines;
    let lost = [("query", lines.query), ("slow", lines.slow), ("audit", lines.audit)];
    let lost = lost.into_iter().map(|(log, count)| (log.to_owned(), count));
    out.labelled(&metrics::LOG_LINES_LOST, lost);
    let control = [("taken", process.control.orders), ("refused", process.control.refused)];
    let control = control.into_iter().map(|(outcome, count)| (outcome.to_owned(), count));
    out.labelled(&metrics::CONTROL_ORDERS, control);
    let history = &process.history;
    out.single(&metrics::HISTORY_BYTES, history.bytes);
    let frames = [("written", history.written), ("lost", history.lost)];
    let frames = frames.into_iter().map(|(outcome, count)| (outcome.to_owned(), count));
    out.labelled(&metrics::HISTORY_FRAMES, frames);
    put_trace(out, process.trace);
}

/// What has become of spans.
fn put_trace(out: &mut Exposition<'_>, trace: TraceFigures) {
    out.single(&metrics::TRACE_WAITING, trace.waiting);
    out.single(&metrics::TRACE_DELIVERED, trace.delivered);
    let dropped = [
        ("queue", trace.dropped_queue),
        ("refused", trace.dropped_refused),
        ("undelivered", trace.dropped_undelivered),
        ("stopped", trace.dropped_stopped),
    ];
    let dropped = dropped.into_iter().map(|(cause, count)| (cause.to_owned(), count));
    out.labelled(&metrics::TRACE_DROPPED, dropped);
    out.single(&metrics::TRACE_FAILURES, trace.failures);
    out.single(&metrics::TRACE_REJECTED, trace.spans_rejected);
    out.single(&metrics::TRACE_METRICS, trace.metrics_delivered);
}

/// What is in use of the memory that there is for what comes from outside.
fn put_memory<'a>(out: &mut Exposition<'a>, memory: &'a MemoryFigures) {
    let by = |sums: &'a BTreeMap<String, u64>| sums.iter().map(|(name, sum)| (name.clone(), *sum));
    out.single(&metrics::MEMORY_MAX, memory.max);
    out.single(&metrics::MEMORY_TOTAL, memory.total);
    out.single(&metrics::MEMORY_FREED, memory.freed);
    out.labelled(&metrics::MEMORY_CHARGED, by(&memory.charged));
    out.single(&metrics::MEMORY_WAITING, memory.waiting);
    out.single(&metrics::MEMORY_WAITS, memory.waits);
    out.labelled(&metrics::MEMORY_REFUSALS, by(&memory.refusals));
}

/// What tenants have used and do: those that have used most.
fn put_tenants(out: &mut Exposition<'_>, tenants: &BTreeMap<String, TenantSums>) {
    let mut most: Vec<(&String, &TenantSums)> = tenants.iter().collect();
    most.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.server_time_us));
    most.truncate(TENANTS_MAX);
    let of = |value: fn(&TenantSums) -> u64| {
        most.iter().map(move |(name, sums)| ((*name).clone(), value(sums)))
    };
    out.labelled(&metrics::TENANT_STATEMENTS, of(|sums| sums.statements));
    out.labelled(&metrics::TENANT_SERVER_TIME, of(|sums| sums.server_time_us));
    out.labelled(&metrics::TENANT_QUEUED, of(|sums| sums.queued));
    out.labelled(&metrics::TENANT_WAIT, of(|sums| sums.queue_time_us));
    out.labelled(&metrics::TENANT_LATE, of(|sums| sums.late));
    out.labelled(&metrics::TENANT_RUNNING, of(|sums| sums.running));
    out.labelled(&metrics::TENANT_WAITING, of(|sums| sums.waiting));
}

/// Who is on the admin port and asks over HTTP, and what was refused there.
fn put_control_plane(out: &mut Exposition<'_>, admin: AdminFigures, http: HttpFigures) {
    fn named<const N: usize>(
        rows: [(&'static str, u64); N],
    ) -> impl Iterator<Item = (String, u64)> {
        rows.into_iter().map(|(name, count)| (name.to_owned(), count))
    }
    let kinds =
        [("admin", admin.admins), ("stats", admin.stats_users), ("login", admin.logging_in)];
    out.labelled(&metrics::ADMIN_CONNECTIONS, named(kinds));
    out.single(&metrics::ADMIN_HELD, admin.held_bytes);
    let refusals = [
        ("access_denied", admin.denied),
        ("blocked", admin.blocked),
        ("too_many", admin.full),
        ("idle", admin.idle),
        ("displaced", admin.displaced),
        ("handshakes", admin.handshakes),
    ];
    out.labelled(&metrics::ADMIN_REFUSALS, named(refusals));
    out.single(&metrics::ADMIN_FORGOTTEN, admin.forgotten);
    let statements = [("limit", admin.stats_limited), ("busy", admin.stats_busy)];
    out.labelled(&metrics::ADMIN_STATEMENT_REFUSALS, named(statements));
    out.single(&metrics::HTTP_CONNECTIONS, http.connections);
    let refusals = [
        ("foreign", http.foreign),
        ("denied", http.denied),
        ("busy", http.busy),
        ("displaced", http.displaced),
        ("blocked", http.blocked),
    ];
    out.labelled(&metrics::HTTP_REFUSALS, named(refusals));
}

/// What is known of names, and what it took.
fn put_catalog(out: &mut Exposition<'_>, catalog: &CatalogFigures) {
    out.single(&metrics::CATALOG_ENTRIES, catalog.entries);
    out.single(&metrics::CATALOG_EVICTED, catalog.evicted);
    let names =
        [("asked", catalog.asked), ("untold", catalog.untold), ("refused", catalog.refused)];
    let names = names.into_iter().map(|(kind, count)| (kind.to_owned(), count));
    out.labelled(&metrics::CATALOG_NAMES, names);
    out.single(&metrics::CATALOG_DEFINITIONS, catalog.definitions);
    out.single(&metrics::CATALOG_ROUNDS, catalog.rounds);
    out.single(&metrics::CATALOG_QUERIES, catalog.queries);
    out.single(&metrics::CATALOG_ERRORS, catalog.errors);
}

fn sessions<'a>(out: &mut Exposition<'a>, report: &'a Report) {
    let pins = report.pins.iter().map(|(reason, sessions)| (reason.clone(), *sessions));
    out.labelled(&metrics::SESSIONS_PINNED, pins);
    let waiting = report.waiting.iter();
    let waiting = waiting.map(|(hostgroup, statements)| (hostgroup.to_string(), *statements));
    out.labelled(&metrics::STATEMENTS_WAITING, waiting);
    let held = report.held.iter();
    let held = held.map(|(hostgroup, statements)| (hostgroup.to_string(), *statements));
    out.labelled(&metrics::STATEMENTS_HELD, held);
    let most = |counts: &BTreeMap<u32, u64>| {
        let mut rules: Vec<(u32, u64)> =
            counts.iter().map(|(rule, count)| (*rule, *count)).collect();
        rules.sort_by_key(|(rule, count)| (std::cmp::Reverse(*count), *rule));
        rules.truncate(RULES_MAX);
        rules.into_iter().map(|(rule, count)| (rule.to_string(), count))
    };
    out.labelled(&metrics::RULE_HITS, most(&report.rule_hits));
    out.labelled(&metrics::RULE_UNDECIDED, most(&report.rule_undecided));
    put_tenants(out, &report.tenants);
    let by_rule = |value: fn(&CacheSums) -> u64| {
        let rows = report.cache.iter().take(RULES_MAX);
        rows.map(move |(rule, sums)| (rule.to_string(), value(sums)))
    };
    out.labelled(&metrics::CACHE_RULE_HITS, by_rule(|sums| sums.hits));
    out.labelled(&metrics::CACHE_RULE_MISSES, by_rule(|sums| sums.misses));
    out.labelled(&metrics::CACHE_RULE_CHANGED, by_rule(|sums| sums.changed));
    out.labelled(&metrics::CACHE_RULE_LATE, by_rule(|sums| sums.late));
}

fn latency<'a>(out: &mut Exposition<'a>, report: &'a Report) {
    out.head(&metrics::STATEMENT_LATENCY);
    out.histogram(&[], &report.latency);
    out.give_exemplars(&report.process.exemplars);
    out.head(&metrics::QUEUE_WAIT);
    out.histogram(&[], &report.queue_wait);
    out.head(&metrics::BATCH);
    out.histogram(&[], &report.batch);
    out.head(&metrics::COMMAND_LATENCY);
    for row in &report.commands {
        command(out, row);
    }
}

fn command<'a>(out: &mut Exposition<'a>, row: &'a CommandRow) {
    let mut below = 0_u64;
    let buckets = BUCKET_BOUNDS_US.iter().zip(&row.buckets).map(|(bound, count)| {
        below = below.saturating_add(*count);
        (*bound, below)
    });
    let distribution = Distribution {
        buckets: buckets.collect(),
        count: row.count,
        sum_us: row.time_us,
        fine: None,
        exemplars: &[],
    };
    out.push(&[("command", row.command.as_str())], Value::Distribution(distribution));
}

/// The values of the labels `hostgroup` and `server`.
fn server_labels<'a>(hostgroup: &'a str, server: &'a ServerRow) -> [(&'static str, &'a str); 2] {
    [("hostgroup", hostgroup), ("server", &server.address)]
}

fn servers<'a>(out: &mut Exposition<'a>, servers: &'a [ServerRow]) {
    out.head(&metrics::SERVER_STATE);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let [group, address] = server_labels(&hostgroup, server);
        for state in STATES {
            let labels = [group, address, ("state", state_name(state))];
            let is_in = u8::from(server.state == state);
            out.sample(&labels, is_in);
        }
    }
    out.head(&metrics::SERVER_CONNECTIONS);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let [group, address] = server_labels(&hostgroup, server);
        for (state, connections) in server.connections.by_state() {
            let labels = [group, address, ("state", state)];
            out.sample(&labels, connections);
        }
    }
    out.head(&metrics::SERVER_CONNECTIONS_MAX);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let labels = server_labels(&hostgroup, server);
        out.sample(&labels, server.connections_max);
    }
    out.head(&metrics::SERVER_LATENCY);
    for server in servers {
        let hostgroup = server.hostgroup.to_string();
        let labels = server_labels(&hostgroup, server);
        out.histogram(&labels, &server.latency);
    }
}

fn server_counters<'a>(out: &mut Exposition<'a>, servers: &'a [ServerRow]) {
    let mut metric = "";
    for (index, spec) in ServerCounters::SPECS.iter().enumerate() {
        out.counter_head(usize::from(spec.metric == metric), spec);
        metric = spec.metric;
        for server in servers {
            let hostgroup = server.hostgroup.to_string();
            let mut labels = server_labels(&hostgroup, server).to_vec();
            labels.extend(spec.label);
            let value = server.counters.iter().nth(index).map_or(0, |(_, value)| value);
            out.sample(&labels, value);
        }
    }
}

fn digests<'a>(out: &mut Exposition<'a>, report: &'a Report, digests_max: usize) {
    out.single(&metrics::DIGEST_ROWS, report.digest_rows());
    out.single(&metrics::DIGEST_EVICTIONS, report.digests_evicted);
    if digests_max == 0 {
        return;
    }
    let series = |out: &mut Exposition<'a>, metric: &Metric, value: fn(&DigestRow) -> Number| {
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
            out.sample(&labels, value(row));
        }
    };
    series(out, &metrics::DIGEST_STATEMENTS, |row| row.sums.count_star.into());
    series(out, &metrics::DIGEST_TIME, |row| Number::Micros(row.sums.sum_time));
    series(out, &metrics::DIGEST_ERRORS, |row| row.sums.errors.into());
}

/// A number as it is told.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(u64),
    /// Microseconds, told as seconds.
    Micros(u64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<u8> for Number {
    fn from(number: u8) -> Self {
        Self::Whole(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Self::Whole(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

/// Durations by length.
#[derive(Debug)]
struct Distribution<'a> {
    /// Upper bounds in µs, with the count of what is not longer.
    buckets: Vec<(u64, u64)>,
    count: u64,
    sum_us: u64,
    /// Finer buckets, where there are any.
    fine: Option<&'a Histogram>,
    /// Examples, in no order.
    exemplars: &'a [Exemplar],
}

#[derive(Debug)]
enum Value<'a> {
    Number(Number),
    Distribution(Distribution<'a>),
}

/// One series.
#[derive(Debug)]
struct Series<'a> {
    labels: Vec<(&'static str, String)>,
    value: Value<'a>,
}

/// The series of one name.
#[derive(Debug)]
struct Family<'a> {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    series: Vec<Series<'a>>,
}

impl Family<'_> {
    fn plain(&self) -> PlainFamily {
        let seconds = |us: u64| protobuf::float(Number::Micros(us));
        let series = self.series.iter().map(|series| PlainSeries {
            labels: series.labels.clone(),
            value: match &series.value {
                Value::Number(Number::Whole(number)) => PlainValue::Whole(*number),
                Value::Number(Number::Micros(us)) => PlainValue::Float(seconds(*us)),
                Value::Distribution(of) => PlainValue::Distribution {
                    bounds: of.buckets.iter().map(|(bound, _)| seconds(*bound)).collect(),
                    below: of.buckets.iter().map(|(_, below)| *below).collect(),
                    count: of.count,
                    sum: seconds(of.sum_us),
                },
            },
        });
        PlainFamily { name: self.name, kind: self.kind, help: self.help, series: series.collect() }
    }
}

/// The families as they grow. A series belongs to the family begun last.
#[derive(Debug, Default)]
struct Exposition<'a> {
    families: Vec<Family<'a>>,
}

impl<'a> Exposition<'a> {
    fn head(&mut self, metric: &Metric) {
        self.begin(metric.name, metric.kind, metric.help);
    }

    /// The head of a counter's metric, unless it is not the first of its group.
    fn counter_head(&mut self, index_in_group: usize, spec: &CounterSpec) {
        if index_in_group == 0 {
            self.begin(spec.metric, MetricKind::Counter, spec.help);
        }
    }

    fn begin(&mut self, name: &'static str, kind: MetricKind, help: &'static str) {
        self.families.push(Family { name, kind, help, series: Vec::new() });
    }

    /// A metric of one series without labels.
    fn single(&mut self, metric: &Metric, value: impl Into<Number>) {
        debug_assert!(metric.labels.is_empty());
        self.head(metric);
        self.sample(&[], value);
    }

    /// A metric with one label.
    fn labelled(&mut self, metric: &Metric, series: impl Iterator<Item = (String, u64)>) {
        debug_assert_eq!(metric.labels.len(), 1);
        self.head(metric);
        for (value, number) in series {
            let label = metric.labels.first().map(|label| (*label, value.as_str()));
            self.sample(label.as_slice(), number);
        }
    }

    fn histogram(&mut self, labels: &[(&'static str, &str)], histogram: &'a Histogram) {
        let bucket = |exponent| (1_u64 << exponent, histogram.count_below_power_of_two(exponent));
        let distribution = Distribution {
            buckets: BUCKET_EXPONENTS.map(bucket).collect(),
            count: histogram.count(),
            sum_us: histogram.sum_us(),
            fine: Some(histogram),
            exemplars: &[],
        };
        self.push(labels, Value::Distribution(distribution));
    }

    /// Examples for the series that came last.
    fn give_exemplars(&mut self, exemplars: &'a [Exemplar]) {
        let family = self.families.last_mut();
        let series = family.and_then(|family| family.series.last_mut());
        if let Some(Series { value: Value::Distribution(of), .. }) = series {
            of.exemplars = exemplars;
        }
    }

    fn sample(&mut self, labels: &[(&'static str, &str)], value: impl Into<Number>) {
        self.push(labels, Value::Number(value.into()));
    }

    fn push(&mut self, labels: &[(&'static str, &str)], value: Value<'a>) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        match self.families.last_mut() {
            Some(family) => family.series.push(Series { labels, value }),
            None => debug_assert!(false, "a series without a family"),
        }
    }
}

#[cfg(test)]
mod tests;
