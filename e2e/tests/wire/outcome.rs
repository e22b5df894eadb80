//! What a reply says, taken apart.

use anyhow::Result;
use trunkline_protocol::codec::Reader;
use trunkline_protocol::packet::err;
use trunkline_protocol::packet::ok::OkPacket;

/// An error packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPacket {
    pub code: u16,
    pub sqlstate: String,
    pub text: String,
}

impl ErrorPacket {
    pub fn parse(payload: &[u8]) -> Result<ErrorPacket> {
        let error = err::parse(payload).map_err(|e| anyhow::anyhow!("{e}: {payload:02x?}"))?;
        Ok(ErrorPacket {
            code: error.code,
            sqlstate: String::from_utf8_lossy(&error.sqlstate).into_owned(),
            text: String::from_utf8_lossy(error.message).into_owned(),
        })
    }

    /// Code, SQLSTATE and text, to be compared at once.
    pub fn parts(&self) -> (u16, &str, &str) {
        (self.code, &self.sqlstate, &self.text)
    }
}

/// One result of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok { affected: u64, insert_id: u64, status: u16, warnings: u16, info: String },
    Rows { columns: Vec<Vec<u8>>, rows: Vec<Vec<u8>>, status: u16 },
    Error(ErrorPacket),
}

impl Outcome {
    pub fn of_ok(ok: &OkPacket<'_>) -> Outcome {
        Outcome::Ok {
            affected: ok.affected_rows,
            insert_id: ok.last_insert_id,
            status: ok.status,
            warnings: ok.warnings,
            info: String::from_utf8_lossy(ok.info).into_owned(),
        }
    }

    /// The rows of a text result set as text, NULL as `None`.
    pub fn text_rows(&self) -> Vec<Vec<Option<String>>> {
        match self {
            Outcome::Rows { rows, .. } => rows.iter().map(|row| text_row(row)).collect(),
            Outcome::Ok { .. } | Outcome::Error(_) => Vec::new(),
        }
    }

    /// The status flags; 0 for an error.
    pub fn status(&self) -> u16 {
        match self {
            Outcome::Ok { status, .. } | Outcome::Rows { status, .. } => *status,
            Outcome::Error(_) => 0,
        }
    }

    pub fn error(&self) -> Option<&ErrorPacket> {
        match self {
            Outcome::Error(error) => Some(error),
            Outcome::Ok { .. } | Outcome::Rows { .. } => None,
        }
    }

    pub fn is_ok(&self) -> bool {
        matches!(self, Outcome::Ok { .. })
    }
}

fn text_row(row: &[u8]) -> Vec<Option<String>> {
    let mut reader = Reader::new(row);
    let mut fields = Vec::new();
    while !reader.is_empty() {
        if reader.rest().first() == Some(&0xFB) {
            let _ = reader.u8("NULL");
            fields.push(None);
        } else {
            let Ok(bytes) = reader.lenenc_bytes("field") else { break };
            fields.push(Some(String::from_utf8_lossy(bytes).into_owned()));
        }
    }
    fields
}

/// Whether what looks like an error is a report of progress.
pub fn is_progress(packet: &[u8]) -> bool {
    packet.starts_with(&[0xFF, 0xFF, 0xFF])
}
