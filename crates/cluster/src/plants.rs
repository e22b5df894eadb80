//! Bugs planted on purpose, so that the simulator can show that it finds them. Compiled only with
//! the feature `plants`, which nothing but the simulator's own test asks for.

use crate::{
    Cluster,
    failover::elect::{Elected, Election, NotElected, elect},
    switchover::check::Surveyed,
};

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Once a writer was lost, nobody is chosen any more: who waits for one waits for ever.
    HoldForgotten,
    /// A server that does not answer in time is taken for one that is read-only.
    ProbeTimeoutIsRole,
    /// Of several servers the first is promoted, whatever the others have.
    PromoteBehind,
    /// A server is promoted without the old writer being fenced.
    FenceSkipped,
}

/// An election with a bug in it: the first replica is taken.
///
/// # Errors
/// As without the bug, where there is no replica.
pub fn elect_first(election: &Election, members: &[Surveyed]) -> Result<Elected, NotElected> {
    let is_below = |member: &&Surveyed| {
        member.survey.as_ref().is_ok_and(|survey| {
            survey.sources.iter().any(|source| source.host == Some(election.old))
        })
    };
    match members.iter().find(is_below) {
        Some(first) => elect(election, std::slice::from_ref(first)),
        None => elect(election, members),
    }
}

impl crate::failover::Failover {
    /// Plants a bug.
    pub fn plant(&mut self, plant: Plant) {
        self.plant = Some(plant);
    }
}

impl Cluster {
    /// Plants a bug.
    pub fn plant(&mut self, plant: Plant) {
        self.plant = Some(plant);
    }

    /// Whether a bug is planted.
    pub(crate) fn has_plant(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }
}
