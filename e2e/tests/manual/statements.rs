//! Statements of the manual's table: what a session asks about itself and its past, and what it
//! sets beside its own state. Each runs directly and through the proxy, where another session uses
//! the same connections in between, and both must see the same.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Row, Server, SqlClient, Trunkline, error_code};

use super::Fate::{self, Absent, Pins, Refused, Works};
use crate::stage::{FLAVOURS, PASSWORD, USER, before, client, new_schema, wait_pins};

/// A statement, what goes before it, and what becomes of it.
pub struct Statement {
    pub begin: &'static [&'static str],
    pub text: &'static str,
    /// Whether the rows are compared with those of a direct connection.
    is_compared: bool,
    /// On MariaDB and on MySQL.
    pub fates: [Fate; 2],
}

const fn same(begin: &'static [&'static str], text: &'static str, fates: [Fate; 2]) -> Statement {
    Statement { begin, text, is_compared: true, fates }
}

/// Its rows have numbers that differ from connection to connection.
const fn other(text: &'static str, fates: [Fate; 2]) -> Statement {
    Statement { begin: &[], text, is_compared: false, fates }
}

const TRANSACTION: [Fate; 2] = [Pins("transaction"), Pins("transaction")];
const BOTH: [Fate; 2] = [Works, Works];
const SYNTAX: Fate = Refused(1064, "it knows no such statement");
const EXPRESSION: Fate = Refused(1235, "the number must stand in the text");
const ITSELF: Fate = Refused(1317, "it interrupts itself, as directly");
const NOBODY: Fate = Refused(1094, "no such session");

const INSERT: &str = "INSERT INTO ids (b) VALUES (1), (2)";
const WARNS: &str = "SELECT CAST('abc' AS SIGNED)";
const FAILS: &str = "SELECT * FROM mysql.nowhere";

