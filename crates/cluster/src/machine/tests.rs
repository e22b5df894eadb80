mod guided;
mod loss;
mod names;
mod several;

use super::{host::SILENT_MS, *};
use crate::facts::{Identity, Source, Thread};

/// A seed.
const NAMED: Listed = Listed { writes: false, reads: false, weight: 1, is_named: true };

/// A cluster that is told step by step, and what it did.
struct Stage {
    cluster: Cluster,
    now_ms: u64,
    out: Vec<Output>,
}

fn endpoint(id: u32) -> Endpoint {
    Endpoint { host: format!("10.0.0.{id}"), port: 3306 }
}

fn identity(id: u32) -> Identity {
    Identity { uuid: Some(format!("uuid-{id}")), server_id: id.into() }
}

/// A server that takes writes.
fn writable(id: u32) -> Facts {
    Facts { identity: identity(id), is_writable: true, ..Facts::default() }
}

/// A read-only server that replicates from another one.
fn replica(id: u32, source: u32, receives: Thread) -> Facts {
    let source = Source {
        endpoint: endpoint(source),
        identity: Identity { uuid: None, server_id: source.into() },
        receives,
        applies: true,
        lag_sec: Some(0),
        error: String::new(),
    };
    Facts { identity: identity(id), sources: vec![source], ..Facts::default() }
}

/// A server that is read-only and replicates from nobody.
fn read_only(id: u32) -> Facts {
    Facts { identity: identity(id), ..Facts::default() }
}

impl Stage {
    fn new(policy: Policy, members: &[(u32, bool)]) -> Self {
        let mut stage = Self { cluster: Cluster::new(policy, None), now_ms: 0, out: Vec::new() };
        for (id, is_listed_writer) in members {
            let host = HostId(*id);
            let writes = *is_listed_writer;
            let listed = Listed { writes, reads: !writes, weight: 1, is_named: true };
            stage.on(Input::Member { host, listed, endpoint: endpoint(*id) });
        }
        stage
    }

    /// Three members, of which the first writes and the others replicate from it.
    fn of_three() -> Self {
        let mut stage = Self::new(Policy::default(), &[(1, false), (2, false), (3, false)]);
        stage.told(1, writable(1));
        stage.told(2, replica(2, 1, Thread::Connected));
        stage.told(3, replica(3, 1, Thread::Connected));
        stage.told(2, replica(2, 1, Thread::Connected));
        assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader, Standing::Reader]);
        stage.out.clear();
        stage
    }

    fn on(&mut self, input: Input) {
        self.now_ms += 10;
        self.cluster.on(self.now_ms, input, &mut self.out);
    }

    fn answer(&mut self, id: u32, answer: Result<Facts, Miss>) {
        let asked_ms = self.now_ms + 5;
        self.on(Input::Answer { host: HostId(id), asked_ms, answer });
    }

    fn told(&mut self, id: u32, facts: Facts) {
        self.answer(id, Ok(facts));
    }

    fn refused(&mut self, id: u32, times: u32) {
        (0..times).for_each(|_| self.answer(id, Err(Miss::Refused("refused".to_owned()))));
    }

    fn timed_out(&mut self, id: u32, times: u32) {
        (0..times).for_each(|_| self.answer(id, Err(Miss::TimedOut)));
    }

    fn seen(&mut self, id: u32, evidence: Evidence) {
        self.on(Input::Traffic { host: HostId(id), evidence });
    }

    fn standings(&self) -> Vec<Standing> {
        self.cluster.hosts.keys().map(|id| self.cluster.standing(*id)).collect()
    }

    fn writer(&self) -> Option<u32> {
        self.cluster.writer().map(|id| id.0)
    }

    /// The names of the events since the last call, with their servers.
    fn events(&mut self) -> Vec<(&'static str, Option<u32>)> {
        let out = std::mem::take(&mut self.out);
        out.into_iter()
            .filter_map(|output| match output {
                Output::Tell(event) => Some((event.kind.name(), event.host.map(|id| id.0))),
                Output::Ask(_)
                | Output::SetWriter(_)
                | Output::SetReader(..)
                | Output::SetPlaces(..)
                | Output::Drain
                | Output::Discovered(_) => None,
            })
            .collect()
    }
}

#[test]
fn nobody_writes_before_every_member_was_seen() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false)]);
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), None);
    stage.told(1, replica(1, 2, Thread::Connected));
    assert_eq!(stage.writer(), Some(2));
    assert_eq!(stage.standings(), [Standing::Reader, Standing::Writer]);
}

#[test]
fn a_member_that_is_down_at_the_beginning_is_not_waited_for() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false)]);
    stage.told(1, writable(1));
    stage.refused(2, 2);
    assert_eq!(stage.writer(), None);
    stage.refused(2, 1);
    assert_eq!(stage.writer(), Some(1));
}

