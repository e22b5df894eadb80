//! Sessions that wait for a connection of one hostgroup: first come first served, within a tenant
//! where there are tenants.

use std::collections::VecDeque;

use trunkline_topology::Terms;

use crate::{
    AccountId,
    tenant::{Accounts, Room, TenantId},
};

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
    /// On whose account its statement runs.
    pub tenant: TenantId,
    /// Its statement has to begin by then, ms of the worker's clock; `None` where nobody said so.
    pub begin_by_ms: Option<u64>,
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
    /// Who waits, by tenant; all are of the first while there are no tenants.
    lanes: Vec<VecDeque<Waiter<C>>>,
    /// How many.
    len: usize,
    /// What the tenants have used, where there are any.
    accounts: Option<Box<Accounts>>,
    /// How many of those that wait have to begin by a time of their own.
    urgent: usize,
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
        Self { lanes: Vec::new(), len: 0, accounts: None, urgent: 0, hold: None, looked_ms: 0 }
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
        let has_room = self.len < max;
        if has_room {
            if self.hold.is_some() {
                waiter.follow(self.hold, waiter.since_us / 1_000, 0);
            }
            if let Some(lane) = self.lane(&waiter) {
                lane.push_back(waiter);
            }
        }
        has_room
    }

    /// Counts a session in, and finds the queue that it belongs in.
    fn lane(&mut self, waiter: &Waiter<C>) -> Option<&mut VecDeque<Waiter<C>>> {
        self.len += 1;
        self.urgent += usize::from(waiter.begin_by_ms.is_some());
        if let Some(accounts) = &mut self.accounts {
            accounts.wait(waiter.tenant, waiter.since_us);
        }
        let at = waiter.tenant.index();
        if self.lanes.len() <= at {
            self.lanes.resize_with(at + 1, VecDeque::new);
        }
        self.lanes.get_mut(at)
    }

    /// Says why the hostgroup serves nobody, or `None` if it does. With a change, everybody's
    /// deadline is set anew: one who was held waits for a connection from now on, for at most
    /// `connect_ms`.
    pub fn set_hold(&mut self, hold: Option<Hold>, now_ms: u64, connect_ms: u64) -> HoldLook {
        let since_ms = now_ms.saturating_sub(std::mem::replace(&mut self.looked_ms, now_ms));
        let before = std::mem::replace(&mut self.hold, hold);
        let held_ms = match before {
            Some(_) => since_ms.saturating_mul(self.len as u64),
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
        let all = self.lanes.iter_mut().flatten();
        let begun = all.map(begins).filter(|begins| *begins).count();
        HoldLook { begun, held_ms }
    }

    /// Why the hostgroup served nobody when that was looked at last.
    #[inline]
    pub fn hold(&self) -> Option<Hold> {
        self.hold
    }

    /// The session that waits longest.
    pub fn front(&self) -> Option<&Waiter<C>> {
        let fronts = self.lanes.iter().filter_map(VecDeque::front);
        fronts.min_by_key(|waiter| waiter.since_us)
    }

    /// Takes the session that waits longest among those for whom `wanted` holds; where there are
    /// tenants, within the first tenant that has one.
    pub fn take(&mut self, wanted: impl Fn(&Waiter<C>) -> bool) -> Option<Waiter<C>> {
        if self.len == 0 {
            return None;
        }
        let find = |lane: &VecDeque<Waiter<C>>| lane.iter().position(&wanted);
        let found = match &self.accounts {
            None => (0..).zip(&self.lanes).find_map(|(at, lane)| Some((at, find(lane)?))),
            Some(accounts) => accounts
                .waiting()
                .find_map(|tenant| Some((tenant.index(), find(self.lanes.get(tenant.index())?)?))),
        };
        let (lane, place) = found?;
        self.take_at(lane, place)
    }

    fn take_at(&mut self, lane: usize, place: usize) -> Option<Waiter<C>> {
        let waiter = self.lanes.get_mut(lane)?.remove(place)?;
        self.len -= 1;
        self.urgent -= usize::from(waiter.begin_by_ms.is_some());
        if let Some(accounts) = &mut self.accounts {
            accounts.leave(waiter.tenant);
        }
        Some(waiter)
    }

    /// Puts a session back at the front: it was served, but what it got was not usable. False,
    /// without doing so, when `max` wait already.
    pub fn push_front(&mut self, mut waiter: Waiter<C>, max: usize) -> bool {
        let has_room = self.len < max;
        if has_room {
            if self.hold.is_some() && waiter.held_ms.is_none() {
                waiter.follow(self.hold, waiter.since_us / 1_000, 0);
            }
            if let Some(lane) = self.lane(&waiter) {
                lane.push_front(waiter);
            }
        }
        has_room
    }

    /// Takes a session that no longer waits.
    pub fn remove(&mut self, client: C) {
        self.take(|waiter| waiter.client == client);
    }

    /// Takes a session whose deadline has passed. All of a tenant wait equally long, or are held
    /// equally long, so its front is the first; one put back at the front has an earlier deadline
    /// than those behind. Those that have to begin by a time of their own are all looked at.
    pub fn take_expired(&mut self, now_ms: u64) -> Option<Waiter<C>> {
        let is_over = |lane: &VecDeque<Waiter<C>>| {
            lane.front().is_some_and(|waiter| waiter.deadline_ms <= now_ms)
        };
        let lane = self.lanes.iter().position(is_over);
        lane.and_then(|lane| self.take_at(lane, 0)).or_else(|| self.take_late(now_ms))
    }

    /// Takes a session whose statement can't begin in time any more.
    fn take_late(&mut self, now_ms: u64) -> Option<Waiter<C>> {
        if self.urgent == 0 {
            return None;
        }
        let is_late = |it: &Waiter<C>| it.begin_by_ms.is_some_and(|by_ms| by_ms <= now_ms);
        self.take(is_late)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Those that wait, in order; where there are tenants, the first tenant's first.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter<C>> {
        let in_turn = self.accounts.iter().flat_map(|accounts| accounts.waiting());
        let by_turn = in_turn.filter_map(|tenant| self.lanes.get(tenant.index())).flatten();
        let plain = if self.accounts.is_some() { &[] } else { &*self.lanes };
        by_turn.chain(plain.iter().flatten())
    }

    /// Those that wait and may begin in this room, who is next first.
    pub fn in_turn(&self, room: Room, now_us: u64) -> impl Iterator<Item = &Waiter<C>> {
        let accounts = self.accounts.iter();
        let in_turn = accounts.flat_map(move |accounts| accounts.in_turn(room, now_us));
        let by_turn = in_turn.filter_map(|tenant| self.lanes.get(tenant.index())).flatten();
        let plain = if self.accounts.is_some() { &[] } else { &*self.lanes };
        by_turn.chain(plain.iter().flatten())
    }

    /// Says what tenants are entitled to; `None` without tenants. What they have used stays as long
    /// as there are some.
    pub fn set_terms(&mut self, terms: Option<&[Terms]>) {
        let Some(terms) = terms else {
            self.accounts = None;
            return;
        };
        if self.accounts.is_none() {
            let mut accounts = Accounts::default();
            let all = self.lanes.iter().flatten();
            all.for_each(|waiter| accounts.wait(waiter.tenant, waiter.since_us));
            self.accounts = Some(Box::new(accounts));
        }
        if let Some(accounts) = &mut self.accounts {
            accounts.set_terms(terms);
        }
    }

    /// What the tenants have used, where there are any.
    pub fn accounts(&self) -> Option<&Accounts> {
        self.accounts.as_deref()
    }

    pub(crate) fn accounts_mut(&mut self) -> Option<&mut Accounts> {
        self.accounts.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(client: u32, deadline_ms: u64) -> Waiter<u32> {
        let account = AccountId(client % 2);
        Waiter {
            client,
            account,
            since_us: 0,
            deadline_ms,
            held_ms: None,
            tenant: TenantId::OTHERS,
            begin_by_ms: None,
        }
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

    #[test]
    fn tenants_take_turns_whoever_came_first() {
        let of = |client, tenant| Waiter { tenant: TenantId::new(tenant), ..waiter(client, 99) };
        let mut waiters = Waiters::default();
        assert!(waiters.push(of(1, 0), 9));
        waiters.set_terms(Some(&[Terms::default(); 3]));
        for client in 2..5 {
            assert!(waiters.push(of(client, 0), 9));
        }
        assert!(waiters.push(of(5, 2), 9));
        let room = Room { places: Some(1), taken: 0 };
        let mut served = Vec::new();
        let first = |waiters: &Waiters<u32>| waiters.in_turn(room, 0).next().copied();
        while let Some(next) = first(&waiters) {
            served.push(next.client);
            assert_eq!(waiters.take(|it| it.client == next.client), Some(next));
            let accounts = waiters.accounts_mut().expect("there are tenants");
            accounts.begin(next.tenant, true, 0);
            accounts.end(next.tenant, true, 100, 0);
        }
        assert_eq!(served, [1, 5, 2, 3, 4]);
        assert!(waiters.is_empty() && waiters.front().is_none());
        assert!(waiters.push(of(6, 2), 9));
        waiters.set_terms(None);
        assert_eq!(waiters.iter().count(), 1);
        waiters.remove(6);
        assert!(waiters.is_empty());
    }

    #[test]
    fn one_that_has_to_begin_sooner_expires_sooner() {
        let mut waiters = Waiters::default();
        assert!(waiters.push(waiter(1, 1_000), 9));
        assert!(waiters.push(Waiter { begin_by_ms: Some(50), ..waiter(2, 1_000) }, 9));
        assert_eq!(waiters.take_expired(49), None);
        assert_eq!(waiters.take_expired(50).map(|it| it.client), Some(2));
        assert_eq!(waiters.take_expired(50), None);
        assert_eq!(waiters.take_expired(1_000).map(|it| it.client), Some(1));
    }
}