pub const STATEMENTS: [Statement; 42] = [
    same(&[INSERT], "SELECT LAST_INSERT_ID(), @@identity", BOTH),
    same(&["INSERT INTO ids VALUES (LAST_INSERT_ID(70), 1)"], "SELECT LAST_INSERT_ID()", BOTH),
    same(&["UPDATE ids SET b = b + 1"], "SELECT ROW_COUNT()", BOTH),
    same(&["SELECT * FROM t"], "SELECT FOUND_ROWS()", BOTH),
    same(
        &["SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1"],
        "SELECT FOUND_ROWS()",
        [Pins("found_rows"), Works],
    ),
    same(&[WARNS], "SHOW WARNINGS", BOTH),
    same(&[WARNS], "SHOW COUNT(*) WARNINGS", BOTH),
    same(&[WARNS], "SELECT @@warning_count", BOTH),
    same(&[FAILS], "SHOW ERRORS", BOTH),
    same(&[FAILS], "SELECT @@error_count", BOTH),
    same(
        &[WARNS, "GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT"],
        "SELECT @m",
        [Pins("user_variable"), Pins("user_variable")],
    ),
    other("SELECT CONNECTION_ID()", BOTH),
    same(&[], "SELECT @@version, VERSION()", BOTH),
    same(&[], "SELECT USER(), CURRENT_USER(), SESSION_USER()", BOTH),
    same(&["USE mysql"], "SELECT DATABASE(), SCHEMA()", BOTH),
    other("SHOW PROCESSLIST", BOTH),
    same(&[], "KILL 2147483647", [NOBODY, NOBODY]),
    same(&[], "KILL QUERY 2147483647", [NOBODY, NOBODY]),
    same(&[], "KILL QUERY CONNECTION_ID()", [ITSELF, ITSELF]),
    other("KILL QUERY 1 + 1", [EXPRESSION, EXPRESSION]),
    same(&[], "SELECT 1; SELECT 2; SELECT 3", BOTH),
    same(&["SET @n = 1, @m = 'x', @k = NULL"], "SELECT @n, @m, @k", BOTH),
    same(&["SET @n := -1.5e3, @`a b` = x'41'"], "SELECT @n, @`a b`", BOTH),
    same(
        &[],
        "SET STATEMENT group_concat_max_len = 7 FOR SELECT @@group_concat_max_len",
        [Works, SYNTAX],
    ),
    same(
        &["SET STATEMENT group_concat_max_len = 7 FOR SELECT 1"],
        "SELECT @@group_concat_max_len",
        [Works, Absent],
    ),
    same(&["SET GLOBAL net_write_timeout = 60"], "SELECT @@net_write_timeout", BOTH),
    same(&[], "SET PERSIST net_write_timeout = 60", [SYNTAX, Works]),
    same(&[], "RESET PERSIST IF EXISTS net_write_timeout", [SYNTAX, Works]),
    same(&[], "SET PASSWORD FOR asked = PASSWORD('asked')", [Works, Absent]),
    same(&[], "SET PASSWORD FOR asked = 'asked'", [Absent, Works]),
    same(&["SET sql_log_bin = 0"], "SELECT @@sql_log_bin", BOTH),
    same(&["SET session_track_system_variables = '*'"], "SELECT 1", BOTH),
    same(&["SET session_track_gtids = 'OWN_GTID'"], "SELECT 1", [Absent, Works]),
    same(&["SET session_track_transaction_info = 'STATE'"], "SELECT 1", BOTH),
    same(&["START TRANSACTION WITH CONSISTENT SNAPSHOT"], "SELECT COUNT(*) FROM t", TRANSACTION),
    same(&["SET autocommit = 0"], "SELECT COUNT(*) FROM t", TRANSACTION),
    same(&["BEGIN", INSERT, "ROLLBACK AND CHAIN"], "SELECT COUNT(*) FROM t", TRANSACTION),
    same(&["BEGIN", "SAVEPOINT s", INSERT, "ROLLBACK TO s", "RELEASE SAVEPOINT s"], "COMMIT", BOTH),
    same(&["BEGIN", INSERT, "CREATE TABLE made (a INT)"], "DROP TABLE made", BOTH),
    same(
        &[],
        "INSTALL PLUGIN no_such SONAME 'no_such.so'",
        [Refused(1126, "as directly"), Refused(1126, "as directly")],
    ),
    same(&["FLUSH TABLES"], "SELECT COUNT(*) FROM t", BOTH),
    same(&["LOCK TABLES t READ", "UNLOCK TABLES"], "SELECT COUNT(*) FROM t", BOTH),
];

/// What a client gets: rows, or an error's number.
fn answer(client: &mut SqlClient, text: &str) -> Result<Result<Vec<Row>, u16>> {
    match client.sql(text) {
        Ok(rows) => Ok(Ok(rows)),
        Err(error) => match error_code(&error) {
            Some(code) => Ok(Err(code)),
            None => Err(error).with_context(|| text.to_owned()),
        },
    }
}

/// Another session uses what is free.
fn disturb(client: &mut SqlClient) -> Result<()> {
    client.sql("SELECT CAST('others' AS SIGNED)")?;
    client.sql("INSERT INTO others (b) VALUES (1)")?;
    client.sql("SELECT * FROM others LIMIT 1")?;
    Ok(())
}

fn run_one(
    server: &Server,
    proxy: &Trunkline,
    schemas: &[String; 2],
    statement: &Statement,
    fate: Fate,
) -> Result<()> {
    let mut direct = server.connect(USER, PASSWORD, &schemas[0])?;
    let (mut one, mut another) = (client(proxy, &schemas[1])?, client(proxy, &schemas[1])?);
    for text in statement.begin {
        let (through, directly) = (answer(&mut one, text)?, answer(&mut direct, text)?);
        ensure!(through == directly, "{text}: {through:?}, directly {directly:?}");
        disturb(&mut another)?;
    }
    let through = answer(&mut one, statement.text)?;
    let expected = if let Refused(code, _) = fate { Some(code) } else { None };
    ensure!(through.as_ref().err().copied() == expected, "{through:?}");
    if statement.is_compared {
        let directly = answer(&mut direct, statement.text)?;
        ensure!(through == directly, "{through:?}, directly {directly:?}");
    }
    // One that reads `FOUND_ROWS()` keeps what it reads; warnings hold for a second.
    let is_held = if let Pins(reason) = fate { Some(reason) } else { None };
    wait_pins(proxy, is_held.as_slice())?;
    ensure!(answer(&mut one, "SELECT 5")?.is_ok(), "the session has ended");
    Ok(())
}

