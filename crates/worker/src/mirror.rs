//! Mirroring: a copy of a statement runs on another hostgroup, and nobody waits for it.
//!
//! A copy is a client without a socket ([`Client::is_mirror`]): it has its original's user and
//! state, runs the one statement as any other client would, and is gone. Copies wait in a queue
//! that is bounded in number and bytes, and few of them run at once; what finds no place is
//! dropped. An original never waits for its copy nor hears of it. `docs/decisions/0022`.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

use foldhash::fast::FixedState;
use trunkline_config::Snapshot;
use trunkline_protocol::{
    codec::frame::split_packet,
    response::{Relay, ReplyFormat, ResponseShape},
};
use trunkline_rules::{Effects, Rewrites};
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{Depends, TransactionEffect};
use trunkline_topology::{Address, HostgroupId, Server, is_this_host};

use crate::{
    accept::arrival::Arrival,
    action::Peer,
    cache::capture::{Capture, numbered},
    clients::Copies,
    clients::client::Frontend,
    clients::client::{
        Client, Lease, LoggedIn, Origin, Phase, Purpose, Session, SessionSettings, Stage, Statement,
    },
    clients::session::ClientEntry,
    prepared::ClientStmts,
    rooms::{Commands, Core, Exchange, Lender},
    routing::asker::Asker,
    routing::decide::{Case, decide},
    routing::route::Route,
    routing::ruling::Ruling,
    shared::UserPlace,
    statement::analysis::Known,
    statement::proof::Proven,
};

/// What a session may have on its connection that changes what its statements do, and that a copy
/// has not: its table of the same name is a base table.
const OWN_STATE: [PinReason; 10] = [
    PinReason::TemporaryTable,
    PinReason::NextTransaction,
    PinReason::UserVariable,
    PinReason::UnknownVariable,
    PinReason::ServerState,
    PinReason::Routine,
    PinReason::UnknownName,
    PinReason::Role,
    PinReason::Connection,
    PinReason::Other,
];
/// A longer command is not mirrored, bytes; ProxySQL has the same limit.
pub(crate) const COMMAND_LEN_MAX: usize = 15 << 20;
/// Bytes of commands that may wait on one worker.
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Answers longer than this are not compared, bytes.
const COMPARED_LEN_MAX: usize = 1 << 20;
/// Statements whose copy, or original, has not been answered yet; beyond them all are forgotten.
pub(crate) const HALVES_MAX: usize = 4_096;
/// Copies begun in one batch.
const BEGUN_MAX: usize = 64;

/// What a rule or a hint says of mirroring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MirrorOrder {
    /// Where the copy goes; `None` to the user's default hostgroup.
    hostgroup: Option<HostgroupId>,
    /// The flag that the copy's own rules begin with.
    flag: Option<u32>,
    /// Whether the answers are compared.
    compares: bool,
    /// Whether its client says so, who may have nothing written to readers.
    is_hint: bool,
}

impl MirrorOrder {
    /// What rules say; `None` when there is to be no copy.
    pub(crate) fn of_effects(effects: &Effects) -> Option<Self> {
        let Effects { mirror_hostgroup: hostgroup, mirror_flag: flag, .. } = *effects;
        let compares = effects.mirror_compares == Some(true);
        let order = Self { hostgroup, flag, compares, is_hint: false };
        (hostgroup.is_some() || flag.is_some()).then_some(order)
    }

    /// What a hint makes of it.
    pub(crate) fn hinted(before: Option<Self>, hostgroup: u32) -> Self {
        let compares = before.is_some_and(|before| before.compares);
        Self { hostgroup: Some(HostgroupId(hostgroup)), flag: None, compares, is_hint: true }
    }
}

/// One of two answers that are to be compared.
#[derive(Debug)]
pub(crate) struct MirrorSide {
    pub(crate) ticket: u64,
    pub(crate) is_copy: bool,
    pub(crate) hostgroups: (HostgroupId, HostgroupId),
    /// What has come of the answer.
    pub(crate) copy: Capture,
}

