//! Texts that nobody writes who means well: time and memory stay linear in their length.
//!
//! A step that is quadratic somewhere would take hours with these, and a record for each token or
//! name would take gigabytes.

use std::time::{Duration, Instant};

use trunkline_sql::{
    analysis::{Access, Analysis, EFFECTS_MAX, analyse},
    digest::{Digester, Settings},
    hint::Hints,
    recall::{Recalled, recall, show_diagnostics},
    token::Modes,
};

/// Bytes of each text.
const LEN: usize = 1 << 20;
/// What a text may take in an unoptimised build on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// `piece` again and again between two ends.
fn long(begin: &str, piece: &str, end: &str) -> Vec<u8> {
    format!("{begin}{}{end}", piece.repeat(LEN / piece.len())).into_bytes()
}

/// All that a worker asks about a text before it sends it.
fn read(text: &[u8], modes: &Modes) -> Analysis {
    let begun = Instant::now();
    let mut digester = Digester::new();
    let settings = Settings { keep_comment: modes.ansi_quotes, ..Settings::default() };
    let digest = digester.digest(text, &settings);
    assert!(digest.text.len() <= settings.max_digest_length);
    let hints = Hints::find(text, digest.first_comment, modes);
    assert_eq!(hints.hostgroup, None);
    let analysis = analyse(text, modes);
    let known = Recalled {
        connection_id: Some(7),
        row_count: Some(1),
        found_rows: Some(1),
        warning_count: Some(0),
        error_count: Some(0),
        last_gtid: Some((0, 1, 25)),
        has_default_trackers: true,
    };
    drop(recall(text, modes, &known));
    assert_eq!(show_diagnostics(text, modes), None);
    let shown = String::from_utf8_lossy(text.get(..60).unwrap_or(text));
    assert!(begun.elapsed() < SOON, "{shown}: {:?}", begun.elapsed());
    analysis
}

fn in_all_modes(text: &[u8], check: impl Fn(&Analysis)) {
    for ansi_quotes in [false, true] {
        let modes = Modes { ansi_quotes, no_backslash_escapes: ansi_quotes, ..Modes::default() };
        check(&read(text, &modes));
    }
}

#[test]
fn nested_and_open_comments_take_linear_time() {
    for (begin, piece, end) in [
        ("SELECT 1 ", "/*", ""),
        ("SELECT 1 ", "/* ", "*/"),
        ("SELECT 1 ", "/*!", " */"),
        ("SELECT 1 ", "/*!50000 ", ""),
        ("SELECT 1 ", "/*!50000 /*!40000 a */ */", ""),
        ("SELECT 1 ", "/**/", ""),
        ("SELECT 1 ", "*/", ""),
        ("SELECT 1 ", "/*/", ""),
        ("SELECT 1 /* maxscale ", "maxscale route to ", ""),
        ("SELECT 1 ", "/* maxscale */", ""),
        ("SELECT 1 ", "-- ", ""),
        ("SELECT 1 ", "--\n", ""),
        ("SELECT 1 ", "#\n", ""),
        ("SELECT 1 ", "---", ""),
        ("SELECT 1 ", "# /* -- ", "\n"),
        ("/* ", "hostgrou=1;", " */ SELECT 1"),
    ] {
        in_all_modes(&long(begin, piece, end), |_| {});
    }
}

#[test]
fn open_quotes_take_linear_time_and_may_write() {
    for (begin, piece) in [
        ("SELECT '", "a"),
        ("SELECT '", "''"),
        ("SELECT 'a'", "' '"),
        ("SELECT '", "\\'"),
        ("SELECT \"", "\"\""),
        ("SELECT \"a", "' \" `"),
        ("SELECT `", "a"),
        ("SELECT @`", "``"),
        ("SELECT '", "\\"),
        ("SELECT $a$ '", "$a$"),
    ] {
        // A quote more or less: one of the two is open.
        for end in ["", "'"] {
            in_all_modes(&long(begin, piece, end), |analysis| {
                assert!(analysis.is_complete || analysis.access == Access::MayWrite);
            });
        }
    }
}

