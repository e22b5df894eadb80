//! The proxy's side: the decision, its questions, and the cells and flags that sessions read.

use std::{collections::BTreeMap, sync::Arc};

use trunkline_cluster::{
    Cluster, Evidence, Group, HostId, Input, Kind as Decided, Listed, Miss, Output, Places, Policy,
    Reach, WriterReads,
    facts::{Endpoint, Facts},
};
use trunkline_topology::{Role, Seen, ServerHealth, ServerState, WriterCell};

use super::{
    Kind,
    nature::{self, Nature},
    oracle::Oracle,
};
use crate::rng::Rng;

/// A question that is under way.
struct Letter {
    arrives_ms: u64,
    host: HostId,
    asked_ms: u64,
    answer: Result<Facts, Miss>,
}

/// A name of a server.
#[derive(Debug, Clone)]
pub(super) struct Name {
    pub(super) server: usize,
    endpoint: Endpoint,
    listed: Listed,
}

/// The entries of a member.
pub(super) struct Entries {
    pub(super) writer: ServerHealth,
    pub(super) reader: ServerHealth,
}

/// What the proxy knows and does.
pub(super) struct Proxy {
    pub(super) cluster: Cluster,
    pub(super) names: BTreeMap<HostId, Name>,
    pub(super) entries: BTreeMap<HostId, Entries>,
    pub(super) oracle: Oracle,
    kind: Kind,
    policy: Policy,
    cell: Arc<WriterCell>,
    mail: Vec<Letter>,
    /// Servers that were told of and become members then.
    found: Vec<(u64, Endpoint)>,
    next: u32,
    timeout_ms: u64,
    rng: Rng,
    /// Members that an operator took out, and when they come back.
    away: Vec<(u64, Name)>,
}

impl Proxy {
    pub(super) fn new(nature: &Nature, mut rng: Rng) -> Self {
        let writers_max = match nature.kind {
            Kind::Galera => 1 + u32::try_from(rng.below(3)).unwrap_or_default(),
            Kind::Replication | Kind::ReadOnly | Kind::Group => 1,
        };
        let reads = [WriterReads::No, WriterReads::Yes, WriterReads::OnlyBackups];
        let policy = Policy {
            interval_ms: rng.between(200, 2_000),
            urgent_ms: 100,
            writer_reads: rng.pick(&reads).copied().unwrap_or_default(),
            kind: match nature.kind {
                Kind::Replication => Decided::Replication,
                Kind::ReadOnly => Decided::ReadOnly,
                Kind::Galera | Kind::Group => Decided::Group(Group { writers_max, behind_max: 0 }),
            },
            begins_as_listed: nature.kind == Kind::ReadOnly,
            discovers: nature.kind != Kind::ReadOnly,
            // Whoever promotes servers there is a person.
            fails_over: false,
        };
        let timeout_ms = rng.between(100, 800);
        let mut proxy = Self {
            cluster: Cluster::new(policy.clone(), None),
            names: BTreeMap::new(),
            entries: BTreeMap::new(),
            oracle: Oracle::new(nature.kind, writers_max),
            kind: nature.kind,
            policy,
            cell: Arc::new(WriterCell::default()),
            mail: Vec::new(),
            found: Vec::new(),
            next: 0,
            timeout_ms,
            away: Vec::new(),
            rng,
        };
        // In some clusters only one server is named; its relatives are discovered.
        let is_sparse = nature.kind != Kind::ReadOnly && proxy.rng.chance(1, 4);
        let only = proxy.rng.index(nature.servers.len());
        for server in nature.ids().filter(|id| !is_sparse || *id == only) {
            let writes = server == 0;
            let listed = Listed { writes, reads: !writes, weight: 1, is_named: true };
            let name = Name { server, endpoint: nature::endpoint(server, false), listed };
            proxy.waiting(0, name);
        }
        if proxy.rng.chance(1, 4) {
            let listed = Listed { writes: false, reads: true, weight: 1, is_named: true };
            let endpoint = nature::endpoint(only, true);
            proxy.waiting(0, Name { server: only, endpoint, listed });
        }
        proxy
    }

