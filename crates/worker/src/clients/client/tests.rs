use super::*;
use crate::tests::{Reply, TestWorker};

#[test]
fn so_many_sets_are_remembered_of_a_session_the_latest_last() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    (0..20).for_each(|text| session.remember_set(text));
    session.remember_set(10);
    let expected: Vec<u64> = (4..10).chain(11..20).chain([10]).collect();
    assert_eq!(session.settings.accepted_sets, expected);
}

#[test]
fn of_a_long_statement_that_pins_a_session_the_digest_is_kept() {
    for (value, is_kept) in [("x".repeat(10), true), ("x".repeat(100_000), false)] {
        let mut world = TestWorker::new();
        let client = world.log_in();
        assert_eq!(world.run(client, &format!("SET @w = '{value}', @z = f()"), Reply::Ok), "ok");
        let session = world.session(client);
        let pinned_by = session.leases.first().and_then(|lease| lease.pinned_by.clone());
        let statement = pinned_by.expect("it is held").statement;
        assert_eq!(matches!(statement, PinningStatement::Known(_)), is_kept, "{}", value.len());
        let (digest, text) = statement.digest();
        assert!(digest != 0 && text.starts_with(b"SET @"), "{digest}");
    }
}

#[test]
fn a_client_that_sends_ahead_is_known_by_what_waits() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let client = world.core().clients.get_mut(client).expect("a client");
    assert!(!client.has_sent_ahead());
    client.io.has_more = true;
    assert!(client.has_sent_ahead());
    client.io.has_more = false;
    client.io.follows = true;
    assert!(client.has_sent_ahead());
    client.io.follows = false;
    client.io.inbox.push(1);
    assert!(client.has_sent_ahead());
}

#[test]
fn a_session_is_of_the_family_that_its_texts_are_read_for() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    assert_eq!(session.flavor(), Flavor::MariaDb);
    session.settings.modes.flavor_mariadb = false;
    assert_eq!(session.flavor(), Flavor::MySql);
}

#[test]
fn a_session_is_in_a_transaction_where_a_lease_is() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let conn = ConnId { index: 3, generation: 1 };
    let lease = Lease {
        hostgroup: HostgroupId(10),
        conn,
        pins: Pins::default(),
        is_in_trans: true,
        only_reads: false,
        standing: Default::default(),
        begun_apart: false,
        is_begun: false,
        is_left: false,
        is_in_doubt: false,
        has_written: false,
        pinned_by: None,
    };
    let session = world.session(client);
    session.leases.push(lease);
    assert!(!session.is_in_transaction());
    session.lease_mut(conn).expect("a lease").pins.pin(PinReason::Transaction);
    assert_eq!(session.transaction_lease().map(|lease| lease.conn), Some(conn));
    session.leave_all();
}
