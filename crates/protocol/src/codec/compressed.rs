//! The compressed protocol: packets travel inside compressed packets, from the end of the login
//! on.
//!
//! | bytes | meaning |
//! |---|---|
//! | 3 | length of what follows this header, little-endian |
//! | 1 | sequence number of compressed packets, from 0 at each command, wraps at 256 |
//! | 3 | length once unpacked; 0 says that what follows is not compressed |
//! | n | a piece of the stream of packets, cut anywhere; a zlib stream or zstd frame of its own |
//!
//! Both ends count compressed packets together, as they do with packets: an answer's first one
//! bears the number after the command's last. The packets inside keep numbers of their own,
//! which real servers neither check nor number reliably.
//!
//! Sources: MySQL internals "Compression", MariaDB knowledge base "0 - Packet", and what both
//! servers do (`e2e/tests/compression.rs`).

use std::fmt;

use thiserror::Error;

use super::frame::{HEADER_LEN, PAYLOAD_MAX};

/// Bytes before what a compressed packet holds.
pub const COMPRESSED_HEADER_LEN: usize = 7;
/// What is shorter than this is sent as it is, bytes; both servers do so.
pub const COMPRESSED_MIN: usize = 50;
/// The most bytes of packets that [`Framing`] puts into one compressed packet.
pub const PIECE_MAX: usize = 64 * 1024;

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// zlib streams, packed with this level: 0 (not at all) to 9.
    Zlib(u8),
    /// zstd frames, packed with this level: 1 to 22.
    Zstd(u8),
}

/// Compression itself, which its user provides: libraries are no matter of the protocol.
pub trait Compressor {
    /// Appends `plain` compressed to `out` when that takes fewer bytes, and says whether it did.
    /// Otherwise `out` is as it was.
    fn compress(&mut self, method: Method, plain: &[u8], out: &mut Vec<u8>) -> bool;

    /// Appends what `packed` holds to `out`: at most `plain_max` bytes, and never more memory than
    /// that whatever `packed` says. After an error `out` may hold a part.
    fn decompress(
        &mut self,
        method: Method,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Corrupt>;

    /// Begins to unpack what comes in pieces.
    fn unpacking(&mut self, method: Method) -> Result<Box<dyn Unpacking>, Corrupt>;
}

/// One compressed packet that is unpacked a piece at a time, so that neither it nor what it holds
/// need be in memory as a whole.
pub trait Unpacking: fmt::Debug + Send {
    /// Takes bytes of `packed` and appends at most `plain_max` of what they hold to `out`.
    fn step(
        &mut self,
        packed: &[u8],
        plain_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Corrupt>;
}

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the packed ones that were taken.
    pub taken: usize,
    /// Whether what was packed is over.
    pub has_ended: bool,
}

/// Bytes that are not what their method makes, or are more than they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("compressed bytes that can't be unpacked")]
pub struct Corrupt;

/// A compressed packet that can't be taken. The connection is of no further use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unpackable {
    /// Its number is not the one that must come.
    #[error("a compressed packet out of order")]
    OutOfOrder,
    /// It is, or says that it unpacks to, more than is allowed.
    #[error("a compressed packet that is too large")]
    TooLarge,
    /// It does not unpack.
    #[error("a compressed packet that can't be unpacked")]
    Broken,
}

/// Which number the next compressed packet may have where a payload begins. Within a payload the
/// next one always has the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// 0: a command.
    Command,
    /// The number after the last one, whoever sent that: an answer to a question.
    Answer,
    /// Either of these.
    CommandOrAnswer,
    /// Any: an answer to one of several commands under way.
    Any,
}

/// One connection's compressed framing, both directions.
#[derive(Debug, Default)]
pub struct Framing {
    /// The number of the next compressed packet, whoever sends it.
    seq: u8,
    /// The number that goes on with a payload which comes in and has not ended. A number of its
    /// own: the next command may be sent meanwhile.
    within: Option<u8>,
    /// The compressed packet that is taken a piece at a time.
    open: Option<Open>,
    incoming: Walk,
    outgoing: Walk,
}

/// A compressed packet of which a part is still to be taken.
#[derive(Debug)]
struct Open {
    seq: u8,
    /// Bytes of it that are to come.
    left: usize,
    /// Bytes that it may still unpack to.
    plain_left: usize,
    /// Unpacks it; `None` for one that is not compressed.
    stream: Option<Box<dyn Unpacking>>,
    /// Whether all that it holds has been taken.
    has_ended: bool,
}

