//! What holds a session on its connection, as far as the worker itself decides it; and `SET`s that
//! change nothing.

use std::sync::Arc;

use trunkline_pool::ConnId;
use trunkline_protocol::{
    codec::frame::HEADER_LEN,
    packet::{greeting::Flavor, status},
    response::{Outcome, ServerError},
};
use trunkline_session::tracker::{
    Difference, PinReason, Pins, SessionState, Sync, Trust, apply_outcome, difference, is_word_or,
    reports_change, runs_unseen_code, sets_trackers,
};
use trunkline_sql::{
    analysis::{Access, Analysis, Effect, TransactionEffect, XaStep},
    set::{Assignment, Scope, TransactionScope, Value},
};

use crate::{
    clients::client::{Client, Lease, PinnedBy, PinningStatement, Purpose, Session, Statement},
    effects::Wake,
    exchange::lost::makes_state,
    exchange::send::text_hash,
    rooms::{Core, Exchange, Lender},
    servers::conn::Conn,
    special::local_infile::Upload,
    statement::analysis::Known,
};

/// The user variables that a statement gives a value, as far as they are known by name.
fn assigned_variables(analysis: &Analysis) -> impl Iterator<Item = &[u8]> {
    analysis.effects.iter().flat_map(|effect| {
        let (one, set): (_, &[Assignment]) = match effect {
            Effect::UserVariableAssigned(name) => (name.as_deref(), &[]),
            Effect::Set(assignments) => (None, assignments),
            _ => (None, &[]),
        };
        let set = set.iter().filter_map(|assignment| match assignment {
            Assignment::Variable { scope: Scope::UserVariable, name, .. } => Some(&**name),
            _ => None,
        });
        one.into_iter().chain(set)
    })
}

/// What the status flags of a reply say of a session's pins. `reads`: it is proven to have no
/// effects.
pub(super) fn follow_status(
    pins: &mut Pins,
    analysis: Option<&Analysis>,
    reads: bool,
    outcome: &Outcome,
) {
    let Some(flags) = outcome.status.filter(|_| outcome.error.is_none()) else {
        return;
    };
    match flags & status::IN_TRANS != 0 {
        // It has taken over what was set for the next transaction.
        true => pins.unpin(PinReason::NextTransaction),
        // MySQL lets go of an XA transaction once it is prepared.
        false if analysis.is_some_and(prepares_xa) => pins.unpin(PinReason::Xa),
        false => {}
    }
    // What certainly only reads changes the session by a function that a view hides.
    let is_unsaid = outcome.changes.is_empty() && reports_change(outcome);
    // The variables of a `SET STATEMENT` are reported too, and have their old values again; so does
    // the schema behind a declared function of another one (MariaDB 10.11).
    let is_told = |analysis: &Analysis| {
        reads && (analysis.calls_declared || !analysis.set_for_statement.is_empty())
    };
    let is_unsaid_by =
        |analysis: &Analysis| analysis.access == Access::CertainlyReads && !is_told(analysis);
    if is_unsaid && analysis.is_some_and(is_unsaid_by) {
        pins.pin(PinReason::ServerState);
    }
}

fn prepares_xa(analysis: &Analysis) -> bool {
    analysis.effects.contains(&Effect::Xa(XaStep::Prepare))
}

/// Whether a statement ends a transaction so that what it was begun with is over too.
fn gives_up_beginning(analysis: &Analysis) -> bool {
    use TransactionEffect as Tx;
    let ends = match analysis.transaction {
        Tx::Commit { .. } | Tx::Rollback { .. } | Tx::ImplicitCommit | Tx::Begin { .. } => true,
        Tx::None | Tx::SetAutocommit(_) => false,
    };
    ends && analysis.statements == 1
}

