//! Statements that are held back for a while, and statements that run out of their time.
//!
//! A client has one statement under way, and so at most one timer.

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    response::{ErrorInstead, Outcome},
};

use crate::{
    ClientId,
    clients::Clients,
    clients::client::{Ending, Phase, Purpose, Stage, Statement, Waiting},
    rooms::{Commands, Core, Exchange},
    routing::route::Route,
    servers::conn::Owner,
    servers::kill::{KillAsker, KillScope},
    session_past::reads_past,
};

/// A server that does not end a statement this long after it was told to loses its connection,
/// ms.
const UNENDED_MS_MAX: u64 = 12_000;

/// How often a definition that is held back looks whether it may go, ms.
const COPIES_LOOK_MS: u64 = 10;

/// What a statement is answered with that ran out of its time.
const TIMED_OUT: &ErrorInstead = &ErrorInstead {
    code: ErrorKind::TimedOut.code(),
    sqlstate: *ErrorKind::TimedOut.sqlstate(),
    message: "Query execution was interrupted, query_timeout exceeded",
};

impl Clients {
    /// Wakes the client's statement at this time; 0 never does.
    pub(crate) fn set_timer(&mut self, id: ClientId, at_ms: u64) {
        let Some(client) = self.get_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut client.timer_ms, at_ms);
        if before != 0 {
            self.timers.remove(&(before, id));
        }
        if at_ms != 0 {
            self.timers.insert((at_ms, id));
        }
    }

    /// A route that was found before the statement was held back: its lease may have gone.
    pub(crate) fn still_there(&self, id: ClientId, route: Route) -> Route {
        let session = self.get(id).and_then(|client| client.session.as_ref());
        let has = |conn| {
            session.is_some_and(|session| session.leases.iter().any(|lease| lease.conn == conn))
        };
        match route {
            Route::Lease(hostgroup, conn) if !has(conn) => Route::Hostgroup(hostgroup),
            route => route,
        }
    }
}

impl Commands {
    /// Answers a statement from the cache, or sets it on its route, now or when the time has come
    /// that it is held back for. `text_len` is the length of its text, which is the end of its
    /// frames.
    pub(crate) fn submit(
        &mut self,
        id: ClientId,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        match (statement.orders.cache, statement.orders.mirror) {
            (None, None) => self.exchange.delay_or_start(id, route, statement, text_len),
            _ => self.depart_ordered(id, route, statement, text_len),
        }
    }

    /// The same for one that is to be mirrored, or may be answered from the cache.
    #[cold]
    fn depart_ordered(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        if statement.orders.mirror.is_some() {
            self.mirror(id, &route, &mut statement, text_len);
        }
        match statement.orders.cache {
            None => self.exchange.delay_or_start(id, route, statement, text_len),
            Some(order) => self.exchange.ask_cache(id, route, statement, text_len, order),
        }
    }

    /// Wakes those whose time has come.
    pub(crate) fn expire_timers(&mut self) {
        let now_ms = self.exchange.core.env.now.ms();
        while let Some((at_ms, id)) =
            self.exchange.core.clients.timers.first().copied().filter(|(at, _)| *at <= now_ms)
        {
            self.exchange.core.clients.timers.remove(&(at_ms, id));
            let Some(client) = self.exchange.core.clients.get_mut(id) else {
                continue;
            };
            client.timer_ms = 0;
            if matches!(client.phase, Phase::AwaitNames(_)) {
                self.names_told(id);
                continue;
            }
            let Phase::Running(statement) = &mut client.phase else {
                continue;
            };
            let lost = client.session.as_ref().and_then(|session| session.lost.clone());
            match (statement.held_back.take(), lost) {
                (None, _) => self.exchange.time_out(id),
                (Some(_), Some(cause)) => {
                    // What it was to be a part of has gone while it was held back.
                    self.exchange.fail_statement(id, ErrorKind::StateLost.says(cause));
                    self.exchange.close_client(id);
                }
                (Some(waiting), None) => {
                    let phase = std::mem::replace(&mut client.phase, Phase::Idle);
                    if let Phase::Running(statement) = phase {
                        let Waiting { route, text_len, awaits_cache } = *waiting;
                        let route = self.exchange.core.clients.still_there(id, route);
                        match awaits_cache.is_some() {
                            true => {
                                self.exchange.core.count_shared_timeout(&statement);
                                self.exchange.delay_or_start(id, route, statement, text_len);
                            }
                            false => self.exchange.depart_alone(id, route, statement, text_len),
                        }
                    }
                }
            }
        }
    }
}

impl Exchange {
    /// The same for one that the cache has no answer to.
    #[inline(always)]
    pub(crate) fn delay_or_start(
        &mut self,
        id: ClientId,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        let goes_to_server =
            matches!(route, Route::Lease(..) | Route::Hostgroup(_) | Route::Reader(_));
        if !goes_to_server {
            return self.start(id, route, statement, text_len);
        }
        let delay_ms = u64::from(statement.orders.delay_ms);
        if delay_ms == 0 {
            let awaits_copies =
                statement.definition.is_some() && self.core.awaits_copies(&statement);
            self.core.fx.stats.counters.definitions_held_back += u64::from(awaits_copies);
            return self.depart_alone(id, route, statement, text_len);
        }
        self.core.fx.stats.counters.statements_delayed += 1;
        self.core.hold_for(id, route, statement, text_len, delay_ms);
    }

