//! Roles that several servers have at a time.

use super::*;
use crate::facts::{Membership, View};

const OF_LISTS: Policy = Policy {
    interval_ms: 1_000,
    urgent_ms: 100,
    writer_reads: WriterReads::Yes,
    kind: Kind::ReadOnly,
    begins_as_listed: true,
    discovers: false,
    fails_over: false,
};

fn group(writers_max: u32, writer_reads: WriterReads) -> Policy {
    let kind = Kind::Group(Group { writers_max, behind_max: 10 });
    Policy { kind, writer_reads, ..Policy::default() }
}

/// A server of a group that takes writes.
fn member(id: u32) -> Facts {
    Facts { membership: Some(Membership::default()), ..writable(id) }
}

fn refusing(id: u32, why: &str) -> Facts {
    let refusal = Some(why.to_owned());
    Facts { membership: Some(Membership { refusal, ..Membership::default() }), ..writable(id) }
}

/// Three members of a group, of which one writes.
fn of_group(policy: Policy) -> Stage {
    let mut stage = Stage::new(policy, &[(1, false), (2, false), (3, false)]);
    for id in [1, 2, 3] {
        assert!(stage.standings().iter().all(|it| *it != Standing::Writer), "before all are seen");
        stage.told(id, member(id));
    }
    stage
}

#[test]
fn servers_are_what_they_are_listed_as_until_they_have_told() {
    let mut stage = Stage::new(OF_LISTS, &[(1, true), (2, false)]);
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader]);
    stage.timed_out(1, 5);
    stage.answer(2, Err(Miss::Denied("error 1045".to_owned())));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader]);
}

#[test]
fn each_server_that_takes_writes_is_a_writer_and_goes_on_reading() {
    let mut stage = Stage::new(OF_LISTS, &[(1, true), (2, false)]);
    stage.told(1, writable(1));
    stage.told(2, writable(2));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Writer]);
    let reads = |stage: &Stage| [1, 2].map(|id| stage.cluster.places(HostId(id)).reads);
    assert_eq!(reads(&stage), [false, true], "who was never a reader does not become one");
    stage.told(1, read_only(1));
    assert_eq!(stage.standings(), [Standing::Reader, Standing::Writer]);
    stage.told(1, writable(1));
    assert_eq!(reads(&stage), [true, true]);
    stage.cluster.set_policy(Policy { writer_reads: WriterReads::No, ..OF_LISTS });
    stage.told(2, writable(2));
    assert_eq!(reads(&stage), [false, false]);
}

#[test]
fn a_role_is_lost_before_another_server_gets_it() {
    let policy = group(1, WriterReads::No);
    let mut stage = of_group(policy);
    stage.out.clear();
    stage.told(1, refusing(1, "its wsrep_cluster_status is non-Primary"));
    let places = |output: &Output| match output {
        Output::SetPlaces(id, places) => Some((id.0, places.writes)),
        _ => None,
    };
    let set: Vec<_> = stage.out.iter().filter_map(places).collect();
    assert_eq!(set, [(1, false), (2, true)]);
    assert_eq!(stage.events(), [("lost_master", Some(1)), ("new_master", Some(2))]);
}

#[test]
fn nothing_goes_on_at_a_member_that_does_not_serve() {
    let mut stage = of_group(group(1, WriterReads::No));
    let outs = |stage: &Stage| [1, 2, 3].map(|id| stage.cluster.places(HostId(id)).is_out);
    // One that is well and writes no more finishes what is under way.
    let listed = Listed { weight: 9, ..NAMED };
    stage.on(Input::Member { host: HostId(3), listed, endpoint: endpoint(3) });
    assert_eq!(stage.cluster.standing(HostId(1)), Standing::BackupWriter);
    let membership = Some(Membership { behind: 11, ..Membership::default() });
    stage.told(2, Facts { membership, is_writable: false, ..writable(2) });
    assert_eq!(outs(&stage), [false, false, false]);
    // One that is too far behind takes nothing new, and then it leaves its group.
    stage.told(2, refusing(2, "its member_state is OFFLINE"));
    assert_eq!(outs(&stage), [false, true, false]);
    stage.refused(1, 3);
    assert_eq!(outs(&stage), [true, true, false]);
    stage.told(2, member(2));
    stage.told(1, member(1));
    assert_eq!(outs(&stage), [false, false, false]);
}

