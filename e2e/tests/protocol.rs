//! Commands and their answers: what a client's bytes become on their way there and back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::packet::status::{AUTOCOMMIT, MORE_RESULTS, PS_OUT_PARAMS};
use trunkline_testkit::{Flavour, Server, Trunkline, wait_until};

use crate::backends::{self, Config, PASSWORD, TIMEOUT, proxy_for};
use crate::wire::{MODERN, Outcome, PLAIN, Shape, Wire, code, login, payloads};

fn on_each(
    test: &str,
    settings: &str,
    check: impl Fn(&Server, &Trunkline, &str) -> Result<()>,
) -> Result<()> {
    for server in backends::each(test)? {
        let name = format!("p_{test:.28}");
        let proxy = proxy_for(server, &name, settings)?;
        check(server, &proxy, &name).with_context(|| {
            let (flavour, log) = (backends::flavour(server), proxy.log());
            format!("with {flavour}; the proxy's log:\n{log}")
        })?;
        assert!(proxy.is_running(), "the proxy ended:\n{}", proxy.log());
    }
    Ok(())
}

fn text(rows: &[&[&str]]) -> Vec<Vec<Option<String>>> {
    rows.iter().map(|row| row.iter().map(|field| Some((*field).to_owned())).collect()).collect()
}

#[test]
fn simple_commands_are_answered() -> Result<()> {
    on_each("simple_commands_are_answered", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, "")?;
        assert!(client.single(code::PING, b"")?.is_ok());
        assert_eq!(client.value("SELECT DATABASE()")?, None);
        assert!(client.single(code::INIT_DB, name.as_bytes())?.is_ok());
        assert_eq!(client.value("SELECT DATABASE()")?.as_deref(), Some(name));
        let unknown = client.single(code::INIT_DB, b"no_such_schema")?;
        let unknown = unknown.error().context("an unknown schema was taken")?.clone();
        assert_eq!((unknown.code, &*unknown.sqlstate), (1049, "42000"));
        assert_eq!(client.value("SELECT DATABASE()")?.as_deref(), Some(name));

        let statistics = client.exchange(code::STATISTICS, b"", Shape::Single)?;
        let statistics = String::from_utf8_lossy(&statistics[4..]).into_owned();
        assert!(statistics.starts_with("Uptime: "), "{statistics}");
        client.send(code::QUIT, b"")?;
        assert!(client.is_closed()?);
        Ok(())
    })
}

#[test]
fn unknown_commands_get_an_error_and_the_connection_stays() -> Result<()> {
    on_each("unknown_commands_stay", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, "")?;
        // COM_SLEEP, COM_TABLE_DUMP, COM_CONNECT_OUT, COM_DELAYED_INSERT and none at all.
        for command in [0x00, 0x13, 0x14, 0x10, 0x63, 0xFF] {
            let answer = client.single(command, b"whatever")?;
            let error = answer.error().with_context(|| format!("command {command} taken"))?;
            assert_eq!(error.parts(), (1047, "08S01", "Unknown command"), "{command:#x}");
        }
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        Ok(())
    })
}

#[test]
fn an_empty_query_is_an_error_as_from_a_server() -> Result<()> {
    on_each("an_empty_query", "", |server, proxy, name| {
        let mut direct = Wire::login_with(server, login(name, PASSWORD, "", PLAIN))?;
        let mut client = Wire::login_with(proxy, login(name, PASSWORD, "", PLAIN))?;
        for statement in ["", ";", "  ", "-- nothing", "/* */"] {
            let expected = direct.exchange(code::QUERY, statement.as_bytes(), Shape::Results)?;
            let got = client.exchange(code::QUERY, statement.as_bytes(), Shape::Results)?;
            assert_eq!(expected, got, "{statement:?}");
        }
        Ok(())
    })
}

#[test]
fn several_statements_give_several_results() -> Result<()> {
    on_each("several_statements", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        client.one("CREATE TABLE t (a INT)")?;
        let results = client.query("SELECT 1; INSERT INTO t VALUES (7), (8); SELECT a FROM t")?;
        assert_eq!(results.len(), 3);
        assert_eq!(results[0].text_rows(), text(&[&["1"]]));
        assert!(matches!(results[1], Outcome::Ok { affected: 2, .. }), "{results:?}");
        assert_eq!(results[2].text_rows(), text(&[&["7"], &["8"]]));
        let flags: Vec<bool> =
            results.iter().map(|result| result.status() & MORE_RESULTS != 0).collect();
        assert_eq!(flags, [true, true, false]);

        let broken = client.query("SELECT 1; SELECT nothing; SELECT 3")?;
        assert_eq!(broken.len(), 2);
        assert_eq!(broken[1].error().map(|error| error.code), Some(1054));
        assert_eq!(client.value("SELECT 9")?.as_deref(), Some("9"));
        Ok(())
    })
}

