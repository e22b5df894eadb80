//! Running the proxy: signals, numbers, fast-forward users.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    AuthPlugin, Flavour::MariaDb, Signal, Trunkline, is_listening, wait_until,
};

use crate::backends::{self, Config, PASSWORD, TIMEOUT, proxy_for, status, wait_metric};
use crate::stage::{self, is_available, new_schema, one_server, shared_server, text};
use crate::wire::{Outcome, Shape, Wire, code};

#[test]
fn a_graceful_stop_lets_statements_and_transactions_end() -> Result<()> {
    for server in backends::each("a_graceful_stop")? {
        let proxy = proxy_for(server, "stopper", "stop_timeout = 15000")?;
        let enter = || Wire::login(&proxy, "stopper", PASSWORD, "stopper");
        let mut idle = enter()?;
        idle.one("CREATE TABLE t (a INT)")?;
        let mut open = enter()?;
        open.one("BEGIN")?;
        open.one("INSERT INTO t VALUES (1)")?;
        let mut running = enter()?;
        running.send(code::QUERY, b"SELECT SLEEP(1), 'done'")?;
        wait_until("the statement runs", TIMEOUT, || {
            let list = server.value(
                "SELECT COUNT(*) FROM information_schema.processlist
                 WHERE user = 'stopper' AND info LIKE 'SELECT SLEEP(1)%'",
            )?;
            Ok((list.as_deref() != Some("0")).then_some(()))
        })?;

        proxy.signal(Signal::Terminate)?;
        wait_until("it no longer listens", TIMEOUT, || {
            Ok((!is_listening(proxy.port())).then_some(()))
        })?;
        idle.drain_to_end().context("the idle client")?;
        let bytes = running.reply_bytes(Shape::Results).context("the running statement")?;
        let row = running.outcomes(&bytes)?[0].text_rows().remove(0);
        assert_eq!(row[1].as_deref(), Some("done"));
        open.one("INSERT INTO t VALUES (2)")?;
        assert!(open.one("COMMIT")?.is_ok());
        assert!(proxy.wait(TIMEOUT)?.success());
        assert_eq!(server.value("SELECT COUNT(*) FROM stopper.t")?.as_deref(), Some("2"));
    }
    Ok(())
}

