//! Statements went only where rules and the split let them.
//!
//! Workers take a configuration at different times, and a statement may wait while it changes:
//! what any configuration between its being sent and its being run allows, is allowed. A statement
//! that waits keeps its hostgroup, and runs on the servers that this has by then.

use std::collections::BTreeMap;

use super::{
    Breach, Violation,
    endings::is_forwarded,
    facts::{Execution, Setting, Split, UserFact},
    history::{Access, Begins, ClientHistory, SessionHistory},
    index::{Index, Place, statements_of},
    transactions::needs_writer,
    untold::Untold,
};
use crate::{LinkId, Micros, statement::Tag};

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    let untold = Untold::new(index);
    for (client, session) in index.sessions() {
        check_session(index, &untold, (client, session), found);
    }
}

fn check_session(
    index: &Index<'_>,
    untold: &Untold,
    (client, session): (&ClientHistory, &SessionHistory),
    found: &mut Vec<Violation>,
) {
    // Where each transaction is, and where the session was last.
    let mut units: BTreeMap<u32, LinkId> = BTreeMap::new();
    let mut visited = prepared_on(index, client, session);
    // Where it was by its own wish to read: what it got there beside its transaction (a named lock,
    // say) holds it there, with whatever it says.
    let mut wished: Vec<LinkId> = Vec::new();
    // Where something failed that may have left what only that connection has.
    let mut hiding: Vec<LinkId> = Vec::new();
    // What began transactions and was answered by the proxy: the first statement goes its way.
    let mut begun: BTreeMap<u32, Place<'_>> = BTreeMap::new();
    // Of a text that is said again, an earlier one's run may be among the later one's.
    for place in statements_of(client, session).filter(|place| !place.said.tag.is_repeated()) {
        let has_run = index.runs(&place).next().is_some();
        let is_begin = place.said.may_be_lazy && place.said.begins.is_some();
        if let (true, false, Some(unit)) = (is_begin, has_run, place.said.unit) {
            begun.insert(unit, place);
        }
        for ran in index.runs(&place) {
            let unit = place.said.unit.and_then(|unit| units.get(&unit));
            // Of what was sent ahead and not answered nobody knows whether it was in a transaction.
            let is_ahead = place.exchange.answered_us().is_none()
                && units.values().any(|link| *link == ran.link);
            let is_held = unit == Some(&ran.link)
                || is_ahead
                || hiding.contains(&ran.link)
                || place.said.held
                    && visited.contains(&ran.link)
                    && (wished.contains(&ran.link) || may_follow(index, session, &place, ran));
            let begin = place.said.unit.and_then(|unit| begun.get(&unit));
            let may_begin = begin.is_some_and(|begin| is_allowed(index, session, begin, ran));
            if begin.is_some_and(|begin| begin.said.begins == Some(Begins::ReadOnly)) {
                wished.push(ran.link);
            }
            if !is_held && !may_begin && !is_allowed(index, session, &place, ran) {
                let evidence = format!(
                    "it ran on host {} ({:?}); allowed: {}",
                    ran.host.0,
                    ran.link,
                    allowed(index, session, &place, ran)
                );
                found.push(place.breach(Breach::Misrouted, ran.at_us, evidence));
            }
            if let Some(unit) = place.said.unit {
                units.entry(unit).or_insert(ran.link);
            }
            if !visited.contains(&ran.link) {
                visited.push(ran.link);
            }
            if place.said.begins == Some(Begins::ReadOnly) {
                wished.push(ran.link);
            }
            if untold.may_hide(&place, ran) {
                hiding.push(ran.link);
            }
        }
        if let (true, Some(unit)) = (has_run, place.said.unit) {
            begun.remove(&unit);
        }
        if !has_run {
            visited.extend(failed_on(index, &place));
        }
    }
}

/// The connections on which a statement that names itself nowhere, a `SET` say, may have failed
/// with the error that its client was told.
fn failed_on<'a>(index: &Index<'a>, place: &Place<'_>) -> impl Iterator<Item = LinkId> + 'a {
    let exchange = place.exchange;
    let times = exchange.sent_us..=exchange.answered_us().unwrap_or(0);
    let error = exchange.error().map(|error| error.code);
    let executions = index.facts().executions.iter();
    let failed = executions.filter(move |it| {
        error.is_some() && it.tag.is_none() && it.error == error && times.contains(&it.at_us)
    });
    failed.map(|it| it.link)
}

