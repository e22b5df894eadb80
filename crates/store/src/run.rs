//! Statements of users, and their answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Statement, hooks::Action, limits::Limit, types::Value};

use crate::{Access, SqlError, Store, saved, tables::Schema};

/// What one statement of a user may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run.
    pub time: Duration,
    /// The most rows of its result.
    pub rows: usize,
    /// The most memory of its result, in bytes.
    pub bytes: usize,
    /// The most bytes of a value, of a row, and of its text. SQLite looks at the clock between the
    /// steps of its machine, and one step may compare each byte of a value with each of another
    /// one: this bounds the longest step.
    pub value_bytes: usize,
    /// The most bytes of a pattern of `LIKE` and `GLOB`.
    pub pattern_bytes: usize,
}

impl Limits {
    /// An administrator's.
    pub const ADMINISTRATOR: Self = Self {
        time: Duration::from_secs(60),
        rows: usize::MAX,
        bytes: 512 << 20,
        value_bytes: 64 << 20,
        pattern_bytes: 50_000,
    };

    /// A user's of statistics, until settings say something else.
    pub const STATISTICS: Self = Self {
        time: Duration::from_secs(5),
        rows: 200_000,
        bytes: 64 << 20,
        value_bytes: 256 << 10,
        pattern_bytes: 1_000,
    };

    fn of_sqlite(&self) -> [(Limit, i32); 3] {
        let number = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
        [
            (Limit::SQLITE_LIMIT_LENGTH, number(self.value_bytes)),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, number(self.value_bytes)),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, number(self.pattern_bytes)),
        ]
    }
}

/// How many steps of SQLite's machine pass between two looks at the clock. A step that works on
/// long values takes milliseconds.
const STEPS_BETWEEN_LOOKS: i32 = 1_000;
/// Bytes of a result for which memory is asked at once.
const ROOM_STEP: usize = 64 << 10;

/// What values of a column are, as far as a client needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text, or values of several types.
    Text,
    /// Whole numbers of 64 bits.
    Integer,
    /// Numbers with a fraction.
    Real,
    /// Bytes that are no text.
    Bytes,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
}

/// The rows of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSet {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with a value for each column.
    pub rows: Vec<Vec<Value>>,
}

/// The answer to a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It has a result.
    Rows(RowSet),
    /// It has changed this many rows.
    Done(u64),
}

/// A statement as it is known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Its columns, whose types are those of their declaration; none when it has no result.
    pub columns: Vec<Column>,
    /// How many parameters it has.
    pub params: usize,
}

impl Store {
    /// Runs one statement within [`Limits::ADMINISTRATOR`]. All of it happens, or nothing.
    ///
    /// # Errors
    /// Those of [`SqlError`]; a statement that takes too long is undone.
    pub fn run(&mut self, sql: &str, params: &[Value], access: Access) -> Result<Answer, SqlError> {
        self.run_within(&Limits::ADMINISTRATOR, sql, params, access)
    }

    /// Runs one statement within limits. All of it happens, or nothing. The store's own statements
    /// have no limit but that on their result.
    ///
    /// # Errors
    /// Those of [`SqlError`]; a statement that takes too much is undone.
    pub fn run_within(
        &mut self,
        limits: &Limits,
        sql: &str,
        params: &[Value],
        access: Access,
    ) -> Result<Answer, SqlError> {
        self.run_counted(limits, sql, params, access, &mut |_| true)
    }

    /// Runs one statement within limits, and asks for memory for its result before it is kept: so
    /// many bytes more each time. A refusal ends the statement with [`SqlError::NoMemory`].
    ///
    /// # Errors
    /// As [`Self::run_within`].
    pub fn run_counted(
        &mut self,
        limits: &Limits,
        sql: &str,
        params: &[Value],
        access: Access,
        grow: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Answer, SqlError> {
        if access != Access::Admin {
            return self
                .guarded(limits, access, |store| store.run_gated(sql, params, limits, grow));
        }
        let inserted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&inserted);
        self.conn.update_hook(Some(move |action, _: &str, _: &str, _| {
            if action == Action::SQLITE_INSERT {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }))?;
        let ran = self.guarded(limits, access, |store| store.run_gated(sql, params, limits, grow));
        self.conn.update_hook(None::<fn(Action, &str, &str, i64)>)?;
        ran.map_err(|error| error.at_row(inserted.load(Ordering::Relaxed), sql))
    }

    /// Does something as a user, within limits.
    fn guarded<T>(
        &mut self,
        limits: &Limits,
        access: Access,
        work: impl FnOnce(&Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        if access == Access::Internal {
            return work(self);
        }
        let mut before = Vec::new();
        for (limit, value) in limits.of_sqlite() {
            before.push((limit, self.conn.set_limit(limit, value)?));
        }
        let deadline = Instant::now() + limits.time;
        let is_over = move || Instant::now() >= deadline;
        self.conn.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over))?;
        self.gate.set(access);
        let worked = work(self);
        self.gate.set(Access::Internal);
        self.conn.progress_handler(0, None::<fn() -> bool>)?;
        for (limit, value) in before {
            self.conn.set_limit(limit, value)?;
        }
        worked.map_err(|error| error.within(limits))
    }

