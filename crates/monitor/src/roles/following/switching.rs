//! A switchover of one cluster: members are surveyed, and what the decision orders is done.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::{Mutex, mpsc, oneshot};
use trunkline_cluster::{
    Event, EventKind, Guidance, HostId, Input, Standing,
    switchover::{
        Action, Done, Failure, Order, Outcome, Plan, Row, Switchover, Way as SwitchWay,
        check::{Checked, Finding, Survey, Surveyed, Wish, check},
    },
};
use trunkline_config::{Snapshot, cluster::ClusterKind};
use trunkline_net::TlsSetup;
use trunkline_topology::{Address, HostgroupId, Secret};

use super::{
    super::{
        Aids, ClusterNews,
        actions::Job,
        members::{self, Talks, claim, take_leave},
        notes::{Begun, Wished},
        survey::{Baggage, Known, lacking},
        talk::{Talk, caught},
    },
    Following, endpoint,
    failing::{Votes, unix_sec},
    mending::Found,
    next_run,
    rejoining::Rejoined,
};
use crate::{
    Account,
    conversation::Way,
    outcomes::rights::{self, Lacking, Wanted, mark_on, marking},
};

/// Columns of what a switchover is answered with.
const STEPS: [&str; 5] = ["step", "server", "ms", "result", "detail"];
/// Accounts of applications that a check looks at.
const ACCOUNTS_MAX: usize = 64;
/// Columns of what a check is answered with.
const FINDINGS: [&str; 3] = ["server", "verdict", "detail"];

/// What an operator asks for.
#[derive(Debug)]
pub struct SwitchoverRequest {
    /// The cluster.
    pub cluster: String,
    /// Who shall write; `None` for the server that fits best.
    pub to: Option<Address>,
    /// Whether it is only said what is in the way.
    pub is_check: bool,
    /// Gets the answer, when it is over.
    pub answer: oneshot::Sender<SwitchoverAnswer>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchoverAnswer {
    /// The names of the columns.
    pub columns: Vec<&'static str>,
    /// Steps, or findings.
    pub rows: Vec<Vec<String>>,
    /// Why it was not done, or could not be.
    pub failed: Option<String>,
}

impl SwitchoverAnswer {
    pub(in super::super) fn refused(why: impl Into<String>) -> Self {
        Self { failed: Some(why.into()), ..Self::default() }
    }
}

/// What comes in from tasks.
pub(in super::super) enum Told {
    /// All members have been asked.
    Surveyed(String, Box<Prepared>),
    /// A step has ended.
    Done { cluster: String, run: u64, step: u32, result: Result<Done, Failure> },
    /// Members were asked in a failover.
    Voted { cluster: String, run: u64, votes: Box<Votes> },
    /// A step of a failover has ended.
    FailoverStep { cluster: String, run: u64, step: u32, result: Result<Done, Failure> },
    /// A server replicates again, or does not.
    Rejoined(String, Box<Rejoined>),
    /// What was found of a failover that was cut short.
    Mended(String, Box<(Begun, Result<Found, String>)>),
}

impl Told {
    pub(in super::super) fn cluster(&self) -> &str {
        match self {
            Self::Surveyed(cluster, _)
            | Self::Rejoined(cluster, _)
            | Self::Mended(cluster, _)
            | Self::Done { cluster, .. }
            | Self::Voted { cluster, .. }
            | Self::FailoverStep { cluster, .. } => cluster,
        }
    }
}

/// What a switchover begins with.
pub(in super::super) struct Prepared {
    request: SwitchoverRequest,
    wish: Wish,
    members: Vec<Surveyed>,
    /// What accounts of applications lack there.
    lacking: Vec<Finding>,
    baggage: HashMap<HostId, Baggage>,
    talks: Talks,
    /// Why it can't begin, if another proxy is at it.
    claimed: Result<(), String>,
}

/// Members that are claimed beside the writer.
struct Others {
    asked: Vec<(HostId, String)>,
    /// How many could be, if all answered.
    voters: usize,
}

/// Everything about switchovers of one cluster.
pub(super) struct Switching {
    account: Option<Account>,
    /// As whom servers replicate, or why nobody can.
    replication: Result<Arc<(String, Secret<String>)>, String>,
    /// Applications whose lost `COMMIT`s are looked for, with the hostgroups that they write to.
    marking: Vec<(Account, HostgroupId)>,
    drain_ms: u64,
    time_max_ms: u64,
    run: Option<Run>,
    /// The number of the last one, which no other one of the process has.
    runs: u64,
    /// Steps that begin when roles are set.
    due: Vec<(u32, HostId, Action, u64)>,
    /// One has ended, which is not noted yet.
    is_over: bool,
}

/// One that is under way.
struct Run {
    switchover: Switchover,
    talks: Talks,
    old: Arc<Baggage>,
    new: Arc<Baggage>,
    source: (String, u16),
    rows: Vec<Vec<String>>,
    answer: oneshot::Sender<SwitchoverAnswer>,
}

impl Default for Switching {
    fn default() -> Self {
        Self {
            account: None,
            replication: Err(String::new()),
            marking: Vec::new(),
            drain_ms: 0,
            time_max_ms: 0,
            run: None,
            runs: 0,
            due: Vec::new(),
            is_over: false,
        }
    }
}

impl Switching {
    /// As whom servers replicate, or why nobody can.
    pub(super) fn replication(&self) -> Result<Arc<(String, Secret<String>)>, String> {
        self.replication.clone()
    }

