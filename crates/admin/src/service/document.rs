//! Rows of the tables as the text of a configuration file, so that there is one validation; and
//! its errors in the words of the tables.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    sync::Arc,
};

use trunkline_config::{
    Config, ConfigError, ErrorKind, FileSource, Ready, SECTIONS, Subject, USERS_FILE, parse_tables,
    variable::{self, quoted},
};
use trunkline_store::{Layer, Module, SqlError, Store, Value, tables::Table};

use super::{
    hostgroups::{HostgroupRow, hostgroup_rows},
    routes, user,
};

/// Columns that may be set and left without effect: leaving them out sends no statement to a wrong
/// place and nothing in clear that should not be. `LOAD` warns of them.
const HARMLESS: [(&str, &str); 7] = [
    ("server", "gtid_port"),
    ("server", "max_latency_ms"),
    ("user", "schema_locked"),
    ("rule", "reconnect"),
    ("rule", "sticky_conn"),
    ("rule", "log"),
    ("replication", "check_type"),
];

/// Tables whose rows have no effect yet.
const WITHOUT_EFFECT: [(Module, &str); 6] = [
    (Module::MysqlFirewall, "mysql_firewall_whitelist_sqli_fingerprints"),
    (Module::MysqlServers, "mysql_group_replication_hostgroups"),
    (Module::MysqlServers, "mysql_galera_hostgroups"),
    (Module::MysqlServers, "mysql_aws_aurora_hostgroups"),
    (Module::ProxysqlServers, "proxysql_servers"),
    (Module::ClickhouseUsers, "clickhouse_users"),
];

/// A configuration made of tables.
pub struct LoadedConfig {
    /// What the data plane can serve by.
    pub config: Config,
    /// What an operator should hear.
    pub warnings: Vec<String>,
}

/// Why the tables make no configuration.
#[derive(Debug)]
pub enum MakeError {
    /// Rows are wrong: a line for each.
    Rows(Vec<String>),
    /// The database failed.
    Sql(SqlError),
}

impl From<SqlError> for MakeError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

/// Makes the configuration that would run if `loading` were loaded from MEMORY; the other modules
/// are as they run in `running`. Without that, all must be loaded.
///
/// # Errors
/// Every wrong row and column.
pub fn make(
    store: &Store,
    loading: &[Module],
    running: Option<&Config>,
) -> Result<LoadedConfig, MakeError> {
    let layer = |module: Module| match loading.contains(&module) {
        true => Layer::Memory,
        false => Layer::Runtime,
    };
    // What there may be very many of is taken as it runs.
    let kept = |module: Module| running.filter(|_| !loading.contains(&module));
    let fast_routes = match kept(Module::MysqlQueryRules) {
        Some(running) => Arc::clone(&running.fast_routes),
        None => routes::fast_routes(store, layer(Module::MysqlQueryRules))?,
    };
    let users = kept(Module::MysqlUsers).map(|running| running.users.clone());
    let reads_users = users.is_none();
    let ready = Ready { users: users.unwrap_or_default(), fast_routes };
    let rows = Rows::read(store, layer, LoadScope { users: reads_users, fast_routes: false })?;
    finish(rows, &ready, loading, without_effect(store, loading)?)
}

/// Makes a configuration with one user as MEMORY has it: all else is as it runs.
///
/// # Errors
/// As [`make`], and when MEMORY has no such user.
pub fn make_user(store: &Store, name: &str, running: &Config) -> Result<LoadedConfig, MakeError> {
    let mut rows =
        Rows::read(store, |_| Layer::Runtime, LoadScope { users: false, fast_routes: false })?;
    rows.users = store.rows_of_user(Layer::Memory, name)?;
    if rows.users.is_empty() {
        return Err(MakeError::Rows(vec![format!("mysql_users has no user `{name}`")]));
    }
    let others = running.users.iter().filter(|user| user.name != name);
    let ready =
        Ready { users: others.cloned().collect(), fast_routes: Arc::clone(&running.fast_routes) };
    finish(rows, &ready, &[Module::MysqlUsers], Vec::new())
}

