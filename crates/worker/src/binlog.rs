//! Replicas and change-data-capture tools: a client that asks for the binary log gets a server
//! connection of its own from there on, and bytes go straight through.
//!
//! What the client has set before (`SET @master_binlog_checksum = …`) is on the connection that
//! it holds, or comes along as any session state, and is confirmed before the stream begins.

use trunkline_pool::ConnId;
use trunkline_protocol::response::ResponseShape;

use crate::{
    Action, ClientId, Side, Worker,
    client::{Phase, Purpose, Stage},
    conn::ConnPhase,
};

impl Worker {
    /// `COM_REGISTER_SLAVE`: the server knows the connection as a replica's from then on.
    pub(crate) fn register_replica(&mut self, id: ClientId, frames: &[u8]) {
        let statement = self.statement(frames, ResponseShape::Single, Purpose::Register);
        let route = self.route_plain(id);
        self.follow(id, route, statement);
    }

    /// `COM_BINLOG_DUMP` or `COM_BINLOG_DUMP_GTID`.
    pub(crate) fn dump_binlog(&mut self, id: ClientId, frames: &[u8]) {
        let statement = self.statement(frames, ResponseShape::None, Purpose::Dump);
        let route = self.route_plain(id);
        self.follow(id, route, statement);
    }

    /// Whether a dump has to wait: nothing else may be in flight when bytes
    /// begin to go straight through.
    pub(crate) fn waits_to_dump(&mut self, id: ClientId, conn_id: ConnId) -> bool {
        let is_quiet = self.conns.get(conn_id).is_some_and(|conn| conn.in_flight.is_empty());
        if is_quiet {
            return false;
        }
        self.set_stage(id, Stage::Synchronising(conn_id));
        true
    }

    fn is_dump(&self, id: ClientId) -> bool {
        self.clients.get(id).is_some_and(|client| {
            matches!(&client.phase, Phase::Running(statement)
                if statement.purpose == Purpose::Dump)
        })
    }

    /// A connection has become quiet: a dump that waits for that begins.
    pub(crate) fn dump_when_quiet(&mut self, conn_id: ConnId) {
        let owner = self.conns.get(conn_id).and_then(|conn| conn.owner);
        let Some(owner) = owner.filter(|owner| self.is_dump(*owner)) else {
            return;
        };
        self.go_on_synchronised(owner, conn_id);
    }

    /// The connection is in the session's state, and it is this client's until either ends.
    pub(crate) fn begin_dump(&mut self, id: ClientId, conn_id: ConnId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        let frames = match std::mem::replace(&mut client.phase, Phase::Forward(conn_id)) {
            Phase::Running(mut statement) => std::mem::take(&mut statement.frames),
            other => {
                client.phase = other;
                return;
            }
        };
        if let Some(session) = client.session.as_mut() {
            session.leases.retain(|lease| lease.conn != conn_id);
        }
        let ahead = std::mem::take(&mut client.inbox);
        if std::mem::take(&mut client.is_paused) {
            self.act(Action::Resume(Side::Client(id)));
        }
        let Some(conn) = self.conns.get_mut(conn_id) else {
            return self.close_client(id);
        };
        debug_assert!(conn.in_flight.is_empty());
        conn.phase = ConnPhase::Forward(id);
        if !std::mem::replace(&mut conn.is_pinned, true)
            && let Some(slot) = self.pool.slot_mut(conn.slot)
        {
            slot.set_pinned(true);
        }
        self.write_server(conn_id, |out| {
            out.extend_from_slice(&frames);
            out.extend_from_slice(&ahead);
        });
        self.buffers.give(frames);
        self.stats.counters.binlog_dumps += 1;
    }
}
