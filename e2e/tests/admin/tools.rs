//! Tools that people have, unmodified.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Result, ensure};
use trunkline_testkit::{
    Ecosystem, MySqlTree, Process, TempFolder, find_program, free_port, http_get, skipped,
    wait_until,
};

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

/// What `mariadb-dump` writes of tables is what `mariadb` puts back.
#[test]
fn a_dump_of_tables_is_put_back() -> Result<()> {
    const TEST: &str = "a_dump_of_tables_is_put_back";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_dump")?;
    let port = format!("-P{}", proxy.admin_port());
    let login = ["-h127.0.0.1", &port, "-uadmin", "-padmin", "main"];
    let tables = ["mysql_servers", "mysql_users", "mysql_query_rules", "global_variables"];
    admin.sql("INSERT INTO mysql_query_rules (rule_id, comment) VALUES (5, 'it''s \\ here')")?;
    admin.sql("SET mysql-wait_timeout = 77000")?;
    let Ok(dumped) = Command::new("mariadb-dump").args(login).args(tables).output() else {
        skipped(TEST, "there is no mariadb-dump");
        return Ok(());
    };
    ensure!(dumped.status.success(), "{dumped:?}");
    let folder = TempFolder::new("dump")?;
    let file = folder.path().join("dump.sql");
    std::fs::write(&file, &dumped.stdout)?;
    for change in [
        "DELETE FROM mysql_query_rules",
        "UPDATE mysql_users SET username = 'other'",
        "SET mysql-wait_timeout = 5000",
    ] {
        admin.sql(change)?;
    }
    let restore =
        Command::new("mariadb").args(login).stdin(std::fs::File::open(&file)?).output()?;
    ensure!(restore.status.success(), "{restore:?}");
    let rule = "SELECT comment FROM mysql_query_rules WHERE rule_id = 5";
    assert_eq!(admin.value(rule)?.as_deref(), Some("it's \\ here"));
    let users = "SELECT group_concat(username) FROM mysql_users";
    assert_eq!(admin.value(users)?.as_deref(), Some("adm_dump"));
    let timeout = "SELECT variable_value FROM global_variables WHERE variable_name = \
                   'mysql-wait_timeout'";
    assert_eq!(admin.value(timeout)?.as_deref(), Some("77000"));
    Ok(())
}

