//! What the pool chooses, by case.

use super::*;
use crate::ConnState::{Connecting, Idle, Leased, Pinned, Shared, Unlisted};
use trunkline_topology::{ServerHealth, ServerState};

pub(crate) fn server(port: u16, weight: u32, max_connections: u32) -> Arc<Server> {
    let address = format!("127.0.0.1:{port}").parse().expect("address");
    let key = ServerKey { hostgroup: HostgroupId(1), address };
    let health = Arc::new(ServerHealth::default());
    let compression = Default::default();
    let resolved = Vec::new();
    let tls = Default::default();
    Arc::new(Server {
        key,
        resolved,
        weight,
        max_connections,
        max_replication_lag: 0,
        compression,
        tls,
        keys: Default::default(),
        rank: 0,
        is_near: true,
        health,
    })
}

pub(crate) const GROUP: HostgroupId = HostgroupId(1);
const ACCOUNT: AccountId = AccountId(0);
pub(crate) const ASKER: Asker = Asker { account: ACCOUNT, now_ms: 0, source: None, only: None };
pub(crate) const NEW: ConnId = ConnId { index: 0, generation: 0 };

fn pool(servers: &[Arc<Server>]) -> Pool<u32> {
    let mut pool = Pool::new(7);
    pool.apply(servers.iter());
    pool
}

fn choose(pool: &mut Pool<u32>) -> Choice {
    pool.choose(GROUP, &ASKER, |_| false)
}

#[test]
fn servers_are_drawn_by_weight() {
    let mut pool = pool(&[server(1, 1, 10), server(2, 3, 10), server(3, 0, 10)]);
    let mut drawn = [0; 3];
    for _ in 0..4_000 {
        drawn[pool.draw(GROUP, &ASKER).expect("online").0] += 1;
    }
    assert_eq!(drawn[2], 0);
    assert!((850..1_150).contains(&drawn[0]), "{drawn:?}");
}

#[test]
fn a_statement_waits_with_its_cause() {
    let mut empty = pool(&[]);
    assert_eq!(choose(&mut empty), Choice::Wait(RefusalCause::NoServer));
    let shunned = server(1, 1, 10);
    shunned.health.shun(100);
    let mut pool = pool(&[shunned]);
    assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::NoneOnline));
    assert!(matches!(
        pool.choose(GROUP, &Asker { now_ms: 100, ..ASKER }, |_| false),
        Choice::Open(_)
    ));
}

#[test]
fn the_cap_is_never_passed() {
    let mut pool = pool(&[server(1, 1, 2)]);
    for _ in 0..2 {
        let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
        pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
    }
    assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllAtMaxConnections));
}

#[test]
fn a_server_without_a_connection_gets_its_share_and_holds_nobody_up() {
    let mut pool = pool(&[server(1, 1, 1_000), server(2, 1, 1_000)]);
    let (one, two) = (SlotId(0), SlotId(1));
    for index in 0..200 {
        pool.slot_mut(one).expect("slot").relist(
            ACCOUNT,
            ConnId { index, generation: 0 },
            Unlisted,
            Idle,
        );
    }
    let drawn: Vec<Choice> = (0..100).map(|_| choose(&mut pool)).collect();
    assert!(drawn.contains(&Choice::Open(two)), "the second server is never connected to");
    pool.slot_mut(two).expect("slot").relist(ACCOUNT, NEW, Unlisted, Connecting);
    let drawn: Vec<Choice> = (0..50).map(|_| choose(&mut pool)).collect();
    assert!(drawn.iter().all(|choice| matches!(choice, Choice::Idle(..))), "{drawn:?}");
}

#[test]
fn another_account_is_reached_by_change_user_when_the_cap_leaves_no_room() {
    let mut pool = pool(&[server(1, 1, 1)]);
    let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
    let conn = ConnId { index: 5, generation: 0 };
    pool.slot_mut(id).expect("slot").relist(AccountId(9), conn, Unlisted, Idle);
    assert_eq!(pool.choose(GROUP, &ASKER, |_| true), Choice::ChangeUser(id, conn));
}

