//! Whether the beginning of a transaction waits for the first statement in it.

use std::{fmt, str::FromStr};

/// What becomes of a `BEGIN` that nothing follows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LazyTransactions {
    /// It goes to a server at once.
    Off,
    /// The proxy answers it, and it goes to a server together with the first statement behind it.
    #[default]
    Begin,
}

impl fmt::Display for LazyTransactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Begin => "begin",
        })
    }
}

impl FromStr for LazyTransactions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "begin" => Ok(Self::Begin),
            "read-committed" => Err("must be off or begin: `read-committed` is not yet \
                                     supported"
                .to_owned()),
            _ => Err(format!("must be off or begin, not `{text}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_the_rest_is_refused() {
        for text in ["off", "begin"] {
            assert_eq!(text.parse::<LazyTransactions>().expect(text).to_string(), text);
        }
        let refused = |text: &str| text.parse::<LazyTransactions>().expect_err(text);
        assert_eq!(refused("on"), "must be off or begin, not `on`");
        assert!(refused("read-committed").ends_with("not yet supported"));
    }
}