    /// Whether one is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.run.is_some()
    }

    /// Takes over a configuration.
    pub(super) fn renew(&mut self, snapshot: &Snapshot) {
        let settings = &snapshot.settings;
        self.account = Account::of_switchovers(snapshot);
        self.replication = replication_account(snapshot).map(Arc::new);
        self.marking = marking(snapshot).take(ACCOUNTS_MAX).collect();
        self.drain_ms = settings.switchover_drain_timeout;
        self.time_max_ms = settings.switchover_timeout;
    }
}

/// As whom servers replicate.
fn replication_account(snapshot: &Snapshot) -> Result<(String, Secret<String>), String> {
    let name = snapshot.settings.replication_account.as_str();
    if name.is_empty() {
        return Err("replication_account is not set: the old writer could not replicate from the \
                    new one"
            .to_owned());
    }
    let user = snapshot.user(name);
    let user = user.ok_or_else(|| format!("replication_account: there is no user `{name}`"))?;
    let (name, password) = match &user.backend {
        Some(backend) => (&backend.user, Some(&backend.password)),
        None => (&user.name, user.password.clear()),
    };
    let password = password.ok_or_else(|| {
        format!("replication_account: the password of `{name}` is not known in clear text")
    })?;
    Ok((name.clone(), Secret::new(password.expose().clone())))
}

impl Following {
    /// Has all members surveyed for what an operator asks for.
    pub(in super::super) fn request(
        &mut self,
        request: SwitchoverRequest,
        tls: &Arc<TlsSetup>,
        told: &mpsc::Sender<Told>,
    ) {
        match self.prepare(&request, tls) {
            Ok((wish, talks)) => {
                let cluster = self.configured.entry.name.clone();
                let known = self.known();
                let near = self.servers.iter().map(|(id, it)| (*id, it.writer.is_near)).collect();
                let others = self.others(wish.writer);
                let marking = if request.is_check { self.marking() } else { Vec::new() };
                let (told, tls) = (told.clone(), Arc::clone(tls));
                tokio::spawn(async move {
                    let surveyed = survey_all(request, wish, talks, known, (near, others));
                    let (mut prepared, lacking) =
                        tokio::join!(surveyed, lacking_marks(marking, &tls));
                    prepared.lacking = lacking;
                    // The configuration may have changed meanwhile; who asked is told by that.
                    drop(told.send(Told::Surveyed(cluster, Box::new(prepared))).await);
                });
            }
            // Who asked may have gone.
            Err(why) => drop(request.answer.send(SwitchoverAnswer::refused(why))),
        }
    }