#[test]
fn multi_statements_are_switched_off_and_on() -> Result<()> {
    on_each("multi_statements_switched", "", |_, proxy, name| {
        for capabilities in [PLAIN, MODERN] {
            let login = login(name, PASSWORD, "", capabilities);
            let mut client = Wire::login_with(proxy, login)?;
            let both = "SELECT 1; SELECT 2";
            assert_eq!(client.query(both)?.len(), 2);
            let off = client.exchange(code::SET_OPTION, &[1, 0], Shape::Single)?;
            assert_eq!(payloads(&off)[0][0], 0xFE);
            assert_eq!(client.fails(both)?.code, 1064);
            client.exchange(code::SET_OPTION, &[0, 0], Shape::Single)?;
            assert_eq!(client.query(both)?.len(), 2);
            let wrong = client.single(code::SET_OPTION, &[9, 0])?;
            assert_eq!(wrong.error().map(|error| error.code), Some(1047));
            // Within a transaction the held connection has to learn it.
            client.one("BEGIN")?;
            client.one("DO 1")?;
            client.exchange(code::SET_OPTION, &[1, 0], Shape::Single)?;
            assert_eq!(client.fails(both)?.code, 1064);
            client.one("ROLLBACK")?;
        }
        let login = login(name, PASSWORD, "", PLAIN.without(Capabilities::MULTI_STATEMENTS));
        let mut client = Wire::login_with(proxy, login)?;
        assert_eq!(client.fails("SELECT 1; SELECT 2")?.code, 1064);
        Ok(())
    })
}

#[test]
fn procedures_give_all_their_results_and_out_values() -> Result<()> {
    on_each("procedures", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        client.one("CREATE PROCEDURE p(IN a INT, OUT b INT) BEGIN SELECT a; SELECT 2, 3; SET b = a * 10; END")?;
        let results = client.query("CALL p(4, @b)")?;
        assert_eq!(results.len(), 3);
        assert_eq!(results[0].text_rows(), text(&[&["4"]]));
        assert_eq!(results[1].text_rows(), text(&[&["2", "3"]]));
        assert!(results[2].is_ok());
        assert_eq!(client.value("SELECT @b")?.as_deref(), Some("40"));

        // By command, OUT values come as a result set of their own.
        let prepared = client.exchange(code::STMT_PREPARE, b"CALL p(?, ?)", Shape::Prepare)?;
        let id = prepared.get(5..9).context("statement id")?;
        let mut body = id.to_vec();
        body.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 8, 0, 8, 0]);
        body.extend_from_slice(&6_i64.to_le_bytes());
        body.extend_from_slice(&0_i64.to_le_bytes());
        let bytes = client.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
        let results = client.outcomes(&bytes)?;
        assert_eq!(results.len(), 4, "{results:?}");
        let Outcome::Rows { rows, status, .. } = &results[2] else { panic!("{results:?}") };
        assert!(status & PS_OUT_PARAMS != 0, "{status:#x}");
        assert_eq!(rows[0], [0, 0, 60, 0, 0, 0]);
        Ok(())
    })
}

#[test]
fn field_list_gives_definitions() -> Result<()> {
    on_each("field_list", "", |server, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        client.one("CREATE TABLE t (one INT DEFAULT 7, two TEXT, other INT)")?;
        let mut direct = Wire::login(server, name, PASSWORD, name)?;
        for body in [&b"t\0"[..], b"t\0o%", b"nowhere\0"] {
            let got = client.exchange(code::FIELD_LIST, body, Shape::UntilEof)?;
            assert_eq!(direct.exchange(code::FIELD_LIST, body, Shape::UntilEof)?, got);
        }
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));
        Ok(())
    })
}

