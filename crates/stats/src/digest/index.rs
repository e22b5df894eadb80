//! From a hash to a row's number: open addressing with linear probing, which never holds more
//! than five eighths of its slots, so that a search always meets an empty one.

/// The most rows that the index can number.
pub(super) const ROWS_MAX: usize = 1 << 30;

const SLOTS_MIN: usize = 16;
const EMPTY: Slot = Slot { hash: 0, row: u32::MAX };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    hash: u32,
    row: u32,
}

/// Numbers of rows by hash. The caller compares keys and sees to it that each row is in once.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// A power of two of slots, or none before the first row.
    slots: Vec<Slot>,
    len: usize,
}

impl Index {
    /// How many rows are in.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn slot(&self, at: usize) -> Slot {
        self.slots.get(at).copied().unwrap_or(EMPTY)
    }

    fn set(&mut self, at: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    /// The row with this hash that `is_it` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slot(at);
            if slot == EMPTY {
                return None;
            }
            if slot.hash == hash && is_it(slot.row as usize) {
                return Some(slot.row as usize);
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts in a row that is not in.
    pub(super) fn insert(&mut self, hash: u32, row: usize) {
        debug_assert!(row < ROWS_MAX);
        let Ok(row) = u32::try_from(row) else { return };
        if (self.len + 1) * 8 > self.slots.len() * 5 {
            self.grow();
        }
        self.len += 1;
        self.place(Slot { hash, row });
    }

    fn place(&mut self, slot: Slot) {
        let mask = self.mask();
        let mut at = slot.hash as usize & mask;
        while self.slot(at) != EMPTY {
            at = (at + 1) & mask;
        }
        self.set(at, slot);
    }

    fn grow(&mut self) {
        let doubled = (self.slots.len() * 2).max(SLOTS_MIN);
        debug_assert!(doubled.is_power_of_two());
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; doubled]);
        for slot in old.into_iter().filter(|slot| *slot != EMPTY) {
            self.place(slot);
        }
    }

    /// Takes out a row that is in with this hash.
    pub(super) fn remove(&mut self, hash: u32, row: usize) {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slot(at);
            if slot == EMPTY {
                debug_assert!(false, "row {row} is not in the index");
                return;
            }
            if slot.row as usize == row {
                break;
            }
            at = (at + 1) & mask;
        }
        self.len -= 1;
        self.close_gap(at);
    }

    /// Moves what a search would no longer reach past an empty slot at `gap` back into it.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.mask();
        let mut at = (gap + 1) & mask;
        loop {
            let slot = self.slot(at);
            if slot == EMPTY {
                break;
            }
            let home = slot.hash as usize & mask;
            let is_reached_over_gap = at.wrapping_sub(home) & mask >= at.wrapping_sub(gap) & mask;
            if is_reached_over_gap {
                self.set(gap, slot);
                gap = at;
            }
            at = (at + 1) & mask;
        }
        self.set(gap, EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_behaves_like_a_map_whatever_collides(
            steps in prop::collection::vec((any::<bool>(), 0_usize..60, 0_u32..8), 0..300),
        ) {
            let mut index = Index::default();
            let mut model: HashMap<usize, u32> = HashMap::new();
            for (put_in, row, hash) in steps {
                match (put_in, model.get(&row).copied()) {
                    (true, None) => {
                        index.insert(hash << 2, row);
                        model.insert(row, hash << 2);
                    }
                    (false, Some(hash)) => {
                        index.remove(hash, row);
                        model.remove(&row);
                    }
                    (true, Some(_)) | (false, None) => {}
                }
                prop_assert_eq!(index.len(), model.len());
                for (row, hash) in &model {
                    prop_assert_eq!(index.find(*hash, |found| found == *row), Some(*row));
                }
            }
            prop_assert_eq!(index.find(1, |_| true), None);
        }
    }
}
