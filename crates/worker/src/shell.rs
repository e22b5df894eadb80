//! What stands between a worker and its sockets, and is the same for every driver.
//!
//! A [`Shell`] owns the worker and the state of its sockets. It decides what a batch does and in
//! which order, and what becomes of each read and write: whether it is repeated, waits, or ends a
//! session. All that touches the world outside is behind [`Io`], which the real driver, the
//! simulator and the instruction counts implement.

mod acting;
mod connecting;
mod io;
mod mail;
mod reading;
mod sealing;
mod sockets;
mod writing;

#[cfg(test)]
mod tests;

pub use io::{
    Clear, Connecting, Event, Fill, Io, NoRecords, NotBegun, Place, Readiness, Received, Records,
    Request, Seal, Stream,
};
pub use mail::{Mail, Travelling};

use std::collections::VecDeque;

use crate::{Now, Side, Worker, WorkerOptions};
use sockets::{Socket, Sockets};
use writing::{LongWrites, WriteBatch};

/// Clients that a batch accepts at least, where so many wait: it takes some tenths of a millisecond
/// to greet them and to close those that give way for them, and who is connected already waits for
/// it.
pub const ACCEPTS_MIN: usize = 8;
/// The most that it accepts.
pub const ACCEPTS_MAX: usize = 256;
/// For so many reads in a batch, it accepts one client more: what it does for those who are
/// connected takes as long.
const READS_PER_ACCEPT: u64 = 4;
/// Reads in one batch from sockets whose last read has filled the memory, at least, for the same
/// reason: they take turns. A short statement waits for some three batches on its way there and
/// back.
pub const LONG_READS_MIN: usize = 1;
/// Bytes of such a read from a client. (What servers send in one piece, somebody waits for.)
pub const LONG_READ_LEN: usize = 32 * 1024;
/// For so many other reads in a batch, it reads from them once more: that takes as long.
const READS_PER_LONG_READ: u64 = 8;
/// Bytes that one call writes at most. To a peer on the same machine that reads as fast, the kernel
/// hands on all that it is given before the call ends: 14 MB took 8 to 10 ms.
pub const WRITE_LEN_MAX: usize = 256 * 1024;
/// Bytes of one batch to all sockets that have more than one call writes, for the same reason: they
/// take turns.
pub const LONG_WRITES_LEN_MAX: usize = 2 * WRITE_LEN_MAX;

/// One worker with its sockets.
pub struct Shell<S: Stream> {
    worker: Worker,
    index: usize,
    workers: usize,
    sockets: Sockets<S>,
    /// Sockets that may have more to read than one read takes, each once, in the order in which
    /// they are read.
    unfinished: VecDeque<Side>,
    long_writes: LongWrites,
    /// Listeners at which clients may wait, each once; those behind get their turn first.
    accepting: VecDeque<usize>,
    writing: WriteBatch,
    /// Records on their way to a socket.
    records: <S::Seal as Seal>::Records,
    is_stopped: bool,
}

impl<S: Stream> Shell<S> {
    /// A worker without sockets.
    pub fn new(worker: Worker, options: WorkerOptions) -> Self {
        Self {
            worker,
            index: options.index,
            workers: options.workers,
            sockets: Sockets::default(),
            unfinished: VecDeque::new(),
            long_writes: LongWrites::default(),
            accepting: VecDeque::new(),
            writing: WriteBatch::default(),
            records: Default::default(),
            is_stopped: false,
        }
    }

    /// The worker.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The worker, for what no event of a batch brings: figures, lists and set-up.
    pub fn worker_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Whether the worker has ended all its sessions.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether sockets or listeners are known to have more than the last batch took.
    pub fn has_more(&self) -> bool {
        !self.unfinished.is_empty() || !self.accepting.is_empty() || self.long_writes.has_more()
    }

    /// How long the next batch may wait for an event, ms.
    pub fn wait_within_ms(&self) -> u64 {
        match self.has_more() {
            true => 0,
            false => self.worker.tick_within_ms(),
        }
    }

    /// How long the sockets are left alone before the next batch, as the worker expects more to
    /// come meanwhile, µs. Called once per batch.
    pub fn pause_us(&mut self) -> u64 {
        let pause_us = self.worker.pause_us();
        match self.has_more() || self.is_stopped {
            true => 0,
            false => pause_us,
        }
    }

    /// One batch: what the last one left, the events that `io` has, what is due by now, and
    /// whatever follows from them, until nothing is left to do.
    pub fn batch(&mut self, io: &mut impl Io<Stream = S>, now: Now) {
        self.worker.begin_batch(now);
        let counters = self.worker.counters_mut();
        counters.batches += 1;
        let reads_before = counters.socket_reads;
        self.go_on_writing(io);
        while let Some(event) = io.next_event() {
            self.happen(io, event);
        }
        let reads = self.worker.counters_mut().socket_reads - reads_before;
        if !self.unfinished.is_empty() {
            self.go_on_reading(io, reads);
        }
        if !self.accepting.is_empty() {
            self.accept_some(io, reads);
        }
        self.worker.tick();
        self.settle(io);
    }

    /// Reads from sockets that have much, behind the batch's `reads` from others: they take turns,
    /// and what they leave over is the next batch's.
    #[cold]
    fn go_on_reading(&mut self, io: &mut impl Io<Stream = S>, reads: u64) {
        let more = usize::try_from(reads / READS_PER_LONG_READ).unwrap_or_default();
        for _ in 0..LONG_READS_MIN + more {
            // What was just read may have paused this socket.
            self.act(io);
            let Some(side) = self.unfinished.pop_front() else { break };
            if let Some(socket) = self.sockets.get_mut(side) {
                socket.is_unfinished = false;
                self.read(io, side);
            }
        }
    }

    /// This socket is read from when its turn comes, in this batch or one of the next.
    fn read_later(&mut self, side: Side) {
        if let Some(socket) = self.sockets.get_mut(side)
            && !std::mem::replace(&mut socket.is_unfinished, true)
        {
            self.unfinished.push_back(side);
        }
    }

    #[inline]
    fn happen<I: Io<Stream = S>>(&mut self, io: &mut I, event: Event<S>) {
        match event {
            Event::Ready(place, readiness) => self.ready(io, place, readiness),
            Event::Knock(listener) => {
                if !self.accepting.contains(&listener) {
                    self.accepting.push_back(listener);
                }
            }
            Event::Mail(mail) => self.open(io, mail),
            Event::Visit(visit) => visit(&mut self.worker),
        }
    }

    fn ready(&mut self, io: &mut impl Io<Stream = S>, place: Place, readiness: Readiness) {
        let Some(socket) = self.sockets.at(place) else { return };
        let side = socket.side;
        if socket.is_connecting() {
            return self.check_connecting(io, side);
        }
        socket.has_ended |= readiness.ended;
        let (awaits_turn, is_long) = (socket.is_unfinished, socket.is_long);
        if readiness.writable && socket.is_full {
            socket.is_full = false;
            self.write(io, side);
        }
        if (readiness.readable || readiness.ended) && !awaits_turn {
            match is_long {
                true => self.read_later(side),
                false => _ = self.read(io, side),
            }
        }
    }

    /// Carries out actions and writes, until nothing is left to do.
    fn settle(&mut self, io: &mut impl Io<Stream = S>) {
        loop {
            self.act(io);
            if !self.write_some(io) {
                break;
            }
        }
        self.worker.let_leave();
        self.act(io);
    }
}
