use std::sync::Arc;

use super::*;
use crate::{
    AccountId, Asker, Choice, ConnId, ConnState,
    group::tests::{GROUP, server},
};

fn pool() -> (Pool<u32>, SlotId) {
    let mut pool = Pool::new(7);
    let servers = [server(1, 1, 100)];
    pool.apply(servers.iter());
    let slot = pool.slot_of(&Arc::clone(&servers[0]).key).expect("it is there");
    (pool, slot)
}

fn alone(tenant: usize) -> Place {
    Place { tenant: TenantId::new(tenant), is_alone: true }
}

fn choose(pool: &mut Pool<u32>) -> Choice {
    let asker = Asker { account: AccountId(1), now_ms: 1, source: None, only: None };
    pool.choose(GROUP, &asker, |_| false)
}

#[test]
fn a_server_gets_no_more_than_it_may_run_whatever_it_runs() {
    let (mut pool, slot) = pool();
    pool.set_sharing(Concurrency::Fixed(2), None);
    let conn = |index| ConnId { index, generation: 0 };
    for index in 0..3 {
        let it = pool.slot_mut(slot).expect("slot");
        it.relist(AccountId(1), conn(index), ConnState::Unlisted, ConnState::Idle);
    }
    // A transaction runs a statement, on a connection that its session holds.
    pool.begin(slot, alone(0), 1);
    assert!(matches!(choose(&mut pool), Choice::Idle(..)));
    pool.begin(slot, alone(0), 2);
    assert!(matches!(choose(&mut pool), Choice::Wait(_)));
    pool.end(slot, alone(0), 5, 7);
    assert!(matches!(choose(&mut pool), Choice::Idle(..)));
}

#[test]
fn a_limit_holds_for_servers_that_come_later() {
    let (mut pool, _) = pool();
    pool.set_sharing(Concurrency::Fixed(3), None);
    assert_eq!(pool.room(GROUP), Room { places: Some(3), taken: 0 });
    let servers = [server(1, 1, 100), server(2, 1, 100)];
    pool.apply(servers.iter());
    assert_eq!(pool.room(GROUP).places, Some(6));
    pool.set_sharing(Concurrency::Off, None);
    assert_eq!(pool.room(GROUP).places, None);
    assert!(!pool.counts_places());
}

#[test]
fn a_reload_that_begins_to_count_meets_what_runs_already() {
    let (mut pool, slot) = pool();
    pool.begin(slot, alone(3), 1);
    pool.set_sharing(Concurrency::Fixed(2), Some(vec![Terms::default()]));
    pool.add_terms(TenantId::new(2), Terms { share_max: 50, ..Terms::default() });
    assert!(pool.may_begin(GROUP, TenantId::new(2), 5));
    pool.begin(slot, alone(2), 5);
    assert!(!pool.may_begin(GROUP, TenantId::new(2), 5));
    pool.end(slot, alone(2), 5, 10);
    assert!(pool.may_begin(GROUP, TenantId::new(2), 10));
}
