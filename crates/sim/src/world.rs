//! Everything of one run, and its loop: take the next event, let it happen, carry what follows
//! to whom it concerns.

mod actors;
mod apart;
mod end;
mod faults;
mod figures;
mod monitor;
mod neighbours;
mod outcomes;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use foldhash::fast::FixedState;
use trunkline_cache::{SharedAsk, SharedStore};
use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::Flavor;
use trunkline_topology::{Server, ServerHealth, ServerKey};
use trunkline_worker::{Shared, Worker, WorkerOptions};

use crate::{
    HostId, LinkId, Micros, Outcome,
    client::ModelClient,
    driver::{Driver, Hosts, Job, LinkSpec, Mail, Outside, Wish, WorkerMail, name_of},
    operator::Operator,
    oracle::{
        Breach, Facts, Oracle, Rest,
        facts::{ClosedBy, LinkFact},
    },
    plan::{self, Plan},
    queue::Queue,
    rng::Rng,
    server::{Cluster, Dictionary},
    trace::Trace,
    wire::{End, PipeSpec, Wire, WireEvent},
};
use apart::Apart;
use monitor::Watch;
use neighbours::Neighbours;
use outcomes::Finder;

/// What one batch costs a worker, µs.
const BATCH_US: Micros = 10;
/// What mail between threads takes, µs.
const MAIL_US: Micros = 20;
/// What it takes to ask what a host is called, µs.
const NAMING_US: Micros = 100_000;
/// What password work takes, µs.
const PASSWORD_US: Micros = 3_000;
/// Events that a run may have; one that has more does not come to rest.
const EVENTS_MAX: u64 = 20_000_000;

/// Something that happens.
#[derive(Debug)]
enum Event {
    /// On a link.
    Wire(WireEvent),
    /// A worker wakes; only if nothing has changed since this was planned.
    Wake(usize, Micros),
    /// Mail arrives at a worker.
    Post(usize, Mail),
    /// A client has something to do.
    Client(usize),
    /// The cluster has something to do.
    Cluster,
    /// A client's connect reaches the proxy.
    ClientKnocks(usize, LinkId),
    /// A client hears that it is connected.
    ClientUp(usize, LinkId),
    /// A connect reaches a host.
    HostKnocked(LinkId, HostId),
    /// The proxy hears how its connect went.
    HostAnswered(LinkId, Option<String>),
    /// An act of the plan.
    Act(usize),
    /// A fault of the plan.
    Fault(usize),
    /// A vanished client's connection is noticed.
    Lapse(LinkId),
    /// The monitor looks at the servers.
    Monitor,
    /// A question has reached the cache that proxies share, which was asked then.
    Asked(Box<SharedAsk>, Micros),
    /// An answer has reached it.
    Told(Box<SharedStore>),
    /// It is there again.
    NeighboursBack,
    /// A step of the search for a lost `COMMIT`.
    Search(Box<Finder>),
}

/// One run.
pub(crate) struct World<'a> {
    plan: &'a Plan,
    queue: Queue<Event>,
    wire: Wire,
    rng: Rng,
    nonces: Rng,
    drivers: Vec<Driver>,
    /// When each worker wakes next, and until when it does something else.
    wake_at: Vec<Option<Micros>>,
    busy_until: Vec<Micros>,
    shared: Arc<Shared>,
    operator: Operator,
    cluster: Cluster,
    cluster_due: Option<Micros>,
    clients: Vec<ModelClient>,
    client_due: Vec<Option<Micros>>,
    client_link: Vec<Option<LinkId>>,
    /// Links to clients that the plan has spoilt.
    disturbed: BTreeSet<LinkId>,
    /// Clients that do not read now.
    paused: BTreeSet<usize>,
    /// Until when nothing passes to or from a host.
    partitions: BTreeMap<HostId, Micros>,
    apart: Apart,
    watch: Watch,
    neighbours: Neighbours,
    /// Chances of searches for lost `COMMIT`s.
    searches: Rng,
    /// Every server entry that there ever was, and where connections are counted.
    healths: Vec<(ServerKey, Arc<ServerHealth>)>,
    /// Connections to servers that are open or on their way to another worker.
    conns: BTreeMap<LinkId, usize>,
    /// Those on their way.
    moving: BTreeSet<LinkId>,
    hashes: HashMap<(Vec<u8>, Vec<u8>), bool, FixedState>,
    hosts: PlanHosts,
    trace: Trace,
    oracle: Oracle,
    facts: Facts,
    links: BTreeMap<LinkId, LinkFact>,
    faults: BTreeMap<&'static str, u64>,
    /// Names of the users of all configurations.
    user_names: Vec<String>,
    /// When the last configuration is in each worker's mail.
    snapshots_at: Vec<Micros>,
    /// The oldest configuration that a worker served by before the last batch.
    oldest_then: u64,
    /// Clients that were there before a batch, and those that logged in during it.
    clients_wanted: u64,
    /// The oldest version in force when each worker's lists were looked at last.
    lists_seen: Vec<u64>,
    /// The deadline of the stop that the workers were told of.
    told_to_stop: Option<Micros>,
    rest: Rest,
    batches: u64,
    events: u64,
}

