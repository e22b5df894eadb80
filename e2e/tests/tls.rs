//! Encryption: of clients, of servers, and what nobody should send or show.

mod bad;
pub mod certs;
mod clients;
mod secrets;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use trunkline_testkit::Trunkline;

use crate::backends::{PASSWORD, TIMEOUT};
use crate::wire::{MODERN, Wire, login};
use certs::{Files, client};

/// A path as TOML.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// A client of both versions without a certificate.
fn anybody() -> Result<Arc<ClientConfig>> {
    client(&[&TLS12, &TLS13], None)
}

/// Logs in through TLS.
fn enter(proxy: &Trunkline, name: &str, config: &Arc<ClientConfig>) -> Result<Wire> {
    Wire::login_tls(proxy, login(name, PASSWORD, "", MODERN), config)
}

/// Waits until the log holds this text.
fn wait_said(proxy: &Trunkline, text: &str) -> Result<String> {
    let line = trunkline_testkit::wait_until(text, TIMEOUT, || {
        Ok(proxy.log().lines().find(|line| line.contains(text)).map(str::to_owned))
    });
    line.with_context(|| format!("log:\n{}", proxy.log()))
}

/// The configuration's lines for a certificate of the proxy.
fn shown(files: &Files) -> String {
    format!("tls_cert = {}\ntls_key = {}\n", quoted(&files.cert), quoted(&files.key))
}

/// The output of a program that must succeed.
fn run(mut command: std::process::Command) -> Result<String> {
    let output = command.output().context("it does not start")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command:?}: {text}{errors}");
    Ok(text)
}

/// The mode of a file.
fn mode(path: &PathBuf) -> Result<u32> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(path).with_context(|| path.display().to_string())?.mode() & 0o777)
}
