//! Seeds that ever failed, kept so that what they found is not found again.

/// A seed with what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub found: String,
}

/// The kept seeds: a line each, the number and then what it found. Lines with `#` are comments.
const SEEDS: &str = include_str!("seeds.txt");

/// All kept seeds.
pub fn kept() -> Vec<Kept> {
    read(SEEDS)
}

fn read(text: &str) -> Vec<Kept> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    let read = |(seed, found): (&str, &str)| {
        let seed = seed.parse().ok()?;
        Some(Kept { seed, found: found.trim().to_owned() })
    };
    pairs.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_seed_with_what_it_found() {
        let lines = SEEDS.lines().filter(|line| !line.starts_with('#'));
        assert_eq!(kept().len(), lines.count());
        assert!(kept().iter().all(|kept| kept.found.len() > 10));
    }

    #[test]
    fn comments_are_no_seeds() {
        let kept = read("# all\n7 found what nobody knew\n");
        assert_eq!(kept, [Kept { seed: 7, found: "found what nobody knew".to_owned() }]);
    }
}
