//! Failed logins: who has failed too often waits, longer and longer.
//!
//! What is counted is a name from an origin, so that guesses at one name keep nobody else out, and
//! with a higher limit the origin alone, so that one guess at each of many names is slowed as well.
//! That limit does not hold for names that are known there, which are those that have logged in
//! from there before. A name that does not exist is counted like any other, so a wait tells nobody
//! which names there are.

mod rows;

use std::collections::HashMap;

use crate::Origin;
use rows::Rows;

/// Rows of each kind that are kept: names that are not known, names that are, origins. Beyond it
/// the row goes that would be forgotten first.
const ROWS_MAX: usize = 16_384;
/// How much of a name tells it from others, in bytes: names of strangers may be long.
const NAME_LEN_MAX: usize = 128;

/// How failed logins are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedLoginLimits {
    /// Failures in a row of one name from one origin before it waits; 0 is no limit at all.
    pub per_name: u32,
    /// Failures of names from one origin within the longest wait before names wait that are not
    /// known there; 0 is no such limit.
    pub per_origin: u32,
    /// The first wait of a name, ms; each further one is twice as long.
    pub wait_ms: u64,
    /// The longest wait, ms.
    pub wait_max_ms: u64,
}

impl FailedLoginLimits {
    /// How long a name waits after so many failures in a row, ms.
    fn wait_after(&self, failures: u32) -> u64 {
        match failures.checked_sub(self.per_name) {
            None => 0,
            Some(_) if self.per_name == 0 => 0,
            Some(beyond) => {
                let factor = 1_u64.checked_shl(beyond).unwrap_or(u64::MAX);
                self.wait_ms.saturating_mul(factor).min(self.wait_max_ms)
            }
        }
    }

    /// After which time an origin may fail once more, µs.
    fn interval_us(&self) -> Option<u64> {
        let wait_max_us = self.wait_max_ms.saturating_mul(1_000);
        wait_max_us.checked_div(self.per_origin.into()).map(|interval| interval.max(1))
    }
}

/// How far a login has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The name is told, and nothing is judged.
    Begins,
    /// It is about to be refused.
    Wrong,
    /// It is about to be accepted.
    Right,
}

/// Whose failures one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Those of the name from there.
    Name,
    /// Those of any names from there.
    Origin,
}

/// Nobody logs in so before that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoginWait {
    /// How long still, ms; never 0.
    pub ms: u64,
    /// Whose.
    pub whose: Waiting,
}

/// What a failure has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failed {
    /// The wait that begins with it.
    pub wait: Option<LoginWait>,
    /// Rows that were forgotten before their time, for want of room.
    pub forgotten: u64,
}

/// Failures in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    failures: u32,
    /// When the last one was, ms.
    last_ms: u64,
    /// Nobody of that name logs in from there before this, ms.
    until_ms: u64,
}

impl Row {
    fn fail(&mut self, now_ms: u64, limits: FailedLoginLimits) {
        // Who has been quiet for as long as anybody ever waits begins anew.
        let before = if now_ms > self.end_ms(limits) { 0 } else { self.failures };
        self.failures = before.saturating_add(1);
        self.last_ms = now_ms;
        self.until_ms = now_ms.saturating_add(limits.wait_after(self.failures));
    }

    /// Until when its failures count, ms.
    fn end_ms(&self, limits: FailedLoginLimits) -> u64 {
        self.until_ms.max(self.last_ms).saturating_add(limits.wait_max_ms)
    }
}

type Key = (Origin, Box<str>);

/// Who has failed.
#[derive(Debug)]
pub struct FailedLogins {
    /// Names that have not logged in from there.
    strangers: Rows<Key, Row>,
    /// Names that have. What strangers do makes none of them forgotten.
    known: Rows<Key, Row>,
    /// When all failures of an origin will be forgiven, µs: each one takes an interval.
    origins: Rows<Origin, u64>,
}

impl Default for FailedLogins {
    fn default() -> Self {
        let [strangers, known] = [(); 2].map(|()| Rows::new(ROWS_MAX));
        Self { strangers, known, origins: Rows::new(ROWS_MAX) }
    }
}

fn key(origin: Origin, name: &str) -> Key {
    let end = name.floor_char_boundary(NAME_LEN_MAX);
    (origin, name.get(..end).unwrap_or(name).into())
}

