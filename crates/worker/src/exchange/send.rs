//! Step 8: a connection is brought to the session's state, and the statement goes out, in one
//! write where that is safe.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use trunkline_pool::{AccountId, ConnId};
use trunkline_protocol::{
    capability::Capabilities,
    codec::{
        frame::{PAYLOAD_MAX, begin_packet, end_packet, put_payload, split_packet},
        put_u16,
    },
    command::{attributes::put_query, code},
    error::ErrorKind,
    packet::greeting::Flavor,
    response::{Relay, ResponseShape},
};
use trunkline_session::tracker::{Difference, PinReason, Schema, SessionState, Sync, difference};
use trunkline_sql::analysis::{Analysis, Depends, Effect, TransactionEffect};
use trunkline_topology::RefusalCause;

use crate::{
    clients::client::{Client, Lease, Phase, Purpose, Session, Stage, Statement},
    effects::Wake,
    exchange::dump::waits_to_dump,
    exchange::past::{PastHere, runs_a_routine},
    exchange::pins::{PLAIN_VARIABLES, sets_next_transaction},
    outbox::Way,
    prepared::{self, put_statement},
    replay::Noted,
    rooms::{Core, Exchange, Lender},
    servers::Servers,
    servers::conn::{Conn, InFlight, Owner},
    servers::dirt::{RESET_PROOF, may_last},
};

/// Remembered `SET` texts; with more of them all are proven again.
const ACCEPTED_SETS_MAX: usize = 16_384;

/// Whether a `SET` of the proxy's own may name a variable that not every account may set: one that
/// is not known to take no rights.
fn needs_rights(text: &[u8]) -> bool {
    const BEGIN: &[u8] = b"@@SESSION.";
    let places = text.windows(BEGIN.len()).enumerate().filter(|(_, part)| *part == BEGIN);
    let mut names = places.map(|(at, _)| {
        let rest = text.get(at + BEGIN.len()..).unwrap_or_default();
        let is_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        rest.get(..rest.iter().take_while(|byte| is_name(byte)).count()).unwrap_or_default()
    });
    names.any(|name| !PLAIN_VARIABLES.contains(&name) && !WITHOUT_RIGHTS.contains(&name))
}

/// Besides [`PLAIN_VARIABLES`], variables that each account may set for its session, on MariaDB
/// 10.11 and MySQL 9.7.
const WITHOUT_RIGHTS: [&[u8]; 16] = [
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"collation_connection",
    b"completion_type",
    b"default_week_format",
    b"last_insert_id",
    b"max_join_size",
    b"optimizer_switch",
    b"sql_auto_is_null",
    b"sql_big_selects",
    b"transaction_isolation",
    b"transaction_read_only",
    b"tx_isolation",
    b"tx_read_only",
    b"updatable_views_with_limit",
];

/// Appends a `COM_INIT_DB` packet.
pub(crate) fn put_init_db(out: &mut Vec<u8>, schema: &[u8]) {
    let mut payload = Vec::with_capacity(schema.len() + 1);
    payload.push(0x02);
    payload.extend_from_slice(schema);
    put_payload(out, 0, &payload);
}

/// Appends a `COM_QUERY` of the proxy's own.
pub(crate) fn put_own_query(out: &mut Vec<u8>, text: &[u8], takes_attributes: bool) {
    if takes_attributes {
        return put_query(out, None, text);
    }
    let start = begin_packet(out, 0);
    out.push(code::QUERY);
    out.extend_from_slice(text);
    end_packet(out, start);
}

/// Whether a statement need not run on the connection that its session holds because of a
/// transaction there: none is open, or the statement would go on behind its end.
pub(crate) fn may_leave(session: &Session, statement: &Statement, conn_id: ConnId) -> bool {
    let lease = session.leases.iter().find(|lease| lease.conn == conn_id);
    let is_over = |lease: &Lease| !lease.is_in_trans && !lease.pins.has(PinReason::Xa);
    let is_over = !session.is_in_transaction() && lease.is_some_and(is_over);
    is_over || lease.is_some_and(|lease| lease.is_in_doubt) || goes_on_behind(session, statement)
}

