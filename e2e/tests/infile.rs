//! `LOAD DATA LOCAL INFILE`: the client's file, and no other, goes to the server that asked.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header};
use trunkline_testkit::{
    Flavour, Options, Server, TempFolder, Trunkline, find_program, wait_until,
};

use crate::stage::{
    FLAVOURS, PASSWORD, SOON, USER, is_available, new_schema, one_server, start, wait_pins,
};
use crate::wire::{Endpoint, MODERN, Outcome, PLAIN, Shape, Wire, code, login};

fn start_loading(flavour: Flavour) -> Result<Server> {
    let args = vec!["--local-infile=1".to_owned()];
    start(flavour, Options { args, ..Options::default() })
}

/// The server of this flavour that these tests share; MySQL does not allow local files by default.
fn shared_loading(flavour: Flavour) -> Result<&'static Server> {
    static MARIADB: OnceLock<Result<Server, String>> = OnceLock::new();
    static MYSQL: OnceLock<Result<Server, String>> = OnceLock::new();
    let place = match flavour {
        Flavour::MariaDb => &MARIADB,
        Flavour::MySql => &MYSQL,
    };
    let begin = || start_loading(flavour).map_err(|error| format!("{error:#}"));
    place.get_or_init(begin).as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn on_both(test: &str, check: impl Fn(&Server, &Trunkline, &str) -> Result<()>) -> Result<()> {
    for flavour in FLAVOURS {
        if is_available(flavour, test) {
            on(shared_loading(flavour)?, &check).with_context(|| format!("{flavour:?}"))?;
        }
    }
    Ok(())
}

fn on(server: &Server, check: impl Fn(&Server, &Trunkline, &str) -> Result<()>) -> Result<()> {
    let schema = new_schema(server, "CREATE TABLE t (a INT, b VARCHAR(2000)) ENGINE=InnoDB")?;
    let proxy = Trunkline::start(&one_server(server, 1, 2))?;
    check(server, &proxy, &schema).with_context(|| format!("the proxy's log:\n{}", proxy.log()))
}

fn connect(to: impl Into<Endpoint>, schema: &str, capabilities: Capabilities) -> Result<Wire> {
    let capabilities = capabilities.union(Capabilities::LOCAL_FILES);
    Wire::login_with(to, login(USER, PASSWORD, schema, capabilities))
}

const LOAD: &str = "LOAD DATA LOCAL INFILE '/no/such/file of mine' INTO TABLE t";

/// Sends a statement that asks for a file; the number that the file's first packet has.
fn ask(wire: &mut Wire, statement: &str) -> Result<u8> {
    wire.send(code::QUERY, statement.as_bytes())?;
    next_asked(wire)
}

/// The number that the first packet of the next file has.
fn next_asked(wire: &mut Wire) -> Result<u8> {
    loop {
        let (header, packet) = wire.packet()?;
        if packet.first() == Some(&0xFB) {
            ensure!(packet.get(1..) == Some(b"/no/such/file of mine"), "{packet:?}");
            return Ok(header.seq.wrapping_add(1));
        }
        ensure!(packet.first() != Some(&0xFF), "{}", String::from_utf8_lossy(&packet));
    }
}

/// A file in packets of this length, without the empty one.
fn packets(mut file: &[u8], len: usize, mut seq: u8) -> (Vec<u8>, u8) {
    let mut bytes = Vec::new();
    while !file.is_empty() {
        let (part, rest) = file.split_at(len.min(file.len()));
        bytes.extend(Header { payload_len: part.len(), seq }.bytes());
        bytes.extend(part);
        seq = seq.wrapping_add(1);
        file = rest;
    }
    (bytes, seq)
}

/// Sends a whole file and gives the answer.
fn load(wire: &mut Wire, statement: &str, file: &[u8], len: usize) -> Result<Vec<Outcome>> {
    let seq = ask(wire, statement)?;
    let (mut bytes, seq) = packets(file, len, seq);
    bytes.extend(Header { payload_len: 0, seq }.bytes());
    wire.send_raw(&bytes)?;
    let answer = wire.reply_bytes(Shape::Results)?;
    wire.outcomes(&answer)
}

