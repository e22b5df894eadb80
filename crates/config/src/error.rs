//! What is wrong with a configuration, and where.

use std::{borrow::Cow, fmt, sync::Arc};

/// What kind of error it is, for whoever must tell errors apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The text is no TOML.
    Syntax,
    /// There is no setting, section or column of this name here.
    UnknownColumn,
    /// ProxySQL has the column, and it has no effect here yet.
    NotSupported,
    /// The value has another type.
    WrongType,
    /// The number is too small or too large.
    OutOfRange,
    /// The value is wrong otherwise.
    Invalid,
    /// The value holds a password that belongs elsewhere; it must not be repeated.
    Secret,
    /// What must be there is not.
    Missing,
    /// It is there twice.
    Duplicate,
    /// Two values exclude each other.
    Conflict,
    /// It names something that is not there: a hostgroup without servers, a user.
    Dangling,
    /// A file that it names could not be read.
    Unreadable,
}

/// What a value must be, for a message that begins with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// Such as `must be 1 to 9, not 0`.
    pub reason: String,
}

impl Wrong {
    pub(crate) fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into() }
    }
}

impl From<String> for Wrong {
    fn from(reason: String) -> Self {
        Self::new(ErrorKind::Invalid, reason)
    }
}

/// What an error is about. It reads `server[2].weight`, or `workers` for a setting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The section; empty for a setting.
    pub section: &'static str,
    /// Which entry of the section, counted from 0; `None` for the section as a whole.
    pub index: Option<usize>,
    /// The setting or column; empty for the entry as a whole.
    pub column: Cow<'static, str>,
}

impl Subject {
    /// A setting.
    pub(crate) fn setting(name: impl Into<Cow<'static, str>>) -> Self {
        Self { section: "", index: None, column: name.into() }
    }

    /// A section as a whole.
    pub(crate) fn section(section: &'static str) -> Self {
        Self { section, index: None, column: Cow::Borrowed("") }
    }

    /// A column of an entry.
    pub(crate) fn column(
        section: &'static str,
        index: usize,
        column: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { section, index: Some(index), column: column.into() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.section)?;
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        if !self.section.is_empty() && !self.column.is_empty() {
            f.write_str(".")?;
        }
        f.write_str(&self.column)
    }
}

/// Where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In a text; it reads `trunkline.toml:12:1`.
    Text {
        /// The file's name as the caller gave it.
        file: Arc<str>,
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
    },
    /// In a row of the admin port's tables, by its table and key, or in a variable.
    Row(Arc<str>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Row(name) => f.write_str(name),
        }
    }
}

/// One error of a configuration; it reads `trunkline.toml:12:1: unknown key …`, or
/// `mysql_users, username app: …`.
///
/// A message never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ConfigError {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What it is about.
    pub subject: Subject,
    /// Where that stands.
    pub place: Place,
    /// What is wrong, in lower case and without a full stop.
    pub message: String,
}
