//! Many sessions on few server connections: state follows its session and nobody else's.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    AuthPlugin, Flavour, Options, Row, Server, SqlClient, Trunkline, error_code,
};

use crate::stage::{
    FLAVOURS, PASSWORD, USER, before, client, connections_on, fails, is_available, new_schema,
    pins, shared_server, start, text,
};

/// Variables whose values differ between any two connections, or are the proxy's own business.
const NOT_COMPARED: [&str; 16] = [
    "pseudo_thread_id",
    "timestamp",
    "rand_seed1",
    "rand_seed2",
    "last_gtid",
    "error_count",
    "warning_count",
    "identity",
    "last_insert_id",
    "gtid_",
    "innodb_",
    "session_track_",
    "server_",
    "statement_id",
    "resultset_metadata",
    "in_transaction",
];

/// All that a session can see of its state.
fn state(client: &mut SqlClient) -> Result<BTreeMap<String, String>> {
    let rows = client.sql("SHOW SESSION VARIABLES")?;
    let pair = |row: Row| {
        let mut columns = row.into_iter().map(Option::unwrap_or_default);
        Some((columns.next()?, columns.next()?))
    };
    let mut all: BTreeMap<String, String> = rows.into_iter().filter_map(pair).collect();
    all.retain(|name, _| !NOT_COMPARED.iter().any(|prefix| name.starts_with(prefix)));
    all.insert("DATABASE()".to_owned(), text(client, "SELECT DATABASE()")?);
    Ok(all)
}

/// What two states differ in: name, through the proxy, directly.
fn differences(
    proxied: &BTreeMap<String, String>,
    direct: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let names: std::collections::BTreeSet<&String> = proxied.keys().chain(direct.keys()).collect();
    let value =
        |of: &BTreeMap<String, String>, name: &str| of.get(name).cloned().unwrap_or_default();
    let pairs =
        names.into_iter().map(|name| (name.clone(), value(proxied, name), value(direct, name)));
    pairs.filter(|(_, through, directly)| through != directly).collect()
}

/// A session through the proxy and one beside it, to which the same is done.
struct Twins {
    proxied: SqlClient,
    direct: SqlClient,
}

impl Twins {
    fn new(proxy: &Trunkline, server: &Server, schema: &str) -> Result<Twins> {
        let direct = server.connect(crate::stage::USER, crate::stage::PASSWORD, schema)?;
        Ok(Twins { proxied: client(proxy, schema)?, direct })
    }

    /// Runs a statement on both; both must answer the same.
    fn run(&mut self, statement: &str) -> Result<()> {
        let proxied = self.proxied.sql(statement);
        let direct = self.direct.sql(statement);
        match (proxied, direct) {
            (Ok(proxied), Ok(direct)) => {
                ensure!(proxied == direct, "{statement}: {proxied:?}, directly {direct:?}");
            }
            (Err(proxied), Err(direct)) => {
                let codes = (error_code(&proxied), error_code(&direct));
                ensure!(
                    codes.0.is_some() && codes.0 == codes.1,
                    "{proxied:#}, directly {direct:#}"
                );
            }
            (proxied, direct) => {
                anyhow::bail!("{statement}: {proxied:?}, directly {direct:?}")
            }
        }
        Ok(())
    }

    /// Both see the same state.
    fn compare(&mut self, behind: &str) -> Result<()> {
        let differ = differences(&state(&mut self.proxied)?, &state(&mut self.direct)?);
        ensure!(
            differ.is_empty(),
            "behind {behind}: (name, through the proxy, directly) {differ:?}"
        );
        Ok(())
    }
}

