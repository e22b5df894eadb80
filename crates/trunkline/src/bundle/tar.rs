//! Writes tar archives: POSIX `ustar`, regular files only.

/// Bytes of a block.
const BLOCK_LEN: usize = 512;
/// The longest name that fits into a header.
const NAME_LEN_MAX: usize = 100;

/// An archive that grows by files. Format: POSIX.1-1988, `ustar`.
#[derive(Default)]
pub struct Archive(Vec<u8>);

impl Archive {
    /// Adds a file with a name of at most 100 bytes; longer ones are cut.
    pub fn add(&mut self, name: &str, content: &[u8], modified_unix_sec: u64) {
        let name = name.get(..name.floor_char_boundary(NAME_LEN_MAX)).unwrap_or(name);
        let size = format!("{:011o}\0", content.len());
        let modified = format!("{modified_unix_sec:011o}\0");
        let mut header = [0_u8; BLOCK_LEN];
        let fields: [(usize, &[u8]); 9] = [
            (0, name.as_bytes()),
            (100, b"0000600\0"),
            (108, b"0000000\0"),
            (116, b"0000000\0"),
            (124, size.as_bytes()),
            (136, modified.as_bytes()),
            // The sum is made as if it were spaces.
            (148, b"        "),
            (156, b"0"),
            (257, b"ustar\x0000"),
        ];
        for (at, field) in fields {
            put(&mut header, at, field);
        }
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(BLOCK_LEN), 0);
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK_LEN, 0);
        self.0
    }
}

fn put(header: &mut [u8; BLOCK_LEN], at: usize, field: &[u8]) {
    let place = header.get_mut(at..).into_iter().flatten();
    place.zip(field).for_each(|(byte, value)| *byte = *value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_their_fields_and_sum() {
        let mut archive = Archive::default();
        archive.add("a/b.txt", b"hello", 1);
        let bytes = archive.finish();
        assert_eq!(bytes.len(), 4 * BLOCK_LEN);
        assert_eq!(&bytes[..8], b"a/b.txt\0");
        assert_eq!(&bytes[124..136], b"00000000005\0");
        assert_eq!(&bytes[257..265], b"ustar\x0000");
        assert_eq!(&bytes[BLOCK_LEN..BLOCK_LEN + 6], b"hello\0");
        let mut blank = bytes[..BLOCK_LEN].to_vec();
        blank[148..156].fill(b' ');
        let sum: u32 = blank.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(&bytes[148..156], format!("{sum:06o}\0 ").as_bytes());
    }
}
