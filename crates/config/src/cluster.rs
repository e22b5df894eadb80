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
    /// Where those serve that would write if a writer failed, in a group.
    pub backup_writer_hostgroup: Option<HostgroupId>,
    /// Where those are shown that must not serve, in a group: nobody is sent there.
    pub offline_hostgroup: Option<HostgroupId>,
    /// Servers to begin with; the rest is discovered.
    pub seeds: Vec<Address>,
    /// The variables that say whether a server takes writes.
    pub check_type: CheckType,
    /// The most servers of a group that write.
    pub max_writers: u32,
    /// Write sets that a reader of a group may be behind; 0 for any number.
    pub max_transactions_behind: u32,
    /// How far a reader of Aurora may be behind, ms; 0 for any time.
    pub max_lag_ms: u32,
    /// What follows the names of Aurora's instances, with a dot in front; empty where none are
    /// discovered.
    pub domain_name: String,
    /// Aurora's port; 0 is that of the server that has told.
    pub port: u16,
    /// How often its servers are asked, and how long an answer may take, ms; `None` is as the
    /// settings say.
    pub check_ms: Option<(u64, u64)>,
    /// The weight of a server that was discovered; `None` is that of the first listed one.
    pub new_weight: Option<u32>,
    /// Whether writers take reads as well; `None` is as `monitor_writer_is_also_reader` says.
    pub writer_is_also_reader: Option<WriterReads>,
    /// What is done when the writer is lost.
    pub failover: Failover,
    /// Who is preferred in a failover among servers that have equally much.
    pub candidates: Vec<Address>,
    /// Whether the writer's binary log is followed.
    pub binlog_stream: bool,
    /// How long statements are held while there is no writer, ms; `None` is as the setting
    /// `hold_timeout` says.
    pub hold_timeout: Option<u64>,
    /// Who decides what is a read.
    pub read_write_split: ReadWriteSplit,
    /// The section that it stands in.
    pub section: ClusterSection,
    /// Free text.
    pub comment: String,
}

/// Where a cluster is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterSection {
    /// `[[cluster]]`: nobody has a role before it was seen, and more servers are discovered.
    Cluster,
    /// `[[replication]]` with `check_type`: ProxySQL's `mysql_replication_hostgroups`.
    Replication,
    /// ProxySQL's `mysql_galera_hostgroups`.
    Galera,
    /// ProxySQL's `mysql_group_replication_hostgroups`.
    GroupReplication,
    /// ProxySQL's `mysql_aws_aurora_hostgroups`.
    Aurora,
}

impl ClusterSection {
    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Replication => "replication",
            Self::Galera => "galera",
            Self::GroupReplication => "group_replication",
            Self::Aurora => "aurora",
        }
    }
}

impl ClusterEntry {
    /// A cluster of which nothing is said but its name, its kind and its hostgroups.
    pub fn new(name: String, kind: ClusterKind, writer: HostgroupId, reader: HostgroupId) -> Self {
        Self {
            name,
            kind,
            writer_hostgroup: writer,
            reader_hostgroup: reader,
            backup_writer_hostgroup: None,
            offline_hostgroup: None,
            seeds: Vec::new(),
            check_type: CheckType::default(),
            max_writers: 1,
            max_transactions_behind: 0,
            max_lag_ms: 0,
            domain_name: String::new(),
            port: 0,
            check_ms: None,
            new_weight: None,
            writer_is_also_reader: Some(WriterReads::No),
            failover: Failover::default(),
            candidates: Vec::new(),
            binlog_stream: false,
            hold_timeout: None,
            read_write_split: ReadWriteSplit::default(),
            section: ClusterSection::Cluster,
            comment: String::new(),
        }
    }

    /// Whether servers have the roles that they are listed with until something else is seen, as
    /// with ProxySQL's tables.
    pub fn begins_as_listed(&self) -> bool {
        self.section != ClusterSection::Cluster
    }

    /// Whether more servers are looked for. ProxySQL does so with Aurora only.
    pub fn discovers(&self) -> bool {
        matches!(self.section, ClusterSection::Cluster | ClusterSection::Aurora)
    }

    /// The hostgroups that its servers serve in: the writers', the readers', the backup writers'.
    pub fn serving(&self) -> impl Iterator<Item = HostgroupId> {
        [self.writer_hostgroup, self.reader_hostgroup]
            .into_iter()
            .chain(self.backup_writer_hostgroup)
    }

    /// All its hostgroups.
    pub fn hostgroups(&self) -> impl Iterator<Item = HostgroupId> {
        self.serving().chain(self.offline_hostgroup)
    }

    /// Its servers: those listed in its hostgroups, the writer's first, then seeds, then those
    /// that were discovered. Each comes once.
    pub fn members(&self, listed: &[ServerEntry], discovered: &[Address]) -> Vec<Address> {
        let mut members: Vec<Address> = Vec::new();
        let of = |hostgroup: HostgroupId| {
            let entries = listed.iter().filter(move |entry| entry.key.hostgroup == hostgroup);
            entries.map(|entry| &entry.key.address)
        };
        let all = self.hostgroups().flat_map(of);
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
        let is_own = |id: HostgroupId| self.hostgroups().any(|own| own == id);
        let own: Vec<&ServerEntry> =
            listed.iter().filter(|entry| is_own(entry.key.hostgroup)).collect();
        let mut added = Vec::new();
        for address in self.members(listed, discovered) {
            let like = own.iter().find(|entry| entry.key.address == address);
            let status = like.map_or(ServerState::Online, |entry| entry.status);
            let is_new = like.is_none();
            let like = like.or(own.first());
            for hostgroup in self.serving() {
                let key = ServerKey { hostgroup, address: address.clone() };
                if own.iter().any(|entry| entry.key == key) {
                    continue;
                }
                let mut entry = match like {
                    Some(like) => ServerEntry { key, status, ..ServerEntry::clone(like) },
                    None => ServerEntry::new(key),
                };
                if is_new {
                    entry.weight = self.new_weight.unwrap_or(entry.weight);
                }
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
        /// By `read_only` alone: each server that takes writes is a writer.
        ReadOnly = "read_only",
        /// Galera: by what a node says of itself and its cluster.
        Galera = "galera",
        /// MySQL's Group Replication: by what a member says of itself and its group.
        GroupReplication = "group_replication",
        /// InnoDB Cluster, ReplicaSet and ClusterSet: by the metadata that MySQL Shell writes.
        InnodbCluster = "innodb_cluster",
        /// Amazon Aurora: by its table of replicas.
        Aurora = "aurora",
        /// An Amazon RDS Multi-AZ DB cluster: as replication, with servers from its own table.
        RdsMultiAz = "rds_multi_az",
    }
}

words! {
    /// Whether writers take reads as well.
    WriterReads {
        /// They do not.
        #[default] No = "false",
        /// They do, and backup writers too.
        Yes = "true",
        /// Only backup writers do.
        OnlyBackups = "backups",
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
        #[default] Off = "off",
        /// It is said what would be done, too.
        Advise = "advise",
        /// Another server is promoted.
        Auto = "auto",
    }
}

impl CheckType {
    /// The value of a word in any case, as ProxySQL takes it.
    pub(crate) fn from_lower_case(word: &str) -> Option<Self> {
        Self::from_word(&word.to_ascii_lowercase())
    }
}
