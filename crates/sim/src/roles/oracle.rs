//! What must not be, from what the decision was told and said, and from how servers are.

use std::{collections::BTreeMap, fmt};

use trunkline_cluster::{
    Cluster, Evidence, HostId, Input, Miss, Output, Places, Reach, Standing, facts::Facts,
};
use trunkline_topology::{Role, ServerHealth, WriterCell};

use super::{
    Kind,
    nature::Nature,
    proxy::{Entries, Name},
};

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breach {
    /// Two servers may write where one may, or two are the writer of one epoch.
    TwoWriters,
    /// A statement that writes went to a server that does not write, or not any more.
    OutsideCell,
    /// Questions that were not answered in time changed a role, and nothing else did.
    TimeOutIsRole,
    /// A server writes that has not said that it takes writes.
    UntoldWriter,
    /// A server that answers statements was taken for one that is down.
    DownThoughAnswering,
    /// A writer is there and can be reached, and nobody writes, or somebody else.
    HoldForgotten,
    /// All is well, and a server does not have the role that it should.
    WrongInTheEnd,
}

/// A breach, and what shows it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// What was broken.
    pub breach: Breach,
    /// When, ms.
    pub at_ms: u64,
    /// What was seen.
    pub evidence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { breach, at_ms, evidence } = self;
        write!(f, "{} ms: {breach:?}: {evidence}", at_ms)
    }
}

/// How long a state of servers in which the roles are plain may last before they are found, ms.
const FOUND_WITHIN_MS: u64 = 10_000;
/// Questions that fail one behind the other before a server is down.
const MISSES: u32 = 3;
/// How long a statement that was answered speaks for a server, ms: a little less than what is
/// promised, since workers are looked at every 10 ms.
const SPEAKS_MS: u64 = 2_900;
/// How long a question may take before it is of interest whether statements are answered, ms.
const LISTENS_AFTER_MS: u64 = 120;

/// What the oracle knows of a member.
#[derive(Debug, Default)]
struct Known {
    /// It has said last that it takes writes, and nothing against it.
    is_told_writable: bool,
    has_told: bool,
    /// Questions that failed since it answered one.
    misses: u32,
    /// When the first of these was asked, ms.
    missed_ms: u64,
    is_refused: bool,
    answered_ms: Option<u64>,
    was_down: bool,
    writes: bool,
}

/// What must be found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plain {
    /// This server writes and nobody else.
    Writer(usize),
    /// Servers of which each that is true here writes, and no other of them.
    Each(Vec<(usize, bool)>),
    /// Some of these write, as many as may.
    Among(Vec<usize>),
}

/// All that it watches.
pub(super) struct Oracle {
    kind: Kind,
    writers_max: u32,
    known: BTreeMap<HostId, Known>,
    /// Who wrote from when on, ms; the last one does now.
    writers: Vec<(u64, Option<HostId>)>,
    epochs: BTreeMap<u32, Option<u32>>,
    plain: Option<(u64, Plain)>,
}

fn violate(nature: &mut Nature, breach: Breach, evidence: String) {
    let at_ms = nature.now_ms;
    nature.note("violations", || format!("{breach:?}: {evidence}"));
    nature.outcome.violations.push(Violation { breach, at_ms, evidence });
}

impl Oracle {
    pub(super) fn new(kind: Kind, writers_max: u32) -> Self {
        Self {
            kind,
            writers_max,
            known: BTreeMap::new(),
            writers: vec![(0, None)],
            epochs: BTreeMap::new(),
            plain: None,
        }
    }

    fn known(&mut self, host: HostId) -> &mut Known {
        self.known.entry(host).or_default()
    }

    /// An answer arrives, and is told next.
    pub(super) fn answered(&mut self, host: HostId, asked_ms: u64, answer: &Result<Facts, Miss>) {
        let known = self.known(host);
        if known.misses == 0 {
            known.missed_ms = asked_ms;
        }
        match answer {
            Ok(facts) => {
                let refuses = facts.membership.as_ref().is_some_and(|it| it.refusal.is_some());
                known.is_told_writable = facts.is_writable && !refuses;
                known.has_told = true;
                (known.misses, known.is_refused) = (0, false);
            }
            Err(Miss::Denied(_)) => (known.misses, known.is_refused) = (0, false),
            Err(Miss::TimedOut) => known.misses += 1,
            Err(Miss::Refused(_)) => {
                known.misses += 1;
                known.is_refused = true;
            }
        }
    }

