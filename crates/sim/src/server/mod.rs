//! Model servers: hosts with a store each, replication between them, and connections that speak
//! the real protocol.
//!
//! Pure: bytes and times go in, bytes come out. What a statement means is in
//! [`session`](crate::session); here is when it runs, on which rows, and what it waits for.
//!
//! | file | is about |
//! |---|---|
//! | `spec` | what a cluster is made of, and what can go wrong |
//! | `host` | one server: its store, its log of commits, its connections |
//! | `dictionary` | what it says of names |
//! | `conn` | one connection: from the greeting to its end |
//! | `login` | the server's side of authentication |
//! | `command` | what each command does |
//! | `work` | when a command's statements run, and what they wait for |
//! | `upload` | files of clients that a statement asks for |
//! | `reply` | packets of replies |
//! | `store` | rows, and the view that one transaction has of them |
//! | `lock` | who has what locked, and who waits |
//! | `inquiry` | what they say to whoever looks for a lost `COMMIT` |
//! | `fault` | crashes, restarts, promotions and the rest |
//! | `replicate` | commits travel from the primary to the others |

mod command;
mod conn;
mod dictionary;
mod fault;
mod host;
mod inquiry;
mod lock;
mod login;
mod replicate;
mod reply;
mod spec;
mod store;
mod upload;
mod work;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    HostId, LinkId, Micros,
    oracle::facts::{Effect, Execution, Gtid},
    rng::Rng,
    statement::{Schema, Tag},
};

pub use dictionary::Dictionary;
pub use login::{greeting, offered};
pub use spec::{Accept, AccountSpec, ClusterSpec, HostSpec, Look, ServerFault, ServerOutput};
pub use store::Store;

use host::{Host, Step};

/// What becomes due at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// A connection goes on.
    Conn(LinkId),
    /// A replica applies commits.
    Replica(HostId),
}

/// All servers.
#[derive(Debug)]
pub struct Cluster {
    hosts: Vec<Host>,
    /// Which host a link ends at.
    links: BTreeMap<LinkId, HostId>,
    primary: HostId,
    accounts: BTreeMap<String, AccountSpec>,
    record: Record,
    rng: Rng,
}

/// What happened and what is to happen, on all hosts.
#[derive(Debug, Default)]
struct Record {
    wakes: BTreeSet<(Micros, Wake)>,
    outputs: Vec<ServerOutput>,
    executions: Vec<Execution>,
    /// What was prepared by command, and where.
    prepares: Vec<(Micros, Tag, LinkId)>,
    /// Executions that each commit holds, by the commit's number.
    commits: Vec<Vec<usize>>,
    /// Texts that no model server understands; a test wants none.
    unknown: Vec<String>,
}

impl Record {
    fn wake(&mut self, at: Micros, link: LinkId) {
        self.wakes.insert((at, Wake::Conn(link)));
    }

    /// A statement begins to run.
    fn begin(
        &mut self,
        at_us: Micros,
        host: HostId,
        link: LinkId,
        tag: Option<Tag>,
        schema: Option<Schema>,
    ) {
        let effect = Effect::None;
        self.executions.push(Execution {
            at_us,
            host,
            link,
            tag,
            schema,
            error: None,
            effect,
            gtid: None,
            was_lost: false,
        });
    }

    /// The statement that began last has failed.
    fn failed(&mut self, code: u16) {
        if let Some(execution) = self.executions.last_mut() {
            execution.error = Some(code);
        }
    }

    fn name(&mut self, executions: &[usize], gtid: Gtid) {
        for place in executions {
            if let Some(execution) = self.executions.get_mut(*place) {
                execution.gtid = Some(gtid);
            }
        }
    }

    fn mark(&mut self, executions: &[usize], effect: Effect) {
        for place in executions {
            if let Some(execution) = self.executions.get_mut(*place) {
                execution.effect = effect;
                execution.was_lost |= effect == Effect::Lost;
            }
        }
    }
}

impl Cluster {
    /// Servers that are all up and empty. `rng` is the cluster's own.
    pub fn new(spec: &ClusterSpec, rng: Rng) -> Self {
        let hosts = spec.hosts.iter().enumerate().map(|(place, host)| {
            let is_read_only = HostId(place) != spec.primary;
            Host::new(HostId(place), host.clone(), is_read_only, &rng)
        });
        let accounts = spec.accounts.iter().map(|account| (account.user.clone(), account.clone()));
        Self {
            hosts: hosts.collect(),
            links: BTreeMap::new(),
            primary: spec.primary,
            accounts: accounts.collect(),
            record: Record::default(),
            rng: rng.split("cluster", 0),
        }
    }

