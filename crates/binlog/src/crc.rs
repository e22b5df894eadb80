//! CRC-32 as in zlib, by which events are checked.

/// The remainder of each byte.
const TABLE: [u32; 256] = table();

#[expect(clippy::indexing_slicing, reason = "computed by the compiler, which checks it")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let mut rest = byte;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest >> 1) ^ if rest & 1 == 1 { 0xEDB8_8320 } else { 0 };
            bit += 1;
        }
        table[byte as usize] = rest;
        byte += 1;
    }
    table
}

/// The checksum of these bytes.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let [low, ..] = crc.to_le_bytes();
        let remainder = TABLE.get(usize::from(low ^ byte)).copied().unwrap_or_default();
        (crc >> 8) ^ remainder
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn known_checksums_are_made() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
