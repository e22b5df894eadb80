//! `replace_pattern`: from one text to another.

use crate::pattern::{Found, Pattern};

/// The most bytes that rewriting may add to a statement; a rewrite beyond is left out.
pub const GROWTH_MAX: usize = 1 << 20;

/// How many places times bytes of the statement a `GLOBAL` rewrite may come to; one beyond is left
/// out. Each place may take a look at all that follows it: that is some 4 s at worst, and as many
/// places as there are bytes in statements of up to 64 KiB.
const PLACES_BYTES_MAX: usize = 1 << 32;
/// How many places a `GLOBAL` rewrite may come to whose pattern backtracks: there a look at one
/// place takes longer.
const BACKTRACKING_PLACES_MAX: usize = 1_000;

/// What stands in place of what a pattern found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    parts: Box<[Part]>,
    is_global: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    /// What the group of this number took; 0 is all that was found.
    Group(usize),
}

impl Replacement {
    /// Reads a `replace_pattern` for a pattern with `groups` groups, all of it counted as one.
    /// The error says what is wrong.
    pub(crate) fn compile(text: &str, groups: usize, is_global: bool) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain: Vec<u8> = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'\\' {
                plain.push(byte);
                continue;
            }
            match bytes.next() {
                Some(b'\\') => plain.push(b'\\'),
                Some(digit @ b'0'..=b'9') => {
                    let group = usize::from(digit - b'0');
                    if group >= groups {
                        return Err(format!(
                            "`{text}` names group \\{group}, and match_pattern has {}",
                            groups.saturating_sub(1)
                        ));
                    }
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain).into()));
                    }
                    parts.push(Part::Group(group));
                }
                _ => {
                    return Err(format!(
                        "`{text}` has a backslash before something else than a digit or another \
                         backslash"
                    ));
                }
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain.into()));
        }
        Ok(Self { parts: parts.into(), is_global })
    }

    /// `text` with what `pattern` finds in it replaced. `Ok(None)` when it finds nothing.
    ///
    /// # Errors
    /// When the text would be longer than `len_max`, there are too many places, or the search was
    /// given up.
    pub(crate) fn apply(
        &self,
        pattern: &Pattern,
        text: &[u8],
        len_max: usize,
    ) -> Result<Option<Vec<u8>>, Skipped> {
        let mut out = Vec::with_capacity(text.len() + 32);
        let mut copied = 0;
        let places_max = if self.is_global { places_max(pattern, text) } else { 1 };
        // One more than is wanted tells that there are too many.
        let visited_max = places_max + usize::from(self.is_global);
        let searched = pattern.find_places(text, visited_max, |found| {
            let (begin, end) = found.span(0).unwrap_or((copied, copied));
            out.extend_from_slice(text.get(copied..begin).unwrap_or_default());
            self.put(found, text, &mut out, len_max);
            copied = end;
            out.len() <= len_max
        });
        let found = searched.map_err(|_| Skipped)?;
        if found == 0 {
            return Ok(None);
        }
        out.extend_from_slice(text.get(copied..).unwrap_or_default());
        if out.len() > len_max || found > places_max {
            return Err(Skipped);
        }
        Ok(Some(out))
    }

    /// Goes on no further than `len_max` and one part.
    fn put(&self, found: &dyn Found, text: &[u8], out: &mut Vec<u8>, len_max: usize) {
        for part in &self.parts {
            if out.len() > len_max {
                return;
            }
            match part {
                Part::Text(plain) => out.extend_from_slice(plain),
                // A group that took no part in the match is empty.
                Part::Group(group) => {
                    let (begin, end) = found.span(*group).unwrap_or_default();
                    out.extend_from_slice(text.get(begin..end).unwrap_or_default());
                }
            }
        }
    }
}

/// The most places of a text that are replaced.
fn places_max(pattern: &Pattern, text: &[u8]) -> usize {
    let places = PLACES_BYTES_MAX / text.len().max(1);
    match pattern {
        Pattern::Linear { .. } => places,
        Pattern::Backtracking(_) => places.min(BACKTRACKING_PLACES_MAX),
    }
}

