//! What happens in texts that servers store: the definitions of views, the bodies of triggers,
//! what columns compute.
//!
//! Only forms that are understood are judged, and whatever is not is unknown.

mod body;

#[cfg(test)]
mod tests;

use body::Body;
use trunkline_sql::{
    analysis::{Access, Analysis, Depends, StatementKind, TableAccess, TransactionEffect, analyse},
    token::{Modes, Token, TokenKind, Tokens},
};

use crate::Hidden;

/// Tokens of one stored text.
const TOKENS_MAX: usize = 16_384;

/// A name that a stored text uses; one without a schema is of the schema that the text is stored
/// in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    pub schema: Option<Box<[u8]>>,
    pub table: Box<[u8]>,
    pub access: TableAccess,
}

/// What happens in a stored text, but for what happens behind the names that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Verdict {
    pub hidden: Hidden,
    pub uses: Vec<Use>,
}

impl Verdict {
    /// Of a text that is not understood.
    pub(crate) fn unknown() -> Self {
        Self { hidden: Hidden::OPAQUE, uses: Vec::new() }
    }

    /// Of a view that the account may not see: it may call a function that sets a role or has its
    /// statements recorded, which no reset takes back and no server reports.
    pub(crate) fn unseen_view() -> Self {
        Self { hidden: Hidden::OPAQUE, uses: Vec::new() }
    }

    fn add(&mut self, other: Self) {
        self.hidden.insert(other.hidden);
        for used in other.uses {
            if !self.uses.contains(&used) {
                self.uses.push(used);
            }
        }
    }
}

/// How the server's own renderings are read.
fn modes(is_mariadb: bool) -> Modes {
    Modes { flavor_mariadb: is_mariadb, ..Modes::default() }
}

/// What reading a view does, by its definition as `information_schema` shows it.
pub(crate) fn judge_view(definition: &[u8], is_mariadb: bool) -> Verdict {
    // Both families write strings with backslashes there, in whatever mode the view was made.
    let modes = modes(is_mariadb);
    let mut verdict = judge_select(definition, &modes);
    verdict.hidden.insert(Hidden::DEFINED);
    if Tokens::new(definition, &modes).any(|token| token.is_word(b"GROUP_CONCAT")) {
        verdict.hidden.insert(Hidden::CONCATENATES);
    }
    verdict
}

/// What a column does that computes its value or default.
pub(crate) fn judge_column(expression: &[u8], is_mariadb: bool) -> Hidden {
    let expression = match is_mariadb {
        true => expression.to_vec(),
        // It shows quotes with a backslash in front.
        false => unescape(expression),
    };
    let modes = modes(is_mariadb);
    let (expression, mut hidden) = without_sequences(&expression, &modes);
    let verdict = judge_expression(&expression, &modes);
    hidden.insert(verdict.hidden);
    match verdict.uses.is_empty() {
        true => hidden,
        false => Hidden::OPAQUE,
    }
}

/// What a trigger does, by its body, the SQL mode that it was made in, and its character set.
pub(crate) fn judge_trigger(
    body: &[u8],
    sql_mode: &[u8],
    charset: &[u8],
    is_mariadb: bool,
) -> Verdict {
    let has_mode = |mode: &str| {
        sql_mode.split(|byte| *byte == b',').any(|it| it.eq_ignore_ascii_case(mode.as_bytes()))
    };
    let is_utf8 = charset.get(..4).is_some_and(|it| it.eq_ignore_ascii_case(b"utf8"));
    let is_swedish = charset.eq_ignore_ascii_case(b"swe7");
    if has_mode("ORACLE") || is_swedish || (!is_utf8 && !body.is_ascii()) {
        return Verdict::unknown();
    }
    let modes = Modes {
        ansi_quotes: has_mode("ANSI_QUOTES"),
        no_backslash_escapes: has_mode("NO_BACKSLASH_ESCAPES"),
        ..modes(is_mariadb)
    };
    let mut tokens = Tokens::new(body, &modes);
    let all: Vec<Token<'_>> = tokens.by_ref().take(TOKENS_MAX).collect();
    let is_odd = tokens.next().is_some()
        || !tokens.is_complete()
        || tokens.is_ambiguous()
        || tokens.has_versioned();
    match is_odd {
        true => Verdict::unknown(),
        false => Body::new(body, &all, &modes).judge(),
    }
}

/// What one `SELECT` does.
fn judge_select(text: &[u8], modes: &Modes) -> Verdict {
    let analysis = analyse(text, modes);
    if analysis.kind != StatementKind::Select {
        return Verdict::unknown();
    }
    let hidden = hidden_of(&analysis);
    // With something that it depends on, its access is no sign any more: what else could be in it
    // is looked for.
    let is_read = analysis.access == Access::CertainlyReads
        || !analysis.depends.is_empty() && !sets_or_locks(text, modes);
    match is_read {
        true => verdict_of(hidden, &analysis),
        false => Verdict { hidden: opaque(&analysis), uses: Vec::new() },
    }
}

