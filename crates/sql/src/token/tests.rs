//! Tests of the tokenizer.

use super::*;

fn all(text: &[u8], modes: &Modes) -> (String, Tokens<'static>) {
    let text: &'static [u8] = text.to_vec().leak();
    let mut tokens = Tokens::new(text, modes);
    let mut shown = Vec::new();
    for token in tokens.by_ref() {
        assert_eq!(token.text, &text[token.offset..token.end()]);
        let letter = match token.kind {
            TokenKind::Word => 'w',
            TokenKind::QuotedIdentifier => 'q',
            TokenKind::String => 's',
            TokenKind::Number => 'n',
            TokenKind::UserVariable => 'u',
            TokenKind::SystemVariable => 'v',
            _ => 'o',
        };
        shown.push(format!("{letter}<{}>", String::from_utf8_lossy(token.text)));
    }
    (shown.join(" "), tokens)
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let (shown, tokens) = all(text.as_bytes(), &Modes::default());
    assert_eq!(shown, expected);
    assert!(tokens.is_complete() && !tokens.is_ambiguous(), "{text}");
}

#[test]
fn words_and_numbers() {
    check("SELECT a1,_b$ FROM é", "w<SELECT> w<a1> o<,> w<_b$> w<FROM> w<é>");
    check(
        "1 1.5 .5 5. 1e3 1.5E-3 0x1f 0b01",
        "n<1> n<1.5> n<.5> n<5.> n<1e3> n<1.5E-3> n<0x1f> n<0b01>",
    );
    check("1a 1e 1ex 0xg 0b2 1_1", "w<1a> w<1e> w<1ex> w<0xg> w<0b2> w<1_1>");
    check("1.for", "n<1.> w<for>");
    check("t.1a t.5 a.b.c", "w<t> o<.> w<1a> w<t> o<.> w<5> w<a> o<.> w<b> o<.> w<c>");
    check("1e5abc", "n<1e5> w<abc>");
}

#[test]
fn hints_that_leave_a_variable_set_are_told() {
    let leaves = |text: &[u8]| all(text, &Modes::default()).1.leaves_variable();
    assert!(leaves(b"SELECT /*+ SET_VAR(timestamp = 5) */ NOW()"));
    assert!(leaves(b"SELECT /*+ NO_ICP(t) set_var(`INSERT_ID`=5) */ 1"));
    assert!(!leaves(b"SELECT /*+ SET_VAR(sort_buffer_size = 5) */ timestamp /* timestamp */"));
}

