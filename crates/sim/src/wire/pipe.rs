//! One direction of a link.

use std::collections::VecDeque;

use crate::{Micros, rng::Rng, wire::ReadBytes};

/// How written bytes fall apart on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chop {
    /// Each write arrives whole.
    Whole,
    /// In pieces of at most so many bytes.
    Pieces(usize),
    /// Now and then in pieces of at most so many bytes.
    Sometimes(usize),
}

/// What a pipe is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PipeSpec {
    /// The way from end to end.
    pub latency_us: Micros,
    /// What it may take longer.
    pub jitter_us: Micros,
    /// Bytes that pass in a millisecond.
    pub bytes_per_ms: u64,
    /// Bytes that may be under way or unread.
    pub window: usize,
    /// How they fall apart.
    pub chop: Chop,
}

/// Pieces that one write falls into at most; the last one takes the rest.
const PIECES_MAX: usize = 12;

/// Something on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    Bytes(Vec<u8>),
    Finish,
    Reset,
}

/// What the reader finds when it has read everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    Finished,
    Reset,
}

#[derive(Debug)]
pub(super) struct Pipe {
    spec: PipeSpec,
    rng: Rng,
    under_way: VecDeque<(Micros, Segment)>,
    under_way_len: usize,
    received: VecDeque<u8>,
    /// Waits at the writer's end for room.
    backlog: VecDeque<u8>,
    /// The writer wrote its last.
    is_finished: bool,
    /// The end is on its way, or the pipe was reset: nothing can follow.
    is_sealed: bool,
    ending: Ending,
    /// The reader has closed.
    is_deaf: bool,
    wishes_room: bool,
    stalled_until: Micros,
    last_arrival: Micros,
    /// An event for the next arrival is there.
    pub is_announced: bool,
}

impl Pipe {
    pub(super) fn new(spec: PipeSpec, rng: Rng) -> Self {
        Self {
            spec,
            rng,
            under_way: VecDeque::new(),
            under_way_len: 0,
            received: VecDeque::new(),
            backlog: VecDeque::new(),
            is_finished: false,
            is_sealed: false,
            ending: Ending::Open,
            is_deaf: false,
            wishes_room: false,
            stalled_until: 0,
            last_arrival: 0,
            is_announced: false,
        }
    }

    pub(super) fn latency_us(&self) -> Micros {
        self.spec.latency_us
    }

    /// Takes what there is room for; `None` when the writer has finished.
    pub(super) fn write(&mut self, bytes: &[u8], now: Micros) -> Option<usize> {
        if self.is_finished || self.is_sealed {
            return None;
        }
        let room = self.spec.window.saturating_sub(self.under_way_len + self.received.len());
        let (taken, rest) = bytes.split_at(bytes.len().min(room));
        self.wishes_room |= !rest.is_empty();
        self.send(taken, now);
        Some(taken.len())
    }

    pub(super) fn write_all(&mut self, bytes: &[u8], now: Micros) {
        if !self.is_finished && !self.is_sealed {
            self.backlog.extend(bytes);
            self.flush(now);
        }
    }

    /// Sends what waits; true when nothing does any more.
    pub(super) fn flush(&mut self, now: Micros) -> bool {
        if self.is_sealed {
            return false;
        }
        let room = self.spec.window.saturating_sub(self.under_way_len + self.received.len());
        let len = self.backlog.len().min(room);
        if len > 0 {
            let bytes: Vec<u8> = self.backlog.drain(..len).collect();
            self.send(&bytes, now);
        }
        self.wishes_room |= !self.backlog.is_empty();
        if self.backlog.is_empty() && self.is_finished {
            self.seal(Segment::Finish, now);
        }
        self.backlog.is_empty()
    }

    fn send(&mut self, mut bytes: &[u8], now: Micros) {
        let pieces_of = match self.spec.chop {
            Chop::Whole => usize::MAX,
            Chop::Pieces(max) => max,
            Chop::Sometimes(max) => match self.rng.chance(1, 8) {
                true => max,
                false => usize::MAX,
            },
        };
        for piece in 1.. {
            if bytes.is_empty() {
                return;
            }
            let len = match pieces_of == usize::MAX || piece >= PIECES_MAX {
                true => bytes.len(),
                false => bytes.len().min(1 + self.rng.index(pieces_of)),
            };
            let (head, rest) = bytes.split_at(len);
            self.put(Segment::Bytes(head.to_vec()), now);
            bytes = rest;
        }
    }

