//! Statements that define what names mean: while one runs, its names are known to nobody.

use std::borrow::Cow;

use trunkline_catalog::DefinitionTicket;
use trunkline_pool::ConnId;
use trunkline_session::tracker::{PinReason, SessionState};
use trunkline_sql::{
    analysis::{Analysis, Effect, TransactionEffect},
    set::user_variable_name,
    token::{Encoding, Modes, Token, TokenKind, Tokens},
};

use crate::{
    clients::client::{Client, Session, Stage, Statement},
    rooms::{Core, Exchange},
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

/// A longer text is not searched: it may say anything, bytes.
const SEARCHED_MAX: usize = 64 * 1024;

/// Whether one of these words stands in a text, perhaps as a part of another one.
fn says_any(text: &[u8], words: &[&[u8]]) -> bool {
    text.len() > SEARCHED_MAX
        || words
            .iter()
            .any(|word| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
}

/// Whether a text that is prepared, or run at once, may define something: it does not if it is one
/// plain literal, or a variable that has one, without a word that a definition begins with.
/// Anything else is computed by the server alone. `state` is `None` where variables are not known.
fn hides_definition(text: &[u8], modes: &Modes, state: Option<&SessionState>) -> bool {
    if text.len() > SEARCHED_MAX {
        return true;
    }
    let mut tokens = Tokens::new(text, modes);
    let begin = tokens.next();
    let is_source = match begin.is_some_and(|token| token.is_word(b"PREPARE")) {
        true => tokens.next().is_some() && is_word(tokens.next(), b"FROM"),
        false => is_word(begin, b"EXECUTE") && is_word(tokens.next(), b"IMMEDIATE"),
    };
    let source = tokens.next().filter(|_| is_source);
    let ends = tokens.next().is_none_or(|token| {
        token.is_word(b"USING") || token.kind == TokenKind::Semicolon && tokens.next().is_none()
    });
    // What is in a versioned comment may not be there.
    let (Some(source), true, false) = (source, ends, says_any(text, &[b"/*!", b"/*M!"])) else {
        return true;
    };
    match source.kind {
        TokenKind::String => may_define(source.text),
        TokenKind::UserVariable => {
            let name = user_variable_name(source.text);
            let value = state.and_then(|state| state.user_variable(&name));
            value.filter(|value| value.len() <= SEARCHED_MAX).is_none_or(|value| {
                let mut tokens = Tokens::new(value, modes);
                let is_one = tokens.next().is_some_and(|token| token.kind == TokenKind::String)
                    && tokens.next().is_none();
                !is_one || may_define(value)
            })
        }
        _ => true,
    }
}

fn is_word(token: Option<Token<'_>>, word: &[u8]) -> bool {
    token.is_some_and(|token| token.is_word(word))
}

/// Whether a literal, as written, may be a text that defines something. What an escape stands for
/// depends on the server's mode, and what a prefix does on the characters.
fn may_define(literal: &[u8]) -> bool {
    let is_plain = matches!(literal, [b'\'' | b'"', ..]) && !literal.contains(&b'\\');
    !is_plain || says_any(literal, &VERBS) || says_any(literal, &[b"EXECUTE", b"PREPARE"])
}

/// What may have set variables unseen.
const UNSEEN: [PinReason; 3] = [PinReason::Routine, PinReason::UnknownName, PinReason::Other];

/// Which variables' values are known: what ran unseen may have set any.
fn known_variables(session: &Session) -> Option<&SessionState> {
    let has_run_unseen =
        session.leases.iter().any(|lease| UNSEEN.iter().any(|reason| lease.pins.has(*reason)));
    (!has_run_unseen).then_some(&*session.settings.state)
}

/// Whether the session has said itself what this statement is that it has prepared.
fn has_prepared(session: &Session, name: &[u8]) -> bool {
    session.leases.iter().any(|lease| {
        let mut names = lease.pins.names(PinReason::SqlPreparedStatement);
        names.any(|prepared| prepared.eq_ignore_ascii_case(name))
    })
}

/// What a text may name: also in double quotes, which enclose names in some modes, and those are a
/// guess at times. `None` for anything, where ASCII bytes may not be the letters that others write:
/// in some character sets they are others, or halves of characters.
fn words<'a>(text: &'a [u8], modes: &'a Modes) -> Option<Vec<Cow<'a, [u8]>>> {
    if text.len() > SEARCHED_MAX {
        return None;
    }
    let may_name = |token: &Token<'_>| token.is_name() || token.text.first() == Some(&b'"');
    let names = Tokens::new(text, modes).filter(may_name).map(|token| token.unquoted());
    let names: Vec<_> = names.collect();
    let is_alike = match modes.encoding {
        Encoding::Utf8 | Encoding::Latin | Encoding::Dos => true,
        Encoding::SingleByte | Encoding::ShiftJis | Encoding::Big5 | Encoding::Gbk => {
            text.is_ascii()
        }
        Encoding::Swedish | Encoding::Unknown => {
            text.is_ascii() && !names.iter().any(|word| modes.encoding.may_rename(word))
        }
    };
    is_alike.then_some(names)
}

impl Client {
    /// Whether a text runs one that is prepared, or computed, and may define something.
    fn runs_definition(&self, analysis: &Analysis, text: &[u8], modes: &Modes) -> bool {
        let session = &*self.session;
        let is_hidden =
            || analysis.statements != 1 || hides_definition(text, modes, known_variables(session));
        analysis.effects.iter().any(|effect| match effect {
            Effect::ExecuteStatement(name) if name.is_empty() => is_hidden(),
            Effect::ExecuteStatement(name) => {
                session.settings.prepares_definitions || !has_prepared(session, name)
            }
            Effect::OtherSession(_) => says_any(text, &[b"EXECUTE"]) && is_hidden(),
            _ => false,
        })
    }

    /// Remembers that the session prepares a text by `PREPARE … FROM` that may define something.
    fn note_prepared(&mut self, analysis: &Analysis, text: &[u8], modes: &Modes) {
        let prepares = |effect: &Effect| match effect {
            Effect::PrepareStatement { .. } => true,
            Effect::OtherSession(_) => says_any(text, &[b"PREPARE"]),
            _ => false,
        };
        if !analysis.effects.iter().any(prepares) {
            return;
        }
        let session = &mut *self.session;
        session.settings.prepares_definitions |=
            analysis.statements != 1 || hides_definition(text, modes, known_variables(session));
    }
}

impl Core {
    /// What a statement is about to define is unknown until the ticket is dropped.
    pub(crate) fn begin_definition(
        &mut self,
        client: &mut Client,
        analysis: &Analysis,
        text: &[u8],
        modes: &Modes,
    ) -> Option<Box<DefinitionTicket>> {
        client.note_prepared(analysis, text, modes);
        let defines = match defines(analysis, text) {
            Defines::Nothing if client.runs_definition(analysis, text, modes) => Defines::Anything,
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
                let words = tokens.as_ref().map(|words| words.iter().map(|word| &**word));
                Some(Box::new(catalog.begin_definition(words)))
            }
        }
    }
}

/// A definition that its server may carry out yet, though its client or connection has gone.
#[derive(Debug)]
pub(super) struct Orphan {
    /// Its names are unknown until this is dropped.
    _ticket: Box<DefinitionTicket>,
    conn: ConnId,
}

impl Exchange {
    /// A statement is over for the proxy. Where no answer has come, its server may go on.
    pub(crate) fn orphan_definition(&mut self, statement: &mut Statement) {
        let (Some(ticket), &Stage::Sent(conn)) =
            (statement.meaning.definition.take(), &statement.stage)
        else {
            return;
        };
        // So long at least: a server ends what it has begun when its client is gone.
        let until_ms = self.core.env.now.ms() + self.core.env.snapshot.settings.catalog_age_max;
        self.statements.orphans.add(until_ms, Orphan { _ticket: ticket, conn });
    }

    /// Gives up orphans whose time is over and whose server has answered: until then their
    /// connection waits to be reset.
    pub(crate) fn sweep_orphans(&mut self) {
        let now_ms = self.core.env.now.ms();
        let conns = &self.core.servers.conns;
        self.statements.orphans.sweep(now_ms, |orphan| {
            conns.get(orphan.conn).is_some_and(|conn| conn.list.is_resetting())
        });
    }
}

#[cfg(test)]
mod tests {
    use trunkline_session::tracker::{Charset, Schema};
    use trunkline_sql::analysis::analyse;

    use super::*;

    #[test]
    fn double_quotes_may_enclose_names_whatever_the_mode() {
        let text = br#"RENAME TABLE "a" TO b, `c` TO "d""e" COMMENT 'no'"#;
        for ansi_quotes in [false, true] {
            let modes = Modes { ansi_quotes, ..Modes::default() };
            let words = words(text, &modes).expect("plain text");
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

    #[test]
    fn names_are_told_where_their_ascii_bytes_are_what_others_write() {
        use Encoding as E;
        for (text, alike, other) in [
            ("DROP TABLE t", &[E::Utf8, E::Latin, E::Gbk, E::Swedish, E::Unknown][..], &[][..]),
            ("DROP TABLE `t{`", &[E::Utf8, E::Latin, E::Gbk], &[E::Swedish, E::Unknown]),
            ("DROP TABLE té", &[E::Utf8, E::Latin, E::Dos], &[E::SingleByte, E::Gbk, E::Unknown]),
            ("DROP TABLE t", &[E::ShiftJis, E::Big5], &[]),
            ("DROP TABLE té", &[], &[E::ShiftJis, E::Big5]),
        ] {
            for encoding in alike.iter().chain(other) {
                let modes = Modes { encoding: *encoding, ..Modes::default() };
                let is_alike = words(text.as_bytes(), &modes).is_some();
                assert_eq!(is_alike, alike.contains(encoding), "{text} {encoding:?}");
            }
        }
    }

    #[test]
    fn a_text_that_is_no_plain_literal_may_define_anything() {
        let mut state = SessionState::new(Schema::None, Charset::Collation(45));
        for (name, value) in [
            ("plain", "'SELECT 1'"),
            ("ddl", "'drop table t'"),
            ("hex", "0x64726F70"),
            ("escaped", "'d\\rop table t'"),
            ("parts", "'dr' 'op table t'"),
            ("prefixed", "x'64726F70'"),
        ] {
            state.set_user_variable(name.as_bytes(), value.as_bytes());
        }
        for (source, expected) in [
            ("'SELECT 1'", false),
            ("'INSERT INTO t VALUES (?)'", false),
            ("@plain", false),
            ("@`plain`", false),
            ("'CREATE VIEW v AS SELECT 1'", true),
            ("'cr\\eate view v as select 1'", true),
            ("'BEGIN NOT ATOMIC EXECUTE IMMEDIATE CONCAT(@a); END'", true),
            ("CONCAT('cr', 'eate view v as select 1')", true),
            ("'cr' 'eate view v as select 1'", true),
            ("'cr' || 'eate view v as select 1'", true),
            ("x'64726F70207461626C652074'", true),
            ("0x64726F70207461626C652074", true),
            ("N'SELECT 1'", true),
            ("_utf8'SELECT 1'", true),
            ("'cr' /*!99999 USING */ || 'eate view v as select 1'", true),
            ("(SELECT a FROM t)", true),
            ("?", true),
            ("@ddl", true),
            ("@hex", true),
            ("@escaped", true),
            ("@parts", true),
            ("@prefixed", true),
            ("@unknown", true),
        ] {
            for text in [format!("PREPARE s FROM {source}"), format!("EXECUTE IMMEDIATE {source};")]
            {
                let modes = Modes { flavor_mariadb: true, ..Modes::default() };
                let hides = hides_definition(text.as_bytes(), &modes, Some(&state));
                assert_eq!(hides, expected, "{text}");
                let unseen = hides_definition(text.as_bytes(), &modes, None);
                assert_eq!(unseen, expected || source.starts_with('@'), "{text}");
            }
        }
        let using = b"EXECUTE IMMEDIATE 'SELECT ?' USING 1";
        assert!(!hides_definition(using, &Modes::default(), None));
    }
}
