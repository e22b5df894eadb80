//! The numbers of one worker's listeners.

use trunkline_stats::{TcpListenerRow, TcpServerRow};
use trunkline_topology::ServerState;

use super::{
    Relay,
    front::{Front, Role, ServerSlot},
};

impl Relay {
    /// The numbers of all listeners.
    pub fn report(&self) -> Vec<TcpListenerRow> {
        let fronts = self.fronts.iter().filter(|front| front.is_open || front.pairs > 0);
        fronts.map(|front| self.row(front)).collect()
    }

    fn row(&self, front: &Front) -> TcpListenerRow {
        let slots = front.servers.iter();
        let shown = slots.filter(|slot| slot.role != Role::Gone || slot.connections > 0);
        let mut servers: Vec<TcpServerRow> = Vec::new();
        for row in shown.map(|slot| self.server_row(slot)) {
            let is_same = |other: &&mut TcpServerRow| {
                (other.hostgroup, &other.address) == (row.hostgroup, &row.address)
            };
            match servers.iter_mut().find(is_same) {
                Some(other) => other.merge(&row),
                None => servers.push(row),
            }
        }
        TcpListenerRow {
            listener: front.address().to_string(),
            hostgroup: front.config.options.hostgroup.0,
            connections: u64::from(front.pairs),
            waiting: front.waiting.len() as u64,
            connections_max: u64::from(front.config.options.max_connections),
            counters: front.totals,
            servers,
        }
    }

    fn server_row(&self, slot: &ServerSlot) -> TcpServerRow {
        TcpServerRow {
            hostgroup: slot.server.key.hostgroup.0,
            address: slot.server.key.address.to_string(),
            state: match slot.role {
                Role::Active | Role::Backup => slot.server.health.state(self.now_ms),
                Role::Gone => ServerState::OfflineSoft,
            },
            weight: slot.server.weight,
            connections: u64::from(slot.connections),
            counters: slot.totals,
        }
    }
}
