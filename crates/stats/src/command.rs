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
        if let Some(count) = self.buckets.get_mut(bucket(latency_us)) {
            *count += 1;
        }
        self.latency.record(latency_us);
        self.max_us = self.max_us.max(latency_us);
    }
}

/// For each number of bits, the bounds that all numbers of so many bits are above. No two bounds
/// have as many, so one comparison is left.
#[expect(clippy::indexing_slicing, reason = "it would not compile")]
const BOUNDS_BELOW: [u8; 65] = {
    let mut below = [0; 65];
    let mut bits = 1;
    while bits < below.len() {
        below[bits] = below[bits - 1];
        let mut at = 0;
        while at < BUCKET_BOUNDS_US.len() {
            let bound_bits = (u64::BITS - BUCKET_BOUNDS_US[at].leading_zeros()) as usize;
            below[bits] += (bound_bits + 1 == bits) as u8;
            at += 1;
        }
        bits += 1;
    }
    below
};

/// The bucket of a latency, found without a branch that could be guessed wrong.
#[inline]
fn bucket(latency_us: u64) -> usize {
    let bits = u64::BITS - latency_us.leading_zeros();
    let below = BOUNDS_BELOW.get(bits as usize).copied().map_or(0, usize::from);
    let bound = BUCKET_BOUNDS_US.get(below).copied().unwrap_or(u64::MAX);
    below + usize::from(latency_us > bound)
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

    #[test]
    fn every_latency_is_above_as_many_bounds_as_its_bucket_says() {
        let near = |bound: &u64| [bound - 1, *bound, bound + 1];
        let powers = (0..64).map(|power| 1_u64 << power);
        for us in BUCKET_BOUNDS_US.iter().flat_map(near).chain(powers).chain([0, u64::MAX]) {
            let above = BUCKET_BOUNDS_US.iter().filter(|bound| us > **bound).count();
            assert_eq!(bucket(us), above, "{us}");
        }
    }
}