/// Follows whether a transaction has begun with an access mode or isolation level of its own. Both
/// servers end a transaction by `SET autocommit = 1`, or a deadlock, without giving these up (MySQL
/// 9.7, MariaDB 10.11): they are those of the next one, and of the statements before it. So its
/// session keeps the connection until that.
pub(super) fn follow_beginning(lease: &mut Lease, analysis: Option<&Analysis>, flags: u16) {
    let was_open = lease.is_in_trans;
    let says_how = |analysis: &Analysis| {
        let is_said = |begin: TransactionEffect| {
            matches!(begin, TransactionEffect::Begin { read_only, read_write, .. }
                if read_only || read_write)
        };
        is_said(analysis.transaction)
            || analysis
                .effects
                .iter()
                .any(|effect| matches!(effect, Effect::Transaction(begin) if is_said(*begin)))
    };
    if flags & status::IN_TRANS != 0 {
        lease.begun_apart = was_open && lease.begun_apart
            || flags & status::IN_TRANS_READONLY != 0
            || lease.pins.has(PinReason::NextTransaction)
            || analysis.is_some_and(says_how);
        return;
    }
    // A deadlock ends it too, and the next statement tells that none is open.
    if std::mem::take(&mut lease.begun_apart) && !analysis.is_some_and(gives_up_beginning) {
        lease.pins.pin(PinReason::NextTransaction);
    }
}

/// Whether an error may have rolled back the transaction that it met: a deadlock, a lock that was
/// waited for too long (with `innodb_rollback_on_timeout`), a row that has changed since a snapshot
/// was taken (MariaDB's `innodb_snapshot_isolation`), a `COMMIT` that failed, a branch of XA, a
/// transaction that a group did not certify.
pub(super) fn may_roll_back(error: &ServerError) -> bool {
    matches!(error.code, 1_020 | 1_180 | 1_205 | 1_213 | 1_402 | 1_613 | 1_614 | 3_101)
}

/// Whether a transaction is open after a command with this purpose, or a savepoint may be. Asked
/// before the session knows of the reply.
#[inline]
pub(super) fn is_in_transaction(
    session: &Session,
    conn: ConnId,
    purpose: &Purpose,
    analysis: Option<&Analysis>,
    outcome: &Outcome,
) -> bool {
    let flags = outcome.status.unwrap_or(session.settings.status);
    let is_open = outcome.status.is_some_and(|flags| flags & status::IN_TRANS != 0);
    let lease = session.leases.iter().find(|lease| lease.conn == conn);
    if outcome.status.is_some() && outcome.error.is_none() {
        let is_unsaid = || {
            may_have_savepoint(lease, analysis)
                || session.flavor() == Flavor::MySql
                    && *purpose != Purpose::Prepare
                    && analysis.is_some_and(may_hold_tables)
        };
        return is_open || flags & status::AUTOCOMMIT == 0 && is_unsaid();
    }
    // An error does not say it: it stays as it was, or as earlier statements of the same command
    // have left it, and one may have begun where statements begin them. What is only prepared
    // begins none, and servers say nothing of it.
    let may_begin = *purpose != Purpose::Prepare && !analysis.is_some_and(reads_no_table);
    let is_off = session.settings.state.is_autocommit_off() || flags & status::AUTOCOMMIT == 0;
    let was_open = lease.is_some_and(|lease| lease.pins.has(PinReason::Transaction));
    is_open || was_open || may_begin && is_off
}

/// Whether a statement may have read tables without transactions. With autocommit off, MySQL keeps
/// their metadata locks until `COMMIT` or `ROLLBACK`, and does not say `IN_TRANS` for them.
fn may_hold_tables(analysis: &Analysis) -> bool {
    let references = &analysis.references;
    let may_name = !references.is_whole || !references.tables.is_empty();
    may_name && analysis.transaction == TransactionEffect::None
}

