//! Files that clients send when a server asks for them.

use super::Tag;

/// Bytes of a line that the server is to skip, with its end.
const LINE_LEN: usize = 100;

/// A file of a client's: lines to skip, and one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    /// Primary key of the row.
    pub key: u64,
    /// How many lines come before it.
    pub skipped: u64,
    /// Without it the client says that the file is empty.
    pub is_there: bool,
}

impl Upload {
    /// The name that stands in the statement. It says what the file has to hold.
    pub fn name(&self, tag: u64) -> String {
        let folder = if self.is_there { "there" } else { "gone" };
        format!("{folder}.{}.{tag}", self.key)
    }

    /// Reads a name; with the statement's tag.
    pub(super) fn from_name(name: &str, skipped: u64) -> Option<(Self, u64)> {
        let mut parts = name.split('.');
        let is_there = match parts.next()? {
            "there" => true,
            "gone" => false,
            _ => return None,
        };
        let key = parts.next()?.parse().ok()?;
        let tag = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some((Self { key, skipped, is_there }, tag))
    }

    /// What is in the file.
    pub fn content(&self, tag: Tag) -> Vec<u8> {
        if !self.is_there {
            return Vec::new();
        }
        let skipped = usize::try_from(self.skipped).unwrap_or_default();
        let mut line = vec![b'-'; LINE_LEN - 1];
        line.push(b'\n');
        let mut content = line.repeat(skipped);
        content.extend_from_slice(format!("{}\t{}\n", self.key, tag.0).as_bytes());
        content
    }
}
