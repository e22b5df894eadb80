//! The parser of `SET`.

use super::{Assignment, Isolation, Scope, SetError, TransactionScope, TransactionSetting, Value};
use crate::{
    analysis::EFFECTS_MAX,
    token::{Modes, Token, TokenKind, Tokens, unquote},
};

/// Parses one `SET` statement, with or without a `;` at its end.
///
/// `SET STATEMENT … FOR …` gives an empty list: what it sets ends with its statement.
pub fn parse(text: &[u8], modes: &Modes) -> Result<Vec<Assignment>, SetError> {
    let mut tokens = Tokens::new(text, modes);
    let assignments = parse_tokens(&mut tokens, EFFECTS_MAX)?;
    match tokens.find(|token| token.kind != TokenKind::Semicolon) {
        None if tokens.is_complete() => Ok(assignments),
        None => Err(SetError::Incomplete),
        Some(_) => Err(SetError::NotOneSet),
    }
}

/// Parses the `SET` statement at the front of `tokens`, up to and with its `;`. One of more than
/// `max` items is an error.
pub(crate) fn parse_tokens(
    tokens: &mut Tokens<'_>,
    max: usize,
) -> Result<Vec<Assignment>, SetError> {
    let mut parser = Parser { next: tokens.next(), tokens };
    if !parser.accept(b"SET") {
        return Err(SetError::NotOneSet);
    }
    let assignments = match parser.whole_statement()? {
        Some(assignments) => assignments,
        None => parser.list(max)?,
    };
    if !parser.tokens.is_complete() {
        return Err(SetError::Incomplete);
    }
    if parser.tokens.is_ambiguous() {
        return Err(SetError::Ambiguous);
    }
    Ok(assignments)
}

struct Parser<'t, 'a> {
    tokens: &'t mut Tokens<'a>,
    /// The token that is read next; `None` at the end of the text.
    next: Option<Token<'a>>,
}