/// From rows to a configuration, with the warnings that are about what is loaded.
fn finish(
    rows: Rows,
    ready: &Ready,
    loading: &[Module],
    mut warnings: Vec<String>,
) -> Result<LoadedConfig, MakeError> {
    let mut left_out: Vec<(String, String)> = Vec::new();
    let mut document = rows.document(&left_out);
    document.warnings.append(&mut warnings);
    if !document.errors.is_empty() {
        return Err(MakeError::Rows(document.errors));
    }
    let concerns = |warning: &String| {
        let mut tables = loading.iter().flat_map(|module| module.tables());
        loading.iter().any(|module| module.prefix().is_some_and(|p| warning.starts_with(p)))
            || tables.any(|table| warning.starts_with(table))
    };
    document.warnings.retain(concerns);
    let errors = match parse_tables(&document.text, "tables", ready, &SystemUsers) {
        Ok(config) => return Ok(LoadedConfig { config, warnings: document.warnings }),
        Err(errors) => errors,
    };
    // A column that the file does not know yet may be one that can be left without effect.
    let mut warnings = std::mem::take(&mut document.warnings);
    for error in &errors {
        let Some((section, column)) = harmless(error) else { continue };
        warnings.push(format!("{}: {column} has no effect yet", document.subject(&error.subject)));
        left_out.push((section.to_owned(), column.to_owned()));
    }
    warnings.retain(concerns);
    let document = rows.document(&left_out);
    match parse_tables(&document.text, "tables", ready, &SystemUsers) {
        Ok(config) => Ok(LoadedConfig { config, warnings }),
        Err(errors) => Err(MakeError::Rows(errors.iter().map(|e| document.explain(e)).collect())),
    }
}

/// The one file that tables need: who the system's users are, as `unix_user` names them.
struct SystemUsers;

impl FileSource for SystemUsers {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("tables have no file `{path}`"))
    }

    fn read_rules(&self, path: &str) -> Result<String, String> {
        match path == USERS_FILE {
            true => std::fs::read_to_string(path).map_err(|error| error.to_string()),
            false => self.read(path),
        }
    }
}

/// One layer as the text of a configuration file.
///
/// # Errors
/// Those of the database.
pub fn text(store: &Store, layer: Layer) -> Result<String, SqlError> {
    let all = LoadScope { users: true, fast_routes: true };
    Ok(Rows::read(store, |_| layer, all)?.document(&[]).text)
}

/// Section and column of an error that says that a harmless column is not supported.
fn harmless(error: &ConfigError) -> Option<(&'static str, &'static str)> {
    let Subject { section, column, .. } = &error.subject;
    let found = HARMLESS.into_iter().find(|known| *known == (*section, column));
    found.filter(|_| error.kind == ErrorKind::NotSupported)
}

fn without_effect(store: &Store, loading: &[Module]) -> Result<Vec<String>, SqlError> {
    let mut warnings = Vec::new();
    for (module, table) in WITHOUT_EFFECT {
        if !loading.contains(&module) {
            continue;
        }
        if store.count(Layer::Memory, table)? > 0 {
            warnings.push(format!("{table}: its rows have no effect yet"));
        }
    }
    if loading.contains(&Module::MysqlServers) {
        for row in hostgroup_rows(store, Layer::Memory)? {
            let subject = hostgroup_subject(&shown(&row.id));
            let of = |name: &String| format!("{subject}: {name} has no effect yet");
            warnings.extend(row.without_effect.iter().map(of));
        }
    }
    for module in loading.iter().filter(|module| module.prefix().is_some()) {
        for (name, value) in store.variables(Layer::Memory, module.prefix().unwrap_or_default())? {
            let row = variable::find(&name);
            let is_set = row
                .is_some_and(|row| row.support_word() == "ignored" && row.default_value() != value);
            if is_set {
                warnings.push(format!("{name} has no effect"));
            }
        }
    }
    Ok(warnings)
}

/// Which of the long tables are read.
#[derive(Clone, Copy)]
struct LoadScope {
    users: bool,
    fast_routes: bool,
}

/// The rows that make a configuration.
struct Rows {
    variables: Vec<(String, String)>,
    servers: Vec<Vec<Value>>,
    ssl_params: Vec<Vec<Value>>,
    replication: Vec<Vec<Value>>,
    hostgroups: Vec<HostgroupRow>,
    users: Vec<Vec<Value>>,
    rules: Vec<Vec<Value>>,
    fast_routing: Vec<Vec<Value>>,
    firewall_users: Vec<Vec<Value>>,
    firewall_rules: Vec<Vec<Value>>,
    limits: Vec<Vec<Value>>,
    tcp_listeners: Vec<Vec<Value>>,
}

