//! Sessions of one user that hold connections and do nothing leave room for others.
//!
//! A session that is pinned has its server connection to itself, for as long as it likes. Where
//! those of one user have nearly all connections that a server may have, and statements of others
//! have waited for half of the time that they may, the one that has rested longest loses its
//! connection, and its next statement says so. Nothing is counted before somebody waits so long:
//! then each worker says on the [`ShareBoard`] what it has. `docs/decisions/0061`.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use trunkline_pool::{ConnId, ConnState, SlotId};
use trunkline_topology::ServerKey;

use crate::{
    clients::client::Phase,
    rooms::{Core, Exchange, Lender},
    servers::conn::{Conn, ConnPhase},
};

/// What the next statement of a session says that has lost its connection to others.
const GAVE_WAY: &str = "its user's idle sessions held more than pinned_share_max of the server's \
                        connections while others waited";
/// How often a worker says what it has, and whoever is to give way does, ms. A connection comes up
/// within that time.
const LOOK_EVERY_MS: u64 = 250;
/// What a worker has said counts for so long, ms: one without work looks once a second.
const SAID_FOR_MS: u64 = 3_000;
/// The most users that are noted as waiting for one server.
const USERS_MAX: usize = 8;
/// The most statements of one queue that are looked at.
const WAITERS_MAX: usize = 256;

/// Who waits for connections to which servers, and who holds them, over all workers.
#[derive(Debug, Default)]
pub(crate) struct ShareBoard {
    /// Whether anybody waits.
    is_asked: AtomicBool,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    wishes: Vec<(usize, Wish)>,
    holders: Vec<Holder>,
    /// Servers on which somebody has given way, and when, ms.
    given: Vec<(ServerKey, u64)>,
}

/// Statements have waited long for a connection to a server that has as many as it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    server: ServerKey,
    /// Whose statements.
    users: Vec<String>,
}

/// Idle sessions of one user that a worker's connections to one server are pinned to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) user: String,
    pub(crate) count: u32,
    /// When the first of them has come to rest, ms.
    pub(crate) since_ms: u64,
    /// Its connection.
    pub(crate) conn: ConnId,
}

#[derive(Debug)]
struct Holder {
    worker: usize,
    server: ServerKey,
    said_ms: u64,
    holding: Holding,
}

/// What one user may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// The server's `max_connections`.
    connections_max: u32,
    /// `pinned_share_max`.
    percent_max: u32,
}

impl Share {
    fn is_exceeded(self, count: u32) -> bool {
        u64::from(count) * 100 > u64::from(self.connections_max) * u64::from(self.percent_max)
    }
}

impl ShareBoard {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's wishes, in the place of those before.
    fn wish(&self, worker: usize, wishes: Vec<Wish>) {
        let mut said = self.said();
        said.wishes.retain(|(of, _)| *of != worker);
        said.wishes.extend(wishes.into_iter().map(|wish| (worker, wish)));
        if said.wishes.is_empty() {
            *said = Said::default();
        }
        self.is_asked.store(!said.wishes.is_empty(), Relaxed);
    }

    /// The servers that somebody waits for.
    fn asked_for(&self) -> Vec<ServerKey> {
        if !self.is_asked.load(Relaxed) {
            return Vec::new();
        }
        let mut servers: Vec<ServerKey> = Vec::new();
        for (_, wish) in &self.said().wishes {
            if !servers.contains(&wish.server) {
                servers.push(wish.server.clone());
            }
        }
        servers
    }

    /// A worker says what it has on a server. The connection, if it is one of its own, whose
    /// session is to give way now.
    pub(crate) fn hold(
        &self,
        worker: usize,
        server: &ServerKey,
        holdings: Vec<Holding>,
        share: Share,
        now_ms: u64,
    ) -> Option<ConnId> {
        let mut said = self.said();
        said.holders.retain(|holder| {
            (holder.worker, &holder.server) != (worker, server)
                && holder.said_ms + SAID_FOR_MS > now_ms
        });
        said.holders.extend(holdings.into_iter().map(|holding| Holder {
            worker,
            server: server.clone(),
            said_ms: now_ms,
            holding,
        }));
        said.given.retain(|(_, given_ms)| given_ms + LOOK_EVERY_MS > now_ms);
        if said.given.iter().any(|(given, _)| given == server) {
            return None;
        }
        let conn = said.first_to_go(worker, server, share)?;
        said.given.push((server.clone(), now_ms));
        Some(conn)
    }
}

impl Said {
    /// The connection of the session that gives way: the one that has rested longest of the user
    /// who holds most, if that is too much and somebody else waits. `None` if another worker has
    /// it.
    fn first_to_go(&self, worker: usize, server: &ServerKey, share: Share) -> Option<ConnId> {
        let here = || self.holders.iter().filter(|holder| holder.server == *server);
        let total = |user: &str| -> u32 {
            let its = here().filter(|holder| holder.holding.user == user);
            its.map(|holder| holder.holding.count).fold(0, u32::saturating_add)
        };
        let most = here().map(|holder| &*holder.holding.user).max_by_key(|user| total(user))?;
        let is_other = |(_, wish): &(usize, Wish)| {
            wish.server == *server && wish.users.iter().any(|user| user != most)
        };
        if !share.is_exceeded(total(most)) || !self.wishes.iter().any(is_other) {
            return None;
        }
        let its = here().filter(|holder| holder.holding.user == most);
        let oldest = its.min_by_key(|holder| (holder.holding.since_ms, holder.worker))?;
        (oldest.worker == worker).then_some(oldest.holding.conn)
    }
}

