//! What one worker writes.

use std::collections::BTreeMap;

use trunkline_topology::{RefusalCause, ServerState};

use crate::{
    command::CommandSums,
    counters::{Counters, ServerCounters},
    digest::{DigestQuery, DigestRow, DigestTable},
    errors::{ErrorSample, ErrorTable},
    histogram::{Bucket, Histogram},
    mirror::{MirrorSample, MirrorTable},
    report::{CacheSums, CommandRow, LimitSums, Report, ServerRow, TenantSums, WorkerRow},
    texts::StmtTexts,
};

/// Servers that one worker can tell apart; the numbers of those beyond go to one common place.
pub const SERVERS_MAX: usize = 16_384;

/// What a worker's statistics are made with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// The most rows of the digest table; 0 keeps none.
    pub digests_max: usize,
    /// The names of the kinds of statement; [`StatementSample::kind`] counts from 0 in it.
    pub commands: &'static [&'static str],
    /// Any number that outsiders do not know; it keeps them from preparing digests that collide.
    pub hash_seed: u64,
}

/// One finished statement.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatementSample<'a> {
    /// Hash of the digest text; a statement without one gets no row in the digest table.
    pub digest: Option<u64>,
    /// The digest text.
    pub digest_text: &'a [u8],
    /// The client's user.
    pub username: &'a str,
    /// The client's schema.
    pub schema: &'a [u8],
    /// The hostgroup that served it, or would have; [`HOSTGROUP_CACHE`](crate::HOSTGROUP_CACHE)
    /// when it was answered from the result cache.
    pub hostgroup: u32,
    /// Index into [`Settings::commands`]; one beyond the end counts as the last.
    pub kind: usize,
    /// The slot of the server that served it; `None` when the proxy answered or refused.
    pub server: Option<usize>,
    /// From the statement's last byte received to its answer's last byte passed on, µs.
    pub latency_us: u64,
    /// The part of it before it went to a server, µs; 0 when it did not wait.
    pub queue_us: u64,
    /// Rows of its result sets.
    pub rows_sent: u64,
    /// Rows that it changed.
    pub rows_affected: u64,
    /// Bytes received from the client and sent to the server.
    pub bytes_in: u64,
    /// Bytes received from the server and sent to the client.
    pub bytes_out: u64,
    /// The code of the error packet that ended it.
    pub error: Option<u16>,
    /// Now, in seconds of Unix time.
    pub now_unix_sec: u64,
}

impl StatementSample<'_> {
    /// How long its server took, with the way there and back, µs.
    fn server_us(&self) -> u64 {
        self.latency_us.saturating_sub(self.queue_us)
    }
}

/// The numbers of one server entry on one worker.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerStats {
    pub(crate) counters: ServerCounters,
    pub(crate) latency: Histogram,
}

/// Tables whose changes are counted by themselves.
const CACHE_TABLES_MAX: usize = 1_000;

/// All numbers of one worker.
#[derive(Debug)]
pub struct WorkerStats {
    /// Plain counters. [`WorkerStats::statement`] adds to `statements`, `statement_errors`,
    /// `rows_sent`, `rows_affected` and the bytes of clients; all others are the caller's.
    pub counters: Counters,
    /// Statements that take longer than this count as slow, µs.
    pub slow_above_us: u64,
    commands: Vec<CommandSums>,
    command_names: &'static [&'static str],
    latency: Histogram,
    queue_wait: Histogram,
    connect_wait: Histogram,
    server_wait: Histogram,
    client_wait: Histogram,
    batch: Histogram,
    errors: ErrorTable,
    servers: Vec<ServerStats>,
    digests: DigestTable,
    cache: BTreeMap<u32, CacheSums>,
    cache_tables: BTreeMap<String, u64>,
    mirrors: MirrorTable,
}

