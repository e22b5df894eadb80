//! Commands that act on the running proxy, and tables of what runs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{SqlClient, error_code, wait_until};

use super::{administrator, begin, refusal};
use crate::backends::{self, PASSWORD};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn an_administrator_ends_anybodys_statement_or_session() -> Result<()> {
    let Some(server) = backends::mariadb("an_administrator_ends")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_kill")?;
    let mut victim = proxy.connect("adm_kill", PASSWORD, "")?;
    let session = "SELECT SessionID FROM stats_mysql_processlist WHERE user = 'adm_kill' \
                   AND command = 'Query' AND info LIKE 'SELECT SLEEP%'";
    for query in ["QUERY", "CONNECTION"] {
        let begun = Instant::now();
        let outcome = std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| victim.value("SELECT SLEEP(60)"));
            let id = wait_until("the sleep runs", SOON, || {
                Ok(admin.sql(session)?.into_iter().next().and_then(|row| row.into_iter().next()?))
            })?;
            admin.sql(&format!("KILL {query} {id}"))?;
            sleeping.join().map_err(|_| anyhow::anyhow!("the client panicked"))
        })?;
        ensure!(begun.elapsed() < Duration::from_secs(30), "it slept on");
        match query {
            // MariaDB's SLEEP answers 1 when it is interrupted, other servers an error.
            "QUERY" => {
                if let Ok(value) = outcome {
                    assert_eq!(value.as_deref(), Some("1"));
                }
                assert_eq!(victim.value("SELECT 5")?.as_deref(), Some("5"));
            }
            _ => assert!(outcome.is_err() && victim.value("SELECT 5").is_err()),
        }
    }
    admin.sql("UPDATE mysql_users SET fast_forward = 1 WHERE username = 'adm_kill'")?;
    admin.sql("LOAD MYSQL USERS TO RUNTIME")?;
    let mut straight = proxy.connect("adm_kill", PASSWORD, "")?;
    let outcome = std::thread::scope(|scope| {
        let number = straight.connection_id();
        let sleeping = scope.spawn(move || straight.value("SELECT SLEEP(60) /* straight */"));
        let count = "SELECT COUNT(*) FROM information_schema.processlist \
                     WHERE info LIKE '%60) /* straight%' AND info NOT LIKE '%processlist%'";
        let runs = |wanted: &str| {
            let count = server.value(count)?;
            Ok((count.as_deref() == Some(wanted)).then_some(()))
        };
        wait_until("it runs", SOON, || runs("1"))?;
        admin.sql(&format!("KILL CONNECTION {number}"))?;
        wait_until("it has ended there", SOON, || runs("0"))?;
        sleeping.join().map_err(|_| anyhow::anyhow!("the client panicked"))
    })?;
    assert!(outcome.is_err(), "{outcome:?}");
    let (code, message) = refusal(&mut admin, "KILL 4000000000")?;
    assert_eq!(code, 1094, "{message}");
    let mut stats = SqlClient::tcp(proxy.admin_port(), "stats", "stats", "")?;
    assert_eq!(refusal(&mut stats, "KILL 1")?.0, 1045);
    Ok(())
}

#[test]
fn a_pause_keeps_clients_and_refuses_others() -> Result<()> {
    let Some(server) = backends::mariadb("a_pause_keeps_clients")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_pause")?;
    let mut there = proxy.connect("adm_pause", PASSWORD, "")?;
    assert!(refusal(&mut admin, "PROXYSQL RESUME")?.1.contains("not paused"));
    admin.sql("PROXYSQL PAUSE")?;
    assert!(refusal(&mut admin, "PROXYSQL PAUSE")?.1.contains("already paused"));
    assert!(proxy.connect("adm_pause", PASSWORD, "").is_err(), "nobody is accepted");
    assert!(SqlClient::socket(&proxy.socket(), "adm_pause", PASSWORD, "").is_err());
    assert_eq!(there.value("SELECT 1")?.as_deref(), Some("1"));
    assert_eq!(proxy.http("/readyz")?.0, 503);
    assert_eq!(proxy.http("/healthz")?.0, 200);
    admin.sql("PROXYSQL RESUME")?;
    assert_eq!(proxy.http("/readyz")?.0, 200);
    let mut other = proxy.connect("adm_pause", PASSWORD, "")?;
    assert_eq!(other.value("SELECT 2")?.as_deref(), Some("2"));
    let mut by_socket = SqlClient::socket(&proxy.socket(), "adm_pause", PASSWORD, "")?;
    assert_eq!(by_socket.value("SELECT 3")?.as_deref(), Some("3"));

    admin.sql("PROXYSQL STOP")?;
    assert!(there.value("SELECT 1").is_err(), "its session has ended");
    assert!(refusal(&mut admin, "PROXYSQL RESTARTED")?.1.contains("no command"));
    admin.sql("PROXYSQL START")?;
    assert!(refusal(&mut admin, "PROXYSQL START")?.1.contains("already started"));
    let mut again = proxy.connect("adm_pause", PASSWORD, "")?;
    assert_eq!(again.value("SELECT 4")?.as_deref(), Some("4"));
    Ok(())
}