#[test]
fn a_reset_connection_forgets_its_state() -> Result<()> {
    on_each("a_reset_connection", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        client.one("SET @a = 5, sql_mode = '', autocommit = 0")?;
        client.one("CREATE TEMPORARY TABLE tmp (a INT)")?;
        client.one("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        client.one("INSERT INTO t VALUES (1)")?;
        let prepared = client.exchange(code::STMT_PREPARE, b"SELECT 1", Shape::Prepare)?;
        let reset = client.single(code::RESET_CONNECTION, b"")?;
        assert!(reset.is_ok() && reset.status() & AUTOCOMMIT != 0, "{reset:?}");
        let body = [&prepared[5..9], &[0, 1, 0, 0, 0]].concat();
        let gone = client.single(code::STMT_EXECUTE, &body)?;
        assert_eq!(gone.error().map(|error| error.code), Some(1243));
        let seen = client.one("SELECT @a, @@sql_mode = '', @@autocommit, DATABASE()")?;
        let row = seen.text_rows().remove(0);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(row, [None, some("0"), some("1"), some(name)]);
        assert_eq!(client.fails("SELECT * FROM tmp")?.code, 1146);
        assert_eq!(client.value("SELECT COUNT(*) FROM t")?.as_deref(), Some("0"), "rolled back");
        Ok(())
    })
}

#[test]
fn a_changed_user_is_another_session() -> Result<()> {
    for server in backends::each("a_changed_user")? {
        backends::account(server, "changer_one")?;
        backends::account(server, "changer_two")?;
        let config = Config::new("", server).user("changer_one").user("changer_two");
        let proxy = config.start()?;
        let mut client = Wire::login(&proxy, "changer_one", PASSWORD, "changer_one")?;
        client.one("SET @a = 5")?;
        client.one("CREATE TABLE t (a INT) ENGINE = InnoDB")?;
        client.one("BEGIN")?;
        client.one("INSERT INTO t VALUES (1)")?;
        let lock = format!("changer_{}", server.port());
        client.one(&format!("SELECT GET_LOCK('{lock}', 0)"))?;
        client.change_user("changer_two", PASSWORD, "")?;
        let is_free = server.value(&format!("SELECT IS_FREE_LOCK('{lock}')"))?;
        assert_eq!(is_free.as_deref(), Some("1"), "before the change is answered");
        let row = client.one("SELECT @a, DATABASE(), CURRENT_USER()")?.text_rows().remove(0);
        assert_eq!(row[..2], [None, None]);
        assert_eq!(row[2].as_deref(), Some("changer_two@%"));
        assert_eq!(client.value("SELECT COUNT(*) FROM changer_one.t")?.as_deref(), Some("0"));
        client.change_user("changer_one", PASSWORD, "changer_one")?;
        assert_eq!(client.value("SELECT DATABASE()")?.as_deref(), Some("changer_one"));

        refused_changes(&proxy, &mut client, server)?;
    }
    Ok(())
}

/// MySQL ends the connection after a change of user that it refused; MariaDB keeps the user and
/// his schema, and nothing else, and after three of them knows the command no more.
fn refused_changes(proxy: &Trunkline, client: &mut Wire, server: &Server) -> Result<()> {
    let attempts = [
        ("changer_two", "wrong", "", &[1045][..]),
        ("nobody", PASSWORD, "", &[1045]),
        ("changer_two", PASSWORD, "no_such_schema", &[1044, 1049]),
        ("changer_two", PASSWORD, "", &[1047]),
        ("changer_one", PASSWORD, "changer_one", &[1047]),
    ];
    for (number, (user, password, schema, codes)) in attempts.into_iter().enumerate() {
        client.one("SET @a = 5")?;
        client.one("BEGIN")?;
        client.one("INSERT INTO t VALUES (1)")?;
        let error = client.change_user(user, password, schema).unwrap_err();
        let refused = error.downcast::<crate::wire::Refused>()?.0;
        ensure!(codes.contains(&refused.code), "{number}: {refused:?}");
        if server.flavour() == Flavour::MySql {
            assert!(client.is_closed()?);
            *client = Wire::login(proxy, "changer_one", PASSWORD, "changer_one")?;
            if number == 2 {
                return Ok(());
            }
            continue;
        }
        let row = client.one("SELECT @a, DATABASE(), CURRENT_USER()")?.text_rows().remove(0);
        let row: Vec<_> = row.iter().map(Option::as_deref).collect();
        assert_eq!(row, [None, Some("changer_one"), Some("changer_one@%")], "{number}");
        assert_eq!(client.value("SELECT COUNT(*) FROM t")?.as_deref(), Some("0"), "{number}");
    }
    Ok(())
}

