//! What an account may do, read from `SHOW GRANTS`: triggers that it may not see are not among
//! those that it is shown.

use trunkline_sql::token::{Modes, Token, TokenKind, Tokens};

use crate::Name;

/// Lines that are read; an account with more holds what the first of them say.
const LINES_MAX: usize = 4_096;

/// What an account and its roles were given.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    given: Vec<Grant>,
    /// Something was taken away again within what was given (MySQL's partial revokes).
    is_holed: bool,
}

#[derive(Debug)]
struct Grant {
    /// To whom, as written.
    to: Vec<u8>,
    scope: Scope,
    privileges: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Scope {
    Everything,
    /// A pattern, as written within its quotes.
    Schema(Vec<u8>),
    Table(Vec<u8>, Vec<u8>),
}

impl Grants {
    /// Takes lines of an answer in.
    pub(crate) fn read<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) {
        for line in lines.take(LINES_MAX) {
            match line.get(..6) {
                Some(word) if word.eq_ignore_ascii_case(b"REVOKE") => self.is_holed = true,
                _ => self.given.extend(read_line(line)),
            }
        }
    }

    /// Whether the account certainly holds one of these privileges on a table.
    pub(crate) fn hold(&self, name: &Name, one_of: &[&[u8]], is_mariadb: bool) -> bool {
        let is_direct = self.given.iter().any(|grant| match &grant.scope {
            Scope::Table(schema, table) => {
                **schema == *name.schema && **table == *name.table && grant.has(one_of)
            }
            Scope::Everything | Scope::Schema(_) => false,
        });
        is_direct || self.hold_on_schema(name, one_of, is_mariadb)
    }

    /// Whether it certainly holds one of them on the whole schema of a table.
    pub(crate) fn hold_on_schema(&self, name: &Name, one_of: &[&[u8]], is_mariadb: bool) -> bool {
        let is_global = !self.is_holed
            && self.given.iter().any(|grant| match &grant.scope {
                Scope::Everything => grant.has(one_of),
                Scope::Schema(_) | Scope::Table(..) => false,
            });
        is_global || self.hold_in_schema(name, |grant| grant.has(one_of), is_mariadb)
    }

    /// Of several patterns that match, a server takes the one that it finds first: all of one
    /// holder's must say so.
    fn hold_in_schema(&self, name: &Name, has: impl Fn(&Grant) -> bool, is_mariadb: bool) -> bool {
        let matching = || {
            self.given.iter().filter_map(|grant| match &grant.scope {
                Scope::Schema(pattern) if matches(pattern, &name.schema) => Some((grant, pattern)),
                Scope::Schema(_) | Scope::Everything | Scope::Table(..) => None,
            })
        };
        matching().any(|(grant, pattern)| {
            // With partial revokes MySQL takes `%` and `_` literally.
            let is_certain = is_mariadb || !has_wildcard(pattern) || **pattern == *name.schema;
            let mut others = matching().filter(|(other, _)| other.to == grant.to);
            is_certain && others.all(|(other, _)| has(other))
        })
    }
}

impl Grant {
    fn has(&self, one_of: &[&[u8]]) -> bool {
        let mut given = self.privileges.iter();
        given.any(|it| it == b"ALL" || it == b"ALL PRIVILEGES" || one_of.contains(&&**it))
    }
}

/// `GRANT privileges ON scope TO holder`; `None` for anything else, roles among it.
fn read_line(line: &[u8]) -> Option<Grant> {
    let tokens: Vec<Token<'_>> = Tokens::new(line, &Modes::default()).collect();
    let mut ahead = tokens.iter().peekable();
    ahead.next().filter(|token| token.is_word(b"GRANT"))?;
    let mut privileges = Vec::new();
    let mut words: Vec<u8> = Vec::new();
    let mut is_of_columns = false;
    loop {
        let token = ahead.next()?;
        match token.kind {
            TokenKind::Word if token.is_word(b"ON") => break,
            TokenKind::Word => {
                if !words.is_empty() {
                    words.push(b' ');
                }
                words.extend(token.text.to_ascii_uppercase());
                continue;
            }
            TokenKind::Comma => {}
            TokenKind::Open => {
                is_of_columns = true;
                ahead.find(|token| token.kind == TokenKind::Close)?;
                continue;
            }
            _ => return None,
        }
        let privilege = std::mem::take(&mut words);
        if !std::mem::take(&mut is_of_columns) {
            privileges.push(privilege);
        }
    }
    if !is_of_columns {
        privileges.push(words);
    }
    let scope = read_scope(&mut ahead)?;
    ahead.next().filter(|token| token.is_word(b"TO"))?;
    let to = ahead.next()?.text.to_vec();
    let host: Vec<u8> = ahead.flat_map(|token| token.text).copied().collect();
    Some(Grant { to: [to, host].concat(), scope, privileges })
}