/// A text, and what its parts are about.
#[derive(Default)]
struct Document {
    text: String,
    /// What the entries of each section are called.
    subjects: HashMap<&'static str, Vec<String>>,
    warnings: Vec<String>,
    errors: Vec<String>,
}

impl Rows {
    fn read(
        store: &Store,
        layer: impl Fn(Module) -> Layer,
        many: LoadScope,
    ) -> Result<Self, SqlError> {
        let rows_if = |is_wanted: bool, layer: Layer, table: &str| match is_wanted {
            true => store.rows(layer, table),
            false => Ok(Vec::new()),
        };
        let mut variables = Vec::new();
        for module in [Module::MysqlVariables, Module::AdminVariables, Module::TrunklineVariables] {
            let prefix = module.prefix().unwrap_or_default();
            variables.extend(store.variables(layer(module), prefix)?);
        }
        let servers = layer(Module::MysqlServers);
        let rules = layer(Module::MysqlQueryRules);
        let firewall = layer(Module::MysqlFirewall);
        Ok(Self {
            hostgroups: hostgroup_rows(store, servers)?,
            variables,
            servers: store.rows(servers, "mysql_servers")?,
            ssl_params: store.rows(servers, "mysql_servers_ssl_params")?,
            replication: store.rows(servers, "mysql_replication_hostgroups")?,
            users: rows_if(many.users, layer(Module::MysqlUsers), "mysql_users")?,
            rules: store.rows(rules, "mysql_query_rules")?,
            fast_routing: rows_if(many.fast_routes, rules, routes::TABLE)?,
            firewall_users: store.rows(firewall, "mysql_firewall_whitelist_users")?,
            firewall_rules: store.rows(firewall, "mysql_firewall_whitelist_rules")?,
            limits: store.rows(firewall, "trunkline_limits")?,
            tcp_listeners: store.rows(servers, "trunkline_tcp_listeners")?,
        })
    }

    fn document(&self, left_out: &[(String, String)]) -> Document {
        let mut document = Document::default();
        for (name, value) in &self.variables {
            let row = variable::find(name);
            let set = row.filter(|row| row.default_value() != *value);
            if let Some(line) = set.and_then(|row| row.toml(value)) {
                let _ = writeln!(document.text, "{line}");
            }
        }
        let sections = [
            ("server", "mysql_servers", &self.servers),
            ("server_ssl_params", "mysql_servers_ssl_params", &self.ssl_params),
            ("replication", "mysql_replication_hostgroups", &self.replication),
            ("user", "mysql_users", &self.users),
            ("rule", "mysql_query_rules", &self.rules),
            ("fast_routing", routes::TABLE, &self.fast_routing),
            ("firewall_user", "mysql_firewall_whitelist_users", &self.firewall_users),
            ("firewall_rule", "mysql_firewall_whitelist_rules", &self.firewall_rules),
            ("limit", "trunkline_limits", &self.limits),
            ("tcp_listener", "trunkline_tcp_listeners", &self.tcp_listeners),
        ];
        for (section, name, rows) in sections {
            let Some(table) = trunkline_store::tables::find(name) else { continue };
            let skipped: Vec<&str> = left_out
                .iter()
                .filter(|(of, _)| of == section)
                .map(|(_, column)| column.as_str())
                .collect();
            let users = match section {
                "user" => UserRows::of(&table, rows),
                _ => UserRows::default(),
            };
            for row in rows {
                document.entry(section, &table, row, &users, &skipped);
                if section == "replication" {
                    let fields = Fields { table: &table, row };
                    let writer = fields.value("writer_hostgroup");
                    let of_writer = self.hostgroups.iter().find(|of| Some(&of.id) == writer);
                    let is_split = of_writer.is_some_and(|of| of.splits_reads);
                    let split = if is_split { "auto" } else { "rules" };
                    let _ = writeln!(document.text, "read_write_split = \"{split}\"");
                }
            }
        }
        for row in &self.hostgroups {
            let Some(entry) = row.document() else { continue };
            document.text.push_str(&entry);
            let subject = hostgroup_subject(&shown(&row.id));
            document.subjects.entry("hostgroup").or_default().push(subject);
        }
        document
    }
}

