//! What clients of the model world say, as SQL that the real analysis reads.
//!
//! A [`Statement`] is data; [`Statement::put_sql`] makes its text, and [`parse`] makes the data
//! from a text again, at a model server. Each statement of a client carries a [`Tag`], in its
//! reply where it has rows, so that both ends and the oracle can name it. What the proxy sends of
//! its own (`SET`s) has none.
//!
//! | table | columns | what it is for |
//! |---|---|---|
//! | `kv` | `k` primary key, `v` | rows that belong to one client each; `v` is the tag of the write |
//! | `log` | `id` AUTO_INCREMENT, `v` | one row for each execution of an insert, so that two are seen |
//! | `numbers` | `n` from 0 | results of any length |
//! | `tmp0` … | `v` | temporary tables |
//! | `audited` | `n`, `v` | a view whose function appends a row to `log`: `SELECT` writes |
//! | `marked0` … | `v` | a trigger sets `@uN` and appends a row to `log` |
//! | `refused0` … | `v` | a trigger sets `@uN`, then refuses the row (1644) |
//! | `guarded0` … | `v` | a trigger takes the lock `lN`, or refuses (1644), and appends to `log` |
//!
//! `kv` and `log` are in both schemas with different content, so that a statement in the wrong
//! schema is seen.

mod execute;
mod mark;
mod parse;
mod set;
mod sql;
mod template;
mod token;
mod upload;
mod variable;

#[cfg(test)]
mod tests;

pub use execute::{Execution, Param, put_bulk, put_execute, read_bulk, read_execute};
pub use mark::Mark;
pub use parse::parse;
pub use template::Template;
pub use upload::Upload;
pub use variable::{Charset, Kind, Value, Variable};

pub(crate) use variable::collation as known_collation;

/// The unique name of one statement of one client: what every check goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Statements that one client can say.
const TAGS_PER_CLIENT: u64 = 1_000_000;
/// From this number on, a client's tags name texts that are said again and again.
const REPEATED_FROM: u64 = 950_000;
/// No client of a plan: its tags name texts that several say.
const EVERYBODY: usize = 10_000;

impl Tag {
    /// The tag of a client's statement of this number. Client numbers begin with 0.
    pub fn new(client: usize, number: u64) -> Self {
        debug_assert!(number < TAGS_PER_CLIENT);
        let client = u64::try_from(client).unwrap_or(u64::MAX / TAGS_PER_CLIENT - 1);
        Self((client + 1) * TAGS_PER_CLIENT + number)
    }

    /// The tag of a client's text of this number that it says again and again.
    pub fn repeated(client: usize, number: u64) -> Self {
        Self::new(client, REPEATED_FROM + number)
    }

    /// The tag of a text of this number that several clients say.
    pub fn shared(number: u64) -> Self {
        Self::repeated(EVERYBODY, number)
    }

    /// Whether statements of this tag are one text that is said again and again: its answer may be
    /// one that was stored.
    pub fn is_repeated(self) -> bool {
        self.number() >= REPEATED_FROM
    }

    /// The client whose statement it is; `None` for a number that is no tag.
    pub fn client(self) -> Option<usize> {
        usize::try_from((self.0 / TAGS_PER_CLIENT).checked_sub(1)?).ok()
    }

    /// The statement's number among those of its client.
    pub fn number(self) -> u64 {
        self.0 % TAGS_PER_CLIENT
    }
}

/// A schema of the model servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schema {
    /// Exists.
    Shop,
    /// Exists.
    Depot,
    /// Every server's own. No client chooses it.
    Information,
    /// Does not exist anywhere.
    Missing,
}

