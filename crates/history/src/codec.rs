//! Frames as bytes.
//!
//! A record is `length` (4 bytes, of what follows the sum), `sum` (CRC-32 of that, 4 bytes), and a
//! frame in zlib's format. All numbers of a frame are LEB128 (7 bits a byte, the lowest first). A
//! text is the number of one that was written to the same file before, from 1, or 0 with its length
//! and its bytes.
//!
//! | part of a frame | |
//! |---|---|
//! | begin, seconds, clients | |
//! | sums of all, of the queue | count, errors, µs, buckets with number and count |
//! | waiting | how many; hostgroup, statements |
//! | servers | how many; hostgroup, address, state, sums, connect errors, used, idle, 5 counters |
//! | digests | how many; 16 hex digits and text as one text, hostgroup, sums, rows sent, changed |
//! | refusals, figures | how many; text, number |
//! | marks | how many; time, text |

use std::collections::HashMap;

use trunkline_compression::{crc32, deflated, inflated};

use crate::{DigestLine, Frame, Mark, ServerLine, Sketch, Sums};

/// The longest frame that is read.
const FRAME_LEN_MAX: usize = 64 << 20;
/// The most lines of a kind that are read.
const LINES_MAX: u64 = 100_000;
/// The longest text.
const TEXT_LEN_MAX: usize = 2_048 + DIGEST_LEN;
/// Hex digits of a digest.
const DIGEST_LEN: usize = 16;
/// Length and sum.
const HEAD_LEN: usize = 8;

/// Texts that a file has, by their numbers, while it is written.
#[derive(Debug, Default)]
pub(crate) struct Written(HashMap<String, u64>);

/// Texts that a file has, while it is read.
#[derive(Debug, Default)]
pub(crate) struct Seen(Vec<String>);

/// A frame as a record. The texts count as written when it is; `None` in case it can't be packed.
pub(crate) fn record(frame: &Frame, written: &mut Written) -> Option<Vec<u8>> {
    let mut out = Out { bytes: Vec::new(), written };
    out.frame(frame);
    let packed = deflated(&out.bytes).ok()?;
    let length = u32::try_from(packed.len()).ok()?;
    let mut record = Vec::with_capacity(HEAD_LEN + packed.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&crc32(&packed).to_le_bytes());
    record.extend_from_slice(&packed);
    Some(record)
}

/// The frame of the first record, and what is behind it; `None` at the end, and where something is
/// damaged.
pub(crate) fn read<'a>(bytes: &'a [u8], seen: &mut Seen) -> Option<(Frame, &'a [u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (packed, rest) = rest.split_at_checked(length)?;
    if crc32(packed) != u32::from_le_bytes(*sum) {
        return None;
    }
    let plain = inflated(packed, FRAME_LEN_MAX).ok()?;
    let mut input = In { bytes: &plain, seen };
    Some((input.frame()?, rest))
}

struct Out<'a> {
    bytes: Vec<u8>,
    written: &'a mut Written,
}

impl Out<'_> {
    fn number(&mut self, mut number: u64) {
        loop {
            let [low, ..] = (number & 0x7f).to_le_bytes();
            number >>= 7;
            if number == 0 {
                return self.bytes.push(low);
            }
            self.bytes.push(low | 0x80);
        }
    }

    fn count(&mut self, count: usize) {
        self.number(u64::try_from(count).unwrap_or(u64::MAX));
    }

    fn text(&mut self, text: &str) {
        let text = text.get(..text.floor_char_boundary(TEXT_LEN_MAX)).unwrap_or(text);
        if let Some(number) = self.written.0.get(text) {
            return self.number(*number);
        }
        let number = u64::try_from(self.written.0.len()).unwrap_or(u64::MAX).saturating_add(1);
        self.written.0.insert(text.to_owned(), number);
        self.number(0);
        self.count(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn sums(&mut self, sums: &Sums) {
        let Sums { count, errors, sum_us, latency } = sums;
        [*count, *errors, *sum_us].into_iter().for_each(|number| self.number(number));
        self.count(latency.counts().len());
        for (bucket, count) in latency.counts() {
            self.bytes.push(*bucket);
            self.number(*count);
        }
    }

    fn frame(&mut self, frame: &Frame) {
        [frame.begin, frame.seconds, frame.clients].into_iter().for_each(|it| self.number(it));
        self.sums(&frame.all);
        self.sums(&frame.queue);
        self.count(frame.waiting.len());
        for (hostgroup, statements) in &frame.waiting {
            self.number(u64::from(*hostgroup));
            self.number(*statements);
        }
        self.count(frame.servers.len());
        for line in &frame.servers {
            self.number(u64::from(line.hostgroup));
            self.text(&line.address);
            self.bytes.push(line.state);
            self.sums(&line.sums);
            let numbers = [line.connect_errors, line.used, line.idle];
            numbers.into_iter().chain(line.counters).for_each(|number| self.number(number));
        }
        self.count(frame.digests.len());
        for line in &frame.digests {
            // As one text, since the same digest nearly always has the same text.
            self.text(&format!("{:016x}{}", line.digest, line.text));
            self.number(u64::from(line.hostgroup));
            self.sums(&line.sums);
            self.number(line.rows_sent);
            self.number(line.rows_affected);
        }
        for named in [&frame.refusals, &frame.figures] {
            self.count(named.len());
            for (name, number) in named {
                self.text(name);
                self.number(*number);
            }
        }
        self.count(frame.marks.len());
        for mark in &frame.marks {
            self.number(mark.at);
            self.text(&mark.what);
        }
    }
}

struct In<'a> {
    bytes: &'a [u8],
    seen: &'a mut Seen,
}

