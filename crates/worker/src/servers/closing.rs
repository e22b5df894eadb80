//! The end of a server connection: its place under the cap is given back, and its server is told.

use trunkline_pool::{ConnId, ConnState, SlotId};

use crate::{
    Action, ClientId,
    rooms::Core,
    servers::Servers,
    servers::conn::{Conn, ConnPhase, Owner},
    session_past::Trace,
};

/// A `COM_QUIT` packet.
const QUIT: &[u8] = &[1, 0, 0, 0, 1];

/// `COM_QUIT` on a compressed connection: too short to be compressed itself.
const PACKED_QUIT: &[u8] = &[5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];

impl Servers {
    /// Forgets a removed server once its last connection has gone.
    pub(crate) fn sweep_slot(&mut self, slot: SlotId) {
        if self.pool.sweep(slot) {
            self.resetting.remove(&slot);
            self.accepted_sets.retain(|(known, ..)| *known != slot);
        }
    }

    /// Nothing is in flight on a connection, and so no read that was sent elsewhere as well.
    pub(crate) fn end_copies(&mut self, conn_id: ConnId) {
        if let Some(conn) = self.conns.get_mut(conn_id).filter(|conn| conn.left.copies.is_some()) {
            debug_assert!(conn.in_flight.is_empty());
            conn.left.copies = None;
        }
    }
}

impl Core {
    /// Closes a connection and forgets it; nobody owns it.
    pub(crate) fn drop_conn(&mut self, id: ConnId) {
        let Some(mut conn) = self.forget_conn(id) else {
            return;
        };
        let (written, traces) = (conn.io.outbox.written_total(), traces_of(&conn));
        conn.io.outbox.discard(&mut self.fx.buffers);
        self.send_quit(id, &conn);
        self.traces_gone(id, traces);
        self.kill_carrier_lost(id, written, "its connection was closed");
        self.kills_go_on(id);
    }

    /// Closes an idle connection that is off its list already.
    pub(crate) fn discard_idle(&mut self, id: ConnId) {
        let Some(mut conn) = self.forget_conn(id) else {
            return;
        };
        conn.io.outbox.discard(&mut self.fx.buffers);
        self.send_quit(id, &conn);
    }

    /// Says goodbye to a server that is not in the middle of anything, as servers count clients
    /// that go without a word.
    fn send_quit(&mut self, id: ConnId, conn: &Conn) {
        let is_quiet = matches!(conn.phase, ConnPhase::Ready) && conn.in_flight.is_empty();
        let farewell: &[u8] = match (is_quiet, &conn.io.packing) {
            (true, None) => QUIT,
            (true, Some(_)) => PACKED_QUIT,
            (false, _) => &[],
        };
        self.fx.act(Action::CloseServer { conn: id, farewell });
        self.servers.sweep_slot(conn.slot);
    }

    /// Takes a connection out of every table and count.
    pub(crate) fn forget_conn(&mut self, id: ConnId) -> Option<Conn> {
        self.servers.set_state(id, ConnState::Unlisted);
        let conn = self.servers.conns.remove(id)?;
        let slot = self.servers.pool.slot_mut(conn.slot)?;
        slot.server.health.close_stmts(u32::try_from(conn.stmts.len()).unwrap_or(u32::MAX));
        slot.server.health.give_back_connection();
        if conn.server.identity.is_some() {
            slot.server.health.disestablish();
        }
        if has_plant!(self, DoubleRelease) && slot.server.health.connections() > 0 {
            slot.server.health.give_back_connection();
        }
        for entry in &conn.in_flight {
            if entry.is_statement {
                slot.server.health.end_statement();
            }
        }
        Some(*conn)
    }
}

/// What was being fetched from a connection for sessions that had it before.
pub(crate) fn traces_of(conn: &Conn) -> Vec<(ClientId, Trace)> {
    let traces = conn.in_flight.iter().filter_map(|entry| match entry.owner {
        Owner::Trace(client, trace) => Some((client, trace)),
        _ => None,
    });
    traces.collect()
}
