//! Statements went only where rules and the split let them.
//!
//! Workers take a configuration at different times, and a statement may wait while it changes:
//! what any configuration between its being sent and its being run allows, is allowed.

use std::collections::BTreeMap;

use super::{
    Breach, Violation,
    endings::is_forwarded,
    facts::{Execution, Setting, Split},
    history::{Access, Begins, ClientHistory, SessionHistory},
    index::{Index, Place, statements_of},
    transactions::needs_writer,
};
use crate::LinkId;

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    for (client, session) in index.sessions() {
        check_session(index, client, session, found);
    }
}

fn check_session(
    index: &Index<'_>,
    client: &ClientHistory,
    session: &SessionHistory,
    found: &mut Vec<Violation>,
) {
    // Where each transaction is, and where the session was last.
    let mut units: BTreeMap<u32, LinkId> = BTreeMap::new();
    let mut visited: Vec<LinkId> = Vec::new();
    // Where it was by its own wish to read: what it says there without an end stays there.
    let mut wished: Vec<LinkId> = Vec::new();
    for place in statements_of(client, session) {
        for ran in index.ran(place.said.tag) {
            let unit = place.said.unit.and_then(|unit| units.get(&unit));
            let is_held = unit == Some(&ran.link)
                || place.said.held
                    && visited.contains(&ran.link)
                    && (wished.contains(&ran.link) || may_follow(index, session, &place, ran));
            if !is_held && !is_allowed(index, session, &place, ran) {
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
        }
    }
}

/// Whether a statement may follow the session to a connection that holds it. A write does not
/// follow it to a server that never took writes of it.
fn may_follow(
    index: &Index<'_>,
    session: &SessionHistory,
    place: &Place<'_>,
    ran: &Execution,
) -> bool {
    let mut settings = index.facts().settings_between(session.begun_us, ran.at_us);
    place.said.access != Access::Write
        || place.said.unit.is_some()
        || settings.any(|setting| allows(setting, session, place, ran))
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
    let mut settings = index.facts().settings_between(from_us, ran.at_us);
    settings.any(|setting| allows(setting, session, place, ran))
}

fn allows(setting: &Setting, session: &SessionHistory, place: &Place<'_>, ran: &Execution) -> bool {
    // The session keeps the user that it logged in as; one that has gone since is judged by the
    // configurations that have it.
    let Some(user) = setting.users.get(&session.user) else {
        return false;
    };
    if user.is_forwarded {
        return setting.has_host(user.hostgroup, ran.host);
    }
    let ruled = setting.ruled(&session.user, &place.exchange.text);
    if ruled.is_answered {
        return false;
    }
    if let Some(hostgroup) = ruled.hostgroup {
        return setting.has_host(hostgroup, ran.host);
    }
    if setting.has_host(user.hostgroup, ran.host) {
        return true;
    }
    let may_read = place.said.begins == Some(Begins::ReadOnly)
        || place.said.access == Access::Read && place.said.unit.is_none();
    let is_readers = |split: &Split| {
        split.is_auto && split.writer == user.hostgroup && setting.has_host(split.reader, ran.host)
    };
    may_read && !needs_writer(place.said.access) && setting.splits.iter().any(is_readers)
}
