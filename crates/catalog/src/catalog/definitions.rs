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
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence},
    },
};

use foldhash::fast::FixedState;

use super::Catalog;
use crate::Name;

/// Slots for words.
const SLOTS: usize = 16_384;
/// Different words that one definition marks; with more of them it marks everything.
const WORDS_MAX: usize = 2_048;

#[derive(Debug)]
pub(super) struct Definitions {
    words: Box<[Slot]>,
    /// Marked by definitions that may be of anything.
    whole: Slot,
    /// Marked by any definition.
    any: Slot,
    count: AtomicU64,
    /// Connections with reads that were sent elsewhere as well.
    copies: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    /// The order of the last beginning or end of a definition.
    last: AtomicU64,
    /// Definitions under way.
    under_way: AtomicU32,
    /// The orders of the last two beginnings of DDL; 0 where there was none.
    begun: [AtomicU64; 2],
}

impl Slot {
    /// DDL begins.
    fn begin(&self, order: u64) {
        let [last, before] = &self.begun;
        before.fetch_max(last.fetch_max(order, SeqCst), SeqCst);
    }

    /// How often DDL has begun since that order; two stands for more, too.
    fn begun_since(&self, order: u64) -> usize {
        self.begun.iter().filter(|begun| begun.load(SeqCst) > order).count()
    }

    fn is_under_way(&self) -> bool {
        self.under_way.load(SeqCst) > 0
    }

    /// Whether nothing has been defined here since that order, and nothing is now.
    fn is_quiet_since(&self, order: u64) -> bool {
        // A definition counts itself first and takes its order then.
        !self.is_under_way() && self.last.load(SeqCst) < order
    }
}

impl Default for Definitions {
    fn default() -> Self {
        Self {
            words: iter::repeat_with(Slot::default).take(SLOTS).collect(),
            whole: Slot::default(),
            any: Slot::default(),
            count: AtomicU64::new(0),
            copies: AtomicU64::new(0),
        }
    }
}

impl Definitions {
    pub(super) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Whether what was asked at `order` of a name has not been defined anew since.
    pub(super) fn is_after(&self, name: &Name, rests_on_others: bool, order: u64) -> bool {
        let is_quiet = |word: &[u8]| {
            self.words.get(place_of_word(word)).is_some_and(|it| it.is_quiet_since(order))
        };
        match rests_on_others {
            true => self.any.is_quiet_since(order),
            false => {
                self.whole.is_quiet_since(order) && is_quiet(&name.table) && is_quiet(&name.schema)
            }
        }
    }

    /// Whether a definition is under way that may be of a name.
    pub(super) fn is_under_way(&self, name: &Name, rests_on_others: bool) -> bool {
        let is_of =
            |word: &[u8]| self.words.get(place_of_word(word)).is_some_and(Slot::is_under_way);
        match rests_on_others {
            true => self.any.is_under_way(),
            false => self.whole.is_under_way() || is_of(&name.table) || is_of(&name.schema),
        }
    }

    /// How often DDL may have begun since that order that made a name something else; two stands
    /// for more, too. Its text names what it makes; a schema's word alone makes nothing.
    pub(super) fn begun_since(&self, name: &Name, rests_on_others: bool, order: u64) -> usize {
        if rests_on_others {
            return self.any.begun_since(order);
        }
        let slot = self.words.get(place_of_word(&name.table));
        self.whole.begun_since(order) + slot.map_or(0, |it| it.begun_since(order))
    }
}

/// Reads that have been sent elsewhere as well, and may yet run where they were sent first. While
/// there are any, a definition might make something else of them.
#[derive(Debug)]
pub struct CopyTicket {
    catalog: Arc<Catalog>,
}

impl Drop for CopyTicket {
    fn drop(&mut self) {
        self.catalog.definitions.copies.fetch_sub(1, SeqCst);
    }
}

/// A definition that a server is carrying out, or may be. It ends when this is dropped.
#[derive(Debug)]
pub struct DefinitionTicket {
    catalog: Arc<Catalog>,
    /// Places of its words; `None` for everything.
    words: Option<Vec<usize>>,
}

impl DefinitionTicket {
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let Definitions { words, whole, any, .. } = &self.catalog.definitions;
        let whole = self.words.is_none().then_some(whole);
        let of_words = self.words.iter().flatten().filter_map(|at| words.get(*at));
        [any].into_iter().chain(whole).chain(of_words)
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
    /// DDL is about to be sent. Every name whose schema or table is one of the words of its text is
    /// unknown from now on until it is over, and so is what rests on others: views, tables with
    /// triggers. All names where there are no words, or very many. In all groups: a server may be
    /// in several.
    pub fn begin_definition<'a>(
        self: &Arc<Self>,
        words: Option<impl Iterator<Item = &'a [u8]>>,
    ) -> DefinitionTicket {
        self.definitions.count.fetch_add(1, Relaxed);
        let ticket = self.forget(words.and_then(places_of));
        let order = self.next_order();
        ticket.slots().for_each(|slot| slot.begin(order));
        ticket
    }

    /// Servers are about to be replaced by others: every name is unknown until the ticket is
    /// dropped, and asked anew then.
    pub fn begin_other_servers(self: &Arc<Self>) -> DefinitionTicket {
        self.forget(None)
    }

    fn forget(self: &Arc<Self>, words: Option<Vec<usize>>) -> DefinitionTicket {
        let ticket = DefinitionTicket { catalog: Arc::clone(self), words };
        ticket.slots().for_each(|slot| {
            slot.under_way.fetch_add(1, SeqCst);
        });
        let order = self.next_order();
        ticket.slots().for_each(|slot| {
            slot.last.fetch_max(order, SeqCst);
        });
        self.outdate();
        ticket
    }

    /// Reads on a connection are about to be sent elsewhere too. Ask behind this whether what they
    /// name is still known: a definition begins by making it unknown, and looks for copies then.
    pub fn begin_copies(self: &Arc<Self>) -> CopyTicket {
        self.definitions.copies.fetch_add(1, SeqCst);
        fence(SeqCst);
        CopyTicket { catalog: Arc::clone(self) }
    }

    /// Whether a definition that has begun has to wait for copies of reads.
    pub fn has_copies(&self) -> bool {
        fence(SeqCst);
        self.definitions.copies.load(SeqCst) > 0
    }

    /// The DDL is over, whatever came of it: its names may be asked for again.
    pub fn end_definition(&self, ticket: DefinitionTicket) {
        debug_assert!(std::ptr::eq(&raw const *ticket.catalog, self));
        drop(ticket);
    }
}

/// `None` when there are too many words.
fn places_of<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<Vec<usize>> {
    let mut places: HashSet<usize, FixedState> = HashSet::default();
    for word in words {
        places.insert(place_of_word(word));
        if places.len() > WORDS_MAX {
            return None;
        }
    }
    Some(places.into_iter().collect())
}

/// Names that some server may take for one have one place: whatever the case of their letters, and
/// letters beyond ASCII count for nothing. Nor do those that some of these are folded to: `i` (`İ`
/// and `ı`), `k` (the Kelvin sign) and `s` (`ſ`, `ß`).
fn place_of_word(word: &[u8]) -> usize {
    let mut hasher = FixedState::default().build_hasher();
    for byte in word.iter().filter(|byte| byte.is_ascii()).map(u8::to_ascii_lowercase) {
        if !matches!(byte, b'i' | b'k' | b's') {
            hasher.write_u8(byte);
        }
    }
    usize::try_from(hasher.finish() % SLOTS as u64).unwrap_or_default()
}
