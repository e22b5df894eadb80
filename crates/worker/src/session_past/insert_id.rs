//! What `LAST_INSERT_ID()` is, as far as replies tell.
//!
//! Replies report ids that statements generated and ids that statements gave, alike; some report
//! none. What is not told is asked for where it was left, before anybody else gets that connection
//! and before the session reads it elsewhere. Where the connection has gone with it, nothing is
//! told: an older id would be taken for the new one.

use trunkline_catalog::Hidden;
use trunkline_pool::ConnId;
use trunkline_protocol::{
    packet::track::{Change, Changes},
    response::Outcome,
};
use trunkline_session::tracker::runs_unseen_code;
use trunkline_sql::{
    analysis::{Depends, StatementKind},
    recall,
};

use super::{
    LastStatement, Trace,
    ask::{goes_to, runs_code},
};
use crate::{
    clients::client::{Client, Purpose, Session, Statement},
    rooms::{Core, Lender},
    routing::route::Route,
    servers::{conn::Conn, dirt::is_without_schema, read_only::says_read_only},
    statement::analysis::Known,
};

/// What is known of the value that `LAST_INSERT_ID()` gives.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) enum InsertId {
    /// It is the session's `last_insert_id`.
    #[default]
    Sure,
    /// Replies reported these, the newest last. A value that a statement gave, instead of having
    /// it generated, is reported as well; then it is what it was before, `base`.
    Reported { base: u64, reported: Vec<u64> },
    /// It is what the connection has: what was there before the statement was the session's own.
    OnConnection,
}

/// What was known of it at some time.
#[derive(Debug, Default)]
pub(crate) struct InsertIdBefore {
    id: u64,
    how: InsertId,
    conn: Option<(ConnId, u64)>,
}

/// Reported values that are told apart; older ones are taken for given ones.
const REPORTED_MAX: usize = 8;

/// What a statement is told that reads an id which was lost with its connection.
pub(crate) const INSERT_ID_LOST: &str =
    "LAST_INSERT_ID() is unknown: the server connection of the statement that set it has ended";

/// How a statement that may read the last insert id goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// As it is.
    GoesOn,
    /// When the id has been fetched.
    Waits,
    /// Not at all: nobody knows the id any more.
    Lost,
}

impl Session {
    /// Takes over what a statement says of the last insert id. `is_here`: the session's last one
    /// was left on the same connection. True when it may have changed.
    pub(crate) fn learn_insert_id(
        &mut self,
        is_here: bool,
        statement: &Statement,
        outcome: &Outcome,
    ) -> bool {
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        let Some(known) = statement.meaning.known.as_ref().filter(|_| is_run) else {
            return false;
        };
        let id = outcome.last_insert_id;
        // Before an `INSERT` that fails half-way it had its session's own (`dispatch`).
        let is_half_way = is_here && outcome.error.is_some() && gives_values(known.analysis.kind);
        let insert_id = if known.may_leave_insert_id || is_half_way {
            if is_without_schema(self, statement, outcome)
                || is_refused_by_read_only(statement, outcome)
            {
                return false;
            }
            InsertId::OnConnection
        } else if id == 0 {
            return false;
        } else if self.may_give(statement, known, id) {
            self.reported(is_here, id)
        } else {
            InsertId::Sure
        };
        self.past.insert_id = insert_id;
        if id != 0 {
            self.last_insert_id = id;
        }
        self.past.awaits_insert_id = None;
        true
    }

    /// Notes what a statement makes of the last insert id that its connection has.
    pub(crate) fn learn_insert_ids(
        &self,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
    ) {
        let (known, id) = (statement.meaning.known.as_deref(), outcome.last_insert_id);
        let ids = &mut conn.left.insert_ids;
        match (&statement.command.purpose, known) {
            (Purpose::Query | Purpose::Execute, Some(known)) => {
                let has_failed = outcome.error.is_some() && gives_values(known.analysis.kind);
                match known.may_leave_insert_id || has_failed {
                    true => ids.forget(),
                    false if id == 0 => {}
                    false if self.may_give(statement, known, id) => ids.add(id),
                    false => ids.set(id),
                }
            }
            (Purpose::Query | Purpose::Execute, None) => ids.forget(),
            _ => {}
        }
    }