#[test]
fn clients_with_and_without_eof_and_tracking_share_connections() -> Result<()> {
    on_each("mixed_framing", "", |_, proxy, name| {
        let eof = Capabilities::DEPRECATE_EOF;
        let track = Capabilities::SESSION_TRACK;
        let kinds = [PLAIN, PLAIN | eof, PLAIN | track, MODERN];
        let mut clients = Vec::new();
        for kind in kinds {
            clients.push(Wire::login_with(proxy, login(name, PASSWORD, name, kind))?);
        }
        clients[0].one("CREATE TABLE t (a INT, b TEXT)")?;
        clients[0].one("INSERT INTO t VALUES (1, 'x'), (2, NULL)")?;
        for _ in 0..5 {
            for client in &mut clients {
                let rows = client.one("SELECT a, b FROM t ORDER BY a")?.text_rows();
                assert_eq!(rows[0], text(&[&["1", "x"]])[0]);
                assert_eq!(rows[1][1], None);
                assert!(client.one("SET @@session.sql_mode = ''")?.is_ok());
                assert!(client.one(&format!("USE {name}"))?.is_ok());
            }
        }
        Ok(())
    })
}

#[test]
fn packets_of_every_size_pass_in_both_directions() -> Result<()> {
    let settings = "max_allowed_packet = 268435456";
    on_each("packets_of_every_size", settings, |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        let frame = 0xFF_FFFF;
        let around = "SELECT LENGTH('')".len() + 1;
        // Payloads around the limit of a packet, and of two packets exactly.
        for payload in [1_000, frame - 1, frame, frame + 1, 2 * frame] {
            let filler = "x".repeat(payload - around);
            let got = client.value(&format!("SELECT LENGTH('{filler}')"));
            let got = got.with_context(|| format!("payload of {payload}"))?;
            assert_eq!(got, Some(filler.len().to_string()), "payload of {payload}");
        }
        // A row's field has four bytes of length before it.
        for len in [frame - 5, frame - 4, frame - 3, 40_000_000] {
            let got = client.value(&format!("SELECT REPEAT('y', {len})"));
            let got = got.with_context(|| format!("row of {len}"))?.context("NULL")?;
            assert!(got.len() == len && got.bytes().all(|byte| byte == b'y'), "row of {len}");
        }
        let filler = "z".repeat(frame + 100);
        client.one(&format!("SET @big = '{filler}'")).context("a long value")?;
        assert_eq!(client.value("SELECT @big")?.as_deref(), Some(&*filler));
        assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"));
        Ok(())
    })
}

#[test]
fn a_packet_over_the_limit_is_refused() -> Result<()> {
    on_each("a_packet_over_the_limit", "max_allowed_packet = 100000", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, "")?;
        let fits = format!("SELECT LENGTH('{}')", "x".repeat(99_000));
        assert_eq!(client.value(&fits)?.as_deref(), Some("99000"));
        let too_long = format!("SELECT LENGTH('{}')", "x".repeat(100_001));
        let error = client.fails(&too_long)?;
        let text = "Got a packet bigger than 'max_allowed_packet' bytes";
        assert_eq!(error.parts(), (1153, "08S01", text));
        Ok(())
    })
}

#[test]
fn a_big_result_for_a_slow_client_does_not_fill_memory() -> Result<()> {
    let test = "a_big_result_for_a_slow_client";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let proxy = proxy_for(server, "slow_big", "")?;
    let mut client = Wire::login(&proxy, "slow_big", PASSWORD, "")?;
    let mut other = Wire::login(&proxy, "slow_big", PASSWORD, "")?;
    other.one("SELECT 1")?;
    let before = proxy.rss_bytes()?;
    let mut most = read_slowly(&proxy, &mut client, &mut other)?;
    let first = most.saturating_sub(before);
    assert!(first < 48 << 20, "the proxy's memory grew by {first} bytes");
    // Buffers are used again.
    most = read_slowly(&proxy, &mut client, &mut other)?.saturating_sub(most);
    assert!(most < 32 << 20, "the proxy's memory grew by {most} bytes more");
    assert_eq!(client.value("SELECT 7")?.as_deref(), Some("7"));
    Ok(())
}

