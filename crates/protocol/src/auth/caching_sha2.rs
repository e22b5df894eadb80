//! `caching_sha2_password`: SHA-256 challenge and response while the server remembers the
//! password, the password itself (under RSA, or over a secure transport) when it does not.
//!
//! | name | value | who has it |
//! |---|---|---|
//! | stage 1 | `SHA256(password)` | the client; whoever has it can log in by the fast path |
//! | stage 2 | `SHA256(stage 1)` | the server's cache, after a full authentication |
//! | scramble | `stage 1 XOR SHA256(stage 2, nonce)` | the wire |
//! | stored | [`sha256_crypt`](super::sha256_crypt) | the user database |
//!
//! After the scramble the server answers with more data: [`FAST_OK`] (OK follows) or
//! [`FULL_AUTH`]; then the client asks for the RSA key with [`REQUEST_KEY`], gets it as more
//! data, and sends the password with its NUL, combined with the nonce and encrypted
//! (OAEP, SHA-1). An empty password sends one NUL, or nothing, as its scramble.
//! Source: MySQL reference manual "Caching SHA-2 Pluggable Authentication"; MySQL internals.

use sha2::{Digest, Sha256};

use super::{clear, unmask, xor};
use crate::packet::greeting::NONCE_LEN;

/// Bytes of a stage or a scramble.
pub const DIGEST_LEN: usize = 32;
/// Data by which a server says that the scramble was right; OK follows.
pub const FAST_OK: u8 = 0x03;
/// Data by which a server asks for the password itself.
pub const FULL_AUTH: u8 = 0x04;
/// The client's one-byte request for the server's public key.
pub const REQUEST_KEY: u8 = 0x02;
/// The client's one-byte request for the server's public key in `sha256_password`.
pub const REQUEST_KEY_SHA256: u8 = 0x01;

// Of the same shape as in `native`: the hash, its length and the order of what is hashed differ, and
// being generic over these would take more lines than it saved. What is longer is in `super`.

/// `SHA256(password)`.
pub fn stage1(password: &[u8]) -> [u8; DIGEST_LEN] {
    Sha256::digest(password).into()
}

/// `SHA256(stage1)`: what is remembered of a password that has been proven.
pub fn stage2(stage1: &[u8; DIGEST_LEN]) -> [u8; DIGEST_LEN] {
    Sha256::digest(stage1).into()
}

/// The answer to `nonce` of who has `stage1`. Not for an empty password.
pub fn scramble(stage1: &[u8; DIGEST_LEN], nonce: &[u8; NONCE_LEN]) -> [u8; DIGEST_LEN] {
    xor(mask(&stage2(stage1), nonce), stage1)
}

/// Checks an answer to `nonce` against the remembered `stage2`. Returns the client's stage 1,
/// with which the proxy can take the fast path to servers in the client's name.
pub fn verify(
    scramble: &[u8],
    stage2: &[u8; DIGEST_LEN],
    nonce: &[u8; NONCE_LEN],
) -> Option<[u8; DIGEST_LEN]> {
    unmask(scramble, mask(stage2, nonce), stage2, self::stage2)
}

/// Whether a first answer is that of an empty password.
pub fn is_empty_answer(answer: &[u8]) -> bool {
    matches!(answer, [] | [0])
}

/// The password with its NUL, combined with the nonce: the plaintext of the RSA exchange.
pub fn obscure(password: &[u8], nonce: &[u8; NONCE_LEN]) -> Vec<u8> {
    let mut text = Vec::with_capacity(password.len() + 1);
    clear::put(&mut text, password);
    combine(&mut text, nonce);
    text
}

/// The password from what [`obscure`] made; `None` when it does not end with its NUL.
pub fn reveal(mut text: Vec<u8>, nonce: &[u8; NONCE_LEN]) -> Option<Vec<u8>> {
    combine(&mut text, nonce);
    let len = clear::read(&text)?.len();
    text.truncate(len);
    Some(text)
}

fn combine(text: &mut [u8], nonce: &[u8; NONCE_LEN]) {
    for (byte, other) in text.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= other;
    }
}

fn mask(stage2: &[u8; DIGEST_LEN], nonce: &[u8; NONCE_LEN]) -> [u8; DIGEST_LEN] {
    Sha256::new().chain_update(stage2).chain_update(nonce).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = *b"abcdefghij0123456789";

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
        assert_eq!(verify(&[0], &stored, &NONCE), None);
        assert_eq!(verify(&answer[..31], &stored, &NONCE), None);
    }

    #[test]
    fn an_obscured_password_is_revealed() {
        for password in ["", "x", "longer than the twenty bytes of a nonce"] {
            let text = obscure(password.as_bytes(), &NONCE);
            assert_eq!(text.len(), password.len() + 1);
            assert_eq!(reveal(text, &NONCE).as_deref(), Some(password.as_bytes()));
        }
        assert_eq!(reveal(Vec::new(), &NONCE), None);
        assert_eq!(reveal(obscure(b"x", &NONCE), b"another_nonce_abcdef"), None);
    }
}
