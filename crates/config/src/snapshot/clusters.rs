//! Clusters of the running configuration: who their members are, and the cells that say who
//! writes. Both go on over a reload.

use std::sync::{Arc, atomic::AtomicBool};

use trunkline_topology::{Address, HostgroupId, Role, ServerKey, TableVersions, WriterCell};

use super::Snapshot;
use crate::{ClusterEntry, Config, ServerEntry, cluster::ClusterKind};

/// A cluster as it runs.
#[derive(Debug)]
pub struct Cluster {
    /// What the operator wrote.
    pub entry: ClusterEntry,
    /// Who writes.
    pub cell: Arc<WriterCell>,
    /// When its tables were changed last, where its binary log is followed.
    pub versions: Option<Arc<TableVersions>>,
    /// Its servers.
    pub members: Vec<Member>,
    /// The number of the next new member.
    next_number: u32,
}

/// A server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number: no other server of the cluster ever has it.
    pub number: u32,
    /// Where it is.
    pub address: Address,
    /// Whether it is listed in the writers' hostgroup.
    pub is_listed_writer: bool,
    /// Whether it is listed in the readers' hostgroup.
    pub is_listed_reader: bool,
    /// Its weight among writers.
    pub weight: u32,
    /// Whether the configuration names it; the others were discovered.
    pub is_named: bool,
}

impl Cluster {
    /// The entry of a member in a hostgroup of the cluster.
    pub fn key(&self, member: &Member, hostgroup: HostgroupId) -> ServerKey {
        ServerKey { hostgroup, address: member.address.clone() }
    }

    /// The member with this number.
    pub fn member(&self, number: u32) -> Option<&Member> {
        self.members.iter().find(|member| member.number == number)
    }
}

/// The clusters of a configuration, with the cells and numbers of those that run.
pub(super) fn build(config: &Config, previous: Option<&Snapshot>) -> Vec<Arc<Cluster>> {
    let build = |entry: &ClusterEntry| {
        let is_same = |it: &&Arc<Cluster>| {
            let hostgroups =
                |it: &ClusterEntry| (it.kind, it.writer_hostgroup, it.reader_hostgroup);
            it.entry.name == entry.name && hostgroups(&it.entry) == hostgroups(entry)
        };
        let before = previous.into_iter().flat_map(|previous| &previous.clusters).find(is_same);
        let mut next_number = before.map_or(0, |before| before.next_number);
        let mut number = |address: &Address| {
            let known = before.and_then(|it| it.members.iter().find(|it| it.address == *address));
            known.map_or_else(
                || {
                    next_number += 1;
                    next_number - 1
                },
                |member| member.number,
            )
        };
        let listed = |address: &Address, hostgroup| {
            let is_it =
                |it: &&ServerEntry| it.key.hostgroup == hostgroup && it.key.address == *address;
            config.servers.iter().find(is_it)
        };
        let named = entry.members(&config.servers, &[]);
        let addresses = entry.members(&config.servers, config.discovered_of(entry));
        let members = addresses.into_iter().map(|address| {
            let writer = listed(&address, entry.writer_hostgroup);
            let reader = listed(&address, entry.reader_hostgroup);
            Member {
                number: number(&address),
                is_listed_writer: writer.is_some(),
                is_listed_reader: reader.is_some(),
                weight: writer.or(reader).map_or(1, |entry| entry.weight),
                is_named: named.contains(&address),
                address,
            }
        });
        let members = members.collect();
        let cell = before.map(|before| Arc::clone(&before.cell)).unwrap_or_default();
        let versions = entry
            .binlog_stream
            .then(|| before.and_then(|before| before.versions.clone()).unwrap_or_default());
        Arc::new(Cluster { entry: entry.clone(), cell, versions, members, next_number })
    };
    config.clusters.iter().map(build).collect()
}

/// The role that a server entry stands for, where it is one of a cluster.
pub(super) fn role(clusters: &[Arc<Cluster>], key: &ServerKey) -> Option<Role> {
    let of = |cluster: &Arc<Cluster>| {
        let entry = &cluster.entry;
        let member = cluster.members.iter().find(|member| member.address == key.address)?;
        let is_listed = entry.begins_as_listed();
        let shared = |is_given, ends_statements| Role::Shared {
            is_given: AtomicBool::new(is_listed && is_given),
            ends_statements,
        };
        match key.hostgroup {
            id if id == entry.writer_hostgroup => Some(match entry.kind {
                ClusterKind::Replication | ClusterKind::RdsMultiAz => {
                    Role::Writer { cell: Arc::clone(&cluster.cell), member: member.number }
                }
                // Of one that has become read-only, nothing more is written.
                ClusterKind::ReadOnly | ClusterKind::InnodbCluster | ClusterKind::Aurora => {
                    shared(member.is_listed_writer, true)
                }
                // What is under way on a node of a group is certified like everything else.
                ClusterKind::Galera | ClusterKind::GroupReplication => {
                    shared(member.is_listed_writer, false)
                }
            }),
            id if id == entry.reader_hostgroup => Some(shared(member.is_listed_reader, false)),
            id if Some(id) == entry.backup_writer_hostgroup => Some(shared(false, false)),
            _ => None,
        }
    };
    clusters.iter().find_map(of)
}

/// Whether a server's health goes on: it stands for the same role.
pub(super) fn is_same(before: Option<&Role>, now: Option<&Role>) -> bool {
    match (before, now) {
        (None, None) => true,
        (
            Some(Role::Shared { ends_statements, .. }),
            Some(Role::Shared { ends_statements: now, .. }),
        ) => ends_statements == now,
        (
            Some(Role::Writer { cell, member }),
            Some(Role::Writer { cell: other, member: number }),
        ) => Arc::ptr_eq(cell, other) && member == number,
        _ => false,
    }
}
