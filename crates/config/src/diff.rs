//! What a reload changes, in lines that a person reads.

use std::{
    collections::HashMap,
    fmt::{self, Display},
    hash::Hash,
    sync::Arc,
};

use trunkline_rules::Rule;
use trunkline_topology::{
    Address, HostgroupId, ReadWriteSplit, ReplicationGroup, ServerKey, TlsParams, User,
    causal::CausalReads,
};

use crate::{
    ClusterEntry, Config, HostgroupEntry, ListenAddress, Reload, SETTINGS, ServerEntry,
    ServerTlsEntry, Setting, Settings, Snapshot, TcpEntry,
    config::{compression_word, status_word, tls_word},
};

#[cfg(test)]
mod tests;

/// One difference; it reads `server 10 10.0.0.1:3306: weight 1 -> 5`. It never shows a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What differs, such as `user app`.
    pub subject: String,
    /// How: `added`, `removed`, or each column with its old and its new value.
    pub detail: String,
    /// The running value stays until the next start.
    pub needs_restart: bool,
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.detail)?;
        match self.needs_restart {
            true => f.write_str(" (needs a restart)"),
            false => Ok(()),
        }
    }
}

/// What `new` changes in the running snapshot: settings in the order of the table, then servers,
/// hostgroups, users, replication groups, TCP listeners, rules and (in one line each) fast routing
/// rules, the firewall's lists, limits and tenants; of each what is changed or added in the order
/// of the new configuration, then what is removed in the order of the old one. Empty when nothing
/// differs.
///
/// Ask before [`Snapshot::build`]. Settings that wait for a restart are named each time.
pub fn difference(running: &Snapshot, new: &Config) -> Vec<Change> {
    let old = &running.config;
    let mut changes: Vec<Change> = SETTINGS
        .iter()
        .filter_map(|row| setting_change(row, &running.settings, &new.settings))
        .collect();
    compare(&old.servers, &new.servers, &mut changes);
    compare(&old.hostgroups, &new.hostgroups, &mut changes);
    if old.server_keys != new.server_keys {
        let detail = "other keys".to_owned();
        changes.push(Change {
            subject: "server_public_key".to_owned(),
            detail,
            needs_restart: false,
        });
    }
    compare(&old.tls_params, &new.tls_params, &mut changes);
    compare(&old.users, &new.users, &mut changes);
    compare(&old.replication, &new.replication, &mut changes);
    compare(&old.clusters, &new.clusters, &mut changes);
    compare(&old.tcp_listeners, &new.tcp_listeners, &mut changes);
    compare(&old.rules, &new.rules, &mut changes);
    let (before, now) = (&running.fast_routes, &new.fast_routes);
    if before != now {
        let detail = match (before.len(), now.len()) {
            (before, now) if before == now => format!("some of {now} rules changed"),
            (before, now) => format!("{before} rules -> {now} rules"),
        };
        let subject = "fast routing".to_owned();
        changes.push(Change { subject, detail, needs_restart: false });
    }
    let (before, now) = (&old.guards, &new.guards);
    compare_lists("firewall users", &before.firewall_users, &now.firewall_users, &mut changes);
    compare_lists("firewall rules", &before.firewall_rules, &now.firewall_rules, &mut changes);
    compare_lists("limits", &before.limits, &now.limits, &mut changes);
    compare_lists("tenants", &before.tenants, &now.tenants, &mut changes);
    changes
}

/// A list that may be long, in one line.
fn compare_lists<T: PartialEq>(name: &str, old: &[T], new: &[T], changes: &mut Vec<Change>) {
    if old == new {
        return;
    }
    let detail = match (old.len(), new.len()) {
        (before, now) if before == now => format!("some of {now} changed"),
        (before, now) => format!("{before} -> {now}"),
    };
    changes.push(Change { subject: name.to_owned(), detail, needs_restart: false });
}

