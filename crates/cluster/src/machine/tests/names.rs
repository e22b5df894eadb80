//! Servers under several names.

use super::*;

/// A member with a name of its own.
fn named(id: u32, name: &str, is_named: bool) -> Input {
    let endpoint = Endpoint { host: name.to_owned(), port: 3306 };
    Input::Member { host: HostId(id), listed: Listed { is_named, ..NAMED }, endpoint }
}

/// A replica that knows its source by this name.
fn replica_of(id: u32, source: u32, name: &str) -> Facts {
    let mut facts = replica(id, source, Thread::Connected);
    facts.sources.iter_mut().for_each(|it| it.endpoint.host = name.to_owned());
    facts
}

#[test]
fn a_server_under_two_names_has_one_role() {
    let mut stage = Stage::of_three();
    let host = HostId(9);
    let at = Endpoint { host: "db1".to_owned(), port: 3306 };
    stage.on(Input::Member { host, listed: NAMED, endpoint: at });
    stage.told(9, writable(1));
    stage.told(1, writable(1));
    assert_eq!((stage.writer(), stage.cluster.standing(host)), (Some(1), Standing::Standby));
    assert_eq!(stage.events(), [("same_server", Some(9))]);
}

#[test]
fn a_server_that_replicas_know_by_another_name_is_the_same() {
    let mut stage = Stage::new(Policy::default(), &[(2, false)]);
    // One name was told by replication, the other one by the server itself.
    stage.on(named(3, "report-host", false));
    stage.told(3, writable(1));
    stage.told(2, replica_of(2, 1, "inner"));
    stage.on(named(4, "inner", false));
    stage.told(4, writable(1));
    assert_eq!(stage.writer(), Some(3));
    assert_eq!(stage.cluster.source_of(HostId(2)), Some(HostId(3)));
    // It is heard under that name, too.
    stage.timed_out(3, 3);
    stage.timed_out(4, 3);
    stage.told(2, Facts { is_writable: true, ..replica_of(2, 1, "inner") });
    assert_eq!(stage.writer(), Some(3));
}

#[test]
fn the_name_that_writes_goes_on_writing() {
    let mut stage = Stage::new(Policy::default(), &[(2, false)]);
    stage.on(named(1, "late", true));
    stage.refused(1, 3);
    stage.told(2, writable(9));
    assert_eq!(stage.writer(), Some(2));
    stage.told(1, writable(9));
    assert_eq!(stage.standings(), [Standing::Standby, Standing::Writer]);
    // Whoever takes writes beside it is fenced as ever.
    stage.on(named(5, "other", true));
    stage.told(5, writable(5));
    stage.told(2, writable(9));
    assert_eq!(stage.writer(), Some(2));
    assert_eq!(stage.cluster.standing(HostId(5)), Standing::Fenced);
}

#[test]
fn a_fenced_server_is_fenced_under_each_name() {
    let mut stage = Stage::of_three();
    stage.on(named(0, "late", true));
    stage.refused(0, 3);
    stage.told(2, writable(2));
    stage.told(1, writable(1));
    assert_eq!(stage.cluster.standing(HostId(2)), Standing::Fenced);
    stage.told(0, writable(2));
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), None);
    assert_eq!(stage.cluster.standing(HostId(2)), Standing::Fenced);
}
