//! Reads on a server that has gone silent are sent elsewhere.

use trunkline_pool::ConnId;

use crate::{
    clients::client::Phase,
    rooms::Core,
    servers::conn::{Conn, Owner},
};

/// A server that has answered something within this time is not silent, µs.
const SILENT_US_MIN: u64 = 500_000;

impl Core {
    /// Connections whose front statement is a read that has waited for longer than is usual, to
    /// servers that have answered nothing meanwhile.
    pub(crate) fn silent_conns(&mut self) -> Vec<ConnId> {
        let now_us = self.env.now.us;
        let is_silent = |told_us: u64| now_us.saturating_sub(told_us) >= SILENT_US_MIN;
        let slots = self.servers.pool.slots();
        let has_silent = slots.into_iter().any(|(_, slot)| {
            slot.server.health.in_flight() > 0 && is_silent(slot.latency.told_us())
        });
        if !has_silent {
            return Vec::new();
        }
        let mut found = Vec::new();
        for conn in self.servers.conns.values() {
            if let Some(waits_us) = self.waits_in_vain(conn) {
                found.push((conn.id, conn.slot, waits_us));
            }
        }
        for (_, slot, waits_us) in &found {
            if let Some(slot) = self.servers.pool.slot_mut(*slot) {
                slot.latency.is_at_least(*waits_us);
            }
        }
        found.into_iter().map(|(conn, ..)| conn).collect()
    }

    /// How long the front statement of a connection has waited, if that is longer than it may and
    /// it can be sent elsewhere, µs.
    fn waits_in_vain(&self, conn: &Conn) -> Option<u64> {
        let front = conn.in_flight.front().filter(|front| !front.relay.has_begun())?;
        let Owner::Client(client) = front.owner else { return None };
        let Phase::Running(statement) = &self.clients.get(client)?.phase else { return None };
        let now_us = self.env.now.us;
        let since_us = conn.holder.busy_since_us;
        let told_us = self.servers.pool.slot(conn.slot)?.latency.told_us();
        let waits_us = now_us.saturating_sub(since_us.max(told_us));
        let patience_us = statement.meaning.known.as_ref()?.pace.patience_us()?;
        let may_go = statement.target.retries_left > 0
            && statement.target.pinned_server.is_none()
            && conn.holder.owner.is_none_or(|owner| self.is_pinless(owner, conn.id))
            && statement.may_be_sent_twice(self.env.shared.catalog(), self.env.now.ms());
        let is_vain = since_us > 0 && waits_us >= patience_us && may_go;
        let has_others = || {
            self.servers.pool.has_other_online(conn.slot, conn.server.hostgroup, self.env.now.ms())
        };
        (is_vain && has_others()).then_some(waits_us)
    }

    /// Whether nothing of a session's is on this connection of its.
    fn is_pinless(&self, client: crate::ClientId, conn: ConnId) -> bool {
        let leases = self.clients.get(client).map(|client| &client.session.leases);
        let lease = leases.and_then(|leases| leases.iter().find(|lease| lease.conn == conn));
        lease.is_none_or(|lease| lease.pins.is_empty())
    }
}
