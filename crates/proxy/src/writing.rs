//! Writing what the worker has for its sockets: each once in a batch.

use std::io;

use tracing::error;
use trunkline_worker::Side;

use crate::driver::Driver;

/// Room for the writes of one batch.
#[derive(Default)]
pub(crate) struct WriteBatch {
    /// Sockets with something to write.
    sides: Vec<Side>,
    /// Those of them that are written to together.
    together: Vec<Side>,
    results: Vec<io::Result<usize>>,
}

impl Driver {
    /// Writes to the sockets that have something by now; whether there were any.
    pub(crate) fn write_some(&mut self) -> bool {
        if !self.parts.poller.writes_many() {
            let side = self.parts.worker.next_dirty();
            side.into_iter().for_each(|side| self.write(side));
            return side.is_some();
        }
        let mut batch = std::mem::take(&mut self.writing);
        while let Some(side) = self.parts.worker.next_dirty() {
            batch.sides.push(side);
        }
        if batch.sides.len() > 1 {
            self.write_together(&mut batch);
        }
        let has_any = !batch.sides.is_empty() || !batch.together.is_empty();
        batch.sides.drain(..).for_each(|side| self.write(side));
        batch.together.clear();
        self.writing = batch;
        has_any
    }

    /// Writes by one call to as many of a batch's sockets as can be; the others stay in it.
    fn write_together(&mut self, batch: &mut WriteBatch) {
        let (sockets, worker) = (&self.sockets, &mut self.parts.worker);
        let WriteBatch { sides, together, results } = batch;
        let written = self.parts.poller.write_many(
            |writing| {
                sides.retain(|side| {
                    let plain = sockets.get(*side).filter(|socket| socket.takes_plain());
                    let is_added = plain.is_some_and(|socket| {
                        let pending = worker.pending(*side);
                        !pending.is_empty() && writing.add(&socket.stream, pending)
                    });
                    if is_added {
                        together.push(*side);
                    }
                    !is_added
                });
            },
            results,
        );
        if let Err(error) = written {
            // The next wait fails for the same reason, and ends the worker.
            error!(%error, "io_uring has failed");
        }
        for (side, result) in together.iter().zip(results.drain(..)) {
            self.parts.worker.counters_mut().socket_writes += 1;
            if let Ok(len) = result {
                self.parts.worker.wrote(*side, len);
            }
            // The rest, if any, and what an error means.
            self.write(*side);
        }
    }

    pub(crate) fn write(&mut self, side: Side) {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_full || socket.is_connecting {
                return;
            }
            if socket.tls.is_some() {
                return self.write_sealed(side);
            }
            let pending = self.parts.worker.pending(side);
            if pending.is_empty() {
                break;
            }
            let wanted = pending.len();
            let result = self.parts.poller.write(&mut socket.stream, pending);
            self.parts.worker.counters_mut().socket_writes += 1;
            match result {
                Ok(len) => {
                    socket.is_full = len < wanted;
                    self.parts.worker.wrote(side, len);
                    if len < wanted {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.is_full = true;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.write_failed(side, &error),
            }
        }
        if self.sockets.get_mut(side).is_some_and(|socket| socket.is_closing) {
            self.ended(side, "closed");
        }
    }

    /// The peer is gone; what it said last may still be readable and says more than the error.
    pub(crate) fn write_failed(&mut self, side: Side, error: &io::Error) {
        if let Some(socket) = self.sockets.get_mut(side) {
            socket.has_ended = true;
        }
        self.read(side);
        if self.sockets.get_mut(side).is_some() {
            self.ended(side, &error.to_string());
        }
    }
}
