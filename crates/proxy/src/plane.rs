//! All workers together, as the supervisor sees them.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError, mpsc::channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tracing::{info, warn};
use trunkline_budget::Budget;
use trunkline_catalog::{Catalog, DefinitionTicket, Waiter};
use trunkline_compression::Libraries;
use trunkline_config::{IoDriver, ListenAddress, Settings, Snapshot};
use trunkline_crypto::PrivateKey;
use trunkline_net::{Keepalive, Listener, Poller, TlsSetup, remove_unix_paths};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_stats::{
    DigestQuery, DigestRow, Inventory, Report, SessionList, SessionQuery, span::SpanRing,
};
use trunkline_topology::{HostAnswer, HostgroupId, Origin, Secret};
use trunkline_worker::{
    CatalogAsk, KillAnswer, KillScope, OutcomeAsk, OutcomeFound, Shared, Worker, WorkerOptions,
};

use crate::{
    Mail,
    driver::{Driver, Parts, WAKE},
    event_log::EventLog,
    machine::memory_max,
    mailbox::{Postbox, WorkerMail, mailbox},
    passwords::PasswordThread,
    pauses::Span,
    shared_cache::SharedCacheThread,
    students::StudentThread,
};

/// What a data plane is started with.
pub struct PlaneOptions {
    /// The first configuration.
    pub snapshot: Arc<Snapshot>,
    /// What clients are greeted with at first.
    pub greeting: Arc<Greeting>,
    /// What TLS works with at first.
    pub tls: Arc<TlsSetup>,
    /// How many workers; at least 1.
    pub workers: usize,
    /// Called first on the thread of each worker, with its number.
    pub on_thread: Arc<dyn Fn(usize) + Send + Sync>,
    /// Called by workers that want to know what users the servers have now: publish them, then
    /// call [`DataPlane::users_looked_up`]. Must return at once.
    pub look_up_users: Arc<dyn Fn() + Send + Sync>,
    /// Called by workers that want a password tried on a server. Must return at once.
    pub ask_server: Arc<dyn Fn(LoginQuestion) + Send + Sync>,
    /// Called by workers that want to know what servers say of a client's name: publish that, then
    /// answer. Must return at once.
    pub look_up_user: Arc<dyn Fn(UserQuestion) + Send + Sync>,
    /// Called by workers that want to know what a client's host is called. Must return at once.
    pub look_up_host: Arc<dyn Fn(HostQuestion) + Send + Sync>,
    /// What names mean on the servers.
    pub catalog: Arc<Catalog>,
    /// Called by workers that want to know what names mean. Must return at once.
    pub ask_catalog: Arc<dyn Fn(CatalogQuestion) + Send + Sync>,
    /// Called by workers that want to know what became of a `COMMIT`. Must return at once, and
    /// answer within the time that the question names.
    pub find_outcome: Arc<dyn Fn(OutcomeQuestion) + Send + Sync>,
}

/// A `COMMIT` whose answer was lost.
pub struct OutcomeQuestion {
    /// Which.
    pub ask: Box<OutcomeAsk>,
    /// Takes what was found to the worker.
    pub answer: Box<dyn FnOnce(OutcomeFound) + Send>,
}

/// Names that somebody wants to know.
pub struct CatalogQuestion {
    /// Which, and as whom servers are asked.
    pub ask: Box<CatalogAsk>,
    /// Takes it to who waited that what is known is in the catalog.
    pub told: Box<dyn FnOnce(Vec<Waiter>) + Send>,
}

/// A name of which it is wanted what servers say.
pub struct UserQuestion {
    /// The name.
    pub name: String,
    /// When it was asked for, on the workers' clock, ms.
    pub asked_ms: u64,
    /// Takes to the worker as of when the answer is, on that clock; `None` where there is none.
    pub answer: Box<dyn FnOnce(Option<u64>) + Send>,
}

/// An address whose host's name is wanted.
pub struct HostQuestion {
    /// The address.
    pub addr: IpAddr,
    /// Takes the answer to the worker.
    pub answer: Box<dyn FnOnce(HostAnswer) + Send>,
}

