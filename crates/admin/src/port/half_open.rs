//! Clients that have not logged in: a few places of their own, which the oldest give up.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;
use trunkline_topology::Origin;

use crate::figures::{Count, Figures, Share};

/// Clients that may be on their way to a login at once.
pub(crate) const PLACES: usize = 64;

/// Who is on the way to a login, and who gives way: the oldest of the origin that has the most. So
/// whoever fills the places displaces clients of his own first.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    of: BTreeMap<u64, Origin>,
}

impl Queue {
    /// Takes a place; the number of it, and of the one that gives way.
    fn arrive(&mut self, origin: Origin) -> (u64, Option<u64>) {
        let displaced = if self.of.len() < PLACES { None } else { self.first_to_go(origin) };
        if let Some(number) = displaced {
            self.of.remove(&number);
        }
        let number = self.next;
        self.next += 1;
        self.of.insert(number, origin);
        debug_assert!(self.of.len() <= PLACES);
        (number, displaced)
    }

    fn first_to_go(&self, newcomer: Origin) -> Option<u64> {
        let mut counts: HashMap<Origin, usize> = HashMap::from([(newcomer, 1)]);
        for origin in self.of.values() {
            *counts.entry(*origin).or_default() += 1;
        }
        let count = |origin: &Origin| counts.get(origin).copied().unwrap_or_default();
        let most = self.of.values().map(count).max()?;
        self.of.iter().find(|(_, origin)| count(origin) == most).map(|(number, _)| *number)
    }

    fn leave(&mut self, number: u64) {
        self.of.remove(&number);
    }
}

/// The places of all listeners.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: Queue,
    /// What tells a client that it has to go.
    tell: HashMap<u64, oneshot::Sender<()>>,
}

impl HalfOpen {
    /// Takes a place; whoever gives way is told.
    pub(crate) fn arrive(self: &Arc<Self>, origin: Origin, figures: &Arc<Figures>) -> Ticket {
        let logging_in: fn(&Figures) -> &Count = |figures| &figures.admin.logging_in;
        let mut counted = Share::none(figures, logging_in);
        counted.grow(1, u64::MAX);
        let (teller, told) = oneshot::channel();
        let mut waiting = self.lock();
        let (number, displaced) = waiting.queue.arrive(origin);
        waiting.tell.insert(number, teller);
        if let Some(teller) = displaced.and_then(|number| waiting.tell.remove(&number)) {
            figures.admin.displaced.add(1);
            // It may be going already.
            let _ = teller.send(());
        }
        Ticket { half_open: Arc::clone(self), number, told, _counted: counted }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client's place, given back when it is dropped.
pub(crate) struct Ticket {
    half_open: Arc<HalfOpen>,
    number: u64,
    told: oneshot::Receiver<()>,
    _counted: Share,
}

impl Ticket {
    /// Returns when the place is another one's.
    pub(crate) async fn displaced(&mut self) {
        // The other end is dropped only after it was told, or with this.
        let _ = (&mut self.told).await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut waiting = self.half_open.lock();
        waiting.queue.leave(self.number);
        waiting.tell.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn from(last: u8) -> Origin {
        Origin::machine(Ipv4Addr::new(10, 0, 0, last).into())
    }

    #[test]
    fn the_oldest_of_those_with_the_most_gives_way() {
        let mut queue = Queue::default();
        let (administrator, none) = queue.arrive(from(1));
        assert_eq!(none, None);
        for _ in 1..PLACES {
            assert_eq!(queue.arrive(from(2)).1, None);
        }
        for expected in 1..500 {
            assert_eq!(queue.arrive(from(2)).1, Some(expected));
        }
        assert!(queue.of.contains_key(&administrator), "it came first, and stays");
        let (another, displaced) = queue.arrive(from(3));
        assert_eq!(displaced, Some(500));
        queue.leave(administrator);
        assert_eq!(queue.arrive(from(2)).1, None);
        assert!(queue.of.contains_key(&another) && queue.of.len() == PLACES);
    }

    #[tokio::test]
    async fn who_gives_way_is_told_and_counted() {
        let (figures, half_open) = (Arc::new(Figures::default()), Arc::new(HalfOpen::default()));
        let mut first = half_open.arrive(from(1), &figures);
        let others: Vec<Ticket> =
            (1..=PLACES).map(|_| half_open.arrive(from(1), &figures)).collect();
        first.displaced().await;
        assert_eq!(figures.admin.displaced.now(), 1);
        drop((first, others));
        assert_eq!(figures.admin.logging_in.now(), 0);
        assert!(half_open.lock().tell.is_empty());
    }
}
