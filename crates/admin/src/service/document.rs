//! Rows of the tables as what a configuration is read from, so that there is one validation for
//! them and for a file.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
};

use serde_json::{Map, Value as Json};
use trunkline_config::{
    Config, Fields, FileSource, Given, Ready, SECTIONS, Section, Tables, USERS_FILE, variable,
};
use trunkline_net::private;
use trunkline_store::{Layer, Module, SqlError, Store, Value, tables::Table};

use super::{routes, user};

/// Tables whose rows have no effect yet.
const WITHOUT_EFFECT: [(Module, &str); 3] = [
    (Module::MysqlFirewall, "mysql_firewall_whitelist_sqli_fingerprints"),
    (Module::ProxysqlServers, "proxysql_servers"),
    (Module::ClickhouseUsers, "clickhouse_users"),
];
const USERS: &str = "mysql_users";

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
    let (users, rows) = match kept(Module::MysqlUsers) {
        Some(running) => (running.users.clone(), Vec::new()),
        None => (Vec::new(), store.rows(layer(Module::MysqlUsers), USERS)?),
    };
    let mut document = Document::read(store, layer, rows, false)?;
    document.warn_without_effect(store, loading)?;
    document.finish(Ready { users, fast_routes }, loading)
}

/// Makes a configuration with one user as MEMORY has it: all else is as it runs.
///
/// # Errors
/// As [`make`], and when MEMORY has no such user.
pub fn make_user(store: &Store, name: &str, running: &Config) -> Result<LoadedConfig, MakeError> {
    let rows = store.rows_of_user(Layer::Memory, name)?;
    if rows.is_empty() {
        return Err(MakeError::Rows(vec![format!("{USERS} has no user `{name}`")]));
    }
    let document = Document::read(store, |_| Layer::Runtime, rows, false)?;
    let users = running.users.iter().filter(|user| user.name != name).cloned().collect();
    let ready = Ready { users, fast_routes: Arc::clone(&running.fast_routes) };
    document.finish(ready, &[Module::MysqlUsers])
}

/// One layer as the text of a configuration file.
///
/// # Errors
/// Those of the database.
pub fn text(store: &Store, layer: Layer) -> Result<String, SqlError> {
    Ok(Document::read(store, |_| layer, store.rows(layer, USERS)?, true)?.tables.toml())
}

/// The files that tables need: who the system's users are, as `unix_user` names them, and public
/// keys of servers.
struct SystemUsers;

impl FileSource for SystemUsers {
    fn read(&self, path: &str) -> Result<String, String> {
        Err(format!("tables have no file `{path}`"))
    }

    fn read_rules(&self, path: &str) -> Result<String, String> {
        match path == USERS_FILE {
            true => private::read_text(Path::new(path)).map_err(|error| error.to_string()),
            false => self.read(path),
        }
    }

    fn read_keys(&self, path: &str) -> Result<String, String> {
        match Path::new(path).is_absolute() {
            true => private::read_text(Path::new(path)).map_err(|error| error.to_string()),
            false => Err("its path must be absolute".to_owned()),
        }
    }
}

/// What the tables say.
#[derive(Default)]
struct Document {
    tables: Tables,
    /// What an operator should hear, and which table that is about.
    warnings: Vec<(&'static str, String)>,
    /// What is wrong before a value is read.
    errors: Vec<String>,
    /// Writers' hostgroups that split reads by themselves.
    splitting: Vec<Value>,
    /// Writers' hostgroups whose servers stay where they are listed.
    standing: Vec<Value>,
}

impl Document {
    /// Reads the layers. Rows of users are given, since there may be very many of them or one.
    fn read(
        store: &Store,
        layer: impl Fn(Module) -> Layer,
        users: Vec<Vec<Value>>,
        reads_fast_routes: bool,
    ) -> Result<Self, SqlError> {
        let mut document = Self::default();
        for module in [Module::MysqlVariables, Module::AdminVariables, Module::TrunklineVariables] {
            for (name, value) in
                store.variables(layer(module), module.prefix().unwrap_or_default())?
            {
                document.variable(&name, &value);
            }
        }
        let mut users = Some(users);
        // Hostgroups come before the pairs of them that they say something of.
        for section in &SECTIONS {
            let is_skipped = section.table == routes::TABLE && !reads_fast_routes;
            let (table, module) =
                (trunkline_store::tables::find(section.table), module_of(section));
            let (Some(table), Some(module), false) = (table, module, is_skipped) else { continue };
            let rows = match section.table {
                USERS => users.take().unwrap_or_default(),
                name => store.rows(layer(module), name)?,
            };
            let pairs = match section.table {
                USERS => UserRows::of(&table, &rows),
                _ => UserRows::default(),
            };
            for row in rows {
                document.row(section, &table, row, &pairs);
            }
        }
        Ok(document)
    }

