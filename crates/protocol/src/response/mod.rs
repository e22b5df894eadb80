//! Responses: where an answer ends, and its relay from a server's framing to a client's.
//!
//! Reading order: [`Relay`] (one response from its first byte to its last), `answer` (what each
//! packet that must be understood means), `pass` and `run` (how bytes get to the client in few
//! copies), [`Outcome`] (what the proxy learns), [`mod@write`] (replies that the proxy makes
//! itself), `metadata` (definitions that a client has, or in another form).
//!
//! | shape | packets, without and with `CLIENT_DEPRECATE_EOF` |
//! |---|---|
//! | single | OK, EOF or ERR |
//! | text | one packet of text, or ERR |
//! | query | OK, ERR or LOCAL INFILE |
//! | or | column count, definitions, EOF, rows, EOF / the same with OK (0xFE) at the end only |
//! | field list | definitions, EOF / definitions, OK (0xFE) |
//! | prepare | `PREPARE_OK`, parameters, EOF, columns, EOF / the same without EOF |
//! | fetch | rows, EOF / rows, OK (0xFE) |
//!
//! Where a side has [`ReplyFormat::has_metadata_flag`] its column counts say whether definitions
//! follow; without them the rest is the same, EOF included.
//!
//! A query's response goes on with another result while the status says `MORE_RESULTS`.

mod answer;
mod metadata;
mod outcome;
mod pass;
mod plain;
mod relay;
mod run;
mod stage;
pub mod write;

#[cfg(test)]
mod tests;

pub use crate::packet::ok::ReplyFormat;
pub use metadata::ClientColumns;
pub use outcome::{ErrorInstead, Outcome, Prepared, ServerError};
pub use relay::{Fed, Relay};

/// What a command's response looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseShape {
    /// OK, EOF or ERR: `COM_PING`, `COM_INIT_DB`, `COM_RESET_CONNECTION`, `COM_SET_OPTION`,
    /// `COM_STMT_RESET`.
    Single,
    /// One packet of text, or ERR: `COM_STATISTICS`.
    Text,
    /// OK, ERR, a request for a local file, or result sets: `COM_QUERY`, `COM_STMT_EXECUTE`,
    /// `COM_STMT_BULK_EXECUTE`, `COM_PROCESS_INFO`.
    Query,
    /// Column definitions up to a terminator: `COM_FIELD_LIST`.
    FieldList,
    /// A statement id, parameters and columns: `COM_STMT_PREPARE`.
    Prepare,
    /// Rows up to a terminator: `COM_STMT_FETCH`.
    Fetch,
    /// Nothing: `COM_STMT_CLOSE`, `COM_STMT_SEND_LONG_DATA`, `COM_QUIT`.
    None,
}
