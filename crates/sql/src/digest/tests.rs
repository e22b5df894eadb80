use super::*;
use crate::token::{Encoding, Modes};
use proptest::prelude::*;

fn text(statement: &str, settings: &Settings) -> String {
    let mut digester = Digester::new();
    String::from_utf8_lossy(digester.digest(statement.as_bytes(), settings).text).into_owned()
}

fn check(statement: &str, expected: &str) {
    assert_eq!(text(statement, &Settings::default()), expected, "{statement}");
}

fn is_clean(statement: &str) -> bool {
    Digester::new().digest(statement.as_bytes(), &Settings::default()).is_clean
}

/// The examples in ProxySQL's documentation and tests.
#[test]
fn documented_examples() {
    check("select/* COMMENT */1", "select ?");
    check("# random_comment \n   select 1.1", "select ?");
    check("SELECT \r\n\t 1 \r\n\t", "SELECT ?");
    check("SELECT\n\t-\t'1'", "SELECT ?");
    check("SELECT (\t\t+2/2\t\t)", "SELECT (?/?)");
    check(
        "select 1+ 1, 1 -1,NOW()+1,1 * 1 , 1/1 , 100 % 3, NOW() - 1",
        "select ?+?,?-?,NOW()+?,?*?,?/?,?%?,NOW() -?",
    );
    check(
        "-- random_comment\n SELECT * FROM test.t FOR UPDATE ; -- c\n SELECT 1;  -- c\n",
        "SELECT * FROM test.t FOR UPDATE ; SELECT ?",
    );
    check("SELECT N'string', _utf8'str\\'i\\nng'", "SELECT N?,_utf8?");
    check("select '''\\\\''\\''''", "select ?");
    check("select * from 1_value", "select * from 1_value");
    check("select CONCAT(  -'89'   +  '10' )", "select CONCAT(?+?)");
    check(
        "SELECT * tablename where id IN (1,2,3,4,5,6,7,8,  AND j in (1,2,3,4,5,6  and k=1",
        "SELECT * tablename where id IN (?,?,?,...,AND j in (?,?,?,...,? and k=?",
    );
    check("INSERT INTO db.table( col1) VALUES ( 'val' )", "INSERT INTO db.table(col1) VALUES (?)");
}

/// No recording has these; they follow from how ProxySQL's sources read a statement byte by byte.
#[test]
fn corners_that_no_recording_has() {
    // The last byte is judged again behind what was no number.
    check("SELECT 0x1.5", "SELECT 0x1.?");
    check("SELECT 0x1.5 ", "SELECT 0x1.5");
    // A zero byte is a byte of a string like others, and the end of the text elsewhere.
    check("SELECT 'a\0b', 2", "SELECT ?,?");
    check("SELECT a ; \0 b", "SELECT a ; ");
    check("SELECT /*!40101 a\0b */ c", "SELECT a");
    // Three bytes before the end a `#` only disappears, and what follows goes on with the word.
    check("SELECT a#1\n", "SELECT a1");
    check("SELECT a #1\n", "SELECT a ?");
    let no_digits = Settings { no_digits: true, ..Settings::default() };
    assert_eq!(text("SELECT 'x'1a, b2", &no_digits), "SELECT ?a,b?");
    // The space behind a kept comment fills the buffer before the last byte is read.
    let keep_comment = Settings { keep_comment: true, ..Settings::default() };
    assert_eq!(text("/* NULL */CALL p(0X1f)", &keep_comment), "/* NULL */ CALL p(?");
    assert_eq!(text("/* NULL */CALL p(a)", &keep_comment), "/* NULL */ CALL p(a");
    assert_eq!(text("/* NULL */1 + 0xg1 ", &keep_comment), "/* NULL */ ?+ 0xg1");
}

fn in_buffer_of(max_query_length: usize, statement: &str) -> String {
    text(statement, &Settings { max_query_length, ..Settings::default() })
}

