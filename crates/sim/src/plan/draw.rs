//! Draws a plan from a seed.

use std::collections::BTreeSet;

use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::ServerState;

use super::{
    Act, ConfigSpec, Fault, Limits, Plan, RuleSpec, ServerSpec, UserSpec, apart, balancers,
    commits, encryption, explained, features, guarded, hidden, later, limited, logged, neighbours,
    origins, people, repeats, scarce, tenants, traced,
};
use crate::{
    HostId, Micros,
    client::{self, ClientSpec},
    oracle::facts::Split,
    rng::Rng,
    server::{AccountSpec, ClusterSpec, HostSpec, ServerFault},
    wire::{Chop, PipeSpec},
};

/// Takes writes.
const WRITER: u32 = 10;
/// Takes reads.
const READER: u32 = 20;
/// While so long clients come and things go wrong, µs.
const SPAN_US: Micros = 1_500_000;
/// When whoever is still there is told to go, µs.
const HORIZON_US: Micros = 20_000_000;

impl Plan {
    /// The run that a seed stands for.
    pub fn from_seed(seed: u64, limits: &Limits) -> Self {
        let root = Rng::new(seed).split("plan", 0);
        let mut rng = root.split("shape", 0);
        let cluster = draw_cluster(&mut root.split("cluster", 0));
        let configs = draw_configs(&mut root.split("configs", 0), &cluster);
        let clients = draw_clients(&root, limits, &cluster, &configs);
        let workers = rng.weighted(&[(2, 1), (4, 2), (1, 3), (2, 4)]).copied().unwrap_or(1);
        let host_pipes = cluster.hosts.iter().map(|_| draw_pipe(&mut rng, 300)).collect();
        let is_calm = !limits.faults || rng.chance(1, 4);
        let mut plan = Self {
            seed,
            workers,
            scratch_len: rng.pick(&[65_536, 65_536, 16_384, 2_048, 512]).copied().unwrap_or(65_536),
            writes_many: root.split("writes many", 0).chance(1, 3),
            reaction_us: rng.pick(&[0, 20, 200]).copied().unwrap_or(0),
            client_pipe: draw_pipe(&mut rng, 1_000),
            host_pipes,
            cluster,
            configs,
            clients,
            offers_tls: false,
            monitor: None,
            shares_answers: false,
            hides_definitions: false,
            restrictions: Vec::new(),
            memory_max: None,
            acts: Vec::new(),
            faults: Vec::new(),
            absent: BTreeSet::new(),
            horizon_us: HORIZON_US,
            #[cfg(feature = "plants")]
            plant: None,
        };
        if !is_calm {
            draw_acts(&mut root.split("acts", 0), &mut plan);
            draw_faults(&mut root.split("faults", 0), &mut plan);
        }
        features::draw(&mut root.split("features", 0), &mut plan, !is_calm);
        let mut rng = root.split("rebalance", 0);
        let threshold = rng.weighted(&[(3, 20), (2, 1), (1, 0)]).copied().unwrap_or(20);
        for config in &mut plan.configs {
            config.settings.insert("rebalance_threshold", threshold);
        }
        if !is_calm {
            apart::draw(&mut root.split("apart", 0), &mut plan);
            people::draw(&mut root.split("people", 0), &mut plan);
        }
        encryption::draw(&mut root.split("encryption", 0), &mut plan);
        repeats::draw(&mut root.split("repeats", 0), &mut plan);
        explained::draw(&mut root.split("explained", 0), &mut plan);
        logged::draw(&mut root.split("logged", 0), &mut plan);
        limited::draw(&mut root.split("limited", 0), &mut plan);
        balancers::draw(&mut root.split("balancers", 0), &mut plan);
        origins::draw(&mut root.split("origins", 0), &mut plan);
        guarded::draw(&mut root.split("guarded", 0), &mut plan);
        neighbours::draw(&mut root.split("neighbours", 0), &mut plan, !is_calm);
        hidden::draw(&mut root.split("hidden", 0), &mut plan);
        draw_lazy(&mut root.split("lazy transactions", 0), &mut plan);
        later::draw(&mut root.split("later", 0), &mut plan);
        if !is_calm {
            commits::draw(&mut root.split("commits", 0), &mut plan);
        }
        scarce::draw(&mut root.split("scarce", 0), &mut plan);
        tenants::draw(&mut root.split("tenants", 0), &mut plan);
        traced::draw(&mut root.split("traced", 0), &mut plan);
        plan.acts.sort_by_key(|(at, _)| *at);
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }
}

