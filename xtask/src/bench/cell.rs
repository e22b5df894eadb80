//! One measurement: a target under a load with so many clients.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trunkline_testkit::{Server, SqlClient, Sysbench, cpu_micros, rss_bytes};

use super::target::Target;

/// Between the first statement of the load and the measurement.
const SETTLE: Duration = Duration::from_millis(500);
/// How long connecting all clients may take.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What one measurement found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The target's name.
    pub target: String,
    /// From 0.
    pub round: u32,
    /// Clients of the load.
    pub clients: u32,
    /// Statements per second.
    pub qps: f64,
    /// The 95th percentile of latency, in milliseconds.
    pub p95_ms: f64,
    /// The median of latency, the 99th percentile and that of one in a thousand, in milliseconds.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    /// The longest, in milliseconds.
    pub max_ms: f64,
    /// CPU time of the proxy per statement, in µs; `None` without a proxy.
    pub proxy_us: Option<f64>,
    /// CPU time of the server per statement, in µs.
    pub server_us: f64,
    /// Memory of the proxy, in bytes; `None` without a proxy.
    pub rss: Option<u64>,
    /// CPU time that neither the load nor the target nor the server used, as a share of the
    /// machine: what disturbed the measurement.
    pub others: f64,
    /// Errors that the load got.
    pub errors: u64,
}

impl Cell {
    /// One line for people who wait.
    pub fn line(&self) -> String {
        let Cell { target, clients, qps, p95_ms, server_us, others, .. } = self;
        let others = others * 100.0;
        let proxy = self.proxy_us.map_or_else(|| "    –".to_owned(), |us| format!("{us:>5.1}"));
        format!(
            "{clients:>5} clients  {target:<10} {qps:>8.0} QPS  p95 {p95_ms:>7.2} ms  \
             CPU µs: proxy {proxy}, server {server_us:>5.1}  others {others:>2.0} %"
        )
    }
}

/// Takes measurements on one server.
#[derive(Debug)]
pub struct Probe<'a> {
    server: &'a Server,
    observer: SqlClient,
}

/// Counters at one moment.
struct Moment {
    at: Instant,
    statements: u64,
    proxy_us: Option<u64>,
    server_us: u64,
    load_us: u64,
    machine: Machine,
}

/// CPU time of all cores since the boot, in ticks of whatever length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    busy: u64,
    all: u64,
}

impl<'a> Probe<'a> {
    /// Connects to the server to read its counters.
    pub fn new(server: &'a Server) -> Result<Probe<'a>> {
        let observer = server.root()?;
        Ok(Probe { server, observer })
    }

    /// Runs the load and measures `seconds` of it, after all clients are connected and before the
    /// first one ends: log-ins are not part of it. Statements are counted by the server, so that
    /// every target is counted alike; CPU time is the kernel's.
    pub fn measure(
        &mut self,
        target: &Target,
        load: &Sysbench,
        round: u32,
        clients: u32,
        seconds: u32,
    ) -> Result<Cell> {
        // One second more: half of it passes before the measurement, half of it after.
        let mut run = load.clone().seconds(seconds + 1).start()?;
        run.wait_begun(BEGIN_TIMEOUT)?;
        std::thread::sleep(SETTLE);
        let first = self.moment(target, run.pid())?;
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
        let last = self.moment(target, run.pid())?;
        let rss = target.pid.map(rss_bytes).transpose()?;
        let report = run.finish()?;
        let statements = last.statements.saturating_sub(first.statements);
        let per_statement = |now: u64, then: u64| ratio(now.saturating_sub(then), statements);
        let proxy_us = last.proxy_us.zip(first.proxy_us);
        let elapsed = last.at.duration_since(first.at).as_secs_f64();
        Ok(Cell {
            target: target.name.clone(),
            round,
            clients,
            qps: ratio(statements, 1) / elapsed,
            p95_ms: report.p95_ms,
            p50_ms: report.percentile_ms(0.5).unwrap_or_default(),
            p99_ms: report.percentile_ms(0.99).unwrap_or_default(),
            p999_ms: report.percentile_ms(0.999).unwrap_or_default(),
            max_ms: report.max_ms,
            proxy_us: proxy_us.map(|(now, then)| per_statement(now, then)),
            server_us: per_statement(last.server_us, first.server_us),
            rss,
            others: others(&first, &last),
            errors: report.errors + report.reconnects,
        })
    }

    fn moment(&mut self, target: &Target, load: u32) -> Result<Moment> {
        let rows = self.observer.sql("SHOW GLOBAL STATUS LIKE 'Questions'")?;
        let statements = rows
            .first()
            .and_then(|row| row.get(1)?.as_ref()?.parse().ok())
            .context("the server does not count its statements")?;
        Ok(Moment {
            at: Instant::now(),
            statements,
            proxy_us: target.pid.map(cpu_micros).transpose()?,
            server_us: self.server.cpu_micros()?,
            load_us: cpu_micros(load)?,
            machine: machine(&std::fs::read_to_string("/proc/stat")?)
                .context("/proc/stat has an unknown shape")?,
        })
    }
}

/// Idle and waiting for a disk are not busy; time stolen by other guests of the host is.
fn machine(stat: &str) -> Option<Machine> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is in user already.
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let all = ticks.iter().sum();
    let idle: u64 = ticks.get(3..5)?.iter().sum();
    Some(Machine { busy: all - idle, all })
}

/// The share of the machine that was busy with none of the measured processes.
fn others(first: &Moment, last: &Moment) -> f64 {
    let all = last.machine.all.saturating_sub(first.machine.all);
    let busy = last.machine.busy.saturating_sub(first.machine.busy);
    let ours =
        |moment: &Moment| moment.server_us + moment.load_us + moment.proxy_us.unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    let elapsed_us = last.at.duration_since(first.at).as_secs_f64() * 1e6 * cores;
    let ours = ratio(ours(last).saturating_sub(ours(first)), 1) / elapsed_us.max(1.0);
    (ratio(busy, all) - ours).clamp(0.0, 1.0)
}

#[expect(clippy::cast_precision_loss, reason = "counters of a run of seconds fit into 52 bits")]
fn ratio(of: u64, by: u64) -> f64 {
    of as f64 / by.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_busy_when_it_neither_idles_nor_waits() {
        let stat = "cpu  10 1 20 500 30 2 3 4 9 9\ncpu0 1 2 3\n";
        assert_eq!(machine(stat), Some(Machine { busy: 40, all: 570 }));
        assert_eq!(machine("cpu x"), None);
    }

    #[test]
    fn what_is_not_ours_is_of_others() {
        let at = Instant::now();
        let moment = |seconds, busy, all, us| Moment {
            at: at + Duration::from_secs(seconds),
            statements: 0,
            proxy_us: None,
            server_us: us,
            load_us: us,
            machine: Machine { busy, all },
        };
        let share = others(&moment(0, 0, 0, 0), &moment(1, 75, 100, 0));
        assert!((share - 0.75).abs() < 1e-9, "{share}");
        let share = others(&moment(0, 0, 0, 0), &moment(1, 10, 100, 10_000_000));
        assert!(share.abs() < 1e-9, "{share}");
    }
}
