//! Causal reads: what a session wrote, and which servers show it.
//!
//! A server shows a transaction when its engine has committed it. That an event of it is in some
//! binary log proves nothing: only what servers say they have executed counts here.

mod need;
mod origins;
mod portable;
mod reached;
mod scope;
mod shared;
mod since;
mod token;
mod written;

pub use need::Need;
pub use origins::{OriginId, Origins};
pub use portable::{Carried, TokenError, read_token};
pub use reached::{Reached, Shown};
pub use scope::{AGE_MAX_MS, CausalReads};
pub use shared::{SharedPosition, SharedPositions, Ticket};
pub use since::Since;
pub use token::{Token, Want};
pub use written::Written;

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

/// What becomes of a read that no replica can answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CausalFallback {
    /// The writer answers it.
    #[default]
    Writer,
    /// It fails.
    Error,
    /// A replica answers it with what it has.
    Stale,
}

impl CausalFallback {
    const WORDS: [(&'static str, Self); 3] =
        [("writer", Self::Writer), ("error", Self::Error), ("stale", Self::Stale)];
}

fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, it)| it == value).map_or("", |(word, _)| word)
}

fn of_word<T: Copy>(words: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("must be one of {}, not `{text}`", known.join(", "))
    })
}

impl fmt::Display for CausalFallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(&Self::WORDS, self))
    }
}

impl FromStr for CausalFallback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        of_word(&Self::WORDS, text)
    }
}

/// What workers and whoever follows replicas share besides what each server shows.
#[derive(Debug, Default)]
pub struct CausalBoard {
    /// Whose numbers transactions have.
    pub origins: Origins,
    /// What several sessions have written.
    pub positions: SharedPositions,
    /// Reads that wait for a replica, over all workers.
    waiting: AtomicUsize,
}

impl CausalBoard {
    /// A read begins to wait. Look at the servers once more behind this: what one comes to show
    /// from now on is told.
    pub fn begin_to_wait(&self) {
        self.waiting.fetch_add(1, SeqCst);
        std::sync::atomic::fence(SeqCst);
    }

    /// A read waits no more.
    pub fn end_to_wait(&self) {
        let before = self.waiting.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "more ended to wait than began");
    }

    /// Whether workers are to be told that a server shows more. Asked behind
    /// [`Reached::publish`].
    pub fn is_waited(&self) -> bool {
        std::sync::atomic::fence(SeqCst);
        self.waiting.load(SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for (word, value) in CausalFallback::WORDS {
            assert_eq!((value.to_string().as_str(), word.parse()), (word, Ok(value)));
        }
        let wrong = "primary".parse::<CausalFallback>();
        assert_eq!(wrong, Err("must be one of writer, error, stale, not `primary`".to_owned()));
    }

    #[test]
    fn somebody_is_told_as_long_as_anybody_waits() {
        let board = CausalBoard::default();
        assert!(!board.is_waited());
        board.begin_to_wait();
        board.begin_to_wait();
        board.end_to_wait();
        assert!(board.is_waited());
        board.end_to_wait();
        assert!(!board.is_waited());
    }
}
