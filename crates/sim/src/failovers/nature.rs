//! Servers as they are: what they have, whom they reach, whether they live.

use std::collections::BTreeMap;

use trunkline_cluster::facts::{Endpoint, Facts, Identity, Source, Thread};

use super::{Breach, Outcome, Violation};
use crate::rng::Rng;

/// One step in so many brings something.
const EVENT_EVERY: u64 = 60;
/// How long a replica takes a silent source for connected, at most, ms.
const NET_TIMEOUT_MS: u64 = 2_000;

/// Transactions: the last one of each server that has committed any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Log(BTreeMap<usize, u64>);

impl Log {
    pub(super) fn join(&mut self, other: &Self) {
        for (server, last) in &other.0 {
            let own = self.0.entry(*server).or_default();
            *own = (*own).max(*last);
        }
    }

    pub(super) fn has(&self, other: &Self) -> bool {
        let reaches = |server: &usize, last: &u64| self.0.get(server).is_some_and(|it| it >= last);
        other.0.iter().all(|(server, last)| reaches(server, last))
    }

    /// As MySQL writes it.
    pub(super) fn text(&self) -> String {
        let sets = self.0.iter().map(|(server, last)| format!("{server:032x}:1-{last}"));
        sets.collect::<Vec<_>>().join(",")
    }
}

/// One server.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) is_running: bool,
    pub(super) is_writable: bool,
    /// It neither answers nor sends, and lives.
    pub(super) is_stopped: bool,
    /// Which proxies reach it.
    pub(super) reached_by: [bool; 2],
    /// Servers that it reaches, bit by bit.
    pub(super) reaches: u32,
    pub(super) source: Option<usize>,
    pub(super) receives: bool,
    pub(super) applies: bool,
    pub(super) executed: Log,
    pub(super) received: Log,
    pub(super) lock: Option<usize>,
    /// Until when it takes its source for connected, ms.
    believes_until_ms: u64,
    /// Since when it was truly connected, ms; `None` if it is not.
    pub(super) connected_since_ms: Option<u64>,
    /// Since when it runs and takes writes, ms; `None` if it does not.
    pub(super) writable_since_ms: Option<u64>,
    /// Since when each proxy reaches it and it answers, ms.
    pub(super) there_since_ms: [Option<u64>; 2],
}

/// All servers, and chance.
pub(super) struct Nature {
    pub(super) now_ms: u64,
    pub(super) servers: Vec<Server>,
    /// Nothing goes wrong any more.
    pub(super) is_quiet: bool,
    /// Servers that begin are read-only.
    pub(super) begins_read_only: bool,
    pub(super) rng: Rng,
    with_trace: bool,
    pub(super) outcome: Outcome,
    /// Promotions since somebody put the servers in order.
    promotions: Vec<Promotion>,
}

/// A server was promoted.
struct Promotion {
    new: usize,
    old: usize,
    /// Which proxies know of it: the one that did it, and those that the server has told.
    known_by: [bool; 2],
}

pub(super) fn endpoint(server: usize) -> Endpoint {
    Endpoint { host: format!("db{server}"), port: 3306 }
}

