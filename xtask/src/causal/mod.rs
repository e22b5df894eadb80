//! `cargo xtask causal`: a writer and two replicas behind the proxy, clients that read what they
//! and others have written, and replicas that fall behind or change roles meanwhile. Whether a read
//! was stale, and who answered it.
//!
//! Reading order: `scope` (what a read has to see), `pair` (who writes and who reads), `disturb`
//! (what is done to the servers meanwhile).

mod disturb;
mod pair;
mod scope;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use trunkline_testkit::{Flavour, mysql_available};

use self::disturb::{Disturbance, Ended};
use self::pair::{OTHER, Pair, Seen};
use self::scope::Scope;
use crate::stand::{Kind, Plan, Stand};
use crate::watch::Latencies;
use crate::{release, servers};

/// How often progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);
/// What the proxy says became of reads, by its metric's label.
const OUTCOMES: [&str; 5] = ["reached", "waited", "writer", "stale", "error"];
/// What it says of answers that are kept.
const CACHE: [&str; 2] = ["hits", "misses"];

/// What `cargo xtask causal` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only these servers: `mariadb` or `mysql`
    #[arg(long)]
    server: Option<String>,
    /// Only this scope: session, user, hostgroup, global, bounded, token, or until-changed (the
    /// result cache)
    #[arg(long)]
    scope: Option<String>,
    /// Reads in each scope
    #[arg(long, default_value_t = 100_000)]
    reads: u64,
    /// Pairs of sessions that write and read
    #[arg(long, default_value_t = 32)]
    pairs: u32,
    /// Reads behind each write
    #[arg(long, default_value_t = 4)]
    reads_per_write: u32,
    /// What is done to the servers meanwhile: `none`, `delay` (one replica is a second behind),
    /// `replicas` (they stop applying, and are locked, in turns), `switchover`, or `kill` (of the
    /// writer)
    #[arg(long, default_value = "replicas")]
    disturb: String,
    /// A program that is built already
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where the proxies' logs are written
    #[arg(long)]
    log: Option<PathBuf>,
}

/// Plays each scope, prints the table, and fails where a read was stale.
pub fn run(root: &Path, arguments: &Arguments) -> Result<()> {
    servers::ensure_mariadb()?;
    let binary = match &arguments.program {
        Some(program) => program.clone(),
        None => release::build(root, "trunkline")?,
    };
    let scopes = Scope::chosen(arguments.scope.as_deref())?;
    let disturbance = Disturbance::named(&arguments.disturb)?;
    let mut lines = Vec::new();
    for kind in [Kind::MariaDb, Kind::MySql] {
        if arguments.server.as_ref().is_some_and(|only| only.to_lowercase() != kind.name()) {
            continue;
        }
        if kind.flavour() == Flavour::MySql
            && let Err(reason) = mysql_available()
        {
            println!("{}: left out: {reason}", kind.name());
            continue;
        }
        for scope in &scopes {
            lines.push(play(kind, *scope, disturbance, &binary, arguments)?);
            println!("{}", lines.last().map(Line::row).unwrap_or_default());
        }
    }
    ensure!(!lines.is_empty(), "no such servers: mariadb, mysql");
    println!("\n{TITLES}");
    lines.iter().for_each(|line| println!("{}", line.row()));
    let wrong: u64 = lines.iter().map(|line| line.seen.stale + line.seen.made_up).sum();
    ensure!(wrong == 0, "{wrong} reads were stale, or saw what nobody had written");
    Ok(())
}

const TITLES: &str = "\
| servers | a read sees | meanwhile | writes | reads | stale | made up | p50 ms | p99 ms \
| what became of reads | errors |\n|---|---|---|---:|---:|---:|---:|---:|---:|---|---|";

/// What came of one scope on servers of one family.
struct Line {
    kind: Kind,
    scope: Scope,
    disturbance: Disturbance,
    seen: Seen,
    /// What became of reads, as the proxies counted them.
    outcomes: BTreeMap<&'static str, f64>,
    /// How often a killed writer had what nobody else has, and all servers were made anew.
    rebuilt: u32,
}

impl Line {
    /// What became of reads, with shares.
    fn told(&self) -> String {
        let all: f64 = self.outcomes.values().sum();
        let told =
            self.outcomes.iter().filter(|(_, count)| **count > 0.0).map(|(outcome, count)| {
                format!("{outcome} {count:.0} ({:.1} %)", count * 100.0 / all)
            });
        told.collect::<Vec<_>>().join(", ")
    }

