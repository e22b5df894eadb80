//! What keeps a session on its server connection, for how long, and what is left of it behind.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, SqlClient, Trunkline, error_code, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, before, client, fails, is_available, new_schema, pins,
    shared_server, text, wait_pins,
};
use crate::ties::{TIES, Tie};
use crate::wire::{Endpoint, Shape, Wire, code};

fn outcome(client: &mut SqlClient, statement: &str) -> String {
    match client.sql(statement) {
        Ok(rows) => match rows.into_iter().next().and_then(|row| row.into_iter().next()) {
            Some(value) => value.unwrap_or_else(|| "NULL".to_owned()),
            None => "done".to_owned(),
        },
        Err(error) => {
            error_code(&error).map_or(format!("{error:#}"), |code| format!("error {code}"))
        }
    }
}

fn check_tie(proxy: &Trunkline, schema: &str, tie: &Tie) -> Result<()> {
    let begin = |client: &mut SqlClient| -> Result<()> {
        for statement in tie.begin {
            client.sql(statement).with_context(|| (*statement).to_owned())?;
        }
        Ok(())
    };
    let (mut one, mut other) = (client(proxy, schema)?, client(proxy, schema)?);
    begin(&mut one)?;
    wait_pins(proxy, tie.reasons)?;
    for _ in 0..3 {
        ensure!(text(&mut other, "SELECT COUNT(*) FROM t")? == "2");
        if !tie.shown.0.is_empty() {
            let shown = outcome(&mut one, tie.shown.0);
            ensure!(shown == tie.shown.1, "{} gives {shown}", tie.shown.0);
        }
    }
    if !tie.end.is_empty() {
        one.sql(tie.end)?;
        wait_pins(proxy, &[])?;
    }
    drop(one);
    wait_pins(proxy, &[])?;
    // Both connections are tied up, and left without a word.
    let mut ones = [client(proxy, schema)?, client(proxy, schema)?];
    if !tie.is_unique {
        begin(&mut ones[0])?;
    }
    begin(&mut ones[1])?;
    drop(ones);
    // Two more hold both connections at once, so that each must be clean.
    let mut next = [client(proxy, schema)?, client(proxy, schema)?];
    for one in &mut next {
        // What only one can have is free for others a moment after its owner has gone.
        let mut left = String::new();
        let is_right = wait_until("nothing is left", SOON, || {
            left = outcome(one, tie.left.0);
            Ok((left == tie.left.1 || !tie.is_unique).then_some(()))
        });
        ensure!(is_right.is_ok() && left == tie.left.1, "{} gives {left}", tie.left.0);
        let tied = one.sql("LOCK TABLES t READ, u WRITE");
        tied.context("the lock of the one that left is still there")?;
        one.sql("UNLOCK TABLES; CREATE TEMPORARY TABLE hold (a INT)")?;
    }
    drop(next);
    wait_pins(proxy, &[])
}

fn ties(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let schema = new_schema(
        server,
        "CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1), (2);
         CREATE TABLE u (a INT PRIMARY KEY);
         CREATE PROCEDURE make() CREATE TEMPORARY TABLE mine (a INT);
         CREATE PROCEDURE assign() SELECT 'x' INTO @mine;
         CREATE PROCEDURE take() DO GET_LOCK('e2e', 0);
         CREATE ROLE IF NOT EXISTS e2e_role",
    )?;
    let app = USER;
    server.sql(&format!("GRANT SELECT ON *.* TO e2e_role; GRANT e2e_role TO {app}@'%'"))?;
    let proxy = before(server, 1, 2)?;
    for tie in TIES.iter().filter(|tie| tie.only.is_none_or(|only| only == flavour)) {
        check_tie(&proxy, &schema, tie).with_context(|| format!("behind {:?}", tie.begin))?;
    }
    Ok(())
}

#[test]
fn what_cannot_move_pins_until_its_cause_ends_on_mariadb() -> Result<()> {
    if !is_available(Flavour::MariaDb, "what_cannot_move_pins_until_its_cause_ends_on_mariadb") {
        return Ok(());
    }
    ties(Flavour::MariaDb)
}

