//! The events that a driver brings. Each is over when nothing is due any more: who has become free,
//! may go on or is answered is looked at one after the other, behind what made it so.

use std::{net::IpAddr, sync::Arc};

use trunkline_config::Snapshot;
use trunkline_pool::ConnId;
use trunkline_protocol::packet::greeting::Greeting;
use trunkline_topology::{HostAnswer, HostgroupId, Secret, ServerKey, TlsFacts};

use crate::{
    ClientId, KillAnswer, KillAsker, KillRequest, MovedClient, OutcomeFound, Side, Studied, Worker,
    action::Peer,
    clients::client::Client,
    clients::session::ClientEntry,
    effects::Wake,
    rooms::{Commands, Exchange, Lender},
    servers::conn::Conn,
};

impl Worker {
    /// Has something happen, and then whatever has become due.
    #[inline]
    fn after<T>(&mut self, happens: impl FnOnce(&mut Self) -> T) -> T {
        let result = happens(self);
        while let Some(wake) = self.commands.exchange.core.fx.wakes.pop_front() {
            self.wake_up(wake);
        }
        result
    }

    /// Has something happen to a client, unless it has gone.
    #[inline]
    fn after_client(&mut self, id: ClientId, happens: impl FnOnce(&mut Commands, &mut Client)) {
        self.after(|worker| {
            worker.commands.with_client(id, happens);
        });
    }

    /// Has something happen to a client, logged in or not, unless it has gone.
    #[inline]
    fn after_entry(&mut self, id: ClientId, happens: impl FnOnce(&mut Commands, &mut ClientEntry)) {
        self.after(|worker| {
            worker.commands.with_entry(id, happens);
        });
    }

    /// Has something happen to a server connection, unless it has gone.
    #[inline]
    fn after_conn(&mut self, id: ConnId, happens: impl FnOnce(&mut Exchange, &mut Conn)) {
        self.after(|worker| {
            worker.commands.exchange.with_conn(id, happens);
        });
    }

    fn wake_up(&mut self, wake: Wake) {
        let commands = &mut self.commands;
        match wake {
            Wake::Commands(id) => {
                commands.with_client(id, Commands::drain_inbox);
            }
            Wake::Returning(id) => {
                commands.exchange.with_client(id, Exchange::acquire_again);
            }
            Wake::Repeat(id) => {
                commands.exchange.with_client(id, Exchange::go_on_repeating);
            }
            Wake::PastTold(id) => {
                commands.exchange.with_client(id, Exchange::go_on_with_past);
            }
            Wake::NameHost(id) => {
                commands.exchange.with_entry(id, Exchange::name_host);
            }
            Wake::HalfOpen(addr) => commands.exchange.close_half_open(addr),
            Wake::Forward(id) => {
                commands.exchange.with_client(id, Exchange::begin_forward);
            }
            Wake::ChangeUser(id, body) => commands.exchange.change_released(id, &body),
            Wake::TraceGone(id, conn, trace) => {
                let core = &mut commands.exchange.core;
                core.with_client(id, |core, client| core.trace_gone(client, conn, trace));
            }
            Wake::Freed(id) => commands.exchange.recycle(id),
            Wake::Shared(id) => {
                commands.exchange.with_conn(id, Exchange::fill);
            }
            Wake::Queue(hostgroup) => commands.exchange.pump(hostgroup),
            Wake::Lost(conn, reason) => {
                let lose =
                    |exchange: &mut Exchange, conn: &mut Conn| exchange.lose_conn(conn, reason);
                commands.exchange.with_conn(conn, lose);
            }
            Wake::KillAsked(request) => commands.exchange.on_kill_asked(*request),
            Wake::KillsWait(target) => commands.exchange.send_waiting_kills(target),
            Wake::KillOver(target) => {
                commands.exchange.with_conn(target, Exchange::go_on_after_kill);
            }
            Wake::KillLost { id, via, may_go_again, text } => {
                commands.exchange.kill_lost(id, via, may_go_again, text);
            }
            Wake::KillAnswered(asker, answer) => {
                commands.exchange.deliver_kill_answer(asker, answer);
            }
        }
    }

    /// Answers that clients of this worker wait for were stored, or will not be.
    pub fn cache_woken(&mut self, clients: Vec<ClientId>) {
        self.after(|worker| worker.commands.exchange.core.on_cache_woken(clients))
    }

    /// The driver encrypted a password; `None` when the server's key was no key.
    pub fn server_encrypted(&mut self, id: ConnId, ciphertext: Option<Vec<u8>>) {
        self.after_conn(id, |exchange, conn| exchange.on_server_encrypted(conn, ciphertext))
    }