    /// What sessions have left is told next.
    pub(super) fn seen(&mut self, host: HostId, evidence: Evidence) {
        if evidence == Evidence::Answered {
            self.known(host).misses = 0;
        }
    }

    pub(super) fn answered_statement(&mut self, host: HostId, now_ms: u64) {
        self.known(host).answered_ms = Some(now_ms);
    }

    /// A role was set.
    pub(super) fn set(
        &mut self,
        nature: &mut Nature,
        output: &Output,
        entries: &BTreeMap<HostId, Entries>,
        cell: &WriterCell,
    ) {
        match output {
            Output::SetWriter(writer) => {
                if writer.is_some() {
                    nature.note("new writers", || format!("{writer:?}"));
                }
                self.writers.push((nature.now_ms, *writer));
                let said = writer.map(|it| it.0);
                let before = self.epochs.insert(cell.epoch(), said);
                if before.is_some_and(|before| before != said) {
                    let evidence = format!("epoch {}: {before:?} and {said:?}", cell.epoch());
                    violate(nature, Breach::TwoWriters, evidence);
                }
                if let Some(host) = writer {
                    self.must_be_told(nature, *host);
                }
            }
            Output::SetPlaces(host, Places { writes, .. }) => {
                self.known(*host).writes = *writes;
                if *writes && self.kind.certifies() {
                    nature.note("new writers", || format!("{host:?}"));
                    self.must_be_told(nature, *host);
                }
            }
            Output::Ask(_) | Output::SetReader(..) | Output::Discovered(_) | Output::Tell(_) => {}
        }
        let is_given = |health: &ServerHealth| health.role().is_some_and(Role::is_given);
        let writing = entries.values().filter(|it| is_given(&it.writer)).count();
        let max = match self.kind {
            Kind::ReadOnly => u32::MAX,
            Kind::Replication | Kind::Galera | Kind::Group => self.writers_max,
        };
        if u32::try_from(writing).is_ok_and(|writing| writing > max) {
            let evidence = format!("{writing} write, and {max} may");
            violate(nature, Breach::TwoWriters, evidence);
        }
    }

    fn must_be_told(&mut self, nature: &mut Nature, host: HostId) {
        if !self.known(host).is_told_writable {
            let evidence = format!("{host:?} writes and has not said that it takes writes");
            violate(nature, Breach::UntoldWriter, evidence);
        }
    }

    /// The decision was told something, and said something.
    pub(super) fn told(
        &mut self,
        nature: &mut Nature,
        input: &Input,
        out: &[Output],
        cluster: &Cluster,
        begins_as_listed: bool,
    ) {
        debug_assert_eq!(begins_as_listed, self.kind == Kind::ReadOnly);
        let now_ms = nature.now_ms;
        if let Input::Gone(host) = input {
            self.known.remove(host);
        }
        if let Input::Answer { host, answer: Err(Miss::TimedOut), .. } = input {
            self.must_be_more(nature, *host, out);
        }
        for (host, known) in &mut self.known {
            let is_down = cluster.reach(*host) == Reach::Down;
            let becomes = is_down && !std::mem::replace(&mut known.was_down, is_down);
            known.was_down = is_down;
            let heard_ms = known.missed_ms + LISTENS_AFTER_MS;
            let speaks = known
                .answered_ms
                .is_some_and(|at_ms| at_ms + SPEAKS_MS > now_ms && at_ms > heard_ms);
            if becomes && speaks && !known.is_refused {
                let evidence = format!("{host:?} answered at {:?}", known.answered_ms);
                violate(nature, Breach::DownThoughAnswering, evidence);
                return;
            }
        }
    }

