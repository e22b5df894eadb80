//! What scripts and people who know ProxySQL expect.

use std::collections::BTreeMap;

use super::*;

#[test]
fn runtime_shows_rows_that_work_and_keeps_the_others() {
    let mut fixture = Fixture::new();
    fixture.done(
        "INSERT INTO mysql_users (username, password, active) VALUES ('on', 'p', 1), ('off', 'p', 0)",
    );
    fixture.done(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest) VALUES (1, 1, 'a'), (2, 0, 'b')",
    );
    fixture.done(
        "INSERT INTO mysql_servers (hostname, status) VALUES ('a', 'ONLINE'), ('b', 'OFFLINE_HARD')",
    );
    for module in ["USERS", "QUERY RULES", "SERVERS"] {
        fixture.done(&format!("LOAD MYSQL {module} TO RUNTIME"));
        assert!(fixture.rows(&format!("SHOW DIFF MYSQL {module}")).rows.is_empty(), "{module}");
    }
    let mut shown = |sql: &str| fixture.value(sql);
    assert_eq!(shown("SELECT group_concat(username) FROM runtime_mysql_users"), text("on"));
    assert_eq!(shown("SELECT group_concat(rule_id) FROM runtime_mysql_query_rules"), text("1"));
    assert_eq!(shown("SELECT group_concat(hostname) FROM runtime_mysql_servers"), text("a"));
    // Nothing is lost on the way back.
    fixture.done("SAVE MYSQL USERS FROM RUNTIME");
    assert_eq!(fixture.value("SELECT count(*) FROM mysql_users"), Value::Integer(2));
    let tables = fixture.rows("SHOW TABLES LIKE '%mysql_users'").rows;
    assert_eq!(tables, [[text("mysql_users")], [text("runtime_mysql_users")]]);
    assert!(fixture.refused("DELETE FROM runtime_mysql_users").contains("runtime_mysql_users"));
    assert!(fixture.refused("DELETE FROM loaded_mysql_users").contains("not authorized"));
}

#[test]
fn what_is_on_or_off_is_spelled_in_one_way() {
    let mut fixture = Fixture::new();
    let given = [
        ("mysql-have_compress", "0", "false"),
        ("mysql-eventslog_default_log", "true", "1"),
        ("mysql-connection_warming", "TRUE", "true"),
        ("mysql-wait_timeout", "5000", "5000"),
    ];
    for (name, value, _) in given {
        fixture.done(&format!("SET {name} = '{value}'"));
    }
    fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    for (name, value, shown) in given {
        let of = |layer: &str| {
            format!(
                "SELECT variable_value FROM {layer}global_variables WHERE variable_name = '{name}'"
            )
        };
        assert_eq!(fixture.value(&of("runtime_")), text(shown), "{name}");
        assert_eq!(fixture.value(&of("")), text(value), "{name}");
    }
    assert!(fixture.rows("SHOW DIFF MYSQL VARIABLES").rows.is_empty(), "they mean the same");
    let untouched = "SELECT variable_value FROM runtime_global_variables WHERE variable_name = \
                     'mysql-query_digests'";
    assert_eq!(fixture.value(untouched), text("true"));
}

#[test]
fn values_that_proxysql_takes_are_taken() {
    let mut fixture = Fixture::new();
    fixture.done("SET mysql-query_processor_iterations = 500000");
    fixture.done("SET mysql-shun_recovery_time_sec = 0");
    fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    let settings = &fixture.config().settings.clone();
    let values = (settings.query_processor_iterations, settings.shun_recovery_time_sec);
    assert_eq!(values, (500_000, 0));
}

