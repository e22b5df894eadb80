//! Times in which nobody could say what names mean, as something was about to define any of them.
//!
//! What such a statement does behind a name is taken for unknown: one that fails holds its session,
//! and what one that succeeds leaves may be gone with its connection, as the manual says
//! (*sessions*). It is never seen by another session.

use super::{
    facts::Execution,
    history::{Access, Answer, Exchange, MismatchKind, SessionHistory, is_of_connection},
    index::{Index, Place},
};
use crate::{Micros, client::reply::Part};

/// For so long a name is left alone that was being defined when it was asked for, µs.
const PUT_OFF_US: Micros = 200_000;
/// For so long a server may go on with a definition whose connection was lost, µs.
const ORPHAN_US: Micros = 10_000_000;
/// Tables behind whose names something happens that stays in the session.
const LEAVING: [&str; 3] = ["marked", "refused", "guarded"];
/// What shows it.
const SHOWING: [&str; 3] = ["RELEASE_LOCK(", RELEASING_ALL, " @u"];
/// How many locks there were.
const RELEASING_ALL: &str = "RELEASE_ALL_LOCKS(";

/// The times, each from its beginning to its end.
pub(super) struct Untold(Vec<(Micros, Micros)>);

impl Untold {
    pub(super) fn new(index: &Index<'_>) -> Self {
        // Of statements prepared by SQL, what they run is not in their texts.
        let exchanges = index.sessions().flat_map(|(_, session)| &session.exchanges);
        let executions = exchanges.filter(|exchange| exchange.text.contains("EXECUTE "));
        let executions = executions.map(|exchange| {
            let is_lost = exchange.error().is_some_and(|error| is_of_connection(error.code));
            let over_us = exchange.answered_us().filter(|_| !is_lost);
            (exchange.sent_us, over_us.unwrap_or(exchange.sent_us + ORPHAN_US))
        });
        // While some worker has another configuration than the others.
        let settings = index.facts().settings.windows(2).filter_map(|pair| match pair {
            [before, next] => Some((next.from_us, before.until_us)),
            _ => None,
        });
        Self(executions.chain(settings).collect())
    }

    fn overlaps(&self, from_us: Micros, until_us: Micros) -> bool {
        let mut times = self.0.iter();
        times.any(|(from, until)| *from <= until_us && until.saturating_add(PUT_OFF_US) >= from_us)
    }

    /// Whether something that failed then may have done what nobody can see, behind a name.
    pub(super) fn may_hide(&self, place: &Place<'_>, ran: &Execution) -> bool {
        place.said.access != Access::Read
            && ran.error.is_some()
            && self.overlaps(place.exchange.sent_us, ran.at_us)
    }

    /// Whether a client misses what a statement left behind a name that nobody knew then: nothing
    /// is there.
    pub(super) fn may_miss(&self, session: &SessionHistory, number: usize) -> bool {
        let Some(exchange) = session.exchanges.get(number) else { return false };
        let is_state = exchange.mismatch.as_ref().is_some_and(|it| it.kind == MismatchKind::State);
        let shows = SHOWING.iter().any(|text| exchange.text.contains(text));
        let before = session.exchanges.get(..number).unwrap_or_default();
        is_state && shows && shows_nothing(exchange) && before.iter().any(|it| self.may_leave(it))
    }

    fn may_leave(&self, exchange: &Exchange) -> bool {
        let until_us = exchange.answered_us().unwrap_or(Micros::MAX);
        LEAVING.iter().any(|table| exchange.text.contains(table))
            && self.overlaps(exchange.sent_us, until_us)
    }
}

/// Whether the answer is one row whose last column is NULL, or a count of none.
fn shows_nothing(exchange: &Exchange) -> bool {
    let Answer::Whole(_, reply) = &exchange.answer else { return false };
    let [Part::Rows { rows, .. }] = reply.as_slice() else { return false };
    let nothing = exchange.text.contains(RELEASING_ALL).then_some("0");
    matches!(rows.as_slice(), [row] if row.last().is_some_and(|it| it.as_deref() == nothing))
}
