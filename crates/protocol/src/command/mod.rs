//! What a client asks: the first byte of a command's payload, and its arguments.
//!
//! Decoding borrows from the payload and copies nothing; it runs for every statement.
//! Sources: MySQL internals "Command Phase", MariaDB knowledge base "COM_STMT_BULK_EXECUTE".

pub mod attributes;
pub mod code;
pub mod execute;
pub mod values;

use crate::codec::{Malformed, Reader};

/// A command, borrowed from its payload.
///
/// A body that is `raw` is everything after the arguments named beside it (or after the
/// command's code).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// Ends the connection; nothing answers.
    Quit,
    /// Makes a schema the default one.
    InitDb(&'a [u8]),
    /// Runs statements. With `QUERY_ATTRIBUTES` the text is preceded by the attributes.
    Query(&'a [u8]),
    /// Lists a table's columns.
    FieldList {
        /// Table name.
        table: &'a [u8],
        /// Pattern of column names, as in `LIKE`; empty for all.
        wildcard: &'a [u8],
    },
    /// Makes a schema; servers have dropped it.
    CreateDb(&'a [u8]),
    /// Drops a schema; servers have dropped it.
    DropDb(&'a [u8]),
    /// Flushes what the bits name.
    Refresh(u8),
    /// Stops the server.
    Shutdown,
    /// A line of statistics as text.
    Statistics,
    /// The process list as rows.
    ProcessInfo,
    /// Kills a connection by the server's number for it.
    ProcessKill(u32),
    /// Writes debug information to the server's log.
    Debug,
    /// Asks whether the server lives.
    Ping,
    /// Becomes another user; see [`ChangeUser`](crate::packet::change_user::ChangeUser).
    ChangeUser(&'a [u8]),
    /// Streams the binary log from a position.
    BinlogDump(&'a [u8]),
    /// Streams the binary log from a GTID set.
    BinlogDumpGtid(&'a [u8]),
    /// Dumps a table; servers have dropped it.
    TableDump(&'a [u8]),
    /// Makes the connection known as a replica's.
    RegisterSlave(&'a [u8]),
    /// Prepares a statement.
    StmtPrepare(&'a [u8]),
    /// Runs a prepared statement.
    StmtExecute {
        /// Statement; MariaDB takes `0xFFFF_FFFF` for the last one prepared.
        stmt_id: u32,
        /// Flags, iteration count and parameters.
        raw: &'a [u8],
    },
    /// A piece of a long parameter; nothing answers.
    StmtSendLongData {
        /// Statement.
        stmt_id: u32,
        /// Number of the parameter, from 0.
        parameter: u16,
        /// The piece.
        data: &'a [u8],
    },
    /// Closes a prepared statement; nothing answers.
    StmtClose {
        /// Statement.
        stmt_id: u32,
    },
    /// Drops a statement's long data and closes its cursor.
    StmtReset {
        /// Statement.
        stmt_id: u32,
    },
    /// Fetches rows from a statement's cursor.
    StmtFetch {
        /// Statement.
        stmt_id: u32,
        /// The most rows wanted.
        rows: u32,
    },
    /// MariaDB: runs a prepared statement for many rows of parameters.
    StmtBulkExecute {
        /// Statement.
        stmt_id: u32,
        /// Flags and parameters.
        raw: &'a [u8],
    },
    /// Turns multi-statements on (0) or off (1).
    SetOption(u16),
    /// Brings the session back to its state after login.
    ResetConnection,
    /// Any other code, the ones that servers only use inside themselves among them.
    Unknown(u8),
}

impl<'a> Command<'a> {
    /// Reads a command's payload; of one longer than a packet, the first packet's is enough for
    /// everything but the length of the last field.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let (&code, body) = payload.split_first().ok_or(Malformed("command code"))?;
        // The command of ordinary traffic first; the rest stays out of the caller's code.
        match code {
            code::QUERY => Ok(Self::Query(body)),
            _ => Self::decode_rare(code, body),
        }
    }

    #[inline(never)]
    fn decode_rare(code: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        Ok(match code {
            code::QUIT => Self::Quit,
            code::INIT_DB => Self::InitDb(body),
            code::FIELD_LIST => {
                let table = reader.nul_str("table")?;
                Self::FieldList { table, wildcard: reader.rest() }
            }
            code::CREATE_DB => Self::CreateDb(body),
            code::DROP_DB => Self::DropDb(body),
            code::REFRESH => Self::Refresh(reader.u8("refresh bits")?),
            code::SHUTDOWN => Self::Shutdown,
            code::STATISTICS => Self::Statistics,
            code::PROCESS_INFO => Self::ProcessInfo,
            code::PROCESS_KILL => Self::ProcessKill(reader.u32("connection id")?),
            code::DEBUG => Self::Debug,
            code::PING => Self::Ping,
            code::CHANGE_USER => Self::ChangeUser(body),
            code::BINLOG_DUMP => Self::BinlogDump(body),
            code::BINLOG_DUMP_GTID => Self::BinlogDumpGtid(body),
            code::TABLE_DUMP => Self::TableDump(body),
            code::REGISTER_SLAVE => Self::RegisterSlave(body),
            code::SET_OPTION => Self::SetOption(reader.u16("option")?),
            code::RESET_CONNECTION => Self::ResetConnection,
            _ => return Self::decode_statement(code, body),
        })
    }

    fn decode_statement(code: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        Ok(match code {
            code::STMT_PREPARE => Self::StmtPrepare(body),
            code::STMT_EXECUTE => {
                let stmt_id = reader.u32("statement id")?;
                Self::StmtExecute { stmt_id, raw: reader.rest() }
            }
            code::STMT_BULK_EXECUTE => {
                let stmt_id = reader.u32("statement id")?;
                Self::StmtBulkExecute { stmt_id, raw: reader.rest() }
            }
            code::STMT_SEND_LONG_DATA => {
                let stmt_id = reader.u32("statement id")?;
                let parameter = reader.u16("parameter")?;
                Self::StmtSendLongData { stmt_id, parameter, data: reader.rest() }
            }
            code::STMT_CLOSE => Self::StmtClose { stmt_id: reader.u32("statement id")? },
            code::STMT_RESET => Self::StmtReset { stmt_id: reader.u32("statement id")? },
            code::STMT_FETCH => {
                let stmt_id = reader.u32("statement id")?;
                Self::StmtFetch { stmt_id, rows: reader.u32("rows")? }
            }
            code => Self::Unknown(code),
        })
    }

    /// The first byte of the command's payload.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Quit => code::QUIT,
            Self::InitDb(_) => code::INIT_DB,
            Self::Query(_) => code::QUERY,
            Self::FieldList { .. } => code::FIELD_LIST,
            Self::CreateDb(_) => code::CREATE_DB,
            Self::DropDb(_) => code::DROP_DB,
            Self::Refresh(_) => code::REFRESH,
            Self::Shutdown => code::SHUTDOWN,
            Self::Statistics => code::STATISTICS,
            Self::ProcessInfo => code::PROCESS_INFO,
            Self::ProcessKill(_) => code::PROCESS_KILL,
            Self::Debug => code::DEBUG,
            Self::Ping => code::PING,
            Self::ChangeUser(_) => code::CHANGE_USER,
            Self::BinlogDump(_) => code::BINLOG_DUMP,
            Self::BinlogDumpGtid(_) => code::BINLOG_DUMP_GTID,
            Self::TableDump(_) => code::TABLE_DUMP,
            Self::RegisterSlave(_) => code::REGISTER_SLAVE,
            Self::StmtPrepare(_) => code::STMT_PREPARE,
            Self::StmtExecute { .. } => code::STMT_EXECUTE,
            Self::StmtSendLongData { .. } => code::STMT_SEND_LONG_DATA,
            Self::StmtClose { .. } => code::STMT_CLOSE,
            Self::StmtReset { .. } => code::STMT_RESET,
            Self::StmtFetch { .. } => code::STMT_FETCH,
            Self::StmtBulkExecute { .. } => code::STMT_BULK_EXECUTE,
            Self::SetOption(_) => code::SET_OPTION,
            Self::ResetConnection => code::RESET_CONNECTION,
            Self::Unknown(code) => *code,
        }
    }

    /// The protocol's name, such as `COM_QUERY`; `COM_UNKNOWN` for [`Command::Unknown`].
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Quit => "COM_QUIT",
            Self::InitDb(_) => "COM_INIT_DB",
            Self::Query(_) => "COM_QUERY",
            Self::FieldList { .. } => "COM_FIELD_LIST",
            Self::CreateDb(_) => "COM_CREATE_DB",
            Self::DropDb(_) => "COM_DROP_DB",
            Self::Refresh(_) => "COM_REFRESH",
            Self::Shutdown => "COM_SHUTDOWN",
            Self::Statistics => "COM_STATISTICS",
            Self::ProcessInfo => "COM_PROCESS_INFO",
            Self::ProcessKill(_) => "COM_PROCESS_KILL",
            Self::Debug => "COM_DEBUG",
            Self::Ping => "COM_PING",
            Self::ChangeUser(_) => "COM_CHANGE_USER",
            Self::BinlogDump(_) => "COM_BINLOG_DUMP",
            Self::BinlogDumpGtid(_) => "COM_BINLOG_DUMP_GTID",
            Self::TableDump(_) => "COM_TABLE_DUMP",
            Self::RegisterSlave(_) => "COM_REGISTER_SLAVE",
            Self::StmtPrepare(_) => "COM_STMT_PREPARE",
            Self::StmtExecute { .. } => "COM_STMT_EXECUTE",
            Self::StmtSendLongData { .. } => "COM_STMT_SEND_LONG_DATA",
            Self::StmtClose { .. } => "COM_STMT_CLOSE",
            Self::StmtReset { .. } => "COM_STMT_RESET",
            Self::StmtFetch { .. } => "COM_STMT_FETCH",
            Self::StmtBulkExecute { .. } => "COM_STMT_BULK_EXECUTE",
            Self::SetOption(_) => "COM_SET_OPTION",
            Self::ResetConnection => "COM_RESET_CONNECTION",
            Self::Unknown(_) => "COM_UNKNOWN",
        }
    }

    /// Whether a server answers the command at all.
    pub const fn expects_response(&self) -> bool {
        !matches!(self, Self::Quit | Self::StmtSendLongData { .. } | Self::StmtClose { .. })
    }
}

#[cfg(test)]
mod tests;
