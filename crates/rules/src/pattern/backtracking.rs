//! A pattern that only backtracking can run, and how far it may go.
//!
//! One step back can look at the whole text again (`(?=.*x)`), so that what a search may cost is
//! steps times bytes. The longer the text, the fewer the steps.

use std::sync::OnceLock;

use fancy_regex::{BytesMode, Regex, RegexBuilder};

/// Texts up to so many bytes are searched with so many steps back before the search is given up as
/// undecided: about 5 ms of steps, or at most some 10⁹ bytes looked at.
const LIMITS: [(usize, usize); 4] =
    [(8 << 10, 100_000), (128 << 10, 8_192), (2 << 20, 512), (usize::MAX, 16)];

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Backtracking {
    source: String,
    is_caseless: bool,
    groups: usize,
    /// One for each of [`LIMITS`], made when a text of that length comes.
    by_len: [OnceLock<Option<Regex>>; LIMITS.len()],
}

impl Backtracking {
    pub(super) fn compile(source: String, is_caseless: bool) -> Result<Self, fancy_regex::Error> {
        let [(_, steps), ..] = LIMITS;
        let shortest = build(&source, is_caseless, steps)?;
        let groups = shortest.captures_len();
        let by_len: [OnceLock<Option<Regex>>; LIMITS.len()] = Default::default();
        let [first, ..] = &by_len;
        // It is empty until here.
        let _ = first.set(Some(shortest));
        Ok(Self { source, is_caseless, groups, by_len })
    }

    /// What this text is searched with. `None` does not happen: what compiles with one limit
    /// compiles with another.
    pub(super) fn for_text(&self, text: &[u8]) -> Option<&Regex> {
        let mut limits = LIMITS.iter().zip(&self.by_len);
        let ((_, steps), regex) = limits.find(|((len_max, _), _)| text.len() <= *len_max)?;
        let build = || build(&self.source, self.is_caseless, *steps).ok();
        regex.get_or_init(build).as_ref()
    }

    pub(super) fn groups(&self) -> usize {
        self.groups
    }
}

fn build(source: &str, is_caseless: bool, steps: usize) -> Result<Regex, fancy_regex::Error> {
    RegexBuilder::new(source)
        .bytes_mode(BytesMode::Ascii)
        .case_insensitive(is_caseless)
        .backtrack_limit(steps)
        .build()
}
