//! What the statements of several clients, prepared from one text, have in common.

use std::{
    cell::RefCell,
    collections::{HashMap, hash_map},
    rc::Rc,
    sync::Arc,
};

use foldhash::fast::FixedState;
use trunkline_pool::AccountId;
use trunkline_protocol::response::Prepared;
use trunkline_session::tracker::SessionState;

use crate::analysis::Known;

/// A text that clients have prepared, and what it takes to prepare it again elsewhere.
#[derive(Debug)]
pub(crate) struct Entry {
    pub text: Box<[u8]>,
    pub known: Rc<Known>,
    /// The part of a session's state that the text was read under.
    pub reading: Arc<SessionState>,
    /// Whether the text has literals, which are read with more of the state than the rest.
    pub has_literals: bool,
    /// Parameters, as a server counted them.
    pub params: u16,
    /// Whether its executions give rows.
    pub has_rows: bool,
    /// Columns, as a server counted them.
    pub columns_count: u16,
    /// Whether a server's statement of it is run once only. MySQL 9.7 takes the bytes of a vector
    /// by the first execution that writes them; to any other of the statement it says 6136.
    pub is_once: bool,
    /// Definitions of its columns that one of its clients has, to be shared by others.
    columns: RefCell<Option<Rc<[u8]>>>,
}

impl Entry {
    /// These definitions; one allocation for all clients that have the same.
    pub(crate) fn columns(&self, definitions: &[u8]) -> Rc<[u8]> {
        let mut shared = self.columns.borrow_mut();
        match &*shared {
            Some(known) if **known == *definitions => Rc::clone(known),
            Some(_) | None => Rc::clone(shared.insert(definitions.into())),
        }
    }

    /// What a server said of it, under a client's id.
    pub(crate) fn prepared(&self, stmt_id: u32) -> Prepared {
        let (params, columns) = (self.params, self.columns_count);
        Prepared { stmt_id, params, columns, takes_vector: self.is_once }
    }

    /// Whether a server has found the same in the text.
    pub(crate) fn is_like(&self, prepared: Prepared) -> bool {
        self.params == prepared.params
            && self.has_rows == (prepared.columns > 0)
            && self.is_once == is_once(prepared)
    }
}

/// Whether one execution uses a statement up.
fn is_once(prepared: Prepared) -> bool {
    prepared.takes_vector && prepared.columns == 0
}

/// What tells entries apart: who prepares, how the text is read, and the text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EntryKey {
    pub account: AccountId,
    pub reading: Arc<SessionState>,
    pub has_literals: bool,
    pub text: Box<[u8]>,
}

impl EntryKey {
    fn entry(&self, known: Rc<Known>, prepared: Prepared) -> Rc<Entry> {
        let Prepared { params, columns: columns_count, .. } = prepared;
        let has_rows = columns_count > 0;
        let Self { has_literals, .. } = *self;
        let (text, reading) = (self.text.clone(), Arc::clone(&self.reading));
        let columns = RefCell::default();
        Rc::new(Entry {
            text,
            known,
            reading,
            has_literals,
            params,
            has_rows,
            columns_count,
            is_once: is_once(prepared),
            columns,
        })
    }
}

/// The entries of one worker. Those that neither a client nor a connection holds are dropped.
#[derive(Debug)]
pub(crate) struct Entries {
    entries: HashMap<EntryKey, Rc<Entry>, FixedState>,
    /// Size at which entries that nobody holds are dropped.
    purge_at: usize,
}

/// The fewest entries before the table looks for those that nobody holds.
const PURGE_MIN: usize = 256;

impl Default for Entries {
    fn default() -> Self {
        Self { entries: HashMap::with_hasher(FixedState::default()), purge_at: PURGE_MIN }
    }
}

