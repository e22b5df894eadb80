//! Servers that are full, slow, gone or back: what clients notice of it, and what they don't.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::frame::put_payload;
use trunkline_testkit::{Flavour, Options, Server, SqlClient, Trunkline, error_code, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, before, client, connections_on, fails, is_available,
    new_schema, one_server, replication, start, statements_of, status, text, user, wait_pins,
};
use crate::wire::{MODERN, Wire, code, login};

/// A server that refuses is left alone for a second only.
const IMPATIENT: &str = "shun_on_failures = 1\nshun_recovery_time_sec = 1\n";

/// One entry of hostgroup 0.
fn entry(address: &str) -> String {
    format!("[[server]]\nhostgroup = 0\naddress = \"{address}\"\nmax_connections = 20\n")
}

/// Runs a test on a server of its own, of each flavour that can be had.
fn on_each(test: &str, run: impl Fn(&Server) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, test) {
            let server = start(flavour, Options::default())?;
            run(&server).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn max_connections_holds_over_all_workers() -> Result<()> {
    on_each("max_connections_holds_over_all_workers", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        let proxy = before(server, 2, 3)?;
        let most = std::thread::scope(|scope| {
            let (proxy, schema) = (&proxy, &schema);
            let threads: Vec<_> =
                (0..64).map(|_| scope.spawn(move || busy_client(proxy, schema))).collect();
            let mut most = 0;
            while threads.iter().any(|thread| !thread.is_finished()) {
                most = most.max(connections_on(server)?);
            }
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            anyhow::Ok(most)
        })?;
        // One more asks the server's dictionary; it is none of the pool's.
        ensure!((1..=4).contains(&most), "{most} server connections");
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        ensure!(rows.as_deref() == Some("256"), "{rows:?} rows");
        wait_pins(&proxy, &[])
    })
}

fn busy_client(proxy: &Trunkline, schema: &str) -> Result<()> {
    let mut client = client(proxy, schema)?;
    for turn in 0..4 {
        ensure!(text(&mut client, "SELECT SLEEP(0.002)")? == "0");
        client.sql("BEGIN")?;
        client.sql(&format!("INSERT INTO t VALUES ({turn})"))?;
        client.sql("COMMIT")?;
    }
    Ok(())
}

#[test]
fn an_answer_that_nobody_waits_for_does_not_keep_a_connection() -> Result<()> {
    on_each("an_answer_that_nobody_waits_for_does_not_keep_a_connection", |server| {
        let settings = "connect_timeout_server_max = 2000\n";
        let proxy = Trunkline::start(&format!("{settings}{}", one_server(server, 1, 1)))?;
        let mut gone = Wire::login(&proxy, USER, PASSWORD, "")?;
        gone.send(code::QUERY, b"SELECT SLEEP(60)")?;
        let sleeps = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%(60)'";
        wait_until("the statement runs", SOON, || {
            Ok((server.value(sleeps)?.as_deref() == Some("1")).then_some(()))
        })?;
        drop(gone);
        // The only connection is somebody else's soon.
        let mut other = client(&proxy, "")?;
        wait_until("the connection is given up", SOON, || {
            Ok(text(&mut other, "SELECT 1").is_ok().then_some(()))
        })?;
        let name = "trunkline_backend_connections_abandoned_total";
        ensure!(proxy.metric(name, "")? == Some(1.0), "{:?}", proxy.metric(name, "")?);
        ensure!(proxy.log().contains("has not ended the answer"), "{}", proxy.log());
        Ok(())
    })
}

#[test]
fn servers_are_reached_by_name_by_ipv6_and_by_socket() -> Result<()> {
    let test = "servers_are_reached_by_name_by_ipv6_and_by_socket";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = start(flavour, Options::default().arg("--bind-address=*"))?;
        let mut addresses = vec![
            format!("localhost:{}", server.port()),
            format!("unix:{}", server.socket().display()),
        ];
        match std::net::TcpListener::bind("[::1]:0") {
            Ok(_) => addresses.push(format!("[::1]:{}", server.port())),
            Err(error) => trunkline_testkit::skipped(test, &format!("no IPv6 here: {error}")),
        }
        for address in addresses {
            let proxy = Trunkline::start(&format!("workers = 1\n{}{}", entry(&address), user(0)))?;
            let mut one = client(&proxy, "")?;
            let seen = text(&mut one, "SELECT @@port");
            let seen = seen.with_context(|| address.clone())?;
            ensure!(seen == server.port().to_string(), "{address}: {seen}");
        }
    }
    Ok(())
}