/// Whether a savepoint may be left behind a reply that tells of no transaction, with autocommit
/// off: neither server says `IN_TRANS` for a savepoint alone. One that is there lasts until the
/// transaction ends that `IN_TRANS` tells of, or with `COMMIT` or `ROLLBACK`.
fn may_have_savepoint(lease: Option<&Lease>, analysis: Option<&Analysis>) -> bool {
    if analysis.is_some_and(may_set_savepoint) {
        return true;
    }
    let is_end = |analysis: &Analysis| {
        matches!(
            analysis.transaction,
            TransactionEffect::Commit { .. } | TransactionEffect::Rollback { .. }
        )
    };
    let has = |lease: &Lease| lease.pins.has(PinReason::Transaction) && !lease.is_in_trans;
    lease.is_some_and(has) && !analysis.is_some_and(is_end)
}

/// Whether a text may set a savepoint: it says so, or what it runs is not in it. Functions have
/// savepoints of their own, which end with them.
fn may_set_savepoint(analysis: &Analysis) -> bool {
    let is_unseen = |effect: &Effect| {
        matches!(
            effect,
            Effect::Savepoint
                | Effect::Call
                | Effect::ExecuteStatement(_)
                | Effect::OtherSession(_)
        )
    };
    analysis.is_cut || !analysis.is_complete || analysis.effects.iter().any(is_unseen)
}

/// Whether a statement sets something for the next transaction only. Servers report the end of
/// that to those who asked to be told before.
pub(super) fn sets_next_transaction(statement: &Statement) -> bool {
    let analysis = statement.meaning.known.as_ref().map(|known| &known.analysis);
    let effects = analysis.map_or(&[][..], |analysis| &analysis.effects);
    effects.iter().any(|effect| match effect {
        Effect::SetTransaction(setting) => setting.scope == TransactionScope::Next,
        Effect::Set(assignments) => assignments.iter().any(is_for_next),
        _ => false,
    })
}

fn is_for_next(assignment: &Assignment) -> bool {
    matches!(assignment, Assignment::Variable { scope: Scope::NextTransaction, .. })
        || matches!(assignment, Assignment::Transaction(setting)
            if setting.scope == TransactionScope::Next)
}

/// Whether a text is one `SET` of variables and nothing else.
fn is_plain_set(analysis: &Analysis) -> bool {
    matches!(&*analysis.effects, [Effect::Set(_)])
        && analysis.statements == 1
        && analysis.is_complete
        && analysis.depends.is_empty()
}

/// Whether a text is one `SET` of what is its session's alone. What servers and accounts have may
/// have been set otherwise meanwhile, by anybody.
pub(super) fn is_own_set(analysis: &Analysis) -> bool {
    let is_own = |assignment: &Assignment| match assignment {
        // What a default is, is the server's business too.
        Assignment::Variable { value: Value::Default, .. } => false,
        Assignment::Variable { scope, .. } => match scope {
            Scope::Global | Scope::Persist | Scope::PersistOnly => false,
            Scope::LocalDefault | Scope::Session | Scope::NextTransaction | Scope::UserVariable => {
                true
            }
        },
        Assignment::Names { charset, .. } | Assignment::CharacterSet { charset } => {
            charset.is_some()
        }
        Assignment::Transaction(setting) => setting.scope != TransactionScope::Global,
        Assignment::Role | Assignment::ResourceGroup => true,
        Assignment::Password | Assignment::DefaultRole => false,
    };
    match &*analysis.effects {
        [Effect::Set(assignments)] => is_plain_set(analysis) && assignments.iter().all(is_own),
        _ => false,
    }
}

/// Session variables that change no other one and that no statement changes unless it names them.
/// A `SET` of any other is carried out each time: what it sets may be otherwise by now, or what it
/// changes beside (`max_join_size` switches `sql_big_selects`).
pub(super) const PLAIN_VARIABLES: [&[u8]; 28] = [
    b"autocommit",
    b"div_precision_increment",
    b"foreign_key_checks",
    b"group_concat_max_len",
    b"innodb_lock_wait_timeout",
    b"interactive_timeout",
    b"join_buffer_size",
    b"lc_time_names",
    b"lock_wait_timeout",
    b"max_execution_time",
    b"max_heap_table_size",
    b"max_sort_length",
    b"max_statement_time",
    b"net_read_timeout",
    b"net_write_timeout",
    b"read_buffer_size",
    b"read_rnd_buffer_size",
    b"sort_buffer_size",
    b"sql_mode",
    b"sql_notes",
    b"sql_quote_show_create",
    b"sql_safe_updates",
    b"sql_select_limit",
    b"sql_warnings",
    b"time_zone",
    b"tmp_table_size",
    b"unique_checks",
    b"wait_timeout",
];

