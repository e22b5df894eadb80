//! HAProxy as a plain TCP relay: to be compared with, and as a balancer before the proxy.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::accounting;
use crate::folder::TempFolder;
use crate::port::{free_port, is_listening};
use crate::process::Process;
use crate::servers_dir::find_program;

/// Connections in all; both sides of one count as file descriptors.
const CONNECTIONS_MAX: u32 = 4_000;

/// A relay with one thread.
#[derive(Debug)]
pub struct HaProxy {
    // First, so that it ends before its folder goes.
    process: Process,
    port: u16,
    _folder: TempFolder,
}

impl HaProxy {
    /// Relays a free port on loopback to `server_port` on loopback; returns when it listens.
    ///
    /// # Errors
    /// When HAProxy isn't installed or doesn't get ready.
    pub fn start(server_port: u16) -> Result<HaProxy> {
        HaProxy::start_with(server_port, "")
    }

    /// Relays a free port on loopback to `server_port`, with further words for its server, such as
    /// `send-proxy`.
    ///
    /// # Errors
    /// When HAProxy isn't installed or doesn't get ready.
    pub fn start_with(server_port: u16, words: &str) -> Result<HaProxy> {
        let program = find_program("haproxy")
            .context("haproxy is not installed (cargo xtask servers installs it)")?;
        let folder = TempFolder::new("haproxy")?;
        let port = free_port()?;
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, config(port, server_port, words))?;
        let mut command = Command::new(program);
        // Without -D and -W it stays one process in the foreground.
        command.arg("-db").arg("-f").arg(&file);
        let log = folder.path().join("log");
        let mut process = Process::spawn("haproxy", command, &log, Some(folder.path()))?;
        process.wait_ready(Duration::from_secs(20), || is_listening(port).then_some(()))?;
        Ok(HaProxy { process, port, _folder: folder })
    }

    /// The port it listens on, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// CPU time so far, in microseconds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn cpu_micros(&self) -> Result<u64> {
        accounting::cpu_micros(self.pid())
    }

    /// Memory in RAM, in bytes.
    ///
    /// # Errors
    /// When it has ended.
    pub fn rss_bytes(&self) -> Result<u64> {
        accounting::rss_bytes(self.pid())
    }
}

fn config(port: u16, server_port: u16, words: &str) -> String {
    format!(
        "global\n    nbthread 1\n    maxconn {CONNECTIONS_MAX}\n\
         defaults\n    mode tcp\n    timeout connect 10s\n    timeout client 1h\n    \
         timeout server 1h\n\
         listen relay\n    bind 127.0.0.1:{port}\n    maxconn {CONNECTIONS_MAX}\n    \
         server one 127.0.0.1:{server_port} {words}\n"
    )
}
