//! A small deterministic mutator, for fuzzing without instrumentation.

/// Bytes that mean something to the protocol.
const TELLING: [u8; 16] = [
    0x00, 0x01, 0x03, 0x0A, 0x16, 0x17, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, b'\'', b'*',
];

/// Numbers from a seed: xorshift64*.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from `seed`; 0 is as good as any.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes().first().copied().unwrap_or(0)
    }
}

/// An input made from `seeds`: one of them, changed in a few places, at most `len_max` bytes.
pub fn mutate(seeds: &[Vec<u8>], random: &mut Random, len_max: usize) -> Vec<u8> {
    let mut input = pick(seeds, random).to_vec();
    for _ in 0..1 + random.below(6) {
        change(&mut input, seeds, random);
    }
    input.truncate(len_max);
    input
}

fn pick<'a>(seeds: &'a [Vec<u8>], random: &mut Random) -> &'a [u8] {
    seeds.get(random.below(seeds.len())).map_or(&[], Vec::as_slice)
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(32)).min(input.len()).max(at);
    match random.below(9) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            let telling = TELLING.get(random.below(TELLING.len())).copied().unwrap_or(0);
            if let Some(byte) = input.get_mut(at) {
                *byte = telling;
            }
        }
        3 => drop(input.drain(at..end)),
        4 => {
            let new: Vec<u8> = (0..1 + random.below(8)).map(|_| random.byte()).collect();
            input.splice(at..at, new);
        }
        5 => {
            let twice = input.get(at..end).unwrap_or_default().to_vec();
            input.splice(at..at, twice);
        }
        6 | 7 => {
            let other = pick(seeds, random);
            let from = random.below(other.len() + 1);
            let len = random.below(other.len() - from + 1);
            let part = other.get(from..from + len).unwrap_or_default().to_vec();
            input.splice(at..end, part);
        }
        _ => input.truncate(at),
    }
}

/// A shorter input that still fails: whole stretches go first, then single bytes.
pub fn minimise(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut best = input.to_vec();
    let mut len = best.len().div_ceil(2);
    while len > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut shorter = best.clone();
            shorter.drain(at..(at + len).min(best.len()));
            match fails(&shorter) {
                true => best = shorter,
                false => at += len,
            }
        }
        len /= 2;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_within_the_limit() {
        let seeds = [b"SELECT 1".to_vec(), Vec::new(), vec![7; 300]];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..200).map(|_| mutate(&seeds, &mut random, 256)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(3).iter().all(|input| input.len() <= 256));
    }

    #[test]
    fn a_failing_input_shrinks_to_what_makes_it_fail() {
        let fails = |input: &[u8]| input.contains(&7) && input.ends_with(b"!");
        assert_eq!(minimise(b"abc\x07defghij!!!", fails), b"\x07!");
    }
}