#[test]
fn a_named_server_is_the_only_one_that_is_chosen() {
    let mut pool = pool(&[server(1, 1, 10), server(2, 1, 1)]);
    let (other, named) = (SlotId(0), SlotId(1));
    let idle = |index| ConnId { index, generation: 0 };
    pool.slot_mut(other).expect("slot").relist(ACCOUNT, idle(1), Unlisted, Idle);
    let choose = |pool: &mut Pool<u32>| pool.choose_on(named, &ASKER, |_| false);
    assert_eq!(choose(&mut pool), Choice::Open(named));
    pool.slot_mut(named).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
    assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllAtMaxConnections));
    pool.slot_mut(named).expect("slot").relist(ACCOUNT, NEW, Leased, Unlisted);
    pool.slot_mut(named).expect("slot").relist(ACCOUNT, idle(2), Unlisted, Idle);
    assert_eq!(choose(&mut pool), Choice::Idle(named, idle(2)));
    pool.slot(named).expect("slot").server.health.set_state(ServerState::OfflineSoft);
    assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::NoneOnline));
}

#[test]
fn only_servers_that_come_into_question_are_chosen() {
    let mut pool = pool(&[server(1, 1, 10), server(2, 1, 1), server(3, 0, 10)]);
    let (out, wanted) = (SlotId(0), SlotId(1));
    let second = |server: &Server| server.key.address.to_string().ends_with(":2");
    let only = pool.only(GROUP, 0, second);
    let asker = Asker { only: Some(only), ..ASKER };
    pool.slot_mut(out).expect("slot").relist(ACCOUNT, NEW, Unlisted, Idle);
    assert_eq!(pool.choose(GROUP, &asker, |_| false), Choice::Open(wanted));
    pool.slot_mut(wanted).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
    for _ in 0..20 {
        let choice = pool.choose(GROUP, &asker, |_| false);
        assert_eq!(choice, Choice::Wait(RefusalCause::AllAtMaxConnections));
    }
    let none = pool.only(GROUP, 0, |server| server.weight == 0);
    assert!(none.is_empty(), "it takes no statements");
    let asker = Asker { only: Some(none), ..ASKER };
    assert_eq!(pool.choose(GROUP, &asker, |_| false), Choice::Wait(RefusalCause::NoneOnline));
}

#[test]
fn what_cannot_change_its_account_makes_room_for_those_who_wait() {
    let mut pool = pool(&[server(1, 1, 1)]);
    let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
    let conn = ConnId { index: 5, generation: 0 };
    pool.slot_mut(id).expect("slot").relist(AccountId(9), conn, Unlisted, Idle);
    assert_eq!(choose(&mut pool), Choice::Replace(id, conn));
    assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllAtMaxConnections));
    pool.slot_mut(id).expect("slot").relist(AccountId(9), conn, Unlisted, Idle);
    assert_eq!(pool.choose_dedicated(GROUP, &ASKER), DedicatedChoice::Replace(id, conn));
}

#[test]
fn few_connections_work_at_once_unless_their_statements_run_for_long() {
    let mut pool = pool(&[server(1, 1, 100)]);
    for _ in 0..crate::Width::default().max() {
        let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
        pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
    }
    let id = pool.slots().next().expect("slot").0;
    let conn = ConnId { index: 99, generation: 0 };
    pool.slot_mut(id).expect("slot").relist(ACCOUNT, conn, Unlisted, Idle);
    assert_eq!(choose(&mut pool), Choice::Wait(RefusalCause::AllBusy));
    pool.slot_mut(id).expect("slot").set_stuck(1);
    assert_eq!(choose(&mut pool), Choice::Idle(id, conn));
}

#[test]
fn statements_that_share_use_few_connections_and_more_under_load() {
    let mut pool = pool(&[server(1, 1, 100)]);
    let conn = |index| ConnId { index, generation: 0 };
    let one = SlotId(0);
    for index in 0..4 {
        pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(index), Unlisted, Idle);
    }
    let share =
        |pool: &mut Pool<u32>, depth: usize| pool.choose_shared(GROUP, &ASKER, 64, |_| Some(depth));
    for index in [3, 2] {
        assert_eq!(share(&mut pool, 1), Some(SharedChoice::Idle(conn(index))));
        pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(index), Unlisted, Shared);
    }
    assert!(matches!(share(&mut pool, 8), Some(SharedChoice::Join(..))));
    assert_eq!(share(&mut pool, 30), Some(SharedChoice::Idle(conn(1))));
    pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(1), Unlisted, Shared);
    let deep = pool.choose_shared(GROUP, &ASKER, 1, |_| Some(1));
    assert_eq!(deep, None, "what is full takes no more");
    let alien = pool.choose_shared(GROUP, &ASKER, 64, |_| None);
    assert_eq!(alien, None, "what does not fit is not joined");
    pool.slot_mut(one).expect("slot").relist(ACCOUNT, conn(3), Shared, Unlisted);
    assert_eq!(pool.slot(one).expect("slot").shared(), [conn(1), conn(2)]);
}