/// A password to be tried on a server.
pub struct LoginQuestion {
    /// The account's name.
    pub name: String,
    /// Whose servers are asked.
    pub hostgroup: HostgroupId,
    /// The password.
    pub clear: Secret<Vec<u8>>,
    /// Takes whether a server took it to the worker.
    pub answer: Box<dyn FnOnce(bool) + Send>,
}

/// The running workers.
pub struct DataPlane {
    postboxes: Vec<Postbox>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    listen: Vec<ListenAddress>,
    /// TCP listeners that are open, by their configured address: where they are.
    tcp: Mutex<HashMap<ListenAddress, ListenAddress>>,
    /// Whether nobody is accepted for now.
    is_paused: Mutex<bool>,
    /// Hostgroups that take nothing new for now.
    pub(crate) pauses: Mutex<BTreeMap<HostgroupId, Span>>,
    /// Where the workers' clock begins.
    started: Instant,
    events: EventLog,
    /// A ring of each worker, for spans.
    spans: Vec<Arc<SpanRing>>,
    shared: Arc<Shared>,
    shared_cache: SharedCacheThread,
}

impl DataPlane {
    /// Opens the listeners and starts the workers.
    ///
    /// # Errors
    /// The address that can't be listened at, and why; or the system's reason why no thread, key
    /// or poller is to be had.
    // long: one order of beginnings, each of which needs those before.
    pub fn start(options: PlaneOptions) -> Result<Self, String> {
        let settings = &options.snapshot.settings;
        let mut listeners = Vec::new();
        for address in &settings.listen {
            let listener = Listener::open(address)
                .map_err(|error| format!("can't listen at {address}: {error}"))?;
            listeners.push(listener);
        }
        let listen = listeners.iter().map(|listener| listener.address().clone()).collect();
        let key = match options.tls.password_key() {
            Some(key) => Arc::clone(key),
            None => Arc::new(PrivateKey::generate().map_err(|e| format!("no RSA key: {e}"))?),
        };
        let shared =
            Shared::new(Some(key.public_key_pem().to_vec()), settings.verified_passwords_max);
        let shared = shared.with_attributes(own_attributes());
        let budget = Arc::new(Budget::new(memory_max(settings.memory_max)));
        let shared = shared.with_catalog(Arc::clone(&options.catalog)).with_budget(budget);
        let shared = Arc::new(shared);
        let passwords = PasswordThread::start(key).map_err(|e| e.to_string())?;
        let keepalive = settings
            .use_tcp_keepalive
            .then_some(Keepalive { time_sec: settings.tcp_keepalive_time });
        let mut pollers = Vec::new();
        for _ in 0..options.workers.max(1) {
            let poller = Poller::new().map_err(|error| error.to_string())?;
            let waker = poller.waker(WAKE).map_err(|error| error.to_string())?;
            pollers.push((poller, mailbox(waker)));
        }
        let postboxes: Vec<_> = pollers.iter().map(|(_, (post, _))| post.clone()).collect();
        let tcp = Mutex::default();
        let (is_paused, pauses) = (Mutex::default(), Mutex::default());
        let started = Instant::now();
        let cache = Arc::clone(shared.cache());
        let shared_cache = SharedCacheThread::start(cache, postboxes.clone(), started)
            .map_err(|error| error.to_string())?;
        shared_cache.configure(settings);
        configure_catalog(&shared, settings);
        let threads = Vec::new();
        let events = EventLog::start(settings).map_err(|error| error.to_string())?;
        let spans: Vec<Arc<SpanRing>> = postboxes.iter().map(|_| Arc::default()).collect();
        resize(&spans, settings);
        let mut plane = Self {
            postboxes,
            threads,
            listen,
            tcp,
            is_paused,
            pauses,
            started,
            events,
            spans,
            shared,
            shared_cache,
        };
        if let Some(problem) = plane.open_tcp(&options.snapshot).into_iter().next() {
            return Err(problem);
        }
        for (index, (poller, (own, mail))) in pollers.into_iter().enumerate() {
            let own_listeners = match index + 1 == plane.postboxes.len() {
                true => std::mem::take(&mut listeners),
                false => {
                    let shares: io::Result<_> = listeners.iter().map(Listener::share).collect();
                    shares.map_err(|error| error.to_string())?
                }
            };
            let start = Start {
                index,
                poller,
                own,
                mail,
                listeners: own_listeners,
                peers: plane.postboxes.clone(),
                passwords: passwords.clone(),
                shared_cache: plane.shared_cache.clone(),
                keepalive,
                started,
                snapshot: Arc::clone(&options.snapshot),
                greeting: Arc::clone(&options.greeting),
                tls: Arc::clone(&options.tls),
                look_up_users: Arc::clone(&options.look_up_users),
                ask_server: Arc::clone(&options.ask_server),
                look_up_user: Arc::clone(&options.look_up_user),
                look_up_host: Arc::clone(&options.look_up_host),
                ask_catalog: Arc::clone(&options.ask_catalog),
                find_outcome: Arc::clone(&options.find_outcome),
                events: plane.events.clone(),
                spans: plane.spans.get(index).cloned().unwrap_or_default(),
                shared: Arc::clone(&plane.shared),
            };
            let thread = thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn({
                    let on_thread = Arc::clone(&options.on_thread);
                    move || {
                        on_thread(index);
                        start.run()
                    }
                })
                .map_err(|error| error.to_string())?;
            plane.threads.push(thread);
        }
        Ok(plane)
    }

