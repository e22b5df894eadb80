//! What sockets bring, and what was written to them.

use trunkline_pool::ConnId;

use crate::{
    ClientId, Side,
    clients::client::Phase,
    rooms::{Commands, Core, Exchange},
    servers::conn::ConnPhase,
};

impl Core {
    /// See [`Worker::wrote`](crate::Worker::wrote).
    pub(crate) fn on_wrote(&mut self, side: Side, len: usize) {
        match side {
            Side::Client(id) => {
                let Some(client) = self.clients.get_mut(id) else {
                    return;
                };
                // It rests from its answer on, not from its question.
                client.active_ms = self.env.now.ms();
                match client.packing.as_deref_mut() {
                    None => client.outbox.advance(len, &mut self.fx.buffers),
                    Some(packing) => packing.advance(len, &mut self.fx.buffers),
                }
                self.after_client_write(id);
            }
            Side::Server(id) => {
                let Some(conn) = self.servers.conns.get_mut(id) else {
                    return;
                };
                if matches!(conn.phase, ConnPhase::Login(_)) {
                    // The password may be in it.
                    conn.outbox.wipe(len);
                }
                match conn.packing.as_deref_mut() {
                    None => conn.outbox.advance(len, &mut self.fx.buffers),
                    Some(packing) => packing.advance(len, &mut self.fx.buffers),
                }
                self.after_server_write(id);
            }
        }
    }

    /// Notes that a client's outbox has bytes.
    pub(crate) fn touch_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.is_mirror {
            return client.outbox.discard(&mut self.fx.buffers);
        }
        if !client.outbox.is_listed {
            client.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Client(id));
        }
    }

    /// Notes that a server connection's outbox has bytes.
    pub(crate) fn touch_server(&mut self, id: ConnId) {
        let Some(conn) = self.servers.conns.get_mut(id) else {
            return;
        };
        if !conn.outbox.is_listed {
            conn.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Server(id));
        }
    }

    /// Appends to a client's outbox.
    pub(crate) fn write_client(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(client) = self.clients.get_mut(id) {
            write(client.outbox.buf(&mut self.fx.buffers));
            self.touch_client(id);
        }
    }

    /// Appends to a server connection's outbox.
    pub(crate) fn write_server(&mut self, id: ConnId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(conn) = self.servers.conns.get_mut(id) {
            write(conn.outbox.buf(&mut self.fx.buffers));
            self.touch_server(id);
        }
    }
}

impl Commands {
    /// See [`Worker::client_read`](crate::Worker::client_read).
    pub(crate) fn on_client_read(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.exchange.core.clients.get_mut(id) else {
            return;
        };
        client.active_ms = self.exchange.core.env.now.ms();
        match client.packing.is_some() {
            false => self.client_read_plain(id, bytes),
            true => self.packed_client_read(id, bytes),
        }
    }

    /// Bytes from a client, unpacked.
    #[inline]
    pub(crate) fn client_read_plain(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.exchange.core.clients.get_mut(id) else {
            return;
        };
        match &client.phase {
            Phase::Login(_) => self.exchange.login_read(id, bytes),
            Phase::Idle => self.commands_read(id, bytes),
            Phase::Running(_) | Phase::AwaitKill(_) | Phase::AwaitNames(_) => {
                client.inbox.extend_from_slice(bytes);
                match self.exchange.core.clients.is_uploading(id) {
                    true => self.exchange.core.upload(id),
                    false => self.exchange.core.pause_if_full(id),
                }
            }
            Phase::Forward(conn) => {
                let conn = *conn;
                self.exchange.forward_to_server(id, conn, bytes);
            }
            Phase::Closing => {}
        }
    }
}

impl Exchange {
    /// See [`Worker::client_closed`](crate::Worker::client_closed).
    pub(crate) fn on_client_closed(&mut self, id: ClientId) {
        self.remove_client(id);
    }

    /// See [`Worker::server_read`](crate::Worker::server_read).
    pub(crate) fn on_server_read(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.core.servers.conns.get(id) else {
            return;
        };
        match conn.packing.is_some() {
            false => self.server_read_plain(id, bytes),
            true => self.packed_server_read(id, bytes),
        }
    }

    /// Bytes from a server, unpacked.
    #[inline]
    pub(crate) fn server_read_plain(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.core.servers.conns.get(id) else {
            return;
        };
        match &conn.phase {
            ConnPhase::Connecting(_) => self.server_broke(id, "sent bytes before it was connected"),
            ConnPhase::Login(_) if conn.in_flight.is_empty() => self.server_login_read(id, bytes),
            // An idle connection logs in again before what came before is answered.
            ConnPhase::Login(_) => self.reply_read(id, bytes),
            ConnPhase::Ready => self.reply_read(id, bytes),
            ConnPhase::Forward(client) => {
                let client = *client;
                self.core.forward_to_client(id, client, bytes);
            }
        }
    }

    /// See [`Worker::server_closed`](crate::Worker::server_closed).
    pub(crate) fn on_server_closed(&mut self, id: ConnId, reason: &str) {
        self.unpack_last_words(id);
        self.lose_conn(id, reason);
    }
}
