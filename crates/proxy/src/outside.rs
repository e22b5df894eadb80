//! What a worker's shell finds outside: the kernel's sockets, and other threads.

use std::{
    fmt::Debug,
    io,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::{error, warn};
use trunkline_config::Snapshot;
use trunkline_net::{Event as Ready, Events, Stream, Token};
use trunkline_stats::Report;
use trunkline_topology::{Address, HostName, Server, TlsParams};
use trunkline_worker::{
    Now, Peer, Side, Worker,
    shell::{Connecting, Event, Fill, Io, NotBegun, Place, Readiness, Request},
};

use crate::{
    Mail,
    administrators::Administrators,
    driver::{Parts, WAKE},
    mailbox::WorkerMail,
    relays::{RelayIo, Relays},
    sockets::{Encryption, Socket},
};

/// Bytes read at once: the worker's one scratch buffer.
const SCRATCH_LEN: usize = 64 * 1024;
/// Tokens below this are the driver's own.
const FIRST_TOKEN: usize = 64;

/// The kernel and the other threads, as one worker has them.
pub(crate) struct Outside {
    pub(crate) parts: Parts,
    pub(crate) relays: Relays,
    scratch: Box<[u8]>,
    pub(crate) administrators: Administrators,
    /// The events of the last wait, of which some have been told.
    ready: Vec<Ready>,
    told: usize,
    /// Mail has come, and is read to its end before the next event.
    has_mail: bool,
    /// The worker has been told to stop.
    is_stopping: bool,
}

impl Outside {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            relays: Relays::new(parts.options.seed),
            parts,
            scratch: vec![0; SCRATCH_LEN].into_boxed_slice(),
            administrators: Administrators::default(),
            ready: Vec::new(),
            told: 0,
            has_mail: false,
            is_stopping: false,
        }
    }

    /// Whether something beside the worker is known to have more than the last batch took.
    pub(crate) fn has_more(&self) -> bool {
        self.relays.has_more() || self.administrators.has_readers()
    }

    /// The TCP listeners' part, and what it works with.
    fn relaying(&mut self) -> (&mut Relays, RelayIo<'_>) {
        let (poller, keepalive) = (&mut self.parts.poller, self.parts.keepalive);
        (&mut self.relays, RelayIo { poller, scratch: &mut self.scratch, keepalive })
    }

    pub(crate) fn configure_relays(&mut self, snapshot: &Snapshot) {
        let (relays, mut means) = self.relaying();
        relays.configure(snapshot, &mut means);
    }

    /// These events are the next batch's.
    pub(crate) fn begin_batch(&mut self, now: Now, events: &Events) {
        self.ready.clear();
        self.ready.extend(events.iter());
        self.told = 0;
        let (relays, mut means) = self.relaying();
        relays.begin_batch(now.ms(), &mut means);
    }

    /// What is no event of the worker's, behind those of a batch.
    pub(crate) fn end_batch(&mut self, worker: &mut Worker) {
        let (relays, mut means) = self.relaying();
        relays.tick(&mut means);
        self.administrators.read_digests(worker);
        let spans = worker.spans_mut();
        if !spans.is_empty() {
            let lost = self.parts.spans.put(spans);
            worker.counters_mut().trace_ring_full += lost;
        }
    }

    /// What a token's event is to the shell; `None` when it is none of the shell's.
    #[inline]
    fn event_of(&mut self, ready: Ready) -> Option<Event<Socket>> {
        let Ready { token, readable, writable, ended } = ready;
        if token == WAKE {
            self.has_mail = true;
            return None;
        }
        if Relays::owns(token) {
            let (relays, mut means) = self.relaying();
            relays.event(ready, &mut means);
            return None;
        }
        match token.0.checked_sub(FIRST_TOKEN) {
            Some(place) => {
                Some(Event::Ready(Place(place), Readiness { readable, writable, ended }))
            }
            None => Some(Event::Knock(token.0 - 1)),
        }
    }

    /// What a letter is to the worker; `None` when it has nothing to do with it.
    fn open(&mut self, mail: Mail) -> Option<Event<Socket>> {
        let event = match mail {
            Mail::Worker(mail) => {
                if let WorkerMail::Snapshot(snapshot, _) = &mail {
                    self.configure_relays(snapshot);
                }
                Event::Mail(mail)
            }
            Mail::Listen(address, listener) => {
                let (relays, mut means) = self.relaying();
                relays.listen(&address, listener, &mut means);
                return None;
            }
            Mail::Report(digests, answer) => {
                let tcp = self.relays.report();
                visit(move |worker| answer(Report { tcp, ..worker.report(digests) }))
            }
            Mail::Sessions(query, answer) => visit(move |worker| answer(worker.sessions(query))),
            Mail::Inventory(rows_max, answer) => {
                visit(move |worker| answer(worker.inventory(rows_max)))
            }
            Mail::Listeners(listeners, done) => {
                if !self.is_stopping {
                    self.listen_at(listeners);
                }
                done(());
                return None;
            }
            Mail::PauseHostgroup(hostgroup, for_ms, done) => visit(move |worker| {
                worker.pause_hostgroup(hostgroup, for_ms);
                done(());
            }),
            Mail::Digests(take) => {
                self.administrators.give_digests(take);
                return None;
            }
            Mail::KillFor(number, scope, tell) => {
                let request =
                    self.administrators.kill(self.parts.options.index, number, scope, tell);
                Event::Mail(WorkerMail::Kill(request))
            }
            Mail::Stop(within_ms) => Event::Mail(WorkerMail::Stop(self.stop(within_ms))),
            Mail::Tls(setup) => {
                let is_offered = setup.acceptor().is_some();
                self.parts.tls = setup;
                Event::Mail(WorkerMail::OfferTls(is_offered))
            }
        };
        Some(event)
    }

    /// Accepts nobody from now on; until when everybody may stay, ms.
    fn stop(&mut self, within_ms: u64) -> u64 {
        self.is_stopping = true;
        self.remove_listeners();
        let deadline_ms = self.parts.now_us() / 1_000 + within_ms;
        let (relays, mut means) = self.relaying();
        relays.stop(deadline_ms, &mut means);
        deadline_ms
    }
}

