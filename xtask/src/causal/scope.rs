//! What a read has to see.

use std::time::Duration;

use anyhow::{Result, bail};

/// The bound of `bounded`, and of others' writes in answers from the cache.
pub const BOUND: Duration = Duration::from_millis(100);

/// What reads have to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What their session has written.
    Session,
    /// What sessions of their user have written.
    User,
    Hostgroup,
    Global,
    /// What was written [`BOUND`] ago.
    Bounded,
    /// What the session had written that gave its token.
    Token,
    /// Answers from the cache: what their session has written, and what others have [`BOUND`] ago.
    UntilChanged,
}

impl Scope {
    const ALL: [Self; 7] = [
        Self::Session,
        Self::User,
        Self::Hostgroup,
        Self::Global,
        Self::Bounded,
        Self::Token,
        Self::UntilChanged,
    ];

    /// Those that are asked for.
    pub fn chosen(only: Option<&str>) -> Result<Vec<Self>> {
        let Some(only) = only else { return Ok(Self::ALL.to_vec()) };
        match Self::ALL.into_iter().find(|scope| scope.name() == only) {
            Some(scope) => Ok(vec![scope]),
            None => bail!("there is no scope `{only}`"),
        }
    }

    /// Its word for `--scope`, and in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::User => "user",
            Self::Hostgroup => "hostgroup",
            Self::Global => "global",
            Self::Bounded => "bounded",
            Self::Token => "token",
            Self::UntilChanged => "until-changed",
        }
    }

    /// The value of `causal_reads`.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Bounded => "bounded:100",
            // What is not kept must not be stale, either.
            Self::Token | Self::UntilChanged => "session",
            Self::Session | Self::User | Self::Hostgroup | Self::Global => self.name(),
        }
    }

    /// Tables that the file has for it.
    pub fn tables(self) -> &'static str {
        match self {
            Self::UntilChanged => {
                "[[rule]]\nid = 7\nmatch_digest = \"^SELECT \"\nattributes = \
                 '{\"cache\": \"until-changed\", \"cache_age_max_ms\": 100}'\n"
            }
            _ => "",
        }
    }

    /// Lines of the table of the other account.
    pub fn of_other(self) -> &'static str {
        match self {
            Self::UntilChanged => "causal_reads = \"bounded:100\"\n",
            _ => "",
        }
    }

    /// How many times as many reads are behind a write: answers that are kept are worth something
    /// only where reads are many.
    pub fn reads_factor(self) -> u32 {
        match self {
            Self::UntilChanged => 25,
            _ => 1,
        }
    }
}