#[test]
fn a_server_that_refuses_is_shunned_and_comes_back() -> Result<()> {
    on_each("a_server_that_refuses_is_shunned_and_comes_back", |server| {
        let config = one_server(server, 1, 10);
        let proxy =
            Trunkline::start(&format!("{IMPATIENT}connect_timeout_server_max = 1500\n{config}"))?;
        let mut one = client(&proxy, "")?;
        ensure!(text(&mut one, "SELECT 1")? == "1");
        server.kill_hard()?;
        let error = fails(&mut one, "SELECT 1", 9001)?;
        ensure!(error.contains("hostgroup 0"), "{error}");
        ensure!(error.contains("online") || error.contains("came up"), "no cause: {error}");
        let error = fails(&mut one, "DO 1", 9001)?;
        ensure!(error.contains("hostgroup 0"), "{error}");
        server.restart()?;
        wait_until("the server serves again", SOON, || Ok(one.sql("SELECT 1").ok()))?;
        ensure!(text(&mut one, "SELECT 2")? == "2", "the session lived on");
        Ok(())
    })
}

/// Pauses a server, and waits until its last thread stands still.
fn freeze(server: &Server) -> Result<()> {
    server.pause()?;
    let tasks = format!("/proc/{}/task", server.pid()?);
    wait_until("every thread stands still", SOON, || {
        for task in std::fs::read_dir(&tasks)? {
            // The state stands behind the name, which is in brackets.
            let stat = std::fs::read_to_string(task?.path().join("stat"))?;
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            if state != Some('T') {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
}

/// A new connection to a frozen server never comes up: the other one serves.
#[test]
fn a_server_that_does_not_answer_is_passed_over() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_server_that_does_not_answer_is_passed_over") {
        return Ok(());
    }
    let (frozen, other) = (
        start(Flavour::MariaDb, Options::default())?,
        start(Flavour::MariaDb, Options::default())?,
    );
    let config = format!(
        "workers = 1\nshun_on_failures = 1\nshun_recovery_time_sec = 1\n\
         connect_timeout_server = 200\n{}{}{}",
        entry(&frozen.address()),
        entry(&other.address()),
        user(0)
    );
    freeze(&frozen)?;
    let proxy = Trunkline::start(&config)?;
    let began = Instant::now();
    let served = (0..20).try_for_each(|_| {
        let port = text(&mut client(&proxy, "")?, "SELECT @@port")?;
        ensure!(port == other.port().to_string(), "served by {port}");
        Ok(())
    });
    let took = began.elapsed();
    frozen.resume()?;
    served?;
    ensure!(took < Duration::from_secs(8), "{took:?}");
    wait_until("the frozen server serves again", SOON, || {
        let mut pair = [client(&proxy, "")?, client(&proxy, "")?];
        pair[0].sql("BEGIN")?;
        pair[1].sql("BEGIN")?;
        let ports = [text(&mut pair[0], "SELECT @@port")?, text(&mut pair[1], "SELECT @@port")?];
        Ok(ports.contains(&frozen.port().to_string()).then_some(()))
    })
}

/// Ends every connection that the account has on a server, and waits until they are gone.
fn kill_connections(server: &Server) -> Result<()> {
    let mut root = server.root()?;
    for row in root.sql("SHOW PROCESSLIST")? {
        if row.get(1).and_then(Option::as_deref) == Some(crate::stage::USER)
            && let Some(Some(id)) = row.first()
        {
            // It may have gone by itself.
            let _ = root.sql(&format!("KILL {id}"));
        }
    }
    wait_until(
        "the connections are gone",
        SOON,
        || Ok((connections_on(server)? == 0).then_some(())),
    )
}

/// Ends the connection that runs the slow statement.
fn kill_statement(server: &Server) -> Result<()> {
    let mut root = server.root()?;
    for row in root.sql("SHOW FULL PROCESSLIST")? {
        let is_slow = row.get(7).and_then(Option::as_deref).is_some_and(|t| t.contains("SLEEP"));
        if let (true, Some(Some(id))) = (is_slow, row.first()) {
            root.sql(&format!("KILL {id}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_lost_idle_connection_is_never_a_clients_error() -> Result<()> {
    on_each("a_lost_idle_connection_is_never_a_clients_error", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT PRIMARY KEY)")?;
        let proxy = before(server, 2, 10)?;
        let mut clients = [client(&proxy, &schema)?, client(&proxy, &schema)?];
        for round in 0..10 {
            for (number, one) in clients.iter_mut().enumerate() {
                one.sql(&format!("INSERT INTO t VALUES ({})", 10 * round + number))?;
            }
            kill_connections(server)?;
            let writes = round % 2 == 0;
            for (number, one) in clients.iter_mut().enumerate() {
                match writes {
                    true => one.sql(&format!("INSERT INTO t VALUES ({})", 10 * round + 5 + number)),
                    false => one.sql("SELECT COUNT(*) FROM t"),
                }
                .with_context(|| format!("round {round}"))?;
            }
        }
        server.restart()?;
        ensure!(text(&mut clients[0], "SELECT COUNT(*) FROM t")? == "30");
        clients[1].sql("INSERT INTO t VALUES (1000)")?;
        Ok(())
    })
}

/// The server among these that runs a statement with this text.
fn runs_it<'a>(servers: &[&'a Server], part: &str) -> Result<&'a Server> {
    wait_until(&format!("{part} runs"), SOON, || {
        for server in servers {
            if !server.is_running() {
                continue;
            }
            let rows = server.sql("SHOW FULL PROCESSLIST")?;
            let is_it = |row: &Vec<Option<String>>| {
                row.get(1).and_then(Option::as_deref) == Some(crate::stage::USER)
                    && row.get(7).and_then(Option::as_deref).is_some_and(|t| t.contains(part))
            };
            if rows.iter().any(is_it) {
                return Ok(Some(*server));
            }
        }
        Ok(None)
    })
}

/// Runs a statement on a thread while something happens to the server that runs it.
fn meanwhile<T>(
    client: &mut SqlClient,
    statement: &str,
    servers: &[&Server],
    act: impl FnOnce(&Server) -> Result<T>,
) -> Result<(Result<Vec<trunkline_testkit::Row>>, T)> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| client.sql(statement));
        let acted = runs_it(servers, statement).and_then(act);
        let answer = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((answer, acted?))
    })
}