#[test]
fn what_cannot_move_pins_until_its_cause_ends_on_mysql() -> Result<()> {
    if !is_available(Flavour::MySql, "what_cannot_move_pins_until_its_cause_ends_on_mysql") {
        return Ok(());
    }
    ties(Flavour::MySql)
}

/// A session whose state is refused leaves nothing that a reset does not take back.
#[test]
fn issue_16_a_role_ends_with_a_session_whose_schema_is_gone() -> Result<()> {
    let test = "issue_16_a_role_ends_with_a_session_whose_schema_is_gone";
    for flavour in FLAVOURS {
        if !is_available(flavour, test) {
            continue;
        }
        let server = shared_server(flavour)?;
        let (gone, schema) = (new_schema(server, "DO 1")?, new_schema(server, "DO 1")?);
        server.sql("CREATE ROLE IF NOT EXISTS e2e_role")?;
        server.sql(&format!("GRANT SELECT ON *.* TO e2e_role; GRANT e2e_role TO {USER}@'%'"))?;
        let proxy = before(server, 1, 2)?;
        let (mut one, mut other) = (client(&proxy, &gone)?, client(&proxy, &schema)?);
        one.sql("SET ROLE e2e_role")?;
        other.sql(&format!("DROP DATABASE {gone}"))?;
        other.sql(&format!("CREATE DATABASE {gone}_2"))?;
        other.sql("BEGIN; SELECT 1")?;
        ensure!(one.sql("SELECT 1").is_err(), "{flavour:?}: its schema is there");
        let mut next = client(&proxy, &schema)?;
        let role = text(&mut next, "SELECT CURRENT_ROLE() LIKE '%e2e_role%'")?;
        ensure!(role != "1", "{flavour:?}: another session's role");
    }
    Ok(())
}

/// What a statement leaves for the one behind it is found by its own session only.
#[test]
fn traces_of_a_statement_are_its_sessions_own() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "traces_of_a_statement_are_its_sessions_own") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(
            server,
            "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT);
             CREATE TABLE u (a INT AUTO_INCREMENT PRIMARY KEY, b INT) AUTO_INCREMENT = 500;
             CREATE TABLE v (a INT);
             INSERT INTO t (b) VALUES (1), (2), (3)",
        )?;
        let proxy = before(server, 1, 2)?;
        traces(&proxy, &schema).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

fn traces(proxy: &Trunkline, schema: &str) -> Result<()> {
    let (mut one, mut other) = (client(proxy, schema)?, client(proxy, schema)?);
    let warning = "SELECT CAST('abc' AS SIGNED)";
    ensure!(text(&mut one, warning)? == "0");
    wait_pins(proxy, &["warnings"])?;
    for _ in 0..3 {
        ensure!(text(&mut other, "SELECT 1")? == "1");
        ensure!(other.sql("SHOW WARNINGS")?.is_empty(), "another session's warnings");
    }
    let warnings = one.sql("SHOW WARNINGS")?;
    ensure!(warnings.len() == 1, "{warnings:?}");
    ensure!(text(&mut one, "SELECT @@warning_count")? == "1");
    // MariaDB forgets them at the next statement with a table only.
    ensure!(text(&mut one, "SELECT COUNT(*) FROM t")? == "3");
    wait_pins(proxy, &[])?;
    ensure!(one.sql("SHOW WARNINGS")?.is_empty());

    fails(&mut one, "SELECT * FROM nowhere", 1146)?;
    ensure!(text(&mut other, "SELECT 1")? == "1");
    let errors = one.sql("SHOW ERRORS")?;
    ensure!(errors.len() == 1, "{errors:?}");
    ensure!(text(&mut one, "SELECT 1")? == "1");

    one.sql("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1")?;
    ensure!(pins(proxy)?.contains_key("found_rows"));
    ensure!(text(&mut other, "SELECT a FROM t ORDER BY a LIMIT 1")? == "1");
    ensure!(text(&mut one, "SELECT FOUND_ROWS()")? == "3");
    ensure!(text(&mut one, "SELECT 1")? == "1");
    wait_pins(proxy, &[])?;

    for turn in 0..4 {
        one.sql("INSERT INTO t (b) VALUES (9)")?;
        other.sql("INSERT INTO u (b) VALUES (9)")?;
        ensure!(text(&mut one, "SELECT LAST_INSERT_ID()")? == (4 + turn).to_string());
        ensure!(text(&mut other, "SELECT LAST_INSERT_ID()")? == (500 + turn).to_string());
        one.sql("INSERT INTO v VALUES (LAST_INSERT_ID())")?;
    }
    ensure!(text(&mut other, "SELECT GROUP_CONCAT(a ORDER BY a) FROM v")? == "4,5,6,7");
    let mut fresh = client(proxy, schema)?;
    ensure!(text(&mut fresh, "SELECT LAST_INSERT_ID()")? == "0");
    ensure!(text(&mut fresh, "SELECT ROW_COUNT()")? != "9");
    wait_pins(proxy, &[])
}

