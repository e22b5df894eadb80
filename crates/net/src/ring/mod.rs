//! Receiving by io_uring: each connected socket is asked for its bytes once, and the kernel puts
//! what comes into buffers of the worker, without a call for each socket.
//!
//! A socket's requests name it by its file descriptor only at the moment in which they are handed
//! to the kernel, in [`Ring::wait`], and never after its stream was dropped: a number that is used
//! again can't be taken for the one before.

mod buffers;
mod slot;
#[cfg(test)]
mod tests;
mod writes;

use std::{
    io,
    os::fd::RawFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{CancelBuilder, Fd, SubmitArgs, Timespec},
};
use slab::Slab;

use self::{
    buffers::Buffers,
    slot::{Piece, Slot, State},
    writes::Writes,
};
use crate::{Event, Token};

/// Requests that are handed over at once; more take another call.
const REQUESTS: u32 = 256;
/// Answers that the kernel keeps until they are looked at; beyond, it keeps them elsewhere.
const COMPLETIONS: u32 = 4_096;

/// Marks of requests that are no socket's.
const OTHERS: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;
/// Marks of writes: this and their place.
const WRITE: u64 = 1 << 62;

/// `ENOBUFS` and `ECANCELED`, which have no kinds of their own.
const NO_BUFFERS: i32 = 105;
const CANCELED: i32 = 125;
/// `POLLIN`.
const READABLE: u32 = 1;

/// A stream's place in a ring. Dropping it ends what the kernel does for the stream.
#[derive(Debug)]
pub(crate) struct Seat {
    key: usize,
    left: Left,
}

/// Keys of streams that were dropped, by whatever thread.
type Left = Arc<Mutex<Vec<usize>>>;

impl Drop for Seat {
    fn drop(&mut self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
    }
}

/// What a stream takes along to another worker.
#[derive(Debug, Default)]
pub(crate) struct Luggage {
    /// Bytes that came and were not read.
    pub bytes: Vec<u8>,
}

impl Luggage {
    /// Takes bytes out, if there are any.
    pub(crate) fn take(&mut self, buf: &mut [u8]) -> Option<usize> {
        if self.bytes.is_empty() {
            return None;
        }
        Some(slot::take(&mut self.bytes, buf))
    }
}

/// One worker's ring.
pub(crate) struct Ring {
    // In this order: the kernel must have ended before the memory that it writes to.
    uring: IoUring,
    buffers: Buffers,
    writes: Writes,
    slots: Slab<Slot>,
    /// Sockets to be asked at the next wait.
    asking: Vec<usize>,
    /// Sockets to be asked no more, at the next wait.
    cancelling: Vec<usize>,
    /// Sockets with something new, for the next events.
    ready: Vec<usize>,
    /// Sockets that the last events named.
    shown: Vec<usize>,
    /// Room for the kernel's answers.
    answers: Vec<cqueue::Entry>,
    left: Left,
    /// Where the other sockets are waited for.
    others: RawFd,
    others_are_asked: bool,
    others_are_ready: bool,
}

impl Ring {
    /// A ring for the thread that calls, which looks at another poller's descriptor too.
    ///
    /// # Errors
    /// The kernel's reason why there is none to be had.
    pub(crate) fn open(others: RawFd) -> io::Result<Self> {
        let uring = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(REQUESTS)?;
        if !uring.params().is_feature_ext_arg() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let buffers = Buffers::register(&uring.submitter())?;
        Ok(Self {
            uring,
            buffers,
            writes: Writes::new(),
            slots: Slab::new(),
            asking: Vec::new(),
            cancelling: Vec::new(),
            ready: Vec::new(),
            shown: Vec::new(),
            answers: Vec::new(),
            left: Left::default(),
            others,
            others_are_asked: false,
            others_are_ready: false,
        })
    }

    /// Takes a connected stream in. Its descriptor stays open as long as the seat is held.
    pub(crate) fn seat(&mut self, fd: RawFd, token: Token, luggage: Luggage) -> Seat {
        let key = self.slots.insert(Slot::new(fd, token, luggage.bytes));
        if self.slots.get(key).is_some_and(Slot::has_bytes) {
            self.show(key);
        }
        self.ask(key);
        Seat { key, left: Arc::clone(&self.left) }
    }

