//! Checksums of what is configured, as ProxySQL makes them: nodes of a cluster compare them.
//! [decision 0060](../../../../docs/decisions/0060-checksums-are-proxysqls.md) has the sources.
//!
//! The hash is SpookyHash V2, its first 64 bits. Values are hashed as texts, one directly after
//! the other, without anything between them; NULL is nothing.

use trunkline_sql::spooky::{self, Stream};
use trunkline_store::{Chosen, Layer, Module, SqlError, Store, StoredRow, ValueRef};

/// The seeds of tables and variables.
const ROWS: [u64; 2] = [19, 3];
/// The seeds of a user's name, by which users are sorted.
const NAMES: [u64; 2] = [1, 2];
/// The seeds of users.
const USERS: [u64; 2] = [13, 4];
/// The seeds of all modules together.
const ALL: [u64; 2] = [9, 5];

/// A checksum of what runs in `runtime_checksums_values`: `0x` and 16 digits.
pub(super) fn padded(sum: u64) -> String {
    format!("{:0<18}", short(sum))
}

/// A checksum as `CHECKSUM` answers it: the lower half, then the upper one, neither with its
/// leading zeros.
pub(super) fn short(sum: u64) -> String {
    format!("0x{:X}{:X}", sum & 0xFFFF_FFFF, sum >> 32)
}

/// The rows of a table, as `CHECKSUM` takes them.
fn whole(table: &'static str) -> Chosen {
    let order = match table {
        "mysql_servers" => "hostgroup_id, hostname, port",
        "mysql_users" => "username",
        "mysql_query_rules" => "rule_id",
        "mysql_replication_hostgroups"
        | "mysql_group_replication_hostgroups"
        | "mysql_galera_hostgroups"
        | "mysql_aws_aurora_hostgroups" => "writer_hostgroup",
        "mysql_hostgroup_attributes" => "hostgroup_id",
        "mysql_servers_ssl_params" => "hostname, port, username",
        "proxysql_servers" => "hostname, port",
        _ => "rowid",
    };
    Chosen { table, columns: "*", only: "1", order }
}

/// Servers that serve or could: being shunned is a matter of each proxy.
const SERVERS: Chosen = Chosen {
    table: "mysql_servers",
    columns: "hostgroup_id, hostname, port, gtid_port, \
              iif(upper(status) = 'SHUNNED', 'ONLINE', upper(status)), weight, compression, \
              max_connections, max_replication_lag, use_ssl, max_latency_ms, comment",
    only: "upper(status) != 'OFFLINE_HARD'",
    order: "hostgroup_id, hostname, port",
};

/// What is loaded with the servers, in the order in which it is added to their checksum.
const BESIDE_SERVERS: [&str; 6] = [
    "mysql_replication_hostgroups",
    "mysql_group_replication_hostgroups",
    "mysql_galera_hostgroups",
    "mysql_aws_aurora_hostgroups",
    "mysql_hostgroup_attributes",
    "mysql_servers_ssl_params",
];

/// Rules that are active, without the column that says so.
const RULES: Chosen = Chosen {
    table: "mysql_query_rules",
    columns: "rule_id, username, schemaname, flagIN, client_addr, proxy_addr, proxy_port, digest, \
              match_digest, match_pattern, negate_match_pattern, re_modifiers, flagOUT, \
              replace_pattern, destination_hostgroup, cache_ttl, cache_empty_result, \
              cache_timeout, reconnect, timeout, retries, delay, next_query_flagIN, \
              mirror_flagOUT, mirror_hostgroup, error_msg, OK_msg, sticky_conn, multiplex, \
              gtid_from_hostgroup, log, apply, attributes, comment",
    only: "active = 1",
    order: "rule_id",
};

const FAST_ROUTING: Chosen = Chosen {
    table: "mysql_query_rules_fast_routing",
    columns: "username, schemaname, flagIN, destination_hostgroup, comment",
    only: "1",
    order: "username, schemaname, flagIN",
};