/// What fits into the buffer depends on where its rounds end. The expected texts are those of a
/// model of ProxySQL's tokenizer, which makes all recorded digests.
#[test]
fn a_long_list_ends_where_the_buffer_is_full() {
    let values: Vec<_> = (1000..1060).map(|value| value.to_string()).collect();
    let list = format!("SELECT a FROM t WHERE id IN ({})", values.join(", "));
    let ends = [
        (30, "?"),
        (33, "?"),
        (34, "?,?"),
        (36, "?,?,?"),
        (38, "?,?,?,?"),
        (40, "?,?,?,?,?"),
        (42, "?,?,?,...,?"),
        (44, "?,?,?,...)"),
    ];
    for (size, end) in ends {
        let expected = format!("SELECT a FROM t WHERE id IN ({end}");
        assert_eq!(in_buffer_of(size, &list), expected, "{size} bytes");
    }
}

#[test]
fn a_chain_of_groups_ends_where_the_buffer_is_full() {
    let groups: Vec<_> = (100..112).map(|first| format!("({first} , 2, 3, 4, 5, 6)")).collect();
    let insert = format!("INSERT INTO t VALUES {}", groups.join(","));
    let ends = [
        (60, "(?"),
        (64, "(?,?,?,"),
        (65, "(?,?,?,?"),
        (66, "(?,?,?,?,"),
        (67, "(?,?,?,?,?"),
        (68, "(?,?,?,...,"),
        (70, "(?,?,?,...),("),
        (80, "(?,?,?,...),(?,?,?,...,"),
    ];
    for (size, end) in ends {
        let expected = format!("INSERT INTO t VALUES (?,?,?,...),(?,?,?,...),(?,?,?,...),{end}");
        assert_eq!(in_buffer_of(size, &insert), expected, "{size} bytes");
    }
}

#[test]
fn literals_and_signs_at_the_end_of_the_buffer() {
    // Of a number that the buffer has no room for nothing but its `?` is left.
    let long = format!("SELECT {}, b FROM t WHERE c = 1", "1234567890".repeat(3));
    assert_eq!(in_buffer_of(20, &long), "SELECT ?");
    // A string takes no room.
    let string = format!("SELECT '{}', 'y' , 'z' FROM t", "x".repeat(200));
    assert_eq!(in_buffer_of(20, &string), "SELECT ?,?,? FROM t");
    // A sign is looked at before what follows it has come.
    let signs = "SELECT a + 1, b - 2, c * 3, d / 4, e % 5, f FROM t WHERE g = -7";
    assert_eq!(in_buffer_of(16, signs), "SELECT a ?,b  ?,");
}

#[test]
fn kept_comments_may_fill_the_buffer_with_their_spaces() {
    let keep_comment = Settings { keep_comment: true, ..Settings::default() };
    assert_eq!(text("SELECT/*a*/b/*c*/FROM/*d*/t", &keep_comment), "SELECT/*a*/ b/*c*/ FROM/*d*");
    let spaced = "SELECT a /* x */ + /* y */ 1 FROM t";
    assert_eq!(text(spaced, &keep_comment), "SELECT a /* x */  /* y */? FROM t");
}

#[test]
fn marks_of_comments_within_comments() {
    // Behind a `/*!` every `/*` takes three bytes, and what is left in front counts as a version.
    check("SELECT /*!40101 /*/*!80000 a=1 */ b", "SELECT a=1 b");
    // A `#` three bytes before the end ends the comment that it stands in.
    check("-EXECUTE s #1USING 0#07", "-EXECUTE s 07");
    check("#1\"q\"#1\n", "?");
}

/// A text that frees one byte with each round is read anew for each: that has an end.
#[test]
fn a_text_that_frees_little_with_each_round_is_cut_and_not_clean() {
    let settings = Settings { max_query_length: 16, ..Settings::default() };
    let long = format!("f({}", "1,".repeat(3_000_000));
    let mut digester = Digester::new();
    let digest = digester.digest(long.as_bytes(), &settings);
    assert!(digest.text.starts_with(b"f(?,?,?,...") && digest.text.len() <= 16);
    assert!(!digest.is_clean);
}

