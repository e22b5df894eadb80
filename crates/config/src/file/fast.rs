//! Fast routing rules: `[[fast_routing]]`, and the file that `fast_routing_file` names.

use std::{collections::HashSet, sync::Arc};

use trunkline_rules::{FastRoute, FastRoutes, FastRoutesBuilder};
use trunkline_topology::HostgroupId;

use crate::{
    Settings, Subject,
    error::ErrorKind,
    file::{
        FileSource,
        check::{Entries, HOSTGROUP_MAX},
        report::Report,
        row::Row,
        section::{Column, Draft, comment, needed, number, text},
    },
};

/// Errors of one file of rules that are told; the others are counted.
const SHOWN_MAX: usize = 20;

/// What was read so far.
#[derive(Default)]
pub(super) struct FastEntries {
    builder: FastRoutesBuilder,
    /// The index of each `[[fast_routing]]`; those of the file come behind them.
    indexes: Vec<usize>,
    /// Hostgroups, with what names each first.
    hostgroups: Vec<(HostgroupId, Subject)>,
    known: HashSet<HostgroupId>,
    /// Lines of the file, in the order of its rules.
    lines: Vec<u32>,
}

#[derive(Default)]
pub(super) struct FastDraft {
    username: String,
    schemaname: String,
    flag: u32,
    to: Option<HostgroupId>,
}

impl Draft for FastDraft {
    const NAME: &'static str = "fast_routing";
    const TABLE: &'static str = "mysql_query_rules_fast_routing";
    const KEY: &'static str = "{username}, {schemaname}";
    const COLUMNS: &'static [Column<Self>] = &[
        text("username", |it, text| it.username = text),
        text("schemaname", |it, text| it.schemaname = text),
        number("flagIN", 0, u32::MAX, |it, flag| it.flag = flag),
        needed(number(TO, 0, HOSTGROUP_MAX, |it, id| it.to = Some(HostgroupId(id)))),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let Self { username, schemaname, flag, to: Some(destination_hostgroup) } = &self else {
            return;
        };
        let (flag, destination_hostgroup) = (*flag, *destination_hostgroup);
        let entries = &mut entries.fast;
        match entries.builder.add(FastRoute { username, schemaname, flag, destination_hostgroup }) {
            Ok(()) => {
                entries.indexes.push(row.index);
                entries.name(destination_hostgroup, || row.subject(TO));
            }
            Err(error) => row.error(ErrorKind::Invalid, "schemaname", error.to_string()),
        }
    }
}

const TO: &str = "destination_hostgroup";

/// Reads the file that the setting names.
pub(super) fn read_file(
    settings: &Settings,
    files: &dyn FileSource,
    report: &mut Report<'_>,
    entries: &mut FastEntries,
) {
    let path = &settings.fast_routing_file;
    if path.is_empty() {
        return;
    }
    let text = match files.read_rules(path) {
        Ok(text) => text,
        Err(reason) => {
            let message = format!("can't read {path}: {reason}");
            return report.add(ErrorKind::Unreadable, setting(), message);
        }
    };
    let mut wrong = 0;
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let added = route_of(line).and_then(|route| {
            entries.name(route.destination_hostgroup, setting);
            entries.builder.add(route).map_err(|error| error.to_string())
        });
        match added {
            Ok(()) => entries.lines.push(number),
            Err(reason) if wrong < SHOWN_MAX => {
                let message = format!("{path} line {number}: {reason}");
                report.add(ErrorKind::Invalid, setting(), message);
                wrong += 1;
            }
            Err(_) => wrong += 1,
        }
    }
    if let Some(more) = wrong.checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        let message = format!("{path}: {more} more lines are wrong");
        report.add(ErrorKind::Invalid, setting(), message);
    }
}

/// The setting that names the file.
fn setting() -> Subject {
    Subject::setting("fast_routing_file")
}

