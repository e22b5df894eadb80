//! Sessions that wait for a connection of one hostgroup, first come first served.

use std::collections::VecDeque;

use crate::AccountId;

/// A session in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter<C> {
    /// Who waits.
    pub client: C,
    /// As whom.
    pub account: AccountId,
    /// When it began to wait, µs of the worker's clock.
    pub since_us: u64,
    /// When it is refused, ms of the worker's clock.
    pub deadline_ms: u64,
}

/// The queue of one hostgroup. Bounded: [`push`](Self::push) refuses beyond the limit.
#[derive(Debug)]
pub struct Waiters<C> {
    queue: VecDeque<Waiter<C>>,
}

impl<C> Default for Waiters<C> {
    fn default() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl<C: Copy + PartialEq> Waiters<C> {
    /// Puts a session at the end; false when `max` wait already.
    pub fn push(&mut self, waiter: Waiter<C>, max: usize) -> bool {
        let has_room = self.queue.len() < max;
        if has_room {
            self.queue.push_back(waiter);
        }
        has_room
    }

    /// The session that waits longest.
    pub fn front(&self) -> Option<&Waiter<C>> {
        self.queue.front()
    }

    /// Takes the session that waits longest among those for whom `wanted` holds.
    pub fn take(&mut self, wanted: impl Fn(&Waiter<C>) -> bool) -> Option<Waiter<C>> {
        let place = self.queue.iter().position(wanted)?;
        self.queue.remove(place)
    }

    /// Puts a session back at the front: it was served, but what it got was not usable. False,
    /// without doing so, when `max` wait already.
    pub fn push_front(&mut self, waiter: Waiter<C>, max: usize) -> bool {
        let has_room = self.queue.len() < max;
        if has_room {
            self.queue.push_front(waiter);
        }
        has_room
    }

    /// Takes a session that no longer waits.
    pub fn remove(&mut self, client: C) {
        if let Some(place) = self.queue.iter().position(|waiter| waiter.client == client) {
            self.queue.remove(place);
        }
    }

    /// Takes a session whose deadline has passed. All wait equally long, so the front is the
    /// first; one put back at the front has an earlier deadline than those behind.
    pub fn take_expired(&mut self, now_ms: u64) -> Option<Waiter<C>> {
        match self.queue.front()?.deadline_ms <= now_ms {
            true => self.queue.pop_front(),
            false => None,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Those that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter<C>> {
        self.queue.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(client: u32, deadline_ms: u64) -> Waiter<u32> {
        Waiter { client, account: AccountId(client % 2), since_us: 0, deadline_ms }
    }

    #[test]
    fn sessions_are_served_in_order_and_bounded() {
        let mut waiters = Waiters::default();
        assert!(waiters.push(waiter(1, 10), 2));
        assert!(waiters.push(waiter(2, 20), 2));
        assert!(!waiters.push(waiter(3, 30), 2));
        assert_eq!(waiters.take(|_| true).map(|w| w.client), Some(1));
        assert_eq!(waiters.take(|w| w.account == AccountId(1)), None);
        assert_eq!(waiters.take_expired(19), None);
        assert_eq!(waiters.take_expired(20).map(|w| w.client), Some(2));
        assert!(waiters.is_empty());
    }
}
