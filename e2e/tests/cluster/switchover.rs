//! `SWITCHOVER` on real servers, while clients write.

use std::{
    env,
    sync::Mutex,
    time::{Duration, Instant},
};

use trunkline_testkit::{Row, SqlClient};

use super::*;

/// The account that switches, with what the manual says that it needs.
pub(super) const SWITCHER: &str = "switcher";
/// Clients that write; each second one in transactions.
const CLIENTS: u32 = 8;
/// Switchovers in a test; more are asked for by `TRUNKLINE_SWITCHOVERS`.
const ROUNDS: u32 = 2;

fn rounds() -> u32 {
    env::var("TRUNKLINE_SWITCHOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS)
}

pub(super) fn grants(flavour: Flavour) -> String {
    let privileges = match flavour {
        Flavour::MariaDb => {
            "PROCESS, RELOAD, CONNECTION ADMIN, READ_ONLY ADMIN, REPLICATION SLAVE ADMIN, \
             REPLICATION MASTER ADMIN, SLAVE MONITOR"
        }
        Flavour::MySql => {
            "PROCESS, RELOAD, REPLICATION CLIENT, REPLICATION SLAVE, CONNECTION_ADMIN, \
             SYSTEM_VARIABLES_ADMIN, REPLICATION_SLAVE_ADMIN"
        }
    };
    // It sees which accounts MariaDB's `read_only` does not stop.
    let sees = match flavour {
        Flavour::MariaDb => format!("; GRANT SELECT ON mysql.* TO {SWITCHER}"),
        Flavour::MySql => String::new(),
    };
    format!(
        "CREATE USER {SWITCHER} IDENTIFIED BY '{SWITCHER}'; \
         GRANT {privileges} ON *.* TO {SWITCHER}{sees}"
    )
}

pub(super) fn with_admin(kind: &str, servers: &[Arc<Server>]) -> Result<Trunkline> {
    let seeds: Vec<_> = servers.iter().map(|it| format!("\"{}\"", it.address())).collect();
    Trunkline::start_database(&format!(
        "workers = 2\ncatalog_wait_ms = 10000\nmonitor_read_only_interval = 200\n\
         monitor_groupreplication_healthcheck_interval = 200\nmonitor_account = \"{USER}\"\n\
         switchover_account = \"{SWITCHER}\"\nreplication_account = \"replica\"\n\
         [[cluster]]\nname = \"shop\"\nkind = \"{kind}\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nseeds = [{}]\n\
         [[user]]\nname = \"{SWITCHER}\"\npassword = \"{SWITCHER}\"\nactive = false\n\
         default_hostgroup = 10\n\
         [[user]]\nname = \"replica\"\npassword = \"replica\"\nactive = false\n\
         default_hostgroup = 10\n{}",
        seeds.join(", "),
        user(10)
    ))
}

pub(super) fn administrator(proxy: &Trunkline) -> Result<SqlClient> {
    SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")
}

fn cells(row: &Row) -> Vec<String> {
    row.iter().map(|cell| cell.clone().unwrap_or_default()).collect()
}

/// What one client did.
#[derive(Default)]
struct Written {
    acknowledged: u64,
    errors: Vec<String>,
    longest: Duration,
}

/// Writes numbers until it is over, one by one or in transactions of two.
fn write(proxy: &Trunkline, number: u32, is_over: &AtomicBool) -> Result<Written> {
    let mut written = Written::default();
    let mut client = client(proxy, "")?;
    let mut next = 0;
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let (count, done) = write_next(&mut client, number, next);
        match done {
            Ok(()) => {
                written.acknowledged += u64::from(count);
                written.longest = written.longest.max(begun.elapsed());
            }
            Err(error) => {
                written.errors.push(format!("client {number}: {error:#}"));
                client = super::client(proxy, "")?;
            }
        }
        next += count;
    }
    Ok(written)
}

/// Every server has what was acknowledged, and nothing twice.
fn compare(servers: &[Arc<Server>], acknowledged: u64) -> Result<()> {
    for server in servers {
        let count = "SELECT CONCAT(COUNT(*), ' ', COUNT(DISTINCT client, n)) FROM mark.number";
        let wanted = format!("{acknowledged} {acknowledged}");
        let mut last = None;
        wait_until("all rows", SOON, || {
            last = server.value(count)?;
            Ok((last.as_ref() == Some(&wanted)).then_some(()))
        })
        .with_context(|| format!("{} has {last:?}, not {wanted}", server.address()))?;
    }
    Ok(())
}

