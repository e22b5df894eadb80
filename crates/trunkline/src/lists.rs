//! `trunkline servers`, `digests`, `rules` and `tenants`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Deserialize;
use trunkline_admin::status::lists::{digests_text, rules_text, servers_text, tenants_text};
use trunkline_stats::{DigestRow, Report};

use crate::{
    cli::{DigestsArgs, ListArgs},
    status::{ask, ask_for},
};

/// Servers with their connections, statements and latency.
pub fn run_servers(args: &ListArgs) -> Result<ExitCode> {
    let json = |report: &Report| serde_json::to_string(&report.servers);
    ask_for(&args.proxy, "/status", args.json, json, |report: &Report| servers_text(report))
}

/// Rules with their hits.
pub fn run_rules(args: &ListArgs) -> Result<ExitCode> {
    let json = |report: &Report| serde_json::to_string(&report.rule_hits);
    ask_for(&args.proxy, "/status", args.json, json, |report: &Report| rules_text(report))
}

/// Tenants with what they have used.
pub fn run_tenants(args: &ListArgs) -> Result<ExitCode> {
    let json = |report: &Report| serde_json::to_string(&report.tenants);
    ask_for(&args.proxy, "/status", args.json, json, |report: &Report| tenants_text(report))
}

/// A page of `/status/digests`.
#[derive(Deserialize)]
struct Page {
    digests: Vec<DigestRow>,
}

/// Statements by digest.
pub fn run_digests(args: &DigestsArgs) -> Result<ExitCode> {
    let path = format!("/status/digests?limit={}&order={}", args.limit, args.order);
    ask(&args.proxy, &path, args.json, |body| {
        let page: Page = serde_json::from_str(body)?;
        Ok(digests_text(&page.digests))
    })
}
