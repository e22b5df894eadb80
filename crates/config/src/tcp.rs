//! TCP listeners: bytes for any server, relayed as they are.

use std::sync::Arc;

use trunkline_topology::{HostgroupId, ListenerGate, Server};

use crate::{ListenAddress, words::words};

/// One `[[tcp_listener]]` as the operator wrote it. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpEntry {
    /// Where clients connect.
    pub address: ListenAddress,
    /// Whose servers take them.
    pub hostgroup: HostgroupId,
    /// Whose servers take them when none of the others is online.
    pub backup_hostgroup: Option<HostgroupId>,
    /// Which server a new client gets.
    pub balance: Balance,
    /// The most clients at once, over all workers; others wait in the kernel's queue.
    pub max_connections: u32,
    /// How long one attempt to connect to a server may take, and how long a client waits for a
    /// server below its `max_connections`.
    pub connect_timeout: u64,
    /// Other servers that are tried for a client after a failed attempt.
    pub retries: u32,
    /// How long a client may be silent; 0 is for ever.
    pub client_timeout: u64,
    /// How long a server may be silent; 0 is for ever.
    pub server_timeout: u64,
    /// How long either may be silent when one end has said its last; 0 is as before.
    pub fin_timeout: u64,
    /// What becomes of a server's clients when it is found to be down.
    pub on_marked_down: OnMarkedDown,
    /// Which servers are connected to, to see whether they are well.
    pub check: Check,
    /// The time between two checks of a server.
    pub check_interval: u64,
    /// Checks in a row that bring a server back.
    pub rise: u32,
    /// Failed checks in a row that take a server out.
    pub fall: u32,
    /// What a server is told of its client before the first byte.
    pub send_proxy: SendProxy,
    /// Where Galera Load Balancer's control protocol is spoken; loopback or a Unix socket.
    pub control: Option<ListenAddress>,
    /// Free text.
    pub comment: String,
}

impl TcpEntry {
    /// A listener with every default.
    pub fn new(address: ListenAddress, hostgroup: HostgroupId) -> Self {
        Self {
            address,
            hostgroup,
            backup_hostgroup: None,
            balance: Balance::default(),
            max_connections: 10_000,
            connect_timeout: 5_000,
            retries: 3,
            client_timeout: 0,
            server_timeout: 0,
            fin_timeout: 0,
            on_marked_down: OnMarkedDown::default(),
            check: Check::default(),
            check_interval: 2_000,
            rise: 2,
            fall: 3,
            send_proxy: SendProxy::default(),
            control: None,
            comment: String::new(),
        }
    }

    /// The hostgroups that it names.
    pub fn hostgroups(&self) -> impl Iterator<Item = HostgroupId> {
        [Some(self.hostgroup), self.backup_hostgroup].into_iter().flatten()
    }
}

words! {
    /// Which server a new client gets.
    Balance {
        /// The one with the fewest connections for its weight.
        #[default] LeastConn = "leastconn",
        /// Each in its turn, by weight.
        RoundRobin = "roundrobin",
        /// The one that the client's address always gets.
        Source = "source",
        /// Any, by weight.
        Random = "random",
        /// The first of the configuration that has room.
        First = "first",
    }
}

words! {
    /// Which servers are connected to, to see whether they are well.
    Check {
        /// Those that are out.
        #[default] Down = "down",
        /// All.
        Always = "always",
        /// None: a server that is out is tried with a client after `shun_recovery_time_sec`.
        Off = "off",
    }
}

words! {
    /// What becomes of a server's clients when it is found to be down.
    OnMarkedDown {
        /// They go on for as long as their connections do.
        #[default] Keep = "keep",
        /// Their connections are closed.
        ShutdownSessions = "shutdown-sessions",
    }
}

words! {
    /// What a server is told of its client before the first byte.
    SendProxy {
        /// Nothing.
        #[default] Off = "off",
        /// A line of the PROXY protocol, version 1.
        V1 = "v1",
        /// A header of the PROXY protocol, version 2.
        V2 = "v2",
    }
}

/// A listener as workers serve it.
#[derive(Debug, Clone)]
pub struct TcpFront {
    /// What the operator wrote.
    pub options: Arc<TcpEntry>,
    /// What all workers know of it; kept across configuration changes of the same address.
    pub gate: Arc<ListenerGate>,
    /// Servers in the order of the configuration.
    pub servers: Vec<Arc<Server>>,
    /// Servers for when none of the others is online.
    pub backups: Vec<Arc<Server>>,
    /// How long a server stays out after a failed attempt to connect, unless checks bring it
    /// back, ms.
    pub penalty_ms: u64,
}