#[test]
fn drivers_get_the_variables_that_they_ask_for() {
    let mut fixture = Fixture::new();
    // MariaDB Connector/J 1.5 and MySQL Connector/J 5.1.
    let asked = "SHOW VARIABLES WHERE Variable_name IN ('max_allowed_packet', 'system_time_zone', \
                 'time_zone', 'sql_mode')";
    assert_eq!(fixture.rows(asked).rows.len(), 4);
    let asked = "SHOW VARIABLES WHERE Variable_name ='language' OR Variable_name = \
                 'net_write_timeout' OR Variable_name = 'wait_timeout' OR Variable_name = \
                 'character_set_client' OR Variable_name = 'tx_isolation' OR Variable_name = \
                 'lower_case_table_names' OR Variable_name = 'autocommit'";
    let rows = fixture.rows(asked).rows;
    assert_eq!(rows.len(), 7);
    assert_eq!(rows.first(), Some(&vec![text("autocommit"), text("ON")]));
    assert_eq!(fixture.rows("SHOW VARIABLES LIKE 'mysql-wait_timeout'").rows.len(), 1);
    assert_eq!(fixture.rows("SHOW GLOBAL VARIABLES LIKE 'version'").rows.len(), 1);
    let all = fixture.rows("SHOW VARIABLES").rows;
    assert!(!all.iter().any(|row| row.first() == Some(&text("time_zone"))), "as in ProxySQL");
    assert_eq!(fixture.value("SELECT @@ProxySQL_Uptime"), Value::Integer(7_260));
    assert!(fixture.refused("SELECT @@nothing").contains("nothing"));
    assert_eq!(
        fixture.value("SELECT count(*) > 0 FROM mysql_collations WHERE Charset = 'utf8'"),
        Value::Integer(1)
    );
}

#[test]
fn checksums_have_the_names_and_forms_of_proxysql() {
    let mut fixture = Fixture::new();
    let names =
        "SELECT group_concat(name) FROM (SELECT name FROM runtime_checksums_values ORDER BY 1)";
    let expected = "admin_variables,mysql_query_rules,mysql_servers,mysql_servers_v2,mysql_users,\
                    mysql_variables,proxysql_servers";
    assert_eq!(fixture.value(names), text(expected));
    let row = |fixture: &mut Fixture, sql: &str| fixture.rows(sql).rows.remove(0);
    assert_eq!(row(&mut fixture, "checksum mysql users"), [text("MYSQL USERS"), text("0x00")]);
    let sum = "SELECT checksum FROM runtime_checksums_values WHERE name = ";
    assert_eq!(fixture.value(&format!("{sum}'mysql_users'")), text("0x0000000000000000"));
    fixture.done("INSERT INTO mysql_users (username, password) VALUES ('u', 'p')");
    let [_, Value::Text(short)] = &*row(&mut fixture, "CHECKSUM MEMORY MYSQL USERS") else {
        panic!("no checksum")
    };
    assert!(short.starts_with("0x") && short.len() > 10, "{short}");
    assert_eq!(row(&mut fixture, "CHECKSUM DISK MYSQL USERS")[1], text("0x00"));
    let [Value::Text(all)] = &*row(&mut fixture, "SELECT GLOBAL_CHECKSUM()") else {
        panic!("no checksum")
    };
    assert!(all.parse::<i64>().is_ok_and(|all| all > 0), "{all}");
}

/// What ProxySQLs have shown and written to their logs, with the rows that it is of.
#[test]
fn checksums_are_those_of_proxysql() {
    // ProxySQL 2.7.0, in a guide to its cluster: what it shows of `proxysql_servers` is told
    // there; the servers are those of its other steps.
    let sums = checksums_after(
        "INSERT INTO proxysql_servers VALUES
         ('192.168.0.12', 6032, 0, 'proxysql_node2'), ('192.168.0.11', 6032, 0, 'proxysql_node1');
         INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES
         (2, '192.168.0.13'), (2, '192.168.0.12'), (1, '192.168.0.11');
         INSERT INTO mysql_replication_hostgroups VALUES (1, 2, 'read_only', 'cluster1');
         LOAD PROXYSQL SERVERS TO RUNTIME; LOAD MYSQL SERVERS TO RUNTIME",
    );
    assert_eq!(sums["proxysql_servers"], "0xEB7F779029A89859");
    assert_eq!(sums["mysql_servers"], "0x397CE208AB710D50");
    assert_eq!(sums["mysql_servers_v2"], "0x74B77E00F44904CE");
    // sysown/proxysql#4607. What is shunned counts as online, what is hard offline not at all.
    let sums = checksums_after(
        "INSERT INTO mysql_servers (hostgroup_id, hostname, max_connections, status) VALUES
         (20, '10.1.0.40', 100, 'shunned'), (10, '10.1.0.10', 100, 'ONLINE'),
         (20, '10.1.0.20', 100, 'ONLINE'), (20, '10.1.0.50', 100, 'OFFLINE_HARD');
         INSERT INTO mysql_replication_hostgroups VALUES (10, 20, 'read_only', '');
         LOAD MYSQL SERVERS TO RUNTIME",
    );
    assert_eq!(sums["mysql_servers_v2"], "0x9DC2954BC4F45CBB");
}