#[test]
fn a_text_may_hold_several_statements() -> Result<()> {
    let Some(server) = backends::mariadb("several_statements_on_admin")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_several")?;
    let add = |id: u32| format!("INSERT INTO mysql_query_rules (rule_id) VALUES ({id})");
    let text = format!("{}; {} ; SELECT ';', count(*) FROM mysql_query_rules;", add(1), add(2));
    let rows = admin.sql(&text)?;
    assert_eq!(rows, [[Some(";".to_owned()), Some("2".to_owned())]]);
    // What follows an error is not done.
    // The driver says nothing of an error behind other results.
    drop(admin.sql(&format!("{}; {}; {}", add(3), add(3), add(4))));
    let mut admin = administrator(&proxy)?;
    let count = "SELECT count(*) FROM mysql_query_rules";
    assert_eq!(admin.value(count)?.as_deref(), Some("3"));
    Ok(())
}

#[test]
fn a_restart_begins_with_what_was_saved() -> Result<()> {
    let Some(server) = backends::mariadb("a_restart_begins")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_restart")?;
    let pid = proxy.pid();
    admin.sql("SET mysql-wait_timeout = 66000")?;
    admin.sql("LOAD MYSQL VARIABLES TO RUNTIME")?;
    admin.sql("SAVE MYSQL VARIABLES TO DISK")?;
    admin.sql("SET mysql-max_connections = 77")?;
    let mark = proxy.log_mark();
    // The connection may end before the answer is read.
    drop(admin.sql("PROXYSQL RESTART"));
    proxy.wait_log(mark, "admin port on", SOON)?;
    let mut admin = wait_until("the admin port answers", SOON, || Ok(administrator(&proxy).ok()))?;
    assert_eq!(proxy.pid(), pid);
    let value = |name: &str| {
        format!(
            "SELECT variable_value FROM global_variables WHERE \
                                      variable_name = '{name}'"
        )
    };
    assert_eq!(admin.value(&value("mysql-wait_timeout"))?.as_deref(), Some("66000"));
    assert_ne!(admin.value(&value("mysql-max_connections"))?.as_deref(), Some("77"));
    let mut client = proxy.connect("adm_restart", PASSWORD, "")?;
    assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"));
    Ok(())
}

#[test]
fn a_session_asks_what_is_known_of_it() -> Result<()> {
    let Some(server) = backends::mariadb("a_session_asks")? else { return Ok(()) };
    let (proxy, _admin) = begin(server, "adm_internal")?;
    let mut client = proxy.connect("adm_internal", PASSWORD, "")?;
    client.sql("BEGIN")?;
    client.sql("SELECT 1")?;
    let answer = client.value("PROXYSQL INTERNAL SESSION")?.context("a text")?;
    let session: serde_json::Value = serde_json::from_str(&answer)?;
    assert_eq!(session["client"]["userinfo"]["username"], "adm_internal", "{answer}");
    assert_eq!(session["default_hostgroup"], 10);
    assert_eq!(session["backends"][0]["pin_reasons"][0], "transaction", "{answer}");
    assert!(!answer.contains(PASSWORD));
    client.sql("ROLLBACK")?;
    Ok(())
}

