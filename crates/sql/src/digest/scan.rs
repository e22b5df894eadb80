//! The scanner: finds literals, comments and white space in a statement.
//!
//! It knows no SQL. A number begins at a digit after a byte that isn't a letter, digit, `_` or
//! `$`; backticks do not quote; `"` always does. The limits that compare positions with the length
//! of the text are ProxySQL's own and show at the end of a statement only.

use memchr::{memchr, memchr2, memchr3};

use super::class::{
    Class, RUN_BACKTICK_SHIFT, RUN_TAKES, RUN_WORD_SHIFT, class, is_space, is_word, run_flags,
};
use super::lanes;
use super::space::Spacer;
use super::{FIRST_COMMENT_MAX, Settings};

/// A `#` this far from the end begins no comment, it only disappears.
const SHORT_HASH: usize = 3;
/// A `-- ` this far from the end begins no comment, it only disappears.
const SHORT_DASHES: usize = 7;

/// What the scanner saw besides the text that it passed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) is_clean: bool,
    /// Whether a zero byte has ended the text.
    pub(super) ends_at_nul: bool,
    pub(super) has_double_quotes: bool,
    pub(super) first_comment: Option<&'a [u8]>,
}

/// Where a number was scanned: ProxySQL has its bytes in the buffer until others overwrite them.
#[derive(Debug, Clone, Copy, Default)]
struct Residue {
    /// Position of the number's `?` among the scanned bytes.
    start: usize,
    /// Position of the number in the statement, and its length.
    offset: usize,
    len: usize,
}

impl Residue {
    fn end(self) -> usize {
        self.start + self.len
    }
}

pub(super) struct Scanner<'a, 's> {
    text: &'a [u8],
    at: usize,
    /// The byte before, as far as it decides what the next one begins.
    before: u8,
    out: &'s mut Spacer,
    replace_null: bool,
    keep_comment: bool,
    /// Whether nothing that stands outside literals and comments can change within a word.
    takes_runs: bool,
    is_clean: bool,
    ends_at_nul: bool,
    in_backticks: bool,
    has_double_quotes: bool,
    first_comment: Option<&'a [u8]>,
    residue: Residue,
    older_residue: Residue,
}

/// What a `/` inside a comment does.
enum Mark {
    /// It ends the comment; this is its position.
    End(usize),
    /// With the `*` after it, it begins the comment anew.
    Restart(usize),
}

impl<'a, 's> Scanner<'a, 's> {
    pub(super) fn new(text: &'a [u8], settings: &Settings, out: &'s mut Spacer) -> Self {
        Self {
            text,
            at: 0,
            before: b' ',
            out,
            replace_null: settings.replace_null,
            keep_comment: settings.keep_comment,
            takes_runs: !settings.keep_comment && !settings.replace_null && !settings.no_digits,
            is_clean: true,
            ends_at_nul: false,
            in_backticks: false,
            has_double_quotes: false,
            first_comment: None,
            residue: Residue::default(),
            older_residue: Residue::default(),
        }
    }

    /// Takes every byte by itself.
    #[cfg(test)]
    pub(super) fn without_short_cuts(mut self) -> Self {
        self.takes_runs = false;
        self
    }

