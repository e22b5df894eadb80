//! Tests of what names before parentheses and behind dots mean.

use super::{Effect as E, *};

fn analysed(text: &str) -> Analysis {
    analyse(text.as_bytes(), &Modes::default())
}

#[test]
fn sequences_are_found_in_all_their_spellings() {
    let plain = Modes { flavor_mariadb: true, ..Modes::default() };
    let oracle = Modes { oracle: true, ..plain };
    let check = |text: &str, modes: &Modes, effects: &[Effect], depends: Depends| {
        let analysis = analyse(text.as_bytes(), modes);
        assert_eq!(analysis.effects, effects, "{text}");
        assert_eq!(analysis.depends, depends, "{text}");
        assert_eq!(analysis.access, Access::MayWrite, "{text}");
    };
    for text in ["SELECT NEXTVAL(s)", "SELECT nextval (d . s)", "SELECT NEXT VALUE FOR s"] {
        check(text, &plain, &[E::SequenceAdvanced], Depends::empty());
        check(text, &oracle, &[E::SequenceAdvanced], Depends::empty());
    }
    for text in ["SELECT LASTVAL(s)", "SELECT lastval (s)", "SELECT PREVIOUS VALUE FOR d.s"] {
        check(text, &plain, &[], Depends::SEQUENCE);
    }
    check("SELECT SETVAL(s, 5)", &plain, &[], Depends::empty());
    check("SELECT DEFAULT(a) FROM t", &plain, &[E::SequenceAdvanced], Depends::empty());
    check("CREATE TABLE t (a INT DEFAULT (1 + 1))", &plain, &[], Depends::empty());
    check("SELECT NEXTVAL(s)", &Modes::default(), &[], Depends::UNKNOWN_FUNCTION);
    check("SELECT d.NEXTVAL(s)", &plain, &[], Depends::UNKNOWN_FUNCTION);
    for text in [
        "SELECT s.NEXTVAL",
        "SELECT s. nextval",
        "SELECT s .nextval",
        "SELECT d . s . `nextval`",
        "INSERT INTO t VALUES (`s`.\"nextval\")",
    ] {
        let oracle = Modes { ansi_quotes: true, ..oracle };
        check(text, &oracle, &[E::SequenceAdvanced], Depends::empty());
    }
    let guess = Modes { guesses_quotes: true, ..plain };
    for oracle in [oracle, guess] {
        check("SELECT s . currval", &oracle, &[], Depends::SEQUENCE);
        check("SELECT s.nextval", &oracle, &[E::SequenceAdvanced], Depends::empty());
    }
    // A column, unless the mode is another one than is known.
    check("SELECT s . nextval FROM s", &plain, &[], Depends::empty());
}

#[test]
fn names_of_clauses_are_no_calls() {
    let maria = Modes { flavor_mariadb: true, ..Modes::default() };
    let check = |text: &str, expected: [bool; 2]| {
        let reads = [Modes::default(), maria]
            .map(|modes| analyse(text.as_bytes(), &modes).access == Access::CertainlyReads);
        assert_eq!(reads, expected, "{text}");
    };
    for text in [
        "SELECT * FROM JSON_TABLE('[]', '$[*]' COLUMNS (a INT PATH '$')) AS j",
        "SELECT * FROM t, JSON_TABLE(t.a, '$[*]' COLUMNS(a INT PATH '$')) AS j",
        "SELECT * FROM t JOIN JSON_TABLE(t.a, '$' COLUMNS (a INT PATH '$')) AS j",
        "SELECT a FROM t WHERE MATCH (a) AGAINST ('b' IN BOOLEAN MODE)",
    ] {
        check(text, [true, true]);
    }
    for text in [
        "SELECT COLUMNS()",
        "SELECT a, JSON_TABLE()",
        "SELECT (SELECT a FROM t), JSON_TABLE()",
        "SELECT a FROM t WHERE JSON_TABLE()",
        "SELECT a FROM t ORDER BY a, JSON_TABLE()",
        "SELECT a + AGAINST()",
    ] {
        check(text, [true, false]);
    }
}

#[test]
fn a_query_in_the_condition_of_show_is_judged_with_it() {
    for (text, expected) in [
        ("SHOW TABLES WHERE Tables_in_d = 'a'", Access::CertainlyReads),
        ("SHOW TABLES WHERE EXISTS (SELECT 1 FROM v)", Access::MayWrite),
        ("SHOW TABLE STATUS WHERE Rows > (SELECT a FROM v)", Access::MayWrite),
        ("SHOW FULL COLUMNS FROM t WHERE Field IN (SELECT a FROM v)", Access::MayWrite),
    ] {
        assert_eq!(analysed(text).access, expected, "{text}");
    }
}
