//! Which transactions a session has written, by what servers report.
//!
//! MySQL is asked to report them (`session_track_gtids`), MariaDB does so (`last_gtid`). An error
//! comes without a report, though something may have been committed before it: then the session is
//! in doubt, and its reads go to the writer until its next write has told its number. The same
//! holds for a write that changed nothing: it has met what others have written, which a replica may
//! lack.

use trunkline_pool::SlotId;
use trunkline_protocol::{
    packet::{
        greeting::Flavor,
        status,
        track::{Change, Changes},
    },
    response::{Outcome, ServerError},
};
use trunkline_session::tracker::{PinReason, SessionState, runs_unseen_code};
use trunkline_sql::{
    analysis::{Effect, StatementKind, TransactionEffect},
    recall::Gtid,
};
use trunkline_topology::{
    HostgroupId,
    gtid::{Origin, each_interval},
};

use crate::{
    causal::session::Cells,
    clients::client::{Purpose, Session, Statement},
    rooms::Core,
    servers::conn::Conn,
};

/// Has MySQL report the transactions that a statement has committed.
pub(crate) const REPORT_GTIDS: &[u8] = b"SET @@SESSION.session_track_gtids=OWN_GTID";
/// The variable, as servers' refusals name it.
pub(crate) const GTID_TRACKER: &str = "session_track_gtids";

/// Errors of what was not begun: rights, unknown names, syntax.
const NOT_BEGUN: [u16; 10] = [1044, 1046, 1049, 1054, 1064, 1142, 1143, 1146, 1149, 1193];
/// Variables that change how writes are numbered, or whether they are logged at all.
const UNNUMBERED: [&str; 3] = ["sql_log_bin", "gtid_domain_id", "gtid_seq_no"];

/// Whether a server reports the transactions of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReportsGtids {
    /// It was not asked to.
    #[default]
    Unasked,
    /// It was asked to.
    Asked,
    /// It can't, or what it reports may lack some.
    No,
}

/// Whether a session has had its server report transactions itself.
fn asks_itself(state: &SessionState) -> bool {
    let is_off = |value: &[u8]| {
        let value = value.trim_ascii();
        matches!(value, b"0" | b"'0'")
            || value.to_ascii_uppercase().ends_with(b"OFF'")
            || value.eq_ignore_ascii_case(b"off")
    };
    state.variable(GTID_TRACKER).is_some_and(|value| !is_off(value))
}

impl Core {
    /// Has the server report what the client's statement commits, where anybody's reads depend on
    /// that. Servers refuse that within a transaction.
    pub(crate) fn have_gtids_reported(&mut self, session: &Session, conn: &mut Conn) {
        conn.server.causal_ticket = self.env.shared.causal().positions.ticket();
        let is_due = conn.server.flavor == Flavor::MySql
            && conn.server.format.session_track
            && conn.server.gtids == ReportsGtids::Unasked
            && conn.list != trunkline_pool::ConnState::Shared;
        if !is_due {
            return;
        }
        let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
        let is_open = lease.is_some_and(|lease| {
            lease.is_begun || lease.is_in_trans || lease.pins.has(PinReason::Transaction)
        });
        if is_open {
            return;
        }
        conn.server.gtids = ReportsGtids::Asked;
        if !asks_itself(&session.settings.state) {
            self.ask_for_gtids(conn);
        }
    }

    /// Takes over what a reply tells of transactions that its statement has committed. `last`:
    /// MariaDB's, where it is another one than the connection has told before.
    pub(crate) fn collect_written(
        &mut self,
        session: &mut Session,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
        last: Option<Gtid>,
    ) {
        let mut is_numbered = last.is_some();
        for change in Changes::new(&outcome.changes) {
            let Ok(Change::Gtids(text)) = change else { continue };
            self.raise(session, conn, text);
            is_numbered = true;
        }
        if let Some((domain, _, sequence)) = last {
            self.raise_position(session, conn, domain, sequence);
        }
        let has_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
        if statement.meaning.is_read || !has_run || commits_nothing(session, conn, statement) {
            return;
        }
        if UNNUMBERED.iter().any(|name| session.settings.state.variable(name).is_some()) {
            self.lose_track(session, conn);
            // MariaDB reports a number only where it is not the last one, whatever its domain.
            conn.server.gtids = ReportsGtids::No;
        }
        let slot = self.servers.pool.slot(conn.slot);
        let numbers = slot.is_some_and(|slot| slot.server.health.reached.numbers());
        let is_told = match conn.server.flavor {
            Flavor::MySql => conn.server.gtids == ReportsGtids::Asked,
            Flavor::MariaDb => conn.server.gtids != ReportsGtids::No,
        };
        let reports = numbers
            && is_told
            && conn.server.format.session_track
            // What ends rows otherwise has no place for it.
            && (conn.server.format.deprecate_eof || outcome.result_sets == 0);
        let failed = outcome.error.as_ref().is_some_and(|error| {
            session.is_in_transaction() || may_have_committed(statement, error)
        });
        let is_good = outcome.error.is_none();
        let met_others =
            is_good && !is_numbered && has_ended_a_write(session, conn, statement, outcome);
        if !reports || failed || met_others {
            self.doubt_written(session, conn.server.hostgroup);
        }
    }

