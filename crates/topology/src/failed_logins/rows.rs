//! Rows in a bounded number.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

/// Rows by their keys. For one more than there may be, the one whose time ends first goes.
#[derive(Debug)]
pub(super) struct Rows<K, V> {
    by_key: HashMap<Arc<K>, Row<V>>,
    /// The keys by when their time ends and, where that is the same, by their number.
    by_end: BTreeMap<(u64, u64), Arc<K>>,
    next: u64,
    max: usize,
}

#[derive(Debug)]
struct Row<V> {
    value: V,
    end: (u64, u64),
}

impl<K: Hash + Eq, V> Rows<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self { by_key: HashMap::new(), by_end: BTreeMap::new(), next: 0, max }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.by_key.get(key).map(|row| &row.value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.by_key.get_mut(key).map(|row| &mut row.value)
    }

    /// Sets a row and until when it is of use. Whether another one had to go before its time.
    pub(super) fn set(&mut self, key: K, value: V, end_ms: u64, now_ms: u64) -> bool {
        let key = Arc::new(key);
        self.remove(&key);
        let displaced = if self.by_key.len() < self.max { None } else { self.by_end.pop_first() };
        if let Some((_, key)) = &displaced {
            self.by_key.remove(key);
        }
        let end = (end_ms, self.next);
        self.next += 1;
        self.by_end.insert(end, Arc::clone(&key));
        self.by_key.insert(key, Row { value, end });
        debug_assert!(self.by_key.len() <= self.max);
        debug_assert_eq!(self.by_key.len(), self.by_end.len());
        displaced.is_some_and(|((end_ms, _), _)| end_ms > now_ms)
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(row) = self.by_key.remove(key) {
            self.by_end.remove(&row.end);
        }
    }

    pub(super) fn clear(&mut self) {
        self.by_key.clear();
        self.by_end.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.by_key.iter().map(|(key, row)| (&**key, &row.value))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.by_key.values_mut().map(|row| &mut row.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_whose_time_ends_first_goes() {
        let mut rows = Rows::new(2);
        assert!(!rows.set("long", 1, 100, 0));
        assert!(!rows.set("short", 2, 10, 0));
        assert!(!rows.set("third", 3, 20, 10), "its time was over");
        assert_eq!((rows.get(&"short"), rows.get(&"third")), (None, Some(&3)));
        assert!(!rows.set("third", 4, 200, 11), "it is there already");
        assert!(rows.set("fourth", 5, 20, 12));
        assert_eq!((rows.get(&"long"), rows.get(&"third"), rows.len()), (None, Some(&4), 2));
        rows.remove(&"third");
        assert!(!rows.set("fifth", 6, 20, 12));
    }
}