    /// Ends a stream's stay; what it has not read goes with it.
    pub(crate) fn unseat(&mut self, seat: &Seat) -> io::Result<Luggage> {
        let is_asked =
            |ring: &Self| ring.slots.get(seat.key).is_some_and(|slot| slot.state != State::Resting);
        if is_asked(self) {
            let mark = CancelBuilder::user_data(seat.key as u64);
            match self.uring.submitter().register_sync_cancel(None, mark) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            while is_asked(self) {
                self.look()?;
            }
        }
        let Some(slot) = self.slots.get_mut(seat.key) else {
            return Ok(Luggage::default());
        };
        slot.put_aside(&mut self.buffers);
        Ok(Luggage { bytes: slot.take_aside() })
    }

    /// The token of a seated stream.
    pub(crate) fn token(&self, seat: &Seat) -> Option<Token> {
        self.slots.get(seat.key).map(|slot| slot.token)
    }

    /// Takes bytes that came, as reading a socket does: 0 at the end, and `WouldBlock`.
    pub(crate) fn read(&mut self, seat: &Seat, buf: &mut [u8]) -> io::Result<usize> {
        let Some(slot) = self.slots.get_mut(seat.key) else {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        };
        let result = slot.read(buf, &mut self.buffers);
        if slot.may_be_asked() {
            self.ask(seat.key);
        }
        result
    }

