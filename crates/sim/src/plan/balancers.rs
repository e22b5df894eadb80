//! Balancers in front of clients, which tell by the PROXY protocol where those come from; some of
//! what they tell is wrong, and must be refused.

use super::Plan;
use crate::{driver::peer_of, rng::Rng};

/// What version 2 begins with, and its command to serve a client.
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21";
/// The error of a header that is wrong, or comes from where none is taken.
const REFUSED: u16 = 1043;

/// Adds to a plan what its seed draws.
pub(super) fn draw(rng: &mut Rng, plan: &mut Plan) {
    if !rng.chance(1, 4) {
        return;
    }
    let is_taken = rng.chance(5, 6);
    let max = rng.pick(&[0, 1_000]).copied().unwrap_or_default();
    for config in &mut plan.configs {
        let network = if is_taken { "[\"198.51.100.0/24\"]" } else { "[\"203.0.113.0/24\"]" };
        config.words.insert("proxy_protocol_networks", network.into());
        config.settings.insert("max_connections_per_address", max);
        config.settings.insert("failed_logins_max", max);
    }
    for client in &mut plan.clients {
        // A balancer is not behind a Unix socket here.
        if peer_of(client.place).is_local || !rng.chance(2, 3) {
            continue;
        }
        let is_wrong = rng.chance(1, 8);
        client.header = if is_wrong { wrong(rng) } else { right(rng) };
        if is_wrong || !is_taken {
            // The answer is in the clear, whatever has been agreed on meanwhile.
            client.encrypts = false;
            client.refusal = Some(REFUSED);
        }
    }
}

/// A header that says where a client comes from, or that it does not say it.
fn right(rng: &mut Rng) -> Vec<u8> {
    let last = rng.between(1, 250);
    match rng.below(6) {
        0 => b"PROXY UNKNOWN\r\n".to_vec(),
        1 => format!("PROXY TCP4 203.0.113.{last} 192.0.2.1 40000 6033\r\n").into_bytes(),
        2 => format!("PROXY TCP6 2001:db8::{last} 2001:db8::1 40000 6033\r\n").into_bytes(),
        3 => {
            let last = u8::try_from(last).unwrap_or_default();
            let body = [203, 0, 113, last, 192, 0, 2, 1, 156, 64, 23, 145];
            // What the balancer knows beside: a name, an id within TLS, padding.
            let tlvs = b"\x02\x00\x04name\x20\x00\x0d\x01\0\0\0\0\x21\x00\x05TLSv1\x04\x00\x01\0";
            version_2(0x11, &[&body[..], tlvs].concat())
        }
        4 => version_2(0x21, &[7; 36]),
        _ => version_2(0, b"anything"),
    }
}

fn wrong(rng: &mut Rng) -> Vec<u8> {
    match rng.below(5) {
        0 => b"PROXY TCP4 203.0.113.1 192.0.2.1 40000\r\n".to_vec(),
        1 => b"PROXY TCP4 2001:db8::2 192.0.2.1 40000 6033\r\n".to_vec(),
        2 => [&b"PROXY UNKNOWN "[..], &[b'x'; 200]].concat(),
        3 => version_2(0x11, &[1; 5]),
        // What is behind the addresses is no list.
        _ => version_2(0x11, &[1; 14]),
    }
}

fn version_2(family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap_or_default().to_be_bytes();
    [SIGNATURE_2, &[family], &len, body].concat()
}
