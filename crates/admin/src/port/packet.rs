//! Results as MySQL's packets, in text and in binary.
//!
//! Source: MySQL internals "Text Resultset", "Binary Protocol Resultset", "Column Definition".

use trunkline_config::AdminTypes;
use trunkline_protocol::{
    codec::{frame::put_payload, put_lenenc_bytes, put_lenenc_int, put_u16, put_u32},
    packet::{
        eof::{EofPacket, put_eof},
        err::put_err,
        ok::{OkPacket, ReplyFormat},
        status,
    },
};
use trunkline_store::{Column, ColumnKind, Value};

use crate::service::Refused;

/// The status of every session: a backslash in a text is a backslash, as SQLite has it, and
/// clients that write statements must know.
pub const STATUS: u16 = status::AUTOCOMMIT | status::NO_BACKSLASH_ESCAPES;

/// `utf8mb4_general_ci`.
const TEXT_COLLATION: u16 = 45;
/// `binary`.
const BINARY_COLLATION: u16 = 63;
/// The widest text that a column is said to have, in bytes.
const TEXT_WIDTH: u32 = 1 << 16;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As answers to statements.
    Text,
    /// As answers to executions of prepared statements.
    Binary,
}

/// Appends what comes before the rows of a result; the number of the next packet.
pub fn put_head(
    out: &mut Vec<u8>,
    seq: u8,
    format: ReplyFormat,
    status: u16,
    columns: &[Column],
) -> u8 {
    let mut payload = Vec::new();
    put_lenenc_int(&mut payload, columns.len() as u64);
    let mut seq = put_payload(out, seq, &payload);
    seq = put_columns(out, seq, columns);
    if !format.deprecate_eof {
        seq = put_eof(out, seq, EofPacket { warnings: 0, status });
    }
    seq
}

/// Appends a row; the number of the next packet.
pub fn put_row(out: &mut Vec<u8>, seq: u8, form: Form, row: &[Value], columns: &[Column]) -> u8 {
    let mut payload = Vec::new();
    match form {
        Form::Text => put_text_row(&mut payload, row),
        Form::Binary => put_binary_row(&mut payload, row, columns),
    }
    put_payload(out, seq, &payload)
}

/// Appends definitions of columns.
pub fn put_columns(out: &mut Vec<u8>, seq: u8, columns: &[Column]) -> u8 {
    columns.iter().fold(seq, |seq, column| {
        let mut payload = Vec::new();
        // Catalogue, schema, table, original table, name, original name.
        for text in ["def", "", "", "", &column.name, &column.name] {
            put_lenenc_bytes(&mut payload, text.as_bytes());
        }
        let (kind, collation, width, decimals) = match column.kind {
            ColumnKind::Integer => (0x08, BINARY_COLLATION, 20, 0),
            ColumnKind::Real => (0x05, BINARY_COLLATION, 22, 31),
            ColumnKind::Text => (0xFD, TEXT_COLLATION, TEXT_WIDTH, 0),
            ColumnKind::Bytes => (0xFC, BINARY_COLLATION, TEXT_WIDTH, 0),
        };
        put_lenenc_int(&mut payload, 12);
        put_u16(&mut payload, collation);
        put_u32(&mut payload, width);
        payload.push(kind);
        let flags = if collation == BINARY_COLLATION { 0x0080 } else { 0 };
        put_u16(&mut payload, flags);
        payload.push(decimals);
        put_u16(&mut payload, 0);
        put_payload(out, seq, &payload)
    })
}

/// Columns with the types that clients are told.
pub fn told(mut columns: Vec<Column>, types: AdminTypes) -> Vec<Column> {
    if types == AdminTypes::Text {
        for column in &mut columns {
            column.kind = match column.kind {
                ColumnKind::Integer | ColumnKind::Real | ColumnKind::Text => ColumnKind::Text,
                // Drivers would fail to decode them as texts.
                ColumnKind::Bytes => ColumnKind::Bytes,
            };
        }
    }
    columns
}

/// A number with a fraction: as short as it is read back the same, always with a point, as SQLite
/// writes those that people have.
fn real_text(number: f64) -> String {
    format!("{number:?}")
}

