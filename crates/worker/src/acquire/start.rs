//! A statement whose route is known starts, at once or after a delay.

use trunkline_pool::ConnId;
use trunkline_protocol::error::{ClientError, ErrorKind};
use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::StatementKind;

use crate::{
    clients::client::{Awaits, Client, Lease, Purpose, Stage, Statement},
    exchange::lost::says_state,
    rooms::{Core, Exchange},
    routing::route::Route,
    session_past::reads_past,
    upkeep::timer::COPIES_LOOK_MS,
};

impl Exchange {
    /// Starts a statement that the cache has no answer to, or holds it for its delay.
    #[inline(always)]
    pub(crate) fn delay_or_start(
        &mut self,
        client: &mut Client,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        let goes_to_server =
            matches!(route, Route::Lease(..) | Route::Hostgroup(_) | Route::Reader(_));
        if !goes_to_server {
            return self.start(client, route, statement, text_len);
        }
        let delay_ms = u64::from(statement.target.directives.delay_ms);
        if delay_ms == 0 {
            let awaits_copies =
                statement.meaning.definition.is_some() && self.core.awaits_copies(&statement);
            self.core.fx.stats.counters.definitions_held_back += u64::from(awaits_copies);
            return self.depart_alone(client, route, statement, text_len);
        }
        self.core.fx.stats.counters.statements_delayed += 1;
        self.core.hold_for(client, route, statement, text_len, delay_ms);
    }

    /// Sets a statement on its route; a definition when no read is left that was sent elsewhere as
    /// well: it would run, once more, as something else.
    #[inline(always)]
    pub(crate) fn depart_alone(
        &mut self,
        client: &mut Client,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        match statement.meaning.definition.is_some() && self.core.awaits_copies(&statement) {
            true => self.core.hold_for(client, route, statement, text_len, COPIES_LOOK_MS),
            false => self.start(client, route, statement, text_len),
        }
    }

    #[inline(always)]
    fn start(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
    ) {
        statement.deadline_ms = match statement.target.directives.timeout_ms {
            0 => 0,
            // Ending it could end its wait for a replica, and be answered with OK all the same.
            _ if is_commit(&statement) => 0,
            ms => self.core.env.now.ms() + ms,
        };
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        match is_run && reads_past(&statement) {
            true => self.follow_past(client, route, statement, text_len),
            false => self.run_on_route(client, route, statement),
        }
    }

    /// Sets a statement on its route.
    #[inline]
    pub(crate) fn run_on_route(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
    ) {
        match route {
            Route::Lease(hostgroup, conn) => {
                statement.target.hostgroup = hostgroup;
                if !self.core.servers.pauses.is_empty()
                    && self.core.is_held_there(client, &statement, conn)
                {
                    self.core.fx.stats.counters.statements_held += 1;
                    statement.stage = Stage::held(Awaits::Resume, route, 0);
                    return self.core.clients.begin(client, statement);
                }
                let is_causal = self.core.env.snapshot.has_causal_reads;
                if is_causal && let Err(text) = self.core.note_causal(client, &mut statement) {
                    let refusal = ErrorKind::NotAllowed.says(text);
                    return self.answer_refused(client, statement, refusal);
                }
                self.core.clients.begin(client, statement);
                if is_causal && self.settle_held_position(client, conn) {
                    return;
                }
                self.dispatch_to(client, conn);
            }
            Route::Hostgroup(hostgroup) => {
                statement.target.hostgroup = hostgroup;
                if self.core.env.snapshot.has_causal_reads
                    && let Err(text) = self.core.note_causal(client, &mut statement)
                {
                    let refusal = ErrorKind::NotAllowed.says(text);
                    return self.answer_refused(client, statement, refusal);
                }
                self.core.clients.begin(client, statement);
                self.acquire(client);
            }
            Route::Reader(hostgroup) => {
                statement.target.hostgroup = hostgroup;
                statement.target.reads.set_leaves_reader(statement.meaning.is_read);
                if self.core.env.snapshot.has_causal_reads
                    && let Err(text) = self.core.note_causal(client, &mut statement)
                {
                    let refusal = ErrorKind::NotAllowed.says(text);
                    return self.answer_refused(client, statement, refusal);
                }
                self.core.clients.begin(client, statement);
                self.acquire(client);
            }
            Route::Error(text) => {
                self.answer_refused(
                    client,
                    statement,
                    ErrorKind::NotAllowed.says(text.to_string()),
                );
            }
            Route::Limited(text) => {
                self.answer_refused(
                    client,
                    statement,
                    ErrorKind::LimitReached.says(text.to_string()),
                );
            }
            Route::Ok(text) => {
                self.core.give_up_unsent(client, statement);
                self.core.answer_ok_with(client, text.as_bytes());
            }
        }
    }

