//! What came of comparing the answers to statements with those to their copies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Digests that one worker keeps apart; those beyond are counted together, under digest 0.
pub const ROWS_MAX: usize = 1_000;

/// One statement and its copy, both answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct MirrorSample<'a> {
    /// Hash of the digest text.
    pub digest: u64,
    /// The digest text.
    pub digest_text: &'a [u8],
    /// Where the statement ran.
    pub hostgroup: u32,
    /// Where the copy ran.
    pub mirror_hostgroup: u32,
    /// One failed, or each with another error.
    pub errors_differ: bool,
    /// Rows sent or changed differ in number.
    pub rows_differ: bool,
    /// As many rows, with other values or in another order.
    pub values_differ: bool,
    /// How long the statement took, µs.
    pub original_us: u64,
    /// How long the copy took, µs.
    pub mirror_us: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorSums {
    /// Pairs of answers.
    pub compared: u64,
    /// Of them, with other errors.
    pub errors_differ: u64,
    /// With other numbers of rows.
    pub rows_differ: u64,
    /// With other values.
    pub values_differ: u64,
    /// Time of the statements, µs.
    pub original_us: u64,
    /// Time of the copies, µs.
    pub mirror_us: u64,
}

impl MirrorSums {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.compared += other.compared;
        self.errors_differ += other.errors_differ;
        self.rows_differ += other.rows_differ;
        self.values_differ += other.values_differ;
        self.original_us = self.original_us.saturating_add(other.original_us);
        self.mirror_us = self.mirror_us.saturating_add(other.mirror_us);
    }
}

/// One digest's pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorRow {
    /// Hash of the digest text; 0 for what found no room.
    pub digest: u64,
    /// The digest text.
    pub digest_text: String,
    /// Where the statements ran.
    pub hostgroup: u32,
    /// Where the copies ran.
    pub mirror_hostgroup: u32,
    /// What came of it.
    #[serde(flatten)]
    pub sums: MirrorSums,
}

/// One worker's rows.
#[derive(Debug, Default)]
pub(crate) struct MirrorTable(BTreeMap<(u64, u32, u32), MirrorRow>);

impl MirrorTable {
    pub(crate) fn record(&mut self, sample: &MirrorSample<'_>) {
        let key = (sample.digest, sample.hostgroup, sample.mirror_hostgroup);
        let is_full = self.0.len() >= ROWS_MAX && !self.0.contains_key(&key);
        let (key, text) = match is_full {
            true => ((0, key.1, key.2), String::new()),
            false => (key, String::from_utf8_lossy(sample.digest_text).into_owned()),
        };
        let row = self.0.entry(key).or_insert_with(|| MirrorRow {
            digest: key.0,
            digest_text: text,
            hostgroup: key.1,
            mirror_hostgroup: key.2,
            sums: MirrorSums::default(),
        });
        row.sums.merge(&MirrorSums {
            compared: 1,
            errors_differ: u64::from(sample.errors_differ),
            rows_differ: u64::from(sample.rows_differ),
            values_differ: u64::from(sample.values_differ),
            original_us: sample.original_us,
            mirror_us: sample.mirror_us,
        });
    }

    pub(crate) fn rows(&self) -> Vec<MirrorRow> {
        self.0.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded_and_nothing_is_lost_from_the_sums() {
        let mut table = MirrorTable::default();
        for digest in 1..=2 * ROWS_MAX as u64 {
            table.record(&MirrorSample { digest, rows_differ: true, ..MirrorSample::default() });
        }
        let rows = table.rows();
        assert_eq!(rows.len(), ROWS_MAX + 1);
        assert_eq!(rows.iter().map(|row| row.sums.rows_differ).sum::<u64>(), 2_000);
    }
}
