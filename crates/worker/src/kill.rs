//! `KILL` and `COM_PROCESS_KILL`: a client ends a statement or a session, perhaps one of another
//! worker.
//!
//! The numbers are those that clients were greeted with. A number says which worker has its
//! client, so a question goes to one worker and comes back as one answer. What has to be told to
//! a server is `side`'s.

pub(crate) mod carriers;

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    packet::greeting::Flavor,
};
use trunkline_sql::analysis::{Analysis, Effect, KillId, KillTarget};

use self::carriers::Ends;
use crate::{
    Action, ClientId,
    clients::client::{AwaitKill, Client, Ending, Phase, Purpose, Stage},
    clients::session::AnyClient,
    effects::Wake,
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase, Owner},
};

/// How long a client waits for the answer to its `KILL`, ms. Whoever carries it out gives up
/// before that.
const ANSWER_MS_MAX: u64 = 20_000;

/// What ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillScope {
    /// The statement that the client has under way.
    Statement,
    /// The client's session.
    Session,
}

/// A question to the worker that has the client to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillRequest {
    /// The number that the client was greeted with.
    pub number: u32,
    /// What ends.
    pub scope: KillScope,
    /// The user that asks: only a user's own sessions may be ended. `None` for an administrator,
    /// who may end anybody's.
    pub user: Option<Box<str>>,
    /// Who is told what came of it.
    pub asker: KillAsker,
}

/// Who waits for what came of a `KILL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillAsker {
    /// The worker that is told.
    pub worker: usize,
    /// Its client; `None` for an administrator, who asks through that worker.
    pub client: Option<ClientId>,
    /// Tells this `KILL` from others of who asks.
    pub ticket: u64,
}

/// What came of a `KILL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KillAnswer {
    /// It is ended, or had ended by itself.
    Done,
    /// No client has this number.
    Unknown,
    /// The client is another user's.
    NotOwner,
    /// It could not be carried out.
    Failed(ClientError),
}

impl KillAnswer {
    fn failed(text: String) -> Self {
        Self::Failed(ErrorKind::NoConnection.says(text))
    }
}

/// What a text says about ending others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillText {
    /// Nothing.
    None,
    /// End this of the client with the number; `None` for the client itself.
    One(KillScope, Option<u64>),
    /// Something that would hit a server's own numbers or users, or may do so, in words.
    Refused(&'static str),
}

/// Looks for `KILL` in a text. None of it may reach a server: the number is one of the proxy's,
/// and a server would take it for one of its own.
pub(crate) fn kill_of(analysis: &Analysis) -> KillText {
    if analysis.is_cut {
        return KillText::Refused("more than 100000 effects on the session in one text");
    }
    let kill = analysis.effects.iter().find_map(|effect| match effect {
        Effect::Kill { target, id } => Some((*target, *id)),
        _ => None,
    });
    let Some((target, id)) = kill else {
        return KillText::None;
    };
    if analysis.statements != 1 || analysis.effects.len() != 1 {
        return KillText::Refused("KILL among other statements");
    }
    let scope = match target {
        KillTarget::Connection => KillScope::Session,
        KillTarget::Query => KillScope::Statement,
        KillTarget::Other => {
            return KillText::Refused("KILL USER and KILL QUERY ID; HARD and SOFT on MySQL");
        }
    };
    match id {
        KillId::Number(number) => KillText::One(scope, Some(number)),
        KillId::Own => KillText::One(scope, None),
        KillId::Other => KillText::Refused("KILL of an expression"),
    }
}

/// The worker that gave this number to a client.
pub(crate) fn worker_of(number: u32, workers: usize) -> usize {
    let number = usize::try_from(number).unwrap_or_default();
    number.saturating_sub(1) % workers.max(1)
}

/// How to number an error that breaks off the reply that comes in on this connection.
pub(crate) fn break_off_seq(conn: &Conn, id: ClientId) -> Option<u8> {
    if !matches!(conn.phase, ConnPhase::Ready) {
        return None;
    }
    let entry = conn.in_flight.iter().find(|entry| entry.owner == Owner::Client(id))?;
    entry.relay.break_off_seq()
}

