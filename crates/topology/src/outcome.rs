//! What became of a `COMMIT` whose answer was lost: marks under which servers number a
//! connection's transactions ([`mark`]), and the search ([`search`]). Pure: others talk to servers.

mod mark;
mod search;

pub use mark::{CommitMark, MarkName, Reading};
pub use search::{Ended, Evidence, Input, Search, Step, Where};

use std::{fmt, str::FromStr};

/// Whether it is found out what became of a `COMMIT` whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitOutcomes {
    /// Its client is told that the connection was lost.
    #[default]
    Off,
    /// It is, where the account may mark its connections.
    Auto,
}

impl fmt::Display for CommitOutcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for CommitOutcomes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => Err("must be off or auto".to_owned()),
        }
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was committed.
    Committed,
    /// It was not, and will not be.
    NotCommitted,
    /// Nobody knows.
    Unknown(Unknown),
}

/// Why nobody knows what became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Its connection had no mark: the account may not set one, or there was none left.
    NoMark,
    /// The statement may have committed more than one transaction, or does more than to write.
    Statement,
    /// An earlier statement there failed, and may have committed something.
    Doubt,
    /// The server does not let the account end its own connection.
    Rights,
    /// The server does not log everything, so that what is missing may have been committed.
    NotLogged,
    /// The server lacks transactions that it has told of.
    History,
    /// It is in the log of a server that waits for replicas (semi-synchronous replication): whether
    /// one of them has it is not known, and it may be lost with that server.
    Unacknowledged,
    /// No server has said it in time.
    Time,
    /// Too many are being asked for.
    Busy,
}

impl Unknown {
    /// The reason in words, for a client.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoMark => "its connection had no mark",
            Self::Statement => "the statement is not of a kind that can be looked for",
            Self::Doubt => "an earlier statement failed there and may have committed something",
            Self::Rights => "the server did not let its account end the connection",
            Self::NotLogged => "the server does not log everything",
            Self::History => "the server lacks transactions that it had told of",
            Self::Unacknowledged => "the server waits for replicas, and may have it alone",
            Self::Time => "no server has said it in time",
            Self::Busy => "too many are being asked for",
        }
    }
}
