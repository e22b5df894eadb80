//! The cap on a server's connections is one for all workers: an idle connection moves to the
//! worker that needs it.

use std::sync::Arc;

use trunkline_pool::ConnId;
use trunkline_topology::{HostgroupId, ServerKey};

use crate::{
    Action, MovedConn,
    compressed::Packing,
    prepared::ServerStmts,
    rooms::{Core, Lender},
    servers::conn::{Conn, ConnPhase, ConnServer, LeftThere, OTHERS_TURN},
};

/// How often a worker asks the others for one server's connections, ms.
const ASK_EVERY_MS: u64 = 20;
/// How long a worker remembers that another one asked, ms.
const ASKED_FOR_MS: u64 = 1_000;
/// Questions remembered.
const ASKED_MAX: usize = 1_024;

/// Another worker's wish for a connection to a server.
#[derive(Debug)]
pub(super) struct Ask {
    pub(crate) key: ServerKey,
    from: usize,
    /// When it asked first.
    asked_ms: u64,
    /// Until when it counts; later each time that it asks again.
    until_ms: u64,
}

impl Core {
    /// Asks the other workers for connections to the servers of a hostgroup.
    pub(crate) fn ask_peers(&mut self, hostgroup: HostgroupId) {
        if self.env.options.workers < 2 {
            return;
        }
        let now_ms = self.env.now.ms();
        let keys: Vec<_> =
            self.servers.pool.slots().map(|(_, slot)| slot.server.key.clone()).collect();
        for key in keys.into_iter().filter(|key| key.hostgroup == hostgroup) {
            let asked_ms = self.servers.peers.asked_ms.get(&key).copied();
            if asked_ms.is_none_or(|at| now_ms.saturating_sub(at) >= ASK_EVERY_MS) {
                self.servers.peers.asked_ms.insert(key.clone(), now_ms);
                self.fx.act(Action::AskPeers(key));
            }
        }
    }

    /// See [`Worker::peer_asks`](crate::Worker::peer_asks).
    pub(crate) fn on_peer_asks(&mut self, key: ServerKey, from: usize) {
        let Some(slot) = self.servers.pool.slot_of(&key) else {
            return;
        };
        let oldest = self.servers.take_oldest_idle(slot);
        let given = oldest
            .and_then(|conn| self.with_conn(conn, |core, conn| core.give_when_fetched(conn, from)));
        if given == Some(true) {
            return;
        }
        let now_ms = self.env.now.ms();
        let until_ms = now_ms + ASKED_FOR_MS;
        // One wish, however often it is said: a connection given for each would be given back.
        let same =
            self.servers.peers.asked.iter_mut().find(|ask| ask.from == from && ask.key == key);
        if let Some(ask) = same {
            ask.until_ms = until_ms;
        } else if self.servers.peers.asked.len() < ASKED_MAX {
            self.servers.peers.asked.push_back(Ask { key, from, asked_ms: now_ms, until_ms });
        }
    }

    /// Gives a connection that just became free to a worker that asked, unless a session of this
    /// worker's has waited longer. The connection is on no list.
    pub(crate) fn offer_to_peer(&mut self, conn: &mut Conn) -> bool {
        let now_ms = self.env.now.ms();
        self.servers.peers.asked.retain(|ask| ask.until_ms >= now_ms);
        if self.servers.peers.asked.is_empty() {
            return false;
        }
        let hostgroup = conn.server.hostgroup;
        let Some(key) = self.servers.pool.slot(conn.slot).map(|slot| slot.server.key.clone())
        else {
            return false;
        };
        let Some(place) = self.servers.peers.asked.iter().position(|ask| ask.key == key) else {
            return false;
        };
        let asked_ms = self.servers.peers.asked.get(place).map_or(0, |ask| ask.asked_ms);
        let waits_ms =
            self.servers.pool.waiters(hostgroup).front().map(|waiter| waiter.since_us / 1_000);
        if waits_ms.is_some_and(|since_ms| since_ms <= asked_ms) {
            return false;
        }
        if self.fetch_before_parting(conn, None) {
            return true;
        }
        let is_quiet = conn.in_flight.is_empty();
        match self.servers.peers.asked.remove(place).filter(|_| is_quiet) {
            Some(ask) => {
                self.give(conn, ask.from);
                true
            }
            None => false,
        }
    }