    /// Whether a statement may give an id that another session has left on the connection: the
    /// session would take that for its own.
    pub(crate) fn may_mistake_id(&self, statement: &Statement, conn: &Conn) -> bool {
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        let known = statement.meaning.known.as_deref();
        let Some(known) = known.filter(|it| is_run && gives_values(it.analysis.kind)) else {
            return false;
        };
        let is_here = self.insert_conn == Some((conn.id, conn.holder.turn));
        let (own, told) = match &self.past.insert_id {
            InsertId::OnConnection if is_here => return false,
            // An id that was told and was not there before is the session's, if it is there.
            InsertId::Reported { base, reported } if is_here => (*base, reported.as_slice()),
            InsertId::Reported { base, .. } => (*base, &[][..]),
            InsertId::Sure | InsertId::OnConnection => (self.last_insert_id, &[][..]),
        };
        let is_others = |id: u64| id != own && !told.contains(&id);
        conn.left.insert_ids.may_be(|id| is_others(id) && self.may_give(statement, known, id))
    }

    /// Whether a statement may have given this id, instead of having it generated.
    fn may_give(&self, statement: &Statement, known: &Known, id: u64) -> bool {
        known.computes_values || self.may_be_given(statement, id)
    }

    /// What is known of the id, so that it can be put back.
    pub(crate) fn insert_id_before(&self) -> InsertIdBefore {
        InsertIdBefore {
            id: self.last_insert_id,
            how: self.past.insert_id.clone(),
            conn: self.insert_conn,
        }
    }

    /// What has run since then was for nobody.
    pub(crate) fn put_insert_id_back(&mut self, before: InsertIdBefore) {
        self.last_insert_id = before.id;
        self.past.insert_id = before.how;
        self.past.awaits_insert_id = None;
        self.insert_conn = before.conn;
    }

    /// What is known behind a reply with an id that its statement may have given.
    fn reported(&mut self, is_here: bool, id: u64) -> InsertId {
        let (base, mut reported) = match std::mem::take(&mut self.past.insert_id) {
            InsertId::Sure | InsertId::OnConnection if is_here => return InsertId::OnConnection,
            InsertId::Reported { base, reported } if is_here => (base, reported),
            InsertId::Reported { .. } | InsertId::Sure | InsertId::OnConnection => {
                (self.last_insert_id, Vec::new())
            }
        };
        if reported.len() >= REPORTED_MAX {
            reported.remove(0);
        }
        reported.push(id);
        InsertId::Reported { base, reported }
    }

    /// Whether a statement's text, its parameters, or a trigger may have given the id that its
    /// reply reports.
    fn may_be_given(&self, statement: &Statement, id: u64) -> bool {
        if statement.meaning.proof.hidden.may(Hidden::GIVES_VALUES) {
            return true;
        }
        if statement.command.purpose != Purpose::Execute {
            return recall::text_may_give(&statement.command.frames, id);
        }
        let Some(stmt) = statement.prepared.stmt_id.and_then(|stmt_id| self.prepared.get(stmt_id))
        else {
            return true;
        };
        let types = stmt.types.as_deref().unwrap_or_default();
        stmt.long.is_some()
            || recall::text_may_give(&statement.entry(stmt).text, id)
            || recall::parameters_may_give(&statement.command.frames, types, id)
    }
}

impl LastStatement {
    /// The session's own last insert id was set on its connection.
    pub(crate) fn insert_id_is_set(&mut self) {
        self.insert_id = InsertId::Sure;
    }

    /// Whether the session's last insert id is what it has down for it.
    pub(crate) fn knows_insert_id(&self) -> bool {
        self.insert_id == InsertId::Sure
    }

    /// Whether the last insert id must be asked for before it is read.
    pub(crate) fn is_insert_id_reported(&self) -> bool {
        matches!(self.insert_id, InsertId::Reported { .. })
    }
}

