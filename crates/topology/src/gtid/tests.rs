use std::collections::BTreeSet;

use proptest::{
    prelude::{ProptestConfig, Strategy, any, prop, proptest},
    test_runner::{RngAlgorithm, RngSeed},
};

use super::{GtidError, GtidSet, INTERVALS_MAX, Origin, TEXT_LEN_MAX, Tag};

const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

/// The numbers of a few origins, one by one.
type Model = BTreeSet<(u8, u64)>;

fn origin(of: u8) -> Origin {
    let tag = Tag::parse(b"bulk").expect("a tag");
    Origin::Server([of / 2; 16], if of.is_multiple_of(2) { Tag::NONE } else { tag })
}

fn set_of(model: &Model) -> GtidSet {
    let mut set = GtidSet::default();
    model.iter().for_each(|(of, number)| set.add(origin(*of), *number, *number));
    set
}

fn models() -> impl Strategy<Value = Model> {
    let range = (0..4_u8, 1..40_u64, 0..8_u64);
    prop::collection::vec(range, 0..12).prop_map(|ranges| {
        let numbers = |(of, first, len)| (first..=first + len).map(move |number| (of, number));
        ranges.into_iter().flat_map(numbers).collect()
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(21),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sets_are_as_their_numbers_one_by_one(one in models(), other in models()) {
        let (a, b) = (set_of(&one), set_of(&other));
        let both: Model = one.union(&other).copied().collect();
        let left: Model = one.difference(&other).copied().collect();
        assert_eq!(a.clone().union(&b), set_of(&both));
        assert_eq!(a.clone().subtract(&b), set_of(&left));
        assert_eq!(a.is_subset(&b), one.is_subset(&other));
        assert_eq!(GtidSet::parse(&a.to_string()), Ok(a.clone()));
        for (of, intervals) in a.origins() {
            let has = |number: u64| one.iter().any(|it| origin(it.0) == of && it.1 == number);
            for first in 1..20 {
                let last = first + 3;
                assert_eq!(intervals.has(first, last), (first..=last).all(has));
            }
            let prefix = (1..).take_while(|number| has(*number)).count();
            assert_eq!(intervals.prefix(), prefix as u64);
        }
    }

    #[test]
    fn no_text_is_read_without_end_or_panics(text in "[0-9a-f:, \\-a-z]{0,80}|.{0,80}") {
        drop(GtidSet::parse(&text));
        drop(super::Position::parse(&text));
    }

    #[test]
    fn numbers_at_the_edges_do_no_harm(first in any::<u64>(), last in any::<u64>()) {
        let mut set = GtidSet::default();
        set.add(origin(0), first.max(1), last);
        set.add(origin(0), 1, 1);
        assert!(set.of(&origin(0)).is_some_and(|numbers| numbers.has(1, 1)));
    }
}

#[test]
fn a_set_is_read_as_servers_write_it() {
    let check = |text: &str, expected: &str| {
        let text = text.replace('U', UUID);
        let set = GtidSet::parse(&text).map(|set| set.to_string().replace(UUID, "U"));
        assert_eq!(set.as_deref(), Ok(expected), "{text}");
    };
    check("", "");
    check(" , ", "");
    check("U:1", "U:1");
    check("U:1-3:5-7,\nU:4", "U:1-7");
    check("U:5-3:9", "U:9");
    check("U:1-18:tagg:1", "U:1-18:tagg:1");
    check("U : 2 - 3 : TAGG : 4, U:1", "U:1-3:tagg:4");
    check("U:tagg:1:1-2", "U:tagg:1-2");
    check("3E11FA4771CA11E19E33C80AA9429562:1", "U:1");
    check(
        "U:1,00000000-0000-0000-0000-000000000000:2",
        "00000000-0000-0000-0000-000000000000:2,U:1",
    );
    check("U:9223372036854775806", "U:9223372036854775806");
}

#[test]
fn what_is_no_set_is_not_read() {
    for text in [
        "x",
        "U",
        "U:",
        "U:0",
        "U:1-",
        "U:-1",
        "U:1;",
        "U 1",
        "U:1 U:2",
        "U:9223372036854775807",
        "U:1-9223372036854775807",
        "3e11fa47:1",
        "3e11fa47-71ca11e1-9e33-c80aa9429562:1",
        "U:é:1",
        "U:a_tag_that_is_longer_than_any_may_be_:1",
    ] {
        let text = text.replace('U', UUID);
        assert!(matches!(GtidSet::parse(&text), Err(GtidError::Malformed(_))), "{text}");
    }
}

#[test]
fn hostile_texts_are_refused_by_their_size() {
    let many: String = (0..=INTERVALS_MAX as u64).map(|at| format!(":{}", at * 2 + 1)).collect();
    assert_eq!(GtidSet::parse(&format!("{UUID}{many}")), Err(GtidError::TooLong));
    let long = " ".repeat(TEXT_LEN_MAX + 1);
    assert_eq!(GtidSet::parse(&long), Err(GtidError::TooLong));
    assert_eq!(super::Position::parse(&long), Err(GtidError::TooLong));
}