#[test]
fn a_switchover_by_hand_is_followed() {
    let mut stage = Stage::of_three();
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), None);
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(2));
    stage.told(1, replica(1, 2, Thread::Connected));
    stage.told(3, replica(3, 2, Thread::Connected));
    assert_eq!(stage.standings(), [Standing::Reader, Standing::Writer, Standing::Reader]);
    let events = stage.events();
    let wanted = [
        ("lost_master", Some(1)),
        ("new_master", Some(2)),
        ("lost_slave", Some(2)),
        ("new_slave", Some(1)),
    ];
    assert_eq!(events.iter().filter(|it| it.0 != "lost_slave").count(), 3, "{events:?}");
    assert!(events.iter().all(|it| wanted.contains(it)), "{events:?}");
}

#[test]
fn the_successor_of_a_switchover_may_be_seen_first() {
    let mut stage = Stage::of_three();
    stage.told(2, writable(2));
    assert_eq!((stage.writer(), stage.cluster.standing(HostId(2))), (Some(1), Standing::Reader));
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn a_second_writer_is_fenced_until_it_is_read_only() {
    let mut stage = Stage::of_three();
    stage.told(2, writable(2));
    stage.told(1, writable(1));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Fenced, Standing::Reader]);
    // Not even when the writer goes.
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), None);
    stage.told(2, replica(2, 1, Thread::Connected));
    stage.told(1, writable(1));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader, Standing::Reader]);
}

#[test]
fn an_operator_may_say_that_a_fenced_server_is_well() {
    let mut stage = Stage::of_three();
    stage.told(2, writable(2));
    stage.told(1, writable(1));
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), None);
    stage.on(Input::Unfence(HostId(2)));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn a_replica_that_takes_writes_goes_on_reading_and_is_told_once() {
    let mut stage = Stage::of_three();
    for _ in 0..3 {
        let careless = Facts { is_writable: true, ..replica(2, 1, Thread::Connected) };
        stage.told(2, careless);
        stage.told(1, writable(1));
    }
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader, Standing::Reader]);
    assert_eq!(stage.events(), [("writable_replica", Some(2))]);
    // Its source is gone, and it has not been promoted.
    stage.refused(1, 3);
    stage.told(2, Facts { is_writable: true, ..replica(2, 1, Thread::Connecting) });
    stage.told(3, replica(3, 1, Thread::Connecting));
    assert_eq!(stage.writer(), Some(1));
}

#[test]
fn a_primary_that_dies_is_followed_by_the_server_that_is_promoted() {
    let mut stage = Stage::of_three();
    stage.refused(1, 3);
    stage.told(2, replica(2, 1, Thread::Connecting));
    stage.told(3, replica(3, 1, Thread::Connecting));
    assert_eq!(stage.writer(), Some(1));
    stage.told(3, writable(3));
    stage.told(2, replica(2, 3, Thread::Connected));
    assert_eq!(stage.writer(), Some(3));
    // The old one comes back as if nothing had happened.
    stage.told(1, writable(1));
    stage.told(3, writable(3));
    assert_eq!(stage.standings(), [Standing::Fenced, Standing::Reader, Standing::Writer]);
}

#[test]
fn a_primary_that_only_restarts_stays_the_writer() {
    let mut stage = Stage::of_three();
    stage.refused(1, 5);
    assert_eq!((stage.writer(), stage.cluster.reach(HostId(1))), (Some(1), Reach::Down));
    stage.told(1, writable(1));
    assert_eq!((stage.writer(), stage.cluster.reach(HostId(1))), (Some(1), Reach::Up));
    assert_eq!(stage.events(), [("master_down", Some(1)), ("master_up", Some(1))]);
}

#[test]
fn time_outs_change_no_role() {
    let mut stage = Stage::of_three();
    let before = stage.standings();
    for id in [1, 2, 3] {
        stage.timed_out(id, 50);
    }
    assert_eq!(stage.standings(), before);
}

#[test]
fn a_server_that_answers_statements_is_not_down() {
    let mut stage = Stage::of_three();
    stage.timed_out(1, 1);
    stage.seen(1, Evidence::Answered);
    stage.timed_out(1, 10);
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(1));
    assert_ne!(stage.cluster.reach(HostId(1)), Reach::Down);
}

