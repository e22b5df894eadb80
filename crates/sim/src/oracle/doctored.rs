//! The oracle can fail: a good history passes, and each way to spoil it is found by its check.

mod control;
mod logs;
mod repeated;

use std::collections::BTreeMap;

use super::{
    Breach, Oracle, Rest, Run,
    facts::{
        Cause, CauseKind, Closed, ClosedBy, Effect, Execution, Facts, Gtid, LinkFact, RuleFact,
        Setting, Split, UserFact,
    },
    history::{
        Access, Answer, Begins, ClientHistory, EndedBy, Ending, Ends, Exchange, LoginOutcome,
        Mismatch, MismatchKind, OwnRead, OwnWrite, Said, SessionHistory,
    },
    limits::{Figure, Instant, Limited, Pair},
};
use crate::{
    HostId, LinkId, Micros,
    client::reply::{Done, Part, Refused},
    statement::{Schema, Tag},
};

const WRITER: HostId = HostId(0);
const READER: HostId = HostId(1);
const END_US: Micros = 60_000_000;

/// A world in which everything went well.
struct World {
    clients: Vec<ClientHistory>,
    facts: Facts,
    rest: Rest,
}

/// One client that reads and writes for a while, on two servers.
fn world() -> World {
    let mut session = SessionHistory::new("app", "secret", 0);
    session.login = LoginOutcome::Accepted(10);
    session.ending = Some(Ending { at_us: 9_000, how: EndedBy::Client });
    let client = ClientHistory { client: 0, sessions: vec![session] };
    let setting = Setting {
        from_us: 0,
        until_us: Micros::MAX,
        hostgroups: BTreeMap::from([(10, vec![WRITER]), (20, vec![READER])]),
        splits: vec![Split { writer: 10, reader: 20, is_auto: true }],
        users: BTreeMap::from([(
            "app".to_owned(),
            UserFact {
                password: "secret".to_owned(),
                hostgroup: 10,
                is_transaction_persistent: true,
                is_forwarded: false,
            },
        )]),
        rules: Vec::new(),
        retries_max: 1,
        repeats: false,
        outcome_max_us: 0,
        query_timeout_us: 0,
        queue_wait_max_us: 1_000_000,
        wait_timeout_us: 8_000_000,
        login_max_us: 10_000_000,
        limited: None,
        limit_wait_us: 0,
        cache_ttl_us: 0,
        mirrors: Vec::new(),
    };
    let link = |link, host: HostId| {
        let hostgroup = if host == WRITER { 10 } else { 20 };
        LinkFact { link: LinkId(link), host, hostgroup, got_nonsense: false, closed: None }
    };
    let facts = Facts {
        links: vec![link(1, WRITER), link(2, READER), link(3, WRITER)],
        settings: vec![setting],
        primaries: vec![(0, WRITER)],
        statement_max_us: 1_000_000,
        ended_us: END_US,
        ..Facts::default()
    };
    World { clients: vec![client], facts, rest: Rest::default() }
}

fn tag(number: u64) -> Tag {
    Tag::new(0, number)
}

fn done() -> Part {
    Part::Ok(Done { affected_rows: 1, ..Done::default() })
}

fn error(code: u16, message: &str) -> Part {
    Part::Error(Refused { code, sqlstate: "HY000".to_owned(), message: message.to_owned() })
}

fn setting(world: &mut World) -> &mut Setting {
    world.facts.settings.first_mut().expect("there is one")
}

impl World {
    fn session(&mut self) -> &mut SessionHistory {
        &mut self.clients[0].sessions[0]
    }

    fn exchange(&mut self, number: usize) -> &mut Exchange {
        &mut self.session().exchanges[number]
    }

    /// The client says something, and is answered 100 µs later.
    fn says(&mut self, sent_us: Micros, said: Said, reply: Part) -> &mut Self {
        self.session().exchanges.push(Exchange {
            statements: vec![said],
            text: format!("statement {}", said.tag.0),
            sent_us,
            paused_us: 0,
            answer: Answer::Whole(sent_us + 100, vec![reply]),
            mismatch: None,
            error_expected: None,
            is_unanswered: false,
            kill: None,
        });
        self
    }

