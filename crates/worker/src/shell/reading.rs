//! Clients that are accepted, and reads.

use std::{io, sync::Arc};

use super::*;
use crate::Peer;

/// What a panic while bytes are handled says.
const SESSION_PANIC: &str = "a session ended by a panic; please report this";
/// What a second one says, while the session is put away.
const REST_PANIC: &str = "its connections could not be ended in order";

impl<S: Stream> Shell<S> {
    /// Accepts clients, at one listener after the other: so many that those who are connected,
    /// for whom this batch has read `reads` times, wait for about as long as they took.
    #[cold]
    pub(super) fn accept_some(&mut self, io: &mut impl Io<Stream = S>, reads: u64) {
        let more = usize::try_from(reads / READS_PER_ACCEPT).unwrap_or(ACCEPTS_MAX);
        let mut left = (ACCEPTS_MIN + more).min(ACCEPTS_MAX);
        while left > 0
            && let Some(listener) = self.accepting.pop_front()
        {
            left -= 1;
            if self.accept(io, listener) {
                self.accepting.push_back(listener);
            }
        }
    }

    /// Accepts a client; false when no more wait there, or accepting fails.
    fn accept(&mut self, io: &mut impl Io<Stream = S>, listener: usize) -> bool {
        match io.accept(listener) {
            Ok((stream, peer)) => self.welcome(io, stream, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                self.worker.counters_mut().accept_errors += 1;
                return false;
            }
        }
        true
    }

    fn welcome(&mut self, io: &mut impl Io<Stream = S>, stream: S, peer: Peer) {
        let tls = self.worker.listener_tls(peer.listener);
        let peer = Arc::new(Peer { tls, ..peer });
        match self.worker.accept(peer, io.nonce()) {
            Some(id) => _ = self.add(io, Socket::new(stream, Side::Client(id))),
            None => io.close(stream, "no client is accepted any more"),
        }
    }

    /// Registers a socket; what can't be registered is closed.
    pub(super) fn add(&mut self, io: &mut impl Io<Stream = S>, mut socket: Socket<S>) -> bool {
        let side = socket.side;
        match io.register(&mut socket.stream, side) {
            Ok(()) => {
                if let Some(before) = self.sockets.insert(socket) {
                    io.close(before.stream, "another one has its place");
                }
                true
            }
            Err(error) => {
                let reason = error.to_string();
                io.close(socket.stream, &reason);
                self.tell_end(side, &reason);
                false
            }
        }
    }

    /// Reads what a socket has. A read that fills less than the buffer has taken everything,
    /// unless the socket has ended: then reading goes on until it says so.
    pub(super) fn read<I: Io<Stream = S>>(&mut self, io: &mut I, side: Side) {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_paused || socket.is_connecting() {
                socket.is_readable = true;
                return;
            }
            let (has_ended, is_sealed) = (socket.has_ended, socket.seal.is_some());
            self.worker.counters_mut().socket_reads += 1;
            // What waits for the rest of a record goes first.
            let begin = socket.seal.as_ref().map_or(0, |seal| seal.waiting_len());
            let wanted = io.scratch().len().saturating_sub(begin);
            match io.read(&mut socket.stream, begin) {
                Ok(0) => return self.ended(io, side, "the connection was closed"),
                Ok(len) => {
                    match is_sealed {
                        true => self.unseal(io, side, begin + len),
                        false => {
                            let bytes = io.scratch().get(..len).unwrap_or_default();
                            deliver::<I>(&mut self.worker, side, bytes);
                        }
                    }
                    if len < wanted && !has_ended {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.ended(io, side, &error.to_string()),
            }
            // What was just read may have paused this socket.
            self.act(io);
            let Some(left) = self.long_reads_left.checked_sub(1) else {
                return self.read_later(side);
            };
            self.long_reads_left = left;
        }
    }

    /// Closes a socket and tells the worker.
    pub(super) fn ended(&mut self, io: &mut impl Io<Stream = S>, side: Side, reason: &str) {
        if let Some(socket) = self.sockets.remove(side) {
            io.close(socket.stream, reason);
        }
        self.tell_end(side, reason);
    }

    fn tell_end(&mut self, side: Side, reason: &str) {
        match side {
            Side::Client(id) => self.worker.client_closed(id),
            Side::Server(id) => self.worker.server_closed(id, reason),
        }
    }
}

/// Hands bytes to the machine. A panic ends the session that they belong to, and no other.
pub(super) fn deliver<I: Io>(worker: &mut Worker, side: Side, bytes: &[u8]) {
    let step = I::guarded(side, SESSION_PANIC, || match side {
        Side::Client(id) => worker.client_read(id, bytes),
        Side::Server(id) => worker.server_read(id, bytes),
    });
    if step.is_none() {
        I::guarded(side, REST_PANIC, || worker.abandon(side));
    }
}
