//! What no single table can tell: duplicates, references, and what must not be absent.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    fmt::Display,
    hash::Hash,
    sync::Arc,
};

use trunkline_rules::{FastRoutes, Options, Rule, RuleSet};
use trunkline_topology::{Address, HostgroupId, PinnedKeys, ReplicationGroup, User};

use crate::{
    ClusterEntry, Config, Guards, HostgroupEntry, ServerEntry, ServerTlsEntry, Settings, Subject,
    TcpEntry,
    cluster::ClusterSection,
    error::ErrorKind,
    file::{fast::FastEntries, report::Report},
};

/// The largest number that a hostgroup can have, as in ProxySQL's tables.
pub(super) const HOSTGROUP_MAX: u32 = 2_147_483_647;

/// Something read, and which entry of its section it is, counted from 0.
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) index: usize,
}

/// Everything read from the sections, in the order of the file. Entries with errors are here too
/// as long as they can be named, so that one error does not bring up others.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) servers: Vec<Placed<ServerEntry>>,
    pub(super) hostgroup_entries: Vec<Placed<HostgroupEntry>>,
    /// And whether the user's hostgroup could be read.
    pub(super) users: Vec<(Placed<Arc<User>>, bool)>,
    pub(super) replication: Vec<Placed<ReplicationGroup>>,
    pub(super) clusters: Vec<Placed<ClusterEntry>>,
    pub(super) tls_params: Vec<ServerTlsEntry>,
    pub(super) rules: Vec<Placed<Rule>>,
    pub(super) fast: FastEntries,
    pub(super) guards: Guards,
    pub(super) server_keys: Arc<PinnedKeys>,
    pub(super) tcp_listeners: Vec<Placed<TcpEntry>>,
    /// Hostgroups that some server names, broken or not.
    pub(super) hostgroups: HashSet<HostgroupId>,
    /// Some table could not be read well enough to say which hostgroups have servers.
    pub(super) unsure: bool,
}

impl Entries {
    pub(super) fn into_config(
        self,
        settings: Settings,
        rule_set: RuleSet,
        fast_routes: Arc<FastRoutes>,
    ) -> Config {
        fn values<T>(placed: Vec<Placed<T>>) -> Vec<T> {
            placed.into_iter().map(|placed| placed.value).collect()
        }
        Config {
            settings,
            servers: values(self.servers),
            hostgroups: values(self.hostgroup_entries),
            users: self.users.into_iter().map(|(placed, _)| placed.value).collect(),
            replication: values(self.replication),
            clusters: values(self.clusters),
            discovered: BTreeMap::new(),
            tcp_listeners: values(self.tcp_listeners),
            rules: values(self.rules),
            tls_params: self.tls_params,
            rule_set: Arc::new(rule_set),
            fast_routes,
            guards: Arc::new(self.guards),
            server_keys: self.server_keys,
        }
    }

    /// Whether a hostgroup certainly has no server.
    pub(super) fn is_empty(&self, hostgroup: HostgroupId) -> bool {
        !self.unsure && !self.hostgroups.contains(&hostgroup)
    }
}

/// Reports what is wrong between the entries; the compiled rules, when they compile.
pub(super) fn check(
    entries: &Entries,
    settings: &Settings,
    report: &mut Report<'_>,
) -> Option<RuleSet> {
    check_servers(entries, report);
    check_hostgroups(entries, report);
    check_users(entries, report);
    check_server_users(entries, settings, report);
    for (name, account) in [
        ("monitor_account", &settings.monitor_account),
        ("switchover_account", &settings.switchover_account),
        ("replication_account", &settings.replication_account),
    ] {
        check_account(name, account, entries, report);
    }
    check_replication(entries, report);
    check_clusters(entries, report);
    check_tcp_listeners(entries, settings, report);
    check_rules(entries, settings, report)
}

/// Reports that there is no server or no user.
pub(super) fn check_presence(entries: &Entries, report: &mut Report<'_>) {
    // What is there but broken was reported with its own place.
    if !report.is_empty() {
        return;
    }
    let mut missing = |section| {
        let message = format!("there is no [[{section}]]");
        report.add(ErrorKind::Missing, Subject::section(section), message);
    };
    let has_seeds = entries.clusters.iter().any(|cluster| !cluster.value.seeds.is_empty());
    if entries.servers.is_empty() && !has_seeds {
        missing("server");
    }
    if entries.users.is_empty() && entries.tcp_listeners.is_empty() {
        missing("user");
    }
}

fn check_servers(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for Placed { value, index } in &entries.servers {
        let key = &value.key;
        let what = format_args!("server {} in hostgroup {}", key.address, key.hostgroup);
        seen.once(report, key, what, Subject::column("server", *index, "address"));
    }
}