    /// Where clients connect; with the ports that were found where port 0 was asked for.
    pub fn listen(&self) -> &[ListenAddress] {
        &self.listen
    }

    /// What the workers share about users.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Empties the result cache, and the shared one behind it for all proxies; how many results
    /// this one had.
    pub fn flush_cache(&self) -> u64 {
        self.shared_cache.flush();
        self.shared.cache().flush()
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.postboxes.len()
    }

    /// Has all workers serve a configuration. TCP listeners that can't be opened are said; they
    /// are tried again with the next one. Where it has new servers, `others` keeps names unknown
    /// until all workers have it.
    pub fn publish(
        &self,
        snapshot: &Arc<Snapshot>,
        others: Option<Arc<DefinitionTicket>>,
    ) -> Vec<String> {
        self.shared_cache.configure(&snapshot.settings);
        configure_catalog(&self.shared, &snapshot.settings);
        self.shared.budget().set_max(memory_max(snapshot.settings.memory_max));
        self.events.configure(&snapshot.settings);
        resize(&self.spans, &snapshot.settings);
        for postbox in &self.postboxes {
            postbox.send(WorkerMail::Snapshot(Arc::clone(snapshot), others.clone()));
        }
        self.open_tcp(snapshot)
    }

    /// Opens the TCP listeners that a configuration has and that are not open yet; what went
    /// wrong. Those that it does not have any more are closed by the workers.
    fn open_tcp(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut open = self.tcp.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = || snapshot.tcp.iter().map(|front| &front.options.address);
        open.retain(|address, bound| {
            let stays = wanted().any(|other| other == address);
            if !stays {
                remove_unix_paths(std::slice::from_ref(bound));
            }
            stays
        });
        let mut problems = Vec::new();
        for address in wanted() {
            if open.contains_key(address) {
                continue;
            }
            match self.open_for_each_worker(address) {
                Ok(bound) => {
                    info!("listening on {bound}, for any protocol");
                    open.insert(address.clone(), bound);
                }
                Err(error) => problems.push(format!("can't listen at {address}: {error}")),
            }
        }
        problems
    }

    fn open_for_each_worker(&self, address: &ListenAddress) -> io::Result<ListenAddress> {
        let listeners = self.open_at(address)?;
        let bound = listeners.first().map(|first| first.address().clone());
        for (postbox, listener) in self.postboxes.iter().zip(listeners) {
            postbox.send(Mail::Listen(address.clone(), listener));
        }
        Ok(bound.unwrap_or_else(|| address.clone()))
    }

