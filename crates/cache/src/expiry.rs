//! When stored answers expire, so that those that nobody asks for again give their memory back.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Places beyond those of the answers that are held.
const PLACES_SPARE: usize = 4_096;
/// Places for each answer that is held: renewed and evicted ones leave theirs behind.
const PLACES_PER_ENTRY: usize = 4;

type Queue = BinaryHeap<Reverse<(u64, Arc<[u8]>)>>;

/// Keys by the time at which their answers expire.
#[derive(Debug)]
pub(crate) struct Expiries {
    queue: Mutex<Queue>,
    /// Nothing is due before this, µs.
    soonest_us: AtomicU64,
}

impl Expiries {
    pub(crate) fn new() -> Self {
        Self { queue: Mutex::default(), soonest_us: AtomicU64::new(u64::MAX) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer is stored that expires then. With many places that nothing is behind any more it
    /// is left out: such an answer leaves when somebody asks for it, or for others.
    pub(crate) fn add(&self, expires_us: u64, key: Arc<[u8]>, entries: usize) {
        let mut queue = self.queue();
        if queue.len() < entries.saturating_mul(PLACES_PER_ENTRY).saturating_add(PLACES_SPARE) {
            queue.push(Reverse((expires_us, key)));
            self.soonest_us.fetch_min(expires_us, Relaxed);
        }
    }

    /// Takes the keys of at most `max` answers whose time has passed.
    pub(crate) fn take_due(&self, now_us: u64, max: usize) -> Vec<Arc<[u8]>> {
        let mut due = Vec::new();
        if now_us < self.soonest_us.load(Relaxed) {
            return due;
        }
        let mut queue = self.queue();
        while due.len() < max
            && let Some(place) = queue.peek_mut()
        {
            if place.0.0 > now_us {
                break;
            }
            due.push(std::collections::binary_heap::PeekMut::pop(place).0.1);
        }
        let soonest_us = queue.peek().map_or(u64::MAX, |place| place.0.0);
        self.soonest_us.store(soonest_us, Relaxed);
        if queue.capacity() > PLACES_SPARE && queue.len() < queue.capacity() / 4 {
            queue.shrink_to(PLACES_SPARE);
        }
        due
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        *self.queue() = Queue::new();
        self.soonest_us.store(u64::MAX, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_order_and_no_more_than_asked_for() {
        let expiries = Expiries::new();
        for (at, key) in [(30, b"c"), (10, b"a"), (20, b"b"), (40, b"d")] {
            expiries.add(at, Arc::from(&key[..]), 4);
        }
        let due = |now, max| {
            let keys = expiries.take_due(now, max);
            keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<String>()
        };
        assert_eq!(due(9, 8), "");
        assert_eq!(due(35, 2), "ab");
        assert_eq!(due(35, 8), "c");
        expiries.clear();
        assert_eq!(due(99, 8), "");
    }

    #[test]
    fn places_are_bounded_by_what_is_held() {
        let expiries = Expiries::new();
        for at in 0..10_000 {
            expiries.add(at, Arc::from(&b"key"[..]), 1);
        }
        let due = expiries.take_due(u64::MAX, usize::MAX);
        assert_eq!(due.len(), PLACES_SPARE + PLACES_PER_ENTRY);
    }
}
