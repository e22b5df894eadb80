//! One socket in a ring: what has come and was not read yet.

use std::{collections::VecDeque, io, os::fd::RawFd};

use super::{CANCELED, NO_BUFFERS, buffers::Buffers};
use crate::{Event, Token};

/// What the kernel does for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    Resting,
    /// It receives, until it says that it has ended.
    Asked,
    /// It was told to end, and has not said yet that it has.
    Cancelled,
}

/// Bytes in one buffer.
#[derive(Debug)]
pub(super) struct Piece {
    pub number: u16,
    pub begin: usize,
    pub end: usize,
}

/// How a socket ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Closed,
    Failed(i32),
}

/// One socket.
#[derive(Debug)]
pub(super) struct Slot {
    pub fd: RawFd,
    pub token: Token,
    pub state: State,
    /// Its stream was dropped: what still comes is nobody's.
    pub is_closed: bool,
    /// Among those to be asked.
    pub is_listed: bool,
    /// Among those with something new.
    pub is_shown: bool,
    /// What came longest ago, out of the buffers.
    aside: Vec<u8>,
    /// And what came then.
    pub pieces: VecDeque<Piece>,
    end: Option<End>,
}

impl Slot {
    pub(super) fn new(fd: RawFd, token: Token, aside: Vec<u8>) -> Self {
        Self {
            fd,
            token,
            state: State::Resting,
            is_closed: false,
            is_listed: false,
            is_shown: false,
            aside,
            pieces: VecDeque::new(),
            end: None,
        }
    }

    pub(super) fn has_bytes(&self) -> bool {
        !self.aside.is_empty() || !self.pieces.is_empty()
    }

    pub(super) fn has_news(&self) -> bool {
        self.has_bytes() || self.end.is_some()
    }

    /// Whether it is time to ask for more.
    pub(super) fn may_be_asked(&self) -> bool {
        self.state == State::Resting && !self.is_closed && !self.has_news()
    }

    pub(super) fn event(&self) -> Option<Event> {
        let ended = self.end.is_some();
        let event = Event { token: self.token, readable: true, writable: false, ended };
        (!self.is_closed && self.has_news()).then_some(event)
    }

    pub(super) fn read(&mut self, buf: &mut [u8], buffers: &mut Buffers) -> io::Result<usize> {
        let mut len = 0;
        if !self.aside.is_empty() {
            len = take(&mut self.aside, buf);
        }
        while let Some(piece) = self.pieces.front_mut()
            && let Some(room) = buf.get_mut(len..).filter(|room| !room.is_empty())
        {
            let bytes = buffers.filled(piece.number, piece.end);
            let copied = copy(bytes.get(piece.begin..).unwrap_or_default(), room);
            piece.begin += copied;
            len += copied;
            if piece.begin == piece.end || copied == 0 {
                buffers.give_back(piece.number, piece.end);
                self.pieces.pop_front();
            }
        }
        match self.end {
            _ if len > 0 => Ok(len),
            Some(End::Closed) => Ok(0),
            Some(End::Failed(code)) => {
                // Told once, as a socket does.
                self.end = Some(End::Closed);
                Err(io::Error::from_raw_os_error(code))
            }
            None => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        }
    }

    /// The kernel's word that came without bytes.
    pub(super) fn ended(&mut self, result: i32) {
        match -result {
            0 => self.end = Some(End::Closed),
            NO_BUFFERS | CANCELED => {}
            code => self.end = Some(End::Failed(code)),
        }
    }

    /// Moves what was not read out of the buffers; whether there is anything.
    pub(super) fn put_aside(&mut self, buffers: &mut Buffers) -> bool {
        for piece in self.pieces.drain(..) {
            let bytes = buffers.filled(piece.number, piece.end);
            self.aside.extend_from_slice(bytes.get(piece.begin..).unwrap_or_default());
            buffers.give_back(piece.number, piece.end);
        }
        !self.aside.is_empty()
    }

    pub(super) fn take_aside(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.aside)
    }

    pub(super) fn drop_bytes(&mut self, buffers: &mut Buffers) {
        for piece in self.pieces.drain(..) {
            buffers.give_back(piece.number, piece.end);
        }
        self.aside = Vec::new();
    }
}

/// Takes what fits out of bytes that were put aside, and leaves nothing of it behind.
pub(super) fn take(aside: &mut Vec<u8>, to: &mut [u8]) -> usize {
    let len = copy(aside, to);
    if len == aside.len() {
        aside.fill(0);
        *aside = Vec::new();
    } else {
        aside.drain(..len);
    }
    len
}

/// Copies what fits; how much that was.
fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let len = from.len().min(to.len());
    if let (Some(from), Some(to)) = (from.get(..len), to.get_mut(..len)) {
        to.copy_from_slice(from);
    }
    len
}
