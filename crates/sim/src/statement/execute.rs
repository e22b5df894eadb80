//! `COM_STMT_EXECUTE` and MariaDB's `COM_STMT_BULK_EXECUTE`, written and read.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | 0x17 |
//! | 4 | statement id |
//! | 1 | flags: 1 for a cursor |
//! | 4 | 1 |
//! | (n + 7) / 8 | bits of NULL parameters, with parameters |
//! | 1 | 1 when types follow |
//! | 2 n | types |
//! | … | values; those that came as long data have none |
//!
//! | bytes | meaning, for many rows |
//! |---|---|
//! | 1 | 0xFA |
//! | 4 | statement id |
//! | 2 | flags: 0x80, types follow |
//! | 2 n | types |
//! | … | rows: before each value a 0, as none is NULL |

use trunkline_protocol::{
    Malformed,
    codec::{Reader, put_lenenc_bytes, put_u16, put_u32, put_u64},
};

/// Type `LONGLONG`.
const LONGLONG: u8 = 0x08;
/// Type `VAR_STRING`.
const VAR_STRING: u8 = 0xFD;

/// A parameter of an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Param {
    /// A whole number.
    Number(u64),
    /// A text, within the command.
    Text(Vec<u8>),
    /// What `COM_STMT_SEND_LONG_DATA` sent before.
    LongData,
}

/// What a `COM_STMT_EXECUTE` says behind the statement's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Whether rows wait to be fetched.
    pub cursor: bool,
    /// As in the command.
    pub params: Vec<Param>,
}

/// Appends the payload of a `COM_STMT_EXECUTE`.
pub fn put_execute(out: &mut Vec<u8>, stmt_id: u32, cursor: bool, params: &[Param]) {
    out.push(0x17);
    put_u32(out, stmt_id);
    out.push(u8::from(cursor));
    put_u32(out, 1);
    if params.is_empty() {
        return;
    }
    out.resize(out.len() + params.len().div_ceil(8), 0);
    out.push(1);
    for param in params {
        let kind = match param {
            Param::Number(_) => LONGLONG,
            Param::Text(_) | Param::LongData => VAR_STRING,
        };
        out.extend_from_slice(&[kind, 0]);
    }
    for param in params {
        match param {
            Param::Number(number) => put_u64(out, *number),
            Param::Text(text) => put_lenenc_bytes(out, text),
            Param::LongData => {}
        }
    }
}

/// Reads what follows the statement's id, for a statement of `count` parameters. `has_long_data`
/// says of which long data came.
///
/// # Errors
/// [`Malformed`] when it is cut, or of types that no client sends.
pub fn read_execute(
    raw: &[u8],
    count: u16,
    has_long_data: impl Fn(u16) -> bool,
) -> Result<Execution, Malformed> {
    let mut reader = Reader::new(raw);
    let cursor = reader.u8("cursor flags")? != 0;
    reader.u32("iterations")?;
    if count == 0 {
        return Ok(Execution { cursor, params: Vec::new() });
    }
    reader.bytes(usize::from(count).div_ceil(8), "null bits")?;
    if reader.u8("types follow")? != 1 {
        return Err(Malformed("types follow"));
    }
    let types = reader.bytes(usize::from(count) * 2, "types")?;
    let mut params = Vec::with_capacity(usize::from(count));
    for (place, kind) in (0..count).zip(types.chunks(2)) {
        params.push(match kind {
            _ if has_long_data(place) => Param::LongData,
            [LONGLONG, _] => Param::Number(reader.u64("number")?),
            [VAR_STRING, _] => Param::Text(reader.lenenc_bytes("text")?.to_vec()),
            _ => return Err(Malformed("parameter type")),
        });
    }
    Ok(Execution { cursor, params })
}

/// The flag of a bulk execution that says that types follow.
const BULK_TYPES: u16 = 0x80;

/// Appends the payload of a `COM_STMT_BULK_EXECUTE` of numbers.
pub fn put_bulk(out: &mut Vec<u8>, stmt_id: u32, rows: &[Vec<u64>]) {
    out.push(0xFA);
    put_u32(out, stmt_id);
    put_u16(out, BULK_TYPES);
    for _ in rows.first().into_iter().flatten() {
        out.extend_from_slice(&[LONGLONG, 0]);
    }
    for number in rows.iter().flatten() {
        out.push(0);
        put_u64(out, *number);
    }
}

/// Reads the rows of a `COM_STMT_BULK_EXECUTE` of a statement with `count` parameters.
///
/// # Errors
/// [`Malformed`] when it is cut, or of types that no client sends.
pub fn read_bulk(raw: &[u8], count: u16) -> Result<Vec<Vec<Param>>, Malformed> {
    let mut reader = Reader::new(raw);
    if reader.u16("bulk flags")? != BULK_TYPES {
        return Err(Malformed("bulk flags"));
    }
    let types = reader.bytes(usize::from(count) * 2, "types")?;
    if !types.chunks(2).all(|kind| kind == [LONGLONG, 0]) {
        return Err(Malformed("parameter type"));
    }
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let mut row = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            if reader.u8("indicator")? != 0 {
                return Err(Malformed("indicator"));
            }
            row.push(Param::Number(reader.u64("number")?));
        }
        rows.push(row);
    }
    Ok(rows)
}
