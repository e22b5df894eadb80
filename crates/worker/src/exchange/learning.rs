//! Step 10: what a session, and the connection that ran its statement, learn from the reply.

use std::sync::Arc;

use trunkline_catalog::Hidden;
use trunkline_protocol::{
    packet::{greeting::Flavor, status},
    response::Outcome,
};
use trunkline_session::tracker::{
    Applied, PinReason, SessionState, Trust, apply_outcome, runs_unseen_code,
};
use trunkline_sql::analysis::{Access, Analysis, Effect, StatementKind};
use trunkline_sql::recall::Gtid;
use trunkline_stats::ResetReason;

use crate::{
    clients::client::{Client, Purpose, Session, Statement},
    exchange::{
        hidden::hold,
        pins::{
            follow_beginning, follow_status, is_in_transaction, is_own_set, may_have_run,
            may_roll_back,
        },
        unknown_names::{hold_names, settle_names},
    },
    rooms::Core,
    servers::conn::Conn,
    servers::dirt::{Dirt, dirt_of, is_without_schema},
    servers::trackers::ask_trackers,
    session_past::keeps_conditions,
    statement::proof::proof_of,
};

/// Status flags that describe the session and not one result.
const LASTING_STATUS: u16 = status::IN_TRANS
    | status::AUTOCOMMIT
    | status::NO_BACKSLASH_ESCAPES
    | status::ANSI_QUOTES
    | status::IN_TRANS_READONLY;

/// A statement that is over, and what is known of it by its reply.
struct Over<'a> {
    statement: &'a Statement,
    analysis: Option<&'a Analysis>,
    outcome: &'a Outcome,
    flavor: Flavor,
    /// How far what the server reports is trusted.
    trust: Trust,
    /// It was sent.
    was_sent: bool,
    /// It has run: it was not only prepared, and is no command without effects beyond its purpose.
    has_run: bool,
    /// It was only prepared or described, and constants may have been computed.
    has_computed: bool,
    /// What `SHOW WARNINGS` tells is as before.
    keeps_conditions: bool,
}

impl Core {
    /// The session's record, and its connection's, take over what the statement changed.
    /// `was_sent` is false where it could not be prepared.
    pub(super) fn learn(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
        was_sent: bool,
    ) {
        let session = &mut *client.session;
        session.settle_begun(conn.id);
        let over = self.over(conn, statement, outcome, was_sent);
        let is_set = over.analysis.is_some_and(is_own_set);
        let before = is_set.then(|| Arc::clone(&session.settings.state));
        let purpose = &statement.command.purpose;
        let in_transaction = is_in_transaction(session, conn.id, purpose, over.analysis, outcome);
        let was_open = |session: &Session| session.leases.iter().any(|lease| lease.is_in_trans);
        if over.begins() && was_sent && !was_open(session) {
            self.servers.learn_transaction_tracker(conn, outcome);
        }
        self.learn_status(session, outcome);
        let gtid = learn_past(session, conn, &over);
        if self.env.snapshot.follows_gtids && was_sent {
            self.learn_gtids(session, conn, statement, outcome, gtid);
        }
        let Some(applied) = self.learn_of_lease(session, conn, &over, in_transaction) else {
            return;
        };
        if let Some(state) = applied.state {
            self.take_state(session, state, over.flavor);
        }
        if let (Some(analysis), None, true) = (over.analysis, &outcome.error, over.has_run) {
            ask_trackers(&mut session.settings.told, analysis);
        }
        self.learn_schema(conn, &over);
        learn_last(session, conn, &over);
        let has_begun = !is_without_schema(session, statement, outcome);
        if let Some(dirt) = self.dirt_left(&over).filter(|_| has_begun) {
            conn.soil(dirt);
            if !session.soiled.contains(&conn.id) {
                session.soiled.push(conn.id);
            }
        }
        // One that could not be prepared may have gone out before its session's state.
        if was_sent {
            conn.follow_transaction_tracker(&session.settings.state);
            conn.state = Arc::clone(&session.settings.state);
        }
        if let Some(unreported) = applied.trackers_set {
            self.renew_trackers(client, conn, &unreported);
        } else if !applied.asks.is_empty() {
            self.ask_values(client, conn, &applied.asks);
        }
        self.note_pins(client, conn.id, statement);
        if let Some(analysis) = over.analysis.filter(|_| over.has_run && outcome.error.is_none()) {
            self.outdate_variables(client, conn.id, analysis);
        }
        if let Some(analysis) = over.analysis.filter(|_| over.has_run) {
            self.learn_globals(conn, analysis, outcome.error.is_some());
        }
        if let Some(before) = before {
            self.remember_set(client, conn, statement, outcome, &before);
        }
    }

