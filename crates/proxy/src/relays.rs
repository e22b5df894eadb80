//! The sockets of a worker's TCP listeners: reads one end, writes what came straight to the other,
//! and carries out what the relay's machine asks for.

use std::{io, net::SocketAddr};

use tracing::{info, warn};
use trunkline_config::{ListenAddress, Snapshot};
use trunkline_net::{
    Connecting, Event, Keepalive, Listener, Poller, Stream, Token, is_own_failure,
};
use trunkline_stats::TcpListenerRow;
use trunkline_tcp::{Accepted, Action, End, ListenerId, PairId, Relay};
use trunkline_topology::{Address, Server};

/// Clients that a listener accepts in one batch: nobody else is served meanwhile.
const ACCEPTS_PER_BATCH: usize = 16;
/// Reads from one socket in one batch, for the same reason.
const READS_PER_BATCH: usize = 16;

/// Tokens of relayed sockets and their listeners have this bit; others have not.
const OWN_BIT: usize = 1 << (usize::BITS - 2);
/// And this one, when they are a listener's.
const LISTENER_BIT: usize = 1 << (usize::BITS - 3);

/// One socket of a pair.
struct Socket {
    id: PairId,
    stream: Stream,
    /// The kernel said that there may be bytes, and they were not all read.
    is_readable: bool,
    /// The other end has closed: reading goes on until the socket says so.
    has_ended: bool,
    /// The kernel took less than it was given; it says when there is room.
    is_full: bool,
    is_connecting: bool,
    /// Other addresses to try when this one gives no connection.
    alternatives: Vec<SocketAddr>,
}

impl Socket {
    fn new(id: PairId, stream: Stream) -> Self {
        Self {
            id,
            stream,
            is_readable: false,
            has_ended: false,
            is_full: false,
            is_connecting: false,
            alternatives: Vec::new(),
        }
    }
}

/// The token of one end of a pair.
fn token_of(id: PairId, end: End) -> Token {
    Token(OWN_BIT | (id.index as usize) << 1 | end as usize)
}

/// What relaying needs of its driver.
pub(crate) struct RelayIo<'a> {
    pub poller: &'a mut Poller,
    pub scratch: &'a mut [u8],
    pub keepalive: Option<Keepalive>,
}

/// The relayed pairs of one worker.
pub(crate) struct Relays {
    relay: Relay,
    /// By the listener's number.
    listeners: Vec<Option<Listener>>,
    /// By the pair's place: the client's and the server's.
    sockets: Vec<[Option<Socket>; 2]>,
    /// Sockets that may have more to read than one batch took.
    unfinished: Vec<(PairId, End)>,
    accepting: Vec<ListenerId>,
}

