//! Compressed packets that nobody should send: Trunkline ends the session where servers do, with
//! their error.

use super::*;
use trunkline_compression::Libraries;
use trunkline_protocol::codec::compressed::{Compressor, Method};

use crate::wire::{Endpoint, ErrorPacket, payloads};

/// A compressed packet as it is told, right or wrong.
fn packed(seq: u8, plain_len: usize, held: &[u8]) -> Vec<u8> {
    let [a, b, c, ..] = held.len().to_le_bytes();
    let [d, e, f, ..] = plain_len.to_le_bytes();
    [&[a, b, c, seq, d, e, f], held].concat()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(Libraries::new().compress(Method::Zlib(6), plain, &mut out));
    out
}

fn query(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_payload(&mut out, 0, &[b"\x03", text.as_bytes()].concat());
    out
}

/// What an attempt led to: the last error, if the answer was one, and whether the session is over.
#[derive(Debug, PartialEq, Eq)]
struct End {
    code: Option<u16>,
    is_over: bool,
}

fn attempt(endpoint: Endpoint, name: &str, bytes: &[u8]) -> Result<End> {
    let mut wire = Wire::login_with(endpoint, login(name, PASSWORD, "", PLAIN | ZLIB))?;
    wire.packing.as_mut().context("no compression")?.expected = Expected::Any;
    wire.send_bytes(bytes)?;
    // Servers may say nothing of what does not unpack: what comes later still tells.
    wire.set_read_timeout(Duration::from_secs(1))?;
    let first = wire.packet().map(|(_, payload)| payload);
    wire.set_read_timeout(backends::TIMEOUT)?;
    // A session that lives answers a command behind it too; one that is over may be closed.
    let more = [packed(0, 0, &query("SELECT 'alive'")), packed(0, 0, b"\x01\0\0\0\x01")];
    let _ = wire.send_bytes(&more.concat());
    let mut answers = payloads(&wire.drain_to_end()?);
    answers.extend(first);
    let error = answers.iter().find(|payload| payload.first() == Some(&0xFF));
    let code = error.map(|payload| ErrorPacket::parse(payload)).transpose()?.map(|it| it.code);
    let is_alive = answers.iter().any(|payload| payload == b"\x05alive");
    Ok(End { code, is_over: !is_alive })
}

#[test]
fn wrong_packets_end_the_session_as_servers_do() -> Result<()> {
    let long = query(&format!("SELECT '{}'", "x".repeat(5_000)));
    let ping = query("SELECT 1");
    let (head, tail) = long.split_at(2_000);
    let cases: [(&str, Vec<u8>, End); 9] = [
        ("right", packed(0, long.len(), &zlib(&long)), End { code: None, is_over: false }),
        ("another number", packed(3, 0, &ping), End { code: Some(1156), is_over: true }),
        (
            "a number left out within a command",
            [packed(0, 0, head), packed(2, 0, tail)].concat(),
            End { code: Some(1156), is_over: true },
        ),
        (
            "in two, numbered right",
            [packed(0, 2_000, &zlib(head)), packed(1, 0, tail)].concat(),
            End { code: None, is_over: false },
        ),
        ("no stream", packed(0, 5_000, &[7; 90]), End { code: Some(1157), is_over: true }),
        (
            "more than it says",
            packed(0, long.len() - 1, &zlib(&long)),
            End { code: Some(1157), is_over: true },
        ),
        (
            "less than it says",
            packed(0, long.len() + 1_000, &zlib(&long)),
            End { code: None, is_over: false },
        ),
        (
            "a stream cut short",
            packed(0, long.len(), &zlib(&long)[..20]),
            End { code: Some(1157), is_over: true },
        ),
        (
            "nothing, then a command",
            [packed(0, 0, b""), packed(1, 0, &ping)].concat(),
            End { code: None, is_over: false },
        ),
    ];
    for server in backends::each("wrong_packets_end_the_session_as_servers_do")? {
        let proxy = proxy_for(server, "wrongpacked", "", "compression = 1\n")?;
        for (what, bytes, expected) in &cases {
            let what = format!("{:?}: {what}", server.flavour());
            let direct =
                attempt(server.into(), "wrongpacked", bytes).with_context(|| what.clone())?;
            let through =
                attempt((&proxy).into(), "wrongpacked", bytes).with_context(|| what.clone())?;
            assert_eq!(&through, expected, "{what}");
            match expected.code {
                // The manuals know this error, and neither server says it: MariaDB 10.11 closes
                // without a word, MySQL 9.7 drops the packet and leaves its client waiting.
                Some(1157) => assert_eq!(direct.code, None, "{what}"),
                _ => assert_eq!(direct, through, "{what}"),
            }
        }
    }
    Ok(())
}

#[test]
fn packets_over_the_limit_are_refused_before_they_are_unpacked() -> Result<()> {
    let Some(server) = backends::mariadb("packets_over_the_limit_are_refused")? else {
        return Ok(());
    };
    let proxy = proxy_for(server, "bombs", "max_allowed_packet = 100000", "")?;
    let mut kept = client(&proxy, "bombs", ZSTD)?;
    let fits = query(&format!("SELECT '{}'", "x".repeat(99_000)));
    let bomb = zlib(&vec![0; 0xFF_FFFF]);
    let refused = End { code: Some(1153), is_over: true };
    let cases = [
        ("fits", packed(0, fits.len(), &zlib(&fits)), End { code: None, is_over: false }),
        ("a bomb", packed(0, 0xFF_FFFF, &bomb), refused),
        ("a bomb that lies", packed(0, 100, &bomb), End { code: Some(1157), is_over: true }),
    ];
    for (what, bytes, expected) in cases {
        assert_eq!(attempt((&proxy).into(), "bombs", &bytes)?, expected, "{what}");
    }
    assert_eq!(kept.value("SELECT 1")?.as_deref(), Some("1"));
    Ok(())
}

/// Four million empty commands in 16 kB, from a client that takes none of the answers.
#[test]
fn a_bomb_of_commands_waits_for_its_answers_to_be_taken() -> Result<()> {
    let Some(server) = backends::mariadb("a_bomb_of_commands")? else { return Ok(()) };
    let proxy = proxy_for(server, "cluster", "", "")?;
    let mut kept = client(&proxy, "cluster", ZLIB)?;
    let mut wire = client(&proxy, "cluster", ZLIB)?;
    let before = proxy.rss_bytes()?;
    let bomb = packed(0, 0xFF_FFFC, &zlib(&vec![0; 0xFF_FFFC]));
    for _ in 0..20 {
        wire.send_bytes(&bomb)?;
    }
    for number in 0..200 {
        let value = kept.value(&format!("SELECT {number}"))?;
        assert_eq!(value, Some(number.to_string()));
    }
    let grown = proxy.rss_bytes()?.saturating_sub(before);
    assert!(grown < 64 << 20, "the proxy's memory grew by {grown} bytes");
    Ok(())
}
