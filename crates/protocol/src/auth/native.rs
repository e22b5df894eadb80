//! `mysql_native_password`: proves knowledge of `SHA1(password)` without sending it.
//!
//! | name | value | who has it |
//! |---|---|---|
//! | stage 1 | `SHA1(password)` | the client; whoever has it can log in |
//! | stage 2 | `SHA1(stage 1)` | the user database, written `*` and 40 hex digits |
//! | scramble | `stage 1 XOR SHA1(nonce, stage 2)` | the wire |
//!
//! An empty password sends an empty scramble.
//! Source: MySQL internals "Secure Password Authentication".

use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::{unmask, xor};
use crate::packet::greeting::NONCE_LEN;

/// Bytes of a stage or a scramble.
pub const DIGEST_LEN: usize = 20;

/// `SHA1(password)`.
pub fn stage1(password: &[u8]) -> [u8; DIGEST_LEN] {
    Sha1::digest(password).into()
}

/// `SHA1(stage1)`: what a user database keeps.
pub fn stage2(stage1: &[u8; DIGEST_LEN]) -> [u8; DIGEST_LEN] {
    Sha1::digest(stage1).into()
}

/// The answer to `nonce` of who has `stage1`. Not for an empty password, whose answer is empty.
pub fn scramble(stage1: &[u8; DIGEST_LEN], nonce: &[u8; NONCE_LEN]) -> [u8; DIGEST_LEN] {
    xor(mask(&stage2(stage1), nonce), stage1)
}

/// Checks an answer to `nonce` against the user database's `stage2`. Returns the client's stage 1,
/// with which the proxy can log in to servers in the client's name.
pub fn verify(
    scramble: &[u8],
    stage2: &[u8; DIGEST_LEN],
    nonce: &[u8; NONCE_LEN],
) -> Option<[u8; DIGEST_LEN]> {
    unmask(scramble, mask(stage2, nonce), stage2, self::stage2)
}

fn mask(stage2: &[u8; DIGEST_LEN], nonce: &[u8; NONCE_LEN]) -> [u8; DIGEST_LEN] {
    Sha1::new().chain_update(nonce).chain_update(stage2).finalize().into()
}

/// What tells a client that knows the password that nobody sits between: a hash of what both know
/// and of the certificate that the server showed. MariaDB 11.4 and later end a login through TLS
/// with it, as the info of the OK packet.
///
/// | bytes | meaning |
/// |---|---|
/// | 1 | 0x01 |
/// | 64 | SHA-256 of stage 2, nonce and SHA-256 of the certificate, in upper-case hex digits |
///
/// Source: MariaDB knowledge base "Zero-Configuration SSL"; what Connector/C 3.4 checks.
pub fn certificate_proof(
    stage2: &[u8; DIGEST_LEN],
    nonce: &[u8; NONCE_LEN],
    fingerprint: &[u8; 32],
) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut hash = Sha256::new();
    hash.update(stage2);
    hash.update(nonce);
    hash.update(fingerprint);
    let digit = |value: u8| DIGITS.get(usize::from(value)).copied().unwrap_or_default();
    let digest = hash.finalize();
    let digits = digest.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    std::iter::once(1).chain(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = *b"abcdefghij0123456789";

    #[test]
    fn stage_2_is_what_servers_store() {
        let stored = stage2(&stage1(b"secret")).map(|byte| format!("{byte:02X}")).concat();
        assert_eq!(stored, "14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
    }

    #[test]
    fn the_right_password_verifies_and_gives_its_stage_1() {
        let known = stage1(b"secret");
        let answer = scramble(&known, &NONCE);
        assert_eq!(verify(&answer, &stage2(&known), &NONCE), Some(known));
    }

    #[test]
    fn anything_else_does_not_verify() {
        let stored = stage2(&stage1(b"secret"));
        let answer = scramble(&stage1(b"secret"), &NONCE);
        let wrong = scramble(&stage1(b"Secret"), &NONCE);
        assert_eq!(verify(&wrong, &stored, &NONCE), None);
        assert_eq!(verify(&answer, &stored, b"another_nonce_abcdef"), None);
        assert_eq!(verify(&[], &stored, &NONCE), None);
        assert_eq!(verify(&answer[..19], &stored, &NONCE), None);
    }
}
