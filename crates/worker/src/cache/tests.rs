use trunkline_protocol::response::write::put_text_result;
use trunkline_session::tracker::Schema;
use trunkline_sql::{analysis::Access, token::Modes};

use super::*;
use crate::cache::capture::numbered;
use crate::statement::analysis::Analyses;

fn state(schema: &str, variables: &[(&str, &str)]) -> SessionState {
    let mut state = SessionState::new(
        Schema::from(schema.as_bytes()),
        Charset::Names(b"utf8mb4".as_slice().into()),
    );
    for (name, value) in variables {
        state.set_variable(name, value.as_bytes());
    }
    state
}

fn key_of(state: &SessionState) -> Vec<u8> {
    let mut key = Vec::new();
    put_state(&mut key, state, false);
    key
}

#[test]
fn states_that_differ_have_keys_that_differ() {
    let states = [
        state("app", &[]),
        state("", &[]),
        state("app", &[("sql_mode", "''")]),
        state("app", &[("sql_mode", "'ANSI'")]),
        state("app", &[("time_zone", "'ANSI'")]),
        state("app", &[("a", "b"), ("c", "d")]),
        state("app", &[("a", "bc"), ("d", "")]),
        SessionState::new(Schema::from(&b"app"[..]), Charset::Collation(45)),
        SessionState::new(Schema::from(&b"app"[..]), Charset::Collation(46)),
    ];
    for (place, one) in states.iter().enumerate() {
        for other in &states[place + 1..] {
            assert_ne!(key_of(one), key_of(other), "{one:?} {other:?}");
        }
        assert_eq!(key_of(one), key_of(&one.clone()));
    }
    let mut with_variable = state("app", &[]);
    with_variable.set_user_variable(b"x", b"1");
    assert_eq!(key_of(&with_variable), key_of(&state("app", &[])), "nobody cached reads them");
}

#[test]
fn only_selects_whose_answers_are_the_datas_alone_are_cached() {
    let mut analyses = Analyses::new(&trunkline_config::Settings::default());
    let order =
        |is_always| CacheOrder { is_always, ..CacheOrder::hinted(None, 1).expect("an order") };
    for (sql, plainly, insisted) in [
        ("SELECT a FROM t WHERE id = 1", true, true),
        ("SELECT COUNT(*), MAX(a) FROM t GROUP BY b", true, true),
        ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", true, true),
        ("SELECT a FROM t UNION SELECT b FROM u", true, true),
        ("SELECT NOW()", false, true),
        ("SELECT a FROM t ORDER BY RAND()", false, true),
        ("SELECT UUID()", false, true),
        ("SELECT CURRENT_DATE, a FROM t", false, true),
        ("SELECT UNIX_TIMESTAMP(a) FROM t", true, true),
        ("SELECT UNIX_TIMESTAMP()", false, true),
        ("SELECT my_function(a) FROM t", false, true),
        ("SELECT SQL_NO_CACHE a FROM t", false, true),
        ("SELECT @x", false, false),
        ("SELECT LAST_INSERT_ID()", false, false),
        ("SELECT CONNECTION_ID()", false, false),
        ("SELECT FOUND_ROWS()", false, false),
        ("SELECT GET_LOCK('a', 1)", false, false),
        ("SELECT a FROM t FOR UPDATE", false, false),
        ("SELECT SQL_CALC_FOUND_ROWS a FROM t", false, false),
        ("SELECT 1; SELECT 2", false, false),
        ("SELECT a FROM t /* not ended", false, false),
        ("SHOW WARNINGS", false, false),
        ("INSERT INTO t VALUES (1)", false, false),
        ("CALL p()", false, false),
    ] {
        let known = analyses.know(sql.as_bytes(), &Modes::default());
        let reads = known.analysis.access == Access::CertainlyReads;
        let proof = Proof { reads, hidden: Hidden::empty() };
        assert_eq!(is_cacheable(&known.analysis, proof, order(false)), plainly, "{sql}");
        assert_eq!(is_cacheable(&known.analysis, proof, order(true)), insisted, "{sql}");
    }
}

fn answer(format: ReplyFormat) -> Vec<u8> {
    let mut out = Vec::new();
    let rows = [vec![Some(b"x".to_vec())], vec![None]];
    put_text_result(&mut out, 5, format, status::AUTOCOMMIT, &["a"], &rows);
    out
}

#[test]
fn a_stored_answer_is_whole_and_numbered_from_1() {
    for deprecate_eof in [false, true] {
        let format = ReplyFormat { deprecate_eof, ..ReplyFormat::PLAIN };
        let whole = answer(format);
        let stored = numbered(&whole, format).expect("whole");
        assert_eq!(stored.get(3), Some(&1));
        assert_eq!(stored.len(), whole.len());
        let mut relay = Relay::new(ResponseShape::Query, format, format, true).numbered_from(1);
        assert!(relay.feed(&stored, &mut Vec::new()).expect("in order").ended);
        for cut in 0..whole.len() {
            assert_eq!(numbered(&whole[..cut], format), None, "{cut}");
        }
        let twice = [whole.clone(), whole.clone()].concat();
        assert_eq!(numbered(&twice, format), None, "two answers");
    }
}

#[test]
fn warnings_are_taken_out_of_an_answer() {
    for deprecate_eof in [false, true] {
        let format = ReplyFormat { deprecate_eof, ..ReplyFormat::PLAIN };
        let plain = numbered(&answer(format), format).expect("whole");
        let mut warned = plain.clone();
        let len = warned.len();
        // The number is before the status in an EOF, and behind it in an OK.
        let place = if deprecate_eof { len - 2 } else { len - 4 };
        warned[place] = 3;
        let mut relay = Relay::new(ResponseShape::Query, format, format, true);
        relay.feed(&warned, &mut Vec::new()).expect("an answer");
        assert_eq!(relay.outcome().warnings, 3);
        assert_eq!(bare(warned, format), Some(plain));
    }
}

#[test]
fn a_hint_changes_the_time_or_takes_the_order_back() {
    let effects = Effects { cache_ttl_ms: Some(5), cache_rule: Some(7), ..Effects::default() };
    let ruled = CacheOrder::of_effects(&effects).expect("an order");
    assert_eq!((ruled.ttl_us(), ruled.rule, ruled.wait_ms), (5_000, 7, WAIT_MS));
    let hinted = CacheOrder::hinted(Some(ruled), 9).expect("an order");
    assert_eq!((hinted.ttl_ms, hinted.rule), (9, 7));
    assert_eq!(CacheOrder::hinted(Some(ruled), 0), None);
    assert_eq!(CacheOrder::hinted(None, 3).map(|order| order.rule), Some(0));
    assert_eq!(CacheOrder::of_effects(&Effects::default()), None);
}
