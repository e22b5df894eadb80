//! The cache itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use foldhash::fast::FixedState;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter, sync};

use crate::{
    Reply, Shared,
    expiry::Expiries,
    flight::{Begun, Flights, Joined, Ticket, Waiter},
};

/// Parts of the cache, each with its own lock and its share of the bytes: no stored answer is
/// larger than that share.
const SHARDS: usize = 8;
/// What an answer takes beside its key and bytes: the record, its two allocations, its places in
/// the table and among those that expire.
const OVERHEAD: u64 = 224;
/// Answers that there is room for from the start; the tables grow.
const ITEMS_EXPECTED: usize = 1_024;

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<Arc<[u8]>, Arc<Reply>> for ByBytes {
    fn weight(&self, key: &Arc<[u8]>, reply: &Arc<Reply>) -> u64 {
        weight(key, reply)
    }
}

fn weight(key: &[u8], reply: &Reply) -> u64 {
    let len = key.len().saturating_add(reply.bytes.len());
    u64::try_from(len).unwrap_or(u64::MAX).saturating_add(OVERHEAD)
}

/// Counts what has to leave.
#[derive(Debug, Clone, Default)]
struct Evictions(Arc<AtomicU64>);

impl Lifecycle<Arc<[u8]>, Arc<Reply>> for Evictions {
    type RequestState = ();

    fn on_evict(&self, _state: &mut (), _key: Arc<[u8]>, _reply: Arc<Reply>) {
        self.0.fetch_add(1, Relaxed);
    }
}

type Store = sync::Cache<Arc<[u8]>, Arc<Reply>, ByBytes, FixedState, Evictions>;

/// What the cache holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Answers held, some of which may have expired.
    pub entries: u64,
    /// Bytes that they take, keys and records included.
    pub bytes: u64,
    /// The most bytes that they may take.
    pub bytes_max: u64,
    /// Answers that were stored.
    pub stored: u64,
    /// Bytes of answers that were stored, over all time.
    pub stored_bytes: u64,
    /// Answers that had to leave for others, or had expired.
    pub purged: u64,
    /// Statements under way whose answers are to be stored.
    pub flights: u64,
}

