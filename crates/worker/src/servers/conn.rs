//! A server connection and the commands in flight on it.

use std::{collections::VecDeque, sync::Arc};

use trunkline_catalog::{CopyTicket, Version};
use trunkline_pool::{AccountId, ConnId, ConnState, Place, SlotId, Waiter};
use trunkline_protocol::{
    capability::Capabilities,
    packet::greeting::Flavor,
    response::{Outcome, Relay, ReplyFormat, ResponseShape},
};
use trunkline_session::{
    backend::{ServerHandshake, ServerIdentity},
    tracker::SessionState,
};
use trunkline_sql::recall::Gtid;
use trunkline_topology::{HostgroupId, ServerHealth, ServerKey, TlsFacts, causal::Ticket};

use crate::{
    ClientId,
    causal::collect::ReportsGtids,
    compressed::Packing,
    outbox::Outbox,
    prepared::ServerStmts,
    servers::credentials::PasswordTurn,
    servers::dirt::Dirt,
    servers::insert_ids::InsertIds,
    servers::marks::Marked,
    servers::unheard::UnheardWrite,
    session_past::{Trace, reported_gtid},
    statement::sql_modes::DefaultModes,
};

/// One connection to a server.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) id: ConnId,
    pub(crate) slot: SlotId,
    pub(crate) login: ConnLogin,
    /// The list that it is on; [`set_state`](super::Servers::set_state) changes it.
    pub(crate) list: ConnState,
    pub(crate) phase: ConnPhase,
    pub(crate) io: ConnIo,
    pub(crate) server: ConnServer,
    pub(crate) state: Arc<SessionState>,
    /// What is prepared on it.
    pub(crate) stmts: ServerStmts,
    /// Commands sent and not answered, in order; the front's answer is coming in.
    pub(crate) in_flight: VecDeque<InFlight>,
    pub(crate) holder: Holder,
    pub(crate) left: LeftThere,
}

/// What goes over the socket of a server connection.
#[derive(Debug, Default)]
pub(crate) struct ConnIo {
    pub(crate) inbox: Vec<u8>,
    /// What has come of an answer to [`Trace::Warnings`].
    pub(crate) captured: Vec<u8>,
    /// Bytes of the answer that comes in which nobody gets.
    pub(crate) unwanted: usize,
    pub(crate) outbox: Outbox,
    /// Compression, where it was agreed on.
    pub(crate) packing: Option<Box<Packing>>,
    /// What is known of its encryption, where it is encrypted.
    pub(crate) tls: Option<Box<TlsFacts>>,
    pub(crate) is_paused: bool,
    /// When it was held back because its client does not read, µs.
    pub(crate) paused_us: u64,
}

/// What is known of the server at the other end.
#[derive(Debug)]
pub(crate) struct ConnServer {
    /// The hostgroup that it was opened for.
    pub(crate) hostgroup: HostgroupId,
    /// Known from the login on.
    pub(crate) identity: Option<Box<ServerIdentity>>,
    pub(crate) flavor: Flavor,
    pub(crate) format: ReplyFormat,
    /// Whether texts and executions are sent in the form that has room for query attributes.
    pub(crate) takes_attributes: bool,
    /// Whether the server was asked to report what is set for the next transaction.
    pub(crate) tracks_transactions: bool,
    /// Whether it reports the transactions that statements commit.
    pub(crate) gtids: ReportsGtids,
    /// Of when its statement was sent.
    pub(crate) causal_ticket: Ticket,
    /// Whether its session tracker tells the change of each variable under that one's name.
    pub(crate) names_changes: bool,
    /// The server's epoch when it was opened.
    pub(crate) epoch: u32,
    /// The highest number that the server had given to a connection when it was opened.
    pub(crate) last_thread: u32,
    /// The server's incarnation that it is to, once it is logged in.
    pub(crate) incarnation: u32,
}

/// As whom a connection is logged in.
#[derive(Debug)]
pub(crate) struct ConnLogin {
    pub(crate) account: AccountId,
    /// Which of the account's passwords it logs in with.
    pub(crate) password: PasswordTurn,
    /// When its last login began, µs.
    pub(crate) login_us: u64,
    /// When that was done, µs; 0 before, and where another worker had it.
    pub(crate) ready_us: u64,
    /// The fast-forward client that it is opened for.
    pub(crate) forwards: Option<ClientId>,
    /// The place in the queue that this client had before.
    pub(crate) forwards_waited: Option<Waiter<ClientId>>,
}

