//! Connection attributes: names and values that a client tells about itself.
//!
//! Source: MySQL internals "Protocol::HandshakeResponse41".

use crate::codec::{Malformed, Reader, put_lenenc_bytes};

/// The attributes of a packet, borrowed from it: pairs of length-encoded strings, each checked
/// to be whole when the packet was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes<'a> {
    raw: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Checks that `raw` (without the total length before it) is a sequence of whole pairs.
    pub fn parse(raw: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(raw);
        while !reader.is_empty() {
            reader.lenenc_bytes("attribute name")?;
            reader.lenenc_bytes("attribute value")?;
        }
        Ok(Self { raw })
    }

    /// Reads the length-encoded total length and the pairs.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Self::parse(reader.lenenc_bytes("attributes")?)
    }

    /// The pairs as they travel, without the total length before them.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Appends the length-encoded total length and the pairs.
    pub fn put(self, out: &mut Vec<u8>) {
        put_lenenc_bytes(out, self.raw);
    }

    /// Names and values in the order sent.
    pub fn pairs(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut reader = Reader::new(self.raw);
        std::iter::from_fn(move || {
            let name = reader.lenenc_bytes("attribute name").ok()?;
            let value = reader.lenenc_bytes("attribute value").ok()?;
            Some((name, value))
        })
    }
}

/// Encodes pairs in the form that [`Attributes::parse`] reads.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut raw = Vec::new();
    for (name, value) in pairs {
        put_lenenc_bytes(&mut raw, name);
        put_lenenc_bytes(&mut raw, value);
    }
    raw
}