fn check_hostgroups(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for Placed { value, index } in &entries.hostgroup_entries {
        let id = value.id;
        let subject = Subject::column("hostgroup", *index, "hostgroup_id");
        seen.once(report, id, format_args!("hostgroup {id}"), subject.clone());
        if entries.is_empty(id) {
            let message = format!("hostgroup {id} has no [[server]]");
            report.add(ErrorKind::Dangling, subject, message);
        }
    }
}

fn check_users(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for (Placed { value, index }, is_hostgroup_known) in &entries.users {
        let (name, hostgroup) = (value.name.as_str(), value.default_hostgroup);
        let what = format_args!("user `{name}`");
        seen.once(report, name, what, Subject::column("user", *index, "name"));
        if *is_hostgroup_known && entries.is_empty(hostgroup) {
            let message = format!("user `{name}`: default_hostgroup {hostgroup} has no [[server]]");
            let subject = Subject::column("user", *index, "default_hostgroup");
            report.add(ErrorKind::Dangling, subject, message);
        }
    }
}

/// Whoever `setting` names must be able to log in to servers.
fn check_account(setting: &'static str, account: &str, entries: &Entries, report: &mut Report<'_>) {
    if account.is_empty() {
        return;
    }
    let mut users = entries.users.iter().map(|(user, _)| &user.value);
    let (kind, message) = match users.find(|user| user.name == account) {
        None => (ErrorKind::Dangling, format!("{setting}: there is no user `{account}`")),
        Some(user) if user.backend.is_some() || user.password.clear().is_some() => return,
        Some(_) => {
            let message = format!("{setting}: the password of `{account}` opens no server");
            (ErrorKind::Invalid, message)
        }
    };
    report.add(kind, Subject::setting(setting), message);
}

/// Who reads servers' grant tables must be able to log in there, and there must be servers.
fn check_server_users(entries: &Entries, settings: &Settings, report: &mut Report<'_>) {
    let (account, hostgroup) = (&settings.server_users_account, settings.server_users_hostgroup);
    if account.is_empty() {
        return;
    }
    check_account("server_users_account", account, entries, report);
    if entries.is_empty(HostgroupId(hostgroup)) {
        let message = format!("server_users_hostgroup {hostgroup} has no [[server]]");
        report.add(ErrorKind::Dangling, Subject::setting("server_users_hostgroup"), message);
    }
}

fn check_replication(entries: &Entries, report: &mut Report<'_>) {
    let (mut writers, mut readers) = (Seen::default(), Seen::default());
    let groups = entries.replication.iter().map(|it| ("replication", it.index, it.value.clone()));
    let clusters = &entries.clusters;
    let of_clusters = clusters.iter().map(|it| {
        let section = it.value.section.name();
        (section, it.index, it.value.replication())
    });
    for (section, index, value) in groups.chain(of_clusters) {
        let (writer, reader) = (value.writer_hostgroup, value.reader_hostgroup);
        let subject = |column: &'static str| Subject::column(section, index, column);
        let (of_writer, of_reader) = (subject("writer_hostgroup"), subject("reader_hostgroup"));
        if writer == reader {
            let message = format!("reader_hostgroup {reader} is the writer_hostgroup too");
            report.add(ErrorKind::Conflict, of_reader.clone(), message);
        } else if entries.is_empty(writer) && entries.is_empty(reader) {
            let message = format!(
                "neither writer_hostgroup {writer} nor reader_hostgroup {reader} has a [[server]]"
            );
            report.add(ErrorKind::Dangling, of_writer.clone(), message);
        }
        writers.once(report, writer, format_args!("writer_hostgroup {writer}"), of_writer);
        readers.once(report, reader, format_args!("reader_hostgroup {reader}"), of_reader);
    }
}

fn check_clusters(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for Placed { value: cluster, index } in &entries.clusters {
        let name = &cluster.name;
        let subject =
            |column: &'static str| Subject::column(cluster.section.name(), *index, column);
        if cluster.section == ClusterSection::Cluster {
            seen.once(report, name, format_args!("cluster `{name}`"), subject("name"));
        }
        let mut other_seeds = HashSet::new();
        for seed in cluster.seeds.iter().filter(|seed| !other_seeds.insert(*seed)) {
            let message = format!("cluster `{name}`: seed {seed} is named twice");
            report.add(ErrorKind::Duplicate, subject("seeds"), message);
        }
        let is_own = |entry: &Placed<ServerEntry>| {
            cluster.hostgroups().any(|own| own == entry.value.key.hostgroup)
        };
        let listed = entries.servers.iter().filter(|entry| is_own(entry)).count();
        let max = crate::cluster::MEMBERS_MAX;
        if listed + cluster.seeds.len() > max {
            let message = format!("cluster `{name}` has more than {max} servers");
            report.add(ErrorKind::Invalid, subject("seeds"), message);
        }
        let mut backup =
            cluster.backup_writer_hostgroup.into_iter().chain(cluster.offline_hostgroup);
        let mut serving = [cluster.writer_hostgroup, cluster.reader_hostgroup].into_iter();
        if let Some(twice) = backup.find(|id| serving.any(|own| own == *id)) {
            let message = format!("hostgroup {twice} has two roles in cluster `{name}`");
            report.add(ErrorKind::Conflict, subject("backup_writer_hostgroup"), message);
        }
    }
    check_members(entries, report);
}

