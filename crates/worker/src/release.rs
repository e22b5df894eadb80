//! Step 10: a statement is over. Its session learns from the reply, its connection goes back or
//! stays for a reason, and everything is counted.

use std::sync::Arc;

use trunkline_pool::{ConnId, ConnState};
use trunkline_protocol::{
    codec::frame::put_payload,
    packet::{err::put_err, greeting::Flavor, status},
    response::{Outcome, Relay, ResponseShape},
};
use trunkline_session::tracker::{Charset, PinReason, SessionState, apply_outcome};
use trunkline_sql::analysis::{Analysis, Depends, Effect, TransactionEffect};
use trunkline_stats::{ClientRefusal, StatementSample};

use crate::{
    ClientId, Worker,
    client::{Phase, Purpose, Stage, Statement},
    conn::{InFlight, Owner},
    dispatch::runs_routine,
    modes::modes_of,
};

/// Status flags that describe the session and not one result.
const LASTING_STATUS: u16 = status::IN_TRANS
    | status::AUTOCOMMIT
    | status::NO_BACKSLASH_ESCAPES
    | status::IN_TRANS_READONLY;

/// Statements kept for reuse; more than that go back to the allocator.
const SPARE_STATEMENTS_MAX: usize = 256;

impl Worker {
    /// The reply to a client's command has been relayed to its end.
    pub(crate) fn complete(&mut self, id: ClientId, conn_id: ConnId, outcome: Outcome) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let statement = match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::Running(statement) => statement,
            other => {
                client.phase = other;
                return;
            }
        };
        self.account(id, conn_id, &statement, &outcome);
        self.learn(id, conn_id, &statement, &outcome);
        self.finish_purpose(id, conn_id, &statement, &outcome);
        self.retire(statement);
        self.settle_lease(id, conn_id);
        self.after_statement(id);
    }

    /// Keeps a statement's memory for the next one.
    fn retire(&mut self, mut statement: Box<Statement>) {
        self.buffers.give(std::mem::take(&mut statement.frames));
        statement.known = None;
        if self.spare_statements.len() < SPARE_STATEMENTS_MAX {
            self.spare_statements.push(statement);
        }
    }

    /// What follows a statement, however it ended.
    pub(crate) fn after_statement(&mut self, id: ClientId) {
        if self.stopping.is_some() {
            self.close_if_free(id);
        }
        self.drain_inbox(id);
    }

    /// The session's record takes over what the statement changed.
    fn learn(&mut self, id: ClientId, conn_id: ConnId, statement: &Statement, outcome: &Outcome) {
        let Some(session) = self.clients.get_mut(id).and_then(|client| client.session.as_mut())
        else {
            return;
        };
        let flavor = self.conns.get(conn_id).map_or(Flavor::MySql, |conn| conn.flavor);
        let analysis = statement.known.as_ref().map(|known| &known.analysis);
        if outcome.last_insert_id != 0 {
            session.last_insert_id = outcome.last_insert_id;
        }
        if let Some(flags) = outcome.status {
            session.status = flags & LASTING_STATUS;
            session.modes.no_backslash_escapes = flags & status::NO_BACKSLASH_ESCAPES != 0;
        }
        let in_transaction = match outcome.status {
            Some(flags) if outcome.error.is_none() => flags & status::IN_TRANS != 0,
            // An error does not say whether a transaction is open: it stays as it was, or as
            // earlier statements of the same command have left it, and one may have begun where
            // statements begin them.
            flags => {
                let was_open = flags.is_some_and(|flags| flags & status::IN_TRANS != 0);
                was_open || session.is_in_transaction() || session.state.is_autocommit_off()
            }
        };
        let Some(lease) = session.leases.iter_mut().find(|lease| lease.conn == conn_id) else {
            return;
        };
        // What is meant for the next transaction stays on the connection until there was one, or
        // its end was asked for. Whether a statement by itself was one only the server knows.
        let has_ended = lease.pins.has(PinReason::Transaction)
            || outcome.error.is_none() && analysis.is_some_and(ends_transaction);
        if has_ended && !in_transaction {
            lease.pins.unpin(PinReason::NextTransaction);
        }
        lease.pins.set(PinReason::Transaction, in_transaction);
        let has_warnings = outcome.warnings > 0 && outcome.error.is_none();
        let reads_warnings =
            analysis.is_some_and(|analysis| analysis.depends.contains(Depends::DIAGNOSTICS));
        if !reads_warnings {
            lease.pins.set(PinReason::Warnings, has_warnings || outcome.error.is_some());
        }
        // What is only prepared has not run; other commands have no effects beyond their purpose.
        let has_run = matches!(statement.purpose, Purpose::Query | Purpose::Execute);
        let applied =
            has_run.then(|| apply_outcome(&session.state, &mut lease.pins, analysis, outcome));
        if let Some(state) = applied.and_then(|applied| applied.state) {
            let state = self.states.intern(state);
            session.state = state;
            let no_backslash_escapes = session.status & status::NO_BACKSLASH_ESCAPES != 0;
            session.modes = modes_of(&session.state, flavor, no_backslash_escapes);
        }
        let state = Arc::clone(&session.state);
        if let Some(conn) = self.conns.get_mut(conn_id) {
            session.last_conn = Some((conn_id, conn.turn));
            if outcome.last_insert_id != 0 || analysis.is_some_and(sets_insert_id_silently) {
                session.insert_conn = session.last_conn;
            }
            conn.state = state;
        }
    }

    /// What a command means beyond its reply.
    fn finish_purpose(
        &mut self,
        id: ClientId,
        conn_id: ConnId,
        statement: &Statement,
        outcome: &Outcome,
    ) {
        let succeeded = outcome.error.is_none();
        match &statement.purpose {
            Purpose::Query | Purpose::Execute | Purpose::Other => {}
            Purpose::InitDb(schema) if succeeded => {
                self.confirm_schema(id, schema);
                self.enter_schema(id, schema);
                self.agree(id, conn_id);
            }
            Purpose::LoginSchema(schema, seq) => match &outcome.error {
                None => {
                    self.confirm_schema(id, schema);
                    self.enter_schema(id, schema);
                    self.agree(id, conn_id);
                    self.welcome(id, *seq);
                }
                Some(error) => {
                    self.stats.counters.client_refused(ClientRefusal::UnknownSchema);
                    let text = String::from_utf8_lossy(&error.message).into_owned();
                    self.refuse(id, *seq, error.code, &error.sqlstate, &text);
                }
            },
            Purpose::Prepare if succeeded => self.keep_prepared(id, conn_id, statement, outcome),
            Purpose::Reset if succeeded => {
                self.forget_state(id);
                let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
                if let Some(lease) = session.and_then(|session| session.lease_mut(conn_id)) {
                    lease.pins.clear();
                }
                self.forget_conn_state(conn_id);
                self.switch_trackers_on(conn_id);
            }
            Purpose::InitDb(_) | Purpose::Prepare | Purpose::Reset => {}
        }
    }

    fn keep_prepared(
        &mut self,
        id: ClientId,
        conn_id: ConnId,
        statement: &Statement,
        outcome: &Outcome,
    ) {
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        let (Some(session), Some(prepared), Some(known)) =
            (session, &outcome.prepared, &statement.known)
        else {
            return;
        };
        session.prepared.push((prepared.stmt_id, std::rc::Rc::clone(known)));
        if let Some(lease) = session.lease_mut(conn_id) {
            lease.pins.pin(PinReason::PreparedStatement);
        }
    }

    /// The connection is in the session's state: what changed it changed both.
    fn agree(&mut self, id: ClientId, conn_id: ConnId) {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        if let (Some(session), Some(conn)) = (session, self.conns.get_mut(conn_id)) {
            conn.state = Arc::clone(&session.state);
        }
    }

    /// Reasons that end with the next statement end before it is routed.
    pub(crate) fn end_brief_pins(&mut self, id: ClientId, analysis: &Analysis) {
        let ends = |reason| match reason {
            PinReason::Warnings => !analysis.depends.contains(Depends::DIAGNOSTICS),
            _ => !analysis.depends.contains(Depends::FOUND_ROWS),
        };
        self.unpin_where(id, ends);
    }

    /// What the last statement left to be read holds its session only for a while.
    pub(crate) fn end_pins_of_the_last_statement(&mut self, id: ClientId) {
        self.unpin_where(id, |_| true);
    }

    fn unpin_where(&mut self, id: ClientId, ends: impl Fn(PinReason) -> bool) {
        let Some(session) = self.clients.get_mut(id).and_then(|client| client.session.as_mut())
        else {
            return;
        };
        let mut freed = Vec::new();
        for lease in &mut session.leases {
            let was_pinned = !lease.pins.is_empty();
            for reason in [PinReason::Warnings, PinReason::FoundRows] {
                if lease.pins.has(reason) && ends(reason) {
                    lease.pins.unpin(reason);
                }
            }
            if was_pinned && lease.pins.is_empty() {
                freed.push(lease.conn);
            }
        }
        for conn in freed {
            self.settle_lease(id, conn);
        }
    }

    /// Gives a connection back when nothing holds the session on it.
    pub(crate) fn settle_lease(&mut self, id: ClientId, conn_id: ConnId) {
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        let Some(session) = session else { return };
        let Some(lease) = session.leases.iter().find(|lease| lease.conn == conn_id) else {
            return;
        };
        let is_free = lease.pins.is_empty();
        let Some(conn) = self.conns.get_mut(conn_id) else {
            return;
        };
        if !is_free {
            if !std::mem::replace(&mut conn.is_pinned, true)
                && let Some(slot) = self.pool.slot_mut(conn.slot)
            {
                slot.set_pinned(true);
            }
            return;
        }
        let slot = conn.slot;
        self.take_lease(id, conn_id);
        if let Some(slot) = self.pool.slot_mut(slot) {
            slot.leave(ConnState::Leased);
        }
        self.offer(conn_id);
    }

    /// The session ends: its connections are reset before anybody else gets them.
    pub(crate) fn end_session(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Some(session) = client.session.take() else {
            return;
        };
        for lease in session.leases {
            self.free_after_session(lease.conn);
        }
    }

    /// Brings a connection that a session left to a known state.
    pub(crate) fn free_after_session(&mut self, conn_id: ConnId) {
        let Some(conn) = self.conns.get_mut(conn_id) else {
            return;
        };
        conn.owner = None;
        conn.last_client = None;
        let was_pinned = std::mem::take(&mut conn.is_pinned);
        for entry in &mut conn.in_flight {
            if let Owner::Client(_) | Owner::Sync(..) = entry.owner {
                entry.owner = Owner::Nobody;
                entry.relay.set_discard();
            }
        }
        if conn.is_paused {
            conn.is_paused = false;
            self.act(crate::Action::Resume(crate::Side::Server(conn_id)));
        }
        let Some(conn) = self.conns.get_mut(conn_id) else {
            return;
        };
        let (slot, is_quiet) = (conn.slot, conn.in_flight.is_empty());
        conn.list = ConnState::Resetting;
        if let Some(slot) = self.pool.slot_mut(slot) {
            if was_pinned {
                slot.set_pinned(false);
            }
            slot.leave(ConnState::Leased);
            slot.enter(ConnState::Resetting);
        }
        if is_quiet {
            self.reset_conn(conn_id);
        }
    }

    /// The last answer that nobody waits for has come.
    pub(crate) fn free_if_quiet(&mut self, conn_id: ConnId) {
        let Some(conn) = self.conns.get(conn_id) else {
            return;
        };
        if conn.list == ConnState::Resetting && conn.in_flight.is_empty() {
            self.reset_conn(conn_id);
        }
    }

    /// `COM_RESET_CONNECTION`: rolls back, drops temporary tables, releases locks, forgets
    /// variables and statements.
    fn reset_conn(&mut self, conn_id: ConnId) {
        let Some(conn) = self.conns.get_mut(conn_id) else {
            return;
        };
        debug_assert!(conn.list == ConnState::Resetting && conn.in_flight.is_empty());
        let relay =
            Relay::new(ResponseShape::Single, conn.format, conn.format, false).numbered_from(1);
        conn.in_flight.push_back(InFlight { owner: Owner::Reset, relay, is_statement: false });
        self.stats.counters.server_connections_reset += 1;
        self.write_server(conn_id, |out| {
            put_payload(out, 0, &[0x1F]);
        });
    }

    pub(crate) fn reset_done(&mut self, conn_id: ConnId) {
        let Some(conn) = self.conns.get(conn_id) else {
            return;
        };
        if let Some(slot) = self.pool.slot_mut(conn.slot) {
            slot.leave(ConnState::Resetting);
        }
        self.forget_conn_state(conn_id);
        self.switch_trackers_on(conn_id);
        self.offer(conn_id);
    }

    /// After a reset the schema is as it was, variables have their defaults, and servers differ
    /// in the character set.
    fn forget_conn_state(&mut self, conn_id: ConnId) {
        let Some(conn) = self.conns.get_mut(conn_id) else {
            return;
        };
        let state = SessionState::new(conn.state.schema.clone(), Charset::Unknown);
        conn.state = self.states.intern(state);
    }

    /// Ends a statement that got no reply with an error, and the connection with it if the login
    /// was not over.
    pub(crate) fn fail_statement(
        &mut self,
        id: ClientId,
        code: u16,
        sqlstate: &[u8; 5],
        text: &str,
    ) {
        self.fail_statement_numbered(id, 1, code, sqlstate, text);
    }

    /// The same, as packet `seq` of a reply that has begun.
    pub(crate) fn fail_statement_numbered(
        &mut self,
        id: ClientId,
        seq: u8,
        code: u16,
        sqlstate: &[u8; 5],
        text: &str,
    ) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let statement = match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::Running(statement) => statement,
            other => {
                client.phase = other;
                return;
            }
        };
        self.account_failed(id, &statement, code);
        let purpose = statement.purpose.clone();
        self.retire(statement);
        if let Purpose::LoginSchema(_, seq) = purpose {
            return self.refuse(id, seq, code, sqlstate, text);
        }
        self.write_client(id, |out| {
            put_err(out, seq, code, sqlstate, text);
        });
        self.after_statement(id);
    }

    /// The client goes while its statement is under way.
    pub(crate) fn leave_statement(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let statement = match std::mem::replace(&mut client.phase, Phase::Closing) {
            Phase::Running(statement) => statement,
            Phase::Forward(conn) => return self.drop_conn(conn),
            other => {
                client.phase = other;
                return;
            }
        };
        match statement.stage {
            Stage::Queued => self.pool.waiters(statement.hostgroup).remove(id),
            // The session's end frees the connection.
            Stage::Synchronising(_) | Stage::Sent(_) => {}
        }
        self.retire(statement);
    }

    /// A session keeps at most one connection when it is reset: the others are freed.
    pub(crate) fn keep_one_lease(&mut self, id: ClientId) {
        let Some(session) = self.clients.get_mut(id).and_then(|client| client.session.as_mut())
        else {
            return;
        };
        let others: Vec<_> = session.leases.drain(1.min(session.leases.len())..).collect();
        for lease in others {
            self.free_after_session(lease.conn);
        }
    }

    /// The server's in-flight figure goes down.
    pub(crate) fn count_answered(&mut self, conn_id: ConnId) {
        let Some(slot) = self.slot_of(conn_id) else {
            return;
        };
        if let Some(slot) = self.pool.slot(slot) {
            slot.server.health.end_statement();
        }
        if let Some(conn) = self.conns.get_mut(conn_id) {
            conn.busy_since_us = 0;
        }
    }

    /// Counts a statement that a server answered.
    fn account(&mut self, id: ClientId, conn_id: ConnId, statement: &Statement, outcome: &Outcome) {
        let slot = self.slot_of(conn_id);
        self.sample(id, statement, slot.map(|slot| slot.index()), Some(outcome), None);
    }

    /// Counts a statement that the proxy answered with an error.
    fn account_failed(&mut self, id: ClientId, statement: &Statement, code: u16) {
        self.sample(id, statement, None, None, Some(code));
    }

    fn sample(
        &mut self,
        id: ClientId,
        statement: &Statement,
        server: Option<usize>,
        outcome: Option<&Outcome>,
        error: Option<u16>,
    ) {
        let (Some(known), Some(session)) =
            (&statement.known, self.clients.get(id).and_then(|client| client.session.as_ref()))
        else {
            return;
        };
        let queued_until = match statement.sent_us {
            0 => self.now.us,
            sent_us => sent_us,
        };
        let keeps_digest = self.snapshot.settings.query_digests;
        self.stats.statement(&StatementSample {
            digest: keeps_digest.then_some(known.digest),
            digest_text: &known.digest_text,
            username: &session.user.name,
            schema: session.state.schema.name(),
            hostgroup: statement.hostgroup.0,
            kind: known.analysis.kind.index(),
            server,
            latency_us: self.now.us.saturating_sub(statement.begun_us),
            queue_us: queued_until.saturating_sub(statement.begun_us),
            rows_sent: outcome.map_or(0, |outcome| outcome.rows),
            rows_affected: outcome.map_or(0, |outcome| outcome.affected_rows),
            bytes_in: statement.frames.len() as u64,
            bytes_out: outcome.map_or(0, |outcome| outcome.bytes),
            error: error.or(outcome.and_then(|outcome| Some(outcome.error.as_ref()?.code))),
            now_unix_sec: self.now.unix_sec,
        });
    }
}

/// Whether a statement may set what `LAST_INSERT_ID()` gives without saying so in its reply.
fn sets_insert_id_silently(analysis: &Analysis) -> bool {
    runs_routine(analysis)
        || analysis.effects.iter().any(|effect| matches!(effect, Effect::LastInsertIdAssigned))
}

fn ends_transaction(analysis: &Analysis) -> bool {
    matches!(
        analysis.transaction,
        TransactionEffect::Commit { .. } | TransactionEffect::Rollback { .. }
    )
}
