//! What reads and what writes: a corpus, and properties over made-up text.

use proptest::prelude::*;
use trunkline_sql::{
    analysis::{Access, analyse},
    set,
    token::{Encoding, Modes, Tokens},
    version::ServerVersion,
};

const CORPUS: &str = include_str!("data/classification.txt");
/// Statements of every kind that the manuals' grammars know.
const GRAMMAR: &str = include_str!("data/grammar.txt");

const FLAVORS: [Modes; 2] = [
    Modes {
        ansi_quotes: false,
        no_backslash_escapes: false,
        guesses_quotes: false,
        guesses_escapes: false,
        flavor_mariadb: false,
        encoding: Encoding::Utf8,
        version: ServerVersion::UNKNOWN,
        ignore_space: false,
        oracle: false,
    },
    Modes {
        ansi_quotes: false,
        no_backslash_escapes: false,
        guesses_quotes: false,
        guesses_escapes: false,
        flavor_mariadb: true,
        encoding: Encoding::Utf8,
        version: ServerVersion::UNKNOWN,
        ignore_space: false,
        oracle: false,
    },
];

/// The lines of the corpus: whether the statement certainly only reads, and its text.
fn corpus() -> Vec<(bool, &'static str)> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with("# "));
    lines
        .map(|line| match line.split_once('\t') {
            Some(("reads", text)) => (true, text),
            Some(("writes", text)) => (false, text),
            _ => panic!("no label: {line}"),
        })
        .collect()
}

fn reads(text: &[u8], modes: &Modes) -> bool {
    analyse(text, modes).access == Access::CertainlyReads
}

