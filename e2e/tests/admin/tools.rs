//! Tools that people have, unmodified.

use std::process::Command;

use anyhow::{Result, ensure};
use trunkline_testkit::{TempFolder, skipped};

use super::begin;
use crate::backends;

#[test]
fn the_command_line_of_mariadb_works() -> Result<()> {
    const TEST: &str = "the_command_line_of_mariadb";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let (proxy, _admin) = begin(server, "adm_cli")?;
    let run = |sql: &str| {
        let port = format!("-P{}", proxy.admin_port());
        let mut command = Command::new("mariadb");
        command.args(["-h127.0.0.1", &port, "-uadmin", "-padmin", "--batch", "-e", sql]);
        command.output()
    };
    let Ok(output) = run("SELECT 1") else {
        skipped(TEST, "there is no mariadb client");
        return Ok(());
    };
    ensure!(output.status.success(), "{output:?}");
    let said = |sql: &str| -> Result<String> {
        let output = run(sql)?;
        ensure!(output.status.success(), "{sql}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    assert_eq!(said("SHOW DATABASES")?.lines().count(), 6);
    let all = said(
        "USE stats; SELECT DATABASE(); SET mysql-wait_timeout=60000; \
         SHOW VARIABLES LIKE 'mysql-wait_timeout'; LOAD MYSQL VARIABLES TO RUNTIME; \
         SAVE MYSQL VARIABLES TO DISK; SELECT @@version_comment LIMIT 1; SHOW WARNINGS",
    )?;
    assert!(all.contains("DATABASE()\nstats\n"), "{all}");
    assert!(all.contains("mysql-wait_timeout\t60000"), "{all}");
    let create = said("SHOW CREATE TABLE mysql_servers\\G")?;
    assert!(create.contains("PRIMARY KEY (hostgroup_id, hostname, port)"), "{create}");
    Ok(())
}

#[test]
fn the_admin_port_encrypts_for_clients_that_ask() -> Result<()> {
    const TEST: &str = "the_admin_port_encrypts";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_tls")?;
    admin.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
         INSERT INTO mysql_query_rules (rule_id, active, comment) \
         SELECT i, 0, hex(randomblob(200)) FROM n",
    )?;
    let port = format!("-P{}", proxy.admin_port());
    let run = |sql: &str| {
        let options = ["--ssl", "--skip-ssl-verify-server-cert", "-h127.0.0.1", "-uadmin"];
        Command::new("mariadb").args(options).args([&port, "-padmin", "-e", sql]).output()
    };
    let Ok(output) = run("status") else {
        skipped(TEST, "there is no mariadb client");
        return Ok(());
    };
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.contains("Cipher in use is TLS_"), "{output:?}");
    // More than a record, both ways.
    let output = run("SELECT * FROM mysql_query_rules")?;
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3_001);
    let long = format!("SELECT length('{}')", "x".repeat(100_000));
    let output = run(&long)?;
    ensure!(String::from_utf8_lossy(&output.stdout).contains("100000"), "{:?}", output.stderr);
    Ok(())
}

/// What tools that are written for ProxySQL do, with PyMySQL as they use it.
const PYTHON: &str = r#"
import sys, pymysql
from pymysql.cursors import DictCursor
db = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="admin", password="admin",
                     cursorclass=DictCursor)
c = db.cursor()
c.execute("SELECT version()")
assert c.fetchone()["version()"].startswith("2.7.1"), "version"
name, password = "o'brien\\", "p\"w'\\"
c.execute("REPLACE INTO mysql_users (username, password, default_hostgroup) VALUES (%s, %s, %s)",
          (name, password, 10))
assert c.rowcount == 1
c.execute("SELECT * FROM mysql_users WHERE username = %s", (name,))
row = c.fetchone()
assert (row["username"], row["password"], int(row["default_hostgroup"])) == (name, password, 10), row
c.execute("SELECT count(*) AS `host_count` FROM mysql_servers WHERE hostgroup_id = %s", (10,))
assert int(c.fetchone()["host_count"]) == 1
c.execute("LOAD MYSQL USERS TO RUNTIME")
c.execute("SAVE MYSQL USERS TO DISK")
try:
    c.execute("SELECT * FROM no_such")
    raise SystemExit("no error")
except pymysql.err.OperationalError as error:
    assert error.args[0] == 1045 and "ProxySQL Admin Error: no such table: no_such" in error.args[1]
db.commit()
db.ping()
print("done")
"#;

#[test]
fn pymysql_works() -> Result<()> {
    const TEST: &str = "pymysql_works";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let python = std::env::var("TRUNKLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import pymysql"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        skipped(TEST, "python3 has no pymysql");
        return Ok(());
    }
    let (proxy, _admin) = begin(server, "adm_python")?;
    let port = proxy.admin_port().to_string();
    let output = Command::new(&python).args(["-c", PYTHON, &port]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What the modules of Ansible's `community.proxysql` do, each once, and what they say of it.
const PLAYBOOK: &str = include_str!("playbook.yml");

#[test]
fn ansible_works() -> Result<()> {
    const TEST: &str = "ansible_works";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let program = std::env::var("TRUNKLINE_ANSIBLE_PLAYBOOK");
    let program = program.unwrap_or_else(|_| "ansible-playbook".to_owned());
    let python = std::env::var("TRUNKLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if Command::new(&program).arg("--version").output().is_err() {
        skipped(TEST, "there is no ansible-playbook");
        return Ok(());
    }
    let (proxy, mut admin) = begin(server, "adm_ansible")?;
    let folder = TempFolder::new("ansible")?;
    let file = folder.path().join("playbook.yml");
    std::fs::write(&file, PLAYBOOK)?;
    let output = Command::new(&program)
        .args(["-i", "localhost,", "-e", &format!("ansible_python_interpreter={python}")])
        .args(["-e", &format!("port={}", proxy.admin_port())])
        .arg(&file)
        .env("ANSIBLE_HOME", folder.path())
        .env("ANSIBLE_NOCOLOR", "1")
        .current_dir(folder.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let users = "SELECT group_concat(username) FROM \
                 (SELECT username FROM runtime_mysql_users ORDER BY username)";
    assert_eq!(admin.value(users)?.as_deref(), Some("adm_ansible,hashed,production"));
    let server = "SELECT weight FROM runtime_mysql_servers WHERE hostgroup_id = 30";
    assert_eq!(admin.value(server)?.as_deref(), Some("9"));
    Ok(())
}