    /// A server runs it.
    fn runs(&mut self, at_us: Micros, link: u64, tag: Tag, effect: Effect) -> &mut Self {
        let host = if link == 2 { READER } else { WRITER };
        let tag = Some(tag);
        let link = LinkId(link);
        let (schema, error, gtid) = (None, None, None);
        let was_lost = effect == Effect::Lost;
        let ran = Execution { at_us, host, link, tag, schema, error, effect, gtid, was_lost };
        self.facts.executions.push(ran);
        self
    }

    fn write(&mut self, number: u64, at_us: Micros) -> &mut Self {
        let said = Said { has_changed: true, ..Said::new(tag(number), Access::Write) };
        self.says(at_us, said, done()).runs(at_us + 50, 1, tag(number), Effect::Committed)
    }

    fn loses(&mut self, link: usize, at_us: Micros) -> &mut Self {
        self.facts.links[link - 1].closed = Some((at_us, ClosedBy::Server));
        self
    }

    fn broken(&self) -> Vec<Breach> {
        let run = Run { clients: &self.clients, facts: &self.facts, rest: &self.rest };
        let mut breaches: Vec<_> =
            Oracle::new().check(&run).iter().map(|violation| violation.breach).collect();
        breaches.dedup();
        breaches
    }

    fn check(&self, expected: &[Breach]) {
        let run = Run { clients: &self.clients, facts: &self.facts, rest: &self.rest };
        let violations = Oracle::new().check(&run);
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(self.broken(), expected, "{texts:#?}");
    }
}

/// A transaction with two writes, from `at_us` on, on link 1.
fn transaction(world: &mut World, at_us: Micros, effect: Effect) {
    let said = |number, access| Said { unit: Some(1), ..Said::new(tag(number), access) };
    let begin = Said { begins: Some(Begins::ReadWrite), ..said(1, Access::Session) };
    let write = |number| Said { has_changed: true, ..said(number, Access::Write) };
    let commit = Said { ends: Some(Ends::Commit), ..said(4, Access::Session) };
    world
        .says(at_us, begin, done())
        .runs(at_us + 50, 1, tag(1), Effect::None)
        .says(at_us + 200, write(2), done())
        .runs(at_us + 250, 1, tag(2), effect)
        .says(at_us + 400, write(3), done())
        .runs(at_us + 450, 1, tag(3), effect)
        .says(at_us + 600, commit, done())
        .runs(at_us + 650, 1, tag(4), Effect::None);
}

/// A read of the client's own row that showed `seen`, on the writer.
fn read(world: &mut World, number: u64, at_us: Micros, seen: Option<u64>) {
    let row = (Schema::Shop, 100);
    let said = Said { read: Some(OwnRead { row, seen }), ..Said::new(tag(number), Access::Read) };
    let rows = Part::Rows { columns: Vec::new(), rows: Vec::new(), end: Some(Done::default()) };
    world.says(at_us, said, rows).runs(at_us + 50, 1, tag(number), Effect::None);
}

#[test]
fn a_good_history_passes() {
    let mut world = world();
    world.write(9, 1_000);
    transaction(&mut world, 2_000, Effect::Committed);
    world.check(&[]);
}

#[test]
fn replies_that_are_not_their_statements() {
    for (kind, breach) in [
        (MismatchKind::Foreign, Breach::ForeignReply),
        (MismatchKind::Shape, Breach::WrongReply),
        (MismatchKind::State, Breach::ForeignState),
        (MismatchKind::Data, Breach::WrongData),
        (MismatchKind::Nonsense, Breach::Nonsense),
    ] {
        let mut world = world();
        world.write(1, 1_000);
        world.exchange(0).mismatch = Some(Mismatch { kind, evidence: "doctored".to_owned() });
        world.check(&[breach]);
    }
}

#[test]
fn an_answer_without_an_execution() {
    let mut world = world();
    world.says(1_000, Said::new(tag(1), Access::Read), done());
    world.check(&[Breach::NeverRan]);
    // A rule may have answered it.
    let rule = RuleFact { is_answered: true, applies: true, ..RuleFact::default() };
    setting(&mut world).rules.push(rule);
    world.check(&[]);
}

