//! SQL text as tokens, on bytes in any encoding, in linear time.
//!
//! The rules are those of the servers' own lexers: what a server would run is a token here, what
//! it would skip is not. The content of executable comments (`/*! */`, MariaDB's `/*M! */`) is
//! code; where the two families or two versions would disagree, [`Tokens::is_ambiguous`] says so
//! and the caller takes the careful way.

mod encoding;
mod lexeme;
mod scan;
mod version;

#[cfg(test)]
mod tests;

pub use encoding::Encoding;
pub(crate) use lexeme::unquote;
pub use lexeme::{Keyword, Token, TokenKind};
pub use scan::Tokens;

use crate::version::ServerVersion;

/// How the server that will run a text reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Modes {
    /// `sql_mode` holds ANSI_QUOTES: `"x"` is an identifier.
    pub ansi_quotes: bool,
    /// `sql_mode` holds NO_BACKSLASH_ESCAPES: `\` in a string is an ordinary byte.
    pub no_backslash_escapes: bool,
    /// Whether it holds ANSI_QUOTES is a guess: nobody has set `sql_mode`, and what it is by
    /// default is not known.
    pub guesses_quotes: bool,
    /// Whether it holds NO_BACKSLASH_ESCAPES is a guess.
    pub guesses_escapes: bool,
    /// The server is MariaDB: `/*M! */` is code, and MariaDB's functions are known ones.
    pub flavor_mariadb: bool,
    /// How the client's character set makes bytes into characters.
    pub encoding: Encoding,
    /// The server's version. While it is unknown, functions are known that every version has.
    pub version: ServerVersion,
    /// `sql_mode` certainly holds IGNORE_SPACE: white space may stand between the name of any
    /// function of the server's own and its parenthesis.
    pub ignore_space: bool,
    /// `sql_mode` may be MariaDB's ORACLE: `sequence.NEXTVAL` is a call.
    pub oracle: bool,
}

impl Modes {
    /// Whether `sql_mode` holds NO_BACKSLASH_ESCAPES; `None` where that is a guess.
    pub fn escapes(&self) -> Option<bool> {
        (!self.guesses_escapes).then_some(self.no_backslash_escapes)
    }
}
