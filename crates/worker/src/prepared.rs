//! Prepared statements by command: a client's statement lives in the proxy, and is prepared on
//! whichever server connection serves it.
//!
//! Three parties hold a statement. A client's session has [`ClientStmt`]s under ids of its own.
//! What they have in common with those of other clients is an [`Entry`]: the text, and how it is
//! to be read. Each server connection has a bounded list of what is prepared on it,
//! [`ServerStmts`], under the server's ids.
//!
//! | file | |
//! |---|---|
//! | `entry` | the table of entries |
//! | `reading` | which part of a session's state decides what a text means |
//! | `client_stmts` | a session's statements, long data, the types that its driver sent |
//! | `columns` | definitions that clients keep |
//! | `server_stmts` | a connection's statements, least recently used last |
//! | `command` | what clients ask |
//! | `send` | a statement is prepared where it is missing, and run |
//! | `outcome` | what came of it |
//! | `moved` | statements of a session that moves to another worker |
//!
//! Why it is made so: `docs/decisions/0012`.

mod client_stmts;
mod columns;
mod entry;
mod moved;
pub(crate) mod outcome;
mod reading;
mod send;
mod server_stmts;

pub(crate) use crate::commands::prepared::{Run, is_unanswered, may_compute};
pub(crate) use client_stmts::{Came, ClientStmt, ClientStmts, LongDataError};
pub(crate) use columns::know_columns;
pub(crate) use entry::{Entries, Entry, EntryKey};
pub(crate) use moved::MovedStmts;
use reading::{Beside, state_for};
pub(crate) use reading::{Contents, Reading};
pub(crate) use send::{put_statement, runs_among_others};
pub(crate) use server_stmts::{Fit, Last, ServerStmts};

#[cfg(test)]
mod tests;
