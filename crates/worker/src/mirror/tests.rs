use trunkline_session::tracker::PinReason;

use super::*;
use crate::tests::{Reply, TestWorker};

/// Statements of hostgroup 10 are copied to hostgroup 30.
const MIRRORED: &str = r#"
[[server]]
hostgroup = 10
address = "127.0.0.1:3306"
[[server]]
hostgroup = 30
address = "127.0.0.1:3307"
[[user]]
name = "app"
password = "app"
default_hostgroup = 10
[[rule]]
id = 1
match_digest = "INSERT|SELECT"
mirror_hostgroup = 30
"#;
const INSERT: &str = "INSERT INTO s.t VALUES (1)";

#[test]
fn rules_without_a_mirror_order_none() {
    assert_eq!(MirrorOrder::of_effects(&Effects::default()), None);
}

#[test]
fn a_hostgroup_or_a_flag_orders_a_copy() {
    let hostgroup = Some(HostgroupId(30));
    let order =
        MirrorOrder::of_effects(&Effects { mirror_hostgroup: hostgroup, ..Effects::default() });
    assert_eq!(order.map(|it| (it.hostgroup, it.flag)), Some((hostgroup, None)));
    let order = MirrorOrder::of_effects(&Effects { mirror_flag: Some(7), ..Effects::default() });
    assert_eq!(order.map(|it| (it.hostgroup, it.flag)), Some((None, Some(7))));
}

#[test]
fn a_hint_changes_where_a_copy_goes_and_not_whether_it_is_compared() {
    let effects = Effects {
        mirror_hostgroup: Some(HostgroupId(30)),
        mirror_compares: Some(true),
        ..Effects::default()
    };
    let hinted = MirrorOrder::hinted(MirrorOrder::of_effects(&effects), 40);
    assert_eq!(hinted.hostgroup, Some(HostgroupId(40)));
    assert!(hinted.compares && hinted.is_hint);
    assert!(!MirrorOrder::hinted(None, 40).compares);
}

#[test]
fn a_copy_goes_to_the_mirror_and_its_answer_to_nobody() {
    let mut world = TestWorker::with(MIRRORED);
    let client = world.log_in();
    world.ask(client, INSERT);
    assert_eq!(world.asked(), [INSERT, INSERT]);
    world.reply(INSERT, Reply::Ok);
    assert_eq!(world.answer(client), "ok");
    assert_eq!(world.address_asked(INSERT), "127.0.0.1:3307");
    world.reply(INSERT, Reply::Error(1146, "Table 's.t' doesn't exist"));
    assert_eq!(world.answer(client), "");
    assert_eq!(world.core().fx.stats.counters.mirrors_failed, 1);
}

#[test]
fn a_mirror_that_is_the_originals_server_by_another_address_gets_no_copy() {
    for address in ["127.0.0.2:3306", "0.0.0.0:3306", "[::]:3306", "[::ffff:127.0.0.1]:3306"] {
        let config = MIRRORED.replace("127.0.0.1:3307", address);
        let mut world = TestWorker::with(&config);
        let client = world.log_in();
        assert_eq!(world.run(client, INSERT, Reply::Ok), "ok", "{address}");
        assert_eq!(world.asked(), [""; 0], "{address}");
    }
}

#[test]
fn an_original_does_not_wait_for_its_copy() {
    let mut world = TestWorker::with(MIRRORED);
    let client = world.log_in();
    for _ in 0..3 {
        assert_eq!(world.run(client, INSERT, Reply::Ok), "ok");
    }
    assert_eq!(world.worker.clients(), 1, "copies count as no clients");
}

#[test]
fn copies_beyond_the_queue_are_dropped() {
    let limits = "mirror_max_concurrency = 1\nmirror_max_queue_length = 1\n";
    let mut world = TestWorker::with(&format!("{limits}{MIRRORED}"));
    let client = world.log_in();
    for _ in 0..4 {
        assert_eq!(world.run(client, INSERT, Reply::Ok), "ok");
    }
    let counters = &world.core().fx.stats.counters;
    assert_eq!((counters.mirrors_queued, counters.mirrors_dropped), (2, 2));
}

#[test]
fn a_statement_of_a_session_with_state_of_its_own_is_not_copied() {
    let mut world = TestWorker::with(MIRRORED);
    let client = world.log_in();
    world.run(client, "CREATE TEMPORARY TABLE s.x (a INT)", Reply::Ok);
    assert!(world.session(client).leases[0].pins.has(PinReason::TemporaryTable));
    world.run(client, INSERT, Reply::Ok);
    let counters = &world.core().fx.stats.counters;
    assert_eq!((counters.mirrors_queued, counters.mirrors_skipped), (0, 1));
}

#[test]
fn a_copy_waits_for_its_turn_when_one_runs() {
    let mut world = TestWorker::with(&format!("mirror_max_concurrency = 1\n{MIRRORED}"));
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    world.run(client, INSERT, Reply::Ok);
    assert_eq!(world.asked(), [INSERT]);
    assert_eq!(world.worker.commands.exchange.mirrors.waiting(), 1);
    world.reply(INSERT, Reply::Ok);
    // Nobody had said yet what the first one's names are: its connection is closed behind it.
    let asked = world.asked();
    assert_eq!(asked.iter().filter(|text| *text == INSERT).count(), 1, "{asked:?}");
    assert_eq!(world.times_heard(INSERT), 4);
}

#[test]
fn a_worker_that_stops_awaits_the_copy_that_runs() {
    let mut world = TestWorker::with(MIRRORED);
    let client = world.log_in();
    world.run(client, INSERT, Reply::Ok);
    world.happens(|worker| worker.stop_gracefully(u64::MAX));
    assert!(world.is_closed(client));
    let has_stopped = |world: &mut TestWorker| {
        world.actions().iter().any(|it| matches!(it, crate::Action::Stopped))
    };
    assert!(!has_stopped(&mut world), "one runs still");
    world.reply(INSERT, Reply::Ok);
    assert!(has_stopped(&mut world));
}