    /// The driver derived a key's seed; `None` when it could not.
    pub fn server_derived(&mut self, id: ConnId, seed: Option<Secret<[u8; 32]>>) {
        self.after_conn(id, |exchange, conn| exchange.on_server_derived(conn, seed))
    }

    /// The driver could not connect.
    pub fn server_failed(&mut self, id: ConnId, reason: &str) {
        self.after_conn(id, |exchange, conn| exchange.lose_conn(conn, reason))
    }

    /// The driver could not begin to connect, for want of something of this machine's own:
    /// descriptors, memory, ports. No server is blamed.
    pub fn server_not_tried(&mut self, id: ConnId, reason: &str) {
        self.after_conn(id, |exchange, conn| exchange.could_not_connect(conn, reason))
    }

    /// Worker `from` needs a connection to this server.
    pub fn peer_asks(&mut self, key: ServerKey, from: usize) {
        self.after(|worker| worker.commands.exchange.core.on_peer_asks(key, from))
    }

    /// The adopted connection's socket is in place: it can be used.
    pub fn adopted(&mut self, id: ConnId) {
        self.after_conn(id, |exchange, conn| exchange.core.freed(conn))
    }

    /// Looks at deadlines. Called once per batch; does little unless something is due.
    pub fn tick(&mut self) {
        self.after(Self::on_tick)
    }

    /// A client of this or another worker asks to end a client of this one.
    pub fn kill_asked(&mut self, request: KillRequest) {
        self.after(|worker| worker.commands.exchange.on_kill_asked(request))
    }

    /// The worker that a request was to go to has stopped, and its clients with it; but those that
    /// had moved away from there may go on, and it alone knew where they are.
    pub fn kill_undelivered(&mut self, asker: KillAsker) {
        self.after(|worker| worker.commands.exchange.core.on_kill_undelivered(asker))
    }

    /// What came of a `KILL` of this worker's client.
    pub fn kill_answered(&mut self, asker: KillAsker, answer: KillAnswer) {
        self.after(|worker| worker.commands.exchange.on_kill_answered(asker, answer))
    }

    /// A client connected: greets it. `nonce` is 20 random bytes without NUL. `None` when the
    /// worker is stopping; the driver closes the socket then.
    pub fn accept(&mut self, peer: Arc<Peer>, nonce: [u8; 20]) -> Option<ClientId> {
        self.after(|worker| worker.commands.exchange.core.on_accept(peer, nonce))
    }

    /// The driver decrypted a password; `None` when that failed.
    pub fn client_decrypted(&mut self, id: ClientId, clear: Option<Vec<u8>>) {
        self.after_entry(id, |commands, client| {
            commands.exchange.on_client_decrypted(client, clear)
        })
    }

    /// The driver checked a password against its hash.
    pub fn client_verified(&mut self, id: ClientId, is_right: bool) {
        self.after_entry(id, |commands, client| {
            commands.exchange.on_client_verified(client, is_right)
        })
    }

    /// The configuration has the users that servers have now, as far as could be found out.
    pub fn users_looked_up(&mut self) {
        self.after(|worker| worker.commands.exchange.on_users_looked_up())
    }

    /// Gives away those that were chosen and rest now. Called once per batch, when everything was
    /// written and nothing is read before the actions are carried out: what a client sends from
    /// here on is read by its next worker.
    pub fn let_leave(&mut self) {
        self.after(|worker| worker.commands.exchange.core.on_let_leave())
    }

    /// The adopted client's socket is in place: a worker that stops says goodbye.
    pub fn client_adopted(&mut self, id: ClientId) {
        self.after_client(id, |commands, client| commands.exchange.on_client_adopted(client))
    }

    /// A client that was to move could not: it is gone.
    pub fn client_lost(&mut self, moved: MovedClient) {
        self.after(|worker| worker.commands.exchange.core.on_client_lost(moved))
    }

    /// The configuration has what servers said of this name at that moment, ms; `None` where they
    /// have said nothing.
    pub fn user_looked_up(&mut self, name: String, asked_ms: Option<u64>) {
        self.after(|worker| worker.commands.exchange.on_user_looked_up(name, asked_ms))
    }

    /// What a host is called: the driver has found out.
    pub fn host_named(&mut self, addr: IpAddr, answer: HostAnswer) {
        self.after(|worker| worker.commands.exchange.on_host_named(addr, answer))
    }

