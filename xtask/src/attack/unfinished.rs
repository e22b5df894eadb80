//! Long statements that are never finished.

use anyhow::Result;
use trunkline_protocol::codec::frame::put_payload;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "unfinished",
    what: "20 clients, 62 MB each of a statement that they finish only at the end",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["1041"] },
    run,
};

/// Clients.
const CLIENTS: usize = 20;
/// Length of each statement, bytes.
const LEN: usize = 62 << 20;
/// What is held back.
const LAST: usize = 1_000;

fn run(field: &Field<'_>) -> Result<()> {
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 0, &[b"\x03DO '".to_vec(), vec![b'x'; LEN], vec![b'\'']].concat());
    let (begin, end) = bytes.split_at(bytes.len() - LAST);
    field.crowd(CLIENTS, |_| {
        let mut peer = field.log_in()?;
        if let Err(answer) = peer.send(begin)? {
            field.answered(format!("{answer} (not read any more)"));
            return Ok(());
        }
        std::thread::sleep(field.left());
        let answer = match peer.send(end)? {
            Ok(()) => peer.answer()?,
            Err(answer) => answer,
        };
        field.answered(answer);
        Ok(())
    })
}
