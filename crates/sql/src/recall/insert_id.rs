//! Where an id that an `INSERT` reports can have come from: generated, or given by the statement.
//!
//! Servers report both alike, and only a generated one is `LAST_INSERT_ID()` afterwards. What can't
//! be ruled out counts as possible: then the server is asked.

use crate::token::{Modes, TokenKind, Tokens};

/// Whether an `INSERT` or `REPLACE` can have been given an AUTO_INCREMENT value by something that
/// is no literal. `digest_text` is the statement's whole digest, where literals are `?`.
pub fn computes_values(digest_text: &[u8]) -> bool {
    let harmless: [&[u8]; 8] = [
        b"VALUES",
        b"VALUE",
        b"NULL",
        b"DEFAULT",
        b"NOW",
        b"CURRENT_TIMESTAMP",
        b"UTC_TIMESTAMP",
        b"CURDATE",
    ];
    let tokens = Tokens::new(digest_text, &Modes::default());
    let values = tokens.skip_while(|token| {
        !token.is_word(b"VALUES") && !token.is_word(b"VALUE") && !token.is_word(b"SELECT")
    });
    let mut is_empty = true;
    let mut follows_literal = false;
    for token in values {
        is_empty = false;
        let is_literal = matches!(token.kind, TokenKind::Parameter | TokenKind::Number);
        let is_plain = match token.kind {
            // Texts behind each other are one: '4' '99' is 499.
            TokenKind::Parameter | TokenKind::Number => !follows_literal,
            TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::Open
            | TokenKind::Close
            | TokenKind::Semicolon => true,
            TokenKind::Word => harmless.contains(&token.keyword().as_bytes()),
            _ => false,
        };
        if !is_plain {
            return true;
        }
        follows_literal = is_literal;
    }
    // `INSERT … SET`, `INSERT … TABLE`, a digest that was cut off.
    is_empty
}

/// Whether the literals of `text` may have given a column this value, the present time among them.
/// Long texts are not searched: theirs may.
pub fn text_may_give(text: &[u8], number: u64) -> bool {
    text.len() > SEARCHED_MAX
        || is_like_a_date(number) && says_the_time(text)
        || literals_may_give(text, number)
}

/// Whether the parameters of a prepared statement may have given a column this value. `execution`
/// has them as they were sent, `types` are their types, two bytes each. Long ones are not searched:
/// they may.
pub fn parameters_may_give(execution: &[u8], types: &[u8], number: u64) -> bool {
    let may_give = |kind: u8| match kind {
        FLOAT => {
            let near = |bytes: &[u8; 4]| is_near(f32::from_le_bytes(*bytes).into(), number);
            execution.array_windows().any(near)
        }
        DOUBLE => {
            let near = |bytes: &[u8; 8]| is_near(f64::from_le_bytes(*bytes), number);
            execution.array_windows().any(near)
        }
        TIMESTAMP | DATE | DATETIME => is_like_a_date(number),
        TIME => true,
        _ => false,
    };
    let integer = number.to_le_bytes();
    let size = match number {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        0x1_0000_0000.. => 8,
    };
    let integer = integer.get(..size).unwrap_or_default();
    execution.len() > SEARCHED_MAX
        || memchr::memmem::find(execution, integer).is_some()
        || types.chunks(2).filter_map(<[u8]>::first).any(|kind| may_give(*kind))
        || literals_may_give(execution, number)
}

/// Types of parameters that are no integers, nor texts.
const FLOAT: u8 = 4;
const DOUBLE: u8 = 5;
const TIMESTAMP: u8 = 7;
const DATE: u8 = 10;
const TIME: u8 = 11;
const DATETIME: u8 = 12;

/// Longer executions are not searched for floating-point numbers: they may hold any.
const SEARCHED_MAX: usize = 64 * 1024;

/// The highest values of integer columns, which higher ones become without strict mode.
const HIGHEST: [u64; 8] =
    [0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7F_FFFF, 0xFF_FFFF, 0x7FFF_FFFF, 0xFFFF_FFFF];

/// Whether a date, or a date with its time, is this as a number: 20261123, 20261123120000.
fn is_like_a_date(number: u64) -> bool {
    number >= 10_000_000
}

/// Whether the present time is among the values, by the words that [`computes_values`] lets pass.
fn says_the_time(text: &[u8]) -> bool {
    let words: [&[u8]; 4] = [b"NOW", b"CURRENT_TIMESTAMP", b"UTC_TIMESTAMP", b"CURDATE"];
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    text.split(|byte| !is_word(byte))
        .any(|part| words.iter().any(|word| part.eq_ignore_ascii_case(word)))
}

/// Whether a literal in `text` may be this number in an integer column: in decimal digits, as a
/// fraction or with an exponent, in hexadecimal digits or bits, negative or too high.
fn literals_may_give(text: &[u8], number: u64) -> bool {
    if number > i64::MAX.unsigned_abs() - 1 || HIGHEST.contains(&number) {
        return true;
    }
    let digits = number.to_string();
    let has_digits = memchr::memmem::find_iter(text, &digits).any(|at| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        let after = text.get(at + digits.len());
        !before.is_some_and(|byte| matches!(byte, b'1'..=b'9'))
            && !after.is_some_and(u8::is_ascii_digit)
    });
    has_digits || (0..text.len()).any(|at| is_written_otherwise(text, at, number))
}

