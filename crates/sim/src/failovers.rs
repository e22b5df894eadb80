//! A world of its own for automatic failovers: servers that die, fall silent, come back and lag,
//! the real [`trunkline_cluster::Cluster`] and [`trunkline_cluster::failover`], whose questions and
//! steps come late, are lost on the way, or are answered to nobody; one proxy or two, which end and
//! begin anew in the middle.
//!
//! Reading order: `nature` (the servers as they are), `proxy` (what is asked, decided, ordered).

mod nature;
mod proxy;

use std::{collections::BTreeMap, fmt};

use crate::rng::Rng;
use nature::Nature;
use proxy::Proxy;
#[cfg(feature = "plants")]
pub use trunkline_cluster::plants::Plant;

/// A bug to find; there is none without the feature `plants`.
#[cfg(not(feature = "plants"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {}

/// Time between two steps, ms.
const STEP_MS: u64 = 10;
/// How long things go wrong, ms: between these two.
const TROUBLED_MS: (u64, u64) = (5_000, 20_000);
/// How long everything can be reached before somebody puts the servers in order, ms.
const SETTLING_MS: u64 = 6_000;
/// How long everything is well then, ms.
const QUIET_MS: u64 = 10_000;

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// A failover began though a replica was connected to the writer for long, or a server was
    /// promoted though the writer answered for long and took writes.
    FalseFailover,
    /// A server was promoted that lacks what another one had told.
    PromotedBehind,
    /// A server was promoted while the old writer went on taking writes. One that was ended, and
    /// begins anew between the fencing and the promotion, does not go on: servers should begin
    /// read-only, and it is fenced beside its successor.
    NotFenced,
    /// Two servers were promoted for one loss, and the proxy that promoted the second one could
    /// have known of the first: it had been told of it, also before it ended and began anew, or a
    /// server that answers it shows it.
    TwoWriters,
    /// All is well, and a proxy has another writer, or none.
    WrongInTheEnd,
}

/// A breach, and what shows it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// What was broken.
    pub breach: Breach,
    /// When, ms.
    pub at_ms: u64,
    /// What was seen.
    pub evidence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms: {:?}: {}", self.at_ms, self.breach, self.evidence)
    }
}

/// What a history came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What must not be, in the order of time.
    pub violations: Vec<Violation>,
    /// How often each kind of thing has happened.
    pub figures: BTreeMap<&'static str, u64>,
    /// What has happened, if it was to be written down.
    pub trace: Vec<String>,
}

/// Plays the history that a seed stands for.
pub fn run(seed: u64, plant: Option<Plant>, with_trace: bool) -> Outcome {
    let root = Rng::new(seed).split("failovers", 0);
    let mut rng = root.split("history", 0);
    let mut nature = Nature::new(root.split("nature", 0), with_trace);
    let count: u64 = if rng.chance(1, 3) { 2 } else { 1 };
    let mut proxies: Vec<Proxy> = (0..count)
        .map(|id| Proxy::new(usize::from(id != 0), &nature, root.split("proxy", id), plant))
        .collect();
    // Where two proxies look at a server at different times, it must not come back taking writes.
    nature.begins_read_only |= count > 1;
    let troubled_ms = rng.between(TROUBLED_MS.0, TROUBLED_MS.1);
    let (settled_ms, end_ms) = (troubled_ms + SETTLING_MS, troubled_ms + SETTLING_MS + QUIET_MS);
    while nature.now_ms < end_ms && nature.outcome.violations.is_empty() {
        nature.now_ms += STEP_MS;
        if nature.now_ms >= troubled_ms && !nature.is_quiet {
            nature.mend();
        }
        if nature.now_ms >= settled_ms && nature.now_ms < settled_ms + STEP_MS {
            nature.put_in_order();
        }
        nature.step();
        for proxy in &mut proxies {
            proxy.step(&mut nature);
        }
    }
    if nature.outcome.violations.is_empty() {
        for proxy in &proxies {
            proxy.end(&mut nature);
        }
    }
    nature.outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough for some hundred failovers, in about two seconds of a debug build.
    const HISTORIES: u64 = 150;
    /// Seeds that have found bugs.
    const KEPT: [u64; 17] = [
        200_627, 201_150, 305_648, 310_379, 313_697, 313_726, 314_796, 317_128, 318_153, 323_823,
        327_392, 404_426, 413_397, 508_278, 830_762, 833_747, 1_068_467,
    ];

    #[test]
    fn automatic_failovers_end_well() {
        let mut figures: BTreeMap<&'static str, u64> = BTreeMap::new();
        for seed in (0..HISTORIES).chain(KEPT) {
            let outcome = run(seed, None, false);
            let said: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
            assert!(said.is_empty(), "cargo xtask histories --failovers --seed {seed}: {said:#?}");
            for (what, count) in outcome.figures {
                *figures.entry(what).or_default() += count;
            }
        }
        for what in ["failovers begun", "promoted", "failovers done", "crashed", "rejoined"] {
            assert!(figures.get(what).is_some_and(|count| *count > 20), "{what}: {figures:#?}");
        }
    }
}
