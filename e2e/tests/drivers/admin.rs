//! The same drivers at the admin port: what tools for ProxySQL are written with.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, SqlClient, Trunkline, skipped};

use crate::{RUNS, Run, Tls, can_run, scenario, servers, tail};

/// Steps of `admin.json` with what their results say, in whatever form a language shows them.
const EXPECTED: [(&str, &[&str]); 9] = [
    ("version", &["2.7.1-trunkline-"]),
    ("servers", &["127.0.0.1", "10"]),
    // JSON's own backslashes stand before quotes and backslashes.
    ("the row", &[r"o'brien\\", r#"p\"w'\\"#, "77"]),
    ("running", &["2"]),
    ("statistics", &["MySQL_Thread_Workers"]),
    ("an error", &["1045", "no such table: no_such_table"]),
    ("ping", &[]),
    ("load", &[]),
    ("show", &["mysql-wait_timeout", "28800000"]),
];

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
    for run in RUNS {
        if let Err(reason) = can_run(run.ecosystem)? {
            skipped(&format!("{TEST}, {}", run.name), &reason);
            continue;
        }
        admin.sql("DELETE FROM mysql_users WHERE username <> 'own'")?;
        admin.sql("LOAD MYSQL USERS TO RUNTIME")?;
        check(run, &proxy)
            .with_context(|| format!("{}; the log ends with:\n{}", run.name, tail(&proxy)))?;
        worked += 1;
    }
    if worked == 0 {
        skipped(TEST, "no driver is there (cargo xtask drivers gets them)");
    }
    Ok(())
}

fn check(run: &Run, proxy: &Trunkline) -> Result<()> {
    let lines =
        scenario(run, "admin.json", proxy.admin_port(), ["admin", "admin", "main"], Tls::Off)?;
    for (step, parts) in EXPECTED {
        let line = lines.iter().find(|line| line.step == step);
        let shown = line.with_context(|| format!("no step `{step}`"))?.result.to_string();
        let is_error = shown.contains("\"error\"") || shown.contains("\"failure\"");
        ensure!(is_error == (step == "an error"), "{step}: {shown}");
        for part in parts {
            ensure!(shown.contains(part), "{step}: no {part} in {shown}");
        }
    }
    Ok(())
}
