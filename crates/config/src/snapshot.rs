//! What the data plane serves by: one immutable, versioned view of a configuration.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    hash::BuildHasher,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use foldhash::fast::FixedState;
use trunkline_rules::{Effects, FastRoutes, RuleSet};
use trunkline_topology::{
    Address, AllowList, Balance, HostName, HostgroupId, LazyTransactions, Pipeline,
    ReplicationGroup, Server, ServerKey, ServerTls, TlsMode, TlsParams, User, causal::CausalReads,
    outcome::CommitOutcomes,
};

use crate::{
    CausalPlan, ClusterEntry, Config, GrantedUsers, Guards, ServerEntry, ServerTlsEntry,
    ServerTlsWish, Settings, TcpFront, TlsDefault,
};

mod clusters;
mod hostgroups;
#[cfg(test)]
mod tests;

pub use clusters::{Cluster, Member};
use hostgroups::build_hostgroups;

/// Servers that are interchangeable.
#[derive(Debug, Clone)]
pub struct Hostgroup {
    /// Its number.
    pub id: HostgroupId,
    /// Its servers in the order of the configuration; never empty.
    pub servers: Vec<Arc<Server>>,
    /// Whether its statements share server connections.
    pub pipeline: Pipeline,
    /// How a server is chosen for a statement.
    pub balance: Balance,
    /// Which writes a read has to see, in place of what the settings say.
    pub causal_reads: Option<CausalReads>,
    /// Whether its transactions begin with their first statement; `None` as the settings say.
    pub lazy_transactions: Option<LazyTransactions>,
}

/// The running configuration. Workers hold it as `Arc<Snapshot>` and replace it as a whole.
#[derive(Clone)]
pub struct Snapshot {
    /// Grows by one with every snapshot; the first is 1.
    pub version: u64,
    /// The settings in force: what only a restart may change has the first snapshot's value.
    pub settings: Settings,
    /// Users by name.
    pub users: Arc<HashMap<String, Arc<User>>>,
    /// Hostgroups that users' sessions begin in.
    pub homes: BTreeSet<HostgroupId>,
    /// Users that servers' grant tables name, where they are read.
    pub granted: Arc<GrantedUsers>,
    /// Whether it depends on the names of clients' hosts who a user is, or where one may come from.
    pub names_hosts: bool,
    /// Whether somebody's transactions are repeated that are lost.
    pub replays: bool,
    /// Whether anything is written of single statements: the query log, the slow log, spans.
    pub watches: bool,
    /// Whether any hostgroup says itself how its statements share connections.
    pub pipelines: bool,
    /// Whether it is found out for somebody what became of a lost `COMMIT`.
    pub finds_outcomes: bool,
    /// Whether anybody's transactions are followed by their numbers: for causal reads, or to find
    /// out what became of them.
    pub follows_gtids: bool,
    /// Some users, whose way clients with unknown names go.
    stand_ins: Arc<[Arc<User>]>,
    /// Hostgroups that have servers.
    pub hostgroups: BTreeMap<HostgroupId, Hostgroup>,
    /// Writer hostgroups with their readers, in the order of the configuration.
    pub replication: Vec<ReplicationGroup>,
    /// Whether any read has to see particular writes.
    pub has_causal_reads: bool,
    /// Where, and whose.
    pub causal: Arc<CausalPlan>,
    /// Whether any rule has answers kept until a table changes.
    pub caches_until_changed: bool,
    /// Clusters, in the order of the configuration.
    pub clusters: Vec<Arc<Cluster>>,
    /// TCP listeners, in the order of the configuration.
    pub tcp: Vec<Arc<TcpFront>>,
    /// Compiled rules: the very same set as before as long as no rule has changed, so that what
    /// workers remember of it stays good.
    pub rules: Arc<RuleSet>,
    /// Fast routing rules: the very same as before as long as none has changed, so that a reload
    /// does not hold them twice.
    pub fast_routes: Arc<FastRoutes>,
    /// Firewall and limits: the very same as before as long as none of their rows has changed, so
    /// that the limits' buckets stay as full as they are.
    pub guards: Arc<Guards>,
    /// What this was built from.
    pub config: Arc<Config>,
    /// Index into `replication` by writer hostgroup.
    writers: HashMap<HostgroupId, usize, FixedState>,
}

