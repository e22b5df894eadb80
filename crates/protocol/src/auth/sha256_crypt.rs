//! The stored form of a `caching_sha2_password` password: sha256-crypt with a salt of 20 bytes; and
//! that of `sha256_password`, which is `$5$`, the salt, `$` and the digest, of 5,000 rounds.
//!
//! | bytes | meaning |
//! |---|---|
//! | 3 | `$A$` |
//! | 3 | rounds in thousands, hex digits: `005` |
//! | 1 | `$` |
//! | 20 | salt, any bytes |
//! | 43 | digest in crypt's base 64 |
//!
//! Sources: Ulrich Drepper, "Unix crypt using SHA-256 and SHA-512" (steps are numbered as there);
//! MySQL reference manual "Caching SHA-2 Pluggable Authentication". The tests' hashes come from
//! a MySQL 9.7.4 server.

use sha2::{Digest, Sha256};

use super::is_equal;

/// Bytes of a stored password.
pub const STORED_LEN: usize = 70;
/// Bytes of a stored password of `sha256_password`.
pub const SHA256_STORED_LEN: usize = 67;
/// The longest password that servers accept; longer ones never verify.
pub const PASSWORD_LEN_MAX: usize = 256;

const SALT_LEN: usize = 20;
const DIGEST_TEXT_LEN: usize = 43;
const ROUNDS_UNIT: u32 = 1000;

/// Crypt's base 64 takes the digest's bytes in this order, three at a time, and the last two.
const DIGEST_ORDER: [[usize; 3]; 10] = [
    [0, 10, 20],
    [21, 1, 11],
    [12, 22, 2],
    [3, 13, 23],
    [24, 4, 14],
    [15, 25, 5],
    [6, 16, 26],
    [27, 7, 17],
    [18, 28, 8],
    [9, 19, 29],
];
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A stored password taken apart.
struct Stored<'a> {
    rounds: u32,
    salt: &'a [u8; SALT_LEN],
    digest: &'a [u8; DIGEST_TEXT_LEN],
}

impl<'a> Stored<'a> {
    fn parse(stored: &'a [u8]) -> Option<Self> {
        if let Some(rest) = stored.strip_prefix(b"$5$") {
            let (salt, rest) = rest.split_first_chunk()?;
            let digest = rest.strip_prefix(b"$")?.try_into().ok()?;
            return Some(Self { rounds: 5 * ROUNDS_UNIT, salt, digest });
        }
        let rest = stored.strip_prefix(b"$A$")?;
        let (digits, rest) = rest.split_first_chunk::<3>()?;
        let rest = rest.strip_prefix(b"$")?;
        let (salt, rest) = rest.split_first_chunk()?;
        let digest = rest.try_into().ok()?;
        let thousands = digits
            .iter()
            .try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))?;
        (thousands > 0).then_some(Self { rounds: thousands * ROUNDS_UNIT, salt, digest })
    }
}

/// Whether `password` is the one that `stored` was made of.
///
/// Costs some thousand SHA-256 blocks (5,000 rounds take milliseconds), at most four million:
/// not for a thread that serves others. `false` too when `stored` has another form.
pub fn verify(password: &[u8], stored: &[u8]) -> bool {
    let Some(stored) = Stored::parse(stored) else {
        return false;
    };
    if password.len() > PASSWORD_LEN_MAX {
        return false;
    }
    is_equal(&encode(&digest(password, stored.salt, stored.rounds)), stored.digest)
}

/// The stored form of `password` with 5,000 rounds, as servers make it. Costs what [`verify`] does.
pub fn stored(password: &[u8], salt: &[u8; SALT_LEN]) -> Vec<u8> {
    let digest = encode(&digest(password, salt, 5 * ROUNDS_UNIT));
    [&b"$A$005$"[..], salt, &digest].concat()
}

/// Steps 1 to 21: the digest before its encoding.
fn digest(password: &[u8], salt: &[u8; SALT_LEN], rounds: u32) -> [u8; 32] {
    let mut sum = first_digest(password, salt);
    let [first, ..] = sum;
    // Steps 13 to 20: the password and the salt, each as long as before but hashed.
    let password_sum = hash_repeated(password, password.len());
    let password_bytes: Vec<u8> =
        password_sum.iter().copied().cycle().take(password.len()).collect();
    let salt_sum = hash_repeated(salt, 16 + usize::from(first));
    let salt_bytes: Vec<u8> = salt_sum.iter().copied().cycle().take(salt.len()).collect();
    // Step 21.
    for round in 0..rounds {
        let is_odd = round % 2 == 1;
        let mut hasher = Sha256::new();
        hasher.update(if is_odd { &password_bytes[..] } else { &sum[..] });
        if round % 3 != 0 {
            hasher.update(&salt_bytes);
        }
        if round % 7 != 0 {
            hasher.update(&password_bytes);
        }
        hasher.update(if is_odd { &sum[..] } else { &password_bytes[..] });
        sum = hasher.finalize().into();
    }
    sum
}

