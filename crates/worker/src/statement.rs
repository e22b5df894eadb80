//! What a worker remembers of statements' texts, from one to the next.

pub(crate) mod analysis;
mod definition;
mod pace;
pub(crate) mod proof;
pub(crate) mod sql_modes;
pub(crate) mod study;

use std::collections::HashSet;

use foldhash::fast::FixedState;
use trunkline_catalog::Name;
use trunkline_config::Snapshot;

use crate::{
    prepared::Entries, servers::unheard::Unheard, statement::analysis::Analyses,
    statement::definition::Orphan,
};

/// Memories of texts and of what is known of them.
pub(crate) struct Statements {
    pub(crate) analyses: Analyses,
    /// Commands that were given away to be studied, so far.
    pub(crate) studies: u64,
    /// Prepared texts.
    pub(crate) entries: Entries,
    /// Names that a statement has waited for in vain.
    unanswered: HashSet<Name, FixedState>,
    /// Definitions whose answers nobody awaits.
    orphans: Unheard<Orphan>,
    /// Statements that were looked at for the query log.
    pub(crate) query_events: u64,
    /// Room for the key under which an answer is looked up in the cache.
    pub(crate) cache_key: Vec<u8>,
}

impl Statements {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        Self {
            analyses: Analyses::of_snapshot(snapshot),
            studies: 0,
            entries: Entries::default(),
            unanswered: HashSet::with_hasher(FixedState::default()),
            orphans: Unheard::default(),
            query_events: 0,
            cache_key: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
