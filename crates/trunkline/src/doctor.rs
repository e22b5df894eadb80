//! `trunkline doctor`: looks at the configuration, its servers and this machine, and says what is
//! dangerous. Nothing is changed anywhere, and no proxy needs to run.

mod machine;

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use trunkline_config::{
    Config, ListenAddress, Snapshot,
    cluster::{ClusterKind, Failover},
};
use trunkline_doctor::{
    Answers, ClusterFacts, Danger, Facts, Finding, Pool, ServerFacts, Settings,
};
use trunkline_monitor::{
    Account, Resolution, examine,
    outcomes::rights::{self, Lacking},
    resolve,
};
use trunkline_proxy::TlsSetup;
use trunkline_topology::{Address, Server, TlsMode};

use crate::{
    cli::DoctorArgs,
    config_file::{ConfigFile, counted},
    import::read_any,
    show,
};

/// Looks, and shows what was found. The exit code says whether anything is dangerous.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let (facts, found) = look(&ConfigFile::new(&args.file), Duration::from_secs(args.timeout))?;
    match args.json {
        true => show_json(&facts, &found),
        false => show(&text(&facts, &found)),
    }
    let is_dangerous = found.iter().any(|finding| finding.danger == Danger::Severe);
    Ok(if is_dangerous { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Looks, and says what was found, for people. A server may take `time_max` to answer.
pub fn findings(file: &ConfigFile, time_max: Duration) -> Result<String> {
    let (facts, found) = look(file, time_max)?;
    Ok(text(&facts, &found))
}

fn look(file: &ConfigFile, time_max: Duration) -> Result<(Facts, Vec<Finding>)> {
    let read = read_any(file).map_err(|errors| anyhow!(errors.join("\n")))?;
    let tls = TlsSetup::load(&read.config, &file.tls_folders(), None);
    let tls = Arc::new(tls.map_err(|errors| anyhow!(errors.join("\n")))?);
    let mut warnings = read.warnings;
    warnings.extend(tls.warnings().iter().cloned());
    let snapshot = read.config.clone().snapshot(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let servers = runtime.block_on(servers(snapshot.clone(), &tls, time_max))?;
    let facts = Facts {
        warnings,
        settings: settings(&read.config, &snapshot),
        clusters: read.config.clusters.iter().map(|it| cluster(it, &read.config)).collect(),
        machine: machine::look(&read.config),
        servers,
    };
    let found = trunkline_doctor::examine(&facts);
    Ok((facts, found))
}

fn settings(config: &Config, snapshot: &Snapshot) -> Settings {
    let settings = &config.settings;
    let is_open = |listen: &&ListenAddress| match listen {
        ListenAddress::Tcp(addr) => !addr.ip().is_loopback() && !settings.require_secure_transport,
        ListenAddress::Unix(_) => false,
    };
    let users = config.users.iter().filter(|user| user.active);
    let is_watched =
        |writer| snapshot.clusters.iter().any(|it| it.entry.writer_hostgroup == writer);
    let groups = snapshot.replication.iter().filter(|it| !is_watched(it.writer_hostgroup));
    Settings {
        max_allowed_packet: u64::try_from(settings.max_allowed_packet).unwrap_or(u64::MAX),
        statements_per_connection: u64::try_from(settings.max_stmts_per_connection)
            .unwrap_or(u64::MAX),
        ping_interval_ms: settings.ping_interval_server_msec,
        idle_timeout_ms: settings.idle_connection_timeout,
        open_listeners: settings.listen.iter().filter(is_open).map(ToString::to_string).collect(),
        has_causal_reads: snapshot.has_causal_reads,
        applications: users
            .map(|user| user.backend.as_ref().map_or(&user.name, |backend| &backend.user).clone())
            .collect(),
        unwatched: groups.map(|it| (it.writer_hostgroup.0, it.reader_hostgroup.0)).collect(),
    }
}

fn cluster(entry: &trunkline_config::cluster::ClusterEntry, config: &Config) -> ClusterFacts {
    ClusterFacts {
        name: entry.name.clone(),
        is_replication: matches!(entry.kind, ClusterKind::Replication | ClusterKind::ReadOnly),
        fails_over: entry.failover == Failover::Auto,
        servers: entry.members(&config.servers, &[]).iter().map(ToString::to_string).collect(),
    }
}

/// What servers say of themselves.
async fn servers(
    snapshot: Snapshot,
    tls: &Arc<TlsSetup>,
    time_max: Duration,
) -> Result<Vec<ServerFacts>> {
    let resolution = resolve(&snapshot.names_to_resolve(), time_max).await;
    let snapshot = snapshot.with_resolved(&resolution.found).unwrap_or(snapshot);
    let account = Account::of_monitor(&snapshot, false)
        .context("no account can ask servers: monitor_account names none with a known password")?;
    let mut entries: BTreeMap<&Address, Vec<&Arc<Server>>> = BTreeMap::new();
    for server in snapshot.mysql_servers() {
        entries.entry(&server.key.address).or_default().push(server);
    }
    let asked: Vec<Arc<Server>> =
        entries.values().filter_map(|same| same.first().map(|it| Arc::clone(it))).collect();
    let mut answers: BTreeMap<Address, Result<Answers, String>> =
        examine(&asked, &account, tls, time_max).await.into_iter().collect();
    let lacking = rights::look(rights::wanted(&snapshot), tls).await;
    let lacking_on = |address: &str| {
        let there = lacking.iter().filter(|it| it.server == address);
        there.map(|Lacking { what, advice, .. }| (what.clone(), advice.clone())).collect()
    };
    let facts = entries.into_iter().map(|(address, same)| ServerFacts {
        lacking: lacking_on(&address.to_string()),
        address: address.to_string(),
        is_private: same.iter().all(|server| is_private(server)),
        pools: same.iter().map(|server| pool(server, &snapshot)).collect(),
        answers: answered(answers.remove(address), address, &resolution),
    });
    Ok(facts.collect())
}

/// An answer; why a name has no address, where that is the reason that there is none.
fn answered(
    answer: Option<Result<Answers, String>>,
    address: &Address,
    resolution: &Resolution,
) -> Result<Answers, String> {
    let failed = resolution.failed.iter().find(|(name, _)| name == address);
    match (failed, answer) {
        (Some((_, reason)), _) => Err(format!("its name is not resolved: {reason}")),
        (None, Some(answer)) => answer,
        (None, None) => Err("it was not asked".to_owned()),
    }
}

fn is_private(server: &Server) -> bool {
    let is_local = matches!(server.key.address, Address::Unix(_)) || server.is_on_loopback();
    let is_encrypted = !matches!(server.tls.mode, TlsMode::Disabled | TlsMode::Preferred);
    is_local || is_encrypted
}

fn pool(server: &Server, snapshot: &Snapshot) -> Pool {
    let hostgroup = server.key.hostgroup;
    let is_reader = snapshot.replication.iter().any(|it| it.reader_hostgroup == hostgroup);
    let is_writer = snapshot.replication.iter().any(|it| it.writer_hostgroup == hostgroup);
    Pool {
        hostgroup: hostgroup.0,
        max_connections: u64::from(server.max_connections),
        // A hostgroup that is split nowhere takes everything.
        is_writer: is_writer || !is_reader,
    }
}

fn text(facts: &Facts, found: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { danger, about, what, advice } in found {
        text.push_str(&format!("{danger:<8} {about}: {what}\n{:<8} → {advice}\n", ""));
    }
    let count = |danger| found.iter().filter(|finding| finding.danger == danger).count();
    text.push_str(&format!(
        "{} looked at: {}, {}, {}\n",
        counted(facts.servers.len(), "server"),
        counted(count(Danger::Severe), "danger"),
        counted(count(Danger::Warning), "warning"),
        counted(count(Danger::Note), "note"),
    ));
    text
}

/// Shows the findings as JSON, for programs.
fn show_json(facts: &Facts, found: &[Finding]) {
    let findings: Vec<_> = found
        .iter()
        .map(|it| {
            json!({ "danger": it.danger.word(), "about": it.about, "what": it.what,
                "advice": it.advice })
        })
        .collect();
    let servers: Vec<_> = facts.servers.iter().map(|server| &server.address).collect();
    show(&format!("{}\n", json!({ "servers": servers, "findings": findings })));
}
