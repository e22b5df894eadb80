//! What the proxy learns from a response while it relays it.

use crate::codec::Malformed;
use crate::packet::err::{ErrPacket, MESSAGE_MAX};
use crate::packet::ok::OkPacket;
use crate::packet::status;

use super::ClientColumns;

/// The most bytes of session state that one response may carry in all.
const CHANGES_MAX: usize = 16 << 20;

/// An error that a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Error code, as in MySQL's error reference.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// Text in the connection's character set, its first 512 bytes.
    pub message: Box<[u8]>,
}

/// A statement that a server prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// The server's id of the statement on this connection.
    pub stmt_id: u32,
    /// Number of parameters.
    pub params: u16,
    /// Number of result columns.
    pub columns: u16,
    /// Whether a parameter is of MySQL's type `VECTOR`, as far as its definition says.
    pub takes_vector: bool,
}

/// What a response said. Complete once the relay says that the response has ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Status flags of the last OK or final EOF packet; `None` when there was none: an error or
    /// text alone, or a prepared statement whose server sends no EOF.
    pub status: Option<u16>,
    /// Warnings of the last OK or final EOF packet.
    pub warnings: u16,
    /// Affected rows, summed over the OK packets.
    pub affected_rows: u64,
    /// What `ROW_COUNT()` is behind the last OK or final EOF packet: -1 behind rows. An error does
    /// not change this, though it makes it -1 as well.
    pub row_count: i64,
    /// How many rows an `UPDATE` found, changed or not: the first number that the last OK packet
    /// says, 0 for none, and the greatest number for more. Behind other statements it means
    /// something else.
    pub matched_rows: u32,
    /// The last insert id that was not 0; 0 for none.
    pub last_insert_id: u64,
    /// Rows over all result sets.
    pub rows: u64,
    /// Result sets begun, as far as it can count.
    pub result_sets: u16,
    /// Bytes that the server sent, framing included.
    pub bytes: u64,
    /// The error that ended the response.
    pub error: Option<ServerError>,
    /// Raw session state of all OK packets, one after the other: input for
    /// [`track::Changes`](crate::packet::track::Changes).
    pub changes: Vec<u8>,
    /// The statement that was prepared.
    pub prepared: Option<Prepared>,
    /// What its client knows of the columns now; see [`Relay::set_known_columns`](super::Relay).
    pub columns: ClientColumns,
}

impl Outcome {
    /// Becomes that of a response which has said nothing yet. Memory for session state is kept.
    #[inline]
    pub(super) fn clear(&mut self) {
        let Self {
            status,
            warnings,
            affected_rows,
            row_count,
            matched_rows,
            last_insert_id,
            rows,
            result_sets,
            bytes,
            error,
            changes,
            prepared,
            columns,
        } = self;
        (*status, *warnings, *result_sets, *matched_rows) = (None, 0, 0, 0);
        (*affected_rows, *row_count, *last_insert_id, *rows, *bytes) = (0, 0, 0, 0, 0);
        (*error, *prepared, *columns) = (None, None, ClientColumns::Unknown);
        changes.clear();
    }

    /// Takes over what an OK or final EOF packet says.
    pub(super) fn add_ok(&mut self, ok: &OkPacket<'_>, is_eof: bool) -> Result<(), Malformed> {
        self.row_count = match is_eof {
            true => -1,
            false => i64::try_from(ok.affected_rows).unwrap_or(i64::MAX),
        };
        self.matched_rows = matched_rows(ok.info);
        self.status = Some(ok.status);
        self.warnings = ok.warnings;
        self.affected_rows = self.affected_rows.saturating_add(ok.affected_rows);
        if ok.last_insert_id != 0 {
            self.last_insert_id = ok.last_insert_id;
        }
        if !ok.changes.is_empty() {
            if self.changes.len() + ok.changes.len() > CHANGES_MAX {
                return Err(Malformed("session state length"));
            }
            self.changes.extend_from_slice(ok.changes);
        }
        Ok(())
    }

    /// Takes over an error. It ends the response, so results announced before it do not come.
    pub(super) fn add_error(&mut self, error: &ErrPacket<'_>) {
        self.status = self.status.map(|flags| flags & !status::MORE_RESULTS);
        let message = error.message.get(..MESSAGE_MAX).unwrap_or(error.message);
        let ErrPacket { code, sqlstate, .. } = *error;
        self.error = Some(ServerError { code, sqlstate, message: message.into() });
    }
}

/// The first number in `Rows matched: 1  Changed: 0  Warnings: 0`, which a server says in its
/// session's `lc_messages`.
fn matched_rows(info: &[u8]) -> u32 {
    let digits = info.iter().skip_while(|byte| !byte.is_ascii_digit());
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_u32, |sum, digit| {
        sum.saturating_mul(10).saturating_add(u32::from(digit.wrapping_sub(b'0')))
    })
}

/// An error that a client is given in place of a server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorInstead {
    /// Error code.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: [u8; 5],
    /// Text.
    pub message: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_matched_are_told_in_every_language() {
        for (info, expected) in [
            ("", 0),
            ("Rows matched: 3  Changed: 1  Warnings: 0", 3),
            ("Datensätze gefunden: 12  Geändert: 0  Warnungen: 0", 12),
            ("該当した行: 4294967296  変更: 0", u32::MAX),
            ("Rows matched", 0),
        ] {
            assert_eq!(matched_rows(info.as_bytes()), expected, "{info}");
        }
    }
}
