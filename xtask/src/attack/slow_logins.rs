//! Logins that come byte by byte.

use anyhow::Result;
use trunkline_protocol::capability::Capabilities;

use super::field::Field;
use super::outcome::Promise;
use super::peer::response;
use super::{ATTACKER, Attack};
use crate::watch::SCHEMA;

pub const ATTACK: Attack = Attack {
    name: "slow_logins",
    what: "2,000 logins, a byte of each now and then",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 64, slower: 2.0, answers: &["still logging in"] },
    run,
};

/// Connections.
const CONNECTIONS: u32 = 2_000;

fn run(field: &Field<'_>) -> Result<()> {
    let mut peers = Vec::new();
    for _ in 0..field.within(CONNECTIONS) {
        let mut peer = field.open(field.proxy.port())?;
        if let Ok((_, greeting)) = peer.packet()? {
            let response = response(&greeting, ATTACKER, ATTACKER, SCHEMA, Capabilities::EMPTY)?;
            peers.push((peer, response));
        }
    }
    for at in 0.. {
        if field.is_over() {
            break;
        }
        let mut left = Vec::new();
        for (mut peer, response) in peers {
            // The last byte is never sent.
            let byte = response.get(at..=at).filter(|_| at + 1 < response.len());
            match byte.map(|byte| peer.send(byte)).transpose()? {
                Some(Ok(())) | None => left.push((peer, response)),
                Some(Err(answer)) => field.answered(answer),
            }
        }
        peers = left;
        field.a_newcomer_is_served()?;
    }
    field.answered_times("still logging in", peers.len() as u64);
    Ok(())
}
