//! A transaction that is lost with its connection is repeated on another one: see
//! [`replay`](crate::replay).

use trunkline_pool::ConnId;
use trunkline_protocol::{
    error::ErrorKind,
    packet::status,
    response::{Outcome, Relay, ReplyFormat, ResponseShape},
};
use trunkline_session::tracker::PinReason;
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::{Client, Lease, Phase, Purpose, Session, Stage, Statement},
    effects::Wake,
    exchange::{
        pins::ends_connection,
        refused::is_only_answer,
        rolled_back::{Lost, LostTransaction},
        send::put_own_query,
    },
    prepared::ClientStmts,
    prepared::outcome::stmt_executed,
    replay::{Again, Differs, Digest, Kept, Noted, Repetition, Told},
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, InFlight, Owner},
    servers::read_only::says_read_only,
    upkeep::timer::timed_out,
};

/// A deadlock, and a lock that was waited for too long.
const LOCKED_OUT: [u16; 3] = [1213, 1205, 1020];

impl Client {
    /// The repetition of its transaction, while one is under way.
    pub(crate) fn repetition(&self) -> Option<&Repetition> {
        let Phase::Running(statement) = &self.phase else { return None };
        statement.beside.noted.as_ref()?.repetition()
    }

    /// The statement of its transaction that runs once more.
    fn repeated(&self) -> Option<&Again> {
        match &self.phase {
            Phase::Running(statement) => match statement.beside.noted.as_ref()? {
                Noted::Again(again) => Some(again),
                Noted::First(_) | Noted::Behind(_) => None,
            },
            _ => None,
        }
    }

    /// While statements of its transaction run once more: whether one of its own waits behind them,
    /// of which nothing has been sent.
    pub(crate) fn waits_for_repetition(&self) -> Option<bool> {
        self.repeated().map(|again| again.repetition.waiting.is_some())
    }

    /// What waits behind the statements that run once more.
    fn waiting_mut(&mut self) -> Option<&mut Option<Box<Statement>>> {
        match &mut self.phase {
            Phase::Running(statement) => match statement.beside.noted.as_mut()? {
                Noted::Again(again) => Some(&mut again.repetition.waiting),
                Noted::First(_) | Noted::Behind(_) => None,
            },
            _ => None,
        }
    }

    /// Where the next statement of a repetition is to go, or what was to run behind it.
    fn repeats_on(&self) -> Option<(ConnId, HostgroupId)> {
        match &self.phase {
            Phase::Running(statement) if statement.stage == Stage::Returning => {
                let kept = &statement.beside.noted.as_ref()?.repetition()?.kept;
                Some((kept.conn, kept.hostgroup))
            }
            _ => None,
        }
    }
}

impl Session {
    /// What was kept of its transaction is about to be repeated.
    fn begin_repetition(&mut self, mut kept: Box<Kept>, cause: &str) -> Box<Repetition> {
        kept.attempts += 1;
        let (mut types, mut closed) = (Vec::new(), Vec::new());
        for stmt in kept.closed.drain(..) {
            closed.push(stmt.id);
            self.prepared.restore(stmt);
        }
        for stmt_id in kept.said.iter().filter_map(|said| said.stmt_id) {
            let is_new = types.iter().all(|(known, _)| *known != stmt_id);
            if let Some(stmt) = self.prepared.get(stmt_id).filter(|_| is_new) {
                types.push((stmt_id, stmt.types.clone()));
            }
        }
        self.settings.status &= !(status::IN_TRANS | status::IN_TRANS_READONLY);
        let left = std::mem::take(&mut kept.said).into();
        let (insert_id, cause) = (self.insert_id_before(), cause.to_owned());
        Box::new(Repetition { kept, left, waiting: None, types, closed, insert_id, cause })
    }

    /// Prepared statements are as they were before the repetition.
    fn put_back_stmts(&mut self, repetition: &mut Repetition) {
        for (stmt_id, types) in repetition.types.drain(..) {
            if let Some(stmt) = self.prepared.get_mut(stmt_id) {
                stmt.types = types;
            }
        }
        for stmt_id in repetition.closed.drain(..) {
            repetition.kept.closed.extend(self.prepared.take_out(stmt_id));
        }
    }