/// Whether a session has a transaction open on a connection.
pub(crate) fn has_transaction(client: &Client, conn: ConnId) -> bool {
    let has = |lease: &Lease| {
        lease.conn == conn && (lease.is_in_trans || lease.pins.has(PinReason::Transaction))
    };
    client.session.as_ref().is_some_and(|session| session.leases.iter().any(has))
}

/// Whether a statement waits for the answers to what the proxy has sent of its own accord. A server
/// that has rolled the transaction back meanwhile, as one of Galera does for another node's sake,
/// says so to the first that comes; what comes behind it is outside of the transaction.
fn awaits_own(client: &Client, conn: &Conn) -> bool {
    let is_own = |it: &InFlight| !matches!(it.owner, Owner::Client(_) | Owner::Nobody);
    matches!(&client.phase, Phase::Running(statement) if !statement.meaning.is_read)
        && conn.in_flight.iter().any(is_own)
        && has_transaction(client, conn.id)
}

/// A statement waits for the answers to what went ahead of it: then it alone is sent.
#[cold]
fn await_own(client: &mut Client, conn: &Conn, now_us: u64) {
    if let Phase::Running(statement) = &mut client.phase {
        statement.sent.ahead = Some(conn.id);
    }
    client.set_assigned(Stage::Synchronising(conn.id), now_us);
}

/// Whether what goes ahead of a statement has been answered there.
#[inline]
fn is_prepared_for(client: &Client, conn: &Conn) -> bool {
    matches!(&client.phase, Phase::Running(statement) if statement.sent.ahead == Some(conn.id))
}

/// Whether a statement ends the transaction that is open and does more: begins another one, or
/// runs outside of it.
fn goes_on_behind(session: &Session, statement: &Statement) -> bool {
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    let Some(known) = statement.meaning.known.as_ref().filter(|_| is_run) else { return false };
    let calls = |effect: &Effect| matches!(effect, Effect::ExecuteStatement(_) | Effect::Call);
    match known.analysis.transaction {
        // What is called may end it and go on.
        TransactionEffect::None => known.analysis.effects.iter().any(calls),
        TransactionEffect::SetAutocommit(value) => {
            value != Some(false) && known.analysis.statements != 1
        }
        TransactionEffect::Begin { .. } | TransactionEffect::ImplicitCommit => true,
        TransactionEffect::Commit { chain, .. } | TransactionEffect::Rollback { chain, .. } => {
            chain
                || known.analysis.statements != 1
                || session.settings.state.variable("completion_type").is_some()
        }
    }
}

impl Servers {
    /// A server accepted this `SET`, or a reset.
    pub(crate) fn prove(&mut self, conn: &mut Conn, set: u64) {
        if set == RESET_PROOF {
            self.resetting.insert(conn.slot);
            return;
        }
        conn.remember_set(set);
        if self.accepted_sets.len() >= ACCEPTED_SETS_MAX {
            self.accepted_sets.clear();
        }
        self.accepted_sets.insert((conn.slot, conn.server.incarnation, set));
    }
}

impl Client {
    pub(super) fn set_stage(&mut self, stage: Stage) {
        if let Phase::Running(statement) = &mut self.phase {
            statement.stage = stage;
        }
    }

    /// Its statement has a connection, and something has to be done there before it is sent.
    pub(super) fn set_assigned(&mut self, stage: Stage, now_us: u64) {
        if let Phase::Running(statement) = &mut self.phase {
            statement.stage = stage;
            if statement.sent.assigned_us == 0 {
                statement.sent.assigned_us = now_us;
            }
        }
    }
}

impl Exchange {
    /// Sends the statement that a client has under way to a connection that its session holds, by
    /// its id.
    pub(crate) fn dispatch_to(&mut self, client: &mut Client, conn_id: ConnId) {
        let sent = self.with_conn(conn_id, |exchange, conn| exchange.dispatch(client, conn));
        if sent.is_none() {
            self.fail_unsent(client, ErrorKind::ConnectionLost.says(LOST), None);
        }
    }