/// No recorded value is known of these; the bytes are those that ProxySQL's sources name.
#[test]
fn users_and_rules_are_hashed_from_the_bytes_that_proxysql_takes() {
    let expected =
        |sum: u64| format!("{:0<18}", format!("0x{:X}{:X}", sum & 0xFFFF_FFFF, sum >> 32));
    let hash = trunkline_sql::spooky::hash128_first;
    let sums = checksums_after(
        "INSERT INTO mysql_users (username, password, default_hostgroup, default_schema, use_ssl,
                                  max_connections, comment, attributes)
         VALUES ('app', 'secret', 258, 'shop', 1, 10, 'why', '{}');
         INSERT INTO mysql_users (username, password, active) VALUES ('gone', 'p', 0);
         LOAD MYSQL USERS TO RUNTIME;
         INSERT INTO mysql_query_rules (rule_id, active, match_digest, destination_hostgroup, apply)
         VALUES (7, 1, '^SELECT', 2, 1), (8, 0, 'x', 2, 1);
         INSERT INTO mysql_query_rules_fast_routing VALUES ('app', 'shop', 0, 3, 'c');
         LOAD MYSQL QUERY RULES TO RUNTIME",
    );
    let user = b"\x01\x02\x01\x00\x00\x00\x01\x00\x0a\x00\x00\x00appsecretshopwhy{}";
    let user = hash(user, [13, 4]);
    assert_eq!(sums["mysql_users"], expected(user.wrapping_add(user)), "both sides of the user");
    let rule = hash(b"70^SELECT0CASELESS21", [19, 3]);
    let route = hash(b"appshop03c", [19, 3]);
    assert_eq!(sums["mysql_query_rules"], expected(rule.wrapping_add(route)));
}

/// No recorded value is known of these either. SQLite puts the same texts together here as
/// ProxySQL's sources name, without the code that makes the checksums.
#[test]
fn variables_and_all_together_are_hashed_from_the_texts_that_proxysql_takes() {
    let hash = trunkline_sql::spooky::hash128_first;
    let mut fixture = Fixture::new();
    fixture.done("SET mysql-wait_timeout = 7000");
    fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    for (module, own) in [
        ("mysql", "'mysql-threads', 'mysql-interfaces'"),
        (
            "admin",
            "'admin-mysql_ifaces', 'admin-restapi_port', 'admin-telnet_admin_ifaces',
             'admin-telnet_stats_ifaces', 'admin-web_port'",
        ),
    ] {
        let texts = format!(
            "SELECT group_concat(variable_name || variable_value, '') FROM
             (SELECT * FROM runtime_global_variables WHERE variable_name LIKE '{module}-%'
              AND variable_name NOT IN ({own}) ORDER BY variable_name)"
        );
        let Value::Text(texts) = fixture.value(&texts) else { panic!("no variables") };
        let sum = hash(texts.as_bytes(), [19, 3]);
        let expected = format!("{:0<18}", format!("0x{:X}{:X}", sum & 0xFFFF_FFFF, sum >> 32));
        let asked = format!(
            "SELECT checksum FROM runtime_checksums_values WHERE name='{module}_variables'"
        );
        assert_eq!(fixture.value(&asked), text(&expected), "{module}");
    }
    let mut bytes = Vec::new();
    let asked = "SELECT checksum, version FROM runtime_checksums_values ORDER BY name";
    for row in fixture.rows(asked).rows {
        let [Value::Text(sum), Value::Integer(version)] = &*row else { panic!("{row:?}") };
        bytes.extend_from_slice(sum.as_bytes());
        bytes.extend_from_slice(&version.to_le_bytes());
    }
    let all = hash(&bytes, [9, 5]) / 2;
    assert_eq!(fixture.rows("SELECT GLOBAL_CHECKSUM()").rows, [[text(&all.to_string())]]);
}

