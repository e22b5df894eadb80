//! What is known before anything is judged.

use std::collections::BTreeMap;

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// What reading the configuration has warned of.
    pub warnings: Vec<String>,
    /// The settings that are judged.
    pub settings: Settings,
    /// The clusters of the configuration.
    pub clusters: Vec<ClusterFacts>,
    /// The machine that the proxy runs on.
    pub machine: MachineFacts,
    /// Servers, each address once.
    pub servers: Vec<ServerFacts>,
}

/// What of the configuration is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The largest packet that clients may send, bytes.
    pub max_allowed_packet: u64,
    /// Statements kept prepared on each connection to a server.
    pub statements_per_connection: u64,
    /// How often idle connections to servers are pinged, ms.
    pub ping_interval_ms: u64,
    /// After this time idle connections to servers are closed, ms; 0 is never.
    pub idle_timeout_ms: u64,
    /// Addresses that clients connect to over a network without being asked for TLS.
    pub open_listeners: Vec<String>,
    /// Whether any read waits for GTIDs.
    pub has_causal_reads: bool,
    /// Names of the accounts that applications use on servers.
    pub applications: Vec<String>,
    /// Pairs of hostgroups that are split without anybody watching roles: writer, reader.
    pub unwatched: Vec<(u32, u32)>,
}

/// A cluster of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterFacts {
    /// Its name.
    pub name: String,
    /// Whether its servers replicate by the binary log, one of them the writer.
    pub is_replication: bool,
    /// Whether a lost writer is replaced by the proxy.
    pub fails_over: bool,
    /// Addresses of its servers.
    pub servers: Vec<String>,
}

/// The machine that the proxy runs on. What is `None` could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    /// The most files that a process may open.
    pub open_files_max: Option<u64>,
    /// Files that the configuration may need.
    pub open_files_needed: u64,
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
    /// Ports for connections that go out.
    pub local_ports: Option<u64>,
    /// Connections that are tracked by the firewall, and the most that may be.
    pub tracked: Option<(u64, u64)>,
    /// Memory that the machine or the cgroup has, bytes.
    pub memory: Option<u64>,
    /// The budget that is configured, bytes; 0 is a share of the memory.
    pub memory_max: u64,
}

/// A hostgroup that a server serves in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its number.
    pub hostgroup: u32,
    /// The most connections to the server there.
    pub max_connections: u64,
    /// Whether statements that write go there.
    pub is_writer: bool,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its address.
    pub address: String,
    /// Whether its connections are encrypted, or do not leave the machine.
    pub is_private: bool,
    /// Where it serves.
    pub pools: Vec<Pool>,
    /// What it has answered, or why it has not.
    pub answers: Result<Answers, String>,
    /// What accounts lack there that lost `COMMIT`s could be looked for, and the `GRANT`s for it.
    pub lacking: Vec<(String, String)>,
}

/// Whom a server replicates from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The host.
    pub host: String,
    /// Whether both threads run.
    pub runs: bool,
    /// Whether it replicates by GTID.
    pub is_by_gtid: bool,
    /// The last error.
    pub error: String,
}

/// What a server has answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// Whether it is MariaDB.
    pub is_mariadb: bool,
    /// Its global variables, names in small letters.
    pub variables: BTreeMap<String, String>,
    /// How far its clock is ahead of the proxy's, ms.
    pub clock_ahead_ms: i64,
    /// By how much that may be wrong, ms.
    pub clock_error_ms: u64,
    /// Whom it replicates from; `None` where it may not be asked.
    pub sources: Option<Vec<Source>>,
    /// Accounts that may write in spite of `read_only`; `None` where they may not be looked at.
    pub superusers: Option<Vec<String>>,
}

impl Answers {
    /// A variable; `None` where the server has none of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// A number among the variables.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A switch among the variables; `None` where there is none of that name. Newer MariaDB has
    /// more words than two for `read_only`.
    pub fn is_on(&self, name: &str) -> Option<bool> {
        self.text(name).map(|value| !value.eq_ignore_ascii_case("OFF") && value != "0")
    }

    /// Whether it replicates from anybody, as far as is known.
    pub fn replicates(&self) -> bool {
        self.sources.as_ref().is_some_and(|sources| !sources.is_empty())
    }

    /// Major, minor and patch level of its version.
    pub fn version(&self) -> (u32, u32, u32) {
        let text = self.text("version").unwrap_or_default();
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
        let mut next = || numbers.next().flatten().unwrap_or(0);
        (next(), next(), next())
    }
}
