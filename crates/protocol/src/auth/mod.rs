//! Authentication plug-ins, one file each, and what they share.

pub mod caching_sha2;
pub mod clear;
pub mod ed25519;
pub mod native;
pub mod parsec;
pub mod sha256_crypt;

/// Name of [`Plugin::Native`] on the wire.
pub const MYSQL_NATIVE_PASSWORD: &str = "mysql_native_password";
/// Name of [`Plugin::CachingSha2`] on the wire.
pub const CACHING_SHA2_PASSWORD: &str = "caching_sha2_password";
/// Name of [`Plugin::Sha256`] on the wire.
pub const SHA256_PASSWORD: &str = "sha256_password";
/// Name of [`Plugin::Clear`] on the wire.
pub const MYSQL_CLEAR_PASSWORD: &str = "mysql_clear_password";
/// Name of [`Plugin::Ed25519`] on the wire.
pub const CLIENT_ED25519: &str = "client_ed25519";
/// Name of [`Plugin::Parsec`] on the wire.
pub const PARSEC: &str = "parsec";
/// Name of [`Plugin::Dialog`] on the wire.
pub const DIALOG: &str = "dialog";

/// The plug-ins that are known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// SHA-1 challenge and response; MariaDB's default.
    Native,
    /// SHA-256 challenge and response over a cache, RSA when the cache is cold; MySQL's default.
    CachingSha2,
    /// RSA at every login; MySQL before 8.0.
    Sha256,
    /// The password itself.
    Clear,
    /// A signature with a key made of the password; MariaDB.
    Ed25519,
    /// A signature with a key made of the password and a salt; MariaDB from 11.6 on.
    Parsec,
    /// Questions, of which one is for the password itself; MariaDB's PAM.
    Dialog,
}

impl Plugin {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Native,
        Self::CachingSha2,
        Self::Sha256,
        Self::Clear,
        Self::Ed25519,
        Self::Parsec,
        Self::Dialog,
    ];

    /// The plug-in of that name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name().as_bytes() == name)
    }

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => MYSQL_NATIVE_PASSWORD,
            Self::CachingSha2 => CACHING_SHA2_PASSWORD,
            Self::Sha256 => SHA256_PASSWORD,
            Self::Clear => MYSQL_CLEAR_PASSWORD,
            Self::Ed25519 => CLIENT_ED25519,
            Self::Parsec => PARSEC,
            Self::Dialog => DIALOG,
        }
    }
}

/// Whether `password` is the one that `stored` was made of: what `caching_sha2_password`,
/// `sha256_password` and `parsec` store. Takes milliseconds: not for a thread that serves others.
pub fn is_stored(password: &[u8], stored: &[u8]) -> bool {
    match parsec::Stored::parse(stored) {
        Some(stored) => stored.is_of(password),
        None => sha256_crypt::verify(password, stored),
    }
}

/// Whether two digests are equal, in a time that does not depend on where they differ.
pub fn is_equal<const N: usize>(left: &[u8; N], right: &[u8; N]) -> bool {
    let difference = left.iter().zip(right).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(difference) == 0
}

/// The stage 1 that a challenge's answer was made of, if it is the one of `stage2`. `mask` is what
/// the answer was combined with: the plug-in's hash of `stage2` and the nonce.
fn unmask<const N: usize>(
    scramble: &[u8],
    mask: [u8; N],
    stage2: &[u8; N],
    stage2_of: impl Fn(&[u8; N]) -> [u8; N],
) -> Option<[u8; N]> {
    let scramble: [u8; N] = scramble.try_into().ok()?;
    let stage1 = xor(mask, &scramble);
    is_equal(&stage2_of(&stage1), stage2).then_some(stage1)
}

/// `left` and `right` combined bit by bit.
fn xor<const N: usize>(mut left: [u8; N], right: &[u8; N]) -> [u8; N] {
    for (byte, other) in left.iter_mut().zip(right) {
        *byte ^= other;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_read_back_from_their_names() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::from_name(plugin.name().as_bytes()), Some(plugin));
        }
        assert_eq!(Plugin::from_name(b"mysql_old_password"), None);
        assert_eq!(Plugin::from_name(b""), None);
    }

    #[test]
    fn equality_looks_at_every_byte() {
        assert!(is_equal(&[1, 2, 3], &[1, 2, 3]));
        for at in 0..3 {
            let mut other = [1, 2, 3];
            other[at] ^= 0x80;
            assert!(!is_equal(&[1, 2, 3], &other));
        }
    }
}