#[test]
fn who_sends_no_files_is_refused_for_prepared_statements_too() -> Result<()> {
    let name = "who_sends_no_files_is_refused_for_prepared_statements_too";
    on_both(name, |server, proxy, schema| {
        let answer = |to: Endpoint| -> Result<Option<u16>> {
            let mut wire = Wire::login_with(to, login(USER, PASSWORD, schema, MODERN))?;
            let reply = wire.exchange(code::STMT_PREPARE, LOAD.as_bytes(), Shape::Prepare)?;
            let id = reply.get(5..9).context("no id")?;
            let body = [id, &[0, 1, 0, 0, 0]].concat();
            let outcome = wire.single(code::STMT_EXECUTE, &body)?;
            ensure!(wire.value("SELECT 1")?.as_deref() == Some("1"));
            Ok(outcome.error().map(|error| error.code))
        };
        // MySQL does not prepare such a statement.
        if server.flavour() == Flavour::MariaDb {
            let (direct, proxied) = (answer(server.into())?, answer(proxy.into())?);
            ensure!(direct == Some(4166) && proxied == direct, "{direct:?}, {proxied:?}");
        }
        Ok(())
    })
}

#[test]
fn what_a_file_generates_is_the_last_insert_id() -> Result<()> {
    on_both("what_a_file_generates_is_the_last_insert_id", |server, proxy, schema| {
        server.sql(&format!(
            "CREATE TABLE {schema}.ids (id INT AUTO_INCREMENT PRIMARY KEY, b TEXT); \
             CREATE TABLE {schema}.other (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 100"
        ))?;
        let mut one = connect(proxy, schema, MODERN)?;
        let mut two = connect(proxy, schema, MODERN)?;
        one.one("INSERT INTO other VALUES (NULL)")?;
        let statement = LOAD.replace("TABLE t", "TABLE ids (b)");
        load(&mut one, &statement, b"a\nb\n", 3)?;
        two.one("INSERT INTO other VALUES (NULL), (NULL)")?;
        let found = one.value("SELECT LAST_INSERT_ID()")?;
        ensure!(found.as_deref() == Some("1"), "{found:?}");
        Ok(())
    })
}

#[test]
fn a_local_file_is_loaded_as_directly() -> Result<()> {
    on_both("a_local_file_is_loaded_as_directly", |server, proxy, schema| {
        for capabilities in [MODERN, PLAIN] {
            let mut direct = connect(server, schema, capabilities)?;
            let mut client = connect(proxy, schema, capabilities)?;
            let wide = "x".repeat(1_500);
            let big: String = (0..9_000).map(|row| format!("{row}\t{wide}\n")).collect();
            let files = [("1\ta\n2\tb\nx\tc\n", 5), ("", 1), ("7\tz", 1_000), (&big, 300_000)];
            for (file, len) in files {
                let expected = load(&mut direct, LOAD, file.as_bytes(), len)?;
                let found = load(&mut client, LOAD, file.as_bytes(), len)?;
                ensure!(expected == found, "{found:?}, directly {expected:?}");
                ensure!(client.value("SELECT 5")?.as_deref() == Some("5"));
            }
            let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
            ensure!(rows.as_deref() == Some("18008"), "{rows:?}");
            server.sql(&format!("TRUNCATE {schema}.t"))?;
            // Results before and behind it, whose packets the proxy may have to renumber.
            let several = format!("SELECT 1, 2; {LOAD}; SELECT COUNT(*) FROM t");
            for wire in [&mut direct, &mut client] {
                let last = load(wire, &several, b"1\ta\n2\tb\n", 3)?;
                ensure!(matches!(last.first(), Some(Outcome::Ok { affected: 2, .. })), "{last:?}");
                ensure!(last.len() == 2, "{last:?}");
            }
            server.sql(&format!("TRUNCATE {schema}.t"))?;
        }
        Ok(())
    })
}

