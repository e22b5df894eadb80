//! The file: TOML text to a [`Config`], every error of it at once, each with its place.

mod check;
mod fast;
mod guard;
mod hostgroup;
mod replication;
mod report;
mod rows;
mod rule;
mod server;
mod table;
mod tcp;
mod user;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use trunkline_rules::FastRoutes;
use trunkline_topology::User;

use crate::{
    Config, ConfigError, SETTINGS, Settings,
    file::{
        check::{Entries, Placed},
        report::Report,
        table::{Table, given},
    },
};

pub use fast::RouteRows;
pub(crate) use report::did_you_mean;
pub use rows::{TableRow, table_rows};
pub use user::USERS_FILE;

/// Reads the files that a configuration names (`password_file`, `fast_routing_file`).
///
/// A closure `Fn(&str) -> Result<String, String>` is one.
pub trait FileSource {
    /// The text of the file at `path`, which is as the configuration writes it: a relative path
    /// is the caller's to resolve. The error says why not, in lower case.
    fn read(&self, path: &str) -> Result<String, String>;

    /// The text of a file of rules at `path`, which holds no secret; errors are those of
    /// [`FileSource::read`].
    fn read_rules(&self, path: &str) -> Result<String, String> {
        self.read(path)
    }

    /// The value of an environment variable; `None` when it is not set, or not UTF-8.
    fn environment(&self, _name: &str) -> Option<String> {
        None
    }
}

impl<F: Fn(&str) -> Result<String, String>> FileSource for F {
    fn read(&self, path: &str) -> Result<String, String> {
        self(path)
    }
}

/// The lists of tables that a file may have.
pub const SECTIONS: [&str; 11] = [
    "server",
    "server_ssl_params",
    "hostgroup",
    "user",
    "replication",
    "rule",
    "fast_routing",
    "firewall_user",
    "firewall_rule",
    "limit",
    "tcp_listener",
];

/// Reads a configuration file's text. `source_name` is what errors call the file.
///
/// # Errors
/// Every error of the file, in the order of its lines. A file that is not TOML has only its
/// syntax errors reported, since what follows from a half-read file would mislead.
pub fn parse(
    text: &str,
    source_name: &str,
    files: &dyn FileSource,
) -> Result<Config, Vec<ConfigError>> {
    parse_from(Origin::File, text, source_name, files)
}

/// Reads a text that was made from the tables of the admin port. They are loaded one after the
/// other: hostgroups need no server yet, and there may be neither servers nor users.
///
/// # Errors
/// As [`parse`].
pub fn parse_tables(
    text: &str,
    source_name: &str,
    ready: &Ready,
    files: &dyn FileSource,
) -> Result<Config, Vec<ConfigError>> {
    parse_from(Origin::Tables(ready), text, source_name, files)
}

/// Parts of a configuration that were made before, and so are not in the text of
/// [`parse_tables`].
#[derive(Debug, Default)]
pub struct Ready {
    /// Users beside those of the text.
    pub users: Vec<Arc<User>>,
    /// All fast routing rules.
    pub fast_routes: Arc<FastRoutes>,
}

/// Where a text comes from.
#[derive(Clone, Copy)]
enum Origin<'a> {
    File,
    Tables(&'a Ready),
}

