use std::{iter, sync::Arc};

use super::*;
use crate::Kind;

const GROUP: HostgroupId = HostgroupId(1);
const PLAIN: Object =
    Object { kind: Kind::Table, reading: Hidden::empty(), writing: Hidden::empty() };
const VIEW: Object = Object { kind: Kind::View, ..PLAIN };
const BLIND: Object = Object { writing: Hidden::UNKNOWN, ..PLAIN };

fn name(schema: &str, table: &str) -> Name {
    Name { group: GROUP, schema: schema.as_bytes().into(), table: table.as_bytes().into() }
}

fn told(object: Object) -> Told {
    Told { object: Some(object), rests_on_others: object.kind == Kind::View, ..NOTHING }
}

const NOTHING: Told = Told::NOTHING;

fn catalog() -> Arc<Catalog> {
    Arc::new(Catalog::default())
}

/// Asks for and tells at once.
fn tell(catalog: &Catalog, table: &str, object: Object, now_ms: u64) {
    let moment = catalog.moment(now_ms);
    assert!(catalog.tell(name("s", table), told(object), moment, now_ms));
}

fn object(catalog: &Catalog, table: &str, now_ms: u64) -> Option<Object> {
    match catalog.look_up(&name("s", table), now_ms) {
        Found::Object { object, .. } => Some(object),
        Found::Absent(_) | Found::Untold(_) | Found::Unknown => None,
    }
}

fn waiter(index: u32) -> Waiter {
    Waiter { worker: 0, index, generation: 7 }
}

fn words(text: &str) -> Option<impl Iterator<Item = &[u8]>> {
    Some(text.split(' ').map(str::as_bytes))
}

#[test]
fn what_was_told_holds_for_its_age_from_the_moment_it_was_asked_and_is_due_at_half() {
    let catalog = catalog();
    catalog.configure(100, 10_000);
    let moment = catalog.moment(1_000);
    assert!(catalog.tell(name("s", "t"), told(PLAIN), moment, 1_500));
    let found = Found::Object { object: PLAIN, due_ms: 6_000, until_ms: 11_000, settled_ms: 0 };
    assert_eq!(catalog.look_up(&name("s", "t"), 10_999), found);
    assert_eq!(catalog.look_up(&name("s", "t"), 11_000), Found::Unknown);
    assert_eq!(catalog.look_up(&name("s", "T"), 2_000), Found::Unknown);
    assert_eq!(catalog.look_up(&name("other", "t"), 2_000), Found::Unknown);
}

#[test]
fn a_name_that_servers_say_nothing_of_is_left_alone_for_a_second_from_the_answer() {
    let catalog = catalog();
    let moment = catalog.moment(1_000);
    assert!(catalog.tell(name("s", "t"), NOTHING, moment, 3_000));
    assert_eq!(catalog.look_up(&name("s", "t"), 3_999), Found::Untold(4_000));
    assert_eq!(catalog.look_up(&name("s", "t"), 4_000), Found::Unknown);
    assert_eq!(catalog.figures().untold, 1);
}

#[test]
fn the_version_changes_only_when_something_told_is_not_so_any_more() {
    let catalog = catalog();
    let first = catalog.version();
    tell(&catalog, "t", PLAIN, 0);
    tell(&catalog, "u", PLAIN, 0);
    tell(&catalog, "t", PLAIN, 5_000);
    assert_eq!(catalog.version(), first);
    tell(&catalog, "t", VIEW, 6_000);
    let second = catalog.version();
    assert!(!second.says_as(first));
    // What has expired binds nobody.
    tell(&catalog, "u", VIEW, 20_000);
    assert_eq!(catalog.version(), second);
}

#[test]
fn a_reader_that_says_the_same_contradicts_nothing() {
    let catalog = catalog();
    tell(&catalog, "t", PLAIN, 0);
    let version = catalog.version();
    let of_reader = |object| Told { is_of_reader: true, ..told(object) };
    let moment = catalog.moment(10);
    assert!(catalog.tell(name("s", "t"), of_reader(PLAIN), moment, 10));
    assert_ne!(catalog.version(), version, "it is judged anew");
    assert!(catalog.version().says_as(version));
    let moment = catalog.moment(20);
    assert!(catalog.tell(name("s", "t"), of_reader(VIEW), moment, 20));
    assert!(!catalog.version().says_as(version));
}