impl Snapshot {
    /// Builds the snapshot that follows `previous`, or the first one.
    ///
    /// Servers that `previous` has too keep their health: connection counts, shuns and epoch go
    /// on. A status that differs from the previous configuration's is set on that shared health,
    /// and servers that are gone become
    /// [`OfflineSoft`](trunkline_topology::ServerState::OfflineSoft), so that statements running
    /// there may end and no connection is used again. Both happen here, at once: publish what
    /// this returns.
    pub fn build(mut config: Config, previous: Option<&Self>) -> Self {
        let mut settings = config.settings.clone();
        let mut rules = Arc::clone(&config.rule_set);
        if let Some(previous) = previous {
            settings.keep_running(&previous.settings);
            let iterations = |settings: &Settings| settings.query_processor_iterations;
            if previous.config.rules == config.rules
                && iterations(&previous.settings) == iterations(&settings)
            {
                rules = Arc::clone(&previous.rules);
            }
            if previous.guards == config.guards {
                config.guards = Arc::clone(&previous.guards);
            }
            if previous.fast_routes == config.fast_routes {
                config.fast_routes = Arc::clone(&previous.fast_routes);
            }
        }
        if let Some(previous) = previous.filter(|_| config.discovered.is_empty()) {
            config.discovered = previous.config.discovered.clone();
        }
        let clusters = clusters::build(&config, previous);
        let tls = TlsWishes { settings: &settings, entries: &config.tls_params };
        let hostgroups = build_hostgroups(&config, &clusters, &tls, previous);
        let tcp = build_tcp(&config, &settings, &hostgroups, previous);
        let users = config.users.iter().map(|user| (user.name.clone(), Arc::clone(user)));
        let granted = granted_so_far(&settings, previous);
        let stand_ins = stand_ins(&config, &granted);
        let mut homes: BTreeSet<_> =
            config.users.iter().map(|user| user.default_hostgroup).collect();
        if !settings.server_users_account.is_empty() {
            homes.insert(HostgroupId(settings.server_users_hostgroup));
        }
        let mut replication = config.replication.clone();
        replication.extend(config.clusters.iter().map(ClusterEntry::replication));
        let has_causal_reads = has_causal_reads(&config, &settings, &rules);
        let caches_until_changed = rules.effects().any(|it| it.cache_until_changed == Some(true));
        let causal = Arc::new(CausalPlan::of(&config, &hostgroups, &replication, previous));
        let writers = replication.iter().enumerate();
        let writers = writers.map(|(index, group)| (group.writer_hostgroup, index)).collect();
        Self {
            version: previous.map_or(0, |previous| previous.version).saturating_add(1),
            watches: watches(&settings),
            settings,
            users: Arc::new(users.collect()),
            names_hosts: names_hosts(&config, &granted),
            replays: replays(&config),
            pipelines: hostgroups.values().any(|group| group.pipeline != Pipeline::default()),
            follows_gtids: has_causal_reads || finds_outcomes(&config),
            finds_outcomes: finds_outcomes(&config),
            granted,
            stand_ins,
            homes,
            hostgroups,
            replication,
            has_causal_reads,
            causal,
            caches_until_changed,
            clusters,
            tcp,
            rules,
            fast_routes: Arc::clone(&config.fast_routes),
            guards: Arc::clone(&config.guards),
            writers,
            config: Arc::new(config),
        }
    }

    /// The hostgroup, when it has servers.
    pub fn hostgroup(&self, id: HostgroupId) -> Option<&Hostgroup> {
        self.hostgroups.get(&id)
    }

