//! Writes that may be under way still, though no session hears of them any more: their client has
//! gone, or their connection has.
//!
//! Until such a write has ended, nobody knows its number, and a later write may have a lower one.
//! So those who have to see it read from the writer: as long as its connection has not told its
//! end, or for [`UNDER_WAY_MS`] where the connection is lost, as servers go on with a statement
//! whose connection has gone.

use std::{collections::VecDeque, sync::Arc};

use trunkline_topology::causal::{CausalBoard, SharedPosition};

/// How long a write is taken to be under way on its server after its connection was lost.
pub(crate) const UNDER_WAY_MS: u64 = 60_000;
/// The most statements of one sort whose end nobody awaits; the oldest ones go.
const UNHEARD_MAX: usize = 4_096;

/// A write that nobody waits for. When it is dropped, the write is taken to have ended: what it
/// may have written is in doubt from then on.
#[derive(Debug)]
pub(crate) struct UnheardWrite {
    board: Arc<CausalBoard>,
    /// Where it may show: what its user has written, and what all have.
    positions: [Option<Arc<SharedPosition>>; 2],
}

impl UnheardWrite {
    /// One that is under way from now on.
    pub(crate) fn new(
        board: &Arc<CausalBoard>,
        positions: [Option<Arc<SharedPosition>>; 2],
    ) -> Self {
        positions.iter().flatten().for_each(|position| position.begin_unheard());
        Self { board: Arc::clone(board), positions }
    }
}

impl Drop for UnheardWrite {
    fn drop(&mut self) {
        let ticket = self.board.positions.doubt_ticket();
        self.positions.iter().flatten().for_each(|position| position.end_unheard(ticket));
    }
}

/// Statements that may be under way on servers, though nobody awaits their answers: each is there
/// as a guard whose end says that it is over.
#[derive(Debug)]
pub(crate) struct Unheard<T> {
    /// Until when each may be under way, ms.
    guards: VecDeque<(u64, T)>,
}

/// Writes whose connections have gone before they had told their end.
pub(crate) type LostWrites = Unheard<UnheardWrite>;

impl<T> Default for Unheard<T> {
    fn default() -> Self {
        Self { guards: VecDeque::new() }
    }
}

impl<T> Unheard<T> {
    /// One more.
    pub(crate) fn add(&mut self, until_ms: u64, guard: T) {
        if self.guards.len() >= UNHEARD_MAX {
            self.guards.pop_front();
        }
        self.guards.push_back((until_ms, guard));
    }

    /// Whether there are none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    /// Whether the time of the one that was added first is over.
    #[inline]
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.guards.front().is_some_and(|(until_ms, _)| *until_ms <= now_ms)
    }

    /// Forgets those whose time is over, unless there is still a sign of them.
    pub(crate) fn sweep(&mut self, now_ms: u64, is_there: impl Fn(&T) -> bool) {
        self.guards.retain(|(until_ms, guard)| *until_ms > now_ms || is_there(guard));
    }
}