/// What sessions set; each line is one session's statements in order.
pub const SETTINGS: [&[&str]; 20] = [
    &["SET NAMES latin1", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES DEFAULT"],
    &["SET CHARACTER SET latin1", "SET character_set_results = NULL"],
    &["SET collation_connection = 'latin1_german1_ci'", "SET character_set_client = latin1"],
    &["SET autocommit = 0", "SET autocommit = 1", "SET SESSION autocommit = OFF"],
    &["SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = DEFAULT", "SET sql_mode = ''"],
    &["SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')", "SET @@session.sql_mode = ANSI"],
    &["SET time_zone = '+03:00'", "SET @@session.time_zone = '-05:30'", "SET time_zone = SYSTEM"],
    &["SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
    &["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"],
    &["SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET sort_buffer_size = 65536"],
    &["SET sort_buffer_size = 1048576", "SET sort_buffer_size = @@sort_buffer_size * 2"],
    &["SET SESSION wait_timeout = 1234", "SET LOCAL net_read_timeout = 77, wait_timeout = 4321"],
    &["SET optimizer_switch = 'index_merge=off'", "SET optimizer_switch = 'materialization=off'"],
    &["SET group_concat_max_len = 5000 + 1", "SET group_concat_max_len = DEFAULT"],
    &["SET sort_buffer_size = 2097152, time_zone = '+01:00', sql_mode = 'NO_BACKSLASH_ESCAPES'"],
    &["SET foreign_key_checks = 0, unique_checks = 0", "SET foreign_key_checks = ON"],
    &["SET sql_safe_updates = 1", "SET lc_time_names = 'de_DE'", "SET sql_select_limit = 1000000"],
    &["SET max_join_size = 123456", "SET no_such_variable = 1", "SET big_tables = 'maybe'"],
    &[
        "SET default_storage_engine = MyISAM",
        "SET lock_wait_timeout = 11",
        "SET div_precision_increment = 7",
    ],
    &["USE information_schema", "SET time_zone = 'nowhere'", "SET tmp_table_size = 1024 * 1024"],
];

/// As on a direct connection, with as few server connections as the settings allow.
fn state_follows(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let schema = new_schema(server, "DO 1")?;
    // Two connections: what only a server can evaluate may pin one.
    let proxy = before(server, 1, 2)?;
    let mut sets = Vec::new();
    for statements in SETTINGS {
        let mut one = Twins::new(&proxy, server, &schema)?;
        let mut other = Twins::new(&proxy, server, "")?;
        for statement in statements {
            one.run(statement)?;
            other.compare(statement)?;
            one.compare(statement)?;
            sets.push(pins(&proxy)?);
        }
        // Both change, in turn, without looking in between.
        for statement in statements {
            other.run(statement)?;
            one.run("DO 1")?;
        }
        other.compare("the same by another session")?;
        one.compare("the same by another session")?;
    }
    Twins::new(&proxy, server, &schema)?.compare("all the others")?;
    let pinned = sets.iter().filter(|pins| !pins.is_empty()).count();
    ensure!(pinned * 4 < sets.len(), "{pinned} of {} statements pin: {sets:?}", sets.len());
    Ok(())
}

#[test]
fn state_follows_its_session_on_mariadb() -> Result<()> {
    if !is_available(Flavour::MariaDb, "state_follows_its_session_on_mariadb") {
        return Ok(());
    }
    state_follows(Flavour::MariaDb)
}

#[test]
fn state_follows_its_session_on_mysql() -> Result<()> {
    if !is_available(Flavour::MySql, "state_follows_its_session_on_mysql") {
        return Ok(());
    }
    state_follows(Flavour::MySql)
}

/// Another value than this one, of the same kind; the same where there is no telling.
fn other_value(value: &str) -> String {
    match (value, value.parse::<u64>()) {
        ("ON", _) => "OFF".to_owned(),
        ("OFF", _) => "ON".to_owned(),
        (_, Ok(0)) => "1".to_owned(),
        (_, Ok(number)) => (number / 2 + 1).to_string(),
        _ => format!("'{}'", value.replace('\'', "''")),
    }
}

/// Whatever variables a server has: each is set as on a direct connection, or refused as there, and
/// is its session's alone.
fn every_variable_follows(flavour: Flavour) -> Result<()> {
    // One's own: MariaDB takes some of them (`max_relay_log_size`) for all sessions.
    let server = &start(flavour, Options::default())?;
    let proxy = before(server, 1, 2)?;
    let mut other = Twins::new(&proxy, server, "")?;
    let all = state(&mut other.direct)?;
    let (mut accepted, mut pinned) = (0, Vec::new());
    for (name, value) in all.iter().filter(|(name, _)| *name != "DATABASE()") {
        let mut one = Twins::new(&proxy, server, "")?;
        let set = format!("SET SESSION {name} = {}", other_value(value));
        one.run(&set)?;
        let asked = format!("SELECT @@{name}");
        let direct = one.direct.sql(&asked);
        other.run(&asked)?;
        let proxied = one.proxied.sql(&asked);
        match (proxied, direct) {
            (Ok(proxied), Ok(direct)) => ensure!(proxied == direct, "{set}: {proxied:?}"),
            (proxied, direct) => ensure!(proxied.is_err() && direct.is_err(), "{set}"),
        }
        if one.direct.sql(&format!("SELECT @@{name} <=> @@global.{name}")).is_ok_and(|rows| {
            rows.first().and_then(|row| row.first().cloned().flatten()).as_deref() == Some("0")
        }) {
            accepted += 1;
        }
        // What no reset takes back is not carried, nor what `IS NULL` finds.
        let stays = ["optimizer_trace", "profiling", "sql_auto_is_null"];
        if stays.iter().any(|start| name.starts_with(start)) {
            drop(one);
            other.run(&asked)?;
            continue;
        }
        // A refusal and a warning may be asked for, for a moment.
        if pins(&proxy)?.keys().any(|reason| reason != "warnings") {
            pinned.push(set.clone());
        }
        drop(one);
        other.run(&asked)?;
    }
    Twins::new(&proxy, server, "")?.compare("all the others")?;
    other.compare("all the others")?;
    ensure!(accepted > 60, "only {accepted} variables were changed");
    ensure!(pinned.len() * 10 < accepted, "{} of {accepted} pin: {pinned:?}", pinned.len());
    Ok(())
}

#[test]
fn every_variable_of_the_server_follows_its_session() -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, "every_variable_of_the_server_follows_its_session") {
            every_variable_follows(flavour).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// The collation of the handshake is part of the state.
#[test]
fn the_collation_of_the_handshake_follows_its_session() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "the_collation_of_the_handshake_follows_its_session") {
            continue;
        }
        let server = shared_server(flavour)?;
        let proxy = before(server, 1, 1)?;
        for charset in ["latin1", "utf8mb4", "greek", "latin1"] {
            let asked = "SELECT @@character_set_client, @@collation_connection";
            let through = command_line(proxy.port(), charset, asked)?;
            let directly = command_line(server.port(), charset, asked)?;
            ensure!(through == directly, "{charset}: {through}, directly {directly}");
            ensure!(through.starts_with(charset), "{through}");
        }
    }
    Ok(())
}