/// Whether what stands at this place makes a literal that may be this number though its digits are
/// not there.
fn is_written_otherwise(text: &[u8], at: usize, number: u64) -> bool {
    let before = at.checked_sub(1).and_then(|at| text.get(at)).copied().unwrap_or_default();
    let after = text.get(at + 1).copied().unwrap_or_default();
    match text.get(at) {
        Some(b'.') => {
            (before.is_ascii_digit() || after.is_ascii_digit()) && is_near_at(text, at, number)
        }
        Some(b'e' | b'E') => {
            let is_exponent = after.is_ascii_digit() || matches!(after, b'+' | b'-');
            (before.is_ascii_digit() || before == b'.')
                && is_exponent
                && is_near_at(text, at, number)
        }
        Some(b'x' | b'X' | b'b' | b'B') => before == b'0' || after == b'\'',
        // '4\99' is 499.
        Some(b'\\') => after.is_ascii_digit() || matches!(after, b'.' | b'e' | b'E' | b'+' | b'-'),
        _ => false,
    }
}

/// Whether the number with a fraction or an exponent around this place may be rounded to `number`.
fn is_near_at(text: &[u8], at: usize, number: u64) -> bool {
    let is_mantissa = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let head = text.get(..at).unwrap_or_default();
    let begin = head.len() - head.iter().rev().take_while(|byte| is_mantissa(byte)).count();
    let rest = text.get(begin..).unwrap_or_default();
    // The second dot of a version is behind its number.
    let mut dots = 0;
    let is_first = |byte: &&u8| {
        dots += usize::from(**byte == b'.');
        is_mantissa(byte) && dots < 2
    };
    let mut len = rest.iter().take_while(is_first).count();
    if let Some([b'e' | b'E', exponent @ ..]) = rest.get(len..) {
        let sign = usize::from(matches!(exponent.first(), Some(b'+' | b'-')));
        let digits = exponent.iter().skip(sign).take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            len += 1 + sign + digits;
        }
    }
    let value = rest.get(..len).and_then(|value| std::str::from_utf8(value).ok());
    // What is not understood may be anything.
    value.and_then(|value| value.parse().ok()).is_none_or(|value| is_near(value, number))
}

/// Whether a number may be rounded to the other one, also by a column of single precision.
fn is_near(value: f64, number: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "it is compared roughly")]
    let number = number as f64;
    (value.abs() - number).abs() <= 1_f64.max(number / f64::from(1 << 22))
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
            ("INSERT INTO t VALUES (? ?)", true),
            ("INSERT INTO t VALUES (TRUE)", true),
            ("INSERT INTO t VALUES (CURTIME())", true),
            ("INSERT INTO t SELECT ?", true),
            ("INSERT INTO t SET a = ?", true),
            ("INSERT INTO t VALUES (?) ON DUPLICATE KEY UPDATE a = ?", true),
            ("INSERT INTO t VALUES (f(?))", true),
        ] {
            assert_eq!(computes_values(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_literal_is_found_however_it_is_written() {
        for (text, number, expected) in [
            (&b"INSERT INTO t VALUES (50, 1)"[..], 50, true),
            (b"INSERT INTO t VALUES ('0050', 1)", 50, true),
            (b"INSERT INTO t VALUES (150, 501)", 50, false),
            (b"INSERT INTO t VALUES (0x32)", 50, true),
            (b"INSERT INTO t VALUES (b'110010')", 50, true),
            (b"INSERT INTO t VALUES (49.7)", 50, true),
            (b"INSERT INTO t VALUES (.5e2, '1.2.3')", 50, true),
            (b"INSERT INTO t VALUES (+5E1)", 50, true),
            (b"INSERT INTO t VALUES ('5\\0')", 50, true),
            (b"INSERT INTO t VALUES (-14)", 0xFFFF_FFFF_FFFF_FFF2, true),
            (b"INSERT INTO t VALUES (1000)", 255, true),
            (b"INSERT INTO t VALUES (19.99, 'file.txt', 'see 1.2.3', 2e9)", 50, false),
            (b"INSERT INTO t VALUES ('text')", 70_000, false),
            (b"INSERT INTO t VALUES ('a', NOW())", 20_261_123_120_000, true),
            (b"INSERT INTO t VALUES ('a', NOW())", 70_000, false),
        ] {
            assert_eq!(text_may_give(text, number), expected, "{} {number}", text.escape_ascii());
        }
    }

    #[test]
    fn a_parameter_is_found_in_any_type() {
        let may_give = |kind: u8, value: &[u8], number| {
            parameters_may_give(&[&[0xAA][..], value].concat(), &[kind, 0], number)
        };
        assert!(may_give(3, b"\x39\x30\x00\x00", 0x3039));
        assert!(!may_give(3, b"\x39\x30\x00\x00", 0x3038));
        assert!(may_give(253, b"\x0312e", 12));
        assert!(may_give(FLOAT, &705_f32.to_le_bytes(), 705));
        assert!(may_give(DOUBLE, &710.7_f64.to_le_bytes(), 711));
        assert!(!may_give(DOUBLE, &710.7_f64.to_le_bytes(), 70_000));
        assert!(may_give(DATE, b"\x04\xe4\x07\x01\x05", 20_200_105));
        assert!(!may_give(DATETIME, b"\x04\xe4\x07\x01\x05", 70_000));
    }
}
