//! How a worker is spoken to from outside: a queue, and a way to end its wait.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
};

use trunkline_catalog::DefinitionTicket;
use trunkline_config::{ListenAddress, Snapshot};
use trunkline_net::{Listener, Stream, Tls, TlsSetup, Waker};
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_stats::{DigestQuery, Inventory, Report, SessionList, SessionQuery};
use trunkline_topology::{HostAnswer, Secret, ServerKey};
use trunkline_worker::{
    ClientId, ConnId, KillAnswer, KillAsker, KillRequest, KillScope, MovedClient, MovedConn,
};

use crate::administrators::{TakeDigests, TellKill};

/// A message to a worker.
pub enum Mail {
    /// Serve this configuration from now on. The ticket, if hostgroups have other servers, is
    /// dropped with the last worker's: until then no name is known.
    Snapshot(Arc<Snapshot>, Option<Arc<DefinitionTicket>>),
    /// Accept clients here for the TCP listener of that configured address.
    Listen(ListenAddress, Listener),
    /// Greet new clients with this.
    Greeting(Arc<Greeting>),
    /// Give a copy of the numbers; the function takes it to whoever asked.
    Report(DigestQuery, Box<dyn FnOnce(Report) + Send>),
    /// Give a list of sessions likewise.
    Sessions(SessionQuery, Box<dyn FnOnce(SessionList) + Send>),
    /// Accept clients of the protocol here and nowhere else from now on; nowhere at all when there
    /// is none. The function says that it is so.
    Listeners(Vec<Listener>, Box<dyn FnOnce(()) + Send>),
    /// End every client.
    EndClients,
    /// End the client with this number, or its statement, for an administrator.
    KillFor(u32, KillScope, TellKill),
    /// Give at most so many rows of each kind of what the worker has.
    Inventory(usize, Box<dyn FnOnce(Inventory) + Send>),
    /// Give all rows of the digest table, a few between any two batches; the function is dropped
    /// behind the last ones.
    Digests(TakeDigests),
    /// Stop: take no more clients, end the rest within so many milliseconds.
    Stop(u64),
    /// A password was decrypted.
    Decrypted(ClientId, Option<Vec<u8>>),
    /// A password was checked against its hash.
    Verified(ClientId, bool),
    /// The seed of a password's key was derived.
    Derived(ConnId, Option<Secret<[u8; 32]>>),
    /// The users are published that servers have now.
    UsersLookedUp,
    /// What the host with this address is called.
    HostNamed(IpAddr, HostAnswer),
    /// A password was encrypted for a server.
    Encrypted(ConnId, Option<Vec<u8>>),
    /// Another worker needs a connection to this server.
    PeerAsks(ServerKey, usize),
    /// Another worker's client asks to end a client of this one.
    Kill(Box<KillRequest>),
    /// Another worker's client, which was busier; its socket and encryption, and whether the other
    /// end has closed.
    MovedClient(Box<MovedClient>, Stream, Option<Box<Tls>>, bool),
    /// A client that had its number here and went to another worker has gone.
    ClientLeft(u32),
    /// What came of a `KILL` of this worker's client.
    Killed(KillAsker, KillAnswer),
    /// Answers that these clients wait for were stored, or will not be.
    CacheWoken(Vec<ClientId>),
    /// What these clients' statements name has been asked for.
    CatalogTold(Vec<ClientId>),
    /// Another worker's connection, asked for earlier.
    HandedOver(Box<MovedConn>, Stream, Option<Box<Tls>>),
    /// Encrypt with this from now on.
    Tls(Arc<TlsSetup>),
}

/// The end that sends.
#[derive(Clone)]
pub struct Postbox {
    sender: Sender<Mail>,
    waker: Waker,
}

impl Postbox {
    /// Sends; false when the worker has ended.
    pub fn send(&self, mail: Mail) -> bool {
        let sent = self.sender.send(mail).is_ok();
        self.waker.wake();
        sent
    }
}

/// Both ends of a worker's mailbox.
pub(crate) fn mailbox(waker: Waker) -> (Postbox, Receiver<Mail>) {
    let (sender, receiver) = channel();
    (Postbox { sender, waker }, receiver)
}
