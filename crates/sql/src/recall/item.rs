//! Items of a select list: an expression whose text is its column's name keeps it when a question
//! in it has become its answer.

use super::Question;
use crate::token::{Token, TokenKind, Tokens};

/// The longest text of an expression that is made its name: servers refuse longer ones (1166).
const NAME_BYTES_MAX: usize = 200;

/// Finds the expressions around questions that are items of the statement's own select list and
/// have no name but their text.
pub(super) fn find_expressions(questions: &mut [Question], tokens: Tokens<'_>) {
    let mut items = Items::default();
    for token in tokens {
        items.take(&token);
    }
    items.end();
    for question in questions {
        let is_around =
            |(start, end): &&(usize, usize)| *start <= question.start && question.end <= *end;
        let item = items.found.iter().find(is_around);
        question.expression = item.copied().filter(|(start, end)| {
            let is_whole = question.is_item && (*start, *end) == (question.start, question.end);
            !is_whole && end - start <= NAME_BYTES_MAX
        });
    }
}

/// Reads the items of a statement's own select lists.
#[derive(Default)]
struct Items<'t> {
    /// Those without a name, from their first byte to behind their last.
    found: Vec<(usize, usize)>,
    depth: u32,
    is_listing: bool,
    /// The first byte of the item that is being read.
    start: Option<usize>,
    /// Its last two tokens so far.
    last: Option<Token<'t>>,
    before: Option<Token<'t>>,
}

impl<'t> Items<'t> {
    fn take(&mut self, token: &Token<'t>) {
        let is_outside = self.depth == 0;
        match token.kind {
            TokenKind::Open => self.depth = self.depth.saturating_add(1),
            TokenKind::Close => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if is_outside && token.is_word(b"SELECT") {
            self.is_listing = true;
            return self.begin();
        }
        if !self.is_listing || self.start.is_none() && is_modifier(token) {
            return;
        }
        if is_outside && token.kind == TokenKind::Comma {
            self.end();
            return self.begin();
        }
        if is_outside && ends_list(token) {
            self.end();
            self.is_listing = false;
            return;
        }
        self.start.get_or_insert(token.offset);
        self.before = self.last.replace(*token);
    }

    fn begin(&mut self) {
        (self.start, self.last, self.before) = (None, None, None);
    }

    /// Notes the item that ends here if no name of its own can be behind it.
    fn end(&mut self) {
        let (Some(start), Some(last)) = (self.start, self.last) else { return };
        let is_behind_operator = self.before.is_some_and(|token| token.kind == TokenKind::Operator);
        let is_unnamed = match last.kind {
            TokenKind::Close
            | TokenKind::Number
            | TokenKind::Parameter
            | TokenKind::SystemVariable
            | TokenKind::UserVariable => true,
            TokenKind::String => is_behind_operator,
            TokenKind::Word => last.is_word(b"NULL") || last.is_word(b"END"),
            _ => false,
        };
        if is_unnamed && self.is_listing {
            self.found.push((start, last.end()));
        }
        self.begin();
    }
}

/// Whether a word stands between `SELECT` and its first item.
fn is_modifier(token: &Token<'_>) -> bool {
    const MODIFIERS: [&[u8]; 11] = [
        b"ALL",
        b"DISTINCT",
        b"DISTINCTROW",
        b"HIGH_PRIORITY",
        b"STRAIGHT_JOIN",
        b"SQL_SMALL_RESULT",
        b"SQL_BIG_RESULT",
        b"SQL_BUFFER_RESULT",
        b"SQL_CACHE",
        b"SQL_NO_CACHE",
        b"SQL_CALC_FOUND_ROWS",
    ];
    MODIFIERS.iter().any(|word| token.is_word(word))
}

/// Whether a token ends the select list that it is not within.
fn ends_list(token: &Token<'_>) -> bool {
    const ENDS: [&[u8]; 14] = [
        b"FROM",
        b"INTO",
        b"WHERE",
        b"GROUP",
        b"HAVING",
        b"ORDER",
        b"LIMIT",
        b"UNION",
        b"EXCEPT",
        b"INTERSECT",
        b"FOR",
        b"LOCK",
        b"PROCEDURE",
        b"WINDOW",
    ];
    token.kind == TokenKind::Semicolon || ENDS.iter().any(|word| token.is_word(word))
}
