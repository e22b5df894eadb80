//! Compression, on either side by itself: what goes through it, and what bad packets get.

mod bad;
mod programs;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::compressed::Expected;
use trunkline_protocol::codec::frame::put_payload;
use trunkline_testkit::{Flavour, Server, Trunkline};

use crate::backends::{self, Config, PASSWORD};
use crate::wire::{MODERN, Outcome, PLAIN, Shape, Wire, code, login};

pub const NONE: Capabilities = Capabilities::EMPTY;
pub const ZLIB: Capabilities = Capabilities::COMPRESS;
pub const ZSTD: Capabilities = Capabilities::ZSTD_COMPRESSION_ALGORITHM;

/// A proxy before `server`, whose table has these keys too, for one account.
pub fn proxy_for(server: &Server, name: &str, settings: &str, keys: &str) -> Result<Trunkline> {
    backends::account(server, name)?;
    Config::new(settings, server).more(keys).user(name).start()
}

/// A client that wants this compression and gets it.
fn client(proxy: &Trunkline, name: &str, compression: Capabilities) -> Result<Wire> {
    let login = login(name, PASSWORD, name, MODERN | compression);
    let wire = Wire::login_with(proxy, login)?;
    ensure!(wire.packing.is_some() == (compression != NONE), "{:?}", wire.capabilities);
    Ok(wire)
}

/// What the session's server connection is compressed with, as the server says.
fn servers_word(wire: &mut Wire, flavour: Flavour) -> Result<String> {
    let name = match flavour {
        Flavour::MariaDb => "Compression",
        Flavour::MySql => "Compression_algorithm",
    };
    let rows = wire.one(&format!("SHOW SESSION STATUS LIKE '{name}'"))?.text_rows();
    let value = rows.into_iter().next().and_then(|row| row.into_iter().nth(1).flatten());
    Ok(value.unwrap_or_default())
}

/// Statements of every kind of answer, and commands that the server or the proxy answers.
fn exercise(wire: &mut Wire, name: &str) -> Result<()> {
    let long = "long ".repeat(40_000);
    assert_eq!(wire.value("SELECT 'a'")?.as_deref(), Some("a"));
    assert_eq!(wire.value(&format!("SELECT '{long}'"))?, Some(long.clone()));
    wire.one("CREATE TABLE IF NOT EXISTS c (id INT PRIMARY KEY, text LONGTEXT)")?;
    wire.one(&format!("REPLACE INTO c VALUES (1, '{long}'), (2, NULL)"))?;
    let rows = wire.one("SELECT id, LENGTH(text) FROM c ORDER BY id")?.text_rows();
    assert_eq!(rows.len(), 2);
    let results = wire.query(&format!("SELECT 1; SELECT '{long}'; SELECT 3; SET @a = 1"))?;
    assert_eq!(results.len(), 4, "several results");
    assert_eq!(results[1].text_rows()[0][0].as_deref(), Some(&*long));
    assert_eq!(wire.fails("SELECT * FROM nothing")?.code, 1146);

    let prepared = wire.exchange(code::STMT_PREPARE, b"SELECT ?, text FROM c", Shape::Prepare)?;
    let id = prepared.get(5..9).context("no statement id")?.to_vec();
    let mut body = id.clone();
    body.extend_from_slice(b"\0\x01\0\0\0\0\x01\x08\0\x07\0\0\0\0\0\0\0");
    let bytes = wire.exchange(code::STMT_EXECUTE, &body, Shape::Results)?;
    ensure!(bytes.len() > long.len(), "{} bytes of rows", bytes.len());
    wire.send(code::STMT_CLOSE, &id)?;

    assert!(wire.single(code::PING, b"")?.is_ok());
    assert!(wire.single(code::INIT_DB, name.as_bytes())?.is_ok());
    wire.change_user(name, PASSWORD, name)?;
    assert_eq!(wire.value("SELECT DATABASE()")?.as_deref(), Some(name));
    assert!(wire.single(code::RESET_CONNECTION, b"")?.is_ok());
    assert_eq!(wire.value("SELECT 'z'")?.as_deref(), Some("z"));
    Ok(())
}

#[test]
fn each_side_is_compressed_as_it_agreed() -> Result<()> {
    for server in backends::each("each_side_is_compressed_as_it_agreed")? {
        let flavour = server.flavour();
        let sides = [
            ("", ["OFF", ""]),
            ("compression = 1\n", ["ON", "zlib"]),
            ("compression = \"zstd\"\n", ["ON", "zstd"]),
        ];
        for (number, (keys, [mariadb, mysql])) in sides.into_iter().enumerate() {
            let name = format!("sides{number}");
            let proxy = proxy_for(server, &name, "", keys)?;
            for compression in [NONE, ZLIB, ZSTD] {
                let what = || format!("{flavour:?} {keys} {compression:?}:\n{}", proxy.log());
                let mut wire = client(&proxy, &name, compression).with_context(what)?;
                exercise(&mut wire, &name).with_context(what)?;
                let expected = if flavour == Flavour::MariaDb { mariadb } else { mysql };
                assert_eq!(servers_word(&mut wire, flavour)?, expected, "{}", what());
            }
        }
    }
    Ok(())
}