/// Many slow clients with results of 8 MiB each: what waits for them in all has a limit, whatever
/// each of them may have.
#[test]
fn what_waits_for_slow_clients_in_all_is_bounded() -> Result<()> {
    const CLIENTS: usize = 60;
    let Some(server) = backends::mariadb("what_waits_for_slow_clients_in_all")? else {
        return Ok(());
    };
    let keys = "client_buffer_max = 8388608\nbuffers_max = 8388608";
    let proxy = proxy_for(server, "slow_many", keys)?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Wire::login(&proxy, "slow_many", PASSWORD, "")?);
    }
    let before = proxy.rss_bytes()?;
    for client in &mut clients {
        client.send(
            code::QUERY,
            b"WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 80)
              SELECT n, REPEAT('r', 100000) FROM r",
        )?;
    }
    // All servers are held back, but for those of the clients that had room.
    wait_until("the proxy reads no more", TIMEOUT, || {
        let held = proxy.metric("trunkline_client_pauses_total", "")?;
        Ok((held.unwrap_or_default() >= CLIENTS as f64 - 2.0).then_some(()))
    })?;
    let grown = proxy.rss_bytes()?.saturating_sub(before);
    // 480 MiB are on their way; kernel buffers are not the proxy's.
    assert!(grown < 64 << 20, "the proxy's memory grew by {grown} bytes");
    for client in &mut clients {
        let rows = client.reply_bytes(Shape::Results)?;
        assert!(rows.len() > 8_000_000, "{} bytes", rows.len());
        assert_eq!(client.value("SELECT 7")?.as_deref(), Some("7"));
    }
    Ok(())
}

/// Reads 200 rows of a megabyte, after a while without reading; the most memory seen meanwhile.
fn read_slowly(proxy: &Trunkline, client: &mut Wire, other: &mut Wire) -> Result<u64> {
    client.send(
        code::QUERY,
        b"WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 200)
          SELECT n, REPEAT('r', 1000000) FROM r",
    )?;
    let mut most = 0;
    let begun = Instant::now();
    // Nothing is read for a while; the proxy must stop reading too, and serve others.
    while begun.elapsed() < Duration::from_millis(700) {
        assert_eq!(other.value("SELECT 5")?.as_deref(), Some("5"));
        most = most.max(proxy.rss_bytes()?);
    }
    let (mut total, mut rows) = (0, 0);
    loop {
        let (_, packet) = client.packet()?;
        total += packet.len();
        rows += usize::from(packet.len() > 1_000_000);
        if rows % 50 == 0 {
            most = most.max(proxy.rss_bytes()?);
        }
        if packet.first() == Some(&0xFE) {
            break;
        }
    }
    assert!(rows == 200 && total > 200_000_000, "{rows} rows, {total} bytes");
    Ok(most)
}

#[test]
fn a_connection_goes_on_after_its_client_was_waited_for() -> Result<()> {
    on_each("after_a_held_back_result", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, "")?;
        let mut other = Wire::login(proxy, name, PASSWORD, "")?;
        // Ends of results at every distance from where reading is held back.
        for len in (200_000..700_000).step_by(9_000) {
            let got = client.value(&format!("SELECT REPEAT('y', {len})"))?;
            assert_eq!(got.map(|text| text.len()), Some(len));
            assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"));
            assert_eq!(other.value("SELECT 2")?.as_deref(), Some("2"));
        }
        Ok(())
    })
}

#[test]
fn a_long_command_sent_ahead_is_run_in_its_turn() -> Result<()> {
    on_each("a_long_command_ahead", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, "")?;
        let long = "z".repeat(1 << 20);
        let mut bytes = Vec::new();
        for text in ["SELECT SLEEP(0.2)".to_owned(), format!("SELECT LENGTH('{long}')")] {
            let payload = format!("\u{3}{text}");
            trunkline_protocol::codec::frame::put_payload(&mut bytes, 0, payload.as_bytes());
        }
        client.send_raw(&bytes)?;
        for expected in ["0", "1048576"] {
            let reply = client.reply_bytes(Shape::Results)?;
            assert_eq!(client.outcomes(&reply)?[0].text_rows(), text(&[&[expected]]));
        }
        Ok(())
    })
}