/// Runs a text that asks for these files, each in packets of its length. With the end of the last
/// one comes the next command.
fn load_each(wire: &mut Wire, text: &str, files: &[&(&str, usize)]) -> Result<Vec<Outcome>> {
    wire.send(code::QUERY, text.as_bytes())?;
    for (place, (file, len)) in files.iter().enumerate() {
        let seq = next_asked(wire).with_context(|| format!("file {place}"))?;
        let (mut bytes, seq) = packets(file.as_bytes(), *len, seq);
        bytes.extend(Header { payload_len: 0, seq }.bytes());
        if place + 1 == files.len() {
            bytes.extend(b"\x09\0\0\0\x03SELECT 7");
        }
        wire.send_raw(&bytes)?;
    }
    let mut outcomes = Vec::new();
    for _ in 0..2 {
        let answer = wire.reply_bytes(Shape::Results)?;
        outcomes.extend(wire.outcomes(&answer)?);
    }
    Ok(outcomes)
}

/// Each of several files goes to the server that asked, whatever lies between them.
#[test]
fn several_files_in_one_text_are_loaded_as_directly() -> Result<()> {
    on_both("several_files_in_one_text_are_loaded_as_directly", |server, proxy, schema| {
        let big: String = (0..3_000).map(|row| format!("{row}\tx\n")).collect();
        let texts = [
            format!("{LOAD}; {LOAD}"),
            format!("SELECT 1, 2; {LOAD}; {LOAD}; SELECT COUNT(*) FROM t"),
            format!("{LOAD}; SELECT b FROM t LIMIT 3; {LOAD}; DO 1; {LOAD}"),
        ];
        let files = [("1\ta\n2\tb\n", 3), ("", 1), (&big, 40), ("7\tz", 1_000)];
        for capabilities in [MODERN, PLAIN] {
            let mut direct = connect(server, schema, capabilities)?;
            let mut client = connect(proxy, schema, capabilities)?;
            for (text, shift) in texts.iter().flat_map(|text| (0..4).map(move |n| (text, n))) {
                let count = text.matches(LOAD).count();
                let chosen: Vec<_> = files.iter().cycle().skip(shift).take(count).collect();
                let mut answers = Vec::new();
                for (way, wire) in [("directly", &mut direct), ("through", &mut client)] {
                    server.sql(&format!("TRUNCATE {schema}.t"))?;
                    let answer = load_each(wire, text, &chosen)
                        .with_context(|| format!("{way}: {text}, from file {shift} on"))?;
                    let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
                    answers.push((rows, answer));
                }
                ensure!(answers[0] == answers[1], "{text}: {answers:?}");
                ensure!(client.value("SELECT 5")?.as_deref() == Some("5"));
            }
        }
        Ok(())
    })
}

