//! One server of one hostgroup, as one worker sees it.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::FixedState;
use trunkline_topology::{Latency, Server, Window};

use crate::{Width, draw::Tier, limit::Limit};

/// A server connection of this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// Place in the worker's table.
    pub index: u32,
    /// Tells a connection from an earlier one at the same place.
    pub generation: u32,
}

/// A [`Slot`] of this worker's pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotId(pub(crate) usize);

impl SlotId {
    /// Dense number, for tables beside the pool.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Who a connection is logged in as, and with which behaviour; interned by the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccountId(pub u32);

/// The state that a server connection is in. Each is a list of its slot, or a count of it; only
/// [`Slot::relist`] moves a connection from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnState {
    /// On no list: it was taken off one, and goes on another before the event is over.
    Unlisted,
    /// Being opened and authenticated.
    Connecting,
    /// Ready for any session of its account.
    Idle,
    /// Free; who gets it is found when the event is over.
    Freed,
    /// Runs a statement of one session, and is free behind it.
    Leased,
    /// One session's alone, which can't leave it.
    Pinned,
    /// One client's and one server's, byte for byte, for good.
    Forwarding,
    /// Runs statements of several sessions, one after the other.
    Shared,
    /// Awaits the rest of answers that nobody wants, then a reset.
    Resetting,
    /// Awaits the answer to a ping.
    Pinging,
    /// Carries a `KILL` for a statement of another connection.
    CarryingKill,
    /// Nobody's; a `KILL` that is under way may hit it. Then it is reset.
    AwaitingKill,
}

impl ConnState {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::Unlisted,
        Self::Connecting,
        Self::Idle,
        Self::Freed,
        Self::Leased,
        Self::Pinned,
        Self::Forwarding,
        Self::Shared,
        Self::Resetting,
        Self::Pinging,
        Self::CarryingKill,
        Self::AwaitingKill,
    ];

    /// Whether nobody has it, and nothing is to be done before somebody may.
    pub fn is_free(self) -> bool {
        matches!(self, Self::Idle | Self::Freed)
    }

    /// Whether it is one session's alone.
    pub fn is_leased(self) -> bool {
        matches!(self, Self::Leased | Self::Pinned | Self::Forwarding)
    }

    /// Whether it is nobody's and on its way back to a known state.
    pub fn is_resetting(self) -> bool {
        matches!(self, Self::Resetting | Self::Pinging | Self::CarryingKill | Self::AwaitingKill)
    }
}

/// How many connections are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u32; ConnState::ALL.len()]);

impl Counts {
    /// Connections in this state; 0 for [`ConnState::Unlisted`], which is not counted.
    #[inline]
    pub fn of(self, state: ConnState) -> u32 {
        self.0.get(state as usize).copied().unwrap_or_default()
    }

    /// Connections in all.
    pub fn total(self) -> u32 {
        self.0.iter().sum()
    }

    /// Connections in those states for which `wanted` holds.
    pub fn sum(self, wanted: impl Fn(ConnState) -> bool) -> u32 {
        ConnState::ALL.into_iter().filter(|state| wanted(*state)).map(|it| self.of(it)).sum()
    }

    #[inline]
    fn count(&mut self, state: ConnState, by: i32) {
        if let Some(count) = self.0.get_mut(state as usize) {
            debug_assert!(count.checked_add_signed(by).is_some(), "fewer than none: {state:?}");
            *count = count.saturating_add_signed(by);
        }
    }
}

/// One server of one hostgroup.
#[derive(Debug)]
pub struct Slot {
    /// The server, as the current configuration has it.
    pub server: Arc<Server>,
    /// Whether the configuration no longer has it; it goes with its last connection.
    pub removed: bool,
    idle: HashMap<AccountId, Vec<ConnId>, FixedState>,
    counts: Counts,
    /// Connections that come up, by account; those with any.
    coming: HashMap<AccountId, u32, FixedState>,
    /// Leased connections, not pinned, whose statement has been running for long.
    stuck: u32,
    width: Width,
    /// How many statements it runs at once, whatever they are.
    pub(crate) limit: Limit,
    /// Statements that run with a connection to themselves, counted while that is of interest.
    pub(crate) running: u32,
    /// Connections that take more statements while others are in flight.
    shared: Vec<ConnId>,
    shared_width: Width,
    /// What statements of this worker take there.
    pub latency: Latency,
    /// What they met there since it was looked at last.
    pub seen: Window,
    /// The server's [`severed`](trunkline_topology::ServerHealth::severed), as far as its
    /// connections were looked at.
    pub severed: u32,
}