#[test]
fn a_read_on_the_primary_that_misses_an_acknowledged_write() {
    let row = (Schema::Shop, 100);
    let written = |world: &mut World, number, value, at_us| {
        world.write(number, at_us);
        let last = world.session().exchanges.len() - 1;
        world.exchange(last).statements[0].write = Some(OwnWrite { row, value });
    };
    for (seen, expected) in
        [(Some(2), &[][..]), (Some(1), &[Breach::StaleRead]), (None, &[Breach::StaleRead])]
    {
        let mut world = world();
        written(&mut world, 1, Some(1), 1_000);
        written(&mut world, 2, Some(2), 2_000);
        read(&mut world, 3, 3_000, seen);
        world.check(expected);
    }
    // On a replica it may.
    let mut lagging = world();
    written(&mut lagging, 1, Some(1), 1_000);
    written(&mut lagging, 2, Some(2), 2_000);
    read(&mut lagging, 3, 3_000, Some(1));
    let ran = lagging.facts.executions.last_mut().expect("it ran");
    (ran.host, ran.link) = (READER, LinkId(2));
    lagging.check(&[]);
}

#[test]
fn a_write_that_runs_twice_whoever_was_told_what() {
    let mut world = world();
    world.write(1, 1_000).runs(1_080, 3, tag(1), Effect::RolledBack);
    assert!(world.broken().contains(&Breach::RanTwice));
    // Its outcome is not known to the client.
    let mut world = self::world();
    world.write(1, 1_000).loses(1, 1_060).runs(1_080, 3, tag(1), Effect::Committed);
    world.exchange(0).answer = Answer::Whole(1_100, vec![error(2013, "Lost connection")]);
    world.check(&[Breach::RanTwice]);
    // The servers' histories don't show it, the table does.
    let mut world = self::world();
    world.write(1, 1_000);
    world.facts.log = vec![tag(1).0, tag(2).0, tag(1).0];
    world.check(&[Breach::RanTwice]);
}

#[test]
fn a_write_of_unknown_outcome_is_there_at_most_once() {
    for runs in [0, 1] {
        let mut world = world();
        let said = Said::new(tag(1), Access::Write);
        world.says(1_000, said, error(2013, "Lost connection")).loses(1, 1_060);
        if runs == 1 {
            world.runs(1_050, 1, tag(1), Effect::Committed);
        }
        world.check(&[]);
    }
}

#[test]
fn what_is_said_of_a_write_whose_answer_was_lost_is_so() {
    const DONE: &str = "Lost connection (reset); the statement was carried out, but";
    const UNDONE: &str = "Lost connection (reset); the statement was not carried out, try again";
    for (code, text, effect, expected) in [
        (2013, DONE, Effect::Committed, &[][..]),
        (2013, DONE, Effect::RolledBack, &[Breach::WriteLost]),
        (1213, UNDONE, Effect::RolledBack, &[]),
        (1213, UNDONE, Effect::Committed, &[Breach::WriteUncalledFor]),
        // Its server has forgotten it.
        (1213, UNDONE, Effect::Lost, &[]),
    ] {
        let mut world = world();
        let said = Said::new(tag(1), Access::Write);
        world.says(1_000, said, error(code, text)).loses(1, 1_060);
        world.runs(1_050, 1, tag(1), effect).check(expected);
    }
}

#[test]
fn a_read_that_is_tried_too_often() {
    let mut world = world();
    read(&mut world, 1, 1_000, None);
    world.runs(1_060, 3, tag(1), Effect::None);
    world.check(&[]);
    // Once more where it stood behind one that took long.
    world.runs(1_070, 3, tag(1), Effect::None);
    world.check(&[]);
    world.runs(1_080, 3, tag(1), Effect::None);
    world.check(&[Breach::TriedTooOften]);
}

#[test]
fn an_acknowledged_write_that_is_not_there() {
    let mut world = world();
    world.write(1, 1_000);
    world.facts.executions[0].effect = Effect::RolledBack;
    world.check(&[Breach::WriteLost]);
    world.facts.executions[0].effect = Effect::None;
    world.check(&[Breach::WriteLost]);
    // A crash that loses is the server's doing.
    world.facts.executions[0].effect = Effect::Lost;
    world.check(&[]);
}

