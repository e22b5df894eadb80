//! Ordinary applications stay on the proven way: connections are reset between their sessions for
//! one statement in a hundred at most.

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Ecosystem, Flavour, Process, TempFolder, Trunkline, skipped};

use crate::servers::{self, PASSWORD, USER};
use crate::{PROGRAM_TIMEOUT, can_run, tree};

/// Requests that an application serves, at 5 to 20 statements each.
const REQUESTS: u32 = 200;
/// Statements to one reset.
const STATEMENTS_PER_RESET: f64 = 100.0;

fn serve(ecosystem: Ecosystem, application: &str, port: u16, schema: &str) -> Result<()> {
    let folder = TempFolder::new("ordinary")?;
    let mut command = ecosystem.command(&tree());
    command.arg(application).arg(REQUESTS.to_string()).current_dir(folder.path());
    command.env("DRIVER_HOST", "127.0.0.1").env("DRIVER_PORT", port.to_string());
    command.env("DRIVER_USER", USER).env("DRIVER_PASSWORD", PASSWORD);
    command.env("DRIVER_SCHEMA", schema).env("DRIVER_TLS", "off");
    let log = folder.path().join("log");
    let mut process = Process::spawn(application, command, &log, Some(folder.path()))?;
    let status = process.wait(PROGRAM_TIMEOUT)?;
    ensure!(status.success(), "{application} failed ({status}):\n{}", process.log_tail());
    ensure!(process.log().contains("served"), "{application} served nothing");
    Ok(())
}

/// Statements that servers have run for clients, and resets for other reasons than a session's end.
fn figures(proxy: &Trunkline) -> Result<(f64, f64)> {
    let name = "trunkline_backend_connections_reset_total";
    let all = proxy.metric(name, "")?.context("no resets are counted")?;
    let by_sessions = proxy.metric(name, "reason=\"session\"")?.unwrap_or_default();
    let statements = proxy.metric("trunkline_statements_total", "")?.context("no commands")?;
    Ok((statements, all - by_sessions))
}

fn check(ecosystem: Ecosystem, application: &str, flavour: Flavour) -> Result<()> {
    let test = format!("{application} on {}", flavour.name());
    if let Err(reason) = can_run(ecosystem)? {
        skipped(&test, &reason);
        return Ok(());
    }
    let Some(server) = servers::shared(flavour, &test)? else {
        return Ok(());
    };
    let schema = application.replace('-', "_");
    servers::fresh_schema(server, &schema)?;
    let proxy = servers::before(server, false)?;
    serve(ecosystem, application, proxy.port(), &schema)?;
    let (statements, resets) = figures(&proxy)?;
    println!("{test}: {statements} statements, {resets} resets");
    ensure!(statements > f64::from(REQUESTS), "{test}: only {statements} statements");
    let resets_max = statements / STATEMENTS_PER_RESET;
    ensure!(resets <= resets_max, "{test}: {resets} resets for {statements} statements");
    Ok(())
}

macro_rules! applications {
    ($($name:ident: $ecosystem:ident $application:literal,)*) => {
        $(
            mod $name {
                use super::*;

                #[test]
                fn is_rarely_reset_on_mariadb() -> Result<()> {
                    check(Ecosystem::$ecosystem, $application, Flavour::MariaDb)
                }

                #[test]
                fn is_rarely_reset_on_mysql() -> Result<()> {
                    check(Ecosystem::$ecosystem, $application, Flavour::MySql)
                }
            }
        )*
    };
}

applications! {
    django: Python "ordinary-django",
    sqlalchemy: Python "ordinary-sqlalchemy",
    wordpress: Php "ordinary-wordpress",
}
