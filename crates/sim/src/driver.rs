//! One worker with its sockets, played: does with virtual links what the real driver
//! (`crates/proxy/src/driver.rs`) does with the kernel's sockets, in the same order.
mod actions;
mod connect;
mod mail;
mod peers;
mod sealed;
mod sockets;

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use trunkline_cache::{SharedAsk, SharedStore};
use trunkline_catalog::{DefinitionTicket, Inquiry};
use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::{Flavor, Greeting, NONCE_LEN};
use trunkline_stats::{DigestQuery, SessionQuery};
use trunkline_topology::{HostAnswer, Secret, Server, ServerHealth, ServerKey};
use trunkline_worker::{
    Action, CatalogAsk, ClientId, ConnId, KillAnswer, KillAsker, KillRequest, MovedClient,
    MovedConn, Now, Peer, Side, Worker, by_worker,
};

use crate::{
    HostId, LinkId, Micros,
    rng::Rng,
    sealing::Seal,
    server::Dictionary,
    trace::Trace,
    wire::{End, ReadBytes, Wire},
};
pub use connect::Connecting;
pub use mail::{Job, Mail, Wish};
pub use peers::{name_of, peer_of};
use sockets::{Socket, Sockets};

/// Clients accepted in one batch, as the real driver has it.
const ACCEPTS_PER_BATCH: usize = 256;
/// Reads from one socket in one batch, as the real driver has it.
const READS_PER_BATCH: usize = 16;
/// The clock's value at the begin of a run, s since 1970.
const UNIX_SEC: u64 = 1_700_000_000;
/// The worker's clock at the begin of a run, µs.
const STARTED_US: u64 = 1_000_000;

/// What an operator asks for of the sessions.
const SESSIONS: SessionQuery = SessionQuery { pinned_only: false, rows_max: 4 };

/// The world around a batch.
#[derive(Debug)]
pub struct Outside<'a> {
    /// When the batch runs.
    pub now: Micros,
    /// All links.
    pub wire: &'a mut Wire,
    /// Where things are written down.
    pub trace: &'a mut Trace,
    /// The driver's own chance: nonces.
    pub rng: &'a mut Rng,
    /// Which host listens where.
    pub hosts: &'a dyn Hosts,
    /// What is to be done when the batch is over.
    pub wishes: Vec<Wish>,
}

impl Outside<'_> {
    fn close(&mut self, link: LinkId) {
        self.wire.close(link, End::Proxy, self.now);
        self.wishes.push(Wish::Closed(link));
    }
}

/// Finds the host behind an address of the configuration.
pub trait Hosts: std::fmt::Debug {
    /// The host that a server's address leads to; `None` when it leads nowhere.
    fn host_of(&self, server: &Server) -> Option<HostId>;
    /// What links to this host are like.
    fn pipe_to(&self, host: HostId) -> crate::wire::PipeSpec;
}

/// What the kernel tells of a socket.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    readable: bool,
    writable: bool,
    ended: bool,
}

/// One worker and its sockets.
pub struct Driver {
    worker: Worker,
    index: usize,
    workers: usize,
    sockets: Sockets,
    /// Sockets with news since the last batch, in the order of the news.
    news: Vec<LinkId>,
    edges: BTreeMap<LinkId, Edge>,
    /// Connections that nobody has accepted yet.
    backlog: VecDeque<(LinkId, Peer)>,
    mail: VecDeque<Mail>,
    unfinished: Vec<Side>,
    /// What one read brings at most.
    scratch_len: usize,
    /// What servers say of names.
    dictionary: Dictionary,
    /// Version of the configuration that the worker serves by.
    version: u64,
    is_listening: bool,
    is_stopped: bool,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver of worker `index` among `workers`, that reads `scratch_len` bytes at once.
    pub fn new(
        worker: Worker,
        index: usize,
        workers: usize,
        scratch_len: usize,
        dictionary: Dictionary,
    ) -> Self {
        Self {
            worker,
            index,
            workers,
            sockets: Sockets::default(),
            news: Vec::new(),
            edges: BTreeMap::new(),
            backlog: VecDeque::new(),
            mail: VecDeque::new(),
            unfinished: Vec::new(),
            scratch_len,
            dictionary,
            version: 1,
            is_listening: true,
            is_stopped: false,
        }
    }

    /// The worker, to look at.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The worker's statistics and lists.
    pub fn report(&mut self) -> trunkline_stats::Report {
        self.worker.report(DigestQuery::NONE)
    }

    /// Version of the configuration that the worker serves by.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether new clients are taken.
    pub fn is_listening(&self) -> bool {
        self.is_listening
    }

    /// Whether the worker has stopped; nothing happens here any more.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Sockets of both kinds, with their links.
    pub fn open(&self) -> impl Iterator<Item = (Side, LinkId)> {
        self.sockets.iter().map(|socket| (socket.side, socket.link))
    }

