//! What there is at one instant, for the limits that hold at every instant.

use trunkline_worker::Side;

use super::*;
use crate::oracle::{
    Instant,
    facts::{Cause, CauseKind},
    limits::{Figure, Limited, Pair},
};

/// Batches between two looks at a worker's lists, which cost more.
const LISTS_EVERY: u64 = 32;
/// What one read may bring beyond a limit on bytes that wait: what the driver reads at once, and
/// a packet that is kept whole.
const BYTES_SLACK: u64 = 3 * 64 * 1_024;
/// The setting `pipeline_depth_max`, where a configuration does not say it.
const PIPELINE_DEPTH_MAX: u64 = 64;
/// How long what was full may show in errors, µs.
const FULL_SHOWS_US: Micros = 1_000_000;

/// A number as the oracle has it.
fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl World<'_> {
    /// Looks at everything that has a limit, after a batch of `worker`.
    pub(super) fn look_at_figures(&mut self, worker: usize) {
        self.retire_configurations();
        let mut figures = Vec::new();
        let mut pairs = Vec::new();
        if self.look_at_servers(&mut figures, &mut pairs) {
            self.is_full(CauseKind::Full);
        }
        self.look_at_clients(worker, &mut figures, &mut pairs);
        if self.batches.is_multiple_of(LISTS_EVERY) {
            self.look_at_lists(worker, &mut figures);
        }
        for figure in &figures {
            if figure.now >= figure.max
                && let Some(kind) = cause_of(figure.what)
            {
                self.is_full(kind);
            }
        }
        let instant = Instant { at_us: self.now(), figures: &figures, pairs: &pairs };
        self.oracle.check_now(&instant);
    }

    /// The oldest version that a worker still serves by.
    fn oldest_version(&self) -> u64 {
        let running = self.drivers.iter().filter(|driver| !driver.is_stopped());
        running.map(Driver::version).min().unwrap_or(self.operator.snapshot().version)
    }

    /// Configurations that no worker has any more end.
    fn retire_configurations(&mut self) {
        let now = self.now();
        let retired = usize::try_from(self.oldest_version() - 1).unwrap_or_default();
        for setting in self.facts.settings.iter_mut().take(retired) {
            setting.until_us = setting.until_us.min(now);
        }
    }

    /// True when one is full, by any configuration that is in force.
    fn look_at_servers(&self, figures: &mut Vec<Figure>, pairs: &mut Vec<Pair>) -> bool {
        let mut is_full = false;
        let oldest = self.oldest_then;
        for (place, (key, health)) in self.healths.iter().enumerate() {
            let configs = self.operator.in_force(self.plan, oldest);
            let servers = configs.flat_map(|config| &config.servers);
            let same = servers.filter(|it| plan::key_of(it.hostgroup, it.host) == *key);
            let limits: Vec<_> = same.map(|server| u64::from(server.max_connections)).collect();
            let max = limits.iter().max().copied().unwrap_or(0);
            let what = Limited::ServerConnections(place);
            let open = wide(self.conns.values().filter(|counted| **counted == place).count());
            let counted = u64::from(health.connections());
            // Each worker may open one connection for an account beyond the cap, to carry a `KILL`;
            // also while more than the cap are there, as it was lowered.
            let carriers = self.drivers.iter().map(|driver| driver.worker().kill_carriers(key));
            let now = counted.saturating_sub(wide(carriers.sum()));
            figures.push(Figure { what, now, max });
            pairs.push(Pair { what, counted, there: open });
            let what = Limited::ServerStatements(place);
            let max = open * self.depth_max(oldest);
            figures.push(Figure { what, now: u64::from(health.in_flight()), max });
            is_full |= limits.iter().any(|limit| counted >= *limit);
        }
        is_full
    }

    /// The most statements that may be in flight on one connection.
    fn depth_max(&self, oldest: u64) -> u64 {
        let configs = self.operator.in_force(self.plan, oldest);
        let depths = configs.map(|config| match config.setting("pipeline_depth_max") {
            0 => PIPELINE_DEPTH_MAX,
            depth => depth,
        });
        depths.max().unwrap_or(PIPELINE_DEPTH_MAX)
    }

    fn look_at_clients(&mut self, worker: usize, figures: &mut Vec<Figure>, pairs: &mut Vec<Pair>) {
        let highest = |name| {
            let configs = self.operator.in_force(self.plan, self.oldest_then);
            configs.map(|config| config.setting(name)).max().unwrap_or(0)
        };
        let lowest = |name| {
            let configs = self.operator.in_force(self.plan, self.oldest_then);
            configs.map(|config| config.setting(name)).min().unwrap_or(0)
        };
        let now = u64::from(self.shared.clients());
        // A worker that has the new limit goes by that; who logged in during this batch may have
        // gone in it.
        let is_full = now.max(self.clients_wanted) >= lowest("max_connections");
        figures.push(Figure { what: Limited::Clients, now, max: highest("max_connections") });
        for (place, user) in self.user_names.iter().enumerate() {
            let configs = self.operator.in_force(self.plan, self.oldest_then);
            let users = configs.flat_map(|config| &config.users).filter(|it| it.name == *user);
            let max = users.map(|user| u64::from(user.max_connections)).max().unwrap_or(0);
            let now = u64::from(self.shared.user_connections(user));
            figures.push(Figure { what: Limited::UserSessions(place), now, max });
        }
        let max = highest("client_buffer_max") + BYTES_SLACK;
        if is_full {
            self.is_full(CauseKind::ClientsFull);
        }
        let Some(driver) = self.drivers.get_mut(worker) else { return };
        let mut clients = 0;
        let open: Vec<_> = driver.open().collect();
        for (side, link) in open {
            if let Side::Client(_) = side {
                clients += 1;
                let now = wide(driver.pending_len(side));
                let place = usize::try_from(link.0).unwrap_or_default();
                figures.push(Figure { what: Limited::ClientBytes(place), now, max });
            }
        }
        let counted = wide(driver.worker().clients());
        if !driver.is_stopped() {
            pairs.push(Pair { what: Limited::Clients, counted, there: clients });
        }
    }

    fn look_at_lists(&mut self, worker: usize, figures: &mut Vec<Figure>) {
        // What was in force since the last look: a queue may have grown by then.
        let oldest = self.oldest_then;
        let since = self.lists_seen.get_mut(worker).map(|seen| std::mem::replace(seen, oldest));
        let configs = self.operator.in_force(self.plan, since.unwrap_or(oldest));
        let max = configs.map(|config| config.setting("queue_max")).max().unwrap_or(0);
        let Some(driver) = self.drivers.get_mut(worker) else { return };
        for (hostgroup, waiting) in driver.report().waiting {
            figures.push(Figure { what: Limited::Queue(worker, hostgroup), now: waiting, max });
        }
    }

    /// Something is full now: errors may say so.
    pub(super) fn is_full(&mut self, kind: CauseKind) {
        let now = self.now();
        let until_us = now + FULL_SHOWS_US;
        let recent = self.facts.causes.iter_mut().rev().take(16);
        match recent.into_iter().find(|cause| cause.kind == kind && cause.until_us >= now) {
            Some(cause) => cause.until_us = until_us,
            None => self.facts.causes.push(Cause { from_us: now, until_us, kind, host: None }),
        }
    }
}

/// What errors say when this is at its limit.
fn cause_of(what: Limited) -> Option<CauseKind> {
    match what {
        Limited::ServerConnections(_) => Some(CauseKind::Full),
        Limited::Clients => Some(CauseKind::ClientsFull),
        Limited::UserSessions(_) => Some(CauseKind::UserFull),
        Limited::Queue(..) => Some(CauseKind::QueueFull),
        Limited::ServerStatements(_) | Limited::ClientBytes(_) | Limited::ServerBytes(_) => None,
    }
}
