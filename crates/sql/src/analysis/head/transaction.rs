//! Statements that begin, end or mark transactions.

use super::{Body, Head};
use crate::{
    analysis::{Effect, StatementKind, TransactionEffect, XaStep, cursor::Cursor, effect::Effects},
    token::TokenKind,
};

/// The statement that begins with `word`, if it is one of these.
pub(super) fn head(word: &[u8], cursor: &mut Cursor<'_>, effects: &mut Effects) -> Option<Head> {
    let head = match word {
        b"BEGIN" => begin(cursor),
        b"START" if cursor.accept(b"TRANSACTION") => start(cursor, effects),
        b"START" | b"STOP" => Head::committing(StatementKind::Unknown),
        b"COMMIT" => {
            let (chain, release) = completion(cursor, effects);
            end(cursor, effects);
            let transaction = TransactionEffect::Commit { chain, release };
            Head { transaction, ..Head::of(StatementKind::Commit) }
        }
        b"ROLLBACK" => rollback(cursor, effects),
        b"SAVEPOINT" => {
            effects.push(Effect::Savepoint);
            Head::of(StatementKind::Savepoint)
        }
        b"RELEASE" => Head::of(StatementKind::ReleaseSavepoint),
        b"XA" => {
            effects.push(Effect::Xa(xa_step(cursor)));
            Head::default()
        }
        _ => return None,
    };
    Some(head)
}

/// What such a statement does is not known where more is said than servers understand: they refuse
/// it, or newer ones know the words.
const NOT_UNDERSTOOD: Effect = Effect::OtherSession("words of a transaction that are not known");

/// Nothing may follow.
fn end(cursor: &Cursor<'_>, effects: &mut Effects) {
    if cursor.peek().is_some() {
        effects.push(NOT_UNDERSTOOD);
    }
}

/// A word has to be next.
fn expect(cursor: &mut Cursor<'_>, effects: &mut Effects, word: &[u8]) -> bool {
    let is_next = cursor.accept(word);
    if !is_next {
        effects.push(NOT_UNDERSTOOD);
    }
    is_next
}

fn begin(cursor: &mut Cursor<'_>) -> Head {
    cursor.accept(b"WORK");
    if cursor.peek().is_some() || cursor.modes().oracle {
        // `BEGIN NOT ATOMIC`, or a block in MariaDB's sql_mode=ORACLE.
        return Head { body: Body::Compound, ..Head::default() };
    }
    let (read_only, read_write, consistent_snapshot) = (false, false, false);
    let transaction = TransactionEffect::Begin { read_only, read_write, consistent_snapshot };
    Head { transaction, ..Head::of(StatementKind::Begin) }
}

/// `START TRANSACTION [characteristic [, characteristic]…]`, from the first of these on. All words
/// count, whatever stands between them.
fn start(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let (mut read_only, mut read_write, mut consistent_snapshot) = (false, false, false);
    let mut is_understood = true;
    let mut is_begun = false;
    while cursor.peek().is_some() {
        is_understood &= !is_begun || cursor.accept_kind(TokenKind::Comma);
        is_begun = true;
        match cursor.keyword().as_bytes() {
            b"READ" => {
                cursor.next();
                let (only, write) = (cursor.accept(b"ONLY"), cursor.accept(b"WRITE"));
                read_only |= only;
                read_write |= write;
                is_understood &= only != write;
            }
            b"WITH" => {
                cursor.next();
                let is_snapshot = cursor.accept(b"CONSISTENT") && cursor.accept(b"SNAPSHOT");
                consistent_snapshot |= is_snapshot;
                is_understood &= is_snapshot;
            }
            _ => {
                cursor.next();
                is_understood = false;
            }
        }
    }
    if !is_understood {
        effects.push(NOT_UNDERSTOOD);
    }
    let transaction = TransactionEffect::Begin { read_only, read_write, consistent_snapshot };
    Head { transaction, ..Head::of(StatementKind::StartTransaction) }
}

/// `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`, as (chain, release).
fn completion(cursor: &mut Cursor<'_>, effects: &mut Effects) -> (bool, Option<bool>) {
    cursor.accept(b"WORK");
    let mut chain = false;
    if cursor.accept(b"AND") {
        let is_negated = cursor.accept(b"NO");
        chain = expect(cursor, effects, b"CHAIN") && !is_negated;
    }
    let is_negated = cursor.accept(b"NO");
    let has_release = match is_negated {
        true => expect(cursor, effects, b"RELEASE"),
        false => cursor.accept(b"RELEASE"),
    };
    (chain, has_release.then_some(!is_negated))
}

fn rollback(cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let (chain, release) = completion(cursor, effects);
    if cursor.accept(b"TO") {
        return Head::of(StatementKind::RollbackSavepoint);
    }
    end(cursor, effects);
    let transaction = TransactionEffect::Rollback { chain, release };
    Head { transaction, ..Head::of(StatementKind::Rollback) }
}

fn xa_step(cursor: &mut Cursor<'_>) -> XaStep {
    match cursor.keyword().as_bytes() {
        b"START" | b"BEGIN" => XaStep::Start,
        b"END" => XaStep::End,
        b"PREPARE" => XaStep::Prepare,
        b"COMMIT" => XaStep::Commit,
        b"ROLLBACK" => XaStep::Rollback,
        b"RECOVER" => XaStep::Recover,
        _ => XaStep::Other,
    }
}
