//! Programs that are linked with MariaDB's Connector/C.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{Flavour, Options, find_program, skipped, wait_until};

use crate::stage::{PASSWORD, SOON, USER, before, is_available, new_schema, start};

/// MariaDB's Connector/C takes no 2013 from a server.
#[test]
fn connector_c_is_told_as_mariadb_tells_it() -> Result<()> {
    let test = "connector_c_is_told_as_mariadb_tells_it";
    let Some(program) = find_program("mariadb") else {
        skipped(test, "no mariadb client");
        return Ok(());
    };
    if !is_available(Flavour::MariaDb, test) {
        return Ok(());
    }
    let server = start(Flavour::MariaDb, Options::default())?;
    let schema = new_schema(&server, "")?;
    let proxy = before(&server, 1, 10)?;
    let mut child = Command::new(program)
        .args(["--no-defaults", "--host=127.0.0.1", &format!("--port={}", proxy.port())])
        .args([&format!("--user={USER}"), &format!("--password={PASSWORD}")])
        .args(["--batch", "--skip-column-names", "--unbuffered", "--skip-reconnect", &schema])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut typed = child.stdin.take().context("no input")?;
    let mut shown = BufReader::new(child.stdout.take().context("no output")?).lines();
    let lock = format!("'{schema}'");
    writeln!(typed, "SELECT GET_LOCK({lock}, 0);")?;
    ensure!(shown.next().context("no row")?? == "1");
    let holder = server.value(&format!("SELECT IS_USED_LOCK({lock})"))?.context("no lock")?;
    server.sql(&format!("KILL {holder}"))?;
    wait_until("the connection is lost", SOON, || {
        let free = server.value(&format!("SELECT IS_FREE_LOCK({lock})"))?;
        Ok((free.as_deref() == Some("1")).then_some(()))
    })?;
    writeln!(typed, "SELECT 5;")?;
    drop(typed);
    let output = child.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(error.contains("ERROR 1927 (70100)") && error.contains("named_lock"), "{error}");
    Ok(())
}
