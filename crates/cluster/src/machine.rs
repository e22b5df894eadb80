//! The decision: who writes, who reads, and who is asked next.
//!
//! With replication there is one writer. It keeps its role until it was seen read-only, or is down
//! for the monitor, for traffic and for each replica that answers. A successor must take writes and
//! replicate from no member. While there is neither, nobody writes, and statements that would wait.
//! Where several servers may write, each has its role by what it says of itself (`several`).

mod decide;
mod guided;
mod host;
mod loss;
mod several;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Event, EventKind,
    facts::{Endpoint, Facts},
};

pub use guided::Guidance;
use host::Host;
pub use host::Reach;
pub use loss::Loss;
pub use several::{Group, Places};

/// A member of a cluster, for as long as the cluster is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct HostId(pub u32);

/// How a cluster is looked after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How often a server is asked while everything is well, ms.
    pub interval_ms: u64,
    /// How often while there is no writer, or it is in doubt, ms.
    pub urgent_ms: u64,
    /// Whether writers take reads as well.
    pub writer_reads: WriterReads,
    /// How roles are found out.
    pub kind: Kind,
    /// Whether servers have the roles that the configuration lists them with until something else
    /// is seen, as with ProxySQL's tables; otherwise nobody has a role before it was seen.
    pub begins_as_listed: bool,
    /// Whether more servers are looked for.
    pub discovers: bool,
    /// Whether proxies replace a lost writer by themselves: one that was lost when another server
    /// took its place does not become the writer again by taking writes.
    pub fails_over: bool,
}

/// How roles are found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// One server writes, and others replicate from it, directly or not.
    #[default]
    Replication,
    /// Each server writes that takes writes, and the others read: ProxySQL's
    /// `mysql_replication_hostgroups`.
    ReadOnly,
    /// Servers that certify each other's writes: Galera and Group Replication.
    Group(Group),
}

/// Whether writers take reads as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriterReads {
    /// They do not.
    #[default]
    No,
    /// They do, and backup writers too.
    Yes,
    /// Only backup writers do.
    OnlyBackups,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            interval_ms: 1_000,
            urgent_ms: 100,
            writer_reads: WriterReads::No,
            kind: Kind::Replication,
            begins_as_listed: false,
            discovers: true,
            fails_over: false,
        }
    }
}

/// How the configuration lists a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listed {
    /// In the writers' hostgroup.
    pub writes: bool,
    /// In the readers' hostgroup.
    pub reads: bool,
    /// Its weight among writers.
    pub weight: u32,
    /// Whether it names it at all, as a server or as a seed; the others were discovered.
    pub is_named: bool,
}

/// What comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// There is such a member.
    Member {
        /// Its number.
        host: HostId,
        /// How the configuration lists it.
        listed: Listed,
        /// Where it is.
        endpoint: Endpoint,
    },
    /// A member is none any more.
    Gone(HostId),
    /// What came of an [`Output::Ask`].
    Answer {
        /// Who was asked.
        host: HostId,
        /// When, ms.
        asked_ms: u64,
        /// What it said, or why it said nothing.
        answer: Result<Facts, Miss>,
    },
    /// What workers have seen of a server.
    Traffic {
        /// The server.
        host: HostId,
        /// What it did.
        evidence: Evidence,
    },
    /// An operator says that a fenced server is well.
    Unfence(HostId),
    /// A server was lost as the writer and replaced, for all that an earlier process knew: if it
    /// takes writes, it is fenced.
    Fence(HostId),
    /// It was lost as the writer, and another one was promoted in its place.
    Replaced(HostId),
    /// A switchover says who writes.
    Switchover(Guidance),
    /// An operator works on a member, or does not any more.
    Away(HostId, bool),
    /// An operator should know of a step of a switchover.
    Tell(Event),
}

/// Why a server has told nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Miss {
    /// Nobody listens there, or the connection was cut.
    Refused(String),
    /// No answer came in time.
    TimedOut,
    /// It answered, and did not tell: a wrong password, a missing privilege, too many connections.
    Denied(String),
}

