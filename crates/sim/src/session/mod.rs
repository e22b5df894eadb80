//! What the state of a session on a server is, and what each statement makes of it.
//!
//! The model servers keep one for each connection. The oracle keeps one for each client, as if it
//! were connected directly: the *shadow*. Both run the same statements by the same code; what
//! only the tables know comes from [`Data`], which for a shadow says what the reply said.

mod changes;
mod failing;
mod hidden;
mod locks;
mod replied;
mod run;
mod settings;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use trunkline_protocol::packet::{greeting::Flavor, status};

use crate::{
    oracle::facts::Gtid,
    statement::{
        Answer, Cell, Charset, Failure, Mark, PreparedSql, Rows, Schema, Tag, Template, Value,
        Variable,
    },
};

pub use changes::Trackers;
pub use locks::{Claim, Mode, Resource};
pub use replied::{DATA_ERRORS, Replied};
pub(crate) use run::duplicate_text;

/// The tables and the other sessions, as a statement needs them.
pub trait Data {
    /// `v` of a row of `kv`.
    fn read(&mut self, schema: Schema, key: u64) -> Option<u64>;
    /// How many rows of `log` have this `v`.
    fn count_log(&mut self, schema: Schema, of: Tag) -> u64;
    /// Writes, within the transaction that is open or is to be committed at once.
    ///
    /// # Errors
    /// A duplicate key, a server that only reads, and the like; nothing is written then.
    fn write(&mut self, schema: Schema, write: Write) -> Result<Written, Failure>;
    /// Whether `GET_LOCK` has got the lock.
    fn is_granted(&mut self, lock: u8) -> bool;
    /// Whether anybody has the named lock.
    fn is_locked(&mut self, lock: u8) -> bool;
    /// Kills a connection or its statement; false if there is none of that number.
    fn kill(&mut self, connection: u64, query_only: bool) -> bool;
    /// What was written takes effect.
    fn commit(&mut self);
    /// What was written is undone.
    fn rollback(&mut self);
}

/// One change of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// A row of `log`.
    Log {
        /// Value.
        v: u64,
        /// The id that it gets; 0 for the next one.
        id: u64,
    },
    /// A new row of `kv`; with `ignore` a key that is there is a warning.
    Insert {
        /// Primary key.
        key: u64,
        /// Value.
        v: u64,
        /// A key that is there is a warning.
        ignore: bool,
    },
    /// A row of `kv`, new or not.
    Replace {
        /// Primary key.
        key: u64,
        /// Value.
        v: u64,
    },
    /// A row of `kv` that is there.
    Update {
        /// Primary key.
        key: u64,
        /// Value.
        v: u64,
    },
    /// A row of `kv` goes.
    Delete {
        /// Primary key.
        key: u64,
    },
    /// Nothing: a file without rows.
    Nothing,
}

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Rows changed.
    pub affected: u64,
    /// The generated id; 0 for none.
    pub insert_id: u64,
}

/// A line of `SHOW WARNINGS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// `Warning` or `Error`.
    pub level: &'static str,
    /// MySQL's code.
    pub code: u16,
    /// Text.
    pub message: String,
}

/// A transaction that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Transaction {
    read_only: bool,
    /// Rows that each temporary table had before it.
    temporary_rows: BTreeMap<(Schema, u8), usize>,
}

/// A statement prepared by command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// What was prepared.
    pub template: Template,
    /// The schema that its tables are in.
    pub schema: Option<Schema>,
    /// Long data by parameter.
    pub long_data: BTreeMap<u16, Vec<u8>>,
    /// Rows that wait to be fetched.
    pub cursor: Option<std::collections::VecDeque<Vec<Cell>>>,
}

/// The state of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSession {
    flavor: Flavor,
    /// What `CONNECTION_ID()` gives.
    pub number: u64,
    /// Whether a command may hold several statements.
    pub multi_statements: bool,
    /// The default schema.
    pub schema: Option<Schema>,
    collation: &'static str,
    variables: [Value; Variable::ALL.len()],
    users: BTreeMap<u8, u64>,
    temporary: BTreeMap<(Schema, u8), Vec<u64>>,
    named_locks: BTreeMap<u8, u32>,
    table_lock: Option<(Schema, bool)>,
    transaction: Option<Transaction>,
    /// `SET TRANSACTION` for the next one: what it says of reading only, if anything.
    next: Option<Option<bool>>,
    last_insert_id: u64,
    /// `insert_id`: what the next row gets; 0 for the next free one.
    insert_id: u64,
    warnings: Vec<Warning>,
    /// The last statement left the warnings itself.
    has_fresh_warnings: bool,
    found_rows: u64,
    row_count: i64,
    sql_prepared: BTreeMap<u8, (PreparedSql, Option<Schema>)>,
    prepared: BTreeMap<u32, Prepared>,
    stmt_id: u32,
    /// Under what name its commits are numbered, if not the server's own.
    mark: Option<Mark>,
    /// What is to be reported with the next OK.
    trackers: Trackers,
}

