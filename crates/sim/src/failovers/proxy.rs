//! The proxy's side: the decision, the failover's machine, what they ask and order, and who writes.
//!
//! Histories of roles have a proxy of their own (`roles/proxy.rs`), as other things go wrong there:
//! it has names, entries and cells, this one steps that are lost and processes that end.

use std::collections::{BTreeMap, BTreeSet};

use trunkline_cluster::{
    Cluster, Guidance, HostId, Input, Listed, Miss, Output, Policy, Reach, Standing,
    facts::Facts,
    failover::{
        Failover, Mode, Order, Outcome, Past, Plan, Verdict, Watch,
        elect::{Elected, Election, NotElected, elect},
    },
    switchover::{
        Action, Done, Failure,
        check::{Family, SourceSurvey, Survey, Surveyed},
    },
};

use super::{
    Breach, Plant,
    nature::{Log, Nature, endpoint},
};
use crate::rng::Rng;

/// How long a question may take, ms.
const TIMEOUT_MS: u64 = 300;
/// How long the writer has to be there before a failover is false, ms.
const STEADY_MS: u64 = 2_000;
/// How long no failover begins after another one, ms: so little that histories have several.
const BLOCK_MS: u64 = 3_000;

/// Something on its way.
enum Letter {
    /// What came of a question.
    Answer { host: HostId, asked_ms: u64, answer: Result<Facts, Miss> },
    /// A step arrives at a server; `is_answered` says whether the proxy hears of it.
    Step { run: u64, step: u32, host: HostId, action: Action, is_answered: bool },
    /// What came of a step.
    Done { run: u64, step: u32, result: Result<Done, Failure> },
    /// Members are asked in an election.
    Elect { run: u64 },
    /// What came of that.
    Elected { run: u64, result: Result<Elected, NotElected> },
    /// A lost writer replicates again.
    Rejoin { host: usize },
}

/// What the proxy knows and does.
pub(super) struct Proxy {
    id: usize,
    cluster: Cluster,
    watch: Watch,
    run: Option<Failover>,
    runs: u64,
    /// When the failover began, ms.
    begun_ms: u64,
    /// What members told in its election.
    told: BTreeMap<usize, Log>,
    mail: Vec<(u64, Letter)>,
    writer: Option<usize>,
    /// Who writes, and who was lost before; it outlives the process.
    past: Option<Past<usize>>,
    has_rejoined: bool,
    /// Servers whose last question came to nothing, for this process.
    unheard: BTreeSet<usize>,
    fenced: BTreeSet<usize>,
    has_script: bool,
    promote_unreachable: bool,
    /// When it begins anew, ms; `None` while it runs.
    back_ms: Option<u64>,
    rng: Rng,
    #[cfg(feature = "plants")]
    plant: Option<Plant>,
}

fn host_of(server: usize) -> HostId {
    HostId(u32::try_from(server).unwrap_or_default())
}

fn server_of(host: HostId) -> usize {
    usize::try_from(host.0).unwrap_or(usize::MAX)
}

impl Proxy {
    pub(super) fn new(id: usize, nature: &Nature, mut rng: Rng, plant: Option<Plant>) -> Self {
        let mut proxy = Self {
            id,
            cluster: Cluster::new(Policy::default(), None),
            watch: Watch::default(),
            run: None,
            runs: 0,
            begun_ms: 0,
            told: BTreeMap::new(),
            mail: Vec::new(),
            writer: None,
            past: None,
            has_rejoined: false,
            unheard: BTreeSet::new(),
            fenced: BTreeSet::new(),
            has_script: rng.chance(1, 3),
            promote_unreachable: rng.chance(1, 4),
            back_ms: None,
            rng,
            #[cfg(feature = "plants")]
            plant,
        };
        #[cfg(not(feature = "plants"))]
        debug_assert!(plant.is_none());
        proxy.begin(nature);
        proxy
    }