#[test]
fn settings_change_what_they_say() {
    let default = Settings::default();
    let no_digits = Settings { no_digits: true, ..default.clone() };
    assert_eq!(text("select * from 1_value, t12", &no_digits), "select * from ?_value,t?");
    let lowercase = Settings { lowercase: true, ..default.clone() };
    assert_eq!(text("SELECT `A`, B", &lowercase), "select `a`,b");
    let replace_null = Settings { replace_null: true, ..default.clone() };
    assert_eq!(text("SELECT NULL, NULL8, nUlL", &replace_null), "SELECT ?,NULL8,?");
    let keep_comment = Settings { keep_comment: true, ..default.clone() };
    assert_eq!(text("SELECT /* kept */ +1", &keep_comment), "SELECT /* kept */ ?");
    let short = Settings { max_digest_length: 7, ..default.clone() };
    assert_eq!(text("SELECT abc", &short), "SELECT ");
    let small = Settings { max_query_length: 12, ..default };
    assert_eq!(text("SELECT 12, abcdefghi", &small), "SELECT ?,abc");
}

#[test]
fn padding_changes_no_digest() {
    let settings = Settings::default();
    let plain = text("DROP TABLE secrets", &settings);
    let comment = format!("/* {} */", "x".repeat(140_000));
    for padding in [comment, " ".repeat(3_000_000), "\t\n".repeat(50_000)] {
        for padded in [
            format!("{padding} DROP TABLE secrets"),
            format!("DROP {padding} TABLE secrets"),
            format!("DROP TABLE secrets {padding}"),
        ] {
            assert_eq!(text(&padded, &settings), plain, "{} bytes", padded.len());
        }
    }
}

fn executed(statement: &[u8], modes: &Modes) -> Executed {
    Digester::new().executed(statement, &Settings::default(), modes)
}

/// What a digest leaves out as a string, a comment, or behind its end, and a server runs.
#[test]
fn what_a_server_runs_beside_the_digest_is_told() {
    let plain = Modes::default();
    let no_escapes = Modes { no_backslash_escapes: true, ..plain };
    let ansi = Modes { ansi_quotes: true, ..plain };
    let mariadb = Modes { flavor_mariadb: true, ..plain };
    let of = |encoding| Modes { encoding, ..plain };
    let long = format!("SELECT {}1, p FROM secret", "a, ".repeat(2_000));
    let longer = format!("SELECT {}1, p FROM secret", "a, ".repeat(30_000));
    let told: [(&[u8], Modes, &str); 18] = [
        (br"SELECT 'a\' UNION SELECT p FROM secret -- '", no_escapes, "UNION SELECT p FROM secret"),
        (br"DELETE FROM t WHERE s='\' OR 1=1 -- '", no_escapes, "s=? OR ?=?"),
        (br#"SELECT "secret""#, ansi, "`secret`"),
        (b"SELECT '\xbf\\' , p FROM secret -- '", of(Encoding::Gbk), "p FROM secret"),
        (b"SELECT '\x83\\' , p FROM secret -- '", of(Encoding::ShiftJis), "p FROM secret"),
        (b"SELECT '\xa1\\' , p FROM secret -- '", of(Encoding::Big5), "p FROM secret"),
        (b"SELECT 1 AS `'`, p FROM secret -- '", plain, "p FROM secret"),
        (b"SELECT 1 AS `-- `, p FROM secret", plain, "p FROM secret"),
        (b"SELECT 1 /*M! , p FROM secret */", mariadb, "p FROM secret"),
        (b"SELECT 1 --\n, p FROM secret", plain, "p FROM secret"),
        (b"DELETE\x0cFROM t WHERE a = 1", plain, "DELETE FROM t WHERE a = ?"),
        (b"\x0bDELETE FROM\x0bt WHERE a\x0c= 1\x0c", plain, "DELETE FROM t WHERE a = ?"),
        (b"DELETE\xa0FROM t WHERE a = 1\xa0", of(Encoding::Latin), "DELETE FROM t WHERE a = ?"),
        (b"DELETE\xffFROM t WHERE a = 1", of(Encoding::Dos), "DELETE FROM t WHERE a = ?"),
        (b"DELETE /*!99999 x */FROM t WHERE a = 1", mariadb, "DELETE FROM t WHERE a = ?"),
        (b"/*!80000 x */ DELETE FROM t WHERE a = 1", plain, "DELETE FROM t WHERE a = ?"),
        (long.as_bytes(), plain, "p FROM secret"),
        (longer.as_bytes(), plain, "p FROM secret"),
    ];
    for (statement, modes, expected) in told {
        let shown = String::from_utf8_lossy(statement.get(..60).unwrap_or(statement));
        let Executed::Otherwise { text, .. } = executed(statement, &modes) else {
            panic!("{shown}: nothing is told");
        };
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains(expected), "{shown}: {text}");
    }
}

