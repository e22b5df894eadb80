//! Servers by hostgroup, with what was counted of them before.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
};

use trunkline_topology::{
    Address, HostgroupId, PinnedKeys, Role, Server, ServerHealth, ServerKey, ServerState, ServerTls,
};

use super::{Cluster, Hostgroup, Snapshot, TlsWishes, clusters};
use crate::{Config, ServerEntry};

/// The hostgroups of a configuration. What is counted of servers that `previous` has too goes on,
/// and servers that are gone take nothing more.
pub(super) fn build_hostgroups(
    config: &Config,
    clusters: &[Arc<Cluster>],
    wishes: &TlsWishes<'_>,
    previous: Option<&Snapshot>,
) -> BTreeMap<HostgroupId, Hostgroup> {
    let entries = config.server_entries();
    let entries_before = previous.map(|previous| previous.config.server_entries());
    // A snapshot has one server for each entry of its configuration, in no particular order.
    let servers_before: HashMap<&ServerKey, &Arc<Server>> = previous
        .into_iter()
        .flat_map(Snapshot::servers)
        .map(|server| (&server.key, server))
        .collect();
    let states_before: HashMap<&ServerKey, ServerState> =
        entries_before.iter().flatten().map(|entry| (&entry.key, entry.status)).collect();
    let resolved_before: HashMap<&Address, &[SocketAddr]> = previous
        .into_iter()
        .flat_map(Snapshot::servers)
        .map(|server| (&server.key.address, server.resolved.as_slice()))
        .collect();

    let mut hostgroups = BTreeMap::new();
    for entry in &entries {
        let id = entry.key.hostgroup;
        let role = clusters::role(clusters, &entry.key);
        let (keys, tls) = (config.keys_of(id), wishes.of(entry));
        let health = match (servers_before.get(&entry.key), role) {
            (Some(before), role) => {
                if states_before.get(&entry.key) != Some(&entry.status) {
                    before.health.set_state(entry.status);
                }
                follow_change(before, entry, role, (&keys, &tls));
                Arc::clone(&before.health)
            }
            (None, Some(role)) => Arc::new(ServerHealth::of_member(entry.status, role)),
            (None, None) => Arc::new(ServerHealth::new(entry.status)),
        };
        let server = Arc::new(Server {
            key: entry.key.clone(),
            resolved: resolve(&entry.key.address, &resolved_before),
            weight: entry.weight,
            rank: entry.rank,
            is_near: is_near(&entry.zone, &wishes.settings.zone),
            max_connections: entry.max_connections,
            max_replication_lag: entry.max_replication_lag,
            compression: entry.compression,
            tls,
            keys,
            health,
        });
        let hostgroup = hostgroups.entry(id).or_insert_with(|| empty(id, config));
        hostgroup.servers.push(server);
    }
    let kept: HashSet<*const ServerHealth> = hostgroups
        .values()
        .flat_map(|hostgroup: &Hostgroup| &hostgroup.servers)
        .map(|server| Arc::as_ptr(&server.health))
        .collect();
    let is_gone = |server: &&&Arc<Server>| !kept.contains(&Arc::as_ptr(&server.health));
    for server in servers_before.values().filter(is_gone) {
        server.health.set_state(ServerState::OfflineSoft);
    }
    hostgroups
}

/// What a server's health learns of a change of its configuration, beside that of its status.
fn follow_change(
    before: &Server,
    entry: &ServerEntry,
    role: Option<Role>,
    (keys, tls): (&Arc<PinnedKeys>, &ServerTls),
) {
    let health = &before.health;
    if !clusters::is_same(health.role(), role.as_ref()) {
        health.set_role(role);
    }
    if entry.max_replication_lag == 0 {
        health.set_lagging(false);
    }
    if before.keys != *keys {
        // What failed may have been for want of them.
        health.count_success();
    }
    if before.tls != *tls {
        health.retire_connections();
        // What failed may have been what has changed.
        health.count_success();
    }
}

/// Whether a server in one zone is near a proxy in the other.
fn is_near(server: &str, proxy: &str) -> bool {
    server.is_empty() || proxy.is_empty() || server == proxy
}

fn empty(id: HostgroupId, config: &Config) -> Hostgroup {
    let said = config.hostgroups.iter().find(|entry| entry.id == id);
    let pipeline = said.map(|entry| entry.pipeline).unwrap_or_default();
    let balance = said.map(|entry| entry.balance).unwrap_or_default();
    let causal_reads = said.and_then(|entry| entry.causal_reads);
    let lazy_transactions = said.and_then(|entry| entry.lazy_transactions);
    Hostgroup { id, servers: Vec::new(), pipeline, balance, causal_reads, lazy_transactions }
}

/// A literal is its own address; a name has what was found for it before.
fn resolve(address: &Address, before: &HashMap<&Address, &[SocketAddr]>) -> Vec<SocketAddr> {
    match (address, address.literal()) {
        (Address::Tcp { port, .. }, Some(ip)) => vec![SocketAddr::new(ip, *port)],
        (Address::Tcp { .. }, None) => before.get(address).copied().unwrap_or_default().to_vec(),
        (Address::Unix(_), _) => Vec::new(),
    }
}
