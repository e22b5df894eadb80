//! Who looks after the servers: takes those out that do not answer, by the states of server
//! entries as an operator's tool does, and those that lag too much, by the product's own decision
//! ([`LagWatch`]) on what the model's replication says. The oracle is told of lags by a count of
//! its own; that nothing begins on an entry that is out is for it (`routing`).

use std::collections::BTreeSet;

use trunkline_topology::{LagLimit, LagWatch, Replication, ServerState};

use super::*;
use crate::{
    oracle::facts::{Cause, CauseKind, Closed},
    plan::LAG_UNIT_US,
    server::Look,
};

/// What the monitor remembers.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Looks without an answer since the last one with one.
    misses: BTreeMap<HostId, u32>,
    /// Entries that it took out.
    taken: BTreeSet<(u32, HostId)>,
    /// What the product remembers of entries with a limit, by where they are counted.
    lags: Vec<(Arc<ServerHealth>, LagWatch)>,
    /// The oracle's: looks beyond the limit, one after the other.
    beyond: BTreeMap<(u32, HostId), u64>,
}

/// How long what the monitor did may show in errors, µs.
const SHOWS_US: Micros = 4_000_000;

impl World<'_> {
    pub(super) fn monitor_looks(&mut self) {
        let Some(spec) = self.plan.monitor else { return };
        let now = self.now();
        self.queue.put(now + spec.every_us, Event::Monitor);
        for place in 0..self.plan.cluster.hosts.len() {
            let host = HostId(place);
            let look = match self.apart.is_monitor_cut_off(host, now) {
                true => Look::Silent,
                false => self.cluster.look_at(host, now),
            };
            let misses = self.watch.misses.entry(host).or_default();
            *misses = if look == Look::Silent { *misses + 1 } else { 0 };
            let seen = match look {
                Look::Silent if *misses >= spec.misses_max => {
                    self.set_entries(host, true);
                    continue;
                }
                // Not yet: what it is stays as it was.
                Look::Silent => continue,
                Look::Primary => Replication::Independent,
                Look::Replica(Some(lag_us)) => Replication::Behind(lag_us / LAG_UNIT_US),
                Look::Replica(None) => Replication::Unknown,
            };
            self.set_entries(host, false);
            self.judge_lag(host, seen);
        }
    }

    /// Takes the host's entries out, or brings those back that were taken out.
    fn set_entries(&mut self, host: HostId, is_out: bool) {
        let plan = self.plan;
        let Some(place) = self.operator.place_in_force() else { return };
        let Some(config) = plan.configs.get(place) else { return };
        for entry in config.servers.iter().filter(|entry| entry.host == host) {
            let key = (entry.hostgroup, host);
            if is_out {
                if self.watch.taken.insert(key) {
                    self.count("taken_out");
                }
                self.set_entry(key.0, host, ServerState::OfflineSoft);
                self.is_out(host);
            } else if self.watch.taken.remove(&key) && !entry.is_drained {
                self.set_entry(key.0, host, ServerState::Online);
            }
        }
    }

    /// Decides on the entries of a host that says this, as the product does and as the oracle does.
    fn judge_lag(&mut self, host: HostId, seen: Replication) {
        let snapshot = self.operator.snapshot();
        let settings = &snapshot.settings;
        for server in snapshot.servers().filter(|it| plan::host_at(&it.key.address) == Some(host)) {
            let (health, max) = (&server.health, u64::from(server.max_replication_lag));
            if max == 0 {
                continue;
            }
            let is_its = |(of, _): &&mut (Arc<ServerHealth>, LagWatch)| Arc::ptr_eq(of, health);
            let before = self.watch.lags.iter_mut().find(is_its).map(|(_, watch)| watch.clone());
            let mut watch = before.unwrap_or_default();
            let limit = LagLimit {
                max_sec: max,
                unknown_sec: settings.monitor_slave_lag_when_null,
                looks: settings.monitor_replication_lag_count,
            };
            let is_out = watch.look(health.is_lagging(), seen, &limit);
            self.watch.lags.retain(|(of, _)| !Arc::ptr_eq(of, health));
            self.watch.lags.push((Arc::clone(health), watch));
            if health.set_lagging(is_out) && is_out {
                self.count("lags");
            }
            let lag = match seen {
                Replication::Independent => 0,
                Replication::Behind(lag) => lag,
                Replication::Unknown => settings.monitor_slave_lag_when_null,
            };
            self.note_lag(server.key.hostgroup.0, host, lag > max, limit.looks.into());
            if is_out {
                self.is_out(host);
            }
        }
        self.note_entries();
    }

    /// The oracle's own account: after so many looks beyond the limit an entry is out, until one
    /// within it.
    fn note_lag(&mut self, hostgroup: u32, host: HostId, is_beyond: bool, looks: u64) {
        let now = self.now();
        let key = (hostgroup, host);
        let beyond = self.watch.beyond.entry(key).or_default();
        *beyond = if is_beyond { *beyond + 1 } else { 0 };
        let is_out = *beyond >= looks;
        let lagging = &mut self.facts.lagging;
        let lasts = lagging
            .iter_mut()
            .find(|it| (it.hostgroup, it.host) == key && it.until_us == Micros::MAX);
        match (lasts, is_out && is_beyond) {
            (Some(closed), false) => closed.until_us = now,
            (None, true) => {
                lagging.push(Closed { hostgroup, host, from_us: now, until_us: Micros::MAX });
            }
            (Some(_), true) | (None, false) => {}
        }
    }

    /// Entries that a new configuration does not have any more are nobody's, and begin anew.
    pub(super) fn forget_lags(&mut self) {
        let now = self.now();
        let snapshot = self.operator.snapshot();
        let is_there = |hostgroup: u32, host: HostId| {
            let key = plan::key_of(hostgroup, host);
            snapshot.servers().any(|server| server.key == key)
        };
        self.watch.beyond.retain(|(hostgroup, host), _| is_there(*hostgroup, *host));
        for closed in &mut self.facts.lagging {
            if closed.until_us == Micros::MAX && !is_there(closed.hostgroup, closed.host) {
                closed.until_us = now;
            }
        }
    }

    /// Sets the state of a server entry of the configuration in force.
    pub(super) fn set_entry(&mut self, hostgroup: u32, host: HostId, state: ServerState) {
        let key = plan::key_of(hostgroup, host);
        let snapshot = self.operator.snapshot();
        for server in snapshot.servers().filter(|server| server.key == key) {
            server.health.set_state(state);
        }
        self.note_entries();
    }

    /// Errors may say that a server is out, for as long as nobody looks again.
    fn is_out(&mut self, host: HostId) {
        let (now, kind) = (self.now(), CauseKind::Offline);
        let until_us = now + SHOWS_US;
        let mut recent = self.facts.causes.iter_mut().rev().take(16);
        match recent.find(|it| (it.kind, it.host) == (kind, Some(host)) && it.until_us >= now) {
            Some(cause) => cause.until_us = cause.until_us.max(until_us),
            None => {
                let host = Some(host);
                self.facts.causes.push(Cause { from_us: now, until_us, kind, host });
            }
        }
    }

    /// The oracle is told which entries take new statements.
    pub(super) fn note_entries(&mut self) {
        let now = self.now();
        let mut entries: BTreeMap<(u32, HostId), bool> = BTreeMap::new();
        for (key, health) in &self.healths {
            let Some(host) = plan::host_at(&key.address) else { continue };
            let state = health.state(u64::MAX);
            let is_open = matches!(state, ServerState::Online | ServerState::Shunned);
            *entries.entry((key.hostgroup.0, host)).or_default() |= is_open;
        }
        for ((hostgroup, host), is_open) in entries {
            let closed = &mut self.facts.closed;
            let lasts = closed.iter_mut().find(|it| {
                (it.hostgroup, it.host) == (hostgroup, host) && it.until_us == Micros::MAX
            });
            match (lasts, is_open) {
                (Some(closed), true) => closed.until_us = now,
                (None, false) => {
                    let until_us = Micros::MAX;
                    closed.push(Closed { hostgroup, host, from_us: now, until_us });
                }
                (Some(_), false) | (None, true) => {}
            }
        }
    }
}
