//! A log-linear histogram of microseconds, small enough to keep one for every server.

use serde::{Deserialize, Serialize};

/// Sub-buckets per power of two: the width of a bucket is at most a quarter of its lower bound.
const SUB_BUCKETS: usize = 4;
/// Values from 2^30 µs (about 18 minutes) on share the last bucket.
const EXPONENT_END: u32 = 30;
/// Four exact buckets for 0 to 3 µs, four for each power of two from 2^2 to 2^29, and the rest.
const BUCKETS: usize = (EXPONENT_END as usize - 1) * SUB_BUCKETS + 1;
const OVERFLOW: usize = BUCKETS - 1;

const _: () = assert!(size_of::<Histogram>() < 1024);

/// Counts of durations in µs, in buckets whose width grows with the value.
///
/// A quantile is at most an eighth off (half a bucket). Recording is a few instructions and one
/// write; merging adds bucket by bucket. Below 1 KiB each.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Histogram {
    sum_us: u64,
    max_us: u64,
    counts: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { sum_us: 0, max_us: 0, counts: [0; BUCKETS] }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum_us", &self.sum_us)
            .field("max_us", &self.max_us)
            .finish_non_exhaustive()
    }
}

/// Where a duration is counted, in any histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket(usize);

impl Bucket {
    #[inline]
    pub(crate) fn of(us: u64) -> Self {
        Self(bucket(us))
    }
}

impl Histogram {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, us: u64) {
        self.record_in(Bucket::of(us), us);
    }

    /// Counts one duration whose bucket has been found for another histogram.
    #[inline]
    pub(crate) fn record_in(&mut self, bucket: Bucket, us: u64) {
        debug_assert_eq!(bucket, Bucket::of(us));
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
        if let Some(count) = self.counts.get_mut(bucket.0) {
            *count += 1;
        }
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// What was counted since an earlier state of the same one. The longest is that of all, unless
    /// nothing came.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        since.sum_us = self.sum_us.saturating_sub(before.sum_us);
        for (count, less) in since.counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*less);
        }
        if since.count() == 0 {
            since.max_us = 0;
        }
        since
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// The sum of all durations, in µs.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// The longest duration, in µs; 0 when nothing was counted.
    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// The duration in µs that a share `quantile` (0 to 1) of all durations does not exceed, at
    /// most an eighth off; 0 when nothing was counted. Durations of 2^30 µs and more read as the
    /// longest.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let count = self.count();
        if count == 0 {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank that is off by rounding stays within the counts, by the clamp"
        )]
        let rank = ((quantile.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count);
        let mut seen = 0_u64;
        for (index, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return self.representative(index);
            }
        }
        self.max_us
    }

    /// The buckets in use, ascending: their shortest and longest duration in µs, and how many.
    /// Durations of 2^30 µs and more are all at the longest.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let used = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(index, count)| match index {
            OVERFLOW => (self.max_us, self.max_us, *count),
            _ => (lower_bound(index), upper_bound(index), *count),
        })
    }

    fn representative(&self, index: usize) -> u64 {
        if index == OVERFLOW {
            return self.max_us;
        }
        let (low, high) = (lower_bound(index), upper_bound(index));
        debug_assert!(low <= high);
        low.midpoint(high).min(self.max_us)
    }

    /// How many durations were shorter than `2^exponent` µs; exponents above 30 count all.
    /// This is exact, because powers of two are bucket bounds.
    pub fn count_below_power_of_two(&self, exponent: u32) -> u64 {
        let end = match exponent {
            0..EXPONENT_END => bucket(1_u64 << exponent),
            EXPONENT_END => OVERFLOW,
            _ => BUCKETS,
        };
        self.counts.iter().take(end).fold(0, |sum: u64, count| sum.saturating_add(*count))
    }
}

