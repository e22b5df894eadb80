//! A copy of an answer as its server sends it, up to a limit.

use trunkline_protocol::response::{Relay, ReplyFormat, ResponseShape};

/// What has come of an answer.
#[derive(Debug)]
pub(crate) struct Capture {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_too_long: bool,
}

impl Capture {
    /// One of at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, is_too_long: false }
    }

    /// The longest answer that it takes.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Takes a part of the answer. One that gets too long is given up.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.bytes.len() + bytes.len() > self.bytes_max {
            self.is_too_long = true;
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The statement is sent, perhaps once more: what came before does not count.
    pub(crate) fn restart(&mut self) {
        self.bytes.clear();
        self.is_too_long = false;
    }

    /// All of it; `None` when it was too long.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_long).then_some(&self.bytes)
    }
}

/// An answer with its packets numbered from 1; `None` when it is not one whole answer.
pub(crate) fn numbered(bytes: &[u8], format: ReplyFormat) -> Option<Vec<u8>> {
    let mut relay = Relay::new(ResponseShape::Query, format, format, true);
    relay.renumber_from(1);
    relay.set_without_cursor();
    let mut out = Vec::with_capacity(bytes.len());
    let fed = relay.feed(bytes, &mut out).ok()?;
    (fed.ended && fed.consumed == bytes.len()).then_some(out)
}

#[cfg(test)]
mod tests;
