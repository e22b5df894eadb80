//! What statements leave behind.

use crate::set::{Assignment, TransactionSetting};

/// What a statement leaves behind in the session of the server that runs it.
///
/// Names are as written, without quotes. That a statement has an effect does not mean that it
/// succeeds; what it would leave behind counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// `CREATE TEMPORARY TABLE` (or MariaDB's temporary sequence).
    CreateTemporaryTable(TableName),
    /// `DROP [TEMPORARY] TABLE`. Without the keyword temporary tables are dropped as well.
    DropTable {
        /// What is dropped.
        names: Vec<TableName>,
        /// Whether only temporary tables are.
        temporary: bool,
    },
    /// `LOCK TABLES`.
    LockTables,
    /// `UNLOCK TABLES`; ends `FLUSH … WITH READ LOCK` too.
    UnlockTables,
    /// `FLUSH TABLES … WITH READ LOCK` or `… FOR EXPORT`.
    FlushWithReadLock,
    /// `GET_LOCK()`, with the lock's name as written where the call certainly happens once and
    /// the name is a plain literal.
    GetLock(Option<Vec<u8>>),
    /// `RELEASE_LOCK()` likewise. Without a name it may release a lock, or none.
    ReleaseLock(Option<Vec<u8>>),
    /// `RELEASE_ALL_LOCKS()`, where the call certainly happens.
    ReleaseAllLocks,
    /// A user variable gets a value other than by an item of `SET`: by `:=`, with its name in
    /// lower case; by `INTO @x`, as an argument of `CALL` and so on, without.
    UserVariableAssigned(Option<Vec<u8>>),
    /// `LAST_INSERT_ID(expression)` gives a value to later `LAST_INSERT_ID()`.
    LastInsertIdAssigned,
    /// A sequence gives its next value: `NEXTVAL()`, `NEXT VALUE FOR`, `sequence.NEXTVAL`, perhaps
    /// MariaDB's `DEFAULT(column)`. The connection keeps the value for `LASTVAL()`. `SETVAL()`
    /// leaves nothing of the kind.
    SequenceAdvanced,
    /// `PREPARE name FROM …`.
    PrepareStatement {
        /// The statement's name.
        name: Vec<u8>,
        /// Whether what it does is not visible here, or leaves something behind.
        is_opaque: bool,
    },
    /// `DEALLOCATE PREPARE name` or `DROP PREPARE name`.
    DeallocateStatement(Vec<u8>),
    /// `EXECUTE name`. What the prepared text leaves behind is not visible here.
    ExecuteStatement(Vec<u8>),
    /// `HANDLER … OPEN`; the alias if there is one.
    HandlerOpen(Vec<u8>),
    /// `HANDLER … CLOSE`.
    HandlerClose(Vec<u8>),
    /// `SQL_CALC_FOUND_ROWS`.
    CalcFoundRows,
    /// `USE schema`.
    UseSchema(Vec<u8>),
    /// `SET` of variables, user variables and character sets, in order.
    Set(Vec<Assignment>),
    /// `SET [scope] TRANSACTION …`.
    SetTransaction(TransactionSetting),
    /// `SET ROLE …`.
    SetRole,
    /// `SET RESOURCE GROUP …`.
    SetResourceGroup,
    /// A lock for a backup is taken: `BACKUP STAGE`, `BACKUP LOCK`, `LOCK INSTANCE FOR BACKUP`.
    BackupLock(BackupLock),
    /// Such a lock is given back.
    BackupUnlock(BackupLock),
    /// `CREATE DATABASE` or `ALTER DATABASE`: connections keep a schema's defaults as they were
    /// when they chose it.
    SchemaDefined,
    /// Rights, roles or accounts change: servers apply default roles at the login, and rights on a
    /// schema when it is chosen.
    AccountsDefined,
    /// `SET PASSWORD …`.
    SetPassword,
    /// A `SET` that was not understood.
    SetUnparsable,
    /// `SAVEPOINT …`.
    Savepoint,
    /// A step of an XA transaction.
    Xa(XaStep),
    /// `CALL`. What the procedure leaves behind is not visible in the text.
    Call,
    /// `LOAD DATA` or `LOAD XML`.
    LoadData {
        /// Whether the server asks the client for the file.
        local: bool,
    },
    /// `KILL`, with the number that the client knows connections by.
    Kill {
        /// What is ended.
        target: KillTarget,
        /// Whose.
        id: KillId,
    },
    /// A transaction effect of one of several statements, at its place among the other effects.
    Transaction(TransactionEffect),
    /// Something else that stays in the session, in words for an operator.
    OtherSession(&'static str),
}

