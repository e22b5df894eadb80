//! What a session's last statement left behind: warnings, counts, the last insert id.
//!
//! A server keeps it on the connection, and the connection may serve others before the session
//! asks. Numbers are in the reply already; the session keeps them. What is not in the reply is
//! fetched when the connection changes hands, in the same write as the next session's statement:
//! so nothing is asked that nobody may miss.

mod again;
mod ask;
mod counts;
mod insert_id;
mod prepared;
mod warnings;

use std::sync::Arc;

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::ClientError,
    packet::{
        greeting::Flavor,
        track::{Change, Changes},
    },
    response::{Outcome, Relay, ResponseShape, ServerError},
};
use trunkline_session::tracker::SessionState;
use trunkline_sql::{
    analysis::Depends,
    recall::{Gtid, Recalled},
};

use crate::{
    ClientId,
    clients::client::{Phase, Session, Statement, Waiting},
    effects::Wake,
    exchange::send::put_own_query,
    rooms::{Core, Exchange},
    servers::Servers,
    servers::conn::{Conn, InFlight, Owner},
    statement::proof::Validity,
};

pub(crate) use ask::{reads_past, runs_code};
pub(crate) use counts::{FoundRows, keeps_conditions, leaves_id_when_failed, may_fail_half_way};
use insert_id::{InsertId, reported_insert_id, take_insert_id};
use warnings::Warnings;

/// The most bytes of warnings that are kept for a session; the rest of them is lost.
const WARNINGS_LEN_MAX: usize = 256 * 1024;

/// What is fetched from a connection that changes hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trace {
    /// The rows of `SHOW WARNINGS`.
    Warnings,
    /// The value of `FOUND_ROWS()`.
    FoundRows,
    /// The value of `LAST_INSERT_ID()`.
    InsertId,
}

/// What a session's last statement left, as far as it is known here.
#[derive(Debug, Default)]
pub(crate) struct LastStatement {
    /// What `ROW_COUNT()` gives.
    row_count: i64,
    /// Whether the connection of the last statement has another row count, for what counted last
    /// was answered by the proxy or ran elsewhere.
    is_row_count_apart: bool,
    /// What `FOUND_ROWS()` gives.
    found_rows: Option<u64>,
    /// The connection that has it too, and its turn then.
    pub(crate) found_conn: Option<(ConnId, u64)>,
    warnings: u16,
    /// Whether a later statement has shown the conditions.
    is_shown: bool,
    error: Option<Box<ServerError>>,
    /// The text of the read that left the warnings, where they went with a shared connection.
    again: Option<Again>,
    /// The GTID of the last write, as MariaDB reports it; all 0 before the first.
    last_gtid: Gtid,
    /// The warnings themselves, fetched when their connection changed hands.
    fetched: Option<Box<Warnings>>,
    insert_id: InsertId,
    /// The connections that they are being fetched from.
    awaits_warnings: Option<ConnId>,
    awaits_found_rows: Option<ConnId>,
    awaits_insert_id: Option<ConnId>,
}

/// A read that is run again for its warnings.
#[derive(Debug, Clone)]
struct Again {
    text: Box<[u8]>,
    /// How long it is proven to read; `None`, always, where it names no table.
    validity: Option<Validity>,
    /// What the session's state was: in another schema it reads other tables.
    state: Arc<SessionState>,
}

impl LastStatement {
    /// Whether all of it is known here, so that no connection is needed to tell it. `has_run`: a
    /// connection has it too.
    pub(crate) fn is_plain(&self, has_run: bool) -> bool {
        (self.found_rows.is_some() || !has_run)
            && self.warnings == 0
            && self.error.is_none()
            && self.fetched.is_none()
            && self.insert_id == InsertId::Sure
            && self.awaits_warnings.is_none()
            && self.awaits_found_rows.is_none()
            && self.awaits_insert_id.is_none()
    }