#[test]
fn answers_to_statements_are_of_interest_from_the_first_question_that_takes_long() {
    let mut stage = Stage::of_three();
    let wants = |stage: &Stage, now_ms| stage.cluster.wants_answers(HostId(1), now_ms);
    assert!(!wants(&stage, stage.now_ms));
    let asked_ms = stage.now_ms + 5_000;
    stage.cluster.tick(asked_ms, &mut stage.out);
    assert!(!wants(&stage, asked_ms + 50));
    assert!(wants(&stage, asked_ms + 100));
    // One that was answered before the second question failed speaks for it, too.
    stage.now_ms = asked_ms;
    stage.timed_out(1, 1);
    assert!(wants(&stage, stage.now_ms));
    stage.seen(1, Evidence::Answered);
    stage.timed_out(1, 2);
    assert_eq!(stage.cluster.reach(HostId(1)), Reach::Suspect);
    stage.told(1, writable(1));
    assert!(!wants(&stage, stage.now_ms));
}

#[test]
fn questions_that_fail_between_answered_statements_are_not_in_a_row() {
    let mut stage = Stage::of_three();
    stage.timed_out(1, 1);
    stage.seen(1, Evidence::Answered);
    stage.now_ms += 2 * SILENT_MS;
    stage.timed_out(1, 2);
    assert_eq!(stage.cluster.reach(HostId(1)), Reach::Suspect);
}

#[test]
fn a_time_out_does_not_speak_for_the_writer() {
    let mut stage = Stage::of_three();
    stage.told(2, writable(2));
    stage.timed_out(1, 1);
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader, Standing::Reader]);
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn of_two_that_take_writes_none_is_chosen_for_the_others_time_outs() {
    let mut stage = Stage::of_three();
    stage.told(2, writable(2));
    stage.told(3, writable(3));
    stage.told(1, read_only(1));
    assert_eq!(stage.writer(), None);
    stage.timed_out(2, 2);
    assert_eq!(stage.cluster.reach(HostId(2)), Reach::Suspect);
    assert_eq!(stage.writer(), None);
    stage.told(2, replica(2, 3, Thread::Connected));
    assert_eq!(stage.writer(), Some(3));
}

#[test]
fn a_server_that_has_answered_statements_for_a_while_may_go_down() {
    let mut stage = Stage::of_three();
    stage.refused(1, 2);
    stage.seen(1, Evidence::Answered);
    stage.refused(1, 1);
    assert_eq!(stage.cluster.reach(HostId(1)), Reach::Suspect);
    stage.refused(1, 3);
    assert_eq!(stage.cluster.reach(HostId(1)), Reach::Down);
    let mut stage = Stage::of_three();
    stage.seen(1, Evidence::Answered);
    stage.timed_out(1, 20);
    assert_eq!(stage.cluster.reach(HostId(1)), Reach::Suspect);
    stage.now_ms += SILENT_MS;
    stage.timed_out(1, 1);
    assert_eq!(stage.cluster.reach(HostId(1)), Reach::Down);
}

#[test]
fn a_primary_that_its_replicas_still_hear_is_not_lost() {
    let mut stage = Stage::of_three();
    stage.timed_out(1, 3);
    stage.told(3, replica(3, 1, Thread::Connected));
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(1));
    stage.told(3, replica(3, 1, Thread::Connecting));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn between_two_that_take_writes_nobody_is_chosen() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false)]);
    stage.told(1, writable(1));
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), None);
    assert_eq!(stage.events(), [("conflict", Some(1)), ("conflict", Some(2))]);
    stage.told(2, read_only(2));
    assert_eq!(stage.writer(), Some(1));
}

#[test]
fn an_answer_that_was_overtaken_counts_for_nothing() {
    let mut stage = Stage::of_three();
    let asked_ms = stage.now_ms + 1;
    stage.told(1, read_only(1));
    stage.told(2, writable(2));
    stage.on(Input::Answer { host: HostId(1), asked_ms, answer: Ok(writable(1)) });
    assert_eq!(stage.writer(), Some(2));
    assert_ne!(stage.cluster.standing(HostId(1)), Standing::Fenced);
}

#[test]
fn a_refused_password_takes_no_role_away_and_is_told_once() {
    let mut stage = Stage::of_three();
    let before = stage.standings();
    for _ in 0..5 {
        stage.answer(1, Err(Miss::Denied("error 1045".to_owned())));
    }
    assert_eq!(stage.standings(), before);
    assert_eq!(stage.events(), [("trouble", Some(1))]);
    assert_eq!(stage.cluster.trouble(HostId(1)), Some("error 1045"));
}

