//! Clusters, and what the monitor has checked.

use trunkline_stats::{
    metrics,
    topology::{ClusterRow, MemberRow, MonitorFigures, REACHES, ROLES, StreamRow},
};

use super::Exposition;

pub(super) fn clusters(out: &mut Exposition<'_>, monitor: &MonitorFigures) {
    if !monitor.checks.is_empty() {
        out.head(&metrics::MONITOR_CHECKS);
        for sums in &monitor.checks {
            for (outcome, count) in [("ok", sums.ok), ("failed", sums.failed)] {
                out.sample(&[("check", sums.kind.as_str()), ("outcome", outcome)], count);
            }
        }
    }
    streams(out, &monitor.streams);
    let clusters = &monitor.clusters;
    if clusters.is_empty() {
        return;
    }
    let series =
        |value: fn(&ClusterRow) -> u64| clusters.iter().map(move |it| (it.name.clone(), value(it)));
    out.labelled(&metrics::CLUSTER_WRITERS, series(writers));
    let changes = clusters.iter().map(|it| (it.name.clone(), new_writers(monitor, &it.name)));
    out.labelled(&metrics::CLUSTER_WRITER_CHANGES, changes);
    out.head(&metrics::CLUSTER_EVENTS);
    for sum in &monitor.events {
        out.sample(&[("cluster", sum.cluster.as_str()), ("event", sum.event.as_str())], sum.count);
    }
    out.head(&metrics::CLUSTER_SERVER_ROLE);
    for (cluster, server) in members(clusters) {
        one_of(out, labels(cluster, server), "role", &ROLES, &server.role);
    }
    out.head(&metrics::CLUSTER_SERVER_REACH);
    for (cluster, server) in members(clusters) {
        one_of(out, labels(cluster, server), "reach", &REACHES, &server.reach);
    }
    out.head(&metrics::CLUSTER_SERVER_LAG);
    for (cluster, server) in members(clusters) {
        if let Some(lag_sec) = server.lag_sec {
            out.sample(&labels(cluster, server), lag_sec);
        }
    }
    if members(clusters).any(|(_, server)| server.missing.is_some()) {
        out.head(&metrics::CLUSTER_SERVER_MISSING);
        for (cluster, server) in members(clusters) {
            server.missing.into_iter().for_each(|it| out.sample(&labels(cluster, server), it));
        }
        out.head(&metrics::CLUSTER_SERVER_BEHIND);
        for (cluster, server) in members(clusters) {
            server.behind_us.into_iter().for_each(|it| out.sample(&labels(cluster, server), it));
        }
    }
    out.head(&metrics::CLUSTER_SERVER_WARNINGS);
    for (cluster, server) in members(clusters) {
        out.sample(&labels(cluster, server), server.warnings.len());
    }
}

fn streams(out: &mut Exposition<'_>, streams: &[StreamRow]) {
    if streams.is_empty() {
        return;
    }
    let series = |value: fn(&StreamRow) -> u64| {
        streams.iter().map(move |it| (it.cluster.clone(), value(it)))
    };
    out.labelled(&metrics::BINLOG_STREAM_UP, series(|it| u64::from(!it.server.is_empty())));
    out.labelled(&metrics::BINLOG_TRANSACTIONS, series(|it| it.transactions));
    out.labelled(&metrics::BINLOG_GAPS, series(|it| it.gaps));
    out.labelled(&metrics::BINLOG_LAG, series(|it| it.lag_us));
}

fn writers(cluster: &ClusterRow) -> u64 {
    let writers = cluster.servers.iter().filter(|server| server.role == "writer");
    u64::try_from(writers.count()).unwrap_or(u64::MAX)
}

/// How often a server has become the writer of a cluster.
fn new_writers(monitor: &MonitorFigures, cluster: &str) -> u64 {
    let mut sums = monitor.events.iter();
    let found = sums.find(|sum| sum.cluster == cluster && sum.event == "new_master");
    found.map_or(0, |sum| sum.count)
}

fn members(clusters: &[ClusterRow]) -> impl Iterator<Item = (&ClusterRow, &MemberRow)> {
    clusters.iter().flat_map(|cluster| cluster.servers.iter().map(move |it| (cluster, it)))
}

fn labels<'a>(cluster: &'a ClusterRow, server: &'a MemberRow) -> [(&'static str, &'a str); 2] {
    [("cluster", &cluster.name), ("server", &server.address)]
}

/// A series for each of `all`: 1 for the one that it `is`.
fn one_of(
    out: &mut Exposition<'_>,
    [cluster, server]: [(&'static str, &str); 2],
    label: &'static str,
    all: &[&'static str],
    is: &str,
) {
    for name in all {
        out.sample(&[cluster, server, (label, *name)], u8::from(*name == is));
    }
}
