//! On whose account statements run, and how many a server runs at once.

use std::{fmt, str::FromStr};

/// What makes two statements the same tenant's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TenantScope {
    /// Nothing: there are no tenants.
    #[default]
    Off,
    /// Their user.
    User,
    /// The schema that their sessions are in.
    Schema,
    /// The label that a rule gives them (attribute `tenant`).
    Rule,
}

impl TenantScope {
    const WORDS: [(&'static str, Self); 4] =
        [("off", Self::Off), ("user", Self::User), ("schema", Self::Schema), ("rule", Self::Rule)];
}

impl fmt::Display for TenantScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, it)| it == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

impl FromStr for TenantScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        let wrong = || format!("must be off, user, schema or rule, not `{text}`");
        found.map(|(_, scope)| *scope).ok_or_else(wrong)
    }
}

/// How many statements one server runs at once, whatever they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// As many as there are connections.
    #[default]
    Off,
    /// So many.
    Fixed(u32),
    /// As many as make a difference; found by trying.
    Auto,
}

impl Concurrency {
    /// The largest number that can be given.
    pub const MAX: u32 = 100_000;

    /// What one of so many workers may have of it: the first ones have what is left over, and each
    /// has one at least.
    #[must_use]
    pub fn share_of(self, worker: usize, workers: usize) -> Self {
        let Self::Fixed(all) = self else { return self };
        let count = u32::try_from(workers.max(1)).unwrap_or(u32::MAX);
        let is_first = u32::try_from(worker).is_ok_and(|worker| worker < all % count);
        Self::Fixed((all / count + u32::from(is_first)).max(1))
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Fixed(number) => write!(f, "{number}"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = || text.parse().ok().filter(|it| (1..=Self::MAX).contains(it));
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            _ => number().map(Self::Fixed).ok_or_else(|| {
                format!("must be off, auto or a number of 1 to {}, not `{text}`", Self::MAX)
            }),
        }
    }
}

/// What a tenant is entitled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Its part of the server time, against those of the others that want some; at least 1.
    pub weight: u32,
    /// So much of the servers' concurrency is kept free for it while it is active, per cent.
    pub share_min: u32,
    /// It runs on so much of the servers' concurrency at most, per cent; at least one place.
    pub share_max: u32,
    /// Server time that it may catch up on after it has been idle, ms.
    pub burst_ms: u32,
    /// Who has more goes first while both wait, whatever they have used; at most
    /// [`PRIORITY_MAX`](Self::PRIORITY_MAX).
    pub priority: u32,
}

impl Terms {
    /// The largest weight.
    pub const WEIGHT_MAX: u32 = 1_000;
    /// The highest priority.
    pub const PRIORITY_MAX: u32 = 9;
    /// The most that all tenants' `share_min` may be in sum, per cent: the rest is for everybody.
    pub const SHARES_MAX: u32 = 90;
}

impl Default for Terms {
    fn default() -> Self {
        Self { weight: 1, share_min: 0, share_max: 100, burst_ms: 100, priority: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_all_of_it_together() {
        let share = |all, worker| Concurrency::Fixed(all).share_of(worker, 4);
        let shares: Vec<_> = (0..4).map(|worker| share(10, worker)).collect();
        assert_eq!(shares, [3, 3, 2, 2].map(Concurrency::Fixed));
        assert_eq!(share(2, 3), Concurrency::Fixed(1), "nobody is left out");
        assert_eq!(Concurrency::Auto.share_of(1, 4), Concurrency::Auto);
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        for word in ["off", "auto", "1", "64"] {
            assert_eq!(word.parse::<Concurrency>().map(|it| it.to_string()), Ok(word.to_owned()));
        }
        for wrong in ["0", "-1", "many", "100001"] {
            assert!(wrong.parse::<Concurrency>().is_err(), "{wrong}");
        }
        for word in ["off", "user", "schema", "rule"] {
            assert_eq!(word.parse::<TenantScope>().map(|it| it.to_string()), Ok(word.to_owned()));
        }
        assert!("host".parse::<TenantScope>().is_err());
    }
}
