//! Rows, and the view that one session's statement has of them.

use std::collections::BTreeMap;

use super::lock::Locks;
use crate::{
    LinkId,
    session::{Data, Resource, Write, Written, duplicate_text},
    statement::{Failure, Schema, Tag},
};

/// One change that a commit makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A row of `log`.
    Log { id: u64, v: u64 },
    /// A row of `kv` is there with this value.
    Put { key: u64, v: u64 },
    /// A row of `kv` is not there.
    Remove { key: u64 },
}

/// The tables of one host, as committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Store {
    kv: BTreeMap<(Schema, u64), u64>,
    log: BTreeMap<(Schema, u64), u64>,
    next_id: BTreeMap<Schema, u64>,
}

impl Store {
    /// `v` of a row of `kv`.
    pub fn read(&self, schema: Schema, key: u64) -> Option<u64> {
        self.kv.get(&(schema, key)).copied()
    }

    /// All rows of `log`: schema and `v`, in the order of their ids.
    pub fn log(&self) -> impl Iterator<Item = (Schema, u64)> + '_ {
        self.log.iter().map(|((schema, _), v)| (*schema, *v))
    }

    pub(super) fn apply(&mut self, schema: Schema, change: Change) {
        match change {
            Change::Log { id, v } => {
                self.log.insert((schema, id), v);
                let next = self.next_id.entry(schema).or_insert(1);
                *next = (*next).max(id + 1);
            }
            Change::Put { key, v } => {
                self.kv.insert((schema, key), v);
            }
            Change::Remove { key } => {
                self.kv.remove(&(schema, key));
            }
        }
    }

    /// A generated id, or the one that was asked for if that is not 0; it is used up whether the
    /// insert is committed or not.
    fn generate(&mut self, schema: Schema, asked: u64) -> u64 {
        let next = self.next_id.entry(schema).or_insert(1);
        let id = if asked == 0 { *next } else { asked };
        *next = (*next).max(id + 1);
        id
    }
}

/// What a transaction has written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pending {
    pub(super) changes: Vec<(Schema, Change)>,
    /// The statements that did it, by their place in the history.
    pub(super) executions: Vec<usize>,
}

/// How a statement ended what was written.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) committed: Vec<Pending>,
    pub(super) rolled_back: Vec<Pending>,
    /// Connections to kill, and whether only their statements.
    pub(super) killed: Vec<(LinkId, bool)>,
}

/// The tables as one statement sees them: what is committed, with what its own transaction wrote
/// on top.
pub(super) struct View<'a> {
    pub(super) store: &'a mut Store,
    pub(super) pending: &'a mut Pending,
    pub(super) locks: &'a Locks,
    /// Connections by their number.
    pub(super) numbers: &'a BTreeMap<u64, LinkId>,
    /// The statement's place in the history.
    pub(super) execution: usize,
    /// Whose it is.
    pub(super) link: LinkId,
    pub(super) ended: Ended,
}

impl View<'_> {
    fn value(&self, schema: Schema, key: u64) -> Option<u64> {
        for (place, change) in self.pending.changes.iter().rev() {
            match change {
                Change::Put { key: known, v } if (*place, *known) == (schema, key) => {
                    return Some(*v);
                }
                Change::Remove { key: known } if (*place, *known) == (schema, key) => return None,
                Change::Log { .. } | Change::Put { .. } | Change::Remove { .. } => {}
            }
        }
        self.store.read(schema, key)
    }

    fn put(&mut self, schema: Schema, change: Change) {
        self.pending.changes.push((schema, change));
        if self.pending.executions.last() != Some(&self.execution) {
            self.pending.executions.push(self.execution);
        }
    }
}

impl Data for View<'_> {
    fn read(&mut self, schema: Schema, key: u64) -> Option<u64> {
        self.value(schema, key)
    }

    fn count_log(&mut self, schema: Schema, of: Tag) -> u64 {
        let committed = self.store.log().filter(|row| *row == (schema, of.0)).count();
        let own = self.pending.changes.iter().filter(|(place, change)| {
            *place == schema && matches!(change, Change::Log { v, .. } if *v == of.0)
        });
        u64::try_from(committed + own.count()).unwrap_or(u64::MAX)
    }

    fn write(&mut self, schema: Schema, write: Write) -> Result<Written, Failure> {
        let (Write::Insert { key, .. }
        | Write::Replace { key, .. }
        | Write::Update { key, .. }
        | Write::Delete { key }) = write
        else {
            let Write::Log { v, id } = write else {
                return Ok(Written::default());
            };
            let id = self.store.generate(schema, id);
            self.put(schema, Change::Log { id, v });
            return Ok(Written { affected: 1, insert_id: id });
        };
        let is_there = self.value(schema, key).is_some();
        let affected = match (write, is_there) {
            (Write::Insert { ignore: false, .. }, true) => {
                return Err(Failure::new(1062, b"23000", duplicate_text(key)));
            }
            (Write::Insert { v, .. }, false) | (Write::Update { v, .. }, true) => {
                self.put(schema, Change::Put { key, v });
                1
            }
            (Write::Replace { v, .. }, is_there) => {
                self.put(schema, Change::Put { key, v });
                1 + u64::from(is_there)
            }
            (Write::Delete { .. }, true) => {
                self.put(schema, Change::Remove { key });
                1
            }
            _ => 0,
        };
        Ok(Written { affected, insert_id: 0 })
    }

    fn is_granted(&mut self, lock: u8) -> bool {
        // One that is not free made the statement wait, and then fail.
        self.locks.is_free_for(self.link, Resource::Named(lock))
    }

    fn is_locked(&mut self, lock: u8) -> bool {
        self.locks.is_held(Resource::Named(lock))
    }

    fn kill(&mut self, connection: u64, query_only: bool) -> bool {
        let link = self.numbers.get(&connection).copied();
        self.ended.killed.extend(link.map(|link| (link, query_only)));
        link.is_some()
    }

    fn commit(&mut self) {
        self.ended.committed.push(std::mem::take(self.pending));
    }

    fn rollback(&mut self) {
        self.ended.rolled_back.push(std::mem::take(self.pending));
    }
}
