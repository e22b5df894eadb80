//! Whatever strangers and users of statistics do, administrators get in and are answered.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use trunkline_testkit::{SqlClient, Trunkline, error_code};

use super::{administrator, http::request, refusal};
use crate::{
    backends::Config,
    wire::{Endpoint, Outcome, Wire, refused},
};

/// Much less than any limit here, and much more than an answer takes.
const SOON: Duration = Duration::from_secs(3);

/// A proxy in database mode whose server does not matter, and an administrator who has set
/// variables.
fn begin(variables: &[&str]) -> Result<(Trunkline, SqlClient)> {
    let proxy = Trunkline::start_database(Config::at("", "127.0.0.1:1").user("nobody").text())?;
    let mut admin = administrator(&proxy)?;
    for variable in variables {
        admin.sql(&format!("SET {variable}"))?;
    }
    admin.sql("LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    Ok((proxy, admin))
}

fn statistics(proxy: &Trunkline) -> Result<SqlClient> {
    SqlClient::tcp(proxy.admin_port(), "stats", "stats", "")
}

#[test]
fn places_of_administrators_are_their_own() -> Result<()> {
    let (proxy, admin) = begin(&["trunkline-admin_stats_connections_max = 8"])?;
    drop(admin);
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(("127.0.0.1", proxy.admin_port()))?);
    }
    let mut users = Vec::new();
    for _ in 0..8 {
        users.push(statistics(&proxy)?);
    }
    let ninth = refused(Wire::login(Endpoint::Tcp(proxy.admin_port()), "stats", "stats", ""))?;
    assert_eq!(ninth.code, 1040);
    ensure!(ninth.text.contains("trunkline-admin_stats_connections_max"), "{ninth:?}");
    let begun = Instant::now();
    let mut admin = administrator(&proxy)?;
    assert_eq!(admin.value("SELECT 1")?.as_deref(), Some("1"));
    ensure!(begun.elapsed() < SOON, "an administrator waited {:?}", begun.elapsed());
    assert_eq!(users[0].value("SELECT 1")?.as_deref(), Some("1"), "nobody who is in is put out");
    let kinds =
        |kind: &str| proxy.metric("trunkline_admin_connections", &format!("kind=\"{kind}\""));
    assert_eq!((kinds("admin")?, kinds("stats")?), (Some(1.0), Some(8.0)));
    ensure!(kinds("login")?.is_some_and(|count| count <= 64.0), "silent ones gave way");
    Ok(())
}

#[test]
fn statements_of_statistics_hold_up_no_administrator() -> Result<()> {
    let (proxy, mut admin) = begin(&[
        "trunkline-admin_stats_time_max = 1000",
        "trunkline-admin_stats_bytes_max = 8000000",
        "trunkline-admin_stats_rows_max = 10000",
    ])?;
    let mut wire = Wire::login(Endpoint::Tcp(proxy.admin_port()), "stats", "stats", "")?;
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    wire.send(0x03, format!("{numbers} SELECT count(*) FROM n").as_bytes())?;
    // It has begun when another one of the same user waits for it in vain, or its answer comes.
    let begun = Instant::now();
    let mut answers = 0;
    while begun.elapsed() < Duration::from_millis(900) {
        let asked = Instant::now();
        admin.value("SELECT count(*) FROM mysql_servers")?;
        ensure!(asked.elapsed() < Duration::from_millis(500), "it waited {:?}", asked.elapsed());
        answers += 1;
    }
    ensure!(answers > 10, "{answers} answers");
    let (_, answer) = wire.packet()?;
    let message = String::from_utf8_lossy(&answer);
    ensure!(message.contains("longer than 1s (trunkline-admin_stats_time_max)"), "{message}");
    let before = proxy.rss_bytes()?;
    let mut stats = statistics(&proxy)?;
    for sql in [
        "SELECT hex(randomblob(499999999))".to_owned(),
        "SELECT zeroblob(900000000)".to_owned(),
        format!("{numbers} SELECT hex(randomblob(100000)) FROM n"),
    ] {
        let (code, message) = refusal(&mut stats, &sql)?;
        assert_eq!(code, 1153, "{message}");
    }
    let grown = proxy.peak_rss_bytes()?.saturating_sub(before);
    ensure!(grown < 64 << 20, "it took {grown} bytes");
    assert_eq!(refusal(&mut stats, &format!("{numbers} SELECT i FROM n"))?.0, 1104);
    assert_eq!(stats.value("SELECT count(*) > 0 FROM stats_mysql_global")?.as_deref(), Some("1"));
    let stopped = proxy.metric("trunkline_admin_statement_refusals_total", "cause=\"limit\"")?;
    assert_eq!(stopped, Some(5.0));
    Ok(())
}

#[test]
fn what_prepared_statements_keep_is_bounded_over_all() -> Result<()> {
    let (proxy, mut admin) = begin(&[])?;
    let before = proxy.rss_bytes()?;
    let mut wires = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::login(Endpoint::Tcp(proxy.admin_port()), "stats", "stats", "")?;
        wire.send(0x16, b"SELECT length(?)")?;
        // The statement, its parameter and its column.
        let (_, prepared) = wire.packet()?;
        let id = prepared.get(1..5).map(<[u8]>::to_vec).unwrap_or_default();
        let mut long = id.clone();
        long.extend_from_slice(&[0, 0]);
        long.resize(900_000, b'x');
        for _ in 0..10 {
            wire.send(0x18, &long)?;
        }
        wires.push((wire, id));
    }
    let mut codes = Vec::new();
    for (wire, id) in &mut wires {
        let mut execution = id.clone();
        execution.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 0xFC, 0]);
        wire.send(0x17, &execution)?;
        loop {
            let (_, packet) = wire.packet()?;
            if packet.first() == Some(&0xFF) {
                codes.push(u16::from_le_bytes([packet[1], packet[2]]));
                break;
            }
        }
    }
    // Those that were kept have a value beyond what one may be; the others found no room.
    assert_eq!(codes, [1153; 8]);
    let grown = proxy.peak_rss_bytes()?.saturating_sub(before);
    ensure!(grown < 96 << 20, "72 MB were sent, and took {grown} bytes");
    drop(wires);
    assert_eq!(admin.value("SELECT 1")?.as_deref(), Some("1"));
    Ok(())
}

