//! What reaches a worker beside its sockets.

use std::{net::IpAddr, sync::Arc};

use trunkline_catalog::DefinitionTicket;
use trunkline_config::Snapshot;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_topology::{HostAnswer, Secret, ServerKey};

use super::*;
use crate::{
    ClientId, ConnId, KillAnswer, KillAsker, KillRequest, MovedClient, MovedConn, OutcomeFound,
    Studied,
};

/// A socket on its way to another worker.
#[derive(Debug)]
pub struct Travelling<S: Stream> {
    /// Its stream.
    pub stream: S,
    /// Its encryption, if it has one.
    pub seal: Option<Box<S::Seal>>,
    /// Whether the other end has closed.
    pub has_ended: bool,
}

/// A message to a worker.
#[derive(Debug)]
pub enum Mail<S: Stream> {
    /// Serve this configuration from now on. The ticket, if hostgroups have other servers, is
    /// dropped with the last worker's: until then no name is known.
    Snapshot(Arc<Snapshot>, Option<Arc<DefinitionTicket>>),
    /// Greet new clients with this.
    Greeting(Arc<Greeting>),
    /// Whether clients can be shown a certificate.
    OfferTls(bool),
    /// End every client.
    EndClients,
    /// Take no more clients, and end the rest until this moment of the worker's clock, ms.
    Stop(u64),
    /// A password was decrypted.
    Decrypted(ClientId, Option<Vec<u8>>),
    /// A password was checked.
    Verified(ClientId, bool),
    /// The seed of a password's key was derived.
    Derived(ConnId, Option<Secret<[u8; 32]>>),
    /// A password was encrypted for a server.
    Encrypted(ConnId, Option<Vec<u8>>),
    /// The users are published that servers have now.
    UsersLookedUp,
    /// What servers say of this name is published, as of that moment of the workers' clock, ms;
    /// `None` where they were not asked, or have not answered in time.
    UserLookedUp(String, Option<u64>),
    /// What the host with this address is called.
    HostNamed(IpAddr, HostAnswer),
    /// A replica shows more than before, and reads wait for that.
    PositionReached,
    /// What these clients' statements name has been asked for.
    CatalogTold(Vec<ClientId>),
    /// What became of this client's `COMMIT`.
    OutcomeFound(ClientId, Box<OutcomeFound>),
    /// A long text has been read.
    Studied(Box<Studied>),
    /// A long text of this client's could not be read: the session ends.
    StudyFailed(ClientId),
    /// Answers that these clients wait for were stored, or will not be.
    CacheWoken(Vec<ClientId>),
    /// That worker needs a connection to this server.
    PeerAsks(ServerKey, usize),
    /// Another worker's connection, asked for earlier.
    HandedOver(Box<MovedConn>, Box<Travelling<S>>),
    /// Another worker's client, which was busier.
    MovedClient(Box<MovedClient>, Box<Travelling<S>>),
    /// A client that had its number here and went to another worker has gone.
    ClientLeft(u32),
    /// Somebody asks to end a client of this worker, or its statement.
    Kill(Box<KillRequest>),
    /// What came of the `KILL` of a client of this worker.
    Killed(KillAsker, KillAnswer),
    /// The worker that a `KILL` was for has ended.
    KillUndelivered(KillAsker),
}

impl<S: Stream> Shell<S> {
    pub(super) fn open(&mut self, io: &mut impl Io<Stream = S>, mail: Mail<S>) {
        let worker = &mut self.worker;
        match mail {
            Mail::Snapshot(snapshot, _others) => worker.apply_snapshot(snapshot),
            Mail::Greeting(greeting) => worker.apply_greeting(greeting),
            Mail::OfferTls(is_offered) => worker.offer_tls(is_offered),
            Mail::EndClients => worker.end_clients(),
            Mail::Stop(deadline_ms) => worker.stop_gracefully(deadline_ms),
            Mail::Decrypted(client, clear) => worker.client_decrypted(client, clear),
            Mail::Verified(client, is_right) => worker.client_verified(client, is_right),
            Mail::Derived(conn, seed) => worker.server_derived(conn, seed),
            Mail::Encrypted(conn, cipher) => worker.server_encrypted(conn, cipher),
            Mail::UsersLookedUp => worker.users_looked_up(),
            Mail::UserLookedUp(name, asked_ms) => worker.user_looked_up(name, asked_ms),
            Mail::HostNamed(addr, answer) => worker.host_named(addr, answer),
            // The batch looks at all that wait.
            Mail::PositionReached => {}
            Mail::CatalogTold(clients) => worker.catalog_told(clients),
            Mail::OutcomeFound(client, found) => worker.outcome_found(client, *found),
            Mail::StudyFailed(client) => worker.abandon(Side::Client(client)),
            Mail::Studied(studied) => worker.studied(*studied),
            Mail::CacheWoken(clients) => worker.cache_woken(clients),
            Mail::PeerAsks(key, from) => worker.peer_asks(key, from),
            Mail::HandedOver(moved, travelling) => self.take_conn(io, *moved, *travelling),
            Mail::MovedClient(moved, travelling) => self.take_client(io, *moved, *travelling),
            Mail::ClientLeft(number) => worker.client_left(number),
            Mail::Kill(request) => worker.kill_asked(*request),
            Mail::Killed(asker, answer) => worker.kill_answered(asker, answer),
            Mail::KillUndelivered(asker) => worker.kill_undelivered(asker),
        }
    }