    /// Sends the statement that a client has under way to a connection that its session holds.
    pub(crate) fn dispatch(&mut self, client: &mut Client, conn: &mut Conn) {
        if !looks_back(client, conn) {
            self.core.follow_definitions(conn);
        }
        if self.core.waits_for_kills(client, conn) || self.ends_killed(client, conn) {
            return;
        }
        let is_dirty = conn.has_others_dirt();
        if is_dirty && logs_in_again(client, conn) {
            // That takes back what a reset does.
            return self.exchange(client, conn);
        }
        let awaits_reset = is_dirty && self.core.reset_before(client, conn);
        if self.core.is_taken_out(client, conn) {
            return self.core.leave_removed(client, conn);
        }
        if has_plant!(self.core, DrainCutsTransaction) && self.core.is_drained(client, conn) {
            return self.core.fx.wake(Wake::Lost(conn.id, "drained"));
        }
        if !conn.in_flight.is_empty() && awaits_own(client, conn) {
            return client.set_assigned(Stage::Synchronising(conn.id), self.core.env.now.us);
        }
        let Some(past) = self.core.past_here(client, conn) else { return };
        if self.awaits_past(client, conn, &past) || !self.is_prepared(client, conn) {
            return;
        }
        let has_state = |session: &Session| Arc::ptr_eq(&conn.state, &session.settings.state);
        let begins = |session: &Session| session.begins_on(conn.id);
        let is_ready = client.session.as_ref().is_some_and(|it| has_state(it) && !begins(it))
            && !past.needs_trace;
        match is_ready {
            true if is_dump(client) && waits_to_dump(client, conn) => {}
            true => self.send_statement(client, conn, Stage::Sent(conn.id)),
            false => self.send_with_state(client, conn, &past, awaits_reset),
        }
    }

    /// Sends what brings the connection to the session's state, and behind that the statement, now
    /// or when the servers have accepted the state.
    fn send_with_state(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        past: &PastHere,
        awaits_reset: bool,
    ) {
        let Some(session) = client.session.as_mut() else {
            return;
        };
        let mut state = Arc::clone(&session.settings.state);
        let mut found = difference(&conn.state, &state, conn.server.flavor);
        let is_held = session.lease_mut(conn.id).is_some_and(|lease| !lease.pins.is_empty());
        if found == Difference::ChangeUser && is_held {
            // The schema went on other servers. What is held here stays, in the one that is here.
            let mut there = (*state).clone();
            there.schema = conn.state.schema.clone();
            state = self.core.servers.states.intern(there);
            found = difference(&conn.state, &state, conn.server.flavor);
        }
        let mut sync = match found {
            Difference::None => Sync::default(),
            Difference::Sync(sync) => sync,
            Difference::ChangeUser => return self.exchange(client, conn),
        };
        if has_plant!(self.core, SyncSkipped)
            && matches!(&client.phase, Phase::Running(statement) if statement.meaning.is_read)
        {
            sync.set = None;
        }
        let proof = sync.set.as_deref().map(text_hash);
        if past.needs_trace {
            past.bring(session, conn, &mut sync);
        }
        let begins = session.begins_on(conn.id) && !is_dump(client);
        let waits = is_dump(client)
            || self.core.waits_for_sync(client, conn, &sync, proof, awaits_reset)
            || begins && self.core.waits_for_begin(client, conn);
        if !Arc::ptr_eq(&conn.state, &state) || past.needs_trace || !begins {
            self.core.send_sync(client, conn, state, sync, proof);
        }
        if begins {
            if self.core.env.snapshot.follows_gtids {
                self.core.follow_gtids(client, conn);
            }
            self.core.put_begin(client, conn);
        }
        match waits {
            true => {
                self.core.fx.stats.counters.statements_awaited_state += 1;
                client.set_assigned(Stage::Synchronising(conn.id), self.core.env.now.us);
            }
            false => self.send_statement(client, conn, Stage::Sent(conn.id)),
        }
    }