impl MirrorSide {
    fn new(ticket: u64, is_copy: bool, hostgroups: (HostgroupId, HostgroupId)) -> Box<Self> {
        Box::new(Self { ticket, is_copy, hostgroups, copy: Capture::new(COMPARED_LEN_MAX) })
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) is_copy: bool,
    pub(crate) rows: u64,
    pub(crate) rows_affected: u64,
    pub(crate) error: Option<u16>,
    /// Of the rows; `None` when they were too many.
    pub(crate) checksum: Option<u64>,
    pub(crate) took_us: u64,
}

/// What a copy is of.
#[derive(Debug)]
pub(crate) struct CopyOf {
    /// Where its original ran.
    pub(crate) original: HostgroupId,
    /// What hostgroups were then.
    pub(crate) snapshot: Arc<Snapshot>,
}

/// A copy that waits.
#[derive(Debug)]
struct Job {
    peer: Arc<Peer>,
    session: Box<Session>,
    statement: Box<Statement>,
}

/// One worker's copies.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    queue: VecDeque<Job>,
    queued_bytes: usize,
    next_ticket: u64,
    pub(crate) halves: HashMap<u64, Seen, FixedState>,
}

impl Mirrors {
    /// How many wait to run.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }
}

impl Commands {
    /// Makes a copy of a statement that goes its way, if its rules say so.
    pub(crate) fn mirror(
        &mut self,
        client: &mut Client,
        route: &Route,
        statement: &mut Statement,
        text_len: usize,
    ) {
        let (Route::Hostgroup(original) | Route::Reader(original) | Route::Lease(original, _)) =
            route
        else {
            return;
        };
        let Some(order) = statement.target.directives.mirror else {
            return;
        };
        if !matches!(statement.command.purpose, Purpose::Query | Purpose::Execute) {
            return;
        }
        let place = self.mirror_place(client, statement, text_len, order);
        // Its names may mean something else there.
        let place = place.zip(statement.meaning.known.clone()).map(|(place, known)| {
            (
                place,
                self.exchange.core.proof_for(
                    &client.session,
                    &known,
                    statement.prepared.stmt_id,
                    place,
                ),
                known,
            )
        });
        let place = place.filter(|(place, proven, known)| {
            let is_read = statement.meaning.is_read && proven.proof.reads;
            let replication = &self.exchange.core.env.snapshot.replication;
            let is_reader = replication.iter().any(|group| group.reader_hostgroup == *place);
            (is_read || !order.is_hint || !is_reader)
                && self.exchange.core.env.may_copy(statement, known, is_read, (*original, *place))
        });
        let Some((hostgroup, proven, known)) = place else {
            self.exchange.core.fx.stats.counters.mirrors_skipped += 1;
            return;
        };
        if client.has_state_of_its_own() {
            self.exchange.core.fx.stats.counters.mirrors_skipped += 1;
            return;
        }
        let len = statement.command.frames.len();
        let session = match self.exchange.has_room_for_copy(len) {
            true => self.exchange.core.copied_session(client, statement),
            false => None,
        };
        let peer = Arc::clone(&client.origin.peer);
        let (Some(session), None) = (session, self.exchange.core.env.stopping) else {
            self.exchange.core.fx.stats.counters.mirrors_dropped += 1;
            return;
        };
        let mut copy = self.exchange.core.copy_of(statement, known, proven);
        copy.target.hostgroup = hostgroup;
        let snapshot = Arc::clone(&self.exchange.core.env.snapshot);
        copy.beside.copy_of = Some(Box::new(CopyOf { original: *original, snapshot }));
        if order.compares {
            let ticket = self.exchange.mirrors.next_ticket;
            self.exchange.mirrors.next_ticket = ticket.wrapping_add(1);
            let hostgroups = (*original, hostgroup);
            statement.beside.mirrored = Some(MirrorSide::new(ticket, false, hostgroups));
            copy.beside.mirrored = Some(MirrorSide::new(ticket, true, hostgroups));
        }
        self.exchange.mirrors.queued_bytes += len;
        self.exchange.mirrors.queue.push_back(Job { peer, session, statement: copy });
        self.exchange.core.fx.stats.counters.mirrors_queued += 1;
    }