#[test]
fn a_read_is_tried_elsewhere_when_its_server_dies() -> Result<()> {
    if !is_available(Flavour::MariaDb, "a_read_is_tried_elsewhere_when_its_server_dies") {
        return Ok(());
    }
    let replication = replication(Flavour::MariaDb, 2)?;
    let readers: Vec<&Server> = replication.replicas().iter().map(AsRef::as_ref).collect();
    let mut config = format!("{IMPATIENT}workers = 1\n{}", entry(&replication.primary().address()));
    for reader in &readers {
        config.push_str(&entry(&reader.address()).replace("hostgroup = 0", "hostgroup = 1"));
    }
    config.push_str("[[replication]]\nwriter_hostgroup = 0\nreader_hostgroup = 1\n");
    config.push_str(&user(0));
    let proxy = Trunkline::start(&config)?;
    let mut one = client(&proxy, "mark")?;
    let slow = "SELECT name, SLEEP(1) FROM server";

    let (answer, first) = meanwhile(&mut one, slow, &readers, |server| {
        server.kill_hard()?;
        Ok(server.server_id())
    })?;
    let name = answer?.first().and_then(|row| row.first().cloned().flatten()).unwrap_or_default();
    ensure!(name == format!("replica{}", 4 - first), "server {first} died, {name} answered");

    let dead = readers.iter().find(|reader| !reader.is_running()).context("none died")?;
    dead.restart()?;
    let name = format!("replica{}", first - 1);
    wait_until("the reader serves again", SOON, || {
        Ok((text(&mut one, "SELECT name FROM server")? == name).then_some(()))
    })?;

    // By the hand of an administrator.
    let (answer, ()) = meanwhile(&mut one, slow, &readers, kill_statement)?;
    let name = answer?.first().and_then(|row| row.first().cloned().flatten()).unwrap_or_default();
    ensure!(name.starts_with("replica"), "{name} answered");

    // No reader is left: the writer serves.
    readers.iter().try_for_each(|reader| reader.kill_hard())?;
    wait_until("the writer serves reads", SOON, || {
        Ok((one.value("SELECT name FROM server").ok().flatten().as_deref() == Some("primary"))
            .then_some(()))
    })?;
    readers.iter().try_for_each(|reader| reader.restart())?;
    wait_until("a reader serves again", SOON, || {
        let name = one.value("SELECT name FROM server")?.unwrap_or_default();
        Ok(name.starts_with("replica").then_some(()))
    })?;
    ensure!(statements_of(&proxy, 1)? > 0);
    Ok(())
}

