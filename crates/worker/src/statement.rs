//! What a worker remembers of statements' texts, from one to the next.

pub(crate) mod analysis;
pub(crate) mod command;
pub(crate) mod definition;
pub(crate) mod pace;
pub(crate) mod proof;
pub(crate) mod sql_modes;

use std::collections::HashSet;

use foldhash::fast::FixedState;
use trunkline_catalog::Name;
use trunkline_config::Settings;
use trunkline_session::tracker::StateTable;

use crate::{
    clients::client::Statement, prepared::Entries, statement::analysis::Analyses,
    statement::definition::Orphan, statement::sql_modes::DefaultModes,
};

/// Memories of texts and of what is known of them.
pub(crate) struct Statements {
    pub analyses: Analyses,
    /// What sessions may be in: each state once.
    pub states: StateTable,
    pub default_modes: DefaultModes,
    /// Up to which the modes are known that texts are read in.
    pub modes_seen: u64,
    /// Prepared texts.
    pub entries: Entries,
    /// Names that a statement has waited for in vain.
    pub unanswered: HashSet<Name, FixedState>,
    /// Definitions whose answers nobody awaits.
    pub orphans: Vec<Orphan>,
    /// Statements that were looked at for the query log.
    pub query_events: u64,
    /// Memory of statements that are over, for those to come.
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is used again")]
    pub spare: Vec<Box<Statement>>,
}

impl Statements {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            analyses: Analyses::new(settings),
            states: StateTable::default(),
            default_modes: DefaultModes::default(),
            modes_seen: 0,
            entries: Entries::default(),
            unanswered: HashSet::with_hasher(FixedState::default()),
            orphans: Vec::new(),
            query_events: 0,
            spare: Vec::new(),
        }
    }
}