    /// Takes over what a statement left that did not itself ask for what was left before. `here`
    /// is the connection that ran it, if the session had that to itself, and its turn; `is_there`:
    /// it ran the statement before, too.
    pub(crate) fn learn(
        &mut self,
        statement: &Statement,
        outcome: &Outcome,
        flavor: Flavor,
        here: Option<(ConnId, u64)>,
        is_there: bool,
    ) {
        // What is only prepared counts nothing, where another session has counted perhaps.
        let counts = self.learn_counts(statement, outcome, flavor, here);
        self.is_row_count_apart = !counts && (self.is_row_count_apart || !is_there);
        self.warnings = outcome.warnings;
        self.is_shown = false;
        self.again = None;
        self.error = outcome.error.clone().map(Box::new);
        self.fetched = None;
        self.awaits_warnings = None;
    }

    /// The session's last GTID is this one.
    pub(crate) fn learn_gtid(&mut self, gtid: Gtid) {
        self.last_gtid = gtid;
    }

    pub(crate) fn is_last_gtid(&self, gtid: Gtid) -> bool {
        self.last_gtid == gtid
    }

    /// Takes over what a statement changed that asked for warnings, and left them as they are.
    /// `here` as in [`LastStatement::learn`]; `is_there`: that connection has the warnings too.
    pub(crate) fn learn_of_look(
        &mut self,
        statement: &Statement,
        outcome: &Outcome,
        flavor: Flavor,
        here: Option<(ConnId, u64)>,
        is_there: bool,
    ) {
        if self.learn_counts(statement, outcome, flavor, here) {
            self.is_row_count_apart = !is_there;
        }
        if statement.known.is_some() {
            self.is_shown = true;
        }
    }

    /// What a reset of the session leaves of it: `FOUND_ROWS()`, as both servers do.
    pub(crate) fn after_reset(&self) -> Self {
        let Self { found_rows, found_conn, awaits_found_rows, .. } = *self;
        Self { found_rows, found_conn, awaits_found_rows, ..Self::default() }
    }

    /// `ROW_COUNT()` is this, whatever the connection of the last statement says.
    pub(crate) fn counts_rows_apart(&mut self, count: i64) {
        self.row_count = count;
        self.is_row_count_apart = true;
    }

    /// Without connections: another worker's have other keys.
    pub(crate) fn elsewhere(self) -> Self {
        Self { found_conn: None, ..self }
    }

    /// The proxy has answered a command with an error of its own: a server would tell of that one.
    pub(crate) fn failed(&mut self, error: &ClientError) {
        self.row_count = -1;
        self.is_row_count_apart = false;
        self.warnings = 0;
        self.is_shown = false;
        self.again = None;
        self.error = Some(Box::new(error.clone().into()));
        self.fetched = None;
        self.awaits_warnings = None;
    }

    /// The proxy has carried a statement out itself, which leaves this row count and no conditions.
    pub(crate) fn succeeded(&mut self, count: i64) {
        self.warnings = 0;
        self.is_shown = false;
        self.again = None;
        self.error = None;
        self.fetched = None;
        self.awaits_warnings = None;
        self.counts_rows_apart(count);
    }

    /// How many conditions an OK packet of MySQL's tells that leaves them as they are.
    pub(crate) fn told_conditions(&self) -> u16 {
        match self.is_shown {
            true => 0,
            false => self.warnings.saturating_add(self.error.is_some().into()),
        }
    }

    /// The proxy has shown what conditions there are.
    pub(crate) fn has_shown(&mut self) {
        self.is_shown = true;
    }

    fn has_conditions(&self) -> bool {
        self.warnings > 0 || self.error.is_some()
    }

    fn counts(&self) -> (u64, u64) {
        match &self.fetched {
            Some(fetched) => fetched.counts(),
            None => {
                let errors = u64::from(self.error.is_some());
                (u64::from(self.warnings) + errors, errors)
            }
        }
    }

