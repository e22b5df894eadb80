use std::{cell::Cell, rc::Rc, sync::Arc};

use trunkline_pool::ConnId;
use trunkline_protocol::packet::status;
use trunkline_session::tracker::{PinReason, Pins};
use trunkline_topology::HostgroupId;

use crate::{
    clients::client::{Lease, Session},
    exchange::begun::{Begun, BegunAccess},
    replay::{Held, Kept},
    tests::TestWorker,
};

const OPEN: u16 = status::AUTOCOMMIT | status::IN_TRANS | status::IN_TRANS_READONLY;

fn conn(index: u32) -> ConnId {
    ConnId { index, generation: 1 }
}

fn lease(index: u32, reasons: &[PinReason]) -> Lease {
    let mut pins = Pins::default();
    reasons.iter().for_each(|reason| pins.pin(*reason));
    Lease {
        hostgroup: HostgroupId(index),
        conn: conn(index),
        pins,
        is_in_trans: false,
        only_reads: false,
        standing: Default::default(),
        begun_apart: false,
        is_begun: false,
        is_left: false,
        is_in_doubt: false,
        has_written: false,
        pinned_by: None,
    }
}

/// Has a session keep what it has said on this connection.
fn keep(session: &mut Session, index: u32, all: &Rc<Cell<usize>>) {
    let mut held = Held { all: Rc::clone(all), len: 0 };
    held.set(100);
    let state = Arc::clone(&session.settings.state);
    let kept = Kept::new(HostgroupId(index), conn(index), state, held, 0);
    session.transaction.kept = Some(Box::new(kept));
}

#[test]
fn what_counts_on_a_connection_goes_with_it() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    let all = Rc::default();
    type Leave = fn(&mut Session);
    let ways: [Leave; 3] = [
        |session| drop(session.leave(conn(1))),
        |session| drop(session.leave_where(|lease| lease.conn == conn(1))),
        |session| drop(session.leave_all()),
    ];
    for leave in ways {
        session.leases.push(lease(1, &[PinReason::Transaction]));
        session.settings.status = OPEN;
        keep(session, 1, &all);
        leave(session);
        assert!(session.leases.is_empty() && session.transaction.kept.is_none());
        assert_eq!(session.settings.status, status::AUTOCOMMIT);
        assert_eq!(all.get(), 0);
    }
}

#[test]
fn what_counts_on_another_connection_stays() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    let all = Rc::default();
    session.leases.push(lease(1, &[PinReason::Transaction]));
    session.leases.push(lease(2, &[PinReason::Transaction]));
    session.settings.status = OPEN;
    keep(session, 2, &all);
    let left = session.leave(conn(1)).expect("it was held");
    assert_eq!((left.lease.conn, left.kept.is_none()), (conn(1), true));
    assert!(session.leave(conn(1)).is_none());
    assert_eq!((session.settings.status, session.leases.len()), (OPEN, 1));
    assert!(session.transaction.kept.is_some());
    let left = session.leave(conn(2)).expect("it was held");
    assert!(left.kept.is_some_and(|kept| kept.conn == conn(2)), "it may be repeated");
    assert_eq!(session.settings.status, status::AUTOCOMMIT);
}

#[test]
fn a_begin_that_is_not_answered_goes_on_elsewhere() {
    let mut world = TestWorker::new();
    let client = world.log_in();
    let session = world.session(client);
    let (hostgroup, access) = (HostgroupId(3), BegunAccess::ReadOnly);
    session.settings.begun = Some(Begun { hostgroup, may_leave_reader: false, access });
    session.settings.status = OPEN;
    let is_begun = Lease { is_begun: true, ..lease(3, &[]) };
    session.leases.push(is_begun);
    assert!(session.leave(conn(3)).is_some());
    assert_eq!((session.settings.status, session.settings.begun.is_some()), (OPEN, true));
    session.settings.begun = None;
    session.settings.status = status::AUTOCOMMIT;
}
