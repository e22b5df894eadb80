//! The OK packet: a command succeeded, or (with `CLIENT_DEPRECATE_EOF`) a result set ended.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | 0x00, or 0xFE at the end of a result set |
//! | lenenc | affected rows |
//! | lenenc | last insert id |
//! | 2 | status flags ([`status`]) |
//! | 2 | warnings |
//! | lenenc string | info; absent when it is empty and no session state follows |
//! | lenenc string | session state ([`track`](super::track)) |
//!
//! Session state is there with `CLIENT_SESSION_TRACK` and the flag `SESSION_STATE_CHANGED` only.
//! MySQL's documentation gives info without `CLIENT_SESSION_TRACK` as the rest of the packet;
//! MariaDB 10.11 and MySQL 9.7 write a length-encoded string there too, and so does this module.
//! Source: MySQL internals, "`OK_Packet`"; both servers' bytes.

use super::eof::{self, EofPacket};
pub use super::reply_format::ReplyFormat;
use super::status;
use crate::codec::frame::{HEADER_LEN, PAYLOAD_MAX, begin_packet, end_packet};
use crate::codec::{Malformed, Reader, put_lenenc_bytes, put_lenenc_int, put_u16};

/// First payload byte of an OK packet that answers a command.
pub const HEADER: u8 = 0x00;

/// The content of an OK packet, borrowed from its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OkPacket<'a> {
    /// Rows that the statement changed.
    pub affected_rows: u64,
    /// The first generated AUTO_INCREMENT value; 0 for none.
    pub last_insert_id: u64,
    /// Status flags ([`status`]).
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Text for people, such as `Rows matched: 1  Changed: 1  Warnings: 0`.
    pub info: &'a [u8],
    /// Raw session state: entries for [`track::Changes`](super::track::Changes).
    pub changes: &'a [u8],
}

/// Reads an OK payload, its first byte (0x00 or 0xFE) included.
///
/// `session_track` is what the connection negotiated.
///
/// # Errors
/// [`Malformed`] when a field is cut or the first byte is another.
pub fn parse(payload: &[u8], session_track: bool) -> Result<OkPacket<'_>, Malformed> {
    let mut reader = Reader::new(payload);
    if !matches!(reader.u8("ok header")?, HEADER | eof::HEADER) {
        return Err(Malformed("ok header"));
    }
    let affected_rows = reader.lenenc_int("affected rows")?;
    let last_insert_id = reader.lenenc_int("last insert id")?;
    let status = reader.u16("ok status")?;
    let warnings = reader.u16("ok warnings")?;
    let mut ok =
        OkPacket { affected_rows, last_insert_id, status, warnings, info: b"", changes: b"" };
    if reader.is_empty() {
        return Ok(ok);
    }
    if session_track {
        ok.info = reader.lenenc_bytes("ok info")?;
        if status & status::SESSION_STATE_CHANGED != 0 {
            ok.changes = reader.lenenc_bytes("session state")?;
        }
    } else {
        ok.info = info_to_the_end(reader);
    }
    Ok(ok)
}

/// The info of a connection without session tracking: length-encoded when the length fits the
/// rest exactly, as servers write it, else all of the rest, as documented.
fn info_to_the_end(mut reader: Reader<'_>) -> &[u8] {
    let rest = reader.rest();
    match reader.lenenc_bytes("ok info") {
        Ok(info) if reader.is_empty() => info,
        Ok(_) | Err(_) => rest,
    }
}

/// Appends a whole OK packet (header 0x00), framing included, and returns the sequence number
/// after it.
///
/// Without `session_track` the changes are left out; the flag `SESSION_STATE_CHANGED` is set
/// exactly when changes are written. Info and changes must be shorter than 16 MiB together.
pub fn put_ok(out: &mut Vec<u8>, seq: u8, ok: &OkPacket<'_>, format: ReplyFormat) -> u8 {
    put_with_header(out, seq, HEADER, ok, format.session_track)
}

