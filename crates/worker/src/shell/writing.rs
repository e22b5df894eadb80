//! Writing what the worker has for its sockets: each once in a batch.

use std::{collections::VecDeque, io};

use super::*;

/// Reads of what a peer said last, before its connection ends as a write to it failed.
const LAST_READS: usize = 5;

/// Room for the writes of one batch.
#[derive(Default)]
pub(super) struct WriteBatch {
    /// Sockets with something to write.
    sides: Vec<Side>,
    /// Those of them that are written to together.
    together: Vec<Side>,
    results: Vec<io::Result<usize>>,
}

/// Sockets that have more to write than one batch does.
#[derive(Default)]
pub(super) struct LongWrites {
    /// Each once, in the order in which they are written to.
    turns: VecDeque<Side>,
    /// Bytes that are left to them in this batch.
    left: usize,
}

impl LongWrites {
    pub(super) fn has_more(&self) -> bool {
        !self.turns.is_empty()
    }

    /// What of a socket's bytes one call writes, at most so many; `None` where its turn comes with
    /// one of the next batches, as `awaits` says then.
    pub(super) fn part<'b>(
        &mut self,
        (side, awaits): (Side, &mut bool),
        pending: &'b [u8],
        len_max: usize,
    ) -> Option<&'b [u8]> {
        let Some(part) = pending.get(..len_max) else { return Some(pending) };
        if self.left == 0 {
            self.wait((side, awaits));
            return None;
        }
        self.left = self.left.saturating_sub(part.len());
        Some(part)
    }

    /// The next batches write to a socket.
    fn wait(&mut self, (side, awaits): (Side, &mut bool)) {
        *awaits = true;
        self.turns.push_back(side);
    }
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
                let is_short = (1..WRITE_LEN_MAX).contains(&pending.len());
                is_short && add(&socket.stream, pending)
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

    /// Writes that the last batch left. What these leave over again is the next batch's.
    pub(super) fn go_on_writing(&mut self, io: &mut impl Io<Stream = S>) {
        self.long_writes.left = LONG_WRITES_LEN_MAX;
        for _ in 0..self.long_writes.turns.len() {
            if self.long_writes.left == 0 {
                break;
            }
            let Some(side) = self.long_writes.turns.pop_front() else { break };
            if let Some(socket) = self.sockets.get_mut(side) {
                socket.is_unwritten = false;
                self.write(io, side);
            }
        }
    }

    pub(super) fn write(&mut self, io: &mut impl Io<Stream = S>, side: Side) {
        loop {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_full || socket.is_connecting() || socket.is_unwritten {
                return;
            }
            if socket.seal.is_some() {
                return self.write_sealed(io, side);
            }
            let pending = self.worker.pending(side);
            if pending.is_empty() {
                break;
            }
            let turn = (side, &mut socket.is_unwritten);
            let Some(pending) = self.long_writes.part(turn, pending, WRITE_LEN_MAX) else {
                return;
            };
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
                    if has_more && (wanted == WRITE_LEN_MAX || self.worker.packs(side)) {
                        return self.long_writes.wait((side, &mut socket.is_unwritten));
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
        let _ = (0..LAST_READS).all(|_| self.read(io, side));
        if self.sockets.get_mut(side).is_some() {
            self.ended(io, side, &error.to_string());
        }
    }
}