    fn put(&mut self, segment: Segment, now: Micros) {
        let len = match &segment {
            Segment::Bytes(bytes) => bytes.len(),
            Segment::Finish | Segment::Reset => 0,
        };
        let passing_us = (len as u64).saturating_mul(1_000) / self.spec.bytes_per_ms.max(1);
        let way = self.spec.latency_us + self.rng.below(self.spec.jitter_us + 1);
        let at = (now + way).max(self.last_arrival) + passing_us;
        self.last_arrival = at;
        self.under_way_len += len;
        self.under_way.push_back((at, segment));
    }

    pub(super) fn finish(&mut self, now: Micros) {
        self.is_finished = true;
        self.flush(now);
    }

    fn seal(&mut self, segment: Segment, now: Micros) {
        if !self.is_sealed {
            self.is_sealed = true;
            self.put(segment, now);
        }
    }

    /// A reset that comes behind what was written.
    pub(super) fn reset_behind(&mut self, now: Micros) {
        self.is_finished = true;
        self.backlog.clear();
        self.seal(Segment::Reset, now);
    }

    /// A reset instead of what is under way.
    pub(super) fn reset(&mut self, now: Micros) {
        // A reset is heard behind an end as well: what is written then is refused.
        let has_ended = self.ending == Ending::Reset;
        self.is_finished = true;
        self.is_sealed = true;
        self.backlog.clear();
        self.under_way.clear();
        self.under_way_len = 0;
        if !has_ended {
            self.last_arrival = now;
            self.put(Segment::Reset, now);
        }
    }

    pub(super) fn stall(&mut self, until: Micros) {
        self.stalled_until = self.stalled_until.max(until);
    }

    pub(super) fn next_arrival(&self) -> Option<Micros> {
        self.under_way.front().map(|(at, _)| (*at).max(self.stalled_until))
    }

    /// The next segment that has arrived by now.
    pub(super) fn arrived(&mut self, now: Micros) -> Option<Segment> {
        if self.next_arrival()? > now {
            return None;
        }
        let (_, segment) = self.under_way.pop_front()?;
        match &segment {
            Segment::Bytes(bytes) => {
                self.under_way_len -= bytes.len();
                if !self.is_deaf {
                    self.received.extend(bytes);
                }
            }
            Segment::Finish => self.ending = Ending::Finished,
            Segment::Reset => self.ending = Ending::Reset,
        }
        Some(segment)
    }

    pub(super) fn read(&mut self, max: usize) -> ReadBytes {
        let len = self.received.len().min(max);
        if len > 0 {
            return ReadBytes::Some(self.received.drain(..len).collect());
        }
        match self.ending {
            Ending::Open => ReadBytes::Nothing,
            Ending::Finished => ReadBytes::End,
            Ending::Reset => ReadBytes::Reset,
        }
    }

    pub(super) fn take_wish_for_room(&mut self) -> bool {
        let has_room = self.under_way_len + self.received.len() <= self.spec.window / 2;
        has_room && std::mem::take(&mut self.wishes_room)
    }

    pub(super) fn go_deaf(&mut self) {
        self.is_deaf = true;
        self.received.clear();
    }

    pub(super) fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    pub(super) fn has_unread(&self) -> bool {
        !self.received.is_empty()
    }

    pub(super) fn unread_len(&self) -> usize {
        self.received.len() + self.under_way_len + self.backlog.len()
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.received.is_empty() || self.has_ended()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ending != Ending::Open
    }

    pub(super) fn was_reset(&self) -> bool {
        self.ending == Ending::Reset
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Nothing will come any more, and nobody would read it.
    pub(super) fn is_over(&self) -> bool {
        self.is_deaf && self.has_ended() && self.under_way.is_empty()
    }
}