/// Switches so many times while clients write; what they saw, and the time of each switchover.
fn switch_and_write(
    proxy: &Trunkline,
    servers: &[Arc<Server>],
    rounds: u32,
) -> Result<(u64, Vec<u64>)> {
    let is_over = AtomicBool::new(false);
    let pauses = Mutex::new(Vec::new());
    let written = thread::scope(|scope| {
        let mut total = 0;
        let mut admin = administrator(proxy)?;
        for round in 0..rounds {
            is_over.store(false, Ordering::Relaxed);
            let writers: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let number = round * CLIENTS + number;
                    let is_over = &is_over;
                    scope.spawn(move || write(proxy, number, is_over))
                })
                .collect();
            thread::sleep(Duration::from_millis(200));
            let to = match round % 2 {
                0 => servers.get(1),
                _ => servers.first(),
            };
            let to = to.context("servers")?.address();
            let steps = admin.sql(&format!("SWITCHOVER shop TO '{to}'"));
            thread::sleep(Duration::from_millis(200));
            is_over.store(true, Ordering::Relaxed);
            let mut longest = Duration::ZERO;
            let mut errors = Vec::new();
            for writer in writers {
                let written = writer.join().expect("no panic")?;
                total += written.acknowledged;
                longest = longest.max(written.longest);
                errors.extend(written.errors);
            }
            let steps: Vec<Vec<String>> = steps?.iter().map(cells).collect();
            println!("{} ms {steps:?}", longest.as_millis());
            ensure!(errors.is_empty(), "{errors:?}\n{steps:?}");
            pauses.lock().expect("no panic").push(u64::try_from(longest.as_millis())?);
        }
        Ok::<u64, anyhow::Error>(total)
    })?;
    Ok((written, pauses.into_inner().expect("no panic")))
}

fn prepare(primary: &Server, flavour: Flavour) -> Result<()> {
    primary.sql(&grants(flavour))?;
    make_table(primary)
}

pub(super) fn make_table(primary: &Server) -> Result<()> {
    primary.sql(
        "CREATE TABLE mark.number (id INT AUTO_INCREMENT PRIMARY KEY, client INT, n INT,
         KEY (client, n))",
    )?;
    Ok(())
}

/// Switches from the first of these servers to the second and back, as often as is asked for, while
/// clients write; all of them have what was acknowledged.
pub(super) fn switch_and_compare(proxy: &Trunkline, servers: &[Arc<Server>]) -> Result<()> {
    let switched = switch_and_write(proxy, servers, rounds());
    let (acknowledged, mut pauses) = switched.with_context(|| proxy.log())?;
    told(&mut pauses);
    compare(servers, acknowledged)
}

fn told(pauses: &mut [u64]) {
    pauses.sort_unstable();
    let (count, longest) = (pauses.len(), pauses.last().copied().unwrap_or_default());
    let median = pauses.get(count / 2).copied().unwrap_or_default();
    println!("{count} switchovers: longest pause {longest} ms, median {median} ms: {pauses:?}");
}

#[test]
fn writes_go_on_over_switchovers_and_none_is_lost_or_done_twice() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "writes_go_on_over_switchovers") {
            continue;
        }
        let replication = replication(flavour, 2)?;
        let mut servers = vec![Arc::clone(replication.primary())];
        servers.extend(replication.replicas().iter().cloned());
        prepare(&servers[0], flavour)?;
        replication.wait_caught_up(SOON)?;
        let proxy = with_admin("replication", &servers)?;
        wait_role(&proxy, &servers[0], "writer")?;
        wait_role(&proxy, &servers[1], "reader")?;
        wait_role(&proxy, &servers[2], "reader")?;
        let mut admin = administrator(&proxy)?;
        let found: Vec<_> = admin.sql("CHECK SWITCHOVER shop")?.iter().map(cells).collect();
        let verdicts: Vec<&str> = found.iter().map(|row| row[1].as_str()).collect();
        ensure!(verdicts == ["candidate"], "{found:?}");

        let mut privileged = servers[0].root()?;
        switch_and_compare(&proxy, &servers)?;
        let goes_on = privileged.sql("SELECT 1").is_ok();
        ensure!(goes_on == (flavour == Flavour::MySql), "{}: {goes_on}", flavour.name());
        let last = if rounds() % 2 == 1 { &servers[1] } else { &servers[0] };
        wait_role(&proxy, last, "writer")?;
        for server in servers.iter().filter(|it| it.port() != last.port()) {
            wait_role(&proxy, server, "reader")?;
        }
    }
    Ok(())
}

