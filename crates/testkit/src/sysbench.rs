//! Runs sysbench and reads its report.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::folder::TempFolder;
use crate::process::Process;
use crate::servers_dir::find_program;

/// How much longer than asked a run may take: connecting a thousand clients takes a while.
const GRACE: Duration = Duration::from_secs(90);

/// What sysbench prints when its clients are connected and the load begins.
const BEGUN: &str = "Threads started!";

/// What a run measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Transactions per second.
    pub tps: f64,
    /// Queries per second.
    pub qps: f64,
    /// Transactions in all.
    pub transactions: u64,
    /// Queries in all.
    pub queries: u64,
    /// Errors that sysbench was told to ignore (deadlocks, duplicates).
    pub errors: u64,
    /// Connections made anew (`--reconnect`, or lost).
    pub reconnects: u64,
    /// Mean latency of a transaction, milliseconds.
    pub mean_ms: f64,
    /// The 95th percentile (or whatever `--percentile` asked for), milliseconds.
    pub p95_ms: f64,
    /// The longest, milliseconds.
    pub max_ms: f64,
    /// The histogram, if `--histogram=on` asked for it: latencies in milliseconds, ascending, and
    /// how many transactions took about so long.
    pub histogram: Vec<(f64, u64)>,
}

impl Report {
    /// The latency that `share` (0 to 1) of the transactions stayed within, milliseconds; `None`
    /// without a histogram.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a run of seconds fit into 52 bits")]
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let total: u64 = self.histogram.iter().map(|(_, count)| count).sum();
        let mut seen = 0;
        let reaches = |(_, count): &&(f64, u64)| {
            seen += count;
            seen as f64 >= total as f64 * share
        };
        self.histogram.iter().find(reaches).map(|(ms, _)| *ms)
    }
}

/// A command to be run. Tables are `--tables=1 --table-size=10000` unless [`Sysbench::arg`] says
/// otherwise; the schema is `sbtest` and must exist.
#[derive(Clone, Debug)]
pub struct Sysbench {
    script: String,
    args: Vec<String>,
    seconds: u32,
}

impl Sysbench {
    /// A script (`oltp_read_write`) against a port on loopback, one thread, for one second.
    #[must_use]
    pub fn new(script: &str, port: u16, user: &str, password: &str) -> Sysbench {
        let args = vec![
            "--mysql-host=127.0.0.1".to_owned(),
            format!("--mysql-port={port}"),
            format!("--mysql-user={user}"),
            format!("--mysql-password={password}"),
            "--mysql-db=sbtest".to_owned(),
            "--tables=1".to_owned(),
            "--table-size=10000".to_owned(),
        ];
        Sysbench { script: script.to_owned(), args, seconds: 1 }
    }

    /// Connects over a Unix socket instead of TCP.
    #[must_use]
    pub fn socket(mut self, path: &Path) -> Sysbench {
        self.args
            .retain(|arg| !arg.starts_with("--mysql-host") && !arg.starts_with("--mysql-port"));
        self.arg(format!("--mysql-socket={}", path.display()))
    }

    /// How many clients.
    #[must_use]
    pub fn threads(self, threads: u32) -> Sysbench {
        self.arg(format!("--threads={threads}"))
    }

    /// How long a run takes, in seconds.
    #[must_use]
    pub fn seconds(mut self, seconds: u32) -> Sysbench {
        self.seconds = seconds;
        self
    }

    /// Any other option; a later one wins over an earlier one.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Sysbench {
        self.args.push(arg.into());
        self
    }

    /// Makes the tables.
    ///
    /// # Errors
    /// When sysbench isn't installed or fails; with its output.
    pub fn prepare(&self) -> Result<()> {
        self.call("prepare").map(drop)
    }

    /// Drops the tables.
    ///
    /// # Errors
    /// When sysbench isn't installed or fails; with its output.
    pub fn cleanup(&self) -> Result<()> {
        self.call("cleanup").map(drop)
    }

    /// Runs the load.
    ///
    /// # Errors
    /// When sysbench isn't installed, fails (a fatal error of one client ends the run) or takes
    /// too long; with its output.
    pub fn run(&self) -> Result<Report> {
        self.start()?.finish()
    }

    /// Starts the load and returns at once, so that others can be watched meanwhile.
    ///
    /// # Errors
    /// When sysbench isn't installed or can't be started.
    pub fn start(&self) -> Result<SysbenchRun> {
        self.spawn("run")
    }

    fn call(&self, verb: &str) -> Result<String> {
        self.spawn(verb)?.output()
    }

    fn spawn(&self, verb: &str) -> Result<SysbenchRun> {
        let program = find_program("sysbench")
            .context("sysbench is not installed (cargo xtask servers installs it)")?;
        let folder = TempFolder::new("sysbench")?;
        let mut command = Command::new(program);
        command.arg(&self.script).args(&self.args).arg("--db-driver=mysql");
        command.arg(format!("--time={}", self.seconds)).arg(verb);
        let name = format!("sysbench {} {verb}", self.script);
        let log = folder.path().join("log");
        let process = Process::spawn(&name, command, &log, Some(folder.path()))?;
        let timeout = GRACE + Duration::from_secs(u64::from(self.seconds));
        Ok(SysbenchRun { process, name, timeout, _folder: folder })
    }
}