#[test]
fn who_sees_less_does_not_blind_the_others_and_does_not_ask_in_a_loop() {
    let catalog = catalog();
    tell(&catalog, "t", PLAIN, 0);
    let version = catalog.version();
    tell(&catalog, "t", BLIND, 6_000);
    let moment = catalog.moment(6_000);
    assert!(catalog.tell(name("s", "t"), NOTHING, moment, 6_000));
    let found = Found::Object { object: PLAIN, due_ms: 7_000, until_ms: 10_000, settled_ms: 0 };
    assert_eq!(catalog.look_up(&name("s", "t"), 6_000), found);
    assert_eq!(catalog.version(), version);
    // Its time is not prolonged.
    tell(&catalog, "t", BLIND, 10_000);
    assert_eq!(object(&catalog, "t", 10_000), Some(BLIND));
    tell(&catalog, "t", PLAIN, 11_000);
    assert_eq!(object(&catalog, "t", 11_000), Some(PLAIN));
}

#[test]
fn the_first_asks_the_others_wait_and_all_are_named_when_it_is_settled() {
    let catalog = catalog();
    let (t, u) = (name("s", "t"), name("s", "u"));
    assert_eq!(catalog.begin_ask(t.clone(), Some(waiter(1)), 0), Begun::First);
    assert_eq!(catalog.begin_ask(t.clone(), Some(waiter(2)), 10), Begun::UnderWay);
    assert_eq!(catalog.begin_ask(t.clone(), None, 10), Begun::UnderWay);
    assert_eq!(catalog.begin_ask(u.clone(), Some(waiter(1)), 10), Begun::First);
    assert!(catalog.is_being_asked(&t));
    assert_eq!(catalog.settle([&t, &u]), [waiter(1), waiter(2)]);
    assert!(!catalog.is_being_asked(&t));
    assert_eq!(catalog.settle([&t, &u]), []);
    assert_eq!(catalog.begin_ask(t, None, 20), Begun::First);
    assert_eq!(catalog.figures().asked, 3);
}

#[test]
fn an_ask_that_nobody_settles_is_begun_anew() {
    let catalog = catalog();
    let t = name("s", "t");
    assert_eq!(catalog.begin_ask(t.clone(), Some(waiter(1)), 0), Begun::First);
    assert_eq!(catalog.begin_ask(t.clone(), None, 2 * ASK_TIME_MAX_MS), Begun::UnderWay);
    assert_eq!(catalog.begin_ask(t.clone(), None, 2 * ASK_TIME_MAX_MS + 1), Begun::First);
    assert_eq!(catalog.settle([&t]), [waiter(1)]);
}

#[test]
fn asks_and_waiters_are_bounded() {
    let catalog = catalog();
    for at in 0..ASKS_MAX {
        assert_eq!(catalog.begin_ask(name("s", &at.to_string()), None, 0), Begun::First);
    }
    assert_eq!(catalog.begin_ask(name("s", "beyond"), None, 0), Begun::Refused);
    let max = u32::try_from(WAITERS_MAX).expect("a small number");
    for index in 0..max {
        let begun = catalog.begin_ask(name("s", "0"), Some(waiter(index)), 0);
        assert_eq!(begun, Begun::UnderWay);
    }
    assert_eq!(catalog.begin_ask(name("s", "0"), Some(waiter(max)), 0), Begun::Refused);
    assert_eq!(catalog.figures().refused, 2);
}

#[test]
fn what_nobody_could_be_asked_is_left_alone_and_wakes_who_waits() {
    let catalog = catalog();
    let t = name("s", "t");
    catalog.begin_ask(t.clone(), Some(waiter(1)), 0);
    assert_eq!(catalog.give_up(std::slice::from_ref(&t), 100), [waiter(1)]);
    assert_eq!(catalog.look_up(&t, 101), Found::Untold(1_100));
}