/// Whether a text is one `SET` that does nothing when the session has all of it already.
fn is_left_out(analysis: &Analysis) -> bool {
    let is_plain = |assignment: &Assignment| match assignment {
        Assignment::Variable { scope: Scope::Session | Scope::LocalDefault, name, .. } => {
            let is_isolation = matches!(&**name, b"transaction_isolation" | b"tx_isolation");
            is_isolation || PLAIN_VARIABLES.contains(&&**name)
        }
        Assignment::Variable { .. } | Assignment::Role | Assignment::ResourceGroup => false,
        Assignment::Names { .. } | Assignment::CharacterSet { .. } => true,
        Assignment::Transaction(setting) => setting.scope == TransactionScope::Session,
        Assignment::Password | Assignment::DefaultRole => false,
    };
    match &*analysis.effects {
        [Effect::Set(assignments)] => is_own_set(analysis) && assignments.iter().all(is_plain),
        _ => false,
    }
}

/// Whether a text is one `SET` without expressions, so that it can't begin a transaction.
fn reads_no_table(analysis: &Analysis) -> bool {
    let is_expression = |assignment: &Assignment| {
        matches!(assignment, Assignment::Variable { value: Value::Expression(_), .. })
    };
    match &*analysis.effects {
        [Effect::Set(assignments)] => {
            is_plain_set(analysis) && !assignments.iter().any(is_expression)
        }
        _ => false,
    }
}

/// Whether a statement has ended its session: `COMMIT RELEASE` or `ROLLBACK RELEASE`, by itself or
/// as `completion_type` says. Its server closes the connection behind the answer.
fn is_released(session: &Session, statement: &Statement, outcome: &Outcome) -> bool {
    let Some(known) = statement.meaning.known.as_ref().filter(|_| outcome.error.is_none()) else {
        return false;
    };
    let is_run = matches!(statement.command.purpose, Purpose::Query | Purpose::Execute);
    match known.analysis.transaction {
        TransactionEffect::Commit { release, chain }
        | TransactionEffect::Rollback { release, chain } => {
            is_run && release.unwrap_or_else(|| !chain && releases_by_default(session))
        }
        TransactionEffect::None
        | TransactionEffect::Begin { .. }
        | TransactionEffect::ImplicitCommit
        | TransactionEffect::SetAutocommit(_) => false,
    }
}

/// Whether the session has set what `RELEASE` does for each end of a transaction whose text says
/// neither that nor `NO RELEASE`.
fn releases_by_default(session: &Session) -> bool {
    let value = session.settings.state.variable("completion_type");
    value.is_some_and(|value| is_word_or(value, b"RELEASE", 2))
}

/// Whether a server closes the connection behind this error: it shuts down, was told to, or what
/// came was not to be read.
///
/// Source: MySQL's and MariaDB's error references (`ER_SERVER_SHUTDOWN`, `ER_NET_…`,
/// `ER_NEW_ABORTING_CONNECTION`, `ER_CONNECTION_KILLED`, `ER_SESSION_WAS_KILLED`,
/// `ER_CLIENT_INTERACTION_TIMEOUT`).
pub(super) fn ends_connection(code: u16) -> bool {
    matches!(code, 1053 | 1152 | 1153 | 1156..=1161 | 1184 | 1927 | 3169 | 4031)
}

