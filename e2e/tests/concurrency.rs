//! Two hundred clients at once while their servers are killed and restarted beneath them.
//!
//! Each client has rows of its own, session variables of its own and transactions. Every write has
//! a number that no other attempt has; at the end the rows in the table are held against what the
//! clients were told. Set `TRUNKLINE_LONG` for a minute of it instead of a quarter.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use trunkline_testkit::{Flavour, Server, Trunkline, wait_until};

use crate::stage::{PASSWORD, SOON, USER, connections_on, is_available, pins, replication, user};

const CLIENTS: u32 = 200;

/// What a client did, for the reckoning.
#[derive(Default)]
struct Ledger {
    /// Writes that were acknowledged.
    told: Vec<u64>,
    /// Writes whose end the client was not told.
    open: Vec<u64>,
    /// Writes that were rolled back, or refused before they were sent.
    void: Vec<u64>,
    /// Statements that were answered well.
    answers: u64,
    /// Errors that the loss of a server explains, by number.
    excused: BTreeMap<u16, u64>,
}

/// What all clients look at.
struct Scene {
    opts: Opts,
    stop: AtomicBool,
    next_write: AtomicU64,
    /// All sessions have one state, so that their reads share connections.
    is_shared: bool,
}

impl Scene {
    fn new(proxy: &Trunkline, is_shared: bool) -> Scene {
        let opts = OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(proxy.port())
            .user(Some(USER))
            .pass(Some(PASSWORD))
            .db_name(Some("busy"))
            .prefer_socket(false)
            .max_allowed_packet(Some(1_048_576))
            .wait_timeout(Some(28_800));
        let (stop, next_write) = (AtomicBool::new(false), AtomicU64::new(1));
        Scene { opts: opts.into(), stop, next_write, is_shared }
    }
}

fn duration() -> Duration {
    match std::env::var_os("TRUNKLINE_LONG") {
        Some(_) => Duration::from_secs(60),
        None => Duration::from_secs(15),
    }
}

/// The number of the error and whether the session goes on behind it. Anything that the loss of a
/// server does not explain is a failure of the test.
fn excuse(error: &mysql_async::Error) -> Result<(u16, bool)> {
    match error {
        // Lost on the way; no server in time; lost, as the server said when it stopped.
        mysql_async::Error::Server(server) if [2013, 9001].contains(&server.code) => {
            Ok((server.code, server.code == 9001))
        }
        // Its transaction was lost, and is certainly not committed.
        mysql_async::Error::Server(server)
            if server.code == 1213 && server.message.contains("its connection to") =>
        {
            Ok((1213, true))
        }
        mysql_async::Error::Server(server) if [1053, 1077, 1927].contains(&server.code) => {
            Ok((server.code, false))
        }
        mysql_async::Error::Io(_) | mysql_async::Error::Driver(_) => Ok((0, false)),
        other => bail!("an error that no lost server explains: {other}"),
    }
}

