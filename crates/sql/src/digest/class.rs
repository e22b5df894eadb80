//! What each byte means to the scanner, as one table.

/// How the scanner treats a byte that begins something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// Goes through as it is and ends a word: control bytes, bytes from 0x80, most operators.
    Inert,
    /// Goes through too, but what is around it matters: `+ ? , ( )`.
    Plain,
    /// A letter, `_` or `$`: begins or continues a word.
    Letter,
    /// Continues a word; begins a number.
    Digit,
    /// Space, tab, line feed, carriage return. Vertical tab and form feed are not white space.
    Space,
    /// `'` and `"`.
    Quote,
    /// `` ` ``: no quoting for the digest, counted only.
    Backtick,
    /// `/`, `-` and `#` may begin a comment.
    Slash,
    Dash,
    Hash,
    /// The zero byte ends the text.
    Nul,
}

const CLASSES: [Class; 256] = classes();

#[expect(clippy::indexing_slicing, reason = "the loop's bound is the table's length")]
const fn classes() -> [Class; 256] {
    let mut table = [Class::Inert; 256];
    let mut byte = 0_usize;
    while byte < 256 {
        // The value is below 256, and `u8::try_from` is not const.
        let [low, ..] = byte.to_le_bytes();
        table[byte] = match low {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' | b'\n' | b'\r' => Class::Space,
            b'\'' | b'"' => Class::Quote,
            b'`' => Class::Backtick,
            b'/' => Class::Slash,
            b'-' => Class::Dash,
            b'#' => Class::Hash,
            b'+' | b'?' | b',' | b'(' | b')' => Class::Plain,
            0 => Class::Nul,
            _ => Class::Inert,
        };
        byte += 1;
    }
    table
}

#[expect(clippy::indexing_slicing, reason = "a byte is always below 256")]
#[inline]
pub(super) fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// Whether `byte` continues a word.
#[inline]
pub(super) fn is_word(byte: u8) -> bool {
    matches!(class(byte), Class::Letter | Class::Digit)
}

#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    class(byte) == Class::Space
}

/// Whether `byte` is an arithmetic operator, around which spaces are special.
#[inline]
pub(super) fn is_operator(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b'*' | b'/' | b'%')
}

/// Bits of [`run_flags`]. Set if a run takes the byte where the byte before it is not part of a
/// word; one place further left for where it is.
pub(super) const RUN_TAKES: u8 = 1;
/// The place of the bit that is set if the byte is part of a word.
pub(super) const RUN_WORD_SHIFT: u8 = 2;
/// The place of the bit that is set if the byte is a backtick.
pub(super) const RUN_BACKTICK_SHIFT: u8 = 3;

const RUN_FLAGS: [u8; 256] = all_run_flags();

#[expect(clippy::indexing_slicing, reason = "the loop's bound is the tables' length")]
const fn all_run_flags() -> [u8; 256] {
    const ALWAYS: u8 = RUN_TAKES | RUN_TAKES << 1;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match CLASSES[byte] {
            Class::Letter => ALWAYS | 1 << RUN_WORD_SHIFT,
            Class::Digit => RUN_TAKES << 1 | 1 << RUN_WORD_SHIFT,
            Class::Inert => ALWAYS,
            Class::Backtick => ALWAYS | 1 << RUN_BACKTICK_SHIFT,
            Class::Plain
            | Class::Space
            | Class::Quote
            | Class::Slash
            | Class::Dash
            | Class::Hash
            | Class::Nul => 0,
        };
        byte += 1;
    }
    table
}

/// What `byte` does to a run of bytes that go through unchanged, as bits that a loop can use
/// without a branch for each class.
#[expect(clippy::indexing_slicing, reason = "a byte is always below 256")]
#[inline]
pub(super) fn run_flags(byte: u8) -> u8 {
    RUN_FLAGS[usize::from(byte)]
}
