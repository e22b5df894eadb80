//! How many statements there may be: for a client, on a connection, on a server.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, MariaDb, MySql, Options, Server};

use super::{Param, T, Twin, hold_one, on_each, prepared_again, proxy_with, rows};
use crate::stage::{FLAVOURS, PASSWORD, USER, client, is_available, new_schema, wait_pins};
use crate::wire::{Shape, Wire, code};

/// Statements that a server counts as prepared.
fn prepared_on(server: &Server) -> Result<u64> {
    let rows = server.sql("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")?;
    let value = rows.first().and_then(|row| row.get(1)).and_then(Option::as_deref);
    Ok(value.context("no Prepared_stmt_count")?.parse()?)
}

/// A server of the test's own, so that it counts nobody else's statements.
fn own_server(flavour: Flavour, options: Options) -> Result<Server> {
    let server = match flavour {
        Flavour::MariaDb => MariaDb::start(options)?,
        Flavour::MySql => MySql::start(options)?,
    };
    server.create_user(USER, PASSWORD, trunkline_testkit::AuthPlugin::ServerDefault)?;
    Ok(server)
}

#[test]
fn a_connection_keeps_the_statements_used_last() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_connection_keeps_the_statements_used_last") {
            continue;
        }
        let server = own_server(flavour, Options::default())?;
        let schema = new_schema(&server, T)?;
        let proxy = proxy_with(&server, "max_stmts_per_connection = 3", 1)?;
        let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let mut ids = Vec::new();
        for number in 0..8 {
            let text = format!("SELECT {number} FROM t WHERE a = 1");
            let prepared = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
            ids.push(prepared[5..9].to_vec());
        }
        for turn in 0..3 {
            for (number, id) in ids.iter().enumerate() {
                let body = [&id[..], &[0, 1, 0, 0, 0]].concat();
                let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
                let outcomes = wire.outcomes(&bytes)?;
                let [row] = rows(&outcomes)? else { anyhow::bail!("{outcomes:?}") };
                ensure!(usize::from(row[2]) == number, "{turn}: {row:?}");
            }
            let count = prepared_on(&server)?;
            ensure!((1..=3).contains(&count), "{count} statements on the server");
        }
        ensure!(prepared_again(&proxy)? > 10.0);
        // What is used again and again stays.
        let before = prepared_again(&proxy)?;
        for _ in 0..20 {
            let body = [&ids[7][..], &[0, 1, 0, 0, 0]].concat();
            wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        }
        ensure!(prepared_again(&proxy)? == before);
        wait_pins(&proxy, &[])?;
        drop(proxy);
        let gone = || Ok((prepared_on(&server)? == 0).then_some(()));
        trunkline_testkit::wait_until("all are closed", crate::stage::SOON, gone)?;
    }
    Ok(())
}

#[test]
fn a_server_is_kept_below_its_budget() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_server_is_kept_below_its_budget") {
            continue;
        }
        let options = Options::default().arg("--max-prepared-stmt-count=12");
        let server = own_server(flavour, options)?;
        let schema = new_schema(&server, T)?;
        let proxy = proxy_with(&server, "max_stmts_per_server = 6", 4)?;
        let mut wires = Vec::new();
        for _ in 0..4 {
            let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
            // Each holds a connection of its own.
            wire.one("BEGIN")?;
            wire.one("SELECT COUNT(*) FROM t")?;
            wires.push(wire);
        }
        for number in 0..40 {
            let wire = &mut wires[number % 4];
            let text = format!("SELECT {number} FROM t WHERE a = 1");
            let prepared = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
            let body = [&prepared[5..9], &[0, 1, 0, 0, 0]].concat();
            let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
            rows(&wire.outcomes(&bytes)?)?;
            let count = prepared_on(&server)?;
            ensure!(count <= 10, "{count} statements on the server");
        }
        drop(wires);
        wait_pins(&proxy, &[])?;
        // A server that has no more room says so, and the proxy makes some.
        let proxy = proxy_with(&server, "", 1)?;
        let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let mut refused = 0;
        for number in 0..40 {
            let text = format!("SELECT {number}");
            let answer = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
            if answer[4] == 0xFF {
                ensure!(answer[5..7] == 1461_u16.to_le_bytes(), "{}", answer.escape_ascii());
                refused += 1;
            }
        }
        ensure!((1..10).contains(&refused), "{refused} refused");
    }
    Ok(())
}

