//! What a reader gets: the numbers of one worker, or of all of them merged.

use std::collections::{BTreeMap, btree_map};

use serde::{Deserialize, Serialize};
use trunkline_topology::ServerState;

use crate::{
    command,
    counters::{Counters, ServerCounters},
    digest::{DigestOrder, DigestRow, DigestSums},
    errors::ErrorRow,
    histogram::Histogram,
    kernel::KernelFigures,
    mirror::MirrorRow,
    sketch::LatencySketch,
    tcp::TcpListenerRow,
    texts::StmtTexts,
    topology::MonitorFigures,
    worker::{ServerGauges, ServerStats},
};

/// The numbers of one worker or, merged, of the process. It does not hold secrets; digest texts
/// have no literals.
///
/// Lists are in a fixed order, so that equal numbers make equal reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// What is true of the process as a whole; filled in after merging.
    pub process: Process,
    /// One line for each worker that answered, by number.
    pub workers: Vec<WorkerRow>,
    /// Plain counters.
    pub counters: Counters,
    /// Latency of all statements.
    pub latency: Histogram,
    /// How long statements waited for a server connection, of those that waited.
    pub queue_wait: Histogram,
    /// How long it took to connect and log in to servers.
    pub connect_wait: Histogram,
    /// How long servers took, from a statement sent to its answer passed on.
    pub server_wait: Histogram,
    /// How long servers were held back because their clients did not read.
    pub client_wait: Histogram,
    /// How long the rounds of workers' loops took.
    pub batch: Histogram,
    /// Errors that servers answered with; not in JSON, as their texts may hold values.
    #[serde(skip)]
    pub errors: Vec<ErrorRow>,
    /// Kinds of statement that were seen, by name.
    pub commands: Vec<CommandRow>,
    /// Server entries, by hostgroup and address.
    pub servers: Vec<ServerRow>,
    /// TCP listeners, by address.
    pub tcp: Vec<TcpListenerRow>,
    /// Sessions pinned now, by reason.
    pub pins: BTreeMap<String, u64>,
    /// Sessions pinned now, each once.
    pub pinned: u64,
    /// Prepared statements that clients have now.
    pub client_stmts: u64,
    /// Prepared statements on server connections now.
    pub server_stmts: u64,
    /// Different texts that are prepared now; not in JSON.
    #[serde(skip)]
    pub texts: StmtTexts,
    /// Statements waiting for a connection now, by hostgroup.
    pub waiting: BTreeMap<u32, u64>,
    /// Those of them that are held, by hostgroup.
    pub held: BTreeMap<u32, u64>,
    /// Clients that are encrypted now.
    pub clients_encrypted: u64,
    /// Server connections that are encrypted now.
    pub server_connections_encrypted: u64,
    /// Clients connected now that have not logged in.
    pub clients_half_open: u64,
    /// Statements that matched each rule, by rule id; those with any.
    pub rule_hits: BTreeMap<u32, u64>,
    /// Statements for which a rule's pattern could not be decided, by rule id; those with any.
    pub rule_undecided: BTreeMap<u32, u64>,
    /// What the result cache did for each rule that makes statements cacheable, by rule id; 0 is
    /// for hints.
    pub cache: BTreeMap<u32, CacheSums>,
    /// How many stored results were not given any more because a table had changed, by table.
    pub cache_tables: BTreeMap<String, u64>,
    /// What each limit has done, by its place in the configuration.
    pub limits: BTreeMap<u32, LimitSums>,
    /// What tenants have used and do, by name; empty for all that are not told apart. None without
    /// tenants.
    pub tenants: BTreeMap<String, TenantSums>,
    /// Copies of statements that run now.
    pub mirrors_running: u64,
    /// Those that wait.
    pub mirrors_waiting: u64,
    /// What came of comparing answers with their copies', by digest.
    pub mirrors: Vec<MirrorRow>,
    /// Rows of the digest table that were asked for, by total time.
    pub digests: Vec<DigestRow>,
    /// The sums of rows that had to leave the digest table.
    pub digests_other: DigestSums,
    /// How many rows had to leave.
    pub digests_evicted: u64,
}