#[test]
fn pinned_connections_do_not_keep_others_waiting() {
    let mut pool = pool(&[server(1, 1, 100)]);
    for _ in 0..50 {
        let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
        let slot = pool.slot_mut(id).expect("slot");
        slot.relist(ACCOUNT, NEW, Unlisted, Pinned);
    }
}

#[test]
fn a_removed_server_goes_with_its_last_connection() {
    let mut pool = pool(&[server(1, 1, 10)]);
    let Choice::Open(id) = choose(&mut pool) else { panic!("room") };
    pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Unlisted, Leased);
    assert_eq!(pool.apply([].into_iter()), [id]);
    assert!(!pool.sweep(id));
    pool.slot_mut(id).expect("slot").relist(ACCOUNT, NEW, Leased, Unlisted);
    assert!(pool.sweep(id));
}

fn at(port: u16, rank: u32, is_near: bool) -> Arc<Server> {
    let server = server(port, 1, 10);
    Arc::new(Server { rank, is_near, ..Server::clone(&server) })
}

/// How often each of these is drawn, of 200 times.
fn drawn(pool: &mut Pool<u32>, len: usize) -> Vec<u32> {
    let mut counts = vec![0; len];
    (0..200).for_each(|_| counts[pool.draw(GROUP, &ASKER).expect("one").0] += 1);
    counts
}

#[test]
fn a_higher_rank_serves_only_when_no_lower_one_does() {
    let servers = [at(1, 0, true), at(2, 5, true), at(3, 5, true), at(4, 9, true)];
    let mut pool = pool(&servers);
    assert_eq!(drawn(&mut pool, 4), [200, 0, 0, 0]);
    servers[0].health.set_state(ServerState::OfflineSoft);
    let counts = drawn(&mut pool, 4);
    assert!(counts[1] > 50 && counts[2] > 50 && counts[3] == 0, "{counts:?}");
    servers[1].health.shun(100);
    servers[2].health.set_lagging(true);
    assert_eq!(drawn(&mut pool, 4), [0, 0, 0, 200]);
    servers[0].health.set_state(ServerState::Online);
    assert_eq!(drawn(&mut pool, 4), [200, 0, 0, 0]);
}

#[test]
fn near_servers_come_first_as_long_as_they_have_room_and_others_are_counted() {
    let servers = [at(1, 0, false), at(2, 0, true), at(3, 0, true)];
    let mut pool = pool(&servers);
    let counts = drawn(&mut pool, 3);
    assert!(counts[0] == 0 && counts[1] > 50 && counts[2] > 50, "{counts:?}");
    assert_eq!(pool.take_spilled(), 0);
    // One near server has all its connections busy, then both have.
    for near in [SlotId(1), SlotId(2)] {
        for _ in 0..10 {
            assert!(pool.slot(near).expect("slot").server.health.try_take_connection(10));
        }
    }
    assert_eq!(drawn(&mut pool, 3), [200, 0, 0]);
    assert_eq!((pool.take_spilled(), pool.take_spilled()), (200, 0));
    let conn = ConnId { index: 7, generation: 0 };
    pool.slot_mut(SlotId(1)).expect("slot").relist(ACCOUNT, conn, Unlisted, Idle);
    let counts = drawn(&mut pool, 3);
    assert!(counts[1] > 50, "an idle connection is room: {counts:?}");
    // Nobody near takes statements at all.
    servers[1].health.shun(100);
    servers[2].health.shun(100);
    assert_eq!(drawn(&mut pool, 3), [200, 0, 0]);
}

#[test]
fn a_rank_goes_before_a_zone() {
    let servers = [at(1, 0, false), at(2, 1, true)];
    let mut pool = pool(&servers);
    assert_eq!(drawn(&mut pool, 2), [200, 0]);
    assert_eq!(pool.online(GROUP, 0), [SlotId(0)]);
}
