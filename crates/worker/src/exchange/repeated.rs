//! A transaction that is lost with its connection is repeated on another one: see
//! [`replay`](crate::replay).

use std::{rc::Rc, sync::Arc};

use trunkline_pool::ConnId;
use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    error::ErrorKind,
    packet::status,
    response::{Outcome, Relay, ReplyFormat, ResponseShape},
};
use trunkline_session::tracker::PinReason;

use crate::{
    clients::client::{Client, CommandSent, Lease, Phase, Purpose, Session, Stage, Statement},
    effects::Wake,
    exchange::{
        pins::ends_connection,
        refused::is_only_answer,
        rolled_back::{Lost, LostTransaction},
        send::put_own_query,
    },
    prepared::outcome::stmt_executed,
    replay::{Differs, Digest, Held, Kept, Noted, Run, STATEMENT_COST, Said, Told, Why, fit},
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, InFlight, Owner},
    servers::read_only::says_read_only,
    upkeep::timer::timed_out,
};

/// A deadlock, and a lock that was waited for too long.
const LOCKED_OUT: [u16; 3] = [1213, 1205, 1020];

impl Client {
    /// Whether its transaction is being repeated.
    pub(super) fn is_repeating(&self) -> bool {
        let kept = self.session.as_ref().and_then(|session| session.transaction.kept.as_deref());
        kept.is_some_and(Kept::is_running)
    }

    /// While statements of its transaction run once more: whether one of its own waits behind them,
    /// of which nothing has been sent.
    pub(crate) fn waits_for_repetition(&self) -> Option<bool> {
        let Phase::Running(statement) = &self.phase else { return None };
        statement.beside.noted.as_ref().filter(|noted| noted.is_repeated)?;
        let kept = self.session.as_ref()?.transaction.kept.as_deref()?;
        kept.run.as_ref().map(|run| run.waiting.is_some())
    }
}

impl Session {
    /// Whether its transaction on this connection can be repeated, as far as is known.
    fn can_repeat(&self, conn: ConnId) -> bool {
        // Parts of parameters that have come are meant for the next execution.
        let has_long = |stmt_id| self.prepared.get(stmt_id).is_some_and(|stmt| stmt.long.is_some());
        let fits = |kept: &Kept| {
            kept.conn == conn
                && kept.why_not.is_none()
                && !kept.said.is_empty()
                && !kept.said.iter().filter_map(|said| said.stmt_id).any(has_long)
        };
        self.transaction.kept.as_deref().is_some_and(fits)
    }

    /// Prepared statements are as they were before the repetition.
    fn put_back_stmts(&mut self) {
        let Some(kept) = self.transaction.kept.as_deref_mut() else { return };
        let Some(run) = kept.run.as_mut() else { return };
        for (stmt_id, types) in run.types.drain(..) {
            if let Some(stmt) = self.prepared.get_mut(stmt_id) {
                stmt.types = types;
            }
        }
        for stmt_id in run.closed.drain(..) {
            kept.closed.extend(self.prepared.take_out(stmt_id));
        }
    }
}

impl Core {
    /// A statement is sent: what is told of it is summed up, if it is part of a transaction that
    /// may have to be repeated, or begins one.
    #[cold]
    pub(super) fn note(&mut self, client: &mut Client, conn: &mut Conn, is_shared: bool) {
        let (Phase::Running(statement), Some(session)) =
            (&mut client.phase, client.session.as_ref())
        else {
            return;
        };
        let is_wanted = self.env.wants_replay(session);
        if let Some(noted) = statement.beside.noted.as_mut().filter(|noted| noted.is_repeated) {
            noted.digest.restart(conn.server.format);
            return;
        }
        let begins = || fit::begins(statement) || session.settings.state.is_autocommit_off();
        let is_noted = !is_shared
            && !client.is_mirror
            && (session.transaction.kept.is_some() || is_wanted && begins());
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let has_long_data = stmt.is_some_and(|stmt| stmt.long.is_some());
        let is_open = |lease: &Lease| lease.is_in_trans || lease.pins.has(PinReason::Transaction);
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let was_open = lease.is_some_and(is_open);
        statement.beside.noted = is_noted.then(|| {
            let digest = Digest::new(conn.server.format);
            Box::new(Noted { digest, is_repeated: false, has_long_data, was_open })
        });
    }

