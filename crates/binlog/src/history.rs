//! The last changes of a stream, for those who come later or have to be told again.

use std::{collections::VecDeque, sync::Arc};

use crate::{Change, Executed};

/// Bytes that stand for a change beside its tables and statements.
const CHANGE_LEN: usize = 200;

/// The last changes, in the order of the stream.
#[derive(Debug)]
pub struct History {
    /// What is there before the first change that is kept.
    base: Executed,
    /// What is there behind the last one.
    reached: Executed,
    changes: VecDeque<Kept>,
    /// The number of the first one that is kept: each has one, which it keeps.
    first: u64,
    /// Bytes of all, about.
    len: usize,
    count_max: usize,
    len_max: usize,
}

/// A change that is kept.
#[derive(Debug)]
struct Kept {
    change: Arc<Change>,
    /// When it came.
    came_us: u64,
}

/// What a server lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// How many transactions, of those that are kept.
    pub transactions: u64,
    /// When the first of them came; `None` when nothing is lacking.
    pub since_us: Option<u64>,
}

impl History {
    /// Begins behind these transactions, and keeps at most so many changes and bytes.
    pub fn new(base: Executed, count_max: usize, len_max: usize) -> Self {
        let reached = base.clone();
        let changes = VecDeque::new();
        Self { base, reached, changes, first: 0, len: 0, count_max, len_max }
    }

    /// Begins anew behind these transactions: what came between is not known. Numbers go on.
    pub fn begin_anew(&mut self, base: Executed) {
        self.first = self.next();
        self.changes.clear();
        self.len = 0;
        self.reached = base.clone();
        self.base = base;
    }

    /// Adds the next change, which came at this time.
    pub fn push(&mut self, change: Change, came_us: u64) -> Arc<Change> {
        let change = Arc::new(change);
        self.reached.add(&change.gtid);
        self.len = self.len.saturating_add(len(&change));
        self.changes.push_back(Kept { change: Arc::clone(&change), came_us });
        while self.changes.len() > self.count_max || self.len > self.len_max {
            let Some(gone) = self.changes.pop_front() else { break };
            self.len -= len(&gone.change);
            self.first += 1;
            self.base.add(&gone.change.gtid);
        }
        change
    }

    /// The number of the next change.
    pub fn next(&self) -> u64 {
        self.first + u64::try_from(self.changes.len()).unwrap_or_default()
    }

    /// What is there behind the last change.
    pub fn reached(&self) -> &Executed {
        &self.reached
    }

    /// What is there before the first change that is kept.
    pub fn base(&self) -> &Executed {
        &self.base
    }

    /// The changes from this number on, at most so many; `None` when some of them are not kept any
    /// more.
    pub fn from(&self, number: u64, count_max: usize) -> Option<Vec<Arc<Change>>> {
        let skip = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let kept = self.changes.iter().skip(skip).take(count_max);
        Some(kept.map(|it| Arc::clone(&it.change)).collect())
    }

    /// What a server lacks that has these transactions; `None` for another family's.
    pub fn lacks(&self, has: &Executed) -> Option<Lacks> {
        if has.family() != self.reached.family() {
            return None;
        }
        let mut lacks = Lacks::default();
        if !has.covers(&self.reached) {
            for kept in self.changes.iter().filter(|kept| !has.has(&kept.change.gtid)) {
                lacks.transactions += 1;
                lacks.since_us.get_or_insert(kept.came_us);
            }
        }
        Some(lacks)
    }

    /// The number of the first change that a server lacks that has these transactions. `before`: it
    /// was known to lack none before that number. `None` when it may lack some that are not kept
    /// any more.
    pub fn first_lacking(&self, has: &Executed, before: Option<u64>) -> Option<u64> {
        let from = match before.filter(|before| *before >= self.first) {
            Some(before) => before,
            None if has.covers(&self.base) => self.first,
            None => return None,
        };
        let skip = usize::try_from(from - self.first).ok()?;
        let mut kept = self.changes.iter().skip(skip);
        let shown = kept.position(|kept| !has.has(&kept.change.gtid));
        match shown {
            Some(count) => Some(from + u64::try_from(count).ok()?),
            None => Some(self.next()),
        }
    }

