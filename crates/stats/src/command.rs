//! Counts and latency by kind of statement, in the buckets of ProxySQL's
//! `stats_mysql_commands_counters`.

use crate::sketch::LatencySketch;

/// Upper bounds of the latency buckets in µs, inclusive; one more bucket holds the rest.
pub const BUCKET_BOUNDS_US: [u64; 11] =
    [100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

/// Number of latency buckets.
pub const BUCKETS: usize = BUCKET_BOUNDS_US.len() + 1;

/// The columns that ProxySQL gives to the buckets.
pub const BUCKET_COLUMNS: [&str; BUCKETS] = [
    "cnt_100us",
    "cnt_500us",
    "cnt_1ms",
    "cnt_5ms",
    "cnt_10ms",
    "cnt_50ms",
    "cnt_100ms",
    "cnt_500ms",
    "cnt_1s",
    "cnt_5s",
    "cnt_10s",
    "cnt_INFs",
];

/// What is counted for one kind of statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandSums {
    /// Statements: the sum of all buckets.
    pub count: u64,
    /// Sum of the statements' latency, µs.
    pub time_us: u64,
    /// Statements by latency, each in one bucket.
    pub buckets: [u64; BUCKETS],
    /// Their latency.
    pub latency: LatencySketch,
    /// The longest of them, µs.
    pub max_us: u64,
}

impl CommandSums {
    /// Counts one statement.
    #[inline]
    pub fn record(&mut self, latency_us: u64) {
        self.count += 1;
        self.time_us = self.time_us.saturating_add(latency_us);
        // Comparing with all bounds takes no branch that could be guessed wrong.
        let bucket = BUCKET_BOUNDS_US.iter().filter(|bound| latency_us > **bound).count();
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.latency.record(latency_us);
        self.max_us = self.max_us.max(latency_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_counts_in_the_bucket_of_its_latency() {
        let check = |latency_us: u64, column: &str| {
            let mut sums = CommandSums::default();
            sums.record(latency_us);
            let bucket = sums.buckets.iter().position(|count| *count == 1);
            assert_eq!(bucket.map(|bucket| BUCKET_COLUMNS[bucket]), Some(column), "{latency_us}");
            assert_eq!((sums.count, sums.time_us), (1, latency_us));
        };
        check(0, "cnt_100us");
        check(100, "cnt_100us");
        check(101, "cnt_500us");
        check(1_000, "cnt_1ms");
        check(1_001, "cnt_5ms");
        check(10_000_000, "cnt_10s");
        check(10_000_001, "cnt_INFs");
        check(u64::MAX, "cnt_INFs");
    }
}