    /// Gives a connection, off its list, to a worker, unless something that sessions left there is
    /// to be fetched first: then it is offered when that has come. Whether it is given.
    fn give_when_fetched(&mut self, conn: &mut Conn, to: usize) -> bool {
        let is_kept = self.fetch_before_parting(conn, None);
        if !is_kept {
            self.give(conn, to);
        }
        !is_kept
    }

    /// Takes a connection, off its list, out of this worker. Its place under the cap goes along.
    fn give(&mut self, conn: &mut Conn, to: usize) {
        let is_quiet = conn.io.packing.as_ref().is_none_or(|packing| packing.is_quiet());
        let is_whole = conn.in_flight.is_empty()
            && conn.io.outbox.is_empty()
            && conn.io.inbox.is_empty()
            && is_quiet;
        if !is_whole {
            return self.discard_idle(conn);
        }
        self.servers.forget(conn);
        let (Some(slot), Some(login)) = (
            self.servers.pool.slot(conn.slot),
            self.servers.logins.accounts.key(conn.login.account),
        ) else {
            return;
        };
        let moved = Box::new(MovedConn {
            key: slot.server.key.clone(),
            login: login.clone(),
            state: (*conn.state).clone(),
            stmts: std::mem::take(&mut conn.stmts).into_ids(),
            dirt: conn.left.dirt,
            identity: conn.server.identity.take(),
            flavor: conn.server.flavor,
            names_changes: conn.server.names_changes,
            last_gtid: conn.left.last_gtid,
            insert_ids: conn.left.insert_ids,
            marked: std::mem::take(&mut conn.left.marked),
            login_us: conn.login.login_us,
            format: conn.server.format,
            takes_attributes: conn.server.takes_attributes,
            packing: conn.io.packing.take().map(Packing::leave_list),
            tls: conn.io.tls.take(),
            epoch: conn.server.epoch,
            incarnation: conn.server.incarnation,
            health: Arc::clone(&slot.server.health),
            modes: self.servers.defaults.modes,
        });
        self.fx.stats.counters.server_connections_moved += 1;
        self.fx.act(Action::HandOver { conn: conn.id, moved, to });
    }

    /// See [`Worker::adopt`](crate::Worker::adopt).
    pub(crate) fn adopt(&mut self, moved: MovedConn) -> Option<ConnId> {
        let Some(slot) = self.servers.pool.slot_of(&moved.key) else {
            moved.give_up();
            return None;
        };
        // One that came listed would never be listed here, and what waits never be unpacked.
        debug_assert!(moved.packing.as_ref().is_none_or(|packing| !packing.is_listed()));
        let mut modes = self.servers.defaults.modes;
        modes.merge(moved.modes);
        self.follow_modes(modes, None);
        let account = self.servers.logins.accounts.intern(moved.login);
        let state = self.servers.states.intern(moved.state);
        let since_ms = self.env.now.ms();
        let place = (slot, moved.key.hostgroup);
        Some(self.servers.conns.insert_with(|id| {
            let mut conn = Conn::new(id, place, account, ConnPhase::Ready, state);
            conn.io.packing = moved.packing;
            conn.io.tls = moved.tls;
            conn.login.login_us = moved.login_us;
            conn.server = ConnServer {
                hostgroup: conn.server.hostgroup,
                identity: moved.identity,
                flavor: moved.flavor,
                format: moved.format,
                takes_attributes: moved.takes_attributes,
                names_changes: moved.names_changes,
                epoch: moved.epoch,
                incarnation: moved.incarnation,
                ..ConnServer::default()
            };
            conn.stmts = ServerStmts::to_close(moved.stmts);
            // Its schema is chosen anew, unless none was ever defined.
            conn.left = LeftThere {
                last_gtid: moved.last_gtid,
                insert_ids: moved.insert_ids,
                marked: moved.marked,
                dirt: moved.dirt,
                soiled_turn: OTHERS_TURN,
                conditions_turn: Some(OTHERS_TURN),
                ..LeftThere::default()
            };
            conn.holder.since_ms = since_ms;
            conn
        }))
    }
}