/// Appends the packet that ends rows, framing included: OK with header 0xFE, or EOF for a side
/// without `deprecate_eof`. Returns the sequence number after it.
pub fn put_result_end(out: &mut Vec<u8>, seq: u8, ok: &OkPacket<'_>, format: ReplyFormat) -> u8 {
    if format.deprecate_eof {
        put_with_header(out, seq, eof::HEADER, ok, format.session_track)
    } else {
        eof::put_eof(out, seq, EofPacket { warnings: ok.warnings, status: ok.status })
    }
}

fn put_with_header(
    out: &mut Vec<u8>,
    seq: u8,
    header: u8,
    ok: &OkPacket<'_>,
    session_track: bool,
) -> u8 {
    let changes = if session_track { ok.changes } else { b"" };
    let start = begin_packet(out, seq);
    out.push(header);
    put_lenenc_int(out, ok.affected_rows);
    put_lenenc_int(out, ok.last_insert_id);
    let status = ok.status & !status::SESSION_STATE_CHANGED;
    if changes.is_empty() {
        put_u16(out, status);
        put_u16(out, ok.warnings);
        if !ok.info.is_empty() {
            put_lenenc_bytes(out, ok.info);
        }
    } else {
        put_u16(out, status | status::SESSION_STATE_CHANGED);
        put_u16(out, ok.warnings);
        put_lenenc_bytes(out, ok.info);
        put_lenenc_bytes(out, changes);
    }
    debug_assert!(out.len() - start - HEADER_LEN < PAYLOAD_MAX);
    end_packet(out, start);
    seq.wrapping_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::frame::split_packet;

    const BOTH: ReplyFormat =
        ReplyFormat { deprecate_eof: true, session_track: true, ..ReplyFormat::PLAIN };
    const NEITHER: ReplyFormat = ReplyFormat::PLAIN;

    fn check(ok: &OkPacket<'_>, format: ReplyFormat, expected: &OkPacket<'_>) {
        let mut out = Vec::new();
        assert_eq!(put_ok(&mut out, 255, ok, format), 0);
        let (_, payload, rest) = split_packet(&out).expect("whole");
        assert!(rest.is_empty());
        assert_eq!(parse(payload, format.session_track), Ok(*expected));
        for cut in 0..5 {
            assert!(parse(&payload[..cut], format.session_track).is_err());
        }
    }

    #[test]
    fn an_ok_reads_back_in_both_formats() {
        let full = OkPacket {
            affected_rows: 70_000,
            last_insert_id: u64::MAX,
            status: status::AUTOCOMMIT | status::SESSION_STATE_CHANGED,
            warnings: 3,
            info: b"Records: 2",
            changes: b"\x01\x03\x02db",
        };
        check(&full, BOTH, &full);
        let plain = OkPacket { status: status::AUTOCOMMIT, changes: b"", ..full };
        check(&full, NEITHER, &plain);
        check(&plain, BOTH, &plain);
        check(&OkPacket { info: b"", ..full }, BOTH, &OkPacket { info: b"", ..full });
        check(&OkPacket::default(), BOTH, &OkPacket::default());
    }

    #[test]
    fn info_without_session_tracking_may_also_be_the_rest_of_the_packet() {
        let ok = parse(b"\x00\x01\x00\x02\x00\x00\x00Rows matched: 1", false).expect("ok");
        assert_eq!(ok.info, b"Rows matched: 1");
    }

    #[test]
    fn the_end_of_rows_follows_the_format() {
        let ok = OkPacket { status: status::AUTOCOMMIT, warnings: 1, ..OkPacket::default() };
        let mut out = Vec::new();
        put_result_end(&mut out, 4, &ok, NEITHER);
        assert_eq!(out, b"\x05\x00\x00\x04\xFE\x01\x00\x02\x00");
        out.clear();
        put_result_end(&mut out, 4, &ok, BOTH);
        assert_eq!(out, b"\x07\x00\x00\x04\xFE\x00\x00\x02\x00\x01\x00");
    }
}