/// What is true of the process as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Trunkline's version.
    pub version: String,
    /// The process's id.
    pub process_id: u32,
    /// When it started, in seconds of Unix time.
    pub started_unix_sec: u64,
    /// When this report was made, in seconds of Unix time.
    pub now_unix_sec: u64,
    /// Workers that there are, whether they answered or not.
    pub workers: u32,
    /// Addresses on which clients are accepted.
    pub listen: Vec<String>,
    /// The configuration in force.
    pub configuration: Configuration,
    /// When the certificate that clients are shown expires, in seconds of Unix time; 0 without
    /// one.
    pub certificate_not_after_unix_sec: u64,
    /// What the result cache holds.
    pub cache: CacheFigures,
    /// What is known of names.
    pub catalog: CatalogFigures,
    /// What is in use of `memory_max`.
    pub memory: MemoryFigures,
    /// Who is on the admin port, and what was refused there.
    pub admin: AdminFigures,
    /// Lines of the query log and the audit log that could not be written.
    pub lost_lines: LostLines,
    /// Numbers of the past.
    pub history: HistoryFigures,
    /// Spans.
    pub trace: TraceFigures,
    /// Statements that have spans, as examples of how long statements take.
    pub exemplars: Vec<Exemplar>,
    /// The control socket, and who gives orders there.
    pub control: ControlFigures,
    /// How many connections ask over HTTP, and what was refused there.
    pub http: HttpFigures,
    /// What the kernel says of the process.
    pub kernel: KernelFigures,
    /// Clusters, and what the monitor has checked.
    pub monitor: MonitorFigures,
    /// Whether clients are not accepted for now.
    pub is_paused: bool,
}

/// The memory that bytes from outside take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryFigures {
    /// The most that they may take, bytes.
    pub max: u64,
    /// What is taken, with what workers keep ready, bytes.
    pub total: u64,
    /// What is in use, by what for, bytes.
    pub charged: BTreeMap<String, u64>,
    /// Clients that are not read because there is no memory for what they send.
    pub waiting: u64,
    /// How often that has happened.
    pub waits: u64,
    /// How often memory was refused, by why.
    pub refusals: BTreeMap<String, u64>,
    /// Large blocks that were freed and are yet to be given back to the system, bytes.
    pub freed: u64,
}

/// Who is on the admin port now, and what was refused there since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdminFigures {
    /// Administrators.
    pub admins: u64,
    /// Users of statistics.
    pub stats_users: u64,
    /// Clients that have not logged in.
    pub logging_in: u64,
    /// Bytes of prepared statements, of their long data, and of results that wait to be read.
    pub held_bytes: u64,
    /// Clients that were closed before they had logged in, because another one came.
    pub displaced: u64,
    /// Logins refused because of a wrong name or password.
    pub denied: u64,
    /// Logins refused because too many failed before.
    pub blocked: u64,
    /// Names and addresses whose failed logins were forgotten before their time, for want of room.
    pub forgotten: u64,
    /// Logins refused because as many clients as may be were there.
    pub full: u64,
    /// Clients closed because they were idle.
    pub idle: u64,
    /// Statements of users of statistics that took more than they may.
    pub stats_limited: u64,
    /// Statements of users of statistics that waited too long for another one of the same user.
    pub stats_busy: u64,
    /// Clients closed because too many TLS handshakes were begun from where they come.
    pub handshakes: u64,
    /// Memory of the tables, bytes, as it was when it was last looked at.
    pub tables_bytes: u64,
}

/// Lines of logs that were taken and could not be written since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LostLines {
    /// Of the query log.
    pub query: u64,
    /// Of the slow log.
    pub slow: u64,
    /// Of the audit log.
    pub audit: u64,
}

/// The history, and what came of it since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryFigures {
    /// Bytes of its files.
    pub bytes: u64,
    /// Frames of ten seconds that were written.
    pub written: u64,
    /// Those that could not be.
    pub lost: u64,
}

