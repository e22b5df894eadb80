//! `trunkline explain`: the way of one statement, without sending it.

mod effects;
mod rules;

use std::{
    fmt::{self, Write},
    net::SocketAddr,
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use trunkline_config::{ListenAddress, Settings, Snapshot};
use trunkline_rules::{Answer, Decision, Question};
use trunkline_sql::{
    analysis::{Access, Analysis, StatementKind, TransactionEffect, analyse},
    digest::Digester,
    hint::Hints,
    token::Modes,
};
use trunkline_stats::report::state_name;
use trunkline_topology::{HostgroupId, ServerState, User};
use trunkline_worker::{digest_settings, hinted, split};

use crate::{cli::ExplainArgs, config_file::ConfigFile, show};

#[cfg(test)]
mod tests;

/// Shows what a new session's statement would meet.
pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let file = ConfigFile::new(&args.config);
    let read = file.read().map_err(|errors| anyhow!(errors.join("\n")))?;
    let snapshot = read.config.snapshot(None);
    let user = snapshot
        .user(&args.user)
        .with_context(|| format!("user `{}` is not in {}", args.user, file.path().display()))?;
    // Writing to a string can't fail.
    let text = explanation(args, &snapshot, user).context("formatting")?;
    show(&text);
    Ok(ExitCode::SUCCESS)
}

fn explanation(args: &ExplainArgs, snapshot: &Snapshot, user: &User) -> Result<String, fmt::Error> {
    let settings = &snapshot.settings;
    let sql = args.sql.as_bytes();
    let mut digester = Digester::new();
    let digest = digester.digest(sql, &digest_settings(settings));
    let schema = args.schema.as_deref().or(user.default_schema.as_deref()).unwrap_or_default();
    let listener = args.listener.or_else(|| first_listener(settings));
    let question = Question {
        username: &user.name,
        schema: schema.as_bytes(),
        flag: 0,
        client_addr: args.client_addr,
        proxy_addr: listener.map(|addr| addr.ip()).filter(|ip| !ip.is_unspecified()),
        proxy_port: listener.map(|addr| addr.port()),
        digest: settings.query_digests.then_some(digest.hash),
        digest_text: digest.text,
        query: sql,
        may_rewrite: true,
        chance: 0,
    };
    let mut out = String::new();
    if !user.active {
        row(&mut out, "user", "is not active, and can't log in")?;
    }
    if user.fast_forward {
        row(&mut out, "user", "is fast_forward: its statements are passed on without a look")?;
        servers(&mut out, snapshot, user.default_hostgroup)?;
        return Ok(out);
    }
    row(&mut out, "digest", &String::from_utf8_lossy(digest.text))?;
    row(&mut out, "hash", &digest.format().to_string())?;
    let (visits, decision) = snapshot.rules.explain(&question);
    let first_comment = digest.first_comment.map(<[u8]>::to_vec);
    let sent = decision.rewritten.as_deref().unwrap_or(sql);
    let modes = Modes::default();
    let asked = Asked {
        analysis: analyse(sent, &modes),
        hints: Hints::find(sent, first_comment.as_deref(), &modes),
        schema: schema.as_bytes(),
    };
    row(&mut out, "kind", &kind(&asked.analysis))?;
    row(&mut out, "access", &access(&asked.analysis))?;
    for effect in effects::lines(&asked.analysis) {
        row(&mut out, "effect", &effect)?;
    }
    rules::visits(&mut out, snapshot, &visits)?;
    if let Some(text) = &decision.rewritten {
        row(&mut out, "sent as", &String::from_utf8_lossy(text))?;
    }
    match decision.answer() {
        Some(Answer::Ok(text)) => {
            return row(&mut out, "answer", &format!("OK, from a rule: {text}")).map(|()| out);
        }
        Some(Answer::Error(text)) => {
            let line = format!("error 1148 (42000), from a rule: {text}");
            return row(&mut out, "answer", &line).map(|()| out);
        }
        None => {}
    }
    rules::orders(&mut out, &decision.effects)?;
    let (hostgroup, reason) = destination(snapshot, user, &asked, &decision);
    row(&mut out, "hostgroup", &format!("{hostgroup}, {reason}"))?;
    servers(&mut out, snapshot, hostgroup)?;
    Ok(out)
}

