//! Native histograms: Prometheus's own buckets, whose bounds are powers of `2^(1/4)` seconds.
//!
//! Source: prometheus.io, "Native Histograms", schema 2.

use trunkline_stats::Histogram;

/// Four buckets for each power of two, as many as our own histograms have.
pub(super) const SCHEMA: i32 = 2;
/// Durations up to this many seconds are in the bucket of zeros: those of 0 µs, and no others.
pub(super) const ZERO_MAX: f64 = 0.000_000_5;

/// A histogram in native buckets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    /// Durations of 0 µs.
    pub(super) zeros: u64,
    /// Buckets in use by their number, ascending: bucket `n` ends with `2^(n/4)` seconds.
    pub(super) buckets: Vec<(i32, u64)>,
}

impl Native {
    /// Each of our buckets goes where its middle is. That is at most an eighth off, as the
    /// histogram is itself.
    pub(super) fn of(histogram: &Histogram) -> Self {
        let mut native = Self::default();
        for (lowest_us, highest_us, count) in histogram.buckets() {
            let middle_us = lowest_us.midpoint(highest_us);
            if middle_us == 0 {
                native.zeros = native.zeros.saturating_add(count);
                continue;
            }
            let number = number_of(middle_us);
            match native.buckets.last_mut() {
                Some((last, sum)) if *last == number => *sum = sum.saturating_add(count),
                _ => native.buckets.push((number, count)),
            }
        }
        native
    }
}

/// The bucket that a duration is in.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the logarithm of 64 bits of microseconds is below 200"
)]
fn number_of(us: u64) -> i32 {
    ((us as f64 / 1e6).log2() * 4.0).ceil() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_the_buckets_of_their_bounds() {
        // 2^0 seconds end bucket 0; a little more begins bucket 1.
        assert_eq!(number_of(1_000_000), 0);
        assert_eq!(number_of(1_000_001), 1);
        assert_eq!(number_of(500_000), -4);
        let mut histogram = Histogram::default();
        for us in [0, 0, 1, 1_000_000, 1_000_001, 1_800_000] {
            histogram.record(us);
        }
        let native = Native::of(&histogram);
        assert_eq!(native.zeros, 2);
        let counts: Vec<u64> = native.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 2, 1]);
        // 1 s shares our own bucket with what is up to an eighth beside.
        let (number, _) = native.buckets[1];
        assert!((0..=1).contains(&number), "{number}");
        assert!(native.buckets.is_sorted());
    }
}