#[test]
fn a_write_is_never_sent_twice() -> Result<()> {
    on_each("a_write_is_never_sent_twice", |server| {
        let schema =
            new_schema(server, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT)")?;
        let config = one_server(server, 1, 10);
        let proxy = Trunkline::start(&format!("{IMPATIENT}{config}"))?;
        let mut one = client(&proxy, &schema)?;
        for (number, hard) in [(1, true), (2, false)] {
            let write = format!("INSERT INTO t (a) SELECT {number} + SLEEP(1)");
            let (answer, ()) = meanwhile(&mut one, &write, &[server], |server| match hard {
                true => server.kill_hard(),
                false => kill_connections(server),
            })?;
            let error = match answer {
                Ok(_) => bail!("{write} succeeded"),
                Err(error) => error,
            };
            ensure!(error_code(&error) == Some(2013), "{error:#}");
            if hard {
                server.restart()?;
            }
            wait_until("the session goes on", SOON, || Ok(one.sql("DO 1").ok()))?;
            let count = format!("SELECT COUNT(*) FROM {schema}.t WHERE a = {number}");
            let rows = server.value(&count)?.unwrap_or_default();
            ensure!(rows == "0" || rows == "1", "{rows} rows of {write}");
        }
        Ok(())
    })
}

#[test]
fn a_frozen_server_delays_but_does_not_break() -> Result<()> {
    on_each("a_frozen_server_delays_but_does_not_break", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT)")?;
        let proxy = before(server, 1, 10)?;
        let mut one = client(&proxy, &schema)?;
        one.sql("INSERT INTO t VALUES (1)")?;
        freeze(server)?;
        let done = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let answer = one.sql("INSERT INTO t VALUES (2)");
                done.store(true, Ordering::Release);
                answer
            });
            // The proxy itself goes on: it logs others in, and says what it holds.
            let other = wait_until("the statement is under way", SOON, || {
                let leased = crate::stage::server_sum(&proxy, "leased", |_| true)?;
                Ok((leased > 0).then_some(()))
            });
            let answered = done.load(Ordering::Acquire);
            server.resume()?;
            let answer = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            other?;
            ensure!(!answered, "it answered while its server was frozen");
            answer
        });
        outcome?;
        ensure!(text(&mut one, "SELECT COUNT(*) FROM t")? == "2");
        Ok(())
    })
}

