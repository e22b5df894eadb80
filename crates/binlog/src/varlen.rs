//! MySQL's integers of variable length, as tagged GTIDs are written with.
//!
//! The low bits of the first byte say how many bytes follow: as many as there are ones before the
//! first zero. What is above them, little-endian, is the number. Source: MySQL
//! `libs/mysql/serialization/variable_length_integers.h`.

use trunkline_protocol::{Malformed, Reader};

/// Reads an unsigned number.
pub(crate) fn unsigned(reader: &mut Reader<'_>, field: &'static str) -> Result<u64, Malformed> {
    let first = reader.u8(field)?;
    let more = first.trailing_ones();
    let rest = reader.bytes(usize::try_from(more).unwrap_or(8), field)?;
    let mut number = 0_u64;
    for byte in rest.iter().rev() {
        number = (number << 8) | u64::from(*byte);
    }
    match more {
        // The first byte has no bits of the number.
        7 | 8 => Ok(number),
        _ => Ok((number << (7 - more)) | u64::from(first >> (more + 1))),
    }
}

/// Reads a signed number: the lowest bit is its sign.
pub(crate) fn signed(reader: &mut Reader<'_>, field: &'static str) -> Result<i64, Malformed> {
    let raw = unsigned(reader, field)?;
    let half = i64::try_from(raw >> 1).map_err(|_| Malformed(field))?;
    Ok(if raw & 1 == 1 { -half - 1 } else { half })
}

/// Writes a number below 128: one byte.
pub(crate) fn short(number: u8) -> u8 {
    debug_assert!(number < 128);
    number << 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes a number of any size.
    fn write(number: u64) -> Vec<u8> {
        let bits = 64 - number.leading_zeros();
        let more = (bits.max(1) - 1) / 7;
        match more {
            0..=7 => {
                let word = u128::from(number) << (more + 1) | ((1_u128 << more) - 1);
                let len = usize::try_from(more).expect("small") + 1;
                word.to_le_bytes()[..len].to_vec()
            }
            _ => [&[0xFF], &number.to_le_bytes()[..]].concat(),
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_are_written(number: u64, shift in 0_u32..64) {
            let number = number >> shift;
            let bytes = write(number);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(unsigned(&mut reader, "number"), Ok(number));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn signs_are_in_the_lowest_bit() {
        for (raw, number) in [(0, 0), (2, 1), (1, -1), (3, -2), (200, 100)] {
            assert_eq!(signed(&mut Reader::new(&write(raw)), "number"), Ok(number));
        }
        assert!(unsigned(&mut Reader::new(&[0xFF, 1]), "number").is_err());
    }
}