/// Replies by key, and who waits for them. All workers share one.
pub struct Cache {
    store: Store,
    flights: Flights,
    expiries: Expiries,
    shared: Shared,
    evictions: Evictions,
    expired: AtomicU64,
    /// Answers in place of which others were stored; the table counts them as evicted.
    renewed: AtomicU64,
    stored: AtomicU64,
    stored_bytes: AtomicU64,
    /// How often it was flushed.
    epoch: AtomicU64,
    number: AtomicU64,
    bytes_max: AtomicU64,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Cache {
    /// A cache of at most `bytes_max` bytes; 0 holds nothing.
    pub fn new(bytes_max: u64) -> Self {
        let evictions = Evictions::default();
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(ITEMS_EXPECTED)
            .weight_capacity(bytes_max)
            .build()
            .unwrap_or_else(|_| unreachable!("both capacities are given"));
        let hasher = FixedState::default();
        Self {
            store: Store::with_options(options, ByBytes, hasher, evictions.clone()),
            flights: Flights::new(),
            expiries: Expiries::new(),
            shared: Shared::default(),
            evictions,
            expired: AtomicU64::new(0),
            renewed: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            number: AtomicU64::new(0),
            bytes_max: AtomicU64::new(bytes_max),
        }
    }

    /// Holds at most so many bytes from now on. What is beyond leaves at once.
    pub fn resize(&self, bytes_max: u64) {
        if self.bytes_max.swap(bytes_max, Relaxed) != bytes_max {
            self.store.set_capacity(bytes_max);
        }
    }

    /// What is known of the second level.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether what was asked for with this ticket may still be stored: nothing was flushed since.
    pub fn is_current(&self, ticket: Ticket) -> bool {
        self.epoch.load(Relaxed) == ticket.epoch
    }

    /// Whether it holds anything at all.
    pub fn is_on(&self) -> bool {
        self.bytes_max.load(Relaxed) > 0
    }

    /// The largest answer that it takes, bytes.
    pub fn reply_max(&self) -> u64 {
        let share = self.bytes_max.load(Relaxed) / SHARDS as u64;
        share.saturating_sub(OVERHEAD)
    }

    /// The answer under this key, for somebody who takes answers up to `ttl_us` old.
    pub fn get(&self, key: &[u8], ttl_us: u64, now_us: u64) -> Option<Arc<Reply>> {
        let reply = self.store.get(key)?;
        if reply.is_good(ttl_us, now_us) {
            return Some(reply);
        }
        if now_us >= reply.expires_us {
            // Another one may have stored a new one meanwhile.
            if self.store.remove_if(key, |held| now_us >= held.expires_us).is_some() {
                self.expired.fetch_add(1, Relaxed);
            }
        }
        None
    }

    /// A statement finds no answer that it may have. With a `waiter` it may wait for the answer to
    /// an equal one that is under way; [`finish`](Self::finish) of that one then names it.
    pub fn begin(&self, key: &[u8], waiter: Option<Waiter>, now_us: u64) -> Begun {
        let number = self.number.fetch_add(1, Relaxed);
        let epoch = self.epoch.load(Relaxed);
        match self.flights.begin(key, waiter, number, now_us) {
            Joined::Begun => Begun::Fill(Ticket { number, epoch }),
            Joined::Waits => Begun::Wait,
            Joined::Busy => Begun::Busy,
        }
    }

    /// The statement that was to be stored is over: with its answer, or without one. Those who
    /// waited for it, who have to look again.
    pub fn finish(&self, key: &[u8], ticket: Ticket, reply: Option<Reply>) -> Vec<Waiter> {
        if let Some(reply) = reply {
            self.put(key, ticket, reply);
        }
        self.flights.end(key, ticket.number)
    }

    fn put(&self, key: &[u8], ticket: Ticket, reply: Reply) {
        let len = u64::try_from(reply.bytes.len()).unwrap_or(u64::MAX);
        let fits = weight(key, &reply) <= self.bytes_max.load(Relaxed) / SHARDS as u64;
        if !fits || !self.is_current(ticket) {
            return;
        }
        let (key, expires_us): (Arc<[u8]>, u64) = (key.into(), reply.expires_us);
        self.expiries.add(expires_us, Arc::clone(&key), self.store.len());
        self.renewed.fetch_add(u64::from(self.store.contains_key(&*key)), Relaxed);
        self.store.insert(Arc::clone(&key), Arc::new(reply));
        // A flush that came in between may have missed it.
        if !self.is_current(ticket) {
            self.store.remove(&*key);
            return;
        }
        self.stored.fetch_add(1, Relaxed);
        self.stored_bytes.fetch_add(len, Relaxed);
    }

    /// Lets go of at most `max` answers whose time has passed; how many.
    pub fn sweep(&self, now_us: u64, max: usize) -> usize {
        let due = self.expiries.take_due(now_us, max);
        // One that was renewed is not over.
        let has_expired = |held: &Arc<Reply>| now_us >= held.expires_us;
        let left = due.iter().filter(|key| self.store.remove_if(&***key, has_expired).is_some());
        let left = left.count();
        self.expired.fetch_add(u64::try_from(left).unwrap_or(u64::MAX), Relaxed);
        left
    }

    /// Forgets everything. Answers to what is under way are not stored either.
    pub fn flush(&self) -> u64 {
        self.epoch.fetch_add(1, Relaxed);
        let entries = u64::try_from(self.store.len()).unwrap_or(u64::MAX);
        self.store.clear();
        self.expiries.clear();
        entries
    }

    /// What it holds now.
    pub fn figures(&self) -> Figures {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Figures {
            entries: count(self.store.len()),
            bytes: self.store.weight(),
            bytes_max: self.bytes_max.load(Relaxed),
            stored: self.stored.load(Relaxed),
            stored_bytes: self.stored_bytes.load(Relaxed),
            purged: (self.evictions.0.load(Relaxed) + self.expired.load(Relaxed))
                .saturating_sub(self.renewed.load(Relaxed)),
            flights: count(self.flights.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::response::ReplyFormat;

    use super::*;

    const SEC: u64 = 1_000_000;

    fn reply(len: usize, sent_us: u64) -> Reply {
        Reply {
            bytes: vec![b'x'; len].into(),
            format: ReplyFormat::PLAIN,
            sent_us,
            before_us: 0,
            soft_us: sent_us + SEC / 2,
            expires_us: sent_us + SEC,
            basis: None,
        }
    }

    fn waiter(index: u32) -> Waiter {
        Waiter { worker: 0, index, generation: 0 }
    }

    fn fill(cache: &Cache, key: &[u8], now_us: u64) -> Ticket {
        match cache.begin(key, None, now_us) {
            Begun::Fill(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_is_good_until_it_expires_or_is_too_old_for_the_reader() {
        let cache = Cache::new(1 << 20);
        let ticket = fill(&cache, b"key", 0);
        assert!(cache.get(b"key", SEC, 0).is_none());
        cache.finish(b"key", ticket, Some(reply(10, 0)));
        assert!(cache.get(b"key", SEC, SEC - 1).is_some());
        assert!(cache.get(b"key", SEC / 4, SEC / 4).is_none(), "too old for this reader");
        assert!(cache.get(b"key", 9 * SEC, SEC / 4).is_some(), "and still there");
        assert!(cache.get(b"key", 9 * SEC, SEC).is_none());
        assert_eq!((cache.figures().entries, cache.figures().purged), (0, 1));
        assert!(cache.get(b"other", SEC, 0).is_none());
    }

    #[test]
    fn one_asks_and_the_others_wait_for_it() {
        let cache = Cache::new(1 << 20);
        let ticket = fill(&cache, b"key", 0);
        assert_eq!(cache.begin(b"key", Some(waiter(1)), 1), Begun::Wait);
        assert_eq!(cache.begin(b"key", Some(waiter(2)), 1), Begun::Wait);
        assert_eq!(cache.begin(b"key", None, 1), Begun::Busy);
        assert!(matches!(cache.begin(b"other", Some(waiter(3)), 1), Begun::Fill(_)));
        assert_eq!(cache.finish(b"key", ticket, None), [waiter(1), waiter(2)]);
        // The answer was not fit to be stored: the next one asks again.
        assert!(matches!(cache.begin(b"key", Some(waiter(1)), 2), Begun::Fill(_)));
    }

    #[test]
    fn a_flight_that_never_ends_is_taken_over() {
        let cache = Cache::new(1 << 20);
        let lost = fill(&cache, b"key", 0);
        assert_eq!(cache.begin(b"key", Some(waiter(1)), 5), Begun::Wait);
        let next = fill(&cache, b"key", crate::flight::FLIGHT_US_MAX);
        assert_eq!(cache.finish(b"key", lost, None), []);
        assert_eq!(cache.finish(b"key", next, None), [waiter(1)]);
    }

    #[test]
    fn what_was_asked_before_a_flush_is_not_stored_after_it() {
        let cache = Cache::new(1 << 20);
        let before = fill(&cache, b"old", 0);
        let ticket = fill(&cache, b"key", 0);
        cache.finish(b"key", ticket, Some(reply(10, 0)));
        assert_eq!(cache.flush(), 1);
        assert!(cache.get(b"key", SEC, 1).is_none());
        cache.finish(b"old", before, Some(reply(10, 0)));
        assert!(cache.get(b"old", SEC, 1).is_none());
        assert_eq!(cache.figures().entries, 0);
    }

    #[test]
    fn it_stays_within_its_bytes_and_keeps_what_is_asked_for() {
        let max = 1 << 20;
        let cache = Cache::new(max);
        let put = |key: &str| {
            let ticket = fill(&cache, key.as_bytes(), 0);
            cache.finish(key.as_bytes(), ticket, Some(reply(1_000, 0)));
        };
        put("hot");
        for number in 0..5_000 {
            put(&format!("key {number}"));
            assert!(cache.get(b"hot", SEC, 1).is_some(), "{number}");
            assert!(cache.figures().bytes <= max);
        }
        let figures = cache.figures();
        assert!(figures.entries > 500 && figures.purged > 3_000, "{figures:?}");
        assert_eq!(figures.flights, 0);
    }

    #[test]
    fn what_nobody_asks_for_again_leaves_when_it_has_expired() {
        let cache = Cache::new(1 << 20);
        for number in 0..10_u64 {
            let key = number.to_le_bytes();
            let ticket = fill(&cache, &key, 0);
            cache.finish(&key, ticket, Some(reply(10, number * SEC)));
        }
        assert_eq!(cache.sweep(SEC - 1, 100), 0);
        assert_eq!(cache.sweep(5 * SEC, 3), 3, "no more than asked for");
        // One of them is renewed meanwhile.
        let renewed = 4_u64.to_le_bytes();
        let ticket = fill(&cache, &renewed, 5 * SEC);
        cache.finish(&renewed, ticket, Some(reply(10, 5 * SEC)));
        assert_eq!(cache.sweep(5 * SEC, 100), 1);
        assert!(cache.get(&renewed, SEC, 5 * SEC).is_some());
        assert_eq!(cache.sweep(100 * SEC, 100), 6);
        let figures = cache.figures();
        assert_eq!((figures.entries, figures.bytes, figures.purged), (0, 0, 10));
    }

    #[test]
    fn an_answer_larger_than_its_share_is_not_stored_and_a_smaller_cache_lets_go() {
        let cache = Cache::new(1 << 20);
        let ticket = fill(&cache, b"big", 0);
        cache.finish(b"big", ticket, Some(reply(1 << 18, 0)));
        assert!(cache.get(b"big", SEC, 1).is_none());
        let ticket = fill(&cache, b"small", 0);
        cache.finish(b"small", ticket, Some(reply(100, 0)));
        cache.resize(0);
        assert!(!cache.is_on() && cache.get(b"small", SEC, 1).is_none());
    }
}
