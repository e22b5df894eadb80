//! Step 9: answers to what the worker has sent of its own accord.

use std::rc::Rc;

use crate::session_past::insert_id::{reported_insert_id, take_insert_id};
use crate::session_past::warnings::Warnings;
use trunkline_pool::ConnId;
use trunkline_protocol::response::Outcome;

use crate::{
    ClientId,
    clients::client::{Client, Phase, Session, Stage},
    kill::KillAnswer,
    kill::carriers::NO_SUCH_THREAD,
    prepared::outcome::{TOO_MANY, other_parameters},
    rooms::{Exchange, Lender},
    session_past::Trace,
};

impl Exchange {
    /// The server was asked for the values of variables that a session has set unseen. What it
    /// does not tell goes on holding the session.
    pub(super) fn values_told(&mut self, id: ClientId, conn_id: ConnId, outcome: &Outcome) {
        self.core.with_client(id, |core, client| {
            core.take_values(conn_id, client, outcome);
            let is_busy = matches!(&client.phase, Phase::Running(statement)
                if statement.stage.conn() == Some(conn_id));
            let is_leased =
                core.servers.conns.get(conn_id).is_some_and(|conn| conn.list.is_leased());
            if is_leased && !is_busy {
                core.settle_lease(client, conn_id);
            }
        });
        self.free_if_quiet(conn_id);
        self.dump_when_quiet(conn_id);
    }

    /// What was fetched has come.
    pub(super) fn trace_answered(
        &mut self,
        id: ClientId,
        conn_id: ConnId,
        trace: Trace,
        outcome: &Outcome,
    ) {
        let Some(conn) = self.core.servers.conns.get_mut(conn_id) else {
            return;
        };
        let captured = std::mem::take(&mut conn.io.captured);
        let here = (conn_id, conn.holder.turn);
        self.core.with_client(id, |_, client| {
            if let Some(session) = client.session.as_mut() {
                take_trace(session, here, trace, &captured, outcome);
            }
        });
        if self.core.servers.conns.get(conn_id).is_some_and(|conn| conn.list.is_resetting()) {
            self.free_if_quiet(conn_id);
        }
        self.core.with_client(id, |core, client| core.trace_gone(client, conn_id, trace));
        self.dump_when_quiet(conn_id);
        if trace != Trace::Warnings {
            self.with_client(id, |exchange, client| exchange.go_on_synchronised(client, conn_id));
        }
    }

    /// A server has answered a `KILL`.
    pub(super) fn kill_carried(&mut self, via: ConnId, id: u64, outcome: Outcome) {
        if let (Some(_), Some(conn)) = (&outcome.error, self.core.servers.conns.get_mut(via)) {
            conn.left.conditions_turn = Some(conn.holder.turn);
        }
        let answer = match outcome.error {
            Some(error) if error.code != NO_SUCH_THREAD => KillAnswer::Failed((&error).into()),
            Some(_) | None => KillAnswer::Done,
        };
        self.end_kill(id, answer);
        self.core.kill_carrier_done(via);
    }

    /// The proxy's own `COM_STMT_PREPARE` was answered.
    pub(super) fn prepared_again(
        &mut self,
        client: &mut Client,
        conn_id: ConnId,
        outcome: Outcome,
    ) {
        let (Phase::Running(statement), Some(session)) = (&client.phase, client.session.as_ref())
        else {
            return;
        };
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let Some(entry) = stmt.map(|stmt| Rc::clone(statement.entry(stmt))) else {
            return;
        };
        let (waits, runs_last) =
            (statement.stage == Stage::Preparing(conn_id), statement.prepared.runs_last);
        let error = match (outcome.error, outcome.prepared) {
            (Some(error), _) => error,
            (None, Some(prepared)) if prepared.params == entry.params => {
                self.core.kept_again(client, conn_id, &entry, prepared);
                if waits {
                    self.dispatch(client, conn_id);
                }
                return;
            }
            (None, prepared) => {
                if let (Some(prepared), Some(conn)) =
                    (prepared, self.core.servers.conns.get_mut(conn_id))
                {
                    conn.stmts.close(prepared.stmt_id);
                }
                other_parameters()
            }
        };
        if error.code == TOO_MANY {
            self.core.give_up_stmts(conn_id);
        }
        if waits {
            self.fail_in_place(client, conn_id, (&error).into());
        } else if runs_last {
            self.core.discard_execution(client, conn_id, error);
        }
    }

    /// A connection has become quiet: a dump that waits for that begins.
    pub(super) fn dump_when_quiet(&mut self, conn_id: ConnId) {
        let owner = self.core.servers.conns.get(conn_id).and_then(|conn| conn.holder.owner);
        if let Some(owner) = owner {
            self.with_client(owner, |exchange, client| {
                if client.is_dump() {
                    exchange.go_on_synchronised(client, conn_id);
                }
            });
        }
    }
}

/// A session takes what was fetched for it, unless it awaits that no more.
fn take_trace(
    session: &mut Session,
    here: (ConnId, u64),
    trace: Trace,
    captured: &[u8],
    outcome: &Outcome,
) {
    let conn_id = here.0;
    match trace {
        Trace::Warnings if session.past.conditions.awaits_warnings == Some(conn_id) => {
            session.past.conditions.fetched = Warnings::read(captured).map(Box::new);
        }
        Trace::FoundRows if session.past.awaits_found_rows == Some(conn_id) => {
            let rows = Warnings::read(captured);
            session.past.found_rows = rows.and_then(|rows| rows.number(0));
        }
        Trace::InsertId if session.past.awaits_insert_id == Some(conn_id) => {
            let given = match Warnings::read(captured) {
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
