//! Memory has one budget, and one long statement keeps nobody waiting.

use std::thread;

use anyhow::Result;
use trunkline_compression::Libraries;
use trunkline_protocol::codec::compressed::{Compressor, Method};
use trunkline_protocol::{Capabilities, codec::frame::PAYLOAD_MAX};
use trunkline_testkit::wait_until;

use crate::backends::{self, Config, PASSWORD, TIMEOUT};
use crate::wire::{PLAIN, Wire, login};

/// Clients that use memory up.
const GREEDY: usize = 12;
/// Bytes that each of them has the proxy hold, if it can: in all, thrice the budget.
const HELD: usize = 12 << 20;
/// The budget, and what the proxy's memory grows by at most.
const BUDGET: u64 = 48 << 20;

/// The begin of a statement in more than one packet.
fn begin_of_statement() -> Vec<u8> {
    let mut bytes = vec![0xFF, 0xFF, 0xFF, 0];
    bytes.extend_from_slice(b"\x03INSERT INTO t VALUES ('");
    bytes.resize(HELD, b'x');
    bytes
}

/// The begin of a statement in more than one packet, in one compressed packet.
fn bomb() -> Vec<u8> {
    let plain = begin_of_statement();
    let mut packed = Vec::new();
    assert!(Libraries::new().compress(Method::Zlib(6), &plain, &mut packed));
    assert!(HELD < PAYLOAD_MAX && packed.len() < HELD / 100);
    let ([a, b, c, ..], [d, e, f, ..]) = (packed.len().to_le_bytes(), HELD.to_le_bytes());
    [&[a, b, c, 0, d, e, f], &packed[..]].concat()
}

/// Clients with these capabilities send these bytes, and wait: the proxy stays within its budget,
/// refuses the greediest, and serves another client.
fn check(name: &str, capabilities: Capabilities, bytes: &[u8]) -> Result<()> {
    let Some(server) = backends::mariadb(name)? else { return Ok(()) };
    backends::account(server, name)?;
    let proxy = Config::new(&format!("memory_max = {BUDGET}"), server).user(name).start()?;
    let mut other = Wire::login(&proxy, name, PASSWORD, "")?;
    let greedy = (0..GREEDY)
        .map(|_| Wire::login_with(&proxy, login(name, PASSWORD, "", PLAIN | capabilities)))
        .collect::<Result<Vec<_>>>()?;
    let before = proxy.rss_bytes()?;
    let mut most = 0;
    thread::scope(|scope| {
        for mut client in greedy {
            // What is not read any more is given up when the proxy has gone.
            scope.spawn(move || client.send_bytes(bytes));
        }
        let done = wait_until("the greediest is refused", TIMEOUT, || {
            most = most.max(proxy.rss_bytes()?);
            assert_eq!(other.value("SELECT 5")?.as_deref(), Some("5"));
            let label = "reason=\"greediest\"";
            let refused = proxy.metric("trunkline_memory_refusals_total", label)?;
            Ok((refused.unwrap_or_default() >= 1.0).then_some(()))
        });
        let charged = proxy.metric("trunkline_memory_charged_bytes", "kind=\"statements\"");
        drop(proxy);
        done?;
        assert!(charged?.unwrap_or_default() > 0.0);
        let grown = most.saturating_sub(before);
        assert!(grown < BUDGET, "the proxy's memory grew by {grown} bytes");
        Ok(())
    })
}

#[test]
fn unfinished_statements_stay_within_the_budget() -> Result<()> {
    check("unfinished_within_the_budget", Capabilities::EMPTY, &begin_of_statement())
}

#[test]
fn compressed_bombs_stay_within_the_budget() -> Result<()> {
    check("bombs_within_the_budget", Capabilities::COMPRESS, &bomb())
}

/// What is refused for want of memory is answered with the error when it has come, and the session
/// goes on.
#[test]
fn a_statement_that_finds_no_memory_is_refused_and_its_session_goes_on() -> Result<()> {
    let name = "no_memory";
    let Some(server) = backends::mariadb("a_statement_that_finds_no_memory")? else {
        return Ok(());
    };
    backends::account(server, name)?;
    let proxy = Config::new("memory_max = 4194304", server).user(name).start()?;
    let mut client = Wire::login(&proxy, name, PASSWORD, "")?;
    let error = client.fails(&format!("SELECT LENGTH('{}')", "x".repeat(3 << 20)))?;
    let (code, state, text) = error.parts();
    assert_eq!((code, state), (1041, "HY000"));
    assert!(text.starts_with("Out of memory: 3145"), "{text}");
    let fits = format!("SELECT LENGTH('{}')", "x".repeat(1 << 20));
    assert_eq!(client.value(&fits)?.as_deref(), Some("1048576"));
    Ok(())
}
