//! What must hold: the checks, one file each, over what clients got and what servers did.
//!
//! | file | says |
//! |---|---|
//! | `replies` | every reply is its statement's, and shows its session's state alone |
//! | `writes` | what was acknowledged is there once, anything else at most once |
//! | `transactions` | a transaction's statements ran on one connection, in order, undisturbed |
//! | `routing` | statements went only where rules and the split let them |
//! | `gtids` | sessions are told the names of their own commits |
//! | `kills` | who was to be ended, and nobody else, was |
//! | `limits` | limits held at every instant |
//! | `endings` | everything was answered in time, with a cause that is true, and nothing is left |

pub mod facts;
pub mod history;
pub mod limits;
mod logs;

mod endings;
mod gtids;
mod index;
mod kills;
mod replies;
mod routing;
mod transactions;
mod untold;
mod writes;

#[cfg(test)]
mod doctored;

use std::fmt;

use crate::{Micros, statement::Tag};

pub use endings::Rest;
pub use facts::Facts;
pub use history::ClientHistory;
pub use limits::{Instant, Limits};

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What.
    pub breach: Breach,
    /// Whose session, by the client's place in the plan; `None` for what is nobody's.
    pub client: Option<usize>,
    /// Which statement.
    pub tag: Option<Tag>,
    /// When it showed.
    pub at_us: Micros,
    /// What was seen.
    pub evidence: String,
}

/// The promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// A reply carries another statement's tag.
    ForeignReply,
    /// A reply has another form than its statement's.
    WrongReply,
    /// A reply shows state that is not its session's.
    ForeignState,
    /// A reply shows data that was not to be seen.
    WrongData,
    /// A read on the writer missed an acknowledged write.
    StaleRead,
    /// Bytes that are not the protocol's.
    Nonsense,
    /// A statement was answered that no server ran.
    NeverRan,
    /// A statement that may have effects ran more than once.
    RanTwice,
    /// A read ran more often than it may be tried.
    TriedTooOften,
    /// An acknowledged write is not there.
    WriteLost,
    /// A write that failed, or was never sent by what the client was told, is there.
    WriteUncalledFor,
    /// A transaction is there in part.
    TransactionTorn,
    /// A transaction's statements ran on several connections.
    TransactionScattered,
    /// A session's statements ran in another order than it sent them.
    OutOfOrder,
    /// Somebody else's statement ran on a connection that a session held.
    Intruder,
    /// A statement ran on a host that is not for it.
    Misrouted,
    /// A limit was passed.
    OverLimit,
    /// A statement got no answer in time.
    Unanswered,
    /// A `KILL` was answered with what is not so.
    WrongKill,
    /// A login was accepted with a password that no configuration has for its user.
    LetIn,
    /// A session ended for no reason.
    EndedForNothing,
    /// An error names a cause that is not there.
    UntrueCause,
    /// A log tells of a statement or a session what its client did not do.
    WrongLog,
    /// Something is left at rest.
    Leak,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12} µs  {:?}", self.at_us, self.breach)?;
        if let Some(client) = self.client {
            write!(f, "  client {client}")?;
        }
        if let Some(tag) = self.tag {
            write!(f, "  statement {}", tag.0)?;
        }
        write!(f, "  {}", self.evidence)
    }
}

/// What a run left to look at.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What clients sent and got.
    pub clients: &'a [ClientHistory],
    /// What everybody else did.
    pub facts: &'a Facts,
    /// What was left once everything rested.
    pub rest: &'a Rest,
}

/// Looks at a run.
#[derive(Debug, Default)]
pub struct Oracle {
    limits: Limits,
    found: Vec<Violation>,
}

/// Violations kept; a broken run breaks everything.
const FOUND_MAX: usize = 100;

impl Oracle {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at one instant; to be called after each step that changes one of its figures.
    pub fn check_now(&mut self, instant: &Instant<'_>) {
        if self.found.len() < FOUND_MAX {
            self.limits.check(instant, &mut self.found);
        }
    }

    /// Whether an instant broke a limit.
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Everything that a run broke, limits at its instants included, in the order of time.
    pub fn check(mut self, run: &Run<'_>) -> Vec<Violation> {
        let index = index::Index::new(run);
        let found = &mut self.found;
        replies::check(&index, found);
        writes::check(&index, found);
        transactions::check(&index, found);
        routing::check(&index, found);
        gtids::check(&index, found);
        kills::check(&index, found);
        logs::check(&index, found);
        endings::check(&index, found);
        found.sort_by_key(|violation| violation.at_us);
        found.truncate(FOUND_MAX);
        self.found
    }
}
