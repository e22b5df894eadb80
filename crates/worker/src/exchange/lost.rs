//! A server is lost on the way: what each of its clients is told, and what is tried elsewhere.

use trunkline_pool::{ConnId, SlotId};
use trunkline_protocol::{
    error::{ClientError, ErrorKind},
    response::ServerError,
};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_sql::analysis::{Analysis, Effect, StatementKind, TransactionEffect};
use trunkline_topology::Seen;

use crate::{
    Action, ClientId,
    clients::client::{Client, Ending, Phase, Purpose, Session, Stage, Statement, Target},
    effects::Wake,
    exchange::outcome::{Had, LostMark},
    exchange::rolled_back::{Lost, LostTransaction},
    exchange::send::LOST,
    replay::{Kept, Repetition},
    rooms::{Core, Exchange, Lender},
    routing::read_only::only_looks,
    servers::closing::traces_of,
    servers::conn::{Conn, ConnPhase, Owner},
    statement::analysis::Known,
};

/// Dead connections that one statement may be given before that counts as a try.
const LOST_UNSENT_MAX: u32 = 64;
/// Connects to one server that fail one behind the other, before the next one waits for a moment.
const FAILURES_AT_ONCE_MAX: u32 = 8;

impl Exchange {
    /// A server connection ended, for this reason.
    pub(crate) fn lose_conn(&mut self, conn: &mut Conn, reason: &str) {
        match &conn.phase {
            ConnPhase::Connecting(_) | ConnPhase::Login(_) => self.connect_failed(conn, reason),
            ConnPhase::Forward(client) => {
                let client = *client;
                self.core.drop_conn(conn);
                self.with_client(client, Self::close_client);
            }
            ConnPhase::Ready => self.lose_ready(conn, reason),
            ConnPhase::Closed => {}
        }
    }

    /// A server violated the protocol; its bytes can't be trusted any more.
    pub(crate) fn server_broke(&mut self, conn: &mut Conn, what: &str) {
        let slot = self.core.servers.pool.slot(conn.slot);
        let address = slot.map(|slot| slot.server.key.address.to_string()).unwrap_or_default();
        self.core.fx.stats.counters.server_protocol_errors += 1;
        self.core.fx.log(true, || format!("server {address} {what}; connection closed"));
        self.lose_conn(conn, what);
    }

    /// A connection did not come up: that counts against the server, and another one is tried.
    pub(crate) fn connect_failed(&mut self, conn: &mut Conn, reason: &str) {
        let hostgroup = conn.server.hostgroup;
        let failures = self.core.count_failed_connect(conn, reason);
        self.give_up_connecting(conn, reason);
        // A server that goes on saying no is asked again when the queue is looked at next, and not
        // as fast as it answers.
        if failures <= FAILURES_AT_ONCE_MAX {
            self.core.fx.wake(Wake::Queue(hostgroup));
        }
    }

    /// A connection could not be begun for want of something of this machine's own. Whoever waits
    /// is looked at again at the next tick.
    pub(crate) fn could_not_connect(&mut self, conn: &mut Conn, reason: &str) {
        self.core.fx.stats.counters.connects_not_tried += 1;
        self.core.fx.log(true, || format!("no connection to a server can be made: {reason}"));
        self.give_up_connecting(conn, reason);
    }

    /// A connection that did not come up goes; a client with `fast_forward` is told.
    pub(crate) fn give_up_connecting(&mut self, conn: &mut Conn, reason: &str) {
        let (hostgroup, slot, forwards) = (conn.server.hostgroup, conn.slot, conn.login.forwards);
        self.core.fx.stats.server_mut(slot.index()).connect_err += 1;
        self.core.servers.logins.last_failures.insert(hostgroup, reason.to_owned());
        self.core.kill_carrier_lost(conn.id, 0, reason);
        self.core.drop_conn(conn);
        if let Some(client) = forwards {
            let waited = conn.login.forwards_waited;
            let text = format!("no connection to hostgroup {hostgroup}: {reason}");
            self.with_client(client, |exchange, client| {
                if exchange.hold_forward(client, hostgroup, waited).is_ok() {
                    return;
                }
                exchange.refuse(client, 1, ErrorKind::NoConnection.says(text));
            });
        }
    }

