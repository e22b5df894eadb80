//! The worker: its parts, and the events that a driver brings.

use std::sync::Arc;

use trunkline_config::Snapshot;
use trunkline_pool::ConnId;
use trunkline_protocol::{codec::compressed::Compressor, packet::greeting::Greeting};

use crate::{
    Action, ClientId, Now, Shared, Side, cache::StoredAnswers, clients::Clients,
    clients::client::Phase, effects::Effects, env::Env, mirror::Mirrors, routing::Router,
    servers::Servers, servers::conn::ConnPhase, statement::Statements, upkeep::Upkeep,
};

/// What distinguishes one worker from the others.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// Its number, from 0.
    pub index: usize,
    /// How many workers there are.
    pub workers: usize,
    /// Starts its random choices.
    pub seed: u64,
}

/// One worker of the data plane. See the crate's documentation.
pub struct Worker {
    pub(crate) env: Env,
    pub(crate) clients: Clients,
    pub(crate) statements: Statements,
    pub(crate) router: Router,
    pub(crate) cache: StoredAnswers,
    /// Copies of statements for other hostgroups.
    pub(crate) mirrors: Mirrors,
    pub(crate) servers: Servers,
    pub(crate) upkeep: Upkeep,
    pub(crate) fx: Effects,
}

impl Worker {
    /// A worker that serves `snapshot`; `compressor` packs for connections that are compressed.
    pub fn new(
        options: WorkerOptions,
        snapshot: Arc<Snapshot>,
        shared: Arc<Shared>,
        greeting: Arc<Greeting>,
        compressor: Box<dyn Compressor>,
    ) -> Self {
        let mut worker = Self {
            clients: Clients::default(),
            statements: Statements::new(&snapshot.settings),
            router: Router::new(&snapshot, options),
            cache: StoredAnswers::new(Arc::clone(shared.cache())),
            mirrors: Mirrors::default(),
            servers: Servers::new(options.seed),
            upkeep: Upkeep::default(),
            fx: Effects::new(
                compressor,
                crate::upkeep::report::new_stats(&snapshot.settings, options.seed),
            ),
            env: Env::new(options, snapshot, shared, greeting),
        };
        worker.resize_cache();
        worker.apply_servers();
        worker
    }

    /// Begins a batch of events that all happen at `now`.
    pub fn begin_batch(&mut self, now: Now) {
        debug_assert!(now.us >= self.env.now.us, "time goes back");
        debug_assert!(self.fx.wakes.is_empty(), "an event is over: {:?}", self.fx.wakes);
        self.env.now = now.into();
    }

