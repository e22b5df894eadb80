use super::*;
use crate::{
    clients::client::Awaits,
    tests::{TWO_SERVERS, TestWorker, WRITER_AND_READER, snapshot},
};

const READER: HostgroupId = HostgroupId(20);

#[test]
fn a_hostgroup_that_becomes_the_readers_has_a_writer_from_then_on() {
    let apart = WRITER_AND_READER
        .replace("[[replication]]\nwriter_hostgroup = 10\nreader_hostgroup = 20\n", "");
    let (former, today) = (snapshot(&apart), snapshot(WRITER_AND_READER));
    assert_eq!(new_writer(&former, &today, READER), Some(HostgroupId(10)));
}

#[test]
fn a_hostgroup_that_was_the_readers_has_no_new_writer() {
    let today = snapshot(WRITER_AND_READER);
    assert_eq!(new_writer(&today, &today, READER), None);
}

#[test]
fn a_hostgroup_that_is_nobodys_reader_has_none() {
    let (former, today) = (snapshot(TWO_SERVERS), snapshot(WRITER_AND_READER));
    assert_eq!(new_writer(&former, &today, HostgroupId(10)), None);
}

#[test]
fn a_queued_statement_waits_for_its_hostgroup() {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT 1");
    statement.target.hostgroup = READER;
    assert_eq!(waits_for(&mut statement), Some(&mut HostgroupId(20)));
}

#[test]
fn a_delayed_statement_waits_for_where_it_goes_then() {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT 1");
    statement.stage = Stage::held(Awaits::Time, Route::Reader(READER), 0);
    assert_eq!(waits_for(&mut statement), Some(&mut HostgroupId(20)));
    let conn = trunkline_pool::ConnId { index: 0, generation: 1 };
    statement.stage = Stage::held(Awaits::Time, Route::Lease(READER, conn), 0);
    assert_eq!(waits_for(&mut statement), None);
}

#[test]
fn one_that_awaits_what_an_earlier_one_left_waits_for_where_it_goes_then() {
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT LAST_INSERT_ID()");
    statement.stage = Stage::held(Awaits::Past, Route::Hostgroup(READER), 0);
    assert_eq!(waits_for(&mut statement), Some(&mut HostgroupId(20)));
}
