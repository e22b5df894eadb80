//! `[[rule]]`: the one place that maps keys of the file to fields of [`Rule`].

use trunkline_rules::Rule;
use trunkline_topology::HostgroupId;

use crate::file::{
    check::{Entries, HOSTGROUPS, Placed},
    report::Report,
    table::Table,
};

/// Columns of ProxySQL's `mysql_query_rules` that come with later features.
const LATER: [&str; 15] = [
    "replace_pattern",
    "cache_ttl",
    "cache_empty_result",
    "cache_timeout",
    "reconnect",
    "timeout",
    "retries",
    "delay",
    "mirror_flagOUT",
    "mirror_hostgroup",
    "sticky_conn",
    "multiplex",
    "gtid_from_hostgroup",
    "log",
    "attributes",
];

/// A rule and the places of its keys.
pub(super) struct RuleEntry {
    pub(super) rule: Rule,
    /// Byte offset of each key's value, by ProxySQL's column.
    places: Vec<(&'static str, usize)>,
    /// Which `[[rule]]` it is, counted from 0.
    pub(super) index: usize,
}

impl RuleEntry {
    /// Where the value of `column` is.
    pub(super) fn place(&self, column: &str) -> Option<usize> {
        self.places.iter().find(|(name, _)| *name == column).map(|(_, at)| *at)
    }
}

/// Columns that a rule can be refused for after its types are right.
const PLACED: [&str; 11] = [
    "flagIN",
    "username",
    "schemaname",
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "match_digest",
    "match_pattern",
    "re_modifiers",
    "destination_hostgroup",
];

pub(super) fn read(table: &mut Table<'_>, report: &mut Report<'_>, entries: &mut Entries) {
    let id_key = table.either(report, "id", "rule_id");
    let id = table.number(report, id_key, 1..=u32::MAX);
    if !table.has(id_key) {
        table.missing(report, "id");
    }
    let defaults = Rule::default();
    let flags = 0..=u32::MAX;
    let port = table.value(report, "proxy_port", |given| {
        let number = crate::settings::read_number(given, 0, u64::from(u16::MAX))?;
        u16::try_from(number).map_err(|_| format!("is too large: {number}"))
    });
    let rule = Rule {
        id: id.unwrap_or(0),
        active: table.flag(report, "active").unwrap_or(true),
        username: table.text(report, "username"),
        schemaname: table.text(report, "schemaname"),
        flag_in: table.number(report, "flagIN", flags.clone()).unwrap_or(0),
        client_addr: table.text(report, "client_addr"),
        proxy_addr: table.text(report, "proxy_addr"),
        proxy_port: port,
        digest: table.text(report, "digest"),
        match_digest: table.text(report, "match_digest"),
        match_pattern: table.text(report, "match_pattern"),
        negate_match_pattern: table.flag(report, "negate_match_pattern").unwrap_or(false),
        re_modifiers: table.text(report, "re_modifiers").or(defaults.re_modifiers),
        flag_out: table.number(report, "flagOUT", flags.clone()),
        destination_hostgroup: table
            .number(report, "destination_hostgroup", HOSTGROUPS)
            .map(HostgroupId),
        next_query_flag_in: table.number(report, "next_query_flagIN", flags),
        error_msg: table.text(report, "error_msg"),
        ok_msg: table.text(report, "OK_msg"),
        apply: table.flag(report, "apply").unwrap_or(false),
        comment: table.text(report, "comment"),
    };
    table.finish(report, &LATER);
    if id.is_none() {
        return;
    }
    let present = PLACED.into_iter().filter(|name| table.has(name));
    let places = present.map(|name| (name, table.place(name))).collect();
    let entry = RuleEntry { rule, places, index: table.index() };
    entries.rules.push(Placed { value: entry, at: table.place(id_key) });
}
