//! What a `SET` statement assigns.
//!
//! Sources: MySQL manual, "SET Syntax for Variable Assignment" and "SET TRANSACTION Statement";
//! MariaDB knowledge base, "SET" and "SET STATEMENT"; both checked on MariaDB 10.11 and MySQL 9.7.

mod parse;

#[cfg(test)]
mod tests;

use std::fmt;

pub use parse::parse;
pub use parse::user_variable_name;
pub(crate) use parse::{is_equals, parse_tokens};

/// One item of a `SET` statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assignment {
    /// `name = value`, for a system or a user variable.
    Variable {
        /// Whose variable.
        scope: Scope,
        /// Lower case, without quotes, `@` and scope; dotted names keep their dot.
        /// `tx_isolation` and `tx_read_only` appear under their present names,
        /// `transaction_isolation` and `transaction_read_only`.
        name: Vec<u8>,
        /// What it becomes.
        value: Value,
    },
    /// `NAMES charset [COLLATE collation]`: the character set of client, results and connection.
    Names {
        /// Without quotes, as written; `None` is `DEFAULT`.
        charset: Option<Vec<u8>>,
        /// Without quotes, as written.
        collation: Option<Vec<u8>>,
    },
    /// `CHARACTER SET charset`: as `Names`, but the connection takes the schema's collation.
    CharacterSet {
        /// Without quotes, as written; `None` is `DEFAULT`.
        charset: Option<Vec<u8>>,
    },
    /// `[scope] TRANSACTION …`.
    Transaction(TransactionSetting),
    /// `PASSWORD …`.
    Password,
    /// `ROLE …`: the roles active in the session.
    Role,
    /// `DEFAULT ROLE …`: a property of accounts, not of the session.
    DefaultRole,
    /// `RESOURCE GROUP …`.
    ResourceGroup,
}

impl Assignment {
    /// About how much memory it takes, in bytes.
    pub(crate) fn held(&self) -> usize {
        const ALLOCATED: usize = 16;
        let beside = match self {
            Self::Variable { name, value, .. } => {
                let value = match value {
                    Value::Literal(text) | Value::Expression(text) => text.len() + ALLOCATED,
                    Value::Default => 0,
                };
                name.len() + ALLOCATED + value
            }
            _ => 0,
        };
        size_of::<Self>() + beside
    }
}

/// Whose variable is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// No scope was written: the session's variable, for those that sessions have.
    LocalDefault,
    /// `SESSION`, `LOCAL`, `@@session.` or `@@local.`.
    Session,
    /// `GLOBAL` or `@@global.`. Also a bare name after an item with this keyword.
    Global,
    /// `PERSIST` or `@@persist.`.
    Persist,
    /// `PERSIST_ONLY` or `@@persist_only.`.
    PersistOnly,
    /// `@@name` without a scope, for the variables where that means the next transaction only:
    /// `transaction_isolation` and `transaction_read_only`.
    NextTransaction,
    /// `@name`.
    UserVariable,
}

/// The right side of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// One literal as written, quotes included: a number, a string, a bare word such as `ON`,
    /// `utf8mb4` or `READ-COMMITTED`.
    Literal(Vec<u8>),
    /// `DEFAULT`.
    Default,
    /// Anything that the server must evaluate, as written.
    Expression(Vec<u8>),
}

impl Value {
    /// The literal without quotes.
    pub fn literal(&self) -> Option<std::borrow::Cow<'_, [u8]>> {
        match self {
            Self::Literal(text) => Some(crate::token::unquote(text)),
            Self::Default | Self::Expression(_) => None,
        }
    }

    /// What the value says of a variable that is on or off; `None` when the text does not tell.
    pub fn switch(&self) -> Option<bool> {
        let text = self.literal()?;
        let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
        match () {
            () if is(b"1") || is(b"on") || is(b"true") => Some(true),
            () if is(b"0") || is(b"off") || is(b"false") => Some(false),
            () => None,
        }
    }
}

/// What `SET TRANSACTION` sets; what it does not name stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionSetting {
    /// For which transactions.
    pub scope: TransactionScope,
    /// `ISOLATION LEVEL …`.
    pub isolation: Option<Isolation>,
    /// `READ ONLY` is true, `READ WRITE` false.
    pub read_only: Option<bool>,
}

/// Which transactions a `SET TRANSACTION` is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionScope {
    /// The next one of this session (no keyword).
    Next,
    /// All following ones of this session.
    Session,
    /// Those of sessions that begin later.
    Global,
}

/// An isolation level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// `READ UNCOMMITTED`.
    ReadUncommitted,
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

impl Isolation {
    /// The value of the variable `transaction_isolation`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "READ-UNCOMMITTED",
            Self::ReadCommitted => "READ-COMMITTED",
            Self::RepeatableRead => "REPEATABLE-READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// Why a text was not understood as a `SET` statement.
///
/// The server may still accept it; what it then leaves in the session is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetError {
    /// It does not begin with `SET`, or holds more than one statement.
    NotOneSet,
    /// Something else stands where this was expected.
    Expected {
        /// What was expected.
        what: &'static str,
        /// Where, in bytes from the beginning of the text.
        offset: usize,
    },
    /// It ends inside a quote or comment, or has NUL bytes.
    Incomplete,
    /// It sets more variables than are kept of one text.
    TooLong,
    /// Servers may read it differently, see [`Tokens::is_ambiguous`](crate::token::Tokens).
    Ambiguous,
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOneSet => f.write_str("the text is not one SET statement"),
            Self::Expected { what, offset } => write!(f, "expected {what} at byte {offset}"),
            Self::Incomplete => f.write_str("the text ends inside a quote or comment"),
            Self::TooLong => f.write_str("the text sets too many variables"),
            Self::Ambiguous => f.write_str("servers may read the text differently"),
        }
    }
}

impl std::error::Error for SetError {}
