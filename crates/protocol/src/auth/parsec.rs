//! `parsec`: a signature with a key that is derived from the password and a salt. MariaDB from 11.6
//! on.
//!
//! | who | sends |
//! |---|---|
//! | server | in the switch request: 32 random bytes |
//! | client | an empty packet |
//! | server | `P`, the factor, the salt: rounds of the derivation are 1,024 << factor |
//! | client | 32 bytes of its own, and the signature (Ed25519) of both ends' bytes |
//!
//! The key's seed is `PBKDF2-HMAC-SHA512(password, salt, rounds)`, 32 bytes. A server stores
//! `P`, the factor as a digit, `:`, the salt in base64, `:`, the public key in base64.
//! Source: MariaDB knowledge base "Authentication Plugin - PARSEC"; RFC 8018, 5.2; RFC 8032, 5.1.

use sha2::{Digest, Sha256, Sha512};

use super::{ed25519, is_equal};
use crate::packet::greeting;

/// Bytes of either end's nonce.
pub const NONCE_LEN: usize = 32;
/// Bytes of an answer: the client's nonce and the signature.
pub const ANSWER_LEN: usize = NONCE_LEN + ed25519::SIGNATURE_LEN;
/// The derivation that is meant by what a server sends and stores: PBKDF2 with SHA-512.
pub const DERIVATION: u8 = b'P';
/// The longest salt that is taken.
pub const SALT_LEN_MAX: usize = 64;
/// Servers that ask for more rounds are not obeyed: 262,144 of them take a good part of a second.
pub const FACTOR_MAX: u8 = 8;

/// Bytes of a block of SHA-512.
const BLOCK_LEN: usize = 128;

/// What a key is derived with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// Rounds are 1,024 << factor; at most [`FACTOR_MAX`].
    pub factor: u8,
    /// The salt, at most [`SALT_LEN_MAX`] bytes.
    pub salt: Vec<u8>,
}

impl Derivation {
    /// Reads what a server sends in answer to the empty packet.
    pub fn parse(sent: &[u8]) -> Option<Self> {
        let [DERIVATION, factor, salt @ ..] = sent else { return None };
        let is_fit = *factor <= FACTOR_MAX && (1..=SALT_LEN_MAX).contains(&salt.len());
        is_fit.then(|| Self { factor: *factor, salt: salt.to_vec() })
    }

    /// What a server sends in answer to the empty packet.
    pub fn encode(&self) -> Vec<u8> {
        [&[DERIVATION, self.factor], &self.salt[..]].concat()
    }

    /// One that looks like it, always the same one for a name.
    #[must_use]
    pub fn of_nobody(&self, name: &[u8]) -> Self {
        let hash: [u8; 64] =
            Sha512::new().chain_update(&self.salt).chain_update(name).finalize().into();
        let salt = hash.iter().copied().take(self.salt.len()).collect();
        Self { factor: self.factor, salt }
    }

    /// The seed of a password's key. Costs 1,024 << factor rounds, a millisecond and more: not for
    /// a thread that serves others.
    pub fn seed(&self, password: &[u8]) -> [u8; 32] {
        let rounds = 1_024_u32 << self.factor.min(FACTOR_MAX);
        let keyed = Keyed::new(password);
        // One block of 64 bytes is more than enough; its number is 1.
        let mut last = keyed.hash(&[&self.salt, &1_u32.to_be_bytes()]);
        let mut sum = last;
        for _ in 1..rounds {
            last = keyed.hash(&[&last]);
            for (byte, other) in sum.iter_mut().zip(&last) {
                *byte ^= other;
            }
        }
        sum.first_chunk().copied().unwrap_or_default()
    }

    /// The public key of a password: what a user database keeps. Costs what [`seed`](Self::seed)
    /// does.
    pub fn public_key(&self, password: &[u8]) -> [u8; ed25519::KEY_LEN] {
        ed25519::public_key(&self.seed(password))
    }
}

/// What a server stores of a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What the key was derived with.
    pub derivation: Derivation,
    /// The public key.
    pub key: [u8; ed25519::KEY_LEN],
}

impl Stored {
    /// Reads `P`, the factor as a digit, `:`, the salt, `:`, the key.
    pub fn parse(stored: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(stored).ok()?;
        let mut parts = text.strip_prefix('P')?.split(':');
        let factor: u8 = parts.next().filter(|digit| digit.len() == 1)?.parse().ok()?;
        let salt = base64(parts.next()?)?;
        let key = base64(parts.next()?)?.try_into().ok()?;
        let derivation = Derivation::parse(&Derivation { factor, salt }.encode())?;
        parts.next().is_none().then_some(Self { derivation, key })
    }

    /// Whether a password is the one that this was made of. Costs what
    /// [`seed`](Derivation::seed) does.
    pub fn is_of(&self, password: &[u8]) -> bool {
        is_equal(&self.derivation.public_key(password), &self.key)
    }
}

/// Bytes of base64, with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.trim_end_matches('=');
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0_u32);
    for character in digits.bytes() {
        let digit = DIGITS.iter().position(|known| *known == character)?;
        bits = (bits << 6 | u32::try_from(digit).ok()?) & 0xFF_FFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xFF).ok()?);
        }
    }
    let rest = bits & ((1 << held) - 1);
    (rest == 0 && digits.len() % 4 != 1).then_some(bytes)
}

/// HMAC with SHA-512, its key put in.
struct Keyed {
    inner: Sha512,
    outer: Sha512,
}

