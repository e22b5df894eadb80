//! What operators, the monitor and the proxy's own stores have a say in.

use super::*;
use crate::oracle::{facts::Closed, history::Kill};

impl World {
    /// Another client of the same user, which logs in and says this.
    fn says_another(&mut self, sent_us: Micros, text: &str, kill: Option<Kill>) {
        let mut session = SessionHistory::new("app", "secret", 0);
        session.login = LoginOutcome::Accepted(10);
        session.ending = Some(Ending { at_us: 9_000, how: EndedBy::Client });
        let said = Said { is_proxys_own: true, ..Said::new(Tag::new(1, 1), Access::Session) };
        session.exchanges.push(Exchange {
            statements: vec![said],
            text: text.to_owned(),
            sent_us,
            paused_us: 0,
            answer: Answer::Whole(sent_us + 100, vec![done()]),
            mismatch: None,
            error_expected: None,
            is_unanswered: false,
            kill,
        });
        self.clients.push(ClientHistory { client: 1, sessions: vec![session] });
    }
}

fn read(number: u64) -> Said {
    Said::new(tag(number), Access::Read)
}

#[test]
fn a_read_on_a_server_that_was_taken_out() {
    let mut world = world();
    world.says(1_000, read(1), done()).runs(1_050, 2, tag(1), Effect::None);
    world.check(&[]);
    let closed = Closed { hostgroup: 20, host: READER, from_us: 500, until_us: Micros::MAX };
    world.facts.closed.push(closed);
    world.check(&[Breach::Misrouted]);
    // While it was on its way.
    world.facts.closed[0].from_us = 1_020;
    world.check(&[]);
    // It was let in again, and taken out again.
    world.facts.closed[0] = Closed { from_us: 500, until_us: 1_010, ..closed };
    world.facts.closed.push(Closed { from_us: 1_010, until_us: 1_030, ..closed });
    world.check(&[]);
    world.facts.closed[1].until_us = 1_051;
    world.check(&[Breach::Misrouted]);
    // Another entry of the same host is another matter.
    world.facts.closed.iter_mut().for_each(|closed| closed.hostgroup = 10);
    world.check(&[]);
}

#[test]
fn a_login_with_a_password_of_yesterday() {
    let mut world = world();
    world.session().password = "other".to_owned();
    world.check(&[Breach::LetIn]);
    let mut before = setting(&mut world).clone();
    before.users.get_mut("app").expect("there is one").password = "other".to_owned();
    before.until_us = 5;
    world.facts.settings.insert(0, before);
    world.check(&[]);
    world.session().begun_us = 6;
    world.check(&[Breach::LetIn]);
    // To be turned away is right as long as any worker goes by the new one.
    let denied =
        Refused { code: 1045, sqlstate: "28000".to_owned(), message: "Access denied".to_owned() };
    world.session().login = LoginOutcome::Refused(10, denied);
    world.check(&[]);
}

#[test]
fn a_login_of_who_is_to_be_turned_away() {
    for code in [1043, 1045, 1130, 3159] {
        let mut world = world();
        world.session().refusal_expected = Some(code);
        world.check(&[Breach::LetIn]);
    }
}

#[test]
fn copies_of_what_may_not_be_copied() {
    let mut world = world();
    let (link, host) = (LinkId(9), READER);
    let copies = LinkFact { link, host, hostgroup: 30, got_nonsense: false, closed: None };
    world.facts.links.push(copies);
    setting(&mut world).mirrors = vec![30];
    world.says(1_000, read(1), done()).runs(1_050, 1, tag(1), Effect::None);
    world.runs(1_060, 9, tag(1), Effect::None);
    world.facts.executions[1].host = READER;
    world.check(&[]);
    world.exchange(0).statements[0].access = Access::LockingRead;
    world.check(&[Breach::RanTwice]);
    // A copy is no answer.
    world.exchange(0).statements[0].access = Access::Read;
    world.facts.executions.remove(0);
    world.check(&[Breach::NeverRan]);
}

#[test]
fn a_stored_answer_that_is_too_old() {
    let mut world = world();
    let again = Said::new(Tag::repeated(0, 1), Access::Read);
    world.says(1_000, again, done()).runs(1_050, 1, again.tag, Effect::None);
    world.says(3_000, again, done());
    world.check(&[Breach::NeverRan]);
    setting(&mut world).cache_ttl_us = 1_900;
    world.check(&[Breach::NeverRan]);
    setting(&mut world).cache_ttl_us = 1_950;
    world.check(&[]);
    // An operator had it forgotten meanwhile; by the time that the client asked, or later.
    world.facts.flushes = vec![2_000];
    world.check(&[Breach::NeverRan]);
    world.facts.flushes = vec![500, 3_010];
    world.check(&[]);
    // Within a transaction nothing stored is right.
    world.exchange(1).statements[0].unit = Some(1);
    world.check(&[Breach::NeverRan]);
}

