use trunkline_catalog::Hidden;
use trunkline_session::tracker::Pins;

use super::*;
use crate::tests::analysis;

const CONN: ConnId = ConnId { index: 0, generation: 1 };

#[test]
fn a_route_to_a_server_has_a_hostgroup() {
    let group = HostgroupId(7);
    for route in [Route::Lease(group, CONN), Route::Hostgroup(group), Route::Reader(group)] {
        assert_eq!(hostgroup_of(&route), Some(group), "{route:?}");
    }
}

#[test]
fn a_rules_answer_has_no_hostgroup() {
    for route in [Route::Ok("a".into()), Route::Error("b".into()), Route::Limited("c".into())] {
        assert_eq!(hostgroup_of(&route), None, "{route:?}");
    }
}

#[test]
fn a_rules_answer_is_a_route_with_its_text() {
    let text: Arc<str> = "stop".into();
    let error = answer_of(Some(Answer::Error(&text)));
    assert!(matches!(error, Some(Route::Error(text)) if &*text == "stop"));
    let ok = answer_of(Some(Answer::Ok(&text)));
    assert!(matches!(ok, Some(Route::Ok(text)) if &*text == "stop"));
    assert!(answer_of(None).is_none());
}

#[test]
fn chance_goes_on_and_is_never_0() {
    let mut seen = std::collections::HashSet::new();
    let mut number = 1;
    for _ in 0..1_000 {
        number = next_chance(number);
        assert!(number != 0 && seen.insert(number), "{number}");
    }
}

#[test]
fn what_ends_a_hold_asks_for_what_holds() {
    for (text, expected) in [
        ("UNLOCK TABLES", Some(PinReason::TableLock)),
        ("SELECT RELEASE_LOCK('a')", Some(PinReason::NamedLock)),
        ("DO RELEASE_ALL_LOCKS()", Some(PinReason::NamedLock)),
        ("DROP TEMPORARY TABLE t", Some(PinReason::TemporaryTable)),
        ("HANDLER t CLOSE", Some(PinReason::Handler)),
        ("XA COMMIT 'x'", Some(PinReason::Xa)),
        ("DROP TABLE t", None),
        ("SELECT a FROM t", None),
    ] {
        assert_eq!(given_back(&analysis(text)), expected, "{text}");
    }
}

#[test]
fn only_user_variables_are_set() {
    for text in ["SET @a = 1", "SET @a = 1, @b = @a"] {
        assert!(sets_user_variables(&analysis(text)), "{text}");
    }
    for text in [
        "SET @a = 1, time_zone = '+01:00'",
        "SET @a = (SELECT a FROM t)",
        "SET @a = f()",
        "SET @a = 1; DO 1",
    ] {
        assert!(!sets_user_variables(&analysis(text)), "{text}");
    }
}

#[test]
fn what_has_no_text_may_write() {
    let proof = Proof { reads: false, hidden: Hidden::empty() };
    assert!(!does_not_write(None, proof));
    assert!(does_not_write(Some(&analysis("SELECT 1")), proof));
    assert!(does_not_write(Some(&analysis("SET @a = 1")), proof));
    assert!(!does_not_write(Some(&analysis("DELETE FROM t")), proof));
}

/// A lease that is held for these reasons.
fn held(reasons: &[PinReason]) -> Lease {
    let mut pins = Pins::default();
    reasons.iter().for_each(|reason| pins.pin(*reason));
    Lease {
        hostgroup: HostgroupId(7),
        conn: CONN,
        pins,
        is_in_trans: false,
        only_reads: false,
        begun_apart: false,
        has_written: false,
        pinned_by: None,
    }
}

#[test]
fn what_reads_left_is_told_from_what_a_session_has() {
    use PinReason as Pin;
    assert!(holds_reads_only(&held(&[Pin::Cursor, Pin::Warnings, Pin::FoundRows])));
    assert!(!holds_reads_only(&held(&[Pin::Warnings, Pin::UserVariable])));
    assert!(!holds_reads_only(&held(&[Pin::Transaction])));
}
