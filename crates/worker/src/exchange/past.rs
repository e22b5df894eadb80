//! Step 8 for statements that ask for what an earlier one left.

use trunkline_pool::ConnId;
use trunkline_protocol::{error::ErrorKind, packet::greeting::Flavor};
use trunkline_session::tracker::Sync;
use trunkline_sql::analysis::{Analysis, Depends, StatementKind};

use crate::{
    clients::client::{Client, Purpose, Session, Stage, Statement},
    exchange::hidden::may_read_past,
    rooms::{Core, Exchange},
    servers::conn::Conn,
    session_past::Trace,
    session_past::insert_id::{INSERT_ID_LOST, names_insert_id},
};

impl Core {
    /// Before the proxy runs something of its own there that finds rows: asks the connection for
    /// the session's `FOUND_ROWS()`, where no reply told. True when the statement waits for it.
    pub(super) fn asks_for_found_rows(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let here = (conn.id, conn.holder.turn);
        if !client.session.past.asks_for_found_rows(here) {
            return false;
        }
        self.fetch_trace(conn, client.id, Trace::FoundRows);
        client.set_assigned(Stage::Synchronising(conn.id), self.env.now.us);
        true
    }

    /// Before a statement that reads the last insert id: asks the connection for it, where the
    /// replies do not tell. True when the statement waits for the answer.
    pub(super) fn asks_for_insert_id(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let session = &mut *client.session;
        if !session.past.is_insert_id_reported() {
            return false;
        }
        if !conn.server.format.session_track {
            session.past.insert_id_is_set();
            return false;
        }
        session.past.awaits_insert_id = Some(conn.id);
        self.fetch_trace(conn, client.id, Trace::InsertId);
        client.set_assigned(Stage::Synchronising(conn.id), self.env.now.us);
        true
    }
}

impl Exchange {
    /// Refuses a statement that has a connection already, if it reads an id which was lost with
    /// another one meanwhile. True when it has.
    pub(super) fn refuses_lost_insert_id(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        let is_lost = client.running().is_some_and(|(statement, session)| {
            // What is only prepared does not read it.
            statement.command.purpose != Purpose::Prepare
                && names_insert_id(statement)
                && !session.past.knows_insert_id()
        });
        if is_lost {
            self.fail_unsent(client, ErrorKind::StateLost.says(INSERT_ID_LOST), Some(conn));
        }
        is_lost
    }
}

/// What a statement reads of its session's past, and how much of it a connection has.
#[derive(Debug, Clone, Copy)]
pub(super) struct PastHere {
    reads: PastReads,
    /// The connection, in its turn.
    here: (ConnId, u64),
    /// It has the last insert id.
    has_id: bool,
    /// Something has to be brought to it, or another session's to be cleared there.
    pub(super) needs_trace: bool,
    /// To bring it overwrites what finds rows.
    overwrites: bool,
}

impl Core {
    pub(super) fn past_here(
        &self,
        (statement, session): (&Statement, &Session),
        conn: &Conn,
    ) -> PastHere {
        let finds_by_null = self.env.shared.finds_by_null();
        let mut reads = may_read_past(statement, session, conn.server.flavor, finds_by_null);
        reads.insert_id |= session.may_mistake_id(statement, conn);
        let here = (conn.id, conn.holder.turn);
        let is_others = reads.diagnostics && conn.keeps_others_conditions();
        let needs_trace = is_others || reads.is_elsewhere(session, here);
        let overwrites = needs_trace
            && conn.server.flavor == Flavor::MariaDb
            && reads.clears_first(session, here, conn);
        let has_id = session.insert_conn == Some(here);
        PastHere { reads, here, has_id, needs_trace, overwrites }
    }
}

impl Exchange {
    /// Whether the statement waits for what its session left elsewhere, or was refused as that is
    /// lost.
    pub(super) fn awaits_past(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        past: &PastHere,
    ) -> bool {
        if past.overwrites && self.core.asks_for_found_rows(client, conn) {
            return true;
        }
        past.reads.insert_id
            && match past.has_id {
                true => self.core.asks_for_insert_id(client, conn),
                false => self.refuses_lost_insert_id(client, conn),
            }
    }
}

