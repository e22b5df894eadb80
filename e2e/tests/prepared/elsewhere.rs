//! Statements on other connections, other servers, in other schemas and under other settings than
//! those that they were prepared with.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, Replication, Trunkline, wait_until};

use super::{
    Param, T, Twin, block, error_code, hold_one, on_each, prepared_again, proxy_with, rows,
};
use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, before, client, is_available, new_schema, shared_replication,
    shared_server, start, statements_of, text, user, wait_pins,
};
use crate::wire::{Outcome, PLAIN, Shape, Wire, code};

#[test]
fn a_statement_runs_on_any_connection() -> Result<()> {
    on_each("a_statement_runs_on_any_connection", T, |server, schema| {
        let proxy = before(server, 1, 2)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let read = client.prepare("SELECT a, b FROM t WHERE a = ?")?;
        let write = client.prepare("REPLACE INTO t VALUES (?, ?)")?;
        let first = prepared_again(&proxy)?;
        let other = hold_one(&proxy, schema)?;
        // Types that the other connection has not had yet.
        client.execute(read, &[Param::Int(1)])?;
        let long = client.prepare("SELECT a, b FROM t WHERE a = ?")?;
        client.long(long, 0, b"2")?;
        client.execute(long, &[Param::Long])?;
        drop(other);
        let other = hold_one(&proxy, schema)?;
        client.execute(read, &[Param::Int(2)])?;
        for number in 0..4 {
            let params = [Param::Int(100), Param::text(&format!("new {number}"))];
            let body = [&write.proxied.to_le_bytes()[..], &block(0, &params, number == 0)];
            let answer = client.proxied.single(code::STMT_EXECUTE, &body.concat())?;
            ensure!(answer.is_ok(), "{answer:?}");
        }
        drop(other);
        wait_until("it was prepared again", SOON, || {
            Ok((prepared_again(&proxy)? > first).then_some(()))
        })?;
        let found = client.execute(read, &[Param::Int(100)])?;
        ensure!(rows(&found)? == [&b"\0\0\x64\0\0\0\x05new 3"[..]], "{found:?}");
        wait_pins(&proxy, &[])
    })
}

#[test]
fn a_text_means_what_it_meant_when_it_was_prepared() -> Result<()> {
    let test = "a_text_means_what_it_meant_when_it_was_prepared";
    on_each(test, T, |server, schema| {
        let second =
            new_schema(server, "CREATE TABLE t (b VARCHAR(20)); INSERT INTO t VALUES ('x')")?;
        // One statement a connection, so that each is prepared again and again.
        let proxy = proxy_with(server, "max_stmts_per_connection = 1", 1)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let mut other = Twin::new(server, &proxy, &second)?;
        let text = "SELECT * FROM t LIMIT 1";
        let (here, theirs) = (client.prepare(text)?, other.prepare(text)?);
        for _ in 0..2 {
            client.execute(here, &[])?;
            other.execute(theirs, &[])?;
        }
        client.query(&format!("USE {second}"))?;
        let there = client.prepare(text)?;
        for _ in 0..3 {
            client.execute(here, &[])?;
            other.execute(theirs, &[])?;
            client.execute(there, &[])?;
            client.query("SELECT DATABASE()")?;
        }
        // Quotes, and what depends on the session when it runs. (With parameters, MySQL may read
        // a text again when it runs, as the session's settings are then.)
        let quoted = "SELECT \"b\", @@sql_mode = '' FROM t LIMIT 1";
        let plain = client.prepare(quoted)?;
        client.query("SET sql_mode = 'ANSI_QUOTES'")?;
        let ansi = client.prepare(quoted)?;
        client.query("SET sql_mode = ''")?;
        for mode in ["", "ANSI_QUOTES", "STRICT_TRANS_TABLES"] {
            client.query(&format!("SET sql_mode = '{mode}'"))?;
            for stmt in [plain, ansi] {
                client.execute(stmt, &[])?;
                other.execute(theirs, &[])?;
                client.execute(stmt, &[])?;
            }
        }
        client.query("SET NAMES latin1")?;
        let latin = client.prepare("SELECT 'caf\u{e9}', LENGTH('\u{e9}')")?;
        client.query("SET NAMES utf8mb4")?;
        let utf8 = client.prepare("SELECT 'caf\u{e9}', LENGTH('\u{e9}')")?;
        for zone in ["+00:00", "+05:30"] {
            client.query(&format!("SET time_zone = '{zone}'"))?;
            let zoned = client.prepare("SELECT FROM_UNIXTIME(0), FROM_UNIXTIME(?)")?;
            other.execute(theirs, &[])?;
            client.execute(zoned, &[Param::Int(86_400)])?;
            for stmt in [latin, utf8] {
                client.execute(stmt, &[])?;
                other.execute(theirs, &[])?;
            }
        }
        wait_pins(&proxy, &[])
    })
}