    /// Bytes that wait for a socket.
    pub fn pending_len(&mut self, side: Side) -> usize {
        self.worker.pending(side).len()
    }

    /// Whether this worker has the link's socket.
    pub fn holds(&self, link: LinkId) -> bool {
        self.sockets.side_of(link).is_some()
    }

    /// A client's connection waits to be accepted.
    pub fn knock(&mut self, link: LinkId, peer: Peer) {
        self.backlog.push_back((link, peer));
    }

    /// Connections that wait to be accepted.
    pub fn knocking(&self) -> u64 {
        u64::try_from(self.backlog.len()).unwrap_or(u64::MAX)
    }

    /// Bytes or an end came.
    pub fn readable(&mut self, link: LinkId, ended: bool) {
        let edge = self.edge(link);
        edge.readable = true;
        edge.ended |= ended;
    }

    /// There is room to write.
    pub fn writable(&mut self, link: LinkId) {
        self.edge(link).writable = true;
    }

    fn edge(&mut self, link: LinkId) -> &mut Edge {
        if !self.edges.contains_key(&link) {
            self.news.push(link);
        }
        self.edges.entry(link).or_default()
    }

    /// A connection came up, or did not.
    pub fn connected(&mut self, link: LinkId, outcome: Connecting) {
        if let Some(socket) = self.sockets.by_link(link) {
            socket.connecting = outcome;
            self.writable(link);
        }
    }

    /// Mail comes in; gives it back when nobody will ever read it.
    pub fn post(&mut self, mail: Mail) -> Option<Mail> {
        if self.is_stopped {
            return Some(mail);
        }
        self.mail.push_back(mail);
        None
    }

    /// A client that nobody takes in any more is gone.
    pub fn lose_client(&mut self, moved: MovedClient) {
        self.worker.client_lost(moved);
    }

    /// Whether there is something to do before the next tick.
    pub fn has_work(&self) -> bool {
        !self.news.is_empty()
            || !self.backlog.is_empty()
            || !self.mail.is_empty()
            || !self.unfinished.is_empty()
    }

    /// How long the worker may be left alone, µs.
    pub fn tick_within_us(&self) -> Micros {
        self.worker.tick_within_ms() * 1_000
    }

    /// How long it leaves its links alone after a batch, µs.
    pub fn pause_us(&mut self) -> Micros {
        self.worker.pause_us()
    }

    /// One turn of the loop.
    pub fn batch(&mut self, out: &mut Outside<'_>) {
        if self.is_stopped {
            return;
        }
        self.worker.begin_batch(now_of(out.now));
        self.worker.counters_mut().batches += 1;
        for side in std::mem::take(&mut self.unfinished) {
            self.read(out, side);
        }
        self.accept(out);
        for link in std::mem::take(&mut self.news) {
            let edge = self.edges.remove(&link).unwrap_or_default();
            self.event(out, link, edge);
        }
        self.open_mail(out);
        self.worker.tick();
        self.settle(out);
        if self.is_stopped {
            self.close_everything(out);
        }
    }

    /// The process is over: what is left is closed by the kernel.
    fn close_everything(&mut self, out: &mut Outside<'_>) {
        for link in self.sockets.drain() {
            out.close(link);
        }
        self.refuse_backlog(out);
        for mail in self.mail.drain(..) {
            match mail {
                Mail::HandedOver(moved, link, _) => {
                    moved.give_up();
                    out.close(link);
                }
                Mail::MovedClient(moved, link, ..) => {
                    self.worker.client_lost(*moved);
                    out.close(link);
                }
                _ => {}
            }
        }
    }

    fn event(&mut self, out: &mut Outside<'_>, link: LinkId, edge: Edge) {
        let Some(socket) = self.sockets.by_link(link) else {
            return;
        };
        let side = socket.side;
        if socket.connecting != Connecting::Done || socket.is_connecting {
            return self.check_connecting(out, side);
        }
        socket.has_ended |= edge.ended;
        if edge.writable && socket.is_full {
            socket.is_full = false;
            self.write(out, side);
        }
        if edge.readable || edge.ended {
            self.read(out, side);
        }
    }

    fn accept(&mut self, out: &mut Outside<'_>) {
        for _ in 0..ACCEPTS_PER_BATCH {
            let Some((link, mut peer)) = self.backlog.pop_front() else {
                return;
            };
            peer.tls = self.worker.listener_tls(peer.listener);
            let mut nonce = [0; NONCE_LEN];
            out.rng.fill(&mut nonce);
            // A nonce has no byte that ends a text, as on real servers.
            nonce.iter_mut().for_each(|byte| *byte = 1 + (*byte % 127));
            match self.worker.accept(Arc::new(peer), nonce) {
                Some(id) => self.add(out, Socket::new(link, Side::Client(id))),
                None => out.close(link),
            }
        }
    }

