use super::*;
use crate::tests::TestWorker;

fn place<'a>(group: u32, schema: Option<&'a [u8]>) -> Place<'a> {
    Place { group: HostgroupId(group), schema }
}

/// Two versions, and what was told otherwise lies between them.
fn versions() -> [Version; 2] {
    let catalog = Arc::new(Catalog::default());
    let before = catalog.version();
    drop(catalog.begin_other_servers());
    [before, catalog.version()]
}

fn judged(version: Version, until_ms: u64) -> Judgement {
    Judgement {
        proof: Proof { reads: true, hidden: Hidden::empty() },
        version,
        until_ms,
        valid_ms: until_ms + 10,
        missing: Vec::new(),
        due: Vec::new(),
    }
}

#[test]
fn a_proof_is_found_for_its_place_and_version() {
    let (proofs, [first, second]) = (Proofs::default(), versions());
    proofs.remember(place(1, Some(b"s")), &judged(first, 100));
    let found = |place, version, now_ms| proofs.find(place, version, now_ms).is_some();
    assert!(found(place(1, Some(b"s")), first, 99));
    assert!(!found(place(1, Some(b"s")), second, 99), "something has been said since");
    assert!(!found(place(1, Some(b"s")), first, 100), "it is to be made anew");
    assert!(!found(place(2, Some(b"s")), first, 99) && !found(place(1, None), first, 99));
}

#[test]
fn a_newer_proof_takes_the_place_of_an_older_one() {
    let (proofs, [first, second]) = (Proofs::default(), versions());
    proofs.remember(place(1, None), &judged(first, 100));
    proofs.remember(place(1, None), &judged(second, 200));
    assert_eq!(proofs.0.borrow().len(), 1);
    assert!(proofs.find(place(1, None), second, 150).is_some());
}

#[test]
fn so_many_places_are_remembered_the_latest_ones() {
    let (proofs, [first, _]) = (Proofs::default(), versions());
    for group in 0..6 {
        proofs.remember(place(group, None), &judged(first, 100));
    }
    assert_eq!(proofs.0.borrow().len(), PROOFS_MAX);
    assert!(proofs.find(place(1, None), first, 0).is_none());
    assert!(proofs.find(place(2, None), first, 0).is_some());
}

#[test]
fn a_proof_holds_until_the_catalog_believes_it_no_more() {
    let catalog = Arc::new(Catalog::default());
    let validity = Validity::of(&judged(catalog.version(), 100));
    assert!(validity.holds(&catalog, 109) && !validity.holds(&catalog, 110));
    catalog.age(HostgroupId(1));
    assert!(!validity.holds(&catalog, 0), "it is to be made anew");
    assert!(validity.is_unchanged(&catalog), "nothing has been said of what is on its way");
    drop(catalog.begin_other_servers());
    assert!(!validity.is_unchanged(&catalog));
}

#[test]
fn a_proof_that_rests_on_no_name_does_not_age() {
    let catalog = Catalog::default();
    assert!(Validity::without_age(catalog.version()).holds(&catalog, u64::MAX - 1));
}

#[test]
fn only_a_read_whose_proof_holds_is_sent_twice() {
    let mut world = TestWorker::new();
    let catalog = Catalog::default();
    let mut statement = world.statement("SELECT a FROM t");
    statement.meaning.is_read = true;
    statement.meaning.validity = Some(Validity::of(&judged(catalog.version(), 100)));
    assert!(statement.may_be_sent_twice(&catalog, 0));
    assert!(!statement.may_be_sent_twice(&catalog, 500));
    statement.meaning.is_read = false;
    assert!(!statement.may_be_sent_twice(&catalog, 0));
}

#[test]
fn what_names_meant_when_a_statement_ran_is_not_known_once_they_changed() {
    let mut world = TestWorker::new();
    let shared = Shared::new(None, 1);
    let mut statement = world.statement("SELECT a FROM t");
    let proof = Proof { reads: true, hidden: Hidden::empty() };
    statement.meaning.proof = proof;
    statement.meaning.validity = Some(Validity::of(&judged(shared.catalog().version(), 100)));
    assert_eq!(proof_of(&shared, &statement), proof);
    drop(shared.catalog().begin_other_servers());
    let after = proof_of(&shared, &statement);
    assert!(!after.reads && after.hidden.has(Hidden::UNKNOWN));
}

#[test]
fn waiters_are_told_by_their_workers() {
    let waiter = |worker, index| Waiter { worker, index, generation: 9 };
    let workers = by_worker([waiter(1, 5), waiter(0, 6), waiter(1, 7)]);
    let client = |index| ClientId { index, generation: 9 };
    assert_eq!(workers.get(&1), Some(&vec![client(5), client(7)]));
    assert_eq!(workers.get(&0), Some(&vec![client(6)]));
}

#[test]
fn a_statement_waits_once_for_what_its_names_mean() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    world.ask(client, "SELECT a FROM s.t");
    assert_eq!(world.core().fx.stats.counters.statements_awaited_names, 1);
    assert_eq!(world.asked(), ["SELECT a FROM s.t"]);
    world.reply("SELECT a FROM s.t", crate::tests::Reply::Rows(&["x"]));
    world.ask(client, "SELECT a FROM s.t");
    assert_eq!(world.core().fx.stats.counters.statements_awaited_names, 1);
}

#[test]
fn a_readers_word_proves_nothing_in_the_writers_hostgroup() {
    let mut world = TestWorker::with(crate::tests::WRITER_AND_READER);
    let proof = Proof { reads: true, hidden: Hidden::SEEN_ON_READER };
    let core = world.core();
    assert!(core.proof_in(HostgroupId(20), proof).reads);
    assert!(!core.proof_in(HostgroupId(10), proof).reads);
}

#[test]
fn a_readers_tables_are_those_of_its_writer() {
    let mut world = TestWorker::with(crate::tests::WRITER_AND_READER);
    let env = &world.core().env;
    assert_eq!(env.group_of(HostgroupId(20)), HostgroupId(10));
    assert_eq!(env.group_of(HostgroupId(10)), HostgroupId(10));
    assert_eq!(env.group_of(HostgroupId(99)), HostgroupId(99));
}
