//! One worker's listeners and pairs, from accept to close: what the driver tells, and what it is
//! asked to do.

mod flow;
mod front;
mod report;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use slab::Slab;
use trunkline_config::{
    TcpFront,
    tcp::{Check, OnMarkedDown},
};
use trunkline_stats::TcpCounters;
use trunkline_topology::{Server, ServerState, mix};

use crate::{
    header::header,
    pair::{End, Pair},
};
use front::{Found, Front};

/// How often it is looked at what time alone brings, ms.
const SWEEP_EVERY_MS: u64 = 1_000;
/// How often a client that waits for a busy server is looked at, ms: another worker may have
/// given a place back.
const WAITING_TICK_MS: u64 = 10;
/// How long a server that checks bring back stays out at most without one, ms.
const CHECKED_PENALTY_MS: u64 = 3_600_000;
/// Empty buffers kept for bytes that have to wait.
const BUFFERS_MAX: usize = 64;
/// A larger buffer is not kept.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// Names a pair of this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PairId {
    /// Its place; used again when the pair has gone.
    pub index: u32,
    generation: u32,
}

/// Names a listener of this worker: its place, which stays its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub usize);

/// A client that has connected.
#[derive(Debug, Clone, Copy)]
pub struct Accepted {
    /// Where.
    pub listener: ListenerId,
    /// From where; `None` over a Unix socket.
    pub client: Option<SocketAddr>,
    /// The address that it connected to; `None` over a Unix socket.
    pub proxy: Option<SocketAddr>,
}

/// What the driver is to do.
#[derive(Debug)]
pub enum Action {
    /// Connect the pair's other end.
    Connect(PairId, Arc<Server>),
    /// Close the socket that was to become the pair's other end.
    Abandon(PairId),
    /// Tell this end that no more comes.
    Shutdown(PairId, End),
    /// Close both ends.
    Close(PairId),
    /// Accept again.
    Resume(ListenerId),
    /// Stop listening.
    CloseListener(ListenerId),
    /// Write a line of the log.
    Log {
        /// It needs somebody's attention.
        is_warning: bool,
        /// The line.
        text: String,
    },
}

/// How far a client has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// All servers that it may have are full.
    Waiting,
    /// Its server is being connected to.
    Connecting,
    /// Bytes go both ways.
    Joined,
}

#[derive(Debug)]
struct Entry {
    id: PairId,
    front: usize,
    phase: Phase,
    /// Its server's place in the front; that server counts it.
    server: Option<usize>,
    /// Servers that it was not connected to.
    tried: Vec<usize>,
    client: Option<SocketAddr>,
    proxy: Option<SocketAddr>,
    pair: Pair,
    /// When it must have come further, ms.
    deadline_ms: u64,
    /// When bytes last came from or went to the client and the server, ms.
    active_ms: [u64; 2],
}

/// One worker's TCP listeners.
#[derive(Debug)]
pub struct Relay {
    now_ms: u64,
    fronts: Vec<Front>,
    pairs: Slab<Entry>,
    generation: u32,
    /// Of those that wait or connect.
    deadlines: BTreeSet<(u64, PairId)>,
    actions: Vec<Action>,
    buffers: Vec<Vec<u8>>,
    random: u64,
    sweep_ms: u64,
    /// A stop has begun, and ends then.
    stop_ms: Option<u64>,
}

impl Relay {
    /// Without listeners. `seed` is another one for each worker.
    pub fn new(seed: u64) -> Self {
        Self {
            now_ms: 0,
            fronts: Vec::new(),
            pairs: Slab::new(),
            generation: 0,
            deadlines: BTreeSet::new(),
            actions: Vec::new(),
            buffers: Vec::new(),
            random: seed,
            sweep_ms: 0,
            stop_ms: None,
        }
    }

