//! Layers, access, files and revisions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

use trunkline_store::{
    Access, Answer, Layer, Limits, Module, Place, RevisionRow, SqlError, Store, StoreError, Value,
    tables::{self, Schema},
};

fn open(place: &Place) -> Result<Store, StoreError> {
    let check = |name: &str, value: &str| match (name, value) {
        ("mysql-wait_timeout", "0") => Err("mysql-wait_timeout must not be 0".to_owned()),
        _ => Ok(()),
    };
    Store::open(place, Box::new(check))
}

fn memory() -> Store {
    open(&Place::Memory).expect("a store in memory")
}

fn run(store: &mut Store, sql: &str) -> Answer {
    store.run(sql, &[], Access::Admin).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn refused(store: &mut Store, sql: &str, access: Access) -> String {
    store.run(sql, &[], access).expect_err(sql).to_string()
}

fn count(store: &mut Store, table: &str) -> i64 {
    match run(store, &format!("SELECT count(*) FROM {table}")) {
        Answer::Rows(rows) => match rows.rows[0][0] {
            Value::Integer(count) => count,
            ref other => panic!("{other:?}"),
        },
        Answer::Done(_) => panic!("no result"),
    }
}

/// A folder that goes with its guard.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trunkline-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn place(&self) -> Place {
        Place::Folder(self.0.clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn what_is_saved_is_there_after_a_restart() {
    let folder = Folder::new("saved");
    let mut store = open(&folder.place()).expect("opened");
    assert!(store.is_new());
    run(&mut store, "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')");
    run(&mut store, "INSERT INTO mysql_users (username, password) VALUES ('u', 'p')");
    assert_eq!(store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk), Ok(2));
    store.begin().expect("noted");
    drop(store);
    let mut store = open(&folder.place()).expect("opened again");
    assert!(!store.is_new());
    assert_eq!(count(&mut store, "mysql_servers"), 0);
    assert_eq!(store.copy(Module::MysqlServers, Layer::Disk, Layer::Memory), Ok(2));
    assert_eq!(count(&mut store, "mysql_servers"), 2);
    // The users were not saved.
    assert_eq!(count(&mut store, "disk.mysql_users"), 0);
}

#[test]
fn a_folder_has_one_process() {
    let folder = Folder::new("one");
    let _first = open(&folder.place()).expect("opened");
    assert!(matches!(open(&folder.place()), Err(StoreError::InUse(_))));
}

#[test]
fn a_damaged_file_is_named_left_alone_and_can_be_set_aside() {
    let folder = Folder::new("damaged");
    let file = folder.0.join("trunkline.db");
    let garbage = "this is no database, whatever its name says. ".repeat(100);
    fs::write(&file, &garbage).expect("written");
    let error = open(&folder.place()).err().expect("refused").to_string();
    assert!(error.contains("trunkline.db is damaged"), "{error}");
    assert!(error.contains("--initial"), "{error}");
    assert_eq!(fs::read_to_string(&file).expect("still there"), garbage);
    let kept = Store::set_aside(&folder.0, 77).expect("set aside").expect("there was one");
    assert_eq!(fs::read_to_string(kept).expect("kept"), garbage);
    assert!(open(&folder.place()).expect("opened").is_new());
}

#[test]
fn a_copy_that_fails_changes_nothing() {
    let mut store = memory();
    run(&mut store, "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a')");
    store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).expect("saved");
    let rows = vec![vec![Value::Null; 12]];
    assert!(store.replace(Layer::Disk, "mysql_servers", &rows).is_err());
    assert_eq!(count(&mut store, "disk.mysql_servers"), 1);
}

#[test]
fn administrators_change_rows_and_nothing_else() {
    let mut store = memory();
    for sql in [
        "DROP TABLE mysql_servers",
        "CREATE TABLE t (a)",
        "ATTACH DATABASE '/tmp/x' AS x",
        "DETACH DATABASE disk",
        "PRAGMA main.journal_mode = DELETE",
        "DELETE FROM stats.stats_mysql_global",
        "INSERT INTO runtime_mysql_servers (hostname) VALUES ('a')",
        "DELETE FROM disk.config_history",
        "DELETE FROM information_schema.TABLES",
        "BEGIN",
        "VACUUM",
        "SELECT load_extension('x')",
    ] {
        refused(&mut store, sql, Access::Admin);
    }
    run(&mut store, "REPLACE INTO disk.mysql_users (username) VALUES ('u')");
    run(&mut store, "PRAGMA table_info(mysql_users)");
    run(&mut store, "PRAGMA database_list");
}

