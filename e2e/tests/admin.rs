//! The admin port: tables become traffic, and nothing that is wrong does.

mod bad_input;
mod commands;
mod crowd;
pub(crate) mod http;
mod load;
mod logs;
mod scripts;
mod tools;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use mysql_async::{Opts, OptsBuilder, consts::ColumnType, prelude::Queryable};
use trunkline_testkit::{Server, SqlClient, Trunkline, error_code};

use crate::backends::{self, Config, PASSWORD};

/// A proxy in database mode before a server, with an account of this name, and an administrator.
fn begin(server: &Server, name: &str) -> Result<(Trunkline, SqlClient)> {
    backends::account(server, name)?;
    let proxy = Trunkline::start_database(Config::new("", server).user(name).text())?;
    let admin = administrator(&proxy)?;
    Ok((proxy, admin))
}

fn administrator(proxy: &Trunkline) -> Result<SqlClient> {
    SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")
}

fn refusal(client: &mut SqlClient, sql: &str) -> Result<(u16, String)> {
    let error = client.sql(sql).err().with_context(|| format!("not refused: {sql}"))?;
    let code = error_code(&error).context("no code")?;
    Ok((code, format!("{error:#}")))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn tables_become_traffic_when_they_are_loaded() -> Result<()> {
    let Some(server) = backends::mariadb("tables_become_traffic")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_first")?;
    backends::account(server, "adm_second")?;
    let mut first = proxy.connect("adm_first", PASSWORD, "")?;
    assert_eq!(first.value("SELECT 1")?.as_deref(), Some("1"));

    let password = quoted(PASSWORD);
    admin.sql(&format!(
        "INSERT INTO mysql_users (username, password, default_hostgroup) \
         VALUES ('adm_second', {password}, 10)"
    ))?;
    // What is edited is not what runs.
    ensure!(proxy.connect("adm_second", PASSWORD, "").is_err(), "nothing was loaded yet");
    assert_eq!(admin.sql("SHOW DIFF MYSQL USERS")?.len(), 1);
    admin.sql("LOAD MYSQL USERS TO RUNTIME")?;
    assert!(admin.sql("SHOW DIFF MYSQL USERS")?.is_empty());
    let mut second = proxy.connect("adm_second", PASSWORD, "")?;
    assert_eq!(second.value("SELECT 2")?.as_deref(), Some("2"));

    admin.sql(
        "INSERT INTO mysql_query_rules (rule_id, active, match_digest, error_msg, apply) \
         VALUES (1, 1, '^SELECT blocked', 'not here', 1)",
    )?;
    admin.sql("LOAD MYSQL QUERY RULES TO RUNTIME")?;
    assert_eq!(refusal(&mut second, "SELECT blocked")?.0, 1148);
    let hits = admin.value("SELECT hits FROM stats_mysql_query_rules WHERE rule_id = 1")?;
    assert_eq!(hits.as_deref(), Some("1"));
    let who = "SELECT frontend_connections FROM stats_mysql_users WHERE username = 'adm_second'";
    assert_eq!(admin.value(who)?.as_deref(), Some("1"));
    let changes = admin.value("SELECT changes FROM disk.config_history WHERE revision = 2")?;
    assert_eq!(changes.as_deref(), Some("rule 1: added"));
    // The session of before was not touched.
    assert_eq!(first.value("SELECT 3")?.as_deref(), Some("3"));
    Ok(())
}

#[test]
fn a_load_that_is_wrong_names_its_rows_and_changes_nothing() -> Result<()> {
    let Some(server) = backends::mariadb("a_load_that_is_wrong")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_wrong")?;
    admin.sql(
        "INSERT INTO mysql_query_rules (rule_id, active, match_pattern, error_msg, apply) \
         VALUES (7, 1, '(unclosed', 'x', 1), (8, 1, 'SELECT', 'blocked', 1)",
    )?;
    let (code, message) = refusal(&mut admin, "LOAD MYSQL QUERY RULES TO RUNTIME")?;
    assert_eq!(code, 1045);
    assert!(message.contains("ProxySQL Admin Error: nothing was loaded"), "{message}");
    assert!(message.contains("mysql_query_rules, rule_id 7"), "{message}");
    assert!(message.contains("match_pattern"), "{message}");
    let mut client = proxy.connect("adm_wrong", PASSWORD, "")?;
    assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"), "no half of the rules runs");
    assert_eq!(
        admin.value("SELECT count(*) FROM runtime_mysql_query_rules")?.as_deref(),
        Some("0")
    );

    let wrong = "SET mysql-wait_timeout = -1";
    let (code, message) = refusal(&mut admin, wrong)?;
    assert_eq!(code, 1231);
    assert!(message.contains("mysql-wait_timeout must be 0 to 1728000000, not -1"), "{message}");
    assert_eq!(refusal(&mut admin, "SET mysql-wait_timeouts = 1")?.0, 1193);
    assert_eq!(refusal(&mut admin, "SELECT * FROM nothing")?.0, 1045);
    assert_eq!(refusal(&mut admin, "LOAD MYSQL SERVERS TO NOWHERE")?.0, 1064);
    let port = "INSERT INTO mysql_servers (hostname, port) VALUES ('a', 70000)";
    assert!(refusal(&mut admin, port)?.1.contains("port <= 65535"));
    let version = admin.value("SELECT VERSION()")?.context("a version")?;
    assert!(version.starts_with("2.7.1-trunkline-"), "{version}");
    Ok(())
}

#[test]
fn what_was_saved_is_there_after_a_crash() -> Result<()> {
    let Some(server) = backends::mariadb("what_was_saved")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_saved")?;
    let add = |id: u32| {
        format!("INSERT INTO mysql_query_rules (rule_id, active, comment) VALUES ({id}, 1, 'r')")
    };
    admin.sql(&add(1))?;
    admin.sql("SAVE MYSQL QUERY RULES TO DISK")?;
    admin.sql(&add(2))?;
    admin.sql("SET mysql-wait_timeout = 77000")?;
    admin.sql("LOAD MYSQL VARIABLES TO RUNTIME")?;
    admin.sql("SAVE MYSQL VARIABLES TO DISK")?;
    drop(admin);
    proxy.kill_and_restart(&[])?;
    let mut admin = administrator(&proxy)?;
    let rules = "SELECT group_concat(rule_id) FROM runtime_mysql_query_rules";
    assert_eq!(admin.value(rules)?.as_deref(), Some("1"));
    let timeout = "SELECT variable_value FROM runtime_global_variables \
                   WHERE variable_name = 'mysql-wait_timeout'";
    assert_eq!(admin.value(timeout)?.as_deref(), Some("77000"));
    let mut client = proxy.connect("adm_saved", PASSWORD, "")?;
    assert_eq!(client.value("SELECT 1")?.as_deref(), Some("1"), "users and servers were there");

    // Anew: the file is read again, and what there was is kept.
    drop(admin);
    proxy.kill_and_restart(&["--initial"])?;
    let mut admin = administrator(&proxy)?;
    assert_eq!(admin.value(rules)?, None);
    let kept = std::fs::read_dir(proxy.data_folder())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .any(|name| name.starts_with("trunkline.db.kept-"));
    assert!(kept);
    Ok(())
}

/// The answer to `SAVE` is there when its rows are on the disk: killed at any moment, all rows of
/// a save are there or none.
#[test]
fn a_crash_while_saving_leaves_the_old_or_the_new() -> Result<()> {
    const ROWS: u32 = 2_000;
    let Some(server) = backends::mariadb("a_crash_while_saving")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_crash")?;
    for round in 1..=4_u32 {
        admin.sql("DELETE FROM mysql_query_rules")?;
        admin.sql(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
             INSERT INTO mysql_query_rules (rule_id, active, comment) SELECT i, 0, '{round}' FROM n"
        ))?;
        std::thread::scope(|scope| {
            let saving = scope.spawn(|| admin.sql("SAVE MYSQL QUERY RULES TO DISK").is_ok());
            // Somewhere within: later with every round.
            std::thread::sleep(std::time::Duration::from_millis(u64::from(round) * 3));
            let restarted = proxy.kill_and_restart(&[]);
            let is_saved = saving.join().unwrap_or(false);
            restarted.map(|()| is_saved)
        })
        .and_then(|is_saved| {
            admin = administrator(&proxy)?;
            let found = "SELECT count(*) || ' of ' || ifnull(min(comment), 0) || ' to ' || \
                         ifnull(max(comment), 0) FROM mysql_query_rules";
            let found = admin.value(found)?.context("a row")?;
            let whole: Vec<String> = (1..=round)
                .map(|round| format!("{ROWS} of {round} to {round}"))
                .chain(["0 of 0 to 0".to_owned()])
                .collect();
            ensure!(whole.contains(&found), "a mixture: {found}");
            let newest = format!("{ROWS} of {round} to {round}");
            ensure!(!is_saved || found == newest, "what was answered is not there: {found}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn users_of_statistics_see_numbers_only() -> Result<()> {
    let Some(server) = backends::mariadb("users_of_statistics")? else { return Ok(()) };
    let (proxy, _admin) = begin(server, "adm_stats")?;
    let mut stats = SqlClient::tcp(proxy.admin_port(), "stats", "stats", "")?;
    let uptime = "SELECT Variable_Value FROM stats_mysql_global \
                  WHERE Variable_Name = 'ProxySQL_Uptime'";
    assert!(stats.value(uptime)?.is_some());
    for sql in [
        "SELECT * FROM mysql_users",
        "SELECT * FROM disk.mysql_users",
        "LOAD MYSQL USERS TO RUNTIME",
        "SET mysql-wait_timeout = 1",
        "DELETE FROM stats_mysql_global",
        "PROXYSQL SHUTDOWN",
        "SHOW MYSQL USERS",
        "SELECT CONFIG FILE",
        "SELECT CONFIG INTO OUTFILE '/tmp/never'",
        "SHOW VARIABLES WHERE (SELECT count(password) FROM main.mysql_users) > 0",
        "SHOW TABLES WHERE (SELECT count(password) FROM main.mysql_users) > 0",
    ] {
        assert_eq!(refusal(&mut stats, sql)?.0, 1045, "{sql}");
    }
    assert!(stats.sql("SHOW VARIABLES LIKE 'admin-%credentials'")?.is_empty());
    assert!(!stats.sql("SHOW VARIABLES LIKE 'mysql-wait%'")?.is_empty());
    let secret = refusal(&mut stats, "SELECT @@admin-admin_credentials")?;
    assert_eq!(secret.0, 1193, "{}", secret.1);
    let wrong = SqlClient::tcp(proxy.admin_port(), "admin", "stats", "");
    assert_eq!(error_code(&wrong.err().context("not refused")?), Some(1045));
    Ok(())
}

#[test]
fn prepared_statements_have_types() -> Result<()> {
    let Some(server) = backends::mariadb("prepared_statements_on_admin")? else { return Ok(()) };
    let (proxy, _admin) = begin(server, "adm_prepared")?;
    let opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(proxy.admin_port())
        .user(Some("admin"))
        .pass(Some("admin"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut conn = mysql_async::Conn::new(Opts::from(opts)).await?;
        conn.exec_drop(
            "INSERT INTO mysql_servers (hostgroup_id, hostname, weight, comment) VALUES (?, ?, ?, ?)",
            (55_u32, "it's \\ here", 7_i64, ""),
        )
        .await?;
        let row: Option<(i64, String, i64, Option<String>)> = conn
            .exec_first(
                "SELECT hostgroup_id, hostname, weight, nullif(comment, '') FROM mysql_servers \
                 WHERE hostgroup_id = ?",
                (55_u32,),
            )
            .await?;
        assert_eq!(row, Some((55, "it's \\ here".to_owned(), 7, None)));
        let tables: Vec<String> = conn.exec("SHOW TABLES FROM monitor", ()).await?;
        assert!(tables.contains(&"mysql_server_ping_log".to_owned()));
        conn.exec_drop("LOAD MYSQL SERVERS FROM DISK", ()).await?;
        let sum: Option<(f64, i64)> = conn.exec_first("SELECT 1.5, count(*) FROM scheduler", ()).await?;
        assert_eq!(sum, Some((1.5, 0)));
        // Texts, as in ProxySQL, unless real types are asked for.
        for (types, kind) in [
            (None, ColumnType::MYSQL_TYPE_VAR_STRING),
            (Some("real"), ColumnType::MYSQL_TYPE_LONGLONG),
            (Some("text"), ColumnType::MYSQL_TYPE_VAR_STRING),
        ] {
            if let Some(types) = types {
                conn.query_drop(format!("SET trunkline-admin_types = '{types}'")).await?;
                conn.query_drop("LOAD TRUNKLINE VARIABLES TO RUNTIME").await?;
            }
            let sql = "SELECT hostgroup_id FROM mysql_servers";
            let row: Option<mysql_async::Row> = conn.query_first(sql).await?;
            let told = row.and_then(|row| row.columns_ref().first().map(|it| it.column_type()));
            assert_eq!(told, Some(kind), "{types:?}");
        }
        conn.disconnect().await?;
        anyhow::Ok(())
    })
}

#[test]
fn loads_under_traffic_fail_no_statement() -> Result<()> {
    const LOADS: u32 = 16;
    let Some(server) = backends::mariadb("loads_under_traffic")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_load")?;
    let stopping = AtomicBool::new(false);
    let statements = AtomicU64::new(0);
    let proxy = &proxy;
    std::thread::scope(|scope| -> Result<()> {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut client = proxy.connect("adm_load", PASSWORD, "")?;
                    while !stopping.load(Ordering::Relaxed) {
                        ensure!(client.value("SELECT 1 + 1")?.as_deref() == Some("2"));
                        statements.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let worked = (1..=LOADS).try_for_each(|load| -> Result<()> {
            admin.sql(&format!(
                "INSERT INTO mysql_query_rules (rule_id, active, match_digest, apply) \
                 VALUES ({load}, 1, '^SELECT nothing{load}', 1)"
            ))?;
            admin.sql("LOAD MYSQL QUERY RULES TO RUNTIME")?;
            admin.sql(&format!("UPDATE mysql_servers SET comment = '{load}'"))?;
            admin.sql("LOAD MYSQL SERVERS TO RUNTIME")?;
            Ok(())
        });
        stopping.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        worked
    })?;
    let count = statements.load(Ordering::Relaxed);
    ensure!(count > 100, "only {count} statements");
    let revision = admin.value("SELECT max(revision) FROM disk.config_history")?;
    assert_eq!(revision, Some((2 * LOADS).to_string()));
    Ok(())
}

#[test]
fn a_public_admin_port_wants_passwords_of_its_own() -> Result<()> {
    let Some(server) = backends::mariadb("a_public_admin_port")? else { return Ok(()) };
    let (_proxy, mut admin) = begin(server, "adm_public")?;
    admin.sql("SET admin-mysql_ifaces = '0.0.0.0:6032'")?;
    let (code, message) = refusal(&mut admin, "LOAD ADMIN VARIABLES TO RUNTIME")?;
    assert_eq!(code, 1231);
    assert!(message.contains("default password"), "{message}");
    admin.sql("SET admin-admin_credentials = 'admin:other;second:pw'")?;
    admin.sql("SET admin-stats_credentials = ''")?;
    admin.sql("LOAD ADMIN VARIABLES TO RUNTIME")?;
    Ok(())
}
