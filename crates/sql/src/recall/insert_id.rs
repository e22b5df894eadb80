//! Where an id that an `INSERT` generated can have come from, and whether a text mentions one.

use crate::token::{Modes, TokenKind, Tokens};

/// Whether an `INSERT` or `REPLACE` can have been given an AUTO_INCREMENT value by something that
/// is no literal. `digest_text` is the statement's digest, where literals are `?`.
pub fn computes_values(digest_text: &[u8]) -> bool {
    let harmless: [&[u8]; 12] = [
        b"VALUES",
        b"VALUE",
        b"NULL",
        b"DEFAULT",
        b"TRUE",
        b"FALSE",
        b"NOW",
        b"CURRENT_TIMESTAMP",
        b"UTC_TIMESTAMP",
        b"CURDATE",
        b"CURTIME",
        b"UUID",
    ];
    let tokens = Tokens::new(digest_text, &Modes::default());
    let values = tokens.skip_while(|token| {
        !token.is_word(b"VALUES") && !token.is_word(b"VALUE") && !token.is_word(b"SELECT")
    });
    let mut is_empty = true;
    for token in values {
        is_empty = false;
        let is_plain = match token.kind {
            TokenKind::Parameter
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Open
            | TokenKind::Close
            | TokenKind::Semicolon
            | TokenKind::Number => true,
            TokenKind::Word => harmless.contains(&token.keyword().as_bytes()),
            _ => false,
        };
        if !is_plain {
            return true;
        }
    }
    // `INSERT … SET`, `INSERT … TABLE`, a digest that was cut off.
    is_empty
}

/// Whether `bytes`, a statement with its literals or the parameters of a prepared one, may hold
/// `number`: as decimal digits, or as an integer of the smallest size that takes it or a larger
/// one, or as a floating-point number.
pub fn mentions(bytes: &[u8], number: u64) -> bool {
    let digits = number.to_string();
    let is_number_there = memchr::memmem::find_iter(bytes, &digits).any(|at| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + digits.len());
        !before.is_some_and(|byte| matches!(byte, b'1'..=b'9'))
            && !after.is_some_and(u8::is_ascii_digit)
    });
    let has = |wanted: &[u8]| memchr::memmem::find(bytes, wanted).is_some();
    let size = match number {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        0x1_0000_0000.. => 8,
    };
    let is_written_otherwise = has(b"0x") || has(b"0X") || has(b"x'") || has(b"X'");
    #[expect(clippy::cast_precision_loss, reason = "what a driver would have done")]
    let float = (number as f64).to_le_bytes();
    is_number_there
        || is_written_otherwise
        || has(number.to_le_bytes().get(..size).unwrap_or_default())
        || has(&float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literals_are_not_computed() {
        for (text, expected) in [
            ("INSERT INTO t (a, b) VALUES (?, ?)", false),
            ("INSERT INTO t VALUES (?,NOW()),(?,DEFAULT)", false),
            ("INSERT INTO t VALUES (?,?),...", false),
            ("INSERT INTO t VALUES (? + ?)", true),
            ("INSERT INTO t SELECT ?", true),
            ("INSERT INTO t SET a = ?", true),
            ("INSERT INTO t VALUES (?) ON DUPLICATE KEY UPDATE a = ?", true),
            ("INSERT INTO t VALUES (f(?))", true),
        ] {
            assert_eq!(computes_values(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_number_is_found_however_it_is_written() {
        for (text, number, expected) in [
            (&b"INSERT INTO t VALUES (50, 1)"[..], 50, true),
            (b"INSERT INTO t VALUES ('0050', 1)", 50, true),
            (b"INSERT INTO t VALUES (150, 501)", 50, false),
            (b"INSERT INTO t VALUES (0x32)", 50, true),
            (b"\x39\x30\x00\x00", 0x3039, true),
            (b"INSERT INTO t VALUES ('text')", 70_000, false),
        ] {
            assert_eq!(mentions(text, number), expected, "{text:?} {number}");
        }
        assert!(mentions(&12_345_678_f64.to_le_bytes(), 12_345_678));
    }
}
