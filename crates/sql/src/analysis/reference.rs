//! Which tables a text names.
//!
//! Every form that is not on the list of those that are understood makes the whole text one whose
//! names are not known. A name too many does no harm, a name too few is a broken promise.

mod clause;
mod frame;
mod scan;
mod statement;
mod table;

#[cfg(test)]
mod tests;

use super::TableName;
use crate::token::Tokens;

/// The most names of one text that are kept. A text with more is not whole.
pub const REFERENCES_MAX: usize = 64;

/// The tables, views and sequences that a text uses by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    /// Each name once for each kind of use, in order of appearance. Names of common table
    /// expressions are not among them. What `SHOW` describes is used on MariaDB only.
    pub tables: Vec<TableUse>,
    /// The text is of a form whose every name is certainly found: a table that it uses is in
    /// `tables`. False for any form that is not on the list of those that are understood.
    pub is_whole: bool,
}

/// One name and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableUse {
    /// The name, without quotes.
    pub name: TableName,
    /// What is done with it.
    pub access: TableAccess,
}

/// What a text does with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableAccess {
    /// It reads rows.
    Read,
    /// It may change rows, and read them.
    Write,
}

impl References {
    /// Adds a name, unless it is there already. `None` if there is no room for it.
    fn add(&mut self, name: TableName, access: TableAccess) -> Option<()> {
        let used = TableUse { name, access };
        if self.tables.contains(&used) {
            return Some(());
        }
        if self.tables.len() >= REFERENCES_MAX {
            return None;
        }
        self.tables.push(used);
        Some(())
    }
}

/// The references of a text in the making, statement by statement.
#[derive(Debug)]
pub(super) struct Collector {
    found: References,
    /// A statement before changed how names are read, or where those without a schema are.
    is_moved: bool,
}

impl Collector {
    pub(super) fn new() -> Self {
        let found = References { tables: Vec::new(), is_whole: true };
        Self { found, is_moved: false }
    }

    /// Reads the statement that begins here. What it did not understand stays so for the text.
    pub(super) fn statement(&mut self, tokens: &Tokens<'_>) {
        if self.found.is_whole {
            let read = statement::read(tokens, &mut self.found);
            self.found.is_whole &= read.is_some() && !self.is_moved;
            self.is_moved |= read.is_some_and(|read| read.moves_names);
        }
    }

    pub(super) fn finish(self) -> References {
        self.found
    }
}