impl Core {
    /// Sees to it that the last insert id is known before a statement reads it on another
    /// connection than the one that has it.
    pub(crate) fn settle_insert_id(
        &mut self,
        client: &mut Client,
        route: &Route,
        statement: &Statement,
    ) -> Settled {
        let session = &mut *client.session;
        if session.past.knows_insert_id() {
            return Settled::GoesOn;
        }
        let names_it = names_insert_id(statement);
        // What is to have an id may leave the one that was there.
        let kind = statement.meaning.known.as_ref().map(|known| known.analysis.kind);
        let may_read = names_it || runs_code(statement) || kind.is_some_and(gives_values);
        if !may_read || session.past.awaits_insert_id.is_some() {
            return Settled::GoesOn;
        }
        let settled = session.insert_conn.and_then(|(conn_id, turn)| {
            self.with_conn(conn_id, |core, conn| {
                let is_own = conn.holder.turn == turn && conn.holder.last_client == Some(client.id);
                is_own.then(|| core.ask_for_insert_id(client, conn, route, statement))
            })
        });
        // What may read it by code of its own is not kept from running for that.
        settled.flatten().unwrap_or(if names_it { Settled::Lost } else { Settled::GoesOn })
    }

    /// Asks the connection that has the session's last insert id for it, unless the statement goes
    /// there.
    fn ask_for_insert_id(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        route: &Route,
        statement: &Statement,
    ) -> Settled {
        if goes_to(route, statement, conn) || !conn.server.format.session_track {
            return Settled::GoesOn;
        }
        if conn.list.is_free() {
            self.fetch_from_idle(client, conn);
        } else {
            client.session.past.awaits_insert_id = Some(conn.id);
            self.fetch_trace(conn, client.id, Trace::InsertId);
        }
        Settled::Waits
    }
}

/// Whether a write was refused as its server takes none, before it did anything: no code of a
/// trigger or a function can have said so.
fn is_refused_by_read_only(statement: &Statement, outcome: &Outcome) -> bool {
    let known = statement.meaning.known.as_deref();
    let is_plain = known.is_some_and(|known| {
        known.analysis.is_one_whole_statement() && !runs_unseen_code(&known.analysis)
    });
    let hidden = statement.meaning.proof.on_writer().hidden;
    is_plain
        && !hidden.may(Hidden::GIVES_VALUES)
        && outcome.status.is_none()
        && outcome.error.as_ref().is_some_and(says_read_only)
}

/// Whether a statement's own text reads the last insert id.
pub(crate) fn names_insert_id(statement: &Statement) -> bool {
    let depends = statement.meaning.known.as_ref().map(|known| known.analysis.depends);
    depends.is_some_and(|depends| depends.contains(Depends::LAST_INSERT_ID))
}

/// Whether statements of this kind generate ids.
pub(super) fn gives_values(kind: StatementKind) -> bool {
    matches!(kind, StatementKind::Insert | StatementKind::Replace | StatementKind::Load)
}

/// Takes over what a connection gave as the last insert id.
pub(crate) fn take_insert_id(session: &mut Session, conn_id: ConnId, given: Option<u64>) {
    let insert_id = std::mem::take(&mut session.past.insert_id);
    let own = match (insert_id, given) {
        // Another session may have left what is there: only what was reported to this one counts.
        (InsertId::Reported { base, reported }, Some(given)) => {
            Some(if reported.contains(&given) { given } else { base })
        }
        (InsertId::OnConnection, given) => given,
        (InsertId::Reported { .. }, None) | (InsertId::Sure, _) => None,
    };
    if let Some(own) = own {
        session.last_insert_id = own;
    }
    let is_there = given == Some(session.last_insert_id);
    if !is_there && session.insert_conn.is_some_and(|(conn, _)| conn == conn_id) {
        session.insert_conn = None;
    }
}

/// The value that a `SET last_insert_id` reports.
pub(crate) fn reported_insert_id(outcome: &Outcome) -> Option<u64> {
    Changes::new(&outcome.changes).find_map(|change| match change {
        Ok(Change::SystemVariable { name: b"last_insert_id", value }) => {
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
