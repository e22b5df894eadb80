//! Transactions that are repeated on another connection.

use super::*;

/// A transaction that was lost before its `COMMIT`, and is done on another connection.
fn repeated(repeats: bool) -> World {
    let mut world = world();
    setting(&mut world).repeats = repeats;
    transaction(&mut world, 1_000, Effect::RolledBack);
    world.facts.executions[3].link = LinkId(3);
    world.loses(1, 1_500);
    world.runs(1_520, 3, tag(1), Effect::None);
    world.runs(1_530, 3, tag(2), Effect::Committed).runs(1_540, 3, tag(3), Effect::Committed);
    world.facts.executions.sort_by_key(|ran| ran.at_us);
    world
}

#[test]
fn what_was_rolled_back_may_be_done_once_more_where_transactions_are_repeated() {
    repeated(true).check(&[]);
    assert!(repeated(false).broken().contains(&Breach::RanTwice));
}

#[test]
fn a_repeated_transaction_is_there_once() {
    let mut world = repeated(true);
    world.facts.executions[1].effect = Effect::Committed;
    assert!(world.broken().contains(&Breach::RanTwice));
    let mut world = repeated(true);
    world.runs(1_600, 3, tag(2), Effect::RolledBack);
    assert!(world.broken().contains(&Breach::RanTwice));
}
