//! Statements that are held back for a while, and statements that run out of their time.
//!
//! A client has one statement under way, and so at most one timer.

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    packet::greeting::Flavor,
    response::{ErrorInstead, Outcome},
};

use crate::{
    ClientId,
    clients::client::{Awaits, Client, Ending, Held, Phase, Purpose, Stage, Statement},
    effects::Wake,
    kill::{KillAsker, carriers::Ends},
    rooms::{Commands, Core, Exchange, Lender},
    servers::conn::Owner,
};

/// A server that does not end a statement this long after it was told to loses its connection,
/// ms.
const UNENDED_MS_MAX: u64 = 12_000;

/// Why a connection is given up whose server has not ended a statement that it was told to end.
const UNENDED: &str = "query_timeout exceeded, and the server did not end the statement";

/// A statement that has run out of its time while a server runs it.
struct Overdue {
    conn: ConnId,
    /// How many bytes had been sent there before it.
    sent_at: u64,
    ends: Ends,
}

/// How often a definition that is held back looks whether it may go, ms.
pub(crate) const COPIES_LOOK_MS: u64 = 10;

/// What a statement is answered with that ran out of its time.
const TIMED_OUT: &ErrorInstead = &ErrorInstead {
    code: ErrorKind::TimedOut.code(),
    sqlstate: *ErrorKind::TimedOut.sqlstate(),
    message: "Query execution was interrupted, query_timeout exceeded",
};

/// Whether something else than its client's timer ends what a statement is held back for: with that
/// its own time is over.
fn ends_otherwise(awaits: &Awaits) -> bool {
    matches!(awaits, Awaits::Past | Awaits::Resume | Awaits::Outcome)
}

impl Commands {
    /// Wakes those whose time has come.
    #[inline]
    pub(crate) fn expire_timers(&mut self) {
        let now_ms = self.exchange.core.env.now.ms();
        while let Some((at_ms, id)) =
            self.exchange.core.clients.timers.first().copied().filter(|(at, _)| *at <= now_ms)
        {
            self.exchange.core.clients.timers.remove(&(at_ms, id));
            if let Some(overdue) = self.with_client(id, Self::on_timer).flatten() {
                self.exchange.interrupt_overdue(id, overdue);
            }
        }
    }

    /// A client's time has come. What it has under way at a server, if that is to end, is told.
    fn on_timer(&mut self, client: &mut Client) -> Option<Overdue> {
        client.timer_ms = 0;
        if matches!(client.phase, Phase::AwaitNames(_)) {
            self.names_told(client);
            return None;
        }
        if client.waits_for_repetition().is_some() {
            self.exchange.time_out_waiting(client);
            return None;
        }
        if self.exchange.gives_up_outcome(client) || self.exchange.go_on_without_past(client) {
            return None;
        }
        let now_ms = self.exchange.core.env.now.ms();
        let lost = client.session.lost.clone();
        let Phase::Running(statement) = &mut client.phase else {
            return None;
        };
        let is_late = (1..=now_ms).contains(&statement.deadline_ms);
        let awaits_server = matches!(&statement.stage, Stage::Held(held)
            if matches!(held.awaits, Awaits::Writer | Awaits::Position));
        if awaits_server && is_late {
            return self.exchange.time_out(client);
        }
        match (statement.stage.release(|awaits| !ends_otherwise(awaits)), lost) {
            (None, _) => return self.exchange.time_out(client),
            (Some(_), Some(cause)) => {
                // What it was to be a part of has gone while it was held back.
                let error = cause.into_end();
                self.exchange.fail_statement(client, error, None);
                self.exchange.close_client(client);
            }
            (Some(held), None) => {
                if let Some(statement) = client.phase.take_statement() {
                    self.exchange.time_has_come(client, statement, held);
                }
            }
        }
        None
    }
}