impl Core {
    /// A number for a new client: never 0, of this worker's share of all numbers, and no other
    /// client's that is here.
    pub(crate) fn next_number(&mut self) -> u32 {
        let step = u32::try_from(self.env.options.workers.max(1)).unwrap_or(1);
        let first = u32::try_from(self.env.options.index).unwrap_or_default() + 1;
        loop {
            self.clients.last_number = match self.clients.last_number {
                0 => first,
                last => last.checked_add(step).unwrap_or(first),
            };
            // Numbers come again after 4 billion clients; some of the first may still be here.
            let number = self.clients.last_number;
            if !self.clients.numbers.contains_key(&number)
                && !self.clients.away.contains_key(&number)
            {
                return self.clients.last_number;
            }
        }
    }

    /// The client is not here: its home knows where it is, or that there is none. A client tells
    /// its home before it leaves for another place, so no request goes round twice.
    fn forward_kill(&mut self, request: KillRequest) {
        let home = worker_of(request.number, self.env.options.workers);
        let place = match home == self.env.options.index {
            true => self.clients.away.get(&request.number).copied(),
            false => Some(home),
        };
        match place {
            Some(to) => self.fx.act(Action::Kill { to, request: Box::new(request) }),
            None => self.answer_kill(request.asker, KillAnswer::Unknown),
        }
    }

    /// See [`Worker::kill_undelivered`](crate::Worker::kill_undelivered).
    pub(crate) fn on_kill_undelivered(&mut self, asker: KillAsker) {
        let text = "the worker that knows this session has stopped".to_owned();
        self.answer_kill(asker, KillAnswer::failed(text));
    }

    /// Singles out the client's statement on this connection, which it shares.
    pub(crate) fn single_out_on(&mut self, client: &mut Client, conn_id: ConnId) -> bool {
        self.with_conn(conn_id, |core, conn| core.single_out(client, conn)) == Some(true)
    }

    /// Takes a statement out of its hostgroup's queue.
    pub(crate) fn pool_leave(&mut self, client: &mut Client) {
        if let Some((hostgroup, _)) = client.wanted() {
            self.servers.pool.waiters(hostgroup).remove(client.id);
        }
    }
}

impl Exchange {
    /// A client asks to end something.
    pub(crate) fn kill(&mut self, client: &mut Client, scope: KillScope, number: Option<u64>) {
        let ticket = self.core.env.now.us.wrapping_add(self.core.fx.stats.counters.commands);
        let deadline_ms = self.core.env.now.ms() + ANSWER_MS_MAX;
        let wanted = number.unwrap_or_else(|| u64::from(client.origin.number));
        let Ok(number) = u32::try_from(wanted) else {
            return self.core.answer_error(client, ErrorKind::UnknownThread.says(unknown(wanted)));
        };
        if number == client.origin.number {
            return self.kill_oneself(client, scope);
        }
        let user = Some(client.session.login.user.key().into());
        client.phase = Phase::AwaitKill(AwaitKill { ticket, number, deadline_ms });
        let asker =
            KillAsker { worker: self.core.env.options.index, client: Some(client.id), ticket };
        let request = KillRequest { number, scope, user, asker };
        let to = worker_of(number, self.core.env.options.workers);
        match to == self.core.env.options.index {
            true => self.core.fx.wake(Wake::KillAsked(Box::new(request))),
            false => self.core.fx.act(Action::Kill { to, request: Box::new(request) }),
        }
    }

    /// A statement that ends itself is interrupted; a session that ends itself is told so.
    fn kill_oneself(&mut self, client: &mut Client, scope: KillScope) {
        match scope {
            KillScope::Statement => {
                self.core.answer_error(client, ErrorKind::Interrupted.says(INTERRUPTED))
            }
            KillScope::Session => {
                let error = match self.core.env.greeting.flavor() {
                    Flavor::MariaDb => ErrorKind::KilledItself.says("Connection was killed"),
                    Flavor::MySql => ErrorKind::Interrupted.says(INTERRUPTED),
                };
                self.refuse(client, 1, error);
            }
        }
    }