/// Reads `username schemaname flagIN destination_hostgroup`, with tabs between them, and
/// anything behind one more tab.
fn route_of(line: &str) -> Result<FastRoute<'_>, String> {
    let mut fields = line.split('\t');
    let mut next = |name| fields.next().ok_or_else(|| format!("there is no {name}"));
    let (username, schemaname) = (next("username")?, next("schemaname")?);
    let number = |name: &str, text: &str, max: u32| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_plain && *number <= max);
        number.ok_or_else(|| format!("{name} must be 0 to {max}, not `{text}`"))
    };
    let flag = number("flagIN", next("flagIN")?, u32::MAX)?;
    let to = next("destination_hostgroup")?;
    let destination_hostgroup = HostgroupId(number("destination_hostgroup", to, HOSTGROUP_MAX)?);
    Ok(FastRoute { username, schemaname, flag, destination_hostgroup })
}

/// Fast routing rules from rows of a table. There may be a million of them: they take the way of
/// no text.
#[derive(Debug, Default)]
pub struct RouteRows {
    builder: FastRoutesBuilder,
}

impl RouteRows {
    /// Adds a row; its numbers are as they were written.
    ///
    /// # Errors
    /// What is wrong with it, for [`crate::ConfigError`]'s words.
    pub fn add(
        &mut self,
        username: &str,
        schemaname: &str,
        flag_in: i64,
        hostgroup: i64,
    ) -> Result<(), String> {
        let number = |name: &str, number: i64, max: u32| {
            let found = u32::try_from(number).ok().filter(|number| *number <= max);
            found.ok_or_else(|| format!("{name} must be 0 to {max}, not {number}"))
        };
        let flag = number("flagIN", flag_in, u32::MAX)?;
        let to = number("destination_hostgroup", hostgroup, HOSTGROUP_MAX)?;
        let route =
            FastRoute { username, schemaname, flag, destination_hostgroup: HostgroupId(to) };
        self.builder.add(route).map_err(|error| error.to_string())
    }

    /// Builds the table.
    ///
    /// # Errors
    /// When two rows have one key, which a table's own key does not let happen.
    pub fn finish(self) -> Result<Arc<FastRoutes>, String> {
        self.builder.finish().map(Arc::new).map_err(|same| {
            let (first, second) = same.first().map_or((0, 0), |pair| (pair.first, pair.second));
            format!("rows {first} and {second} have one username, schemaname and flagIN")
        })
    }
}

impl FastEntries {
    fn name(&mut self, hostgroup: HostgroupId, by: impl FnOnce() -> Subject) {
        if self.known.insert(hostgroup) {
            self.hostgroups.push((hostgroup, by()));
        }
    }

    /// Builds the table, and reports what is wrong between the rules. `is_empty` says of a
    /// hostgroup that it certainly has no server.
    pub(super) fn finish(
        self,
        is_empty: impl Fn(HostgroupId) -> bool,
        report: &mut Report<'_>,
    ) -> FastRoutes {
        for (hostgroup, subject) in self.hostgroups {
            if is_empty(hostgroup) {
                let message = format!("fast routing: hostgroup {hostgroup} has no [[server]]");
                report.add(ErrorKind::Dangling, subject, message);
            }
        }
        let same = match self.builder.finish() {
            Ok(routes) => return routes,
            Err(same) => same,
        };
        let found = |index: usize| match self.indexes.get(index) {
            Some(&index) => (Subject::column(FastDraft::NAME, index, ""), String::new()),
            None => {
                let line = self.lines.get(index - self.indexes.len()).copied().unwrap_or_default();
                (setting(), format!(" (line {line} of the file)"))
            }
        };
        for pair in same.iter().take(SHOWN_MAX) {
            let ((first, in_file), (second, of_file)) = (found(pair.first), found(pair.second));
            let place = report.other_place(&first);
            let message = format!(
                "two fast routing rules{of_file} have one username, schemaname and flagIN (the \
                 first is {place}{in_file})"
            );
            report.add(ErrorKind::Duplicate, second, message);
        }
        FastRoutes::default()
    }
}
