use super::{
    elect::{Election, elect},
    *,
};
use crate::{
    Loss,
    switchover::check::{Family, SourceSurvey, Survey, Surveyed},
};

const OLD: HostId = HostId(1);
const NEW: HostId = HostId(2);
const OTHER: HostId = HostId(3);

fn replica(family: Family, position: &str, received: &str) -> Survey {
    let source =
        SourceSurvey { host: Some(OLD), applies: true, by_gtid: true, ..SourceSurvey::default() };
    Survey {
        family,
        version: (10, 11, 19),
        logs: true,
        logs_updates: true,
        has_gtids: true,
        position: position.to_owned(),
        received: received.to_owned(),
        sources: vec![source],
        ..Survey::default()
    }
}

fn mariadb(position: &str, received: &str) -> Survey {
    replica(Family::MariaDb, position, received)
}

const B: &str = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";

/// A set of MySQL's, with `a` and `b` for UUIDs.
fn set(text: &str) -> String {
    text.replace("a:", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:").replace("b:", &format!("{B}:"))
}

fn change(mut survey: Survey, change: impl FnOnce(&mut Survey, &mut SourceSurvey)) -> Survey {
    let mut source = survey.sources.remove(0);
    change(&mut survey, &mut source);
    survey.sources.push(source);
    survey
}

fn election() -> Election {
    Election { old: OLD, ..Election::default() }
}

/// Who is elected of these, numbered from 2 on.
fn run(election: &Election, surveys: Vec<Survey>) -> Result<u32, String> {
    let surveyed = |(at, survey): (usize, Survey)| Surveyed {
        host: HostId(u32::try_from(at).expect("few") + 2),
        survey: Ok(survey),
        is_near: true,
    };
    let members: Vec<Surveyed> = surveys.into_iter().enumerate().map(surveyed).collect();
    elect(election, &members).map(|elected| elected.new.0).map_err(|not| not.why)
}

fn refused(election: &Election, surveys: Vec<Survey>, part: &str) {
    let why = run(election, surveys).expect_err(part);
    assert!(why.contains(part), "{why}, not {part}");
}

#[test]
fn who_has_most_is_elected_received_ones_count() {
    let two = |one: Survey, two: Survey| run(&election(), vec![one, two]);
    assert_eq!(two(mariadb("0-1-5", "0-1-5"), mariadb("0-1-4", "0-1-9")), Ok(3));
    assert_eq!(two(mariadb("0-1-9", "0-1-9"), mariadb("0-1-9", "0-1-9")), Ok(2));
    let mysql = |own, received| replica(Family::MySql, &set(own), &set(received));
    assert_eq!(two(mysql("a:1-5", "a:3-5"), mysql("a:1-4", "a:5-6")), Ok(3));
}

#[test]
fn among_equal_ones_candidates_come_first_and_never_one_that_is_behind() {
    let preferred = Election { candidates: vec![HostId(4), HostId(3)], ..election() };
    let equal = mariadb("0-1-9", "0-1-9");
    let behind = mariadb("0-1-8", "0-1-8");
    assert_eq!(run(&preferred, vec![equal.clone(), equal.clone(), behind]), Ok(3));
    assert_eq!(run(&preferred, vec![equal.clone(), equal.clone(), equal]), Ok(4));
}

#[test]
fn leaders_that_cannot_be_compared_are_told_of() {
    let two = |one, two| vec![mariadb(one, one), mariadb(two, two)];
    let part = "each have transactions that the other lacks";
    refused(&election(), two("0-1-9,1-1-3", "0-1-8,1-1-4"), part);
    refused(&election(), two("0-1-9", "0-7-9"), part);
}

#[test]
fn who_is_unfit_is_not_elected_and_nobody_else_is_if_it_has_more() {
    let good = || mariadb("0-1-9", "0-1-9");
    type Wrong = fn(&mut Survey, &mut SourceSurvey);
    let wrong: [(Wrong, &str); 7] = [
        (|_, source| source.applies = false, "it applies nothing"),
        (|_, source| source.delay_sec = 60, "it is delayed on purpose"),
        (|_, source| source.filters = vec!["Replicate_Do_DB".into()], "not replicate everything"),
        (|_, source| source.by_gtid = false, "not replicate by GTID"),
        (|_, source| source.channel = "one".into(), "its replication has a name"),
        (|survey, _| survey.missing = vec!["RELOAD".into()], "lacks RELOAD"),
        (|survey, _| survey.logs_updates = false, "does not log"),
    ];
    for (how, part) in wrong {
        refused(&election(), vec![change(good(), how)], part);
        assert_eq!(run(&election(), vec![change(good(), how), good()]), Ok(3), "{part}");
        let behind = mariadb("0-1-8", "0-1-8");
        let ahead = vec![change(good(), how), behind];
        refused(&election(), ahead, "transactions that no server has which can become");
    }
    let away = Election { away: vec![HostId(2)], ..election() };
    assert_eq!(run(&away, vec![good(), good()]), Ok(3));
    let newer = change(good(), |survey, _| survey.version = (11, 8, 1));
    assert_eq!(run(&election(), vec![newer.clone(), good()]), Ok(3));
    assert_eq!(run(&election(), vec![newer]), Ok(2), "nobody is older");
}

#[test]
fn transactions_of_a_replica_itself_are_no_advantage() {
    refused(&election(), vec![mariadb("0-2-10", "0-1-9")], "transactions of its own: 0-2-10");
    let mysql = replica(Family::MySql, &set("a:1-9,b:1"), &set("a:1-9"));
    let errant = change(mysql, |survey, _| survey.uuid = B.into());
    refused(&election(), vec![errant.clone()], &set("transactions of its own: b:1"));
    // Another replica has got them from the old writer: it was a writer before.
    let other = || replica(Family::MySql, &set("a:1-9,b:1"), &set("a:1-9"));
    assert_eq!(run(&election(), vec![errant.clone(), other()]), Ok(2));
    let lacks = replica(Family::MySql, &set("a:1-9"), &set("a:1-9"));
    refused(&election(), vec![errant.clone(), lacks], &set("that no server has which"));
    // The old writer was seen to have them.
    let known = Election { known: set("a:1-5,b:1"), ..election() };
    assert_eq!(run(&known, vec![errant]), Ok(2));
}

#[test]
fn nobody_is_elected_for_a_writer_that_had_a_successor() {
    let good = || vec![mariadb("0-1-9", "0-1-9")];
    let replaced = Election { last_writer: Some(HostId(7)), ..election() };
    refused(&replaced, good(), "server 7 wrote last");
    let same = Election { last_writer: Some(OLD), ..election() };
    assert_eq!(run(&same, good()), Ok(2));
    // It replicates from the lost one by now: what it has written is known.
    let below = Election { last_writer: Some(HostId(2)), ..election() };
    assert_eq!(run(&below, good()), Ok(2));
}

#[test]
fn a_server_that_takes_writes_already_ends_the_election() {
    let writes = Survey { is_writable: true, sources: Vec::new(), ..mariadb("0-1-9", "0-1-9") };
    refused(&election(), vec![writes, mariadb("0-1-9", "0-1-9")], "takes writes already");
}

/// A failover that is told step by step.
struct Stage {
    failover: Failover,
    now_ms: u64,
    out: Vec<Order>,
}

fn plan() -> Plan {
    Plan { old: OLD, script_ms: None, promote_unreachable: false, is_advice: false }
}

fn ok(value: &str) -> Result<Done, Failure> {
    Ok(Done { said: "said".to_owned(), value: value.to_owned() })
}

fn error(is_unknown: bool) -> Result<Done, Failure> {
    Err(Failure { why: "no".to_owned(), is_unknown })
}

fn elected() -> Result<Elected, NotElected> {
    let position = "0-1-9".to_owned();
    let passed_over = vec![(HostId(4), "it is delayed".to_owned())];
    Ok(Elected {
        new: NEW,
        position,
        missing: "0-1-10".to_owned(),
        others: vec![OTHER],
        passed_over,
    })
}

const OPENED: &str = "Open(HostId(2))";

impl Stage {
    fn begun(plan: Plan) -> Self {
        let mut stage = Self { failover: Failover::new(plan), now_ms: 0, out: Vec::new() };
        stage.failover.begin(0, &mut stage.out);
        assert_eq!(stage.orders(), ["elect"]);
        stage
    }

    /// One that fences.
    fn fencing(plan: Plan) -> Self {
        let mut stage = Self::begun(plan);
        assert_eq!(stage.elected(elected()), ["2 catch up", "1 fence"]);
        assert!(stage.done(ok("0-1-9")).is_empty(), "it is asked already");
        stage
    }

    /// One that promotes.
    fn promoting() -> Self {
        let mut stage = Self::fencing(plan());
        assert_eq!(stage.done(ok("refuses")), ["Drain", "Close", "2 note"]);
        assert_eq!(stage.done(ok("")), ["2 promote"]);
        stage
    }

    fn orders(&mut self) -> Vec<String> {
        let words = |order: &Order| match order {
            Order::Elect => Some("elect".to_owned()),
            Order::Guide(guidance) => Some(format!("{guidance:?}")),
            Order::Do { host, action, .. } => Some(format!("{} {}", host.0, action.name())),
            Order::Tell(_) => None,
            Order::End(Outcome::Done(failed)) => Some(format!("done, {} failed", failed.len())),
            Order::End(Outcome::Failed { is_stuck: true, .. }) => Some("stuck".to_owned()),
            Order::End(Outcome::Failed { is_stuck: false, .. }) => Some("failed".to_owned()),
            Order::End(Outcome::Advice(_)) => Some("advice".to_owned()),
        };
        self.out.drain(..).filter_map(|order| words(&order)).collect()
    }

    fn elected(&mut self, result: Result<Elected, NotElected>) -> Vec<String> {
        self.now_ms += 10;
        self.failover.elected(self.now_ms, result, &mut self.out);
        self.orders()
    }

    fn done(&mut self, result: Result<Done, Failure>) -> Vec<String> {
        let step = match &self.failover.state {
            State::Doing(doing) => doing.step,
            _ => self.failover.step,
        };
        self.done_step(step, result)
    }

    fn done_step(&mut self, step: u32, result: Result<Done, Failure>) -> Vec<String> {
        self.now_ms += 10;
        self.failover.done(self.now_ms, step, result, &mut self.out);
        self.orders()
    }
}

#[test]
fn steps_follow_one_another_and_clients_are_let_in_before_the_rest() {
    let mut stage = Stage::promoting();
    assert_eq!(stage.failover.position(), "0-1-9");
    assert_eq!(stage.done(ok("")), [OPENED, "3 repoint"]);
    assert_eq!(stage.done(error(false)), ["2 settle"]);
    assert_eq!(stage.done(ok("")), ["done, 1 failed"]);
    assert!(stage.failover.has_ended());
}

#[test]
fn who_cannot_be_fenced_is_not_replaced_unless_that_was_allowed() {
    let mut stage = Stage::fencing(plan());
    assert_eq!(stage.done(error(true)), ["2 undo promote"]);
    assert_eq!(stage.done(ok("")), ["stuck"]);

    let mut stage = Stage::fencing(Plan { promote_unreachable: true, ..plan() });
    assert_eq!(stage.done(error(true)), ["Drain", "Close", "2 note"]);

    let script = Plan { script_ms: Some(500), ..plan() };
    let mut stage = Stage::fencing(script.clone());
    assert_eq!(stage.done(error(true)), ["1 fence_script"]);
    assert_eq!(stage.done(ok("")), ["Drain", "Close", "2 note"]);
    let mut stage = Stage::fencing(script);
    stage.done(error(true));
    assert_eq!(stage.done(error(false)), ["2 undo promote"]);
    assert_eq!(stage.done(error(true)), ["stuck"], "whatever becomes of the inverse");
}

#[test]
fn a_lost_writer_is_asked_while_the_elected_one_applies_and_once_more_behind_that() {
    let begun = |early: Result<Done, Failure>| {
        let mut stage = Stage::begun(Plan { promote_unreachable: true, ..plan() });
        stage.elected(elected());
        let asked = stage.failover.step;
        assert!(stage.done_step(asked, early).is_empty(), "it decides nothing yet");
        assert!(stage.done_step(asked, ok("writable")).is_empty(), "heard once");
        stage.failover.done(100, 1, ok("0-1-9"), &mut stage.out);
        let limit = |order: &Order| match order {
            Order::Do { action: Action::Fence, within_ms, .. } => Some(*within_ms),
            _ => None,
        };
        let limit = stage.out.iter().find_map(limit);
        (limit, stage.orders(), stage)
    };
    let (limit, orders, mut stage) = begun(error(true));
    assert_eq!((limit, orders), (Some(FENCE_AGAIN_MS), vec!["1 fence".to_owned()]));
    assert_eq!(stage.done(error(true)), ["Drain", "Close", "2 note"]);
    // What it said then may not be so any more.
    let (limit, _, mut stage) = begun(ok("refuses"));
    assert_eq!(limit, Some(FENCE_MS));
    assert_eq!(stage.done(ok("writable")), ["2 undo promote"]);
    let (limit, orders, mut stage) = begun(ok("writable"));
    assert_eq!((limit, orders), (None, vec!["2 undo promote".to_owned()]));
    assert_eq!(stage.done(ok("")), ["failed"]);
}

#[test]
fn a_writer_that_answers_again_goes_on() {
    let mut stage = Stage::fencing(plan());
    assert_eq!(stage.done(ok("writable")), ["2 undo promote"]);
    assert_eq!(stage.done(ok("")), ["failed"]);

    let mut stage = Stage::begun(plan());
    stage.failover.returned("it answers", &mut stage.out);
    assert_eq!(stage.orders(), ["failed"]);
    assert!(stage.elected(elected()).is_empty(), "it is over");

    let mut stage = Stage::begun(plan());
    stage.elected(elected());
    stage.failover.returned("it answers", &mut stage.out);
    assert!(stage.orders().is_empty());
    assert_eq!(stage.done(ok("")), ["2 undo promote"]);
}

#[test]
fn a_promotion_without_an_answer_is_looked_at() {
    let mut stage = Stage::promoting();
    assert_eq!(stage.done(error(true)), ["2 look"]);
    assert_eq!(stage.done(ok("yes")), [OPENED, "3 repoint"]);
    let mut stage = Stage::promoting();
    stage.done(error(true));
    assert_eq!(stage.done(ok("")), ["2 undo promote"]);
    let mut stage = Stage::promoting();
    assert_eq!(stage.done(error(false)), ["2 undo promote"]);
    assert_eq!(stage.done(ok("")), ["Release", "stuck"]);
}

/// One that does not know whether the elected server was promoted.
fn unsure() -> Stage {
    let mut stage = Stage::promoting();
    stage.done(error(true));
    assert_eq!(stage.done(error(true)), ["Release"]);
    assert!(stage.failover.is_unsure() && !stage.failover.has_ended());
    stage
}

impl Stage {
    /// The elected server answers the monitor.
    fn reached(&mut self) -> Vec<String> {
        self.failover.reached(self.now_ms, &mut self.out);
        self.orders()
    }
}

#[test]
fn a_failover_stays_while_it_is_not_known_whether_it_has_promoted_a_server() {
    let mut stage = unsure();
    assert!(stage.reached().is_empty(), "it was looked at just now");
    stage.now_ms += 2_000;
    assert_eq!(stage.reached(), ["2 look"]);
    stage.failover.done(stage.now_ms, stage.failover.step, error(true), &mut stage.out);
    assert!(stage.out.is_empty(), "that is told once: {:?}", stage.out);
    stage.now_ms += 2_000;
    assert_eq!(stage.reached(), ["2 look"]);
    assert_eq!(stage.done(ok("yes")), [OPENED, "3 repoint"]);
    assert_eq!(stage.done(ok("")), ["2 settle"]);
    assert_eq!(stage.done(ok("")), ["done, 0 failed"]);

    // It has begun anew: whether it was promoted before nobody knows.
    let mut stage = unsure();
    stage.now_ms += 2_000;
    stage.reached();
    assert_eq!(stage.done(ok("")), ["stuck"]);

    let mut stage = unsure();
    stage.failover.returned("it answers", &mut stage.out);
    assert!(stage.orders().is_empty(), "read-only, for all that is known");
    stage.failover.overtaken("another one takes writes", &mut stage.out);
    assert_eq!(stage.orders(), ["stuck"]);

    let mut stage = unsure();
    stage.failover.abandon("an operator has decided", &mut stage.out);
    assert_eq!(stage.orders(), ["stuck"]);
}

#[test]
fn advice_changes_nothing() {
    let mut stage = Stage::begun(Plan { is_advice: true, ..plan() });
    assert_eq!(stage.elected(elected()), ["advice"]);
    assert!(stage.failover.has_ended());
}

#[test]
fn a_failover_begins_once_and_not_soon_after_another_one() {
    let lost = Loss::Certain { writer: OLD, refuses: true, why: "gone".to_owned() };
    let begins = |verdict: Verdict| matches!(verdict, Verdict::Begin { .. });
    let mut watch = Watch::default();
    assert!(!begins(watch.look(0, Mode::Off, &lost)));
    let doubt = Loss::Doubtful { writer: OLD, why: "slow".to_owned() };
    assert!(matches!(watch.look(1, Mode::Auto, &doubt), Verdict::Tell(OLD, _)));
    assert_eq!(watch.look(2, Mode::Auto, &doubt), Verdict::Nothing, "told once");
    assert!(begins(watch.look(3, Mode::Auto, &lost)));
    watch.failed(3, false);
    assert!(!begins(watch.look(1_000, Mode::Auto, &lost)), "not at once");
    assert!(begins(watch.look(2_003, Mode::Auto, &lost)));
    watch.failed(2_003, true);
    assert!(!begins(watch.look(60_000, Mode::Auto, &lost)), "a person decides");
    watch.look(60_001, Mode::Auto, &Loss::None);
    assert!(begins(watch.look(60_002, Mode::Auto, &lost)), "another loss");
    watch.block(60_002, 10_000);
    assert!(!begins(watch.look(70_001, Mode::Auto, &lost)));
    watch.clear();
    assert!(begins(watch.look(70_001, Mode::Auto, &lost)));
    watch.advised();
    assert!(!begins(watch.look(70_002, Mode::Advise, &lost)));
}

#[test]
fn what_the_elected_server_lacks_of_the_lost_one_is_told() {
    let known = Election { known: "0-1-12".to_owned(), ..election() };
    let members = |position: &str, family| {
        let survey = Ok(replica(family, position, position));
        [Surveyed { host: NEW, survey, is_near: true }]
    };
    let missing = |election: &Election, members: &[Surveyed]| {
        elect(election, members).expect("somebody").missing
    };
    assert_eq!(missing(&known, &members("0-1-9", Family::MariaDb)), "0-1-12");
    assert_eq!(missing(&known, &members("0-1-13", Family::MariaDb)), "");
    assert_eq!(missing(&election(), &members("0-1-13", Family::MariaDb)), "");
    let known = Election { known: set("a:1-12"), ..election() };
    assert_eq!(missing(&known, &members(&set("a:1-9"), Family::MySql)), set("a:10-12"));

    let mut stage = Stage::begun(plan());
    stage.failover.elected(10, elected(), &mut stage.out);
    let told = |order: &Order| match order {
        Order::Tell(Row { step, host, result: Ok(said), .. }) => {
            Some(format!("{step} {host:?} {said}"))
        }
        _ => None,
    };
    let told: Vec<String> = stage.out.iter().filter_map(told).collect();
    assert!(told[0].contains("not all that the lost writer had: 0-1-10"), "{told:?}");
    assert_eq!(told[1], "pass over HostId(4) it is delayed");
}

#[test]
fn other_replicas_are_repointed_if_they_have_no_more_than_the_new_writer() {
    let mut stage = Stage::promoting();
    let step = stage.failover.step;
    stage.failover.done(100, step, ok(""), &mut stage.out);
    let most = stage.out.iter().find_map(|order| match order {
        Order::Do { host: OTHER, action: Action::Follow { most, .. }, .. } => most.clone(),
        _ => None,
    });
    assert_eq!(most.as_deref(), Some("0-1-9"));
}

#[test]
fn a_writer_that_is_read_only_for_long_waits_for_a_person() {
    let closed = Loss::ReadOnly { writer: OLD };
    let mut watch = Watch::default();
    assert_eq!(watch.look(0, Mode::Off, &closed), Verdict::Nothing);
    assert_eq!(watch.look(1, Mode::Auto, &closed), Verdict::Nothing, "somebody may switch over");
    assert_eq!(watch.look(3_000, Mode::Auto, &closed), Verdict::Nothing);
    assert!(matches!(watch.look(3_001, Mode::Auto, &closed), Verdict::Stuck(OLD, _)));
    assert_eq!(watch.look(3_002, Mode::Auto, &closed), Verdict::Nothing, "told once");
    watch.look(3_003, Mode::Auto, &Loss::None);
    assert_eq!(watch.look(9_000, Mode::Auto, &closed), Verdict::Nothing, "anew");
}
