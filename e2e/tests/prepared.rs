//! Prepared statements by command: they belong to their client, and to no connection.

mod bounds;
mod elsewhere;
mod failed;
mod past;
mod read_late;
pub mod twin;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Server, Trunkline, wait_until};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, before, client, is_available, new_schema, one_server,
    shared_server, text, wait_pins,
};
use crate::wire::{PLAIN, Shape, Wire, code, login};

use twin::{Param, Twin, block, error_code, rows};

/// Runs a test on the shared server of each flavour, with a schema of its own.
fn on_each(
    test: &str,
    statements: &str,
    check: impl Fn(&'static Server, &str) -> Result<()>,
) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, test) {
            let server = shared_server(flavour)?;
            let schema = new_schema(server, statements)?;
            check(server, &schema).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

/// The proxy with one worker, so many server connections, and settings.
fn proxy_with(server: &Server, settings: &str, max_connections: u32) -> Result<Trunkline> {
    Trunkline::start(&format!("{settings}\n{}", one_server(server, 1, max_connections)))
}

/// How often the proxy had to prepare again.
fn prepared_again(proxy: &Trunkline) -> Result<f64> {
    let name = "trunkline_backend_reprepared_statements_total";
    Ok(proxy.metric(name, "")?.unwrap_or(0.0))
}

/// Someone holds the server connection that was used last, so that others take another one.
fn hold_one(proxy: &Trunkline, schema: &str) -> Result<trunkline_testkit::SqlClient> {
    let mut other = client(proxy, schema)?;
    other.sql("BEGIN")?;
    other.sql("SELECT 1")?;
    Ok(other)
}

const T: &str = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20)) ENGINE = InnoDB;
                 INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')";

#[test]
fn two_clients_take_turns_on_one_connection() -> Result<()> {
    on_each("two_clients_take_turns_on_one_connection", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        let mut clients = Vec::new();
        for _ in 0..2 {
            clients.push(Twin::new(server, &proxy, schema)?);
        }
        let mut stmts = Vec::new();
        for client in &mut clients {
            let read = client.prepare("SELECT a, b FROM t WHERE a >= ? ORDER BY a")?;
            let write = client.prepare("UPDATE t SET b = ? WHERE a = ?")?;
            let none = client.prepare("SELECT COUNT(*) FROM t")?;
            stmts.push((read, write, none));
        }
        for turn in 0..6 {
            for (number, client) in clients.iter_mut().enumerate() {
                let (read, write, none) = stmts[number];
                let found = client.execute(read, &[Param::Int(turn % 4)])?;
                ensure!(rows(&found)?.len() == usize::try_from(4 - (turn % 4).max(1))?);
                client.again(read, &[Param::Int(2)])?;
                // Both sides change the same row, so that it really changes for the first only.
                let value = Param::Text(format!("{number} {turn}"));
                let body = block(0, &[value, Param::Int(1)], true);
                client.proxied.exchange(
                    code::STMT_EXECUTE,
                    &[&write.proxied.to_le_bytes()[..], &body].concat(),
                    Shape::Results,
                )?;
                client.execute(none, &[])?;
            }
            wait_pins(&proxy, &[])?;
        }
        // One connection, three texts: the second client's are the first one's.
        for (client, (read, ..)) in clients.iter_mut().zip(&stmts) {
            client.close(*read)?;
            let gone = client.proxied.single(
                code::STMT_EXECUTE,
                &[&read.proxied.to_le_bytes()[..], &block(0, &[Param::Int(1)], true)].concat(),
            )?;
            ensure!(gone.error().map(|error| error.code) == Some(1243), "{gone:?}");
        }
        Ok(())
    })
}

