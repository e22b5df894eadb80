//! One cluster: its decision, its conversations with servers, and its cell; [`switching`] has its
//! switchovers, [`failing`] its failovers, [`mending`] those that were cut short, [`rejoining`]
//! servers that replicate again.

pub(super) mod failing;
mod mending;
pub(super) mod rejoining;
pub(super) mod switching;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex, mpsc},
    time::timeout,
};
use trunkline_cluster::{
    Cluster, Evidence, Group, HostId, Input, Kind, Listed, Miss, Output, Places, Policy, Reach,
    WriterReads,
    facts::{Endpoint, Facts},
};
use trunkline_config::{
    ClusterEntry, Settings, Snapshot,
    cluster::{ClusterKind, WriterReads as ConfiguredReads},
    snapshot::{Cluster as Configured, Member},
};
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_stats::{
    checks::{CheckKind, CheckRow},
    topology::{ClusterRow, MemberRow},
};
use trunkline_topology::{Address, Role, Seen, Server, WriterCell};

use super::{
    ClusterNews,
    board::Board,
    log,
    questions::{self, Topic},
};
use failing::Failing;
use mending::Mending;
use rejoining::Rejoining;
use switching::Switching;

use crate::{
    Account, LearnError,
    changes::Behind,
    conversation::{self, Conversation, Way},
    pings::Timing,
};

/// How often servers are asked while the writer is in doubt, ms.
const URGENT_MS: u64 = 100;

/// The number of the next failover or switchover of the process. Tasks of a cluster that was
/// removed and listed again may still answer: their numbers are none of the new one's.
fn next_run() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).saturating_add(1)
}

/// What came of a question.
pub(super) struct Answered {
    pub(super) cluster: String,
    pub(super) host: HostId,
    pub(super) asked_ms: u64,
    pub(super) answer: Result<Facts, Miss>,
}

/// The entries of a member.
struct Entries {
    writer: Arc<Server>,
    reader: Arc<Server>,
    backup: Option<Arc<Server>>,
}

impl Entries {
    fn of(snapshot: &Snapshot, configured: &Configured, member: &Member) -> Option<Self> {
        let entry = &configured.entry;
        let server = |id| snapshot.server(&configured.key(member, id)).cloned();
        Some(Self {
            writer: server(entry.writer_hostgroup)?,
            reader: server(entry.reader_hostgroup)?,
            backup: entry.backup_writer_hostgroup.and_then(server),
        })
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        [&self.writer, &self.reader].into_iter().chain(&self.backup)
    }

    /// Sets what the member does. Whether it is the only writer is not among it.
    fn set(&self, places: Places, reach: Reach) {
        let (writing, other) = match (places.is_out, reach) {
            (false, _) => (End::Leave, End::Retire),
            (true, Reach::Up) => (End::Depose, End::Depose),
            (true, Reach::Unknown | Reach::Suspect | Reach::Down) => (End::Sever, End::Retire),
        };
        let give = |server, is_given, end| give(server, is_given, (end, places.is_out));
        give(&self.writer, places.writes, writing);
        give(&self.reader, places.reads, other);
        self.backup.iter().for_each(|backup| give(backup, places.backs_up, other));
    }
}

/// A conversation that stands between two questions.
type Standing = Arc<Mutex<Option<(Conversation, Flavor)>>>;

/// One cluster that is followed.
pub(super) struct Following {
    configured: Arc<Configured>,
    cluster: Cluster,
    cell: Arc<WriterCell>,
    servers: HashMap<HostId, Entries>,
    conversations: HashMap<HostId, Standing>,
    account: Option<Account>,
    /// Whether servers are asked at all.
    is_enabled: bool,
    timeout: Duration,
    out: Vec<Output>,
    /// What is still to be told to whoever publishes snapshots.
    untold: Vec<ClusterNews>,
    /// Whether something has come in since it was shown.
    has_news: bool,
    /// Members that have answered since it was shown, with the transactions that they had.
    answered: Vec<(HostId, String)>,
    /// How far members were behind the cluster's stream when they last answered.
    behind: HashMap<HostId, Behind>,
    switching: Switching,
    failing: Failing,
    mending: Mending,
    rejoining: Rejoining,
}

