//! Statements about the session itself, and about other sessions.

use super::{Body, Computes, Head};
use crate::analysis::{
    Analysis, BackupLock, Depends, Effect, KillId, KillTarget, StatementKind, TransactionEffect,
    analyse, cursor::Cursor, effect::Effects, walk::Calls,
};
use crate::set::{self, Assignment, Scope, SetError};
use crate::token::{TokenKind, Tokens};

const UNKNOWN_FUNCTION: Depends = Depends::UNKNOWN_FUNCTION;

/// The statement that begins with `word`, if it is one of these.
pub(super) fn head(word: &[u8], cursor: &mut Cursor<'_>, effects: &mut Effects) -> Option<Head> {
    let head = match word {
        b"USE" => {
            effects.extend(cursor.name().map(Effect::UseSchema));
            Head::of(StatementKind::Use)
        }
        b"PREPARE" => {
            let name = cursor.name().unwrap_or_default();
            let text = if cursor.accept(b"FROM") { inner_text(cursor) } else { None };
            let is_opaque = !text.as_ref().is_some_and(is_harmless);
            effects.push(Effect::PrepareStatement { name, is_opaque });
            // Constants may be computed at once.
            let runs_unseen = text
                .is_none_or(|text| !text.is_complete || text.depends.contains(UNKNOWN_FUNCTION));
            let depends = if runs_unseen { UNKNOWN_FUNCTION } else { Depends::empty() };
            let head = Head::evaluating(StatementKind::Prepare).computing(Computes::Nothing);
            Head { depends, ..head }
        }
        b"EXECUTE" => {
            effects.push(match cursor.accept(b"IMMEDIATE") {
                true if !inner_text(cursor).as_ref().is_some_and(is_harmless) => {
                    Effect::OtherSession("statement run by EXECUTE IMMEDIATE")
                }
                true => Effect::ExecuteStatement(Vec::new()),
                false => Effect::ExecuteStatement(cursor.name().unwrap_or_default()),
            });
            Head::evaluating(StatementKind::Execute)
        }
        b"DEALLOCATE" => {
            cursor.accept(b"PREPARE");
            effects.push(Effect::DeallocateStatement(cursor.name().unwrap_or_default()));
            Head::of(StatementKind::Deallocate)
        }
        b"HANDLER" => {
            effects.extend(handler(cursor));
            Head::evaluating(StatementKind::Unknown)
        }
        b"LOCK" => lock(StatementKind::LockTable, Effect::LockTables, cursor, effects),
        b"UNLOCK" => lock(StatementKind::UnlockTables, Effect::UnlockTables, cursor, effects),
        b"FLUSH" => {
            if cursor.clone().any(|token| token.is_word(b"PRIVILEGES")) {
                effects.push(Effect::AccountsDefined);
            }
            if is_locking_flush(cursor) {
                effects.push(Effect::FlushWithReadLock);
            }
            Head::committing(StatementKind::Flush)
        }
        b"KILL" => kill(cursor, effects),
        b"LOAD" => load(cursor, effects),
        b"GET" => {
            let assigns_user_variable = has_user_variable(cursor);
            Head { depends: Depends::DIAGNOSTICS, assigns_user_variable, ..Head::default() }
        }
        b"BACKUP" => backup(cursor, effects),
        b"BINLOG" => other("binary log events", effects),
        _ => return None,
    };
    Some(head)
}

fn other(what: &'static str, effects: &mut Effects) -> Head {
    effects.push(Effect::OtherSession(what));
    Head::default()
}

/// `LOCK TABLES` or `UNLOCK TABLES`, or the lock of the whole instance for a backup.
fn lock(kind: StatementKind, effect: Effect, cursor: &Cursor<'_>, effects: &mut Effects) -> Head {
    match cursor.keyword().as_bytes() {
        b"TABLE" | b"TABLES" => {
            effects.push(effect);
            Head::committing(kind)
        }
        b"INSTANCE" => {
            effects.push(match kind {
                StatementKind::LockTable => Effect::BackupLock(BackupLock::Instance),
                _ => Effect::BackupUnlock(BackupLock::Instance),
            });
            Head::default()
        }
        _ => other("lock of the server", effects),
    }
}

/// `BACKUP {STAGE … | LOCK table | UNLOCK}`.
fn backup(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    effects.push(match () {
        () if cursor.accept(b"STAGE") => match cursor.accept(b"END") {
            true => Effect::BackupUnlock(BackupLock::Stage),
            false => Effect::BackupLock(BackupLock::Stage),
        },
        () if cursor.accept(b"LOCK") => Effect::BackupLock(BackupLock::Table),
        () if cursor.accept(b"UNLOCK") => Effect::BackupUnlock(BackupLock::Table),
        () => Effect::OtherSession("backup"),
    });
    Head::default()
}

/// The analysis of the literal text that the statement ends with, if it is a plain one.
fn inner_text(cursor: &mut Cursor<'_>) -> Option<Analysis> {
    let token = cursor.peek().filter(|token| token.kind == TokenKind::String)?;
    let mut rest = cursor.clone();
    rest.next();
    // What an escape stands for depends on the server's mode; few need one here.
    let is_plain = memchr::memchr(b'\\', token.text).is_none();
    let ends = rest.peek().is_none_or(|token| token.is_word(b"USING"));
    (is_plain && ends).then(|| analyse(&token.unquoted(), cursor.modes()))
}

/// Whether a text certainly leaves nothing behind, but for a transaction.
fn is_harmless(inner: &Analysis) -> bool {
    inner.is_complete
        && inner.statements == 1
        && inner.effects.is_empty()
        && !inner.depends.contains(UNKNOWN_FUNCTION)
}

