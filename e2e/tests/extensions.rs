//! Extensions of the protocol that a client and a server may agree on: what a client gets of them
//! through the proxy is what the server itself says, whoever shares its connection.

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::{put_lenenc_bytes, put_lenenc_int};
use trunkline_testkit::{Flavour, Options, Server};

use crate::prepared::twin::{Param, Stmt, Twin, block};
use crate::stage::{
    PASSWORD, USER, before, is_available, new_schema, shared_server, start, wait_pins,
};
use crate::wire::{Endpoint, Outcome, PLAIN, Shape, Wire, code, is_progress, login, payloads};

const MODERN_EOF: Capabilities = PLAIN.union(Capabilities::DEPRECATE_EOF);
const EXTENDED: Capabilities = Capabilities::EXTENDED_METADATA;
const CACHED: Capabilities = Capabilities::CACHE_METADATA;
const BULK: Capabilities = Capabilities::STMT_BULK_OPERATIONS;
const ATTRIBUTES: Capabilities = Capabilities::QUERY_ATTRIBUTES;
const OPTIONAL: Capabilities = Capabilities::OPTIONAL_RESULTSET_METADATA;

const T: &str = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), j JSON) ENGINE = InnoDB;
                 INSERT INTO t VALUES (1, 'one', '{}'), (2, 'two', '[]');
                 CREATE PROCEDURE p() BEGIN SELECT a FROM t; SELECT b, j FROM t; END";

pub fn wire(endpoint: impl Into<Endpoint>, schema: &str, wanted: Capabilities) -> Result<Wire> {
    Wire::login_with(endpoint, login(USER, PASSWORD, schema, wanted))
}

/// The first packet of a prepared statement's reply has the statement's id.
fn prepare(wire: &mut Wire, text: &str) -> Result<u32> {
    let reply = wire.exchange(code::STMT_PREPARE, text.as_bytes(), Shape::Prepare)?;
    let id = reply.get(5..9).with_context(|| format!("{text}: {}", reply.escape_ascii()))?;
    Ok(u32::from_le_bytes(id.try_into()?))
}

fn execute(wire: &mut Wire, id: u32, rest: &[u8]) -> Result<Vec<u8>> {
    wire.exchange(code::STMT_EXECUTE, &[&id.to_le_bytes()[..], rest].concat(), Shape::Results)
}

/// Everything that gives definitions of columns, the same directly and through the proxy.
fn definitions_of_all_kinds(twin: &mut Twin) -> Result<()> {
    twin.query("SELECT 1 AS a, JSON_EXTRACT('{\"a\":1}', '$.a') AS j, POINT(1, 1) AS g")?;
    twin.query("SELECT a, b, j FROM t ORDER BY a; SELECT COUNT(*) FROM t; DO 1")?;
    twin.query("SELECT nothing FROM t")?;
    for body in [&b"t\0%"[..], b"t\0b", b"t\0none"] {
        twin.both(code::FIELD_LIST, [body, body], Shape::UntilEof, "field list")?;
    }
    let read = twin.prepare("SELECT a, j FROM t WHERE a >= ? ORDER BY a")?;
    for number in 0..3 {
        twin.execute(read, &[Param::Int(number)])?;
    }
    twin.again(read, &[Param::Int(1)])?;
    let plus = twin.prepare("SELECT ? + 1 AS b")?;
    twin.execute(plus, &[Param::Int(1)])?;
    twin.again(plus, &[Param::Int(2)])?;
    let none = twin.prepare("SELECT COUNT(*), 'x' AS x FROM t")?;
    let write = twin.prepare("UPDATE t SET b = b WHERE a = ?")?;
    twin.execute(write, &[Param::Int(9)])?;
    for _ in 0..2 {
        twin.execute(none, &[])?;
    }
    twin.execute_cursor(read, &[Param::Int(1)])?;
    twin.fetch(read, 1)?;
    twin.fetch(read, 5)?;
    twin.execute(none, &[])?;
    twin.try_prepare("SELECT nothing FROM t")?;
    twin.query("SELECT CAST('x' AS UNSIGNED) AS n")?;
    twin.query("SHOW WARNINGS")?;
    Ok(())
}

