//! One server.

use std::collections::{BTreeMap, VecDeque};

use trunkline_protocol::{
    Capabilities,
    packet::{err::put_err, greeting::Flavor},
};

use super::{
    Record,
    conn::{Conn, Phase, Stage},
    lock::Locks,
    login::{LoggedIn, greeting},
    spec::{AccountSpec, HostSpec, ServerOutput},
    store::{Change, Pending, Store},
};
use crate::{
    HostId, LinkId, Micros,
    oracle::facts::{Effect, Gtid},
    packing::Packing,
    rng::Rng,
    sealing::Seal,
    statement::{Failure, Mark, Schema},
};

/// A committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    /// Its number among all commits of the run.
    pub(super) number: usize,
    pub(super) gtid: Gtid,
    pub(super) at: Micros,
    pub(super) changes: Vec<(Schema, Change)>,
}

/// A server with everything it knows.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) id: HostId,
    pub(super) spec: HostSpec,
    pub(super) is_up: bool,
    pub(super) hangs: bool,
    /// Since when it runs.
    pub(super) up_since: Micros,
    pub(super) is_read_only: bool,
    pub(super) store: Store,
    /// Everything committed here, in order; the store follows from it.
    pub(super) log: Vec<Commit>,
    pub(super) conns: BTreeMap<LinkId, Conn>,
    /// Connections by the server's numbers.
    pub(super) numbers: BTreeMap<u64, LinkId>,
    pub(super) locks: Locks,
    /// Connections whose statement waits for a lock, the first come first.
    pub(super) waiting: VecDeque<LinkId>,
    /// Connections that a statement killed.
    pub(super) killed: Vec<(LinkId, bool)>,
    /// Errors that the next statements of clients fail with.
    pub(super) errors: VecDeque<Failure>,
    /// Until when statements take longer, and by which factor.
    pub(super) slow: (Micros, u64),
    /// Until when nothing of the primary gets here.
    pub(super) cut_off_until: Micros,
    pub(super) rng: Rng,
    next_number: u64,
}

/// Whether a connection can go on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Again,
    Rest,
}

/// The first packet of a connection.
pub(super) struct Greeted {
    pub(super) bytes: Vec<u8>,
    pub(super) is_accepted: bool,
}

impl Host {
    pub(super) fn new(id: HostId, spec: HostSpec, is_read_only: bool, rng: &Rng) -> Self {
        let number = u64::try_from(id.0).unwrap_or_default();
        Self {
            id,
            spec,
            is_up: true,
            hangs: false,
            up_since: 0,
            is_read_only,
            store: Store::default(),
            log: Vec::new(),
            conns: BTreeMap::new(),
            numbers: BTreeMap::new(),
            locks: Locks::default(),
            waiting: VecDeque::new(),
            killed: Vec::new(),
            errors: VecDeque::new(),
            slow: (0, 1),
            cut_off_until: 0,
            rng: rng.split("host", number),
            next_number: first_number(id),
        }
    }

    /// The number that it has given last.
    pub(super) fn numbers_so_far(&self) -> u64 {
        self.next_number
    }

    /// It has begun anew, and numbers its connections from the first on.
    pub(super) fn number_anew(&mut self) {
        self.next_number = first_number(self.id);
    }

    pub(super) fn greet(&mut self, link: LinkId, nonce: [u8; 20]) -> Greeted {
        let mut bytes = Vec::new();
        if self.conns.len() >= self.spec.max_connections {
            put_err(&mut bytes, 0, 1040, b"08004", "Too many connections");
            return Greeted { bytes, is_accepted: false };
        }
        self.next_number += 1;
        let mut greeting = greeting(self.spec.flavor, self.next_number, nonce);
        if self.spec.offers_tls {
            greeting.capabilities.insert(Capabilities::SSL);
        }
        greeting.put(&mut bytes, 0);
        self.conns.insert(link, Conn::new(self.next_number, nonce));
        self.numbers.insert(self.next_number, link);
        Greeted { bytes, is_accepted: true }
    }

    /// Takes a connection one step further.
    pub(super) fn step(
        &mut self,
        link: LinkId,
        now: Micros,
        accounts: &BTreeMap<String, AccountSpec>,
        record: &mut Record,
    ) -> Step {
        let Some(conn) = self.conns.get_mut(&link) else {
            return Step::Rest;
        };
        if let Some(work) = &mut conn.work {
            if let Stage::Replying(bytes) = &mut work.stage {
                if work.due > now {
                    return Step::Rest;
                }
                let bytes = std::mem::take(bytes);
                conn.work = None;
                self.send(link, bytes, record);
                return Step::Again;
            }
            if work.stage == Stage::Reading {
                return self.read_file(link, now, record);
            }
            if work.due > now && work.stage == Stage::Serving {
                return Step::Rest;
            }
            return self.work_on(link, now, record);
        }
        let Some((seq, payload)) = conn.take_packet() else {
            if conn.is_deserted {
                self.end(link, now, record);
            }
            return Step::Rest;
        };
        if let Phase::Ready(_) = conn.phase {
            if seq == 0 {
                return self.command(link, &payload, now, accounts, record);
            }
            record.unknown.push(format!("a command in packet {seq}"));
            self.close(link, now, false, record);
            return Step::Rest;
        }
        let mut out = Vec::new();
        let logged_in = conn.login_packet(seq, &payload, self.spec.flavor, accounts, &mut out);
        // A hello that came right behind the packet which asked for TLS.
        if conn.seal.as_ref().is_some_and(|seal| !seal.is_up()) && !conn.inbox.is_empty() {
            let rest = std::mem::take(&mut conn.inbox);
            if let Ok(answer) = conn.take_in(&rest) {
                record.outputs.push(ServerOutput::Send { link, bytes: answer.to_vec() });
            }
        }
        let has_begun = matches!(conn.phase, Phase::Ready(_));
        let packing = Packing::of(conn.capabilities).filter(|_| has_begun);
        self.send(link, out, record);
        if let Some(conn) = self.conns.get_mut(&link).filter(|conn| conn.packing.is_none()) {
            conn.packing = packing;
        }
        match logged_in {
            LoggedIn::Yes => Step::Again,
            LoggedIn::No => {
                self.close(link, now, false, record);
                Step::Rest
            }
        }
    }

