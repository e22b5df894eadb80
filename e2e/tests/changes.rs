//! What transactions change, from the binary logs of real servers.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{Flavour, Options, Server, Trunkline, trunkline_binary, wait_until};

use crate::stage::{FLAVOURS, SOON, is_available, start, status, user};

const TOKEN: &str = "only-for-the-changes-of-this-test";

fn proxy_before(server: &Server) -> Result<Trunkline> {
    Trunkline::start(&format!(
        "workers = 1\nhttp_api_stats_token = \"{TOKEN}\"\nmonitor_read_only_interval = 200\n\
         [[cluster]]\nname = \"shop\"\nkind = \"replication\"\nwriter_hostgroup = 10\n\
         reader_hostgroup = 20\nseeds = [\"{}\"]\nbinlog_stream = true\n{}",
        server.address(),
        user(10)
    ))
}

/// A server whose log begins here, with the schema of the tests.
fn server(flavour: Flavour) -> Result<Server> {
    let server = start(flavour, Options::id(1).arg("--max-allowed-packet=64M"))?;
    server.sql(match flavour {
        Flavour::MariaDb => "RESET MASTER",
        Flavour::MySql => "RESET BINARY LOGS AND GTIDS",
    })?;
    server.sql("CREATE DATABASE shop")?;
    Ok(server)
}

/// A value of the stream of the only cluster.
fn stream(proxy: &Trunkline, name: &str) -> Result<Value> {
    let status = status(proxy)?;
    let value = status.pointer(&format!("/process/monitor/streams/0/{name}"));
    Ok(value.cloned().unwrap_or_default())
}

/// Waits until the stream has so many transactions; where it is then.
fn wait_transactions(proxy: &Trunkline, count: u64) -> Result<String> {
    wait_until("the stream has the transactions", SOON, || {
        let is_up = stream(proxy, "server")?.as_str().is_some_and(|server| !server.is_empty());
        let has = stream(proxy, "transactions")?.as_u64() >= Some(count);
        Ok((is_up && has).then_some(()))
    })
    .with_context(|| {
        let streams = status(proxy).map(|it| it.pointer("/process/monitor/streams").cloned());
        format!("{streams:?}\n{}", proxy.log())
    })?;
    Ok(stream(proxy, "position")?.as_str().unwrap_or_default().to_owned())
}

/// `trunkline changes`.
fn changes(proxy: &Trunkline, arguments: &[&str]) -> Result<Output> {
    let url = format!("http://127.0.0.1:{}", proxy.http_port());
    let mut command = Command::new(trunkline_binary()?);
    command.args(["changes", "--url", &url, "--token", TOKEN]).args(arguments);
    let output = command.output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{arguments:?}: {error}");
    Ok(output)
}

/// What it shows of so many transactions, without their numbers.
fn shown(proxy: &Trunkline, count: usize, arguments: &[&str]) -> Result<Vec<String>> {
    let count = count.to_string();
    let output = changes(proxy, &[&["--count", &count], arguments].concat())?;
    let text = String::from_utf8(output.stdout)?;
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("  "), all.last_mut()) {
            (None, _) => all.push(String::new()),
            (Some(part), Some(last)) => {
                last.push_str(if last.is_empty() { "" } else { "; " });
                last.push_str(part);
            }
            (Some(_), None) => {}
        }
    }
    Ok(all)
}

/// A table with columns of many types.
const ITEM: &str = "CREATE TABLE shop.item (id INT PRIMARY KEY, a TINYINT, b BIGINT UNSIGNED,
    c DECIMAL(20,7), d FLOAT, e DOUBLE, f DATE, g TIME(3), h DATETIME(6), i TIMESTAMP NULL, j YEAR,
    k CHAR(200) CHARACTER SET utf8mb4, l VARCHAR(10), m VARCHAR(300), n TINYBLOB, o LONGTEXT,
    p ENUM('x','y'), q SET('u','v','w'), r BIT(11), s JSON, t POINT)";
