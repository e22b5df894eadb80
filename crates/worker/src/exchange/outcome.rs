//! A connection is lost between a `COMMIT`, or a write in autocommit, and its answer: it is found
//! out whether that was carried out, and its client is told the truth (decision 0063).
//!
//! Nothing is executed again here. A `COMMIT` that was certainly not carried out may be followed by
//! a repetition of its transaction, where that is wanted.

use std::sync::Arc;

use trunkline_pool::{ConnId, SlotId};
use trunkline_protocol::{
    command::code,
    error::ErrorKind,
    packet::{greeting::Flavor, ok::OkPacket},
    response,
};
use trunkline_sql::analysis::{Analysis, StatementKind, TransactionEffect};
use trunkline_topology::outcome::{CommitMark, Outcome, Unknown};

use crate::{
    Action, ClientId, OutcomeAsk, OutcomeFound,
    clients::client::{Awaits, Client, Phase, Purpose, Session, Stage, Statement},
    exchange::{lost::Loss, send::LOST},
    replay::Kept,
    rooms::{Core, Exchange, Lender},
    routing::route::Route,
    servers::{conn::Conn, marks::keeps_rows},
};

/// How much longer than the control plane a client waits, ms.
const PATIENCE_MS: u64 = 1_000;
/// Where the code of a command is in its frames.
const CODE_AT: usize = 4;

/// What was lost with a connection that had a mark.
#[derive(Debug)]
pub(super) struct LostMark {
    mark: Option<Box<CommitMark>>,
    thread: u32,
    age_ms: u64,
    flavor: Flavor,
}

/// What a client was waiting for when its connection was lost.
#[derive(Debug)]
pub(crate) struct Doubt {
    /// The number of the question.
    ticket: u64,
    is_commit: bool,
    conn: ConnId,
    slot: SlotId,
    /// The number of the packet that answers it.
    seq: u8,
    had_state: bool,
    written: u64,
    begun: bool,
    /// What it is told where nobody knows.
    text: String,
    /// Why the connection was lost.
    reason: String,
    /// What can be repeated, if it was not carried out.
    kept: Option<Box<Kept>>,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sought {
    /// A `COMMIT`.
    Commit,
    /// One write in autocommit.
    Write,
}

impl Sought {
    /// `None` for what may have committed more than one transaction, or does more.
    fn of(analysis: &Analysis) -> Option<Self> {
        use StatementKind as Kind;
        let is_one = analysis.statements == 1 && analysis.is_complete && !analysis.is_cut;
        match analysis.transaction {
            TransactionEffect::Commit { chain: false, release } if release != Some(true) => {
                is_one.then_some(Self::Commit)
            }
            TransactionEffect::None if is_one && analysis.effects.is_empty() => {
                let is_write = matches!(
                    analysis.kind,
                    Kind::Insert | Kind::Update | Kind::Delete | Kind::Replace
                );
                is_write.then_some(Self::Write)
            }
            TransactionEffect::None
            | TransactionEffect::Begin { .. }
            | TransactionEffect::Commit { .. }
            | TransactionEffect::Rollback { .. }
            | TransactionEffect::ImplicitCommit
            | TransactionEffect::SetAutocommit(_) => None,
        }
    }
}

/// What a statement is that its session has lost, if that can be looked for.
fn sought(session: &Session, statement: &Statement, had: Had) -> Option<Sought> {
    let code = statement.command.frames.get(CODE_AT).copied();
    let is_one = match statement.command.purpose {
        Purpose::Query => code == Some(code::QUERY),
        // One of many rows may commit each of them.
        Purpose::Execute => code == Some(code::STMT_EXECUTE),
        _ => false,
    };
    let ends_otherwise = session.settings.state.variable("completion_type").is_some();
    // The first one of a transaction whose `BEGIN` went out with it is none in autocommit.
    let is_first = session.settings.begun.is_some();
    let is_plain = is_one && !ends_otherwise && !is_first;
    let known = statement.meaning.known.as_ref().filter(|_| is_plain)?;
    match (Sought::of(&known.analysis)?, had) {
        (Sought::Commit, Had::Transaction) => Some(Sought::Commit),
        // A part of its rows may be there, and logged.
        (Sought::Write, _) if keeps_rows(statement) => None,
        (Sought::Write, Had::Nothing) if !session.settings.state.is_autocommit_off() => {
            Some(Sought::Write)
        }
        (Sought::Commit | Sought::Write, _) => None,
    }
}

/// Whether a statement may commit something, as far as its kind says.
fn commits(statement: &Statement) -> bool {
    let begins = |transaction| {
        matches!(transaction, TransactionEffect::Begin { .. } | TransactionEffect::Rollback { .. })
    };
    let known = statement.meaning.known.as_ref();
    !known.is_some_and(|known| known.analysis.statements == 1 && begins(known.analysis.transaction))
}

/// What a session had on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Had {
    /// Nothing that it needs.
    Nothing,
    /// A transaction, and nothing else.
    Transaction,
    /// More than that.
    More,
}

