//! A transaction that is lost with its connection is repeated on another one, statement by
//! statement, and its client is told nothing: `docs/decisions/0073`.
//!
//! While a transaction is open, its session keeps what it has said ([`Kept`]) and a sum of each
//! result. Each result has to be the same the second time, or the repetition is given up. Only
//! transactions whose statements do nothing outside of it are kept.

mod digest;
pub(crate) mod fit;

use std::{cell::Cell, collections::VecDeque, rc::Rc, sync::Arc};

use trunkline_catalog::Proof;
use trunkline_pool::ConnId;
use trunkline_protocol::response::{Outcome, ResponseShape};
use trunkline_session::tracker::SessionState;
use trunkline_topology::HostgroupId;

pub(crate) use digest::Digest;
use digest::Sums;

use crate::{
    clients::client::{CommandSent, Purpose, Stage, Statement},
    clients::frames::Frames,
    prepared::{ClientStmt, ClientStmts, Contents},
    session_past::insert_id::InsertIdBefore,
    statement::analysis::Known,
    statement::proof::Validity,
};

/// Bytes that one kept statement takes beside its text.
pub(crate) const STATEMENT_COST: usize = 256;

/// What is noted of a statement whose transaction may have to be repeated, or is being.
#[derive(Debug)]
pub(crate) enum Noted {
    /// Its client has said it, and it was sent.
    First(Box<First>),
    /// It is run for the second time: nobody gets the answer.
    Again(Box<Again>),
    /// All that it was to run behind has been repeated.
    Behind(Box<Repetition>),
}

impl Noted {
    /// A part of its answer has come.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        match self {
            Self::First(first) => first.digest.take(bytes),
            Self::Again(again) => again.digest.take(bytes),
            Self::Behind(_) => {}
        }
    }

    /// The repetition of its transaction, while one is under way.
    pub(crate) fn repetition(&self) -> Option<&Repetition> {
        match self {
            Self::First(_) => None,
            Self::Again(again) => Some(&again.repetition),
            Self::Behind(repetition) => Some(repetition),
        }
    }

    /// How many statements of a repetition have run, and how many there are.
    pub(crate) fn progress(&self) -> Option<(usize, usize)> {
        let repetition = self.repetition()?;
        let done = repetition.kept.said.len();
        Some((done, done + usize::from(self.is_repeated()) + repetition.left.len()))
    }

    /// Whether it is run for the second time.
    pub(crate) fn is_repeated(&self) -> bool {
        matches!(self, Self::Again(_))
    }
}

/// What is noted of a statement while its answer comes.
#[derive(Debug)]
pub(crate) struct First {
    pub(crate) digest: Digest,
    /// Parameters of its were sent ahead of it.
    pub(crate) has_long_data: bool,
    /// A transaction was open on its connection before it.
    pub(crate) was_open: bool,
}

/// A statement that is run for the second time, and the repetition that it is a part of.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) digest: Digest,
    pub(crate) said: Said,
    pub(crate) repetition: Box<Repetition>,
}

impl Again {
    /// The repetition, in which the statement is yet to run.
    pub(crate) fn give_back(self) -> Box<Repetition> {
        let Self { said, mut repetition, .. } = self;
        repetition.left.push_front(said);
        repetition
    }
}

/// Why a transaction can't be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// A command or a kind of statement that is not repeated.
    Statement,
    /// It may do something outside of the transaction, or nobody can say what it does.
    Effects,
    /// It writes to a table without transactions.
    Engine,
    /// It reads what a statement before it left in the session.
    Past,
    /// It changes the session, or the session holds more than the transaction.
    Session,
    /// It failed so that nobody knows what is left of the transaction.
    Failed,
    /// It has a mode or level of its own, or nobody has seen it begin.
    Begin,
    /// It is longer than what is kept.
    Size,
}