fn setting_change(row: &Setting, old: &Settings, new: &Settings) -> Option<Change> {
    let shown = |settings: &Settings| match settings.show(row.name).unwrap_or_default() {
        text if text.is_empty() => "empty".to_owned(),
        text => text,
    };
    let (old, new) = (shown(old), shown(new));
    (old != new).then(|| Change {
        subject: format!("setting {}", row.name),
        detail: match is_hidden(row) {
            true => "changed".to_owned(),
            false => format!("{old} -> {new}"),
        },
        needs_restart: row.reload == Reload::Restart,
    })
}

/// Whether nobody has to see its values in a log.
fn is_hidden(row: &Setting) -> bool {
    row.name.ends_with("_token") || row.name == "server_public_key" || row.kind == "password"
}

/// An entry of a section, as far as a difference needs to know.
trait Item {
    type Key: Eq + Hash;

    fn key(&self) -> Self::Key;

    fn subject(&self) -> String;

    /// Notes each column that differs.
    fn compare(&self, new: &Self, columns: &mut Columns);
}

fn compare<T: Item>(old: &[T], new: &[T], changes: &mut Vec<Change>) {
    let mut left: HashMap<T::Key, &T> = old.iter().map(|item| (item.key(), item)).collect();
    for item in new {
        let detail = match left.remove(&item.key()) {
            None => "added".to_owned(),
            Some(before) => {
                let mut columns = Columns::default();
                before.compare(item, &mut columns);
                columns.0.join(", ")
            }
        };
        if !detail.is_empty() {
            changes.push(Change { subject: item.subject(), detail, needs_restart: false });
        }
    }
    for item in old.iter().filter(|item| left.contains_key(&item.key())) {
        let detail = "removed".to_owned();
        changes.push(Change { subject: item.subject(), detail, needs_restart: false });
    }
}

/// The columns that differ, each `name old -> new`.
#[derive(Default)]
struct Columns(Vec<String>);

impl Columns {
    fn plain<T: Display + PartialEq>(&mut self, name: &str, old: T, new: T) {
        if old != new {
            self.0.push(format!("{name} {old} -> {new}"));
        }
    }

    fn optional<T: Display + PartialEq>(&mut self, name: &str, old: Option<T>, new: Option<T>) {
        let shown = |value: &Option<T>| value.as_ref().map_or("none".to_owned(), T::to_string);
        if old != new {
            self.0.push(format!("{name} {} -> {}", shown(&old), shown(&new)));
        }
    }

    /// Texts stand in quotes, since they may hold anything.
    fn text(&mut self, name: &str, old: Option<&str>, new: Option<&str>) {
        let quoted = |value: Option<&str>| value.map(|text| format!("{text:?}"));
        self.optional(name, quoted(old), quoted(new));
    }

    fn unshown(&mut self, name: &str, differs: bool) {
        if differs {
            self.0.push(format!("{name} changed"));
        }
    }
}

impl Item for ServerEntry {
    type Key = ServerKey;

    fn key(&self) -> ServerKey {
        self.key.clone()
    }

    fn subject(&self) -> String {
        format!("server {} {}", self.key.hostgroup, self.key.address)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        columns.plain("weight", self.weight, new.weight);
        columns.plain("max_connections", self.max_connections, new.max_connections);
        let lags = (self.max_replication_lag, new.max_replication_lag);
        columns.plain("max_replication_lag", lags.0, lags.1);
        columns.plain("rank", self.rank, new.rank);
        columns.text("zone", Some(&self.zone), Some(&new.zone));
        let (old, now) = (compression_word(self.compression), compression_word(new.compression));
        columns.plain("compression", old, now);
        columns.plain("tls", tls_word(self.tls), tls_word(new.tls));
        columns.plain("status", status_word(self.status), status_word(new.status));
        columns.text("comment", Some(&self.comment), Some(&new.comment));
    }
}

impl Item for Arc<User> {
    type Key = String;

    fn key(&self) -> String {
        self.name.clone()
    }

