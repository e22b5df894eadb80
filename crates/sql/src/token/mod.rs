//! SQL text as tokens, on bytes in any encoding, in linear time.
//!
//! The rules are those of the servers' own lexers: what a server would run is a token here, what
//! it would skip is not. The content of executable comments (`/*! */`, MariaDB's `/*M! */`) is
//! code; where the two families or two versions would disagree, [`Tokens::is_ambiguous`] says so
//! and the caller takes the careful way.

mod lexeme;
mod scan;

#[cfg(test)]
mod tests;

pub(crate) use lexeme::unquote;
pub use lexeme::{Keyword, Token, TokenKind};
pub use scan::Tokens;

/// How the server that will run a text reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// `sql_mode` holds ANSI_QUOTES: `"x"` is an identifier.
    pub ansi_quotes: bool,
    /// `sql_mode` holds NO_BACKSLASH_ESCAPES: `\` in a string is an ordinary byte.
    pub no_backslash_escapes: bool,
    /// The server is MariaDB: `/*M! */` is code, and MariaDB's functions are known ones.
    pub flavor_mariadb: bool,
    /// How the client's character set makes bytes into characters.
    pub encoding: Encoding,
}

/// How bytes from 0x80 up are to be read outside and inside quotes.
///
/// Where the second byte of a character may be below 0x80, a `\` or a backtick after a high byte
/// may belong to the character, so it neither escapes nor quotes. Source: MySQL manual, "The
/// Chinese, Japanese, and Korean character sets".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8. High bytes in words are letters; text that is no UTF-8 is read with suspicion.
    #[default]
    Utf8,
    /// Each byte is a character, and 0xA0 may be white space: latin1 and its like. Also ujis,
    /// euckr and gb2312, where no byte of a longer character is below 0x80.
    SingleByte,
    /// sjis and cp932: 0x81–0x9F and 0xE0–0xFC lead two bytes.
    ShiftJis,
    /// big5, gbk and gb18030: 0x81–0xFE lead two bytes.
    Chinese,
}

impl Encoding {
    /// Whether `first` and `second` are one character of which `second` is no ASCII character.
    pub(crate) fn is_pair(self, first: u8, second: u8) -> bool {
        let leads = match self {
            Self::Utf8 | Self::SingleByte => false,
            Self::ShiftJis => matches!(first, 0x81..=0x9F | 0xE0..=0xFC),
            Self::Chinese => matches!(first, 0x81..=0xFE),
        };
        leads && second >= 0x40 && second != 0x7F
    }

    /// Whether the second byte of a character may be below 0x80.
    pub(crate) fn has_pairs(self) -> bool {
        match self {
            Self::Utf8 | Self::SingleByte => false,
            Self::ShiftJis | Self::Chinese => true,
        }
    }
}
