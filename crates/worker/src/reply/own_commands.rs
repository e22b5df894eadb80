//! Step 9: answers to what the worker has sent of its own accord.

use std::rc::Rc;

use crate::session_past::insert_id::{reported_insert_id, take_insert_id};
use crate::session_past::warnings::Warnings;
use trunkline_pool::ConnId;
use trunkline_protocol::response::Outcome;

use trunkline_stats::ResetReason;

use crate::{
    ClientId,
    clients::client::{Client, Phase, Session, Stage},
    kill::KillAnswer,
    kill::carriers::NO_SUCH_THREAD,
    prepared::outcome::{TOO_MANY, other_parameters},
    rooms::{Core, Exchange, Lender},
    servers::{conn::Conn, dirt::Dirt},
    session_past::Trace,
};

impl Core {
    /// A server has answered a `KILL`.
    pub(super) fn kill_carried(&mut self, via: &mut Conn, id: u64, outcome: Outcome) {
        if outcome.error.is_some() {
            via.left.conditions_turn = Some(via.holder.turn);
            // The error is not to be told of by whoever logs in here next.
            via.soil(Dirt::Reset(ResetReason::Failed));
        }
        let answer = match outcome.error {
            Some(error) if error.code != NO_SUCH_THREAD => KillAnswer::Failed((&error).into()),
            Some(_) | None => KillAnswer::Done,
        };
        self.end_kill(id, answer);
        self.kill_carrier_done(via);
    }
}

impl Exchange {
    /// The server was asked for the values of variables that a session has set unseen. What it
    /// does not tell goes on holding the session.
    pub(super) fn values_told(&mut self, id: ClientId, conn: &mut Conn, outcome: &Outcome) {
        self.core.with_client(id, |core, client| {
            core.take_values(conn, client, outcome);
            let is_busy = matches!(&client.phase, Phase::Running(statement)
                if statement.stage.conn() == Some(conn.id));
            if conn.list.is_leased() && !is_busy {
                core.settle_lease(client, conn);
            }
        });
        self.free_if_quiet(conn);
        self.dump_when_quiet(conn);
    }

    /// What was fetched has come.
    pub(super) fn trace_answered(
        &mut self,
        id: ClientId,
        conn: &mut Conn,
        trace: Trace,
        outcome: &Outcome,
    ) {
        let captured = std::mem::take(&mut conn.io.captured);
        let here = (conn.id, conn.holder.turn);
        self.core.with_client(id, |_, client| {
            if let Some(session) = client.awaiting(conn.id, trace) {
                take_trace(session, here, trace, &captured, outcome);
            }
        });
        if conn.list.is_resetting() {
            self.free_if_quiet(conn);
        }
        self.core.with_client(id, |core, client| core.trace_gone(client, conn.id, trace));
        self.dump_when_quiet(conn);
        if trace != Trace::Warnings {
            self.with_client(id, |exchange, client| exchange.go_on_synchronised(client, conn));
        }
    }

    /// The proxy's own `COM_STMT_PREPARE` was answered.
    pub(super) fn prepared_again(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        outcome: Outcome,
    ) {
        let Some((statement, session)) = client.running() else { return };
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let Some(entry) = stmt.map(|stmt| Rc::clone(statement.entry(stmt))) else {
            return;
        };
        let (waits, runs_last) =
            (statement.stage == Stage::Preparing(conn.id), statement.prepared.runs_last);
        let error = match (outcome.error, outcome.prepared) {
            (Some(error), _) => error,
            (None, Some(prepared)) if prepared.params == entry.params => {
                self.core.kept_again(client, conn, &entry, prepared);
                if waits {
                    self.dispatch(client, conn);
                }
                return;
            }
            (None, prepared) => {
                if let Some(prepared) = prepared {
                    conn.stmts.close(prepared.stmt_id);
                }
                other_parameters()
            }
        };
        if error.code == TOO_MANY {
            self.core.give_up_stmts(conn);
        }
        if waits {
            self.fail_in_place(client, conn, (&error).into());
        } else if runs_last {
            conn.discard_execution(client, error);
        }
    }

    /// A connection has become quiet: a dump that waits for that begins.
    pub(super) fn dump_when_quiet(&mut self, conn: &mut Conn) {
        if let Some(owner) = conn.holder.owner {
            self.with_client(owner, |exchange, client| {
                if client.is_dump() {
                    exchange.go_on_synchronised(client, conn);
                }
            });
        }
    }
}

/// A session takes what was fetched for it.
fn take_trace(
    session: &mut Session,
    here: (ConnId, u64),
    trace: Trace,
    captured: &[u8],
    outcome: &Outcome,
) {
    match trace {
        Trace::Warnings => {
            session.past.conditions.fetched = Warnings::read(captured).map(Box::new);
        }
        Trace::FoundRows => {
            let rows = Warnings::read(captured);
            session.past.found_rows = rows.and_then(|rows| rows.number(0));
        }
        Trace::InsertId => {
            let given = match Warnings::read(captured) {
                None => reported_insert_id(outcome),
                Some(row) => {
                    session.past.take_found_rows(here, row.number(1));
                    row.number(0)
                }
            };
            take_insert_id(session, here.0, given);
        }
    }
}
