//! Encrypted sockets: what is done in place of plain reads and writes.

use std::{io, sync::Arc};

use trunkline_topology::{Server, TlsParams};

use super::{reading::deliver, *};
use crate::{ClientId, ConnId};

/// Bytes of text that are encrypted for one write: four records.
const SEALED_AT_ONCE: usize = 64 * 1024;
/// What a panic of the library says.
const SEAL_PANIC: &str = "TLS ended by a panic; please report this";

impl<S: Stream> Shell<S> {
    pub(super) fn start_client_tls<I: Io<Stream = S>>(&mut self, io: &mut I, client: ClientId) {
        self.start_tls(io, Side::Client(client), I::accept_tls);
    }

    pub(super) fn start_server_tls<I: Io<Stream = S>>(
        &mut self,
        io: &mut I,
        conn: ConnId,
        server: &Server,
        params: &Arc<TlsParams>,
    ) {
        self.start_tls(io, Side::Server(conn), |io, stream| io.connect_tls(stream, server, params));
    }

    fn start_tls<I: Io<Stream = S>>(
        &mut self,
        io: &mut I,
        side: Side,
        begin: impl FnOnce(&mut I, &mut S) -> Result<S::Seal, String>,
    ) {
        // What was said in clear goes first.
        self.write(io, side);
        let is_written = self.worker.pending(side).is_empty();
        let received = self.worker.received(side);
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        let seal = match begin(io, &mut socket.stream) {
            Ok(seal) if is_written && received.len() <= io.scratch().len() => seal,
            Ok(_) => return self.tls_failed(io, side, "too much was under way in clear"),
            Err(reason) => return self.tls_failed(io, side, &reason),
        };
        socket.seal = Some(Box::new(seal));
        if let Some(place) = io.scratch().get_mut(..received.len()) {
            place.copy_from_slice(&received);
        }
        self.unseal(io, side, received.len());
    }

    /// Decrypts the first `len` bytes of the scratch memory and hands on what they say.
    pub(super) fn unseal<I: Io<Stream = S>>(&mut self, io: &mut I, side: Side, len: usize) {
        let Some(seal) = self.sockets.get_mut(side).and_then(|socket| socket.seal.as_mut()) else {
            return;
        };
        let worker = &mut self.worker;
        let bytes = io.scratch().get_mut(..len).unwrap_or_default();
        let sink = |received: Received<'_>| match (received, side) {
            (Received::Data(bytes, has_more), _) => {
                if let (Side::Client(id), true) = (side, has_more) {
                    worker.more_follows(id);
                }
                deliver::<I>(worker, side, bytes);
            }
            (Received::Up(facts), Side::Client(id)) => worker.client_tls_up(id, facts),
            (Received::Up(facts), Side::Server(id)) => worker.server_tls_up(id, facts),
        };
        let result = guarded::<I>(side, || seal.receive(bytes, sink));
        let has_ended = seal.has_ended();
        if let Err(reason) = result {
            self.say_alert(io, side);
            return self.tls_failed(io, side, &reason);
        }
        self.write_records(io, side);
        if has_ended {
            self.ended(io, side, "the connection was closed");
        }
    }

    /// Tells the other end what was wrong, if the socket takes it at once.
    fn say_alert(&mut self, io: &mut impl Io<Stream = S>, side: Side) {
        if let Some(socket) = self.sockets.get_mut(side)
            && let Some(seal) = socket.seal.as_ref()
        {
            let _ = io.write(&mut socket.stream, seal.unsent());
        }
    }

    fn tls_failed(&mut self, io: &mut impl Io<Stream = S>, side: Side, reason: &str) {
        if let Some(socket) = self.sockets.remove(side) {
            io.close(socket.stream, reason);
        }
        match side {
            Side::Client(id) => self.worker.client_tls_failed(id, reason),
            Side::Server(id) => self.worker.server_tls_failed(id, reason),
        }
    }

    /// Writes records that wait; whether none is left.
    fn write_records(&mut self, io: &mut impl Io<Stream = S>, side: Side) -> bool {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return false;
            };
            let Some(seal) = socket.seal.as_mut() else {
                return true;
            };
            if seal.unsent().is_empty() {
                return true;
            }
            if socket.is_full {
                return false;
            }
            let wanted = seal.unsent().len();
            let result = io.write(&mut socket.stream, seal.unsent());
            self.worker.counters_mut().socket_writes += 1;
            match result {
                Ok(len) => {
                    seal.sent(len);
                    socket.is_full = len < wanted;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.is_full = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.write_failed(io, side, &error);
                    return false;
                }
            }
        }
    }

    /// Encrypts and writes what waits for a socket: one write for each 64 KiB.
    pub(super) fn write_sealed<I: Io<Stream = S>>(&mut self, io: &mut I, side: Side) {
        while self.write_records(io, side) {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            let is_closing = socket.is_closing;
            let Some(seal) = socket.seal.as_mut() else {
                return;
            };
            let pending = self.worker.pending(side);
            // Before the handshake is over there is nobody to tell anything.
            if pending.is_empty() || !seal.is_up() {
                if is_closing {
                    self.say_farewell(io, side, &[]);
                    self.ended(io, side, "closed");
                }
                return;
            }
            let turn = (side, &mut socket.is_unwritten);
            let Some(text) = self.long_writes.part(turn, pending, SEALED_AT_ONCE) else {
                return;
            };
            let records = &mut self.records;
            records.clear();
            if let Err(reason) = guarded::<I>(side, || seal.seal(text, records)) {
                return self.tls_failed(io, side, &reason);
            }
            let taken = text.len();
            let result = io.write(&mut socket.stream, self.records.bytes());
            self.worker.counters_mut().socket_writes += 1;
            let (len, error) = match result {
                Ok(len) => (len, None),
                Err(error) => (0, Some(error)),
            };
            // What is encrypted counts as written: it can't be taken back.
            seal.keep_unsent(self.records.bytes().get(len..).unwrap_or_default());
            let is_interrupted =
                error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::Interrupted);
            socket.is_full = !seal.unsent().is_empty() && !is_interrupted;
            self.worker.wrote(side, taken);
            let error = error.filter(|error| error.kind() != io::ErrorKind::WouldBlock);
            if let Some(error) = error.filter(|_| !is_interrupted) {
                return self.write_failed(io, side, &error);
            }
        }
    }

    /// The last words, if the socket takes them at once, and that nothing follows.
    pub(super) fn say_farewell(&mut self, io: &mut impl Io<Stream = S>, side: Side, text: &[u8]) {
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        let Some(seal) = socket.seal.as_mut() else {
            // Who does not take it is told by the end of the connection.
            let _ = io.write(&mut socket.stream, text);
            return;
        };
        if !seal.is_up() || !seal.unsent().is_empty() {
            return;
        }
        self.records.clear();
        if text.is_empty() || seal.seal(text, &mut self.records).is_ok() {
            seal.close(&mut self.records);
            let _ = io.write(&mut socket.stream, self.records.bytes());
        }
    }
}

/// Works on one connection's bytes. A panic of the library ends that connection, and no other.
fn guarded<I: Io>(side: Side, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let result = I::guarded(side, SEAL_PANIC, work);
    result.unwrap_or_else(|| Err("an error of this proxy".to_owned()))
}