#[test]
fn packets_of_every_size_pass_compressed() -> Result<()> {
    let settings = "max_allowed_packet = 268435456\nprotocol_compression_level = 1";
    let mariadb = [("", ZSTD), ("compression = 1\n", NONE)];
    let mysql = [("compression = \"zstd\"\n", ZLIB)];
    for server in backends::each("packets_of_every_size_pass_compressed")? {
        let sides = match server.flavour() {
            Flavour::MariaDb => &mariadb[..],
            Flavour::MySql => &mysql[..],
        };
        for (number, (keys, compression)) in sides.iter().copied().enumerate() {
            let name = format!("sizes{number}");
            let proxy = proxy_for(server, &name, settings, keys)?;
            let what = || format!("{:?} {keys} {compression:?}", server.flavour());
            let mut wire = client(&proxy, &name, compression)?;
            let frame = 0xFF_FFFF;
            let around = "SELECT LENGTH('')".len() + 1;
            for payload in [frame, frame + 1] {
                let filler = "x".repeat(payload - around);
                let got = wire.value(&format!("SELECT LENGTH('{filler}')")).with_context(what)?;
                assert_eq!(got, Some(filler.len().to_string()), "{} {payload}", what());
            }
            for len in [frame - 4, 40_000_000] {
                let statement = format!("SELECT REPEAT('y', {len})");
                let got = wire.value(&statement).with_context(what)?.context("NULL")?;
                assert!(got.len() == len && got.bytes().all(|byte| byte == b'y'), "{}", what());
            }
            assert_eq!(wire.value("SELECT 1")?.as_deref(), Some("1"), "{}", what());
        }
    }
    Ok(())
}

#[test]
fn compression_can_be_switched_off_for_clients() -> Result<()> {
    let Some(server) = backends::mariadb("compression_can_be_switched_off")? else {
        return Ok(());
    };
    let proxy = proxy_for(server, "noclients", "have_compress = false", "compression = 1\n")?;
    let wanted = login("noclients", PASSWORD, "", PLAIN | ZLIB | ZSTD);
    let mut wire = Wire::login_with(&proxy, wanted)?;
    assert!(wire.packing.is_none());
    assert_eq!(servers_word(&mut wire, Flavour::MariaDb)?, "ON");
    Ok(())
}

/// Two clients whose sessions share one compressed connection, that may have to change workers.
#[test]
fn compressed_connections_are_shared_and_move() -> Result<()> {
    let Some(server) = backends::mariadb("compressed_connections_are_shared_and_move")? else {
        return Ok(());
    };
    let keys = "compression = 1\nmax_connections = 1\n";
    let proxy = proxy_for(server, "sharing", "", keys)?;
    let mut clients = Vec::new();
    for number in 0..8 {
        let compression = [NONE, ZLIB, ZSTD][number % 3];
        clients.push(client(&proxy, "sharing", compression)?);
    }
    for round in 0..20 {
        for (number, wire) in clients.iter_mut().enumerate() {
            if round == 0 {
                wire.one(&format!(
                    "SET sql_mode = 'ANSI', @@sort_buffer_size = {}",
                    40_000 + number
                ))?;
            }
            let value = wire.value("SELECT @@sort_buffer_size").with_context(|| proxy.log())?;
            assert_eq!(value, Some((40_000 + number).to_string()));
        }
    }
    Ok(())
}

/// Bytes that come before they can be used are kept packed, and no more of them than a little.
#[test]
fn what_is_sent_ahead_stays_packed() -> Result<()> {
    let Some(server) = backends::mariadb("what_is_sent_ahead_stays_packed")? else {
        return Ok(());
    };
    let settings = "max_allowed_packet = 16777216";
    let proxy = proxy_for(server, "ahead", settings, "")?;
    let mut wire = client(&proxy, "ahead", ZSTD)?;
    assert_eq!(wire.value("SELECT 1")?.as_deref(), Some("1"));
    let before = proxy.rss_bytes()?;
    // Each of these is 8 MB, and a kilobyte when packed.
    let statement = [&b"\x03SELECT /*"[..], &vec![b' '; 8 << 20], b"*/ 7"].concat();
    let mut packets = Vec::new();
    put_payload(&mut packets, 0, &statement);
    let packed = wire.packing.as_mut().context("no compression")?.pack(&packets);
    ensure!(packed.len() < 40_000, "{} bytes", packed.len());
    let mut sleeping = Vec::new();
    put_payload(&mut sleeping, 0, b"\x03SELECT SLEEP(1)");
    let sleeping = wire.packing.as_mut().context("no compression")?.pack(&sleeping);
    wire.packing.as_mut().context("no compression")?.expected = Expected::Any;
    let count = 30;
    wire.send_bytes(&sleeping)?;
    for _ in 0..count {
        wire.send_bytes(&packed)?;
    }
    let mut grown = 0;
    for number in 0..=count {
        let bytes = wire.reply_bytes(Shape::Results)?;
        let rows = wire.outcomes(&bytes)?.pop().context("no result")?.text_rows();
        let expected = if number == 0 { "0" } else { "7" };
        assert_eq!(rows[0][0].as_deref(), Some(expected), "answer {number}");
        grown = grown.max(proxy.rss_bytes()?.saturating_sub(before));
    }
    assert!(grown < 64 << 20, "the proxy's memory grew by {grown} bytes");
    Ok(())
}