/// Who has a connection, or had it.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    /// Who has it, while leased or forwarding.
    pub(crate) owner: Option<ClientId>,
    /// The session that had it last.
    pub(crate) last_client: Option<ClientId>,
    /// Grows when another session than the last one gets it: what a session left on it is there
    /// as long as this number stays.
    pub(crate) turn: u64,
    /// When the statement that runs was sent, µs; 0 when none does.
    pub(crate) busy_since_us: u64,
    /// When it was opened, or last became idle, ms.
    pub(crate) since_ms: u64,
    /// `KILL`s of what runs here that are under way: no new statement goes out meanwhile.
    pub(crate) kills: u32,
    /// A `KILL` was sent that may have come too late for the statement it was meant for.
    pub(crate) was_killed: bool,
    /// What became of a `KILL` is not known: the connection is not used by another session.
    pub(crate) close_on_release: bool,
    /// A write is under way on it whose client has gone.
    pub(crate) unheard: Option<UnheardWrite>,
}

/// What may have been left on a connection by those who had it.
#[derive(Debug, Default)]
pub(crate) struct LeftThere {
    /// Why it is not proven clean, if it is not.
    pub(crate) dirt: Option<Dirt>,
    /// The turn in which it got dirty.
    pub(super) soiled_turn: u64,
    /// The schema that it had when it was reset a moment ago, and has still.
    pub(crate) kept_schema: Option<Box<[u8]>>,
    /// The turn in which the server was left with warnings or an error to be asked for, if it may
    /// have any. MariaDB keeps them until a statement uses a table.
    pub(crate) conditions_turn: Option<u64>,
    /// Whether the last statement that was sent may leave what a reset does not take back.
    pub(crate) may_last: bool,
    /// The GTID that it told last, whoever's it was.
    pub(crate) last_gtid: Option<Gtid>,
    /// What `LAST_INSERT_ID()` may be there.
    pub(crate) insert_ids: InsertIds,
    /// Whether what it commits is marked.
    pub(crate) marked: Marked,
    /// What [`Shared::schemas_defined`](crate::Shared) said when a statement was sent last.
    pub(crate) schemas_defined: u64,
    /// The catalog's version when it was shared last: what runs on it was proven by that.
    pub(crate) shared_version: Version,
    /// Held while reads are in flight on it that were sent elsewhere as well.
    pub(crate) copies: Option<CopyTicket>,
}

impl Default for ConnServer {
    /// Nothing is known yet.
    fn default() -> Self {
        Self {
            hostgroup: HostgroupId::default(),
            identity: None,
            flavor: Flavor::MySql,
            format: ReplyFormat::PLAIN,
            takes_attributes: false,
            tracks_transactions: false,
            gtids: ReportsGtids::default(),
            causal_ticket: Ticket::default(),
            names_changes: true,
            epoch: 0,
            last_thread: 0,
            incarnation: 0,
        }
    }
}

/// The turn of conditions that are no session's of this worker.
pub(crate) const OTHERS_TURN: u64 = u64::MAX;

impl Conn {
    /// A connection of which nothing is known yet; it is on no list.
    pub(crate) fn new(
        id: ConnId,
        (slot, hostgroup): (SlotId, HostgroupId),
        account: AccountId,
        phase: ConnPhase,
        state: Arc<SessionState>,
    ) -> Self {
        Self {
            id,
            slot,
            list: ConnState::Unlisted,
            phase,
            state,
            stmts: ServerStmts::default(),
            in_flight: VecDeque::new(),
            io: ConnIo::default(),
            server: ConnServer { hostgroup, ..ConnServer::default() },
            login: ConnLogin {
                account,
                password: PasswordTurn::default(),
                login_us: 0,
                ready_us: 0,
                forwards: None,
                forwards_waited: None,
            },
            holder: Holder::default(),
            left: LeftThere::default(),
        }
    }

    /// The GTID that a reply tells of the statement that it answers. MariaDB 11.8 tells its last
    /// one also where another variable has changed, as `last_insert_id`: that one is old.
    pub(crate) fn new_gtid(&mut self, outcome: &Outcome) -> Option<Gtid> {
        let told = reported_gtid(outcome)?;
        (self.left.last_gtid.replace(told) != Some(told)).then_some(told)
    }

    /// Whether its server may tell warnings and errors of sessions that had it before.
    pub(crate) fn keeps_others_conditions(&self) -> bool {
        self.server.flavor == Flavor::MariaDb
            && self.left.conditions_turn.is_some_and(|turn| turn != self.holder.turn)
    }

    /// A session's statement has run here. What was there before is no longer to be told of where
    /// its last one (`was_here`) ran elsewhere, and may have cleared what it had left here earlier.
    pub(crate) fn outdate_conditions(&mut self, outcome: &Outcome, was_here: bool) {
        let leaves_some = outcome.warnings > 0 || outcome.error.is_some();
        if !was_here && !leaves_some && self.left.conditions_turn.is_some() {
            self.left.conditions_turn = Some(OTHERS_TURN);
        }
    }