/// What is asked about, as it would be sent.
struct Asked<'a> {
    analysis: Analysis,
    hints: Hints,
    schema: &'a [u8],
}

fn row(out: &mut String, name: &str, value: &str) -> fmt::Result {
    writeln!(out, "{name:<12}{value}")
}

fn first_listener(settings: &Settings) -> Option<SocketAddr> {
    settings.listen.iter().find_map(|listen| match listen {
        ListenAddress::Tcp(addr) => Some(*addr),
        ListenAddress::Unix(_) => None,
    })
}

fn kind(analysis: &Analysis) -> String {
    match analysis.statements {
        1 => analysis.kind.name().to_owned(),
        0 => "no statement at all".to_owned(),
        more => format!("{}, the first of {more} statements", analysis.kind.name()),
    }
}

/// Whether it certainly reads, or what speaks against it.
fn access(analysis: &Analysis) -> String {
    if analysis.access == Access::CertainlyReads {
        return "certainly reads: any server that has the data may run it".to_owned();
    }
    let mut reasons = Vec::new();
    if !analysis.is_complete {
        reasons.push("it ends inside a quote or a comment, or holds NUL".to_owned());
    }
    if !analysis.depends.is_empty() {
        let names = format!("{:?}", analysis.depends).to_lowercase();
        reasons.push(format!("its answer depends on the connection's past {names}"));
    }
    if !analysis.effects.is_empty() {
        reasons.push("it leaves something behind in the session".to_owned());
    }
    match analysis.transaction {
        TransactionEffect::None => {}
        TransactionEffect::ImplicitCommit => reasons.push("it commits implicitly".to_owned()),
        TransactionEffect::Begin { .. }
        | TransactionEffect::Commit { .. }
        | TransactionEffect::Rollback { .. }
        | TransactionEffect::SetAutocommit(_) => {
            reasons.push("it begins or ends a transaction".to_owned());
        }
    }
    if reasons.is_empty() {
        reasons.push(match analysis.kind {
            StatementKind::Unknown => "it is not understood".to_owned(),
            StatementKind::Select | StatementKind::Show | StatementKind::Explain => {
                "it locks, writes, or depends on the server that runs it".to_owned()
            }
            kind => format!("{} is not a read", kind.name()),
        });
    }
    format!("may write: {}", reasons.join("; "))
}

/// Where a session that holds no connection sends it, and why: what step 5 of a worker decides.
fn destination(
    snapshot: &Snapshot,
    user: &User,
    asked: &Asked<'_>,
    decision: &Decision,
) -> (HostgroupId, String) {
    let default = user.default_hostgroup;
    let group = snapshot.writer_group(default);
    let analysis = &asked.analysis;
    let is_online = |readers| {
        let readers = snapshot.hostgroup(readers);
        readers.is_some_and(|hostgroup| {
            let mut servers = hostgroup.servers.iter();
            servers.any(|server| server.weight > 0 && server.health.state(0) == ServerState::Online)
        })
    };
    if snapshot.settings.query_digests
        && let Some(hostgroup) = hinted(&asked.hints, default, group, analysis, false, is_online)
    {
        return (hostgroup, "as a comment says".to_owned());
    }
    if !decision.applied {
        let (schema, flag) = (asked.schema, decision.final_flag);
        if let Some(hostgroup) = snapshot.fast_routes.find(&user.name, schema, flag) {
            return (hostgroup, "as fast routing says".to_owned());
        }
    }
    if let Some(hostgroup) = decision.effects.destination_hostgroup {
        return (hostgroup, "as a rule says".to_owned());
    }
    let split = split(group, Some(analysis), false, is_online);
    (split.hostgroup(default), split.reason().to_owned())
}

fn servers(out: &mut String, snapshot: &Snapshot, hostgroup: HostgroupId) -> fmt::Result {
    let Some(group) = snapshot.hostgroup(hostgroup) else {
        return writeln!(out, "{:<12}none: hostgroup {hostgroup} has no server", "servers");
    };
    for server in &group.servers {
        writeln!(
            out,
            "{:<12}{}, weight {}, {}",
            "server",
            server.key.address,
            server.weight,
            state_name(server.health.state(0)),
        )?;
    }
    Ok(())
}
