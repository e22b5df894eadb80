//! What is noted of the statements of a transaction that may have to be repeated: see
//! [`replay`](crate::replay).

use std::{rc::Rc, sync::Arc};

use trunkline_protocol::{codec::frame::HEADER_LEN, response::Outcome};
use trunkline_session::tracker::PinReason;

use crate::{
    clients::client::{Client, Lease, Phase, Purpose, Session, Statement},
    replay::{Digest, First, Held, Kept, Noted, STATEMENT_COST, Said, Told, Why, fit},
    rooms::Core,
    servers::conn::Conn,
};

impl Client {
    /// Whether its transaction is kept, or is being repeated.
    #[inline]
    pub(super) fn keeps_transaction(&self) -> bool {
        let keeps = |session: &Session| session.transaction.kept.is_some();
        keeps(&self.session)
            || matches!(&self.phase, Phase::Running(statement) if statement.beside.noted.is_some())
    }
}

impl Core {
    /// A statement is sent: what is told of it is summed up, if it is part of a transaction that
    /// may have to be repeated, or begins one.
    #[cold]
    pub(super) fn note(&mut self, client: &mut Client, conn: &mut Conn, is_shared: bool) {
        let is_mirror = client.is_mirror;
        let Some((statement, session)) = client.running_mut() else { return };
        let is_wanted = self.env.wants_replay(session);
        if let Some(Noted::Again(again)) = &mut statement.beside.noted {
            return again.digest.restart(conn.server.format);
        }
        let begins = || fit::begins(statement) || session.settings.state.is_autocommit_off();
        let is_noted = !is_shared
            && !is_mirror
            && (session.transaction.kept.is_some() || is_wanted && begins());
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let has_long_data = stmt.is_some_and(|stmt| stmt.long.is_some());
        let is_open = |lease: &Lease| lease.is_in_trans || lease.pins.has(PinReason::Transaction);
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let was_open = lease.is_some_and(is_open);
        statement.beside.noted = is_noted.then(|| {
            let digest = Digest::new(conn.server.format);
            Noted::First(Box::new(First { digest, has_long_data, was_open }))
        });
    }

    /// A statement has been answered, and its session has learned of that: it is kept, if it is
    /// part of a transaction that can be repeated.
    #[cold]
    pub(super) fn keep(
        &mut self,
        session: &mut Session,
        conn: &Conn,
        statement: &Statement,
        noted: &First,
        outcome: &Outcome,
    ) {
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let Some(lease) = lease.filter(|lease| lease.pins.has(PinReason::Transaction)) else {
            if session.transaction.kept.as_deref().is_some_and(|kept| kept.conn == conn.id) {
                session.transaction.kept = None;
            }
            return;
        };
        if statement.command.purpose == Purpose::Prepare {
            return;
        }
        let begins = fit::begins(statement) && outcome.error.is_none();
        let is_other = session.transaction.kept.as_deref().is_none_or(|kept| kept.conn != conn.id);
        if begins || is_other {
            let held = Held { all: Rc::clone(&self.clients.memory.replay_bytes), len: 0 };
            let state = Arc::clone(&session.settings.state);
            let mut kept = Kept::new(lease.hostgroup, conn.id, state, held, self.env.now.ms());
            let is_first = !noted.was_open && session.settings.state.is_autocommit_off();
            if !begins && !is_first {
                kept.refuse(Why::Begin);
            }
            session.transaction.kept = Some(Box::new(kept));
        }
        let Some(kept) =
            session.transaction.kept.as_deref_mut().filter(|kept| kept.why_not.is_none())
        else {
            return;
        };
        let stmt = statement.prepared.stmt_id.and_then(|stmt_id| session.prepared.get(stmt_id));
        let text = match stmt {
            Some(stmt) => &*stmt.entry.text,
            None => statement.command.frames.get(HEADER_LEN..).unwrap_or_default(),
        };
        let knows_id = kept.knows_id;
        if outcome.last_insert_id != 0 {
            kept.knows_id = session.past.knows_insert_id();
        }
        let settings = &self.env.snapshot.settings;
        let attributes_len = statement.command.attributes.as_ref().map_or(0, |it| it.len());
        let own_len = statement.command.frames.len() + attributes_len;
        let len = kept.held.len + own_len + STATEMENT_COST;
        let is_long = len > settings.transaction_replay_max_bytes
            || kept.said.len() >= settings.transaction_replay_max_statements
            || kept.held.all.get() + len - kept.held.len
                > settings.transaction_replay_worker_max_bytes;
        let is_changed = !Arc::ptr_eq(&kept.state, &session.settings.state);
        let why = fit::why_not(statement, noted, text, lease, outcome, knows_id)
            .or(is_changed.then_some(Why::Session))
            .or(is_long.then_some(Why::Size));
        if let Some(why) = why {
            kept.refuse(why);
            self.count_unfit(why);
            return;
        }
        let types = stmt.and_then(|stmt| stmt.types.clone());
        kept.held.set(len);
        kept.said.push(Said::of(statement, types, Told::of(&noted.digest, outcome)));
    }

    fn count_unfit(&mut self, why: Why) {
        let counters = &mut self.fx.stats.counters;
        *match why {
            Why::Statement => &mut counters.replays_unfit_statement,
            Why::Effects => &mut counters.replays_unfit_effects,
            Why::Engine => &mut counters.replays_unfit_engine,
            Why::Past => &mut counters.replays_unfit_past,
            Why::Session => &mut counters.replays_unfit_session,
            Why::Failed => &mut counters.replays_unfit_failed,
            Why::Begin => &mut counters.replays_unfit_begin,
            Why::Size => &mut counters.replays_unfit_size,
        } += 1;
    }
}
