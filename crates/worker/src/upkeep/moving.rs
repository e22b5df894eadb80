//! A session that rests, and whose past is all in it, moves to a less busy worker.
//!
//! A client's number says which worker gave it: its home. The home knows where a client of its
//! own is, so that a `KILL` finds it; a client moves away from its home or back to it, and the
//! mailboxes keep the order in which that happened.

use std::sync::Arc;

use trunkline_protocol::{
    capability::Capabilities, packet::tracker_filter::TrackerFilter, response::ReplyFormat,
};
use trunkline_session::{
    Credential,
    frontend::Attribute,
    tracker::{Charset, SessionState, StateTable},
};
use trunkline_sql::token::Modes;
use trunkline_topology::{TlsFacts, User, causal::Written};

use crate::{
    Action, ClientId,
    accept::address_limits::AddressPlace,
    accept::arrival::Arrival,
    action::Peer,
    causal::session::SessionCausal,
    clients::balance,
    clients::balance::Candidate,
    clients::client::Frontend,
    clients::client::{Client, LoggedIn, Origin, Phase, Session, SessionSettings},
    clients::session::ClientEntry,
    kill::worker_of,
    prepared::MovedStmts,
    rooms::{Core, Exchange, Lender},
    servers::conn::AccountKey,
    session_past::LastStatement,
    shared::UserPlace,
};

/// A client on its way to another worker, socket apart.
#[derive(Debug)]
pub struct MovedClient {
    peer: Arc<Peer>,
    address_place: Option<AddressPlace>,
    number: u32,
    nonce: [u8; 20],
    tls: Option<Box<TlsFacts>>,
    active_ms: u64,
    session: MovedSession,
}

/// What a session is when it has no connection and nothing under way.
#[derive(Debug)]
struct MovedSession {
    user: Arc<User>,
    place: Option<UserPlace>,
    account: AccountKey,
    credential: Arc<Credential>,
    capabilities: Capabilities,
    attributes: Box<[Attribute]>,
    zstd_level: u8,
    format: ReplyFormat,
    state: SessionState,
    handshake_charset: Charset,
    modes: Modes,
    last_insert_id: u64,
    past: LastStatement,
    told: TrackerFilter,
    status: u16,
    next_flag: u32,
    accepted_sets: Vec<u64>,
    written: Written,
    stmts: MovedStmts,
}

impl Core {
    /// Once a second: tells the others how busy this worker is, and marks sessions that are to
    /// leave if it is too busy.
    pub(crate) fn balance(&mut self) {
        let threshold = u64::from(self.env.snapshot.settings.rebalance_threshold);
        if threshold == 0 || self.env.options.workers < 2 || self.env.stopping.is_some() {
            return;
        }
        let mut sessions = Vec::new();
        let mut load = 0;
        let workers = self.env.options.workers;
        self.clients.table.for_each_mut(|id, entry| {
            let Some(client) = entry.client_mut() else { return };
            let commands = std::mem::take(&mut client.recent_commands);
            load += u64::from(commands);
            if commands > 0 && is_mobile(client) && reads_alike(client, &mut self.servers.states) {
                let home = worker_of(client.origin.number, workers);
                sessions.push(Candidate { commands, id, home });
            }
        });
        let loads = self.env.shared.share_load(self.env.options.index, workers, load);
        self.clients.leaving.clear();
        let own = self.env.options.index;
        let plan = loads.and_then(|loads| balance::plan(own, &loads, threshold, &mut sessions));
        let Some(plan) = plan else { return };
        self.clients.leaving.extend(plan.sessions.into_iter().map(|id| (id, plan.to)));
    }

    /// See [`Worker::let_leave`](crate::Worker::let_leave).
    #[inline]
    pub(crate) fn on_let_leave(&mut self) {
        if !self.clients.leaving.is_empty() {
            self.give_those_away_who_rest();
        }
    }

    fn give_those_away_who_rest(&mut self) {
        let mut left = 0;
        while let Some((id, to)) = self.clients.leaving.get(left).copied() {
            match self.with_client(id, Self::rests).unwrap_or_default() {
                true => {
                    self.clients.leaving.swap_remove(left);
                    self.give_client(id, to);
                }
                false => left += 1,
            }
        }
    }

    /// Whether a client can be given away now.
    fn rests(&mut self, client: &mut Client) -> bool {
        matches!(client.phase, Phase::Idle)
            && client.io.inbox.is_empty()
            && client.io.outbox.is_empty()
            && !client.io.is_paused
            && !client.skips()
            && client.origin.proof.is_none()
            && client.io.waiting_held == 0
            && client.timer_ms == 0
            && self.env.stopping.is_none()
            && is_mobile(client)
            && reads_alike(client, &mut self.servers.states)
    }

