//! What happened, for people: who sent what to whom, when.

use std::fmt;

use trunkline_protocol::codec::frame::split_packet;

use crate::{
    LinkId, Micros,
    wire::{End, Far},
};

/// Lines kept; the oldest go first.
const LINES_MAX: usize = 200_000;
/// Bytes of one packet that are shown.
const SHOWN_MAX: usize = 160;

/// A record of a run. Keeps nothing unless it was asked to.
#[derive(Debug, Default)]
pub struct Trace {
    is_on: bool,
    lines: std::collections::VecDeque<(Micros, String)>,
}

impl Trace {
    /// A record that is kept, or is not.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Notes what `text` says.
    pub fn note(&mut self, now: Micros, text: impl FnOnce() -> String) {
        if self.is_on {
            if self.lines.len() >= LINES_MAX {
                self.lines.pop_front();
            }
            self.lines.push_back((now, text()));
        }
    }

    /// Notes bytes that `from` wrote on a link.
    pub fn bytes(&mut self, now: Micros, link: LinkId, from: End, far: Option<Far>, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.note(now, || {
            let name = match far {
                Some(Far::Client(number)) => format!("client {number}"),
                Some(Far::Host(host)) => format!("host {}", host.0),
                None => "nobody".to_owned(),
            };
            let (from, to) = match from {
                End::Proxy => ("proxy".to_owned(), name),
                End::Far => (name, "proxy".to_owned()),
            };
            format!("{from} -> {to} (link {}): {}", link.0, packets(bytes))
        });
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in &self.lines {
            writeln!(f, "{:>5}.{:06} {line}", at / 1_000_000, at % 1_000_000)?;
        }
        Ok(())
    }
}

/// Whole packets one after the other; the rest as it is.
fn packets(mut bytes: &[u8]) -> String {
    let mut shown = Vec::new();
    while let Some((header, payload, rest)) = split_packet(bytes) {
        shown.push(format!("#{} {}", header.seq, text(payload)));
        bytes = rest;
    }
    if !bytes.is_empty() {
        shown.push(format!("part of {} bytes {}", bytes.len(), text(bytes)));
    }
    shown.join(" | ")
}

/// Bytes as text, with others escaped.
fn text(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_MAX).unwrap_or(bytes);
    let shown = head.escape_ascii();
    match bytes.len() > head.len() {
        true => format!("{shown}… ({} bytes)", bytes.len()),
        false => shown.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_packet_by_packet() {
        let mut trace = Trace::new(true);
        let bytes = b"\x02\0\0\0\x03a\x01\0\0\x01\0\x05";
        trace.bytes(1_500_000, LinkId(4), End::Far, Some(Far::Client(2)), bytes);
        let shown = "client 2 -> proxy (link 4): #0 \\x03a | #1 \\x00 | part of 1 bytes \\x05\n";
        assert_eq!(trace.to_string(), format!("    1.500000 {shown}"));
    }

    #[test]
    fn a_record_that_nobody_wants_is_not_made() {
        let mut trace = Trace::new(false);
        trace.note(0, || unreachable!("nobody looks"));
        assert!(trace.is_empty());
    }
}