    /// The next snapshot with what servers' grant tables say now; `None` when nothing changed.
    pub fn with_granted(&self, granted: GrantedUsers) -> Option<Self> {
        (granted != *self.granted).then(|| Self {
            version: self.version.saturating_add(1),
            stand_ins: stand_ins(&self.config, &granted),
            names_hosts: names_hosts(&self.config, &granted),
            granted: Arc::new(granted),
            ..self.clone()
        })
    }

    /// The next snapshot with what servers say of these names; `None` when nothing changed, or the
    /// servers are not those that are asked now.
    pub fn with_granted_names(&self, names: &[String], told: &GrantedUsers) -> Option<Self> {
        let home = HostgroupId(self.settings.server_users_hostgroup);
        let is_there = |user: &Arc<User>| user.default_hostgroup == home;
        let is_asked = !self.settings.server_users_account.is_empty() && told.iter().all(is_there);
        let granted = self.granted.with_names(names, told).filter(|_| is_asked)?;
        self.with_granted(granted)
    }

    /// The user of a client that calls itself `name` and comes from `addr` (`None` is a Unix
    /// socket), from a host of that name, active or not. A user of the configuration goes before
    /// those of servers, wherever it may come from.
    pub fn user_from(
        &self,
        name: &str,
        addr: Option<IpAddr>,
        host: &HostName,
    ) -> Option<&Arc<User>> {
        self.users.get(name).or_else(|| self.granted.find(name, addr, host))
    }

    /// Who may connect to the listener at this place in `listen`, where it has a list.
    pub fn listen_allow(&self, listener: usize) -> Option<&AllowList> {
        let address = self.settings.listen.get(listener)?;
        let mut own = self.settings.listen_allow.iter();
        own.find(|own| own.address == *address).map(|own| &own.list)
    }

    /// What has become of a user of this or an earlier snapshot.
    pub fn today(&self, user: &User) -> Option<&Arc<User>> {
        match &user.host {
            None => self.users.get(&user.name),
            Some(host) => self.granted.account(&user.name, host),
        }
    }

    /// Whether there is a user whose [`key`](User::key) is this.
    pub fn has_key(&self, key: &str) -> bool {
        match key.split_once('\0') {
            None => self.users.contains_key(key),
            Some((name, host)) => self.granted.account(name, host).is_some(),
        }
    }

    /// A user whose way clients go that call themselves so and are not known.
    pub fn stand_in(&self, name: &str) -> Option<&Arc<User>> {
        let hash = FixedState::with_seed(0).hash_one(name);
        let count = u64::try_from(self.stand_ins.len()).ok()?;
        let at = hash.checked_rem(count)?;
        self.stand_ins.get(usize::try_from(at).ok()?)
    }

    /// The user called `name`, active or not.
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// The replication group whose writer hostgroup is `id`. At most one hash look-up.
    #[inline]
    pub fn writer_group(&self, id: HostgroupId) -> Option<&ReplicationGroup> {
        match &self.replication[..] {
            // With one group, as usual, a glance is cheaper than a look-up.
            [only] => Some(only).filter(|group| group.writer_hostgroup == id),
            groups => groups.get(*self.writers.get(&id)?),
        }
    }

    /// The cluster whose writers serve in a hostgroup.
    pub fn cluster_writing_in(&self, id: HostgroupId) -> Option<&Arc<Cluster>> {
        self.clusters.iter().find(|cluster| cluster.entry.writer_hostgroup == id)
    }

    /// Which writes the reads of a user have to see on these replicas.
    pub fn causal_reads(&self, user: &User, readers: HostgroupId) -> CausalReads {
        let of_hostgroup = || self.hostgroup(readers)?.causal_reads;
        user.causal_reads.or_else(of_hostgroup).unwrap_or(self.settings.causal_reads)
    }