/// The client has been told that its transaction began: it must not go on as if nothing was.
#[test]
fn a_session_that_loses_the_rest_of_several_statements_ends() -> Result<()> {
    on_each("a_session_that_loses_the_rest_of_several_statements_ends", |server| {
        let proxy = before(server, 1, 2)?;
        let mut wire = Wire::login_with(
            &proxy,
            login(USER, PASSWORD, "", MODERN.union(Capabilities::MULTI_STATEMENTS)),
        )?;
        wire.send(code::QUERY, b"BEGIN; SELECT SLEEP(300)")?;
        let (_, begun) = wire.packet()?;
        ensure!(begun.first() == Some(&0), "{begun:?}");
        let asks = "SELECT id FROM information_schema.processlist WHERE info LIKE '%SLEEP(300)%'
                    AND info NOT LIKE '%processlist%'";
        let number = wait_until("it sleeps", SOON, || server.value(asks))?;
        server.sql(&format!("KILL {number}"))?;
        let (_, lost) = wire.packet()?;
        ensure!(lost.get(..3) == Some(&[0xFF, 0xDD, 0x07]), "{lost:?}");
        ensure!(wire.packet().is_err(), "the session goes on");
        Ok(())
    })
}

#[test]
fn a_session_whose_state_is_lost_is_told_what() -> Result<()> {
    on_each("a_session_whose_state_is_lost_is_told_what", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT PRIMARY KEY) ENGINE = InnoDB")?;
        let config = one_server(server, 1, 10);
        let proxy = Trunkline::start(&format!("{IMPATIENT}{config}"))?;
        let mut variable = client(&proxy, &schema)?;
        let mut table = client(&proxy, &schema)?;
        let mut transaction = client(&proxy, &schema)?;
        let mut free = client(&proxy, &schema)?;
        // One that no other connection could be given.
        variable.sql("SET @mine = UUID()")?;
        table.sql("CREATE TEMPORARY TABLE mine (a INT)")?;
        transaction.sql("BEGIN")?;
        transaction.sql("INSERT INTO t VALUES (1)")?;
        free.sql("SET time_zone = '+02:00'")?;
        server.restart()?;
        for (one, held) in [(&mut variable, "user_variable"), (&mut table, "temporary_table")] {
            let error = fails(one, "SELECT 1", 2013)?;
            ensure!(error.contains(held), "{held} is not named: {error}");
        }
        // A transaction is certainly undone: its session goes on.
        let error = fails(&mut transaction, "COMMIT", 1213)?;
        ensure!(error.contains(&format!("127.0.0.1:{}", server.port())), "{error}");
        ensure!(text(&mut transaction, "SELECT COUNT(*) FROM t")? == "0");
        transaction.sql("BEGIN")?;
        transaction.sql("INSERT INTO t VALUES (2)")?;
        transaction.sql("ROLLBACK")?;
        ensure!(text(&mut free, "SELECT @@time_zone")? == "+02:00");
        ensure!(text(&mut free, "SELECT COUNT(*) FROM t")? == "0", "the transaction is not undone");
        wait_pins(&proxy, &[])
    })
}

