//! Connections to a server from which another one has taken over are lost.

use trunkline_pool::{ConnId, ConnState, Slot, SlotId};

use crate::{
    rooms::Core,
    servers::conn::{Conn, ConnPhase},
};

impl Core {
    /// Whether nothing counts any more that the server says on a connection.
    #[inline]
    pub(crate) fn is_severed(&self, conn: &Conn) -> bool {
        let slot = self.servers.pool.slot(conn.slot);
        slot.is_some_and(|slot| conn.server.epoch < slot.server.health.severed())
    }

    /// Connections on which something is under way to servers that nobody hears of and from which
    /// another one has taken over, and those of users with `fast_forward` to servers that do not
    /// write in their cluster any more.
    pub(crate) fn severed_conns(&mut self) -> Vec<ConnId> {
        let slots = self.servers.pool.slots().filter(|(_, slot)| is_news(slot));
        let slots: Vec<SlotId> = slots.map(|(id, _)| id).collect();
        if slots.is_empty() {
            return Vec::new();
        }
        for id in &slots {
            if let Some(slot) = self.servers.pool.slot_mut(*id) {
                slot.severed = slot.server.health.severed();
            }
        }
        let is_lost = |conn: &&Conn| {
            slots.contains(&conn.slot)
                && (self.is_severed(conn)
                    || matches!(conn.phase, ConnPhase::Forward(_)) && self.is_deposed(conn))
        };
        self.servers.conns.values().filter(is_lost).map(|conn| conn.id).collect()
    }
}

/// Whether there may be such connections to a server that were not looked at.
fn is_news(slot: &Slot) -> bool {
    slot.severed != slot.server.health.severed()
        || slot.counts().of(ConnState::Forwarding) > 0 && slot.server.health.is_deposed()
}
