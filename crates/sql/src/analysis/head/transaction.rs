//! Statements that begin, end or mark transactions.

use super::{Body, Head};
use crate::analysis::{
    Effect, StatementKind, TransactionEffect, XaStep, cursor::Cursor, effect::Effects,
};

/// The statement that begins with `word`, if it is one of these.
pub(super) fn head(word: &[u8], cursor: &mut Cursor<'_>, effects: &mut Effects) -> Option<Head> {
    let head = match word {
        b"BEGIN" => begin(cursor),
        b"START" if cursor.accept(b"TRANSACTION") => start(cursor),
        b"START" | b"STOP" => Head::committing(StatementKind::Unknown),
        b"COMMIT" => {
            let (chain, release) = completion(cursor);
            let transaction = TransactionEffect::Commit { chain, release };
            Head { transaction, ..Head::of(StatementKind::Commit) }
        }
        b"ROLLBACK" => rollback(cursor),
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

fn begin(cursor: &mut Cursor<'_>) -> Head {
    cursor.accept(b"WORK");
    if cursor.peek().is_some() {
        // `BEGIN NOT ATOMIC`, or a block in MariaDB's sql_mode=ORACLE.
        return Head { body: Body::Compound, ..Head::default() };
    }
    let (read_only, read_write, consistent_snapshot) = (false, false, false);
    let transaction = TransactionEffect::Begin { read_only, read_write, consistent_snapshot };
    Head { transaction, ..Head::of(StatementKind::Begin) }
}

fn start(cursor: &mut Cursor<'_>) -> Head {
    let mut read_only = false;
    let mut read_write = false;
    let mut consistent_snapshot = false;
    while let Some(token) = cursor.next() {
        if token.is_word(b"READ") && cursor.accept(b"ONLY") {
            read_only = true;
        } else if token.is_word(b"READ") && cursor.accept(b"WRITE") {
            read_write = true;
        } else if token.is_word(b"CONSISTENT") && cursor.accept(b"SNAPSHOT") {
            consistent_snapshot = true;
        }
    }
    let transaction = TransactionEffect::Begin { read_only, read_write, consistent_snapshot };
    Head { transaction, ..Head::of(StatementKind::StartTransaction) }
}

/// `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`, as (chain, release).
fn completion(cursor: &mut Cursor<'_>) -> (bool, Option<bool>) {
    cursor.accept(b"WORK");
    let mut chain = false;
    if cursor.accept(b"AND") {
        let is_negated = cursor.accept(b"NO");
        chain = cursor.accept(b"CHAIN") && !is_negated;
    }
    let is_negated = cursor.accept(b"NO");
    let release = cursor.accept(b"RELEASE").then_some(!is_negated);
    (chain, release)
}

fn rollback(cursor: &mut Cursor<'_>) -> Head {
    let (chain, release) = completion(cursor);
    if cursor.accept(b"TO") {
        return Head::of(StatementKind::RollbackSavepoint);
    }
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