impl Keyed {
    fn new(key: &[u8]) -> Self {
        let mut block = [0; BLOCK_LEN];
        let hashed: [u8; 64];
        let key = match key.len() <= BLOCK_LEN {
            true => key,
            false => {
                hashed = Sha512::digest(key).into();
                &hashed[..]
            }
        };
        for (place, byte) in block.iter_mut().zip(key) {
            *place = *byte;
        }
        let inner = Sha512::new().chain_update(block.map(|byte| byte ^ 0x36));
        let outer = Sha512::new().chain_update(block.map(|byte| byte ^ 0x5C));
        Self { inner, outer }
    }

    fn hash(&self, parts: &[&[u8]]) -> [u8; 64] {
        let mut inner = self.inner.clone();
        for part in parts {
            inner.update(part);
        }
        self.outer.clone().chain_update(inner.finalize()).finalize().into()
    }
}

/// A nonce made of the greeting's, which is as random and as new.
pub fn nonce(greeted: &[u8; greeting::NONCE_LEN]) -> [u8; NONCE_LEN] {
    Sha256::new().chain_update(b"parsec").chain_update(greeted).finalize().into()
}

/// The answer to a server's nonce of who has the seed. The client's own bytes are a hash of both,
/// which nobody else can foretell.
pub fn answer(seed: &[u8; 32], nonce: &[u8]) -> [u8; ANSWER_LEN] {
    let own: [u8; NONCE_LEN] = Sha256::new()
        .chain_update(b"parsec")
        .chain_update(seed)
        .chain_update(nonce)
        .finalize()
        .into();
    let signature = ed25519::sign(seed, &[nonce, &own].concat());
    let mut answer = [0; ANSWER_LEN];
    for (place, byte) in answer.iter_mut().zip(own.iter().chain(&signature)) {
        *place = *byte;
    }
    answer
}

/// Whether an answer to `nonce` was made with the key's password.
pub fn verify(answer: &[u8], public_key: &[u8; ed25519::KEY_LEN], nonce: &[u8]) -> bool {
    let Some((own, signature)) = answer.split_at_checked(NONCE_LEN) else {
        return false;
    };
    ed25519::verify(signature, public_key, &[nonce, own].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; NONCE_LEN] = *b"abcdefghij0123456789abcdefghij01";

    fn derivation(factor: u8, salt: &[u8]) -> Derivation {
        Derivation { factor, salt: salt.to_vec() }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn seeds_are_those_of_pbkdf2() {
        // Made with Python: hashlib.pbkdf2_hmac("sha512", password, salt, 1024 << factor, 32).
        for (password, salt, factor, expected) in VECTORS {
            let seed = derivation(factor, salt).seed(password);
            assert_eq!(hex(&seed), expected);
        }
    }

    #[test]
    fn the_right_password_answers() {
        for password in [&b"secret"[..], b"", b"\xFF\xFE"] {
            let derivation = derivation(0, b"eighteen bytes ...");
            let key = derivation.public_key(password);
            let given = answer(&derivation.seed(password), &NONCE);
            assert!(verify(&given, &key, &NONCE));
            for at in 0..ANSWER_LEN {
                let mut other = given;
                other[at] ^= 1;
                assert!(!verify(&other, &key, &NONCE), "{at}");
            }
            assert!(!verify(&given, &key, b"another nonce of 32 bytes......."));
            assert!(!verify(&given[..NONCE_LEN - 1], &key, &NONCE));
            assert!(!verify(&given, &derivation.public_key(b"Secret"), &NONCE));
        }
    }

    #[test]
    fn what_a_server_stores_is_read() {
        // Salt and key of RFC 8032's first test, in base64.
        let text = b"P0:ZWlnaHRlZW4gYnl0ZXMgLi4u:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let stored = Stored::parse(text).expect("stored");
        assert_eq!(stored.derivation, derivation(0, b"eighteen bytes ..."));
        let key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(hex(&stored.key), key);
        assert!(!stored.is_of(b"secret"));
        let own = Stored { key: stored.derivation.public_key(b"secret"), ..stored };
        assert!(own.is_of(b"secret") && !own.is_of(b"Secret"));
        for wrong in ["", "P0", "P0:ZWln", "P0:ZWln:11qY", "Q0:ZWln:11qY", "P:ZWln:11qY"] {
            assert_eq!(Stored::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_server_sends_is_read_back() {
        let sent = derivation(3, b"eighteen bytes ...");
        assert_eq!(Derivation::parse(&sent.encode()), Some(sent));
        assert_eq!(Derivation::parse(b"P\x00"), None);
        assert_eq!(Derivation::parse(b"P\x09salt"), None);
        assert_eq!(Derivation::parse(b"Q\x00salt"), None);
        assert_eq!(Derivation::parse(&derivation(0, &[1; SALT_LEN_MAX + 1]).encode()), None);
    }

    const VECTORS: [(&[u8], &[u8], u8, &str); 3] = [
        (
            b"secret",
            b"eighteen bytes ...",
            0,
            "d2405e8ffb4ce05fdd889d11376864c4465e7db966b08a3449171a828cbe0b07",
        ),
        (b"", b"salt", 1, "35f714d09fc952c6a401e07081ac644e1e090de3c8744c28af0dd19396faee9d"),
        (
            b"a password that is longer than the block of the hash function, w\
              hich has one hundred and twenty-eight bytes, so that it is hashed first",
            b"\x00\x01\x02",
            2,
            "f0c707ff605d58554044eb7f5895ab1436c4c6d2a7cb999da7ff367f09592824",
        ),
    ];
}
