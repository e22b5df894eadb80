//! What an event says.

use std::{fmt, sync::Arc};

use trunkline_topology::gtid::{GtidSet, Origin, Position};

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'a> {
    /// When it was made on its server, Unix seconds; 0 for those that only the stream has.
    pub at_sec: u32,
    /// The `server_id` of who has made it.
    pub server: u32,
    /// The position behind it in its file, modulo 2^32; 0 where it is in no file, or in a
    /// compressed transaction.
    pub end: u32,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What an event is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind<'a> {
    /// How events are written from here on.
    Format {
        /// The server's version.
        version: &'a [u8],
        /// Whether events have checksums.
        has_checksums: bool,
    },
    /// The file that goes on.
    Rotate {
        /// Its name.
        file: &'a [u8],
        /// Where in it.
        position: u64,
    },
    /// A transaction begins.
    Begin(Begin),
    /// All that was in earlier files, on MySQL.
    Previous(GtidSet),
    /// The last transaction of each domain in earlier files, on MariaDB.
    List(Position),
    /// A statement.
    Query {
        /// The schema that it ran in.
        schema: &'a [u8],
        /// The statement; when the event was too long, its beginning.
        statement: &'a [u8],
    },
    /// Rows of a table.
    Rows(Rows),
    /// The transaction is committed.
    Commit,
    /// The transaction is prepared, as part of one that another one ends.
    Prepare,
    /// A part of a transaction that was too long to be read.
    Unread,
    /// The server has nothing to send.
    Heartbeat,
    /// The server lost something that is not in its log.
    Incident,
    /// Nothing of interest.
    Other(u8),
}

/// The beginning of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// Which one; `None` where transactions have no numbers.
    pub gtid: Option<Gtid>,
    /// One statement follows, and no commit (MariaDB).
    pub is_standalone: bool,
    /// When it was committed on its first server, Unix microseconds, where the event says so
    /// (MySQL).
    pub committed_us: Option<u64>,
}

/// The number of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gtid {
    /// Whose numbers these are.
    pub origin: Origin,
    /// The `server_id` of who committed it first; MariaDB's numbers contain it.
    pub server: u32,
    /// The number.
    pub number: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Server(..) => write!(f, "{}:{}", self.origin, self.number),
            Origin::Domain(domain) => write!(f, "{domain}-{}-{}", self.server, self.number),
        }
    }
}

/// Rows that were changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Where.
    pub table: Arc<TableName>,
    /// How.
    pub change: RowChange,
    /// How many; `None` when the event was too long, or has a type of column that is not known.
    pub count: Option<u64>,
}

/// A table by its names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
}

/// How rows were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowChange {
    /// They are new.
    Insert,
    /// They are different.
    Update,
    /// They are gone.
    Delete,
}
