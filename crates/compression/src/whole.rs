//! Whole files and records: gzip for archives, zlib for records of the history.

use std::io::{self, Read, Write};

use flate2::{
    Compression, Crc,
    read::ZlibDecoder,
    write::{GzEncoder, ZlibEncoder},
};

/// A file in gzip's format.
///
/// # Errors
/// None in practice: memory is written to.
pub fn gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain)?;
    encoder.finish()
}

/// Bytes in zlib's format.
///
/// # Errors
/// None in practice: memory is written to.
pub fn deflated(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain)?;
    encoder.finish()
}

/// What [`deflated`] made bytes of.
///
/// # Errors
/// When they are not in zlib's format, or stand for more than `len_max` bytes.
pub fn inflated(packed: &[u8], len_max: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(len_max).unwrap_or(u64::MAX);
    let mut plain = Vec::new();
    ZlibDecoder::new(packed).take(limit.saturating_add(1)).read_to_end(&mut plain)?;
    match plain.len() <= len_max {
        true => Ok(plain),
        false => Err(io::Error::other(format!("it is longer than {len_max} bytes"))),
    }
}

/// The CRC-32 of gzip and zlib.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deflated_is_the_same_again_within_its_limit() {
        let plain = b"abc".repeat(1_000);
        let packed = deflated(&plain).expect("memory");
        assert!(packed.len() < plain.len() / 10);
        assert_eq!(inflated(&packed, plain.len()).expect("it fits"), plain);
        assert!(inflated(&packed, plain.len() - 1).is_err());
        assert!(inflated(&packed[1..], plain.len()).is_err());
    }

    #[test]
    fn a_file_is_gzips_and_sums_are_known() {
        let packed = gzip(b"x").expect("memory");
        assert_eq!(packed[..3], [0x1f, 0x8b, 8]);
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
