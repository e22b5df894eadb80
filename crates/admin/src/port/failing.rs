//! Failed logins: who has failed too often waits, longer and longer.
//!
//! What is counted is a name from an origin, so that guesses at one name keep nobody else out. A
//! name that does not exist is counted like any other, so a wait tells nobody which names there
//! are.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
};

/// Rows that are kept. Beyond it the one with the fewest failures goes, and of those the oldest:
/// many names that fail once do not make a row forgotten that waits.
const ROWS_MAX: usize = 16_384;
/// How much of a name tells it from others, in bytes: names of strangers may be long.
const NAME_LEN_MAX: usize = 64;

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    /// A machine: with IPv6 it has 2^64 addresses, which count as one.
    Machine(IpAddr),
    /// An account of this system, by its number, over a Unix socket.
    Account(u32),
}

impl Origin {
    /// The machine that has an address.
    pub(crate) fn machine(addr: IpAddr) -> Self {
        Self::Machine(match addr.to_canonical() {
            IpAddr::V4(addr) => addr.into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() >> 64 << 64).into(),
        })
    }
}

/// How failed logins are answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// Failures in a row before one waits; 0 is no limit.
    pub(crate) failures_max: u32,
    /// The first wait, ms; each further one is twice as long.
    pub(crate) first_ms: u64,
    /// The longest wait, ms.
    pub(crate) longest_ms: u64,
}

impl Waits {
    fn after(&self, failures: u32) -> u64 {
        match failures.checked_sub(self.failures_max) {
            None => 0,
            Some(_) if self.failures_max == 0 => 0,
            Some(beyond) => {
                let factor = 1_u64.checked_shl(beyond).unwrap_or(u64::MAX);
                self.first_ms.saturating_mul(factor).min(self.longest_ms)
            }
        }
    }
}

/// Failures in a row.
#[derive(Debug, Clone, Copy)]
struct Row {
    failures: u32,
    /// When the last one was, ms.
    last_ms: u64,
    /// Nobody of that name logs in from there before this, ms.
    until_ms: u64,
}

/// Who has failed.
#[derive(Debug, Default)]
pub(crate) struct FailedLogins {
    rows: HashMap<(Origin, String), Row>,
}

fn key(origin: Origin, name: &str) -> (Origin, String) {
    let end = name.floor_char_boundary(NAME_LEN_MAX);
    (origin, name.get(..end).unwrap_or(name).to_owned())
}

impl FailedLogins {
    /// How long a name from there has to wait still, ms; 0 when it need not.
    pub(crate) fn wait_ms(&self, origin: Origin, name: &str, now_ms: u64) -> u64 {
        let row = self.rows.get(&key(origin, name));
        row.map_or(0, |row| row.until_ms.saturating_sub(now_ms))
    }

    /// A login failed.
    pub(crate) fn failed(&mut self, origin: Origin, name: &str, now_ms: u64, waits: Waits) {
        let key = key(origin, name);
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            let least = self.rows.iter().min_by_key(|(_, row)| (row.failures, row.last_ms));
            if let Some(least) = least.map(|(key, _)| key.clone()) {
                self.rows.remove(&least);
            }
        }
        let row = self.rows.entry(key).or_insert(Row { failures: 0, last_ms: 0, until_ms: 0 });
        // Who has been quiet for as long as anybody ever waits begins anew.
        let quiet_ms = now_ms.saturating_sub(row.until_ms.max(row.last_ms));
        let before = if quiet_ms > waits.longest_ms { 0 } else { row.failures };
        row.failures = before.saturating_add(1);
        row.last_ms = now_ms;
        row.until_ms = now_ms.saturating_add(waits.after(row.failures));
        debug_assert!(self.rows.len() <= ROWS_MAX);
    }

    /// A login succeeded: that name's row ends, and no other one's.
    pub(crate) fn succeeded(&mut self, origin: Origin, name: &str) {
        self.rows.remove(&key(origin, name));
    }

    /// Forgets everybody; how many there were.
    pub(crate) fn forget(&mut self) -> usize {
        std::mem::take(&mut self.rows).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits { failures_max: 3, first_ms: 1_000, longest_ms: 5_000 };

    fn machine(text: &str) -> Origin {
        Origin::machine(text.parse().expect(text))
    }

    #[test]
    fn failures_in_a_row_wait_longer_and_longer() {
        let (mut failing, from) = (FailedLogins::default(), machine("10.0.0.1"));
        let waits = (0..7).map(|_| {
            failing.failed(from, "admin", 0, WAITS);
            failing.wait_ms(from, "admin", 0)
        });
        assert_eq!(waits.collect::<Vec<_>>(), [0, 0, 1_000, 2_000, 4_000, 5_000, 5_000]);
        assert_eq!(failing.wait_ms(from, "admin", 4_000), 1_000);
        // One more within the longest wait goes on, a later one begins anew.
        failing.failed(from, "admin", 9_000, WAITS);
        assert_eq!(failing.wait_ms(from, "admin", 9_000), 5_000);
        failing.failed(from, "admin", 20_000, WAITS);
        assert_eq!(failing.wait_ms(from, "admin", 20_000), 0);
        let never = Waits { failures_max: 0, ..WAITS };
        failing.failed(from, "admin", 20_000, never);
        assert_eq!(failing.wait_ms(from, "admin", 20_000), 0);
    }

    #[test]
    fn guesses_at_one_name_keep_nobody_else_out() {
        let mut failing = FailedLogins::default();
        let from = machine("2001:db8::1");
        for _ in 0..4 {
            failing.failed(from, "admin", 0, WAITS);
        }
        assert!(failing.wait_ms(machine("2001:db8::2"), "admin", 0) > 0, "the same machine");
        for (origin, name) in [
            (from, "other"),
            (machine("2001:db8:0:1::1"), "admin"),
            (machine("10.0.0.1"), "admin"),
            (Origin::Account(0), "admin"),
        ] {
            assert_eq!(failing.wait_ms(origin, name, 0), 0, "{origin:?} {name}");
        }
        failing.succeeded(from, "other");
        assert!(failing.wait_ms(from, "admin", 0) > 0, "another one's success is not its own");
        failing.succeeded(from, "admin");
        assert_eq!(failing.wait_ms(from, "admin", 0), 0);
    }

    #[test]
    fn many_names_do_not_make_one_forgotten_that_waits() {
        let (mut failing, from) = (FailedLogins::default(), machine("10.0.0.1"));
        for _ in 0..3 {
            failing.failed(from, "admin", 0, WAITS);
        }
        for number in 0..ROWS_MAX + 10 {
            failing.failed(from, &number.to_string(), 1, WAITS);
        }
        assert_eq!(failing.rows.len(), ROWS_MAX);
        assert!(failing.wait_ms(from, "admin", 1) > 0);
        let long = "é".repeat(100_000);
        failing.failed(from, &long, 1, WAITS);
        let longest = failing.rows.keys().map(|(_, name)| name.len()).max();
        assert_eq!(longest, Some(NAME_LEN_MAX));
        assert_eq!(failing.forget(), ROWS_MAX);
    }
}
