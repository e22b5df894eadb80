//! Bytes on their way to a socket, in buffers that belong to the worker.

use std::{collections::VecDeque, sync::Arc};

use trunkline_protocol::response::{Relay, ReplyFormat, ResponseShape};

/// Buffers lent to sockets while they have bytes in flight. An idle socket holds none.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
}

/// Buffers, and relays, kept for reuse; more than that go back to the allocator.
const FREE_MAX: usize = 256;
/// A buffer that grew beyond this is not kept, bytes.
const KEPT_CAPACITY_MAX: usize = 64 * 1024;

impl Buffers {
    /// An empty buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, mut buf: Vec<u8>) {
        if buf.capacity() != 0 && buf.capacity() <= KEPT_CAPACITY_MAX && self.free.len() < FREE_MAX
        {
            buf.clear();
            self.free.push(buf);
        }
    }
}

/// Relays whose responses have ended, for those to come: one is not copied then when its command
/// is sent, nor when its response has ended.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    free: Vec<Box<Relay>>,
}

/// A relay that has gathered more than this is not kept, bytes.
const KEPT_RELAY_MAX: usize = 4 * 1024;

impl Relays {
    /// Puts a relay into a box.
    #[inline]
    pub(crate) fn hold(&mut self, relay: Relay) -> Box<Relay> {
        match self.free.pop() {
            Some(mut free) => {
                *free = relay;
                free
            }
            None => Box::new(relay),
        }
    }

    /// A relay as [`Relay::new`] makes it.
    #[inline]
    pub(crate) fn take(
        &mut self,
        shape: ResponseShape,
        server: ReplyFormat,
        client: ReplyFormat,
        deliver: bool,
    ) -> Box<Relay> {
        match self.free.pop() {
            Some(mut free) => {
                free.renew(shape, server, client, deliver);
                free
            }
            None => Box::new(Relay::new(shape, server, client, deliver)),
        }
    }

    /// Takes one back whose response has ended.
    pub(crate) fn give(&mut self, relay: Box<Relay>) {
        if self.free.len() < FREE_MAX && relay.held() <= KEPT_RELAY_MAX {
            self.free.push(relay);
        }
    }
}

/// Bytes that wait to be written to one socket.
#[derive(Debug, Default)]
pub struct Outbox {
    buf: Vec<u8>,
    /// A long command behind what is in `buf`.
    whole: Option<Box<Whole>>,
    /// Bytes at the front of `buf` that the kernel has taken.
    written: usize,
    /// Bytes taken by the kernel since the connection began.
    written_total: u64,
    pub(crate) is_listed: bool,
}

/// A long command on its way, in the buffer that its statement has too.
#[derive(Debug)]
struct Whole {
    bytes: Arc<Vec<u8>>,
    /// How many of them the kernel has taken.
    written: usize,
}