impl ModelSession {
    /// The open transaction is over, and changed nothing.
    pub fn leave_transaction(&mut self, data: &mut dyn Data) {
        self.end_transaction(data, true);
    }

    /// A session just logged in. `collation` is the id of the handshake; one that the servers do
    /// not know gives their default.
    pub fn new(flavor: Flavor, collation: u16, schema: Option<Schema>) -> Self {
        let default = default_collation(flavor);
        let known = trunkline_protocol::collation::lookup(flavor, collation)
            .and_then(|(_, name)| crate::statement::known_collation(name));
        let mut session = Self {
            flavor,
            number: 0,
            multi_statements: false,
            schema,
            collation: known.unwrap_or(default),
            variables: Variable::ALL.map(|variable| variable.default_value(flavor)),
            users: BTreeMap::new(),
            temporary: BTreeMap::new(),
            named_locks: BTreeMap::new(),
            table_lock: None,
            transaction: None,
            next: None,
            last_insert_id: 0,
            insert_id: 0,
            warnings: Vec::new(),
            has_fresh_warnings: false,
            found_rows: 0,
            row_count: 0,
            sql_prepared: BTreeMap::new(),
            prepared: BTreeMap::new(),
            stmt_id: 0,
            mark: None,
            trackers: Trackers::default(),
        };
        session.set_collation(session.collation);
        session.trackers.discard();
        session
    }

    /// `COM_RESET_CONNECTION`: all but the schema is as after a login. Ids of prepared statements
    /// are not given anew.
    pub fn reset(&mut self, data: &mut dyn Data) {
        data.rollback();
        // MariaDB goes back to the handshake's character set, MySQL to the server's default.
        let collation = match self.flavor {
            Flavor::MariaDb => self.collation,
            Flavor::MySql => default_collation(self.flavor),
        };
        let fresh = Self::new(self.flavor, 0, self.schema);
        *self = Self {
            number: self.number,
            multi_statements: self.multi_statements,
            collation: self.collation,
            stmt_id: self.stmt_id,
            ..fresh
        };
        self.set_collation(collation);
        self.trackers.discard();
    }

    /// Whose dialect the server speaks.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// A variable's value.
    pub fn variable(&self, variable: Variable) -> &Value {
        let place = place_of(variable);
        self.variables.get(place).unwrap_or(&Value::Null)
    }

    fn set_variable(&mut self, variable: Variable, value: Value) {
        self.trackers.variable(self.flavor, variable, &value);
        if let Some(place) = self.variables.get_mut(place_of(variable)) {
            *place = value;
        }
    }

    /// What a login or `SET NAMES` sets.
    fn set_collation(&mut self, collation: &'static str) {
        let charset = Charset::of_collation(collation).map_or("", Charset::name);
        for variable in
            [Variable::CharsetClient, Variable::CharsetConnection, Variable::CharsetResults]
        {
            self.set_variable(variable, Value::Text(charset));
        }
        self.set_variable(Variable::CollationConnection, Value::Text(collation));
    }

    /// Whether a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether each statement is a transaction of its own.
    pub fn is_autocommit(&self) -> bool {
        *self.variable(Variable::Autocommit) == Value::Flag(true)
    }

    /// The flags of [`status`] that this state gives every reply.
    pub fn status(&self) -> u16 {
        let mut flags = 0;
        if self.is_autocommit() {
            flags |= status::AUTOCOMMIT;
        }
        if let Some(transaction) = &self.transaction {
            flags |= status::IN_TRANS;
            if transaction.read_only {
                flags |= status::IN_TRANS_READONLY;
            }
        }
        if let Value::Text(mode) = self.variable(Variable::SqlMode)
            && mode.contains("NO_BACKSLASH_ESCAPES")
        {
            flags |= status::NO_BACKSLASH_ESCAPES;
        }
        flags
    }