/// The connections on which the session has prepared something, which may hold it there.
fn prepared_on(index: &Index<'_>, client: &ClientHistory, session: &SessionHistory) -> Vec<LinkId> {
    let until_us = session.ending.as_ref().map_or(Micros::MAX, |ending| ending.at_us);
    let is_own = |at_us: Micros, tag: Tag| {
        tag.client() == Some(client.client) && (session.begun_us..=until_us).contains(&at_us)
    };
    let prepares = index.facts().prepares.iter().filter(|(at_us, tag, _)| is_own(*at_us, *tag));
    prepares.map(|(.., link)| *link).collect()
}

/// Whether a statement may follow the session to a connection that holds it. A write does not
/// follow it to a server that never took writes of it.
fn may_follow(
    index: &Index<'_>,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
) -> bool {
    let from_us = session.begun_us;
    place.said.access != Access::Write
        || place.said.unit.is_some()
        || is_allowed_from(index, session, place, ran, from_us)
}

/// What the configurations of the time say, in words.
fn allowed(
    index: &Index<'_>,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
) -> String {
    let settings = index.facts().settings_between(place.exchange.sent_us, ran.at_us);
    let words = settings.map(|setting| {
        let Some(user) = setting.users.get(&session.user) else {
            return "no such user".to_owned();
        };
        let ruled = setting.ruled(&session.user, &place.exchange.text);
        format!("{ruled:?}, else {}, of {:?}", user.hostgroup, setting.hostgroups)
    });
    words.collect::<Vec<_>>().join("; or ")
}

fn is_allowed(
    index: &Index<'_>,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
) -> bool {
    // The connection of a fast-forward client was chosen before.
    let from_us = match is_forwarded(index, session, ran.at_us) {
        true => session.begun_us,
        false => place.exchange.sent_us,
    };
    is_allowed_from(index, session, place, ran, from_us)
}

/// Whether configurations of the time since `from_us` let a statement run there.
fn is_allowed_from(
    index: &Index<'_>,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
    from_us: Micros,
) -> bool {
    let settings: Vec<_> = index.facts().settings_between(from_us, ran.at_us).collect();
    let mut pairs = settings.iter().flat_map(|decided| {
        let later = settings.iter().filter(|placed| placed.until_us >= decided.until_us);
        later.map(|placed| Settings { decided, placed })
    });
    pairs.any(|settings| allows(index, settings, session, place, ran, from_us))
}

/// The configurations that a statement met on its way.
#[derive(Clone, Copy)]
struct Settings<'a> {
    /// Its rules chose the hostgroup.
    decided: &'a Setting,
    /// It has the servers of that hostgroup.
    placed: &'a Setting,
}

/// The user as a session has it: as it was when it logged in, or is by now.
fn users<'a>(
    index: &Index<'a>,
    session: &'a SessionHistory,
    until_us: Micros,
) -> impl Iterator<Item = &'a UserFact> {
    let settings = index.facts().settings_between(session.begun_us, until_us);
    settings.filter_map(|setting| setting.users.get(&session.user))
}

/// Whether the configurations let the statement, on its way since `from_us`, run there.
fn allows(
    index: &Index<'_>,
    settings: Settings<'_>,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
    from_us: Micros,
) -> bool {
    users(index, session, ran.at_us)
        .any(|user| allows_user(index, settings, user, session, place, ran, from_us))
}

fn allows_user(
    index: &Index<'_>,
    settings: Settings<'_>,
    user: &UserFact,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
    from_us: Micros,
) -> bool {
    // Nothing begins where an operator or the monitor has taken the server out: for its lag, say.
    let takes = |hostgroup| {
        settings.placed.has_host(hostgroup, ran.host)
            && index.facts().was_open(hostgroup, ran.host, from_us, ran.at_us)
    };
    if user.is_forwarded {
        return takes(user.hostgroup);
    }
    let ruled = settings.decided.ruled(&session.user, &place.exchange.text);
    if ruled.is_answered {
        return false;
    }
    if let Some(hostgroup) = ruled.hostgroup {
        return takes(hostgroup);
    }
    if takes(user.hostgroup) {
        return true;
    }
    let may_read = place.said.begins == Some(Begins::ReadOnly)
        || place.said.access == Access::Read && place.said.unit.is_none();
    let is_readers =
        |split: &Split| split.is_auto && split.writer == user.hostgroup && takes(split.reader);
    may_read && !needs_writer(place.said.access) && settings.decided.splits.iter().any(is_readers)
}
