//! Names that DDL through the proxy makes unknown, until it is over and they are asked anew.
//!
//! A table of slots stands for all words: a definition marks the slots of its text's words, and an
//! entry holds as long as the slots of its names have not been marked since it was asked. Names
//! that share a slot are asked once more than they need to be, and nothing is searched.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hasher},
    iter,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
};

use foldhash::fast::FixedState;
use trunkline_topology::HostgroupId;

use super::Catalog;
use crate::Name;

/// Slots for words.
const SLOTS: usize = 16_384;
/// Different words that one definition marks; with more of them it marks its whole group.
const WORDS_MAX: usize = 2_048;
/// Slots for groups.
const GROUPS: usize = 256;

#[derive(Debug)]
pub(super) struct Definitions {
    words: Box<[Slot]>,
    /// Marked by definitions that may be of anything in a group.
    wholes: Box<[Slot]>,
    /// Marked by any definition in a group.
    anys: Box<[Slot]>,
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    /// The order of the last beginning or end of a definition.
    last: AtomicU64,
    /// Definitions under way.
    under_way: AtomicU32,
}

impl Slot {
    /// Whether nothing has been defined here since that order, and nothing is now.
    fn is_quiet_since(&self, order: u64) -> bool {
        // A definition counts itself first and takes its order then.
        self.under_way.load(SeqCst) == 0 && self.last.load(SeqCst) < order
    }
}

impl Default for Definitions {
    fn default() -> Self {
        let slots = |count| iter::repeat_with(Slot::default).take(count).collect();
        Self {
            words: slots(SLOTS),
            wholes: slots(GROUPS),
            anys: slots(GROUPS),
            count: AtomicU64::new(0),
        }
    }
}

impl Definitions {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Whether what was asked at `order` of a name has not been defined anew since.
    pub(super) fn is_after(&self, name: &Name, rests_on_others: bool, order: u64) -> bool {
        let group = place_of_group(name.group);
        let quiet =
            |slots: &[Slot], at: usize| slots.get(at).is_some_and(|it| it.is_quiet_since(order));
        match rests_on_others {
            true => quiet(&self.anys, group),
            false => {
                quiet(&self.wholes, group)
                    && quiet(&self.words, place_of_word(name.group, &name.table))
                    && quiet(&self.words, place_of_word(name.group, &name.schema))
            }
        }
    }
}

/// A definition that a server is carrying out, or may be. It ends when this is dropped.
#[derive(Debug)]
pub struct DefinitionTicket {
    catalog: Arc<Catalog>,
    group: HostgroupId,
    /// Places of its words; `None` for the whole group.
    words: Option<Vec<usize>>,
}

impl DefinitionTicket {
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let Definitions { words, wholes, anys, .. } = &self.catalog.definitions;
        let group = place_of_group(self.group);
        let whole = self.words.is_none().then(|| wholes.get(group)).flatten();
        let of_words = self.words.iter().flatten().filter_map(|at| words.get(*at));
        anys.get(group).into_iter().chain(whole).chain(of_words)
    }
}

impl Drop for DefinitionTicket {
    fn drop(&mut self) {
        let order = self.catalog.next_order();
        for slot in self.slots() {
            slot.last.fetch_max(order, SeqCst);
            slot.under_way.fetch_sub(1, SeqCst);
        }
        self.catalog.outdate();
    }
}

impl Catalog {
    /// DDL is about to be sent to the group. Every name whose schema or table is one of the words
    /// of its text is unknown from now on until it is over, and so is what rests on others: views,
    /// tables with triggers. All names of the group where there are no words, or very many.
    pub fn begin_definition<'a>(
        self: &Arc<Self>,
        group: HostgroupId,
        words: Option<impl Iterator<Item = &'a [u8]>>,
    ) -> DefinitionTicket {
        let words = words.and_then(|words| places_of(group, words));
        let ticket = DefinitionTicket { catalog: Arc::clone(self), group, words };
        ticket.slots().for_each(|slot| {
            slot.under_way.fetch_add(1, SeqCst);
        });
        let order = self.next_order();
        ticket.slots().for_each(|slot| {
            slot.last.fetch_max(order, SeqCst);
        });
        self.definitions.count.fetch_add(1, Relaxed);
        self.outdate();
        ticket
    }

    /// The DDL is over, whatever came of it: its names may be asked for again.
    pub fn end_definition(&self, ticket: DefinitionTicket) {
        debug_assert!(std::ptr::eq(&raw const *ticket.catalog, self));
        drop(ticket);
    }
}

/// `None` when there are too many words.
fn places_of<'a>(group: HostgroupId, words: impl Iterator<Item = &'a [u8]>) -> Option<Vec<usize>> {
    let mut places: HashSet<usize, FixedState> = HashSet::default();
    for word in words {
        places.insert(place_of_word(group, word));
        if places.len() > WORDS_MAX {
            return None;
        }
    }
    Some(places.into_iter().collect())
}

/// Names that some server may take for one have one place: whatever the case of their letters, and
/// letters beyond ASCII count for nothing.
fn place_of_word(group: HostgroupId, word: &[u8]) -> usize {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u32(group.0);
    for byte in word.iter().filter(|byte| byte.is_ascii()) {
        hasher.write_u8(byte.to_ascii_lowercase());
    }
    usize::try_from(hasher.finish() % SLOTS as u64).unwrap_or_default()
}

fn place_of_group(group: HostgroupId) -> usize {
    usize::try_from(group.0).unwrap_or_default() % GROUPS
}