impl Document {
    /// Writes one row.
    fn entry(
        &mut self,
        section: &'static str,
        table: &Table,
        row: &[Value],
        users: &UserRows,
        skipped: &[&str],
    ) {
        let fields = Fields { table, row };
        let subject = subject(section, &fields);
        if section == "user" && !self.is_client(&fields, users, &subject) {
            return;
        }
        let _ = writeln!(self.text, "[[{section}]]");
        for (column, value) in table.columns.iter().zip(row) {
            let is_skipped = skipped.contains(&column.name)
                || section == "user" && matches!(column.name, "frontend" | "backend")
                || section == "user" && column.name == "password" && has_no_password(&fields);
            if is_skipped {
                continue;
            }
            match line(section, column.name, value, column.default) {
                Line::Nothing => {}
                Line::Text(line) => self.text.push_str(&line),
                Line::Shunned => {
                    self.warnings.push(format!("{subject}: SHUNNED is loaded as ONLINE"));
                }
            }
        }
        if section == "user" {
            self.backend(&fields, users, &subject);
        }
        self.subjects.entry(section).or_default().push(subject);
    }

    /// Whether a row of `mysql_users` is one that clients log in with. ProxySQL may have a second
    /// row of the same name for servers; it must have the same password here.
    fn is_client(&mut self, fields: &Fields<'_>, users: &UserRows, subject: &str) -> bool {
        if fields.number("frontend") == Some(1) {
            return true;
        }
        if !users.clients.contains(&fields.text("username")) {
            self.warnings.push(format!("{subject}: no client can log in (frontend is 0)"));
        }
        false
    }

    /// Writes the password for servers, where another row of the user has one.
    fn backend(&mut self, fields: &Fields<'_>, users: &UserRows, subject: &str) {
        let password = users
            .passwords
            .get(&fields.text("username"))
            .filter(|password| Some(*password) != fields.value("password"));
        match password.map(user::backend_password) {
            Some(Ok(line)) => self.text.push_str(&line),
            Some(Err(reason)) => self.errors.push(format!("{subject}: {reason}")),
            None => {}
        }
    }

    /// What the entry that `key` points at is called.
    fn subject(&self, of: &Subject) -> String {
        let found = of.index.and_then(|index| self.subjects.get(of.section)?.get(index));
        match (found, variable_of(&of.column)) {
            (Some(subject), _) => subject.clone(),
            (None, Some(name)) => name,
            (None, None) => of.to_string(),
        }
    }

    /// An error in the words of the tables.
    fn explain(&self, error: &ConfigError) -> String {
        let message = SECTIONS.iter().fold(error.message.clone(), |text, it| {
            text.replace(&format!(" in [[{}]]", it.name), "")
        });
        format!("{}: {message}", self.subject(&error.subject))
    }
}

/// The variable that is the setting of this name.
fn variable_of(setting: &str) -> Option<String> {
    let is_it = |row: &variable::Row| row.setting().is_some_and(|found| found.name == setting);
    variable::all().find(is_it).map(|row| row.name())
}

/// What rows of `mysql_users` say of others of the same name.
#[derive(Default)]
struct UserRows {
    /// Names that clients log in with; those alone that have a row for servers too.
    clients: HashSet<String>,
    /// Passwords for servers, by name.
    passwords: HashMap<String, Value>,
}

impl UserRows {
    fn of(table: &Table, rows: &[Vec<Value>]) -> Self {
        let is_client = |fields: &Fields<'_>| fields.number("frontend") == Some(1);
        let mut users = Self::default();
        for row in rows {
            let fields = Fields { table, row };
            if !is_client(&fields) {
                let password = fields.value("password").cloned().unwrap_or(Value::Null);
                users.passwords.entry(fields.text("username")).or_insert(password);
            }
        }
        if users.passwords.is_empty() {
            return users;
        }
        let fields = rows.iter().map(|row| Fields { table, row });
        let clients = fields.filter(is_client).map(|fields| fields.text("username"));
        users.clients = clients.filter(|name| users.passwords.contains_key(name)).collect();
        users
    }
}

