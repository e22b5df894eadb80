//! The server status flags that OK and EOF packets carry.
//!
//! Source: MySQL `mysql_com.h`, enum `SERVER_STATUS_flags_enum`.

/// A transaction is open.
pub const IN_TRANS: u16 = 0x0001;
/// Autocommit is on.
pub const AUTOCOMMIT: u16 = 0x0002;
/// Another result follows in the same response.
pub const MORE_RESULTS: u16 = 0x0008;
/// No good index was used.
pub const NO_GOOD_INDEX_USED: u16 = 0x0010;
/// No index was used.
pub const NO_INDEX_USED: u16 = 0x0020;
/// A cursor was opened; its rows are to be fetched.
pub const CURSOR_EXISTS: u16 = 0x0040;
/// The cursor has no more rows.
pub const LAST_ROW_SENT: u16 = 0x0080;
/// A schema was dropped.
pub const DB_DROPPED: u16 = 0x0100;
/// A backslash is an ordinary character in strings.
pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
/// A prepared statement was prepared again and its columns changed.
pub const METADATA_CHANGED: u16 = 0x0400;
/// The statement took longer than `long_query_time`.
pub const QUERY_WAS_SLOW: u16 = 0x0800;
/// The result set holds the OUT parameters of a procedure.
pub const PS_OUT_PARAMS: u16 = 0x1000;
/// The open transaction is read-only.
pub const IN_TRANS_READONLY: u16 = 0x2000;
/// The OK packet carries session state changes.
pub const SESSION_STATE_CHANGED: u16 = 0x4000;
/// Double quotes enclose names (MariaDB, `SERVER_STATUS_ANSI_QUOTES`).
pub const ANSI_QUOTES: u16 = 0x8000;
/// What tells how the session's texts are read, by its `sql_mode`.
pub const READING: u16 = NO_BACKSLASH_ESCAPES | ANSI_QUOTES;
