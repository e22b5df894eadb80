//! Where a read goes that has to see what its session has written: to a replica that shows it, at
//! once or when one comes to; else as `causal_fallback` says.

use trunkline_pool::{ConnId, Only};
use trunkline_protocol::error::ErrorKind;
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{Analysis, Depends, StatementKind, TransactionEffect};
use trunkline_topology::{HostgroupId, Server, causal::CausalFallback};

use crate::{
    causal::{hints, place::ReadPlace, session::is_elsewhere},
    clients::client::{Awaits, Client, Lease, Phase, Purpose, Running, Session, Stage, Statement},
    rooms::{Core, Exchange, Lender},
    routing::route::Route,
    servers::conn::Conn,
};

impl Session {
    /// Whether a server shows what the read under way has to see.
    fn is_met_by(&self, server: &Server, now_ms: u64) -> bool {
        self.settings.causal.need.is_met_by(&server.health.reached, now_ms)
    }
}

impl Client {
    /// The statement under way, with its session, if it has to see what that has written.
    #[inline]
    fn causal(&self) -> Option<Running<'_>> {
        self.running().filter(|(statement, _)| statement.target.reads.is_causal())
    }

    /// Whether the statement under way has to see what its session has written.
    #[inline]
    pub(crate) fn is_causal(&self) -> bool {
        self.causal().is_some()
    }

    /// Whether the statement under way may run on this server: it has to see nothing in particular,
    /// or the server shows that.
    #[inline]
    pub(super) fn may_read_on(&self, server: &Server, now_ms: u64) -> bool {
        !self.is_causal() || self.session.is_met_by(server, now_ms)
    }

    /// Since when its read waits for a replica, µs, and where it goes then.
    fn waits_for_position(&self) -> Option<(&Statement, &Route)> {
        let Phase::Running(statement) = &self.phase else { return None };
        match &statement.stage {
            Stage::Held(held) if held.awaits == Awaits::Position => Some((statement, &held.route)),
            _ => None,
        }
    }
}

/// How long a read waits at least for what no server is known to have, ms: writers are asked every
/// 250 ms at most what they have, so that a token may be fresher than what is known of its writer.
const UNKNOWN_MS: u64 = 600;

/// Whether a statement ends the transaction that is open and may begin another one, or read without
/// one.
fn begins_anew(session: &Session, statement: &Statement) -> bool {
    let chains = session.settings.state.variable("completion_type").is_some();
    let known = statement.meaning.known.as_ref();
    known.is_some_and(|known| known.analysis.goes_on_in_another(chains))
}

/// Whether nothing but open cursors of other statements holds the session there, or what its last
/// statement left and this one does not look at: it may read, or begin to, elsewhere meanwhile.
fn leaves_cursors(session: &Session, statement: &Statement, lease: &Lease) -> bool {
    let has_other =
        lease.pins.has_other_than(&[PinReason::Cursor, PinReason::Warnings, PinReason::FoundRows]);
    let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
    let uses_cursor = statement.opens_cursor() || stmt.is_some_and(|stmt| stmt.cursor.is_some());
    let Some(known) = statement.meaning.known.as_ref() else { return false };
    let begins = known.analysis.is_one_whole_statement()
        && matches!(known.analysis.transaction, TransactionEffect::Begin { .. });
    (statement.meaning.is_read || begins)
        && !has_other
        && !uses_cursor
        && known.analysis.depends.is_empty()
}

/// Whether a statement reads nothing that anybody writes: its session's warnings, or values without
/// a table. No replica lacks that, and no transaction begins with it in which more is read.
fn reads_no_data(session: &Session, statement: &Statement) -> bool {
    let Some(known) = statement.meaning.known.as_deref() else { return false };
    let Analysis { kind, depends, references, statements, calls_declared, .. } = &known.analysis;
    let is_bare = match kind {
        StatementKind::Show => depends.contains(Depends::DIAGNOSTICS),
        StatementKind::Select => references.is_whole && references.tables.is_empty(),
        _ => false,
    };
    let may_read = *calls_declared
        || depends.contains(Depends::UNKNOWN_FUNCTION)
        || depends.contains(Depends::SEQUENCE);
    is_bare && !may_read && *statements == 1 && !session.settings.state.is_autocommit_off()
}

