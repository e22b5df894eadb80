//! Removal of spaces and signs, between the scanner and the [`Grouper`].
//!
//! ProxySQL does this in place over the scanned text. Two consequences are visible and kept:
//! while nothing has been removed yet, a look back sees what has been written (a digit that
//! `no_digits` replaced is `?`), and while exactly one byte has been removed, the byte before the
//! previous one has already been overwritten.

use super::class::{is_operator, is_word};
use super::group::Grouper;

/// A space or sign whose fate the next byte decides.
#[derive(Debug, Clone, Copy)]
struct Pending {
    byte: u8,
    /// The byte before it and the one before that, as they look in place.
    before: u8,
    before_that: u8,
}

/// Passes scanned bytes on to the grouper.
#[derive(Debug)]
pub(super) struct Spacer {
    pub(super) grouper: Grouper,
    pending: Option<Pending>,
    /// The last byte that came in and the one before it; 0 at the start.
    pub(super) last: u8,
    last_but_one: u8,
    /// The last byte passed on.
    passed: u8,
    /// Bytes removed, as far as it matters: 0, 1, or 2 for more.
    removed: u8,
    /// Bytes that came in.
    pub(super) taken: usize,
    lowercase: bool,
    no_digits: bool,
    keep_comment: bool,
    /// The last sign was left out.
    dropped_sign: bool,
    /// A sign was left out between a word and a parenthesis: `a -(1)` looks like the call `a (1)`.
    pub(super) looks_like_call: bool,
}

impl Spacer {
    pub(super) const fn new() -> Self {
        Self {
            grouper: Grouper::new(),
            pending: None,
            last: 0,
            last_but_one: 0,
            passed: 0,
            removed: 0,
            taken: 0,
            lowercase: false,
            no_digits: false,
            keep_comment: false,
            dropped_sign: false,
            looks_like_call: false,
        }
    }

    /// Starts a new text.
    pub(super) fn begin(&mut self, settings: &super::Settings) {
        self.grouper.begin(settings.grouping_limit, settings.groups_grouping_limit);
        self.pending = None;
        self.last = 0;
        self.last_but_one = 0;
        self.passed = 0;
        self.taken = 0;
        self.dropped_sign = false;
        self.looks_like_call = false;
        self.removed = 0;
        self.lowercase = settings.lowercase;
        self.no_digits = settings.no_digits;
        self.keep_comment = settings.keep_comment;
    }

    /// Takes the first `len` bytes of `rest`, a run of bytes that go through unchanged whatever
    /// follows: no signs, parentheses, commas or question marks. Not for `no_digits`.
    #[inline]
    pub(super) fn run(&mut self, rest: &[u8], len: usize) {
        debug_assert!(!self.no_digits);
        let Some(run) = rest.get(..len) else { return };
        let Some(&first) = run.first() else { return };
        self.resolve(first);
        self.grouper.run(rest, run, self.lowercase);
        if let [.., a, b] = *run {
            self.last_but_one = a;
            self.last = b;
        } else {
            self.last_but_one = self.last;
            self.last = first;
        }
        self.passed = self.last;
        self.taken += len;
    }

    /// Takes the `?` of a value.
    #[inline]
    pub(super) fn value(&mut self) {
        self.resolve(b'?');
        self.pass(b'?');
        self.last_but_one = self.last;
        self.last = b'?';
        self.taken += 1;
    }

    /// Takes a comma and one space, which goes whatever follows. Not for `keep_comment`.
    #[inline]
    pub(super) fn comma_and_space(&mut self) {
        debug_assert!(!self.keep_comment);
        self.resolve(b',');
        self.pass(b',');
        self.remove();
        self.last_but_one = b',';
        self.last = b' ';
        self.taken += 2;
    }

    /// Whether a value and a comma more would not change what is written.
    #[inline]
    pub(super) fn leaves_out(&self) -> bool {
        self.pending.is_none() && self.grouper.leaves_out()
    }

    /// Takes a comma and a `?`, where [`Self::leaves_out`] and one `?` has just come.
    #[inline]
    pub(super) fn pair_left_out(&mut self) {
        debug_assert!(self.leaves_out() && self.last == b'?');
        self.grouper.pair_left_out();
        self.last_but_one = b',';
        self.passed = b'?';
        self.taken += 2;
    }

    /// Takes one byte of the statement; letters are lowercased if the settings say so.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.raw_byte(if self.lowercase { byte.to_ascii_lowercase() } else { byte });
    }

    /// Takes one byte as it is.
    #[inline]
    pub(super) fn raw_byte(&mut self, byte: u8) {
        self.resolve(byte);
        match byte {
            b' ' | b'+' | b'-' => self.pending = Some(self.pend(byte)),
            b'0'..=b'9' if self.no_digits => {
                // One `?` is for what stands behind another one as well, and a digit at the start
                // is lost.
                if matches!(self.passed, b'?' | 0) {
                    self.remove();
                } else {
                    self.pass(b'?');
                }
            }
            _ => self.pass(byte),
        }
        self.last_but_one = self.last;
        self.last = byte;
        self.taken += 1;
    }

    /// The text is complete.
    pub(super) fn finish(&mut self) {
        self.resolve(0);
        self.grouper.finish();
    }

    fn pend(&self, byte: u8) -> Pending {
        let written = |source: u8| {
            if self.no_digits && source.is_ascii_digit() { b'?' } else { source }
        };
        let (before, before_that) = match self.removed {
            0 => (written(self.last), written(self.last_but_one)),
            1 => (self.last, self.passed),
            _ => (self.last, self.last_but_one),
        };
        Pending { byte, before, before_that }
    }

    #[inline]
    fn pass(&mut self, byte: u8) {
        self.passed = byte;
        self.grouper.byte(byte);
    }

    #[inline]
    fn remove(&mut self) {
        self.removed = (self.removed + 1).min(2);
    }

    /// Decides about the pending byte, `next` being the one after it or 0 at the end.
    #[inline(always)]
    fn resolve(&mut self, next: u8) {
        if let Some(pending) = self.pending {
            self.decide(pending, next);
        }
    }

    fn decide(&mut self, pending: Pending, next: u8) {
        self.pending = None;
        let removed = if pending.byte == b' ' {
            let is_behind_sign = matches!(pending.before, b'+' | b'-');
            self.looks_like_call |= is_behind_sign && self.dropped_sign && next == b'(';
            self.drops_space(pending, next)
        } else {
            self.dropped_sign = drops_sign(pending, next);
            self.looks_like_call |= self.dropped_sign && next == b'(';
            self.dropped_sign
        };
        if removed {
            self.remove();
        } else {
            self.pass(pending.byte);
        }
    }

    fn drops_space(&self, space: Pending, next: u8) -> bool {
        let after_comment = self.keep_comment && space.before == b'/' && space.before_that == b'*';
        let loose =
            space.before == b',' || next == b',' || (is_operator(space.before) && next == b'?');
        space.before == b'('
            || next == b')'
            || (space.before == b'?' && is_operator(next))
            || (loose && !after_comment)
    }
}

/// Whether a `+` or `-` before `next` is taken for the sign of a value and goes.
fn drops_sign(sign: Pending, next: u8) -> bool {
    let Pending { before, before_that, .. } = sign;
    let spaced = before == b' ';
    if before == 0 || is_word(before) || before == b')' || before == b'?' {
        return false;
    }
    if spaced && before_that == b'?' {
        return false;
    }
    let opens_value = (next == b'?' || next == b' ') && !(spaced && before_that == b')');
    opens_value || (spaced && is_word(before_that))
}