    /// See [`Worker::kill_asked`](crate::Worker::kill_asked).
    pub(crate) fn on_kill_asked(&mut self, request: KillRequest) {
        let KillRequest { number, scope, user, asker } = request;
        let step = if has_plant!(self.core, KillHitsNeighbour) {
            self.core.env.options.workers
        } else {
            0
        };
        let number = number.saturating_add(u32::try_from(step).unwrap_or_default());
        let victim = self.core.clients.numbers.get(&number).copied();
        let Some((id, client)) = victim.and_then(|id| Some((id, self.core.clients.table.get(id)?)))
        else {
            return self.core.forward_kill(KillRequest { number, scope, user, asker });
        };
        if matches!(client.phase, Phase::Closing) {
            // It is as good as gone.
            return self.core.answer_kill(asker, KillAnswer::Unknown);
        }
        let session = client.session();
        let may_end = user.as_deref().is_none_or(|user| {
            // Who has not logged in yet is nobody's.
            session.is_some_and(|session| *session.login.user.key() == *user)
        });
        if !may_end {
            return self.core.answer_kill(asker, KillAnswer::NotOwner);
        }
        self.core.fx.stats.counters.clients_killed += u64::from(scope == KillScope::Session);
        self.core.fx.stats.counters.statements_killed += u64::from(scope == KillScope::Statement);
        match scope {
            KillScope::Statement => self.kill_statement(id, asker),
            KillScope::Session => self.kill_session(id, asker),
        }
    }

    /// Tells the one who asked, wherever that is.
    pub(crate) fn deliver_kill_answer(&mut self, asker: KillAsker, answer: KillAnswer) {
        match asker.worker == self.core.env.options.index {
            true => self.on_kill_answered(asker, answer),
            false => self.core.fx.act(Action::Killed { asker, answer }),
        }
    }

    /// See [`Worker::kill_answered`](crate::Worker::kill_answered).
    pub(crate) fn on_kill_answered(&mut self, asker: KillAsker, answer: KillAnswer) {
        let Some(id) = asker.client else {
            return self.core.fx.act(Action::TellAdministrator { ticket: asker.ticket, answer });
        };
        self.with_client(id, |exchange, client| {
            exchange.tell_kill_answer(client, asker.ticket, answer);
        });
    }

    /// Tells a client that waits for it what came of its `KILL`.
    fn tell_kill_answer(&mut self, client: &mut Client, ticket: u64, answer: KillAnswer) {
        let number = match &client.phase {
            Phase::AwaitKill(wait) if wait.ticket == ticket => wait.number,
            _ => return,
        };
        client.phase = Phase::Idle;
        match answer {
            KillAnswer::Done => {
                self.core.ran_itself(client);
                self.core.answer_ok(client);
            }
            KillAnswer::Unknown => {
                let text = unknown(number.into());
                self.core.answer_error(client, ErrorKind::UnknownThread.says(text));
            }
            KillAnswer::NotOwner => {
                let text = format!("You are not owner of thread {number}");
                self.core.answer_error(client, ErrorKind::NotOwner.says(text));
            }
            KillAnswer::Failed(error) => self.core.answer_error(client, error),
        }
        self.after_statement(client, None);
    }

    /// Clients whose `KILL` nobody answers are told so.
    pub(crate) fn expire_kills(&mut self) {
        let now_ms = self.core.env.now.ms();
        let late = self.core.clients.logged_in().filter_map(|client| match &client.phase {
            Phase::AwaitKill(wait) if wait.deadline_ms <= now_ms => Some((client.id, wait.ticket)),
            _ => None,
        });
        let worker = self.core.env.options.index;
        for (id, ticket) in late.collect::<Vec<_>>() {
            let asker = KillAsker { worker, client: Some(id), ticket };
            let text = "what came of the KILL is not known".to_owned();
            self.on_kill_answered(asker, KillAnswer::failed(text));
        }
        self.core.drop_late_carriers();
    }

    fn kill_statement(&mut self, id: ClientId, asker: KillAsker) {
        let runs = self.with_client(id, Self::interrupt).flatten();
        match runs {
            Some((conn, sent_at)) => self.kill_on_server(id, conn, sent_at, Ends::Statement, asker),
            None => self.core.answer_kill(asker, KillAnswer::Done),
        }
    }