    fn prepare(
        &self,
        request: &SwitchoverRequest,
        tls: &Arc<TlsSetup>,
    ) -> Result<(Wish, Talks), String> {
        let entry = &self.configured.entry;
        let name = &entry.name;
        let is_group = match entry.kind {
            ClusterKind::Replication => false,
            ClusterKind::GroupReplication => true,
            ClusterKind::ReadOnly
            | ClusterKind::Galera
            | ClusterKind::InnodbCluster
            | ClusterKind::Aurora
            | ClusterKind::RdsMultiAz => {
                let kind = entry.kind;
                return Err(format!("cluster {name} is of the kind {kind}: nothing is switched"));
            }
        };
        if self.switching.run.is_some() {
            return Err(format!("a switchover of cluster {name} is under way"));
        }
        if self.failing.is_under_way() {
            return Err(format!("a failover of cluster {name} is under way"));
        }
        let writer = self.writer_now().ok_or_else(|| format!("cluster {name} has no writer"))?;
        let to = match &request.to {
            None => None,
            Some(address) => {
                let mut members = self.configured.members.iter();
                let member = members.find(|member| member.address == *address);
                let member =
                    member.ok_or_else(|| format!("{address} is no server of cluster {name}"))?;
                Some(HostId(member.number))
            }
        };
        let account = self.switching.replication.as_ref().map(|_| ()).map_err(Clone::clone);
        Ok((Wish { writer, to, account, is_group }, self.talks(tls)))
    }

    /// A connection to each member, none of which stands yet.
    pub(super) fn talks(&self, tls: &Arc<TlsSetup>) -> Talks {
        let talks = self.servers.iter().map(|(host, entries)| {
            let server = &entries.writer;
            let account = self.switching.account.clone();
            let talk = Talk::new(Arc::clone(server), Way::to(server, tls), account);
            (*host, Arc::new(Mutex::new(talk)))
        });
        talks.collect()
    }

    /// Members with their names, in the order in which every proxy claims them.
    pub(super) fn in_order(&self, hosts: impl Iterator<Item = HostId>) -> Vec<(HostId, String)> {
        let mut named: Vec<_> = hosts.map(|host| (host, self.address(host))).collect();
        named.sort_by(|(_, one), (_, other)| one.cmp(other));
        named
    }

    /// Members that are claimed beside the writer. Those that refuse connections are gone for
    /// certain: nobody else can claim anything there.
    fn others(&self, writer: HostId) -> Others {
        let is_other = |host: &HostId| *host != writer && !self.cluster.refuses(*host);
        let asked = self.in_order(self.servers.keys().copied().filter(is_other));
        Others { voters: asked.len(), asked }
    }

    /// Applications' accounts that write here and have to mark it, on each member.
    fn marking(&self) -> Vec<(HostId, Wanted)> {
        let home = self.configured.entry.writer_hostgroup;
        let accounts = self.switching.marking.iter().filter(|(_, own)| *own == home);
        let on_each = |(account, _): &(Account, HostgroupId)| {
            let account = account.clone();
            self.servers.iter().map(move |(host, it)| (*host, mark_on(&account, &it.writer)))
        };
        accounts.flat_map(on_each).collect()
    }

    /// Who writes, whatever the kind of the cluster.
    fn writer_now(&self) -> Option<HostId> {
        let mut members = self.cluster.members();
        members.find(|host| self.cluster.standing(*host) == Standing::Writer)
    }

    /// Members as other servers know them.
    pub(super) fn known(&self) -> Vec<Known> {
        let known = |member: &trunkline_config::snapshot::Member| {
            let host = HostId(member.number);
            let identity = self.cluster.facts(host).map(|facts| facts.identity.clone());
            let identity = identity.unwrap_or_default();
            Known { host, endpoint: endpoint(&member.address), identity }
        };
        self.configured.members.iter().map(known).collect()
    }

    /// Takes what has come in from a task.
    pub(in super::super) fn take_told(&mut self, now_ms: u64, told: Told) {
        match told {
            Told::Surveyed(_, prepared) => self.begin(now_ms, *prepared),
            Told::Mended(_, found) => self.mending.found = Some(*found),
            Told::Rejoined(_, rejoined) => self.take_rejoined(now_ms, *rejoined),
            Told::Voted { run, votes, .. } => self.take_votes(now_ms, run, *votes),
            Told::FailoverStep { run, step, result, .. } => {
                self.take_step(now_ms, run, step, result);
            }
            Told::Done { run, step, result, .. } => {
                if run == self.switching.runs {
                    self.with_run(now_ms, |run, orders| {
                        run.switchover.done(now_ms, step, result, orders);
                    });
                }
            }
        }
    }