impl Why {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Statement => "statement",
            Self::Effects => "effects",
            Self::Engine => "engine",
            Self::Past => "past",
            Self::Session => "session",
            Self::Failed => "failed",
            Self::Begin => "begin",
            Self::Size => "size",
        }
    }
}

/// What was told of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) sums: Sums,
    pub(crate) affected_rows: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) warnings: u16,
    pub(crate) error: Option<u16>,
}

impl Told {
    pub(crate) fn of(digest: &Digest, outcome: &Outcome) -> Self {
        Self {
            sums: digest.sums(),
            affected_rows: outcome.affected_rows,
            last_insert_id: outcome.last_insert_id,
            warnings: outcome.warnings,
            error: outcome.error.as_ref().map(|error| error.code),
        }
    }

    /// What differs, in words; `None` where nothing does.
    pub(crate) fn difference(&self, other: &Self) -> Option<Differs> {
        match () {
            () if self.error != other.error => Some(Differs::Error),
            () if !self.sums.agree(other.sums) => Some(Differs::Rows),
            () if self.affected_rows != other.affected_rows => Some(Differs::AffectedRows),
            () if self.warnings != other.warnings => Some(Differs::Warnings),
            () if self.last_insert_id != other.last_insert_id => Some(Differs::InsertId),
            () => None,
        }
    }
}

/// In what two results of one statement differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differs {
    Error,
    Rows,
    AffectedRows,
    Warnings,
    InsertId,
}

impl Differs {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Rows => "rows",
            Self::AffectedRows => "number of affected rows",
            Self::Warnings => "number of warnings",
            Self::InsertId => "insert id",
        }
    }
}

/// One statement of a transaction.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) frames: Frames,
    pub(crate) attributes: Option<Arc<[u8]>>,
    pub(crate) purpose: Purpose,
    pub(crate) shape: ResponseShape,
    pub(crate) answer_seq: u8,
    pub(crate) meaning: SaidMeaning,
    pub(crate) stmt_id: Option<u32>,
    pub(crate) in_views: Contents,
    pub(crate) is_own: bool,
    /// The types of the parameters that it is run with.
    pub(crate) types: Option<Rc<[u8]>>,
    pub(crate) told: Told,
    /// It has generated its insert id, which has to be given to it.
    pub(crate) generates: bool,
}

impl Said {
    /// A statement that has been answered, and what was told of it.
    pub(crate) fn of(statement: &Statement, types: Option<Rc<[u8]>>, told: Told) -> Self {
        Self {
            frames: statement.command.frames.share(),
            attributes: statement.command.attributes.clone(),
            purpose: statement.command.purpose.clone(),
            shape: statement.command.shape,
            answer_seq: statement.command.answer_seq,
            meaning: SaidMeaning {
                known: statement.meaning.known.clone(),
                is_read: statement.meaning.is_read,
                proof: statement.meaning.proof,
                validity: statement.meaning.validity,
            },
            stmt_id: statement.prepared.stmt_id,
            in_views: statement.prepared.in_views,
            is_own: statement.prepared.is_own,
            types,
            told,
            generates: false,
        }
    }
}

impl Said {
    /// A statement that says it once more, and looks at its connection before.
    pub(crate) fn once_more(&self, now_us: u64) -> Box<Statement> {
        let command = CommandSent {
            frames: self.frames.share(),
            attributes: self.attributes.clone(),
            answer_seq: self.answer_seq,
            shape: self.shape,
            purpose: self.purpose.clone(),
            begun_us: now_us,
        };
        let mut statement = Box::new(Statement::new(command, 0));
        statement.meaning.known = self.meaning.known.clone();
        statement.meaning.is_read = self.meaning.is_read;
        statement.meaning.proof = self.meaning.proof;
        statement.meaning.validity = self.meaning.validity;
        statement.prepared.stmt_id = self.stmt_id;
        statement.prepared.in_views = self.in_views;
        statement.prepared.is_own = self.is_own;
        statement.target.never_share = true;
        statement.target.was_lost = true;
        statement.stage = Stage::Returning;
        statement
    }
}

