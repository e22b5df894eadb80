use super::{
    check::{Family, SourceSurvey, Survey, Surveyed, Wish, check},
    *,
};

const OLD: HostId = HostId(1);
const NEW: HostId = HostId(2);
const OTHER: HostId = HostId(3);

/// A switchover that is told step by step.
struct Stage {
    switchover: Switchover,
    now_ms: u64,
    out: Vec<Order>,
}

fn plan(way: Way) -> Plan {
    let others = vec![OTHER];
    Plan { way, old: OLD, new: NEW, others, drain_ms: 1_000, time_max_ms: 4_000 }
}

fn ok(value: &str) -> Result<Done, Failure> {
    Ok(Done { said: "said".to_owned(), value: value.to_owned() })
}

fn refused() -> Result<Done, Failure> {
    Err(Failure { why: "no".to_owned(), is_unknown: false })
}

fn unknown() -> Result<Done, Failure> {
    Err(Failure { why: "no answer".to_owned(), is_unknown: true })
}

impl Stage {
    fn begun(way: Way) -> Self {
        let mut stage = Self { switchover: Switchover::new(plan(way)), now_ms: 0, out: Vec::new() };
        stage.switchover.begin(0, &mut stage.out);
        stage
    }

    /// What was ordered since this was asked last, in words.
    fn orders(&mut self) -> Vec<String> {
        let words = |order: &Order| match order {
            Order::Guide(guidance) => Some(format!("{guidance:?}")),
            Order::Do { host, action, .. } => Some(format!("{} {}", host.0, action.name())),
            Order::Tell(_) => None,
            Order::End(Outcome::Done(failed)) => Some(format!("done, {} failed", failed.len())),
            Order::End(Outcome::Failed(why)) => Some(format!("failed: {why}")),
        };
        self.out.drain(..).filter_map(|order| words(&order)).collect()
    }

    fn open(&mut self, after_ms: u64, connections: u32) -> Vec<String> {
        self.now_ms += after_ms;
        self.switchover.open(self.now_ms, connections, &mut self.out);
        self.orders()
    }

    /// The step that was ordered last has ended.
    fn done(&mut self, result: Result<Done, Failure>) -> Vec<String> {
        let step = self.switchover.step;
        self.done_step(step, result)
    }

    fn done_step(&mut self, step: u32, result: Result<Done, Failure>) -> Vec<String> {
        self.now_ms += 10;
        self.switchover.done(self.now_ms, step, result, &mut self.out);
        self.orders()
    }

    /// One that waits for the promotion.
    fn promoting() -> Self {
        let mut stage = Self::begun(Way::Replication);
        stage.open(1, 0);
        stage.done(ok("0-1-7"));
        assert_eq!(stage.done(ok("")), ["2 promote"]);
        stage
    }
}

const UNDONE: &str = "it was undone, and the writer is the one before";

#[test]
fn steps_follow_one_another_and_the_rest_is_done_behind_the_promotion() {
    let mut stage = Stage::begun(Way::Replication);
    assert_eq!(stage.orders(), ["Drain"]);
    assert!(stage.open(10, 3).is_empty());
    assert_eq!(stage.open(10, 0), ["Close", "1 demote"]);
    assert_eq!(stage.done(ok("0-1-7")), ["2 catch up"]);
    assert_eq!(stage.done(ok("")), ["2 promote"]);
    let promoted = stage.done(ok(""));
    let guided = format!("Open({NEW:?})");
    assert_eq!(promoted, [guided.as_str(), "1 repoint", "3 repoint"]);
    let last = stage.switchover.step;
    assert!(stage.done_step(last, refused()).is_empty());
    assert!(stage.done_step(last, ok("")).is_empty(), "an answer counts once");
    assert_eq!(stage.done_step(last - 1, ok("")), ["2 settle"], "it has its replicas");
    assert_eq!(stage.done(ok("")), ["done, 1 failed"]);
    assert!(stage.switchover.has_ended());
}

#[test]
fn what_does_not_finish_in_time_is_ended() {
    let mut stage = Stage::begun(Way::Replication);
    stage.orders();
    assert!(stage.open(999, 1).is_empty());
    assert_eq!(stage.open(1, 1), ["Close", "1 demote"]);
    assert!(stage.open(1, 0).is_empty(), "only once");
}

