//! Clusters: servers whose roles are found out.

use trunkline_topology::{
    Address, HostgroupId, ReadWriteSplit, ReplicationGroup, ServerKey, ServerState,
};

use crate::{ServerEntry, words::words};

/// The most servers that a cluster may have, discovered ones too.
pub const MEMBERS_MAX: usize = 256;

/// One `[[cluster]]` as the operator wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEntry {
    /// Its name.
    pub name: String,
    /// How roles are found out.
    pub kind: ClusterKind,
    /// Where the writer serves.
    pub writer_hostgroup: HostgroupId,
    /// Where readers serve.
    pub reader_hostgroup: HostgroupId,
    /// Servers to begin with; the rest is discovered.
    pub seeds: Vec<Address>,
    /// The variables that say whether a server takes writes.
    pub check_type: CheckType,
    /// Whether the writer takes reads as well.
    pub writer_is_also_reader: bool,
    /// What is done when the writer is lost.
    pub failover: Failover,
    /// Who decides what is a read.
    pub read_write_split: ReadWriteSplit,
    /// Whether servers have the roles that they are listed with until something else is seen, and
    /// none are discovered: ProxySQL's `mysql_replication_hostgroups`.
    pub goes_by_list: bool,
    /// Free text.
    pub comment: String,
}

impl ClusterEntry {
    /// Its servers: those listed in its hostgroups, the writer's first, then seeds, then those
    /// that were discovered. Each comes once.
    pub fn members(&self, listed: &[ServerEntry], discovered: &[Address]) -> Vec<Address> {
        let mut members: Vec<Address> = Vec::new();
        let of = |hostgroup: HostgroupId| {
            let entries = listed.iter().filter(move |entry| entry.key.hostgroup == hostgroup);
            entries.map(|entry| &entry.key.address)
        };
        let all = of(self.writer_hostgroup).chain(of(self.reader_hostgroup));
        for address in all.chain(&self.seeds).chain(discovered) {
            if !members.contains(address) && members.len() < MEMBERS_MAX {
                members.push(address.clone());
            }
        }
        members
    }

    /// Entries of its members in those of its hostgroups that they are not listed in: as where
    /// they are listed, or as another server of the cluster.
    pub(crate) fn added_entries(
        &self,
        listed: &[ServerEntry],
        discovered: &[Address],
    ) -> Vec<ServerEntry> {
        let hostgroups = [self.writer_hostgroup, self.reader_hostgroup];
        let own: Vec<&ServerEntry> =
            listed.iter().filter(|entry| hostgroups.contains(&entry.key.hostgroup)).collect();
        let mut added = Vec::new();
        for address in self.members(listed, discovered) {
            let like = own.iter().find(|entry| entry.key.address == address);
            let status = like.map_or(ServerState::Online, |entry| entry.status);
            let like = like.or(own.first());
            for hostgroup in hostgroups {
                let key = ServerKey { hostgroup, address: address.clone() };
                if own.iter().any(|entry| entry.key == key) {
                    continue;
                }
                let entry = match like {
                    Some(like) => ServerEntry { key, status, ..ServerEntry::clone(like) },
                    None => ServerEntry::new(key),
                };
                added.push(entry);
            }
        }
        added
    }

    /// Its hostgroups, as routing sees them.
    pub fn replication(&self) -> ReplicationGroup {
        ReplicationGroup {
            writer_hostgroup: self.writer_hostgroup,
            reader_hostgroup: self.reader_hostgroup,
            read_write_split: self.read_write_split,
        }
    }
}

words! {
    /// How the roles of a cluster's servers are found out.
    ClusterKind {
        /// Asynchronous or semi-synchronous replication: by `read_only`, and who is whose source.
        #[default] Replication = "replication",
    }
}

words! {
    /// The variables that say whether a server takes writes.
    CheckType {
        /// `read_only`.
        #[default] ReadOnly = "read_only",
        /// `innodb_read_only`.
        InnodbReadOnly = "innodb_read_only",
        /// `super_read_only` (MySQL).
        SuperReadOnly = "super_read_only",
        /// Read-only if one of both is on.
        Either = "read_only|innodb_read_only",
        /// Read-only if both are on.
        Both = "read_only&innodb_read_only",
    }
}

words! {
    /// What is done when the writer is lost.
    Failover {
        /// Somebody else promotes a server; that is followed.
        #[default] Follow = "follow",
    }
}