/// When a statement can't be prepared, the one prepared before is not run in its place.
#[test]
fn a_server_without_room_runs_nothing_else() -> Result<()> {
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_server_without_room_runs_nothing_else") {
            continue;
        }
        let server = own_server(flavour, Options::default())?;
        let schema = new_schema(&server, &format!("{T}; CREATE TABLE log (a INT)"))?;
        let proxy = proxy_with(&server, "", 2)?;
        let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
        let mut ids = Vec::new();
        let texts = ["SELECT COUNT(*) FROM log", "INSERT INTO log VALUES (1)", "SELECT 'other'"];
        for text in texts {
            let prepared = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
            ids.push(prepared[5..9].to_vec());
        }
        let _holds_them = hold_one(&proxy, &schema)?;
        let room =
            |count: u32| server.sql(&format!("SET GLOBAL max_prepared_stmt_count = {count}"));
        let mut run = |number: usize| -> Result<crate::wire::Outcome> {
            let body = [&ids[number][..], &[0, 1, 0, 0, 0]].concat();
            let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
            wire.outcomes(&bytes)?.pop().context("no answer")
        };
        // Behind a write, and behind a read.
        for before in [1, 2] {
            room(100)?;
            ensure!(run(before)?.error().is_none());
            room(1)?;
            let refused = run(0)?;
            ensure!(refused.error().map(|error| error.code) == Some(1461), "{refused:?}");
        }
        room(100)?;
        let counted = run(0)?;
        ensure!(rows(&[counted])?[0][2..] == 1_i64.to_le_bytes(), "the write ran again");
        wait_pins(&proxy, &["transaction"])?;
    }
    Ok(())
}

#[test]
fn a_client_has_so_many_statements() -> Result<()> {
    on_each("a_client_has_so_many_statements", T, |server, schema| {
        let settings = "max_stmts_per_client = 3\nmax_allowed_packet = 8192";
        let proxy = proxy_with(server, settings, 1)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let mut stmts = Vec::new();
        for number in 0..3 {
            stmts.push(client.prepare(&format!("SELECT ?, {number}"))?);
        }
        let refused = client.proxied.exchange(code::STMT_PREPARE, b"DO 1", Shape::Prepare)?;
        ensure!(refused[5..13] == *b"\xB5\x05#42000", "{}", refused.escape_ascii());
        client.close(stmts.remove(0))?;
        stmts.push(client.prepare("SELECT ?, 3")?);
        for stmt in &stmts {
            client.execute(*stmt, &[Param::Int(1)])?;
        }
        // Long data has the same bound in sum; the server's is higher.
        let stmt = stmts[0];
        let piece =
            |at: u16| [&stmt.proxied.to_le_bytes()[..], &at.to_le_bytes(), &[b'x'; 3_000]].concat();
        for _ in 0..3 {
            client.proxied.exchange(code::STMT_SEND_LONG_DATA, &piece(0), Shape::Nothing)?;
        }
        let run = super::block(0, &[Param::Long], true);
        let body = [&stmt.proxied.to_le_bytes()[..], &run].concat();
        let answer = client.proxied.single(code::STMT_EXECUTE, &body)?;
        let error = answer.error().context("an error")?;
        ensure!((error.code, &*error.sqlstate) == (1105, "HY000"), "{error:?}");
        ensure!(error.text.contains("max_allowed_packet"), "{error:?}");
        client.reset(stmt)?;
        client.execute(stmt, &[Param::Int(1)])?;
        // Texts too.
        let long = format!("SELECT '{}'", "x".repeat(7_000));
        client.close(stmts[1])?;
        client.close(stmts[2])?;
        let first = client.prepare(&long)?;
        let refused =
            client.proxied.exchange(code::STMT_PREPARE, long.as_bytes(), Shape::Prepare)?;
        ensure!(refused[5..7] == 1461_u16.to_le_bytes(), "{}", refused.escape_ascii());
        client.execute(first, &[])?;
        wait_pins(&proxy, &[])
    })
}

/// A text of so many bytes that differ by where they are.
fn counted(len: usize) -> String {
    let mut text: String = (0..=len / 8).map(|number| format!("{number:08}")).collect();
    text.truncate(len);
    text
}

