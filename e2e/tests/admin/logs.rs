//! The query log and the audit log.

use std::{collections::HashSet, fs, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use trunkline_testkit::{SqlClient, Trunkline, find_program, wait_until};

use super::begin;
use crate::backends::{self, Config, PASSWORD};

#[test]
// long: one story, each part of which goes on from the one before.
fn statements_and_changes_are_lines_of_json() -> Result<()> {
    let Some(server) = backends::mariadb("statements_and_changes_are_lines")? else {
        return Ok(());
    };
    let (proxy, mut admin) = begin(server, "adm_logs")?;
    let folder = proxy.data_folder();
    let (query, audit) = (folder.join("query.log"), folder.join("audit.log"));
    let lines = |path: &std::path::Path| -> Result<Vec<Value>> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    };
    admin.sql(&format!("SET mysql-auditlog_filename = '{}'", audit.display()))?;
    admin.sql(&format!("SET mysql-eventslog_filename = '{}'", query.display()))?;
    admin.sql("SET mysql-eventslog_default_log = 1; LOAD MYSQL VARIABLES TO RUNTIME")?;

    let mut client = proxy.connect("adm_logs", PASSWORD, "")?;
    client.sql("SELECT 'secret' AS a, 7")?;
    client.execute("SELECT ? + 1", &["5"])?;
    drop(client.sql("SELECT no_such"));
    admin.sql("PROXYSQL FLUSH LOGS")?;
    let found = lines(&query)?;
    let of = |digest: &str| found.iter().find(|line| line["query"] == digest);
    let first = of("SELECT ? AS a,?").context("the statement")?;
    assert_eq!(first["event"], "COM_QUERY");
    assert_eq!((&first["username"], &first["hostgroup_id"]), (&"adm_logs".into(), &10.into()));
    assert_eq!(first["rows_sent"], 1);
    ensure!(first["endtime_timestamp_us"].as_u64() > first["starttime_timestamp_us"].as_u64());
    ensure!(found.iter().any(|line| line["event"] == "COM_STMT_EXECUTE"), "{found:?}");
    ensure!(found.iter().any(|line| line["errno"] == 1054), "{found:?}");
    ensure!(!fs::read_to_string(&query)?.contains("secret"));

    // With texts, and only what a rule says.
    admin.sql("SET mysql-eventslog_default_log = 0; LOAD MYSQL VARIABLES TO RUNTIME")?;
    admin.sql("SET trunkline-query_log_redact = 'false'; LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    admin.sql(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, log, apply) \
         VALUES (1, 1, 'logged', 1, 1); LOAD MYSQL QUERY RULES TO RUNTIME",
    )?;
    fs::rename(&query, folder.join("query.before"))?;
    admin.sql("PROXYSQL FLUSH LOGS")?;
    client.sql("SELECT 'shown' AS logged")?;
    client.sql("SELECT 'not shown'")?;
    client.execute("SELECT ? AS logged, ? + 1", &["a \"text\"", "41"])?;
    admin.sql("PROXYSQL FLUSH LOGS")?;
    let found = lines(&query)?;
    // The one, a preparation and an execution.
    assert_eq!(found.len(), 3, "{found:?}");
    let execution = found.iter().find(|line| line["event"] == "COM_STMT_EXECUTE");
    let execution = execution.context("no execution")?;
    assert_eq!(execution["query"], "SELECT ? AS logged, ? + 1");
    assert_eq!(execution["parameters"][0]["value"], "a \"text\"");
    assert_eq!(execution["parameters"][1]["value"], "41");
    assert_eq!(found[0]["query"], "SELECT 'shown' AS logged");

    drop(client);
    drop(proxy.connect("adm_logs", "wrong", ""));
    drop(SqlClient::tcp(proxy.admin_port(), "admin", "wrong", ""));
    let wanted = [
        "MySQL_Client_Connect_OK",
        "MySQL_Client_Connect_ERR",
        "MySQL_Client_Close",
        "Admin_Connect_ERR",
        "Admin_Statement",
    ];
    wait_until("every event is there", Duration::from_secs(20), || {
        admin.sql("PROXYSQL FLUSH LOGS")?;
        let found = lines(&audit)?;
        let events: HashSet<&str> =
            found.iter().filter_map(|line| line["event"].as_str()).collect();
        Ok(wanted.iter().all(|event| events.contains(event)).then_some(()))
    })?;
    Ok(())
}

/// What took long is in the slow log, without its literals, and MariaDB's own program reads it.
#[test]
fn slow_statements_are_an_entry_that_programs_read() -> Result<()> {
    let Some(server) = backends::mariadb("slow_statements_are_an_entry_that_programs_read")? else {
        return Ok(());
    };
    let (proxy, mut admin) = begin(server, "adm_slow")?;
    let slow = proxy.data_folder().join("slow.log");
    admin.sql(&format!("SET trunkline-slow_log = '{}'", slow.display()))?;
    admin.sql("SET trunkline-slow_log_threshold = 200; LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    let mut client = proxy.connect("adm_slow", PASSWORD, "")?;
    client.sql("SELECT SLEEP(0.25), 'secret'")?;
    client.execute("SELECT SLEEP(?), 'secret', 1", &["0.25"])?;
    client.sql("SELECT 'not slow'")?;
    admin.sql("PROXYSQL FLUSH LOGS")?;

    let text = fs::read_to_string(&slow)?;
    ensure!(!text.contains("secret") && !text.contains("slow'"), "{text}");
    ensure!(text.matches("# Query_time: 0.").count() == 2, "{text}");
    ensure!(text.contains("# User@Host: adm_slow[adm_slow] @  [127.0.0.1]"), "{text}");
    ensure!(text.contains(&format!("Server: {}", server.address())), "{text}");
    let program = find_program("mariadb-dumpslow").context("no mariadb-dumpslow")?;
    let output = Command::new(program).arg(&slow).output()?;
    let summary = String::from_utf8_lossy(&output.stdout);
    ensure!(summary.matches("Count: 1  Time=0.2").count() == 2, "{summary}");
    ensure!(summary.contains("SELECT SLEEP(?),?"), "{summary}");
    Ok(())
}

/// A log that is a pipe or a link is not written, said once, and holds up neither `FLUSH LOGS` nor
/// the stop.
#[test]
fn a_log_that_is_no_file_holds_nobody_up() -> Result<()> {
    let proxy = Trunkline::start_database(Config::at("", "127.0.0.1:1").user("nobody").text())?;
    let mut admin = super::administrator(&proxy)?;
    let folder = proxy.data_folder();
    let (pipe, link, target) = (folder.join("pipe"), folder.join("link"), folder.join("target"));
    ensure!(Command::new("mkfifo").arg(&pipe).status()?.success());
    std::os::unix::fs::symlink(&target, &link)?;
    for (path, reason) in [(&pipe, "it is not a regular file"), (&link, "it is a symbolic link")] {
        let mark = proxy.log_mark();
        admin.sql(&format!("SET mysql-auditlog_filename = '{}'", path.display()))?;
        admin.sql("LOAD MYSQL VARIABLES TO RUNTIME; PROXYSQL FLUSH LOGS")?;
        proxy.wait_log(mark, reason, Duration::from_secs(20))?;
        admin.sql("PROXYSQL FLUSH LOGS")?;
    }
    ensure!(!target.exists(), "a link was followed");
    drop(admin);
    let ended = proxy.terminate(Duration::from_secs(10))?;
    ensure!(ended.success(), "{ended}");
    Ok(())
}
