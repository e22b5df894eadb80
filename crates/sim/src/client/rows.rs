//! What a client knows of the rows that it alone writes.

use std::collections::BTreeMap;

use crate::{
    oracle::history::RowId,
    statement::{Schema, Tag},
};

/// Keys of `kv` that belong to each client; the first so many belong to all.
pub const KEYS_PER_CLIENT: u64 = 100;

/// The key of this number of a client's own.
pub fn own_key(client: usize, number: u64) -> u64 {
    let client = u64::try_from(client).unwrap_or_default();
    (client + 1) * KEYS_PER_CLIENT + number % KEYS_PER_CLIENT
}

/// Whether only `client` writes the row of this key.
pub fn is_own(client: usize, key: u64) -> bool {
    u64::try_from(client).is_ok_and(|client| key / KEYS_PER_CLIENT == client + 1)
}

/// Rows and lines of `log`, over all sessions of a client.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnRows {
    rows: BTreeMap<RowId, Vec<Write>>,
    lines: BTreeMap<Tag, Fate>,
    /// Lines that the open transaction wrote.
    open_lines: Vec<Tag>,
}

#[derive(Debug, Clone, Copy)]
struct Write {
    value: Option<u64>,
    unit: Option<u32>,
    fate: Fate,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there, or may be.
    Possible,
    /// It was certainly undone.
    Undone,
}

impl OwnRows {
    /// A row was written, or may have been, in this transaction.
    pub(super) fn write(&mut self, row: RowId, value: Option<u64>, unit: Option<u32>) {
        self.rows.entry(row).or_default().push(Write { value, unit, fate: Fate::Possible });
    }

    /// A line of `log` was written, or may have been.
    pub(super) fn insert(&mut self, tag: Tag, unit: Option<u32>) {
        self.lines.insert(tag, Fate::Possible);
        if unit.is_some() {
            self.open_lines.push(tag);
        }
    }

    /// A transaction ended.
    pub(super) fn end_unit(&mut self, unit: u32, is_undone: bool) {
        let lines = std::mem::take(&mut self.open_lines);
        let writes = self.rows.values_mut().flatten().filter(|write| write.unit == Some(unit));
        for write in writes {
            // No longer to be seen as the transaction's own.
            write.unit = None;
            if is_undone {
                write.fate = Fate::Undone;
            }
        }
        if is_undone {
            self.lines.extend(lines.into_iter().map(|line| (line, Fate::Undone)));
        }
    }

    /// Nobody knows how the open transaction ended.
    pub(super) fn forget_unit(&mut self) {
        self.open_lines.clear();
        self.rows.values_mut().flatten().for_each(|write| write.unit = None);
    }

    /// Why a row can't show this value to its client; `None` when it can.
    pub(super) fn objection(
        &self,
        row: RowId,
        seen: Option<u64>,
        unit: Option<u32>,
    ) -> Option<String> {
        let writes = self.rows.get(&row).map_or(&[][..], Vec::as_slice);
        if unit.is_some() {
            // A transaction sees what it has written itself.
            let own = writes.iter().rev().find(|write| write.unit == unit);
            if let Some(own) = own.filter(|own| own.value != seen) {
                return Some(format!("its own transaction left {:?} in {row:?}", own.value));
            }
        }
        let seen = seen?;
        let mut of_value = writes.iter().filter(|write| write.value == Some(seen)).peekable();
        if of_value.peek().is_none() {
            return Some(format!("it never wrote {seen} into {row:?}"));
        }
        let is_undone = of_value.all(|write| write.fate == Fate::Undone);
        is_undone.then(|| format!("{seen} in {row:?} was rolled back"))
    }

    /// How many lines with this tag there may be.
    pub(super) fn lines_max(&self, tag: Tag) -> u64 {
        match self.lines.get(&tag) {
            Some(Fate::Possible) => 1,
            Some(Fate::Undone) | None => 0,
        }
    }
}

/// A row by schema and key.
pub(super) fn row_of(schema: Option<Schema>, key: u64) -> Option<RowId> {
    schema.map(|schema| (schema, key))
}
