//! A world of its own for the roles of a cluster's servers: histories of servers that die, come
//! back, are promoted, cut off and misunderstood, the real [`trunkline_cluster::Cluster`] that is
//! told of them late, wrongly or not at all, and sessions that go by the real cells.
//!
//! Reading order: [`nature`] (the servers as they are) with [`group`] (those that certify each
//! other's writes), [`proxy`] (what it asks, is told and decides), [`sessions`] (statements and the
//! evidence that they leave), [`oracle`] (what must not be).

mod group;
mod nature;
mod oracle;
mod proxy;
mod sessions;

use std::collections::BTreeMap;

use crate::rng::Rng;
use nature::Nature;
pub use oracle::{Breach, Violation};
use proxy::Proxy;
use sessions::Sessions;

/// Time between two steps, ms.
const STEP_MS: u64 = 10;
/// How long things go wrong, ms: between these two.
const TROUBLED_MS: (u64, u64) = (4_000, 20_000);
/// How long everything is well after that, ms: servers that were silent are asked every 3 s only.
const QUIET_MS: u64 = 14_000;

/// How roles are found out in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One server writes, and others replicate from it.
    Replication,
    /// Each server writes that takes writes.
    ReadOnly,
    /// Galera.
    Galera,
    /// Group Replication.
    Group,
}

impl Kind {
    /// All of them, as often as they are played.
    const DRAWN: [(u64, Self); 4] =
        [(4, Self::Replication), (1, Self::ReadOnly), (2, Self::Galera), (2, Self::Group)];

    /// Whether servers certify each other's writes.
    fn certifies(self) -> bool {
        match self {
            Self::Replication | Self::ReadOnly => false,
            Self::Galera | Self::Group => true,
        }
    }
}

/// A bug to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Sessions go on with the connections that they hold, whoever has written since.
    EpochIgnored,
    /// One of the decision's.
    #[cfg(feature = "plants")]
    Decision(trunkline_cluster::plants::Plant),
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

impl Outcome {
    fn count(&mut self, what: &'static str) {
        *self.figures.entry(what).or_default() += 1;
    }
}

/// Plays the history that a seed stands for.
pub fn run(seed: u64, plant: Option<Plant>, with_trace: bool) -> Outcome {
    let root = Rng::new(seed).split("roles", 0);
    let mut rng = root.split("history", 0);
    let kind = rng.weighted(&Kind::DRAWN).copied().unwrap_or(Kind::Replication);
    let mut nature = Nature::new(kind, root.split("nature", 0), with_trace);
    let mut proxy = Proxy::new(&nature, root.split("proxy", 0));
    #[cfg(feature = "plants")]
    if let Some(Plant::Decision(plant)) = plant {
        proxy.cluster.plant(plant);
    }
    let mut sessions = Sessions::new(root.split("sessions", 0), plant);
    let troubled_ms = rng.between(TROUBLED_MS.0, TROUBLED_MS.1);
    let mut is_mended = false;
    while nature.now_ms < troubled_ms + QUIET_MS {
        nature.now_ms += STEP_MS;
        if nature.now_ms >= troubled_ms && !is_mended {
            is_mended = true;
            nature.mend();
        }
        nature.step();
        if nature.is_quiet {
            proxy.mend(&nature);
        } else {
            proxy.reconfigure(&nature);
        }
        sessions.step(&mut nature, &mut proxy);
        proxy.step(&mut nature);
        proxy.oracle.watch(&mut nature, &proxy.cluster, &proxy.names);
        if !nature.outcome.violations.is_empty() {
            return nature.outcome;
        }
    }
    proxy.oracle.end(&mut nature, &proxy.cluster, &proxy.names);
    nature.outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough that each planted bug would be found, in less than two seconds of a debug build.
    const HISTORIES: u64 = 90;

    #[test]
    fn histories_of_clusters_end_well() {
        let mut figures: BTreeMap<&'static str, u64> = BTreeMap::new();
        for seed in 0..HISTORIES {
            let outcome = run(seed, None, false);
            let said: Vec<String> = outcome.violations.iter().map(ToString::to_string).collect();
            assert!(said.is_empty(), "cargo xtask histories --seed {seed}: {said:#?}");
            for (what, count) in outcome.figures {
                *figures.entry(what).or_default() += count;
            }
        }
        for what in ["promoted", "crashed", "time-outs", "new writers", "holds that ended"] {
            assert!(figures.get(what).is_some_and(|count| *count > 20), "{what}: {figures:#?}");
        }
    }

    #[test]
    fn a_history_is_the_same_each_time() {
        let (first, second) = (run(7, None, true), run(7, None, true));
        assert!(first.trace.len() > 10);
        assert_eq!(first.trace, second.trace);
    }
}