    /// The group that a hostgroup is the readers of.
    pub fn reader_group(&self, id: HostgroupId) -> Option<&ReplicationGroup> {
        self.replication.iter().find(|group| group.reader_hostgroup == id)
    }

    /// The next snapshot with servers that a cluster was found to have as well; `None` when it has
    /// them already, or as many as it may.
    pub fn with_discovered(&self, cluster: &str, found: &[Address]) -> Option<Self> {
        let running = self.clusters.iter().find(|it| it.entry.name == cluster)?;
        let known: HashSet<&Address> = running.members.iter().map(|it| &it.address).collect();
        let room = crate::cluster::MEMBERS_MAX.saturating_sub(known.len());
        let new = found.iter().filter(|address| !known.contains(address)).take(room);
        let new: Vec<Address> = new.cloned().collect();
        if new.is_empty() {
            return None;
        }
        let mut config = Config::clone(&self.config);
        config.discovered.entry(cluster.to_owned()).or_default().extend(new);
        Some(Self::build(config, Some(self)))
    }

    /// The server of a hostgroup at an address.
    pub fn server(&self, key: &ServerKey) -> Option<&Arc<Server>> {
        let mut servers = self.hostgroups.get(&key.hostgroup)?.servers.iter();
        servers.find(|server| server.key.address == key.address)
    }

    /// All servers, hostgroup by hostgroup. A server in two hostgroups comes twice.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.hostgroups.values().flat_map(|hostgroup| &hostgroup.servers)
    }

    /// Whether a hostgroup has a server that it did not have `before`.
    pub fn has_new_servers(&self, before: &Snapshot) -> bool {
        let known: HashSet<_> = before.servers().map(|server| &server.key).collect();
        self.servers().any(|server| !known.contains(&server.key))
    }

    /// The servers of hostgroups that clients of MySQL's protocol may come to: all but those that
    /// only TCP listeners name.
    pub fn mysql_servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        let relayed: HashSet<HostgroupId> =
            self.tcp.iter().flat_map(|front| front.options.hostgroups()).collect();
        let mut named = self.homes.clone();
        named.extend(
            self.replication
                .iter()
                .flat_map(|group| [group.writer_hostgroup, group.reader_hostgroup]),
        );
        named.extend(self.config.rules.iter().filter_map(|rule| rule.destination_hostgroup));
        // Those that fast routing rules name are not listed one by one.
        let is_routed = !self.fast_routes.is_empty();
        let is_only_relayed =
            move |id: &HostgroupId| relayed.contains(id) && !named.contains(id) && !is_routed;
        self.servers().filter(move |server| !is_only_relayed(&server.key.hostgroup))
    }

    /// The host names that must be resolved, each once, in a fixed order.
    pub fn names_to_resolve(&self) -> Vec<Address> {
        let mut names: Vec<Address> = self
            .servers()
            .map(|server| &server.key.address)
            .filter(|address| is_name(address))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Those of them that have no address yet, so that their servers serve nobody.
    pub fn names_without_address(&self) -> Vec<Address> {
        let mut names = self.names_to_resolve();
        let resolved: Vec<&Address> = self
            .servers()
            .filter(|server| !server.resolved.is_empty())
            .map(|server| &server.key.address)
            .collect();
        names.retain(|name| !resolved.contains(&name));
        names
    }

    /// The next snapshot with what host names resolve to now; `None` when nothing changed.
    ///
    /// A name that is missing in `resolved`, or has no address there, keeps those it had: a name
    /// server that fails must not take servers out. Another order of the same addresses is no
    /// change, since name servers rotate them.
    pub fn with_resolved(&self, resolved: &HashMap<Address, Vec<SocketAddr>>) -> Option<Self> {
        let mut hostgroups = self.hostgroups.clone();
        let mut changed = false;
        for server in hostgroups.values_mut().flat_map(|hostgroup| &mut hostgroup.servers) {
            let address = &server.key.address;
            let Some(found) = resolved.get(address).filter(|found| !found.is_empty()) else {
                continue;
            };
            if is_name(address) && !is_same_set(found, &server.resolved) {
                *server = Arc::new(Server { resolved: found.clone(), ..Server::clone(server) });
                changed = true;
            }
        }
        let version = self.version.saturating_add(1);
        changed.then(|| {
            let tcp = build_tcp(&self.config, &self.settings, &hostgroups, Some(self));
            let causal = CausalPlan::of(&self.config, &hostgroups, &self.replication, Some(self));
            Self { version, hostgroups, tcp, causal: Arc::new(causal), ..self.clone() }
        })
    }
}

