//! Writing what the worker has for its sockets: each once in a batch.

use std::io;

use super::*;

/// Room for the writes of one batch.
#[derive(Default)]
pub(super) struct WriteBatch {
    /// Sockets with something to write.
    sides: Vec<Side>,
    /// Those of them that are written to together.
    together: Vec<Side>,
    results: Vec<io::Result<usize>>,
}

/// What is written together: from `sides`, what can be is taken out.
struct Together<'w, 'a, S: Stream> {
    sockets: &'a Sockets<S>,
    worker: &'w mut Worker,
    batch: &'w mut WriteBatch,
}

impl<'a, S: Stream> Fill<'a, S> for Together<'_, 'a, S> {
    fn fill(self, mut add: impl FnMut(&'a S, &[u8]) -> bool) {
        let WriteBatch { sides, together, .. } = self.batch;
        sides.retain(|side| {
            let plain = self.sockets.get(*side).filter(|socket| socket.takes_plain());
            let is_added = plain.is_some_and(|socket| {
                let pending = self.worker.pending(*side);
                !pending.is_empty() && add(&socket.stream, pending)
            });
            if is_added {
                together.push(*side);
            }
            !is_added
        });
    }
}

impl<S: Stream> Shell<S> {
    /// Writes to the sockets that have something by now; whether there were any.
    pub(super) fn write_some(&mut self, io: &mut impl Io<Stream = S>) -> bool {
        if !io.writes_many() {
            let Some(side) = self.worker.next_dirty() else { return false };
            self.write(io, side);
            return true;
        }
        let mut batch = std::mem::take(&mut self.writing);
        while let Some(side) = self.worker.next_dirty() {
            batch.sides.push(side);
        }
        if batch.sides.len() > 1 {
            self.write_together(io, &mut batch);
        }
        let has_any = !batch.sides.is_empty() || !batch.together.is_empty();
        batch.sides.drain(..).for_each(|side| self.write(io, side));
        batch.together.clear();
        self.writing = batch;
        has_any
    }

    /// Writes by one call to as many of a batch's sockets as can be; the others stay in it.
    fn write_together(&mut self, io: &mut impl Io<Stream = S>, batch: &mut WriteBatch) {
        let mut results = std::mem::take(&mut batch.results);
        let (sockets, worker) = (&self.sockets, &mut self.worker);
        io.write_many(Together { sockets, worker, batch }, &mut results);
        for (side, result) in batch.together.iter().zip(results.drain(..)) {
            self.worker.counters_mut().socket_writes += 1;
            if let Ok(len) = result {
                self.worker.wrote(*side, len);
            }
            // The rest, if any, and what an error means.
            self.write(io, *side);
        }
        batch.results = results;
    }

    pub(super) fn write(&mut self, io: &mut impl Io<Stream = S>, side: Side) {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_full || socket.is_connecting() {
                return;
            }
            if socket.seal.is_some() {
                return self.write_sealed(io, side);
            }
            let pending = self.worker.pending(side);
            if pending.is_empty() {
                break;
            }
            let wanted = pending.len();
            let result = io.write(&mut socket.stream, pending);
            self.worker.counters_mut().socket_writes += 1;
            match result {
                Ok(len) => {
                    socket.is_full = len < wanted;
                    let has_more = self.worker.wrote(side, len);
                    // The usual case is over here; one that closes is looked at once more.
                    if len < wanted || !has_more && !socket.is_closing {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.is_full = true;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.write_failed(io, side, &error),
            }
        }
        if self.sockets.get_mut(side).is_some_and(|socket| socket.is_closing) {
            self.ended(io, side, "closed");
        }
    }

    /// The peer is gone; what it said last may still be readable and says more than the error.
    pub(super) fn write_failed(
        &mut self,
        io: &mut impl Io<Stream = S>,
        side: Side,
        error: &io::Error,
    ) {
        if let Some(socket) = self.sockets.get_mut(side) {
            socket.has_ended = true;
        }
        self.read(io, side);
        if self.sockets.get_mut(side).is_some() {
            self.ended(io, side, &error.to_string());
        }
    }
}