/// What workers see of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// It answered a statement.
    Answered,
    /// It refused a connection, or cut one.
    Refused,
    /// It refused a write since it is read-only.
    ReadOnly,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Ask this server now, and say what came of it in any case.
    Ask(HostId),
    /// This server writes from now on, and nobody else.
    SetWriter(Option<HostId>),
    /// The writer finishes what is open on it, and nothing begins there or elsewhere.
    Drain,
    /// This server takes reads, or does not.
    SetReader(HostId, bool),
    /// What this server does, where several may write.
    SetPlaces(HostId, Places),
    /// A member knows of a server there that is no member.
    Discovered(Endpoint),
    /// An operator should know.
    Tell(Event),
}

/// What a server is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It was not seen yet.
    Unknown,
    /// It writes.
    Writer,
    /// It would write if a writer failed.
    BackupWriter,
    /// It takes reads.
    Reader,
    /// It is there and has no role.
    Standby,
    /// It takes writes, and must not get any.
    Fenced,
}

impl Standing {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Writer => "writer",
            Self::BackupWriter => "backup_writer",
            Self::Reader => "reader",
            Self::Standby => "standby",
            Self::Fenced => "fenced",
        }
    }
}

/// What is known of one cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    policy: Policy,
    hosts: BTreeMap<HostId, Host>,
    writer: Option<HostId>,
    /// Who wrote last, where nobody does.
    last_writer: Option<HostId>,
    /// Whether there has been a writer since the beginning.
    has_had_writer: bool,
    /// Endpoints that were told of and are no members.
    discovered: BTreeSet<Endpoint>,
    /// The servers between which nobody was chosen, as they were last told.
    conflict: Vec<HostId>,
    /// A switchover is under way: it says who writes.
    is_guided: bool,
    #[cfg(feature = "plants")]
    pub(crate) plant: Option<crate::plants::Plant>,
}

impl Cluster {
    /// A cluster whose writer is known from before, or not.
    pub fn new(policy: Policy, writer: Option<HostId>) -> Self {
        Self {
            policy,
            hosts: BTreeMap::new(),
            writer,
            last_writer: None,
            has_had_writer: writer.is_some(),
            discovered: BTreeSet::new(),
            conflict: Vec::new(),
            is_guided: false,
            #[cfg(feature = "plants")]
            plant: None,
        }
    }

    /// Takes over another policy.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Its members.
    pub fn members(&self) -> impl Iterator<Item = HostId> {
        self.hosts.keys().copied()
    }

    /// Who writes.
    pub fn writer(&self) -> Option<HostId> {
        self.writer
    }

    /// What a member is.
    pub fn standing(&self, id: HostId) -> Standing {
        let Some(host) = self.hosts.get(&id) else { return Standing::Unknown };
        match host {
            host if self.writes(id, host) => Standing::Writer,
            host if host.marks.is_backup => Standing::BackupWriter,
            host if host.marks.is_fenced => Standing::Fenced,
            host if host.marks.is_reader => Standing::Reader,
            host if host.facts.is_none() => Standing::Unknown,
            _ => Standing::Standby,
        }
    }

    /// Whether a member writes.
    fn writes(&self, id: HostId, host: &Host) -> bool {
        self.writer == Some(id) || host.marks.is_writer
    }

    /// What a member does. That it is the only writer is not said here.
    pub fn places(&self, id: HostId) -> Places {
        self.hosts.get(&id).map(|host| host.marks.places()).unwrap_or_default()
    }

    /// Whether a member can be reached.
    pub fn reach(&self, id: HostId) -> Reach {
        self.hosts.get(&id).map_or(Reach::Unknown, |host| host.reach)
    }

    /// Whether statements that a member answers would say something of it: a question has failed,
    /// or takes long.
    pub fn wants_answers(&self, id: HostId, now_ms: u64) -> bool {
        self.hosts.get(&id).is_some_and(|host| host.wants_answers(now_ms))
    }

    /// What a member has said last.
    pub fn facts(&self, id: HostId) -> Option<&Facts> {
        self.hosts.get(&id)?.facts.as_ref()
    }