fn draw_lazy(rng: &mut Rng, plan: &mut Plan) {
    for config in &mut plan.configs {
        if rng.chance(1, 5) {
            config.words.insert("lazy_transactions", "\"off\"".into());
        }
    }
}

fn draw_pipe(rng: &mut Rng, latency_max_us: u64) -> PipeSpec {
    let chop = rng.weighted(&[
        (3, Chop::Whole),
        (3, Chop::Sometimes(40)),
        (1, Chop::Pieces(7)),
        (1, Chop::Pieces(200)),
    ]);
    PipeSpec {
        latency_us: rng.between(5, latency_max_us),
        jitter_us: rng.pick(&[0, 10, 300]).copied().unwrap_or(0),
        bytes_per_ms: rng.pick(&[1_000_000, 100_000, 20_000]).copied().unwrap_or(1_000_000),
        window: rng.pick(&[262_144, 65_536, 8_192]).copied().unwrap_or(65_536),
        chop: chop.copied().unwrap_or(Chop::Whole),
    }
}

fn draw_cluster(rng: &mut Rng) -> ClusterSpec {
    let flavor = match rng.chance(2, 3) {
        true => Flavor::MariaDb,
        false => Flavor::MySql,
    };
    let hosts = rng.weighted(&[(1, 1), (3, 2), (3, 3)]).copied().unwrap_or(2);
    let host = |rng: &mut Rng| HostSpec {
        flavor,
        max_connections: rng.pick(&[100, 100, 100, 6, 3]).copied().unwrap_or(100),
        service_us: (20, rng.pick(&[200, 1_000, 5_000]).copied().unwrap_or(200)),
        lag_us: rng.pick(&[100, 2_000, 50_000]).copied().unwrap_or(100),
        ..HostSpec::default()
    };
    let accounts = user_names().into_iter().map(|(user, password)| AccountSpec {
        user: user.to_owned(),
        password: password.to_owned(),
        second: None,
    });
    ClusterSpec {
        hosts: (0..hosts).map(|_| host(rng)).collect(),
        primary: HostId(0),
        accounts: accounts.collect(),
    }
}

/// Users and their passwords.
fn user_names() -> [(&'static str, &'static str); 4] {
    [("app", "app secret"), ("web", "web secret"), ("batch", ""), ("direct", "direct secret")]
}

fn draw_configs(rng: &mut Rng, cluster: &ClusterSpec) -> Vec<ConfigSpec> {
    let mut config = draw_config(rng, cluster);
    let mut configs = vec![config.clone()];
    for _ in 0..rng.below(5) {
        vary(rng, &mut config, cluster);
        configs.push(config.clone());
    }
    configs
}