    /// Before an insert that is repeated and has generated its id: the server is to give it that.
    #[cold]
    pub(super) fn give_insert_id(&mut self, client: &Client, conn: &mut Conn) {
        let is_repeated = matches!(&client.phase, Phase::Running(statement)
            if statement.beside.noted.as_ref().is_some_and(|noted| noted.is_repeated));
        if !is_repeated {
            return;
        }
        let kept = client.session.as_ref().and_then(|session| session.transaction.kept.as_deref());
        let Some((kept, run)) = kept.and_then(|kept| Some((kept, kept.run.as_ref()?))) else {
            return;
        };
        let Some(said) = kept.said.get(run.at).filter(|said| said.generates) else { return };
        let text = format!("SET insert_id={}", said.told.last_insert_id);
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

    /// A statement has been answered, and its session has learned of that: it is kept, if it is
    /// part of a transaction that can be repeated.
    #[cold]
    pub(super) fn keep(
        &mut self,
        client: &mut Client,
        conn: &Conn,
        statement: &mut Statement,
        outcome: &Outcome,
    ) {
        let Some(noted) = statement.beside.noted.take() else { return };
        let Some(session) = client.session.as_mut() else { return };
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let Some(lease) = lease.filter(|lease| lease.pins.has(PinReason::Transaction)) else {
            if session.transaction.kept.as_deref().is_some_and(|kept| kept.conn == conn.id) {
                session.transaction.kept = None;
            }
            return;
        };
        if statement.command.purpose == Purpose::Prepare {
            return;
        }
        let begins = fit::begins(statement) && outcome.error.is_none();
        let is_other = session.transaction.kept.as_deref().is_none_or(|kept| kept.conn != conn.id);
        if begins || is_other {
            let held = Held { all: Rc::clone(&self.clients.memory.replay_bytes), len: 0 };
            let state = Arc::clone(&session.settings.state);
            let mut kept = Kept::new(lease.hostgroup, conn.id, state, held, self.env.now.ms());
            let is_first = !noted.was_open && session.settings.state.is_autocommit_off();
            if !begins && !is_first {
                kept.refuse(Why::Begin);
            }
            session.transaction.kept = Some(Box::new(kept));
        }
        let Some(kept) =
            session.transaction.kept.as_deref_mut().filter(|kept| kept.why_not.is_none())
        else {
            return;
        };
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let text = match stmt {
            Some(stmt) => &*stmt.entry.text,
            None => statement.command.frames.get(HEADER_LEN..).unwrap_or_default(),
        };
        let knows_id = kept.knows_id;
        if outcome.last_insert_id != 0 {
            kept.knows_id = session.past.knows_insert_id();
        }
        let settings = &self.env.snapshot.settings;
        let attributes_len = statement.command.attributes.as_ref().map_or(0, |it| it.len());
        let own_len = statement.command.frames.len() + attributes_len;
        let len = kept.held.len + own_len + STATEMENT_COST;
        let is_long = len > settings.transaction_replay_max_bytes
            || kept.said.len() >= settings.transaction_replay_max_statements
            || kept.held.all.get() + len - kept.held.len
                > settings.transaction_replay_worker_max_bytes;
        let is_changed = !Arc::ptr_eq(&kept.state, &session.settings.state);
        let why = fit::why_not(statement, &noted, text, lease, outcome, knows_id)
            .or(is_changed.then_some(Why::Session))
            .or(is_long.then_some(Why::Size));
        if let Some(why) = why {
            kept.refuse(why);
            self.count_unfit(why);
            return;
        }
        let types = stmt.and_then(|stmt| stmt.types.clone());
        kept.held.set(len);
        kept.said.push(Said::of(statement, types, Told::of(&noted.digest, outcome)));
    }

    /// A client that may wait for a connection does so no more.
    fn leave_queue(&mut self, client: &Client) {
        if let Some((hostgroup, _)) = client.wanted() {
            self.servers.pool.waiters(hostgroup).remove(client.id);
        }
    }

    fn count_unfit(&mut self, why: Why) {
        let counters = &mut self.fx.stats.counters;
        *match why {
            Why::Statement => &mut counters.replays_unfit_statement,
            Why::Effects => &mut counters.replays_unfit_effects,
            Why::Engine => &mut counters.replays_unfit_engine,
            Why::Past => &mut counters.replays_unfit_past,
            Why::Session => &mut counters.replays_unfit_session,
            Why::Failed => &mut counters.replays_unfit_failed,
            Why::Begin => &mut counters.replays_unfit_begin,
            Why::Size => &mut counters.replays_unfit_size,
        } += 1;
    }

    /// The connection of a transaction that is not to go on is closed. `lent`: the connection that
    /// is lent, if one is.
    fn drop_repeated(&mut self, client: &mut Client, lent: Option<&mut Conn>) {
        let Some(session) = client.session.as_mut() else { return };
        let Some(kept) = session.transaction.kept.as_deref() else { return };
        let (hostgroup, own) = (kept.hostgroup, kept.conn);
        let is_its = |lease: &Lease| lease.hostgroup == hostgroup || lease.conn == own;
        let its = session.leases.iter().find(|lease| is_its(lease)).map(|lease| lease.conn);
        let Some(left) = its.and_then(|conn| session.leave(conn)) else { return };
        self.with_conn_or(lent, left.lease.conn, Self::drop_conn);
        self.fx.wake(Wake::Queue(hostgroup));
    }
}

impl Exchange {
    /// Begins to repeat the transaction that a client has lost with a connection, before what it
    /// has under way, if it has. False where that may not be.
    pub(super) fn repeats(&mut self, client: &mut Client, conn: ConnId, cause: &str) -> bool {
        let now_ms = self.core.env.now.ms();
        let settings = &self.core.env.snapshot.settings;
        let (age_max, attempts_max) =
            (settings.transaction_replay_max_age, settings.transaction_replay_attempts);
        let is_there = matches!(client.phase, Phase::Idle | Phase::Running(_));
        let Some(session) = client.session.as_mut() else { return false };
        if !is_there || !session.can_repeat(conn) {
            return false;
        }
        let Some(kept) = session.transaction.kept.as_deref_mut() else { return false };
        if now_ms.saturating_sub(kept.begun_ms) > age_max || kept.attempts >= attempts_max {
            self.core.fx.stats.counters.replays_late += 1;
            return false;
        }
        kept.attempts += 1;
        let insert_id = session.insert_id_before();
        let Some(kept) = session.transaction.kept.as_deref_mut() else { return false };
        let waiting = match std::mem::replace(&mut client.phase, Phase::Idle) {
            Phase::Running(mut statement) => {
                statement.stage = Stage::Queued;
                statement.prepared.runs_last = false;
                statement.beside.noted = None;
                Some(statement)
            }
            _ => None,
        };
        let (mut types, mut closed) = (Vec::new(), Vec::new());
        for stmt in kept.closed.drain(..) {
            closed.push(stmt.id);
            session.prepared.restore(stmt);
        }
        for stmt_id in kept.said.iter().filter_map(|said| said.stmt_id) {
            let is_new = types.iter().all(|(known, _)| *known != stmt_id);
            if let Some(stmt) = session.prepared.get(stmt_id).filter(|_| is_new) {
                types.push((stmt_id, stmt.types.clone()));
            }
        }
        // Its time goes on.
        let deadline_ms = waiting.as_ref().map_or(0, |waiting| waiting.deadline_ms);
        let run = Run { at: 0, waiting, types, closed, insert_id, cause: cause.to_owned() };
        kept.run = Some(run);
        session.settings.status &= !(status::IN_TRANS | status::IN_TRANS_READONLY);
        self.core.clients.set_timer(client, deadline_ms);
        self.core.fx.stats.counters.replays_begun += 1;
        self.set_repeated(client, 0);
        self.core.requeue(client);
        true
    }

