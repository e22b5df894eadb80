//! Statements that call nothing but the functions of named locks.

use crate::analysis::{Effect, cursor::Cursor};
use crate::token::TokenKind;

/// The effects of `SELECT GET_LOCK('a', 1)`, `DO RELEASE_LOCK('a')` and the like, where each call
/// certainly happens exactly once. Anything else (a call in an `IF()`, a `FROM`) is `None`: there a
/// released lock may still be held, and one that is taken may be taken several times. So are more
/// calls than `max`.
pub(super) fn certain_calls(mut cursor: Cursor<'_>, max: usize) -> Option<Vec<Effect>> {
    if !cursor.accept_any(&[b"SELECT", b"DO"]) {
        return None;
    }
    let mut effects = Vec::new();
    loop {
        effects.push(call(&mut cursor).filter(|_| effects.len() < max)?);
        skip_alias(&mut cursor);
        if cursor.peek().is_none() {
            return Some(effects);
        }
        if !cursor.accept_kind(TokenKind::Comma) {
            return None;
        }
    }
}

fn call(cursor: &mut Cursor<'_>) -> Option<Effect> {
    let keyword = cursor.keyword();
    cursor.next();
    if !cursor.accept_kind(TokenKind::Open) {
        return None;
    }
    let effect = match keyword.as_bytes() {
        b"GET_LOCK" => {
            let name = lock_name(cursor)?;
            if !cursor.accept_kind(TokenKind::Comma) {
                return None;
            }
            cursor.accept_minus();
            if !cursor.accept_kind(TokenKind::Number) {
                return None;
            }
            Effect::GetLock(Some(name))
        }
        b"RELEASE_LOCK" => Effect::ReleaseLock(Some(lock_name(cursor)?)),
        b"RELEASE_ALL_LOCKS" => Effect::ReleaseAllLocks,
        _ => return None,
    };
    cursor.accept_kind(TokenKind::Close).then_some(effect)
}

/// A literal name, as written: MySQL takes `A` and `a` for one lock, MariaDB for two. What other
/// characters are depends on the character set, so only plain ASCII is a name, and only where that
/// is ASCII to the server.
fn lock_name(cursor: &mut Cursor<'_>) -> Option<Vec<u8>> {
    let token = cursor.next().filter(|token| token.kind == TokenKind::String)?;
    let name = token.unquoted();
    let is_plain = !token.text.contains(&b'\\') && !cursor.modes().encoding.may_rename(&name);
    is_plain.then(|| name.into_owned())
}

/// `= 1`, and `AS name` or a name.
fn skip_alias(cursor: &mut Cursor<'_>) {
    let is_compared = cursor.peek().is_some_and(|token| token.text == b"=")
        && cursor.peek_second().is_some_and(|token| token.kind == TokenKind::Number);
    if is_compared {
        cursor.next();
        cursor.next();
    }
    if cursor.accept(b"AS") {
        cursor.next();
        return;
    }
    let names = |kind| matches!(kind, TokenKind::QuotedIdentifier | TokenKind::String);
    if cursor.peek().is_some_and(|token| names(token.kind)) {
        cursor.next();
    }
}
