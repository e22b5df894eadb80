//! What is said to the operator.

use std::fmt;

/// How dangerous something is; the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Danger {
    /// Data may be lost or diverge, or nobody is served.
    Severe,
    /// Something fails sooner or later, or under load.
    Warning,
    /// It works; something else would work better.
    Note,
}

impl Danger {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Severe => "danger",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Danger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How dangerous it is.
    pub danger: Danger,
    /// What it is about: a server's address, `machine`, `configuration`, a cluster.
    pub about: String,
    /// What is so, and what comes of it.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    /// A finding of these words.
    pub fn new(
        danger: Danger,
        about: impl Into<String>,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { danger, about: about.into(), what: what.into(), advice: advice.into() }
    }
}
