//! Who looks after the servers: takes those out that do not answer or lag too much, and brings
//! them back. It does so by the states of server entries, as an operator's tool does; that
//! nothing begins on an entry that was taken out is for the oracle (`routing`).

use std::collections::BTreeSet;

use trunkline_topology::ServerState;

use super::*;
use crate::{
    oracle::facts::{Cause, CauseKind, Closed},
    server::Look,
};

/// What the monitor remembers.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Looks without an answer since the last one with one.
    misses: BTreeMap<HostId, u32>,
    /// Entries that it took out.
    taken: BTreeSet<(u32, HostId)>,
}

/// What the monitor makes of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    /// It takes no reads that the split sends there.
    Lags,
    /// It takes nothing.
    Silent,
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
            let verdict = match look {
                Look::Silent if *misses >= spec.misses_max => Verdict::Silent,
                // Not yet: what it is stays as it was.
                Look::Silent => continue,
                Look::Primary => Verdict::Good,
                Look::Replica(Some(lag_us)) if lag_us <= spec.lag_max_us => Verdict::Good,
                Look::Replica(_) => Verdict::Lags,
            };
            self.carry_out_verdict(host, verdict);
        }
    }

    /// Takes the host's entries out, or brings those back that were taken out.
    fn carry_out_verdict(&mut self, host: HostId, verdict: Verdict) {
        let plan = self.plan;
        let Some(place) = self.operator.place_in_force() else { return };
        let Some(config) = plan.configs.get(place) else { return };
        let is_writers = |group| config.users.iter().any(|user| user.hostgroup == group);
        for entry in config.servers.iter().filter(|entry| entry.host == host) {
            let key = (entry.hostgroup, host);
            let is_out = match verdict {
                Verdict::Good => false,
                Verdict::Lags => !is_writers(entry.hostgroup),
                Verdict::Silent => true,
            };
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