    /// Where a copy goes: where its order says, or where its own rules send it.
    fn mirror_place(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        text_len: usize,
        order: MirrorOrder,
    ) -> Option<HostgroupId> {
        if statement.command.frames.len() > COMMAND_LEN_MAX {
            return None;
        }
        let known = statement.meaning.known.as_deref()?;
        let session = &*client.session;
        let Some(flag) = order.flag else {
            let ruling = Ruling::default();
            let case = Case::of(&self.exchange.core.env, session, &ruling);
            return decide(&case.of_copy(order.hostgroup)).hostgroup();
        };
        let env = &self.exchange.core.env;
        let studied = self.exchange.statements.analyses.studied();
        let mirrored = studied.and_then(|studied| studied.take_mirrored());
        if let Some(mirrored) = mirrored.filter(|mirrored| mirrored.flag == flag) {
            // It was a long text, of which the rules were asked beside the worker.
            self.router.hits.add(&mirrored.decision);
            let ruling = Ruling::of_copy(&mirrored.decision);
            return decide(&Case::of(env, session, &ruling).of_copy(order.hostgroup)).hostgroup();
        }
        let len = statement.command.frames.len();
        let prepared = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let query = match prepared {
            Some(stmt) => &*stmt.entry.text,
            None => statement.command.frames.get(len.checked_sub(text_len)?..)?,
        };
        let asker = Asker { flag, ..Asker::of(&client.origin.peer, session) };
        let chance = self.router.chance;
        let has_digests = env.snapshot.settings.query_digests;
        let mut question = asker.question(has_digests, known, query, chance);
        question.rewrites = Rewrites::None;
        let hits = &mut self.router.hits;
        let decision = self.router.decisions.decide(&env.snapshot.rules, &question, hits);
        let ruling = Ruling::of_copy(decision);
        decide(&Case::of(env, session, &ruling).of_copy(order.hostgroup)).hostgroup()
    }
}

impl Client {
    /// Whether a copy of its statement would do something else, as it lacks what the session has.
    fn has_state_of_its_own(&self) -> bool {
        let has = |lease: &Lease| OWN_STATE.iter().any(|reason| lease.pins.has(*reason));
        self.session.leases.iter().any(has)
    }
}

impl Core {
    /// A copy of a statement, of which this is proven where the copy runs.
    fn copy_of(
        &mut self,
        statement: &Statement,
        known: Rc<Known>,
        proven: Proven,
    ) -> Box<Statement> {
        let mut copy = self.statement_like(&statement.command, ResponseShape::Query);
        copy.command.attributes = statement.command.attributes.clone();
        copy.prove(&known, proven);
        copy.meaning.is_read &= statement.meaning.is_read;
        copy.meaning.known = Some(known);
        copy.prepared.stmt_id = statement.prepared.stmt_id;
        copy.target.directives.timeout_ms = statement.target.directives.timeout_ms;
        copy
    }

    /// Copies that may run at once on this worker.
    fn mirrors_max(&self) -> usize {
        self.env
            .snapshot
            .settings
            .mirror_max_concurrency
            .div_ceil(self.env.options.workers.max(1))
            .max(1)
    }

