//! Which writes a read has to see, in words.

use trunkline_config::Snapshot;
use trunkline_rules::Effects;
use trunkline_sql::hint::Hints;
use trunkline_topology::{HostgroupId, User, causal::CausalReads};

use super::Rows;
use crate::causal::{hints, order::CausalOrder};

/// Which writes a statement has to see that goes to this hostgroup, where that is of replicas.
pub(super) fn scope(
    out: &mut Rows,
    snapshot: &Snapshot,
    user: &User,
    (effects, hints): (&Effects, Option<&Hints>),
    hostgroup: HostgroupId,
) {
    let Some(readers) = snapshot.causal.readers(hostgroup) else { return };
    if !snapshot.has_causal_reads {
        return;
    }
    let mut order = CausalOrder::default().with_effects(effects);
    let hinted = hints.map_or(Ok(None), hints::scope);
    match hinted {
        Ok(reads) => order.reads = reads.or(order.reads),
        Err(wrong) => return out.push("causal reads", format!("error 1148 (42000): {wrong}")),
    }
    let scope = order.scope(snapshot.causal_reads(user, hostgroup));
    let from = order.from.or(readers.writer);
    let writer = from.map_or_else(|| "no hostgroup".to_owned(), |id| format!("hostgroup {id}"));
    let words = match scope {
        CausalReads::Off => "off: it sees what the replica has".to_owned(),
        CausalReads::Session => {
            format!("what this session has written ({})", there(order, &writer))
        }
        CausalReads::User => {
            format!("what this user's sessions have written ({})", there(order, &writer))
        }
        CausalReads::Hostgroup => format!("what anybody has written in {writer}"),
        CausalReads::Global => {
            format!("what anybody has written ({})", there(order, &writer))
        }
        CausalReads::Bounded(age_ms) => format!("all that is older than {age_ms} ms"),
    };
    let name = match scope {
        CausalReads::Off => String::new(),
        other => format!("{other}: "),
    };
    out.push("causal reads", format!("{name}{words}"));
    let Some(hints) = hints else { return };
    if let Some(gtid) = &hints.min_gtid {
        let gtid = String::from_utf8_lossy(gtid);
        out.push("causal reads", format!("and the transactions {gtid}, as a comment says"));
    }
    if let Some(token) = &hints.token {
        let token = String::from_utf8_lossy(token);
        out.push("causal reads", format!("and what the token {token} names, as a comment says"));
    }
    if let Some(age_ms) = hints.max_lag_ms {
        let words = format!("and all that is older than {age_ms} ms, as a comment says");
        out.push("causal reads", words);
    }
}

/// Where that was.
fn there(order: CausalOrder, writer: &str) -> String {
    match order.from {
        Some(_) => format!("in {writer}"),
        None => format!("on the servers of {writer}"),
    }
}