/// What is sent behind a statement that is lost, or that no server gets, was meant for a session in
/// which it has run.
#[test]
// long: one list of cases on one server.
fn issue_16_nothing_runs_that_was_sent_ahead_behind_what_is_lost() -> Result<()> {
    on_each("issue_16_nothing_runs_that_was_sent_ahead_behind_what_is_lost", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT PRIMARY KEY) ENGINE = InnoDB")?;
        let config = one_server(server, 1, 1);
        // No connection is free for these. Their time may be over before they are refused.
        let firsts = [
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "CREATE TEMPORARY TABLE t (a INT)",
            "SET autocommit = 0, sql_notes = 1",
        ];
        let hasty = "default_query_timeout = 200\n";
        let patient = Trunkline::start(&format!("connect_timeout_server_max = 1500\n{config}"))?;
        let hurried = Trunkline::start(&format!("{hasty}{config}"))?;
        for (proxy, code_seen) in [(&patient, 9_001_u16), (&hurried, 1_907)] {
            let mut holder = client(proxy, &schema)?;
            holder.sql("BEGIN")?;
            holder.sql("SELECT COUNT(*) FROM t")?;
            for first in firsts {
                let mut wire = Wire::login(proxy, USER, PASSWORD, &schema)?;
                let mut ahead = Vec::new();
                for text in [first, "INSERT INTO t VALUES (2)", "ROLLBACK"] {
                    put_payload(&mut ahead, 0, &[&[code::QUERY], text.as_bytes()].concat());
                }
                wire.send_bytes(&ahead)?;
                let (_, refused) = wire.packet()?;
                let [low, high] = code_seen.to_le_bytes();
                ensure!(refused.get(..3) == Some(&[0xFF, low, high]), "{first}: {refused:?}");
                ensure!(wire.packet().is_err(), "the session goes on behind {first}");
            }
        }
        // A write that is refused at once, as enough wait already.
        server.sql(&format!("CREATE TABLE {schema}.child (a BIGINT) ENGINE = InnoDB"))?;
        let full = Trunkline::start(&format!("queue_max = 1\n{config}"))?;
        let mut holder = client(&full, &schema)?;
        holder.sql("BEGIN")?;
        holder.sql("SELECT COUNT(*) FROM t")?;
        let mut waiter = Wire::login(&full, USER, PASSWORD, &schema)?;
        waiter.send(code::QUERY, b"DO 1")?;
        wait_until("one waits", SOON, || {
            Ok(status(&full)?.pointer("/waiting/0").filter(|n| n.as_u64() == Some(1)).cloned())
        })?;
        let mut wire = Wire::login(&full, USER, PASSWORD, &schema)?;
        let mut ahead = Vec::new();
        for text in ["INSERT INTO t VALUES (7)", "INSERT INTO child VALUES (LAST_INSERT_ID())"] {
            put_payload(&mut ahead, 0, &[&[code::QUERY], text.as_bytes()].concat());
        }
        wire.send_bytes(&ahead)?;
        let (_, refused) = wire.packet()?;
        let [low, high] = 9_001_u16.to_le_bytes();
        ensure!(refused.get(..3) == Some(&[0xFF, low, high]), "{refused:?}");
        ensure!(wire.packet().is_err(), "the session goes on behind what found the queue full");
        // One that a rule refuses.
        let rule = "[[rule]]\nid = 1\nmatch_pattern = \"refused\"\nerror_msg = \"not here\"\n";
        let refusing = Trunkline::start(&format!("{config}{rule}"))?;
        let mut wire = Wire::login(&refusing, USER, PASSWORD, &schema)?;
        let mut ahead = Vec::new();
        for text in ["SET @v = 'refused'", "INSERT INTO t VALUES (COALESCE(@v, 2))"] {
            put_payload(&mut ahead, 0, &[&[code::QUERY], text.as_bytes()].concat());
        }
        wire.send_bytes(&ahead)?;
        let (_, refused) = wire.packet()?;
        ensure!(refused.first() == Some(&0xFF), "{refused:?}");
        ensure!(wire.packet().is_err(), "the session goes on behind what a rule refused");
        // One that is lost while its server has it.
        let proxy = before(server, 1, 1)?;
        let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let mut ahead = Vec::new();
        for text in ["SET @v = SLEEP(300)", "INSERT INTO t VALUES (COALESCE(@v, 2))"] {
            put_payload(&mut ahead, 0, &[&[code::QUERY], text.as_bytes()].concat());
        }
        wire.send_bytes(&ahead)?;
        let asks =
            "SELECT MAX(id) FROM information_schema.processlist WHERE info LIKE '%SLEEP(300)%'
                    AND info NOT LIKE '%processlist%'";
        let number = wait_until("it sleeps", SOON, || server.value(asks))?;
        server.sql(&format!("KILL {number}"))?;
        let (_, lost) = wire.packet()?;
        ensure!(lost.first() == Some(&0xFF), "{lost:?}");
        ensure!(wire.packet().is_err(), "the session goes on");
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        ensure!(rows.as_deref() == Some("0"), "{rows:?}");
        // What changes its session ends it when it is lost, whatever has been sent behind it.
        let mut session = client(&proxy, &schema)?;
        session.sql("SELECT 1")?;
        let statement = "SET @v = SLEEP(300)";
        let told = std::thread::scope(|scope| {
            let told = scope.spawn(|| fails(&mut session, statement, 2013));
            let number = wait_until("it sleeps", SOON, || server.value(asks))?;
            server.sql(&format!("KILL {number}"))?;
            told.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        ensure!(session.sql("DO 1").is_err(), "the session goes on behind {told}");
        Ok(())
    })
}