/// A rewrite that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Skipped;

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(pattern: &str, replacement: &str, is_global: bool, text: &str) -> Option<String> {
        let pattern = Pattern::compile(pattern, true).expect("a pattern");
        let replacement =
            Replacement::compile(replacement, pattern.groups(), is_global).expect(replacement);
        let out = replacement.apply(&pattern, text.as_bytes(), 1_000).expect("within bounds");
        out.map(|out| String::from_utf8(out).expect("UTF-8"))
    }

    #[track_caller]
    fn check(pattern: &str, replacement: &str, is_global: bool, text: &str, expected: &str) {
        let out = rewrite(pattern, replacement, is_global, text);
        assert_eq!(out.as_deref(), Some(expected));
    }

    #[test]
    fn groups_are_put_where_the_replacement_names_them() {
        check("a(b)(c)?", "<\\0|\\1|\\2>", false, "xabx ab", "x<ab|b|>x ab");
        check("a(b)", "\\1\\1", true, "ab ab", "bb bb");
        check("b", "\\\\", false, "abc", "a\\c");
        check("b", "", true, "abcb", "ac");
        check("(?<=a)b", "-", true, "ab b ab", "a- b a-");
        check("(a)\\1", "<\\1>", true, "aa aaa", "<a> <a>a");
    }

    #[test]
    fn places_without_width_are_replaced_once_each() {
        check("x*", "-", true, "abxc", "-a-b-c-");
        check("$", ";", false, "abc", "abc;");
        check("(?=b)", "-", true, "abb", "a-b-b");
        assert_eq!(rewrite("x", "y", true, "abc"), None);
    }

    #[test]
    fn the_example_of_clickhouse_is_rewritten() {
        check(
            "FROM_UNIXTIME\\(([^,)]+),\\s*'%Y-%m'\\)",
            "substring(toString(toDate(\\1)),1,7)",
            true,
            "SELECT FROM_UNIXTIME(t.created, '%Y-%m') m, COUNT(*) FROM t GROUP BY \
             from_unixtime(t.created,'%Y-%m')",
            "SELECT substring(toString(toDate(t.created)),1,7) m, COUNT(*) FROM t GROUP BY \
             substring(toString(toDate(t.created)),1,7)",
        );
    }

    #[test]
    fn a_rewrite_of_too_many_places_is_left_out() {
        let skipped = |pattern: &str, replacement: &str, text: &str| {
            let pattern = Pattern::compile(pattern, true).expect("a pattern");
            let replacement = Replacement::compile(replacement, pattern.groups(), true);
            replacement.expect("it means something").apply(&pattern, text.as_bytes(), 1 << 30)
        };
        let text = "a".repeat(BACKTRACKING_PLACES_MAX);
        assert!(matches!(skipped("(?<!b)a", "-", &text), Ok(Some(_))));
        assert_eq!(skipped("(?<!b)a", "-", &format!("{text}a")), Err(Skipped));
        let text = "a".repeat(1 << 16);
        assert!(matches!(skipped("a", "-", &text), Ok(Some(_))));
        assert_eq!(skipped("a", "-", &text.repeat(16)), Err(Skipped));
    }

    #[test]
    fn a_replacement_that_says_nothing_sensible_is_refused() {
        for (text, part) in [("\\2", "names group \\2"), ("\\x", "backslash"), ("a\\", "backslash")]
        {
            let error = Replacement::compile(text, 2, false).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_text_that_grows_too_long_is_left_alone() {
        let pattern = Pattern::compile("a", false).expect("a pattern");
        let replacement = Replacement::compile("aaaa", pattern.groups(), true).expect("plain");
        assert_eq!(replacement.apply(&pattern, b"aaa", 11), Err(Skipped));
        assert_eq!(replacement.apply(&pattern, b"aaa", 12), Ok(Some(vec![b'a'; 12])));
    }
}
