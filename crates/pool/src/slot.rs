//! One server of one hostgroup, as one worker sees it.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::FixedState;
use trunkline_topology::Server;

use crate::Width;

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

/// The state that a server connection is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnState {
    /// Being opened and authenticated.
    Connecting,
    /// Ready for any session.
    Idle,
    /// One session's alone.
    Leased,
    /// Runs statements of several sessions, one after the other.
    Shared,
    /// Being brought to a known state after its session.
    Resetting,
    /// Ends when its last answer has come.
    Draining,
}

/// How many connections are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Being opened and authenticated.
    pub connecting: u32,
    /// Ready for any session.
    pub idle: u32,
    /// One session's alone; the pinned ones among them too.
    pub leased: u32,
    /// Those of `leased` that their session can't leave.
    pub pinned: u32,
    /// Running statements of several sessions.
    pub shared: u32,
    /// Being brought to a known state.
    pub resetting: u32,
    /// Ending.
    pub draining: u32,
}

impl Counts {
    /// Connections in all.
    pub fn total(self) -> u32 {
        self.connecting + self.idle + self.leased + self.shared + self.resetting + self.draining
    }

    fn of(&mut self, state: ConnState) -> &mut u32 {
        match state {
            ConnState::Connecting => &mut self.connecting,
            ConnState::Idle => &mut self.idle,
            ConnState::Leased => &mut self.leased,
            ConnState::Shared => &mut self.shared,
            ConnState::Resetting => &mut self.resetting,
            ConnState::Draining => &mut self.draining,
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
    /// Leased connections, not pinned, whose statement has been running for long.
    stuck: u32,
    width: Width,
    /// Connections that take more statements while others are in flight.
    shared: Vec<ConnId>,
    shared_width: Width,
}

impl Slot {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            removed: false,
            idle: HashMap::with_hasher(FixedState::default()),
            counts: Counts::default(),
            stuck: 0,
            width: Width::default(),
            shared: Vec::new(),
            shared_width: Width::narrow(),
        }
    }

    /// Whether an operator has taken the server out of the hostgroup, or set it to OFFLINE_HARD:
    /// nothing begins on it any more.
    pub fn is_out(&self) -> bool {
        self.removed || self.server.health.is_offline_hard()
    }

    /// Connections by state.
    pub fn counts(&self) -> Counts {
        self.counts
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
        let serving = self.counts.leased.saturating_sub(self.counts.pinned);
        let has_room = serving.saturating_sub(self.stuck) < self.width.max();
        if !has_room {
            self.width.note_full();
        }
        has_room
    }

    /// How many connections share statements while few are in flight, and how that is found.
    pub fn shared_width(&mut self) -> &mut Width {
        &mut self.shared_width
    }

    /// Connections that take more statements while others are in flight.
    pub fn shared(&self) -> &[ConnId] {
        &self.shared
    }

    /// A connection becomes one that several sessions' statements run on.
    pub fn enter_shared(&mut self, conn: ConnId) {
        debug_assert!(!self.shared.contains(&conn));
        self.counts.shared += 1;
        self.shared.push(conn);
    }

    /// A shared connection takes no more statements; false when it did not take any before.
    pub fn close_shared(&mut self, conn: ConnId) -> bool {
        let place = self.shared.iter().position(|known| *known == conn);
        place.map(|place| self.shared.swap_remove(place)).is_some()
    }

    /// A shared connection is shared no more.
    pub fn leave_shared(&mut self, conn: ConnId) {
        self.close_shared(conn);
        self.leave(ConnState::Shared);
    }

    /// A connection begins its life in `state`.
    pub fn enter(&mut self, state: ConnState) {
        debug_assert!(state != ConnState::Idle, "idle connections are listed, not only counted");
        *self.counts.of(state) += 1;
    }

    /// A connection leaves `state`.
    pub fn leave(&mut self, state: ConnState) {
        debug_assert!(state != ConnState::Idle);
        let count = self.counts.of(state);
        debug_assert!(*count > 0, "a connection leaves a state that holds none: {state:?}");
        *count = count.saturating_sub(1);
    }

    /// A leased connection became its session's for good, or stopped being so.
    pub fn set_pinned(&mut self, pinned: bool) {
        match pinned {
            true => self.counts.pinned += 1,
            false => {
                debug_assert!(self.counts.pinned > 0);
                self.counts.pinned = self.counts.pinned.saturating_sub(1);
            }
        }
    }

    /// Makes a connection idle.
    pub fn push_idle(&mut self, account: AccountId, conn: ConnId) {
        self.counts.idle += 1;
        self.idle.entry(account).or_default().push(conn);
    }

    /// Takes the most recently used idle connection of `account`.
    pub fn pop_idle(&mut self, account: AccountId) -> Option<ConnId> {
        let conn = self.idle.get_mut(&account)?.pop()?;
        self.counts.idle -= 1;
        Some(conn)
    }

    /// Whether `account` has an idle connection.
    pub fn has_idle(&self, account: AccountId) -> bool {
        self.idle.get(&account).is_some_and(|list| !list.is_empty())
    }

    /// Takes this very connection out of the idle ones; false when it is not among them.
    pub fn take_idle(&mut self, account: AccountId, conn: ConnId) -> bool {
        let Some(list) = self.idle.get_mut(&account) else {
            return false;
        };
        let Some(place) = list.iter().rposition(|known| *known == conn) else {
            return false;
        };
        list.remove(place);
        self.counts.idle -= 1;
        true
    }

    /// Takes the idle connection, of any account for which `wanted` holds, that rested longest
    /// within its account.
    pub fn take_oldest_idle(&mut self, wanted: impl Fn(AccountId) -> bool) -> Option<ConnId> {
        let (_, list) =
            self.idle.iter_mut().find(|(account, list)| !list.is_empty() && wanted(**account))?;
        self.counts.idle -= 1;
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
        slot.push_idle(account, conn(1));
        slot.push_idle(account, conn(2));
        assert_eq!(slot.pop_idle(AccountId(9)), None);
        assert_eq!(slot.pop_idle(account), Some(conn(2)));
        assert_eq!(slot.counts().idle, 1);
        assert!(slot.take_idle(account, conn(1)));
        assert!(!slot.take_idle(account, conn(1)));
        assert_eq!(slot.counts(), Counts::default());
    }
}
