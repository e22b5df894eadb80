//! A failover of one cluster: it is begun when the writer is lost, members are asked, and what the
//! machine orders is done.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::mpsc;
use trunkline_cluster::{
    EventKind, Guidance, HostId, Input, Reach,
    failover::{
        Failover, Mode, Order, Outcome, Past, Plan, Verdict, Watch,
        elect::{Elected, Election, NotElected, elect},
    },
    switchover::{Action, Done, Failure, Row},
};
use trunkline_config::{ClusterEntry, Snapshot, cluster::ClusterKind, cluster::Failover as Word};
use trunkline_net::TlsSetup;
use trunkline_topology::{Address, Secret};

use super::{
    super::{
        Aids, FenceRequest,
        actions::Job,
        members::{self, Talks, claim, take_leave},
        notes::{Begun, Note},
        survey::{Baggage, Known},
        talk::caught,
    },
    Following, next_run,
    switching::Told,
};

/// What members have said in an election.
pub(in super::super) struct Votes {
    elected: Result<Elected, NotElected>,
    baggage: HashMap<HostId, Baggage>,
}

/// Everything about failovers of one cluster.
#[derive(Default)]
pub(super) struct Failing {
    mode: Mode,
    watch: Watch,
    candidates: Vec<Address>,
    script: String,
    script_ms: u64,
    promote_unreachable: bool,
    block_ms: u64,
    run: Option<Run>,
    /// The number of the last one, which no other one of the process has.
    runs: u64,
    /// Whether members are to be asked.
    asks: bool,
    /// Steps that begin when roles are set.
    due: Vec<(u32, HostId, Action, u64)>,
    /// Who writes, and the last failover, as it was noted.
    last: Option<Note>,
    /// Whether that was looked up.
    is_begun: bool,
    /// A server that was lost in an earlier process and is no member yet: it may be discovered.
    lost_before: Option<String>,
    /// A server was promoted, which is not noted yet.
    is_promoted: bool,
}

/// One that is under way.
struct Run {
    failover: Failover,
    talks: Talks,
    baggage: HashMap<HostId, Arc<Baggage>>,
}

impl Failing {
    /// Takes over a configuration.
    pub(super) fn renew(&mut self, snapshot: &Snapshot, entry: &ClusterEntry) {
        let settings = &snapshot.settings;
        self.mode = mode_of(entry);
        self.candidates.clone_from(&entry.candidates);
        self.script.clone_from(&settings.fence_script);
        self.script_ms = settings.script_time_max;
        self.promote_unreachable = settings.promote_unreachable;
        self.block_ms = settings.failover_block;
    }

    /// What is done when the writer is lost.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// The server that was lost when this proxy failed the cluster over last.
    pub(super) fn lost_by_failover(&self) -> Option<&str> {
        let own = self.last.as_ref().filter(|note| !note.is_followed);
        own.map(|note| note.lost.as_str())
    }

    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.run.is_some()
    }

    fn plan(&self, old: HostId) -> Plan {
        Plan {
            old,
            script_ms: (!self.script.trim().is_empty()).then_some(self.script_ms),
            promote_unreachable: self.promote_unreachable,
            is_advice: self.mode == Mode::Advise,
        }
    }
}

/// What is done when the writer of a cluster is lost.
pub(super) fn mode_of(entry: &ClusterEntry) -> Mode {
    match (entry.kind, entry.failover) {
        (ClusterKind::Replication, Word::Advise) => Mode::Advise,
        (ClusterKind::Replication, Word::Auto) => Mode::Auto,
        (_, Word::Off | Word::Advise | Word::Auto) => Mode::Off,
    }
}

