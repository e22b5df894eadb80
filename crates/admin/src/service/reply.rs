//! What an administrator's statement is answered with.

use std::time::Duration;

use trunkline_store::{Column, ColumnKind, RowSet, SqlError, Value};

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A result.
    Rows(RowSet),
    /// It was done.
    Ok {
        /// Rows changed.
        affected: u64,
        /// A line for people.
        info: String,
        /// What an operator should hear of it; `SHOW WARNINGS` gives it again.
        warnings: Vec<String>,
    },
    /// It was not done, and nothing has changed.
    Error(Refused),
}

/// Why a statement was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// MySQL's number.
    pub code: u16,
    /// MySQL's state.
    pub state: &'static [u8; 5],
    /// The text.
    pub message: String,
}

impl Refused {
    /// An error of a command of the admin port.
    pub fn new(message: impl Into<String>) -> Self {
        let message = format!("ProxySQL Admin Error: {}", message.into());
        Self { code: 1045, state: b"28000", message }
    }

    /// A statement whose words are wrong.
    pub fn syntax(message: impl Into<String>) -> Self {
        Self { code: 1064, state: b"42000", ..Self::new(message) }
    }

    /// Something that is not there yet.
    pub fn missing(what: &str) -> Self {
        let message = format!("{what} is not supported yet");
        Self { code: 1235, state: b"42000", ..Self::new(message) }
    }

    /// A variable that there is not.
    pub fn unknown_variable(message: impl Into<String>) -> Self {
        Self { code: 1193, state: b"HY000", message: message.into() }
    }

    /// A value that a variable does not take.
    pub fn wrong_value(message: impl Into<String>) -> Self {
        Self { code: 1231, state: b"42000", ..Self::new(message) }
    }

    /// Another statement of the same user of statistics runs for too long.
    pub fn busy(user: &str, waited: Duration) -> Self {
        let message = format!(
            "another statement of {user} still runs after {waited:?}: users of statistics run one \
             at a time (trunkline-admin_stats_time_max)"
        );
        Self { code: 1205, state: b"HY000", ..Self::new(message) }
    }

    /// There is no memory for something.
    pub fn out_of_memory(what: &str, max: u64) -> Self {
        let message = format!(
            "Out of memory: there is no more of memory_max ({max} bytes) for {what}; ask for less, \
             try again later, or raise memory_max"
        );
        Self { code: 1041, state: b"HY000", message }
    }

    /// An administrator's command by a user of statistics.
    pub fn denied() -> Self {
        Self::new("Command not allowed")
    }
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Self {
        let refused = Self::new(error.to_string());
        match error {
            SqlError::Locked => Self { code: 1205, state: b"HY000", ..refused },
            SqlError::TooLong(_) => Self { code: 3024, state: b"HY000", ..refused },
            SqlError::TooLarge(_) | SqlError::TooBig(_) => {
                Self { code: 1153, state: b"08S01", ..refused }
            }
            SqlError::NoMemory => Self { code: 1041, state: b"HY000", ..refused },
            SqlError::TooManyRows(_) => Self { code: 1104, state: b"42000", ..refused },
            SqlError::Denied(_) | SqlError::Other(_) => refused,
        }
    }
}

impl Reply {
    /// Nothing to say.
    pub fn ok() -> Self {
        Self::Ok { affected: 0, info: String::new(), warnings: Vec::new() }
    }

    /// A line for people.
    pub fn said(info: impl Into<String>) -> Self {
        Self::Ok { affected: 0, info: info.into(), warnings: Vec::new() }
    }
}

/// A result of texts.
pub fn texts(columns: &[&str], rows: Vec<Vec<String>>) -> RowSet {
    let columns = columns
        .iter()
        .map(|name| Column { name: (*name).to_owned(), kind: ColumnKind::Text })
        .collect();
    let row = |row: Vec<String>| row.into_iter().map(Value::Text).collect();
    RowSet { columns, rows: rows.into_iter().map(row).collect() }
}
