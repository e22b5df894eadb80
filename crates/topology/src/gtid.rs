//! Which transactions: sets of MySQL's global transaction identifiers, with their tags, and
//! positions of MariaDB's replication. Texts come from servers and clients, so each has a limit.

mod binlog_state;
mod position;
mod set;
#[cfg(test)]
mod tests;

pub use binlog_state::BinlogState;
pub use position::{Position, each_gtid};
pub use set::{GtidSet, Intervals, each_interval};

use std::fmt;

/// The longest text that is read, bytes: the longest row that the control plane takes.
pub const TEXT_LEN_MAX: usize = 1 << 20;
/// The most intervals of one set.
pub const INTERVALS_MAX: usize = 16_384;
/// The largest number of a transaction on MySQL.
pub const NUMBER_MAX: u64 = i64::MAX as u64 - 1;

/// Why a text is no set and no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GtidError {
    /// It is longer than [`TEXT_LEN_MAX`], or has more than [`INTERVALS_MAX`] intervals.
    TooLong,
    /// It is malformed from this byte on.
    Malformed(usize),
}

impl fmt::Display for GtidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("too long"),
            Self::Malformed(at) => write!(f, "malformed at byte {at}"),
        }
    }
}

impl std::error::Error for GtidError {}

/// Whose numbers they are: transactions of one origin are numbered one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A server of MySQL, or a group, by its UUID, and the tag of the transaction.
    Server([u8; 16], Tag),
    /// A replication domain of MariaDB.
    Domain(u32),
}

/// The tag of a transaction on MySQL: up to 32 of `a` to `z`, `0` to `9` and `_`; mostly none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    /// Behind its end there are zeros.
    text: [u8; Tag::LEN_MAX],
}

impl Tag {
    const LEN_MAX: usize = 32;

    /// No tag.
    pub const NONE: Self = Self { text: [0; Self::LEN_MAX] };

    /// Reads a tag; upper case is lower case. `None` when it is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut tag = Self::NONE;
        let starts = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        let is_part = |byte: &u8| starts(byte) || byte.is_ascii_digit();
        if !text.first().is_some_and(starts) || !text.iter().all(is_part) {
            return None;
        }
        tag.text.get_mut(..text.len())?.copy_from_slice(text);
        tag.text.make_ascii_lowercase();
        Some(tag)
    }

    /// The tag as text; empty for none.
    pub fn as_str(&self) -> &str {
        let len = self.text.iter().position(|byte| *byte == 0).unwrap_or(Self::LEN_MAX);
        let text = self.text.get(..len).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(domain) => domain.fmt(f),
            Self::Server(uuid, tag) => {
                put_uuid(f, uuid)?;
                match tag.as_str() {
                    "" => Ok(()),
                    tag => write!(f, ":{tag}"),
                }
            }
        }
    }
}

fn put_uuid(f: &mut fmt::Formatter<'_>, uuid: &[u8; 16]) -> fmt::Result {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            f.write_str("-")?;
        }
        write!(f, "{byte:02x}")?;
    }
    Ok(())
}

/// A text that is read from its front to its end.
struct Text<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Result<Self, GtidError> {
        match text.len() <= TEXT_LEN_MAX {
            true => Ok(Self { rest: text.as_bytes(), len: text.len() }),
            false => Err(GtidError::TooLong),
        }
    }

    fn wrong(&self) -> GtidError {
        GtidError::Malformed(self.len - self.rest.len())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes this byte, if it is the next one.
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// The bytes in front for which this holds.
    fn take_while(&mut self, holds: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|byte| !holds(*byte)).unwrap_or(self.rest.len());
        let (front, rest) = self.rest.split_at_checked(len).unwrap_or_default();
        self.rest = rest;
        front
    }

    fn number(&mut self, max: u64) -> Result<u64, GtidError> {
        let wrong = self.wrong();
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.filter(|number| *number <= max).ok_or(wrong)
    }
}
