//! `client_ed25519`: proves knowledge of a password by a signature. MariaDB from 10.1 on.
//!
//! It is Ed25519, but for where the key comes from: the hash of the password stands where the hash
//! of a seed would.
//!
//! | name | value | who has it |
//! |---|---|---|
//! | secret | `SHA512(password)`: the first half, clamped, is a number; the rest is a prefix | the client |
//! | public key | that number times the base point, 32 bytes | the user database, in base64 without padding |
//! | nonce | 32 bytes in the switch request, without a NUL behind them | the wire |
//! | answer | the signature of the nonce, 64 bytes | the wire |
//!
//! Source: MariaDB knowledge base "Authentication Plugin - ed25519"; RFC 8032, 5.1.

use curve25519_dalek::{
    edwards::{CompressedEdwardsY, EdwardsPoint},
    scalar::{Scalar, clamp_integer},
};
use sha2::{Digest, Sha256, Sha512};

use crate::packet::greeting;

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 32;
/// Bytes of a public key.
pub const KEY_LEN: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_LEN: usize = 64;

/// A nonce made of the greeting's, which is as random and as new. Its last byte is never NUL:
/// go-sql-driver would take that for the end of the text, and refuse the 31 bytes before it.
pub fn nonce(greeted: &[u8; greeting::NONCE_LEN]) -> [u8; NONCE_LEN] {
    let mut nonce: [u8; NONCE_LEN] =
        Sha256::new().chain_update(b"client_ed25519").chain_update(greeted).finalize().into();
    let [.., last] = &mut nonce;
    *last = (*last).max(1);
    nonce
}

/// The public key of a password: what a user database keeps.
pub fn public_key(password: &[u8]) -> [u8; KEY_LEN] {
    Secret::of(password).public_key()
}

/// The answer of who knows the password.
pub fn sign(password: &[u8], nonce: &[u8]) -> [u8; SIGNATURE_LEN] {
    let secret = Secret::of(password);
    let public_key = secret.public_key();
    let once = scalar_of(&[&secret.prefix, nonce]);
    let point = EdwardsPoint::mul_base(&once).compress().to_bytes();
    let challenge = scalar_of(&[&point, &public_key, nonce]);
    let number = once + challenge * secret.number;
    let mut signature = [0; SIGNATURE_LEN];
    let bytes = point.iter().chain(number.as_bytes());
    for (place, byte) in signature.iter_mut().zip(bytes) {
        *place = *byte;
    }
    signature
}

/// Whether an answer to `nonce` was made with the key's password.
pub fn verify(answer: &[u8], public_key: &[u8; KEY_LEN], nonce: &[u8]) -> bool {
    let Some((point, rest)) = answer.split_first_chunk::<32>() else {
        return false;
    };
    let Ok(number) = <[u8; 32]>::try_from(rest) else {
        return false;
    };
    let number = Option::<Scalar>::from(Scalar::from_canonical_bytes(number));
    let key = CompressedEdwardsY(*public_key).decompress();
    let (Some(number), Some(key)) = (number, key) else {
        return false;
    };
    // Any signature would be right for a key of these few points.
    if key.is_small_order() {
        return false;
    }
    let challenge = scalar_of(&[point, public_key, nonce]);
    // All of these are public, so the time need not be constant.
    let expected = EdwardsPoint::vartime_double_scalar_mul_basepoint(&challenge, &-key, &number);
    expected.compress().to_bytes() == *point
}

/// What a password makes.
struct Secret {
    number: Scalar,
    prefix: [u8; 32],
}

impl Secret {
    fn of(password: &[u8]) -> Self {
        let hash: [u8; 64] = Sha512::digest(password).into();
        let (number, prefix) = halves(&hash);
        Self { number: Scalar::from_bytes_mod_order(clamp_integer(number)), prefix }
    }

    fn public_key(&self) -> [u8; KEY_LEN] {
        EdwardsPoint::mul_base(&self.number).compress().to_bytes()
    }
}

fn halves(hash: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    let mut halves = ([0; 32], [0; 32]);
    let places = halves.0.iter_mut().chain(halves.1.iter_mut());
    for (place, byte) in places.zip(hash) {
        *place = *byte;
    }
    halves
}

fn scalar_of(parts: &[&[u8]]) -> Scalar {
    let mut hash = Sha512::new();
    for part in parts {
        hash.update(part);
    }
    Scalar::from_bytes_mod_order_wide(&hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = *b"abcdefghij0123456789abcdefghij01";

    #[test]
    fn public_keys_are_what_servers_store() {
        // The documentation's example, ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY in base64.
        let expected = "648814444520e4f56043a2ec9215e63be7992d2d270bc6dee873e36164786096";
        let stored = public_key(b"secret").map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(stored, expected);
    }

    #[test]
    fn the_right_password_signs() {
        for password in [&b"secret"[..], b"", b"\xFF\xFE"] {
            let key = public_key(password);
            assert!(verify(&sign(password, &NONCE), &key, &NONCE));
        }
    }

    #[test]
    fn anything_else_does_not_verify() {
        let key = public_key(b"secret");
        let answer = sign(b"secret", &NONCE);
        assert!(!verify(&sign(b"Secret", &NONCE), &key, &NONCE));
        assert!(!verify(&answer, &key, b"another nonce of 32 bytes......."));
        assert!(!verify(&answer, &public_key(b"Secret"), &NONCE));
        for at in 0..SIGNATURE_LEN {
            let mut other = answer;
            other[at] ^= 1;
            assert!(!verify(&other, &key, &NONCE), "{at}");
        }
        for len in 0..SIGNATURE_LEN {
            assert!(!verify(&answer[..len], &key, &NONCE), "{len}");
        }
        assert!(!verify(&[&answer[..], &[0]].concat(), &key, &NONCE));
        // The neutral point: with it as the key, 1 and 0 would sign everything.
        let mut neutral = [0; KEY_LEN];
        neutral[0] = 1;
        let forged = [&neutral[..], &[0; 32]].concat();
        assert!(!verify(&forged, &neutral, &NONCE));
    }

    #[test]
    fn nonces_follow_the_greetings() {
        assert_eq!(nonce(b"abcdefghij0123456789"), nonce(b"abcdefghij0123456789"));
        assert_ne!(nonce(b"abcdefghij0123456789"), nonce(b"bbcdefghij0123456789"));
    }

    #[test]
    fn no_nonce_ends_with_a_nul() {
        for number in 1_000_u32..5_000 {
            let mut greeted = *b"abcdefghij0123456789";
            greeted[..4].copy_from_slice(&number.to_be_bytes());
            assert_ne!(nonce(&greeted)[NONCE_LEN - 1], 0);
        }
    }
}
