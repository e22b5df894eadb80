//! What a kernel remembers of one worker's sockets, and tells when it is asked.

use std::collections::{BTreeMap, VecDeque};

use trunkline_worker::{
    Peer, Side,
    shell::{self, Connecting, Event, Place, Readiness},
};

use super::{Mail, sealed::WorkerSeal};
use crate::{LinkId, server::Dictionary};

/// A worker's end of a link.
#[derive(Debug)]
pub struct Link {
    /// Which one.
    pub id: LinkId,
    /// Whether what passes is sealed.
    pub is_sealed: bool,
}

impl Link {
    /// An end of this link.
    pub fn new(id: LinkId) -> Self {
        Self { id, is_sealed: false }
    }
}

impl shell::Stream for Link {
    type Seal = WorkerSeal;
}

/// How a worker works with its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes that it reads at once.
    pub scratch_len: usize,
    /// Whether it writes to many links by one call, as by io_uring.
    pub writes_many: bool,
}

/// The links of one worker, by their numbers.
#[derive(Debug)]
pub(super) struct Links {
    /// The worker's number.
    pub(super) index: usize,
    pub(super) spec: LinkSpec,
    pub(super) scratch: Vec<u8>,
    /// What servers say of names.
    pub(super) dictionary: Dictionary,
    /// Version of the configuration that the worker serves by.
    pub(super) version: u64,
    pub(super) is_listening: bool,
    sides: BTreeMap<LinkId, Side>,
    /// How connecting went, until it is over.
    connecting: BTreeMap<LinkId, Connecting>,
    /// Links with news since the last batch, in the order of the news.
    news: Vec<LinkId>,
    edges: BTreeMap<LinkId, Readiness>,
    /// Those of them that this batch has yet to be told of.
    untold: VecDeque<LinkId>,
    /// Whether this batch has yet to be told of the backlog.
    is_knocking: bool,
    /// Connections that nobody has accepted yet.
    backlog: VecDeque<(LinkId, Peer)>,
    mail: VecDeque<Mail>,
}

impl Links {
    pub(super) fn new(index: usize, spec: LinkSpec, dictionary: Dictionary) -> Self {
        Self {
            index,
            spec,
            scratch: vec![0; spec.scratch_len],
            dictionary,
            version: 1,
            is_listening: true,
            sides: BTreeMap::new(),
            connecting: BTreeMap::new(),
            news: Vec::new(),
            edges: BTreeMap::new(),
            untold: VecDeque::new(),
            is_knocking: false,
            backlog: VecDeque::new(),
            mail: VecDeque::new(),
        }
    }

    pub(super) fn has(&self, link: LinkId) -> bool {
        self.sides.contains_key(&link)
    }

    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty() || !self.backlog.is_empty() || !self.mail.is_empty()
    }

    pub(super) fn knock(&mut self, link: LinkId, peer: Peer) {
        self.backlog.push_back((link, peer));
    }

    pub(super) fn next_client(&mut self) -> Option<(LinkId, Peer)> {
        self.backlog.pop_front()
    }

    pub(super) fn post(&mut self, mail: Mail) {
        self.mail.push_back(mail);
    }

    pub(super) fn next_mail(&mut self) -> Option<Mail> {
        self.mail.pop_front()
    }

    pub(super) fn take_mail(&mut self) -> VecDeque<Mail> {
        std::mem::take(&mut self.mail)
    }

    pub(super) fn readable(&mut self, link: LinkId, ended: bool) {
        let edge = self.edge(link);
        edge.readable = true;
        edge.ended |= ended;
    }

    pub(super) fn writable(&mut self, link: LinkId) {
        self.edge(link).writable = true;
    }

    fn edge(&mut self, link: LinkId) -> &mut Readiness {
        if !self.edges.contains_key(&link) {
            self.news.push(link);
        }
        self.edges.entry(link).or_default()
    }

    pub(super) fn begin_connecting(&mut self, link: LinkId) {
        self.connecting.insert(link, Connecting::Pending);
    }

    pub(super) fn connected(&mut self, link: LinkId, outcome: Connecting) {
        if self.has(link) {
            self.connecting.insert(link, outcome);
            self.writable(link);
        }
    }

    pub(super) fn connecting(&self, link: LinkId) -> Connecting {
        self.connecting.get(&link).cloned().unwrap_or(Connecting::Done)
    }

    pub(super) fn add(&mut self, link: LinkId, side: Side) {
        self.sides.insert(link, side);
    }

    pub(super) fn side_of(&self, link: LinkId) -> Option<Side> {
        self.sides.get(&link).copied()
    }

    pub(super) fn remove(&mut self, link: LinkId) {
        self.sides.remove(&link);
        self.connecting.remove(&link);
    }

    /// What has happened up to now is what this batch is told of.
    pub(super) fn begin_batch(&mut self) {
        self.untold.extend(std::mem::take(&mut self.news));
        self.is_knocking = !self.backlog.is_empty();
    }

    /// What a kernel would tell next: of its listener, then of links in the order of their news.
    pub(super) fn next_event(&mut self) -> Option<Event<Link>> {
        if std::mem::take(&mut self.is_knocking) {
            return Some(Event::Knock(0));
        }
        loop {
            let link = self.untold.pop_front()?;
            let readiness = self.edges.remove(&link).unwrap_or_default();
            if let Some(side) = self.side_of(link) {
                return Some(Event::Ready(Place::of(side), readiness));
            }
        }
    }
}