    /// A session may have written something in a hostgroup whose number it was not told.
    pub(crate) fn doubt_written(&mut self, session: &mut Session, hostgroup: HostgroupId) {
        if !self.env.snapshot.has_causal_reads {
            return;
        }
        let board = self.env.shared.causal();
        let is_new = session.settings.causal.doubt(board, &session.login.user.name, hostgroup);
        self.fx.stats.counters.causal_doubts += u64::from(is_new);
    }

    /// Whose servers a place in the pool is one of.
    pub(crate) fn hostgroup_of(&self, slot: SlotId) -> HostgroupId {
        let slot = self.servers.pool.slot(slot);
        slot.map(|slot| slot.server.key.hostgroup).unwrap_or_default()
    }

    /// A session writes what numbers don't tell of. What is not logged at all no replica will ever
    /// have: that is the session's own matter.
    fn lose_track(&mut self, session: &mut Session, conn: &Conn) {
        let hostgroup = conn.server.hostgroup;
        let is_numbered_apart =
            UNNUMBERED.iter().skip(1).any(|name| session.settings.state.variable(name).is_some());
        let cells = match is_numbered_apart {
            true => self.cells(session, hostgroup),
            false => Cells::default(),
        };
        session.settings.causal.lose_track(hostgroup, &cells);
    }

    fn cells(&self, session: &mut Session, hostgroup: HostgroupId) -> Cells {
        let board = self.env.shared.causal();
        session.settings.causal.cells(board, &session.login.user.name, hostgroup)
    }

    fn raise_position(&mut self, session: &mut Session, conn: &Conn, domain: u32, last: u64) {
        let hostgroup = conn.server.hostgroup;
        let cells = self.cells(session, hostgroup);
        let origin = Origin::Domain(domain);
        let causal = &mut session.settings.causal;
        match self.servers.sharing.causal.id(self.env.shared.causal(), &origin) {
            Some(id) => {
                causal.raise((hostgroup, &cells), id, last, last);
                cells.end_doubt(conn.server.causal_ticket);
            }
            None => causal.lose_track(hostgroup, &cells),
        }
    }

    fn raise(&mut self, session: &mut Session, conn: &Conn, text: &[u8]) {
        let hostgroup = conn.server.hostgroup;
        let cells = self.cells(session, hostgroup);
        let board = self.env.shared.causal();
        let (waits, causal) = (&mut self.servers.sharing.causal, &mut session.settings.causal);
        let text = std::str::from_utf8(text).unwrap_or("not UTF-8");
        let read = each_interval(text, |origin, first, last| match waits.id(board, &origin) {
            Some(id) => causal.raise((hostgroup, &cells), id, first, last),
            None => causal.lose_track(hostgroup, &cells),
        });
        match read {
            Ok(()) => cells.end_doubt(conn.server.causal_ticket),
            Err(_) => causal.lose_track(hostgroup, &cells),
        }
    }
}

/// Whether a statement can't have committed anything: what is in a transaction that the server says
/// is `READ ONLY`, or ends it, and what tells of or sets the session's own.
fn commits_nothing(session: &Session, conn: &Conn, statement: &Statement) -> bool {
    let Some(known) = statement.meaning.known.as_ref() else { return false };
    let analysis = &known.analysis;
    if analysis.statements != 1 || runs_unseen_code(analysis) {
        return false;
    }
    let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
    let only_read = lease.is_some_and(|lease| lease.only_reads && !lease.has_written);
    // `SET PASSWORD` and `SET DEFAULT ROLE` are logged.
    let is_logged =
        |effect: &Effect| matches!(effect, Effect::SetPassword | Effect::AccountsDefined);
    let is_of_session =
        matches!(analysis.kind, StatementKind::Set | StatementKind::Show | StatementKind::Use)
            && analysis.transaction == TransactionEffect::None
            && !analysis.effects.iter().any(is_logged);
    only_read || is_of_session
}

/// Whether a statement that has succeeded is a write, or ends a transaction that wrote.
fn has_ended_a_write(
    session: &Session,
    conn: &Conn,
    statement: &Statement,
    outcome: &Outcome,
) -> bool {
    use StatementKind::{
        Call, Delete, Execute, Insert, Load, Replace, Rollback, RollbackSavepoint, Update,
    };
    let Some(known) = statement.meaning.known.as_ref() else { return false };
    let analysis = &known.analysis;
    let lease = session.leases.iter().find(|lease| lease.conn == conn.id);
    let was_open = lease.is_some_and(|lease| lease.has_written);
    let goes_on = outcome.status.is_some_and(|flags| flags & status::IN_TRANS != 0);
    match analysis.kind {
        Rollback | RollbackSavepoint => false,
        _ if was_open => !goes_on || analysis.ends_transaction(),
        Call | Delete | Execute | Insert | Load | Replace | Update => !goes_on,
        _ => {
            let calls = runs_unseen_code(analysis) || !analysis.set_for_statement.is_empty();
            (analysis.statements != 1 || calls) && !goes_on
        }
    }
}

/// Whether something that a statement did may have been committed, though it failed.
fn may_have_committed(statement: &Statement, error: &ServerError) -> bool {
    let Some(known) = statement.meaning.known.as_ref() else { return true };
    let is_one = known.analysis.statements == 1 && !runs_unseen_code(&known.analysis);
    !is_one || !NOT_BEGUN.contains(&error.code)
}
