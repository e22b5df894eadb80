//! Stored functions and procedures that are known to read only.
//!
//! What a routine does stands in the server's dictionary and not in the text that calls it. Who
//! declares one says: it writes nothing, and leaves nothing behind in its session.

use std::{collections::HashSet, fmt, str::FromStr, sync::Arc};

/// The longest name of a routine, and of a schema, characters.
const NAME_MAX: usize = 64;

/// Declared routines: by name in every schema, or by schema and name.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Routines(Arc<HashSet<Box<[u8]>>>);

impl Routines {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a call is one of a declared routine. `schema` is what stands before its dot. Names
    /// are compared without regard to the case of ASCII letters.
    pub fn knows(&self, schema: Option<&[u8]>, name: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut whole = Vec::with_capacity(2 * NAME_MAX);
        whole.extend(name.iter().map(u8::to_ascii_lowercase));
        if self.0.contains(whole.as_slice()) {
            return true;
        }
        let Some(schema) = schema else { return false };
        let mut qualified = schema.to_ascii_lowercase();
        qualified.push(b'.');
        qualified.append(&mut whole);
        self.0.contains(qualified.as_slice())
    }
}

impl FromStr for Routines {
    type Err = String;

    /// Names with commas between them: `price, shop.in_stock`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut names = HashSet::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let parts: Vec<&str> = name.split('.').collect();
            let is_name = |part: &&str| {
                let is_odd = |c: char| c.is_whitespace() || c.is_control() || "`'\"()".contains(c);
                !part.is_empty() && part.chars().count() <= NAME_MAX && !part.contains(is_odd)
            };
            if parts.len() > 2 || !parts.iter().all(is_name) {
                return Err(format!("must hold `name` or `schema.name`, not `{name}`"));
            }
            names.insert(name.to_ascii_lowercase().into_bytes().into());
        }
        Ok(Self(Arc::new(names)))
    }
}

impl fmt::Display for Routines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.0.iter().map(|name| String::from_utf8_lossy(name)).collect();
        names.sort_unstable();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Routines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Routines({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_their_schema() {
        let routines: Routines = " Price, shop.in_stock ,".parse().expect("names");
        assert_eq!(routines.to_string(), "price, shop.in_stock");
        assert!(routines.knows(None, b"PRICE") && routines.knows(Some(b"any"), b"price"));
        assert!(routines.knows(Some(b"Shop"), b"In_Stock"));
        assert!(!routines.knows(None, b"in_stock"), "it may be another schema's");
        assert!(!routines.knows(Some(b"other"), b"in_stock"));
        assert!(!routines.knows(None, b"pric") && !Routines::default().knows(None, b""));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["a.b.c", "a.", ".b", "a b", "f()", "`a`"] {
            assert!(text.parse::<Routines>().is_err(), "{text}");
        }
        assert_eq!("".parse(), Ok(Routines::default()));
    }
}
