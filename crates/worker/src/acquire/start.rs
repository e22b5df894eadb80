//! A statement whose route is known starts, at once or after a delay.

use trunkline_protocol::error::{ClientError, ErrorKind};

use crate::{
    ClientId,
    clients::Clients,
    clients::client::{Client, Purpose, Statement, Waiting},
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
        let delay_ms = u64::from(statement.target.directives.delay_ms);
        if delay_ms == 0 {
            let awaits_copies =
                statement.meaning.definition.is_some() && self.core.awaits_copies(&statement);
            self.core.fx.stats.counters.definitions_held_back += u64::from(awaits_copies);
            return self.depart_alone(id, route, statement, text_len);
        }
        self.core.fx.stats.counters.statements_delayed += 1;
        self.core.hold_for(id, route, statement, text_len, delay_ms);
    }

    /// Sets a statement on its route; a definition when no read is left that was sent elsewhere as
    /// well: it would run, once more, as something else.
    #[inline(always)]
    pub(crate) fn depart_alone(
        &mut self,
        id: ClientId,
        route: Route,
        statement: Box<Statement>,
        text_len: usize,
    ) {
        match statement.meaning.definition.is_some() && self.core.awaits_copies(&statement) {
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
        statement.deadline_ms = match statement.target.directives.timeout_ms {
            0 => 0,
            ms => self.core.env.now.ms() + ms,
        };
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        match is_run && reads_past(&statement) {
            true => self.follow_past(id, route, statement, text_len),
            false => self.run_on_route(id, route, statement),
        }
    }

    /// Sets a statement on its route.
    pub(crate) fn run_on_route(
        &mut self,
        id: ClientId,
        route: Route,
        mut statement: Box<Statement>,
    ) {
        match route {
            Route::Lease(hostgroup, conn) => {
                statement.target.hostgroup = hostgroup;
                self.core.clients.begin(id, statement);
                self.dispatch(id, conn);
            }
            Route::Hostgroup(hostgroup) => {
                statement.target.hostgroup = hostgroup;
                self.core.clients.begin(id, statement);
                self.acquire(id);
            }
            Route::Reader(hostgroup) => {
                statement.target.hostgroup = hostgroup;
                statement.target.may_leave_reader = statement.meaning.is_read;
                self.core.clients.begin(id, statement);
                self.acquire(id);
            }
            Route::Error(text) => {
                self.answer_refused(id, statement, ErrorKind::NotAllowed.says(text.to_string()));
            }
            Route::Limited(text) => {
                self.answer_refused(id, statement, ErrorKind::LimitReached.says(text.to_string()));
            }
            Route::Ok(text) => {
                self.core.give_up_unsent(id, statement);
                self.core.answer_ok_with(id, text.as_bytes());
            }
        }
    }

    /// Answers a statement that no server gets with an error. What its client has sent ahead is
    /// meant for a session in which it has run: where it was to change the session, that ends.
    fn answer_refused(&mut self, id: ClientId, statement: Box<Statement>, error: ClientError) {
        let has_more = self.core.clients.get(id).is_some_and(Client::has_sent_ahead);
        let ends = has_more && says_state(&statement);
        self.core.give_up_unsent(id, statement);
        self.core.answer_error(id, error);
        if ends {
            self.close_client(id);
        }
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
        let waited_us = self.env.now.us.saturating_sub(statement.command.begun_us);
        let is_long = waited_us / 1_000 > self.env.snapshot.settings.catalog_age_max;
        !is_long && self.catalog().has_copies()
    }

    /// Nothing of a statement goes to a server.
    fn give_up_unsent(&mut self, id: ClientId, statement: Box<Statement>) {
        self.long_data_used(id, &statement);
        self.fx.buffers.give(statement.command.frames);
    }
}

impl Clients {
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