const ACTIVE_USERS: Chosen = Chosen {
    table: "mysql_users",
    columns: "username, password, use_ssl, default_hostgroup, default_schema, schema_locked, \
              transaction_persistent, fast_forward, max_connections, attributes, comment, \
              backend, frontend",
    only: "active = 1 AND default_hostgroup >= 0",
    order: "username",
};

/// Variables of `mysql-` that ProxySQL's nodes don't share: each has its own.
const OWN_OF_MYSQL: [&str; 2] = ["mysql-threads", "mysql-interfaces"];
/// Variables of `admin-` that ProxySQL's nodes don't share.
const OWN_OF_ADMIN: [&str; 5] = [
    "admin-mysql_ifaces",
    "admin-restapi_port",
    "admin-telnet_admin_ifaces",
    "admin-telnet_stats_ifaces",
    "admin-web_port",
];

/// The checksum of a module, or of one of its tables, in a layer.
pub(super) fn of_layer(
    store: &Store,
    layer: Layer,
    module: Module,
    table: Option<&'static str>,
) -> Result<u64, SqlError> {
    let mut sum = Rows::new();
    match table {
        Some(table) => sum.eat(store, layer, &whole(table))?,
        None => {
            for table in module.tables() {
                sum.eat(store, layer, &whole(table))?;
            }
            sum.eat_variables(store, layer, module, &[])?;
        }
    }
    Ok(sum.finish())
}

/// The checksums of what runs of a module, with their names in `runtime_checksums_values`. None
/// for modules that ProxySQL has no checksums of.
pub(super) fn of_running(
    store: &Store,
    module: Module,
) -> Result<Vec<(&'static str, u64)>, SqlError> {
    let rows = |rows: &Chosen| {
        let mut sum = Rows::new();
        sum.eat(store, Layer::Runtime, rows)?;
        Ok::<u64, SqlError>(sum.finish())
    };
    let variables = |own: &[&str]| {
        let mut sum = Rows::new();
        sum.eat_variables(store, Layer::Runtime, module, own)?;
        Ok::<u64, SqlError>(sum.finish())
    };
    Ok(match module {
        Module::MysqlServers => {
            let servers = rows(&SERVERS)?;
            let mut all = vec![servers];
            for table in BESIDE_SERVERS {
                all.push(rows(&whole(table))?);
            }
            vec![("mysql_servers", servers), ("mysql_servers_v2", together(&all))]
        }
        Module::MysqlUsers => vec![("mysql_users", of_users(store)?)],
        Module::MysqlQueryRules => {
            vec![("mysql_query_rules", rows(&RULES)?.wrapping_add(rows(&FAST_ROUTING)?))]
        }
        Module::MysqlVariables => vec![("mysql_variables", variables(&OWN_OF_MYSQL)?)],
        Module::AdminVariables => vec![("admin_variables", variables(&OWN_OF_ADMIN)?)],
        Module::ProxysqlServers => {
            vec![("proxysql_servers", rows(&whole("proxysql_servers"))?)]
        }
        Module::TrunklineVariables
        | Module::MysqlFirewall
        | Module::Scheduler
        | Module::Restapi
        | Module::SqliteserverVariables
        | Module::ClickhouseVariables
        | Module::LdapVariables
        | Module::ClickhouseUsers => Vec::new(),
    })
}

/// One number over all checksums of what runs and their versions. It is positive as a signed one.
pub(super) fn global(store: &Store) -> Result<u64, SqlError> {
    let mut sum = Stream::new(ALL);
    let rows = Chosen {
        table: "runtime_checksums_values",
        columns: "checksum, version",
        only: "1",
        order: "name",
    };
    store.visit_chosen(Layer::Memory, &rows, |row| {
        if let (ValueRef::Text(text), ValueRef::Integer(version)) = (row.value(0), row.value(1)) {
            sum.update(text);
            sum.update(&version.to_le_bytes());
        }
    })?;
    Ok(sum.finish() / 2)
}

