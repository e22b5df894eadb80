//! Connections that have not logged in. They have places of their own and give way to one another,
//! the oldest first, so that silent ones keep out nobody who knows a password.
//!
//! The limits hold over all workers, and each worker closes connections of its own only. Where
//! there are too many, some worker has more than its even share: that one closes its oldest when
//! one more comes to it. A worker with less than its share takes one more in the meantime, so that
//! there may be up to twice as many as the limit says, until the others have taken in one each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::{ClientId, clients::client::Frontend, rooms::Core};

/// How many there are over all workers.
#[derive(Debug, Default)]
pub(crate) struct HalfOpenCounts {
    all: AtomicU32,
    by_addr: Mutex<HashMap<IpAddr, u32>>,
}

impl HalfOpenCounts {
    /// All of them.
    pub(crate) fn all(&self) -> u32 {
        self.all.load(Relaxed)
    }

    fn change(&self, addr: IpAddr, change: impl FnOnce(u32) -> u32) -> u32 {
        let mut by_addr = self.by_addr.lock().unwrap_or_else(PoisonError::into_inner);
        let count = change(by_addr.get(&addr).copied().unwrap_or_default());
        match count {
            0 => by_addr.remove(&addr),
            count => by_addr.insert(addr, count),
        };
        count
    }

    fn of(&self, addr: IpAddr) -> u32 {
        let by_addr = self.by_addr.lock().unwrap_or_else(PoisonError::into_inner);
        by_addr.get(&addr).copied().unwrap_or_default()
    }
}

/// One of these places; given back when dropped.
#[derive(Debug)]
struct Place {
    counts: Arc<HalfOpenCounts>,
    /// Where it counts, too: once that is known.
    addr: Option<IpAddr>,
}

impl Place {
    fn new(counts: &Arc<HalfOpenCounts>) -> Self {
        counts.all.fetch_add(1, Relaxed);
        Self { counts: Arc::clone(counts), addr: None }
    }

    fn is_at(&mut self, addr: IpAddr) {
        self.counts.change(addr, |count| count.saturating_add(1));
        self.addr = Some(addr);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.all.fetch_sub(1, Relaxed);
        if let Some(addr) = self.addr {
            self.counts.change(addr, |count| count.saturating_sub(1));
        }
    }
}

/// The limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) all: u32,
    /// 0 is no limit.
    pub(crate) per_address: u32,
    pub(crate) workers: u32,
}

/// Those of one worker.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen {
    /// By their numbers, which grow.
    places: BTreeMap<u64, (ClientId, Place)>,
    by_addr: BTreeMap<IpAddr, BTreeSet<u64>>,
    last: u64,
    pub(crate) closed: Closed,
}

/// What was closed since that was logged last.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) count: u32,
    /// Where the last one came from.
    pub(crate) addr: Option<IpAddr>,
}

impl HalfOpen {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// A client has connected; the number of its place.
    pub(crate) fn enter(&mut self, client: ClientId, counts: &Arc<HalfOpenCounts>) -> u64 {
        self.last += 1;
        self.places.insert(self.last, (client, Place::new(counts)));
        self.last
    }

    /// It is known where it comes from: `addr` is what counts as one address.
    pub(crate) fn is_at(&mut self, number: u64, addr: IpAddr) {
        if let Some((_, place)) = self.places.get_mut(&number)
            && place.addr.is_none()
        {
            place.is_at(addr);
            self.by_addr.entry(addr).or_default().insert(number);
        }
    }

    /// It has logged in, or goes.
    pub(crate) fn leave(&mut self, number: u64) -> Option<ClientId> {
        let (client, place) = self.places.remove(&number)?;
        if let Some(addr) = place.addr
            && let Some(there) = self.by_addr.get_mut(&addr)
        {
            there.remove(&number);
            if there.is_empty() {
                self.by_addr.remove(&addr);
            }
        }
        Some(client)
    }

    /// The number of the one that has to go, since one has come from there.
    pub(crate) fn surplus(
        &self,
        counts: &HalfOpenCounts,
        addr: Option<IpAddr>,
        limits: Limits,
    ) -> Option<u64> {
        let share = |limit: u32| (limit / limits.workers.max(1)).max(1) as usize;
        if let Some(addr) = addr.filter(|_| limits.per_address > 0)
            && counts.of(addr) > limits.per_address
            && let Some(there) = self.by_addr.get(&addr)
            && there.len() > share(limits.per_address)
        {
            return there.first().copied();
        }
        let is_full = counts.all.load(Relaxed) > limits.all && self.len() > share(limits.all);
        self.places.keys().next().copied().filter(|_| is_full)
    }
}

impl Core {
    /// A client has logged in, or goes.
    pub(crate) fn leave_half_open(&mut self, client: &mut Frontend) {
        if let Some(number) = client.origin.half_open.take() {
            self.clients.logins.half_open.leave(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { all: 4, per_address: 2, workers: 1 };

    fn addr(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn id(index: u32) -> ClientId {
        ClientId { index, generation: 0 }
    }

    /// One that comes from there, and who has to go for it.
    fn come(
        half_open: &mut HalfOpen,
        counts: &Arc<HalfOpenCounts>,
        (index, from): (u32, u8),
        limits: Limits,
    ) -> Vec<u32> {
        let number = half_open.enter(id(index), counts);
        half_open.is_at(number, addr(from));
        let mut gone = Vec::new();
        while let Some(number) = half_open.surplus(counts, Some(addr(from)), limits) {
            gone.extend(half_open.leave(number).map(|client| client.index));
        }
        gone
    }

    #[test]
    fn the_oldest_from_there_goes_then_the_oldest_of_all() {
        let (mut half_open, counts) = (HalfOpen::default(), Arc::default());
        let cases: [((u32, u8), &[u32]); 8] = [
            ((0, 1), &[]),
            ((1, 1), &[]),
            // A third from there.
            ((2, 1), &[0]),
            ((3, 2), &[]),
            ((4, 2), &[]),
            ((5, 2), &[3]),
            // A fifth of all.
            ((6, 3), &[1]),
            ((7, 4), &[2]),
        ];
        for (who, expected) in cases {
            assert_eq!(come(&mut half_open, &counts, who, LIMITS), expected, "{who:?}");
        }
        assert_eq!((half_open.len(), counts.all.load(Relaxed)), (4, 4));
        assert_eq!(counts.of(addr(1)), 0);
        drop(half_open);
        assert_eq!(counts.all.load(Relaxed), 0);
        assert!(counts.by_addr.lock().expect("nobody panicked").is_empty());
    }

    #[test]
    fn the_limit_holds_over_workers_and_who_has_few_closes_none() {
        let counts = Arc::default();
        let limits = Limits { workers: 2, per_address: 0, ..LIMITS };
        let (mut one, mut other) = (HalfOpen::default(), HalfOpen::default());
        // All come to one of two workers: it may use all of the places.
        for index in 0..4 {
            assert!(come(&mut one, &counts, (index, 1), limits).is_empty());
        }
        // The other one has its share nevertheless, and the crowded one gives way.
        assert!(come(&mut other, &counts, (9, 2), limits).is_empty());
        assert_eq!(come(&mut one, &counts, (4, 1), limits), [0, 1]);
        assert_eq!((one.len(), other.len(), counts.all.load(Relaxed)), (3, 1, 4));
    }
}
