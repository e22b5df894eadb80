//! When the writer is lost.

use super::*;

impl Stage {
    /// Why the loss is doubtful or certain; empty where there is none.
    fn loss(&self) -> (&'static str, String) {
        match self.cluster.loss() {
            Loss::None => ("none", String::new()),
            Loss::ReadOnly { writer } => ("read-only", format!("{writer:?}")),
            Loss::Doubtful { why, .. } => ("doubtful", why),
            Loss::Certain { why, .. } => ("certain", why),
        }
    }

    fn expect(&self, kind: &str, part: &str) {
        let (found, why) = self.loss();
        assert!(found == kind && why.contains(part), "{found}: {why}, not {kind}: {part}");
    }

    fn loses(&mut self, replicas: &[u32]) {
        for id in replicas {
            self.told(*id, replica(*id, 1, Thread::Connecting));
        }
    }
}

#[test]
fn a_writer_that_refuses_is_lost_as_soon_as_all_replicas_say_so() {
    let mut stage = Stage::of_three();
    stage.expect("none", "");
    stage.refused(1, 1);
    stage.expect("doubtful", "2 of 2 replicas are connected");
    stage.loses(&[2]);
    stage.expect("doubtful", "1 of 2 replicas are connected");
    stage.loses(&[3]);
    stage.expect("certain", "it refuses connections, and 2 of 2");
    stage.seen(1, Evidence::Answered);
    stage.expect("none", "");
}

#[test]
fn time_outs_alone_lose_nothing() {
    let mut stage = Stage::of_three();
    stage.timed_out(1, 5);
    for id in [2, 3] {
        stage.told(id, replica(id, 1, Thread::Connected));
    }
    stage.expect("doubtful", "2 of 2 replicas are connected");
    stage.loses(&[2, 3]);
    stage.expect("certain", "it does not answer");
    let mut stage = Stage::of_three();
    stage.timed_out(1, 2);
    stage.loses(&[2, 3]);
    stage.expect("doubtful", "it may only be slow");
    stage.timed_out(1, 1);
    stage.expect("certain", "");
}

#[test]
fn replicas_that_are_silent_are_no_witnesses_and_those_that_are_gone_need_not_be_any() {
    let mut stage = Stage::of_three();
    stage.refused(1, 3);
    stage.loses(&[2]);
    stage.timed_out(3, 3);
    stage.expect("doubtful", "1 of 2 replicas can't say");
    let mut stage = Stage::of_three();
    stage.refused(3, 3);
    stage.refused(1, 3);
    stage.loses(&[2]);
    stage.expect("certain", "1 of 1");
    // One that an operator has stopped says nothing.
    let mut stage = Stage::of_three();
    stage.refused(1, 3);
    stage.told(2, replica(2, 1, Thread::Stopped));
    stage.told(3, replica(3, 1, Thread::Stopped));
    stage.expect("doubtful", "no replica says");
}

#[test]
fn what_replicas_said_before_says_nothing() {
    let mut stage = Stage::of_three();
    stage.loses(&[2, 3]);
    stage.refused(1, 3);
    stage.expect("doubtful", "are connected");
}

#[test]
fn a_writer_in_maintenance_and_one_with_a_successor_are_not_lost() {
    let mut stage = Stage::of_three();
    stage.on(Input::Away(HostId(1), true));
    stage.refused(1, 3);
    stage.loses(&[2, 3]);
    stage.expect("none", "");
    stage.on(Input::Away(HostId(1), false));
    stage.expect("certain", "");
    stage.told(2, writable(2));
    stage.expect("none", "");
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn a_proxy_that_begins_after_the_loss_knows_it_by_the_replicas() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false), (3, false)]);
    stage.refused(1, 3);
    stage.loses(&[2, 3]);
    stage.expect("certain", "2 of 2");
}

