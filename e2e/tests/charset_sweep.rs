//! How bytes are read in each character set: our tokenizer against the servers' own, for every byte
//! from 0x80 up with every other one behind it (`TRUNKLINE_SWEEP`), or with those that matter.

use std::fmt::Write;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use trunkline_sql::token::{Encoding, Modes, Token, TokenKind, Tokens};
use trunkline_testkit::Flavour;

use crate::stage::{FLAVOURS, PASSWORD, USER, is_available, new_schema, shared_server};
use crate::wire::{MODERN, Shape, Wire, code, login};

/// Second bytes that quote or escape, are white space somewhere, or lead.
const SECOND: [u8; 20] = [
    0x20, 0x22, 0x30, 0x40, 0x5B, 0x5C, 0x5F, 0x60, 0x61, 0x7B, 0x7F, 0x80, 0x81, 0xA0, 0xA1, 0xDF,
    0xE0, 0xF9, 0xFA, 0xFF,
];

fn is_long() -> bool {
    std::env::var_os("TRUNKLINE_SWEEP").is_some()
}

fn first_bytes() -> impl Iterator<Item = u8> {
    0x80..=0xFF
}

/// The character sets of a server that clients may use.
fn charsets(wire: &mut Wire) -> Result<Vec<String>> {
    let names = wire.value(
        "SELECT GROUP_CONCAT(CHARACTER_SET_NAME) FROM information_schema.CHARACTER_SETS \
         WHERE CHARACTER_SET_NAME NOT IN ('ucs2', 'utf16', 'utf16le', 'utf32')",
    )?;
    Ok(names.context("no character sets")?.split(',').map(str::to_owned).collect())
}

fn modes(flavour: Flavour, charset: &str) -> Modes {
    let encoding = Encoding::of(charset);
    Modes { flavor_mariadb: flavour == Flavour::MariaDb, encoding, ..Modes::default() }
}

/// The one value of a text of any bytes.
fn value(wire: &mut Wire, text: &[u8]) -> Result<Vec<u8>> {
    let bytes = wire.exchange(code::QUERY, text, Shape::Results)?;
    let outcome = wire.outcomes(&bytes)?.pop().context("no result")?;
    let row = outcome.text_rows().into_iter().next();
    let row = row.with_context(|| format!("no row: {outcome:?}"))?;
    Ok(row.into_iter().next().flatten().context("NULL")?.into_bytes())
}

/// For each pair the length of a string of it and `\'`: whether the `\` escapes.
fn strings_end_where_they_do(wire: &mut Wire, modes: &Modes, seconds: &[u8]) -> Result<()> {
    let mut text = b"SELECT CONCAT(''".to_vec();
    let mut pairs = Vec::new();
    for first in first_bytes() {
        for &second in seconds.iter().filter(|second| !matches!(second, 0 | b'\'')) {
            text.extend_from_slice(b",LENGTH(_binary'");
            text.extend_from_slice(&[first, second]);
            // A string that goes on up to the second quote, or one and a comment.
            text.extend_from_slice(b"\\'#'\n)");
            pairs.push((first, second));
        }
    }
    text.push(b')');
    let found = value(wire, &text)?;
    let mut tokens = Tokens::new(&text, modes);
    let all: Vec<Token<'_>> = tokens.by_ref().collect();
    ensure!(tokens.is_complete() && !tokens.is_ambiguous(), "not understood");
    let strings: Vec<&[u8]> = all
        .windows(2)
        .filter(|pair| pair[0].is_word(b"_binary") && pair[1].kind == TokenKind::String)
        .map(|pair| pair[1].text)
        .collect();
    ensure!(strings.len() == pairs.len(), "{} strings of {}", strings.len(), pairs.len());
    ensure!(found.len() == pairs.len(), "{} lengths of {}", found.len(), pairs.len());
    for ((pair, string), found) in pairs.iter().zip(strings).zip(found) {
        let expected = match (string.ends_with(b"#'"), pair.1) {
            (true, _) => b'4',
            (false, b'\\') => b'2',
            (false, _) => b'3',
        };
        ensure!(found == expected, "{pair:x?}: length {}", char::from(found));
    }
    Ok(())
}

/// Runs a text for each pair of bytes and gives what it made of `@r`, as one character each; `E`
/// where it failed. As a procedure, because a round trip for each would take long.
const PROCEDURE: &str = "CREATE PROCEDURE sweep(head VARBINARY(300), tail VARBINARY(300), \
    seconds VARBINARY(300)) \
    BEGIN \
        DECLARE one, two INT; DECLARE line VARBINARY(600); DECLARE answer LONGBLOB DEFAULT ''; \
        SET one = 128; \
        WHILE one < 256 DO \
            SET two = 1, line = ''; \
            WHILE two <= LENGTH(seconds) DO \
                SET @r = 'E'; \
                BEGIN \
                    DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @r = 'E'; \
                    SET @t = CONCAT(head, CHAR(one), NULLIF(SUBSTR(seconds, two, 1), 0xFE), tail); \
                    SET @t = IFNULL(@t, CONCAT(head, CHAR(one), tail)); \
                    PREPARE s FROM @t; \
                    IF @r = 'E' THEN EXECUTE s; END IF; \
                END; \
                SET line = CONCAT(line, LEFT(@r, 1)), two = two + 1; \
            END WHILE; \
            SET answer = CONCAT(answer, line), one = one + 1; \
        END WHILE; \
        SELECT answer; \
    END";