#[test]
fn ddl_makes_its_words_and_all_views_unknown_until_they_are_asked_anew() {
    let catalog = catalog();
    for table in ["T", "u", "x"] {
        tell(&catalog, table, PLAIN, 0);
    }
    tell(&catalog, "v", VIEW, 0);
    let version = catalog.version();
    let ticket = catalog.begin_definition(words("alter table t add n int"));
    assert!(!catalog.version().says_as(version));
    let known = |now_ms| ["T", "u", "x", "v"].map(|it| object(&catalog, it, now_ms).is_some());
    assert_eq!(known(1), [false, true, true, false]);
    // What is asked while it goes on is not believed.
    let moment = catalog.moment(2);
    assert!(!catalog.tell(name("s", "T"), told(PLAIN), moment, 3));
    let version = catalog.version();
    catalog.end_definition(ticket);
    assert!(!catalog.version().says_as(version));
    assert!(!catalog.tell(name("s", "T"), told(PLAIN), moment, 4));
    assert!(!catalog.tell(name("s", "v"), told(VIEW), moment, 4));
    assert!(catalog.tell(name("s", "x"), told(PLAIN), moment, 4));
    tell(&catalog, "T", PLAIN, 5);
    assert_eq!(known(6), [true, true, true, false]);
}

#[test]
fn while_ddl_runs_nobody_asks_in_a_loop_and_behind_it_names_are_asked_at_once() {
    let catalog = catalog();
    let ticket = catalog.begin_definition(words("alter table t add n int"));
    let moment = catalog.moment(0);
    assert!(!catalog.tell(name("s", "t"), told(PLAIN), moment, 10));
    assert_eq!(catalog.look_up(&name("s", "t"), 209), Found::Untold(210));
    drop(ticket);
    assert_eq!(catalog.look_up(&name("s", "t"), 11), Found::Unknown);
    // What it was before it was defined is forgotten.
    tell(&catalog, "t", PLAIN, 300);
    assert_eq!(object(&catalog, "t", 300), Some(PLAIN));
}

#[test]
fn what_is_defined_faster_than_it_can_be_asked_for_is_left_alone_for_a_while() {
    let catalog = catalog();
    let moment = catalog.moment(0);
    drop(catalog.begin_definition(words("alter table t add n int")));
    assert!(!catalog.tell(name("s", "t"), told(PLAIN), moment, 10));
    assert_eq!(catalog.look_up(&name("s", "t"), 209), Found::Untold(210));
    assert_eq!(catalog.look_up(&name("s", "t"), 210), Found::Unknown);
}

#[test]
fn the_servers_own_schemas_are_known_to_everybody() {
    let catalog = catalog();
    let of = |schema, table| match catalog.look_up(&name(schema, table), 0) {
        Found::Object { object, .. } => Some(object.reading),
        Found::Absent(_) | Found::Untold(_) | Found::Unknown => None,
    };
    assert_eq!(of("information_schema", "tables"), Some(Hidden::VARIES));
    assert_eq!(of("information_schema", "profiling"), Some(Hidden::UNKNOWN));
    assert_eq!(of("mysql", "user"), None);
}

#[test]
fn ddl_of_a_schema_or_of_anything_is_of_all_its_names() {
    let catalog = catalog();
    tell(&catalog, "t", PLAIN, 0);
    drop(catalog.begin_definition(words("drop database S")));
    assert_eq!(object(&catalog, "t", 1), None);
    tell(&catalog, "t", PLAIN, 1);
    drop(catalog.begin_definition(None::<iter::Empty<&[u8]>>));
    assert_eq!(object(&catalog, "t", 1), None);
    tell(&catalog, "t", PLAIN, 1);
    let many: Vec<String> = (0..10_000).map(|at| format!("c{at}")).collect();
    drop(catalog.begin_definition(words(&many.join(" "))));
    assert_eq!(object(&catalog, "t", 1), None);
    assert_eq!(catalog.figures().definitions, 3);
}

