//! Replicas and change-data-capture tools: a client that asks for the binary log gets a server
//! connection of its own from there on. The server's bytes go straight through, and so do those of
//! the client that a replica may say.
//!
//! What the client has set before (`SET @master_binlog_checksum = …`) is on the connection that
//! it holds, or comes along as any session state, and is confirmed before the stream begins.

use trunkline_pool::{ConnId, ConnState};
use trunkline_protocol::{codec::frame::split_packet, response::ResponseShape};

use crate::{
    Action, ClientId, Side,
    clients::Clients,
    clients::client::{Phase, Purpose, Stage},
    rooms::{Core, Exchange},
    servers::conn::{Conn, ConnPhase},
};

impl Clients {
    pub(crate) fn is_dump(&self, id: ClientId) -> bool {
        self.get(id).is_some_and(|client| {
            matches!(&client.phase, Phase::Running(statement)
                if statement.purpose == Purpose::Dump)
        })
    }
}

impl Exchange {
    /// `COM_REGISTER_SLAVE`: the server knows the connection as a replica's from then on.
    pub(crate) fn register_replica(&mut self, id: ClientId, frames: &[u8]) {
        let statement = self.core.statement(frames, ResponseShape::Single, Purpose::Register);
        let route = self.core.route_plain(id);
        self.run_on_route(id, route, statement);
    }

    /// `COM_BINLOG_DUMP` or `COM_BINLOG_DUMP_GTID`.
    pub(crate) fn dump_binlog(&mut self, id: ClientId, frames: &[u8]) {
        let statement = self.core.statement(frames, ResponseShape::None, Purpose::Dump);
        let route = self.core.route_plain(id);
        self.run_on_route(id, route, statement);
    }

    /// A connection has become quiet: a dump that waits for that begins.
    pub(crate) fn dump_when_quiet(&mut self, conn_id: ConnId) {
        let owner = self.core.servers.conns.get(conn_id).and_then(|conn| conn.owner);
        let Some(owner) = owner.filter(|owner| self.core.clients.is_dump(*owner)) else {
            return;
        };
        self.go_on_synchronised(owner, conn_id);
    }

    /// The connection is in the session's state, and it is this client's until either ends.
    pub(crate) fn begin_dump(&mut self, id: ClientId, conn_id: ConnId) {
        let Some(client) = self.core.clients.get_mut(id) else {
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
            self.core.fx.act(Action::Resume(Side::Client(id)));
        }
        let Some(conn) = self.core.servers.conns.get_mut(conn_id) else {
            return self.close_client(id);
        };
        debug_assert!(conn.in_flight.is_empty() && conn.forwards.is_none());
        conn.phase = ConnPhase::Forward(id);
        self.core.servers.set_state(conn_id, ConnState::Forwarding);
        self.core.write_server(conn_id, |out| out.extend_from_slice(&frames));
        self.core.fx.buffers.give(frames);
        self.core.fx.stats.counters.binlog_dumps += 1;
        self.replica_read(id, conn_id, &ahead);
    }

    /// What came in one read with a dump that has begun.
    pub(crate) fn read_behind_dump(&mut self, id: ClientId) {
        if let Some(Phase::Forward(conn)) = self.core.clients.get(id).map(|client| &client.phase)
            && self.core.servers.conns.get(*conn).is_some_and(Conn::sends_binlog)
        {
            self.replica_read(id, *conn, &[]);
        }
    }

    /// Bytes of a client that gets the binary log. It may acknowledge events and quit. Anything
    /// else is meant for a session, which a server may go on with behind a dump that it has
    /// refused or ended: this one would find what others have left on the connection, and ends.
    pub(crate) fn replica_read(&mut self, id: ClientId, conn_id: ConnId, bytes: &[u8]) {
        let Some(client) = self.core.clients.get_mut(id) else {
            return;
        };
        client.inbox.extend_from_slice(bytes);
        let Some(len) = said_by_a_replica(&client.inbox) else {
            return self.close_client(id);
        };
        let said: Vec<u8> = client.inbox.drain(..len).collect();
        if !said.is_empty() {
            self.core.write_server(conn_id, |out| out.extend_from_slice(&said));
        }
    }
}

impl Core {
    /// Whether a dump has to wait: nothing else may be in flight when bytes
    /// begin to go straight through.
    pub(crate) fn waits_to_dump(&mut self, id: ClientId, conn_id: ConnId) -> bool {
        let is_quiet =
            self.servers.conns.get(conn_id).is_some_and(|conn| conn.in_flight.is_empty());
        if is_quiet {
            return false;
        }
        self.clients.set_stage(id, Stage::Synchronising(conn_id));
        true
    }
}

impl Conn {
    /// Whether a client gets the binary log there. That of a fast-forward user is the client's
    /// alone from its login on.
    pub(crate) fn sends_binlog(&self) -> bool {
        matches!(self.phase, ConnPhase::Forward(_)) && self.forwards.is_none()
    }
}

/// The first byte of a semi-synchronous replica's acknowledgement.
const ACKNOWLEDGEMENT: u8 = 0xEF;
/// The code of `COM_QUIT`.
const QUIT: u8 = 0x01;
/// The longest packet of a replica, which names a binary log, bytes.
const REPLICA_PACKET_MAX: usize = 4_096;

/// How many bytes of whole packets there are, all of them what a replica says; `None` where one is
/// something else.
fn said_by_a_replica(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    while let Some((_, payload, behind)) = split_packet(rest) {
        if !matches!(payload.first(), Some(&ACKNOWLEDGEMENT | &QUIT)) {
            return None;
        }
        rest = behind;
    }
    (rest.len() <= REPLICA_PACKET_MAX).then_some(bytes.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_acknowledges_and_quits() {
        let ack = [3, 0, 0, 0, 0xEF, 1, 2];
        let quit = [1, 0, 0, 0, 1];
        let query = [5, 0, 0, 0, 3, b'D', b'O', b' ', b'1'];
        assert_eq!(said_by_a_replica(&[]), Some(0));
        assert_eq!(said_by_a_replica(&[&ack[..], &quit].concat()), Some(12));
        assert_eq!(said_by_a_replica(&[&ack[..], &ack[..5]].concat()), Some(7));
        assert_eq!(said_by_a_replica(&[&ack[..], &query].concat()), None);
        assert_eq!(said_by_a_replica(&[0; 4]), None);
        assert_eq!(said_by_a_replica(&[0xFF; REPLICA_PACKET_MAX + 1]), None);
    }
}
