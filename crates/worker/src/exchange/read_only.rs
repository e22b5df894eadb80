//! A transaction that only reads begins anew on the writer.

use trunkline_pool::ConnId;
use trunkline_session::tracker::PinReason;

use crate::{
    clients::client::{Client, Lease, Session},
    clients::leases::Left,
    exchange::send::put_own_query,
    rooms::Core,
    routing::read_only::BEGIN,
    servers::conn::{Conn, InFlight, Owner},
};

impl Session {
    /// Its transaction begins anew on this connection. Returns what it has left for that.
    fn begin_read_only(&mut self, conn: ConnId) -> Option<Left> {
        self.transaction.begins_read_only = false;
        let is_left = |lease: &&Lease| lease.conn != conn && lease.pins.has(PinReason::Transaction);
        let left = self.leases.iter().find(is_left).map(|lease| lease.conn);
        if let Some(lease) = self.lease_mut(conn) {
            lease.pins.set(PinReason::Transaction, true);
        }
        left.and_then(|conn| self.leave(conn))
    }
}

impl Core {
    /// Begins the session's transaction anew before its statement on `conn`, which is the
    /// writer's; where it was it is over.
    pub(super) fn begin_read_only(&mut self, client: &mut Client, conn: &mut Conn) {
        let left = client.session.begin_read_only(conn.id);
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
