//! A coarse histogram of microseconds, small enough to keep one for every digest.

/// Durations below 2^4 µs share the first bucket.
const EXPONENT_BEGIN: u32 = 4;
/// Durations from 2^26 µs (67 s) on share the last one.
const EXPONENT_END: u32 = 26;
/// Two buckets for each power of two between, and those two.
const BUCKETS: usize = (EXPONENT_END - EXPONENT_BEGIN) as usize * 2 + 2;

const _: () = assert!(size_of::<LatencySketch>() <= 192 && BUCKETS <= u8::MAX as usize);

/// Counts of durations in µs, in buckets half as wide as their power of two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LatencySketch([u32; BUCKETS]);

impl Default for LatencySketch {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl std::fmt::Debug for LatencySketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LatencySketch").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl LatencySketch {
    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, us: u64) {
        if let Some(count) = self.0.get_mut(bucket(us)) {
            *count = count.saturating_add(1);
        }
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// Takes away what an earlier state of the same one had counted.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        for (count, less) in since.0.iter_mut().zip(before.0) {
            *count = count.saturating_sub(less);
        }
        since
    }

    /// The counts of all buckets, those of the shortest durations first.
    pub fn counts(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The number of the bucket that a duration is counted in.
    pub fn bucket_of(us: u64) -> u8 {
        u8::try_from(bucket(us)).unwrap_or(u8::MAX)
    }

    /// The middle of a bucket, µs; of the last one, where it begins.
    pub fn middle_of(bucket: u8) -> u64 {
        match usize::from(bucket) {
            bucket if bucket >= BUCKETS - 1 => 1 << EXPONENT_END,
            bucket => middle(bucket),
        }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// The duration in µs that a share `quantile` (0 to 1) of all does not exceed, at most a
    /// quarter off within the range of the buckets; 0 when nothing was counted. `max_us` is the
    /// longest that was counted, which no answer exceeds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank is at most the count"
    )]
    pub fn quantile(&self, quantile: f64, max_us: u64) -> u64 {
        let rank = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.0.iter().enumerate() {
            seen += u64::from(*count);
            if *count > 0 && seen >= rank {
                return middle(at).min(max_us);
            }
        }
        0
    }
}

fn bucket(us: u64) -> usize {
    let Some(exponent) = us.checked_ilog2().filter(|exponent| *exponent >= EXPONENT_BEGIN) else {
        return 0;
    };
    if exponent >= EXPONENT_END {
        return BUCKETS - 1;
    }
    let is_upper_half = us & (1 << (exponent - 1)) != 0;
    1 + (exponent - EXPONENT_BEGIN) as usize * 2 + usize::from(is_upper_half)
}

/// The middle of a bucket; what lies beyond the last one's begin is not known.
fn middle(bucket: usize) -> u64 {
    let Some(place) = bucket.checked_sub(1) else { return 1 << (EXPONENT_BEGIN - 1) };
    if bucket == BUCKETS - 1 {
        return u64::MAX;
    }
    let power = 1_u64 << (EXPONENT_BEGIN as usize + place / 2);
    match place % 2 {
        0 => power + power / 4,
        _ => power + power / 2 + power / 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_quarter_off() {
        let mut sketch = LatencySketch::default();
        (1..=100_000_u64).for_each(|us| sketch.record(us));
        for percent in [50_u64, 90, 95, 99, 100] {
            let exact = percent * 1_000;
            let found = sketch.quantile(percent as f64 / 100.0, 100_000);
            assert!(found.abs_diff(exact) <= exact / 4, "{percent} %: {found}, not {exact}");
        }
        assert_eq!(sketch.count(), 100_000);
        assert_eq!(LatencySketch::default().quantile(0.5, 7), 0);
    }

    #[test]
    fn the_longest_and_the_shortest_have_their_buckets() {
        for us in [0, 1, 15, 16, 17, 1 << 25, 1 << 26, u64::MAX] {
            let mut sketch = LatencySketch::default();
            sketch.record(us);
            assert_eq!(sketch.count(), 1, "{us}");
            assert!(sketch.quantile(1.0, us) <= us);
        }
        let mut sketch = LatencySketch::default();
        sketch.record(1 << 27);
        assert_eq!(sketch.quantile(0.5, 1 << 27), 1 << 27);
    }
}
