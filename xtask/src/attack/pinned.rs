//! Sessions that keep a connection to the server each.

use anyhow::Result;
use trunkline_protocol::capability::Capabilities;

use super::field::Field;
use super::outcome::Promise;
use super::peer::Answer;
use super::{ATTACKER, Attack};
use crate::watch::SCHEMA;

pub const ATTACK: Attack = Attack {
    name: "pinned",
    what: "2,000 sessions with a temporary table each, by a user with `max_connections = 100`",
    settings: "",
    attacker: "max_connections = 100",
    promise: Promise { grown_mib: 128, slower: 2.0, answers: &["OK"] },
    run,
};

/// Sessions that are wanted.
const SESSIONS: u32 = 2_000;
/// Threads that open them.
const THREADS: usize = 50;

fn run(field: &Field<'_>) -> Result<()> {
    let each = field.within(SESSIONS) as usize / THREADS;
    field.crowd(THREADS, |_| {
        let mut kept = Vec::new();
        for _ in 0..each {
            if field.is_over() {
                break;
            }
            let mut peer = field.open(field.proxy.port())?;
            let mut answer = peer.log_in(ATTACKER, ATTACKER, SCHEMA, Capabilities::EMPTY)?;
            if answer == Answer::Ok {
                answer = peer.ask("CREATE TEMPORARY TABLE own (id INT)")?;
                kept.push(peer);
            }
            field.answered(answer);
        }
        std::thread::sleep(field.left());
        Ok(())
    })
}