#[test]
fn another_database_is_put_in_the_layers_place() -> Result<()> {
    let Some(server) = backends::mariadb("another_database")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_configdb")?;
    let count = "SELECT count(*) FROM disk.mysql_query_rules";
    admin.sql("INSERT INTO mysql_query_rules (rule_id, active) VALUES (1, 0)")?;
    admin.sql("SAVE MYSQL QUERY RULES TO DISK")?;
    admin.sql("PROXYSQL FLUSH CONFIGDB")?;
    assert_eq!(admin.value(count)?.as_deref(), Some("1"), "what was saved is there");
    let file = proxy.data_folder().join("trunkline.db");
    let other = proxy.data_folder().join("other.db");
    std::fs::write(&other, b"not a database, and long enough to be none of SQLite's files....")?;
    std::fs::rename(&other, &file)?;
    let message = refusal(&mut admin, "PROXYSQL FLUSH CONFIGDB")?.1;
    ensure!(message.contains("trunkline.db"), "{message}");
    ensure!(refusal(&mut admin, "SAVE MYSQL QUERY RULES TO DISK").is_ok());
    ensure!(std::fs::read(&file)?.starts_with(b"not a database"), "it was overwritten");
    let mut client = proxy.connect("adm_configdb", PASSWORD, "")?;
    assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"), "what runs goes on");
    for suffix in ["", "-wal", "-shm"] {
        let name = proxy.data_folder().join(format!("trunkline.db{suffix}"));
        if name.exists() {
            std::fs::remove_file(name)?;
        }
    }
    admin.sql("PROXYSQL FLUSH CONFIGDB")?;
    assert_eq!(admin.value(count)?.as_deref(), Some("0"), "a new file");
    admin.sql("SAVE MYSQL QUERY RULES TO DISK")?;
    assert_eq!(admin.value(count)?.as_deref(), Some("1"));
    Ok(())
}

#[test]
fn tables_say_what_there_is_now() -> Result<()> {
    let Some(server) = backends::mariadb("tables_say_what_there_is")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_tables")?;
    let mut client = proxy.connect("adm_tables", PASSWORD, "")?;
    assert_eq!(client.execute("SELECT ? + 1", &["1"])?.len(), 1);
    let error = client.sql("SELECT no_such_column FROM information_schema.tables").err();
    assert_eq!(error.as_ref().and_then(error_code), Some(1054));
    let row = "SELECT count(*) FROM";
    let errors = "stats_mysql_errors WHERE errno = 1054 AND username = 'adm_tables' \
                  AND last_error LIKE '%no_such_column%'";
    assert_eq!(admin.value(&format!("{row} {errors}"))?.as_deref(), Some("1"));
    admin.sql("SELECT * FROM stats_mysql_errors_reset")?;
    assert_eq!(admin.value(&format!("{row} {errors}"))?.as_deref(), Some("0"));
    // An error that may be asked for keeps its connection until the next statement.
    client.sql("SELECT 1")?;
    let idle = "stats_mysql_free_connections WHERE user = 'adm_tables' AND hostgroup = 10 \
                AND json_extract(mysql_info, '$.thread_id') > 0";
    assert_ne!(admin.value(&format!("{row} {idle}"))?.as_deref(), Some("0"));
    let prepared = "stats_mysql_prepared_statements_info WHERE username = 'adm_tables' \
                    AND query = 'SELECT ? + 1' AND num_params = 1 AND num_columns = 1 \
                    AND ref_count_client = 1";
    assert_eq!(admin.value(&format!("{row} {prepared}"))?.as_deref(), Some("1"));
    for scope in ["all", "server", "hostgroup", "command", "user", "digest"] {
        let of = format!("stats_latency WHERE scope = '{scope}' AND count > 0 AND p99_us > 0");
        assert_ne!(admin.value(&format!("{row} {of}"))?.as_deref(), Some("0"), "{scope}");
    }
    for wait in ["connect", "server"] {
        let of = format!("stats_waits WHERE wait = '{wait}' AND count > 0 AND max_us > 0");
        assert_eq!(admin.value(&format!("{row} {of}"))?.as_deref(), Some("1"), "{wait}");
    }
    let memory = "stats_memory_metrics WHERE Variable_Name = 'jemalloc_resident' \
                  AND CAST(Variable_Value AS INTEGER) > 1000000";
    assert_eq!(admin.value(&format!("{row} {memory}"))?.as_deref(), Some("1"));
    let version = admin.value("PULL VERSION MYSQL SERVERS 0 1000")?.context("a version")?;
    ensure!(version.parse::<u64>()? >= 1);
    Ok(())
}
