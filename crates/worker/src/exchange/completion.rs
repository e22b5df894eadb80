//! Step 10: a statement is over. Its session learns from the reply, its connection goes back or
//! stays for a reason, and everything is counted.

use std::sync::Arc;

use trunkline_pool::{ConnId, ConnState, Place};
use trunkline_protocol::{error::ClientError, response::Outcome};
use trunkline_session::tracker::{PinReason, reported_schema, reports_change, reports_lasting};
use trunkline_sql::analysis::Analysis;
use trunkline_stats::{ClientRefusal, ErrorSample, StatementSample};
use trunkline_topology::{HostgroupId, Seen};

use crate::{
    cache::until::end_own_write,
    clients::client::{Client, Ending, Phase, Purpose, Stage, Statement, is_not_read},
    effects::Wake,
    exchange::lost::{makes_state, only_looks_at},
    exchange::pins::ends_session,
    prepared::outcome::{stmt_executed, stmt_fetched},
    replay::Noted,
    rooms::{Core, Exchange, Lender},
    servers::conn::Conn,
    servers::read_only::{OPTION_PREVENTS_STATEMENT, UNKNOWN_COMMAND},
    servers::trackers::Behind,
    session_past::again::keep_warnings_of_shared,
    special::local_infile::Upload,
    upkeep::timer::{reported_timeout, timed_out},
};

/// Statements kept for reuse; more than that go back to the allocator.
const SPARE_STATEMENTS_MAX: usize = 256;

impl Exchange {
    /// The reply to a client's command has been relayed to its end.
    pub(crate) fn complete(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        outcome: &Outcome,
        service_us: u64,
    ) {
        let Some(mut statement) = client.phase.take_statement() else { return };
        if !statement.meaning.is_read {
            end_own_write(&mut client.session, &statement, self.core.env.now.us);
        }
        let noted = match statement.beside.noted.take() {
            Some(Noted::Again(again)) => {
                return self.complete_repeated(client, conn, statement, again, outcome);
            }
            Some(Noted::First(noted)) => Some(noted),
            Some(Noted::Behind(_)) | None => None,
        };
        let error = statement.prepared.prepare_error.take();
        let was_run = error.is_none();
        let refused = error.map(|error| self.core.answer_prepare_error(client, *error));
        let outcome = refused.as_ref().unwrap_or(outcome);
        if statement.ending == Some(Ending::Withheld) {
            self.core.answer_timed_out(client);
        }
        self.account(client, conn, &statement, outcome);
        self.core.learn(client, conn, &statement, outcome, was_run);
        remember_told(client, &statement, outcome, was_run);
        self.finish_purpose(client, conn, &statement, outcome, was_run);
        if let Some(noted) = noted {
            self.core.keep(&mut client.session, conn, &statement, &noted, outcome);
        }
        if let (Some(Ending::Withheld), Some(stmt_id)) =
            (statement.ending, statement.prepared.stmt_id)
        {
            // Its client was told that it failed: there are no rows to be fetched.
            self.core.close_cursor(client, stmt_id, Some(conn));
        }
        let is_shared = matches!(statement.stage, Stage::Shared(_));
        let is_tainted = is_shared && reports_change(outcome);
        let lasts = is_tainted && reports_lasting(outcome);
        if was_run {
            let is_good = outcome.error.is_none() && outcome.warnings == 0 && !is_tainted;
            statement.observe_pace(service_us, is_good);
        }
        let took_us = self.core.env.now.us.saturating_sub(statement.sent.sent_us);
        self.finish_copies(conn, &mut statement, outcome, was_run);
        if is_shared {
            keep_warnings_of_shared(client, conn, &statement, outcome);
        }
        let is_over = ends_session(client, conn, &statement, outcome);
        statement.meaning.definition = None;
        let change = statement.command.purpose.body_of_change();
        self.retire(statement);
        match is_shared {
            true if is_tainted => {
                conn.holder.close_on_release |= lasts;
                self.clean_shared(conn);
            }
            true => {
                self.core.fx.stats.counters.shared_wait_us += took_us.saturating_sub(service_us);
                self.settle_shared(conn, Some(took_us));
            }
            false => self.core.settle_lease(client, conn),
        }
        self.go_on_behind(client, conn, is_over, change);
    }

    /// What comes behind a statement: the end of its session, the rest of a change of user, or the
    /// next command.
    #[inline]
    fn go_on_behind(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        is_over: bool,
        change: Option<Box<[u8]>>,
    ) {
        match (is_over, change) {
            (true, _) => self.end_client(client, Some(conn)),
            (false, None) => self.after_statement(client, Some(conn)),
            (false, Some(body)) => self.core.change_when_over(client, body),
        }
    }