    /// Judges what members have said, and begins if nothing is in the way.
    fn begin(&mut self, now_ms: u64, prepared: Prepared) {
        let Prepared { request, wish, members, lacking, mut baggage, talks, claimed } = prepared;
        let mut checked = check(&wish, &members);
        checked.findings.extend(lacking);
        let rows = self.findings(&checked);
        let blocking = |it: &&Finding| it.blocks;
        let mut reasons: Vec<String> = checked
            .findings
            .iter()
            .filter(blocking)
            .map(|finding| match finding.host {
                Some(host) => format!("{}: {}", self.address(host), finding.what),
                None => finding.what.clone(),
            })
            .collect();
        reasons.extend(claimed.err());
        let failed = match (reasons.is_empty(), self.writer_now() == Some(wish.writer)) {
            (false, _) => Some(reasons.join("; ")),
            (true, false) => Some("another server writes by now".to_owned()),
            (true, true) if self.switching.run.is_some() || self.failing.is_under_way() => {
                Some("a switchover is under way".to_owned())
            }
            (true, true) => None,
        };
        let (Some(new), None, false) = (checked.candidate, &failed, request.is_check) else {
            let columns = FINDINGS.to_vec();
            // Who asked may have gone.
            drop(request.answer.send(SwitchoverAnswer { columns, rows, failed }));
            return take_leave(talks);
        };
        let old = wish.writer;
        let way = if wish.is_group { SwitchWay::Group } else { SwitchWay::Replication };
        let Switching { drain_ms, time_max_ms, .. } = self.switching;
        let plan = Plan { way, old, new, others: checked.others, drain_ms, time_max_ms };
        let source = match self.servers.get(&new).map(|it| &it.writer.key.address) {
            Some(Address::Tcp { host, port }) => (host.clone(), *port),
            Some(Address::Unix(_)) | None => {
                let why = "the new writer has no address that other servers could reach";
                drop(request.answer.send(SwitchoverAnswer::refused(why)));
                return take_leave(talks);
            }
        };
        let mut of = |host| Arc::new(baggage.remove(&host).unwrap_or_default());
        let (old_baggage, new_baggage) = (of(old), of(new));
        self.switching.runs = next_run();
        self.switching.run = Some(Run {
            switchover: Switchover::new(plan),
            talks,
            old: old_baggage,
            new: new_baggage,
            source,
            rows: Vec::new(),
            answer: request.answer,
        });
        let evidence = format!("it begins, from {} to {}", self.address(old), self.address(new));
        self.tell(now_ms, EventKind::Switchover, Some(new), evidence);
        self.with_run(now_ms, |run, orders| run.switchover.begin(now_ms, orders));
    }