impl Entries {
    /// The entry of this key; a new one unless there is one that is like what was prepared, and
    /// whose text was read the same way.
    pub(crate) fn share(
        &mut self,
        key: EntryKey,
        known: Rc<Known>,
        prepared: Prepared,
    ) -> Rc<Entry> {
        if self.entries.len() >= self.purge_at {
            self.entries.retain(|_, entry| Rc::strong_count(entry) > 1);
            self.purge_at = self.entries.len().saturating_mul(2).max(PURGE_MIN);
        }
        match self.entries.entry(key) {
            hash_map::Entry::Occupied(mut place)
                if !place.get().is_like(prepared)
                    || place.get().known.analysis != known.analysis =>
            {
                let entry = place.key().entry(known, prepared);
                place.insert(Rc::clone(&entry));
                entry
            }
            hash_map::Entry::Occupied(place) => Rc::clone(place.get()),
            hash_map::Entry::Vacant(place) => {
                let entry = place.key().entry(known, prepared);
                Rc::clone(place.insert(entry))
            }
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&EntryKey, &Rc<Entry>)> {
        self.entries.iter()
    }

    /// An entry that no other statement has.
    pub(crate) fn own(key: &EntryKey, known: Rc<Known>, prepared: Prepared) -> Rc<Entry> {
        key.entry(known, prepared)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use trunkline_config::Settings;
    use trunkline_session::tracker::{Charset, Schema};
    use trunkline_sql::token::Modes;

    use super::*;
    use crate::analysis::Analyses;

    fn key(account: u32, schema: &str, text: &str) -> EntryKey {
        let state = SessionState::new(Schema::from(schema.as_bytes()), Charset::Collation(45));
        EntryKey {
            account: AccountId(account),
            reading: Arc::new(state),
            has_literals: false,
            text: text.as_bytes().into(),
        }
    }

    fn known(text: &str) -> Rc<Known> {
        Analyses::new(&Settings::default()).know(text.as_bytes(), &Modes::default())
    }

    fn prepared(params: u16, text: &str) -> Prepared {
        let columns = u16::from(text.starts_with("SELECT"));
        Prepared { stmt_id: 9, params, columns, takes_vector: false }
    }

    pub(in crate::prepared) fn entry(text: &str, params: u16) -> Rc<Entry> {
        Entries::own(&key(0, "app", text), known(text), prepared(params, text))
    }

    pub(in crate::prepared) fn vector_entry(text: &str, params: u16) -> Rc<Entry> {
        let prepared = Prepared { takes_vector: true, ..prepared(params, text) };
        Entries::own(&key(0, "app", text), known(text), prepared)
    }

    #[test]
    fn one_text_of_one_account_read_alike_is_one_entry() {
        let mut entries = Entries::default();
        let mut share = |account, schema, text, params| {
            entries.share(key(account, schema, text), known(text), prepared(params, text))
        };
        let first = share(1, "app", "SELECT ?", 1);
        assert!(Rc::ptr_eq(&first, &share(1, "app", "SELECT ?", 1)));
        for other in [
            share(2, "app", "SELECT ?", 1),
            share(1, "shop", "SELECT ?", 1),
            share(1, "app", "SELECT ? ", 1),
            share(1, "app", "SELECT ?", 2),
        ] {
            assert!(!Rc::ptr_eq(&first, &other), "{other:?}");
        }
    }

    #[test]
    fn entries_that_nobody_holds_are_dropped() {
        let mut entries = Entries::default();
        let kept = entries.share(key(1, "app", "DO 0"), known("DO 0"), prepared(0, ""));
        for number in 0..5 * PURGE_MIN {
            let text = format!("DO {number} + 1");
            drop(entries.share(key(1, "app", &text), known("DO 1"), prepared(0, "")));
        }
        assert!(entries.entries.len() <= PURGE_MIN + 1, "{}", entries.entries.len());
        let again = entries.share(key(1, "app", "DO 0"), known("DO 0"), prepared(0, ""));
        assert!(Rc::ptr_eq(&kept, &again));
    }
}
