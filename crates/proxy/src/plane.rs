//! All workers together, as the supervisor sees them.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError, mpsc::channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use trunkline_compression::Libraries;
use trunkline_config::{ListenAddress, Snapshot};
use trunkline_crypto::PrivateKey;
use trunkline_net::{Keepalive, Listener, Poller, TlsSetup, remove_unix_paths};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_stats::{DigestQuery, Report, SessionList, SessionQuery};
use trunkline_topology::{HostgroupId, Secret};
use trunkline_worker::{Shared, Worker, WorkerOptions};

use crate::{
    Mail,
    driver::{Driver, Parts, WAKE},
    mailbox::{Postbox, mailbox},
    passwords::PasswordThread,
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
    shared: Arc<Shared>,
}

impl DataPlane {
    /// Opens the listeners and starts the workers.
    ///
    /// # Errors
    /// The address that can't be listened at, and why; or the system's reason why no thread, key
    /// or poller is to be had.
    pub fn start(options: PlaneOptions) -> Result<Self, String> {
        let settings = &options.snapshot.settings;
        let mut listeners = Vec::new();
        for address in &settings.listen {
            let listener = Listener::open(address)
                .map_err(|error| format!("can't listen at {address}: {error}"))?;
            listeners.push(listener);
        }
        let listen = listeners.iter().map(|listener| listener.address().clone()).collect();
        let key = PrivateKey::generate().map_err(|error| format!("no RSA key: {error}"))?;
        let shared =
            Shared::new(Some(key.public_key_pem().to_vec()), settings.verified_passwords_max);
        let shared = Arc::new(shared.with_attributes(own_attributes()));
        let passwords = PasswordThread::start(Arc::new(key)).map_err(|e| e.to_string())?;
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
        let mut plane = Self { postboxes, threads: Vec::new(), listen, tcp, shared };
        if let Some(problem) = plane.open_tcp(&options.snapshot).into_iter().next() {
            return Err(problem);
        }
        let started = Instant::now();
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
                keepalive,
                started,
                snapshot: Arc::clone(&options.snapshot),
                greeting: Arc::clone(&options.greeting),
                tls: Arc::clone(&options.tls),
                look_up_users: Arc::clone(&options.look_up_users),
                ask_server: Arc::clone(&options.ask_server),
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

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.postboxes.len()
    }

    /// Has all workers serve a configuration. TCP listeners that can't be opened are said; they
    /// are tried again with the next one.
    pub fn publish(&self, snapshot: &Arc<Snapshot>) -> Vec<String> {
        for postbox in &self.postboxes {
            postbox.send(Mail::Snapshot(Arc::clone(snapshot)));
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
                    tracing::info!("listening on {bound}, for any protocol");
                    open.insert(address.clone(), bound);
                }
                Err(error) => problems.push(format!("can't listen at {address}: {error}")),
            }
        }
        problems
    }

    fn open_for_each_worker(&self, address: &ListenAddress) -> io::Result<ListenAddress> {
        // Workers share their ports, and so would another process of the same account, without
        // an error and with half of the clients.
        if let ListenAddress::Tcp(addr) = address {
            drop(std::net::TcpListener::bind(addr)?);
        }
        let first = Listener::open(address)?;
        let bound = first.address().clone();
        let others = self.postboxes.iter().skip(1).map(|_| first.share());
        let mut listeners = others.collect::<io::Result<Vec<_>>>()?;
        listeners.push(first);
        for (postbox, listener) in self.postboxes.iter().zip(listeners) {
            postbox.send(Mail::Listen(address.clone(), listener));
        }
        Ok(bound)
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
            postbox.send(Mail::UsersLookedUp);
        }
    }

    /// Has all workers greet new clients so.
    pub fn greet(&self, greeting: &Arc<Greeting>) {
        for postbox in &self.postboxes {
            postbox.send(Mail::Greeting(Arc::clone(greeting)));
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

    /// Asks all workers; the answers that come in time.
    fn ask<T: Send + 'static>(
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

    /// Whether any worker has ended.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
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
    keepalive: Option<Keepalive>,
    started: Instant,
    snapshot: Arc<Snapshot>,
    greeting: Arc<Greeting>,
    tls: Arc<TlsSetup>,
    look_up_users: Arc<dyn Fn() + Send + Sync>,
    ask_server: Arc<dyn Fn(LoginQuestion) + Send + Sync>,
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
        worker.offer_tls(self.tls.acceptor().is_some());
        let parts = Parts {
            worker,
            seed,
            poller: self.poller,
            listeners: self.listeners,
            mail: self.mail,
            own: self.own,
            peers: self.peers,
            index: self.index,
            passwords: self.passwords,
            keepalive: self.keepalive,
            tls: self.tls,
            look_up_users: self.look_up_users,
            ask_server: self.ask_server,
            started: self.started,
        };
        Driver::new(parts).run(self.snapshot)
    }
}
