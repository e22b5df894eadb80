//! What is written to a server connection.

use trunkline_pool::ConnId;

use crate::{Side, rooms::Core};

impl Core {
    /// Notes that a server connection's outbox has bytes.
    pub(crate) fn touch_server(&mut self, id: ConnId) {
        let Some(conn) = self.servers.conns.get_mut(id) else {
            return;
        };
        if !conn.io.outbox.is_listed {
            conn.io.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Server(id));
        }
    }

    /// Appends to a server connection's outbox.
    pub(crate) fn write_server(&mut self, id: ConnId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(conn) = self.servers.conns.get_mut(id) {
            write(conn.io.outbox.buf(&mut self.fx.buffers));
            self.touch_server(id);
        }
    }
}
