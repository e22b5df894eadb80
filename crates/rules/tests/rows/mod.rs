//! Rows of `mysql_query_rules`, as the data files write them, as rules.

use std::collections::BTreeMap;

use serde_json::Value;
use trunkline_rules::{Multiplex, Rule};
use trunkline_topology::HostgroupId;

/// A row: values by column.
pub type Row = BTreeMap<String, Value>;

pub fn text(row: &Row, column: &str) -> Option<String> {
    row.get(column).and_then(Value::as_str).map(str::to_owned)
}

pub fn number<T: TryFrom<u64>>(row: &Row, column: &str) -> Option<T> {
    row.get(column).and_then(Value::as_u64).and_then(|number| T::try_from(number).ok())
}

fn flag(row: &Row, column: &str) -> Option<bool> {
    number::<u8>(row, column).map(|number| number == 1)
}

/// The row as a rule, columns taken as they stand.
pub fn rule_of(row: &Row) -> Rule {
    let hostgroup = |column| number(row, column).map(HostgroupId);
    let defaults = Rule::default();
    Rule {
        id: number(row, "rule_id").expect("rule_id"),
        active: flag(row, "active").unwrap_or(true),
        username: text(row, "username"),
        schemaname: text(row, "schemaname"),
        flag_in: number(row, "flagIN").unwrap_or(0),
        client_addr: text(row, "client_addr"),
        proxy_addr: text(row, "proxy_addr"),
        proxy_port: number(row, "proxy_port"),
        digest: text(row, "digest"),
        match_digest: text(row, "match_digest"),
        match_pattern: text(row, "match_pattern"),
        negate_match_pattern: flag(row, "negate_match_pattern").unwrap_or(false),
        re_modifiers: match row.get("re_modifiers") {
            None => defaults.re_modifiers,
            Some(_) => text(row, "re_modifiers"),
        },
        flag_out: number(row, "flagOUT"),
        replace_pattern: text(row, "replace_pattern"),
        destination_hostgroup: hostgroup("destination_hostgroup"),
        cache_ttl_ms: number(row, "cache_ttl"),
        cache_empty_result: flag(row, "cache_empty_result"),
        cache_timeout_ms: number(row, "cache_timeout"),
        reconnect: flag(row, "reconnect"),
        timeout_ms: number(row, "timeout"),
        retries: number(row, "retries"),
        delay_ms: number(row, "delay"),
        next_query_flag_in: number(row, "next_query_flagIN"),
        mirror_flag_out: number(row, "mirror_flagOUT"),
        mirror_hostgroup: hostgroup("mirror_hostgroup"),
        error_msg: text(row, "error_msg"),
        ok_msg: text(row, "OK_msg"),
        sticky_conn: flag(row, "sticky_conn"),
        multiplex: number(row, "multiplex").and_then(Multiplex::from_number),
        gtid_from_hostgroup: hostgroup("gtid_from_hostgroup"),
        log: flag(row, "log"),
        apply: flag(row, "apply").unwrap_or(false),
        attributes: text(row, "attributes"),
        pipeline: text(row, "pipeline").and_then(|word| word.parse().ok()),
        lazy_transactions: None,
        causal_reads: None,
        trace_sample: None,
        shadow: flag(row, "shadow").unwrap_or(false),
        comment: text(row, "comment"),
    }
}
