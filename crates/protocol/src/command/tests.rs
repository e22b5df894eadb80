use proptest::prelude::*;

use super::*;

#[test]
fn every_command_decodes_from_its_bytes() {
    let check = |payload: &[u8], expected: Command<'_>, name: &str| {
        assert_eq!(Command::decode(payload), Ok(expected));
        assert_eq!((expected.name(), expected.code()), (name, payload[0]));
    };
    check(b"\x01", Command::Quit, "COM_QUIT");
    check(b"\x02db", Command::InitDb(b"db"), "COM_INIT_DB");
    check(b"\x03SELECT 1", Command::Query(b"SELECT 1"), "COM_QUERY");
    check(b"\x03", Command::Query(b""), "COM_QUERY");
    let list = Command::FieldList { table: b"t", wildcard: b"a%" };
    check(b"\x04t\0a%", list, "COM_FIELD_LIST");
    check(b"\x05db", Command::CreateDb(b"db"), "COM_CREATE_DB");
    check(b"\x06db", Command::DropDb(b"db"), "COM_DROP_DB");
    check(b"\x07\x40", Command::Refresh(0x40), "COM_REFRESH");
    check(b"\x08\x00", Command::Shutdown, "COM_SHUTDOWN");
    check(b"\x09", Command::Statistics, "COM_STATISTICS");
    check(b"\x0A", Command::ProcessInfo, "COM_PROCESS_INFO");
    check(b"\x0C\x01\x02\0\0", Command::ProcessKill(513), "COM_PROCESS_KILL");
    check(b"\x0D", Command::Debug, "COM_DEBUG");
    check(b"\x0E", Command::Ping, "COM_PING");
    check(b"\x11u\0\0\0", Command::ChangeUser(b"u\0\0\0"), "COM_CHANGE_USER");
    check(b"\x12x", Command::BinlogDump(b"x"), "COM_BINLOG_DUMP");
    check(b"\x13x", Command::TableDump(b"x"), "COM_TABLE_DUMP");
    check(b"\x15x", Command::RegisterSlave(b"x"), "COM_REGISTER_SLAVE");
    check(b"\x1B\x01\0", Command::SetOption(1), "COM_SET_OPTION");
    check(b"\x1Ex", Command::BinlogDumpGtid(b"x"), "COM_BINLOG_DUMP_GTID");
    check(b"\x1F", Command::ResetConnection, "COM_RESET_CONNECTION");
}

#[test]
fn statement_commands_carry_their_ids() {
    let check = |payload: &[u8], expected: Command<'_>, name: &str| {
        assert_eq!(Command::decode(payload), Ok(expected));
        assert_eq!((expected.name(), expected.code()), (name, payload[0]));
        let id_end = if payload[0] == 0x16 { 0 } else { 5 };
        for end in 1..id_end {
            let cut = Command::decode(&payload[..end]);
            assert_eq!(cut, Err(Malformed("statement id")), "{name} {end}");
        }
    };
    let stmt_id = 258;
    check(b"\x16SELECT ?", Command::StmtPrepare(b"SELECT ?"), "COM_STMT_PREPARE");
    let execute = Command::StmtExecute { stmt_id, raw: b"\0\x01\0\0\0" };
    check(b"\x17\x02\x01\0\0\0\x01\0\0\0", execute, "COM_STMT_EXECUTE");
    let long = Command::StmtSendLongData { stmt_id, parameter: 3, data: b"abc" };
    check(b"\x18\x02\x01\0\0\x03\0abc", long, "COM_STMT_SEND_LONG_DATA");
    check(b"\x19\x02\x01\0\0", Command::StmtClose { stmt_id }, "COM_STMT_CLOSE");
    check(b"\x1A\x02\x01\0\0", Command::StmtReset { stmt_id }, "COM_STMT_RESET");
    let fetch = Command::StmtFetch { stmt_id, rows: 10 };
    check(b"\x1C\x02\x01\0\0\x0A\0\0\0", fetch, "COM_STMT_FETCH");
    let bulk = Command::StmtBulkExecute { stmt_id, raw: b"\x80\0" };
    check(b"\xFA\x02\x01\0\0\x80\0", bulk, "COM_STMT_BULK_EXECUTE");
}

#[test]
fn truncated_commands_are_malformed() {
    for payload in [
        &b""[..],
        b"\x04t",
        b"\x07",
        b"\x0C\x01\x02\0",
        b"\x1B\x01",
        b"\x18\x02\x01\0\0\x03",
        b"\x1C\x02\x01\0\0\x0A\0\0",
    ] {
        assert!(Command::decode(payload).is_err(), "{payload:?}");
    }
}

#[test]
fn only_three_commands_go_unanswered() {
    for code in 0..=u8::MAX {
        let payload = [code, 0, 0, 0, 0, 0, 0, 0, 0];
        let command = Command::decode(&payload).expect("long enough for every command");
        assert_eq!(command.code(), code);
        assert_eq!(command.expects_response(), !matches!(code, 0x01 | 0x18 | 0x19));
    }
}

#[test]
fn other_codes_are_unknown() {
    for code in [0x00, 0x0B, 0x0F, 0x10, 0x14, 0x1D, 0x20, 0xFE, 0xFF] {
        assert_eq!(Command::decode(&[code, 1]), Ok(Command::Unknown(code)));
    }
    assert_eq!(Command::Unknown(0).name(), "COM_UNKNOWN");
}

proptest! {
    #[test]
    fn random_bytes_decode_or_are_malformed(payload in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(command) = Command::decode(&payload) {
            prop_assert_eq!(Some(&command.code()), payload.first());
        }
    }
}
