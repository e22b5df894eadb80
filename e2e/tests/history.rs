//! The numbers of the past outlive the proxy, and a report reads them.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use trunkline_testkit::{TempFolder, trunkline_binary};

use crate::backends::{self, PASSWORD, TIMEOUT, proxy_for, wait_metric};
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
    trunkline_testkit::wait_until("two frames", deadline, || {
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
