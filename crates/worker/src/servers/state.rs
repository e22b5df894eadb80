//! The state of a server connection: what the pool's lists and counts say is what the connection
//! says. [`Servers::set_state`] is the only place that changes either.

use trunkline_pool::{AccountId, Choice, ConnId, ConnState, SlotId};

use super::Servers;
use crate::servers::conn::{Conn, ConnPhase};

impl Servers {
    /// Moves a connection from the list that it is on to another one.
    #[inline]
    pub(crate) fn set_state(&mut self, conn: &mut Conn, to: ConnState) {
        debug_assert!(!conn.is_closed(), "what has ended is on no list");
        let from = std::mem::replace(&mut conn.list, to);
        if from == to {
            return;
        }
        if let Some(slot) = self.pool.slot_mut(conn.slot) {
            slot.relist(conn.login.account, conn.id, from, to);
        }
    }

    /// Takes this very connection off its list if nobody has it; false when somebody does.
    pub(crate) fn take_free(&mut self, conn: &mut Conn) -> bool {
        let is_free = conn.list.is_free();
        if is_free {
            self.set_state(conn, ConnState::Unlisted);
        }
        is_free
    }

    /// A connection has ended: it is on no list, and its id finds nothing any more.
    pub(crate) fn forget(&mut self, conn: &mut Conn) {
        self.set_state(conn, ConnState::Unlisted);
        self.conns.forget(conn.id);
        conn.phase = ConnPhase::Closed;
    }

    /// What the pool chose; a connection that it took off its list is on none.
    #[inline]
    pub(crate) fn chosen(&mut self, choice: Choice) -> Choice {
        if let Choice::Idle(_, id) | Choice::ChangeUser(_, id) | Choice::Replace(_, id) = choice {
            self.taken(id);
        }
        choice
    }

    /// Takes the most recently used idle connection of `account`.
    pub(crate) fn pop_idle(&mut self, slot: SlotId, account: AccountId) -> Option<ConnId> {
        let id = self.pool.slot_mut(slot)?.pop_idle(account)?;
        self.taken(id);
        Some(id)
    }

    /// Takes an idle connection of whatever account, one that has rested for long.
    pub(super) fn take_oldest_idle(&mut self, slot: SlotId) -> Option<ConnId> {
        let id = self.pool.slot_mut(slot)?.take_oldest_idle(|_| true)?;
        self.taken(id);
        Some(id)
    }

    /// Whether every connection is on a list, as between events.
    pub(crate) fn are_listed(&self) -> bool {
        let is_listed = |list| !matches!(list, ConnState::Unlisted | ConnState::Freed);
        self.conns.values().all(|conn| is_listed(conn.list))
    }

    #[inline]
    pub(crate) fn taken(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get_mut(id) {
            debug_assert_eq!(conn.list, ConnState::Idle);
            conn.list = ConnState::Unlisted;
        }
    }
}
