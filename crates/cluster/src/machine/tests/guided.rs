//! A switchover says who writes.

use super::*;

impl Stage {
    fn guide(&mut self, guidance: Guidance) {
        self.on(Input::Switchover(guidance));
    }

    /// Who was made the writer since this was asked last.
    fn writers(&mut self) -> Vec<Option<u32>> {
        let writer = |output: &Output| match output {
            Output::SetWriter(writer) => Some(writer.map(|host| host.0)),
            _ => None,
        };
        let writers = self.out.iter().filter_map(writer).collect();
        self.out.clear();
        writers
    }
}

#[test]
fn servers_that_a_switchover_changes_make_nobody_the_writer_before_it_says_so() {
    let mut stage = Stage::of_three();
    stage.writers();
    stage.guide(Guidance::Drain);
    assert_eq!(stage.out, [Output::Drain]);
    stage.guide(Guidance::Close);
    assert_eq!(stage.writers(), [None]);
    stage.told(1, read_only(1));
    stage.told(2, writable(2));
    assert!(stage.writers().is_empty());
    stage.guide(Guidance::Open(HostId(2)));
    assert_eq!(stage.writers(), [Some(2)]);
    assert_eq!(stage.cluster.writer(), Some(HostId(2)));
    // The old one is a standby until it replicates, and nobody is fenced.
    stage.told(1, replica(1, 2, Thread::Connected));
    stage.told(3, replica(3, 2, Thread::Connected));
    assert_eq!(stage.standings(), [Standing::Reader, Standing::Writer, Standing::Reader]);
    assert!(stage.writers().is_empty());
}

#[test]
fn what_was_asked_before_the_promotion_changes_nothing_behind_it() {
    let mut stage = Stage::of_three();
    stage.guide(Guidance::Drain);
    stage.guide(Guidance::Close);
    let asked_ms = stage.now_ms;
    stage.guide(Guidance::Open(HostId(2)));
    stage.writers();
    for (id, facts) in [(1, writable(1)), (2, replica(2, 1, Thread::Connected))] {
        stage.on(Input::Answer { host: HostId(id), asked_ms, answer: Ok(facts) });
    }
    assert!(stage.writers().is_empty());
    assert_eq!(stage.cluster.writer(), Some(HostId(2)));
}

#[test]
fn a_writer_that_is_opened_again_goes_on() {
    let mut stage = Stage::of_three();
    stage.guide(Guidance::Drain);
    stage.guide(Guidance::Close);
    stage.told(1, read_only(1));
    stage.writers();
    stage.guide(Guidance::Open(HostId(1)));
    assert_eq!(stage.writers(), [Some(1)]);
    stage.told(1, writable(1));
    assert_eq!(stage.cluster.writer(), Some(HostId(1)));
}

#[test]
fn behind_a_release_servers_decide() {
    let mut stage = Stage::of_three();
    stage.guide(Guidance::Drain);
    stage.guide(Guidance::Close);
    stage.told(1, read_only(1));
    stage.writers();
    stage.guide(Guidance::Release);
    assert_eq!(stage.writers(), [None]);
    stage.told(2, writable(2));
    assert_eq!(stage.writers(), [Some(2)]);
}

#[test]
fn in_a_group_nobody_begins_to_write_before_the_switchover_says_so() {
    let kind = Kind::Group(Group { writers_max: 1, behind_max: 0 });
    let policy = Policy { kind, ..Policy::default() };
    let mut stage = Stage::new(policy, &[(1, true), (2, false)]);
    let grouped = |facts: Facts| Facts { membership: Some(Default::default()), ..facts };
    stage.told(1, grouped(writable(1)));
    stage.told(2, grouped(read_only(2)));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader]);
    stage.guide(Guidance::Drain);
    stage.told(1, grouped(writable(1)));
    stage.told(2, grouped(writable(2)));
    assert!(stage.standings().iter().all(|it| *it != Standing::Writer), "{:?}", stage.standings());
    stage.guide(Guidance::Open(HostId(2)));
    assert_eq!(stage.standings(), [Standing::Reader, Standing::Writer]);
}
