//! Session state changes: what an OK packet says about the session besides its result.
//!
//! Each entry is a type byte and a length-encoded string:
//!
//! | type | content |
//! |---|---|
//! | 0 | system variables: pairs of length-encoded name and value |
//! | 1 | schema: length-encoded name |
//! | 2 | state change: length-encoded `1` or `0` |
//! | 3 | GTIDs: one byte (encoding, 0), length-encoded GTID set |
//! | 4 | transaction characteristics: length-encoded statements that begin such a transaction |
//! | 5 | transaction state: length-encoded, eight characters |
//!
//! Source: MySQL internals, "`OK_Packet`", session state information.

use crate::codec::{Malformed, Reader};

/// One change, borrowed from the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// A system variable has a new value.
    SystemVariable {
        /// Name in lower case.
        name: &'a [u8],
        /// Value as text.
        value: &'a [u8],
    },
    /// The default schema is now this one; empty for none.
    Schema(&'a [u8]),
    /// Whether the session has state that the other entries do not name.
    State(bool),
    /// GTIDs of the transaction that was committed, or all (`session_track_gtids`).
    Gtids(&'a [u8]),
    /// Statements that begin the next transaction the same way; empty for the defaults.
    TransactionCharacteristics(&'a [u8]),
    /// Transaction state: eight characters, `________` when idle.
    TransactionState(&'a [u8]),
}

/// Walks the changes of [`OkPacket::changes`](super::ok::OkPacket::changes), or several of them
/// one after the other. Entries of unknown type are skipped; after an error it ends.
#[derive(Debug, Clone)]
pub struct Changes<'a> {
    entries: Reader<'a>,
    variables: Reader<'a>,
}

impl<'a> Changes<'a> {
    /// Walks `raw`, the content of the packet's session state field.
    pub fn new(raw: &'a [u8]) -> Self {
        Self { entries: Reader::new(raw), variables: Reader::new(b"") }
    }

    fn read(&mut self) -> Result<Option<Change<'a>>, Malformed> {
        loop {
            if !self.variables.is_empty() {
                let name = self.variables.lenenc_bytes("tracked variable name")?;
                let value = self.variables.lenenc_bytes("tracked variable value")?;
                return Ok(Some(Change::SystemVariable { name, value }));
            }
            if self.entries.is_empty() {
                return Ok(None);
            }
            let kind = self.entries.u8("session state type")?;
            let mut entry = Reader::new(self.entries.lenenc_bytes("session state entry")?);
            let change = match kind {
                0 => {
                    self.variables = entry;
                    continue;
                }
                1 => Change::Schema(entry.lenenc_bytes("tracked schema")?),
                2 => Change::State(entry.lenenc_bytes("tracked state change")? == b"1"),
                3 => {
                    entry.u8("tracked gtid encoding")?;
                    Change::Gtids(entry.lenenc_bytes("tracked gtids")?)
                }
                4 => Change::TransactionCharacteristics(
                    entry.lenenc_bytes("tracked transaction characteristics")?,
                ),
                5 => Change::TransactionState(entry.lenenc_bytes("tracked transaction state")?),
                6.. => continue,
            };
            return Ok(Some(change));
        }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let change = self.read();
        if change.is_err() {
            *self = Self::new(b"");
        }
        change.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::put_lenenc_bytes;

    fn entry(kind: u8, content: &[&[u8]]) -> Vec<u8> {
        let mut inner = Vec::new();
        for text in content {
            put_lenenc_bytes(&mut inner, text);
        }
        let mut out = vec![kind];
        put_lenenc_bytes(&mut out, &inner);
        out
    }

    #[test]
    fn every_kind_of_change_is_read_and_unknown_ones_are_skipped() {
        let raw = [
            entry(0, &[b"autocommit", b"OFF", b"time_zone", b"SYSTEM"]),
            entry(9, &[b"later"]),
            entry(1, &[b"shop"]),
            entry(2, &[b"1"]),
            vec![3, 4, 0, 2, b'a', b'b'],
            entry(4, &[b"START TRANSACTION;"]),
            entry(5, &[b"T_______"]),
        ]
        .concat();
        let changes: Result<Vec<_>, _> = Changes::new(&raw).collect();
        let expected = vec![
            Change::SystemVariable { name: b"autocommit", value: b"OFF" },
            Change::SystemVariable { name: b"time_zone", value: b"SYSTEM" },
            Change::Schema(b"shop"),
            Change::State(true),
            Change::Gtids(b"ab"),
            Change::TransactionCharacteristics(b"START TRANSACTION;"),
            Change::TransactionState(b"T_______"),
        ];
        assert_eq!(changes, Ok(expected));
    }

    #[test]
    fn a_cut_entry_is_one_error_and_the_end() {
        let raw = entry(0, &[b"autocommit", b"OFF"]);
        for cut in 1..raw.len() {
            let mut changes = Changes::new(&raw[..cut]);
            assert!(changes.next().expect("an item").is_err());
            assert!(changes.next().is_none());
        }
        assert!(Changes::new(b"").next().is_none());
    }
}