#[test]
fn transactions_stay_on_one_connection_and_release_it() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "transactions_stay_on_one_connection_and_release_it") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema =
            new_schema(server, "CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE = InnoDB")?;
        let proxy = before(server, 1, 2)?;
        transactions(&proxy, &schema).with_context(|| format!("{flavour:?}"))?;
        deadlock(&proxy, &schema).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

fn transactions(proxy: &Trunkline, schema: &str) -> Result<()> {
    const COUNT: &str = "SELECT COUNT(*) FROM t";
    let (mut one, mut other) = (client(proxy, schema)?, client(proxy, schema)?);
    for (begin, end, kept) in [
        ("BEGIN", "COMMIT", true),
        ("START TRANSACTION", "ROLLBACK", false),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", true),
        ("SET autocommit = 0", "SET autocommit = 1", true),
        ("SET autocommit = 0", "ROLLBACK", false),
        ("SET autocommit = 0", "COMMIT", true),
        // An implicit commit.
        ("BEGIN", "CREATE TABLE IF NOT EXISTS x (a INT)", true),
        ("BEGIN", "BEGIN; COMMIT", true),
    ] {
        one.sql("SET autocommit = 1")?;
        one.sql("DELETE FROM t")?;
        one.sql(begin)?;
        one.sql("INSERT INTO t VALUES (1, 1)")?;
        for _ in 0..3 {
            ensure!(text(&mut other, COUNT)? == "0", "{begin}: seen before its end");
            ensure!(text(&mut one, COUNT)? == "1", "{begin}: not seen by its own session");
        }
        wait_pins(proxy, &["transaction"])?;
        one.sql(end)?;
        one.sql("DO 1")?;
        wait_pins(proxy, &[]).with_context(|| format!("behind {end}"))?;
        let expected = if kept { "1" } else { "0" };
        ensure!(text(&mut other, COUNT)? == expected, "{begin} … {end}");
    }
    one.sql("SET autocommit = 1; DELETE FROM t")?;
    one.sql("BEGIN")?;
    one.sql("INSERT INTO t VALUES (1, 1)")?;
    one.sql("SAVEPOINT here")?;
    one.sql("INSERT INTO t VALUES (2, 2)")?;
    one.sql("ROLLBACK TO SAVEPOINT here")?;
    fails(&mut one, "INSERT INTO t VALUES (1, 1)", 1062)?;
    ensure!(text(&mut one, COUNT)? == "1");
    one.sql("COMMIT AND CHAIN")?;
    wait_pins(proxy, &["transaction"])?;
    one.sql("INSERT INTO t VALUES (3, 3)")?;
    // Left without an end: rolled back, before anybody else gets the connection.
    drop(one);
    wait_pins(proxy, &[])?;
    wait_until("the transaction is rolled back", SOON, || {
        let free = other.sql("SELECT * FROM t WHERE a = 3 FOR UPDATE")?;
        Ok(free.is_empty().then_some(()))
    })?;
    ensure!(text(&mut other, COUNT)? == "1");
    wait_pins(proxy, &[])
}

