//! What becomes of rows when they are loaded.

use super::*;

#[test]
fn every_column_of_a_table_is_one_of_its_section() {
    for section in &trunkline_config::SECTIONS {
        let table = trunkline_store::tables::find(section.table).expect(section.table);
        assert!(Module::ALL.iter().any(|module| module.tables().contains(&section.table)));
        for column in table.columns.iter().map(|column| column.name) {
            // Its members are columns of the section.
            let is_known = section.column(column).is_some() || column == "hostgroup_settings";
            assert!(is_known, "{}.{column}", section.table);
        }
        let mut key = section.key.split(['{', '}']).skip(1).step_by(2);
        assert!(key.all(|name| table.column(name).is_some()), "{}", section.key);
    }
}

#[test]
fn every_wrong_row_is_named_by_its_table_and_key() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_users (username, password, default_hostgroup) VALUES ('u', 'p', -1)",
    );
    fixture.done("INSERT INTO mysql_users (username, password, use_ssl) VALUES ('v', '*12', 1)");
    let refused = fixture.refused("LOAD MYSQL USERS TO RUNTIME");
    assert!(
        refused.contains(
            "nothing was loaded: mysql_users, username u: `default_hostgroup` must be 0 to \
             2147483647, not -1"
        ),
        "{refused}"
    );
    fixture.done(
        "INSERT INTO trunkline_tcp_listeners (address, hostgroup, control) \
                  VALUES ('127.0.0.1:1', 1, '127.0.0.1:3'), ('127.0.0.1:2', 1, '127.0.0.1:3')",
    );
    fixture.done("INSERT INTO mysql_servers (hostname, port) VALUES ('a:1', 3307)");
    let refused = fixture.refused("LOAD MYSQL SERVERS TO RUNTIME");
    for part in [
        "mysql_servers, hostgroup_id 0, a:1:3307: `hostname` must be a host without a port, not \
         `a:1`",
        "trunkline_tcp_listeners, 127.0.0.1:2: address 127.0.0.1:3 to listen on is defined twice \
         (first in trunkline_tcp_listeners, 127.0.0.1:1)",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn what_runs_is_the_text_of_a_file_that_says_the_same() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, port, weight, max_latency_ms)
         VALUES (1, 'a', 3307, 5, 30), (2, '/run/m.sock', 0, 1, 0)",
    );
    fixture.done(
        "INSERT INTO mysql_replication_hostgroups (writer_hostgroup, reader_hostgroup)
         VALUES (1, 2)",
    );
    fixture.done(
        "INSERT INTO mysql_hostgroup_attributes (hostgroup_id, multiplex, hostgroup_settings)
         VALUES (1, 0, '{\"pipeline\": 16, \"read_write_split\": \"auto\"}'), (9, 0, '')",
    );
    fixture.done(
        r#"INSERT INTO mysql_users (username, password, default_hostgroup, attributes) VALUES
           ('u', 'p', 1, '{"allow_from": ["10.0.0.0/8"], "spiffe_id": "spiffe://a/b"}')"#,
    );
    fixture.done(
        "INSERT INTO mysql_query_rules (rule_id, match_pattern, re_modifiers)
         VALUES (1, 'x', NULL)",
    );
    fixture.done("SET mysql-wait_timeout = 5000");
    for module in ["SERVERS", "USERS", "QUERY RULES", "VARIABLES"] {
        fixture.done(&format!("LOAD MYSQL {module} TO RUNTIME"));
    }
    let text = fixture.runtime.block_on(fixture.service.config_text()).expect("a text");
    assert!(text.contains("\n# without effect: max_latency_ms = 30\n"), "{text}");
    assert!(text.contains("\n# without effect: hostgroup_id = 9\n"), "{text}");
    let no_files = |_: &str| Err("no files here".to_owned());
    let read = trunkline_config::parse(&text, "text", &no_files).expect(&text);
    let differences = difference(&fixture.kept.snapshot(), &read);
    assert!(differences.is_empty(), "{text}{differences:?}");
    assert_eq!((read.rules.len(), read.rules[0].active), (1, false));
}

#[test]
fn a_wrong_row_among_many_is_named_by_its_number() {
    let mut fixture = Fixture::new();
    let mut check = |rows: &[&str], expected: &str| {
        let sql = format!(
            "INSERT INTO mysql_servers (hostgroup_id, hostname, port) VALUES {}",
            rows.join(", ")
        );
        assert_eq!(fixture.refused(&sql), format!("ProxySQL Admin Error: {expected}"), "{sql}");
    };
    let mut rows: Vec<String> = (1..=1_000).map(|port| format!("(1, 'a', {port})")).collect();
    rows[736] = "(1, 'a', 99999)".to_owned();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let port = "CHECK constraint failed: port >= 0 AND port <= 65535";
    let of = "of the statement, none of which was inserted)";
    check(&rows, &format!("{port} (row 737 {of}"));
    check(&["(1, 'a', 99999)", "(1, 'a', 1)"], &format!("{port} (row 1 {of}"));
    // One row needs no number: the message is ProxySQL's.
    check(&["(1, 'a', 99999)"], port);
    let twice = "UNIQUE constraint failed: mysql_servers.hostgroup_id, mysql_servers.hostname, \
                 mysql_servers.port";
    check(&["(1, 'a', 1)", "(1, 'b', 1)", "(1, 'a', 1)"], &format!("{twice} (row 3 {of}"));
    let row = fixture.refused("INSERT INTO mysql_query_rules (rule_id, active) VALUES (7, 2)");
    assert!(!row.contains("(row"), "{row}");
}

