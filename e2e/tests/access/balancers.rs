//! The PROXY protocol.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use trunkline_protocol::codec::frame::HEADER_LEN;
use trunkline_session::backend::{ServerHandshake, ServerLogin, TlsWish};
use trunkline_testkit::{HaProxy, Trunkline, find_program, skipped, wait_until};

use super::{behind, enter, from};
use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::tls::certs;
use crate::wire::{Endpoint, ErrorPacket, MODERN, Wire, login, payloads, refused};

/// Says by an error which client's address reached the rules.
const RULES: &str = "
[[rule]]
rule_id = 1
client_addr = \"192.0.2.0/24\"
match_pattern = \"^SELECT 5\"
error_msg = \"from outside\"
apply = true
";

fn proxy_behind(name: &str, settings: &str) -> Result<Option<Trunkline>> {
    let Some(server) = backends::mariadb(name)? else { return Ok(None) };
    backends::account(server, name)?;
    Config::new(settings, server).user(name).more(RULES).start().map(Some)
}

/// Version 2 with addresses and TLVs.
fn second(kind: u8, address: [u8; 4], tlvs: &[u8]) -> Vec<u8> {
    let len = u16::try_from(12 + tlvs.len()).unwrap_or(u16::MAX).to_be_bytes();
    let head = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[kind, 0x11], &len, &address].concat();
    [&head[..], &[203, 0, 113, 1, 0xC8, 0x22, 0x0C, 0xEA], tlvs].concat()
}

fn said(client: &mut Wire) -> Result<String> {
    let answer = client.one("SELECT 5")?;
    Ok(answer.error().map_or_else(|| "not from outside".to_owned(), |error| error.text.clone()))
}

#[test]
fn rules_errors_and_the_list_of_sessions_see_the_clients_address() -> Result<()> {
    let name = "balanced";
    let settings = "proxy_protocol_networks = [\"127.0.0.0/8\"]";
    let Some(proxy) = proxy_behind(name, settings)? else { return Ok(()) };
    let ssl = [0x20, 0, 5, 7, 0, 0, 0, 0];
    let authority = [&[2, 0, 2][..], b"db"].concat();
    let headers = [
        from("192.0.2.7"),
        second(0x21, [192, 0, 2, 7], &[]),
        second(0x21, [192, 0, 2, 7], &[&ssl[..], &authority].concat()),
    ];
    for header in headers {
        let mut client = behind(&proxy, &header, name, PASSWORD)?;
        assert_eq!(said(&mut client)?, "from outside");
        let list = proxy.http("/sessions")?.1;
        assert!(list.contains("192.0.2.7"), "{list}");
        let error = refused(behind(&proxy, &header, name, "wrong"))?;
        let text = format!("Access denied for user '{name}'@'192.0.2.7' (using password: YES)");
        assert_eq!(error.parts(), (1045, "28000", &*text));
    }
    // Without a header, by a balancer's own connection, or of an unknown family: as it is.
    let local = second(0x20, [192, 0, 2, 7], &[]);
    for header in [&b""[..], b"PROXY UNKNOWN\r\n", &local] {
        let mut client = behind(&proxy, header, name, PASSWORD)?;
        assert_eq!(said(&mut client)?, "not from outside", "{header:?}");
        let error = refused(behind(&proxy, header, name, "wrong"))?;
        assert!(error.text.contains("'127.0.0.1'"), "{error:?}");
    }
    // Over the Unix socket none is taken as long as `localhost` is not listed.
    let socket = Endpoint::Unix(proxy.socket());
    let mut client = Wire::open(socket)?;
    client.send_raw(&from("192.0.2.7"))?;
    let end = client.drain_to_end()?;
    let error = ErrorPacket::parse(&payloads(&end).pop().context("nothing was said")?)?;
    assert_eq!(error.code, 1043);
    Ok(())
}

#[test]
fn a_header_comes_in_pieces_and_before_tls() -> Result<()> {
    let name = "pieces";
    let settings = "proxy_protocol_networks = [\"127.0.0.1\"]";
    let Some(proxy) = proxy_behind(name, settings)? else { return Ok(()) };
    let header = second(0x21, [192, 0, 2, 7], &[4, 0, 1, 9]);
    let mut client = Wire::open(&proxy)?;
    for byte in &header {
        client.send_raw(&[*byte])?;
        // Each byte is a packet of its own, without waiting for an answer.
        std::thread::yield_now();
    }
    client.shake(ServerHandshake::new(login(name, PASSWORD, "", MODERN)), Vec::new())?;
    assert_eq!(said(&mut client)?, "from outside");

    let mut client = Wire::open(&proxy)?;
    client.send_raw(&header)?;
    client.tls = Some(certs::client(&[&rustls::version::TLS13], None)?);
    let wanted = ServerLogin { tls: TlsWish::Always, ..login(name, PASSWORD, "", MODERN) };
    client.shake(ServerHandshake::new(wanted), Vec::new())?;
    assert_eq!(said(&mut client)?, "from outside");
    client.tls_conn()?;
    Ok(())
}

/// The error that a connection ends with.
fn last_words(stream: &mut TcpStream) -> Result<ErrorPacket> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let last = payloads(&bytes).pop().context("nothing was said")?;
    ErrorPacket::parse(&last)
}

