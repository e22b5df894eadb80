//! One token, and the comparison of words with keywords.

use std::borrow::Cow;

/// What a token is, as far as the text alone tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted identifier or a keyword.
    Word,
    /// An identifier in backticks, or in double quotes with ANSI_QUOTES.
    QuotedIdentifier,
    /// A string in single quotes, or in double quotes without ANSI_QUOTES.
    String,
    /// An integer, a decimal or floating-point number, or a number written `0x…` or `0b…`.
    Number,
    /// `@x`, `@'x'`, `@"x"` or `` @`x` ``; also the host part of an account name (`root@host`).
    UserVariable,
    /// `@@x`, `@@scope.x`, with all its dotted parts.
    SystemVariable,
    /// `?`.
    Parameter,
    /// `;`.
    Semicolon,
    /// `,`.
    Comma,
    /// `.` that does not begin a number.
    Dot,
    /// `(`.
    Open,
    /// `)`.
    Close,
    /// `:=`.
    Assign,
    /// Any other single byte.
    Operator,
}

/// A piece of SQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// The bytes as written, quotes and `@` included.
    pub text: &'a [u8],
    /// Where `text` begins, in bytes from the beginning of the statement's text.
    pub offset: usize,
    /// Whether it stands in an executable comment with a version number, which some servers run
    /// and others skip.
    pub is_versioned: bool,
}

impl<'a> Token<'a> {
    /// The offset of the byte after the token.
    pub fn end(&self) -> usize {
        self.offset + self.text.len()
    }

    /// Whether it is the keyword `upper` (written in upper case here), in any case.
    pub fn is_word(&self, upper: &[u8]) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(upper)
    }

    /// Its upper-case form for a `match`; empty when it is no word.
    pub fn keyword(&self) -> Keyword {
        match self.kind {
            TokenKind::Word => Keyword::new(self.text),
            _ => Keyword::default(),
        }
    }

    /// Whether it can name a table, a schema, a statement or a variable.
    pub fn is_name(&self) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::QuotedIdentifier)
    }

    /// The text without its quotes, doubled quotes made single. Escapes in strings stay.
    pub fn unquoted(&self) -> Cow<'a, [u8]> {
        unquote(self.text)
    }
}

/// Removes one pair of quotes of any of the three kinds around `text`, if there is one.
pub(crate) fn unquote(text: &[u8]) -> Cow<'_, [u8]> {
    let (quote, inner) = match text {
        [first @ (b'`' | b'"' | b'\''), inner @ .., last] if first == last => (*first, inner),
        _ => return Cow::Borrowed(text),
    };
    if memchr::memchr(quote, inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut name = Vec::with_capacity(inner.len());
    let mut rest = inner.iter();
    while let Some(&byte) = rest.next() {
        name.push(byte);
        if byte == quote && rest.as_slice().first() == Some(&quote) {
            rest.next();
        }
    }
    Cow::Owned(name)
}

const KEYWORD_LEN_MAX: usize = 40;

/// A word in upper case, for comparison with keywords. A word longer than any keyword is empty.
#[derive(Debug, Clone, Copy)]
pub struct Keyword {
    bytes: [u8; KEYWORD_LEN_MAX],
    len: usize,
}

impl Default for Keyword {
    fn default() -> Self {
        Self { bytes: [0; KEYWORD_LEN_MAX], len: 0 }
    }
}

impl Keyword {
    /// The upper-case form of `word`.
    pub fn new(word: &[u8]) -> Self {
        let mut keyword = Self::default();
        if let Some(place) = keyword.bytes.get_mut(..word.len()) {
            place.copy_from_slice(word);
            place.make_ascii_uppercase();
            keyword.len = word.len();
        }
        keyword
    }

    /// The upper-case bytes; empty for anything that cannot be a keyword.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