    /// Notes that a schema was made, changed or dropped.
    #[inline]
    fn learn_schema(&self, conn: &mut Conn, over: &Over<'_>) {
        let defines = |analysis: &Analysis| analysis.effects.contains(&Effect::SchemaDefined);
        if over.analysis.is_some_and(defines) {
            let before = self.env.shared.define_schema();
            if conn.left.schemas_defined == before {
                // The server has told its own session what has become of the schema.
                conn.left.schemas_defined = before + 1;
            }
        }
    }

    fn over<'a>(
        &self,
        conn: &Conn,
        statement: &'a Statement,
        outcome: &'a Outcome,
        was_sent: bool,
    ) -> Over<'a> {
        let flavor = conn.server.flavor;
        let is_clean = has_plant!(self, FailureIsClean) && outcome.error.is_some();
        let reports_all = conn.server.format.deprecate_eof;
        Over {
            statement,
            analysis: statement.meaning.known.as_ref().map(|known| &known.analysis),
            outcome,
            flavor,
            trust: match self.env.snapshot.settings.routines_pin || !reports_all {
                true => Trust::Nothing,
                false => Trust::Reports,
            },
            was_sent,
            has_run: matches!(statement.command.purpose, Purpose::Query | Purpose::Execute)
                && !is_clean,
            has_computed: match statement.command.purpose {
                Purpose::Prepare => !statement.meaning.is_read,
                Purpose::Other => !statement.meaning.proof.hidden.is_plain(),
                _ => false,
            },
            // One that fails leaves its own error.
            keeps_conditions: outcome.error.is_none() && keeps_conditions(statement, flavor),
        }
    }

    fn learn_status(&mut self, session: &mut Session, outcome: &Outcome) {
        if let Some(flags) = outcome.status {
            session.settings.status = flags & LASTING_STATUS;
            self.servers.defaults.modes.learn_status(
                &mut session.settings.modes,
                &session.settings.state,
                flags,
            );
        }
    }

    /// What holds the session on the connection from now on, and what becomes of its state. `None`
    /// where it does not hold the connection.
    fn learn_of_lease(
        &mut self,
        session: &mut Session,
        conn: &Conn,
        over: &Over<'_>,
        in_transaction: bool,
    ) -> Option<Applied> {
        let Over { statement, analysis, outcome, trust, has_run, .. } = *over;
        let lease = session.leases.iter_mut().find(|lease| lease.conn == conn.id)?;
        let is_dropped = has_plant!(self, PinDroppedEarly) && outcome.error.is_some();
        lease.pins.set(PinReason::Transaction, in_transaction && !is_dropped);
        if let Some(flags) = outcome.status {
            follow_beginning(lease, analysis, flags);
            lease.is_in_trans = flags & status::IN_TRANS != 0;
            lease.only_reads = flags & status::IN_TRANS_READONLY != 0;
        }
        let writes = over.may_write() && !lease.only_reads;
        lease.has_written = in_transaction && (lease.has_written || writes);
        if over.was_sent && has_run {
            let is_off = session.settings.state.is_autocommit_off();
            lease.standing = lease.standing.behind(outcome, analysis, is_off);
        }
        lease.is_in_doubt = match &outcome.error {
            Some(error) => lease.is_in_doubt || may_roll_back(error),
            None => lease.is_in_doubt && outcome.status.is_none(),
        };
        let leaves_conditions = outcome.warnings > 0 || outcome.error.is_some();
        if !over.keeps_conditions {
            lease.pins.set(PinReason::Warnings, leaves_conditions);
        }
        let pins = &mut lease.pins;
        let state = &session.settings.state;
        let applied = has_run.then(|| apply_outcome(state, pins, analysis, outcome, trust));
        let applied = applied.unwrap_or_default();
        if has_plant!(self, TemporaryTableNotPinned) {
            pins.unpin(PinReason::TemporaryTable);
        }
        follow_status(pins, analysis, statement.meaning.proof.reads, outcome);
        hold(
            pins,
            applied.state.as_ref().unwrap_or(state),
            analysis,
            self.env.shared.finds_by_null(),
        );
        if has_run {
            statement.target.directives.hold(pins);
        }
        if over.leaves_unseen() {
            // A view or trigger may have set a variable or taken a lock.
            pins.pin(PinReason::Routine);
        }
        if over.leaves_unknown() || pins.has(PinReason::UnknownName) {
            let group = self.env.group_of(lease.hostgroup);
            if let (Some(analysis), true) = (analysis, over.leaves_unknown()) {
                let stmt = statement.executed().and_then(|id| session.prepared.get(id));
                let reading = stmt.map_or(state, |stmt| &statement.entry(stmt).reading);
                let schema = &reading.schema;
                hold_names(pins, analysis, schema);
            }
            settle_names(pins, group, self.env.shared.catalog(), self.env.now.ms());
        }
        Some(applied)
    }

    fn take_state(&mut self, session: &mut Session, state: SessionState, flavor: Flavor) {
        let settings = &mut session.settings;
        settings.state = self.servers.states.intern(state);
        let modes = &self.servers.defaults.modes;
        let escapes = settings.modes.escapes();
        settings.modes = modes.of_session(&settings.state, flavor, escapes);
        settings.modes = modes.settle(settings.modes);
    }

    /// What the statement may have left on its connection for other sessions.
    fn dirt_left(&self, over: &Over<'_>) -> Option<Dirt> {
        let Over { statement, outcome, trust, .. } = *over;
        let ran = over.was_sent && (over.has_run || over.has_computed);
        let dirt = over.analysis.filter(|_| ran).and_then(|analysis| {
            let proof = proof_of(&self.env.shared, statement);
            dirt_of(analysis, proof, outcome, trust)
        });
        let computed = match (statement.meaning.proof.hidden.has(Hidden::STAYS), over.flavor) {
            (true, _) => Dirt::Ends,
            (false, Flavor::MariaDb) => Dirt::Reset(ResetReason::Routine),
            (false, Flavor::MySql) => Dirt::Reset(ResetReason::UserVariables),
        };
        dirt.max(over.has_computed.then_some(computed))
    }
}