/// A load that runs; dropped, it is killed.
#[derive(Debug)]
pub struct SysbenchRun {
    // First, so that it ends before its folder goes.
    process: Process,
    name: String,
    timeout: Duration,
    _folder: TempFolder,
}

impl SysbenchRun {
    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Waits until all its clients are connected and begin with the load.
    ///
    /// # Errors
    /// When it ends before, or isn't there after `timeout`; with its output.
    pub fn wait_begun(&mut self, timeout: Duration) -> Result<()> {
        let log = self.process.log_path().to_path_buf();
        self.process.wait_ready(timeout, || {
            let text = std::fs::read_to_string(&log).ok()?;
            text.contains(BEGUN).then_some(())
        })
    }

    /// Whether it has ended, well or not.
    ///
    /// # Errors
    /// When the system can't say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.process.exit_status()?.is_some())
    }

    /// Waits for its end and reads its report.
    ///
    /// # Errors
    /// When it fails or takes too long; with its output.
    pub fn finish(self) -> Result<Report> {
        let output = self.output()?;
        parse(&output).with_context(|| format!("unknown shape of sysbench's report:\n{output}"))
    }

    fn output(mut self) -> Result<String> {
        let ended = self.process.wait(self.timeout);
        let status = ended.with_context(|| format!("its output:\n{}", self.process.log_tail()))?;
        if !status.success() {
            bail!("{} failed ({status}):\n{}", self.name, self.process.log_tail());
        }
        Ok(self.process.log())
    }
}

/// Lines are `label:  number` or `label:  number  (number per sec.)`.
fn parse(output: &str) -> Option<Report> {
    let rest_of = |label: &str| {
        output.lines().find_map(|line| line.trim_start().strip_prefix(label)).map(str::trim)
    };
    let number = |label: &str| rest_of(label)?.split_ascii_whitespace().next()?.parse().ok();
    let count = |label: &str| -> Option<u64> {
        rest_of(label)?.split_ascii_whitespace().next()?.parse().ok()
    };
    let rate = |label: &str| -> Option<f64> {
        rest_of(label)?.split_once('(')?.1.split_ascii_whitespace().next()?.parse().ok()
    };
    let percentile = output.lines().find(|line| line.contains("percentile:"))?;
    Some(Report {
        tps: rate("transactions:")?,
        qps: rate("queries:")?,
        transactions: count("transactions:")?,
        queries: count("queries:")?,
        errors: count("ignored errors:")?,
        reconnects: count("reconnects:")?,
        mean_ms: number("avg:")?,
        p95_ms: percentile.rsplit_once(':')?.1.trim().parse().ok()?,
        max_ms: number("max:")?,
        histogram: output.lines().filter_map(bucket).collect(),
    })
}

/// A line of the histogram: `value |**** count`.
fn bucket(line: &str) -> Option<(f64, u64)> {
    let (value, rest) = line.split_once('|')?;
    let count = rest.rsplit(['*', ' ']).next()?;
    Some((value.trim().parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       9.987 |***********************                  60
      19.981 |********                                 38
      51.019 |                                         2

SQL statistics:
    queries performed:
        read:                            1400
        total:                           2000
    transactions:                        100    (49.93 per sec.)
    queries:                             2000   (998.59 per sec.)
    ignored errors:                      3      (1.50 per sec.)
    reconnects:                          4      (2.00 per sec.)

General statistics:
    total time:                          2.0010s

Latency (ms):
         min:                                   15.09
         avg:                                   19.98
         max:                                   51.02
         95th percentile:                       26.20
         sum:                                 1998.34
";

    #[test]
    fn a_report_is_read() {
        let expected = Report {
            tps: 49.93,
            qps: 998.59,
            transactions: 100,
            queries: 2_000,
            errors: 3,
            reconnects: 4,
            mean_ms: 19.98,
            p95_ms: 26.2,
            max_ms: 51.02,
            histogram: vec![(9.987, 60), (19.981, 38), (51.019, 2)],
        };
        assert_eq!(expected.percentile_ms(0.5), Some(9.987));
        assert_eq!(expected.percentile_ms(0.98), Some(19.981));
        assert_eq!(expected.percentile_ms(0.99), Some(51.019));
        assert_eq!(Report::default().percentile_ms(0.5), None);
        assert_eq!(parse(OUTPUT), Some(expected));
        assert_eq!(parse("FATAL: error 2013"), None);
    }
}
