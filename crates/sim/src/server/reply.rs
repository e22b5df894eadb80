//! Packets of replies, as MariaDB 10.11 and MySQL 9.7 write them.

use trunkline_protocol::{
    codec::{frame::put_payload, put_lenenc_bytes, put_lenenc_int, put_u16, put_u32},
    packet::{
        eof::{EofPacket, put_eof},
        err::put_err,
        ok::{OkPacket, ReplyFormat, put_ok, put_result_end},
        status,
    },
};

use super::conn::Form;
use crate::statement::{Answer, Cell, Done, Failure, Rows};

/// Column type `VAR_STRING`.
const VAR_STRING: u8 = 0xFD;
/// Collation `utf8mb4_general_ci`.
const COLLATION: u16 = 45;

/// What every part of a reply needs to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) format: ReplyFormat,
    /// Of the session, with `MORE_RESULTS` where more follow.
    pub(super) status: u16,
    /// Session state.
    pub(super) changes: &'a [u8],
}

impl Frame<'_> {
    /// Appends a statement's answer; returns the number after it.
    pub(super) fn put(&self, out: &mut Vec<u8>, seq: u8, answer: &Answer, form: Form) -> u8 {
        match answer {
            Answer::Done(done) => self.put_done(out, seq, *done),
            Answer::Failed(failure) => put_failure(out, seq, failure),
            Answer::Rows(rows) => self.put_rows(out, seq, rows, form),
        }
    }

    pub(super) fn put_done(&self, out: &mut Vec<u8>, seq: u8, done: Done) -> u8 {
        let info: &[u8] = match done.affected {
            0 => b"",
            _ => b"Records: 1  Duplicates: 0  Warnings: 0",
        };
        let ok = OkPacket {
            affected_rows: done.affected,
            last_insert_id: done.last_insert_id,
            warnings: done.warnings,
            info,
            ..self.ok()
        };
        put_ok(out, seq, &ok, self.format)
    }

    fn ok(&self) -> OkPacket<'_> {
        OkPacket { status: self.status, changes: self.changes, ..OkPacket::default() }
    }

    /// Appends the answer to `COM_SET_OPTION` and the like, which is an EOF.
    pub(super) fn put_end(&self, out: &mut Vec<u8>, seq: u8) -> u8 {
        put_result_end(out, seq, &self.ok(), self.format)
    }

    fn put_rows(&self, out: &mut Vec<u8>, seq: u8, rows: &Rows, form: Form) -> u8 {
        let mut payload = Vec::new();
        put_lenenc_int(&mut payload, rows.columns.len() as u64);
        let mut seq = put_payload(out, seq, &payload);
        seq = put_columns(out, seq, rows.columns);
        if let Form::Cursor(_) = form {
            let frame = Self { status: self.status | status::CURSOR_EXISTS, ..*self };
            return frame.put_end(out, seq);
        }
        if !self.format.deprecate_eof {
            seq = put_eof(out, seq, EofPacket { warnings: rows.warnings, status: self.status });
        }
        for row in &rows.rows {
            payload.clear();
            match form {
                Form::Text => put_text_row(&mut payload, row),
                Form::Binary | Form::Cursor(_) | Form::Bulk => put_binary_row(&mut payload, row),
            }
            seq = put_payload(out, seq, &payload);
        }
        let ok = OkPacket { warnings: rows.warnings, ..self.ok() };
        put_result_end(out, seq, &ok, self.format)
    }

    /// Appends rows that were fetched from a cursor, and their end.
    pub(super) fn put_fetched(&self, out: &mut Vec<u8>, rows: &[Vec<Cell>]) {
        let mut seq = 1;
        for row in rows {
            let mut payload = Vec::new();
            put_binary_row(&mut payload, row);
            seq = put_payload(out, seq, &payload);
        }
        self.put_end(out, seq);
    }

    /// Appends the answer to a `COM_STMT_PREPARE`.
    pub(super) fn put_prepared(&self, out: &mut Vec<u8>, id: u32, params: u16, columns: &[&str]) {
        let mut payload = vec![0];
        put_u32(&mut payload, id);
        put_u16(&mut payload, u16::try_from(columns.len()).unwrap_or(u16::MAX));
        put_u16(&mut payload, params);
        payload.push(0);
        put_u16(&mut payload, 0);
        let mut seq = put_payload(out, 1, &payload);
        let names = vec!["?"; usize::from(params)];
        for part in [names.as_slice(), columns] {
            if part.is_empty() {
                continue;
            }
            seq = put_columns(out, seq, part);
            if !self.format.deprecate_eof {
                seq = put_eof(out, seq, EofPacket { warnings: 0, status: self.status });
            }
        }
    }

    /// Appends the answer to a `COM_FIELD_LIST`.
    pub(super) fn put_field_list(&self, out: &mut Vec<u8>, columns: &[&str]) {
        let mut seq = 1;
        for column in columns {
            let mut payload = Vec::new();
            put_column(&mut payload, column);
            // The default value: NULL.
            payload.push(0xFB);
            seq = put_payload(out, seq, &payload);
        }
        self.put_end(out, seq);
    }
}

/// Appends an error.
pub(super) fn put_failure(out: &mut Vec<u8>, seq: u8, failure: &Failure) -> u8 {
    put_err(out, seq, failure.code, &failure.sqlstate, &failure.message)
}

fn put_columns(out: &mut Vec<u8>, mut seq: u8, columns: &[&str]) -> u8 {
    let mut payload = Vec::new();
    for column in columns {
        payload.clear();
        put_column(&mut payload, column);
        seq = put_payload(out, seq, &payload);
    }
    seq
}

fn put_column(payload: &mut Vec<u8>, name: &str) {
    // Catalog, schema, table, original table, name, original name.
    for text in ["def", "", "", "", name, name] {
        put_lenenc_bytes(payload, text.as_bytes());
    }
    put_lenenc_int(payload, 12);
    put_u16(payload, COLLATION);
    put_u32(payload, 1_024);
    payload.push(VAR_STRING);
    put_u16(payload, 0);
    payload.push(31);
    put_u16(payload, 0);
}

fn put_text_row(payload: &mut Vec<u8>, row: &[Cell]) {
    for cell in row {
        match cell {
            Some(text) => put_lenenc_bytes(payload, text.as_bytes()),
            None => payload.push(0xFB),
        }
    }
}

/// 0x00, a bit for each NULL from bit 2 on, the values.
fn put_binary_row(payload: &mut Vec<u8>, row: &[Cell]) {
    payload.push(0);
    let start = payload.len();
    payload.resize(start + (row.len() + 2).div_ceil(8), 0);
    for (place, cell) in row.iter().enumerate() {
        let bit = place + 2;
        match cell {
            Some(text) => put_lenenc_bytes(payload, text.as_bytes()),
            None => {
                if let Some(byte) = payload.get_mut(start + bit / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        }
    }
}