#[test]
fn executions_of_other_types_do_not_meet() -> Result<()> {
    on_each("executions_of_other_types_do_not_meet", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        let kinds = [
            Param::Int(7),
            Param::text("seven"),
            Param::Double(7.5),
            Param::Null,
            Param::text("8"),
            Param::Int(-1),
        ];
        for text in ["SELECT ?", "SELECT ? + 1, ?", "SELECT a FROM t WHERE b = ? OR a = ?"] {
            for (number, kind) in kinds.iter().enumerate() {
                // Each is a client of its own, so that a server has no past with it.
                let mut client = Twin::new(server, &proxy, schema)?;
                let stmt = client.prepare(text)?;
                let params = vec![kind.clone(); text.matches('?').count()];
                client.execute(stmt, &params).with_context(|| format!("{text}: {kind:?}"))?;
                client.again(stmt, &params).with_context(|| format!("{text}: {kind:?} again"))?;
                ensure!(number < kinds.len());
            }
        }
        // Types sent once are those of their own client.
        let mut clients = Vec::new();
        for kind in &kinds[..3] {
            let mut client = Twin::new(server, &proxy, schema)?;
            let stmt = client.prepare("SELECT ?, a FROM t WHERE a = ?")?;
            client.execute(stmt, &[kind.clone(), Param::Int(1)])?;
            clients.push((client, stmt, kind));
        }
        for turn in 0..9 {
            let (client, stmt, kind) = &mut clients[turn % 3];
            client.again(*stmt, &[kind.clone(), Param::Int(2)])?;
        }
        // Types that never came: the server's own answer, and the session goes on.
        let mut client = Twin::new(server, &proxy, schema)?;
        let stmt = client.prepare("SELECT b FROM t WHERE a = ?")?;
        let found = client.execute(stmt, &[Param::Int(3)])?;
        ensure!(rows(&found)? == [b"\0\0\x05three"]);
        Ok(())
    })
}

#[test]
fn long_data_waits_for_its_execution() -> Result<()> {
    on_each("long_data_waits_for_its_execution", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let mut other = Twin::new(server, &proxy, schema)?;
        let stmt = client.prepare("SELECT LENGTH(?), ?, ?")?;
        let short = client.prepare("SELECT LENGTH(?), ?, ?")?;
        let same = other.prepare("SELECT LENGTH(?), ?, ?")?;
        let params = [Param::Long, Param::Int(2), Param::Long];
        for _ in 0..3 {
            client.long(stmt, 0, b"one ")?;
            other.long(same, 0, b"somebody else's")?;
            client.long(stmt, 2, b"")?;
            client.long(stmt, 0, &[b'x'; 100_000])?;
            client.execute(stmt, &params)?;
            other.execute(same, &[Param::Long, Param::Null, Param::Null])?;
            // It is used up.
            client.execute(short, &[Param::text("short"), Param::Int(1), Param::Null])?;
        }
        client.long(stmt, 0, b"given up")?;
        client.reset(stmt)?;
        client.long(short, 0, b"given up")?;
        client.reset(short)?;
        client.execute(short, &[Param::text("again"), Param::Int(1), Param::Null])?;
        // No such parameter: the execution says so, until a reset.
        client.long(short, 9, b"nowhere")?;
        let refused = client.execute(short, &[Param::Null, Param::Null, Param::Null])?;
        ensure!(error_code(&refused)? == 1210);
        client.reset(short)?;
        client.execute(short, &[Param::text("again"), Param::Int(1), Param::Null])?;
        client.close(stmt)?;
        wait_pins(&proxy, &[])
    })
}

