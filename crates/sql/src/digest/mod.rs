//! The digest of a statement: its text with literals replaced, and the text's hash.
//!
//! Bit-compatible with ProxySQL 2.7.1, quirks included, because rules, dashboards and recorded
//! digests that people have must keep working. The golden data in `tests/data` was observed on the
//! running program; `tests/digest_golden.rs` holds every row of it.
//!
//! One pass: the scanner finds literals, comments and white space, the spacer removes spaces and
//! signs with one byte of look-ahead, the grouper collapses lists while it writes. What ProxySQL
//! does in four passes over one buffer looks the same from outside, unless the buffer becomes full:
//! such texts are read once more, as ProxySQL does it (`rounds`).
//!
//! Where ProxySQL's digest depends on memory left over from an earlier statement (a line
//! comment directly after a token, white space after its line) one space is written. Where it is
//! left over from a number of the same statement, that byte is written as ProxySQL does; such a
//! digest is not clean.

mod class;
mod executed;
mod group;
mod lanes;
mod rounds;
mod scan;
mod space;
#[cfg(test)]
mod tests;

use core::fmt;

use crate::spooky;
pub use executed::{Executed, has_other_spaces};
use scan::{Scanner, Seen};
use space::Spacer;

/// The most bytes of a comment that [`Digest::first_comment`] gives.
pub const FIRST_COMMENT_MAX: usize = 1024;

/// How digests are made. The names are those of ProxySQL's `mysql-query_digests_*` variables, the
/// defaults its defaults. Two digests compare only when their settings were the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// ASCII letters become lower case, those in kept comments excepted.
    pub lowercase: bool,
    /// The word `NULL` becomes `?`.
    pub replace_null: bool,
    /// Digits inside identifiers become `?`, one for each run.
    pub no_digits: bool,
    /// `/* */` comments stay.
    pub keep_comment: bool,
    /// A list of more values than this and one is cut to this many and `...`.
    pub grouping_limit: u16,
    /// More equal collapsed groups than this are cut to this many and `...`; 0 for no limit.
    pub groups_grouping_limit: u16,
    /// The most bytes of the digest text.
    pub max_digest_length: usize,
    /// The size, in bytes, of the buffer that the text is compressed in: digesting stops when the
    /// compressed text fills it.
    pub max_query_length: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lowercase: false,
            replace_null: false,
            no_digits: false,
            keep_comment: false,
            grouping_limit: 3,
            groups_grouping_limit: 10,
            max_digest_length: 2048,
            max_query_length: 65_000,
        }
    }
}

/// A statement's digest, valid until its [`Digester`] makes the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest<'a> {
    /// The statement with literals replaced by `?`. May end inside a UTF-8 character.
    pub text: &'a [u8],
    /// SpookyHash V2, 64 bits, seed 0, of `text`.
    pub hash: u64,
    /// Whether the text determines the statement's structure, so that whatever was found out
    /// about one statement with this digest holds for all: no comment of any kind, no zero byte,
    /// nothing unterminated, nothing cut off, no literal inside backticks, no number that may be a
    /// part of a name, no sign left out between a word and a parenthesis.
    pub is_clean: bool,
    /// Whether a literal in double quotes was left out, which may be a name for the server.
    pub has_double_quotes: bool,
    /// What stands between the first `/*` and its `*/`, at most [`FIRST_COMMENT_MAX`] bytes.
    pub first_comment: Option<&'a [u8]>,
}

impl Digest<'_> {
    /// The hash as ProxySQL shows it: `0x` and 16 upper-case hexadecimal digits.
    pub fn format(&self) -> Format {
        format(self.hash)
    }
}

/// A digest's hash as ProxySQL shows it, `0x%016X`.
pub fn format(hash: u64) -> Format {
    Format(hash)
}

/// See [`format()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format(u64);

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016X}", self.0)
    }
}

/// Makes digests, one after the other, in a buffer of its own that it reuses.
#[derive(Debug)]
pub struct Digester {
    spacer: Spacer,
    /// The digest of a text that may have filled its buffer.
    buffer: Vec<u8>,
}

impl Default for Digester {
    fn default() -> Self {
        Self::new()
    }
}

impl Digester {
    /// A digester; it allocates with its first statements.
    pub const fn new() -> Self {
        Self { spacer: Spacer::new(), buffer: Vec::new() }
    }

    /// The digest of `text`, the text of a `COM_QUERY` in any encoding that extends ASCII.
    /// HOT: linear in the length, no allocation once the buffer has grown to the longest digest.
    pub fn digest<'a>(&'a mut self, text: &'a [u8], settings: &Settings) -> Digest<'a> {
        self.spacer.begin(settings);
        let seen = Scanner::new(text, settings, &mut self.spacer).run();
        let is_bounded = rounds::may_fill(text, settings);
        let is_whole = !is_bounded || rounds::digest(text, settings, &mut self.buffer);
        self.finish(seen, settings, is_bounded.then_some(is_whole))
    }

    /// The digest of a text, without short cuts, byte by byte.
    #[cfg(test)]
    fn digest_slowly<'a>(&'a mut self, text: &'a [u8], settings: &Settings) -> Digest<'a> {
        self.spacer.begin(settings);
        let seen = Scanner::new(text, settings, &mut self.spacer).without_short_cuts().run();
        self.finish(seen, settings, None)
    }

    /// The digest of what has been read. `bounded` is for a text that may have filled its buffer:
    /// whether it was compressed to its end.
    fn finish<'a>(
        &'a mut self,
        seen: Seen<'a>,
        settings: &Settings,
        bounded: Option<bool>,
    ) -> Digest<'a> {
        self.spacer.finish();
        let grouper = &self.spacer.grouper;
        // ProxySQL looks for spaces and semicolons in front of the text's end, not of a zero byte.
        let in_one = if seen.ends_at_nul { grouper.out.as_slice() } else { trim_end(&grouper.out) };
        let whole = if bounded.is_some() { self.buffer.as_slice() } else { in_one };
        let is_alike = bounded.is_none_or(|is_whole| is_whole && whole == in_one);
        let shown = whole.get(..settings.max_digest_length).unwrap_or(whole);
        Digest {
            text: shown,
            hash: spooky::hash64(shown, 0),
            is_clean: seen.is_clean
                && is_alike
                && !grouper.swallowed
                && !self.spacer.looks_like_call
                && shown.len() == whole.len(),
            has_double_quotes: seen.has_double_quotes,
            first_comment: seen.first_comment,
        }
    }
}

/// Without the spaces and semicolons at the end; a text of nothing else is one semicolon.
fn trim_end(text: &[u8]) -> &[u8] {
    let is_trimmed = |byte: &u8| matches!(byte, b' ' | b';');
    if text.last().is_some_and(|last| !is_trimmed(last)) {
        return text;
    }
    match text.iter().rposition(|byte| !is_trimmed(byte)) {
        Some(last) => text.get(..=last).unwrap_or(text),
        None if text.contains(&b';') => b";",
        None => b"",
    }
}
