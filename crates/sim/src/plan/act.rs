//! What operators do, and what goes wrong.

use trunkline_topology::ServerState;

use crate::{HostId, Micros, server::ServerFault};

/// What an operator does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Publishes a configuration of the plan.
    Publish(usize),
    /// Sets the state of a server entry, as the monitor or an operator does.
    SetState(u32, HostId, ServerState),
    /// Looks at the statistics.
    Report,
    /// Whoever follows servers says that all of them show all that was written until now.
    Follow,
    /// Holds what is new in a hostgroup for so many milliseconds.
    Pause(u32, u64),
    /// Forgets stored answers (`PROXYSQL FLUSH QUERY CACHE`), for all proxies.
    Flush,
    /// What this proxy alone has stored is gone, as if it were another one.
    Forget,
    /// Tells all workers to stop within so many milliseconds.
    Stop(u64),
    /// Tells one worker to stop within so many milliseconds; the others go on.
    StopWorker(usize, u64),
}

impl Act {
    /// Its kind, for counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Publish(_) => "publish",
            Self::SetState(..) => "set_state",
            Self::Report => "report",
            Self::Follow => "follow",
            Self::Pause(..) => "pause",
            Self::Flush => "flush",
            Self::Forget => "forget",
            Self::Stop(_) => "stop",
            Self::StopWorker(..) => "stop_worker",
        }
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// At a server.
    Server(ServerFault),
    /// A client's connection is reset in the middle.
    CutClient(usize),
    /// A client ends its direction and goes on reading.
    HalfCloseClient(usize),
    /// Nothing passes between a client and the proxy for so long.
    StallClient(usize, Micros),
    /// A client is gone without a word; the proxy's kernel notices after so long.
    VanishClient(usize, Micros),
    /// The connection to a host that comes at this place is reset in the middle.
    CutHost(HostId, usize),
    /// A host ends its direction of a connection and goes on reading.
    HalfCloseHost(HostId, usize),
    /// One connection to a host carries nothing for so long.
    StallHost(HostId, usize, Micros),
    /// Nothing passes between the proxy and a host for so long; connects hang.
    Partition(HostId, Micros),
    /// Nothing passes between the proxy and any host for so long.
    PartitionAll(Micros),
    /// Nothing passes between the proxy and some clients' hosts for so long: those whose place,
    /// divided by the second number, leaves the first.
    CutOffClients(usize, usize, Micros),
    /// Nothing passes between one worker and a host for so long, while the others get there.
    CutOffWorker(usize, HostId, Micros),
    /// The monitor does not get to a host for so long, while clients' statements do.
    CutOffMonitor(HostId, Micros),
    /// The cache that proxies share does not answer for so long, and has forgotten all then.
    NoNeighbours(Micros),
    /// A worker's thread does not run for so long.
    Pause(usize, Micros),
    /// These bytes come from a client, between what it says itself.
    ClientBabbles(usize, Vec<u8>),
    /// These bytes come from a host, on the connection that comes at this place.
    HostBabbles(HostId, usize, Vec<u8>),
    /// A step of a client's session panics.
    Abandon(usize),
}

impl Fault {
    /// Its kind, for counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Server(fault) => fault.name(),
            Self::CutClient(_) => "cut_client",
            Self::HalfCloseClient(_) => "half_close_client",
            Self::StallClient(..) => "stall_client",
            Self::VanishClient(..) => "vanish_client",
            Self::CutHost(..) => "cut_host",
            Self::HalfCloseHost(..) => "half_close_host",
            Self::StallHost(..) => "stall_host",
            Self::Partition(..) => "partition",
            Self::PartitionAll(_) => "partition_all",
            Self::CutOffClients(..) => "clients_cut_off",
            Self::CutOffWorker(..) => "worker_cut_off",
            Self::CutOffMonitor(..) => "monitor_cut_off",
            Self::NoNeighbours(_) => "shared_cache_down",
            Self::Pause(..) => "pause_worker",
            Self::ClientBabbles(..) => "client_babbles",
            Self::HostBabbles(..) => "host_babbles",
            Self::Abandon(_) => "abandon",
        }
    }
}