    fn run_gated(
        &self,
        sql: &str,
        params: &[Value],
        limits: &Limits,
        grow: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Answer, SqlError> {
        let mut stmt = self.prepare_one(sql)?;
        if params.len() != stmt.parameter_count() {
            let (given, wanted) = (params.len(), stmt.parameter_count());
            return Err(SqlError::Other(format!("{given} parameters were given, not {wanted}")));
        }
        if stmt.column_count() == 0 {
            let changes = stmt.execute(rusqlite::params_from_iter(params))?;
            return Ok(Answer::Done(u64::try_from(changes).unwrap_or(u64::MAX)));
        }
        let mut columns = columns(&stmt);
        let width = columns.len();
        let mut rows = Vec::new();
        let (mut bytes, mut given) = (0_usize, 0_usize);
        let mut found = stmt.query(rusqlite::params_from_iter(params))?;
        while let Some(row) = found.next()? {
            let mut values = Vec::with_capacity(width);
            for at in 0..width {
                let value: Value = row.get(at)?;
                bytes = bytes.saturating_add(size(&value));
                values.push(value);
            }
            if bytes > limits.bytes {
                return Err(SqlError::TooLarge(limits.bytes));
            }
            if rows.len() >= limits.rows {
                return Err(SqlError::TooManyRows(limits.rows));
            }
            // A result of less than a step is not counted.
            let more = bytes.saturating_sub(given);
            if more >= ROOM_STEP {
                if !grow(more) {
                    return Err(SqlError::NoMemory);
                }
                given = bytes;
            }
            rows.push(values);
        }
        for (at, column) in columns.iter_mut().enumerate() {
            column.kind = kind_of_values(column.kind, rows.iter().filter_map(|row| row.get(at)));
        }
        let columns = columns.into_iter().map(|column| column.into()).collect();
        Ok(Answer::Rows(RowSet { columns, rows }))
    }

    /// Bytes of the schemas that are kept in memory.
    ///
    /// # Errors
    /// Those of the database.
    pub fn memory_bytes(&self) -> Result<u64, SqlError> {
        let mut bytes = 0_i64;
        for schema in [Schema::Main, Schema::Stats, Schema::StatsHistory, Schema::Monitor] {
            let name = schema.name();
            let read = |pragma: &str| {
                let sql = format!("PRAGMA {name}.{pragma}");
                self.conn.query_row(&sql, [], |row| row.get::<_, i64>(0))
            };
            bytes = bytes.saturating_add(read("page_count")?.saturating_mul(read("page_size")?));
        }
        Ok(u64::try_from(bytes).unwrap_or_default())
    }

    /// Says what a statement has for columns and parameters, without running it.
    ///
    /// # Errors
    /// As [`Self::run_within`].
    pub fn describe(
        &mut self,
        limits: &Limits,
        sql: &str,
        access: Access,
    ) -> Result<Prepared, SqlError> {
        self.guarded(limits, access, |store| {
            let stmt = store.prepare_one(sql)?;
            Ok(Prepared {
                columns: columns(&stmt).into_iter().map(|column| column.into()).collect(),
                params: stmt.parameter_count(),
            })
        })
    }

    /// The one statement of a text.
    fn prepare_one(&self, sql: &str) -> Result<Statement<'_>, SqlError> {
        Ok(self.conn.prepare(&saved::found(sql))?)
    }
}

/// A column whose kind may not be known before its values.
struct Guess {
    name: String,
    kind: Option<ColumnKind>,
}

impl From<Guess> for Column {
    fn from(guess: Guess) -> Self {
        Self { name: guess.name, kind: guess.kind.unwrap_or(ColumnKind::Text) }
    }
}

fn columns(stmt: &Statement<'_>) -> Vec<Guess> {
    let columns = stmt.columns();
    columns
        .map(|column| Guess {
            name: column.name().to_owned(),
            kind: column.decl_type().map(|declared| match declared.contains("INT") {
                true => ColumnKind::Integer,
                false => ColumnKind::Text,
            }),
        })
        .collect()
}

/// What a column turns out to be: SQLite's columns may hold any type, clients' may not.
fn kind_of_values<'a>(
    declared: Option<ColumnKind>,
    values: impl Iterator<Item = &'a Value>,
) -> Option<ColumnKind> {
    let mut kind = None;
    for value in values {
        let this = match value {
            Value::Null => continue,
            Value::Integer(_) => ColumnKind::Integer,
            Value::Real(_) => ColumnKind::Real,
            Value::Text(_) => ColumnKind::Text,
            Value::Blob(_) => ColumnKind::Bytes,
        };
        kind = match kind {
            None => Some(this),
            Some(before) if before == this => kind,
            Some(_) => return Some(ColumnKind::Text),
        };
    }
    kind.or(declared)
}

/// The memory that a value takes.
fn size(value: &Value) -> usize {
    let beside = match value {
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
    };
    size_of::<Value>() + beside
}