#[test]
fn a_write_that_was_refused_and_is_there() {
    let mut world = world();
    world.write(1, 1_000);
    world.exchange(0).answer = Answer::Whole(1_100, vec![error(1062, "Duplicate entry")]);
    world.facts.executions[0].error = Some(1062);
    world.check(&[Breach::WriteUncalledFor]);
    // The client was told that nothing was sent.
    let why = "Max connect timeout reached while reaching hostgroup 10: 0 statements wait already";
    world.exchange(0).answer = Answer::Whole(1_100, vec![error(9001, why)]);
    world.facts.executions[0].effect = Effect::None;
    let full = Cause { from_us: 0, until_us: 2_000, kind: CauseKind::QueueFull, host: None };
    world.facts.causes.push(full);
    world.check(&[Breach::WriteUncalledFor]);
}

#[test]
fn a_transaction_that_is_there_in_part() {
    let mut world = world();
    transaction(&mut world, 1_000, Effect::Committed);
    world.facts.executions[1].effect = Effect::RolledBack;
    world.check(&[Breach::WriteLost]);
    // The answer to its commit was lost: all of it or nothing.
    world.exchange(3).answer = Answer::Whole(1_700, vec![error(2013, "Lost connection")]);
    world.loses(1, 1_690);
    world.check(&[Breach::TransactionTorn]);
    world.facts.executions[2].effect = Effect::RolledBack;
    world.check(&[]);
    // It was rolled back.
    let mut world = self::world();
    transaction(&mut world, 1_000, Effect::Committed);
    world.exchange(3).statements[0].ends = Some(Ends::Rollback);
    world.check(&[Breach::WriteUncalledFor]);
}

#[test]
fn a_transaction_on_two_connections() {
    let mut world = world();
    transaction(&mut world, 1_000, Effect::Committed);
    world.facts.executions[2].link = LinkId(3);
    world.check(&[Breach::TransactionScattered]);
}

#[test]
fn somebody_else_within_a_transaction() {
    let mut world = world();
    transaction(&mut world, 1_000, Effect::Committed);
    let intruder = Execution {
        at_us: 1_300,
        tag: Some(Tag::new(1, 1)),
        effect: Effect::None,
        ..world.facts.executions[0].clone()
    };
    world.facts.executions.insert(2, intruder);
    world.check(&[Breach::Intruder]);
}

#[test]
fn statements_in_another_order_than_sent() {
    let mut world = world();
    world.write(1, 1_000).write(2, 2_000);
    world.facts.executions.swap(0, 1);
    world.check(&[Breach::OutOfOrder]);
}

#[test]
fn statements_where_they_may_not_go() {
    // A write on a reader.
    let mut world = world();
    world.write(1, 1_000);
    (world.facts.executions[0].host, world.facts.executions[0].link) = (READER, LinkId(2));
    world.check(&[Breach::Misrouted]);
    // Nor may it follow what holds the session there.
    let reads = Said { held: true, ..Said::new(tag(2), Access::Read) };
    world.says(900, reads, done()).runs(950, 2, tag(2), Effect::None);
    world.session().exchanges.swap(0, 1);
    world.facts.executions.swap(0, 1);
    world.exchange(1).statements[0].held = true;
    world.check(&[Breach::Misrouted]);
    let mut world = self::world();
    world.write(1, 1_000);
    (world.facts.executions[0].host, world.facts.executions[0].link) = (READER, LinkId(2));
    // A read there is right, but for a rule.
    world.exchange(0).statements[0] = Said::new(tag(1), Access::Read);
    world.facts.executions[0].effect = Effect::None;
    world.check(&[]);
    let rule = RuleFact {
        contains: Some("statement".to_owned()),
        hostgroup: Some(10),
        applies: true,
        ..RuleFact::default()
    };
    setting(&mut world).rules.push(rule);
    world.check(&[Breach::Misrouted]);
    // A configuration without the rule was in force while it waited.
    let mut before = world.facts.settings[0].clone();
    before.rules.clear();
    before.until_us = 1_020;
    world.facts.settings.insert(0, before);
    world.check(&[]);
}

