//! Transactions that only read, on a reader: they stay there as long as all that is said in them is
//! proven to read.
//!
//! What ends such a transaction for something that may write goes to the writer, and so does what
//! may act from within (a lock that is taken by name, a view that calls what is not known, an
//! `INSERT` that is to be refused). Both take the transaction with them: it begins anew on the
//! writer, in the same write, and what is read from then on is what is there by then. The writer
//! ends it where the statement does.

use trunkline_catalog::{Hidden, Proof};
use trunkline_pool::ConnId;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_session::tracker::PinReason;
use trunkline_sql::{
    analysis::{Analysis, Depends, Effect, StatementKind, TableAccess, TransactionEffect},
    set::{Assignment, Scope, Value},
};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Lease,
    routing::{
        decide::{Aim, Case, Held, Refusal},
        follow::is_of_reads,
    },
};

pub(crate) const BEGIN: &[u8] = b"START TRANSACTION READ ONLY";

/// What becomes of a transaction that only reads, on a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It stays, or there is none.
    Not,
    /// It begins anew on the writer. It goes on where it is until the writer has a connection.
    BeginsAnew,
    /// The statement ends it: this connection is given up.
    Ends(ConnId),
}

/// A transaction that only reads, on a reader, ends with what begins another that may write,
/// locks tables or commits by itself; with what may act otherwise it goes to the writer.
/// Nothing is lost on the reader, so that the reset of its connection is as good as a `COMMIT`.
/// `named` is the hostgroup that rules and hints name: what they send to the readers stays.
///
/// # Errors
/// Where the session holds more there than the transaction, what ends it would write there.
#[inline]
pub(super) fn leaves_reader(
    case: &Case<'_>,
    session: &Held<'_>,
    analysis: &Analysis,
    named: Option<HostgroupId>,
) -> Result<Leaving, Refusal> {
    match session.leases().any(|lease| lease.only_reads) {
        true => leaves(case, session, analysis, named),
        false => Ok(Leaving::Not),
    }
}

fn leaves(
    case: &Case<'_>,
    session: &Held<'_>,
    analysis: &Analysis,
    named: Option<HostgroupId>,
) -> Result<Leaving, Refusal> {
    let may_end = ends_for_writer(analysis, session.flavor);
    if !may_end && !may_act(analysis, case.proof) && !may_write_behind(analysis) {
        return Ok(Leaving::Not);
    }
    // What is only prepared ends nothing yet.
    if may_end && case.aim != Aim::Run {
        return Ok(Leaving::Not);
    }
    let home = case.user.default_hostgroup;
    let is_there = |lease: &&Lease| {
        lease.hostgroup != home && lease.only_reads && lease.pins.has(PinReason::Transaction)
    };
    let lease = session.leases().find(is_there);
    let Some(lease) = lease.filter(|lease| named != Some(lease.hostgroup)) else {
        return Ok(Leaving::Not);
    };
    if unlocks_nothing(analysis, session) {
        return Ok(Leaving::Not);
    }
    // Of several statements one that comes before the end may fail: then it goes on.
    let ends = may_end && analysis.statements == 1;
    let is_own = |reason| reason == PinReason::Transaction || is_of_reads(reason);
    let is_given_back = |reason: PinReason| is_own(reason) || ends && reason == PinReason::Rule;
    let other = lease.pins.reasons().find(|reason| !is_given_back(*reason));
    if let Some(held) = other.filter(|_| may_end) {
        return Err(Refusal::HeldOnReader(held));
    }
    if ends {
        // The writer says whether it does: a syntax error ends nothing.
        let may_move = named.is_none() && !lease.pins.has(PinReason::Rule);
        return Ok(match may_move && analysis.kind != StatementKind::UnlockTables {
            true => Leaving::BeginsAnew,
            false => Leaving::Ends(lease.conn),
        });
    }
    // Where rules take statements out of transactions, the transaction stays where it is; and so
    // does one beside which the session holds more.
    let may_move = named.is_none() || case.user.transaction_persistent;
    Ok(if other.is_none() && may_move { Leaving::BeginsAnew } else { Leaving::Not })
}

/// Whether a transaction that only reads, and of which no server knows yet, is to be on the writer
/// instead of a reader: its first statement ends it for something that may write, or may act from
/// within.
pub(super) fn leaves_before(analysis: &Analysis, proof: Proof, aim: Aim, flavor: Flavor) -> bool {
    ends_for_writer(analysis, flavor) && aim == Aim::Run
        || may_act(analysis, proof)
        || may_write_behind(analysis)
}

/// Whether it is an `UNLOCK TABLES` where the session has locked none: it holds this transaction
/// only, which would have ended with a lock. Servers commit nothing then (MySQL 9.7 and MariaDB
/// 10.11).
fn unlocks_nothing(analysis: &Analysis, session: &Held<'_>) -> bool {
    let only_unlocks = analysis.kind == StatementKind::UnlockTables && analysis.statements == 1;
    only_unlocks && session.leases().count() == 1
}

