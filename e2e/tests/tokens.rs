//! Where tokens end: our tokenizer against the servers' own, on statements made by chance.
//!
//! A comment that is put where a token ends must change nothing, and literals may be replaced
//! by others: the server's own digest (MySQL's `STATEMENT_DIGEST_TEXT`) stays the same, and ours
//! does.

use anyhow::{Result, ensure};
use trunkline_sql::{
    digest::{Digester, Settings},
    token::{Modes, Token, TokenKind, Tokens},
};
use trunkline_testkit::{Flavour, Row, SqlClient, Trunkline, error_code};

use crate::stage::{PASSWORD, USER, is_available, one_server, shared_server};
use crate::wire::{MODERN, Shape, Wire, code, login};

/// Statements for each mode, unless `TRUNKLINE_TOKENS_STATEMENTS` says otherwise.
const STATEMENTS: usize = 250;

/// A number from the environment: how long, and with which seed, statements are made.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Numbers that look like chance and are the same in each run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap_or_default()
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const GAPS: [&str; 10] =
    [" ", " ", " ", "\n", "\t ", " /* c */ ", " /* ' */ ", " -- ' c\n ", " # \" c\n ", " /**/ "];
const ATOMS: [&str; 30] = [
    "1",
    "0",
    "12.5",
    ".5",
    "1.",
    "1e3",
    "1E-2",
    "0x1F",
    "0b101",
    "x'1F'",
    "X'0a'",
    "b'101'",
    "a",
    "t.a",
    "`it's`",
    "t.`it's`",
    "`a`",
    "1b",
    "t.1b",
    "NULL",
    "TRUE",
    "N'x'",
    "_utf8mb4'x'",
    "'a' 'b'",
    "(SELECT 1)",
    "CONCAT('a', 1)",
    "COUNT(*)",
    "- 1",
    "CASE WHEN 1 THEN 2 ELSE 3 END",
    "a IN (1, 2,3 )",
];
const OPERATORS: [&str; 12] = ["+", "-", "*", "/", "%", "=", "<>", "<=", "AND", "OR", "||", "LIKE"];

/// A text of what quotes and comments are made of, quoted as the modes have it.
fn quoted(chance: &mut Chance, modes: &Modes) -> String {
    let quote = if modes.ansi_quotes { "'" } else { chance.pick(&["'", "\""]) };
    let content: String = (0..chance.below(6))
        .map(|_| {
            match chance.pick(&["x", "'", "\"", "\\", "`", "-- ", "#", "/*", "*/", "é", "\n"]) {
                piece if piece == quote && chance.below(2) == 0 && !modes.no_backslash_escapes => {
                    format!("\\{quote}")
                }
                piece if piece == quote => quote.repeat(2),
                "\\" if !modes.no_backslash_escapes => "\\\\".to_owned(),
                piece => piece.to_owned(),
            }
        })
        .collect();
    format!("{quote}{content}{quote}")
}

fn expression(chance: &mut Chance, modes: &Modes) -> String {
    let mut text = String::new();
    for number in 0..=chance.below(4) {
        if number > 0 {
            let operator = chance.pick(&OPERATORS);
            let (before, behind) = (chance.pick(&GAPS), chance.pick(&GAPS));
            text.push_str(&format!("{before}{operator}{behind}"));
        }
        match chance.below(3) {
            0 => text.push_str(&quoted(chance, modes)),
            1 if modes.ansi_quotes && chance.below(2) == 0 => text.push_str("\"it's\""),
            _ => text.push_str(chance.pick(&ATOMS)),
        }
    }
    text
}

fn statement(chance: &mut Chance, modes: &Modes) -> String {
    let items: Vec<String> = (0..=chance.below(3)).map(|_| expression(chance, modes)).collect();
    let (gap, items) = (chance.pick(&GAPS), items.join(chance.pick(&[",", ", ", " , "])));
    let from = "FROM (SELECT 1 AS a, 2 AS `it's`, 3 AS `1b`) AS t";
    format!("SELECT{gap}{items}{}{from}{}", chance.pick(&GAPS), chance.pick(&["", " ", " -- '"]))
}