impl Slot {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            removed: false,
            idle: HashMap::with_hasher(FixedState::default()),
            counts: Counts::default(),
            coming: HashMap::with_hasher(FixedState::default()),
            stuck: 0,
            width: Width::default(),
            limit: Limit::Off,
            running: 0,
            shared: Vec::new(),
            shared_width: Width::narrow(),
            latency: Latency::default(),
            seen: Window::default(),
            severed: 0,
        }
    }

    /// Takes a place for one more connection; false where the cap is reached, or the server said a
    /// moment ago that it has no room. After that, and after a shun, it is asked for one at a time.
    pub(crate) fn take_place(&self, now_ms: u64) -> bool {
        let health = &self.server.health;
        let is_on_trial = health.was_full() || health.is_shunned();
        let waits = health.is_full(now_ms) || is_on_trial && self.connecting() > 0;
        !waits && health.try_take_connection(self.server.max_connections)
    }

    /// A connection is lost with so many statements in flight.
    pub fn lost(&mut self, statements: usize) {
        let statements = u32::try_from(statements).unwrap_or(u32::MAX);
        self.seen.answered = self.seen.answered.saturating_add(statements);
        self.seen.failed = self.seen.failed.saturating_add(statements);
    }

    /// Which servers of its hostgroup come before it.
    pub(crate) fn tier(&self) -> Tier {
        Tier { rank: self.server.rank, is_far: !self.server.is_near }
    }

    /// Whether it has room for a statement: beside those that run, and under its cap.
    pub(crate) fn takes_more(&mut self) -> bool {
        let is_below_cap = self.server.health.connections() < self.server.max_connections;
        self.has_room() && (is_below_cap || self.counts.of(ConnState::Idle) > 0)
    }

    /// Whether an operator has taken the server out of the hostgroup, or set it to OFFLINE_HARD,
    /// or another one writes in its place: nothing begins on it any more.
    pub fn is_out(&self) -> bool {
        let health = &self.server.health;
        self.removed || health.is_offline_hard() || health.is_deposed()
    }

    /// Connections by state.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Connections that are being opened and authenticated.
    pub fn connecting(&self) -> u32 {
        self.counts.of(ConnState::Connecting)
    }

    /// Says how many leased connections are busy with statements that run for long.
    pub fn set_stuck(&mut self, stuck: u32) {
        self.stuck = stuck;
    }

    /// How many connections may run statements at the same time, and how that is found.
    pub fn width(&mut self) -> &mut Width {
        &mut self.width
    }

    /// Whether another statement may run beside those that do. Connections that their sessions
    /// can't leave do not count, nor do those whose statement has been running for long: they
    /// serve nobody else.
    pub fn has_room(&mut self) -> bool {
        let serving = self.counts.of(ConnState::Leased);
        let has_room = serving.saturating_sub(self.stuck) < self.width.max();
        if !has_room {
            self.width.note_full();
        }
        has_room && self.has_place()
    }

    /// Whether the server may run one statement more. Those of sessions that hold a connection run
    /// without asking, as others may wait for their locks, and are counted.
    #[inline]
    pub(crate) fn has_place(&mut self) -> bool {
        let Some(max) = self.limit.max() else { return true };
        let has_place = self.taken() < max;
        if !has_place {
            self.limit.note_full();
        }
        has_place
    }

    /// Statements that the server runs at once, or is about to: those on a shared connection are
    /// one.
    pub(crate) fn taken(&self) -> u32 {
        self.running.max(self.counts.of(ConnState::Leased)) + self.counts.of(ConnState::Shared)
    }

    /// How many statements the server may run at once, and how many it does; `None` without a
    /// limit.
    pub fn concurrency(&self) -> Option<(u32, u32)> {
        Some((self.limit.max()?, self.taken()))
    }

    /// How many connections share statements while few are in flight, and how that is found.
    pub fn shared_width(&mut self) -> &mut Width {
        &mut self.shared_width
    }

    /// Connections that take more statements while others are in flight.
    pub fn shared(&self) -> &[ConnId] {
        &self.shared
    }

    /// A shared connection takes no more statements; false when it did not take any before.
    pub fn close_shared(&mut self, conn: ConnId) -> bool {
        let place = self.shared.iter().position(|known| *known == conn);
        place.map(|place| self.shared.swap_remove(place)).is_some()
    }

    /// Moves a connection of `account` from the list that it is on to another one.
    #[inline]
    pub fn relist(&mut self, account: AccountId, conn: ConnId, from: ConnState, to: ConnState) {
        match from {
            ConnState::Unlisted => {}
            ConnState::Idle => drop(self.take_idle(account, conn)),
            ConnState::Shared => {
                self.close_shared(conn);
                self.counts.count(from, -1);
            }
            ConnState::Connecting => {
                self.no_longer_coming(account);
                self.counts.count(from, -1);
            }
            _ => self.counts.count(from, -1),
        }
        match to {
            ConnState::Unlisted => return,
            ConnState::Idle => self.idle.entry(account).or_default().push(conn),
            ConnState::Shared => {
                debug_assert!(!self.shared.contains(&conn));
                self.shared.push(conn);
            }
            ConnState::Connecting => *self.coming.entry(account).or_default() += 1,
            _ => {}
        }
        self.counts.count(to, 1);
    }

    #[cold]
    fn no_longer_coming(&mut self, account: AccountId) {
        if let Some(count) = self.coming.get_mut(&account) {
            *count -= 1;
            if *count == 0 {
                self.coming.remove(&account);
            }
        }
    }

    /// Connections of `account` that come up.
    pub(crate) fn coming(&self, account: AccountId) -> u32 {
        self.coming.get(&account).copied().unwrap_or_default()
    }

    /// Takes the most recently used idle connection of `account`.
    pub fn pop_idle(&mut self, account: AccountId) -> Option<ConnId> {
        let conn = self.idle.get_mut(&account)?.pop()?;
        self.counts.count(ConnState::Idle, -1);
        Some(conn)
    }

    /// Whether `account` has an idle connection.
    pub fn has_idle(&self, account: AccountId) -> bool {
        self.idle.get(&account).is_some_and(|list| !list.is_empty())
    }

    /// Takes this very connection out of the idle ones; false when it is not among them.
    fn take_idle(&mut self, account: AccountId, conn: ConnId) -> bool {
        let Some(list) = self.idle.get_mut(&account) else {
            return false;
        };
        let Some(place) = list.iter().rposition(|known| *known == conn) else {
            return false;
        };
        list.remove(place);
        self.counts.count(ConnState::Idle, -1);
        true
    }

    /// Takes the idle connection, of any account for which `wanted` holds, that rested longest
    /// within its account.
    pub fn take_oldest_idle(&mut self, wanted: impl Fn(AccountId) -> bool) -> Option<ConnId> {
        let (_, list) =
            self.idle.iter_mut().find(|(account, list)| !list.is_empty() && wanted(**account))?;
        self.counts.count(ConnState::Idle, -1);
        Some(list.remove(0))
    }

    /// All idle connections, longest resting first within an account.
    pub fn idle(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.idle.values().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::tests::server;

    fn conn(index: u32) -> ConnId {
        ConnId { index, generation: 0 }
    }

    #[test]
    fn the_most_recently_used_connection_is_taken_first() {
        let mut slot = Slot::new(server(1, 1, 10));
        let account = AccountId(0);
        slot.relist(account, conn(1), ConnState::Unlisted, ConnState::Idle);
        slot.relist(account, conn(2), ConnState::Unlisted, ConnState::Idle);
        assert_eq!(slot.pop_idle(AccountId(9)), None);
        assert_eq!(slot.pop_idle(account), Some(conn(2)));
        assert_eq!(slot.counts().of(ConnState::Idle), 1);
        assert!(slot.take_idle(account, conn(1)));
        assert!(!slot.take_idle(account, conn(1)));
        assert_eq!(slot.counts(), Counts::default());
    }
}