    fn findings(&self, checked: &Checked) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        if let Some(candidate) = checked.candidate {
            let what = "it would become the writer".to_owned();
            rows.push(vec![self.address(candidate), "candidate".to_owned(), what]);
        }
        for finding in &checked.findings {
            let server = finding.host.map(|host| self.address(host)).unwrap_or_default();
            let verdict = if finding.blocks { "blocks" } else { "note" };
            rows.push(vec![server, verdict.to_owned(), finding.what.clone()]);
        }
        rows
    }

    pub(super) fn address(&self, host: HostId) -> String {
        let member = self.configured.member(host.0);
        member.map(|member| member.address.to_string()).unwrap_or_default()
    }

    pub(super) fn tell(
        &mut self,
        now_ms: u64,
        kind: EventKind,
        host: Option<HostId>,
        evidence: String,
    ) {
        let evidence = shortened(&evidence);
        self.on(now_ms, Input::Tell(Event { kind, host, evidence }));
    }

    /// Says how much is open on a writer that drains.
    pub(in super::super) fn look_at_switchover(&mut self, now_ms: u64) {
        let Some(run) = self.switching.run.as_ref() else { return };
        let plan = run.switchover.plan();
        if ![plan.old, plan.new].iter().all(|host| self.servers.contains_key(host)) {
            let why = "one of its servers is no member of the cluster any more";
            return self.with_run(now_ms, |run, orders| run.switchover.abandon(why, orders));
        }
        let (old, new) = (plan.old, plan.new);
        let is_group = plan.way == SwitchWay::Group;
        let other = self.cluster.contenders().find(|it| *it != old && *it != new);
        if let Some(other) = other.filter(|_| !is_group) {
            let why = format!("{} takes writes", self.address(other));
            return self.with_run(now_ms, |run, orders| run.switchover.overtaken(&why, orders));
        }
        if run.switchover.is_draining() {
            let old = self.servers.get(&plan.old);
            let open = old.map_or(0, |it| it.writer.health.connections());
            self.with_run(now_ms, |run, orders| run.switchover.open(now_ms, open, orders));
        }
    }

    fn with_run(&mut self, now_ms: u64, work: impl FnOnce(&mut Run, &mut Vec<Order>)) {
        let mut orders = Vec::new();
        if let Some(run) = &mut self.switching.run {
            work(run, &mut orders);
        }
        for order in orders {
            match order {
                Order::Guide(guidance) => self.guide(now_ms, guidance),
                Order::Do { step, host, action, within_ms } => {
                    self.switching.due.push((step, host, action, within_ms));
                }
                Order::Tell(row) => self.tell_row(now_ms, row),
                Order::End(outcome) => self.end_switchover(now_ms, outcome),
            }
        }
    }

    /// Says of roles what a switchover or a failover does.
    pub(super) fn guide(&mut self, now_ms: u64, guidance: Guidance) {
        self.on(now_ms, Input::Switchover(guidance));
        if guidance == Guidance::Drain {
            self.untold.push(ClusterNews::WriterDrains);
        }
    }

    fn tell_row(&mut self, now_ms: u64, row: Row) {
        let Row { step, host, ms, result } = row;
        let (kind, word, detail) = match result {
            Ok(said) => (EventKind::Switchover, "ok", said),
            Err(why) => (EventKind::SwitchoverFailed, "failed", why),
        };
        let address = self.address(host);
        if let Some(run) = &mut self.switching.run {
            let cells = [step, &address, &ms.to_string(), word, &detail];
            run.rows.push(cells.iter().map(|cell| (*cell).to_owned()).collect());
        }
        self.tell(now_ms, kind, Some(host), format!("{step}, {ms} ms: {detail}"));
    }

    fn end_switchover(&mut self, now_ms: u64, outcome: Outcome) {
        let Some(run) = self.switching.run.take() else { return };
        self.switching.is_over = true;
        let new = run.switchover.plan().new;
        let failed = match outcome {
            Outcome::Done(failed) => {
                let said = match failed.as_slice() {
                    [] => "it is done".to_owned(),
                    _ => format!("the new writer writes; not done: {}", failed.join("; ")),
                };
                let kind = match failed.is_empty() {
                    true => EventKind::Switchover,
                    false => EventKind::SwitchoverFailed,
                };
                self.tell(now_ms, kind, Some(new), said.clone());
                (!failed.is_empty()).then_some(said)
            }
            Outcome::Failed(why) => {
                self.tell(now_ms, EventKind::SwitchoverFailed, Some(new), why.clone());
                Some(why)
            }
        };
        let (columns, rows) = (STEPS.to_vec(), run.rows);
        // Who asked may have gone.
        drop(run.answer.send(SwitchoverAnswer { columns, rows, failed }));
        take_leave(run.talks);
    }

    /// Begins the steps that were ordered; roles are set by now.
    pub(in super::super) fn start_steps(&mut self, told: &mpsc::Sender<Told>, aids: &Aids) {
        if std::mem::take(&mut self.switching.is_over) {
            aids.end(&self.configured.entry.name);
        }
        for (step, host, action, within_ms) in std::mem::take(&mut self.switching.due) {
            let Some(run) = &self.switching.run else { return };
            let Some(talk) = run.talks.get(&host).map(Arc::clone) else { continue };
            let (old, new) = (Arc::clone(&run.old), Arc::clone(&run.new));
            if action == Action::Demote {
                // From now on nobody may take writes.
                let plan = run.switchover.plan();
                aids.begin(Begun {
                    cluster: self.configured.entry.name.clone(),
                    elected: self.address(plan.new),
                    lost: self.address(plan.old),
                    position: String::new(),
                    switchover: Some(Wished { unix_sec: unix_sec(), runs_events: old.runs_events }),
                });
            }
            let (source, number) = (run.source.clone(), self.switching.runs);
            let account = self.switching.replication.clone();
            let (told, cluster) = (told.clone(), self.configured.entry.name.clone());
            let step_of = async move {
                let nobody = Arc::new((String::new(), Secret::new(String::new())));
                let account = account.unwrap_or(nobody);
                let job = Job {
                    action: &action,
                    old: &old,
                    new: &new,
                    source: (&source.0, source.1),
                    account: (&account.0, &account.1),
                };
                let time_max = Duration::from_millis(within_ms);
                talk.lock().await.within(time_max, &job).await
            };
            tokio::spawn(async move {
                let result = caught(step_of).await;
                // The configuration may have changed meanwhile.
                drop(told.send(Told::Done { cluster, run: number, step, result }).await);
            });
        }
    }
}