    /// Waits until something happens or the time is over, and tells what. True when the other
    /// poller has something.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<bool> {
        self.let_go();
        self.put_aside();
        self.submit()?;
        let is_ready = !self.ready.is_empty() || self.others_are_ready;
        let timeout = if is_ready { Some(Duration::ZERO) } else { timeout };
        self.enter(timeout)?;
        self.complete();
        self.shown.clear();
        std::mem::swap(&mut self.shown, &mut self.ready);
        for key in &self.shown {
            if let Some(slot) = self.slots.get_mut(*key) {
                slot.is_shown = false;
                events.extend(slot.event());
            }
        }
        Ok(std::mem::take(&mut self.others_are_ready))
    }

    /// Takes what has come up to now, without waiting.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.enter(Some(Duration::ZERO))?;
        self.complete();
        Ok(())
    }

    /// Takes a copy of bytes for a socket, to be written by the next [`flush`](Self::flush), which
    /// must come before the socket can close; false when they have to be written by themselves.
    pub(crate) fn add_write(&mut self, fd: RawFd, bytes: &[u8]) -> bool {
        self.writes.add(fd, bytes)
    }

    /// Writes what was added by one call; what came of each, in their order.
    ///
    /// # Errors
    /// The ring is of no further use.
    pub(crate) fn flush(&mut self, results: &mut Vec<io::Result<usize>>) -> io::Result<()> {
        for place in 0..self.writes.begin() {
            let request = self.writes.request(place).ok_or(io::ErrorKind::InvalidInput)?;
            self.push(&request.user_data(WRITE | place as u64))?;
        }
        if self.writes.are_under_way() {
            self.uring.submit()?;
            self.complete();
        }
        // The kernel answers at once, as nothing may wait; it is asked again to be sure.
        while self.writes.are_under_way() {
            self.look()?;
        }
        self.writes.take_results(results);
        Ok(())
    }

    /// The other poller had more than it could tell.
    pub(crate) fn others_have_more(&mut self) {
        self.others_are_ready = true;
    }

    fn ask(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key)
            && !std::mem::replace(&mut slot.is_listed, true)
        {
            self.asking.push(key);
        }
    }

    fn show(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key)
            && !std::mem::replace(&mut slot.is_shown, true)
        {
            self.ready.push(key);
        }
    }

    /// Ends what is done for streams that were dropped.
    fn let_go(&mut self) {
        let left = Arc::clone(&self.left);
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        for key in left.drain(..) {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            slot.drop_bytes(&mut self.buffers);
            slot.is_closed = true;
            match slot.state {
                State::Resting => drop(self.slots.try_remove(key)),
                State::Asked => self.cancelling.push(key),
                State::Cancelled => {}
            }
        }
    }

    /// Who has not read what was shown is asked no more until it has: its bytes leave the buffers,
    /// which are everybody's.
    fn put_aside(&mut self) {
        for key in std::mem::take(&mut self.shown) {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            if slot.put_aside(&mut self.buffers) && slot.state == State::Asked {
                self.cancelling.push(key);
            }
        }
    }

    /// Hands all requests to the kernel.
    fn submit(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.others_are_asked, true) {
            let request = opcode::PollAdd::new(Fd(self.others), READABLE).multi(true);
            self.push(&request.build().user_data(OTHERS))?;
        }
        let mut cancelling = std::mem::take(&mut self.cancelling);
        for key in cancelling.drain(..) {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            if slot.state != State::Asked {
                continue;
            }
            slot.state = State::Cancelled;
            let request = opcode::AsyncCancel::new(key as u64).build().user_data(CANCEL);
            self.push(&request)?;
        }
        self.cancelling = cancelling;
        let mut asking = std::mem::take(&mut self.asking);
        for key in asking.drain(..) {
            let Some(slot) = self.slots.get_mut(key) else { continue };
            slot.is_listed = false;
            if !slot.may_be_asked() {
                continue;
            }
            slot.state = State::Asked;
            let request = opcode::RecvMulti::new(Fd(slot.fd), buffers::GROUP);
            self.push(&request.build().user_data(key as u64))?;
        }
        self.asking = asking;
        Ok(())
    }

    fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: a request has a pointer only into `writes`, which live as long as the ring,
            // stay where they are, and are filled again only when none is under way. Descriptors
            // are open: that of `others` lives with the poller, streams that were dropped were let
            // go before, and `add_write` asks its caller to see to it.
            let pushed = unsafe { self.uring.submission().push(request) };
            match pushed {
                Ok(()) => return Ok(()),
                Err(_) => self.uring.submit()?,
            };
        }
    }

    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let result = match timeout {
            Some(time) => {
                let time = Timespec::from(time);
                let args = SubmitArgs::new().timespec(&time);
                self.uring.submitter().submit_with_args(1, &args)
            }
            None => self.uring.submit_and_wait(1),
        };
        match result {
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                // ETIME is TimedOut; EBUSY asks to take answers first.
                io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted
                | io::ErrorKind::ResourceBusy => Ok(()),
                _ if error.raw_os_error() == Some(62) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes the kernel's answers.
    fn complete(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(self.uring.completion());
        for answer in answers.drain(..) {
            match answer.user_data() {
                OTHERS => {
                    self.others_are_ready = true;
                    self.others_are_asked = cqueue::more(answer.flags());
                }
                CANCEL => {}
                mark if mark & WRITE != 0 => {
                    let place = usize::try_from(mark & !WRITE).unwrap_or(usize::MAX);
                    self.writes.done(place, answer.result());
                }
                key => self.received(usize::try_from(key).unwrap_or(usize::MAX), &answer),
            }
        }
        self.answers = answers;
    }

    fn received(&mut self, key: usize, answer: &cqueue::Entry) {
        let buffer = cqueue::buffer_select(answer.flags());
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        match (usize::try_from(answer.result()), buffer) {
            (Ok(len), Some(number)) if len > 0 && !slot.is_closed => {
                slot.pieces.push_back(Piece { number, begin: 0, end: len });
            }
            (len, Some(number)) => self.buffers.give_back(number, len.unwrap_or_default()),
            (_, None) => {}
        }
        if answer.result() <= 0 {
            slot.ended(answer.result());
        }
        if !cqueue::more(answer.flags()) {
            slot.state = State::Resting;
            if slot.is_closed {
                drop(self.slots.try_remove(key));
                return;
            }
            if slot.may_be_asked() {
                self.ask(key);
            }
        }
        if self.slots.get(key).is_some_and(Slot::has_news) {
            self.show(key);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The buffers go when nothing is written to them any more.
        let _ = self.uring.submitter().register_sync_cancel(None, CancelBuilder::any());
    }
}