/// A server has its roles from one cluster.
fn check_members(entries: &Entries, report: &mut Report<'_>) {
    let mut owners: HashMap<&Address, &str> = HashMap::new();
    for Placed { value: cluster, index } in &entries.clusters {
        // ProxySQL's tables may have a server in several hostgroups, and so in several rows.
        if cluster.begins_as_listed() {
            continue;
        }
        let listed = entries.servers.iter().map(|entry| &entry.value.key);
        let listed = listed.filter(|key| cluster.hostgroups().any(|own| own == key.hostgroup));
        let members: HashSet<&Address> =
            listed.map(|key| &key.address).chain(&cluster.seeds).collect();
        for member in members {
            let name = cluster.name.as_str();
            let other = owners.insert(member, name).filter(|other| *other != name);
            if let Some(other) = other {
                let message =
                    format!("cluster `{name}`: server {member} is in cluster `{other}` too");
                report.add(
                    ErrorKind::Conflict,
                    Subject::column("cluster", *index, "name"),
                    message,
                );
            }
        }
    }
}

fn check_tcp_listeners(entries: &Entries, settings: &Settings, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for Placed { value: listener, index } in &entries.tcp_listeners {
        let subject = |column: &'static str| Subject::column("tcp_listener", *index, column);
        let control = listener.control.as_ref().map(|address| (address, "control"));
        for (address, name) in [(&listener.address, "address")].into_iter().chain(control) {
            // Port 0 is another one each time.
            if address.to_string().ends_with(":0") {
                continue;
            }
            if settings.listen.contains(address) {
                let message = format!("`{name}` {address} is in `listen`, for MySQL clients");
                report.add(ErrorKind::Conflict, subject(name), message);
            }
            let what = format_args!("address {address} to listen on");
            seen.once(report, address, what, subject(name));
        }
        let backup = listener.backup_hostgroup.map(|id| (id, "backup_hostgroup"));
        let named = [(listener.hostgroup, "hostgroup")].into_iter().chain(backup);
        for (hostgroup, name) in named.filter(|(hostgroup, _)| entries.is_empty(*hostgroup)) {
            let address = &listener.address;
            let message = format!("tcp_listener {address}: {name} {hostgroup} has no [[server]]");
            report.add(ErrorKind::Dangling, subject(name), message);
        }
    }
}

fn check_rules(entries: &Entries, settings: &Settings, report: &mut Report<'_>) -> Option<RuleSet> {
    let mut seen = Seen::default();
    let mut rules: Vec<Rule> = Vec::with_capacity(entries.rules.len());
    for Placed { value: rule, index } in &entries.rules {
        let (id, subject) =
            (rule.id, |column: &'static str| Subject::column("rule", *index, column));
        if !seen.once(report, id, format_args!("rule {id}"), subject("id")) {
            continue;
        }
        if let Some(hostgroup) = rule.destination_hostgroup
            && rule.active
            && entries.is_empty(hostgroup)
        {
            let message = format!("rule {id}: destination_hostgroup {hostgroup} has no [[server]]");
            report.add(ErrorKind::Dangling, subject("destination_hostgroup"), message);
        }
        rules.push(rule.clone());
    }
    let options = Options { iterations: settings.query_processor_iterations };
    let compiled = RuleSet::compile(rules, options).map_err(|errors| {
        for error in errors {
            let first = seen.0.get(&error.rule_id).cloned();
            let subject = first.unwrap_or_else(|| Subject::section("rule"));
            let column = error.column.name().into();
            report.add(ErrorKind::Invalid, Subject { column, ..subject }, error.to_string());
        }
    });
    compiled.ok()
}

/// What was seen already, and where.
struct Seen<K>(HashMap<K, Subject>);

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Seen<K> {
    /// Reports `what` when `key` was seen before; false then.
    fn once(
        &mut self,
        report: &mut Report<'_>,
        key: K,
        what: impl Display,
        subject: Subject,
    ) -> bool {
        match self.0.entry(key) {
            Entry::Vacant(free) => {
                free.insert(subject);
                true
            }
            Entry::Occupied(first) => {
                let place = report.other_place(first.get());
                let message = format!("{what} is defined twice (first {place})");
                report.add(ErrorKind::Duplicate, subject, message);
                false
            }
        }
    }
}
