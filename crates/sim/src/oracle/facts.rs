//! What servers, driver and operators did, as the checks need it. The run collects it.

use std::collections::BTreeMap;

use crate::{
    HostId, LinkId, Micros,
    statement::{Mark, Schema, Tag},
};

/// Everything but the clients' histories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// What servers ran, in the order in which they began it.
    pub executions: Vec<Execution>,
    /// What was prepared by command: when, what, and on which connection.
    pub prepares: Vec<(Micros, Tag, LinkId)>,
    /// Connections between the proxy and servers.
    pub links: Vec<LinkFact>,
    /// What went wrong, or was made to.
    pub causes: Vec<Cause>,
    /// Configurations, in the order published.
    pub settings: Vec<Setting>,
    /// When server entries took no new statements, by the word of an operator or the monitor.
    pub closed: Vec<Closed>,
    /// When server entries lagged by more than they may, by what the monitor saw of the servers.
    pub lagging: Vec<Closed>,
    /// Which host was the primary from when on, in order.
    pub primaries: Vec<(Micros, HostId)>,
    /// What is in `log` on the primary at the end: the tags of inserts, one for each row.
    pub log: Vec<u64>,
    /// Lines of the query log and the audit log, with when they were written.
    pub logged: Vec<(Micros, String)>,
    /// When operators had stored answers forgotten.
    pub flushes: Vec<Micros>,
    /// Whether memory is so scarce that clients wait for it, and are refused it.
    pub lacks_memory: bool,
    /// The longest that a statement and its reply take on servers and on the way, faults included.
    pub statement_max_us: Micros,
    /// When the run ended.
    pub ended_us: Micros,
}

/// A time in which a server entry took no new statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The entry's hostgroup.
    pub hostgroup: u32,
    /// The entry's host.
    pub host: HostId,
    /// From here on.
    pub from_us: Micros,
    /// Up to here; the end of time while it lasts.
    pub until_us: Micros,
}

/// One statement that a server ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// When it began.
    pub at_us: Micros,
    /// Where.
    pub host: HostId,
    /// On which connection.
    pub link: LinkId,
    /// Whose statement; `None` for the proxy's own.
    pub tag: Option<Tag>,
    /// The schema of its tables without one.
    pub schema: Option<Schema>,
    /// The error that it ended with.
    pub error: Option<u16>,
    /// What became of its changes.
    pub effect: Effect,
    /// The commit that they were part of.
    pub gtid: Option<Gtid>,
    /// They were committed, and at some time the primary had forgotten them.
    pub was_lost: bool,
}

/// The name of a commit: who made it, and its number in that server's log. A server that has
/// lost commits gives their numbers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gtid {
    /// The host that committed first.
    pub host: HostId,
    /// Under what name it is numbered, if not the host's own.
    pub mark: Option<Mark>,
    /// From 1, one for each commit: on MySQL of each host and mark, on MariaDB of all of them.
    pub number: u64,
}

/// What a MySQL server's UUID begins with; its host's number follows.
const UUID_HEAD: &str = "00000000-0000-0000-0000-";

impl Gtid {
    /// As MySQL writes it.
    pub fn of_mysql(self) -> String {
        let tag = self.mark.map(|mark| format!("{mark}:")).unwrap_or_default();
        format!("{UUID_HEAD}{:012}:{tag}{}", self.host.0, self.number)
    }

    /// As MariaDB writes it.
    pub fn of_mariadb(self) -> String {
        let server = self.mark.map_or((self.host.0 + 1).to_string(), |mark| mark.to_string());
        format!("0-{server}-{}", self.number)
    }

    /// Reads what [`of_mysql`](Self::of_mysql) wrote.
    pub fn read(text: &str) -> Option<Self> {
        let (host, name) = text.strip_prefix(UUID_HEAD)?.split_once(':')?;
        let (tag, number) = match name.split_once(':') {
            Some((tag, number)) => (Some(tag), number),
            None => (None, name),
        };
        let mark = match tag {
            Some(tag) => Some(Mark::of_tag(tag)?),
            None => None,
        };
        Some(Self { host: HostId(host.parse().ok()?), mark, number: number.parse().ok()? })
    }
}

