//! The simulator can fail: each bug that is planted in the workers, or in what decides on the roles
//! of clusters, is found.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use trunkline_cluster::plants::Plant as InDecision;
use trunkline_sim::{
    failovers,
    plan::{Limits, Plan},
    roles::{self, Breach},
    run,
};
use trunkline_worker::plants::Plant;

/// Each bug is found by one of so many seeds, from 0 on.
const SEEDS_MAX: u64 = 2_000;

/// Seeds that have found bugs which few find: tried first. Where one finds nothing any more, as
/// plans have changed, the seeds from 0 on are tried, and the one that they say belongs here.
const KNOWN: [(Plant, u64); 7] = [
    (Plant::ReplyToNeighbour, 88),
    (Plant::RetryAfterFirstByte, 13),
    (Plant::RetryOfWrite, 127),
    (Plant::PausedForever, 26),
    (Plant::OvertakenReplyDelivered, 303),
    (Plant::WriteShared, 103),
    (Plant::ReaderAttractsWrite, 24),
];

/// Tries one alone.
const ONLY: &str = "TRUNKLINE_SIM_PLANT";

/// What a run of this seed with a bug in it says, if it finds the bug.
fn found_by(plant: Plant, seed: u64) -> Option<String> {
    let plan = Plan { plant: Some(plant), ..Plan::from_seed(seed, &Limits::default()) };
    run(&plan, false).failure()
}

/// A seed that finds a bug, and what it says.
fn finder(plant: Plant) -> Option<(u64, String)> {
    let known = KNOWN.iter().find(|(known, _)| *known == plant);
    if let Some((_, seed)) = known
        && let Some(failure) = found_by(plant, *seed)
    {
        return Some((*seed, failure));
    }
    let next = AtomicU64::new(0);
    let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= SEEDS_MAX || found.lock().expect("no panic").is_some() {
                        return;
                    }
                    let Some(failure) = found_by(plant, seed) else { continue };
                    let mut found = found.lock().expect("no panic");
                    if found.as_ref().is_none_or(|(first, _)| *first > seed) {
                        *found = Some((seed, failure));
                    }
                }
            });
        }
    });
    found.into_inner().expect("no panic")
}

#[test]
fn every_planted_bug_is_found() {
    // Panics are one way to find a bug; they need not be shown.
    std::panic::set_hook(Box::new(|_| {}));
    let mut unfound = Vec::new();
    let only = std::env::var(ONLY).ok();
    let is_wanted = |plant: &Plant| only.as_ref().is_none_or(|name| format!("{plant:?}") == *name);
    for plant in Plant::ALL.into_iter().filter(is_wanted) {
        match finder(plant) {
            Some((seed, failure)) => println!("{plant:?}: seed {seed}, {failure}"),
            None => unfound.push(plant),
        }
    }
    drop(std::panic::take_hook());
    assert!(unfound.is_empty(), "not found within {SEEDS_MAX} seeds: {unfound:?}");
}

#[test]
fn every_bug_planted_in_roles_is_found() {
    let check = |plant: roles::Plant, wanted: Breach| {
        let found = (0..SEEDS_MAX).find_map(|seed| {
            let outcome = roles::run(seed, Some(plant), false);
            outcome.violations.into_iter().next().map(|violation| (seed, violation))
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        println!("{plant:?}: seed {seed}, {violation}");
        assert_eq!(violation.breach, wanted, "{plant:?}, seed {seed}");
    };
    check(roles::Plant::EpochIgnored, Breach::OutsideCell);
    check(roles::Plant::Decision(InDecision::HoldForgotten), Breach::HoldForgotten);
    check(roles::Plant::Decision(InDecision::ProbeTimeoutIsRole), Breach::TimeOutIsRole);
}

#[test]
fn every_bug_planted_in_failovers_is_found() {
    let check = |plant: InDecision, wanted: failovers::Breach| {
        let found = (0..SEEDS_MAX).find_map(|seed| {
            let outcome = failovers::run(seed, Some(plant), false);
            outcome.violations.into_iter().next().map(|violation| (seed, violation))
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        println!("{plant:?}: seed {seed}, {violation}");
        assert_eq!(violation.breach, wanted, "{plant:?}, seed {seed}");
    };
    check(InDecision::PromoteBehind, failovers::Breach::PromotedBehind);
    check(InDecision::FenceSkipped, failovers::Breach::NotFenced);
}