impl Following {
    pub(super) fn new(configured: &Arc<Configured>) -> Self {
        let policy = Policy::default();
        Self {
            configured: Arc::clone(configured),
            cluster: Cluster::new(policy, configured.cell.writer().map(HostId)),
            cell: Arc::clone(&configured.cell),
            servers: HashMap::new(),
            conversations: HashMap::new(),
            account: None,
            is_enabled: true,
            timeout: Duration::ZERO,
            out: Vec::new(),
            untold: Vec::new(),
            has_news: true,
            answered: Vec::new(),
            behind: HashMap::new(),
            switching: Switching::default(),
            failing: Failing::default(),
            mending: Mending::default(),
            rejoining: Rejoining::default(),
        }
    }

    /// Whether a server is a member.
    pub(super) fn has(&self, address: &Address) -> bool {
        self.configured.members.iter().any(|member| member.address == *address)
    }

    /// Whether it goes on with another configuration.
    pub(super) fn is_of(&self, configured: &Configured) -> bool {
        Arc::ptr_eq(&self.cell, &configured.cell)
    }

    /// Takes over a configuration.
    pub(super) fn renew(&mut self, snapshot: &Snapshot, configured: &Arc<Configured>, now_ms: u64) {
        let (settings, entry) = (&snapshot.settings, &configured.entry);
        self.configured = Arc::clone(configured);
        self.account = Account::of_monitor(snapshot, entry.begins_as_listed());
        self.is_enabled = settings.monitor_enabled;
        self.switching.renew(snapshot);
        self.failing.renew(snapshot, entry);
        let (policy, timeout_ms) = policy(settings, entry);
        self.timeout = Duration::from_millis(timeout_ms);
        self.cluster.set_policy(policy);
        let before = std::mem::take(&mut self.servers);
        for member in &configured.members {
            let Some(entries) = Entries::of(snapshot, configured, member) else { continue };
            let host = HostId(member.number);
            self.servers.insert(host, entries);
            let listed = Listed {
                writes: member.is_listed_writer,
                reads: member.is_listed_reader,
                weight: member.weight,
                is_named: member.is_named,
            };
            let endpoint = endpoint(&member.address);
            self.on(now_ms, Input::Member { host, listed, endpoint });
        }
        let members = self.cluster.members();
        let gone: Vec<HostId> = members.filter(|it| !self.servers.contains_key(it)).collect();
        for host in gone {
            self.conversations.remove(&host);
            self.on(now_ms, Input::Gone(host));
        }
        // Workers may still have the configuration that has them.
        let left = before.iter().filter(|(host, _)| !self.servers.contains_key(host));
        left.for_each(|(_, entries)| entries.set(Places::default(), Reach::Up));
        // A role that several may have is its entry's, which may be new.
        for (host, entries) in &self.servers {
            entries.set(self.cluster.places(*host), self.cluster.reach(*host));
        }
    }

    pub(super) fn on(&mut self, now_ms: u64, input: Input) {
        self.has_news = true;
        if let Input::Answer { host, answer: Ok(facts), .. } = &input {
            self.answered.push((*host, facts.gtid.clone()));
        }
        self.cluster.on(now_ms, input, &mut self.out);
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.cluster.next_ms()
    }

    /// Takes what workers have seen of its servers.
    pub(super) fn look_at_traffic(&mut self, now_ms: u64) {
        let mut seen = Vec::new();
        for (host, servers) in &self.servers {
            let wants_answers = self.cluster.wants_answers(*host, now_ms);
            for server in servers.all() {
                let of = server.health.take_seen(wants_answers);
                let evidence = [
                    (Seen::READ_ONLY, Evidence::ReadOnly),
                    (Seen::REFUSED, Evidence::Refused),
                    (Seen::ANSWERED, Evidence::Answered),
                ];
                let evidence = evidence.into_iter().filter(|(bit, _)| of.has(*bit));
                seen.extend(evidence.map(|(_, evidence)| (*host, evidence)));
            }
        }
        for (host, evidence) in seen {
            self.on(now_ms, Input::Traffic { host, evidence });
        }
    }