impl Schema {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Shop, Self::Depot, Self::Information, Self::Missing];

    /// Its name on servers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shop => "shop",
            Self::Depot => "depot",
            Self::Information => "information_schema",
            Self::Missing => "nowhere",
        }
    }

    /// The schema of that name; every unknown one is missing.
    pub fn from_name(name: &[u8]) -> Self {
        let known = Self::ALL.into_iter().find(|schema| schema.name().as_bytes() == name);
        known.unwrap_or(Self::Missing)
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Whose it is and which; `None` for the proxy's own.
    pub tag: Option<Tag>,
    /// What it says.
    pub act: Act,
}

/// What a statement says. Keys and values are numbers; `v` of a write is always its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// A row of `kv`: columns `tag`, `v`; no row if the key is not there.
    Read {
        /// Primary key.
        key: u64,
    },
    /// A row of `kv`, locked until the transaction ends: columns `tag`, `v`.
    ReadForUpdate {
        /// Primary key.
        key: u64,
    },
    /// How many rows of `log` have this `v`: columns `tag`, `v`.
    CountLog {
        /// The tag looked for.
        of: Tag,
    },
    /// Rows 0 to `rows` of `numbers`, each with `width` bytes: columns `tag`, `n`, `pad`.
    Numbers {
        /// How many there are.
        rows: u64,
        /// Bytes of `pad`.
        width: u64,
    },
    /// `SQL_CALC_FOUND_ROWS`: `limit` of `rows` rows: columns `tag`, `n`.
    CalcFoundRows {
        /// How many there are.
        rows: u64,
        /// How many are returned.
        limit: u64,
    },
    /// What the proxy runs so that `FOUND_ROWS()` is this: no client says it.
    CountTo(u64),
    /// `FOUND_ROWS()`.
    FoundRows,
    /// `ROW_COUNT()`.
    RowCount,
    /// `LAST_INSERT_ID()`.
    LastInsertId,
    /// `CONNECTION_ID()`.
    ConnectionId,
    /// A number: what the proxy puts in place of a function that asks for the session's past.
    Recalled(i64),
    /// `DATABASE()`.
    Database,
    /// `@@variable`.
    ShowVariable(Variable),
    /// `@uN`; NULL if it was never set.
    ShowUser(u8),
    /// The length of a text: columns `tag`, `v`.
    Length {
        /// Without quotes in it.
        text: String,
    },
    /// A read with one warning, whose message holds the tag: columns `tag`, `v`.
    Warn,
    /// `SHOW WARNINGS`: columns `Level`, `Code`, `Message`; the one result without a tag.
    ShowWarnings,
    /// Waits, then answers 0: columns `tag`, `v`.
    Sleep {
        /// How long.
        ms: u64,
    },
    /// Appends a row with `v` = its tag to `log`; generates an id.
    Insert,
    /// Inserts a row into `kv`; 1062 if the key is there.
    InsertKey {
        /// Primary key.
        key: u64,
    },
    /// Inserts a row into `kv` with `IGNORE`: a warning if the key is there.
    InsertIgnore {
        /// Primary key.
        key: u64,
    },
    /// `REPLACE` into `kv`.
    Put {
        /// Primary key.
        key: u64,
    },
    /// `UPDATE` of one row of `kv`, which may not be there.
    Update {
        /// Primary key.
        key: u64,
    },
    /// `DELETE` of one row of `kv`.
    Delete {
        /// Primary key.
        key: u64,
    },
    /// `LOAD DATA LOCAL INFILE` of one row into `kv`, as by `REPLACE`: the client sends the file
    /// that [`Upload::content`] describes.
    Load(Upload),
    /// Reads `audited`: a row of `log` with `v` = its tag is written: columns `tag`, `v`.
    ReadAudited,
    /// Inserts into `markedN`: `@uN` is the tag afterwards, and `log` has a row of it.
    InsertMarked(u8),
    /// Inserts into `refusedN`: it fails (1644), and `@uN` is the tag all the same.
    InsertRefused(u8),
    /// Inserts into `guardedN`: the session has the lock `lN` afterwards, and `log` a row; 1644 if
    /// somebody else has the lock.
    InsertGuarded(u8),
    /// Inserts a row into `kv`, and sets `@uN` on the way: it stays though the key is there (1062).
    InsertAssigning {
        /// Primary key.
        key: u64,
        /// Number of the variable.
        name: u8,
    },
    /// Reads a table that does not exist (1146).
    UnknownTable,
    /// Not SQL (1064).
    Broken,
    /// Begins a transaction.
    Begin(BeginForm),
    /// `COMMIT`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `SET` of one or more things.
    Set(Vec<Setting>),
    /// `SET [SESSION] TRANSACTION …`.
    SetTransaction {
        /// For the session; else for the next transaction only.
        session: bool,
        /// The level, as in `REPEATABLE READ`.
        isolation: Option<Isolation>,
        /// `READ ONLY` or `READ WRITE`.
        read_only: Option<bool>,
    },
    /// `USE`.
    Use(Schema),
    /// `CREATE TEMPORARY TABLE tmpN`; 1050 if this session has it.
    CreateTemporary(u8),
    /// Inserts the tag into `tmpN`.
    InsertTemporary(u8),
    /// Number of rows of `tmpN` and the last: columns `tag`, `n`, `v`.
    ReadTemporary(u8),
    /// `DROP TEMPORARY TABLE tmpN`.
    DropTemporary(u8),
    /// `GET_LOCK('lN', seconds)`: 1 or 0.
    GetLock {
        /// Number of the lock.
        lock: u8,
        /// The longest wait.
        seconds: u64,
    },
    /// `RELEASE_LOCK('lN')`: 1, 0 or NULL.
    ReleaseLock(u8),
    /// `RELEASE_ALL_LOCKS()`: how many.
    ReleaseAllLocks,
    /// `LOCK TABLES kv, log` for writing or reading.
    LockTables {
        /// For writing; else for reading.
        write: bool,
    },
    /// `UNLOCK TABLES`.
    UnlockTables,
    /// `PREPARE pN FROM '…'`.
    PrepareSql {
        /// Number of the statement.
        name: u8,
        /// What is prepared.
        of: PreparedSql,
    },
    /// `EXECUTE pN`, with `USING @uN` where the prepared text has a parameter.
    ExecuteSql {
        /// Number of the statement.
        name: u8,
        /// The user variable that is the parameter.
        using: Option<u8>,
    },
    /// `DEALLOCATE PREPARE pN`.
    DeallocateSql(u8),
    /// `KILL`. The proxy answers it with 1094.
    Kill {
        /// The server's number for it.
        connection: u64,
        /// Only the statement that it runs.
        query_only: bool,
    },
    /// A text that no client says; only [`parse`] makes it.
    Unknown(String),
}

