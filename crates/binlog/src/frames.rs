//! Bytes of a connection to events: packets, of which the longest ones follow each other.
//!
//! | packet | |
//! |---|---|
//! | length, number | 3, 1 |
//! | `0x00` for an event, `0xFE` for the end, `0xFF` for an error | 1 |
//! | the event | … |
//!
//! An event that does not fit into a packet of 16,777,215 bytes goes on in the next one, without
//! another `0x00`.

use trunkline_protocol::packet::{eof, err};

use crate::{BinlogError, EVENT_HELD_MAX};

/// The length of a packet that another one continues.
const LONGEST: usize = 0xFF_FFFF;
/// In front of an event.
const EVENT: u8 = 0x00;

/// Puts packets together.
#[derive(Debug)]
pub struct Frames {
    /// What has come of a header.
    header: Vec<u8>,
    /// What has come of the packets of an event, as far as it is held.
    held: Vec<u8>,
    /// How long they are.
    len: u64,
    /// Bytes of the packet that have not come.
    missing: usize,
    /// Whether another packet goes on with it.
    goes_on: bool,
    /// The number of the next packet.
    next: u8,
    held_max: usize,
}

/// An event as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed<'a> {
    /// Its bytes; of one that is too long the first [`EVENT_HELD_MAX`].
    pub bytes: &'a [u8],
    /// Whether these are all its bytes.
    pub is_whole: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

impl Frames {
    /// Behind the command, whose packet has the number 0.
    pub fn new() -> Self {
        Self::holding(EVENT_HELD_MAX)
    }

    fn holding(held_max: usize) -> Self {
        Self {
            header: Vec::with_capacity(4),
            held: Vec::new(),
            len: 0,
            missing: 0,
            goes_on: false,
            next: 1,
            held_max,
        }
    }