    /// Asks the servers that are due.
    pub(super) fn ask_due(
        &mut self,
        now_ms: u64,
        tls: &Arc<TlsSetup>,
        board: &Arc<Board>,
        answers: &mpsc::Sender<Answered>,
    ) {
        if !self.is_enabled {
            return;
        }
        let mut due = Vec::new();
        self.cluster.tick(now_ms, &mut due);
        for output in due {
            let Output::Ask(host) = output else { continue };
            let Some(Entries { writer: server, .. }) = self.servers.get(&host) else { continue };
            let entry = &self.configured.entry;
            let look = Look {
                way: Way::to(server, tls),
                server: Arc::clone(server),
                account: self.account.clone(),
                topic: Topic {
                    kind: entry.kind,
                    check_type: entry.check_type,
                    domain: entry.domain_name.clone(),
                    port: match entry.port {
                        0 => endpoint(&server.key.address).port,
                        port => port,
                    },
                    discovers: self.cluster.discovers(),
                },
                standing: Arc::clone(self.conversations.entry(host).or_default()),
            };
            let (time_max, answers) = (self.timeout, answers.clone());
            let cluster = self.configured.entry.name.clone();
            let (board, kind) = (Arc::clone(board), entry.kind);
            tokio::spawn(async move {
                let timing = Timing::begin(&look.server.key.address);
                let answer = look.within(time_max).await;
                board.checked(check_row(timing, kind, &answer));
                let answered = Answered { cluster, host, asked_ms: now_ms, answer };
                // Whoever asked may have gone.
                drop(answers.send(answered).await);
            });
        }
    }

    /// Sets roles, tells what has happened, and shows how it is now.
    pub(super) fn carry_out(&mut self, board: &Board, news: &mpsc::Sender<ClusterNews>) {
        let name = self.configured.entry.name.clone();
        let mut found = Vec::new();
        for output in std::mem::take(&mut self.out) {
            match output {
                Output::Ask(_) => {}
                Output::Drain => {
                    let writer = self.cell.writer();
                    self.cell.drain();
                    if let Some(entries) = writer.and_then(|it| self.servers.get(&HostId(it))) {
                        entries.writer.health.retire_connections();
                    }
                }
                Output::SetWriter(writer) => {
                    self.set_writer(writer);
                    self.untold.retain(|news| *news != ClusterNews::OtherWriter);
                    self.untold.push(ClusterNews::OtherWriter);
                }
                Output::SetReader(host, is_reader) => {
                    if let Some(Entries { reader, .. }) = self.servers.get(&host) {
                        give(reader, is_reader, (End::Retire, false));
                    }
                }
                Output::SetPlaces(host, places) => {
                    if let Some(entries) = self.servers.get(&host) {
                        entries.set(places, self.cluster.reach(host));
                    }
                }
                Output::Discovered(endpoint) => {
                    found.push(Address::Tcp { host: endpoint.host, port: endpoint.port });
                }
                Output::Tell(event) => {
                    let member = event.host.and_then(|host| self.configured.member(host.0));
                    let address = member.map(|member| &member.address);
                    log(&name, address, &event);
                    let server = address.map(ToString::to_string).unwrap_or_default();
                    board.add(&name, event.kind.name(), server, event.evidence);
                }
            }
        }
        if !found.is_empty() {
            let servers = found;
            self.untold.push(ClusterNews::Discovered { cluster: name, servers });
        }
        for (host, gtid) in std::mem::take(&mut self.answered) {
            match board.changes.behind(&self.configured.entry.name, &gtid) {
                Some(behind) => _ = self.behind.insert(host, behind),
                None => _ = self.behind.remove(&host),
            }
        }
        // What does not go through now is tried again at once when something comes in, or at the
        // next look at traffic.
        while let Some(first) = self.untold.first() {
            if news.try_send(first.clone()).is_err() {
                break;
            }
            self.untold.remove(0);
        }
        if std::mem::take(&mut self.has_news) {
            board.show(self.view());
        }
    }

    /// Makes a member the writer. What the one before has open is not used again; if nobody hears
    /// of it, what is under way there is lost, as what it answers later may not be so any more.
    fn set_writer(&self, writer: Option<HostId>) {
        let before = self.cell.writer().or_else(|| self.cell.draining());
        self.cell.set(writer.map(|host| host.0));
        if let Some(entries) = before.and_then(|number| self.servers.get(&HostId(number))) {
            match before.map(|number| self.cluster.reach(HostId(number))) {
                Some(Reach::Up) => entries.writer.health.depose_connections(),
                _ => entries.writer.health.sever_connections(),
            }
        }
        if let Some(entries) = writer.and_then(|host| self.servers.get(&host)) {
            // It is known to be well.
            entries.writer.health.count_success();
        }
    }

    fn view(&self) -> ClusterRow {
        let entry = &self.configured.entry;
        ClusterRow {
            name: entry.name.clone(),
            kind: entry.kind.to_string(),
            writer_hostgroup: entry.writer_hostgroup.0,
            reader_hostgroup: entry.reader_hostgroup.0,
            epoch: self.cell.epoch(),
            servers: self.configured.members.iter().map(|it| self.server_view(it)).collect(),
        }
    }

