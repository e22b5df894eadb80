//! Connections that are not proven clean, and the reset before another session gets one.
//!
//! A connection goes from one session to another as it is only if everything that ran on it since
//! its last reset is proven to leave nothing behind. Otherwise it is dirty: `COM_RESET_CONNECTION`
//! goes before the next session's first bytes, in the same write; where a reset does not take
//! back what may be there, the connection ends with its session.

use std::sync::Arc;

use trunkline_catalog::{Hidden, Proof};
use trunkline_pool::{ConnId, ConnState};
use trunkline_protocol::{codec::frame::put_payload, command::code, response::Outcome};
use trunkline_session::tracker::{
    Schema, Trust, has_others_names, ran_before_error, runs_unseen_code,
};
use trunkline_sql::analysis::{Analysis, Depends, Effect, StatementKind, TableAccess, TableUse};
use trunkline_stats::ResetReason;

use crate::{
    ClientId,
    clients::client::{Client, Purpose, Session, Statement},
    rooms::{Core, Lender},
    servers::conn::{Conn, InFlight, Owner},
    servers::insert_ids::InsertIds,
    servers::trackers::Behind,
    session_past::runs_code,
};

/// `COM_RESET_CONNECTION`.
pub(crate) const RESET: &[u8] = &[code::RESET_CONNECTION];

/// In place of the hash of a `SET`, where a reset is waited for.
pub(crate) const RESET_PROOF: u64 = 0x7265_7365_7400;

/// Why a connection is not proven clean. What ends with the connection only is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dirt {
    /// A reset takes back whatever is there.
    Reset(ResetReason),
    /// There may be what a reset leaves in place: a role, profiles.
    Ends,
}

/// What a statement that has run may have left on its connection that nobody can name.
pub(crate) fn dirt_of(
    analysis: &Analysis,
    proof: Proof,
    outcome: &Outcome,
    trust: Trust,
) -> Option<Dirt> {
    let is_unseen = |effect: &Effect| {
        matches!(effect, Effect::ExecuteStatement(_) | Effect::OtherSession(_) | Effect::Call)
    };
    let runs_unseen = runs_unseen_code(analysis)
        || analysis.effects.iter().any(is_unseen)
        || ran_before_error(analysis, outcome);
    // Nobody has said that none of the names is a view, whose function may set a role.
    let may_be_view = proof.hidden.has(Hidden::UNASKED) && analysis.may_compute();
    if runs_unseen && (trust == Trust::Nothing || outcome.error.is_some())
        || proof.hidden.has(Hidden::STAYS)
        || may_be_view
    {
        return Some(Dirt::Ends);
    }
    if runs_unseen {
        return Some(Dirt::Reset(ResetReason::Routine));
    }
    if proof.hidden.has(Hidden::LEAVES) {
        return Some(Dirt::Reset(ResetReason::Hidden));
    }
    if proof.hidden.has(Hidden::UNKNOWN) || analysis.is_cut || !analysis.is_complete {
        return Some(Dirt::Reset(ResetReason::Unknown));
    }
    // What plain statements of known tables leave, they leave whole or not at all.
    let is_partial = outcome.error.is_some() && !analysis.effects.is_empty();
    is_partial.then_some(Dirt::Reset(ResetReason::Failed))
}

/// Whether a write got no further than its name: it has no schema, and neither has the session. By
/// the error alone that is not proven, as a trigger or a function may give any.
pub(crate) fn is_without_schema(
    session: &Session,
    statement: &Statement,
    outcome: &Outcome,
) -> bool {
    const NO_SCHEMA: u16 = 1046;
    let code = outcome.error.as_ref().map(|error| error.code);
    let Some(known) = statement.meaning.known.as_deref() else { return false };
    let tables = &known.analysis.references.tables;
    let is_nowhere = |it: &TableUse| it.access == TableAccess::Write && it.name.schema.is_none();
    code == Some(NO_SCHEMA)
        && statement.command.purpose == Purpose::Query
        && session.settings.state.schema == Schema::None
        && known.analysis.is_one_whole_statement()
        && outcome.status.is_none()
        && !runs_unseen_code(&known.analysis)
        && matches!(tables.as_slice(), [only] if is_nowhere(only))
}