/// The bucket of a duration.
#[inline]
fn bucket(us: u64) -> usize {
    if us >= 1 << EXPONENT_END {
        return OVERFLOW;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 2^30, by the test above")]
    let us = us as u32;
    if us < 4 {
        return us as usize;
    }
    let exponent = us.ilog2();
    let sub = (us >> (exponent - 2)) & 3;
    ((exponent - 1) * 4 + sub) as usize
}

/// The shortest duration of a bucket.
fn lower_bound(index: usize) -> u64 {
    if index < SUB_BUCKETS {
        return index as u64;
    }
    let steps = SUB_BUCKETS + index % SUB_BUCKETS;
    (steps as u64) << (index / SUB_BUCKETS - 1)
}

/// The longest duration of a bucket; of the last one, the longest there is.
fn upper_bound(index: usize) -> u64 {
    match index {
        0..OVERFLOW => lower_bound(index + 1) - 1,
        _ => u64::MAX,
    }
}

/// The form in JSON: what people read, and the buckets in use as (longest duration, count).
#[derive(Serialize, Deserialize)]
struct Wire {
    count: u64,
    sum_us: u64,
    max_us: u64,
    p50_us: u64,
    p95_us: u64,
    p99_us: u64,
    buckets: Vec<(u64, u64)>,
}

impl From<Histogram> for Wire {
    fn from(histogram: Histogram) -> Self {
        let used = histogram.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            count: histogram.count(),
            sum_us: histogram.sum_us,
            max_us: histogram.max_us,
            p50_us: histogram.quantile(0.5),
            p95_us: histogram.quantile(0.95),
            p99_us: histogram.quantile(0.99),
            buckets: used.map(|(index, count)| (upper_bound(index), *count)).collect(),
        }
    }
}

impl From<Wire> for Histogram {
    fn from(wire: Wire) -> Self {
        let mut histogram = Self { sum_us: wire.sum_us, max_us: wire.max_us, counts: [0; BUCKETS] };
        for (longest, more) in wire.buckets {
            if let Some(count) = histogram.counts.get_mut(bucket(longest)) {
                *count = count.saturating_add(more);
            }
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_cover_every_duration_without_gap() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(lower_bound(index)), index);
            assert_eq!(bucket(upper_bound(index)), index);
        }
        assert_eq!(lower_bound(OVERFLOW), 1 << EXPONENT_END);
    }

    #[test]
    fn an_empty_histogram_has_quantile_0() {
        assert_eq!(Histogram::default().quantile(0.99), 0);
    }

    #[test]
    fn quantiles_are_found_in_order() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|us| histogram.record(us));
        let near = |quantile: f64, exact: u64| {
            let found = histogram.quantile(quantile);
            assert!(found.abs_diff(exact) * 8 <= exact, "{quantile}: {found}, not {exact}");
        };
        near(0.5, 500);
        near(0.95, 950);
        near(0.99, 990);
        assert_eq!(histogram.quantile(0.0), 1);
        assert_eq!(histogram.count_below_power_of_two(8), 255);
        assert_eq!(histogram.count_below_power_of_two(30), 1000);
    }

    #[test]
    fn durations_beyond_the_range_read_as_the_longest() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        histogram.record(1 << 40);
        assert_eq!(histogram.quantile(0.5), u64::MAX);
        assert_eq!(histogram.count_below_power_of_two(30), 0);
        assert_eq!(histogram.count_below_power_of_two(31), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_quantile_is_at_most_an_eighth_off(
            mut values in prop::collection::vec(0_u64..(1 << 30), 1..200),
            thousandths in 0_usize..=1000,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|us| histogram.record(*us));
            values.sort_unstable();
            // Rounding may take a rank that falls between two values to either of them.
            let quantile = thousandths as f64 / 1000.0;
            let rank = (values.len() * thousandths).div_ceil(1000).max(1);
            let exact = values[rank - 1];
            let next = values[rank.min(values.len() - 1)];
            let found = histogram.quantile(quantile);
            let near = |value: u64| found.abs_diff(value) * 8 <= value;
            prop_assert!(near(exact) || near(next), "{} for {}", found, exact);
        }

        #[test]
        fn two_halves_merged_equal_the_whole(
            left in prop::collection::vec(0_u64..1 << 34, 0..50),
            right in prop::collection::vec(0_u64..1 << 34, 0..50),
        ) {
            let (mut one, mut two, mut whole) = <(Histogram, Histogram, Histogram)>::default();
            left.iter().for_each(|us| one.record(*us));
            right.iter().for_each(|us| two.record(*us));
            left.iter().chain(&right).for_each(|us| whole.record(*us));
            one.merge(&two);
            prop_assert_eq!(&one, &whole);
            prop_assert_eq!(Histogram::from(Wire::from(whole)), one);
        }
    }
}
