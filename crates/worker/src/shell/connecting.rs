//! Connections to servers on their way.

use std::sync::Arc;

use trunkline_topology::Server;

use super::{sockets::Attempt, *};
use crate::ConnId;

impl<S: Stream> Shell<S> {
    /// Connects to the first of a server's addresses that takes it, from number `number` on.
    pub(super) fn connect(
        &mut self,
        io: &mut impl Io<Stream = S>,
        conn: ConnId,
        server: Arc<Server>,
        mut number: usize,
        mut reason: String,
    ) {
        let side = Side::Server(conn);
        while let Some(result) = io.connect(side, &server, number) {
            match result {
                Ok(stream) => {
                    let mut socket = Socket::new(stream, side);
                    socket.attempt = Some(Box::new(Attempt { server, number }));
                    if self.add(io, socket) {
                        self.check_connecting(io, side);
                    }
                    return;
                }
                Err(error) if error.is_own => {
                    return self.worker.server_not_tried(conn, &error.reason);
                }
                Err(error) => (number, reason) = (number + 1, error.reason),
            }
        }
        self.worker.server_failed(conn, &reason);
    }

    /// Looks how an attempt to connect stands; one that has failed is followed by the next.
    pub(super) fn check_connecting(&mut self, io: &mut impl Io<Stream = S>, side: Side) {
        let Side::Server(conn) = side else { return };
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        match io.connecting(&mut socket.stream, Place::of(side)) {
            Connecting::Pending => {}
            Connecting::Failed(reason) => {
                let Some(socket) = self.sockets.remove(side) else { return };
                io.close(socket.stream, &reason);
                if let Some(Attempt { server, number }) = socket.attempt.map(|it| *it) {
                    self.connect(io, conn, server, number + 1, reason);
                }
            }
            Connecting::Done => {
                socket.attempt = None;
                self.worker.server_connected(conn);
                self.write(io, side);
                self.read(io, side);
            }
        }
    }
}
