//! The end of a server connection: its place under the cap is given back, and its server is told.

use trunkline_pool::SlotId;

use crate::{
    Action, ClientId,
    rooms::Core,
    servers::Servers,
    servers::conn::{Conn, ConnPhase, Owner},
    servers::unheard::UNDER_WAY_MS,
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
}

impl Core {
    /// Closes a connection; nobody owns it.
    pub(crate) fn drop_conn(&mut self, conn: &mut Conn) {
        let farewell = farewell_to(conn);
        if !self.forget_conn(conn) {
            return;
        }
        conn.io.outbox.discard(&mut self.fx.buffers);
        self.part(conn, farewell);
        self.traces_gone(conn.id, traces_of(conn));
        self.kill_carrier_lost(
            conn.id,
            conn.io.outbox.written_total(),
            "its connection was closed",
        );
        self.kills_go_on(conn.id);
    }

    /// Closes an idle connection that is off its list already.
    pub(crate) fn discard_idle(&mut self, conn: &mut Conn) {
        let farewell = farewell_to(conn);
        if self.forget_conn(conn) {
            conn.io.outbox.discard(&mut self.fx.buffers);
            self.part(conn, farewell);
        }
    }

    fn part(&mut self, conn: &Conn, farewell: &'static [u8]) {
        self.fx.act(Action::CloseServer { conn: conn.id, farewell });
        self.servers.sweep_slot(conn.slot);
    }

    /// Takes a connection out of every table and count. False where it has ended already.
    pub(crate) fn forget_conn(&mut self, conn: &mut Conn) -> bool {
        if conn.is_closed() {
            return false;
        }
        if let Some(unheard) = conn.holder.unheard.take() {
            let now_ms = self.env.now.ms();
            self.servers.sharing.causal.lost.add(now_ms + UNDER_WAY_MS, unheard);
        }
        self.give_mark_back(conn);
        self.servers.forget(conn);
        let Some(slot) = self.servers.pool.slot_mut(conn.slot) else {
            return false;
        };
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
        let since_us = conn.holder.busy_since_us;
        let took_us = self.env.now.us.saturating_sub(since_us);
        for place in conn.in_flight.iter().filter_map(|entry| entry.place) {
            self.end_place(conn, place, took_us);
        }
        true
    }
}

/// How a server that is not in the middle of anything is told goodbye, as servers count clients
/// that go without a word.
fn farewell_to(conn: &Conn) -> &'static [u8] {
    let is_quiet = matches!(conn.phase, ConnPhase::Ready) && conn.in_flight.is_empty();
    match (is_quiet, &conn.io.packing) {
        (true, None) => QUIT,
        (true, Some(_)) => PACKED_QUIT,
        (false, _) => &[],
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
