use std::rc::Rc;

use trunkline_config::Settings;
use trunkline_sql::{
    digest::Executed,
    token::{Encoding, Modes},
    version::ServerVersion,
};

use super::analysis::{Analyses, digest_settings};
use crate::{
    session_past::FoundRows,
    tests::{TWO_SERVERS, snapshot},
};

fn analyses() -> Analyses {
    Analyses::new(&Settings::default())
}

#[test]
fn texts_that_differ_in_literals_share_one_analysis() {
    let mut analyses = analyses();
    let one = analyses.know(b"SELECT a FROM t WHERE id = 1", &Modes::default());
    let other = analyses.know(b"SELECT a FROM t WHERE id = 22", &Modes::default());
    assert!(Rc::ptr_eq(&one, &other));
}

#[test]
fn texts_of_another_structure_have_their_own() {
    let mut analyses = analyses();
    let one = analyses.know(b"SELECT a FROM t WHERE id = 1", &Modes::default());
    let other = analyses.know(b"SELECT a FROM t WHERE id > 1", &Modes::default());
    assert_ne!(one.digest, other.digest);
}

#[test]
fn what_depends_on_literals_is_not_remembered() {
    let mut analyses = analyses();
    let one = analyses.know(b"SET @a = 1", &Modes::default());
    let other = analyses.know(b"SET @a = 1", &Modes::default());
    assert!(!Rc::ptr_eq(&one, &other));
    assert_ne!(one.analysis, analyses.know(b"SET @a = 2", &Modes::default()).analysis);
}

#[test]
fn a_text_read_in_other_modes_is_another_one() {
    let mut analyses = analyses();
    let plain = Modes::default();
    let one = analyses.know(b"SELECT a FROM t", &plain);
    for modes in [
        Modes { flavor_mariadb: true, ..plain },
        Modes { ignore_space: true, ..plain },
        Modes { encoding: Encoding::Latin, ..plain },
    ] {
        assert!(!Rc::ptr_eq(&one, &analyses.know(b"SELECT a FROM t", &modes)), "{modes:?}");
    }
    assert!(Rc::ptr_eq(&one, &analyses.know(b"SELECT a FROM t", &plain)));
}

#[test]
fn what_a_mode_leaves_open_is_not_remembered_where_it_matters() {
    let mut analyses = analyses();
    let guess = Modes { guesses_quotes: true, ..Modes::default() };
    let plain = analyses.know(b"SELECT a FROM t", &guess);
    assert!(Rc::ptr_eq(&plain, &analyses.know(b"SELECT a FROM t", &guess)));
    let quoted = analyses.know(b"SELECT \"a\" FROM t", &guess);
    assert!(!Rc::ptr_eq(&quoted, &analyses.know(b"SELECT \"a\" FROM t", &guess)));
}

#[test]
fn settings_that_make_other_digests_outdate_all() {
    let mut analyses = analyses();
    let before = analyses.know(b"SELECT A FROM t", &Modes::default());
    analyses.configure(&snapshot(TWO_SERVERS));
    assert_eq!(analyses.edition(), before.edition, "nothing has changed");
    analyses.configure(&snapshot(&format!("query_digests_lowercase = true\n{TWO_SERVERS}")));
    let after = analyses.know(b"SELECT A FROM t", &Modes::default());
    assert_ne!(before.edition, after.edition);
    assert_eq!(&*after.digest_text, b"select a from t");
}

#[test]
fn a_version_of_the_servers_outdates_all_where_it_is_another() {
    let mut analyses = analyses();
    let edition = analyses.edition();
    analyses.learn_version(ServerVersion::UNKNOWN);
    assert_eq!(analyses.edition(), edition);
    analyses.learn_version(ServerVersion::new(10, 11));
    assert_ne!(analyses.edition(), edition);
    assert_eq!(analyses.version(), ServerVersion::new(10, 11));
}

