//! What nobody should send or show.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConnection, pki_types::ServerName};
use trunkline_protocol::Capabilities;
use trunkline_protocol::codec::frame::put_payload;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_protocol::packet::handshake_response::put_tls_request;
use trunkline_testkit::{TempFolder, Trunkline, find_program, skipped, wait_until};

use super::certs::{Ca, Wanted, client};
use super::{anybody, enter, quoted, wait_said};
use crate::backends::{self, Config, PASSWORD, TIMEOUT, proxy_for, wait_metric};
use crate::wire::{MODERN, Wire, code};

/// What a client asks for TLS with.
pub fn tls_request() -> Vec<u8> {
    let mut out = Vec::new();
    let capabilities = MODERN
        | Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::SSL;
    put_tls_request(&mut out, 1, capabilities, 1 << 24, 45);
    out
}

/// Everything that comes until the other side closes.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut chunk) {
        all.extend_from_slice(&chunk[..len]);
    }
    all
}

/// A connection with its greeting read.
fn greeted(proxy: &Trunkline) -> Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let mut payload = vec![0; usize::from(header[0]) | usize::from(header[1]) << 8];
    stream.read_exact(&mut payload)?;
    Ok(stream)
}

fn lives(proxy: &Trunkline, name: &str, kept: &mut Wire) -> Result<()> {
    ensure!(proxy.is_running(), "the proxy ended:\n{}", proxy.log());
    ensure!(kept.value("SELECT 5")?.as_deref() == Some("5"));
    let mut next = enter(proxy, name, &anybody()?)?;
    ensure!(next.value("SELECT 6")?.as_deref() == Some("6"));
    ensure!(!proxy.log().contains("panic"), "a panic:\n{}", proxy.log());
    Ok(())
}

#[test]
fn bytes_behind_the_request_belong_to_tls() -> Result<()> {
    let Some(server) = backends::mariadb("bytes_behind_the_request")? else { return Ok(()) };
    // A user that anybody can be: only the place of the bytes decides.
    server.sql("DROP DATABASE IF EXISTS tls_inject; CREATE DATABASE tls_inject")?;
    server.create_user("tls_inject", "", trunkline_testkit::AuthPlugin::ServerDefault)?;
    server.sql("CREATE TABLE tls_inject.t (a INT)")?;
    let proxy = Config::new("", server).user_with("tls_inject", "password = \"\"").start()?;
    let mut response = Vec::new();
    trunkline_protocol::packet::handshake_response::HandshakeResponse {
        capabilities: MODERN
            | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        packet_len_max: 1 << 24,
        charset: 45,
        user: b"tls_inject",
        auth: b"",
        schema: None,
        plugin: Some(b"mysql_native_password"),
        attributes: Default::default(),
        zstd_level: None,
    }
    .put(&mut response, 2);
    let mut command = vec![code::QUERY];
    command.extend_from_slice(b"INSERT INTO tls_inject.t VALUES (1)");
    put_payload(&mut response, 0, &command);
    // In one write, and in two.
    for is_split in [false, true] {
        let mut stream = greeted(&proxy)?;
        let mut bytes = tls_request();
        if is_split {
            stream.write_all(&bytes)?;
            bytes.clear();
        }
        bytes.extend_from_slice(&response);
        stream.write_all(&bytes)?;
        let answer = rest(&mut stream);
        // A TLS alert at most, and no packet.
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:02x?}");
    }
    wait_said(&proxy, "the bytes are not TLS")?;
    let labels = "cause=\"tls_failed\"";
    wait_metric(&proxy, "trunkline_client_refusals_total", labels, |n| n == 2.0)?;
    assert_eq!(server.value("SELECT COUNT(*) FROM tls_inject.t")?.as_deref(), Some("0"));
    Ok(())
}

