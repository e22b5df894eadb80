//! A write acknowledged is there once; one not acknowledged is there at most once; nothing that
//! may have effects runs twice.
//!
//! | the client knows | the servers |
//! |---|---|
//! | done, in autocommit | ran it once, committed (or lost it in a crash that loses) |
//! | failed with a server's error | ran it at most once, and left nothing |
//! | failed with an error of the proxy's that says "not sent" | did not run it |
//! | nothing: the connection was lost | ran it at most once |
//! | its transaction was committed | committed every statement of it that was done |
//! | its transaction was rolled back | committed none |
//! | not how its transaction ended | committed all of it or none |

use std::collections::HashSet;

use super::{
    Breach, Violation,
    endings::{has_garbage, is_forwarded},
    facts::{Effect, Execution},
    history::{Access, ClientHistory, Ends, Known, SessionHistory, is_of_connection},
    index::{Index, Place, units_of},
};
use crate::statement::Tag;

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    let mut copied = HashSet::new();
    for place in index.statements() {
        ran_once(index, &place, found);
        copied_once(index, &place, found);
        let mut copies = index.copies(place.said.tag);
        if copies.any(|copy| is_elsewhere(index, &place, copy)) {
            copied.insert(place.said.tag);
        }
        if place.said.unit.is_none() {
            autocommitted(index, &place, found);
        }
    }
    for (client, session) in index.sessions() {
        units(index, client, session, found);
    }
    in_store_once(index, &copied, found);
}

/// The tables themselves: whatever the servers' histories say, no insert is there twice, but of
/// those that were `copied` to where they may be.
fn in_store_once(index: &Index<'_>, copied: &HashSet<Tag>, found: &mut Vec<Violation>) {
    let mut tags = index.facts().log.clone();
    tags.sort_unstable();
    for pair in tags.windows(2) {
        if let [first, second] = pair
            && first == second
            && !copied.contains(&Tag(*first))
        {
            let tag = Tag(*first);
            found.push(Violation {
                breach: Breach::RanTwice,
                client: tag.client(),
                tag: Some(tag),
                at_us: index.facts().ended_us,
                evidence: "two rows of it are in the table at the end".to_owned(),
            });
        }
    }
}

/// Only certain reads run more than once, and no more often than they may be tried.
fn ran_once(index: &Index<'_>, place: &Place<'_>, found: &mut Vec<Violation>) {
    let times = times(index, place);
    if times > 1 && place.said.access != Access::Read {
        let runs: Vec<_> = index.ran(place.said.tag).collect();
        let evidence = format!("ran {times} times: {runs:?}");
        found.push(place.breach(Breach::RanTwice, place.at_us(), evidence));
    }
    // Of a text that is said again and again, nobody can tell which run was whose.
    if place.said.tag.is_repeated() {
        return;
    }
    let (sent_us, at_us) = (place.exchange.sent_us, place.at_us());
    let retries = index.facts().settings_between(sent_us, at_us).map(|it| it.retries_max).max();
    // Once more when it waits behind one that takes long, on a connection that both share.
    let times_max = 2 + usize::try_from(retries.unwrap_or(0)).unwrap_or(usize::MAX - 1);
    if times > times_max {
        let evidence = format!("a read ran {times} times, and {times_max} are allowed");
        found.push(place.breach(Breach::TriedTooOften, at_us, evidence));
    }
    if is_unsent(place) && !index.ran_at(place.said.tag).is_empty() {
        let evidence = "a server ran what the client was told is not sent".to_owned();
        found.push(place.breach(Breach::WriteUncalledFor, at_us, evidence));
    }
}

/// How often a statement was carried out. Of a transaction that may be repeated, what was rolled
/// back with its connection does not count, nor what its server has forgotten before somebody
/// looked for it; what changes nothing counts once a connection. A `BEGIN` whose answer has not
/// come may have begun one.
fn times(index: &Index<'_>, place: &Place<'_>) -> usize {
    let repeats = index.facts().settings.iter().any(|setting| setting.repeats);
    let is_outside = place.said.unit.is_none() && place.exchange.answered_us().is_some();
    if !repeats || is_outside {
        return index.ran_at(place.said.tag).len();
    }
    let ran: Vec<&Execution> = index.ran(place.said.tag).collect();
    let looks = index.facts().settings.iter().any(|setting| setting.outcome_max_us > 0);
    let is_there = |ran: &&&Execution| match ran.effect {
        Effect::Committed | Effect::Open => true,
        Effect::Lost => !looks,
        Effect::None | Effect::RolledBack => false,
    };
    let on_one = ran.iter().map(|one| ran.iter().filter(|it| it.link == one.link).count());
    on_one.max().unwrap_or_default().max(ran.iter().filter(is_there).count())
}