#[test]
fn an_open_cursor_holds_its_session_until_it_ends() -> Result<()> {
    on_each("an_open_cursor_holds_its_session_until_it_ends", T, |server, schema| {
        let proxy = before(server, 1, 2)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let mut other = Twin::new(server, &proxy, schema)?;
        let text = "SELECT a, b FROM t ORDER BY a";
        let (stmt, second) = (client.prepare(text)?, client.prepare(text)?);
        let theirs = other.prepare(text)?;
        client.fetch(stmt, 1)?;

        client.execute_cursor(stmt, &[])?;
        wait_pins(&proxy, &["cursor"])?;
        for _ in 0..2 {
            client.fetch(stmt, 1)?;
            other.execute(theirs, &[])?;
            // The same text does not end it, run by its own client under another name.
            client.execute(second, &[])?;
            client.query("SELECT 1")?;
        }
        client.fetch(stmt, 5)?;
        wait_pins(&proxy, &[])?;
        client.fetch(stmt, 1)?;

        // Two at once, one closed and one reset.
        client.execute_cursor(stmt, &[])?;
        client.execute_cursor(second, &[])?;
        client.fetch(second, 1)?;
        client.fetch(stmt, 1)?;
        client.close(second)?;
        wait_pins(&proxy, &["cursor"])?;
        client.fetch(stmt, 1)?;
        client.reset(stmt)?;
        wait_pins(&proxy, &[])?;
        client.fetch(stmt, 1)?;
        // Run again without a cursor.
        client.execute_cursor(stmt, &[])?;
        client.fetch(stmt, 1)?;
        // (MySQL 9.7 itself answers that wrongly: columns without rows.)
        let body = [&stmt.proxied.to_le_bytes()[..], &block(0, &[], true)].concat();
        let bytes = client.proxied.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        ensure!(rows(&client.proxied.outcomes(&bytes)?)?.len() == 3);
        wait_pins(&proxy, &[])?;
        client.execute_cursor(stmt, &[])?;
        // The next one begins at the front.
        client.execute_cursor(stmt, &[])?;
        client.fetch(stmt, 10)?;
        wait_pins(&proxy, &[])?;
        // Nothing to fetch from.
        let update = client.prepare("UPDATE t SET b = 'x' WHERE a = 100")?;
        client.execute_cursor(update, &[])?;
        wait_pins(&proxy, &[])?;
        client.execute_cursor(stmt, &[])?;
        drop(client);
        wait_pins(&proxy, &[])?;
        other.execute(theirs, &[])?;
        Ok(())
    })
}

#[test]
fn bad_ids_and_broken_blocks_get_the_servers_errors() -> Result<()> {
    on_each("bad_ids_and_broken_blocks_get_the_servers_errors", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let closed = client.prepare("DO 1")?;
        client.close(closed)?;
        for code in [code::STMT_EXECUTE, code::STMT_RESET, code::STMT_FETCH] {
            client.on(code, closed, &[0, 1, 0, 0, 0], Shape::Single)?;
        }
        let unknown = Wire::login_with(&proxy, login(USER, PASSWORD, schema, crate::wire::PLAIN));
        drop(unknown?);
        for code in [code::STMT_EXECUTE, code::STMT_RESET, code::STMT_FETCH] {
            for id in [0_u32, 77, 4_000_000_000] {
                let body = [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
                let direct = client.direct.exchange(code, &body, Shape::Single)?;
                let proxied = client.proxied.exchange(code, &body, Shape::Single)?;
                ensure!(direct == proxied, "{}", proxied.escape_ascii());
            }
        }
        // Nobody answers these.
        for code in [code::STMT_CLOSE, code::STMT_SEND_LONG_DATA] {
            let body = [0xEE, 0xEE, 0xEE, 0, 0, 0, b'x'];
            client.proxied.exchange(code, &body, Shape::Nothing)?;
        }
        let stmt = client.prepare("SELECT b FROM t WHERE a = ? AND b <> ?")?;
        let params = [Param::Int(1), Param::text("it's not this")];
        let whole = block(0, &params, true);
        // Without types before and behind an execution that brought them.
        for runs_between in [false, true] {
            for len in 0..whole.len() {
                let answer = client.on(code::STMT_EXECUTE, stmt, &whole[..len], Shape::Results);
                answer.with_context(|| format!("cut to {len}"))?;
                if runs_between || len % 4 == 3 {
                    let found = client.execute(stmt, &params)?;
                    ensure!(rows(&found)?.len() == 1);
                }
            }
        }
        // It has no cursor, before it has run and after it has run without one.
        for _ in 0..2 {
            client.on(code::STMT_FETCH, stmt, &[5, 0, 0, 0], Shape::Single)?;
            client.execute(stmt, &params)?;
        }
        // One value too many, or too few.
        let surplus = [Param::Int(1), Param::text("x"), Param::Int(3)];
        for wrong in [&params[..1], &params[1..], &surplus] {
            client.on(code::STMT_EXECUTE, stmt, &block(0, wrong, true), Shape::Results)?;
            ensure!(rows(&client.execute(stmt, &params)?)?.len() == 1);
        }
        client.try_prepare("SELECT no_such_column FROM t")?;
        client.try_prepare("SELEC")?;
        client.try_prepare("SELECT 1; SELECT 2")?;
        client.try_prepare("")?;
        let error = client.proxied.exchange(code::STMT_PREPARE, b"KILL 1", Shape::Prepare)?;
        ensure!(error[4..7] == [0xFF, 0x0F, 0x05], "{}", error.escape_ascii());
        let found = client.execute(stmt, &params)?;
        ensure!(rows(&found)?.len() == 1);
        wait_pins(&proxy, &[])
    })
}

