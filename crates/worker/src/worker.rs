//! The worker: its parts, and the events that a driver brings.

use std::sync::Arc;

use trunkline_budget::Purse;
use trunkline_catalog::Catalog;
use trunkline_config::{CausalPlan, Snapshot};
use trunkline_pool::ConnId;
use trunkline_protocol::{codec::compressed::Compressor, packet::greeting::Greeting};
use trunkline_stats::{DigestQuery, DigestRow, Inventory, Report, SessionList, SessionQuery};
use trunkline_topology::{ServerKey, TlsOffer};

#[cfg(feature = "plants")]
use crate::plants::Plant;
use crate::{
    Action, ClientId, MovedClient, MovedConn, Now, Shared, Side,
    clients::{Clients, memory::Memory},
    effects::Effects,
    env::Env,
    mirror::Mirrors,
    rooms::{Commands, Core, Exchange},
    routing::Router,
    servers::Servers,
    statement::Statements,
    upkeep::{Upkeep, report::new_stats},
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
    pub(crate) commands: Commands,
    pub(crate) upkeep: Upkeep,
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
        // Nothing was written here before.
        for since in snapshot.causal.begun_since(&CausalPlan::default()) {
            since.begin(0);
        }
        let stats = new_stats(&snapshot.settings, options.seed);
        let statements = Statements::new(&snapshot);
        let router = Router::new(&snapshot, options);
        let core = Core {
            clients: Clients {
                memory: Memory::new(Purse::new(Arc::clone(shared.budget()))),
                ..Clients::default()
            },
            servers: Servers::new(options.seed),
            fx: Effects::new(compressor, stats, options.seed),
            env: Env::new(options, snapshot, shared, greeting),
        };
        let mut exchange = Exchange { core, statements, mirrors: Mirrors::default() };
        exchange.core.resize_cache();
        exchange.core.apply_servers();
        Self { commands: Commands { exchange, router }, upkeep: Upkeep::default() }
    }

    /// Begins a batch of events that all happen at `now`.
    pub fn begin_batch(&mut self, now: Now) {
        debug_assert!(now.us >= self.commands.exchange.core.env.now.us, "time goes back");
        debug_assert!(
            self.commands.exchange.core.fx.wakes.is_empty(),
            "an event is over: {:?}",
            self.commands.exchange.core.fx.wakes
        );
        self.commands.exchange.core.env.now = now.into();
    }

    /// Whether there is something for the driver to do.
    #[inline]
    pub fn has_actions(&self) -> bool {
        !self.commands.exchange.core.fx.actions.is_empty()
    }

    /// What the driver has to do; call until there is nothing, after each batch.
    #[inline]
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.commands.exchange.core.fx.actions)
    }

    /// Gives the emptied list of actions back, to be filled again.
    #[inline]
    pub fn recycle_actions(&mut self, mut actions: Vec<Action>) {
        if self.commands.exchange.core.fx.actions.is_empty() {
            actions.clear();
            self.commands.exchange.core.fx.actions = actions;
        }
    }

    /// A socket with bytes to write; call until `None` after each batch.
    #[inline]
    pub fn next_dirty(&mut self) -> Option<Side> {
        let core = &mut self.commands.exchange.core;
        // One that has gone meanwhile must not keep the rest from their turn.
        while let Some(side) = core.fx.dirty.0.pop_front() {
            let outbox = match side {
                Side::Client(id) => {
                    core.clients.table.get_mut(id).map(|client| &mut client.io.outbox)
                }
                Side::Server(id) => core.servers.conns.get_mut(id).map(|conn| &mut conn.io.outbox),
            };
            if let Some(outbox) = outbox {
                outbox.is_listed = false;
                return Some(side);
            }
        }
        None
    }

    /// Whether any socket has bytes that the driver has not been told of.
    #[inline]
    pub fn has_dirty(&self) -> bool {
        !self.commands.exchange.core.fx.dirty.0.is_empty()
    }

    /// The bytes to write to a socket.
    #[inline]
    pub fn pending(&mut self, side: Side) -> &[u8] {
        let core = &mut self.commands.exchange.core;
        let (outbox, packing) = match side {
            Side::Client(id) => match core.clients.table.get_mut(id) {
                Some(client) => {
                    let io = &mut client.io;
                    (&mut io.outbox, &mut io.packing)
                }
                None => return &[],
            },
            Side::Server(id) => match core.servers.conns.get_mut(id) {
                Some(conn) => (&mut conn.io.outbox, &mut conn.io.packing),
                None => return &[],
            },
        };
        match packing {
            None => outbox.pending(),
            Some(packing) => {
                packing.pending(outbox, &mut core.fx.buffers, &mut *core.fx.compressor)
            }
        }
    }

    /// Whether what is written to a socket is compressed before.
    pub fn packs(&self, side: Side) -> bool {
        let core = &self.commands.exchange.core;
        match side {
            Side::Client(id) => {
                core.clients.table.get(id).is_some_and(|it| it.io.packing.is_some())
            }
            Side::Server(id) => {
                core.servers.conns.get(id).is_some_and(|it| it.io.packing.is_some())
            }
        }
    }

    /// How many clients this worker has.
    pub fn clients(&self) -> usize {
        let clients = &self.commands.exchange.core.clients;
        clients.table.len() - clients.copies.running
    }

    /// Makes this worker err so from now on.
    #[cfg(feature = "plants")]
    pub fn plant(&mut self, plant: Plant) {
        self.commands.exchange.core.plant(plant)
    }

    /// Whether the driver can show clients a certificate.
    pub fn offer_tls(&mut self, is_offered: bool) {
        self.commands.exchange.core.offer_tls(is_offered)
    }

    /// What came behind the packet that asked for TLS; it belongs to TLS.
    pub fn received(&mut self, side: Side) -> Vec<u8> {
        self.commands.exchange.core.received(side)
    }

    /// What a listener says of TLS, by its place in `listen`.
    pub fn listener_tls(&self, listener: usize) -> Option<TlsOffer> {
        self.commands.exchange.core.listener_tls(listener)
    }

    /// Takes in another worker's client. Its socket may have bytes to read.
    pub fn adopt_client(&mut self, moved: MovedClient) -> ClientId {
        self.commands.exchange.adopt_client(moved)
    }

    /// A client whose home this is has gone, wherever it was.
    pub fn client_left(&mut self, number: u32) {
        self.commands.exchange.core.client_left(number)
    }

    /// The socket is connected; the server speaks first.
    pub fn server_connected(&mut self, id: ConnId) {
        self.commands.exchange.core.server_connected(id)
    }

    /// Takes in a connection of another worker's; `None` when this worker does not know its
    /// server any more, and the driver closes it.
    pub fn adopt(&mut self, moved: MovedConn) -> Option<ConnId> {
        self.commands.exchange.core.adopt(moved)
    }

    /// Connections that carry a `KILL` to this server, or will: one for each account, perhaps
    /// beyond the server's `max_connections`.
    pub fn kill_carriers(&self, server: &ServerKey) -> usize {
        self.commands.exchange.core.kill_carriers(server)
    }

    /// At most `rows_max` rows of each kind.
    pub fn inventory(&self, rows_max: usize) -> Inventory {
        self.commands.exchange.inventory(rows_max)
    }

    /// How long the driver leaves its sockets alone before it waits for events again, µs: what
    /// comes meanwhile is one batch. Called once per batch, after everything was written.
    pub fn pause_us(&mut self) -> u64 {
        self.commands.exchange.core.pause_us()
    }

    /// Sessions, as many as asked for, and how many there are.
    pub fn sessions(&self, query: SessionQuery) -> SessionList {
        self.commands.exchange.core.sessions(query)
    }

    /// Whether it takes no more clients, for good.
    pub fn is_stopping(&self) -> bool {
        self.commands.exchange.core.is_stopping()
    }

    /// A copy of all numbers.
    pub fn report(&self, digests: DigestQuery) -> Report {
        self.commands.report(digests)
    }

    /// At most `rows_max` rows of the digest table from this place on; fewer only at its end.
    pub fn digests(&self, from: usize, rows_max: usize) -> Vec<DigestRow> {
        self.commands.exchange.core.digests(from, rows_max)
    }

    /// Counts what a batch took with all that came of it, µs.
    #[inline]
    pub fn batch_took(&mut self, us: u64) {
        self.commands.exchange.core.fx.stats.batch_took(us);
    }

    /// The counters, for what only the driver can count.
    pub fn counters_mut(&mut self) -> &mut trunkline_stats::Counters {
        self.commands.exchange.core.counters_mut()
    }

    /// Records for spans that this batch has left; whoever takes them empties this.
    pub fn spans_mut(&mut self) -> &mut Vec<trunkline_stats::span::SpanRecord> {
        &mut self.commands.exchange.core.fx.spans.records
    }

    /// What names mean on the servers; all workers have the same.
    pub fn catalog(&self) -> &Arc<Catalog> {
        self.commands.exchange.core.catalog()
    }
}
