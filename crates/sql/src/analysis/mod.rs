//! What a text asks for: its kind, whether it only reads, and what it leaves in the session.
//!
//! Safety first: only what is certainly a read is called one. Whatever is not understood may
//! write, and whatever may stay behind in the session is named as an [`Effect`].

mod cursor;
mod effect;
mod function;
mod head;
mod kind;
mod past;
pub mod proven;
mod reference;
mod variables;
mod walk;

#[cfg(test)]
mod name_tests;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests;

use std::{fmt, ops};

use effect::Effects;
pub use effect::{
    BackupLock, EFFECTS_MAX, Effect, KillId, KillTarget, TableName, TransactionEffect, XaStep,
};
pub use function::built_in_functions;
pub use kind::StatementKind;
use reference::Collector;
pub use reference::{REFERENCES_MAX, References, TableAccess, TableUse};
pub use variables::Variables;

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
    /// The user variables that it names, where it reads any.
    pub variables: Variables,
    /// The variables that MariaDB's `SET STATEMENT … FOR` sets, in lower case: servers report them,
    /// but they have their old values again when the statement is over.
    pub set_for_statement: Vec<Vec<u8>>,
    /// The tables that it names.
    pub references: References,
    /// It may compute something: what stands behind names and functions may run.
    computes: bool,
    /// How many statements that are not empty the text holds.
    pub statements: u32,
    /// A literal decides what it depends on: the pattern of `SHOW VARIABLES LIKE`.
    pub asks_by_literal: bool,
    /// What is read may be locked (`FOR UPDATE`, `FOR SHARE`, `LOCK IN SHARE MODE`), or go into a
    /// file of the server's (`INTO OUTFILE`, `INTO DUMPFILE`).
    pub locks_or_exports: bool,
    /// It calls functions that are declared to read only, and leave nothing behind.
    pub calls_declared: bool,
    /// False if the text ends inside a quote or a comment, or has NUL bytes.
    pub is_complete: bool,
    /// There are more effects than [`EFFECTS_MAX`], and not all of them are named: what the text
    /// leaves behind is not known, not even whether it ends somebody else's connection.
    pub is_cut: bool,
}

impl Analysis {
    /// About how much memory it takes beside itself, in bytes.
    pub fn held(&self) -> usize {
        let tables = self.references.tables.iter().map(|table| table.name.held());
        let texts = self.variables.names.iter().chain(&self.set_for_statement);
        effect::held_by(&self.effects)
            + tables.sum::<usize>()
            + texts.map(|text| size_of::<Vec<u8>>() + effect::held(text)).sum::<usize>()
    }

    /// Whether it may compute something, so that what stands behind its names and functions runs.
    pub fn may_compute(&self) -> bool {
        self.computes
    }

    /// Whether nothing in the text is known to stay behind, or to end a transaction.
    pub fn is_without_effects(&self) -> bool {
        self.effects.is_empty() && !self.is_cut && self.transaction == TransactionEffect::None
    }

    /// Whether the whole text is known, and is one statement.
    pub fn is_one_whole_statement(&self) -> bool {
        self.statements == 1 && self.is_complete && !self.is_cut
    }

    /// Whether it commits what is open before it does something else: `BEGIN`, DDL, `LOCK TABLES`.
    pub fn commits_implicitly(&self) -> bool {
        use TransactionEffect as Tx;
        let commits = |transaction| matches!(transaction, Tx::Begin { .. } | Tx::ImplicitCommit);
        commits(self.transaction)
            || self.effects.iter().any(|effect| match effect {
                Effect::Transaction(transaction) => commits(*transaction),
                Effect::LockTables => true,
                _ => false,
            })
    }

    /// Whether it may end the transaction that is open: as above, or by `COMMIT` or `ROLLBACK`.
    pub fn ends_transaction(&self) -> bool {
        self.commits_implicitly() || self.transactions().any(|it| it.completion().is_some())
    }