#[test]
fn a_hello_behind_the_request_is_answered() -> Result<()> {
    let Some(server) = backends::mariadb("a_hello_behind_the_request")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_ahead", "")?;
    let mut stream = greeted(&proxy)?;
    let name = ServerName::try_from("localhost")?;
    let mut conn = ClientConnection::new(anybody()?, name)?;
    let mut bytes = tls_request();
    conn.write_tls(&mut bytes)?;
    // And in pieces.
    for piece in bytes.chunks(50) {
        stream.write_all(piece)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    while conn.is_handshaking() {
        conn.complete_io(&mut stream)?;
    }
    Ok(())
}

#[test]
fn broken_handshakes_end_and_harm_nobody() -> Result<()> {
    let Some(server) = backends::mariadb("broken_handshakes_end")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_broken", "connect_timeout_client = 700")?;
    let mut kept = enter(&proxy, "tls_broken", &anybody()?)?;
    let mut hello = Vec::new();
    let name = ServerName::try_from("localhost")?;
    ClientConnection::new(anybody()?, name)?.write_tls(&mut hello)?;

    // Cut everywhere, and damaged everywhere.
    for at in (0..hello.len()).step_by(7) {
        let mut stream = greeted(&proxy)?;
        stream.write_all(&tls_request())?;
        stream.write_all(&hello[..at])?;
        drop(stream);
        let mut damaged = hello.clone();
        damaged[at] ^= 0x55;
        let mut stream = greeted(&proxy)?;
        stream.write_all(&tls_request())?;
        // The other side may have closed already.
        let _ = stream.write_all(&damaged);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(&mut stream);
    }
    lives(&proxy, "tls_broken", &mut kept).context("after damaged hellos")?;

    // A message of the handshake that goes on and on.
    let mut stream = greeted(&proxy)?;
    stream.write_all(&tls_request())?;
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xFF, 0xF0];
    record.resize(5 + 0x4000, 0);
    let mut more = vec![0x16, 3, 1, 0x40, 0];
    more.resize(5 + 0x4000, 0);
    let _ = stream.write_all(&record);
    for _ in 0..8 {
        let _ = stream.write_all(&more);
    }
    rest(&mut stream);
    wait_said(&proxy, "a message of the handshake is too long")?;
    lives(&proxy, "tls_broken", &mut kept).context("after a long handshake")?;

    // One that never comes.
    let mut stream = greeted(&proxy)?;
    stream.write_all(&tls_request())?;
    stream.write_all(&hello[..20])?;
    let begun = Instant::now();
    rest(&mut stream);
    ensure!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    wait_said(&proxy, "TLS with client 127.0.0.1 failed: no handshake within 700 ms")?;
    let labels = "cause=\"handshake_timeout\"";
    wait_metric(&proxy, "trunkline_client_refusals_total", labels, |n| n >= 1.0)?;
    lives(&proxy, "tls_broken", &mut kept).context("after a slow handshake")
}

#[test]
fn broken_records_end_their_session_only() -> Result<()> {
    let Some(server) = backends::mariadb("broken_records_end")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_records", "")?;
    let mut kept = enter(&proxy, "tls_records", &anybody()?)?;
    for version in [&TLS12, &TLS13] {
        for bytes in [
            // A record that nobody encrypted, one that was cut, and what is no record at all.
            &[
                0x17, 3, 3, 0, 32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
            ][..],
            &[0x17, 3, 3, 0x40, 0, 1, 2, 3],
            b"\x0c\0\0\0\x03SELECT 5",
        ] {
            let mut wire = enter(&proxy, "tls_records", &client(&[version], None)?)?;
            assert_eq!(wire.value("SELECT 7")?.as_deref(), Some("7"));
            wire.send_below(bytes)?;
            wire.shut_write()?;
            // An alert at most.
            drop(wire.drain_to_end());
        }
    }
    lives(&proxy, "tls_records", &mut kept)
}

#[test]
fn certificates_of_clients_are_judged() -> Result<()> {
    let Some(server) = backends::mariadb("certificates_of_clients_are_judged")? else {
        return Ok(());
    };
    let folder = TempFolder::new("certs")?;
    let (ca, strange) = (Ca::new(folder.path(), "ca")?, Ca::new(folder.path(), "strange")?);
    let none = Wanted::default;
    let good = ca.sign("good", none())?;
    let revoked = ca.sign("revoked", none())?;
    let settings = format!(
        "tls_client_ca = {}\ntls_client_crl = {}",
        quoted(&ca.file()),
        quoted(&ca.revoke(&revoked)?)
    );
    let proxy = proxy_for(server, "tls_judged", &settings)?;
    let mut kept = enter(&proxy, "tls_judged", &anybody()?)?;
    let wrong = [
        (ca.sign("expired", Wanted { is_expired: true, ..none() })?, "has expired"),
        (ca.sign("early", Wanted { is_early: true, ..none() })?, "is not valid yet"),
        (strange.sign("stranger", none())?, "from an unknown CA or self-signed"),
        (revoked, "is revoked"),
    ];
    for version in [&TLS12, &TLS13] {
        assert!(enter(&proxy, "tls_judged", &client(&[version], Some(&good))?).is_ok());
        for (files, reason) in &wrong {
            let mark = proxy.log_mark();
            let attempt = enter(&proxy, "tls_judged", &client(&[version], Some(files))?);
            assert!(attempt.is_err(), "{reason}");
            let line = proxy.wait_log(mark, reason, TIMEOUT)?;
            assert!(line.contains("TLS with client 127.0.0.1 failed"), "{line}");
        }
    }
    assert_eq!(kept.value("SELECT 5")?.as_deref(), Some("5"));
    Ok(())
}