    /// See [`Self::repeats`]; what was kept has been taken out with the connection that is lost.
    pub(super) fn repeats_left(
        &mut self,
        client: &mut Client,
        kept: &mut Option<Box<Kept>>,
        conn: ConnId,
        cause: &str,
    ) -> bool {
        let Some(session) = client.session.as_mut() else { return false };
        session.transaction.kept = kept.take();
        let is_begun = self.repeats(client, conn, cause);
        if let Some(session) = client.session.as_mut().filter(|_| !is_begun) {
            session.transaction.kept = None;
        }
        is_begun
    }

    /// Has the statement of this number under way once more.
    fn set_repeated(&mut self, client: &mut Client, at: usize) {
        let now_us = self.core.env.now.us;
        let Some(session) = client.session.as_mut() else { return };
        let Some(kept) = session.transaction.kept.as_deref_mut() else { return };
        if let Some(run) = &mut kept.run {
            run.at = at;
        }
        let Some(said) = kept.said.get(at) else { return };
        let command = CommandSent {
            frames: said.frames.share(),
            attributes: said.attributes.clone(),
            answer_seq: said.answer_seq,
            shape: said.shape,
            purpose: said.purpose.clone(),
            begun_us: now_us,
        };
        let mut statement = Box::new(Statement::new(command, 0));
        statement.meaning.known = said.meaning.known.clone();
        statement.meaning.is_read = said.meaning.is_read;
        statement.meaning.proof = said.meaning.proof;
        statement.meaning.validity = said.meaning.validity;
        statement.prepared.stmt_id = said.stmt_id;
        statement.prepared.in_views = said.in_views;
        statement.prepared.is_own = said.is_own;
        statement.target.hostgroup = kept.hostgroup;
        statement.target.never_share = true;
        statement.target.was_lost = true;
        let digest = Digest::new(ReplyFormat::PLAIN);
        statement.beside.noted = Some(Box::new(Noted {
            digest,
            is_repeated: true,
            has_long_data: false,
            was_open: false,
        }));
        if let Some(stmt) = said.stmt_id.and_then(|stmt_id| session.prepared.get_mut(stmt_id)) {
            stmt.types = said.types.clone();
        }
        statement.stage = Stage::Returning;
        client.phase = Phase::Running(statement);
    }

