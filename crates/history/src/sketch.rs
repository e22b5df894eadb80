//! Latency as counts by bucket: two of them are added bucket by bucket, and nothing is lost by it.

use trunkline_stats::{Histogram, LatencySketch};

/// Counts of durations, in the buckets of [`LatencySketch`]: those in use, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sketch(Vec<(u8, u64)>);

impl Sketch {
    /// Nothing in no bucket: counts by the numbers of buckets, ascending.
    pub(crate) fn of(counts: Vec<(u8, u64)>) -> Self {
        Self(counts)
    }

    /// The buckets in use with their counts, ascending.
    pub fn counts(&self) -> &[(u8, u64)] {
        &self.0
    }

    /// Counts durations of about `us`.
    pub fn add(&mut self, us: u64, count: u64) {
        self.add_to(LatencySketch::bucket_of(us), count);
    }

    fn add_to(&mut self, bucket: u8, more: u64) {
        if more == 0 {
            return;
        }
        match self.0.binary_search_by_key(&bucket, |(it, _)| *it) {
            Ok(at) => {
                if let Some((_, count)) = self.0.get_mut(at) {
                    *count = count.saturating_add(more);
                }
            }
            Err(at) => self.0.insert(at, (bucket, more)),
        }
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, count)| self.add_to(*bucket, *count));
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    }

    /// The duration in µs that a share `quantile` (0 to 1) of all does not exceed, at most a
    /// quarter off; 0 when nothing was counted.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank is at most the count"
    )]
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen: u64 = 0;
        for (bucket, count) in &self.0 {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return LatencySketch::middle_of(*bucket);
            }
        }
        0
    }
}

impl From<&LatencySketch> for Sketch {
    fn from(sketch: &LatencySketch) -> Self {
        let used = (0_u8..).zip(sketch.counts()).filter(|(_, count)| *count > 0);
        Self(used.map(|(bucket, count)| (bucket, u64::from(count))).collect())
    }
}

impl From<&Histogram> for Sketch {
    /// Each bucket of a histogram lies within one of a sketch.
    fn from(histogram: &Histogram) -> Self {
        let mut sketch = Self::default();
        histogram.buckets().for_each(|(shortest, _, count)| sketch.add(shortest, count));
        sketch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_are_the_same_whatever_they_are_made_of() {
        let (mut coarse, mut fine) = (LatencySketch::default(), Histogram::default());
        for us in [0, 3, 15, 16, 900, 1_000, 1_001, 70_000, 5_000_000, 1 << 40] {
            coarse.record(us);
            fine.record(us);
        }
        assert_eq!(Sketch::from(&coarse), Sketch::from(&fine));
        assert_eq!(Sketch::from(&coarse).count(), 10);
    }

    #[test]
    fn parts_added_are_the_whole() {
        let (mut left, mut right, mut whole) = <(Sketch, Sketch, Sketch)>::default();
        for us in 1..2_000 {
            if us % 3 == 0 { &mut left } else { &mut right }.add(us, 2);
            whole.add(us, 2);
        }
        left.merge(&right);
        assert_eq!(left, whole);
        let p50 = whole.quantile(0.5);
        assert!(p50.abs_diff(1_000) <= 250, "{p50}");
        assert_eq!(Sketch::default().quantile(0.9), 0);
    }
}
