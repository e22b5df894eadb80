//! What the proxy can prove itself with towards servers in a user's name.

use trunkline_protocol::auth::{caching_sha2, ed25519, native};
use trunkline_topology::{Password, Secret};

/// A nonce of the handshake.
pub(crate) type Nonce = [u8; trunkline_protocol::packet::greeting::NONCE_LEN];

/// All that is known of one user's password: from the configuration when it holds the password
/// itself, else from what the user's clients have proven.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credential {
    /// The password itself; makes the other two unnecessary.
    pub clear: Option<Secret<String>>,
    /// `SHA1(password)`: enough for `mysql_native_password`.
    pub native_stage1: Option<Secret<[u8; native::DIGEST_LEN]>>,
    /// `SHA256(password)`: enough for the fast path of `caching_sha2_password`.
    pub sha2_stage1: Option<Secret<[u8; caching_sha2::DIGEST_LEN]>>,
}

impl Credential {
    /// What the configuration tells; a hash alone tells nothing.
    pub fn from_password(password: &Password) -> Self {
        Self { clear: password.clear().cloned(), ..Self::default() }
    }

    /// What a password tells that a client has sent. One that is not UTF-8 is kept as hashes.
    pub fn from_clear(password: &[u8]) -> Self {
        match std::str::from_utf8(password) {
            Ok(text) => Self { clear: Some(Secret::new(text.to_owned())), ..Self::default() },
            Err(_) => Self {
                clear: None,
                native_stage1: Some(Secret::new(native::stage1(password))),
                sha2_stage1: Some(Secret::new(caching_sha2::stage1(password))),
            },
        }
    }

    /// Takes over what a login has just proven. When it contradicts what was known, the password
    /// has changed and the old knowledge is dropped.
    pub fn learn(&mut self, proven: &Self) {
        if !self.agrees_with(proven) {
            self.clone_from(proven);
            return;
        }
        self.clear = self.clear.take().or_else(|| proven.clear.clone());
        self.native_stage1 = self.native_stage1.take().or_else(|| proven.native_stage1.clone());
        self.sha2_stage1 = self.sha2_stage1.take().or_else(|| proven.sha2_stage1.clone());
        debug_assert!(self.agrees_with(proven));
    }

    /// Whether nothing is known: no server that asks for a password can be logged in to.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the password is known to be empty.
    pub fn is_empty_password(&self) -> bool {
        self.clear().is_some_and(<[u8]>::is_empty)
    }

    /// The password itself, when it is known.
    pub(crate) fn clear(&self) -> Option<&[u8]> {
        self.clear.as_ref().map(|clear| clear.expose().as_bytes())
    }

    /// The answer to `nonce` in `mysql_native_password`.
    pub(crate) fn native_answer(&self, nonce: &Nonce) -> Option<Vec<u8>> {
        if self.is_empty_password() {
            return Some(Vec::new());
        }
        self.known_native_stage1().map(|stage1| native::scramble(&stage1, nonce).to_vec())
    }

    /// The first answer to `nonce` in `caching_sha2_password`.
    pub(crate) fn sha2_answer(&self, nonce: &Nonce) -> Option<Vec<u8>> {
        if self.is_empty_password() {
            return Some(vec![0]);
        }
        self.known_sha2_stage1().map(|stage1| caching_sha2::scramble(&stage1, nonce).to_vec())
    }

    /// The signature of a nonce in `client_ed25519`.
    pub(crate) fn ed25519_answer(&self, nonce: &[u8]) -> Option<Vec<u8>> {
        self.clear().map(|clear| ed25519::sign(clear, nonce).to_vec())
    }

    fn known_native_stage1(&self) -> Option<[u8; native::DIGEST_LEN]> {
        let stored = self.native_stage1.as_ref().map(|stage1| *stage1.expose());
        stored.or_else(|| self.clear().map(native::stage1))
    }

    fn known_sha2_stage1(&self) -> Option<[u8; caching_sha2::DIGEST_LEN]> {
        let stored = self.sha2_stage1.as_ref().map(|stage1| *stage1.expose());
        stored.or_else(|| self.clear().map(caching_sha2::stage1))
    }

    /// Whether both can belong to one password.
    fn agrees_with(&self, other: &Self) -> bool {
        let native = self.known_native_stage1().zip(other.known_native_stage1());
        let sha2 = self.known_sha2_stage1().zip(other.known_sha2_stage1());
        native.is_none_or(|(ours, theirs)| ours == theirs)
            && sha2.is_none_or(|(ours, theirs)| ours == theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"abcdefghij0123456789";

    #[test]
    fn a_clear_password_answers_every_plug_in() {
        let password = Password::Clear(Secret::new("secret".to_owned()));
        let credential = Credential::from_password(&password);
        let native = native::scramble(&native::stage1(b"secret"), &NONCE);
        assert_eq!(credential.native_answer(&NONCE), Some(native.to_vec()));
        let sha2 = caching_sha2::scramble(&caching_sha2::stage1(b"secret"), &NONCE);
        assert_eq!(credential.sha2_answer(&NONCE), Some(sha2.to_vec()));
    }

    #[test]
    fn an_empty_password_has_empty_answers() {
        let credential = Credential::from_clear(b"");
        assert_eq!(credential.native_answer(&NONCE), Some(Vec::new()));
        assert_eq!(credential.sha2_answer(&NONCE), Some(vec![0]));
        assert!(credential.is_empty_password());
    }

    #[test]
    fn a_hash_answers_nothing_until_a_login_proves_its_password() {
        let password = Password::NativeHash(Secret::new([7; 20]));
        let mut credential = Credential::from_password(&password);
        assert!(credential.is_unknown());
        assert_eq!(credential.native_answer(&NONCE), None);
        let stage1 = Some(Secret::new(native::stage1(b"secret")));
        credential.learn(&Credential { native_stage1: stage1, ..Credential::default() });
        assert!(credential.native_answer(&NONCE).is_some());
        assert_eq!(credential.sha2_answer(&NONCE), None);
        credential.learn(&Credential::from_clear(b"secret"));
        assert!(credential.sha2_answer(&NONCE).is_some());
    }

    #[test]
    fn a_changed_password_replaces_what_was_known() {
        let mut credential = Credential::from_clear(b"old");
        let stage1 = Some(Secret::new(caching_sha2::stage1(b"new")));
        let proven = Credential { sha2_stage1: stage1, ..Credential::default() };
        credential.learn(&proven);
        assert_eq!(credential, proven);
    }

    #[test]
    fn a_password_that_is_not_text_is_kept_as_hashes() {
        let credential = Credential::from_clear(b"\xFF\xFE");
        assert_eq!(credential.clear, None);
        let native = native::scramble(&native::stage1(b"\xFF\xFE"), &NONCE);
        assert_eq!(credential.native_answer(&NONCE), Some(native.to_vec()));
        assert!(credential.sha2_answer(&NONCE).is_some());
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", Credential::from_clear(b"hunter2"));
        assert!(!shown.contains("hunter2"));
    }
}