    fn subject(&self) -> String {
        format!("user {}", self.name)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        // Each field by its name, so that a new one is not forgotten here.
        let User {
            name: _,
            password,
            retained_password,
            backend,
            default_hostgroup,
            default_schema,
            max_connections,
            transaction_persistent,
            lazy_transactions,
            transaction_replay,
            commit_outcome,
            trace_sample,
            fast_forward,
            active,
            require,
            allow_from,
            unix_uid,
            causal_reads,
            // Of servers' users, which are not in a configuration.
            host: _,
        } = &**self;
        columns.unshown("password", *password != new.password);
        columns.plain("default_hostgroup", *default_hostgroup, new.default_hostgroup);
        columns.text("default_schema", default_schema.as_deref(), new.default_schema.as_deref());
        columns.plain("max_connections", *max_connections, new.max_connections);
        let causal = |reads: Option<CausalReads>| reads.map(|reads| reads.to_string());
        let (old, now) = (causal(*causal_reads), causal(new.causal_reads));
        columns.text("causal_reads", old.as_deref(), now.as_deref());
        let persistent = new.transaction_persistent;
        columns.plain("transaction_persistent", *transaction_persistent, persistent);
        columns.optional("lazy_transactions", *lazy_transactions, new.lazy_transactions);
        columns.unshown("transaction_replay", *transaction_replay != new.transaction_replay);
        columns.unshown("commit_outcome", *commit_outcome != new.commit_outcome);
        columns.optional("trace_sample", *trace_sample, new.trace_sample);
        columns.plain("fast_forward", *fast_forward, new.fast_forward);
        columns.plain("active", *active, new.active);
        columns.unshown("require", *require != new.require);
        columns.unshown("retained_password", *retained_password != new.retained_password);
        columns.unshown("backend", *backend != new.backend);
        columns.unshown("allow_from", *allow_from != new.allow_from);
        columns.unshown("unix_user", *unix_uid != new.unix_uid);
    }
}

impl Item for ServerTlsEntry {
    type Key = (Address, String);

    fn key(&self) -> Self::Key {
        (self.address.clone(), self.username.clone())
    }

    fn subject(&self) -> String {
        match self.username.as_str() {
            "" => format!("TLS to {}", self.address),
            user => format!("TLS to {} as {user}", self.address),
        }
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        let (old, new) = (&*self.params, &*new.params);
        let mut text = |name: &str, column: fn(&TlsParams) -> &String| {
            columns.text(name, Some(column(old)), Some(column(new)));
        };
        text("ssl_ca", |params| &params.ca);
        text("ssl_cert", |params| &params.cert);
        text("ssl_key", |params| &params.key);
        text("ssl_capath", |params| &params.capath);
        text("ssl_crl", |params| &params.crl);
        text("ssl_crlpath", |params| &params.crlpath);
        text("ssl_cipher", |params| &params.cipher);
        text("tls_version", |params| &params.tls_version);
    }
}

impl Item for HostgroupEntry {
    type Key = HostgroupId;

    fn key(&self) -> HostgroupId {
        self.id
    }

    fn subject(&self) -> String {
        format!("hostgroup {}", self.id)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        columns.plain("pipeline", self.pipeline, new.pipeline);
        columns.plain("balance", self.balance, new.balance);
        let causal = |reads: Option<_>| reads.map(|reads: CausalReads| reads.to_string());
        let (old, now) = (causal(self.causal_reads), causal(new.causal_reads));
        columns.text("causal_reads", old.as_deref(), now.as_deref());
        columns.optional("lazy_transactions", self.lazy_transactions, new.lazy_transactions);
        if self.server_keys != new.server_keys {
            let shown = |keys: &Option<_>| if keys.is_some() { "given" } else { "none" };
            columns.plain("server_public_key", shown(&self.server_keys), shown(&new.server_keys));
        }
        columns.text("comment", Some(&self.comment), Some(&new.comment));
    }
}

fn split(split: ReadWriteSplit) -> &'static str {
    match split {
        ReadWriteSplit::Auto => "auto",
        ReadWriteSplit::Rules => "rules",
    }
}

