//! The rows of `SHOW WARNINGS`, fetched from a connection that changed hands.

use trunkline_protocol::{
    codec::{
        Reader,
        frame::{put_payload, split_packet},
        put_lenenc_bytes, put_u32,
    },
    packet::{
        eof, err,
        ok::{OkPacket, put_result_end},
    },
    response::{
        ReplyFormat, ServerError,
        write::{put_columns, put_text_result},
    },
};
use trunkline_sql::recall::ShowDiagnostics;

/// The packets of an answer to `SHOW WARNINGS`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Warnings {
    /// How many columns there are.
    count: u8,
    /// Their definitions; none when the session does without.
    columns: Vec<Box<[u8]>>,
    rows: Vec<Box<[u8]>>,
}

/// Column type `LONG`.
const LONG: u8 = 0x03;
/// The collation of numbers.
const BINARY_COLLATION: u8 = 63;

/// Whether a row of `SHOW WARNINGS` has the level `Error`.
fn is_error(row: &[u8]) -> bool {
    Reader::new(row).lenenc_bytes("level").is_ok_and(|level| level == b"Error")
}

/// The form in which an answer is kept.
pub(crate) fn captured_format(server: ReplyFormat) -> ReplyFormat {
    // A server that may leave the definitions out is not asked for them.
    ReplyFormat { optional_metadata: server.optional_metadata, ..ReplyFormat::PLAIN }
}

impl Warnings {
    /// How many there are, and how many of them are errors.
    pub(super) fn counts(&self) -> (u64, u64) {
        let errors = self.rows.iter().filter(|row| is_error(row)).count();
        (self.rows.len() as u64, errors as u64)
    }

    /// The number at this place, from 0, of the answer to a `SELECT` of numbers.
    pub(crate) fn number(&self, place: usize) -> Option<u64> {
        let mut row = Reader::new(self.rows.first()?);
        let mut bytes = row.lenenc_bytes("number").ok()?;
        for _ in 0..place {
            bytes = row.lenenc_bytes("number").ok()?;
        }
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }

    /// Says that codes are numbers of 32 bits, where they were texts.
    fn number_codes(&mut self) {
        // The collation, a width and the type are followed by flags, decimals and two unused bytes.
        if let Some(code) = self.columns.get_mut(1)
            && let Some([low, high, _, _, _, _, kind, ..]) =
                code.len().checked_sub(12).and_then(|at| code.get_mut(at..))
        {
            (*low, *high, *kind) = (BINARY_COLLATION, 0, LONG);
        }
    }

    /// Reads a reply, perhaps cut off.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let mut read = Self::default();
        let (_, first, rest) = split_packet(bytes)?;
        let definitions = match first {
            [count @ 1..=16] | [count @ 1..=16, 1] => *count,
            [1..=16, 0] => 0,
            _ => return None,
        };
        read.count = *first.first()?;
        bytes = rest;
        for _ in 0..definitions {
            let (_, column, rest) = split_packet(bytes)?;
            read.columns.push(column.into());
            bytes = rest;
        }
        bytes = split_packet(bytes)?.2;
        while let Some((_, row, rest)) = split_packet(bytes) {
            if matches!(row.first(), Some(&(eof::HEADER | err::HEADER)) | None) {
                break;
            }
            read.rows.push(row.into());
            bytes = rest;
        }
        Some(read)
    }

    /// Writes what was asked for.
    pub(crate) fn put(
        &self,
        out: &mut Vec<u8>,
        show: ShowDiagnostics,
        format: ReplyFormat,
        status: u16,
    ) {
        self.put_rows(out, show, format, status, |row| Some(row.to_vec()));
    }

    /// Writes what was asked for in the binary protocol.
    pub(super) fn put_binary(
        &self,
        out: &mut Vec<u8>,
        show: ShowDiagnostics,
        format: ReplyFormat,
        status: u16,
    ) {
        self.put_rows(out, show, format, status, binary_row);
    }

    fn put_rows(
        &self,
        out: &mut Vec<u8>,
        show: ShowDiagnostics,
        format: ReplyFormat,
        status: u16,
        row_of: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) {
        let columns = self.columns.iter().map(AsRef::as_ref);
        // A definition that was read can be written.
        let mut seq = put_columns(out, 1, format, self.count.into(), columns).unwrap_or(1);
        if !format.deprecate_eof {
            seq = eof::put_eof(out, seq, eof::EofPacket { warnings: 0, status });
        }
        let rows = self.rows.iter().filter(|row| !show.errors_only || is_error(row));
        for row in limited(rows, show).filter_map(|row| row_of(row)) {
            seq = put_payload(out, seq, &row);
        }
        put_result_end(out, seq, &OkPacket { status, ..OkPacket::default() }, format);
    }
}

/// A row of `SHOW WARNINGS` (level, code, message) as prepared statements give it: no NULL, and the
/// code as a number of 32 bits.
fn binary_row(row: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(row);
    let level = reader.lenenc_bytes("level").ok()?;
    let code = std::str::from_utf8(reader.lenenc_bytes("code").ok()?).ok()?.parse().ok()?;
    let message = reader.lenenc_bytes("message").ok()?;
    let mut binary = vec![0, 0];
    put_lenenc_bytes(&mut binary, level);
    put_u32(&mut binary, code);
    put_lenenc_bytes(&mut binary, message);
    Some(binary)
}

/// As [`put_remembered`], in the binary protocol.
pub(super) fn put_remembered_binary(
    out: &mut Vec<u8>,
    past: (u16, Option<&ServerError>),
    show: ShowDiagnostics,
    format: ReplyFormat,
    status: u16,
) {
    if let Some(rows) = remembered(past, show.errors_only) {
        rows.put_binary(out, show, format, status);
    }
}

fn limited<T>(rows: impl Iterator<Item = T>, show: ShowDiagnostics) -> impl Iterator<Item = T> {
    let offset = usize::try_from(show.offset).unwrap_or(usize::MAX);
    rows.skip(offset).take(usize::try_from(show.limit).unwrap_or(usize::MAX))
}

/// What is left to tell when the warnings went with their connection.
pub(crate) fn put_remembered(
    out: &mut Vec<u8>,
    past: (u16, Option<&ServerError>),
    show: ShowDiagnostics,
    format: ReplyFormat,
    status: u16,
) {
    if let Some(rows) = remembered(past, show.errors_only) {
        rows.put(out, show, format, status);
    }
}

fn remembered(
    (warnings, error): (u16, Option<&ServerError>),
    errors_only: bool,
) -> Option<Warnings> {
    let text = |text: String| Some(text.into_bytes());
    let mut rows = Vec::new();
    if warnings > 0 && !errors_only {
        let message = format!("{warnings} warnings were lost with their connection");
        rows.push(vec![text("Warning".to_owned()), text("1105".to_owned()), text(message)]);
    }
    if let Some(error) = error {
        let message = Some(error.message.to_vec());
        rows.push(vec![text("Error".to_owned()), text(error.code.to_string()), message]);
    }
    let mut bytes = Vec::new();
    put_text_result(&mut bytes, 1, ReplyFormat::PLAIN, 0, &["Level", "Code", "Message"], &rows);
    let mut read = Warnings::read(&bytes)?;
    read.number_codes();
    Some(read)
}

#[cfg(test)]
mod tests;
