//! Why the database could not do something.

use std::{path::PathBuf, time::Duration};

use crate::Limits;

/// Why the store could not be opened or copied.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or folder could not be used.
    #[error("can't use {path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process has the folder.
    #[error("another process uses {0}")]
    InUse(PathBuf),
    /// A database file is damaged. It is left as it is.
    #[error(
        "the database {path} is damaged ({reason}); it was left as it is: restore a copy, or start \
         with --initial, which keeps it aside and begins anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// SQLite refused.
    #[error("{0}")]
    Sql(#[from] SqlError),
}

/// Why a statement failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// Something else writes to the file.
    #[error("database is locked")]
    Locked,
    /// The user may not do this.
    #[error("{0}")]
    Denied(String),
    /// It took longer than [`Limits::time`].
    #[error("the statement took longer than {0:?}")]
    TooLong(Duration),
    /// Its result takes more than [`Limits::bytes`].
    #[error("the result takes more than {0} bytes")]
    TooLarge(usize),
    /// Its result has more than [`Limits::rows`].
    #[error("the result has more than {0} rows")]
    TooManyRows(usize),
    /// The process has no memory for its result.
    #[error("there is no memory for the result")]
    NoMemory,
    /// A value, a row or the statement's text is longer than [`Limits::value_bytes`].
    #[error("a value, a row or the statement itself is longer than {0} bytes")]
    TooBig(usize),
    /// Whatever SQLite says.
    #[error("{0}")]
    Other(String),
}

impl SqlError {
    /// Puts the limits that a statement ran within into the error that it ended with.
    pub(crate) fn within(self, limits: &Limits) -> Self {
        match self {
            Self::TooLong(_) => Self::TooLong(limits.time),
            Self::TooBig(_) => Self::TooBig(limits.value_bytes),
            other => other,
        }
    }
}

impl SqlError {
    /// Names the row of an `INSERT` of several rows that breaks a constraint, where so many were
    /// inserted before it. The message of a single row stays SQLite's.
    pub(crate) fn at_row(self, inserted: usize, sql: &str) -> Self {
        match self {
            Self::Other(message) if message.contains(" constraint failed") => {
                let has_several = || {
                    let mut bytes = sql.bytes().filter(|byte| !byte.is_ascii_whitespace());
                    let mut last = (0, 0);
                    bytes.any(|byte| {
                        let is_next = (last, byte) == ((b')', b','), b'(');
                        last = (last.1, byte);
                        is_next
                    })
                };
                match inserted > 0 || has_several() {
                    true => Self::Other(format!(
                        "{message} (row {} of the statement, none of which was inserted)",
                        inserted.saturating_add(1)
                    )),
                    false => Self::Other(message),
                }
            }
            other => other,
        }
    }
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        match &error {
            rusqlite::Error::SqliteFailure(code, message) => match code.code {
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Locked,
                ErrorCode::AuthorizationForStatementDenied => {
                    Self::Denied(message.clone().unwrap_or_else(|| "not authorized".to_owned()))
                }
                ErrorCode::OperationInterrupted => Self::TooLong(Limits::ADMINISTRATOR.time),
                ErrorCode::TooBig => Self::TooBig(Limits::ADMINISTRATOR.value_bytes),
                _ => Self::Other(message.clone().unwrap_or_else(|| error.to_string())),
            },
            rusqlite::Error::SqlInputError { msg, .. } => match msg.as_str() {
                "not authorized" => Self::Denied(msg.clone()),
                _ => Self::Other(msg.clone()),
            },
            rusqlite::Error::MultipleStatement => {
                Self::Other("only one statement at a time".to_owned())
            }
            _ => Self::Other(error.to_string()),
        }
    }
}