impl<'a> Parser<'_, 'a> {
    /// The next token of the statement, not taken.
    fn peek(&self) -> Option<Token<'a>> {
        self.next.filter(|token| token.kind != TokenKind::Semicolon)
    }

    /// Takes the next token of the statement. Its `;` is never taken.
    fn bump(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.next = self.tokens.next();
        Some(token)
    }

    fn accept(&mut self, word: &[u8]) -> bool {
        let is_next = self.peek().is_some_and(|token| token.is_word(word));
        if is_next {
            self.bump();
        }
        is_next
    }

    fn is_kind(&self, kind: TokenKind) -> bool {
        self.peek().is_some_and(|token| token.kind == kind)
    }

    /// Whether the token after the next one is `word`.
    fn is_word_second(&self, word: &[u8]) -> bool {
        self.tokens.clone().next().is_some_and(|token| token.is_word(word))
    }

    /// Whether the next token is followed by `=` or `:=`, so that it names a variable.
    fn is_assigned(&self) -> bool {
        self.tokens.clone().next().is_some_and(|token| is_equals(&token))
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, SetError> {
        let end = self.tokens.text().len();
        let offset = self.next.map_or(end, |token| token.offset);
        Err(SetError::Expected { what, offset })
    }

    fn drain(&mut self) {
        while self.bump().is_some() {}
    }

    /// The forms that are no list of assignments.
    fn whole_statement(&mut self) -> Result<Option<Vec<Assignment>>, SetError> {
        let Some(first) = self.peek() else {
            return self.expected("a variable");
        };
        let found = match first.keyword().as_bytes() {
            b"PASSWORD" => Assignment::Password,
            b"ROLE" if !self.is_assigned() => Assignment::Role,
            b"DEFAULT" if self.is_word_second(b"ROLE") => Assignment::DefaultRole,
            b"RESOURCE" if self.is_word_second(b"GROUP") => Assignment::ResourceGroup,
            b"STATEMENT" if !self.is_assigned() => {
                self.drain();
                return Ok(Some(Vec::new()));
            }
            b"TRANSACTION" if !self.is_assigned() => {
                self.bump();
                return self.transaction(TransactionScope::Next).map(Some);
            }
            b"SESSION" | b"LOCAL" if self.is_word_second(b"TRANSACTION") => {
                self.bump();
                self.bump();
                return self.transaction(TransactionScope::Session).map(Some);
            }
            b"GLOBAL" if self.is_word_second(b"TRANSACTION") => {
                self.bump();
                self.bump();
                return self.transaction(TransactionScope::Global).map(Some);
            }
            _ => return Ok(None),
        };
        self.drain();
        Ok(Some(vec![found]))
    }

    fn transaction(&mut self, scope: TransactionScope) -> Result<Vec<Assignment>, SetError> {
        let mut setting = TransactionSetting { scope, isolation: None, read_only: None };
        loop {
            if self.accept(b"ISOLATION") {
                if !self.accept(b"LEVEL") {
                    return self.expected("LEVEL");
                }
                setting.isolation = Some(self.isolation()?);
            } else if self.accept(b"READ") {
                setting.read_only = Some(match () {
                    () if self.accept(b"ONLY") => true,
                    () if self.accept(b"WRITE") => false,
                    () => return self.expected("ONLY or WRITE"),
                });
            } else {
                return self.expected("ISOLATION or READ");
            }
            match self.bump() {
                None => return Ok(vec![Assignment::Transaction(setting)]),
                Some(token) if token.kind == TokenKind::Comma => {}
                Some(_) => return self.expected("a comma"),
            }
        }
    }

    fn isolation(&mut self) -> Result<Isolation, SetError> {
        if self.accept(b"SERIALIZABLE") {
            return Ok(Isolation::Serializable);
        }
        if self.accept(b"REPEATABLE") && self.accept(b"READ") {
            return Ok(Isolation::RepeatableRead);
        }
        if self.accept(b"READ") {
            if self.accept(b"COMMITTED") {
                return Ok(Isolation::ReadCommitted);
            }
            if self.accept(b"UNCOMMITTED") {
                return Ok(Isolation::ReadUncommitted);
            }
        }
        self.expected("an isolation level")
    }

    fn list(&mut self, max: usize) -> Result<Vec<Assignment>, SetError> {
        let mut assignments = Vec::new();
        // The latest keyword holds for the bare names that follow it.
        let mut scope = Scope::LocalDefault;
        loop {
            if assignments.len() >= max {
                return Err(SetError::TooLong);
            }
            assignments.push(self.item(&mut scope)?);
            match self.bump() {
                None => return Ok(assignments),
                Some(token) if token.kind == TokenKind::Comma => {}
                Some(_) => return self.expected("a comma"),
            }
        }
    }

    fn item(&mut self, scope: &mut Scope) -> Result<Assignment, SetError> {
        let Some(first) = self.peek() else {
            return self.expected("a variable");
        };
        match first.kind {
            TokenKind::UserVariable => {
                self.bump();
                let name = user_variable_name(first.text);
                self.equals()?;
                let value = self.value(true)?;
                return Ok(Assignment::Variable { scope: Scope::UserVariable, name, value });
            }
            TokenKind::SystemVariable => {
                self.bump();
                let (scope, name) = split_system_variable(first.text);
                return self.variable(scope, name);
            }
            TokenKind::Word | TokenKind::QuotedIdentifier => {}
            _ => return self.expected("a variable"),
        }
        if !self.is_assigned() {
            if let Some(found) = self.charset_item()? {
                return Ok(found);
            }
            if let Some(keyword) = scope_of(first.keyword().as_bytes()) {
                *scope = keyword;
                self.bump();
            }
        }
        let name = self.dotted_name()?;
        self.variable(*scope, name)
    }

    /// `NAMES …`, `CHARACTER SET …`, `CHAR SET …` or `CHARSET …`.
    fn charset_item(&mut self) -> Result<Option<Assignment>, SetError> {
        if self.accept(b"NAMES") {
            let charset = self.charset()?;
            let collation = match self.accept(b"COLLATE") {
                true => self.charset()?,
                false => None,
            };
            return Ok(Some(Assignment::Names { charset, collation }));
        }
        let is_character_set = self.accept(b"CHARSET")
            || (self.is_word_second(b"SET") && (self.accept(b"CHARACTER") || self.accept(b"CHAR")))
                && self.accept(b"SET");
        match is_character_set {
            true => Ok(Some(Assignment::CharacterSet { charset: self.charset()? })),
            false => Ok(None),
        }
    }

    /// A character set or collation; `None` is `DEFAULT`.
    fn charset(&mut self) -> Result<Option<Vec<u8>>, SetError> {
        if self.accept(b"DEFAULT") {
            return Ok(None);
        }
        match self.peek() {
            Some(token) if token.is_name() || token.kind == TokenKind::String => {
                self.bump();
                let name = token.unquoted().into_owned();
                // `'utf8\\mb4'` is `utf8mb4` for the server, and can't be said again as it stands.
                match name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
                    true => Ok(Some(name)),
                    false => self.expected("a plain name of a character set"),
                }
            }
            _ => self.expected("a character set"),
        }
    }

    fn dotted_name(&mut self) -> Result<Vec<u8>, SetError> {
        let mut name = Vec::new();
        loop {
            match self.peek() {
                Some(token) if token.is_name() => name.extend_from_slice(&token.unquoted()),
                _ => return self.expected("a variable"),
            }
            self.bump();
            if !self.is_kind(TokenKind::Dot) {
                return Ok(name);
            }
            self.bump();
            name.push(b'.');
        }
    }

    fn equals(&mut self) -> Result<(), SetError> {
        match self.peek() {
            Some(token) if is_equals(&token) => {
                self.bump();
                Ok(())
            }
            _ => self.expected("`=`"),
        }
    }

    fn variable(&mut self, scope: Scope, name: Vec<u8>) -> Result<Assignment, SetError> {
        let name = match name.to_ascii_lowercase() {
            old if old == b"tx_isolation" => b"transaction_isolation".to_vec(),
            old if old == b"tx_read_only" => b"transaction_read_only".to_vec(),
            present => present,
        };
        let is_for_next = name == b"transaction_isolation" || name == b"transaction_read_only";
        let scope = match scope {
            Scope::NextTransaction if !is_for_next => Scope::LocalDefault,
            written => written,
        };
        self.equals()?;
        let value = self.value(false)?;
        Ok(Assignment::Variable { scope, name, value })
    }

    /// The tokens up to the next comma outside parentheses. A user variable's (`is_for_user`) may
    /// name its character set, and is no bare word.
    fn value(&mut self, is_for_user: bool) -> Result<Value, SetError> {
        let Some(first) = self.peek() else {
            return self.expected("a value");
        };
        let mut shape = Shape::Empty;
        let mut depth = 0_usize;
        let mut end = first.offset;
        while let Some(token) = self.peek() {
            match token.kind {
                TokenKind::Comma if depth == 0 => break,
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            if token.is_versioned != first.is_versioned {
                // A part of the value is there for some servers only.
                return Err(SetError::Ambiguous);
            }
            shape = shape.with(&token);
            end = token.end();
            self.bump();
        }
        let raw = self.tokens.text().get(first.offset..end).unwrap_or_default();
        if first.end() != end && memchr::memmem::find(raw, b"*/").is_some() {
            // Half of an executable comment may be in the value, the other half outside it.
            return Err(SetError::Ambiguous);
        }
        match shape {
            Shape::Empty => self.expected("a value"),
            Shape::Word if raw.eq_ignore_ascii_case(b"DEFAULT") => Ok(Value::Default),
            // In some modes even more words are functions: `SYSDATE`.
            Shape::Word | Shape::Introducer if is_for_user && !is_constant(raw) => {
                Ok(Value::Expression(raw.to_vec()))
            }
            Shape::Word | Shape::Introducer | Shape::Literal => Ok(Value::Literal(raw.to_vec())),
            Shape::Introduced if is_for_user => Ok(Value::Literal(raw.to_vec())),
            Shape::Sign | Shape::WordAndDash | Shape::Introduced | Shape::Other => {
                Ok(Value::Expression(raw.to_vec()))
            }
        }
    }
}