impl Framing {
    /// Takes the first compressed packet of `bytes`, or the next piece of one that is longer than
    /// [`PIECE_MAX`], and appends what it holds to `out`, at most `PIECE_MAX` bytes. Returns how
    /// many bytes were taken, perhaps none, or `None` when more bytes are needed.
    ///
    /// A packet may take and hold at most `plain_max` bytes. One that unpacks to less than it says
    /// is taken, as servers do.
    pub fn unpack(
        &mut self,
        bytes: &[u8],
        expected: Expected,
        plain_max: usize,
        method: Method,
        compressor: &mut dyn Compressor,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, Unpackable> {
        if self.open.is_some() {
            return self.go_on(bytes, out);
        }
        let Some(header) = Header::read(bytes) else {
            return Ok(None);
        };
        let is_expected = match expected {
            _ if self.within.is_some() => self.within == Some(header.seq),
            Expected::Command => header.seq == 0,
            Expected::Answer => header.seq == self.seq,
            Expected::CommandOrAnswer => header.seq == 0 || header.seq == self.seq,
            Expected::Any => true,
        };
        if !is_expected {
            // Whoever counts otherwise still reads the refusal.
            self.seq = header.seq.wrapping_add(1);
            return Err(Unpackable::OutOfOrder);
        }
        if header.len.max(header.plain_len) > plain_max {
            self.seq = header.seq.wrapping_add(1);
            return Err(Unpackable::TooLarge);
        }
        if header.len.max(header.plain_len) > PIECE_MAX {
            return self.open(header, method, compressor).map(Some);
        }
        let end = COMPRESSED_HEADER_LEN + header.len;
        let Some(held) = bytes.get(COMPRESSED_HEADER_LEN..end) else {
            return Ok(None);
        };
        self.seq = header.seq.wrapping_add(1);
        let start = out.len();
        match header.plain_len {
            0 => out.extend_from_slice(held),
            plain_len => compressor
                .decompress(method, held, plain_len, out)
                .map_err(|_| Unpackable::Broken)?,
        }
        let plain = out.get(start..).unwrap_or_default();
        debug_assert!(header.plain_len == 0 || plain.len() <= header.plain_len);
        self.incoming.pass(plain);
        self.end_packet(header.seq, plain.is_empty());
        Ok(Some(end))
    }

    /// Whether a compressed packet has been taken in part: it may hold more, though no byte of it
    /// is to come.
    pub fn is_unpacking(&self) -> bool {
        self.open.is_some()
    }

    /// Bytes that the packet which is being unpacked may have in the working memory of its library:
    /// never more than what it says that it holds.
    pub fn working_len(&self) -> usize {
        match &self.open {
            Some(Open { stream: Some(_), plain_left, .. }) => *plain_left,
            Some(Open { stream: None, .. }) | None => 0,
        }
    }

    /// Begins a packet that is taken a piece at a time.
    fn open(
        &mut self,
        header: Header,
        method: Method,
        compressor: &mut dyn Compressor,
    ) -> Result<usize, Unpackable> {
        self.seq = header.seq.wrapping_add(1);
        let (stream, plain_left) = match header.plain_len {
            0 => (None, header.len),
            plain_len => {
                let stream = compressor.unpacking(method).map_err(|_| Unpackable::Broken)?;
                (Some(stream), plain_len)
            }
        };
        let (seq, left) = (header.seq, header.len);
        self.open = Some(Open { seq, left, plain_left, stream, has_ended: false });
        Ok(COMPRESSED_HEADER_LEN)
    }

    /// Takes the next piece of the packet that was begun.
    fn go_on(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, Unpackable> {
        let Some(open) = self.open.as_mut() else { return Ok(None) };
        let start = out.len();
        let taken = open.step(bytes, out)?;
        let plain_len = out.len() - start;
        if taken == 0 && plain_len == 0 && !open.is_over() {
            // The library has taken everything and says nothing: what it says ends too early.
            return if open.left == 0 { Err(Unpackable::Broken) } else { Ok(None) };
        }
        let (is_over, seq) = (open.is_over(), open.seq);
        self.incoming.pass(out.get(start..).unwrap_or_default());
        if is_over {
            self.open = None;
            self.end_packet(seq, false);
        }
        Ok(Some(taken))
    }

    /// A packet has been taken to its end.
    fn end_packet(&mut self, seq: u8, was_empty: bool) {
        let is_within = was_empty || !self.incoming.is_between();
        self.within = is_within.then_some(seq.wrapping_add(1));
    }

    /// Appends `plain`, a piece of an answer, as compressed packets that follow the last one.
    pub fn pack_answer(
        &mut self,
        plain: &[u8],
        method: Method,
        compressor: &mut dyn Compressor,
        out: &mut Vec<u8>,
    ) {
        for piece in plain.chunks(PIECE_MAX) {
            self.put(piece, method, compressor, out);
        }
    }

    /// Appends `plain`, whole packets of one or more commands, as compressed packets. Each command
    /// begins a packet with number 0: servers forget what follows a command in the same packet.
    pub fn pack_commands(
        &mut self,
        mut plain: &[u8],
        method: Method,
        compressor: &mut dyn Compressor,
        out: &mut Vec<u8>,
    ) {
        while !plain.is_empty() {
            if self.outgoing.is_between() && plain.get(HEADER_LEN - 1) == Some(&0) {
                self.seq = 0;
            }
            let len = self.outgoing.clone().pass_one(plain).min(PIECE_MAX);
            let (piece, rest) = plain.split_at(len);
            self.outgoing.pass(piece);
            self.put(piece, method, compressor, out);
            plain = rest;
        }
    }

    fn put(
        &mut self,
        piece: &[u8],
        method: Method,
        compressor: &mut dyn Compressor,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(piece.len() <= PIECE_MAX);
        let start = out.len();
        out.extend_from_slice(&[0; COMPRESSED_HEADER_LEN]);
        let is_compressed =
            piece.len() >= COMPRESSED_MIN && compressor.compress(method, piece, out);
        if !is_compressed {
            out.extend_from_slice(piece);
        }
        let len = out.len() - start - COMPRESSED_HEADER_LEN;
        let plain_len = if is_compressed { piece.len() } else { 0 };
        let header = Header { len, seq: self.seq, plain_len };
        if let Some(place) = out.get_mut(start..start + COMPRESSED_HEADER_LEN) {
            place.copy_from_slice(&header.bytes());
        }
        self.seq = self.seq.wrapping_add(1);
    }
}

impl Open {
    /// Takes at most one piece; returns how many bytes of `bytes` that took.
    fn step(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Unpackable> {
        let own = bytes.get(..self.left.min(bytes.len())).unwrap_or_default();
        let taken = match &mut self.stream {
            // What stands behind the end of what is packed is nothing.
            Some(_) if self.has_ended => own.len(),
            Some(stream) => {
                let (start, max) = (out.len(), self.plain_left.min(PIECE_MAX));
                // One byte more than it may hold tells that it holds more.
                let progress = stream.step(own, max + 1, out).map_err(|_| Unpackable::Broken)?;
                let len = out.len() - start;
                self.plain_left = self.plain_left.checked_sub(len).ok_or(Unpackable::Broken)?;
                self.has_ended = progress.has_ended;
                progress.taken
            }
            None => {
                let piece = own.get(..own.len().min(PIECE_MAX)).unwrap_or_default();
                out.extend_from_slice(piece);
                piece.len()
            }
        };
        self.left -= taken;
        Ok(taken)
    }

    fn is_over(&self) -> bool {
        self.left == 0 && (self.has_ended || self.stream.is_none())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    len: usize,
    seq: u8,
    plain_len: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, seq, d, e, f] = *bytes.first_chunk::<COMPRESSED_HEADER_LEN>()?;
        let number = |a, b, c| usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        Some(Self { len: number(a, b, c), seq, plain_len: number(d, e, f) })
    }

    fn bytes(self) -> [u8; COMPRESSED_HEADER_LEN] {
        debug_assert!(self.len.max(self.plain_len) <= PAYLOAD_MAX);
        let [a, b, c, ..] = self.len.to_le_bytes();
        let [d, e, f, ..] = self.plain_len.to_le_bytes();
        [a, b, c, self.seq, d, e, f]
    }
}

/// Where a stream of packets, cut anywhere, stands.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    head: [u8; HEADER_LEN],
    head_len: usize,
    /// Bytes of the packet's payload to come.
    left: usize,
    /// Whether the payload goes on in the next packet.
    is_continued: bool,
}

impl Walk {
    /// Whether no payload is under way.
    pub fn is_between(&self) -> bool {
        self.head_len == 0 && self.left == 0 && !self.is_continued
    }