    /// A connection that took commands ended.
    fn lose_ready(&mut self, conn: &mut Conn, reason: &str) {
        let statements = conn.in_flight.iter().filter(|entry| entry.is_statement).count();
        let mut lost_mark = self.core.take_lost_mark(conn, statements);
        if !self.core.forget_conn(conn) {
            return;
        }
        if let Some(slot) = self.core.servers.pool.slot_mut(conn.slot) {
            slot.lost(statements);
        }
        let (id, losers) = (conn.id, losers(conn));
        self.core.fx.stats.counters.server_connections_lost += 1;
        if let Some(slot) = self.core.servers.pool.slot(conn.slot) {
            slot.server.health.note(Seen::REFUSED);
        }
        self.core.fx.act(Action::CloseServer { conn: id, farewell: &[] });
        self.core.servers.sweep_slot(conn.slot);
        for (client, begun, break_off_seq) in losers {
            let mut loss = Loss {
                conn: id,
                slot: conn.slot,
                begun,
                break_off_seq,
                written: conn.io.outbox.written_total(),
                lost_mark: lost_mark.take(),
            };
            self.with_client(client, |exchange, client| {
                exchange.lose_lease(client, &mut loss, reason);
            });
        }
        let (written, traces) = (conn.io.outbox.written_total(), traces_of(conn));
        conn.io.outbox.discard(&mut self.core.fx.buffers);
        self.core.kill_carrier_lost(id, written, reason);
        self.core.traces_gone(id, traces);
        self.core.kills_go_on(id);
        self.core.fx.wake(Wake::Queue(conn.server.hostgroup));
    }

    /// A session's connection is gone. What can safely be sent again is sent elsewhere; anything
    /// else is an error, and a session that had state there ends.
    fn lose_lease(&mut self, client: &mut Client, loss: &mut Loss, reason: &str) {
        if matches!(&client.phase, Phase::Running(it) if it.stage.conn() == Some(loss.conn)) {
            // Whether it may be sent again is what is proven of it by now.
            self.core.prove_again(client);
        }
        let left = client.session.lease_mut(loss.conn);
        let hostgroup = left.map(|lease| lease.hostgroup);
        let is_lost = |repetition: &Repetition| hostgroup == Some(repetition.kept.hostgroup);
        let repetition = self.take_repetition(client, is_lost);
        let session = &mut *client.session;
        if let Some(repetition) = repetition {
            session.leave(loss.conn);
            return self.repeat_again(client, repetition, reason, None);
        }
        let transaction = LostTransaction::on(session, loss.conn);
        let (pins, mut kept) = match session.leave(loss.conn) {
            Some(left) => (left.lease.pins, left.kept),
            None => Default::default(),
        };
        let had_state = !pins.is_empty();
        // Who asks for warnings is told that they were lost; who does not, has lost nothing.
        let holds_more = pins.reasons().any(|reason| reason != PinReason::Warnings);
        let text = lost_text(&pins, reason);
        let hit = hit(&mut client.phase, loss);
        let is_told_later = match hit {
            Hit::Nothing | Hit::Answered(_) => holds_more,
            Hit::GoesOn | Hit::TimedOut { .. } => had_state,
            Hit::Lost { was_sent } => {
                let left = LeftBehind { transaction, had_state, text, kept };
                return self.lose_running(client, loss, was_sent, left, reason);
            }
        };
        // One that runs elsewhere, or waits for that, was to run beside the transaction.
        let is_beside = matches!((&hit, &client.phase), (Hit::Nothing, Phase::Running(_)))
            || matches!(hit, Hit::GoesOn);
        if matches!(hit, Hit::Nothing) && transaction.is_some() {
            let cause = self.core.lost_words(loss.slot, reason);
            if matches!(client.phase, Phase::Idle)
                && self.repeats_left(client, &mut kept, loss.conn, &cause)
            {
                return;
            }
        }
        let mut is_undone = !is_beside;
        if let (Hit::TimedOut { was_sent: true }, Some((statement, session))) =
            (&hit, client.running_mut())
        {
            is_undone &= transaction.is_some_and(|it| it.undoes(session, statement));
            if !statement.meaning.is_read {
                let hostgroup = self.core.hostgroup_of(loss.slot);
                self.core.lose_write(session, hostgroup);
            }
        }
        if is_told_later {
            let session = &mut *client.session;
            session.lost = Some(match transaction.filter(|_| is_undone) {
                Some(_) => {
                    session.forget_transaction();
                    Lost::Transaction(self.core.rolled_back_text(loss.slot, reason))
                }
                None => Lost::Session(text),
            });
        }
        match hit {
            Hit::Answered(error) => self.fail_statement(client, (&*error).into(), None),
            Hit::TimedOut { .. } => self.fail_timed_out(client, None),
            Hit::Nothing | Hit::GoesOn | Hit::Lost { .. } => {}
        }
    }

