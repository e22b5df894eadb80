//! The bytes of a command, and where it ends.

use std::{
    hash::{Hash, Hasher},
    ops::{Deref, Range},
    sync::Arc,
};

use trunkline_protocol::codec::frame::{HEADER_LEN, Header};

use crate::compressed::answer_seq;

/// A command, packet headers and all: in a buffer of its own, or, where it is long, in one that is
/// on its way to a server as well. So a long one is not copied.
#[derive(Debug)]
pub(crate) enum Frames {
    Own(Vec<u8>),
    Whole(Arc<Vec<u8>>),
}

impl Default for Frames {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Deref for Frames {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }
}

impl Frames {
    /// To be changed: a long one is copied for that.
    pub(crate) fn own(&mut self) -> &mut Vec<u8> {
        if let Self::Whole(bytes) = self {
            *self = Self::Own(bytes.to_vec());
        }
        match self {
            Self::Own(bytes) => bytes,
            Self::Whole(_) => unreachable!("it was made its own"),
        }
    }

    /// Frames with the same bytes, for another owner. A long command is shared, not copied.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Own(bytes) => Self::Own(bytes.clone()),
            Self::Whole(bytes) => Self::Whole(Arc::clone(bytes)),
        }
    }

    /// Its buffer, to be used again; an empty one, where others may have it.
    #[inline]
    pub(crate) fn into_own(self) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes,
            Self::Whole(_) => Vec::new(),
        }
    }
}

/// A long command that is being looked at: who keeps it needs no copy.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    pub(crate) frames: Arc<Vec<u8>>,
    /// Its payload, where it came in several packets and that was put together.
    pub(crate) joined: Option<Arc<Vec<u8>>>,
    /// The number that its client awaits the answer with: one in several packets has more numbers
    /// than one.
    pub(crate) answer_seq: u8,
    /// It is in the form of clients without query attributes, and these were left out.
    pub(crate) plain: Option<Plain>,
}

/// That a command is in the form of clients without query attributes.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    /// What was left out: what precedes a text, or all that follows a statement id.
    pub(crate) attributes: Option<Arc<[u8]>>,
}

impl Whole {
    /// One that is as it came.
    pub(crate) fn of(frames: Arc<Vec<u8>>) -> Self {
        let answer_seq = answer_seq(&frames);
        Self { frames, joined: None, answer_seq, plain: None }
    }

    /// These bytes, which are of the command: without a copy where they are in one of its buffers.
    pub(crate) fn text(&self, bytes: &[u8]) -> Text {
        let mut buffers = [Some(&self.frames), self.joined.as_ref()].into_iter().flatten();
        let found = buffers.find_map(|buffer| Text::within(buffer, bytes));
        found.unwrap_or_else(|| bytes.into())
    }
}

/// Where these bytes are in a buffer, if they are of it.
pub(crate) fn place_in(buffer: &[u8], bytes: &[u8]) -> Option<Range<usize>> {
    let begin = bytes.as_ptr().addr().checked_sub(buffer.as_ptr().addr())?;
    let range = begin..begin.checked_add(bytes.len())?;
    let found = buffer.get(range.clone())?;
    std::ptr::eq(found, bytes).then_some(range)
}

/// A text: in a buffer of its own, or, where it is long, a part of one that others have too.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    Own(Box<[u8]>),
    Part(Arc<Vec<u8>>, Range<usize>),
}

/// Of a longer text, this much tells it from others in a hash, bytes.
const HASHED_LEN_MAX: usize = 64 * 1024;

impl Text {
    /// These bytes as a part of a buffer, if they are of it.
    pub(crate) fn within(buffer: &Arc<Vec<u8>>, bytes: &[u8]) -> Option<Self> {
        place_in(buffer, bytes).map(|range| Self::Part(Arc::clone(buffer), range))
    }

    /// All of a buffer from this byte on.
    pub(crate) fn from_byte(buffer: &Arc<Vec<u8>>, begin: usize) -> Self {
        Self::Part(Arc::clone(buffer), begin.min(buffer.len())..buffer.len())
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Part(buffer, range) => buffer.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self::Own(bytes.into())
    }
}

impl From<Box<[u8]>> for Text {
    fn from(bytes: Box<[u8]>) -> Self {
        Self::Own(bytes)
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes.into())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.get(..HASHED_LEN_MAX).unwrap_or(self).hash(state);
    }
}