/// What became of a statement's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It made none.
    None,
    /// They are part of a transaction that is open still.
    Open,
    /// They are committed.
    Committed,
    /// They were rolled back.
    RolledBack,
    /// They were committed, and lost with a crash or a promotion.
    Lost,
}

/// One connection between the proxy and a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFact {
    /// Its number.
    pub link: LinkId,
    /// To which host.
    pub host: HostId,
    /// Of which hostgroup's entry.
    pub hostgroup: u32,
    /// Its server has sent what is none of the protocol's.
    pub got_nonsense: bool,
    /// When it ended, and by whom.
    pub closed: Option<(Micros, ClosedBy)>,
}

/// Who ended a connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedBy {
    /// The proxy.
    Proxy,
    /// The server: a crash, a kill, a timeout.
    Server,
    /// The network.
    Network,
    /// The proxy, after bytes that are not the protocol's.
    Garbage,
}

/// A reason for errors, true from one time to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Since when.
    pub from_us: Micros,
    /// Until when it can show; what follows from it later (a shun, a reconnect) included.
    pub until_us: Micros,
    /// What.
    pub kind: CauseKind,
    /// Where; `None` for everywhere.
    pub host: Option<HostId>,
}

/// What makes errors true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseKind {
    /// A server that is down, refuses, hangs, or is cut off: connections do not come up.
    Unreachable,
    /// Connections of a server end.
    Lost,
    /// A server sends what is none of the protocol's, now or when the connection is used next.
    Garbage,
    /// A server or its network is so slow that deadlines pass.
    Slow,
    /// The operator took a server offline, or out of the configuration.
    Offline,
    /// The operator paused a hostgroup.
    Paused,
    /// Every place of a server is taken, so that others wait.
    Full,
    /// The queue of a hostgroup is as long as it may be.
    QueueFull,
    /// The proxy has as many clients as it may.
    ClientsFull,
    /// A user has as many sessions as it may.
    UserFull,
    /// A schema was dropped.
    SchemaGone,
    /// A server refuses an account.
    AccountRefused,
    /// A planned error of a server for a statement that is not the client's own.
    ServerError(u16),
    /// The proxy is told to stop.
    Stopping,
}

/// A configuration as the operator published it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// When the first worker could take it.
    pub from_us: Micros,
    /// When the last worker had taken the next one; the end of time for the last.
    pub until_us: Micros,
    /// Hosts of each hostgroup.
    pub hostgroups: BTreeMap<u32, Vec<HostId>>,
    /// Pairs of writer and reader hostgroups.
    pub splits: Vec<Split>,
    /// Users by name.
    pub users: BTreeMap<String, UserFact>,
    /// Rules in their order.
    pub rules: Vec<RuleFact>,
    /// How often a read may be tried again.
    pub retries_max: u32,
    /// Whether transactions are repeated that are lost with their connections.
    pub repeats: bool,
    /// The longest that it may take to find out what became of a lost `COMMIT`; 0 where nobody
    /// does.
    pub outcome_max_us: Micros,
    /// The longest that a statement may take; 0 for no limit.
    pub query_timeout_us: Micros,
    /// The longest that a statement may wait for a connection.
    pub queue_wait_max_us: Micros,
    /// A client that rests for longer is closed; 0 for never.
    pub wait_timeout_us: Micros,
    /// The longest that a login may take.
    pub login_max_us: Micros,
    /// Texts that contain this may be refused (1226), as one of them came too often.
    pub limited: Option<&'static str>,
    /// How long a statement may be held back by a limit on rates, µs.
    pub limit_wait_us: Micros,
    /// How old a stored answer may be; 0 where none is stored.
    pub cache_ttl_us: Micros,
    /// Hostgroups that get copies of statements, and nothing else.
    pub mirrors: Vec<u32>,
}

/// A pair of hostgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Where writes go.
    pub writer: u32,
    /// Where reads may go.
    pub reader: u32,
    /// Whether the split is automatic.
    pub is_auto: bool,
}