/// Hosts by the addresses of the plan.
#[derive(Debug)]
struct PlanHosts {
    pipes: Vec<PipeSpec>,
    other: PipeSpec,
}

impl Hosts for PlanHosts {
    fn host_of(&self, server: &Server) -> Option<HostId> {
        plan::host_of(server)
    }

    fn pipe_to(&self, host: HostId) -> PipeSpec {
        self.pipes.get(host.0).copied().unwrap_or(self.other)
    }
}

/// What the plan's servers say of names.
fn dictionary_of(plan: &Plan) -> Dictionary {
    let flavor = plan.cluster.hosts.first().map_or(Flavor::MariaDb, |host| host.flavor);
    Dictionary { flavor, hides_definitions: plan.hides_definitions }
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, with_trace: bool) -> Self {
        let root = Rng::new(plan.seed);
        let operator = Operator::new(plan);
        let shared = Arc::new(Shared::new(Some(b"the public key".to_vec()), 1_000));
        let greeting = operator.greeting();
        plan.memory_max.into_iter().for_each(|max| shared.budget().set_max(max));
        let driver = |index| {
            let seed = root.split("worker", index as u64).next_u64();
            let options = WorkerOptions { index, workers: plan.workers, seed };
            let snapshot: Arc<Snapshot> = operator.snapshot();
            let (shared, greeting) = (Arc::clone(&shared), Arc::clone(&greeting));
            let compressor = Box::new(trunkline_compression::Libraries::default());
            let mut worker = Worker::new(options, snapshot, shared, greeting, compressor);
            worker.offer_tls(plan.offers_tls);
            #[cfg(feature = "plants")]
            plan.plant.into_iter().for_each(|plant| worker.plant(plant));
            let spec = LinkSpec { scratch_len: plan.scratch_len, writes_many: plan.writes_many };
            Driver::new(worker, options, spec, dictionary_of(plan))
        };
        let mut world = Self {
            plan,
            queue: Queue::new(),
            wire: Wire::new(root.split("wire", 0)),
            rng: root.split("world", 0),
            nonces: root.split("nonces", 0),
            drivers: (0..plan.workers).map(driver).collect(),
            wake_at: vec![None; plan.workers],
            busy_until: vec![0; plan.workers],
            shared,
            operator,
            cluster: Cluster::new(&plan.cluster, root.split("cluster", 0)),
            cluster_due: None,
            clients: plan.clients.iter().cloned().map(ModelClient::new).collect(),
            client_due: vec![None; plan.clients.len()],
            client_link: vec![None; plan.clients.len()],
            disturbed: BTreeSet::new(),
            paused: BTreeSet::new(),
            partitions: BTreeMap::new(),
            apart: Apart::default(),
            watch: Watch::default(),
            neighbours: Neighbours::default(),
            searches: root.split("searches", 0),
            healths: Vec::new(),
            conns: BTreeMap::new(),
            moving: BTreeSet::new(),
            hashes: HashMap::default(),
            hosts: PlanHosts { pipes: plan.host_pipes.clone(), other: plan.client_pipe },
            trace: Trace::new(with_trace),
            oracle: Oracle::new(),
            facts: Facts::default(),
            links: BTreeMap::new(),
            faults: BTreeMap::new(),
            user_names: plan.user_names(),
            lists_seen: vec![0; plan.workers],
            snapshots_at: vec![0; plan.workers],
            oldest_then: 0,
            clients_wanted: 0,
            told_to_stop: None,
            rest: Rest::default(),
            batches: 0,
            events: 0,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.note_configuration();
        self.facts.primaries.push((0, self.plan.cluster.primary));
        for (place, (at, _)) in self.plan.acts.iter().enumerate() {
            self.queue.put(*at, Event::Act(place));
        }
        for (place, (at, _)) in self.plan.faults.iter().enumerate() {
            self.queue.put(*at, Event::Fault(place));
        }
        for worker in 0..self.plan.workers {
            self.wake(worker, 0);
        }
        if self.plan.shares_answers {
            self.neighbours_back();
        }
        if let Some(monitor) = self.plan.monitor {
            self.queue.put(monitor.every_us, Event::Monitor);
        }
        for client in 0..self.clients.len() {
            if !self.plan.absent.contains(&client) {
                self.after_client(client);
            }
        }
    }

    /// Lets everything happen, to the end.
    pub(crate) fn run(&mut self) {
        self.play_until(self.plan.horizon_us, true);
        self.finish();
    }

    /// Lets happen what happens before `until`, or, if `may_end`, until every client has gone.
    fn play_until(&mut self, until: Micros, may_end: bool) {
        while self.queue.next_at().is_some_and(|at| at <= until) {
            if may_end && self.is_everybody_gone() {
                return;
            }
            let Some(event) = self.queue.take() else { return };
            self.events += 1;
            assert!(self.events < EVENTS_MAX, "the run does not come to rest");
            self.happen(event);
        }
    }

    fn is_everybody_gone(&self) -> bool {
        let clients = self.clients.iter().enumerate();
        let mut there = clients.filter(|(place, _)| !self.plan.absent.contains(place));
        there.all(|(_, client)| client.is_gone())
    }

    fn now(&self) -> Micros {
        self.queue.now()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wire(WireEvent::Arrival(link, end)) => self.arrival(link, end),
            Event::Wire(WireEvent::Room(link, end)) => self.room(link, end),
            Event::Wake(worker, at) => self.woken(worker, at),
            Event::Post(worker, mail) => self.deliver(worker, mail),
            Event::Client(client) => self.client_ticks(client),
            Event::Cluster => self.cluster_ticks(),
            Event::ClientKnocks(client, link) => self.client_knocks(client, link),
            Event::ClientUp(client, link) => self.client_up(client, link),
            Event::HostKnocked(link, host) => self.host_knocked(link, host),
            Event::HostAnswered(link, refusal) => self.host_answered(link, refusal),
            Event::Act(place) => self.act(place),
            Event::Fault(place) => self.fault(place),
            Event::Lapse(link) => self.wire.cut(link, self.now()),
            Event::Monitor => self.monitor_looks(),
            Event::Asked(ask, asked_us) => self.asked(&ask, asked_us),
            Event::Told(store) => self.told(*store),
            Event::NeighboursBack => self.neighbours_back(),
            Event::Search(finder) => self.search_on(finder),
        }
        self.follow_wire();
    }

    /// Puts what the wire announces into the queue.
    fn follow_wire(&mut self) {
        for (at, event) in self.wire.take_events() {
            self.queue.put(at, Event::Wire(event));
        }
    }

    /// Plans a worker's next batch, `at` or when it is free.
    fn wake(&mut self, worker: usize, at: Micros) {
        let busy_until = self.busy_until.get(worker).copied().unwrap_or_default();
        let at = at.max(busy_until);
        let Some(planned) = self.wake_at.get_mut(worker) else { return };
        if planned.is_none_or(|before| before > at) {
            *planned = Some(at);
            self.queue.put(at, Event::Wake(worker, at));
        }
    }

    /// Something for a worker has come: it wakes a little later.
    fn nudge(&mut self, worker: usize) {
        let reaction = self.rng.below(self.plan.reaction_us + 1);
        self.wake(worker, self.now() + reaction);
    }

    fn woken(&mut self, worker: usize, planned: Micros) {
        let now = self.now();
        match self.wake_at.get_mut(worker) {
            Some(at) if *at == Some(planned) => *at = None,
            _ => return,
        }
        let busy_until = self.busy_until.get(worker).copied().unwrap_or_default();
        if busy_until > now {
            return self.wake(worker, busy_until);
        }
        self.batch(worker);
    }

    fn batch(&mut self, worker: usize) {
        let now = self.now();
        let Some(driver) = self.drivers.get_mut(worker) else { return };
        if driver.is_stopped() {
            return;
        }
        self.batches += 1;
        self.oldest_then = self
            .drivers
            .iter()
            .filter(|driver| !driver.is_stopped())
            .map(Driver::version)
            .min()
            .unwrap_or_default();
        let Some(driver) = self.drivers.get_mut(worker) else { return };
        self.clients_wanted = u64::from(self.shared.clients());
        let logins = driver.logins();
        let mut out = Outside {
            now,
            wire: &mut self.wire,
            trace: &mut self.trace,
            rng: &mut self.nonces,
            hosts: &self.hosts,
            wishes: Vec::new(),
        };
        driver.batch(&mut out);
        let wishes = out.wishes;
        self.clients_wanted += driver.logins() - logins;
        let busy_until = now + BATCH_US + driver.pause_us();
        let next = match driver.has_work() {
            true => busy_until,
            false => busy_until.max(now + driver.tick_within_us()),
        };
        let is_stopped = driver.is_stopped();
        if let Some(busy) = self.busy_until.get_mut(worker) {
            *busy = busy_until;
        }
        for wish in wishes {
            self.grant(worker, wish);
        }
        if !is_stopped {
            self.wake(worker, next);
        }
        self.look_at_figures(worker);
    }

    fn grant(&mut self, worker: usize, wish: Wish) {
        let now = self.now();
        match wish {
            Wish::Post(to, mail) => {
                match &mail {
                    Mail::Worker(WorkerMail::HandedOver(_, travelling)) => {
                        self.moving.insert(travelling.stream.id);
                        self.count("hand_over");
                    }
                    Mail::Worker(WorkerMail::MovedClient(..)) => self.count("move_client"),
                    _ => {}
                }
                self.queue.put(now + MAIL_US, Event::Post(to, mail));
            }
            Wish::Compute(job) => self.compute(worker, job),
            Wish::Syn(link, host, health) => self.syn(link, host, &health),
            Wish::Closed(link) => self.link_closed(link, ClosedBy::Proxy),
            Wish::Logged(line) => self.facts.logged.push((self.now(), line)),
            Wish::Name(addr) => {
                let at = now + self.rng.below(NAMING_US);
                let mail = WorkerMail::HostNamed(addr, name_of(addr));
                self.queue.put(at, Event::Post(worker, mail.into()));
            }
            Wish::Ask(ask) => self.ask_neighbours(ask),
            Wish::Share(store) => self.tell_neighbours(store),
            Wish::FindOutcome(ask) => self.begin_search(worker, ask),
        }
    }

    fn deliver(&mut self, worker: usize, mail: Mail) {
        if let Mail::Worker(WorkerMail::HandedOver(_, travelling)) = &mail {
            self.moving.remove(&travelling.stream.id);
        }
        let now = self.now();
        let Some(driver) = self.drivers.get_mut(worker) else { return };
        match driver.post(mail) {
            None => self.nudge(worker),
            Some(Mail::Worker(WorkerMail::Kill(request))) => {
                let asker = request.asker;
                let mail = WorkerMail::KillUndelivered(asker);
                self.queue.put(now, Event::Post(asker.worker, mail.into()));
            }
            // Its worker has stopped: the process ends, and the kernel closes what is left.
            Some(Mail::Worker(mail)) => {
                if let Some(link) = driver.give_up(mail) {
                    self.wire.close(link, End::Proxy, now);
                    self.link_closed(link, ClosedBy::Proxy);
                }
            }
            Some(Mail::Report | Mail::Pause(..) | Mail::Stop(_) | Mail::Abandon(_)) => {}
        }
    }

    fn compute(&mut self, worker: usize, job: Job) {
        let mail = match job {
            // The played cipher is the text itself, marked.
            Job::Decrypt(client, cipher) => {
                WorkerMail::Decrypted(client, cipher.strip_prefix(CIPHER).map(<[u8]>::to_vec))
            }
            Job::Encrypt(conn, plain) => {
                WorkerMail::Encrypted(conn, Some([CIPHER, plain.expose().as_slice()].concat()))
            }
            Job::VerifyHash(client, clear, hash) => {
                let (clear, hash) = (clear.expose(), hash.expose());
                let key = (clear.clone(), hash.clone());
                let is_right = *self
                    .hashes
                    .entry(key)
                    .or_insert_with(|| trunkline_protocol::auth::sha256_crypt::verify(clear, hash));
                WorkerMail::Verified(client, is_right)
            }
        };
        let at = self.now() + PASSWORD_US / 2 + self.rng.below(PASSWORD_US);
        self.queue.put(at, Event::Post(worker, mail.into()));
    }

    /// The worker that has this link's socket.
    fn holder(&self, link: LinkId) -> Option<usize> {
        self.drivers.iter().position(|driver| driver.holds(link))
    }

    fn count(&mut self, what: &'static str) {
        *self.faults.entry(what).or_default() += 1;
    }

    fn link_closed(&mut self, link: LinkId, by: ClosedBy) {
        let now = self.now();
        if let Some(fact) = self.links.get_mut(&link)
            && fact.closed.is_none()
        {
            let was_garbage = by == ClosedBy::Proxy && fact.got_nonsense;
            fact.closed = Some((now, if was_garbage { ClosedBy::Garbage } else { by }));
        }
        if by == ClosedBy::Proxy {
            self.conns.remove(&link);
        }
    }

    /// What came of it.
    pub(crate) fn into_outcome(self) -> Outcome {
        let statements = self.facts.executions.len() as u64;
        let clients: Vec<_> = self.clients.into_iter().map(ModelClient::into_history).collect();
        let facts = self.facts;
        let run = crate::oracle::Run { clients: &clients, facts: &facts, rest: &self.rest };
        let mut violations = self.oracle.check(&run);
        if self.plan.has_babble() {
            violations.retain(|it| matches!(it.breach, Breach::OverLimit | Breach::Leak));
        }
        Outcome {
            violations,
            panic: None,
            statements,
            events: self.events,
            batches: self.batches,
            bytes: self.wire.bytes(),
            ended_us: facts.ended_us,
            faults: self.faults,
            trace: self.trace,
        }
    }
}

/// Marks what the played password work has encrypted.
const CIPHER: &[u8] = b"cipher:";