/// The error of a statement of the admin port, once nothing else is being changed there.
pub(super) fn refusal(admin: &mut SqlClient, statement: &str, part: &str) -> Result<()> {
    let error = wait_until("nothing is being changed", SOON, || match admin.sql(statement) {
        Ok(rows) => anyhow::bail!("{statement} is answered with {rows:?}"),
        Err(error) => {
            let error = format!("{error:#}");
            Ok((!error.contains("are being changed")).then_some(error))
        }
    })?;
    ensure!(error.contains(part), "{statement}: {error}, not {part}");
    Ok(())
}

/// What is found to be in the way.
fn blocks(admin: &mut SqlClient, statement: &str, part: &str) -> Result<()> {
    let found: Vec<Vec<String>> = admin.sql(statement)?.iter().map(cells).collect();
    let is_found = found.iter().any(|row| row[1] == "blocks" && row[2].contains(part));
    ensure!(is_found, "{statement}: {found:?}, not {part}");
    refusal(admin, statement.trim_start_matches("CHECK "), part)
}

fn writes(proxy: &Trunkline, server: &Server) -> Result<()> {
    wait_role(proxy, server, "writer")?;
    client(proxy, "")?.sql("INSERT INTO mark.note (text) VALUES ('after')")?;
    let read_only = server.value("SELECT @@global.read_only")?;
    ensure!(read_only == Some("0".to_owned()), "{read_only:?}");
    Ok(())
}