    /// Registers a socket; what it has already is news.
    fn add(&mut self, out: &mut Outside<'_>, socket: Socket) {
        let link = socket.link;
        self.sockets.insert(socket);
        if out.wire.is_readable(link, End::Proxy) {
            let ended = out.wire.has_ended(link, End::Proxy);
            self.readable(link, ended);
        }
    }

    fn read(&mut self, out: &mut Outside<'_>, side: Side) {
        for _ in 0..READS_PER_BATCH {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_paused || socket.is_connecting {
                socket.is_readable = true;
                return;
            }
            let (has_ended, link) = (socket.has_ended, socket.link);
            self.worker.counters_mut().socket_reads += 1;
            match out.wire.read(link, End::Proxy, self.scratch_len, out.now) {
                ReadBytes::End => return self.ended(out, side, "the connection was closed"),
                ReadBytes::Some(bytes) => {
                    self.take_in(out, side, &bytes);
                    if bytes.len() < self.scratch_len && !has_ended {
                        return;
                    }
                }
                ReadBytes::Nothing => return,
                ReadBytes::Reset => return self.ended(out, side, "connection reset by peer"),
            }
            // What was just read may have paused this socket.
            self.act(out);
        }
        self.unfinished.push(side);
    }

    fn ended(&mut self, out: &mut Outside<'_>, side: Side, reason: &str) {
        if let Some(socket) = self.sockets.remove(side) {
            out.close(socket.link);
            out.trace.note(out.now, || format!("worker {} closes {side:?}: {reason}", self.index));
        }
        match side {
            Side::Client(id) => self.worker.client_closed(id),
            Side::Server(id) => self.worker.server_closed(id, reason),
        }
    }

    /// Carries out actions and writes, until nothing is left to do.
    fn settle(&mut self, out: &mut Outside<'_>) {
        loop {
            self.act(out);
            let Some(side) = self.worker.next_dirty() else {
                break;
            };
            self.write(out, side);
        }
        self.worker.let_leave();
        self.act(out);
    }

    fn write(&mut self, out: &mut Outside<'_>, side: Side) {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_full || socket.is_connecting {
                return;
            }
            let link = socket.link;
            let is_sealed = socket.seal.is_some();
            // Before the hello is answered there is nobody to tell anything.
            if socket.seal.as_ref().is_some_and(|seal| !seal.is_up()) && !socket.is_closing {
                return;
            }
            let pending = self.worker.pending(side);
            if pending.is_empty() {
                break;
            }
            let wanted = pending.len();
            self.worker.counters_mut().socket_writes += 1;
            let pending = self.worker.pending(side);
            let sent = match is_sealed {
                true => Cow::Owned(Seal::seal(pending)),
                false => Cow::Borrowed(pending),
            };
            match out.wire.write(link, End::Proxy, &sent, out.now) {
                Ok(len) => {
                    let written = pending.get(..len).unwrap_or_default();
                    out.trace.bytes(out.now, link, End::Proxy, out.wire.far(link), written);
                    if len < wanted {
                        socket.is_full = true;
                    }
                    self.worker.wrote(side, len);
                    if len < wanted {
                        return;
                    }
                }
                Err(_) => return self.write_failed(out, side),
            }
        }
        if self.sockets.get_mut(side).is_some_and(|socket| socket.is_closing) {
            self.ended(out, side, "closed");
        }
    }

    fn write_failed(&mut self, out: &mut Outside<'_>, side: Side) {
        if let Some(socket) = self.sockets.get_mut(side) {
            socket.has_ended = true;
        }
        self.read(out, side);
        if self.sockets.get_mut(side).is_some() {
            self.ended(out, side, "broken pipe");
        }
    }

    fn act(&mut self, out: &mut Outside<'_>) {
        let mut actions = self.worker.take_actions();
        for action in actions.drain(..) {
            self.carry_out(out, action);
        }
        self.worker.recycle_actions(actions);
    }

    /// The listener is closed: the kernel resets who was not accepted.
    fn refuse_backlog(&mut self, out: &mut Outside<'_>) {
        for (link, _) in self.backlog.drain(..) {
            out.wire.reset(link, End::Proxy, out.now);
        }
    }
}

/// The worker's clock at a virtual time.
pub fn now_of(at: Micros) -> Now {
    let us = STARTED_US + at;
    Now { us, unix_sec: UNIX_SEC + us / 1_000_000 }
}

/// The moment that logs give, µs of Unix time.
fn unix_us_of(at: Micros) -> u64 {
    UNIX_SEC * 1_000_000 + STARTED_US + at
}
