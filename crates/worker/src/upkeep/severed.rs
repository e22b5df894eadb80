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
    /// another one has taken over. Of servers that have lost their role in their cluster, those of
    /// users with `fast_forward`, and those that sessions hold and send nothing on: an open
    /// transaction would hold up replication. Where transactions may end, only the former.
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
                    || is_held(conn) && self.is_deposed(conn)
                    || matches!(conn.phase, ConnPhase::Forward(_)) && self.is_behind(conn))
        };
        self.servers.conns.values().filter(is_lost).map(|conn| conn.id).collect()
    }
}

/// Whether a session holds a connection, and awaits nothing on it.
fn is_held(conn: &Conn) -> bool {
    match conn.phase {
        ConnPhase::Forward(_) => true,
        ConnPhase::Ready => conn.list == ConnState::Pinned && conn.in_flight.is_empty(),
        ConnPhase::Connecting(_) | ConnPhase::Login(_) | ConnPhase::Closed => false,
    }
}

/// Whether there may be such connections to a server that were not looked at.
fn is_news(slot: &Slot) -> bool {
    let held = [ConnState::Forwarding, ConnState::Pinned].map(|state| slot.counts().of(state));
    let [forwarding, _] = held;
    let health = &slot.server.health;
    let may_be_deposed = || health.is_deposed() || health.is_standby() && health.deposed() != 0;
    slot.severed != health.severed()
        || held != [0, 0] && may_be_deposed()
        || forwarding != 0 && health.left() != 0
}