    /// Scans the whole text.
    #[inline]
    pub(super) fn run(mut self) -> Seen<'a> {
        while let Some(&byte) = self.text.get(self.at) {
            match class(byte) {
                Class::Letter | Class::Inert | Class::Backtick if self.takes_runs => self.run_on(),
                Class::Letter => self.word(),
                Class::Digit => self.number(),
                Class::Space => self.space(),
                Class::Plain if byte == b',' && self.takes_runs => self.comma(),
                Class::Inert | Class::Plain => self.plain(byte),
                Class::Quote => self.string(byte),
                Class::Backtick => {
                    self.in_backticks = !self.in_backticks;
                    self.plain(byte);
                }
                Class::Slash => self.slash(),
                Class::Dash => self.dash(),
                Class::Hash => self.hash(),
                Class::Nul => {
                    self.ends_at_nul = true;
                    self.stop();
                }
            }
        }
        Seen {
            is_clean: self.is_clean && !self.in_backticks,
            ends_at_nul: self.ends_at_nul,
            has_double_quotes: self.has_double_quotes,
            first_comment: self.first_comment,
        }
    }

    /// The byte `ahead` places on, 0 behind the end.
    #[inline]
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The rest of the text is left out.
    #[cold]
    fn stop(&mut self) {
        self.at = self.text.len();
        self.is_clean = false;
    }

    #[inline]
    fn put(&mut self, byte: u8) {
        self.out.byte(byte);
    }

    /// Passes on bytes of a comment.
    #[cold]
    fn put_raw(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.out.raw_byte(byte));
    }

    #[inline]
    fn plain(&mut self, byte: u8) {
        self.put(byte);
        self.before = byte;
        self.at += 1;
    }

    /// A comma, and the one space behind it that goes.
    #[inline]
    fn comma(&mut self) {
        if self.peek(1) != b' ' || is_space(self.peek(2)) {
            return self.plain(b',');
        }
        self.out.comma_and_space();
        self.before = b' ';
        self.at += 2;
    }

    #[inline]
    fn space(&mut self) {
        if self.out.taken > 0 && self.out.last != b' ' {
            self.put(b' ');
        }
        self.before = b' ';
        self.at += 1;
        while is_space(self.peek(0)) {
            self.at += 1;
        }
    }

    /// Words, and all that goes through unchanged between them.
    #[inline]
    fn run_on(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let mut len = lanes::plain_len(rest);
        let last = len.checked_sub(1).and_then(|last| rest.get(last)).copied();
        let mut in_word = u8::from(is_word(last.unwrap_or(self.before)));
        let mut backticks = 0;
        while let Some(&byte) = rest.get(len) {
            let flags = run_flags(byte);
            if flags >> in_word & RUN_TAKES == 0 {
                break;
            }
            in_word = flags >> RUN_WORD_SHIFT & 1;
            backticks ^= flags >> RUN_BACKTICK_SHIFT;
            len += 1;
        }
        self.in_backticks ^= backticks == 1;
        self.out.run(rest, len);
        self.before = self.out.last;
        self.at += len;
    }

    fn word(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        let word = rest.get(..len).unwrap_or_default();
        if self.replace_null && !is_word(self.before) && word.eq_ignore_ascii_case(b"NULL") {
            self.put(b'?');
            self.before = b'?';
        } else {
            word.iter().for_each(|&byte| self.put(byte));
            self.before = word.last().copied().unwrap_or(self.before);
        }
        self.at += len;
    }

    /// A digit: a number, or a word that begins like one.
    fn number(&mut self) {
        if is_word(self.before) {
            return self.word();
        }
        // `1` is a name in backticks and behind a dot, and a part of one behind `é`, `@` and so on.
        self.is_clean &= !self.in_backticks && !may_precede_name(self.before);
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if let Some(&end) = rest.get(digits)
            && !is_word(end)
            && end != b'.'
        {
            // Servers read on where a letter follows that is not ASCII.
            self.is_clean &= end.is_ascii();
            self.put_number(digits);
            self.before = b'?';
            self.at += digits;
            if rest.get(digits) == Some(&b',') && self.takes_runs {
                self.numbers_left_out();
            }
            return;
        }
        if digits == rest.len() {
            // As below: the statement's last byte is not judged with the others.
            self.put_number((digits - 1).max(1));
            self.before = b'?';
            self.at += digits;
            return;
        }
        self.odd_number(rest);
    }

    /// After a number, before a comma: takes the comma, and numbers and commas behind it, as long
    /// as the list is so long already that nothing of them is shown.
    fn numbers_left_out(&mut self) {
        while self.out.leaves_out() && self.peek(0) == b',' {
            let rest = self.text.get(self.at + 1..).unwrap_or_default();
            let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
            if digits == 0 || rest.get(digits) != Some(&b',') {
                break;
            }
            self.out.pair_left_out();
            self.residue = Residue { start: self.out.taken - 1, offset: self.at + 1, len: digits };
            self.at += 1 + digits;
        }
    }

    /// A number that isn't plain digits with something else after them.
    #[cold]
    fn odd_number(&mut self, rest: &[u8]) {
        let len = number_len(rest);
        let (mut number, after) = rest.split_at_checked(len).unwrap_or((rest, b""));
        let mut taken = len;
        if after.is_empty() && len > 1 {
            // ProxySQL does not look at the statement's last byte when it judges a number.
            let (&last, init) = number.split_last().unwrap_or((&0, b""));
            if is_number(init) {
                number = init;
                taken = if is_word(last) { len } else { init.len() };
            }
        }
        if is_number(number) {
            self.is_clean &= is_literal(rest);
            self.put_number(number.len());
            self.before = b'?';
            self.at += taken;
        } else {
            let end = match number.split_last() {
                Some((&last, init)) if after.is_empty() && begins_anew(last, init) => init.len(),
                _ => len,
            };
            let word = number.get(..end).unwrap_or(number);
            word.iter().for_each(|&byte| self.put(byte));
            self.before = end.checked_sub(1).and_then(|last| number.get(last)).map_or(0, |&b| b);
            self.at += end;
        }
    }

    /// Passes on the `?` of a number of `len` bytes.
    fn put_number(&mut self, len: usize) {
        let residue = Residue { start: self.out.taken, offset: self.at, len };
        if self.residue.end() > residue.end() {
            self.older_residue = self.residue;
        }
        self.residue = residue;
        self.out.value();
    }

    fn string(&mut self, quote: u8) {
        self.is_clean &= !self.in_backticks;
        self.has_double_quotes |= quote == b'"';
        let mut end = self.at + 1;
        loop {
            let rest = self.text.get(end..).unwrap_or_default();
            let Some(found) = memchr3(quote, b'\\', 0, rest) else {
                return self.stop();
            };
            end += found + 1;
            match rest.get(found) {
                Some(b'\\') => end += 1,
                Some(0) => self.is_clean = false,
                _ => {
                    if rest.get(found + 1) != Some(&quote) {
                        break;
                    }
                    end += 1;
                }
            }
        }
        self.out.value();
        self.before = quote;
        self.at = end;
    }

    fn slash(&mut self) {
        if self.peek(1) == b'*' && self.at + 1 < self.text.len() {
            self.block_comment();
        } else {
            self.plain(b'/');
        }
    }

    /// A `/*`. Inside the comment another `/*` begins it anew, and after a `/*!` each takes three
    /// bytes.
    #[cold]
    fn block_comment(&mut self) {
        self.is_clean = false;
        if self.at + 2 >= self.text.len() {
            return self.stop();
        }
        let (mut start, mut before, mut command) = (self.at, self.before, 0);
        let (content, end) = loop {
            if self.text.get(start + 2) == Some(&b'!') {
                command = 1;
            }
            let content = start + 2 + command;
            if content + 1 >= self.text.len() {
                self.at = content;
                self.before = b' ';
                return;
            }
            match comment_mark(self.text, content, before) {
                None => return self.stop(),
                Some(Mark::End(end)) => break (content, end),
                Some(Mark::Restart(again)) => {
                    before = self.text.get(again - 1).copied().unwrap_or(0);
                    start = again;
                }
            }
        };
        if self.first_comment.is_none() {
            let whole = self.text.get(self.at + 2..end.saturating_sub(1)).unwrap_or_default();
            self.first_comment = Some(whole.get(..FIRST_COMMENT_MAX).unwrap_or(whole));
        }
        let content = self.text.get(content..end.saturating_sub(1)).unwrap_or_default();
        self.put_comment(content, command == 1);
        if self.ends_at_nul {
            return self.stop();
        }
        if self.out.taken > 0 && self.out.last != b' ' {
            self.put_raw(b" ");
        }
        self.before = b' ';
        self.at = end + 1;
    }

    /// Passes on what stays of a comment: without the version number if it is executable, and
    /// nothing if there is nothing but the number.
    fn put_comment(&mut self, content: &[u8], is_command: bool) {
        let is_skipped = |byte: &u8| matches!(byte, b'0'..=b'9' | b' ' | b'/' | b'*' | b'!');
        let Some(start) = content.iter().position(|byte| !is_skipped(byte)) else {
            return;
        };
        let (is_kept, nul) = (self.keep_comment || is_command, memchr(0, content));
        let (content, end) = match nul.and_then(|nul| content.get(..nul)) {
            Some(before) if is_kept => (before, b"".as_slice()),
            _ => (content, b"*/".as_slice()),
        };
        if self.keep_comment {
            self.put_raw(b"/*");
            self.put_raw(content);
            self.put_raw(end);
        } else if is_command {
            self.put_raw(content.get(start..).unwrap_or_default());
        }
        self.ends_at_nul |= is_kept && end.is_empty();
    }

    #[cold]
    fn hash(&mut self) {
        self.is_clean = false;
        if self.at + SHORT_HASH == self.text.len() {
            self.at += 1;
        } else {
            self.line_comment(1);
        }
    }

    fn dash(&mut self) {
        if self.peek(1) != b'-' {
            return self.plain(b'-');
        }
        let third = self.peek(2);
        // The server takes these for comments, whatever we do with them.
        self.is_clean &= third > b' ' && third != 0x7F;
        if !is_space(third) || self.before == b'-' || self.at + 2 >= self.text.len() {
            self.plain(b'-');
        } else if self.at + SHORT_DASHES == self.text.len() {
            self.at += 3;
        } else {
            self.line_comment(3);
        }
    }

    /// Skips a comment that begins with `mark` bytes, up to the end of its line.
    #[cold]
    fn line_comment(&mut self, mark: usize) {
        let start = self.at + mark;
        let rest = self.text.get(start..).unwrap_or_default();
        let end = memchr2(b'\n', b'\r', rest).map_or(self.text.len(), |found| start + found + 1);
        let body = self.text.get(start..end).unwrap_or_default();
        // Another mark in the comment may end it, or take the end of the line with it.
        let has_mark = match mark {
            1 => memchr(b'#', body).is_some(),
            _ => memchr::memmem::find(body, b"--").is_some(),
        };
        if !has_mark {
            return self.after_line_comment(end);
        }
        match line_comment_end(self.text, self.at, mark, self.text.len()) {
            LineEnd::Line(end) => self.after_line_comment(end),
            LineEnd::Mark(end) => {
                self.before = self.text.get(end - mark - 1).copied().unwrap_or(b' ');
                self.at = end;
            }
        }
    }

    /// Goes on at `end`. White space there counts as following white space, so ProxySQL skips a
    /// place in its buffer without writing to it; a number's bytes may still be there.
    #[cold]
    fn after_line_comment(&mut self, end: usize) {
        self.at = end;
        self.before = b' ';
        if is_space(self.peek(0)) && self.out.taken > 0 && self.out.last != b' ' {
            let left = self.left_over();
            self.put(left);
            self.at += 1;
        }
    }

    /// What an earlier number of this statement left at the current place, or a space.
    fn left_over(&self) -> u8 {
        let here = self.out.taken;
        [self.residue, self.older_residue]
            .into_iter()
            .find(|residue| residue.start < here && here < residue.end())
            .and_then(|residue| self.text.get(residue.offset + here - residue.start))
            .copied()
            .unwrap_or(b' ')
    }
}

