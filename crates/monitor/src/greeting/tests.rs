use trunkline_config::{Snapshot, parse};

use super::*;

const MARIADB: u64 = 0x1d_81bf_f7fe;
const MYSQL: u64 = 0xdfff_ffff;

fn snapshot(text: &str) -> Snapshot {
    let no_files = |_: &str| Err("no files here".to_owned());
    parse(text, "test.toml", &no_files).expect("configuration").snapshot(None)
}

/// Servers 1 in hostgroup 20 and 2 in hostgroup 30, of which 30 is the writer.
fn replicated(settings: &str) -> Snapshot {
    snapshot(&format!(
        "{settings}
        [[server]]
        hostgroup = 20
        address = \"10.0.0.1:3306\"
        [[server]]
        hostgroup = 30
        address = \"10.0.0.2:3306\"
        [[replication]]
        writer_hostgroup = 30
        reader_hostgroup = 20
        [[user]]
        name = \"app\"
        password = \"secret\"
        default_hostgroup = 30
        "
    ))
}

fn knowledge(servers: &[(&str, &str, u64, &str)]) -> Knowledge {
    let mut known = Knowledge::default();
    for (address, version, bits, plugin) in servers {
        let facts = Facts {
            version: (*version).to_owned(),
            capabilities: Capabilities::from_bits(*bits),
            charset: 45,
            reading: 0,
            auth_plugin: (*plugin).to_owned(),
            learned_unix_sec: 0,
        };
        known.learn(&address.parse().expect("address"), facts);
    }
    known
}

fn wire(greeting: &Greeting) -> Greeting {
    let mut out = Vec::new();
    greeting.put(&mut out, 0);
    Greeting::parse(&out[4..]).expect("greeting")
}

#[test]
fn the_writer_leads_and_a_reader_stands_in() {
    let snapshot = replicated("");
    let reader = ("10.0.0.1:3306", "8.0.40", MYSQL, "caching_sha2_password");
    let writer = ("10.0.0.2:3306", "9.7.0", MYSQL, "caching_sha2_password");
    let version = |known: &[_]| greeting_for_clients(&knowledge(known), &snapshot).server_version;
    assert_eq!(version(&[reader, writer]), "9.7.0");
    assert_eq!(version(&[reader]), "8.0.40");
    assert!(is_leader_known(&knowledge(&[writer]), &snapshot));
    assert!(!is_leader_known(&knowledge(&[reader]), &snapshot));
}

#[test]
fn nothing_known_looks_like_mysql_8() {
    let greeting = greeting_for_clients(&Knowledge::default(), &replicated(""));
    assert_eq!(greeting.server_version, "8.4.0");
    assert_eq!(greeting.auth_plugin, "caching_sha2_password");
    assert_eq!(greeting.capabilities, SUPPORTED.without(SERVERS_OWN) | OWN);
    assert_eq!(wire(&greeting), greeting);
}

#[test]
fn nothing_known_has_the_plugin_and_the_charset_of_the_version_that_is_set() {
    let snapshot = replicated("server_version = \"10.11.6-MariaDB\"");
    let greeting = greeting_for_clients(&Knowledge::default(), &snapshot);
    assert_eq!(greeting.server_version, "10.11.6-MariaDB");
    assert_eq!((greeting.auth_plugin.as_str(), greeting.charset), ("mysql_native_password", 45));
}

#[test]
fn mariadb_keeps_its_dialect_and_its_extensions() {
    let known = [("10.0.0.2:3306", "10.11.6-MariaDB", MARIADB, "mysql_native_password")];
    let greeting = greeting_for_clients(&knowledge(&known), &replicated(""));
    assert_eq!(greeting.auth_plugin, "mysql_native_password");
    assert!(!greeting.capabilities.contains(Capabilities::LONG_PASSWORD));
    let extended = Capabilities::PROGRESS
        | Capabilities::STMT_BULK_OPERATIONS
        | Capabilities::EXTENDED_METADATA
        | Capabilities::CACHE_METADATA;
    assert_eq!(greeting.capabilities & Capabilities::EXTENDED, extended);
    // A leader of MySQL's family can't offer them.
    let mysql = [("10.0.0.2:3306", "8.0.40", MYSQL, "caching_sha2_password")];
    let greeting_of_mysql = greeting_for_clients(&knowledge(&mysql), &replicated(""));
    assert_eq!(greeting_of_mysql.capabilities.extended(), 0);
    let never = [
        Capabilities::SSL,
        Capabilities::QUERY_ATTRIBUTES,
        Capabilities::OPTIONAL_RESULTSET_METADATA,
        Capabilities::MULTI_FACTOR_AUTHENTICATION,
    ];
    for flag in never {
        assert!(!greeting.capabilities.contains(flag), "{flag:?}");
    }
    let multi = Capabilities::MULTI_FACTOR_AUTHENTICATION;
    assert!(!greeting_of_mysql.capabilities.contains(multi));
    assert!(greeting_of_mysql.capabilities.contains(Capabilities::QUERY_ATTRIBUTES));
    assert_eq!(wire(&greeting), greeting);
}

#[test]
fn only_what_every_server_has_is_offered() {
    let old = MYSQL & !Capabilities::DEPRECATE_EOF.bits();
    let known = [
        ("10.0.0.1:3306", "5.6.51", old, "mysql_native_password"),
        ("10.0.0.2:3306", "8.0.40", MYSQL, "caching_sha2_password"),
        ("10.0.0.9:3306", "5.1.0", 0, ""),
    ];
    let greeting = greeting_for_clients(&knowledge(&known), &replicated(""));
    assert!(!greeting.capabilities.contains(Capabilities::DEPRECATE_EOF));
    assert!(greeting.capabilities.contains(Capabilities::SESSION_TRACK));
    assert!(greeting.capabilities.contains(Capabilities::LONG_PASSWORD));
}

#[test]
fn compression_is_offered_whatever_servers_can_unless_it_is_off() {
    let known = [("10.0.0.2:3306", "8.0.40", MYSQL & !OWN.bits(), "caching_sha2_password")];
    let offered = |settings: &str, known: &[_]| {
        greeting_for_clients(&knowledge(known), &replicated(settings)).capabilities & OWN
    };
    assert_eq!(offered("", &known), OWN);
    assert_eq!(offered("have_compress = false", &known), Capabilities::EMPTY);
    assert_eq!(offered("have_compress = false", &[]), Capabilities::EMPTY);
}

#[test]
fn a_setting_overrides_the_version_alone() {
    let known = [("10.0.0.2:3306", "8.0.40", MYSQL, "sha256_password")];
    let snapshot = replicated("server_version = \"8.0.99-mine\"");
    let greeting = greeting_for_clients(&knowledge(&known), &snapshot);
    assert_eq!(greeting.server_version, "8.0.99-mine");
    assert_eq!(greeting.charset, 45);
    // A plug-in that the proxy does not begin with.
    assert_eq!(greeting.auth_plugin, "caching_sha2_password");
    let none = greeting_for_clients(&Knowledge::default(), &snapshot);
    assert_eq!(none.server_version, "8.0.99-mine");
}

#[test]
fn clients_are_offered_no_reading_of_names_that_servers_are_not_asked_for() {
    let greeting = greeting_for_clients(&Knowledge::default(), &replicated(""));
    assert!(!greeting.capabilities.contains(Capabilities::NO_SCHEMA));
}