    /// Interrupts what a client has under way, unless a server runs it: then that is told on which
    /// connection, and behind how many bytes.
    fn interrupt(&mut self, client: &mut Client) -> Option<(ConnId, Option<u64>)> {
        if client.awaits_outcome() {
            // It was sent, and to say that it was interrupted might be untrue.
            return None;
        }
        match &mut client.phase {
            Phase::Running(statement) => match statement.stage {
                Stage::Held(_) | Stage::Queued | Stage::Returning => {
                    self.core.pool_leave(client);
                    self.fail_interrupted(client, None);
                    None
                }
                Stage::Synchronising(_) | Stage::Preparing(_) => {
                    statement.ending = Some(Ending::Killed);
                    None
                }
                Stage::Sent(conn) => Some((conn, Some(statement.sent.sent_at))),
                Stage::Shared(conn) => {
                    let sent_at = statement.sent.sent_at;
                    if !self.core.single_out_on(client, conn) {
                        self.fail_statement(client, ErrorKind::Interrupted.says(INTERRUPTED), None);
                        return None;
                    }
                    Some((conn, Some(sent_at)))
                }
            },
            Phase::Forward(conn) => Some((*conn, None)),
            Phase::AwaitNames(_) => {
                self.core.clients.set_timer(client, 0);
                client.phase = Phase::Idle;
                self.core.answer_error(client, ErrorKind::Interrupted.says(INTERRUPTED));
                match client.has_sent_ahead() {
                    true => self.close_client(client),
                    false => self.core.wake_commands(client),
                }
                None
            }
            Phase::Login(_)
            | Phase::Idle
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => None,
        }
    }

    /// Ends a session; what it has under way on a server ends there too. Its connection is never
    /// used again, so nobody else's statement can be hit.
    fn kill_session(&mut self, id: ClientId, asker: KillAsker) {
        let Some(end) = self.with_client(id, Self::end_of_session) else {
            // It has yet to log in.
            self.core.answer_kill(asker, KillAnswer::Done);
            self.with_entry(id, Self::close);
            return;
        };
        match end.conn {
            Some(conn) => self.kill_on_server(id, conn, None, Ends::Connection, asker),
            None => self.core.answer_kill(asker, KillAnswer::Done),
        }
        let forwards = end.conn.filter(|conn| self.core.servers.forwards_until_killed(*conn));
        if forwards.is_none() {
            self.with_client(id, |exchange, client| exchange.end_killed_session(client, &end));
        }
    }

    /// How a session's end is told, and which connection it holds up.
    fn end_of_session(&mut self, client: &mut Client) -> SessionEnd {
        // The number of the packet that a statement without a reply is answered with.
        let running_seq = match &client.phase {
            Phase::Running(statement) => match statement.command.purpose {
                Purpose::LoginSchema(_, seq) => Some(seq),
                _ => Some(1),
            },
            _ => None,
        };
        // What runs at a server may be over when the KILL arrives; of a read it does not matter.
        let waits = client.waits_for_repetition();
        let may_be_done = matches!(&client.phase, Phase::Running(statement)
            if matches!(statement.stage, Stage::Sent(_)) && !statement.meaning.is_read)
            && waits.is_none()
            || client.awaits_outcome();
        let is_shared = matches!(&client.phase,
            Phase::Running(statement) if matches!(statement.stage, Stage::Shared(_)));
        let logs_in = running_seq.filter(|seq| *seq != 1);
        let conn = match &client.phase {
            Phase::Running(statement) => match statement.stage {
                Stage::Sent(conn) => Some(conn),
                // Behind others it is read and thrown away.
                Stage::Shared(conn) => self.core.single_out_on(client, conn).then_some(conn),
                Stage::Held(_)
                | Stage::Queued
                | Stage::Returning
                | Stage::Synchronising(_)
                | Stage::Preparing(_) => None,
            },
            Phase::Forward(conn) => Some(*conn),
            Phase::Login(_)
            | Phase::Idle
            | Phase::ChangeUser
            | Phase::AwaitKill(_)
            | Phase::AwaitNames(_)
            | Phase::AwaitServer(_)
            | Phase::Closing => None,
        };
        let seq = match conn {
            _ if waits.is_some() => waits.filter(|waits| *waits).map(|_| 1),
            Some(conn) => logs_in.or_else(|| {
                self.core.servers.conns.get(conn).and_then(|conn| break_off_seq(conn, client.id))
            }),
            None => running_seq,
        };
        SessionEnd { conn, seq, may_be_done, is_shared }
    }