    /// The answer has been copied for the cache, or to be compared.
    #[inline]
    fn finish_copies(
        &mut self,
        conn: &Conn,
        statement: &mut Statement,
        outcome: &Outcome,
        was_run: bool,
    ) {
        if let Some(fill) = statement.beside.fill.take() {
            self.core.finish_fill(conn, statement, &fill, outcome, was_run);
        }
        if statement.beside.mirrored.is_some() {
            self.finish_half(conn, statement, outcome);
        }
    }

    /// Keeps a statement's memory for the next one.
    pub(crate) fn retire(&mut self, mut statement: Box<Statement>) {
        if statement.beside.fill.is_some() {
            self.core.drop_fill(&mut statement);
        }
        self.orphan_definition(&mut statement);
        statement.clear(&mut self.core.fx.buffers);
        if self.core.clients.spare_statements.len() < SPARE_STATEMENTS_MAX {
            self.core.clients.spare_statements.push(statement);
        }
    }

    /// What follows a statement, however it ended. `lent`: the connection that is lent, if one is.
    #[inline]
    pub(crate) fn after_statement(&mut self, client: &mut Client, lent: Option<&mut Conn>) {
        if client.is_mirror {
            return self.core.clients.copies.over.push(client.id);
        }
        if self.core.env.stopping.is_some() {
            self.close_if_free(client, lent);
        }
        self.core.wake_commands(client);
    }

    /// What a command means beyond its reply.
    fn finish_purpose(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
        was_run: bool,
    ) {
        let succeeded = outcome.error.is_none();
        match &statement.command.purpose {
            Purpose::Query | Purpose::Other => {}
            Purpose::Execute => stmt_executed(client, conn, statement, outcome, was_run),
            Purpose::Fetch => stmt_fetched(client, conn, statement, outcome),
            Purpose::Prepare => self.stmt_prepared(client, conn, statement, outcome),
            Purpose::InitDb(schema) if succeeded => {
                self.core.confirm_schema(client, schema);
                self.core.enter_schema(client, reported_schema(&outcome.changes).unwrap_or(schema));
                conn.agree(client);
            }
            Purpose::LoginSchema(schema, seq) => match &outcome.error {
                None => {
                    self.core.confirm_schema(client, schema);
                    self.core
                        .enter_schema(client, reported_schema(&outcome.changes).unwrap_or(schema));
                    conn.agree(client);
                    self.core.begin_autocommit(client);
                    self.welcome(client, *seq);
                }
                Some(error) => {
                    self.core.fx.stats.counters.client_refused(ClientRefusal::UnknownSchema);
                    self.refuse_change(client, *seq, error.into(), Some(conn));
                }
            },
            Purpose::Reset | Purpose::ChangeUser(_) if succeeded => {
                self.core.learn_autocommit(conn, outcome.status);
                self.core.forget_state(client, Some(conn));
                if let Some(lease) = client.session.lease_mut(conn.id) {
                    lease.pins.reset();
                }
                conn.was_reset();
                self.core.forget_stmts(conn);
                self.core.forget_conn_state(conn);
                self.core.switch_trackers_on(conn, Behind::Reset, Some(client));
            }
            Purpose::Register if succeeded => {
                if let Some(lease) = client.session.lease_mut(conn.id) {
                    lease.pins.pin(PinReason::Other);
                }
            }
            // Its connection has been left before anything is answered.
            Purpose::Dump | Purpose::Register => {}
            Purpose::InitDb(_) | Purpose::Reset | Purpose::ChangeUser(_) => {}
        }
    }

    /// Ends a statement that got no reply with an error, and the connection with it if the login
    /// was not over. `lent`: the connection that is lent, if one is.
    pub(crate) fn fail_statement(
        &mut self,
        client: &mut Client,
        error: ClientError,
        lent: Option<&mut Conn>,
    ) {
        self.fail_statement_numbered(client, 1, error, lent);
    }

