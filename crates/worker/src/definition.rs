//! Statements that define what names mean: while one runs, its names are known to nobody.

use std::sync::Arc;

use trunkline_catalog::DefinitionTicket;
use trunkline_sql::{
    analysis::{Analysis, Effect, TransactionEffect},
    token::{Modes, Token, Tokens},
};
use trunkline_topology::HostgroupId;

use crate::Worker;

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
    let has_verb = || {
        VERBS
            .iter()
            .any(|verb| text.windows(verb.len()).any(|part| part.eq_ignore_ascii_case(verb)))
    };
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

impl Worker {
    /// What a statement is about to define in this hostgroup's group is unknown until the ticket is
    /// dropped.
    pub(crate) fn begin_definition(
        &self,
        analysis: &Analysis,
        text: &[u8],
        modes: &Modes,
        hostgroup: HostgroupId,
    ) -> Option<Box<DefinitionTicket>> {
        let defines = defines(analysis, text);
        if defines == Defines::Nothing {
            return None;
        }
        let group = self.group_of(hostgroup);
        let catalog = Arc::clone(self.catalog());
        match defines {
            Defines::Nothing => None,
            Defines::Anything => {
                let words: Option<std::iter::Empty<&[u8]>> = None;
                Some(Box::new(catalog.begin_definition(group, words)))
            }
            Defines::Words => {
                let tokens: Vec<_> = Tokens::new(text, modes)
                    .filter(Token::is_name)
                    .map(|token| token.unquoted())
                    .collect();
                let words = tokens.iter().map(|word| &**word);
                Some(Box::new(catalog.begin_definition(group, Some(words))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_sql::analysis::analyse;

    use super::*;

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