    fn waiting(&mut self, at_ms: u64, name: Name) {
        self.away.push((at_ms, name));
    }

    fn enter(&mut self, nature: &mut Nature, name: Name) {
        let host = HostId(self.next);
        self.next += 1;
        let shared = |is_given: bool| Role::Shared {
            is_given: is_given.into(),
            ends_statements: self.kind == Kind::ReadOnly,
        };
        let writer = match self.kind {
            Kind::Replication => Role::Writer { cell: Arc::clone(&self.cell), member: host.0 },
            Kind::ReadOnly | Kind::Galera | Kind::Group => shared(false),
        };
        let entries = Entries {
            writer: ServerHealth::of_member(ServerState::Online, writer),
            reader: ServerHealth::of_member(ServerState::Online, shared(false)),
        };
        let Name { endpoint, listed, .. } = name.clone();
        self.names.insert(host, name);
        self.entries.insert(host, entries);
        self.on(nature, Input::Member { host, listed, endpoint });
    }

    /// What operators do to the configuration in bad times.
    pub(super) fn reconfigure(&mut self, nature: &Nature) {
        if !self.rng.chance(1, 1_500) {
            return;
        }
        let hosts: Vec<HostId> = self.names.keys().copied().collect();
        let Some(host) = self.rng.pick(&hosts).copied() else { return };
        let Some(name) = self.names.remove(&host) else { return };
        let back_ms = nature.now_ms + self.rng.between(100, 3_000);
        self.waiting(back_ms, name);
    }

    /// All servers are members from now on.
    pub(super) fn mend(&mut self, nature: &Nature) {
        self.away.iter_mut().for_each(|(at_ms, _)| *at_ms = (*at_ms).min(nature.now_ms));
    }

    pub(super) fn step(&mut self, nature: &mut Nature) {
        let now_ms = nature.now_ms;
        let gone: Vec<HostId> =
            self.entries.keys().filter(|it| !self.names.contains_key(it)).copied().collect();
        for host in gone {
            nature.note("members that left", || format!("{host:?}"));
            if let Some(Entries { writer, reader }) = self.entries.remove(&host) {
                give(&writer, false);
                give(&reader, false);
            }
            self.on(nature, Input::Gone(host));
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.away).into_iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.away = later;
        for (_, name) in due {
            self.enter(nature, name);
        }
        self.take_found(nature);
        self.look_at_traffic(nature);
        let mut due = Vec::new();
        self.cluster.tick(now_ms, &mut due);
        for output in due {
            if let Output::Ask(host) = output {
                self.ask(nature, host);
            }
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.mail).into_iter().partition(|it| it.arrives_ms <= now_ms);
        self.mail = later;
        for Letter { host, asked_ms, answer, .. } in due {
            if self.names.contains_key(&host) {
                self.oracle.answered(host, asked_ms, &answer);
                if answer == Err(Miss::TimedOut) {
                    nature.note("time-outs", || format!("{host:?}"));
                }
                self.on(nature, Input::Answer { host, asked_ms, answer });
            }
        }
    }

