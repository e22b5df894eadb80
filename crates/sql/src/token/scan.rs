//! The scanner.

use memchr::{memchr, memchr2, memmem};

use crate::routine::Routines;

use super::{Encoding, Modes, Token, TokenKind};

/// The tokens of a text, in order. Cheap to clone, so that a reader may look ahead.
///
/// Comments and white space are skipped. When the iterator is exhausted, [`Self::is_complete`]
/// and [`Self::is_ambiguous`] tell whether the reading can be trusted.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    modes: Modes,
    comment: Executable,
    /// The end of the last token, when it was a dot or may stand before one.
    last: Last,
    skips_versioned: bool,
    routines: Option<&'a Routines>,
    version: Option<&'a [u8]>,
    versions_differ: bool,
    is_complete: bool,
    is_ambiguous: bool,
}

/// The executable comment in which the scanner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Executable {
    No,
    Always,
    Versioned,
}

/// What the byte before the current one ended, as far as it changes how a dot or digit is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Other,
    Name(usize),
    Dot(usize),
}

/// What a byte may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Space,
    Word,
    Digit,
    Quote,
    At,
    Slash,
    Dash,
    Hash,
    Dot,
    Star,
    Colon,
    Single(TokenKind),
}

const CLASSES: [Class; 256] = classes();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time; the index runs over the table"
)]
const fn classes() -> [Class; 256] {
    let mut table = [Class::Single(TokenKind::Operator); 256];
    let mut index = 0;
    while index < 256 {
        table[index] = match index as u8 {
            b'\t'..=b'\r' | b' ' => Class::Space,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xFF => Class::Word,
            b'0'..=b'9' => Class::Digit,
            b'\'' | b'"' | b'`' => Class::Quote,
            b'@' => Class::At,
            b'/' => Class::Slash,
            b'-' => Class::Dash,
            b'#' => Class::Hash,
            b'.' => Class::Dot,
            b'*' => Class::Star,
            b':' => Class::Colon,
            b';' => Class::Single(TokenKind::Semicolon),
            b',' => Class::Single(TokenKind::Comma),
            b'(' => Class::Single(TokenKind::Open),
            b')' => Class::Single(TokenKind::Close),
            b'?' => Class::Single(TokenKind::Parameter),
            _ => Class::Single(TokenKind::Operator),
        };
        index += 1;
    }
    table
}

fn class(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Space)
}

fn is_word_byte(byte: u8) -> bool {
    matches!(class(byte), Class::Word | Class::Digit)
}

impl<'a> Tokens<'a> {
    /// Begins to read `text`.
    pub fn new(text: &'a [u8], modes: &Modes) -> Self {
        // A NUL ends the text for some readers of it and not for others.
        let has_nul = memchr(0, text).is_some();
        Self {
            text,
            at: 0,
            modes: *modes,
            comment: Executable::No,
            last: Last::Other,
            skips_versioned: false,
            routines: None,
            version: None,
            versions_differ: false,
            is_complete: !has_nul,
            is_ambiguous: false,
        }
    }

    /// Leaves out what stands in executable comments with a version number: the text as a server
    /// reads it that is older than the number.
    pub fn skipping_versioned(mut self) -> Self {
        self.skips_versioned = true;
        self
    }

    /// Knows routines that only read.
    pub fn knowing(mut self, routines: &'a Routines) -> Self {
        self.routines = Some(routines);
        self
    }