#[test]
fn a_writer_that_an_earlier_process_has_replaced_is_not_taken_back() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false)]);
    stage.on(Input::Fence(HostId(1)));
    stage.refused(2, 3);
    stage.told(1, writable(1));
    assert_eq!((stage.writer(), stage.standings()[0]), (None, Standing::Fenced));
    // Its replicas were not repointed before that process ended.
    stage.on(Input::Member { host: HostId(3), listed: NAMED, endpoint: endpoint(3) });
    stage.told(3, replica(3, 1, Thread::Connected));
    assert_eq!((stage.writer(), stage.standings()[0]), (None, Standing::Fenced));
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(2));
}

#[test]
fn a_replaced_writer_that_all_others_follow_again_is_the_writer() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false)]);
    stage.on(Input::Fence(HostId(1)));
    stage.told(1, writable(1));
    assert_eq!((stage.writer(), stage.standings()[0]), (None, Standing::Fenced));
    stage.told(2, replica(2, 1, Thread::Connected));
    assert_eq!(stage.writer(), Some(1));
}

#[test]
fn a_server_in_maintenance_takes_no_reads_and_is_not_chosen() {
    let mut stage = Stage::of_three();
    stage.on(Input::Away(HostId(2), true));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Standby, Standing::Reader]);
    stage.on(Input::Away(HostId(2), false));
    assert_eq!(stage.standings(), [Standing::Writer, Standing::Reader, Standing::Reader]);
}

#[test]
fn a_replaced_writer_that_comes_back_is_no_writer_while_its_successor_is_down() {
    let mut stage = Stage::of_three();
    stage.refused(1, 3);
    stage.loses(&[2, 3]);
    stage.on(Input::Switchover(Guidance::Drain));
    stage.on(Input::Switchover(Guidance::Close));
    stage.on(Input::Switchover(Guidance::Open(HostId(2))));
    stage.on(Input::Replaced(HostId(1)));
    assert_eq!(stage.writer(), Some(2));
    stage.told(3, replica(3, 2, Thread::Connected));
    stage.refused(2, 3);
    stage.told(3, replica(3, 2, Thread::Connecting));
    stage.told(1, writable(1));
    assert_eq!(stage.writer(), Some(2), "it lacks what its successor has written");
    // Read-only, and on its way to nobody: it may begin to write again.
    stage.told(1, read_only(1));
    stage.told(1, writable(1));
    assert_eq!(stage.writer(), Some(2));
}

/// Somebody else, such as another proxy, promotes 2 while 1 is silent.
fn replaced_by_another(policy: Policy) -> Stage {
    let mut stage = Stage::of_three();
    stage.cluster.set_policy(policy);
    stage.timed_out(1, 3);
    stage.loses(&[3]);
    stage.told(2, writable(2));
    assert_eq!(stage.writer(), Some(2));
    stage.refused(2, 3);
    stage.told(1, writable(1));
    stage
}

#[test]
fn a_writer_that_another_proxy_has_replaced_is_none_while_its_successor_is_down() {
    let mut stage = replaced_by_another(Policy { fails_over: true, ..Policy::default() });
    assert_eq!(stage.writer(), Some(2), "it lacks what its successor has written");
    assert!(stage.cluster.is_replaced(HostId(1)));
    stage.on(Input::Unfence(HostId(1)));
    assert_eq!(stage.writer(), Some(1), "a person has decided");
    // Where a person promotes servers, the one that is opened is the one that is meant.
    assert_eq!(replaced_by_another(Policy::default()).writer(), Some(1));
}

#[test]
fn a_successor_that_was_lost_before_it_was_chosen_is_not_forgotten() {
    // The process has just begun: 1 says nothing, so that it is not certain yet who writes.
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false), (3, false)]);
    stage.told(3, replica(3, 1, Thread::Connecting));
    stage.told(2, writable(2));
    stage.refused(2, 3);
    stage.timed_out(1, 3);
    stage.told(3, replica(3, 1, Thread::Connecting));
    assert_eq!(stage.writer(), None);
    stage.expect("doubtful", "took writes when it was asked last");
    // Its replication was begun again.
    stage.told(2, Facts { is_writable: true, ..replica(2, 1, Thread::Connecting) });
    stage.refused(2, 3);
    stage.expect("doubtful", "took writes when it was asked last");
    // It was read-only again before it was lost: somebody has thought better of it.
    stage.told(2, read_only(2));
    stage.refused(2, 3);
    stage.told(3, replica(3, 1, Thread::Connecting));
    stage.expect("certain", "1 of 1 replicas have lost it");
}