/// What the command-line client prints, with this character set in its handshake.
fn command_line(port: u16, charset: &str, statement: &str) -> Result<String> {
    let program = trunkline_testkit::find_program("mariadb").context("no mariadb client")?;
    let output = std::process::Command::new(program)
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--batch", "-N"])
        .arg("--skip-ssl")
        .arg(format!("--port={port}"))
        .arg(format!("--user={}", crate::stage::USER))
        .arg(format!("--password={}", crate::stage::PASSWORD))
        .arg(format!("--default-character-set={charset}"))
        .args(["-e", statement])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "port {port}, {charset}: {errors}");
    Ok(text)
}

/// One server connection for a session with a schema, one with another and one with none.
#[test]
fn a_session_without_a_schema_never_sees_anothers() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_session_without_a_schema_never_sees_anothers") {
            continue;
        }
        let server = shared_server(flavour)?;
        let table = |value: u32| format!("CREATE TABLE t (a INT); INSERT INTO t VALUES ({value})");
        let (one, two) = (new_schema(server, &table(1))?, new_schema(server, &table(2))?);
        let proxy = before(server, 1, 1)?;
        let (mut a, mut b, mut none) =
            (client(&proxy, &one)?, client(&proxy, &two)?, client(&proxy, "")?);
        for _ in 0..3 {
            ensure!(text(&mut a, "SELECT a FROM t")? == "1");
            ensure!(text(&mut none, "SELECT DATABASE()")? == "NULL");
            ensure!(text(&mut b, "SELECT a FROM t")? == "2");
            fails(&mut none, "SELECT a FROM t", 1046)?;
            // An error can be asked for by SHOW WARNINGS until the next statement.
            ensure!(text(&mut none, "SELECT 1")? == "1");
        }
        none.sql(&format!("USE {two}"))?;
        ensure!(text(&mut none, "SELECT a FROM t")? == "2");
        ensure!(text(&mut a, "SELECT a FROM t")? == "1");
        fails(&mut a, "USE no_such_schema", 1049)?;
        ensure!(text(&mut a, "SELECT a FROM t")? == "1");
    }
    Ok(())
}