#[test]
fn a_client_that_takes_no_answers_gets_no_more_of_them() -> Result<()> {
    let test = "a_client_that_takes_no_answers";
    let Some(server) = backends::mariadb(test)? else { return Ok(()) };
    let proxy = proxy_for(server, "deaf", "")?;
    let mut client = Wire::login(&proxy, "deaf", PASSWORD, "")?;
    let mut other = Wire::login(&proxy, "deaf", PASSWORD, "")?;
    other.one("SELECT 1")?;
    let before = proxy.rss_bytes()?;
    // Answers of 150 MB, each within one read.
    let count = 3_000;
    let mut bytes = Vec::new();
    for _ in 0..count {
        let payload = b"\x03SELECT REPEAT('x', 50000)";
        trunkline_protocol::codec::frame::put_payload(&mut bytes, 0, payload);
    }
    let mut most = before;
    std::thread::scope(|scope| -> Result<()> {
        let mut sender = client.second()?;
        let sending = scope.spawn(move || sender.send_raw(&bytes));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1_000) {
            assert_eq!(other.value("SELECT 5")?.as_deref(), Some("5"));
            most = most.max(proxy.rss_bytes()?);
        }
        for number in 0..count {
            let reply = client.reply_bytes(Shape::Results)?;
            assert!(reply.len() > 50_000, "answer {number}");
        }
        sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))?
    })?;
    let grown = most.saturating_sub(before);
    assert!(grown < 48 << 20, "the proxy's memory grew by {grown} bytes");
    Ok(())
}

#[test]
fn commands_sent_ahead_are_answered_in_order() -> Result<()> {
    on_each("commands_sent_ahead", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        let count = 500;
        let mut bytes = Vec::new();
        for number in 0..count {
            let payload = format!("\u{3}SELECT {number}");
            trunkline_protocol::codec::frame::put_payload(&mut bytes, 0, payload.as_bytes());
        }
        client.send_raw(&bytes)?;
        for number in 0..count {
            let reply = client.reply_bytes(Shape::Results)?;
            let rows = client.outcomes(&reply)?[0].text_rows();
            assert_eq!(rows[0][0], Some(number.to_string()));
        }
        Ok(())
    })
}

#[test]
fn a_command_may_arrive_byte_by_byte() -> Result<()> {
    on_each("byte_by_byte", "", |_, proxy, name| {
        let mut client = Wire::login(proxy, name, PASSWORD, name)?;
        let mut bytes = Vec::new();
        trunkline_protocol::codec::frame::put_payload(&mut bytes, 0, b"\x03SELECT 'slowly'");
        for byte in bytes {
            client.send_raw(&[byte])?;
        }
        let reply = client.reply_bytes(Shape::Results)?;
        assert_eq!(client.outcomes(&reply)?[0].text_rows(), text(&[&["slowly"]]));
        Ok(())
    })
}

#[test]
fn the_greeting_is_the_servers() -> Result<()> {
    on_each("the_greeting_is_the_servers", "", |server, proxy, name| {
        let direct = Wire::login(server, name, PASSWORD, "")?;
        let client = Wire::login(proxy, name, PASSWORD, "")?;
        let (theirs, ours) = (direct.greeting()?, client.greeting()?);
        assert_eq!(theirs.server_version, ours.server_version);
        assert_eq!(theirs.charset, ours.charset);
        assert_eq!(theirs.status, ours.status);
        let plugin = match server.flavour() {
            Flavour::MariaDb => "mysql_native_password",
            Flavour::MySql => "caching_sha2_password",
        };
        assert_eq!(ours.auth_plugin, plugin);
        // What drivers decide by.
        for flag in [
            Capabilities::DEPRECATE_EOF,
            Capabilities::SESSION_TRACK,
            Capabilities::MULTI_STATEMENTS,
            Capabilities::CONNECT_ATTRS,
            Capabilities::PLUGIN_AUTH,
        ] {
            assert!(ours.capabilities.contains(flag), "{flag:?}");
        }
        assert_ne!(theirs.nonce, ours.nonce);
        let again = Wire::login(proxy, name, PASSWORD, "")?;
        assert_ne!(again.greeting()?.nonce, ours.nonce);
        assert_ne!(again.greeting()?.connection_id, ours.connection_id);
        Ok(())
    })
}

#[test]
fn connection_attributes_and_the_unix_socket_are_taken() -> Result<()> {
    on_each("attributes_and_socket", "", |_, proxy, name| {
        let mut with = login(name, PASSWORD, name, MODERN);
        for number in 0..50 {
            let pair = (format!("_name{number}").into_bytes(), vec![b'v'; 200]);
            with.attributes.push(pair);
        }
        let mut client = Wire::login_with(proxy, with.clone())?;
        assert_eq!(client.value("SELECT DATABASE()")?.as_deref(), Some(name));
        let endpoint = crate::wire::Endpoint::Unix(proxy.socket());
        let mut client = Wire::login_with(endpoint, with)?;
        assert_eq!(client.value("SELECT DATABASE()")?.as_deref(), Some(name));
        Ok(())
    })
}