    fn server_view(&self, member: &Member) -> MemberRow {
        let host = HostId(member.number);
        let facts = self.cluster.facts(host);
        let source = self.cluster.source_of(host).and_then(|it| self.configured.member(it.0));
        let mut warnings: Vec<String> = facts.map(|it| it.advice.clone()).unwrap_or_default();
        let errors = facts.into_iter().flat_map(|facts| &facts.sources).map(|it| &it.error);
        warnings.extend(errors.filter(|error| !error.is_empty()).cloned());
        warnings.extend(self.cluster.trouble(host).map(str::to_owned));
        let membership = facts.and_then(|facts| facts.membership.as_ref());
        warnings.extend(membership.and_then(|it| it.refusal.clone()));
        if self.cluster.is_away(host) {
            warnings.push("it is in maintenance".to_owned());
        }
        let is_replica = source.is_some() && self.cluster.reach(host) == Reach::Up;
        let behind = self.behind.get(&host).filter(|_| is_replica);
        MemberRow {
            address: member.address.to_string(),
            role: self.cluster.standing(host).name().to_owned(),
            reach: self.cluster.reach(host).name().to_owned(),
            writable: facts.map(|facts| facts.is_writable),
            source: source.map(|source| source.address.to_string()),
            lag_sec: facts.and_then(Facts::lag_sec),
            missing: behind.map(|it| it.transactions),
            behind_us: behind.map(|it| it.age_us),
            version: facts.map(|facts| facts.version.clone()).unwrap_or_default(),
            gtid: facts.map(|facts| facts.gtid.clone()).unwrap_or_default(),
            warnings,
        }
    }
}

/// What becomes of a server's connections when it loses a role.
#[derive(Clone, Copy)]
enum End {
    /// Nothing begins there; what is held there goes on.
    Retire,
    /// Transactions that are open there may end. What else is held there is lost then.
    Leave,
    /// Nothing more runs there.
    Depose,
    /// Not even the answers to what runs there are told: nobody hears of the server.
    Sever,
}

/// Gives or takes a role that several may have. `is_out`: whatever it had before, and may have
/// kept, ends as well.
fn give(server: &Server, is_given: bool, (end, is_out): (End, bool)) {
    if let Some(Role::Shared { is_given: role, ends_statements }) = server.health.role() {
        let before = role.swap(is_given, std::sync::atomic::Ordering::Relaxed);
        let health = &server.health;
        match (end, ends_statements) {
            _ if is_given || !before && !is_out => {}
            (End::Retire, false) => health.retire_connections(),
            (End::Leave, false) => drop(health.leave_connections()),
            (End::Retire | End::Leave, true) | (End::Depose, _) => health.depose_connections(),
            (End::Sever, _) => health.sever_connections(),
        }
    }
}

/// What is shown of a question.
fn check_row(timing: Timing, kind: ClusterKind, answer: &Result<Facts, Miss>) -> CheckRow {
    let kind = match kind {
        ClusterKind::Replication
        | ClusterKind::ReadOnly
        | ClusterKind::RdsMultiAz
        | ClusterKind::Aurora => CheckKind::ReadOnly,
        ClusterKind::Galera => CheckKind::Galera,
        ClusterKind::GroupReplication | ClusterKind::InnodbCluster => CheckKind::GroupReplication,
    };
    let outcome = match answer {
        Ok(Facts { membership: Some(membership), .. }) => Ok(membership.told.clone()),
        Ok(facts) => Ok(vec![u8::from(!facts.is_writable).to_string()]),
        Err(Miss::TimedOut) => Err("no answer in time".to_owned()),
        Err(Miss::Refused(why) | Miss::Denied(why)) => Err(why.clone()),
    };
    timing.end(kind, outcome)
}

