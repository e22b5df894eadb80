//! Whether what a client has shown is right, by what is stored of the password.

use trunkline_protocol::auth::{Plugin, caching_sha2, clear, ed25519, is_equal, native, parsec};
use trunkline_topology::{Password, Secret, User};

use super::{Login, Verdict};
use crate::{credential::Credential, frontend::Accounts};

impl Login {
    pub(super) fn check(&self, plugin: Plugin, answer: &[u8], accounts: &dyn Accounts) -> Verdict {
        let Some(user) = &self.user else {
            // The same work as for a known user; the result does not count, because the client
            // knows the nonce too.
            std::hint::black_box(self.check_clear(plugin, answer, &self.nonce));
            return Verdict::Wrong;
        };
        // While a password is being changed the one before is right as well.
        let newest = self.check_one(user, &user.password, plugin, answer, accounts);
        let verdict = match (newest, &user.retained_password) {
            (Verdict::Wrong, Some(older)) => self.check_one(user, older, plugin, answer, accounts),
            (verdict, _) => verdict,
        };
        match verdict {
            // It is the stand-in's password, by chance.
            Verdict::Right(_) if !self.is_known => Verdict::Wrong,
            verdict => verdict,
        }
    }

    fn check_one(
        &self,
        user: &User,
        password: &Password,
        plugin: Plugin,
        answer: &[u8],
        accounts: &dyn Accounts,
    ) -> Verdict {
        match (password, plugin) {
            (Password::Clear(clear), _) => {
                self.check_clear(plugin, answer, clear.expose().as_bytes())
            }
            (stored, Plugin::Clear) => check_itself(stored, answer),
            (Password::NativeHash(stage2), Plugin::Native) => {
                match native::verify(answer, stage2.expose(), &self.nonce) {
                    Some(stage1) => Verdict::Right(Credential {
                        native_stage1: Some(Secret::new(stage1)),
                        ..Credential::default()
                    }),
                    None => Verdict::Wrong,
                }
            }
            (Password::Sha2Hash(_), Plugin::CachingSha2) => {
                self.check_remembered(user, answer, accounts)
            }
            (Password::Ed25519Key(key), Plugin::Ed25519) => {
                // What a signature proves opens no server.
                match ed25519::verify(answer, key.expose(), &ed25519::nonce(&self.nonce)) {
                    true => Verdict::Right(Credential::default()),
                    false => Verdict::Wrong,
                }
            }
            // The quick way is never right, so that the password itself is sent.
            (Password::Servers, Plugin::CachingSha2) if !caching_sha2::is_empty_answer(answer) => {
                Verdict::Undecided
            }
            (Password::ParsecKey(stored), Plugin::Parsec) => {
                let nonce = parsec::nonce(&self.nonce);
                let stored = parsec::Stored::parse(stored.expose());
                match stored.is_some_and(|stored| parsec::verify(answer, &stored.key, &nonce)) {
                    true => Verdict::Right(Credential::default()),
                    false => Verdict::Wrong,
                }
            }
            (
                Password::NativeHash(_)
                | Password::Sha2Hash(_)
                | Password::Sha256Hash(_)
                | Password::Ed25519Key(_)
                | Password::ParsecKey(_)
                | Password::Servers
                | Password::Nobodys,
                _,
            ) => Verdict::Wrong,
        }
    }

    fn check_clear(&self, plugin: Plugin, answer: &[u8], password: &[u8]) -> Verdict {
        let is_right = match plugin {
            // Signatures have no empty form.
            Plugin::Ed25519 => {
                let key = ed25519::public_key(password);
                ed25519::verify(answer, &key, &ed25519::nonce(&self.nonce))
            }
            _ if password.is_empty() => caching_sha2::is_empty_answer(answer),
            Plugin::Native => {
                let stage2 = native::stage2(&native::stage1(password));
                native::verify(answer, &stage2, &self.nonce).is_some()
            }
            Plugin::CachingSha2 => {
                let stage2 = caching_sha2::stage2(&caching_sha2::stage1(password));
                caching_sha2::verify(answer, &stage2, &self.nonce).is_some()
            }
            Plugin::Clear => clear::read(answer).is_some_and(|sent| is_same(sent, password)),
            // The one is decided on elsewhere, the others are not asked for.
            Plugin::Sha256 | Plugin::Parsec | Plugin::Dialog => false,
        };
        if is_right { Verdict::Right(Credential::from_clear(password)) } else { Verdict::Wrong }
    }