/// One row by the names of its columns.
pub(super) struct Fields<'a> {
    pub(super) table: &'a Table,
    pub(super) row: &'a [Value],
}

impl Fields<'_> {
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        let at = self.table.columns.iter().position(|column| column.name == name)?;
        self.row.get(at)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.value(name).map_or_else(String::new, shown)
    }

    fn number(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        }
    }
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// What a row is called in messages: its table and its key.
fn subject(section: &str, fields: &Fields<'_>) -> String {
    let text = |name: &str| fields.text(name);
    match section {
        "server" => format!(
            "mysql_servers, hostgroup_id {}, {}:{}",
            text("hostgroup_id"),
            text("hostname"),
            text("port")
        ),
        "server_ssl_params" => format!(
            "mysql_servers_ssl_params, {}:{}, username {}",
            text("hostname"),
            text("port"),
            text("username")
        ),
        "replication" => {
            format!("mysql_replication_hostgroups, writer_hostgroup {}", text("writer_hostgroup"))
        }
        "user" => format!("mysql_users, username {}", text("username")),
        "rule" => format!("mysql_query_rules, rule_id {}", text("rule_id")),
        "firewall_user" => {
            format!("mysql_firewall_whitelist_users, username {}", text("username"))
        }
        "firewall_rule" => format!(
            "mysql_firewall_whitelist_rules, username {}, digest {}",
            text("username"),
            text("digest")
        ),
        "limit" => format!("trunkline_limits, {} {}", text("scope"), text("name")),
        "tcp_listener" => format!("trunkline_tcp_listeners, {}", text("address")),
        _ => format!("{}, {}, {}", routes::TABLE, text("username"), text("schemaname")),
    }
}

fn hostgroup_subject(id: &str) -> String {
    format!("mysql_hostgroup_attributes, hostgroup_id {id}")
}

/// Whether a user has no password here, rather than an empty one, which would let everybody in: its
/// attributes say how else it is known.
fn has_no_password(fields: &Fields<'_>) -> bool {
    let is_empty = match fields.value("password") {
        None | Some(Value::Null) => true,
        Some(Value::Text(text)) => text.is_empty(),
        Some(Value::Blob(bytes)) => bytes.is_empty(),
        Some(Value::Integer(_) | Value::Real(_)) => false,
    };
    is_empty && user::is_known_otherwise(&fields.text("attributes"))
}

/// What becomes of one value.
enum Line {
    Nothing,
    Text(String),
    /// A status that only Trunkline itself gives.
    Shunned,
}

fn line(section: &str, name: &str, value: &Value, default: Option<&str>) -> Line {
    // In a file, a rule is active unless it says otherwise.
    let is_default = is_default(value, default) && (section, name) != ("rule", "active");
    match (section, name, value) {
        // For a rule without modifiers; one that says nothing is caseless.
        ("rule", "re_modifiers", Value::Null) => Line::Text("re_modifiers = \"\"\n".to_owned()),
        ("user", "password", value) => Line::Text(user::password("password", value)),
        ("user", "attributes", Value::Text(text)) if user::attributes(text).is_some() => {
            Line::Text(user::attributes(text).unwrap_or_default())
        }
        ("server", "status", Value::Text(word)) if word.eq_ignore_ascii_case("SHUNNED") => {
            Line::Shunned
        }
        (_, _, Value::Null) => Line::Nothing,
        _ if is_default => Line::Nothing,
        (_, _, Value::Integer(number)) => Line::Text(format!("{name} = {number}\n")),
        (_, _, Value::Real(number)) => Line::Text(format!("{name} = {number:?}\n")),
        (_, _, Value::Text(text)) => Line::Text(format!("{name} = {}\n", quoted(text))),
        (_, _, Value::Blob(bytes)) => {
            Line::Text(format!("{name} = {}\n", quoted(&String::from_utf8_lossy(bytes))))
        }
    }
}

pub(super) fn is_default(value: &Value, default: Option<&str>) -> bool {
    match (value, default) {
        (Value::Null, None | Some("NULL")) => true,
        (Value::Integer(number), Some(default)) => default.parse() == Ok(*number),
        (Value::Text(text), Some(default)) => default.trim_matches('\'') == text,
        _ => false,
    }
}