    fn row(&self) -> String {
        let seen = &self.seen;
        let latencies = Latencies::of(seen.latencies.clone());
        let errors: Vec<String> =
            seen.errors.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} | {} | {} |",
            self.kind.name(),
            self.scope.name(),
            match self.rebuilt {
                0 => self.disturbance.name().to_owned(),
                rebuilt => format!("{} (rebuilt: {rebuilt})", self.disturbance.name()),
            },
            seen.writes,
            seen.reads,
            seen.stale,
            seen.made_up,
            latencies.share_ms(50),
            latencies.share_ms(99),
            self.told(),
            if errors.is_empty() { "none".to_owned() } else { errors.join(", ") },
        )
    }
}

/// What all pairs share.
struct Scene<'a> {
    stand: &'a Stand,
    scope: Scope,
    reads_per_write: u32,
    /// How many reads there are to be.
    wanted: u64,
    reads: AtomicU64,
    is_over: AtomicBool,
}

fn play(
    kind: Kind,
    scope: Scope,
    disturbance: Disturbance,
    binary: &Path,
    arguments: &Arguments,
) -> Result<Line> {
    let (seen, outcomes) = (Seen::default(), BTreeMap::new());
    let mut line = Line { kind, scope, disturbance, seen, outcomes, rebuilt: 0 };
    while line.seen.reads < arguments.reads {
        let before = line.seen.reads;
        let stand = start(&line, binary, arguments.pairs)?;
        let scene = Scene {
            stand: &stand,
            scope,
            reads_per_write: arguments.reads_per_write * scope.reads_factor(),
            wanted: arguments.reads - before,
            reads: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        let played = all_pairs(&scene, disturbance, arguments.pairs);
        if let Some(path) = &arguments.log {
            stand.write_logs(path)?;
        }
        count_outcomes(&stand, scope, &mut line.outcomes)?;
        line.seen.add(played?);
        ensure!(line.seen.reads > before, "nobody read anything");
        line.rebuilt += u32::from(line.seen.reads < arguments.reads);
    }
    Ok(line)
}

/// Servers with a table for each pair, and the proxy.
fn start(line: &Line, binary: &Path, pairs: u32) -> Result<Stand> {
    let scope = line.scope;
    let plan = Plan {
        kind: line.kind,
        // What a killed writer alone has is lost, and rightly not seen.
        asynchronous: line.disturbance != Disturbance::Kill,
        proxies: 1,
        settings: format!("causal_reads = \"{}\"\n", scope.setting()),
        cluster: "binlog_stream = true\n".to_owned(),
        tables: scope.tables().to_owned(),
        users: vec![(OTHER, scope.of_other())],
    };
    let stand = Stand::start(&plan, binary)?;
    let writer = stand.server(stand.writer()?.context("nobody writes")?)?;
    for pair in 0..pairs {
        let table = format!("checks.latest_{pair}");
        writer.sql(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, n BIGINT NOT NULL); \
             INSERT INTO {table} VALUES (1, 0)"
        ))?;
    }
    stand.wait_caught_up()?;
    Ok(stand)
}

fn all_pairs(scene: &Scene<'_>, disturbance: Disturbance, pairs: u32) -> Result<Seen> {
    thread::scope(|threads| {
        let pairs: Vec<_> = (0..pairs)
            .map(|number| threads.spawn(move || Pair::new(scene, number).play()))
            .collect();
        let disturber = threads.spawn(move || {
            let done = disturbance.happen(scene.stand, &scene.is_over);
            // Otherwise nobody would end.
            if !matches!(done, Ok(Ended::Calm)) {
                scene.end();
            }
            done
        });
        scene.watch();
        let mut all = Seen::default();
        for pair in pairs {
            all.add(pair.join().map_err(|_| anyhow!("a pair panicked"))?);
        }
        disturber.join().map_err(|_| anyhow!("the disturber panicked"))??;
        Ok(all)
    })
}

impl Scene<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns when there were so many reads, or somebody has given up.
    fn watch(&self) {
        let mut told = Instant::now();
        while !self.is_over() {
            let done = self.reads.load(Ordering::Relaxed);
            if done >= self.wanted {
                self.end();
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                println!("   … {}: {done} of {} reads", self.scope.name(), self.wanted);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Adds what the proxy says became of reads.
fn count_outcomes(
    stand: &Stand,
    scope: Scope,
    outcomes: &mut BTreeMap<&'static str, f64>,
) -> Result<()> {
    let proxy = stand.proxy(0)?;
    let (name, label, words) = match scope {
        Scope::UntilChanged => ("trunkline_cache_rule_{}_total", "rule=\"7\"", CACHE.as_slice()),
        _ => ("trunkline_causal_reads_total", "outcome=\"{}\"", OUTCOMES.as_slice()),
    };
    for word in words {
        let (name, label) = (name.replace("{}", word), label.replace("{}", word));
        let count = proxy.metric(&name, &label)?.unwrap_or_default();
        *outcomes.entry(word).or_default() += count;
    }
    Ok(())
}
