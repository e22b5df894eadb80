//! The scanner.

use memchr::{memchr, memchr2, memmem};

use crate::routine::Routines;

use super::{
    Encoding, Modes, Token, TokenKind,
    version::{self, Runs},
};

/// The tokens of a text, in order. Cheap to clone, so that a reader may look ahead.
///
/// Comments and white space are skipped. When the iterator is exhausted, [`Self::is_complete`]
/// and [`Self::is_ambiguous`] tell whether the reading can be trusted.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
    modes: Modes,
    classes: &'static Classes,
    comment: Executable,
    /// The end of the last token, when it was a dot or may stand before one.
    last: Last,
    skips_versioned: bool,
    routines: Option<&'a Routines>,
    has_versioned: bool,
    version: Option<&'a [u8]>,
    versions_differ: bool,
    is_complete: bool,
    is_ambiguous: bool,
    finds_by_null: bool,
    leaves_variable: bool,
    guesses_quotes: bool,
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

type Classes = [Class; 256];

static CLASSES: Classes = classes(Encoding::Utf8);
static LATIN_CLASSES: Classes = classes(Encoding::Latin);
static DOS_CLASSES: Classes = classes(Encoding::Dos);
static SWEDISH_CLASSES: Classes = classes(Encoding::Swedish);

fn classes_of(encoding: Encoding) -> &'static Classes {
    match encoding {
        Encoding::Utf8
        | Encoding::SingleByte
        | Encoding::ShiftJis
        | Encoding::Big5
        | Encoding::Gbk
        | Encoding::Unknown => &CLASSES,
        Encoding::Latin => &LATIN_CLASSES,
        Encoding::Dos => &DOS_CLASSES,
        Encoding::Swedish => &SWEDISH_CLASSES,
    }
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time; the index runs over the table"
)]
const fn classes(encoding: Encoding) -> Classes {
    let mut table = [Class::Single(TokenKind::Operator); 256];
    let mut index = 0;
    while index < 256 {
        table[index] = match index as u8 {
            byte if byte != 0 && byte == encoding.high_space() => Class::Space,
            byte if encoding.is_own_letter(byte) => Class::Word,
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

/// Whether an optimizer hint speaks of a variable, however that is written.
fn names(hint: &[u8], variable: &[u8]) -> bool {
    hint.windows(variable.len()).any(|part| part.eq_ignore_ascii_case(variable))
}

/// Variables that MySQL does not give back behind a `SET_VAR` as they were: a time that stands
/// still, and an id for the next insert. Tried with all that take the hint on MySQL 9.7.
const STAYS_SET: [&[u8]; 2] = [b"timestamp", b"insert_id"];

/// Whether character sets may differ in how they read a text. They do not where its bytes from 0x80
/// up stand in plain strings, none of them before a sign that some sets make a part of a character
/// and others an escape or a quote.
fn may_be_read_otherwise(text: &[u8]) -> bool {
    if text.is_ascii() {
        return false;
    }
    let has = |wanted: &[u8]| memmem::find(text, wanted).is_some();
    let has_more = [&b"\\"[..], b"`", b"--", b"#", b"/*"].into_iter().any(has);
    if has_more || std::str::from_utf8(text).is_err() {
        return true;
    }
    let mut quote = None;
    text.iter().any(|byte| {
        match (quote, byte) {
            (None, b'\'' | b'"') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
        quote.is_none() && !byte.is_ascii()
    })
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
            classes: classes_of(modes.encoding),
            comment: Executable::No,
            last: Last::Other,
            skips_versioned: false,
            routines: None,
            has_versioned: false,
            version: None,
            versions_differ: false,
            is_complete: !has_nul,
            is_ambiguous: modes.encoding == Encoding::Unknown && may_be_read_otherwise(text),
            finds_by_null: false,
            leaves_variable: false,
            guesses_quotes: false,
        }
    }

    /// Leaves out what stands in executable comments that only some versions run: the text as a
    /// server reads it that runs none of them.
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

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> usize {
        self.at
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
    /// a string, inside an executable comment; a version number of six digits without a space; a
    /// byte that is white space in one character set and a letter in another; a string in dollar
    /// quotes; a quote whose end depends on modes that are not known; a number with a point and an
    /// exponent without digits.
    pub fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Whether an optimizer hint so far sets `sql_auto_is_null`: then `IS NULL` asks for the last
    /// insert id.
    pub fn finds_by_null(&self) -> bool {
        self.finds_by_null
    }

    /// Whether an optimizer hint so far sets a variable that the server does not give back.
    pub fn leaves_variable(&self) -> bool {
        self.leaves_variable
    }

    /// Whether an executable comment with a version number was seen so far.
    pub fn has_versioned(&self) -> bool {
        self.has_versioned
    }

    /// Whether an executable comment was seen so far that some versions run and others skip.
    pub fn depends_on_version(&self) -> bool {
        self.version.is_some()
    }

    /// Whether double quotes were seen so far that enclose a string or a name, and nobody knows
    /// which.
    pub fn guesses_quotes(&self) -> bool {
        self.guesses_quotes
    }

    /// Whether executable comments with different version numbers were seen so far that some
    /// versions run and others skip, so that there are more than two ways to read the text.
    pub fn versions_differ(&self) -> bool {
        self.versions_differ
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn class(&self, byte: u8) -> Class {
        self.classes.get(usize::from(byte)).copied().unwrap_or(Class::Space)
    }

    fn is_word_byte(&self, byte: u8) -> bool {
        matches!(self.class(byte), Class::Word | Class::Digit)
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
            } else if self.is_word_byte(byte) {
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
        // A space in latin1, and part of a letter in UTF-8.
        let has_nbsp = self.modes.encoding == Encoding::Utf8
            && memchr(0xA0, token.text).is_some()
            && std::str::from_utf8(token.text).is_err();
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
            byte if self.is_word_byte(byte) => self.word(),
            _ => self.take(TokenKind::Number, digits),
        }
    }

    fn fraction(&mut self, from: usize) -> Token<'a> {
        let digits = self.skip_digits(from);
        let exponent = self.exponent_end(digits);
        // MySQL drops the number of `1.e` and takes what is behind, be it the first sign of a
        // comment, by itself.
        self.is_ambiguous |= exponent.is_none() && matches!(self.byte(digits), b'e' | b'E');
        self.take(TokenKind::Number, exponent.unwrap_or(digits))
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
        (end > first && !self.is_word_byte(self.byte(end))).then_some(end)
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
                self.note_guesses(from, at + 1);
                return at + 1;
            }
            // An escape and what it escapes, or a doubled quote.
            at += 2;
        }
    }

    /// What stands between `from` and `end` is quoted. If it would end elsewhere in modes that are
    /// as likely, it is ambiguous.
    fn note_guesses(&mut self, from: usize, end: usize) {
        let Modes { guesses_quotes, guesses_escapes, .. } = self.modes;
        if !guesses_quotes && !guesses_escapes {
            return;
        }
        let text = self.text.get(from..end).unwrap_or_default();
        let (is_double, has_backslash) = (text.first() == Some(&b'"'), text.contains(&b'\\'));
        self.guesses_quotes |= guesses_quotes && is_double;
        self.is_ambiguous |= guesses_quotes && is_double && has_backslash;
        let hides_quote = |pair: &[u8]| matches!(pair, [b'\\', b'\'' | b'"']);
        self.is_ambiguous |= guesses_escapes && has_backslash && text.windows(2).any(hides_quote);
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
                let token = self.take(TokenKind::SystemVariable, end);
                self.is_ambiguous |= !token.text.is_ascii();
                token
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
                let token = self.take(TokenKind::UserVariable, end);
                // MySQL ends the name before a high byte, MariaDB reads byte by byte.
                self.is_ambiguous |= (!self.modes.flavor_mariadb
                    || self.modes.encoding.has_pairs())
                    && !token.text.is_ascii();
                token
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
            let goes_on = self.byte(at + 1) == b'`' || self.is_word_byte(self.byte(at + 1));
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
            [b'M', b'!', ..] => {
                // What is a comment to MySQL's servers is code to MariaDB's beside them.
                self.is_ambiguous |= !self.modes.flavor_mariadb;
                (self.modes.flavor_mariadb, self.at + 4)
            }
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
            Some(len) => {
                let comment = self.rest(self.at + 2).get(..len).unwrap_or_default();
                if comment.first() == Some(&b'+') {
                    self.finds_by_null |= names(comment, b"sql_auto_is_null");
                    self.leaves_variable |= STAYS_SET.iter().any(|name| names(comment, name));
                }
                self.at + 2 + len + 2
            }
            None => {
                self.is_complete = false;
                self.text.len()
            }
        };
    }

    fn enter_executable(&mut self, body: usize) {
        let Some((digits, runs)) = version::version(self.rest(body)) else {
            self.comment = Executable::Always;
            self.at = body;
            return;
        };
        self.has_versioned = true;
        self.is_ambiguous |= !version::is_read_by_both(self.rest(body), digits);
        self.at = body + digits;
        match runs {
            Runs::Always => self.comment = Executable::Always,
            Runs::Never => self.skip_never_run(),
            Runs::ByVersion => {
                self.comment = Executable::Versioned;
                let version = self.text.get(body..self.at);
                self.versions_differ |= self.version.is_some() && self.version != version;
                self.version = version;
            }
        }
    }

    /// Skips the content of an executable comment of a version that there is not.
    fn skip_never_run(&mut self) {
        let rest = self.rest(self.at);
        let Some(len) = memmem::find(rest, b"*/") else {
            self.is_complete = false;
            self.at = self.text.len();
            return;
        };
        // Comments nest here, once.
        let content = rest.get(..len).unwrap_or_default();
        self.is_ambiguous |= memmem::find(content, b"/*").is_some();
        self.at += len + 2;
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
            0..=b' ' => true,
            byte if byte == self.modes.encoding.high_space() => true,
            byte @ 0x7F.. => {
                self.is_ambiguous |= self.modes.encoding.may_be_control(byte);
                false
            }
            _ => false,
        }
    }

    fn scan(&mut self) -> Option<Token<'a>> {
        while let Some(&byte) = self.text.get(self.at) {
            let token = match self.class(byte) {
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
