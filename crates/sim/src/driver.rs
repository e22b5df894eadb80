//! One worker with its shell, as the real driver has them, over virtual links in place of the
//! kernel's sockets. What a batch does and in which order is the shell's own.

mod io;
mod links;
mod mail;
mod peers;
mod requests;
mod sealed;

use trunkline_protocol::packet::greeting::NONCE_LEN;
use trunkline_stats::DigestQuery;
use trunkline_topology::Server;
use trunkline_worker::{
    Now, Peer, Side, Worker, WorkerOptions,
    shell::{Connecting, Shell},
};

use crate::{
    HostId, LinkId, Micros,
    rng::Rng,
    server::Dictionary,
    trace::Trace,
    wire::{End, Wire},
};
use io::Around;
use links::Links;
pub use links::{Link, LinkSpec};
pub use mail::{Job, Mail, Wish, WorkerMail};
pub use peers::{name_of, peer_of};

/// The clock's value at the begin of a run, s since 1970.
const UNIX_SEC: u64 = 1_700_000_000;
/// The worker's clock at the begin of a run, µs.
const STARTED_US: u64 = 1_000_000;

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

/// One worker and its sockets.
pub struct Driver {
    shell: Shell<Link>,
    links: Links,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("links", &self.links).finish_non_exhaustive()
    }
}

impl Driver {
    /// A driver of a worker with links as `spec` says; `dictionary` is what servers say of names.
    pub fn new(
        worker: Worker,
        options: WorkerOptions,
        spec: LinkSpec,
        dictionary: Dictionary,
    ) -> Self {
        let links = Links::new(options.index, spec, dictionary);
        Self { shell: Shell::new(worker, options), links }
    }

    /// The worker, to look at.
    pub fn worker(&self) -> &Worker {
        self.shell.worker()
    }

    /// The worker's statistics and lists.
    pub fn report(&mut self) -> trunkline_stats::Report {
        self.shell.worker().report(DigestQuery::NONE)
    }

    /// Version of the configuration that the worker serves by.
    pub fn version(&self) -> u64 {
        self.links.version
    }

    /// Whether new clients are taken.
    pub fn is_listening(&self) -> bool {
        self.links.is_listening
    }

    /// Whether the worker has stopped; nothing happens here any more.
    pub fn is_stopped(&self) -> bool {
        self.shell.is_stopped()
    }

    /// Sockets of both kinds, with their links.
    pub fn open(&self) -> impl Iterator<Item = (Side, LinkId)> {
        self.shell.streams().map(|(side, link)| (side, link.id))
    }

    /// Bytes that wait for a socket.
    pub fn pending_len(&mut self, side: Side) -> usize {
        self.shell.worker_mut().pending(side).len()
    }

    /// Whether this worker has the link's socket.
    pub fn holds(&self, link: LinkId) -> bool {
        self.links.has(link)
    }

    /// A client's connection waits to be accepted.
    pub fn knock(&mut self, link: LinkId, peer: Peer) {
        self.links.knock(link, peer);
    }

    /// Logins that have taken a place so far, though some were refused for their user's limit.
    pub fn logins(&mut self) -> u64 {
        let counters = self.shell.worker_mut().counters_mut();
        counters.clients_authenticated + counters.clients_refused_user_limit
    }

    /// Bytes or an end came.
    pub fn readable(&mut self, link: LinkId, ended: bool) {
        self.links.readable(link, ended);
    }

    /// There is room to write.
    pub fn writable(&mut self, link: LinkId) {
        self.links.writable(link);
    }

    /// A connection came up, or did not.
    pub fn connected(&mut self, link: LinkId, outcome: Connecting) {
        self.links.connected(link, outcome);
    }

    /// Mail comes in; gives it back when nobody will ever read it.
    pub fn post(&mut self, mail: Mail) -> Option<Mail> {
        if self.is_stopped() {
            return Some(mail);
        }
        self.links.post(mail);
        None
    }

    /// Ends what mail brings that nobody will ever read; its link, to be closed.
    pub fn give_up(&mut self, mail: WorkerMail) -> Option<LinkId> {
        self.shell.give_up(mail).map(|link| link.id)
    }

    /// Whether there is something to do before the next tick.
    pub fn has_work(&self) -> bool {
        self.shell.has_more() || self.links.has_news()
    }

    /// How long the worker may be left alone, µs.
    pub fn tick_within_us(&self) -> Micros {
        self.shell.wait_within_ms() * 1_000
    }

    /// How long it leaves its links alone after a batch, µs.
    pub fn pause_us(&mut self) -> Micros {
        self.shell.pause_us()
    }

    /// One turn of the loop.
    pub fn batch(&mut self, out: &mut Outside<'_>) {
        if self.is_stopped() {
            return;
        }
        self.links.begin_batch();
        let now = now_of(out.now);
        let mut around = Around { out, links: &mut self.links };
        self.shell.batch(&mut around, now);
        // Nobody reads what is left for spans.
        self.shell.worker_mut().spans_mut().clear();
        if self.shell.is_stopped() {
            self.close_everything(out);
        }
    }

    /// The process is over: what is left is closed by the kernel.
    fn close_everything(&mut self, out: &mut Outside<'_>) {
        let mut around = Around { out, links: &mut self.links };
        self.shell.close_everything(&mut around);
        around.refuse_backlog();
        for mail in self.links.take_mail() {
            if let Mail::Worker(mail) = mail
                && let Some(link) = self.shell.give_up(mail)
            {
                out.close(link.id);
            }
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

/// A nonce has no byte that ends a text, as on real servers.
fn nonce(rng: &mut Rng) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    rng.fill(&mut nonce);
    nonce.iter_mut().for_each(|byte| *byte = 1 + (*byte % 127));
    nonce
}