impl Exchange {
    /// What a statement was held back for is over, or has not come in time: it goes on.
    fn time_has_come(&mut self, client: &mut Client, statement: Box<Statement>, held: Held) {
        let Held { awaits, route, text_len } = held;
        if awaits == Awaits::Position {
            return self.waited_in_vain(client, statement, route);
        }
        let route = client.still_there(route);
        match awaits {
            Awaits::Cached(_) => {
                self.core.count_shared_timeout(&statement);
                self.delay_or_start(client, route, statement, text_len);
            }
            Awaits::Writer | Awaits::Position => self.run_on_route(client, route, statement),
            Awaits::Time | Awaits::Past | Awaits::Resume | Awaits::Outcome => {
                self.depart_alone(client, route, statement, text_len);
            }
        }
    }

    /// The client's statement has run out of its time. Where a server runs it, that is told.
    fn time_out(&mut self, client: &mut Client) -> Option<Overdue> {
        let now_ms = self.core.env.now.ms();
        let Phase::Running(statement) = &mut client.phase else {
            return None;
        };
        let was_told = statement.ending.is_some();
        self.core.fx.stats.counters.statements_timed_out += u64::from(!was_told);
        let (conn, sent_at) = match statement.stage {
            Stage::Held(_) | Stage::Queued | Stage::Returning => {
                self.core.pool_leave(client);
                self.fail_timed_out(client, None);
                return None;
            }
            Stage::Synchronising(conn) | Stage::Preparing(conn) => {
                statement.ending = Some(Ending::TimedOut);
                (conn, None)
            }
            Stage::Sent(conn) => (conn, Some(statement.sent.sent_at)),
            Stage::Shared(conn) => {
                let sent_at = statement.sent.sent_at;
                if !was_told && !self.core.single_out_on(client, conn) {
                    self.fail_timed_out(client, None);
                    return None;
                }
                (conn, Some(sent_at))
            }
        };
        if was_told {
            if let Phase::Running(statement) = &mut client.phase {
                statement.target.retries_left = 0;
            }
            self.core.fx.wake(Wake::Lost(conn, UNENDED));
            return None;
        }
        self.core.clients.set_timer(client, now_ms + UNENDED_MS_MAX);
        // What has not been sent ends before it is.
        let sent_at = sent_at?;
        self.core.withhold_answer(client, conn);
        Some(Overdue { conn, sent_at, ends: self.core.ends_overdue(client, conn) })
    }

    /// Has a server end what it runs for a client. Nobody waits for what comes of it.
    fn interrupt_overdue(&mut self, id: ClientId, overdue: Overdue) {
        let Overdue { conn, sent_at, ends } = overdue;
        let asker = KillAsker { worker: self.core.env.options.index, client: Some(id), ticket: 0 };
        self.kill_on_server(id, conn, Some(sent_at), ends, asker);
    }
}

impl Core {
    /// How a statement is ended whose time is over. What may have been committed and waits for a
    /// replica goes on waiting.
    fn ends_overdue(&self, client: &Client, conn: ConnId) -> Ends {
        let conn = self.servers.conns.get(conn);
        let is_mariadb = conn.is_some_and(|conn| conn.server.flavor == Flavor::MariaDb);
        let only_reads = matches!(&client.phase, Phase::Running(it) if it.meaning.is_read);
        match is_mariadb && !only_reads {
            true => Ends::StatementSoftly,
            false => Ends::Statement,
        }
    }

    /// The answer to come is not what the client gets. A read's is thrown away, whatever it is;
    /// of anything else only the error of an interruption, as it may have been carried out
    /// before the server was told.
    fn withhold_answer(&mut self, client: &mut Client, conn_id: ConnId) {
        let conn = self.servers.conns.get_mut(conn_id);
        let entry = conn.and_then(|conn| {
            conn.in_flight.iter_mut().find(|entry| entry.owner == Owner::Client(client.id))
        });
        let Phase::Running(statement) = &mut client.phase else {
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