    /// The session of a copy: the original's user and state, nothing of its past.
    fn copied_session(
        &mut self,
        client: &mut Client,
        statement: &Statement,
    ) -> Option<Box<Session>> {
        let session = &*client.session;
        let prepared = match statement.prepared.stmt_id {
            None => ClientStmts::default(),
            Some(stmt_id) => ClientStmts::copy_of(session.prepared.get(stmt_id)?)?,
        };
        let mut state = (*session.settings.state).clone();
        // Nobody would commit.
        state.unset_variable("autocommit");
        let login = LoggedIn {
            user: Arc::clone(&session.login.user),
            place: Some(UserPlace::uncounted()),
            account: session.login.account,
            credential: Arc::clone(&session.login.credential),
            capabilities: session.login.capabilities,
            attributes: Box::default(),
            zstd_level: session.login.zstd_level,
            format: session.login.format,
            handshake_charset: session.login.handshake_charset.clone(),
        };
        let modes = session.settings.modes;
        let status = self.begin_status();
        let settings = SessionSettings::new(self.servers.states.intern(state), modes, status);
        let mut copy = Session::new(login, settings);
        copy.prepared = prepared;
        Some(Box::new(copy))
    }
}

impl Exchange {
    /// Whether one more copy, of so many bytes, may wait.
    fn has_room_for_copy(&self, len: usize) -> bool {
        let length_max = self.core.env.snapshot.settings.mirror_max_queue_length;
        let queue_max = length_max.div_ceil(self.core.env.options.workers.max(1));
        self.mirrors.queue.len() < queue_max.max(self.core.mirrors_max())
            && self.mirrors.queued_bytes + len <= QUEUED_BYTES_MAX
    }

    /// Copies that are over go, and others begin.
    #[inline]
    pub(crate) fn pump_mirrors(&mut self) {
        if self.core.clients.copies.over.is_empty() && self.mirrors.queue.is_empty() {
            return;
        }
        for _ in 0..BEGUN_MAX {
            for id in std::mem::take(&mut self.core.clients.copies.over) {
                self.remove_client(id);
            }
            if self.core.clients.copies.running >= self.core.mirrors_max() {
                return;
            }
            let Some(job) = self.mirrors.queue.pop_front() else {
                return;
            };
            self.begin_copy(job);
        }
    }

    /// Whether there is something for [`pump_mirrors`](Self::pump_mirrors) to do at once.
    pub(crate) fn has_mirrors_to_pump(&self) -> bool {
        let Copies { running, over } = &self.core.clients.copies;
        let has_room = *running < self.core.mirrors_max();
        !over.is_empty() || !self.mirrors.queue.is_empty() && has_room
    }

    fn begin_copy(&mut self, job: Job) {
        let Job { peer, session, mut statement } = job;
        self.mirrors.queued_bytes -= statement.command.frames.len();
        self.core.clients.copies.running += 1;
        statement.command.begun_us = self.core.env.now.us;
        statement.deadline_ms = match statement.target.directives.timeout_ms {
            0 => 0,
            ms => self.core.env.now.ms() + ms,
        };
        let active_ms = self.core.env.now.ms();
        let origin = Origin {
            peer,
            number: 0,
            nonce: [0; 20],
            arrival: Arrival::Admitted,
            half_open: None,
            _address_place: None,
            tls: None,
            proof: None,
            has_place: false,
        };
        let id = self.core.clients.table.insert_with(|id| {
            let mut front = Frontend::new(id, origin, Phase::Idle, active_ms);
            front.is_mirror = true;
            ClientEntry::LoggedIn(Client { front, session, former: None })
        });
        self.with_client(id, |exchange, client| {
            exchange.core.clients.begin(client, statement);
            exchange.acquire(client);
        });
    }

    /// The worker stops: what waits does not begin any more, nor is it sent.
    pub(crate) fn drop_mirrors(&mut self) {
        let dropped = std::mem::take(&mut self.mirrors.queue);
        self.core.fx.stats.counters.mirrors_dropped += dropped.len() as u64;
        self.mirrors.queued_bytes = 0;
        let waits = |client: &Client| {
            client.is_mirror
                && matches!(&client.phase, Phase::Running(statement)
                    if matches!(statement.stage, Stage::Held(_) | Stage::Queued))
        };
        for id in self.core.clients.ids_where(waits) {
            self.with_client(id, Self::close_client);
        }
    }
}