#[test]
fn as_many_members_of_a_group_write_as_may() {
    let backup = Standing::BackupWriter;
    assert_eq!(of_group(group(1, WriterReads::No)).standings(), [Standing::Writer, backup, backup]);
    let mut stage = of_group(group(2, WriterReads::OnlyBackups));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Writer, backup]);
    let reads = [1, 2, 3].map(|id| stage.cluster.places(HostId(id)).reads);
    assert_eq!(reads, [false, false, true]);
    stage.refused(2, 3);
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Standby, Standing::Writer]);
    stage.told(2, member(2));
    assert_eq!(
        stage.standings(),
        [Standing::Writer, backup, Standing::Writer],
        "nobody moves back"
    );
}

#[test]
fn the_greatest_weight_writes() {
    let mut stage = of_group(group(1, WriterReads::No));
    let listed = Listed { weight: 9, ..NAMED };
    stage.on(Input::Member { host: HostId(3), listed, endpoint: endpoint(3) });
    assert_eq!(stage.cluster.standing(HostId(3)), Standing::Writer);
    assert_eq!(stage.cluster.standing(HostId(1)), Standing::BackupWriter);
}

#[test]
fn a_reader_of_a_group_that_is_too_far_behind_reads_no_more() {
    let mut stage = of_group(group(1, WriterReads::No));
    let behind = |behind| {
        let membership = Some(Membership { behind, ..Membership::default() });
        Facts { membership, is_writable: false, ..writable(3) }
    };
    stage.told(3, behind(10));
    assert_eq!(stage.cluster.standing(HostId(3)), Standing::Reader);
    stage.told(3, behind(11));
    assert_eq!(stage.cluster.standing(HostId(3)), Standing::Standby);
}

#[test]
fn a_group_without_a_writer_is_asked_at_once() {
    let mut stage = of_group(group(1, WriterReads::No));
    let mut asked = Vec::new();
    stage.cluster.tick(stage.now_ms, &mut asked);
    for id in [1, 2, 3] {
        stage.told(id, refusing(id, "its wsrep_local_state is 1"));
    }
    assert!(stage.standings().iter().all(|it| *it == Standing::Standby));
    assert!(stage.cluster.next_ms().is_some_and(|at_ms| at_ms <= stage.now_ms + 100));
}

#[test]
fn a_primary_that_knows_an_older_view_does_not_write() {
    let primary = |id, number| {
        let view = Some(Box::new(View { of: "shop".to_owned(), number }));
        Facts { membership: Some(Membership { view, ..Membership::default() }), ..writable(id) }
    };
    let secondary = |id, number| Facts { is_writable: false, ..primary(id, number) };
    let mut stage = Stage::new(group(1, WriterReads::No), &[(1, false), (2, false), (3, false)]);
    stage.told(1, primary(1, 4));
    stage.told(2, secondary(2, 4));
    stage.told(3, secondary(3, 4));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader, Standing::Reader]);
    // Another one is made the primary; the old one was cut off and does not know it.
    stage.told(2, primary(2, 5));
    assert_eq!(stage.standings(), [Standing::Standby, Standing::Writer, Standing::Reader]);
    stage.told(1, primary(1, 4));
    assert_eq!(stage.standings(), [Standing::Standby, Standing::Writer, Standing::Reader]);
    // A secondary may know less for a moment.
    stage.told(1, secondary(1, 5));
    assert_eq!(stage.standings(), [Standing::Reader, Standing::Writer, Standing::Reader]);
    // Views of something else say nothing.
    let mut other = primary(2, 1);
    other.membership.iter_mut().flat_map(|it| &mut it.view).for_each(|it| it.of.clear());
    stage.told(2, other);
    assert_eq!(stage.cluster.standing(HostId(2)), Standing::Writer);
}