#[test]
fn a_graceful_stop_keeps_its_deadline() -> Result<()> {
    let Some(server) = backends::mariadb("a_graceful_stop_keeps")? else { return Ok(()) };
    let proxy = proxy_for(server, "late", "stop_timeout = 500")?;
    let mut open = Wire::login(&proxy, "late", PASSWORD, "late")?;
    open.one("CREATE TABLE t (a INT)")?;
    open.one("BEGIN")?;
    open.one("INSERT INTO t VALUES (1)")?;
    let mut running = Wire::login(&proxy, "late", PASSWORD, "late")?;
    running.send(code::QUERY, b"SELECT SLEEP(30)")?;
    wait_until("the statement runs", TIMEOUT, || {
        let list = server.value(
            "SELECT COUNT(*) FROM information_schema.processlist
             WHERE user = 'late' AND info = 'SELECT SLEEP(30)'",
        )?;
        Ok((list.as_deref() != Some("0")).then_some(()))
    })?;
    let begun = Instant::now();
    let ended = proxy.terminate(TIMEOUT)?;
    assert!(ended.success(), "{ended}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // Whose statement runs hears why it ends.
    let bytes = running.reply_bytes(Shape::Results)?;
    let told = running.outcomes(&bytes)?.remove(0);
    ensure!(matches!(&told, Outcome::Error(error) if error.code == 1053), "{told:?}");
    running.drain_to_end()?;
    open.drain_to_end()?;
    wait_until("the transaction is rolled back", TIMEOUT, || {
        let count = server.value("SELECT COUNT(*) FROM late.t")?;
        Ok((count.as_deref() == Some("0")).then_some(()))
    })
}

#[test]
fn numbers_are_those_of_what_was_run() -> Result<()> {
    for server in backends::each("numbers_are_those")? {
        let proxy = proxy_for(server, "counted", "")?;
        let mut client = Wire::login(&proxy, "counted", PASSWORD, "counted")?;
        client.one("CREATE TABLE t (a INT)")?;
        for number in 0..10 {
            client.one(&format!("INSERT INTO t VALUES ({number})"))?;
        }
        for number in 0..25 {
            client.one(&format!("SELECT a FROM t WHERE a = {number}"))?;
        }
        client.fails("SELECT nothing FROM t")?;
        assert!(refused_login(&proxy));

        // A schema at log-in may be asked for too, so totals are at least these.
        wait_metric(&proxy, "trunkline_statements_total", "", |n| n >= 37.0)?;
        let at = format!("server=\"{}\"", server.address());
        wait_metric(&proxy, "trunkline_server_statements_total", &at, |n| n >= 37.0)?;
        wait_metric(&proxy, "trunkline_statement_errors_total", "", |n| n == 1.0)?;
        wait_metric(&proxy, "trunkline_client_authentications_total", "", |n| n == 1.0)?;
        let denied = "cause=\"access_denied\"";
        wait_metric(&proxy, "trunkline_client_refusals_total", denied, |n| n == 1.0)?;
        let online = format!("{at},state=\"ONLINE\"");
        assert_eq!(proxy.metric("trunkline_server_state", &online)?, Some(1.0));
        let count = |command: &str| {
            let labels = format!("command=\"{command}\"");
            proxy.metric("trunkline_command_latency_seconds_count", &labels)
        };
        assert_eq!(count("INSERT")?, Some(10.0));
        assert_eq!(count("SELECT")?, Some(26.0));

        let digests = status(&proxy, "/digests")?;
        let text = "SELECT a FROM t WHERE a = ?";
        let row = digests.as_array().context("no digests")?.iter();
        let row = row.filter(|row| row["digest_text"] == text).collect::<Vec<_>>();
        assert_eq!(row.len(), 1, "{digests:#}");
        assert_eq!(row[0]["count_star"], 25);
        assert_eq!(row[0]["schemaname"], "counted");
        assert_eq!(status(&proxy, "/process/workers")?, 2);
        assert_eq!(proxy.http("/healthz")?.0, 200);
        assert_eq!(proxy.http("/readyz")?.0, 200);
        assert_eq!(proxy.http("/nowhere")?.0, 404);
    }
    Ok(())
}

fn refused_login(proxy: &trunkline_testkit::Trunkline) -> bool {
    Wire::login(proxy, "counted", "wrong", "").is_err()
}

#[test]
fn trunkline_status_shows_the_running_proxy() -> Result<()> {
    let Some(server) = backends::mariadb("trunkline_status")? else { return Ok(()) };
    let proxy = proxy_for(server, "shown", "")?;
    Wire::login(&proxy, "shown", PASSWORD, "")?.one("SELECT 1")?;
    let run = |args: &[&str]| -> Result<(bool, String)> {
        let mut command = std::process::Command::new(trunkline_testkit::trunkline_binary()?);
        let output = command.args(args).output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    };
    let url = format!("http://127.0.0.1:{}", proxy.http_port());
    let (ok, text) = run(&["status", "--url", &url])?;
    assert!(ok && text.contains(&server.address()), "{text}");
    let (ok, json) = run(&["status", "--url", &url, "--json"])?;
    assert!(ok && serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
    proxy.terminate(TIMEOUT)?;
    assert!(!run(&["status", "--url", &url])?.0, "status of a proxy that has ended");
    Ok(())
}

fn forward_proxy(
    server: &trunkline_testkit::Server,
    name: &str,
) -> Result<trunkline_testkit::Trunkline> {
    backends::account(server, name)?;
    let password = PASSWORD.replace('\\', "\\\\");
    let keys = format!("password = \"{password}\"\nfast_forward = true");
    Config::new("", server).user_with(name, &keys).start()
}

#[test]
fn fast_forward_users_have_a_connection_of_their_own() -> Result<()> {
    for server in backends::each("fast_forward_users")? {
        let proxy = forward_proxy(server, "forward")?;
        let mut client = Wire::login(&proxy, "forward", PASSWORD, "forward")?;
        assert_eq!(client.value("SELECT DATABASE()")?.as_deref(), Some("forward"));
        let id = client.value("SELECT CONNECTION_ID()")?;
        client.one("SET @a = 5")?;
        assert_eq!(client.value("SELECT @a")?.as_deref(), Some("5"));
        assert_eq!(client.value("SELECT CONNECTION_ID()")?, id);
        assert_eq!(client.query("SELECT 1; SELECT 2")?.len(), 2);
        let prepared = client.exchange(code::STMT_PREPARE, b"SELECT ? + 1", Shape::Prepare)?;
        let body = [&prepared[5..9], &[0, 1, 0, 0, 0, 0, 1, 8, 0], &41_i64.to_le_bytes()].concat();
        let bytes = client.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        let Outcome::Rows { rows, .. } = &client.outcomes(&bytes)?[0] else { panic!("no rows") };
        assert_eq!(rows[0], [&[0, 0][..], &42_i64.to_le_bytes()].concat());
        assert_eq!(client.fails("SELEC")?.code, 1064);
        assert!(client.single(code::PING, b"")?.is_ok());

        // Gone in the middle of a big answer: its connection must go too.
        client.send(code::QUERY, b"SELECT REPEAT('x', 30000000)")?;
        client.packet()?;
        drop(client);
        wait_until("its server connection has gone", TIMEOUT, || {
            let count = server.value(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'forward'",
            )?;
            Ok((count.as_deref() == Some("0")).then_some(()))
        })?;
        let mut next = Wire::login(&proxy, "forward", PASSWORD, "")?;
        assert_eq!(next.value("SELECT 5")?.as_deref(), Some("5"));
        assert_eq!(next.value("SELECT DATABASE()")?, None);
    }
    Ok(())
}

#[test]
fn a_fast_forward_client_that_reads_slowly_does_not_fill_memory() -> Result<()> {
    let test = "a_fast_forward_client_that_reads_slowly";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let proxy = forward_proxy(server, "slow_forward")?;
    let mut client = Wire::login(&proxy, "slow_forward", PASSWORD, "")?;
    client.one("SELECT 1")?;
    let before = proxy.rss_bytes()?;
    client.send(code::QUERY, b"SELECT REPEAT('a', 60000000), REPEAT('b', 60000000)")?;
    let (tx, rx) = mpsc::channel::<()>();
    let mut most = before;
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(move || {
            // The first look at the answer comes late.
            let _ = rx.recv_timeout(Duration::from_millis(700));
            let read = client.reply_bytes(Shape::Results).map(|bytes| bytes.len());
            assert!(read.is_ok_and(|len| len > 120_000_000));
        });
        for _ in 0..50 {
            most = most.max(proxy.rss_bytes()?);
        }
        drop(tx);
        Ok(())
    })?;
    most = most.max(proxy.rss_bytes()?);
    assert!(most - before < 32 << 20, "the proxy's memory grew by {} bytes", most - before);
    Ok(())
}