/// Whether a copy ran where nothing has to do with where its statement ran, for all that the proxy
/// knows.
fn is_elsewhere(index: &Index<'_>, place: &Place<'_>, copy: &Execution) -> bool {
    let mut settings = index.facts().settings_between(place.exchange.sent_us, copy.at_us);
    let mut known = index.facts().settings.iter();
    let user = known.find_map(|setting| setting.users.get(&place.session.user));
    settings.any(|setting| user.is_some_and(|user| !setting.is_kin(user, copy.host)))
}

/// Copies are of reads only, where servers share their tables, and as many as may be tried.
fn copied_once(index: &Index<'_>, place: &Place<'_>, found: &mut Vec<Violation>) {
    let copies: Vec<_> = index.copies(place.said.tag).collect();
    let at_us = place.at_us();
    let breach = match (copies.first(), place.said.access) {
        (None, _) => return,
        (Some(copy), Access::Write | Access::LockingRead | Access::Session) => {
            if is_elsewhere(index, place, copy) {
                return;
            }
            Breach::RanTwice
        }
        (Some(_), Access::Read) => {
            let retries = index.facts().settings.iter().map(|it| it.retries_max).max();
            let times_max = 2 + usize::try_from(retries.unwrap_or(0)).unwrap_or(usize::MAX - 2);
            if copies.len() <= times_max || place.said.tag.is_repeated() {
                return;
            }
            Breach::TriedTooOften
        }
    };
    found.push(place.breach(breach, at_us, format!("copies of it ran: {copies:?}")));
}

/// What the client was told means that no server has seen the statement.
fn is_unsent(place: &Place<'_>) -> bool {
    match place.exchange.known(place.part) {
        // The proxy's own: no connection in time, a rule's error, `KILL`.
        Known::Failed(error) => match error.code {
            9001 => place.said.access != Access::Read,
            1041 | 1094 => true,
            1148 | 1226 => true,
            _ => false,
        },
        // Reads that are out of their time are told so though they ran, all of one command.
        Known::Skipped => {
            let code = place.exchange.error().map(|error| error.code);
            place.said.access != Access::Read || !matches!(code, Some(1317 | 1907 | 9001))
        }
        Known::Done | Known::Unknown => false,
    }
}

/// What became of a statement's changes on servers.
fn effects<'a>(index: &Index<'a>, place: &Place<'_>) -> impl Iterator<Item = &'a Execution> {
    index.ran(place.said.tag).filter(|ran| ran.effect != Effect::None)
}

fn is_committed(index: &Index<'_>, place: &Place<'_>) -> bool {
    effects(index, place).any(|ran| matches!(ran.effect, Effect::Committed | Effect::Lost))
}

/// Whether its server had forgotten it at some time: whoever looked for it then did not find it.
fn was_away(index: &Index<'_>, place: &Place<'_>) -> bool {
    // What was rolled back is nowhere.
    let is_there = |ran: &&Execution| matches!(ran.effect, Effect::Committed | Effect::Lost);
    effects(index, place).filter(is_there).all(|ran| ran.was_lost)
}

