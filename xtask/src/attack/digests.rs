//! Statements of which no two have the same digest.

use anyhow::{Result, bail};
use trunkline_protocol::codec::frame::put_payload;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "digests",
    what: "4 clients, up to 1,000,000 statements with a digest each",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 128, slower: 2.0, answers: &["result"] },
    run,
};

/// Clients, and statements of each.
const CLIENTS: usize = 4;
const STATEMENTS: usize = 250_000;
/// Statements that are sent at once.
const AT_ONCE: usize = 50;

fn run(field: &Field<'_>) -> Result<()> {
    field.crowd(CLIENTS, |client| {
        let mut peer = field.log_in()?;
        for round in 0..STATEMENTS / AT_ONCE {
            if field.is_over() {
                break;
            }
            let mut bytes = Vec::new();
            for number in 0..AT_ONCE {
                let number = round * AT_ONCE + number;
                let statement = format!("\x03SELECT 1 AS by_{client}_number_{number}");
                put_payload(&mut bytes, 0, statement.as_bytes());
            }
            if let Err(answer) = peer.send(&bytes)? {
                bail!("statements were not taken: {answer}");
            }
            for _ in 0..AT_ONCE {
                if let Err(answer) = peer.result()? {
                    bail!("a statement was answered with {answer}");
                }
            }
            field.answered_times("result", AT_ONCE as u64);
        }
        Ok(())
    })
}