fn visit(look: impl FnOnce(&mut Worker) + 'static) -> Event<Socket> {
    Event::Visit(Box::new(look))
}

impl Io for Outside {
    type Stream = Socket;

    #[inline]
    fn next_event(&mut self) -> Option<Event<Socket>> {
        loop {
            let event = match self.has_mail {
                true => match self.parts.mail.try_recv() {
                    Ok(mail) => self.open(mail),
                    Err(_) => {
                        self.has_mail = false;
                        None
                    }
                },
                false => {
                    let ready = self.ready.get(self.told).copied()?;
                    self.told += 1;
                    self.event_of(ready)
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    fn accept(&mut self, listener: usize) -> io::Result<(Socket, Peer)> {
        let Some(socket) = self.parts.listeners.get(listener) else {
            // It has been closed meanwhile.
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let accepted = socket.accept(self.parts.keepalive).inspect_err(|error| {
            let is_usual =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            if !is_usual {
                warn!(%error, "a client could not be accepted");
            }
        })?;
        let peer = Peer {
            client_addr: accepted.client_addr,
            host_name: HostName::Unasked,
            client_uid: accepted.client_uid,
            told: None,
            proxy_addr: accepted.proxy_addr.map(|addr| addr.ip().to_canonical()),
            proxy_port: accepted.proxy_addr.map(|addr| addr.port()),
            listener,
            is_local: accepted.client_addr.is_none_or(|addr| addr.is_loopback()),
            tls: None,
        };
        Ok((Socket(accepted.stream), peer))
    }

    fn nonce(&mut self) -> [u8; 20] {
        trunkline_crypto::nonce()
    }

    fn register(&mut self, stream: &mut Socket, side: Side) -> io::Result<()> {
        self.parts.poller.add_stream(&mut stream.0, token_of(Place::of(side)))
    }

    fn detach(&mut self, stream: &mut Socket) -> bool {
        self.parts.poller.remove_stream(&mut stream.0).is_ok()
    }

    #[inline]
    fn close(&mut self, stream: Socket, _: &str) {
        drop(stream);
    }

    #[inline]
    fn scratch(&mut self) -> &mut [u8] {
        &mut self.scratch
    }

    #[inline]
    fn read(&mut self, stream: &mut Socket, room: Range<usize>) -> io::Result<usize> {
        let room = self.scratch.get_mut(room).unwrap_or_default();
        self.parts.poller.read(&mut stream.0, room)
    }

    #[inline]
    fn write(&mut self, stream: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
        self.parts.poller.write(&mut stream.0, bytes)
    }

    #[inline]
    fn writes_many(&self) -> bool {
        self.parts.poller.writes_many()
    }

    fn write_many<'a>(&mut self, fill: impl Fill<'a, Socket>, results: &mut Vec<io::Result<usize>>)
    where
        Socket: 'a,
    {
        let written = self.parts.poller.write_many(
            |writing| fill.fill(|socket: &'a Socket, bytes| writing.add(&socket.0, bytes)),
            results,
        );
        if let Err(error) = written {
            // The next wait fails for the same reason, and ends the worker.
            error!(%error, "io_uring has failed");
        }
    }

    fn look(&mut self) -> bool {
        self.parts.poller.look().is_ok()
    }

    fn connect(
        &mut self,
        _: Side,
        server: &Server,
        attempt: usize,
    ) -> Option<Result<Socket, NotBegun>> {
        let is_first = attempt == 0;
        let stream = match &server.key.address {
            Address::Unix(path) => is_first.then(|| Stream::connect_unix(path))?,
            Address::Tcp { host, .. } if server.resolved.is_empty() => {
                return is_first
                    .then(|| Err(format!("the host name {host} is not resolved").into()));
            }
            Address::Tcp { .. } => {
                let address = server.resolved.get(attempt)?;
                Stream::connect_tcp(*address, self.parts.keepalive)
            }
        };
        let not_begun = |error: std::io::Error| NotBegun {
            reason: error.to_string(),
            is_own: trunkline_net::is_own_failure(&error),
        };
        Some(stream.map(Socket).map_err(not_begun))
    }

    fn connecting(&mut self, stream: &mut Socket, place: Place) -> Connecting {
        match self.parts.poller.connecting(&mut stream.0, token_of(place)) {
            trunkline_net::Connecting::Pending => Connecting::Pending,
            trunkline_net::Connecting::Done => Connecting::Done,
            trunkline_net::Connecting::Failed(reason) => Connecting::Failed(reason),
        }
    }

    fn accept_tls(&mut self, _: &mut Socket) -> Result<Encryption, String> {
        Encryption::accept(&self.parts.tls)
    }

    fn connect_tls(
        &mut self,
        _: &mut Socket,
        server: &Server,
        params: &Arc<TlsParams>,
    ) -> Result<Encryption, String> {
        Encryption::connect(&self.parts.tls, server, params)
    }

    fn post(&mut self, to: usize, mail: WorkerMail) -> Option<WorkerMail> {
        match self.parts.peers.get(to) {
            Some(peer) => peer.post(mail),
            None => Some(mail),
        }
    }

    fn ask(&mut self, worker: &mut Worker, request: Request) {
        self.pass_on(worker, request);
    }

    fn guarded<T>(side: Side, what: &'static str, step: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(step)).ok();
        if result.is_none() {
            say_panic(&side, what);
        }
        result
    }
}

#[cold]
fn say_panic(side: &dyn Debug, what: &'static str) {
    error!(?side, "{what}");
}

/// The token of a socket.
fn token_of(Place(place): Place) -> Token {
    Token(FIRST_TOKEN + place)
}
