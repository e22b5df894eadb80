//! Which user variables a text names.

use crate::{
    set::user_variable_name,
    token::{TokenKind, Tokens},
};

/// User variables that a text names, whether it reads them or gives them values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variables {
    /// In lower case, without quotes.
    pub names: Vec<Vec<u8>>,
    /// It reads no others: none whose name servers may find under another spelling, and none that a
    /// table or a function shows.
    pub is_whole: bool,
}

/// More names than these are not kept of one text.
const NAMES_MAX: usize = 32;

/// What shows user variables that the text does not name: tables, and functions of XML, which read
/// `$@name` in their strings.
const SHOWING: [&[u8]; 4] =
    [b"USER_VARIABLES", b"USER_VARIABLES_BY_THREAD", b"EXTRACTVALUE", b"UPDATEXML"];

/// Whether a variable has one spelling, but for the case of its letters: servers compare others
/// without their accents, and a backslash may or may not stand for itself.
fn is_plain(text: &[u8]) -> bool {
    text.len() > 1 && text.is_ascii() && !text.contains(&b'\\')
}

impl Default for Variables {
    fn default() -> Self {
        Self { names: Vec::new(), is_whole: true }
    }
}

impl Variables {
    pub(super) fn in_text(tokens: Tokens<'_>) -> Self {
        let mut all = Self::default();
        for token in tokens {
            match token.kind {
                TokenKind::UserVariable if is_plain(token.text) => {
                    all.add(user_variable_name(token.text));
                }
                TokenKind::UserVariable => all.is_whole = false,
                _ => {
                    let name = crate::token::unquote(token.text);
                    all.is_whole &= !SHOWING.iter().any(|it| name.eq_ignore_ascii_case(it));
                }
            }
        }
        all
    }

    fn add(&mut self, name: Vec<u8>) {
        if self.names.contains(&name) {
            return;
        }
        match self.names.len() < NAMES_MAX {
            true => self.names.push(name),
            false => self.is_whole = false,
        }
    }

    /// Takes over those of another reading of the same text.
    pub(super) fn join(&mut self, other: Self) {
        self.is_whole &= other.is_whole;
        other.names.into_iter().for_each(|name| self.add(name));
    }
}

#[cfg(test)]
mod tests {
    use crate::{analysis::analyse, token::Modes};

    #[test]
    fn variables_that_are_read_are_named() {
        for (text, names, is_whole) in [
            ("SELECT @a, @B, @a + 1", &["a", "b"][..], true),
            ("SELECT @a := @b", &["a", "b"], true),
            ("SET @a = 1", &[], true),
            ("SELECT @'a', @b", &["a", "b"], true),
            ("SELECT @`A`, @\"b c\", @`d``e`", &["a", "b c", "d`e"], true),
            ("SELECT @é, @b", &["b"], false),
            ("SELECT @'a\\n'", &[], false),
            ("SELECT @a; SELECT @b", &["a", "b"], true),
            ("SELECT EXTRACTVALUE('<a/>', '$@x')", &[], false),
            ("SELECT @a /*! , @b */", &["a", "b"], true),
            ("SELECT * FROM information_schema.`user_variables`", &[], false),
        ] {
            let found = analyse(text.as_bytes(), &Modes::default()).variables;
            let expected: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!((found.names, found.is_whole), (expected, is_whole), "{text}");
        }
    }

    #[test]
    fn more_names_than_are_kept_are_not_whole() {
        let names: Vec<_> = (0..40).map(|number| format!("@v{number}")).collect();
        let text = format!("SELECT {}", names.join(","));
        let found = analyse(text.as_bytes(), &Modes::default()).variables;
        assert_eq!((found.names.len(), found.is_whole), (super::NAMES_MAX, false));
    }
}