/// What the tokens of a value look like so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Empty,
    /// `+` or `-`, to be followed by a number.
    Sign,
    /// A bare word, perhaps in parts: `READ-COMMITTED`.
    Word,
    WordAndDash,
    /// A bare word that may stand before a string.
    Introducer,
    Literal,
    /// A string behind its character set or its form: `_utf8mb4'…'`, `x'41'`, `N'…'`. What a date's
    /// or a time's means depends on more: `TIMESTAMP'2020-01-01 12:00:00+05:00'` on the time zone.
    Introduced,
    Other,
}

impl Shape {
    fn with(self, token: &Token<'_>) -> Self {
        match (self, token.kind) {
            (Self::Empty, TokenKind::Word) if is_evaluated(token) => Self::Other,
            (Self::Empty, TokenKind::Word) if is_introducer(token) => Self::Introducer,
            (Self::Empty | Self::WordAndDash, TokenKind::Word) => Self::Word,
            (Self::Empty, TokenKind::String | TokenKind::QuotedIdentifier) => Self::Literal,
            (Self::Empty | Self::Sign, TokenKind::Number) => Self::Literal,
            (Self::Empty, TokenKind::Operator) if matches!(token.text, b"-" | b"+") => Self::Sign,
            (Self::Introducer, TokenKind::String) => Self::Introduced,
            (Self::Word | Self::Introducer, TokenKind::Operator) if token.text == b"-" => {
                Self::WordAndDash
            }
            _ => Self::Other,
        }
    }
}