const INSERT: &str = "INSERT INTO shop.item VALUES
    (1, -1, 1, 12.5, 1, 2, '2026-01-01', '1:2:3.5', NOW(6), NOW(), 2026, REPEAT('ä', 200), 'x',
     REPEAT('y', 300), 'z', REPEAT('t', 70000), 'x', 'u,w', b'10000000001', '{\"a\": [1, 2]}',
     ST_GeomFromText('POINT(1 2)')),
    (2, NULL, NULL, -99.25, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, '',
     NULL, NULL, NULL, NULL, NULL),
    (3, 1, NULL, 0, 1, NULL, '1970-01-01', NULL, NULL, NULL, 1999, NULL, 'abc', NULL, '', 'x', 'y',
     '', b'1', '{}', NULL)";

/// Statements, each a transaction or several behind each other, with what is shown of them.
fn script(flavour: Flavour) -> Vec<(&'static str, &'static str)> {
    let mut script = vec![
        (ITEM, "CREATE TABLE"),
        (INSERT, "shop.item +3"),
        ("UPDATE shop.item SET a = 5, o = 'short' WHERE id < 3", "shop.item ~2"),
        ("DELETE FROM shop.item WHERE id = 3", "shop.item -1"),
        ("CREATE TABLE shop.part (id INT PRIMARY KEY, big LONGBLOB)", "CREATE TABLE"),
        (
            "BEGIN; INSERT INTO shop.part VALUES (1, 'a'), (2, 'b'); UPDATE shop.item SET a = 6;
             SAVEPOINT x; DELETE FROM shop.part; ROLLBACK TO x; DELETE FROM shop.part WHERE id = 1;
             COMMIT",
            "shop.part +2 -1; shop.item ~2",
        ),
        ("INSERT INTO shop.part VALUES (9, REPEAT('x', 18000000))", "shop.part and more"),
        (
            "SET SESSION binlog_format = STATEMENT; UPDATE shop.part SET id = 3 WHERE id = 2;
             SET SESSION binlog_format = ROW",
            "UPDATE",
        ),
    ];
    match flavour {
        Flavour::MySql => script.extend([
            (
                "SET SESSION binlog_transaction_compression = ON;
                 INSERT INTO shop.part VALUES (4, REPEAT('c', 9000)), (5, 'd');
                 SET SESSION binlog_transaction_compression = OFF",
                "shop.part +2",
            ),
            (
                "SET SESSION gtid_next = 'AUTOMATIC:blue'; DELETE FROM shop.part WHERE id = 5;
                 SET SESSION gtid_next = 'AUTOMATIC'",
                "shop.part -1",
            ),
            (
                "SET SESSION binlog_row_value_options = PARTIAL_JSON;
                 UPDATE shop.item SET s = JSON_SET(s, '$.a[1]', 7) WHERE id = 1;
                 SET SESSION binlog_row_value_options = ''",
                "shop.item ~1",
            ),
        ]),
        Flavour::MariaDb => script.extend([(
            "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10;
             INSERT INTO shop.part VALUES (4, REPEAT('c', 9000)), (5, 'd');
             SET GLOBAL log_bin_compress = OFF",
            "shop.part +2",
        )]),
    }
    script.push(("TRUNCATE TABLE shop.part", "TRUNCATE"));
    script
}

