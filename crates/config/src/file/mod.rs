//! The file: TOML text to a [`Config`], every error of it at once, each with its place.

mod check;
mod cluster;
mod fast;
mod guard;
mod hostgroup;
mod keys;
mod replication;
mod report;
mod row;
mod rows;
mod rule;
mod section;
mod server;
mod tables;
mod tcp;
mod user;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use crate::{
    Config, ConfigError, Given, SETTINGS, Settings, Subject,
    error::ErrorKind,
    file::{
        check::{Entries, Placed},
        report::{Report, Source, Text},
        row::Row,
    },
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

pub use fast::RouteRows;
pub(crate) use report::did_you_mean;
pub use row::Fields;
pub use rows::{TableRow, table_rows};
pub use section::{ColumnInfo, SECTIONS, Section};
pub use tables::{Ready, Tables};
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

    /// The text of a file of public keys at `path`; errors are those of [`FileSource::read`].
    fn read_keys(&self, path: &str) -> Result<String, String> {
        self.read_rules(path)
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
    parse_text(&Text::read(source_name, text)?, files)
}

fn parse_text(text: &Text<'_>, files: &dyn FileSource) -> Result<Config, Vec<ConfigError>> {
    let mut reading = Reading::new(text, files);
    for (key, value) in &text.document {
        match (group_of(key.get_ref()), value.get_ref()) {
            (Some(prefix), DeValue::Table(members)) => reading.group(text, prefix, members),
            _ if Section::find(key.get_ref()).is_some() => {}
            _ => reading.setting(key.get_ref(), &given(value.get_ref())),
        }
    }
    for section in &SECTIONS {
        if let Some(value) = text.document.get(section.name) {
            check_section(section, value.get_ref(), &mut reading);
        }
        for (index, fields) in entries_of(text, section) {
            reading.row(section, index, fields);
        }
    }
    reading.finish(None).map(|(config, _)| config)
}

/// A configuration while it is read, whatever from.
struct Reading<'a> {
    report: Report<'a>,
    files: &'a dyn FileSource,
    settings: Settings,
    entries: Entries,
}

impl<'a> Reading<'a> {
    fn new(source: &'a dyn Source, files: &'a dyn FileSource) -> Self {
        let (settings, entries) = (Settings::default(), Entries::default());
        Self { report: Report::new(source), files, settings, entries }
    }

    /// Reads a setting.
    fn setting(&mut self, name: &str, given: &Given) {
        let (kind, message) = match self.settings.set(name, given) {
            Ok(true) => return,
            Ok(false) => (ErrorKind::UnknownColumn, unknown_setting(name)),
            Err(wrong) => (wrong.kind, format!("`{name}` {}", wrong.reason)),
        };
        self.report.add(kind, Subject::setting(name.to_owned()), message);
    }

    /// Reads settings that a file has in a table of their own.
    fn group(&mut self, text: &Text<'_>, prefix: &str, members: &DeTable<'_>) {
        for (key, value) in members {
            let name = format!("{prefix}{}", key.get_ref());
            if text.document.contains_key(name.as_str()) {
                let message = format!("`{name}` is written twice: here, and by itself");
                self.report.add(ErrorKind::Duplicate, Subject::setting(name), message);
                continue;
            }
            self.setting(&name, &given(value.get_ref()));
        }
    }

    /// Reads one entry of a section.
    fn row(&mut self, section: &'static Section, index: usize, fields: Fields) {
        let mut row = Row::new(section, index, &fields, self.files, &mut self.report);
        (section.read)(&mut row, &mut self.entries);
        fields.into_iter().for_each(|(_, given)| given.wipe());
    }

    /// Reports what is no entry of a section.
    fn not_tables(&mut self, subject: Subject, message: String) {
        self.entries.unsure = true;
        self.report.add(ErrorKind::WrongType, subject, message);
    }

