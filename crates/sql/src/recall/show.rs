//! What `SHOW WARNINGS` and its like ask for.

use crate::token::{Modes, Token, TokenKind, Tokens};

/// What a `SHOW WARNINGS` and its like asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShowDiagnostics {
    /// `SHOW ERRORS`: only those of level `Error`.
    pub errors_only: bool,
    /// How many are asked for instead of themselves.
    pub counts: bool,
    /// How many are left out at the front.
    pub offset: u64,
    /// How many are shown at most.
    pub limit: u64,
}

/// A longer `SHOW` is none of diagnostics.
const SHOW_TOKENS_MAX: usize = 16;

/// Reads `SHOW {WARNINGS | ERRORS} [LIMIT …]` and `SHOW COUNT(*) {WARNINGS | ERRORS}`; `None` for
/// anything else.
pub fn show_diagnostics(text: &[u8], modes: &Modes) -> Option<ShowDiagnostics> {
    let mut tokens = Tokens::new(text, modes);
    let is_end = |token: &Token<'_>| token.kind == TokenKind::Semicolon;
    let mut all: Vec<Token<'_>> = tokens.by_ref().take(SHOW_TOKENS_MAX).collect();
    let is_longer = !tokens.by_ref().all(|token| is_end(&token));
    if is_longer || tokens.has_versioned() || tokens.is_ambiguous() || !tokens.is_complete() {
        return None;
    }
    while all.last().is_some_and(is_end) {
        all.pop();
    }
    let (first, rest) = all.split_first()?;
    if !first.is_word(b"SHOW") {
        return None;
    }
    let (counts, rest) = match rest {
        [count, open, star, close, rest @ ..]
            if count.is_word(b"COUNT")
                && open.kind == TokenKind::Open
                && star.text == b"*"
                && close.kind == TokenKind::Close =>
        {
            (true, rest)
        }
        rest => (false, rest),
    };
    let (what, rest) = rest.split_first()?;
    let errors_only = what.is_word(b"ERRORS");
    if !errors_only && !what.is_word(b"WARNINGS") {
        return None;
    }
    let number = |token: &Token<'_>| std::str::from_utf8(token.text).ok()?.parse().ok();
    let (offset, limit) = match rest {
        [] => (0, u64::MAX),
        [word, count] if word.is_word(b"LIMIT") && !counts => (0, number(count)?),
        [word, offset, comma, count]
            if word.is_word(b"LIMIT") && comma.kind == TokenKind::Comma && !counts =>
        {
            (number(offset)?, number(count)?)
        }
        [word, count, by, offset] if word.is_word(b"LIMIT") && by.is_word(b"OFFSET") && !counts => {
            (number(offset)?, number(count)?)
        }
        _ => return None,
    };
    Some(ShowDiagnostics { errors_only, counts, offset, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_show_warnings_is_read() {
        let read = |text: &str| show_diagnostics(text.as_bytes(), &Modes::default());
        let of = |errors_only, counts, offset, limit| {
            Some(ShowDiagnostics { errors_only, counts, offset, limit })
        };
        assert_eq!(read("show warnings;"), of(false, false, 0, u64::MAX));
        assert_eq!(read("SHOW ERRORS LIMIT 2"), of(true, false, 0, 2));
        assert_eq!(read("SHOW WARNINGS LIMIT 1, 5"), of(false, false, 1, 5));
        assert_eq!(read("SHOW WARNINGS LIMIT 5 OFFSET 1"), of(false, false, 1, 5));
        assert_eq!(read("SHOW COUNT(*) ERRORS"), of(true, true, 0, u64::MAX));
        for text in ["SHOW TABLES", "SHOW WARNINGS; SELECT 1", "SHOW WARNINGS LIMIT x", "SELECT 1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