    /// A listener at this address for each worker.
    fn open_at(&self, address: &ListenAddress) -> io::Result<Vec<Listener>> {
        // Workers share their ports, and so would another process of the same account, without
        // an error and with half of the clients.
        if let ListenAddress::Tcp(addr) = address {
            drop(std::net::TcpListener::bind(addr)?);
        }
        let first = Listener::open(address)?;
        let others = self.postboxes.iter().skip(1).map(|_| first.share());
        let mut listeners = others.collect::<io::Result<Vec<_>>>()?;
        listeners.push(first);
        Ok(listeners)
    }

    /// Where clients of TCP listeners connect; with the ports that were found.
    pub fn tcp_listen(&self) -> Vec<ListenAddress> {
        let open = self.tcp.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().cloned().collect()
    }

    /// Has all workers encrypt with this; before [`publish`](Self::publish), which may ask for it.
    pub fn encrypt(&self, setup: &Arc<TlsSetup>) {
        for postbox in &self.postboxes {
            postbox.send(Mail::Tls(Arc::clone(setup)));
        }
    }

    /// What servers' users were found to be is published: clients that waited for it go on.
    pub fn users_looked_up(&self) {
        for postbox in &self.postboxes {
            postbox.send(WorkerMail::UsersLookedUp);
        }
    }