#[test]
fn letters_beyond_ascii_may_be_spelt_otherwise_in_ddl() {
    let catalog = catalog();
    // Servers that take names in any case fold the first of each pair to the second, or may.
    for (written, known) in [
        ("V\u{130}", "vi"),
        ("vi", "V\u{130}"),
        ("V\u{131}", "vi"),
        ("\u{212A}1", "k1"),
        ("\u{17F}1", "s1"),
        ("VSS", "v\u{DF}"),
        ("V\u{1E9E}", "v\u{DF}"),
        ("V\u{C4}", "v\u{E4}"),
    ] {
        tell(&catalog, known, PLAIN, 0);
        tell(&catalog, "other", PLAIN, 0);
        drop(catalog.begin_definition(words(&format!("drop table {written}"))));
        assert_eq!(object(&catalog, known, 1), None, "{written} {known}");
        assert_eq!(object(&catalog, "other", 1), Some(PLAIN), "{written} {known}");
    }
}

#[test]
fn one_of_two_definitions_that_ends_leaves_the_other() {
    let catalog = catalog();
    let first = catalog.begin_definition(words("t"));
    let second = catalog.begin_definition(words("t"));
    catalog.end_definition(first);
    let moment = catalog.moment(0);
    assert!(!catalog.tell(name("s", "t"), told(PLAIN), moment, 0));
    catalog.end_definition(second);
    tell(&catalog, "t", PLAIN, 0);
}

#[test]
fn servers_that_changed_are_asked_again_and_what_they_said_holds_meanwhile() {
    let catalog = catalog();
    tell(&catalog, "t", PLAIN, 0);
    let version = catalog.version();
    catalog.age(GROUP);
    let found = Found::Object { object: PLAIN, due_ms: 0, until_ms: 10_000, settled_ms: 0 };
    assert_eq!(catalog.look_up(&name("s", "t"), 1), found);
    assert!(catalog.version() != version && catalog.version().says_as(version));
}

#[test]
fn other_servers_are_asked_for_all_names_and_what_the_former_ones_say_late_is_void() {
    let catalog = catalog();
    tell(&catalog, "t", PLAIN, 0);
    let moment = catalog.moment(0);
    let ticket = catalog.begin_other_servers();
    assert_eq!(catalog.look_up(&name("s", "t"), 1), Found::Unknown);
    drop(ticket);
    assert_eq!(catalog.look_up(&name("s", "t"), 1), Found::Unknown);
    assert!(!catalog.tell(name("s", "t"), told(PLAIN), moment, 1));
    tell(&catalog, "t", PLAIN, 1_000);
    assert_eq!(object(&catalog, "t", 1_001), Some(PLAIN));
}

#[test]
fn it_stays_within_its_entries_and_keeps_those_told_last() {
    let catalog = catalog();
    catalog.configure(1_600, 10_000);
    for at in 0..10_000_u64 {
        tell(&catalog, &at.to_string(), PLAIN, 0);
        assert_eq!(object(&catalog, &at.to_string(), 1), Some(PLAIN));
    }
    let figures = catalog.figures();
    assert!(figures.entries <= 1_600 && figures.entries >= 700, "{figures:?}");
    assert_eq!(figures.entries + figures.evicted, 10_000);
}

#[test]
fn what_has_become_something_else_settles_for_as_long_as_names_are_held() {
    let catalog = catalog();
    catalog.configure(100, 10_000);
    let settled = |now_ms| match catalog.look_up(&name("s", "t"), now_ms) {
        Found::Object { settled_ms, .. } => Some(settled_ms),
        Found::Absent(_) | Found::Untold(_) | Found::Unknown => None,
    };
    tell(&catalog, "t", PLAIN, 1_000);
    assert_eq!(settled(1_000), Some(0), "it may have been this for ever");
    drop(catalog.begin_definition(words("t")));
    tell(&catalog, "t", PLAIN, 2_000);
    assert_eq!(settled(2_000), Some(0), "it is what it was");
    drop(catalog.begin_definition(words("t")));
    tell(&catalog, "t", VIEW, 3_000);
    assert_eq!(settled(3_000), Some(13_000));
    tell(&catalog, "t", VIEW, 9_000);
    assert_eq!(settled(9_000), Some(13_000), "to hear it again is no change");
    // Nor is it to see less of it.
    tell(&catalog, "t", Object { reading: Hidden::UNKNOWN, ..VIEW }, 30_000);
    assert_eq!(settled(30_000), Some(13_000));
}

