//! What the first words of a statement say.

mod computing;
mod locks;
mod program;
mod schema;
mod session;
mod show;
mod transaction;

use super::{
    Depends, Effect, StatementKind, TransactionEffect,
    cursor::Cursor,
    effect::Effects,
    walk::{Calls, Verb, walk},
};
use crate::{
    set::is_equals,
    token::{Token, TokenKind, Tokens, unquote},
};

/// One statement of a text.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) kind: StatementKind,
    /// It may compute something, so that code runs which stands behind names and functions.
    pub(super) computes: bool,
    /// Names behind it in the text may stand for something else.
    pub(super) renames: bool,
    pub(super) transaction: TransactionEffect,
    pub(super) depends: Depends,
    pub(super) varies: bool,
    pub(super) reads_only: bool,
    pub(super) set_for_statement: Vec<Vec<u8>>,
    pub(super) asks_by_literal: bool,
    pub(super) locks_or_exports: bool,
    pub(super) calls_declared: bool,
}

/// What the first words told.
#[derive(Debug)]
struct Head {
    kind: StatementKind,
    transaction: TransactionEffect,
    depends: Depends,
    /// It only reads, unless the walk over its words finds otherwise.
    is_read: bool,
    assigns_user_variable: bool,
    body: Body,
    computes: Computes,
    /// As in [`Analysis`](super::Analysis).
    set_for_statement: Vec<Vec<u8>>,
    /// As in [`Analysis`](super::Analysis).
    asks_by_literal: bool,
}

/// How the rest of the statement is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Everything in it happens now.
    Plain(Calls),
    /// Nothing in it happens now, or account names would look like user variables.
    Quiet,
    /// The definition of a stored program, whose body may hold `;`.
    StoredProgram,
    /// Statements that run now, up to an end that is hard to find.
    Compound,
}

/// What a statement may compute, and with it whose code it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Computes {
    /// Nothing: it has no place for an expression, or what stands there is run another time.
    Nothing,
    /// A query in it, if there is one: elsewhere names and parentheses make definitions, whose
    /// expressions servers let call nothing but their own functions.
    Query,
    /// Whatever its words say, as nothing is known of its form.
    Words,
    /// Expressions.
    Expressions,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            kind: StatementKind::Unknown,
            transaction: TransactionEffect::None,
            depends: Depends::empty(),
            is_read: false,
            assigns_user_variable: false,
            body: Body::Plain(Calls::Ignored),
            computes: Computes::Words,
            set_for_statement: Vec::new(),
            asks_by_literal: false,
        }
    }
}

impl Head {
    fn of(kind: StatementKind) -> Self {
        Self { kind, ..Self::default() }
    }

    fn reading(kind: StatementKind) -> Self {
        Self { is_read: true, ..Self::evaluating(kind) }
    }

    /// A statement whose expressions may call functions.
    fn evaluating(kind: StatementKind) -> Self {
        Self { body: Body::Plain(Calls::Judged), ..Self::of(kind) }
    }

    /// A statement that commits what is open before it runs.
    fn committing(kind: StatementKind) -> Self {
        Self { transaction: TransactionEffect::ImplicitCommit, ..Self::of(kind) }
    }

    /// As [`Self::committing`], with account names or definitions in its text.
    fn quiet(kind: StatementKind) -> Self {
        Self { body: Body::Quiet, ..Self::committing(kind) }
    }

    /// With what is computed in it.
    fn computing(self, computes: Computes) -> Self {
        Self { computes, ..self }
    }

    fn compound() -> Self {
        Self { body: Body::Compound, ..Self::default() }
    }
}

/// Reads the next statement and its `;`, and adds its effects to `effects`.
pub(super) fn read(tokens: &mut Tokens<'_>, effects: &mut Effects) -> Statement {
    let mut cursor = Cursor::new(tokens);
    let is_with = cursor.peek().is_some_and(|token| token.is_word(b"WITH"));
    let locks = locks::certain_calls(cursor.clone(), effects.room());
    let place = effects.len();
    let head = head(tokens, &mut cursor, effects);
    let mut statement = Statement {
        kind: head.kind,
        computes: computing::computes(head.computes, tokens),
        renames: computing::renames(head.kind, tokens),
        transaction: head.transaction,
        depends: head.depends,
        varies: false,
        reads_only: false,
        set_for_statement: head.set_for_statement,
        asks_by_literal: head.asks_by_literal,
        locks_or_exports: false,
        calls_declared: false,
    };
    let mut assigns_user_variable = head.assigns_user_variable;
    match head.body {
        Body::Plain(calls) => {
            let facts = walk(tokens, calls, effects);
            statement.depends.insert(facts.depends);
            statement.varies = facts.varies;
            statement.locks_or_exports = facts.locks_or_exports;
            statement.calls_declared = facts.calls_declared;
            statement.reads_only = head.is_read && !facts.may_write;
            assigns_user_variable |= facts.assigns_user_variable;
            if is_with {
                statement.kind = kind_of_verb(facts.verb);
                statement.reads_only &= facts.verb == Some(Verb::Select);
            }
            if statement.kind == StatementKind::Select && facts.is_for_update {
                statement.kind = StatementKind::SelectForUpdate;
            }
        }
        Body::Quiet => {
            tokens.find(|token| token.kind == TokenKind::Semicolon);
        }
        Body::StoredProgram => {
            if !program::skip(tokens) {
                effects.push(Effect::OtherSession("stored program whose end was not found"));
            }
        }
        Body::Compound => {
            tokens.by_ref().for_each(drop);
            effects.push(Effect::OtherSession("compound statement"));
        }
    }
    if let Some(locks) = locks {
        // The walk over the words has seen these calls as well, and knows less of them.
        effects.truncate(place);
        effects.extend(locks);
    }
    if assigns_user_variable {
        effects.push(Effect::UserVariableAssigned(None));
    }
    statement
}