    /// Begins, knowing nothing but what was noted.
    fn begin(&mut self, nature: &Nature) {
        let policy = Policy { interval_ms: 200, fails_over: true, ..Policy::default() };
        self.cluster = Cluster::new(policy, None);
        self.watch = Watch::default();
        self.run = None;
        self.runs += 1;
        self.writer = None;
        self.unheard.clear();
        self.mail.retain(|(_, letter)| matches!(letter, Letter::Step { .. }));
        let mut out = Vec::new();
        for id in nature.ids() {
            let listed = Listed { is_named: true, ..Listed::default() };
            let (host, endpoint) = (host_of(id), endpoint(id));
            self.cluster.on(nature.now_ms, Input::Member { host, listed, endpoint }, &mut out);
        }
        let past = self.past.as_ref().filter(|past| !past.is_back);
        if let Some(lost) = past.and_then(|past| past.lost) {
            self.cluster.on(nature.now_ms, Input::Fence(host_of(lost)), &mut out);
        }
    }

    fn send(&mut self, now_ms: u64, most_ms: u64, letter: Letter) {
        let at_ms = now_ms + self.rng.below(most_ms);
        self.mail.push((at_ms, letter));
    }

    pub(super) fn step(&mut self, nature: &mut Nature) {
        let now_ms = nature.now_ms;
        if let Some(back_ms) = self.back_ms {
            self.deliver(nature);
            if now_ms >= back_ms {
                self.back_ms = None;
                self.begin(nature);
            }
            return;
        }
        let chance = if self.run.is_some() { 200 } else { 4_000 };
        if !nature.is_quiet && self.rng.chance(1, chance) {
            nature.note("proxies that ended", || self.id.to_string());
            self.back_ms = Some(now_ms + self.rng.between(300, 2_000));
            self.writer = None;
            self.unlock(nature);
            return;
        }
        let mut due = Vec::new();
        self.cluster.tick(now_ms, &mut due);
        for output in due {
            if let Output::Ask(host) = output {
                self.ask(nature, host);
            }
        }
        self.deliver(nature);
        self.look(nature);
        if self.run.is_none() {
            self.note_writer();
        }
        self.rejoin(nature);
        if let Some(writer) = self.writer.filter(|_| self.rng.chance(1, 2)) {
            nature.write(self.id, writer);
        }
    }

    fn ask(&mut self, nature: &mut Nature, host: HostId) {
        let (asked_ms, id) = (nature.now_ms, server_of(host));
        let is_lost = !nature.is_quiet && self.rng.chance(1, 50);
        let is_reached =
            nature.server(id).is_some_and(|it| it.reached_by.get(self.id) == Some(&true));
        let is_running = nature.server(id).is_some_and(|it| it.is_running);
        let answer = match nature.answers(self.id, id) {
            true if !is_lost => Ok(nature.facts(id)),
            false if is_reached && !is_running => Err(Miss::Refused("refused".to_owned())),
            true | false => Err(Miss::TimedOut),
        };
        let letter = Letter::Answer { host, asked_ms, answer: answer.clone() };
        match answer {
            Err(Miss::TimedOut) => self.mail.push((asked_ms + TIMEOUT_MS, letter)),
            _ => self.send(asked_ms, if nature.is_quiet { 10 } else { TIMEOUT_MS }, letter),
        }
    }