    /// A batch of events begins now.
    pub fn begin_batch(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// What is to be done, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Whether anything is to be done.
    pub fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Serves by these listeners from now on. Pairs of others go on as they are.
    pub fn configure(&mut self, fronts: &[Arc<TcpFront>]) {
        for (index, front) in self.fronts.iter_mut().enumerate() {
            let address = front.address();
            let is_gone = !fronts.iter().any(|new| new.options.address == *address);
            if is_gone && front.is_open {
                front.is_open = false;
                self.actions.push(Action::CloseListener(ListenerId(index)));
            }
        }
        for new in fronts {
            match self.fronts.iter_mut().find(|front| *front.address() == new.options.address) {
                Some(front) => front.renew(new),
                None => self.fronts.push(Front::new(new)),
            }
        }
        self.cut_lost();
        for index in 0..self.fronts.len() {
            self.pump(index);
        }
    }

    /// The listener of a configured address, which listens from now on.
    pub fn open(&mut self, address: &trunkline_config::ListenAddress) -> Option<ListenerId> {
        if self.stop_ms.is_some() {
            return None;
        }
        let index = self.fronts.iter().position(|front| front.address() == address)?;
        self.fronts.get_mut(index)?.is_open = true;
        Some(ListenerId(index))
    }

    /// Takes a place for the next client; false when all are taken, and [`Action::Resume`] says
    /// when one is free.
    pub fn enter(&mut self, listener: ListenerId) -> bool {
        let Some(front) = self.fronts.get_mut(listener.0).filter(|front| front.is_open) else {
            return false;
        };
        front.is_full = !front.config.gate.try_enter(front.config.options.max_connections);
        !front.is_full
    }

    /// Gives the place back: there was no client.
    pub fn leave(&mut self, listener: ListenerId) {
        if let Some(front) = self.fronts.get(listener.0) {
            front.config.gate.leave();
        }
    }

    /// A client has connected, and a place was taken for it.
    pub fn accept(&mut self, accepted: Accepted) -> PairId {
        let place = self.pairs.vacant_entry();
        // A worker has at most as many pairs as file descriptors.
        let index = u32::try_from(place.key()).unwrap_or(u32::MAX);
        self.generation = self.generation.wrapping_add(1);
        let id = PairId { index, generation: self.generation };
        place.insert(Entry {
            id,
            front: accepted.listener.0,
            phase: Phase::Waiting,
            server: None,
            tried: Vec::new(),
            client: accepted.client,
            proxy: accepted.proxy,
            pair: Pair::new(),
            deadline_ms: 0,
            active_ms: [self.now_ms; 2],
        });
        if let Some(front) = self.fronts.get_mut(accepted.listener.0) {
            front.totals.accepted += 1;
            front.pairs += 1;
        }
        self.assign(id);
        id
    }

    /// The connection to the pair's server is there.
    pub fn connected(&mut self, id: PairId) {
        let now_ms = self.now_ms;
        let Some(entry) = self.entry_mut(id).filter(|entry| entry.phase == Phase::Connecting)
        else {
            return;
        };
        entry.phase = Phase::Joined;
        entry.active_ms = [now_ms; 2];
        entry.tried = Vec::new();
        let (front, server, deadline_ms) = (entry.front, entry.server, entry.deadline_ms);
        let addresses = entry.client.zip(entry.proxy);
        self.deadlines.remove(&(deadline_ms, id));
        let Some(front) = self.fronts.get_mut(front) else { return };
        let wanted = front.config.options.send_proxy;
        if let Some(slot) = server.and_then(|place| front.servers.get_mut(place)) {
            slot.totals.connected += 1;
            slot.server.health.count_success();
        }
        let first = header(wanted, addresses);
        if let Some(entry) = self.entry_mut(id) {
            entry.pair.hold(End::Server, &first, Vec::new());
        }
    }

    /// The pair's server could not be connected to. `is_own` says that the proxy itself is at
    /// fault, because it has no file descriptors left say: then no server is blamed, and trying
    /// the next one would not help.
    pub fn connect_failed(&mut self, id: PairId, reason: &str, is_own: bool) {
        if !self.entry_mut(id).is_some_and(|entry| entry.phase == Phase::Connecting) {
            return;
        }
        let Some(place) = self.release_server(id) else { return };
        let Some(entry) = self.pairs.get_mut(id.index as usize) else { return };
        let attempts = entry.tried.len();
        entry.tried.push(place);
        let Some(front) = self.fronts.get_mut(entry.front) else { return };
        if is_own {
            front.totals.refused += 1;
            let text = format!("{}: no connection to a server: {reason}", front.address());
            self.actions.push(Action::Log { is_warning: true, text });
            return self.finish(id);
        }
        let options = Arc::clone(&front.config.options);
        if let Some(slot) = front.servers.get_mut(place) {
            slot.totals.connect_failures += 1;
            let penalty_ms = match options.check {
                Check::Off => front.config.penalty_ms,
                Check::Down | Check::Always => CHECKED_PENALTY_MS,
            };
            let health = &slot.server.health;
            health.count_failure();
            if health.state(self.now_ms) == ServerState::Online {
                health.shun(self.now_ms.saturating_add(penalty_ms));
                let key = &slot.server.key;
                let text = format!(
                    "{}: server {} in hostgroup {} is out: {reason}",
                    options.address, key.address, key.hostgroup
                );
                self.actions.push(Action::Log { is_warning: true, text });
            }
        }
        if attempts >= usize::try_from(options.retries).unwrap_or(usize::MAX) {
            front.totals.refused += 1;
            return self.finish(id);
        }
        self.assign(id);
    }

    /// Finds a server for a client that has none, or a place in the queue, or refuses it.
    fn assign(&mut self, id: PairId) {
        let random = self.next_random();
        let Some(entry) = self.pairs.get_mut(id.index as usize).filter(|entry| entry.id == id)
        else {
            return;
        };
        let Some(front) = self.fronts.get_mut(entry.front) else { return };
        let was_waiting = entry.deadline_ms > 0 && entry.phase == Phase::Waiting;
        let client = entry.client.map(|client| client.ip());
        match front.find(client, &entry.tried, random, self.now_ms) {
            Found::Server(place) => {
                self.deadlines.remove(&(entry.deadline_ms, id));
                entry.server = Some(place);
                entry.phase = Phase::Connecting;
                entry.deadline_ms = self.now_ms + front.config.options.connect_timeout;
                self.deadlines.insert((entry.deadline_ms, id));
                if let Some(slot) = front.servers.get_mut(place) {
                    slot.connections += 1;
                    let server = Arc::clone(&slot.server);
                    self.actions.push(Action::Connect(id, server));
                }
            }
            Found::AllFull if was_waiting => {}
            Found::AllFull => {
                self.deadlines.remove(&(entry.deadline_ms, id));
                entry.phase = Phase::Waiting;
                entry.deadline_ms = self.now_ms + front.config.options.connect_timeout;
                self.deadlines.insert((entry.deadline_ms, id));
                front.waiting.push_back(id);
            }
            Found::NoneOnline => {
                front.totals.refused += 1;
                if front.complain(self.now_ms) {
                    let text = format!(
                        "{}: a client is refused: hostgroup {} has no online server",
                        front.address(),
                        front.config.options.hostgroup
                    );
                    self.actions.push(Action::Log { is_warning: true, text });
                }
                self.finish(id);
            }
        }
    }

    /// Lets those go on who wait for a server of this front, in their order.
    fn pump(&mut self, index: usize) {
        while let Some(id) = self.fronts.get(index).and_then(|front| front.waiting.front().copied())
        {
            let is_waiting =
                |relay: &Self| relay.entry(id).is_some_and(|entry| entry.phase == Phase::Waiting);
            if is_waiting(self) {
                self.assign(id);
                if is_waiting(self) {
                    return;
                }
            }
            if let Some(front) = self.fronts.get_mut(index) {
                // It may have been the last to leave already.
                front.waiting.retain(|other| *other != id);
            }
        }
    }

    /// Gives back the place under the server's cap; the server's place in its front.
    fn release_server(&mut self, id: PairId) -> Option<usize> {
        let entry = self.entry_mut(id)?;
        let place = entry.server.take()?;
        let (front, deadline_ms) = (entry.front, entry.deadline_ms);
        self.deadlines.remove(&(deadline_ms, id));
        let slot = self.fronts.get_mut(front)?.servers.get_mut(place)?;
        debug_assert!(slot.connections > 0);
        slot.connections = slot.connections.saturating_sub(1);
        slot.server.health.give_back_connection();
        Some(place)
    }

    /// The pair is over: both sockets close, and others may have its places.
    fn finish(&mut self, id: PairId) {
        if self.entry(id).is_none() {
            return;
        }
        self.release_server(id);
        let Some(mut entry) = self.pairs.try_remove(id.index as usize) else { return };
        self.deadlines.remove(&(entry.deadline_ms, id));
        for end in End::BOTH {
            let len = entry.pair.pending(end).len();
            let buffer = entry.pair.took(end, len);
            self.keep_buffer(buffer);
        }
        self.actions.push(Action::Close(id));
        let Some(front) = self.fronts.get_mut(entry.front) else { return };
        front.pairs = front.pairs.saturating_sub(1);
        front.config.gate.leave();
        if front.is_full && front.is_open {
            front.is_full = false;
            self.actions.push(Action::Resume(ListenerId(entry.front)));
        }
        if entry.phase == Phase::Waiting {
            front.waiting.retain(|other| *other != id);
            return;
        }
        self.pump(entry.front);
    }

    /// Ends whose servers may not keep them.
    fn cut_lost(&mut self) {
        let now_ms = self.now_ms;
        let is_lost = |relay: &Self, entry: &Entry| {
            let Some(front) = relay.fronts.get(entry.front) else { return true };
            let Some(slot) = entry.server.and_then(|place| front.servers.get(place)) else {
                return false;
            };
            let marked = front.config.options.on_marked_down;
            match slot.server.health.state(now_ms) {
                ServerState::OfflineHard => true,
                ServerState::Shunned => marked == OnMarkedDown::ShutdownSessions,
                ServerState::Online
                | ServerState::OfflineSoft
                | ServerState::Lagging
                | ServerState::Standby => false,
            }
        };
        self.cut(is_lost, |totals| totals.cut += 1);
    }

    fn cut_silent(&mut self) {
        let now_ms = self.now_ms;
        let is_silent = |relay: &Self, entry: &Entry| {
            let Some(front) = relay.fronts.get(entry.front) else { return true };
            let options = &front.config.options;
            let half = End::BOTH.iter().any(|end| entry.pair.has_ended(*end));
            let limit = |own: u64| match options.fin_timeout {
                0 => own,
                fin if half => fin,
                _ => own,
            };
            let [client_ms, server_ms] = entry.active_ms;
            let over =
                |limit: u64, active_ms: u64| limit > 0 && now_ms.saturating_sub(active_ms) > limit;
            entry.phase == Phase::Joined
                && (over(limit(options.client_timeout), client_ms)
                    || over(limit(options.server_timeout), server_ms))
        };
        self.cut(is_silent, |totals| totals.timed_out += 1);
    }

    fn cut(&mut self, is_it: impl Fn(&Self, &Entry) -> bool, count: fn(&mut TcpCounters)) {
        let ids: Vec<(PairId, usize)> = self
            .pairs
            .iter()
            .filter(|(_, entry)| is_it(self, entry))
            .map(|(_, entry)| (entry.id, entry.front))
            .collect();
        for (id, front) in ids {
            if let Some(front) = self.fronts.get_mut(front) {
                count(&mut front.totals);
            }
            self.finish(id);
        }
    }

    /// How long the driver may wait for events before it calls [`tick`](Self::tick), ms.
    pub fn tick_within_ms(&self) -> u64 {
        let is_hindered = |front: &Front| !front.waiting.is_empty() || front.is_full;
        if self.fronts.iter().any(is_hindered) {
            return WAITING_TICK_MS;
        }
        let first = self.deadlines.first().map_or(u64::MAX, |(at_ms, _)| *at_ms);
        let sweep_ms = self.sweep_ms + SWEEP_EVERY_MS;
        first.min(sweep_ms).saturating_sub(self.now_ms).clamp(1, SWEEP_EVERY_MS)
    }

    /// Looks at deadlines. Called once per batch.
    pub fn tick(&mut self) {
        while let Some((at_ms, id)) = self.deadlines.first().copied()
            && at_ms <= self.now_ms
        {
            self.deadlines.pop_first();
            self.expire(id);
        }
        for index in 0..self.fronts.len() {
            let Some(front) = self.fronts.get_mut(index) else { continue };
            let max = front.config.options.max_connections;
            if front.is_full && front.is_open && front.config.gate.connections() < max {
                front.is_full = false;
                self.actions.push(Action::Resume(ListenerId(index)));
            }
            self.pump(index);
        }
        if self.now_ms >= self.sweep_ms + SWEEP_EVERY_MS {
            self.sweep_ms = self.now_ms;
            self.cut_lost();
            self.cut_silent();
        }
        if self.stop_ms.is_some_and(|stop_ms| self.now_ms >= stop_ms) {
            self.cut(|_, _| true, |totals| totals.cut += 1);
        }
    }

    fn expire(&mut self, id: PairId) {
        let Some(entry) = self.entry(id) else { return };
        match entry.phase {
            Phase::Joined => {}
            Phase::Connecting => {
                self.actions.push(Action::Abandon(id));
                self.connect_failed(id, "connecting took longer than connect_timeout", false);
            }
            Phase::Waiting => {
                let front = entry.front;
                if let Some(front) = self.fronts.get_mut(front) {
                    front.totals.refused += 1;
                }
                self.finish(id);
            }
        }
    }

    /// Listens no more, and ends whatever is left at that time.
    pub fn stop(&mut self, deadline_ms: u64) {
        self.stop_ms = Some(deadline_ms);
        for (index, front) in self.fronts.iter_mut().enumerate() {
            if std::mem::take(&mut front.is_open) {
                self.actions.push(Action::CloseListener(ListenerId(index)));
            }
        }
    }

    /// Whether nothing is left to relay.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    fn entry(&self, id: PairId) -> Option<&Entry> {
        self.pairs.get(id.index as usize).filter(|entry| entry.id == id)
    }

    fn entry_mut(&mut self, id: PairId) -> Option<&mut Entry> {
        self.pairs.get_mut(id.index as usize).filter(|entry| entry.id == id)
    }

    fn keep_buffer(&mut self, buffer: Option<Vec<u8>>) {
        let Some(mut buffer) = buffer else { return };
        buffer.clear();
        if self.buffers.len() < BUFFERS_MAX && buffer.capacity() <= BUFFER_KEPT_MAX {
            self.buffers.push(buffer);
        }
    }

    fn next_random(&mut self) -> u64 {
        // The step of SplitMix64.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random)
    }
}