    /// The statement that ran on a connection that is lost: its transaction is repeated, or the
    /// statement alone sent again, where that is safe; else it fails.
    fn lose_running(
        &mut self,
        client: &mut Client,
        loss: &mut Loss,
        was_sent: bool,
        left: LeftBehind,
        reason: &str,
    ) {
        let LeftBehind { transaction, had_state, text, mut kept } = left;
        let undoes = |it: LostTransaction| {
            client.running().is_some_and(|(statement, session)| it.undoes(session, statement))
        };
        let is_undone = transaction.is_some_and(|it| !was_sent || undoes(it));
        if is_undone && !(was_sent && loss.begun) {
            let cause = self.core.lost_words(loss.slot, reason);
            if self.repeats_left(client, &mut kept, loss.conn, &cause) {
                return;
            }
        }
        if is_undone && !client.has_sent_ahead() {
            return self.fail_rolled_back(client, loss, reason);
        }
        let had = match (had_state, transaction) {
            (false, _) => Had::Nothing,
            (true, Some(_)) => Had::Transaction,
            (true, None) => Had::More,
        };
        if was_sent && self.finds_out(client, loss, had, (&*text, reason), &mut kept) {
            return;
        }
        self.lose_statement(client, loss, (had_state, was_sent), text);
    }

    /// A statement is lost with its connection: it is sent again where that is safe, or fails with
    /// this text. `had_state`: the connection held some of the session's.
    pub(super) fn lose_statement(
        &mut self,
        client: &mut Client,
        loss: &Loss,
        (had_state, was_sent): (bool, bool),
        text: String,
    ) {
        let has_sent_ahead = client.has_sent_ahead();
        let Some((statement, session)) = client.running_mut() else { return };
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        if was_sent && is_run && !statement.meaning.is_read {
            let hostgroup = self.core.hostgroup_of(loss.slot);
            self.core.lose_write(session, hostgroup);
        }
        let begun = loss.begun && !has_plant!(self.core, RetryAfterFirstByte);
        // A default schema is chosen as well twice as once.
        let chooses =
            matches!(statement.command.purpose, Purpose::InitDb(_) | Purpose::LoginSchema(..));
        let may_repeat = statement
            .may_be_sent_twice(self.core.env.shared.catalog(), self.core.env.now.ms())
            || chooses
            || has_plant!(self.core, RetryOfWrite);
        let is_safe = !had_state && !begun && (!was_sent || may_repeat);
        if is_safe && statement.target.may_try_again(was_sent) {
            statement.target.was_lost = true;
            // It may be what ended the connection: nobody is to follow it once more.
            statement.target.never_share = true;
            self.core.fx.stats.counters.statements_retried += 1;
            self.core.fx.stats.server_mut(loss.slot.index()).retried += 1;
            return self.core.requeue(client);
        }
        // The client was told of what came before: of a transaction that has begun, perhaps.
        let is_partly_done = loss.begun && has_parts(statement);
        let makes_state = session.settings.begun.is_some()
            || makes_state(statement, session)
            || !statement.meaning.is_read && has_sent_ahead;
        match loss.break_off_seq {
            // What the client sends behind it, before it has read the error, is meant for the
            // session that is gone, or for one in which the statement has run: behind a `BEGIN`.
            Some(seq) if had_state || is_partly_done || makes_state => {
                self.tell_failure(client, seq, &ErrorKind::ConnectionLost.says(text), None);
                self.close_client(client);
            }
            // What was lost before it on another connection is told to the next command.
            Some(seq) => {
                let error = ErrorKind::ConnectionLost.says(text);
                self.fail_statement_numbered(client, seq, error, None)
            }
            // The client is in the middle of a packet: nothing but the end can follow.
            None => self.close_client(client),
        }
    }

