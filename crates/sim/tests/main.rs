//! Fresh seeds, and all that ever failed.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use trunkline_sim::{
    Outcome,
    plan::{Limits, Plan},
    run, run_seed,
    seeds::kept,
};

/// Fresh seeds in one go.
const FRESH: u64 = 96;
/// The first of them, unless `TRUNKLINE_SIM_BASE` says otherwise: the same on every machine.
const BASE: u64 = 1_000_000;

/// Runs seeds on all cores; those that failed, with what they broke.
fn failures(seeds: &[u64]) -> Vec<(u64, Outcome)> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let statements = AtomicU64::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Relaxed)) {
                    let outcome = run_seed(*seed);
                    statements.fetch_add(outcome.statements, Relaxed);
                    if !outcome.is_good() {
                        failed.lock().expect("no panic holds it").push((*seed, outcome));
                    }
                }
            });
        }
    });
    println!(
        "{} seeds, {} statements in {:.1} s",
        seeds.len(),
        statements.into_inner(),
        start.elapsed().as_secs_f64()
    );
    failed.into_inner().expect("no panic holds it")
}

fn assert_good(seeds: &[u64]) {
    let mut failed = failures(seeds);
    failed.sort_by_key(|(seed, _)| *seed);
    for (seed, outcome) in &failed {
        println!("seed {seed} failed; replay it: cargo xtask sim --seed {seed}");
        for violation in outcome.violations.iter().take(5) {
            println!("    {violation}");
        }
        if let Some(panic) = &outcome.panic {
            println!("    panic: {panic}");
        }
    }
    let numbers: Vec<_> = failed.iter().map(|(seed, _)| *seed).collect();
    assert!(failed.is_empty(), "{} of {} seeds failed: {numbers:?}", failed.len(), seeds.len());
}

#[test]
fn fresh_seeds_break_no_promise() {
    let base = std::env::var("TRUNKLINE_SIM_BASE").ok();
    let base = base.map_or(BASE, |text| text.parse().expect("TRUNKLINE_SIM_BASE is a number"));
    assert_good(&(base..base + FRESH).collect::<Vec<_>>());
}

#[test]
fn seeds_that_ever_failed_break_no_promise() {
    let seeds: Vec<_> = kept().into_iter().map(|kept| kept.seed).collect();
    assert_good(&seeds);
}

#[test]
fn a_seed_runs_the_same_every_time() {
    for seed in BASE..BASE + 8 {
        let plan = Plan::from_seed(seed, &Limits::default());
        let traces = [(); 2].map(|()| {
            let outcome = run(&plan, true);
            assert!(!outcome.trace.is_empty());
            (outcome.events, outcome.statements, outcome.trace.to_string())
        });
        assert!(traces[0] == traces[1], "seed {seed} runs in two ways");
    }
}
