//! Every reply belongs to the statement that it answers, and shows its session's state alone.
//!
//! Clients compare each reply with what a direct connection would have given, and say so in the
//! exchange. What no client can know is found here: whether a server ran the statement at all,
//! and whether a read on the primary saw what was acknowledged before.

use std::collections::BTreeMap;

use super::{
    Breach, Violation,
    endings::{has_garbage, is_forwarded},
    facts::{Effect, Execution},
    history::{
        Access, Exchange, Known, Mismatch, MismatchKind, OwnRead, OwnWrite, RowId, SessionHistory,
    },
    index::{Index, Place, statements_of},
};
use crate::Micros;

pub(super) fn check(index: &Index<'_>, found: &mut Vec<Violation>) {
    for (client, session) in index.sessions() {
        for exchange in &session.exchanges {
            let violation = mismatch(client.client, exchange)
                .filter(|violation| !is_servers_nonsense(index, session, violation))
                .filter(|_| !is_told_early(index, session, exchange));
            found.extend(violation);
        }
    }
    for place in index.statements() {
        never_ran(index, &place, found);
    }
    for client in index.run.clients {
        let mut rows: BTreeMap<RowId, Row> = BTreeMap::new();
        for session in &client.sessions {
            for place in statements_of(client, session) {
                own_row(index, &place, &mut rows, found);
            }
        }
    }
}

/// A fast-forward client gets what its server sends, nonsense too.
fn is_servers_nonsense(index: &Index<'_>, session: &SessionHistory, violation: &Violation) -> bool {
    let at_us = session.ending.as_ref().map_or(violation.at_us, |ending| ending.at_us);
    violation.breach == Breach::Nonsense
        && is_forwarded(index, session, at_us)
        && has_garbage(index, at_us)
}

/// A ping is answered with the flags of a session whose transaction is lost with its connection;
/// the next command is told so.
fn is_told_early(index: &Index<'_>, session: &SessionHistory, exchange: &Exchange) -> bool {
    let is_of_flags =
        |mismatch: &Mismatch| mismatch.evidence.starts_with("expected the status flags");
    let at_us = exchange.answered_us().unwrap_or(exchange.sent_us);
    let said = session.exchanges.iter().flat_map(|it| &it.statements);
    let mut links = said.flat_map(|said| index.ran(said.tag)).map(|ran| ran.link);
    exchange.text == "ping"
        && exchange.mismatch.as_ref().is_some_and(is_of_flags)
        && links.any(|link| index.lost(link).is_some_and(|lost_us| lost_us <= at_us))
}

/// What the client itself found.
fn mismatch(client: usize, exchange: &Exchange) -> Option<Violation> {
    let mismatch = exchange.mismatch.as_ref()?;
    let breach = match mismatch.kind {
        MismatchKind::Foreign => Breach::ForeignReply,
        MismatchKind::Shape => Breach::WrongReply,
        MismatchKind::State => Breach::ForeignState,
        MismatchKind::Data => Breach::WrongData,
        MismatchKind::Nonsense => Breach::Nonsense,
    };
    Some(Violation {
        breach,
        client: Some(client),
        tag: exchange.statements.first().map(|said| said.tag),
        at_us: exchange.answered_us().unwrap_or(exchange.sent_us),
        evidence: format!("{}; the command was {:?}", mismatch.evidence, exchange.text),
    })
}

/// Whether no server has run another statement of its transaction before it.
fn is_first(index: &Index<'_>, place: &Place<'_>) -> bool {
    let Some(unit) = place.said.unit else { return true };
    let mut before = statements_of(place.client, place.session)
        .take_while(|other| other.said.tag != place.said.tag)
        .filter(|other| other.said.unit == Some(unit));
    !before.any(|other| index.runs(&other).next().is_some())
}

/// A statement that was answered as done has been run by a server, unless a rule answers it.
fn never_ran(index: &Index<'_>, place: &Place<'_>, found: &mut Vec<Violation>) {
    let is_done = place.exchange.known(place.part) == Known::Done;
    if !is_done || place.said.is_proxys_own || answers(index, place).next().is_some() {
        return;
    }
    if place.said.may_be_lazy && is_first(index, place) {
        return;
    }
    let until_us = place.at_us();
    let user = &place.session.user;
    let mut settings = index.facts().settings_between(place.exchange.sent_us, until_us);
    if !settings.any(|setting| setting.ruled(user, &place.exchange.text).is_answered) {
        let evidence = "answered, and no server ran it, or too long ago".to_owned();
        found.push(place.breach(Breach::NeverRan, until_us, evidence));
    }
}