    /// A server refused the session's state. The client gets the refusal, and the reply of a
    /// statement that followed is dropped. Unless that was a read, it may have been carried out,
    /// as the server had accepted this state before: then the client is told that.
    pub(crate) fn sync_failed(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        set: Option<u64>,
        refusal: ClientError,
    ) {
        self.core.fx.stats.counters.sessions_not_synchronised += 1;
        if let Some(set) = set {
            self.core.servers.accepted_sets.remove(&(conn.slot, conn.server.incarnation, set));
        }
        let left = client.session.leave(conn.id);
        let lease = left.map(|left| left.lease);
        let had_state =
            lease.as_ref().is_some_and(|lease| !lease.pins.is_empty() || lease.is_begun);
        let had_state = had_state && client.repetition().is_none();
        match lease {
            Some(lease) => self.core.free_lease(client, &lease, Some(&mut *conn)),
            None => self.core.free_after_session(conn, Some(client)),
        }
        let (ending, may_be_done) = match &client.phase {
            Phase::Running(statement) => {
                let was_sent = statement.stage == Stage::Sent(conn.id);
                (statement.ending, was_sent && !statement.meaning.is_read)
            }
            _ => (None, false),
        };
        if may_be_done {
            self.core.lose_write(&mut client.session, conn.server.hostgroup);
        }
        let error = match may_be_done {
            true => ErrorKind::ConnectionLost.says(format!(
                "{LOST} (before it the server refused its session's state: {})",
                refusal.text
            )),
            false => refusal,
        };
        if had_state {
            // Its transaction, or what else it held, goes with the connection.
            self.tell_failure(client, 1, &error, Some(&mut *conn));
            return self.end_client(client, Some(conn));
        }
        if !may_be_done && matches!(ending, Some(Ending::TimedOut | Ending::Withheld)) {
            // What was to end the statement has hit the state before it.
            return self.fail_timed_out(client, Some(conn));
        }
        self.fail_unsent(client, error, Some(conn));
    }
}

impl Target {
    /// Whether a statement that is lost, and may be sent again, is: as often as the settings say.
    /// One of which nothing was sent has not been tried yet, whoever ended its connection.
    fn may_try_again(&mut self, was_sent: bool) -> bool {
        let is_unsent = !was_sent && self.lost_unsent < LOST_UNSENT_MAX;
        match is_unsent {
            true => self.lost_unsent += 1,
            false if self.retries_left == 0 => return false,
            false => self.retries_left -= 1,
        }
        true
    }
}

impl Core {
    /// Counts a connect that failed against its server, which is shunned after too many. How many
    /// came since the last that succeeded.
    fn count_failed_connect(&mut self, conn: &Conn, reason: &str) -> u32 {
        let settings = &self.env.snapshot.settings;
        let until_ms = self.env.now.ms() + settings.shun_recovery_time_sec * 1_000;
        let failures_max = settings.shun_on_failures;
        let Some(slot) = self.servers.pool.slot(conn.slot) else {
            return 0;
        };
        let health = &slot.server.health;
        let address = slot.server.key.address.to_string();
        health.note(Seen::REFUSED);
        let failures = health.count_failure();
        if failures >= failures_max && failures_max > 0 {
            // One that is tried again and again while it is out is shunned once.
            if health.begin_shun(until_ms) {
                self.fx.stats.counters.servers_shunned += 1;
                self.fx.log(true, || format!("server {address} shunned: {reason}"));
            }
        } else {
            self.fx.log(true, || format!("server {address} gave no connection: {reason}"));
        }
        failures
    }
}

/// What the loss of a connection hits of what its session does.
enum Hit {
    /// Nothing: the session is idle, or its statement runs elsewhere.
    Nothing,
    /// A statement that is answered with this error anyway.
    Answered(Box<ServerError>),
    /// A statement that goes on elsewhere, or waits for what an earlier one left.
    GoesOn,
    /// A statement whose time had run out.
    TimedOut {
        /// Whether any of it may have reached the server.
        was_sent: bool,
    },
    /// The statement that ran there.
    Lost {
        /// Whether any of it may have reached the server.
        was_sent: bool,
    },
}

/// What a loss hits of what its session does.
fn hit(phase: &mut Phase, loss: &Loss) -> Hit {
    let Phase::Running(statement) = phase else { return Hit::Nothing };
    if statement.stage.conn().is_some_and(|conn| conn != loss.conn) {
        return Hit::Nothing;
    }
    if let Some(error) = statement.prepared.prepare_error.take() {
        return Hit::Answered(error);
    }
    let was_sent = match statement.stage {
        Stage::Held(_) | Stage::Queued | Stage::Returning => return Hit::GoesOn,
        Stage::Synchronising(_) | Stage::Preparing(_) => false,
        // Bytes that the kernel never took never reached the server.
        Stage::Sent(_) | Stage::Shared(_) => loss.written > statement.sent.sent_at,
    };
    match has_timed_out(statement.ending, was_sent) {
        true => Hit::TimedOut { was_sent },
        false => Hit::Lost { was_sent },
    }
}

