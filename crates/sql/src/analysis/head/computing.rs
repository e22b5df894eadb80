//! Whether a statement may compute something.
//!
//! What it computes runs code that stands behind names and functions: a view's function may set a
//! role. The burden of proof is turned around (decision 46): only a form that has no place for an
//! expression computes nothing, whatever its words; of any other form the words are looked at.

use super::Computes;
use crate::{
    analysis::{
        StatementKind,
        function::{self, Call, Written},
    },
    token::{Modes, Token, TokenKind, Tokens},
};

/// Whether the statement at the beginning of `tokens` may compute something.
pub(super) fn computes(form: Computes, tokens: &Tokens<'_>) -> bool {
    let is_form = match form {
        Computes::Nothing => false,
        Computes::Query | Computes::Words => has_words(form, tokens.clone()),
        Computes::Expressions => return true,
    };
    is_form || sets_computed(tokens)
}

/// Whether a statement of a form that is not understood may have names stand for something else.
pub(super) fn renames(kind: StatementKind, tokens: &Tokens<'_>) -> bool {
    use StatementKind as Kind;
    match kind {
        Kind::AlterTable => tokens.clone().any(|token| token.is_word(b"RENAME")),
        // A name that is new, or gone, is not known.
        Kind::AnalyzeTable
        | Kind::CreateDatabase
        | Kind::CreateIndex
        | Kind::CreateTable
        | Kind::CreateTemporary
        | Kind::CreateUser
        | Kind::Deallocate
        | Kind::DropIndex
        | Kind::DropTable
        | Kind::DropUser
        | Kind::Flush
        | Kind::Grant
        | Kind::LockTable
        | Kind::Optimize
        | Kind::Revoke
        | Kind::TruncateTable => false,
        _ => true,
    }
}

/// Whether a variable of `SET STATEMENT … FOR` gets a value that is computed.
fn sets_computed(tokens: &Tokens<'_>) -> bool {
    let mut tokens = tokens.clone();
    let begins = [&b"SET"[..], b"STATEMENT"];
    if !begins.iter().all(|word| tokens.next().is_some_and(|token| token.is_word(word))) {
        return false;
    }
    let mut values = tokens.take_while(|token| !token.is_word(b"FOR"));
    values.any(|token| token.kind == TokenKind::Open)
}

/// Whether words of a query, of a view or of a call stand in the statement.
fn has_words(form: Computes, mut tokens: Tokens<'_>) -> bool {
    let (text, modes) = (tokens.text(), *tokens.modes());
    let mut statement =
        tokens.by_ref().take_while(|token| token.kind != TokenKind::Semicolon).peekable();
    let mut previous: Option<Token<'_>> = None;
    let mut is_behind_table = false;
    while let Some(token) = statement.next() {
        let next = statement.peek().copied();
        let is_dotted = previous.is_some_and(|it| it.kind == TokenKind::Dot);
        let keyword = token.keyword();
        let is_computed = match keyword.as_bytes() {
            _ if is_dotted => false,
            b"SELECT" => true,
            // Partitions have `VALUES LESS THAN (…)` and `VALUES IN (…)`.
            b"VALUES" => !next.is_some_and(|next| next.is_word(b"LESS") || next.is_word(b"IN")),
            b"VIEW" => form == Computes::Words,
            // The first is the kind of what is defined.
            b"TABLE" => {
                std::mem::replace(&mut is_behind_table, true)
                    && !previous.is_some_and(|previous| is_kind_of_object(&previous))
            }
            _ => false,
        };
        let is_call = form == Computes::Words && is_call(&token, next, text, &modes);
        if is_computed || is_call {
            return true;
        }
        previous = Some(token);
    }
    false
}

/// Whether `TABLE` behind this word is the kind of an object: `EXCHANGE PARTITION … WITH TABLE`.
fn is_kind_of_object(previous: &Token<'_>) -> bool {
    [&b"WITH"[..], b"CONVERT", b"TO"].iter().any(|word| previous.is_word(word))
}

/// Whether a name stands before a parenthesis that is not one of the server's own functions.
fn is_call(token: &Token<'_>, next: Option<Token<'_>>, text: &[u8], modes: &Modes) -> bool {
    if !token.is_name() || !next.is_some_and(|next| next.kind == TokenKind::Open) {
        return false;
    }
    let keyword = token.keyword();
    let written = Written::of(text, token, next);
    let call = Call { upper: keyword.as_bytes(), written, has_arguments: true };
    token.kind != TokenKind::Word || !function::is_native(&call, modes)
}