#[test]
fn bytes_that_are_no_text_take_linear_time() {
    for piece in [&b"\xFF"[..], b"\xC3", b"\xE2\x82", b"\xF0\x9F\x92", b"\x80\xA0", b"\0", b"\x1A'"]
    {
        let text = [b"SELECT ", &*piece.repeat(LEN / piece.len())].concat();
        in_all_modes(&text, |_| {});
        let text = [b"SELECT '", &*piece.repeat(LEN / piece.len()), b"'"].concat();
        in_all_modes(&text, |_| {});
    }
}

#[test]
fn lists_of_values_take_linear_time() {
    let rows = vec!["(1, 'a', NULL)"; 10_000].join(",");
    let insert = format!("INSERT INTO t VALUES {rows}");
    let analysis = read(insert.as_bytes(), &Modes::default());
    assert!(analysis.effects.is_empty() && analysis.statements == 1);
    let numbers: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    let select = format!("SELECT a FROM t WHERE b IN ({})", numbers.join(", "));
    assert_eq!(read(select.as_bytes(), &Modes::default()).access, Access::CertainlyReads);
    for (begin, piece, end) in [
        ("SELECT 1", ",1", ""),
        ("SELECT 1", ", 1.e", ""),
        ("SELECT ", "1e+", ""),
        ("SELECT 1", "0", ""),
        ("SELECT ", "(", "1"),
        ("SELECT ", "((1),", ""),
        ("", "(", "SELECT 1"),
        ("SELECT ", "- ", "1"),
        ("SELECT ", "+", "1"),
        ("SELECT a", ".a", ""),
        ("SELECT @@a", ".b", ""),
        ("", "EXPLAIN ", "SELECT 1"),
        ("SET STATEMENT a=1 FOR ", "EXPLAIN ", "SELECT 1"),
        ("WITH ", "a (b) AS (SELECT 1), ", "SELECT 1"),
        ("BEGIN NOT ATOMIC ", "BEGIN IF a THEN ", "END"),
        ("CREATE PROCEDURE a() ", "CASE WHEN ", "END"),
        ("SELECT ", "f(", ")"),
        ("PREPARE a FROM 'SELECT ", "''", "'"),
        ("SELECT CONNECTION_ID()", ", a", ""),
    ] {
        in_all_modes(&long(begin, piece, end), |_| {});
    }
}

/// A text that names more effects than are kept is known as such: it is refused, as one of them
/// may be a `KILL` of a number that is not the server's.
#[test]
fn a_text_with_an_effect_in_each_word_is_cut() {
    for (begin, piece, end) in [
        ("SELECT 1", ",@a:=1", ""),
        ("SELECT 1", ",GET_LOCK(a,1)", ""),
        ("SELECT GET_LOCK('a',1)", ",GET_LOCK('a',1)", ""),
        ("SELECT LAST_INSERT_ID(1)", "+LAST_INSERT_ID(1)", ""),
        ("SELECT ", "SQL_CALC_FOUND_ROWS ", "1"),
        ("DROP TABLE a", ",a", ""),
        ("DROP TEMPORARY TABLE a", ",a.b", ""),
        ("", "DROP TABLE a,b,c,d,e,f,g;", ""),
        ("", "BEGIN;", ""),
        ("", "USE a;", ""),
        ("", "KILL 1;", ""),
        ("SET @a=1", ",@a=1", ""),
        ("", "SET a=1,b=2;", ""),
        ("SET STATEMENT a=1", ",a=1", " FOR SELECT 1"),
        ("", "XA END;", "KILL 5"),
        ("/*!50000 ", "KILL 1;", "*/"),
    ] {
        let text = format!("{begin}{}{end}", piece.repeat(EFFECTS_MAX + 1));
        let analysis = read(text.as_bytes(), &Modes::default());
        assert!(analysis.is_cut, "{begin}{piece}");
        assert!(analysis.effects.len() <= EFFECTS_MAX + 1, "{}", analysis.effects.len());
        assert_eq!(analysis.access, Access::MayWrite);
        assert!(analysis.depends_on_literals(), "it is not remembered for others");
    }
    let few = format!("SET @a=1{}", ",@a=1".repeat(EFFECTS_MAX / 2));
    assert!(!read(few.as_bytes(), &Modes::default()).is_cut);
}
