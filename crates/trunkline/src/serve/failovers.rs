//! What failovers need beside the servers: the operator's program for fencing, and the file that
//! notes them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use trunkline_admin::event_script;
use trunkline_monitor::{Aids, FenceRequest};

use crate::serve::supervisor::Parts;

/// What is behind the state file's path in that of the file for failovers.
const SUFFIX: &str = ".failovers";

/// What failovers need.
pub(super) fn aids(parts: &Parts) -> Aids {
    let (snapshots, board) = (parts.snapshots.subscribe(), Arc::clone(&parts.board));
    let fence = move |request: FenceRequest| {
        let snapshot = Arc::clone(&snapshots.borrow());
        let topology = board.topology();
        let fencing = async move {
            let FenceRequest { cluster, server } = request;
            event_script::fence(cluster, server, &topology, &snapshot.settings).await
        };
        Box::pin(fencing) as _
    };
    Aids::new(Box::new(fence), parts.state_file.as_deref().map(beside))
}

fn beside(state_file: &Path) -> PathBuf {
    let mut name = state_file.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}
