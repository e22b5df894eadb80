//! Beginnings of TLS handshakes, for which the proxy signs and the attacker does not.

use std::io::Read;
use std::time::Instant;

use anyhow::{Result, ensure};
use trunkline_protocol::codec::frame::put_payload;

use super::Attack;
use super::field::Field;
use super::outcome::Promise;

pub const ATTACK: Attack = Attack {
    name: "tls_handshakes",
    what: "4 clients, TLS handshakes on the admin port that end behind the first message",
    settings: "",
    attacker: "",
    promise: Promise { grown_mib: 32, slower: 2.0, answers: &["signed"] },
    run,
};

/// Clients.
const CLIENTS: usize = 4;
/// Handshakes that may be answered in a second, at most.
const PER_SECOND_MAX: u64 = 60;

fn run(field: &Field<'_>) -> Result<()> {
    let hello = client_hello();
    let begun = Instant::now();
    field.crowd(CLIENTS, |_| {
        while !field.is_over() {
            let mut peer = field.open(field.proxy.admin_port())?;
            if let Err(answer) = peer.packet()? {
                field.answered(answer);
                continue;
            }
            if let Err(answer) = peer.send(&hello)? {
                field.answered(answer);
                continue;
            }
            let mut first = [0];
            match peer.stream.read(&mut first) {
                // A record of the handshake.
                Ok(1) if first == [0x16] => field.answered("signed"),
                Ok(_) => field.answered("refused"),
                Err(_) => field.answered("closed"),
            }
        }
        Ok(())
    })?;
    let signed = field.answers().get("signed").copied().unwrap_or_default();
    let most = (begun.elapsed().as_secs() + 1) * PER_SECOND_MAX;
    ensure!(signed <= most, "{signed} handshakes were answered, {most} at most are promised");
    field.an_administrator_is_served()
}

/// A request for TLS, and the first message of TLS 1.3 with a key that nobody knows.
fn client_hello() -> Vec<u8> {
    let mut request = 0x0000_AA00_u32.to_le_bytes().to_vec();
    request.extend_from_slice(&[0, 0, 0, 1, 45]);
    request.resize(32, 0);
    let mut bytes = Vec::new();
    put_payload(&mut bytes, 1, &request);
    let extension = |kind: u16, body: &[u8]| {
        let len = u16::try_from(body.len()).unwrap_or_default();
        [&kind.to_be_bytes()[..], &len.to_be_bytes(), body].concat()
    };
    let key_share = [&[0, 36, 0, 0x1D, 0, 32][..], &[9; 32]].concat();
    let extensions = [
        extension(0x0000, b"\x00\x0c\x00\x00\x09localhost"),
        extension(0x000A, &[0, 2, 0, 0x1D]),
        extension(0x000D, &[0, 8, 4, 3, 8, 4, 8, 7, 5, 3]),
        extension(0x002B, &[2, 3, 4]),
        extension(0x0033, &key_share),
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 4, 0x13, 1, 0x13, 2, 1, 0]);
    let len = u16::try_from(extensions.len()).unwrap_or_default();
    body.extend_from_slice(&len.to_be_bytes());
    body.extend_from_slice(&extensions);
    let len = u16::try_from(body.len()).unwrap_or_default();
    let [high, low] = len.to_be_bytes();
    let record_len = (len + 4).to_be_bytes();
    bytes.extend_from_slice(&[0x16, 3, 1]);
    bytes.extend_from_slice(&record_len);
    bytes.extend_from_slice(&[1, 0, high, low]);
    bytes.extend_from_slice(&body);
    bytes
}