/// Whether a statement means the same by itself, outside of its session's course.
pub(crate) fn is_fit(known: &Known) -> bool {
    let analysis = &known.analysis;
    analysis.statements == 1
        && analysis.is_complete
        && analysis.effects.is_empty()
        && analysis.transaction == TransactionEffect::None
        && (analysis.depends == Depends::empty() || analysis.depends == Depends::UNKNOWN_FUNCTION)
}

/// A sum over the rows of an answer with one result, in their order; `None` when there are none to
/// sum. Definitions and flags are left out: servers of one family and version differ in them.
pub(crate) fn checksum(bytes: &[u8], format: ReplyFormat) -> Option<u64> {
    let bytes = numbered(bytes, format)?;
    let plain = ReplyFormat { deprecate_eof: false, ..format };
    let mut relay = Relay::new(ResponseShape::Query, format, plain, true).numbered_from(1);
    relay.set_without_cursor();
    let mut answer = Vec::with_capacity(bytes.len());
    relay.feed(&bytes, &mut answer).ok()?;
    if relay.outcome().result_sets != 1 {
        return None;
    }
    let hasher = FixedState::default();
    let (mut rest, mut ends, mut sum) = (answer.as_slice(), 0, 0_u64);
    while let Some((_, payload, after)) = split_packet(rest) {
        rest = after;
        match payload {
            [0xFE, _, _, _, _] => ends += 1,
            row if ends == 1 => sum = sum.rotate_left(5) ^ hasher.hash_one(row),
            _ => {}
        }
    }
    Some(sum)
}
/// Whether two entries may stand for one server: an address of both, whatever they are called. A
/// Unix socket may be that of any server on this machine.
fn may_be_same(one: &Server, other: &Server) -> bool {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let addresses = |server: &Server| -> Vec<(IpAddr, Option<u16>)> {
        let Address::Tcp { port, .. } = &server.key.address else { return vec![(here, None)] };
        let ips = server.resolved.iter().map(SocketAddr::ip).chain(server.key.address.literal());
        let ips = ips.map(|ip| if is_this_host(ip) { here } else { ip });
        ips.map(|ip| (ip, Some(*port))).collect()
    };
    let theirs = addresses(other);
    let is_theirs = |(ip, port): (IpAddr, Option<u16>)| {
        let meets = |(other, its): &(IpAddr, Option<u16>)| {
            *other == ip && (*its == port || its.is_none() || port.is_none())
        };
        theirs.iter().any(meets)
    };
    let is_socket = |server: &Server| matches!(server.key.address, Address::Unix(_));
    one.key.address == other.key.address
        || !(is_socket(one) && is_socket(other)) && addresses(one).into_iter().any(is_theirs)
}

/// The hostgroups that may get a write to this one: those of its replication, those that have a
/// server in common with any of them, and so on.
pub(crate) fn kin_of(snapshot: &Snapshot, first: HostgroupId) -> Vec<HostgroupId> {
    let is_paired = |one: HostgroupId, other: HostgroupId| {
        snapshot.replication.iter().any(|group| {
            let pair = [group.writer_hostgroup, group.reader_hostgroup];
            pair.contains(&one) && pair.contains(&other)
        })
    };
    let servers = |id: HostgroupId| snapshot.hostgroup(id).map_or(&[][..], |it| &it.servers);
    let meets = |one: HostgroupId, other: HostgroupId| {
        servers(one)
            .iter()
            .any(|server| servers(other).iter().any(|theirs| may_be_same(theirs, server)))
    };
    let mut kin = vec![first];
    loop {
        let is_next = |id: &HostgroupId| {
            !kin.contains(id)
                && kin.iter().any(|known| is_paired(*known, *id) || meets(*known, *id))
        };
        let found: Vec<_> = snapshot.hostgroups.keys().copied().filter(is_next).collect();
        if found.is_empty() {
            return kin;
        }
        kin.extend(found);
    }
}

#[cfg(test)]
mod tests;