    /// What is told where the connection that has it has gone. What no reply told is lost then, and
    /// is what new sessions have: another connection has another session's.
    fn recalled(&self) -> Recalled {
        let (warnings, errors) = self.counts();
        Recalled {
            connection_id: None,
            last_gtid: None,
            row_count: Some(self.row_count),
            found_rows: self.found_rows.or(Some(0)),
            warning_count: Some(warnings),
            error_count: Some(errors),
            has_default_trackers: false,
        }
    }

    fn awaits(&self, depends: Depends, runs_code: bool) -> bool {
        let reads = |what| runs_code || depends.contains(what);
        self.awaits_warnings.is_some() && reads(Depends::DIAGNOSTICS)
            || self.awaits_found_rows.is_some() && reads(Depends::FOUND_ROWS)
            || self.awaits_insert_id.is_some() && reads(Depends::LAST_INSERT_ID)
    }
}

impl Servers {
    /// Bytes of an answer to [`Trace::Warnings`] are kept up to a limit.
    pub(crate) fn limit_captured(&mut self, conn_id: ConnId) {
        if let Some(conn) = self.conns.get_mut(conn_id)
            && conn.captured.len() > WARNINGS_LEN_MAX
            && let Some(front) = conn.in_flight.front_mut()
        {
            front.relay.set_discard();
        }
    }
}

impl Core {
    /// Fetches what the session that had a connection last may yet ask for, before `next` gets
    /// it. `keeps`: what the same session left before stays there for it.
    #[inline]
    pub(crate) fn fetch_traces(&mut self, conn_id: ConnId, next: Option<ClientId>, keeps: bool) {
        let last = self.servers.conns.get(conn_id).and_then(|conn| conn.last_client);
        if let Some(last) = last.filter(|last| !keeps || Some(*last) != next) {
            self.fetch_traces_of(last, conn_id, next);
        }
    }

    #[inline(never)]
    fn fetch_traces_of(&mut self, last: ClientId, conn_id: ConnId, next: Option<ClientId>) {
        let Some(conn) = self.servers.conns.get(conn_id) else {
            return;
        };
        let session = self.clients.get_mut(last).and_then(|client| client.session.as_mut());
        let Some(session) = session else {
            return;
        };
        // Its next statement makes its warnings void.
        let is_other = Some(last) != next;
        let Left { warnings, found_rows, insert_id } = left_on(session, conn_id, conn);
        let (warnings, found_rows) = (warnings && is_other, found_rows && is_other);
        let past = &mut session.past;
        if found_rows {
            past.awaits_found_rows = Some(conn_id);
            past.found_conn = None;
        }
        if warnings {
            past.awaits_warnings = Some(conn_id);
        }
        if insert_id {
            past.awaits_insert_id = Some(conn_id);
        }
        // The second clears what the first asks for.
        if warnings {
            self.fetch_trace(conn_id, last, Trace::Warnings);
        }
        if found_rows {
            self.fetch_trace(conn_id, last, Trace::FoundRows);
        }
        if insert_id {
            self.fetch_trace(conn_id, last, Trace::InsertId);
        }
    }

    /// Fetches what a session may yet ask for from a connection at rest, on no list, that is to be
    /// closed or to go to another account. False where there is nothing to fetch; else the
    /// connection is offered again when all has come.
    pub(crate) fn fetch_before_parting(&mut self, conn_id: ConnId) -> bool {
        let fetched = self.fx.stats.counters.traces_fetched;
        self.fetch_traces(conn_id, None, false);
        if self.fx.stats.counters.traces_fetched == fetched {
            return false;
        }
        self.rest_when_quiet(conn_id);
        true
    }

