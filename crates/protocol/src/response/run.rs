//! Runs of whole packets that need no understanding: column definitions and rows.

use crate::codec::frame::{HEADER_LEN, Header, PAYLOAD_MAX};

/// Whole packets at the front of an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Their bytes, headers included.
    pub(super) bytes: usize,
    /// How many they are.
    pub(super) packets: u64,
    /// The sequence number that must follow.
    pub(super) next_seq: u8,
}

/// The longest run at the front of `input` of at most `packets_max` whole packets, the first
/// numbered `seq`, that are surely definitions or rows. It ends before a packet that is empty,
/// continued, numbered otherwise, or begins like an ERR, EOF or OK (0xFE) packet.
///
/// This is the innermost loop of the relay: one look at five bytes for each packet.
#[inline]
pub(super) fn scan(input: &[u8], seq: u8, packets_max: u64) -> Run {
    let mut rest = input;
    let mut next_seq = seq;
    let mut packets = 0;
    while packets < packets_max {
        let Some(&[a, b, c, number, first]) = rest.first_chunk() else {
            break;
        };
        let payload_len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        if number != next_seq || first >= 0xFE || matches!(payload_len, 0 | PAYLOAD_MAX) {
            break;
        }
        let Some(after) = rest.get(HEADER_LEN + payload_len..) else {
            break;
        };
        rest = after;
        next_seq = next_seq.wrapping_add(1);
        packets += 1;
    }
    Run { bytes: input.len() - rest.len(), packets, next_seq }
}

/// Adds `shift` to the sequence number of each packet in `packets`, which holds whole packets.
pub(super) fn renumber(packets: &mut [u8], shift: u8) {
    let mut rest = packets;
    while let Some(header) = Header::read(rest) {
        if let Some(seq) = rest.get_mut(HEADER_LEN - 1) {
            *seq = header.seq.wrapping_add(shift);
        }
        rest = rest.get_mut(HEADER_LEN + header.payload_len..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::put_payload;

    fn packets(seq: u8, payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut seq = seq;
        for payload in payloads {
            seq = put_payload(&mut out, seq, payload);
        }
        out
    }

    #[test]
    fn a_run_ends_before_what_must_be_understood() {
        let rows: &[&[u8]] = &[b"\x01a", b"\xFB", b"\x00\x00\x01"];
        let run_bytes = packets(254, rows).len();
        for stop in [&b"\xFE\0\0\x02\0"[..], b"\xFF\x10\x04", b""] {
            let input = packets(254, &[rows, &[stop, b"\x01b"]].concat());
            let expected = Run { bytes: run_bytes, packets: 3, next_seq: 1 };
            assert_eq!(scan(&input, 254, u64::MAX), expected);
        }
    }

    #[test]
    fn a_run_holds_whole_packets_in_order_up_to_its_limit() {
        let input = packets(1, &[b"\x01a", b"\x01b", b"\x01c"]);
        assert_eq!(scan(&input, 1, 2).packets, 2);
        assert_eq!(scan(&input, 2, 2).packets, 0);
        for len in 0..input.len() {
            assert_eq!(scan(&input[..len], 1, 9).packets, len as u64 / 6);
        }
    }

    #[test]
    fn renumbering_wraps() {
        let mut bytes = packets(254, &[b"abc", b"", b"d"]);
        renumber(&mut bytes, 3);
        assert_eq!(bytes, packets(1, &[b"abc", b"", b"d"]));
        renumber(&mut bytes, 0xFF);
        assert_eq!(bytes, packets(0, &[b"abc", b"", b"d"]));
    }
}