    fn variable(&mut self, name: &str, value: &str) {
        let row = variable::find(name).filter(|row| row.default_value() != row.spelled(value));
        if let Some((setting, given)) = row.and_then(|row| row.given(value)) {
            self.tables.set(setting, given);
        }
    }

    /// Adds a row, unless another one of its user says all of it.
    fn row(&mut self, section: &Section, table: &Table, row: Vec<Value>, users: &UserRows) {
        let name = name_of(section, table, &row);
        let (mut fields, mut more) = (Fields::new(), Fields::new());
        let of = Row { table, row: &row };
        match section.name {
            "user" if !self.user(section, &of, users, &name, &mut more) => return,
            "hostgroup" => self.hostgroup(section, &of, &name, &mut more),
            "replication" => {
                let writer = of.value("writer_hostgroup");
                let is_among = |ids: &[Value]| ids.iter().any(|id| writer == Some(id));
                let splits = is_among(&self.splitting);
                if !is_among(&self.standing) {
                    let check_type = Given::Text(of.text("check_type"));
                    more.push((Cow::Borrowed("check_type"), check_type));
                }
                let word = if splits { "auto" } else { "rules" };
                more.push((Cow::Borrowed("read_write_split"), Given::Text(word.to_owned())));
            }
            _ => {}
        }
        for (column, value) in table.columns.iter().zip(row) {
            match (section.name, column.name, value) {
                // What was said above.
                ("user", "password" | "attributes" | "frontend" | "backend", _)
                | ("hostgroup", "hostgroup_settings", _)
                | ("replication", "check_type", _) => {}
                // In a file, a rule is active unless it says otherwise.
                ("rule", "active", value) => {
                    fields.extend(given(value).map(|given| (Cow::Borrowed("active"), given)));
                }
                // For a rule without modifiers; one that says nothing is caseless.
                ("rule", "re_modifiers", Value::Null) => {
                    fields.push((Cow::Borrowed("re_modifiers"), Given::Text(String::new())));
                }
                // A status that only Trunkline itself gives.
                ("server", "status", Value::Text(word)) if word.eq_ignore_ascii_case("SHUNNED") => {
                    self.warn(section, format!("{name}: SHUNNED is loaded as ONLINE"));
                }
                (_, _, value) if is_default(&value, column.default) => {}
                (_, column, value) => {
                    fields.extend(given(value).map(|given| (Cow::Borrowed(column), given)));
                }
            }
        }
        fields.append(&mut more);
        self.tables.add(section, name, fields);
    }

    /// What a user's row says beyond its plain columns; false when no client logs in with it.
    /// ProxySQL may have a second row of the same name, for servers.
    fn user(
        &mut self,
        section: &Section,
        row: &Row<'_>,
        users: &UserRows,
        name: &str,
        fields: &mut Fields,
    ) -> bool {
        let username = row.text("username");
        if !row.is_client() {
            if !users.clients.contains(&username) {
                self.warn(section, format!("{name}: no client can log in (frontend is 0)"));
            }
            return false;
        }
        let text = row.text("attributes");
        let attributes: Option<Map<String, Json>> = match text.as_str() {
            "" => Some(Map::new()),
            text => serde_json::from_str(text).ok(),
        };
        let is_known = attributes.as_ref().is_some_and(user::is_known_otherwise);
        let password = row.value("password").unwrap_or(&Value::Null);
        // None, rather than an empty one, which would let everybody in.
        if !(is_known && user::is_empty(password)) {
            fields.push(user::password(&user::PASSWORD, password));
        }
        let unknown = attributes.map(|attributes| user::attributes(section, attributes, fields));
        if unknown.is_none_or(|unknown| !unknown.is_empty()) {
            fields.push((Cow::Borrowed("attributes"), Given::Text(text)));
        }
        match users.passwords.get(&username).filter(|of_servers| *of_servers != password) {
            Some(hash) if user::is_hash(hash) => self
                .errors
                .push(format!("{name}: has a hash as its password for servers, which opens none")),
            Some(of_servers) => fields.push(user::password(&user::BACKEND, of_servers)),
            None => {}
        }
        true
    }

    /// What a hostgroup says in the column that holds JSON; the table itself lets no other text in.
    fn hostgroup(&mut self, section: &Section, row: &Row<'_>, name: &str, fields: &mut Fields) {
        let settings = row.text("hostgroup_settings");
        let mut members: Map<String, Json> = serde_json::from_str(&settings).unwrap_or_default();
        if members.remove("read_write_split").is_some_and(|split| split == "auto") {
            self.splitting.extend(row.value("hostgroup_id").cloned());
        }
        if members.remove("check_type").is_some_and(|by| by == "none") {
            self.standing.extend(row.value("hostgroup_id").cloned());
        }
        for unknown in user::members(section, "hostgroup_settings", members, fields) {
            self.warn(section, format!("{name}: {unknown} has no effect yet"));
        }
    }

    fn warn(&mut self, section: &Section, warning: String) {
        self.warnings.push((section.table, warning));
    }

