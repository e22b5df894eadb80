//! A transaction's statements ran on one server connection, in order, with nobody else's between
//! them; and a session's statements ran in the order sent.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::{
    Breach, Violation,
    facts::Execution,
    history::{Access, ClientHistory, Known, SessionHistory, is_of_connection},
    index::{Index, Place, statements_of, units_of},
};
use crate::{LinkId, client::reply::Refused, statement::Tag};

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    let mut neighbours = Neighbours::new(index);
    for (client, session) in index.sessions() {
        in_order(index, client, session, found);
        for places in units_of(client, session).values() {
            if is_bound(index, session, places) {
                on_one_link(index, places, found);
            }
            neighbours.check(index, places, found);
        }
    }
}

/// Whether rules may not tear the transaction apart: its user's transactions are persistent in
/// every configuration of the time.
fn is_bound(index: &Index<'_>, session: &SessionHistory, places: &[Place<'_>]) -> bool {
    let from_us = places.first().map_or(0, |place| place.exchange.sent_us);
    let until_us = places.last().map_or(0, Place::at_us);
    let mut settings = index.facts().settings_between(from_us, until_us);
    settings.all(|setting| {
        let user = setting.users.get(&session.user);
        let sends = setting.rules.iter().any(|rule| rule.hostgroup.is_some());
        user.is_none_or(|user| user.is_transaction_persistent) || !sends
    })
}

/// Whether transactions are repeated that are lost.
fn is_repeated(index: &Index<'_>) -> bool {
    index.facts().settings.iter().any(|setting| setting.repeats)
}

/// All on one connection, but for a statement that begins it: until it was answered, it may have
/// been tried elsewhere.
fn on_one_link(index: &Index<'_>, places: &[Place<'_>], found: &mut Vec<Violation>) {
    let mut links: Vec<LinkId> = Vec::new();
    let mut has_left = false;
    // Where all that ran of it has run. It may have been tried elsewhere, if it may be repeated.
    let mut common: Option<Vec<LinkId>> = None;
    // What moves on is for another server, perhaps; it may have failed there.
    for place in places.iter().take_while(|place| !place.said.moves_on) {
        // Of a text that is said again, an earlier one's run may come late: it does not say where
        // the transaction is, and ran in its place if any of its runs did, and if it ran at all.
        let is_there = |ran: &Execution| links.is_empty() || links.contains(&ran.link);
        let has_run = place.exchange.known(place.part) == Known::Done;
        if place.said.tag.is_repeated() && (!has_run || index.runs(place).any(is_there)) {
            continue;
        }
        let Some(ran) = index.runs(place).next_back() else {
            continue;
        };
        let here: Vec<LinkId> = index.runs(place).map(|ran| ran.link).collect();
        common = match common {
            None => Some(here),
            Some(known) => Some(known.into_iter().filter(|link| here.contains(link)).collect()),
        };
        let is_elsewhere = !links.is_empty() && !links.contains(&ran.link);
        if is_elsewhere && place.said.leaves_reader && !std::mem::replace(&mut has_left, true) {
            links = index.runs(place).map(|ran| ran.link).collect();
            continue;
        }
        match links.as_slice() {
            // Where it was tried first it may have run late.
            [] => links.extend(index.runs(place).map(|ran| ran.link)),
            known if known.contains(&ran.link) => links = vec![ran.link],
            _ if is_repeated(index) && common.as_ref().is_some_and(|it| !it.is_empty()) => {}
            _ => {
                let evidence = format!("it was on {links:?}, and it ran on {:?}", ran.link);
                found.push(place.breach(Breach::TransactionScattered, ran.at_us, evidence));
                return;
            }
        }
    }
}

/// What a session sent first ran first; a later statement runs when the earlier one is answered.
fn in_order(
    index: &Index<'_>,
    client: &ClientHistory,
    session: &SessionHistory,
    found: &mut Vec<Violation>,
) {
    let mut last = None;
    for place in statements_of(client, session) {
        // What was on a connection that was lost may run there whenever it gets there.
        match place.exchange.known(place.part) {
            Known::Unknown => continue,
            Known::Failed(error) if is_of_connection(error) || error.is_lost_transaction() => {
                continue;
            }
            // A read that was given up is left where it is, and runs when it is its turn; also when
            // it waited elsewhere meanwhile.
            Known::Failed(Refused { code: 1317 | 1907 | 9001, .. })
                if place.said.access == Access::Read =>
            {
                continue;
            }
            Known::Done | Known::Failed(_) | Known::Skipped => {}
        }
        // Others may say the same text, its answer may be a stored one, and what was given up
        // before may run late.
        if place.said.tag.is_repeated() {
            continue;
        }
        let ran_at: Vec<_> = index.runs_at(&place).collect();
        // A read may run more than once: again when its answer was lost, and late where it was
        // sent first, behind one that takes long, when it has been answered from elsewhere. The
        // run that was answered is in its place.
        let in_place = ran_at.iter().find(|at| last.is_none_or(|last| last < **at));
        match in_place {
            Some(at) => last = Some(*at),
            None if ran_at.is_empty() => {}
            None => {
                let evidence = "it ran before a statement that its session sent earlier".to_owned();
                found.push(place.breach(Breach::OutOfOrder, place.at_us(), evidence));
            }
        }
    }
}

/// Executions by connection, in order, for a look at who else was there.
struct Neighbours {
    by_link: HashMap<LinkId, Vec<usize>, FixedState>,
}

impl Neighbours {
    fn new(index: &Index<'_>) -> Self {
        let mut by_link: HashMap<LinkId, Vec<usize>, FixedState> = HashMap::default();
        for (place, execution) in index.facts().executions.iter().enumerate() {
            by_link.entry(execution.link).or_default().push(place);
        }
        Self { by_link }
    }

    /// Nobody else's statement ran between the first and the last of a transaction.
    fn check(&mut self, index: &Index<'_>, places: &[Place<'_>], found: &mut Vec<Violation>) {
        let mut spans: BTreeMap<LinkId, (usize, usize)> = BTreeMap::new();
        let all = &index.facts().executions;
        let places_of_it = places
            .iter()
            .take_while(|place| !place.said.moves_on)
            .filter(|place| !place.said.tag.is_repeated());
        for at in places_of_it.flat_map(|place| index.runs_at(place)) {
            let Some(ran) = all.get(at) else { continue };
            let span = spans.entry(ran.link).or_insert((at, at));
            *span = (span.0.min(at), span.1.max(at));
        }
        let (Some(first), Some(client)) =
            (places.first(), places.first().map(|place| place.client.client))
        else {
            return;
        };
        // A text that everybody says is its own where it says it.
        let is_foreign = |tag: Tag| {
            let is_said = || places.iter().any(|place| place.said.tag == tag);
            tag.client() != Some(client) && !is_said()
        };
        for (link, (begin, end)) in spans {
            let on_link = self.by_link.get(&link).map_or(&[][..], Vec::as_slice);
            let from = on_link.partition_point(|at| *at < begin);
            let between = on_link.get(from..).unwrap_or_default();
            let foreign = between
                .iter()
                .take_while(|at| **at <= end)
                .filter_map(|at| all.get(*at))
                .find(|ran| ran.tag.is_some_and(is_foreign));
            if let Some(ran) = foreign {
                let evidence = format!("within its transaction somebody else's: {ran:?}");
                found.push(first.breach(Breach::Intruder, ran.at_us, evidence));
            }
        }
    }
}

/// Whether a statement locks or changes something, so that it can't go to a reader.
pub(super) fn needs_writer(access: Access) -> bool {
    matches!(access, Access::Write | Access::LockingRead)
}
