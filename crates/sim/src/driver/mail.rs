//! What reaches a worker beside its sockets, and what it wants of the world.

use super::*;

/// A message to a worker.
#[derive(Debug)]
pub enum Mail {
    /// Serve this configuration from now on. The ticket is dropped with the last worker's.
    Snapshot(Arc<Snapshot>, Option<Arc<DefinitionTicket>>),
    /// Greet new clients with this.
    Greeting(Arc<Greeting>),
    /// Give a copy of the numbers; nobody looks at it.
    Report,
    /// Stop within so many milliseconds.
    Stop(u64),
    /// A password was decrypted.
    Decrypted(ClientId, Option<Vec<u8>>),
    /// A password was checked against its hash.
    Verified(ClientId, bool),
    /// A password was encrypted for a server.
    Encrypted(ConnId, Option<Vec<u8>>),
    /// Another worker needs a connection to this server.
    PeerAsks(ServerKey, usize),
    /// Another worker's connection, asked for earlier.
    HandedOver(Box<MovedConn>, LinkId, Option<Box<Seal>>),
    /// A client of another worker, which was busier; and whether its end has closed.
    MovedClient(Box<MovedClient>, LinkId, bool, Option<Box<Seal>>),
    /// A client that had its number here has gone elsewhere.
    ClientLeft(u32),
    /// A client of another worker ends one of this worker's.
    Kill(Box<KillRequest>),
    /// What came of it.
    Killed(KillAsker, KillAnswer),
    /// The worker that was to do it has stopped.
    KillUndelivered(KillAsker),
    /// Answers that these clients wait for were stored, or will not be.
    CacheWoken(Vec<ClientId>),
    /// What these clients' statements name has been asked for.
    CatalogTold(Vec<ClientId>),
    /// What the host of this address is called.
    HostNamed(IpAddr, HostAnswer),
}

/// Password work, done outside the worker's thread.
#[derive(Debug)]
pub enum Job {
    /// Decrypt a client's password.
    Decrypt(ClientId, Vec<u8>),
    /// Check a clear password against a hash of many rounds.
    VerifyHash(ClientId, Secret<Vec<u8>>, Secret<Vec<u8>>),
    /// Encrypt a password with a server's key.
    Encrypt(ConnId, Secret<Vec<u8>>),
}

/// What a batch wants of the world around it.
#[derive(Debug)]
pub enum Wish {
    /// Mail for worker `.0`.
    Post(usize, Mail),
    /// Password work for this worker.
    Compute(Job),
    /// A connection to this host was begun on this link, counted here.
    Syn(LinkId, HostId, Arc<ServerHealth>),
    /// A link was closed.
    Closed(LinkId),
    /// A line for the query log or the audit log.
    Logged(String),
    /// What is the host of this address called?
    Name(IpAddr),
    /// Is this answer in the cache that proxies share?
    Ask(Box<SharedAsk>),
    /// This answer is for the cache that proxies share.
    Share(Box<SharedStore>),
}

impl Driver {
    pub(super) fn open_mail(&mut self, out: &mut Outside<'_>) {
        while let Some(mail) = self.mail.pop_front() {
            self.read_mail(out, mail);
        }
    }

    fn read_mail(&mut self, out: &mut Outside<'_>, mail: Mail) {
        let worker = &mut self.worker;
        match mail {
            Mail::Snapshot(snapshot, _others) => {
                self.version = snapshot.version;
                worker.apply_snapshot(snapshot);
            }
            Mail::Greeting(greeting) => worker.apply_greeting(greeting),
            Mail::Report => {
                drop(worker.report(DigestQuery::ALL));
                drop(worker.sessions(SESSIONS));
                drop(worker.inventory(SESSIONS.rows_max));
            }
            Mail::Stop(within_ms) => {
                self.is_listening = false;
                self.refuse_backlog(out);
                self.worker.stop_gracefully(now_of(out.now).ms() + within_ms);
            }
            Mail::Decrypted(client, clear) => worker.client_decrypted(client, clear),
            Mail::Verified(client, is_right) => worker.client_verified(client, is_right),
            Mail::Encrypted(conn, cipher) => worker.server_encrypted(conn, cipher),
            Mail::PeerAsks(key, from) => worker.peer_asks(key, from),
            Mail::Kill(request) => worker.kill_asked(*request),
            Mail::CacheWoken(clients) => worker.cache_woken(clients),
            Mail::CatalogTold(clients) => worker.catalog_told(clients),
            Mail::HostNamed(addr, answer) => worker.host_named(addr, answer),
            Mail::Killed(asker, answer) => worker.kill_answered(asker, answer),
            Mail::KillUndelivered(asker) => worker.kill_undelivered(asker),
            Mail::MovedClient(moved, link, has_ended, seal) => {
                let id = worker.adopt_client(*moved);
                let side = Side::Client(id);
                let mut socket = Socket::new(link, side);
                socket.has_ended = has_ended;
                socket.seal = seal;
                self.add(out, socket);
                self.worker.client_adopted(id);
                self.write(out, side);
                self.unfinished.push(side);
            }
            Mail::ClientLeft(number) => worker.client_left(number),
            Mail::HandedOver(moved, link, seal) => {
                let Some(conn) = worker.adopt(*moved) else {
                    return out.close(link);
                };
                let mut socket = Socket::new(link, Side::Server(conn));
                socket.is_readable = true;
                socket.seal = seal;
                self.add(out, socket);
                self.worker.adopted(conn);
            }
        }
    }
}