    /// The number of the last packet whose header was taken.
    pub fn seq(&self) -> u8 {
        self.head[HEADER_LEN - 1]
    }

    /// Takes all of `bytes`.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let len = self.pass_one(bytes);
            bytes = bytes.get(len..).unwrap_or_default();
        }
    }

    /// Takes bytes up to the end of the payload that they begin or go on with; returns how many,
    /// at least one where there is one.
    pub fn pass_one(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        loop {
            let len = self.left.min(rest.len());
            self.left -= len;
            rest = rest.get(len..).unwrap_or_default();
            let has_ended = self.left == 0 && self.head_len == 0 && !self.is_continued;
            if has_ended && rest.len() < bytes.len() || rest.is_empty() {
                return bytes.len() - rest.len();
            }
            while let (true, Some((byte, after))) = (self.head_len < HEADER_LEN, rest.split_first())
            {
                if let Some(place) = self.head.get_mut(self.head_len) {
                    *place = *byte;
                }
                self.head_len += 1;
                rest = after;
            }
            if self.head_len < HEADER_LEN {
                return bytes.len();
            }
            let [a, b, c, _] = self.head;
            self.left = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
            self.is_continued = self.left == PAYLOAD_MAX;
            self.head_len = 0;
        }
    }
}

#[cfg(test)]
mod tests;
