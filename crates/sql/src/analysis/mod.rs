//! What a text asks for: its kind, whether it only reads, and what it leaves in the session.
//!
//! Safety first: only what is certainly a read is called one. Whatever is not understood may
//! write, and whatever may stay behind in the session is named as an [`Effect`].

mod cursor;
mod effect;
mod function;
mod head;
mod kind;
mod walk;

#[cfg(test)]
mod tests;

use std::{fmt, ops};

use effect::Effects;
pub use effect::{
    BackupLock, EFFECTS_MAX, Effect, KillId, KillTarget, TableName, TransactionEffect, XaStep,
};
pub use kind::StatementKind;

use crate::{
    routine::Routines,
    token::{Modes, TokenKind, Tokens},
};

/// What one text, of one or more statements, asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// The kind of the first statement.
    pub kind: StatementKind,
    /// Whether a server that must not be written to may run it.
    pub access: Access,
    /// What becomes of the transaction; of several statements, what the last one to touch the
    /// transaction does to it.
    pub transaction: TransactionEffect,
    /// What of the connection's own past the answer depends on.
    pub depends: Depends,
    /// Whether the answer may be another one the next time though no data has changed: the time,
    /// chance, who asks. Also when the text asks not to be answered from a cache.
    pub varies: bool,
    /// What stays behind in the session of the server that runs it, in order. When the text holds
    /// several statements, their transaction effects are among them.
    pub effects: Vec<Effect>,
    /// The variables that MariaDB's `SET STATEMENT … FOR` sets, in lower case: servers report them,
    /// but they have their old values again when the statement is over.
    pub set_for_statement: Vec<Vec<u8>>,
    /// How many statements that are not empty the text holds.
    pub statements: u32,
    /// False if the text ends inside a quote or a comment, or has NUL bytes.
    pub is_complete: bool,
    /// There are more effects than [`EFFECTS_MAX`], and not all of them are named: what the text
    /// leaves behind is not known, not even whether it ends somebody else's connection.
    pub is_cut: bool,
}

impl Analysis {
    /// Whether a text of the same structure with other literals may have another analysis, so
    /// that this one must not be remembered for a digest.
    pub fn depends_on_literals(&self) -> bool {
        !self.effects.is_empty()
            || !self.is_complete
            || self.is_cut
            || matches!(self.transaction, TransactionEffect::SetAutocommit(_))
    }
}

/// Where a text may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Each statement only reads, from any server that has the data, and leaves nothing behind.
    CertainlyReads,
    /// Anything else: it writes, locks, depends on the connection or server, or is not understood.
    MayWrite,
}

/// What of its own connection's past a statement's answer depends on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Depends(u8);

impl Depends {
    /// The last generated or given auto-increment value: `LAST_INSERT_ID()`, `@@identity`.
    pub const LAST_INSERT_ID: Self = Self(1);
    /// `ROW_COUNT()`.
    pub const ROW_COUNT: Self = Self(1 << 1);
    /// `FOUND_ROWS()`.
    pub const FOUND_ROWS: Self = Self(1 << 2);
    /// The warnings and errors of the statement before: `SHOW WARNINGS`, `GET DIAGNOSTICS`.
    pub const DIAGNOSTICS: Self = Self(1 << 3);
    /// The server's number of the connection: `CONNECTION_ID()`.
    pub const CONNECTION_ID: Self = Self(1 << 4);
    /// The value of a user variable.
    pub const USER_VARIABLE_READ: Self = Self(1 << 5);
    /// A function that is not known to be built in: what it reads or leaves behind is not visible.
    pub const UNKNOWN_FUNCTION: Self = Self(1 << 6);
    /// Which changes of the session the server reports: `@@session_track_schema` and its like.
    pub const TRACKERS: Self = Self(1 << 7);

