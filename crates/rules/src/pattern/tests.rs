use proptest::prelude::*;

use super::*;

fn found(pattern: &str, text: &[u8]) -> bool {
    let compiled = Pattern::compile(pattern, false).expect(pattern);
    compiled.is_found(text).expect("within the limit")
}

fn is_linear(pattern: &str) -> bool {
    Pattern::compile(pattern, false).expect(pattern).source().is_some()
}

#[track_caller]
fn check(pattern: &str, matching: &[&str], others: &[&str]) {
    for text in matching {
        assert!(found(pattern, text.as_bytes()), "{pattern:?} must be found in {text:?}");
    }
    for text in others {
        assert!(!found(pattern, text.as_bytes()), "{pattern:?} must not be found in {text:?}");
    }
}

#[test]
fn the_end_is_also_before_a_final_newline() {
    check("a$", &["a", "ba", "a\n"], &["a\n\n", "ab", "a\nb"]);
    check(r"a\Z", &["a", "a\n"], &["a\n\n"]);
    check(r"a\z", &["a"], &["a\n"]);
    check("(a$|b)", &["a\n", "bc"], &["ac"]);
    check("^a$|^b$", &["a", "b\n"], &["ab"]);
    check("(?m)a$", &["a\nb", "a"], &["ab"]);
    check("(?m)^b", &["a\nb"], &["ab"]);
    assert!(is_linear("(^(a$|b)$)"));
}

#[test]
fn an_end_that_something_follows_is_looked_at_and_not_eaten() {
    check("a$\n", &["a\n"], &["a", "a\n\n"]);
    check("(a$|b)\n", &["a\n", "b\n\n"], &["a"]);
    check("(?:a$\n?)+", &["a\n"], &["ab"]);
    assert!(!is_linear("a$\n"));
}

#[test]
fn texts_are_bytes() {
    check("h.llo", &["hello"], &["héllo"]);
    check("h..llo", &["héllo"], &[]);
    check("é+x", &["éx", "é\u{e9}x"], &["ex"]);
    check("[é]", &["é", "ã"], &["e"]);
    check(r"\xc3\xa9", &["é"], &[]);
    check(r"[^a]", &["\n", "é"], &["a", ""]);
    assert!(found("a.b", b"a\xFFb"));
    assert!(found("a(?=.)", b"a\xFF"));
    assert!(!found("^.$", "é".as_bytes()));
}

#[test]
fn only_ascii_letters_have_a_case() {
    let check = |pattern: &str, text: &str, expected: bool| {
        let compiled = Pattern::compile(pattern, true).expect(pattern);
        assert_eq!(compiled.is_found(text.as_bytes()), Some(expected), "{pattern} {text}");
    };
    check("select", "SELECT", true);
    check("É", "é", false);
    check("k", "\u{212a}", false);
    check("(?-i)select", "SELECT", false);
    check("[[:upper:]]", "a", true);
    check("^(?!SELECT)", "select", false);
}