impl Over<'_> {
    fn certainly_reads(&self) -> bool {
        self.analysis.is_some_and(|analysis| analysis.access == Access::CertainlyReads)
    }

    fn may_write(&self) -> bool {
        let writes_itself = !self.certainly_reads() && !self.begins();
        writes_itself || self.statement.meaning.proof.hidden.has(Hidden::WRITES)
    }

    /// Whether it begins a transaction, and nothing else.
    fn begins(&self) -> bool {
        self.analysis.is_some_and(|analysis| {
            let begins =
                matches!(analysis.kind, StatementKind::Begin | StatementKind::StartTransaction);
            begins && analysis.statements == 1
        })
    }

    /// Whether it may have left in its session what nobody has seen.
    fn leaves_unseen(&self) -> bool {
        let hidden = self.statement.meaning.proof.hidden;
        let leaves = hidden.has(Hidden::LEAVES) || hidden.has(Hidden::STAYS);
        let runs_code = leaves || self.analysis.is_some_and(runs_unseen_code);
        let leaves = leaves && self.has_run || self.has_computed && runs_code;
        // Of names that are still to be told, what they turn out to be decides.
        let fails_untold = self.has_run
            && hidden.has(Hidden::UNTOLD)
            && !self.certainly_reads()
            && !self.leaves_unknown()
            && self.outcome.error.as_ref().is_some_and(may_have_run);
        let is_untold = self.trust == Trust::Nothing || self.outcome.error.is_some();
        fails_untold || leaves && is_untold
    }

    /// Whether it used names that nobody could say the meaning of, and may have run a view's code.
    fn leaves_unknown(&self) -> bool {
        let computes = self.analysis.is_some_and(Analysis::may_compute);
        self.statement.meaning.proof.hidden.has(Hidden::UNASKED)
            && self.was_sent
            && (self.has_run || self.has_computed)
            && computes
            && self.outcome.error.as_ref().is_none_or(may_have_run)
    }
}

/// What the session's next statement may ask for of this one.
/// Gives the GTID that it was told, on MariaDB, if the connection has not told that before.
#[inline]
fn learn_past(session: &mut Session, conn: &mut Conn, over: &Over<'_>) -> Option<Gtid> {
    let Over { statement, outcome, flavor, .. } = *over;
    let gtid = (!outcome.changes.is_empty()).then(|| conn.new_gtid(outcome)).flatten();
    let place = (conn.id, conn.holder.turn);
    let here = session.lease_mut(conn.id).is_some().then_some(place);
    let is_there = here.is_some() && session.last_conn == here;
    match over.keeps_conditions {
        true => session.past.learn_of_look(statement, outcome, flavor, here, is_there),
        false => session.past.learn(statement, outcome, flavor, here, is_there),
    }
    if let Some(gtid) = gtid {
        session.past.learn_gtid(gtid);
    }
    gtid
}

/// Which connection has what the statement left to be asked for.
fn learn_last(session: &mut Session, conn: &mut Conn, over: &Over<'_>) {
    let here = Some((conn.id, conn.holder.turn));
    if !over.keeps_conditions {
        conn.outdate_conditions(over.outcome, session.last_conn == here);
        session.last_conn = here;
    }
    let is_here = session.insert_conn == here;
    session.learn_insert_ids(conn, over.statement, over.outcome);
    if session.learn_insert_id(is_here, over.statement, over.outcome) {
        session.insert_conn = here;
    }
}