/// Whether a statement of which no answer is heard may leave what a reset does not take back: a
/// role, profiles, a trace. Nobody learns then what it did.
pub(crate) fn may_last(statement: &Statement) -> bool {
    let is_run =
        matches!(statement.command.purpose, Purpose::Query | Purpose::Execute | Purpose::Prepare);
    if statement.meaning.is_read || !is_run {
        return false;
    }
    let Some(known) = statement.meaning.known.as_deref() else { return true };
    let analysis = &known.analysis;
    analysis.statements != 1
        || analysis.is_cut
        || !analysis.is_complete
        || statement.meaning.proof.hidden.may(Hidden::STAYS)
        || runs_unseen_code(analysis)
        || !analysis.effects.iter().all(ends_with_reset)
}

/// Whether a reset takes back all that this may leave.
fn ends_with_reset(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::UserVariableAssigned(_)
            | Effect::LastInsertIdAssigned
            | Effect::CalcFoundRows
            | Effect::UseSchema(_)
            | Effect::Savepoint
            | Effect::CreateTemporaryTable(_)
            | Effect::DropTable { .. }
            | Effect::LockTables
            | Effect::UnlockTables
            | Effect::GetLock(_)
            | Effect::ReleaseLock(_)
            | Effect::ReleaseAllLocks
            | Effect::SequenceAdvanced
            | Effect::HandlerOpen(_)
            | Effect::HandlerClose(_)
            | Effect::SchemaDefined
            | Effect::AccountsDefined
    )
}

/// Whether a statement, or what it prepares, may ask its server for `@@last_gtid`.
fn may_ask_for_gtid(statement: &Statement) -> bool {
    let Some(known) = statement.meaning.known.as_deref() else { return false };
    let analysis = &known.analysis;
    let names_it = analysis.depends.contains(Depends::LAST_GTID);
    let is_answered = statement.meaning.is_recalled || statement.prepared.entry.is_some();
    names_it && !is_answered
        || !analysis.is_complete
        || analysis.is_cut
        || analysis.kind == StatementKind::Prepare
        || runs_code(statement)
}

impl Conn {
    /// Something may have been left on it in its present turn.
    pub(crate) fn soil(&mut self, dirt: Dirt) {
        self.left.dirt = self.left.dirt.max(Some(dirt));
        self.left.soiled_turn = self.holder.turn;
    }

    /// Whether it has to be reset before its present session gets anything sent on it.
    pub(crate) fn has_others_dirt(&self) -> bool {
        self.left.dirt.is_some() && self.left.soiled_turn != self.holder.turn
    }

    /// It was reset, or logged in anew.
    pub(crate) fn was_reset(&mut self) {
        self.left.insert_ids = InsertIds::default();
        if self.left.dirt != Some(Dirt::Ends) {
            self.left.dirt = None;
        }
    }

    /// A connection about to be the session's is dirty if it keeps names of user variables that
    /// another session set.
    pub(crate) fn soil_with_names(&mut self, client: &Client) {
        let session = &*client.session;
        let is_others = self.holder.last_client != Some(client.id)
            && !Arc::ptr_eq(&self.state, &session.settings.state);
        if is_others && has_others_names(&self.state, &session.settings.state) {
            self.soil(Dirt::Reset(ResetReason::UserVariables));
        }
    }

    /// A MariaDB connection about to be the session's is dirty if its server keeps the GTID of
    /// another session's write, and the statement may ask for it by other words than those that
    /// the proxy answers.
    pub(crate) fn soil_with_gtid(&mut self, client: &Client) {
        let Some((statement, session)) = client.running() else { return };
        let is_others = self.left.last_gtid.is_some_and(|gtid| !session.past.is_last_gtid(gtid));
        if is_others && may_ask_for_gtid(statement) {
            self.soil(Dirt::Reset(ResetReason::Hidden));
        }
    }
}

impl Core {
    /// Writes a reset before what the client's session is about to send. True when nothing but
    /// reads may follow before its answer, as this server has never answered one.
    pub(crate) fn reset_before(&mut self, client: &mut Client, conn: &mut Conn) -> bool {
        debug_assert!(conn.left.dirt != Some(Dirt::Ends), "it is nobody else's");
        if let Some(Dirt::Reset(reason)) = conn.left.dirt.take() {
            self.fx.stats.counters.connection_reset(reason);
        }
        let is_known = self.servers.resetting.contains(&conn.slot);
        if has_plant!(self, ResetForgotten) {
            return false;
        }
        conn.left.conditions_turn = None;
        // The server keeps the schema's name, and forgets what it knew of it.
        conn.left.kept_schema = Some(conn.state.schema.name().into());
        let relay = conn.own_relay();
        let owner = Owner::Sync(client.id, Some(RESET_PROOF));
        conn.in_flight.push_back(InFlight {
            owner,
            relay: self.fx.relays.hold(relay),
            is_statement: false,
            place: None,
        });
        self.write_server(conn, |out| {
            put_payload(out, 0, RESET);
        });
        self.forget_stmts(conn);
        self.forget_conn_state(conn);
        self.switch_trackers_on(conn, Behind::Reset, Some(client));
        !is_known
    }