fn kind_of_verb(verb: Option<Verb>) -> StatementKind {
    match verb {
        Some(Verb::Insert) => StatementKind::Insert,
        Some(Verb::Replace) => StatementKind::Replace,
        Some(Verb::Update) => StatementKind::Update,
        Some(Verb::Delete) => StatementKind::Delete,
        Some(Verb::Select) | None => StatementKind::Select,
    }
}

fn head(tokens: &Tokens<'_>, cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let Some(first) = cursor.next() else {
        return Head::default();
    };
    let is_label = first.is_name() && cursor.peek().is_some_and(|token| token.text == b":");
    if is_label {
        return Head::compound();
    }
    match first.kind {
        TokenKind::Open => parenthesised(cursor),
        TokenKind::Word => keyword(&first, tokens, cursor, effects),
        _ => Head::default(),
    }
}

/// `(SELECT …)` and the like.
fn parenthesised(cursor: &mut Cursor<'_>) -> Head {
    while cursor.accept_kind(TokenKind::Open) {}
    match cursor.keyword().as_bytes() {
        b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" => query(),
        _ => Head::default(),
    }
}

fn keyword(
    first: &Token<'_>,
    tokens: &Tokens<'_>,
    cursor: &mut Cursor<'_>,
    effects: &mut Effects,
) -> Head {
    match first.keyword().as_bytes() {
        b"SELECT" | b"WITH" | b"VALUES" | b"TABLE" => query(),
        b"INSERT" => inserting(StatementKind::Insert),
        b"REPLACE" => inserting(StatementKind::Replace),
        b"UPDATE" => Head::evaluating(StatementKind::Update).computing(Computes::Expressions),
        b"DELETE" => Head::evaluating(StatementKind::Delete).computing(Computes::Expressions),
        b"DO" => Head::evaluating(StatementKind::Unknown).computing(Computes::Expressions),
        b"SHOW" => show::show(cursor),
        b"EXPLAIN" => show::explain(StatementKind::Explain, cursor),
        b"DESCRIBE" | b"DESC" => show::explain(StatementKind::Describe, cursor),
        b"ANALYZE" => show::analyze(cursor),
        b"HELP" => Head::reading(StatementKind::Unknown),
        b"SET" => set(tokens, cursor, effects),
        b"CALL" => {
            let routine = cursor.clone().table_name();
            let is_known = routine.is_some_and(|routine| cursor.knows(&routine));
            let assigns_user_variable = session::has_user_variable(cursor);
            if is_known && !assigns_user_variable {
                return Head::reading(StatementKind::Call);
            }
            effects.push(Effect::Call);
            Head { assigns_user_variable, ..Head::evaluating(StatementKind::Call) }
        }
        b"IF" | b"CASE" | b"LOOP" | b"WHILE" | b"REPEAT" | b"FOR" | b"DECLARE" => Head::compound(),
        word => transaction::head(word, cursor, effects)
            .or_else(|| schema::head(word, cursor, effects))
            .or_else(|| session::head(word, cursor, effects))
            .unwrap_or_default(),
    }
}

fn query() -> Head {
    Head::reading(StatementKind::Select).computing(Computes::Expressions)
}

fn inserting(kind: StatementKind) -> Head {
    let head = Head::of(kind).computing(Computes::Expressions);
    Head { body: Body::Plain(Calls::JudgedAfterTarget), ..head }
}

/// `SET …`, or MariaDB's `SET STATEMENT … FOR statement`.
fn set(tokens: &Tokens<'_>, cursor: &mut Cursor<'_>, effects: &mut Effects) -> Head {
    let is_statement = cursor.keyword().as_bytes() == b"STATEMENT"
        && cursor.peek_second().is_some_and(|token| token.is_name());
    if !is_statement {
        return session::set(tokens, effects);
    }
    let mut depth = 0_u32;
    let mut set_for_statement = Vec::new();
    let mut before: Option<Token<'_>> = None;
    for token in cursor.by_ref() {
        match token.kind {
            TokenKind::Open => depth = depth.saturating_add(1),
            TokenKind::Close => depth = depth.saturating_sub(1),
            TokenKind::Word if depth == 0 && token.is_word(b"FOR") => break,
            _ => {}
        }
        let name = before.filter(|_| depth == 0 && is_equals(&token));
        if let Some(name) = name.filter(|_| effects.take_room(1)) {
            set_for_statement.push(unquote(name.text).to_ascii_lowercase());
        }
        before = Some(token);
    }
    if cursor.keyword().as_bytes() == b"SET" {
        // Not allowed by the server, and without an end to the nesting.
        effects.push(Effect::SetUnparsable);
        return Head::of(StatementKind::Set);
    }
    Head { kind: StatementKind::Set, set_for_statement, ..head(tokens, cursor, effects) }
}