#[test]
fn everything_is_undone_before_the_promotion() {
    let opened = format!("Open({OLD:?})");
    let mut stage = Stage::begun(Way::Replication);
    stage.open(1, 0);
    assert_eq!(stage.done(unknown()), ["1 undo demote"]);
    let ended = [opened.clone(), format!("failed: demote: no answer; {UNDONE}")];
    assert_eq!(stage.done(ok("")), ended);

    let mut stage = Stage::begun(Way::Replication);
    stage.open(1, 0);
    stage.done(ok("0-1-7"));
    assert_eq!(stage.done(refused()), ["1 undo demote"]);
    let ended = [opened.clone(), format!("failed: catch up: no; {UNDONE}")];
    assert_eq!(stage.done(ok("")), ended);

    let mut stage = Stage::promoting();
    assert_eq!(stage.done(refused()), ["2 undo promote"]);
    assert_eq!(stage.done(refused()), ["1 undo demote"]);
    assert_eq!(stage.done(ok("")), [opened, format!("failed: promote: no; {UNDONE}")]);
}

#[test]
fn a_promotion_without_an_answer_is_looked_at_before_anybody_writes() {
    let mut stage = Stage::promoting();
    assert_eq!(stage.done(unknown()), ["2 look"]);
    assert_eq!(stage.done(ok("yes")).first(), Some(&format!("Open({NEW:?})")));

    let mut stage = Stage::promoting();
    stage.done(unknown());
    assert_eq!(stage.done(ok("")), ["2 undo promote"]);

    let mut stage = Stage::promoting();
    stage.done(unknown());
    let ended = stage.done(unknown());
    assert_eq!(ended.first().map(String::as_str), Some("Release"), "nobody is opened");
}

#[test]
fn where_the_old_writer_has_gone_the_hold_ends_and_servers_decide() {
    let mut stage = Stage::begun(Way::Replication);
    stage.open(1, 0);
    stage.done(unknown());
    let ended = stage.done(unknown());
    assert_eq!(ended.first().map(String::as_str), Some("Release"));
    assert!(ended.iter().any(|it| it.contains("make one server writable")), "{ended:?}");
}

#[test]
fn a_group_is_told_whom_to_appoint() {
    let mut stage = Stage::begun(Way::Group);
    assert_eq!(stage.open(1, 0).last().map(String::as_str), Some("2 appoint"));
    assert_eq!(stage.done(ok("")), [format!("Open({NEW:?})"), "done, 0 failed".to_owned()]);
    let mut stage = Stage::begun(Way::Group);
    stage.open(1, 0);
    assert_eq!(stage.done(refused()).first().map(String::as_str), Some("Release"));
}

#[test]
fn steps_have_the_time_that_is_left_and_their_inverses_their_own() {
    let within = |out: &[Order]| {
        let time = |order: &Order| match order {
            Order::Do { within_ms, .. } => Some(*within_ms),
            Order::Guide(_) | Order::Tell(_) | Order::End(_) => None,
        };
        out.iter().find_map(time)
    };
    let mut switchover = Switchover::new(plan(Way::Replication));
    let mut out = Vec::new();
    switchover.begin(0, &mut out);
    switchover.open(1_000, 5, &mut out);
    assert_eq!(within(&out), Some(DEMOTE_MS));
    out.clear();
    switchover.done(2_500, 1, ok("x"), &mut out);
    assert_eq!(within(&out), Some(1_500));
    out.clear();
    switchover.done(9_000, 2, refused(), &mut out);
    assert_eq!(within(&out), Some(UNDO_MS));
}

/// A server that has everything.
fn well() -> Survey {
    Survey {
        version: (10, 11, 19),
        logs: true,
        logs_updates: true,
        has_gtids: true,
        position: "0-1-7".to_owned(),
        ..Survey::default()
    }
}

fn below(source: HostId) -> Survey {
    let source = SourceSurvey {
        host: Some(source),
        runs: true,
        lag_sec: Some(0),
        by_gtid: true,
        ..SourceSurvey::default()
    };
    Survey { sources: vec![source], ..well() }
}

fn surveyed(host: HostId, survey: Survey) -> Surveyed {
    Surveyed { host, survey: Ok(survey), is_near: true }
}

fn wish(to: Option<HostId>) -> Wish {
    Wish { writer: OLD, to, account: Ok(()), is_group: false }
}

