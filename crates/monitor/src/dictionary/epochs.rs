//! Notices that a group's servers may be others than before: one was shunned, came back, was added
//! or taken away.

use std::collections::HashMap;

use trunkline_config::Snapshot;
use trunkline_topology::{HostgroupId, ServerKey};

use super::account::servers_of;

/// What was seen of each group's servers.
#[derive(Default)]
pub(super) struct Epochs {
    seen: HashMap<HostgroupId, Vec<(ServerKey, u32)>>,
}

impl Epochs {
    /// Groups whose servers have changed since the last look.
    pub(super) fn look(&mut self, snapshot: &Snapshot) -> Vec<HostgroupId> {
        let mut changed = Vec::new();
        let mut seen = HashMap::new();
        let is_reader = |id: HostgroupId| {
            let mut groups = snapshot.replication.iter();
            groups.any(|it| it.reader_hostgroup == id && it.writer_hostgroup != id)
        };
        for id in snapshot.hostgroups.keys().copied().filter(|id| !is_reader(*id)) {
            let servers = servers_of(snapshot, id);
            let epochs = servers.iter().map(|it| (it.key.clone(), it.health.epoch())).collect();
            if self.seen.get(&id).is_some_and(|before| *before != epochs) {
                changed.push(id);
            }
            seen.insert(id, epochs);
        }
        self.seen = seen;
        changed
    }
}