/// Asks the replicas, and then the writer, so that it has all that they have. Unless it is only a
/// check, the switchover is claimed then: on the writer, and on most of the replicas, of which a
/// failover by another proxy would have to claim most.
async fn survey_all(
    request: SwitchoverRequest,
    wish: Wish,
    talks: Talks,
    known: Vec<Known>,
    (near, others): (HashMap<HostId, bool>, Others),
) -> Prepared {
    let how = (&Arc::new(known), wish.is_group);
    let replicas = talks.keys().copied().filter(|host| *host != wish.writer);
    let mut told = members::Told::default();
    told.ask(replicas, &talks, how, &near).await;
    told.ask([wish.writer], &talks, how, &near).await;
    let members::Told { mut members, baggage } = told;
    let mut claimed = Ok(());
    if let Some(talk) = talks.get(&wish.writer) {
        let mut talk = talk.lock().await;
        let finished = finish(&mut talk, &wish, &mut members);
        if tokio::time::timeout(Duration::from_secs(5), finished).await.is_err() {
            talk.forget();
            if let Some(it) = members.iter_mut().find(|it| it.host == wish.writer) {
                it.survey = Err("it does not answer in time".to_owned());
            }
        }
    }
    if !request.is_check {
        claimed = claim(&[(wish.writer, "the writer".to_owned())], 1, &talks).await;
        if claimed.is_ok() && !wish.is_group {
            claimed = claim(&others.asked, others.voters, &talks).await;
        }
    }
    Prepared { request, wish, members, lacking: Vec::new(), baggage, talks, claimed }
}

/// What accounts of applications lack on members, that lost `COMMIT`s could be looked for.
async fn lacking_marks(marking: Vec<(HostId, Wanted)>, tls: &Arc<TlsSetup>) -> Vec<Finding> {
    let hosts: HashMap<String, HostId> =
        marking.iter().map(|(host, wanted)| (wanted.server().to_string(), *host)).collect();
    let wanted = marking.into_iter().map(|(_, wanted)| wanted).collect();
    let lacking = rights::look(wanted, tls).await.into_iter();
    let finding = |it: Lacking| Finding {
        host: hosts.get(&it.server).copied(),
        blocks: false,
        what: format!("{}: {}", it.what, it.advice),
    };
    lacking.map(finding).collect()
}

/// Asks the writer for what it lacks of its replicas.
async fn finish(talk: &mut Talk, wish: &Wish, members: &mut [Surveyed]) {
    use trunkline_cluster::switchover::check::Family;
    let family = |survey: &Survey| survey.family;
    let writer = members.iter().find(|member| member.host == wish.writer);
    let of_writer = writer.and_then(|member| member.survey.as_ref().ok()).map(family);
    if of_writer != Some(Family::MySql) || wish.is_group {
        return;
    }
    let replicas = members.iter_mut().filter(|member| member.host != wish.writer);
    let mut surveys: Vec<&mut Survey> =
        replicas.filter_map(|member| member.survey.as_mut().ok()).collect();
    let positions: Vec<String> = surveys.iter().map(|it| it.position.clone()).collect();
    let failed = match lacking(talk, &positions).await {
        Ok(lacking) => {
            for (survey, errant) in surveys.iter_mut().zip(lacking) {
                survey.errant = errant;
            }
            return;
        }
        Err(failed) => failed,
    };
    if let Some(writer) = members.iter_mut().find(|member| member.host == wish.writer) {
        writer.survey = Err(failed.why);
    }
}

/// The most of an event's text: transactions of a server may be a long list.
const EVIDENCE_LEN_MAX: usize = 1_000;

/// The beginning of a long text.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(EVIDENCE_LEN_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