    fn give_client(&mut self, id: ClientId, to: usize) {
        let login = self.clients.get(id).map(|client| &client.session.login);
        let account = login.and_then(|login| self.servers.logins.accounts.key(login.account));
        let Some(account) = account.cloned() else { return };
        let Some(ClientEntry::LoggedIn(client)) = self.clients.table.remove(id).map(|it| *it)
        else {
            return;
        };
        let Client { front: mut client, session, former: _ } = client;
        self.clients.numbers.remove(&client.origin.number);
        self.clients.uncharge(&mut client);
        let mut session = *session;
        self.reset_soiled(id, std::mem::take(&mut session.soiled), None);
        debug_assert!(session.leases.is_empty() && session.lost.is_none());
        let moved = Box::new(MovedClient {
            peer: client.origin.peer,
            address_place: client.origin._address_place,
            number: client.origin.number,
            nonce: client.origin.nonce,
            tls: client.origin.tls,
            active_ms: client.active_ms,
            session: MovedSession {
                user: session.login.user,
                place: session.login.place,
                account,
                credential: session.login.credential,
                capabilities: session.login.capabilities,
                attributes: session.login.attributes,
                zstd_level: session.login.zstd_level,
                format: session.login.format,
                state: (*session.settings.state).clone(),
                handshake_charset: session.login.handshake_charset,
                modes: session.settings.modes,
                last_insert_id: session.last_insert_id,
                past: session.past,
                told: session.settings.told,
                status: session.settings.status,
                next_flag: session.settings.next_flag,
                accepted_sets: session.settings.accepted_sets,
                written: session.settings.causal.written,
                stmts: session.prepared.pack(),
            },
        });
        if worker_of(moved.number, self.env.options.workers) == self.env.options.index {
            self.clients.away.insert(moved.number, to);
        }
        self.fx.stats.counters.sessions_left += 1;
        self.fx.act(Action::MoveClient { client: id, moved, to });
    }

    /// See [`Worker::client_lost`](crate::Worker::client_lost).
    pub(crate) fn on_client_lost(&mut self, moved: MovedClient) {
        self.env.shared.give_back_client();
        self.fx.stats.counters.sessions_arrived += 1;
        self.fx.stats.counters.clients_disconnected += 1;
        self.clients.away.remove(&moved.number);
        self.tell_home(moved.number);
    }

    /// See [`Worker::client_left`](crate::Worker::client_left).
    pub(crate) fn client_left(&mut self, number: u32) {
        self.clients.away.remove(&number);
    }
}

impl Exchange {
    /// See [`Worker::adopt_client`](crate::Worker::adopt_client).
    pub(crate) fn adopt_client(&mut self, moved: MovedClient) -> ClientId {
        let MovedClient { peer, address_place, number, nonce, tls, active_ms, session } = moved;
        let login = LoggedIn {
            user: session.user,
            place: session.place,
            account: self.core.servers.logins.accounts.intern(session.account),
            credential: session.credential,
            capabilities: session.capabilities,
            attributes: session.attributes,
            zstd_level: session.zstd_level,
            format: session.format,
            handshake_charset: session.handshake_charset,
        };
        // What is prepared by a text holds a session on its connection: none of it comes along.
        let state = self.core.servers.states.intern(session.state);
        let mut settings = SessionSettings::new(state, session.modes, session.status);
        settings.told = session.told;
        settings.next_flag = session.next_flag;
        settings.accepted_sets = session.accepted_sets;
        // Keys of the other worker's connections mean others here.
        let mut own = Session::new(login, settings);
        own.last_insert_id = session.last_insert_id;
        // What it wrote on the other worker may not be told of yet.
        own.settings.own_writes.end(self.core.env.now.us);
        own.settings.causal = SessionCausal::moved(session.written);
        own.past = session.past.elsewhere();
        own.settings.modes = self.core.servers.defaults.modes.follow(
            own.settings.modes,
            &own.settings.state,
            self.core.env.greeting.flavor(),
        );
        self.unpack_stmts(&mut own, session.stmts);
        let origin = Origin {
            peer,
            number,
            nonce,
            arrival: Arrival::Admitted,
            half_open: None,
            _address_place: address_place,
            tls,
            proof: None,
            has_place: true,
        };
        let id = self.core.clients.table.insert_with(|id| {
            let front = Frontend::new(id, origin, Phase::Idle, active_ms);
            ClientEntry::LoggedIn(Client::new(front, own))
        });
        self.core.clients.numbers.insert(number, id);
        self.core.clients.away.remove(&number);
        self.core.fx.stats.counters.sessions_arrived += 1;
        // A new configuration may have come here while it was on its way.
        self.core.with_client(id, |core, client| {
            core.clients.weigh(client);
            core.follow_user(client, None);
        });
        id
    }

    /// See [`Worker::client_adopted`](crate::Worker::client_adopted).
    pub(crate) fn on_client_adopted(&mut self, client: &mut Client) {
        if self.core.env.stopping.is_some() {
            self.close_client(client);
        }
    }
}

/// Whether a client may move once it rests.
fn is_mobile(client: &Client) -> bool {
    let session = &client.session;
    client.origin.has_place
        && !client.is_mirror
        && client.failed_changes == 0
        && client.io.packing.is_none()
        && session.leases.is_empty()
        && session.settings.begun.is_none()
        && session.prepared.is_mobile()
        && session.lost.is_none()
        && session.past.is_plain(session.last_conn.is_some())
}

/// Whether what a client has prepared is read elsewhere as it was read here.
fn reads_alike(client: &mut Client, states: &mut StateTable) -> bool {
    client.session.reads_alike(states)
}
