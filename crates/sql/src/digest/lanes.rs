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
/// The fewest bytes at the end of a text that are worth a block of their own.
const TAIL_MIN: usize = 10;

/// How many bytes at the beginning of `rest` certainly go through unchanged: those of [`is_soft`],
/// digits inside words, and single spaces between these and what keeps them ([`keeps_space`]).
/// 0 when the first byte is not soft.
#[inline]
pub(super) fn plain_len(rest: &[u8]) -> usize {
    if !rest.first().is_some_and(|first| is_soft(*first)) {
        return 0;
    }
    let mut len = 1;
    while let Some(left) = rest.get(len - 1..) {
        let Some(window) = left.first_chunk::<WINDOW>() else {
            let mut window = [0; WINDOW];
            if left.len() >= TAIL_MIN
                && let Some(begin) = window.get_mut(..left.len())
            {
                begin.copy_from_slice(left);
                len += taken(&window);
            }
            break;
        };
        let taken = taken(window);
        len += taken;
        if taken < LANES {
            break;
        }
    }
    len
}

/// How many bytes of the block are plain.
#[inline]
fn taken(window: &[u8; WINDOW]) -> usize {
    let plain = u128::from_le_bytes(plain_lanes(window));
    ((plain ^ ALL).trailing_zeros() / u8::BITS) as usize
}

/// 1 for each byte of the block that is plain, where the byte before it is.
#[expect(clippy::indexing_slicing, reason = "a lane's neighbours are within the window")]
#[inline]
fn plain_lanes(window: &[u8; WINDOW]) -> [u8; LANES] {
    let mut plain = [0; LANES];
    for lane in 0..LANES {
        let (before, byte, next) = (window[lane], window[lane + 1], window[lane + 2]);
        let digit = is_digit(byte) & (is_letter(before) | is_digit(before));
        // Of two spaces the first is not plain, so only `*` is left of what must not be before.
        let space = (byte == b' ') & (before != b'*') & keeps_space(next);
        plain[lane] = u8::from(is_soft(byte) | digit | space);
    }
    plain
}

/// Whatever goes through whatever stands around it, but for signs and what is rare: letters, `_`,
/// `.`, `*`, `<`, `=`, `>`, `@` and the like, all bytes from 0x80 on.
#[inline]
fn is_soft(byte: u8) -> bool {
    ((byte >= b'<') & (byte != b'?') & (byte != b'`')) | (byte | 0x04 == b'.')
}

/// Whether a space before this byte certainly stays: it is no white space, begins no comment, and
/// is none of `) , + -`.
#[inline]
fn keeps_space(next: u8) -> bool {
    (next > b'/') | (next & 0xFD == b'(') | (next == b'\'')
}

#[inline]
fn is_letter(byte: u8) -> bool {
    ((byte | 0x20).wrapping_sub(b'a') < 26) | (byte == b'_')
}

#[inline]
fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The length of what is plain at the beginning of `rest`, told byte by byte.
    fn slowly(rest: &[u8]) -> usize {
        let is_soft = |byte: u8| {
            matches!(byte, b'.' | b'*' | b'<' | b'=' | b'>' | 0x80..)
                || byte.is_ascii_alphabetic()
                || matches!(byte, b'@' | b'[' | b'\\' | b']' | b'^' | b'_')
                || matches!(byte, b'{' | b'|' | b'}' | b'~' | 0x7F)
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if rest.is_empty() || !is_soft(rest[0]) {
            return 0;
        }
        let mut len = 1;
        // The last few bytes are not looked at.
        while rest.len() >= (len - 1) / LANES * LANES + TAIL_MIN && len < rest.len() {
            let (before, byte) = (rest[len - 1], rest[len]);
            let next = rest.get(len + 1).copied().unwrap_or(0);
            let is_plain = is_soft(byte)
                || byte.is_ascii_digit() && is_word(before)
                || byte == b' '
                    && !b" *".contains(&before)
                    && (next > b'/' || b"'(*".contains(&next));
            if !is_plain {
                break;
            }
            len += 1;
        }
        len
    }

    #[test]
    fn what_is_soft_goes_through_by_itself() {
        use crate::digest::class::{Class, class};
        for byte in 0..=u8::MAX {
            let goes = matches!(class(byte), Class::Letter | Class::Inert);
            assert!(!is_soft(byte) || goes, "{byte}");
            assert_eq!(is_letter(byte), class(byte) == Class::Letter && byte != b'$', "{byte}");
        }
    }

    proptest! {
        #[test]
        fn blocks_are_judged_as_bytes_are(text in "[a-c_.=<>* 0-1A(,\"é]{0,20}[a-c_.=*> 0-1'`(@|?)]{0,60}") {
            prop_assert_eq!(plain_len(text.as_bytes()), slowly(text.as_bytes()));
        }
    }
}