/// What computing an expression does.
fn judge_expression(expression: &[u8], modes: &Modes) -> Verdict {
    judge_select(&[b"SELECT ", expression].concat(), modes)
}

/// What a text that changes rows does besides.
fn judge_change(text: &[u8], modes: &Modes) -> Verdict {
    let analysis = analyse(text, modes);
    let is_change = matches!(
        analysis.kind,
        StatementKind::Insert
            | StatementKind::Update
            | StatementKind::Delete
            | StatementKind::Replace
    );
    match is_change && !sets_or_locks(text, modes) {
        true => verdict_of(hidden_of(&analysis), &analysis),
        false => Verdict::unknown(),
    }
}

fn verdict_of(hidden: Hidden, analysis: &Analysis) -> Verdict {
    let uses = analysis.references.tables.iter().map(|used| Use {
        schema: used.name.schema.as_deref().map(Into::into),
        table: used.name.table[..].into(),
        access: used.access,
    });
    Verdict { hidden, uses: uses.collect() }
}

/// What may happen besides reading and writing what the text names.
fn hidden_of(analysis: &Analysis) -> Hidden {
    let is_seen = analysis.statements == 1
        && analysis.references.is_whole
        && analysis.is_complete
        && !analysis.is_cut
        && analysis.effects.is_empty()
        && analysis.set_for_statement.is_empty()
        && analysis.transaction == TransactionEffect::None;
    if !is_seen || analysis.depends.contains(Depends::UNKNOWN_FUNCTION) {
        return opaque(analysis);
    }
    let mut hidden = Hidden::empty();
    if !analysis.depends.is_empty() {
        hidden.insert(Hidden::READS_SESSION);
    }
    if analysis.varies {
        hidden.insert(Hidden::VARIES);
    }
    hidden
}

/// What may happen in a text that is not understood, with what is known of it all the same: that it
/// takes a lock, or reads the session.
fn opaque(analysis: &Analysis) -> Hidden {
    let mut hidden = Hidden::OPAQUE;
    if !analysis.effects.is_empty() {
        hidden.insert(Hidden::WRITES);
    }
    if ![Depends::empty(), Depends::UNKNOWN_FUNCTION].contains(&analysis.depends) {
        hidden.insert(Hidden::READS_SESSION);
    }
    hidden
}

/// Whether a text may set what it looks like reading (`LAST_INSERT_ID(n)`, `@x := 1`), or lock.
fn sets_or_locks(text: &[u8], modes: &Modes) -> bool {
    let mut before: [Option<Token<'_>>; 2] = [None, None];
    for token in Tokens::new(text, modes) {
        let has_argument = token.kind != TokenKind::Close
            && before[1].is_some_and(|it| it.kind == TokenKind::Open)
            && before[0].is_some_and(|it| it.is_word(b"LAST_INSERT_ID"));
        let is_lock = before[1].is_some_and(|it| it.is_word(b"FOR"))
            && [&b"UPDATE"[..], b"SHARE"].iter().any(|word| token.is_word(word))
            || token.is_word(b"LOCK");
        if has_argument || is_lock || token.kind == TokenKind::Assign {
            return true;
        }
        before = [before[1], Some(token)];
    }
    false
}

/// MariaDB's sequences in the default of a column: what they do, and the text with a harmless
/// function in their place.
fn without_sequences(expression: &[u8], modes: &Modes) -> (Vec<u8>, Hidden) {
    let tokens: Vec<_> = Tokens::new(expression, modes).take(TOKENS_MAX).collect();
    let mut text = Vec::with_capacity(expression.len());
    let mut hidden = Hidden::empty();
    let mut copied = 0;
    for (at, token) in tokens.iter().enumerate() {
        let is_call = tokens.get(at + 1).is_some_and(|next| next.kind == TokenKind::Open);
        let is_after_dot =
            at.checked_sub(1).and_then(|at| tokens.get(at)).is_some_and(|it| it.text == b".");
        let moves = token.is_word(b"NEXTVAL") || token.is_word(b"SETVAL");
        if !is_call || is_after_dot || !(moves || token.is_word(b"LASTVAL")) {
            continue;
        }
        text.extend(expression.get(copied..token.offset).unwrap_or_default());
        text.extend(b"CONCAT");
        copied = token.end();
        hidden.insert(Hidden::READS_SESSION);
        if moves {
            hidden.insert(Hidden::WRITES | Hidden::LEAVES);
        }
    }
    text.extend(expression.get(copied..).unwrap_or_default());
    (text, hidden)
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next()),
            byte => out.push(*byte),
        }
    }
    out
}