#[test]
fn workers_stay_on_their_cpus() -> Result<()> {
    // No server needs to be there.
    let proxy = Config::at("worker_cpus = \"0\"", "127.0.0.1:1").user("nobody").start()?;
    // It listens before its threads begin.
    wait_metric(&proxy, "trunkline_workers_answered", "", |n| n == 2.0)?;
    let mut seen = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", proxy.pid()))? {
        let status = std::fs::read_to_string(task?.path().join("status"))?;
        let of = |key: &str| {
            status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).map(str::to_owned)
        };
        let is_worker = of("Name:").is_some_and(|name| name.starts_with("worker-"));
        if is_worker {
            seen += 1;
            assert_eq!(of("Cpus_allowed_list:").as_deref(), Some("0"));
        }
    }
    assert_eq!(seen, 2, "two workers");
    Ok(())
}

/// The former server has a table where the new one has a view that sets a variable: nobody reads
/// it by what the former one said.
#[test]
fn a_server_that_takes_anothers_place_is_asked_what_its_names_mean() -> Result<()> {
    const TABLE: &str = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1)";
    const ROUTINE: &str =
        "CREATE FUNCTION f() RETURNS INT NO SQL BEGIN SET @left = 42; RETURN 2; END";
    if !is_available(MariaDb, "replaced") {
        return Ok(());
    }
    let Some(before) = backends::mariadb("replaced")? else { return Ok(()) };
    // Another test may have made it.
    drop(before.create_user(stage::USER, stage::PASSWORD, AuthPlugin::ServerDefault));
    let after = shared_server(MariaDb)?;
    let schema = new_schema(after, "SELECT 1")?;
    let mut root = after.root()?;
    for sql in [&*format!("USE {schema}"), ROUTINE, "CREATE VIEW t AS SELECT f() AS a"] {
        root.sql(sql)?;
    }
    before.sql(&format!("DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema}"))?;
    before.sql(&format!("USE {schema}; {TABLE}"))?;
    let config =
        |server| format!("connect_timeout_server_max = 2000\n{}", one_server(server, 1, 1));
    let proxy = Trunkline::start(&config(before))?;
    let mut one = stage::client(&proxy, &schema)?;
    let mut two = stage::client(&proxy, &schema)?;
    // It is known to be a table when its reads leave nothing that is reset.
    let resets = || {
        let name = "trunkline_backend_connections_reset_total";
        proxy.metric(name, "reason=\"unknown\"")
    };
    wait_until("the table is known", TIMEOUT, || {
        let count = resets()?;
        ensure!(text(&mut one, "SELECT a FROM t")? == "1");
        ensure!(text(&mut two, "SELECT a FROM t")? == "1");
        ensure!(text(&mut one, "SELECT a FROM t")? == "1");
        Ok((resets()? == count).then_some(()))
    })?;
    let mark = proxy.reload(&config(after))?;
    proxy.wait_log(mark, "in force", TIMEOUT)?;
    ensure!(text(&mut one, "SELECT a FROM t")? == "2");
    // The first one may keep the only connection.
    let seen = text(&mut two, "SELECT COALESCE(@left, 'nothing')");
    ensure!(seen.as_ref().map_or(true, |seen| seen == "nothing"), "{seen:?}");
    Ok(())
}
