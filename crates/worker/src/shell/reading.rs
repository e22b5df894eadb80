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

    /// Reads from a socket once; whether it may have more, and is read again when its turn comes.
    /// A read that fills less than the memory has taken everything, unless the socket has ended.
    pub(super) fn read<I: Io<Stream = S>>(&mut self, io: &mut I, side: Side) -> bool {
        let Some(socket) = self.sockets.get_mut(side) else {
            return false;
        };
        if socket.is_paused || socket.is_connecting() {
            socket.is_readable = true;
            return false;
        }
        let is_sealed = socket.seal.is_some();
        self.worker.counters_mut().socket_reads += 1;
        // What waits for the rest of a record goes first.
        let begin = socket.seal.as_ref().map_or(0, |seal| seal.waiting_len());
        let end = match (socket.is_long, side) {
            (true, Side::Client(_)) => begin + LONG_READ_LEN,
            _ => usize::MAX,
        };
        let room = begin..end.min(io.scratch().len());
        let wanted = room.len();
        let has_more = match io.read(&mut socket.stream, room) {
            Ok(0) => {
                self.ended(io, side, "the connection was closed");
                false
            }
            Ok(len) => {
                let has_more = len == wanted || socket.has_ended;
                socket.is_long = has_more;
                match is_sealed {
                    true => self.unseal(io, side, begin + len),
                    false => {
                        let bytes = io.scratch().get(..len).unwrap_or_default();
                        deliver::<I>(&mut self.worker, side, bytes);
                    }
                }
                has_more
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(error) => {
                self.ended(io, side, &error.to_string());
                false
            }
        };
        if has_more {
            self.read_later(side);
        }
        has_more
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