/// The columns that a procedure answers with. The procedure holds the session on its connection.
fn definitions_of_a_procedure(twin: &mut Twin) -> Result<()> {
    twin.query("CALL p()")?;
    let call = twin.prepare("CALL p()")?;
    let none = twin.prepare("SELECT COUNT(*), 'x' AS x FROM t")?;
    for _ in 0..3 {
        twin.execute(none, &[])?;
        twin.execute(call, &[])?;
    }
    Ok(())
}

#[test]
fn definitions_of_columns_have_the_form_that_was_agreed_on() -> Result<()> {
    let test = "definitions_of_columns_have_the_form_that_was_agreed_on";
    let of_mariadb = [EXTENDED, CACHED, EXTENDED | CACHED, Capabilities::PROGRESS | BULK];
    for (flavour, sets) in
        [(Flavour::MariaDb, &of_mariadb[..]), (Flavour::MySql, &[OPTIONAL, ATTRIBUTES | OPTIONAL])]
    {
        if !is_available(flavour, test) {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(server, T)?;
        for eof in [PLAIN, MODERN_EOF] {
            // One connection, so that the clients have to share it or take turns.
            let proxy = before(server, 1, 1)?;
            let mut plain = wire(&proxy, &schema, eof)?;
            for set in sets {
                let attributes = set.contains(ATTRIBUTES);
                let mut twin = Twin::with(server, &proxy, &schema, eof | *set)?;
                let agreed = twin.direct.capabilities;
                ensure!(agreed == twin.proxied.capabilities, "{agreed:?}");
                ensure!(agreed.contains(*set), "{agreed:?}");
                if !attributes {
                    definitions_of_all_kinds(&mut twin).with_context(|| format!("{agreed:?}"))?;
                }
                plain.one("SELECT 1, 2")?;
                wait_pins(&proxy, &[])?;
                if !attributes {
                    definitions_of_a_procedure(&mut twin).with_context(|| format!("{agreed:?}"))?;
                }
            }
        }
    }
    Ok(())
}

/// Whether a reply to an execution has the definitions of its columns.
fn has_definitions(reply: &[u8]) -> Result<bool> {
    match payloads(reply).first().map(Vec::as_slice) {
        Some([_, flag @ (0 | 1)]) => Ok(*flag == 1),
        other => anyhow::bail!("no column count: {other:02x?}"),
    }
}

#[test]
fn definitions_are_left_out_when_this_client_has_them_whoever_ran_the_statement() -> Result<()> {
    let test = "definitions_are_left_out_when_this_client_has_them";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let schema = new_schema(server, T)?;
    let proxy = before(server, 1, 1)?;
    for eof in [PLAIN, MODERN_EOF] {
        let mut clients = Vec::new();
        for wanted in [eof | CACHED, MODERN_EOF | CACHED | EXTENDED, eof | CACHED, MODERN_EOF] {
            let mut client = wire(&proxy, &schema, wanted)?;
            let id = prepare(&mut client, "SELECT * FROM t WHERE a = 1")?;
            clients.push((client, id));
        }
        let body = block(0, &[], false);
        let mut each = |expected: [bool; 3]| -> Result<()> {
            let mut found = Vec::new();
            for (client, id) in &mut clients {
                let reply = execute(client, *id, &body)?;
                if client.capabilities.contains(CACHED) {
                    found.push(has_definitions(&reply)?);
                }
                ensure!(client.outcomes(&reply)?.len() == 1);
            }
            ensure!(found == expected, "{found:?}, not {expected:?}");
            Ok(())
        };
        each([false; 3])?;
        each([false; 3])?;
        // Each client has to be told once, though the server has told somebody before.
        server.sql(&format!("ALTER TABLE {schema}.t MODIFY b VARCHAR(21)"))?;
        each([true; 3])?;
        each([false; 3])?;
        server.sql(&format!("ALTER TABLE {schema}.t MODIFY b VARCHAR(20)"))?;
        each([true; 3])?;
    }
    wait_pins(&proxy, &[])
}

#[test]
fn many_rows_of_parameters_are_run_at_once() -> Result<()> {
    let test = "many_rows_of_parameters_are_run_at_once";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let tables = "CREATE TABLE d (a INT AUTO_INCREMENT PRIMARY KEY, b LONGTEXT DEFAULT 'def');
                  CREATE TABLE p LIKE d";
    let schema = new_schema(server, tables)?;
    let proxy = before(server, 1, 2)?;
    let mut twin = Twin::with(server, &proxy, &schema, MODERN_EOF | BULK)?;
    // The two write to tables of their own.
    let stmt = twin.prepare("INSERT INTO d (b) VALUES (?)")?;
    let own = prepare(&mut twin.proxied, "INSERT INTO p (b) VALUES (?)")?;
    let stmt = Stmt { proxied: own, ..stmt };
    let value = |text: &[u8]| {
        let mut row = vec![0];
        put_lenenc_bytes(&mut row, text);
        row
    };
    let (null, default) = ([1_u8], [2_u8]);
    let types = [&0x80_u16.to_le_bytes()[..], &[0xFD, 0]].concat();
    let rows = [&value(b"x")[..], &null, &default, &value(b"y")].concat();
    for body in [[&types[..], &rows].concat(), [&[0, 0][..], &rows].concat()] {
        twin.on(code::STMT_BULK_EXECUTE, stmt, &body, Shape::Results)?;
        // Somebody holds that connection: the next one is prepared, and typed, elsewhere.
        let mut other = crate::stage::client(&proxy, &schema)?;
        other.sql("BEGIN")?;
        twin.on(code::STMT_BULK_EXECUTE, stmt, &[&[0, 0][..], &rows].concat(), Shape::Results)?;
        twin.query("SELECT LAST_INSERT_ID(), ROW_COUNT()")?;
    }
    // Beyond a packet, cut short, with flags that the server has not, without rows, and a read.
    let long = [&types[..], &value(&vec![b'l'; 9 << 20]), &value(&vec![b'm'; 8 << 20])].concat();
    twin.on(code::STMT_BULK_EXECUTE, stmt, &long, Shape::Results)?;
    for wrong in [&types[..], &types[..3], &[0xC0, 0, 0xFD, 0, 1], &[0, 0], &[0]] {
        twin.on(code::STMT_BULK_EXECUTE, stmt, wrong, Shape::Results)?;
    }
    let read = twin.prepare("SELECT ?")?;
    twin.on(code::STMT_BULK_EXECUTE, read, &[&types[..], &rows].concat(), Shape::Results)?;
    twin.query("SELECT 1")?;
    let left = |table: &str| {
        server.sql(&format!("SELECT a, LENGTH(b), LEFT(b, 3) FROM {schema}.{table} ORDER BY a"))
    };
    ensure!(left("d")? == left("p")?, "{:?} {:?}", left("d")?, left("p")?);

    let mut without = wire(&proxy, &schema, MODERN_EOF)?;
    let id = prepare(&mut without, "INSERT INTO p (b) VALUES (?)")?;
    let body = [&id.to_le_bytes()[..], &types, &rows].concat();
    let refused = without.single(code::STMT_BULK_EXECUTE, &body)?;
    ensure!(refused.error().map(|error| error.code) == Some(1295), "{refused:?}");
    wait_pins(&proxy, &[])
}

#[test]
fn progress_is_told_to_those_who_asked_for_it() -> Result<()> {
    let test = "progress_is_told_to_those_who_asked_for_it";
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MariaDb)?;
    let tables = "CREATE TABLE a (n INT); INSERT INTO a SELECT seq FROM seq_1_to_16;
                  CREATE TABLE b SELECT * FROM a";
    let schema = new_schema(server, tables)?;
    let proxy = before(server, 1, 2)?;
    let alter = |table: &str, wanted| -> Result<Vec<Vec<u8>>> {
        let mut client = wire(&proxy, &schema, wanted)?;
        client.one("SET progress_report_time = 1")?;
        let text = format!(
            "ALTER TABLE {table} ALGORITHM = COPY, \
             ADD c VARCHAR(40) DEFAULT (MD5(REPEAT('x', 15000000 + n)))"
        );
        let reply = client.exchange(code::QUERY, text.as_bytes(), Shape::Results)?;
        client.one("SELECT 1")?;
        Ok(payloads(&reply))
    };
    for eof in [PLAIN, MODERN_EOF] {
        let (told, silent) = std::thread::scope(|scope| {
            let told = scope.spawn(|| alter("a", eof | Capabilities::PROGRESS));
            (told.join(), alter("b", eof))
        });
        let told = told.map_err(|_| anyhow::anyhow!("a client panicked"))??;
        let (last, reports) = told.split_last().context("no reply")?;
        ensure!(!reports.is_empty() && reports.iter().all(|one| is_progress(one)), "{told:?}");
        ensure!(last.first() == Some(&0), "{told:?}");
        let silent = silent?;
        ensure!(silent.len() == 1 && silent[0].first() == Some(&0), "{silent:?}");
        server.sql(&format!("ALTER TABLE {schema}.a DROP c; ALTER TABLE {schema}.b DROP c"))?;
    }
    Ok(())
}

