//! What rules ask of a causal read.

use trunkline_rules::Effects;
use trunkline_topology::{HostgroupId, causal::CausalReads};

/// What rules ask of a causal read, where they ask for anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CausalOrder {
    /// Which writes it has to see.
    pub(crate) reads: Option<CausalReads>,
    /// The hostgroup in which these were (`gtid_from_hostgroup`).
    pub(crate) from: Option<HostgroupId>,
}

impl CausalOrder {
    /// The scope in which a read is causal, where its user, its hostgroup or the settings say this.
    pub(crate) fn scope(self, said: CausalReads) -> CausalReads {
        match (self.reads, self.from) {
            (Some(reads), _) => reads,
            // As in ProxySQL: what the session itself has seen there.
            (None, Some(_)) if matches!(said, CausalReads::Off) => CausalReads::Session,
            (None, _) => said,
        }
    }

    /// With what later rules say.
    pub(crate) fn with_effects(self, effects: &Effects) -> Self {
        Self {
            reads: effects.causal_reads.or(self.reads),
            from: effects.gtid_from_hostgroup.or(self.from),
        }
    }
}
