//! What servers answered with errors: counts by server, user, schema and code, and the last text.

use std::collections::{BTreeMap, btree_map};

use serde::{Deserialize, Serialize};

/// Rows of one worker; the one that was not seen for longest gives way to a new one.
const ROWS_MAX: usize = 2_048;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 512;

/// One answer of a server that is an error.
#[derive(Debug, Clone, Copy)]
pub struct ErrorSample<'a> {
    /// The hostgroup that the statement went to.
    pub hostgroup: u32,
    /// The server's address as the configuration writes it.
    pub server: &'a str,
    /// The client's user.
    pub username: &'a str,
    /// The client's schema.
    pub schema: &'a [u8],
    /// MySQL's number of the error.
    pub code: u16,
    /// The server's text.
    pub text: &'a [u8],
    /// Now, in seconds of Unix time.
    pub now_unix_sec: u64,
}

/// What tells rows apart: hostgroup, server, user, schema, code.
type Key = (u32, String, String, String, u16);

/// What was counted under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sums {
    count: u64,
    first_seen: u64,
    last_seen: u64,
    last_error: String,
}

/// One row, as ProxySQL's `stats_mysql_errors` has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorRow {
    /// The hostgroup that the statements went to.
    pub hostgroup: u32,
    /// The server's address as the configuration writes it.
    pub server: String,
    /// The clients' user.
    pub username: String,
    /// The clients' schema.
    pub schemaname: String,
    /// MySQL's number of the error.
    pub code: u16,
    /// How often it came.
    pub count: u64,
    /// When it came first, in seconds of Unix time.
    pub first_seen: u64,
    /// When it came last.
    pub last_seen: u64,
    /// The server's last text; it may hold values of the statement.
    pub last_error: String,
}

/// The errors of one worker.
#[derive(Debug, Default)]
pub(crate) struct ErrorTable {
    rows: BTreeMap<Key, Sums>,
}

impl ErrorTable {
    /// Counts one.
    #[cold]
    pub(crate) fn record(&mut self, sample: &ErrorSample<'_>) {
        let key: Key = (
            sample.hostgroup,
            sample.server.to_owned(),
            sample.username.to_owned(),
            String::from_utf8_lossy(sample.schema).into_owned(),
            sample.code,
        );
        if self.rows.len() >= ROWS_MAX && !self.rows.contains_key(&key) {
            let oldest = self.rows.iter().min_by_key(|(_, sums)| sums.last_seen);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.rows.remove(&oldest);
            }
        }
        let text = sample.text.get(..TEXT_BYTES_MAX).unwrap_or(sample.text);
        let now = sample.now_unix_sec;
        let sums =
            self.rows.entry(key).or_insert_with(|| Sums { first_seen: now, ..Sums::default() });
        sums.count += 1;
        sums.last_seen = now;
        sums.last_error.clear();
        sums.last_error.push_str(&String::from_utf8_lossy(text));
        debug_assert!(self.rows.len() <= ROWS_MAX);
    }

    /// Copies for a reader.
    pub(crate) fn rows(&self) -> Vec<ErrorRow> {
        let row = |(key, sums): (&Key, &Sums)| {
            let (hostgroup, server, username, schemaname, code) = key.clone();
            ErrorRow {
                hostgroup,
                server,
                username,
                schemaname,
                code,
                count: sums.count,
                first_seen: sums.first_seen,
                last_seen: sums.last_seen,
                last_error: sums.last_error.clone(),
            }
        };
        self.rows.iter().map(row).collect()
    }
}

impl ErrorRow {
    /// What tells rows apart.
    pub fn key(&self) -> (u32, String, String, String, u16) {
        let (server, user) = (self.server.clone(), self.username.clone());
        (self.hostgroup, server, user, self.schemaname.clone(), self.code)
    }

    /// The rows of several workers as one list, ordered by what tells them apart.
    pub(crate) fn merge_all(rows: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut merged: BTreeMap<Key, Self> = BTreeMap::new();
        for row in rows {
            match merged.entry(row.key()) {
                btree_map::Entry::Vacant(place) => {
                    place.insert(row);
                }
                btree_map::Entry::Occupied(mut place) => place.get_mut().add(row),
            }
        }
        merged.into_values().collect()
    }

    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.first_seen = self.first_seen.min(other.first_seen);
        if other.last_seen > self.last_seen {
            self.last_seen = other.last_seen;
            self.last_error = other.last_error;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(code: u16, now_unix_sec: u64) -> ErrorSample<'static> {
        ErrorSample {
            hostgroup: 1,
            server: "a:3306",
            username: "app",
            schema: b"shop",
            code,
            text: b"no",
            now_unix_sec,
        }
    }

    #[test]
    fn the_one_that_was_not_seen_for_longest_gives_way() {
        let mut table = ErrorTable::default();
        for code in 0..3_000 {
            table.record(&sample(code, 1_000 + u64::from(code)));
            // Seen again and again.
            table.record(&sample(7, 1_000 + u64::from(code)));
        }
        let rows = table.rows();
        assert_eq!(rows.len(), ROWS_MAX);
        let kept = rows.iter().find(|row| row.code == 7).expect("in use");
        assert!(kept.count > 2_900);
        assert!(rows.iter().all(|row| row.code == 7 || row.code > 900));
    }

    #[test]
    fn rows_of_workers_become_one_with_the_last_text() {
        let mut tables = [ErrorTable::default(), ErrorTable::default()];
        tables[0].record(&ErrorSample { text: b"later", ..sample(1_062, 20) });
        tables[1].record(&ErrorSample { text: b"earlier", ..sample(1_062, 10) });
        let rows = ErrorRow::merge_all(tables.iter().flat_map(ErrorTable::rows));
        assert_eq!(rows.len(), 1);
        let row = rows.first().expect("one");
        assert_eq!((row.count, row.first_seen, row.last_seen), (2, 10, 20));
        assert_eq!(row.last_error, "later");
    }
}