/// The rows of `runtime_checksums_values` after some statements, separated by semicolons.
fn checksums_after(statements: &str) -> BTreeMap<String, String> {
    let mut fixture = Fixture::new();
    for sql in statements.split(';') {
        fixture.done(sql.trim());
    }
    let rows = fixture.rows("SELECT name, checksum FROM runtime_checksums_values").rows;
    let pairs = rows.into_iter().filter_map(|row| match &*row {
        [Value::Text(name), Value::Text(sum)] => Some((name.clone(), sum.clone())),
        _ => None,
    });
    pairs.collect()
}

#[test]
fn a_dump_of_tables_is_restored() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_users (username, password) VALUES ('old', 'p')");
    let version = format!("('admin-version','{VERSION}')");
    for sql in [
        "/*M!999999\\- enable the sandbox mode */",
        "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */",
        "DROP TABLE IF EXISTS `mysql_users`",
        "CREATE TABLE mysql_users (\n    username VARCHAR NOT NULL,\n    PRIMARY KEY (username, backend)\n)",
        "LOCK TABLES `mysql_users` WRITE",
        "/*!40000 ALTER TABLE `mysql_users` DISABLE KEYS */",
        "INSERT INTO `mysql_users` (username, password) VALUES ('new','p')",
        "DROP TABLE IF EXISTS `global_variables`",
        "CREATE TABLE global_variables (variable_name VARCHAR NOT NULL PRIMARY KEY)",
        &format!("INSERT INTO `global_variables` VALUES {version},('mysql-wait_timeout','7000')"),
        "UNLOCK TABLES",
    ] {
        fixture.done(sql);
    }
    assert_eq!(fixture.value("SELECT group_concat(username) FROM mysql_users"), text("new"));
    assert_eq!(
        fixture.value("SELECT @@global.mysql-wait_timeout IS NULL").clone(),
        Value::Integer(0)
    );
    // What a tool asks beside.
    let rows = fixture.rows("SELECT /*!40001 SQL_NO_CACHE */ username FROM mysql_users").rows;
    assert_eq!(rows, [[text("new")]]);
    assert!(fixture.rows("SELECT DISTINCT ENGINE FROM INFORMATION_SCHEMA.FILES").rows.is_empty());
    let triggers = "SELECT TRIGGER_NAME FROM INFORMATION_SCHEMA.TRIGGERS WHERE \
                    EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = 'mysql_users'";
    assert!(fixture.rows(triggers).rows.is_empty());
    // Nothing else is dropped or made.
    assert!(fixture.refused("DROP TABLE mysql_users").contains("not authorized"));
    assert!(fixture.refused("CREATE TABLE mine (a INT)").contains("not authorized"));
}

#[test]
fn a_load_says_what_waits_for_a_restart_and_what_does_nothing() {
    let mut fixture = Fixture::new();
    fixture.done("SET mysql-threads = 3");
    let said = fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    let expected = "1 change; 1 change after a restart, the first one: setting workers: 0 -> 3";
    assert_eq!(said, expected);
    // Once, when it is set.
    assert_eq!(
        fixture.done("SET mysql-connection_warming = true"),
        "mysql-connection_warming has no effect"
    );
    let shown = [[text("Warning"), text("1105"), text("mysql-connection_warming has no effect")]];
    assert_eq!(fixture.rows("SHOW WARNINGS").rows, shown);
    assert_eq!(fixture.rows("SHOW WARNINGS").rows, shown, "asking changes nothing");
    assert_eq!(fixture.value("SHOW COUNT(*) WARNINGS"), text("1"));
    let said = fixture.done("LOAD MYSQL VARIABLES TO RUNTIME");
    assert!(
        said.contains("1 warning, the first one: mysql-connection_warming has no effect"),
        "{said}"
    );
    assert_eq!(fixture.done("LOAD MYSQL VARIABLES TO RUNTIME"), expected, "it still waits");
    assert!(fixture.rows("SHOW WARNINGS").rows.is_empty());
    fixture.done("INSERT INTO proxysql_servers (hostname) VALUES ('p')");
    let said = fixture.done("LOAD PROXYSQL SERVERS TO RUNTIME");
    assert!(said.contains("proxysql_servers: its rows have no effect"), "{said}");
    let Reply::Ok { affected, .. } = fixture.reply("SAVE PROXYSQL SERVERS TO DISK") else {
        panic!("not saved")
    };
    assert_eq!(affected, 0, "as in ProxySQL");
}