    fn check_remembered(&self, user: &User, answer: &[u8], accounts: &dyn Accounts) -> Verdict {
        if caching_sha2::is_empty_answer(answer) {
            return Verdict::Wrong;
        }
        let stage1 = accounts
            .verified_sha2(user)
            .and_then(|stage2| caching_sha2::verify(answer, &stage2, &self.nonce));
        match stage1 {
            Some(stage1) => Verdict::Right(Credential {
                sha2_stage1: Some(Secret::new(stage1)),
                ..Credential::default()
            }),
            // What is remembered may be older than the user's password, so only the hash decides.
            None => Verdict::Undecided,
        }
    }

    /// What a client that proved its password by the native plug-in can be shown a proof with.
    pub(super) fn native_stage2(&self, plugin: Plugin, proven: &Credential) -> Option<[u8; 20]> {
        if plugin != Plugin::Native || proven.is_empty_password() {
            return None;
        }
        let stored = match self.user.as_ref().map(|user| &user.password) {
            Some(Password::NativeHash(stage2)) => Some(*stage2.expose()),
            Some(
                Password::Clear(_)
                | Password::Sha2Hash(_)
                | Password::Sha256Hash(_)
                | Password::Ed25519Key(_)
                | Password::ParsecKey(_)
                | Password::Servers
                | Password::Nobodys,
            )
            | None => None,
        };
        stored.or_else(|| proven.clear().map(|clear| native::stage2(&native::stage1(clear))))
    }

    /// The stored hashes that only a password itself can be checked against, the newest first.
    pub(in crate::frontend) fn stored_hashes(&self) -> impl Iterator<Item = &Secret<Vec<u8>>> {
        self.passwords().filter_map(Password::slow_hash)
    }

    /// Whether this is one of them still. Where servers check passwords there is none.
    pub(in crate::frontend) fn is_stored(&self, hash: &Secret<Vec<u8>>) -> bool {
        let user = self.user.as_ref();
        match hash.expose().is_empty() {
            true => user.is_some_and(|user| user.password == Password::Servers),
            false => self.stored_hashes().any(|stored| stored == hash),
        }
    }

    /// Checks the password itself against what is stored and takes no time; what it has proven.
    pub(in crate::frontend) fn check_quickly(&self, password: &[u8]) -> Option<Credential> {
        let verdicts = self.passwords().map(|stored| check_password(stored, password));
        verdicts.fold(None, |proven, verdict| match verdict {
            Verdict::Right(credential) => Some(credential),
            Verdict::Undecided | Verdict::Slow(_) | Verdict::Wrong => proven,
        })
    }

    /// The user's passwords, the newest first.
    fn passwords(&self) -> impl Iterator<Item = &Password> {
        self.user
            .iter()
            .flat_map(|user| std::iter::once(&user.password).chain(user.retained_password.as_ref()))
    }
}

/// Checks a password that was sent itself against what is stored of it.
fn check_itself(stored: &Password, answer: &[u8]) -> Verdict {
    clear::read(answer).map_or(Verdict::Wrong, |password| check_password(stored, password))
}

fn check_password(stored: &Password, password: &[u8]) -> Verdict {
    let is_right = match stored {
        Password::Clear(clear) => is_same(password, clear.expose().as_bytes()),
        Password::NativeHash(stage2) => {
            is_equal(&native::stage2(&native::stage1(password)), stage2.expose())
        }
        Password::Ed25519Key(key) => is_equal(&ed25519::public_key(password), key.expose()),
        Password::Sha2Hash(_) | Password::Sha256Hash(_) | Password::ParsecKey(_) => {
            return Verdict::Slow(password.to_vec());
        }
        Password::Servers => return Verdict::Slow(password.to_vec()),
        Password::Nobodys => false,
    };
    if is_right { Verdict::Right(Credential::from_clear(password)) } else { Verdict::Wrong }
}

/// Whether two passwords are the same, in a time that tells nothing of where they differ.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    is_equal(&caching_sha2::stage1(left), &caching_sha2::stage1(right))
}