impl WorkerStats {
    /// Statistics with nothing counted yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            counters: Counters::default(),
            slow_above_us: u64::MAX,
            commands: vec![CommandSums::default(); settings.commands.len()],
            command_names: settings.commands,
            latency: Histogram::default(),
            queue_wait: Histogram::default(),
            connect_wait: Histogram::default(),
            server_wait: Histogram::default(),
            client_wait: Histogram::default(),
            batch: Histogram::default(),
            errors: ErrorTable::default(),
            servers: Vec::new(),
            digests: DigestTable::new(settings.digests_max, settings.hash_seed),
            cache: BTreeMap::new(),
            cache_tables: BTreeMap::new(),
            mirrors: MirrorTable::default(),
        }
    }

    /// Counts one finished statement: in the worker's counters, its kind, the digest table, and
    /// the statements, errors and latency of its server. The server's bytes are the caller's to
    /// count, since replies that nobody waits for have bytes too. Allocates only for a digest or
    /// a server not seen before.
    pub fn statement(&mut self, sample: &StatementSample<'_>) {
        debug_assert!(sample.queue_us <= sample.latency_us);
        debug_assert!(self.commands.is_empty() || sample.kind < self.commands.len());
        let failed = u64::from(sample.error.is_some());
        let counters = &mut self.counters;
        counters.statements += 1;
        counters.statement_errors += failed;
        counters.statements_slow += u64::from(sample.latency_us > self.slow_above_us);
        counters.rows_sent = counters.rows_sent.saturating_add(sample.rows_sent);
        counters.rows_affected = counters.rows_affected.saturating_add(sample.rows_affected);
        counters.client_bytes_received += sample.bytes_in;
        counters.client_bytes_sent += sample.bytes_out;
        // Most statements wait for nothing: their latency and their server's are the same.
        let bucket = Bucket::of(sample.latency_us);
        let mut server_bucket = bucket;
        self.latency.record_in(bucket, sample.latency_us);
        if sample.queue_us > 0 {
            self.queue_wait.record(sample.queue_us);
            server_bucket = Bucket::of(sample.server_us());
        }
        let kind = sample.kind.min(self.commands.len().saturating_sub(1));
        if let Some(command) = self.commands.get_mut(kind) {
            command.record(sample.latency_us);
        }
        if let Some(slot) = sample.server {
            let server = self.server_stats(slot);
            server.counters.statements += 1;
            server.counters.errors += failed;
            server.latency.record_in(bucket, sample.latency_us);
            self.server_wait.record_in(server_bucket, sample.server_us());
        }
        if let Some(digest) = sample.digest {
            self.digests.record(digest, sample);
        }
    }

    /// Counts an answer of a server that is an error.
    pub fn server_error(&mut self, sample: &ErrorSample<'_>) {
        self.errors.record(sample);
    }

    /// Counts a login to a server that took so long, µs.
    pub fn connected(&mut self, us: u64) {
        self.connect_wait.record(us);
    }

    /// Counts a time that a server was held back because its client did not read, µs.
    pub fn held_back(&mut self, us: u64) {
        self.client_wait.record(us);
    }

    /// Counts a round of the worker's loop, µs.
    #[inline]
    pub fn batch_took(&mut self, us: u64) {
        self.batch.record(us);
    }

    /// Counts a statement and its copy, whose answers were compared.
    pub fn mirrored(&mut self, sample: &MirrorSample<'_>) {
        self.mirrors.record(sample);
    }

    /// What the result cache does for a rule; 0 is for hints. A row is made when there is none.
    pub fn cache_mut(&mut self, rule: u32) -> &mut CacheSums {
        self.cache.entry(rule).or_default()
    }

    /// A stored result was not given: a table has changed, or any may have (`None`).
    pub fn cache_changed(&mut self, rule: u32, table: Option<&str>) {
        self.cache_mut(rule).changed += 1;
        let table = table.unwrap_or_default();
        let has_room = self.cache_tables.len() < CACHE_TABLES_MAX;
        match self.cache_tables.get_mut(table) {
            Some(count) => *count += 1,
            None if has_room => _ = self.cache_tables.insert(table.to_owned(), 1),
            None => {}
        }
    }

    /// Counts a statement that was refused, under its cause.
    pub fn refused(&mut self, cause: RefusalCause) {
        self.counters.statement_refused(cause);
    }

    /// The counters of the server in `slot`; a slot not used yet begins at 0.
    /// [`WorkerStats::statement`] adds to `statements` and `errors`; all others are the caller's.
    #[inline]
    pub fn server_mut(&mut self, slot: usize) -> &mut ServerCounters {
        &mut self.server_stats(slot).counters
    }

    #[inline]
    fn server_stats(&mut self, slot: usize) -> &mut ServerStats {
        debug_assert!(slot < SERVERS_MAX, "server slot {slot}");
        let slot = slot.min(SERVERS_MAX);
        if slot >= self.servers.len() {
            self.add_servers(slot);
        }
        #[expect(clippy::indexing_slicing, reason = "the line above made the slot")]
        &mut self.servers[slot]
    }

    #[cold]
    fn add_servers(&mut self, slot: usize) {
        self.servers.resize_with(slot + 1, ServerStats::default);
    }

    /// Forgets the numbers of a slot that is given to another server.
    pub fn reset_server(&mut self, slot: usize) {
        if let Some(server) = self.servers.get_mut(slot) {
            *server = ServerStats::default();
        }
    }

    /// Copies of at most `rows_max` rows of the digest table from this place on. A row that leaves
    /// meanwhile may be missed, and one that comes may be there twice.
    pub fn digests(&self, from: usize, rows_max: usize) -> Vec<DigestRow> {
        self.digests.some_rows(from, rows_max)
    }

    /// A copy for a reader, with what the worker says of the present. The reader fills in
    /// [`Report::process`].
    pub fn report(&self, gauges: WorkerGauges, digests: DigestQuery) -> Report {
        let server = |gauges: ServerGauges| {
            let stats = self.servers.get(gauges.slot).cloned().unwrap_or_default();
            ServerRow::new(gauges, stats)
        };
        let mut report = Report {
            workers: vec![WorkerRow {
                worker: gauges.worker,
                clients: self.counters.clients_connected(),
                statements: self.counters.statements,
                digest_rows: self.digests.len() as u64,
            }],
            counters: self.counters,
            latency: self.latency.clone(),
            queue_wait: self.queue_wait.clone(),
            connect_wait: self.connect_wait.clone(),
            server_wait: self.server_wait.clone(),
            client_wait: self.client_wait.clone(),
            batch: self.batch.clone(),
            errors: self.errors.rows(),
            commands: self.command_rows(),
            servers: gauges.servers.into_iter().map(server).collect(),
            pins: gauges.pins,
            pinned: gauges.pinned,
            client_stmts: gauges.client_stmts,
            server_stmts: gauges.server_stmts,
            texts: gauges.texts,
            waiting: gauges.waiting,
            held: gauges.held,
            clients_encrypted: gauges.clients_encrypted,
            server_connections_encrypted: gauges.server_connections_encrypted,
            clients_half_open: gauges.clients_half_open,
            rule_hits: gauges.rule_hits,
            rule_undecided: gauges.rule_undecided,
            cache: self.cache.clone(),
            cache_tables: self.cache_tables.clone(),
            limits: gauges.limits,
            tenants: gauges.tenants,
            mirrors_running: gauges.mirrors_running,
            mirrors_waiting: gauges.mirrors_waiting,
            mirrors: self.mirrors.rows(),
            digests: self.digests.rows(digests),
            digests_other: self.digests.other(),
            digests_evicted: self.digests.evicted(),
            ..Report::default()
        };
        report.sort();
        report
    }

    fn command_rows(&self) -> Vec<CommandRow> {
        let named = self.command_names.iter().zip(&self.commands);
        named
            .filter(|(_, sums)| sums.count > 0)
            .map(|(name, sums)| CommandRow {
                command: (*name).to_owned(),
                count: sums.count,
                time_us: sums.time_us,
                buckets: sums.buckets,
                latency: sums.latency,
                max_us: sums.max_us,
            })
            .collect()
    }
}