    /// Looks at all that was read. `ready` is what tables have beside it; a file has all.
    fn finish(self, ready: Option<Ready>) -> Result<(Config, Vec<ConfigError>), Vec<ConfigError>> {
        let Self { mut report, files, settings, mut entries } = self;
        let ready_routes = match ready {
            None => {
                check::check_presence(&entries, &mut report);
                None
            }
            Some(ready) => {
                entries.unsure = true;
                // Of a row that ProxySQL made for its own columns, nothing runs.
                entries.hostgroup_entries.retain(|entry| entry.value.says_something());
                // They have no rows here: nothing is found wrong with them again.
                let placed = |value| (Placed { value, index: usize::MAX }, false);
                entries.users.extend(ready.users.into_iter().map(placed));
                Some(ready.fast_routes)
            }
        };
        fast::read_file(&settings, files, &mut report, &mut entries.fast);
        entries.server_keys = keys::of_settings(&settings, files, &mut report);
        let rule_set = check::check(&entries, &settings, &mut report);
        guard::finish(&mut entries.guards, &mut report);
        let fast = std::mem::take(&mut entries.fast);
        let read_routes = fast.finish(|hostgroup| entries.is_empty(hostgroup), &mut report);
        debug_assert!(ready_routes.is_none() || read_routes.is_empty(), "they are read once");
        let fast_routes = ready_routes.unwrap_or_else(|| Arc::new(read_routes));
        let warnings = report.finish()?;
        // Rules that do not compile were reported.
        let Some(rule_set) = rule_set else { return Err(Vec::new()) };
        Ok((entries.into_config(settings, rule_set, fast_routes), warnings))
    }
}

/// Tables that a file may have settings in, without their prefix.
const GROUPS: [(&str, &str); 1] = [("trace", "trace_")];

/// The prefix of the settings in a table of this name.
fn group_of(table: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(name, _)| *name == table).map(|(_, prefix)| *prefix)
}

/// The table that a file may have this setting in, and its name there.
fn grouped(setting: &str) -> Option<(&'static str, &str)> {
    GROUPS.iter().find_map(|(table, prefix)| Some((*table, setting.strip_prefix(prefix)?)))
}

/// The settings of a file, by their full names.
fn setting_names(document: &DeTable<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in document {
        match (group_of(key.get_ref()), value.get_ref()) {
            (Some(prefix), DeValue::Table(members)) => {
                names.extend(members.keys().map(|key| format!("{prefix}{}", key.get_ref())));
            }
            _ => names.push(key.get_ref().to_string()),
        }
    }
    names
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

/// Reports what is no table of a section.
fn check_section(section: &'static Section, value: &DeValue<'_>, reading: &mut Reading<'_>) {
    let name = section.name;
    let not_tables = || format!("`{name}` must be tables, written [[{name}]]");
    match value {
        DeValue::Array(rows) => {
            let rows = rows.iter().enumerate();
            for (index, _) in rows.filter(|(_, row)| row.get_ref().as_table().is_none()) {
                reading.not_tables(Subject::column(name, index, ""), not_tables());
            }
        }
        DeValue::Table(_) => {
            let message = format!("[{name}] must be written [[{name}]]");
            reading.not_tables(Subject::section(name), message);
        }
        _ => reading.not_tables(Subject::section(name), not_tables()),
    }
}

/// The tables of a section, with their places among its entries.
fn entries_of<'t>(
    text: &'t Text<'_>,
    section: &Section,
) -> impl Iterator<Item = (usize, Fields)> + use<'t> {
    let rows = text.document.get(section.name).and_then(|value| value.get_ref().as_array());
    rows.into_iter().flatten().enumerate().filter_map(|(index, row)| {
        let fields = fields_of(row.get_ref().as_table()?);
        Some((index, fields.map(|(name, given)| (Cow::Owned(name), given)).collect()))
    })
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
        DeValue::Float(number) => Given::Fraction(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Given::Boolean(*flag),
        DeValue::Datetime(_) => Given::Other("a date"),
        DeValue::Array(items) => {
            Given::List(items.iter().map(Spanned::get_ref).map(given).collect())
        }
        DeValue::Table(fields) => Given::Table(fields_of(fields).collect()),
    }
}
