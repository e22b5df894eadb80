//! The bodies of triggers: one statement, or a block of statements without loops, handlers and
//! cursors.

use trunkline_sql::token::{Modes, Token, TokenKind};

use super::{Verdict, judge_change, judge_expression, judge_select};
use crate::Hidden;

/// A body in reading.
pub(super) struct Body<'a> {
    text: &'a [u8],
    tokens: &'a [Token<'a>],
    modes: &'a Modes,
    at: usize,
    /// Variables of the blocks that are open, in lower case.
    variables: Vec<Vec<u8>>,
    /// How many variables there were before each block that is open.
    blocks: Vec<usize>,
    verdict: Verdict,
}

/// It is not of a form that is understood.
struct Odd;

impl<'a> Body<'a> {
    pub(super) fn new(text: &'a [u8], tokens: &'a [Token<'a>], modes: &'a Modes) -> Self {
        let (variables, blocks) = (Vec::new(), Vec::new());
        Self { text, tokens, modes, at: 0, variables, blocks, verdict: Verdict::default() }
    }

    pub(super) fn judge(mut self) -> Verdict {
        while self.at < self.tokens.len() {
            if self.statement().is_err() {
                return Verdict::unknown();
            }
        }
        match self.verdict.hidden.has(Hidden::UNKNOWN) || !self.blocks.is_empty() {
            true => Verdict::unknown(),
            false => self.verdict,
        }
    }

    fn token(&self, at: usize) -> Option<&'a Token<'a>> {
        self.tokens.get(at)
    }

    fn is_word(&self, at: usize, upper: &[u8]) -> bool {
        self.token(at).is_some_and(|token| token.is_word(upper))
    }

    fn is_kind(&self, at: usize, kind: TokenKind) -> bool {
        self.token(at).is_some_and(|token| token.kind == kind)
    }

    /// Takes one statement, or the words around a block. The server has checked how blocks are
    /// nested when it stored the body.
    fn statement(&mut self) -> Result<(), Odd> {
        let Some(first) = self.token(self.at) else { return Ok(()) };
        match first.keyword().as_bytes() {
            b"ELSE" => self.at += 1,
            // `BEGIN NOT ATOMIC` is no part of a trigger.
            b"BEGIN" => {
                self.blocks.push(self.variables.len());
                self.at += 1;
            }
            b"END" if self.is_word(self.at + 1, b"IF") => self.at += 2,
            // Behind it, the names of its variables are the server's again.
            b"END" => {
                self.variables.truncate(self.blocks.pop().ok_or(Odd)?);
                self.at += 1;
            }
            b"IF" | b"ELSEIF" => self.condition()?,
            b"DECLARE" => self.declaration()?,
            b"SET" => self.assignments()?,
            b"SELECT" => self.select()?,
            b"SIGNAL" => self.signal()?,
            b"INSERT" | b"UPDATE" | b"DELETE" | b"REPLACE" => {
                let end = self.end();
                let verdict = judge_change(self.slice(self.at, end), self.modes);
                self.verdict.add(verdict);
                self.at = end;
            }
            _ if first.kind == TokenKind::Semicolon => self.at += 1,
            _ => return Err(Odd),
        }
        Ok(())
    }

    /// The place of the semicolon that ends the statement, or the end of the body.
    fn end(&self) -> usize {
        let rest = self.tokens.iter().skip(self.at);
        let len = rest.take_while(|token| token.kind != TokenKind::Semicolon).count();
        self.at + len
    }

    /// The text of the tokens from one place up to another.
    fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        let begin = self.token(from).map_or(self.text.len(), |token| token.offset);
        let last = to.checked_sub(1).filter(|last| *last >= from);
        let end = last.and_then(|last| self.token(last)).map_or(begin, Token::end);
        self.text.get(begin..end).unwrap_or_default()
    }

    fn expression(&mut self, from: usize, to: usize) -> Result<(), Odd> {
        if from >= to {
            return Err(Odd);
        }
        let verdict = judge_expression(self.slice(from, to), self.modes);
        self.verdict.add(verdict);
        Ok(())
    }

    /// `IF condition THEN`; a `CASE` within has words of its own.
    fn condition(&mut self) -> Result<(), Odd> {
        let from = self.at + 1;
        let end = self.end();
        let mut cases = 0_usize;
        for at in from..end {
            if self.is_word(at, b"CASE") {
                cases += 1;
            } else if self.is_word(at, b"END") {
                cases = cases.checked_sub(1).ok_or(Odd)?;
            } else if self.is_word(at, b"THEN") && cases == 0 {
                self.expression(from, at)?;
                self.at = at + 1;
                return Ok(());
            }
        }
        Err(Odd)
    }