    /// What a session left on connections that it does not hold any more, it does not leave to
    /// stay there: its locks end with it. `lent`: the connection that is lent, if one is: it may be
    /// among them.
    pub(crate) fn reset_soiled(
        &mut self,
        id: ClientId,
        soiled: Vec<ConnId>,
        mut lent: Option<&mut Conn>,
    ) {
        for conn_id in soiled {
            self.with_conn_or(lent.as_deref_mut(), conn_id, |core, conn| {
                if conn.holder.last_client == Some(id)
                    && conn.left.dirt.is_some()
                    && core.servers.take_free(conn)
                {
                    core.reset_idle(conn);
                }
            });
        }
    }

    /// Resets a connection that is off its list; then it is offered.
    fn reset_idle(&mut self, conn: &mut Conn) {
        conn.holder.last_client = None;
        let is_quiet = conn.in_flight.is_empty();
        self.servers.set_state(conn, ConnState::Resetting);
        if is_quiet {
            self.reset_conn(conn, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::response::ServerError;
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    fn dirt(text: &str, hidden: Hidden, fails: bool) -> Option<Dirt> {
        let analysis = analyse(text.as_bytes(), &Modes::default());
        let error =
            fails.then(|| ServerError { code: 1, sqlstate: *b"HY000", message: Box::default() });
        let outcome = Outcome { error, ..Outcome::default() };
        dirt_of(&analysis, Proof { reads: false, hidden }, &outcome, Trust::Nothing)
    }

    #[test]
    fn what_is_proven_leaves_nothing_even_when_it_fails() {
        assert_eq!(dirt("SELECT a FROM t", Hidden::empty(), false), None);
        assert_eq!(dirt("INSERT INTO t VALUES (1)", Hidden::empty(), true), None);
        assert_eq!(dirt("SET @a = 1, @b = c", Hidden::empty(), false), None);
    }

    #[test]
    fn what_is_not_known_is_reset_or_ends() {
        let reset = |reason| Some(Dirt::Reset(reason));
        let insert = "INSERT INTO t VALUES (1)";
        assert_eq!(dirt(insert, Hidden::UNKNOWN, false), reset(ResetReason::Unknown));
        assert_eq!(dirt(insert, Hidden::LEAVES, false), reset(ResetReason::Hidden));
        assert_eq!(dirt(insert, Hidden::LEAVES | Hidden::STAYS, false), Some(Dirt::Ends));
        assert_eq!(dirt("SET @a = 1, @b = c", Hidden::empty(), true), reset(ResetReason::Failed));
        assert_eq!(dirt("CALL p()", Hidden::empty(), false), Some(Dirt::Ends));
        for text in ["CREATE TABLE x AS VALUES (f())", "CREATE VIEW v AS SELECT 1", "REPAIR VIEW v"]
        {
            assert_eq!(dirt(text, Hidden::UNKNOWN, false), Some(Dirt::Ends), "{text}");
        }
        let plain = "CREATE TABLE x (a INT DEFAULT 1, KEY (a))";
        assert_eq!(dirt(plain, Hidden::UNKNOWN, false), reset(ResetReason::Unknown));
        let unasked = Hidden::UNKNOWN | Hidden::UNTOLD | Hidden::UNASKED;
        assert_eq!(dirt(plain, unasked, false), reset(ResetReason::Unknown));
        for text in ["SELECT a FROM v", insert, "UPDATE t SET a = 1", "DELETE FROM t"] {
            let told = Hidden::UNKNOWN | Hidden::UNTOLD;
            assert_eq!(dirt(text, told, false), reset(ResetReason::Unknown), "{text}");
            assert_eq!(dirt(text, unasked, false), Some(Dirt::Ends), "{text}");
        }
        assert!(Dirt::Ends > Dirt::Reset(ResetReason::Routine));
    }
}