/// What the client is told of a lost connection that held this of its session.
fn lost_text(pins: &Pins, reason: &str) -> String {
    let held: Vec<_> = pins.reasons().map(|pin| pin.name()).collect();
    match held.is_empty() {
        true => format!("{LOST} ({reason})"),
        false => format!("{LOST} ({reason}); it held the session's {}", held.join(", ")),
    }
}

/// Whether a statement that loses its connection is to be answered that its time ran out. What may
/// have been carried out is not said to have been interrupted.
fn has_timed_out(ending: Option<Ending>, was_sent: bool) -> bool {
    match ending {
        Some(Ending::Withheld) => true,
        Some(Ending::TimedOut) => !was_sent,
        Some(Ending::Killed) | None => false,
    }
}

/// Who loses something with a connection: whether any of its answer has come, and the number of an
/// error that breaks the answer off.
fn losers(conn: &mut Conn) -> Vec<(ClientId, bool, Option<u8>)> {
    let mut losers = Vec::new();
    for entry in &conn.in_flight {
        if let Owner::Client(client) = entry.owner {
            losers.push((client, entry.relay.has_begun(), entry.relay.break_off_seq()));
        }
    }
    match conn.holder.owner.take() {
        Some(owner) if losers.is_empty() => vec![(owner, false, Some(1))],
        _ => losers,
    }
}

/// Whether a statement was to change what its session's next ones find: it begins a transaction,
/// sets something, chooses a schema.
pub(super) fn makes_state(statement: &Statement, session: &Session) -> bool {
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    let begins = !statement.meaning.is_read && session.settings.state.is_autocommit_off();
    is_run && begins || says_state(statement)
}

/// Whether a statement only looks at something, be it of its session: what its client says behind
/// it means the same though it has not run.
pub(super) fn only_looks_at(statement: &Statement) -> bool {
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    let looks = |known: &Known| only_looks(&known.analysis, statement.meaning.proof);
    statement.meaning.is_read || is_run && statement.meaning.known.as_deref().is_some_and(looks)
}

/// Whether a statement says that it changes what its session's next ones find.
pub(crate) fn says_state(statement: &Statement) -> bool {
    let is_state = |known: &Known| sets_state(&known.analysis);
    match statement.command.purpose {
        Purpose::Query | Purpose::Execute => {
            statement.meaning.known.as_deref().is_some_and(is_state)
        }
        Purpose::InitDb(_) | Purpose::Reset | Purpose::ChangeUser(_) => true,
        _ => false,
    }
}

/// Whether a text says that it changes what its session's next ones find.
pub(crate) fn sets_state(analysis: &Analysis) -> bool {
    let lasts = |effect: &Effect| !matches!(effect, Effect::CalcFoundRows);
    analysis.effects.iter().any(lasts) || analysis.transaction != TransactionEffect::None
}

/// What a session had on a connection that it has lost.
struct LeftBehind {
    /// Its transaction, if that was all.
    transaction: Option<LostTransaction>,
    had_state: bool,
    /// What the client is told of it.
    text: String,
    /// The transaction as its client has said it, if it may be repeated.
    kept: Option<Box<Kept>>,
}

/// What was lost with a connection.
pub(super) struct Loss {
    pub(super) conn: ConnId,
    pub(super) slot: SlotId,
    /// Whether any byte of the reply had come.
    pub(super) begun: bool,
    /// How to number an error packet that breaks the reply off; `None` inside a packet.
    pub(super) break_off_seq: Option<u8>,
    /// Bytes that the kernel took for this connection in all.
    pub(super) written: u64,
    /// What the first who lost something may be found out by.
    pub(super) lost_mark: Option<LostMark>,
}

/// Whether a statement is answered in parts, each of which may have changed the session.
fn has_parts(statement: &Statement) -> bool {
    statement.meaning.known.as_ref().is_some_and(|known| {
        let analysis = &known.analysis;
        analysis.statements != 1
            || matches!(analysis.kind, StatementKind::Call | StatementKind::Execute)
    })
}

#[cfg(test)]
mod tests;