    fn take_found(&mut self, nature: &mut Nature) {
        let now_ms = nature.now_ms;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.found).into_iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.found = later;
        for (_, endpoint) in due {
            let listed = Listed { weight: 1, ..Listed::default() };
            let is_known = self.names.values().any(|it| it.endpoint == endpoint);
            let server = nature::server_at(&endpoint).filter(|_| !is_known);
            if let Some(server) = server {
                nature.note("discovered", || endpoint.host.clone());
                self.enter(nature, Name { server, endpoint, listed });
            }
        }
    }

    /// Takes what sessions have left, as `monitor::roles` does.
    fn look_at_traffic(&mut self, nature: &mut Nature) {
        let mut seen = Vec::new();
        for (host, Entries { writer, reader }) in &self.entries {
            let wants_answers = self.cluster.wants_answers(*host, nature.now_ms);
            for health in [writer, reader] {
                let of = health.take_seen(wants_answers);
                let evidence = [
                    (Seen::READ_ONLY, Evidence::ReadOnly),
                    (Seen::REFUSED, Evidence::Refused),
                    (Seen::ANSWERED, Evidence::Answered),
                ];
                let evidence = evidence.into_iter().filter(|(bit, _)| of.has(*bit));
                seen.extend(evidence.map(|(_, evidence)| (*host, evidence)));
            }
        }
        for (host, evidence) in seen {
            self.oracle.seen(host, evidence);
            self.on(nature, Input::Traffic { host, evidence });
        }
    }

    fn ask(&mut self, nature: &mut Nature, host: HostId) {
        let (asked_ms, quiet) = (nature.now_ms, nature.is_quiet);
        let Some(id) = self.names.get(&host).map(|name| name.server) else { return };
        let Some(server) = nature.server(id) else { return };
        let delay_ms = if quiet { 5 } else { self.rng.below(self.timeout_ms) };
        let (is_lost, is_denied) = (self.rng.chance(1, 40), self.rng.chance(1, 100));
        let answer = match server {
            it if !it.hears || !it.is_heard || it.is_slow => Err(Miss::TimedOut),
            it if !it.is_running => Err(Miss::Refused("refused".to_owned())),
            _ if is_lost && !quiet => Err(Miss::TimedOut),
            _ if is_denied && !quiet => Err(Miss::Denied("error 1040".to_owned())),
            _ => Ok(nature.facts(id)),
        };
        let took_ms = if answer == Err(Miss::TimedOut) { self.timeout_ms } else { delay_ms };
        self.mail.push(Letter { arrives_ms: asked_ms + took_ms, host, asked_ms, answer });
    }

    /// Tells the decision, and carries out what it says.
    fn on(&mut self, nature: &mut Nature, input: Input) {
        let (mut out, told) = (Vec::new(), input.clone());
        self.cluster.on(nature.now_ms, input, &mut out);
        for output in &out {
            self.carry_out(nature, output);
            self.oracle.set(nature, output, &self.entries, &self.cell);
        }
        self.oracle.told(nature, &told, &out, &self.cluster, self.policy.begins_as_listed);
    }

    fn carry_out(&mut self, nature: &mut Nature, output: &Output) {
        match output {
            // Histories have no switchovers.
            Output::Ask(_) | Output::Drain => {}
            Output::SetWriter(writer) => self.set_writer(*writer),
            Output::SetReader(host, is_reader) => {
                if let Some(Entries { reader, .. }) = self.entries.get(host) {
                    give(reader, *is_reader);
                }
            }
            Output::SetPlaces(host, Places { writes, reads, .. }) => {
                if let Some(Entries { writer, reader }) = self.entries.get(host) {
                    give(writer, *writes);
                    give(reader, *reads);
                }
            }
            Output::Discovered(endpoint) => {
                let at_ms = nature.now_ms + self.rng.below(300);
                self.found.push((at_ms, endpoint.clone()));
            }
            Output::Tell(event) => {
                let kind = event.kind.name();
                let name = event.host.and_then(|it| self.names.get(&it));
                let host = name.map(|it| it.endpoint.host.clone()).unwrap_or_default();
                let (id, why) = (event.host.map(|it| it.0), &event.evidence);
                nature.note(kind, || format!("{id:?} {host}: {why}"));
            }
        }
    }

    /// Does what `monitor::roles` does with the writer's entries.
    fn set_writer(&self, writer: Option<HostId>) {
        let before = self.cell.writer();
        self.cell.set(writer.map(|host| host.0));
        if let Some(entries) = before.and_then(|number| self.entries.get(&HostId(number))) {
            match before.map(|number| self.cluster.reach(HostId(number))) {
                Some(Reach::Up) => entries.writer.depose_connections(),
                _ => entries.writer.sever_connections(),
            }
        }
    }
}

/// Gives or takes a role that several may have, as `monitor::roles` does.
fn give(health: &ServerHealth, is_given: bool) {
    if let Some(Role::Shared { is_given: role, ends_statements }) = health.role() {
        let before = role.swap(is_given, std::sync::atomic::Ordering::Relaxed);
        match (before && !is_given, ends_statements) {
            (false, _) => {}
            (true, true) => health.depose_connections(),
            (true, false) => health.retire_connections(),
        }
    }
}
