//! The binary log goes to a replica through a connection of its own.

use trunkline_pool::ConnState;

use crate::{
    Action, Side,
    clients::client::{Client, Phase, Purpose, Stage},
    rooms::Exchange,
    servers::conn::{Conn, ConnPhase},
    special::binlog::said_by_a_replica,
};

impl Client {
    pub(crate) fn is_dump(&self) -> bool {
        matches!(&self.phase, Phase::Running(statement)
                if statement.command.purpose == Purpose::Dump)
    }
}

impl Exchange {
    /// The connection is in the session's state, and it is this client's until either ends.
    pub(super) fn begin_dump(&mut self, client: &mut Client, conn: &mut Conn) {
        let frames = match std::mem::replace(&mut client.phase, Phase::Forward(conn.id)) {
            Phase::Running(mut statement) => std::mem::take(&mut statement.command.frames),
            other => {
                client.phase = other;
                return;
            }
        };
        client.session.leave(conn.id);
        let ahead = std::mem::take(&mut client.io.inbox);
        if std::mem::take(&mut client.io.is_paused) {
            self.core.fx.act(Action::Resume(Side::Client(client.id)));
        }
        debug_assert!(conn.in_flight.is_empty() && conn.login.forwards.is_none());
        conn.phase = ConnPhase::Forward(client.id);
        self.core.servers.set_state(conn, ConnState::Forwarding);
        self.core.write_server(conn, |out| out.extend_from_slice(&frames));
        self.core.fx.buffers.give(frames.into_own());
        self.core.fx.stats.counters.binlog_dumps += 1;
        self.replica_read(client, conn, &ahead);
    }

    /// Bytes of a client that gets the binary log. It may acknowledge events and quit. Anything
    /// else is meant for a session, which a server may go on with behind a dump that it has
    /// refused or ended: this one would find what others have left on the connection, and ends.
    pub(crate) fn replica_read(&mut self, client: &mut Client, conn: &mut Conn, bytes: &[u8]) {
        client.io.inbox.extend_from_slice(bytes);
        let Some(len) = said_by_a_replica(&client.io.inbox) else {
            return self.end_client(client, Some(conn));
        };
        let said: Vec<u8> = client.io.inbox.drain(..len).collect();
        if !said.is_empty() {
            self.core.write_server(conn, |out| out.extend_from_slice(&said));
        }
    }
}

/// Whether a dump has to wait: nothing else may be in flight when bytes begin to go straight
/// through.
pub(super) fn waits_to_dump(client: &mut Client, conn: &Conn) -> bool {
    if conn.in_flight.is_empty() {
        return false;
    }
    client.set_stage(Stage::Synchronising(conn.id));
    true
}
