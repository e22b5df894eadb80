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
    clients::client::{Ending, Phase, Purpose, Stage, Statement, Waiting},
    kill::{KillAsker, KillScope},
    rooms::{Commands, Core, Exchange},
    servers::conn::Owner,
};

/// A server that does not end a statement this long after it was told to loses its connection,
/// ms.
const UNENDED_MS_MAX: u64 = 12_000;

/// How often a definition that is held back looks whether it may go, ms.
pub(crate) const COPIES_LOOK_MS: u64 = 10;

/// What a statement is answered with that ran out of its time.
const TIMED_OUT: &ErrorInstead = &ErrorInstead {
    code: ErrorKind::TimedOut.code(),
    sqlstate: *ErrorKind::TimedOut.sqlstate(),
    message: "Query execution was interrupted, query_timeout exceeded",
};

impl Commands {
    /// Wakes those whose time has come.
    #[inline]
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
            Stage::Sent(conn) => (conn, Some(statement.sent.sent_at)),
            Stage::Shared(conn) => {
                let sent_at = statement.sent.sent_at;
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
            statement.target.retries_left = 0;
        }
        self.lose_conn(conn, "query_timeout exceeded, and the server did not end the statement");
    }
}

impl Core {
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
        let only_runs = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        match statement.meaning.is_read && only_runs && !entry.relay.has_begun() {
            true => {
                entry.relay.set_discard();
                statement.ending = Some(Ending::Withheld);
            }
            false => entry.relay.replace_interruption(TIMED_OUT),
        }
    }
}

pub(crate) fn timed_out() -> ClientError {
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

#[cfg(test)]
mod tests;