    /// The number of the first change that is kept, when all that lacks behind `from` is kept.
    pub fn after(&self, from: &Executed) -> Option<u64> {
        from.covers(&self.base).then_some(self.first)
    }
}

fn len(change: &Change) -> usize {
    let tables = change.tables.iter().map(|it| it.name.schema.len() + it.name.table.len() + 100);
    let statements = change.statements.iter().map(|it| it.schema.len() + it.words.len() + 50);
    CHANGE_LEN + tables.chain(statements).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use trunkline_topology::gtid::Origin;

    use super::*;
    use crate::{Family, Gtid};

    fn change(number: u64) -> Change {
        let gtid = Gtid { origin: Origin::Domain(0), server: 1, number };
        Change { gtid, at_us: 0, tables: vec![], statements: vec![], is_complete: true }
    }

    fn position(text: &str) -> Executed {
        Executed::parse(Family::MariaDb, text).expect("a position")
    }

    fn numbers(history: &History, from: u64) -> Option<Vec<u64>> {
        let changes = history.from(from, 2)?;
        Some(changes.iter().map(|it| it.gtid.number).collect())
    }

    #[test]
    fn the_last_changes_are_kept_and_numbers_go_on() {
        let mut history = History::new(position("0-1-10"), 3, 1 << 20);
        for number in 11..=15 {
            history.push(change(number), number * 10);
        }
        assert_eq!((history.base(), history.reached()), (&position("0-1-12"), &position("0-1-15")));
        assert_eq!(history.next(), 5);
        assert_eq!(numbers(&history, 1), None);
        assert_eq!(numbers(&history, 2), Some(vec![13, 14]));
        assert_eq!(numbers(&history, 4), Some(vec![15]));
        assert_eq!(numbers(&history, 5), Some(vec![]));
        assert_eq!(history.after(&position("0-1-12")), Some(2));
        assert_eq!(history.after(&position("0-1-11")), None);
        assert_eq!(history.after(&position("")), None);
        let lacks = |has: &str| history.lacks(&position(has));
        let some = |transactions, since| Some(Lacks { transactions, since_us: Some(since) });
        assert_eq!(lacks("0-1-13"), some(2, 140));
        assert_eq!(lacks("0-1-7"), some(3, 130));
        assert_eq!(lacks("0-1-15"), Some(Lacks::default()));
        let other = Executed::parse(Family::MySql, "").expect("a set");
        assert_eq!(history.lacks(&other), None);
        let first_lacking = |has: &str, before| history.first_lacking(&position(has), before);
        assert_eq!(first_lacking("0-1-11", None), None, "12 is not kept any more");
        assert_eq!(first_lacking("0-1-12", None), Some(2));
        assert_eq!(first_lacking("0-1-14", None), Some(4));
        assert_eq!(first_lacking("0-1-14", Some(3)), Some(4));
        assert_eq!(first_lacking("0-1-14", Some(1)), Some(4));
        assert_eq!(first_lacking("0-1-99", Some(5)), Some(5));
        assert_eq!(history.first_lacking(&other, None), None);
        history.begin_anew(position("0-1-99"));
        assert_eq!((history.next(), numbers(&history, 5)), (5, Some(vec![])));
        assert_eq!(numbers(&history, 4), None);
        assert_eq!(history.after(&position("0-1-50")), None);
    }

    #[test]
    fn bytes_are_bounded() {
        let mut history = History::new(position(""), 1_000, 5 * CHANGE_LEN);
        (1..=9).for_each(|number| _ = history.push(change(number), 0));
        assert_eq!(numbers(&history, 4), Some(vec![5, 6]));
        assert_eq!(numbers(&history, 3), None);
    }
}
