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
/// The most lost writes that a worker remembers; the oldest ones go.
const LOST_MAX: usize = 4_096;

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

/// Writes whose connections have gone before they had told their end.
#[derive(Debug, Default)]
pub(crate) struct LostWrites {
    /// Until when each may be under way, ms; the earliest first.
    writes: VecDeque<(u64, UnheardWrite)>,
}

impl LostWrites {
    /// One more.
    pub(crate) fn add(&mut self, now_ms: u64, unheard: UnheardWrite) {
        if self.writes.len() >= LOST_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back((now_ms + UNDER_WAY_MS, unheard));
    }

    /// Whether there are none.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Forgets those that have ended by now.
    pub(crate) fn sweep(&mut self, now_ms: u64) {
        while self.writes.front().is_some_and(|(until, _)| *until <= now_ms) {
            self.writes.pop_front();
        }
    }
}
