//! Limits on how often: token buckets for users, rules and digests.
//!
//! A bucket holds `burst` tokens and gets `rate` new ones a second; a statement takes one of
//! each limit that is about it. Where one is missing the statement waits until it is there, if
//! that is not longer than the limit's `wait_max_ms`, or is refused. A statement that is refused
//! takes no token of any limit.
//!
//! A bucket is one number, the time at which it would be full if nothing more came (the generic
//! cell rate algorithm, ITU-T I.371), so it needs no timer.

use std::{collections::HashMap, num::NonZeroU32};

use foldhash::fast::FixedState;

/// Buckets of one limit, one for each user or digest that is not full; those who come while
/// there are more share one.
pub const BUCKETS_MAX: usize = 65_536;
/// The highest rate that a configuration can have, a second.
pub const RATE_MAX: u32 = 10_000_000;
/// How often buckets that are full again are looked for, µs.
const SWEEP_EVERY_US: u64 = 1_000_000;

/// What a limit is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitScope {
    /// Statements of this user, or of each user by itself.
    User(Option<String>),
    /// Statements that match the rule with this id.
    Rule(u32),
    /// Statements with this digest, or with each digest by itself.
    Digest(Option<u64>),
}

/// One limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What it is about.
    pub scope: LimitScope,
    /// Statements a second.
    pub rate: NonZeroU32,
    /// Statements that may come at once.
    pub burst: NonZeroU32,
    /// How long a statement may wait, ms; 0 refuses at once.
    pub wait_max_ms: u32,
}

/// One statement, as far as limits look at it.
#[derive(Debug, Clone, Copy)]
pub struct LimitAsk<'a> {
    /// Frontend user.
    pub username: &'a str,
    /// Ids of the rules that matched, shadow rules left out.
    pub rules: &'a [u32],
    /// The statement's digest; `None` while digests are switched off.
    pub digest: Option<u64>,
}

/// What becomes of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It goes on.
    Now,
    /// It goes on after so many µs; its tokens are taken.
    After(u64),
    /// It does not: this limit, by its place in the list, has no token for it in time.
    Refused(usize),
}

/// What one limit has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitCounters {
    /// Statements that went on at once.
    pub passed: u64,
    /// Statements that had to wait for this limit, perhaps for another one too.
    pub delayed: u64,
    /// Statements that it refused.
    pub refused: u64,
}

/// All limits, with the buckets of one worker.
#[derive(Debug)]
pub struct Limits {
    limits: Vec<Buckets>,
}

/// When a bucket will be full, ns.
type Full = u64;

#[derive(Debug)]
struct Buckets {
    scope: LimitScope,
    /// Time in which one token comes, ns.
    interval_ns: u64,
    /// Time in which all but one of the tokens come, ns.
    reserve_ns: u64,
    wait_max_ns: u64,
    /// The only bucket of a limit on one user, rule or digest; else the one that is shared.
    shared: Full,
    by_user: HashMap<Box<str>, Full, FixedState>,
    by_digest: HashMap<u64, Full, FixedState>,
    swept_us: u64,
    counters: LimitCounters,
}

/// Which bucket of a limit a statement takes from.
#[derive(Clone, Copy)]
enum Which<'a> {
    Shared,
    User(&'a str),
    Digest(u64),
}

impl Limits {
    /// These limits, of which this worker has one share of `workers`: its buckets fill so much
    /// slower, and hold so much less, but at least one token.
    pub fn new(limits: &[Limit], workers: u32) -> Self {
        let workers = u64::from(workers.max(1));
        Self { limits: limits.iter().map(|limit| Buckets::new(limit, workers)).collect() }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Takes a token of each limit that is about the statement, or none at all. `now_us` never
    /// goes back.
    pub fn admit(&mut self, ask: &LimitAsk<'_>, now_us: u64) -> Admission {
        let now_ns = now_us.saturating_mul(1_000);
        let mut longest_ns = 0;
        for (place, limit) in self.limits.iter_mut().enumerate() {
            let Some(which) = limit.which(ask) else { continue };
            let wait_ns = limit.wait_ns(which, now_ns);
            if wait_ns > limit.wait_max_ns {
                limit.counters.refused += 1;
                return Admission::Refused(place);
            }
            longest_ns = longest_ns.max(wait_ns);
        }
        for limit in &mut self.limits {
            let Some(which) = limit.which(ask) else { continue };
            match limit.wait_ns(which, now_ns) {
                0 => limit.counters.passed += 1,
                _ => limit.counters.delayed += 1,
            }
            limit.take(which, now_us);
        }
        match longest_ns.div_ceil(1_000) {
            0 => Admission::Now,
            wait_us => Admission::After(wait_us),
        }
    }

    /// What each limit has done, in the order of the list.
    pub fn counters(&self) -> impl Iterator<Item = LimitCounters> + '_ {
        self.limits.iter().map(|limit| limit.counters)
    }
}

