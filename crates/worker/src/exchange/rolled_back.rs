//! A transaction goes with its connection, and its session goes on.
//!
//! A server rolls back what is open on a connection that ends. So a transaction whose end was not
//! sent is certainly not committed, and its client is told so with the error of a deadlock, behind
//! which programs begin their transaction again.

use trunkline_pool::{ConnId, SlotId};
use trunkline_protocol::{
    command::code,
    error::{ClientError, ErrorKind},
    packet::status,
    response::Outcome,
};
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_sql::analysis::{Analysis, Effect, StatementKind, TransactionEffect};

use crate::{
    clients::client::{Client, Lease, Purpose, Session, SessionTransaction, Standing, Statement},
    exchange::lost::Loss,
    rooms::{Core, Exchange},
};

/// What the loss of a connection costs a session that is held there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// Nothing that it needs.
    Nothing,
    /// Its transaction: the client is told (1213), and the session goes on.
    Transaction,
    /// What can't be had again: the client is told (2013), and the session ends.
    Session,
}

/// What the loss costs a session that is held for this reason.
const fn cost_of(reason: PinReason) -> Cost {
    use PinReason as Pin;
    match reason {
        // Who asks for them is told that they were lost.
        Pin::Warnings => Cost::Nothing,
        Pin::Transaction => Cost::Transaction,
        Pin::NextTransaction
        | Pin::TemporaryTable
        | Pin::TableLock
        | Pin::NamedLock
        | Pin::UserVariable
        | Pin::Cursor
        | Pin::SqlPreparedStatement
        | Pin::Handler
        | Pin::FoundRows
        | Pin::UnknownVariable
        | Pin::ServerState
        | Pin::Other
        | Pin::Routine
        | Pin::Xa
        | Pin::Role
        | Pin::BackupLock
        | Pin::Connection
        | Pin::Rule
        | Pin::Sequence
        | Pin::UnknownName => Cost::Session,
    }
}

/// What the loss costs a session that is held for all of these.
fn cost(pins: &Pins) -> Cost {
    let costs = pins.reasons().map(cost_of);
    costs.fold(Cost::Nothing, |most, cost| match (most, cost) {
        (Cost::Session, _) | (_, Cost::Session) => Cost::Session,
        (Cost::Transaction, _) | (_, Cost::Transaction) => Cost::Transaction,
        (Cost::Nothing, Cost::Nothing) => Cost::Nothing,
    })
}

/// What a session has lost, until its client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// More than a transaction: its session ends.
    Session(String),
    /// A transaction: its session goes on.
    Transaction(String),
}

impl Lost {
    /// What the client is told where its session ends with it.
    pub(crate) fn into_end(self) -> ClientError {
        match self {
            Self::Session(text) | Self::Transaction(text) => ErrorKind::StateLost.says(text),
        }
    }
}

/// A transaction that is lost with a connection, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostTransaction {
    /// What runs there is certainly part of it: a server has said that it is open and has reported
    /// no error since, or there is no autocommit.
    is_open: bool,
}

impl LostTransaction {
    /// What of a session is lost with this connection, if that is a transaction and nothing else.
    pub(super) fn on(session: &Session, conn: ConnId) -> Option<Self> {
        let lease = session.leases.iter().find(|lease| lease.conn == conn)?;
        let has_more = |other: &Lease| {
            other.conn != conn && (other.is_in_trans || other.pins.has(PinReason::Transaction))
        };
        // What a transaction of another server's is worth without this one, nobody can say.
        let is_whole = !session.leases.iter().any(has_more);
        // The next one has the same mode or level, where a server ends it by itself.
        let is_plain = !lease.begun_apart && !lease.is_left;
        let is_off = session.settings.state.is_autocommit_off()
            && session.settings.status & status::AUTOCOMMIT == 0;
        // Behind the error of a deadlock programs run all of it again.
        let is_uncommitted = lease.standing != Standing::MayBeCommitted;
        let is_open = is_off || lease.is_in_trans && lease.standing == Standing::Open;
        (cost(&lease.pins) == Cost::Transaction && is_whole && is_plain && is_uncommitted)
            .then_some(Self { is_open })
    }

    /// Whether a statement that was sent there has ended nothing: it is undone with the rest.
    pub(super) fn undoes(self, session: &Session, statement: &Statement) -> bool {
        let is_run = match statement.command.purpose {
            Purpose::Query | Purpose::Execute => self.is_open,
            Purpose::Prepare => return true,
            _ => false,
        };
        let ends_otherwise = || session.settings.state.variable("completion_type").is_some();
        let known = statement.meaning.known.as_ref().filter(|_| is_run);
        known.is_some_and(|known| stays_inside(&known.analysis) && !ends_otherwise())
    }
}

impl Standing {
    /// Behind a reply to a statement that was run. `is_off`: autocommit is off, so that a
    /// transaction which is open may have begun behind the one before.
    pub(super) fn behind(
        self,
        outcome: &Outcome,
        analysis: Option<&Analysis>,
        is_off: bool,
    ) -> Self {
        let is_told_open = outcome.status.map(|flags| flags & status::IN_TRANS != 0);
        match (&outcome.error, is_told_open, self) {
            (Some(error), _, _) if may_have_committed_before(analysis, error.code) => {
                Self::MayBeCommitted
            }
            (Some(_), _, Self::MayBeCommitted) => Self::MayBeCommitted,
            (Some(_), _, _) => Self::Unsure,
            (None, None, before) => before,
            (None, Some(true), Self::MayBeCommitted) if is_off => Self::MayBeCommitted,
            (None, Some(true), _) => Self::Open,
            (None, Some(false), _) => Self::Unsure,
        }
    }
}

