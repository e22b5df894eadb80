//! What nobody should send: from clients, before and after they log in, and from servers.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::frame::{HEADER_LEN, Header, put_payload};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_protocol::packet::status::AUTOCOMMIT;
use trunkline_testkit::{Trunkline, wait_until};

use crate::backends::{self, Config, PASSWORD, TIMEOUT, proxy_for};
use crate::wire::{Endpoint, ErrorPacket, MODERN, PLAIN, Shape, Wire, code, login, payloads};

/// Bytes that look like anything, the same on each run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, len_max: usize) -> Vec<u8> {
        let len = usize::try_from(self.next()).unwrap_or_default() % len_max + 1;
        (0..len).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

/// The last packet of what came, if it is an error.
fn last_error(bytes: &[u8]) -> Option<ErrorPacket> {
    let last = payloads(bytes).pop()?;
    if last.first() == Some(&0xFF) { ErrorPacket::parse(&last).ok() } else { None }
}

fn lives(proxy: &Trunkline, name: &str, kept: &mut Wire) -> Result<()> {
    ensure!(proxy.is_running(), "the proxy ended:\n{}", proxy.log());
    ensure!(kept.value("SELECT 5")?.as_deref() == Some("5"));
    let mut next = Wire::login(proxy, name, PASSWORD, "")?;
    ensure!(next.value("SELECT 6")?.as_deref() == Some("6"));
    let log = proxy.log();
    ensure!(!log.contains("panic"), "a panic:\n{log}");
    Ok(())
}

#[test]
fn handshakes_of_every_wrong_form_are_refused() -> Result<()> {
    let Some(server) = backends::mariadb("handshakes_of_every_wrong_form")? else {
        return Ok(());
    };
    let proxy = proxy_for(server, "odd_shakes", "")?;
    let mut kept = Wire::login(&proxy, "odd_shakes", PASSWORD, "")?;
    let before = proxy.rss_bytes()?;
    let wrong: [(&str, Vec<u8>, u16); 6] = [
        ("empty payload", vec![0, 0, 0, 1], 1043),
        ("too short", vec![3, 0, 0, 1, 1, 2, 3], 1043),
        ("another number", vec![3, 0, 0, 9, 1, 2, 3], 1156),
        ("longest packet", vec![0xFF, 0xFF, 0xFF, 1, 0x85, 0xA6], 1043),
        ("not MySQL", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), 1043),
        ("garbage user", [&[0x24, 0, 0, 1][..], &[0xFF; 36]].concat(), 1043),
    ];
    for (what, bytes, expected) in wrong {
        let mut client = Wire::open(&proxy)?;
        client.read_greeting()?;
        client.send_raw(&bytes)?;
        client.shut_write()?;
        let answer = client.drain_to_end().with_context(|| what)?;
        if let Some(error) = last_error(&answer) {
            assert!([expected, 1043, 1045, 1156].contains(&error.code), "{what}: {error:?}");
        }
    }
    lives(&proxy, "odd_shakes", &mut kept)?;

    // A proper response, cut everywhere.
    let whole = handshake_response();
    for end in 0..whole.len() {
        let mut client = Wire::open(&proxy)?;
        client.read_greeting()?;
        client.send_raw(&whole[..end])?;
        client.shut_write()?;
        client.drain_to_end()?;
    }
    let mut noise = Noise(7);
    for _ in 0..200 {
        let mut client = Wire::open(&proxy)?;
        client.read_greeting()?;
        // The other side may have closed in the middle.
        let _ = client.send_raw(&noise.bytes(3_000));
        let _ = client.shut_write();
        let _ = client.drain_to_end();
    }
    lives(&proxy, "odd_shakes", &mut kept)?;
    let grown = proxy.rss_bytes()?.saturating_sub(before);
    assert!(grown < 16 << 20, "the proxy's memory grew by {grown} bytes");
    Ok(())
}

fn handshake_response() -> Vec<u8> {
    use trunkline_protocol::packet::attributes::Attributes;
    use trunkline_protocol::packet::handshake_response::HandshakeResponse;
    let mut out = Vec::new();
    let response = HandshakeResponse {
        capabilities: MODERN
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        packet_len_max: 1 << 24,
        charset: 45,
        user: b"odd_shakes",
        auth: &[7; 20],
        schema: None,
        plugin: Some(b"mysql_native_password"),
        attributes: Attributes::default(),
        zstd_level: None,
    };
    response.put(&mut out, 1);
    out
}

#[test]
fn a_client_that_says_nothing_is_sent_away() -> Result<()> {
    let Some(server) = backends::mariadb("a_client_that_says_nothing")? else { return Ok(()) };
    let proxy = proxy_for(server, "silent", "connect_timeout_client = 500")?;
    let mut client = Wire::open(&proxy)?;
    client.read_greeting()?;
    client.drain_to_end()?;
    let labels = "cause=\"handshake_timeout\"";
    backends::wait_metric(&proxy, "trunkline_client_refusals_total", labels, |n| n == 1.0)?;
    Ok(())
}