    /// Appends the statement to the connection's outbox and expects its answer.
    pub(crate) fn send_statement(&mut self, client: &mut Client, conn: &mut Conn, stage: Stage) {
        let now_us = self.core.env.now.us;
        let is_noted = self.core.env.snapshot.replays || client.keeps_transaction();
        if is_noted {
            self.core.note(client, conn, matches!(stage, Stage::Shared(_)));
        }
        if !is_prepared_for(client, conn) {
            let before = conn.in_flight.len();
            let begins = |session: &Session| session.transaction.begins_read_only;
            // What begins one anew there is the first that comes.
            let begins_anew = client.session.as_ref().is_some_and(begins);
            if is_noted {
                self.core.give_insert_id(client, conn);
            }
            self.core.send_ahead(client, conn);
            let is_ahead = conn.in_flight.len() != before && !begins_anew;
            if is_ahead && awaits_own(client, conn) {
                return await_own(client, conn, now_us);
            }
        }
        let place = match self.core.servers.pool.counts_places() {
            false => None,
            true => Some(self.core.take_place(client, !matches!(stage, Stage::Shared(_)))),
        };
        let (Phase::Running(statement), Some(session)) =
            (&mut client.phase, client.session.as_mut())
        else {
            return;
        };
        if statement.command.purpose == Purpose::Dump {
            return self.begin_dump(client, conn);
        }
        let delivers = statement.command.purpose.is_answered_by_server() && !client.is_mirror;
        let is_shared = matches!(stage, Stage::Shared(_));
        let relay = self.core.relay_of(statement, session, conn, delivers, is_shared);
        conn.in_flight.push_back(InFlight {
            owner: Owner::Client(client.id),
            relay,
            is_statement: true,
            place,
        });
        if conn.holder.busy_since_us == 0 {
            conn.holder.busy_since_us = now_us;
        }
        statement.sent.sent_at = conn.io.outbox.position();
        statement.sent.sent_us = now_us;
        if let Some(fill) = &mut statement.beside.fill {
            fill.copy.restart();
            if let Some(basis) = &mut fill.basis {
                // Before it is sent: what becomes visible while it runs it may have missed.
                let slot = self.core.servers.pool.slot(conn.slot);
                slot.inspect(|slot| basis.send(&slot.server.key.address));
            }
        }
        if let Some(half) = &mut statement.beside.mirrored {
            half.copy.restart();
        }
        statement.stage = stage;
        conn.left.may_last = may_last(statement);
        let way = Way { outbox: &mut conn.io.outbox, buffers: &mut self.core.fx.buffers };
        let takes_attributes = conn.server.takes_attributes;
        put_statement(way, statement, session, &mut conn.stmts, takes_attributes);
        let sent = conn.io.outbox.position() - statement.sent.sent_at;
        // It may take another number of packets than its client knows of.
        let is_other = sent > PAYLOAD_MAX as u64 || statement.command.answer_seq != 1;
        if let (true, Some(entry)) = (is_other, conn.in_flight.back_mut()) {
            entry.relay.renumber_from(statement.command.answer_seq);
        }
        if let Some(slot) = self.core.servers.pool.slot(conn.slot) {
            slot.server.health.begin_statement();
        }
        if let Some(place) = place {
            self.core.servers.pool.begin(conn.slot, place, now_us);
        }
        self.core.fx.stats.server_mut(conn.slot.index()).bytes_sent += sent;
        self.core.touch_server(conn);
    }

    /// The connection's schema can't be given back: it logs in anew, and the session waits for
    /// it or for another one.
    fn exchange(&mut self, client: &mut Client, conn: &mut Conn) {
        let Some((_, account)) = client.wanted() else {
            return;
        };
        self.core.take_lease(client, conn);
        let hostgroup = conn.server.hostgroup;
        if !conn.in_flight.is_empty() {
            if conn.in_flight.iter().all(|entry| matches!(entry.owner, Owner::Trace(..))) {
                self.core.rest_when_quiet(conn);
                return self.core.requeue(client);
            }
            // It was reset a moment ago and is not quiet yet; a new one is as good.
            self.core.drop_conn(conn);
            self.core.requeue(client);
            return self.core.fx.wake(Wake::Queue(hostgroup));
        }
        let waiter = self.core.waiter(client, account);
        client.set_stage(Stage::Queued);
        let queue_max = self.core.env.snapshot.settings.queue_max;
        if !self.core.servers.pool.waiters(hostgroup).push_front(waiter, queue_max) {
            // Its place was taken meanwhile; one of those who wait may have use for the connection.
            self.refuse_statement(client, hostgroup, RefusalCause::QueueFull, 0, Some(conn));
            return self.core.freed(conn);
        }
        self.core.log_in_again(conn, account, client);
    }
}