/// How a comment up to the end of its line has ended, and where.
pub(super) enum LineEnd {
    /// With the line, or the statement.
    Line(usize),
    /// Behind a mark so near to the end of the buffer that it counts as no comment.
    Mark(usize),
}

/// Where a comment ends that begins at `at` with a `#` (`mark` is 1) or a `-- ` (`mark` is 3). Each
/// further mark in it is skipped as a whole, with an end of the line that it may contain.
pub(super) fn line_comment_end(text: &[u8], at: usize, mark: usize, buffer: usize) -> LineEnd {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let (is_hash, mut at) = (mark == 1, at);
    let short = if is_hash { SHORT_HASH } else { SHORT_DASHES };
    while at < text.len() {
        let is_mark = match is_hash {
            true => byte(at) == b'#',
            false => byte(at) == b'-' && byte(at + 1) == b'-',
        };
        if is_mark && at + short == buffer {
            return LineEnd::Mark(at + mark);
        }
        let is_whole = at + mark < text.len() && (is_hash || is_space(byte(at + 2)));
        if is_mark && is_whole {
            at += mark;
        }
        if matches!(byte(at), b'\n' | b'\r') {
            return LineEnd::Line(at + 1);
        }
        at += 1;
    }
    LineEnd::Line(text.len())
}

