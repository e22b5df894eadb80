//! A transaction that only reads begins anew on the writer.

use trunkline_session::tracker::PinReason;

use crate::{
    clients::client::{Client, Lease, Phase},
    exchange::send::put_own_query,
    rooms::Core,
    routing::read_only::BEGIN,
    servers::conn::{Conn, InFlight, Owner},
};

impl Core {
    /// Begins the session's transaction anew before its statement on `conn`, which is the
    /// writer's; where it was it is over.
    pub(super) fn begin_read_only(&mut self, client: &mut Client, conn: &mut Conn) {
        let (Phase::Running(_), Some(session)) = (&client.phase, client.session.as_mut()) else {
            return;
        };
        if !std::mem::take(&mut session.transaction.begins_read_only) {
            return;
        }
        let is_left =
            |lease: &&Lease| lease.conn != conn.id && lease.pins.has(PinReason::Transaction);
        let left = session.leases.iter().find(is_left).map(|lease| lease.conn);
        if let Some(lease) = session.lease_mut(conn.id) {
            lease.pins.set(PinReason::Transaction, true);
        }
        let left = left.and_then(|conn| session.leave(conn));
        let relay = conn.own_relay();
        let owner = Owner::Sync(client.id, None);
        conn.in_flight.push_back(InFlight {
            owner,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        let takes_attributes = conn.server.takes_attributes;
        self.fx.stats.counters.transactions_moved += 1;
        self.write_server(conn, |out| put_own_query(out, BEGIN, takes_attributes));
        if let Some(left) = left {
            self.free_lease(client, &left.lease, None);
        }
    }
}