impl Buckets {
    fn new(limit: &Limit, workers: u64) -> Self {
        // A share of the burst, rounded up to whole tokens.
        let burst = u64::from(limit.burst.get()).div_ceil(workers);
        let interval_ns = 1_000_000_000 * workers / u64::from(limit.rate.get());
        Self {
            scope: limit.scope.clone(),
            interval_ns,
            reserve_ns: interval_ns.saturating_mul(burst - 1),
            wait_max_ns: u64::from(limit.wait_max_ms) * 1_000_000,
            shared: 0,
            by_user: HashMap::default(),
            by_digest: HashMap::default(),
            swept_us: 0,
            counters: LimitCounters::default(),
        }
    }

    /// The bucket that the statement takes from; `None` when the limit is not about it.
    fn which<'a>(&self, ask: &LimitAsk<'a>) -> Option<Which<'a>> {
        match &self.scope {
            LimitScope::User(Some(user)) => (user == ask.username).then_some(Which::Shared),
            LimitScope::User(None) => Some(Which::User(ask.username)),
            LimitScope::Rule(id) => ask.rules.contains(id).then_some(Which::Shared),
            LimitScope::Digest(Some(digest)) => {
                (ask.digest == Some(*digest)).then_some(Which::Shared)
            }
            LimitScope::Digest(None) => ask.digest.map(Which::Digest),
        }
    }

    /// When the bucket will be full; one that is not known is, unless there are too many.
    fn full(&self, which: Which<'_>) -> Full {
        let known = match which {
            Which::Shared => Some(self.shared),
            Which::User(user) => self.by_user.get(user).copied(),
            Which::Digest(digest) => self.by_digest.get(&digest).copied(),
        };
        let is_crowded = self.by_user.len().max(self.by_digest.len()) >= BUCKETS_MAX;
        known.unwrap_or(if is_crowded { self.shared } else { 0 })
    }

    /// How long until there is a token.
    fn wait_ns(&self, which: Which<'_>, now_ns: u64) -> u64 {
        self.full(which).saturating_sub(now_ns).saturating_sub(self.reserve_ns)
    }

    fn take(&mut self, which: Which<'_>, now_us: u64) {
        let now_ns = now_us.saturating_mul(1_000);
        let full = self.full(which).max(now_ns).saturating_add(self.interval_ns);
        self.make_room(now_us);
        let has_room = self.by_user.len().max(self.by_digest.len()) < BUCKETS_MAX;
        match which {
            Which::User(user) => {
                if let Some(known) = self.by_user.get_mut(user) {
                    *known = full;
                } else if has_room {
                    self.by_user.insert(user.into(), full);
                } else {
                    self.shared = full;
                }
            }
            Which::Digest(digest) => {
                if let Some(known) = self.by_digest.get_mut(&digest) {
                    *known = full;
                } else if has_room {
                    self.by_digest.insert(digest, full);
                } else {
                    self.shared = full;
                }
            }
            Which::Shared => self.shared = full,
        }
    }

    /// Forgets buckets that are full again, when there are many.
    fn make_room(&mut self, now_us: u64) {
        let many = self.by_user.len().max(self.by_digest.len()) >= BUCKETS_MAX / 2;
        if !many || now_us < self.swept_us.saturating_add(SWEEP_EVERY_US) {
            return;
        }
        self.swept_us = now_us;
        let now_ns = now_us.saturating_mul(1_000);
        self.by_user.retain(|_, full| *full > now_ns);
        self.by_digest.retain(|_, full| *full > now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: LimitAsk<'static> = LimitAsk { username: "app", rules: &[7], digest: Some(0xA) };
    const SECOND: u64 = 1_000_000;

    fn limit(scope: LimitScope, rate: u32, burst: u32, wait_max_ms: u32) -> Limit {
        let number = |number| NonZeroU32::new(number).expect("at least 1");
        Limit { scope, rate: number(rate), burst: number(burst), wait_max_ms }
    }

    fn limits(list: &[Limit]) -> Limits {
        Limits::new(list, 1)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut limits = limits(&[limit(LimitScope::User(None), 10, 3, 0)]);
        let mut passed = Vec::new();
        for now_us in (0..SECOND).step_by(10_000) {
            if limits.admit(&ASK, now_us) == Admission::Now {
                passed.push(now_us / 10_000);
            }
        }
        assert_eq!(passed, [0, 1, 2, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
        let LimitCounters { passed, delayed, refused } = limits.counters().next().expect("one");
        assert_eq!((passed, delayed, refused), (12, 0, 88));
    }

    #[test]
    fn those_who_wait_are_served_in_order_up_to_the_longest_wait() {
        let mut limits = limits(&[limit(LimitScope::Rule(7), 10, 1, 250)]);
        let mut admit = |now_us| limits.admit(&ASK, now_us);
        assert_eq!(admit(0), Admission::Now);
        assert_eq!(admit(0), Admission::After(100_000));
        assert_eq!(admit(0), Admission::After(200_000));
        assert_eq!(admit(0), Admission::Refused(0));
        assert_eq!(admit(50_000), Admission::After(250_000));
        assert_eq!(admit(2 * SECOND), Admission::Now);
    }

    #[test]
    fn each_is_limited_by_itself_or_only_the_one_that_is_named() {
        let check = |scope: LimitScope, other: LimitAsk<'_>, expected: Admission| {
            let mut limits = limits(&[limit(scope.clone(), 1, 1, 0)]);
            assert_eq!(limits.admit(&ASK, 0), Admission::Now);
            assert_eq!(limits.admit(&other, 0), expected, "{scope:?}");
        };
        let user = LimitAsk { username: "bob", ..ASK };
        let rules = LimitAsk { rules: &[8], ..ASK };
        let digest = LimitAsk { digest: Some(0xB), ..ASK };
        let refused = Admission::Refused(0);
        check(LimitScope::User(None), user, Admission::Now);
        check(LimitScope::User(None), digest, refused);
        check(LimitScope::User(Some("app".to_owned())), user, Admission::Now);
        check(LimitScope::User(Some("app".to_owned())), rules, refused);
        check(LimitScope::Rule(7), rules, Admission::Now);
        check(LimitScope::Rule(7), user, refused);
        check(LimitScope::Digest(None), digest, Admission::Now);
        check(LimitScope::Digest(None), user, refused);
        check(LimitScope::Digest(Some(0xA)), digest, Admission::Now);
        check(LimitScope::Digest(None), LimitAsk { digest: None, ..ASK }, Admission::Now);
    }

    #[test]
    fn a_statement_that_one_limit_refuses_takes_nothing_of_another() {
        let list =
            [limit(LimitScope::User(None), 1, 2, 0), limit(LimitScope::Digest(Some(0xA)), 1, 1, 0)];
        let mut limits = limits(&list);
        assert_eq!(limits.admit(&ASK, 0), Admission::Now);
        for _ in 0..5 {
            assert_eq!(limits.admit(&ASK, 0), Admission::Refused(1));
        }
        let other = LimitAsk { digest: None, ..ASK };
        assert_eq!(limits.admit(&other, 0), Admission::Now);
        assert_eq!(limits.admit(&other, 0), Admission::Refused(0));
    }

    #[test]
    fn workers_share_a_limit() {
        let list = [limit(LimitScope::User(None), 100, 10, 0)];
        let admitted: usize = (0..4)
            .map(|_| {
                let mut limits = Limits::new(&list, 4);
                let times = (0..SECOND).step_by(1_000);
                times.filter(|now_us| limits.admit(&ASK, *now_us) == Admission::Now).count()
            })
            .sum();
        // 100 for the second, and 10 at once: 12, as each worker has whole tokens.
        assert!((100..=112).contains(&admitted), "{admitted}");
    }

    #[test]
    fn buckets_are_bounded_and_those_beyond_share_one() {
        let mut limits = limits(&[limit(LimitScope::Digest(None), 1, 1, 0)]);
        let digest = |digest| LimitAsk { digest: Some(digest), ..ASK };
        for number in 0..BUCKETS_MAX as u64 {
            assert_eq!(limits.admit(&digest(number), 0), Admission::Now);
        }
        assert_eq!(limits.admit(&digest(1 << 40), 0), Admission::Now);
        assert_eq!(limits.admit(&digest(1 << 41), 0), Admission::Refused(0));
        assert_eq!(limits.limits[0].by_digest.len(), BUCKETS_MAX);
        // When they are full again they make room.
        assert_eq!(limits.admit(&digest(1 << 42), 5 * SECOND), Admission::Now);
        assert!(limits.limits[0].by_digest.len() < 10);
    }
}