impl Outbox {
    /// The bytes to write next: not all that wait, where a long command is among them.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        let own = self.buf.get(self.written..).unwrap_or_default();
        match &self.whole {
            Some(whole) if own.is_empty() => whole.bytes.get(whole.written..).unwrap_or_default(),
            Some(_) | None => own,
        }
    }

    /// Whether everything was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written >= self.buf.len() && self.whole.is_none()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        let whole = self.whole.as_deref().map_or(0, |whole| whole.bytes.len() - whole.written);
        self.buf.len().saturating_sub(self.written) + whole
    }

    /// Appends a long command without a copy of it.
    pub(crate) fn append_whole(&mut self, bytes: Arc<Vec<u8>>, buffers: &mut Buffers) {
        self.copy_whole(buffers);
        self.whole = Some(Box::new(Whole { bytes, written: 0 }));
    }

    /// Something is to be appended behind a long command: that is copied.
    #[cold]
    fn copy_whole(&mut self, buffers: &mut Buffers) {
        if let Some(whole) = self.whole.take() {
            let rest = whole.bytes.get(whole.written..).unwrap_or_default();
            self.buf(buffers).extend_from_slice(rest);
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.buf.capacity()
    }

    /// Position in the stream of bytes, counted from the connection's begin, that the next
    /// appended byte will have.
    pub(crate) fn position(&self) -> u64 {
        self.written_total + self.len() as u64
    }

    /// Bytes that the kernel has taken since the connection began.
    pub(crate) fn written_total(&self) -> u64 {
        self.written_total
    }

    /// Where to append. The buffer may hold bytes that were written already: append only.
    pub(crate) fn buf(&mut self, buffers: &mut Buffers) -> &mut Vec<u8> {
        if self.whole.is_some() {
            self.copy_whole(buffers);
        }
        if self.buf.capacity() == 0 {
            self.buf = buffers.take();
        }
        &mut self.buf
    }

    /// The kernel took the first `len` pending bytes.
    #[inline]
    pub(crate) fn advance(&mut self, len: usize, buffers: &mut Buffers) {
        debug_assert!(len <= self.pending().len());
        self.written_total += len as u64;
        if self.whole.is_some() && self.written >= self.buf.len() {
            return self.advance_whole(len);
        }
        self.written += len;
        if self.written >= self.buf.len() {
            self.written = 0;
            buffers.give(std::mem::take(&mut self.buf));
        } else if self.written > KEPT_CAPACITY_MAX.max(self.len()) {
            // What is moved is no more than what was written since the last time.
            self.buf.drain(..self.written);
            self.written = 0;
        }
    }

    #[cold]
    fn advance_whole(&mut self, len: usize) {
        let Some(whole) = &mut self.whole else { return };
        whole.written += len;
        if whole.written >= whole.bytes.len() {
            self.whole = None;
        }
    }

    /// Overwrites the first `len` pending bytes, which the kernel has taken.
    pub(crate) fn wipe(&mut self, len: usize) {
        let end = self.written.saturating_add(len);
        if let Some(bytes) = self.buf.get_mut(self.written..end) {
            trunkline_topology::wipe(bytes);
        }
    }

    /// Takes the last `len` bytes back, of which none was written.
    pub(crate) fn take_back(&mut self, len: usize) {
        debug_assert!(self.whole.is_none() && len <= self.len());
        self.buf.truncate(self.buf.len().saturating_sub(len).max(self.written));
    }

    /// Drops what waits.
    pub(crate) fn discard(&mut self, buffers: &mut Buffers) {
        self.written = 0;
        self.whole = None;
        buffers.give(std::mem::take(&mut self.buf));
    }
}

/// Sockets that were written to in this batch, each once.
#[derive(Debug)]
pub(crate) struct Dirty<S>(pub(crate) VecDeque<S>);

impl<S> Default for Dirty<S> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 MiB in writes of 64 KiB: moving the rest each time would be 30 GB.
    #[test]
    fn a_long_outbox_is_written_in_linear_time() {
        let (mut buffers, mut outbox) = (Buffers::default(), Outbox::default());
        let (step, len) = (KEPT_CAPACITY_MAX + 1, 64 << 20);
        outbox.buf(&mut buffers).resize(len, b'x');
        let (mut moves, mut before) = (0, 0);
        while outbox.len() > step {
            outbox.advance(step, &mut buffers);
            moves += u32::from(outbox.written < before);
            before = outbox.written;
            assert!(outbox.buf.len() <= 2 * (outbox.len() + step));
        }
        assert!(moves < 12, "{moves}");
        outbox.advance(outbox.len(), &mut buffers);
        assert_eq!(outbox.written_total(), len as u64);
    }

    #[test]
    fn an_outbox_that_is_empty_holds_no_buffer() {
        let mut buffers = Buffers::default();
        let mut outbox = Outbox::default();
        outbox.buf(&mut buffers).extend_from_slice(b"hello");
        outbox.advance(2, &mut buffers);
        assert_eq!(outbox.pending(), b"llo");
        outbox.buf(&mut buffers).extend_from_slice(b"!");
        assert_eq!((outbox.len(), outbox.position()), (4, 6));
        outbox.advance(4, &mut buffers);
        assert!(outbox.is_empty());
        assert_eq!((outbox.buf.capacity(), buffers.free.len()), (0, 1));
        assert_eq!(outbox.written_total(), 6);
    }
}
