//! Marks: the names under which the proxy has servers number what a connection commits.

use std::fmt;

/// A mark, as the proxy makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// MySQL: a tag, `tl`, eight digits to the base 16, `_` and a number.
    Tag {
        /// The digits.
        head: u32,
        /// The number.
        number: u32,
    },
    /// MariaDB: the number of a server that there is none of.
    ServerId(u32),
}

/// As a server writes it in a transaction's name.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag { head, number } => write!(f, "tl{head:08x}_{number}"),
            Self::ServerId(id) => write!(f, "{id}"),
        }
    }
}

impl Mark {
    /// Reads a tag.
    pub fn of_tag(text: &str) -> Option<Self> {
        let (head, number) = text.strip_prefix("tl")?.split_once('_')?;
        Some(Self::Tag { head: u32::from_str_radix(head, 16).ok()?, number: number.parse().ok()? })
    }

    /// Reads the number of a server.
    pub fn of_server_id(id: u64) -> Option<Self> {
        u32::try_from(id).ok().map(Self::ServerId)
    }
}