#[test]
fn a_process_that_begins_asks_all_members_before_it_takes_the_writer_for_lost() {
    let mut stage = Stage::new(Policy::default(), &[(1, false), (2, false), (3, false)]);
    stage.told(2, replica(2, 1, Thread::Connecting));
    stage.refused(1, 3);
    stage.loses(&[2]);
    stage.expect("doubtful", "not all members have been asked yet");
    stage.told(3, replica(3, 1, Thread::Connecting));
    stage.expect("certain", "2 of 2 replicas have lost it");
}

#[test]
fn a_replica_that_follows_another_server_since_shows_that_somebody_has_promoted_it() {
    let lost = |before: &[(u32, u32)]| {
        let members = [(1, false), (2, false), (3, false), (4, false)];
        let mut stage = Stage::new(Policy::default(), &members);
        stage.told(1, writable(1));
        for id in [2, 3, 4] {
            stage.told(id, replica(id, 1, Thread::Connected));
        }
        for (id, source) in before {
            stage.told(*id, replica(*id, *source, Thread::Connected));
        }
        stage.refused(1, 3);
        stage.refused(2, 3);
        stage.loses(&[4]);
        stage.told(3, replica(3, 2, Thread::Connecting));
        stage
    };
    // Both the successor and the proxy that has promoted it are lost.
    lost(&[]).expect("doubtful", "replicates from");
    // It did so before: the one between is lost, too.
    lost(&[(3, 2)]).expect("certain", "1 of 1 replicas have lost it");
    // The one between answers, and replicates from the lost one.
    let mut stage = lost(&[]);
    stage.told(2, replica(2, 1, Thread::Connecting));
    stage.expect("certain", "2 of 2 replicas have lost it");
    // It is known that it was lost before.
    let mut stage = lost(&[]);
    stage.on(Input::Replaced(HostId(2)));
    stage.expect("certain", "1 of 1 replicas have lost it");
}

#[test]
fn replicas_whose_replication_was_broken_before_are_no_witnesses() {
    let mut stage = Stage::of_three();
    stage.loses(&[2, 3]);
    for _ in 0..100 {
        stage.now_ms += 1_000;
        stage.told(1, writable(1));
        stage.told(2, replica(2, 1, Thread::Connecting));
        stage.told(3, replica(3, 1, Thread::Connecting));
    }
    stage.told(3, replica(3, 1, Thread::Connected));
    stage.refused(1, 1);
    stage.loses(&[2, 3]);
    stage.expect("certain", "1 of 1 replicas have lost it");

    // Both are broken: nobody knows.
    let mut stage = Stage::of_three();
    stage.loses(&[2, 3]);
    stage.now_ms += 100_000;
    stage.told(1, writable(1));
    stage.loses(&[2, 3]);
    stage.refused(1, 3);
    stage.loses(&[2, 3]);
    stage.expect("doubtful", "no replica says that it has lost it: 2 did not replicate while");
}

#[test]
fn a_writer_that_comes_back_read_only_is_told_of() {
    let mut stage = Stage::of_three();
    stage.refused(1, 3);
    stage.loses(&[2]);
    stage.told(1, read_only(1));
    for id in [2, 3] {
        stage.told(id, replica(id, 1, Thread::Connected));
    }
    stage.expect("read-only", "1");
    stage.told(1, writable(1));
    stage.expect("none", "");
    // One that is led by another one is a replica.
    stage.told(1, replica(1, 2, Thread::Connected));
    stage.told(2, writable(2));
    stage.expect("none", "");
}