#[test]
fn guesses_at_the_admin_port_wait_longer_and_longer() -> Result<()> {
    let (proxy, mut admin) = begin(&[
        "trunkline-admin_failed_logins_max = 3",
        "trunkline-failed_login_delay = 60000",
        "trunkline-admin_wait_timeout = 1000",
    ])?;
    let attempt = |user: &str, password: &str| {
        let attempt = Wire::login(Endpoint::Tcp(proxy.admin_port()), user, password, "");
        refused(attempt).map(|error| error.code)
    };
    for name in ["admin", "nobody"] {
        let codes: Vec<u16> = (0..5).map(|_| attempt(name, "guess")).collect::<Result<_>>()?;
        assert_eq!(codes, [1045, 1045, 1045, 1129, 1129], "{name}");
    }
    assert_eq!(attempt("admin", "admin")?, 1129, "the right password is not told from a guess");
    drop(statistics(&proxy)?);
    admin.sql("PROXYSQL FLUSH MYSQL CLIENT HOSTS")?;
    drop(administrator(&proxy)?);
    let count =
        |cause: &str| proxy.metric("trunkline_admin_refusals_total", &format!("cause=\"{cause}\""));
    assert_eq!((count("access_denied")?, count("blocked")?), (Some(6.0), Some(5.0)));

    // Who is idle is told, and goes.
    let mut wire = Wire::login(Endpoint::Tcp(proxy.admin_port()), "admin", "admin", "")?;
    let Outcome::Rows { .. } = wire.one("SELECT 1")? else { anyhow::bail!("no rows") };
    let (_, packet) = wire.packet()?;
    assert_eq!(packet.get(..3), Some(&[0xFF, 0xBF, 0x0F][..]), "error 4031");
    ensure!(wire.is_closed()?);
    let idle = admin.sql("SELECT 1").err();
    ensure!(idle.is_some_and(|error| error_code(&error).is_none_or(|code| code == 4031)));
    ensure!(count("idle")?.is_some_and(|count| count >= 2.0));
    Ok(())
}

#[test]
fn results_on_the_admin_port_are_part_of_the_budget() -> Result<()> {
    let (proxy, mut admin) = begin(&["trunkline-memory_max = 16777216"])?;
    let rows = |count: u32| {
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count}) \
             SELECT hex(zeroblob(50000)) FROM n"
        )
    };
    let mut stats = statistics(&proxy)?;
    assert_eq!(stats.sql(&rows(80))?.len(), 80);
    // Ten sixteenths are there for it, and all of it for administrators.
    let (code, message) = refusal(&mut stats, &rows(120))?;
    assert_eq!(code, 1041);
    ensure!(message.contains("no more of memory_max (16777216 bytes) for the result"), "{message}");
    let before = proxy.peak_rss_bytes()?;
    assert_eq!(admin.sql(&rows(120))?.len(), 120);
    let grown = proxy.peak_rss_bytes()?.saturating_sub(before);
    ensure!(grown < 20 << 20, "12 MB of rows took {grown} bytes");
    assert_eq!(refusal(&mut admin, &rows(200))?.0, 1041);
    // A statement that is being received, and what prepared ones keep.
    let long = format!("SELECT '{}'", "x".repeat(17 << 20));
    let error = admin.sql(&long).err();
    ensure!(error.is_some_and(|error| error_code(&error).is_none_or(|code| code == 1041)));
    let mut admin = administrator(&proxy)?;
    let held = || proxy.metric("trunkline_memory_charged_bytes", "kind=\"admin\"");
    assert_eq!(held()?, Some(0.0));
    assert_eq!(admin.value("SELECT 1")?.as_deref(), Some("1"));
    Ok(())
}

#[test]
fn guesses_at_tokens_are_slow() -> Result<()> {
    let (proxy, mut admin) = begin(&[
        "trunkline-http_api_token = 'right'",
        "trunkline-admin_failed_logins_max = 3",
        "trunkline-failed_login_delay = 60000",
    ])?;
    let ask = |token: &str| request(&proxy, "GET /api/v1/tables", token, "").map(|it| it.0);
    assert_eq!(ask("right")?, 200);
    let statuses = (0..5).map(|_| ask("wrong")).collect::<Result<Vec<_>>>()?;
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    assert_eq!((ask("right")?, ask("")?), (429, 401), "the right token is not told from a guess");
    assert_eq!(request(&proxy, "POST /sync/x", "wrong", "{}")?.0, 429);
    let blocked = proxy.metric("trunkline_http_refusals_total", "cause=\"blocked\"")?;
    assert_eq!(blocked, Some(4.0), "metrics are still answered");
    admin.sql("PROXYSQL FLUSH MYSQL CLIENT HOSTS")?;
    assert_eq!(ask("right")?, 200);
    Ok(())
}