/// The text with a comment wherever a token ends and white space follows.
fn marked(text: &str, tokens: &[Token<'_>]) -> String {
    let mut out = String::new();
    let mut at = 0;
    for token in tokens {
        let (done, rest) = (&text[at..token.end()], &text[token.end()..]);
        out.push_str(done);
        if rest.starts_with([' ', '\n', '\t']) {
            out.push_str("/* ' \" ` */");
        }
        at = token.end();
    }
    out + &text[at..]
}

/// The text with other literals in place of its own.
fn replaced(text: &str, tokens: &[Token<'_>]) -> String {
    let mut out = String::new();
    let (mut at, mut before) = (0, 0);
    for token in tokens {
        // `x'1F'` and its like are one literal for the server, of more than one token.
        let is_tail = std::mem::replace(&mut before, token.end()) == token.offset;
        let other = match (token.kind, token.text.first()) {
            _ if is_tail && text[..token.offset].ends_with(char::is_alphanumeric) => continue,
            (TokenKind::String, Some(b'\'')) => "'other''s'",
            (TokenKind::String, Some(b'"')) => "\"other\"\"s\"",
            (TokenKind::Number, Some(b'0'..=b'9' | b'.')) => "77",
            _ => continue,
        };
        out.push_str(&text[at..token.offset]);
        out.push_str(other);
        at = token.end();
    }
    out + &text[at..]
}

/// Rows, or the error's code.
fn outcome(client: &mut SqlClient, text: &str) -> Result<Vec<Row>, Option<u16>> {
    client.sql(text).map_err(|error| error_code(&error))
}

/// The server's own digest text.
fn server_digest(client: &mut SqlClient, text: &str) -> Result<Option<String>> {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    client.value(&format!("SELECT STATEMENT_DIGEST_TEXT(CONVERT(0x{hex} USING utf8mb4))"))
}

fn check(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let is_mariadb = flavour == Flavour::MariaDb;
    let count = setting("TRUNKLINE_TOKENS_STATEMENTS", STATEMENTS);
    let seed = setting("TRUNKLINE_TOKENS_SEED", 0) as u64;
    for (turn, mode) in ["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES"].into_iter().enumerate() {
        let modes = Modes {
            ansi_quotes: mode == "ANSI_QUOTES",
            no_backslash_escapes: mode == "NO_BACKSLASH_ESCAPES",
            flavor_mariadb: is_mariadb,
            ..Modes::default()
        };
        let mut client = server.root()?;
        client.sql(&format!("SET NAMES utf8mb4; SET sql_mode = '{mode}'"))?;
        let mut chance = Chance(0x9E37_79B9_7F4A_7C15 + turn as u64 + 3 * seed);
        let (mut digester, mut other_digester) = (Digester::new(), Digester::new());
        let mut understood = 0;
        for _ in 0..count {
            let text = statement(&mut chance, &modes);
            let mut reader = Tokens::new(text.as_bytes(), &modes);
            let tokens: Vec<Token<'_>> = reader.by_ref().collect();
            ensure!(reader.is_complete(), "not understood: {text}");
            let (marked, replaced) = (marked(&text, &tokens), replaced(&text, &tokens));
            let before = outcome(&mut client, &text);
            understood += usize::from(before.is_ok());
            ensure!(outcome(&mut client, &marked) == before, "{mode}: {text}\n became {marked}");
            // Another value may be of the wrong kind, but what is no syntax stays none.
            let is_syntax = |outcome: &Result<Vec<Row>, Option<u16>>| *outcome == Err(Some(1064));
            let after = outcome(&mut client, &replaced);
            ensure!(is_syntax(&after) == is_syntax(&before), "{mode}: {text}\n became {replaced}");
            if !is_mariadb && before.is_ok() {
                let (one, other) =
                    (server_digest(&mut client, &text)?, server_digest(&mut client, &replaced)?);
                ensure!(one == other, "{mode}: {text}\n {one:?}\n {other:?}");
            }
            let settings = Settings::default();
            let one = digester.digest(text.as_bytes(), &settings);
            let other = other_digester.digest(replaced.as_bytes(), &settings);
            ensure!(
                !mode.is_empty() || !one.is_clean || one.text == other.text,
                "{text}\n {replaced}"
            );
        }
        ensure!(understood > count / 2, "{mode}: the server took only {understood}");
    }
    Ok(())
}

#[test]
fn tokens_end_where_they_do_on_mariadb() -> Result<()> {
    match is_available(Flavour::MariaDb, "tokens_end_where_they_do_on_mariadb") {
        true => check(Flavour::MariaDb),
        false => Ok(()),
    }
}

#[test]
fn tokens_end_where_they_do_on_mysql() -> Result<()> {
    match is_available(Flavour::MySql, "tokens_end_where_they_do_on_mysql") {
        true => check(Flavour::MySql),
        false => Ok(()),
    }
}

/// Texts that are hard to read: both ways the server judges them, byte for byte.
fn hard_texts() -> Vec<Vec<u8>> {
    let many = |piece: &str, count: usize| piece.repeat(count);
    let mut texts: Vec<Vec<u8>> = [
        "SELECT 'open",
        "SELECT \"open",
        "SELECT `open",
        "SELECT 1 /* open",
        "SELECT 1 /*! open",
        "SELECT 1 /* a /* b */ c */",
        "SELECT 1 /*!50000 + 1 /* b */ */",
        "SELECT 1 /*!99999 + nonsense */",
        "SELECT 1 --",
        "SELECT 1 #",
        "SELECT 'a' 'b' \"c\" 'it''s' 'back\\'slash'",
        "SELECT 1;",
        ";",
        "",
        "   ",
        "/* nothing */",
        "-- nothing",
        "(((((SELECT 1)))))",
        "SELECT 1 FROM",
        "nonsense",
        "SELECT \u{a0}1",
        "SELECT '\u{1F600}', N'\u{e9}'",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    texts.extend([
        b"SELECT '\xFF\xFE\x80'".to_vec(),
        b"SELECT \xC3".to_vec(),
        b"SELECT 1\0, 2".to_vec(),
        b"SELECT 'a\0b'".to_vec(),
        b"\0SELECT 1".to_vec(),
        format!("SELECT COUNT(*) FROM (VALUES {}(1)) AS v", many("(1),", 10_000)).into_bytes(),
        format!("SELECT 1 IN ({}2)", many("3, ", 10_000)).into_bytes(),
        format!("SELECT {}1{}", many("(", 200), many(")", 200)).into_bytes(),
        format!("SELECT {}1", many("/* c */", 20_000)).into_bytes(),
        format!("SELECT LENGTH('{}')", many("''", 500_000)).into_bytes(),
        format!("SELECT LENGTH('{}", many("\\'", 500_000)).into_bytes(),
        format!("SELECT 1{}", many(" - -1", 1_000)).into_bytes(),
        format!("SELECT LENGTH('{}')", many("x", 15_000_000)).into_bytes(),
    ]);
    texts
}

fn go_through(flavour: Flavour) -> Result<()> {
    let server = shared_server(flavour)?;
    let patterns = "[[rule]]\nid = 1\nmatch_pattern = \"(a|aa)*(b|c)+ nothing$\"\n\
                    [[rule]]\nid = 2\nmatch_digest = \"^(?!SELECT|x).*(x+x+)+y\"\n";
    let proxy = Trunkline::start(&format!("{}{patterns}", one_server(server, 1, 20)))?;
    let mut direct = Wire::login_with(server, login(USER, PASSWORD, "", MODERN))?;
    let mut through = Wire::login_with(&proxy, login(USER, PASSWORD, "", MODERN))?;
    for text in hard_texts() {
        let expected = direct.exchange(code::QUERY, &text, Shape::Results)?;
        let answer = through.exchange(code::QUERY, &text, Shape::Results)?;
        let shown = String::from_utf8_lossy(text.get(..80).unwrap_or(&text)).into_owned();
        ensure!(answer == expected, "{shown}: {answer:x?}, directly {expected:x?}");
    }
    Ok(())
}

#[test]
fn what_is_hard_to_read_is_judged_by_the_server_on_mariadb() -> Result<()> {
    match is_available(Flavour::MariaDb, "what_is_hard_to_read_is_judged_by_the_server_on_mariadb")
    {
        true => go_through(Flavour::MariaDb),
        false => Ok(()),
    }
}

#[test]
fn what_is_hard_to_read_is_judged_by_the_server_on_mysql() -> Result<()> {
    match is_available(Flavour::MySql, "what_is_hard_to_read_is_judged_by_the_server_on_mysql") {
        true => go_through(Flavour::MySql),
        false => Ok(()),
    }
}
