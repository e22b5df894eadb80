//! What those are told who follow changes.

use std::{fmt, sync::Arc};

use crate::Change;

/// The next thing that is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A transaction.
    Change {
        /// What it has changed.
        change: Arc<Change>,
        /// All that has been told so far, as a GTID set or a position: from there it goes on later.
        position: String,
    },
    /// What came between is not known.
    Gap {
        /// From where it goes on.
        position: String,
        /// Why.
        reason: String,
    },
}

/// Why nothing is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTold {
    /// There is no such cluster, or it has no stream.
    Unknown(String),
    /// It is not known yet what the cluster has.
    NotYet(String),
    /// What was asked for is wrong.
    Wrong(String),
    /// Too many ask.
    Full(String),
}

impl fmt::Display for NotTold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) | Self::NotYet(text) | Self::Wrong(text) | Self::Full(text) => {
                f.write_str(text)
            }
        }
    }
}