impl Core {
    /// What passes the answer to a statement on to its session, or to nobody unless it `delivers`.
    #[inline]
    fn relay_of(
        &mut self,
        statement: &Statement,
        session: &mut Session,
        conn: &Conn,
        delivers: bool,
        is_shared: bool,
    ) -> Box<Relay> {
        let delivers = delivers && !statement.beside.noted.as_ref().is_some_and(Noted::is_repeated);
        let (shape, own) = (statement.command.shape, session.login.format);
        let mut relay = self.fx.relays.take(shape, conn.server.format, own, delivers);
        // A server may refuse a command of many packets before it has read them all.
        if let Some((header, _, [])) = split_packet(&statement.command.frames) {
            relay.set_number(header.seq.wrapping_add(1));
        }
        let mut told = session.settings.told.clone();
        if self.env.snapshot.follows_gtids {
            told.hide_gtids();
        }
        if conn.server.tracks_transactions && !self.servers.tells_transactions(conn) {
            told.hide_transactions();
        }
        relay.set_told(told);
        relay.set_status(session.settings.status);
        if !statement.opens_cursor() {
            relay.set_without_cursor();
        }
        if !may_ask_for_file(statement, session) {
            relay.refuse_file_requests();
        }
        // What shares a connection has one result, whose numbers are right: they are checked.
        if conn.io.packing.is_some() && !is_shared {
            relay.renumber_from(statement.command.answer_seq);
        }
        prepared::know_columns(&mut relay, statement, session);
        if let (Purpose::Prepare, Some(stmt_id)) =
            (&statement.command.purpose, statement.prepared.stmt_id)
        {
            relay.set_stmt_id(stmt_id);
        }
        relay
    }

    /// Connections keep a schema's character set as it was when they chose it. Once a schema has
    /// been defined, by whatever worker's client, they choose theirs anew.
    fn follow_definitions(&mut self, conn: &mut Conn) {
        let defined = self.env.shared.schemas_defined();
        let is_old = std::mem::replace(&mut conn.left.schemas_defined, defined) != defined;
        if is_old && matches!(conn.state.schema, Schema::Named(_)) {
            let mut state = (*conn.state).clone();
            state.schema = Schema::Unknown;
            conn.state = self.servers.states.intern(state);
        }
    }

    /// Whether the statement must not go out before the state is confirmed. A read may: its
    /// reply is dropped if the state was refused. So may any statement behind a `SET` that the
    /// server has accepted before, on this connection if it takes rights.
    fn waits_for_sync(
        &self,
        client: &Client,
        conn: &Conn,
        sync: &Sync,
        proof: Option<u64>,
        awaits_reset: bool,
    ) -> bool {
        let Phase::Running(statement) = &client.phase else {
            return true;
        };
        // The one that it had before its reset is still its, and can't be refused.
        let chooses_schema = sync.schema.is_some() && sync.schema != conn.left.kept_schema;
        // Another connection may have logged in with fewer rights.
        let is_for_all = || sync.set.as_deref().is_none_or(|text| !needs_rights(text));
        let is_proven = proof.is_none_or(|proof| {
            conn.left.accepted_sets.contains(&proof)
                || self.servers.accepted_sets.contains(&(conn.slot, conn.server.incarnation, proof))
                    && is_for_all()
        });
        !statement.meaning.is_read
            && (awaits_reset
                || chooses_schema
                || sync.may_fail
                || !is_proven
                || has_transaction(client, conn.id))
    }

    /// Whether a session in a transaction is on a server that takes no new statements; only a
    /// planted bug asks.
    fn is_drained(&self, client: &Client, conn: &Conn) -> bool {
        let state = self
            .servers
            .pool
            .slot(conn.slot)
            .map(|slot| slot.server.health.state(self.env.now.ms()));
        client.session.as_ref().is_some_and(Session::is_in_transaction)
            && state.is_some_and(|state| state != trunkline_topology::ServerState::Online)
    }