    /// The next statement of a repetition goes out, or what was to run behind it.
    pub(crate) fn go_on_repeating(&mut self, client: &mut Client) {
        let (Phase::Running(statement), Some(session)) =
            (&mut client.phase, client.session.as_mut())
        else {
            return;
        };
        let Some(kept) = session.transaction.kept.as_deref_mut().filter(|kept| kept.is_running())
        else {
            return;
        };
        if statement.stage != Stage::Returning {
            return;
        }
        let conn = kept.conn;
        let is_repeated = statement.beside.noted.as_ref().is_some_and(|it| it.is_repeated);
        let has_it = session.leases.iter().any(|lease| lease.conn == conn && is_open(lease));
        if !has_it {
            return self.repeat_again(client, "its connection was given up", None);
        }
        statement.target.hostgroup = kept.hostgroup;
        if !is_repeated {
            kept.run = None;
            let deadline_ms = statement.deadline_ms;
            self.core.clients.set_timer(client, deadline_ms);
        }
        self.dispatch_to(client, conn);
    }

    /// What waits behind a repetition has run out of its time: its client is told, and the
    /// transaction goes on without it.
    #[cold]
    pub(crate) fn time_out_waiting(&mut self, client: &mut Client) {
        let now_ms = self.core.env.now.ms();
        let kept =
            client.session.as_mut().and_then(|session| session.transaction.kept.as_deref_mut());
        let run = kept.and_then(|kept| kept.run.as_mut());
        let is_late = |waiting: &mut Box<Statement>| (1..=now_ms).contains(&waiting.deadline_ms);
        let Some(waiting) = run.and_then(|run| run.waiting.take_if(is_late)) else { return };
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
        let noted = statement.beside.noted.take();
        self.retire(statement);
        let Some(session) = client.session.as_mut() else { return };
        let is_off = session.settings.state.is_autocommit_off();
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let is_in = lease.is_some_and(|lease| is_open(lease) && (lease.is_in_trans || is_off));
        let Some(kept) = session.transaction.kept.as_deref_mut() else { return };
        kept.conn = conn.id;
        let count = kept.said.len();
        let Some((at, noted)) = kept.run.as_ref().map(|run| run.at).zip(noted) else { return };
        let Some(said) = kept.said.get_mut(at) else { return };
        let told = Told::of(&noted.digest, outcome);
        let is_unchecked = has_plant!(self.core, ReplayUnchecked);
        match said.told.difference(&told).filter(|_| !is_unchecked) {
            _ if is_read_only || ends => {
                return self.repeat_again(client, "its server takes no writes", Some(conn));
            }
            _ if is_refused => {
                return self.give_up_repeating(
                    client,
                    "a statement can't be prepared again",
                    Some(conn),
                );
            }
            Some(Differs::InsertId) if !said.generates => {
                // Others have inserted meanwhile: it is given the one that its client was told.
                said.generates = true;
                self.core.drop_repeated(client, Some(conn));
                self.set_repeated(client, 0);
                return self.core.requeue(client);
            }
            Some(differs) => {
                self.core.fx.stats.counters.replays_differed += 1;
                let which = at + 1;
                let words = differs.words();
                let why = format!("statement {which} of it has another {words} there");
                return self.give_up_repeating(client, &why, Some(conn));
            }
            None if !is_in => {
                return self.give_up_repeating(client, "it does not stay open there", Some(conn));
            }
            None => {}
        }
        self.core.settle_lease(client, conn);
        if at + 1 < count {
            self.set_repeated(client, at + 1);
            return self.core.fx.wake(Wake::Repeat(client.id));
        }
        self.repeated(client, conn);
    }

