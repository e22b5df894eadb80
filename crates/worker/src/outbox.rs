//! Bytes on their way to a socket, in buffers that belong to the worker.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use trunkline_protocol::{
    codec::frame::Sink,
    response::{Relay, ReplyFormat, ResponseShape},
};

use crate::clients::frames::place_in;

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
    /// What comes behind `buf`, where a long command is among it.
    behind: Option<Box<Behind>>,
    /// Bytes at the front of `buf` that the kernel has taken.
    written: usize,
    /// Bytes taken by the kernel since the connection began.
    written_total: u64,
    pub(crate) is_listed: bool,
}

/// Long commands on their way, and what comes between and behind them.
#[derive(Debug, Default)]
struct Behind {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that the kernel has taken.
    written: usize,
}

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    /// A part of a long command, in the buffer that its statement has too.
    Lent(Arc<Vec<u8>>, Range<usize>),
    /// A part of long query attributes, which its statement has too.
    Attributes(Arc<[u8]>, Range<usize>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Lent(bytes, range) => bytes.get(range.clone()).unwrap_or_default(),
            Self::Attributes(bytes, range) => bytes.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl Behind {
    #[cold]
    fn pending(&self) -> &[u8] {
        let first = self.pieces.front().map(Piece::bytes).unwrap_or_default();
        first.get(self.written..).unwrap_or_default()
    }

    #[cold]
    fn len(&self) -> usize {
        let whole: usize = self.pieces.iter().map(|piece| piece.bytes().len()).sum();
        whole - self.written
    }

    /// Bytes of memory of its own.
    #[cold]
    fn held(&self) -> usize {
        let own = |piece: &Piece| match piece {
            Piece::Own(bytes) => bytes.capacity(),
            Piece::Lent(..) | Piece::Attributes(..) => 0,
        };
        self.pieces.iter().map(own).sum()
    }

    /// Where to append.
    #[cold]
    fn last(&mut self, buffers: &mut Buffers) -> &mut Vec<u8> {
        if !matches!(self.pieces.back(), Some(Piece::Own(_))) {
            self.pieces.push_back(Piece::Own(buffers.take()));
        }
        match self.pieces.back_mut() {
            Some(Piece::Own(bytes)) => bytes,
            Some(Piece::Lent(..) | Piece::Attributes(..)) | None => unreachable!("one was pushed"),
        }
    }

    /// The kernel took the first `len` pending bytes, which are of one piece.
    fn advance(&mut self, len: usize, buffers: &mut Buffers) {
        self.written += len;
        if self.pieces.front().is_some_and(|first| self.written < first.bytes().len()) {
            return;
        }
        self.written = 0;
        if let Some(Piece::Own(bytes)) = self.pieces.pop_front() {
            buffers.give(bytes);
        }
    }
}

impl Outbox {
    /// The bytes to write next: not all that wait, where a long command is among them.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        let own = self.buf.get(self.written..).unwrap_or_default();
        match &self.behind {
            Some(behind) if own.is_empty() => behind.pending(),
            Some(_) | None => own,
        }
    }

    /// Whether everything was written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written >= self.buf.len() && self.behind.is_none()
    }

    /// Bytes that wait.
    #[inline]
    pub fn len(&self) -> usize {
        let behind = self.behind.as_deref().map_or(0, Behind::len);
        self.buf.len().saturating_sub(self.written) + behind
    }

    /// Appends a part of a long command without a copy of it.
    fn append_lent(&mut self, piece: Piece) {
        if !piece.bytes().is_empty() {
            self.behind.get_or_insert_default().pieces.push_back(piece);
        }
    }

    /// Bytes of memory that it holds, but for those of long commands.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.buf.capacity() + self.behind.as_deref().map_or(0, Behind::held)
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
    #[inline]
    pub(crate) fn buf(&mut self, buffers: &mut Buffers) -> &mut Vec<u8> {
        if let Some(behind) = &mut self.behind {
            return behind.last(buffers);
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
        if self.behind.is_some() && self.written >= self.buf.len() {
            return self.advance_behind(len, buffers);
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
    fn advance_behind(&mut self, len: usize, buffers: &mut Buffers) {
        let Some(behind) = &mut self.behind else { return };
        behind.advance(len, buffers);
        if behind.pieces.is_empty() {
            self.behind = None;
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
        debug_assert!(self.behind.is_none() && len <= self.len());
        self.buf.truncate(self.buf.len().saturating_sub(len).max(self.written));
    }

    /// Drops what waits.
    pub(crate) fn discard(&mut self, buffers: &mut Buffers) {
        self.written = 0;
        self.behind = None;
        buffers.give(std::mem::take(&mut self.buf));
    }
}

/// Where commands are appended to.
pub(crate) struct Way<'a> {
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) buffers: &'a mut Buffers,
}

/// Appends a command to an outbox without a copy of what is long in it.
pub(crate) struct Lending<'a> {
    way: Way<'a>,
    /// The buffer that its statement has too.
    whole: Option<&'a Arc<Vec<u8>>>,
    /// Its query attributes, which its statement has too.
    attributes: Option<&'a Arc<[u8]>>,
}

