//! Numbers of TCP listeners.

use trunkline_stats::{
    Report, TcpCounters, TcpListenerRow, TcpServerCounters,
    metrics::{self, Metric},
};

use super::Exposition;

pub(super) fn listeners(out: &mut Exposition<'_>, report: &Report) {
    // Without such listeners there is nothing to say, not even that there is nothing.
    if report.tcp.is_empty() {
        return;
    }
    let mut gauge = |metric: &Metric, value: fn(&TcpListenerRow) -> u64| {
        let series = report.tcp.iter().map(|row| (row.listener.clone(), value(row)));
        out.labelled(metric, series);
    };
    gauge(&metrics::TCP_CONNECTIONS, |row| row.connections);
    gauge(&metrics::TCP_WAITING, |row| row.waiting);
    gauge(&metrics::TCP_CONNECTIONS_MAX, |row| row.connections_max);
    for (index, spec) in TcpCounters::SPECS.iter().enumerate() {
        out.counter_head(0, spec);
        for row in &report.tcp {
            let value = row.counters.iter().nth(index).map_or(0, |(_, value)| value);
            out.sample(&[("listener", row.listener.as_str())], value);
        }
    }
    servers(out, &report.tcp);
}

fn servers(out: &mut Exposition<'_>, listeners: &[TcpListenerRow]) {
    let rows = || listeners.iter().flat_map(|row| row.servers.iter().map(move |it| (row, it)));
    out.head(&metrics::TCP_SERVER_CONNECTIONS);
    for (row, server) in rows() {
        let hostgroup = server.hostgroup.to_string();
        let labels = labels(row, &hostgroup, &server.address);
        out.sample(&labels, server.connections);
    }
    let mut metric = "";
    for (index, spec) in TcpServerCounters::SPECS.iter().enumerate() {
        out.counter_head(usize::from(spec.metric == metric), spec);
        metric = spec.metric;
        for (row, server) in rows() {
            let hostgroup = server.hostgroup.to_string();
            let mut labels = labels(row, &hostgroup, &server.address).to_vec();
            labels.extend(spec.label);
            let value = server.counters.iter().nth(index).map_or(0, |(_, value)| value);
            out.sample(&labels, value);
        }
    }
}

fn labels<'a>(
    row: &'a TcpListenerRow,
    hostgroup: &'a str,
    server: &'a str,
) -> [(&'static str, &'a str); 3] {
    [("listener", &row.listener), ("hostgroup", hostgroup), ("server", server)]
}
