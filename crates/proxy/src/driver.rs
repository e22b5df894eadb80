//! A worker's loop: wait, read what is ready, let the worker decide, carry out what it asks for,
//! and write to each touched socket once.

use std::{
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tracing::{error, info, warn};
use trunkline_cache::Waiter;
use trunkline_config::Snapshot;
use trunkline_net::{
    Connecting, Event, Events, Keepalive, Listener, Poller, Sealed, Stream, Tls, TlsSetup, Token,
};
use trunkline_stats::Report;
use trunkline_topology::{Address, HostName, Server, wipe};
use trunkline_worker::{
    Action, CatalogAsk, ClientId, ConnId, KillRequest, MovedClient, MovedConn, Now, Peer, Side,
    Worker, by_worker,
};

use crate::{
    CatalogQuestion, HostQuestion, LoginQuestion, Mail,
    administrators::Administrators,
    event_log::{EventLog, Log},
    mailbox::Postbox,
    passwords::{Job, PasswordThread},
    relays::{RelayIo, Relays},
    shared_cache::SharedCacheThread,
    sockets::{Socket, Sockets, token_of},
    writing::WriteBatch,
};

/// Bytes read at once: the worker's one scratch buffer.
const SCRATCH_LEN: usize = 64 * 1024;
/// Events taken from the kernel in one wait.
const EVENTS_MAX: usize = 1_024;
/// Clients accepted in one batch, so that those connected already are not kept waiting.
const ACCEPTS_PER_BATCH: usize = 256;
/// Reads from one socket in one batch, for the same reason: 16 × 64 KiB.
const READS_PER_BATCH: usize = 16;
/// Ends a wait when mail has come.
pub(crate) const WAKE: Token = Token(0);

/// What a driver is made of.
pub(crate) struct Parts {
    pub worker: Worker,
    /// For choices by chance; another one for each worker.
    pub seed: u64,
    pub poller: Poller,
    pub listeners: Vec<Listener>,
    pub mail: Receiver<Mail>,
    pub own: Postbox,
    pub peers: Vec<Postbox>,
    pub index: usize,
    pub passwords: PasswordThread,
    pub shared_cache: SharedCacheThread,
    pub keepalive: Option<Keepalive>,
    pub tls: Arc<TlsSetup>,
    pub look_up_users: Arc<dyn Fn() + Send + Sync>,
    pub ask_server: Arc<dyn Fn(LoginQuestion) + Send + Sync>,
    pub look_up_host: Arc<dyn Fn(HostQuestion) + Send + Sync>,
    pub ask_catalog: Arc<dyn Fn(CatalogQuestion) + Send + Sync>,
    pub events: EventLog,
    pub started: Instant,
}

/// One worker with its sockets, on one thread.
pub(crate) struct Driver {
    pub(crate) parts: Parts,
    pub(crate) sockets: Sockets,
    relays: Relays,
    pub(crate) scratch: Box<[u8]>,
    /// Records on their way to a socket.
    pub(crate) sealed: Sealed,
    /// Sockets that may have more to read than one batch took.
    unfinished: Vec<Side>,
    pub(crate) accepting: Vec<usize>,
    pub(crate) administrators: Administrators,
    pub(crate) writing: WriteBatch,
    /// The worker has ended all its sessions.
    is_stopped: bool,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            relays: Relays::new(parts.seed),
            parts,
            sockets: Sockets::default(),
            scratch: vec![0; SCRATCH_LEN].into_boxed_slice(),
            sealed: Sealed::default(),
            unfinished: Vec::new(),
            accepting: Vec::new(),
            writing: WriteBatch::default(),
            administrators: Administrators::default(),
            is_stopped: false,
        }
    }

    /// Runs until the worker has stopped. The snapshot is the first configuration.
    pub(crate) fn run(mut self, snapshot: Arc<Snapshot>) -> io::Result<()> {
        self.add_listeners()?;
        let (relays, mut means) = self.relaying();
        relays.configure(&snapshot, &mut means);
        drop(snapshot);
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.is_stopped || !self.relays.is_empty() {
            let within_ms = self.parts.worker.tick_within_ms().min(self.relays.tick_within_ms());
            let wait_ms = if self.has_more() { 0 } else { within_ms };
            self.parts.poller.wait(&mut events, Some(Duration::from_millis(wait_ms)))?;
            self.batch(&events);
            self.pause();
        }
        Ok(())
    }

    /// Whether sockets are known to have more than the last batch took.
    fn has_more(&self) -> bool {
        !self.unfinished.is_empty()
            || !self.accepting.is_empty()
            || self.relays.has_more()
            || self.administrators.has_readers()
    }

    /// The TCP listeners' part, and what it works with.
    fn relaying(&mut self) -> (&mut Relays, RelayIo<'_>) {
        let (poller, keepalive) = (&mut self.parts.poller, self.parts.keepalive);
        (&mut self.relays, RelayIo { poller, scratch: &mut self.scratch, keepalive })
    }

    fn batch(&mut self, events: &Events) {
        let now = self.now();
        self.parts.worker.begin_batch(now);
        self.parts.worker.counters_mut().batches += 1;
        let (relays, mut means) = self.relaying();
        relays.begin_batch(now.ms(), &mut means);
        for side in std::mem::take(&mut self.unfinished) {
            self.read(side);
        }
        for number in std::mem::take(&mut self.accepting) {
            self.accept(number);
        }
        for event in events.iter() {
            self.event(event);
        }
        let (relays, mut means) = self.relaying();
        relays.tick(&mut means);
        self.parts.worker.tick();
        self.settle();
        self.read_digests();
    }

    /// Leaves the sockets alone for a moment, if the worker expects more to come meanwhile.
    fn pause(&mut self) {
        let pause_us = self.parts.worker.pause_us();
        if pause_us > 0 && !self.has_more() && !self.is_stopped {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
    }

    fn now(&self) -> Now {
        let us = self.parts.started.elapsed().as_micros();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { us: u64::try_from(us).unwrap_or(u64::MAX), unix_sec: unix.as_secs() }
    }

    fn event(&mut self, event: Event) {
        if event.token == WAKE {
            return self.open_mail();
        }
        if Relays::owns(event.token) {
            let (relays, mut means) = self.relaying();
            return relays.event(event, &mut means);
        }
        let Some(side) = self.sockets.side_of(event.token) else {
            if event.token.0 <= self.parts.listeners.len() {
                self.accept(event.token.0 - 1);
            }
            return;
        };
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        if socket.is_connecting {
            return self.check_connecting(side);
        }
        socket.has_ended |= event.ended;
        if event.writable && socket.is_full {
            socket.is_full = false;
            self.write(side);
        }
        if event.readable || event.ended {
            self.read(side);
        }
    }

    fn accept(&mut self, number: usize) {
        for _ in 0..ACCEPTS_PER_BATCH {
            let Some(listener) = self.parts.listeners.get(number) else {
                return;
            };
            match listener.accept(self.parts.keepalive) {
                Ok(accepted) => self.welcome(accepted, number),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.parts.worker.counters_mut().accept_errors += 1;
                    warn!(%error, "a client could not be accepted");
                    return;
                }
            }
        }
        self.accepting.push(number);
    }

    fn welcome(&mut self, accepted: trunkline_net::Accepted, listener: usize) {
        let peer = Arc::new(Peer {
            client_addr: accepted.client_addr,
            host_name: HostName::Unasked,
            client_uid: accepted.client_uid,
            told: None,
            proxy_addr: accepted.proxy_addr.map(|addr| addr.ip().to_canonical()),
            proxy_port: accepted.proxy_addr.map(|addr| addr.port()),
            listener,
            is_local: accepted.client_addr.is_none_or(|addr| addr.is_loopback()),
            tls: self.parts.worker.listener_tls(listener),
        });
        let Some(id) = self.parts.worker.accept(peer, trunkline_crypto::nonce()) else {
            return;
        };
        let side = Side::Client(id);
        self.add(Socket::new(accepted.stream, side));
    }

    /// Registers a socket; what can't be registered is closed.
    fn add(&mut self, mut socket: Socket) {
        let side = socket.side;
        match self.parts.poller.add_stream(&mut socket.stream, token_of(side)) {
            Ok(()) => self.sockets.insert(socket),
            Err(error) => self.ended(side, &error.to_string()),
        }
    }

    /// Reads what a socket has. A read that fills less than the buffer has taken everything,
    /// unless the socket has ended: then reading goes on until it says so.
    pub(crate) fn read(&mut self, side: Side) {
        for _ in 0..READS_PER_BATCH {
            let Some(socket) = self.sockets.get_mut(side) else {
                return;
            };
            if socket.is_paused || socket.is_connecting {
                socket.is_readable = true;
                return;
            }
            let (has_ended, is_sealed) = (socket.has_ended, socket.tls.is_some());
            self.parts.worker.counters_mut().socket_reads += 1;
            // What waits for the rest of a record goes first.
            let begin = socket.tls.as_ref().map_or(0, |tls| tls.waiting_len());
            let room = self.scratch.get_mut(begin..).unwrap_or_default();
            let wanted = room.len();
            match self.parts.poller.read(&mut socket.stream, room) {
                Ok(0) => return self.ended(side, "the connection was closed"),
                Ok(len) => {
                    match is_sealed {
                        true => self.deliver_sealed(side, begin + len),
                        false => self.deliver(side, len),
                    }
                    if len < wanted && !has_ended {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.ended(side, &error.to_string()),
            }
            // What was just read may have paused this socket.
            self.act();
        }
        self.unfinished.push(side);
    }

    fn deliver(&mut self, side: Side, len: usize) {
        let Some(bytes) = self.scratch.get(..len) else {
            return;
        };
        deliver(&mut self.parts.worker, side, bytes);
    }

    pub(crate) fn ended(&mut self, side: Side, reason: &str) {
        self.sockets.remove(side);
        match side {
            Side::Client(id) => self.parts.worker.client_closed(id),
            Side::Server(id) => self.parts.worker.server_closed(id, reason),
        }
    }

    /// Carries out actions and writes, until nothing is left to do.
    fn settle(&mut self) {
        loop {
            self.act();
            if !self.write_some() {
                break;
            }
        }
        self.parts.worker.let_leave();
        self.act();
    }

    fn act(&mut self) {
        loop {
            let mut actions = self.parts.worker.take_actions();
            if actions.is_empty() {
                return self.parts.worker.recycle_actions(actions);
            }
            for action in actions.drain(..) {
                self.carry_out(action);
            }
            self.parts.worker.recycle_actions(actions);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Open { conn, server } => self.open(conn, &server),
            Action::CloseClient { client, now } => self.close_client(client, now),
            Action::CloseServer { conn, farewell } => {
                self.say_farewell(Side::Server(conn), farewell);
                self.sockets.remove(Side::Server(conn));
            }
            Action::StartClientTls(client) => self.start_client_tls(client),
            Action::StartServerTls { conn, server, params } => {
                self.start_server_tls(conn, &server, &params);
            }
            Action::Pause(side) => {
                if let Some(socket) = self.sockets.get_mut(side) {
                    socket.is_paused = true;
                    // Whether more came meanwhile is not known, and asked when it goes on.
                    socket.is_readable = true;
                }
            }
            Action::Resume(side) => {
                if let Some(socket) = self.sockets.get_mut(side) {
                    socket.is_paused = false;
                    if std::mem::take(&mut socket.is_readable) {
                        self.unfinished.push(side);
                    }
                }
            }
            Action::Probe(conn) => {
                if self.parts.poller.look().is_ok() {
                    self.read(Side::Server(conn));
                }
            }
            Action::Decrypt { client, ciphertext } => {
                self.compute(Job::Decrypt(client, ciphertext));
            }
            Action::VerifyHash { client, clear, hash } => {
                self.compute(Job::VerifyHash(client, clear, hash));
            }
            Action::Encrypt { conn, public_key_pem, plaintext } => {
                self.compute(Job::Encrypt(conn, public_key_pem, plaintext));
            }
            Action::Derive { conn, password, derivation } => {
                self.compute(Job::Derive(conn, password, derivation));
            }
            Action::AskServer { client, name, hostgroup, clear } => {
                let own = self.parts.own.clone();
                let answer = Box::new(move |is_right| {
                    own.send(Mail::Verified(client, is_right));
                });
                (self.parts.ask_server)(LoginQuestion { name, hostgroup, clear, answer });
            }
            Action::Wipe => wipe(&mut self.scratch),
            Action::LookUpUsers => (self.parts.look_up_users)(),
            Action::LookUpHost(addr) => {
                let own = self.parts.own.clone();
                let answer = Box::new(move |answer| {
                    own.send(Mail::HostNamed(addr, answer));
                });
                (self.parts.look_up_host)(HostQuestion { addr, answer });
            }
            Action::AskCatalog(ask) => self.ask_catalog(ask),
            Action::AskPeers(key) => {
                for (index, peer) in self.parts.peers.iter().enumerate() {
                    if index != self.parts.index {
                        peer.send(Mail::PeerAsks(key.clone(), self.parts.index));
                    }
                }
            }
            Action::HandOver { conn, moved, to } => self.hand_over(conn, moved, to),
            Action::MoveClient { client, moved, to } => self.move_client(client, moved, to),
            Action::ClientLeft { to, number } => {
                if let Some(peer) = self.parts.peers.get(to) {
                    peer.send(Mail::ClientLeft(number));
                }
            }
            Action::Kill { to, request } => self.ask_to_kill(to, request),
            Action::Killed { asker, answer } => {
                if let Some(peer) = self.parts.peers.get(asker.worker) {
                    peer.send(Mail::Killed(asker, answer));
                }
            }
            Action::TellAdministrator { ticket, answer } => {
                self.administrators.tell(ticket, answer);
            }
            Action::WakeCached { to, clients } => {
                if let Some(peer) = self.parts.peers.get(to) {
                    peer.send(Mail::CacheWoken(clients));
                }
            }
            Action::AskShared(ask) => {
                let Waiter { index, generation, .. } = ask.waiter;
                if !self.parts.shared_cache.ask(ask) {
                    self.parts.worker.cache_woken(vec![ClientId { index, generation }]);
                }
            }
            Action::StoreShared(store) => self.parts.shared_cache.store(store),
            Action::LogQuery(event) => self.log_event(Log::Query, event.line(unix_us())),
            Action::LogSession(event) => self.log_event(Log::Audit, event.line(unix_us())),
            Action::Log(line) if line.is_warning => warn!("{}", line.text),
            Action::Log(line) => info!("{}", line.text),
            Action::Stopped => self.is_stopped = true,
        }
    }

    fn log_event(&mut self, log: Log, line: String) {
        if !self.parts.events.write(log, line) {
            self.parts.worker.counters_mut().log_lines_dropped += 1;
        }
    }

    /// A worker that has ended has no client to end.
    fn ask_to_kill(&mut self, to: usize, request: Box<KillRequest>) {
        let asker = request.asker;
        let is_sent = self.parts.peers.get(to).is_some_and(|peer| peer.send(Mail::Kill(request)));
        if !is_sent {
            self.parts.worker.kill_undelivered(asker);
        }
    }

    /// Clients of any worker may wait for the answer.
    fn ask_catalog(&self, ask: Box<CatalogAsk>) {
        let peers = self.parts.peers.clone();
        let told = Box::new(move |waiters: Vec<trunkline_catalog::Waiter>| {
            for (worker, clients) in by_worker(waiters) {
                if let Some(peer) = peers.get(worker) {
                    peer.send(Mail::CatalogTold(clients));
                }
            }
        });
        (self.parts.ask_catalog)(CatalogQuestion { ask, told });
    }

    fn compute(&self, job: Job) {
        self.parts.passwords.send(job, self.parts.own.clone());
    }

    fn close_client(&mut self, client: ClientId, now: bool) {
        let side = Side::Client(client);
        let is_empty = self.parts.worker.pending(side).is_empty();
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        match now || is_empty {
            true => self.ended(side, "closed"),
            // Bytes wait: they are written after the actions.
            false => socket.is_closing = true,
        }
    }

    fn open(&mut self, conn: ConnId, server: &Server) {
        let side = Side::Server(conn);
        let stream = match &server.key.address {
            Address::Unix(path) => Stream::connect_unix(path),
            Address::Tcp { host, .. } => {
                let mut addresses = server.resolved.clone();
                if addresses.is_empty() {
                    let reason = format!("the host name {host} is not resolved");
                    return self.parts.worker.server_failed(conn, &reason);
                }
                let first = addresses.remove(0);
                return self.connect(side, first, addresses);
            }
        };
        match stream {
            Ok(stream) => self.begin_connecting(side, stream, Vec::new()),
            Err(error) => self.parts.worker.server_failed(conn, &error.to_string()),
        }
    }

    fn connect(&mut self, side: Side, first: SocketAddr, others: Vec<SocketAddr>) {
        match Stream::connect_tcp(first, self.parts.keepalive) {
            Ok(stream) => self.begin_connecting(side, stream, others),
            Err(error) => self.connect_next(side, others, &error.to_string()),
        }
    }

    fn connect_next(&mut self, side: Side, mut others: Vec<SocketAddr>, reason: &str) {
        match others.is_empty() {
            true => self.ended(side, reason),
            false => {
                let next = others.remove(0);
                self.connect(side, next, others);
            }
        }
    }

    fn begin_connecting(&mut self, side: Side, stream: Stream, others: Vec<SocketAddr>) {
        let mut socket = Socket::new(stream, side);
        socket.is_connecting = true;
        socket.alternatives = others;
        self.add(socket);
        self.check_connecting(side);
    }

    fn check_connecting(&mut self, side: Side) {
        let Some(socket) = self.sockets.get_mut(side) else {
            return;
        };
        match self.parts.poller.connecting(&mut socket.stream, token_of(side)) {
            Connecting::Pending => {}
            Connecting::Failed(reason) => {
                let others = std::mem::take(&mut socket.alternatives);
                self.connect_next(side, others, &reason);
            }
            Connecting::Done => {
                socket.is_connecting = false;
                if let Side::Server(conn) = side {
                    self.parts.worker.server_connected(conn);
                }
                self.write(side);
                self.read(side);
            }
        }
    }

    fn hand_over(&mut self, conn: ConnId, moved: Box<MovedConn>, to: usize) {
        let socket = self.sockets.remove(Side::Server(conn));
        let Some(mut socket) = socket else {
            return moved.give_up();
        };
        let is_free = self.parts.poller.remove_stream(&mut socket.stream).is_ok();
        match self.parts.peers.get(to).filter(|_| is_free) {
            Some(peer) => {
                peer.send(Mail::HandedOver(moved, socket.stream, socket.tls));
            }
            None => moved.give_up(),
        }
    }

    fn move_client(&mut self, client: ClientId, moved: Box<MovedClient>, to: usize) {
        let Some(mut socket) = self.sockets.remove(Side::Client(client)) else {
            return self.parts.worker.client_lost(*moved);
        };
        let is_free = self.parts.poller.remove_stream(&mut socket.stream).is_ok();
        match self.parts.peers.get(to).filter(|_| is_free) {
            Some(peer) => {
                let has_ended = socket.has_ended;
                peer.send(Mail::MovedClient(moved, socket.stream, socket.tls, has_ended));
            }
            None => self.parts.worker.client_lost(*moved),
        }
    }

    /// Another worker's client: what it has sent meanwhile is read at once.
    fn take_client(
        &mut self,
        moved: MovedClient,
        stream: Stream,
        tls: Option<Box<Tls>>,
        has_ended: bool,
    ) {
        let side = Side::Client(self.parts.worker.adopt_client(moved));
        let mut socket = Socket::new(stream, side);
        socket.tls = tls;
        socket.has_ended = has_ended;
        self.add(socket);
        if let Side::Client(id) = side {
            self.parts.worker.client_adopted(id);
        }
        self.write(side);
        self.unfinished.push(side);
    }

    fn open_mail(&mut self) {
        while let Ok(mail) = self.parts.mail.try_recv() {
            self.mail(mail);
        }
    }

    fn mail(&mut self, mail: Mail) {
        let worker = &mut self.parts.worker;
        match mail {
            Mail::Snapshot(snapshot, _others) => {
                worker.apply_snapshot(Arc::clone(&snapshot));
                let (relays, mut means) = self.relaying();
                relays.configure(&snapshot, &mut means);
            }
            Mail::Listen(address, listener) => {
                let (relays, mut means) = self.relaying();
                relays.listen(&address, listener, &mut means);
            }
            Mail::Greeting(greeting) => worker.apply_greeting(greeting),
            Mail::Report(digests, answer) => {
                let tcp = self.relays.report();
                answer(Report { tcp, ..worker.report(digests) });
            }
            Mail::Sessions(query, answer) => answer(worker.sessions(query)),
            Mail::Listeners(listeners, done) => {
                self.listen_at(listeners);
                done(());
            }
            Mail::Inventory(rows_max, answer) => answer(worker.inventory(rows_max)),
            Mail::Digests(take) => self.give_digests(take),
            Mail::EndClients => worker.end_clients(),
            Mail::KillFor(number, scope, answer) => self.kill_for(number, scope, answer),
            Mail::Stop(within_ms) => self.stop(within_ms),
            Mail::Decrypted(client, clear) => worker.client_decrypted(client, clear),
            Mail::Derived(conn, seed) => worker.server_derived(conn, seed),
            Mail::UsersLookedUp => worker.users_looked_up(),
            Mail::HostNamed(addr, answer) => worker.host_named(addr, answer),
            Mail::Verified(client, is_right) => worker.client_verified(client, is_right),
            Mail::Encrypted(conn, cipher) => worker.server_encrypted(conn, cipher),
            Mail::PeerAsks(key, from) => worker.peer_asks(key, from),
            Mail::Kill(request) => worker.kill_asked(*request),
            Mail::CacheWoken(clients) => worker.cache_woken(clients),
            Mail::CatalogTold(clients) => worker.catalog_told(clients),
            Mail::MovedClient(moved, stream, tls, has_ended) => {
                self.take_client(*moved, stream, tls, has_ended);
            }
            Mail::ClientLeft(number) => worker.client_left(number),
            Mail::Killed(asker, answer) => worker.kill_answered(asker, answer),
            Mail::Tls(setup) => self.apply_tls(setup),
            Mail::HandedOver(moved, stream, tls) => {
                let Some(conn) = worker.adopt(*moved) else {
                    return;
                };
                let mut socket = Socket::new(stream, Side::Server(conn));
                socket.is_readable = true;
                socket.tls = tls;
                self.add(socket);
                self.parts.worker.adopted(conn);
            }
        }
    }

    fn stop(&mut self, within_ms: u64) {
        self.remove_listeners();
        let deadline_ms = self.now().ms() + within_ms;
        self.parts.worker.stop_gracefully(deadline_ms);
        let (relays, mut means) = self.relaying();
        relays.stop(deadline_ms, &mut means);
    }
}

/// Now, in µs of Unix time.
fn unix_us() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(unix.as_micros()).unwrap_or(u64::MAX)
}

/// Hands bytes to the machine. A panic ends the session that they belong to, and no other.
pub(crate) fn deliver(worker: &mut Worker, side: Side, bytes: &[u8]) {
    let step = AssertUnwindSafe(|| match side {
        Side::Client(id) => worker.client_read(id, bytes),
        Side::Server(id) => worker.server_read(id, bytes),
    });
    if catch_unwind(step).is_err() {
        error!(?side, "a session ended by a panic; please report this");
        if catch_unwind(AssertUnwindSafe(|| worker.abandon(side))).is_err() {
            error!(?side, "its connections could not be ended in order");
        }
    }
}
