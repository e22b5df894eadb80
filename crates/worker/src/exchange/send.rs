//! Step 8: the statement goes out, in one write with what brings its connection to the session's
//! state where that is safe.

use std::{hash::BuildHasher, sync::Arc};

use foldhash::fast::FixedState;
use trunkline_pool::{AccountId, ConnId};
use trunkline_protocol::{
    capability::Capabilities,
    codec::{
        frame::{PAYLOAD_MAX, begin_packet, end_packet, split_packet},
        put_u16,
    },
    command::{attributes::put_query, code},
    error::ErrorKind,
    response::{Relay, ResponseShape},
};
use trunkline_session::tracker::{PinReason, Schema};
use trunkline_sql::analysis::{Analysis, Depends};
use trunkline_topology::RefusalCause;

use crate::{
    clients::client::{Client, Lease, Phase, Purpose, Session, Stage, Statement},
    effects::Wake,
    exchange::dump::waits_to_dump,
    exchange::past::runs_a_routine,
    exchange::pins::sets_next_transaction,
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

/// Whether a session has a transaction open on a connection.
pub(crate) fn has_transaction(session: &Session, conn: ConnId) -> bool {
    let has = |lease: &Lease| {
        lease.conn == conn && (lease.is_in_trans || lease.pins.has(PinReason::Transaction))
    };
    session.leases.iter().any(has)
}

/// Whether a statement waits for the answers to what the proxy has sent of its own accord. A server
/// that has rolled the transaction back meanwhile, as one of Galera does for another node's sake,
/// says so to the first that comes; what comes behind it is outside of the transaction.
fn awaits_own(client: &Client, conn: &Conn) -> bool {
    let is_own = |it: &InFlight| !matches!(it.owner, Owner::Client(_) | Owner::Nobody);
    let may_be_undone = |(statement, session): (&Statement, &Session)| {
        !statement.meaning.is_read && has_transaction(session, conn.id)
    };
    conn.in_flight.iter().any(is_own) && client.running().is_some_and(may_be_undone)
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

impl Servers {
    /// A server accepted this `SET`, or a reset.
    pub(crate) fn prove(&mut self, conn: &Conn, set: u64) {
        if set == RESET_PROOF {
            self.resetting.insert(conn.slot);
            return;
        }
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
        let Some(past) = client.running().map(|running| self.core.past_here(running, conn)) else {
            return;
        };
        if self.awaits_past(client, conn, &past) || !self.is_prepared(client, conn) {
            return;
        }
        let has_state = |session: &Session| Arc::ptr_eq(&conn.state, &session.settings.state);
        let begins = |session: &Session| session.begins_on(conn.id).is_some();
        let is_ready = has_state(&client.session) && !begins(&client.session) && !past.needs_trace;
        match is_ready {
            true if client.is_dump() && waits_to_dump(client, conn) => {}
            true => self.send_statement(client, conn, Stage::Sent(conn.id)),
            false => self.send_with_state(client, conn, &past, awaits_reset),
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
            let begins_anew = begins(&client.session);
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
        let (id, is_mirror) = (client.id, client.is_mirror);
        let Some((statement, session)) = client.running_mut() else { return };
        if statement.command.purpose == Purpose::Dump {
            return self.begin_dump(client, conn);
        }
        let delivers = statement.command.purpose.is_answered_by_server() && !is_mirror;
        let is_shared = matches!(stage, Stage::Shared(_));
        let relay = self.core.relay_of(statement, session, conn, delivers, is_shared);
        conn.in_flight.push_back(InFlight {
            owner: Owner::Client(id),
            relay,
            is_statement: true,
            place,
        });
        if conn.holder.busy_since_us == 0 {
            conn.holder.busy_since_us = now_us;
        }
        statement.sent.sent_at = conn.io.outbox.position();
        statement.sent.sent_us = now_us;
        self.core.restart_copies(statement, conn);
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
    pub(super) fn exchange(&mut self, client: &mut Client, conn: &mut Conn) {
        let account = client.session.login.account;
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
    /// What is kept of a statement's answer begins anew.
    #[inline]
    fn restart_copies(&self, statement: &mut Statement, conn: &Conn) {
        if let Some(fill) = &mut statement.beside.fill {
            fill.copy.restart();
            if let Some(basis) = &mut fill.basis {
                // Before it is sent: what becomes visible while it runs it may have missed.
                let slot = self.servers.pool.slot(conn.slot);
                slot.inspect(|slot| basis.send(&slot.server.key.address));
            }
        }
        if let Some(half) = &mut statement.beside.mirrored {
            half.copy.restart();
        }
    }

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

    /// What is prepared on the connection and not needed goes before the statement.
    fn send_ahead(&mut self, client: &mut Client, conn: &mut Conn) {
        let Some((statement, session)) = client.running_mut() else { return };
        let is_next = sets_next_transaction(statement);
        let prepares = statement.command.purpose == Purpose::Prepare;
        let known = statement.meaning.known.as_ref();
        let looks_back =
            !statement.meaning.is_read || known.is_none_or(|known| !known.looks_at_nothing);
        let begins_read_only = session.transaction.begins_read_only;
        if self.env.snapshot.follows_gtids {
            self.follow_gtids((statement, session), conn);
        }
        if is_next {
            self.track_transactions(conn);
        }
        match prepares {
            true => self.make_room_for_stmt(conn),
            false => self.close_surplus(conn),
        }
        if looks_back {
            self.run_again((statement, session), conn);
            self.put_counts(statement, session, conn);
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

/// Whether a session has no schema, and a connection one that can't be given back.
fn logs_in_again(client: &Client, conn: &Conn) -> bool {
    let state = &client.session.settings.state;
    state.schema == Schema::None && conn.state.schema != Schema::None
}

/// Whether a statement only looks at what the one before has left on this connection, which
/// choosing its schema anew would change.
fn looks_back(client: &Client, conn: &Conn) -> bool {
    let Some((statement, session)) = client.running() else { return false };
    let looks = |analysis: &Analysis| {
        let depends = analysis.depends;
        (depends.contains(Depends::ROW_COUNT) || depends.contains(Depends::DIAGNOSTICS))
            && !runs_a_routine(analysis)
    };
    session.last_conn == Some((conn.id, conn.holder.turn))
        && statement.meaning.known.as_ref().is_some_and(|known| looks(&known.analysis))
}

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
