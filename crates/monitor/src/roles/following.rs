//! One cluster: its decision, its conversations with servers, and its cell.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc},
    time::timeout,
};
use trunkline_cluster::{
    Cluster, Evidence, HostId, Input, Miss, Output, Policy, Reach,
    facts::{Endpoint, Facts},
};
use trunkline_config::{
    Snapshot,
    cluster::CheckType,
    snapshot::{Cluster as Configured, Member},
};
use trunkline_net::TlsSetup;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_stats::topology::{ClusterRow, MemberRow};
use trunkline_topology::{Address, Role, Seen, Server, WriterCell};

use super::{ClusterNews, board::Board, log, questions};
use crate::{
    Account, LearnError,
    conversation::{self, Conversation, Way},
};

/// How often servers are asked while the writer is in doubt, ms.
const URGENT_MS: u64 = 100;

/// What came of a question.
pub(super) struct Answered {
    pub(super) cluster: String,
    pub(super) host: HostId,
    pub(super) asked_ms: u64,
    pub(super) answer: Result<Facts, Miss>,
}

/// A conversation that stands between two questions.
type Standing = Arc<Mutex<Option<(Conversation, Flavor)>>>;

/// One cluster that is followed.
pub(super) struct Following {
    configured: Arc<Configured>,
    cluster: Cluster,
    cell: Arc<WriterCell>,
    /// The entries of each member: the writer's and the reader's.
    servers: HashMap<HostId, [Arc<Server>; 2]>,
    conversations: HashMap<HostId, Standing>,
    account: Option<Account>,
    timeout: Duration,
    out: Vec<Output>,
    /// What is still to be told to whoever publishes snapshots.
    untold: Vec<ClusterNews>,
    /// Whether something has come in since it was shown.
    has_news: bool,
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
            timeout: Duration::ZERO,
            out: Vec::new(),
            untold: Vec::new(),
            has_news: true,
        }
    }

    /// Whether it goes on with another configuration.
    pub(super) fn is_of(&self, configured: &Configured) -> bool {
        Arc::ptr_eq(&self.cell, &configured.cell)
    }

    /// Takes over a configuration.
    pub(super) fn renew(&mut self, snapshot: &Snapshot, configured: &Arc<Configured>, now_ms: u64) {
        let (settings, entry) = (&snapshot.settings, &configured.entry);
        self.configured = Arc::clone(configured);
        self.account = Account::of_monitor(snapshot);
        self.timeout = Duration::from_millis(settings.monitor_read_only_timeout);
        self.cluster.set_policy(Policy {
            interval_ms: settings.monitor_read_only_interval,
            urgent_ms: URGENT_MS,
            writer_is_also_reader: entry.writer_is_also_reader,
            goes_by_list: entry.goes_by_list,
        });
        self.servers.clear();
        for member in &configured.members {
            let server = |is_writer| snapshot.server(&configured.key(member, is_writer));
            let (Some(writer), Some(reader)) = (server(true), server(false)) else { continue };
            let host = HostId(member.number);
            self.servers.insert(host, [Arc::clone(writer), Arc::clone(reader)]);
            let is_listed_writer = member.is_listed_writer;
            let endpoint = endpoint(&member.address);
            self.on(now_ms, Input::Member { host, is_listed_writer, endpoint });
        }
        let members = self.cluster.members();
        let gone: Vec<HostId> = members.filter(|it| !self.servers.contains_key(it)).collect();
        for host in gone {
            self.conversations.remove(&host);
            self.on(now_ms, Input::Gone(host));
        }
        // A reader's role is its entry's, which may be new.
        for (host, [_, reader]) in &self.servers {
            set_reader(reader, self.cluster.is_reader(*host));
        }
    }

    pub(super) fn on(&mut self, now_ms: u64, input: Input) {
        self.has_news = true;
        self.cluster.on(now_ms, input, &mut self.out);
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.cluster.next_ms()
    }

    /// Takes what workers have seen of its servers.
    pub(super) fn look_at_traffic(&mut self, now_ms: u64) {
        let mut seen = Vec::new();
        for (host, servers) in &self.servers {
            let wants_answers = self.cluster.reach(*host) != Reach::Up;
            for server in servers {
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
        answers: &mpsc::Sender<Answered>,
    ) {
        let mut due = Vec::new();
        self.cluster.tick(now_ms, &mut due);
        for output in due {
            let Output::Ask(host) = output else { continue };
            let Some([server, _]) = self.servers.get(&host) else { continue };
            let look = Look {
                way: Way::to(server, tls),
                server: Arc::clone(server),
                account: self.account.clone(),
                check_type: self.configured.entry.check_type,
                discovers: !self.configured.entry.goes_by_list,
                standing: Arc::clone(self.conversations.entry(host).or_default()),
            };
            let (time_max, answers) = (self.timeout, answers.clone());
            let cluster = self.configured.entry.name.clone();
            tokio::spawn(async move {
                let answer = look.within(time_max).await;
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
                Output::SetWriter(writer) => {
                    self.set_writer(writer);
                    self.untold.retain(|news| *news != ClusterNews::OtherWriter);
                    self.untold.push(ClusterNews::OtherWriter);
                }
                Output::SetReader(host, is_reader) => {
                    if let Some([_, reader]) = self.servers.get(&host) {
                        set_reader(reader, is_reader);
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

    /// Makes a member the writer. What the one before has open is not used again.
    fn set_writer(&self, writer: Option<HostId>) {
        let before = self.cell.writer();
        self.cell.set(writer.map(|host| host.0));
        if let Some([server, _]) = before.and_then(|number| self.servers.get(&HostId(number))) {
            server.health.retire_connections();
        }
        if let Some([server, _]) = writer.and_then(|host| self.servers.get(&host)) {
            // It is known to be well.
            server.health.count_success();
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
        MemberRow {
            address: member.address.to_string(),
            role: self.cluster.standing(host).name().to_owned(),
            reach: self.cluster.reach(host).name().to_owned(),
            writable: facts.map(|facts| facts.is_writable),
            source: source.map(|source| source.address.to_string()),
            lag_sec: facts.and_then(Facts::lag_sec),
            version: facts.map(|facts| facts.version.clone()).unwrap_or_default(),
            gtid: facts.map(|facts| facts.gtid.clone()).unwrap_or_default(),
            warnings,
        }
    }
}

fn set_reader(server: &Server, is_reader: bool) {
    if let Some(Role::Reader(role)) = server.health.role() {
        let before = role.swap(is_reader, std::sync::atomic::Ordering::Relaxed);
        if before && !is_reader {
            server.health.retire_connections();
        }
    }
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
    check_type: CheckType,
    discovers: bool,
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
        let asked =
            questions::facts_of(&mut conversation, flavor, self.check_type, self.discovers).await;
        match asked {
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
    match error.is_of_connection() {
        true => Miss::Refused(error.to_string()),
        false => Miss::Denied(error.to_string()),
    }
}