#[test]
fn a_table_that_changes_is_seen_as_it_is() -> Result<()> {
    on_each("a_table_that_changes_is_seen_as_it_is", T, |server, schema| {
        let proxy = before(server, 1, 2)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let stmt = client.prepare("SELECT * FROM t WHERE a = ?")?;
        client.execute(stmt, &[Param::Int(1)])?;
        for change in [
            "ALTER TABLE t ADD COLUMN c INT DEFAULT 7",
            "ALTER TABLE t DROP COLUMN b",
            "DROP TABLE t",
        ] {
            server.sql(&format!("USE {schema}; {change}"))?;
            client.again(stmt, &[Param::Int(2)]).context(change)?;
            let other = match change.starts_with("DROP") {
                true => None,
                false => Some(hold_one(&proxy, schema)?),
            };
            client.execute(stmt, &[Param::Int(2)]).context(change)?;
            drop(other);
        }
        let gone = client.execute(stmt, &[Param::Int(2)])?;
        ensure!(error_code(&gone)? == 1146, "{gone:?}");
        ensure!(client.try_prepare("SELECT * FROM t WHERE a = ?")?.is_none());
        server.sql(&format!("USE {schema}; CREATE TABLE t (a INT, d TEXT)"))?;
        client.execute(stmt, &[Param::Int(2)])?;
        // A connection that has to prepare it anew gets the same answer.
        let fresh = before(server, 1, 1)?;
        let mut client = Twin::new(server, &fresh, schema)?;
        let stmt = client.prepare("SELECT * FROM t WHERE a = ?")?;
        server.sql(&format!("USE {schema}; DROP TABLE t"))?;
        client.proxied.one("SELECT 1")?;
        let gone = client.execute(stmt, &[Param::Int(2)])?;
        ensure!(error_code(&gone)? == 1146, "{gone:?}");
        client.query("SHOW WARNINGS")?;
        Ok(())
    })
}

const WRITER: u64 = 10;
const READER: u64 = 20;

fn topology(replication: &Replication, rest: &str) -> String {
    let mut config = "workers = 1\n".to_owned();
    let server = |hostgroup: u64, address: String| {
        format!("[[server]]\nhostgroup = {hostgroup}\naddress = \"{address}\"\n")
    };
    config.push_str(&server(WRITER, replication.primary().address()));
    for replica in replication.replicas() {
        config.push_str(&server(READER, replica.address()));
    }
    let user = user(u32::try_from(WRITER).unwrap_or_default());
    config.push_str(&format!(
        "[[replication]]\nwriter_hostgroup = {WRITER}\nreader_hostgroup = {READER}\n{user}{rest}\n"
    ));
    config
}

/// Prepares on the proxy alone; the id.
fn prepare(wire: &mut Wire, text: &str) -> Result<[u8; 4]> {
    let bytes = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    ensure!(bytes[4] == 0, "{text}: {}", bytes.escape_ascii());
    Ok(bytes[5..9].try_into()?)
}

fn execute(wire: &mut Wire, id: [u8; 4], params: &[Param]) -> Result<Vec<Outcome>> {
    let body = [&id[..], &block(0, params, true)].concat();
    let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
    wire.outcomes(&bytes)
}

/// The text of the first row's only column.
fn name_in(outcomes: &[Outcome]) -> Result<String> {
    let row = rows(outcomes)?.first().context("no row")?;
    Ok(String::from_utf8_lossy(row.get(3..).unwrap_or_default()).into_owned())
}