fn draw_config(rng: &mut Rng, cluster: &ClusterSpec) -> ConfigSpec {
    let mut config = ConfigSpec::default();
    let mut set = |name: &'static str, values: &[u64]| {
        config.settings.insert(name, rng.pick(values).copied().unwrap_or_default());
    };
    set("max_connections", &[1_000, 1_000, 1_000, 8]);
    set("connect_timeout_server", &[1_000, 300]);
    set("pipeline_depth_max", &[64, 64, 4, 1]);
    set("connect_timeout_server_max", &[5_000, 2_000, 500]);
    set("connect_timeout_client", &[5_000]);
    set("wait_timeout", &[600_000, 600_000, 4_000]);
    set("query_retries_on_failure", &[0, 1, 1, 3]);
    set("shun_on_failures", &[1, 3, 5, 0]);
    set("shun_recovery_time_sec", &[1]);
    set("queue_max", &[1_000, 1_000, 1_000, 3]);
    set("idle_connections_max", &[0, 0, 1]);
    set("idle_connection_timeout", &[300_000, 2_000]);
    set("ping_interval_server_msec", &[120_000, 1_000]);
    set("client_buffer_max", &[262_144, 16_384]);
    let places = |rng: &mut Rng| rng.pick(&[50, 8, 3, 2, 1]).copied().unwrap_or(50);
    let server = |rng: &mut Rng, hostgroup, host| ServerSpec {
        hostgroup,
        host,
        rank: 0,
        weight: rng.pick(&[1, 1, 5]).copied().unwrap_or(1),
        max_connections: places(rng),
        is_drained: false,
        lag_max: 0,
        compression: None,
        tls: None,
    };
    config.servers.push(server(rng, WRITER, cluster.primary));
    for place in 0..cluster.hosts.len() {
        let host = HostId(place);
        if host != cluster.primary || rng.chance(1, 3) {
            config.servers.push(server(rng, READER, host));
        }
    }
    let has_readers = config.servers.iter().any(|server| server.hostgroup == READER);
    if has_readers && rng.chance(7, 8) {
        let is_auto = rng.chance(5, 6);
        config.splits.push(Split { writer: WRITER, reader: READER, is_auto });
    }
    config.users =
        user_names().into_iter().map(|(name, password)| draw_user(rng, name, password)).collect();
    if has_readers {
        config.rules = draw_rules(rng);
    }
    let mut of_cache = rng.split("cache", 0);
    config.cache_ttl_ms = of_cache.pick(&[None, Some(5), Some(10_000)]).copied().flatten();
    config
}

fn draw_user(rng: &mut Rng, name: &str, password: &str) -> UserSpec {
    UserSpec {
        name: name.to_owned(),
        password: password.to_owned(),
        hostgroup: WRITER,
        schema: rng.pick(&[Some("shop"), Some("shop"), Some("depot"), None]).copied().flatten(),
        max_connections: rng.pick(&[1_000, 1_000, 1_000, 3]).copied().unwrap_or(1_000),
        is_transaction_persistent: rng.chance(5, 6),
        is_fast_forward: name == "direct",
        more: String::new(),
    }
}

/// Rules never send to a reader: a session that holds state on one connection and is sent
/// elsewhere by a rule does not find it there, by the operator's wish, and the clients' shadows
/// know nothing of rules.
fn draw_rules(rng: &mut Rng) -> Vec<RuleSpec> {
    let to = |contains, hostgroup| RuleSpec {
        contains: Some(contains),
        hostgroup: Some(hostgroup),
        applies: true,
        ..RuleSpec::default()
    };
    let candidates = [
        to("FOR UPDATE", WRITER),
        RuleSpec { user: Some("web".to_owned()), ..to("numbers", WRITER) },
        RuleSpec { applies: false, ..to("COUNT", WRITER) },
        to("log", WRITER),
        RuleSpec { error: Some("no casts here"), hostgroup: None, ..to("CAST", WRITER) },
    ];
    candidates.into_iter().filter(|_| rng.chance(1, 5)).collect()
}

