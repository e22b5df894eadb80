//! A part of all, as statements are sampled by.

use std::{fmt, str::FromStr};

/// The parts that a whole has.
const WHOLE: u32 = 1_000_000;

/// A part of all: 0 to 1, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Ratio(u32);

impl Ratio {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(WHOLE);

    /// So many millionths; no more than all.
    pub const fn of_millionths(millionths: u32) -> Self {
        Self(if millionths > WHOLE { WHOLE } else { millionths })
    }

    /// Whether a number by chance, any of 64 bits, falls within it.
    #[inline]
    pub fn takes(self, chance: u64) -> bool {
        // The upper bits of the product are a number below WHOLE, evenly spread.
        let place = (u128::from(chance) * u128::from(WHOLE)) >> 64;
        place < u128::from(self.0)
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be 0 to 1, such as 0.01, not `{text}`");
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || text.ends_with('.') {
            return Err(wrong());
        }
        if part.len() > 6 {
            return Err(format!("must have at most six digits behind the point, not `{text}`"));
        }
        let whole: u32 = whole.parse().map_err(|_| wrong())?;
        let part: u32 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
        match (whole, part) {
            (0, part) => Ok(Self(part)),
            (1, 0) => Ok(Self::ALL),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / WHOLE, self.0 % WHOLE);
        match part {
            0 => write!(f, "{whole}"),
            part => write!(f, "{whole}.{}", format!("{part:06}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_and_shown() {
        for (text, shown) in
            [("0", "0"), ("1", "1"), ("0.01", "0.01"), ("1.0", "1"), ("0.000001", "0.000001")]
        {
            let ratio: Ratio = text.parse().expect(text);
            assert_eq!(ratio.to_string(), shown);
            assert_eq!(shown.parse(), Ok(ratio));
        }
        for text in ["", ".", "1.", ".5", "2", "1.000001", "-0.1", "0.0000001", "1e-3", "x", "NaN"]
        {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
    }

    #[test]
    fn it_takes_its_part_of_numbers_by_chance() {
        assert!(!Ratio::NONE.takes(0) && !Ratio::NONE.takes(u64::MAX));
        assert!(Ratio::ALL.takes(0) && Ratio::ALL.takes(u64::MAX));
        let quarter: Ratio = "0.25".parse().expect("a ratio");
        let step = u64::MAX / 1_000;
        let taken = (0..1_000).filter(|at| quarter.takes(at * step + step / 2)).count();
        assert_eq!(taken, 250);
    }
}