/// A MySQL server of one's own that gives statements their attributes.
fn server_with_attributes() -> Result<Server> {
    let server = start(Flavour::MySql, Options::default())?;
    server.sql("INSTALL COMPONENT 'file://component_query_attributes'")?;
    Ok(server)
}

/// Attributes, all texts, before a text.
pub fn with_attributes(attributes: &[(&str, &str)], text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    put_lenenc_int(&mut body, attributes.len() as u64);
    body.push(1);
    if !attributes.is_empty() {
        body.extend(vec![0; attributes.len().div_ceil(8)]);
        body.push(1);
        for (name, _) in attributes {
            body.extend_from_slice(&[0xFD, 0]);
            put_lenenc_bytes(&mut body, name.as_bytes());
        }
        for (_, value) in attributes {
            put_lenenc_bytes(&mut body, value.as_bytes());
        }
    }
    body.extend_from_slice(text.as_bytes());
    body
}

const READ: &str = "SELECT mysql_query_attribute_string('tr') AS tr";

#[test]
fn query_attributes_come_to_the_server_with_their_statement() -> Result<()> {
    let test = "query_attributes_come_to_the_server_with_their_statement";
    if !is_available(Flavour::MySql, test) {
        return Ok(());
    }
    let server = server_with_attributes()?;
    let schema = new_schema(&server, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20))")?;
    let proxy = before(&server, 1, 4)?;
    let mut plain = wire(&proxy, &schema, MODERN_EOF)?;
    for wanted in [PLAIN | ATTRIBUTES, MODERN_EOF | ATTRIBUTES | OPTIONAL] {
        let mut twin = Twin::with(&server, &proxy, &schema, wanted)?;
        ensure!(twin.proxied.capabilities == twin.direct.capabilities);
        for body in [
            with_attributes(&[], READ),
            with_attributes(&[("tr", "abc")], READ),
            with_attributes(&[("a", ""), ("tr", "\u{e9}")], READ),
            with_attributes(&[("tr", "x")], "USE mysql"),
            with_attributes(&[("tr", "x")], "SELECT DATABASE(), 1"),
            with_attributes(&[("tr", "x")], "SET @a = mysql_query_attribute_string('tr')"),
            with_attributes(&[], "SELECT @a"),
            with_attributes(&[("tr", "x")], ""),
            b"\0\0SELECT 1".to_vec(),
            b"SELECT 1".to_vec(),
            b"\x01\x01\0\0SELECT 1".to_vec(),
            Vec::new(),
        ] {
            twin.both(code::QUERY, [&body, &body], Shape::Results, &format!("{body:02x?}"))?;
        }
        for len in [100_000, 17_000_000] {
            let text = format!("{READ}, LENGTH('{}'), CRC32('{0}')", "1234567".repeat(len / 7));
            for attributes in [&[][..], &[("tr", "x")]] {
                let body = with_attributes(attributes, &text);
                twin.both(code::QUERY, [&body, &body], Shape::Results, "a long text")?;
            }
        }
        let mine = plain.one(READ)?;
        ensure!(mine.text_rows() == [[None]], "{mine:?}");
        executions_with_attributes(&mut twin).with_context(|| format!("{wanted:?}"))?;
        // Those of another client are not this one's.
        let id = prepare(&mut plain, "SELECT ?, mysql_query_attribute_string('tr')")?;
        for with_types in [true, false] {
            let reply = execute(&mut plain, id, &block(0, &[Param::Int(5)], with_types))?;
            let outcomes = plain.outcomes(&reply)?;
            let [Outcome::Rows { rows, .. }] = &outcomes[..] else { anyhow::bail!("{outcomes:?}") };
            ensure!(rows == &[b"\0\x08\x05\0\0\0\0\0\0\0"], "{rows:02x?}");
        }
    }
    Ok(())
}