impl Item for ReplicationGroup {
    type Key = HostgroupId;

    fn key(&self) -> HostgroupId {
        self.writer_hostgroup
    }

    fn subject(&self) -> String {
        format!("replication {}", self.writer_hostgroup)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        columns.plain("reader_hostgroup", self.reader_hostgroup, new.reader_hostgroup);
        columns.plain(
            "read_write_split",
            split(self.read_write_split),
            split(new.read_write_split),
        );
    }
}

impl Item for ClusterEntry {
    type Key = String;

    fn key(&self) -> String {
        self.name.clone()
    }

    fn subject(&self) -> String {
        format!("cluster {}", self.name)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        columns.plain("kind", self.kind, new.kind);
        columns.plain("writer_hostgroup", self.writer_hostgroup, new.writer_hostgroup);
        columns.plain("reader_hostgroup", self.reader_hostgroup, new.reader_hostgroup);
        let seeds = |it: &Self| {
            let seeds: Vec<String> = it.seeds.iter().map(ToString::to_string).collect();
            seeds.join(",")
        };
        columns.plain("seeds", seeds(self), seeds(new));
        columns.plain("check_type", self.check_type, new.check_type);
        let (before, now) = (self.backup_writer_hostgroup, new.backup_writer_hostgroup);
        columns.optional("backup_writer_hostgroup", before, now);
        columns.optional("offline_hostgroup", self.offline_hostgroup, new.offline_hostgroup);
        columns.plain("max_writers", self.max_writers, new.max_writers);
        let behind = (self.max_transactions_behind, new.max_transactions_behind);
        columns.plain("max_transactions_behind", behind.0, behind.1);
        columns.plain("max_lag_ms", self.max_lag_ms, new.max_lag_ms);
        columns.text("domain_name", Some(&self.domain_name), Some(&new.domain_name));
        columns.plain("port", self.port, new.port);
        let check = |it: &Self| {
            it.check_ms.map(|(interval, timeout)| format!("every {interval} ms, within {timeout}"))
        };
        columns.optional("check_interval_ms", check(self), check(new));
        columns.optional("new_weight", self.new_weight, new.new_weight);
        columns.plain(
            "read_write_split",
            split(self.read_write_split),
            split(new.read_write_split),
        );
        let also = (self.writer_is_also_reader, new.writer_is_also_reader);
        columns.optional("writer_is_also_reader", also.0, also.1);
        columns.plain("failover", self.failover, new.failover);
        let candidates = |it: &Self| {
            let candidates: Vec<String> = it.candidates.iter().map(ToString::to_string).collect();
            candidates.join(",")
        };
        columns.plain("candidates", candidates(self), candidates(new));
        columns.plain("binlog_stream", self.binlog_stream, new.binlog_stream);
        columns.optional("hold_timeout", self.hold_timeout, new.hold_timeout);
        columns.text("comment", Some(&self.comment), Some(&new.comment));
    }
}

impl Item for TcpEntry {
    type Key = ListenAddress;

    fn key(&self) -> ListenAddress {
        self.address.clone()
    }

    fn subject(&self) -> String {
        format!("tcp_listener {}", self.address)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        columns.plain("hostgroup", self.hostgroup, new.hostgroup);
        columns.optional("backup_hostgroup", self.backup_hostgroup, new.backup_hostgroup);
        columns.plain("balance", self.balance, new.balance);
        columns.plain("max_connections", self.max_connections, new.max_connections);
        columns.plain("connect_timeout", self.connect_timeout, new.connect_timeout);
        columns.plain("retries", self.retries, new.retries);
        columns.plain("client_timeout", self.client_timeout, new.client_timeout);
        columns.plain("server_timeout", self.server_timeout, new.server_timeout);
        columns.plain("fin_timeout", self.fin_timeout, new.fin_timeout);
        columns.plain("on_marked_down", self.on_marked_down, new.on_marked_down);
        columns.plain("check", self.check, new.check);
        columns.plain("check_interval", self.check_interval, new.check_interval);
        columns.plain("rise", self.rise, new.rise);
        columns.plain("fall", self.fall, new.fall);
        columns.plain("send_proxy", self.send_proxy, new.send_proxy);
        columns.optional("control", self.control.as_ref(), new.control.as_ref());
        columns.text("comment", Some(&self.comment), Some(&new.comment));
    }
}