fn autocommitted(index: &Index<'_>, place: &Place<'_>, found: &mut Vec<Violation>) {
    if place.said.access != Access::Write {
        return;
    }
    let at_us = place.at_us();
    match place.exchange.known(place.part) {
        Known::Done => {
            let bad = effects(index, place)
                .find(|ran| matches!(ran.effect, Effect::RolledBack | Effect::Open));
            let is_there = !place.said.has_changed || is_committed(index, place);
            if let Some(ran) = bad {
                let evidence = format!("acknowledged, and not committed: {ran:?}");
                found.push(place.breach(Breach::WriteLost, at_us, evidence));
            } else if !is_there {
                let evidence = "acknowledged, and no server has it".to_owned();
                found.push(place.breach(Breach::WriteLost, at_us, evidence));
            }
        }
        Known::Failed(error) if !is_of_connection(error) => {
            // A fast-forward client gets what its server sends, also what only looks like an error.
            let is_nonsense =
                is_forwarded(index, place.session, at_us) && has_garbage(index, at_us);
            let was_away = error.says_undone() && was_away(index, place);
            if is_committed(index, place) && !is_nonsense && !was_away {
                let evidence = format!("failed with {}, and is committed", error.code);
                found.push(place.breach(Breach::WriteUncalledFor, at_us, evidence));
            }
        }
        Known::Failed(error) if error.says_done() => {
            if !is_committed(index, place) {
                let evidence = "it was said to be done, and is not".to_owned();
                found.push(place.breach(Breach::WriteLost, at_us, evidence));
            }
        }
        Known::Failed(_) | Known::Skipped | Known::Unknown => {}
    }
}

/// Statements that were interrupted, perhaps before they were sent.
const INTERRUPTED: [u16; 2] = [1317, 1907];

/// How a transaction ended, as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Committed,
    RolledBack,
    Unknown,
}

fn units(
    index: &Index<'_>,
    client: &ClientHistory,
    session: &SessionHistory,
    found: &mut Vec<Violation>,
) {
    for places in units_of(client, session).values() {
        unit(index, places, found);
    }
}

fn unit(index: &Index<'_>, places: &[Place<'_>], found: &mut Vec<Violation>) {
    let verdict = verdict(places);
    let is_done = |place: &&Place<'_>| place.exchange.known(place.part) == Known::Done;
    let writes: Vec<_> = places
        .iter()
        .filter(|place| place.said.access == Access::Write)
        .filter(is_done)
        .filter(|place| place.said.has_changed)
        .collect();
    let committed = writes.iter().filter(|place| is_committed(index, place)).count();
    match verdict {
        Verdict::Committed => {
            for place in writes.iter().filter(|place| !is_committed(index, place)) {
                let evidence = "its transaction was committed without it".to_owned();
                found.push(place.breach(Breach::WriteLost, place.at_us(), evidence));
            }
        }
        Verdict::RolledBack => {
            // What was lost with its transaction, too.
            let is_undone = |place: &&Place<'_>| {
                let known = place.exchange.known(place.part);
                matches!(known, Known::Failed(error) if error.is_lost_transaction())
            };
            let is_there =
                |place: &&Place<'_>| is_committed(index, place) && !was_away(index, place);
            for place in places.iter().filter(is_undone).filter(is_there) {
                let evidence = "it was said to be rolled back, and it is committed".to_owned();
                found.push(place.breach(Breach::WriteUncalledFor, place.at_us(), evidence));
            }
            for place in writes.iter().copied().filter(is_there) {
                let evidence = "its transaction was rolled back, and it is committed".to_owned();
                found.push(place.breach(Breach::WriteUncalledFor, place.at_us(), evidence));
            }
        }
        Verdict::Unknown => {
            if let Some(place) = writes.last().filter(|_| !matches!(committed, 0))
                && committed != writes.len()
            {
                let evidence = format!("{committed} of {} writes are committed", writes.len());
                found.push(place.breach(Breach::TransactionTorn, place.at_us(), evidence));
            }
        }
    }
}

fn verdict(places: &[Place<'_>]) -> Verdict {
    let mut verdict = Verdict::Unknown;
    for place in places {
        let known = place.exchange.known(place.part);
        match (place.said.ends, known) {
            (Some(Ends::Commit), Known::Done) => verdict = Verdict::Committed,
            // What commits before it fails has committed, unless no server may have got it.
            (Some(Ends::Commit), Known::Failed(error))
                if !is_of_connection(error) && !INTERRUPTED.contains(&error.code) =>
            {
                verdict = Verdict::Committed;
            }
            (Some(Ends::Rollback), Known::Done) => verdict = Verdict::RolledBack,
            // A deadlock's victim is rolled back whole.
            (_, Known::Failed(error)) if error.code == 1213 => verdict = Verdict::RolledBack,
            _ => {}
        }
    }
    verdict
}