    fn take_conn(
        &mut self,
        io: &mut impl Io<Stream = S>,
        moved: MovedConn,
        travelling: Travelling<S>,
    ) {
        let Some(conn) = self.worker.adopt(moved) else {
            return io.close(travelling.stream, "its server is not known any more");
        };
        let mut socket = unpack(travelling, Side::Server(conn));
        socket.is_readable = true;
        self.add(io, socket);
        self.worker.adopted(conn);
    }

    /// Another worker's client: what it has sent meanwhile is read with the next batch.
    fn take_client(
        &mut self,
        io: &mut impl Io<Stream = S>,
        moved: MovedClient,
        travelling: Travelling<S>,
    ) {
        let client = self.worker.adopt_client(moved);
        let side = Side::Client(client);
        self.add(io, unpack(travelling, side));
        self.worker.client_adopted(client);
        self.write(io, side);
        self.read_later(side);
    }

    /// Sends a server connection with its socket to worker `to`.
    pub(super) fn hand_over(
        &mut self,
        io: &mut impl Io<Stream = S>,
        conn: ConnId,
        moved: Box<MovedConn>,
        to: usize,
    ) {
        match self.pack(io, Side::Server(conn)) {
            Some(travelling) => self.post(io, to, Mail::HandedOver(moved, travelling)),
            None => moved.give_up(),
        }
    }

    /// Sends a client with its socket to worker `to`.
    pub(super) fn move_client(
        &mut self,
        io: &mut impl Io<Stream = S>,
        client: ClientId,
        moved: Box<MovedClient>,
        to: usize,
    ) {
        match self.pack(io, Side::Client(client)) {
            Some(travelling) => self.post(io, to, Mail::MovedClient(moved, travelling)),
            None => self.worker.client_lost(*moved),
        }
    }

    /// Takes a socket from here; `None` when it has gone.
    pub(super) fn pack(
        &mut self,
        io: &mut impl Io<Stream = S>,
        side: Side,
    ) -> Option<Box<Travelling<S>>> {
        let Socket { mut stream, seal, has_ended, .. } = self.sockets.remove(side)?;
        if io.detach(&mut stream) {
            return Some(Box::new(Travelling { stream, seal, has_ended }));
        }
        io.close(stream, "it can't go to another worker");
        None
    }

    /// Sends mail; what can't be delivered is over.
    pub(super) fn post(&mut self, io: &mut impl Io<Stream = S>, to: usize, mail: Mail<S>) {
        let Some(mail) = io.post(to, mail) else { return };
        if let Mail::Kill(request) = &mail {
            return self.worker.kill_undelivered(request.asker);
        }
        if let Some(stream) = self.give_up(mail) {
            io.close(stream, "its worker has ended");
        }
    }

    /// Ends what mail brings that no worker will open; its stream, for the driver to close.
    pub fn give_up(&mut self, mail: Mail<S>) -> Option<S> {
        match mail {
            Mail::HandedOver(moved, travelling) => {
                moved.give_up();
                Some(travelling.stream)
            }
            Mail::MovedClient(moved, travelling) => {
                self.worker.client_lost(*moved);
                Some(travelling.stream)
            }
            _ => None,
        }
    }

    /// The process is over: what is left is closed.
    pub fn close_everything(&mut self, io: &mut impl Io<Stream = S>) {
        for socket in self.sockets.drain() {
            io.close(socket.stream, "the process has ended");
        }
    }

    /// Sockets of both kinds, clients' first.
    pub fn streams(&self) -> impl Iterator<Item = (Side, &S)> {
        self.sockets.iter().map(|socket| (socket.side, &socket.stream))
    }
}

fn unpack<S: Stream>(travelling: Travelling<S>, side: Side) -> Socket<S> {
    let Travelling { stream, seal, has_ended } = travelling;
    Socket { seal, has_ended, ..Socket::new(stream, side) }
}
