//! Compressed packets that unpack to fifty times what was sent.

use anyhow::{Result, ensure};
use trunkline_compression::Libraries;
use trunkline_protocol::capability::Capabilities;
use trunkline_protocol::codec::compressed::{Compressor, Method};
use trunkline_protocol::codec::frame::put_payload;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "bombs",
    what: "20 clients, compressed packets that unpack to 60 MB of an unfinished statement each",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 256, slower: 2.0, answers: &["refused, the greediest"] },
    run,
};

/// Clients.
const CLIENTS: usize = 20;
/// What one compressed packet unpacks to, bytes.
const PIECE: usize = 15 << 20;
/// Packets of each client.
const PIECES: usize = 4;

fn run(field: &Field<'_>) -> Result<()> {
    let mut plain = Vec::new();
    put_payload(&mut plain, 0, &[b"\x03SELECT '".to_vec(), vec![b'x'; PIECE * PIECES]].concat());
    let mut bytes = Vec::new();
    for (number, piece) in (0_u8..).zip(plain.chunks(PIECE).take(PIECES)) {
        let mut packed = Vec::new();
        ensure!(Libraries::new().compress(Method::Zlib(9), piece, &mut packed), "no bomb");
        for len in [packed.len(), piece.len()] {
            let [a, b, c, ..] = len.to_le_bytes();
            bytes.extend_from_slice(&[a, b, c]);
            bytes.extend(Some(number).filter(|_| len == packed.len()));
        }
        bytes.extend_from_slice(&packed);
    }
    field.crowd(CLIENTS, |_| {
        let mut peer = field.log_in_with(Capabilities::COMPRESS)?;
        let sent = peer.send(&bytes)?;
        // It stays until the end, and never finishes its statement.
        std::thread::sleep(field.left());
        drop((sent, peer));
        Ok(())
    })?;
    field.counted(
        "refused, the greediest",
        "trunkline_memory_refusals_total",
        "reason=\"greediest\"",
    )
}