    /// Ends a statement that no server was sent with an error. What its client has sent ahead, or
    /// sends before it has read the error, is meant for a session in which it has run: unless it
    /// only looks at something, the session ends where something was sent ahead, or would change
    /// its meaning.
    /// `lent`: the connection that is lent, if one is.
    pub(crate) fn fail_unsent(
        &mut self,
        client: &mut Client,
        error: ClientError,
        mut lent: Option<&mut Conn>,
    ) {
        if client.repetition().is_some() {
            return self.fail_statement(client, error, lent);
        }
        let ends = match &client.phase {
            Phase::Running(statement) => self.fails_for_those_behind(client, statement),
            _ => false,
        };
        match ends {
            true => {
                self.tell_failure(client, 1, &error, lent.as_deref_mut());
                self.end_client(client, lent);
            }
            false => self.fail_statement(client, error, lent),
        }
    }

    /// Whether the failure of a statement that no server was sent ends its session: see
    /// [`Self::fail_unsent`].
    pub(super) fn fails_for_those_behind(&self, client: &Client, statement: &Statement) -> bool {
        let session = &*client.session;
        !only_looks_at(statement) && (client.has_sent_ahead() || makes_state(statement, session))
    }

    /// Ends a statement with an error, as packet `seq` of a reply that has begun.
    pub(super) fn fail_statement_numbered(
        &mut self,
        client: &mut Client,
        seq: u8,
        error: ClientError,
        mut lent: Option<&mut Conn>,
    ) {
        if self.tell_failure(client, seq, &error, lent.as_deref_mut()) {
            self.after_statement(client, lent);
        }
    }

    /// Ends a statement with an error, as packet `seq`, without beginning what the client has sent
    /// behind it. False when the session is over.
    pub(super) fn tell_failure(
        &mut self,
        client: &mut Client,
        seq: u8,
        error: &ClientError,
        lent: Option<&mut Conn>,
    ) -> bool {
        match self.take_repetition(client, |_| true) {
            Some(repetition) => self.tell_given_up(client, repetition, &error.text, lent),
            None => self.tell_of_statement(client, seq, error, lent),
        }
    }

    /// See [`Self::tell_failure`]; of a statement of the client's own.
    pub(super) fn tell_of_statement(
        &mut self,
        client: &mut Client,
        seq: u8,
        error: &ClientError,
        lent: Option<&mut Conn>,
    ) -> bool {
        let Some(statement) = client.phase.take_statement() else { return false };
        self.account_failed(client, &statement, error.code);
        client.long_data_used(&statement);
        let purpose = statement.command.purpose.clone();
        self.retire(statement);
        if let Purpose::LoginSchema(_, seq) = purpose {
            self.refuse_change(client, seq, error.clone(), lent);
            return matches!(client.phase, Phase::Idle);
        }
        client.note_error(error);
        self.core.write_error(client, seq, error);
        true
    }

    /// The client goes while its statement is under way. `lent`: the connection that is lent, if
    /// one is.
    pub(super) fn leave_statement(&mut self, client: &mut Client, mut lent: Option<&mut Conn>) {
        let statement = match std::mem::replace(&mut client.phase, Phase::Closing) {
            Phase::Running(statement) => statement,
            Phase::Forward(conn) => {
                self.core.with_conn_or(lent, conn, Core::drop_conn);
                return;
            }
            Phase::AwaitServer(hostgroup) => {
                return self.core.servers.pool.waiters(hostgroup).remove(client.id);
            }
            other => {
                client.phase = other;
                return;
            }
        };
        if let (Stage::Sent(conn), false) = (&statement.stage, statement.meaning.is_read) {
            self.core.leave_write(&mut client.session, *conn, lent.as_deref_mut());
        }
        match statement.stage {
            Stage::Held(_) => {}
            Stage::Queued | Stage::Returning => {
                self.core.servers.pool.waiters(statement.target.hostgroup).remove(client.id)
            }
            Stage::Shared(conn) => {
                self.core.with_conn_or(lent, conn, |core, conn| core.leave_shared(client, conn));
            }
            // Its server waits for the rest of a file that will not come.
            Stage::Sent(conn) if matches!(statement.beside.upload, Upload::Sending { .. }) => {
                self.core.with_conn_or(lent, conn, Core::drop_conn);
            }
            // The session's end frees the connection.
            Stage::Synchronising(_) | Stage::Preparing(_) | Stage::Sent(_) => {}
        }
        self.retire(statement);
    }

    /// Counts a statement that a server answered.
    fn account(
        &mut self,
        client: &mut Client,
        conn: &Conn,
        statement: &Statement,
        outcome: &Outcome,
    ) {
        if let Some(slot) = self.core.servers.pool.slot_mut(conn.slot) {
            slot.width().answered(self.core.env.now.us, 0);
            if outcome.error.as_ref().is_some_and(|error| is_servers_fault(error.code)) {
                slot.seen.failed = slot.seen.failed.saturating_add(1);
            }
        }
        let server = Some(conn.slot.index());
        if self.core.env.snapshot.watches {
            self.watch(client, statement, server, Some(conn), Some(outcome), None);
        }
        self.count(client, statement, server, Some(outcome), None);
    }

