//! Binary logs of MySQL and MariaDB: the commands that ask for one, its events, and what
//! transactions have changed.
//!
//! Reading order: [`request`] (commands), [`frames`] (bytes to events), [`event`] (what an event
//! says), [`decode`] (bytes of an event to what it says), `rows` and `payload` (what they are
//! made of), [`change`] (events to transactions), [`executed`] (which transactions, and their
//! form on the wire), [`history`] (the last changes), [`told`] (what followers are told).
//!
//! Only tables and numbers of rows are read, never what is in the rows. No event proves that its
//! transaction can be read: servers send it before their engines have committed.
#![forbid(unsafe_code)]

pub mod change;
pub mod decode;
pub mod event;
pub mod executed;
pub mod frames;
pub mod history;
pub mod request;
pub mod told;

mod crc;
mod payload;
mod rows;
#[cfg(test)]
mod tests;
mod varlen;

pub use change::{Change, Changes, StatementChange, TableChange};
pub use decode::Decoder;
pub use event::{Event, Gtid, Kind, RowChange};
pub use executed::{Executed, Family};
pub use frames::Frames;
pub use history::{History, Lacks};
pub use told::{NotTold, Told};

use thiserror::Error;
use trunkline_protocol::Malformed;

/// The longest event that is held, bytes; of a longer one only the beginning is read.
pub const EVENT_HELD_MAX: usize = 16 << 20;
/// The most bytes that a compressed event may hold; what is in a longer one is not read.
pub const PLAIN_LEN_MAX: usize = 64 << 20;
/// The most tables that are described at a time, and that one transaction names.
pub const TABLES_MAX: usize = 4_096;

/// Why a stream of events can't be read on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BinlogError {
    /// An event has not the form of its type.
    #[error("an event is malformed: {0}")]
    Malformed(&'static str),
    /// The checksum of an event of this type is wrong.
    #[error("the checksum of an event of type {0} is wrong")]
    Checksum(u8),
    /// A packet has a number that does not follow on the last one.
    #[error("packet {came} came where {expected} was expected")]
    Sequence {
        /// Its number.
        came: u8,
        /// That of the next packet.
        expected: u8,
    },
    /// What is compressed does not unpack, or is longer than it says.
    #[error("a compressed event is corrupt")]
    Corrupt,
    /// Rows of a table that no event has described.
    #[error("rows of table {0}, which was not described")]
    UnknownTable(u64),
    /// More than [`TABLES_MAX`] tables are described at a time.
    #[error("more than {TABLES_MAX} tables in one statement")]
    TooManyTables,
    /// Not version 4 of the binary log.
    #[error("version {0} of the binary log is not supported")]
    Version(u16),
    /// The server has refused the stream, or ended it.
    #[error("error {code}: {message}")]
    Refused {
        /// MySQL's number; 1236 when what was asked for is not there.
        code: u16,
        /// The server's text.
        message: String,
    },
    /// The server has ended the stream.
    #[error("the server has ended the stream")]
    Ended,
}

impl From<Malformed> for BinlogError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}
