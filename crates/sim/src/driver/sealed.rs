//! Encrypted sockets, as the real driver has them (`crates/proxy/src/tls.rs`).

use trunkline_worker::Side;

use super::{Driver, Outside};
use crate::{
    sealing::{self, Seal},
    wire::End,
};

impl Driver {
    /// What is read from a socket goes to the worker, unsealed.
    pub(super) fn take_in(&mut self, out: &mut Outside<'_>, side: Side, bytes: &[u8]) {
        let Some(socket) = self.sockets.get_mut(side) else { return };
        let link = socket.link;
        let Some(seal) = &mut socket.seal else {
            return self.deliver(side, bytes);
        };
        let unsealed = match seal.unseal(bytes) {
            Ok(unsealed) => unsealed,
            Err(malformed) => return self.sealing_failed(out, side, &malformed.to_string()),
        };
        if !unsealed.answer.is_empty() {
            let _ = out.wire.write(link, End::Proxy, unsealed.answer, out.now);
        }
        if unsealed.came_up {
            match side {
                Side::Client(id) => self.worker.client_tls_up(id, sealing::facts()),
                Side::Server(id) => self.worker.server_tls_up(id, sealing::facts()),
            }
        }
        if !unsealed.plain.is_empty() {
            self.deliver(side, &unsealed.plain);
        }
    }

    fn deliver(&mut self, side: Side, bytes: &[u8]) {
        match side {
            Side::Client(id) => self.worker.client_read(id, bytes),
            Side::Server(id) => self.worker.server_read(id, bytes),
        }
    }

    /// A socket is sealed from here on; what was said in clear goes first.
    pub(super) fn start_sealing(
        &mut self,
        out: &mut Outside<'_>,
        side: Side,
        seal: Seal,
        hello: &[u8],
    ) {
        self.write(out, side);
        let is_written = self.worker.pending(side).is_empty();
        let received = self.worker.received(side);
        if !is_written {
            return self.sealing_failed(out, side, "too much was under way in clear");
        }
        let Some(socket) = self.sockets.get_mut(side) else { return };
        let link = socket.link;
        socket.seal = Some(Box::new(seal));
        let _ = out.wire.write(link, End::Proxy, hello, out.now);
        if !received.is_empty() {
            self.take_in(out, side, &received);
        }
    }

    fn sealing_failed(&mut self, out: &mut Outside<'_>, side: Side, reason: &str) {
        if let Some(socket) = self.sockets.remove(side) {
            out.close(socket.link);
        }
        match side {
            Side::Client(id) => self.worker.client_tls_failed(id, reason),
            Side::Server(id) => self.worker.server_tls_failed(id, reason),
        }
    }
}
