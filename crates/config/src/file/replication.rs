//! `[[replication]]`.

use trunkline_topology::{HostgroupId, ReadWriteSplit, ReplicationGroup};

use crate::{
    Wrong,
    file::{
        check::{Entries, HOSTGROUP_MAX, Placed},
        row::Row,
        section::{Column, Draft, comment, harmless, later, needed, number, value},
    },
    settings::{Given, read_text},
};

#[derive(Default)]
pub(super) struct ReplicationDraft {
    writer: Option<HostgroupId>,
    reader: Option<HostgroupId>,
    split: ReadWriteSplit,
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
        harmless(later("check_type")),
        comment(),
    ];

    fn finish(self, row: &mut Row<'_, '_>, entries: &mut Entries) {
        if let (Some(writer_hostgroup), Some(reader_hostgroup)) = (self.writer, self.reader) {
            let read_write_split = self.split;
            let value = ReplicationGroup { writer_hostgroup, reader_hostgroup, read_write_split };
            entries.replication.push(Placed { value, index: row.index });
        }
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