/// Where the first command in `bytes` ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    /// More bytes are needed.
    Partial,
    /// After this many bytes; the flag says that it is longer than [`LOOKED_AT_MAX`].
    At(usize, bool),
    /// Its payload is longer than allowed.
    TooLong,
    /// Its sequence numbers are not 0, 1, 2, …
    OutOfOrder,
}

/// No command that is not read beside the worker has a payload that is longer, bytes.
const LOOKED_AT_MAX: usize = 1024 * 1024;

/// Where the first command in `bytes` ends, whose payload may have `payload_max` bytes.
pub(crate) fn command_end(bytes: &[u8], payload_max: usize) -> CommandEnd {
    let mut end = 0;
    let mut payload_len = 0;
    let mut seq = 0_u8;
    loop {
        let Some(header) = bytes.get(end..).and_then(Header::read) else {
            return CommandEnd::Partial;
        };
        if header.seq != seq {
            return CommandEnd::OutOfOrder;
        }
        payload_len += header.payload_len;
        if payload_len > payload_max {
            return CommandEnd::TooLong;
        }
        end += HEADER_LEN + header.payload_len;
        if end > bytes.len() {
            return CommandEnd::Partial;
        }
        if !header.is_continued() {
            return CommandEnd::At(end, payload_len > LOOKED_AT_MAX);
        }
        seq = seq.wrapping_add(1);
    }
}

/// Whether the first command in `bytes` has not come whole.
pub(crate) fn is_partial(bytes: &[u8], payload_max: usize) -> bool {
    command_end(bytes, payload_max) == CommandEnd::Partial
}

/// Whether a command came in several packets.
pub(crate) fn is_split(frames: &[u8]) -> bool {
    Header::read(frames).is_some_and(Header::is_continued)
}

/// The payload of a command that may have come in several packets.
pub(crate) fn joined_payload(mut frames: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(frames.len());
    while let Some(header) = Header::read(frames) {
        let Some((head, rest)) = frames.split_at_checked(HEADER_LEN + header.payload_len) else {
            break;
        };
        payload.extend_from_slice(head.get(HEADER_LEN..).unwrap_or_default());
        frames = rest;
    }
    payload
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::codec::frame::PAYLOAD_MAX;

    use super::*;

    fn packet(len: usize, seq: u8) -> Vec<u8> {
        let mut bytes = Header { payload_len: len, seq }.bytes().to_vec();
        bytes.resize(HEADER_LEN + len, b'x');
        bytes
    }

    #[test]
    fn a_part_of_a_buffer_is_a_text_without_a_copy() {
        let whole = Whole::of(Arc::new(packet(9, 0)));
        let part = whole.text(&whole.frames[5..]);
        assert!(matches!(&part, Text::Part(buffer, range)
            if Arc::ptr_eq(buffer, &whole.frames) && *range == (5..13)));
        assert_eq!(part, Text::from(&b"xxxxxxxx"[..]));
        assert_eq!(Text::from_byte(&whole.frames, 5), part);
        // Bytes of the same kind elsewhere are none of it.
        assert!(matches!(whole.text(b"xxxxxxxx"), Text::Own(_)));
    }

    #[test]
    fn a_command_ends_with_its_last_packet() {
        let mut bytes = packet(3, 0);
        assert_eq!(command_end(&bytes[..6], 100), CommandEnd::Partial);
        assert_eq!(command_end(&bytes, 100), CommandEnd::At(7, false));
        assert_eq!(command_end(&bytes, 2), CommandEnd::TooLong);
        bytes.extend(packet(1, 0));
        assert_eq!(command_end(&bytes, 100), CommandEnd::At(7, false));
        assert_eq!(command_end(&packet(1, 1), 100), CommandEnd::OutOfOrder);
    }

    #[test]
    fn a_command_in_several_packets_is_joined() {
        let mut bytes = packet(PAYLOAD_MAX, 0);
        assert_eq!(command_end(&bytes, usize::MAX), CommandEnd::Partial);
        bytes.extend(packet(5, 1));
        assert_eq!(command_end(&bytes, usize::MAX), CommandEnd::At(bytes.len(), true));
        assert_eq!(joined_payload(&bytes).len(), PAYLOAD_MAX + 5);
        assert_eq!(command_end(&bytes, PAYLOAD_MAX), CommandEnd::TooLong);
    }
}
