//! The ERR packet: a command failed.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | 0xFF |
//! | 2 | error code |
//! | 6 | `#` and the SQLSTATE; absent before authentication has begun |
//! | n | message |
//!
//! Source: MySQL internals, "`ERR_Packet`".

use crate::codec::frame::{begin_packet, end_packet};
use crate::codec::{Malformed, Reader, put_u16};

/// First payload byte.
pub const HEADER: u8 = 0xFF;
/// The code of MariaDB's progress reports, which look like errors and are none.
/// Source: MariaDB knowledge base, "Progress Reporting".
pub const PROGRESS_CODE: u16 = 0xFFFF;
/// The most bytes of a message that servers send and clients keep (`MYSQL_ERRMSG_SIZE`).
pub const MESSAGE_MAX: usize = 512;
/// The SQLSTATE of an error that names none.
pub const GENERAL_SQLSTATE: [u8; 5] = *b"HY000";

/// An error, borrowed from its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrPacket<'a> {
    /// Error code, as in MySQL's error reference.
    pub code: u16,
    /// SQLSTATE; [`GENERAL_SQLSTATE`] when the packet has none.
    pub sqlstate: [u8; 5],
    /// Text in the connection's character set.
    pub message: &'a [u8],
}

/// Reads an ERR payload, its first byte included.
///
/// # Errors
/// [`Malformed`] when it is too short or begins with another byte than [`HEADER`].
pub fn parse(payload: &[u8]) -> Result<ErrPacket<'_>, Malformed> {
    let mut reader = Reader::new(payload);
    if reader.u8("error header")? != HEADER {
        return Err(Malformed("error header"));
    }
    let code = reader.u16("error code")?;
    let (sqlstate, message) = match reader.rest() {
        [b'#', a, b, c, d, e, message @ ..] => ([*a, *b, *c, *d, *e], message),
        message => (GENERAL_SQLSTATE, message),
    };
    Ok(ErrPacket { code, sqlstate, message })
}

/// Appends a whole ERR packet, framing included, and returns the sequence number after it.
/// A message longer than [`MESSAGE_MAX`] bytes is cut at a character.
pub fn put_err(out: &mut Vec<u8>, seq: u8, code: u16, sqlstate: &[u8; 5], message: &str) -> u8 {
    let start = begin_packet(out, seq);
    out.push(HEADER);
    put_u16(out, code);
    out.push(b'#');
    out.extend_from_slice(sqlstate);
    let (message, _) = message.split_at(message.floor_char_boundary(MESSAGE_MAX));
    out.extend_from_slice(message.as_bytes());
    end_packet(out, start);
    seq.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::split_packet;

    #[test]
    fn an_error_reads_back() {
        let mut out = Vec::new();
        let next = put_err(&mut out, 255, 1045, b"28000", "Access denied");
        let (header, payload, rest) = split_packet(&out).expect("whole");
        assert_eq!((next, header.seq, rest.len()), (0, 255, 0));
        let expected = ErrPacket { code: 1045, sqlstate: *b"28000", message: b"Access denied" };
        assert_eq!(parse(payload), Ok(expected));
    }

    #[test]
    fn an_error_before_the_handshake_has_no_sqlstate() {
        let error = parse(b"\xFF\x10\x04Too many connections").expect("error");
        assert_eq!((error.code, error.sqlstate), (1040, GENERAL_SQLSTATE));
        assert_eq!(error.message, b"Too many connections");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let mut out = Vec::new();
        put_err(&mut out, 1, 1064, b"42000", &"é".repeat(300).replacen('é', "e", 1));
        let (_, payload, _) = split_packet(&out).expect("whole");
        let message = parse(payload).expect("error").message;
        assert_eq!(message.len(), MESSAGE_MAX - 1);
        assert!(std::str::from_utf8(message).is_ok());
    }

    #[test]
    fn short_and_foreign_payloads_are_malformed() {
        for payload in [&b""[..], b"\xFF", b"\xFF\x01", b"\x00\x00\x00"] {
            assert!(parse(payload).is_err());
        }
    }
}