fn parse_from(
    origin: Origin<'_>,
    text: &str,
    source_name: &str,
    files: &dyn FileSource,
) -> Result<Config, Vec<ConfigError>> {
    let mut report = Report::new(source_name, text);
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    if !syntax_errors.is_empty() {
        for error in syntax_errors {
            let span = error.span().unwrap_or_default();
            // Only a key is shown: what else is unexpected may be an unquoted password.
            let message = match (error.message(), text.get(span.clone())) {
                ("duplicate key", Some(key)) => format!("duplicate key `{}`", key.trim()),
                (message, _) => message.to_owned(),
            };
            report.add(span.start, "", message);
        }
        return Err(report.finish());
    }
    let document = document.into_inner();
    let settings = read_settings(&document, &mut report);
    let mut entries = Entries::default();
    for section in SECTIONS {
        read_section(section, &document, &mut report, files, &mut entries);
    }
    match origin {
        Origin::File => check::check_presence(&entries, &mut report),
        Origin::Tables(ready) => {
            entries.unsure = true;
            // Their places are nowhere: nothing is found wrong with them again.
            let placed = |user: &Arc<User>| (Placed { value: Arc::clone(user), at: 0 }, None);
            entries.users.extend(ready.users.iter().map(placed));
        }
    }
    let file_at = document.get("fast_routing_file").map_or(0, |value| value.span().start);
    fast::read_file(&settings, file_at, files, &mut report, &mut entries.fast);
    let rule_set = check::check(&entries, &settings, &mut report);
    let firewall_at = document.get("firewall_user").map_or(0, |value| value.span().start);
    let guards = std::mem::take(&mut entries.guards);
    entries.guards = guard::finish(guards, firewall_at, &mut report);
    let mut fast = std::mem::take(&mut entries.fast);
    let fast_routes = fast.finish(|hostgroup| entries.is_empty(hostgroup), file_at, &mut report);
    let fast_routes = match origin {
        Origin::File => Arc::new(fast_routes),
        Origin::Tables(ready) => {
            debug_assert!(fast_routes.is_empty(), "they are rows, and in no text");
            Arc::clone(&ready.fast_routes)
        }
    };
    match rule_set {
        Some(rule_set) if report.is_empty() => {
            Ok(entries.into_config(settings, rule_set, fast_routes))
        }
        Some(_) | None => Err(report.finish()),
    }
}

/// Reads every top-level key that is not a section.
fn read_settings(document: &DeTable<'_>, report: &mut Report<'_>) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in document {
        let name: &str = key.get_ref();
        if SECTIONS.contains(&name) {
            continue;
        }
        match settings.set(name, &given(value.get_ref())) {
            Ok(true) => {}
            Ok(false) => report.add(key.span().start, name, unknown_setting(name)),
            Err(reason) => report.add(value.span().start, name, format!("`{name}` {reason}")),
        }
    }
    settings
}

fn unknown_setting(name: &str) -> String {
    let names = || SETTINGS.iter().map(|row| row.name);
    // People paste ProxySQL's names, which carry the module they belong to.
    if let Some(bare) = name.strip_prefix("mysql-").filter(|bare| names().any(|n| n == *bare)) {
        return format!("unknown setting `{name}`; did you mean `{bare}`?");
    }
    let guess = did_you_mean(name, names().chain(SECTIONS));
    format!("unknown setting `{name}`{guess}")
}

/// Reads all tables of one section.
fn read_section(
    section: &'static str,
    document: &DeTable<'_>,
    report: &mut Report<'_>,
    files: &dyn FileSource,
    entries: &mut Entries,
) {
    let Some(value) = document.get(section) else {
        return;
    };
    let at = value.span().start;
    let rows = match value.get_ref() {
        DeValue::Array(rows) => rows,
        DeValue::Table(_) => {
            entries.unsure = true;
            return report.add(at, section, format!("[{section}] must be written [[{section}]]"));
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {
            entries.unsure = true;
            let message = format!("`{section}` must be tables, written [[{section}]]");
            return report.add(at, section, message);
        }
    };
    for (index, row) in rows.iter().enumerate() {
        let start = row.span().start;
        let DeValue::Table(fields) = row.get_ref() else {
            entries.unsure = true;
            let message = format!("`{section}` must be tables, written [[{section}]]");
            report.add(start, &format!("{section}[{index}]"), message);
            continue;
        };
        let mut table = Table::new(section, index, fields, start);
        match section {
            "server" => server::read(&mut table, report, entries),
            "hostgroup" => hostgroup::read(&mut table, report, entries),
            "server_ssl_params" => server::read_ssl_params(&mut table, report, entries),
            "user" => user::read(&mut table, report, files, entries),
            "replication" => replication::read(&mut table, report, entries),
            "fast_routing" => fast::read(&mut table, report, &mut entries.fast),
            "firewall_user" => guard::read_user(&mut table, report, &mut entries.guards),
            "firewall_rule" => guard::read_rule(&mut table, report, &mut entries.guards),
            "limit" => guard::read_limit(&mut table, report, &mut entries.guards),
            "tcp_listener" => tcp::read(&mut table, report, entries),
            _ => rule::read(&mut table, report, entries),
        }
    }
}