/// Spans on their way to a collector, and what came of them since the start. All but the last
/// count statements, each of which has several spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceFigures {
    /// Statements whose spans wait for the collector, or are being sent.
    pub waiting: u64,
    /// Those that the collector has taken.
    pub delivered: u64,
    /// Those that left as others came and there was no room.
    pub dropped_queue: u64,
    /// Those that the collector refused for good.
    pub dropped_refused: u64,
    /// Those that it did not take for a minute.
    pub dropped_undelivered: u64,
    /// Those that were left when the process ended, or spans were switched off.
    pub dropped_stopped: u64,
    /// Attempts to send something that failed.
    pub failures: u64,
    /// Times that the metrics were taken.
    pub metrics_delivered: u64,
    /// Spans that the collector left out of what it took.
    pub spans_rejected: u64,
}

/// A statement that has spans, as an example of how long statements take.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exemplar {
    /// The trace, 32 hex digits.
    pub trace: String,
    /// The statement's span there, 16 hex digits.
    pub span: String,
    /// How long it took, µs.
    pub took_us: u64,
    /// When it ended, ms of Unix time.
    pub ended_unix_ms: u64,
}

/// The control socket, and what came of orders there since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControlFigures {
    /// Its path; empty where there is none.
    pub socket: String,
    /// Whether the configuration is in a database, not in a file.
    pub is_database: bool,
    /// Orders taken.
    pub orders: u64,
    /// Orders refused: from other accounts, for other processes, or unreadable.
    pub refused: u64,
}

/// Connections for HTTP now, and what was refused there since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpFigures {
    /// Connections.
    pub connections: u64,
    /// Idle or slow connections that were closed because another one came.
    pub displaced: u64,
    /// Requests refused because too many were being answered.
    pub busy: u64,
    /// Requests refused because of their `Host`, `Origin` or `Content-Type`.
    pub foreign: u64,
    /// Requests refused for want of a token.
    pub denied: u64,
    /// Requests refused because too many came with a wrong token before.
    pub blocked: u64,
}

// The form in which a report is written; the catalog's own figures may change without it.
/// What is known of names of tables and views, and what it took to find out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogFigures {
    /// Names, some of which may have expired.
    pub entries: u64,
    /// Names that left because of the limit before their time was over.
    pub evicted: u64,
    /// Names asked for.
    pub asked: u64,
    /// Names not asked for because too many were being asked for.
    pub refused: u64,
    /// Names that servers said nothing of.
    pub untold: u64,
    /// Times that names were defined through the proxy.
    pub definitions: u64,
    /// Rounds of dictionary queries.
    pub rounds: u64,
    /// Dictionary queries.
    pub queries: u64,
    /// Rounds that failed.
    pub errors: u64,
}

/// What the result cache holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheFigures {
    /// Results, some of which may have expired.
    pub entries: u64,
    /// Bytes that they take, keys and records included.
    pub bytes: u64,
    /// The most that they may take.
    pub bytes_max: u64,
    /// Results that left because of the limit, or had expired.
    pub purged: u64,
    /// 1 while the shared cache (Redis) is asked.
    pub shared_up: u64,
    /// Results that it was asked for.
    pub shared_asked: u64,
    /// Results that it had.
    pub shared_hits: u64,
    /// Results sent to it.
    pub shared_stored: u64,
    /// Questions and results for it that found no room on the way.
    pub shared_dropped: u64,
    /// How often it did not answer, and was left alone for a while.
    pub shared_failures: u64,
}

/// The configuration in force, in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// Where it was read from.
    pub source: String,
    /// Its version: 1 at the start, one more with each change.
    pub version: u64,
    /// When it came into force, in seconds of Unix time.
    pub applied_unix_sec: u64,
    /// Users in it.
    pub users: u64,
    /// Accounts that were read from servers' grant tables.
    pub server_users: u64,
    /// Active rules in it.
    pub rules: u64,
    /// Its `max_connections`.
    pub clients_max: u64,
    /// Its `wait_timeout`, ms.
    pub wait_timeout_ms: u64,
    /// Why the last attempt to change it failed, if it did.
    pub last_error: Option<String>,
}

