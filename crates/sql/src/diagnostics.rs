//! `GET DIAGNOSTICS`, answered in the text itself: what it asks for becomes an assignment.
//!
//! A server answers it for its connection, which may have served another session since.

use crate::{
    set::is_equals,
    token::{Modes, Token, TokenKind, Tokens},
};

/// A longer `GET DIAGNOSTICS` is left to the server.
const TOKENS_MAX: usize = 64;

/// What the statement area holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementArea {
    /// `ROW_COUNT`.
    pub row_count: i64,
    /// `NUMBER`: how many conditions there are.
    pub number: u64,
}

/// The `SET` that assigns what `GET [CURRENT] DIAGNOSTICS @variable = {ROW_COUNT | NUMBER}, …` asks
/// for; `None` for anything else.
pub fn assign_diagnostics(text: &[u8], modes: &Modes, area: StatementArea) -> Option<Vec<u8>> {
    let mut tokens = Tokens::new(text, modes);
    let all: Vec<Token<'_>> = tokens.by_ref().take(TOKENS_MAX).collect();
    let is_longer = tokens.next().is_some();
    if is_longer || tokens.has_versioned() || tokens.is_ambiguous() || !tokens.is_complete() {
        return None;
    }
    let is_end = |token: &Token<'_>| token.kind == TokenKind::Semicolon;
    let len = all.iter().rposition(|token| !is_end(token))? + 1;
    let items = match all.get(..len)? {
        [get, current, what, items @ ..]
            if get.is_word(b"GET") && current.is_word(b"CURRENT") && is_diagnostics(what) =>
        {
            items
        }
        [get, what, items @ ..] if get.is_word(b"GET") && is_diagnostics(what) => items,
        _ => return None,
    };
    let mut out = Vec::new();
    for item in items.split(|token| token.kind == TokenKind::Comma) {
        let [variable, equals, name] = item else { return None };
        if variable.kind != TokenKind::UserVariable || !is_equals(equals) {
            return None;
        }
        let value = match () {
            () if name.is_word(b"ROW_COUNT") => area.row_count.to_string(),
            () if name.is_word(b"NUMBER") => area.number.to_string(),
            () => return None,
        };
        out.extend_from_slice(if out.is_empty() { b"SET " } else { b"," });
        out.extend_from_slice(variable.text);
        out.push(b'=');
        out.extend_from_slice(value.as_bytes());
    }
    Some(out)
}

fn is_diagnostics(token: &Token<'_>) -> bool {
    token.is_word(b"DIAGNOSTICS")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(text: &str) -> Option<String> {
        let area = StatementArea { row_count: -1, number: 2 };
        let text = assign_diagnostics(text.as_bytes(), &Modes::default(), area)?;
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn numbers_of_the_statement_are_assigned() {
        let set = |text: &str| Some(text.to_owned());
        assert_eq!(assigned("GET DIAGNOSTICS @c = ROW_COUNT"), set("SET @c=-1"));
        assert_eq!(assigned("get current diagnostics @`a b`=number;"), set("SET @`a b`=2"));
        let both = "GET DIAGNOSTICS @a = NUMBER, @b = ROW_COUNT";
        assert_eq!(assigned(both), set("SET @a=2,@b=-1"));
    }

    #[test]
    fn anything_else_is_left_to_the_server() {
        for text in [
            "GET DIAGNOSTICS CONDITION 1 @c = MYSQL_ERRNO",
            "GET STACKED DIAGNOSTICS @c = NUMBER",
            "GET DIAGNOSTICS @c = NOTHING",
            "GET DIAGNOSTICS c = NUMBER",
            "GET DIAGNOSTICS @c = NUMBER,",
            "GET DIAGNOSTICS",
            "GET DIAGNOSTICS @c = NUMBER; SELECT 1",
            "SELECT 1",
            "",
        ] {
            assert_eq!(assigned(text), None, "{text}");
        }
    }
}