/// Whether a statement may do something besides reading, also where data can't be changed, or
/// leaves in the session what later writes may ask for: its place is the writer.
fn may_act(analysis: &Analysis, proof: Proof) -> bool {
    use StatementKind as Kind;
    if proof.reads || analysis.transaction != TransactionEffect::None {
        return false;
    }
    let acts = |effect: &Effect| {
        matches!(
            effect,
            Effect::GetLock(_)
                | Effect::ReleaseLock(_)
                | Effect::ReleaseAllLocks
                | Effect::SequenceAdvanced
                | Effect::ExecuteStatement(_)
                | Effect::BackupLock(_)
                | Effect::Call
                | Effect::LoadData { .. }
                | Effect::UserVariableAssigned(_)
                | Effect::LastInsertIdAssigned
                | Effect::PrepareStatement { .. }
                | Effect::CreateTemporaryTable(_)
                | Effect::HandlerOpen(_)
                | Effect::OtherSession(_)
                | Effect::Savepoint
        ) || matches!(effect, Effect::Set(assignments) if assignments.iter().any(is_computed))
    };
    let changes = matches!(
        analysis.kind,
        Kind::Insert
            | Kind::Replace
            | Kind::Update
            | Kind::Delete
            | Kind::SelectForUpdate
            | Kind::Call
    );
    changes
        || analysis.effects.iter().any(acts)
        || analysis.depends.contains(Depends::UNKNOWN_FUNCTION)
        || analysis.locks_or_exports
        || acts_behind_names(proof.hidden)
}

/// Whether a statement only looks at something, be it the server or the session that it runs in:
/// no harm is done where it runs on a reader.
pub(crate) fn only_looks(analysis: &Analysis, proof: Proof) -> bool {
    use StatementKind as Kind;
    let looks = matches!(
        analysis.kind,
        Kind::Select | Kind::Show | Kind::ShowTableStatus | Kind::Explain | Kind::Describe
    );
    proof.reads
        || looks
            && analysis.statements == 1
            && analysis.transaction == TransactionEffect::None
            && !may_act(analysis, proof)
}

/// Whether what stands behind names may do so: a view that calls a function.
fn acts_behind_names(hidden: Hidden) -> bool {
    [Hidden::WRITES, Hidden::LEAVES, Hidden::STAYS].into_iter().any(|what| hidden.may(what))
}

/// Whether a variable gets a value that only the server knows, or one for all sessions.
fn is_computed(assignment: &Assignment) -> bool {
    matches!(assignment, Assignment::Variable { scope, value, .. }
        if !matches!(value, Value::Literal(_))
            || matches!(scope, Scope::Global | Scope::Persist | Scope::PersistOnly))
}

/// Whether one of several statements begins a transaction, so that others may write in it.
fn may_write_behind(analysis: &Analysis) -> bool {
    let begins =
        |effect: &Effect| matches!(effect, Effect::Transaction(TransactionEffect::Begin { .. }));
    analysis.statements > 1 && analysis.effects.iter().any(begins) && !only_names_reads(analysis)
}

/// Whether all tables of a text are known, and only read.
fn only_names_reads(analysis: &Analysis) -> bool {
    let references = &analysis.references;
    references.is_whole && references.tables.iter().all(|table| table.access == TableAccess::Read)
}

/// Whether a text ends what is open, and what it does then may need the writer.
fn ends_for_writer(analysis: &Analysis, flavor: Flavor) -> bool {
    use TransactionEffect as Tx;
    // Measured on MySQL 9.7: within a transaction that only reads, another one that does not say
    // how it begins only reads too. On MariaDB 10.11 it may write.
    let begins_to_write = |transaction: Tx| match transaction {
        Tx::Begin { read_only, read_write, .. } => match flavor {
            Flavor::MySql => read_write,
            Flavor::MariaDb => !read_only,
        },
        _ => false,
    };
    if analysis.effects.contains(&Effect::LockTables) {
        return true;
    }
    if analysis.statements == 1 {
        let transaction = analysis.transaction;
        return begins_to_write(transaction) || transaction == Tx::ImplicitCommit;
    }
    // Of several statements those behind the end may write, unless all are known to read.
    let reads = only_names_reads(analysis);
    analysis.effects.iter().any(|effect| match effect {
        Effect::Transaction(begin @ Tx::Begin { .. }) => begins_to_write(*begin),
        Effect::Transaction(Tx::ImplicitCommit | Tx::SetAutocommit(_)) => true,
        Effect::Transaction(Tx::Commit { .. } | Tx::Rollback { .. }) => !reads,
        _ => false,
    })
}

#[cfg(test)]
mod tests;