/// How a cluster is looked after, and how long an answer may take, ms.
fn policy(settings: &Settings, entry: &ClusterEntry) -> (Policy, u64) {
    let (interval_ms, timeout_ms) = match entry.kind {
        ClusterKind::Replication
        | ClusterKind::ReadOnly
        | ClusterKind::RdsMultiAz
        | ClusterKind::Aurora => {
            (settings.monitor_read_only_interval, settings.monitor_read_only_timeout)
        }
        ClusterKind::Galera => (
            settings.monitor_galera_healthcheck_interval,
            settings.monitor_galera_healthcheck_timeout,
        ),
        ClusterKind::GroupReplication | ClusterKind::InnodbCluster => (
            settings.monitor_groupreplication_healthcheck_interval,
            settings.monitor_groupreplication_healthcheck_timeout,
        ),
    };
    let writer_reads = match (entry.writer_is_also_reader, settings.monitor_writer_is_also_reader) {
        (Some(ConfiguredReads::No), _) | (None, false) => WriterReads::No,
        (Some(ConfiguredReads::Yes), _) | (None, true) => WriterReads::Yes,
        (Some(ConfiguredReads::OnlyBackups), _) => WriterReads::OnlyBackups,
    };
    let group = Kind::Group(Group {
        writers_max: entry.max_writers,
        behind_max: match entry.kind {
            ClusterKind::Aurora => entry.max_lag_ms,
            _ => entry.max_transactions_behind,
        }
        .into(),
    });
    let kind = match entry.kind {
        ClusterKind::Replication | ClusterKind::RdsMultiAz => Kind::Replication,
        ClusterKind::ReadOnly => Kind::ReadOnly,
        ClusterKind::Galera
        | ClusterKind::GroupReplication
        | ClusterKind::InnodbCluster
        | ClusterKind::Aurora => group,
    };
    let begins_as_listed = entry.begins_as_listed();
    let (interval_ms, timeout_ms) = entry.check_ms.unwrap_or((interval_ms, timeout_ms));
    let (urgent_ms, discovers) = (URGENT_MS, entry.discovers());
    let policy = Policy {
        interval_ms,
        urgent_ms,
        writer_reads,
        kind,
        begins_as_listed,
        discovers,
        fails_over: failing::mode_of(entry) == trunkline_cluster::failover::Mode::Auto,
    };
    (policy, timeout_ms)
}

/// Where a server is, in the words of other servers.
fn endpoint(address: &Address) -> Endpoint {
    match address {
        Address::Tcp { host, port } => Endpoint { host: host.clone(), port: *port },
        Address::Unix(path) => Endpoint { host: path.display().to_string(), port: 0 },
    }
}

/// One question to one server.
struct Look {
    server: Arc<Server>,
    way: Way,
    account: Option<Account>,
    topic: Topic,
    standing: Standing,
}

impl Look {
    async fn within(self, time_max: Duration) -> Result<Facts, Miss> {
        let mut standing = self.standing.lock().await;
        // What was asked on it may still be answered.
        let kept = standing.take();
        let was_kept = kept.is_some();
        let asked = timeout(time_max, self.ask(kept)).await;
        let (facts, conversation) = match asked {
            Err(_) => return Err(Miss::TimedOut),
            // It may have been closed since: by a restart, or for its silence.
            Ok(Err(Miss::Refused(_))) if was_kept => {
                match timeout(time_max, self.ask(None)).await {
                    Err(_) => return Err(Miss::TimedOut),
                    Ok(asked) => asked?,
                }
            }
            Ok(asked) => asked?,
        };
        *standing = Some(conversation);
        Ok(facts)
    }

    async fn ask(
        &self,
        kept: Option<(Conversation, Flavor)>,
    ) -> Result<(Facts, (Conversation, Flavor)), Miss> {
        let (mut conversation, flavor) = match kept {
            Some(kept) => kept,
            None => self.open().await?,
        };
        match questions::facts_of(&mut conversation, flavor, &self.topic).await {
            Ok(facts) => Ok((facts, (conversation, flavor))),
            Err(error) => Err(miss(&error)),
        }
    }

    async fn open(&self) -> Result<(Conversation, Flavor), Miss> {
        let account = self.account.as_ref().ok_or_else(|| {
            Miss::Denied("nobody can ask: `monitor_account` names no user with a password".into())
        })?;
        let mut conversation =
            conversation::connect(&self.server).await.map_err(|error| miss(&error))?;
        let opened = conversation.greeting().await;
        let (greeting, header, payload) = opened.map_err(|error| miss(&error))?;
        let login = conversation.log_in(account, &self.way, header, payload).await;
        login.map_err(|error| miss(&error))?;
        Ok((conversation, greeting.flavor()))
    }
}

/// What it means that a server has not told.
fn miss(error: &LearnError) -> Miss {
    match (error.is_unreachable(), error.is_of_connection()) {
        (true, _) => Miss::TimedOut,
        (false, true) => Miss::Refused(error.to_string()),
        (false, false) => Miss::Denied(error.to_string()),
    }
}