/// What an operator changes.
fn vary(rng: &mut Rng, config: &mut ConfigSpec, cluster: &ClusterSpec) {
    let readers: Vec<_> = (0..config.servers.len())
        .filter(|at| config.servers.get(*at).is_some_and(|it| it.hostgroup == READER))
        .collect();
    let reader = rng.pick(&readers).copied();
    match rng.below(7) {
        0 => {
            if let Some(server) = reader.and_then(|at| config.servers.get_mut(at)) {
                server.is_drained = !server.is_drained;
            }
        }
        1 => {
            if let Some(at) = reader.filter(|_| readers.len() > 1) {
                config.servers.remove(at);
            }
        }
        2 => {
            let host = HostId(rng.index(cluster.hosts.len()));
            let is_there =
                config.servers.iter().any(|it| (it.hostgroup, it.host) == (READER, host));
            if !is_there {
                config.servers.push(ServerSpec {
                    hostgroup: READER,
                    host,
                    rank: 0,
                    weight: 1,
                    max_connections: 4,
                    is_drained: false,
                    lag_max: 0,
                    compression: None,
                    tls: None,
                });
            }
        }
        3 => {
            let at = rng.index(config.servers.len());
            if let Some(server) = config.servers.get_mut(at) {
                server.max_connections = between_u32(rng, 1, 10);
                server.weight = between_u32(rng, 1, 5);
            }
        }
        4 => config.rules = draw_rules(rng),
        5 => {
            let at = rng.index(config.users.len());
            if let Some(user) = config.users.get_mut(at) {
                user.max_connections = between_u32(rng, 2, 1_000);
            }
        }
        _ => {
            config.settings.insert("query_retries_on_failure", rng.below(3));
            config.settings.insert("queue_max", rng.between(2, 100));
        }
    }
    // A split needs both of its hostgroups.
    let has_readers = config.servers.iter().any(|server| server.hostgroup == READER);
    if !has_readers {
        config.splits.clear();
        config.rules.clear();
    }
}

fn draw_clients(
    root: &Rng,
    limits: &Limits,
    cluster: &ClusterSpec,
    configs: &[ConfigSpec],
) -> Vec<ClientSpec> {
    let mut rng = root.split("clients", 0);
    let count = rng.between(limits.clients.0, limits.clients.1);
    let flavor = cluster.hosts.first().map_or(Flavor::MariaDb, |host| host.flavor);
    let users = configs.first().map_or(&[][..], |config| config.users.as_slice());
    let client = |place: u64| {
        let mut rng = root.split("client", place);
        let place = usize::try_from(place).unwrap_or_default();
        let statements = rng.between(limits.statements.0, limits.statements.1);
        let statements = usize::try_from(statements).unwrap_or_default();
        let starts_us = rng.below(SPAN_US / 3);
        client::draw(&mut rng, &client::Draw { place, flavor, users, statements, starts_us })
    };
    (0..count).map(client).collect()
}

fn draw_acts(rng: &mut Rng, plan: &mut Plan) {
    let publishes = plan.configs.len().saturating_sub(1);
    let mut times: Vec<_> = (0..publishes).map(|_| rng.below(SPAN_US)).collect();
    times.sort_unstable();
    let publish = |(place, at): (usize, Micros)| (at, Act::Publish(place + 1));
    plan.acts.extend(times.into_iter().enumerate().map(publish));
    let servers = plan.configs.first().map_or(&[][..], |config| config.servers.as_slice());
    for _ in 0..rng.below(3) {
        let Some(server) = rng.pick(servers) else { break };
        let state =
            rng.pick(&[ServerState::Shunned, ServerState::OfflineSoft, ServerState::OfflineHard]);
        let state = state.copied().unwrap_or(ServerState::OfflineSoft);
        let at = rng.below(SPAN_US);
        let back = at + rng.between(1_000, 1_000_000);
        plan.acts.push((at, Act::SetState(server.hostgroup, server.host, state)));
        plan.acts.push((back, Act::SetState(server.hostgroup, server.host, ServerState::Online)));
    }
    for _ in 0..rng.below(3) {
        plan.acts.push((rng.below(SPAN_US), Act::Report));
    }
    if rng.chance(1, 8) {
        plan.acts.push((rng.between(SPAN_US / 4, SPAN_US), Act::Stop(rng.between(0, 3_000))));
    }
}