#[test]
fn a_read_on_a_replica_that_lags_too_much() {
    let check = |from_us, until_us, expected: &[Breach]| {
        let mut world = world();
        let read = Said::new(tag(1), Access::Read);
        world.says(1_000, read, done()).runs(1_050, 2, tag(1), Effect::None);
        world.facts.lagging.push(Closed { hostgroup: 20, host: READER, from_us, until_us });
        world.check(expected);
    };
    check(900, Micros::MAX, &[Breach::Misrouted]);
    // On its way before it was seen, or behind it.
    check(1_010, Micros::MAX, &[]);
    check(900, 1_040, &[]);
}

#[test]
fn figures_beyond_their_limits() {
    let what = Limited::ServerConnections(0);
    let check = |figures: &[(u64, u64)], expected: usize| {
        let mut oracle = Oracle::new();
        for (at_us, (now, max)) in (0..).zip(figures) {
            let figures = [Figure { what, now: *now, max: *max }];
            oracle.check_now(&Instant { at_us, figures: &figures, pairs: &[] });
        }
        let world = world();
        let run = Run { clients: &world.clients, facts: &world.facts, rest: &world.rest };
        let found = oracle.check(&run);
        assert_eq!(found.len(), expected, "{figures:?}: {found:?}");
    };
    check(&[(1, 2), (2, 2), (1, 2)], 0);
    check(&[(2, 2), (3, 2)], 1);
    // An operator has lowered it: what is there may stay, and not grow.
    check(&[(5, 5), (5, 2), (4, 2), (3, 2), (2, 2)], 0);
    check(&[(5, 5), (4, 2), (5, 2)], 1);
    let mut oracle = Oracle::new();
    let pairs = [Pair { what, counted: 2, there: 1 }];
    oracle.check_now(&Instant { at_us: 0, figures: &[], pairs: &pairs });
    assert!(oracle.has_found());
}

#[test]
fn statements_without_an_answer_in_time() {
    let mut world = world();
    world.write(1, 1_000);
    world.exchange(0).answer = Answer::Pending;
    // The client went before.
    world.check(&[]);
    world.session().ending = None;
    world.check(&[Breach::Unanswered]);
    world.exchange(0).answer = Answer::Whole(30_000_000, vec![done()]);
    world.check(&[Breach::Unanswered]);
    // It took its time to read.
    world.exchange(0).paused_us = 29_000_000;
    world.check(&[]);
}

#[test]
fn a_login_without_an_answer() {
    let mut world = world();
    world.session().login = LoginOutcome::Pending;
    world.session().ending = None;
    world.check(&[Breach::Unanswered]);
}

#[test]
fn a_session_that_ends_for_nothing() {
    let mut world = world();
    world.write(1, 1_000);
    world.session().ending = Some(Ending { at_us: 5_000, how: EndedBy::Proxy });
    world.check(&[Breach::EndedForNothing]);
    // It has rested for long, or the proxy stops.
    let mut rested = self::world();
    rested.write(1, 1_000);
    rested.session().ending = Some(Ending { at_us: 8_100_000, how: EndedBy::Proxy });
    rested.check(&[]);
    let stops =
        Cause { from_us: 4_000, until_us: Micros::MAX, kind: CauseKind::Stopping, host: None };
    world.facts.causes.push(stops);
    world.check(&[]);
}

#[test]
fn errors_whose_cause_is_not_there() {
    let lead = "Max connect timeout reached while reaching hostgroup 10 after 1000ms";
    let cases = [
        (1062, "Duplicate entry".to_owned(), None),
        (2013, "Lost connection to MySQL server during query".to_owned(), None),
        (
            2013,
            "Lost connection (its server was taken out of the hostgroup)".to_owned(),
            Some(CauseKind::Offline),
        ),
        (1148, "no casts here".to_owned(), None),
        (9001, format!("{lead}: the stars are wrong"), None),
        (9001, format!("{lead}: none of its 1 servers is online"), Some(CauseKind::Offline)),
        (
            9001,
            format!("{lead}: its 1 online servers are at max_connections"),
            Some(CauseKind::Full),
        ),
        (
            9001,
            format!("{lead}: no connection to its 1 online servers came up in time"),
            Some(CauseKind::Unreachable),
        ),
        (9001, format!("{lead}: 5 statements wait already"), Some(CauseKind::QueueFull)),
        (1045, "Access denied".to_owned(), Some(CauseKind::AccountRefused)),
        (1226, "User has exceeded".to_owned(), Some(CauseKind::UserFull)),
    ];
    for (code, message, kind) in cases {
        let mut world = world();
        world.says(1_000, Said::new(tag(1), Access::Read), error(code, &message));
        world.check(&[Breach::UntrueCause]);
        if let Some(kind) = kind {
            let cause = Cause { from_us: 500, until_us: 1_050, kind, host: None };
            world.facts.causes.push(cause);
            world.check(&[]);
        }
    }
}