#[test]
fn wrong_packets_after_the_login_end_that_session_only() -> Result<()> {
    for server in backends::each("wrong_packets_after_the_login")? {
        let proxy = proxy_for(server, "odd_packets", "max_allowed_packet = 1000000")?;
        let mut kept = Wire::login(&proxy, "odd_packets", PASSWORD, "")?;
        let enter = || Wire::login(&proxy, "odd_packets", PASSWORD, "");

        let mut client = enter()?;
        client.send_raw(&[1, 0, 0, 5, code::PING])?;
        let error = last_error(&client.drain_to_end()?).context("no error for a wrong number")?;
        assert_eq!((error.code, &*error.sqlstate), (1156, "08S01"));

        let mut client = enter()?;
        client.send_raw(&[0xFF, 0xFF, 0xFF, 0, code::QUERY])?;
        let error = last_error(&client.drain_to_end()?).context("no error for a long packet")?;
        assert_eq!((error.code, &*error.sqlstate), (1153, "08S01"));

        // No command at all, and commands that end too early: an error, and on it goes.
        let mut client = enter()?;
        for payload in [&b""[..], b"\x17\x01", b"\x19", b"\x1A\x01\x02", b"\x1B", b"\x04t"] {
            let mut bytes = Vec::new();
            put_payload(&mut bytes, 0, payload);
            client.send_raw(&bytes)?;
            let reply = client.reply_bytes(Shape::Single);
            let reply = reply.with_context(|| format!("answer to {payload:02x?}"))?;
            assert!(last_error(&reply).is_some(), "{payload:02x?}: {reply:02x?}");
        }
        assert_eq!(client.value("SELECT 5")?.as_deref(), Some("5"));

        // In the middle of a command the client is gone.
        let mut client = enter()?;
        client.one("BEGIN")?;
        client.send_raw(&[20, 0, 0, 0, code::QUERY, b'S'])?;
        drop(client);
        lives(&proxy, "odd_packets", &mut kept).context("before the noise")?;

        let mut noise = Noise(99);
        for _ in 0..60 {
            let mut client = enter()?;
            let mut bytes = Vec::new();
            for _ in 0..5 {
                let mut payload = noise.bytes(400);
                // These three may end the session or wait for more by right.
                if matches!(payload.first(), Some(0x01 | 0x11 | 0x03)) {
                    payload[0] = 0x16;
                }
                put_payload(&mut bytes, 0, &payload);
            }
            bytes.extend_from_slice(&noise.bytes(100));
            let _ = client.send_raw(&bytes);
            let _ = client.shut_write();
            client.drain_to_end().context("noise")?;
        }
        lives(&proxy, "odd_packets", &mut kept).context("after the noise")?;
    }
    Ok(())
}

/// What a scripted server does with a statement, after it greeted and let everybody in.
type Script = Arc<dyn Fn(&mut TcpStream, usize) -> std::io::Result<()> + Send + Sync>;

/// A server that follows a script. It ends with the test's process.
fn scripted_server(script: Script) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let statements = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (script, statements) = (Arc::clone(&script), Arc::clone(&statements));
            std::thread::spawn(move || serve(stream, &script, &statements));
        }
    });
    Ok(port)
}

fn serve(mut stream: TcpStream, script: &Script, statements: &AtomicUsize) -> Option<()> {
    let greeting = Greeting {
        protocol_version: 10,
        server_version: "8.0.0-scripted".to_owned(),
        connection_id: 7,
        nonce: *b"abcdefghijklmnopqrst",
        capabilities: MODERN
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::CONNECT_WITH_DB
            | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA
            | Capabilities::CONNECT_ATTRS,
        charset: 45,
        status: AUTOCOMMIT,
        auth_plugin: "mysql_native_password".to_owned(),
    };
    let mut out = Vec::new();
    greeting.put(&mut out, 0);
    stream.write_all(&out).ok()?;
    read_packet(&mut stream)?;
    stream.write_all(&ok(2)).ok()?;
    loop {
        let payload = read_packet(&mut stream)?;
        let is_marked = payload.windows(4).any(|part| part == b"MARK");
        if is_marked {
            let number = statements.fetch_add(1, Ordering::SeqCst);
            script(&mut stream, number).ok()?;
        } else if payload.first() != Some(&code::QUIT) {
            stream.write_all(&ok(1)).ok()?;
        }
    }
}

fn ok(seq: u8) -> Vec<u8> {
    vec![7, 0, 0, seq, 0, 0, 0, 2, 0, 0, 0]
}

fn read_packet(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).ok()?;
    let mut payload = vec![0; Header::read(&header)?.payload_len];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}

fn before_script(
    settings: &str,
    script: impl Fn(&mut TcpStream, usize) -> std::io::Result<()> + Send + Sync + 'static,
) -> Result<Trunkline> {
    let port = scripted_server(Arc::new(script))?;
    Config::at(settings, &format!("127.0.0.1:{port}")).user("guest").start()
}