#[test]
fn a_reset_session_has_no_statements() -> Result<()> {
    on_each("a_reset_session_has_no_statements", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let mut other = Twin::new(server, &proxy, schema)?;
        let theirs = other.prepare("SELECT a FROM t WHERE a = ?")?;
        for way in 0..3 {
            let stmt = client.prepare("SELECT a FROM t WHERE a = ?")?;
            client.execute(stmt, &[Param::Int(1)])?;
            match way {
                0 => {
                    client.direct.single(code::RESET_CONNECTION, b"")?;
                    client.proxied.single(code::RESET_CONNECTION, b"")?;
                }
                1 => {
                    // On a connection that it holds.
                    client.query("BEGIN")?;
                    client.direct.single(code::RESET_CONNECTION, b"")?;
                    client.proxied.single(code::RESET_CONNECTION, b"")?;
                }
                _ => {
                    client.direct.change_user(USER, PASSWORD, schema)?;
                    client.proxied.change_user(USER, PASSWORD, schema)?;
                }
            }
            let body = [&stmt.proxied.to_le_bytes()[..], &block(0, &[Param::Int(1)], true)];
            let gone = client.proxied.single(code::STMT_EXECUTE, &body.concat())?;
            ensure!(gone.error().map(|error| error.code) == Some(1243), "{way}: {gone:?}");
            let found = other.execute(theirs, &[Param::Int(2)])?;
            ensure!(rows(&found)?.len() == 1);
        }
        wait_pins(&proxy, &[])
    })
}

#[test]
fn the_last_prepared_statement_is_run_by_minus_one() -> Result<()> {
    let test = "the_last_prepared_statement_is_run_by_minus_one";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let schema = new_schema(server, T)?;
    let proxy = before(server, 1, 1)?;
    let mut client = Twin::new(server, &proxy, &schema)?;
    let first = client.prepare("SELECT 'first'")?;
    client.prepare("SELECT b FROM t WHERE a = ?")?;
    let last = |client: &mut Twin, params: &[Param]| -> Result<Vec<u8>> {
        let body = [&u32::MAX.to_le_bytes()[..], &block(0, params, true)].concat();
        let direct = client.direct.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        let proxied = client.proxied.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        ensure!(direct == proxied, "{} not {}", proxied.escape_ascii(), direct.escape_ascii());
        Ok(proxied)
    };
    for number in [1, 2] {
        last(&mut client, &[Param::Int(number)])?;
        client.execute(first, &[])?;
    }
    // Its types have to come with each execution, whatever came before.
    let body = [&u32::MAX.to_le_bytes()[..], &block(0, &[Param::Int(1)], false)].concat();
    for wire in [&mut client.direct, &mut client.proxied] {
        let refused = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        ensure!(refused[5..7] == 1835_u16.to_le_bytes(), "{}", refused.escape_ascii());
    }
    last(&mut client, &[Param::Int(1)])?;
    // Both in one write, as drivers send them.
    for wire in [&mut client.direct, &mut client.proxied] {
        wire.send(code::STMT_PREPARE, b"SELECT a FROM t WHERE b = ?")?;
        let body = [&u32::MAX.to_le_bytes()[..], &block(0, &[Param::text("two")], true)];
        wire.send(code::STMT_EXECUTE, &body.concat())?;
        wire.reply_bytes(Shape::Prepare)?;
        let bytes = wire.reply_bytes(Shape::Results)?;
        ensure!(rows(&wire.outcomes(&bytes)?)? == [b"\0\0\x02\0\0\0"]);
    }
    client.try_prepare("SELECT nothing FROM t")?;
    let gone = last(&mut client, &[])?;
    ensure!(gone[5..7] == 1243_u16.to_le_bytes(), "{}", gone.escape_ascii());
    wait_pins(&proxy, &[])
}

