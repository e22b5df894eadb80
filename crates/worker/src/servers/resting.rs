//! Connections that nobody uses: they rest, go to others, or are closed.

use trunkline_pool::{ConnId, ConnState, SlotId};
use trunkline_protocol::codec::frame::put_payload;
use trunkline_protocol::command::code;

use crate::{
    clients::client::Client,
    effects::Wake,
    rooms::{Core, Lender},
    servers::Servers,
    servers::conn::{Conn, InFlight, Owner},
    servers::dirt::Dirt,
};

impl Servers {
    fn anyone_waits(&self) -> bool {
        self.pool.waited_for().next().is_some()
    }

    /// The place of a connection in the pool, for its counters.
    pub(crate) fn slot_of(&self, conn: ConnId) -> Option<SlotId> {
        self.conns.get(conn).map(|conn| conn.slot)
    }
}

impl Core {
    /// A connection has become free. It rests, unless somebody waits for its like or nobody has use
    /// for it: what becomes of it then is found when this event is over.
    pub(crate) fn freed(&mut self, conn: &mut Conn) {
        conn.holder.owner = None;
        conn.holder.since_ms = self.env.now.ms();
        let (hostgroup, slot) = (conn.server.hostgroup, conn.slot);
        let is_wanted = self.servers.pool.is_waited_for(hostgroup) || self.is_asked_for(slot);
        if is_wanted || self.is_done_with(conn) || self.rests_enough(slot) {
            self.servers.set_state(conn, ConnState::Freed);
            return self.fx.wake(Wake::Freed(conn.id));
        }
        self.servers.set_state(conn, ConnState::Idle);
    }

    /// Whether another worker has asked for a connection to this server.
    #[inline]
    fn is_asked_for(&self, slot: SlotId) -> bool {
        let asked = &self.servers.peers.asked;
        !asked.is_empty()
            && self
                .servers
                .pool
                .slot(slot)
                .is_some_and(|slot| asked.iter().any(|ask| ask.key == slot.server.key))
    }

    /// Whether nobody can use a connection any more.
    #[inline]
    pub(crate) fn is_done_with(&self, conn: &Conn) -> bool {
        // One that carried a `KILL` to a server that is out was opened all the same.
        let is_of_use = self.servers.pool.slot(conn.slot).is_some_and(|slot| {
            let health = &slot.server.health;
            !slot.removed && health.epoch() == conn.server.epoch && !health.is_offline()
        });
        !is_of_use
            || conn.left.dirt == Some(Dirt::Ends)
            || self.env.stopping.is_some() && !self.servers.anyone_waits()
    }

    /// A connection is for whoever comes, unless enough others rest.
    pub(crate) fn let_rest(&mut self, conn: &mut Conn) {
        if self.rests_enough(conn.slot) {
            return self.retire_conn(conn, None);
        }
        self.servers.set_state(conn, ConnState::Idle);
    }

    /// Whether as many connections rest as `idle_connections_max` allows.
    fn rests_enough(&self, slot: SlotId) -> bool {
        let max = self.env.snapshot.settings.idle_connections_max;
        max != 0
            && self
                .servers
                .pool
                .slot(slot)
                .is_some_and(|slot| slot.counts().of(ConnState::Idle) >= max)
    }

    /// Closes idle connections of servers that were taken offline or shunned since.
    pub(crate) fn drop_outdated(&mut self, mut lent: Option<&mut Client>) {
        let mut outdated = Vec::new();
        for (_, slot) in self.servers.pool.slots() {
            let epoch = slot.server.health.epoch();
            outdated.extend(slot.idle().map(|id| (id, epoch, slot.removed)));
        }
        for (id, epoch, removed) in outdated {
            let is_old = self.servers.conns.get(id).is_some_and(|conn| conn.server.epoch != epoch);
            if is_old || removed {
                self.retire_idle(id, lent.as_deref_mut());
            }
        }
    }

    /// Closes idle connections to outdated servers where the last statement of this session left
    /// something to be read: what reads it is a statement like others, and such servers get no new
    /// ones.
    pub(crate) fn drop_outdated_of(&mut self, client: &mut Client) {
        let session = &*client.session;
        let places = [session.last_conn, session.insert_conn, session.past.found_conn];
        for (conn_id, _) in places.into_iter().flatten() {
            let conn = self.servers.conns.get(conn_id).filter(|conn| conn.list.is_free());
            let slot =
                conn.and_then(|conn| Some((conn.server.epoch, self.servers.pool.slot(conn.slot)?)));
            if slot.is_some_and(|(epoch, slot)| slot.removed || epoch != slot.server.health.epoch())
            {
                self.retire_idle(conn_id, Some(&mut *client));
            }
        }
    }

    /// Sends a `COM_PING` to a connection that is on no list; it is offered when that is answered.
    pub(crate) fn ping(&mut self, conn: &mut Conn) {
        let relay = conn.own_relay();
        conn.in_flight.push_back(InFlight {
            owner: Owner::Ping,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        self.servers.set_state(conn, ConnState::Pinging);
        self.write_server(conn, |out| {
            put_payload(out, 0, &[code::PING]);
        });
    }

    /// Closes a connection, on no list, when what sessions left there has been fetched.
    pub(crate) fn retire_conn(&mut self, conn: &mut Conn, lent: Option<&mut Client>) {
        if !self.fetch_before_parting(conn, lent) {
            self.discard_idle(conn);
        }
    }

    /// Closes an idle connection when what sessions left there has been fetched.
    pub(crate) fn retire_idle(&mut self, conn_id: ConnId, lent: Option<&mut Client>) {
        self.with_conn(conn_id, |core, conn| {
            if core.servers.take_free(conn) {
                core.retire_conn(conn, lent);
            }
        });
    }

    /// Sees to it that a connection that is on no list, and not quiet yet, is offered when it is.
    pub(crate) fn rest_when_quiet(&mut self, conn: &mut Conn) {
        // What is there still is nobody's.
        conn.holder.last_client = None;
        conn.holder.turn += 1;
        self.ping(conn);
    }
}
