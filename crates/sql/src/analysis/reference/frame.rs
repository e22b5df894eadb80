//! Where in a statement the scan stands.

use super::TableAccess;

/// What a pair of parentheses holds, or the statement itself.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) state: State,
    /// What is done with the tables of its list.
    pub(super) access: TableAccess,
    /// How many common table expressions were visible before it.
    pub(super) visible: usize,
    /// The common table expression that it defines.
    pub(super) defines: Option<Definition>,
    /// `WITH RECURSIVE` stands in it.
    pub(super) is_recursive: bool,
}

/// A common table expression in the making.
#[derive(Debug)]
pub(super) enum Definition {
    /// It sees itself.
    Recursive,
    /// It is seen by what follows.
    Named(Vec<u8>),
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// A query, and nothing else: the beginning of a statement, behind `UNION` and its like.
    Query,
    /// A query or an expression: behind a parenthesis.
    Open,
    /// A query or a list of tables: behind a parenthesis where a table may stand.
    OpenTables,
    /// A table.
    Table,
    /// The words behind a table, conditions of joins, a comma and the next table.
    Tables,
    /// What a `SELECT` asks for, up to its `FROM`.
    Items,
    /// Behind the list of tables, or where there is none: expressions and clauses.
    Rest,
    /// The arguments of a function and the like: its `FROM` has no tables.
    Arguments,
    /// Behind the table of `INSERT`: its columns, rows or query.
    Source,
    /// Behind a common table expression.
    Defined,
}

impl State {
    /// Whether the parenthesis or the statement may end here.
    pub(super) fn may_end(self) -> bool {
        match self {
            Self::Query | Self::OpenTables | Self::Table | Self::Defined => false,
            Self::Open
            | Self::Tables
            | Self::Items
            | Self::Rest
            | Self::Arguments
            | Self::Source => true,
        }
    }
}

impl Frame {
    pub(super) fn new(state: State, visible: usize) -> Self {
        Self { state, access: TableAccess::Read, visible, defines: None, is_recursive: false }
    }
}