/// Executions in the form of clients with attributes.
fn executions_with_attributes(twin: &mut Twin) -> Result<()> {
    let long = 5_i64.to_le_bytes();
    let (plain, counted) = (b"\0\x01\0\0\0", b"\x08\x01\0\0\0");
    let stmt = twin.prepare("SELECT ?, mysql_query_attribute_string('tr')")?;
    for rest in [
        [&plain[..], b"\x01\0\x01\x08\0\0", &long].concat(),
        [&counted[..], b"\x01\0\x01\x08\0\0", &long].concat(),
        [&counted[..], b"\x02\0\x01\x08\0\0\xFD\0\x02tr", &long, b"\x03xyz"].concat(),
        [&counted[..], b"\x01\0\0", &long].concat(),
        [&counted[..], b"\x02\x02\x01\x08\0\0\xFD\0\x02tr", &long].concat(),
        [&counted[..], b"\x02\x01\x01\x08\0\0\xFD\0\x02tr\x01z"].concat(),
        [&counted[..], b"\x01\0\x01\x08\0\x02tr", &long].concat(),
        // Without a number, and with one that is too small.
        [&plain[..], b"\0\x01\x08\0", &long].concat(),
        [&counted[..], b"\0"].concat(),
        [&plain[..], b"\x01\0\x01\x08\0\0", &long].concat(),
    ] {
        twin.on(code::STMT_EXECUTE, stmt, &rest, Shape::Results)?;
    }
    let none = twin.prepare(READ)?;
    for rest in [
        plain.to_vec(),
        [&counted[..], b"\0"].concat(),
        [&counted[..], b"\x01\0\x01\xFD\0\x02tr\x03xyz"].concat(),
        plain.to_vec(),
        counted.to_vec(),
    ] {
        twin.on(code::STMT_EXECUTE, none, &rest, Shape::Results)?;
    }
    let sum = twin.prepare("SELECT CRC32(?), mysql_query_attribute_string('tr')")?;
    for len in [100_000, 17_000_000] {
        let mut value = Vec::new();
        put_lenenc_bytes(&mut value, "1234567".repeat(len / 7).as_bytes());
        for rest in [
            [&counted[..], b"\x01\0\x01\xFD\0\0", &value].concat(),
            [&counted[..], b"\x01\0\0", &value].concat(),
            [&counted[..], b"\x02\0\x01\xFD\0\0\xFD\0\x02tr", &value, b"\x03xyz"].concat(),
            // Fewer values than parameters, and a value that is cut short.
            [&counted[..], b"\0", &value].concat(),
        ] {
            twin.on(code::STMT_EXECUTE, sum, &rest, Shape::Results)?;
        }
    }
    let data = twin.prepare("SELECT LENGTH(?), mysql_query_attribute_string('tr')")?;
    twin.long(data, 0, b"hello")?;
    let rest = [&counted[..], b"\x02\0\x01\xFC\0\0\xFD\0\x02tr\x03xyz"].concat();
    twin.on(code::STMT_EXECUTE, data, &rest, Shape::Results)?;
    let cursor = [b"\x09\x01\0\0\0\x01\0\x01\x08\0\0", &long[..]].concat();
    twin.on(code::STMT_EXECUTE, stmt, &cursor, Shape::Results)?;
    twin.fetch(stmt, 5)?;
    Ok(())
}