/// One worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Its number, from 0.
    pub worker: u32,
    /// Clients connected now.
    pub clients: u64,
    /// Statements since the start.
    pub statements: u64,
    /// Rows in its digest table.
    pub digest_rows: u64,
}

/// What the result cache did for one rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheSums {
    /// Statements answered from it.
    pub hits: u64,
    /// Statements that asked a server.
    pub misses: u64,
    /// Statements that waited for an equal one's answer first.
    pub waits: u64,
    /// Results stored.
    pub stored: u64,
    /// Bytes of those.
    pub stored_bytes: u64,
    /// Bytes sent from it.
    pub sent_bytes: u64,
    /// How old what was sent was, in sum, µs.
    pub age_us: u64,
    /// Results that were not given any more because a table had changed.
    pub changed: u64,
    /// Statements that got no stored result because it was not known whether a table had changed.
    pub late: u64,
}

impl CacheSums {
    fn merge(&mut self, other: &Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.waits += other.waits;
        self.stored += other.stored;
        self.stored_bytes += other.stored_bytes;
        self.sent_bytes += other.sent_bytes;
        self.age_us = self.age_us.saturating_add(other.age_us);
        self.changed += other.changed;
        self.late += other.late;
    }
}

/// What a limit has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitSums {
    /// Statements that went on at once.
    pub passed: u64,
    /// Statements that had to wait.
    pub delayed: u64,
    /// Statements that it refused.
    pub refused: u64,
}

impl LimitSums {
    fn merge(&mut self, other: &Self) {
        self.passed += other.passed;
        self.delayed += other.delayed;
        self.refused += other.refused;
    }
}

/// What a tenant has used, and what it does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TenantSums {
    /// Statements that servers answered.
    pub statements: u64,
    /// What servers took for them, µs.
    pub server_time_us: u64,
    /// Statements that waited for a server connection, and got one.
    pub queued: u64,
    /// How long they waited, µs.
    pub queue_time_us: u64,
    /// Statements that were refused as they could not begin in time.
    pub late: u64,
    /// Statements that run now.
    pub running: u64,
    /// Statements that wait now.
    pub waiting: u64,
}

impl TenantSums {
    fn merge(&mut self, other: &Self) {
        self.statements += other.statements;
        self.server_time_us += other.server_time_us;
        self.queued += other.queued;
        self.queue_time_us += other.queue_time_us;
        self.late += other.late;
        self.running += other.running;
        self.waiting += other.waiting;
    }
}

/// One kind of statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRow {
    /// ProxySQL's name of the kind.
    pub command: String,
    /// Statements.
    pub count: u64,
    /// Sum of their latency, µs.
    pub time_us: u64,
    /// Statements by latency, each in one of the buckets of [`command::BUCKET_COLUMNS`].
    pub buckets: [u64; command::BUCKETS],
    /// Their latency.
    #[serde(skip)]
    pub latency: LatencySketch,
    /// The longest of them, µs.
    #[serde(skip)]
    pub max_us: u64,
}

/// One server entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRow {
    /// Its hostgroup.
    pub hostgroup: u32,
    /// Its address as the configuration writes it.
    pub address: String,
    /// Whether it takes statements.
    #[serde(with = "StateName")]
    pub state: ServerState,
    /// The configured cap on connections over all workers.
    pub connections_max: u64,
    /// Connections now.
    #[serde(flatten)]
    pub connections: Connections,
    /// Plain counters.
    #[serde(flatten)]
    pub counters: ServerCounters,
    /// Latency of its statements.
    pub latency: Histogram,
}