pub(super) fn unix_sec() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Following {
    /// Remembers the last failover of the cluster, of an earlier process.
    pub(in super::super) fn recall(&mut self, now_ms: u64, aids: &Aids) {
        if std::mem::replace(&mut self.failing.is_begun, true) {
            return self.fence_lost(now_ms);
        }
        self.failing.last = aids.noted(&self.configured.entry.name);
        if let Some(note) = &self.failing.last {
            let passed_ms = unix_sec().saturating_sub(note.unix_sec).saturating_mul(1_000);
            let left_ms = self.failing.block_ms.saturating_sub(passed_ms);
            self.failing.watch.block(now_ms, left_ms);
            let lost = Some(note.lost.clone()).filter(|it| !it.is_empty() && !note.is_back);
            self.failing.lost_before = lost;
        }
        self.fence_lost(now_ms);
    }

    /// Fences the server that was lost in an earlier process, as soon as it is a member.
    fn fence_lost(&mut self, now_ms: u64) {
        let lost = self.failing.lost_before.as_deref();
        if let Some(host) = lost.and_then(|lost| self.host_at(lost)) {
            self.failing.lost_before = None;
            self.on(now_ms, Input::Fence(host));
        }
    }

    /// A server that was noted was not promoted: nobody has taken the place of the lost one.
    pub(super) fn was_not_promoted(&mut self, now_ms: u64, begun: &Begun, aids: &Aids) {
        let is_it = |note: &&mut Note| note.writer == begun.elected && note.lost == begun.lost;
        let Some(note) = self.failing.last.as_mut().filter(is_it) else { return };
        note.writer = std::mem::take(&mut note.lost);
        if let Err(error) = aids.note(note.clone()) {
            tracing::warn!("{error}");
        }
        // After a failover of this process that has failed, a person decides.
        if !self.mending.is_own {
            self.failing.watch.clear();
            if let Some(host) = self.host_at(&begun.lost) {
                self.on(now_ms, Input::Unfence(host));
            }
        }
    }

    pub(super) fn host_at(&self, address: &str) -> Option<HostId> {
        let mut members = self.configured.members.iter();
        members.find(|it| it.address.to_string() == address).map(|it| HostId(it.number))
    }

    /// Notes who writes by now, whoever has made it the writer.
    fn note_writer(&mut self, aids: &Aids) {
        let last = self.failing.last.as_ref();
        if self.failing.mode == Mode::Off && last.is_none() || self.cluster.is_guided() {
            return;
        }
        let writer = self.cluster.writer().map(|writer| self.address(writer));
        let writer = writer.filter(|address| !address.is_empty());
        let lost_before = self.failing.lost_before.as_ref();
        let is_replaced = |address: &String| {
            // One that is to be fenced as soon as it is a member has not been looked at.
            let is_known = lost_before != Some(address);
            let host = self.host_at(address).filter(|_| is_known)?;
            self.cluster.facts(host).map(|_| self.cluster.is_replaced(host))
        };
        let past = last.map(Note::past);
        let Some(past) = Past::look(past.as_ref(), writer, is_replaced) else { return };
        let cluster = self.configured.entry.name.clone();
        let last = self.failing.last.take();
        let note = last.unwrap_or_else(|| Note { cluster, ..Note::default() }).with(past);
        self.failing.last = Some(note.clone());
        if let Err(error) = aids.note(note) {
            tracing::warn!("who writes is not noted: {error}");
        }
    }

    /// Looks whether the writer is lost, and whether it is there again.
    pub(in super::super) fn look_at_failover(&mut self, now_ms: u64, tls: &Arc<TlsSetup>) {
        if let Some(run) = &self.failing.run {
            let old = run.failover.plan().old;
            let is_there =
                run.failover.chosen().is_none_or(|it| self.servers.contains_key(&it.new));
            if !is_there {
                let why = "the elected server is no member of the cluster any more";
                self.with_failover(now_ms, |run, orders| run.failover.abandon(why, orders));
            } else if let Some(other) = self.overtaken_by() {
                let why = format!("{} takes writes", self.address(other));
                self.with_failover(now_ms, |run, orders| run.failover.overtaken(&why, orders));
            } else if self.cluster.reach(old) == Reach::Up {
                let why = "the writer answers again";
                self.with_failover(now_ms, |run, orders| run.failover.returned(why, orders));
            }
            self.look_at_elected(now_ms);
            return;
        }
        let is_busy = self.switching.is_under_way() || self.mending.is_under_way;
        if !self.is_enabled || is_busy || self.cluster.is_guided() {
            return;
        }
        let mode = self.failing.mode;
        if mode == Mode::Off {
            return;
        }
        match self.failing.watch.look(now_ms, mode, &self.cluster.loss()) {
            Verdict::Nothing => {}
            Verdict::Stuck(writer, text) => {
                let text = format!("stuck: {text}");
                self.tell(now_ms, EventKind::FailoverFailed, Some(writer), text);
            }
            Verdict::Tell(writer, text) => {
                self.tell(now_ms, EventKind::Failover, Some(writer), text);
            }
            Verdict::Begin { old, why } => {
                self.tell(now_ms, EventKind::Failover, Some(old), format!("it is lost: {why}"));
                self.failing.runs = next_run();
                self.failing.run = Some(Run {
                    failover: Failover::new(self.failing.plan(old)),
                    talks: self.talks(tls),
                    baggage: HashMap::new(),
                });
                self.with_failover(now_ms, |run, orders| run.failover.begin(now_ms, orders));
            }
        }
    }

    /// Has the elected server looked at, where it is not known whether it was promoted.
    fn look_at_elected(&mut self, now_ms: u64) {
        let run = self.failing.run.as_ref().filter(|run| run.failover.is_unsure());
        let elected = run.and_then(|run| run.failover.chosen());
        if elected.is_some_and(|elected| self.cluster.reach(elected.new) == Reach::Up) {
            self.with_failover(now_ms, |run, orders| run.failover.reached(now_ms, orders));
        }
    }

    /// A member that somebody else has made take writes; or the lost writer, where it is not known
    /// whether another one was promoted.
    fn overtaken_by(&self) -> Option<HostId> {
        let failover = &self.failing.run.as_ref()?.failover;
        let (old, new) = (failover.plan().old, failover.chosen().map(|it| it.new));
        let is_other = |it: &HostId| (failover.is_unsure() || *it != old) && Some(*it) != new;
        self.cluster.contenders().find(is_other)
    }

    fn with_failover(&mut self, now_ms: u64, work: impl FnOnce(&mut Run, &mut Vec<Order>)) {
        let mut orders = Vec::new();
        if let Some(run) = &mut self.failing.run {
            work(run, &mut orders);
        }
        for order in orders {
            match order {
                Order::Elect => self.failing.asks = true,
                Order::Guide(guidance) => self.guide_failover(now_ms, guidance),
                Order::Do { step, host, action, within_ms } => {
                    self.failing.due.push((step, host, action, within_ms));
                }
                Order::Tell(Row { step, host, ms, result }) => {
                    let (kind, detail) = match result {
                        Ok(said) => (EventKind::Failover, said),
                        Err(why) => (EventKind::FailoverFailed, why),
                    };
                    self.tell(now_ms, kind, Some(host), format!("{step}, {ms} ms: {detail}"));
                }
                Order::End(outcome) => self.end_failover(now_ms, outcome),
            }
        }
    }

    fn guide_failover(&mut self, now_ms: u64, guidance: Guidance) {
        if let Guidance::Open(_) = guidance {
            let block_ms = self.failing.block_ms;
            self.failing.watch.block(now_ms, block_ms);
            self.failing.is_promoted = true;
        }
        self.guide(now_ms, guidance);
        if let (Guidance::Open(_), Some(run)) = (guidance, &self.failing.run) {
            let old = run.failover.plan().old;
            self.on(now_ms, Input::Replaced(old));
        }
    }

    fn end_failover(&mut self, now_ms: u64, outcome: Outcome) {
        let Some(run) = self.failing.run.take() else { return };
        self.failing.asks = false;
        let old = run.failover.plan().old;
        let new = run.failover.chosen().map(|elected| elected.new);
        let (kind, host, text) = match outcome {
            Outcome::Done(failed) if failed.is_empty() => {
                (EventKind::Failover, new, "it is done".to_owned())
            }
            Outcome::Done(failed) => {
                let text = format!("the new writer writes; not done: {}", failed.join("; "));
                (EventKind::FailoverFailed, new, text)
            }
            Outcome::Advice(text) => {
                self.failing.watch.advised();
                (EventKind::Failover, new, text)
            }
            Outcome::Failed { why, is_stuck } => {
                self.mending.is_own = true;
                self.failing.watch.failed(now_ms, is_stuck);
                let text = match is_stuck {
                    true => format!("stuck: {why}"),
                    false => format!("nobody was promoted: {why}"),
                };
                (EventKind::FailoverFailed, Some(old), text)
            }
        };
        self.tell(now_ms, kind, host, text);
        take_leave(run.talks);
    }

    /// Takes what has come in from a task of a failover.
    pub(super) fn take_votes(&mut self, now_ms: u64, run: u64, votes: Votes) {
        if run != self.failing.runs {
            return;
        }
        self.with_failover(now_ms, |run, orders| {
            let all = votes.baggage.into_iter();
            run.baggage = all.map(|(host, baggage)| (host, Arc::new(baggage))).collect();
            run.failover.elected(now_ms, votes.elected, orders);
        });
    }

    /// Takes what came of a step of a failover.
    pub(super) fn take_step(
        &mut self,
        now_ms: u64,
        run: u64,
        step: u32,
        result: Result<Done, Failure>,
    ) {
        if run == self.failing.runs {
            self.with_failover(now_ms, |run, orders| {
                run.failover.done(now_ms, step, result, orders);
            });
        }
    }

    /// Begins what a failover has ordered; roles are set by now.
    pub(in super::super) fn start_failover_steps(
        &mut self,
        now_ms: u64,
        told: &mpsc::Sender<Told>,
        aids: &Aids,
    ) {
        if std::mem::take(&mut self.failing.is_promoted) {
            aids.end(&self.configured.entry.name);
        }
        if self.failing.run.is_none() {
            self.note_writer(aids);
        }
        if std::mem::take(&mut self.failing.asks) {
            self.start_election(told);
        }
        for (step, host, action, within_ms) in std::mem::take(&mut self.failing.due) {
            let time_max = Duration::from_millis(within_ms);
            match action {
                Action::Note => {
                    let result = self.note(aids);
                    let run = self.failing.runs;
                    self.take_step(now_ms, run, step, result);
                    // What that has ordered is begun in the next round.
                }
                Action::FenceByScript => self.start_script(step, host, told, aids),
                Action::Finish => {
                    // From now on it may receive nothing any more.
                    self.note_begun(String::new(), aids);
                    self.start_action(step, host, Action::Finish, time_max, told);
                }
                action => self.start_action(step, host, action, time_max, told),
            }
        }
    }

    fn start_action(
        &self,
        step: u32,
        host: HostId,
        action: Action,
        time_max: Duration,
        told: &mpsc::Sender<Told>,
    ) {
        let Some(run) = &self.failing.run else { return };
        let Some(talk) = run.talks.get(&host).map(Arc::clone) else { return };
        let new = run.failover.chosen().map(|elected| elected.new);
        let new_baggage =
            new.and_then(|new| run.baggage.get(&new)).map(Arc::clone).unwrap_or_default();
        // What the lost writer had is not known; its events are known to its replica.
        let old_baggage =
            Baggage { events: new_baggage.events_of_source.clone(), ..Baggage::default() };
        let address = new.and_then(|new| self.servers.get(&new)).map(|it| &it.writer.key.address);
        let source = match address {
            Some(Address::Tcp { host, port }) => (host.clone(), *port),
            Some(Address::Unix(_)) | None => (String::new(), 0),
        };
        let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
        let run = self.failing.runs;
        let step_of = async move {
            let nobody = (String::new(), Secret::new(String::new()));
            let job = Job {
                action: &action,
                old: &old_baggage,
                new: &new_baggage,
                source: (&source.0, source.1),
                account: (&nobody.0, &nobody.1),
            };
            talk.lock().await.within(time_max, &job).await
        };
        tokio::spawn(async move {
            let result = caught(step_of).await;
            // The configuration may have changed meanwhile.
            drop(told.send(Told::FailoverStep { cluster, run, step, result }).await);
        });
    }

    fn start_script(&self, step: u32, host: HostId, told: &mpsc::Sender<Told>, aids: &Aids) {
        let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
        let run = self.failing.runs;
        let request = FenceRequest { cluster: cluster.clone(), server: self.address(host) };
        let fencing = (aids.fence)(request);
        tokio::spawn(async move {
            let result = match fencing.await {
                Ok(()) => {
                    let said = "fence_script has ended with 0".to_owned();
                    Ok(Done { said, value: "script".to_owned() })
                }
                Err(why) => Err(Failure { why, is_unknown: false }),
            };
            // The configuration may have changed meanwhile.
            drop(told.send(Told::FailoverStep { cluster, run, step, result }).await);
        });
    }

    /// Notes that a failover has begun, or gets as far as the promotion, for whoever finds it cut
    /// short.
    fn note_begun(&self, position: String, aids: &Aids) {
        let Some(run) = &self.failing.run else { return };
        let Some(elected) = run.failover.chosen() else { return };
        aids.begin(Begun {
            cluster: self.configured.entry.name.clone(),
            elected: self.address(elected.new),
            lost: self.address(run.failover.plan().old),
            position,
            switchover: None,
        });
    }

    /// Notes who is about to write.
    fn note(&mut self, aids: &Aids) -> Result<Done, Failure> {
        let run = self.failing.run.as_ref();
        let elected = run.and_then(|run| run.failover.chosen());
        let (Some(run), Some(elected)) = (run, elected) else {
            return Err(Failure { why: "nobody is elected".to_owned(), is_unknown: false });
        };
        let note = Note {
            cluster: self.configured.entry.name.clone(),
            writer: self.address(elected.new),
            lost: self.address(run.failover.plan().old),
            position: run.failover.position().to_owned(),
            unix_sec: unix_sec(),
            is_followed: false,
            is_back: false,
        };
        self.note_begun(note.position.clone(), aids);
        self.failing.last = Some(note.clone());
        match aids.note(note) {
            Ok(()) => Ok(Done { said: "it is noted".to_owned(), value: String::new() }),
            Err(why) => Err(Failure { why, is_unknown: false }),
        }
    }

    /// Has all members that answer asked, after the failover was claimed on most of them.
    fn start_election(&self, told: &mpsc::Sender<Told>) {
        let Some(run) = &self.failing.run else { return };
        let old = run.failover.plan().old;
        let members = self.configured.members.iter();
        let number = |address: &Address| {
            let mut members = self.configured.members.iter();
            members.find(|it| it.address == *address).map(|it| HostId(it.number))
        };
        let hosts: Vec<HostId> = members.clone().map(|it| HostId(it.number)).collect();
        let election = Election {
            old,
            known: self.known_of(old),
            last_writer: self.failing.last.as_ref().and_then(|note| self.host_at(&note.writer)),
            candidates: self.failing.candidates.iter().filter_map(number).collect(),
            away: hosts.iter().copied().filter(|host| self.cluster.is_away(*host)).collect(),
            names: members
                .map(|it| (HostId(it.number), it.address.to_string()))
                .collect::<BTreeMap<_, _>>(),
        };
        // Those that refuse are gone for certain: nobody else can claim anything there.
        let is_voter = |host: &HostId| *host != old && !self.cluster.refuses(*host);
        let voters = hosts.iter().filter(|host| is_voter(host)).count();
        let is_up = |host: &HostId| *host != old && self.cluster.reach(*host) == Reach::Up;
        let asked = self.in_order(hosts.into_iter().filter(is_up));
        let near = self.servers.iter().map(|(id, it)| (*id, it.writer.is_near)).collect();
        let is_advice = run.failover.plan().is_advice;
        let ballot = Ballot { election, asked, voters, near, is_advice, known: self.known() };
        let talks = run.talks.clone();
        let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
        let run = self.failing.runs;
        tokio::spawn(async move {
            let votes = Box::new(vote(ballot, talks).await);
            // The configuration may have changed meanwhile.
            drop(told.send(Told::Voted { cluster, run, votes }).await);
        });
    }

    /// The transactions of the lost writer when it was asked last, or when it was promoted.
    fn known_of(&self, old: HostId) -> String {
        let told = self.cluster.facts(old).map(|facts| facts.gtid.clone());
        let promoted = self.failing.last.as_ref().filter(|note| note.writer == self.address(old));
        let noted = || promoted.map(|note| note.position.clone());
        told.filter(|gtid| !gtid.is_empty()).or_else(noted).unwrap_or_default()
    }

    /// An operator allows another failover.
    pub(in super::super) fn clear_failover(&mut self, now_ms: u64, aids: &Aids) -> String {
        let blocked_sec = self.failing.watch.blocked_ms(now_ms).div_ceil(1_000);
        if self.failing.run.as_ref().is_some_and(|run| run.failover.is_unsure()) {
            let why = "CLEAR FAILOVER has ended it";
            self.with_failover(now_ms, |run, orders| run.failover.abandon(why, orders));
        }
        self.failing.watch.clear();
        self.failing.lost_before = None;
        let name = self.configured.entry.name.clone();
        let lost = self.failing.last.take().and_then(|note| self.host_at(&note.lost));
        if let Some(lost) = lost {
            self.on(now_ms, Input::Unfence(lost));
        }
        aids.forget(&name);
        if !self.failing.is_under_way() && !self.switching.is_under_way() {
            // Nothing is undone any more: a person decides.
            aids.end(&name);
        }
        let text =
            format!("a failover may begin again; it was blocked for another {blocked_sec} s");
        self.tell(now_ms, EventKind::Failover, None, text.clone());
        text
    }
}

/// Who is asked in an election, and what it goes by.
struct Ballot {
    election: Election,
    /// With their names.
    asked: Vec<(HostId, String)>,
    /// How many servers there are for claims.
    voters: usize,
    near: HashMap<HostId, bool>,
    is_advice: bool,
    known: Vec<Known>,
}

async fn vote(ballot: Ballot, talks: Talks) -> Votes {
    let Ballot { election, asked, voters, near, is_advice, known } = ballot;
    if !is_advice && let Err(why) = claim(&asked, voters, &talks).await {
        let elected = Err(NotElected { why, is_stuck: false });
        return Votes { elected, baggage: HashMap::new() };
    }
    let mut told = members::Told::default();
    let asked = asked.into_iter().map(|(host, _)| host);
    told.ask(asked, &talks, (&Arc::new(known), false), &near).await;
    Votes { elected: elect(&election, &told.members), baggage: told.baggage }
}
