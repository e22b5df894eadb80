//! Statements that define what names mean: while one runs, its names are known to nobody.

use std::borrow::Cow;

use trunkline_catalog::DefinitionTicket;
use trunkline_pool::{ConnId, ConnState};
use trunkline_session::tracker::SessionState;
use trunkline_sql::{
    analysis::{Analysis, Effect, TransactionEffect},
    set::user_variable_name,
    token::{Modes, Token, TokenKind, Tokens},
};

use crate::{
    ClientId, Worker,
    client::{Stage, Statement},
};

/// What a text may define.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defines {
    Nothing,
    /// What its words name.
    Words,
    /// Anything: what it runs is not in its text, or in a string.
    Anything,
}

/// The words that a definition begins with, wherever it stands.
const VERBS: [&[u8]; 4] = [b"CREATE", b"ALTER", b"DROP", b"RENAME"];

fn defines(analysis: &Analysis, text: &[u8]) -> Defines {
    let commits =
        |effect: &Effect| matches!(effect, Effect::Transaction(TransactionEffect::ImplicitCommit));
    let is_unseen =
        |effect: &Effect| matches!(effect, Effect::OtherSession(_) | Effect::ExecuteStatement(_));
    let has_verb = || says_any(text, &VERBS);
    if analysis.effects.iter().any(is_unseen) && has_verb() {
        return Defines::Anything;
    }
    let is_definition = analysis.transaction == TransactionEffect::ImplicitCommit
        || analysis.effects.iter().any(commits);
    match is_definition && has_verb() {
        true => Defines::Words,
        false => Defines::Nothing,
    }
}

/// Whether one of these words stands in a text, perhaps as a part of another one.
fn says_any(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
}

/// Whether a text that is prepared or run from a string or user variable may define something.
fn hides_definition(text: &[u8], modes: &Modes, state: &SessionState) -> bool {
    let may_be = |token: Token<'_>| {
        let name = user_variable_name(token.text);
        state.user_variable(&name).is_none_or(|value| says_any(value, &VERBS))
    };
    let is_variable = |token: &Token<'_>| token.kind == TokenKind::UserVariable;
    says_any(text, &VERBS) || Tokens::new(text, modes).filter(is_variable).any(may_be)
}

/// What a text may name: also in double quotes, which enclose names in some modes, and those are a
/// guess at times.
fn words<'a>(text: &'a [u8], modes: &'a Modes) -> Vec<Cow<'a, [u8]>> {
    let may_name = |token: &Token<'_>| token.is_name() || token.text.first() == Some(&b'"');
    Tokens::new(text, modes).filter(may_name).map(|token| token.unquoted()).collect()
}

impl Worker {
    /// Remembers that the session prepares a text by `PREPARE … FROM` that may define something.
    fn note_prepared(&mut self, id: ClientId, analysis: &Analysis, text: &[u8], modes: &Modes) {
        let prepares = |effect: &Effect| matches!(effect, Effect::PrepareStatement { .. });
        if !analysis.effects.iter().any(prepares) {
            return;
        }
        let session = self.clients.get_mut(id).and_then(|client| client.session.as_mut());
        if let Some(session) = session {
            session.prepares_definitions |= hides_definition(text, modes, &session.state);
        }
    }

    /// Whether a text runs one that is prepared, or in a user variable, and may define something.
    fn runs_definition(
        &self,
        id: ClientId,
        analysis: &Analysis,
        text: &[u8],
        modes: &Modes,
    ) -> bool {
        let session = self.clients.get(id).and_then(|client| client.session.as_ref());
        session.is_some_and(|session| {
            analysis.effects.iter().any(|effect| match effect {
                Effect::ExecuteStatement(_) => session.prepares_definitions,
                Effect::OtherSession(_) => {
                    says_any(text, &[b"EXECUTE"]) && hides_definition(text, modes, &session.state)
                }
                _ => false,
            })
        })
    }