#[test]
fn a_change_is_seen_across_the_time_of_its_definition() {
    let catalog = catalog();
    catalog.configure(100, 10_000);
    tell(&catalog, "t", PLAIN, 1_000);
    let ticket = catalog.begin_definition(words("t"));
    let moment = catalog.moment(1_500);
    assert!(!catalog.tell(name("s", "t"), told(PLAIN), moment, 1_500), "it is being defined");
    drop(ticket);
    tell(&catalog, "t", VIEW, 3_000);
    let found = catalog.look_up(&name("s", "t"), 3_000);
    assert!(matches!(found, Found::Object { settled_ms: 13_000, .. }), "{found:?}");
}

#[test]
fn what_was_defined_before_anybody_asked_settles_too() {
    let catalog = catalog();
    catalog.configure(100, 10_000);
    let settled = |table: &str, now_ms| match catalog.look_up(&name("s", table), now_ms) {
        Found::Object { settled_ms, .. } => settled_ms,
        found => panic!("{table} is not known: {found:?}"),
    };
    drop(catalog.begin_definition(words("drop view s t")));
    let ticket = catalog.begin_definition(words("create table t"));
    let moment = catalog.moment(1_000);
    assert!(!catalog.tell(name("s", "t"), told(PLAIN), moment, 1_000), "it is being defined");
    drop(ticket);
    tell(&catalog, "t", PLAIN, 2_000);
    assert_eq!(settled("t", 2_000), 12_000);
    tell(&catalog, "other", PLAIN, 2_000);
    assert_eq!(settled("other", 2_000), 0, "no definition was of it");
    tell(&catalog, "v", VIEW, 2_000);
    assert_eq!(settled("v", 2_000), 12_000, "any may have been of what it shows");
    tell(&catalog, "t", PLAIN, 11_000);
    assert_eq!(settled("t", 11_000), 12_000, "to hear it again is no change");
    // One that its servers said nothing of first.
    assert!(catalog.tell(name("s", "late"), NOTHING, catalog.moment(20_000), 20_000));
    drop(catalog.begin_definition(words("create table late")));
    tell(&catalog, "late", PLAIN, 21_000);
    assert_eq!(settled("late", 21_000), 31_000);
    // Other servers are no definition.
    drop(catalog.begin_other_servers());
    tell(&catalog, "new", PLAIN, 22_000);
    assert_eq!(settled("new", 22_000), 0);
}

#[test]
fn what_is_again_what_it_was_has_been_something_else_in_between() {
    let catalog = catalog();
    catalog.configure(100, 10_000);
    let settled = |now_ms| match catalog.look_up(&name("s", "t"), now_ms) {
        Found::Object { settled_ms, .. } => settled_ms,
        found => panic!("it is not known: {found:?}"),
    };
    tell(&catalog, "t", PLAIN, 1_000);
    drop(catalog.begin_definition(words("alter table s t")));
    tell(&catalog, "t", PLAIN, 2_000);
    assert_eq!(settled(2_000), 0, "one definition leaves it or makes it something else");
    drop(catalog.begin_definition(words("rename table t to x v to t")));
    drop(catalog.begin_definition(words("rename table t to v x to t")));
    tell(&catalog, "t", PLAIN, 3_000);
    assert_eq!(settled(3_000), 13_000);
}

#[test]
fn base_tables_are_known_for_as_long_as_the_name_they_were_told_with() {
    let catalog = Arc::new(Catalog::default());
    let bases: Arc<[Name]> = [name("s", "t")].into();
    let told = told(PLAIN);
    let moment = catalog.moment(0);
    catalog.tell_bases(&name("s", "t"), Some(Arc::clone(&bases)), moment);
    assert_eq!(catalog.bases(&name("s", "t"), 1), None, "it is not told what it is");
    assert!(catalog.tell(name("s", "t"), told, moment, 1));
    assert_eq!(catalog.bases(&name("s", "t"), 1), Some(bases));
    drop(catalog.begin_other_servers());
    assert_eq!(catalog.bases(&name("s", "t"), 1), None);
    // An answer of another time says nothing of these.
    assert!(catalog.tell(name("s", "t"), told, catalog.moment(2), 2));
    assert_eq!(catalog.bases(&name("s", "t"), 2), None);
}
