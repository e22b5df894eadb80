//! Numbers of TCP listeners.

use serde::{Deserialize, Serialize};
use trunkline_topology::ServerState;

pub use crate::counters::{TcpCounters, TcpServerCounters};
use crate::report::StateName;

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpListenerRow {
    /// Its address as the configuration writes it.
    pub listener: String,
    /// Its hostgroup.
    pub hostgroup: u32,
    /// Clients now.
    pub connections: u64,
    /// Of them, those that wait for a server now.
    pub waiting: u64,
    /// The most clients at once.
    pub connections_max: u64,
    /// Plain counters.
    #[serde(flatten)]
    pub counters: TcpCounters,
    /// Its servers, those that have left the configuration as long as they have clients.
    pub servers: Vec<TcpServerRow>,
}

/// One server of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpServerRow {
    /// Its hostgroup.
    pub hostgroup: u32,
    /// Its address as the configuration writes it.
    pub address: String,
    /// Whether it takes clients.
    #[serde(with = "StateName")]
    pub state: ServerState,
    /// Its share of the clients.
    pub weight: u32,
    /// Connections now.
    pub connections: u64,
    /// Plain counters.
    #[serde(flatten)]
    pub counters: TcpServerCounters,
}

impl TcpListenerRow {
    /// Adds another worker's numbers of the same listener.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.waiting += other.waiting;
        self.connections_max = self.connections_max.max(other.connections_max);
        self.counters.merge(&other.counters);
        for row in &other.servers {
            let is_same = |own: &&mut TcpServerRow| {
                (own.hostgroup, &own.address) == (row.hostgroup, &row.address)
            };
            match self.servers.iter_mut().find(is_same) {
                Some(own) => own.merge(row),
                None => self.servers.push(row.clone()),
            }
        }
    }
}

impl TcpServerRow {
    /// Adds another worker's numbers, or those of an earlier server at the same address.
    pub fn merge(&mut self, other: &Self) {
        if (other.state as u8) > (self.state as u8) {
            self.state = other.state;
        }
        self.connections += other.connections;
        self.counters.merge(&other.counters);
    }
}