    /// Whether another transaction may be open behind the one that it ends, in which it reads, or
    /// what follows does: it begins one, has `AND CHAIN`, or is one of several statements.
    /// `chains`: `completion_type` may have the server begin one.
    pub fn goes_on_in_another(&self, chains: bool) -> bool {
        self.commits_implicitly()
            || self.ends_transaction() && self.statements != 1
            || self.transactions().any(|it| it.completion().is_some_and(|chain| chain || chains))
    }

    fn transactions(&self) -> impl Iterator<Item = TransactionEffect> {
        let others = self.effects.iter().filter_map(|effect| match effect {
            Effect::Transaction(transaction) => Some(*transaction),
            _ => None,
        });
        std::iter::once(self.transaction).chain(others)
    }

    /// Whether a text of the same structure with other literals may have another analysis, so
    /// that this one must not be remembered for a digest.
    pub fn depends_on_literals(&self) -> bool {
        !self.effects.is_empty()
            || !self.variables.names.is_empty()
            || self.asks_by_literal
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
pub struct Depends(u16);

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
    /// The last value that a sequence gave in this session: `LASTVAL()`, `PREVIOUS VALUE FOR`,
    /// `sequence.CURRVAL`.
    pub const SEQUENCE: Self = Self(1 << 8);
    /// Something else of the connection's own: `@@in_transaction`, counters of its
    /// status, its profiles.
    pub const PAST: Self = Self(1 << 9);

    /// The GTID of the session's last write: `@@last_gtid` (MariaDB).
    pub const LAST_GTID: Self = Self(1 << 10);

    const NAMES: [(Self, &'static str); 11] = [
        (Self::LAST_INSERT_ID, "LAST_INSERT_ID"),
        (Self::ROW_COUNT, "ROW_COUNT"),
        (Self::FOUND_ROWS, "FOUND_ROWS"),
        (Self::DIAGNOSTICS, "DIAGNOSTICS"),
        (Self::CONNECTION_ID, "CONNECTION_ID"),
        (Self::TRACKERS, "TRACKERS"),
        (Self::USER_VARIABLE_READ, "USER_VARIABLE_READ"),
        (Self::UNKNOWN_FUNCTION, "UNKNOWN_FUNCTION"),
        (Self::SEQUENCE, "SEQUENCE"),
        (Self::PAST, "PAST"),
        (Self::LAST_GTID, "LAST_GTID"),
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

/// Whether a text may ask a sequence in ORACLE's way (`s.nextval`), which is another one in other
/// modes.
pub fn may_ask_sequence(text: &[u8]) -> bool {
    let is_asked = |part: &[u8]| {
        part.eq_ignore_ascii_case(b"NEXTVAL") || part.eq_ignore_ascii_case(b"CURRVAL")
    };
    memchr::memchr(b'.', text).is_some() && text.windows(7).any(is_asked)
}

/// Analyses `text`, as a server in the given modes would read it. Takes time linear in its length.
pub fn analyse(text: &[u8], modes: &Modes) -> Analysis {
    analyse_tokens(Tokens::new(text, modes))
}

/// Analyses a statement where these routines are known to read only.
pub fn analyse_knowing(text: &[u8], modes: &Modes, routines: &Routines) -> Analysis {
    analyse_tokens(Tokens::new(text, modes).knowing(routines))
}

fn analyse_tokens(mut tokens: Tokens<'_>) -> Analysis {
    let begin = tokens.clone();
    let mut analysis = read(&mut tokens);
    if tokens.depends_on_version() {
        weigh_versions(&mut analysis, &tokens, begin.clone());
    }
    if tokens.guesses_quotes() {
        weigh_quotes(&mut analysis, begin);
    }
    if tokens.is_ambiguous() {
        analysis.doubt("text that servers may read differently");
    }
    if tokens.leaves_variable() {
        analysis.doubt("optimizer hint that leaves a variable set");
    }
    if tokens.finds_by_null() {
        analysis.depends.insert(Depends::UNKNOWN_FUNCTION | Depends::LAST_INSERT_ID);
    }
    analysis.is_complete = tokens.is_complete();
    let is_one_reading =
        analysis.is_complete && !tokens.is_ambiguous() && !tokens.versions_differ();
    analysis.references.weigh(is_one_reading);
    if analysis.computes && !analysis.references.names_found {
        analysis.depends.insert(Depends::UNKNOWN_FUNCTION);
    }
    if !analysis.is_complete
        || analysis.is_cut
        || !analysis.effects.is_empty()
        || !analysis.depends.is_empty()
    {
        analysis.access = Access::MayWrite;
    }
    analysis
}

/// A server may run the versioned comments or skip them: what is not so by both readings is in
/// doubt.
fn weigh_versions(analysis: &mut Analysis, code: &Tokens<'_>, begin: Tokens<'_>) {
    let skipped = read(&mut begin.skipping_versioned());
    let may_write = skipped.access == Access::MayWrite && skipped.statements > 0;
    if may_write || code.versions_differ() {
        analysis.access = Access::MayWrite;
    }
    // A server that skips them may find nothing to run.
    let is_alike = skipped.statements == 0 || skipped.references == analysis.references;
    analysis.references.weigh(is_alike);
    let transaction = merge(analysis.transaction, skipped.transaction);
    // With several numbers there are more readings than these two.
    let is_harmless =
        analysis.effects.is_empty() && analysis.transaction == TransactionEffect::None;
    let is_certain = !code.versions_differ() || is_harmless;
    if analysis.effects != skipped.effects || transaction.is_none() || !is_certain {
        analysis.doubt("effects that depend on the server's version");
    }
    analysis.transaction = transaction.unwrap_or_else(|| writing(analysis.transaction));
    analysis.join(skipped);
}

/// Double quotes may enclose strings or names: what is not so by both readings is in doubt.
fn weigh_quotes(analysis: &mut Analysis, begin: Tokens<'_>) {
    let modes = *begin.modes();
    let modes = Modes { ansi_quotes: !modes.ansi_quotes, guesses_quotes: false, ..modes };
    let mut tokens = Tokens::new(begin.text(), &modes);
    if let Some(routines) = begin.routines() {
        tokens = tokens.knowing(routines);
    }
    let other = analyse_tokens(tokens);
    if other.access == Access::MayWrite {
        analysis.access = Access::MayWrite;
    }
    analysis.references.weigh(analysis.references == other.references);
    let is_alike = analysis.effects == other.effects
        && analysis.transaction == other.transaction
        && analysis.statements == other.statements;
    if !is_alike {
        analysis.doubt("double quotes in a mode that is not known");
        analysis.transaction = writing(analysis.transaction);
    }
    analysis.join(other);
}

/// The most comparisons of effects of two readings; beyond it the text is cut.
const COMPARISONS_MAX: usize = 10_000;

/// A transaction that may or may not be begun is none that only reads.
fn writing(transaction: TransactionEffect) -> TransactionEffect {
    match transaction {
        TransactionEffect::Begin { read_write, consistent_snapshot, .. } => {
            TransactionEffect::Begin { read_only: false, read_write, consistent_snapshot }
        }
        TransactionEffect::None
        | TransactionEffect::Commit { .. }
        | TransactionEffect::Rollback { .. }
        | TransactionEffect::ImplicitCommit
        | TransactionEffect::SetAutocommit(_) => transaction,
    }
}

impl Analysis {
    /// What it says of effects may not be so: what would end something is left out, and what else
    /// the text may leave behind is not known.
    fn doubt(&mut self, what: &'static str) {
        self.effects.retain(|effect| !effect.ends_something());
        self.effects.push(Effect::OtherSession(what));
        self.access = Access::MayWrite;
    }

    /// Of a text that a server may read in this way or in another one, nobody knows which: what
    /// both say, and that neither has to be so.
    #[must_use]
    pub fn or_otherwise(mut self, other: Self) -> Self {
        if self.transaction != other.transaction {
            self.transaction = writing(self.transaction);
        }
        self.doubt("prepared text that may be read again in another mode");
        self.is_complete &= other.is_complete;
        self.references.is_whole = false;
        self.join(other);
        self
    }

    /// Takes over what another reading of the same text says, but for its transaction.
    fn join(&mut self, other: Self) {
        self.depends.insert(other.depends);
        self.varies |= other.varies;
        self.computes |= other.computes;
        self.asks_by_literal |= other.asks_by_literal;
        self.locks_or_exports |= other.locks_or_exports;
        self.calls_declared &= other.calls_declared;
        self.is_cut |= other.is_cut;
        self.variables.join(other.variables);
        let is_new = |effect: &Effect| !effect.ends_something() && !self.effects.contains(effect);
        let work = self.effects.len().saturating_mul(other.effects.len());
        if self.effects == other.effects {
            return;
        }
        if work > COMPARISONS_MAX {
            self.is_cut = true;
            return;
        }
        let new: Vec<_> = other.effects.into_iter().filter(is_new).collect();
        self.effects.extend(new);
    }
}

/// What a transaction becomes by one reading or the other; `None` if they cannot be one effect.
fn merge(code: TransactionEffect, skipped: TransactionEffect) -> Option<TransactionEffect> {
    use TransactionEffect as Tx;
    match (code, skipped) {
        (
            Tx::Begin { read_only, read_write, consistent_snapshot },
            Tx::Begin { read_only: also, read_write: writes, consistent_snapshot: other },
        ) => Some(Tx::Begin {
            read_only: read_only && also,
            read_write: read_write || writes,
            consistent_snapshot: consistent_snapshot || other,
        }),
        (code, skipped) if skipped == code => Some(code),
        _ => None,
    }
}

impl Analysis {
    /// That of a text of which nothing has been read yet.
    fn unread() -> Self {
        Self {
            kind: StatementKind::Unknown,
            access: Access::MayWrite,
            transaction: TransactionEffect::None,
            depends: Depends::empty(),
            varies: false,
            effects: Vec::new(),
            variables: Variables::default(),
            set_for_statement: Vec::new(),
            references: References::default(),
            computes: false,
            statements: 0,
            asks_by_literal: false,
            locks_or_exports: false,
            calls_declared: false,
            is_complete: true,
            is_cut: false,
        }
    }
}

/// One reading of a text.
fn read(tokens: &mut Tokens<'_>) -> Analysis {
    let mut analysis = Analysis::unread();
    let all = tokens.clone();
    let mut effects = Effects::new();
    let mut references = Collector::new();
    let mut reads_only = true;
    // From where on the text is read in other modes than those that are known.
    let mut is_reread = None;
    loop {
        let ahead = tokens.clone();
        match tokens.next() {
            None => break,
            Some(token) if token.kind == TokenKind::Semicolon => continue,
            Some(_) => *tokens = ahead,
        }
        let found = references.statement(tokens);
        let place = effects.len();
        let statement = head::read(tokens, &mut effects);
        analysis.computes |= statement.computes;
        if statement.computes && !found.has_names {
            references.misses();
        }
        let is_moved = effects.since(place).iter().any(Effect::moves_names);
        if is_moved || !found.is_whole && statement.renames {
            references.renames();
        }
        if is_reread.is_none() && effects.since(place).iter().any(Effect::changes_reading) {
            is_reread = Some(tokens.offset());
        }
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
        analysis.asks_by_literal |= statement.asks_by_literal;
        analysis.locks_or_exports |= statement.locks_or_exports;
        analysis.calls_declared |= statement.calls_declared;
        analysis.set_for_statement.extend(statement.set_for_statement);
        reads_only &= statement.reads_only;
    }
    if analysis.depends.contains(Depends::USER_VARIABLE_READ) {
        analysis.variables = Variables::in_text(all);
    }
    if analysis.statements > 0 {
        analysis.references = references.finish();
        if reads_only {
            analysis.access = Access::CertainlyReads;
        }
    }
    let mut analysis = Analysis { effects: effects.list, is_cut: effects.is_cut, ..analysis };
    let rest = is_reread.and_then(|from| tokens.text().get(from..)).unwrap_or_default();
    if rest.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0x80..)) {
        analysis.doubt("text behind a change of how it is read");
    }
    analysis
}