/// Whether a session ends with this answer, which its client is told before. Where the server
/// closes the connection behind it, nobody else gets that.
#[inline]
pub(super) fn ends_session(
    client: &Client,
    conn: &mut Conn,
    statement: &Statement,
    outcome: &Outcome,
) -> bool {
    let session = &*client.session;
    // Packets of its file are still to come, and none of them is a command.
    let is_in_file = matches!(statement.beside.upload, Upload::Sending { .. });
    let is_over = is_in_file || is_released(session, statement, outcome);
    let is_broken = outcome.error.as_ref().is_some_and(|error| ends_connection(error.code));
    // As behind a statement that is lost: what is sent behind it is meant for a session in
    // which it has run.
    let is_followed = is_broken
        && !statement.meaning.is_read
        && !may_be_signalled(session, conn.id, statement)
        && (client.has_sent_ahead() || makes_state(statement, session));
    conn.holder.close_on_release |= is_over || is_broken;
    is_over || is_followed
}

/// Whether the error of a statement may be one that a procedure, function or trigger has signalled,
/// with whatever code. Its session holds the connection then: where the error is the server's own,
/// the end of the connection follows, and is the session's.
fn may_be_signalled(session: &Session, conn: ConnId, statement: &Statement) -> bool {
    let hides = !statement.meaning.proof.hidden.is_plain();
    let runs_code = |known: &Known| runs_unseen_code(&known.analysis);
    let holds =
        |lease: &Lease| lease.conn == conn && lease.pins.has_other_than(&[PinReason::Warnings]);
    (hides || statement.meaning.known.as_deref().is_some_and(runs_code))
        && session.leases.iter().any(holds)
}

impl Core {
    /// Notes which statement pinned a session.
    pub(super) fn note_pins(
        &mut self,
        client: &mut Client,
        conn_id: ConnId,
        statement: &Statement,
    ) {
        let now_us = self.env.now.us;
        let Some(lease) = client.session.lease_mut(conn_id) else {
            return;
        };
        if lease.pins.is_empty() {
            lease.pinned_by = None;
            return;
        }
        if lease.pinned_by.is_none() {
            let statement = PinningStatement::of(statement.meaning.known.as_ref());
            lease.pinned_by = Some(PinnedBy { statement, since_us: now_us });
        }
    }

    /// What a statement has given a value on this connection is an older value on the session's
    /// others: nothing reads it there any more, so it does not hold the session there.
    pub(super) fn outdate_variables(
        &mut self,
        client: &mut Client,
        here: ConnId,
        analysis: &Analysis,
    ) {
        let session = &mut *client.session;
        if session.leases.len() <= 1 {
            return;
        }
        let mut freed = Vec::new();
        for lease in session.leases.iter_mut().filter(|lease| lease.conn != here) {
            let was_pinned = !lease.pins.is_empty();
            for name in assigned_variables(analysis) {
                lease.pins.unpin_name(PinReason::UserVariable, name);
            }
            if was_pinned && lease.pins.is_empty() {
                freed.push(lease.conn);
            }
        }
        for conn in freed {
            self.with_conn(conn, |core, conn| core.settle_lease(client, conn));
        }
    }

    /// A server accepted a `SET` (see [`is_own_set`]) without a word: said again in the same
    /// state it changes nothing.
    pub(super) fn remember_set(
        &mut self,
        client: &mut Client,
        conn: &mut Conn,
        statement: &Statement,
        outcome: &Outcome,
        before: &Arc<SessionState>,
    ) {
        let is_set = statement.command.purpose == Purpose::Query;
        let is_silent = outcome.error.is_none() && outcome.warnings == 0;
        if !is_set || !is_silent {
            return;
        }
        let is_free = |lease: &Lease| lease.conn == conn.id && lease.pins.is_empty();
        let session = &mut *client.session;
        if !session.leases.iter().any(is_free) || statement.command.frames.len() > SET_LEN_MAX {
            return;
        }
        session.remember_set(text_hash(
            statement.command.frames.get(HEADER_LEN..).unwrap_or_default(),
        ));
        // The server need not be asked whether it accepts the same from the proxy.
        let change = difference(before, &session.settings.state, conn.server.flavor);
        if let Difference::Sync(Sync { set: Some(text), .. }) = change {
            self.servers.prove(conn, text_hash(&text));
        }
    }