    /// Fetches all that a session has left on connections at rest: it will not be given them again.
    pub(crate) fn fetch_all_left(&mut self, id: ClientId) {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        let Some(session) = session else { return };
        let places = [session.last_conn, session.insert_conn, session.past.found_conn];
        for (conn_id, _) in places.into_iter().flatten() {
            let session = self.clients.get(id).and_then(|client| client.session.as_ref());
            let (Some(session), Some(conn)) = (session, self.servers.conns.get(conn_id)) else {
                continue;
            };
            let is_own = conn.list.is_free() && conn.last_client == Some(id);
            if is_own && left_on(session, conn_id, conn).is_any() {
                self.fetch_from_idle(conn_id);
            }
        }
    }

    /// Fetches from a connection at rest what was left there, and there is something.
    fn fetch_from_idle(&mut self, conn_id: ConnId) {
        self.servers.take_free(conn_id);
        self.fetch_before_parting(conn_id);
    }

    /// Sees to it that a connection that is on no list, and not quiet yet, is offered when it is.
    pub(crate) fn rest_when_quiet(&mut self, conn_id: ConnId) {
        let Some(conn) = self.servers.conns.get_mut(conn_id) else {
            return;
        };
        // What is there still is nobody's.
        conn.last_client = None;
        conn.turn += 1;
        self.ping(conn_id);
    }

    /// Closes a connection, on no list, when what sessions left there has been fetched.
    pub(crate) fn retire_conn(&mut self, conn_id: ConnId) {
        if !self.fetch_before_parting(conn_id) {
            self.discard_idle(conn_id);
        }
    }

    /// Closes an idle connection when what sessions left there has been fetched.
    pub(crate) fn retire_idle(&mut self, conn_id: ConnId) {
        if self.servers.take_free(conn_id) {
            self.retire_conn(conn_id);
        }
    }

    fn fetch_trace(&mut self, conn_id: ConnId, client: ClientId, trace: Trace) {
        let Some(conn) = self.servers.conns.get_mut(conn_id) else {
            return;
        };
        let text: &[u8] = match trace {
            Trace::Warnings => b"SHOW WARNINGS",
            Trace::FoundRows => b"SELECT FOUND_ROWS()",
            // The session tracker reports the value; the statement has no other effect.
            Trace::InsertId if conn.names_changes => {
                b"SET @@SESSION.last_insert_id=LAST_INSERT_ID()"
            }
            // To ask is to find one row.
            Trace::InsertId => b"SELECT LAST_INSERT_ID(),FOUND_ROWS()",
        };
        let captures = trace != Trace::InsertId || !conn.names_changes;
        let takes_attributes = conn.takes_attributes;
        let captured = warnings::captured_format(conn.format);
        let relay = Relay::new(ResponseShape::Query, conn.format, captured, captures);
        let owner = Owner::Trace(client, trace);
        conn.in_flight.push_back(InFlight { owner, relay, is_statement: false });
        self.fx.stats.counters.traces_fetched += 1;
        self.write_server(conn_id, |out| {
            put_own_query(out, text, takes_attributes);
        });
    }

    /// Nothing more will come of a trace that was fetched from this connection.
    pub(crate) fn trace_gone(&mut self, conn_id: ConnId, id: ClientId, trace: Trace) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let Some(session) = client.session.as_mut() else {
            return;
        };
        let awaits = match trace {
            Trace::Warnings => &mut session.past.awaits_warnings,
            Trace::FoundRows => &mut session.past.awaits_found_rows,
            Trace::InsertId => &mut session.past.awaits_insert_id,
        };
        if *awaits == Some(conn_id) {
            *awaits = None;
        }
        if matches!(&client.phase, Phase::Running(statement) if statement.waiting.is_some()) {
            self.fx.wake(Wake::PastTold(id));
        }
    }

    /// Connections that have gone leave traces behind that never come.
    pub(crate) fn traces_gone(&mut self, conn_id: ConnId, in_flight: &[(ClientId, Trace)]) {
        for (client, trace) in in_flight {
            self.trace_gone(conn_id, *client, *trace);
        }
    }
}