impl Effect {
    /// About how much memory it takes, in bytes.
    fn held(&self) -> usize {
        let beside = match self {
            Self::Set(assignments) => assignments.iter().map(Assignment::held).sum(),
            Self::DropTable { names, .. } => names.iter().map(TableName::held).sum(),
            Self::CreateTemporaryTable(name) => name.held(),
            Self::GetLock(Some(name))
            | Self::ReleaseLock(Some(name))
            | Self::UserVariableAssigned(Some(name))
            | Self::PrepareStatement { name, .. }
            | Self::DeallocateStatement(name)
            | Self::ExecuteStatement(name)
            | Self::HandlerOpen(name)
            | Self::HandlerClose(name)
            | Self::UseSchema(name) => held(name),
            _ => 0,
        };
        size_of::<Self>() + beside
    }

    /// Whether statements behind it may be read otherwise: with other quotes, or other characters.
    pub(super) fn changes_reading(&self) -> bool {
        match self {
            Self::Set(assignments) => assignments.iter().any(|assignment| match assignment {
                Assignment::Variable { name, .. } => {
                    matches!(&**name, b"sql_mode" | b"character_set_client")
                }
                Assignment::Names { .. } | Assignment::CharacterSet { .. } => true,
                Assignment::Transaction(_)
                | Assignment::Password
                | Assignment::Role
                | Assignment::DefaultRole
                | Assignment::ResourceGroup => false,
            }),
            Self::SetUnparsable | Self::Call | Self::ExecuteStatement(_) => true,
            _ => false,
        }
    }

    /// Whether names behind it in the text may stand for something else.
    pub(super) fn moves_names(&self) -> bool {
        self.changes_reading() || matches!(self, Self::UseSchema(_) | Self::OtherSession(_))
    }

    /// Whether it ends what an earlier statement has left behind, or says where the session stands
    /// from now on, so that believing in it is wrong where it may not have happened.
    pub(super) fn ends_something(&self) -> bool {
        match self {
            Self::DropTable { .. }
            | Self::UnlockTables
            | Self::ReleaseLock(_)
            | Self::ReleaseAllLocks
            | Self::DeallocateStatement(_)
            | Self::HandlerClose(_)
            | Self::UseSchema(_)
            | Self::BackupUnlock(_)
            | Self::Xa(XaStep::Commit | XaStep::Rollback)
            | Self::Transaction(_) => true,
            Self::CreateTemporaryTable(_)
            | Self::LockTables
            | Self::FlushWithReadLock
            | Self::GetLock(_)
            | Self::UserVariableAssigned(_)
            | Self::LastInsertIdAssigned
            | Self::SequenceAdvanced
            | Self::PrepareStatement { .. }
            | Self::ExecuteStatement(_)
            | Self::HandlerOpen(_)
            | Self::CalcFoundRows
            | Self::Set(_)
            | Self::SetTransaction(_)
            | Self::SetRole
            | Self::SetResourceGroup
            | Self::BackupLock(_)
            | Self::SchemaDefined
            | Self::AccountsDefined
            | Self::SetPassword
            | Self::SetUnparsable
            | Self::Savepoint
            | Self::Xa(_)
            | Self::Call
            | Self::LoadData { .. }
            | Self::Kill { .. }
            | Self::OtherSession(_) => false,
        }
    }
}

/// The most effects of one text that are kept, each variable that a `SET` sets and each table that
/// a `DROP` names counted as one. A text with more is [cut](super::Analysis::is_cut).
pub const EFFECTS_MAX: usize = 100_000;

/// Effects in the making. A text may name one with every other byte, so there is an end to it.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) list: Vec<Effect>,
    /// How many more are kept.
    room: usize,
    /// There were more than are kept.
    pub(super) is_cut: bool,
}

impl Effects {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), room: EFFECTS_MAX, is_cut: false }
    }

    /// Those from `place` on.
    pub(super) fn since(&self, place: usize) -> &[Effect] {
        self.list.get(place..).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// How many more are kept.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Takes room for so many; false when there is not enough of it.
    pub(super) fn take_room(&mut self, count: usize) -> bool {
        let room = self.room.checked_sub(count);
        self.is_cut |= room.is_none();
        self.room = room.unwrap_or(self.room);
        room.is_some()
    }

    pub(super) fn push(&mut self, effect: Effect) {
        if self.take_room(1) {
            self.list.push(effect);
        }
    }

    pub(super) fn extend(&mut self, effects: impl IntoIterator<Item = Effect>) {
        effects.into_iter().for_each(|effect| self.push(effect));
    }

    /// Forgets those from `place` on.
    pub(super) fn truncate(&mut self, place: usize) {
        self.room += self.list.len().saturating_sub(place);
        self.list.truncate(place);
    }

    /// Puts a statement's transaction effect before its other effects, at `place`.
    pub(super) fn name_transaction(&mut self, place: usize, transaction: TransactionEffect) {
        if transaction != TransactionEffect::None && self.take_room(1) {
            self.list.insert(place, Effect::Transaction(transaction));
        }
    }
}