    /// All of the transaction has been told the same: its session goes on.
    fn repeated(&mut self, client: &mut Client, conn: &mut Conn) {
        self.core.fx.stats.counters.replays_done += 1;
        let Some(session) = client.session.as_mut() else { return };
        session.put_back_stmts();
        let Some(kept) = session.transaction.kept.as_deref_mut() else { return };
        let Some(run) = kept.run.as_mut() else { return };
        match run.waiting.take() {
            Some(mut waiting) => {
                waiting.stage = Stage::Returning;
                client.phase = Phase::Running(waiting);
                self.core.fx.wake(Wake::Repeat(client.id));
            }
            None => {
                kept.run = None;
                self.after_statement(client, Some(conn));
            }
        }
    }

    /// A repetition has lost its connection, or has to leave it: it begins anew. `lent`: the
    /// connection that is lent, if one is.
    pub(super) fn repeat_again(&mut self, client: &mut Client, why: &str, lent: Option<&mut Conn>) {
        let attempts_max = self.core.env.snapshot.settings.transaction_replay_attempts;
        let has_ended = client
            .session
            .as_mut()
            .and_then(|session| session.transaction.kept.as_deref_mut())
            .is_none_or(|kept| {
                kept.attempts += 1;
                kept.attempts > attempts_max
            });
        if has_ended {
            return self.give_up_repeating(client, why, lent);
        }
        self.core.drop_repeated(client, lent);
        self.core.leave_queue(client);
        let phase = std::mem::replace(&mut client.phase, Phase::Idle);
        let kept =
            client.session.as_mut().and_then(|session| session.transaction.kept.as_deref_mut());
        let run = kept.and_then(|kept| kept.run.as_mut());
        if let (Phase::Running(statement), Some(run)) = (phase, run) {
            match statement.beside.noted.as_ref().is_some_and(|noted| noted.is_repeated) {
                true => self.retire(statement),
                // What was to run behind it had its turn.
                false => run.waiting = Some(statement),
            }
        }
        self.set_repeated(client, 0);
        self.core.requeue(client);
    }

