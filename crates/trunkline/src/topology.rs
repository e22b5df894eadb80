//! `trunkline topology`.

use std::{
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use trunkline_stats::Topology;

use crate::{cli::StatusArgs, paint::painted, status::ask};

/// Asks the running proxy for its clusters and shows them.
pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    ask(&args.proxy, "/api/v1/topology", args.json, |body| {
        let topology: Topology = serde_json::from_str(body)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        Ok(painted(&trunkline_admin::topology_text(&topology, now)))
    })
}