impl Item for Rule {
    type Key = u32;

    fn key(&self) -> u32 {
        self.id
    }

    fn subject(&self) -> String {
        format!("rule {}", self.id)
    }

    fn compare(&self, new: &Self, columns: &mut Columns) {
        let mut text = |name: &str, column: fn(&Self) -> &Option<String>| {
            columns.text(name, column(self).as_deref(), column(new).as_deref());
        };
        text("username", |rule| &rule.username);
        text("schemaname", |rule| &rule.schemaname);
        text("client_addr", |rule| &rule.client_addr);
        text("proxy_addr", |rule| &rule.proxy_addr);
        text("digest", |rule| &rule.digest);
        text("match_digest", |rule| &rule.match_digest);
        text("match_pattern", |rule| &rule.match_pattern);
        text("re_modifiers", |rule| &rule.re_modifiers);
        text("error_msg", |rule| &rule.error_msg);
        text("OK_msg", |rule| &rule.ok_msg);
        text("replace_pattern", |rule| &rule.replace_pattern);
        text("attributes", |rule| &rule.attributes);
        text("comment", |rule| &rule.comment);
        columns.plain("active", self.active, new.active);
        columns.plain("flagIN", self.flag_in, new.flag_in);
        columns.optional("proxy_port", self.proxy_port, new.proxy_port);
        let negate = (self.negate_match_pattern, new.negate_match_pattern);
        columns.plain("negate_match_pattern", negate.0, negate.1);
        columns.optional("flagOUT", self.flag_out, new.flag_out);
        let mut hostgroup = |name: &str, column: fn(&Self) -> Option<HostgroupId>| {
            columns.optional(name, column(self), column(new));
        };
        hostgroup("destination_hostgroup", |rule| rule.destination_hostgroup);
        hostgroup("mirror_hostgroup", |rule| rule.mirror_hostgroup);
        hostgroup("gtid_from_hostgroup", |rule| rule.gtid_from_hostgroup);
        let mut number = |name: &str, column: fn(&Self) -> Option<u32>| {
            columns.optional(name, column(self), column(new));
        };
        number("cache_ttl", |rule| rule.cache_ttl_ms);
        number("cache_timeout", |rule| rule.cache_timeout_ms);
        number("timeout", |rule| rule.timeout_ms);
        number("retries", |rule| rule.retries);
        number("delay", |rule| rule.delay_ms);
        number("next_query_flagIN", |rule| rule.next_query_flag_in);
        number("mirror_flagOUT", |rule| rule.mirror_flag_out);
        number("multiplex", |rule| rule.multiplex.map(|multiplex| multiplex.number().into()));
        let mut switch = |name: &str, column: fn(&Self) -> Option<bool>| {
            columns.optional(name, column(self), column(new));
        };
        switch("cache_empty_result", |rule| rule.cache_empty_result);
        switch("reconnect", |rule| rule.reconnect);
        switch("sticky_conn", |rule| rule.sticky_conn);
        switch("log", |rule| rule.log);
        columns.optional("pipeline", self.pipeline, new.pipeline);
        columns.optional("lazy_transactions", self.lazy_transactions, new.lazy_transactions);
        columns.optional("causal_reads", self.causal_reads, new.causal_reads);
        columns.optional("trace_sample", self.trace_sample, new.trace_sample);
        columns.plain("shadow", self.shadow, new.shadow);
        columns.plain("apply", self.apply, new.apply);
        // A column that this list does not know yet must not go unnoticed.
        columns.unshown("rule", columns.0.is_empty() && self != new);
    }
}