    /// A repetition is given up: what it has done is undone, and its client is told. `lent`: the
    /// connection that is lent, if one is.
    pub(super) fn give_up_repeating(
        &mut self,
        client: &mut Client,
        why: &str,
        mut lent: Option<&mut Conn>,
    ) {
        if self.tell_given_up(client, why, lent.as_deref_mut()) {
            self.after_statement(client, lent);
        }
    }

    /// See [`Self::give_up_repeating`]. False when the session is over.
    pub(super) fn tell_given_up(
        &mut self,
        client: &mut Client,
        why: &str,
        mut lent: Option<&mut Conn>,
    ) -> bool {
        self.core.fx.stats.counters.replays_failed += 1;
        self.core.drop_repeated(client, lent.as_deref_mut());
        self.core.leave_queue(client);
        if let Phase::Running(statement) = std::mem::replace(&mut client.phase, Phase::Idle) {
            match statement.beside.noted.as_ref().is_some_and(|noted| noted.is_repeated) {
                true => self.retire(statement),
                false => client.phase = Phase::Running(statement),
            }
        }
        let has_sent_ahead = client.has_sent_ahead();
        let Some(session) = client.session.as_mut() else { return false };
        session.put_back_stmts();
        let run = session.transaction.kept.take().and_then(|kept| kept.run);
        session.forget_transaction();
        let (waiting, cause, insert_id) =
            run.map(|run| (run.waiting, run.cause, Some(run.insert_id))).unwrap_or_default();
        insert_id.into_iter().for_each(|before| session.put_insert_id_back(before));
        if let Some(waiting) = waiting {
            client.phase = Phase::Running(waiting);
        }
        let text = format!("{cause}, and it could not be repeated elsewhere ({why})");
        let text = format!("{text}; try restarting transaction");
        let is_asked = matches!(client.phase, Phase::Running(_));
        match (is_asked, has_sent_ahead) {
            (false, _) => {
                session.lost = Some(Lost::Transaction(text));
                true
            }
            (true, false) => {
                self.tell_of_statement(client, 1, &ErrorKind::RolledBack.says(text), lent)
            }
            (true, true) => {
                let error = ErrorKind::StateLost.says(text);
                self.tell_of_statement(client, 1, &error, lent.as_deref_mut());
                self.end_client(client, lent);
                false
            }
        }
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
        let (Phase::Running(statement), Some(session)) = (&client.phase, client.session.as_ref())
        else {
            return false;
        };
        let on_deadlock = self.core.env.snapshot.settings.transaction_replay_on_deadlock;
        let is_one = says_read_only(error)
            || ends_connection(error.code)
            || on_deadlock && LOCKED_OUT.contains(&error.code);
        let transaction = LostTransaction::on(session, conn.id);
        let may_be = is_one
            && statement.beside.noted.as_ref().is_some_and(|noted| !noted.is_repeated)
            && statement.stage == Stage::Sent(conn.id)
            && statement.ending.is_none()
            && !conn.may_be_hit()
            && is_only_answer(outcome, answer)
            && transaction.is_some_and(|it| it.undoes(session, statement));
        if !may_be || !session.can_repeat(conn.id) {
            return false;
        }
        let cause = self.core.lost_words(conn.slot, &String::from_utf8_lossy(&error.message));
        if !self.repeats(client, conn.id, &cause) {
            return false;
        }
        client.io.outbox.take_back(answer.len());
        self.core.leave_repeated(client, conn);
        true
    }
}

impl Core {
    /// The transaction that is to be repeated is left on this connection, which is closed.
    fn leave_repeated(&mut self, client: &mut Client, conn: &mut Conn) {
        if let Some(session) = client.session.as_mut() {
            session.leave(conn.id);
        }
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