    /// Counts a statement that the proxy answered with an error.
    fn account_failed(&mut self, client: &mut Client, statement: &Statement, code: u16) {
        self.sample(client, statement, None, None, Some(code));
    }

    /// Counts a statement that came to its end otherwise than by a server's answer, and writes
    /// down what is wanted of it.
    pub(crate) fn sample(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        server: Option<usize>,
        outcome: Option<&Outcome>,
        error: Option<u16>,
    ) {
        if self.core.env.snapshot.watches {
            self.watch(client, statement, server, None, outcome, error);
        }
        self.count(client, statement, server, outcome, error);
    }

    fn count(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        server: Option<usize>,
        outcome: Option<&Outcome>,
        error: Option<u16>,
    ) {
        let Some(known) = &statement.meaning.known else {
            return;
        };
        let error = error.or(outcome.and_then(|outcome| Some(outcome.error.as_ref()?.code)));
        let queued_until = match statement.sent.sent_us {
            0 => self.core.env.now.us,
            sent_us => sent_us,
        };
        let is_logged = statement.target.directives.written.is_logged;
        if is_logged && self.core.env.snapshot.settings.query_log.is_empty() {
            self.core.log_statement(client, statement, error);
        }
        if client.is_mirror {
            return self.core.count_mirrored(server, error);
        }
        let session = &*client.session;
        if let (Some(slot), Some(error)) = (server, outcome.and_then(|it| it.error.as_ref())) {
            let found = self.core.servers.pool.slots().find(|(id, _)| id.index() == slot);
            let refuses = matches!(error.code, OPTION_PREVENTS_STATEMENT | UNKNOWN_COMMAND);
            if let Some((_, slot)) = found.filter(|_| refuses) {
                slot.server.health.note(Seen::READ_ONLY);
            }
            let server = found.map(|(_, slot)| slot.server.key.address.to_string());
            self.core.fx.stats.server_error(&ErrorSample {
                hostgroup: statement.target.hostgroup.0,
                server: &server.unwrap_or_default(),
                username: &session.login.user.name,
                schema: session.settings.state.schema.name(),
                code: error.code,
                text: &error.message,
                now_unix_sec: self.core.env.now.unix_sec,
            });
        }
        let keeps_digest = self.core.env.snapshot.settings.query_digests;
        self.core.fx.stats.statement(&StatementSample {
            digest: keeps_digest.then_some(known.digest),
            digest_text: &known.digest_text,
            username: &session.login.user.name,
            schema: session.settings.state.schema.name(),
            hostgroup: statement.target.hostgroup.0,
            kind: known.analysis.kind.index(),
            server,
            latency_us: self.core.env.now.us.saturating_sub(statement.command.begun_us),
            queue_us: queued_until.saturating_sub(statement.command.begun_us),
            rows_sent: outcome.map_or(0, |outcome| outcome.rows),
            rows_affected: outcome.map_or(0, |outcome| outcome.affected_rows),
            bytes_in: statement.command.frames.len() as u64,
            bytes_out: outcome.map_or(0, |outcome| outcome.bytes),
            error,
            now_unix_sec: self.core.env.now.unix_sec,
        });
    }
}

/// Whether a server says by this error that it is ill, whatever the statement was: no memory,
/// no threads, no disk, shutting down, not a part of its cluster.
fn is_servers_fault(code: u16) -> bool {
    matches!(code, 1021 | 1026 | 1030 | 1037 | 1038 | 1041 | 1047 | 1053 | 1135)
}

impl Core {
    /// Reasons that end with the next statement end before it is routed.
    pub(crate) fn end_brief_pins(&mut self, client: &mut Client, analysis: &Analysis) {
        self.unpin_where(client, |reason| is_not_read(reason, analysis));
    }

    /// What the last statement left to be read holds its session only for a while.
    pub(crate) fn end_pins_of_the_last_statement(&mut self, client: &mut Client) {
        self.unpin_where(client, |_| true);
    }