impl Act {
    /// Whether it changes a table that is not temporary, and does nothing else unseen.
    pub fn is_plain_write(&self) -> bool {
        matches!(
            self,
            Self::Insert
                | Self::InsertKey { .. }
                | Self::InsertIgnore { .. }
                | Self::Put { .. }
                | Self::Update { .. }
                | Self::Delete { .. }
                | Self::Load(_)
        )
    }
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginForm {
    /// `BEGIN`.
    Begin,
    /// `START TRANSACTION`.
    Start,
    /// `START TRANSACTION READ ONLY`.
    ReadOnly,
}

impl BeginForm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Begin, Self::Start, Self::ReadOnly];
}

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

impl Isolation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ReadCommitted, Self::RepeatableRead, Self::Serializable];

    /// The variable's value.
    pub fn value(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ-COMMITTED",
            Self::RepeatableRead => "REPEATABLE-READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// What is prepared by SQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreparedSql {
    /// A read of `kv`. Every execution's rows carry `tag`, that of the `PREPARE`.
    Read {
        /// The `PREPARE`'s.
        tag: Tag,
        /// Primary key.
        key: u64,
    },
    /// `UPDATE kv SET v = ?` of one row: the value is that of the user variable.
    Update {
        /// Primary key.
        key: u64,
    },
}