#[test]
fn executions_that_only_read_go_to_readers() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "executions_that_only_read_go_to_readers") {
            continue;
        }
        let replication = shared_replication(flavour)?;
        split(replication).with_context(|| format!("{flavour:?}"))?;
        rules(replication).with_context(|| format!("{flavour:?}"))?;
    }
    Ok(())
}

fn split(replication: &Replication) -> Result<()> {
    let proxy = Trunkline::start(&topology(replication, ""))?;
    let mut wire = Wire::login(&proxy, USER, PASSWORD, "mark")?;
    let who = prepare(&mut wire, "SELECT name FROM server WHERE name <> ?")?;
    let write = prepare(&mut wire, "UPDATE note SET text = ? WHERE id < 0")?;
    let locks = prepare(&mut wire, "SELECT name FROM server WHERE name <> ? FOR UPDATE")?;
    let param = [Param::text("nobody")];
    let before = statements_of(&proxy, READER)?;
    for _ in 0..8 {
        let name = name_in(&execute(&mut wire, who, &param)?)?;
        ensure!(name.starts_with("replica"), "{name}");
        ensure!(matches!(execute(&mut wire, write, &param)?[..], [Outcome::Ok { .. }]));
        ensure!(name_in(&execute(&mut wire, locks, &param)?)? == "primary");
    }
    ensure!(statements_of(&proxy, READER)? >= before + 8);
    wire.one("BEGIN")?;
    ensure!(name_in(&execute(&mut wire, who, &param)?)? == "primary");
    wire.one("COMMIT")?;
    let name = name_in(&execute(&mut wire, who, &param)?)?;
    ensure!(name.starts_with("replica"), "{name}");
    wait_pins(&proxy, &[])
}

/// Rules are asked for each execution.
fn rules(replication: &Replication) -> Result<()> {
    let rule = |id: u32, pattern: &str, rest: &str| {
        format!("[[rule]]\nid = {id}\nmatch_digest = \"{pattern}\"\napply = true\n{rest}\n")
    };
    let rules = [
        rule(1, "^SELECT name FROM server AS w", "destination_hostgroup = 10"),
        rule(2, "^SELECT name FROM server AS no", "error_msg = \"not this one\""),
        rule(3, "^DO", "OK_msg = \"done\""),
    ];
    let proxy = Trunkline::start(&topology(replication, &rules.concat()))?;
    let mut wire = Wire::login(&proxy, USER, PASSWORD, "mark")?;
    let who = prepare(&mut wire, "SELECT name FROM server AS w")?;
    ensure!(name_in(&execute(&mut wire, who, &[])?)? == "primary");
    let no = b"SELECT name FROM server AS no";
    let refused = wire.exchange(code::STMT_PREPARE, no, Shape::Prepare)?;
    ensure!(refused.ends_with(b"not this one"), "{}", refused.escape_ascii());
    let done = prepare(&mut wire, "DO ?")?;
    let answer = execute(&mut wire, done, &[Param::Int(1)])?;
    ensure!(matches!(&answer[..], [Outcome::Ok { info, .. }] if info == "done"), "{answer:?}");
    Ok(())
}