/// Texts that no connection keeps are prepared each time.
#[test]
fn long_texts_and_long_executions_pass() -> Result<()> {
    on_each("long_texts_and_long_executions_pass", T, |server, schema| {
        let proxy = proxy_with(server, "max_allowed_packet = 67108864", 2)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let text = format!("SELECT ? FROM t WHERE b <> '{}' AND a = 1", "x".repeat(100_000));
        let stmt = client.prepare(&text)?;
        for turn in 0..3 {
            client.execute(stmt, &[Param::Int(turn)])?;
            client.again(stmt, &[Param::Int(turn)])?;
        }
        let stmt = client.prepare("SELECT LENGTH(?)")?;
        let other = hold_one(&proxy, schema)?;
        let size = 0xFF_FFFF;
        let answers = [size - 40, size - 19, size - 18, size - 17, size - 16, size + 100];
        let mut direct = server.connect(USER, PASSWORD, "")?;
        for len in answers {
            let value = [Param::text(&counted(len))];
            let mut fresh = Twin::new(server, &proxy, schema)?;
            let own = fresh.prepare("SELECT CRC32(?)")?;
            fresh.execute(own, &[Param::text("short")])?;
            fresh.again(own, &value).with_context(|| format!("{len} bytes"))?;
            let own = fresh.prepare("SELECT CRC32(?)")?;
            fresh.execute(own, &value).with_context(|| format!("{len} bytes with types"))?;
        }
        drop(other);
        client.execute(stmt, &[Param::text("short")])?;
        direct.sql("DO 1")?;
        Ok(())
    })
}

#[test]
fn a_thousand_clients_share_the_statements_of_a_few_connections() -> Result<()> {
    on_each("a_thousand_clients_share", T, |server, schema| {
        let proxy = proxy_with(server, "", 3)?;
        let mut wires = Vec::new();
        for number in 0..200_u32 {
            let mut wire = Wire::login(&proxy, USER, PASSWORD, schema)?;
            let text = b"SELECT b FROM t WHERE a = ?";
            let prepared = wire.exchange(code::STMT_PREPARE, text, Shape::Prepare)?;
            ensure!(prepared[5..9] == 1_u32.to_le_bytes(), "{number}: not its own first id");
            wires.push(wire);
        }
        for (number, wire) in wires.iter_mut().enumerate() {
            let value = i64::try_from(number % 3)? + 1;
            let body = [&[1, 0, 0, 0][..], &super::block(0, &[Param::Int(value)], true)].concat();
            let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
            let expected: &[u8] =
                [&b"\0\0\x03one"[..], b"\0\0\x03two", b"\0\0\x05three"][number % 3];
            ensure!(rows(&wire.outcomes(&bytes)?)? == [expected]);
        }
        ensure!(prepared_again(&proxy)? <= 3.0);
        let mut plain = client(&proxy, schema)?;
        plain.sql("SELECT 1")?;
        wait_pins(&proxy, &[])
    })
}

/// Each client's answers are its own, while several are in flight on a connection.
#[test]
fn short_executions_follow_each_other_on_one_connection() -> Result<()> {
    on_each("short_executions_follow_each_other", T, |server, schema| {
        let proxy = proxy_with(server, "", 2)?;
        std::thread::scope(|scope| {
            let (proxy, mut threads) = (&proxy, Vec::new());
            for number in 0..24_i64 {
                threads.push(scope.spawn(move || echo(proxy, schema, number)));
            }
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            anyhow::Ok(())
        })?;
        let pipelined = proxy.metric("trunkline_statement_pipelined_total", "")?;
        ensure!(pipelined.unwrap_or(0.0) > 100.0, "{pipelined:?} followed others");
        wait_pins(&proxy, &[])
    })
}

/// Asks for values that only this client asks for, of types that change.
fn echo(proxy: &trunkline_testkit::Trunkline, schema: &str, number: i64) -> Result<()> {
    let mut wire = Wire::login(proxy, USER, PASSWORD, schema)?;
    let mut ids = Vec::new();
    for text in ["SELECT b, ? FROM t WHERE a = ?", "SELECT ?, a FROM t WHERE a = ?"] {
        let prepared = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
        ids.push(prepared[5..9].to_vec());
    }
    for turn in 0..200_i64 {
        let (id, mark) = (&ids[usize::try_from(turn % 2)?], format!("<{number}:{turn}>"));
        let params = [Param::text(&mark), Param::Int(turn % 3 + 1)];
        // Types are sent with the first execution of each only.
        let body = [&id[..], &super::block(0, &params, turn < 2)].concat();
        let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        let outcomes = wire.outcomes(&bytes)?;
        let [row] = rows(&outcomes)? else { anyhow::bail!("{outcomes:?}") };
        let has_mark = row.windows(mark.len()).any(|part| part == mark.as_bytes());
        ensure!(has_mark, "{mark} is not in {}", row.escape_ascii());
    }
    Ok(())
}