/// Fifty clients at once, three server connections, every client its own state.
#[test]
fn fifty_clients_share_three_server_connections() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "fifty_clients_share_three_server_connections") {
            continue;
        }
        let server = crate::stage::start(flavour, trunkline_testkit::Options::default())?;
        let schema = new_schema(&server, "CREATE TABLE t (client INT, a INT)")?;
        let proxy = before(&server, 2, 3)?;
        let most = std::thread::scope(|scope| {
            let proxy = &proxy;
            let schema = &schema;
            let threads: Vec<_> = (0..50)
                .map(|number| scope.spawn(move || shared_client(proxy, schema, number)))
                .collect();
            let mut most = 0;
            while threads.iter().any(|thread| !thread.is_finished()) {
                most = most.max(connections_on(&server)?);
            }
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            anyhow::Ok(most)
        })?;
        // One more asks the server's dictionary; it is none of the pool's.
        ensure!((1..=4).contains(&most), "{most} server connections");
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        ensure!(rows.as_deref() == Some("250"), "{rows:?} rows");
    }
    Ok(())
}

fn shared_client(proxy: &Trunkline, schema: &str, number: u32) -> Result<()> {
    let mut client = client(proxy, schema)?;
    let hours = number % 13;
    let zone = format!("+{hours:02}:00");
    client.sql(&format!("SET time_zone = '{zone}', group_concat_max_len = {}", 1_000 + number))?;
    for turn in 0..5 {
        client.sql(&format!("INSERT INTO t VALUES ({number}, {turn})"))?;
        let rows = client.sql("SELECT @@time_zone, @@group_concat_max_len, DATABASE()")?;
        let expected = [zone.clone(), (1_000 + number).to_string(), schema.to_owned()];
        ensure!(rows == [expected.map(Some).to_vec()], "client {number} sees {rows:?}");
        let own = text(&mut client, &format!("SELECT COUNT(*) FROM t WHERE client = {number}"))?;
        ensure!(own == (turn + 1).to_string(), "client {number} sees {own} own rows");
    }
    Ok(())
}

/// A wait for a pinned connection ends with the cause, not with silence.
#[test]
fn a_refusal_names_what_was_waited_for() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_refusal_names_what_was_waited_for") {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let config = crate::stage::one_server(server, 1, 1);
    let proxy = Trunkline::start(&format!("connect_timeout_server_max = 1500\n{config}"))?;
    let (mut holder, mut other) = (client(&proxy, "")?, client(&proxy, "")?);
    holder.sql("BEGIN")?;
    holder.sql("SELECT 1")?;
    let began = std::time::Instant::now();
    let error = fails(&mut other, "SELECT 1", 9001)?;
    ensure!(error.contains("hostgroup 0") && error.contains("max_connections"), "{error}");
    ensure!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    holder.sql("COMMIT")?;
    ensure!(text(&mut other, "SELECT 1")? == "1");
    Ok(())
}

/// Of two connections that idle transactions of one user hold, the one that has rested longest
/// goes to a statement of another user, and the other one stays.
#[test]
fn idle_sessions_of_one_user_give_way_to_another() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "idle_sessions_of_one_user_give_way_to_another") {
            continue;
        }
        let server = shared_server(flavour)?;
        server.create_user("latecomer", PASSWORD, AuthPlugin::ServerDefault)?;
        let config = crate::stage::one_server(server, 1, 2);
        let late =
            crate::stage::user(0).replace(&format!("name = \"{USER}\""), "name = \"latecomer\"");
        let settings = "connect_timeout_server_max = 2000\nlazy_transactions = \"off\"";
        let proxy = Trunkline::start(&format!("{settings}\n{config}{late}"))?;
        let (mut first, mut second) = (client(&proxy, "")?, client(&proxy, "")?);
        for holder in [&mut first, &mut second] {
            holder.sql("BEGIN")?;
            holder.sql("SELECT 1")?;
        }
        let mut late = proxy.connect("latecomer", PASSWORD, "")?;
        ensure!(text(&mut late, "SELECT CURRENT_USER()")?.starts_with("latecomer@"));
        let error = fails(&mut first, "SELECT 2", 1213)?;
        ensure!(error.contains("pinned_share_max"), "{error}");
        ensure!(text(&mut second, "SELECT 3")? == "3");
        second.sql("COMMIT")?;
    }
    Ok(())
}