#[test]
fn each_thing_in_the_way_of_a_candidate_has_a_reason() {
    let check = |change: fn(&mut Survey), reason: &str| {
        let mut survey = below(OLD);
        change(&mut survey);
        let members = [surveyed(OLD, well()), surveyed(NEW, survey)];
        let found = check(&wish(Some(NEW)), &members);
        assert_eq!(found.candidate, None, "{reason}");
        let has = |blocks| {
            found.findings.iter().any(|it| it.what.contains(reason) && it.blocks == blocks)
        };
        assert!(has(true), "{reason}: {:?}", found.findings);
    };
    check(|it| it.logs = false, "log_bin is off");
    check(|it| it.logs_updates = false, "log_slave_updates");
    check(|it| it.has_gtids = false, "gtid_mode");
    check(|it| it.position = "0-2-7".to_owned(), "that the writer has not: 0-2-7");
    check(|it| it.position = "?".to_owned(), "can't be read");
    check(|it| it.missing = vec!["RELOAD".to_owned()], "lacks RELOAD");
    check(|it| it.sources.clear(), "does not replicate from the writer");
    check(|it| it.sources[0].host = Some(OTHER), "does not replicate from the writer");
    check(|it| it.sources.push(SourceSurvey::default()), "another server as well");
    check(|it| it.sources[0].runs = false, "does not run");
    check(|it| it.sources[0].delay_sec = 60, "delayed on purpose, by 60 s");
    check(|it| it.sources[0].lag_sec = Some(60), "too far behind: 60 s");
    check(|it| it.sources[0].lag_sec = None, "too far behind: unknown");
    check(|it| it.sources[0].filters = vec!["Replicate_Do_DB".to_owned()], "Replicate_Do_DB");
    check(|it| it.sources[0].by_gtid = false, "by GTID");
    check(|it| it.sources[0].channel = "c".to_owned(), "has a name");
    check(|it| it.family = Family::MySql, "other family");
    check(|it| it.version = (11, 8, 2), "older than the new writer's");
}

#[test]
fn a_candidate_is_chosen_by_version_zone_and_lag() {
    let best = |change: fn(&mut Surveyed, &mut Surveyed)| {
        let mut candidates = [surveyed(NEW, below(OLD)), surveyed(OTHER, below(OLD))];
        let [first, second] = &mut candidates;
        change(first, second);
        let [first, second] = candidates;
        let checked = check(&wish(None), &[surveyed(OLD, well()), first, second]);
        assert!(checked.candidate.is_some_and(|it| !checked.others.contains(&it)));
        checked.candidate
    };
    let lag = |member: &mut Surveyed| {
        member.survey.as_mut().expect("a survey").sources[0].lag_sec = Some(3);
    };
    assert_eq!(best(|_, _| {}), Some(NEW));
    assert_eq!(
        best(|first, _| first.survey.as_mut().expect("a survey").version = (10, 11, 4)),
        Some(OTHER)
    );
    assert_eq!(best(|first, _| first.is_near = false), Some(OTHER));
    let mut members =
        [surveyed(OLD, well()), surveyed(NEW, below(OLD)), surveyed(OTHER, below(OLD))];
    lag(&mut members[1]);
    assert_eq!(check(&wish(None), &members).candidate, Some(OTHER));
}

#[test]
fn nobody_is_promoted_where_the_writer_is_not_well() {
    let blocks = |wish: &Wish, writer: Result<Survey, String>, reason: &str| {
        let writer = Surveyed { host: OLD, survey: writer, is_near: true };
        let checked = check(wish, &[writer, surveyed(NEW, below(OLD))]);
        assert_eq!(checked.candidate, None);
        let found = checked.findings.iter().any(|it| it.blocks && it.what.contains(reason));
        assert!(found, "{reason}: {:?}", checked.findings);
    };
    blocks(&wish(None), Err("refused".to_owned()), "can't be asked: refused");
    blocks(&wish(Some(OLD)), Ok(well()), "the writer already");
    blocks(&wish(None), Ok(Survey { is_claimed: true, ..well() }), "its lock there");
    blocks(&wish(None), Ok(below(OTHER)), "replicates from another");
    let account = Err("replication_account is not set".to_owned());
    blocks(&Wish { account, ..wish(None) }, Ok(well()), "replication_account");
    let alone = check(&wish(None), &[surveyed(OLD, well())]);
    assert!(alone.findings.iter().any(|it| it.what.contains("no server can")));
}

