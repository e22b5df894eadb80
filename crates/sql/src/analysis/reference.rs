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
    /// Every name that the text may compute with is in `tables`, though it may not be whole: that
    /// of a table which is made of a query's rows is not known to anybody.
    pub(super) names_found: bool,
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

    /// Where `is_found` is false, names may be missing.
    pub(super) fn weigh(&mut self, is_found: bool) {
        self.is_whole &= is_found;
        self.names_found &= is_found;
    }
}

/// What was found of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Its form is understood.
    pub(super) is_whole: bool,
    /// All names are found that it may compute with.
    pub(super) has_names: bool,
}

/// The references of a text in the making, statement by statement.
#[derive(Debug)]
pub(super) struct Collector {
    found: References,
    /// A statement before changed how names are read, or where those without a schema are.
    is_moved: bool,
    /// A statement before may have changed what a name means to the server.
    is_renamed: bool,
}

impl Collector {
    pub(super) fn new() -> Self {
        let found = References { tables: Vec::new(), is_whole: true, names_found: true };
        Self { found, is_moved: false, is_renamed: false }
    }

    /// Reads the statement that begins here. What it did not understand stays so for the text.
    pub(super) fn statement(&mut self, tokens: &Tokens<'_>) -> Found {
        let read = statement::read(tokens, &mut self.found);
        let is_whole = read.is_some_and(|read| read.is_whole);
        self.found.is_whole &= is_whole && !self.is_moved;
        self.is_moved |= read.is_some_and(|read| read.moves_names);
        Found { is_whole, has_names: read.is_some() && !self.is_renamed }
    }

    /// The statement that was read last may compute with names that are not found.
    pub(super) fn misses(&mut self) {
        self.found.names_found = false;
    }

    /// What follows may not mean what the catalog says.
    pub(super) fn renames(&mut self) {
        self.is_renamed = true;
    }

    pub(super) fn finish(self) -> References {
        self.found
    }
}
