//! Which writes a read has to see, as the configuration says it.

use std::{fmt, str::FromStr};

/// Which writes a read has to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CausalReads {
    /// None in particular: whatever the replica has.
    #[default]
    Off,
    /// Those of its own session.
    Session,
    /// Those of all sessions of its user.
    User,
    /// Those of everybody who writes in the writer hostgroup.
    Hostgroup,
    /// Those of everybody who writes to the same servers, in whatever hostgroup.
    Global,
    /// All that were there so many milliseconds ago.
    Bounded(u32),
}

/// The words, but for the one that has a number.
const WORDS: [(&str, CausalReads); 5] = [
    ("off", CausalReads::Off),
    ("session", CausalReads::Session),
    ("user", CausalReads::User),
    ("hostgroup", CausalReads::Hostgroup),
    ("global", CausalReads::Global),
];
const BOUNDED: &str = "bounded";
/// The greatest age of what a replica shows, ms.
pub const AGE_MAX_MS: u32 = 600_000;

impl fmt::Display for CausalReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounded(age_ms) => write!(f, "{BOUNDED}:{age_ms}"),
            other => f.write_str(super::word_of(&WORDS, other)),
        }
    }
}

impl FromStr for CausalReads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(age) = text.strip_prefix(BOUNDED).and_then(|rest| rest.strip_prefix(':')) {
            let age_ms = age.parse().ok().filter(|age_ms| (1..=AGE_MAX_MS).contains(age_ms));
            return age_ms.map(Self::Bounded).ok_or_else(|| {
                format!("must be {BOUNDED}:1 to {BOUNDED}:{AGE_MAX_MS}, in ms, not `{text}`")
            });
        }
        let found = WORDS.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let known: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
            format!("must be one of {}, {BOUNDED}:MS, not `{text}`", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_as_they_are_written() {
        let scopes = WORDS.iter().map(|(_, scope)| *scope).chain([CausalReads::Bounded(250)]);
        for scope in scopes {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        for text in ["bounded", "bounded:", "bounded:0", "bounded:600001", "bounded:x", "all"] {
            let wrong = text.parse::<CausalReads>().expect_err(text);
            assert!(wrong.contains(&format!("not `{text}`")), "{wrong}");
        }
    }
}