/// Many short commands in one go.
#[test]
fn commands_sent_ahead_are_answered_in_order() -> Result<()> {
    let Some(server) = backends::mariadb("commands_sent_ahead_are_answered_in_order")? else {
        return Ok(());
    };
    let proxy = proxy_for(server, "pipelined", "", "compression = 1\n")?;
    let mut wire = client(&proxy, "pipelined", ZLIB)?;
    let writer = wire.second()?;
    let count = 20_000;
    let mut packed = Vec::new();
    for number in 0..count {
        let mut packets = Vec::new();
        match number % 10 {
            0 => put_payload(&mut packets, 0, format!("\x03SELECT {number}").as_bytes()),
            _ => put_payload(&mut packets, 0, b"\x0e"),
        };
        packed.extend(wire.packing.as_mut().context("no compression")?.pack(&packets));
    }
    let sender = std::thread::spawn(move || {
        let mut writer = writer;
        writer.send_bytes(&packed)
    });
    wire.packing.as_mut().context("no compression")?.expected = Expected::Any;
    for number in 0..count {
        if number % 10 == 0 {
            let bytes = wire.reply_bytes(Shape::Results)?;
            let rows = wire.outcomes(&bytes)?.pop().context("no result")?.text_rows();
            assert_eq!(rows[0][0], Some(number.to_string()));
        } else {
            let bytes = wire.reply_bytes(Shape::Single)?;
            assert!(matches!(wire.outcomes(&bytes)?[..], [Outcome::Ok { .. }]), "{bytes:?}");
        }
    }
    sender.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    Ok(())
}

#[test]
fn a_slow_compressed_client_holds_its_compressed_server_back() -> Result<()> {
    let Some(server) = backends::mariadb("a_slow_compressed_client")? else {
        return Ok(());
    };
    let proxy = proxy_for(server, "slowly", "", "compression = 1\n")?;
    let mut wire = client(&proxy, "slowly", ZLIB)?;
    wire.value("SELECT 1")?;
    let before = proxy.rss_bytes()?;
    // 300 MB of rows that pack to a tenth.
    let statement = "SELECT CONCAT(MD5(a.seq), MD5(a.seq), REPEAT(MD5(a.seq), 90)) \
                     FROM seq_1_to_100000 a";
    wire.send(code::QUERY, statement.as_bytes())?;
    std::thread::sleep(Duration::from_millis(1_500));
    let held_back = proxy.rss_bytes()?.saturating_sub(before);
    assert!(held_back < 24 << 20, "the proxy's memory grew by {held_back} bytes");
    let bytes = wire.reply_bytes(Shape::Results)?;
    let rows = wire.outcomes(&bytes)?.pop().context("no result")?.text_rows();
    assert_eq!(rows.len(), 100_000);
    Ok(())
}

#[test]
fn fast_forward_clients_compress_with_servers_that_can() -> Result<()> {
    for server in backends::each("fast_forward_clients_compress")? {
        let flavour = server.flavour();
        backends::account(server, "ffpacked")?;
        let password = PASSWORD.replace('\\', "\\\\");
        let keys = format!("password = \"{password}\"\nfast_forward = true");
        let proxy = Config::new("", server)
            .more("compression = 1\n")
            .user_with("ffpacked", &keys)
            .start()?;
        // MariaDB has no zstd: Trunkline packs for the client alone.
        let sides = [(NONE, ["OFF", ""]), (ZLIB, ["ON", "zlib"]), (ZSTD, ["OFF", "zstd"])];
        for (compression, [mariadb, mysql]) in sides {
            let what = || format!("{flavour:?} {compression:?}:\n{}", proxy.log());
            let mut wire = client(&proxy, "ffpacked", compression).with_context(what)?;
            // Real servers number what is inside as it happens; nobody looks.
            let long = "x".repeat(200_000);
            assert_eq!(wire.value(&format!("SELECT '{long}'")).with_context(what)?, Some(long));
            assert_eq!(wire.value("SELECT 2").with_context(what)?.as_deref(), Some("2"));
            let expected = if flavour == Flavour::MariaDb { mariadb } else { mysql };
            assert_eq!(servers_word(&mut wire, flavour)?, expected, "{}", what());
        }
    }
    Ok(())
}