/// What was known of it when it was sent.
#[derive(Debug)]
pub(crate) struct SaidMeaning {
    pub(crate) known: Option<Rc<Known>>,
    pub(crate) is_read: bool,
    pub(crate) proof: Proof,
    pub(crate) validity: Option<Validity>,
}

/// An open transaction, as its client has said it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) hostgroup: HostgroupId,
    /// Where it is open.
    pub(crate) conn: ConnId,
    /// What its session was set to when it began.
    pub(crate) state: Arc<SessionState>,
    pub(crate) begun_ms: u64,
    pub(crate) said: Vec<Said>,
    /// Prepared statements of it that its client has closed since.
    pub(crate) closed: Vec<ClientStmt>,
    pub(crate) held: Held,
    /// Whether the session's last insert id is known, and one of its statements has set it.
    pub(crate) knows_id: bool,
    /// Why it can't be repeated; then nothing is kept.
    pub(crate) why_not: Option<Why>,
    /// How often it has been repeated, or begun to be.
    pub(crate) attempts: u32,
}

/// A repetition of a transaction that is under way.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// The transaction, as far as it has been repeated.
    pub(crate) kept: Box<Kept>,
    /// What is yet to run behind the statement that runs.
    pub(crate) left: VecDeque<Said>,
    /// What its client had under way, which runs behind all of it.
    pub(crate) waiting: Option<Box<Statement>>,
    /// Types of parameters of prepared statements, as they were before.
    pub(crate) types: Vec<(u32, Option<Rc<[u8]>>)>,
    /// Prepared statements that its client has closed, and that are there for it.
    pub(crate) closed: Vec<u32>,
    /// What was known of the session's last insert id before.
    pub(crate) insert_id: InsertIdBefore,
    /// Why it was begun.
    pub(crate) cause: String,
}

impl Kept {
    pub(crate) fn new(
        hostgroup: HostgroupId,
        conn: ConnId,
        state: Arc<SessionState>,
        held: Held,
        begun_ms: u64,
    ) -> Self {
        let (said, closed, why_not) = (Vec::new(), Vec::new(), None);
        let (knows_id, attempts) = (false, 0);
        Self { hostgroup, conn, state, begun_ms, said, closed, held, knows_id, why_not, attempts }
    }

    /// Whether it can be repeated where it is lost with this connection, as far as is known, with
    /// these prepared statements.
    pub(crate) fn can_repeat(&self, conn: ConnId, stmts: &ClientStmts) -> bool {
        // Parts of parameters that have come are meant for the next execution.
        let has_long = |stmt_id| stmts.get(stmt_id).is_some_and(|stmt| stmt.long.is_some());
        self.conn == conn
            && self.why_not.is_none()
            && !self.said.is_empty()
            && !self.said.iter().filter_map(|said| said.stmt_id).any(has_long)
    }

    pub(crate) fn refuse(&mut self, why: Why) {
        self.why_not = Some(why);
        (self.said, self.closed) = (Vec::new(), Vec::new());
        self.held.set(0);
    }

    /// Whether a prepared statement is needed to repeat it.
    pub(crate) fn needs(&self, stmt_id: u32) -> bool {
        self.said.iter().any(|said| said.stmt_id == Some(stmt_id))
    }
}

impl Repetition {
    /// All of its statements are yet to run.
    pub(crate) fn rewind(&mut self) {
        self.kept.said.extend(self.left.drain(..));
        self.left = std::mem::take(&mut self.kept.said).into();
    }
}

/// Bytes that a worker's sessions keep in all, and one's part of them.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) all: Rc<Cell<usize>>,
    pub(crate) len: usize,
}

impl Held {
    pub(crate) fn set(&mut self, len: usize) {
        self.all.set((self.all.get() + len).saturating_sub(self.len));
        self.len = len;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}