impl Way<'_> {
    /// Where to append what is short.
    pub(crate) fn buf(&mut self) -> &mut Vec<u8> {
        self.outbox.buf(self.buffers)
    }

    /// Where to append what is in this buffer, for the most part.
    pub(crate) fn lending<'a>(&'a mut self, whole: &'a Arc<Vec<u8>>) -> Lending<'a> {
        self.lending_both(Some(whole), None)
    }

    /// Where to append what is in this buffer, or in these query attributes, for the most part.
    pub(crate) fn lending_both<'a>(
        &'a mut self,
        whole: Option<&'a Arc<Vec<u8>>>,
        attributes: Option<&'a Arc<[u8]>>,
    ) -> Lending<'a> {
        let way = Way { outbox: &mut *self.outbox, buffers: &mut *self.buffers };
        Lending { way, whole, attributes }
    }
}

/// Fewer bytes than these are copied.
pub(crate) const LENT_LEN_MIN: usize = 16 * 1024;

impl Lending<'_> {
    /// These bytes where they are, if they are of what is lent and long.
    fn piece_of(&self, bytes: &[u8]) -> Option<Piece> {
        if bytes.len() < LENT_LEN_MIN {
            return None;
        }
        let in_whole = self.whole.and_then(|whole| {
            place_in(whole, bytes).map(|range| Piece::Lent(Arc::clone(whole), range))
        });
        in_whole.or_else(|| {
            let attributes = self.attributes?;
            let range = place_in(attributes, bytes)?;
            Some(Piece::Attributes(Arc::clone(attributes), range))
        })
    }
}

impl Sink for Lending<'_> {
    fn put(&mut self, bytes: &[u8]) {
        match self.piece_of(bytes) {
            Some(piece) => self.way.outbox.append_lent(piece),
            None => self.way.buf().extend_from_slice(bytes),
        }
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
    fn what_is_lent_is_written_in_its_place_and_not_copied() {
        let (mut buffers, mut outbox) = (Buffers::default(), Outbox::default());
        let whole = Arc::new((0..100_000_u32).map(|at| at.to_le_bytes()[0]).collect::<Vec<u8>>());
        outbox.buf(&mut buffers).extend_from_slice(b"before");
        let mut way = Way { outbox: &mut outbox, buffers: &mut buffers };
        let parts = [&whole[..5], &whole[5..40_000], b"between", &whole[40_000..]];
        parts.iter().for_each(|part| way.lending(&whole).put(part));
        outbox.buf(&mut buffers).extend_from_slice(b"behind");
        assert_eq!(Arc::strong_count(&whole), 3);
        assert!(outbox.held() < 1_000);
        let expected = [b"before", parts[0], parts[1], parts[2], parts[3], b"behind"].concat();
        assert_eq!((outbox.len(), outbox.position()), (expected.len(), expected.len() as u64));
        let mut written = Vec::new();
        while !outbox.is_empty() {
            let len = outbox.pending().len().min(30_000);
            written.extend_from_slice(&outbox.pending()[..len]);
            outbox.advance(len, &mut buffers);
        }
        assert_eq!(written, expected);
        assert_eq!((Arc::strong_count(&whole), outbox.len()), (1, 0));
        // Bytes of the same length elsewhere are none of it.
        let other = whole.to_vec();
        Way { outbox: &mut outbox, buffers: &mut buffers }.lending(&whole).put(&other);
        assert_eq!((Arc::strong_count(&whole), outbox.len()), (1, other.len()));
    }

    #[test]
    fn long_attributes_are_written_in_their_place_and_not_copied() {
        let (mut buffers, mut outbox) = (Buffers::default(), Outbox::default());
        let attributes: Arc<[u8]> = vec![b'a'; 2 * LENT_LEN_MIN].into();
        let mut way = Way { outbox: &mut outbox, buffers: &mut buffers };
        let mut lending = way.lending_both(None, Some(&attributes));
        lending.put(b"head");
        lending.put(&attributes[1..]);
        lending.put(&attributes[..9]);
        assert_eq!(Arc::strong_count(&attributes), 2, "short parts are copied");
        assert!(outbox.held() < 1_000);
        assert_eq!(outbox.len(), 4 + attributes.len() - 1 + 9);
        outbox.discard(&mut buffers);
        assert_eq!(Arc::strong_count(&attributes), 1);
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