    /// The proxy connects.
    pub fn connect(&mut self, host: HostId, link: LinkId) -> Accept {
        let Some(server) = self.hosts.get_mut(host.0) else {
            return Accept::Refused;
        };
        if server.hangs {
            return Accept::Hangs;
        }
        if !server.is_up {
            return Accept::Refused;
        }
        let mut nonce = [0; 20];
        self.rng.fill(&mut nonce);
        // Servers send no NUL and nothing above ASCII.
        let nonce = nonce.map(|byte| byte % 94 + 33);
        let greeted = server.greet(link, nonce);
        self.record.outputs.push(ServerOutput::Send { link, bytes: greeted.bytes });
        if greeted.is_accepted {
            self.links.insert(link, host);
        } else {
            self.record.outputs.push(ServerOutput::Close { link, reset: false });
        }
        Accept::Accepted
    }

    /// Bytes of the proxy arrive.
    pub fn received(&mut self, link: LinkId, bytes: &[u8], now: Micros) {
        let Some(host) = self.links.get(&link).and_then(|id| self.hosts.get_mut(id.0)) else {
            return;
        };
        let none: &[u8] = &[];
        match host.conns.get_mut(&link).map_or(Ok(none), |conn| conn.take_in(bytes)) {
            Ok([]) => {}
            Ok(answer) => {
                let bytes = answer.to_vec();
                self.record.outputs.push(ServerOutput::Send { link, bytes });
            }
            Err(nonsense) => {
                self.record.unknown.push(nonsense.to_string());
                host.close(link, now, false, &mut self.record);
            }
        }
        self.go_on(link, now);
    }

    /// The proxy's end is gone; what it sent before is here. Servers finish what they have begun
    /// and run what was sent, and see the end then.
    pub fn closed(&mut self, link: LinkId, now: Micros) {
        let Some(conn) = self.conn_mut(link) else {
            return;
        };
        conn.is_deserted = true;
        self.go_on(link, now);
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Micros) {
        while let Some((due, wake)) = self.record.wakes.first().copied() {
            if due > now {
                return;
            }
            self.record.wakes.remove(&(due, wake));
            match wake {
                Wake::Conn(link) => self.go_on(link, now),
                Wake::Replica(host) => self.replicate(host, now),
            }
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Micros> {
        self.record.wakes.first().map(|(due, _)| *due)
    }

    /// What servers send and close, in order.
    pub fn take_outputs(&mut self) -> Vec<ServerOutput> {
        std::mem::take(&mut self.record.outputs)
    }

    /// All statements that ran, in order, with what became of their changes so far.
    pub fn history(&self) -> &[Execution] {
        &self.record.executions
    }

    /// What was prepared by command: when, what, and where.
    pub fn prepares(&self) -> &[(Micros, Tag, LinkId)] {
        &self.record.prepares
    }

    /// The host that takes writes.
    pub fn primary(&self) -> HostId {
        self.primary
    }

    /// What the primary has committed, whether it is up or not.
    pub fn store(&self) -> Option<&Store> {
        self.hosts.get(self.primary.0).map(|host| &host.store)
    }

    /// Whether a host takes connections.
    pub fn is_up(&self, host: HostId) -> bool {
        self.hosts.get(host.0).is_some_and(|host| host.is_up && !host.hangs)
    }

    /// How many connections a host has, those that log in included.
    pub fn connections(&self, host: HostId) -> usize {
        self.hosts.get(host.0).map_or(0, |host| host.conns.len())
    }

    /// Statements that wait for a lock, on all hosts.
    pub fn waiting(&self) -> usize {
        self.hosts.iter().map(|host| host.waiting.len()).sum()
    }

    /// Texts that were not understood. Anything here is a fault of the model, or of the proxy.
    pub fn unknown_texts(&self) -> &[String] {
        &self.record.unknown
    }

    /// Takes a connection as far as it gets at this time.
    fn go_on(&mut self, link: LinkId, now: Micros) {
        let Some(id) = self.links.get(&link).copied() else {
            return;
        };
        let Some(host) = self.hosts.get_mut(id.0) else {
            return;
        };
        let committed = host.log.len();
        while host.step(link, now, &self.accounts, &mut self.record) == Step::Again {}
        if !host.conns.contains_key(&link) {
            self.links.remove(&link);
        }
        let victims = std::mem::take(&mut host.killed);
        if host.log.len() > committed {
            self.announce(now);
        }
        for (victim, query_only) in victims {
            self.kill(victim, query_only, now);
        }
    }

    fn host_of(&mut self, link: LinkId) -> Option<&mut Host> {
        let host = self.links.get(&link)?;
        self.hosts.get_mut(host.0)
    }

    fn conn_mut(&mut self, link: LinkId) -> Option<&mut conn::Conn> {
        self.host_of(link)?.conns.get_mut(&link)
    }
}