    /// The time on the workers' clock, ms.
    pub fn clock(&self) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let started = self.started;
        Arc::new(move || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Tells all workers that a replica shows more than before.
    pub fn bell(&self) -> Arc<dyn Fn() + Send + Sync> {
        let postboxes = self.postboxes.clone();
        Arc::new(move || {
            for postbox in &postboxes {
                postbox.send(WorkerMail::PositionReached);
            }
        })
    }

    /// Has all workers greet new clients so.
    pub fn greet(&self, greeting: &Arc<Greeting>) {
        for postbox in &self.postboxes {
            postbox.send(WorkerMail::Greeting(Arc::clone(greeting)));
        }
    }

    /// Asks all workers for their numbers and waits at most `timeout` for the answers. A worker
    /// that does not answer in time is left out.
    pub fn reports(&self, digests: DigestQuery, timeout: Duration) -> Vec<Report> {
        self.ask(timeout, |answer| Mail::Report(digests, answer))
    }

    /// The sessions of all workers that answer within `timeout`.
    pub fn sessions(&self, query: SessionQuery, timeout: Duration) -> SessionList {
        let lists = self.ask(timeout, |answer| Mail::Sessions(query, answer));
        SessionList::merge(lists, query)
    }

    /// All rows of the workers' digest tables, as far as they come within `timeout`; each worker
    /// gives a few between any two batches. Rows of equal keys are one.
    pub fn digests(&self, timeout: Duration) -> Vec<DigestRow> {
        let (sender, receiver) = channel();
        for postbox in &self.postboxes {
            let sender = sender.clone();
            postbox.send(Mail::Digests(Box::new(move |rows| drop(sender.send(rows)))));
        }
        drop(sender);
        let deadline = Instant::now() + timeout;
        let mut all = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(rows) => all.extend(rows),
                // Every worker has given its last rows, or is stuck.
                Err(_) => return DigestRow::merge_all(all),
            }
        }
    }

    /// What the workers have at the moment: at most `rows_max` rows of each kind.
    pub fn inventory(&self, rows_max: usize, timeout: Duration) -> Inventory {
        let parts = self.ask(timeout, |answer| Mail::Inventory(rows_max, answer));
        Inventory::merge(parts, rows_max)
    }

    /// Where failed logins come from: how many in a row, and how long ago the last one was.
    pub fn failed_logins(&self) -> Vec<(Origin, u32, Duration)> {
        let now = self.started.elapsed();
        let rows = self.shared.failed_logins().into_iter();
        rows.map(|(origin, failures, last_ms)| {
            (origin, failures, now.saturating_sub(Duration::from_millis(last_ms)))
        })
        .collect()
    }

    /// Asks all workers; the answers that come in time.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        timeout: Duration,
        mail: impl Fn(Box<dyn FnOnce(T) + Send>) -> Mail,
    ) -> Vec<T> {
        let (sender, receiver) = channel();
        for postbox in &self.postboxes {
            let sender = sender.clone();
            postbox.send(mail(Box::new(move |answer| drop(sender.send(answer)))));
        }
        drop(sender);
        let deadline = Instant::now() + timeout;
        let mut answers = Vec::new();
        while answers.len() < self.postboxes.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(answer) => answers.push(answer),
                Err(_) => break,
            }
        }
        answers
    }

    /// Ends the client with this number, or its statement, whoever it is. `None` when nobody has
    /// said in time what came of it.
    pub fn kill(&self, number: u32, scope: KillScope, timeout: Duration) -> Option<KillAnswer> {
        let (sender, receiver) = channel();
        // A worker passes on what is asked of a client that it has not.
        let first = self.postboxes.first()?;
        first.send(Mail::KillFor(number, scope, Box::new(move |answer| drop(sender.send(answer)))));
        receiver.recv_timeout(timeout).ok()
    }

    /// Ends every client.
    pub fn end_clients(&self) {
        for postbox in &self.postboxes {
            postbox.send(WorkerMail::EndClients);
        }
    }

    /// Whether no client is accepted for now; see [`Self::pause`].
    pub fn is_paused(&self) -> bool {
        *self.is_paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts no more clients until [`Self::resume`]: their connections are refused. Those that
    /// are there stay, and TCP listeners go on. False when it was so already.
    pub fn pause(&self, timeout: Duration) -> bool {
        let mut is_paused = self.is_paused.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *is_paused, true) {
            return false;
        }
        self.ask(timeout, |done| Mail::Listeners(Vec::new(), done));
        remove_unix_paths(&self.listen);
        true
    }

    /// Accepts clients again, where it did before. False when it did.
    ///
    /// # Errors
    /// The address that is not to be had any more; no client is accepted then.
    pub fn resume(&self, timeout: Duration) -> Result<bool, String> {
        let mut is_paused = self.is_paused.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_paused {
            return Ok(false);
        }
        let mut shares: Vec<Vec<Listener>> = Vec::new();
        shares.resize_with(self.postboxes.len(), Vec::new);
        for address in &self.listen {
            let opened = self.open_at(address);
            let listeners =
                opened.map_err(|error| format!("can't listen at {address}: {error}"))?;
            shares.iter_mut().zip(listeners).for_each(|(share, listener)| share.push(listener));
        }
        let (sender, receiver) = channel();
        for (postbox, share) in self.postboxes.iter().zip(shares) {
            let sender = sender.clone();
            // Who asked may wait no longer.
            let done = Box::new(move |()| sender.send(()).unwrap_or_default());
            postbox.send(Mail::Listeners(share, done));
        }
        drop(sender);
        let deadline = Instant::now() + timeout;
        for _ in &self.postboxes {
            // One that is slow will listen all the same.
            let _ = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        *is_paused = false;
        Ok(true)
    }

    /// Begins the graceful stop of all workers.
    pub fn stop(&self, within: Duration) {
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        for postbox in &self.postboxes {
            postbox.send(Mail::Stop(within_ms));
        }
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// What ended a worker before it was told to.
    pub fn join(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            result = match thread.join() {
                Ok(Ok(())) => result,
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("a worker panicked outside of any session".to_owned()),
            };
        }
        remove_unix_paths(&self.listen);
        remove_unix_paths(&self.tcp_listen());
        result
    }

    /// The query log and the audit log.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// The workers' rings of records for spans, and where their clock begins.
    pub fn spans(&self) -> (Vec<Arc<SpanRing>>, Instant) {
        (self.spans.clone(), self.started)
    }

    /// Whether any worker has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

/// Rings have room while there is a collector for what is in them.
fn resize(spans: &[Arc<SpanRing>], settings: &Settings) {
    let max = if settings.trace_otlp.is_some() { settings.trace_ring_max } else { 0 };
    spans.iter().for_each(|ring| ring.resize(max));
}

fn configure_catalog(shared: &Shared, settings: &Settings) {
    shared.catalog().configure(settings.catalog_entries_max, settings.catalog_age_max);
}

/// What servers show of the proxy's connections, by the names that other clients use
/// (`performance_schema.session_connect_attrs`).
fn own_attributes() -> [(&'static str, String); 6] {
    [
        ("program_name", "trunkline".to_owned()),
        ("_client_name", "trunkline".to_owned()),
        ("_client_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("_pid", std::process::id().to_string()),
        ("_os", std::env::consts::OS.to_owned()),
        ("_platform", std::env::consts::ARCH.to_owned()),
    ]
}

/// What one thread begins with: the worker itself is made on its own thread.
struct Start {
    index: usize,
    poller: Poller,
    own: Postbox,
    mail: std::sync::mpsc::Receiver<Mail>,
    listeners: Vec<Listener>,
    peers: Vec<Postbox>,
    passwords: PasswordThread,
    shared_cache: SharedCacheThread,
    keepalive: Option<Keepalive>,
    started: Instant,
    snapshot: Arc<Snapshot>,
    greeting: Arc<Greeting>,
    tls: Arc<TlsSetup>,
    look_up_users: Arc<dyn Fn() + Send + Sync>,
    ask_server: Arc<dyn Fn(LoginQuestion) + Send + Sync>,
    look_up_user: Arc<dyn Fn(UserQuestion) + Send + Sync>,
    look_up_host: Arc<dyn Fn(HostQuestion) + Send + Sync>,
    ask_catalog: Arc<dyn Fn(CatalogQuestion) + Send + Sync>,
    find_outcome: Arc<dyn Fn(OutcomeQuestion) + Send + Sync>,
    events: EventLog,
    spans: Arc<SpanRing>,
    shared: Arc<Shared>,
}

impl Start {
    fn run(self) -> io::Result<()> {
        let nonce = trunkline_crypto::nonce();
        let seed = nonce.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes));
        let options = WorkerOptions { index: self.index, workers: self.peers.len(), seed };
        let mut worker = Worker::new(
            options,
            Arc::clone(&self.snapshot),
            self.shared,
            self.greeting,
            Box::new(Libraries::new()),
        );
        let students = StudentThread::start(self.index, self.own.clone())?;
        worker.offer_tls(self.tls.acceptor().is_some());
        let mut poller = self.poller;
        receive(&mut poller, self.snapshot.settings.io, self.index);
        let parts = Parts {
            options,
            poller,
            listeners: self.listeners,
            mail: self.mail,
            own: self.own,
            peers: self.peers,
            passwords: self.passwords,
            students,
            shared_cache: self.shared_cache,
            keepalive: self.keepalive,
            tls: self.tls,
            look_up_users: self.look_up_users,
            ask_server: self.ask_server,
            look_up_user: self.look_up_user,
            look_up_host: self.look_up_host,
            ask_catalog: self.ask_catalog,
            find_outcome: self.find_outcome,
            events: self.events,
            spans: self.spans,
            started: self.started,
        };
        Driver::new(worker, parts).run(self.snapshot)
    }
}

/// Begins to receive as configured, or as this system can. `auto` is epoll: what measured better
/// over all numbers of clients (`docs/decisions/0025`).
fn receive(poller: &mut Poller, wanted: IoDriver, worker: usize) {
    if wanted != IoDriver::IoUring {
        return;
    }
    match poller.receive_by_ring() {
        Ok(()) if worker == 0 => info!("receiving by io_uring"),
        Ok(()) => {}
        Err(error) => {
            warn!(%error, worker, "io_uring is not to be had here: receiving by epoll");
        }
    }
}