#[test]
fn a_rule_without_a_number_is_named_and_hides_no_other() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_query_rules (rule_id, active, match_pattern)
         VALUES (0, 1, 'a'), (1, 1, 'b'), (2, 1, '(')",
    );
    let refused = fixture.refused("LOAD MYSQL QUERY RULES TO RUNTIME");
    for part in [
        "mysql_query_rules, rule_id 0: `rule_id` must be 1 to 4294967295, not 0",
        "mysql_query_rules, rule_id 2: rule 2: match_pattern: pattern `(`: missing )",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn a_load_warns_of_names_without_an_address_and_of_jobs_that_can_not_run() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_servers (hostname) VALUES ('no.such.invalid'), ('db'), ('10.0.0.1')",
    );
    let said = fixture.done("LOAD MYSQL SERVERS TO RUNTIME");
    let expected = "; 1 warning, the first one: the name of no.such.invalid:3306 has no address: \
                    it serves nobody until it has one";
    assert!(said.ends_with(expected), "{said}");
    fixture.done("DELETE FROM mysql_servers WHERE hostname = 'no.such.invalid'");
    assert_eq!(fixture.done("LOAD MYSQL SERVERS TO RUNTIME"), "1 change");

    fixture.done(
        "INSERT INTO scheduler (id, active, interval_ms, filename)
         VALUES (4, 1, 1000, '/no/such'), (5, 0, 1000, '/neither')",
    );
    let said = fixture.done("LOAD SCHEDULER TO RUNTIME");
    assert!(said.contains("1 warning, the first one: scheduler 4: "), "{said}");
    assert!(said.contains("can't run: "), "{said}");
}

#[test]
fn tables_without_effect_are_told_when_they_are_set_and_not_at_every_load() {
    let mut fixture = Fixture::new();
    let mut check = |insert: &str, expected: &str| {
        fixture.done(insert);
        let said = fixture.done("LOAD PROXYSQL SERVERS TO RUNTIME");
        assert!(said.contains(expected), "{insert}: {said}");
        let said = fixture.done("LOAD PROXYSQL SERVERS TO RUNTIME");
        assert!(!said.contains("warning"), "{insert}: {said}");
    };
    check(
        "INSERT INTO proxysql_servers (hostname) VALUES ('p')",
        "1 warning, the first one: proxysql_servers: its rows have no effect yet",
    );
}

#[test]
fn what_runs_is_written_in_the_language_that_was_loaded_and_with_everything() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'db')");
    fixture.done(
        "INSERT INTO scheduler (id, active, interval_ms, filename, arg1)
         VALUES (4, 1, 1000, '/bin/true', 'say \"x\"')",
    );
    fixture.done(
        "INSERT INTO mysql_users (username, password, default_hostgroup) VALUES ('u', 'p', 1)",
    );
    fixture.done("SET admin-admin_credentials = 'me:secret'");
    for module in ["MYSQL SERVERS", "MYSQL USERS", "SCHEDULER", "ADMIN VARIABLES"] {
        fixture.done(&format!("LOAD {module} TO RUNTIME"));
    }
    let mut written = |format| {
        fixture.service.format = format;
        let Value::Text(text) = fixture.value("SELECT CONFIG FILE") else { panic!("no text") };
        assert!(text.starts_with("# There are passwords in this file"), "{text}");
        text
    };
    let text = written(Format::Cnf);
    let rows = crate::import::cnf_rows(&text, "cnf").expect(&text).rows;
    let has = |rows: &[FirstRow], table: &str, value: &str| {
        let value = Value::Text(value.to_owned());
        rows.iter().any(|row| row.table == table && row.values.iter().any(|(_, it)| *it == value))
    };
    for (table, value) in
        [("mysql_servers", "db"), ("scheduler", "say \"x\""), ("global_variables", "me:secret")]
    {
        assert!(has(&rows, table, value), "{table} {value}: {text}");
    }
    let text = written(Format::Toml);
    for line in [
        "# in a database only: admin-admin_credentials = \"me:secret\"\n",
        "# in a database only: [[scheduler]]\n# in a database only: id = 4\n",
        "# in a database only: arg1 = \"say \\\"x\\\"\"\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let no_files = |_: &str| Err("no files here".to_owned());
    trunkline_config::parse(&text, "text", &no_files).expect(&text);
}
