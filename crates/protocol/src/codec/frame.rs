//! Framing: every payload travels in packets of at most 16 MiB − 1 bytes.
//!
//! | bytes | meaning |
//! |---|---|
//! | 3 | length of the payload in this packet, little-endian |
//! | 1 | sequence number, from 0 at each command, wraps at 256 |
//! | n | payload; exactly [`PAYLOAD_MAX`] bytes say that the next packet continues it |

/// Bytes before each packet's payload.
pub const HEADER_LEN: usize = 4;
/// The most payload bytes in one packet; a packet this long is continued by the next.
pub const PAYLOAD_MAX: usize = 0xFF_FFFF;

/// The four bytes before a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Payload bytes in this packet, 0 to [`PAYLOAD_MAX`].
    pub payload_len: usize,
    /// Sequence number.
    pub seq: u8,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None` when fewer than four bytes are there.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, seq] = *bytes.first_chunk::<HEADER_LEN>()?;
        let payload_len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        Some(Self { payload_len, seq })
    }

    /// The header's four bytes.
    pub fn bytes(self) -> [u8; HEADER_LEN] {
        debug_assert!(self.payload_len <= PAYLOAD_MAX);
        let [a, b, c, ..] = self.payload_len.to_le_bytes();
        [a, b, c, self.seq]
    }

    /// Whether the next packet continues this one's payload.
    pub fn is_continued(self) -> bool {
        self.payload_len == PAYLOAD_MAX
    }
}

/// The first packet of `bytes` whose payload is whole and not continued: header, payload, and
/// what follows. `None` when more bytes are needed or the packet is continued.
pub fn split_packet(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let header = Header::read(bytes)?;
    if header.is_continued() {
        return None;
    }
    let body = bytes.get(HEADER_LEN..)?;
    let (payload, rest) = body.split_at_checked(header.payload_len)?;
    Some((header, payload, rest))
}

/// Appends `payload` as one or more packets, the first numbered `seq`; returns the number that
/// follows the last.
pub fn put_payload(out: &mut Vec<u8>, seq: u8, payload: &[u8]) -> u8 {
    put_parts(out, seq, [payload].into_iter())
}

/// What takes bytes, one behind the other.
pub trait Sink {
    /// So many bytes are about to come.
    fn reserve(&mut self, _len: usize) {}

    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn reserve(&mut self, len: usize) {
        Self::reserve(self, len);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends a payload that comes in parts and is never held as a whole, as one or more packets, the
/// first numbered `seq`; returns the number that follows the last.
pub fn put_parts<'a>(
    out: &mut impl Sink,
    mut seq: u8,
    parts: impl Iterator<Item = &'a [u8]> + Clone,
) -> u8 {
    let mut left: usize = parts.clone().map(<[u8]>::len).sum();
    if left >= PAYLOAD_MAX {
        // A buffer that doubles again and again would hold this several times.
        out.reserve(left + (left / PAYLOAD_MAX + 1) * HEADER_LEN);
    }
    let mut parts = parts;
    let mut part: &[u8] = b"";
    loop {
        let len = left.min(PAYLOAD_MAX);
        out.put(&Header { payload_len: len, seq }.bytes());
        let mut room = len;
        while room > 0 {
            if part.is_empty() {
                let Some(next) = parts.next() else { break };
                part = next;
            }
            let (head, rest) = part.split_at(part.len().min(room));
            out.put(head);
            room -= head.len();
            part = rest;
        }
        left -= len;
        seq = seq.wrapping_add(1);
        if len < PAYLOAD_MAX {
            return seq;
        }
    }
}

/// The parts of a payload that came in these packets.
pub fn payload_parts(mut frames: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    std::iter::from_fn(move || {
        let header = Header::read(frames)?;
        let (head, rest) = frames.split_at_checked(HEADER_LEN + header.payload_len)?;
        frames = rest;
        head.get(HEADER_LEN..)
    })
}

/// The payload of a command from byte `at` of its frames on, which is in its first packet.
pub fn payload_parts_from(frames: &[u8], at: usize) -> impl Iterator<Item = &[u8]> + Clone {
    let first_len = Header::read(frames).map_or(0, |header| HEADER_LEN + header.payload_len);
    let (first, others) = frames.split_at(first_len.min(frames.len()));
    std::iter::once(first.get(at..).unwrap_or_default()).chain(payload_parts(others))
}

/// Starts a packet in place: appends a header whose length [`end_packet`] fills in.
/// Returns where it began.
pub fn begin_packet(out: &mut Vec<u8>, seq: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, seq]);
    start
}

/// Fills in the length of the packet that began at `start`. The payload since must be shorter
/// than [`PAYLOAD_MAX`].
pub fn end_packet(out: &mut [u8], start: usize) {
    let payload_len = out.len().saturating_sub(start + HEADER_LEN);
    debug_assert!(payload_len < PAYLOAD_MAX);
    let [a, b, c, ..] = payload_len.to_le_bytes();
    if let Some(length) = out.get_mut(start..start + 3) {
        length.copy_from_slice(&[a, b, c]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_of_exactly_the_maximum_is_followed_by_an_empty_packet() {
        let mut out = Vec::new();
        let next = put_payload(&mut out, 255, &vec![7; PAYLOAD_MAX]);
        assert_eq!(next, 1);
        assert_eq!(out.len(), PAYLOAD_MAX + 2 * HEADER_LEN);
        assert_eq!(Header::read(&out), Some(Header { payload_len: PAYLOAD_MAX, seq: 255 }));
        assert_eq!(&out[PAYLOAD_MAX + HEADER_LEN..], &[0, 0, 0, 0]);
    }

    #[test]
    fn a_payload_in_parts_is_the_same() {
        let whole: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PAYLOAD_MAX + 5).collect();
        for ends in [[0, 0], [1, 1], [5, PAYLOAD_MAX], [PAYLOAD_MAX - 1, 2 * PAYLOAD_MAX]] {
            for len in [0, 7, PAYLOAD_MAX, whole.len()] {
                let (ends, payload) = (ends.map(|end| end.min(len)), &whole[..len]);
                let parts = [&payload[..ends[0]], &payload[ends[0]..ends[1]], &payload[ends[1]..]];
                let (mut out, mut expected) = (Vec::new(), Vec::new());
                let next = put_parts(&mut out, 9, parts.into_iter());
                assert_eq!(next, put_payload(&mut expected, 9, payload));
                assert!(out == expected, "{ends:?} of {len}");
                assert!(payload_parts(&out).collect::<Vec<_>>().concat() == payload);
            }
        }
    }

    #[test]
    fn split_packet_wants_the_whole_packet() {
        let mut out = Vec::new();
        put_payload(&mut out, 3, b"abc");
        out.push(9);
        for end in 0..7 {
            assert!(split_packet(&out[..end]).is_none());
        }
        let (header, payload, rest) = split_packet(&out).expect("whole");
        assert_eq!((header.seq, payload, rest), (3, &b"abc"[..], &[9][..]));
    }

    #[test]
    fn a_packet_built_in_place_reads_back() {
        let mut out = vec![1, 2];
        let start = begin_packet(&mut out, 4);
        out.extend_from_slice(b"hello");
        end_packet(&mut out, start);
        let (header, payload, rest) = split_packet(&out[2..]).expect("whole");
        assert_eq!((header.seq, payload, rest.len()), (4, &b"hello"[..], 0));
    }
}