#[test]
// long: one story on one cluster, each part of which goes on from the one before.
fn what_is_in_the_way_of_a_switchover_is_told_and_what_fails_is_undone() -> Result<()> {
    if !is_available(Flavour::MariaDb, "what_is_in_the_way_of_a_switchover") {
        return Ok(());
    }
    let replication = replication(Flavour::MariaDb, 2)?;
    let mut servers = vec![Arc::clone(replication.primary())];
    servers.extend(replication.replicas().iter().cloned());
    let [one, two, three] = &servers[..] else { anyhow::bail!("not three servers") };
    prepare(one, Flavour::MariaDb)?;
    replication.wait_caught_up(SOON)?;
    let proxy = with_admin("replication", &servers)?;
    for (server, wanted) in [(one, "writer"), (two, "reader"), (three, "reader")] {
        wait_role(&proxy, server, wanted)?;
    }
    let mut admin = administrator(&proxy)?;
    let to = |server: &Server| format!("CHECK SWITCHOVER shop TO '{}'", server.address());
    refusal(&mut admin, "SWITCHOVER mall", "there is no cluster `mall`")?;
    refusal(&mut admin, "CHECK SWITCHOVER shop TO '10.0.0.1:1'", "no server of cluster shop")?;
    refusal(&mut admin, "SWITCHOVER", "wants a cluster")?;
    blocks(&mut admin, &to(one), "it is the writer already")?;
    two.sql("STOP SLAVE SQL_THREAD")?;
    blocks(&mut admin, &to(two), "its replication does not run")?;
    two.sql("START SLAVE SQL_THREAD")?;
    three.sql("SET sql_log_bin = 1; CREATE DATABASE errant")?;
    blocks(&mut admin, &to(three), "transactions that the writer has not")?;
    one.sql(&format!("REVOKE RELOAD ON *.* FROM {SWITCHER}"))?;
    blocks(&mut admin, &to(two), "the account for switchovers lacks RELOAD")?;
    one.sql(&format!("GRANT RELOAD ON *.* TO {SWITCHER}"))?;
    one.sql(&format!("REVOKE BINLOG REPLAY, SUPER ON *.* FROM {USER}"))?;
    for statement in [
        "SET trunkline-commit_outcome = 'auto'",
        "SET trunkline-switchover_drain_timeout = '300'",
        "SET trunkline-switchover_timeout = '2500'",
        "LOAD TRUNKLINE VARIABLES TO RUNTIME",
    ] {
        admin.sql(statement)?;
    }
    wait_until("the privilege is missed", SOON, || {
        let found: Vec<Vec<String>> = admin.sql(&to(two))?.iter().map(cells).collect();
        let on_two = |row: &&Vec<String>| row[0] == two.address() && row[1] == "note";
        let is_told = found.iter().filter(on_two).any(|row| {
            row[2].contains("may not mark its connections (error 1227: ")
                && row[2].contains(": GRANT BINLOG REPLAY ON *.* TO '")
        });
        Ok(is_told.then_some(()))
    })?;
    one.sql(&format!("GRANT BINLOG REPLAY ON *.* TO {USER}"))?;
    let switch = format!("SWITCHOVER shop TO '{}'", two.address());

    // Another proxy is at it: it has its lock on a replica, as for a failover.
    let mut other = three.root()?;
    other.sql("SELECT GET_LOCK('trunkline_switchover', 0)")?;
    blocks(&mut admin, &to(two), "it has its lock there")?;
    other.sql("SELECT RELEASE_LOCK('trunkline_switchover')")?;

    // A session that nobody sent through the proxy keeps the old writer from becoming read-only.
    let mut locker = one.root()?;
    locker.sql("LOCK TABLES mark.note WRITE")?;
    refusal(&mut admin, &switch, "it was undone")?;
    locker.sql("UNLOCK TABLES")?;
    writes(&proxy, one)?;

    // The candidate applies nothing any more.
    let mut locker = two.root()?;
    locker.sql("LOCK TABLES mark.note WRITE")?;
    writes(&proxy, one)?;
    refusal(&mut admin, &switch, "it was undone")?;
    locker.sql("UNLOCK TABLES")?;
    writes(&proxy, one)?;

    // The proxy ends in the middle: the next process undoes it.
    let mut locker = two.root()?;
    locker.sql("LOCK TABLES mark.note WRITE")?;
    writes(&proxy, one)?;
    let mark = proxy.log_mark();
    thread::scope(|scope| {
        let switching = scope.spawn(|| admin.sql(&switch));
        let ended = proxy.wait_log(mark, ": demote, ", SOON).map(drop);
        let ended = ended.and_then(|()| proxy.kill_and_restart(&[]));
        let answered = switching.join().expect("no panic");
        ended?;
        ensure!(answered.is_err(), "the switchover was done");
        Ok(())
    })?;
    wait_until("what was cut short is undone", SOON, || {
        Ok(proxy.log().contains("the old writer takes writes again").then_some(()))
    })
    .with_context(|| proxy.log())?;
    locker.sql("UNLOCK TABLES")?;
    writes(&proxy, one)?;
    wait_role(&proxy, two, "reader")?;
    let mut admin = administrator(&proxy)?;
    admin.sql("SET trunkline-switchover_drain_timeout = '300'")?;
    admin.sql("LOAD TRUNKLINE VARIABLES TO RUNTIME")?;

    // What does not end is ended, and whoever has only read or waited notices nothing.
    let mut held = client(&proxy, "")?;
    held.sql("BEGIN; INSERT INTO mark.note (text) VALUES ('lost')")?;
    admin.sql(&switch)?;
    fails(&mut held, "COMMIT", ROLLED_BACK)?;
    writes(&proxy, two)?;
    let lost = two.value("SELECT COUNT(*) FROM mark.note WHERE text = 'lost'")?;
    ensure!(lost == Some("0".to_owned()), "{lost:?}");
    wait_role(&proxy, one, "reader")?;

    // The writer dies while it drains: nobody is promoted, and the hold ends.
    admin.sql("SET trunkline-switchover_drain_timeout = '2000'")?;
    admin.sql("LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    let mut held = client(&proxy, "")?;
    held.sql("BEGIN; INSERT INTO mark.note (text) VALUES ('lost')")?;
    let back = format!("SWITCHOVER shop TO '{}'", one.address());
    thread::scope(|scope| {
        let mark = proxy.log_mark();
        let switching = scope.spawn(|| refusal(&mut admin, &back, "Nobody writes"));
        let begun = proxy.wait_log(mark, "it begins", SOON);
        // No other proxy can begin a failover meanwhile.
        let claimed = three.value("SELECT IS_USED_LOCK('trunkline_switchover') IS NOT NULL");
        let claimed = claimed.map(|it| it == Some("1".to_owned()));
        let killed = two.kill_hard();
        let refused = switching.join().expect("no panic");
        begun.map(drop).and(killed).and(refused)?;
        ensure!(claimed?, "the switchover has no lock on the replica");
        Ok(())
    })?;
    // Somebody decides.
    one.sql(Words::of(Flavour::MariaDb).promote)?;
    writes(&proxy, one)?;
    Ok(())
}
