//! `trunkline explain`: the way of one statement, without sending it.

mod effects;

use std::{
    fmt::{self, Write},
    net::SocketAddr,
    process::ExitCode,
};

use anyhow::{Context, Result, anyhow};
use trunkline_config::{ListenAddress, Settings, Snapshot};
use trunkline_rules::{Answer, Hits, Outcome, Question};
use trunkline_sql::{
    analysis::{Access, Analysis, StatementKind, TransactionEffect, analyse},
    digest::{self, Digester},
    token::Modes,
};
use trunkline_stats::report::state_name;
use trunkline_topology::{HostgroupId, ReadWriteSplit, ServerState, User};

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
    let analysis = analyse(sql, &Modes::default());
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
    let row = |out: &mut String, name: &str, value: &str| writeln!(out, "{name:<12}{value}");
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
    row(&mut out, "kind", &kind(&analysis))?;
    row(&mut out, "access", &access(&analysis))?;
    for effect in effects::lines(&analysis) {
        row(&mut out, "effect", &effect)?;
    }
    visits(&mut out, snapshot, &question)?;
    let decision = snapshot.rules.evaluate(&question, &mut Hits::new(&snapshot.rules));
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
    let (hostgroup, reason) =
        destination(snapshot, user, decision.effects.destination_hostgroup, &analysis);
    row(&mut out, "hostgroup", &format!("{hostgroup}, {reason}"))?;
    servers(&mut out, snapshot, hostgroup)?;
    Ok(out)
}

fn first_listener(settings: &Settings) -> Option<SocketAddr> {
    settings.listen.iter().find_map(|listen| match listen {
        ListenAddress::Tcp(addr) => Some(*addr),
        ListenAddress::Unix(_) => None,
    })
}

fn digest_settings(settings: &Settings) -> digest::Settings {
    let limit = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    digest::Settings {
        lowercase: settings.query_digests_lowercase,
        replace_null: settings.query_digests_replace_null,
        no_digits: settings.query_digests_no_digits,
        keep_comment: settings.query_digests_keep_comment,
        grouping_limit: limit(settings.query_digests_grouping_limit),
        groups_grouping_limit: limit(settings.query_digests_groups_grouping_limit),
        max_digest_length: settings.query_digests_max_digest_length,
        max_query_length: settings.query_digests_max_query_length,
    }
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

/// Each rule in the order of the evaluation.
fn visits(out: &mut String, snapshot: &Snapshot, question: &Question<'_>) -> fmt::Result {
    let (visits, _) = snapshot.rules.explain(question);
    if visits.is_empty() {
        return writeln!(out, "{:<12}none", "rules");
    }
    for visit in visits {
        let outcome = match visit.outcome {
            Outcome::Matched => "matches".to_owned(),
            Outcome::Shadowed => "would match (shadow)".to_owned(),
            Outcome::FirstFailed(column) => format!("no: {column}"),
        };
        let flag = if visit.flag == 0 { String::new() } else { format!(" (flag {})", visit.flag) };
        let rule = snapshot.config.rules.iter().find(|rule| rule.id == visit.rule_id);
        let mut does = String::new();
        if let (Outcome::Matched, Some(rule)) = (visit.outcome, rule) {
            if let Some(hostgroup) = rule.destination_hostgroup {
                write!(does, ", hostgroup {hostgroup}")?;
            }
            if let Some(flag) = rule.flag_out {
                write!(does, ", on with flag {flag}")?;
            }
            if rule.apply {
                does.push_str(", apply");
            }
        }
        writeln!(out, "{:<12}{}{flag}: {outcome}{does}", "rule", visit.rule_id)?;
    }
    Ok(())
}

/// Where a session that holds no connection sends it, and why: what step 5 of a worker decides.
fn destination(
    snapshot: &Snapshot,
    user: &User,
    from_rule: Option<HostgroupId>,
    analysis: &Analysis,
) -> (HostgroupId, &'static str) {
    if let Some(hostgroup) = from_rule {
        return (hostgroup, "as a rule says");
    }
    let default = user.default_hostgroup;
    let Some(group) = snapshot.writer_group(default) else {
        return (default, "the user's default");
    };
    if group.read_write_split == ReadWriteSplit::Rules {
        return (default, "the user's default: no rule says otherwise");
    }
    let begins_read_only = analysis.statements == 1
        && matches!(analysis.transaction, TransactionEffect::Begin { read_only: true, .. });
    let is_read = analysis.access == Access::CertainlyReads
        && analysis.transaction == TransactionEffect::None
        && analysis.depends.is_empty();
    if !is_read && !begins_read_only {
        return (default, "the writer: it may write");
    }
    let readers = snapshot.hostgroup(group.reader_hostgroup);
    let is_online = readers.is_some_and(|hostgroup| {
        let mut servers = hostgroup.servers.iter();
        servers.any(|server| server.weight > 0 && server.health.state(0) == ServerState::Online)
    });
    match (is_online, begins_read_only) {
        (false, _) => (default, "the writer: no reader is online"),
        (true, true) => (group.reader_hostgroup, "a reader: the transaction is read only"),
        (true, false) => (group.reader_hostgroup, "a reader: outside transactions it only reads"),
    }
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