#[test]
fn definitions_are_optional_where_the_session_says_so() -> Result<()> {
    let test = "definitions_are_optional_where_the_session_says_so";
    if !is_available(Flavour::MySql, test) {
        return Ok(());
    }
    let server = shared_server(Flavour::MySql)?;
    let schema = new_schema(server, T)?;
    let proxy = before(server, 1, 1)?;
    for eof in [PLAIN, MODERN_EOF] {
        let mut twin = Twin::with(server, &proxy, &schema, eof | OPTIONAL)?;
        let mut full = Twin::with(server, &proxy, &schema, eof | OPTIONAL)?;
        let mut without = Twin::with(server, &proxy, &schema, eof)?;
        twin.query("SET resultset_metadata = NONE")?;
        for _ in 0..2 {
            definitions_of_all_kinds(&mut twin).context("without definitions")?;
            definitions_of_all_kinds(&mut full).context("with definitions")?;
            without.query("SET resultset_metadata = NONE")?;
            definitions_of_all_kinds(&mut without).context("without the flag")?;
        }
        twin.both(code::RESET_CONNECTION, [b"", b""], Shape::Single, "reset")?;
        definitions_of_all_kinds(&mut twin).context("after a reset")?;
        twin.query("SET resultset_metadata = NONE")?;
        definitions_of_a_procedure(&mut twin)?;
    }
    Ok(())
}
