//! Tests of the table of variables.

use super::*;

#[test]
fn every_variable_has_one_row_and_takes_its_default() {
    let mut names: Vec<String> = all().map(|row| row.name()).collect();
    let rows = names.len();
    assert!(rows > 220, "{rows}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), rows);
    for row in all() {
        let (name, value) = (row.name(), row.default_value());
        let can_be_set = !matches!(row, Row::Shared(Variable { values: Values::ReadOnly, .. }));
        // Empty texts stand for what was never set.
        if can_be_set && !(value.is_empty() && row.setting().is_none()) {
            assert_eq!(row.check(&value), Ok(()), "{name}");
        }
        assert_eq!(find(&name.to_uppercase()).map(|row| row.name()), Some(name));
    }
}

#[test]
fn settings_are_variables_once() {
    for setting in SETTINGS {
        let rows = all().filter(|row| row.setting().is_some_and(|s| s.name == setting.name));
        assert_eq!(rows.count(), 1, "{}", setting.name);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_value_and_what_would_be_right() {
    let complaint = |name: &str, value: &str| check(name, value).expect_err(name);
    assert_eq!(
        complaint("mysql-wait_timeout", "-1"),
        "mysql-wait_timeout must be 0 to 1728000000, not -1"
    );
    assert_eq!(
        complaint("mysql-have_compress", "maybe"),
        "mysql-have_compress must be true or false, not `maybe`"
    );
    assert_eq!(
        complaint("mysql-max_connections", "x"),
        "mysql-max_connections must be 1 to 1000000, not `x`"
    );
    assert_eq!(
        complaint("mysql-monitor_ping_interval", "abc"),
        "mysql-monitor_ping_interval must be 100 to 604800000, not `abc`"
    );
    assert_eq!(
        complaint("mysql-wait_timeuot", "1"),
        "unknown variable `mysql-wait_timeuot`; did you mean `mysql-wait_timeout`?"
    );
    let sqli = complaint("mysql-automatic_detect_sqli", "true");
    assert!(sqli.contains("can't be `true`: statements are not searched"), "{sqli}");
    assert_eq!(check("mysql-automatic_detect_sqli", "0"), Ok(()));
    for url in ["redis://u:hunter2@cache", "rediss://u:hunter2@cache"] {
        let said = complaint("trunkline-query_cache_redis", url);
        assert!(!said.contains("hunter2"), "{said}");
    }
    assert_eq!(complaint("admin-version", "9"), "admin-version can't be set: it is read-only");
}

#[test]
fn values_become_lines_of_a_file() {
    let line = |name: &str, value: &str| {
        let (setting, given) = find(name).expect(name).given(value)?;
        Some(format!("{setting} = {}", toml_of(&given)))
    };
    let check = |name: &str, value: &str, expected: &str| {
        assert_eq!(line(name, value).as_deref(), Some(expected));
    };
    check("mysql-wait_timeout", "5", "wait_timeout = 5");
    check("mysql-have_compress", "1", "have_compress = true");
    check("mysql-threads", "4", "workers = 4");
    check(
        "mysql-interfaces",
        "0.0.0.0:6033;/tmp/p.sock",
        "listen = [\"0.0.0.0:6033\", \"unix:/tmp/p.sock\"]",
    );
    check("mysql-server_version", "8.0 \"x\"", "server_version = \"8.0 \\\"x\\\"\"");
    check("mysql-monitor_username", "m", "monitor_username = \"m\"");
    assert_eq!(line("mysql-monitor_ping_interval", "9000"), None);
}
