//! `[[replication]]`.

use trunkline_topology::{HostgroupId, ReadWriteSplit, ReplicationGroup};

use crate::{
    Wrong,
    cluster::{CheckType, ClusterEntry, ClusterKind, ClusterSection},
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        cluster::listed_name,
        row::Row,
        section::{Column, Draft, comment, needed, number, read_word, value},
    },
    settings::{Given, read_text},
};

#[derive(Default)]
pub(super) struct ReplicationDraft {
    writer: Option<HostgroupId>,
    reader: Option<HostgroupId>,
    split: ReadWriteSplit,
    /// Servers' roles are found out by this.
    check_type: Option<CheckType>,
}

impl Draft for ReplicationDraft {
    const NAME: &'static str = "replication";
    const TABLE: &'static str = "mysql_replication_hostgroups";
    const KEY: &'static str = "writer_hostgroup {writer_hostgroup}";
    const COLUMNS: &'static [Column<Self>] = &[
        needed(number("writer_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.writer = Some(HostgroupId(id))
        })),
        needed(number("reader_hostgroup", 0, HOSTGROUP_MAX, |it, id| {
            it.reader = Some(HostgroupId(id))
        })),
        // ProxySQL's tables have no place for it but the settings of the writer's hostgroup.
        value("read_write_split", |it, given| read_split(given).map(|split| it.split = split)),
        value("check_type", |it, given| {
            let read = read_word(given, CheckType::WORDS, CheckType::from_lower_case);
            read.map(|by| it.check_type = Some(by))
        }),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        let (Some(writer_hostgroup), Some(reader_hostgroup)) = (self.writer, self.reader) else {
            return;
        };
        let (read_write_split, index) = (self.split, row.index);
        let Some(check_type) = self.check_type else {
            let value = ReplicationGroup { writer_hostgroup, reader_hostgroup, read_write_split };
            entries.replication.push(Placed { value, index });
            return;
        };
        let name = listed_name(writer_hostgroup, reader_hostgroup);
        let kind = ClusterKind::ReadOnly;
        let mut value = ClusterEntry::new(name, kind, writer_hostgroup, reader_hostgroup);
        value.section = ClusterSection::Replication;
        value.check_type = check_type;
        value.read_write_split = read_write_split;
        value.writer_is_also_reader = None;
        entries.clusters.push(Placed { value, index });
    }
}

/// `auto` or `rules`.
pub(super) fn read_split(given: &Given) -> Result<ReadWriteSplit, Wrong> {
    match read_text(given)? {
        "auto" => Ok(ReadWriteSplit::Auto),
        "rules" => Ok(ReadWriteSplit::Rules),
        other => Err(format!("must be auto or rules, not `{other}`").into()),
    }
}