#[test]
fn texts_that_a_lower_case_digest_makes_one_are_told_apart() {
    let settings = Settings { query_digests_lowercase: true, ..Settings::default() };
    let mut analyses = Analyses::new(&settings);
    let one = analyses.know(b"SELECT a FROM t", &Modes::default());
    let other = analyses.know(b"SELECT a FROM T", &Modes::default());
    assert_eq!(one.digest, other.digest);
    assert_ne!(one.analysis, other.analysis);
}

#[test]
fn comments_that_ask_for_something_are_known() {
    let mut analyses = analyses();
    let known = analyses.know(b"SELECT /* hostgroup=7 */ 1", &Modes::default());
    let hints = known.hints.as_ref().expect("hints");
    assert_eq!(hints.hostgroup, Some(7));
    assert!(analyses.know(b"SELECT 1", &Modes::default()).hints.is_none());
}

#[test]
fn what_is_for_a_server_is_told_from_what_the_proxy_answers() {
    let mut analyses = analyses();
    let mut is_ordinary =
        |text: &str| analyses.know(text.as_bytes(), &Modes::default()).is_ordinary;
    assert!(is_ordinary("SELECT a FROM t") && is_ordinary("INSERT INTO t VALUES (1)"));
    for text in ["KILL 5", "EXPLAIN SELECT 1", "PROXYSQL INTERNAL SESSION", "BEGIN", "SET @a = 1"] {
        assert!(!is_ordinary(text), "{text}");
    }
}

#[test]
fn statements_whose_replies_may_hide_an_insert_id_are_known() {
    let mut analyses = analyses();
    let mut hides =
        |text: &str| analyses.know(text.as_bytes(), &Modes::default()).may_leave_insert_id;
    for text in [
        "CALL p()",
        "SELECT LAST_INSERT_ID(5)",
        "SET last_insert_id = 5",
        "INSERT INTO t VALUES (1) RETURNING a",
        "DO 1; DO 2",
    ] {
        assert!(hides(text), "{text}");
    }
    assert!(!hides("INSERT INTO t VALUES (1)") && !hides("SELECT 1"));
}

#[test]
fn a_text_that_may_be_read_otherwise_is_nothing_certain() {
    let mut analyses = analyses();
    let one = analyses.know(b"SELECT a FROM t", &Modes::default());
    let other = analyses.know(b"SELECT f(a) FROM t", &Modes::default());
    assert!(one.is_as(&one) && !one.is_as(&other));
    let either = one.or_otherwise(&other);
    assert!(!either.is_ordinary && !either.looks_at_nothing && !either.nameless.reads);
    assert_eq!(either.digest, one.digest);
}

#[test]
fn digests_are_made_as_the_settings_say() {
    let settings = Settings {
        query_digests_no_digits: true,
        query_digests_grouping_limit: 100_000,
        ..Settings::default()
    };
    let digests = digest_settings(&settings);
    assert!(digests.no_digits);
    assert_eq!(digests.grouping_limit, u16::MAX);
}

#[test]
fn a_digest_says_all_unless_servers_carry_out_what_it_leaves_out() {
    let settings = Settings { firewall_whitelist_enabled: true, ..Settings::default() };
    let mut judging = Analyses::new(&settings);
    let mariadb = Modes { flavor_mariadb: true, ..Modes::default() };
    let mut says_all =
        |text: &str| judging.know(text.as_bytes(), &mariadb).executed == Executed::AsDigested;
    for whole in [
        "SELECT id FROM t",
        "SELECT /* why */ id FROM t -- because\n WHERE a = 1",
        "SELECT id FROM t # all of them",
        "SELECT id FROM t WHERE a = -(1) -- x",
    ] {
        assert!(says_all(whole), "{whole}");
    }
    for more in [
        "SELECT id FROM t --\nUNION SELECT pw FROM secret",
        "SELECT id FROM t /*M!100000 UNION SELECT pw FROM secret */",
        "SELECT id FROM t /*! */ --\n UNION SELECT pw FROM secret",
    ] {
        assert!(!says_all(more), "{more}");
    }
    let long = format!("SELECT {}1 FROM t", "a, ".repeat(2_000));
    assert!(!says_all(&long), "the rest of it may be anything");
    let mut not_judging = analyses();
    let known = not_judging.know(b"SELECT id FROM t /*! UNION SELECT 1 */", &mariadb);
    assert_eq!(known.executed, Executed::AsDigested);
    // A rule that denies is another one who judges.
    let denying = "[[rule]]\nid = 1\nmatch_digest = \"secret\"\nerror_msg = \"no\"";
    let denying = snapshot(&format!("{TWO_SERVERS}\n{denying}"));
    let mut judging = Analyses::of_snapshot(&denying);
    let known = judging.know(b"SELECT id FROM t /*! UNION SELECT 1 */", &mariadb);
    assert!(matches!(known.executed, Executed::Otherwise { .. }), "{:?}", known.executed);
}