impl fmt::Debug for Snapshot {
    /// Numbers only: a configuration may have a hundred thousand users.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("version", &self.version)
            .field("users", &self.users.len())
            .field("granted", &self.granted.len())
            .field("hostgroups", &self.hostgroups.len())
            .field("servers", &self.servers().count())
            .field("replication", &self.replication.len())
            .field("rules", &self.rules.len())
            .field("fast_routes", &self.fast_routes.len())
            .finish_non_exhaustive()
    }
}

/// Users that stand for all of them.
const STAND_INS_MAX: usize = 64;

/// Active users in equal distances, so that their kinds of passwords are as frequent as among all.
fn stand_ins(config: &Config, granted: &GrantedUsers) -> Arc<[Arc<User>]> {
    let step = (config.users.len() + granted.len()).div_ceil(STAND_INS_MAX).max(1);
    let users = config.users.iter().chain(granted.iter());
    users.filter(|user| user.active).step_by(step).cloned().collect()
}

/// What servers' grant tables have said, as far as it counts on.
fn granted_so_far(settings: &Settings, previous: Option<&Snapshot>) -> Arc<GrantedUsers> {
    match previous {
        Some(previous) if !settings.server_users_account.is_empty() => {
            let home = settings.server_users_hostgroup;
            match previous.settings.server_users_hostgroup == home {
                true => Arc::clone(&previous.granted),
                // Where they go is this configuration's word, not the grant tables'.
                false => Arc::new(previous.granted.of_hostgroup(HostgroupId(home))),
            }
        }
        Some(_) | None => Arc::default(),
    }
}

/// Whether any read has to see particular writes.
fn has_causal_reads(config: &Config, settings: &Settings, rules: &RuleSet) -> bool {
    let said = config.hostgroups.iter().map(|entry| entry.causal_reads);
    let said = said.chain(config.users.iter().map(|user| user.causal_reads));
    let mut said = said.flatten().chain([settings.causal_reads]);
    let by_rules = |effects: &Effects| {
        effects.gtid_from_hostgroup.is_some()
            || effects.causal_reads.is_some_and(|reads| reads != CausalReads::Off)
    };
    said.any(|reads| reads != CausalReads::Off) || rules.effects().any(by_rules)
}

/// Whether somebody's transactions are repeated that are lost.
fn replays(config: &Config) -> bool {
    let wants = |user: &Arc<User>| user.transaction_replay == Some(true);
    config.settings.transaction_replay || config.users.iter().any(wants)
}

/// Whether anything is written of single statements.
fn watches(settings: &Settings) -> bool {
    !settings.query_log.is_empty() || !settings.slow_log.is_empty() || settings.trace_otlp.is_some()
}

/// Whether it is found out for somebody what became of a lost `COMMIT`.
fn finds_outcomes(config: &Config) -> bool {
    let wants = |user: &Arc<User>| user.commit_outcome == Some(CommitOutcomes::Auto);
    config.settings.commit_outcome == CommitOutcomes::Auto || config.users.iter().any(wants)
}

/// Whether it depends on the names of clients' hosts who a user is, or where a user may come from.
fn names_hosts(config: &Config, granted: &GrantedUsers) -> bool {
    granted.names_hosts() || config.users.iter().any(|user| user.allow_from.names_hosts())
}

