//! Reading the beginning of a statement, token by token.

use super::effect::TableName;
use crate::token::{Keyword, Modes, Token, TokenKind, Tokens};

/// The tokens of one statement, without the `;` at its end. Works on a copy: reading ahead with it
/// moves nobody else.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    tokens: Tokens<'a>,
    next: Option<Token<'a>>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(tokens: &Tokens<'a>) -> Self {
        let mut tokens = tokens.clone();
        let next = tokens.next();
        Self { tokens, next }
    }

    /// The modes in which the text is read.
    pub(super) fn modes(&self) -> &Modes {
        self.tokens.modes()
    }

    /// Whether what was read so far has no comment or quotes without an end.
    pub(super) fn is_complete(&self) -> bool {
        self.tokens.is_complete()
    }

    /// Whether a routine of this name is known to read only.
    pub(super) fn knows(&self, routine: &TableName) -> bool {
        let routines = self.tokens.routines();
        routines.is_some_and(|known| known.knows(routine.schema.as_deref(), &routine.table))
    }

    /// The next token, not taken.
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.next.filter(|token| token.kind != TokenKind::Semicolon)
    }

    /// The token after the next one.
    pub(super) fn peek_second(&self) -> Option<Token<'a>> {
        self.peek()?;
        self.tokens.clone().next().filter(|token| token.kind != TokenKind::Semicolon)
    }

    /// The next token's keyword; empty at the end and for anything that is no word.
    pub(super) fn keyword(&self) -> Keyword {
        self.peek().map(|token| token.keyword()).unwrap_or_default()
    }

    /// Takes the next token if it is the keyword `word`.
    pub(super) fn accept(&mut self, word: &[u8]) -> bool {
        let is_next = self.peek().is_some_and(|token| token.is_word(word));
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes the next token if it is of this kind.
    pub(super) fn accept_kind(&mut self, kind: TokenKind) -> bool {
        let is_next = self.peek().is_some_and(|token| token.kind == kind);
        if is_next {
            self.next();
        }
        is_next
    }

    /// Takes a keyword that is one of `words`.
    pub(super) fn accept_any(&mut self, words: &[&[u8]]) -> bool {
        words.iter().any(|word| self.accept(word))
    }

    /// Takes `-` if it is next.
    pub(super) fn accept_minus(&mut self) {
        if self.peek().is_some_and(|token| token.text == b"-") {
            self.next();
        }
    }

    /// Takes `=` if it is next.
    pub(super) fn accept_equals(&mut self) {
        if self.peek().is_some_and(|token| token.text == b"=") {
            self.next();
        }
    }

    /// Takes `IF [NOT] EXISTS`.
    pub(super) fn accept_existence(&mut self) {
        if self.accept(b"IF") {
            self.accept(b"NOT");
            self.accept(b"EXISTS");
        }
    }

    /// Takes an identifier, without its quotes.
    pub(super) fn name(&mut self) -> Option<Vec<u8>> {
        let token = self.peek().filter(Token::is_name)?;
        self.next();
        Some(token.unquoted().into_owned())
    }

    /// Takes `table` or `schema.table`.
    pub(super) fn table_name(&mut self) -> Option<TableName> {
        let first = self.name()?;
        if !self.accept_kind(TokenKind::Dot) {
            return Some(TableName { schema: None, table: first });
        }
        let table = self.name()?;
        Some(TableName { schema: Some(first), table })
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.next = self.tokens.next();
        Some(token)
    }
}
