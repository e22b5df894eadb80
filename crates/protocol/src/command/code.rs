//! The commands' codes. Source: MySQL `include/my_command.h`; MariaDB knowledge base "Commands".

#![expect(missing_docs, reason = "the names are MySQL's")]

pub const QUIT: u8 = 0x01;
pub const INIT_DB: u8 = 0x02;
pub const QUERY: u8 = 0x03;
pub const FIELD_LIST: u8 = 0x04;
pub const CREATE_DB: u8 = 0x05;
pub const DROP_DB: u8 = 0x06;
pub const REFRESH: u8 = 0x07;
pub const SHUTDOWN: u8 = 0x08;
pub const STATISTICS: u8 = 0x09;
pub const PROCESS_INFO: u8 = 0x0A;
pub const PROCESS_KILL: u8 = 0x0C;
pub const DEBUG: u8 = 0x0D;
pub const PING: u8 = 0x0E;
pub const CHANGE_USER: u8 = crate::packet::change_user::COM_CHANGE_USER;
pub const BINLOG_DUMP: u8 = 0x12;
pub const TABLE_DUMP: u8 = 0x13;
pub const REGISTER_SLAVE: u8 = 0x15;
pub const STMT_PREPARE: u8 = 0x16;
pub const STMT_EXECUTE: u8 = 0x17;
pub const STMT_SEND_LONG_DATA: u8 = 0x18;
pub const STMT_CLOSE: u8 = 0x19;
pub const STMT_RESET: u8 = 0x1A;
pub const SET_OPTION: u8 = 0x1B;
pub const STMT_FETCH: u8 = 0x1C;
pub const BINLOG_DUMP_GTID: u8 = 0x1E;
pub const RESET_CONNECTION: u8 = 0x1F;
pub const STMT_BULK_EXECUTE: u8 = 0xFA;
