//! From when on what is written is followed: what was written before is not known by its numbers.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, SeqCst},
};

/// The moment from which on workers know what is written: a reload has switched causal reads on, or
/// given servers other hostgroups. Reads have to see all that was there by then.
#[derive(Debug, Default)]
pub struct Since {
    workers: AtomicUsize,
    last_ms: AtomicU64,
}

impl Since {
    /// One more worker follows what is written from now on, ms on the workers' clock. To be called
    /// once by each.
    pub fn begin(&self, now_ms: u64) {
        self.last_ms.fetch_max(now_ms, SeqCst);
        self.workers.fetch_add(1, SeqCst);
    }

    /// When the last one of so many workers has begun; `None` as long as some have not.
    pub fn moment_ms(&self, workers: usize) -> Option<u64> {
        let have_all = self.workers.load(SeqCst) >= workers;
        have_all.then(|| self.last_ms.load(Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_when_the_last_worker_begins() {
        let since = Since::default();
        since.begin(9);
        assert_eq!(since.moment_ms(2), None);
        since.begin(7);
        assert_eq!(since.moment_ms(2), Some(9));
    }
}
