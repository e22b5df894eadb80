//! What servers carry out of a text, where that is not what its digest says.
//!
//! ProxySQL's digest is made without a look at the session: it knows no character set and no SQL
//! mode, takes every `/* */` for a comment, and knows no name in backticks with a quote in it. What
//! it leaves out as a string or a comment may be code for the server. The digest of the text as
//! the server reads it has it: comments gone, each string plain, each name without what could be
//! taken for the beginning of a string or a comment. It also takes for spaces what servers do and
//! ProxySQL does not, and has no comment that some versions skip.

use memchr::{memchr, memchr2};

use super::{Digester, Settings};
use crate::{
    spooky,
    token::{Encoding, Modes, Token, TokenKind, Tokens},
};

/// What servers carry out of a text, as a digest says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executed {
    /// What its own digest says.
    AsDigested,
    /// What this digest says.
    Otherwise {
        /// The hash, of as much of the text as digests show.
        digest: u64,
        /// The text, however long.
        text: Box<[u8]>,
    },
    /// Nobody can tell: it depends on what is not known of the session.
    Unknown,
}

impl Executed {
    /// What one or the other stands for.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        match self == other {
            true => self.clone(),
            false => Self::Unknown,
        }
    }
}

impl Digester {
    /// What a server that reads texts by `modes` carries out of `text`, as far as its digest leaves
    /// out more than literals. Linear in the length; reads a text twice whose digest is not clean.
    pub fn executed(&mut self, text: &[u8], settings: &Settings, modes: &Modes) -> Executed {
        // Comments that a digest keeps hide nothing.
        let bare = Settings { keep_comment: false, ..settings.clone() };
        let shown = {
            let digest = self.digest(text, &bare);
            let is_alike = is_read_alike(text, digest.has_double_quotes, modes);
            if digest.is_clean && is_alike && !has_other_spaces(text, modes) {
                return Executed::AsDigested;
            }
            digest.text.to_vec()
        };
        if is_open(text, text.contains(&b'"'), modes) {
            return Executed::Unknown;
        }
        let whole =
            Settings { max_digest_length: usize::MAX, max_query_length: usize::MAX, ..bare };
        let mut tokens = Tokens::new(text, modes);
        let read = as_read(&mut tokens);
        let run = self.digest(&read, &whole).text.to_vec();
        let mut others = vec![run];
        if tokens.depends_on_version() {
            // What is in its comments may be run or skipped.
            let read = as_read(&mut Tokens::new(text, modes).skipping_versioned());
            others.push(self.digest(&read, &whole).text.to_vec());
            others.dedup();
        }
        others.retain(|executed| *executed != shown);
        match &*others {
            _ if tokens.versions_differ() => Executed::Unknown,
            [] => Executed::AsDigested,
            [executed] => {
                let head = executed.get(..settings.max_digest_length).unwrap_or(executed);
                let digest = spooky::hash64(head, 0);
                Executed::Otherwise { digest, text: executed.as_slice().into() }
            }
            _ => Executed::Unknown,
        }
    }
}

/// Whether there is a byte in a text that servers take for white space and digests do not.
pub fn has_other_spaces(text: &[u8], modes: &Modes) -> bool {
    let high = modes.encoding.high_space();
    memchr2(0x0B, 0x0C, text).is_some() || high != 0 && memchr(high, text).is_some()
}

/// Whether a server finds the strings and names of a text where its digest does.
fn is_read_alike(text: &[u8], has_double_quotes: bool, modes: &Modes) -> bool {
    let differ = modes.no_backslash_escapes || modes.ansi_quotes && has_double_quotes;
    !differ
        && !modes.oracle
        && (modes.encoding.is_plain() || text.is_ascii() && modes.encoding != Encoding::Swedish)
        && !is_open(text, has_double_quotes, modes)
}

/// Whether it depends on what is not known of the session where strings and names end.
fn is_open(text: &[u8], has_double_quotes: bool, modes: &Modes) -> bool {
    let is_odd = matches!(modes.encoding, Encoding::Swedish | Encoding::Unknown);
    modes.guesses_quotes && has_double_quotes
        || modes.guesses_escapes && text.contains(&b'\\')
        || is_odd && modes.encoding.may_rename(text)
}

/// The tokens of a text as a server reads it, apart where they were, so that a digest of it finds
/// them all.
fn as_read(tokens: &mut Tokens<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut end = 0;
    for token in tokens {
        if token.offset > end {
            out.push(b' ');
        }
        put(&mut out, &token);
        end = token.end();
    }
    out
}

fn put(out: &mut Vec<u8>, token: &Token<'_>) {
    let at = token.text.iter().position(|byte| matches!(byte, b'\'' | b'"' | b'`'));
    let quote = at.and_then(|at| token.text.get(at).copied());
    match (token.kind, quote) {
        (TokenKind::String, _) => {
            out.extend_from_slice(token.text.get(..at.unwrap_or(0)).unwrap_or_default());
            out.extend_from_slice(b"'x'");
        }
        (TokenKind::UserVariable, Some(b'\'' | b'"')) => out.extend_from_slice(b"@'x'"),
        (TokenKind::QuotedIdentifier, _) => put_name(out, token.text),
        (TokenKind::UserVariable, Some(_)) => {
            out.push(b'@');
            put_name(out, token.text.get(at.unwrap_or(0)..).unwrap_or_default());
        }
        _ => out.extend_from_slice(token.text),
    }
}

/// A quoted name, in backticks, with a letter for each byte that a digest could take for another
/// thing than a part of a name.
fn put_name(out: &mut Vec<u8>, quoted: &[u8]) {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    out.push(b'`');
    let mut before = 0;
    for &byte in inner {
        let is_misread = match byte {
            b'\'' | b'"' | b'`' | b'\\' | b'#' | 0 => true,
            b'-' => before == b'-',
            b'*' => before == b'/',
            _ => false,
        };
        out.push(if is_misread { b'_' } else { byte });
        before = byte;
    }
    out.push(b'`');
}
