//! `SHOW`, `DESCRIBE`, `EXPLAIN` and `ANALYZE`.

use super::{Body, Computes, Head};
use crate::analysis::{Depends, StatementKind, cursor::Cursor, past};
use crate::token::TokenKind;

/// `SHOW …`: what describes schemas is a read; what describes a server or the session is asked of
/// the writer.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Head {
    let state = Head::evaluating(StatementKind::Show);
    let mut is_global = false;
    loop {
        is_global |= cursor.keyword().as_bytes() == b"GLOBAL";
        if !cursor.accept_any(&[b"FULL", b"EXTENDED", b"GLOBAL", b"SESSION", b"LOCAL"]) {
            break;
        }
    }
    let keyword = cursor.keyword();
    cursor.next();
    // A query in the condition is run, and it may be one of a view that does more than read.
    let reading = match cursor.clone().any(|token| token.is_word(b"SELECT")) {
        true => Head::evaluating(StatementKind::Show),
        false => Head::reading(StatementKind::Show),
    };
    let is_next = |word: &[u8]| cursor.peek().is_some_and(|token| token.is_word(word));
    match keyword.as_bytes() {
        b"TABLE" if is_next(b"STATUS") => Head { kind: StatementKind::ShowTableStatus, ..reading },
        b"VARIABLES" if !is_global => variables(cursor, state),
        b"STATUS" if !is_global => Head { depends: Depends::PAST, ..state },
        b"PROFILE" | b"PROFILES" => Head { depends: Depends::PAST, ..state },
        b"CREATE" if is_next(b"USER") => Head { body: Body::Quiet, ..state },
        b"GRANTS" => Head { body: Body::Quiet, ..state },
        b"CHARACTER" if is_next(b"SET") => reading,
        b"CHAR" if is_next(b"SET") => reading,
        b"PROCEDURE" | b"FUNCTION" | b"PACKAGE" => reading,
        b"TABLES" | b"COLUMNS" | b"FIELDS" | b"INDEX" | b"INDEXES" | b"KEYS" | b"DATABASES"
        | b"SCHEMAS" | b"CREATE" | b"TRIGGERS" | b"EVENTS" | b"COLLATION" | b"CHARSET" => reading,
        b"WARNINGS" | b"ERRORS" | b"COUNT" => Head { depends: Depends::DIAGNOSTICS, ..state },
        _ => state,
    }
}

/// `SHOW VARIABLES`, after that word: the list holds what the connection's past has made of some.
fn variables(cursor: &mut Cursor<'_>, state: Head) -> Head {
    if !cursor.accept(b"LIKE") {
        return Head { depends: past::all_variables(), ..state };
    }
    let pattern = cursor.next().filter(|token| token.kind == TokenKind::String);
    let pattern = pattern.filter(|_| cursor.peek().is_none());
    let depends = pattern.map_or_else(past::all_variables, |token| past::of_pattern(token.text));
    Head { depends, asks_by_literal: true, ..state }
}

/// `EXPLAIN`, `DESCRIBE` or `DESC`, after that word.
pub(super) fn explain(kind: StatementKind, cursor: &mut Cursor<'_>) -> Head {
    let table = cursor.clone();
    loop {
        if cursor.accept(b"FORMAT") {
            cursor.accept_equals();
            cursor.next();
        } else if !cursor.accept_any(&[b"EXTENDED", b"PARTITIONS", b"ANALYZE"]) {
            break;
        }
    }
    if is_query(cursor) || is_table(table) {
        return Head::reading(kind).computing(Computes::Expressions);
    }
    let word = cursor.keyword();
    let is_change = matches!(word.as_bytes(), b"INSERT" | b"REPLACE" | b"UPDATE" | b"DELETE");
    let computes = if is_change { Computes::Expressions } else { Computes::Words };
    Head::evaluating(kind).computing(computes)
}

/// `ANALYZE TABLE`, or MariaDB's `ANALYZE` of a statement, which runs it.
pub(super) fn analyze(cursor: &mut Cursor<'_>) -> Head {
    cursor.accept_any(&[b"NO_WRITE_TO_BINLOG", b"LOCAL"]);
    if cursor.keyword().as_bytes() == b"TABLE" {
        return Head::committing(StatementKind::AnalyzeTable).computing(Computes::Query);
    }
    if cursor.accept(b"FORMAT") {
        cursor.accept_equals();
        cursor.next();
    }
    let head = match is_query(cursor) {
        true => Head::reading(StatementKind::Explain),
        false => Head::evaluating(StatementKind::Explain),
    };
    head.computing(Computes::Expressions)
}

/// Whether a query begins here.
fn is_query(cursor: &mut Cursor<'_>) -> bool {
    while cursor.accept_kind(TokenKind::Open) {}
    matches!(cursor.keyword().as_bytes(), b"SELECT" | b"WITH" | b"VALUES" | b"TABLE")
}

/// Whether the statement goes on with a table's name, perhaps a column or pattern, and ends.
fn is_table(mut cursor: Cursor<'_>) -> bool {
    if cursor.table_name().is_none() {
        return false;
    }
    let is_column =
        |kind| matches!(kind, TokenKind::Word | TokenKind::QuotedIdentifier | TokenKind::String);
    if cursor.peek().is_some_and(|token| is_column(token.kind)) {
        cursor.next();
    }
    cursor.peek().is_none()
}