    /// The routines that are known to read only, if there are any.
    pub(crate) fn routines(&self) -> Option<&'a Routines> {
        self.routines.filter(|routines| !routines.is_empty())
    }

    /// The whole text, of which tokens are pieces.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// How the text is read.
    pub fn modes(&self) -> &Modes {
        &self.modes
    }

    /// Whether no quote or comment that was begun so far is left open, and no byte is NUL.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether something was seen so far that servers may read differently: a comment, or `*/` in
    /// a string, inside an executable comment; a byte that is white space in one character set
    /// and a letter in another; a string in dollar quotes.
    pub fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Whether an executable comment with a version number was seen so far.
    pub fn has_versioned(&self) -> bool {
        self.version.is_some()
    }

    /// Whether executable comments with different version numbers were seen so far, so that there
    /// are more than two ways to read the text.
    pub fn versions_differ(&self) -> bool {
        self.versions_differ
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn rest(&self, from: usize) -> &'a [u8] {
        self.text.get(from..).unwrap_or_default()
    }

    /// The token from the current position to `end`, which becomes the current position.
    fn take(&mut self, kind: TokenKind, end: usize) -> Token<'a> {
        let end = end.max(self.at + 1).min(self.text.len());
        let text = self.text.get(self.at..end).unwrap_or_default();
        let is_versioned = self.comment == Executable::Versioned;
        let token = Token { kind, text, offset: self.at, is_versioned };
        self.at = end;
        self.last = match kind {
            TokenKind::Word => Last::Name(end),
            TokenKind::Dot => Last::Dot(end),
            _ => Last::Other,
        };
        if self.comment != Executable::No && memmem::find(text, b"*/").is_some() {
            self.is_ambiguous = true;
        }
        token
    }

    fn word_end(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(&byte) = self.text.get(at) {
            if self.modes.encoding.is_pair(byte, self.byte(at + 1)) {
                at += 2;
            } else if is_word_byte(byte) {
                at += 1;
            } else {
                break;
            }
        }
        at
    }

    fn word(&mut self) -> Token<'a> {
        let end = self.word_end(self.at);
        let token = self.take(TokenKind::Word, end);
        // 0xA0 is a space in latin1 and part of a letter in UTF-8.
        let has_nbsp = memchr(0xA0, token.text).is_some()
            && (self.modes.encoding != Encoding::Utf8 || std::str::from_utf8(token.text).is_err());
        // MySQL 9 reads `$tag$ … $tag$` as a string.
        let is_dollar_quote = matches!(token.text, [b'$', tail @ ..] if tail.contains(&b'$'));
        self.is_ambiguous |= has_nbsp || is_dollar_quote;
        token
    }

    fn skip_digits(&self, from: usize) -> usize {
        from + self.rest(from).iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// The end of `e10`, `E+10` or `e-10` at `from`.
    fn exponent_end(&self, from: usize) -> Option<usize> {
        let digits = match self.rest(from) {
            [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => from + 2,
            [b'e' | b'E', b'0'..=b'9', ..] => from + 1,
            _ => return None,
        };
        Some(self.skip_digits(digits))
    }

    /// A number, or an identifier that begins with digits.
    fn number(&mut self) -> Token<'a> {
        if self.last == Last::Dot(self.at) {
            return self.word();
        }
        if let Some(end) = self.prefixed_end() {
            return self.take(TokenKind::Number, end);
        }
        let digits = self.skip_digits(self.at);
        if let Some(end) = self.exponent_end(digits) {
            return self.take(TokenKind::Number, end);
        }
        match self.byte(digits) {
            b'.' => self.fraction(digits + 1),
            byte if is_word_byte(byte) => self.word(),
            _ => self.take(TokenKind::Number, digits),
        }
    }

    fn fraction(&mut self, from: usize) -> Token<'a> {
        let digits = self.skip_digits(from);
        let end = self.exponent_end(digits).unwrap_or(digits);
        self.take(TokenKind::Number, end)
    }

    /// The end of `0x…` or `0b…`, unless a word goes on after its digits.
    fn prefixed_end(&self) -> Option<usize> {
        let is_digit: fn(&u8) -> bool = match self.rest(self.at) {
            [b'0', b'x', ..] => u8::is_ascii_hexdigit,
            [b'0', b'b', ..] => |byte| matches!(byte, b'0' | b'1'),
            _ => return None,
        };
        let first = self.at + 2;
        let end = first + self.rest(first).iter().take_while(|byte| is_digit(byte)).count();
        (end > first && !is_word_byte(self.byte(end))).then_some(end)
    }

    /// The offset after the quote that closes the one at `from`; the end of the text if none does.
    fn quoted_end(&mut self, from: usize) -> usize {
        let quote = self.byte(from);
        let is_identifier = quote == b'`' || (quote == b'"' && self.modes.ansi_quotes);
        let has_escapes = !is_identifier && !self.modes.no_backslash_escapes;
        let mut at = from + 1;
        loop {
            let Some(step) = self.find_in_quotes(at, quote, has_escapes) else {
                self.is_complete = false;
                return self.text.len();
            };
            at += step;
            let is_end = self.byte(at) == quote && self.text.get(at + 1) != Some(&quote);
            if is_end {
                return at + 1;
            }
            // An escape and what it escapes, or a doubled quote.
            at += 2;
        }
    }

    /// How far from `from` the next quote or escape is.
    fn find_in_quotes(&self, from: usize, quote: u8, has_escapes: bool) -> Option<usize> {
        let rest = self.text.get(from..)?;
        if self.modes.encoding.has_pairs() {
            let mut at = 0;
            while let Some(&byte) = rest.get(at) {
                let next = rest.get(at + 1).copied().unwrap_or(0);
                if self.modes.encoding.is_pair(byte, next) {
                    at += 2;
                } else if byte == quote || (has_escapes && byte == b'\\') {
                    return Some(at);
                } else {
                    at += 1;
                }
            }
            return None;
        }
        match has_escapes {
            true => memchr2(quote, b'\\', rest),
            false => memchr(quote, rest),
        }
    }

    fn quoted(&mut self) -> Token<'a> {
        let kind = match self.byte(self.at) {
            b'`' => TokenKind::QuotedIdentifier,
            b'"' if self.modes.ansi_quotes => TokenKind::QuotedIdentifier,
            _ => TokenKind::String,
        };
        let end = self.quoted_end(self.at);
        self.take(kind, end)
    }

    /// `@x`, `@'x'`, `@@x.y`.
    fn variable(&mut self) -> Token<'a> {
        match self.byte(self.at + 1) {
            b'@' => {
                let end = self.system_variable_end(self.at + 2);
                self.take(TokenKind::SystemVariable, end)
            }
            b'\'' | b'"' | b'`' => {
                let end = self.quoted_end(self.at + 1);
                self.take(TokenKind::UserVariable, end)
            }
            _ => {
                let mut end = self.word_end(self.at + 1);
                while self.byte(end) == b'.' {
                    end = self.word_end(end + 1);
                }
                self.take(TokenKind::UserVariable, end)
            }
        }
    }

    fn system_variable_end(&mut self, from: usize) -> usize {
        let mut at = from;
        loop {
            at = match self.byte(at) {
                b'`' => self.quoted_end(at),
                _ => self.word_end(at),
            };
            let goes_on = self.byte(at + 1) == b'`' || is_word_byte(self.byte(at + 1));
            if self.byte(at) != b'.' || !goes_on {
                return at;
            }
            at += 1;
        }
    }

    /// Skips a comment at the current position, or enters it if its content is code.
    fn enter_comment(&mut self) {
        let (is_code, body) = match self.rest(self.at + 2) {
            [b'!', ..] => (true, self.at + 3),
            [b'M', b'!', ..] => (self.modes.flavor_mariadb, self.at + 4),
            _ => (false, self.at + 2),
        };
        if self.comment != Executable::No {
            // Versions differ in whether comments nest.
            self.is_ambiguous = true;
        }
        if is_code {
            self.enter_executable(body);
            return;
        }
        self.at = match memmem::find(self.rest(self.at + 2), b"*/") {
            Some(len) => self.at + 2 + len + 2,
            None => {
                self.is_complete = false;
                self.text.len()
            }
        };
    }

    fn enter_executable(&mut self, body: usize) {
        let digits = self.rest(body).iter().take(6).take_while(|byte| byte.is_ascii_digit());
        let len = digits.count();
        // Fewer than five digits are no version but code.
        if len < 5 {
            self.comment = Executable::Always;
            self.at = body;
            return;
        }
        self.comment = Executable::Versioned;
        self.at = body + len;
        let version = self.text.get(body..self.at);
        self.versions_differ |= self.version.is_some() && self.version != version;
        self.version = version;
    }

    fn skip_line(&mut self) {
        let rest = self.rest(self.at);
        let line = match memchr(b'\n', rest) {
            Some(len) => rest.get(..len).unwrap_or_default(),
            None => rest,
        };
        if self.comment != Executable::No && memmem::find(line, b"*/").is_some() {
            self.is_ambiguous = true;
        }
        self.at += line.len();
    }

    /// Whether `--` at the current position begins a comment.
    fn is_dash_comment(&mut self) -> bool {
        if self.byte(self.at + 1) != b'-' {
            return false;
        }
        // The end of the text reads as NUL, a control character, and begins a comment too.
        match self.byte(self.at + 2) {
            0..=b' ' | 0x7F => true,
            0x80..=0xA0 => {
                self.is_ambiguous = true;
                false
            }
            _ => false,
        }
    }

    fn scan(&mut self) -> Option<Token<'a>> {
        while let Some(&byte) = self.text.get(self.at) {
            let token = match class(byte) {
                Class::Space => {
                    self.at += 1;
                    continue;
                }
                Class::Word => self.word(),
                Class::Digit => self.number(),
                Class::Quote => self.quoted(),
                Class::At => self.variable(),
                Class::Single(kind) => self.take(kind, self.at + 1),
                Class::Slash if self.byte(self.at + 1) == b'*' => {
                    self.enter_comment();
                    continue;
                }
                Class::Hash => {
                    self.skip_line();
                    continue;
                }
                Class::Dash if self.is_dash_comment() => {
                    self.skip_line();
                    continue;
                }
                Class::Star if self.comment != Executable::No && self.byte(self.at + 1) == b'/' => {
                    self.comment = Executable::No;
                    self.at += 2;
                    continue;
                }
                Class::Colon if self.byte(self.at + 1) == b'=' => {
                    self.take(TokenKind::Assign, self.at + 2)
                }
                Class::Dot => self.dot(),
                Class::Slash | Class::Dash | Class::Star | Class::Colon => {
                    self.take(TokenKind::Operator, self.at + 1)
                }
            };
            return Some(token);
        }
        if self.comment != Executable::No {
            self.is_complete = false;
        }
        None
    }

    fn dot(&mut self) -> Token<'a> {
        let is_number = self.byte(self.at + 1).is_ascii_digit();
        match is_number && self.last != Last::Name(self.at) {
            true => self.fraction(self.at + 1),
            false => self.take(TokenKind::Dot, self.at + 1),
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let token = self.scan()?;
            if !(self.skips_versioned && token.is_versioned) {
                return Some(token);
            }
        }
    }
}
