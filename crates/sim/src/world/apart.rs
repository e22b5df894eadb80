//! Ends that do not get to each other for a while.

use super::*;
use crate::{oracle::facts::CauseKind, wire::Far};

/// Who is apart from whom, and until when.
#[derive(Debug, Default)]
pub(super) struct Apart {
    /// Clients' hosts from the proxy: those whose place leaves `.0` when divided by `.1`.
    clients: Vec<(usize, usize, Micros)>,
    /// One worker from a host.
    workers: BTreeMap<(usize, HostId), Micros>,
    /// The monitor from a host.
    monitor: BTreeMap<HostId, Micros>,
}

impl Apart {
    pub(super) fn is_client_cut_off(&self, client: usize, now: Micros) -> bool {
        self.clients.iter().any(|(part, parts, until)| client % parts == *part && *until > now)
    }

    pub(super) fn is_worker_cut_off(&self, worker: usize, host: HostId, now: Micros) -> bool {
        self.workers.get(&(worker, host)).is_some_and(|until| *until > now)
    }

    pub(super) fn is_monitor_cut_off(&self, host: HostId, now: Micros) -> bool {
        self.monitor.get(&host).is_some_and(|until| *until > now)
    }
}

impl World<'_> {
    pub(super) fn cut_off_clients(&mut self, part: usize, parts: usize, us: Micros) {
        let until = self.now() + us;
        self.apart.clients.push((part, parts, until));
        for client in (part..self.clients.len()).step_by(parts) {
            if let Some(link) = self.client_link.get(client).copied().flatten() {
                self.wire.stall(link, until);
            }
        }
    }

    pub(super) fn cut_off_worker(&mut self, worker: usize, host: HostId, us: Micros) {
        let until = self.now() + us;
        for kind in [CauseKind::Slow, CauseKind::Unreachable] {
            self.cause(kind, Some(host), until);
        }
        let place = self.apart.workers.entry((worker, host)).or_default();
        *place = until.max(*place);
        for link in self.wire.links_of(Far::Host(host)) {
            if self.holder(link) == Some(worker) {
                self.wire.stall(link, until);
            }
        }
    }

    pub(super) fn cut_off_monitor(&mut self, host: HostId, us: Micros) {
        let until = self.now() + us;
        let place = self.apart.monitor.entry(host).or_default();
        *place = until.max(*place);
    }
}
