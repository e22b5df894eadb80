//! A Redis server, for the shared result cache.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::folder::TempFolder;
use crate::port::{free_port, is_listening};
use crate::process::{Process, Signal};
use crate::servers_dir::find_program;

/// Whether a Redis server can be started; the error says why not.
///
/// # Errors
/// When it is not installed.
pub fn redis_available() -> Result<(), String> {
    let missing = "redis-server is not installed (the package redis-server has it)";
    find_program("redis-server").map(drop).ok_or_else(|| missing.to_owned())
}

/// A server that keeps nothing on disk, with a password.
#[derive(Debug)]
pub struct Redis {
    // First, so that it ends before its folder goes.
    process: Process,
    port: u16,
    _folder: TempFolder,
}

impl Redis {
    /// Starts one on a free port on loopback.
    ///
    /// # Errors
    /// When it isn't installed or doesn't get ready.
    pub fn start(password: &str) -> Result<Redis> {
        let program = find_program("redis-server").context("redis-server is not installed")?;
        let folder = TempFolder::new("redis")?;
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--requirepass", password]);
        command.arg("--dir").arg(folder.path());
        let log = folder.path().join("log");
        let mut process = Process::spawn("redis-server", command, &log, Some(folder.path()))?;
        process.wait_ready(Duration::from_secs(20), || is_listening(port).then_some(()))?;
        Ok(Redis { process, port, _folder: folder })
    }

    /// Its address as a setting names it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Stops it for a while, or has it go on.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Commands, one a line as a person types them; what it says to them until the last of them,
    /// which must be `PING`, is answered.
    ///
    /// # Errors
    /// When it can't be reached or has said nothing for ten seconds.
    pub fn say(&self, commands: &str) -> Result<String> {
        ensure!(commands.ends_with("PING\r\n"), "the last command must be PING");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(commands.as_bytes())?;
        let mut stream = BufReader::new(stream);
        let mut said = Vec::new();
        while !said.ends_with(b"+PONG\r\n") {
            ensure!(stream.read_until(b'\n', &mut said)? > 0, "Redis closed the connection");
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}
