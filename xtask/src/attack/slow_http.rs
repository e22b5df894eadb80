//! HTTP requests that come byte by byte.

use anyhow::Result;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "slow_http",
    what: "500 HTTP connections, a byte of a request now and then",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 32, slower: 2.0, answers: &["closed"] },
    run,
};

/// Connections.
const CONNECTIONS: u32 = 500;
/// What they send.
const REQUEST: &[u8] = b"GET /status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

fn run(field: &Field<'_>) -> Result<()> {
    let most = field.within(CONNECTIONS) as usize;
    let mut peers = Vec::new();
    for at in 0.. {
        if field.is_over() {
            break;
        }
        while peers.len() < most {
            peers.push(field.open(field.proxy.http_port())?);
        }
        let byte = REQUEST.get(at..=at).unwrap_or(b"x");
        let mut left = Vec::new();
        for mut peer in peers {
            match peer.send(byte)? {
                Ok(()) => left.push(peer),
                Err(answer) => field.answered(answer),
            }
        }
        peers = left;
        field.probes_are_answered()?;
    }
    Ok(())
}