impl In<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn text(&mut self) -> Option<String> {
        let number = self.number()?;
        if let Some(before) = number.checked_sub(1) {
            return self.seen.0.get(usize::try_from(before).ok()?).cloned();
        }
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        let text = String::from_utf8(text.to_vec()).ok()?;
        self.seen.0.push(text.clone());
        Some(text)
    }

    /// As many lines as are announced.
    fn lines<T>(&mut self, mut line: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number().filter(|count| *count <= LINES_MAX)?;
        (0..count).map(|_| line(self)).collect()
    }

    fn sums(&mut self) -> Option<Sums> {
        let (count, errors, sum_us) = (self.number()?, self.number()?, self.number()?);
        let counts = self.lines(|it| Some((it.byte()?, it.number()?)))?;
        Some(Sums { count, errors, sum_us, latency: Sketch::of(counts) })
    }

    fn server(&mut self) -> Option<ServerLine> {
        let (hostgroup, address, state) = (self.small()?, self.text()?, self.byte()?);
        let sums = self.sums()?;
        let [connect_errors, used, idle] = [self.number()?, self.number()?, self.number()?];
        let mut counters = [0; 5];
        for counter in &mut counters {
            *counter = self.number()?;
        }
        Some(ServerLine { hostgroup, address, state, sums, connect_errors, used, idle, counters })
    }

    fn digest(&mut self) -> Option<DigestLine> {
        let named = self.text()?;
        let (digest, text) = named.split_at_checked(DIGEST_LEN)?;
        Some(DigestLine {
            digest: u64::from_str_radix(digest, 16).ok()?,
            text: text.to_owned(),
            hostgroup: self.small()?,
            sums: self.sums()?,
            rows_sent: self.number()?,
            rows_affected: self.number()?,
        })
    }

    fn frame(&mut self) -> Option<Frame> {
        let (begin, seconds, clients) = (self.number()?, self.number()?, self.number()?);
        let (all, queue) = (self.sums()?, self.sums()?);
        let named = |it: &mut Self| Some((it.text()?, it.number()?));
        Some(Frame {
            begin,
            seconds,
            all,
            queue,
            clients,
            waiting: self.lines(|it| Some((it.small()?, it.number()?)))?,
            servers: self.lines(Self::server)?,
            digests: self.lines(Self::digest)?,
            refusals: self.lines(named)?,
            figures: self.lines(named)?,
            marks: self.lines(|it| Some(Mark { at: it.number()?, what: it.text()? }))?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A frame with something in each place.
    pub(crate) fn full(begin: u64) -> Frame {
        let sums = |us: u64| {
            let mut latency = Sketch::default();
            latency.add(us, 3);
            latency.add(us * 9, 1);
            Sums { count: 4, errors: 1, sum_us: us * 12, latency }
        };
        Frame {
            begin,
            seconds: 10,
            all: sums(100),
            queue: sums(7),
            clients: 300,
            waiting: vec![(10, 5)],
            servers: vec![ServerLine {
                hostgroup: 10,
                address: "a:3306".to_owned(),
                state: 1,
                sums: sums(90),
                connect_errors: 2,
                used: 3,
                idle: 4,
                counters: [1, 2, 3, u64::MAX, 0],
            }],
            digests: vec![DigestLine {
                digest: u64::MAX - 1,
                hostgroup: 10,
                text: "SELECT ä FROM t".to_owned(),
                sums: sums(50),
                rows_sent: 1_000,
                rows_affected: 0,
            }],
            refusals: vec![("queue_full".to_owned(), 9)],
            figures: vec![("Questions".to_owned(), 1 << 40)],
            marks: vec![Mark { at: begin + 1, what: "started".to_owned() }],
        }
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let (mut written, mut seen) = (Written::default(), Seen::default());
        let frames = [full(1), Frame::default(), full(1 << 33)];
        let records: Vec<Vec<u8>> =
            frames.iter().filter_map(|frame| record(frame, &mut written)).collect();
        assert!(records[2].len() < records[0].len(), "texts are written once");
        let bytes = records.concat();
        let mut rest = bytes.as_slice();
        for frame in frames {
            let (read, behind) = read(rest, &mut seen).expect("a frame");
            assert_eq!(read, frame);
            rest = behind;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn no_bytes_are_read_as_a_frame_that_was_not_written() {
        let whole = record(&full(1), &mut Written::default()).expect("a record");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged, &mut Seen::default()).is_none(), "{at}");
            assert!(read(&whole[..at], &mut Seen::default()).is_none(), "{at}");
        }
    }
}