    /// Sets a statement on its route; a definition when no read is left that was sent elsewhere as
    /// well: it would run, once more, as something else.
    #[inline(always)]
    fn depart_alone(
        &mut self,
        id: ClientId,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        match statement.definition.is_some() && self.core.awaits_copies(&statement) {
            true => self.core.hold_for(id, route, statement, text_len, COPIES_LOOK_MS),
            false => self.start(id, route, statement, text_len),
        }
    }

    #[inline(always)]
    fn start(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        statement.deadline_ms = match statement.orders.timeout_ms {
            0 => 0,
            ms => self.core.env.now.ms() + ms,
        };
        let is_run = matches!(statement.purpose, Purpose::Query | Purpose::Execute);
        match is_run && reads_past(&statement) {
            true => self.follow_past(id, route, statement, text_len),
            false => self.run_on_route(id, route, statement),
        }
    }

    /// The client's statement has run out of its time.
    fn time_out(&mut self, id: ClientId) {
        let now_ms = self.core.env.now.ms();
        let Some(Phase::Running(statement)) =
            self.core.clients.get_mut(id).map(|client| &mut client.phase)
        else {
            return;
        };
        let was_told = statement.ending.is_some();
        self.core.fx.stats.counters.statements_timed_out += u64::from(!was_told);
        let (conn, sent_at) = match statement.stage {
            Stage::Queued | Stage::Returning => {
                self.core.pool_leave(id);
                return self.fail_timed_out(id);
            }
            Stage::Synchronising(conn) | Stage::Preparing(conn) => {
                statement.ending = Some(Ending::TimedOut);
                (conn, None)
            }
            Stage::Sent(conn) => (conn, Some(statement.sent_at)),
            Stage::Shared(conn) => {
                let sent_at = statement.sent_at;
                if !was_told && !self.core.single_out(id, conn) {
                    return self.fail_timed_out(id);
                }
                (conn, Some(sent_at))
            }
        };
        if was_told {
            return self.give_up_conn(id, conn);
        }
        self.core.clients.set_timer(id, now_ms + UNENDED_MS_MAX);
        if sent_at.is_none() {
            // It ends before it is sent.
            return;
        }
        self.core.withhold_answer(id, conn);
        // Nobody waits for what comes of it.
        let asker = KillAsker { worker: self.core.env.options.index, client: Some(id), ticket: 0 };
        self.kill_on_server(id, conn, sent_at, KillScope::Statement, asker);
    }

    /// The server has not ended the statement that it was told to end.
    fn give_up_conn(&mut self, id: ClientId, conn: ConnId) {
        if let Some(Phase::Running(statement)) =
            self.core.clients.get_mut(id).map(|client| &mut client.phase)
        {
            statement.retries_left = 0;
        }
        self.lose_conn(conn, "query_timeout exceeded, and the server did not end the statement");
    }

    /// Ends a statement that has run out of its time and gets no answer of a server's.
    pub(crate) fn fail_timed_out(&mut self, id: ClientId) {
        self.fail_unsent(id, timed_out());
    }
}

impl Core {
    fn hold_for(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
        for_ms: u64,
    ) {
        let until_ms = self.env.now.ms() + for_ms;
        let awaits_cache = None;
        statement.held_back = Some(Box::new(Waiting { route, text_len, awaits_cache }));
        self.clients.begin(id, statement);
        self.clients.set_timer(id, until_ms);
    }

    fn awaits_copies(&self, statement: &Statement) -> bool {
        let waited_us = self.env.now.us.saturating_sub(statement.begun_us);
        let is_long = waited_us / 1_000 > self.env.snapshot.settings.catalog_age_max;
        !is_long && self.catalog().has_copies()
    }

    /// The answer to come is not what the client gets. A read's is thrown away, whatever it is;
    /// of anything else only the error of an interruption, as it may have been carried out
    /// before the server was told.
    fn withhold_answer(&mut self, id: ClientId, conn_id: ConnId) {
        let conn = self.servers.conns.get_mut(conn_id);
        let entry = conn.and_then(|conn| {
            conn.in_flight.iter_mut().find(|entry| entry.owner == Owner::Client(id))
        });
        let Some(Phase::Running(statement)) =
            self.clients.get_mut(id).map(|client| &mut client.phase)
        else {
            return;
        };
        statement.ending = Some(Ending::TimedOut);
        let Some(entry) = entry else { return };
        let only_runs = matches!(statement.purpose, Purpose::Query | Purpose::Execute);
        match statement.is_read && only_runs && !entry.relay.has_begun() {
            true => {
                entry.relay.set_discard();
                statement.ending = Some(Ending::Withheld);
            }
            false => entry.relay.replace_interruption(TIMED_OUT),
        }
    }

    /// Answers a statement whose own answer was thrown away.
    pub(crate) fn answer_timed_out(&mut self, id: ClientId) {
        self.write_client(id, |out| {
            timed_out().put(out, 1);
        });
    }

    /// What the session may ask for next is what its client was told, and not that its server was
    /// told to interrupt it.
    pub(crate) fn note_timed_out(&mut self, id: ClientId) {
        self.clients.record_client_error(id, &timed_out());
    }
}

fn timed_out() -> ClientError {
    ErrorKind::TimedOut.says(TIMED_OUT.message)
}

/// Whether the client of a statement that a server has answered was told that its time was over.
pub(crate) fn reported_timeout(statement: &Statement, outcome: &Outcome) -> bool {
    match statement.ending {
        Some(Ending::Withheld) => true,
        Some(Ending::TimedOut) => {
            outcome.error.as_ref().is_some_and(|error| error.code == TIMED_OUT.code)
        }
        Some(Ending::Killed) | None => false,
    }
}
