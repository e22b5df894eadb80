//! A part of the entries, in two halves: what was told lately, and what before.

use std::{collections::HashMap, sync::Arc};

use foldhash::fast::FixedState;
use trunkline_topology::HostgroupId;

use crate::{Name, Object};

/// For how long nobody asks for a name that was being defined when it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PutOff {
    /// It was not being defined.
    Not,
    /// While it is being defined, and no longer than the entry's time.
    WhileDefined,
    /// For the entry's time: the definition was over when the answer came, so that definitions
    /// that are shorter than a question would have it asked for again and again.
    ForAWhile,
}

/// What is known of one name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub object: Option<Object>,
    /// Whether a writer has said that there is nothing by this name.
    pub is_absent: bool,
    /// Whether it follows from what other names mean.
    pub rests_on_others: bool,
    /// Whether a reader has said it.
    pub is_of_reader: bool,
    /// Whether nothing was told, because it was being defined when it was asked for.
    pub put_off: PutOff,
    /// When it was asked, among all asks and definitions.
    pub order: u64,
    /// When it should be asked again, ms.
    pub due_ms: u64,
    /// When it is not known any more, ms.
    pub until_ms: u64,
    /// What it was when it was known last.
    pub last: Option<Object>,
    /// When that was asked, among all asks and definitions; 0 where it was never known.
    pub last_order: u64,
    /// Until then servers that replicate may take it for what it was before, ms.
    pub settled_ms: u64,
}

pub(super) type Entries = HashMap<Name, Entry, FixedState>;

/// When the younger half is full the older one is dropped, and the younger takes its place: what
/// is in use is told again often enough to be young.
#[derive(Debug, Default)]
pub(super) struct Shard {
    young: Entries,
    old: Entries,
    /// Base tables that names depend on, and when these were asked for, among all asks.
    bases: HashMap<Name, (u64, Arc<[Name]>), FixedState>,
}

impl Shard {
    pub(super) fn get(&self, name: &Name) -> Option<&Entry> {
        self.young.get(name).or_else(|| self.old.get(name))
    }

    /// The base tables that a name depends on, by the answer that its entry is of.
    pub(super) fn bases(&self, name: &Name, order: u64) -> Option<Arc<[Name]>> {
        let (known, bases) = self.bases.get(name)?;
        (*known == order).then(|| Arc::clone(bases))
    }

    /// Keeps the base tables that a name depends on, for at most so many names.
    pub(super) fn put_bases(
        &mut self,
        name: &Name,
        order: u64,
        bases: Option<Arc<[Name]>>,
        names_max: usize,
    ) {
        match bases {
            Some(bases) => {
                if self.bases.len() >= names_max && !self.bases.contains_key(name) {
                    // What is in use is told again.
                    self.bases.clear();
                }
                self.bases.insert(name.clone(), (order, bases));
            }
            None => _ = self.bases.remove(name),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Takes an entry over. Gives the older half when it had to go, for the caller to drop when
    /// the lock is free again.
    pub(super) fn put(&mut self, name: Name, entry: Entry, entries_max: usize) -> Option<Entries> {
        self.old.remove(&name);
        self.young.insert(name, entry);
        let is_full = self.young.len() > (entries_max / 2).max(1);
        is_full.then(|| std::mem::replace(&mut self.old, std::mem::take(&mut self.young)))
    }

    /// All entries of the group should be asked again at once.
    pub(super) fn age(&mut self, group: HostgroupId) {
        let all = self.young.iter_mut().chain(self.old.iter_mut());
        all.filter(|(name, _)| name.group == group).for_each(|(_, entry)| entry.due_ms = 0);
    }
}