fn draw_faults(rng: &mut Rng, plan: &mut Plan) {
    for _ in 0..rng.below(9) {
        let at = rng.below(SPAN_US);
        match rng.chance(1, 2) {
            true => draw_server_fault(rng, plan, at),
            false => draw_link_fault(rng, plan, at),
        }
    }
}

/// A duration, short more often than long, µs.
fn a_while(rng: &mut Rng) -> Micros {
    let most = rng.pick(&[2_000, 50_000, 500_000, 2_000_000]).copied().unwrap_or(2_000);
    rng.between(500, most)
}

pub(super) fn draw_server_fault(rng: &mut Rng, plan: &mut Plan, at: Micros) {
    let host = HostId(rng.index(plan.cluster.hosts.len()));
    let nth = rng.index(8);
    let mut put = |at, fault| plan.faults.push((at, Fault::Server(fault)));
    match rng.below(9) {
        0 => {
            put(at, ServerFault::Crash { host, lose_last: 0 });
            put(at + a_while(rng), ServerFault::Restart { host });
        }
        1 => {
            let lose_last = rng.index(4);
            put(at, ServerFault::Crash { host, lose_last });
            put(at + a_while(rng), ServerFault::Restart { host });
        }
        2 => draw_promotion(rng, plan, at),
        3 => put(at, ServerFault::KillConnection { host, nth }),
        4 => put(at, ServerFault::Garbage { host, nth }),
        5 => {
            let code = rng.pick(&[1_213, 1_205, 1_317]).copied().unwrap_or(1_213);
            put(at, ServerFault::ErrorNext { host, code });
        }
        6 => put(at, ServerFault::Slow { host, factor: rng.between(2, 50), for_us: a_while(rng) }),
        7 => put(at, ServerFault::Lag { host, lag_us: rng.below(400_000) }),
        _ => {
            put(at, ServerFault::Hang { host, hangs: true });
            put(at + a_while(rng), ServerFault::Hang { host, hangs: false });
        }
    }
}

/// Another host becomes the primary, and a little later the operator tells the proxy.
fn draw_promotion(rng: &mut Rng, plan: &mut Plan, at: Micros) {
    let already = plan
        .faults
        .iter()
        .any(|(_, fault)| matches!(fault, Fault::Server(ServerFault::Promote { .. })));
    if already || plan.cluster.hosts.len() < 2 {
        return;
    }
    let host = HostId(1 + rng.index(plan.cluster.hosts.len() - 1));
    let catch_up = rng.chance(2, 3);
    plan.faults.push((at, Fault::Server(ServerFault::Promote { host, catch_up })));
    let Some(mut config) = plan.configs.last().cloned() else { return };
    for server in config.servers.iter_mut().filter(|server| server.hostgroup == WRITER) {
        server.host = host;
    }
    plan.configs.push(config);
    plan.acts.push((SPAN_US.max(at) + a_while(rng), Act::Publish(plan.configs.len() - 1)));
}

pub(super) fn draw_link_fault(rng: &mut Rng, plan: &mut Plan, at: Micros) {
    let client = rng.index(plan.clients.len());
    let host = HostId(rng.index(plan.cluster.hosts.len()));
    let nth = rng.index(8);
    let long = a_while(rng);
    let fault = match rng.below(8) {
        0 => Fault::CutClient(client),
        1 => Fault::HalfCloseClient(client),
        2 => Fault::StallClient(client, long),
        3 => Fault::VanishClient(client, long),
        4 => Fault::CutHost(host, nth),
        5 => Fault::StallHost(host, nth, long),
        6 => Fault::Partition(host, long),
        _ => Fault::Pause(rng.index(plan.workers), long.min(300_000)),
    };
    plan.faults.push((at, fault));
}

fn between_u32(rng: &mut Rng, low: u32, high: u32) -> u32 {
    u32::try_from(rng.between(low.into(), high.into())).unwrap_or(high)
}
