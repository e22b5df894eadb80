use super::*;
use crate::tests::TestWorker;

#[test]
fn a_stage_has_the_connection_that_it_is_on() {
    let conn = ConnId { index: 3, generation: 1 };
    let held = Stage::held(Awaits::Time, Route::Reader(HostgroupId(20)), 0);
    assert!([held, Stage::Queued, Stage::Returning].iter().all(|stage| stage.conn().is_none()));
    let on = [Stage::Synchronising, Stage::Preparing, Stage::Sent, Stage::Shared];
    assert!(on.into_iter().all(|stage| stage(conn).conn() == Some(conn)));
}

/// An execution with these flags.
fn execution(flags: u8) -> Box<Statement> {
    let mut world = TestWorker::new();
    let frames = [10, 0, 0, 0, 0x17, 1, 0, 0, 0, flags, 1, 0, 0, 0];
    world.core().statement(&frames, ResponseShape::Query, Purpose::Execute)
}

#[test]
fn an_execution_says_whether_it_opens_a_cursor() {
    assert!(!execution(0).opens_cursor());
    assert!(execution(1).opens_cursor());
}

#[test]
fn nothing_but_an_execution_opens_a_cursor() {
    let mut statement = execution(1);
    statement.command.purpose = Purpose::Query;
    assert!(!statement.opens_cursor());
}