/// Whether a statement that failed with this error may have committed what was open before it:
/// servers do, before they look whether they can carry DDL out. Nothing of one that can't be parsed
/// is done.
fn may_have_committed_before(analysis: Option<&Analysis>, error: u16) -> bool {
    const NOT_PARSED: u16 = 1064;
    let Some(analysis) = analysis else { return true };
    let is_called = |effect: &Effect| matches!(effect, Effect::ExecuteStatement(_) | Effect::Call);
    let is_unknown = analysis.kind == StatementKind::Unknown;
    let may_commit =
        is_unknown || analysis.ends_transaction() || analysis.effects.iter().any(is_called);
    !analysis.is_one_whole_statement() || may_commit && error != NOT_PARSED
}

/// Whether a text certainly commits nothing and begins nothing else, whatever it does besides.
fn stays_inside(analysis: &Analysis) -> bool {
    use StatementKind as Kind;
    let is_of_kind = analysis.kind.handles_rows()
        || matches!(
            analysis.kind,
            Kind::Show
                | Kind::Rollback
                | Kind::RollbackSavepoint
                | Kind::Savepoint
                | Kind::ReleaseSavepoint
        );
    let ends_nothing = match analysis.transaction {
        TransactionEffect::None => true,
        TransactionEffect::Rollback { chain, release } => !chain && release != Some(true),
        TransactionEffect::Begin { .. }
        | TransactionEffect::Commit { .. }
        | TransactionEffect::ImplicitCommit
        | TransactionEffect::SetAutocommit(_) => false,
    };
    let does_more = analysis.effects.iter().any(|effect| !matches!(effect, Effect::Savepoint));
    analysis.is_one_whole_statement() && is_of_kind && ends_nothing && !does_more
}

impl Session {
    /// Its transaction is over, without an answer that says so.
    pub(super) fn forget_transaction(&mut self) {
        self.settings.status &= !(status::IN_TRANS | status::IN_TRANS_READONLY);
        self.transaction = SessionTransaction::default();
    }
}

impl Core {
    /// What the client is told of a transaction that its server has rolled back with the
    /// connection.
    pub(super) fn rolled_back_text(&mut self, slot: SlotId, reason: &str) -> String {
        self.fx.stats.counters.transactions_rolled_back += 1;
        format!("{}; try restarting transaction", self.lost_words(slot, reason))
    }

    /// That a transaction is lost with its connection, and why.
    pub(super) fn lost_words(&self, slot: SlotId, reason: &str) -> String {
        let slot = self.servers.pool.slot(slot);
        let server = slot.map(|slot| slot.server.key.address.to_string()).unwrap_or_default();
        format!(
            "the transaction was rolled back, as its connection to {server} was lost ({reason})"
        )
    }
}

impl Exchange {
    /// A client's statement has gone with the transaction that it was part of.
    pub(super) fn fail_rolled_back(&mut self, client: &mut Client, loss: &Loss, reason: &str) {
        let Some(seq) = loss.break_off_seq else {
            // The client is in the middle of a packet: nothing but the end can follow.
            return self.close_client(client);
        };
        client.session.forget_transaction();
        let text = self.core.rolled_back_text(loss.slot, reason);
        self.fail_statement_numbered(client, seq, ErrorKind::RolledBack.says(text), None);
    }

    /// Answers a command with what its session has lost before it. False where it has lost nothing,
    /// or the command means the same without that.
    #[cold]
    pub(crate) fn tells_loss(&mut self, client: &mut Client, payload: &[u8]) -> bool {
        // What was sent ahead is meant for the transaction.
        let is_alone = !client.has_sent_ahead();
        let session = &mut *client.session;
        let without = does_without(payload).filter(|_| is_alone);
        match (session.lost.take(), without) {
            (None, _) => return false,
            (Some(Lost::Transaction(_)), Some(Without::Forgets)) => return false,
            (lost @ Some(Lost::Transaction(_)), Some(Without::TellsLater)) => {
                session.lost = lost;
                return false;
            }
            (Some(Lost::Transaction(text)), None) if is_alone => {
                // Parts of parameters are dropped behind an execution that fails.
                if let [code::STMT_EXECUTE, a, b, c, d, ..] = *payload
                    && let Some(stmt_id) =
                        session.prepared.resolve(u32::from_le_bytes([a, b, c, d]))
                {
                    session.prepared.drop_long_data(stmt_id);
                }
                self.core.answer_error(client, ErrorKind::RolledBack.says(text));
            }
            (Some(lost), _) => self.refuse(client, 1, lost.into_end()),
        }
        true
    }
}

/// Whether a command means the same without the transaction that was lost before it, so that its
/// client need not hear of that: it asks whether the proxy is there, or undoes what is undone.
fn does_without(payload: &[u8]) -> Option<Without> {
    match payload.split_first()? {
        (&code::PING, _) => Some(Without::TellsLater),
        (&(code::CHANGE_USER | code::RESET_CONNECTION), _) => Some(Without::Forgets),
        (&code::QUERY, body) if body.len() <= ROLLBACK_LEN_MAX => {
            let text = body.strip_prefix(&[0, 1]).unwrap_or(body).trim_ascii();
            let text = text.strip_suffix(b";").unwrap_or(text).trim_ascii_end();
            text.eq_ignore_ascii_case(b"ROLLBACK").then_some(Without::Forgets)
        }
        _ => None,
    }
}

/// A longer text is not looked at: it is no `ROLLBACK`, bytes.
const ROLLBACK_LEN_MAX: usize = 1_024;

/// When a client is told of its lost transaction, if not now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    /// With the next command.
    TellsLater,
    /// Never: the command rolls it back.
    Forgets,
}

#[cfg(test)]
mod tests;
