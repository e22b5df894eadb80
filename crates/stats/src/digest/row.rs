//! What is counted for one digest, and the row that a reader gets.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::{sketch::LatencySketch, worker::StatementSample};

/// The sums of one row, as the columns of ProxySQL's `stats_mysql_query_digest`, and errors.
/// Times are in µs, moments in seconds of Unix time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestSums {
    /// Statements.
    pub count_star: u64,
    /// When the first one ended.
    pub first_seen: u64,
    /// When the last one ended.
    pub last_seen: u64,
    /// Total latency.
    pub sum_time: u64,
    /// Shortest latency.
    pub min_time: u64,
    /// Longest latency.
    pub max_time: u64,
    /// Rows changed.
    pub sum_rows_affected: u64,
    /// Rows sent to clients.
    pub sum_rows_sent: u64,
    /// Statements that ended with an error.
    pub errors: u64,
    /// Their latency.
    #[serde(skip)]
    pub latency: LatencySketch,
}

impl DigestSums {
    /// Counts one statement.
    #[inline]
    pub(super) fn record(&mut self, sample: &StatementSample<'_>) {
        if self.count_star == 0 {
            self.first_seen = sample.now_unix_sec;
            self.min_time = u64::MAX;
        }
        self.count_star += 1;
        // The clock may be set back between two statements.
        self.first_seen = self.first_seen.min(sample.now_unix_sec);
        self.last_seen = self.last_seen.max(sample.now_unix_sec);
        self.sum_time = self.sum_time.saturating_add(sample.latency_us);
        self.min_time = self.min_time.min(sample.latency_us);
        self.max_time = self.max_time.max(sample.latency_us);
        self.sum_rows_affected = self.sum_rows_affected.saturating_add(sample.rows_affected);
        self.sum_rows_sent = self.sum_rows_sent.saturating_add(sample.rows_sent);
        self.errors += u64::from(sample.error.is_some());
        self.latency.record(sample.latency_us);
    }

    /// Adds the statements of another row.
    pub fn merge(&mut self, other: &Self) {
        if other.count_star == 0 {
            return;
        }
        if self.count_star == 0 {
            *self = *other;
            return;
        }
        self.count_star = self.count_star.saturating_add(other.count_star);
        self.first_seen = self.first_seen.min(other.first_seen);
        self.last_seen = self.last_seen.max(other.last_seen);
        self.sum_time = self.sum_time.saturating_add(other.sum_time);
        self.min_time = self.min_time.min(other.min_time);
        self.max_time = self.max_time.max(other.max_time);
        self.sum_rows_affected = self.sum_rows_affected.saturating_add(other.sum_rows_affected);
        self.sum_rows_sent = self.sum_rows_sent.saturating_add(other.sum_rows_sent);
        self.errors = self.errors.saturating_add(other.errors);
        self.latency.merge(&other.latency);
    }
}

/// One row as a reader gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestRow {
    /// The hostgroup that served the statements.
    pub hostgroup: u32,
    /// The clients' schema; bytes that are not UTF-8 are replaced.
    pub schemaname: String,
    /// The clients' user.
    pub username: String,
    /// The digest, in JSON `0x` and 16 hex digits as ProxySQL shows it.
    #[serde(with = "hex")]
    pub digest: u64,
    /// The digest's text, cut at [`super::TEXT_BYTES_MAX`] bytes.
    pub digest_text: String,
    /// What was counted.
    #[serde(flatten)]
    pub sums: DigestSums,
}

impl DigestRow {
    /// What tells rows apart, to find and to order them.
    pub fn key(&self) -> (u64, u32, &str, &str) {
        (self.digest, self.hostgroup, &self.username, &self.schemaname)
    }

    /// The rows of several workers, one for each key, in the order of the keys.
    pub fn merge_all(mut rows: Vec<Self>) -> Vec<Self> {
        rows.sort_unstable_by(|a, b| a.key().cmp(&b.key()));
        rows.dedup_by(|later, kept| {
            let is_same = later.key() == kept.key();
            if is_same {
                kept.sums.merge(&later.sums);
            }
            is_same
        });
        rows
    }
}

/// The column by which rows are ordered, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestOrder {
    /// Total time.
    SumTime,
    /// Statements.
    CountStar,
    /// Longest latency.
    MaxTime,
    /// Rows sent to clients.
    SumRowsSent,
    /// Rows changed.
    SumRowsAffected,
    /// Errors.
    Errors,
    /// The moment last seen.
    LastSeen,
}

impl DigestOrder {
    /// Every order.
    pub const ALL: [Self; 7] = [
        Self::SumTime,
        Self::CountStar,
        Self::MaxTime,
        Self::SumRowsSent,
        Self::SumRowsAffected,
        Self::Errors,
        Self::LastSeen,
    ];

    /// The name of the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::SumTime => "sum_time",
            Self::CountStar => "count_star",
            Self::MaxTime => "max_time",
            Self::SumRowsSent => "sum_rows_sent",
            Self::SumRowsAffected => "sum_rows_affected",
            Self::Errors => "errors",
            Self::LastSeen => "last_seen",
        }
    }

    /// The order by the column of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }

    /// The value of the column.
    pub fn key(self, sums: &DigestSums) -> u64 {
        match self {
            Self::SumTime => sums.sum_time,
            Self::CountStar => sums.count_star,
            Self::MaxTime => sums.max_time,
            Self::SumRowsSent => sums.sum_rows_sent,
            Self::SumRowsAffected => sums.sum_rows_affected,
            Self::Errors => sums.errors,
            Self::LastSeen => sums.last_seen,
        }
    }

    /// Compares two rows: the larger value is first, equal ones are ordered by their keys.
    pub fn compare(self, a: &DigestRow, b: &DigestRow) -> Ordering {
        let larger_first = self.key(&b.sums).cmp(&self.key(&a.sums));
        larger_first.then_with(|| a.key().cmp(&b.key()))
    }
}

/// A digest as text, because many readers of JSON lose digits of large integers.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("0x{value:016X}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        value.ok_or_else(|| D::Error::custom(format!("`{text}` is not a digest")))
    }
}