    /// The control plane has said what it could of names that these clients wait for.
    pub fn catalog_told(&mut self, clients: Vec<ClientId>) {
        self.after(|worker| worker.commands.on_catalog_told(clients))
    }

    /// The control plane has found out what became of a client's `COMMIT`, or has not.
    pub fn outcome_found(&mut self, id: ClientId, found: OutcomeFound) {
        self.after(|worker| worker.commands.exchange.on_outcome_found(id, found))
    }

    /// A long text of a client's has been read.
    pub fn studied(&mut self, studied: Studied) {
        self.after_client(studied.client, |commands, client| commands.on_studied(client, studied))
    }

    /// Takes over a published configuration. Statements under way go on as they began; servers
    /// that are gone lose their idle connections now and the others when their sessions leave.
    pub fn apply_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        self.after(|worker| worker.commands.on_apply_snapshot(snapshot))
    }

    /// What the servers greet with has become known or has changed; new clients see it.
    pub fn apply_greeting(&mut self, greeting: Arc<Greeting>) {
        self.after(|worker| worker.commands.exchange.on_apply_greeting(greeting))
    }

    /// Takes no more clients and ends the others as they become free; all of them at
    /// `deadline_ms` of the worker's clock. [`Action::Stopped`] says when it is done.
    pub fn stop_gracefully(&mut self, deadline_ms: u64) {
        self.after(|worker| worker.commands.exchange.on_stop_gracefully(deadline_ms))
    }

    /// A hostgroup takes nothing new for `for_ms`; `None` ends that. Statements under way and open
    /// transactions there go on, and what is new is held.
    pub fn pause_hostgroup(&mut self, hostgroup: HostgroupId, for_ms: Option<u64>) {
        self.after(|worker| worker.commands.exchange.on_pause_hostgroup(hostgroup, for_ms))
    }

    /// Ends every client, whatever it is doing; the worker goes on.
    pub fn end_clients(&mut self) {
        self.after(|worker| worker.commands.exchange.on_end_clients())
    }

    /// A step of this client's panicked in the driver's hands: the client and the connections it
    /// held end, nothing else does.
    pub fn abandon(&mut self, side: Side) {
        self.after(|worker| worker.commands.exchange.on_abandon(side))
    }

    /// TLS with a client is up: what it sends from now on came through it.
    pub fn client_tls_up(&mut self, id: ClientId, facts: TlsFacts) {
        self.after_entry(id, |commands, client| {
            commands.exchange.core.on_client_tls_up(client, facts)
        })
    }

    /// TLS with a client did not come up, or broke; its socket is closed.
    pub fn client_tls_failed(&mut self, id: ClientId, reason: &str) {
        self.after(|worker| worker.commands.exchange.on_client_tls_failed(id, reason))
    }

    /// TLS with a server is up: the login goes on through it.
    pub fn server_tls_up(&mut self, id: ConnId, facts: TlsFacts) {
        self.after_conn(id, |exchange, conn| exchange.core.on_server_tls_up(conn, facts))
    }

    /// TLS with a server did not come up, or broke; its socket is closed.
    pub fn server_tls_failed(&mut self, id: ConnId, reason: &str) {
        self.after_conn(id, |exchange, conn| exchange.on_server_tls_failed(conn, reason))
    }

    /// The kernel took `len` bytes of a socket's pending ones. False when that was certainly all.
    pub fn wrote(&mut self, side: Side, len: usize) -> bool {
        self.after(|worker| worker.commands.exchange.core.on_wrote(side, len))
    }

    /// Bytes from a client.
    pub fn client_read(&mut self, id: ClientId, bytes: &[u8]) {
        self.after_entry(id, |commands, client| commands.on_client_read(client, bytes))
    }

    /// Behind the bytes that are read next from a client come more that have arrived already.
    pub fn more_follows(&mut self, id: ClientId) {
        if let Some(client) = self.commands.exchange.core.clients.table.get_mut(id) {
            client.io.follows = true;
        }
    }

    /// A client's socket ended or failed.
    pub fn client_closed(&mut self, id: ClientId) {
        self.after(|worker| worker.commands.exchange.on_client_closed(id))
    }

    /// Bytes from a server.
    pub fn server_read(&mut self, id: ConnId, bytes: &[u8]) {
        self.after_conn(id, |exchange, conn| exchange.on_server_read(conn, bytes))
    }

    /// A server's socket ended, or failed with this reason.
    pub fn server_closed(&mut self, id: ConnId, reason: &str) {
        self.after_conn(id, |exchange, conn| exchange.on_server_closed(conn, reason))
    }
}
