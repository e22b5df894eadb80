//! What ProxySQL counts, under its names: in `stats_mysql_global` and in `/metrics`. One table has
//! both, with the number that means the same here, or 0 where nothing does.
//!
//! Source: ProxySQL 2.7.1's documentation, and what its tables and `/metrics` show.

mod stores;
mod traffic;

#[cfg(test)]
mod tests;

use trunkline_stats::{Report, ServerRow, counters::CounterSpec, metrics::MetricKind};

/// Where a number comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// There is nothing here that it could mean.
    Zero,
    /// The workers' report.
    Report(fn(&Report) -> u64),
}

/// One number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Its name in `stats_mysql_global`; empty when it is not there.
    pub(crate) global: &'static str,
    /// Its name in `/metrics`; empty when it is not there. Neighbours of one name are one metric.
    pub(crate) metric: &'static str,
    /// The label that tells neighbours apart.
    pub(crate) label: Option<(&'static str, &'static str)>,
    pub(crate) kind: MetricKind,
    /// What it means here.
    pub(crate) help: &'static str,
    pub(crate) source: Source,
}

/// Makes rows of [`Figure`]: kind, name in the table, name in `/metrics`, label, meaning, source.
macro_rules! figures {
    ($name:ident; $($kind:ident $global:literal $metric:literal
        [$($label:ident = $value:literal)?] $help:literal => $source:expr;)+) => {
        /// Its rows.
        pub(super) const $name: &[Figure] = &[$(Figure {
            global: $global,
            metric: $metric,
            label: figures!(@label $($label = $value)?),
            kind: figures!(@kind $kind),
            help: $help,
            source: $source,
        }),+];
    };
    (@kind counter) => { MetricKind::Counter };
    (@kind gauge) => { MetricKind::Gauge };
    (@label $label:ident = $value:literal) => { Some((stringify!($label), $value)) };
    (@label) => { None };
}

use figures;

impl Figure {
    /// Every figure, in the order of the table.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        traffic::TRAFFIC.iter().chain(stores::STORES)
    }

    /// Whether frames of the history have it: it is in `stats_mysql_global`, and means something.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.global.is_empty() && matches!(self.source, Source::Report(_))
    }

    /// The number.
    pub(crate) fn value(&self, report: &Report) -> u64 {
        match self.source {
            Source::Zero => 0,
            Source::Report(of) => of(report),
        }
    }
}

/// ProxySQL's numbers, by their names in `stats_mysql_global`: those that mean something here.
pub(crate) fn figures_of(report: &Report) -> Vec<(String, u64)> {
    let figures = Figure::all().filter(|figure| figure.is_recorded());
    figures.map(|figure| (figure.global.to_owned(), figure.value(report))).collect()
}

/// The sum of a number over all servers.
fn servers(report: &Report, of: fn(&ServerRow) -> u64) -> u64 {
    report.servers.iter().map(of).sum()
}

/// Connections to servers now.
fn connections(report: &Report) -> u64 {
    servers(report, |row| row.connections.by_state().iter().map(|(_, count)| count).sum())
}

/// Statements of a kind.
fn command(report: &Report, name: &str) -> u64 {
    report.commands.iter().find(|row| row.command == name).map_or(0, |row| row.count)
}

/// Statements that got a server connection.
fn got(report: &Report) -> u64 {
    servers(report, |row| row.counters.statements)
}

/// Counters of one metric.
fn sum_of(report: &Report, wanted: fn(&CounterSpec) -> bool) -> u64 {
    report.counters.iter().filter(|(spec, _)| wanted(spec)).map(|(_, count)| count).sum()
}

/// Clients that were turned away before their first statement.
fn refused_clients(report: &Report) -> u64 {
    sum_of(report, |spec| spec.metric == "trunkline_client_refusals_total")
}

/// Server connections that were reset.
fn resets(report: &Report) -> u64 {
    sum_of(report, |spec| spec.metric == "trunkline_backend_connections_reset_total")
}

/// Server connections that ended while they were held.
fn broken(report: &Report) -> u64 {
    let counters = &report.counters;
    counters.server_connections_lost.saturating_add(counters.server_connections_abandoned)
}

/// The monitor's checks of a kind: those that were answered, and those that failed.
fn checks(report: &Report, kind: &str) -> (u64, u64) {
    let of_kind = report.process.monitor.checks.iter().find(|sums| sums.kind == kind);
    of_kind.map_or((0, 0), |sums| (sums.ok, sums.failed))
}

/// Statements that were refused since no server connection could be had in time.
fn unconnected(report: &Report) -> u64 {
    let counters = &report.counters;
    [
        counters.statements_refused_no_server,
        counters.statements_refused_none_online,
        counters.statements_refused_no_writer,
        counters.statements_refused_all_at_max_connections,
        counters.statements_refused_all_busy,
        counters.statements_refused_queue_full,
        counters.statements_refused_connect_timeout,
    ]
    .iter()
    .sum()
}
