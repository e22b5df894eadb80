//! A collector of OpenTelemetry, with what comes to it in a file.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::folder::TempFolder;
use crate::port::{free_port, is_listening, release_port};
use crate::process::Process;
use crate::servers_dir::servers_dir;

const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The collector's program: `TRUNKLINE_COLLECTOR`, or the one in the servers folder.
///
/// # Errors
/// When it is not there; says what makes it.
pub fn collector_program() -> Result<PathBuf, String> {
    let named = std::env::var_os("TRUNKLINE_COLLECTOR").map(PathBuf::from);
    let program = named.unwrap_or_else(|| servers_dir().join("otelcol").join("collector"));
    match program.is_file() {
        true => Ok(program),
        false => Err(format!(
            "no collector of OpenTelemetry at {} (`cargo xtask servers` builds it where there is Go)",
            program.display()
        )),
    }
}

/// Two free ports for a collector, which may be started later.
#[derive(Debug)]
pub struct CollectorPorts {
    /// For OTLP over HTTP.
    pub http: u16,
    /// For gRPC.
    pub grpc: u16,
}

impl CollectorPorts {
    /// Finds them.
    ///
    /// # Errors
    /// When there is none.
    pub fn free() -> Result<CollectorPorts> {
        Ok(CollectorPorts { http: free_port()?, grpc: free_port()? })
    }
}

impl Drop for CollectorPorts {
    fn drop(&mut self) {
        release_port(self.http);
        release_port(self.grpc);
    }
}

/// A running collector.
#[derive(Debug)]
pub struct Collector {
    // First, so that it ends before its folder goes.
    _process: Process,
    folder: TempFolder,
}

impl Collector {
    /// Starts one that listens at these ports on loopback, and returns when it does.
    ///
    /// # Errors
    /// When there is no program, or it does not get ready.
    pub fn start(ports: &CollectorPorts) -> Result<Collector> {
        let program = collector_program().map_err(anyhow::Error::msg)?;
        let folder = TempFolder::new("collector")?;
        let file = folder.path().join("config.yaml");
        let out = folder.path().join("out.json");
        std::fs::write(&file, configuration(ports, &out.display().to_string()))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&file);
        let log = folder.path().join("log");
        let mut process = Process::spawn("collector", command, &log, Some(folder.path()))?;
        let is_ready = || is_listening(ports.http) && is_listening(ports.grpc);
        process.wait_ready(READY_TIMEOUT, || is_ready().then_some(()))?;
        Ok(Collector { _process: process, folder })
    }

    /// What has come so far: a line of JSON for each request.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn lines(&self) -> Result<Vec<String>> {
        let path = self.folder.path().join("out.json");
        match std::fs::read_to_string(&path) {
            // A line that is being written has no end yet.
            Ok(text) => Ok(text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(|line| line.trim_end().to_owned())
                .collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }
}

fn configuration(ports: &CollectorPorts, out: &str) -> String {
    let CollectorPorts { http, grpc } = ports;
    format!(
        "receivers:\n  otlp:\n    protocols:\n      http:\n        endpoint: 127.0.0.1:{http}\n      \
         grpc:\n        endpoint: 127.0.0.1:{grpc}\n\
         exporters:\n  file:\n    path: {out}\n    flush_interval: 100ms\n\
         service:\n  telemetry:\n    metrics:\n      level: none\n  pipelines:\n    \
         traces:\n      receivers: [otlp]\n      exporters: [file]\n    \
         metrics:\n      receivers: [otlp]\n      exporters: [file]\n"
    )
}
