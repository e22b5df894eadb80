//! Statements of users, and their answers.

use std::time::{Duration, Instant};

use rusqlite::{Statement, types::Value};

use crate::{Access, SqlError, Store, tables::Schema};

/// How long one statement of a user may run.
pub const STATEMENT_TIME_MAX: Duration = Duration::from_secs(60);
/// The most bytes of values in one result.
pub const RESULT_BYTES_MAX: usize = 256 << 20;
/// How many steps of SQLite's machine pass between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 100_000;

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
    /// Runs one statement. All of it happens, or nothing.
    ///
    /// # Errors
    /// Those of [`SqlError`]; a statement that takes too long is undone.
    pub fn run(&mut self, sql: &str, params: &[Value], access: Access) -> Result<Answer, SqlError> {
        if access != Access::Internal {
            let deadline = Instant::now() + STATEMENT_TIME_MAX;
            let is_over = move || Instant::now() >= deadline;
            self.conn.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over))?;
        }
        self.gate.set(access);
        let answer = self.run_gated(sql, params);
        self.gate.set(Access::Internal);
        self.conn.progress_handler(0, None::<fn() -> bool>)?;
        answer
    }

    fn run_gated(&self, sql: &str, params: &[Value]) -> Result<Answer, SqlError> {
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
        let mut bytes = 0_usize;
        let mut found = stmt.query(rusqlite::params_from_iter(params))?;
        while let Some(row) = found.next()? {
            let mut values = Vec::with_capacity(width);
            for at in 0..width {
                let value: Value = row.get(at)?;
                bytes = bytes.saturating_add(size(&value));
                values.push(value);
            }
            if bytes > RESULT_BYTES_MAX {
                return Err(SqlError::TooLarge(RESULT_BYTES_MAX));
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
        for schema in [Schema::Main, Schema::Stats, Schema::Monitor] {
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
    /// As [`Self::run`].
    pub fn describe(&mut self, sql: &str, access: Access) -> Result<Prepared, SqlError> {
        self.gate.set(access);
        let described = self.prepare_one(sql).map(|stmt| Prepared {
            columns: columns(&stmt).into_iter().map(|column| column.into()).collect(),
            params: stmt.parameter_count(),
        });
        self.gate.set(Access::Internal);
        described
    }

    /// The one statement of a text.
    fn prepare_one(&self, sql: &str) -> Result<Statement<'_>, SqlError> {
        Ok(self.conn.prepare(sql)?)
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

fn size(value: &Value) -> usize {
    match value {
        Value::Null => 1,
        Value::Integer(_) | Value::Real(_) => 8,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
    }
}