#[test]
fn servers_up_and_down_the_tree_are_discovered_once() {
    let mut stage = Stage::new(Policy::default(), &[(2, false)]);
    let below = Facts { replicas: vec![endpoint(3)], ..replica(2, 1, Thread::Connected) };
    stage.told(2, below.clone());
    stage.told(2, below);
    let discovered = |out: &[Output]| {
        let found = out.iter().filter_map(|it| match it {
            Output::Discovered(endpoint) => Some(endpoint.host.clone()),
            _ => None,
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(discovered(&stage.out), ["10.0.0.1", "10.0.0.3"]);
    // What a primary replicates from is another cluster.
    stage.out.clear();
    let host = HostId(1);
    stage.on(Input::Member { host, listed: NAMED, endpoint: endpoint(1) });
    stage.told(1, Facts { is_writable: true, ..replica(1, 7, Thread::Connected) });
    assert_eq!(discovered(&stage.out), [] as [&str; 0]);
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader]);
}

#[test]
fn where_a_replica_says_that_it_is_may_be_another_clusters_server() {
    let mut stage = Stage::new(Policy::default(), &[(1, false)]);
    let discovered = Listed { is_named: false, ..NAMED };
    let found = |id| Input::Member { host: HostId(id), listed: discovered, endpoint: endpoint(id) };
    // The primary is read-only for a moment, and what its replica's report_host names is not.
    stage.told(1, Facts { replicas: vec![endpoint(7)], ..read_only(1) });
    stage.on(found(7));
    stage.told(7, Facts { replicas: vec![endpoint(8)], ..writable(7) });
    stage.on(found(8));
    stage.told(8, replica(8, 7, Thread::Connected));
    assert_eq!(stage.standings(), [Standing::Standby; 3]);
    assert!(!stage.out.contains(&Output::Discovered(endpoint(8))));
    stage.told(1, writable(1));
    assert_eq!(stage.writer(), Some(1));
    // A replica belongs to it once it replicates from a member, and may be promoted then.
    stage.on(found(2));
    stage.told(2, replica(2, 1, Thread::Connected));
    assert_eq!(stage.cluster.standing(HostId(2)), Standing::Reader);
    stage.told(1, read_only(1));
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn a_replica_of_a_fenced_server_does_not_read() {
    let mut stage = Stage::of_three();
    stage.refused(1, 3);
    stage.told(2, writable(2));
    stage.told(3, replica(3, 1, Thread::Connecting));
    stage.told(2, writable(2));
    stage.told(1, writable(1));
    stage.told(2, writable(2));
    assert_eq!(stage.cluster.standing(HostId(1)), Standing::Fenced);
    stage.told(3, replica(3, 1, Thread::Connected));
    assert_eq!(stage.cluster.standing(HostId(3)), Standing::Standby);
    stage.told(3, replica(3, 2, Thread::Connected));
    assert_eq!(stage.cluster.standing(HostId(3)), Standing::Reader);
}

#[test]
fn a_writer_that_is_no_member_any_more_loses_its_role() {
    let mut stage = Stage::of_three();
    stage.on(Input::Gone(HostId(1)));
    assert_eq!(stage.writer(), None);
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn who_is_asked_and_how_often() {
    let mut stage = Stage::of_three();
    let asked = |stage: &mut Stage, now_ms: u64| {
        let mut out = Vec::new();
        stage.cluster.tick(now_ms, &mut out);
        out.len()
    };
    let now_ms = stage.now_ms + 5_000;
    assert_eq!((asked(&mut stage, now_ms), asked(&mut stage, now_ms)), (3, 0));
    // All wait for answers.
    assert_eq!(stage.cluster.next_ms(), None);
    stage.now_ms = now_ms;
    stage.told(1, read_only(1));
    stage.told(2, replica(2, 1, Thread::Connected));
    // There is no writer: soon again.
    assert!(stage.cluster.next_ms().is_some_and(|at_ms| at_ms <= stage.now_ms + 100));
    // A write was refused since a server is read-only: at once.
    stage.seen(1, Evidence::ReadOnly);
    assert_eq!(stage.cluster.next_ms(), Some(stage.now_ms));
}

#[test]
fn a_silent_server_is_asked_rarely_and_one_that_refuses_often() {
    let asked = |fail: fn(&mut Stage)| {
        let mut stage = Stage::of_three();
        fail(&mut stage);
        let begun_ms = stage.now_ms;
        let mut asked = 0;
        while stage.now_ms < begun_ms + 30_000 {
            stage.now_ms += 10;
            let mut out = Vec::new();
            stage.cluster.tick(stage.now_ms, &mut out);
            asked += out.iter().filter(|it| **it == Output::Ask(HostId(1))).count();
            if out.contains(&Output::Ask(HostId(1))) {
                fail(&mut stage);
            }
        }
        asked
    };
    // As many connections would count as errors of the proxy when the server goes on.
    assert!(asked(|stage| stage.timed_out(1, 3)) <= 12);
    assert!(asked(|stage| stage.refused(1, 3)) >= 200);
}