    /// The session state for the next OK, as bytes; empty for none. `for_query` says whether it
    /// answers a statement.
    pub fn take_changes(&mut self, for_query: bool) -> Vec<u8> {
        self.trackers.take(self.flavor, for_query)
    }

    /// A transaction of the session was committed under this name.
    pub fn committed(&mut self, gtid: Gtid) {
        self.trackers.gtid(self.flavor, gtid);
    }

    /// Under what name its commits are numbered, if not the server's own.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Whether the session is told the names of its commits.
    pub fn tracks_gtids(&self) -> bool {
        self.trackers.tracks_gtids()
    }

    /// What the last statement left for `SHOW WARNINGS`.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Whether the last statement but `SHOW WARNINGS` left them. MariaDB keeps those of an earlier
    /// one until a statement uses tables.
    pub fn has_fresh_warnings(&self) -> bool {
        self.has_fresh_warnings
    }

    /// Whether anything is left here that would be lost with the connection: locks, temporary
    /// tables, user variables, prepared statements, a transaction.
    pub fn holds_anything(&self) -> bool {
        self.transaction.is_some()
            || self.next.is_some()
            || self.table_lock.is_some()
            || !self.users.is_empty()
            || !self.temporary.is_empty()
            || !self.named_locks.is_empty()
            || !self.sql_prepared.is_empty()
            || !self.prepared.is_empty()
    }

    /// `COM_INIT_DB`.
    ///
    /// # Errors
    /// 1049 for a schema that is not there.
    pub fn use_schema(&mut self, schema: Schema) -> Result<(), Failure> {
        if schema == Schema::Missing {
            let text = format!("Unknown database '{}'", schema.name());
            return Err(Failure::new(1049, b"42000", text));
        }
        self.schema = Some(schema);
        self.trackers.schema(schema);
        Ok(())
    }

    /// `COM_STMT_PREPARE`: the id.
    ///
    /// # Errors
    /// 1046 without a schema.
    pub fn prepare(&mut self, template: Template) -> Result<u32, Failure> {
        let is_of_tables = !matches!(template, Template::Length | Template::Recalled(_))
            && !Template::PAST.contains(&template);
        if is_of_tables && self.schema.is_none() {
            return Err(no_schema());
        }
        // Tried on MySQL 9.7 and MariaDB 10.11.
        if is_of_tables || self.flavor == Flavor::MySql {
            self.warnings.clear();
            self.has_fresh_warnings = false;
        }
        self.stmt_id += 1;
        let schema = self.schema;
        let prepared = Prepared { template, schema, long_data: BTreeMap::new(), cursor: None };
        self.prepared.insert(self.stmt_id, prepared);
        Ok(self.stmt_id)
    }

    /// The statement of this id; MariaDB takes 0xFFFFFFFF for the last one.
    pub fn prepared(&self, id: u32) -> Option<&Prepared> {
        match (self.flavor, id) {
            (Flavor::MariaDb, u32::MAX) => self.prepared.values().next_back(),
            _ => self.prepared.get(&id),
        }
    }

    /// The statement of this id, to be changed; MariaDB takes 0xFFFFFFFF for the last one.
    pub fn prepared_mut(&mut self, id: u32) -> Option<&mut Prepared> {
        match (self.flavor, id) {
            (Flavor::MariaDb, u32::MAX) => self.prepared.values_mut().next_back(),
            _ => self.prepared.get_mut(&id),
        }
    }

    /// Ids of all statements prepared by command.
    pub fn prepared_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.prepared.keys().copied()
    }

    /// `COM_STMT_CLOSE`.
    pub fn close_prepared(&mut self, id: u32) {
        self.prepared.remove(&id);
    }
}

/// Columns of nearly every result.
const TAG_AND_V: &[&str] = &["tag", "v"];

fn place_of(variable: Variable) -> usize {
    Variable::ALL.iter().position(|known| *known == variable).unwrap_or_default()
}

fn default_collation(flavor: Flavor) -> &'static str {
    match Variable::CollationConnection.default_value(flavor) {
        Value::Text(collation) => collation,
        _ => "",
    }
}

fn no_schema() -> Failure {
    Failure::new(1046, b"3D000", "No database selected")
}

/// A result of one row.
fn one_row(columns: &'static [&'static str], cells: Vec<Cell>) -> Answer {
    Answer::Rows(Rows { columns, rows: vec![cells], warnings: 0 })
}
