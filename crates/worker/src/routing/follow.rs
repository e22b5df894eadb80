//! The connection that a statement follows its session to, where no hostgroup is named for it.

use trunkline_catalog::Proof;
use trunkline_session::tracker::PinReason;
use trunkline_sql::{
    analysis::{Analysis, Depends, Effect, StatementKind},
    set::{Assignment, Scope},
};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Lease,
    routing::{decide::Held, read_only::only_looks},
};

/// Why a statement follows its session to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// It reads what the last statement left there.
    LastStatement,
    /// It gives back, or asks for, what is held there.
    GivesBack,
    /// The session's next transaction was spoken of there.
    NextTransaction,
    /// The session is held there.
    Held,
}

/// Of the connections that a session holds, the one for a statement that no rule sends anywhere:
/// where its last statement ran, for one that reads what that left; else where there is what it
/// gives back, a lock; else where its next transaction is spoken of; else the writer, where it
/// holds more than what reads left there; else the first that does. What may write follows nothing
/// to where `may_write_at` says no: rules may have sent the session to a reader there. `home` is
/// the user's own hostgroup, and `is_read` says that the statement only reads and begins nothing.
pub(super) fn followed<'a>(
    session: &Held<'a>,
    home: HostgroupId,
    analysis: Option<&Analysis>,
    is_read: bool,
    may_write_at: impl Fn(HostgroupId) -> bool,
) -> Option<(&'a Lease, Follows)> {
    let may_write_at = |lease: &&Lease| may_write_at(lease.hostgroup);
    let left = [Depends::ROW_COUNT, Depends::FOUND_ROWS, Depends::DIAGNOSTICS];
    let reads = |what| analysis.is_some_and(|analysis| analysis.depends.contains(what));
    let reads_last = left.into_iter().any(reads);
    let last_conn = session.last_conn.filter(|_| reads_last);
    let may_follow = |lease: &&Lease| is_read || may_write_at(lease);
    let last = session.leases().find(|lease| Some(lease.conn) == last_conn);
    let last = last.filter(may_follow);
    // Of two, the one that has what it gives back.
    let ends = analysis.and_then(given_back);
    let gives_back = |lease: &&Lease| ends.is_some_and(|reason| lease.pins.has(reason));
    let ended = session.leases().find(gives_back);
    let binds = |lease: &&Lease| may_write_at(lease) || is_read && !holds_reads_only(lease);
    // What `SET TRANSACTION` said is of the next one, wherever else the session is held.
    let awaits = |lease: &&Lease| lease.pins.has(PinReason::NextTransaction);
    let next = session.leases().find(awaits).filter(may_follow);
    // A transaction may be open on the writer that no reply told of: a `CALL` that failed.
    let holds_writer = |lease: &&Lease| may_write_at(lease) && !holds_reads_only(lease);
    // What it did of itself it did on its user's own hostgroup, where nothing else sent it.
    let is_home = |lease: &&Lease| lease.hostgroup == home;
    let holding = || session.leases().filter(holds_writer);
    let writer = || holding().find(is_home).or_else(|| holding().next());
    let held = || writer().or_else(|| session.leases().find(binds));
    last.map(|lease| (lease, Follows::LastStatement))
        .or(ended.map(|lease| (lease, Follows::GivesBack)))
        .or(next.map(|lease| (lease, Follows::NextTransaction)))
        .or_else(|| held().map(|lease| (lease, Follows::Held)))
}

/// Whether a statement does no harm on a server of which nobody says that it may be written to.
pub(super) fn does_not_write(analysis: Option<&Analysis>, proof: Proof) -> bool {
    analysis.is_some_and(|it| only_looks(it, proof) || sets_user_variables(it))
}

/// Whether a statement gives values to user variables and can do nothing else.
fn sets_user_variables(analysis: &Analysis) -> bool {
    let is_of_user = |assignment: &Assignment| {
        matches!(assignment, Assignment::Variable { scope: Scope::UserVariable, .. })
    };
    analysis.kind == StatementKind::Set
        && analysis.statements == 1
        && analysis.is_complete
        && analysis.references.is_whole
        && analysis.references.tables.is_empty()
        && !analysis.depends.contains(Depends::UNKNOWN_FUNCTION)
        && matches!(&*analysis.effects, [Effect::Set(all)] if all.iter().all(is_of_user))
}

/// What a statement gives back, or asks for.
fn given_back(analysis: &Analysis) -> Option<PinReason> {
    let given = analysis.effects.iter().find_map(|effect| match effect {
        Effect::UnlockTables => Some(PinReason::TableLock),
        // One that is named is released by a statement that does nothing else.
        Effect::ReleaseLock(Some(_)) | Effect::ReleaseAllLocks => Some(PinReason::NamedLock),
        Effect::DropTable { temporary: true, .. } => Some(PinReason::TemporaryTable),
        Effect::HandlerClose(_) => Some(PinReason::Handler),
        Effect::Xa(_) => Some(PinReason::Xa),
        _ => None,
    });
    given.or(analysis.depends.contains(Depends::SEQUENCE).then_some(PinReason::Sequence))
}

/// Whether all that holds a session on a connection is what reads left: rows to be fetched, counts
/// and warnings.
fn holds_reads_only(lease: &Lease) -> bool {
    lease.pins.reasons().all(|reason| reason == PinReason::Cursor || is_of_reads(reason))
}

/// Whether it is a count or a warning that a read left, or only a doubt about its names: nothing
/// goes elsewhere for that.
pub(super) fn is_of_reads(reason: PinReason) -> bool {
    matches!(reason, PinReason::FoundRows | PinReason::Warnings | PinReason::UnknownName)
}
