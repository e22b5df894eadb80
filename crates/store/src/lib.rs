//! The embedded database of the admin port: ProxySQL's tables, their layers, and the files that
//! they are kept in. The only user of SQLite.
//!
//! Reading order: [`tables`] (every table, once), [`module`] (what `LOAD` and `SAVE` move),
//! [`open`](mod@open) (from a folder to a [`Store`]), [`access`] (who may do what), [`run`]
//! (statements of users), [`layers`] (copies between layers, all or nothing), [`history`]
//! (revisions), [`foreign`] (ProxySQL's database), [`functions`] (ProxySQL's SQL functions).
//!
//! Sources: ProxySQL's documentation of its admin tables; SQLite's "Write-Ahead Logging".
#![forbid(unsafe_code)]

pub mod tables;

pub mod module;

pub mod open;

pub mod access;

pub mod run;

pub mod layers;

pub mod history;

pub mod foreign;

mod error;
mod functions;
mod saved;

pub use access::Access;
pub use error::{SqlError, StoreError};
pub use history::{Revision, RevisionRow};
pub use layers::{Chosen, Difference, Layer, StoredRow};
pub use module::Module;
pub use open::{Place, Store, VariableCheck};
pub use run::{Answer, Column, ColumnKind, Limits, Prepared, RowSet};
pub use rusqlite::types::{Value, ValueRef};