    /// Warns of tables and variables that are loaded and have no effect.
    fn warn_without_effect(&mut self, store: &Store, loading: &[Module]) -> Result<(), SqlError> {
        for (module, table) in WITHOUT_EFFECT {
            if loading.contains(&module) && is_new(store, table)? {
                self.warnings.push((table, format!("{table}: its rows have no effect yet")));
            }
        }
        for prefix in loading.iter().filter_map(|module| module.prefix()) {
            let running = store.variables(Layer::Runtime, prefix)?;
            for (name, value) in store.variables(Layer::Memory, prefix)? {
                let Some(row) = variable::find(&name) else { continue };
                let value = row.spelled(&value);
                let is_set = row.support_word() == "ignored" && row.default_value() != value;
                // It is told when it is new, not at every load.
                if is_set && !running.contains(&(name.clone(), value)) {
                    self.warnings.push((VARIABLES, format!("{name} has no effect")));
                }
            }
        }
        Ok(())
    }

    /// The configuration, with the warnings that are about what is loaded.
    fn finish(self, ready: Ready, loading: &[Module]) -> Result<LoadedConfig, MakeError> {
        let read = self.tables.read(ready, &SystemUsers);
        let mut errors = self.errors;
        match read {
            Ok((config, found)) if errors.is_empty() => {
                let found = found.iter().filter_map(|warning| {
                    let section = Section::find(warning.subject.section)?;
                    Some((section.table, warning.to_string()))
                });
                let is_loaded = |table: &str| {
                    table == VARIABLES
                        || loading.iter().any(|module| module.tables().contains(&table))
                };
                let warnings = self.warnings.into_iter().chain(found);
                let warnings = warnings.filter(|(table, _)| is_loaded(table));
                let mut warnings: Vec<String> = warnings.map(|(_, warning)| warning).collect();
                if loading.contains(&Module::MysqlQueryRules) {
                    warnings.extend(config.pattern_warnings());
                }
                Ok(LoadedConfig { config, warnings })
            }
            Ok(_) => Err(MakeError::Rows(errors)),
            Err(found) => {
                errors.extend(found.iter().map(ToString::to_string));
                Err(MakeError::Rows(errors))
            }
        }
    }
}

/// Whether MEMORY has rows of a table that do not run yet: what has no effect is told when it is
/// set, not at every load.
fn is_new(store: &Store, table: &str) -> Result<bool, SqlError> {
    let set = store.rows(Layer::Memory, table)?;
    Ok(!set.is_empty() && set != store.rows(Layer::Runtime, table)?)
}

/// Where variables are.
const VARIABLES: &str = "global_variables";

/// The module that moves a section's table.
fn module_of(section: &Section) -> Option<Module> {
    Module::ALL.into_iter().find(|module| module.tables().contains(&section.table))
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
        let mut users = Self::default();
        let rows = rows.iter().map(|row| Row { table, row });
        for row in rows.clone().filter(|row| !row.is_client()) {
            let password = row.value("password").cloned().unwrap_or(Value::Null);
            users.passwords.entry(row.text("username")).or_insert(password);
        }
        if users.passwords.is_empty() {
            return users;
        }
        let clients = rows.filter(Row::is_client).map(|row| row.text("username"));
        users.clients = clients.filter(|name| users.passwords.contains_key(name)).collect();
        users
    }
}

/// One row by the names of its columns.
struct Row<'a> {
    table: &'a Table,
    row: &'a [Value],
}

impl Row<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        let at = self.table.columns.iter().position(|column| column.name == name)?;
        self.row.get(at)
    }

    fn text(&self, name: &str) -> String {
        self.value(name).map_or_else(String::new, shown)
    }

    /// Whether a row of `mysql_users` is one that clients log in with.
    fn is_client(&self) -> bool {
        self.value("frontend") == Some(&Value::Integer(1))
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// What a row is called in messages: its table and its key.
fn name_of(section: &Section, table: &Table, row: &[Value]) -> String {
    let mut name = format!("{}, ", section.table);
    for (at, part) in section.key.split(['{', '}']).enumerate() {
        // Names of columns are between braces.
        match at % 2 {
            0 => name.push_str(part),
            _ => name.push_str(&Row { table, row }.text(part)),
        }
    }
    name
}

/// A value of a table as one of a file.
fn given(value: Value) -> Option<Given> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(Given::Integer(number.into())),
        Value::Real(number) => Some(Given::Fraction(number.to_string())),
        Value::Text(text) => Some(Given::Text(text)),
        Value::Blob(bytes) => Some(Given::Text(String::from_utf8_lossy(&bytes).into_owned())),
    }
}

fn is_default(value: &Value, default: Option<&str>) -> bool {
    match (value, default) {
        (Value::Null, None | Some("NULL")) => true,
        (Value::Integer(number), Some(default)) => default.parse() == Ok(*number),
        (Value::Text(text), Some(default)) => default.trim_matches('\'') == text,
        _ => false,
    }
}
