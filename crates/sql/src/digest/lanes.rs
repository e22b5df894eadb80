//! Plain text, many bytes at a time.
//!
//! Most of a statement is names and keywords with one space between them. Such text goes through
//! unchanged, and whether a byte belongs to it depends on its neighbours only; so all bytes of a
//! block are judged by the same few operations, which compilers make vector instructions of.

/// Bytes in a block.
const LANES: usize = 16;
/// A block, the byte before it and the byte behind it.
const WINDOW: usize = LANES + 2;
/// A block of bytes that are all plain.
const ALL: u128 = u128::from_le_bytes([1; LANES]);

/// How many bytes at the beginning of `rest` certainly go through unchanged: letters, `_`, the
/// bytes of [`is_mark`], digits inside words, and single spaces between all of these. 0 when the
/// first byte is neither a letter nor one of those.
#[inline]
pub(super) fn plain_len(rest: &[u8]) -> usize {
    if !rest.first().is_some_and(|first| is_soft(*first)) {
        return 0;
    }
    let mut len = 1;
    while let Some(window) = rest.get(len - 1..).and_then(|rest| rest.first_chunk::<WINDOW>()) {
        let plain = u128::from_le_bytes(plain_lanes(window));
        let taken = (plain ^ ALL).trailing_zeros() / u8::BITS;
        len += taken as usize;
        if taken < u16::BITS {
            break;
        }
    }
    len
}

/// 1 for each byte of the block that is plain.
#[expect(clippy::indexing_slicing, reason = "a lane's neighbours are within the window")]
#[inline]
fn plain_lanes(window: &[u8; WINDOW]) -> [u8; LANES] {
    let mut plain = [0; LANES];
    for lane in 0..LANES {
        let (before, byte, next) = (window[lane], window[lane + 1], window[lane + 2]);
        let digit = is_digit(byte) & (is_soft(before) & !is_mark(before) | is_digit(before));
        let space = (byte == b' ') & (is_soft(before) | is_digit(before)) & is_soft(next);
        plain[lane] = u8::from(is_soft(byte) | digit | space);
    }
    plain
}

#[inline]
fn is_soft(byte: u8) -> bool {
    ((byte | 0x20).wrapping_sub(b'a') < 26) | (byte == b'_') | is_mark(byte)
}

/// `.`, `*`, `<`, `=`, `>`.
#[inline]
fn is_mark(byte: u8) -> bool {
    (byte == b'.') | (byte == b'*') | (byte.wrapping_sub(b'<') < 3)
}

#[inline]
fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same told byte by byte.
    fn slowly(rest: &[u8]) -> usize {
        let is_soft = |byte: u8| {
            byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.' | b'*' | b'<' | b'=' | b'>')
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if rest.is_empty() || !is_soft(rest[0]) {
            return 0;
        }
        let mut len = 1;
        // Only whole windows are looked at.
        while rest.len() >= (len - 1) / LANES * LANES + WINDOW {
            let (before, byte, next) = (rest[len - 1], rest[len], rest[len + 1]);
            let is_plain = is_soft(byte)
                || byte.is_ascii_digit() && is_word(before)
                || byte == b' ' && (is_soft(before) || is_word(before)) && is_soft(next);
            if !is_plain {
                break;
            }
            len += 1;
        }
        len
    }

    proptest! {
        #[test]
        fn blocks_are_judged_as_bytes_are(text in "[a-c_.=<>* 0-1A(,\"]{0,20}[a-c_.=*> 0-1]{0,60}") {
            prop_assert_eq!(plain_len(text.as_bytes()), slowly(text.as_bytes()));
        }
    }
}