    /// A question to this server was not answered in time: that alone changes no role.
    fn must_be_more(&mut self, nature: &mut Nature, host: HostId, out: &[Output]) {
        let changes = |it: &&Output| match it {
            Output::SetWriter(_) | Output::SetReader(..) | Output::SetPlaces(..) => true,
            Output::Ask(_) | Output::Discovered(_) | Output::Tell(_) => false,
        };
        let changed: Vec<&Output> = out.iter().filter(changes).collect();
        if changed.is_empty() {
            return;
        }
        // One that nobody hears of for long may be replaced by another one that is there.
        let is_silent = |oracle: &mut Self, host| oracle.known(host).misses >= MISSES;
        let before = self.writers.iter().rev().nth(1).and_then(|(_, writer)| *writer);
        let is_good = match self.kind {
            Kind::Replication => {
                changed.iter().any(|it| match (it, before) {
                    (Output::SetWriter(Some(_)), Some(before)) => is_silent(self, before),
                    // At the beginning everybody is waited for who may be there.
                    (Output::SetWriter(Some(_)), None) => self.writers.len() == 2,
                    _ => false,
                }) || is_silent(self, host)
            }
            Kind::ReadOnly => false,
            Kind::Galera | Kind::Group => is_silent(self, host),
        };
        if !is_good {
            let evidence = format!("{host:?}: {changed:?}");
            violate(nature, Breach::TimeOutIsRole, evidence);
        }
    }

    /// A statement's last bytes go out on a connection that was opened at `since_ms`.
    pub(super) fn sent(
        &mut self,
        nature: &mut Nature,
        host: HostId,
        is_writer: bool,
        is_held: bool,
        since_ms: u64,
    ) {
        if !is_writer {
            return;
        }
        let evidence = match self.kind {
            Kind::Replication => {
                let now = self.writers.last().and_then(|(_, writer)| *writer);
                // Whoever has written since the connection was opened, and was the writer then.
                let mut since = self.writers.iter().filter(|(at_ms, _)| *at_ms > since_ms);
                let other = since.find(|(_, writer)| *writer != Some(host));
                match (now == Some(host), other) {
                    (false, _) => Some(format!("{host:?} was written to, and {now:?} writes")),
                    (true, Some((at_ms, other))) => Some(format!(
                        "{host:?} was written to on a connection of {since_ms} ms, and {other:?} \
                         was the writer at {at_ms} ms"
                    )),
                    (true, None) => None,
                }
            }
            Kind::ReadOnly => (!self.known(host).writes)
                .then(|| format!("{host:?} was written to, and does not write")),
            // What a session holds goes on there: the group certifies it.
            Kind::Galera | Kind::Group => (!is_held && !self.known(host).writes)
                .then(|| format!("{host:?} was written to, and does not write")),
        };
        if let Some(evidence) = evidence {
            violate(nature, Breach::OutsideCell, evidence);
        }
    }

    /// Looks whether what is plain for long is found.
    pub(super) fn watch(
        &mut self,
        nature: &mut Nature,
        cluster: &Cluster,
        names: &BTreeMap<HostId, Name>,
    ) {
        let plain = plain(nature, self.kind, names);
        let now_ms = nature.now_ms;
        let since_ms = match (&self.plain, &plain) {
            (Some((since_ms, before)), Some(now)) if before == now => *since_ms,
            _ => now_ms,
        };
        self.plain = plain.map(|plain| (since_ms, plain));
        let Some((_, plain)) = &self.plain else { return };
        if now_ms < since_ms + FOUND_WITHIN_MS {
            return;
        }
        let wrong = wrong(plain, cluster, names, self.writers_max);
        if let Some(wrong) = wrong {
            let evidence = format!("{plain:?} since {since_ms} ms: {wrong}");
            violate(nature, Breach::HoldForgotten, evidence);
        }
    }

