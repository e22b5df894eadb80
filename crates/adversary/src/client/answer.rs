//! What an answer says.

use std::fmt;
use std::io::{self, ErrorKind};

use anyhow::{Context, Result};
use trunkline_protocol::codec::Reader;
use trunkline_protocol::packet::{err, ok, status};

/// Status flags that a client may build on.
const FLAGS: u16 = status::IN_TRANS
    | status::AUTOCOMMIT
    | status::MORE_RESULTS
    | status::NO_BACKSLASH_ESCAPES
    | status::IN_TRANS_READONLY;

/// An error packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The server's number.
    pub code: u16,
    /// SQLSTATE.
    pub sqlstate: String,
    /// The text; it is shown and not compared.
    pub text: String,
}

/// A result with rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Column definitions, as they came.
    pub columns: Vec<Vec<u8>>,
    /// Rows, as they came.
    pub rows: Vec<Vec<u8>>,
    /// Warnings.
    pub warnings: u16,
    /// Status flags, those that are compared.
    pub status: u16,
    count: u64,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An OK packet.
    Ok {
        /// Rows changed.
        affected: u64,
        /// The last insert id.
        insert_id: u64,
        /// Warnings.
        warnings: u16,
        /// Status flags, those that are compared.
        status: u16,
        /// `Rows matched: …`.
        info: String,
    },
    /// A result with rows.
    Rows(Rows),
    /// An error.
    Error(Refusal),
    /// The connection ended.
    Lost,
    /// Nothing came for as long as one waits.
    Silent,
}

impl Answer {
    /// What a connection that failed is taken for.
    pub(super) fn of_failure(error: &anyhow::Error) -> Answer {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        match kind {
            Some(ErrorKind::WouldBlock | ErrorKind::TimedOut) => Answer::Silent,
            _ => Answer::Lost,
        }
    }

    pub(super) fn of_ok(packet: &[u8]) -> Result<Answer> {
        let ok = ok::parse(packet, false)?;
        Ok(Answer::Ok {
            affected: ok.affected_rows,
            insert_id: ok.last_insert_id,
            warnings: ok.warnings,
            status: ok.status & FLAGS,
            info: String::from_utf8_lossy(ok.info).into_owned(),
        })
    }

    /// Status flags, those that are compared; none for an error.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Answer::Ok { status, .. } => *status,
            Answer::Rows(rows) => rows.status,
            Answer::Error(_) | Answer::Lost | Answer::Silent => 0,
        }
    }

    pub(super) fn has_more(&self) -> bool {
        self.status() & status::MORE_RESULTS != 0
    }

    /// Whether a transaction is open behind it.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.status() & status::IN_TRANS != 0
    }
}

impl Refusal {
    pub(super) fn parse(payload: &[u8]) -> Result<Refusal> {
        let error = err::parse(payload).map_err(|e| anyhow::anyhow!("{e}: {payload:02x?}"))?;
        Ok(Refusal {
            code: error.code,
            sqlstate: String::from_utf8_lossy(&error.sqlstate).into_owned(),
            text: String::from_utf8_lossy(error.message).into_owned(),
        })
    }
}

impl Rows {
    pub(super) fn new(first: &[u8]) -> Result<Rows> {
        let count = Reader::new(first).lenenc_int("column count")?;
        let (columns, rows) = (Vec::new(), Vec::new());
        Ok(Rows { columns, rows, warnings: 0, status: 0, count })
    }

    pub(super) fn column_count(&self) -> u64 {
        self.count
    }

    pub(super) fn end(&mut self, eof: &[u8]) -> Result<()> {
        let mut reader = Reader::new(eof.get(1..).context("an empty EOF packet")?);
        self.warnings = reader.u16("warnings")?;
        self.status = reader.u16("status")? & FLAGS;
        Ok(())
    }

    /// Column definitions without what only sizes a display: lengths, flags, decimals.
    #[must_use]
    pub fn essence(&self) -> Vec<Vec<u8>> {
        let essence = |definition: &Vec<u8>| essence(definition).unwrap_or(definition.clone());
        self.columns.iter().map(essence).collect()
    }

    /// Rows of the text protocol as text, NULL as `None`.
    #[must_use]
    pub fn text(&self) -> Vec<Vec<Option<String>>> {
        self.rows.iter().map(|row| text_row(row)).collect()
    }
}

/// Names, character set and type.
fn essence(definition: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(definition);
    let mut kept = Vec::new();
    for _ in ["catalog", "schema", "table", "original table", "name", "original name"] {
        kept.extend_from_slice(reader.lenenc_bytes("a name").ok()?);
        kept.push(b'.');
    }
    let rest = reader.rest();
    kept.extend_from_slice(rest.get(1..3)?);
    kept.extend_from_slice(rest.get(7..8)?);
    Some(kept)
}

fn text_row(row: &[u8]) -> Vec<Option<String>> {
    let mut reader = Reader::new(row);
    let mut fields = Vec::new();
    while !reader.is_empty() {
        if reader.rest().first() == Some(&0xFB) {
            let _ = reader.u8("NULL");
            fields.push(None);
            continue;
        }
        let Ok(bytes) = reader.lenenc_bytes("field") else { break };
        fields.push(Some(String::from_utf8_lossy(bytes).into_owned()));
    }
    fields
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {} ({}): {}", self.code, self.sqlstate, self.text)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Ok { affected, insert_id, warnings, status, info } => {
                write!(f, "OK: {affected} rows, insert id {insert_id}, {warnings} warnings, ")?;
                write!(f, "status {status:#06x} {info}")
            }
            Answer::Rows(rows) => {
                let fields = |row: Vec<Option<String>>| {
                    let text = row.into_iter().map(|field| field.unwrap_or("NULL".to_owned()));
                    text.collect::<Vec<_>>().join(", ")
                };
                let all: Vec<_> = rows.text().into_iter().map(fields).collect();
                let names = rows.essence();
                let names: Vec<_> =
                    names.iter().map(|name| name.escape_ascii().to_string()).collect();
                let status = rows.status;
                write!(f, "columns [{}], rows [{}], ", names.join(" | "), all.join(" | "))?;
                write!(f, "{} warnings, status {status:#06x}", rows.warnings)
            }
            Answer::Error(refusal) => refusal.fmt(f),
            Answer::Lost => f.write_str("the connection is lost"),
            Answer::Silent => f.write_str("no answer"),
        }
    }
}