#[test]
fn errors_that_servers_gave_are_true() {
    let mut world = world();
    world.says(1_000, Said::new(tag(1), Access::Read), error(1146, "no such table"));
    world.runs(1_050, 1, tag(1), Effect::None);
    world.check(&[Breach::UntrueCause]);
    world.facts.executions[0].error = Some(1146);
    world.check(&[]);
}

#[test]
fn a_loss_of_long_ago_is_no_cause_unless_it_was_the_sessions() {
    let mut world = world();
    world.write(1, 1_000);
    let said = Said::new(tag(2), Access::Read);
    world.says(7_000_000, said, error(2013, "Lost connection")).loses(3, 2_000);
    world.session().ending = Some(Ending { at_us: 7_500_000, how: EndedBy::Client });
    world.check(&[Breach::UntrueCause]);
    world.loses(1, 2_000);
    world.check(&[]);
}

#[test]
fn an_end_for_inactivity_without_rest() {
    let mut world = world();
    world.write(1, 1_000);
    let said = Said::new(tag(2), Access::Read);
    world.says(2_000, said, error(4031, "disconnected because of inactivity"));
    world.session().ending = Some(Ending { at_us: 2_100, how: EndedBy::Proxy });
    world.check(&[Breach::UntrueCause]);
    let mut rested = self::world();
    rested.write(1, 1_000);
    let said = Said::new(tag(2), Access::Read);
    rested.says(9_000_000, said, error(4031, "disconnected because of inactivity"));
    rested.session().ending = Some(Ending { at_us: 9_000_100, how: EndedBy::Proxy });
    rested.check(&[]);
}

#[test]
fn a_login_that_is_refused_for_nothing() {
    let mut world = world();
    let denied =
        Refused { code: 1045, sqlstate: "28000".to_owned(), message: "Access denied".to_owned() };
    world.session().login = LoginOutcome::Refused(500, denied);
    world.check(&[Breach::UntrueCause]);
    world.session().refusal_expected = Some(1045);
    world.check(&[]);
}

#[test]
fn what_is_left_at_rest() {
    let mut world = world();
    world.rest.left.push("a place under max_connections".to_owned());
    world.rest.unstopped.push(1);
    world.check(&[Breach::Leak]);
}

#[test]
fn the_name_of_somebody_elses_commit() {
    let mut world = world();
    world.write(1, 1_000).write(2, 2_000);
    let gtid = |number| Some(Gtid { host: WRITER, mark: None, number });
    world.facts.executions[0].gtid = gtid(1);
    world.exchange(0).statements[0].gtid = gtid(1);
    world.check(&[]);
    world.exchange(1).statements[0].gtid = gtid(2);
    world.check(&[Breach::ForeignState]);
}

#[test]
fn what_servers_do_not_understand() {
    let mut world = world();
    world.rest.nonsense.push("SELEC".to_owned());
    world.check(&[Breach::Nonsense]);
}

#[test]
fn a_commit_that_no_server_has_heard() {
    let mut world = world();
    let lazy = |number, begins, ends| Said {
        unit: Some(1),
        may_be_lazy: true,
        begins,
        ends,
        ..Said::new(tag(number), Access::Session)
    };
    // Of a transaction in which nothing was sent.
    world.says(1_000, lazy(1, Some(Begins::ReadWrite), None), done());
    world.says(2_000, lazy(3, None, Some(Ends::Commit)), done());
    world.check(&[]);
    // And of one in which something was read.
    let read = Said { unit: Some(1), ..Said::new(tag(2), Access::LockingRead) };
    world.says(1_500, read, done()).runs(1_550, 1, tag(2), Effect::None);
    world.session().exchanges.swap(1, 2);
    world.check(&[Breach::NeverRan]);
}
