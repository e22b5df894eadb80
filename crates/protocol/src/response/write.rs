//! Replies that the proxy makes itself. Rare, so written for clarity.

use super::metadata::{put_column_count, translated};
use crate::codec::frame::put_payload;
use crate::codec::{Malformed, put_lenenc_bytes, put_lenenc_int, put_u16, put_u32};
use crate::packet::eof::{EofPacket, put_eof};
use crate::packet::ok::{OkPacket, ReplyFormat, put_result_end};

/// Collation `utf8mb4_general_ci`, the same number in MariaDB and MySQL.
const COLLATION: u16 = 45;
/// Column type `VAR_STRING`.
const VAR_STRING: u8 = 0xFD;
/// Bytes of the fixed-length fields of a column definition.
const FIXED_FIELDS_LEN: u64 = 12;
/// The display width that every column is given, in bytes.
const COLUMN_WIDTH: u32 = 1024;

/// Appends a text result set whose columns all hold strings (utf8mb4) or NULL, and returns the
/// sequence number after it. `status` is that of the session which gets it.
///
/// `columns` must not be empty, and each row must have as many values as there are columns.
pub fn put_text_result(
    out: &mut Vec<u8>,
    seq: u8,
    format: ReplyFormat,
    status: u16,
    columns: &[&str],
    rows: &[Vec<Option<Vec<u8>>>],
) -> u8 {
    debug_assert!(!columns.is_empty());
    let mut payload = Vec::new();
    put_column_count(&mut payload, columns.len() as u64, true, format);
    let mut seq = put_payload(out, seq, &payload);
    for column in columns {
        payload.clear();
        put_column(&mut payload, column, format);
        seq = put_payload(out, seq, &payload);
    }
    if !format.deprecate_eof {
        seq = put_eof(out, seq, EofPacket { warnings: 0, status });
    }
    for row in rows {
        debug_assert_eq!(row.len(), columns.len());
        payload.clear();
        for value in row {
            match value {
                Some(value) => put_lenenc_bytes(&mut payload, value),
                None => payload.push(0xFB),
            }
        }
        seq = put_payload(out, seq, &payload);
    }
    put_result_end(out, seq, &OkPacket { status, ..OkPacket::default() }, format)
}

/// Appends a column count and the definitions, which come from a server without extended
/// metadata, and returns the sequence number after them. None are written for a side that can do
/// without them when `definitions` is empty.
///
/// # Errors
/// [`Malformed`] when a definition is cut short; `out` then holds a part of it all.
pub fn put_columns<'a>(
    out: &mut Vec<u8>,
    seq: u8,
    format: ReplyFormat,
    count: u64,
    definitions: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<u8, Malformed> {
    let mut payload = Vec::new();
    put_column_count(&mut payload, count, definitions.len() > 0, format);
    let mut seq = put_payload(out, seq, &payload);
    for definition in definitions {
        seq = put_payload(out, seq, &translated(definition, ReplyFormat::PLAIN, format)?);
    }
    Ok(seq)
}

fn put_column(payload: &mut Vec<u8>, name: &str, format: ReplyFormat) {
    // Catalog, schema, table, original table, name, original name.
    for text in ["def", "", "", "", name, ""] {
        put_lenenc_bytes(payload, text.as_bytes());
    }
    if format.extended_metadata {
        put_lenenc_bytes(payload, b"");
    }
    put_lenenc_int(payload, FIXED_FIELDS_LEN);
    put_u16(payload, COLLATION);
    put_u32(payload, COLUMN_WIDTH);
    payload.push(VAR_STRING);
    // Flags, decimals (31: not a fixed number) and two unused bytes.
    put_u16(payload, 0);
    payload.push(31);
    put_u16(payload, 0);
}