#[test]
fn other_credentials_are_a_change_without_their_values() {
    let mut fixture = Fixture::new();
    fixture.done("SET admin-admin_credentials = 'admin:other'");
    fixture.done("SET admin-refresh_interval = 3000");
    assert_eq!(
        fixture.done("LOAD ADMIN VARIABLES TO RUNTIME"),
        "2 changes; 1 warning, the first one: admin-refresh_interval has no effect"
    );
    let Value::Text(changes) = fixture.value("SELECT changes FROM disk.config_history") else {
        panic!("no row")
    };
    assert_eq!(changes, "admin-admin_credentials: changed\nadmin-refresh_interval: 2000 -> 3000");
    assert_eq!(fixture.done("LOAD ADMIN VARIABLES TO RUNTIME"), "0 changes");
}

#[test]
fn a_path_is_taken_as_it_is_written() {
    let parsed = |sql: &str| sql::parse(sql);
    let expected = Ok(Statement::Command(Command::SaveConfig("/tmp/New.Cnf".to_owned())));
    for sql in [
        "SELECT CONFIG INTO OUTFILE /tmp/New.Cnf",
        "select config into outfile '/tmp/New.Cnf'",
        "SAVE CONFIG TO FILE /tmp/New.Cnf;",
    ] {
        assert_eq!(parsed(sql), expected, "{sql}");
    }
}

#[test]
fn each_kind_of_statement_has_its_row() {
    let mut fixture = Fixture::new();
    let count = fixture.value("SELECT count(*) FROM stats_mysql_commands_counters");
    let kinds = trunkline_sql::analysis::StatementKind::ALL.len();
    assert_eq!(count, Value::Integer(i64::try_from(kinds).expect("few")));
    let counted = "SELECT Total_cnt FROM stats_mysql_commands_counters WHERE Command = ";
    assert_eq!(fixture.value(&format!("{counted} 'SELECT'")), Value::Integer(8_040));
    assert_eq!(fixture.value(&format!("{counted} 'GRANT'")), Value::Integer(0));
}

/// A folder of this test's own, which is not there yet.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("trunkline-{name}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    folder
}

#[test]
fn a_first_start_that_fails_leaves_nothing_behind() {
    let folder = folder("first");
    let begin = |text: &'static str| {
        let first = move || crate::import::cnf_rows(text, "first.cnf");
        let first: &dyn Fn() -> Result<crate::import::Imported, Vec<String>> = &first;
        start::start(Start { folder: folder.clone(), is_initial: false, first })
    };
    let users = |config: &Config| {
        let names = config.users.iter().map(|user| user.name.clone());
        names.collect::<Vec<String>>()
    };
    assert!(begin("mysql_users = ( { username=\"wrong\", default_hostgroup=-7 } )").is_err());
    assert!(!folder.exists(), "the folder was not there before");
    // It can't listen, say: the process ends before it serves.
    let started = begin("mysql_users = ( { username=\"early\", password=\"p\" } )").expect("valid");
    assert!(started.is_first);
    drop(started);
    let started = begin("mysql_users = ( { username=\"late\", password=\"p\" } )").expect("valid");
    assert_eq!((users(&started.config), started.is_first), (vec!["late".to_owned()], true));
    // It serves, and that is kept.
    let mut store = started.store;
    start::keep_first(&mut store).expect("kept");
    drop(store);
    let started = begin("mysql_users = ( { username=\"other\", password=\"p\" } )").expect("valid");
    assert_eq!((users(&started.config), started.is_first), (vec!["late".to_owned()], false));
    drop(started.store);
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn what_a_file_would_change_that_is_not_read_is_told() {
    let rows = |text: &str| crate::import::cnf_rows(text, "x.cnf").expect("rows");
    let (running, _) = start::config_of(rows(FILE)).unwrap_or_else(|error| panic!("{error:?}"));
    let changes = |text: &str| start::differs(&running, rows(text)).map_err(|error| error.0);
    assert_eq!(changes(FILE), Ok(Vec::new()));
    let other = FILE.replace("weight=7", "weight=8");
    let found = changes(&other).expect("valid");
    assert!(matches!(found.as_slice(), [only] if only.contains("weight")), "{found:?}");
}

