//! What a server shows: who follows it writes that, workers read it before a statement goes out.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{Acquire, Release},
    },
};

use super::{OriginId, Want};
use crate::gtid::Intervals;

/// Origins that are looked up without a lock: those that were seen first.
const LANES: usize = 8;
/// How long a server that is not compared with its writer is taken to lack what was written, ms.
const UNCOMPARED_MS: u64 = 60_000;

/// One origin's transactions, up to the last one before the first gap.
#[derive(Debug, Default)]
struct Lane {
    /// The origin's number; 0 for none. Set once.
    origin: AtomicU32,
    last: AtomicU64,
}

/// What a server has of one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The origin.
    pub origin: OriginId,
    /// Its transactions up to this one are visible.
    pub last: u64,
    /// All that are visible, where there are more behind a gap.
    pub apart: Option<Intervals>,
}

/// The transactions that a server shows. Nothing until somebody follows it.
#[derive(Debug, Default)]
pub struct Reached {
    lanes: [Lane; LANES],
    /// Whether there is something beyond the lanes.
    has_more: AtomicBool,
    /// What has gaps, and origins without a lane.
    more: Mutex<Arc<Vec<Shown>>>,
    /// Whether its own writes have numbers.
    numbers: AtomicBool,
    /// All that was written before this moment is visible, on the workers' clock, ms, and one; 0
    /// when nobody knows.
    fresh_ms: AtomicU64,
    /// Whether its writer was asked what it has, so that it can become known how fresh it is.
    is_compared: AtomicBool,
}

impl Reached {
    /// The server shows this and nothing else.
    pub fn publish(&self, shown: impl IntoIterator<Item = Shown>) {
        let mut more = Vec::new();
        let mut seen = [false; LANES];
        for shown in shown {
            let lane = self.lane(shown.origin);
            if let Some((at, lane)) = lane {
                lane.last.store(shown.last, Release);
                lane.origin.store(shown.origin.get(), Release);
                if let Some(seen) = seen.get_mut(at) {
                    *seen = true;
                }
            }
            if lane.is_none() || shown.apart.is_some() {
                more.push(shown);
            }
        }
        for (lane, _) in self.lanes.iter().zip(seen).filter(|(_, is_seen)| !is_seen) {
            lane.last.store(0, Release);
        }
        let has_more = !more.is_empty();
        if has_more || self.has_more.load(Acquire) {
            *self.more.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(more);
            self.has_more.store(has_more, Release);
        }
    }

    /// Nobody knows what it shows: it is not followed any more.
    pub fn clear(&self) {
        self.fresh_ms.store(0, Release);
        self.publish([]);
    }

    /// It shows all that was written before this moment, ms. To be called in order.
    pub fn set_fresh(&self, at_ms: u64) {
        self.fresh_ms.store(at_ms.saturating_add(1), Release);
    }

    /// Whether it shows all that was written until so many milliseconds ago.
    #[inline]
    pub fn is_fresher_than(&self, age_ms: u32, now_ms: u64) -> bool {
        match self.fresh_ms.load(Acquire).checked_sub(1) {
            Some(at_ms) => now_ms.saturating_sub(at_ms) <= u64::from(age_ms),
            None => false,
        }
    }

    /// Its writer has said what it has, and the server is compared with that from now on.
    pub fn set_compared(&self) {
        self.is_compared.store(true, Release);
    }

    /// Whether it shows all that was written up to this moment, ms. Where several servers write,
    /// nobody can say that: it is taken to be so after a while.
    #[cold]
    pub fn shows_all_until(&self, at_ms: u64, now_ms: u64) -> bool {
        let fresh_ms = self.fresh_ms.load(Acquire).checked_sub(1);
        let is_over = || now_ms.saturating_sub(at_ms) > UNCOMPARED_MS;
        fresh_ms.is_some_and(|fresh_ms| fresh_ms > at_ms)
            || !self.is_compared.load(Acquire) && is_over()
    }

    /// The lane of an origin, or a free one, with its place.
    fn lane(&self, origin: OriginId) -> Option<(usize, &Lane)> {
        let mut lanes = self.lanes.iter().enumerate();
        // Lanes are taken in order, so a free one ends those that are in use.
        lanes.find(|(_, lane)| {
            let taken = lane.origin.load(Acquire);
            taken == origin.get() || taken == 0
        })
    }

