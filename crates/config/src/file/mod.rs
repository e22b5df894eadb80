//! The file: TOML text to a [`Config`], every error of it at once, each with its place.

mod check;
mod fast;
mod guard;
mod hostgroup;
mod replication;
mod report;
mod row;
mod rows;
mod rule;
mod section;
mod server;
mod tcp;
mod user;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use trunkline_rules::FastRoutes;
use trunkline_topology::User;

use crate::{
    Config, ConfigError, Given, SETTINGS, Settings, Subject,
    error::ErrorKind,
    file::{
        check::{Entries, Placed},
        report::{Report, Text},
        row::Row,
    },
};

pub use fast::RouteRows;
pub(crate) use report::did_you_mean;
pub use rows::{TableRow, table_rows};
pub use section::{SECTIONS, Section};
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
    let text = Text::read(source_name, text)?;
    let document = &text.document;
    let mut report = Report::new(&text);
    let settings = read_settings(document, &mut report);
    let mut entries = Entries::default();
    for section in &SECTIONS {
        read_section(section, document, &mut report, files, &mut entries);
    }
    match origin {
        Origin::File => check::check_presence(&entries, &mut report),
        Origin::Tables(ready) => {
            entries.unsure = true;
            // They are in no text: nothing is found wrong with them again.
            let placed =
                |user: &Arc<User>| (Placed { value: Arc::clone(user), index: usize::MAX }, false);
            entries.users.extend(ready.users.iter().map(placed));
        }
    }
    fast::read_file(&settings, files, &mut report, &mut entries.fast);
    let rule_set = check::check(&entries, &settings, &mut report);
    guard::finish(&mut entries.guards, &mut report);
    let fast = std::mem::take(&mut entries.fast);
    let fast_routes = fast.finish(|hostgroup| entries.is_empty(hostgroup), &mut report);
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
        if Section::find(name).is_some() {
            continue;
        }
        let (kind, message) = match settings.set(name, &given(value.get_ref())) {
            Ok(true) => continue,
            Ok(false) => (ErrorKind::UnknownColumn, unknown_setting(name)),
            Err(wrong) => (wrong.kind, format!("`{name}` {}", wrong.reason)),
        };
        report.add(kind, Subject::setting(name.to_owned()), message);
    }
    settings
}

fn unknown_setting(name: &str) -> String {
    let names = || SETTINGS.iter().map(|row| row.name);
    // People paste ProxySQL's names, which carry the module they belong to.
    if let Some(bare) = name.strip_prefix("mysql-").filter(|bare| names().any(|n| n == *bare)) {
        return format!("unknown setting `{name}`; did you mean `{bare}`?");
    }
    let sections = SECTIONS.iter().map(|section| section.name);
    let guess = did_you_mean(name, names().chain(sections));
    format!("unknown setting `{name}`{guess}")
}

/// Reads all tables of one section.
fn read_section<'a>(
    section: &'static Section,
    document: &DeTable<'_>,
    report: &mut Report<'a>,
    files: &'a dyn FileSource,
    entries: &mut Entries,
) {
    let name = section.name;
    let Some(value) = document.get(name) else {
        return;
    };
    let not_tables = || format!("`{name}` must be tables, written [[{name}]]");
    let DeValue::Array(rows) = value.get_ref() else {
        entries.unsure = true;
        let message = match value.get_ref() {
            DeValue::Table(_) => format!("[{name}] must be written [[{name}]]"),
            _ => not_tables(),
        };
        return report.add(ErrorKind::WrongType, Subject::section(name), message);
    };
    for (index, row) in rows.iter().enumerate() {
        match row.get_ref() {
            DeValue::Table(fields) => {
                let fields = fields_of(fields).map(|(name, given)| (Cow::Owned(name), given));
                let fields: row::Fields = fields.collect();
                let mut row = Row::new(section, index, &fields, files, report);
                (section.read)(&mut row, entries);
                fields.into_iter().for_each(|(_, given)| given.wipe());
            }
            _ => {
                entries.unsure = true;
                let subject = Subject::column(name, index, "");
                report.add(ErrorKind::WrongType, subject, not_tables());
            }
        }
    }
}

fn fields_of(table: &DeTable<'_>) -> impl Iterator<Item = (String, Given)> {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), given(value.get_ref())))
}

/// A TOML value without its spelling.
fn given(value: &DeValue<'_>) -> Given {
    match value {
        DeValue::String(text) => Given::Text(text.clone().into_owned()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or(Given::Other("a number beyond 128 bits"), Given::Integer),
        DeValue::Float(_) => Given::Other("a number with a fraction"),
        DeValue::Boolean(flag) => Given::Boolean(*flag),
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(items) => {
            Given::List(items.iter().map(Spanned::get_ref).map(given).collect())
        }
        DeValue::Table(fields) => Given::Table(fields_of(fields).collect()),
    }
}
