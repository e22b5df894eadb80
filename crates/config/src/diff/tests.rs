//! Differences as people read them.

use super::*;

fn config(text: &str) -> Config {
    let no_files = |_: &str| Err("no files here".to_owned());
    crate::parse(text, "t", &no_files).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn lines(running: &Snapshot, new: &Config) -> Vec<String> {
    difference(running, new).iter().map(Change::to_string).collect()
}

const OLD: &str = "
workers = 1
[[server]]
hostgroup = 10
address = '10.0.0.1'
[[server]]
hostgroup = 20
address = '10.0.0.2'
[[user]]
name = 'app'
password = 'secret'
default_hostgroup = 10
[[user]]
name = 'gone'
password = 'secret'
default_hostgroup = 10
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 20
[[rule]]
id = 1
match_digest = '^SELECT'
[[rule]]
id = 3
";

const NEW: &str = "
workers = 2
wait_timeout = 5000
server_version = '8.4.0'
[[server]]
hostgroup = 10
address = '10.0.0.1'
weight = 5
status = 'OFFLINE_SOFT'
[[server]]
hostgroup = 30
address = 'db'
[[user]]
name = 'app'
password = 'terces'
default_hostgroup = 30
default_schema = 'shop'
[[replication]]
writer_hostgroup = 10
reader_hostgroup = 30
read_write_split = 'rules'
[[rule]]
id = 1
match_digest = '^UPDATE'
destination_hostgroup = 30
apply = true
[[rule]]
id = 2
";

#[test]
fn a_configuration_does_not_differ_from_itself() {
    let running = config(OLD).snapshot(None);
    assert_eq!(lines(&running, &config(OLD)), [""; 0]);
}

#[test]
fn every_change_is_one_line() {
    let running = config(OLD).snapshot(None);
    let expected = [
        "setting workers: 1 -> 2 (needs a restart)",
        "setting server_version: empty -> 8.4.0",
        "setting wait_timeout: 28800000 -> 5000",
        "server 10 10.0.0.1:3306: weight 1 -> 5, status ONLINE -> OFFLINE_SOFT",
        "server 30 db:3306: added",
        "server 20 10.0.0.2:3306: removed",
        "user app: password changed, default_hostgroup 10 -> 30, default_schema none -> \"shop\"",
        "user gone: removed",
        "replication 10: reader_hostgroup 20 -> 30, read_write_split auto -> rules",
        "rule 1: match_digest \"^SELECT\" -> \"^UPDATE\", destination_hostgroup none -> 30, \
         apply false -> true",
        "rule 2: added",
        "rule 3: removed",
    ];
    assert_eq!(lines(&running, &config(NEW)), expected);
}

#[test]
fn a_setting_that_waits_for_a_restart_is_named_again() {
    let running = config(OLD).snapshot(None);
    let running = config(NEW).snapshot(Some(&running));
    assert_eq!(lines(&running, &config(NEW)), ["setting workers: 1 -> 2 (needs a restart)"]);
}

#[test]
fn no_line_shows_a_password() {
    let running = config(OLD).snapshot(None);
    let shown = lines(&running, &config(NEW)).join("\n");
    assert!(!shown.contains("secret") && !shown.contains("terces"), "{shown}");
}

/// A change of any column is named, so that no column is forgotten when one is added.
#[test]
fn every_column_of_a_rule_is_compared() {
    let columns = [
        "active = false",
        "username = 'u'",
        "schemaname = 's'",
        "flagIN = 1",
        "client_addr = '10.%'",
        "proxy_addr = '::1'",
        "proxy_port = 1",
        "digest = '0x1'",
        "match_digest = 'd'",
        "match_pattern = 'p'",
        "negate_match_pattern = true",
        "re_modifiers = ''",
        "flagOUT = 1",
        "destination_hostgroup = 30",
        "cache_ttl = 1",
        "cache_empty_result = true",
        "cache_timeout = 1",
        "reconnect = true",
        "timeout = 1",
        "retries = 1",
        "delay = 1",
        "next_query_flagIN = 1",
        "mirror_flagOUT = 1",
        "mirror_hostgroup = 1",
        "error_msg = 'e'",
        "OK_msg = 'o'",
        "sticky_conn = true",
        "multiplex = 1",
        "gtid_from_hostgroup = 1",
        "log = true",
        "apply = true",
        "attributes = '{}'",
        "pipeline = 16",
        "lazy_transactions = 'off'",
        "causal_reads = 'user'",
        "shadow = true",
        "comment = 'c'",
    ];
    let with = |line: &str| config(&format!("{NEW}[[rule]]\nid = 9\n{line}\n"));
    let running = with("").snapshot(None);
    for column in columns {
        let name = column.split(' ').next().unwrap_or_default();
        let lines = lines(&running, &with(column));
        assert_eq!(lines.len(), 1, "{column}");
        assert!(lines[0].starts_with(&format!("rule 9: {name} ")), "{column}: {}", lines[0]);
    }
}

#[test]
fn a_changed_listener_says_what_has_changed() {
    let text = |keys: &str| {
        config(&format!(
            "[[server]]\naddress = 'a'\n[[tcp_listener]]\naddress = '[::]:1'\nhostgroup = 0\n{keys}"
        ))
    };
    let running = Snapshot::build(text(""), None);
    let new = text("balance = 'first'\ncontrol = 'unix:/run/c.sock'");
    assert_eq!(
        lines(&running, &new),
        ["tcp_listener [::]:1: balance leastconn -> first, control none -> unix:/run/c.sock"]
    );
}

#[test]
fn a_listener_that_stays_keeps_what_workers_know_of_it() {
    let text = |keys: &str| {
        config(&format!(
            "[[server]]\naddress = 'a'\n[[tcp_listener]]\naddress = '[::]:1'\nhostgroup = 0\n{keys}"
        ))
    };
    let running = Snapshot::build(text(""), None);
    let next = Snapshot::build(text("balance = 'first'"), Some(&running));
    assert!(Arc::ptr_eq(&running.tcp[0].gate, &next.tcp[0].gate));
    assert!(Arc::ptr_eq(&next.tcp[0].servers[0].health, &running.tcp[0].servers[0].health));
}

#[test]
fn what_is_said_of_a_hostgroup_is_compared() {
    let with = |lines: &str| config(&format!("{NEW}[[hostgroup]]\nhostgroup_id = 10\n{lines}"));
    let running = with("").snapshot(None);
    assert_eq!(lines(&running, &with("pipeline = 16")), ["hostgroup 10: pipeline auto -> 16"]);
    let random = with("balance = 'random'");
    assert_eq!(lines(&running, &random), ["hostgroup 10: balance p2c -> random"]);
    assert_eq!(lines(&running, &config(NEW)), ["hostgroup 10: removed"]);
}