/// What a worker says of the present when it is asked for a report.
#[derive(Debug, Clone, Default)]
pub struct WorkerGauges {
    /// The worker's number, from 0.
    pub worker: u32,
    /// One entry for each server of the configuration.
    pub servers: Vec<ServerGauges>,
    /// Sessions pinned now, by reason.
    pub pins: BTreeMap<String, u64>,
    /// Sessions pinned now, for whatever reason.
    pub pinned: u64,
    /// Prepared statements that clients have.
    pub client_stmts: u64,
    /// Prepared statements on server connections.
    pub server_stmts: u64,
    /// Different texts that are prepared.
    pub texts: StmtTexts,
    /// Statements that wait for a connection now, by hostgroup.
    pub waiting: BTreeMap<u32, u64>,
    /// Those of them that are held, by hostgroup.
    pub held: BTreeMap<u32, u64>,
    /// Clients that are encrypted now.
    pub clients_encrypted: u64,
    /// Server connections that are encrypted now.
    pub server_connections_encrypted: u64,
    /// Clients that have not logged in.
    pub clients_half_open: u64,
    /// Statements that matched each rule, by rule id, since the worker began; those with any.
    pub rule_hits: BTreeMap<u32, u64>,
    /// Statements for which a rule's pattern could not be decided, likewise.
    pub rule_undecided: BTreeMap<u32, u64>,
    /// Copies of statements that run now.
    pub mirrors_running: u64,
    /// Those that wait.
    pub mirrors_waiting: u64,
    /// What each limit has done since it was configured, by its place in the configuration.
    pub limits: BTreeMap<u32, LimitSums>,
    /// What tenants have used and do, by name; none without tenants.
    pub tenants: BTreeMap<String, TenantSums>,
}

/// What a worker says of one server: the lengths of its lists of connections.
#[derive(Debug, Clone)]
pub struct ServerGauges {
    /// The slot under which the worker counts for this server.
    pub slot: usize,
    /// The hostgroup of the server entry.
    pub hostgroup: u32,
    /// The server's address as the configuration writes it.
    pub address: String,
    /// Whether the server takes statements.
    pub state: ServerState,
    /// The configured cap on connections over all workers.
    pub connections_max: u64,
    /// Connections being opened.
    pub connecting: u64,
    /// Connections that nobody holds.
    pub idle: u64,
    /// Connections that a session holds.
    pub leased: u64,
    /// Connections that several sessions use at once.
    pub shared: u64,
    /// Connections being brought back to a known state.
    pub resetting: u64,
}

#[cfg(test)]
mod tests;