#[test]
fn a_client_that_offers_no_files_is_refused_as_directly() -> Result<()> {
    let test = "a_client_that_offers_no_files_is_refused_as_directly";
    for flavour in FLAVOURS.into_iter().filter(|flavour| is_available(*flavour, test)) {
        on(&start_loading(flavour)?, |server, proxy, schema| {
            let mut direct = Wire::login(server, USER, PASSWORD, schema)?;
            let mut client = Wire::login(proxy, USER, PASSWORD, schema)?;
            let (expected, found) = (direct.fails(LOAD)?, client.fails(LOAD)?);
            ensure!(expected.parts() == found.parts(), "{found:?}, directly {expected:?}");
            ensure!(client.value("SELECT 5")?.as_deref() == Some("5"));
            // A server that does not allow it says so itself.
            server.sql("SET GLOBAL local_infile = 0")?;
            let mut client = connect(proxy, schema, MODERN)?;
            let found = client.fails(LOAD)?;
            ensure!(found.code == expected.code, "{found:?}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Half a file is no file: nothing of it is loaded when its client vanishes.
#[test]
fn a_client_that_vanishes_leaves_nothing_of_its_file() -> Result<()> {
    on_both("a_client_that_vanishes_leaves_nothing_of_its_file", |server, proxy, schema| {
        for cut in [3, 40, 41, 200_000] {
            let mut client = connect(proxy, schema, MODERN)?;
            let seq = ask(&mut client, LOAD)?;
            let file: String = (0..50_000).map(|row| format!("{row}\tx\n")).collect();
            let (bytes, _) = packets(file.as_bytes(), HEADER_LEN + 33, seq);
            client.send_raw(bytes.get(..cut).context("a short file")?)?;
            client.shut_write()?;
            drop(client);
            wait_until("its connection has ended", SOON, || {
                let rows = server.sql("SHOW PROCESSLIST")?;
                let loads = |row: &Vec<Option<String>>| {
                    row.iter().flatten().any(|field| field.contains("LOAD DATA"))
                };
                Ok((!rows.iter().any(loads)).then_some(()))
            })?;
            let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
            ensure!(rows.as_deref() == Some("0"), "{rows:?} rows of a file cut at {cut}");
            let mut next = connect(proxy, schema, MODERN)?;
            ensure!(next.value("SELECT COUNT(*) FROM t")?.as_deref() == Some("0"));
        }
        Ok(())
    })
}

/// A server that waits for a file in vain answers before it has ended. What comes of it later is no
/// command.
#[test]
fn issue_16_what_comes_of_a_file_behind_its_answer_is_no_command() -> Result<()> {
    let test = "issue_16_what_comes_of_a_file_behind_its_answer_is_no_command";
    on_both(test, |server, proxy, schema| {
        let mut client = connect(proxy, schema, MODERN)?;
        client.one("SET net_read_timeout = 1")?;
        let seq = ask(&mut client, LOAD)?;
        let (bytes, _) = packets(b"1\tx\n2\ty\n", 4, seq);
        client.send_raw(&bytes)?;
        // MySQL says why, MariaDB does not.
        let refused = client.packet().map(|(_, packet)| packet.first().copied()).ok().flatten();
        ensure!(matches!(refused, None | Some(0xFF)), "{refused:?}");
        let statement = [&[code::QUERY], &b"INSERT INTO t VALUES (7, 'of the file')"[..]].concat();
        let mut command = Vec::from(Header { payload_len: statement.len(), seq: 0 }.bytes());
        command.extend(statement);
        // It may be closed by now.
        let _ = client.send_raw(&command);
        ensure!(client.packet().is_err(), "the session goes on");
        let rows = server.value(&format!("SELECT COUNT(*) FROM {schema}.t"))?;
        ensure!(rows.as_deref() == Some("0"), "{rows:?} rows");
        Ok(())
    })
}

/// A file that comes faster than the server reads it does not fill the proxy's memory.
#[test]
fn a_big_file_does_not_fill_memory() -> Result<()> {
    on_both("a_big_file_does_not_fill_memory", |_, proxy, schema| {
        let mut client = connect(proxy, schema, MODERN)?;
        let before = proxy.rss_bytes()?;
        let seq = ask(&mut client, LOAD)?;
        let line = format!("1\t{}\n", "y".repeat(1_000));
        let file = line.repeat(60_000);
        let (mut bytes, seq) = packets(file.as_bytes(), 1 << 20, seq);
        bytes.extend(Header { payload_len: 0, seq }.bytes());
        let mut most = 0;
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                client.send_raw(&bytes)?;
                let answer = client.reply_bytes(Shape::Results)?;
                client.outcomes(&answer)
            });
            while !sending.is_finished() {
                most = most.max(proxy.rss_bytes()?);
            }
            let outcome =
                sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            ensure!(
                matches!(outcome.first(), Some(Outcome::Ok { affected: 60_000, .. })),
                "{outcome:?}"
            );
            anyhow::Ok(())
        })?;
        let grown = most.saturating_sub(before);
        ensure!(grown < 24 << 20, "{grown} bytes more");
        Ok(())
    })
}

/// Has the command-line client load a file into `t`; how many rows that gave.
fn load_by_program(
    proxy: &Trunkline,
    schema: &str,
    rows: &str,
    options: &[&str],
) -> Result<String> {
    let program = find_program("mariadb").context("no mariadb client")?;
    let folder = TempFolder::new("infile")?;
    let file = folder.path().join("rows");
    std::fs::write(&file, rows)?;
    let load =
        format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t; SELECT ROW_COUNT()", file.display());
    let output = Command::new(program)
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--batch", "-N"])
        .args(["--skip-ssl", "--local-infile=1"])
        .args(options)
        .arg(format!("--port={}", proxy.port()))
        .arg(format!("--user={USER}"))
        .arg(format!("--password={PASSWORD}"))
        .args([schema, "-e", &load])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors} {}", proxy.log());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn the_command_line_client_loads_its_file() -> Result<()> {
    on_both("the_command_line_client_loads_its_file", |_, proxy, schema| {
        let count = load_by_program(proxy, schema, "1\tone\n2\ttwo\n", &[])?;
        ensure!(count == "2", "{count} rows");
        Ok(())
    })
}