    /// `DECLARE a, b INT DEFAULT expression`.
    fn declaration(&mut self) -> Result<(), Odd> {
        let end = self.end();
        let mut at = self.at + 1;
        loop {
            let name = self.token(at).filter(|token| token.is_name()).ok_or(Odd)?;
            self.variables.push(name.unquoted().to_ascii_lowercase());
            at += 1;
            match self.is_kind(at, TokenKind::Comma) {
                true => at += 1,
                false => break,
            }
        }
        const OTHERS: [&[u8]; 5] = [b"CURSOR", b"CONDITION", b"HANDLER", b"TYPE", b"ROW"];
        let is_other = |at| OTHERS.iter().any(|word| self.is_word(at, word));
        if (self.at + 1..end).any(is_other) {
            return Err(Odd);
        }
        let default = (at..end).find(|at| self.is_word(*at, b"DEFAULT"));
        if let Some(default) = default {
            self.expression(default + 1, end)?;
        }
        self.at = end;
        Ok(())
    }

    fn is_variable(&self, at: usize) -> bool {
        self.token(at).filter(|token| token.is_name()).is_some_and(|token| {
            let name = token.unquoted().to_ascii_lowercase();
            self.variables.contains(&name)
        })
    }

    /// The place behind a variable of the body or a column of the new row, if there is one here.
    fn target(&self, at: usize) -> Result<usize, Odd> {
        let is_column = self.is_word(at, b"NEW")
            && self.is_kind(at + 1, TokenKind::Dot)
            && self.token(at + 2).is_some_and(Token::is_name);
        match (is_column, self.is_kind(at + 1, TokenKind::Dot)) {
            (true, _) => Ok(at + 3),
            // Anything else is a variable of the server: `SET sql_log_bin = 0`.
            (false, false) if self.is_variable(at) => Ok(at + 1),
            (false, _) => Err(Odd),
        }
    }

    /// `SET NEW.a = expression, b = expression`.
    fn assignments(&mut self) -> Result<(), Odd> {
        let end = self.end();
        let mut at = self.at + 1;
        while at < end {
            at = self.target(at)?;
            let is_equal = self.token(at).is_some_and(|it| it.text == b"=");
            if !is_equal && !self.is_kind(at, TokenKind::Assign) {
                return Err(Odd);
            }
            let from = at + 1;
            let to = self.next_comma(from, end);
            self.expression(from, to)?;
            at = to + 1;
        }
        self.at = end;
        Ok(())
    }

    /// The place of the next comma outside of parentheses, or `end`.
    fn next_comma(&self, from: usize, end: usize) -> usize {
        let mut depth = 0_usize;
        for at in from..end {
            match self.token(at).map(|token| token.kind) {
                Some(TokenKind::Open) => depth += 1,
                Some(TokenKind::Close) => depth = depth.saturating_sub(1),
                Some(TokenKind::Comma) if depth == 0 => return at,
                _ => {}
            }
        }
        end
    }

    /// `SELECT … INTO a, b …`, into variables of the body; without `INTO` the rows would go to the
    /// client, and no trigger may do that.
    fn select(&mut self) -> Result<(), Odd> {
        let end = self.end();
        let mut words = (self.at..end).filter(|at| self.is_word(*at, b"INTO"));
        // One of two may be the name of a column.
        let (Some(into), None) = (words.next(), words.next()) else { return Err(Odd) };
        let mut at = self.target(into + 1)?;
        while self.is_kind(at, TokenKind::Comma) {
            at = self.target(at + 1)?;
        }
        let (before, behind) = (self.slice(self.at, into), self.slice(at, end));
        let select = [before, b" ", behind].concat();
        self.verdict.add(judge_select(&select, self.modes));
        self.at = end;
        Ok(())
    }

    /// `SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'words'`: the statement fails.
    fn signal(&mut self) -> Result<(), Odd> {
        let end = self.end();
        let is_plain = |at| {
            self.token(at).is_some_and(|token| {
                matches!(
                    token.kind,
                    TokenKind::Word | TokenKind::String | TokenKind::Number | TokenKind::Comma
                ) || token.text == b"="
            })
        };
        match (self.at..end).all(is_plain) {
            true => {
                self.at = end;
                Ok(())
            }
            false => Err(Odd),
        }
    }
}
