//! What a session's last statement left behind: warnings, counts, the last insert id.
//!
//! A server keeps it on the connection, and the connection may serve others before the session
//! asks. Numbers are in the reply already; the session keeps them. What is not in the reply is
//! fetched when the connection changes hands, in the same write as the next session's statement:
//! so nothing is asked that nobody may miss.

pub(crate) mod again;
pub(crate) mod ask;
mod counts;
pub(crate) mod insert_id;
mod prepared;
pub(crate) mod warnings;

use std::sync::Arc;

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::ClientError,
    packet::{
        greeting::Flavor,
        track::{Change, Changes},
    },
    response::{Outcome, ServerError},
};
use trunkline_session::tracker::SessionState;
use trunkline_sql::{
    analysis::Depends,
    recall::{Gtid, Recalled},
};

use crate::{
    clients::client::{Client, Session, Statement},
    rooms::{Core, Lender},
    servers::conn::Conn,
    statement::proof::Validity,
};

pub(crate) use ask::{reads_past, runs_code};
pub(crate) use counts::{FoundRows, keeps_conditions, leaves_id_when_failed, may_fail_half_way};
use insert_id::InsertId;
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
    pub(crate) is_row_count_apart: bool,
    /// What `FOUND_ROWS()` gives.
    pub(crate) found_rows: Option<u64>,
    /// The connection that has it too, and its turn then.
    pub(crate) found_conn: Option<(ConnId, u64)>,
    pub(crate) conditions: Conditions,
    /// The GTID of the last write, as MariaDB reports it; all 0 before the first.
    pub(crate) last_gtid: Gtid,
    insert_id: InsertId,
    pub(crate) awaits_found_rows: Option<ConnId>,
    pub(crate) awaits_insert_id: Option<ConnId>,
}

/// Warnings and the error of a statement.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) warnings: u16,
    /// Whether a later statement has shown the conditions.
    is_shown: bool,
    pub(crate) error: Option<Box<ServerError>>,
    /// The text of the read that left the warnings, where they went with a shared connection.
    again: Option<Again>,
    /// The warnings themselves, fetched when their connection changed hands.
    pub(crate) fetched: Option<Box<Warnings>>,
    /// The connections that they are being fetched from.
    pub(crate) awaits_warnings: Option<ConnId>,
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
            && self.conditions.warnings == 0
            && self.conditions.error.is_none()
            && self.conditions.fetched.is_none()
            && self.insert_id == InsertId::Sure
            && self.conditions.awaits_warnings.is_none()
            && self.awaits_found_rows.is_none()
            && self.awaits_insert_id.is_none()
    }

    /// Takes over what a statement left that did not itself ask for what was left before. `here`
    /// is the connection that ran it, if the session had that to itself, and its turn; `is_there`:
    /// it ran the statement before, too.
    #[inline]
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
        self.conditions.warnings = outcome.warnings;
        self.conditions.is_shown = false;
        self.conditions.again = None;
        self.conditions.error = outcome.error.clone().map(Box::new);
        self.conditions.fetched = None;
        self.conditions.awaits_warnings = None;
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
        if statement.meaning.known.is_some() {
            self.conditions.is_shown = true;
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
        self.conditions.warnings = 0;
        self.conditions.is_shown = false;
        self.conditions.again = None;
        self.conditions.error = Some(Box::new(error.clone().into()));
        self.conditions.fetched = None;
        self.conditions.awaits_warnings = None;
    }

    /// The proxy has carried a statement out itself, which leaves this row count and no conditions.
    fn succeeded(&mut self, count: i64) {
        self.conditions.warnings = 0;
        self.conditions.is_shown = false;
        self.conditions.again = None;
        self.conditions.error = None;
        self.conditions.fetched = None;
        self.conditions.awaits_warnings = None;
        self.counts_rows_apart(count);
    }

    /// How many conditions an OK packet of MySQL's tells that leaves them as they are.
    pub(crate) fn told_conditions(&self) -> u16 {
        match self.conditions.is_shown {
            true => 0,
            false => {
                self.conditions.warnings.saturating_add(self.conditions.error.is_some().into())
            }
        }
    }

    /// The proxy has shown what conditions there are.
    fn has_shown(&mut self) {
        self.conditions.is_shown = true;
    }

    pub(crate) fn has_conditions(&self) -> bool {
        self.conditions.warnings > 0 || self.conditions.error.is_some()
    }

    fn counts(&self) -> (u64, u64) {
        match &self.conditions.fetched {
            Some(fetched) => fetched.counts(),
            None => {
                let errors = u64::from(self.conditions.error.is_some());
                (u64::from(self.conditions.warnings) + errors, errors)
            }
        }
    }

    /// What is told where the connection that has it has gone. What no reply told is lost then, and
    /// is what new sessions have: another connection has another session's. `own`: what the session
    /// knows without it.
    pub(crate) fn recalled(&self, own: &Recalled) -> Recalled {
        let (warnings, errors) = self.counts();
        Recalled {
            row_count: Some(self.row_count),
            found_rows: self.found_rows.or(Some(0)),
            warning_count: Some(warnings),
            error_count: Some(errors),
            ..*own
        }
    }

    /// `ROW_COUNT()`, for a statement that asks for it and before which the proxy may run something
    /// of its own, which changes that.
    pub(crate) fn row_count(&self, depends: Depends) -> Option<i64> {
        depends.contains(Depends::ROW_COUNT).then_some(self.row_count)
    }

    /// The connection that this is being fetched from.
    pub(crate) fn awaited_mut(&mut self, trace: Trace) -> &mut Option<ConnId> {
        match trace {
            Trace::Warnings => &mut self.conditions.awaits_warnings,
            Trace::FoundRows => &mut self.awaits_found_rows,
            Trace::InsertId => &mut self.awaits_insert_id,
        }
    }

    pub(crate) fn awaits(&self, depends: Depends, runs_code: bool) -> bool {
        let reads = |what| runs_code || depends.contains(what);
        self.conditions.awaits_warnings.is_some() && reads(Depends::DIAGNOSTICS)
            || self.awaits_found_rows.is_some() && reads(Depends::FOUND_ROWS)
            || self.awaits_insert_id.is_some() && reads(Depends::LAST_INSERT_ID)
    }
}

