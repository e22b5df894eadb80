//! The numbers of transactions, for whatever depends on them: reads that are to see writes, and
//! `COMMIT`s whose answers are lost.

use trunkline_protocol::response::Outcome;
use trunkline_sql::recall::Gtid;

use crate::{
    clients::client::{Running, Session, Statement},
    rooms::Core,
    servers::conn::Conn,
};

impl Core {
    /// Before a statement goes out: what it commits is to be reported, and marked, where anything
    /// depends on that.
    #[cold]
    pub(super) fn follow_gtids(&mut self, running: Running<'_>, conn: &mut Conn) {
        if self.env.snapshot.has_causal_reads {
            self.have_gtids_reported(running.1, conn);
        }
        if self.env.snapshot.finds_outcomes {
            self.mark_what_commits(running, conn);
        }
    }

    fn mark_what_commits(&mut self, running: Running<'_>, conn: &mut Conn) {
        if self.is_mark_due(running, conn) {
            self.have_gtids_reported(running.1, conn);
            self.mark(conn);
        }
    }

    /// Takes over what a reply tells of transactions, for whatever depends on that.
    #[cold]
    pub(super) fn learn_gtids(
        &mut self,
        session: &mut Session,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
        last: Option<Gtid>,
    ) {
        if self.env.snapshot.has_causal_reads {
            if statement.target.reads.is_causal() {
                self.fx.stats.server_mut(conn.slot.index()).causal_reads += 1;
            }
            self.collect_written(session, conn, statement, outcome, last);
        }
        if self.env.snapshot.finds_outcomes {
            self.note_committed(conn, statement, outcome, last);
        }
    }
}
