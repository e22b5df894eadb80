//! Who has logged in to the console, by the secret in their cookie.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use trunkline_crypto::{fill_random, sha256};
use trunkline_store::Access;

/// The most visitors at once; for one more, the one leaves that has done nothing for longest.
pub(super) const VISITORS_MAX: usize = 256;
/// A visitor who has done nothing for so long has left.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// After so long everybody has to log in again.
const AGE_MAX: Duration = Duration::from_secs(12 * 3_600);
/// Bytes of a cookie's secret, and of a token against forged requests.
const SECRET_LEN: usize = 32;

/// Somebody who has logged in.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) user: String,
    pub(super) access: Access,
    /// What their pages send with each change, so that no page of others can.
    pub(super) forgery_token: String,
    /// A hash of the password or token that they proved: another one ends the visit.
    pub(super) proof: [u8; 32],
    begun: Instant,
    used: Instant,
}

/// All of them. Only hashes of the cookies' secrets are kept.
#[derive(Debug, Default)]
pub(super) struct Visitors(Mutex<HashMap<[u8; 32], Visitor>>);

impl Visitors {
    /// Lets somebody in; the secret for the cookie, and who it is.
    pub(super) fn enter(&self, user: &str, access: Access, proof: [u8; 32]) -> (String, Visitor) {
        let (secret, now) = (random_hex(), Instant::now());
        let visitor = Visitor {
            user: user.to_owned(),
            access,
            forgery_token: random_hex(),
            proof,
            begun: now,
            used: now,
        };
        let mut all = self.lock();
        all.retain(|_, visitor| visitor.is_here(now));
        while all.len() >= VISITORS_MAX {
            let Some(oldest) = all.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| *key) else {
                break;
            };
            all.remove(&oldest);
        }
        all.insert(sha256(secret.as_bytes()), visitor.clone());
        (secret, visitor)
    }

    /// Who has this secret. It counts as something done.
    pub(super) fn find(&self, secret: &str) -> Option<Visitor> {
        let (key, now) = (sha256(secret.as_bytes()), Instant::now());
        let mut all = self.lock();
        let found = all.get_mut(&key)?;
        if !found.is_here(now) {
            all.remove(&key);
            return None;
        }
        found.used = now;
        Some(found.clone())
    }

    /// Whoever has this secret leaves.
    pub(super) fn leave(&self, secret: &str) {
        self.lock().remove(&sha256(secret.as_bytes()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Visitor>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    fn is_here(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE_MAX && now.duration_since(self.begun) < AGE_MAX
    }

    /// What they may do, as the page says it.
    pub(super) fn role(&self) -> &'static str {
        match self.access {
            Access::Stats => "look",
            Access::Operate => "operate",
            Access::Admin | Access::Internal => "configure",
        }
    }
}

fn random_hex() -> String {
    let mut bytes = [0; SECRET_LEN];
    fill_random(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_finds_its_visitor_until_they_leave() {
        let visitors = Visitors::default();
        let (secret, visitor) = visitors.enter("ada", Access::Stats, [1; 32]);
        let (other, _) = visitors.enter("ada", Access::Admin, [1; 32]);
        assert_eq!((secret.len(), secret == other), (64, false));
        assert_ne!(secret, visitor.forgery_token);
        assert_eq!(visitors.find(&secret).map(|it| it.role()), Some("look"));
        assert_eq!(visitors.find(&other).map(|it| it.role()), Some("configure"));
        visitors.leave(&secret);
        assert!(visitors.find(&secret).is_none() && visitors.find(&other).is_some());
        assert!(visitors.find("").is_none());
    }

    #[test]
    fn visitors_are_bounded_and_who_did_nothing_for_longest_leaves() {
        let visitors = Visitors::default();
        let secrets: Vec<String> = (0..VISITORS_MAX)
            .map(|number| visitors.enter(&number.to_string(), Access::Stats, [0; 32]).0)
            .collect();
        assert!(visitors.find(&secrets[0]).is_some(), "used again");
        visitors.enter("one more", Access::Stats, [0; 32]);
        assert_eq!(visitors.lock().len(), VISITORS_MAX);
        assert!(visitors.find(&secrets[0]).is_some());
        assert!(visitors.find(&secrets[1]).is_none());
    }

    #[test]
    fn who_does_nothing_and_who_stays_too_long_has_left() {
        let visitor = Visitors::default().enter("ada", Access::Stats, [0; 32]).1;
        let now = visitor.begun;
        assert!(visitor.is_here(now + IDLE_MAX - Duration::from_secs(1)));
        assert!(!visitor.is_here(now + IDLE_MAX));
        let busy = Visitor { used: now + AGE_MAX, ..visitor };
        assert!(!busy.is_here(now + AGE_MAX));
    }
}