impl Core {
    /// Notes what a statement that goes to replicas has to see.
    ///
    /// # Errors
    /// When its comments say what can't be obeyed; the text says why.
    #[cold]
    pub(super) fn note_causal(
        &mut self,
        client: &mut Client,
        statement: &mut Statement,
    ) -> Result<(), String> {
        if statement.target.reads.is_causal() && statement.target.causal_since_us > 0 {
            // It has waited: what is written meanwhile it need not see.
            return Ok(());
        }
        statement.target.reads.set_causal(false);
        let session = &mut *client.session;
        let hostgroup = statement.target.hostgroup;
        // What is prepared has to be told of the tables that its session has made. Any command may
        // begin a transaction in which others read.
        let may_read = matches!(
            statement.command.purpose,
            Purpose::Query | Purpose::Prepare | Purpose::Execute
        );
        let reads =
            session.settings.begun.is_some() || may_read && !reads_no_data(session, statement);
        let Some(readers) = self.env.snapshot.causal.readers(hostgroup).filter(|_| reads) else {
            return Ok(());
        };
        let known = statement.meaning.known.as_deref();
        let hints = known.and_then(|known| known.hints.as_deref());
        let hints =
            hints.filter(|hints| hints.is_causal() && self.env.snapshot.settings.query_digests);
        let mut order = statement.target.directives.causal;
        if let Some(hints) = hints {
            order.reads = hints::scope(hints)?.or(order.reads);
        }
        let user = &session.login.user;
        let scope = order.scope(self.env.snapshot.causal_reads(user, hostgroup));
        let board = self.env.shared.causal();
        let at = (self.env.now.ms(), self.env.options.workers);
        session.settings.causal.take_need(board, user, scope, (readers, order.from), at);
        if let Some(hints) = hints {
            let need = &mut session.settings.causal.need;
            hints::take(need, board, hints)?;
            let is_elsewhere = |it| is_elsewhere(readers, order.from, it);
            hints::take_carried(need, board, hints, is_elsewhere)?;
        }
        let is_causal = !session.settings.causal.need.is_empty();
        statement.target.reads.set_causal(is_causal);
        if is_causal {
            self.fx.stats.counters.causal_read(scope);
        }
        Ok(())
    }

    /// The servers that the statement under way may run on, where that is not all of them.
    #[inline]
    pub(super) fn only(&self, client: &Client) -> Option<Only> {
        let (statement, session) = client.causal()?;
        Some(self.showing(session, statement.target.hostgroup))
    }

    /// The replicas that show what a session has written.
    #[cold]
    fn showing(&self, session: &Session, readers: HostgroupId) -> Only {
        let now_ms = self.env.now.ms();
        let shows = |server: &Server| session.is_met_by(server, now_ms);
        self.servers.pool.only(readers, now_ms, shows)
    }

    /// Whether the statement under way may run on a connection's server.
    pub(super) fn may_read_there(&self, client: &Client, conn: &Conn) -> bool {
        let slot = self.servers.pool.slot(conn.slot);
        slot.is_some_and(|slot| client.may_read_on(&slot.server, self.env.now.ms()))
    }

    /// Whether a statement on this route would miss something now.
    fn misses(&self, session: &Session, route: &Route) -> bool {
        match route {
            Route::Lease(_, conn) => {
                let slot = self.servers.conns.get(*conn).map(|conn| conn.slot);
                let slot = slot.and_then(|slot| self.servers.pool.slot(slot));
                let now_ms = self.env.now.ms();
                !slot.is_some_and(|slot| session.is_met_by(&slot.server, now_ms))
            }
            Route::Hostgroup(readers) | Route::Reader(readers) => {
                self.showing(session, *readers).is_empty()
            }
            Route::Error(_) | Route::Limited(_) | Route::Ok(_) => false,
        }
    }

    /// Whether a read has to see something that comes from its client, and that the writer is not
    /// known to have either.
    fn is_missing_everywhere(&self, session: &Session, readers: HostgroupId) -> bool {
        let need = &session.settings.causal.need;
        let writer = self.env.snapshot.causal.readers(readers).and_then(|it| it.writer);
        let has = |server: &Server| server.health.reached.has(need.wants());
        need.is_given()
            && writer
                .is_some_and(|it| self.servers.pool.only(it, self.env.now.ms(), has).is_empty())
    }

    /// How long a read may wait for a replica, ms, what it has waited taken off; 0 where it may
    /// not. `is_held`: it has nowhere else to go.
    fn wait_ms(&self, (statement, session): Running<'_>, is_held: bool) -> u64 {
        let now_ms = self.env.now.ms();
        let readers = statement.target.hostgroup;
        let causal = &session.settings.causal;
        let is_missing = self.is_missing_everywhere(session, readers);
        let may_wait =
            causal.may_wait(now_ms, is_missing) || is_held && causal.need.may_come_of_age();
        let wait_max_ms = match is_missing {
            true => self.env.snapshot.settings.causal_wait_ms.max(UNKNOWN_MS),
            false => self.env.snapshot.settings.causal_wait_ms,
        };
        match may_wait && self.servers.pool.has_online(readers, now_ms) {
            true => wait_max_ms.saturating_sub(self.waited_ms(statement)),
            false => 0,
        }
    }