impl Core {
    /// What is known of a connection that is lost. It has no mark from then on.
    pub(super) fn take_lost_mark(&self, conn: &mut Conn, statements: usize) -> Option<LostMark> {
        // One that runs nothing gives its mark back.
        if !self.env.snapshot.finds_outcomes || statements != 1 {
            return None;
        }
        let age_us = self.env.now.us.saturating_sub(conn.login.login_us);
        Some(LostMark {
            mark: conn.take_mark(),
            thread: conn.server.identity.as_ref()?.greeting.connection_id,
            age_ms: age_us / 1_000,
            flavor: conn.server.flavor,
        })
    }

    /// What is asked of a lost connection; or why nobody can say it.
    fn outcome_ask(
        &mut self,
        client: ClientId,
        session: &Session,
        loss: &mut Loss,
    ) -> Result<OutcomeAsk, Unknown> {
        let Some(LostMark { mark: Some(mark), thread, age_ms, flavor }) = loss.lost_mark.take()
        else {
            return Err(Unknown::NoMark);
        };
        if mark.is_in_doubt() {
            return Err(Unknown::Doubt);
        }
        let key = self.servers.logins.accounts.key(session.login.account);
        let server = self.servers.pool.slot(loss.slot).map(|slot| Arc::clone(&slot.server));
        let (key, server) = key.zip(server).ok_or(Unknown::NoMark)?;
        Ok(OutcomeAsk {
            client,
            ticket: self.servers.logins.marks.next_ticket(),
            server,
            thread,
            age_ms,
            flavor,
            mark: *mark,
            user: key.server_user().to_owned(),
            credential: self.credential_of(session, key),
            time_max_ms: self.env.snapshot.settings.commit_outcome_timeout,
        })
    }

    fn count_unknown(&mut self, why: Unknown) {
        let counters = &mut self.fx.stats.counters;
        *match why {
            Unknown::NoMark => &mut counters.commit_outcomes_unmarked,
            Unknown::Statement => &mut counters.commit_outcomes_statement,
            Unknown::Doubt => &mut counters.commit_outcomes_doubt,
            Unknown::Rights => &mut counters.commit_outcomes_rights,
            Unknown::NotLogged => &mut counters.commit_outcomes_unlogged,
            Unknown::History => &mut counters.commit_outcomes_history,
            Unknown::Time => &mut counters.commit_outcomes_time,
            Unknown::Unacknowledged => &mut counters.commit_outcomes_unacknowledged,
            Unknown::Busy => &mut counters.commit_outcomes_busy,
        } += 1;
    }
}

impl Client {
    /// Whether it waits to be told what became of its `COMMIT`.
    pub(crate) fn awaits_outcome(&self) -> bool {
        matches!(&self.phase, Phase::Running(statement)
            if matches!(&statement.stage, Stage::Held(held) if held.awaits == Awaits::Outcome))
    }
}

impl Exchange {
    /// Has it found out what became of the statement that a client has lost with a connection.
    /// False where it can't be, and its client is to be told that the connection was lost.
    pub(super) fn finds_out(
        &mut self,
        client: &mut Client,
        loss: &mut Loss,
        had: Had,
        (text, reason): (&str, &str),
        kept: &mut Option<Box<Kept>>,
    ) -> bool {
        let Some((statement, session)) = client.running() else { return false };
        let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        let is_wanted = is_run
            && !statement.meaning.is_read
            && !client.is_mirror
            && self.core.env.wants_outcome(session);
        // In the middle of a packet nothing but the end can follow.
        let Some(seq) = loss.break_off_seq.filter(|_| is_wanted) else { return false };
        let Some(sought) = sought(session, statement, had) else {
            let (catalog, now_ms) = (self.core.env.shared.catalog(), self.core.env.now.ms());
            if commits(statement) && !statement.may_be_sent_twice(catalog, now_ms) {
                self.core.count_unknown(Unknown::Statement);
            }
            return false;
        };
        let ask = match self.core.outcome_ask(client.id, session, loss) {
            Ok(ask) => ask,
            Err(why) => {
                self.core.count_unknown(why);
                return false;
            }
        };
        let until_ms = self.core.env.now.ms() + ask.time_max_ms + PATIENCE_MS;
        let doubt = Doubt {
            ticket: ask.ticket,
            is_commit: sought == Sought::Commit,
            conn: loss.conn,
            slot: loss.slot,
            seq,
            had_state: had != Had::Nothing,
            written: loss.written,
            begun: loss.begun,
            text: text.to_owned(),
            reason: reason.to_owned(),
            kept: kept.take(),
        };
        let hostgroup = self.core.hostgroup_of(loss.slot);
        self.core.servers.logins.marks.doubts.insert(client.id, doubt);
        if let Phase::Running(statement) = &mut client.phase {
            statement.deadline_ms = 0;
            statement.stage = Stage::held(Awaits::Outcome, Route::Lease(hostgroup, loss.conn), 0);
        }
        self.core.clients.set_timer(client, until_ms);
        self.core.fx.act(Action::FindOutcome(Box::new(ask)));
        if has_plant!(self.core, CommitGuessed) {
            self.tell_outcome(client, Outcome::Committed);
        }
        true
    }