    /// Whether nothing of the client's goes on on a connection that its statement waits for: its
    /// server does not write in its cluster any more, or an operator has taken it out and the
    /// statement need not run there.
    pub(crate) fn is_taken_out(&self, client: &Client, conn: &Conn) -> bool {
        let (Phase::Running(statement), Some(session)) = (&client.phase, client.session.as_ref())
        else {
            return false;
        };
        let Some(slot) = self.servers.pool.slot(conn.slot) else { return false };
        let health = &slot.server.health;
        let is_left = conn.server.epoch < health.left();
        health.is_deposed()
            || is_left && conn.server.epoch < health.deposed()
            || (is_left || slot.is_out() || session.has_left(conn.id))
                && may_leave(session, statement, conn.id)
    }

    /// Whether a connection's server does not write in its cluster any more, or another one has
    /// since the connection was opened.
    pub(crate) fn is_deposed(&self, conn: &Conn) -> bool {
        self.servers.pool.slot(conn.slot).is_some_and(|slot| {
            let health = &slot.server.health;
            health.is_deposed() || conn.server.epoch < health.deposed()
        })
    }

    /// Whether sessions leave a connection when they have no transaction open there: its server was
    /// replaced as a writer since it was opened.
    pub(crate) fn is_behind(&self, conn: &Conn) -> bool {
        let slot = self.servers.pool.slot(conn.slot);
        slot.is_some_and(|slot| conn.server.epoch < slot.server.health.left())
    }

    /// The server is out of its hostgroup, or the user has been given another one: it may be
    /// another one's replica by now. What is held there is lost, as with its connection.
    pub(crate) fn leave_removed(&mut self, client: &mut Client, conn: &Conn) {
        client.set_stage(Stage::Synchronising(conn.id));
        let has_left = client.session.as_ref().is_some_and(|session| session.has_left(conn.id));
        let why = match has_left {
            _ if self.is_deposed(conn) || self.is_behind(conn) => DEPOSED,
            true => MOVED,
            false => REMOVED,
        };
        self.fx.wake(Wake::Lost(conn.id, why));
    }

    /// Appends what brings a connection to `state`.
    pub(super) fn send_sync(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        state: Arc<SessionState>,
        sync: Sync,
        proof: Option<u64>,
    ) {
        let takes_attributes = conn.server.takes_attributes;
        conn.follow_transaction_tracker(&state);
        let out = conn.io.outbox.buf(&mut self.fx.buffers);
        let mut expect = |set: Option<u64>| {
            let relay =
                Relay::new(ResponseShape::Single, conn.server.format, conn.server.format, false)
                    .numbered_from(1);
            conn.in_flight.push_back(InFlight {
                owner: Owner::Sync(client.id, set),
                relay: self.fx.relays.hold(relay),
                is_statement: false,
                place: None,
            });
        };
        if let Some(text) = sync.set_names {
            put_own_query(out, text, takes_attributes);
            expect(None);
        }
        let is_chosen_anew =
            conn.state.schema == Schema::Unknown && conn.server.flavor == Flavor::MariaDb;
        if sync.schema.is_some() && is_chosen_anew {
            // MariaDB does nothing when it is told to choose what is chosen already.
            put_init_db(out, b"information_schema");
            expect(None);
        }
        if let Some(schema) = &sync.schema {
            put_init_db(out, schema);
            expect(None);
        }
        let first = sync.set_first.iter().map(|text| (text, None));
        let sets = first.chain(sync.set.iter().map(|text| (text, proof)));
        for (text, proof) in sets.chain(sync.set_user.iter().map(|text| (text, None))) {
            put_own_query(out, text, takes_attributes);
            expect(proof);
        }
        conn.state = state;
        conn.left.kept_schema = None;
        self.fx.stats.counters.sessions_synchronised += 1;
        self.touch_server(conn);
    }