    /// How long a statement has waited for a replica, ms.
    fn waited_ms(&self, statement: &Statement) -> u64 {
        match statement.target.causal_since_us {
            0 => 0,
            since_us => self.env.now.us.saturating_sub(since_us) / 1_000,
        }
    }

    /// Whether a read waits no more for a replica, as its time is over and the writer is known to
    /// have meanwhile what no server was known to have.
    fn has_come_of_writer(&self, (statement, session): Running<'_>) -> bool {
        self.waited_ms(statement) >= self.env.snapshot.settings.causal_wait_ms
            && session.settings.causal.need.is_given()
            && !self.is_missing_everywhere(session, statement.target.hostgroup)
    }

    /// How long a read may wait that goes to any replica of its hostgroup, ms; `None` where one
    /// shows by now what it has to see.
    #[cold]
    fn wait_in_queue_ms(&self, running: Running<'_>) -> Option<u64> {
        let (statement, session) = running;
        let misses = self.misses(session, &Route::Hostgroup(statement.target.hostgroup));
        misses.then(|| self.wait_ms(running, false))
    }

    /// Keeps the statement under way until a replica shows what it has to see, or its time is over.
    /// False where one does by now.
    fn hold_for_position(&mut self, client: &mut Client, route: Route, wait_ms: u64) -> bool {
        self.env.shared.causal().begin_to_wait();
        self.servers.sharing.causal.waiting.push(client.id);
        // What a replica has come to show before this was not told.
        if !self.misses(&client.session, &route) {
            return false;
        }
        let Phase::Running(statement) = &mut client.phase else { return false };
        let until_ms = self.env.now.ms() + wait_ms;
        let until_ms = match statement.deadline_ms {
            0 => until_ms,
            deadline_ms => until_ms.min(deadline_ms),
        };
        statement.stage = Stage::held(Awaits::Position, route, 0);
        if statement.target.causal_since_us == 0 {
            statement.target.causal_since_us = self.env.now.us;
        }
        self.clients.set_timer(client, until_ms);
        true
    }
}

impl Exchange {
    /// Whether the statement under way waits for a replica that shows what it has to see, or has
    /// gone elsewhere as there is none.
    #[inline]
    pub(super) fn awaits_position(&mut self, client: &mut Client) -> bool {
        let Some(running) = client.causal() else { return false };
        let readers = running.0.target.hostgroup;
        let has_waited = running.0.target.causal_since_us > 0;
        let wait_ms = self.core.wait_in_queue_ms(running);
        self.settle_position(client, readers, has_waited, wait_ms)
    }

    #[cold]
    fn settle_position(
        &mut self,
        client: &mut Client,
        readers: HostgroupId,
        has_waited: bool,
        wait_ms: Option<u64>,
    ) -> bool {
        match wait_ms {
            None => {
                self.count_reached(client, has_waited);
                false
            }
            Some(0) => {
                self.fall_back(client, readers);
                true
            }
            Some(wait_ms) => {
                self.core.hold_for_position(client, Route::Hostgroup(readers), wait_ms)
            }
        }
    }

    /// Whether a statement for a connection that its session holds on a replica waits there for
    /// what it has to see, or has failed. What is in a transaction sees what that sees; what
    /// begins another one in its place does not.
    #[cold]
    pub(super) fn settle_held_position(&mut self, client: &mut Client, conn: ConnId) -> bool {
        let Some(running) = client.causal() else { return false };
        let (statement, session) = running;
        let lease = session.leases.iter().find(|lease| lease.conn == conn);
        let is_open = lease.is_some_and(|it| it.is_in_trans || it.pins.has(PinReason::Transaction));
        let goes_on = is_open && !begins_anew(session, statement);
        let may_leave = !is_open && lease.is_some_and(|it| leaves_cursors(session, statement, it));
        let to_writer = self.core.env.snapshot.settings.causal_fallback == CausalFallback::Writer;
        let readers = statement.target.hostgroup;
        let route = Route::Lease(readers, conn);
        if goes_on || !self.core.misses(session, &route) {
            return false;
        }
        match self.core.wait_ms(running, !(may_leave && to_writer)) {
            0 if may_leave && to_writer => {
                self.fall_back(client, readers);
                true
            }
            0 => self.fail_held(client, readers),
            wait_ms => self.core.hold_for_position(client, route, wait_ms),
        }
    }

    fn count_reached(&mut self, client: &mut Client, has_waited: bool) {
        if !has_waited {
            client.session.settings.causal.was_reached();
            self.core.fx.stats.counters.causal_reached += 1;
        }
    }

    /// Nothing that its session holds shows it, and it has to stay there. False where it runs all
    /// the same.
    fn fail_held(&mut self, client: &mut Client, readers: HostgroupId) -> bool {
        if self.core.env.snapshot.settings.causal_fallback == CausalFallback::Stale {
            self.core.fx.stats.counters.causal_stale += 1;
            return false;
        }
        self.fail_causal(client, readers);
        true
    }

