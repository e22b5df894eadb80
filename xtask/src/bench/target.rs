//! Who is measured, and how Trunkline is set up for it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use trunkline_testkit::{SqlClient, wait_until};

use super::{Arguments, USER};

/// How many rules Trunkline has.
const RULES: u32 = 20;
/// Clients that Trunkline lets in.
const CLIENTS_MAX: u32 = 20_000;

/// Something that serves the account of the bench on a port.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name in the tables.
    pub name: String,
    /// Port on 127.0.0.1.
    pub port: u16,
    /// The Unix socket that is used instead.
    pub socket: Option<PathBuf>,
    /// The process between client and server; `None` for the server itself.
    pub pid: Option<u32>,
}

impl Target {
    /// A target with its parts.
    pub fn new(name: &str, port: u16, pid: Option<u32>) -> Target {
        let name = name.to_owned();
        Target { name, port, socket: None, pid }
    }

    /// The target, reached by a Unix socket instead of its port.
    pub fn by_socket(mut self, path: PathBuf) -> Target {
        self.socket = Some(path);
        self
    }

    /// Waits until it answers a statement.
    pub fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let mut last = None;
        let waited = wait_until(&format!("{} serves", self.name), timeout, || {
            let answer = SqlClient::tcp(self.port, USER, USER, "sbtest")
                .and_then(|mut client| client.value("SELECT MAX(id) FROM sbtest1"));
            match answer {
                Ok(_) => Ok(Some(())),
                Err(error) => {
                    last = Some(error);
                    Ok(None)
                }
            }
        });
        waited.with_context(|| last.map_or_else(String::new, |error| format!("{error:#}")))
    }
}

/// A proxy that somebody else started, as `NAME:PORT:PID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    name: String,
    port: u16,
    pid: u32,
}

impl Peer {
    /// The target that it is.
    pub fn target(&self) -> Target {
        Target::new(&self.name, self.port, Some(self.pid))
    }
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let wanted = || format!("a peer is NAME:PORT:PID, not {text:?}");
        let mut parts = text.rsplitn(3, ':');
        let pid = parts.next().and_then(|pid| pid.parse().ok());
        let port = parts.next().and_then(|port| port.parse().ok());
        let name = parts.next().filter(|name| !name.is_empty());
        Ok(Peer {
            name: name.ok_or_else(wanted)?.to_owned(),
            port: port.ok_or_else(wanted)?,
            pid: pid.ok_or_else(wanted)?,
        })
    }
}

/// Rules and statistics on, reads split from writes: what an installation looks like. Idle
/// clients that ran a statement must not be served by more connections than they need.
pub fn trunkline_config(server: &Path, arguments: &Arguments, is_idle: bool) -> String {
    let workers = arguments.workers;
    let connections = if is_idle { 4 } else { arguments.server_connections };
    let mut text = format!(
        "workers = {workers}\nmax_connections = {CLIENTS_MAX}\n\
         [[user]]\nname = \"{USER}\"\npassword = \"{USER}\"\ndefault_hostgroup = 10\n\
         max_connections = {CLIENTS_MAX}\n\
         [[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n\
         read_write_split = \"auto\"\n"
    );
    // Writing to a `String` cannot fail.
    for hostgroup in [10, 20] {
        let _ = write!(
            text,
            "[[server]]\nhostgroup = {hostgroup}\naddress = \"{}\"\n\
             max_connections = {connections}\n",
            server.display()
        );
    }
    for id in 1..=RULES {
        let _ = write!(text, "[[rule]]\nid = {id}\n{}", rule(id));
    }
    text
}

/// Rules as people have them: mostly patterns on the digest, some bound to a schema or a user.
/// None of them takes the load's statements, so each has to be looked at, and the split decides.
fn rule(id: u32) -> String {
    let bound = match id % 5 {
        0 => "schemaname = \"archive\"\n",
        3 => "username = \"report\"\n",
        _ => "",
    };
    format!(
        "{bound}match_digest = \"^SELECT .* FROM audit_{id} WHERE .*\"\n\
         destination_hostgroup = 10\napply = true\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_read_from_its_end() {
        let peer: Peer = "a:b:6033:42".parse().unwrap();
        let expected = Peer { name: "a:b".into(), port: 6033, pid: 42 };
        assert_eq!(peer, expected);
        for broken in ["", "x:1", ":6033:42", "x:70000:42", "x:6033:me"] {
            assert!(broken.parse::<Peer>().is_err(), "{broken}");
        }
    }
}
