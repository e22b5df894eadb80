//! Acts of operators and faults of the plan, and the causes of errors that follow from them.

use trunkline_topology::{HostgroupId, ServerState};

use super::*;
use crate::{
    oracle::facts::{Cause, CauseKind},
    plan::{Act, Fault},
    server::ServerFault,
    wire::Far,
};

/// How long errors may follow from what went wrong: a shun, connects that take their time, and
/// statements that waited meanwhile.
const AFTER_US: Micros = 4_000_000;

impl World<'_> {
    pub(super) fn act(&mut self, place: usize) {
        let plan = self.plan;
        let Some((_, act)) = plan.acts.get(place) else { return };
        let now = self.now();
        self.trace.note(now, || format!("operator: {act:?}"));
        self.count(act.name());
        match act {
            Act::Publish(config) => self.publish(*config),
            Act::SetState(hostgroup, host, state) => self.set_state(*hostgroup, *host, *state),
            Act::Report => {
                for worker in 0..self.drivers.len() {
                    self.queue.put(now, Event::Post(worker, Mail::Report));
                }
            }
            Act::Follow => {
                let snapshot = self.operator.snapshot();
                let servers = snapshot.servers();
                servers.for_each(|server| server.health.reached.set_fresh(now / 1_000));
            }
            Act::Pause(hostgroup, for_ms) => {
                self.cause(CauseKind::Paused, None, now + for_ms * 1_000);
                for worker in 0..self.drivers.len() {
                    let mail = Mail::Pause(HostgroupId(*hostgroup), *for_ms);
                    self.queue.put(now, Event::Post(worker, mail));
                }
            }
            Act::Flush => self.flush_answers(),
            Act::Forget => drop(self.shared.cache().flush()),
            Act::Stop(within_ms) => self.stop_all(*within_ms),
            Act::StopWorker(worker, within_ms) => {
                self.cause(CauseKind::Stopping, None, Micros::MAX / 2);
                self.queue.put(now, Event::Post(*worker, Mail::Stop(*within_ms)));
            }
        }
    }

    fn publish(&mut self, place: usize) {
        let now = self.now();
        let before = self.operator.snapshot();
        let Some(snapshot) = self.operator.publish(self.plan, place) else { return };
        let others = snapshot
            .has_new_servers(&before)
            .then(|| Arc::new(self.shared.catalog().begin_other_servers()));
        self.note_configuration();
        for worker in 0..self.drivers.len() {
            let at = now + self.rng.below(2_000);
            // A worker takes its mail in order.
            let Some(last) = self.snapshots_at.get_mut(worker) else { return };
            let at = at.max(*last);
            *last = at;
            let mail = WorkerMail::Snapshot(Arc::clone(&snapshot), others.clone()).into();
            self.queue.put(at, Event::Post(worker, mail));
        }
    }

    /// The configuration published last becomes known to the oracle.
    pub(super) fn note_configuration(&mut self) {
        let now = self.now();
        let snapshot = self.operator.snapshot();
        for server in snapshot.servers() {
            if !self.healths.iter().any(|(_, known)| Arc::ptr_eq(known, &server.health)) {
                self.healths.push((server.key.clone(), Arc::clone(&server.health)));
            }
        }
        let mut configs: Vec<_> = self.operator.in_force(self.plan, 1).collect();
        let Some(config) = configs.pop() else { return };
        self.facts.lacks_memory = self.plan.memory_max.is_some();
        self.facts.settings.push(config.facts(now));
        let until_us = Micros::MAX;
        let mut causes = Vec::new();
        for server in configs.last().map_or(&[][..], |before| before.servers.as_slice()) {
            let is_same = |it: &&crate::plan::ServerSpec| {
                (it.hostgroup, it.host) == (server.hostgroup, server.host)
            };
            let kept = config.servers.iter().find(is_same);
            if kept.is_none_or(|server| server.is_drained || server.weight == 0) {
                causes.push((CauseKind::Offline, Some(server.host)));
            }
        }
        for (kind, host) in causes {
            self.facts.causes.push(Cause { from_us: now, until_us, kind, host });
        }
        self.forget_lags();
        self.note_entries();
    }

    fn set_state(&mut self, hostgroup: u32, host: HostId, state: ServerState) {
        self.set_entry(hostgroup, host, state);
        if state != ServerState::Online {
            let until_us = self.later(|act| match act {
                Act::SetState(other, at, ServerState::Online) => (*other, *at) == (hostgroup, host),
                Act::SetState(..)
                | Act::Publish(_)
                | Act::Report
                | Act::Follow
                | Act::Pause(..)
                | Act::Flush
                | Act::Forget
                | Act::Stop(_)
                | Act::StopWorker(..) => false,
            });
            self.cause(CauseKind::Offline, Some(host), until_us);
            self.cause(CauseKind::Lost, Some(host), self.now());
        }
    }

    /// When an act of the plan comes for which `is_it` holds; the end of time if none does.
    fn later(&self, is_it: impl Fn(&Act) -> bool) -> Micros {
        let now = self.now();
        let acts = self.plan.acts.iter().filter(|(at, _)| *at >= now);
        acts.filter(|(_, act)| is_it(act)).map(|(at, _)| *at).next().unwrap_or(Micros::MAX / 2)
    }

    fn later_fault(&self, is_it: impl Fn(&ServerFault) -> bool) -> Micros {
        let now = self.now();
        let faults = self.plan.faults.iter().filter(|(at, _)| *at >= now);
        let mut times = faults.filter_map(|(at, fault)| match fault {
            Fault::Server(fault) if is_it(fault) => Some(*at),
            _ => None,
        });
        times.next().unwrap_or(Micros::MAX / 2)
    }

    pub(super) fn stop_all(&mut self, within_ms: u64) {
        let now = self.now();
        self.cause(CauseKind::Stopping, None, Micros::MAX / 2);
        self.told_to_stop.get_or_insert(now + within_ms * 1_000);
        for worker in 0..self.drivers.len() {
            self.queue.put(now, Event::Post(worker, Mail::Stop(within_ms)));
        }
    }

    /// Something is true from now until `until_us`, and shows for a while after.
    pub(super) fn cause(&mut self, kind: CauseKind, host: Option<HostId>, until_us: Micros) {
        let from_us = self.now();
        let until_us = until_us.saturating_add(AFTER_US);
        self.facts.causes.push(Cause { from_us, until_us, kind, host });
    }

    // long: one arm for each fault.
    pub(super) fn fault(&mut self, place: usize) {
        let plan = self.plan;
        let Some((_, fault)) = plan.faults.get(place) else { return };
        let now = self.now();
        self.trace.note(now, || format!("fault: {fault:?}"));
        self.count(fault.name());
        match *fault {
            Fault::Server(fault) => self.server_fault(fault),
            Fault::CutClient(client) => {
                self.disturb(client);
                if let Some(link) = self.link_of(client) {
                    self.wire.cut(link, now);
                }
            }
            Fault::HalfCloseClient(client) => {
                self.disturb(client);
                if let Some(link) = self.link_of(client) {
                    self.wire.finish(link, End::Far, now);
                }
            }
            Fault::StallClient(client, us) => {
                if let Some(link) = self.link_of(client) {
                    self.wire.stall(link, now + us);
                }
            }
            Fault::VanishClient(client, us) => {
                self.disturb(client);
                if let Some(link) = self.link_of(client) {
                    self.wire.stall(link, now + us);
                    self.queue.put(now + us, Event::Lapse(link));
                }
            }
            Fault::CutHost(host, nth) => self.cut_host(host, nth),
            Fault::HalfCloseHost(host, nth) => self.half_close_host(host, nth),
            Fault::StallHost(host, nth, us) => {
                self.cause(CauseKind::Slow, Some(host), now + us);
                self.cause(CauseKind::Unreachable, Some(host), now + us);
                if let Some(link) = self.nth_link(host, nth) {
                    self.wire.stall(link, now + us);
                }
            }
            Fault::Partition(host, us) => self.partition(host, us),
            Fault::PartitionAll(us) => {
                let hosts = self.plan.cluster.hosts.len();
                (0..hosts).for_each(|host| self.partition(HostId(host), us));
            }
            Fault::CutOffClients(part, parts, us) => self.cut_off_clients(part, parts, us),
            Fault::CutOffWorker(worker, host, us) => self.cut_off_worker(worker, host, us),
            Fault::CutOffMonitor(host, us) => self.cut_off_monitor(host, us),
            Fault::NoNeighbours(us) => self.no_neighbours(us),
            Fault::Pause(worker, us) => {
                self.cause(CauseKind::Slow, None, now + us);
                self.cause(CauseKind::Unreachable, None, now + us);
                if let Some(busy) = self.busy_until.get_mut(worker) {
                    *busy = now + us;
                }
            }
            Fault::ClientBabbles(client, ref bytes) => {
                self.disturb(client);
                if let Some(link) = self.link_of(client) {
                    self.wire.write_all(link, End::Far, bytes, now);
                }
            }
            Fault::HostBabbles(host, nth, ref bytes) => {
                if let Some(link) = self.nth_link(host, nth) {
                    self.wire.write_all(link, End::Far, bytes, now);
                }
            }
            Fault::Abandon(client) => self.abandon(client),
        }
    }

    /// A step of a client's session panics in the hands of the worker that has it.
    fn abandon(&mut self, client: usize) {
        let now = self.now();
        self.disturb(client);
        let Some(link) = self.link_of(client) else { return };
        let Some(worker) = self.holder(link) else { return };
        self.queue.put(now, Event::Post(worker, Mail::Abandon(link)));
    }

    /// A client's connection is spoilt from outside.
    fn disturb(&mut self, client: usize) {
        if let Some(link) = self.link_of(client) {
            self.disturbed.insert(link);
        }
    }

    fn link_of(&self, client: usize) -> Option<LinkId> {
        self.client_link.get(client).copied().flatten()
    }

    fn nth_link(&self, host: HostId, nth: usize) -> Option<LinkId> {
        let mut links = self.wire.links_of(Far::Host(host));
        links.retain(|link| self.conns.contains_key(link));
        links.get(nth % links.len().max(1)).copied()
    }

    fn cut_host(&mut self, host: HostId, nth: usize) {
        self.cause(CauseKind::Lost, Some(host), self.now());
        self.cause(CauseKind::Unreachable, Some(host), self.now());
        if let Some(link) = self.nth_link(host, nth) {
            self.wire.cut(link, self.now());
            self.link_closed(link, ClosedBy::Network);
        }
    }

    fn half_close_host(&mut self, host: HostId, nth: usize) {
        self.cause(CauseKind::Lost, Some(host), self.now());
        self.cause(CauseKind::Unreachable, Some(host), self.now());
        if let Some(link) = self.nth_link(host, nth) {
            self.wire.finish(link, End::Far, self.now());
            self.link_closed(link, ClosedBy::Network);
        }
    }

    fn partition(&mut self, host: HostId, us: Micros) {
        let until = self.now() + us;
        for kind in [CauseKind::Slow, CauseKind::Unreachable] {
            self.cause(kind, Some(host), until);
        }
        let place = self.partitions.entry(host).or_default();
        *place = until.max(*place);
        for link in self.wire.links_of(Far::Host(host)) {
            self.wire.stall(link, until);
        }
    }

    fn server_fault(&mut self, fault: ServerFault) {
        let now = self.now();
        match fault {
            ServerFault::Crash { host, .. } => {
                let restarted = self.later_fault(
                    |it| matches!(it, ServerFault::Restart { host: at } if *at == host),
                );
                self.cause(CauseKind::Unreachable, Some(host), restarted);
                self.cause(CauseKind::Lost, Some(host), now);
            }
            ServerFault::Promote { .. } => self.cause(CauseKind::Lost, None, now),
            ServerFault::KillConnection { host, .. } | ServerFault::Garbage { host, .. } => {
                if matches!(fault, ServerFault::Garbage { .. }) {
                    self.cause(CauseKind::Garbage, Some(host), Micros::MAX / 2);
                }
                self.cause(CauseKind::Lost, Some(host), now);
                self.cause(CauseKind::Unreachable, Some(host), now);
            }
            ServerFault::Slow { host, for_us, .. } => {
                self.cause(CauseKind::Slow, Some(host), now + for_us);
                self.cause(CauseKind::Unreachable, Some(host), now + for_us);
            }
            ServerFault::Hang { host, hangs: true } => {
                let until_us = self.later_fault(
                    |it| matches!(it, ServerFault::Hang { host: at, hangs: false } if *at == host),
                );
                self.cause(CauseKind::Unreachable, Some(host), until_us);
            }
            ServerFault::Restart { .. }
            | ServerFault::ErrorNext { .. }
            | ServerFault::Lag { .. }
            | ServerFault::CutOff { .. }
            | ServerFault::Hang { hangs: false, .. } => {}
        }
        self.cluster.fault(fault, now);
        if self.facts.primaries.last().map(|(_, host)| *host) != Some(self.cluster.primary()) {
            self.facts.primaries.push((now, self.cluster.primary()));
        }
        self.after_cluster();
    }
}