    /// What is prepared on the connection and not needed goes before the statement.
    fn send_ahead(&mut self, client: &mut Client, conn: &mut Conn) {
        let (Phase::Running(statement), Some(session)) = (&client.phase, client.session.as_ref())
        else {
            return;
        };
        let is_next = sets_next_transaction(statement);
        let prepares = statement.command.purpose == Purpose::Prepare;
        let known = statement.meaning.known.as_ref();
        let looks_back =
            !statement.meaning.is_read || known.is_none_or(|known| !known.looks_at_nothing);
        let begins_read_only = session.transaction.begins_read_only;
        if self.env.snapshot.follows_gtids {
            self.follow_gtids(client, conn);
        }
        if is_next {
            self.track_transactions(conn);
        }
        match prepares {
            true => self.make_room_for_stmt(conn),
            false => self.close_surplus(conn),
        }
        if looks_back {
            self.run_again(client, conn);
            self.put_counts(client, conn);
        }
        if begins_read_only {
            self.begin_read_only(client, conn);
        }
    }

    /// `COM_SET_OPTION` on a connection that the session holds.
    pub(crate) fn set_option_on(&mut self, conn: &mut Conn, option: u16, account: AccountId) {
        conn.login.account = account;
        let relay =
            Relay::new(ResponseShape::Single, conn.server.format, conn.server.format, false)
                .numbered_from(1);
        conn.in_flight.push_back(InFlight {
            owner: Owner::Setup,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        self.write_server(conn, |out| {
            let start = begin_packet(out, 0);
            out.push(0x1B);
            put_u16(out, option);
            end_packet(out, start);
        });
    }
}

fn is_dump(client: &Client) -> bool {
    matches!(&client.phase, Phase::Running(statement)
        if statement.command.purpose == Purpose::Dump)
}

/// Whether a session has no schema, and a connection one that can't be given back.
fn logs_in_again(client: &Client, conn: &Conn) -> bool {
    let state = client.session.as_ref().map(|session| &session.settings.state);
    state.is_some_and(|state| state.schema == Schema::None && conn.state.schema != Schema::None)
}

/// Whether a statement only looks at what the one before has left on this connection, which
/// choosing its schema anew would change.
fn looks_back(client: &Client, conn: &Conn) -> bool {
    let (Phase::Running(statement), Some(session)) = (&client.phase, client.session.as_ref())
    else {
        return false;
    };
    let looks = |analysis: &Analysis| {
        let depends = analysis.depends;
        (depends.contains(Depends::ROW_COUNT) || depends.contains(Depends::DIAGNOSTICS))
            && !runs_a_routine(analysis)
    };
    session.last_conn == Some((conn.id, conn.holder.turn))
        && statement.meaning.known.as_ref().is_some_and(|known| looks(&known.analysis))
}

/// What a session is told whose server is out of its hostgroup.
const REMOVED: &str = "its server was taken out of the hostgroup";
/// What a session is told that held something on a server which has lost its role.
pub(crate) const DEPOSED: &str = "its server has lost its role in its cluster";
/// What a session is told whose user was given another default hostgroup by a reload.
pub(crate) const MOVED: &str = "its user's default hostgroup is another one now";
/// What a client is told when the connection that ran its statement has gone.
pub(crate) const LOST: &str = "Lost connection to MySQL server during query";

pub(super) fn text_hash(text: &[u8]) -> u64 {
    FixedState::default().hash_one(text)
}

/// Whether the server may ask the client for a file.
fn may_ask_for_file(statement: &Statement, session: &Session) -> bool {
    let known = statement.meaning.known.as_ref();
    session.login.capabilities.contains(Capabilities::LOCAL_FILES)
        && known.is_some_and(|known| known.may_ask_for_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_take_no_rights_may_take_some() {
        for text in ["SET @@SESSION.time_zone='+02:00',@@SESSION.sql_mode=''", "SET NAMES latin1"] {
            assert!(!needs_rights(text.as_bytes()), "{text}");
        }
        for name in ["sql_log_bin", "server_id", "innodb_strict_mode", "gtid_next", "of_tomorrow"] {
            let text = format!("SET @@SESSION.time_zone='+02:00',@@SESSION.{name}=1");
            assert!(needs_rights(text.as_bytes()), "{text}");
        }
    }
}
