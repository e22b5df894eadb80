//! What no single table can tell: duplicates, references, and what must not be absent.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::Display,
    hash::Hash,
    ops::RangeInclusive,
    sync::Arc,
};

use trunkline_rules::{FastRoutes, Options, Rule, RuleSet};
use trunkline_topology::{HostgroupId, ReplicationGroup, User};

use crate::{
    Config, Guards, HostgroupEntry, ServerEntry, ServerTlsEntry, Settings, TcpEntry,
    file::{fast::FastEntries, report::Report, rule::RuleEntry},
};

/// Numbers that a hostgroup can have, as in ProxySQL's tables.
pub(super) const HOSTGROUPS: RangeInclusive<u32> = 0..=2_147_483_647;

/// Something read, and the byte offset of what names it.
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// Everything read from the sections, in the order of the file. Entries with errors are here too
/// as long as they can be named, so that one error does not bring up others.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) servers: Vec<Placed<ServerEntry>>,
    pub(super) hostgroup_entries: Vec<Placed<HostgroupEntry>>,
    /// With the place of the user's hostgroup, unless that could not be read.
    pub(super) users: Vec<(Placed<Arc<User>>, Option<usize>)>,
    /// With the place of the reader hostgroup.
    pub(super) replication: Vec<(Placed<ReplicationGroup>, usize)>,
    pub(super) tls_params: Vec<ServerTlsEntry>,
    pub(super) rules: Vec<Placed<RuleEntry>>,
    pub(super) fast: FastEntries,
    pub(super) guards: Guards,
    /// With the places of its hostgroup, its backup hostgroup and its control address.
    pub(super) tcp_listeners: Vec<(Placed<TcpEntry>, [usize; 3])>,
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
        Config {
            settings,
            servers: self.servers.into_iter().map(|placed| placed.value).collect(),
            hostgroups: self.hostgroup_entries.into_iter().map(|placed| placed.value).collect(),
            users: self.users.into_iter().map(|(placed, _)| placed.value).collect(),
            replication: self.replication.into_iter().map(|(placed, _)| placed.value).collect(),
            tcp_listeners: self.tcp_listeners.into_iter().map(|(it, _)| it.value).collect(),
            rules: self.rules.into_iter().map(|placed| placed.value.rule).collect(),
            tls_params: self.tls_params,
            rule_set: Arc::new(rule_set),
            fast_routes,
            guards: Arc::new(self.guards),
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
    check_account("monitor_account", &settings.monitor_account, entries, report);
    check_replication(entries, report);
    check_tcp_listeners(entries, settings, report);
    check_rules(entries, settings, report)
}

/// Reports that there is no server or no user.
pub(super) fn check_presence(entries: &Entries, report: &mut Report<'_>) {
    // What is there but broken was reported with its own place.
    if !report.is_empty() {
        return;
    }
    if entries.servers.is_empty() {
        report.add(0, "server", "there is no [[server]]".to_owned());
    }
    if entries.users.is_empty() && entries.tcp_listeners.is_empty() {
        report.add(0, "user", "there is no [[user]]".to_owned());
    }
}

fn check_servers(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for (index, server) in entries.servers.iter().enumerate() {
        let key = &server.value.key;
        let what = format_args!("server {} in hostgroup {}", key.address, key.hostgroup);
        seen.once(report, key, what, server.at, || format!("server[{index}]"));
    }
}

fn check_hostgroups(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for (index, placed) in entries.hostgroup_entries.iter().enumerate() {
        let id = placed.value.id;
        let key = || format!("hostgroup[{index}].hostgroup_id");
        seen.once(report, id, format_args!("hostgroup {id}"), placed.at, key);
        if entries.is_empty(id) {
            let message = format!("hostgroup {id} has no [[server]]");
            report.add(placed.at, &key(), message);
        }
    }
}

fn check_users(entries: &Entries, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for (index, (user, hostgroup_at)) in entries.users.iter().enumerate() {
        let (name, hostgroup) = (user.value.name.as_str(), user.value.default_hostgroup);
        let what = format_args!("user `{name}`");
        seen.once(report, name, what, user.at, || format!("user[{index}].name"));
        if let Some(at) = hostgroup_at
            && entries.is_empty(hostgroup)
        {
            let message = format!("user `{name}`: default_hostgroup {hostgroup} has no [[server]]");
            report.add(*at, &format!("user[{index}].default_hostgroup"), message);
        }
    }
}

/// Whoever `setting` names must be able to log in to servers.
fn check_account(setting: &str, account: &str, entries: &Entries, report: &mut Report<'_>) {
    if account.is_empty() {
        return;
    }
    let mut users = entries.users.iter().map(|(user, _)| &user.value);
    let message = match users.find(|user| user.name == account) {
        None => Some(format!("{setting}: there is no user `{account}`")),
        Some(user) => {
            let opens = user.backend.is_some() || user.password.clear().is_some();
            (!opens).then(|| format!("{setting}: the password of `{account}` opens no server"))
        }
    };
    if let Some(message) = message {
        report.add(0, setting, message);
    }
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
        report.add(0, "server_users_hostgroup", message);
    }
}

