//! `[[replication]]`.

use trunkline_topology::{HostgroupId, ReadWriteSplit, ReplicationGroup};

use crate::{
    file::{
        check::{Entries, HOSTGROUPS, Placed},
        report::Report,
        table::Table,
    },
    settings::read_text,
};

/// Columns of ProxySQL's `mysql_replication_hostgroups` that come with later features.
const LATER: [&str; 1] = ["check_type"];

pub(super) fn read(table: &mut Table<'_>, report: &mut Report<'_>, entries: &mut Entries) {
    let mut hostgroup = |name: &'static str| {
        let number = table.number(report, name, HOSTGROUPS);
        if !table.has(name) {
            table.missing(report, name);
        }
        number.map(HostgroupId)
    };
    let writer = hostgroup("writer_hostgroup");
    let reader = hostgroup("reader_hostgroup");
    let split = table.value(report, "read_write_split", |given| match read_text(given)? {
        "auto" => Ok(ReadWriteSplit::Auto),
        "rules" => Ok(ReadWriteSplit::Rules),
        other => Err(format!("must be auto or rules, not `{other}`")),
    });
    let _comment = table.text(report, "comment");
    table.finish(report, &LATER);

    let (Some(writer_hostgroup), Some(reader_hostgroup)) = (writer, reader) else {
        return;
    };
    let read_write_split = split.unwrap_or_default();
    let group = ReplicationGroup { writer_hostgroup, reader_hostgroup, read_write_split };
    let place = Placed { value: group, at: table.place("writer_hostgroup") };
    entries.replication.push((place, table.place("reader_hostgroup")));
}
