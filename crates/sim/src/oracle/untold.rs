//! Times in which nobody could say what names mean, as something was about to define any of them.
//!
//! What such a statement does behind a name is taken for unknown: it holds its session.

use super::{
    facts::Execution,
    history::is_of_connection,
    index::{Index, Place},
};
use crate::Micros;

/// For so long a name is left alone that was being defined when it was asked for, µs.
const PUT_OFF_US: Micros = 200_000;
/// For so long a server may go on with a definition whose connection was lost, µs.
const ORPHAN_US: Micros = 10_000_000;
/// The times, each from its beginning to its end.
pub(super) struct Untold(Vec<(Micros, Micros)>);

impl Untold {
    pub(super) fn new(index: &Index<'_>) -> Self {
        // Of statements prepared by SQL, what they run is not in their texts.
        let exchanges = index.sessions().flat_map(|(_, session)| &session.exchanges);
        let executions = exchanges.filter(|exchange| exchange.text.contains("EXECUTE "));
        let executions = executions.map(|exchange| {
            let is_lost = exchange.error().is_some_and(is_of_connection);
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

    /// Whether what ran then may have done what nobody can see, behind a name.
    pub(super) fn may_hide(&self, place: &Place<'_>, ran: &Execution) -> bool {
        self.overlaps(place.exchange.sent_us, ran.at_us)
    }
}