#[test]
fn tls_where_it_is_off_is_named() -> Result<()> {
    let Some(server) = backends::mariadb("tls_where_it_is_off")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_off", "have_ssl = false")?;
    let mut kept = Wire::login(&proxy, "tls_off", PASSWORD, "")?;
    let mut stream = greeted(&proxy)?;
    stream.write_all(&tls_request())?;
    let said = String::from_utf8_lossy(&rest(&mut stream)).into_owned();
    assert!(said.contains("TLS was asked for, and it is off here"), "{said}");
    assert_eq!(kept.value("SELECT 5")?.as_deref(), Some("5"));
    Ok(())
}

#[test]
fn nobody_renegotiates() -> Result<()> {
    let Some(server) = backends::mariadb("nobody_renegotiates")? else { return Ok(()) };
    let Some(openssl) = find_program("openssl") else {
        skipped("nobody_renegotiates", "there is no openssl");
        return Ok(());
    };
    let proxy = proxy_for(server, "tls_again", "connect_timeout_client = 3000")?;
    let mut kept = enter(&proxy, "tls_again", &anybody()?)?;
    let mut command = Command::new(openssl);
    command.args(["s_client", "-starttls", "mysql", "-tls1_2", "-connect"]);
    command.arg(format!("127.0.0.1:{}", proxy.port()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("its input")?.write_all(b"R\n")?;
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{said}");
    lives(&proxy, "tls_again", &mut kept)
}

/// A server that offers TLS and answers the request for it with these bytes, and no more.
fn false_server(answer: &'static [u8]) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let greeting = Greeting {
                protocol_version: 10,
                server_version: "8.4.0".to_owned(),
                connection_id: 1,
                nonce: [b'n'; 20],
                capabilities: MODERN
                    | Capabilities::PROTOCOL_41
                    | Capabilities::SECURE_CONNECTION
                    | Capabilities::PLUGIN_AUTH
                    | Capabilities::SSL,
                charset: 45,
                status: 2,
                auth_plugin: "caching_sha2_password".to_owned(),
            };
            let mut out = Vec::new();
            greeting.put(&mut out, 0);
            std::thread::spawn(move || {
                let _ = stream.write_all(&out);
                let mut request = [0; 36];
                if stream.read_exact(&mut request).is_ok() {
                    let _ = stream.write_all(answer);
                    rest(&mut stream);
                }
            });
        }
    });
    Ok(port)
}

#[test]
fn what_servers_do_wrong_in_tls_is_named() -> Result<()> {
    for (answer, reason) in [
        (&b"HTTP/1.0 400 Bad Request\r\n\r\n"[..], "TLS failed"),
        (&[0x16, 3, 3, 0x40, 0][..], "no TLS within 400 ms"),
        (b"", "no TLS within 400 ms"),
        (&[0x15, 3, 3, 0, 2, 2, 40], "TLS failed"),
    ] {
        let port = false_server(answer)?;
        let settings = "connect_timeout_server = 400\nconnect_timeout_server_max = 2000\n\
                        shun_on_failures = 0";
        let address = format!("127.0.0.1:{port}\"\ntls = \"required\"\n#");
        let proxy = Config::at(settings, &address).user("tls_false").start()?;
        let mut client = Wire::login(&proxy, "tls_false", PASSWORD, "")?;
        let error = client.fails("SELECT 5")?;
        assert_eq!(error.code, 9001, "{error:?}");
        assert!(error.text.contains(reason), "{answer:?}: {error:?}");
        // The client's connection is as it was.
        assert_eq!(client.fails("SELECT 6")?.code, 9001);
    }
    Ok(())
}

#[test]
fn full_handshakes_of_one_address_are_limited() -> Result<()> {
    let Some(server) = backends::mariadb("full_handshakes_of_one")? else { return Ok(()) };
    let proxy = proxy_for(server, "tls_storm", "tls_handshakes_per_address_max = 3")?;
    let attempts: Vec<_> =
        (0..40).map(|_| anybody().and_then(|config| enter(&proxy, "tls_storm", &config))).collect();
    let failed = attempts.iter().filter(|attempt| attempt.is_err()).count();
    assert!(failed > 0, "40 full handshakes, and none too many");
    wait_said(&proxy, "began more than 3 TLS handshakes in a second")?;
    // The next second is another one.
    wait_until("a handshake", TIMEOUT, || Ok(enter(&proxy, "tls_storm", &anybody()?).ok()))?;
    Ok(())
}