/// What MySQL Workbench sends when it connects, and when somebody looks at schemas and rows.
#[test]
fn workbench_meets_no_error() {
    let mut fixture = Fixture::new();
    fixture.done("INSERT INTO mysql_servers (hostname) VALUES ('db')");
    for sql in [
        "SET NAMES 'utf8mb4'",
        "SET NAMES utf8",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET CHARACTER SET utf8",
        "SET SQL_SAFE_UPDATES=1",
        "SET SESSION sql_mode='ANSI_QUOTES'",
        "SET autocommit=1",
        "SELECT CONNECTION_ID()",
        "SELECT current_user()",
        "SELECT @@lower_case_table_names",
        "SHOW SESSION VARIABLES LIKE 'lower_case_table_names'",
        "SHOW SESSION VARIABLES LIKE 'sql_mode'",
        "SHOW SESSION VARIABLES LIKE 'version_comment'",
        "SHOW SESSION VARIABLES LIKE 'version'",
        "SHOW VARIABLES LIKE 'character_set_database'",
        "SHOW SESSION STATUS LIKE 'Ssl_cipher'",
        "SHOW GLOBAL STATUS",
        "SHOW GLOBAL VARIABLES",
        "SHOW DATABASES",
        "SHOW SCHEMAS",
        "SHOW TABLES FROM `main`",
        "SHOW FULL TABLES FROM `main`",
        "SHOW FULL TABLES FROM `main` LIKE 'mysql_servers'",
        "SHOW FULL COLUMNS FROM `main`.`mysql_servers`",
        "SHOW COLUMNS FROM `main`.`mysql_servers`",
        "SHOW INDEXES FROM `main`.`mysql_servers`",
        "SHOW TRIGGERS FROM `main`",
        "SHOW PROCEDURE STATUS WHERE Db='main'",
        "SHOW FUNCTION STATUS WHERE Db='main'",
        "SHOW CREATE TABLE `main`.`mysql_servers`",
        "SHOW TABLE STATUS FROM `main` LIKE 'mysql_servers'",
        "SHOW ENGINES",
        "SHOW CHARSET",
        "SHOW CHARACTER SET",
        "SHOW COLLATION",
        "SHOW PLUGINS",
        "SHOW PROCESSLIST",
        "SHOW WARNINGS",
        "SHOW GRANTS",
        "SHOW VARIABLES LIKE 'wait_timeout'",
        "USE `main`",
        "SELECT * FROM `main`.`mysql_servers` LIMIT 0, 1000",
        "SELECT DATABASE()",
        "SELECT VERSION()",
        "SELECT @@session.auto_increment_increment AS a, @@character_set_client AS b",
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'main'",
        "START TRANSACTION",
        "COMMIT",
        "ROLLBACK",
    ] {
        let reply = fixture.reply(sql);
        assert!(!matches!(reply, Reply::Error(_)), "{sql}: {reply:?}");
    }
}