#[test]
fn the_corpus_is_classified_as_labelled() {
    let corpus = corpus();
    assert!(corpus.len() >= 300);
    let mut wrong = Vec::new();
    for (expected, text) in corpus {
        for modes in &FLAVORS {
            if reads(text.as_bytes(), modes) != expected {
                wrong.push(text);
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

/// The lines of the second corpus: whether the statement certainly only reads for a server of each
/// of [`FLAVORS`], and its text.
fn grammar() -> Vec<([bool; 2], &'static str)> {
    let lines = GRAMMAR.lines().filter(|line| !line.starts_with("# "));
    lines
        .map(|line| match line.split_once('\t') {
            Some(("reads", text)) => ([true, true], text),
            Some(("reads on mysql", text)) => ([true, false], text),
            Some(("reads on mariadb", text)) => ([false, true], text),
            Some(("writes", text)) => ([false, false], text),
            _ => panic!("no label: {line}"),
        })
        .collect()
}

#[test]
fn statements_of_every_grammar_rule_are_classified_as_labelled() {
    let grammar = grammar();
    assert!(grammar.len() + corpus().len() >= 2_000);
    let mut wrong = Vec::new();
    for (expected, text) in grammar {
        let found = FLAVORS.map(|modes| reads(text.as_bytes(), &modes));
        if found != expected {
            wrong.push((text, found));
        }
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}

#[test]
fn decoration_changes_no_class() {
    for (expected, text) in corpus() {
        let is_query = text.starts_with("SELECT") && !text.contains([';', '#']);
        for modes in &FLAVORS {
            let decorated = format!("/* x */\n\t{text}\n-- y");
            assert_eq!(reads(decorated.as_bytes(), modes), expected, "{decorated}");
            let decorated = format!("/*! {text}\n */");
            assert!(!reads(decorated.as_bytes(), modes) || expected, "{decorated}");
            if is_query {
                let decorated = format!("({text}\n)");
                assert!(!reads(decorated.as_bytes(), modes) || expected, "{decorated}");
            }
            let lower = text.to_lowercase();
            assert_eq!(reads(lower.as_bytes(), modes), expected, "{lower}");
        }
    }
}

/// Puts a comment or white space, by turns, between the tokens of `text`.
fn spread(text: &str, modes: &Modes) -> Vec<u8> {
    const FILLERS: [&[u8]; 4] = [b" ", b"/* SELECT 1 */", b"\n-- x\n", b"\t# y'\n"];
    let mut out = Vec::new();
    let mut end = 0;
    let fillers = FILLERS.iter().cycle();
    for (token, filler) in Tokens::new(text.as_bytes(), modes).zip(fillers) {
        if token.offset > end {
            out.extend_from_slice(filler);
        }
        out.extend_from_slice(token.text);
        end = token.end();
    }
    out
}

#[test]
fn comments_between_tokens_hide_no_write() {
    let corpus = corpus().into_iter().map(|(expected, text)| ([expected; 2], text));
    for (expected, text) in corpus.chain(grammar()) {
        for (modes, expected) in FLAVORS.iter().zip(expected) {
            let analysis = analyse(text.as_bytes(), modes);
            if text.contains("/*") || !analysis.is_complete {
                continue;
            }
            let spread = spread(text, modes);
            assert_eq!(reads(&spread, modes), expected, "{}", String::from_utf8_lossy(&spread));
        }
    }
}

/// Long repetitions, which would take many minutes if time were not linear.
#[test]
fn time_is_linear_in_the_length() {
    const UNITS: &[&str] = &[
        "(",
        ")",
        "'",
        "`",
        "\"",
        "\\",
        "/*",
        "*/",
        "/*!",
        "/*!50000 ",
        "/*!50000 a */",
        "-- ",
        "#",
        "@",
        "@@",
        "@@a.",
        ".",
        "a.",
        "0x",
        "1e",
        ";",
        "a;",
        "f(",
        "f(a)",
        "SET a=1;",
        "SET a=1,",
        "SET ",
        "SET STATEMENT a=1 FOR ",
        "BEGIN ",
        "BEGIN;",
        "CASE ",
        "END ",
        "DEFINER=a@b ",
        "?,",
        "EXPLAIN ",
        "WITH x AS (",
        "$$",
        "INTO @a,",
        "x (a,",
        "USE a;",
        "DROP TABLE a,",
        "\u{a0}",
        "GET_LOCK(",
        "SHOW FULL ",
        "XA START 'a';",
        "''",
        "'' ",
        "SELECT 1;BEGIN;",
    ];
    const HEADS: &[&str] = &["", "SELECT ", "SET a = ", "SET STATEMENT ", "CREATE ", "DROP TABLE "];
    const LEN: usize = 25_000;
    let begin = std::time::Instant::now();
    for unit in UNITS {
        for (head, modes) in HEADS.iter().zip(FLAVORS.iter().cycle()) {
            let text = [head, unit.repeat(LEN / unit.len()).as_str()].concat();
            analyse(text.as_bytes(), modes);
            let _ = set::parse(text.as_bytes(), modes);
        }
    }
    let elapsed = begin.elapsed();
    assert!(elapsed.as_secs() < 60, "{elapsed:?}");
}

fn modes() -> impl Strategy<Value = Modes> {
    let encoding = prop_oneof![
        Just(Encoding::Utf8),
        Just(Encoding::SingleByte),
        Just(Encoding::ShiftJis),
        Just(Encoding::Big5),
        Just(Encoding::Gbk),
        Just(Encoding::Latin),
        Just(Encoding::Dos),
        Just(Encoding::Swedish),
        Just(Encoding::Unknown),
    ];
    (any::<[bool; 5]>(), encoding).prop_map(
        |([ansi_quotes, no_backslash_escapes, flavor_mariadb, quotes, escapes], encoding)| Modes {
            ansi_quotes,
            no_backslash_escapes,
            guesses_quotes: quotes,
            guesses_escapes: escapes,
            flavor_mariadb,
            encoding,
            ..Modes::default()
        },
    )
}

/// Tokens, and halves of tokens, that the grammar is sensitive to.
// long: one list of words.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "SELECT",
        "FROM",
        "WHERE",
        "FOR",
        "UPDATE",
        "INTO",
        "SET",
        "STATEMENT",
        "BEGIN",
        "END",
        "CASE",
        "WITH",
        "AS",
        "x",
        "(",
        ")",
        ",",
        ";",
        ".",
        "@a",
        "@@b",
        ":=",
        "=",
        "'s'",
        "'",
        "\"",
        "`",
        "`q`",
        "/*",
        "*/",
        "/*!",
        "/*!50000",
        "/*M!",
        "--",
        "-- ",
        "#",
        "\n",
        "\\",
        "1",
        "0x",
        "1e",
        "CREATE",
        "TEMPORARY",
        "TABLE",
        "PROCEDURE",
        "DEFINER",
        "EXPLAIN",
        "ANALYZE",
        "SHOW",
        "NAMES",
        "GLOBAL",
        "TRANSACTION",
        "READ",
        "ONLY",
        "f",
        "COUNT",
        "CALL",
        "DROP",
        "KILL",
        "IF",
        "NOT",
        "EXISTS",
        "PREPARE",
        "LAST_INSERT_ID",
        "\0",
        "\u{a0}",
        "é",
        "$$",
        "?",
        "-",
        "*",
        "/",
        "HANDLER",
        "XA",
    ]);
    let gap = prop::sample::select(vec!["", " ", "\t"]);
    prop::collection::vec((words, gap), 0..60).prop_map(|parts| {
        parts.iter().flat_map(|(word, gap)| [word.as_bytes(), gap.as_bytes()].concat()).collect()
    })
}

fn check_tokens(text: &[u8], modes: &Modes) {
    let mut end = 0;
    for token in Tokens::new(text, modes) {
        assert!(token.offset >= end && !token.text.is_empty());
        end = token.end();
        assert_eq!(text.get(token.offset..end), Some(token.text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_do_no_harm(
        text in prop::collection::vec(any::<u8>(), 0..300),
        modes in modes(),
    ) {
        check_tokens(&text, &modes);
        analyse(&text, &modes);
        let _ = set::parse(&text, &modes);
    }

    #[test]
    fn token_soup_does_no_harm(text in soup(), modes in modes()) {
        check_tokens(&text, &modes);
        let analysis = analyse(&text, &modes);
        if analysis.access == Access::CertainlyReads {
            prop_assert!(analysis.effects.is_empty() && analysis.depends.is_empty());
            prop_assert!(analysis.is_complete && analysis.statements > 0);
        }
        let _ = set::parse(&text, &modes);
    }

    #[test]
    fn a_write_after_anything_complete_is_seen(text in soup(), modes in modes()) {
        let followed = [&text[..], b"\n;DELETE FROM t"].concat();
        prop_assert!(!reads(&followed, &modes));
    }

    #[test]
    fn soup_before_a_write_hides_nothing(text in soup(), modes in modes()) {
        let prefixed = [b"SELECT f(1) ", &text[..]].concat();
        prop_assert!(!reads(&prefixed, &modes));
    }
}