/// A text around a pair of bytes, and what `@r` is by our reading of it.
struct Case {
    head: &'static [u8],
    tail: &'static [u8],
    /// Only the first byte of the pair.
    is_single: bool,
    expected: fn(&[Token<'_>]) -> Option<u8>,
}

fn if_so_many(tokens: &[Token<'_>], count: usize) -> Option<u8> {
    (tokens.len() == count).then_some(b'1')
}

const CASES: [Case; 5] = [
    // White space, or not.
    Case {
        head: b"SELECT",
        tail: b"1 INTO @r",
        is_single: true,
        expected: |tokens| if_so_many(tokens, 4),
    },
    // Begins a comment behind dashes, or not.
    Case {
        head: b"SELECT 1 INTO @r --",
        tail: b"'",
        is_single: true,
        expected: |tokens| if_so_many(tokens, 4),
    },
    // A word, or more than one.
    Case {
        head: b"SELECT 1 AS x",
        tail: b"z INTO @r",
        is_single: false,
        expected: |tokens| if_so_many(tokens, 6),
    },
    // A name in backticks that ends at the first one, or at the second.
    Case {
        head: b"SET @r = (SELECT MAX(z) FROM (SELECT 1 z, 2 `x",
        tail: b"`#` UNION SELECT 2, 2\n) t)",
        is_single: false,
        expected: |tokens| {
            let is_union = tokens.iter().any(|token| token.is_word(b"UNION"));
            Some(if is_union { b'2' } else { b'1' })
        },
    },
    // The name of a user variable.
    Case {
        head: b"SET @r = 1, @x",
        tail: b"=2",
        is_single: false,
        expected: |tokens| if_so_many(tokens, 8),
    },
];

/// Where the server takes a text, we read it as the server does, or know that we may not.
fn texts_are_read_as_they_are(
    wire: &mut Wire,
    modes: &Modes,
    case: &Case,
    seconds: &[u8],
) -> Result<()> {
    // 0xFE stands for no second byte.
    let seconds: Vec<u8> = match case.is_single {
        true => vec![0xFE],
        false => seconds.iter().copied().filter(|byte| !matches!(byte, 0 | b'#' | 0xFE)).collect(),
    };
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::from("0x"), |mut text, byte| {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let call = format!("CALL sweep({}, {}, {})", hex(case.head), hex(case.tail), hex(&seconds));
    let bytes = wire.exchange(code::QUERY, call.as_bytes(), Shape::Results)?;
    let outcomes = wire.outcomes(&bytes)?;
    // Other texts may have given rows before it.
    let rows = outcomes.iter().rev().find_map(|outcome| outcome.text_rows().into_iter().next());
    let found = rows.and_then(|row| row.into_iter().next().flatten());
    let found = found.with_context(|| format!("no result: {outcomes:?}"))?.into_bytes();
    let pairs = first_bytes().flat_map(|first| seconds.iter().map(move |second| (first, *second)));
    ensure!(found.len() == 128 * seconds.len(), "{} results", found.len());
    for (pair, &found) in pairs.zip(found.iter()) {
        let mut text = [case.head, &[pair.0]].concat();
        if !case.is_single {
            text.push(pair.1);
        }
        text.extend_from_slice(case.tail);
        let mut reader = Tokens::new(&text, modes);
        let tokens: Vec<Token<'_>> = reader.by_ref().collect();
        let is_flagged = reader.is_ambiguous() || !reader.is_complete();
        let expected = (case.expected)(&tokens);
        let shown = text.escape_ascii();
        let is_refused = found == b'E';
        ensure!(
            is_flagged || is_refused || expected == Some(found),
            "{shown}: {} on the server, {expected:?} by us: {tokens:?}",
            char::from(found)
        );
    }
    Ok(())
}

/// How long a server may take for a whole sweep of one character set.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn every_character_set_is_read_as_the_server_reads_it() -> Result<()> {
    let every: Vec<u8> = (1..=0xFF).collect();
    for flavour in FLAVOURS {
        if !is_available(flavour, "every_character_set_is_read_as_the_server_reads_it") {
            continue;
        }
        let server = shared_server(flavour)?;
        let schema = new_schema(server, "DO 0")?;
        let mut wire = Wire::login_with(server, login(USER, PASSWORD, &schema, MODERN))?;
        wire.set_read_timeout(SWEEP_TIMEOUT)?;
        for charset in charsets(&mut wire)? {
            let modes = modes(flavour, &charset);
            ensure!(modes.encoding != Encoding::Unknown, "{charset} is a new one");
            wire.query(&format!("SET NAMES {charset}, sql_mode = ''"))?;
            let context = || format!("{flavour:?} {charset}");
            let seconds = if is_long() { &every[..] } else { &SECOND[..] };
            for some in seconds.chunks(16) {
                strings_end_where_they_do(&mut wire, &modes, some).with_context(context)?;
            }
            // MySQL can't load a procedure that was made in it.
            if charset == "swe7" && flavour == Flavour::MySql {
                continue;
            }
            wire.query("DROP PROCEDURE IF EXISTS sweep")?;
            wire.query(PROCEDURE)?;
            let seconds = if is_long() { &every[..] } else { &[0x20, 0x40, 0x5C, 0x60, 0xA1][..] };
            for case in &CASES {
                texts_are_read_as_they_are(&mut wire, &modes, case, seconds)
                    .with_context(context)?;
            }
        }
    }
    Ok(())
}