/// One thing that a `SET` sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// A system variable of the session.
    Variable {
        /// How its scope is written.
        scope: Scope,
        /// Which.
        variable: Variable,
        /// To what.
        value: SetValue,
    },
    /// `NAMES charset`.
    Names(Charset),
    /// `NAMES charset COLLATE collation`.
    NamesCollate(Charset),
    /// `NAMES charset COLLATE collation` with any collation: the proxy's.
    NamesExactly(&'static str),
    /// `NAMES DEFAULT`.
    NamesDefault,
    /// `@uN = number`, or `NULL`, which is as if it had never been set.
    User {
        /// Number of the variable.
        name: u8,
        /// Its value.
        value: Option<u64>,
    },
    /// `last_insert_id`: the proxy brings it over.
    LastInsertId(u64),
    /// `insert_id`: what the next row gets. The proxy's, as it repeats a transaction.
    InsertId(u64),
    /// `last_insert_id`, selected from a table of its own: that clears what the last statement left
    /// on MariaDB.
    LastInsertIdOfTable(u64),
    /// `last_insert_id = LAST_INSERT_ID()`: the proxy has the value reported.
    LastInsertIdAsItIs,
    /// `last_insert_id = LAST_INSERT_ID()`, selected from a table of its own.
    LastInsertIdAsItIsOfTable,
    /// A session tracker, by its name behind `session_track_`: the proxy's.
    Tracker(String, String),
    /// Under what name its commits are numbered from now on, by `server_id` or `gtid_next`: the
    /// proxy's.
    Mark(Mark),
}

/// How the scope of a variable is written; all mean the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// `x`.
    Plain,
    /// `SESSION x`.
    Session,
    /// `LOCAL x`.
    Local,
    /// `@@x`.
    At,
    /// `@@SESSION.x`: the proxy writes it so too.
    AtSession,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Plain, Self::Session, Self::Local, Self::At, Self::AtSession];
}

/// What a variable is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetValue {
    /// A literal.
    Literal(Value),
    /// A literal written as an expression, which only a server evaluates.
    Expression(Value),
    /// `DEFAULT`.
    Default,
}

/// A cell of a result.
pub type Cell = Option<String>;

/// What a server answers to one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// OK.
    Done(Done),
    /// Rows.
    Rows(Rows),
    /// ERR.
    Failed(Failure),
}

/// An OK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Rows changed.
    pub affected: u64,
    /// The generated id; 0 for none.
    pub last_insert_id: u64,
    /// Number of warnings.
    pub warnings: u16,
}

/// A result set. All columns are texts (`VAR_STRING`), in either row format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: &'static [&'static str],
    /// Each with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Number of warnings.
    pub warnings: u16,
}

/// An error of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// MySQL's code.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// Text.
    pub message: String,
}

impl Failure {
    /// An error of a server.
    pub fn new(code: u16, sqlstate: &[u8; 5], message: impl Into<String>) -> Self {
        Self { code, sqlstate: *sqlstate, message: message.into() }
    }
}

impl Statement {
    /// A client's statement.
    pub fn new(tag: Tag, act: Act) -> Self {
        Self { tag: Some(tag), act }
    }

    /// Its text.
    pub fn to_sql(&self, flavor: trunkline_protocol::packet::greeting::Flavor) -> String {
        let mut text = String::new();
        self.put_sql(&mut text, flavor);
        text
    }

    /// The tag as a number; 0 for none.
    pub fn value(&self) -> u64 {
        self.tag.map_or(0, |tag| tag.0)
    }
}

/// The text of several statements in one command.
pub fn to_sql(
    statements: &[Statement],
    flavor: trunkline_protocol::packet::greeting::Flavor,
) -> String {
    let mut text = String::new();
    for (place, statement) in statements.iter().enumerate() {
        if place > 0 {
            text.push_str("; ");
        }
        statement.put_sql(&mut text, flavor);
    }
    text
}