impl PastHere {
    /// Brings what the statement reads of an earlier one's. Another session's traces go; the
    /// session's own conditions stay, and an insert id of its own that is only there.
    pub(super) fn bring(&self, session: &mut Session, conn: &mut Conn, sync: &mut Sync) {
        let Self { reads, here, has_id, .. } = *self;
        let clears = reads.clears_first(session, here, conn);
        let insert_id = (!has_id).then_some(session.last_insert_id);
        add_last_insert_id(sync, insert_id, conn.server.flavor, clears);
        if clears && conn.server.flavor == Flavor::MariaDb {
            session.past.found_rows_overwritten(here);
        }
        if reads.runs_code {
            session.past.row_count_overwritten(here);
        }
        // One that nobody has asked for yet is where it was left.
        if !has_id {
            conn.left.insert_ids.set(session.last_insert_id);
        }
        if !has_id && session.past.knows_insert_id() {
            session.insert_conn = Some(here);
        }
        if clears {
            conn.left.conditions_turn = None;
        }
    }
}

/// What a statement reads of its session's past, beyond the state that is tracked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PastReads {
    /// `LAST_INSERT_ID()`, or it may be left unchanged by what the reply does not tell.
    pub(crate) insert_id: bool,
    /// It may fail and leave an id, or what was there before.
    pub(super) may_leave_id: bool,
    /// What the last statement left: warnings, `ROW_COUNT()`.
    pub(crate) last: bool,
    /// `FOUND_ROWS()`.
    pub(crate) found_rows: bool,
    /// It may leave `FOUND_ROWS()` as it is, which only the server knows.
    pub(crate) may_leave_found_rows: bool,
    /// It runs code that may read any of it.
    pub(crate) runs_code: bool,
    /// Of that, warnings and errors.
    pub(crate) diagnostics: bool,
}

/// Whether a statement runs a stored routine, which may read anything of its session's past.
pub(crate) fn runs_a_routine(analysis: &Analysis) -> bool {
    analysis.depends.contains(Depends::UNKNOWN_FUNCTION)
        || matches!(analysis.kind, StatementKind::Call | StatementKind::Execute)
}

impl PastReads {
    /// The connection and turn where it was left, as far as one connection has it.
    pub(crate) fn place(self, session: &Session) -> Option<(ConnId, u64)> {
        let insert_id = session.insert_conn.filter(|_| self.insert_id || self.may_leave_id);
        let last = session.last_conn.filter(|_| self.last);
        insert_id.or(last).or(session.past.found_conn.filter(|_| self.found_rows))
    }

    /// Whether this connection, in this turn, lacks some of it. A pin does not say that it has it:
    /// the session may have left it elsewhere before, and another session its own here.
    fn is_elsewhere(self, session: &Session, here: (ConnId, u64)) -> bool {
        // What is not known yet is found out where it was left.
        let needs_id = self.insert_id || self.may_leave_id && session.past.knows_insert_id();
        needs_id && session.insert_conn != Some(here)
            || self.lacks_found_rows(session, here)
            || self.last && session.last_conn != Some(here)
    }

    /// Whether another session may have found what this statement would be told of.
    fn lacks_found_rows(self, session: &Session, here: (ConnId, u64)) -> bool {
        (self.found_rows || self.may_leave_found_rows) && session.past.found_conn != Some(here)
    }

    /// Whether warnings and counts are cleared before: on a MariaDB they may stay where they are
    /// all the session's own.
    fn clears_first(self, session: &Session, here: (ConnId, u64), conn: &Conn) -> bool {
        conn.server.flavor == Flavor::MySql
            || session.last_conn != Some(here)
            || conn.keeps_others_conditions()
            || self.lacks_found_rows(session, here)
    }
}

/// Sets this session's own last id; without a value it is what the connection has. That clears
/// warnings and counts: on MySQL with any `SET`, on MariaDB with one that uses a table (`clears`).
/// Anything else keeps the warnings of the statement before.
fn add_last_insert_id(sync: &mut Sync, value: Option<u64>, flavor: Flavor, clears: bool) {
    let text = sync.set.get_or_insert_with(Vec::new);
    let lead = if text.is_empty() { "SET " } else { "," };
    let value = value.map_or_else(|| "LAST_INSERT_ID()".to_owned(), |value| value.to_string());
    let value = match flavor {
        // An interrupted subquery may be NULL, and the `SET` succeed all the same.
        Flavor::MariaDb if clears => format!("IF((SELECT 1 FROM (SELECT 1) AS t),{value},{value})"),
        Flavor::MariaDb | Flavor::MySql => value,
    };
    text.extend_from_slice(format!("{lead}@@SESSION.last_insert_id={value}").as_bytes());
}