#[test]
fn constructs_that_only_pcre_writes_so_keep_its_meaning() {
    check(r"\<a\>", &["<a>"], &["a"]);
    check("a{", &["a{"], &["a"]);
    check("a{,2}", &["a{,2}"], &["aa"]);
    check("^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]);
    check("x{2}{2}", &["xxxx"], &["xxx"]);
    check("[[a]", &["[", "a"], &["b"]);
    check("[a&&b]", &["&", "a"], &["c"]);
    check("[]a]", &["]", "a"], &["b"]);
    check("^[^]a]$", &["b"], &["]", "a"]);
    check(r"^[a\-z]$", &["-", "z"], &["b"]);
    check(r"^[\d-x]$", &["-", "x", "5"], &["w"]);
    check(r"^[a-\d]$", &["-", "a", "5"], &["b"]);
    check(r"^[[:digit:][:^alnum:]]$", &["4", " "], &["a"]);
    check(r"\Qa.b\E.", &["a.bc"], &["aXbc"]);
    check(r"\Qa.b", &["a.b"], &["aXb"]);
    check(r"^\h\v\N$", &["\t\nx"], &["x\nx"]);
    check(r"\x{41}\102|\cA|\e", &["\u{1}", "\u{1b}"], &["A"]);
    check(r"^[\101\x42\b]$", &["A", "B", "\u{8}"], &["b"]);
    check(r"\y\_\/", &["y_/"], &[]);
    check("(?x) a  b # c\n c", &["abc"], &["a b"]);
    check("a(?#comment)b", &["ab"], &[]);
    check("(?x: a b ) c", &["ab c"], &["abc"]);
    check("(?<n>a)(?'m'b)(?P<o>c)", &["abc"], &[]);
    check("a(?i)b|c", &["aB", "C"], &["Ab"]);
    check("(a(?i)b)c", &["aBc"], &["aBC"]);
    check("(?s)a.b", &["a\nb"], &[]);
    check("a.b", &["axb"], &["a\nb"]);
    check("(?U)a+?b", &["aab"], &[]);
    check("a]}", &["a]}"], &[]);
}

#[test]
fn what_needs_backtracking_gets_it() {
    check("^(?!SELECT)", &["UPDATE", ""], &["SELECT 1"]);
    check("^(?!.*users).*$", &["a", "a\n"], &["users", "x users y"]);
    check(r"(\w)\1\1", &["aaa"], &["aab"]);
    check(r"(?<=a)b", &["ab"], &["cb"]);
    check(r"(?<!a)b", &["cb"], &["ab"]);
    check(r"a++b", &["aab"], &[]);
    check(r"a++ab", &[], &["aaab"]);
    check(r"a{1,2}+a", &["aaa"], &["aa"]);
    check(r"(?>a+)ab", &[], &["aab"]);
    check(r"(?<x>a)b\k<x>", &["aba"], &["abb"]);
    check(r"(?<x>a)b(?P=x)", &["aba"], &["abb"]);
    check(r"(a)(b)\g{-1}\g1", &["abba"], &["abab"]);
    check(r"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10", &["abcdefghijj"], &["abcdefghija0"]);
    check(r"(a)\g{1}2", &["aa2"], &["a12"]);
    check(r"é(?=x)", &["éx"], &["éy"]);
    check(r"a\Kb", &["ab"], &["b"]);
    for pattern in ["(?=a)", r"(a)\1", "(?>a)", "a*+"] {
        assert!(!is_linear(pattern), "{pattern}");
    }
}

#[test]
fn a_search_that_backtracks_too_long_is_undecided() {
    let pattern = Pattern::compile(r"^(a|b|ab)*\1c$", false).expect("a pattern");
    let text = [b"ab".repeat(30), vec![b'd']].concat();
    assert_eq!(pattern.is_found(&text), None);
}

/// What looks at all that follows from each place would take hours with a text of 16 MB.
#[test]
fn a_hostile_text_of_any_length_is_searched_for_a_short_time() {
    let text = vec![b'a'; 4 << 20];
    let begun = std::time::Instant::now();
    for pattern in ["a(?=.*b)", r"(a*)*\1b", "(?<!b)c", "^(?!.*users)b", "(?>a+)b"] {
        let pattern = Pattern::compile(pattern, true).expect("a pattern");
        assert!(matches!(pattern, Pattern::Backtracking(_)));
        assert_ne!(pattern.is_found(&text), Some(true));
    }
    let linear = Pattern::compile("(a*)*b|(a|aa)+c", true).expect("a pattern");
    assert_eq!(linear.is_found(&text), Some(false));
    assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
    // One that is decided at the beginning is so whatever follows.
    let pattern = Pattern::compile("^(?!SELECT)", true).expect("a pattern");
    assert_eq!(pattern.is_found(&text), Some(true));
}

#[test]
fn a_broken_pattern_is_refused_with_its_reason() {
    let check = |pattern: &str, reason: &str| match Pattern::compile(pattern, false) {
        Ok(_) => panic!("{pattern} compiled"),
        Err(message) => {
            assert!(message.contains(reason), "{pattern}: {message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    };
    check("(", "missing )");
    check("a)", "unmatched )");
    check("[a-", "missing ]");
    check("+", "repetition operator missing expression");
    check("*x", "repetition operator missing expression");
    check("[b-a]", "invalid character class range");
    check("\\", r"\ at the end");
    check(r"(a)\2", "back reference");
    check("(?R)", "not supported");
    check("(*SKIP)a", "not supported");
    check("[[:nope:]]", "unknown class");
    check(r"\p{L}", r"\p is not supported");
    check("a{1000}{1000}", "size limit");
    check(r"(?=[é])", "look-around");
}

proptest! {
    #[test]
    fn no_pattern_panics(pattern in r"[\\()\[\]{}?*+|^$.<>=!:a-cPQE0-9,\-é\n]{0,24}") {
        if let Ok(compiled) = Pattern::compile(&pattern, true) {
            let _ = compiled.is_found("abc é\n".as_bytes());
        }
    }

    #[test]
    fn an_escaped_text_finds_itself(text in "[ -~é\n]{0,20}") {
        let quoted: String = text
            .chars()
            .map(|char| match char.is_ascii_punctuation() {
                true => format!("\\{char}"),
                false => char.to_string(),
            })
            .collect();
        let around = format!("x{text}y");
        prop_assert!(found(&quoted, around.as_bytes()));
    }
}