impl Exchange {
    /// What was fetched has come.
    pub(crate) fn trace_answered(
        &mut self,
        conn_id: ConnId,
        client: ClientId,
        trace: Trace,
        outcome: &Outcome,
    ) {
        let Some(conn) = self.core.servers.conns.get_mut(conn_id) else {
            return;
        };
        let captured = std::mem::take(&mut conn.captured);
        let here = (conn_id, conn.turn);
        let session = self.core.clients.get_mut(client).and_then(|client| client.session.as_mut());
        if let Some(session) = session {
            match trace {
                Trace::Warnings if session.past.awaits_warnings == Some(conn_id) => {
                    session.past.fetched = Warnings::read(&captured).map(Box::new);
                }
                Trace::FoundRows if session.past.awaits_found_rows == Some(conn_id) => {
                    let rows = Warnings::read(&captured);
                    session.past.found_rows = rows.and_then(|rows| rows.number(0));
                }
                Trace::InsertId if session.past.awaits_insert_id == Some(conn_id) => {
                    let given = match Warnings::read(&captured) {
                        None => reported_insert_id(outcome),
                        Some(row) => {
                            session.past.take_found_rows(here, row.number(1));
                            row.number(0)
                        }
                    };
                    take_insert_id(session, conn_id, given);
                }
                Trace::Warnings | Trace::FoundRows | Trace::InsertId => {}
            }
        }
        if self.core.servers.conns.get(conn_id).is_some_and(|conn| conn.list.is_resetting()) {
            self.free_if_quiet(conn_id);
        }
        self.core.trace_gone(conn_id, client, trace);
        self.dump_when_quiet(conn_id);
        if trace != Trace::Warnings {
            self.go_on_synchronised(client, conn_id);
        }
    }

    /// A statement that has waited for what an earlier one left goes on, or waits for more of it.
    pub(crate) fn go_on_with_past(&mut self, id: ClientId) {
        let Some(client) = self.core.clients.get_mut(id) else {
            return;
        };
        let Phase::Running(statement) = &mut client.phase else {
            return;
        };
        let Some(waiting) = statement.waiting.take() else {
            return;
        };
        if let Phase::Running(statement) = std::mem::replace(&mut client.phase, Phase::Idle) {
            let Waiting { route, text_len, .. } = *waiting;
            self.follow_past(id, route, statement, text_len);
        }
    }
}

/// What a session has left on a connection and no reply has told.
struct Left {
    warnings: bool,
    found_rows: bool,
    insert_id: bool,
}

impl Left {
    fn is_any(&self) -> bool {
        self.warnings || self.found_rows || self.insert_id
    }
}

/// What a session has left there that it may yet ask for.
fn left_on(session: &Session, conn_id: ConnId, conn: &Conn) -> Left {
    let here = Some((conn_id, conn.turn));
    let past = &session.past;
    Left {
        warnings: session.last_conn == here && past.has_conditions() && past.fetched.is_none(),
        found_rows: past.found_conn == here && past.found_rows.is_none(),
        insert_id: session.insert_conn == here
            && past.insert_id != InsertId::Sure
            && conn.format.session_track,
    }
}

/// The GTID that a reply reports.
pub(crate) fn reported_gtid(outcome: &Outcome) -> Option<Gtid> {
    let mut found = None;
    for change in Changes::new(&outcome.changes) {
        if let Ok(Change::SystemVariable { name: b"last_gtid", value }) = change {
            let mut parts = std::str::from_utf8(value).unwrap_or_default().split('-');
            let mut part = || parts.next();
            found = match (part(), part(), part()) {
                (Some(domain), Some(server), Some(number)) => {
                    let parsed = (domain.parse(), server.parse(), number.parse());
                    match parsed {
                        (Ok(domain), Ok(server), Ok(number)) => Some((domain, server, number)),
                        _ => None,
                    }
                }
                _ => None,
            };
        }
    }
    found
}