    /// How long the next statement takes.
    pub(super) fn service_us(&mut self, now: Micros) -> Micros {
        let (least, most) = self.spec.service_us;
        let usual = self.rng.between(least, most);
        match self.slow {
            (until, factor) if now < until => usual.saturating_mul(factor),
            _ => usual,
        }
    }

    pub(super) fn send(&mut self, link: LinkId, mut bytes: Vec<u8>, record: &mut Record) {
        let Some(conn) = self.conns.get_mut(&link) else {
            return;
        };
        if bytes.is_empty() || conn.is_deserted {
            return;
        }
        let is_garbage = std::mem::take(&mut conn.sends_garbage);
        if is_garbage {
            bytes = garbage(&mut self.rng);
            record.outputs.push(ServerOutput::Nonsense { link });
        }
        if let Some(packing) = &mut conn.packing {
            bytes = packing.pack_answer(&bytes);
            // Inside, the numbers that make it nonsense do not count: it is not to be unpacked.
            if let (true, Some(plain_len)) = (is_garbage, bytes.get_mut(4)) {
                *plain_len ^= 1;
            }
        }
        if conn.seal.as_ref().is_some_and(Seal::is_up) {
            bytes = Seal::seal(&bytes);
        }
        record.outputs.push(ServerOutput::Send { link, bytes });
    }

    /// Closes a connection from this end.
    pub(super) fn close(&mut self, link: LinkId, now: Micros, reset: bool, record: &mut Record) {
        record.outputs.push(ServerOutput::Close { link, reset });
        self.end(link, now, record);
    }

    /// A connection has ended: what it had is undone and free.
    pub(super) fn end(&mut self, link: LinkId, now: Micros, record: &mut Record) {
        let Some(conn) = self.conns.remove(&link) else {
            return;
        };
        self.numbers.remove(&conn.number);
        self.waiting.retain(|waiting| *waiting != link);
        record.mark(&conn.pending.executions, Effect::RolledBack);
        for claim in &conn.held {
            self.locks.give_back(link, *claim);
        }
        if !conn.held.is_empty() {
            self.wake_waiting(now, record);
        }
    }

    /// Something was unlocked: whoever waits looks again.
    pub(super) fn wake_waiting(&mut self, now: Micros, record: &mut Record) {
        for link in &self.waiting {
            record.wake(now, *link);
        }
    }

    /// A transaction takes effect; its name.
    pub(super) fn commit(
        &mut self,
        pending: Pending,
        mark: Option<Mark>,
        now: Micros,
        record: &mut Record,
    ) -> Option<Gtid> {
        if pending.changes.is_empty() {
            return None;
        }
        for (schema, change) in &pending.changes {
            self.store.apply(*schema, *change);
        }
        record.mark(&pending.executions, Effect::Committed);
        let is_counted = |commit: &&Commit| match self.spec.flavor {
            Flavor::MySql => (commit.gtid.host, commit.gtid.mark) == (self.id, mark),
            Flavor::MariaDb => true,
        };
        let last = self.log.iter().rev().find(is_counted);
        let number = last.map_or(0, |commit| commit.gtid.number) + 1;
        let gtid = Gtid { host: self.id, mark, number };
        record.name(&pending.executions, gtid);
        let number = record.commits.len();
        record.commits.push(pending.executions);
        self.log.push(Commit { number, gtid, at: now, changes: pending.changes });
        Some(gtid)
    }

    /// Makes the store anew from the log.
    pub(super) fn rebuild(&mut self) {
        self.store = Store::default();
        for commit in &self.log {
            for (schema, change) in &commit.changes {
                self.store.apply(*schema, *change);
            }
        }
    }
}

/// What the numbers of a host's connections begin behind.
fn first_number(id: HostId) -> u64 {
    (u64::try_from(id.0).unwrap_or_default() + 1) * 1_000_000
}

/// Bytes that are no packets of the protocol.
fn garbage(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        // A packet numbered out of order.
        0 => vec![7, 0, 0, 77, 0, 0, 0, 2, 0, 0, 0],
        // An error that is cut.
        1 => vec![2, 0, 0, 1, 0xFF, 0x28],
        // A packet without anything in it, numbered so that it is no empty text.
        2 => vec![0, 0, 0, 77],
        _ => {
            let mut bytes = vec![0; 40];
            rng.fill(&mut bytes);
            // Short, so that nobody waits for the rest of it: servers' time is not limited.
            // Numbered so that it is no row that nobody can tell from a good one.
            if let [len @ .., seq] = bytes.get_mut(..4).unwrap_or_default() {
                len.copy_from_slice(&[20, 0, 0]);
                *seq |= 0x80;
            }
            bytes
        }
    }
}
