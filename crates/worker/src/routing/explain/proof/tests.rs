use super::*;

#[test]
fn a_name_behind_which_nothing_happens_is_said_alone() {
    assert_eq!(may(Hidden::empty()), "");
}

#[test]
fn what_may_happen_behind_a_name_is_said_in_words() {
    assert_eq!(may(Hidden::WRITES), ", which may write");
    let both = may(Hidden::READS_SESSION | Hidden::VARIES);
    assert_eq!(both, ", which may look at the session's past, answer otherwise each time");
}

#[test]
fn a_readers_word_is_said_to_prove_nothing_on_the_writer() {
    assert!(may(Hidden::SEEN_ON_READER).contains("as only a reader could say"));
}

#[test]
fn kinds_are_said_for_one_and_for_several() {
    assert_eq!((kind_of(Kind::Table, 1), kind_of(Kind::Table, 2)), ("base table", "base tables"));
    assert_eq!((kind_of(Kind::View, 1), kind_of(Kind::Sequence, 3)), ("view", "sequences"));
}

#[test]
fn without_a_catalog_names_are_taken_for_tables() {
    let analysis = crate::tests::analysis("SELECT a FROM t JOIN u");
    assert_eq!(taken_for_tables(&analysis), ["taking t, u for base tables"]);
    assert!(taken_for_tables(&crate::tests::analysis("SELECT 1")).is_empty());
}

#[test]
fn what_is_not_known_of_a_text_is_said_before_its_names() {
    let analysis = crate::tests::analysis("SELECT f()");
    let said = said(&analysis, Proof::NOTHING, &["more".to_owned()]);
    assert!(said.starts_with("nothing is proven: "), "{said}");
    assert!(said.contains("a function of it is not built in"), "{said}");
    assert!(said.ends_with("; more"), "{said}");
}

#[test]
fn a_write_that_leaves_nothing_is_told_from_one_that_may() {
    let analysis = crate::tests::analysis("INSERT INTO t VALUES (1)");
    let with = |hidden| said(&analysis, Proof { reads: false, hidden }, &[]);
    assert_eq!(with(Hidden::empty()), "proven to leave nothing but what its text says");
    assert_eq!(with(Hidden::LEAVES), "nothing is proven");
}
