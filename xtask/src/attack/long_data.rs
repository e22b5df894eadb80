//! Long data of prepared statements, which nothing answers.

use anyhow::{Context, Result, bail};

use super::Attack;
use super::field::Field;
use super::outcome::Promise;
use super::peer::{Answer, Peer};

pub const ATTACK: Attack = Attack {
    name: "long_data",
    what: "20 clients, 60 MB each of long data for a prepared statement",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["1041"] },
    run,
};

/// Clients.
const CLIENTS: usize = 20;
/// Pieces of a client, and the length of each, bytes.
const PIECES: usize = 60;
const PIECE: usize = 1 << 20;

fn run(field: &Field<'_>) -> Result<()> {
    field.crowd(CLIENTS, |_| {
        let mut peer = field.log_in()?;
        let answer = send_long_data(&mut peer, PIECES, PIECE)?;
        std::thread::sleep(field.left());
        let answer = match answer {
            Ok(stmt_id) => execute(&mut peer, &stmt_id)?,
            Err(answer) => answer,
        };
        field.answered(answer);
        Ok(())
    })
}

/// Prepares a statement and sends long data for it; the statement's number.
pub fn send_long_data(
    peer: &mut Peer<'_>,
    pieces: usize,
    len: usize,
) -> Result<Result<[u8; 4], Answer>> {
    if let Err(answer) = peer.command(0x16, b"SELECT length(?)")? {
        return Ok(Err(answer));
    }
    let prepared = match peer.packet()? {
        Ok((_, prepared)) if prepared.first() == Some(&0) => prepared,
        Ok((_, refused)) => bail!("PREPARE: {}", String::from_utf8_lossy(&refused)),
        Err(answer) => return Ok(Err(answer)),
    };
    let stmt_id: [u8; 4] = prepared.get(1..5).context("a number")?.try_into()?;
    // The parameter and the column, each with an EOF.
    for _ in 0..4 {
        if let Err(answer) = peer.packet()? {
            return Ok(Err(answer));
        }
    }
    let piece = [&stmt_id[..], &[0, 0], &vec![b'x'; len]].concat();
    for _ in 0..pieces {
        if let Err(answer) = peer.command(0x18, &piece)? {
            return Ok(Err(answer));
        }
    }
    Ok(Ok(stmt_id))
}

/// Executes the statement with what was sent for it.
pub fn execute(peer: &mut Peer<'_>, stmt_id: &[u8; 4]) -> Result<Answer> {
    let execution = [&stmt_id[..], &[0, 1, 0, 0, 0, 0, 1, 0xFC, 0]].concat();
    match peer.command(0x17, &execution)? {
        Ok(()) => peer.answer(),
        Err(answer) => Ok(answer),
    }
}