    /// Takes bytes as they come, and calls `each` with each event that is complete.
    ///
    /// # Errors
    /// Those of `each`; when the server ends or refuses the stream; when packets are out of order.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Framed<'_>) -> Result<(), BinlogError>,
    ) -> Result<(), BinlogError> {
        loop {
            if self.header.len() < 4 {
                let wanted = (4 - self.header.len()).min(bytes.len());
                let (front, rest) = bytes.split_at_checked(wanted).unwrap_or((bytes, &[]));
                self.header.extend_from_slice(front);
                bytes = rest;
                if self.header.len() < 4 {
                    return Ok(());
                }
                self.begin_packet()?;
            }
            let (front, rest) = bytes.split_at_checked(self.missing).unwrap_or((bytes, &[]));
            let room = (self.held_max + 1).saturating_sub(self.held.len());
            self.held.extend_from_slice(front.get(..room).unwrap_or(front));
            self.len = self.len.saturating_add(u64::try_from(front.len()).unwrap_or(u64::MAX));
            self.missing -= front.len();
            bytes = rest;
            if self.missing > 0 {
                return Ok(());
            }
            self.header.clear();
            if !self.goes_on {
                let done = self.finish(&mut each);
                self.held.clear();
                self.len = 0;
                done?;
            }
        }
    }

    fn begin_packet(&mut self) -> Result<(), BinlogError> {
        let [low, middle, high, came] = self.header.first_chunk().copied().unwrap_or_default();
        if came != self.next {
            return Err(BinlogError::Sequence { came, expected: self.next });
        }
        self.next = self.next.wrapping_add(1);
        let len = u32::from_le_bytes([low, middle, high, 0]);
        self.missing = usize::try_from(len).unwrap_or(LONGEST);
        self.goes_on = self.missing == LONGEST;
        Ok(())
    }

    /// All packets of something have come.
    fn finish(
        &self,
        each: &mut impl FnMut(Framed<'_>) -> Result<(), BinlogError>,
    ) -> Result<(), BinlogError> {
        match self.held.split_first() {
            Some((&EVENT, bytes)) => {
                let held = u64::try_from(self.held.len()).unwrap_or(u64::MAX);
                each(Framed { bytes, is_whole: held == self.len })
            }
            Some((&err::HEADER, _)) => {
                let error = err::parse(&self.held)?;
                let message = String::from_utf8_lossy(error.message).into_owned();
                Err(BinlogError::Refused { code: error.code, message })
            }
            Some((&eof::HEADER, _)) => Err(BinlogError::Ended),
            Some(_) | None => Err(BinlogError::Malformed("packet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet or several with this payload.
    fn packets(payload: &[u8], number: &mut u8) -> Vec<u8> {
        let mut out = Vec::new();
        let mut chunks: Vec<&[u8]> = payload.chunks(LONGEST).collect();
        if chunks.last().is_none_or(|last| last.len() == LONGEST) {
            chunks.push(&[]);
        }
        for chunk in chunks {
            let len = u32::try_from(chunk.len()).expect("short").to_le_bytes();
            out.extend([len[0], len[1], len[2], *number]);
            out.extend(chunk);
            *number = number.wrapping_add(1);
        }
        out
    }

    /// What comes of bytes in pieces of this length.
    fn taken(frames: &mut Frames, bytes: &[u8], piece: usize) -> (Vec<(Vec<u8>, bool)>, String) {
        let mut events = Vec::new();
        for piece in bytes.chunks(piece) {
            let took = frames.take(piece, |event| {
                events.push((event.bytes.to_vec(), event.is_whole));
                Ok(())
            });
            if let Err(error) = took {
                return (events, error.to_string());
            }
        }
        (events, String::new())
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6),
            piece in 1_usize..50,
        ) {
            let mut number = 1;
            let bytes: Vec<u8> = payloads
                .iter()
                .flat_map(|payload| packets(&[&[0], &payload[..]].concat(), &mut number))
                .collect();
            let (events, error) = taken(&mut Frames::new(), &bytes, piece);
            prop_assert_eq!(error, "");
            prop_assert!(events.into_iter().eq(payloads.into_iter().map(|it| (it, true))));
        }
    }

    #[test]
    fn of_what_is_too_long_the_beginning_is_held() {
        let mut number = 1;
        let mut bytes = packets(&[0, 1, 2, 3, 4, 5, 6], &mut number);
        bytes.extend(packets(&[0, 1, 2, 3, 4, 5], &mut number));
        bytes.extend(packets(&[0, 9], &mut number));
        let (events, error) = taken(&mut Frames::holding(5), &bytes, 3);
        assert_eq!(error, "");
        let expected = [(vec![1, 2, 3, 4, 5], false), (vec![1, 2, 3, 4, 5], true), (vec![9], true)];
        assert_eq!(events, expected);
    }

    #[test]
    fn packets_of_16_mib_are_put_together() {
        for len in [LONGEST - 1, LONGEST, LONGEST + 1] {
            let mut payload = vec![7; len];
            payload[0] = 0;
            let mut number = 255;
            let bytes = packets(&payload, &mut number);
            let mut frames = Frames::new();
            frames.next = 255;
            let (events, error) = taken(&mut frames, &bytes, 1 << 20);
            assert_eq!((events.len(), error.as_str()), (1, ""), "{len}");
            assert_eq!(events[0].0.len(), len - 1);
        }
    }

    #[test]
    fn ends_refusals_and_disorder_are_told() {
        let check = |payload: &[u8], number: u8, expected: &str| {
            let bytes = packets(payload, &mut number.clone());
            assert_eq!(taken(&mut Frames::new(), &bytes, 100), (vec![], expected.to_owned()));
        };
        check(b"\xFF\xD4\x04#HY000purged", 1, "error 1236: purged");
        check(&[0xFE, 0, 0, 0, 0], 1, "the server has ended the stream");
        check(&[0, 1], 2, "packet 2 came where 1 was expected");
        check(&[3, 1], 1, "an event is malformed: packet");
        check(&[], 1, "an event is malformed: packet");
    }
}