/// What a worker remembers from one look at the board to the next.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// When it last looked who holds connections that others wait for, ms.
    checked_ms: u64,
    /// Whether it has said that statements of its wait long for such connections.
    pub(crate) has_wishes: bool,
}

impl Exchange {
    /// Says who waits long for connections that others hold, and has a session of this worker's
    /// give way if it is the first to.
    #[inline]
    pub(crate) fn share_connections(&mut self, shares: &mut Shares) {
        let core = &self.core;
        let is_asked = core.env.shared.share_board().is_asked.load(Relaxed);
        if is_asked || shares.has_wishes || core.servers.pool.has_waiters() {
            self.share_among_waiters(shares);
        }
    }

    fn share_among_waiters(&mut self, shares: &mut Shares) {
        let core = &mut self.core;
        let wishes = core.wishes();
        if !wishes.is_empty() || shares.has_wishes {
            shares.has_wishes = !wishes.is_empty();
            core.env.shared.share_board().wish(core.env.options.index, wishes);
        }
        let asked_for = core.env.shared.share_board().asked_for();
        let now_ms = core.env.now.ms();
        if asked_for.is_empty() || now_ms < shares.checked_ms + LOOK_EVERY_MS {
            return;
        }
        shares.checked_ms = now_ms;
        for server in asked_for {
            let Some(conn) = self.core.first_to_go(&server) else { continue };
            self.core.fx.stats.counters.pinned_sessions_gave_way += 1;
            self.with_conn(conn, |exchange, conn| exchange.lose_conn(conn, GAVE_WAY));
        }
    }
}

impl Core {
    /// What statements of this worker's have waited for, for half of the time that they may.
    fn wishes(&self) -> Vec<Wish> {
        let half_us = self.env.snapshot.settings.connect_timeout_server_max * 1_000 / 2;
        let mut wishes = Vec::new();
        for (hostgroup, waiters) in self.servers.pool.waited_for() {
            let waits_long = |since_us: u64| self.env.now.us.saturating_sub(since_us) >= half_us;
            let mut users: Vec<String> = Vec::new();
            let late = waiters.iter().take(WAITERS_MAX);
            let late = late.take_while(|waiter| waits_long(waiter.since_us));
            for client in late.filter_map(|waiter| self.clients.get(waiter.client)) {
                let name = &client.session.login.user.name;
                if users.len() < USERS_MAX && !users.contains(name) {
                    users.push(name.clone());
                }
            }
            if users.is_empty() || waiters.hold().is_some() {
                continue;
            }
            let slots = self.servers.pool.slots().map(|(_, slot)| slot);
            let is_full = |slot: &&trunkline_pool::Slot| {
                slot.server.key.hostgroup == hostgroup
                    && slot.server.health.connections() >= slot.server.max_connections
            };
            wishes.extend(
                slots
                    .filter(is_full)
                    .map(|slot| Wish { server: slot.server.key.clone(), users: users.clone() }),
            );
        }
        wishes
    }

    /// The connection of this worker's to a server whose session is to give way.
    fn first_to_go(&self, server: &ServerKey) -> Option<ConnId> {
        let slot_id = self.servers.pool.slot_of(server)?;
        let slot = self.servers.pool.slot(slot_id)?;
        let share = Share {
            connections_max: slot.server.max_connections,
            percent_max: self.env.snapshot.settings.pinned_share_max,
        };
        if slot.server.health.connections() < share.connections_max {
            return None;
        }
        let (worker, now_ms) = (self.env.options.index, self.env.now.ms());
        let holdings = self.holdings(slot_id);
        self.env.shared.share_board().hold(worker, server, holdings, share, now_ms)
    }

    /// Idle sessions that connections to a server are pinned to, by user.
    fn holdings(&self, slot: SlotId) -> Vec<Holding> {
        let mut holdings: Vec<Holding> = Vec::new();
        let is_pinned = |conn: &&Conn| {
            conn.slot == slot
                && matches!(conn.phase, ConnPhase::Ready)
                && conn.list == ConnState::Pinned
                && conn.in_flight.is_empty()
        };
        for conn in self.servers.conns.values().filter(is_pinned) {
            let owner = conn.holder.owner.and_then(|owner| self.clients.get(owner));
            let Some(client) = owner.filter(|client| matches!(client.phase, Phase::Idle)) else {
                continue;
            };
            let session = &client.session;
            let since_ms = client.active_ms;
            let same = holdings.iter_mut().find(|it| it.user == session.login.user.name);
            match same {
                Some(holding) => {
                    holding.count += 1;
                    if since_ms < holding.since_ms {
                        (holding.since_ms, holding.conn) = (since_ms, conn.id);
                    }
                }
                None => holdings.push(Holding {
                    user: session.login.user.name.clone(),
                    count: 1,
                    since_ms,
                    conn: conn.id,
                }),
            }
        }
        holdings
    }
}

#[cfg(test)]
mod tests;