    fn unpin_where(&mut self, client: &mut Client, ends: impl Fn(PinReason) -> bool) {
        let mut freed = Vec::new();
        let ended = client.session.leases.iter_mut().filter_map(|lease| {
            let is_freed = lease.end_brief_pins(&ends);
            is_freed.then_some(lease.conn)
        });
        freed.extend(ended);
        for conn in freed {
            self.with_conn(conn, |core, conn| core.settle_lease(client, conn));
        }
    }

    /// Gives a connection back when nothing holds the session on it.
    pub(crate) fn settle_lease(&mut self, client: &mut Client, conn: &mut Conn) {
        let session = &mut *client.session;
        session.settle_begun(conn.id);
        let Some(lease) = session.lease_mut(conn.id) else {
            return;
        };
        if !lease.pins.is_empty() {
            let hostgroup = conn.server.hostgroup;
            if self.servers.pool.counts_places() && self.servers.pool.is_waited_for(hostgroup) {
                // Its connection is kept, but its server has room for somebody else's statement.
                self.fx.wake(Wake::Queue(hostgroup));
            }
            return self.servers.set_state(conn, ConnState::Pinned);
        }
        self.take_lease(client, conn);
        if conn.may_be_hit() {
            // A `KILL` for the statement that is over may still arrive.
            return self.free_after_session(conn, Some(client));
        }
        self.freed(conn);
    }

    /// The session ends: its connections are reset before anybody else gets them. `lent`: the
    /// connection that is lent, if one is.
    pub(crate) fn end_session(&mut self, client: &mut Client, mut lent: Option<&mut Conn>) {
        self.log_session(client, "MySQL_Client_Close", String::new);
        let (leases, soiled, place) = client.session.end();
        for lease in leases {
            self.free_lease(client, &lease, lent.as_deref_mut());
        }
        self.reset_soiled(client.id, soiled, lent);
        if has_plant!(self, UserPlaceLeaked) {
            std::mem::forget(place);
        }
    }

    /// A session keeps at most one connection when it is reset, this one or else the first: the
    /// others are freed. Returns which one it keeps.
    pub(crate) fn keep_one_lease(
        &mut self,
        client: &mut Client,
        kept: Option<ConnId>,
    ) -> Option<(HostgroupId, ConnId)> {
        let session = &mut *client.session;
        session.transaction.kept = None;
        let kept = kept.or(session.leases.first().map(|lease| lease.conn));
        let freed = session.leave_where(|lease| Some(lease.conn) != kept);
        let kept = session.leases.first().map(|lease| (lease.hostgroup, lease.conn));
        for lease in freed {
            self.free_lease(client, &lease, None);
        }
        kept
    }

    /// The server's in-flight figure goes down. Returns how long the server took for the
    /// statement, those in front of it not counted, µs.
    pub(crate) fn count_answered(&mut self, conn: &mut Conn, place: Option<Place>) -> u64 {
        let now_us = self.env.now.us;
        let has_more = conn.in_flight.iter().any(|entry| entry.is_statement);
        let next_us = if has_more { now_us } else { 0 };
        let since_us = std::mem::replace(&mut conn.holder.busy_since_us, next_us);
        let took_us = now_us.saturating_sub(since_us);
        if let Some(slot) = self.servers.pool.slot_mut(conn.slot) {
            slot.server.health.end_statement();
            slot.server.health.note_answer();
            slot.latency.observe(took_us, now_us);
            slot.seen.answered = slot.seen.answered.saturating_add(1);
        }
        if let Some(place) = place {
            self.end_place(conn, place, took_us);
        }
        took_us
    }
}

impl Conn {
    /// It is in the session's state: what changed one changed both.
    fn agree(&mut self, client: &Client) {
        self.state = Arc::clone(&client.session.settings.state);
    }
}

/// What the session may ask for next is the error that its client was told, where that is not the
/// server's answer.
#[inline]
fn remember_told(client: &mut Client, statement: &Statement, outcome: &Outcome, was_run: bool) {
    if reported_timeout(statement, outcome) {
        client.record_client_error(&timed_out());
    } else if let (false, Some(error)) = (was_run, &outcome.error) {
        // Its server may have been told to run it all the same, and says why it could not.
        client.record_client_error(&error.into());
    }
}

impl Statement {
    /// Notes how long it has taken, with those of its kind.
    #[inline]
    fn observe_pace(&self, service_us: u64, is_good: bool) {
        let has_run = matches!(self.command.purpose, Purpose::Query | Purpose::Execute);
        if let Some(known) = self.meaning.known.as_ref().filter(|_| has_run) {
            known.pace.observe(service_us, is_good);
        }
    }
}
