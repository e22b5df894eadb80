//! Finds the table that is saved of the past. `stats_history` is in memory and filled when it is
//! read; one of its tables is kept in a file, which SQLite can only have as another schema. So
//! `stats_history.history_mysql_query_digest` is read as that schema's.

use std::borrow::Cow;

use crate::tables::{SAVED, Schema};

/// A statement with the name of that schema in the place of `stats_history`, where the table is
/// named with it. Texts, comments and other names stay.
pub(crate) fn found(sql: &str) -> Cow<'_, str> {
    let lower = sql.to_ascii_lowercase();
    let shown = Schema::StatsHistory.name();
    if !lower.contains(shown) || !lower.contains(SAVED) {
        return Cow::Borrowed(sql);
    }
    let mut written = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(part) = Part::of(rest) {
        let (text, after) = rest.split_at_checked(part.len).unwrap_or((rest, ""));
        let is_saved = part.is_name && is(text, shown) && names_saved(after);
        written.push_str(if is_saved { Schema::StatsSaved.name() } else { text });
        rest = after;
    }
    Cow::Owned(written)
}

/// Whether a text begins with a point and the table's name.
fn names_saved(text: &str) -> bool {
    let Some(behind) = without_spaces(text).strip_prefix('.') else { return false };
    let name = without_spaces(behind);
    Part::of(name).is_some_and(|part| {
        part.is_name && name.get(..part.len).is_some_and(|name| is(name, SAVED))
    })
}

/// A text behind its spaces and comments.
fn without_spaces(mut text: &str) -> &str {
    while let Some(part) = Part::of(text).filter(|part| part.is_space) {
        text = text.get(part.len..).unwrap_or_default();
    }
    text
}

/// Whether a name, which may be in quotes, is this one.
fn is(name: &str, wanted: &str) -> bool {
    let quotes: &[char] = &['"', '`', '[', ']', '\''];
    name.trim_matches(quotes).eq_ignore_ascii_case(wanted)
}

/// What a statement begins with.
struct Part {
    len: usize,
    is_name: bool,
    /// Spaces or a comment.
    is_space: bool,
}

impl Part {
    fn of(text: &str) -> Option<Self> {
        let first = text.chars().next()?;
        let until = |from: usize, end: &str| {
            let rest = text.get(from..).unwrap_or_default();
            rest.find(end).map_or(text.len(), |at| from + at + end.len())
        };
        let space = |len| Self { len, is_name: false, is_space: true };
        let name = |len| Self { len, is_name: true, is_space: false };
        let is_word = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
        Some(match first {
            _ if text.starts_with("--") => space(until(2, "\n")),
            _ if text.starts_with("/*") => space(until(2, "*/")),
            _ if first.is_whitespace() => space(first.len_utf8()),
            // SQLite takes a text for a name where only a name can be.
            '\'' => name(until(1, "'")),
            '"' => name(until(1, "\"")),
            '`' => name(until(1, "`")),
            '[' => name(until(1, "]")),
            _ if is_word(first) => name(text.find(|char| !is_word(char)).unwrap_or(text.len())),
            _ => Self { len: first.len_utf8(), is_name: false, is_space: false },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_saved_table_is_found_by_its_schema_and_nothing_else_changes() {
        for (sql, wanted) in [
            (
                "SELECT * FROM stats_history.history_mysql_query_digest",
                "SELECT * FROM stats_saved.history_mysql_query_digest",
            ),
            (
                "DELETE FROM `Stats_History` . /* x */ \"history_mysql_query_digest\" WHERE 1",
                "DELETE FROM stats_saved . /* x */ \"history_mysql_query_digest\" WHERE 1",
            ),
            (
                "SELECT 'é stats_history.history_mysql_query_digest', stats_history.system_cpu.x",
                "SELECT 'é stats_history.history_mysql_query_digest', stats_history.system_cpu.x",
            ),
            (
                "SELECT 1 -- stats_history.history_mysql_query_digest",
                "SELECT 1 -- stats_history.history_mysql_query_digest",
            ),
            (
                "SELECT 'it''s', x FROM [stats_history].history_mysql_query_digest; '",
                "SELECT 'it''s', x FROM stats_saved.history_mysql_query_digest; '",
            ),
            (
                "SELECT xstats_history.history_mysql_query_digest, stats_history",
                "SELECT xstats_history.history_mysql_query_digest, stats_history",
            ),
            (
                "SELECT * FROM history_mysql_query_digest",
                "SELECT * FROM history_mysql_query_digest",
            ),
        ] {
            assert_eq!(found(sql), wanted);
        }
    }
}