    /// A client's timer has run out while it waited for what became of its `COMMIT`. False where it
    /// waits for something else.
    #[cold]
    pub(crate) fn gives_up_outcome(&mut self, client: &mut Client) -> bool {
        let is_it = client.awaits_outcome();
        if is_it {
            self.tell_outcome(client, Outcome::Unknown(Unknown::Time));
        }
        is_it
    }

    /// See [`Worker::outcome_found`](crate::Worker::outcome_found).
    pub(crate) fn on_outcome_found(&mut self, id: ClientId, found: OutcomeFound) {
        if let Some(mark) = found.mark {
            self.core.servers.logins.marks.settled(&found.server, mark);
        }
        let told = self.with_client(id, |exchange, client| {
            // What comes too late is not about what it waits for now.
            let doubt = exchange.core.servers.logins.marks.doubts.get(&client.id);
            let is_its = doubt.is_some_and(|doubt| doubt.ticket == found.ticket);
            if client.awaits_outcome() && is_its {
                exchange.tell_outcome(client, found.outcome);
            }
        });
        if told.is_none() {
            // Nobody waits any more.
            self.core.servers.logins.marks.doubts.remove(&id);
        }
    }

    /// Tells a client what became of its statement.
    fn tell_outcome(&mut self, client: &mut Client, outcome: Outcome) {
        let Some(doubt) = self.core.servers.logins.marks.doubts.remove(&client.id) else { return };
        self.core.clients.set_timer(client, 0);
        match outcome {
            Outcome::Committed => self.tell_committed(client, doubt),
            Outcome::NotCommitted => self.tell_not_committed(client, doubt),
            Outcome::Unknown(why) => {
                self.core.count_unknown(why);
                self.tell_unknown(client, doubt, why);
            }
        }
    }

    fn tell_committed(&mut self, client: &mut Client, doubt: Doubt) {
        self.core.fx.stats.counters.commit_outcomes_committed += 1;
        let session = &mut *client.session;
        let hostgroup = self.core.hostgroup_of(doubt.slot);
        self.core.doubt_written(session, hostgroup);
        session.settings.own_writes.end(self.core.env.now.us);
        session.forget_transaction();
        if !doubt.is_commit {
            // Nobody knows how many rows it has changed, and OK would say so.
            let text = format!(
                "{LOST} ({}); the statement was carried out, but what the server said of it is lost",
                doubt.reason
            );
            return self.fail_statement_numbered(
                client,
                doubt.seq,
                ErrorKind::ConnectionLost.says(text),
                None,
            );
        }
        session.last_conn = None;
        let silent = response::Outcome::default();
        let Some(statement) = client.front.phase.take_statement() else { return };
        session.past.learn(&statement, &silent, session.flavor(), None, false);
        self.sample(client, &statement, Some(doubt.slot.index()), None, None);
        self.core.write_ok(client, doubt.seq, OkPacket::default());
        self.retire(statement);
        self.after_statement(client, None);
    }

    fn tell_not_committed(&mut self, client: &mut Client, doubt: Doubt) {
        self.core.fx.stats.counters.commit_outcomes_undone += 1;
        let Doubt { is_commit, conn, slot, seq, reason, mut kept, .. } = doubt;
        if is_commit {
            let cause = self.core.lost_words(slot, &reason);
            if self.repeats_left(client, &mut kept, conn, &cause) {
                return;
            }
        }
        let has_sent_ahead = client.has_sent_ahead();
        let session = &mut *client.session;
        session.forget_transaction();
        let text = match is_commit {
            true => self.core.rolled_back_text(slot, &reason),
            false => format!("{LOST} ({reason}); the statement was not carried out, try again"),
        };
        let error = ErrorKind::RolledBack.says(text);
        if has_sent_ahead {
            // That was meant for a session in which it has run.
            self.tell_failure(client, seq, &error, None);
            return self.close_client(client);
        }
        self.fail_statement_numbered(client, seq, error, None);
    }

    fn tell_unknown(&mut self, client: &mut Client, doubt: Doubt, why: Unknown) {
        let text =
            format!("{}; nobody knows whether it was carried out: {}", doubt.text, why.words());
        let loss = Loss {
            conn: doubt.conn,
            slot: doubt.slot,
            begun: doubt.begun,
            break_off_seq: Some(doubt.seq),
            written: doubt.written,
            lost_mark: None,
        };
        self.lose_statement(client, &loss, (doubt.had_state, true), text);
    }
}

#[cfg(test)]
mod tests;