/// A user of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFact {
    /// What it logs in with.
    pub password: String,
    /// Where its statements go.
    pub hostgroup: u32,
    /// Whether a transaction stays where it began whatever rules say.
    pub is_transaction_persistent: bool,
    /// Its bytes go straight to one server connection.
    pub is_forwarded: bool,
}

/// A rule of the configuration. Conditions that are `None` hold always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleFact {
    /// Only for this user.
    pub user: Option<String>,
    /// Only for texts that contain this.
    pub contains: Option<String>,
    /// Where to.
    pub hostgroup: Option<u32>,
    /// Answered by the proxy: with OK or an error.
    pub is_answered: bool,
    /// Whether rules behind it are not looked at.
    pub applies: bool,
}

impl Facts {
    /// Configurations that some worker had at some time between these two.
    pub fn settings_between(
        &self,
        from_us: Micros,
        until_us: Micros,
    ) -> impl Iterator<Item = &Setting> {
        self.settings
            .iter()
            .filter(move |setting| setting.from_us <= until_us && setting.until_us >= from_us)
    }

    /// Whether something of this kind was true at some time between these two.
    pub fn has_cause(&self, kind: CauseKind, from_us: Micros, until_us: Micros) -> bool {
        let is_then = |cause: &Cause| cause.from_us <= until_us && cause.until_us >= from_us;
        self.causes.iter().any(|cause| cause.kind == kind && is_then(cause))
    }

    /// Whether a server entry took new statements at some time between these two.
    pub fn was_open(
        &self,
        hostgroup: u32,
        host: HostId,
        from_us: Micros,
        until_us: Micros,
    ) -> bool {
        let of_entry = |closed: &&Closed| (closed.hostgroup, closed.host) == (hostgroup, host);
        let mut at_us = from_us;
        let mut times: Vec<_> = self.closed.iter().chain(&self.lagging).filter(of_entry).collect();
        times.sort_by_key(|closed| closed.from_us);
        for closed in times {
            if closed.from_us <= at_us && at_us < closed.until_us {
                at_us = closed.until_us;
            }
        }
        at_us <= until_us
    }

    /// The primary at this time.
    pub fn primary_at(&self, at_us: Micros) -> Option<HostId> {
        let before = self.primaries.iter().take_while(|(from_us, _)| *from_us <= at_us);
        before.last().map(|(_, host)| *host)
    }
}

impl Setting {
    /// Where rules send a statement: a hostgroup, or `None` where they do not say.
    pub fn ruled(&self, user: &str, text: &str) -> Ruled {
        let mut ruled = Ruled { hostgroup: None, is_answered: false };
        for rule in &self.rules {
            let is_users = rule.user.as_deref().is_none_or(|name| name == user);
            let is_texts = rule.contains.as_deref().is_none_or(|part| text.contains(part));
            if !is_users || !is_texts {
                continue;
            }
            ruled.hostgroup = rule.hostgroup.or(ruled.hostgroup);
            ruled.is_answered |= rule.is_answered;
            if rule.applies {
                break;
            }
        }
        ruled
    }

    /// Whether `host` has the tables of the user's statements, by what the proxy is told: it is in
    /// the user's hostgroup, or in the other one of a pair with that.
    pub fn is_kin(&self, user: &UserFact, host: HostId) -> bool {
        let is_in = |hostgroup| self.has_host(hostgroup, host);
        let pairs = self.splits.iter().filter(|split| split.writer == user.hostgroup);
        is_in(user.hostgroup) || pairs.map(|split| split.reader).any(is_in)
    }

    /// Whether `host` is in `hostgroup`.
    pub fn has_host(&self, hostgroup: u32, host: HostId) -> bool {
        self.hostgroups.get(&hostgroup).is_some_and(|hosts| hosts.contains(&host))
    }
}

/// What rules say of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruled {
    /// Where to.
    pub hostgroup: Option<u32>,
    /// The proxy answers it.
    pub is_answered: bool,
}