fn check_replication(entries: &Entries, report: &mut Report<'_>) {
    let (mut writers, mut readers) = (Seen::default(), Seen::default());
    for (index, (group, reader_at)) in entries.replication.iter().enumerate() {
        let (writer, reader) = (group.value.writer_hostgroup, group.value.reader_hostgroup);
        let key = |name: &str| format!("replication[{index}].{name}");
        if writer == reader {
            let message = format!("reader_hostgroup {reader} is the writer_hostgroup too");
            report.add(*reader_at, &key("reader_hostgroup"), message);
        } else if entries.is_empty(writer) && entries.is_empty(reader) {
            let message = format!(
                "neither writer_hostgroup {writer} nor reader_hostgroup {reader} has a [[server]]"
            );
            report.add(group.at, &key("writer_hostgroup"), message);
        }
        let what = format_args!("writer_hostgroup {writer}");
        writers.once(report, writer, what, group.at, || key("writer_hostgroup"));
        let what = format_args!("reader_hostgroup {reader}");
        readers.once(report, reader, what, *reader_at, || key("reader_hostgroup"));
    }
}

fn check_tcp_listeners(entries: &Entries, settings: &Settings, report: &mut Report<'_>) {
    let mut seen = Seen::default();
    for (index, (listener, [hostgroup_at, backup_at, control_at])) in
        entries.tcp_listeners.iter().enumerate()
    {
        let (at, listener) = (listener.at, &listener.value);
        let key = |name: &str| format!("tcp_listener[{index}].{name}");
        for (address, at, name) in [
            (Some(&listener.address), at, "address"),
            (listener.control.as_ref(), *control_at, "control"),
        ] {
            let Some(address) = address else { continue };
            // Port 0 is another one each time.
            if address.to_string().ends_with(":0") {
                continue;
            }
            if settings.listen.contains(address) {
                let message = format!("`{name}` {address} is in `listen`, for MySQL clients");
                report.add(at, &key(name), message);
            }
            let what = format_args!("address {address} to listen on");
            seen.once(report, address, what, at, || key(name));
        }
        let backup = listener.backup_hostgroup.map(|id| (id, *backup_at, "backup_hostgroup"));
        let named = [(listener.hostgroup, *hostgroup_at, "hostgroup")].into_iter().chain(backup);
        for (hostgroup, at, name) in named {
            if entries.is_empty(hostgroup) {
                let message = format!(
                    "tcp_listener {}: {name} {hostgroup} has no [[server]]",
                    listener.address
                );
                report.add(at, &key(name), message);
            }
        }
    }
}

fn check_rules(entries: &Entries, settings: &Settings, report: &mut Report<'_>) -> Option<RuleSet> {
    let mut seen = Seen::default();
    let mut rules: Vec<Rule> = Vec::with_capacity(entries.rules.len());
    let mut by_id: HashMap<u32, &Placed<RuleEntry>> = HashMap::new();
    for placed in &entries.rules {
        let (entry, rule) = (&placed.value, &placed.value.rule);
        let key = || format!("rule[{}].id", entry.index);
        if !seen.once(report, rule.id, format_args!("rule {}", rule.id), placed.at, key) {
            continue;
        }
        if let Some(hostgroup) = rule.destination_hostgroup
            && rule.active
            && entries.is_empty(hostgroup)
        {
            let message =
                format!("rule {}: destination_hostgroup {hostgroup} has no [[server]]", rule.id);
            let at = entry.place("destination_hostgroup").unwrap_or(placed.at);
            report.add(at, &format!("rule[{}].destination_hostgroup", entry.index), message);
        }
        by_id.insert(rule.id, placed);
        rules.push(rule.clone());
    }
    let options = Options { iterations: settings.query_processor_iterations };
    match RuleSet::compile(rules, options) {
        Ok(rule_set) => Some(rule_set),
        Err(errors) => {
            for error in errors {
                let column = error.column.name();
                let placed = by_id.get(&error.rule_id);
                let at = placed.map_or(0, |p| p.value.place(column).unwrap_or(p.at));
                let index = placed.map_or(0, |placed| placed.value.index);
                report.add(at, &format!("rule[{index}].{column}"), error.to_string());
            }
            None
        }
    }
}

/// What was seen already, and where.
struct Seen<K>(HashMap<K, usize>);

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
        at: usize,
        path: impl FnOnce() -> String,
    ) -> bool {
        match self.0.entry(key) {
            Entry::Vacant(free) => {
                free.insert(at);
                true
            }
            Entry::Occupied(first) => {
                let line = report.line(*first.get());
                report.add(at, &path(), format!("{what} is defined twice (first on line {line})"));
                false
            }
        }
    }
}
