//! The EOF packet: the end of column definitions or rows, without `CLIENT_DEPRECATE_EOF`.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | 0xFE |
//! | 2 | warnings |
//! | 2 | status flags ([`status`]) |
//!
//! With `CLIENT_DEPRECATE_EOF` an OK packet with this header takes its place
//! ([`ok`](super::ok)). Source: MySQL internals, "`EOF_Packet`".

use super::status;
use crate::codec::frame::{HEADER_LEN, Header};
use crate::codec::{Malformed, Reader};

/// First payload byte.
pub const HEADER: u8 = 0xFE;
/// A payload this long or longer that begins with 0xFE is a row, not an EOF packet.
pub const LEN_LIMIT: usize = 9;
/// Payload bytes of an EOF packet.
pub const LEN: usize = 5;

/// The end of column definitions or rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EofPacket {
    /// Number of warnings.
    pub warnings: u16,
    /// Status flags ([`status`]).
    pub status: u16,
}

/// Reads an EOF payload, its first byte included.
///
/// # Errors
/// [`Malformed`] when it is too short, too long or begins with another byte than [`HEADER`].
pub fn parse(payload: &[u8]) -> Result<EofPacket, Malformed> {
    if payload.len() >= LEN_LIMIT {
        return Err(Malformed("end-of-file length"));
    }
    let mut reader = Reader::new(payload);
    if reader.u8("end-of-file header")? != HEADER {
        return Err(Malformed("end-of-file header"));
    }
    let warnings = reader.u16("end-of-file warnings")?;
    let status = reader.u16("end-of-file status")?;
    Ok(EofPacket { warnings, status })
}

/// Appends a whole EOF packet, framing included, and returns the sequence number after it.
/// It cannot carry session state changes, so that flag is left out.
pub fn put_eof(out: &mut Vec<u8>, seq: u8, eof: EofPacket) -> u8 {
    let [warnings_low, warnings_high] = eof.warnings.to_le_bytes();
    let [status_low, status_high] = (eof.status & !status::SESSION_STATE_CHANGED).to_le_bytes();
    let [a, b, c, d] = Header { payload_len: LEN, seq }.bytes();
    let packet: [u8; HEADER_LEN + LEN] =
        [a, b, c, d, HEADER, warnings_low, warnings_high, status_low, status_high];
    out.extend_from_slice(&packet);
    seq.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::split_packet;

    #[test]
    fn an_eof_reads_back_without_the_session_state_flag() {
        let mut out = Vec::new();
        let status = status::AUTOCOMMIT | status::SESSION_STATE_CHANGED;
        assert_eq!(put_eof(&mut out, 9, EofPacket { warnings: 0x0102, status }), 10);
        let (header, payload, _) = split_packet(&out).expect("whole");
        assert_eq!(header.seq, 9);
        let expected = EofPacket { warnings: 0x0102, status: status::AUTOCOMMIT };
        assert_eq!(parse(payload), Ok(expected));
    }

    #[test]
    fn rows_and_fragments_are_no_eof() {
        for payload in [&b"\xFE"[..], b"\xFE\0\0\x02", b"\xFB\0\0\x02\0", b"\xFE\0\0\0\0\0\0\0\0"] {
            assert!(parse(payload).is_err());
        }
    }
}