/// Connections of one server now, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Being opened.
    pub connecting: u64,
    /// Held by nobody.
    pub idle: u64,
    /// Held by one session.
    pub leased: u64,
    /// Used by several sessions at once.
    pub shared: u64,
    /// Being brought back to a known state.
    pub resetting: u64,
}

impl Connections {
    /// Every state's name with its number.
    pub fn by_state(&self) -> [(&'static str, u64); 5] {
        [
            ("connecting", self.connecting),
            ("idle", self.idle),
            ("leased", self.leased),
            ("shared", self.shared),
            ("resetting", self.resetting),
        ]
    }

    fn merge(&mut self, other: &Self) {
        self.connecting += other.connecting;
        self.idle += other.idle;
        self.leased += other.leased;
        self.shared += other.shared;
        self.resetting += other.resetting;
    }
}

/// The names that ProxySQL gives to a server's states.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ServerState", rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum StateName {
    Online,
    Shunned,
    OfflineSoft,
    OfflineHard,
    #[serde(rename = "SHUNNED_REPLICATION_LAG")]
    Lagging,
    Standby,
}

/// The name that ProxySQL gives to a server's state.
pub fn state_name(state: ServerState) -> &'static str {
    match state {
        ServerState::Online => "ONLINE",
        ServerState::Shunned => "SHUNNED",
        ServerState::OfflineSoft => "OFFLINE_SOFT",
        ServerState::OfflineHard => "OFFLINE_HARD",
        ServerState::Lagging => "SHUNNED_REPLICATION_LAG",
        ServerState::Standby => "STANDBY",
    }
}

/// Every state a server can be in.
pub const STATES: [ServerState; 6] = [
    ServerState::Online,
    ServerState::Shunned,
    ServerState::OfflineSoft,
    ServerState::OfflineHard,
    ServerState::Lagging,
    ServerState::Standby,
];

impl ServerRow {
    pub(crate) fn new(gauges: ServerGauges, stats: ServerStats) -> Self {
        Self {
            hostgroup: gauges.hostgroup,
            address: gauges.address,
            state: gauges.state,
            connections_max: gauges.connections_max,
            connections: Connections {
                connecting: gauges.connecting,
                idle: gauges.idle,
                leased: gauges.leased,
                shared: gauges.shared,
                resetting: gauges.resetting,
            },
            counters: stats.counters,
            latency: stats.latency,
        }
    }

    fn merge(&mut self, other: &Self) {
        // Workers answer at different moments; of two states the worse one is the news.
        if (other.state as u8) > (self.state as u8) {
            self.state = other.state;
        }
        self.connections_max = self.connections_max.max(other.connections_max);
        self.connections.merge(&other.connections);
        self.counters.merge(&other.counters);
        self.latency.merge(&other.latency);
    }
}

impl CommandRow {
    fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.time_us = self.time_us.saturating_add(other.time_us);
        for (count, more) in self.buckets.iter_mut().zip(other.buckets) {
            *count = count.saturating_add(more);
        }
        self.latency.merge(&other.latency);
        self.max_us = self.max_us.max(other.max_us);
    }
}

