//! Transactions of one session on several connections: without autocommit, where rules take
//! statements out of transactions (`transaction_persistent = false`), each hostgroup has its own.

use trunkline_session::tracker::PinReason;
use trunkline_sql::analysis::{Analysis, TransactionEffect};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::{Client, Lease, Session},
    rooms::Core,
    routing::route::is_of_reads,
};

/// Whether a statement ends transactions and does nothing else.
fn ends_transactions(analysis: &Analysis) -> bool {
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

/// The hostgroup whose transaction is to be ended by the statement itself.
///
/// # Errors
/// Why the statement is refused: it would end one of two that have written.
fn ended_by(session: &Session, analysis: &Analysis) -> Result<Option<HostgroupId>, String> {
    let open = || session.leases.iter().filter(is_open);
    let is_rollback = matches!(analysis.transaction, TransactionEffect::Rollback { .. });
    let mut writers = open().filter(|lease| lease.has_written);
    let first = writers.next().or_else(|| open().next()).map(|lease| lease.hostgroup);
    match (first, writers.next()) {
        (Some(one), Some(other)) if !is_rollback => Err(format!(
            "transactions have written in hostgroups {one} and {}, and can't be committed as one: \
             roll back, or set transaction_persistent for this user",
            other.hostgroup
        )),
        (first, _) => Ok(first),
    }
}

impl Core {
    /// What ends a transaction ends all that its session has: it goes to the one that has written,
    /// and the others are given up, which have only read (or are rolled back with it). The
    /// hostgroup that it goes to, whatever rules say; `None` where nothing is to be said.
    ///
    /// # Errors
    /// Why it is refused: several have written, or one of those to be given up holds more.
    pub(super) fn end_transactions(
        &mut self,
        client: &mut Client,
        analysis: &Analysis,
    ) -> Result<Option<HostgroupId>, String> {
        if !ends_transactions(analysis) {
            return Ok(None);
        }
        let Some(session) = client.session.as_mut() else { return Ok(None) };
        if session.leases.iter().filter(is_open).count() < 2 {
            return Ok(None);
        }
        let kept = ended_by(session, analysis)?;
        let is_other = |lease: &Lease| is_open(&lease) && Some(lease.hostgroup) != kept;
        let is_own = |reason| {
            reason == PinReason::Transaction || reason == PinReason::Rule || is_of_reads(reason)
        };
        for lease in session.leases.iter().filter(|lease| is_other(lease)) {
            if let Some(held) = lease.pins.reasons().find(|reason| !is_own(*reason)) {
                return Err(format!(
                    "transactions are open in several hostgroups, and in {} the session holds a \
                     {}: give that back first",
                    lease.hostgroup,
                    held.name()
                ));
            }
        }
        let given_up: Vec<Lease> = session.leases.extract_if(.., |lease| is_other(lease)).collect();
        for lease in &given_up {
            self.free_lease(client, lease);
        }
        Ok(kept)
    }
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