    /// Answers a statement that no server gets with an error. What its client has sent ahead is
    /// meant for a session in which it has run: where it was to change the session, that ends.
    pub(super) fn answer_refused(
        &mut self,
        client: &mut Client,
        statement: Box<Statement>,
        error: ClientError,
    ) {
        let has_more = client.has_sent_ahead();
        let ends = has_more && says_state(&statement);
        self.core.give_up_unsent(client, statement);
        self.core.answer_error(client, error);
        if ends {
            self.close_client(client);
        }
    }
}

/// Whether it is a `COMMIT` and nothing else.
fn is_commit(statement: &Statement) -> bool {
    statement.meaning.known.as_ref().is_some_and(|known| {
        known.analysis.kind == StatementKind::Commit && known.analysis.statements == 1
    })
}

impl Core {
    fn hold_for(
        &mut self,
        client: &mut Client,
        route: Route,
        mut statement: Box<Statement>,
        text_len: usize,
        for_ms: u64,
    ) {
        let until_ms = self.env.now.ms() + for_ms;
        statement.stage = Stage::held(Awaits::Time, route, text_len);
        self.clients.begin(client, statement);
        self.clients.set_timer(client, until_ms);
    }

    /// Whether a statement begins something new on a connection that its session holds in a paused
    /// hostgroup. What is open there goes on: a transaction, a cursor, and what is done under
    /// locks, for which others wait.
    fn is_held_there(&self, client: &Client, statement: &Statement, conn: ConnId) -> bool {
        let session = &*client.session;
        let lease = session.leases.iter().find(|lease| lease.conn == conn);
        let goes_on = |lease: &Lease| {
            let open = [
                PinReason::Transaction,
                PinReason::Xa,
                PinReason::TableLock,
                PinReason::BackupLock,
            ];
            lease.is_in_trans || open.into_iter().any(|reason| lease.pins.has(reason))
        };
        let begins = matches!(
            statement.command.purpose,
            Purpose::Query | Purpose::InitDb(_) | Purpose::Prepare | Purpose::Execute
        );
        begins
            && self.servers.pauses.contains_key(&statement.target.hostgroup)
            && !session.is_in_transaction()
            && !lease.is_some_and(goes_on)
    }

    fn awaits_copies(&self, statement: &Statement) -> bool {
        let waited_us = self.env.now.us.saturating_sub(statement.command.begun_us);
        let is_long = waited_us / 1_000 > self.env.snapshot.settings.catalog_age_max;
        !is_long && self.catalog().has_copies()
    }

    /// Nothing of a statement goes to a server.
    fn give_up_unsent(&mut self, client: &mut Client, statement: Box<Statement>) {
        client.long_data_used(&statement);
        self.fx.buffers.give(statement.command.frames.into_own());
    }
}

impl Client {
    /// A route that was found before the statement was held back: its lease may have gone.
    pub(crate) fn still_there(&self, route: Route) -> Route {
        let has = |conn| self.session.leases.iter().any(|lease| lease.conn == conn);
        match route {
            Route::Lease(hostgroup, conn) if !has(conn) => Route::Hostgroup(hostgroup),
            route => route,
        }
    }
}