/// `MySQL`'s own client, which knows no passwords but those of `caching_sha2_password`.
#[test]
fn the_command_line_of_mysql_works() -> Result<()> {
    const TEST: &str = "the_command_line_of_mysql";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let tree = match MySqlTree::find() {
        Ok(tree) => tree,
        Err(reason) => {
            skipped(TEST, &reason);
            return Ok(());
        }
    };
    let (proxy, _admin) = begin(server, "adm_cli_mysql")?;
    let run = |tls: &str, sql: &str| -> Result<String> {
        let mut command = tree.command("usr/bin/mysql");
        let mode = format!("--ssl-mode={tls}");
        let port = format!("-P{}", proxy.admin_port());
        command.args(["--no-defaults", "-h127.0.0.1", &port, "-uadmin", "-padmin", &mode]);
        let output = command.args(["--get-server-public-key", "--batch", "-e", sql]).output()?;
        ensure!(output.status.success(), "{sql}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    for tls in ["DISABLED", "REQUIRED"] {
        assert_eq!(run(tls, "SHOW DATABASES")?.lines().count(), 6);
        let all = run(
            tls,
            "USE stats; SELECT DATABASE(); SET mysql-wait_timeout=70000; \
             SHOW VARIABLES LIKE 'mysql-wait_timeout'; LOAD MYSQL VARIABLES TO RUNTIME; \
             SAVE MYSQL VARIABLES TO DISK; SELECT @@version_comment LIMIT 1; SHOW WARNINGS",
        )?;
        assert!(all.contains("DATABASE()\nstats\n"), "{all}");
        assert!(all.contains("mysql-wait_timeout\t70000"), "{all}");
    }
    // Without the client's own commands, which are off by default since 9.5.
    let create = run("DISABLED", "SHOW CREATE TABLE mysql_servers")?;
    assert!(create.contains("PRIMARY KEY (hostgroup_id, hostname, port)"), "{create}");
    let version = run("DISABLED", "SELECT @@version")?;
    assert!(version.contains("2.7.1-trunkline-"), "{version}");
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

/// A Python that has a module: that of `TRUNKLINE_PYTHON`, of the drivers, or of the system.
fn python_with(module: &str) -> Option<PathBuf> {
    let own = std::env::var_os("TRUNKLINE_PYTHON").map(PathBuf::from);
    let drivers = Ecosystem::Python.place().join("venv/bin/python");
    let candidates = own.into_iter().chain([drivers, PathBuf::from("python3")]);
    let has = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", &format!("import {module}")]).output();
        import.is_ok_and(|output| output.status.success())
    };
    candidates.into_iter().find(has)
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
    let Some(python) = python_with("pymysql") else {
        skipped(TEST, "no python has pymysql");
        return Ok(());
    };
    let (proxy, _admin) = begin(server, "adm_python")?;
    let port = proxy.admin_port().to_string();
    let output = Command::new(&python).args(["-c", PYTHON, &port]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What Prometheus's own client library makes of `/metrics`.
const SCRAPE: &str = r#"
import sys, urllib.request
from prometheus_client.parser import text_string_to_metric_families
text = urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]).read().decode()
# The library takes `_total` off counters, and ProxySQL has a gauge of the same name beside one.
families = {}
for family in text_string_to_metric_families(text):
    if family.type == "gauge" or family.name not in families:
        families[family.name] = family
own = [name for name in families if name.startswith("trunkline_")]
assert len(own) > 60, len(own)
for name in ["proxysql_questions", "proxysql_connpool_conns", "proxysql_client_connections_connected"]:
    assert name in families, sorted(families)
samples = families["proxysql_connpool_conns"].samples
assert {sample.labels["status"] for sample in samples} == {"free", "used"}, samples
assert all(sample.labels["hostgroup"] == "10" for sample in samples), samples
latency = families["trunkline_statement_latency_seconds"]
assert latency.type == "histogram", latency
buckets = [sample for sample in latency.samples if sample.name.endswith("_bucket")]
counts = [sample.value for sample in buckets]
assert counts == sorted(counts) and counts[-1] >= 1, counts
# The same in OpenMetrics, whose parser is a strict one.
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
request = urllib.request.Request("http://127.0.0.1:%s/metrics" % sys.argv[1], headers=accept)
answer = urllib.request.urlopen(request)
assert answer.headers["Content-Type"].startswith("application/openmetrics-text"), answer.headers
strict = {family.name: family for family in open_families(answer.read().decode())}
assert strict["trunkline_statements"].type == "counter"
assert strict["trunkline_statement_latency_seconds"].type == "histogram"
assert set(families) <= set(strict) | {name[:-6] for name in strict if name.endswith("_total")}
print("done")
"#;

#[test]
fn prometheus_reads_the_metrics() -> Result<()> {
    const TEST: &str = "prometheus_reads_the_metrics";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let Some(python) = python_with("prometheus_client") else {
        skipped(TEST, "no python has prometheus_client");
        return Ok(());
    };
    let (proxy, _admin) = begin(server, "adm_scrape")?;
    let mut client = proxy.connect("adm_scrape", backends::PASSWORD, "")?;
    client.sql("SELECT 1")?;
    let port = proxy.http_port().to_string();
    let output = Command::new(&python).args(["-c", SCRAPE, &port]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What a Prometheus makes of a scrape, asked over its own API.
#[test]
fn a_prometheus_stores_native_histograms() -> Result<()> {
    const TEST: &str = "a_prometheus_stores_native_histograms";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let Some(program) = find_program("prometheus") else {
        skipped(TEST, "there is no prometheus");
        return Ok(());
    };
    let (proxy, _admin) = begin(server, "adm_native")?;
    let mut client = proxy.connect("adm_native", backends::PASSWORD, "")?;
    for _ in 0..20 {
        client.sql("SELECT 1")?;
    }
    let folder = TempFolder::new("prometheus")?;
    let file = folder.path().join("prometheus.yml");
    let target = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: trunkline\n    \
         static_configs: [ {{ targets: [ '127.0.0.1:{}' ] }} ]\n",
        proxy.http_port()
    );
    std::fs::write(&file, target)?;
    let port = free_port()?;
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command.arg("--enable-feature=native-histograms");
    let log = folder.path().join("log");
    let process = Process::spawn("prometheus", command, &log, Some(folder.path()))?;
    let ask = |expression: &str| -> Result<Option<f64>> {
        let Ok((200, body)) = http_get(port, &format!("/api/v1/query?query={expression}")) else {
            return Ok(None);
        };
        let body: serde_json::Value = serde_json::from_str(&body)?;
        let value = body.pointer("/data/result/0/value/1").and_then(serde_json::Value::as_str);
        Ok(value.and_then(|value| value.parse().ok()))
    };
    // Functions of native histograms: of classic ones they say nothing.
    let count = "histogram_count(trunkline_statement_latency_seconds)";
    let counted = wait_until("a native histogram", Duration::from_secs(60), || ask(count));
    let counted = counted.map_err(|error| error.context(process.log()))?;
    ensure!(counted >= 20.0, "{counted}");
    let median = ask("histogram_quantile(0.5,trunkline_statement_latency_seconds)")?;
    ensure!(median.is_some_and(|median| median > 0.000_01 && median < 5.0), "{median:?}");
    let one = ask("proxysql_connpool_conns_status")?;
    ensure!(one == Some(1.0), "{one:?}");
    Ok(())
}

/// What the modules of Ansible's `community.proxysql` do, each once, and what they say of it.
const PLAYBOOK: &str = include_str!("playbook.yml");

/// `ansible-playbook` of `TRUNKLINE_ANSIBLE_PLAYBOOK`, of the drivers, or of the system.
fn ansible_playbook() -> Option<PathBuf> {
    let own = std::env::var_os("TRUNKLINE_ANSIBLE_PLAYBOOK").map(PathBuf::from);
    let drivers = Ecosystem::Python.place().join("venv/bin/ansible-playbook");
    let candidates = own.into_iter().chain([drivers, PathBuf::from("ansible-playbook")]);
    let runs = |program: &PathBuf| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    candidates.into_iter().find(runs)
}

#[test]
fn ansible_works() -> Result<()> {
    const TEST: &str = "ansible_works";
    let Some(server) = backends::mariadb(TEST)? else { return Ok(()) };
    let (Some(program), Some(python)) = (ansible_playbook(), python_with("pymysql")) else {
        skipped(TEST, "no ansible-playbook with community.proxysql, or no python has PyMySQL");
        return Ok(());
    };
    let python = python.display();
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
