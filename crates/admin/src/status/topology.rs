//! What `trunkline topology` prints: each cluster as a tree, and what has happened last.

use std::collections::BTreeSet;

use trunkline_stats::topology::{ClusterRow, EventRow, MemberRow, Topology};

use super::{
    COLUMNS_MAX, line,
    table::{Align::Left, Align::Right, Column, Table},
    unit::since,
};

/// Events that are shown.
const EVENTS: usize = 10;
/// The deepest tree.
const DEPTH_MAX: usize = 8;

/// Clusters and their last events as text for a terminal, at `now_unix_sec`.
pub fn topology_text(topology: &Topology, now_unix_sec: u64) -> String {
    let mut text = String::new();
    if topology.clusters.is_empty() {
        line(&mut text, "no [[cluster]] is configured");
    }
    for cluster in &topology.clusters {
        let ClusterRow { name, kind, writer_hostgroup, reader_hostgroup, .. } = cluster;
        let (writer, reader) = (writer_hostgroup, reader_hostgroup);
        let head =
            format!("cluster {name} ({kind}), writer in hostgroup {writer}, readers in {reader}");
        line(&mut text, &head);
        text.push_str(&servers(cluster));
        for member in &cluster.servers {
            for warning in &member.warnings {
                line(&mut text, &format!("! {}: {warning}", member.address));
            }
        }
        text.push('\n');
    }
    text.push_str(&events(&topology.events, now_unix_sec));
    text
}

fn servers(cluster: &ClusterRow) -> String {
    let mut table = Table::new(vec![
        Column::flexible("server", Left),
        Column::new("role", Left),
        Column::new("reach", Left),
        Column::new("writable", Left),
        Column::new("lag", Right),
        Column::limited("version", Left, 20),
    ]);
    for (depth, member) in in_order(cluster) {
        let branch = match depth {
            0 => String::new(),
            depth => format!("{}└ ", "  ".repeat(depth - 1)),
        };
        table.row(vec![
            format!("{branch}{}", member.address),
            member.role.clone(),
            member.reach.clone(),
            member.writable.map_or("?", |is| if is { "yes" } else { "no" }).to_owned(),
            lag(member),
            member.version.clone(),
        ]);
    }
    table.render(COLUMNS_MAX)
}

/// How far a replica is behind: by the cluster's stream, with the transactions that it lacks, or
/// else as it says.
fn lag(member: &MemberRow) -> String {
    match (&member.source, member.behind_us, member.missing) {
        (None, _, _) => String::new(),
        (Some(_), Some(behind_us), None | Some(0)) => format!("{} ms", behind_us / 1_000),
        (Some(_), Some(behind_us), Some(missing)) => {
            format!("{} ms ({missing})", behind_us / 1_000)
        }
        (Some(_), None, _) => member.lag_sec.map_or("?".to_owned(), |sec| format!("{sec} s")),
    }
}

/// Members, each behind its source, with their depth in the tree.
fn in_order(cluster: &ClusterRow) -> Vec<(usize, &MemberRow)> {
    let is_member = |source: &String| cluster.servers.iter().any(|it| it.address == *source);
    let roots = cluster.servers.iter();
    let roots = roots.filter(|it| !it.source.as_ref().is_some_and(is_member));
    let mut waiting: Vec<(usize, &MemberRow)> = roots.map(|root| (0, root)).collect();
    waiting.reverse();
    let (mut ordered, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some((depth, member)) = waiting.pop() {
        if !seen.insert(&member.address) {
            continue;
        }
        ordered.push((depth, member));
        let below = cluster.servers.iter().rev();
        let below = below.filter(|it| it.source.as_ref() == Some(&member.address));
        waiting.extend(below.map(|it| ((depth + 1).min(DEPTH_MAX), it)));
    }
    // Servers that replicate from each other have no root.
    let rest = cluster.servers.iter().filter(|it| !seen.contains(&it.address));
    ordered.extend(rest.map(|it| (0, it)));
    ordered
}

fn events(events: &[EventRow], now_unix_sec: u64) -> String {
    if events.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::new("ago", Right),
        Column::new("event", Left),
        Column::new("server", Left),
        Column::flexible("evidence", Left),
    ]);
    for event in events.iter().rev().take(EVENTS) {
        table.row(vec![
            since(now_unix_sec.saturating_sub(event.at)),
            event.event.clone(),
            event.server.clone(),
            event.evidence.clone(),
        ]);
    }
    table.render(COLUMNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(address: &str, role: &str, source: Option<&str>) -> MemberRow {
        MemberRow {
            address: address.to_owned(),
            role: role.to_owned(),
            reach: "up".to_owned(),
            writable: Some(role == "writer"),
            source: source.map(str::to_owned),
            lag_sec: Some(3),
            version: "10.11".to_owned(),
            ..MemberRow::default()
        }
    }

    #[test]
    fn a_cluster_is_a_tree_with_its_warnings_and_last_events() {
        let mut chained = member("c:3306", "reader", Some("b:3306"));
        chained.warnings.push("report_host is not set".to_owned());
        let servers = vec![
            member("b:3306", "reader", Some("a:3306")),
            chained,
            member("a:3306", "writer", None),
            member("d:3306", "reader", Some("a:3306")),
        ];
        let cluster = ClusterRow {
            name: "shop".to_owned(),
            kind: "replication".to_owned(),
            servers,
            ..ClusterRow::default()
        };
        let event = EventRow {
            at: 40,
            event: "new_master".to_owned(),
            server: "a:3306".to_owned(),
            evidence: "it takes writes".to_owned(),
            ..EventRow::default()
        };
        let topology = Topology { clusters: vec![cluster], events: vec![event] };
        let text = topology_text(&topology, 100);
        let wanted = "\
cluster shop (replication), writer in hostgroup 0, readers in 0
server      role    reach  writable  lag  version
a:3306      writer  up     yes            10.11
└ b:3306    reader  up     no        3 s  10.11
  └ c:3306  reader  up     no        3 s  10.11
└ d:3306    reader  up     no        3 s  10.11
! c:3306: report_host is not set

      ago  event       server  evidence
1 min 0 s  new_master  a:3306  it takes writes
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_replica_is_as_far_behind_as_the_stream_says_or_it_says_itself() {
        let check = |missing, behind_us, lag_sec, expected: &str| {
            let row = member("b:1", "reader", Some("a:1"));
            assert_eq!(lag(&MemberRow { missing, behind_us, lag_sec, ..row }), expected);
        };
        check(None, None, None, "?");
        check(None, None, Some(3), "3 s");
        check(Some(0), Some(0), Some(3), "0 ms");
        check(Some(12), Some(340_900), None, "340 ms (12)");
    }

    #[test]
    fn a_ring_is_shown_whole() {
        let servers =
            vec![member("a:1", "writer", Some("b:1")), member("b:1", "standby", Some("a:1"))];
        let cluster = ClusterRow { servers, ..ClusterRow::default() };
        assert_eq!(in_order(&cluster).len(), 2);
    }
}
