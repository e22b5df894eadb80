//! Programs of others: the scheduler's, and those that are asked for over HTTP.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use anyhow::{Result, ensure};
use trunkline_testkit::{TempFolder, Trunkline, wait_until};

use super::{begin, http::request};
use crate::backends;

const SOON: Duration = Duration::from_secs(20);

/// A program in a folder that every account may write to.
fn script(folder: &Path, name: &str, text: &str) -> Result<String> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path.display().to_string())
}

fn ask(proxy: &Trunkline, head: &str, body: &str) -> Result<(u16, serde_json::Value)> {
    request(proxy, head, "run", body)
}

#[test]
fn scheduled_programs_run_until_they_are_taken_out() -> Result<()> {
    let Some(server) = backends::mariadb("scheduled_programs_run")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_scheduler")?;
    let folder = TempFolder::new("scheduler")?;
    let runs = folder.path().join("runs");
    let program = script(folder.path(), "note", "echo \"$(id -un) $1 $2\" >> \"$3\"")?;
    admin.sql("SET trunkline-script_user = 'nobody'; LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    admin.sql(&format!(
        "INSERT INTO scheduler (id, interval_ms, filename, arg1, arg2, arg3) \
         VALUES (1, 100, '{program}', 'a b', '$HOME', '{}')",
        runs.display()
    ))?;
    admin.sql("LOAD SCHEDULER TO RUNTIME")?;
    let lines = || fs::read_to_string(&runs).map_or(0, |text| text.lines().count());
    wait_until("it has run three times", SOON, || Ok((lines() >= 3).then_some(())))?;
    let text = fs::read_to_string(&runs)?;
    ensure!(text.starts_with("nobody a b $HOME\n"), "{text}");
    // Whatever a program does, the proxy goes on; one that hangs is ended.
    let hangs = script(folder.path(), "hangs", "sleep 600")?;
    admin.sql("SET trunkline-script_time_max = 100; LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    let mark = proxy.log_mark();
    admin.sql(&format!("UPDATE scheduler SET filename = '{hangs}'; LOAD SCHEDULER TO RUNTIME"))?;
    proxy.wait_log(mark, "took longer than 100 ms", SOON)?;
    admin.sql("UPDATE scheduler SET active = 0; LOAD SCHEDULER TO RUNTIME")?;
    assert_eq!(admin.value("SELECT sum(active) FROM runtime_scheduler")?.as_deref(), Some("0"));
    Ok(())
}

#[test]
fn routes_run_programs_as_proxysql_does() -> Result<()> {
    let Some(server) = backends::mariadb("routes_run_programs")? else { return Ok(()) };
    let (proxy, mut admin) = begin(server, "adm_rest")?;
    let folder = TempFolder::new("restapi")?;
    let echo = script(folder.path(), "echo", "echo \"{\\\"got\\\": $1, \\\"as\\\": $(id -u)}\"")?;
    let fails = script(folder.path(), "fails", "echo broken >&2; exit 7")?;
    let hangs = script(folder.path(), "hangs", "sleep 600")?;
    admin.sql(&format!(
        "INSERT INTO restapi_routes (active, timeout_ms, method, uri, script) VALUES \
         (1, 5000, 'GET', 'echo', '{echo}'), (1, 5000, 'POST', 'echo', '{echo}'), \
         (1, 5000, 'GET', 'fails', '{fails}'), (1, 100, 'GET', 'hangs', '{hangs}'), \
         (0, 5000, 'GET', 'resting', '{echo}'); LOAD RESTAPI TO RUNTIME"
    ))?;
    assert_eq!(ask(&proxy, "GET /sync/echo", "")?.0, 404, "off by default");
    admin.sql("SET admin-restapi_enabled = 'true'; LOAD ADMIN VARIABLES TO RUNTIME")?;
    assert_eq!(ask(&proxy, "GET /sync/echo", "")?.0, 404, "nobody can have the token");
    admin.sql("SET trunkline-script_user = 'root'; SET trunkline-http_api_token = 'run'")?;
    admin
        .sql("SET trunkline-http_api_stats_token = 'read'; LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    for (token, status) in [("", 401), ("wrong", 401), ("read", 403)] {
        assert_eq!(request(&proxy, "GET /sync/echo", token, "")?.0, status, "{token}");
        assert_eq!(request(&proxy, "GET /sync/nothing", token, "")?.0, status, "{token}");
    }
    let (status, refused) = ask(&proxy, "GET /sync/echo", "")?;
    ensure!(status == 503 && refused.to_string().contains("may_be_root"), "{status} {refused}");
    admin.sql("SET trunkline-script_user = 'nobody'; LOAD TRUNKLINE VARIABLES TO RUNTIME")?;
    let (status, got) = ask(&proxy, "GET /sync/echo?a=1%202&b=%27", "")?;
    assert_eq!(status, 200, "{got}");
    assert_eq!(got["got"], serde_json::json!({ "a": "1 2", "b": "'" }));
    assert_ne!(got["as"], 0);
    let (status, got) = ask(&proxy, "POST /sync/echo", "{\"n\": [1, 2]}")?;
    assert_eq!((status, &got["got"]["n"][1]), (200, &serde_json::json!(2)));
    assert_eq!(ask(&proxy, "POST /sync/echo", "not JSON")?.0, 400);
    let (status, got) = ask(&proxy, "GET /sync/fails", "")?;
    assert_eq!((status, &got["exit_code"]), (424, &serde_json::json!(7)));
    assert_eq!(ask(&proxy, "GET /sync/hangs", "")?.0, 504);
    assert_eq!(ask(&proxy, "GET /sync/resting", "")?.0, 404);
    Ok(())
}
