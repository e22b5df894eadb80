//! Plays many histories of clusters on all cores, or one with its trace. `cargo xtask histories`
//! builds and runs it.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use clap::Parser;
use trunkline_sim::{failovers, roles};

/// Failing seeds that are shown, and after which it stops.
const SHOWN_MAX: usize = 10;

#[derive(Parser)]
#[command(name = "cargo xtask histories", about = "Plays histories of clusters, seed by seed")]
struct Arguments {
    /// How many seeds to play
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Plays this seed alone, and prints what happens
    #[arg(long)]
    seed: Option<u64>,
    /// Plays automatic failovers instead of roles that are followed
    #[arg(long)]
    failovers: bool,
    /// Threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_good = match arguments.seed {
        Some(seed) => play_one(seed, arguments.failovers),
        None => play_many(&arguments),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a history came to, of either kind.
struct Played {
    violations: Vec<String>,
    figures: BTreeMap<&'static str, u64>,
    trace: Vec<String>,
}

fn play(seed: u64, is_failover: bool, with_trace: bool) -> Played {
    match is_failover {
        false => {
            let roles::Outcome { violations, figures, trace } = roles::run(seed, None, with_trace);
            Played { violations: words(&violations), figures, trace }
        }
        true => {
            let outcome = failovers::run(seed, None, with_trace);
            let failovers::Outcome { violations, figures, trace } = outcome;
            Played { violations: words(&violations), figures, trace }
        }
    }
}

fn words(violations: &[impl ToString]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

fn play_one(seed: u64, is_failover: bool) -> bool {
    let outcome = play(seed, is_failover, true);
    for line in &outcome.trace {
        println!("{line}");
    }
    outcome.violations.is_empty()
}

fn play_many(arguments: &Arguments) -> bool {
    let threads =
        arguments.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let (next, played) = (AtomicU64::new(0), AtomicU64::new(0));
    let (failed, figures) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let failures = failed.lock().unwrap_or_else(PoisonError::into_inner).len();
                    if number >= arguments.seeds || failures >= SHOWN_MAX {
                        return;
                    }
                    let seed = arguments.first + number;
                    let outcome = play(seed, arguments.failovers, false);
                    played.fetch_add(1, Relaxed);
                    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
                    for (what, count) in outcome.figures {
                        *figures.entry(what).or_insert(0_u64) += count;
                    }
                    if let Some(violation) = outcome.violations.first() {
                        let kind = if arguments.failovers { " --failovers" } else { "" };
                        println!("cargo xtask histories{kind} --seed {seed}\n    {violation}");
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(seed);
                    }
                }
            });
        }
    });
    let (played, seconds) = (played.into_inner(), begun.elapsed().as_secs_f64());
    println!("{played} histories in {seconds:.1} s");
    let figures = figures.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (what, count) in figures {
        println!("    {count:>12}  {what}");
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).is_empty()
}
