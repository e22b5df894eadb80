//! Guesses at the token of the API.

use std::io::Read;

use anyhow::{Result, ensure};

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "http_guesses",
    what: "4 clients, guesses at the token of the HTTP API",
    settings: "http_api_token = \"a token that nobody guesses\"",
    attacker: "",
    promise: Promise { grown_mib: 32, slower: 2.0, answers: &["429"] },
    run,
};

/// Clients.
const CLIENTS: usize = 4;
/// Guesses that may be told that they are wrong.
const TOLD_MAX: u64 = 60;

fn run(field: &Field<'_>) -> Result<()> {
    field.crowd(CLIENTS, |client| {
        for number in 0_u32.. {
            if field.is_over() {
                break;
            }
            let mut peer = field.open(field.proxy.http_port())?;
            let request = format!(
                "GET /api/v1/tables HTTP/1.0\r\nHost: localhost\r\n\
                 Authorization: Bearer guess-{client}-{number}\r\n\r\n"
            );
            if let Err(answer) = peer.send(request.as_bytes())? {
                field.answered(answer);
                continue;
            }
            let mut answer = String::new();
            match peer.stream.read_to_string(&mut answer) {
                Ok(_) => field.answered(answer.get(9..12).unwrap_or("closed")),
                Err(_) => field.answered("closed"),
            }
        }
        Ok(())
    })?;
    let told = field.answers().get("401").copied().unwrap_or_default();
    ensure!(told <= TOLD_MAX, "{told} guesses were told that they are wrong");
    field.probes_are_answered()
}