impl FailedLogins {
    /// How long a login has to wait that has come so far, if it has to.
    ///
    /// While an origin waits, whoever is not known there is refused with that, whatever the
    /// password, and whoever is known where the password is wrong: so it is not told who is known.
    pub fn wait(
        &self,
        origin: Origin,
        name: &str,
        attempt: Attempt,
        now_ms: u64,
        limits: FailedLoginLimits,
    ) -> Option<LoginWait> {
        if limits.per_name == 0 {
            return None;
        }
        let key = key(origin, name);
        let known = self.known.get(&key);
        let row = known.or_else(|| self.strangers.get(&key));
        let ms = row.map_or(0, |row| row.until_ms.saturating_sub(now_ms));
        if ms > 0 {
            return Some(LoginWait { ms, whose: Waiting::Name });
        }
        let is_judged = match attempt {
            Attempt::Begins => false,
            Attempt::Wrong => true,
            Attempt::Right => known.is_none(),
        };
        if is_judged { self.origin_wait(origin, now_ms, limits) } else { None }
    }

    /// A login failed, also one that was told to wait for its origin's failures.
    pub fn failed(
        &mut self,
        origin: Origin,
        name: &str,
        now_ms: u64,
        limits: FailedLoginLimits,
    ) -> Failed {
        if limits.per_name == 0 {
            return Failed::default();
        }
        let key = key(origin, name);
        let mut forgotten = 0;
        let row = if let Some(row) = self.known.get_mut(&key) {
            row.fail(now_ms, limits);
            *row
        } else {
            let mut row = self.strangers.get(&key).copied().unwrap_or_default();
            row.fail(now_ms, limits);
            forgotten += u64::from(self.strangers.set(key, row, row.end_ms(limits), now_ms));
            row
        };
        let ms = row.until_ms.saturating_sub(now_ms);
        let mut wait = (ms > 0).then_some(LoginWait { ms, whose: Waiting::Name });
        // A name that waits is slowed already; what comes while all wait is no guess.
        if row.failures <= limits.per_name && self.origin_wait(origin, now_ms, limits).is_none() {
            forgotten += u64::from(self.charge(origin, now_ms, limits));
            wait = wait.or_else(|| self.origin_wait(origin, now_ms, limits));
        }
        Failed { wait, forgotten }
    }

    /// Counts a failure of an origin. Whether another one's had to be forgotten.
    fn charge(&mut self, origin: Origin, now_ms: u64, limits: FailedLoginLimits) -> bool {
        let Some(interval_us) = limits.interval_us() else {
            return false;
        };
        let now_us = now_ms.saturating_mul(1_000);
        let forgiven_us = self.origins.get(&origin).copied().unwrap_or_default().max(now_us);
        let forgiven_us = forgiven_us.saturating_add(interval_us);
        self.origins.set(origin, forgiven_us, forgiven_us.div_ceil(1_000), now_ms)
    }

    fn origin_wait(
        &self,
        origin: Origin,
        now_ms: u64,
        limits: FailedLoginLimits,
    ) -> Option<LoginWait> {
        let interval_us = limits.interval_us()?;
        let forgiven_us = *self.origins.get(&origin)?;
        // One failure more has room when all but one are forgiven.
        let others_us = interval_us.saturating_mul(limits.per_origin.saturating_sub(1).into());
        let until_ms = forgiven_us.saturating_sub(others_us).div_ceil(1_000);
        let ms = until_ms.saturating_sub(now_ms);
        (ms > 0).then_some(LoginWait { ms, whose: Waiting::Origin })
    }

    /// A login succeeded: that name's row begins anew, and no other one's. The name is known there
    /// from now on.
    pub fn succeeded(&mut self, origin: Origin, name: &str, now_ms: u64) {
        let key = key(origin, name);
        self.strangers.remove(&key);
        // Of those that are known, the one goes that has not logged in for the longest time.
        self.known.set(key, Row::default(), now_ms, now_ms);
    }

    /// Origins with failures in a row: how many, over all names, and when the last one was, ms.
    pub fn failing(&self) -> Vec<(Origin, u32, u64)> {
        let mut sums: HashMap<Origin, (u32, u64)> = HashMap::new();
        let rows = self.strangers.iter().chain(self.known.iter());
        for ((origin, _), row) in rows.filter(|(_, row)| row.failures > 0) {
            let (failures, last_ms) = sums.entry(*origin).or_default();
            *failures = failures.saturating_add(row.failures);
            *last_ms = row.last_ms.max(*last_ms);
        }
        sums.into_iter().map(|(origin, (failures, last_ms))| (origin, failures, last_ms)).collect()
    }

    /// Forgets all failures, and nobody waits; how many names had some. Who is known stays known.
    pub fn forget(&mut self) -> usize {
        let mut forgotten = self.strangers.len();
        for row in self.known.values_mut() {
            forgotten += usize::from(row.failures > 0);
            *row = Row::default();
        }
        self.strangers.clear();
        self.origins.clear();
        forgotten
    }
}

#[cfg(test)]
mod tests;
