use super::*;
use crate::tests::{TWO_SERVERS, TestWorker, WRITER_AND_READER, snapshot};

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
    use crate::clients::client::Waiting;
    let mut world = TestWorker::new();
    let mut statement = world.statement("SELECT 1");
    let held_back = |route| Some(Box::new(Waiting { route, text_len: 0, awaits_cache: None }));
    statement.held_back = held_back(Route::Reader(READER));
    assert_eq!(waits_for(&mut statement), Some(&mut HostgroupId(20)));
    let conn = trunkline_pool::ConnId { index: 0, generation: 1 };
    statement.held_back = held_back(Route::Lease(READER, conn));
    assert_eq!(waits_for(&mut statement), None);
}