/// Whether a word before a string says how that is read.
fn is_introducer(token: &Token<'_>) -> bool {
    matches!(token.text, [b'_', ..] | [b'x' | b'X' | b'b' | b'B' | b'n' | b'N'])
}

/// Whether a bare word is a value and not a name.
fn is_constant(word: &[u8]) -> bool {
    [&b"TRUE"[..], b"FALSE", b"NULL"].iter().any(|it| word.eq_ignore_ascii_case(it))
}

/// Whether a bare word is a function that needs no parentheses.
fn is_evaluated(token: &Token<'_>) -> bool {
    let keyword = token.keyword();
    let word = keyword.as_bytes();
    [&b"CURRENT_"[..], b"LOCALTIME", b"UTC_"].iter().any(|prefix| word.starts_with(prefix))
}

/// The name in `@name`: lower case, without quotes.
pub fn user_variable_name(text: &[u8]) -> Vec<u8> {
    unquote(text.strip_prefix(b"@").unwrap_or(text)).to_ascii_lowercase()
}

/// `=` or `:=`.
pub(crate) fn is_equals(token: &Token<'_>) -> bool {
    token.kind == TokenKind::Assign || token.text == b"="
}

fn scope_of(upper: &[u8]) -> Option<Scope> {
    match upper {
        b"SESSION" | b"LOCAL" => Some(Scope::Session),
        b"GLOBAL" => Some(Scope::Global),
        b"PERSIST" => Some(Scope::Persist),
        b"PERSIST_ONLY" => Some(Scope::PersistOnly),
        _ => None,
    }
}

/// The scope and name in `@@name` or `@@scope.name`.
fn split_system_variable(text: &[u8]) -> (Scope, Vec<u8>) {
    let text = text.strip_prefix(b"@@").unwrap_or(text);
    if let Some(dot) = memchr::memchr(b'.', text)
        && let Some(scope) = text.get(..dot).and_then(|word| scope_of(&word.to_ascii_uppercase()))
    {
        return (scope, unquote_parts(text.get(dot + 1..).unwrap_or_default()));
    }
    (Scope::NextTransaction, unquote_parts(text))
}

/// A dotted name without the backticks around its parts.
fn unquote_parts(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| *byte != b'`').collect()
}