#[test]
fn quotes() {
    check(r#"'a''b' "c""d" `e``f` 'g\'h'"#, r#"s<'a''b'> s<"c""d"> q<`e``f`> s<'g\'h'>"#);
    check(r"`a\` 'b'", r"q<`a\`> s<'b'>");
    check("'a' 'b'", "s<'a'> s<'b'>");
    check("x'41' N'a' _utf8'b'", "w<x> s<'41'> w<N> s<'a'> w<_utf8> s<'b'>");
    let ansi = Modes { ansi_quotes: true, ..Modes::default() };
    assert_eq!(all(br#""a\" 'b'"#, &ansi).0, r#"q<"a\"> s<'b'>"#);
    let plain = Modes { no_backslash_escapes: true, ..Modes::default() };
    assert_eq!(all(br"'a\' 'b'", &plain).0, r"s<'a\'> s<'b'>");
}

#[test]
fn variables() {
    check("@a @a.b @`c d` @'e' @\"f\" @", "u<@a> u<@a.b> u<@`c d`> u<@'e'> u<@\"f\"> u<@>");
    check("@@x @@session.x @@global.`y`", "v<@@x> v<@@session.x> v<@@global.`y`>");
    check("@a:=1", "u<@a> o<:=> n<1>");
    check("root@localhost", "w<root> u<@localhost>");
}

#[test]
fn comments() {
    check("a/* x */b", "w<a> w<b>");
    check("a -- x\nb", "w<a> w<b>");
    check("a--1", "w<a> o<-> o<-> n<1>");
    check("a --", "w<a>");
    check("a # x\nb", "w<a> w<b>");
    check("/**/a/*/*/", "w<a>");
    check("a /*+ hint */ b", "w<a> w<b>");
    check("/*!40101 SET x */", "w<SET> w<x>");
    check("/*!100100 a */ /*! b */ c", "w<a> w<b> w<c>");
    check("/*!123 a */", "n<123> w<a>");
    assert_eq!(all(b"a /*M! b */ c", &Modes::default()).0, "w<a> w<c>");
    let maria = Modes { flavor_mariadb: true, ..Modes::default() };
    assert_eq!(all(b"a /*M! b */ c", &maria).0, "w<a> w<b> w<c>");
    assert_eq!(all(b"a /*M!100100 b */ c", &maria).0, "w<a> w<b> w<c>");
    check("a * /b", "w<a> o<*> o</> w<b>");
}

#[test]
fn versioned_comments_can_be_left_out() {
    let text = b"a /*!80000 b */ c /*! d */";
    let tokens = Tokens::new(text, &Modes::default()).skipping_versioned();
    let words: Vec<_> = tokens.map(|token| token.text).collect();
    assert_eq!(words, [b"a", b"c", b"d"]);
}

#[test]
fn what_does_not_end_is_told() {
    for text in ["'a", "\"a", "`a", "'a\\'", "/* a", "/*! a", "/*!50000 a", "@'a", "@@`a", "a\0b"] {
        assert!(!all(text.as_bytes(), &Modes::default()).1.is_complete(), "{text}");
    }
}

#[test]
fn what_servers_read_differently_is_told() {
    for text in [
        &b"/*!50000 ' */ ' */"[..],
        b"/*!501001+ 1 */",
        b"/*!999999 /* a */ b */",
        "@é".as_bytes(),
        "@@é".as_bytes(),
        b"/*!50000 a /* b */ c */",
        b"/*!50000 -- */ \n */",
        b"/*!50000 # */ \n */",
        b"a\xA0b",
        b"a --\x7F b",
        b"$$ ' $$",
        b"$t$ ' $t$",
        b"SELECT 1 /*M! INTO @a */",
        b"SELECT 3 1.e-- f()",
        b"SELECT 3 .5E-- f()",
        b"SELECT 3 00.e+# f()",
    ] {
        assert!(all(text, &Modes::default()).1.is_ambiguous(), "{text:?}");
    }
    for text in [&b"SELECT 1.e5, .5e-3, 1.5E+9, 1., 1e FROM t"[..], b"SELECT timestamp, t.e"] {
        assert!(!all(text, &Modes::default()).1.is_ambiguous(), "{text:?}");
    }
    let unknown = Modes { encoding: Encoding::Unknown, ..Modes::default() };
    assert!(all("à".as_bytes(), &unknown).1.is_ambiguous());
    assert!(all("'à' \\".as_bytes(), &unknown).1.is_ambiguous());
    assert!(!all("SELECT 'à', \"é\"".as_bytes(), &unknown).1.is_ambiguous());
    let latin = Modes { encoding: Encoding::Latin, ..Modes::default() };
    assert!(all(b"a --\x85 b", &latin).1.is_ambiguous());
    assert!(!all("à".as_bytes(), &Modes::default()).1.is_ambiguous());
}

#[test]
fn second_bytes_of_characters_do_not_quote_or_escape() {
    let sjis = Modes { encoding: Encoding::ShiftJis, ..Modes::default() };
    assert_eq!(all(b"'\x95\x5c' a", &sjis).0.matches('w').count(), 1);
    // A half-width kana is one byte, and the backslash after it escapes.
    assert!(!all(b"'\xb1\x5c' a", &sjis).1.is_complete());
    let gbk = Modes { encoding: Encoding::Gbk, ..Modes::default() };
    assert_eq!(all(b"'\xb1\x5c' a", &gbk).0.matches('w').count(), 1);
    assert_eq!(all(b"\xb1\x60 a", &gbk).0.matches('w').count(), 2);
    assert!(!all(b"'\xb1\x5c' a", &Modes::default()).1.is_complete());
}

#[test]
fn names_lose_their_quotes() {
    let unquoted = |text: &str| String::from_utf8(unquote(text.as_bytes()).into_owned()).unwrap();
    assert_eq!(unquoted("`a``b`"), "a`b");
    assert_eq!(unquoted("'a'"), "a");
    assert_eq!(unquoted("a"), "a");
    assert_eq!(unquoted("`"), "`");
    assert_eq!(unquoted("``"), "");
}

#[test]
fn issue_16_white_space_and_leading_bytes_are_those_of_the_character_set() {
    let shown = |text: &[u8], encoding| {
        let (shown, tokens) = all(text, &Modes { encoding, ..Modes::default() });
        assert!(tokens.is_complete() && !tokens.is_ambiguous(), "{text:?} {encoding:?}");
        shown.matches('<').count()
    };
    assert_eq!(shown(b"a\xA0b", Encoding::Latin), 2);
    assert_eq!(shown(b"a\xA0b", Encoding::Dos), 1);
    assert_eq!(shown(b"a\xFFb", Encoding::Dos), 2);
    assert_eq!(shown(b"a\xFFb", Encoding::Latin), 1);
    assert_eq!(shown(b"a\xA0b\xFFc", Encoding::SingleByte), 1);
    assert_eq!(shown(b"a --\xA0 b", Encoding::Latin), 1);
    assert_eq!(shown(b"a^b]", Encoding::Swedish), 1);
    assert_eq!(shown(b"a^b]", Encoding::Utf8), 4);
    // 0x81 leads in gbk only, and its second byte may be a lead elsewhere.
    assert_eq!(shown(b"'\x81\x5C'", Encoding::Gbk), 1);
    assert_eq!(shown(b"'\x81\x5C' a'", Encoding::Big5), 1);
    assert_eq!(shown(b"'\x81\xA1\x5C'", Encoding::Big5), 1);
    assert_eq!(shown(b"'\x81\xA1\x5C' a'", Encoding::Gbk), 1);
    assert_eq!(shown(b"'\xFA\x5C' a'", Encoding::Big5), 1);
    assert_eq!(shown(b"'\xA1\x5C' a'", Encoding::SingleByte), 1);
}
