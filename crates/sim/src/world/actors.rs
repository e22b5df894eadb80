//! Clients and hosts, and the links between them and the workers.

use std::sync::Arc;

use trunkline_topology::ServerHealth;
use trunkline_worker::shell::Connecting;

use super::*;
use crate::{
    client::ClientOutput,
    driver::peer_of,
    oracle::{facts::CauseKind, history::EndedBy},
    server::{Accept, ServerOutput},
    wire::{Far, ReadBytes},
};

/// How long a kernel waits before it asks again whether a host is there, µs.
const SYN_AGAIN_US: Micros = 1_000_000;
/// What a client or a host reads at once.
const READ_MAX: usize = 256 * 1_024;

impl World<'_> {
    pub(super) fn arrival(&mut self, link: LinkId, end: End) {
        let now = self.now();
        if !self.wire.arrive(link, end, now) {
            return;
        }
        match end {
            End::Proxy => {
                let ended = self.wire.has_ended(link, End::Proxy);
                if let Some(worker) = self.holder(link) {
                    if let Some(driver) = self.drivers.get_mut(worker) {
                        driver.readable(link, ended);
                        // A kernel tells of a reset as room to write, too.
                        if self.wire.was_reset(link, End::Proxy) {
                            driver.writable(link);
                        }
                    }
                    self.nudge(worker);
                }
            }
            End::Far => self.far_reads(link),
        }
    }

    pub(super) fn room(&mut self, link: LinkId, end: End) {
        let now = self.now();
        let has_room = self.wire.room(link, end, now);
        if has_room
            && end == End::Proxy
            && let Some(worker) = self.holder(link)
        {
            if let Some(driver) = self.drivers.get_mut(worker) {
                driver.writable(link);
            }
            self.nudge(worker);
        }
    }

    pub(super) fn far_reads(&mut self, link: LinkId) {
        match self.wire.far(link) {
            Some(Far::Client(client)) => self.client_reads(client, link),
            Some(Far::Host(_)) => self.host_reads(link),
            None => {}
        }
    }

    fn client_reads(&mut self, client: usize, link: LinkId) {
        let now = self.now();
        if self.paused.contains(&client) || self.client_link.get(client) != Some(&Some(link)) {
            return;
        }
        let read = self.wire.read(link, End::Far, READ_MAX, now);
        let how = match self.disturbed.contains(&link) {
            true => EndedBy::Network,
            false => EndedBy::Proxy,
        };
        let Some(model) = self.clients.get_mut(client) else { return };
        let has_more = matches!(read, ReadBytes::Some(_));
        match read {
            ReadBytes::Some(bytes) => model.received(&bytes, now),
            ReadBytes::Nothing => return,
            ReadBytes::End | ReadBytes::Reset => {
                self.wire.close(link, End::Far, now);
                if let Some(place) = self.client_link.get_mut(client) {
                    *place = None;
                }
                model.closed(how, now);
            }
        }
        self.after_client(client);
        if has_more {
            self.client_reads(client, link);
        }
    }

    fn host_reads(&mut self, link: LinkId) {
        let now = self.now();
        loop {
            match self.wire.read(link, End::Far, READ_MAX, now) {
                ReadBytes::Some(bytes) => self.cluster.received(link, &bytes, now),
                ReadBytes::Nothing => break,
                ReadBytes::End | ReadBytes::Reset => {
                    self.wire.close(link, End::Far, now);
                    self.cluster.closed(link, now);
                    break;
                }
            }
        }
        self.after_cluster();
    }

    pub(super) fn client_ticks(&mut self, client: usize) {
        let now = self.now();
        match self.client_due.get_mut(client) {
            Some(due) if due.is_some_and(|at| at <= now) => *due = None,
            _ => return,
        }
        if let Some(model) = self.clients.get_mut(client) {
            model.tick(now);
        }
        self.after_client(client);
    }

    /// Carries out what a client wants, and plans its next step.
    pub(super) fn after_client(&mut self, client: usize) {
        let Some(model) = self.clients.get_mut(client) else { return };
        // Reading on may have it say more, which comes behind what it says already.
        let outputs = model.take_outputs();
        let (resumes, says): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|it| matches!(it, ClientOutput::ResumeReading));
        for output in says.into_iter().chain(resumes) {
            self.client_wants(client, output);
        }
        let now = self.now();
        let due = self.clients.get(client).and_then(ModelClient::next_due);
        let (Some(due), Some(planned)) = (due, self.client_due.get_mut(client)) else {
            return;
        };
        let due = due.max(now);
        if planned.is_none_or(|before| before > due) {
            *planned = Some(due);
            self.queue.put(due, Event::Client(client));
        }
    }

    fn client_wants(&mut self, client: usize, output: ClientOutput) {
        let now = self.now();
        let link = self.client_link.get(client).copied().flatten();
        match (output, link) {
            (ClientOutput::Connect, _) => self.client_connects(client),
            (ClientOutput::Send(bytes), Some(link)) => {
                self.trace.bytes(now, link, End::Far, Some(Far::Client(client)), &bytes);
                self.wire.write_all(link, End::Far, &bytes, now);
            }
            (ClientOutput::Close { reset }, Some(link)) => {
                self.trace.note(now, || format!("client {client} closes link {}", link.0));
                match reset {
                    true => self.wire.reset(link, End::Far, now),
                    false => self.wire.close(link, End::Far, now),
                }
                if let Some(place) = self.client_link.get_mut(client) {
                    *place = None;
                }
                self.paused.remove(&client);
            }
            (ClientOutput::PauseReading, _) => _ = self.paused.insert(client),
            (ClientOutput::ResumeReading, link) => {
                self.paused.remove(&client);
                if let Some(link) = link {
                    self.client_reads(client, link);
                }
            }
            (ClientOutput::Send(_) | ClientOutput::Close { .. }, None) => {}
        }
    }

    fn client_connects(&mut self, client: usize) {
        let now = self.now();
        let pipe = self.plan.client_pipe;
        let link = self.wire.link(Far::Client(client), &pipe);
        if let Some(place) = self.client_link.get_mut(client) {
            *place = Some(link);
        }
        self.trace.note(now, || format!("client {client} connects link {}", link.0));
        self.queue.put(now + pipe.latency_us, Event::ClientKnocks(client, link));
    }

    /// The kernel gives the connection to one of the listeners.
    pub(super) fn client_knocks(&mut self, client: usize, link: LinkId) {
        let now = self.now();
        if self.apart.is_client_cut_off(client, now) && !self.wire.is_finished(link, End::Far) {
            return self.queue.put(now + SYN_AGAIN_US, Event::ClientKnocks(client, link));
        }
        let listening: Vec<_> =
            (0..self.drivers.len()).filter(|worker| self.is_listening(*worker)).collect();
        let Some(worker) = self.rng.pick(&listening).copied() else {
            return self.wire.reset(link, End::Proxy, now);
        };
        if let Some(driver) = self.drivers.get_mut(worker) {
            driver.knock(link, peer_of(client));
        }
        self.nudge(worker);
        let latency_us = self.plan.client_pipe.latency_us;
        self.queue.put(now + latency_us, Event::ClientUp(client, link));
    }

    fn is_listening(&self, worker: usize) -> bool {
        self.drivers.get(worker).is_some_and(|driver| driver.is_listening() && !driver.is_stopped())
    }

    pub(super) fn client_up(&mut self, client: usize, link: LinkId) {
        if self.client_link.get(client) == Some(&Some(link)) {
            let now = self.now();
            if let Some(model) = self.clients.get_mut(client) {
                model.connected(now);
            }
            self.after_client(client);
            self.client_reads(client, link);
        }
    }

    /// A worker connects to a host.
    pub(super) fn syn(&mut self, link: LinkId, host: HostId, health: &Arc<ServerHealth>) {
        let counted = self.healths.iter().position(|(_, known)| Arc::ptr_eq(known, health));
        self.conns.insert(link, counted.unwrap_or(usize::MAX));
        let entry = counted.and_then(|place| self.healths.get(place));
        let hostgroup = entry.map_or(u32::MAX, |(key, _)| key.hostgroup.0);
        self.links
            .insert(link, LinkFact { link, host, hostgroup, got_nonsense: false, closed: None });
        let latency_us = self.hosts.pipe_to(host).latency_us;
        self.queue.put(self.now() + latency_us, Event::HostKnocked(link, host));
    }

    pub(super) fn host_knocked(&mut self, link: LinkId, host: HostId) {
        let now = self.now();
        if self.wire.is_finished(link, End::Proxy) {
            return;
        }
        let is_apart = self.partitions.get(&host).is_some_and(|until| *until > now)
            || self.holder(link).is_some_and(|it| self.apart.is_worker_cut_off(it, host, now));
        if is_apart {
            return self.queue.put(now + SYN_AGAIN_US, Event::HostKnocked(link, host));
        }
        let latency_us = self.hosts.pipe_to(host).latency_us;
        let places = self.plan.cluster.hosts.get(host.0).map_or(0, |host| host.max_connections);
        if self.cluster.connections(host) >= places {
            // The host says 1040, and is shunned for it.
            self.is_full(CauseKind::Full);
        }
        match self.cluster.connect(host, link) {
            Accept::Accepted => {
                self.queue.put(now + latency_us, Event::HostAnswered(link, None));
            }
            Accept::Refused => {
                let refusal = Some("connection refused".to_owned());
                self.queue.put(now + latency_us, Event::HostAnswered(link, refusal));
            }
            Accept::Hangs => {
                self.queue.put(now + SYN_AGAIN_US, Event::HostKnocked(link, host));
            }
        }
        self.after_cluster();
    }

    pub(super) fn host_answered(&mut self, link: LinkId, refusal: Option<String>) {
        let Some(worker) = self.holder(link) else { return };
        let outcome = match refusal {
            None => Connecting::Done,
            Some(reason) => Connecting::Failed(reason),
        };
        if let Some(driver) = self.drivers.get_mut(worker) {
            driver.connected(link, outcome);
        }
        self.nudge(worker);
    }

    pub(super) fn cluster_ticks(&mut self) {
        let now = self.now();
        if self.cluster_due.is_none_or(|due| due > now) {
            return;
        }
        self.cluster_due = None;
        self.cluster.tick(now);
        self.after_cluster();
    }

    /// Carries what servers say to the proxy, and plans their next step.
    pub(super) fn after_cluster(&mut self) {
        let now = self.now();
        for output in self.cluster.take_outputs() {
            match output {
                ServerOutput::Send { link, bytes } => {
                    let far = self.wire.far(link);
                    self.trace.bytes(now, link, End::Far, far, &bytes);
                    self.wire.write_all(link, End::Far, &bytes, now);
                }
                ServerOutput::Nonsense { link } => {
                    self.links.entry(link).and_modify(|fact| fact.got_nonsense = true);
                }
                ServerOutput::Close { link, reset } => {
                    self.trace.note(now, || format!("a server closes link {}", link.0));
                    self.link_closed(link, ClosedBy::Server);
                    match reset {
                        true => self.wire.reset(link, End::Far, now),
                        false => self.wire.close(link, End::Far, now),
                    }
                }
            }
        }
        if let Some(due) = self.cluster.next_due()
            && self.cluster_due.is_none_or(|planned| planned > due)
        {
            let due = due.max(now);
            self.cluster_due = Some(due);
            self.queue.put(due, Event::Cluster);
        }
    }
}