#[test]
fn a_stored_answer_from_before_an_acknowledged_write() {
    let mut world = world();
    let row = (Schema::Shop, 100);
    let again = |seen| Said {
        read: Some(OwnRead { row, seen }),
        ..Said::new(Tag::repeated(0, 1), Access::Read)
    };
    setting(&mut world).cache_ttl_us = 1_000_000;
    world.says(1_000, again(None), done()).runs(1_050, 1, again(None).tag, Effect::None);
    world.write(2, 2_000);
    let write = Some(OwnWrite { row, value: Some(2) });
    world.exchange(1).statements[0].write = write;
    // What was stored before may be told still; what ran behind the write may not show that.
    world.says(3_000, again(None), done());
    world.check(&[]);
    world.facts.executions[0].at_us = 2_500;
    world.exchange(0).sent_us = 2_400;
    world.exchange(0).answer = Answer::Whole(2_600, vec![done()]);
    world.session().exchanges.swap(0, 1);
    world.facts.executions.swap(0, 1);
    world.check(&[Breach::StaleRead]);
}

#[test]
fn an_answer_that_was_stored_for_another_schema() {
    let mut world = world();
    let shared = Tag::shared(1);
    world.says(1_000, Said::new(shared, Access::Read), done());
    world.runs(1_050, 2, shared, Effect::None);
    world.check(&[]);
    world.facts.executions[0].schema = Some(Schema::Depot);
    world.check(&[Breach::NeverRan]);
    world.exchange(0).statements[0].schema = Some(Schema::Depot);
    world.check(&[]);
}

#[test]
fn an_end_behind_what_was_interrupted() {
    let mut world = world();
    let number = 7;
    world.session().number = Some(number);
    let interrupted = error(1317, "Query execution was interrupted");
    world.says(1_000, Said::new(tag(1), Access::Write), interrupted);
    world.says(1_010, Said::new(tag(2), Access::Session), done());
    world.exchange(1).answer = Answer::Pending;
    world.session().ending = Some(Ending { at_us: 1_200, how: EndedBy::Proxy });
    world.says_another(1_000, "KILL QUERY 7", Some(Kill { number, query_only: true }));
    world.check(&[]);
    // A server had it.
    world.runs(1_050, 1, tag(1), Effect::None);
    world.facts.executions[0].error = Some(1317);
    world.check(&[Breach::EndedForNothing]);
    world.facts.executions.clear();
    // It only looked at something of its session.
    world.exchange(0).statements[0].access = Access::Read;
    world.check(&[Breach::EndedForNothing]);
    world.exchange(0).text = "SELECT a FROM v".to_owned();
    world.check(&[]);
    // Nothing was sent behind it.
    world.session().exchanges.truncate(1);
    world.check(&[Breach::EndedForNothing]);
}

#[test]
fn a_connection_that_the_proxy_closed_for_nonsense_is_a_lost_one() {
    let mut world = world();
    world.write(1, 1_000);
    let text = "LAST_INSERT_ID() is unknown: the server connection of the statement was lost";
    world.says(7_000_000, read(2), error(2013, text));
    world.session().ending = Some(Ending { at_us: 7_500_000, how: EndedBy::Client });
    world.facts.links[0].closed = Some((2_000, ClosedBy::Proxy));
    world.check(&[Breach::UntrueCause]);
    world.facts.links[0].closed = Some((2_000, ClosedBy::Garbage));
    world.check(&[]);
}

#[test]
fn a_session_is_held_by_what_ran_while_nobody_could_say_what_it_names() {
    let mut world = world();
    world.says(1_000, Said::new(tag(1), Access::Write), error(1290, "read-only"));
    world.runs(1_050, 1, tag(1), Effect::None);
    world.facts.executions[0].error = Some(1290);
    world.says(3_000, read(2), done()).runs(3_050, 1, tag(2), Effect::None);
    let closed = Closed { hostgroup: 10, host: WRITER, from_us: 2_000, until_us: Micros::MAX };
    world.facts.closed.push(closed);
    world.check(&[Breach::Misrouted]);
    world.says_another(1_020, "EXECUTE p1", None);
    world.check(&[]);
    // It began behind that.
    world.clients[1].sessions[0].exchanges[0].sent_us = 1_060;
    world.check(&[Breach::Misrouted]);
    // It was over before that, and what was asked for meanwhile is asked for again.
    world.clients[1].sessions[0].exchanges[0].sent_us = 500;
    world.clients[1].sessions[0].exchanges[0].answer = Answer::Whole(600, vec![done()]);
    world.check(&[]);
    // So it is by what succeeds.
    world.facts.executions[0].error = None;
    world.exchange(0).answer = Answer::Whole(1_100, vec![done()]);
    world.check(&[]);
}
