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
    Clear, Connecting, Event, Fill, Io, NoRecords, Place, Readiness, Received, Records, Request,
    Seal, Stream,
};
pub use mail::{Mail, Travelling};

use crate::{Now, Side, Worker, WorkerOptions};
use sockets::{Socket, Sockets};
use writing::WriteBatch;

/// Clients that one listener accepts in one batch, so that those connected already are not kept
/// waiting.
pub const ACCEPTS_PER_BATCH: usize = 256;
/// Reads from one socket in one batch, for the same reason: 16 × 64 KiB.
pub const READS_PER_BATCH: usize = 16;

/// One worker with its sockets.
pub struct Shell<S: Stream> {
    worker: Worker,
    index: usize,
    workers: usize,
    sockets: Sockets<S>,
    /// Sockets that may have more to read than one batch took.
    unfinished: Vec<Side>,
    /// Listeners with more clients than one batch accepts.
    accepting: Vec<usize>,
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
            unfinished: Vec::new(),
            accepting: Vec::new(),
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
        !self.unfinished.is_empty() || !self.accepting.is_empty()
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
        self.worker.counters_mut().batches += 1;
        self.go_on_reading(io);
        self.go_on_accepting(io);
        while let Some(event) = io.next_event() {
            self.happen(io, event);
        }
        self.worker.tick();
        self.settle(io);
    }

    /// Reads that the last batch left. What these leave over again is the next batch's.
    fn go_on_reading(&mut self, io: &mut impl Io<Stream = S>) {
        let len = self.unfinished.len();
        for place in 0..len {
            if let Some(side) = self.unfinished.get(place).copied() {
                self.read(io, side);
            }
        }
        self.unfinished.drain(..len);
    }

    fn go_on_accepting(&mut self, io: &mut impl Io<Stream = S>) {
        let len = self.accepting.len();
        for place in 0..len {
            if let Some(listener) = self.accepting.get(place).copied() {
                self.accept(io, listener);
            }
        }
        self.accepting.drain(..len);
    }

    #[inline]
    fn happen<I: Io<Stream = S>>(&mut self, io: &mut I, event: Event<S>) {
        match event {
            Event::Ready(place, readiness) => self.ready(io, place, readiness),
            Event::Knock(listener) => self.accept(io, listener),
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
        if readiness.writable && socket.is_full {
            socket.is_full = false;
            self.write(io, side);
        }
        if readiness.readable || readiness.ended {
            self.read(io, side);
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