    /// Everything has been well for long: every server has its role.
    pub(super) fn end(
        &mut self,
        nature: &mut Nature,
        cluster: &Cluster,
        names: &BTreeMap<HostId, Name>,
    ) {
        let writers = writers(cluster, names);
        let mut servers = writers.clone();
        servers.dedup();
        let wanted = match self.kind {
            Kind::Replication | Kind::ReadOnly => 1,
            Kind::Group if nature.group.primary().is_some() => 1,
            Kind::Galera | Kind::Group => {
                let members: std::collections::BTreeSet<usize> =
                    names.values().map(|name| name.server).collect();
                members.len().min(usize::try_from(self.writers_max).unwrap_or(usize::MAX))
            }
        };
        if servers.len() != wanted || self.kind != Kind::ReadOnly && writers.len() != wanted {
            let evidence = format!("{wanted} should write, and {writers:?} do");
            violate(nature, Breach::WrongInTheEnd, evidence);
        }
        for (host, name) in names {
            let standing = cluster.standing(*host);
            let is_writer = writers.contains(&name.server);
            let is_good = match standing {
                Standing::Writer => is_writer,
                Standing::Reader | Standing::BackupWriter => !is_writer,
                // One of several names of a server.
                Standing::Standby => {
                    names.values().filter(|it| it.server == name.server).count() > 1
                }
                Standing::Unknown | Standing::Fenced => false,
            };
            if !is_good {
                let evidence = format!("{host:?} of server {} is {standing:?}", name.server);
                violate(nature, Breach::WrongInTheEnd, evidence);
            }
        }
    }
}

/// The servers that write, in order.
fn writers(cluster: &Cluster, names: &BTreeMap<HostId, Name>) -> Vec<usize> {
    let writes = |host: &HostId| cluster.standing(*host) == Standing::Writer;
    let mut servers: Vec<usize> =
        names.iter().filter(|(host, _)| writes(host)).map(|(_, name)| name.server).collect();
    servers.sort_unstable();
    servers
}

/// What everybody must agree on as servers are now; `None` where that is open.
fn plain(nature: &Nature, kind: Kind, names: &BTreeMap<HostId, Name>) -> Option<Plain> {
    let is_named = |id: usize| names.values().any(|name| name.server == id);
    match kind {
        Kind::Replication => {
            let mut open = nature
                .ids()
                .filter(|id| nature.is_plain(*id) && nature.takes_writes(*id) && is_named(*id));
            let primary = open.next().filter(|_| open.next().is_none())?;
            let is_free = nature.server(primary).is_some_and(|it| it.source.is_none());
            let mut followers = 0;
            let others_agree = nature.ids().filter(|id| *id != primary).all(|id| {
                let Some(server) = nature.server(id) else { return false };
                let is_gone =
                    !server.is_running && server.hears && server.is_heard && !server.is_slow;
                let is_cut = !server.hears && server.lie.is_none();
                let follows = nature.is_plain(id)
                    && !server.is_writable
                    && server.source == Some(primary)
                    && nature.are_connected(id, primary);
                followers += usize::from(follows);
                is_gone || is_cut || follows
            });
            (is_free && others_agree && followers > 0).then_some(Plain::Writer(primary))
        }
        Kind::ReadOnly => {
            let each = nature.ids().filter(|id| nature.is_plain(*id) && is_named(*id));
            Some(Plain::Each(each.map(|id| (id, nature.takes_writes(id))).collect()))
        }
        Kind::Galera | Kind::Group => {
            let is_fit = |id: &usize| {
                nature.is_plain(*id)
                    && nature.takes_writes(*id)
                    && is_named(*id)
                    && nature.group.refusal(*id).is_none()
            };
            let fit: Vec<usize> = nature.ids().filter(is_fit).collect();
            let is_open = nature.ids().all(|id| {
                // Of one that is slow or lies nothing is certain.
                nature.server(id).is_some_and(|it| it.lie.is_none() && !it.is_slow)
            });
            (!fit.is_empty() && is_open).then_some(Plain::Among(fit))
        }
    }
}

/// What is not as it plainly is.
fn wrong(
    plain: &Plain,
    cluster: &Cluster,
    names: &BTreeMap<HostId, Name>,
    writers_max: u32,
) -> Option<String> {
    let writing = writers(cluster, names);
    let said = || format!("{writing:?} write");
    match plain {
        Plain::Writer(primary) => (writing.as_slice() != [*primary]).then(said),
        Plain::Each(each) => {
            each.iter().any(|(id, writes)| writing.contains(id) != *writes).then(said)
        }
        Plain::Among(fit) => {
            let max = usize::try_from(writers_max).unwrap_or(usize::MAX);
            let good = writing.iter().filter(|id| fit.contains(id)).count();
            (good != fit.len().min(max)).then(said)
        }
    }
}