    /// Whether it shows all of these.
    #[inline]
    pub fn has(&self, wants: &[Want]) -> bool {
        wants.iter().all(|want| self.shows(want))
    }

    #[inline]
    fn shows(&self, want: &Want) -> bool {
        let is_own = |lane: &&Lane| lane.origin.load(Acquire) == want.origin.get();
        let last = self.lanes.iter().find(is_own).map_or(0, |lane| lane.last.load(Acquire));
        last >= want.last || self.has_more.load(Acquire) && self.shows_apart(want)
    }

    #[cold]
    fn shows_apart(&self, want: &Want) -> bool {
        let more = Arc::clone(&self.more.lock().unwrap_or_else(PoisonError::into_inner));
        more.iter().filter(|shown| shown.origin == want.origin).any(|shown| {
            let has = |apart: &Intervals| apart.has(want.first, want.last);
            shown.last >= want.last || shown.apart.as_ref().is_some_and(has)
        })
    }

    /// Says whether its own writes have numbers: whether it logs them, with GTIDs.
    pub fn set_numbers(&self, numbers: bool) {
        self.numbers.store(numbers, Release);
    }

    /// Whether its own writes have numbers. As long as nobody has looked, they have none.
    pub fn numbers(&self) -> bool {
        self.numbers.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{causal::Origins, gtid::Origin};

    fn id(origins: &Origins, domain: u32) -> OriginId {
        origins.id(&Origin::Domain(domain)).expect("a number")
    }

    fn token(wants: &[(OriginId, u64, u64)]) -> Vec<Want> {
        let want = |it: &(OriginId, u64, u64)| Want { origin: it.0, first: it.1, last: it.2 };
        wants.iter().map(want).collect()
    }

    #[test]
    fn what_a_server_has_up_to_a_number_it_shows() {
        let (origins, reached) = (Origins::default(), Reached::default());
        let (a, b) = (id(&origins, 1), id(&origins, 2));
        assert!(reached.has(&[]));
        assert!(!reached.has(&token(&[(a, 1, 1)])), "nobody follows it");
        reached.publish([Shown { origin: a, last: 5, apart: None }]);
        assert!(reached.has(&token(&[(a, 5, 5)])));
        assert!(!reached.has(&token(&[(a, 6, 6)])));
        assert!(!reached.has(&token(&[(a, 5, 5), (b, 1, 1)])));
        reached.publish([Shown { origin: b, last: 9, apart: None }]);
        assert!(reached.has(&token(&[(b, 9, 9)])));
        assert!(!reached.has(&token(&[(a, 5, 5)])), "it was made anew without it");
        reached.clear();
        assert!(!reached.has(&token(&[(b, 1, 1)])));
    }

    #[test]
    fn what_is_behind_a_gap_is_shown_without_what_is_in_it() {
        let (origins, reached) = (Origins::default(), Reached::default());
        let a = id(&origins, 1);
        let mut apart = Intervals::default();
        apart.add(1, 5);
        apart.add(1_000_001, 1_000_004);
        reached.publish([Shown { origin: a, last: 5, apart: Some(apart) }]);
        assert!(reached.has(&token(&[(a, 1_000_001, 1_000_004)])));
        assert!(!reached.has(&token(&[(a, 1_000_005, 1_000_005)])));
        assert!(!reached.has(&token(&[(a, 5, 1_000_001)])), "they have a gap between them");
        reached.publish([Shown { origin: a, last: 1_000_004, apart: None }]);
        assert!(reached.has(&token(&[(a, 5, 1_000_001)])));
    }

    #[test]
    fn origins_beyond_the_lanes_are_known_as_well() {
        let (origins, reached) = (Origins::default(), Reached::default());
        let ids: Vec<OriginId> = (0..12).map(|domain| id(&origins, domain)).collect();
        let shown = |last| {
            let shown = move |origin: &OriginId| Shown { origin: *origin, last, apart: None };
            ids.iter().map(shown).collect::<Vec<_>>()
        };
        reached.publish(shown(3));
        let all: Vec<_> = ids.iter().map(|id| (*id, 3, 3)).collect();
        assert!(reached.has(&token(&all)));
        let last = *ids.last().expect("twelve");
        assert!(!reached.has(&token(&[(last, 4, 4)])));
        reached.publish(shown(4));
        assert!(reached.has(&token(&[(last, 4, 4)])));
    }
}
