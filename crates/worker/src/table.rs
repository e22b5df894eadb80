//! A table whose keys tell an entry from an earlier one at the same place.

use slab::Slab;
use trunkline_pool::ConnId;

use crate::ClientId;

/// A key of a [`Table`].
pub(crate) trait Key: Copy {
    fn new(index: u32, generation: u32) -> Self;
    fn index(self) -> usize;
    fn generation(self) -> u32;
}

macro_rules! key {
    ($name:ident) => {
        impl Key for $name {
            fn new(index: u32, generation: u32) -> Self {
                Self { index, generation }
            }

            fn index(self) -> usize {
                self.index as usize
            }

            fn generation(self) -> u32 {
                self.generation
            }
        }
    };
}

key!(ClientId);
key!(ConnId);

/// Entries by key; a key of an entry that has gone finds nothing.
///
/// An entry is lent for as long as something is done with it, and nobody finds it meanwhile: who
/// works with it hands it on by reference.
#[derive(Debug)]
pub(crate) struct Table<K, T> {
    /// `None` while the entry is lent.
    entries: Slab<(K, Option<Box<T>>)>,
    generation: u32,
}

impl<K: Key, T> Table<K, T> {
    pub(crate) fn new() -> Self {
        Self { entries: Slab::new(), generation: 0 }
    }

    /// Adds the entry that `make` builds from its key.
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(K) -> T) -> K {
        self.generation = self.generation.wrapping_add(1);
        let place = self.entries.vacant_entry();
        let index = u32::try_from(place.key()).unwrap_or(u32::MAX);
        debug_assert!(index != u32::MAX, "descriptors end long before indexes do");
        let key = K::new(index, self.generation);
        place.insert((key, Some(Box::new(make(key)))));
        key
    }

    pub(crate) fn get(&self, key: K) -> Option<&T> {
        match self.entries.get(key.index()) {
            Some((known, entry)) if known.generation() == key.generation() => {
                debug_assert!(entry.is_some(), "it is lent");
                entry.as_deref()
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut T> {
        match self.entries.get_mut(key.index()) {
            Some((known, entry)) if known.generation() == key.generation() => {
                debug_assert!(entry.is_some(), "it is lent");
                entry.as_deref_mut()
            }
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<Box<T>> {
        self.get(key)?;
        self.entries.try_remove(key.index()).and_then(|(_, entry)| entry)
    }

    /// Takes an entry out for a while; its key stays.
    #[inline]
    pub(crate) fn lend(&mut self, key: K) -> Option<Box<T>> {
        match self.entries.get_mut(key.index()) {
            Some((known, entry)) if known.generation() == key.generation() => {
                debug_assert!(entry.is_some(), "it is lent");
                entry.take()
            }
            _ => None,
        }
    }

    /// Takes a lent entry back, unless it was forgotten meanwhile.
    #[inline]
    pub(crate) fn take_back(&mut self, key: K, entry: Box<T>) {
        if let Some((known, place)) = self.entries.get_mut(key.index())
            && known.generation() == key.generation()
        {
            debug_assert!(place.is_none(), "it is lent to one");
            *place = Some(entry);
        }
    }

    /// Forgets an entry that is lent: its key finds nothing from now on, and it goes when it is
    /// given back.
    pub(crate) fn forget(&mut self, key: K) {
        if let Some((known, entry)) = self.entries.get(key.index())
            && known.generation() == key.generation()
        {
            debug_assert!(entry.is_none(), "who ends it has it");
            self.entries.try_remove(key.index());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn keys(&self) -> Vec<K> {
        self.entries.iter().map(|(_, (key, _))| *key).collect()
    }

    /// Keys of the entries for which `wanted` holds.
    pub(crate) fn keys_where(&self, mut wanted: impl FnMut(&T) -> bool) -> Vec<K> {
        let entries =
            self.entries.iter().filter(|(_, (_, entry))| entry.as_deref().is_some_and(&mut wanted));
        entries.map(|(_, (key, _))| *key).collect()
    }

    /// Visits every entry.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(K, &T)) {
        for (_, (key, entry)) in &self.entries {
            if let Some(entry) = entry {
                visit(*key, entry);
            }
        }
    }

    /// Changes every entry.
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(K, &mut T)) {
        for (_, (key, entry)) in &mut self.entries {
            if let Some(entry) = entry {
                change(*key, entry);
            }
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|(_, (_, entry))| entry.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_an_entry_that_has_gone_finds_nothing() {
        let mut table: Table<ClientId, &str> = Table::new();
        let first = table.insert_with(|_| "first");
        assert_eq!(table.remove(first), Some(Box::new("first")));
        let second = table.insert_with(|_| "second");
        assert_eq!(first.index, second.index);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&"second")));
        assert_eq!(table.remove(first), None);
    }

    #[test]
    fn a_lent_entry_comes_back_to_its_key() {
        let mut table: Table<ClientId, &str> = Table::new();
        let key = table.insert_with(|_| "lent");
        let entry = table.lend(key).expect("it is there");
        assert_eq!(table.len(), 1, "its place is kept");
        assert_eq!(table.values().count(), 0);
        table.take_back(key, entry);
        assert_eq!(table.get(key), Some(&"lent"));
        table.remove(key);
        assert_eq!(table.lend(key), None);
    }

    #[test]
    fn a_lent_entry_that_is_forgotten_does_not_come_back() {
        let mut table: Table<ClientId, &str> = Table::new();
        let key = table.insert_with(|_| "lent");
        let entry = table.lend(key).expect("it is there");
        table.forget(key);
        let next = table.insert_with(|_| "next");
        assert_eq!(key.index, next.index, "its place is free");
        table.take_back(key, entry);
        assert_eq!((table.get(key), table.get(next)), (None, Some(&"next")));
    }
}
