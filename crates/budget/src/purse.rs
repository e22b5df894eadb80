//! A worker's part of the budget.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use super::{Budget, Kind, bytes};

/// What a worker takes from the budget at a time, bytes.
const CHUNK: u64 = 256 * 1024;
/// What a worker keeps of what it does not use, bytes.
const SLACK_MAX: u64 = 2 * CHUNK;

/// A worker's part of the budget: taken in chunks, so that what comes and goes touches nothing
/// that is shared.
#[derive(Debug)]
pub struct Purse {
    budget: Arc<Budget>,
    /// Bytes taken from the budget.
    taken: u64,
    /// Bytes in use, by kind.
    used: [u64; Kind::ALL.len()],
    /// What of `used` the budget knows of.
    told: [u64; Kind::ALL.len()],
}

impl Purse {
    /// An empty one.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { budget, taken: 0, used: Default::default(), told: Default::default() }
    }

    /// The budget.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.iter().sum()
    }

    /// Somebody holds so many bytes of this kind now, after so many before.
    pub fn change(&mut self, kind: Kind, before: usize, now: usize) {
        if let Some(used) = self.used.get_mut(kind as usize) {
            debug_assert!(*used >= bytes(before), "more is given back than was charged");
            *used = used.saturating_sub(bytes(before)).saturating_add(bytes(now));
        }
        let used = self.used();
        let wanted = match used > self.taken || self.taken - used > SLACK_MAX {
            true => used.div_ceil(CHUNK) * CHUNK,
            false => return,
        };
        self.budget.take(wanted.saturating_sub(self.taken));
        self.budget.give_back(self.taken.saturating_sub(wanted));
        self.taken = wanted;
        debug_assert!(used <= self.taken);
    }

    /// Tells the budget what is used for what. Once a second.
    pub fn tell(&mut self) {
        for (kind, (used, told)) in Kind::ALL.iter().zip(self.used.iter().zip(&mut self.told)) {
            if let Some(sum) = self.budget.kind(*kind).filter(|_| used != told) {
                sum.fetch_add(used.saturating_sub(*told), Relaxed);
                sum.fetch_sub(told.saturating_sub(*used), Relaxed);
            }
            *told = *used;
        }
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        self.used = Default::default();
        self.tell();
        self.budget.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_LEN: usize = 256 * 1024;

    #[test]
    fn what_comes_and_goes_within_a_chunk_touches_nothing_shared() {
        let budget = Arc::new(Budget::new(u64::MAX));
        let mut purse = Purse::new(Arc::clone(&budget));
        purse.change(Kind::Results, 0, 100);
        assert_eq!((budget.total(), purse.used()), (CHUNK, 100));
        for _ in 0..3 {
            purse.change(Kind::Results, 100, CHUNK_LEN);
            purse.change(Kind::Results, CHUNK_LEN, 0);
            purse.change(Kind::Results, 0, 100);
            assert_eq!(budget.total(), CHUNK);
        }
    }

    #[test]
    fn much_is_taken_at_once_and_given_back_at_once() {
        let budget = Arc::new(Budget::new(u64::MAX));
        let mut purse = Purse::new(Arc::clone(&budget));
        purse.change(Kind::Statements, 0, 10 * CHUNK_LEN + 1);
        assert_eq!(budget.total(), 11 * CHUNK);
        purse.change(Kind::Statements, 10 * CHUNK_LEN + 1, 9 * CHUNK_LEN);
        assert_eq!(budget.total(), 11 * CHUNK, "little is kept");
        purse.change(Kind::Statements, 9 * CHUNK_LEN, 5);
        assert_eq!(budget.total(), CHUNK);
    }

    #[test]
    fn kinds_are_told_when_it_is_time_and_nothing_is_left_at_the_end() {
        let budget = Arc::new(Budget::new(u64::MAX));
        let mut purse = Purse::new(Arc::clone(&budget));
        purse.change(Kind::Statements, 0, 70);
        purse.change(Kind::Prepared, 0, 30);
        assert_eq!(budget.of(Kind::Statements), 0);
        purse.tell();
        assert_eq!((budget.of(Kind::Statements), budget.of(Kind::Prepared)), (70, 30));
        purse.change(Kind::Statements, 70, 20);
        purse.tell();
        assert_eq!(budget.of(Kind::Statements), 20);
        drop(purse);
        assert_eq!((budget.of(Kind::Statements), budget.of(Kind::Prepared)), (0, 0));
        assert_eq!(budget.total(), 0);
    }
}