impl Relays {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            relay: Relay::new(seed),
            listeners: Vec::new(),
            sockets: Vec::new(),
            unfinished: Vec::new(),
            accepting: Vec::new(),
        }
    }

    /// Whether a token is one of this module's.
    pub(crate) fn owns(token: Token) -> bool {
        token.0 & OWN_BIT != 0
    }

    pub(crate) fn has_more(&self) -> bool {
        !self.unfinished.is_empty() || !self.accepting.is_empty()
    }

    pub(crate) fn tick_within_ms(&self) -> u64 {
        self.relay.tick_within_ms()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.relay.is_empty()
    }

    pub(crate) fn report(&self) -> Vec<TcpListenerRow> {
        self.relay.report()
    }

    pub(crate) fn configure(&mut self, snapshot: &Snapshot, means: &mut RelayIo<'_>) {
        self.relay.configure(&snapshot.tcp);
        self.act(means);
    }

    /// Listens from now on for a configured address.
    pub(crate) fn listen(
        &mut self,
        address: &ListenAddress,
        mut listener: Listener,
        means: &mut RelayIo<'_>,
    ) {
        // One that left the configuration meanwhile is closed here.
        let Some(id) = self.relay.open(address) else { return };
        let token = Token(OWN_BIT | LISTENER_BIT | id.0);
        if let Err(error) = means.poller.add_listener(&mut listener, token) {
            return warn!(%error, "{address}: can't listen");
        }
        if self.listeners.len() <= id.0 {
            self.listeners.resize_with(id.0 + 1, || None);
        }
        if let Some(place) = self.listeners.get_mut(id.0) {
            *place = Some(listener);
        }
    }

    pub(crate) fn stop(&mut self, deadline_ms: u64, means: &mut RelayIo<'_>) {
        self.relay.stop(deadline_ms);
        self.act(means);
    }

    /// What the last batch has left, before the events of this one.
    pub(crate) fn begin_batch(&mut self, now_ms: u64, means: &mut RelayIo<'_>) {
        self.relay.begin_batch(now_ms);
        for (id, from) in std::mem::take(&mut self.unfinished) {
            self.pump(id, from, means);
        }
        for listener in std::mem::take(&mut self.accepting) {
            self.accept(listener, means);
        }
    }

    /// What time alone brings, behind the events of a batch.
    pub(crate) fn tick(&mut self, means: &mut RelayIo<'_>) {
        self.relay.tick();
        self.act(means);
    }

    pub(crate) fn event(&mut self, event: Event, means: &mut RelayIo<'_>) {
        let number = event.token.0 & !OWN_BIT;
        if number & LISTENER_BIT != 0 {
            return self.accept(ListenerId(number & !LISTENER_BIT), means);
        }
        let end = if number & 1 == 0 { End::Client } else { End::Server };
        let Some(socket) = self.at(number >> 1, end) else { return };
        let id = socket.id;
        if socket.is_connecting {
            return self.check_connecting(id, means);
        }
        socket.has_ended |= event.ended;
        socket.is_readable |= event.readable || event.ended;
        if event.writable && socket.is_full {
            socket.is_full = false;
            self.flush(id, end, means);
        }
        if event.readable || event.ended {
            self.pump(id, end, means);
        }
    }

    fn accept(&mut self, number: ListenerId, means: &mut RelayIo<'_>) {
        for _ in 0..ACCEPTS_PER_BATCH {
            let Some(listener) = self.listeners.get(number.0).and_then(Option::as_ref) else {
                return;
            };
            if !self.relay.enter(number) {
                // The machine says when there is room again.
                return;
            }
            match listener.accept(means.keepalive) {
                Ok(client) => self.welcome(number, client, means),
                Err(error) => {
                    self.relay.leave(number);
                    match error.kind() {
                        io::ErrorKind::WouldBlock => return,
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                        _ => return warn!(%error, "a client could not be accepted"),
                    }
                }
            }
        }
        self.accepting.push(number);
    }

    fn welcome(
        &mut self,
        listener: ListenerId,
        client: trunkline_net::Accepted,
        means: &mut RelayIo<'_>,
    ) {
        let (from, to) = (client.client_socket, client.proxy_addr);
        let id = self.relay.accept(Accepted { listener, client: from, proxy: to });
        let is_added = self.add(Socket::new(id, client.stream), End::Client, means);
        if !is_added {
            self.relay.gone(id, End::Client);
        }
        self.act(means);
    }

    /// Registers a socket; false when that can't be, and it is closed.
    fn add(&mut self, mut socket: Socket, end: End, means: &mut RelayIo<'_>) -> bool {
        let index = socket.id.index as usize;
        if means.poller.add_stream(&mut socket.stream, token_of(socket.id, end)).is_err() {
            return false;
        }
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, Default::default);
        }
        if let Some(place) = self.sockets.get_mut(index).and_then(|two| two.get_mut(end as usize)) {
            *place = Some(socket);
        }
        true
    }

    fn at(&mut self, index: usize, end: End) -> Option<&mut Socket> {
        self.sockets.get_mut(index)?.get_mut(end as usize)?.as_mut()
    }

    fn socket(&mut self, id: PairId, end: End) -> Option<&mut Socket> {
        self.at(id.index as usize, end).filter(|socket| socket.id == id)
    }

    /// Takes a socket of exactly this pair out; it closes when it is dropped.
    fn take(&mut self, id: PairId, end: End) -> Option<Socket> {
        self.socket(id, end)?;
        self.sockets.get_mut(id.index as usize)?.get_mut(end as usize)?.take()
    }

    /// Reads one end and writes to the other, until there is nothing to read or no room.
    fn pump(&mut self, id: PairId, from: End, means: &mut RelayIo<'_>) {
        for _ in 0..READS_PER_BATCH {
            if !self.relay.may_read(id, from) {
                return;
            }
            let Some(socket) = self.socket(id, from).filter(|socket| socket.is_readable) else {
                return;
            };
            let has_ended = socket.has_ended;
            match means.poller.read(&mut socket.stream, means.scratch) {
                Ok(0) => {
                    self.relay.ended(id, from);
                    return self.act(means);
                }
                Ok(len) => {
                    // A read that fills less than the buffer has taken everything.
                    socket.is_readable = len == means.scratch.len() || has_ended;
                    self.pass_on(id, from, len, means);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.is_readable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.relay.gone(id, from);
                    return self.act(means);
                }
            }
        }
        self.unfinished.push((id, from));
    }

    /// Writes what was just read to the other end; what it does not take waits.
    fn pass_on(&mut self, id: PairId, from: End, len: usize, means: &mut RelayIo<'_>) {
        let Some(bytes) = means.scratch.get(..len) else { return };
        let to = from.other();
        let Some(sink) = self.socket(id, to) else { return };
        let mut taken = 0;
        let mut failed = false;
        while !sink.is_full && taken < len {
            let rest = bytes.get(taken..).unwrap_or_default();
            match means.poller.write(&mut sink.stream, rest) {
                Ok(part) => {
                    taken += part;
                    sink.is_full = taken < len;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sink.is_full = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    failed = true;
                    break;
                }
            }
        }
        self.relay.relayed(id, from, bytes, taken);
        if failed {
            self.fail_write(id, to, means);
        }
    }

    /// Writes what waits for an end, and goes on reading the other.
    fn flush(&mut self, id: PairId, to: End, means: &mut RelayIo<'_>) {
        loop {
            let pending = self.relay.pending(id, to);
            if pending.is_empty() {
                break;
            }
            let place = self.sockets.get_mut(id.index as usize);
            let socket = place.and_then(|two| two.get_mut(to as usize)?.as_mut());
            let Some(socket) = socket.filter(|socket| socket.id == id && !socket.is_full) else {
                return;
            };
            match means.poller.write(&mut socket.stream, pending) {
                Ok(len) => {
                    socket.is_full = len < pending.len();
                    self.relay.wrote(id, to, len);
                    self.act(means);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.is_full = true;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.fail_write(id, to, means),
            }
        }
        self.pump(id, to.other(), means);
    }

    /// An end takes no more; what it said last may still be readable.
    fn fail_write(&mut self, id: PairId, end: End, means: &mut RelayIo<'_>) {
        self.relay.deaf(id, end);
        if let Some(socket) = self.socket(id, end) {
            socket.has_ended = true;
            socket.is_readable = true;
            self.unfinished.push((id, end));
        }
        self.act(means);
    }

    fn act(&mut self, means: &mut RelayIo<'_>) {
        while self.relay.has_actions() {
            for action in self.relay.take_actions() {
                self.carry_out(action, means);
            }
        }
    }

    fn carry_out(&mut self, action: Action, means: &mut RelayIo<'_>) {
        match action {
            Action::Connect(id, server) => self.open(id, &server, means),
            Action::Abandon(id) => drop(self.take(id, End::Server)),
            Action::Shutdown(id, end) => {
                if let Some(socket) = self.socket(id, end) {
                    // An end that has gone needs no telling.
                    let _ = socket.stream.shutdown_write();
                }
            }
            Action::Close(id) => {
                for end in End::BOTH {
                    drop(self.take(id, end));
                }
            }
            Action::Resume(listener) => self.accepting.push(listener),
            Action::CloseListener(ListenerId(number)) => {
                if let Some(mut listener) = self.listeners.get_mut(number).and_then(Option::take) {
                    let _ = means.poller.remove_listener(&mut listener);
                }
            }
            Action::Log { is_warning: true, text } => warn!("{text}"),
            Action::Log { is_warning: false, text } => info!("{text}"),
        }
    }

    fn open(&mut self, id: PairId, server: &Server, means: &mut RelayIo<'_>) {
        match &server.key.address {
            Address::Unix(path) => match Stream::connect_unix(path) {
                Ok(stream) => self.begin_connecting(id, stream, Vec::new(), means),
                Err(error) => {
                    self.relay.connect_failed(id, &error.to_string(), is_own_failure(&error));
                }
            },
            Address::Tcp { host, .. } if server.resolved.is_empty() => {
                let reason = format!("the host name {host} is not resolved");
                self.relay.connect_failed(id, &reason, false);
            }
            Address::Tcp { .. } => {
                self.connect(id, server.resolved.clone(), "no address", false, means);
            }
        }
    }

    /// Tries the next of a server's addresses; without one the attempt has failed.
    fn connect(
        &mut self,
        id: PairId,
        mut addresses: Vec<SocketAddr>,
        reason: &str,
        is_own: bool,
        means: &mut RelayIo<'_>,
    ) {
        if addresses.is_empty() {
            drop(self.take(id, End::Server));
            return self.relay.connect_failed(id, reason, is_own);
        }
        let next = addresses.remove(0);
        match Stream::connect_tcp(next, means.keepalive) {
            Ok(stream) => self.begin_connecting(id, stream, addresses, means),
            Err(error) => {
                let reason = error.to_string();
                self.connect(id, addresses, &reason, is_own_failure(&error), means);
            }
        }
    }

    fn begin_connecting(
        &mut self,
        id: PairId,
        stream: Stream,
        alternatives: Vec<SocketAddr>,
        means: &mut RelayIo<'_>,
    ) {
        let mut socket = Socket::new(id, stream);
        socket.is_connecting = true;
        socket.alternatives = alternatives;
        match self.add(socket, End::Server, means) {
            true => self.check_connecting(id, means),
            false => self.relay.connect_failed(id, "the socket can't be waited for", true),
        }
    }

    fn check_connecting(&mut self, id: PairId, means: &mut RelayIo<'_>) {
        let Some(socket) = self.socket(id, End::Server).filter(|it| it.is_connecting) else {
            return;
        };
        let token = token_of(id, End::Server);
        match means.poller.connecting(&mut socket.stream, token) {
            Connecting::Pending => {}
            Connecting::Failed(reason) => {
                let others = std::mem::take(&mut socket.alternatives);
                self.connect(id, others, &reason, false, means);
                self.act(means);
            }
            Connecting::Done => {
                socket.is_connecting = false;
                // Either may have sent something already, and nobody says so again.
                for end in End::BOTH {
                    if let Some(socket) = self.socket(id, end) {
                        socket.is_readable = true;
                    }
                }
                self.relay.connected(id);
                self.flush(id, End::Server, means);
                self.pump(id, End::Server, means);
            }
        }
    }
}
