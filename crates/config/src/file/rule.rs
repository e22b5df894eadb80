//! `[[rule]]`: the one place that maps keys of the file to fields of [`Rule`].

use trunkline_rules::{Multiplex, RETRIES_MAX, Rule};
use trunkline_topology::HostgroupId;

use crate::file::{
    check::{Entries, HOSTGROUPS, Placed},
    hostgroup::read_pipeline,
    report::Report,
    table::Table,
};

/// The longest `delay`, ms: an hour, as `mysql-default_query_delay` allows.
const DELAY_MAX: u32 = 3_600_000;

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
const PLACED: [&str; 13] = [
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
    "replace_pattern",
    "attributes",
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
    let hostgroup = |table: &mut Table<'_>, report: &mut Report<'_>, name| {
        table.number(report, name, HOSTGROUPS).map(HostgroupId)
    };
    let multiplex = table.number(report, "multiplex", 0..=2).and_then(Multiplex::from_number);
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
        replace_pattern: table.text(report, "replace_pattern"),
        destination_hostgroup: hostgroup(table, report, "destination_hostgroup"),
        cache_ttl_ms: table.number(report, "cache_ttl", 1..=u32::MAX),
        cache_empty_result: table.flag(report, "cache_empty_result"),
        cache_timeout_ms: table.number(report, "cache_timeout", flags.clone()),
        reconnect: table.flag(report, "reconnect"),
        timeout_ms: table.number(report, "timeout", flags.clone()),
        retries: table.number(report, "retries", 0..=RETRIES_MAX),
        delay_ms: table.number(report, "delay", 0..=DELAY_MAX),
        next_query_flag_in: table.number(report, "next_query_flagIN", flags.clone()),
        mirror_flag_out: table.number(report, "mirror_flagOUT", flags),
        mirror_hostgroup: hostgroup(table, report, "mirror_hostgroup"),
        error_msg: table.text(report, "error_msg"),
        ok_msg: table.text(report, "OK_msg"),
        sticky_conn: table.flag(report, "sticky_conn"),
        multiplex,
        gtid_from_hostgroup: hostgroup(table, report, "gtid_from_hostgroup"),
        log: table.flag(report, "log"),
        apply: table.flag(report, "apply").unwrap_or(false),
        attributes: table.text(report, "attributes"),
        pipeline: table.value(report, "pipeline", read_pipeline),
        shadow: table.flag(report, "shadow").unwrap_or(false),
        comment: table.text(report, "comment"),
    };
    table.finish(report, &[]);
    if id.is_none() {
        return;
    }
    let present = PLACED.into_iter().filter(|name| table.has(name));
    let places = present.map(|name| (name, table.place(name))).collect();
    let entry = RuleEntry { rule, places, index: table.index() };
    entries.rules.push(Placed { value: entry, at: table.place(id_key) });
}