impl Nature {
    pub(super) fn new(mut rng: Rng, with_trace: bool) -> Self {
        let count = 2 + rng.index(4);
        let server = |id: usize| Server {
            is_running: true,
            is_writable: id == 0,
            is_stopped: false,
            reached_by: [true; 2],
            reaches: u32::MAX,
            source: (id != 0).then_some(0),
            receives: true,
            applies: true,
            executed: Log::default(),
            received: Log::default(),
            lock: None,
            believes_until_ms: 0,
            connected_since_ms: None,
            writable_since_ms: None,
            there_since_ms: [None; 2],
        };
        Self {
            now_ms: 1,
            servers: (0..count).map(server).collect(),
            is_quiet: false,
            begins_read_only: rng.chance(1, 2),
            rng,
            with_trace,
            outcome: Outcome::default(),
            promotions: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, what: &'static str, text: impl FnOnce() -> String) {
        *self.outcome.figures.entry(what).or_default() += 1;
        if self.with_trace {
            let (sec, ms) = (self.now_ms / 1_000, self.now_ms % 1_000);
            self.outcome.trace.push(format!("{sec}.{ms:03} {what}: {}", text()));
        }
    }

    pub(super) fn violate(&mut self, breach: Breach, evidence: String) {
        let at_ms = self.now_ms;
        self.note("violations", || format!("{breach:?}: {evidence}"));
        self.outcome.violations.push(Violation { breach, at_ms, evidence });
    }

    pub(super) fn server(&self, id: usize) -> Option<&Server> {
        self.servers.get(id)
    }

    pub(super) fn change(&mut self, id: usize, change: impl FnOnce(&mut Server)) {
        if let Some(server) = self.servers.get_mut(id) {
            change(server);
        }
    }

    pub(super) fn ids(&self) -> std::ops::Range<usize> {
        0..self.servers.len()
    }

    fn are_connected(&self, one: usize, other: usize) -> bool {
        let reaches = |from: usize, to: usize| {
            self.server(from)
                .is_some_and(|it| it.is_running && !it.is_stopped && it.reaches & (1 << to) != 0)
        };
        reaches(one, other) && reaches(other, one)
    }

    /// Whether what a proxy says to a server is answered.
    pub(super) fn answers(&self, proxy: usize, id: usize) -> bool {
        let is_there = |it: &Server| it.reached_by.get(proxy).copied().unwrap_or_default();
        self.server(id).is_some_and(|it| it.is_running && !it.is_stopped && is_there(it))
    }

    /// What a server says.
    pub(super) fn facts(&self, id: usize) -> Facts {
        let Some(server) = self.server(id) else { return Facts::default() };
        let sources = server.source.into_iter().map(|source| Source {
            endpoint: endpoint(source),
            identity: Identity { uuid: Some(format!("{source:032x}")), server_id: 0 },
            receives: match server.receives {
                false => Thread::Stopped,
                true if self.are_connected(id, source)
                    || self.now_ms < server.believes_until_ms =>
                {
                    Thread::Connected
                }
                true => Thread::Connecting,
            },
            applies: server.applies,
            lag_sec: Some(0),
            error: String::new(),
        });
        Facts {
            identity: Identity { uuid: Some(format!("{id:032x}")), server_id: 0 },
            is_writable: server.is_writable,
            sources: sources.collect(),
            gtid: server.executed.text(),
            ..Facts::default()
        }
    }

    /// A proxy writes.
    pub(super) fn write(&mut self, proxy: usize, id: usize) {
        if self.answers(proxy, id) && self.server(id).is_some_and(|it| it.is_writable) {
            self.change(id, |it| *it.executed.0.entry(id).or_default() += 1);
        }
    }

    /// A proxy was told by a server that it takes writes.
    pub(super) fn told_writable(&mut self, proxy: usize, id: usize) {
        for promotion in self.promotions.iter_mut().filter(|it| it.new == id) {
            if let Some(knows) = promotion.known_by.get_mut(proxy) {
                *knows = true;
            }
        }
    }

    /// Whether a proxy can find out that a server was promoted: it has been told or has done it,
    /// the server answers it, or one does that replicates from it.
    ///
    /// If not, all that is left of the promotion is what another proxy has noted, whose claims have
    /// ended with its connections. `docs/manual/failover.md` says that a second server may be
    /// promoted then.
    fn can_know(&self, proxy: usize, promotion: &Promotion) -> bool {
        let new = promotion.new;
        let follows = |id: usize| self.server(id).is_some_and(|it| it.source == Some(new));
        promotion.known_by.get(proxy) == Some(&true)
            || self.ids().any(|id| self.answers(proxy, id) && (id == new || follows(id)))
    }

    /// A proxy has promoted a server in the place of another one.
    pub(super) fn promoted(&mut self, proxy: usize, new: usize, old: usize) {
        self.note("promoted", || format!("{new} for {old}"));
        let is_writable = |id: usize| self.server(id).is_some_and(|it| it.is_writable);
        let is_other = |it: &&Promotion| it.old == old && it.new != new && is_writable(it.new);
        let other = self.promotions.iter().find(is_other);
        let other = other.map(|other| (other.new, self.can_know(proxy, other)));
        match other {
            Some((first, true)) => {
                self.violate(Breach::TwoWriters, format!("{first} and {new}, for {old}"));
            }
            Some((first, false)) => {
                self.note("second promotions, the first known to a lost proxy only", || {
                    format!("{first} and {new}, for {old}")
                });
            }
            None => {}
        }
        // A server that was promoted may be lost itself.
        self.promotions.retain(|it| it.old != new);
        let known_by = [proxy == 0, proxy == 1];
        self.promotions.push(Promotion { new, old, known_by });
    }

    /// Lets time pass.
    pub(super) fn step(&mut self) {
        let now_ms = self.now_ms;
        if !self.is_quiet && self.rng.chance(1, EVENT_EVERY) {
            self.happen();
        }
        for id in self.ids() {
            let is_writer = self.server(id).is_some_and(|it| it.is_running && it.is_writable);
            let there = [self.answers(0, id), self.answers(1, id)];
            self.change(id, |it| {
                keep(&mut it.writable_since_ms, is_writer, now_ms);
                for (since_ms, is_there) in it.there_since_ms.iter_mut().zip(there) {
                    keep(since_ms, is_there, now_ms);
                }
            });
            self.replicate(id);
        }
    }

    fn replicate(&mut self, id: usize) {
        let now_ms = self.now_ms;
        let Some(source) = self.server(id).and_then(|it| it.source) else { return };
        let is_connected =
            self.are_connected(id, source) && self.server(id).is_some_and(|it| it.receives);
        let is_dead = self.server(source).is_none_or(|it| !it.is_running);
        let (comes, is_applied) = (self.rng.chance(1, 3), self.rng.chance(1, 3));
        let above = self.server(source).map(|it| it.executed.clone()).unwrap_or_default();
        self.change(id, |it| {
            keep(&mut it.connected_since_ms, is_connected, now_ms);
            match (is_connected, is_dead) {
                (true, _) => it.believes_until_ms = now_ms + NET_TIMEOUT_MS,
                // A source that dies cuts its connections; one that is cut off is only silent.
                (false, true) => it.believes_until_ms = 0,
                (false, false) => {}
            }
            if is_connected && comes {
                it.received.join(&above);
            }
            if it.is_running && !it.is_stopped && it.applies && is_applied {
                let received = it.received.clone();
                it.executed.join(&received);
            }
        });
    }

    fn crash(&mut self, id: usize) {
        self.note("crashed", || id.to_string());
        self.end(id);
    }

    /// A server ends, and with it whatever has gone on there, also if it begins anew at once.
    pub(super) fn end(&mut self, id: usize) {
        self.change(id, |it| {
            (it.is_running, it.lock) = (false, None);
            (it.connected_since_ms, it.writable_since_ms) = (None, None);
            it.there_since_ms = [None; 2];
        });
    }

    fn restart(&mut self, id: usize) {
        let begins_read_only = self.begins_read_only;
        if self.server(id).is_some_and(|it| !it.is_running) {
            self.note("restarted", || id.to_string());
            self.change(id, |it| {
                it.is_running = true;
                it.is_writable &= !begins_read_only;
            });
        }
    }

    /// Something goes wrong, or is mended.
    fn happen(&mut self) {
        let id = self.rng.index(self.servers.len());
        let writer = self.ids().find(|id| self.server(*id).is_some_and(|it| it.is_writable));
        match self.rng.below(16) {
            0 | 1 => self.crash(writer.unwrap_or(id)),
            2 => self.crash(id),
            3..=5 => self.restart(id),
            6 => {
                let id = writer.unwrap_or(id);
                self.note("stopped", || id.to_string());
                self.change(id, |it| it.is_stopped = true);
            }
            7 | 8 => self.change(id, |it| it.is_stopped = false),
            9 => {
                // Proxies are in one network: `docs/manual/failover.md` says so.
                self.note("cut off from proxies", || id.to_string());
                self.change(id, |it| it.reached_by = [false; 2]);
            }
            10 | 11 => self.change(id, |it| it.reached_by = [true; 2]),
            12 => {
                self.note("cut off from servers", || id.to_string());
                let reaches = u32::try_from(self.rng.below(1 << self.servers.len()));
                self.change(id, |it| it.reaches = reaches.unwrap_or_default());
            }
            13 => self.change(id, |it| it.reaches = u32::MAX),
            14 => {
                let applies = self.rng.chance(2, 3);
                self.change(id, |it| it.applies = applies);
            }
            _ => self.change(id, |it| (it.applies, it.receives) = (true, true)),
        }
    }

    /// From now on all servers run and are reached.
    pub(super) fn mend(&mut self) {
        self.note("mended", String::new);
        self.is_quiet = true;
        for id in self.ids() {
            self.restart(id);
            self.change(id, |it| {
                (it.is_stopped, it.reached_by, it.reaches) = (false, [true; 2], u32::MAX);
                it.applies = true;
            });
        }
    }

    /// Somebody sees to it that one server writes, and all others follow it.
    pub(super) fn put_in_order(&mut self) {
        let writable: Vec<usize> =
            self.ids().filter(|id| self.server(*id).is_some_and(|it| it.is_writable)).collect();
        let primary = match writable.as_slice() {
            [only] => *only,
            _ => self.rng.index(self.servers.len()),
        };
        self.note("put in order", || format!("{primary} writes, of {writable:?}"));
        for id in self.ids() {
            self.change(id, |it| {
                // A program for fencing may have ended it.
                it.is_running = true;
                it.is_writable = id == primary;
                it.source = (id != primary).then_some(primary);
                it.receives = true;
            });
        }
    }
}

/// Keeps since when something is so.
fn keep(since_ms: &mut Option<u64>, is_so: bool, now_ms: u64) {
    *since_ms = match is_so {
        true => Some(since_ms.unwrap_or(now_ms)),
        false => None,
    };
}
