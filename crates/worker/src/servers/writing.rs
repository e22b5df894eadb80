//! What is written to a server connection.

use crate::{Side, rooms::Core, servers::conn::Conn};

impl Core {
    /// Notes that a server connection's outbox has bytes.
    #[inline]
    pub(crate) fn touch_server(&mut self, conn: &mut Conn) {
        debug_assert!(!conn.is_closed(), "nobody hears what is said to one that has ended");
        if !conn.io.outbox.is_listed {
            conn.io.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Server(conn.id));
        }
    }

    /// Appends to a server connection's outbox.
    pub(crate) fn write_server(&mut self, conn: &mut Conn, write: impl FnOnce(&mut Vec<u8>)) {
        write(conn.io.outbox.buf(&mut self.fx.buffers));
        self.touch_server(conn);
    }
}
