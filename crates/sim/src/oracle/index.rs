//! Finds a statement's executions, and a connection's fate.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

use super::{
    Breach, Run, Violation,
    facts::{ClosedBy, Execution, Facts, LinkFact},
    history::{ClientHistory, Exchange, Said, SessionHistory},
};
use crate::{LinkId, Micros, statement::Tag};

/// A run with ways to find things in it.
pub(super) struct Index<'a> {
    pub run: Run<'a>,
    executions: HashMap<Tag, Vec<usize>, FixedState>,
    copies: HashMap<Tag, Vec<usize>, FixedState>,
    links: BTreeMap<LinkId, &'a LinkFact>,
}

/// Where a statement stands in the histories.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub client: &'a ClientHistory,
    pub session: &'a SessionHistory,
    pub exchange: &'a Exchange,
    pub said: &'a Said,
    /// Its place among the exchange's statements.
    pub part: usize,
}

impl<'a> Index<'a> {
    pub(super) fn new(run: &Run<'a>) -> Self {
        let links: BTreeMap<_, _> = run.facts.links.iter().map(|link| (link.link, link)).collect();
        let mirrors: BTreeSet<u32> =
            run.facts.settings.iter().flat_map(|it| it.mirrors.iter().copied()).collect();
        let mut executions: HashMap<Tag, Vec<usize>, FixedState> = HashMap::default();
        let mut copies: HashMap<Tag, Vec<usize>, FixedState> = HashMap::default();
        for (place, execution) in run.facts.executions.iter().enumerate() {
            let Some(tag) = execution.tag else { continue };
            let link = links.get(&execution.link);
            let is_copy = link.is_some_and(|link: &&LinkFact| mirrors.contains(&link.hostgroup));
            let list = if is_copy { &mut copies } else { &mut executions };
            list.entry(tag).or_default().push(place);
        }
        Self { run: *run, executions, copies, links }
    }

    pub(super) fn facts(&self) -> &'a Facts {
        self.run.facts
    }

    /// Each session with its client.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&'a ClientHistory, &'a SessionHistory)> {
        let clients = self.run.clients.iter();
        clients.flat_map(|client| client.sessions.iter().map(move |session| (client, session)))
    }

    /// Each statement of every session, in the order sent.
    pub(super) fn statements(&self) -> impl Iterator<Item = Place<'a>> {
        self.sessions().flat_map(|(client, session)| statements_of(client, session))
    }

    /// How often, where and when a statement ran; places in [`Facts::executions`]. Copies are not
    /// among them.
    pub(super) fn ran_at(&self, tag: Tag) -> &[usize] {
        self.executions.get(&tag).map_or(&[], Vec::as_slice)
    }

    /// The copies of statements that ran, in order: those of each statement.
    pub(super) fn copies(&self, tag: Tag) -> impl Iterator<Item = &'a Execution> {
        let all = &self.run.facts.executions;
        let places = self.copies.get(&tag).map_or(&[][..], Vec::as_slice);
        places.iter().filter_map(|place| all.get(*place))
    }

    /// The executions that were for a statement where it stands: of a text that is said again and
    /// again, those between its turn and its being answered.
    pub(super) fn runs_at(&self, place: &Place<'_>) -> impl DoubleEndedIterator<Item = usize> {
        let range = match place.said.tag.is_repeated() {
            true => place.exchange.sent_us..=place.exchange.answered_us().unwrap_or(0),
            false => 0..=Micros::MAX,
        };
        let all = &self.run.facts.executions;
        let is_its = move |at: &usize| all.get(*at).is_some_and(|it| range.contains(&it.at_us));
        self.ran_at(place.said.tag).iter().copied().filter(is_its)
    }

    /// What servers carried out of a place's statement, in order.
    pub(super) fn runs(&self, place: &Place<'_>) -> impl DoubleEndedIterator<Item = &'a Execution> {
        let all = &self.run.facts.executions;
        self.runs_at(place).filter_map(|at| all.get(at))
    }

    /// The executions of a statement, in order.
    pub(super) fn ran(&self, tag: Tag) -> impl DoubleEndedIterator<Item = &'a Execution> {
        let all = &self.run.facts.executions;
        self.ran_at(tag).iter().filter_map(|place| all.get(*place))
    }

    /// When and how a connection to a server ended other than by the proxy's own wish.
    pub(super) fn lost(&self, link: LinkId) -> Option<Micros> {
        self.links.get(&link).and_then(|link| lost(link))
    }

    /// Whether any connection to a server was lost between these times.
    pub(super) fn any_lost(&self, from_us: Micros, until_us: Micros) -> bool {
        let range = from_us..=until_us;
        self.links.values().any(|link| lost(link).is_some_and(|at_us| range.contains(&at_us)))
    }
}

fn lost(link: &LinkFact) -> Option<Micros> {
    match link.closed {
        Some((at_us, ClosedBy::Server | ClosedBy::Network | ClosedBy::Garbage)) => Some(at_us),
        Some((_, ClosedBy::Proxy)) | None => None,
    }
}

/// The statements of one session.
pub(super) fn statements_of<'a>(
    client: &'a ClientHistory,
    session: &'a SessionHistory,
) -> impl Iterator<Item = Place<'a>> {
    session.exchanges.iter().flat_map(move |exchange| {
        let said = exchange.statements.iter().enumerate();
        said.map(move |(part, said)| Place { client, session, exchange, said, part })
    })
}

/// The statements of each transaction of one session, by the transaction's number.
pub(super) fn units_of<'a>(
    client: &'a ClientHistory,
    session: &'a SessionHistory,
) -> BTreeMap<u32, Vec<Place<'a>>> {
    let mut units: BTreeMap<u32, Vec<Place<'_>>> = BTreeMap::new();
    for place in statements_of(client, session) {
        if let Some(unit) = place.said.unit {
            units.entry(unit).or_default().push(place);
        }
    }
    units
}

impl Place<'_> {
    /// A violation that shows at this statement.
    pub(super) fn breach(&self, breach: Breach, at_us: Micros, evidence: String) -> Violation {
        let evidence = format!("{evidence}; the command was {:?}", self.exchange.text);
        let (client, tag) = (Some(self.client.client), Some(self.said.tag));
        Violation { breach, client, tag, at_us, evidence }
    }

    /// When its answer came, or else when it was sent.
    pub(super) fn at_us(&self) -> Micros {
        self.exchange.answered_us().unwrap_or(self.exchange.sent_us)
    }
}
