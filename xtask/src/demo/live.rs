//! Live numbers: the difference between two looks at the proxy.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use trunkline_stats::report::state_name;
use trunkline_stats::{Histogram, Report};
use trunkline_testkit::Trunkline;

use super::tour::report;

/// One look at the proxy.
#[derive(Debug)]
pub struct Look {
    at: Instant,
    report: Report,
    cpu_micros: u64,
}

/// What happened between two looks, and how things are at the second.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Clients connected.
    pub clients: u64,
    /// Statements per second.
    pub rate: f64,
    /// Latency of statements; `None` when there were none.
    pub latency: Option<Latency>,
    /// Statements that wait for a connection.
    pub waiting: u64,
    /// Sessions bound to a connection.
    pub pinned: u64,
    /// The proxy's CPU time, as a share of one core.
    pub cpu_share: f64,
    /// Statements that ended with an error, since the start.
    pub errors: u64,
    /// By address.
    pub servers: BTreeMap<String, ServerLive>,
}

/// One server as the proxy sees it.
#[derive(Clone, Debug, Default)]
pub struct ServerLive {
    /// `ONLINE` and the like.
    pub state: &'static str,
    /// Statements per second.
    pub rate: f64,
    /// Statements since the start.
    pub statements: u64,
    /// Connections that a statement or transaction holds.
    pub busy: u64,
    /// Connections that wait for work.
    pub idle: u64,
    /// Latency of its statements; `None` when there were none.
    pub latency: Option<Latency>,
}

/// Latency over the time between two looks, in µs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean_us: f64,
    /// The 95th percentile, as the upper bound of its bucket.
    pub p95_us: u64,
}

impl Look {
    /// Asks the proxy and the kernel.
    pub fn take(proxy: &Trunkline) -> Result<Look> {
        Ok(Look { report: report(proxy)?, cpu_micros: proxy.cpu_micros()?, at: Instant::now() })
    }

    /// What happened since an earlier look.
    pub fn since(&self, earlier: &Look) -> Live {
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        let rate = |now: u64, then: u64| rate(now, then, seconds);
        let (now, then) = (&self.report, &earlier.report);
        let cpu_per_second = rate(self.cpu_micros, earlier.cpu_micros);
        let servers = now.servers.iter().map(|row| {
            let mut same = then
                .servers
                .iter()
                .filter(|other| other.hostgroup == row.hostgroup && other.address == row.address);
            let before = same.next();
            let statements = row.counters.statements;
            let earlier = before.map_or(0, |before| before.counters.statements);
            let connections = &row.connections;
            let live = ServerLive {
                state: state_name(row.state),
                rate: rate(statements, earlier),
                statements,
                busy: connections.leased + connections.shared,
                idle: connections.idle,
                latency: before.and_then(|before| latency(&row.latency, &before.latency)),
            };
            (row.address.clone(), live)
        });
        Live {
            clients: now.clients_connected(),
            rate: rate(now.counters.statements, then.counters.statements),
            latency: latency(&now.latency, &then.latency),
            waiting: now.waiting.values().sum(),
            pinned: now.pins.values().sum(),
            cpu_share: cpu_per_second / 1e6,
            errors: now.counters.statement_errors,
            servers: servers.collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people needs no more than 52 bits")]
fn rate(now: u64, then: u64, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    now.saturating_sub(then) as f64 / seconds
}

/// The latency of what `now` counted beyond `then`.
fn latency(now: &Histogram, then: &Histogram) -> Option<Latency> {
    let count = now.count().saturating_sub(then.count());
    if count == 0 {
        return None;
    }
    let (now_counts, then_counts) = (buckets(now), buckets(then));
    let mut left = count.div_ceil(20);
    // From the slow end: the bucket in which the slowest twentieth begins.
    let slow = now_counts.iter().rev().find(|(bound, count)| {
        let earlier = then_counts.get(bound).copied().unwrap_or(0);
        let more = count.saturating_sub(earlier);
        let is_there = more >= left;
        left = left.saturating_sub(more);
        is_there
    });
    Some(Latency {
        mean_us: rate(now.sum_us(), then.sum_us(), rate(count, 0, 1.0)),
        p95_us: slow.map_or(0, |(bound, _)| *bound).min(now.max_us()),
    })
}

/// The buckets in use as the histogram shows them in JSON: longest duration in µs, count.
fn buckets(histogram: &Histogram) -> BTreeMap<u64, u64> {
    let json = serde_json::to_value(histogram).unwrap_or_default();
    let pairs = json.get("buckets").cloned().unwrap_or_default();
    let pairs: Vec<(u64, u64)> = serde_json::from_value(pairs).unwrap_or_default();
    pairs.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_that_of_the_time_between() {
        let mut then = Histogram::default();
        (0..1_000).for_each(|_| then.record(1_000_000));
        let mut now = then.clone();
        (0..90).for_each(|_| now.record(100));
        (0..10).for_each(|_| now.record(5_000));
        let seen = latency(&now, &then).expect("something was recorded");
        assert!((seen.mean_us - 590.0).abs() < 1.0, "{seen:?}");
        assert!((5_000..6_300).contains(&seen.p95_us), "{seen:?}");
        assert_eq!(latency(&then, &then), None);
    }
}
