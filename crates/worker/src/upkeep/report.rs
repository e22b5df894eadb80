//! The numbers of one worker, for a reader that merges them.

use std::{collections::BTreeMap, sync::LazyLock};

use trunkline_config::Settings;
use trunkline_pool::{ConnState, TenantId};
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::StatementKind;
use trunkline_stats::{
    DigestQuery, DigestRow, Report, ServerGauges, TenantSums, WorkerGauges, WorkerStats,
};
use trunkline_topology::{Circuit, ServerHealth, ServerState};

use crate::{
    clients::{Clients, client::Session},
    rooms::{Commands, Core},
};

/// Names of the statement kinds, by index.
static COMMANDS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| StatementKind::ALL.into_iter().map(StatementKind::name).collect());

pub(crate) fn new_stats(settings: &Settings, seed: u64) -> WorkerStats {
    let mut stats = WorkerStats::new(trunkline_stats::Settings {
        digests_max: settings.query_digests_max,
        commands: &COMMANDS,
        hash_seed: seed,
    });
    stats.slow_above_us = settings.long_query_time.saturating_mul(1_000);
    stats
}

/// A server's state for people: one that is ejected gets nothing, as if it was shunned.
fn shown_state(health: &ServerHealth, now_ms: u64) -> ServerState {
    match health.state(now_ms) {
        ServerState::Online if health.ejection().circuit(now_ms) != Circuit::Closed => {
            ServerState::Shunned
        }
        state => state,
    }
}

impl Commands {
    /// See [`Worker::report`](crate::Worker::report).
    pub(crate) fn report(&self, digests: DigestQuery) -> Report {
        let now_ms = self.exchange.core.env.now.ms();
        let servers = self.exchange.core.servers.pool.slots().map(|(id, slot)| {
            let counts = slot.counts();
            ServerGauges {
                slot: id.index(),
                hostgroup: slot.server.key.hostgroup.0,
                address: slot.server.key.address.to_string(),
                state: shown_state(&slot.server.health, now_ms),
                connections_max: u64::from(slot.server.max_connections),
                connecting: u64::from(counts.of(ConnState::Connecting)),
                idle: u64::from(counts.of(ConnState::Idle)),
                leased: u64::from(counts.sum(ConnState::is_leased)),
                shared: u64::from(counts.of(ConnState::Shared)),
                resetting: u64::from(counts.sum(ConnState::is_resetting)),
            }
        });
        let waiting = self
            .exchange
            .core
            .servers
            .pool
            .waited_for()
            .map(|(id, waiters)| (id.0, waiters.len() as u64));
        let pool = &self.exchange.core.servers.pool;
        let held = pool.waited_for().filter(|(_, waiters)| waiters.hold().is_some());
        let held = held.map(|(id, waiters)| (id.0, waiters.len() as u64));
        let mut held: BTreeMap<_, _> = held.collect();
        for hostgroup in self.exchange.core.held_by_pauses() {
            *held.entry(hostgroup.0).or_default() += 1;
        }
        let (clients_encrypted, server_connections_encrypted) = self.exchange.core.encrypted();
        let rules = &self.exchange.core.env.snapshot.rules;
        let conns = self.exchange.core.servers.conns.values();
        let gauges = WorkerGauges {
            clients_encrypted,
            server_connections_encrypted,
            worker: u32::try_from(self.exchange.core.env.options.index).unwrap_or(u32::MAX),
            servers: servers.collect(),
            pins: self.exchange.core.clients.pins(),
            pinned: self.exchange.core.clients.pinned(),
            client_stmts: self.exchange.core.clients.stmts(),
            server_stmts: conns.map(|conn| conn.stmts.len() as u64).sum(),
            texts: self.exchange.texts(),
            waiting: waiting.collect::<BTreeMap<_, _>>(),
            held,
            limits: self.limit_sums(),
            tenants: self.exchange.core.tenant_sums(),
            mirrors_running: self.exchange.core.clients.copies.running as u64,
            mirrors_waiting: self.exchange.mirrors.waiting() as u64,
            clients_half_open: self.exchange.core.clients.logins.half_open.len() as u64,
            rule_hits: self.router.hits.by_rule(rules).collect(),
            rule_undecided: self.router.hits.undecided_by_rule(rules).collect(),
        };
        self.exchange.core.fx.stats.report(gauges, digests)
    }
}

impl Core {
    /// What tenants have used and do; none without tenants.
    fn tenant_sums(&self) -> BTreeMap<String, TenantSums> {
        if !self.servers.pool.has_tenants() {
            return BTreeMap::new();
        }
        let counted = |(name, id, mut sums): (&str, TenantId, TenantSums)| {
            for accounts in self.servers.pool.all_accounts() {
                let (running, waiting) = accounts.counts(id);
                sums.running += u64::from(running);
                sums.waiting += u64::from(waiting);
            }
            (name.to_owned(), sums)
        };
        self.servers.sharing.tenants.rows().map(counted).collect()
    }

    /// See [`Worker::digests`](crate::Worker::digests).
    pub(crate) fn digests(&self, from: usize, rows_max: usize) -> Vec<DigestRow> {
        self.fx.stats.digests(from, rows_max)
    }

    /// See [`Worker::counters_mut`](crate::Worker::counters_mut).
    pub(crate) fn counters_mut(&mut self) -> &mut trunkline_stats::Counters {
        &mut self.fx.stats.counters
    }
}

impl Clients {
    /// How many sessions are pinned, for whatever reason.
    fn pinned(&self) -> u64 {
        let sessions = self.logged_in().map(|client| &*client.session);
        let is_pinned =
            |session: &&Session| session.leases.iter().any(|lease| !lease.pins.is_empty());
        sessions.filter(is_pinned).count() as u64
    }

    /// Prepared statements that clients have.
    fn stmts(&self) -> u64 {
        let sessions = self.logged_in().map(|client| &*client.session);
        sessions.map(|session| session.prepared.len() as u64).sum()
    }

    /// How many sessions are pinned for each reason.
    fn pins(&self) -> std::collections::BTreeMap<String, u64> {
        let mut pins = std::collections::BTreeMap::new();
        let sessions = self.logged_in().map(|client| &*client.session);
        for lease in sessions.flat_map(|session| session.leases.iter()) {
            for reason in PinReason::ALL.into_iter().filter(|reason| lease.pins.has(*reason)) {
                *pins.entry(reason.name().to_owned()).or_default() += 1;
            }
        }
        pins
    }
}
