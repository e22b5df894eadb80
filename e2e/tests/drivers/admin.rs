//! Drivers of other languages at the admin port: what tools for ProxySQL are written with.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, SqlClient, Trunkline, skipped};

use crate::{RUNS, Run, Tls, can_run, scenario, servers, tail};

/// Steps of `admin.json` with what their results say, in whatever form a language shows them.
const EXPECTED: [(&str, &[&str]); 11] = [
    ("version", &["2.7.1-trunkline-"]),
    ("servers", &["127.0.0.1", "10"]),
    ("a plain row", &[]),
    ("the plain row", &["plain", "secret", "55"]),
    (QUOTED, &["o'brien", "p\"w'", "77"]),
    ("running", &[]),
    ("statistics", &["MySQL_Thread_Workers"]),
    ("an error", &["1045", "no such table: no_such_table"]),
    ("ping", &[]),
    ("load", &[]),
    ("show", &["mysql-wait_timeout", "28800000"]),
];

/// The step with quotes and backslashes in its parameters.
const QUOTED: &str = "the row";
/// Those whose program has steps of its own, on tables that only a server has.
const LEFT_OUT: [&str; 2] = ["sqlalchemy", "sqlalchemy_c"];
/// Those that put parameters into the text in their own ways: mysql2 with backslashes although it
/// is told that a backslash is none, Connector/J as bytes.
const QUOTE_OTHERWISE: [&str; 3] = ["mysql2", "java_mysql", "java_mysql_rewrite"];

#[test]
fn every_driver_works_at_the_admin_port() -> Result<()> {
    const TEST: &str = "every_driver_works_at_the_admin_port";
    let Some(server) = servers::shared(Flavour::MariaDb, TEST)? else { return Ok(()) };
    let config = format!(
        "workers = 1\n[[server]]\nhostgroup = 10\naddress = \"{}\"\n\
         [[user]]\nname = \"own\"\npassword = \"p\"\ndefault_hostgroup = 10\n",
        server.address()
    );
    let proxy = Trunkline::start_database(&config)?;
    let mut admin = SqlClient::tcp(proxy.admin_port(), "admin", "admin", "")?;
    let mut worked = 0;
    let mut failures = Vec::new();
    for run in RUNS.iter().filter(|run| !LEFT_OUT.contains(&run.name)) {
        if let Err(reason) = can_run(run.ecosystem)? {
            skipped(&format!("{TEST}, {}", run.name), &reason);
            continue;
        }
        admin.sql("DELETE FROM mysql_users WHERE username <> 'own'")?;
        admin.sql("LOAD MYSQL USERS TO RUNTIME")?;
        if let Err(error) = check(run, &proxy) {
            failures.push(format!("{}: {error:#}", run.name));
            continue;
        }
        let plain = "SELECT max_connections FROM runtime_mysql_users WHERE username = 'plain'";
        ensure!(admin.value(plain)?.as_deref() == Some("55"), "{}: another user", run.name);
        let quoted = "SELECT count(*) FROM runtime_mysql_users \
                      WHERE username = 'o''brien\\' AND password = 'p\"w''\\'";
        let is_stored = admin.value(quoted)?.as_deref() == Some("1");
        ensure!(is_stored || QUOTE_OTHERWISE.contains(&run.name), "{}: not as given", run.name);
        worked += 1;
    }
    ensure!(failures.is_empty(), "{}\nthe log:\n{}", failures.join("\n"), tail(&proxy));
    if worked == 0 {
        skipped(TEST, "no driver is there (cargo xtask drivers gets them)");
    }
    Ok(())
}

fn check(run: &Run, proxy: &Trunkline) -> Result<()> {
    let lines =
        scenario(run, "admin.json", proxy.admin_port(), ["admin", "admin", "main"], Tls::Off)?;
    let quotes = !QUOTE_OTHERWISE.contains(&run.name);
    for (step, parts) in EXPECTED.iter().copied().filter(|(step, _)| quotes || *step != QUOTED) {
        let line = lines.iter().find(|line| line.step == step);
        let shown = line.with_context(|| format!("no step `{step}`"))?.result.to_string();
        let is_error = shown.contains("\"error\"") || shown.contains("\"failure\"");
        ensure!(is_error == (step == "an error"), "{step}: {shown}");
        // Languages show backslashes and quotes in ways of their own; what was stored is looked at.
        let shown = shown.replace('\\', "");
        for part in parts {
            ensure!(shown.contains(part), "{step}: no {part} in {shown}");
        }
    }
    Ok(())
}
