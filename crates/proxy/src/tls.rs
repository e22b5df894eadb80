//! Encrypted sockets: what the driver does in place of plain reads and writes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::error;
use trunkline_net::{Received, Tls, TlsSetup};
use trunkline_topology::{Address, Server, TlsParams};
use trunkline_worker::{ClientId, ConnId, Side};

use crate::driver::{Driver, deliver};

/// Bytes of text that are encrypted for one write: four records.
const SEALED_AT_ONCE: usize = 64 * 1024;

impl Driver {
    /// TLS works with this from now on; connections that are up stay as they are.
    pub(crate) fn apply_tls(&mut self, setup: Arc<TlsSetup>) {
        self.parts.worker.offer_tls(setup.acceptor().is_some());
        self.parts.tls = setup;
    }

    pub(crate) fn start_client_tls(&mut self, client: ClientId) {
        let tls = match self.parts.tls.acceptor() {
            Some(acceptor) => Tls::accept(acceptor),
            None => Err("there is no certificate any more".to_owned()),
        };
        self.start_tls(Side::Client(client), tls);
    }

    pub(crate) fn start_server_tls(
        &mut self,
        conn: ConnId,
        server: &Server,
        params: &Arc<TlsParams>,
    ) {
        let address = &server.key.address;
        let tls = match (self.parts.tls.connector(address, server.tls.mode, params), address) {
            (Some(connector), Address::Tcp { host, .. }) => Tls::connect(connector, host),
            (None, _) | (_, Address::Unix(_)) => {
                Err("its configuration has changed meanwhile".to_owned())
            }
        };
        self.start_tls(Side::Server(conn), tls);
    }

    fn start_tls(&mut self, side: Side, tls: Result<Tls, String>) {
        // What was said in clear goes first.
        self.write(side);
        let is_written = self.parts.worker.pending(side).is_empty();
        let received = self.parts.worker.received(side);
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        let tls = match tls {
            Ok(tls) if is_written && received.len() <= self.scratch.len() => tls,
            Ok(_) => return self.tls_failed(side, "too much was under way in clear"),
            Err(reason) => return self.tls_failed(side, &reason),
        };
        socket.tls = Some(Box::new(tls));
        if let Some(place) = self.scratch.get_mut(..received.len()) {
            place.copy_from_slice(&received);
        }
        self.deliver_sealed(side, received.len());
    }

    /// Decrypts the first `len` bytes of the scratch buffer and hands on what they say.
    pub(crate) fn deliver_sealed(&mut self, side: Side, len: usize) {
        let Some(tls) = self.sockets.get_mut(side).and_then(|socket| socket.tls.as_mut()) else {
            return;
        };
        let worker = &mut self.parts.worker;
        let bytes = self.scratch.get_mut(..len).unwrap_or_default();
        let mut sink = |received: Received<'_>| match (received, side) {
            (Received::Data(bytes), _) => deliver(worker, side, bytes),
            (Received::Up(facts), Side::Client(id)) => worker.client_tls_up(id, facts),
            (Received::Up(facts), Side::Server(id)) => worker.server_tls_up(id, facts),
        };
        let result = guarded(|| tls.receive(bytes, &mut sink));
        let has_ended = tls.has_ended();
        if let Err(reason) = result {
            self.say_alert(side);
            return self.tls_failed(side, &reason);
        }
        self.write_records(side);
        if has_ended {
            self.ended(side, "the connection was closed");
        }
    }

    /// Tells the other end what was wrong, if the socket takes it at once.
    fn say_alert(&mut self, side: Side) {
        if let Some(socket) = self.sockets.get_mut(side)
            && let Some(tls) = socket.tls.as_ref()
        {
            let _ = self.parts.poller.write(&mut socket.stream, tls.unsent());
        }
    }

    fn tls_failed(&mut self, side: Side, reason: &str) {
        self.sockets.remove(side);
        match side {
            Side::Client(id) => self.parts.worker.client_tls_failed(id, reason),
            Side::Server(id) => self.parts.worker.server_tls_failed(id, reason),
        }
    }

    /// Writes records that wait; whether none is left.
    fn write_records(&mut self, side: Side) -> bool {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return false;
            };
            let Some(tls) = socket.tls.as_mut() else {
                return true;
            };
            if tls.unsent().is_empty() {
                return true;
            }
            if socket.is_full {
                return false;
            }
            let wanted = tls.unsent().len();
            let result = self.parts.poller.write(&mut socket.stream, tls.unsent());
            self.parts.worker.counters_mut().socket_writes += 1;
            match result {
                Ok(len) => {
                    tls.sent(len);
                    socket.is_full = len < wanted;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    socket.is_full = true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.write_failed(side, &error);
                    return false;
                }
            }
        }
    }

    /// Encrypts and writes what waits for a socket: one write for each 64 KiB.
    pub(crate) fn write_sealed(&mut self, side: Side) {
        while self.write_records(side) {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            let is_closing = socket.is_closing;
            let Some(tls) = socket.tls.as_mut() else {
                return;
            };
            let pending = self.parts.worker.pending(side);
            // Before the handshake is over there is nobody to tell anything.
            if pending.is_empty() || !tls.is_up() {
                if is_closing {
                    self.say_farewell(side, &[]);
                    self.ended(side, "closed");
                }
                return;
            }
            let text = pending.get(..SEALED_AT_ONCE).unwrap_or(pending);
            self.sealed.clear();
            if let Err(reason) = guarded(|| tls.seal(text, &mut self.sealed)) {
                return self.tls_failed(side, &reason);
            }
            let taken = text.len();
            let result = self.parts.poller.write(&mut socket.stream, self.sealed.bytes());
            self.parts.worker.counters_mut().socket_writes += 1;
            let (len, error) = match result {
                Ok(len) => (len, None),
                Err(error) => (0, Some(error)),
            };
            // What is encrypted counts as written: it can't be taken back.
            tls.keep_unsent(self.sealed.bytes().get(len..).unwrap_or_default());
            socket.is_full = !tls.unsent().is_empty();
            self.parts.worker.wrote(side, taken);
            match error {
                Some(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    if let Some(socket) = self.sockets.get_mut(side) {
                        socket.is_full = false;
                    }
                }
                Some(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                    return self.write_failed(side, &error);
                }
                Some(_) | None => {}
            }
        }
    }

    /// The last words, if the socket takes them at once, and that nothing follows.
    pub(crate) fn say_farewell(&mut self, side: Side, text: &[u8]) {
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        let Some(tls) = socket.tls.as_mut() else {
            // Who does not take it is told by the end of the connection.
            let _ = self.parts.poller.write(&mut socket.stream, text);
            return;
        };
        if !tls.is_up() || !tls.unsent().is_empty() {
            return;
        }
        self.sealed.clear();
        if text.is_empty() || tls.seal(text, &mut self.sealed).is_ok() {
            tls.close(&mut self.sealed);
            let _ = self.parts.poller.write(&mut socket.stream, self.sealed.bytes());
        }
    }
}

/// Works on one connection's bytes. A panic of the library ends that connection, and no other.
fn guarded(work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        error!("TLS ended by a panic; please report this");
        Err("an error of this proxy".to_owned())
    })
}