/// Whether the statement's last byte is looked at again, behind what was no number: it ends no
/// word, or is a digit that begins one.
fn begins_anew(last: u8, before: &[u8]) -> bool {
    !is_word(last) || (last.is_ascii_digit() && before.last().is_some_and(|&byte| !is_word(byte)))
}

/// Finds the `/` that ends a comment or begins it anew, from `from` on. At `from` itself a `/`
/// can only end it, if `before` is a `*`.
fn comment_mark(text: &[u8], from: usize, before: u8) -> Option<Mark> {
    if before == b'*' && text.get(from) == Some(&b'/') {
        return Some(Mark::End(from));
    }
    let mut at = from + 1;
    loop {
        at += memchr(b'/', text.get(at..)?)?;
        if text.get(at + 1) == Some(&b'*') {
            return Some(Mark::Restart(at));
        }
        if text.get(at - 1) == Some(&b'*') {
            return Some(Mark::End(at));
        }
        at += 1;
    }
}

/// Whether a digit behind this byte may be a part of a name.
fn may_precede_name(before: u8) -> bool {
    matches!(before, b'.' | b'@' | 0x80..)
}

/// Length of what is judged as one number: up to a byte that ends a word, where `.` and the sign
/// of an exponent do not. The statement's last byte is always included.
fn number_len(rest: &[u8]) -> usize {
    let mut previous = 0;
    for (at, &byte) in rest.iter().enumerate() {
        let is_sign = matches!(byte, b'+' | b'-') && matches!(previous, b'e' | b'E');
        if !is_word(byte) && byte != b'.' && !is_sign && at + 1 < rest.len() {
            return at;
        }
        previous = byte;
    }
    rest.len()
}