    fn fail_causal(&mut self, client: &mut Client, readers: HostgroupId) {
        self.core.fx.stats.counters.causal_failed += 1;
        let text = format!(
            "no server of hostgroup {readers} shows what this read has to see: \
             nothing was executed, so it can be tried again"
        );
        self.fail_unsent(client, ErrorKind::NoConnection.says(text), None);
    }

    /// No replica shows what the statement has to see.
    fn fall_back(&mut self, client: &mut Client, readers: HostgroupId) {
        let Some((statement, session)) = client.running_mut() else { return };
        if self.core.is_missing_everywhere(session, readers) {
            return self.fail_causal(client, readers);
        }
        let snapshot = &self.core.env.snapshot;
        let target = &mut statement.target;
        let from = target.directives.causal.from;
        let writer = snapshot.causal.readers(target.hostgroup).and_then(|it| it.writer).or(from);
        match (snapshot.settings.causal_fallback, writer) {
            (CausalFallback::Writer, Some(writer)) => {
                target.reads = ReadPlace::OnlyOnWriter;
                target.hostgroup = writer;
                target.pinned_server = None;
                statement.meaning.proof = statement.meaning.proof.on_writer();
                statement.meaning.is_read &= statement.meaning.proof.reads;
                self.core.fx.stats.counters.causal_writer += 1;
                let held = session.leases.iter().find(|it| it.hostgroup == writer);
                match held.map(|lease| lease.conn) {
                    Some(conn) => self.dispatch_to(client, conn),
                    None => self.core.requeue(client),
                }
            }
            (CausalFallback::Stale, _) => {
                target.reads.set_causal(false);
                self.core.fx.stats.counters.causal_stale += 1;
                self.core.requeue(client);
            }
            (CausalFallback::Error | CausalFallback::Writer, _) => {
                self.fail_causal(client, readers);
            }
        }
    }

    /// Looks at the reads that wait for a replica.
    #[inline]
    pub(crate) fn go_on_causal(&mut self) {
        self.core.sweep_lost_writes();
        if self.core.servers.sharing.causal.has_waiting() {
            self.look_at_waiting();
        }
    }

    fn look_at_waiting(&mut self) {
        for id in std::mem::take(&mut self.core.servers.sharing.causal.waiting) {
            let waits = self.with_client(id, Self::waits_on).unwrap_or_default();
            match waits {
                true => self.core.servers.sharing.causal.waiting.push(id),
                false => self.core.env.shared.causal().end_to_wait(),
            }
        }
    }

    /// Whether a client's read waits on for a replica. If not, it goes on.
    fn waits_on(&mut self, client: &mut Client) -> bool {
        let Some((statement, route)) = client.waits_for_position() else { return false };
        let readers = statement.target.hostgroup;
        let has_online = self.core.servers.pool.has_online(readers, self.core.env.now.ms());
        // What it was to be a part of may have gone: then its client's timer says so.
        let has_lost = client.session.lost.is_some();
        if has_lost || self.core.misses(&client.session, route) && has_online {
            let is_over = !has_lost && self.core.has_come_of_writer((statement, &client.session));
            if is_over {
                self.end_wait(client);
            }
            return !is_over;
        }
        if let Some((statement, held)) = client.phase.take_held(|it| *it == Awaits::Position) {
            self.core.clients.set_timer(client, statement.deadline_ms);
            self.count_wait(&statement, true);
            let route = client.still_there(held.route);
            self.run_on_route(client, route, statement);
        }
        false
    }

    /// A read waits no more, though no replica shows what it has to see.
    #[cold]
    fn end_wait(&mut self, client: &mut Client) {
        if let Some((statement, held)) = client.phase.take_held(|it| *it == Awaits::Position) {
            self.core.clients.set_timer(client, statement.deadline_ms);
            self.waited_in_vain(client, statement, held.route);
        }
    }

    fn count_wait(&mut self, statement: &Statement, is_reached: bool) {
        let since_us = statement.target.causal_since_us;
        let counters = &mut self.core.fx.stats.counters;
        counters.causal_wait_us += self.core.env.now.us.saturating_sub(since_us);
        counters.causal_waited += u64::from(is_reached);
    }

    /// The time of a read that waits for a replica is over.
    pub(crate) fn waited_in_vain(
        &mut self,
        client: &mut Client,
        statement: Box<Statement>,
        route: Route,
    ) {
        self.count_wait(&statement, false);
        let misses = self.core.misses(&client.session, &route);
        if misses {
            client.session.settings.causal.waited_in_vain(self.core.env.now.ms());
        }
        let route = client.still_there(route);
        self.run_on_route(client, route, statement);
    }
}