#[test]
fn statements_outlive_their_servers_connections() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "statements_outlive_their_servers_connections") {
            continue;
        }
        let server = start(flavour, Options::default())?;
        let schema = new_schema(&server, &format!("{T}; CREATE TABLE log (a INT)"))?;
        let proxy = proxy_with(&server, "shun_recovery_time_sec = 1", 3)?;
        let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let read = prepare(&mut wire, "SELECT b FROM t WHERE a = ?")?;
        let write = prepare(&mut wire, "INSERT INTO t VALUES (?, 'new')")?;
        ensure!(name_in(&execute(&mut wire, read, &[Param::Int(1)])?)? == "one");
        // Where the table's name was not known in time, it holds the session until it is.
        wait_pins(&proxy, &[])?;
        server.kill_hard()?;
        server.restart()?;
        let name = wait_until("the server serves again", SOON, || {
            Ok(name_in(&execute(&mut wire, read, &[Param::Int(2)])?).ok())
        })?;
        ensure!(name == "two", "{name}");
        ensure!(matches!(execute(&mut wire, write, &[Param::Int(9)])?[..], [Outcome::Ok { .. }]));

        // A connection that is killed while a read runs: the read runs again elsewhere.
        let slow = prepare(&mut wire, "SELECT b FROM t WHERE a = ? AND SLEEP(0.7) = 0")?;
        let killed = |run: &mut dyn FnMut() -> Result<Vec<Outcome>>| -> Result<Vec<Outcome>> {
            std::thread::scope(|scope| {
                let killer = scope.spawn(|| kill_sleeper(&server));
                let outcome = run();
                killer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                outcome
            })
        };
        let outcome = killed(&mut || execute(&mut wire, slow, &[Param::Int(1)]))?;
        ensure!(name_in(&outcome)? == "one", "{outcome:?}");
        // A write is not tried twice.
        let slow = prepare(&mut wire, "INSERT INTO log SELECT ? + SLEEP(0.7)")?;
        let outcome = killed(&mut || execute(&mut wire, slow, &[Param::Int(77)]))?;
        ensure!(error_code(&outcome)? == 2013, "{outcome:?}");
        let mut other = client(&proxy, &schema)?;
        let count = text(&mut other, "SELECT COUNT(*) FROM log")?;
        ensure!(count != "2", "run twice");
        ensure!(name_in(&execute(&mut wire, read, &[Param::Int(3)])?)? == "three");
        wait_pins(&proxy, &[])?;
    }
    Ok(())
}

/// Kills the connection that sleeps.
fn kill_sleeper(server: &trunkline_testkit::Server) -> Result<()> {
    let find = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(0.7)%' \
                AND COMMAND IN ('Execute', 'Query') AND USER = 'app' LIMIT 1";
    let id = wait_until("a statement sleeps", SOON, || {
        Ok(server.sql(find)?.into_iter().flatten().next().flatten())
    })?;
    server.sql(&format!("KILL {id}"))?;
    Ok(())
}

#[test]
fn every_client_writes_a_vector_by_the_same_statement() -> Result<()> {
    let test = "every_client_writes_a_vector_by_the_same_statement";
    if !is_available(Flavour::MySql, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MySql)?;
    let schema = new_schema(server, "CREATE TABLE t (a INT, v VECTOR(3))")?;
    let proxy = before(server, 1, 1)?;
    // Three times 2.0.
    let vector = Param::text(&"\0\0\0@".repeat(3));
    for number in [1.0, 2.0, 3.0] {
        let mut client = Twin::new(server, &proxy, &schema)?;
        for _ in 0..2 {
            // MySQL prepares it again by itself, for the number's type, and takes the vector by
            // the first execution only.
            let insert = client.prepare("INSERT INTO t VALUES (?, ?)")?;
            let done = client.execute(insert, &[Param::Double(number), vector.clone()])?;
            ensure!(matches!(done[..], [Outcome::Ok { affected: 1, .. }]), "{done:?}");
            client.close(insert)?;
        }
    }
    wait_pins(&proxy, &[])
}

#[test]
fn an_end_of_columns_has_the_flags_of_its_session() -> Result<()> {
    on_each("an_end_of_columns_has_the_flags_of_its_session", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        // The only connection is opened for a client that does not expect it.
        Twin::new(server, &proxy, schema)?.query("SELECT 1")?;
        let mut clients = Vec::new();
        for flag in [0, 1] {
            let mut client = Twin::with(server, &proxy, schema, PLAIN)?;
            client.query(&format!("SET autocommit = {flag}"))?;
            clients.push((client.prepare("SELECT ?")?, client));
        }
        for _ in 0..2 {
            for (stmt, client) in &mut clients {
                client.execute(*stmt, &[Param::Int(1)])?;
                client.query("SELECT 'x'")?;
                client.query("BEGIN")?;
                client.query("SELECT 'x'")?;
                client.query("COMMIT")?;
            }
        }
        wait_pins(&proxy, &[])
    })
}