/// Whether an address is a host name, which only the control plane can turn into addresses.
fn is_name(address: &Address) -> bool {
    match address {
        Address::Tcp { .. } => address.literal().is_none(),
        Address::Unix(_) => false,
    }
}

fn is_same_set(a: &[SocketAddr], b: &[SocketAddr]) -> bool {
    a.iter().all(|addr| b.contains(addr)) && b.iter().all(|addr| a.contains(addr))
}

/// What the configuration says of TLS to servers.
pub(crate) struct TlsWishes<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) entries: &'a [ServerTlsEntry],
}

impl TlsWishes<'_> {
    /// TLS to this server. A Unix socket needs none, and servers offer none there.
    pub(crate) fn of(&self, entry: &ServerEntry) -> ServerTls {
        let address = &entry.key.address;
        let is_unix = matches!(address, Address::Unix(_));
        if is_unix || entry.tls == ServerTlsWish::Mode(TlsMode::Disabled) {
            return ServerTls::default();
        }
        let own = self.entries.iter().filter(|params| params.address == *address);
        let (for_all, for_users): (Vec<_>, Vec<_>) =
            own.partition(|params| params.username.is_empty());
        let params = match for_all.first() {
            Some(entry) => Arc::clone(&entry.params),
            None => Arc::new(self.defaults()),
        };
        let has_ca = !params.ca.is_empty() || !params.capath.is_empty();
        let mode = match (entry.tls, self.settings.ssl_p2s_mode) {
            (ServerTlsWish::Mode(mode), _) => mode,
            (ServerTlsWish::Default, TlsDefault::Auto) if has_ca => TlsMode::VerifyCa,
            (ServerTlsWish::Default, TlsDefault::Auto | TlsDefault::Required) => TlsMode::Required,
            (ServerTlsWish::Default, TlsDefault::VerifyCa) => TlsMode::VerifyCa,
            (ServerTlsWish::Default, TlsDefault::VerifyIdentity) => TlsMode::VerifyIdentity,
        };
        let pair = |entry: &ServerTlsEntry| (entry.username.clone(), Arc::clone(&entry.params));
        ServerTls { mode, params, user_params: for_users.into_iter().map(pair).collect() }
    }

    fn defaults(&self) -> TlsParams {
        let settings = self.settings;
        TlsParams {
            ca: settings.ssl_p2s_ca.clone(),
            capath: settings.ssl_p2s_capath.clone(),
            cert: settings.ssl_p2s_cert.clone(),
            key: settings.ssl_p2s_key.clone(),
            crl: settings.ssl_p2s_crl.clone(),
            crlpath: settings.ssl_p2s_crlpath.clone(),
            cipher: settings.ssl_p2s_cipher.clone(),
            tls_version: String::new(),
        }
    }
}

/// Listeners that `previous` has too keep what workers know of them.
fn build_tcp(
    config: &Config,
    settings: &Settings,
    hostgroups: &BTreeMap<HostgroupId, Hostgroup>,
    previous: Option<&Snapshot>,
) -> Vec<Arc<TcpFront>> {
    let servers = |id: HostgroupId| {
        hostgroups.get(&id).map(|group| group.servers.clone()).unwrap_or_default()
    };
    let front = |options: &crate::TcpEntry| {
        let before = previous.into_iter().flat_map(|previous| &previous.tcp);
        let before = before.into_iter().find(|front| front.options.address == options.address);
        Arc::new(TcpFront {
            options: Arc::new(options.clone()),
            gate: before.map_or_else(Default::default, |front| Arc::clone(&front.gate)),
            servers: servers(options.hostgroup),
            backups: options.backup_hostgroup.map(servers).unwrap_or_default(),
            penalty_ms: settings.shun_recovery_time_sec.saturating_mul(1_000),
        })
    };
    config.tcp_listeners.iter().map(front).collect()
}