/// Whether a user variable stands in the rest of the statement.
pub(super) fn has_user_variable(cursor: &mut Cursor<'_>) -> bool {
    cursor.any(|token| token.kind == TokenKind::UserVariable)
}

/// `HANDLER table OPEN [AS alias]` or `HANDLER name CLOSE`.
fn handler(cursor: &mut Cursor<'_>) -> Option<Effect> {
    let name = cursor.table_name()?;
    if cursor.accept(b"CLOSE") {
        return Some(Effect::HandlerClose(name.table));
    }
    if !cursor.accept(b"OPEN") {
        return None;
    }
    cursor.accept(b"AS");
    Some(Effect::HandlerOpen(cursor.name().unwrap_or(name.table)))
}

/// `WITH READ LOCK` or `FOR EXPORT` anywhere after `FLUSH`.
fn is_locking_flush(cursor: &mut Cursor<'_>) -> bool {
    while let Some(token) = cursor.next() {
        let is_lock = token.is_word(b"WITH") && cursor.accept(b"READ");
        if is_lock || (token.is_word(b"FOR") && cursor.accept(b"EXPORT")) {
            return true;
        }
    }
    false
}

/// `KILL [HARD | SOFT] [CONNECTION | QUERY [ID]] number` or `… USER name`.
fn kill(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let (target, id) = victim(cursor);
    effects.push(Effect::Kill { target, id });
    Head { body: Body::Quiet, ..Head::of(StatementKind::Kill) }
}

fn victim(cursor: &mut Cursor<'_>) -> (KillTarget, KillId) {
    let is_mariadb = cursor.modes().flavor_mariadb;
    if cursor.accept_any(&[b"HARD", b"SOFT"]) && !is_mariadb {
        return (KillTarget::Other, KillId::Other);
    }
    let mut target = KillTarget::Connection;
    if cursor.accept(b"QUERY") {
        target = KillTarget::Query;
    } else {
        cursor.accept(b"CONNECTION");
    }
    if cursor.accept_any(&[b"ID", b"USER"]) {
        return (KillTarget::Other, KillId::Other);
    }
    let is_own = cursor.accept(b"CONNECTION_ID")
        && cursor.accept_kind(TokenKind::Open)
        && cursor.accept_kind(TokenKind::Close);
    if is_own && cursor.peek().is_none() && cursor.is_complete() {
        return (target, KillId::Own);
    }
    let token = cursor.next().filter(|token| token.kind == TokenKind::Number);
    let digits = token.and_then(|token| std::str::from_utf8(token.text).ok());
    let number = digits.and_then(|digits| digits.parse().ok());
    // One that a comment without an end follows is no statement.
    let number = number.filter(|_| cursor.peek().is_none() && cursor.is_complete());
    (target, number.map_or(KillId::Other, KillId::Number))
}

/// `LOAD {DATA | XML} [LOW_PRIORITY | CONCURRENT] [LOCAL] …`, or `LOAD INDEX INTO CACHE`.
fn load(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    if !cursor.accept_any(&[b"DATA", b"XML"]) {
        return Head::committing(StatementKind::Load);
    }
    cursor.accept_any(&[b"LOW_PRIORITY", b"CONCURRENT", b"FROM"]);
    effects.push(Effect::LoadData { local: cursor.accept(b"LOCAL") });
    let assigns_user_variable = has_user_variable(cursor);
    let body = Body::Plain(Calls::JudgedInAssignments);
    Head { assigns_user_variable, body, ..Head::of(StatementKind::Load) }
}

/// `SET …`.
pub(super) fn set(tokens: &Tokens<'_>, effects: &mut Effects) -> Head {
    let mut head = Head { body: Body::Plain(Calls::JudgedInSet), ..Head::of(StatementKind::Set) };
    let assignments = match set::parse_tokens(&mut tokens.clone(), effects.room()) {
        Ok(assignments) => assignments,
        Err(error) => {
            effects.is_cut |= error == SetError::TooLong;
            effects.push(Effect::SetUnparsable);
            return head;
        }
    };
    effects.take_room(assignments.len());
    match assignments.as_slice() {
        [Assignment::Transaction(setting)] => effects.push(Effect::SetTransaction(*setting)),
        [Assignment::Password] => {
            effects.push(Effect::SetPassword);
            return Head::quiet(StatementKind::Set).computing(Computes::Nothing);
        }
        [Assignment::DefaultRole] => {
            effects.push(Effect::AccountsDefined);
            return Head::quiet(StatementKind::Set).computing(Computes::Nothing);
        }
        [Assignment::Role] => {
            effects.push(Effect::SetRole);
            (head.body, head.computes) = (Body::Quiet, Computes::Nothing);
        }
        [Assignment::ResourceGroup] => {
            effects.push(Effect::SetResourceGroup);
            (head.body, head.computes) = (Body::Plain(Calls::Ignored), Computes::Nothing);
        }
        [] => {}
        list => {
            head.transaction = autocommit(list);
            effects.push(Effect::Set(assignments));
        }
    }
    head
}

/// What the last assignment to the session's `autocommit` does.
fn autocommit(assignments: &[Assignment]) -> TransactionEffect {
    let last = assignments.iter().rev().find_map(|assignment| match assignment {
        Assignment::Variable { scope: Scope::LocalDefault | Scope::Session, name, value }
            if name == b"autocommit" =>
        {
            Some(value.switch())
        }
        _ => None,
    });
    last.map_or(TransactionEffect::None, TransactionEffect::SetAutocommit)
}
