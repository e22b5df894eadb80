//! Writes that no session hears of any more: who tells of them, and for how long.

use std::sync::Arc;

use trunkline_pool::ConnId;
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Session,
    rooms::{Core, Lender},
    servers::{
        conn::Conn,
        unheard::{UNDER_WAY_MS, UnheardWrite},
    },
};

impl Core {
    /// Forgets lost writes that have ended by now.
    #[inline]
    pub(crate) fn sweep_lost_writes(&mut self) {
        let (lost, now_ms) = (&mut self.servers.sharing.causal.lost, self.env.now.ms());
        if lost.is_due(now_ms) {
            lost.sweep(now_ms, |_| false);
        }
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
            conn.holder.unheard = Some(UnheardWrite::new(&board, cells.positions()));
        });
    }

    /// A session's connection is lost while its write may be under way there.
    pub(crate) fn lose_write(&mut self, session: &mut Session, hostgroup: HostgroupId) {
        session.settings.own_writes.end(self.env.now.us);
        self.doubt_written(session, hostgroup);
        if !self.env.snapshot.has_causal_reads {
            return;
        }
        let now_ms = self.env.now.ms();
        let board = self.env.shared.causal();
        let cells = session.settings.causal.cells(board, &session.login.user.name, hostgroup);
        let until_ms = now_ms + UNDER_WAY_MS;
        session.settings.causal.written.lose(until_ms);
        self.servers.sharing.causal.lost.add(until_ms, UnheardWrite::new(board, cells.positions()));
    }
}