/// What mydumper 0.10 sends for `--no-locks -B main`, and myloader for the dump.
#[test]
fn mydumper_dumps_and_myloader_restores() {
    let mut fixture = Fixture::new();
    fixture.done("DELETE FROM mysql_servers");
    fixture.done("INSERT INTO mysql_servers (hostname, weight) VALUES ('db', 3)");
    for sql in [
        "SET SESSION wait_timeout = 2147483",
        "SET SESSION net_write_timeout = 2147483",
        "START TRANSACTION /*!40108 WITH CONSISTENT SNAPSHOT */",
        "/*!40101 SET NAMES binary*/",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "/*!40103 SET TIME_ZONE='+00:00' */",
        "SHOW CREATE DATABASE `main`",
        "SHOW TABLE STATUS",
        "SHOW TABLE STATUS FROM main LIKE 'mysql_servers'",
        "SELECT /*!40001 SQL_NO_CACHE */ * FROM `main`.`mysql_servers`  ",
        "SHOW CREATE TABLE `main`.`mysql_servers`",
        "SHOW CREATE TABLE `main`.`runtime_mysql_servers`",
    ] {
        let reply = fixture.reply(sql);
        assert!(!matches!(reply, Reply::Error(_)), "{sql}: {reply:?}");
    }
    // It finds engine, length of the data and comment by their numbers, and all of one schema.
    let status = |fixture: &mut Fixture, sql: &str| match fixture.reply(sql) {
        Reply::Rows(rows) => rows,
        other => panic!("{sql}: {other:?}"),
    };
    let one = status(&mut fixture, "SHOW TABLE STATUS LIKE 'mysql\\_servers'");
    assert_eq!((one.columns.len(), one.rows.len()), (18, 1));
    assert_eq!(one.rows[0].get(1), Some(&Value::Text("SQLite".to_owned())));
    assert_eq!(one.rows[0].get(17), Some(&Value::Text(String::new())));
    let all = status(&mut fixture, "SHOW TABLE STATUS");
    let foreign = |row: &Vec<Value>| {
        let name = row.first().cloned();
        name.is_some_and(|name| matches!(name, Value::Text(name) if name.starts_with("stats_")))
    };
    assert!(!all.rows.iter().any(foreign), "tables of another schema");
    let others = status(&mut fixture, "SHOW TABLE STATUS FROM stats");
    assert!(others.rows.iter().any(foreign));

    let create =
        "CREATE TABLE mysql_servers (\n    hostgroup_id INT, PRIMARY KEY (hostgroup_id)\n);\n";
    for sql in [
        "SET SQL_LOG_BIN=0",
        "/*!40014 SET FOREIGN_KEY_CHECKS=0*/",
        "/*!40101 SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */",
        "CREATE DATABASE `main`",
        "DROP TABLE IF EXISTS `main`.`mysql_servers`",
        "DROP VIEW IF EXISTS `main`.`mysql_servers`",
        "USE `main`",
        create,
        "START TRANSACTION",
        "INSERT INTO `mysql_servers` VALUES\n(\"0\",\"db\",\"3306\",\"0\",\"ONLINE\",\"5\",\"0\",\
         \"1000\",\"0\",\
         \"0\",\"0\",\"\");\n",
        "COMMIT",
    ] {
        let reply = fixture.reply(sql);
        assert!(!matches!(reply, Reply::Error(_)), "{sql}: {reply:?}");
    }
    assert_eq!(fixture.value("SELECT weight FROM mysql_servers"), Value::Integer(5));
    // A layer that is not MEMORY is neither emptied nor taken for it.
    for sql in ["DROP TABLE IF EXISTS `disk`.`mysql_servers`", "CREATE DATABASE shop"] {
        assert!(matches!(fixture.reply(sql), Reply::Error(_)), "{sql}");
    }
}