/// One client's life: sessions, one after another, until the end.
async fn live(scene: &Scene, number: u32) -> Result<Ledger> {
    let mut ledger = Ledger::default();
    while !scene.stop.load(Ordering::Relaxed) {
        let mut conn = match Conn::new(scene.opts.clone()).await {
            Ok(conn) => conn,
            Err(error) => {
                let (code, _) = excuse(&error).context("at the log-in")?;
                *ledger.excused.entry(code).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let outcome = match scene.is_shared {
            true => shared_session(scene, number, &mut conn, &mut ledger).await,
            false => session(scene, number, &mut conn, &mut ledger).await,
        };
        outcome.with_context(|| format!("client {number}"))?;
        let _ = tokio::time::timeout(Duration::from_secs(1), conn.disconnect()).await;
    }
    Ok(ledger)
}

/// What a client knows of its session.
struct Known {
    zone: String,
    mode: &'static str,
    variable: Option<u32>,
}

const MODES: [&str; 3] = ["ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_ZERO_DATE"];

/// One session: some rounds, or until its connection is lost.
async fn session(scene: &Scene, number: u32, conn: &mut Conn, ledger: &mut Ledger) -> Result<()> {
    let mode = MODES[number as usize % MODES.len()];
    // Whole hours: MariaDB takes some offsets in minutes for one another ('+08:10' is '+05:54').
    let zone = format!("+{:02}:00", number % 13);
    let mut known = Known { zone, mode, variable: None };
    let set = format!(
        "SET time_zone = '{}', sql_mode = '{}', group_concat_max_len = {}",
        known.zone,
        known.mode,
        10_000 + number
    );
    if let Err(error) = conn.query_drop(set).await {
        let (code, _) = excuse(&error)?;
        *ledger.excused.entry(code).or_default() += 1;
        return Ok(());
    }
    for round in 0..40 {
        if scene.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let outcome = match round % 4 {
            0 => write(scene, number, conn, ledger).await?,
            1 => look(number, conn, &mut known, ledger).await?,
            2 => transaction(scene, number, conn, ledger, round % 8 == 2).await?,
            _ => variables(number, conn, &mut known, round).await?,
        };
        match outcome {
            Ok(()) => ledger.answers += 1,
            Err(error) => {
                let (code, goes_on) = excuse(&error)?;
                *ledger.excused.entry(code).or_default() += 1;
                if !goes_on || known.variable.is_some() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// One session that leaves its state as it is: its reads share connections with the others'.
async fn shared_session(
    scene: &Scene,
    number: u32,
    conn: &mut Conn,
    ledger: &mut Ledger,
) -> Result<()> {
    for round in 0..40 {
        if scene.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let outcome = match round % 8 {
            0 => write(scene, number, conn, ledger).await?,
            4 => transaction(scene, number, conn, ledger, number.is_multiple_of(2)).await?,
            6 if number.is_multiple_of(16) => slow(number, conn).await?,
            7 if number.is_multiple_of(8) => {
                vanish(number, conn).await;
                return Ok(());
            }
            _ => own_rows(number, round, conn).await?,
        };
        match outcome {
            Ok(()) => ledger.answers += 1,
            Err(error) => {
                let (code, goes_on) = excuse(&error)?;
                *ledger.excused.entry(code).or_default() += 1;
                if !goes_on {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// A read whose answer nobody else could get.
async fn own_rows(number: u32, round: u32, conn: &mut Conn) -> Step {
    let asked = format!("SELECT {number}, {round}, REPEAT('x', {})", number * 20);
    let seen: Option<(u32, u32, String)> = match conn.query_first(asked).await {
        Ok(seen) => seen,
        Err(error) => return Ok(Err(error)),
    };
    let (client, turn, text) = seen.context("no row")?;
    ensure!((client, turn) == (number, round), "the answer of {client}, {turn}");
    ensure!(text.len() == number as usize * 20, "{} bytes", text.len());
    Ok(Ok(()))
}

/// A read that holds up those behind it.
async fn slow(number: u32, conn: &mut Conn) -> Step {
    let asked = format!("SELECT {number}, SLEEP(0.05)");
    let seen: Option<(u32, u32)> = match conn.query_first(asked).await {
        Ok(seen) => seen,
        Err(error) => return Ok(Err(error)),
    };
    // 1 is a sleep that was cut short, by nobody here: a KILL QUERY that went astray.
    ensure!(seen == Some((number, 0)), "{seen:?} of client {number}'s own");
    Ok(Ok(()))
}

/// Goes away while a read is under way.
async fn vanish(number: u32, conn: &mut Conn) {
    let asked = format!("SELECT {number}, SLEEP(0.01)");
    let patience = Duration::from_millis(u64::from(number % 7));
    let _ = tokio::time::timeout(patience, conn.query_drop(asked)).await;
}

type Step = Result<Result<(), mysql_async::Error>>;

fn insert(scene: &Scene, number: u32) -> (u64, String) {
    let id = scene.next_write.fetch_add(1, Ordering::Relaxed);
    (id, format!("INSERT INTO entry (attempt, client) VALUES ({id}, {number})"))
}

/// One autocommitted write.
async fn write(scene: &Scene, number: u32, conn: &mut Conn, ledger: &mut Ledger) -> Step {
    let (id, statement) = insert(scene, number);
    match conn.query_drop(statement).await {
        Ok(()) => {
            ensure!(conn.affected_rows() == 1, "one row was to be written");
            ledger.told.push(id);
            Ok(Ok(()))
        }
        Err(error) => {
            match &error {
                // No server took it.
                mysql_async::Error::Server(server) if server.code == 9001 => ledger.void.push(id),
                _ => ledger.open.push(id),
            }
            Ok(Err(error))
        }
    }
}

/// Reads: one's own state, and only one's own rows.
async fn look(number: u32, conn: &mut Conn, known: &mut Known, ledger: &mut Ledger) -> Step {
    type Seen = (u32, String, String, u32);
    let asked = format!(
        "SELECT {number}, @@time_zone, CONCAT(@@sql_mode, DATABASE()), @@group_concat_max_len"
    );
    let seen: Option<Seen> = match conn.query_first(asked).await {
        Ok(seen) => seen,
        Err(error) => return Ok(Err(error)),
    };
    let place = format!("{}busy", known.mode);
    let expected = (number, known.zone.clone(), place, 10_000 + number);
    ensure!(seen.as_ref() == Some(&expected), "saw {seen:?} instead of {expected:?}");
    ledger.answers += 1;
    let asked =
        format!("SELECT client, COUNT(*) FROM entry WHERE client = {number} GROUP BY client");
    let rows: Vec<(u32, u64)> = match conn.query(asked).await {
        Ok(rows) => rows,
        Err(error) => return Ok(Err(error)),
    };
    ensure!(rows.iter().all(|(client, _)| *client == number), "another client's rows: {rows:?}");
    Ok(Ok(()))
}

/// Two writes that stand or fall together.
async fn transaction(
    scene: &Scene,
    number: u32,
    conn: &mut Conn,
    ledger: &mut Ledger,
    commits: bool,
) -> Step {
    if let Err(error) = conn.query_drop("BEGIN").await {
        return Ok(Err(error));
    }
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (id, statement) = insert(scene, number);
        ids.push(id);
        if let Err(error) = conn.query_drop(statement).await {
            // Nothing was committed, whatever became of the server.
            ledger.void.extend(ids);
            return Ok(Err(error));
        }
    }
    let asked = format!("SELECT COUNT(*) FROM entry WHERE attempt IN ({}, {})", ids[0], ids[1]);
    match conn.query_first::<u64, _>(asked).await {
        Ok(own) => ensure!(own == Some(2), "{own:?} rows of its own two in the transaction"),
        Err(error) => {
            ledger.void.extend(ids);
            return Ok(Err(error));
        }
    }
    let end = if commits { "COMMIT" } else { "ROLLBACK" };
    match (conn.query_drop(end).await, commits) {
        (Ok(()), true) => ledger.told.extend(ids),
        (Ok(()), false) => ledger.void.extend(ids),
        (Err(error), true) => {
            ledger.open.extend(ids);
            return Ok(Err(error));
        }
        (Err(error), false) => {
            ledger.void.extend(ids);
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// A user variable, which pins: only every tenth client has one, and every session starts without.
async fn variables(number: u32, conn: &mut Conn, known: &mut Known, round: u32) -> Step {
    if number.is_multiple_of(10) {
        let seen: Option<Option<u32>> = match conn.query_first("SELECT @mine").await {
            Ok(seen) => seen,
            Err(error) => return Ok(Err(error)),
        };
        ensure!(seen == Some(known.variable), "@mine is {seen:?}, not {:?}", known.variable);
        let value = number * 1_000 + round;
        if let Err(error) = conn.query_drop(format!("SET @mine = {value}")).await {
            return Ok(Err(error));
        }
        known.variable = Some(value);
        return Ok(Ok(()));
    }
    let zone = format!("-{:02}:00", (number + round) % 12 + 1);
    let outcome = conn.query_drop(format!("SET time_zone = '{zone}'")).await;
    if outcome.is_ok() {
        known.zone = zone;
    }
    Ok(outcome)
}

/// Kills and restarts the servers in turn until the time is over, and connections between.
fn havoc(primary: &Server, replica: &Server, end: Instant) -> Result<u32> {
    let mut rounds = 0;
    while Instant::now() < end {
        kill_connections(primary)?;
        kill_connections(replica)?;
        let server = if rounds % 2 == 0 { replica } else { primary };
        match rounds % 4 {
            0 | 1 => server.kill_hard()?,
            _ => drop(server.stop_gracefully()?),
        }
        server.restart()?;
        rounds += 1;
        // Between two blows the clients get something done.
        let before = queries(primary)?;
        wait_until("the primary serves clients", SOON, || {
            Ok((queries(primary)? > before + 500).then_some(()))
        })?;
    }
    Ok(rounds)
}

/// Some of the proxy's connections, as an operator would.
fn kill_connections(server: &Server) -> Result<()> {
    let asked = format!("SELECT id FROM information_schema.processlist WHERE user = '{USER}'");
    for row in server.sql(&asked)?.iter().step_by(3) {
        let id = row.first().cloned().flatten().context("no id")?;
        // It may have gone meanwhile.
        let _ = server.sql(&format!("KILL {id}"));
    }
    Ok(())
}

fn queries(server: &Server) -> Result<u64> {
    let rows = server.sql("SHOW GLOBAL STATUS LIKE 'Questions'")?;
    let value = rows.first().and_then(|row| row.get(1)).cloned().flatten();
    value.context("no count of questions")?.parse().context("not a count of questions")
}

fn reckon(server: &Server, ledgers: &[Ledger]) -> Result<()> {
    let rows = server.sql("SELECT attempt, COUNT(*) FROM busy.entry GROUP BY attempt")?;
    let mut found = BTreeMap::new();
    for row in rows {
        let mut numbers = row.into_iter().flatten().map(|text| text.parse::<u64>());
        let (Some(attempt), Some(count)) = (numbers.next(), numbers.next()) else {
            bail!("a row without numbers");
        };
        found.insert(attempt?, count?);
    }
    let twice: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(twice.is_empty(), "applied twice: {twice:?}");
    for ledger in ledgers {
        let lost: Vec<_> = ledger.told.iter().filter(|id| !found.contains_key(id)).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let kept: Vec<_> = ledger.void.iter().filter(|id| found.contains_key(id)).collect();
        ensure!(kept.is_empty(), "rolled back or refused, and there: {kept:?}");
    }
    let known: u64 = ledgers.iter().map(|one| one.told.len() as u64).sum();
    let open: u64 = ledgers.iter().map(|one| one.open.len() as u64).sum();
    ensure!(found.len() as u64 <= known + open, "{} rows, {known} told", found.len());
    Ok(())
}

#[test]
fn nothing_is_mixed_up_lost_or_doubled_while_servers_die() -> Result<()> {
    if !is_available(Flavour::MariaDb, "nothing_is_mixed_up_lost_or_doubled_while_servers_die") {
        return Ok(());
    }
    survive(false)
}

/// Many clients work while their servers die, with reads of all clients sixteen deep on shared
/// connections, whatever is known of them, and clients that vanish and statements that hold others
/// up.
#[test]
fn nothing_is_mixed_up_lost_or_doubled_sixteen_deep() -> Result<()> {
    if !is_available(Flavour::MariaDb, "nothing_is_mixed_up_lost_or_doubled_sixteen_deep") {
        return Ok(());
    }
    survive(true)
}

fn survive(is_shared: bool) -> Result<()> {
    let replication = replication(Flavour::MariaDb, 1)?;
    let (primary, replica) = (replication.primary(), &replication.replicas()[0]);
    // No key on the attempt: a write applied twice must be seen, not refused.
    primary.sql(
        "CREATE DATABASE busy;
         CREATE TABLE busy.entry (id BIGINT AUTO_INCREMENT PRIMARY KEY, attempt BIGINT NOT NULL,
         client INT NOT NULL, KEY (client), KEY (attempt)) ENGINE = InnoDB",
    )?;
    replication.wait_caught_up(SOON)?;
    let entry = |group: u32, server: &Server| {
        format!(
            "[[server]]\nhostgroup = {group}\naddress = \"{}\"\nmax_connections = 80\n",
            server.address()
        )
    };
    let depths = match is_shared {
        true => [0, 1].map(|id| format!("[[hostgroup]]\nhostgroup_id = {id}\npipeline = 16\n")),
        false => [String::new(), String::new()],
    };
    // One of the two by each of the ways to receive.
    let io = if is_shared { "io_uring" } else { "epoll" };
    let proxy = Trunkline::start(&format!(
        "io = \"{io}\"\nworkers = 2\nshun_on_failures = 1\nshun_recovery_time_sec = 1\n{}{}\
         [[replication]]\nwriter_hostgroup = 0\nreader_hostgroup = 1\n{}{}",
        entry(0, primary),
        entry(1, replica),
        depths.concat(),
        user(0)
    ))?;
    let scene = Arc::new(Scene::new(&proxy, is_shared));
    let end = Instant::now() + duration();
    let (ledgers, rounds) = std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(all(&scene))
        });
        let rounds = havoc(primary, replica, end);
        scene.stop.store(true, Ordering::Relaxed);
        let ledgers = clients.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        anyhow::Ok((ledgers?, rounds?))
    })?;
    ensure!(proxy.is_running());
    ensure!(rounds >= 2, "{rounds} rounds");
    reckon(primary, &ledgers)?;
    let answers: u64 = ledgers.iter().map(|ledger| ledger.answers).sum();
    let told: usize = ledgers.iter().map(|ledger| ledger.told.len()).sum();
    let mut excused: BTreeMap<u16, u64> = BTreeMap::new();
    for (code, count) in ledgers.iter().flat_map(|ledger| &ledger.excused) {
        *excused.entry(*code).or_default() += count;
    }
    println!("{rounds} rounds, {answers} answers, {told} writes; errors by number: {excused:?}");
    ensure!(answers > 2_000, "only {answers} answers; errors {excused:?}");
    if is_shared {
        let followed = proxy.metric("trunkline_statement_pipelined_total", "")?.unwrap_or(0.0);
        println!("{followed} statements followed others on their connection");
        ensure!(followed > 1_000.0, "{followed} of {answers} followed others");
    }
    wait_until("no client is left", SOON, || Ok(pins(&proxy)?.is_empty().then_some(())))?;
    // One more each asks the server's dictionary; it is none of the pool's. A server may still be
    // at the end of those that were closed.
    wait_until("no server has too many connections", SOON, || {
        let is_within = connections_on(primary)? <= 81 && connections_on(replica)? <= 81;
        Ok(is_within.then_some(()))
    })
}

/// All clients at once, until they are told to stop; an error of one ends all.
async fn all(scene: &Arc<Scene>) -> Result<Vec<Ledger>> {
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let scene = Arc::clone(scene);
        clients.spawn(async move { live(&scene, number).await });
    }
    let mut ledgers = Vec::new();
    while let Some(client) = clients.join_next().await {
        ledgers.push(client??);
    }
    Ok(ledgers)
}