    /// What a statement is about to define is unknown until the ticket is dropped.
    pub(crate) fn begin_definition(
        &mut self,
        id: ClientId,
        analysis: &Analysis,
        text: &[u8],
        modes: &Modes,
    ) -> Option<Box<DefinitionTicket>> {
        self.note_prepared(id, analysis, text, modes);
        let defines = match defines(analysis, text) {
            Defines::Nothing if self.runs_definition(id, analysis, text, modes) => {
                Defines::Anything
            }
            defines => defines,
        };
        let catalog = self.catalog();
        match defines {
            Defines::Nothing => None,
            Defines::Anything => {
                let words: Option<std::iter::Empty<&[u8]>> = None;
                Some(Box::new(catalog.begin_definition(words)))
            }
            Defines::Words => {
                let tokens = words(text, modes);
                let words = tokens.iter().map(|word| &**word);
                Some(Box::new(catalog.begin_definition(Some(words))))
            }
        }
    }
}

/// A definition that its server may carry out yet, though its client or connection has gone.
#[derive(Debug)]
pub(crate) struct Orphan {
    /// Its names are unknown until this is dropped.
    _ticket: Box<DefinitionTicket>,
    conn: ConnId,
    /// So long at least, ms: a server ends what it has begun when its client is gone.
    until_ms: u64,
}

/// Orphans at once; beyond that the oldest are given up.
const ORPHANS_MAX: usize = 4_096;

impl Worker {
    /// A statement is over for the proxy. Where no answer has come, its server may go on.
    pub(crate) fn orphan_definition(&mut self, statement: &mut Statement) {
        let (Some(ticket), Stage::Sent(conn)) = (statement.definition.take(), statement.stage)
        else {
            return;
        };
        if self.orphans.len() >= ORPHANS_MAX {
            self.orphans.remove(0);
        }
        let until_ms = self.now.ms() + self.snapshot.settings.catalog_age_max;
        self.orphans.push(Orphan { _ticket: ticket, conn, until_ms });
    }

    /// Gives up orphans whose time is over and whose server has answered: until then their
    /// connection waits to be reset.
    pub(crate) fn sweep_orphans(&mut self) {
        let now_ms = self.now.ms();
        let conns = &self.conns;
        self.orphans.retain(|orphan| {
            let is_awaited =
                conns.get(orphan.conn).is_some_and(|it| it.list == ConnState::Resetting);
            is_awaited || orphan.until_ms > now_ms
        });
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sql::analysis::analyse;

    use super::*;

    #[test]
    fn double_quotes_may_enclose_names_whatever_the_mode() {
        let text = br#"RENAME TABLE "a" TO b, `c` TO "d""e" COMMENT 'no'"#;
        for ansi_quotes in [false, true] {
            let modes = Modes { ansi_quotes, ..Modes::default() };
            let words = words(text, &modes);
            for name in [&b"a"[..], b"b", b"c", b"d\"e"] {
                assert!(words.iter().any(|word| **word == *name), "{ansi_quotes} {name:?}");
            }
            assert!(!words.iter().any(|word| **word == *b"no"));
        }
    }

    #[test]
    fn what_defines_names_is_told_from_the_rest() {
        for (text, expected) in [
            ("CREATE TABLE t (a INT)", Defines::Words),
            ("ALTER TABLE t ADD b INT", Defines::Words),
            ("CREATE FUNCTION f() RETURNS INT RETURN 1", Defines::Words),
            ("INSERT INTO t VALUES (1); DROP VIEW v", Defines::Words),
            ("RENAME TABLE a TO b", Defines::Words),
            ("EXECUTE IMMEDIATE 'DROP TABLE t'", Defines::Anything),
            ("BEGIN NOT ATOMIC CREATE TABLE t (a INT); END", Defines::Anything),
            ("CREATE TEMPORARY TABLE t (a INT)", Defines::Nothing),
            ("TRUNCATE TABLE t", Defines::Nothing),
            ("INSERT INTO t VALUES ('CREATE')", Defines::Nothing),
            ("SELECT 'DROP'", Defines::Nothing),
        ] {
            let analysis = analyse(text.as_bytes(), &Modes::default());
            assert_eq!(defines(&analysis, text.as_bytes()), expected, "{text}");
        }
    }
}