/// Steps 1 to 12.
fn first_digest(password: &[u8], salt: &[u8]) -> [u8; 32] {
    let inner: [u8; 32] = Sha256::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut hasher = Sha256::new().chain_update(password).chain_update(salt);
    for block in password.chunks(inner.len()) {
        let (part, _) = inner.split_at(block.len());
        hasher.update(part);
    }
    let mut bits = password.len();
    while bits > 0 {
        hasher.update(if bits & 1 == 1 { &inner[..] } else { password });
        bits >>= 1;
    }
    hasher.finalize().into()
}

fn hash_repeated(bytes: &[u8], times: usize) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for _ in 0..times {
        hasher.update(bytes);
    }
    hasher.finalize().into()
}

/// Step 22.
fn encode(digest: &[u8; 32]) -> [u8; DIGEST_TEXT_LEN] {
    let byte = |index: usize| digest.get(index).map_or(0, |byte| u32::from(*byte));
    let mut text = [0; DIGEST_TEXT_LEN];
    let mut slots = text.iter_mut();
    let mut put = |mut bits: u32, chars: usize| {
        for slot in slots.by_ref().take(chars) {
            let low = usize::try_from(bits & 0x3F).unwrap_or_default();
            *slot = ALPHABET.get(low).copied().unwrap_or_default();
            bits >>= 6;
        }
    };
    for [high, middle, low] in DIGEST_ORDER {
        put(byte(high) << 16 | byte(middle) << 8 | byte(low), 4);
    }
    put(byte(31) << 8 | byte(30), 3);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `HEX(authentication_string)` after `CREATE USER … IDENTIFIED WITH caching_sha2_password`.
    const KNOWN: &[(&str, &str)] = &[
        (
            "pässwörd",
            "2441243030352403492004344B452F132B34213D69447D61091C32746E43562E335731\
             6F6D2F385351773748472E5763437853324171546F6F5A54664C37657A7A5242727542",
        ),
        (
            "five2",
            "2441243030352451762A115B7C6606433D29343F0964050661717E6D5937652F33705A\
             4A56533053796C4D647574463630584B4632644C6D48484D4F38616D323843494D2F2E",
        ),
        (
            "0123456789abcdef0123456789abcdef",
            "244124303037242A31664331771967600F3C4C5E604B047F413C0D324D4B36754E5531\
             4F424271675A79527861456F7955727855777751497756726E647359706A6444623841",
        ),
        (
            "a much longer password than thirty-two bytes, so that blocks repeat",
            "244124303041242607011C76541601504B7356351557494B180D7C766A5254717A6652\
             4D324241304F5A6F392E65482E5174466E6362582F32474D4B5143795067376E513437",
        ),
    ];

    fn unhex(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        let text = |pair| std::str::from_utf8(pair).expect("ascii");
        pairs.map(|pair| u8::from_str_radix(text(pair), 16).expect("hex")).collect()
    }

    #[test]
    fn passwords_verify_against_a_servers_own_hashes() {
        for (password, stored) in KNOWN {
            let stored = unhex(stored);
            assert_eq!(stored.len(), STORED_LEN);
            assert!(verify(password.as_bytes(), &stored), "{password}");
            assert!(!verify(b"wrong", &stored));
            assert!(!verify(b"", &stored));
        }
    }

    #[test]
    fn a_changed_hash_does_not_verify() {
        let (password, stored) = KNOWN[1];
        let stored = unhex(stored);
        for at in [0, 4, 6, 7, 26, 27, 69] {
            let mut changed = stored.clone();
            changed[at] ^= 1;
            assert!(!verify(password.as_bytes(), &changed), "{at}");
        }
        for end in 0..STORED_LEN {
            assert!(!verify(password.as_bytes(), &stored[..end]));
        }
    }

    #[test]
    fn what_is_stored_verifies() {
        let stored = stored(b"secret", b"abcdefghij0123456789");
        assert_eq!(stored.len(), STORED_LEN);
        assert!(verify(b"secret", &stored));
        assert!(!verify(b"other", &stored));
    }

    #[test]
    fn a_password_that_no_server_accepts_never_verifies() {
        let (_, stored) = KNOWN[0];
        assert!(!verify(&[b'a'; PASSWORD_LEN_MAX + 1], &unhex(stored)));
    }
}
