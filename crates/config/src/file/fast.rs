//! Fast routing rules: `[[fast_routing]]`, and the file that `fast_routing_file` names.

use std::{collections::HashSet, sync::Arc};

use trunkline_rules::{FastRoute, FastRoutes, FastRoutesBuilder};
use trunkline_topology::HostgroupId;

use crate::{
    Settings,
    file::{FileSource, check::HOSTGROUPS, report::Report, table::Table},
};

/// Errors of one file of rules that are told; the others are counted.
const SHOWN_MAX: usize = 20;

/// What was read so far.
#[derive(Default)]
pub(super) struct FastEntries {
    builder: FastRoutesBuilder,
    /// Byte offset of each `[[fast_routing]]`; those of the file come behind them.
    places: Vec<usize>,
    /// Hostgroups, with the first place that names each.
    hostgroups: Vec<(HostgroupId, usize)>,
    known: HashSet<HostgroupId>,
    /// Lines of the file, in the order of its rules.
    lines: Vec<u32>,
}

/// Reads one `[[fast_routing]]`.
pub(super) fn read(table: &mut Table<'_>, report: &mut Report<'_>, entries: &mut FastEntries) {
    let username = table.text(report, "username").unwrap_or_default();
    let schemaname = table.text(report, "schemaname").unwrap_or_default();
    let flag = table.number(report, "flagIN", 0..=u32::MAX).unwrap_or(0);
    let to = table.number(report, "destination_hostgroup", HOSTGROUPS).map(HostgroupId);
    table.text(report, "comment");
    if !table.has("destination_hostgroup") {
        table.missing(report, "destination_hostgroup");
    }
    table.finish(report, &[]);
    let Some(destination_hostgroup) = to else { return };
    let route =
        FastRoute { username: &username, schemaname: &schemaname, flag, destination_hostgroup };
    match entries.builder.add(route) {
        Ok(()) => {
            entries.places.push(table.start);
            entries.name(destination_hostgroup, table.place("destination_hostgroup"));
        }
        Err(error) => table.error(report, "schemaname", error.to_string()),
    }
}

/// Reads the file that the setting names. `at` is the place of the setting.
pub(super) fn read_file(
    settings: &Settings,
    at: usize,
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
            return report.add(at, SETTING, format!("can't read {path}: {reason}"));
        }
    };
    let mut wrong = 0;
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let added = route_of(line).and_then(|route| {
            entries.name(route.destination_hostgroup, at);
            entries.builder.add(route).map_err(|error| error.to_string())
        });
        match added {
            Ok(()) => entries.lines.push(number),
            Err(reason) if wrong < SHOWN_MAX => {
                report.add(at, SETTING, format!("{path} line {number}: {reason}"));
                wrong += 1;
            }
            Err(_) => wrong += 1,
        }
    }
    if let Some(more) = wrong.checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        report.add(at, SETTING, format!("{path}: {more} more lines are wrong"));
    }
}

const SETTING: &str = "fast_routing_file";

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
    let destination_hostgroup =
        HostgroupId(number("destination_hostgroup", to, *HOSTGROUPS.end())?);
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
        let to = number("destination_hostgroup", hostgroup, *HOSTGROUPS.end())?;
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
    fn name(&mut self, hostgroup: HostgroupId, at: usize) {
        if self.known.insert(hostgroup) {
            self.hostgroups.push((hostgroup, at));
        }
    }

    /// Builds the table, and reports what is wrong between the rules. `is_empty` says of a
    /// hostgroup that it certainly has no server.
    pub(super) fn finish(
        &mut self,
        is_empty: impl Fn(HostgroupId) -> bool,
        at: usize,
        report: &mut Report<'_>,
    ) -> FastRoutes {
        for (hostgroup, at) in self.hostgroups.iter().filter(|(id, _)| is_empty(*id)) {
            let message = format!("fast routing: hostgroup {hostgroup} has no [[server]]");
            report.add(*at, "fast_routing", message);
        }
        let same = match std::mem::take(&mut self.builder).finish() {
            Ok(routes) => return routes,
            Err(same) => same,
        };
        let place = |index: usize| match self.places.get(index) {
            Some(&place) => (place, String::new()),
            None => {
                let line = self.lines.get(index - self.places.len()).copied().unwrap_or_default();
                (at, format!(" (line {line} of the file)"))
            }
        };
        for pair in same.iter().take(SHOWN_MAX) {
            let ((first, in_file), (at, of_file)) = (place(pair.first), place(pair.second));
            let line = report.line(first);
            let message = format!(
                "two fast routing rules{of_file} have one username, schemaname and flagIN (the \
                 first is on line {line}{in_file})"
            );
            report.add(at, "fast_routing", message);
        }
        FastRoutes::default()
    }
}
