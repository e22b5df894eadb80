//! Patterns: PCRE's syntax on bytes, in linear time where possible.
//!
//! A pattern is translated (see [`translate`]) to the `regex` crate's syntax, whose time is
//! linear in the text. Look-around, back-references, atomic groups and possessive quantifiers
//! are beyond it and go to `fancy-regex`, which backtracks, up to a limit ([`backtracking`]).
//!
//! As with ProxySQL's PCRE, texts are bytes (`.` is one byte, not one character), only ASCII
//! letters have a case, `.` does not match a newline, and `$` matches at the end and before a
//! final newline.

mod backtracking;
mod translate;

use regex::bytes::{Regex, RegexBuilder};

use self::{
    backtracking::Backtracking,
    translate::{Engine, Refusal, translate},
};

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) enum Pattern {
    /// Linear time.
    Linear {
        /// The automaton.
        regex: Regex,
        /// What it was built from, flags included, ready to join a set.
        source: String,
    },
    /// Backtracking, limited.
    Backtracking(Box<Backtracking>),
}

impl Pattern {
    /// Compiles `text`; the error says why that is not possible.
    pub(crate) fn compile(text: &str, is_caseless: bool) -> Result<Self, String> {
        match translate(text, Engine::Linear) {
            Ok(source) => Self::linear(text, &source, is_caseless),
            Err(Refusal::NeedsBacktracking) => Self::backtracking(text, is_caseless),
            Err(Refusal::Unusable(reason)) => Err(format!("pattern `{text}`: {reason}")),
        }
    }

    fn linear(text: &str, source: &str, is_caseless: bool) -> Result<Self, String> {
        let source = match is_caseless {
            true => format!("(?i:{source})"),
            false => format!("(?:{source})"),
        };
        let regex = RegexBuilder::new(&source).unicode(false).build();
        let regex = regex.map_err(|error| refusal(text, &error.to_string()))?;
        Ok(Self::Linear { regex, source })
    }

    fn backtracking(text: &str, is_caseless: bool) -> Result<Self, String> {
        let source = translate(text, Engine::Backtracking).map_err(|why| match why {
            Refusal::Unusable(reason) => format!("pattern `{text}`: {reason}"),
            Refusal::NeedsBacktracking => format!("pattern `{text}`: no engine can run it"),
        })?;
        let pattern = Backtracking::compile(source, is_caseless);
        let pattern = pattern.map_err(|error| refusal(text, &error.to_string()))?;
        Ok(Self::Backtracking(Box::new(pattern)))
    }

    /// Whether the pattern is found in `text`; `None` when the backtracking limit was reached
    /// before that was known.
    pub(crate) fn is_found(&self, text: &[u8]) -> Option<bool> {
        match self {
            Self::Linear { regex, .. } => Some(regex.is_match(text)),
            Self::Backtracking(pattern) => pattern.for_text(text)?.is_match(text).ok(),
        }
    }

    /// How many groups it has, all that is found counted as one.
    pub(crate) fn groups(&self) -> usize {
        match self {
            Self::Linear { regex, .. } => regex.captures_len(),
            Self::Backtracking(pattern) => pattern.groups(),
        }
    }

    /// Shows `visit` each place where it is found, up to `places_max` or until `visit` says that
    /// it is enough; how many there were. The error: the backtracking limit was reached.
    pub(crate) fn find_places(
        &self,
        text: &[u8],
        places_max: usize,
        mut visit: impl FnMut(&dyn Found) -> bool,
    ) -> Result<usize, GivenUp> {
        let mut places = 0;
        match self {
            Self::Linear { regex, .. } => {
                for found in regex.captures_iter(text).take(places_max) {
                    places += 1;
                    if !visit(&found) {
                        break;
                    }
                }
            }
            Self::Backtracking(pattern) => {
                let regex = pattern.for_text(text).ok_or(GivenUp)?;
                for found in regex.captures_iter(text).take(places_max) {
                    places += 1;
                    if !visit(&found.map_err(|_| GivenUp)?) {
                        break;
                    }
                }
            }
        }
        Ok(places)
    }

    /// What a set of patterns is built from; `None` for a backtracking pattern.
    pub(crate) fn source(&self) -> Option<&str> {
        match self {
            Self::Linear { source, .. } => Some(source),
            Self::Backtracking(_) => None,
        }
    }
}

/// One place where a pattern was found.
pub(crate) trait Found {
    /// Where the group begins and ends; `None` when it took no part.
    fn span(&self, group: usize) -> Option<(usize, usize)>;
}

impl Found for regex::bytes::Captures<'_> {
    fn span(&self, group: usize) -> Option<(usize, usize)> {
        self.get(group).map(|part| (part.start(), part.end()))
    }
}

impl Found for fancy_regex::Captures<'_, [u8]> {
    fn span(&self, group: usize) -> Option<(usize, usize)> {
        self.get(group).map(|part| (part.start(), part.end()))
    }
}

/// A search took too many steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GivenUp;

/// One line out of an engine's message, which may draw the pattern over several: the last says
/// what is wrong.
fn refusal(text: &str, message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    let reason = last.strip_prefix("error: ").unwrap_or(last).trim();
    format!("pattern `{text}`: {reason}")
}

#[cfg(test)]
mod tests;
