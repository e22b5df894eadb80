//! Transactions of one session on several connections: without autocommit, where rules take
//! statements out of transactions (`transaction_persistent = false`), each hostgroup has its own.

use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{Analysis, TransactionEffect};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::Lease,
    routing::{
        decide::{Held, Refusal},
        follow::is_of_reads,
    },
};

/// Whether a statement ends transactions and does nothing else.
pub(super) fn ends_transactions(analysis: &Analysis) -> bool {
    use TransactionEffect as Tx;
    let ends = match analysis.transaction {
        Tx::Commit { .. } | Tx::Rollback { .. } => true,
        Tx::SetAutocommit(value) => value != Some(false),
        Tx::None | Tx::Begin { .. } | Tx::ImplicitCommit => false,
    };
    ends && analysis.statements == 1
}

fn is_open(lease: &&Lease) -> bool {
    lease.pins.has(PinReason::Transaction)
}

/// What ends a transaction ends all that its session has: it goes to the one that has written, and
/// the others are given up, which have only read (or are rolled back with it). The hostgroup that
/// it goes to, whatever rules say; `None` where nothing is to be said.
///
/// # Errors
/// Why it is refused: several have written, or one of those to be given up holds more.
#[inline]
pub(super) fn ended(
    session: &Held<'_>,
    analysis: &Analysis,
) -> Result<Option<HostgroupId>, Refusal> {
    match ends_transactions(analysis) && session.leases().filter(is_open).count() > 1 {
        true => ended_of_several(session, analysis),
        false => Ok(None),
    }
}

#[cold]
fn ended_of_several(
    session: &Held<'_>,
    analysis: &Analysis,
) -> Result<Option<HostgroupId>, Refusal> {
    let open = || session.leases().filter(is_open);
    let is_rollback = matches!(analysis.transaction, TransactionEffect::Rollback { .. });
    let mut writers = open().filter(|lease| lease.has_written);
    let kept = writers.next().or_else(|| open().next()).map(|lease| lease.hostgroup);
    if let (Some(one), Some(other), false) = (kept, writers.next(), is_rollback) {
        return Err(Refusal::TwoHaveWritten(one, other.hostgroup));
    }
    let is_own = |reason| {
        reason == PinReason::Transaction || reason == PinReason::Rule || is_of_reads(reason)
    };
    for lease in open().filter(|lease| Some(lease.hostgroup) != kept) {
        if let Some(held) = lease.pins.reasons().find(|reason| !is_own(*reason)) {
            return Err(Refusal::HeldBeside(lease.hostgroup, held));
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use trunkline_sql::{analysis::analyse, token::Modes};

    use super::*;

    #[test]
    fn only_what_ends_a_transaction_by_itself_ends_all() {
        let ends = |text: &str| ends_transactions(&analyse(text.as_bytes(), &Modes::default()));
        for text in ["COMMIT", "ROLLBACK", "SET autocommit = 1", "SET autocommit = @a"] {
            assert!(ends(text), "{text}");
        }
        for text in ["BEGIN", "SET autocommit = 0", "ROLLBACK TO x", "CREATE TABLE t (a INT)"] {
            assert!(!ends(text), "{text}");
        }
    }
}
