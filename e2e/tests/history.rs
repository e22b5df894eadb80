//! The numbers of the past outlive the proxy, and a report reads them.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{
    SqlClient, TempFolder, Trunkline, error_code, trunkline_binary, wait_until,
};

use crate::admin::http::request;
use crate::backends::{self, Config, PASSWORD, TIMEOUT, proxy_for, wait_metric};
use crate::wire::Wire;

#[test]
fn a_report_tells_of_a_proxy_that_was_killed() -> Result<()> {
    let Some(server) = backends::mariadb("a_report_tells")? else { return Ok(()) };
    let proxy = proxy_for(server, "past", "")?;
    // The first frame begins with the first report.
    wait_metric(&proxy, "trunkline_history_bytes", "", |_| true)?;
    let mut client = Wire::login(&proxy, "past", PASSWORD, "past")?;
    client.one("CREATE TABLE t (a INT)")?;
    for number in 0..50 {
        client.one(&format!("SELECT a FROM t WHERE a = {number} AND '<b>' = 'planted'"))?;
    }
    client.fails("SELECT nothing FROM t")?;
    let written = "outcome=\"written\"";
    let frames = || proxy.metric("trunkline_history_frames_total", written);
    let begun = frames()?.unwrap_or_default();
    let deadline = TIMEOUT.max(std::time::Duration::from_secs(60));
    wait_until("two frames", deadline, || {
        Ok((frames()?.unwrap_or_default() >= begun + 2.0).then_some(()))
    })?;
    let bytes = proxy.metric("trunkline_history_bytes", "")?.context("no bytes")?;
    ensure!(bytes > 100.0, "{bytes}");
    proxy.signal(trunkline_testkit::Signal::Kill)?;
    proxy.wait(TIMEOUT)?;

    let folder = TempFolder::new("report")?;
    let file = folder.path().join("report.html");
    let output = Command::new(trunkline_binary()?)
        .args(["report", "--from", "10m", "-c"])
        .arg(proxy.config_file())
        .arg("-o")
        .arg(&file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = std::fs::read_to_string(&file)?;
    for told in [
        "SELECT a FROM t WHERE a = ? AND ? = ?",
        "statements a second",
        &server.address(),
        "<svg viewBox",
        "ONLINE",
    ] {
        ensure!(html.contains(told), "{told} is not in {html}");
    }
    ensure!(!html.contains("planted") && !html.contains("<script"), "what must not be there");
    // The folder is the proxy's own.
    let history = format!("{}.history", proxy.config_file().display());
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&history)?);
    ensure!(mode & 0o777 == 0o700, "{mode:o}");
    let nothing = Command::new(trunkline_binary()?)
        .args(["report", "--from", "2001-01-01", "--to", "2001-01-02", "--history", &history])
        .output()?;
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    ensure!(!nothing.status.success() && said.contains("has nothing between"), "{said}");
    Ok(())
}

/// `stats_history` as ProxySQL has it, for administrators and users of statistics; what was there
/// before a crash is there after it.
#[test]
fn proxysqls_tables_of_the_past_are_filled() -> Result<()> {
    let Some(server) = backends::mariadb("proxysqls_tables_of_the_past")? else { return Ok(()) };
    backends::account(server, "past_tables")?;
    let proxy = Trunkline::start_database(Config::new("", server).user("past_tables").text())?;
    let log_in = |name: &str| SqlClient::tcp(proxy.admin_port(), name, name, "");
    let mut admin = log_in("admin")?;
    let mut client = proxy.connect("past_tables", PASSWORD, "")?;
    (0..30).try_for_each(|_| client.sql("SELECT 'past'").map(drop))?;
    let tables = admin.sql("SHOW TABLES FROM stats_history")?;
    ensure!(tables.len() == 19, "{tables:?}");
    let create = "SHOW CREATE TABLE stats_history.history_mysql_query_digest";
    ensure!(format!("{:?}", admin.sql(create)?).contains("dump_time INT"));
    // As the default has it, a minute must be over.
    let connections = "SELECT count(*) FROM stats_history.mysql_connections";
    ensure!(admin.value(connections)?.as_deref() == Some("0"));
    for table in ["mysql_connections", "system_cpu", "system_memory", "mysql_connection_pool"] {
        admin.sql(&format!("SET admin-stats_{table} = 10"))?;
    }
    admin.sql("LOAD ADMIN VARIABLES TO RUNTIME")?;
    admin.sql("SAVE ADMIN VARIABLES TO DISK")?;
    let deadline = TIMEOUT.max(std::time::Duration::from_secs(60));
    wait_until("a row", deadline, || {
        Ok(admin.value(connections)?.filter(|count| count != "0").map(drop))
    })?;
    let mut stats = log_in("stats")?;
    let told = [
        "SELECT Questions >= 30 AND Client_Connections_connected = 1 \
         FROM stats_history.mysql_connections ORDER BY timestamp DESC LIMIT 1",
        "SELECT tms_utime + tms_stime >= 0 AND timestamp > 1700000000 FROM system_cpu",
        "SELECT resident > 1000000 FROM system_memory",
        "SELECT status = 'ONLINE' AND Queries >= 30 FROM history_stats_mysql_connection_pool",
        "SELECT v.variable_value >= 30 FROM history_mysql_status_variables v \
         JOIN history_mysql_status_variables_lookup n USING (variable_id) \
         WHERE n.variable_name = 'Questions'",
    ];
    for sql in told {
        ensure!(admin.value(sql)?.as_deref() == Some("1"), "{sql}");
        ensure!(stats.value(sql)?.as_deref() == Some("1"), "of statistics: {sql}");
    }
    // The same for charts, over HTTP.
    admin.sql("SET trunkline-http_api_stats_token = 'some'")?;
    admin.sql("LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    let path = "GET /api/v1/history?last=600&points=1";
    ensure!(request(&proxy, path, "other", "")?.0 == 401);
    let (status, lines) = request(&proxy, path, "some", "")?;
    let rate = lines.pointer("/points/0/1").and_then(serde_json::Value::as_f64);
    ensure!(status == 200 && rate.is_some_and(|rate| rate > 0.0), "{status}: {lines}");
    let denied = admin.sql("DELETE FROM stats_history.mysql_connections");
    ensure!(denied.is_err_and(|error| error_code(&error).is_some()));
    admin.sql("SAVE MYSQL DIGEST TO DISK")?;
    let digests = "SELECT count(*) FROM stats_history.history_mysql_query_digest \
                   WHERE digest_text = 'SELECT ?' AND count_star = 30";
    ensure!(admin.value(digests)?.as_deref() == Some("1"));
    ensure!(stats.value(&digests.replace("stats_history.", ""))?.as_deref() == Some("1"));
    drop((admin, stats, client));
    proxy.kill_and_restart(&[])?;
    let mut admin = log_in("admin")?;
    for sql in [told[0], digests] {
        ensure!(admin.value(sql)?.as_deref() == Some("1"), "after the crash: {sql}");
    }
    admin.sql("DELETE FROM stats_history.history_mysql_query_digest")?;
    ensure!(
        admin.value("SELECT count(*) FROM history_mysql_query_digest")?.as_deref() == Some("0")
    );
    Ok(())
}