#[test]
fn wrong_late_and_uninvited_headers_are_refused() -> Result<()> {
    let name = "misled";
    let settings = "connect_timeout_client = 1000\nproxy_protocol_networks = [\"127.0.0.1\"]";
    let Some(proxy) = proxy_behind(name, settings)? else { return Ok(()) };
    let oversized = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x21, 0x11, 0xFF, 0xFF]].concat();
    let wrong: [(&[u8], &str); 3] = [
        (b"PROXY TCP4 1.2.3.4 nobody 1 2\r\n", "line is not"),
        (&oversized, "more than 4096"),
        (b"PROXY TCP4 192.0.2.7", "did not come in time"),
    ];
    for (bytes, reason) in wrong {
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port()))?;
        stream.write_all(bytes)?;
        let error = last_words(&mut stream)?;
        ensure!(error.code == 1043 && error.text.contains(reason), "{error:?}");
    }
    let labels = "cause=\"proxy_header\"";
    backends::wait_metric(&proxy, "trunkline_client_refusals_total", labels, |n| n == 3.0)?;
    assert!(proxy.log().contains("balancer 127.0.0.1 sent a PROXY header that is wrong"));

    let Some(stranger) = proxy_behind(name, "")? else { return Ok(()) };
    for header in [from("192.0.2.7"), second(0x21, [192, 0, 2, 7], &[])] {
        let mut stream = TcpStream::connect(("127.0.0.1", stranger.port()))?;
        stream.write_all(&header)?;
        assert_eq!(last_words(&mut stream)?.code, 1043);
    }
    let text = "127.0.0.1 sent a PROXY header, and is not in proxy_protocol_networks";
    assert!(stranger.log().contains(text), "{}", stranger.log());
    // The list is taken over by a reload.
    let config = std::fs::read_to_string(stranger.config_file())?;
    let mark = stranger.reload(&format!("proxy_protocol_networks = [\"*\"]\n{config}"))?;
    stranger.wait_log(mark, "in force", TIMEOUT)?;
    assert_eq!(said(&mut enter(&stranger, name, "192.0.2.7")?)?, "from outside");
    Ok(())
}

#[test]
fn health_checks_make_no_noise() -> Result<()> {
    let name = "healthy";
    let settings = "proxy_protocol_networks = [\"127.0.0.1\"]\nfailed_logins_max = 1";
    let Some(proxy) = proxy_behind(name, settings)? else { return Ok(()) };
    let begun = || Ok(proxy.log().contains("HTTP on").then(|| proxy.log()));
    let before = wait_until("the end of the start", TIMEOUT, begun)?;
    for _ in 0..5 {
        // Connects and closes; with and without waiting for the greeting, and with a header.
        drop(TcpStream::connect(("127.0.0.1", proxy.port()))?);
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port()))?;
        stream.read_exact(&mut [0; HEADER_LEN])?;
        drop(stream);
        let mut stream = TcpStream::connect(("127.0.0.1", proxy.port()))?;
        stream.write_all(&second(0x20, [0; 4], &[]))?;
    }
    let closed = "trunkline_client_connections_closed_total";
    backends::wait_metric(&proxy, closed, "", |count| count >= 15.0)?;
    assert_eq!(proxy.log(), before);
    let metrics = proxy.metrics()?;
    let refusals = metrics.lines().filter(|line| line.starts_with("trunkline_client_refusals"));
    assert!(refusals.clone().all(|line| line.ends_with(" 0")), "{metrics}");
    Ok(())
}

#[test]
fn what_balancers_say_is_in_the_list_of_sessions() -> Result<()> {
    let name = "told_of";
    let settings = "proxy_protocol_networks = [\"127.0.0.1\"]";
    let Some(proxy) = proxy_behind(name, settings)? else { return Ok(()) };
    let tlvs = [&[0x02, 0, 10][..], b"db.example", &[0x05, 0, 4], b"id-7"].concat();
    let header = second(0x21, [192, 0, 2, 9], &tlvs);
    let _client = behind(&proxy, &header, name, PASSWORD)?;
    let (_, sessions) = proxy.http("/sessions")?;
    assert!(sessions.contains("authority=db.example unique_id=id-7"), "{sessions}");
    Ok(())
}

#[test]
fn haproxy_tells_its_clients_addresses() -> Result<()> {
    let name = "haproxied";
    if find_program("haproxy").is_none() {
        skipped(name, "there is no haproxy");
        return Ok(());
    }
    // The balancer comes from an address of its own, which only is trusted.
    let settings = "proxy_protocol_networks = [\"127.0.0.5\"]";
    let Some(proxy) = proxy_behind(name, settings)? else { return Ok(()) };
    let ways = [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id,authority,ssl",
    ];
    for way in ways {
        let words = format!("{way} source 127.0.0.5 check inter 100ms check-send-proxy");
        let balancer = HaProxy::start_with(proxy.port(), &words)?;
        let attempt = || Ok(Wire::login(Endpoint::Tcp(balancer.port()), name, PASSWORD, "").ok());
        let mut client = wait_until("the balancer to serve", TIMEOUT, attempt)?;
        assert_eq!(client.value("SELECT 6")?.as_deref(), Some("6"), "{way}");
        let attempt = Wire::login(Endpoint::Tcp(balancer.port()), name, "wrong", "");
        let error = refused(attempt)?;
        assert!(error.text.contains("'127.0.0.1'"), "{way}: {error:?}");
        // Its checks go on for a while.
        let accepted = "trunkline_client_connections_accepted_total";
        let before = proxy.metric(accepted, "")?.unwrap_or_default();
        backends::wait_metric(&proxy, accepted, "", |count| count >= before + 2.0)?;
    }
    assert!(!proxy.log().contains("PROXY header"), "{}", proxy.log());
    let headers = proxy.metric("trunkline_proxy_headers_total", "")?;
    assert!(headers >= Some(6.0), "{headers:?}");
    // Without a header its clients come from where it does.
    let balancer = HaProxy::start_with(proxy.port(), "source 127.0.0.5")?;
    let attempt = Wire::login(Endpoint::Tcp(balancer.port()), name, "wrong", "");
    assert!(refused(attempt)?.text.contains("'127.0.0.5'"));
    Ok(())
}