#[test]
fn issue_16_minus_one_is_a_number_like_others_on_mysql() -> Result<()> {
    if !is_available(Flavour::MySql, "issue_16_minus_one_is_a_number_like_others_on_mysql") {
        return Ok(());
    }
    let server = shared_server(Flavour::MySql)?;
    let proxy = before(server, 1, 1)?;
    let mut client = Twin::new(server, &proxy, "")?;
    client.prepare("DO 7")?;
    let body = [&u32::MAX.to_le_bytes()[..], &block(0, &[], false)].concat();
    for wire in [&mut client.direct, &mut client.proxied] {
        let refused = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        ensure!(refused[5..7] == 1243_u16.to_le_bytes(), "{}", refused.escape_ascii());
    }
    Ok(())
}

#[test]
fn issue_16_ids_of_statements_go_on_behind_a_reset() -> Result<()> {
    on_each("issue_16_ids_of_statements_go_on_behind_a_reset", T, |server, schema| {
        let proxy = before(server, 1, 1)?;
        let mut wire = Wire::login(&proxy, USER, PASSWORD, schema)?;
        let prepare = |wire: &mut Wire, text: &str| -> Result<[u8; 4]> {
            let reply = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
            Ok(reply.get(5..9).context("no id")?.try_into()?)
        };
        let former = prepare(&mut wire, "INSERT INTO t (b) VALUES ('former')")?;
        ensure!(wire.single(code::RESET_CONNECTION, b"")?.is_ok());
        let new = prepare(&mut wire, "INSERT INTO t (b) VALUES ('new')")?;
        ensure!(former != new, "{former:?} means another statement now");
        wire.change_user(USER, PASSWORD, schema)?;
        let newest = prepare(&mut wire, "INSERT INTO t (b) VALUES ('newest')")?;
        ensure!(newest != former && newest != new, "{newest:?} came before");
        let body = [&former[..], &block(0, &[], false)].concat();
        let gone = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        ensure!(gone.get(5..7) == Some(&1243_u16.to_le_bytes()[..]), "{}", gone.escape_ascii());
        Ok(())
    })
}

#[test]
fn issue_16_minus_one_stands_for_nothing_behind_a_prepare_that_the_proxy_refuses() -> Result<()> {
    let test = "issue_16_minus_one_stands_for_nothing_behind_a_prepare_that_the_proxy_refuses";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let schema = new_schema(server, T)?;
    let refuses = "[[rule]]\nid = 1\nmatch_pattern = \"nobody\"\nerror_msg = \"not here\"\n";
    let proxy = Trunkline::start(&format!("{}{refuses}", one_server(server, 1, 1)))?;
    let mut wire = Wire::login(&proxy, USER, PASSWORD, &schema)?;
    wire.send(code::STMT_PREPARE, b"DELETE FROM t WHERE a = ?")?;
    wire.reply_bytes(Shape::Prepare)?;
    let count = |server: &Server| server.value(&format!("SELECT COUNT(*) FROM {schema}.t"));
    let before = count(server)?;
    wire.send(code::STMT_PREPARE, b"SELECT 'nobody' FROM t WHERE a = ?")?;
    let body = [&u32::MAX.to_le_bytes()[..], &block(0, &[Param::Int(1)], true)].concat();
    wire.send(code::STMT_EXECUTE, &body)?;
    let refused = wire.reply_bytes(Shape::Prepare)?;
    ensure!(refused.get(4) == Some(&0xFF), "{}", refused.escape_ascii());
    let gone = wire.reply_bytes(Shape::Results)?;
    ensure!(gone.get(5..7) == Some(&1243_u16.to_le_bytes()[..]), "{}", gone.escape_ascii());
    ensure!(count(server)? == before, "the statement before was run");
    Ok(())
}

