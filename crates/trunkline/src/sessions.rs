//! `trunkline sessions`.

use std::process::ExitCode;

use anyhow::Result;
use trunkline_stats::SessionList;

use crate::{cli::SessionsArgs, status::ask};

/// Asks the running proxy for its sessions and shows them.
pub fn run(args: &SessionsArgs) -> Result<ExitCode> {
    let path = format!("/sessions?limit={}&pinned={}", args.limit, u8::from(args.pinned));
    ask(&args.proxy, &path, args.json, |body| {
        let list: SessionList = serde_json::from_str(body)?;
        Ok(trunkline_admin::sessions_text(&list))
    })
}
