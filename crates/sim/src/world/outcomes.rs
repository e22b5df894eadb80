//! Who looks for a `COMMIT` whose answer was lost, as the control plane does: the product's own
//! search decides, and asks the model's servers. It takes its time; now and then what it finds
//! comes too late, or never.

use trunkline_topology::outcome::{
    Ended, Evidence, Input, Outcome, Reading, Search, Step, Unknown, Where,
};
use trunkline_worker::{OutcomeAsk, OutcomeFound};

use super::*;

/// What one answer of a server takes, µs.
const ANSWER_US: Micros = 2_000;
/// A moment, as the control plane waits between two attempts, µs.
const MOMENT_US: Micros = 20_000;
/// One of so many is never answered; one, late; one, by a server that does not log everything;
/// one, by a server that ends no connection for the account; one, by a server that waits for
/// replicas.
const NEVER_EVERY: u64 = 24;
const LATE_EVERY: u64 = 24;
const PARTLY_LOGGED_EVERY: u64 = 24;
const NO_RIGHTS_EVERY: u64 = 24;
const AWAITS_EVERY: u64 = 24;
/// How late what is late comes at most, behind the time that the search may take, µs.
const LATE_US: Micros = 4_000_000;

/// A search under way.
#[derive(Debug)]
pub(super) struct Finder {
    worker: usize,
    ask: Box<OutcomeAsk>,
    host: HostId,
    begun_us: Micros,
    search: Search,
    step: Step,
    /// What was read last.
    log: Option<String>,
    luck: Luck,
}

/// What is drawn for a search.
#[derive(Debug, Clone, Copy)]
struct Luck {
    late_us: Micros,
    logs_all: bool,
    has_rights: bool,
    awaits_replicas: bool,
}

impl World<'_> {
    pub(super) fn begin_search(&mut self, worker: usize, ask: Box<OutcomeAsk>) {
        let Some(host) = plan::host_of(&ask.server) else { return };
        if self.searches.chance(1, NEVER_EVERY) {
            return self.count("outcome: never told");
        }
        let rng = &mut self.searches;
        let late_us = if rng.chance(1, LATE_EVERY) { rng.below(LATE_US) } else { 0 };
        let luck = Luck {
            late_us,
            logs_all: !rng.chance(1, PARTLY_LOGGED_EVERY),
            has_rights: !rng.chance(1, NO_RIGHTS_EVERY),
            awaits_replicas: rng.chance(1, AWAITS_EVERY),
        };
        let mut search = Search::default();
        let step = search.begin();
        let begun_us = self.now();
        let (log, search) = (None, search);
        let finder = Finder { worker, ask, host, begun_us, search, step, log, luck };
        self.queue.put(begun_us + MAIL_US, Event::Search(Box::new(finder)));
    }

    /// A step of a search is over.
    pub(super) fn search_on(&mut self, mut finder: Box<Finder>) {
        let now = self.now();
        let until_us = finder.begun_us + finder.ask.time_max_ms * 1_000;
        let input = if now >= until_us { Input::Late } else { self.perform(&mut finder) };
        finder.step = finder.search.on(input);
        let waits_us = match finder.step {
            Step::Answer(outcome) => return self.found_out(*finder, outcome),
            Step::Find { after_a_moment }
            | Step::End { after_a_moment }
            | Step::Read { after_a_moment, .. } => u64::from(after_a_moment) * MOMENT_US,
            Step::Enter => 0,
        };
        let takes_us = waits_us + 1 + self.searches.below(ANSWER_US);
        let at_us = (now + takes_us).min(until_us);
        self.queue.put(at_us, Event::Search(finder));
    }

    fn perform(&mut self, finder: &mut Finder) -> Input {
        let now = self.now();
        let host = finder.host;
        let is_apart = self.partitions.get(&host).is_some_and(|until| *until > now);
        let up_since = self.cluster.up_since(host).filter(|_| !is_apart);
        match (finder.step, up_since) {
            // No roles are followed here.
            (Step::Find { .. }, _) => Input::Found(Where::Old),
            (Step::Enter | Step::End { .. } | Step::Read { .. }, None) => Input::Broken,
            (Step::Enter, Some(since_us)) => {
                let connected_us = finder.begun_us.saturating_sub(finder.ask.age_ms * 1_000);
                Input::Entered { is_later: since_us > connected_us }
            }
            (Step::End { .. }, Some(_)) if !finder.luck.has_rights => Input::Thread(Ended::Refused),
            (Step::End { .. }, Some(_)) => {
                let was_there = self.cluster.end_thread(host, finder.ask.thread.into(), now);
                self.after_cluster();
                Input::Thread(if was_there { Ended::Told } else { Ended::Gone })
            }
            (Step::Read { .. }, Some(_)) => {
                let log = self.cluster.gtids_of(host);
                let Ok(reading) = finder.ask.mark.read(&log) else {
                    self.rest.nonsense.push(format!("a log that is none: {log}"));
                    return Input::Broken;
                };
                self.trace.note(now, || format!("a search reads {reading:?} in {log}"));
                finder.log = Some(log);
                Input::Read(Evidence {
                    reading,
                    is_complete: reading == Reading::AllTold && finder.luck.logs_all,
                    receives: false,
                    awaits_replicas: finder.luck.awaits_replicas,
                })
            }
            (Step::Answer(_), _) => Input::Late,
        }
    }

    fn found_out(&mut self, finder: Finder, outcome: Outcome) {
        let Finder { worker, ask, log, luck, .. } = finder;
        let is_known = matches!(outcome, Outcome::Committed | Outcome::NotCommitted);
        let mut mark = ask.mark;
        let mark = log.filter(|log| is_known && mark.settle(log).is_ok()).map(|_| mark);
        self.count(match outcome {
            Outcome::Committed => "outcome: committed",
            Outcome::NotCommitted => "outcome: not committed",
            Outcome::Unknown(Unknown::Time) => "outcome: out of time",
            Outcome::Unknown(_) => "outcome: unknown",
        });
        let found =
            OutcomeFound { ticket: ask.ticket, outcome, server: ask.server.key.clone(), mark };
        let at_us = self.now() + MAIL_US + luck.late_us;
        let mail = WorkerMail::OutcomeFound(ask.client, Box::new(found));
        self.queue.put(at_us, Event::Post(worker, mail.into()));
    }
}
