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
use trunkline_sim::roles;

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
    /// Threads; by default one for each core
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_good = match arguments.seed {
        Some(seed) => play_one(seed),
        None => play_many(&arguments),
    };
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn play_one(seed: u64) -> bool {
    let outcome = roles::run(seed, None, true);
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
                    let outcome = roles::run(seed, None, false);
                    played.fetch_add(1, Relaxed);
                    let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
                    for (what, count) in outcome.figures {
                        *figures.entry(what).or_insert(0_u64) += count;
                    }
                    if let Some(violation) = outcome.violations.first() {
                        println!("cargo xtask histories --seed {seed}\n    {violation}");
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