/// Behind some errors a server ends the connection: what was sent behind the statement, or is sent
/// behind one that was to change the session, is not carried out, as directly.
#[test]
fn issue_16_nothing_runs_behind_an_error_that_ends_the_connection() -> Result<()> {
    let test = "issue_16_nothing_runs_behind_an_error_that_ends_the_connection";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = start(flavour, Options::default().arg("--max-allowed-packet=1M"))?;
        let table = "CREATE TABLE t (a INT, b LONGTEXT) ENGINE = InnoDB";
        let (schema, other) = (new_schema(&server, table)?, new_schema(&server, table)?);
        let proxy = before(&server, 1, 4)?;
        let long = "x".repeat(2 << 20);
        for first in [
            format!("SET @d = '{long}'"),
            format!("BEGIN /* {long} */"),
            format!("USE {other} /* {long} */"),
            format!("INSERT INTO t VALUES (0, '{long}')"),
        ] {
            let name = first.get(..20).unwrap_or_default();
            let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
            wire.one("SELECT 1")?;
            let mut ahead = Vec::new();
            for text in [&*first, "INSERT INTO t VALUES (1, @d)", "ROLLBACK"] {
                put_payload(&mut ahead, 0, &[&[code::QUERY], text.as_bytes()].concat());
            }
            wire.send_bytes(&ahead)?;
            let (_, refused) = wire.packet()?;
            // 2013: the server was lost before its error had come.
            let told = refused.get(1..3).map(|code| u16::from_le_bytes([code[0], code[1]]));
            ensure!(matches!(told, Some(1153 | 2013)), "{flavour:?}, {name}: {refused:?}");
            ensure!(wire.packet().is_err(), "{flavour:?}: the session goes on behind {name}");
            for schema in [&schema, &other] {
                let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
                ensure!(rows.as_deref() == Some("0"), "{flavour:?}, {name}: {rows:?}");
            }
        }
    }
    Ok(())
}

/// Without autocommit, and with rules that take statements out of transactions, a session has two:
/// `COMMIT` ends both, and commits the one that has written.
#[test]
fn issue_16_a_commit_ends_the_transaction_that_has_written() -> Result<()> {
    on_each("issue_16_a_commit_ends_the_transaction_that_has_written", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        server.sql(&format!("CREATE TABLE {schema}.other (a INT) ENGINE = InnoDB"))?;
        let config = one_server(server, 1, 4)
            .replace("[[user]]\n", "[[user]]\ntransaction_persistent = false\n");
        let address = format!("127.0.0.1:{}", server.port());
        let rule = |id: u32, digest: &str, hostgroup: u32| {
            format!(
                "[[rule]]\nid = {id}\nmatch_digest = \"{digest}\"\n\
                 destination_hostgroup = {hostgroup}\napply = true\n"
            )
        };
        let proxy = Trunkline::start(&format!(
            "{config}[[server]]\nhostgroup = 1\naddress = \"{address}\"\n{}{}{}",
            rule(1, "other", 1),
            rule(2, "^SELECT", 1),
            rule(3, "^INSERT", 0),
        ))?;
        let rows = |table: &str| server.value(&format!("SELECT COUNT(*) FROM {schema}.{table}"));
        for (end, count) in [("COMMIT", "1"), ("SET autocommit = 1", "2")] {
            let mut session = client(&proxy, &schema)?;
            session.sql("SET autocommit = 0")?;
            session.sql("SELECT COUNT(*) FROM t")?;
            session.sql("INSERT INTO t VALUES (1)")?;
            session.sql(end)?;
            ensure!(rows("t")?.as_deref() == Some(count), "{end}: {:?}", rows("t")?);
        }
        let mut session = client(&proxy, &schema)?;
        // Two that have written can't be committed as one.
        session.sql("SET autocommit = 0")?;
        session.sql("INSERT INTO other VALUES (1)")?;
        session.sql("INSERT INTO t VALUES (3)")?;
        let told = fails(&mut session, "COMMIT", 1148)?;
        ensure!(
            told.contains("hostgroups 1 and 0") || told.contains("hostgroups 0 and 1"),
            "{told}"
        );
        session.sql("ROLLBACK")?;
        session.sql("SET autocommit = 1")?;
        ensure!(rows("t")?.as_deref() == Some("2") && rows("other")?.as_deref() == Some("0"));
        wait_pins(&proxy, &[])
    })
}

