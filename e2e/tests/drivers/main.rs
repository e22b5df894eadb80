//! Real drivers, each run directly, through Trunkline, and through Trunkline encrypted: what they
//! print must be the same.
//!
//! A binary of its own, because its programs take whole cores (virtual machines that start, batches
//! of inserts) and the other end-to-end tests watch the clock: cargo runs binaries one after the
//! other. What the programs do is `e2e/drivers/scenario.json`; what may differ is
//! `e2e/drivers/KNOWN.md`.

mod admin;
mod clients;
mod compare;
mod known;
mod ordinary;
mod plugins;
mod servers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Ecosystem, Flavour, Process, TempFolder, Trunkline, skipped};

use compare::Line;
use servers::{PASSWORD, USER};

/// How long a program may take for the whole scenario; on a quiet machine it takes one second or
/// two.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(180);

/// One driver with its options, as the program of its language knows it.
struct Run {
    /// The test's name, and the driver's in `KNOWN.md`.
    name: &'static str,
    ecosystem: Ecosystem,
    /// What the program is told.
    driver: &'static str,
}

macro_rules! runs {
    ($($name:ident: $ecosystem:ident $driver:literal,)*) => {
        /// Every run, for checks of the list itself.
        const RUNS: &[Run] = &[$(
            Run {
                name: stringify!($name),
                ecosystem: Ecosystem::$ecosystem,
                driver: $driver,
            },
        )*];

        $(
            mod $name {
                use super::*;

                const RUN: Run = Run {
                    name: stringify!($name),
                    ecosystem: Ecosystem::$ecosystem,
                    driver: $driver,
                };

                #[test]
                fn on_mariadb() -> Result<()> {
                    check(&RUN, Flavour::MariaDb)
                }

                #[test]
                fn on_mysql() -> Result<()> {
                    check(&RUN, Flavour::MySql)
                }
            }
        )*
    };
}

runs! {
    pymysql: Python "pymysql",
    mysqlclient: Python "mysqlclient",
    connector_python: Python "connector",
    connector_python_prepared: Python "connector-prepared",
    connector_python_c: Python "connector-c",
    connector_python_c_prepared: Python "connector-c-prepared",
    asyncmy: Python "asyncmy",
    sqlalchemy: Python "sqlalchemy",
    sqlalchemy_c: Python "sqlalchemy-c",
    go: Go "go",
    go_interpolated: Go "go-interpolated",
    mysql2: Node "mysql2",
    mysql2_execute: Node "mysql2-execute",
    node_mariadb: Node "mariadb",
    node_mariadb_execute: Node "mariadb-execute",
    java_mariadb: Java "mariadb",
    java_mariadb_prepared: Java "mariadb-prepared",
    java_mariadb_bulk: Java "mariadb-bulk",
    java_mariadb_rewrite: Java "mariadb-rewrite",
    java_mysql: Java "mysql",
    java_mysql_prepared: Java "mysql-prepared",
    java_mysql_rewrite: Java "mysql-rewrite",
    java_mysql_tuned: Java "mysql-tuned",
    sqlx: Rust "sqlx",
    mysql_async: Rust "mysql_async",
    mysqli: Php "mysqli",
    pdo: Php "pdo",
    pdo_prepared: Php "pdo-prepared",
    ruby_mysql2: Ruby "mysql2",
    ruby_mysql2_prepared: Ruby "mysql2-prepared",
}

/// The folder with the programs and the scenario.
fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers")
}