    /// Whether it has ended. Whoever has it still leaves it alone: it is on no list, and its id
    /// finds nothing any more.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phase, ConnPhase::Closed)
    }

    /// Whether a `KILL` that is under way, or came late, may hit the next statement here.
    pub(crate) fn may_be_hit(&self) -> bool {
        self.holder.kills > 0 || self.holder.was_killed || self.holder.close_on_release
    }

    /// Nothing is in flight on it, and so no read that was sent elsewhere as well.
    pub(crate) fn end_copies(&mut self) {
        debug_assert!(self.left.copies.is_none() || self.in_flight.is_empty());
        self.left.copies = None;
    }

    /// A relay for the answer to a command of the proxy's own, in one packet.
    pub(crate) fn own_relay(&self) -> Relay {
        let relay =
            Relay::new(ResponseShape::Single, self.server.format, self.server.format, false);
        match self.io.packing {
            None => relay.numbered_from(1),
            Some(_) => relay,
        }
    }
}

/// What a server connection is doing.
#[derive(Debug)]
pub(crate) enum ConnPhase {
    /// The socket connects; the login is prepared.
    Connecting(Box<ServerHandshake>),
    /// Logs in.
    Login(Box<ServerHandshake>),
    /// Takes commands.
    Ready,
    /// Bytes go straight to the client and back.
    Forward(ClientId),
    /// It has ended, in the middle of an event, and nothing more comes of it.
    Closed,
}

/// A command that awaits its answer.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) owner: Owner,
    pub(crate) relay: Box<Relay>,
    /// Whether it is a client's command, which counts in the server's in-flight figure.
    pub(crate) is_statement: bool,
    /// How it counts on its server, where that is counted.
    pub(crate) place: Option<Place>,
}

// Each connection that has taken a command has room for some of them.
const _: () = assert!(size_of::<InFlight>() <= 40);

/// Who gets an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This client; its command.
    Client(ClientId),
    /// Nobody any more: the client has gone.
    Nobody,
    /// The proxy: state for this client's command, which follows or waits; and the hash of the
    /// `SET`, if it is one.
    Sync(ClientId, Option<u64>),
    /// The proxy: prepares what this client's execution, which follows or waits, needs.
    Prepare(ClientId),
    /// The proxy: switches the session trackers on.
    Setup,
    /// The proxy: has a server that says nothing of it tell what its sessions begin with.
    Defaults,
    /// The proxy: a read whose warnings are asked for by the statement behind it.
    Again,
    /// The proxy: has variables reported that this client's session has set unseen.
    Values(ClientId),
    /// The proxy: has the server mark what is committed there.
    Mark,
    /// The proxy: `COM_RESET_CONNECTION` between two sessions.
    Reset,
    /// The proxy: `COM_PING` on an idle connection.
    Ping,
    /// The proxy: `COM_PING` that takes an interruption which came too late.
    Cleanse,
    /// The proxy: what this client's session left here, fetched before another one gets it.
    Trace(ClientId, Trace),
    /// The proxy: a `KILL` for what runs elsewhere, by its number.
    Kill(u64),
}

/// An idle connection on its way to another worker.
#[derive(Debug)]
pub struct MovedConn {
    pub(crate) key: ServerKey,
    pub(crate) login: AccountKey,
    pub(crate) state: SessionState,
    /// The server's ids of what is prepared on it, to be closed.
    pub(crate) stmts: Vec<u32>,
    pub(crate) dirt: Option<Dirt>,
    pub(crate) identity: Option<Box<ServerIdentity>>,
    pub(crate) flavor: Flavor,
    pub(crate) names_changes: bool,
    pub(crate) last_gtid: Option<Gtid>,
    pub(crate) insert_ids: InsertIds,
    pub(crate) marked: Marked,
    pub(crate) login_us: u64,
    pub(crate) format: ReplyFormat,
    pub(crate) takes_attributes: bool,
    pub(crate) packing: Option<Box<Packing>>,
    pub(crate) tls: Option<Box<TlsFacts>>,
    pub(crate) epoch: u32,
    pub(crate) incarnation: u32,
    pub(crate) health: Arc<ServerHealth>,
    /// What its worker knows of servers' modes.
    pub(crate) modes: DefaultModes,
}

impl MovedConn {
    /// It arrives nowhere: its place under the cap is free again.
    pub fn give_up(self) {
        self.health.give_back_connection();
        if self.identity.is_some() {
            self.health.disestablish();
        }
    }
}

/// Who a connection is logged in as, and the capabilities that change how the server behaves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AccountKey {
    /// The [`key`](trunkline_topology::User::key) of the proxy's user.
    pub(crate) user: Arc<str>,
    /// Its name on the servers, where that is configured apart.
    pub(crate) backend: Option<Arc<str>>,
    pub(crate) behaviour: Capabilities,
}

impl AccountKey {
    /// The name that servers know.
    pub(crate) fn server_user(&self) -> &str {
        let own = self.user.split_once('\0').map_or(&*self.user, |(name, _)| name);
        self.backend.as_deref().unwrap_or(own)
    }

    /// Whether servers' grant tables say who this is.
    pub(crate) fn is_granted(&self) -> bool {
        self.user.contains('\0')
    }
}