/// A read that fails elsewhere while a transaction is open leaves none there.
#[test]
fn issue_16_a_failed_read_elsewhere_begins_no_transaction() -> Result<()> {
    on_each("issue_16_a_failed_read_elsewhere_begins_no_transaction", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        let config = one_server(server, 1, 4)
            .replace("[[user]]\n", "[[user]]\ntransaction_persistent = false\n");
        let address = format!("127.0.0.1:{}", server.port());
        let proxy = Trunkline::start(&format!(
            "{config}[[server]]\nhostgroup = 1\naddress = \"{address}\"\n\
             [[rule]]\nid = 1\nmatch_digest = \"^SELECT\"\ndestination_hostgroup = 1\n\
             apply = true\n"
        ))?;
        let mut session = client(&proxy, &schema)?;
        session.sql("BEGIN")?;
        session.sql("INSERT INTO t VALUES (1)")?;
        fails(&mut session, "SELECT nothing FROM t", 1054)?;
        session.sql("COMMIT")?;
        wait_pins(&proxy, &[])
    })
}

/// A session that has lost what it held on one server while its statement ran on another one is
/// told so, also when that statement is lost, too.
#[test]
fn issue_16_a_loss_is_not_forgotten_behind_another_one() -> Result<()> {
    on_each("issue_16_a_loss_is_not_forgotten_behind_another_one", |server| {
        let schema = new_schema(server, "CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        server.sql(&format!("CREATE TABLE {schema}.elsewhere (a INT) ENGINE = InnoDB"))?;
        let config = one_server(server, 1, 4)
            .replace("[[user]]\n", "[[user]]\ntransaction_persistent = false\n");
        let address = format!("127.0.0.1:{}", server.port());
        let proxy = Trunkline::start(&format!(
            "{config}[[server]]\nhostgroup = 1\naddress = \"{address}\"\n\
             [[rule]]\nid = 1\nmatch_digest = \"elsewhere\"\ndestination_hostgroup = 1\n\
             apply = true\n"
        ))?;
        let mut session = client(&proxy, &schema)?;
        session.sql("BEGIN")?;
        session.sql("INSERT INTO t VALUES (1)")?;
        let told = std::thread::scope(|scope| {
            let statement = "INSERT INTO elsewhere SELECT SLEEP(300)";
            let told = scope.spawn(|| fails(&mut session, statement, 2013));
            let asks = "SELECT MAX(id) FROM information_schema.processlist \
                        WHERE info LIKE '%SLEEP(300)%' AND info NOT LIKE '%processlist%'";
            let elsewhere = wait_until("it sleeps", SOON, || server.value(asks))?;
            let holds = format!(
                "SELECT MAX(trx_mysql_thread_id) FROM information_schema.innodb_trx \
                 WHERE trx_mysql_thread_id <> {elsewhere}"
            );
            let held = wait_until("it holds rows", SOON, || server.value(&holds))?;
            for number in [held, elsewhere] {
                server.sql(&format!("KILL {number}"))?;
                let is_there = format!(
                    "SELECT MAX(id) FROM information_schema.processlist WHERE id = {number}"
                );
                wait_until("it has gone", SOON, || {
                    Ok(server.value(&is_there)?.is_none().then_some(()))
                })?;
            }
            told.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        ensure!(session.sql("INSERT INTO t VALUES (2)").is_err(), "it goes on behind {told}");
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        ensure!(rows.as_deref() == Some("0"), "{rows:?} rows");
        Ok(())
    })
}