#[test]
fn what_a_prepared_statement_leaves_behind_pins_as_its_text_would() -> Result<()> {
    let test = "what_a_prepared_statement_leaves_behind_pins_as_its_text_would";
    on_each(test, T, |server, schema| {
        let proxy = before(server, 1, 2)?;
        let mut client = Twin::new(server, &proxy, schema)?;
        let mut other = Twin::new(server, &proxy, schema)?;
        let theirs = other.prepare("SELECT COUNT(*) FROM t")?;
        let create = client.prepare("CREATE TEMPORARY TABLE mine (a INT)")?;
        let set = client.prepare("SET @mine = ?")?;
        client.execute(create, &[])?;
        wait_pins(&proxy, &["temporary_table"])?;
        let count = client.prepare("SELECT COUNT(*) FROM mine")?;
        other.execute(theirs, &[])?;
        client.execute(count, &[])?;
        client.query("DROP TEMPORARY TABLE mine")?;
        wait_pins(&proxy, &[])?;
        client.execute(count, &[])?;
        client.query("SELECT 1")?;
        client.execute(set, &[Param::Int(5)])?;
        let read = client.prepare("SELECT @mine")?;
        other.execute(theirs, &[])?;
        client.execute(read, &[])?;
        client.query("BEGIN")?;
        let insert = client.prepare("INSERT INTO t VALUES (?, 'new')")?;
        let number = Param::Int(50);
        let body = [&insert.proxied.to_le_bytes()[..], &block(0, &[number], true)].concat();
        client.proxied.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        let seen = |proxy: &Trunkline| -> Result<String> {
            text(&mut crate::stage::client(proxy, schema)?, "SELECT COUNT(*) FROM t")
        };
        ensure!(seen(&proxy)? == "3", "seen before its end");
        client.query("ROLLBACK")?;
        ensure!(seen(&proxy)? == "3");
        drop(client);
        wait_until("nothing is pinned", SOON, || Ok(wait_pins(&proxy, &[]).ok()))
    })
}

/// Servers raise the flag of a cursor when a procedure has had one: rows follow all the same.
#[test]
fn a_procedure_may_have_cursors_of_its_own() -> Result<()> {
    let test = "a_procedure_may_have_cursors_of_its_own";
    let body = "DECLARE c CURSOR FOR SELECT 'x'; OPEN c; CLOSE c; SELECT 7 AS a; SELECT 8 AS b;";
    for flavour in FLAVOURS.into_iter().filter(|flavour| is_available(*flavour, test)) {
        let server = shared_server(flavour)?;
        let schema = new_schema(server, &format!("CREATE PROCEDURE p() BEGIN {body} END"))?;
        let proxy = before(server, 1, 2)?;
        let mut wire = Wire::login_with(&proxy, login(USER, PASSWORD, &schema, PLAIN))?;
        for _ in 0..2 {
            wire.send(code::STMT_PREPARE, b"CALL p()")?;
            let (_, prepared) = wire.packet()?;
            let id = prepared.get(1..5).context("not prepared")?;
            wire.send(code::STMT_EXECUTE, &[id, &block(0, &[], false)].concat())?;
            // Twice a count, a definition, its end, a row and the end; then OK.
            let mut packets = Vec::new();
            for _ in 0..11 {
                packets.push(wire.packet()?.1);
            }
            for (place, value) in [(3, 7), (8, 8)] {
                ensure!(packets[place].starts_with(&[0, 0, value]), "{flavour:?}: {packets:?}");
            }
            ensure!(packets[10].first() == Some(&0), "{flavour:?}: {packets:?}");
        }
        ensure!(wire.value("SELECT 'in step'")?.as_deref() == Some("in step"));
    }
    Ok(())
}
