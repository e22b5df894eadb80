//! Writes that may be under way still, though no session hears of them any more: their client has
//! gone, or their connection has.
//!
//! Until such a write has ended, nobody knows its number, and a later write may have a lower one.
//! So those who have to see it read from the writer: as long as its connection has not told its
//! end, or for [`UNDER_WAY_MS`] where the connection is lost, as servers go on with a statement
//! whose connection has gone.

use std::{collections::VecDeque, sync::Arc};

use trunkline_pool::ConnId;
use trunkline_topology::{HostgroupId, causal::CausalBoard};

use crate::{
    causal::session::Cells,
    clients::client::Session,
    rooms::{Core, Lender},
    servers::conn::Conn,
};

/// How long a write is taken to be under way on its server after its connection was lost.
pub(crate) const UNDER_WAY_MS: u64 = 60_000;
/// The most lost writes that a worker remembers; the oldest ones go.
const LOST_MAX: usize = 4_096;

/// A write that nobody waits for. When it is dropped, the write is taken to have ended: what it
/// may have written is in doubt from then on.
#[derive(Debug)]
pub(crate) struct UnheardWrite {
    board: Arc<CausalBoard>,
    cells: Cells,
}

impl UnheardWrite {
    fn new(board: &Arc<CausalBoard>, cells: Cells) -> Self {
        cells.each().for_each(|cell| cell.begin_unheard());
        Self { board: Arc::clone(board), cells }
    }
}

impl Drop for UnheardWrite {
    fn drop(&mut self) {
        let ticket = self.board.positions.doubt_ticket();
        self.cells.each().for_each(|cell| cell.end_unheard(ticket));
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

impl Core {
    /// Forgets lost writes that have ended by now.
    #[inline]
    pub(crate) fn sweep_lost_writes(&mut self) {
        self.servers.sharing.causal.lost.sweep(self.env.now.ms());
    }

    /// A client goes while its write is under way on a connection. `lent`: the connection that is
    /// lent, if one is.
    pub(crate) fn leave_write(
        &mut self,
        session: &mut Session,
        conn: ConnId,
        lent: Option<&mut Conn>,
    ) {
        if !self.env.snapshot.has_causal_reads {
            return;
        }
        let user = Arc::clone(&session.login.user);
        let settings = &mut session.settings.causal;
        let board = Arc::clone(self.env.shared.causal());
        self.fx.stats.counters.causal_doubts += 1;
        self.with_conn_or(lent, conn, |_, conn| {
            let cells = settings.cells(&board, &user.name, conn.server.hostgroup);
            conn.server.unheard = Some(UnheardWrite::new(&board, cells));
        });
    }

    /// A session's connection is lost while its write may be under way there.
    pub(crate) fn lose_write(&mut self, session: &mut Session, hostgroup: HostgroupId) {
        self.doubt_written(session, hostgroup);
        if !self.env.snapshot.has_causal_reads {
            return;
        }
        let now_ms = self.env.now.ms();
        let board = self.env.shared.causal();
        let cells = session.settings.causal.cells(board, &session.login.user.name, hostgroup);
        session.settings.causal.written.lose(now_ms + UNDER_WAY_MS);
        self.servers.sharing.causal.lost.add(now_ms, UnheardWrite::new(board, cells));
    }
}