    /// Frees a connection that its session leaves. What no reset takes back goes with the
    /// connection. `lent`: the connection that is lent, if one is.
    pub(crate) fn free_lease(
        &mut self,
        client: &mut Client,
        lease: &Lease,
        lent: Option<&mut Conn>,
    ) {
        if !lease.pins.survive_reset() {
            self.with_conn_or(lent, lease.conn, |core, conn| {
                core.free_after_session(conn, Some(client));
            });
            return;
        }
        self.with_conn_or(lent, lease.conn, Self::drop_conn);
        // Its place under the cap is somebody else's now.
        self.fx.wake(Wake::Queue(lease.hostgroup));
    }
}

/// A longer `SET` is not remembered, bytes: it is sent each time.
const SET_LEN_MAX: usize = 64 * 1024;

impl Exchange {
    /// Answers a `SET` that a server has accepted from this session before and that changes
    /// nothing. False for any other statement, and for a session that is held on a connection.
    #[inline]
    pub(crate) fn answer_repeated_set(
        &mut self,
        client: &mut Client,
        statement: &Statement,
    ) -> bool {
        match statement.meaning.known.as_ref().filter(|known| is_left_out(&known.analysis)) {
            Some(known) => self.answer_left_out(client, statement, known),
            None => false,
        }
    }

    #[inline(never)]
    fn answer_left_out(
        &mut self,
        client: &mut Client,
        statement: &Statement,
        known: &Known,
    ) -> bool {
        let session = &mut *client.session;
        if statement.command.frames.len() > SET_LEN_MAX {
            return false;
        }
        let text = text_hash(statement.command.frames.get(HEADER_LEN..).unwrap_or_default());
        if statement.command.attributes.is_some() || sets_trackers(&known.analysis.effects) {
            return false;
        }
        if !session.leases.is_empty() || !session.settings.accepted_sets.contains(&text) {
            return false;
        }
        let mut pins = Pins::default();
        let (state, silent) = (&session.settings.state, Outcome::default());
        let applied =
            apply_outcome(state, &mut pins, Some(&known.analysis), &silent, Trust::Nothing);
        if applied.state.is_some() || !pins.is_empty() {
            return false;
        }
        // As behind any `SET`, nothing of the statements before is left to be read.
        session.last_conn = None;
        session.past.learn(statement, &silent, self.core.env.greeting.flavor(), None, false);
        self.core.fx.stats.counters.statements_answered += 1;
        self.sample(client, statement, None, None, None);
        self.core.answer_ok(client);
        true
    }
}

/// Errors of statements that have not begun: there is no such schema, table or column, or no right
/// to it.
const NOT_BEGUN: [u16; 11] = [1044, 1045, 1046, 1049, 1052, 1054, 1064, 1136, 1142, 1143, 1146];

/// Whether a statement that failed may have run as far as a trigger or a view.
pub(super) fn may_have_run(error: &trunkline_protocol::response::ServerError) -> bool {
    !NOT_BEGUN.contains(&error.code)
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    #[test]
    fn only_what_ends_a_transaction_by_name_gives_up_what_it_was_begun_with() {
        let gives_up =
            |text: &str| gives_up_beginning(&analyse(text.as_bytes(), &Modes::default()));
        for text in ["COMMIT", "ROLLBACK", "BEGIN", "CREATE TABLE t (a INT)"] {
            assert!(gives_up(text), "{text}");
        }
        for text in ["SET autocommit = 1", "SELECT 1", "COMMIT; SELECT 1", "SET @a = 1"] {
            assert!(!gives_up(text), "{text}");
        }
    }
}
