//! A cursor over a payload that never reads past its end.

use thiserror::Error;

/// A packet does not have the form that its place in the protocol demands.
///
/// Carries the field that could not be read, never its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed packet: {0}")]
pub struct Malformed(pub &'static str);

/// Reads MySQL's integers and strings from the front of a payload.
///
/// Every method names the field it reads, for the error. On error the cursor stays where it was.
/// Source: MySQL internals, "Basic Data Types".
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the first byte of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// The bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether every byte has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(*head)
    }

    /// A one-byte integer.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// A two-byte little-endian integer.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// A three-byte little-endian integer.
    pub fn u24(&mut self, field: &'static str) -> Result<u32, Malformed> {
        let [a, b, c] = self.array(field)?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// A four-byte little-endian integer.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// An eight-byte little-endian integer.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A length-encoded integer. `0xFB` (NULL) and `0xFF` (error) are malformed here.
    pub fn lenenc_int(&mut self, field: &'static str) -> Result<u64, Malformed> {
        let before = self.rest;
        let value = match self.u8(field)? {
            first @ 0..=0xFA => Ok(u64::from(first)),
            0xFC => self.u16(field).map(u64::from),
            0xFD => self.u24(field).map(u64::from),
            0xFE => self.u64(field),
            0xFB | 0xFF => Err(Malformed(field)),
        };
        if value.is_err() {
            self.rest = before;
        }
        value
    }

    /// A string preceded by its length-encoded length.
    pub fn lenenc_bytes(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let before = self.rest;
        let len = self.lenenc_int(field)?;
        let bytes = usize::try_from(len)
            .map_err(|_| Malformed(field))
            .and_then(|len| self.bytes(len, field));
        if bytes.is_err() {
            self.rest = before;
        }
        bytes
    }

    /// A string that ends at a NUL byte, which is consumed and not returned.
    pub fn nul_str(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let end = memchr::memchr(0, self.rest).ok_or(Malformed(field))?;
        let text = self.bytes(end, field)?;
        self.bytes(1, field)?;
        Ok(text)
    }

    /// All that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::put_lenenc_int;

    #[test]
    fn lenenc_integers_read_back_at_every_width() {
        for value in [0, 250, 251, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, u64::MAX] {
            let mut bytes = Vec::new();
            put_lenenc_int(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.lenenc_int("value"), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_failed_read_leaves_the_cursor_in_place() {
        let mut reader = Reader::new(&[0xFC, 1]);
        assert_eq!(reader.lenenc_int("length"), Err(Malformed("length")));
        assert_eq!(reader.rest(), &[0xFC, 1]);
        let mut reader = Reader::new(&[5, b'a']);
        assert!(reader.lenenc_bytes("text").is_err());
        assert_eq!(reader.rest().len(), 2);
    }
}
