//! What goes into the archive for a bug report (`trunkline bundle`), without secrets.
//!
//! Reading order: [`Secrets`] (what is taken out of a text), [`rows_text`] (tables as text, without
//! the columns that hold secrets), [`LogLines`] (the last lines of the log).

mod lines;
mod rows;
mod secrets;

pub use lines::LogLines;
pub use rows::{note_secrets, rows_text};
pub use secrets::{Secrets, without_literals, without_quoted};

/// One file of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its path below the archive's folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Part {
    /// A file with this text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}