/// Compressed packets are numbered apart from those inside, and each side counts its own.
#[test]
fn a_local_file_is_loaded_compressed_on_either_side() -> Result<()> {
    let wide: String = "what repeats, and what does not: ".repeat(40);
    let many: String = (0..15_000).map(|row| format!("{row}\t{wide}{}\n", row * 7919)).collect();
    let files = [("1\tone\n", "1"), (&many, "15000"), ("", "0")];
    for flavour in FLAVOURS {
        if !is_available(flavour, "a_local_file_is_loaded_compressed_on_either_side") {
            continue;
        }
        let server = shared_loading(flavour)?;
        let schema = new_schema(server, "CREATE TABLE t (a INT, b VARCHAR(2000)) ENGINE=InnoDB")?;
        for of_server in ["", "compression = 1\n"] {
            let config = one_server(server, 1, 2);
            let config =
                config.replacen("hostgroup = 0\n", &format!("hostgroup = 0\n{of_server}"), 1);
            let proxy = Trunkline::start(&config)?;
            for options in [&["--compress"][..], &[]] {
                for (rows, expected) in files {
                    let count = load_by_program(&proxy, &schema, rows, options)
                        .with_context(|| format!("{flavour:?} {of_server} {options:?}"))?;
                    ensure!(count == expected, "{count} rows, not {expected}");
                }
            }
            let rows = server.value(&format!("SELECT COUNT(*), SUM(LENGTH(b)) FROM {schema}.t"))?;
            ensure!(rows.as_deref() == Some("30002"), "{rows:?}");
            server.sql(&format!("TRUNCATE {schema}.t"))?;
        }
    }
    Ok(())
}

/// A lock that a function takes for a column's value is its session's, and a session that has
/// loaded into a plain table is free.
#[test]
fn what_a_load_calls_is_its_sessions_own() -> Result<()> {
    on_both("what_a_load_calls_is_its_sessions_own", |server, proxy, schema| {
        let function =
            format!("CREATE FUNCTION l() RETURNS INT NO SQL RETURN GET_LOCK('{schema}', 0)");
        let mut root = server.root()?;
        root.sql(&format!("USE {schema}"))?;
        root.sql(&function)?;
        let mut loader = connect(proxy, schema, MODERN)?;
        let mut other = connect(proxy, schema, MODERN)?;
        load(&mut loader, LOAD, b"1\ta\n", 100)?;
        wait_pins(proxy, &[])?;
        let calls = format!("{LOAD} (a) SET b = l()");
        load(&mut loader, &calls, b"1\n", 100)?;
        let lock = format!("SELECT GET_LOCK('{schema}', 0)");
        ensure!(other.value(&lock)?.as_deref() == Some("0"), "the other has the lock");
        Ok(())
    })
}
