//! Guesses at passwords on the admin port.

use anyhow::{Result, ensure};
use trunkline_protocol::capability::Capabilities;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;
use super::peer::Answer;

pub const ATTACK: Attack = Attack {
    name: "admin_guesses",
    what: "4 clients, guesses at one password of the admin port",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 32, slower: 2.0, answers: &["1129"] },
    run,
};

/// Clients.
const CLIENTS: usize = 4;
/// Guesses that may be told that they are wrong: those before the first wait, and one for each
/// client that was on its way.
const TOLD_MAX: u64 = 20;

fn run(field: &Field<'_>) -> Result<()> {
    field.crowd(CLIENTS, |client| {
        for number in 0_u32.. {
            if field.is_over() {
                break;
            }
            let mut peer = field.open(field.proxy.admin_port())?;
            let guess = format!("guess {client} {number}");
            let answer = peer.log_in("stats", &guess, "", Capabilities::EMPTY)?;
            ensure!(answer != Answer::Ok, "a guess was right");
            field.answered(answer);
        }
        Ok(())
    })?;
    let told = field.answers().get("1045").copied().unwrap_or_default();
    ensure!(told <= TOLD_MAX, "{told} guesses were told that they are wrong");
    field.an_administrator_is_served()
}