/// Runs the program directly and through the proxy, and compares.
fn check(run: &Run, flavour: Flavour) -> Result<()> {
    let test = format!("drivers {} on {}", run.name, flavour.name());
    if let Err(reason) = can_run(run.ecosystem)? {
        skipped(&test, &reason);
        return Ok(());
    }
    let Some(server) = servers::shared(flavour, &test)? else {
        return Ok(());
    };
    let schema = format!("drv_{}", run.name);
    let proxy = servers::before(server, known::holds_connections(run.name, flavour)?)?;
    servers::fresh_schema(server, &schema)?;
    let direct = program(run, server.port(), &schema, Tls::Off).context("directly")?;
    compare::check_meaningful(&direct)?;
    for tls in [Tls::Off, Tls::On] {
        servers::fresh_schema(server, &schema)?;
        let through = program(run, proxy.port(), &schema, tls)
            .with_context(|| format!("through Trunkline, whose log is:\n{}", tail(&proxy)))?;
        let differences = compare::differences(&direct, &through);
        known::judge(run.name, flavour, &differences).with_context(|| format!("TLS {tls:?}"))?;
        ensure!(is_encrypted(&proxy)? == (tls == Tls::On), "TLS {tls:?} was not as asked for");
    }
    Ok(())
}

/// Whether a program encrypts its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    Off,
    On,
}

/// Whether any client of the proxy has encrypted its connection.
fn is_encrypted(proxy: &Trunkline) -> Result<bool> {
    let results = ["tls12", "tls12_resumed", "tls13", "tls13_resumed"];
    for result in results {
        let labels = format!("result=\"{result}\"");
        let count = proxy.metric("trunkline_client_tls_handshakes_total", &labels)?;
        if count.is_some_and(|count| count > 0.0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the program of this language is there; an error when it was made from other files.
fn can_run(ecosystem: Ecosystem) -> Result<Result<(), String>> {
    if let Some(tool) = ecosystem.missing_tool() {
        return Ok(Err(format!("{tool} is not installed")));
    }
    if ecosystem.inputs().is_empty() {
        return Ok(servers::distribution_has(ecosystem));
    }
    if !ecosystem.place().join("made-from").exists() {
        return Ok(Err("nothing is built (cargo xtask drivers builds it)".to_owned()));
    }
    ensure!(
        ecosystem.is_current(&tree()),
        "e2e/drivers/{} has changed since it was built; cargo xtask drivers builds it anew",
        ecosystem.name()
    );
    Ok(Ok(()))
}

/// Runs the program to its end; its lines.
fn program(run: &Run, port: u16, schema: &str, tls: Tls) -> Result<Vec<Line>> {
    scenario(run, "scenario.json", port, [USER, PASSWORD, schema], tls)
}

/// Runs the program with a scenario of this name, and user, password and schema; its lines.
fn scenario(
    run: &Run,
    name: &str,
    port: u16,
    [user, password, schema]: [&str; 3],
    tls: Tls,
) -> Result<Vec<Line>> {
    let folder = TempFolder::new("driver")?;
    let mut command = run.ecosystem.command(&tree());
    command.arg(run.driver).arg(tree().join(name)).current_dir(folder.path());
    command.env("DRIVER_HOST", "127.0.0.1").env("DRIVER_PORT", port.to_string());
    command.env("DRIVER_USER", user).env("DRIVER_PASSWORD", password);
    let tls = if tls == Tls::On { "on" } else { "off" };
    command.env("DRIVER_SCHEMA", schema).env("DRIVER_TLS", tls);
    let log = folder.path().join("log");
    let mut process = Process::spawn(run.driver, command, &log, Some(folder.path()))?;
    let ended = process.wait(PROGRAM_TIMEOUT);
    let output = process.log();
    let status = ended.with_context(|| format!("end of its output:\n{}", process.log_tail()))?;
    ensure!(status.success(), "the program failed ({status}):\n{}", process.log_tail());
    let lines = compare::lines(&output)?;
    ensure!(!lines.is_empty(), "the program printed nothing:\n{output}");
    Ok(lines)
}

/// The end of the proxy's log.
fn tail(proxy: &Trunkline) -> String {
    let log = proxy.log();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n")
}

#[test]
fn every_known_difference_names_a_run() -> Result<()> {
    let names: Vec<&str> = RUNS.iter().map(|run| run.name).chain(clients::NAMES).collect();
    known::check_names(&names)
}
