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