#[test]
fn chains_are_kept_and_long_transactions_told() {
    let writer = Survey { open_sec: vec![1, 90], ..well() };
    let members = [
        surveyed(OLD, writer),
        surveyed(NEW, below(OLD)),
        surveyed(OTHER, below(OLD)),
        surveyed(HostId(4), below(NEW)),
        surveyed(HostId(5), below(OTHER)),
    ];
    let checked = check(&wish(Some(NEW)), &members);
    assert_eq!((checked.candidate, checked.others), (Some(NEW), vec![OTHER]));
    assert!(checked.findings.iter().any(|it| it.what.contains("up to 90 s") && !it.blocks));
}

#[test]
fn a_switchover_whose_server_has_left_is_undone() {
    let left = "it has left";
    let abandon = |stage: &mut Stage| {
        stage.switchover.abandon(left, &mut stage.out);
        stage.orders()
    };
    let mut stage = Stage::begun(Way::Replication);
    stage.orders();
    assert_eq!(abandon(&mut stage), ["Release".to_owned(), format!("failed: {left}")]);

    let mut stage = Stage::begun(Way::Replication);
    stage.open(1, 0);
    assert!(abandon(&mut stage).is_empty(), "the step under way ends first");
    assert!(abandon(&mut stage).is_empty());
    assert_eq!(stage.done(ok("0-1-7")), ["1 undo demote"]);
    let ended = ["Release".to_owned(), format!("failed: {left}; it was undone")];
    assert_eq!(stage.done(ok("")), ended);

    // What takes writes is not told to stop.
    let mut stage = Stage::promoting();
    assert!(abandon(&mut stage).is_empty());
    assert_eq!(stage.done(ok("")).first(), Some(&format!("Open({NEW:?})")));
}

#[test]
fn replicas_that_cannot_be_repointed_are_in_the_way() {
    let check = |change: fn(&mut Survey), reason: &str| {
        let mut other = below(OLD);
        change(&mut other);
        let members = [surveyed(OLD, well()), surveyed(NEW, below(OLD)), surveyed(OTHER, other)];
        let found = check(&wish(Some(NEW)), &members);
        let is_found = found.findings.iter().any(|it| it.blocks && it.what.contains(reason));
        assert!(is_found && found.candidate.is_none(), "{reason}: {:?}", found.findings);
    };
    check(|it| it.sources[0].channel = "c".to_owned(), "its replication has a name (`c`)");
    check(|it| it.sources.push(SourceSurvey::default()), "replicates from several servers");
}

#[test]
fn the_old_writer_stays_read_only_where_somebody_else_has_promoted_another_server() {
    let mut stage = Stage::begun(Way::Replication);
    stage.open(1, 0);
    stage.orders();
    stage.switchover.overtaken("db3 takes writes", &mut stage.out);
    assert!(stage.orders().is_empty(), "the step under way ends first");
    let ended = stage.done(ok("0-1-7"));
    assert_eq!(ended[0], "Release", "{ended:?}");
    assert!(ended[1].contains("db3 takes writes; the old writer stays read-only"), "{ended:?}");

    // Whether it became read-only is not known.
    let mut stage = Stage::begun(Way::Replication);
    stage.open(1, 0);
    stage.orders();
    stage.switchover.overtaken("db3 takes writes", &mut stage.out);
    let ended = stage.done(unknown());
    assert_eq!(ended[0], "Release", "{ended:?}");
    assert!(ended[1].contains("the old writer may be read-only"), "{ended:?}");

    let mut stage = Stage::promoting();
    stage.switchover.overtaken("db3 takes writes", &mut stage.out);
    assert_eq!(stage.done(refused()), ["2 undo promote"]);
    assert_eq!(stage.done(ok(""))[0], "Release");
}

#[test]
fn who_is_claimed_by_another_proxy_is_in_the_way() {
    for host in [OLD, NEW, OTHER] {
        let mut members =
            [surveyed(OLD, well()), surveyed(NEW, below(OLD)), surveyed(OTHER, below(OLD))];
        let member = members.iter_mut().find(|it| it.host == host).expect("a member");
        member.survey.as_mut().expect("a survey").is_claimed = true;
        let checked = check(&wish(None), &members);
        let found = checked.findings.iter().find(|it| it.blocks && it.host == Some(host));
        assert!(found.is_some_and(|it| it.what.contains("its lock there")), "{checked:?}");
    }
}
