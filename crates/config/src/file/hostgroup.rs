//! `[[hostgroup]]`.

use trunkline_topology::{HostgroupId, Pipeline};

use crate::{
    HostgroupEntry,
    file::{
        check::{Entries, HOSTGROUPS, Placed},
        report::Report,
        table::Table,
    },
    settings::Given,
};

/// Columns of ProxySQL's `mysql_hostgroup_attributes` that come with later features.
const LATER: [&str; 9] = [
    "max_num_online_servers",
    "autocommit",
    "free_connections_pct",
    "init_connect",
    "multiplex",
    "connection_warming",
    "throttle_connections_per_sec",
    "ignore_session_variables",
    "servers_defaults",
];

pub(super) fn read(table: &mut Table<'_>, report: &mut Report<'_>, entries: &mut Entries) {
    let id = table.number(report, "hostgroup_id", HOSTGROUPS);
    if !table.has("hostgroup_id") {
        table.missing(report, "hostgroup_id");
    }
    let pipeline = table.value(report, "pipeline", read_pipeline);
    let comment = table.text(report, "comment").unwrap_or_default();
    table.finish(report, &LATER);
    if let Some(id) = id {
        let pipeline = pipeline.unwrap_or_default();
        let value = HostgroupEntry { id: HostgroupId(id), pipeline, comment };
        entries.hostgroup_entries.push(Placed { value, at: table.place("hostgroup_id") });
    }
}

/// `"auto"`, `"off"` or a number.
pub(super) fn read_pipeline(given: &Given) -> Result<Pipeline, String> {
    match given {
        Given::Text(text) => text.parse(),
        Given::Integer(number) => number.to_string().parse(),
        Given::Boolean(_) | Given::List(_) | Given::Other(_) => {
            Err(format!("must be \"auto\", \"off\" or 1 to {}", Pipeline::DEPTH_MAX))
        }
    }
}