/// A value as text; `None` for NULL.
fn text_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Real(number) => Some(real_text(*number).into_bytes()),
        Value::Text(text) => Some(text.clone().into_bytes()),
        Value::Blob(bytes) => Some(bytes.clone()),
    }
}

fn put_text_row(payload: &mut Vec<u8>, row: &[Value]) {
    for value in row {
        match text_of(value) {
            Some(text) => put_lenenc_bytes(payload, &text),
            None => payload.push(0xFB),
        }
    }
}

fn put_binary_row(payload: &mut Vec<u8>, row: &[Value], columns: &[Column]) {
    payload.push(0);
    // The first two bits are unused.
    let mut nulls = vec![0_u8; (row.len() + 9) / 8];
    for (at, value) in row.iter().enumerate() {
        let bit = at + 2;
        if *value == Value::Null
            && let Some(byte) = nulls.get_mut(bit / 8)
        {
            *byte |= 1 << (bit % 8);
        }
    }
    payload.extend_from_slice(&nulls);
    for (value, column) in row.iter().zip(columns) {
        match (column.kind, value) {
            (_, Value::Null) => {}
            (ColumnKind::Integer, Value::Integer(number)) => {
                payload.extend_from_slice(&number.to_le_bytes());
            }
            (ColumnKind::Real, Value::Real(number)) => {
                payload.extend_from_slice(&number.to_le_bytes());
            }
            // The store gives a column a type that all of its values have, or text.
            (_, value) => put_lenenc_bytes(payload, &text_of(value).unwrap_or_default()),
        }
    }
}

/// An OK that says so much.
pub(super) fn ok(affected_rows: u64, info: &str) -> OkPacket<'_> {
    OkPacket { affected_rows, status: STATUS, info: info.as_bytes(), ..OkPacket::default() }
}

/// Appends an error; gives the number of the packet that comes next.
pub(super) fn put_refusal(out: &mut Vec<u8>, seq: u8, refused: &Refused) -> u8 {
    put_err(out, seq, refused.code, refused.state, &refused.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_fraction_are_written_as_sqlite_writes_them() {
        for number in [0.0, 1.0, -1.0, 0.1, 1.5, -2.25, 100.0, 1e14, 123_456_789.125, 0.001, 99.9] {
            assert_eq!(real_text(number), sqlite_text(number));
        }
    }

    /// What SQLite makes of it.
    fn sqlite_text(number: f64) -> String {
        let place = trunkline_store::Place::Memory;
        let mut store =
            trunkline_store::Store::open(&place, Box::new(|_, _| Ok(()))).expect("a store");
        let sql = "SELECT CAST(? AS TEXT)";
        let access = trunkline_store::Access::Internal;
        match store.run(sql, &[Value::Real(number)], access).expect("a row") {
            trunkline_store::Answer::Rows(rows) => {
                match rows.rows.first().and_then(|r| r.first()) {
                    Some(Value::Text(text)) => text.clone(),
                    other => panic!("{other:?}"),
                }
            }
            trunkline_store::Answer::Done(_) => panic!("no rows"),
        }
    }

    #[test]
    fn columns_are_texts_unless_real_types_are_asked_for() {
        let kinds = [ColumnKind::Text, ColumnKind::Integer, ColumnKind::Real, ColumnKind::Bytes];
        let columns: Vec<Column> =
            kinds.into_iter().map(|kind| Column { name: "c".to_owned(), kind }).collect();
        let shown = |types| -> Vec<ColumnKind> {
            told(columns.clone(), types).into_iter().map(|column| column.kind).collect()
        };
        let text = ColumnKind::Text;
        assert_eq!(shown(AdminTypes::Text), [text, text, text, ColumnKind::Bytes]);
        assert_eq!(shown(AdminTypes::Real), kinds);
        // An execution's row is written by what was told.
        let mut out = Vec::new();
        let row = [Value::Integer(12), Value::Null, Value::Real(1.0)];
        let three = told(columns.get(..3).unwrap_or_default().to_vec(), AdminTypes::Text);
        put_binary_row(&mut out, &row, &three);
        assert_eq!(out, [0, 0b1000, 2, b'1', b'2', 3, b'1', b'.', b'0']);
    }
}