impl Session {
    /// Gives up all that is being fetched for it: it is lost, as if its connection were. True when
    /// there was any.
    pub(crate) fn gives_up_fetching(&mut self) -> bool {
        let fetched = [Trace::Warnings, Trace::FoundRows, Trace::InsertId];
        let mut given_up = false;
        for trace in fetched {
            let Some(conn_id) = self.past.awaited_mut(trace).take() else { continue };
            given_up = true;
            let is_there = |place: &(ConnId, u64)| place.0 == conn_id;
            for place in [&mut self.last_conn, &mut self.insert_conn, &mut self.past.found_conn] {
                place.take_if(|place| is_there(place));
            }
        }
        given_up
    }
}

impl Conn {
    /// Bytes of an answer to [`Trace::Warnings`] are kept up to a limit.
    pub(crate) fn limit_captured(&mut self) {
        if self.io.captured.len() > WARNINGS_LEN_MAX
            && let Some(front) = self.in_flight.front_mut()
        {
            front.relay.set_discard();
        }
    }
}

impl Core {
    /// Fetches all that a session has left on connections at rest: it will not be given them again.
    pub(crate) fn fetch_all_left(&mut self, client: &mut Client) {
        let session = &*client.session;
        let places = [session.last_conn, session.insert_conn, session.past.found_conn];
        for (conn_id, _) in places.into_iter().flatten() {
            self.with_conn(conn_id, |core, conn| {
                let is_own = conn.list.is_free() && conn.holder.last_client == Some(client.id);
                if is_own && left_on(&client.session, conn).is_any() {
                    core.fetch_from_idle(client, conn);
                }
            });
        }
    }

    /// Fetches from a connection at rest what was left there, and there is something.
    fn fetch_from_idle(&mut self, client: &mut Client, conn: &mut Conn) {
        self.servers.take_free(conn);
        self.fetch_before_parting(conn, Some(client));
    }
}

/// What a session has left on a connection and no reply has told.
pub(crate) struct Left {
    pub(crate) warnings: bool,
    pub(crate) found_rows: bool,
    pub(crate) insert_id: bool,
}

impl Left {
    fn is_any(&self) -> bool {
        self.warnings || self.found_rows || self.insert_id
    }
}

/// What a session has left there that it may yet ask for.
pub(crate) fn left_on(session: &Session, conn: &Conn) -> Left {
    let here = Some((conn.id, conn.holder.turn));
    let past = &session.past;
    Left {
        warnings: session.last_conn == here
            && past.has_conditions()
            && past.conditions.fetched.is_none(),
        found_rows: past.found_conn == here && past.found_rows.is_none(),
        insert_id: session.insert_conn == here
            && past.insert_id != InsertId::Sure
            && conn.server.format.session_track,
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

#[cfg(test)]
mod tests;