fn guest(proxy: &Trunkline) -> Result<Wire> {
    Wire::login_with(Endpoint::Tcp(proxy.port()), login("guest", PASSWORD, "", PLAIN))
}

#[test]
fn garbage_from_a_server_is_an_error_for_its_client_only() -> Result<()> {
    // Each is sent instead of an answer to one statement.
    let answers: [&[u8]; 6] = [
        b"\x00\x00\x00\x01",
        b"\x01\x00\x00\x01\xFB",
        b"\x01\x00\x00\x01\x02\x01\x00\x00\x02\x07",
        b"\x02\x00\x00\x01\xFF\x01",
        b"\x0A\x00\x00\x01\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    ];
    let count = answers.len();
    let proxy = before_script("", move |stream, number| {
        stream.write_all(answers[number % answers.len()])?;
        stream.shutdown(std::net::Shutdown::Both)
    })?;
    let mut kept = guest(&proxy)?;
    for number in 0..count {
        let mut client = guest(&proxy)?;
        client.send(code::QUERY, b"UPDATE MARK SET a = 1")?;
        client.set_read_timeout(Duration::from_secs(8))?;
        // An error packet, before or behind what had come already, or the end.
        let error = loop {
            match client.packet() {
                Ok((_, payload)) if payload.first() == Some(&0xFF) => {
                    break Some(ErrorPacket::parse(&payload)?);
                }
                Ok(_) => {}
                Err(error) => {
                    let text = format!("{error:#}");
                    assert!(text.contains("closed"), "answer {number}: {text}");
                    break None;
                }
            }
        };
        let Some(error) = error else { continue };
        assert!(error.code >= 1_000, "answer {number}: {error:?}");
    }
    assert!(kept.one("DO 1")?.is_ok());
    assert!(proxy.is_running() && !proxy.log().contains("panic"), "{}", proxy.log());
    Ok(())
}

#[test]
fn a_server_that_goes_in_mid_answer_ends_the_answer() -> Result<()> {
    let proxy = before_script("", |stream, _| {
        let mut out = Vec::new();
        put_payload(&mut out, 1, &[1]);
        put_payload(&mut out, 2, b"\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\x81\0\0\0\0");
        out.extend_from_slice(&[5, 0, 0, 3, 0xFE, 0, 0, 2, 0]);
        put_payload(&mut out, 4, b"\x011");
        out.extend_from_slice(&[200, 0, 0, 5, 199, b'x']);
        stream.write_all(&out)?;
        stream.shutdown(std::net::Shutdown::Both)
    })?;
    let mut kept = guest(&proxy)?;
    let mut client = guest(&proxy)?;
    client.send(code::QUERY, b"SELECT MARK")?;
    let bytes = client.drain_to_end()?;
    // The row that was cut must not look like a whole one.
    let frames = payloads(&bytes);
    assert!(frames.len() <= 6, "{frames:?}");
    assert!(kept.one("DO 1")?.is_ok());
    assert!(guest(&proxy)?.one("DO 2")?.is_ok());
    Ok(())
}

#[test]
fn an_unasked_packet_costs_the_server_its_connection_only() -> Result<()> {
    let proxy = before_script("", |stream, _| {
        stream.write_all(&ok(1))?;
        // And one more that answers nothing.
        stream.write_all(&ok(1))
    })?;
    let mut client = guest(&proxy)?;
    for number in 0..20 {
        let answer = client.one(&format!("UPDATE MARK SET a = {number}"));
        assert!(answer?.is_ok(), "{number}");
        assert!(client.one("DO 1")?.is_ok(), "{number}");
    }
    assert!(proxy.is_running() && !proxy.log().contains("panic"), "{}", proxy.log());
    Ok(())
}

#[test]
fn a_server_that_never_answers_holds_only_its_client() -> Result<()> {
    let proxy = before_script("", |_, _| Ok(()))?;
    let mut stuck = guest(&proxy)?;
    stuck.send(code::QUERY, b"SELECT MARK")?;
    let mut other = guest(&proxy)?;
    for _ in 0..20 {
        assert!(other.one("DO 1")?.is_ok());
    }
    drop(stuck);
    wait_until("the stuck client has gone", TIMEOUT, || {
        let closed = proxy.metric("trunkline_client_connections_closed_total", "")?;
        Ok(closed.filter(|n| *n >= 1.0))
    })?;
    assert!(other.one("DO 1")?.is_ok());
    Ok(())
}

#[test]
fn a_server_that_is_none_is_an_error_with_its_cause() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    let settings = "connect_timeout_server_max = 1500\nconnect_timeout_server = 400";
    let proxy = Config::at(settings, &format!("127.0.0.1:{port}")).user("guest").start()?;
    let mut client = guest(&proxy)?;
    let error = client.fails("SELECT 1")?;
    assert!(error.code >= 1_000 && error.text.len() > 20, "{error:?}");
    assert!(client.single(code::PING, b"")?.is_ok());
    Ok(())
}