    /// Whether a transaction is open on this connection behind what has been answered there.
    fn is_in_on(&self, conn: ConnId) -> bool {
        let is_off = self.settings.state.is_autocommit_off();
        let is_in = |lease: &Lease| lease.is_in_trans || is_off;
        self.leases.iter().any(|lease| lease.conn == conn && is_open(lease) && is_in(lease))
    }

    /// Whether its transaction is open on this connection.
    fn is_open_on(&self, conn: ConnId) -> bool {
        self.leases.iter().any(|lease| lease.conn == conn && is_open(lease))
    }
}

impl Core {
    /// Before an insert that is repeated and has generated its id: the server is to give it that.
    #[cold]
    pub(super) fn give_insert_id(&mut self, client: &Client, conn: &mut Conn) {
        let Some(again) = client.repeated().filter(|again| again.said.generates) else { return };
        let text = format!("SET insert_id={}", again.said.told.last_insert_id);
        let relay =
            Relay::new(ResponseShape::Single, conn.server.format, ReplyFormat::PLAIN, false)
                .numbered_from(1);
        conn.in_flight.push_back(InFlight {
            owner: Owner::Again,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let takes_attributes = conn.server.takes_attributes;
        let out = conn.io.outbox.buf(&mut self.fx.buffers);
        put_own_query(out, text.as_bytes(), takes_attributes);
        self.touch_server(conn);
    }

    /// The connection of a transaction that is not to go on is closed. `lent`: the connection that
    /// is lent, if one is.
    fn drop_repeated(&mut self, client: &mut Client, kept: &Kept, lent: Option<&mut Conn>) {
        let session = &mut *client.session;
        let is_its = |lease: &Lease| lease.hostgroup == kept.hostgroup || lease.conn == kept.conn;
        let its = session.leases.iter().find(|lease| is_its(lease)).map(|lease| lease.conn);
        if let Some(left) = its.and_then(|conn| session.leave(conn)) {
            self.with_conn_or(lent, left.lease.conn, Self::drop_conn);
            self.fx.wake(Wake::Queue(kept.hostgroup));
        }
    }

    /// Whether what was kept of a transaction may be repeated where it is lost with this
    /// connection.
    fn may_repeat(&mut self, kept: &Kept, conn: ConnId, stmts: &ClientStmts) -> bool {
        if !kept.can_repeat(conn, stmts) {
            return false;
        }
        let settings = &self.env.snapshot.settings;
        let age_ms = self.env.now.ms().saturating_sub(kept.begun_ms);
        let is_late = age_ms > settings.transaction_replay_max_age
            || kept.attempts >= settings.transaction_replay_attempts;
        self.fx.stats.counters.replays_late += u64::from(is_late);
        !is_late
    }
}

impl Exchange {
    /// Begins to repeat the transaction that a client has lost with a connection, before what it
    /// has under way, if it has. What was `kept` has been taken out with the connection. False
    /// where that may not be.
    pub(super) fn repeats_left(
        &mut self,
        client: &mut Client,
        kept: &mut Option<Box<Kept>>,
        conn: ConnId,
        cause: &str,
    ) -> bool {
        client.session.transaction.kept = None;
        let Some(kept) = kept.take() else { return false };
        let may_be = self.core.may_repeat(&kept, conn, &client.session.prepared);
        if may_be {
            let repetition = client.session.begin_repetition(kept, cause);
            self.begin_repeating(client, repetition);
        }
        may_be
    }

    /// What its client has under way waits until all of it has run.
    fn begin_repeating(&mut self, client: &mut Client, mut repetition: Box<Repetition>) {
        debug_assert!(matches!(client.phase, Phase::Idle | Phase::Running(_)));
        if let Phase::Running(mut statement) = std::mem::replace(&mut client.phase, Phase::Idle) {
            statement.stage = Stage::Queued;
            statement.prepared.runs_last = false;
            statement.beside.noted = None;
            repetition.waiting = Some(statement);
        }
        // Its time goes on.
        let deadline_ms = repetition.waiting.as_ref().map_or(0, |waiting| waiting.deadline_ms);
        self.core.clients.set_timer(client, deadline_ms);
        self.core.fx.stats.counters.replays_begun += 1;
        self.repeat_next(client, repetition, None);
    }

    /// Has the next statement of a repetition under way. `conn`: where the last one has run; the
    /// first one looks for a connection.
    fn repeat_next(
        &mut self,
        client: &mut Client,
        mut repetition: Box<Repetition>,
        conn: Option<&mut Conn>,
    ) {
        let Some(said) = repetition.left.pop_front() else {
            return self.repeated(client, repetition, conn);
        };
        if let Some(stmt_id) = said.stmt_id
            && let Some(stmt) = client.session.prepared.get_mut(stmt_id)
        {
            stmt.types = said.types.clone();
        }
        let mut statement = said.once_more(self.core.env.now.us);
        statement.target.hostgroup = repetition.kept.hostgroup;
        let digest = Digest::new(ReplyFormat::PLAIN);
        statement.beside.noted = Some(Noted::Again(Box::new(Again { digest, said, repetition })));
        client.phase = Phase::Running(statement);
        match conn {
            Some(_) => self.core.fx.wake(Wake::Repeat(client.id)),
            None => self.core.requeue(client),
        }
    }

    /// The next statement of a repetition goes out, or what was to run behind it.
    pub(crate) fn go_on_repeating(&mut self, client: &mut Client) {
        let Some((conn, hostgroup)) = client.repeats_on() else { return };
        let has_it = client.session.is_open_on(conn);
        if let Some(repetition) = self.take_repetition(client, |_| !has_it) {
            return self.repeat_again(client, repetition, "its connection was given up", None);
        }
        if let Some((statement, session)) = client.running_mut() {
            statement.target.hostgroup = hostgroup;
            let behind = statement.beside.noted.take_if(|noted| !noted.is_repeated());
            let deadline_ms = statement.deadline_ms;
            if let Some(Noted::Behind(repetition)) = behind {
                session.transaction.kept = Some(repetition.kept);
                self.core.clients.set_timer(client, deadline_ms);
            }
        }
        self.dispatch_to(client, conn);
    }

    /// Takes a repetition out, if it is `wanted`, to begin anew or to end: what was to run behind
    /// it waits again.
    pub(super) fn take_repetition(
        &mut self,
        client: &mut Client,
        wanted: impl Fn(&Repetition) -> bool,
    ) -> Option<Box<Repetition>> {
        match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::Running(mut statement) => {
                let hostgroup = statement.target.hostgroup;
                let repetition = match statement.beside.noted.take() {
                    Some(Noted::Again(again)) if wanted(&again.repetition) => {
                        self.retire(statement);
                        again.give_back()
                    }
                    // What was to run behind it had its turn.
                    Some(Noted::Behind(mut repetition)) if wanted(&repetition) => {
                        repetition.waiting = Some(statement);
                        repetition
                    }
                    noted => {
                        statement.beside.noted = noted;
                        client.phase = Phase::Running(statement);
                        return None;
                    }
                };
                self.core.servers.pool.waiters(hostgroup).remove(client.id);
                Some(repetition)
            }
            other => {
                client.phase = other;
                None
            }
        }
    }

    /// What waits behind a repetition has run out of its time: its client is told, and the
    /// transaction goes on without it.
    #[cold]
    pub(crate) fn time_out_waiting(&mut self, client: &mut Client) {
        let now_ms = self.core.env.now.ms();
        let is_late = |waiting: &mut Box<Statement>| (1..=now_ms).contains(&waiting.deadline_ms);
        let waiting = client.waiting_mut().and_then(|waiting| waiting.take_if(is_late));
        let Some(waiting) = waiting else { return };
        self.core.fx.stats.counters.statements_timed_out += 1;
        let ends = self.fails_for_those_behind(client, &waiting);
        let repeated = std::mem::replace(&mut client.phase, Phase::Running(waiting));
        self.tell_of_statement(client, 1, &timed_out(), None);
        client.phase = repeated;
        if ends {
            self.end_client(client, None);
        }
    }

    /// The statement that was run once more has been answered.
    pub(super) fn complete_repeated(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        mut statement: Box<Statement>,
        mut again: Box<Again>,
        outcome: &Outcome,
    ) {
        let is_refused = statement.prepared.prepare_error.take().is_some();
        let is_read_only = outcome.error.as_ref().is_some_and(says_read_only);
        let ends = outcome.error.as_ref().is_some_and(|error| ends_connection(error.code));
        if !is_refused {
            self.core.learn(client, conn, &statement, outcome, true);
            if statement.command.purpose == Purpose::Execute {
                stmt_executed(client, conn, &statement, outcome, true);
            }
        }
        self.retire(statement);
        let is_in = client.session.is_in_on(conn.id);
        again.repetition.kept.conn = conn.id;
        let told = Told::of(&again.digest, outcome);
        let is_unchecked = has_plant!(self.core, ReplayUnchecked);
        match again.said.told.difference(&told).filter(|_| !is_unchecked) {
            _ if is_read_only || ends => {
                let why = "its server takes no writes";
                self.repeat_again(client, again.give_back(), why, Some(conn));
            }
            _ if is_refused => {
                let why = "a statement can't be prepared again";
                self.give_up_repeating(client, again.give_back(), why, Some(conn));
            }
            Some(Differs::InsertId) if !again.said.generates => {
                // Others have inserted meanwhile: it is given the one that its client was told.
                again.said.generates = true;
                self.begin_again(client, again.give_back(), Some(conn));
            }
            Some(differs) => {
                self.core.fx.stats.counters.replays_differed += 1;
                let which = again.repetition.kept.said.len() + 1;
                let words = differs.words();
                let why = format!("statement {which} of it has another {words} there");
                self.give_up_repeating(client, again.give_back(), &why, Some(conn));
            }
            None if !is_in => {
                let why = "it does not stay open there";
                self.give_up_repeating(client, again.give_back(), why, Some(conn));
            }
            None => {
                self.core.settle_lease(client, conn);
                let Again { said, mut repetition, .. } = *again;
                repetition.kept.said.push(said);
                self.repeat_next(client, repetition, Some(conn));
            }
        }
    }

    /// All of the transaction has been told the same: its session goes on.
    fn repeated(
        &mut self,
        client: &mut Client,
        mut repetition: Box<Repetition>,
        conn: Option<&mut Conn>,
    ) {
        self.core.fx.stats.counters.replays_done += 1;
        let session = &mut *client.session;
        session.put_back_stmts(&mut repetition);
        match repetition.waiting.take() {
            Some(mut waiting) => {
                waiting.stage = Stage::Returning;
                waiting.beside.noted = Some(Noted::Behind(repetition));
                client.phase = Phase::Running(waiting);
                self.core.fx.wake(Wake::Repeat(client.id));
            }
            None => {
                session.transaction.kept = Some(repetition.kept);
                self.after_statement(client, conn);
            }
        }
    }

    /// A repetition has lost its connection, or has to leave it: it begins anew. `lent`: the
    /// connection that is lent, if one is.
    pub(super) fn repeat_again(
        &mut self,
        client: &mut Client,
        mut repetition: Box<Repetition>,
        why: &str,
        lent: Option<&mut Conn>,
    ) {
        repetition.kept.attempts += 1;
        let attempts_max = self.core.env.snapshot.settings.transaction_replay_attempts;
        match repetition.kept.attempts > attempts_max {
            true => self.give_up_repeating(client, repetition, why, lent),
            false => self.begin_again(client, repetition, lent),
        }
    }

    /// A repetition begins anew on another connection than the one that it has. `lent`: the
    /// connection that is lent, if one is.
    fn begin_again(
        &mut self,
        client: &mut Client,
        mut repetition: Box<Repetition>,
        lent: Option<&mut Conn>,
    ) {
        self.core.drop_repeated(client, &repetition.kept, lent);
        repetition.rewind();
        self.repeat_next(client, repetition, None);
    }

    /// A repetition is given up: what it has done is undone, and its client is told. `lent`: the
    /// connection that is lent, if one is.
    fn give_up_repeating(
        &mut self,
        client: &mut Client,
        repetition: Box<Repetition>,
        why: &str,
        mut lent: Option<&mut Conn>,
    ) {
        if self.tell_given_up(client, repetition, why, lent.as_deref_mut()) {
            self.after_statement(client, lent);
        }
    }

    /// See [`Self::give_up_repeating`]. False when the session is over.
    pub(super) fn tell_given_up(
        &mut self,
        client: &mut Client,
        mut repetition: Box<Repetition>,
        why: &str,
        mut lent: Option<&mut Conn>,
    ) -> bool {
        self.core.fx.stats.counters.replays_failed += 1;
        self.core.drop_repeated(client, &repetition.kept, lent.as_deref_mut());
        let has_sent_ahead = client.has_sent_ahead();
        let session = &mut *client.session;
        session.put_back_stmts(&mut repetition);
        session.forget_transaction();
        let Repetition { waiting, cause, insert_id, .. } = *repetition;
        session.put_insert_id_back(insert_id);
        let text = format!("{cause}, and it could not be repeated elsewhere ({why})");
        let text = format!("{text}; try restarting transaction");
        let Some(waiting) = waiting else {
            session.lost = Some(Lost::Transaction(text));
            return true;
        };
        client.phase = Phase::Running(waiting);
        if !has_sent_ahead {
            return self.tell_of_statement(client, 1, &ErrorKind::RolledBack.says(text), lent);
        }
        let error = ErrorKind::StateLost.says(text);
        self.tell_of_statement(client, 1, &error, lent.as_deref_mut());
        self.end_client(client, lent);
        false
    }

    /// Repeats a transaction in place of telling its client an error: that of a server which ends
    /// the connection or takes no writes any more, or of a deadlock, where that is wanted.
    /// `answer`: the last bytes of the answer, which have just come.
    #[cold]
    pub(crate) fn repeats_instead(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        outcome: &Outcome,
        answer: &[u8],
    ) -> bool {
        let Some(error) = outcome.error.as_ref() else { return false };
        let Some((statement, session)) = client.running_mut() else { return false };
        let on_deadlock = self.core.env.snapshot.settings.transaction_replay_on_deadlock;
        let is_one = says_read_only(error)
            || ends_connection(error.code)
            || on_deadlock && LOCKED_OUT.contains(&error.code);
        let transaction = LostTransaction::on(session, conn.id);
        let may_be = is_one
            && matches!(statement.beside.noted, Some(Noted::First(_)))
            && statement.stage == Stage::Sent(conn.id)
            && statement.ending.is_none()
            && !conn.may_be_hit()
            && is_only_answer(outcome, answer)
            && transaction.is_some_and(|it| it.undoes(session, statement));
        let core = &mut self.core;
        let may_repeat =
            |kept: &mut Box<Kept>| may_be && core.may_repeat(kept, conn.id, &session.prepared);
        let Some(kept) = session.transaction.kept.take_if(may_repeat) else { return false };
        let cause = self.core.lost_words(conn.slot, &String::from_utf8_lossy(&error.message));
        let repetition = session.begin_repetition(kept, &cause);
        self.begin_repeating(client, repetition);
        client.io.outbox.take_back(answer.len());
        self.core.leave_repeated(client, conn);
        true
    }
}

impl Core {
    /// The transaction that is to be repeated is left on this connection, which is closed.
    fn leave_repeated(&mut self, client: &mut Client, conn: &mut Conn) {
        client.session.leave(conn.id);
        let hostgroup = conn.server.hostgroup;
        self.drop_conn(conn);
        self.fx.wake(Wake::Queue(hostgroup));
    }
}

fn is_open(lease: &Lease) -> bool {
    lease.pins.has(PinReason::Transaction)
}

#[cfg(test)]
mod tests;