fn read_scope<'a, 'b: 'a>(ahead: &mut impl Iterator<Item = &'a Token<'b>>) -> Option<Scope> {
    let is_star = |token: &Token<'_>| token.text == b"*";
    let schema = ahead.next()?;
    ahead.next().filter(|token| token.kind == TokenKind::Dot)?;
    let table = ahead.next()?;
    match (is_star(schema), is_star(table)) {
        (true, true) => Some(Scope::Everything),
        (false, true) if schema.is_name() => Some(Scope::Schema(schema.unquoted().into_owned())),
        (false, false) if schema.is_name() && table.is_name() => {
            let (schema, table) = (schema.unquoted(), table.unquoted());
            Some(Scope::Table(schema.into_owned(), table.into_owned()))
        }
        _ => None,
    }
}

fn has_wildcard(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'%' | b'_' => return true,
            _ => {}
        }
    }
    false
}

/// Whether a pattern with `%`, `_` and `\` matches the whole text. After a `%` that did not lead
/// on, only the last one is tried again, one byte further.
fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        let (wanted, rest) = match pattern {
            [b'%', rest @ ..] => {
                again = Some((rest, text));
                pattern = rest;
                continue;
            }
            [b'\\', literal, rest @ ..] => (Some(*literal), rest),
            [b'_', rest @ ..] => (None, rest),
            [literal, rest @ ..] => (Some(*literal), rest),
            [] if text.is_empty() => return true,
            [] => (Some(0), pattern),
        };
        match text {
            [byte, tail @ ..] if wanted.is_none_or(|it| it == *byte) => {
                (pattern, text) = (rest, tail);
            }
            _ => {
                let Some((rest, [_, tail @ ..])) = again else { return false };
                again = Some((rest, tail));
                (pattern, text) = (rest, tail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_topology::HostgroupId;

    use super::*;

    fn hold(lines: &[&str], schema: &str, table: &str, is_mariadb: bool) -> bool {
        let mut grants = Grants::default();
        grants.read(lines.iter().map(|line| line.as_bytes()));
        let name = Name {
            group: HostgroupId(0),
            schema: schema.as_bytes().into(),
            table: table.as_bytes().into(),
        };
        grants.hold(&name, &[b"TRIGGER"], is_mariadb)
    }

    #[test]
    fn what_is_given_for_all_a_schema_or_the_table_is_held() {
        for (lines, expected) in [
            (&["GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION"][..], true),
            (&["GRANT SELECT, CREATE TEMPORARY TABLES, TRIGGER ON *.* TO `x`@`%`"], true),
            (&["GRANT USAGE ON *.* TO `x`@`%` IDENTIFIED BY PASSWORD '*B69027D4'"], false),
            (&["GRANT SELECT, TRIGGER ON `a`.* TO `x`@`%`"], true),
            (&["GRANT TRIGGER ON `b`.* TO `x`@`%`"], false),
            (&["GRANT TRIGGER ON `a`.`t` TO `x`@`%`"], true),
            (&["GRANT TRIGGER ON `a`.`u` TO `x`@`%`"], false),
            (&["GRANT SELECT (id, `n`), UPDATE ON `a`.`t` TO `x`@`%`"], false),
            (&["GRANT `r`@`%` TO `x`@`%`"], false),
            (&["GRANT PROXY ON ``@`` TO `root`@`localhost` WITH GRANT OPTION"], false),
            (&["GRANT TRIGGER ON *.* TO `x`@`%`", "REVOKE TRIGGER ON `a`.* FROM `x`@`%`"], false),
            (&["GRANT ALL PRIVILEGES ON `a`.* TO `r`", "GRANT SELECT ON `a`.* TO `x`@`%`"], true),
        ] {
            assert_eq!(hold(lines, "a", "t", true), expected, "{lines:?}");
            assert_eq!(hold(lines, "a", "t", false), expected, "{lines:?}");
        }
    }

    #[test]
    fn patterns_of_schemas_match_as_servers_match_them() {
        for (pattern, schema, mariadb, mysql) in [
            ("a%", "abc", true, false),
            ("a\\_b", "a_b", true, true),
            ("a\\_b", "axb", false, false),
            ("a_b", "axb", true, false),
            ("a_b", "a_b", true, true),
            ("a\\_%", "a_x", true, false),
            ("A%", "abc", false, false),
        ] {
            let line = format!("GRANT TRIGGER ON `{pattern}`.* TO `x`@`%`");
            assert_eq!(hold(&[&line], schema, "t", true), mariadb, "{pattern} {schema}");
            assert_eq!(hold(&[&line], schema, "t", false), mysql, "{pattern} {schema}");
        }
    }

    #[test]
    fn of_two_patterns_that_match_the_lesser_may_be_the_one_that_counts() {
        let lines = ["GRANT TRIGGER ON `a%`.* TO `x`@`%`", "GRANT SELECT ON `ab`.* TO `x`@`%`"];
        assert!(!hold(&lines, "ab", "t", true));
        assert!(hold(&lines, "ac", "t", true));
    }
}