    fn end_killed_session(&mut self, client: &mut Client, end: &SessionEnd) {
        if let Some(seq) = end.seq {
            let error = match end.may_be_done {
                true => ErrorKind::ConnectionLost.says(KILLED),
                false => ErrorKind::Interrupted.says(INTERRUPTED),
            };
            self.core.write_error(client, seq, &error);
        }
        if let Some(conn) = end.conn {
            self.with_conn(conn, |exchange, conn| exchange.part_from_killed(client, conn, end));
        }
        self.close_client(client);
    }

    /// What becomes of a connection on which a server runs the statement of a session that is
    /// killed.
    fn part_from_killed(&mut self, client: &mut Client, conn: &mut Conn, end: &SessionEnd) {
        self.core.take_lease(client, conn);
        // As long as it stands, it is known that the number is still this connection's.
        let stands = self.core.servers.awaits_kill(conn);
        conn.holder.close_on_release |= stands;
        match (end.is_shared, stands) {
            // Those behind it that may not be sent elsewhere wait there still.
            (true, true) => {
                self.core.leave_shared(client, conn);
                self.core.prove_all_again(conn);
                self.clean_shared(conn);
            }
            (true, false) => {
                self.core.leave_shared(client, conn);
                let reason = "a session that shared it was killed";
                self.core.fx.wake(Wake::Lost(conn.id, reason));
            }
            (false, true) => self.core.free_after_session(conn, Some(client)),
            (false, false) => self.core.drop_conn(conn),
        }
    }
}

/// The end of a session that is killed.
struct SessionEnd {
    /// The connection on which a server runs its statement.
    conn: Option<ConnId>,
    /// The number of the packet that tells it, if one can.
    seq: Option<u8>,
    /// Its statement may have been carried out.
    may_be_done: bool,
    /// Its statement shares that connection.
    is_shared: bool,
}

/// What a statement is answered with whose session was ended while it ran.
const KILLED: &str = "Lost connection to MySQL server during query (the session was killed)";
/// What an interrupted statement is answered with.
pub(crate) const INTERRUPTED: &str = "Query execution was interrupted";

fn unknown(number: u64) -> String {
    format!("Unknown thread id: {number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline_sql::{analysis::analyse, token::Modes};

    fn of(text: &str) -> KillText {
        let modes = Modes { flavor_mariadb: true, ..Modes::default() };
        kill_of(&analyse(text.as_bytes(), &modes))
    }

    #[test]
    fn only_one_number_alone_is_taken() {
        let one = |scope, number| KillText::One(scope, number);
        assert_eq!(of("KILL 5"), one(KillScope::Session, Some(5)));
        assert_eq!(of("kill /* now */ query 7;"), one(KillScope::Statement, Some(7)));
        assert_eq!(of("KILL SOFT CONNECTION 9"), one(KillScope::Session, Some(9)));
        assert_eq!(of("KILL QUERY CONNECTION_ID()"), one(KillScope::Statement, None));
        assert_eq!(of("SELECT 5"), KillText::None);
        let texts =
            ["KILL 5; SELECT 1", "SELECT 1; KILL 5", "KILL @a", "KILL USER app", "KILL '5'"];
        let more = ["KILL QUERY ID 5", "KILL 1; KILL 2", "KILL 5 + 1", "KILL 5 /*"];
        for text in texts.into_iter().chain(more) {
            assert!(matches!(of(text), KillText::Refused(_)), "{text}");
        }
    }

    #[test]
    fn a_number_says_which_worker_gave_it() {
        let numbers = [(1, 0), (2, 1), (3, 2), (4, 0), (6, 2), (0, 0)];
        for (number, worker) in numbers {
            assert_eq!(worker_of(number, 3), worker, "{number}");
        }
    }
}
