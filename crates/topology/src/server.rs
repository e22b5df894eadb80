//! Servers and the hostgroups they form.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use crate::{Address, PinnedKeys, ServerHealth, ServerTls};

/// A group of interchangeable servers, named by a number as in ProxySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HostgroupId(pub u32);

impl fmt::Display for HostgroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What makes a server entry the same one across configuration changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerKey {
    /// The hostgroup that the entry belongs to.
    pub hostgroup: HostgroupId,
    /// Where the server listens.
    pub address: Address,
}

/// One server in one hostgroup.
#[derive(Debug, Clone)]
pub struct Server {
    /// Identity: survives a configuration change.
    pub key: ServerKey,
    /// Socket addresses that the control plane found for a TCP [`Address`]; empty for Unix
    /// sockets and for names not resolved yet.
    pub resolved: Vec<SocketAddr>,
    /// Share of the traffic among the hostgroup's online servers; 0 takes none.
    pub weight: u32,
    /// Servers of a higher rank take statements only when those of lower ones are out.
    pub rank: u32,
    /// Whether it is in the proxy's own zone, or it does not matter where it is.
    pub is_near: bool,
    /// The most connections to this server over all workers.
    pub max_connections: u32,
    /// The most that it may lag behind what it replicates, s; 0 for no limit.
    pub max_replication_lag: u32,
    /// Whether new connections to it are compressed.
    pub compression: ServerCompression,
    /// Whether and how new connections to it are encrypted.
    pub tls: ServerTls,
    /// The keys that it may ask for a password with where they are not.
    pub keys: Arc<PinnedKeys>,
    /// Shared by all workers and kept across configuration changes of the same key.
    pub health: Arc<ServerHealth>,
}

impl Server {
    /// Whether its address is one of the host's own: on another host it is another server.
    pub fn is_on_loopback(&self) -> bool {
        self.resolved.iter().any(|at| is_this_host(at.ip()))
    }
}

/// Whether who connects to an address connects to its own host: `127.0.0.1`, `0.0.0.0` and their
/// like.
pub fn is_this_host(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

/// Whether connections to a server are compressed, where the server can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerCompression {
    /// They are not.
    #[default]
    Off,
    /// With zlib.
    Zlib,
    /// With zstd, or zlib where the server has only that.
    Zstd,
}

/// A writer hostgroup with its readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationGroup {
    /// Takes everything that is not certainly a read.
    pub writer_hostgroup: HostgroupId,
    /// Takes statements that only read, outside transactions.
    pub reader_hostgroup: HostgroupId,
    /// Who decides what is a read.
    pub read_write_split: ReadWriteSplit,
}

/// Who sends statements to the reader hostgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadWriteSplit {
    /// Trunkline, from its analysis of each statement, where no rule has decided.
    #[default]
    Auto,
    /// Query rules alone.
    Rules,
}