pub fn run_on(server: &Server, flavour: Flavour) -> Result<()> {
    let tables = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2);
         CREATE TABLE ids (a INT AUTO_INCREMENT PRIMARY KEY, b INT);
         CREATE TABLE others (a INT AUTO_INCREMENT PRIMARY KEY, b INT) AUTO_INCREMENT = 500";
    let schemas = [new_schema(server, tables)?, new_schema(server, tables)?];
    server.sql("CREATE USER IF NOT EXISTS asked@'%'")?;
    let proxy = before(server, 1, 2)?;
    let place = FLAVOURS.iter().position(|one| *one == flavour).context("a flavour")?;
    for statement in &STATEMENTS {
        let fate = statement.fates[place];
        if fate != Absent {
            let named = || format!("{} behind {:?}", statement.text, statement.begin);
            run_one(server, &proxy, &schemas, statement, fate).with_context(named)?;
        }
    }
    Ok(())
}

/// What has tests of its own: what, on which server it can't be had, and the test's file and name.
pub const ELSEWHERE: [(&str, Option<Flavour>, &str, &str); 41] = [
    ("COM_CHANGE_USER", None, "protocol.rs", "a_changed_user_is_another_session"),
    (
        "COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, by a replica (on a connection of its own)",
        None,
        "binlog.rs",
        "a_replica_follows_through_the_proxy",
    ),
    (
        "COM_BINLOG_DUMP, by `mariadb-binlog` and `mysqlbinlog`",
        None,
        "binlog.rs",
        "the_binary_log_is_read_by_programs_through_the_proxy",
    ),
    ("COM_PROCESS_KILL of one's own session", None, "kill.rs", "com_process_kill_ends_a_session"),
    (
        "`KILL`, `KILL QUERY` of one's own sessions, by the client's numbers",
        None,
        "kill.rs",
        "only_ones_own_users_sessions_are_ended",
    ),
    (
        "a `KILL QUERY` that comes when the statement has ended",
        None,
        "kill.rs",
        "a_kill_that_comes_late_hits_nobody_else",
    ),
    (
        "COM_STMT_EXECUTE of the statement prepared last (−1), in one write with its COM_STMT_PREPARE",
        Some(Flavour::MySql),
        "prepared.rs",
        "the_last_prepared_statement_is_run_by_minus_one",
    ),
    (
        "COM_STMT_BULK_EXECUTE, by a client that has agreed on it",
        Some(Flavour::MySql),
        "extensions.rs",
        "many_rows_of_parameters_are_run_at_once",
    ),
    (
        "MariaDB's cached metadata",
        Some(Flavour::MySql),
        "extensions.rs",
        "definitions_are_left_out_when_this_client_has_them_whoever_ran_the_statement",
    ),
    (
        "`resultset_metadata`, optional metadata",
        Some(Flavour::MariaDb),
        "extensions.rs",
        "definitions_are_optional_where_the_session_says_so",
    ),
    (
        "query attributes",
        Some(Flavour::MariaDb),
        "extensions.rs",
        "query_attributes_come_to_the_server_with_their_statement",
    ),
    (
        "progress reports",
        Some(Flavour::MySql),
        "extensions.rs",
        "progress_is_told_to_those_who_asked_for_it",
    ),
    (
        "session tracking: told to those who asked for it",
        None,
        "commands.rs",
        "session_changes_are_told_as_directly",
    ),
    ("`LOAD DATA LOCAL INFILE`", None, "infile.rs", "a_local_file_is_loaded_as_directly"),
    (
        "several of them in one text",
        None,
        "infile.rs",
        "several_files_in_one_text_are_loaded_as_directly",
    ),
    (
        "the same by a client that offers no files: the server's error",
        None,
        "infile.rs",
        "a_client_that_offers_no_files_is_refused_as_directly",
    ),
    (
        "several statements, several results",
        None,
        "protocol.rs",
        "several_statements_give_several_results",
    ),
    (
        "procedures with results and OUT values, in both protocols",
        None,
        "protocol.rs",
        "procedures_give_all_their_results_and_out_values",
    ),
    (
        "types that are sent with the first execution only, NULLs, values of all types",
        None,
        "prepared.rs",
        "executions_of_other_types_do_not_meet",
    ),
    (
        "COM_STMT_EXECUTE of an unknown or closed statement, with too many, too few or broken parameters, COM_STMT_FETCH without a cursor",
        None,
        "prepared.rs",
        "bad_ids_and_broken_blocks_get_the_servers_errors",
    ),
    (
        "long data beyond `max_allowed_packet`: the server's error (1105), when it is run",
        None,
        "prepared/bounds.rs",
        "a_client_has_so_many_statements",
    ),
    (
        "KILL of another user's session: 1095",
        None,
        "kill.rs",
        "only_ones_own_users_sessions_are_ended",
    ),
    (
        "compressed packets with a wrong length, number or content: the session's end",
        None,
        "compression/bad.rs",
        "wrong_packets_end_the_session_as_servers_do",
    ),
    (
        "compressed packets that hold more than `max_allowed_packet`: 1153",
        None,
        "compression/bad.rs",
        "packets_over_the_limit_are_refused_before_they_are_unpacked",
    ),
    (
        "packets of every size, compressed",
        None,
        "compression.rs",
        "packets_of_every_size_pass_compressed",
    ),
    (
        "prepared statements shared, kept by use, below the server's budget",
        None,
        "prepared/bounds.rs",
        "a_server_is_kept_below_its_budget",
    ),
    (
        "a prepared statement whose table has changed",
        None,
        "prepared/elsewhere.rs",
        "a_table_that_changes_is_seen_as_it_is",
    ),
    (
        "executions go by the rules, and to readers, as their text would",
        None,
        "prepared/elsewhere.rs",
        "executions_that_only_read_go_to_readers",
    ),
    (
        "a `SET` that changes nothing: no round trip",
        None,
        "state/repeated.rs",
        "a_set_that_changes_nothing_asks_no_server",
    ),
    (
        "`SET GLOBAL`, `SET PERSIST`, said again: carried out each time",
        None,
        "state/repeated.rs",
        "a_set_beyond_the_session_is_carried_out_each_time",
    ),
    ("`SET PASSWORD`, said again", None, "state/repeated.rs", "a_password_is_set_each_time"),
    (
        "every variable that the server has, set for the session",
        None,
        "sessions.rs",
        "every_variable_of_the_server_follows_its_session",
    ),
    (
        "a thousand sessions' time zones on ten connections: no round trips",
        None,
        "state.rs",
        "state_travels_with_the_statement",
    ),
    (
        "a client that leaves in a transaction: rolled back",
        None,
        "pinning.rs",
        "transactions_stay_on_one_connection_and_release_it",
    ),
    (
        "`COMMIT RELEASE`, `ROLLBACK RELEASE`, `completion_type`: the session's end",
        None,
        "pinning.rs",
        "a_released_session_ends_as_directly",
    ),
    (
        "`wait_timeout` of the session (MySQL: 4031)",
        None,
        "state.rs",
        "a_sessions_own_wait_timeout_ends_it",
    ),
    (
        "zlib and zstd, on either side",
        None,
        "compression.rs",
        "each_side_is_compressed_as_it_agreed",
    ),
    (
        "collations beyond 255, servers' own defaults",
        None,
        "charsets.rs",
        "the_handshakes_collation_is_the_sessions",
    ),
    (
        "any sequence of `SET`s",
        None,
        "set_property.rs",
        "any_sequence_of_sets_is_as_on_a_direct_connection",
    ),
    (
        "`XA PREPARE` (MariaDB: pins `xa` until `XA COMMIT` or `XA ROLLBACK`)",
        None,
        "state.rs",
        "a_prepared_transaction_outlives_its_session",
    ),
    (
        "a view or a function that changes the session",
        None,
        "state.rs",
        "what_a_view_hides_reaches_nobody_else",
    ),
];