/// What `DatabaseMetaData` of MariaDB Connector/J asks with, shortened: of 1.5 to 2.4, which have
/// `ISNULL` and `CONVERT`, and of 3.5.
#[test]
fn drivers_are_told_of_tables_columns_and_keys() {
    let mut fixture = Fixture::new();
    let of = "FROM INFORMATION_SCHEMA.COLUMNS WHERE (TABLE_SCHEMA = 'main') AND (TABLE_NAME LIKE \
              'mysql_servers')";
    let mut rows = |sql: &str| match fixture.reply(sql) {
        Reply::Rows(rows) => rows.rows,
        other => panic!("{sql}: {other:?}"),
    };
    let text = |text: &str| Value::Text(text.to_owned());
    assert!(rows("SELECT '' TABLE_SCHEM, '' TABLE_catalog  FROM DUAL WHERE 1=0").is_empty());
    assert_eq!(rows("SELECT 1 FROM DUAL"), [[Value::Integer(1)]]);
    let tables = "SELECT IF(TABLE_TYPE='BASE TABLE', 'TABLE', TABLE_TYPE) FROM \
                  INFORMATION_SCHEMA.TABLES WHERE (ISNULL(database()) OR (TABLE_SCHEMA = \
                  database())) AND (TABLE_NAME LIKE 'mysql\\_servers' ESCAPE '\\')";
    assert_eq!(rows(tables), [[text("TABLE")]]);
    let types = format!(
        "SELECT UCASE(IF(COLUMN_TYPE LIKE '%(%)%', CONCAT(SUBSTRING(COLUMN_TYPE,1, \
         LOCATE('(',COLUMN_TYPE) - 1), 'x'), COLUMN_TYPE)) TYPE_NAME, \
         LEAST(CHARACTER_OCTET_LENGTH,2147483647) LEN, \
         CONVERT (CASE DATA_TYPE WHEN 'bigint' THEN 7 END, UNSIGNED INTEGER) DIGITS, \
         IF(IS_NULLABLE = 'yes',1,0) NULLABLE {of} AND COLUMN_NAME = 'hostgroup_id'"
    );
    assert_eq!(rows(&types), [[text("BIGINT"), Value::Null, Value::Integer(7), Value::Integer(0)]]);
    let keys = "SELECT B.SEQ_IN_INDEX KEY_SEQ, A.COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS A, \
                INFORMATION_SCHEMA.STATISTICS B WHERE A.COLUMN_KEY='pri' AND \
                B.INDEX_NAME='PRIMARY' AND A.TABLE_SCHEMA = 'main' AND A.TABLE_NAME LIKE \
                'mysql_servers' AND A.TABLE_SCHEMA = B.TABLE_SCHEMA AND A.TABLE_NAME = \
                B.TABLE_NAME AND A.COLUMN_NAME = B.COLUMN_NAME ORDER BY KEY_SEQ";
    let parts = [(1, "hostgroup_id"), (2, "hostname"), (3, "port")];
    assert_eq!(rows(keys), parts.map(|(at, name)| [Value::Integer(at), text(name)]));
    for empty in [
        "SELECT ROUTINE_COMMENT FROM INFORMATION_SCHEMA.ROUTINES",
        "SELECT PARAMETER_MODE, DTD_IDENTIFIER FROM INFORMATION_SCHEMA.PARAMETERS",
        "SELECT GRANTEE FROM INFORMATION_SCHEMA.TABLE_PRIVILEGES",
        "SELECT GRANTEE FROM INFORMATION_SCHEMA.COLUMN_PRIVILEGES",
        "SELECT KCU.REFERENCED_TABLE_NAME FROM INFORMATION_SCHEMA.KEY_COLUMN_USAGE KCU INNER JOIN \
         INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS RC ON KCU.CONSTRAINT_CATALOG = \
         RC.CONSTRAINT_CATALOG AND KCU.CONSTRAINT_NAME = RC.CONSTRAINT_NAME",
    ] {
        assert!(rows(empty).is_empty(), "{empty}");
    }
    assert_eq!(rows("SHOW FULL COLUMNS FROM `mysql_servers` FROM `main` LIKE '%'")[0].len(), 9);
    // Words of the like in texts are no functions.
    let of_text = "SELECT count(*) FROM mysql_servers WHERE comment = ' FROM DUAL x'";
    assert_eq!(rows(of_text), [[Value::Integer(0)]]);
    assert_eq!(rows("SELECT 'ISNULL(1)', ' FROM DUAL'"), [[text("ISNULL(1)"), text(" FROM DUAL")]]);
}

#[test]
fn every_name_of_memory_is_there() {
    const NAMES: [&str; 19] = [
        "SQLite3_memory_bytes",
        "jemalloc_resident",
        "jemalloc_active",
        "jemalloc_allocated",
        "jemalloc_mapped",
        "jemalloc_metadata",
        "jemalloc_retained",
        "Auth_memory",
        "query_digest_memory",
        "mysql_query_rules_memory",
        "prepare_stmt_metadata_memory",
        "prepare_stmt_backend_memory",
        "mysql_firewall_users_table",
        "mysql_firewall_users_config",
        "mysql_firewall_rules_table",
        "mysql_firewall_rules_config",
        "stack_memory_mysql_threads",
        "stack_memory_admin_threads",
        "stack_memory_cluster_threads",
    ];
    let mut fixture = Fixture::new();
    for name in NAMES {
        let sql =
            format!("SELECT count(*) FROM stats_memory_metrics WHERE Variable_Name = '{name}'");
        assert_eq!(fixture.value(&sql), Value::Integer(1), "{name}");
    }
}