#[test]
fn a_digest_that_says_all_is_believed_under_all_modes() {
    let plain = Modes::default();
    let no_escapes = Modes { no_backslash_escapes: true, ..plain };
    let ansi = Modes { ansi_quotes: true, ..plain };
    let gbk = Modes { encoding: Encoding::Gbk, ..plain };
    for modes in [plain, no_escapes, ansi, gbk, Modes { oracle: true, ..plain }] {
        for statement in [
            "SELECT a, 'b', N'c', _utf8mb4'd', x'41', @'e', @f, -1.5e3, 0x1f FROM `t` WHERE c = 1",
            "INSERT INTO t VALUES (1, 'it''s'), (2, '')",
            "SELECT 1 /* c */ FROM `my-table` -- x",
            "SELECT a.`b`, 1 - -1, c - 1, f(1,2,3,4,5) -- c",
            "CALL p(@a, 'x')",
        ] {
            let executed = executed(statement.as_bytes(), &modes);
            assert_eq!(executed, Executed::AsDigested, "{statement} {modes:?}");
        }
    }
    let utf8 = "SELECT 'grüße', `größe` FROM t".as_bytes();
    assert_eq!(executed(utf8, &plain), Executed::AsDigested);
    assert_eq!(executed(br"SELECT 'it\'s', 'a\\'", &plain), Executed::AsDigested);
    assert_eq!(executed(br#"SELECT "x""#, &no_escapes), Executed::AsDigested);
    assert_eq!(executed("SELECT '汉字'".as_bytes(), &gbk), Executed::AsDigested);
    assert_eq!(executed(b"SELECT '\x0b\xa0\x0c' FROM t", &plain), Executed::AsDigested);
    let old = b"/*!40101 SET NAMES utf8 */";
    assert_eq!(executed(old, &plain), Executed::AsDigested, "all servers run it");
}

#[test]
fn what_depends_on_an_unknown_mode_may_run_anything() {
    let guesses = Modes { guesses_quotes: true, guesses_escapes: true, ..Modes::default() };
    let unknown = Modes { encoding: Encoding::Unknown, ..Modes::default() };
    assert_eq!(executed(br#"SELECT "x""#, &guesses), Executed::Unknown);
    assert_eq!(executed(br"SELECT 'a\''", &guesses), Executed::Unknown);
    for comments in ["/*!50700 DELETE */ /*!99999 x */ FROM t", "DELETE/*!99999 x */FROM t"] {
        let executed = executed(comments.as_bytes(), &Modes::default());
        assert_eq!(executed, Executed::Unknown, "{comments}: one may be run");
    }
    assert_eq!(executed(b"SELECT 'x' FROM t", &guesses), Executed::AsDigested);
    assert_eq!(executed(b"SELECT '\xbf' FROM t", &unknown), Executed::Unknown);
    assert_eq!(executed(b"SELECT 'x' FROM t", &unknown), Executed::AsDigested);
}

#[test]
fn lists_and_groups_collapse() {
    check("f(1,2,3,4)", "f(?,?,?,?)");
    check("f(1,2,3,4,5)", "f(?,?,?,...)");
    check("f(1,2,3,4,a)", "f(?,?,?,...)");
    check("f(1,2,3,4,ab)", "f(?,?,?,?,ab)");
    check("f(1,2,3,4,5,ab)", "f(?,?,?,...,ab)");
    check("f(1,2,3,4,5+1)", "f(?,?,?,?,?+?)");
    check("1,2,3,4,5,6", "?,?,?,?,?,?");
    let limits = Settings { grouping_limit: 1, groups_grouping_limit: 2, ..Settings::default() };
    let group = "(1,2,3)";
    let rows = |n: usize| format!("VALUES {}", vec![group; n].join(" , "));
    assert_eq!(text(&rows(2), &limits), "VALUES (?,...),(?,...)");
    assert_eq!(text(&rows(3), &limits), "VALUES (?,...),(?,...),...");
    assert_eq!(text(&rows(9), &limits), "VALUES (?,...),(?,...),...");
    let mixed = format!("{},(1,a),{}", rows(4), group);
    assert_eq!(text(&mixed, &limits), "VALUES (?,...),(?,...),...(?,a),(?,...)");
}

#[test]
fn semicolons_and_spaces_go_at_the_end() {
    check(";", ";");
    check(" ; ; ", ";");
    check("", "");
    check("  ", "");
    check("a ; ;", "a");
    check(";a", ";a");
}

#[test]
fn only_texts_that_determine_the_structure_are_clean() {
    for clean in [
        "SELECT a, 'b' FROM `t` WHERE c = 1",
        "SELECT 'it''s', \"a\\\"b\", '/* x */', '# y'",
        "SELECT `a``b`, é, a-1, a - -1, a/b",
        "INSERT INTO t VALUES (1,2,3,4,5),(1,2,3,4,5)",
        "",
    ] {
        assert!(is_clean(clean), "{clean}");
    }
    for unclean in [
        "SELECT 1 /* c */",
        "SELECT 1 /*! c */",
        "SELECT 1 # c",
        "SELECT 1 -- c\n",
        "SELECT 1 --",
        "SELECT 1 --\x0b 'a",
        "SELECT a---\tb",
        "SELECT 'a",
        "SELECT \"a\\",
        "SELECT `a",
        "SELECT `a'b`, 'c'",
        "SELECT 1\0 INTO OUTFILE",
        "SELECT 1 /*",
        "f(1,2,3,4,a)",
        "SELECT 1a",
    ] {
        assert!(!is_clean(unclean), "{unclean}");
    }
    let long = format!("SELECT {}", "a, ".repeat(2000));
    assert!(!is_clean(&long), "cut by max_digest_length");
    let longer = format!("SELECT '{}', 1", "a".repeat(70_000));
    assert!(is_clean(&longer), "the compressed text fits into the buffer");
}

#[test]
fn first_comment_is_the_first_block_comment() {
    let first = |statement: &str| {
        let mut digester = Digester::new();
        let digest = digester.digest(statement.as_bytes(), &Settings::default());
        digest.first_comment.map(|comment| String::from_utf8_lossy(comment).into_owned())
    };
    assert_eq!(first("/* hostgroup=1 */ SELECT 1 /* b */").as_deref(), Some(" hostgroup=1 "));
    assert_eq!(first("SELECT '/* no */' /**/").as_deref(), Some(""));
    assert_eq!(first("SELECT 1 # /* c */"), None);
    assert_eq!(first("SELECT 1 /* open"), None);
    let long = format!("/*{}*/ SELECT 1", "x".repeat(5000));
    assert_eq!(first(&long).map(|comment| comment.len()), Some(FIRST_COMMENT_MAX));
}

#[test]
fn hash_is_shown_as_proxysql_shows_it() {
    let mut digester = Digester::new();
    let digest = digester.digest(b"select 1", &Settings::default());
    assert_eq!(digest.format().to_string(), "0x1E092DAEFFBBF262");
    assert_eq!(format(0xAB).to_string(), "0x00000000000000AB");
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let limits = (0_u16..5, 0_u16..4, 0_usize..60, 0_usize..60);
    (any::<[bool; 5]>(), limits).prop_map(|(flags, limits)| {
        let [lowercase, replace_null, no_digits, keep_comment, is_small] = flags;
        let (grouping_limit, groups_grouping_limit, digest_len, query_len) = limits;
        let settings = Settings {
            lowercase,
            replace_null,
            no_digits,
            keep_comment,
            grouping_limit,
            groups_grouping_limit,
            ..Settings::default()
        };
        if is_small {
            Settings { max_digest_length: digest_len, max_query_length: query_len, ..settings }
        } else {
            settings
        }
    })
}

/// Statements made of what the scanner reacts to.
fn any_statement() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "1",
        "0x1F",
        "1e-",
        "12",
        ",",
        "(",
        ")",
        "(1,2,3,4,5)",
        "'a'",
        "'",
        "\"",
        "\\",
        "`",
        "/*",
        "*/",
        "/*!",
        "!",
        "*",
        "/",
        "#",
        "--",
        "-- ",
        "\n",
        " ",
        "\t",
        "+",
        "-",
        "NULL",
        "null",
        "a",
        "Ab1",
        "_",
        ".",
        ";",
        "?",
        "\0",
        "é",
        "\u{a0}",
        "\r",
    ];
    let piece = prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec());
    let any = prop_oneof![20 => piece, 1 => any::<u8>().prop_map(|byte| vec![byte])];
    prop::collection::vec(any, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_make_a_bounded_digest(statement in any_statement(), settings in any_settings()) {
        let mut digester = Digester::new();
        let digest = digester.digest(&statement, &settings);
        prop_assert!(digest.text.len() <= settings.max_digest_length);
        prop_assert!(digest.text.len() <= statement.len());
        prop_assert_eq!(digest.hash, crate::spooky::hash64(digest.text, 0));
        prop_assert!(!digest.is_clean || digest.first_comment.is_none());
        let first = (digest.text.to_vec(), digest.hash, digest.is_clean);
        // A digester that has made another digest before makes the same.
        digester.digest(b"(1,2,3,4,5),(/* 'x", &settings);
        let again = digester.digest(&statement, &settings);
        prop_assert_eq!(first, (again.text.to_vec(), again.hash, again.is_clean));
    }

    #[test]
    fn other_literals_make_the_same_digest(
        numbers in any::<[u32; 4]>(),
        floats in any::<[f32; 2]>(),
        strings in any::<[String; 2]>(),
        shape in 0_usize..4,
    ) {
        let fill = |n: [u32; 2], float: f32, string: &str| {
            let string = string.replace(['\\', '\'', '\0'], "");
            let ([a, b], float) = (n, float.abs());
            match shape {
                0 => format!("SELECT a FROM t WHERE b={a} AND c IN ({b}, '{string}') LIMIT {b}"),
                1 => format!("INSERT INTO t VALUES ({a}, {float:e} , '{string}'),(\"\\\"\", -{b})"),
                2 => format!("UPDATE t SET a = a + {a}, b='{string}' WHERE c <-{b} OR d={float}"),
                _ => format!("CALL p('{string}',{a} - {b}, x'{b:x}', 0x{a:x}, f({float}))"),
            }
        };
        let ([a, b, c, d], [e, f], [g, h]) = (numbers, floats, strings);
        prop_assume!(e.is_finite() && f.is_finite());
        let (one, two) = (fill([a, b], e, &g), fill([c, d], f, &h));
        let (mut first, mut second) = (Digester::new(), Digester::new());
        let settings = Settings::default();
        let (one, two) = (
            first.digest(one.as_bytes(), &settings),
            second.digest(two.as_bytes(), &settings),
        );
        prop_assert_eq!(one, two);
        prop_assert!(one.is_clean);
    }
}

/// Words, literals and what stands between them, as long as the short cuts need it.
fn pieces() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    const PIECES: [&str; 56] = [
        "SELECT",
        "select_list",
        "a",
        "t1",
        "b2b",
        "_x",
        "sbtest.c",
        "orders.customer_id",
        "=",
        "<=",
        " ",
        " ",
        " ",
        "  ",
        "\t",
        "\n",
        ",",
        ", ",
        ",  ",
        "(",
        ")",
        "), (",
        "1",
        "42",
        "1.5",
        "0x1F",
        "7a",
        "'s'",
        "'it''s'",
        "\"q\"",
        "?",
        "+",
        "-",
        "*",
        "/",
        "%",
        "`b`",
        "é",
        ";",
        "-- c\n",
        "#h\n",
        "/* c */",
        "$",
        ".5",
        "@",
        "@@x1",
        "|",
        "||2",
        "{5}",
        "[",
        "]",
        "^",
        "~1",
        "\\",
        "\u{7f}",
        "!",
    ];
    const LONG: [&str; 4] =
        ["1,2,3,4,5,6,7,8,9,10,", "1, 2, 3, 4, 5, 6, 7", "(1,2,3,4,5,6)", "1,1,1,1,"];
    let piece = prop_oneof![
        12 => prop::sample::select(PIECES.to_vec()),
        1 => prop::sample::select(LONG.to_vec()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(20_000))]

    #[test]
    fn short_cuts_change_nothing(text in pieces(), lowercase in proptest::bool::ANY) {
        let settings = Settings { lowercase, ..Settings::default() };
        let (mut one, mut other) = (Digester::new(), Digester::new());
        let fast = one.digest(text.as_bytes(), &settings);
        let slow = other.digest_slowly(text.as_bytes(), &settings);
        proptest::prop_assert_eq!(fast, slow, "{}", text);
    }
}

#[test]
fn issue_16_a_number_that_may_be_a_part_of_a_name_is_not_clean() {
    let before = ["SELECT * FROM s.1", "SELECT * FROM `1`", "SELECT `a-1`(2)", "SELECT \u{e9}1()"];
    // Servers read these as names; the digest leaves them out as numbers.
    let names = [
        "SELECT * FROM 3e",
        "SELECT * FROM 3e WHERE a = 1",
        "SELECT 1ee1 FROM b",
        "SELECT 1e1e FROM b",
        "SELECT * FROM 0X12",
        "SELECT * FROM 0X12, b",
        "SELECT * FROM 0x",
        "SELECT * FROM 0x, b",
        "SELECT * FROM 1\u{e9}",
        "SELECT * FROM 1\u{e9}, b",
        "SELECT 1e-- a",
        "SELECT 1.e, b",
        "SELECT 1..2, b",
    ];
    for unclean in before.into_iter().chain(names) {
        assert!(!is_clean(unclean), "{unclean}");
    }
    for clean in ["1", "1.5", "0.5e3", "1e3", "1e-3", "1E+3", "0x1F", "1.", "-1", "+1.25", "12e01"]
    {
        let texts = [format!("SELECT {clean}"), format!("SELECT a FROM t WHERE b = {clean} OR a")];
        for text in texts.into_iter().chain([format!("SELECT ({clean})")]) {
            assert!(is_clean(&text), "{text}");
        }
    }
    // Those stand in the digest as they are.
    assert!(is_clean("SELECT 3e.a FROM 2fa, b WHERE c = 0b101 OR c"));
    assert!(is_clean("SELECT a1, 1 FROM s.t1 WHERE `b`=2"));
    let mut digester = Digester::new();
    let mut doubles =
        |text: &str| digester.digest(text.as_bytes(), &Settings::default()).has_double_quotes;
    assert!(doubles("SELECT \"a\"") && !doubles("SELECT 'a\"'"));
}