impl Report {
    /// The sum of the workers' reports. Which worker answered first makes no difference.
    // long: one line for each part of a report.
    pub fn merge(reports: Vec<Self>) -> Self {
        let mut merged = Self::default();
        let mut commands = BTreeMap::new();
        let mut servers = BTreeMap::new();
        let mut digests = BTreeMap::new();
        let mut tcp = BTreeMap::new();
        let mut mirrors = BTreeMap::new();
        let mut errors = Vec::new();
        for report in reports {
            if merged.process == Process::default() {
                merged.process = report.process;
            }
            merged.workers.extend(report.workers);
            merged.counters.merge(&report.counters);
            merged.latency.merge(&report.latency);
            merged.queue_wait.merge(&report.queue_wait);
            merged.connect_wait.merge(&report.connect_wait);
            merged.server_wait.merge(&report.server_wait);
            merged.client_wait.merge(&report.client_wait);
            merged.batch.merge(&report.batch);
            errors.extend(report.errors);
            merged.clients_encrypted += report.clients_encrypted;
            merged.server_connections_encrypted += report.server_connections_encrypted;
            merge_sums(&mut merged.pins, report.pins);
            merged.pinned += report.pinned;
            merged.client_stmts += report.client_stmts;
            merged.server_stmts += report.server_stmts;
            merged.texts.merge(report.texts);
            merge_sums(&mut merged.waiting, report.waiting);
            merge_sums(&mut merged.held, report.held);
            merged.clients_half_open += report.clients_half_open;
            merge_sums(&mut merged.rule_hits, report.rule_hits);
            merge_sums(&mut merged.rule_undecided, report.rule_undecided);
            for (rule, sums) in report.cache {
                merged.cache.entry(rule).or_default().merge(&sums);
            }
            for (table, count) in report.cache_tables {
                *merged.cache_tables.entry(table).or_default() += count;
            }
            for (place, sums) in report.limits {
                merged.limits.entry(place).or_default().merge(&sums);
            }
            for (name, sums) in report.tenants {
                merged.tenants.entry(name).or_default().merge(&sums);
            }
            merged.mirrors_running += report.mirrors_running;
            merged.mirrors_waiting += report.mirrors_waiting;
            for row in report.mirrors {
                let key = (row.digest, row.hostgroup, row.mirror_hostgroup);
                merge_row(&mut mirrors, key, row, |row, more| row.sums.merge(&more.sums));
            }
            merged.digests_other.merge(&report.digests_other);
            merged.digests_evicted += report.digests_evicted;
            for row in report.commands {
                merge_row(&mut commands, row.command.clone(), row, CommandRow::merge);
            }
            for row in report.servers {
                let key = (row.hostgroup, row.address.clone());
                merge_row(&mut servers, key, row, ServerRow::merge);
            }
            for row in report.tcp {
                merge_row(&mut tcp, row.listener.clone(), row, TcpListenerRow::merge);
            }
            for row in report.digests {
                let names = (row.username.clone(), row.schemaname.clone());
                let key = (row.digest, row.hostgroup, names);
                merge_row(&mut digests, key, row, |row, more| row.sums.merge(&more.sums));
            }
        }
        merged.errors = ErrorRow::merge_all(errors);
        merged.commands = commands.into_values().collect();
        merged.servers = servers.into_values().collect();
        merged.mirrors = mirrors.into_values().collect();
        merged.digests = digests.into_values().collect();
        merged.tcp = tcp.into_values().collect();
        merged.sort();
        merged
    }

    /// Brings the lists into their order.
    pub(crate) fn sort(&mut self) {
        self.workers.sort_by_key(|row| row.worker);
        self.commands.sort_by(|a, b| a.command.cmp(&b.command));
        let key = |row: &ServerRow| (row.hostgroup, row.address.clone());
        self.servers.sort_by_cached_key(key);
        self.sort_digests(DigestOrder::SumTime);
    }

    /// Orders the rows of the digest table.
    pub fn sort_digests(&mut self, order: DigestOrder) {
        self.digests.sort_by(|a, b| order.compare(a, b));
    }

    /// Clients connected now.
    pub fn clients_connected(&self) -> u64 {
        self.workers.iter().map(|row| row.clients).sum()
    }

    /// Rows in the workers' digest tables; a statement that two workers saw counts twice.
    pub fn digest_rows(&self) -> u64 {
        self.workers.iter().map(|row| row.digest_rows).sum()
    }
}

fn merge_sums<K: Ord>(into: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
    for (key, more) in from {
        let sum = into.entry(key).or_default();
        *sum = sum.saturating_add(more);
    }
}

fn merge_row<K: Ord, R>(rows: &mut BTreeMap<K, R>, key: K, row: R, merge: fn(&mut R, &R)) {
    match rows.entry(key) {
        btree_map::Entry::Vacant(place) => {
            place.insert(row);
        }
        btree_map::Entry::Occupied(mut place) => merge(place.get_mut(), &row),
    }
}