/// The executions that a statement's answer can be of: its own, or, outside transactions, one of
/// the same text in the same schema that is not older than what is stored may be.
fn answers<'a>(index: &Index<'a>, place: &Place<'_>) -> impl Iterator<Item = &'a Execution> {
    let (sent_us, until_us) = (place.exchange.sent_us, place.at_us());
    let settings = index.facts().settings_between(sent_us, until_us);
    let ttl_us = settings.map(|setting| setting.cache_ttl_us).max().unwrap_or(0);
    let is_stored = place.said.tag.is_repeated() && place.said.unit.is_none();
    let since_us = match (is_stored, place.said.tag.is_repeated()) {
        (true, _) => sent_us.saturating_sub(ttl_us),
        (false, true) => sent_us,
        (false, false) => 0,
    };
    // Nothing that ran before an operator had answers forgotten is told to who asks afterwards.
    let flushes = index.facts().flushes.iter().filter(|at_us| **at_us <= sent_us);
    let since_us = since_us.max(flushes.max().copied().unwrap_or(0));
    let (is_repeated, schema) = (place.said.tag.is_repeated(), place.said.schema);
    index.ran(place.said.tag).filter(move |ran| {
        (since_us..=until_us).contains(&ran.at_us) && (!is_repeated || ran.schema == schema)
    })
}

/// A row that one client alone writes.
#[derive(Default)]
struct Row {
    /// Writes in the order sent.
    writes: Vec<Written>,
}

#[derive(Debug)]
struct Written {
    value: Option<u64>,
    /// When it was certainly there: when the client was told so, and nothing took it away.
    certain_us: Option<Micros>,
    /// When it ran last.
    ran_us: Option<Micros>,
}

/// A read on the primary sees the last acknowledged write, or a later one.
fn own_row(
    index: &Index<'_>,
    place: &Place<'_>,
    rows: &mut BTreeMap<RowId, Row>,
    found: &mut Vec<Violation>,
) {
    if let Some(OwnWrite { row, value }) = place.said.write {
        let certain_us = certain_us(index, place);
        let ran_us = index.ran(place.said.tag).map(|ran| ran.at_us).max();
        let written = Written { value, certain_us, ran_us };
        rows.entry(row).or_default().writes.push(written);
        return;
    }
    let (Some(OwnRead { row, seen }), Known::Done) =
        (place.said.read, place.exchange.known(place.part))
    else {
        return;
    };
    // In a transaction a snapshot may be older; the client's own writes in it are its to check.
    if place.said.unit.is_some() || place.said.access != Access::Read {
        return;
    }
    let Some(ran) = answers(index, place).next() else {
        return;
    };
    let is_primarys = |ran: &Execution| index.facts().primary_at(ran.at_us) == Some(ran.host);
    if !answers(index, place).all(is_primarys) {
        return;
    }
    let writes = rows.get(&row).map_or(&[][..], |row| &row.writes);
    // A stored answer shows what was there when it was stored.
    let then_us = place.exchange.sent_us.min(ran.at_us);
    let is_before = |write: &Written| write.certain_us.is_some_and(|at_us| at_us <= then_us);
    let Some(last) = writes.iter().rposition(is_before) else {
        return;
    };
    let (older, newer) = writes.split_at_checked(last).unwrap_or_default();
    // What a connection that was cut had under way may have run behind what was said later.
    let last_us = newer.first().and_then(|write| write.ran_us);
    let is_late = |write: &&Written| write.certain_us.is_none() && write.ran_us > last_us;
    let mut seeable = newer.iter().chain(older.iter().filter(is_late));
    if !seeable.any(|write| write.value == seen) {
        let host = ran.host.0;
        let evidence =
            format!("host {host} is the primary, row {row:?} showed {seen:?}, after {newer:?}");
        found.push(place.breach(Breach::StaleRead, place.at_us(), evidence));
    }
}

fn certain_us(index: &Index<'_>, place: &Place<'_>) -> Option<Micros> {
    if place.said.unit.is_some() || place.exchange.known(place.part) != Known::Done {
        return None;
    }
    let is_kept = index.ran(place.said.tag).any(|ran| ran.effect == Effect::Committed);
    is_kept.then(|| place.exchange.answered_us()).flatten()
}
