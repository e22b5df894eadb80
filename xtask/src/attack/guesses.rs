//! Guesses at the password of a user.

use anyhow::{Result, ensure};
use trunkline_protocol::capability::Capabilities;

use super::field::Field;
use super::outcome::Promise;
use super::peer::Answer;
use super::{ATTACKER, Attack};

pub const ATTACK: Attack = Attack {
    name: "guesses",
    what: "4 clients, guesses at one password, `failed_logins_max = 5`",
    settings: "failed_logins_max = 5",
    attacker: "",
    promise: Promise { grown_mib: 32, slower: 2.0, answers: &["1129"] },
    run,
};

/// Clients.
const CLIENTS: usize = 4;

fn run(field: &Field<'_>) -> Result<()> {
    field.crowd(CLIENTS, |client| {
        for number in 0_u32.. {
            if field.is_over() {
                break;
            }
            let mut peer = field.open(field.proxy.port())?;
            let guess = format!("guess {client} {number}");
            let answer = peer.log_in(ATTACKER, &guess, "", Capabilities::EMPTY)?;
            ensure!(answer != Answer::Ok, "a guess was right");
            field.answered(answer);
        }
        Ok(())
    })
}