    fn deliver(&mut self, nature: &mut Nature) {
        let now_ms = nature.now_ms;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.mail).into_iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.mail = later;
        for (_, letter) in due {
            match letter {
                Letter::Step { run, step, host, action, is_answered } => {
                    self.arrive(nature, (run, step), host, &action, is_answered);
                }
                _ if self.back_ms.is_some() => {}
                Letter::Answer { host, asked_ms, answer } => {
                    let id = server_of(host);
                    match &answer {
                        Ok(facts) if facts.is_writable => nature.told_writable(self.id, id),
                        Ok(_) | Err(_) => {}
                    }
                    match answer.is_ok() {
                        true => self.unheard.remove(&id),
                        false => self.unheard.insert(id),
                    };
                    self.on(nature, Input::Answer { host, asked_ms, answer });
                }
                Letter::Done { run, step, result } if run == self.runs => {
                    self.with_run(nature, |run, now_ms, orders| {
                        run.done(now_ms, step, result, orders);
                    });
                }
                Letter::Elect { run } if run == self.runs => self.elect(nature),
                Letter::Elected { run, result } if run == self.runs => {
                    self.with_run(nature, |run, now_ms, orders| {
                        run.elected(now_ms, result, orders);
                    });
                }
                Letter::Done { .. } | Letter::Elect { .. } | Letter::Elected { .. } => {}
                Letter::Rejoin { host } => self.arrive_rejoin(nature, host),
            }
        }
    }

    fn on(&mut self, nature: &mut Nature, input: Input) {
        let mut out = Vec::new();
        self.cluster.on(nature.now_ms, input, &mut out);
        for output in out {
            match output {
                Output::SetWriter(writer) => {
                    self.writer = writer.map(server_of);
                    nature.note("writers set", || format!("{}: {writer:?}", self.id));
                }
                Output::Drain => self.writer = None,
                Output::Tell(event) => {
                    nature.note(event.kind.name(), || {
                        format!("{}: {:?} {}", self.id, event.host, event.evidence)
                    });
                }
                Output::Ask(_)
                | Output::SetReader(..)
                | Output::SetPlaces(..)
                | Output::Discovered(_) => {}
            }
        }
    }

    /// Notes who writes, as `monitor::roles` does.
    fn note_writer(&mut self) {
        let is_replaced = |server: &usize| Some(self.cluster.is_replaced(host_of(*server)));
        let past = Past::look(self.past.as_ref(), self.writer, is_replaced);
        self.past = past.or(self.past.take());
    }

    /// As `monitor::roles` looks whether the writer is lost.
    fn look(&mut self, nature: &mut Nature) {
        if let Some(run) = &self.run {
            let (old, new) = (run.plan().old, run.chosen().map(|it| it.new));
            let is_unsure = run.is_unsure();
            let mut others = self.cluster.contenders();
            let is_other = |it: &HostId| (is_unsure || *it != old) && Some(*it) != new;
            if let Some(other) = others.find(is_other) {
                drop(others);
                let why = format!("{other:?} takes writes");
                self.with_run(nature, |run, _, orders| run.overtaken(&why, orders));
                return;
            }
            drop(others);
            if self.cluster.reach(old) == Reach::Up {
                self.with_run(nature, |run, _, orders| run.returned("it answers", orders));
            }
            if new.is_some_and(|new| self.cluster.reach(new) == Reach::Up) {
                self.with_run(nature, |run, now_ms, orders| run.reached(now_ms, orders));
            }
            return;
        }
        if self.cluster.is_guided() {
            return;
        }
        let verdict = self.watch.look(nature.now_ms, Mode::Auto, &self.cluster.loss());
        let Verdict::Begin { old, why } = verdict else { return };
        nature.note("failovers begun", || format!("{}: {old:?}: {why}", self.id));
        self.judge_beginning(nature, server_of(old));
        let plan = Plan {
            old,
            script_ms: self.has_script.then_some(500),
            promote_unreachable: self.promote_unreachable,
            is_advice: false,
        };
        let failover = Failover::new(plan);
        #[cfg(feature = "plants")]
        let failover = {
            let mut failover = failover;
            if let Some(plant) = self.plant {
                failover.plant(plant);
            }
            failover
        };
        self.run = Some(failover);
        self.runs += 1;
        self.begun_ms = nature.now_ms;
        self.told.clear();
        self.with_run(nature, |run, now_ms, orders| run.begin(now_ms, orders));
    }

    /// A failover begins: the writer must not be there for a replica that answers.
    ///
    /// One whose last question came to nothing has no say, though it is there: it is one of those
    /// that are silent, of which there may be less than half (`docs/manual/failover.md`).
    fn judge_beginning(&self, nature: &mut Nature, old: usize) {
        let now_ms = nature.now_ms;
        let is_long = |since_ms: Option<u64>| since_ms.is_some_and(|it| it + STEADY_MS < now_ms);
        let there = nature.server(old).and_then(|it| *it.there_since_ms.get(self.id)?);
        if is_long(there) {
            // One that was silent is asked every 3 s only; fencing finds out that it is back.
            nature.note("begun though it is back", || old.to_string());
        }
        let hears = |id: &usize| {
            nature.server(*id).is_some_and(|it| {
                it.source == Some(old)
                    && !self.unheard.contains(id)
                    && is_long(it.connected_since_ms)
                    && it.there_since_ms.get(self.id).is_some_and(|since_ms| is_long(*since_ms))
            })
        };
        if let Some(id) = nature.ids().find(hears) {
            nature.violate(Breach::FalseFailover, format!("{id} is connected to {old}"));
        }
    }

    fn with_run(
        &mut self,
        nature: &mut Nature,
        work: impl FnOnce(&mut Failover, u64, &mut Vec<Order>),
    ) {
        let now_ms = nature.now_ms;
        let mut orders = Vec::new();
        if let Some(run) = &mut self.run {
            work(run, now_ms, &mut orders);
        }
        for order in orders {
            match order {
                Order::Elect => {
                    let run = self.runs;
                    self.send(now_ms, 100, Letter::Elect { run });
                }
                Order::Guide(guidance) => {
                    self.on(nature, Input::Switchover(guidance));
                    let old = self.run.as_ref().map(|run| run.plan().old);
                    if let (Guidance::Open(_), Some(old)) = (guidance, old) {
                        self.on(nature, Input::Replaced(old));
                    }
                }
                Order::Do { step, host, action, within_ms } => {
                    self.order(nature, step, host, action, within_ms);
                }
                Order::Tell(row) => nature.note("steps", || format!("{}: {row:?}", self.id)),
                Order::End(outcome) => {
                    self.run = None;
                    self.unlock(nature);
                    nature.note("ends", || format!("{}: {outcome:?}", self.id));
                    match outcome {
                        Outcome::Done(_) => {
                            nature.note("failovers done", || self.id.to_string());
                            self.watch.block(now_ms, BLOCK_MS);
                        }
                        Outcome::Failed { is_stuck, .. } => self.watch.failed(now_ms, is_stuck),
                        Outcome::Advice(_) => self.watch.advised(),
                    }
                }
            }
        }
    }

    fn order(
        &mut self,
        nature: &mut Nature,
        step: u32,
        host: HostId,
        action: Action,
        within_ms: u64,
    ) {
        let (now_ms, run) = (nature.now_ms, self.runs);
        if action == Action::Note {
            let lost = self.run.as_ref().map(|run| server_of(run.plan().old));
            self.past = Some(Past { writer: server_of(host), lost, is_back: false, is_own: true });
            self.has_rejoined = false;
            let result = Ok(Done::default());
            return self.send(now_ms, 20, Letter::Done { run, step, result });
        }
        let is_troubled = !nature.is_quiet;
        let is_lost = is_troubled && self.rng.chance(1, 40);
        let is_unheard = is_troubled && self.rng.chance(1, 40);
        if is_lost || is_unheard {
            let why = "no answer".to_owned();
            let result = Err(Failure { why, is_unknown: true });
            let late_ms = within_ms.min(1_500);
            self.mail.push((now_ms + late_ms, Letter::Done { run, step, result }));
        }
        if !is_lost {
            let is_answered = !is_unheard;
            self.send(now_ms, 100, Letter::Step { run, step, host, action, is_answered });
        }
    }

    /// A step arrives at a server.
    fn arrive(
        &mut self,
        nature: &mut Nature,
        (run, step): (u64, u32),
        host: HostId,
        action: &Action,
        is_answered: bool,
    ) {
        let id = server_of(host);
        let result = match action {
            Action::FenceByScript => self.run_script(nature, id),
            _ if nature.answers(self.id, id) => self.perform(nature, id, action),
            Action::Fence if self.is_refused(nature, id) => Ok(done("refuses")),
            _ => Err(Failure { why: "it can't be reached".to_owned(), is_unknown: true }),
        };
        if is_answered {
            self.send(nature.now_ms, 100, Letter::Done { run, step, result });
        }
    }

    fn is_refused(&self, nature: &Nature, id: usize) -> bool {
        nature
            .server(id)
            .is_some_and(|it| !it.is_running && it.reached_by.get(self.id) == Some(&true))
    }

    fn run_script(&mut self, nature: &mut Nature, id: usize) -> Result<Done, Failure> {
        if self.rng.chance(1, 5) {
            return Err(Failure { why: "1".to_owned(), is_unknown: false });
        }
        nature.note("fenced by the script", || id.to_string());
        self.fenced.insert(id);
        nature.end(id);
        Ok(done("script"))
    }

    fn perform(
        &mut self,
        nature: &mut Nature,
        id: usize,
        action: &Action,
    ) -> Result<Done, Failure> {
        let failed = |why: &str| Err(Failure { why: why.to_owned(), is_unknown: false });
        match action {
            Action::Finish => {
                nature.change(id, |it| it.receives = false);
                if nature.server(id).is_none_or(|it| !it.applies) {
                    return failed("it applies nothing");
                }
                nature.change(id, |it| {
                    let received = it.received.clone();
                    it.executed.join(&received);
                });
                Ok(done(&nature.server(id).map(|it| it.executed.text()).unwrap_or_default()))
            }
            Action::Fence => {
                let is_writable = nature.server(id).is_some_and(|it| it.is_writable);
                Ok(done(if is_writable { "writable" } else { "read-only" }))
            }
            Action::Promote => {
                nature.change(id, |it| (it.receives, it.is_writable) = (false, true));
                self.judge_promotion(nature, id);
                Ok(done(""))
            }
            Action::LookWhetherWritable => {
                let is_writable = nature.server(id).is_some_and(|it| it.is_writable);
                Ok(done(if is_writable { "yes" } else { "" }))
            }
            Action::Reattach => {
                nature.change(id, |it| it.receives = true);
                Ok(done(""))
            }
            Action::Settle => {
                nature.change(id, |it| it.source = None);
                Ok(done(""))
            }
            Action::Follow { source, .. } => {
                let source = server_of(*source);
                nature.change(id, |it| (it.source, it.receives) = (Some(source), true));
                Ok(done(""))
            }
            Action::Demote
            | Action::Undemote
            | Action::CatchUp(_)
            | Action::Appoint
            | Action::FenceByScript
            | Action::Note => failed("no step of a server"),
        }
    }

    /// A server takes writes: it must have what the others had, and the old one must not go on.
    fn judge_promotion(&mut self, nature: &mut Nature, new: usize) {
        let Some(old) = self.run.as_ref().map(|run| server_of(run.plan().old)) else { return };
        nature.promoted(self.id, new, old);
        let has = nature.server(new).map(|it| it.executed.clone()).unwrap_or_default();
        if let Some((id, log)) = self.told.iter().find(|(_, log)| !has.has(log)) {
            let evidence = format!("{new} has {}, and {id} told {}", has.text(), log.text());
            nature.violate(Breach::PromotedBehind, evidence);
        }
        let there = nature.server(old).and_then(|it| *it.there_since_ms.get(self.id)?);
        let is_read_only = nature.server(old).is_some_and(|it| !it.is_writable);
        if there.is_some_and(|it| it + STEADY_MS < nature.now_ms) && !is_read_only {
            let evidence = format!("{new} for {old}, which answers since {there:?} ms");
            nature.violate(Breach::FalseFailover, evidence);
        }
        let since_ms = nature.server(old).and_then(|it| it.writable_since_ms);
        let goes_on = since_ms.is_some_and(|since_ms| since_ms < self.begun_ms);
        if goes_on && !self.promote_unreachable {
            let evidence = format!("{new} for {old}, which takes writes since {since_ms:?} ms");
            nature.violate(Breach::NotFenced, evidence);
        }
    }

    fn unlock(&self, nature: &mut Nature) {
        for id in nature.ids() {
            nature.change(id, |it| it.lock = it.lock.filter(|owner| *owner != self.id));
        }
    }

    /// Claims the failover and asks members, as `monitor::roles` does.
    fn elect(&mut self, nature: &mut Nature) {
        let Some(old) = self.run.as_ref().map(|run| run.plan().old) else { return };
        let result = self.claim(nature, server_of(old)).and_then(|()| self.vote(nature, old));
        let run = self.runs;
        self.send(nature.now_ms, 100, Letter::Elected { run, result });
    }

    fn claim(&self, nature: &mut Nature, old: usize) -> Result<(), NotElected> {
        let wait = |why: &str| NotElected { why: why.to_owned(), is_stuck: false };
        let is_voter = |id: &usize| *id != old && !self.cluster.refuses(host_of(*id));
        let voters: Vec<usize> = nature.ids().filter(is_voter).collect();
        let mut claimed = 0;
        for id in &voters {
            if !nature.answers(self.id, *id) {
                continue;
            }
            if nature.server(*id).is_some_and(|it| it.lock.is_some_and(|owner| owner != self.id)) {
                return Err(wait("another proxy is at it"));
            }
            nature.change(*id, |it| it.lock = Some(self.id));
            claimed += 1;
        }
        match claimed * 2 > voters.len() {
            true => Ok(()),
            false => Err(wait("too few could be claimed")),
        }
    }

    fn vote(&mut self, nature: &Nature, old: HostId) -> Result<Elected, NotElected> {
        let mut members = Vec::new();
        for id in nature.ids().filter(|id| host_of(*id) != old) {
            let Some(server) = nature.server(id).filter(|_| nature.answers(self.id, id)) else {
                continue;
            };
            let source = server.source.map(|source| SourceSurvey {
                host: Some(host_of(source)),
                applies: server.applies,
                by_gtid: true,
                ..SourceSurvey::default()
            });
            let survey = Survey {
                family: Family::MySql,
                version: (9, 7, 4),
                logs: true,
                logs_updates: true,
                has_gtids: true,
                position: server.executed.text(),
                received: server.received.text(),
                uuid: format!("{id:032x}"),
                is_writable: server.is_writable,
                sources: source.into_iter().collect(),
                ..Survey::default()
            };
            if server.source == Some(server_of(old)) {
                let mut log = server.executed.clone();
                log.join(&server.received);
                self.told.insert(id, log);
            }
            members.push(Surveyed { host: host_of(id), survey: Ok(survey), is_near: true });
        }
        let known = self.cluster.facts(old).map(|facts| facts.gtid.clone()).unwrap_or_default();
        let last_writer = self.past.as_ref().map(|past| host_of(past.writer));
        let election = Election { old, known, last_writer, ..Election::default() };
        #[cfg(feature = "plants")]
        if self.plant == Some(Plant::PromoteBehind) {
            return trunkline_cluster::plants::elect_first(&election, &members);
        }
        elect(&election, &members)
    }

    /// A lost writer that is back becomes a replica.
    fn rejoin(&mut self, nature: &mut Nature) {
        let own = self.past.as_ref().filter(|past| past.is_own);
        let lost = own.and_then(|past| past.lost);
        let Some(lost) = lost.filter(|_| !self.has_rejoined && self.run.is_none()) else {
            return;
        };
        let host = host_of(lost);
        let is_alone = matches!(self.cluster.standing(host), Standing::Fenced | Standing::Standby);
        let is_led = self.writer.is_some_and(|writer| writer != lost);
        if is_alone && is_led && self.cluster.reach(host) == Reach::Up {
            self.has_rejoined = true;
            self.send(nature.now_ms, 200, Letter::Rejoin { host: lost });
        }
    }

    fn arrive_rejoin(&mut self, nature: &mut Nature, lost: usize) {
        let Some(writer) = self.writer.filter(|writer| *writer != lost) else { return };
        if !nature.answers(self.id, lost) {
            return;
        }
        nature.change(lost, |it| it.is_writable = false);
        let above = nature.server(writer).map(|it| it.executed.clone()).unwrap_or_default();
        if nature.server(lost).is_some_and(|it| above.has(&it.executed)) {
            nature.note("rejoined", || lost.to_string());
            nature.change(lost, |it| (it.source, it.receives) = (Some(writer), true));
        } else {
            nature.note("diverged", || lost.to_string());
        }
    }

    /// Everything has been well for long.
    pub(super) fn end(&self, nature: &mut Nature) {
        let primary = nature.ids().find(|id| nature.server(*id).is_some_and(|it| it.is_writable));
        if self.writer != primary {
            let evidence = format!("{}: {:?} writes, not {primary:?}", self.id, self.writer);
            nature.violate(Breach::WrongInTheEnd, evidence);
        }
    }
}

fn done(value: &str) -> Done {
    Done { said: String::new(), value: value.to_owned() }
}