#[test]
fn what_a_digest_takes_for_a_string_may_say_what_a_statement_leaves() {
    let mariadb = Modes { flavor_mariadb: true, ..Modes::default() };
    let without_escapes = Modes { no_backslash_escapes: true, ..mariadb };
    let guessed = Modes { guesses_escapes: true, ..mariadb };
    let with_names = Modes { ansi_quotes: true, ..mariadb };
    let of = |encoding| Modes { encoding, ..mariadb };
    let returning = "INSERT INTO t (s) VALUES ('a\\') RETURNING id -- '".as_bytes();
    let double = "INSERT INTO t (\"a\\\") VALUES (1) RETURNING \"id\"".as_bytes();
    // The second byte of the character is a backslash.
    let tail = b"INSERT INTO t (s) VALUES ('\x95\x5C') RETURNING id";
    let tick = b"INSERT INTO t (\x95\x60) VALUES (1) RETURNING `id`";
    let mut analyses = analyses();
    for (text, modes) in [
        (returning, &without_escapes),
        (returning, &guessed),
        (double, &with_names),
        (tail, &of(Encoding::ShiftJis)),
        (tail, &of(Encoding::Gbk)),
        (tail, &of(Encoding::Unknown)),
        (tick, &of(Encoding::Gbk)),
    ] {
        let known = analyses.know(text, modes);
        assert!(known.may_leave_insert_id, "{} {modes:?}", String::from_utf8_lossy(text));
    }
    let plain = "INSERT INTO t (s) VALUES ('a\\'b')".as_bytes();
    for (text, modes) in [
        (plain, &mariadb),
        (b"INSERT INTO t (s) VALUES ('a')", &without_escapes),
        (b"INSERT INTO t (s) VALUES ('\x95\x41')", &of(Encoding::ShiftJis)),
        (b"INSERT INTO t (s) VALUES ('a\\'b')", &of(Encoding::ShiftJis)),
    ] {
        assert!(!analyses.know(text, modes).may_leave_insert_id, "{modes:?}");
    }
}

#[test]
fn rows_found_are_not_known_where_a_digest_may_leave_out_a_union() {
    let mariadb = Modes { flavor_mariadb: true, ..Modes::default() };
    let without_escapes = Modes { no_backslash_escapes: true, ..mariadb };
    let text = "SELECT 'a\\' UNION SELECT a FROM t LIMIT 1 -- '".as_bytes();
    let mut analyses = analyses();
    assert_eq!(analyses.know(text, &mariadb).found_rows, FoundRows::Answer);
    assert_ne!(analyses.know(text, &without_escapes).found_rows, FoundRows::Answer);
}

#[test]
fn a_name_in_double_quotes_may_be_a_column_that_is_computed() {
    let with_names = Modes { ansi_quotes: true, ..Modes::default() };
    let guessed = Modes { guesses_quotes: true, ..Modes::default() };
    let text = b"INSERT INTO t (id) VALUES (\"n\")";
    let mut analyses = analyses();
    assert!(analyses.know(text, &with_names).computes_values);
    assert!(analyses.know(text, &guessed).computes_values);
    assert!(!analyses.know(text, &Modes::default()).computes_values);
}
