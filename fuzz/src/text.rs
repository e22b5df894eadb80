//! Targets: tokens and analysis, digests, `SET`.

use trunkline_sql::{
    analysis::analyse,
    digest::{Digester, Settings},
    set,
    token::{Encoding, Modes, Token, TokenKind, Tokens},
};

use crate::choice;

fn modes(how: u8) -> Modes {
    Modes {
        ansi_quotes: how & 1 != 0,
        no_backslash_escapes: how & 2 != 0,
        guesses_quotes: how & 0x40 != 0,
        guesses_escapes: how & 0x80 != 0,
        flavor_mariadb: how & 4 != 0,
        encoding: match (how >> 3) & 7 {
            0 => Encoding::Utf8,
            1 => Encoding::SingleByte,
            2 => Encoding::ShiftJis,
            3 => Encoding::Gbk,
            4 => Encoding::Big5,
            5 => Encoding::Latin,
            6 => Encoding::Dos,
            _ => Encoding::Unknown,
        },
        ignore_space: how & 0x20 != 0,
        oracle: how & 0x40 != 0,
        ..Modes::default()
    }
}

/// A statement's tokens follow each other within its text, and the analysis of it ends. The
/// first byte chooses the modes.
pub fn tokens(data: &[u8]) {
    let (how, text) = choice(data);
    let modes = modes(how);
    let mut end = 0;
    for token in Tokens::new(text, &modes) {
        assert!(token.offset >= end && token.end() > token.offset, "tokens go on");
        end = token.end();
        drop(token.unquoted());
        token.keyword();
    }
    assert!(end <= text.len(), "tokens are of the text");
    let analysis = analyse(text, &modes);
    assert_eq!(analysis, analyse(text, &modes), "an analysis depends on nothing else");
    let is_single_bytes = matches!(modes.encoding, Encoding::Utf8 | Encoding::SingleByte);
    // A digest knows no modes.
    if is_single_bytes && !(modes.no_backslash_escapes && text.contains(&b'\\')) {
        other_literals(text, modes);
    }
}

/// Digest and tokenizer agree on what a literal is: a statement and the same one with other
/// literals have one digest, and one analysis.
fn other_literals(text: &[u8], modes: Modes) {
    let settings = Settings::default();
    let (mut digester, mut other_digester) = (Digester::new(), Digester::new());
    let digest = digester.digest(text, &settings);
    let mut tokens = Tokens::new(text, &modes);
    let mut other = Vec::with_capacity(text.len());
    let mut at = 0;
    for token in tokens.by_ref() {
        let literal: &[u8] = match (token.kind, token.text) {
            (TokenKind::String, [b'"', ..]) => b"\"o'the\"\"r/*\"",
            (TokenKind::String, _) => b"'o\"the''r -- '",
            (TokenKind::Number, digits)
                if digits.iter().all(u8::is_ascii_digit) && is_one_number(text, &token) =>
            {
                b"40317"
            }
            _ => continue,
        };
        other.extend_from_slice(text.get(at..token.offset).unwrap_or_default());
        other.extend_from_slice(literal);
        at = token.end();
    }
    other.extend_from_slice(text.get(at..).unwrap_or_default());
    let is_read_by_all = tokens.is_complete() && !tokens.is_ambiguous();
    if !digest.is_clean || !is_read_by_all || other.len() > settings.max_query_length {
        return;
    }
    let again = other_digester.digest(&other, &settings);
    assert!(
        digest.text == again.text,
        "{} became {}",
        digest.text.escape_ascii(),
        again.text.escape_ascii()
    );
    let (before, after) = (analyse(text, &modes), analyse(&other, &modes));
    if !before.depends_on_literals() {
        assert_eq!(before, after, "{}", other.escape_ascii());
    }
}

/// A digest is within its limits, and depends on nothing but text and settings. The first byte
/// chooses the settings.
pub fn digest(data: &[u8]) {
    let (how, text) = choice(data);
    let bit = |bit: u8| how & (1 << bit) != 0;
    let settings = Settings {
        lowercase: bit(0),
        replace_null: bit(1),
        no_digits: bit(2),
        keep_comment: bit(3),
        grouping_limit: if bit(4) { 1 } else { 3 },
        groups_grouping_limit: if bit(5) { 0 } else { 10 },
        max_digest_length: if bit(6) { 16 } else { 2_048 },
        max_query_length: if bit(7) { 16 } else { 65_000 },
    };
    let mut digester = Digester::new();
    let first = digester.digest(text, &settings);
    assert!(first.text.len() <= settings.max_digest_length, "the text has a limit");
    let (hash, is_clean, shown) = (first.hash, first.is_clean, first.text.to_vec());
    // What the digester did before leaves no trace.
    digester.digest(b"SELECT 'left behind', 1, 2, 3 /* and this */", &settings);
    let again = digester.digest(text, &settings);
    assert_eq!((hash, is_clean, &*shown), (again.hash, again.is_clean, again.text));
}

/// Whether the digest takes these digits for a number by themselves, as servers do: it does not
/// beside a point, nor behind what looks like an exponent (`0x1Fe-5`), which it leaves as it is.
fn is_one_number(text: &[u8], token: &Token<'_>) -> bool {
    let before = text.get(..token.offset).unwrap_or_default();
    let next = text.get(token.end());
    !matches!(before, [.., b'.'] | [.., b'e' | b'E', b'+' | b'-']) && next != Some(&b'.')
}

/// `SET` in every mode.
pub fn set_statement(data: &[u8]) {
    let (how, text) = choice(data);
    let modes = modes(how);
    drop(set::parse(text, &modes));
    drop(set::parse(&[b"SET ", text].concat(), &modes));
}
