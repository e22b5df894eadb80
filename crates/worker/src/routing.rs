//! What routing remembers from one statement to the next.

pub(crate) mod admission;
pub(crate) mod asker;
mod begun;
pub(crate) mod decide;
pub(crate) mod directives;
pub(crate) mod explain;
mod follow;
pub(crate) mod kept;
pub(crate) mod read_only;
pub(crate) mod rewrite;
pub(crate) mod route;
pub(crate) mod ruled;
pub(crate) mod ruling;
mod several;
pub(crate) mod split;
mod undecided;

use std::sync::Arc;

use trunkline_config::{Guards, Snapshot};
use trunkline_rules::{Hits, Limits, Memory};

use crate::{
    WorkerOptions, routing::admission::share_of, routing::route::DECISIONS_MAX,
    routing::undecided::Undecided,
};

/// Decisions, counts and limits of the rules.
pub(crate) struct Router {
    pub(crate) decisions: Memory,
    pub(crate) hits: Hits,
    /// This worker's share of the limits.
    pub(crate) limits: Limits,
    /// The lists that the limits were made of.
    pub(crate) guards: Arc<Guards>,
    /// Rules that the last statement matched, where a limit is about rules.
    matched_rules: Vec<u32>,
    /// What is told of patterns that could not be decided.
    undecided: Undecided,
    /// The latest of a sequence of numbers by chance; never 0.
    pub(crate) chance: u64,
}

impl Router {
    pub(crate) fn new(snapshot: &Snapshot, options: WorkerOptions) -> Self {
        Self {
            decisions: Memory::new(DECISIONS_MAX),
            hits: Hits::new(&snapshot.rules),
            limits: share_of(&snapshot.guards, options.workers),
            guards: Arc::clone(&snapshot.guards),
            matched_rules: Vec::new(),
            undecided: Undecided::default(),
            chance: options.seed | 1,
        }
    }

    /// The next of the numbers by chance.
    pub(crate) fn next_chance(&mut self) -> u64 {
        self.chance = next_chance(self.chance);
        self.chance
    }
}

/// The next of a sequence of numbers that look like chance. Source: Marsaglia, "Xorshift RNGs".
fn next_chance(mut number: u64) -> u64 {
    number ^= number << 13;
    number ^= number >> 7;
    number ^ number << 17
}

#[cfg(test)]
mod tests;