/// The checksum of several, which are added in their order; those without rows are not.
fn together(sums: &[u64]) -> u64 {
    let mut bytes = Vec::new();
    for sum in sums.iter().filter(|sum| **sum != 0) {
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    if bytes.is_empty() { 0 } else { spooky::hash128_first(&bytes, ROWS) }
}

/// Those that clients use and those that servers know have a checksum each; the sum of both counts.
fn of_users(store: &Store) -> Result<u64, SqlError> {
    /// A user whose bytes are the next of all.
    struct User {
        name: u64,
        begin: usize,
        end: usize,
        is_backend: bool,
        is_frontend: bool,
    }
    let mut bytes: Vec<u8> = Vec::new();
    let mut users: Vec<User> = Vec::new();
    store.visit_chosen(Layer::Runtime, &ACTIVE_USERS, |row| {
        let begin = bytes.len();
        let is_on = |at: usize| matches!(row.value(at), ValueRef::Integer(1));
        let number = |at: usize| {
            let value = if let ValueRef::Integer(value) = row.value(at) { value } else { 0 };
            i32::try_from(value).unwrap_or(i32::MAX).to_le_bytes()
        };
        // As the original's memory has it: a byte for what is on or off, four for a number.
        bytes.push(u8::from(is_on(2)));
        bytes.extend_from_slice(&number(3));
        bytes.extend([5, 6, 7].map(|at| u8::from(is_on(at))));
        bytes.extend_from_slice(&number(8));
        for at in [0, 1, 4, 10, 9] {
            text_of(row.value(at), |text| bytes.extend_from_slice(text));
        }
        let mut name = 0;
        text_of(row.value(0), |text| name = spooky::hash128_first(text, NAMES));
        let (is_backend, is_frontend) = (is_on(11), is_on(12));
        users.push(User { name, begin, end: bytes.len(), is_backend, is_frontend });
    })?;
    users.sort_unstable_by_key(|user| user.name);
    let sum_of = |belongs: fn(&User) -> bool| {
        let mut sum = Stream::new(USERS);
        for user in users.iter().filter(|user| belongs(user)) {
            sum.update(bytes.get(user.begin..user.end).unwrap_or_default());
        }
        if sum.is_empty() { 0 } else { sum.finish() }
    };
    Ok(sum_of(|user| user.is_backend).wrapping_add(sum_of(|user| user.is_frontend)))
}

/// Shows a value as the text that SQLite makes of it; NULL not at all.
fn text_of(value: ValueRef<'_>, mut show: impl FnMut(&[u8])) {
    match value {
        ValueRef::Null => {}
        ValueRef::Integer(number) => show(number.to_string().as_bytes()),
        ValueRef::Real(number) => show(number.to_string().as_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => show(bytes),
    }
}

/// The checksum of rows that come one after the other.
struct Rows {
    sum: Stream,
    has_rows: bool,
}

impl Rows {
    fn new() -> Self {
        Self { sum: Stream::new(ROWS), has_rows: false }
    }

    fn eat_row(&mut self, row: &StoredRow<'_>) {
        self.has_rows = true;
        for value in row.values() {
            text_of(value, |text| self.sum.update(text));
        }
    }

    fn eat(&mut self, store: &Store, layer: Layer, rows: &Chosen) -> Result<(), SqlError> {
        store.visit_chosen(layer, rows, |row| self.eat_row(&row))
    }

    /// Eats names and values of a module's variables, without those that `own` names.
    fn eat_variables(
        &mut self,
        store: &Store,
        layer: Layer,
        module: Module,
        own: &[&str],
    ) -> Result<(), SqlError> {
        let Some(prefix) = module.prefix() else { return Ok(()) };
        for (name, value) in store.variables(layer, prefix)? {
            if !own.contains(&name.as_str()) {
                self.has_rows = true;
                self.sum.update(name.as_bytes());
                self.sum.update(value.as_bytes());
            }
        }
        Ok(())
    }

    /// 0 if there were no rows.
    fn finish(self) -> u64 {
        if self.has_rows { self.sum.finish() } else { 0 }
    }
}
