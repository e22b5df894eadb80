//! Targets: tokens and analysis, digests, `SET`.

use trunkline_sql::{
    analysis::analyse,
    digest::{Digester, Settings},
    set,
    token::{Encoding, Modes, Tokens},
};

use crate::choice;

fn modes(how: u8) -> Modes {
    Modes {
        ansi_quotes: how & 1 != 0,
        no_backslash_escapes: how & 2 != 0,
        flavor_mariadb: how & 4 != 0,
        encoding: match (how >> 3) & 3 {
            0 => Encoding::Utf8,
            1 => Encoding::SingleByte,
            2 => Encoding::ShiftJis,
            _ => Encoding::Chinese,
        },
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

/// `SET` in every mode.
pub fn set_statement(data: &[u8]) {
    let (how, text) = choice(data);
    let modes = modes(how);
    drop(set::parse(text, &modes));
    drop(set::parse(&[b"SET ", text].concat(), &modes));
}