#[test]
fn users_of_statistics_see_statistics() {
    let mut store = memory();
    for sql in [
        "SELECT password FROM mysql_users",
        "SELECT * FROM disk.config_history",
        "SELECT variable_value FROM main.global_variables",
        "INSERT INTO stats_mysql_global VALUES ('a', 'b')",
        "PRAGMA database_list",
        "SELECT (SELECT password FROM mysql_users) FROM stats_mysql_global",
    ] {
        refused(&mut store, sql, Access::Stats);
    }
    for sql in [
        "SELECT * FROM stats_mysql_global",
        "SELECT 1 + 1",
        "SELECT * FROM INFORMATION_SCHEMA.COLUMNS",
        "SELECT count(*) FROM stats.stats_mysql_users",
    ] {
        store.run(sql, &[], Access::Stats).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

#[test]
fn a_variable_that_is_refused_keeps_its_value() {
    let mut store = memory();
    let given = [("mysql-wait_timeout", "5")];
    store.put_variables(Layer::Memory, given.into_iter()).expect("put");
    let update = "UPDATE global_variables SET variable_value = '0'";
    assert_eq!(refused(&mut store, update, Access::Admin), "mysql-wait_timeout must not be 0");
    let found = store.variables(Layer::Memory, "mysql-").expect("read");
    assert_eq!(found, [("mysql-wait_timeout".to_owned(), "5".to_owned())]);
}

#[test]
fn two_statements_at_once_are_refused() {
    let mut store = memory();
    let both = "SELECT 1; DELETE FROM mysql_users";
    refused(&mut store, both, Access::Admin);
}

#[test]
fn differences_are_rows_that_one_layer_lacks() {
    let mut store = memory();
    run(&mut store, "INSERT INTO mysql_servers (hostgroup_id, hostname) VALUES (1, 'a'), (2, 'b')");
    store.copy(Module::MysqlServers, Layer::Memory, Layer::Disk).expect("saved");
    run(&mut store, "UPDATE mysql_servers SET weight = 7 WHERE hostname = 'b'");
    let found =
        store.differences(Module::MysqlServers, Layer::Memory, Layer::Disk).expect("compared");
    let sides: Vec<(bool, &Value)> =
        found.iter().map(|found| (found.is_in_first, &found.row[5])).collect();
    assert_eq!(sides, [(true, &Value::Integer(7)), (false, &Value::Integer(1))]);
}

#[test]
fn a_revision_can_be_loaded_again() {
    let mut store = memory();
    run(
        &mut store,
        "INSERT INTO mysql_users (username, password, default_schema)
         VALUES ('u', 'it''s \"quoted\"', NULL), ('v', x'24410001FF', 's')",
    );
    let before = store.rows(Layer::Memory, "mysql_users").expect("rows");
    let row = RevisionRow {
        changed_at: 5,
        author: "admin@127.0.0.1",
        module: Module::MysqlUsers,
        command: "LOAD MYSQL USERS TO RUNTIME",
        changes: "user u: added",
        content: Layer::Memory,
    };
    let revision = store.record(row).expect("noted");
    run(&mut store, "DELETE FROM mysql_users");
    assert_eq!(store.restore(Module::MysqlUsers, revision), Ok(2));
    assert_eq!(store.rows(Layer::Memory, "mysql_users").expect("rows"), before);
    assert!(store.restore(Module::MysqlServers, revision).is_err());
    assert!(store.restore(Module::MysqlUsers, revision + 1).is_err());
}

#[test]
fn contents_of_old_revisions_go_when_there_are_too_many_bytes_of_them() {
    let mut store = memory();
    // Eight megabytes each, 40 of them: more than is kept.
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
                INSERT INTO disk.config_history
                (changed_at, author, module, command, changes, content)
                SELECT i, 'a', 'SCHEDULER', 'c', 'd', hex(zeroblob(4000000)) FROM n";
    store.run(many, &[], Access::Internal).expect("inserted");
    let row = RevisionRow {
        changed_at: 41,
        author: "a",
        module: Module::Scheduler,
        command: "LOAD SCHEDULER TO RUNTIME",
        changes: "",
        content: Layer::Memory,
    };
    assert_eq!(store.record(row), Ok(41));
    assert_eq!(count(&mut store, "disk.config_history"), 41, "the revisions stay");
    let kept = count(&mut store, "disk.config_history WHERE content IS NOT NULL");
    // Nine tenths of the limit, and the new one.
    assert_eq!(kept, 31);
    let old = store.restore(Module::Scheduler, 10).expect_err("too old").to_string();
    assert!(old.contains("was not kept"), "{old}");
    assert_eq!(store.restore(Module::Scheduler, 41), Ok(0));
}

#[test]
fn one_user_is_copied_and_nothing_else() {
    let mut store = memory();
    run(
        &mut store,
        "INSERT INTO mysql_users (username, password, frontend, backend)
         VALUES ('u', 'p', 1, 0), ('u', 'q', 0, 1), ('v', 'p', 1, 1)",
    );
    store.copy_user("u").expect("copied");
    assert_eq!(count(&mut store, "runtime_mysql_users"), 2);
    run(&mut store, "UPDATE mysql_users SET comment = 'new'");
    run(&mut store, "DELETE FROM mysql_users WHERE username = 'u' AND backend = 1");
    store.copy_user("u").expect("copied");
    assert_eq!(count(&mut store, "runtime_mysql_users WHERE comment = 'new'"), 1);
    assert_eq!(store.rows_of_user(Layer::Runtime, "u").expect("rows").len(), 1);
    assert_eq!(store.rows_of_user(Layer::Memory, "nobody").expect("rows").len(), 0);
}

#[test]
fn passwords_are_hashed_as_servers_do() {
    let mut store = memory();
    let answer = run(&mut store, "SELECT MYSQL_NATIVE_PASSWORD('secret')");
    let Answer::Rows(rows) = answer else { panic!("no result") };
    let expected = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
    assert_eq!(rows.rows[0][0], Value::Text(expected.to_owned()));
    let salt = "CACHING_SHA2_PASSWORD('secret', 'abcdefghij0123456789')";
    let answer =
        run(&mut store, &format!("SELECT hex({salt}), length(CACHING_SHA2_PASSWORD('x'))"));
    let Answer::Rows(rows) = answer else { panic!("no result") };
    assert_eq!(rows.rows[0][1], Value::Integer(70));
}

#[test]
fn statements_of_users_of_statistics_take_no_more_than_they_may() {
    let mut store = Store::open_beside(&Place::Memory).expect("a store");
    let limits = Limits { time: Duration::from_millis(200), rows: 1_000, ..Limits::STATISTICS };
    let mut refused =
        |sql: &str| store.run_within(&limits, sql, &[], Access::Stats).expect_err(sql);
    let large = SqlError::TooBig(limits.value_bytes);
    assert_eq!(refused("SELECT hex(randomblob(499999999))"), large);
    assert_eq!(refused("SELECT zeroblob(900000000)"), large);
    assert_eq!(refused("SELECT printf('%.*c', 900000000, 'x')"), large);
    let long = format!("SELECT '{}'", "x".repeat(limits.value_bytes));
    assert_eq!(refused(&long), large);
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    let late = SqlError::TooLong(limits.time);
    assert_eq!(refused(&format!("{numbers} SELECT count(*) FROM n")), late);
    // Few steps, each of them long.
    let blobs = format!("{numbers} SELECT sum(length(hex(randomblob(100000)))) FROM n");
    assert_eq!(refused(&blobs), late);
    assert_eq!(refused(&format!("{numbers} SELECT i FROM n")), SqlError::TooManyRows(1_000));
    let wide = Limits { rows: usize::MAX, bytes: 1 << 20, ..limits };
    let run = |store: &mut Store, sql: &str, access| store.run_within(&wide, sql, &[], access);
    let rows = format!("{numbers} SELECT hex(randomblob(1000)) FROM n");
    let error = run(&mut store, &rows, Access::Stats).expect_err("too large");
    assert_eq!(error, SqlError::TooLarge(1 << 20));
    // What fills its tables has no such limits, and they do not outlast the statement.
    run(&mut store, "SELECT length(zeroblob(1000000))", Access::Internal).expect("its own");
}

#[test]
fn a_store_beside_another_reads_its_past_and_holds_nobody_up() {
    let folder = Folder::new("beside");
    let mut store = open(&folder.place()).expect("opened");
    let mut beside = Store::open_beside(store.place()).expect("opened beside");
    let row: Vec<Value> = (0..15).map(Value::Integer).collect();
    store.append(Schema::StatsSaved, tables::SAVED, &[row]).expect("noted");
    let past = "SELECT count(*) FROM stats_history.history_mysql_query_digest";
    let answer = beside.run(past, &[], Access::Stats).expect("read");
    let Answer::Rows(rows) = answer else { panic!("no rows") };
    assert_eq!(rows.rows, [[Value::Integer(1)]]);
    for sql in ["SELECT * FROM main.mysql_users", "SELECT * FROM disk.mysql_users"] {
        refused(&mut beside, sql, Access::Stats);
    }
    refused(&mut beside, "DELETE FROM stats_history.history_mysql_query_digest", Access::Stats);
}

#[test]
fn what_says_that_a_configuration_has_begun_is_not_edited() {
    let folder = Folder::new("begun");
    let mut store = open(&folder.place()).expect("opened");
    store.begin().expect("noted");
    for sql in [
        "DELETE FROM disk.global_settings",
        "UPDATE disk.global_settings SET variable_name = 'x'",
        "INSERT INTO disk.global_settings VALUES ('a', 'b')",
        "REPLACE INTO disk.global_settings VALUES ('trunkline-begun', '0')",
    ] {
        refused(&mut store, sql, Access::Admin);
    }
    assert_eq!(count(&mut store, "disk.global_settings"), 1);
    drop(store);
    assert!(!open(&folder.place()).expect("opened again").is_new());
}

#[test]
fn files_that_others_could_read_are_their_owners_and_it_is_said() {
    let folder = Folder::new("private");
    drop(open(&folder.place()).expect("made"));
    let file = folder.0.join("trunkline.db");
    let mode = || fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    let store = open(&folder.place()).expect("opened");
    let [warning] = store.warnings() else { panic!("{:?}", store.warnings()) };
    assert!(warning.ends_with("trunkline.db could be used by others (mode 0644): it has 0600 now"));
    assert_eq!(mode(), 0o600);
}