/// Whether servers read what `rest` begins with, a digit, as one number, up to what is certainly
/// no part of it. They take `3e`, `1ee1` and `0X12` for names, and so on.
/// Source: `MY_LEX_NUMBER_IDENT` and `MY_LEX_REAL` in `sql_lex.cc` of both families.
fn is_literal(rest: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let behind = |len: usize| rest.get(len..).unwrap_or_default();
    let mut len = match rest {
        [b'0', b'x', hex @ ..] => {
            let hex = hex.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            if hex == 0 {
                return false;
            }
            2 + hex
        }
        _ => digits(rest),
    };
    if behind(len).first() == Some(&b'.') {
        len += 1 + digits(behind(len + 1));
    }
    if let [b'e' | b'E', exponent @ ..] = behind(len) {
        let sign = usize::from(matches!(exponent, [b'+' | b'-', ..]));
        let exponent = digits(exponent.get(sign..).unwrap_or_default());
        if exponent == 0 || rest.get(len - 1) == Some(&b'.') {
            return false;
        }
        len += 1 + sign + exponent;
    }
    behind(len).first().is_none_or(|&end| !is_word(end) && end != b'.' && end.is_ascii())
}

/// Whether these bytes, the first of them a digit, are a number to the digest: decimal digits with
/// points, exponents and signs anywhere, or `0x` and hexadecimal digits.
pub(super) fn is_number(bytes: &[u8]) -> bool {
    if let [b'0', b'x' | b'X', hex @ ..] = bytes {
        return hex.iter().all(u8::is_ascii_hexdigit);
    }
    bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
}