    /// What the driver has to do; call until `None` after each batch.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.fx.actions)
    }

    /// Gives the emptied list of actions back, to be filled again.
    pub fn recycle_actions(&mut self, mut actions: Vec<Action>) {
        if self.fx.actions.is_empty() {
            actions.clear();
            self.fx.actions = actions;
        }
    }

    /// A socket with bytes to write; call until `None` after each batch.
    pub fn next_dirty(&mut self) -> Option<Side> {
        // One that has gone meanwhile must not keep the rest from their turn.
        while let Some(side) = self.fx.dirty.0.pop_front() {
            let outbox = match side {
                Side::Client(id) => self.clients.get_mut(id).map(|client| &mut client.outbox),
                Side::Server(id) => self.servers.conns.get_mut(id).map(|conn| &mut conn.outbox),
            };
            if let Some(outbox) = outbox {
                outbox.is_listed = false;
                return Some(side);
            }
        }
        None
    }

    /// Whether any socket has bytes that the driver has not been told of.
    pub fn has_dirty(&self) -> bool {
        !self.fx.dirty.0.is_empty()
    }

    /// The bytes to write to a socket.
    pub fn pending(&mut self, side: Side) -> &[u8] {
        let (outbox, packing) = match side {
            Side::Client(id) => match self.clients.get_mut(id) {
                Some(client) => (&mut client.outbox, &mut client.packing),
                None => return &[],
            },
            Side::Server(id) => match self.servers.conns.get_mut(id) {
                Some(conn) => (&mut conn.outbox, &mut conn.packing),
                None => return &[],
            },
        };
        match packing {
            None => outbox.pending(),
            Some(packing) => {
                packing.pending(outbox, &mut self.fx.buffers, &mut *self.fx.compressor)
            }
        }
    }

    /// See [`Worker::wrote`].
    pub(crate) fn on_wrote(&mut self, side: Side, len: usize) {
        match side {
            Side::Client(id) => {
                let Some(client) = self.clients.get_mut(id) else {
                    return;
                };
                // It rests from its answer on, not from its question.
                client.active_ms = self.env.now.ms();
                match client.packing.as_deref_mut() {
                    None => client.outbox.advance(len, &mut self.fx.buffers),
                    Some(packing) => packing.advance(len, &mut self.fx.buffers),
                }
                self.after_client_write(id);
            }
            Side::Server(id) => {
                let Some(conn) = self.servers.conns.get_mut(id) else {
                    return;
                };
                if matches!(conn.phase, ConnPhase::Login(_)) {
                    // The password may be in it.
                    conn.outbox.wipe(len);
                }
                match conn.packing.as_deref_mut() {
                    None => conn.outbox.advance(len, &mut self.fx.buffers),
                    Some(packing) => packing.advance(len, &mut self.fx.buffers),
                }
                self.after_server_write(id);
            }
        }
    }

    /// See [`Worker::client_read`].
    pub(crate) fn on_client_read(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        client.active_ms = self.env.now.ms();
        match client.packing.is_some() {
            false => self.client_read_plain(id, bytes),
            true => self.packed_client_read(id, bytes),
        }
    }

    /// Bytes from a client, unpacked.
    #[inline]
    pub(crate) fn client_read_plain(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        match &client.phase {
            Phase::Login(_) => self.login_read(id, bytes),
            Phase::Idle => self.commands_read(id, bytes),
            Phase::Running(_) | Phase::AwaitKill(_) | Phase::AwaitNames(_) => {
                client.inbox.extend_from_slice(bytes);
                match self.clients.is_uploading(id) {
                    true => self.upload(id),
                    false => self.pause_if_full(id),
                }
            }
            Phase::Forward(conn) => {
                let conn = *conn;
                self.forward_to_server(id, conn, bytes);
            }
            Phase::Closing => {}
        }
    }

    /// See [`Worker::client_closed`].
    pub(crate) fn on_client_closed(&mut self, id: ClientId) {
        self.remove_client(id);
    }

    /// See [`Worker::server_read`].
    pub(crate) fn on_server_read(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.servers.conns.get(id) else {
            return;
        };
        match conn.packing.is_some() {
            false => self.server_read_plain(id, bytes),
            true => self.packed_server_read(id, bytes),
        }
    }

    /// Bytes from a server, unpacked.
    #[inline]
    pub(crate) fn server_read_plain(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(conn) = self.servers.conns.get(id) else {
            return;
        };
        match &conn.phase {
            ConnPhase::Connecting(_) => self.server_broke(id, "sent bytes before it was connected"),
            ConnPhase::Login(_) if conn.in_flight.is_empty() => self.server_login_read(id, bytes),
            // An idle connection logs in again before what came before is answered.
            ConnPhase::Login(_) => self.reply_read(id, bytes),
            ConnPhase::Ready => self.reply_read(id, bytes),
            ConnPhase::Forward(client) => {
                let client = *client;
                self.forward_to_client(id, client, bytes);
            }
        }
    }

    /// See [`Worker::server_closed`].
    pub(crate) fn on_server_closed(&mut self, id: ConnId, reason: &str) {
        self.unpack_last_words(id);
        self.lose_conn(id, reason);
    }

    /// How many clients this worker has.
    pub fn clients(&self) -> usize {
        self.clients.table.len() - self.mirrors.running
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.fx.act(action);
    }

    pub(crate) fn log(&mut self, is_warning: bool, text: impl FnOnce() -> String) {
        self.fx.log(is_warning, text);
    }

    /// Notes that a client's outbox has bytes.
    pub(crate) fn touch_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id) else {
            return;
        };
        if client.is_mirror {
            return client.outbox.discard(&mut self.fx.buffers);
        }
        if !client.outbox.is_listed {
            client.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Client(id));
        }
    }

    /// Notes that a server connection's outbox has bytes.
    pub(crate) fn touch_server(&mut self, id: ConnId) {
        let Some(conn) = self.servers.conns.get_mut(id) else {
            return;
        };
        if !conn.outbox.is_listed {
            conn.outbox.is_listed = true;
            self.fx.dirty.0.push_back(Side::Server(id));
        }
    }

    /// Appends to a client's outbox.
    pub(crate) fn write_client(&mut self, id: ClientId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(client) = self.clients.get_mut(id) {
            write(client.outbox.buf(&mut self.fx.buffers));
            self.touch_client(id);
        }
    }

    /// Appends to a server connection's outbox.
    pub(crate) fn write_server(&mut self, id: ConnId, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(conn) = self.servers.conns.get_mut(id) {
            write(conn.outbox.buf(&mut self.fx.buffers));
            self.touch_server(id);
        }
    }
}