#[test]
fn what_transactions_change_is_told_and_goes_on_by_gtid() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_transactions_change_is_told") {
            continue;
        }
        let server = server(flavour)?;
        let proxy = proxy_before(&server)?;
        let begin = wait_transactions(&proxy, 0)?;
        let script = script(flavour);
        let expected: Vec<&str> = script.iter().map(|(_, shown)| *shown).collect();
        let (first, rest) = script.split_at(3);
        for (statements, _) in first {
            server.sql(statements).with_context(|| (*statements).to_owned())?;
        }
        let middle = wait_transactions(&proxy, 3)?;

        // The connection is cut; nothing is missed.
        let dump = server.value(
            "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'",
        )?;
        server.sql(&format!("KILL {}", dump.context("somebody reads the binary log")?))?;
        for (statements, _) in rest {
            server.sql(statements).with_context(|| (*statements).to_owned())?;
        }
        wait_transactions(&proxy, u64::try_from(script.len())?)?;
        ensure!(proxy.metric("trunkline_binlog_gaps_total", "")? == Some(0.0));
        let up = proxy.metric("trunkline_binlog_stream_up", "cluster=\"shop\"")?;
        ensure!(up == Some(1.0), "{up:?}");

        let all = shown(&proxy, script.len(), &["--from", &begin])?;
        ensure!(all == expected, "{flavour:?}: {all:#?}");
        let tail = shown(&proxy, rest.len(), &["--from", &middle])?;
        ensure!(tail == expected[3..], "{flavour:?}: {tail:#?}");
        let of_item = shown(&proxy, 3, &["--from", &middle, "--table", "shop.item"])?;
        let wanted = ["shop.item -1", "CREATE TABLE", "shop.part +2 -1; shop.item ~2"];
        ensure!(of_item == wanted, "{flavour:?}: {of_item:#?}");

        // What was committed before the proxy began comes from the server.
        let older = shown(&proxy, 2, &["--from="])?;
        ensure!(older == ["CREATE DATABASE in shop", expected[0]], "{older:#?}");
    }
    Ok(())
}

#[test]
fn what_is_purged_is_told_of_as_a_gap() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "what_is_purged_is_told_of_as_a_gap") {
            continue;
        }
        let server = server(flavour)?;
        let current = match flavour {
            Flavour::MariaDb => "SHOW MASTER STATUS",
            Flavour::MySql => "SHOW BINARY LOG STATUS",
        };
        server.sql("FLUSH BINARY LOGS")?;
        let file = server.value(current)?.context("a file")?;
        server.sql(&format!("PURGE BINARY LOGS TO '{file}'"))?;
        let proxy = proxy_before(&server)?;
        wait_transactions(&proxy, 0)?;
        server.sql("CREATE TABLE shop.t (a INT)")?;
        wait_transactions(&proxy, 1)?;
        let output = changes(&proxy, &["--from=", "--count", "1", "--json"])?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(error.contains("some changes are missing here (error 1236"), "{error}");
        // So is what the server does not have, or has no more.
        let beyond = match flavour {
            Flavour::MariaDb => "0-1-999".to_owned(),
            Flavour::MySql => {
                format!("{}:1-999", server.value("SELECT @@server_uuid")?.context("a UUID")?)
            }
        };
        let ahead = changes(&proxy, &["--from", &beyond, "--count", "1"])?;
        let error = String::from_utf8_lossy(&ahead.stderr).into_owned();
        ensure!(error.contains("some changes are missing here (error 1236"), "{error}");
        let change: Value = serde_json::from_slice(&output.stdout)?;
        let statement = change.pointer("/statements/0/statement").and_then(Value::as_str);
        ensure!(statement == Some("CREATE TABLE"), "{change}");
    }
    Ok(())
}

#[test]
fn who_may_not_ask_or_asks_wrongly_is_told_why() -> Result<()> {
    let flavour = Flavour::MariaDb;
    if !is_available(flavour, "who_may_not_ask_or_asks_wrongly_is_told_why") {
        return Ok(());
    }
    let server = server(flavour)?;
    let proxy = proxy_before(&server)?;
    wait_transactions(&proxy, 0)?;
    let (code, _) = proxy.http("/api/v1/changes")?;
    ensure!(code == 401, "{code}");
    let refused = |arguments: &[&str], part: &str| -> Result<()> {
        let error = changes(&proxy, arguments).err().context("it is refused")?.to_string();
        ensure!(error.contains(part), "{error}");
        Ok(())
    };
    refused(&["--from", "nonsense"], "it is no GTID set or position")?;
    refused(&["--cluster", "other"], "there is no such cluster with binlog_stream = true")?;
    refused(&["--table", "item"], "table=… wants SCHEMA.TABLE")
}
