//! Chance that follows from a seed.

/// A stream of numbers. Each actor has its own, split off by name, so that what one actor draws
/// (or no longer draws, when the shrinker cut it out) does not change what another one gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

/// The odd constant of Weyl's sequence, as SplitMix64 takes it (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed ^ 0x5851_F42D_4C95_7F2D) }
    }

    /// A stream of its own for `name` and `number`; this one is not moved on.
    pub fn split(&self, name: &str, number: u64) -> Self {
        let named = name.bytes().fold(self.state, |all, byte| mix(all ^ u64::from(byte)));
        Self { state: mix(named ^ number.wrapping_mul(STEP)) }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The product's upper half; its bias at these small ranges is below one in 2^40.
        let wide = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included; `low` when `high` is less.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A place in a list of `len`; 0 when it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(len)).unwrap_or_default()
    }

    /// True `times` times in `out_of`.
    pub fn chance(&mut self, times: u64, out_of: u64) -> bool {
        self.below(out_of) < times
    }

    /// One of `items`; none when there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.index(items.len());
        items.get(at)
    }

    /// One of `items`, each as often as its weight says.
    pub fn weighted<'a, T>(&mut self, items: &'a [(u64, T)]) -> Option<&'a T> {
        let total = items.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        items.iter().find_map(|(weight, item)| {
            if at < *weight {
                return Some(item);
            }
            at -= weight;
            None
        })
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let next = self.next_u64().to_le_bytes();
            chunk.iter_mut().zip(next).for_each(|(to, from)| *to = from);
        }
    }
}

/// SplitMix64's finisher.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_stream_does_not_depend_on_what_was_drawn_after_the_split_point() {
        let root = Rng::new(7);
        let mut first = root.split("client", 1);
        let mut drawn = root.clone();
        drawn.next_u64();
        let mut again = root.split("client", 1);
        assert_eq!(first.next_u64(), again.next_u64());
        assert_ne!(root.split("client", 2).next_u64(), root.split("client", 1).next_u64());
        assert_ne!(root.split("server", 1).next_u64(), root.split("client", 1).next_u64());
    }

    #[test]
    fn numbers_stay_within_their_range() {
        let mut rng = Rng::new(1);
        for _ in 0..1_000 {
            assert!((3..=9).contains(&rng.between(3, 9)));
            assert!(rng.below(5) < 5);
        }
        assert_eq!((rng.below(0), rng.between(9, 3), rng.index(0)), (0, 9, 0));
    }

    #[test]
    fn weights_of_nothing_are_never_picked() {
        let mut rng = Rng::new(2);
        let items = [(0, 'a'), (3, 'b'), (0, 'c'), (1, 'd')];
        let mut seen = [0; 2];
        for _ in 0..4_000 {
            match rng.weighted(&items) {
                Some('b') => seen[0] += 1,
                Some('d') => seen[1] += 1,
                other => panic!("picked {other:?}"),
            }
        }
        assert!((2_800..3_200).contains(&seen[0]), "{seen:?}");
    }
}