/// `RELEASE` ends the session behind its answer, and nobody else's.
#[test]
fn a_released_session_ends_as_directly() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_released_session_ends_as_directly") {
            continue;
        }
        let server = shared_server(flavour)?;
        let proxy = before(server, 1, 2)?;
        let mut other = Wire::login(&proxy, USER, PASSWORD, "")?;
        for texts in [
            &["BEGIN", "COMMIT RELEASE"][..],
            &["ROLLBACK WORK RELEASE"],
            &["SET completion_type = 2", "BEGIN", "COMMIT"],
            &["SELECT 1; ROLLBACK RELEASE"],
            &["BEGIN; SET completion_type = 2; COMMIT"],
            &["SET completion_type = 2", "BEGIN; COMMIT NO RELEASE; SELECT 6"],
            &["BEGIN", "COMMIT NO RELEASE", "SELECT 5"],
        ] {
            let mut ends = Vec::new();
            for endpoint in [Endpoint::from(server), Endpoint::from(&proxy)] {
                let mut wire = Wire::login(endpoint, USER, PASSWORD, "")?;
                let mut answers = Vec::new();
                for text in texts {
                    answers.push(wire.exchange(code::QUERY, text.as_bytes(), Shape::Results)?);
                }
                wire.send(code::QUERY, b"SELECT 7")?;
                answers.push(wire.reply_bytes(Shape::Results).unwrap_or_default());
                ends.push(answers);
            }
            ensure!(ends[0] == ends[1], "{texts:?}: {ends:?}");
            ensure!(other.value("SELECT 5")?.as_deref() == Some("5"));
        }
    }
    Ok(())
}

/// The server's choice reaches its client, whose transaction is over; the other one goes on.
fn deadlock(proxy: &Trunkline, schema: &str) -> Result<()> {
    let (mut one, mut other) = (client(proxy, schema)?, client(proxy, schema)?);
    one.sql("REPLACE INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0)")?;
    one.sql("BEGIN")?;
    other.sql("BEGIN")?;
    one.sql("UPDATE t SET b = 1 WHERE a IN (1, 3)")?;
    other.sql("UPDATE t SET b = 2 WHERE a = 2")?;
    let codes = std::thread::scope(|scope| {
        let first = scope.spawn(|| one.sql("UPDATE t SET b = 1 WHERE a = 2"));
        let second = scope.spawn(|| other.sql("UPDATE t SET b = 2 WHERE a = 1"));
        [first, second].map(|thread| match thread.join() {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => error_code(&error),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    });
    ensure!(codes.contains(&None) && codes.contains(&Some(1213)), "{codes:?}");
    let (victim, winner) = match codes[0] {
        Some(_) => (&mut one, &mut other),
        None => (&mut other, &mut one),
    };
    victim.sql("DO 1")?;
    wait_pins(proxy, &["transaction"])?;
    winner.sql("COMMIT")?;
    victim.sql("UPDATE t SET b = 5 WHERE a = 1")?;
    wait_pins(proxy, &[])
}

/// Statements prepared by command belong to their session and to no connection.
#[test]
fn a_prepared_statement_does_not_pin() -> Result<()> {
    use mysql_async::prelude::Queryable;
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_prepared_statement_does_not_pin") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(server, "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")?;
        let proxy = before(server, 1, 2)?;
        let mut other = client(&proxy, &schema)?;
        let opts = mysql_async::OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(proxy.port())
            .user(Some(crate::stage::USER))
            .pass(Some(crate::stage::PASSWORD))
            .db_name(Some(&schema))
            .prefer_socket(false)
            .stmt_cache_size(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut conn = mysql_async::Conn::new(opts).await?;
            let count = conn.prep("SELECT COUNT(*) + ? FROM t").await?;
            let insert = conn.prep("INSERT INTO t VALUES (?)").await?;
            wait_pins(&proxy, &[])?;
            for number in 0_i64..5 {
                ensure!(text(&mut other, "SELECT 1")? == "1");
                let value: Option<i64> = conn.exec_first(&count, (number,)).await?;
                ensure!(value == Some(number + 2), "{value:?}");
            }
            conn.exec_drop(&insert, (4,)).await?;
            conn.close(insert).await?;
            let value: Option<i64> = conn.exec_first(&count, (0,)).await?;
            ensure!(value == Some(3), "{value:?}");
            conn.close(count).await?;
            wait_pins(&proxy, &[])?;
            ensure!(text(&mut other, "SELECT COUNT(*) FROM t")? == "3");
            let again = conn.prep("SELECT 5").await?;
            let value: Option<i64> = conn.exec_first(&again, ()).await?;
            ensure!(value == Some(5), "{value:?}");
            conn.disconnect().await?;
            anyhow::Ok(())
        })?;
        wait_pins(&proxy, &[])?;
    }
    Ok(())
}
