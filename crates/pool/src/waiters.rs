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
    /// When it was held first for what it is held for now or was last, ms of the worker's clock;
    /// `None` for one that was never held.
    pub held_ms: Option<u64>,
}

/// Why nobody is served who waits for a hostgroup, however many connections are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Its cluster has no writer.
    NoWriter {
        /// How long one is held at most, ms.
        timeout_ms: u64,
    },
    /// An operator has paused it.
    Paused,
}

/// The queue of one hostgroup. Bounded: [`push`](Self::push) refuses beyond the limit.
#[derive(Debug)]
pub struct Waiters<C> {
    queue: VecDeque<Waiter<C>>,
    hold: Option<Hold>,
    /// When that was looked at last, ms.
    looked_ms: u64,
}

/// What a look at a queue's hold has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HoldLook {
    /// For how many a hold has begun.
    pub begun: usize,
    /// For how long all of them were held since the last look, ms in sum.
    pub held_ms: u64,
}

impl<C> Default for Waiters<C> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), hold: None, looked_ms: 0 }
    }
}

impl<C> Waiter<C> {
    /// Takes over why its hostgroup serves nobody, or that it serves again: then it waits for a
    /// connection, for at most `connect_ms`. Whether a hold begins for it.
    fn follow(&mut self, hold: Option<Hold>, now_ms: u64, connect_ms: u64) -> bool {
        let begins = hold.is_some() && self.held_ms.is_none();
        self.deadline_ms = match hold {
            Some(Hold::NoWriter { timeout_ms }) => {
                self.held_ms.get_or_insert(now_ms).saturating_add(timeout_ms)
            }
            // The pause has an end.
            Some(Hold::Paused) => {
                self.held_ms.get_or_insert(now_ms);
                u64::MAX
            }
            None => now_ms.saturating_add(connect_ms),
        };
        begins
    }
}

impl<C: Copy + PartialEq> Waiters<C> {
    /// Puts a session at the end; false when `max` wait already. One that begins to be held has
    /// its deadline by that.
    pub fn push(&mut self, mut waiter: Waiter<C>, max: usize) -> bool {
        let has_room = self.queue.len() < max;
        if has_room {
            if self.hold.is_some() {
                waiter.follow(self.hold, waiter.since_us / 1_000, 0);
            }
            self.queue.push_back(waiter);
        }
        has_room
    }

    /// Says why the hostgroup serves nobody, or `None` if it does. With a change, everybody's
    /// deadline is set anew: one who was held waits for a connection from now on, for at most
    /// `connect_ms`.
    pub fn set_hold(&mut self, hold: Option<Hold>, now_ms: u64, connect_ms: u64) -> HoldLook {
        let since_ms = now_ms.saturating_sub(std::mem::replace(&mut self.looked_ms, now_ms));
        let before = std::mem::replace(&mut self.hold, hold);
        let held_ms = match before {
            Some(_) => since_ms.saturating_mul(self.queue.len() as u64),
            None => 0,
        };
        if before == hold {
            return HoldLook { begun: 0, held_ms };
        }
        let begins = |waiter: &mut Waiter<C>| {
            if before == Some(Hold::Paused) {
                // Whatever holds it next has all of its own time.
                waiter.held_ms = waiter.held_ms.map(|_| now_ms);
            }
            waiter.follow(hold, now_ms, connect_ms)
        };
        let begun = self.queue.iter_mut().map(begins).filter(|begins| *begins).count();
        HoldLook { begun, held_ms }
    }

    /// Why the hostgroup served nobody when that was looked at last.
    #[inline]
    pub fn hold(&self) -> Option<Hold> {
        self.hold
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
    pub fn push_front(&mut self, mut waiter: Waiter<C>, max: usize) -> bool {
        let has_room = self.queue.len() < max;
        if has_room {
            if self.hold.is_some() && waiter.held_ms.is_none() {
                waiter.follow(self.hold, waiter.since_us / 1_000, 0);
            }
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

    /// Takes a session whose deadline has passed. All wait equally long, or are held equally long,
    /// so the front is the first; one put back at the front has an earlier deadline than those
    /// behind.
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
        let account = AccountId(client % 2);
        Waiter { client, account, since_us: 0, deadline_ms, held_ms: None }
    }

    #[test]
    fn one_who_is_held_has_a_deadline_that_does_not_begin_anew() {
        let hold = Some(Hold::NoWriter { timeout_ms: 100 });
        let mut waiters = Waiters::default();
        assert!(waiters.push(waiter(1, 1_000), 9));
        assert_eq!(waiters.set_hold(hold, 500, 1_000).begun, 1);
        assert_eq!(waiters.set_hold(hold, 550, 1_000), HoldLook { begun: 0, held_ms: 50 });
        // A server is tried and found dead again: that begins no second hold.
        assert_eq!(waiters.set_hold(None, 560, 1_000), HoldLook { begun: 0, held_ms: 10 });
        assert_eq!(waiters.front().map(|it| it.deadline_ms), Some(1_560));
        assert!(waiters.push(waiter(2, 1_570), 9));
        assert_eq!(waiters.set_hold(hold, 570, 1_000), HoldLook { begun: 1, held_ms: 0 });
        let deadlines: Vec<u64> = waiters.iter().map(|it| it.deadline_ms).collect();
        assert_eq!(deadlines, [600, 670]);
        assert_eq!(waiters.take_expired(600).map(|it| it.client), Some(1));
        assert_eq!(waiters.take_expired(600), None);
        assert_eq!(waiters.set_hold(None, 700, 1_000).held_ms, 130);
        assert_eq!(waiters.front().map(|it| it.deadline_ms), Some(1_700));
    }

    #[test]
    fn a_pause_takes_nothing_from_the_time_of_the_next_hold() {
        let mut waiters = Waiters::default();
        assert!(waiters.push(waiter(1, 1_000), 9));
        assert_eq!(waiters.set_hold(Some(Hold::Paused), 10, 1_000).begun, 1);
        assert_eq!(waiters.take_expired(1_000_000), None);
        let hold = Some(Hold::NoWriter { timeout_ms: 100 });
        assert_eq!(waiters.set_hold(hold, 5_000, 1_000).begun, 0);
        assert_eq!(waiters.front().map(|it| it.deadline_ms), Some(5_100));
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