/// A table's name, perhaps with its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    /// The schema, if it is written.
    pub schema: Option<Vec<u8>>,
    /// The table.
    pub table: Vec<u8>,
}

impl TableName {
    /// About how much memory it takes, in bytes.
    pub(super) fn held(&self) -> usize {
        size_of::<Self>() + held(&self.table) + self.schema.as_ref().map_or(0, |it| held(it))
    }
}

/// What a text of its own takes, with what the allocator adds.
pub(super) fn held(text: &[u8]) -> usize {
    text.len() + 16
}

/// What effects take, in bytes.
pub(super) fn held_by(effects: &[Effect]) -> usize {
    effects.iter().map(Effect::held).sum()
}

/// Locks that a backup takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackupLock {
    /// `BACKUP STAGE START` to `BACKUP STAGE END` (MariaDB).
    Stage,
    /// `BACKUP LOCK table` to `BACKUP UNLOCK` (MariaDB).
    Table,
    /// `LOCK INSTANCE FOR BACKUP` to `UNLOCK INSTANCE` (MySQL).
    Instance,
}

impl BackupLock {
    /// The lock in one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Table => "table",
            Self::Instance => "instance",
        }
    }
}

/// What `KILL` ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillTarget {
    /// The connection.
    Connection,
    /// The statement that the connection is running.
    Query,
    /// All connections of a user, or a statement by its query number (MariaDB).
    Other,
}

/// Whom `KILL` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillId {
    /// The connection of this number.
    Number(u64),
    /// `CONNECTION_ID()`: the one that asks.
    Own,
    /// Something that is not a number yet, or not of a connection.
    Other,
}

/// A step of an XA transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XaStep {
    /// `XA START` or `XA BEGIN`.
    Start,
    /// `XA END`.
    End,
    /// `XA PREPARE`.
    Prepare,
    /// `XA COMMIT`, with or without `ONE PHASE`.
    Commit,
    /// `XA ROLLBACK`.
    Rollback,
    /// `XA RECOVER`, which changes nothing.
    Recover,
    /// Not understood.
    Other,
}

/// What a statement does to the session's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEffect {
    /// Nothing that the text tells. With autocommit off any statement may begin one.
    None,
    /// `BEGIN` or `START TRANSACTION`: ends one that is open and begins another.
    Begin {
        /// `READ ONLY` was written.
        read_only: bool,
        /// `READ WRITE` was written.
        read_write: bool,
        /// `WITH CONSISTENT SNAPSHOT` was written.
        consistent_snapshot: bool,
    },
    /// `COMMIT`.
    Commit {
        /// `AND CHAIN`: another one begins at once.
        chain: bool,
        /// `RELEASE`: the server closes the connection. `NO RELEASE`: it does not. Without either,
        /// `None`, it does as `completion_type` says.
        release: Option<bool>,
    },
    /// `ROLLBACK`, but not `ROLLBACK TO`.
    Rollback {
        /// `AND CHAIN`: another one begins at once.
        chain: bool,
        /// `RELEASE`: the server closes the connection. `NO RELEASE`: it does not. Without either,
        /// `None`, it does as `completion_type` says.
        release: Option<bool>,
    },
    /// The statement commits an open transaction before it runs. Source: MySQL manual, "Statements
    /// That Cause an Implicit Commit".
    ImplicitCommit,
    /// `SET autocommit`: on commits an open transaction. `None` when the value is no literal.
    SetAutocommit(Option<bool>),
}

impl TransactionEffect {
    /// Of a `COMMIT` or `ROLLBACK`: whether `AND CHAIN` is behind it. Else `None`.
    pub fn completion(self) -> Option<bool> {
        match self {
            Self::Commit { chain, .. } | Self::Rollback { chain, .. } => Some(chain),
            Self::None | Self::Begin { .. } | Self::ImplicitCommit | Self::SetAutocommit(_) => None,
        }
    }
}