    const NAMES: [(Self, &'static str); 8] = [
        (Self::LAST_INSERT_ID, "LAST_INSERT_ID"),
        (Self::ROW_COUNT, "ROW_COUNT"),
        (Self::FOUND_ROWS, "FOUND_ROWS"),
        (Self::DIAGNOSTICS, "DIAGNOSTICS"),
        (Self::CONNECTION_ID, "CONNECTION_ID"),
        (Self::TRACKERS, "TRACKERS"),
        (Self::USER_VARIABLE_READ, "USER_VARIABLE_READ"),
        (Self::UNKNOWN_FUNCTION, "UNKNOWN_FUNCTION"),
    ];

    /// Nothing.
    pub const fn empty() -> Self {
        Self(0)
    }

    /// Whether it is nothing.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds `other`.
    pub fn insert(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl ops::BitOr for Depends {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Depends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        f.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

/// Analyses `text`, as a server in the given modes would read it. Takes time linear in its length.
pub fn analyse(text: &[u8], modes: &Modes) -> Analysis {
    analyse_tokens(Tokens::new(text, modes))
}

/// The same where these routines are known to read only.
pub fn analyse_knowing(text: &[u8], modes: &Modes, routines: &Routines) -> Analysis {
    analyse_tokens(Tokens::new(text, modes).knowing(routines))
}

fn analyse_tokens(mut tokens: Tokens<'_>) -> Analysis {
    let begin = tokens.clone();
    let mut analysis = read(&mut tokens);
    if tokens.has_versioned() {
        weigh_versions(&mut analysis, &tokens, begin);
    }
    if tokens.is_ambiguous() {
        analysis.effects.push(Effect::OtherSession("text that servers may read differently"));
    }
    analysis.is_complete = tokens.is_complete();
    if !analysis.is_complete
        || analysis.is_cut
        || !analysis.effects.is_empty()
        || !analysis.depends.is_empty()
    {
        analysis.access = Access::MayWrite;
    }
    analysis
}

/// A server may run the versioned comments or skip them: both readings must be harmless.
fn weigh_versions(analysis: &mut Analysis, code: &Tokens<'_>, begin: Tokens<'_>) {
    let skipped = read(&mut begin.skipping_versioned());
    let may_write = skipped.access == Access::MayWrite && skipped.statements > 0;
    if may_write || code.versions_differ() {
        analysis.access = Access::MayWrite;
    }
    analysis.depends.insert(skipped.depends);
    analysis.varies |= skipped.varies;
    analysis.is_cut |= skipped.is_cut;
    let mut known = analysis.effects.iter();
    let is_covered = skipped.effects.iter().all(|effect| known.any(|other| other == effect));
    let merged = merge(analysis.transaction, skipped.transaction);
    analysis.transaction = merged.unwrap_or(analysis.transaction);
    if !is_covered || merged.is_none() {
        analysis.effects.push(Effect::OtherSession("effects that depend on the server's version"));
    }
}

/// What a transaction becomes by one reading or the other; `None` if they cannot be one effect.
fn merge(code: TransactionEffect, skipped: TransactionEffect) -> Option<TransactionEffect> {
    use TransactionEffect as Tx;
    match (code, skipped) {
        (
            Tx::Begin { read_only, consistent_snapshot },
            Tx::Begin { read_only: also, consistent_snapshot: other },
        ) => Some(Tx::Begin {
            read_only: read_only && also,
            consistent_snapshot: consistent_snapshot || other,
        }),
        (code, skipped) if skipped == code || skipped == Tx::None => Some(code),
        _ => None,
    }
}

/// One reading of a text.
fn read(tokens: &mut Tokens<'_>) -> Analysis {
    let mut analysis = Analysis {
        kind: StatementKind::Unknown,
        access: Access::MayWrite,
        transaction: TransactionEffect::None,
        depends: Depends::empty(),
        varies: false,
        effects: Vec::new(),
        set_for_statement: Vec::new(),
        statements: 0,
        is_complete: true,
        is_cut: false,
    };
    let mut effects = Effects::new();
    let mut reads_only = true;
    loop {
        let ahead = tokens.clone();
        match tokens.next() {
            None => break,
            Some(token) if token.kind == TokenKind::Semicolon => continue,
            Some(_) => *tokens = ahead,
        }
        let place = effects.len();
        let statement = head::read(tokens, &mut effects);
        if analysis.statements == 0 {
            analysis.kind = statement.kind;
        } else {
            effects.name_transaction(place, statement.transaction);
        }
        if analysis.statements == 1 {
            // Only now is it known that the first statement was not the only one.
            effects.name_transaction(0, analysis.transaction);
        }
        if statement.transaction != TransactionEffect::None {
            analysis.transaction = statement.transaction;
        }
        analysis.statements = analysis.statements.saturating_add(1);
        analysis.depends.insert(statement.depends);
        analysis.varies |= statement.varies;
        analysis.set_for_statement.extend(statement.set_for_statement);
        reads_only &= statement.reads_only;
    }
    if reads_only && analysis.statements > 0 {
        analysis.access = Access::CertainlyReads;
    }
    Analysis { effects: effects.list, is_cut: effects.is_cut, ..analysis }
}