    /// Why a member can't be asked, if it can't.
    pub fn trouble(&self, id: HostId) -> Option<&str> {
        self.hosts.get(&id)?.trouble.as_deref()
    }

    /// The member that `id` replicates from.
    pub fn source_of(&self, id: HostId) -> Option<HostId> {
        let facts = self.facts(id)?;
        facts.sources.iter().find_map(|source| self.member(source))
    }

    /// When [`tick`](Self::tick) has something to do, ms.
    pub fn next_ms(&self) -> Option<u64> {
        let waiting = self.hosts.values().filter(|host| host.pending_ms.is_none());
        waiting.map(|host| host.due_ms).min()
    }

    /// Says whom to ask now.
    pub fn tick(&mut self, now_ms: u64, out: &mut Vec<Output>) {
        let interval_ms = self.interval_ms();
        for (id, host) in &mut self.hosts {
            if host.pending_ms.is_none() && host.due_ms <= now_ms {
                host.pending_ms = Some(now_ms);
                host.due_ms = now_ms + interval_ms.max(host.patience_ms());
                out.push(Output::Ask(*id));
            }
        }
    }

    /// Takes what has come in at `now_ms`.
    pub fn on(&mut self, now_ms: u64, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Member { host, listed, endpoint } => {
                self.add(now_ms, host, listed, endpoint, out);
                self.relate();
            }
            Input::Gone(host) => {
                self.remove(host, out);
                self.find_aliases(out);
            }
            Input::Answer { host, asked_ms, answer } => {
                self.answered(now_ms, host, asked_ms, answer, out);
            }
            Input::Traffic { host, evidence } => self.traffic(now_ms, host, evidence, out),
            Input::Unfence(host) => {
                if let Some(host) = self.hosts.get_mut(&host) {
                    host.marks.is_fenced = false;
                    host.marks.is_replaced = false;
                    host.marks.has_written = false;
                }
            }
            Input::Fence(host) => {
                if let Some(host) = self.hosts.get_mut(&host) {
                    host.marks.is_fenced = host.is_writable() != Some(false);
                    host.marks.is_replaced = host.marks.is_fenced || !host.has_source();
                }
            }
            Input::Replaced(host) => {
                if let Some(host) = self.hosts.get_mut(&host) {
                    host.marks.is_replaced = true;
                }
            }
            Input::Switchover(guidance) => self.guide(now_ms, guidance, out),
            Input::Away(host, is_away) => self.set_away(host, is_away),
            Input::Tell(event) => out.push(Output::Tell(event)),
        }
        self.decide(out);
        if self.is_urgent() {
            let urgent_ms = self.policy.urgent_ms;
            for host in self.hosts.values_mut() {
                let soon_ms = now_ms + urgent_ms.max(host.patience_ms());
                host.due_ms = host.due_ms.min(soon_ms);
            }
        }
    }

    fn add(
        &mut self,
        now_ms: u64,
        id: HostId,
        listed: Listed,
        endpoint: Endpoint,
        out: &mut Vec<Output>,
    ) {
        self.discovered.remove(&endpoint);
        let is_new = !self.hosts.contains_key(&id);
        let host = Host::new(now_ms, endpoint.clone());
        let host = self.hosts.entry(id).or_insert(host);
        host.listed = listed;
        host.endpoint = endpoint;
        if is_new && self.policy.begins_as_listed && self.policy.kind != Kind::Replication {
            host.marks.is_writer = listed.writes;
            host.marks.is_reader = listed.reads;
            out.push(Output::SetPlaces(id, host.marks.places()));
        }
    }

    fn remove(&mut self, id: HostId, out: &mut Vec<Output>) {
        self.hosts.remove(&id);
        if self.writer == Some(id) {
            self.set_writer(None, "it is no member of the cluster any more".to_owned(), out);
        }
    }

    fn answered(
        &mut self,
        now_ms: u64,
        id: HostId,
        asked_ms: u64,
        answer: Result<Facts, Miss>,
        out: &mut Vec<Output>,
    ) {
        let is_writer = self.standing(id) == Standing::Writer;
        #[cfg(feature = "plants")]
        let takes_time_outs_for_roles = self.has_plant(crate::plants::Plant::ProbeTimeoutIsRole);
        let Some(host) = self.hosts.get_mut(&id) else { return };
        // Of two answers that cross the one that was asked for last counts.
        let is_late = host.asked_ms > asked_ms;
        if host.pending_ms.is_some_and(|pending_ms| pending_ms <= asked_ms) {
            host.pending_ms = None;
        }
        if is_late {
            return;
        }
        host.asked_ms = asked_ms;
        #[cfg(feature = "plants")]
        if takes_time_outs_for_roles && answer == Err(Miss::TimedOut) {
            host.facts.iter_mut().for_each(|facts| facts.is_writable = false);
        }
        let before = host.facts.as_ref().map(|facts| facts.identity.clone());
        let change = match answer {
            Ok(facts) => host.told(facts),
            Err(miss) => host.missed(now_ms, miss),
        };
        let is_known_anew = host.facts.as_ref().map(|facts| &facts.identity) != before.as_ref();
        for change in change {
            out.push(Output::Tell(change.event(id, is_writer)));
        }
        if is_known_anew {
            self.find_aliases(out);
        }
        self.relate();
        self.discover(id, out);
    }

    fn traffic(&mut self, now_ms: u64, id: HostId, evidence: Evidence, out: &mut Vec<Output>) {
        let is_writer = self.standing(id) == Standing::Writer;
        let Some(host) = self.hosts.get_mut(&id) else { return };
        let change = host.seen_by_traffic(now_ms, evidence);
        if let Some(change) = change {
            out.push(Output::Tell(change.event(id, is_writer)));
        }
        if evidence == Evidence::ReadOnly {
            // Somebody else may have become the writer.
            self.hosts.values_mut().for_each(|host| host.due_ms = now_ms);
        }
    }

    /// Tells of servers that a member replicates from or to, and that are none.
    fn discover(&mut self, id: HostId, out: &mut Vec<Output>) {
        // What one knows of others counts that is certainly a member itself.
        let is_trusted = self.hosts.get(&id).is_some_and(Host::is_related);
        let Some(facts) = self.facts(id).filter(|_| self.discovers() && is_trusted) else { return };
        // What a server that writes replicates from belongs to another cluster.
        let sources = facts.sources.iter().filter(|_| !facts.is_writable);
        let above = sources.filter(|it| self.member(it).is_none()).map(|it| &it.endpoint);
        let known = |endpoint: &Endpoint| self.hosts.values().any(|it| it.endpoint == *endpoint);
        let told = above.chain(&facts.replicas);
        let is_new = |endpoint: &&Endpoint| {
            !endpoint.host.is_empty() && !known(endpoint) && !self.discovered.contains(endpoint)
        };
        let new: BTreeSet<Endpoint> = told.filter(is_new).cloned().collect();
        out.extend(new.iter().cloned().map(Output::Discovered));
        self.discovered.extend(new);
    }

    /// Whether more servers are looked for.
    pub fn discovers(&self) -> bool {
        self.policy.discovers
    }

    fn interval_ms(&self) -> u64 {
        match self.is_urgent() {
            true => self.policy.urgent_ms.min(self.policy.interval_ms),
            false => self.policy.interval_ms,
        }
    }

    /// Whether there is no writer that is certain.
    fn is_urgent(&self) -> bool {
        let mut writers = self.hosts.iter().filter(|(id, host)| self.writes(**id, host));
        let is_well = |host: &Host| host.reach == Reach::Up && host.is_writable() == Some(true);
        // One that nobody can ask is not asked more often for that.
        let is_hopeless = |host: &Host| host.facts.is_none() && host.trouble.is_some();
        let is_certain = writers.any(|(_, host)| is_well(host) || is_hopeless(host));
        let is_contended = || self.contenders().any(|id| Some(id) != self.writer);
        !is_certain || self.policy.kind == Kind::Replication && is_contended()
    }

    fn tell(out: &mut Vec<Output>, kind: EventKind, host: Option<HostId>, evidence: String) {
        out.push(Output::Tell(Event { kind, host, evidence }));
    }
}
